"""The score region: what a graph does to `Q K^T` before the softmax, as scalar arithmetic in f32."""

from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerType, f32
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from xpaged.dialects.rock.ops import DerefOp, YieldOp
from xpaged.dialects.tosa import elementwise, ops
from xpaged.dialects.tosa.constants import constant_of
from xpaged.errors import XpagedError
from xpaged.ir import dense
from xpaged.ir.locations import copy_location, describe
from xpaged.lowering.attention_match import Attention, origin
from xpaged.lowering.tosa_views import View
from xpaged.lowering.view_maps import position_of

_UNARY: dict[type[Operation], Callable[[SSAValue], Operation]] = {
    elementwise.AbsOp: math.AbsFOp,
    elementwise.CeilOp: math.CeilOp,
    elementwise.ErfOp: math.ErfOp,
    elementwise.ExpOp: math.ExpOp,
    elementwise.FloorOp: math.FloorOp,
    elementwise.LogOp: math.LogOp,
    elementwise.NegateOp: arith.NegfOp,
    elementwise.RsqrtOp: math.RsqrtOp,
    elementwise.TanhOp: math.TanhOp,
}
_BINARY: dict[type[Operation], Callable[[SSAValue, SSAValue], Operation]] = {
    elementwise.AddOp: arith.AddfOp,
    elementwise.MulOp: arith.MulfOp,
    elementwise.PowOp: math.PowFOp,
    elementwise.SubOp: arith.SubfOp,
}
_COMPARE: dict[type[elementwise.CompareOp], str] = {
    elementwise.GreaterOp: "ogt",
    elementwise.GreaterEqualOp: "oge",
    elementwise.EqualOp: "oeq",
}


class ScoreRegion:
    """Builds the region; `first` is the product that the scores come from, `inputs` what else the region reads.

    Everything is computed in f32: of the roundings in the graph only explicit conversions to fewer bits are kept.
    """

    def __init__(self, attention: Attention):
        self.attention = attention
        self.first: ops.MatMulOp | None = None
        self.inputs: list[View] = []
        self._block = Block(arg_types=[f32])
        self._known: dict[tuple[Any, ...], SSAValue] = {}
        result = self._emit(attention.scores)
        for type in attention.converted:
            result = self._converted(result, type, attention.second)
        if self.first is None:
            raise XpagedError("a softmax is not that of the scores of a product", at=attention.second)
        self._result = result

    def region(self) -> Region:
        """The region, empty when the scores enter the softmax as they are. To be called once."""
        if self._result is self._block.args[0]:
            return Region()
        self._add(YieldOp(self._result), self.attention.second)
        return Region(self._block)

    def _add(self, op: Operation, source: Operation) -> SSAValue:
        copy_location(source, op)
        self._block.add_op(op)
        return op.results[0] if op.results else self._block.args[0]

    def _emit(self, view: View) -> SSAValue:
        """The f32 scalar at the coordinates of a score; each value is computed once."""
        view = view.followed()
        key = (view.source, *view.coordinates())
        if key not in self._known:
            self._known[key] = self._computed(view)
        return self._known[key]

    def _computed(self, view: View) -> SSAValue:
        source = view.source
        op = source.owner
        if not isinstance(cast(Any, source.type).element_type, AnyFloat):
            raise self._refused(source, "an integer", "float scores")
        if constant_of(source) is not None:
            return self._constant(source)
        if isinstance(op, ops.MatMulOp):
            return self._score(view, op)
        if not isinstance(op, Operation) or isinstance(op, DerefOp):
            return self._input(view)
        if type(op) in _UNARY:
            return self._add(_UNARY[type(op)](self._emit(view.operand(op.operands[0]))), op)
        if type(op) in _BINARY:
            return self._add(_BINARY[type(op)](*(self._emit(view.operand(o)) for o in op.operands[:2])), op)
        match op:
            case elementwise.MaximumOp() | elementwise.MinimumOp():
                larger = isinstance(op, elementwise.MaximumOp)
                if ops.ignores_nan(op):
                    make = arith.MaxnumfOp if larger else arith.MinnumfOp
                else:
                    make = arith.MaximumfOp if larger else arith.MinimumfOp
                return self._add(make(self._emit(view.operand(op.input1)), self._emit(view.operand(op.input2))), op)
            case elementwise.ReciprocalOp():
                return self._add(arith.DivfOp(self._number(1.0, op), self._emit(view.operand(op.input1))), op)
            case elementwise.SigmoidOp():
                negated = self._add(arith.NegfOp(self._emit(view.operand(op.input1))), op)
                total = self._add(arith.AddfOp(self._number(1.0, op), self._add(math.ExpOp(negated), op)), op)
                return self._add(arith.DivfOp(self._number(1.0, op), total), op)
            case elementwise.CastOp():
                return self._cast(view, op)
            case elementwise.SelectOp():
                on_true, on_false = self._emit(view.operand(op.on_true)), self._emit(view.operand(op.on_false))
                return self._add(arith.SelectOp(self._condition(view.operand(op.condition)), on_true, on_false), op)
            case _:
                raise self._refused(source, f"'{op.name}'", "elementwise arithmetic")

    def _refused(self, at: SSAValue, found: str, expected: str) -> XpagedError:
        return XpagedError("this cannot be part of the scores of an attention", at=at, found=found, expected=expected)

    def _number(self, value: float, source: Operation) -> SSAValue:
        return self._add(arith.ConstantOp(FloatAttr(value, f32)), source)

    def _constant(self, source: SSAValue) -> SSAValue:
        value = dense.splat_value(constant_of(source))
        if value is None:
            raise XpagedError(
                "a constant tensor with different elements cannot be part of the scores of an attention",
                at=source,
                found=source.type,
                expected="a constant whose elements are all equal",
                fix="pass the tensor as a function argument",
            )
        assert isinstance(source.owner, Operation)
        return self._number(float(value), source.owner)

    def _score(self, view: View, op: ops.MatMulOp) -> SSAValue:
        if self.first is not None and op is not self.first:
            raise XpagedError(
                "the scores of an attention are made of two products",
                at=op,
                found=f"another one at {describe(self.first)}",
            )
        whole = View.of(op.output)
        if view.bounds != whole.bounds or position_of(view) != position_of(whole):
            raise XpagedError(
                "the scores of an attention must enter the softmax in the order in which the product makes them",
                at=op,
                found=f"the score at ({', '.join(map(str, view.coordinates()))}) for d0, d1, d2",
            )
        self.first = op
        return self._block.args[0]

    def _input(self, view: View) -> SSAValue:
        """A new extra input of the region: an element of a function argument or of a page."""
        if not isinstance(view.source, BlockArgument):
            raise self._refused(view.source, origin(view.source), "a function argument")
        element = cast(Any, view.source.type).element_type
        self.inputs.append(view)
        argument = self._block.insert_arg(element, len(self._block.args))
        return self._widened(argument, self.attention.second)

    def _widened(self, value: SSAValue, source: Operation) -> SSAValue:
        if value.type == f32:
            return value
        if not isinstance(value.type, AnyFloat) or value.type.bitwidth > 32:
            raise self._refused(value, str(value.type), "f16, bf16 or f32")
        return self._add(arith.ExtFOp(value, f32), source)

    def _converted(self, value: SSAValue, type: AnyFloat, source: Operation) -> SSAValue:
        """`value` rounded to `type`, as f32 again."""
        if type.bitwidth > 32:
            raise XpagedError("scores of more than 32 bits are not supported", at=source, found=type, expected="f32")
        if type == f32:
            return value
        return self._widened(self._add(arith.TruncFOp(value, type), source), source)

    def _cast(self, view: View, op: elementwise.CastOp) -> SSAValue:
        element = cast(Any, op.input.type).element_type
        if isinstance(element, IntegerType):
            raise self._refused(op.input, f"a conversion from {element}", "float scores")
        inner = self._emit(view.onto(op.input, []))
        return self._converted(inner, cast(Any, op.output.type).element_type, op)

    def _condition(self, view: View) -> SSAValue:
        view = view.followed()
        op = view.source.owner
        if not isinstance(op, elementwise.CompareOp):
            raise self._refused(view.source, origin(view.source), "a mask that is fused, or a comparison of scores")
        left, right = self._emit(view.operand(op.input1)), self._emit(view.operand(op.input2))
        return self._add(arith.CmpfOp(left, right, _COMPARE[type(op)]), op)
