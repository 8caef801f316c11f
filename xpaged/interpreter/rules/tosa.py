"""tosa: every operation as the graph writes it, rounded to the type that the graph gives it."""

from typing import Any

import numpy as np
from xdsl.ir import Operation

from xpaged.dialects import rocmlir_names
from xpaged.dialects.tosa import constants, elementwise, ops
from xpaged.errors import XpagedError
from xpaged.interpreter import tensors
from xpaged.interpreter.evaluator import Compiler, OpCode, nullary, rule, unary
from xpaged.interpreter.numerics import Array, dtype_of, is_float, narrowed
from xpaged.interpreter.rules.arith import div_toward_zero, unsigned
from xpaged.interpreter.rules.math import erf

_FUNCTIONS: dict[type[Operation], tensors.Fn] = {
    elementwise.AbsOp: np.abs,
    elementwise.AddOp: np.add,
    elementwise.CeilOp: np.ceil,
    elementwise.EqualOp: np.equal,
    elementwise.ErfOp: erf,
    elementwise.ExpOp: np.exp,
    elementwise.FloorOp: np.floor,
    elementwise.GreaterEqualOp: np.greater_equal,
    elementwise.GreaterOp: np.greater,
    elementwise.IntDivOp: div_toward_zero,
    elementwise.LogOp: np.log,
    elementwise.ArithmeticRightShiftOp: np.right_shift,
    elementwise.LogicalAndOp: np.logical_and,
    elementwise.LogicalLeftShiftOp: np.left_shift,
    elementwise.LogicalRightShiftOp: lambda x, y: (unsigned(x) >> unsigned(y)).view(x.dtype),
    elementwise.LogicalNotOp: np.logical_not,
    elementwise.LogicalOrOp: np.logical_or,
    elementwise.PowOp: np.power,
    elementwise.ReciprocalOp: np.reciprocal,
    elementwise.RsqrtOp: tensors.rsqrt,
    elementwise.SigmoidOp: tensors.sigmoid,
    elementwise.SubOp: np.subtract,
    elementwise.TanhOp: np.tanh,
}


@rule(elementwise.SelectOp)
def select(op: elementwise.SelectOp, b: Compiler) -> OpCode:
    return tensors.elementwise(op, b, np.where, moves=True)


@rule(*_FUNCTIONS)
def by_element(op: Operation, b: Compiler) -> OpCode:
    return tensors.elementwise(op, b, _FUNCTIONS[type(op)])


@rule(elementwise.MulOp, elementwise.NegateOp)
def without_zero_points(op: elementwise.MulOp | elementwise.NegateOp, b: Compiler) -> OpCode:
    """The shift and the zero points are 0: the verifier has seen to it."""
    if isinstance(op, elementwise.MulOp):
        code = tensors.elementwise(op, b, np.multiply)
        return lambda m, x, y, *rest: code(m, x, y)
    code = tensors.elementwise(op, b, np.negative)
    return lambda m, x, *rest: code(m, x)


@rule(elementwise.MaximumOp, elementwise.MinimumOp)
def extremum(op: elementwise.MaximumOp | elementwise.MinimumOp, b: Compiler) -> OpCode:
    if isinstance(op, elementwise.MaximumOp):
        return tensors.elementwise(op, b, np.fmax if ops.ignores_nan(op) else np.maximum)
    return tensors.elementwise(op, b, np.fmin if ops.ignores_nan(op) else np.minimum)


@rule(elementwise.ClampOp)
def clamp(op: elementwise.ClampOp, b: Compiler) -> OpCode:
    low, high = op.bounds

    def fn(x: Array) -> Array:
        result = np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))
        return np.where(np.isnan(x), x.dtype.type(low), result) if ops.ignores_nan(op) else result

    return tensors.elementwise(op, b, fn)


@rule(elementwise.IdentityOp)
def identity(op: elementwise.IdentityOp, b: Compiler) -> OpCode:
    return unary(lambda x: x)


@rule(elementwise.CastOp)
def cast(op: elementwise.CastOp, b: Compiler) -> OpCode:
    dtype, storage = b.dtype(op.output.type), dtype_of(op.output.type)
    if b.exact and is_float(dtype_of(op.input.type)) and is_float(storage):
        return unary(lambda x: narrowed(x, storage))
    shape = op.output.type.get_shape()

    def run(x: Array) -> Array:
        (part,) = tensors.compressed([x])
        return np.broadcast_to(tensors.cast(part, dtype, nearest=True), shape)

    return unary(run)


@rule(constants.ConstOp)
def constant(op: constants.ConstOp, b: Compiler) -> OpCode:
    return tensors.constant(op.elements, op.output.type, b)


@rule(constants.ConstShapeOp)
def constant_shape(op: constants.ConstShapeOp, b: Compiler) -> OpCode:
    lengths = op.lengths
    return nullary(lambda: lengths)


@rule(ops.ReshapeOp)
def reshape(op: ops.ReshapeOp, b: Compiler) -> OpCode:
    shape = op.output.type.get_shape()
    return lambda m, x, *rest: x.reshape(shape)


@rule(ops.TransposeOp)
def transpose(op: ops.TransposeOp, b: Compiler) -> OpCode:
    order = op.order
    return lambda m, x, *rest: x.transpose(order)


@rule(ops.SliceOp)
def slices(op: ops.SliceOp, b: Compiler) -> OpCode:
    index = tuple(slice(start, start + size) for start, size in zip(op.starts, op.sizes, strict=True))
    return lambda m, x, *rest: x[index]


@rule(ops.TileOp)
def tile(op: ops.TileOp, b: Compiler) -> OpCode:
    return lambda m, x, multiples: np.tile(x, multiples)


@rule(ops.ConcatOp)
def concat(op: ops.ConcatOp, b: Compiler) -> OpCode:
    axis = op.axis.value.data
    return lambda m, *parts: np.concatenate(parts, axis)


@rule(ops.ReduceMaxOp, ops.ReduceMinOp, ops.ReduceSumOp)
def reduction(op: ops.ReduceOp, b: Compiler) -> OpCode:
    fn: Any = tensors.total
    if isinstance(op, ops.ReduceMaxOp):
        fn = np.fmax.reduce if ops.ignores_nan(op) else np.max
    elif isinstance(op, ops.ReduceMinOp):
        fn = np.fmin.reduce if ops.ignores_nan(op) else np.min
    return tensors.reduce(op, b, fn, [op.axis.value.data])


@rule(ops.MatMulOp)
def matmul(op: ops.MatMulOp, b: Compiler) -> OpCode:
    dtype, exact = b.dtype(op.output.type), b.exact
    return lambda m, x, y, *rest: tensors.matmul(x, y, dtype, exact)


@rule(ops.PadOp)
def pad(op: ops.PadOp, b: Compiler) -> OpCode:
    margins, value = op.margins, op.value
    return lambda m, x, *rest: tensors.pad(x, margins, value)


@rule(ops.CustomOp)
def custom(op: ops.CustomOp, b: Compiler) -> OpCode:
    name = op.operator_name.data
    stored, dtype = dtype_of(op.outputs[0].type), b.dtype(op.outputs[0].type)
    if op.domain_name.data == rocmlir_names.DOMAIN:
        if name == rocmlir_names.DEREF:
            return lambda m, addresses: tensors.read_addresses(m.memory, addresses, stored).astype(dtype, copy=False)
        if name == rocmlir_names.UNSIGNED_DIV:
            return tensors.elementwise(op, b, lambda x, y: (unsigned(x) // unsigned(y)).view(x.dtype))
        if name == rocmlir_names.UNSIGNED_CAST:
            return tensors.elementwise(op, b, lambda x: _unsigned_cast(x, stored), moves=True)
        if name == rocmlir_names.FP_TO_INT_CAST:
            return tensors.elementwise(op, b, lambda x: tensors.cast(x, stored, nearest=False), moves=True)
    raise XpagedError(
        f"the interpreter has no rule for the custom operator {name!r}",
        at=op,
        found=f"domain {op.domain_name.data!r}",
    )


def _unsigned_cast(x: Array, dtype: np.dtype[Any]) -> Array:
    """A conversion in which integers, also those that are `x` or become the result, are unsigned."""
    if is_float(x.dtype):
        return tensors.cast(x, np.dtype(f"u{dtype.itemsize}"), nearest=False).view(dtype)
    return tensors.cast(unsigned(x), dtype, nearest=False)
