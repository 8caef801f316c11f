"""The score region: what a graph does to `Q K^T` before the softmax, as scalar arithmetic.

Floats are computed in f32, integers (indices, lengths and truth values of masks that the attention does not state
itself) in their own types.
"""

from collections.abc import Callable
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, TensorType, f32, i1
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from xpaged.dialects.rock.ops import DerefOp, YieldOp
from xpaged.dialects.tosa import elementwise, ops
from xpaged.dialects.tosa.constants import constant_of
from xpaged.errors import XpagedError
from xpaged.ir import dense
from xpaged.ir.locations import copy_location, describe
from xpaged.lowering.attention_masks import origin
from xpaged.lowering.attention_match import Attention
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
_INTEGER: dict[type[Operation], Callable[[SSAValue, SSAValue], Operation]] = {
    elementwise.AddOp: arith.AddiOp,
    elementwise.IntDivOp: arith.DivSIOp,
    elementwise.LogicalAndOp: arith.AndIOp,
    elementwise.LogicalOrOp: arith.OrIOp,
    elementwise.MaximumOp: arith.MaxSIOp,
    elementwise.MinimumOp: arith.MinSIOp,
    elementwise.MulOp: arith.MuliOp,
    elementwise.SubOp: arith.SubiOp,
}
_COMPARE: dict[type[Operation], tuple[str, str]] = {
    elementwise.GreaterOp: ("ogt", "sgt"),
    elementwise.GreaterEqualOp: ("oge", "sge"),
    elementwise.EqualOp: ("oeq", "eq"),
}
_ELEMENTWISE = (
    elementwise.BinaryOp,
    elementwise.CastOp,
    elementwise.CompareOp,
    elementwise.MulOp,
    elementwise.NegateOp,
    elementwise.SelectOp,
    elementwise.UnaryOp,
)


class ScoreRegion:
    """Builds the region; `first` is the product that the scores come from, `inputs` what else the region reads, and
    `ops` the operations of the graph that it computes.

    Of the roundings in the graph only explicit conversions to fewer bits are kept.
    """

    def __init__(self, attention: Attention):
        self.attention = attention
        self.first: ops.MatMulOp | None = None
        self.inputs: list[View] = []
        self.ops: set[Operation] = set()
        self._block = Block()
        self._known: dict[tuple[Any, ...], SSAValue] = {}
        self._score_argument: SSAValue = self._block.insert_arg(f32, 0)
        result = self._emit(attention.scores)
        if self.first is None:
            raise XpagedError("a softmax is not that of the scores of a product", at=attention.second)
        for step in attention.steps:
            op = cast(Operation, step.view.source.owner)
            if step.mask is None:
                assert isinstance(op, elementwise.CastOp)
                result = self._converted(result, _element(op.output), op)
                self.ops.add(op)
            elif step.mask.reason is not None:
                result = self._masked(step.view, op, step.mask.scores, result)
                self.ops.add(op)
        if not isinstance(result.type, AnyFloat):
            raise self._refused(attention.scores.source, f"scores of {result.type} in the softmax", "floats")
        self._result = result

    def region(self) -> Region:
        """The region, empty when the scores enter the softmax as they are. To be called once."""
        if self._result is self._score_argument:
            return Region()
        self._add(YieldOp(self._result), self.attention.second)
        return Region(self._block)

    def _add(self, op: Operation, source: Operation) -> SSAValue:
        copy_location(source, op)
        self._block.add_op(op)
        return op.results[0] if op.results else self._score_argument

    def _emit(self, view: View) -> SSAValue:
        """The scalar at the coordinates of a score, f32 for every float; each value is computed once."""
        view = view.followed()
        key = (view.source, *view.coordinates())
        if key not in self._known:
            self._known[key] = self._computed(view)
        return self._known[key]

    def _computed(self, view: View) -> SSAValue:
        source = view.source
        op = source.owner
        if constant_of(source) is not None:
            return self._constant(view)
        if isinstance(op, ops.MatMulOp):
            return self._score(view, op)
        if not isinstance(op, Operation) or isinstance(op, DerefOp):
            return self._input(view)
        result = self._arithmetic(view, op)
        self.ops.add(op)
        return result

    def _arithmetic(self, view: View, op: Operation) -> SSAValue:
        if not isinstance(op, _ELEMENTWISE):
            raise self._refused(op.results[0], f"'{op.name}'", "elementwise arithmetic")
        count = 2 if isinstance(op, elementwise.MulOp) else 1 if isinstance(op, elementwise.NegateOp) else None
        operands = [view.operand(o) for o in op.operands[:count]]  # the rest are shifts and zero points
        if isinstance(op, elementwise.CastOp):
            return self._cast(self._emit(operands[0]), _element(op.input), _element(op.output), op)
        if isinstance(op, elementwise.SelectOp):
            condition, on_true, on_false = (self._emit(v) for v in operands)
            return self._add(arith.SelectOp(condition, on_true, on_false), op)
        if type(op) in _COMPARE:
            left, right = self._emit(operands[0]), self._emit(operands[1])
            floats, integers = _COMPARE[type(op)]
            if isinstance(left.type, AnyFloat):
                return self._add(arith.CmpfOp(left, right, floats), op)
            return self._add(arith.CmpiOp(left, right, integers), op)
        if isinstance(_element(op.results[0]), AnyFloat):
            return self._on_floats(operands, op)
        return self._on_integers(operands, op)

    def _on_floats(self, operands: list[View], op: Operation) -> SSAValue:
        if type(op) in _UNARY:
            return self._add(_UNARY[type(op)](self._emit(operands[0])), op)
        if type(op) in _BINARY:
            return self._add(_BINARY[type(op)](*(self._emit(v) for v in operands[:2])), op)
        match op:
            case elementwise.MaximumOp() | elementwise.MinimumOp():
                larger = isinstance(op, elementwise.MaximumOp)
                if ops.ignores_nan(op):
                    make = arith.MaxnumfOp if larger else arith.MinnumfOp
                else:
                    make = arith.MaximumfOp if larger else arith.MinimumfOp
                return self._add(make(self._emit(operands[0]), self._emit(operands[1])), op)
            case elementwise.ReciprocalOp():
                return self._add(arith.DivfOp(self._number(1.0, op), self._emit(operands[0])), op)
            case elementwise.SigmoidOp():
                negated = self._add(arith.NegfOp(self._emit(operands[0])), op)
                total = self._add(arith.AddfOp(self._number(1.0, op), self._add(math.ExpOp(negated), op)), op)
                return self._add(arith.DivfOp(self._number(1.0, op), total), op)
            case _:
                raise self._refused(op.results[0], f"'{op.name}'", "elementwise arithmetic")

    def _on_integers(self, operands: list[View], op: Operation) -> SSAValue:
        if type(op) in _INTEGER:
            return self._add(_INTEGER[type(op)](*(self._emit(v) for v in operands[:2])), op)
        match op:
            case elementwise.LogicalNotOp():
                return self._add(arith.XOrIOp(self._emit(operands[0]), self._integer(1, i1, op)), op)
            case elementwise.NegateOp() | elementwise.AbsOp():
                value = self._emit(operands[0])
                negated = self._add(arith.SubiOp(self._integer(0, value.type, op), value), op)
                if isinstance(op, elementwise.NegateOp):
                    return negated
                return self._add(arith.MaxSIOp(value, negated), op)
            case _:
                raise self._refused(op.results[0], f"'{op.name}' of integers", "elementwise arithmetic")

    def _refused(self, at: SSAValue, found: str, expected: str) -> XpagedError:
        return XpagedError("this cannot be part of the scores of an attention", at=at, found=found, expected=expected)

    def _number(self, value: float, source: Operation) -> SSAValue:
        return self._add(arith.ConstantOp(FloatAttr(value, f32)), source)

    def _integer(self, value: int, type: Attribute, source: Operation) -> SSAValue:
        return self._add(arith.ConstantOp(IntegerAttr(value, cast(IntegerType, type))), source)

    def _constant(self, view: View) -> SSAValue:
        source = view.source
        value, element = dense.splat_value(constant_of(source)), _element(source)
        if value is None:
            return self._input(view)
        assert isinstance(source.owner, Operation)
        if isinstance(element, AnyFloat):
            return self._number(float(value), source.owner)
        return self._integer(int(value), element, source.owner)

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
        if self.first is None:
            self.first = op
            if isinstance(element := _element(op.output), IntegerType):
                self._score_argument = Rewriter.replace_value_with_new_type(self._score_argument, element)
        return self._score_argument

    def _input(self, view: View) -> SSAValue:
        """A new extra input of the region: an element of a function argument, a constant or a page."""
        if not isinstance(view.source, BlockArgument) and constant_of(view.source) is None:
            raise self._refused(view.source, origin(view.source), "a function argument")
        element = _element(view.source)
        self.inputs.append(view)
        argument = self._block.insert_arg(element, len(self._block.args))
        return self._widened(argument, self.attention.second) if isinstance(element, AnyFloat) else argument

    def _truth(self, value: SSAValue, source: Operation) -> SSAValue:
        return self._add(arith.CmpiOp(value, self._integer(0, value.type, source), "ne"), source)

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

    def _cast(self, value: SSAValue, before: Attribute, after: Attribute, op: Operation) -> SSAValue:
        """A value of the graph's type `before` as one of `after`."""
        if isinstance(before, AnyFloat):
            if isinstance(after, AnyFloat):
                return self._converted(value, after, op)
            if after == i1:
                return self._add(arith.CmpfOp(value, self._number(0.0, op), "une"), op)
            raise self._refused(op.results[0], f"a conversion from {before} to {after}", "float scores")
        assert isinstance(before, IntegerType)
        if isinstance(after, AnyFloat):
            make = arith.UIToFPOp if before == i1 else arith.SIToFPOp
            return self._converted(self._add(make(value, f32), op), after, op)
        assert isinstance(after, IntegerType)
        if after == before:
            return value
        if after == i1:
            return self._truth(value, op)
        if before == i1:
            return self._add(arith.ExtUIOp(value, after), op)
        make = arith.ExtSIOp if after.width.data > before.width.data else arith.TruncIOp
        return self._add(make(value, after), op)

    def _masked(self, view: View, op: Operation, scores: SSAValue, inner: SSAValue) -> SSAValue:
        """A mask that the attention does not state, put on `inner`, which is what the graph's `scores` are."""
        if isinstance(op, elementwise.SelectOp):
            condition = self._emit(view.operand(op.condition))
            choices = [inner if o is scores else self._emit(view.operand(o)) for o in (op.on_true, op.on_false)]
            return self._add(arith.SelectOp(condition, *choices), op)
        assert isinstance(op, elementwise.AddOp)
        other = op.input2 if scores is op.input1 else op.input1
        return self._add(arith.AddfOp(inner, self._emit(view.operand(other))), op)


def _element(value: SSAValue) -> Any:
    assert isinstance(value.type, TensorType)
    return value.type.element_type
