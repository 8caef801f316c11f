"""migraphx: every operation as the graph writes it; values are logical tensors, strides are a matter of arguments."""

from typing import Any

import numpy as np
from xdsl.ir import Operation

from xpaged.dialects.migraphx import elementwise, ops
from xpaged.dialects.migraphx.base import ints, shaped
from xpaged.interpreter import tensors
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value, rule, unary
from xpaged.interpreter.numerics import Array, dtype_of, is_float, narrowed
from xpaged.interpreter.rules.arith import div_toward_zero
from xpaged.interpreter.rules.math import erf


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


@rule(ops.TransposeOp)
def transpose(op: ops.TransposeOp, b: Compiler) -> OpCode:
    order = ints(op.permutation)
    return unary(lambda x: x.transpose(order))


@rule(ops.ReshapeOp)
def reshape(op: ops.ReshapeOp, b: Compiler) -> OpCode:
    return tensors.reshape(op)


@rule(ops.SliceOp)
def slices(op: ops.SliceOp, b: Compiler) -> OpCode:
    index = tuple(slice(start, end) for start, end in zip(*op.bounds(), strict=True))
    return unary(lambda x: x[index])


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


@rule(ops.DotOp)
def dot(op: ops.DotOp, b: Compiler) -> OpCode:
    dtype, exact = b.dtype(op.output.type), b.exact
    batch = shaped(op.in_b).get_shape()[:-2]
    columns = shaped(op.in_b).get_shape()[-2:]

    def run(m: Machine, x: Array, y: Array) -> Value:
        # Leading lengths of 1 or none at all in B: one matrix for all of A.
        return tensors.matmul(x, y.reshape(columns) if all(n == 1 for n in batch) else y, dtype, exact)

    return run


@rule(ops.DerefOp)
def deref(op: ops.DerefOp, b: Compiler) -> OpCode:
    stored, dtype = dtype_of(op.output.type), b.dtype(op.output.type)

    def run(m: Machine, addresses: Array) -> Value:
        return tensors.read_addresses(m.memory, addresses, stored).astype(dtype, copy=False)

    return run
