"""What the MIGraphX operations share: operand and result types, lists of integers, and shape checks."""

from abc import ABC
from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import I64, AnyFloat, ArrayAttr, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AttrConstraint, IRDLOperation, ParsePropInAttrDict, base, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.migraphx.shaped import MIXRShapedType, Shaped
from xpaged.dialects.shape_checks import expect_shape, shape_of

I64Array: TypeAlias = ArrayAttr[IntegerAttr[I64]]

SHAPED: AttrConstraint[MIXRShapedType] = base(MIXRShapedType)


class MIGraphXOp(IRDLOperation, ABC):
    """Base of the operations: pure, attributes as properties, types printed in short form."""

    irdl_options = (ParsePropInAttrDict(),)
    custom_directives = (Shaped,)
    traits = traits_def(Pure())


def i64_array(values: Sequence[int]) -> I64Array:
    """`[1, 2]` as an array attribute of i64."""
    return ArrayAttr([IntegerAttr(value, i64) for value in values])


def ints(array: I64Array) -> tuple[int, ...]:
    """The integers of an array attribute."""
    return tuple(value.value.data for value in array)


def shaped(value: SSAValue) -> MIXRShapedType:
    """The shaped type of an operand or result."""
    assert isinstance(value.type, MIXRShapedType)
    return value.type


def expect_same_element_type(op: IRDLOperation, **values: SSAValue) -> None:
    """VerifyException when the named values differ in element type."""
    types: dict[str, Attribute] = {name: shaped(value).element_type for name, value in values.items()}
    if len(set(types.values())) > 1:
        text = ", ".join(f"{name}: {type}" for name, type in types.items())
        raise VerifyException(f"'{op.name}' op: {{{', '.join(types)}}} must have the same element type, found {text}")


def normalized_axis(op: IRDLOperation, axis: int, rank: int) -> int:
    """`axis` counted from the front; VerifyException when it lies outside `[-rank, rank)`."""
    if not -rank <= axis < rank:
        raise VerifyException(f"'{op.name}' op: axis {axis} is out of range for rank {rank}")
    return axis % rank


def expect_float(op: IRDLOperation, value: SSAValue) -> None:
    """VerifyException when `value` does not hold floats."""
    if not isinstance(shaped(value).element_type, AnyFloat):
        raise VerifyException(f"'{op.name}' op: expected float elements, found {value.type}")


def expect_product(op: IRDLOperation, in_a: SSAValue, in_b: SSAValue, output: SSAValue) -> None:
    """VerifyException unless the lengths are those of a matrix product of the last two dimensions.

    B's leading dimensions equal A's, or are 1 or absent.
    """
    a, b = shape_of(op, in_a), shape_of(op, in_b)
    types = (in_a.type, in_b.type)
    if len(a) < 2 or len(b) < 2:
        raise VerifyException(
            f"'{op.name}' op: expect operand to have rank greater or equal to 2, found {types[0]} and {types[1]}"
        )
    if a[-1] != b[-2]:
        raise VerifyException(
            f"'{op.name}' op: {types[0]} and {types[1]} are incompatible: {a[-1]} columns and {b[-2]} rows"
        )
    batch, other = a[:-2], b[:-2]
    if other != batch and any(n != 1 for n in other):
        raise VerifyException(
            f"'{op.name}' op: batch dimension mismatch: {types[0]} and {types[1]} have {list(batch)} and {list(other)}"
        )
    expect_shape(op, output, [*batch, a[-2], b[-1]], "the product's")
