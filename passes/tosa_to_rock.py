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
operands, K and V are traced to their own `rock.deref`s, and repeated KV heads are read once. Elementwise operations
outside of attention become a `linalg.generic` for each value that must lie in memory: what attention reads or the
function returns. The deref stage (tosa-to-rock-deref) comes first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from xpaged.dialects import rocmlir_names
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.views import make_chain
from xpaged.dialects.tosa.constants import ConstOp, ConstShapeOp
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.locations import describe
from xpaged.ir.pass_base import LevelPass
from xpaged.lowering.attention_fuse import fuse_attentions
from xpaged.lowering.dead_code import erase_dead
from xpaged.lowering.elementwise_kernels import is_computed, outline_elementwise
from xpaged.lowering.fusion_report import around_attentions
from xpaged.lowering.insertion import builder_before
from xpaged.lowering.tosa_views import View, is_view
from xpaged.lowering.view_maps import maps_of


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
    for op in function.walk():
        if rocmlir_names.is_deref(op):
            raise XpagedError(
                "a read through addresses is left",
                at=op,
                fix="run tosa-to-rock-deref before tosa-to-rock",
            )
    reasons = fuse_attentions(function).reasons
    erase_dead(function)
    _refuse_rest(function, reasons)
    outline_elementwise(function)
    erase_dead(function)
    _views_to_transforms(function)
    erase_dead(function)


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
    rest = [op for op in function.walk() if op.dialect_name() in ("tosa", "tensor") and not _is_taken(op)]
    if not rest:
        return
    attentions = [op for op in function.walk() if isinstance(op, AttentionOp)]
    products = [op for op in rest if op in reasons]
    op = products[-1] if products else rest[0]
    part = around_attentions(attentions).get(op)
    if products:
        raise XpagedError(
            "a product outside attention is not supported",
            at=op,
            found=reasons[op] + (f"; {part}" if part else ""),
            expected="softmax(scores) * values",
        )
    users = sorted({use.operation.name for result in op.results for use in result.uses})
    place = f"outside the attention at {describe(attentions[0])}" if attentions else "in a function without attention"
    raise XpagedError(
        f"'{op.name}' {place} is not supported",
        at=op,
        found=(f"its result is used by {_listed(users)}" if users else "its result is not used")
        + (f"; {part}" if part else ""),
        fix="only views (reshape, transpose, slice) and elementwise operations may stand around an attention",
    )


def _is_taken(op: Operation) -> bool:
    """Whether an operation outside attention is a view, a constant, or part of an elementwise kernel."""
    return is_view(op) or is_computed(op) or isinstance(op, ConstOp | ConstShapeOp)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
