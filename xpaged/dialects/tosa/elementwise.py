"""TOSA operations that work element by element; dimensions of length 1 are broadcast."""

from abc import ABC

from xdsl.dialects.builtin import AnyFloat, IntegerType, i1
from xdsl.dialects.tosa import NanModeAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Commutative
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.shape_checks import expect_broadcastable, expect_shape, shape_of
from xpaged.dialects.tosa.base import TENSOR, TosaOp, element_of, expect_element_type, expect_float
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
        if not isinstance(element_of(self.input1), IntegerType):
            raise VerifyException(f"'{self.name}' op: expected integer elements, found {self.input1.type}")
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
