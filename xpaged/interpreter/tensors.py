"""What the graph levels (migraphx, tosa, tensor) share: whole tensors as NumPy arrays, one rounding an operation.

A float operation works in float32 (float64 in exact evaluation) and rounds its result once, to the type that the
graph gives it. Broadcasts stay views: where no operand differs along a dimension, one element of it is computed.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Operation

from xpaged.interpreter.evaluator import Compiler, OpCode, Value, nullary, unary
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.numerics import Array, dtype_of, is_float, narrow, widen
from xpaged.ir import dense

Fn = Callable[..., Any]

_BLOCK = 1 << 16
"""Elements worked on at a time."""


def wide(x: Array, exact: bool) -> Array:
    """Floats as they are computed with: float32 (float64 when `exact`); integers and truth values as they are."""
    if not is_float(x.dtype):
        return x
    return x.astype(np.float64, copy=False) if exact else widen(x)


def blocks(shape: Sequence[int], whole: Sequence[int] = ()) -> Iterator[tuple[slice, ...]]:
    """Boxes that cover `shape`, small enough for a core's cache; dimensions in `whole` are not cut."""
    step, size = list(shape), prod(shape)
    for d, length in enumerate(shape):
        if d not in whole and size > _BLOCK:
            size //= length
            step[d] = min(length, max(1, _BLOCK // max(size, 1)))
            size *= step[d]
    starts = [range(0, length, each) for length, each in zip(shape, step, strict=True)]
    for corner in product(*starts):
        yield tuple(slice(at, at + each) for at, each in zip(corner, step, strict=True))


def elementwise(op: Operation, b: Compiler, fn: Fn, *, moves: bool = False) -> OpCode:
    """`fn` on widened operands of one rank, rounded to the result's type and broadcast to its shape.

    With `moves` the function only picks elements, and gets them as they are.
    """
    type: Any = op.results[0].type
    dtype, shape, exact = b.dtype(type), tuple(type.get_shape()), b.exact

    def run(m: Any, *operands: Value) -> Value:
        parts = compressed(operands)
        size = np.broadcast_shapes(*(x.shape for x in parts))
        result = np.empty(size, dtype)
        parts = [np.broadcast_to(x, size) for x in parts]
        for block in blocks(size):
            if moves:
                result[block] = fn(*(x[block] for x in parts))
            else:
                result[block] = narrow(fn(*(wide(x[block], exact) for x in parts)), dtype)
        return np.broadcast_to(result, shape)

    return run


def compressed(operands: Sequence[Array]) -> list[Array]:
    """The operands with one element along every dimension in which none of them differs."""
    rank = operands[0].ndim
    same = [all(x.shape[d] == 1 or x.strides[d] == 0 for x in operands) for d in range(rank)]
    index = tuple(slice(0, 1) if s else slice(None) for s in same)
    return [x[index] for x in operands]


def constant(elements: DenseIntOrFPElementsAttr[Any], type: Attribute, b: Compiler) -> OpCode:
    """A constant tensor; a splat is a broadcast view."""
    stored, shape = dtype_of(elements.get_element_type()), tuple(type.get_shape())  # pyright: ignore
    value = dense.to_numpy(elements, stored)
    if dense.is_splat(elements):
        value = np.broadcast_to(value.reshape(-1)[:1].astype(b.dtype(type)).reshape((1,) * len(shape)), shape)
    value = value.astype(b.dtype(type), copy=False) if value.dtype != b.dtype(type) else value
    value.setflags(write=False)
    return nullary(lambda: value)


def reshape(op: Operation) -> OpCode:
    """The same elements under the result's lengths."""
    shape: tuple[int, ...] = tuple(op.results[0].type.get_shape())  # pyright: ignore
    return unary(lambda x: x.reshape(shape))


def reduce(op: Operation, b: Compiler, fn: Fn, axes: Sequence[int]) -> OpCode:
    """`fn(x, axis=, keepdims=)` along `axes`, which keep length 1."""
    type: Any = op.results[0].type
    rank = len(type.get_shape())
    along = tuple(axis % rank for axis in axes)
    return by_rows(op, b, along, lambda x: fn(x, axis=along, keepdims=True))


def by_rows(op: Operation, b: Compiler, along: Sequence[int], fn: Fn) -> OpCode:
    """`fn` on parts of one widened operand that are whole along `along`, rounded to the result's type."""
    type: Any = op.results[0].type
    dtype, shape, exact = b.dtype(type), tuple(type.get_shape()), b.exact

    def run(x: Array) -> Array:
        result = np.empty(shape, dtype)
        for block in blocks(x.shape, along):
            here = tuple(slice(0, shape[d]) if d in along else part for d, part in enumerate(block))
            result[here] = narrow(fn(wide(x[block], exact)), dtype)
        return result

    return unary(run)


def total(x: Array, axis: Any, keepdims: bool) -> Array:
    """A sum in the operand's own type: integers wrap."""
    return np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


def matmul(x: Array, y: Array, dtype: np.dtype[Any], exact: bool) -> Array:
    """Matrix products of the last two dimensions, summed in float32 (integers in int32), rounded to `dtype`."""
    result = np.empty((*x.shape[:-1], y.shape[-1]), dtype)
    for at in np.ndindex(x.shape[:-2]):
        a, c = x[at], y[at] if y.ndim > 2 else y
        if is_float(x.dtype):
            for rows in blocks(result.shape[-2:], [1]):
                result[at][rows] = narrow(wide(a[rows[:1]], exact) @ wide(c, exact), dtype)
        else:
            result[at] = a.astype(np.int32) @ c.astype(np.int32)
    return result


def cast(x: Array, dtype: np.dtype[Any], *, nearest: bool) -> Array:
    """A conversion; to truth values by "not zero", from floats to integers to nearest or toward zero.

    Floats that no integer of the type is near become the nearest one, and NaN 0. Integers wrap.
    """
    if dtype == np.bool_:
        return x != 0
    if not is_float(x.dtype):
        return x.astype(dtype)
    x = wide(x, x.dtype == np.float64)
    if is_float(dtype):
        return x.astype(dtype)
    limits = np.iinfo(dtype)
    whole = np.rint(x) if nearest else np.trunc(x)
    high, low = whole >= float(limits.max), whole <= float(limits.min)
    result = np.where(high | low | np.isnan(whole), 0, whole).astype(dtype)
    return np.where(high, limits.max, np.where(low, limits.min, result)).astype(dtype, copy=False)


def pad(x: Array, margins: Sequence[tuple[int, int]], value: int | float) -> Array:
    """More elements around `x`, all equal to `value`."""
    return np.pad(x, margins, constant_values=np.asarray(value).astype(x.dtype))


def read_addresses(memory: Memory, addresses: Array, dtype: np.dtype[Any]) -> Array:
    """The element at each 64-bit address; MemoryFault for an address outside mapped memory."""
    return memory.load(np.ascontiguousarray(addresses).view(np.uint64), dtype)


def sigmoid(x: Array) -> Array:
    """`1 / (1 + exp(-x))`."""
    return 1 / (1 + np.exp(-x))


def rsqrt(x: Array) -> Array:
    """`1 / sqrt(x)`."""
    return 1 / np.sqrt(x)
