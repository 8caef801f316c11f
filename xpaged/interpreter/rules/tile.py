"""Tile operations of the rock dialect: one "lane" is a workgroup, a tile is an array of (workgroups, *tile shape).

Layouts do not matter here: a tile is what all lanes hold together.  Values that are the same for all workgroups have
a first axis of length 1.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock.tile_reductions import TileIfAnyOp, TileReduceLaneOp, TileReduceOp
from xpaged.dialects.rock.tile_type import TileType
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, rule
from xpaged.interpreter.numerics import Array, dtype_of
from xpaged.interpreter.views import MemRef


def _column(value: Array, rank: int) -> Array:
    """A scalar, (P,) or (1,), as an array that broadcasts against tiles of `rank` coordinates."""
    return value.reshape(-1, *([1] * rank))


def _whole(value: Array, shape: Sequence[int]) -> Array:
    """A tile value with all its elements."""
    return np.broadcast_to(value, (value.shape[0], *shape))


def _grid(shape: Sequence[int]) -> list[Array]:
    """The coordinates of a tile, each as an array that broadcasts to (1, *shape)."""
    return [np.arange(n).reshape(1, *(n if i == d else 1 for i in range(len(shape)))) for d, n in enumerate(shape)]


def _index(base: Array, strides: Sequence[int], shape: Sequence[int]) -> Array:
    total: Any = _column(base, len(shape))
    for coordinate, stride in zip(_grid(shape), strides, strict=True):
        if stride:
            total = total + coordinate * stride
    return total


def _strides(op: tile.TileIndexOp | tile.TileMaskOp) -> list[int]:
    return list(op.strides.get_values())


@rule(tile.WorkgroupIdOp)
def workgroup_id(op: tile.WorkgroupIdOp, b: Compiler) -> OpCode:
    return lambda m: m.workgroup_id


@rule(tile.StageOp, tile.BarrierOp, tile.SchedBarrierOp)
def mark(op: tile.StageOp | tile.BarrierOp | tile.SchedBarrierOp, b: Compiler) -> OpCode:
    def run(m: Machine) -> None:
        """The tiles of a workgroup are made and used in program order: nothing to wait for."""

    return run


@rule(tile.TileFillOp)
def fill(op: tile.TileFillOp, b: Compiler) -> OpCode:
    shape = tile.tile_of(op.result).get_shape()
    return lambda m, value: _whole(_column(value, len(shape)), shape)


@rule(tile.TileIndexOp)
def index(op: tile.TileIndexOp, b: Compiler) -> OpCode:
    shape, strides = tile.tile_of(op.result).get_shape(), _strides(op)
    return lambda m, base: _whole(_index(base, strides, shape).astype(np.int32), shape)


def _coordinates(indices: Sequence[Array], shape: Sequence[int]) -> list[Array]:
    return [*(_column(i, len(shape)) for i in indices), *_grid(shape)]


def _active(m: Machine, mask: Array | None, rank: int) -> Array | None:
    if m.mask is None:
        return mask
    lanes = _column(m.mask, rank)
    return lanes if mask is None else lanes & mask


@rule(tile.TileLoadOp)
def load(op: tile.TileLoadOp, b: Compiler) -> OpCode:
    type_ = tile.tile_of(op.result)
    shape, count, dtype = type_.get_shape(), len(op.indices), b.dtype(type_.element_type)

    def run(m: Machine, view: MemRef, *rest: Array) -> Array:
        mask = _active(m, rest[count] if len(rest) > count else None, len(shape))
        addresses, valid = view.addresses(m.memory, _coordinates(rest[:count], shape), mask)
        if valid is not None:
            addresses, valid = np.broadcast_arrays(addresses, valid)
        return _whole(m.memory.load(addresses, view.dtype, 1, valid).astype(dtype, copy=False), shape)

    return run


@rule(tile.TileStoreOp)
def store(op: tile.TileStoreOp, b: Compiler) -> OpCode:
    shape = tile.tile_of(op.value).get_shape()

    def run(m: Machine, value: Array, view: MemRef, *indices: Array) -> None:
        mask = _active(m, None, len(shape))
        addresses, valid = view.addresses(m.memory, _coordinates(indices, shape), mask)
        full = np.broadcast_shapes(addresses.shape, value.shape, () if valid is None else valid.shape)
        addresses = np.broadcast_to(addresses, full)
        valid = None if valid is None else np.broadcast_to(valid, full)
        m.memory.store(addresses, np.broadcast_to(value, full).astype(view.dtype, copy=False), 1, valid)

    return run


@rule(tile.TileMmaOp)
def mma(op: tile.TileMmaOp, b: Compiler) -> OpCode:
    accumulator = b.dtype(tile.tile_of(op.c).element_type)
    work = np.dtype(np.float64) if accumulator.kind == "i" else accumulator  # products of i8 are exact

    def run(m: Machine, x: Array, y: Array, z: Array) -> Array:
        product = np.matmul(x.astype(work, copy=False), y.astype(work, copy=False))
        return product.astype(accumulator, copy=False) + z

    return run


def _is_tile(type_: Attribute) -> bool:
    return isinstance(type_, TileType)


@rule(tile.TileMapOp)
def map_(op: tile.TileMapOp, b: Compiler) -> OpCode:
    shape = tile.tile_of(op.result).get_shape()
    tiles = [_is_tile(v.type) for v in op.inputs]
    body = b.region(op.body)

    def run(m: Machine, *inputs: Array) -> Array:
        values = [x if is_tile else _column(x, len(shape)) for x, is_tile in zip(inputs, tiles, strict=True)]
        (result,) = body(m, values)
        lanes = max([x.shape[0] for x in values], default=1)
        return np.broadcast_to(result, (lanes, *shape))

    return run


@rule(tile.TileMaskOp)
def mask(op: tile.TileMaskOp, b: Compiler) -> OpCode:
    shape, strides = tile.tile_of(op.scores).get_shape(), _strides(op)
    infinity = b.dtype(tile.tile_of(op.scores).element_type).type("-inf")

    def run(m: Machine, scores: Array, base: Array, upper: Array, lower: Array | None = None) -> Array:
        keys = _index(base, strides, shape)
        kept = keys <= upper
        if lower is not None:
            kept = kept & (keys >= lower)
        return np.where(kept, scores, infinity)

    return run


@rule(TileReduceOp)
def reduce(op: TileReduceOp, b: Compiler) -> OpCode:
    axis = op.dim.value.data + 1
    combine = np.fmax if op.kind.data == "max" else np.add
    return lambda m, x: combine.reduce(x, axis=axis, keepdims=True)


@rule(TileReduceLaneOp)
def reduce_lane(op: TileReduceLaneOp, b: Compiler) -> OpCode:
    layout, dim = tile.tile_of(op.value).layout, op.dim.value.data
    digits = [(d, home) for home in ("wave", "lane", "regs") for d in layout.digits(home) if d.dim == dim]
    digits.sort(key=lambda each: -each[0].stride)
    sizes = [d.size for d, _ in digits]
    axes = tuple(1 + dim + i for i, (_, home) in enumerate(digits) if home == "regs")
    combine = np.fmax if op.kind.data == "max" else np.add
    shape = tile.tile_of(op.result).get_shape()

    def run(m: Machine, x: Array) -> Array:
        parts = x.reshape(*x.shape[: dim + 1], *sizes, *x.shape[dim + 2 :])
        return combine.reduce(parts, axis=axes).reshape(-1, *shape)

    return run


@rule(TileIfAnyOp)
def if_any(op: TileIfAnyOp, b: Compiler) -> OpCode:
    body = b.region(op.body)
    layout = tile.tile_of(op.condition).layout
    shapes = [tile.tile_of(v).get_shape() for v in op.initial]

    def by_wave(held: Array) -> Array:
        """For each element whether any element of its wave holds: (P, *shape), extents of 1 where waves share."""
        for dim, extent in enumerate(layout.shape):
            step = extent // prod(d.size for d in layout.wave if d.dim == dim)
            shape = held.shape
            parts = held.reshape(*shape[: dim + 1], -1, step, *shape[dim + 2 :])
            held = np.asarray(parts.any(axis=dim + 2))
            if step != extent:
                held = held.repeat(step, axis=dim + 1)
        return held

    def run(m: Machine, condition: Array, *initial: Array) -> Any:
        taken = by_wave(condition)
        new = body(m, initial)
        values = [
            np.where(np.broadcast_to(taken, np.broadcast_shapes(taken.shape, (1, *shape))), n, i)
            for n, i, shape in zip(new, initial, shapes, strict=True)
        ]
        return values[0] if len(values) == 1 else tuple(values)

    return run


@rule(tile.TileConvertLayoutOp)
def convert(op: tile.TileConvertLayoutOp, b: Compiler) -> OpCode:
    return lambda m, x: x


@rule(tile.LdsAllocOp)
def lds_alloc(op: tile.LdsAllocOp, b: Compiler) -> OpCode:
    type_ = op.result.type
    assert isinstance(type_, MemRefType)
    shape, dtype = type_.get_shape(), dtype_of(type_)
    bytes_ = prod(shape) * dtype.itemsize
    name = op.result.name_hint or "LDS"

    def run(m: Machine) -> MemRef:
        bases = m.memory.allocate_many(len(m.groups), bytes_, name=name, dtype=dtype, fill=0xFF)
        return MemRef.dense(bases, dtype, shape)

    return run
