"""Operations of a graph as arithmetic on one element: for the scores of an attention, and for elementwise kernels.

Floats are computed in f32, integers (indices, lengths, truth values, quantized numbers) in their own types.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, TensorType, bf16, f16, f32, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xpaged.dialects import rocmlir_names
from xpaged.dialects.tosa import elementwise, ops
from xpaged.dialects.tosa.constants import constant_of
from xpaged.errors import XpagedError
from xpaged.ir import dense
from xpaged.ir.locations import copy_location
from xpaged.lowering.tosa_views import View

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


_SHIFTS: dict[type[Operation], Callable[[SSAValue, SSAValue], Operation]] = {
    elementwise.ArithmeticRightShiftOp: arith.ShRSIOp,
    elementwise.LogicalLeftShiftOp: arith.ShLIOp,
    elementwise.LogicalRightShiftOp: arith.ShRUIOp,
}
_CASTS = (rocmlir_names.UNSIGNED_CAST, rocmlir_names.FP_TO_INT_CAST)


def is_elementwise(op: Operation) -> bool:
    """Whether an operation of a graph computes each element of its result from one element of every operand."""
    if isinstance(op, ops.CustomOp):
        known = (*_CASTS, rocmlir_names.UNSIGNED_DIV)
        return op.domain_name.data == rocmlir_names.DOMAIN and op.operator_name.data in known
    return isinstance(op, _ELEMENTWISE)


class Scalars:
    """Computes elements of tensors as scalars in `block`, whose arguments are the elements of `inputs`.

    `ops` are the operations of the graph that are computed so. Of the roundings in the graph only explicit conversions
    to fewer bits are kept. Subclasses say what is not computed (`leaf`), and what they refuse is called (`refused`).
    """

    def __init__(self, at: Operation) -> None:
        """`at` is where what stands for no operation of the graph belongs."""
        self.at = at
        self.inputs: list[View] = []
        self.ops: set[Operation] = set()
        self.block = Block()
        self._known: dict[tuple[Any, ...], SSAValue] = {}

    def leaf(self, view: View) -> SSAValue | None:
        """The scalar for a value that is not computed here, None for one that is."""
        del view
        return None

    def refused(self, at: SSAValue, found: str, expected: str) -> XpagedError:
        """The error for a value that cannot be computed."""
        return XpagedError("this is not elementwise", at=at, found=found, expected=expected)

    def emit(self, view: View) -> SSAValue:
        """The scalar at the coordinates of a view, f32 for every float; each value is computed once."""
        view = view.followed()
        key = (view.source, *view.coordinates())
        if key not in self._known:
            self._known[key] = self._computed(view)
        return self._known[key]

    def stored(self, value: SSAValue, element: Attribute) -> SSAValue:
        """A scalar as it is kept in memory: floats rounded to their type."""
        if value.type == element:
            return value
        if isinstance(value.owner, arith.ExtFOp) and value.owner.input.type == element:
            return value.owner.input  # what only moves is not rounded
        if element not in (f16, bf16):
            raise self.refused(value, f"elements of {element}", "f16, bf16 or f32")
        return self._add(arith.TruncFOp(value, cast(AnyFloat, element)), self.at)

    def _add(self, op: Operation, source: Operation) -> SSAValue:
        copy_location(source, op)
        self.block.add_op(op)
        return op.results[0]

    def _computed(self, view: View) -> SSAValue:
        if constant_of(view.source) is not None:
            return self._constant(view)
        if (found := self.leaf(view)) is not None:
            return found
        op = view.source.owner
        assert isinstance(op, Operation)
        result = self._arithmetic(view, op)
        self.ops.add(op)
        return result

    def _input(self, view: View) -> SSAValue:
        """A new input: an element of what lies in memory."""
        element = element_of(view.source)
        self.inputs.append(view)
        argument = self.block.insert_arg(element, len(self.block.args))
        return self._widened(argument, self.at) if isinstance(element, AnyFloat) else argument

    def _arithmetic(self, view: View, op: Operation) -> SSAValue:
        if not is_elementwise(op):
            raise self.refused(op.results[0], f"'{op.name}'", "elementwise arithmetic")
        count = 2 if isinstance(op, elementwise.MulOp) else 1 if isinstance(op, elementwise.NegateOp) else None
        operands = [view.operand(o) for o in op.operands[:count]]  # the rest are shifts and zero points
        if isinstance(op, elementwise.CastOp):
            return self._cast(self.emit(operands[0]), element_of(op.input), element_of(op.output), op)
        if isinstance(op, elementwise.SelectOp):
            condition, on_true, on_false = (self.emit(v) for v in operands)
            return self._add(arith.SelectOp(condition, on_true, on_false), op)
        if type(op) in _COMPARE:
            left, right = self.emit(operands[0]), self.emit(operands[1])
            floats, integers = _COMPARE[type(op)]
            if isinstance(left.type, AnyFloat):
                return self._add(arith.CmpfOp(left, right, floats), op)
            return self._add(arith.CmpiOp(left, right, integers), op)
        if isinstance(op, ops.CustomOp):
            return self._custom(operands, op)
        if isinstance(element_of(op.results[0]), AnyFloat):
            return self._on_floats(operands, op)
        return self._on_integers(operands, op)

    def _on_floats(self, operands: list[View], op: Operation) -> SSAValue:
        if type(op) in _UNARY:
            return self._add(_UNARY[type(op)](self.emit(operands[0])), op)
        if type(op) in _BINARY:
            return self._add(_BINARY[type(op)](*(self.emit(v) for v in operands[:2])), op)
        match op:
            case elementwise.MaximumOp() | elementwise.MinimumOp():
                larger = isinstance(op, elementwise.MaximumOp)
                if ops.ignores_nan(op):
                    make = arith.MaxnumfOp if larger else arith.MinnumfOp
                else:
                    make = arith.MaximumfOp if larger else arith.MinimumfOp
                return self._add(make(self.emit(operands[0]), self.emit(operands[1])), op)
            case elementwise.ClampOp():
                low, high = (self._number(float(bound), op) for bound in op.bounds)
                value = self.emit(operands[0])
                if ops.ignores_nan(op):
                    return self._add(arith.MinnumfOp(self._add(arith.MaxnumfOp(value, low), op), high), op)
                return self._add(arith.MinimumfOp(self._add(arith.MaximumfOp(value, low), op), high), op)
            case elementwise.ReciprocalOp():
                return self._add(arith.DivfOp(self._number(1.0, op), self.emit(operands[0])), op)
            case elementwise.SigmoidOp():
                negated = self._add(arith.NegfOp(self.emit(operands[0])), op)
                total = self._add(arith.AddfOp(self._number(1.0, op), self._add(math.ExpOp(negated), op)), op)
                return self._add(arith.DivfOp(self._number(1.0, op), total), op)
            case _:
                raise self.refused(op.results[0], f"'{op.name}'", "elementwise arithmetic")

    def _on_integers(self, operands: list[View], op: Operation) -> SSAValue:
        if type(op) in _INTEGER:
            return self._add(_INTEGER[type(op)](*(self.emit(v) for v in operands[:2])), op)
        if type(op) in _SHIFTS:
            return self._add(_SHIFTS[type(op)](self.emit(operands[0]), self.emit(operands[1])), op)
        match op:
            case elementwise.IntDivOp():
                return self._divided(self.emit(operands[0]), self.emit(operands[1]), op)
            case elementwise.ClampOp():
                value = self.emit(operands[0])
                low, high = (self._integer(int(bound), value.type, op) for bound in op.bounds)
                return self._add(arith.MinSIOp(self._add(arith.MaxSIOp(value, low), op), high), op)
            case elementwise.LogicalNotOp():
                return self._add(arith.XOrIOp(self.emit(operands[0]), self._integer(1, i1, op)), op)
            case elementwise.NegateOp() | elementwise.AbsOp():
                value = self.emit(operands[0])
                negated = self._add(arith.SubiOp(self._integer(0, value.type, op), value), op)
                if isinstance(op, elementwise.NegateOp):
                    return negated
                return self._add(arith.MaxSIOp(value, negated), op)
            case _:
                raise self.refused(op.results[0], f"'{op.name}' of integers", "elementwise arithmetic")

    def _number(self, value: float, source: Operation) -> SSAValue:
        return self._add(arith.ConstantOp(FloatAttr(value, f32)), source)

    def _integer(self, value: int, type: Attribute, source: Operation) -> SSAValue:
        return self._add(arith.ConstantOp(IntegerAttr(value, cast(IntegerType, type))), source)

    def _constant(self, view: View) -> SSAValue:
        source = view.source
        value, element = dense.splat_value(constant_of(source)), element_of(source)
        if value is None:
            return self._input(view)
        assert isinstance(source.owner, Operation)
        if isinstance(element, AnyFloat):
            return self._number(float(value), source.owner)
        return self._integer(int(value), element, source.owner)

    def _truth(self, value: SSAValue, source: Operation) -> SSAValue:
        return self._add(arith.CmpiOp(value, self._integer(0, value.type, source), "ne"), source)

    def _widened(self, value: SSAValue, source: Operation) -> SSAValue:
        if value.type == f32:
            return value
        if value.type not in (f16, bf16):
            raise self.refused(value, str(value.type), "f16, bf16 or f32")
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
            whole = self._add(math.RoundEvenOp(value), op)
            return self._whole(whole, cast(IntegerType, after), op)
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

    def _custom(self, operands: Sequence[View], op: ops.CustomOp) -> SSAValue:
        """One of rocMLIR's operators: integers are unsigned there, and floats become integers toward zero."""
        values, after = [self.emit(view) for view in operands], element_of(op.results[0])
        if op.operator_name.data == rocmlir_names.UNSIGNED_DIV:
            return self._divided(values[0], values[1], op, unsigned=True)
        (value,) = values
        if isinstance(value.type, AnyFloat):
            unsigned = op.operator_name.data == rocmlir_names.UNSIGNED_CAST
            return self._whole(self._add(math.TruncOp(value), op), after, op, unsigned=unsigned)
        if isinstance(after, AnyFloat):
            return self._converted(self._add(arith.UIToFPOp(value, f32), op), after, op)
        before = cast(IntegerType, value.type)
        if after == before:
            return value
        make = arith.ExtUIOp if after.width.data > before.width.data else arith.TruncIOp
        return self._add(make(value, after), op)

    def _whole(self, value: SSAValue, type: IntegerType, op: Operation, *, unsigned: bool = False) -> SSAValue:
        """A whole number in f32 as an integer: the nearest one that there is, 0 for NaN."""
        bits = type.width.data
        limit = self._number(2.0 ** (bits if unsigned else bits - 1), op)
        zero = self._number(0.0, op)
        fits = self._add(arith.CmpfOp(value, limit, "olt"), op)
        least = zero if unsigned else self._add(arith.NegfOp(limit), op)
        fits = self._add(arith.AndIOp(fits, self._add(arith.CmpfOp(value, least, "oge"), op)), op)
        make = arith.FPToUIOp if unsigned else arith.FPToSIOp
        inside = self._add(make(self._add(arith.SelectOp(fits, value, zero), op), type), op)
        most, lowest = (-1, 0) if unsigned else ((1 << bits - 1) - 1, -(1 << bits - 1))
        above, below = (self._add(arith.CmpfOp(value, zero, p), op) for p in ("ogt", "olt"))
        outside = self._add(arith.SelectOp(below, self._integer(lowest, type, op), self._integer(0, type, op)), op)
        outside = self._add(arith.SelectOp(above, self._integer(most, type, op), outside), op)
        return self._add(arith.SelectOp(fits, inside, outside), op)

    def _divided(self, a: SSAValue, b: SSAValue, op: Operation, *, unsigned: bool = False) -> SSAValue:
        """A quotient, rounded toward zero; of a division by 0 it is 0, and no machine ever divides by 0."""
        zero, one = (self._integer(n, b.type, op) for n in (0, 1))
        nothing = self._add(arith.CmpiOp(b, zero, "eq"), op)
        if unsigned:
            quotient = self._add(arith.DivUIOp(a, self._add(arith.SelectOp(nothing, one, b), op)), op)
            return self._add(arith.SelectOp(nothing, zero, quotient), op)
        negated = self._add(arith.SubiOp(zero, a), op)  # the quotient by -1, which wraps for the lowest number
        opposite = self._add(arith.CmpiOp(b, self._integer(-1, b.type, op), "eq"), op)
        special = self._add(arith.OrIOp(nothing, opposite), op)
        quotient = self._add(arith.DivSIOp(a, self._add(arith.SelectOp(special, one, b), op)), op)
        quotient = self._add(arith.SelectOp(opposite, negated, quotient), op)
        return self._add(arith.SelectOp(nothing, zero, quotient), op)


def element_of(value: SSAValue) -> Any:
    """The element type of a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type.element_type
