"""MIGraphX operations that work element by element, and the literal."""

from abc import ABC
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import base, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Commutative, ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.migraphx.base import SHAPED, MIGraphXOp, expect_float, expect_same_element_type, shaped
from xpaged.dialects.migraphx.shaped import MIXRShapedType, signless
from xpaged.dialects.shape_checks import expect_broadcastable, expect_shape, shape_of
from xpaged.ir import dense


@irdl_op_definition
class LiteralOp(MIGraphXOp):
    """A constant: `migraphx.literal(dense<[0, 1]> : tensor<2xsi32>) : <2xsi32, 1>`; a splat fits any shape."""

    name = "migraphx.literal"
    traits = traits_def(Pure(), ConstantLike())
    value = prop_def(base(DenseIntOrFPElementsAttr))
    output = result_def(SHAPED)
    assembly_format = "`` `(` $value `)` attr-dict `:` custom<Shaped>(type($output))"

    def __init__(self, value: DenseIntOrFPElementsAttr[Any], type: MIXRShapedType):
        super().__init__(properties={"value": value}, result_types=[type])

    def verify_(self) -> None:
        value, result = self.value, shaped(self.output)
        if signless(value.get_element_type()) != signless(result.element_type):
            raise VerifyException(f"'{self.name}' op: elements of {value.get_element_type()} do not fit {result}")
        shape_of(self, self.output)
        if dense.is_splat(value):
            return
        if value.get_shape() != result.get_shape():
            raise VerifyException(
                f"'{self.name}' op: non-splat literals must have a value that matches the literal's logical shape, "
                f"found {value.get_type()} for {result}"
            )
        if not result.is_standard():
            raise VerifyException(f"'{self.name}' op: strides of non-splat literal are not in standard shape: {result}")


class BinaryOp(MIGraphXOp, ABC):
    """An operation on two tensors of one element type; a dimension of length 1 is broadcast."""

    in_a = operand_def(SHAPED)
    in_b = operand_def(SHAPED)
    output = result_def(SHAPED)
    assembly_format = (
        "$in_a `,` $in_b attr-dict `:` "
        "custom<Shaped>(type($in_a)) `,` custom<Shaped>(type($in_b)) `->` custom<Shaped>(type($output))"
    )

    def __init__(self, a: SSAValue, b: SSAValue, result: Attribute):
        super().__init__(operands=[a, b], result_types=[result])

    def verify_(self) -> None:
        expect_same_element_type(self, inA=self.in_a, inB=self.in_b, output=self.output)
        expect_broadcastable(self, self.output, self.in_a, self.in_b)


@irdl_op_definition
class AddOp(BinaryOp):
    """`inA + inB`."""

    name = "migraphx.add"
    traits = traits_def(Commutative())


@irdl_op_definition
class SubOp(BinaryOp):
    """`inA - inB`."""

    name = "migraphx.sub"


@irdl_op_definition
class MulOp(BinaryOp):
    """`inA * inB`."""

    name = "migraphx.mul"
    traits = traits_def(Commutative())


@irdl_op_definition
class DivOp(BinaryOp):
    """`inA / inB`; integers are divided toward zero."""

    name = "migraphx.div"


@irdl_op_definition
class PowOp(BinaryOp):
    """`inA` to the power `inB`, both floats."""

    name = "migraphx.pow"

    def verify_(self) -> None:
        super().verify_()
        expect_float(self, self.in_a)


@irdl_op_definition
class MaxOp(BinaryOp):
    """The larger of the two; NaN when one of them is."""

    name = "migraphx.max"
    traits = traits_def(Commutative())


@irdl_op_definition
class MinOp(BinaryOp):
    """The smaller of the two; NaN when one of them is."""

    name = "migraphx.min"
    traits = traits_def(Commutative())


@irdl_op_definition
class EqualOp(BinaryOp):
    """1 where the operands are equal, else 0, in the operands' element type."""

    name = "migraphx.equal"
    traits = traits_def(Commutative())


@irdl_op_definition
class GreaterOp(BinaryOp):
    """1 where `inA > inB`, else 0, in the operands' element type."""

    name = "migraphx.greater"


@irdl_op_definition
class ClipOp(MIGraphXOp):
    """`min(max(x, minVals), maxVals)`."""

    name = "migraphx.clip"
    x = operand_def(SHAPED)
    min_vals = operand_def(SHAPED)
    max_vals = operand_def(SHAPED)
    output = result_def(SHAPED)
    assembly_format = (
        "$x `,` $min_vals `,` $max_vals attr-dict `:` custom<Shaped>(type($x)) `,` custom<Shaped>(type($min_vals)) "
        "`,` custom<Shaped>(type($max_vals)) `->` custom<Shaped>(type($output))"
    )

    def verify_(self) -> None:
        expect_same_element_type(self, x=self.x, minVals=self.min_vals, maxVals=self.max_vals, output=self.output)
        expect_broadcastable(self, self.output, self.x, self.min_vals, self.max_vals)


@irdl_op_definition
class WhereOp(MIGraphXOp):
    """`cond != 0 ? inA : inB`; MIGraphX keeps truth values in 8-bit integers."""

    name = "migraphx.where"
    cond = operand_def(SHAPED)
    in_a = operand_def(SHAPED)
    in_b = operand_def(SHAPED)
    output = result_def(SHAPED)
    assembly_format = (
        "$cond `,` $in_a `,` $in_b attr-dict `:` custom<Shaped>(type($cond)) `,` custom<Shaped>(type($in_a)) "
        "`,` custom<Shaped>(type($in_b)) `->` custom<Shaped>(type($output))"
    )

    def verify_(self) -> None:
        cond = shaped(self.cond).element_type
        if not isinstance(cond, IntegerType) or cond.bitwidth != 8:
            raise VerifyException(f"'{self.name}' op: cond must have 8-bit integer elements, found {cond}")
        expect_same_element_type(self, inA=self.in_a, inB=self.in_b, output=self.output)
        expect_broadcastable(self, self.output, self.cond, self.in_a, self.in_b)


class UnaryOp(MIGraphXOp, ABC):
    """An operation on one tensor that keeps shape and element type."""

    in_a = operand_def(SHAPED)
    output = result_def(SHAPED)
    assembly_format = "$in_a attr-dict `:` custom<Shaped>(type($in_a)) `->` custom<Shaped>(type($output))"

    def __init__(self, a: SSAValue, result: Attribute):
        super().__init__(operands=[a], result_types=[result])

    def verify_(self) -> None:
        expect_same_element_type(self, inA=self.in_a, output=self.output)
        expect_shape(self, self.output, shape_of(self, self.in_a), "that of the operand")


class FloatUnaryOp(UnaryOp, ABC):
    """A `UnaryOp` on floats."""

    def verify_(self) -> None:
        super().verify_()
        expect_float(self, self.in_a)


@irdl_op_definition
class ConvertOp(MIGraphXOp):
    """Another element type, rounded to nearest (floats) or toward zero (float to integer)."""

    name = "migraphx.convert"
    in_a = operand_def(SHAPED)
    output = result_def(SHAPED)
    assembly_format = "$in_a attr-dict `:` custom<Shaped>(type($in_a)) `to` custom<Shaped>(type($output))"

    def __init__(self, a: SSAValue, result: Attribute):
        super().__init__(operands=[a], result_types=[result])

    def verify_(self) -> None:
        expect_shape(self, self.output, shape_of(self, self.in_a), "that of the operand")


@irdl_op_definition
class AbsOp(UnaryOp):
    """The magnitude."""

    name = "migraphx.abs"


@irdl_op_definition
class NegOp(UnaryOp):
    """`-inA`."""

    name = "migraphx.neg"


@irdl_op_definition
class ReluOp(UnaryOp):
    """`max(inA, 0)`."""

    name = "migraphx.relu"


@irdl_op_definition
class CeilOp(FloatUnaryOp):
    """The smallest whole number not below."""

    name = "migraphx.ceil"


@irdl_op_definition
class FloorOp(FloatUnaryOp):
    """The largest whole number not above."""

    name = "migraphx.floor"


@irdl_op_definition
class ErfOp(FloatUnaryOp):
    """The Gauss error function."""

    name = "migraphx.erf"


@irdl_op_definition
class ExpOp(FloatUnaryOp):
    """`e` to the power `inA`."""

    name = "migraphx.exp"


@irdl_op_definition
class LogOp(FloatUnaryOp):
    """The natural logarithm."""

    name = "migraphx.log"


@irdl_op_definition
class RecipOp(FloatUnaryOp):
    """`1 / inA`."""

    name = "migraphx.recip"


@irdl_op_definition
class RsqrtOp(FloatUnaryOp):
    """`1 / sqrt(inA)`."""

    name = "migraphx.rsqrt"


@irdl_op_definition
class SigmoidOp(FloatUnaryOp):
    """`1 / (1 + exp(-inA))`."""

    name = "migraphx.sigmoid"


@irdl_op_definition
class SqrtOp(FloatUnaryOp):
    """The square root."""

    name = "migraphx.sqrt"


@irdl_op_definition
class TanhOp(FloatUnaryOp):
    """The hyperbolic tangent."""

    name = "migraphx.tanh"
