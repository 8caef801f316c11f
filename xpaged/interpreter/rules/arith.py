"""arith: NumPy's own operations, with MLIR's meaning of wrapping, unsigned and signed division, and NaN."""

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, ShapedType, VectorType
from xdsl.ir import Operation

from xpaged.errors import XpagedError
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value, binary, nullary, rule, unary
from xpaged.interpreter.numerics import F16, F32, Array, dtype_of, narrowed, to_half, widen

Binary = Callable[[Array, Array], Array]


def unsigned(x: Array) -> Array:
    """The same bits as unsigned integers."""
    if x.dtype == np.bool_ or x.dtype.kind == "u":
        return x
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def div_toward_zero(x: Array, y: Array) -> Array:
    """The quotient of signed integers, rounded toward zero; 0 for a division by 0."""
    quotient = x // y
    inexact = (quotient * y != x) & ((x < 0) != (y < 0)) & (y != 0)
    return quotient + inexact


def _ceil_div(x: Array, y: Array) -> Array:
    return x // y + (x % y != 0)


def _on_unsigned(fn: Binary) -> Binary:
    def run(x: Array, y: Array) -> Array:
        return fn(unsigned(x), unsigned(y)).view(x.dtype)

    return run


def _shift(fn: Binary) -> Binary:
    def run(x: Array, y: Array) -> Array:
        return fn(x, y & (8 * x.dtype.itemsize - 1))

    return run


_BINARY: dict[type[Operation], Binary] = {
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.DivSIOp: div_toward_zero,
    arith.DivUIOp: _on_unsigned(np.floor_divide),
    arith.FloorDivSIOp: np.floor_divide,
    arith.CeilDivSIOp: _ceil_div,
    arith.CeilDivUIOp: _on_unsigned(lambda x, y: x // y + (x % y != 0)),
    arith.RemSIOp: np.fmod,
    arith.RemUIOp: _on_unsigned(np.remainder),
    arith.MinSIOp: np.minimum,
    arith.MaxSIOp: np.maximum,
    arith.MinUIOp: _on_unsigned(np.minimum),
    arith.MaxUIOp: _on_unsigned(np.maximum),
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.ShLIOp: _shift(np.left_shift),
    arith.ShRSIOp: _shift(np.right_shift),
    arith.ShRUIOp: _shift(_on_unsigned(np.right_shift)),
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    arith.MaxnumfOp: np.fmax,
    arith.MinnumfOp: np.fmin,
}


@rule(*_BINARY)
def arithmetic(op: Operation, b: Compiler) -> OpCode:
    return binary(_BINARY[type(op)])


@rule(arith.NegfOp)
def negf(op: arith.NegfOp, b: Compiler) -> OpCode:
    return unary(np.negative)


def constant_array(value: object, b: Compiler, op: Operation) -> Array:
    """An attribute as an interpreter value: scalars `(1,)`, vectors `(1, *shape)`, tensors `shape`.

    Splats stay one element that is only broadcast.
    """
    if isinstance(value, IntegerAttr):
        # Signless literals may be written either way: -1 and 255 are one i8.
        dtype = b.dtype(value.type)
        return np.array([value.value.data & ((1 << 64) - 1)], np.uint64).astype(dtype)
    if isinstance(value, FloatAttr):
        return np.array([value.value.data], np.float64).astype(dtype_of(value.type)).astype(b.dtype(value.type))
    if isinstance(value, DenseIntOrFPElementsAttr):
        type = value.type
        assert isinstance(type, ShapedType)
        shape = type.get_shape()
        dtype = b.dtype(type)
        if value.is_splat():
            data = np.broadcast_to(np.array(value.get_values()[0]).astype(dtype), shape)
        else:
            data = np.array(value.get_values()).astype(dtype).reshape(shape)
        return data[None] if isinstance(type, VectorType) else data
    raise XpagedError("the interpreter cannot take this constant", at=op, found=str(value)[:80])


@rule(arith.ConstantOp)
def constant(op: arith.ConstantOp, b: Compiler) -> OpCode:
    value = constant_array(op.value, b, op)
    value.setflags(write=False)
    return nullary(lambda: value)


_ORDERED: tuple[Callable[[Array, Array], Any], ...] = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
)
_CMPF: tuple[Callable[[Array, Array], Any], ...] = (
    lambda x, y: np.zeros(np.broadcast_shapes(x.shape, y.shape), np.bool_),  # false
    np.equal,  # oeq
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    lambda x, y: (x < y) | (x > y),  # one
    lambda x, y: (x == x) & (y == y),  # ord
    lambda x, y: ~((x < y) | (x > y)),  # ueq
    lambda x, y: ~(x <= y),
    lambda x, y: ~(x < y),
    lambda x, y: ~(x >= y),
    lambda x, y: ~(x > y),
    np.not_equal,  # une
    lambda x, y: (x != x) | (y != y),  # uno
    lambda x, y: np.ones(np.broadcast_shapes(x.shape, y.shape), np.bool_),  # true
)


@rule(arith.CmpiOp)
def cmpi(op: arith.CmpiOp, b: Compiler) -> OpCode:
    predicate = op.predicate.value.data
    if predicate < 6:
        compare = _ORDERED[predicate]
        return binary(compare)
    compare = _ORDERED[predicate - 4]
    return binary(lambda x, y: compare(unsigned(x), unsigned(y)))


@rule(arith.CmpfOp)
def cmpf(op: arith.CmpfOp, b: Compiler) -> OpCode:
    compare = _CMPF[op.predicate.value.data]
    return binary(compare)


@rule(arith.SelectOp)
def select(op: arith.SelectOp, b: Compiler) -> OpCode:
    def run(m: Machine, c: Array, x: Value, y: Value) -> Value:
        if not hasattr(x, "merge"):  # an array, or what stands in for one
            if c.ndim < x.ndim:
                c = c.reshape(*c.shape, *([1] * (x.ndim - c.ndim)))
            return np.where(c, x, y)
        if c.size == 1:
            return x if c.item() else y
        return x.merge(c, y)

    return run


@rule(
    arith.IndexCastOp,
    arith.ExtSIOp,
    arith.TruncIOp,
    arith.SIToFPOp,
    arith.FPToSIOp,
)
def convert(op: Operation, b: Compiler) -> OpCode:
    dtype = b.dtype(op.results[0].type)
    if dtype == np.bool_:  # keeps the lowest bit
        return unary(lambda x: (x & 1).astype(np.bool_))
    if b.exact and isinstance(op, arith.SIToFPOp) and b.dtype(op.operands[0].type) != np.bool_:
        storage = dtype_of(op.results[0].type)
        return unary(lambda x: narrowed(x.astype(np.float64), storage))
    signed_bool = isinstance(op, arith.ExtSIOp | arith.SIToFPOp) and b.dtype(op.operands[0].type) == np.bool_
    if signed_bool:
        return unary(lambda x: -x.astype(dtype))
    return unary(lambda x: x.astype(dtype))


@rule(arith.ExtUIOp, arith.UIToFPOp)
def from_unsigned(op: Operation, b: Compiler) -> OpCode:
    dtype = b.dtype(op.results[0].type)
    return unary(lambda x: unsigned(x).astype(dtype))


@rule(arith.FPToUIOp)
def fptoui(op: arith.FPToUIOp, b: Compiler) -> OpCode:
    dtype = b.dtype(op.results[0].type)
    return unary(lambda x: x.astype(np.uint64).astype(dtype))


@rule(arith.ExtFOp, arith.TruncFOp)
def convert_float(op: Operation, b: Compiler) -> OpCode:
    dtype = b.dtype(op.results[0].type)
    if b.exact:
        storage = dtype_of(op.results[0].type)
        return unary(lambda x: narrowed(x, storage))
    if dtype == np.float32 and isinstance(op, arith.ExtFOp):
        return unary(widen)
    if dtype == F16 and b.dtype(op.operands[0].type) == F32:
        return unary(to_half)
    return unary(lambda x: x.astype(dtype))


@rule(arith.BitcastOp)
def bitcast(op: arith.BitcastOp, b: Compiler) -> OpCode:
    if b.exact:
        raise XpagedError("bits of a float cannot be looked at in an exact evaluation", at=op)
    dtype = b.dtype(op.results[0].type)
    return unary(lambda x: np.ascontiguousarray(x).view(dtype))
