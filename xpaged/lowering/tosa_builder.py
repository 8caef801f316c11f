"""Builds TOSA text order by order: constants once, locations kept, nothing emitted that does nothing."""

from collections.abc import Sequence
from math import prod
from typing import Any, TypeVar

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerType,
    LocationAttr,
    TensorType,
    UnknownLoc,
    f32,
    i1,
    i8,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xpaged.dialects import rocmlir_names
from xpaged.dialects.tosa import elementwise, ops
from xpaged.dialects.tosa.base import ShapeType
from xpaged.dialects.tosa.constants import ConstOp, ConstShapeOp, constant_of
from xpaged.ir import dense
from xpaged.ir.locations import copy_location

OpT = TypeVar("OpT", bound=Operation)


def tensor_of(value: SSAValue) -> TensorType[Attribute]:
    """The type of a value that is known to be a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type


class TosaBuilder:
    """Appends TOSA operations to a block; `location` is given to each, constants and shapes are made once."""

    def __init__(self, block: Block):
        self.block = block
        self.location: LocationAttr = UnknownLoc()
        self._constants: dict[Attribute, SSAValue] = {}
        self._shapes: dict[tuple[int, ...], SSAValue] = {}

    def insert(self, op: OpT) -> OpT:
        """Append an operation that is not TOSA, or has no method here."""
        copy_location(self.location, op)
        self.block.add_op(op)
        return op

    def constant(self, elements: DenseIntOrFPElementsAttr[Any]) -> SSAValue:
        """A constant tensor."""
        if elements not in self._constants:
            self._constants[elements] = self.insert(ConstOp(elements)).output
        return self._constants[elements]

    def splat(self, type: TensorType[Any], value: int | float) -> SSAValue:
        """A constant tensor whose elements all are `value`."""
        return self.constant(dense.splat(type, value))

    def lengths(self, lengths: Sequence[int]) -> SSAValue:
        """A `!tosa.shape` constant."""
        key = tuple(lengths)
        if key not in self._shapes:
            self._shapes[key] = self.insert(ConstShapeOp(key)).output
            assert isinstance(self._shapes[key].type, ShapeType)
        return self._shapes[key]

    def reshape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The same elements under other lengths."""
        type = tensor_of(value)
        if type.get_shape() == tuple(shape):
            return value
        return self.insert(ops.ReshapeOp(value, self.lengths(shape), TensorType(type.element_type, shape))).output

    def transpose(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        """Result dimension `i` is dimension `order[i]` of `value`."""
        type = tensor_of(value)
        if list(order) == list(range(len(order))):
            return value
        shape = [type.get_shape()[i] for i in order]
        return self.insert(ops.TransposeOp(value, order, TensorType(type.element_type, shape))).output

    def slice(self, value: SSAValue, starts: Sequence[int], sizes: Sequence[int]) -> SSAValue:
        """`sizes[i]` elements of dimension `i` from `starts[i]` on."""
        type = tensor_of(value)
        if type.get_shape() == tuple(sizes):
            return value
        start, size = self.lengths(starts), self.lengths(sizes)
        return self.insert(ops.SliceOp(value, start, size, TensorType(type.element_type, sizes))).output

    def broadcast(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`value`, whose lengths are those of `shape` or 1, multiplied by ones of `shape`."""
        type = tensor_of(value)
        if type.get_shape() == tuple(shape):
            return value
        result = TensorType(type.element_type, shape)
        if (constant := dense.splat_value(constant_of(value))) is not None:
            return self.splat(result, constant)
        return self.mul(value, self.splat(result, 1))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The product of two tensors of one rank."""
        return self.insert(elementwise.MulOp(a, b, self.splat(TensorType(i8, [1]), 0), broadcast_type(a, b))).output

    def binary(self, op_type: type[elementwise.BinaryOp], a: SSAValue, b: SSAValue) -> SSAValue:
        """An operation on two tensors of one rank and element type."""
        return self.insert(op_type(a, b, broadcast_type(a, b))).output

    def unary(self, op_type: type[elementwise.UnaryOp], a: SSAValue) -> SSAValue:
        """An operation that keeps the type."""
        return self.insert(op_type(a)).output

    def cast(self, a: SSAValue, element_type: Attribute) -> SSAValue:
        """`a` with another element type."""
        type = tensor_of(a)
        if type.element_type == element_type:
            return a
        return self.insert(elementwise.CastOp(a, TensorType(element_type, type.get_shape()))).output

    def compare(self, op_type: type[elementwise.CompareOp], a: SSAValue, b: SSAValue) -> SSAValue:
        """A comparison of two tensors of one rank and element type, as truth values."""
        return self.insert(op_type(a, b, TensorType(i1, broadcast_type(a, b).get_shape()))).output

    def select(self, condition: SSAValue, on_true: SSAValue, on_false: SSAValue) -> SSAValue:
        """A choice between two tensors of one rank and element type."""
        chosen = broadcast_type(on_true, on_false)
        shape = broadcast_type(condition, on_true).get_shape()
        shape = [max(m, n) for m, n in zip(shape, chosen.get_shape(), strict=True)]
        result = TensorType(chosen.element_type, shape)
        return self.insert(elementwise.SelectOp(condition, on_true, on_false, result)).output

    def clamp(self, a: SSAValue, low: int | float, high: int | float) -> SSAValue:
        """The nearest values from `low` to `high`."""
        return self.insert(elementwise.ClampOp(a, low, high)).output

    def custom(self, operator: str, operands: Sequence[SSAValue], result: TensorType[Any]) -> SSAValue:
        """One of rocMLIR's own operators."""
        return self.insert(ops.CustomOp(operator, rocmlir_names.DOMAIN, operands, [result])).outputs[0]

    def softmax(self, a: SSAValue, axis: int) -> tuple[SSAValue, SSAValue, SSAValue]:
        """The softmax along `axis`, and on the way there the largest elements and the sums of exponentials."""
        largest = self.reduce(ops.ReduceMaxOp, a, axis)
        exponentials = self.unary(elementwise.ExpOp, self.binary(elementwise.SubOp, a, largest))
        total = self.reduce(ops.ReduceSumOp, exponentials, axis)
        return self.mul(exponentials, self.unary(elementwise.ReciprocalOp, total)), largest, total

    def reduce(self, op_type: type[ops.ReduceOp], a: SSAValue, axis: int) -> SSAValue:
        """A reduction along one axis, which keeps length 1."""
        type = tensor_of(a)
        shape = [1 if i == axis else n for i, n in enumerate(type.get_shape())]
        return self.insert(op_type(a, axis, TensorType(type.element_type, shape))).output

    def matmul(self, a: SSAValue, b: SSAValue, element_type: Attribute) -> SSAValue:
        """The products of two batches of matrices, summed in f32, those of integers in i32."""
        (batch, rows, _), (_, _, columns) = tensor_of(a).get_shape(), tensor_of(b).get_shape()
        zero = self.splat(TensorType(tensor_of(a).element_type, [1]), 0)
        op = ops.MatMulOp(a, b, [zero, zero], TensorType(element_type, [batch, rows, columns]))
        op.attributes["acc_type"] = i32 if isinstance(element_type, IntegerType) else f32
        return self.insert(op).output


def broadcast_type(a: SSAValue, b: SSAValue) -> TensorType[Attribute]:
    """The type of an elementwise result of two tensors of one rank."""
    shape = [max(m, n) for m, n in zip(tensor_of(a).get_shape(), tensor_of(b).get_shape(), strict=True)]
    return TensorType(tensor_of(a).element_type, shape)


def flattened(shape: Sequence[int], keep: int) -> tuple[int, ...]:
    """`shape` with its leading dimensions made one, the last `keep` kept."""
    cut = len(shape) - keep
    return (prod(shape[:cut]), *shape[cut:])
