"""TOSA operations that move, reduce or multiply tensors, and `tosa.custom`."""

from abc import ABC
from collections.abc import Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import (
    I32,
    I64,
    AnyFloat,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    i32,
)
from xdsl.dialects.tosa import NanMode, NanModeAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects import rocmlir_names
from xpaged.dialects.shape_checks import expect_broadcastable, expect_shape, shape_of
from xpaged.dialects.tosa.base import TENSOR, ShapeType, TosaOp, element_of, expect_element_type
from xpaged.dialects.tosa.constants import ConstShapeOp, constant_of, expect_pair, expect_zero_points
from xpaged.ir import dense


def lengths_of(op: TosaOp, value: SSAValue) -> tuple[int, ...]:
    """The integers of a `!tosa.shape` operand; VerifyException when they are not a constant."""
    if not isinstance(value.owner, ConstShapeOp):
        raise VerifyException(f"'{op.name}' op: expected lengths from tosa.const_shape, found {value.type}")
    return value.owner.lengths


@irdl_op_definition
class ReshapeOp(TosaOp):
    """The same elements in row-major order; lengths as an operand, or in older text as `new_shape`."""

    name = "tosa.reshape"
    input1 = operand_def(TENSOR)
    shape = opt_operand_def(ShapeType)
    new_shape = opt_prop_def(DenseArrayBase[I64])
    output = result_def(TENSOR)

    def __init__(self, input: SSAValue, shape: SSAValue, result: Attribute):
        super().__init__(operands=[input, shape], result_types=[result])

    def verify_(self) -> None:
        if (self.shape is None) == (self.new_shape is None):
            raise VerifyException(f"'{self.name}' op: expected the new lengths as one operand or as `new_shape`")
        source, result = shape_of(self, self.input1), shape_of(self, self.output)
        lengths = self.new_shape.get_values() if self.new_shape is not None else ()
        if self.shape is not None:
            lengths = lengths_of(self, self.shape)
        if len(lengths) != len(result) or any(a not in (-1, b) for a, b in zip(lengths, result, strict=True)):
            raise VerifyException(f"'{self.name}' op: new lengths {list(lengths)}, but a result of {list(result)}")
        expect_element_type(self, self.output, element_of(self.input1), "that of the operand")
        if prod(source) != prod(result):
            raise VerifyException(
                f"'{self.name}' op: {list(source)} has {prod(source)} elements, {list(result)} has {prod(result)}"
            )


@irdl_op_definition
class TransposeOp(TosaOp):
    """Result dimension `i` is operand dimension `perms[i]`; in older text the permutation is a constant operand."""

    name = "tosa.transpose"
    input1 = operand_def(TENSOR)
    permutation = opt_operand_def(TENSOR)
    perms = opt_prop_def(DenseArrayBase[I32])
    output = result_def(TENSOR)

    def __init__(self, input: SSAValue, perms: Sequence[int], result: Attribute):
        super().__init__(
            operands=[input, None],
            properties={"perms": DenseArrayBase.from_list(i32, list(perms))},
            result_types=[result],
        )

    @property
    def order(self) -> tuple[int, ...]:
        """The permutation as integers."""
        if self.perms is not None:
            return tuple(self.perms.get_values())
        elements = None if self.permutation is None else constant_of(self.permutation)
        if elements is None or (self.permutation is not None) == (self.perms is not None):
            raise VerifyException(f"'{self.name}' op: expected the permutation as `perms` or as a constant operand")
        return tuple(int(n) for n in dense.values(elements))

    def verify_(self) -> None:
        if self.permutation is not None and self.perms is not None:
            raise VerifyException(f"'{self.name}' op: expected the permutation as `perms` or as a constant operand")
        source, order = shape_of(self, self.input1), self.order
        if sorted(order) != list(range(len(source))):
            raise VerifyException(f"'{self.name}' op: {list(order)} is no permutation of {len(source)} dimensions")
        expect_element_type(self, self.output, element_of(self.input1), "that of the operand")
        expect_shape(self, self.output, [source[p] for p in order], f"permutation {list(order)}")


@irdl_op_definition
class SliceOp(TosaOp):
    """`size[i]` elements of dimension `i` from `start[i]` on; in older text these are attributes."""

    name = "tosa.slice"
    input1 = operand_def(TENSOR)
    bounds = var_operand_def(ShapeType)
    start = opt_prop_def(DenseArrayBase[I64])
    size = opt_prop_def(DenseArrayBase[I64])
    output = result_def(TENSOR)

    def __init__(self, input: SSAValue, start: SSAValue, size: SSAValue, result: Attribute):
        super().__init__(operands=[input, [start, size]], result_types=[result])

    @property
    def starts(self) -> tuple[int, ...]:
        """The first index in every dimension."""
        return lengths_of(self, self.bounds[0]) if self.start is None else tuple(self.start.get_values())

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of elements in every dimension."""
        return lengths_of(self, self.bounds[1]) if self.size is None else tuple(self.size.get_values())

    def verify_(self) -> None:
        expect_pair(self, self.bounds, "shape operands (start and size)")
        if {self.start is None, self.size is None} != {len(self.bounds) > 0}:
            raise VerifyException(f"'{self.name}' op: expected start and size as two operands or as two attributes")
        source, starts, sizes = shape_of(self, self.input1), self.starts, self.sizes
        if not len(source) == len(starts) == len(sizes):
            raise VerifyException(
                f"'{self.name}' op: start {list(starts)} and size {list(sizes)} for {len(source)} dimensions"
            )
        for axis, (length, start, size) in enumerate(zip(source, starts, sizes, strict=True)):
            if not (0 <= start and 0 < size and start + size <= length):
                raise VerifyException(
                    f"'{self.name}' op: [{start}, {start + size}) does not lie in dimension {axis} of length {length}"
                )
        expect_element_type(self, self.output, element_of(self.input1), "that of the operand")
        expect_shape(self, self.output, sizes, "the sizes of the slice")


@irdl_op_definition
class TileOp(TosaOp):
    """The operand `multiples[i]` times along dimension `i`."""

    name = "tosa.tile"
    input1 = operand_def(TENSOR)
    multiples = operand_def(ShapeType)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        source, multiples = shape_of(self, self.input1), lengths_of(self, self.multiples)
        if len(source) != len(multiples):
            raise VerifyException(f"'{self.name}' op: {len(multiples)} multiples for {len(source)} dimensions")
        expect_element_type(self, self.output, element_of(self.input1), "that of the operand")
        expect_shape(
            self, self.output, [a * b for a, b in zip(source, multiples, strict=True)], "length times multiple"
        )


@irdl_op_definition
class PadOp(TosaOp):
    """More elements around the operand, equal to `pad_const` (0 where older text leaves it out).

    `padding` gives for each dimension how many before and how many after; in older text it is a constant tensor.
    """

    name = "tosa.pad"
    input1 = operand_def(TENSOR)
    padding = operand_def(TENSOR | base(ShapeType))
    pad_const = opt_operand_def(TENSOR)
    output = result_def(TENSOR)

    def __init__(self, input: SSAValue, padding: SSAValue, value: SSAValue, result: Attribute):
        super().__init__(operands=[input, padding, value], result_types=[result])

    @property
    def margins(self) -> list[tuple[int, int]]:
        """How many elements are added before and after each dimension."""
        if isinstance(self.padding.type, ShapeType):
            flat = lengths_of(self, self.padding)
        else:
            elements = constant_of(self.padding)
            if elements is None:
                raise VerifyException(
                    f"'{self.name}' op: expected the padding as a constant, found {self.padding.type}"
                )
            flat = tuple(int(n) for n in dense.values(elements))
        return list(zip(flat[::2], flat[1::2], strict=False))

    @property
    def value(self) -> int | float:
        """What the new elements are; VerifyException when it is not one constant."""
        if self.pad_const is None:
            return 0
        value = dense.splat_value(constant_of(self.pad_const))
        if value is None:
            raise VerifyException(f"'{self.name}' op: expected one constant to pad with, found {self.pad_const.type}")
        return value

    def verify_(self) -> None:
        source, margins = shape_of(self, self.input1), self.margins
        if len(margins) != len(source) or any(n < 0 for pair in margins for n in pair):
            raise VerifyException(
                f"'{self.name}' op: expected two numbers of 0 or more for each of {len(source)} dimensions, "
                f"found {[n for pair in margins for n in pair]}"
            )
        if self.pad_const is not None:
            expect_element_type(self, self.pad_const, element_of(self.input1), "that of the operand")
        _ = self.value
        expect_element_type(self, self.output, element_of(self.input1), "that of the operand")
        expected = [a + n + b for n, (a, b) in zip(source, margins, strict=True)]
        expect_shape(self, self.output, expected, "the operand's with the padding")


@irdl_op_definition
class ConcatOp(TosaOp):
    """The operands one after the other along `axis`."""

    name = "tosa.concat"
    tensors = var_operand_def(TENSOR)
    axis = prop_def(IntegerAttr[I32])
    output = result_def(TENSOR)

    def verify_(self) -> None:
        if not self.tensors:
            raise VerifyException(f"'{self.name}' op: expected at least one operand")
        shapes, axis = [shape_of(self, tensor) for tensor in self.tensors], self.axis.value.data
        result = shape_of(self, self.output)
        if not 0 <= axis < len(result):
            raise VerifyException(f"'{self.name}' op: axis {axis} is out of range for rank {len(result)}")
        for tensor, shape in zip(self.tensors, shapes, strict=True):
            expect_element_type(self, tensor, element_of(self.output), "that of the result")
            if len(shape) != len(result) or any(
                a != b for i, (a, b) in enumerate(zip(shape, result, strict=True)) if i != axis
            ):
                raise VerifyException(
                    f"'{self.name}' op: {list(shape)} and {list(result)} differ in more than dimension {axis}"
                )
        expected = [sum(s[i] for s in shapes) if i == axis else n for i, n in enumerate(result)]
        expect_shape(self, self.output, expected, "the lengths along the axis add up")


class ReduceOp(TosaOp, ABC):
    """A reduction along `axis`, which keeps length 1."""

    input = operand_def(TENSOR)
    axis = prop_def(IntegerAttr[I32])
    output = result_def(TENSOR)

    def __init__(self, input: SSAValue, axis: int, result: Attribute):
        super().__init__(operands=[input], properties={"axis": IntegerAttr(axis, i32)}, result_types=[result])

    def verify_(self) -> None:
        source, axis = shape_of(self, self.input), self.axis.value.data
        if not 0 <= axis < len(source):
            raise VerifyException(f"'{self.name}' op: axis {axis} is out of range for rank {len(source)}")
        expect_element_type(self, self.output, element_of(self.input), "that of the operand")
        expect_shape(self, self.output, [1 if i == axis else n for i, n in enumerate(source)], "length 1 at the axis")


@irdl_op_definition
class ReduceMaxOp(ReduceOp):
    """The largest element; NaN when one is, unless `nan_mode` ignores NaNs."""

    name = "tosa.reduce_max"
    nan_mode = opt_prop_def(NanModeAttr)


@irdl_op_definition
class ReduceMinOp(ReduceOp):
    """The smallest element; NaN when one is, unless `nan_mode` ignores NaNs."""

    name = "tosa.reduce_min"
    nan_mode = opt_prop_def(NanModeAttr)


@irdl_op_definition
class ReduceSumOp(ReduceOp):
    """The sum of the elements."""

    name = "tosa.reduce_sum"


@irdl_op_definition
class MatMulOp(TosaOp):
    """A batch of matrix products, `[B, M, K] x [B, K, N] -> [B, M, N]`, with two zero points or (older text) none.

    `acc_type`, an extra attribute, is the type that sums are kept in.
    """

    name = "tosa.matmul"
    a = operand_def(TENSOR)
    b = operand_def(TENSOR)
    zero_points = var_operand_def(TENSOR)
    output = result_def(TENSOR)

    def __init__(self, a: SSAValue, b: SSAValue, zero_points: Sequence[SSAValue], result: Attribute):
        super().__init__(operands=[a, b, zero_points], result_types=[result])

    def verify_(self) -> None:
        expect_pair(self, self.zero_points, "zero points")
        expect_zero_points(self, self.zero_points)
        a, b = shape_of(self, self.a), shape_of(self, self.b)
        if len(a) != 3 or len(b) != 3:
            raise VerifyException(f"'{self.name}' op: expected operands of rank 3, found {self.a.type}, {self.b.type}")
        expect_element_type(self, self.b, element_of(self.a), "that of the first operand")
        integer = isinstance(element_of(self.a), IntegerType)
        if integer != isinstance(element_of(self.output), IntegerType) or (
            not integer and not isinstance(element_of(self.a), AnyFloat)
        ):
            raise VerifyException(
                f"'{self.name}' op: a product of {element_of(self.a)} cannot have elements of {element_of(self.output)}"
            )
        if a[0] != b[0] or a[2] != b[1]:
            raise VerifyException(f"'{self.name}' op: {list(a)} and {list(b)} do not multiply")
        expect_shape(self, self.output, [a[0], a[1], b[2]], "the product's")


@irdl_op_definition
class CustomOp(TosaOp):
    """An operation that TOSA does not know, by name and domain; see `xpaged.dialects.rocmlir_names`."""

    name = "tosa.custom"
    inputs = var_operand_def(TENSOR)
    operator_name = prop_def(base(StringAttr))
    domain_name = prop_def(base(StringAttr))
    implementation_attrs = prop_def(base(StringAttr))
    outputs = var_result_def(TENSOR)

    def __init__(self, operator: str, domain: str, inputs: Sequence[SSAValue], results: Sequence[TensorType[Any]]):
        super().__init__(
            operands=[inputs],
            properties={
                "domain_name": StringAttr(domain),
                "implementation_attrs": StringAttr(""),
                "operator_name": StringAttr(operator),
            },
            result_types=[results],
        )

    def verify_(self) -> None:
        """The operators of rocMLIR are elementwise; others may be anything. What a deref reads its lowering checks."""
        count = _OPERANDS.get(self.operator_name.data)
        if self.domain_name.data != rocmlir_names.DOMAIN or count is None:
            return
        what = f"'{self.name}' op {self.operator_name.data!r}:"
        if len(self.inputs) != count or len(self.outputs) != 1:
            raise VerifyException(
                f"{what} expected {count} operands and 1 result, found {len(self.inputs)} and {len(self.outputs)}"
            )
        if self.operator_name.data == rocmlir_names.DEREF:
            return
        expect_broadcastable(self, self.outputs[0], *self.inputs)
        source, result = element_of(self.inputs[0]), element_of(self.outputs[0])
        if any(element_of(value) != source for value in self.inputs[1:]):
            raise VerifyException(f"{what} expected operands of one element type, found {source} and others")
        good = {
            rocmlir_names.UNSIGNED_DIV: isinstance(source, IntegerType) and result == source,
            rocmlir_names.UNSIGNED_CAST: isinstance(source, IntegerType) or isinstance(result, IntegerType),
            rocmlir_names.FP_TO_INT_CAST: isinstance(source, AnyFloat) and isinstance(result, IntegerType),
        }
        if not good[self.operator_name.data]:
            raise VerifyException(f"{what} takes no {source} to {result}")


_OPERANDS = {
    rocmlir_names.DEREF: 1,
    rocmlir_names.UNSIGNED_DIV: 2,
    rocmlir_names.UNSIGNED_CAST: 1,
    rocmlir_names.FP_TO_INT_CAST: 1,
}


def ignores_nan(op: TosaOp) -> bool:
    """Whether a maximum or minimum takes the other element where one is NaN."""
    mode = op.properties.get("nan_mode")
    return isinstance(mode, NanModeAttr) and mode.data is NanMode.IGNORE
