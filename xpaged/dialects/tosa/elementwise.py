"""TOSA operations that work element by element; dimensions of length 1 are broadcast."""

from abc import ABC
from typing import Any

from xdsl.dialects.builtin import I1, AnyFloat, FloatAttr, IntegerAttr, IntegerType, i1
from xdsl.dialects.tosa import NanModeAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Commutative
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.shape_checks import expect_broadcastable, expect_shape, shape_of
from xpaged.dialects.tosa.base import TENSOR, TosaOp, element_of, expect_element_type, expect_float, expect_integer
from xpaged.dialects.tosa.constants import expect_pair, expect_zero_points


class UnaryOp(TosaOp, ABC):
    """One operand; the result has its shape and element type."""

    input1 = operand_def(TENSOR)
    output = result_def(TENSOR)

    def __init__(self, input: SSAValue, result: Attribute | None = None):
        super().__init__(operands=[input], result_types=[input.type if result is None else result])

    def verify_(self) -> None:
        expect_element_type(self, self.output, element_of(self.input1), "that of the operand")
        expect_shape(self, self.output, shape_of(self, self.input1), "that of the operand")


class FloatUnaryOp(UnaryOp, ABC):
    """A `UnaryOp` on floats."""

    def verify_(self) -> None:
        expect_float(self, self.input1)
        super().verify_()


@irdl_op_definition
class AbsOp(UnaryOp):
    """The magnitude."""

    name = "tosa.abs"


@irdl_op_definition
class IdentityOp(UnaryOp):
    """The operand itself."""

    name = "tosa.identity"


@irdl_op_definition
class LogicalNotOp(UnaryOp):
    """The opposite truth value."""

    name = "tosa.logical_not"


@irdl_op_definition
class CeilOp(FloatUnaryOp):
    """The smallest whole number not below."""

    name = "tosa.ceil"


@irdl_op_definition
class FloorOp(FloatUnaryOp):
    """The largest whole number not above."""

    name = "tosa.floor"


@irdl_op_definition
class ExpOp(FloatUnaryOp):
    """`e` to the power of the operand."""

    name = "tosa.exp"


@irdl_op_definition
class LogOp(FloatUnaryOp):
    """The natural logarithm."""

    name = "tosa.log"


@irdl_op_definition
class ErfOp(FloatUnaryOp):
    """The Gauss error function."""

    name = "tosa.erf"


@irdl_op_definition
class ReciprocalOp(FloatUnaryOp):
    """`1 / x`."""

    name = "tosa.reciprocal"


@irdl_op_definition
class RsqrtOp(FloatUnaryOp):
    """`1 / sqrt(x)`."""

    name = "tosa.rsqrt"


@irdl_op_definition
class SigmoidOp(FloatUnaryOp):
    """`1 / (1 + exp(-x))`."""

    name = "tosa.sigmoid"


@irdl_op_definition
class TanhOp(FloatUnaryOp):
    """The hyperbolic tangent."""

    name = "tosa.tanh"


@irdl_op_definition
class ClampOp(UnaryOp):
    """The nearest value from `min_val` to `max_val`; in older text these are `min_int`, `max_int`, `min_fp`, `max_fp`.

    NaN stays, or becomes `min_val` when `nan_mode` ignores NaNs.
    """

    name = "tosa.clamp"
    min_val = opt_prop_def(base(IntegerAttr) | base(FloatAttr))
    max_val = opt_prop_def(base(IntegerAttr) | base(FloatAttr))
    min_int = opt_prop_def(base(IntegerAttr))
    max_int = opt_prop_def(base(IntegerAttr))
    min_fp = opt_prop_def(base(FloatAttr))
    max_fp = opt_prop_def(base(FloatAttr))
    nan_mode = opt_prop_def(NanModeAttr)

    def __init__(self, input: SSAValue, low: int | float, high: int | float):
        super().__init__(input)
        self.min_val, self.max_val = (_number(value, element_of(input)) for value in (low, high))

    @property
    def bounds(self) -> tuple[int | float, int | float]:
        """The smallest and the largest value of the result."""
        whole = isinstance(element_of(self.input1), IntegerType)
        older = (self.min_int, self.max_int) if whole else (self.min_fp, self.max_fp)
        low, high = (b if a is None else a for a, b in zip((self.min_val, self.max_val), older, strict=True))
        if low is None or high is None:
            raise VerifyException(f"'{self.name}' op: expected the attributes `min_val` and `max_val`")
        return low.value.data, high.value.data

    def verify_(self) -> None:
        low, high = self.bounds
        for attr in (self.min_val, self.max_val):
            if attr is not None and attr.type != element_of(self.input1):
                raise VerifyException(f"'{self.name}' op: a bound of {attr.type} for elements of {self.input1.type}")
        if not low <= high:
            raise VerifyException(f"'{self.name}' op: expected bounds in order, found {low} and {high}")
        super().verify_()


def _number(value: int | float, element: Attribute) -> IntegerAttr[Any] | FloatAttr[Any]:
    """A number as an attribute of the element type."""
    if isinstance(element, IntegerType):
        return IntegerAttr(int(value), element)
    assert isinstance(element, AnyFloat)
    return FloatAttr(float(value), element)


@irdl_op_definition
class NegateOp(TosaOp):
    """`-x`; newer text gives two zero points, which must be 0 here."""

    name = "tosa.negate"
    input1 = operand_def(TENSOR)
    zero_points = var_operand_def(TENSOR)
    output = result_def(TENSOR)

    def __init__(self, input: SSAValue):
        super().__init__(operands=[input, []], result_types=[input.type])

    def verify_(self) -> None:
        expect_pair(self, self.zero_points, "zero points")
        expect_zero_points(self, self.zero_points)
        expect_element_type(self, self.output, element_of(self.input1), "that of the operand")
        expect_shape(self, self.output, shape_of(self, self.input1), "that of the operand")


class BinaryOp(TosaOp, ABC):
    """Two operands of one element type, which is the result's, too."""

    input1 = operand_def(TENSOR)
    input2 = operand_def(TENSOR)
    output = result_def(TENSOR)

    def __init__(self, input1: SSAValue, input2: SSAValue, result: Attribute):
        super().__init__(operands=[input1, input2], result_types=[result])

    def verify_(self) -> None:
        expect_element_type(self, self.input2, element_of(self.input1), "that of the first operand")
        expect_element_type(self, self.output, element_of(self.input1), "that of the operands")
        expect_broadcastable(self, self.output, self.input1, self.input2)


@irdl_op_definition
class AddOp(BinaryOp):
    """`a + b`."""

    name = "tosa.add"
    traits = traits_def(Commutative())


@irdl_op_definition
class SubOp(BinaryOp):
    """`a - b`."""

    name = "tosa.sub"


@irdl_op_definition
class PowOp(BinaryOp):
    """`a` to the power `b`."""

    name = "tosa.pow"


@irdl_op_definition
class MaximumOp(BinaryOp):
    """The larger of the two; NaN when one of them is, unless `nan_mode` ignores NaNs."""

    name = "tosa.maximum"
    nan_mode = opt_prop_def(NanModeAttr)
    traits = traits_def(Commutative())


@irdl_op_definition
class MinimumOp(BinaryOp):
    """The smaller of the two; NaN when one of them is, unless `nan_mode` ignores NaNs."""

    name = "tosa.minimum"
    nan_mode = opt_prop_def(NanModeAttr)
    traits = traits_def(Commutative())


@irdl_op_definition
class LogicalAndOp(BinaryOp):
    """Both."""

    name = "tosa.logical_and"
    traits = traits_def(Commutative())


@irdl_op_definition
class LogicalOrOp(BinaryOp):
    """At least one."""

    name = "tosa.logical_or"
    traits = traits_def(Commutative())


@irdl_op_definition
class IntDivOp(BinaryOp):
    """Signed integer division, rounded toward zero."""

    name = "tosa.intdiv"

    def verify_(self) -> None:
        expect_integer(self, self.input1)
        super().verify_()


class ShiftOp(BinaryOp, ABC):
    """`a` moved by `b` bits, both integers."""

    def verify_(self) -> None:
        expect_integer(self, self.input1)
        super().verify_()


@irdl_op_definition
class LogicalLeftShiftOp(ShiftOp):
    """`a` moved up by `b` bits; zeros follow."""

    name = "tosa.logical_left_shift"


@irdl_op_definition
class LogicalRightShiftOp(ShiftOp):
    """`a` moved down by `b` bits; zeros follow."""

    name = "tosa.logical_right_shift"


@irdl_op_definition
class ArithmeticRightShiftOp(ShiftOp):
    """`a` moved down by `b` bits; its sign follows. Only `round = false` is known."""

    name = "tosa.arithmetic_right_shift"
    round = prop_def(IntegerAttr[I1])

    def __init__(self, input1: SSAValue, input2: SSAValue, result: Attribute):
        super().__init__(input1, input2, result)
        self.round = IntegerAttr(0, i1)

    def verify_(self) -> None:
        if self.round.value.data:
            raise VerifyException(f"'{self.name}' op: a shift that rounds is not supported, expected round = false")
        super().verify_()


@irdl_op_definition
class MulOp(TosaOp):
    """`a * b`; the `shift` operand of newer text must be 0 here."""

    name = "tosa.mul"
    input1 = operand_def(TENSOR)
    input2 = operand_def(TENSOR)
    shift = opt_operand_def(TENSOR)
    output = result_def(TENSOR)
    traits = traits_def(Commutative())

    def __init__(self, input1: SSAValue, input2: SSAValue, shift: SSAValue | None, result: Attribute):
        super().__init__(operands=[input1, input2, shift], result_types=[result])

    def verify_(self) -> None:
        expect_zero_points(self, () if self.shift is None else (self.shift,))
        expect_element_type(self, self.input2, element_of(self.input1), "that of the first operand")
        expect_element_type(self, self.output, element_of(self.input1), "that of the operands")
        expect_broadcastable(self, self.output, self.input1, self.input2)


class CompareOp(TosaOp, ABC):
    """Two operands of one element type, compared; a signed comparison for integers."""

    input1 = operand_def(TENSOR)
    input2 = operand_def(TENSOR)
    output = result_def(TENSOR)

    def __init__(self, input1: SSAValue, input2: SSAValue, result: Attribute):
        super().__init__(operands=[input1, input2], result_types=[result])

    def verify_(self) -> None:
        expect_element_type(self, self.input2, element_of(self.input1), "that of the first operand")
        expect_element_type(self, self.output, i1, "a truth value")
        expect_broadcastable(self, self.output, self.input1, self.input2)


@irdl_op_definition
class GreaterOp(CompareOp):
    """`a > b`."""

    name = "tosa.greater"


@irdl_op_definition
class GreaterEqualOp(CompareOp):
    """`a >= b`."""

    name = "tosa.greater_equal"


@irdl_op_definition
class EqualOp(CompareOp):
    """`a == b`."""

    name = "tosa.equal"
    traits = traits_def(Commutative())


@irdl_op_definition
class SelectOp(TosaOp):
    """`condition ? a : b`."""

    name = "tosa.select"
    condition = operand_def(TENSOR)
    on_true = operand_def(TENSOR)
    on_false = operand_def(TENSOR)
    output = result_def(TENSOR)

    def __init__(self, condition: SSAValue, on_true: SSAValue, on_false: SSAValue, result: Attribute):
        super().__init__(operands=[condition, on_true, on_false], result_types=[result])

    def verify_(self) -> None:
        expect_element_type(self, self.condition, i1, "a truth value")
        expect_element_type(self, self.on_false, element_of(self.on_true), "that of the first choice")
        expect_element_type(self, self.output, element_of(self.on_true), "that of the choices")
        expect_broadcastable(self, self.output, self.condition, self.on_true, self.on_false)


@irdl_op_definition
class CastOp(TosaOp):
    """Another element type: floats are rounded to nearest even, also to integers; to i1 is "not zero"."""

    name = "tosa.cast"
    input = operand_def(TENSOR)
    output = result_def(TENSOR)

    def __init__(self, input: SSAValue, result: Attribute):
        super().__init__(operands=[input], result_types=[result])

    def verify_(self) -> None:
        for value in (self.input, self.output):
            if not isinstance(element_of(value), AnyFloat | IntegerType):
                raise VerifyException(f"'{self.name}' op: expected float or integer elements, found {value.type}")
        expect_shape(self, self.output, shape_of(self, self.input), "that of the operand")
