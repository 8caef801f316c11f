"""What the TOSA operations share: the text form, tensor types, broadcasting and shape checks, `!tosa.shape`."""

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat, IntAttr, IntegerType, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import AttrConstraint, IRDLOperation, ParsePropInAttrDict, base, irdl_attr_definition, traits_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

TENSOR: AttrConstraint[TensorType] = base(TensorType)


@irdl_attr_definition
class ShapeType(ParametrizedAttribute, TypeAttribute):
    """`!tosa.shape<3>`: the type of a list of three lengths that is known when compiling."""

    name = "tosa.shape"
    rank: IntAttr

    def __init__(self, rank: int):
        super().__init__(IntAttr(rank))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (IntAttr(parser.parse_integer(allow_boolean=False, allow_negative=False)),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_int(self.rank.data)


class TosaOp(IRDLOperation, ABC):
    """Base of the operations: pure, attributes as properties, operands and a function type as text."""

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` functional-type(operands, results)"


def element_of(value: SSAValue) -> Attribute:
    """The element type of a ranked tensor."""
    assert isinstance(value.type, TensorType)
    return value.type.element_type


def expect_element_type(op: IRDLOperation, value: SSAValue, expected: Attribute, why: str) -> None:
    """VerifyException when the element type of `value` is not `expected`."""
    if element_of(value) != expected:
        raise VerifyException(f"'{op.name}' op: found elements of {element_of(value)}, expected {expected}: {why}")


def expect_float(op: IRDLOperation, value: SSAValue) -> None:
    """VerifyException when `value` does not hold floats."""
    if not isinstance(element_of(value), AnyFloat):
        raise VerifyException(f"'{op.name}' op: expected float elements, found {value.type}")


def expect_integer(op: IRDLOperation, value: SSAValue) -> None:
    """VerifyException when `value` does not hold integers."""
    if not isinstance(element_of(value), IntegerType):
        raise VerifyException(f"'{op.name}' op: expected integer elements, found {value.type}")
