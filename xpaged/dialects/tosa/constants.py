"""TOSA constants: `tosa.const`, `tosa.const_shape`, and looking through to the constant behind a value."""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import base, irdl_op_definition, opt_prop_def, prop_def, result_def, traits_def
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.tosa.base import TENSOR, ShapeType, TosaOp
from xpaged.ir import dense


@irdl_op_definition
class ConstOp(TosaOp):
    """A constant tensor: `"tosa.const"() <{values = dense<1> : tensor<2xi32>}> : () -> tensor<2xi32>`.

    Text of older releases calls the attribute `value`.
    """

    name = "tosa.const"
    traits = traits_def(Pure(), ConstantLike())
    values = opt_prop_def(base(DenseIntOrFPElementsAttr))
    value = opt_prop_def(base(DenseIntOrFPElementsAttr))
    output = result_def(TENSOR)
    assembly_format = None

    def __init__(self, values: DenseIntOrFPElementsAttr[Any]):
        super().__init__(properties={"values": values}, result_types=[values.get_type()])

    @property
    def elements(self) -> DenseIntOrFPElementsAttr[Any]:
        """The constant's elements."""
        elements = self.value if self.values is None else self.values
        assert elements is not None
        return elements

    def verify_(self) -> None:
        if (self.values is None) == (self.value is None):
            raise VerifyException(f"'{self.name}' op: expected the attribute `values`, and only it")
        if self.elements.get_type() != self.output.type:
            raise VerifyException(
                f"'{self.name}' op: elements of {self.elements.get_type()} for a result of {self.output.type}"
            )


@irdl_op_definition
class ConstShapeOp(TosaOp):
    """A list of lengths: `tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>`."""

    name = "tosa.const_shape"
    traits = traits_def(Pure(), ConstantLike())
    values = prop_def(base(DenseIntOrFPElementsAttr))
    output = result_def(ShapeType)
    assembly_format = "attr-dict `:` `(` `)` `->` type($output)"

    def __init__(self, lengths: Sequence[int]):
        values = dense.from_values(TensorType(IndexType(), [len(lengths)]), list(lengths))
        super().__init__(properties={"values": values}, result_types=[ShapeType(len(lengths))])

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths as integers."""
        return tuple(int(n) for n in dense.values(self.values))

    def verify_(self) -> None:
        rank = self.output.type.rank.data
        if self.values.get_shape() != (rank,):
            raise VerifyException(f"'{self.name}' op: {self.values.get_type()} does not give the {rank} lengths")
        if not isinstance(self.values.get_element_type(), IndexType):
            raise VerifyException(f"'{self.name}' op: expected index elements, found {self.values.get_type()}")


def constant_of(value: SSAValue) -> DenseIntOrFPElementsAttr[Any] | None:
    """The elements of a tensor made by `tosa.const` or `arith.constant`; None for any other value."""
    match value.owner:
        case ConstOp() as op:
            return op.elements
        case ConstantOp(value=DenseIntOrFPElementsAttr() as elements):
            return elements
        case _:
            return None


def expect_zero_points(op: Operation, values: Sequence[SSAValue]) -> None:
    """VerifyException unless every value, a shift or zero point, is the constant 0."""
    for value in values:
        if dense.splat_value(constant_of(value)) != 0:
            raise VerifyException(f"'{op.name}' op: a shift or zero point must be the constant 0, found {value.type}")


def expect_pair(op: Operation, values: Sequence[SSAValue], what: str) -> None:
    """VerifyException unless there are two values or none."""
    if len(values) not in (0, 2):
        raise VerifyException(f"'{op.name}' op: expected two {what} or none, found {len(values)}")
