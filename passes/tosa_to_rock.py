"""tosa-to-rock: attention in a TOSA graph becomes `rock.attention`, and what only moves elements becomes views.

    func.func @f(%q: tensor<1x2x4xf16>, %k: tensor<1x4x3xf16>, %v: tensor<1x3x4xf16>) -> tensor<1x2x4xf16> {
      %half = "tosa.const"() <{values = dense<0.5> : tensor<1x1x1xf16>}> : () -> tensor<1x1x1xf16>
      %0 = tosa.matmul %q, %k : (tensor<1x2x4xf16>, tensor<1x4x3xf16>) -> tensor<1x2x3xf16>
      %1 = tosa.mul %0, %half : (tensor<1x2x3xf16>, tensor<1x1x1xf16>) -> tensor<1x2x3xf16>
      %2 = tosa.reduce_max %1 {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
      %3 = tosa.sub %1, %2 : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
      %4 = tosa.exp %3 : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
      %5 = tosa.reduce_sum %4 {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
      %6 = tosa.reciprocal %5 : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
      %7 = tosa.mul %4, %6 : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
      %8 = tosa.matmul %7, %v : (tensor<1x2x3xf16>, tensor<1x3x4xf16>) -> tensor<1x2x4xf16>
      return %8 : tensor<1x2x4xf16>
    }

becomes

    func.func @f(%q: tensor<1x2x4xf16>, %k: tensor<1x4x3xf16>, %v: tensor<1x3x4xf16>) -> tensor<1x2x4xf16>
        attributes {rock.kernel} {
      %0 = rock.attention {
        qk = %q * %k : tensor<1x2x4xf16>, tensor<1x4x3xf16>
        qk = elementwise {
        ^bb0(%1: f32):
          %2 = arith.constant 0.5 : f32
          %3 = arith.mulf %1, %2 : f32
          rock.yield %3 : f32
        }
        softmax(qk) * %v : tensor<1x3x4xf16>
      } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf16>
      return %0 : tensor<1x2x4xf16>
    }

Scale, bias and other arithmetic on the scores goes into the score region, masks by key index become attributes and
operands, K and V are traced to their own `rock.deref`s, and repeated KV heads are read once. The deref stage
(tosa-to-rock-deref) comes first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp, UnitAttr, f32
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from xpaged.dialects import rocmlir_names
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.ops import DerefOp
from xpaged.dialects.rock.views import make_chain
from xpaged.dialects.tosa import ops
from xpaged.errors import XpagedError
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.levels import Level
from xpaged.ir.locations import describe
from xpaged.ir.pass_base import LevelPass
from xpaged.ir.transform_map import Transform, TransformMap
from xpaged.lowering.attention_match import HEAD, Attention, attention_at, origin
from xpaged.lowering.dead_code import erase_dead
from xpaged.lowering.insertion import builder_before
from xpaged.lowering.kernel import KERNEL
from xpaged.lowering.score_region import ScoreRegion
from xpaged.lowering.tosa_views import View, is_view, shape_of, step_of
from xpaged.lowering.view_maps import maps_of, position_of


@dataclass(frozen=True)
class TosaToRockPass(LevelPass):
    """Fuse attention and turn what is left, which only moves elements, into views (see the module's text)."""

    name = "tosa-to-rock"
    takes: ClassVar[Level | None] = None
    leaves: ClassVar[Level | None] = Level.ROCK

    def run(self, ctx: Context, module: ModuleOp) -> None:
        for op in list(module.walk()):
            if isinstance(op, FuncOp) and op.body.blocks:
                _convert(op)


def _convert(function: FuncOp) -> None:
    """Fuse every attention of a function, then turn its views into transforms; refuse what is left."""
    reasons: dict[Operation, str] = {}
    for op in list(function.walk()):
        if rocmlir_names.is_deref(op):
            raise XpagedError(
                "a read through addresses is left",
                at=op,
                fix="run tosa-to-rock-deref before tosa-to-rock",
            )
        if isinstance(op, ops.MatMulOp):
            found = attention_at(op)
            if isinstance(found, str):
                reasons[op] = found
            else:
                _fuse(function, found)
    erase_dead(function)
    _views_to_transforms(function)
    erase_dead(function)
    _refuse_rest(function, reasons)


def _fuse(function: FuncOp, found: Attention) -> None:
    """Replace the second product of an attention by `rock.attention`."""
    second = found.second
    scores = ScoreRegion(found)
    first = scores.first
    assert first is not None
    queries, keys, values = (View.of(value).followed() for value in (first.a, first.b, second.b))
    for name, view in (("Q", queries), ("K", keys), ("V", values)):
        _expect_memory(name, view, second)
    derefs = [view.source if isinstance(view.source.owner, DerefOp) else None for view in (keys, values)]
    _expect_both_paged(keys, values, second)

    groups = queries.bounds[0]
    repeats = _repeats(groups, keys, values)
    batch = _batch(first, derefs[0], groups, repeats)
    builder = builder_before(second)
    attention = AttentionOp(
        _insert(builder, queries, ("head", "query", "channel")),
        _insert(builder, _one_of_each(keys, repeats), ("head", "channel", "key")),
        _insert(builder, _one_of_each(values, repeats), ("head", "key", "channel")),
        preSoftmaxElemWiseInputs=[_insert(builder, view, ("head", "query", "key")) for view in scores.inputs],
        currentSeqLen=_per_head(builder, found.masks.last_key),
        prefixOffset=_per_head(builder, found.masks.prefix_offset),
        keyAddresses=derefs[0],
        valueAddresses=derefs[1],
        numHeadsQ=groups // batch,
        numHeadsKV=groups // repeats // batch,
        causal=found.masks.causal,
        softmaxType=f32,
        preSoftmaxBody=scores.region(),
        result_types=[second.output.type],
    )
    if (perf_config := second.attributes.get("perf_config")) is not None:
        attention.attributes["perf_config"] = perf_config
    builder.insert(attention)
    result = attention.results[0]
    result.name_hint = second.output.name_hint
    second.output.replace_all_uses_with(result)
    second.detach()
    second.erase()
    if KERNEL not in function.attributes:
        function.attributes[KERNEL] = function.attributes.pop("kernel", UnitAttr())  # the older spelling


def _expect_memory(name: str, view: View, second: Operation) -> None:
    """Q, K and V must be views of function arguments or pages, of 16- or 32-bit floats."""
    source = view.source
    if not isinstance(source, BlockArgument) and not isinstance(source.owner, DerefOp):
        raise XpagedError(
            f"{name} of an attention must be a view of a function argument or of a deref",
            at=source,
            found=origin(source),
            fix="compute it in a kernel of its own and pass it as an argument",
        )
    element = cast(Any, source.type).element_type
    if not isinstance(element, AnyFloat) or element.bitwidth not in (16, 32):
        raise XpagedError(
            f"{name} of an attention has elements of an unsupported type",
            at=second,
            found=element,
            expected="f16, bf16 or f32",
        )


def _expect_both_paged(keys: View, values: View, second: Operation) -> None:
    """K and V must both come from derefs, or neither."""
    paged = [isinstance(view.source.owner, DerefOp) for view in (keys, values)]
    if paged[0] != paged[1]:
        names = ("K", "V") if paged[0] else ("V", "K")
        raise XpagedError(
            f"{names[0]} of an attention is read from pages, but {names[1]} is not: both must be, or neither",
            at=second,
            found=f"{names[1]} is a view of {origin((values if paged[0] else keys).source)}",
        )


def _repeats(groups: int, keys: View, values: View) -> int:
    """The largest number of neighbouring query heads that read the same K and the same V."""
    head = IndexExpr.var(HEAD, 0, groups - 1)
    positions = [position_of(keys), position_of(values)]
    for repeats in range(groups, 1, -1):
        if groups % repeats == 0:
            first = head // repeats * repeats
            if all(p is not None and p.substitute({HEAD: first}) == p for p in positions):
                return repeats
    return 1


def _one_of_each(view: View, repeats: int) -> View:
    """The view of `[heads, ..]` as `[heads / repeats, ..]`: the first of every `repeats` heads."""
    if repeats == 1:
        return view
    heads, a, b = view.bounds
    kv_heads = heads // repeats
    rest = Transform("PassThrough", (), ("dim1", "dim2"), (1, 2), ("dim1", "dim2"), (1, 2))
    first = TransformMap(
        (
            Transform("PassThrough", (), ("head",), (0,), ("head",), (0,)),
            Transform("ConstDim", (0, repeats), (), (), ("repeat",), (1,)),
            Transform("PassThrough", (), ("dim1", "dim2"), (1, 2), ("dim1", "dim2"), (2, 3)),
        ),
        (kv_heads, a, b),
        (kv_heads, repeats, a, b),
    )
    merged = TransformMap(
        (
            Transform("Unmerge", (kv_heads, repeats), ("head", "repeat"), (0, 1), ("head",), (0,)),
            Transform(rest.kind, (), rest.upper_names, (2, 3), rest.lower_names, (1, 2)),
        ),
        (kv_heads, repeats, a, b),
        view.bounds,
    )
    return view.under([first, merged], (kv_heads, a, b))


def _per_head(builder: Builder, view: View | None) -> SSAValue | None:
    """Insert a view over `[head, query, key]` that depends on the head only, as a view over `[head]`."""
    if view is None:
        return None
    heads, queries, keys = view.bounds
    at_zero = TransformMap(
        (
            Transform("PassThrough", (), ("head",), (0,), ("head",), (0,)),
            Transform("ConstDim", (0, queries, 0, keys), (), (), ("query", "key"), (1, 2)),
        ),
        (heads,),
        view.bounds,
    )
    return _insert(builder, view.under([at_zero], (heads,)), ("head",))


def _batch(first: ops.MatMulOp, pages: SSAValue | None, groups: int, repeats: int) -> int:
    """How many batch entries the heads of an attention are spread over, as far as the graph tells.

    The pages know, having a table for each; else the heads of Q do when they were `[batch, heads, ..]` before.
    """
    batch = 1
    if pages is not None:
        batch = shape_of(pages)[0]
    elif isinstance(first.a.owner, Operation) and (step := step_of(first.a)) is not None:
        shape = shape_of(step[0])
        if len(shape) == 4 and shape[0] * shape[1] == groups:
            batch = shape[0]
    return batch if (groups // repeats) % batch == 0 else 1


def _insert(builder: Builder, view: View, names: Sequence[str]) -> SSAValue:
    """The view as `rock.transform`s, with `names` for its dimensions."""
    return make_chain(builder, view.source, maps_of(view, names))


def _views_to_transforms(function: FuncOp) -> None:
    """Every value that is only moved, and used by what does not just move it further, becomes a `rock.transform`."""
    for op in list(function.walk()):
        for index, operand in enumerate(op.operands):
            moved = operand.owner
            if is_view(op) or not isinstance(moved, Operation) or moved.dialect_name() not in ("tosa", "tensor"):
                continue
            view = View.of(operand).followed()
            if view.source is operand:
                continue
            names = [f"dim{i}" for i in range(len(view.bounds))]
            builder = builder_before(op, moved)
            op.operands[index] = make_chain(builder, view.source, maps_of(view, names), operand.name_hint)


def _refuse_rest(function: FuncOp, reasons: dict[Operation, str]) -> None:
    """XpagedError for an operation that could not be fused: the last product, if there is one, since it tells most."""
    rest = [op for op in function.walk() if op.dialect_name() in ("tosa", "tensor")]
    if not rest:
        return
    products = [op for op in rest if op in reasons]
    op = products[-1] if products else rest[0]
    if products:
        raise XpagedError(
            "a product outside attention is not supported",
            at=op,
            found=f"{reasons[op]}",
            expected="softmax(scores) * values",
        )
    users = sorted({use.operation.name for result in op.results for use in result.uses})
    attentions = [describe(a) for a in function.walk() if isinstance(a, AttentionOp)]
    place = f"outside the attention at {attentions[0]}" if attentions else "in a function without attention"
    raise XpagedError(
        f"'{op.name}' {place} is not supported",
        at=op,
        found=f"its result is used by {_listed(users)}" if users else "its result is not used",
        fix="only views (reshape, transpose, slice) may stand around an attention",
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
