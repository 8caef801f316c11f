"""Replaces an attention that was found in a TOSA graph by `rock.attention`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.builder import Builder
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, TensorType, UnitAttr, f32, i8, i32, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.ops import DerefOp
from xpaged.dialects.rock.views import make_chain
from xpaged.dialects.tosa import elementwise, ops
from xpaged.dialects.tosa.constants import constant_of
from xpaged.errors import XpagedError
from xpaged.ir import dense
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.transform_map import Builder as MapBuilder
from xpaged.ir.transform_map import Transform, TransformMap
from xpaged.lowering.attention_masks import HEAD, Bound, origin
from xpaged.lowering.attention_match import Attention, LogSumExp, attention_at
from xpaged.lowering.insertion import builder_before
from xpaged.lowering.kernel import KERNEL
from xpaged.lowering.page_addresses import without_guards
from xpaged.lowering.score_region import ScoreRegion
from xpaged.lowering.tosa_views import View, reshape_maps, shape_of, step_of
from xpaged.lowering.view_maps import maps_of, same_elements


@dataclass
class Fused:
    """What became of the products of a function."""

    attentions: list[AttentionOp] = field(default_factory=list[AttentionOp])
    roles: dict[Operation, str] = field(default_factory=dict[Operation, str])
    """What operations of the graph are in an attention, in words; some of them may be gone by now."""
    reasons: dict[Operation, str] = field(default_factory=dict[Operation, str])
    """Why a product is not the last one of an attention, in words."""


def fuse_attentions(function: FuncOp) -> Fused:
    """Replace every attention in a function at level tosa, whose derefs are `rock.deref`s already.

    What an attention has taken over stays where it is, used no more. Raises XpagedError for an attention of which a
    part cannot be fused, with the operation and the reason.
    """
    done = Fused()
    for op in list(function.walk()):
        if not isinstance(op, ops.MatMulOp):
            continue
        found = attention_at(op)
        if isinstance(found, str):
            done.reasons[op] = found
        else:
            _fuse(function, found, done)
    return done


def _fuse(function: FuncOp, found: Attention, done: Fused) -> None:
    """Replace the second product of an attention by `rock.attention`."""
    second = found.second
    scores = ScoreRegion(found)
    first = scores.first
    assert first is not None
    done.roles |= found.roles | {first: "the product of queries and keys"}
    done.roles |= {op: "score region" for op in scores.ops if op not in found.roles}
    queries, keys, values = (View.of(value).in_memory() for value in (first.a, first.b, second.b))
    last_key, count = found.masks.last_key, found.shape.keys
    if found.shape.parts == 1:
        keys = without_guards("K", keys, last_key, count, 2, second)
        values = without_guards("V", values, last_key, count, 1, second)
    for name, view in (("Q", queries), ("K", keys), ("V", values)):
        _expect_memory(name, view, second)
    derefs = [view.source if isinstance(view.source.owner, DerefOp) else None for view in (keys, values)]
    _expect_both_paged(keys, values, second)
    parts, inputs = found.shape.parts, scores.inputs
    if parts > 1:
        _expect_parts(queries, parts, found)
        queries, keys, values = (_joined(v, parts, dim) for v, dim in ((queries, None), (keys, 2), (values, 1)))
        inputs = [_joined(view, parts, 2) for view in inputs]

    groups, rows = queries.bounds[:2]
    repeats = _repeats(groups, keys, values)
    batch = _batch(first, derefs[0], groups, repeats)
    builder = builder_before(second)
    masks = found.masks
    result_types: list[Attribute] = [second.output.type]
    if found.lse is not None:
        result_types.append(TensorType(_lse_type(found.lse), [groups * parts, rows]))
    attention = AttentionOp(
        insert_view(builder, queries, ("head", "query", "channel")),
        insert_view(builder, _one_of_each(keys, repeats), ("head", "channel", "key")),
        insert_view(builder, _one_of_each(values, repeats), ("head", "key", "channel")),
        preSoftmaxElemWiseInputs=[insert_view(builder, view, ("head", "query", "key")) for view in inputs],
        currentSeqLen=_per_head(builder, masks.last_key, groups),
        prefixOffset=_prefix_offset(builder, masks.causal, groups),
        keyAddresses=derefs[0],
        valueAddresses=derefs[1],
        numHeadsQ=groups // batch,
        numHeadsKV=groups // repeats // batch,
        causal=masks.causal is not None,
        splitKV=parts,
        slidingWindowLookBack=masks.window,
        softmaxType=f32,
        preSoftmaxBody=scores.region(),
        result_types=result_types,
    )
    for name, bound in (("kvIndexClamp", masks.last_key), ("prefixOffsetClamp", masks.causal)):
        if (clamp := _clamp(bound)) is not None:
            attention.properties[name] = clamp
    if (perf_config := second.attributes.get("perf_config")) is not None:
        attention.attributes["perf_config"] = perf_config
    builder.insert(attention)
    done.attentions.append(attention)
    result = attention.results[0]
    result.name_hint = second.output.name_hint
    second.output.replace_all_uses_with(result)
    if found.lse is not None:
        _replace_lse(builder, found.lse, attention.results[1])
    block = second.parent_block()
    second.detach()
    second.erase()
    if found.lse is not None and block is not None:
        _reorder(block)
    if KERNEL not in function.attributes:
        function.attributes[KERNEL] = function.attributes.pop("kernel", UnitAttr())  # the older spelling


def _expect_memory(name: str, view: View, second: Operation) -> None:
    """Q, K and V must be views of values in memory, of 16- or 32-bit floats; Q and K also of i8."""
    source = view.source
    element = cast(Any, source.type).element_type
    if constant_of(source) is not None:
        raise XpagedError(f"{name} of an attention is a constant", at=source, fix="pass it as a function argument")
    integers = element == i8 and name != "V"
    if not integers and (not isinstance(element, AnyFloat) or element.bitwidth not in (16, 32)):
        raise XpagedError(
            f"{name} of an attention has elements of an unsupported type",
            at=second,
            found=element,
            expected="f16, bf16 or f32" + ("" if name == "V" else ", or i8"),
        )
    pages = _pages_behind(source)
    if pages is not None and pages is not source.owner:
        raise XpagedError(
            f"{name} of an attention is computed from what is read through addresses",
            at=source,
            found=origin(source),
            expected="pages that are read as they are: they are loaded inside of the attention only",
            fix="apply the operation to the scores, or to the output, of the attention",
        )


def _pages_behind(value: SSAValue) -> DerefOp | None:
    """A deref that `value` is computed from."""
    seen, pending = set[SSAValue](), [value]
    while pending:
        owner = (current := pending.pop()).owner
        if isinstance(owner, DerefOp):
            return owner
        if isinstance(owner, Operation) and not isinstance(owner, AttentionOp) and current not in seen:
            seen.add(current)
            pending += owner.operands
    return None


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
    for repeats in range(groups, 1, -1):
        if groups % repeats == 0:
            first = head // repeats * repeats
            if all(same_elements(view, {HEAD: first}) for view in (keys, values)):
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


def _expect_parts(queries: View, parts: int, found: Attention) -> None:
    """Parts of the keys need a log-sum-exp, to be merged with, and read the same Q."""
    if found.lse is None:
        raise XpagedError(
            "an attention over parts of the keys needs its log-sum-exp as a result: the parts are merged with it",
            at=found.second,
            found=f"splitKV = {parts}",
        )
    first = IndexExpr.var(HEAD, 0, queries.bounds[0] - 1) // parts * parts
    if not same_elements(queries, {HEAD: first}):
        raise XpagedError(
            "parts of the keys of an attention must read the same Q", at=found.second, found=f"splitKV = {parts}"
        )


def _joined(view: View, parts: int, key_dim: int | None) -> View:
    """A view of `parts` parts of each head as one of heads: all of its keys, or without keys (None) the first part."""
    heads, *matrix = view.bounds
    names = ("head", "dim1", "dim2")
    whole, upper = (
        [heads // parts, *matrix],
        MapBuilder(("head", "part", "dim1", "dim2"), (heads // parts, parts, *matrix)),
    )
    upper = upper.pass_through("head")
    if key_dim is None:
        upper = upper.const_dim("part", 0).pass_through("dim1", "dim2")
    else:
        whole[key_dim] *= parts
        for dim in (1, 2):
            upper = upper.merge("key", ("part", f"dim{dim}")) if dim == key_dim else upper.pass_through(f"dim{dim}")
    lower = MapBuilder(names, view.bounds).unmerge(("head_", "part"), "head", (heads // parts, parts))
    return view.under([upper.build(), lower.pass_through("dim1", "dim2").build()], whole)


def _per_head(builder: Builder, bound: Bound | None, heads: int) -> SSAValue | None:
    """The leaf of a bound, a view over `[head, query, key]` that depends on the head only, as one over `[head]`: the
    first part of each, where heads have parts."""
    if bound is None:
        return None
    if bound.leaf is None:
        constant = ConstantOp(dense.splat(TensorType(i32, [1]), bound.add))
        builder.insert(constant)
        repeated = TransformMap((Transform("Broadcast", (1,), ("head",), (0,), ("head",), (0,)),), (heads,), (1,))
        return make_chain(builder, constant.result, [repeated] if heads > 1 else [])
    whole, queries, keys = bound.leaf.bounds
    at_zero = TransformMap(
        (
            Transform("PassThrough", (), ("head",), (0,), ("head",), (0,)),
            Transform("ConstDim", (0, queries, 0, keys), (), (), ("query", "key"), (1, 2)),
        ),
        (whole,),
        bound.leaf.bounds,
    )
    maps = [at_zero]
    if whole != heads:
        parts = MapBuilder(("head",), (whole,)).unmerge(("h", "part"), "head", (heads, whole // heads)).build()
        first = MapBuilder(("h", "part"), parts.upper_bounds).pass_through("h").const_dim("part", 0).build()
        maps = [first, parts, at_zero]
    return insert_view(builder, bound.leaf.under(maps, (heads,)), ("head",))


def _prefix_offset(builder: Builder, bound: Bound | None, heads: int) -> SSAValue | None:
    """The prefix offset of a causal mask, which needs none when it is 0 for every head."""
    plain = bound is None or (bound.leaf is None and bound.add == 0)
    return None if plain else _per_head(builder, bound, heads)


def _clamp(bound: Bound | None) -> DenseArrayBase | None:
    """What is done to the elements of a bound's leaf; None when they are taken as they are."""
    if bound is None or bound.leaf is None or bound[1:] == (0, None, None):
        return None
    least = -(2**31) if bound.least is None else max(bound.least, -(2**31))
    most = 2**31 - 1 if bound.most is None else min(bound.most, 2**31 - 1)
    return DenseArrayBase.from_list(i64, [least, most, bound.add])


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


def insert_view(builder: Builder, view: View, names: Sequence[str]) -> SSAValue:
    """The view as `rock.transform`s, with `names` for its dimensions; constants become `arith.constant`s."""
    source, elements = view.source, constant_of(view.source)
    if elements is not None and not isinstance(source.owner, ConstantOp):
        assert isinstance(source.owner, Operation)
        constant = ConstantOp(elements)
        constant.result.name_hint = source.name_hint
        builder_before(source.owner).insert(constant)
        source.replace_all_uses_with(constant.result)
        source = constant.result
    return make_chain(builder, source, maps_of(view, names))


def _conversion(lse: LogSumExp) -> elementwise.CastOp | None:
    """A conversion that is all that the log-sum-exp is used for."""
    uses = list(lse.value.uses)
    if len(uses) == 1 and isinstance(op := uses[0].operation, elementwise.CastOp):
        element = cast(Any, op.output.type).element_type
        return op if isinstance(element, AnyFloat) and element.bitwidth <= 32 else None
    return None


def _lse_type(lse: LogSumExp) -> Attribute:
    """The type that the log-sum-exp is wanted in."""
    op = _conversion(lse)
    return cast(Any, (lse.value if op is None else op.output).type).element_type


def _replace_lse(builder: Builder, lse: LogSumExp, result: SSAValue) -> None:
    """Let the users of the graph's log-sum-exp read that of the attention, `[heads, queries]`."""
    conversion = _conversion(lse)
    old = lse.value if conversion is None else conversion.output
    result.name_hint = old.name_hint
    shape = shape_of(result)
    view = View(result, (*lse.rows.maps, *reshape_maps(shape, shape_of(lse.rows.source))), lse.rows.bounds)
    names = [f"dim{i}" for i in range(len(view.bounds))]
    old.replace_all_uses_with(make_chain(builder, result, maps_of(view, names), old.name_hint))


def _reorder(block: Block) -> None:
    """Put every operation behind those whose results it uses, otherwise in the order in which they stand."""
    placed = set[Operation]()
    for op in list(block.ops):
        _place(op, block, placed)


def _place(op: Operation, block: Block, placed: set[Operation]) -> None:
    waiting = [op]
    while waiting:
        current = waiting[-1]
        needed = [
            x.owner
            for inner in current.walk()
            for x in inner.operands
            if not isinstance(x, BlockArgument) and isinstance(x.owner, Operation)
        ]
        missing = [o for o in needed if o.parent is block and o not in placed and o is not current]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        if current not in placed:
            placed.add(current)
            current.detach()
            block.add_op(current)
