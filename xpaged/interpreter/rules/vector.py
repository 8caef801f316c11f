"""vector: short vectors of one lane, an axis (or more) behind that of the lanes."""

import numpy as np
from xdsl.dialects import vector
from xdsl.dialects.builtin import DYNAMIC_INDEX, VectorType

from xpaged.errors import XpagedError
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value, rule, ternary, unary
from xpaged.interpreter.numerics import Array, dtype_of
from xpaged.interpreter.rules.math import fused_multiply_add
from xpaged.interpreter.views import MemRef


def _length(type: object) -> int:
    assert isinstance(type, VectorType)
    shape = type.get_shape()
    if len(shape) != 1:
        raise XpagedError("the interpreter loads and stores vectors of rank 1", found=str(type))
    return shape[0]


@rule(vector.LoadOp)
def load(op: vector.LoadOp, b: Compiler) -> OpCode:
    count, dtype = _length(op.result.type), b.dtype(op.result.type)

    def run(m: Machine, source: MemRef, *indices: Array) -> Array:
        loaded = source.load(m.memory, indices, count, m.mask).astype(dtype, copy=False)
        return loaded if count > 1 else loaded[..., None]

    return run


@rule(vector.StoreOp)
def store(op: vector.StoreOp, b: Compiler) -> OpCode:
    count, storage = _length(op.vector.type), dtype_of(op.vector.type)

    def run(m: Machine, value: Array, target: MemRef, *indices: Array) -> None:
        value = value.astype(storage, copy=False)
        target.store(m.memory, indices, value if count > 1 else value[..., 0], count, m.mask)

    return run


def _element_coords(indices: tuple[Array, ...], count: int) -> list[Array]:
    """Coordinates of `count` neighbours along the last dim, an axis behind the lanes'."""
    return [i[:, None] for i in indices[:-1]] + [indices[-1][:, None] + np.arange(count)]


@rule(vector.MaskedLoadOp)
def masked_load(op: vector.MaskedLoadOp, b: Compiler) -> OpCode:
    count, dtype = _length(op.result.type), b.dtype(op.result.type)

    def run(m: Machine, source: MemRef, *rest: Array) -> Array:
        *indices, mask, other = rest
        wanted = mask if m.mask is None else mask & m.mask[:, None]
        loaded = source.load(m.memory, _element_coords(tuple(indices), count), mask=wanted)
        return np.where(mask, loaded.astype(dtype, copy=False), other)

    return run


@rule(vector.MaskedStoreOp)
def masked_store(op: vector.MaskedStoreOp, b: Compiler) -> OpCode:
    count, storage = _length(op.value_to_store.type), dtype_of(op.value_to_store.type)

    def run(m: Machine, target: MemRef, *rest: Array) -> None:
        *indices, mask, value = rest
        wanted = mask if m.mask is None else mask & m.mask[:, None]
        coords = _element_coords(tuple(indices), count)
        target.store(m.memory, coords, value.astype(storage, copy=False), mask=wanted)

    return run


@rule(vector.CreateMaskOp)
def create_mask(op: vector.CreateMaskOp, b: Compiler) -> OpCode:
    count = _length(op.mask_vector.type)
    return unary(lambda size: np.arange(count) < size[:, None])


@rule(vector.BroadcastOp)
def broadcast(op: vector.BroadcastOp, b: Compiler) -> OpCode:
    assert isinstance(op.vector.type, VectorType)
    shape = op.vector.type.get_shape()

    def spread(x: Array) -> Array:
        x = x.reshape(x.shape[0], *([1] * (len(shape) + 1 - x.ndim)), *x.shape[1:])
        return np.broadcast_to(x, (x.shape[0], *shape))

    return unary(spread)


def _where(position: list[int], dynamic: tuple[Array, ...], m: Machine) -> tuple[Value, ...]:
    """An index for a vector with its axis of lanes."""
    if not dynamic:
        return (slice(None), *position)
    rest = iter(dynamic)
    indices = [next(rest) if p == DYNAMIC_INDEX else p for p in position]
    if all(i.size == 1 for i in dynamic):
        return (slice(None), *(int(i) if isinstance(i, int) else int(i.item()) for i in indices))
    return (np.arange(m.lanes), *indices)


@rule(vector.ExtractOp)
def extract(op: vector.ExtractOp, b: Compiler) -> OpCode:
    position = list(op.static_position.get_values())
    if not op.dynamic_position:
        index = (slice(None), *position)
        return unary(lambda x: x[index])

    def run(m: Machine, x: Array, *dynamic: Array) -> Array:
        where = _where(position, dynamic, m)
        if x.shape[0] == 1 and not isinstance(where[0], slice):
            x = np.broadcast_to(x, (m.lanes, *x.shape[1:]))
        return x[where]

    return run


@rule(vector.InsertOp)
def insert(op: vector.InsertOp, b: Compiler) -> OpCode:
    position = list(op.static_position.get_values())

    def run(m: Machine, source: Array, target: Array, *dynamic: Array) -> Array:
        where = _where(position, dynamic, m)
        lanes = max(source.shape[0], target.shape[0], 1 if isinstance(where[0], slice) else m.lanes)
        result = np.broadcast_to(target, (lanes, *target.shape[1:])).copy()
        result[where] = source
        return result

    return run


@rule(vector.ShuffleOp)
def shuffle(op: vector.ShuffleOp, b: Compiler) -> OpCode:
    order = np.array(op.mask.get_values())

    def run(m: Machine, x: Array, y: Array) -> Array:
        lanes = max(x.shape[0], y.shape[0])
        both = [np.broadcast_to(v, (lanes, *v.shape[1:])) for v in (x, y)]
        return np.concatenate(both, axis=1)[:, order]

    return run


@rule(vector.FMAOp)
def fma(op: vector.FMAOp, b: Compiler) -> OpCode:
    return ternary(fused_multiply_add)


@rule(vector.BitcastOp)
def bitcast(op: vector.BitcastOp, b: Compiler) -> OpCode:
    if b.exact:
        raise XpagedError("bits of a float cannot be looked at in an exact evaluation", at=op)
    dtype = b.dtype(op.result.type)
    return unary(lambda x: np.ascontiguousarray(x).view(dtype))


_REDUCTIONS = {
    "add": np.add,
    "mul": np.multiply,
    "minsi": np.minimum,
    "maxsi": np.maximum,
    "minimumf": np.minimum,
    "maximumf": np.maximum,
    "minnumf": np.fmin,
    "maxnumf": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@rule(vector.ReductionOp)
def reduction(op: vector.ReductionOp, b: Compiler) -> OpCode:
    kind = op.kind.data.value
    if kind not in _REDUCTIONS:
        raise XpagedError(f"the interpreter has no rule for the vector.reduction kind {kind!r}", at=op)
    fn = _REDUCTIONS[kind]

    def run(m: Machine, x: Array, *accumulator: Array) -> Array:
        """From the first element to the last, in order."""
        total = accumulator[0] if accumulator else x[:, 0]
        for i in range(0 if accumulator else 1, x.shape[1]):
            total = fn(total, x[:, i])
        return total

    return run
