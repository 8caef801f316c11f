"""MIGraphX operations on quantized tensors: to and from integers, products of 8-bit numbers, packed 4-bit numbers."""

from typing import Self

from xdsl.dialects.builtin import I64, AnyFloat, IntegerAttr, IntegerType, Signedness, f32, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, prop_def, result_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.migraphx.base import (
    SHAPED,
    MIGraphXOp,
    expect_float,
    expect_product,
    expect_same_element_type,
    normalized_axis,
    shaped,
)
from xpaged.dialects.migraphx.ops import ViewOp
from xpaged.dialects.migraphx.shaped import parse_shaped, print_shaped
from xpaged.dialects.shape_checks import expect_broadcastable, expect_shape


def _print(printer: Printer, op: MIGraphXOp, output: SSAValue) -> None:
    """`%a, %b {...} : <types> -> <type>`."""
    printer.print_string(" ")
    printer.print_list(op.operands, printer.print_ssa_value)
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_list(op.operands, lambda operand: print_shaped(printer, operand.type))
    printer.print_string(" -> ")
    print_shaped(printer, output.type)


class _LinearOp(MIGraphXOp):
    """A tensor, a scale and perhaps a bias, which are broadcast to the result."""

    input = operand_def(SHAPED)
    scale = operand_def(SHAPED)
    bias = opt_operand_def(SHAPED)
    output = result_def(SHAPED)

    def __init__(self, input: SSAValue, scale: SSAValue, bias: SSAValue | None, result: Attribute):
        super().__init__(operands=[input, scale, bias], result_types=[result])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        start = parser.pos
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: parse_shaped(parser))
        parser.parse_punctuation("->")
        result = parse_shaped(parser)
        if len(names) not in (2, 3):
            parser.raise_error(f"expected an input, a scale and perhaps a bias, found {len(names)} operands", start)
        input, scale, *rest = parser.resolve_operands(names, types, start)
        op = cls(input, scale, rest[0] if rest else None, result)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        _print(printer, self, self.output)

    def verify_(self) -> None:
        expect_float(self, self.scale)
        expect_broadcastable(self, self.output, self.input, self.scale, *([] if self.bias is None else [self.bias]))


@irdl_op_definition
class QuantizeLinearOp(_LinearOp):
    """`round(input / scale) + bias`, rounded to nearest even and clamped to what the result's type holds."""

    name = "migraphx.quantizelinear"

    def verify_(self) -> None:
        expect_float(self, self.input)
        expect_same_element_type(self, input=self.input, scale=self.scale)
        if self.bias is not None:
            expect_same_element_type(self, output=self.output, bias=self.bias)
        super().verify_()


@irdl_op_definition
class DeQuantizeLinearOp(_LinearOp):
    """`(input - bias) * scale` as floats of the scale's type; computed in f32 and rounded once."""

    name = "migraphx.dequantizelinear"

    def verify_(self) -> None:
        expect_same_element_type(self, scale=self.scale, output=self.output)
        super().verify_()


@irdl_op_definition
class QuantDotOp(MIGraphXOp):
    """The matrix product of 8-bit tensors: of `i8` an exact sum in i32, of 8-bit floats a sum in f32."""

    name = "migraphx.quant_dot"
    in_a = operand_def(SHAPED)
    in_b = operand_def(SHAPED)
    output = result_def(SHAPED)

    def __init__(self, a: SSAValue, b: SSAValue, result: Attribute):
        super().__init__(operands=[a, b], result_types=[result])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        a = _unscaled(parser)
        parser.parse_punctuation(",")
        b = _unscaled(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = [parse_shaped(parser)]
        parser.parse_punctuation(",")
        types.append(parse_shaped(parser))
        parser.parse_punctuation("->")
        in_a, in_b = parser.resolve_operands([a, b], types, parser.pos)
        op = cls(in_a, in_b, parse_shaped(parser))
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        _print(printer, self, self.output)

    def verify_(self) -> None:
        expect_same_element_type(self, inA=self.in_a, inB=self.in_b)
        element, result = shaped(self.in_a).element_type, shaped(self.output).element_type
        if is_signed_byte(element):
            expected = i32
        elif isinstance(element, AnyFloat) and element.bitwidth == 8:
            expected = f32
        else:
            raise VerifyException(f"'{self.name}' op: expected elements of i8 or of an 8-bit float, found {element}")
        if not is_signed(result, expected):
            raise VerifyException(
                f"'{self.name}' op: a product of {element} has elements of {expected}, found {result}"
            )
        expect_product(self, self.in_a, self.in_b, self.output)


def _unscaled(parser: Parser) -> UnresolvedOperand:
    """An operand; a scale after it is refused with the reason."""
    operand, start = parser.parse_unresolved_operand(), parser.pos
    if parser.parse_optional_keyword("scaled") is not None:
        parser.raise_error(
            "'migraphx.quant_dot' op: scales need operands of f4E2M1FN, a type that is not supported", start, parser.pos
        )
    return operand


def is_signed(type: Attribute, expected: Attribute) -> bool:
    """Whether `type` is `expected`, or an integer of its width with a sign."""
    if isinstance(type, IntegerType) and isinstance(expected, IntegerType):
        return type.bitwidth == expected.bitwidth and type.signedness.data is not Signedness.UNSIGNED
    return type == expected


def is_signed_byte(type: Attribute) -> bool:
    """Whether `type` is `i8` or `si8`."""
    return is_signed(type, IntegerType(8))


@irdl_op_definition
class UnpackOp(ViewOp):
    """The two 4-bit numbers in each byte, the lower one first, next to each other along `axis`.

    They are taken as signed, or as unsigned where the result's type is.
    """

    name = "migraphx.unpack"
    axis = prop_def(IntegerAttr[I64])

    def __init__(self, input: SSAValue, axis: int, result: Attribute):
        super().__init__(operands=[input], properties={"axis": IntegerAttr(axis, i64)}, result_types=[result])

    @property
    def is_unsigned(self) -> bool:
        """Whether the numbers are unsigned."""
        element = shaped(self.output).element_type
        return isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED

    def verify_element_types(self) -> None:
        for value in (self.input, self.output):
            element = shaped(value).element_type
            if not isinstance(element, IntegerType) or element.bitwidth != 8:
                raise VerifyException(f"'{self.name}' op: expected 8-bit integers, found {value.type}")
        older = self.attributes.get("isUnsigned")
        if isinstance(older, IntegerAttr) and bool(older.value.data) != self.is_unsigned:
            raise VerifyException(
                f"'{self.name}' op: isUnsigned = {older} for a result of {shaped(self.output).element_type}: "
                "the result's type says whether the numbers are signed"
            )

    def verify_shape(self, source: tuple[int, ...]) -> None:
        axis = normalized_axis(self, self.axis.value.data, len(source))
        expected = [2 * n if i == axis else n for i, n in enumerate(source)]
        expect_shape(self, self.output, expected, f"twice the length of dimension {axis}")
