"""migraphx: every operation as the graph writes it; values are logical tensors, strides are a matter of arguments."""

from typing import Any

import numpy as np
from xdsl.ir import Operation

from xpaged.dialects.migraphx import boundary, elementwise, ops, quantize
from xpaged.dialects.migraphx.base import ints, shaped
from xpaged.interpreter import tensors
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value, rule, unary
from xpaged.interpreter.numerics import F32, Array, dtype_of, is_float, narrow, narrowed
from xpaged.interpreter.rules.arith import div_toward_zero
from xpaged.interpreter.rules.math import erf
from xpaged.interpreter.tensors import wide


def _divide(x: Array, y: Array) -> Array:
    if is_float(x.dtype):
        return x / y
    return div_toward_zero(x, y) if x.dtype.kind == "i" else x // y


_FUNCTIONS: dict[type[Operation], tensors.Fn] = {
    elementwise.AbsOp: np.abs,
    elementwise.AddOp: np.add,
    elementwise.CeilOp: np.ceil,
    elementwise.ClipOp: lambda x, low, high: np.minimum(np.maximum(x, low), high),
    elementwise.DivOp: _divide,
    elementwise.EqualOp: np.equal,
    elementwise.ErfOp: erf,
    elementwise.ExpOp: np.exp,
    elementwise.FloorOp: np.floor,
    elementwise.GreaterOp: np.greater,
    elementwise.LogOp: np.log,
    elementwise.MaxOp: np.maximum,
    elementwise.MinOp: np.minimum,
    elementwise.MulOp: np.multiply,
    elementwise.NegOp: np.negative,
    elementwise.PowOp: np.power,
    elementwise.RecipOp: np.reciprocal,
    elementwise.ReluOp: lambda x: np.maximum(x, x.dtype.type(0)),
    elementwise.RsqrtOp: tensors.rsqrt,
    elementwise.SigmoidOp: tensors.sigmoid,
    elementwise.SqrtOp: np.sqrt,
    elementwise.SubOp: np.subtract,
    elementwise.TanhOp: np.tanh,
}


@rule(elementwise.WhereOp)
def select(op: elementwise.WhereOp, b: Compiler) -> OpCode:
    return tensors.elementwise(op, b, lambda c, x, y: np.where(c != 0, x, y), moves=True)


@rule(*_FUNCTIONS)
def by_element(op: Operation, b: Compiler) -> OpCode:
    return tensors.elementwise(op, b, _FUNCTIONS[type(op)])


@rule(elementwise.LiteralOp)
def literal(op: elementwise.LiteralOp, b: Compiler) -> OpCode:
    return tensors.constant(op.value, op.output.type, b)


@rule(elementwise.ConvertOp)
def convert(op: elementwise.ConvertOp, b: Compiler) -> OpCode:
    dtype, storage = b.dtype(op.output.type), dtype_of(op.output.type)
    if b.exact and is_float(dtype_of(op.in_a.type)) and is_float(storage):
        return unary(lambda x: narrowed(x, storage))
    shape = shaped(op.output).get_shape()

    def run(x: Array) -> Array:
        (part,) = tensors.compressed([x])
        return np.broadcast_to(tensors.cast(part, dtype, nearest=False), shape)

    return unary(run)


@rule(boundary.AsLogicalShapeOp, boundary.AsUnderlyingShapeOp)
def across(op: Operation, b: Compiler) -> OpCode:
    return unary(lambda x: x)


@rule(ops.TransposeOp)
def transpose(op: ops.TransposeOp, b: Compiler) -> OpCode:
    order = ints(op.permutation)
    return unary(lambda x: x.transpose(order))


@rule(ops.ReshapeOp, ops.FlattenOp)
def reshape(op: ops.ReshapeOp | ops.FlattenOp, b: Compiler) -> OpCode:
    return tensors.reshape(op)


@rule(ops.SliceOp)
def slices(op: ops.SliceOp, b: Compiler) -> OpCode:
    index = tuple(slice(start, end) for start, end in zip(*op.bounds(), strict=True))
    return unary(lambda x: x[index])


@rule(ops.PadOp)
def pad(op: ops.PadOp, b: Compiler) -> OpCode:
    margins, value = op.margins(), op.value.value.data
    return unary(lambda x: tensors.pad(x, margins, value))


@rule(ops.BroadcastOp)
def broadcast(op: ops.BroadcastOp, b: Compiler) -> OpCode:
    target, source, axis = shaped(op.output).get_shape(), shaped(op.input).get_shape(), op.axis.value.data
    placed = (1,) * axis + source + (1,) * (len(target) - axis - len(source))
    return unary(lambda x: np.broadcast_to(x.reshape(placed), target))


@rule(ops.MultiBroadcastOp)
def multibroadcast(op: ops.MultiBroadcastOp, b: Compiler) -> OpCode:
    target = shaped(op.output).get_shape()
    return unary(lambda x: np.broadcast_to(x, target))


@rule(ops.SoftmaxOp)
def softmax(op: ops.SoftmaxOp, b: Compiler) -> OpCode:
    axis = op.axis.value.data % len(shaped(op.output).get_shape())

    def rows(x: Array) -> Array:
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)

    return tensors.by_rows(op, b, [axis], rows)


@rule(ops.ReduceMaxOp, ops.ReduceSumOp, ops.ReduceMeanOp)
def reduction(op: ops.ReduceOp, b: Compiler) -> OpCode:
    fn: Any = tensors.total
    if isinstance(op, ops.ReduceMaxOp):
        fn = np.max
    elif isinstance(op, ops.ReduceMeanOp):
        fn = np.mean
    return tensors.reduce(op, b, fn, ints(op.axes))


@rule(ops.DotOp, quantize.QuantDotOp)
def dot(op: ops.DotOp | quantize.QuantDotOp, b: Compiler) -> OpCode:
    dtype, exact = b.dtype(op.output.type), b.exact
    batch = shaped(op.in_b).get_shape()[:-2]
    columns = shaped(op.in_b).get_shape()[-2:]

    def run(m: Machine, x: Array, y: Array) -> Value:
        # Leading lengths of 1 or none at all in B: one matrix for all of A.
        return tensors.matmul(x, y.reshape(columns) if all(n == 1 for n in batch) else y, dtype, exact)

    return run


@rule(quantize.DeQuantizeLinearOp)
def dequantize(op: quantize.DeQuantizeLinearOp, b: Compiler) -> OpCode:
    work = F32 if not b.exact else np.dtype(np.float64)

    def fn(x: Array, scale: Array, *bias: Array) -> Array:
        x, *zero = (part.astype(work) for part in (x, *bias))
        return (x - zero[0] if zero else x) * scale

    return tensors.elementwise(op, b, fn)


@rule(quantize.QuantizeLinearOp)
def quantize_linear(op: quantize.QuantizeLinearOp, b: Compiler) -> OpCode:
    """The quotient is made as TOSA makes it, with a reciprocal, so that ties fall on the same side everywhere."""
    limits, dtype = np.iinfo(b.dtype(op.output.type)), b.dtype(op.input.type)

    def fn(x: Array, scale: Array, *bias: Array) -> Array:
        reciprocal = narrow(1 / wide(scale, b.exact), dtype)
        quotient = narrow(wide(x, b.exact) * wide(reciprocal, b.exact), dtype)
        whole = tensors.cast(quotient, np.dtype(np.int64), nearest=True).clip(-(2**40), 2**40)
        return (whole + bias[0].astype(np.int64) if bias else whole).clip(limits.min, limits.max).astype(limits.dtype)

    return tensors.elementwise(op, b, fn, moves=True)


@rule(quantize.UnpackOp)
def unpack(op: quantize.UnpackOp, b: Compiler) -> OpCode:
    shape = shaped(op.output).get_shape()
    axis = op.axis.value.data % len(shape)
    kind = np.dtype(np.uint8 if op.is_unsigned else np.int8)
    dtype = b.dtype(op.output.type)

    def run(x: Array) -> Array:
        byte = np.ascontiguousarray(x).view(kind)
        return np.stack([(byte << 4) >> 4, byte >> 4], axis + 1).reshape(shape).astype(dtype, copy=False)

    return unary(run)


@rule(ops.DerefOp)
def deref(op: ops.DerefOp, b: Compiler) -> OpCode:
    stored, dtype = dtype_of(op.output.type), b.dtype(op.output.type)

    def run(m: Machine, addresses: Array) -> Value:
        return tensors.read_addresses(m.memory, addresses, stored).astype(dtype, copy=False)

    return run
