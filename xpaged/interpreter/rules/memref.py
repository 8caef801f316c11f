"""memref: loads and stores by coordinates, allocation in the simulated memory, and views."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from weakref import WeakKeyDictionary

import numpy as np
from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, IntegerAttr, MemRefType
from xdsl.ir import Attribute, Operation

from xpaged.errors import XpagedError
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value, rule, unary
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.numerics import Array, dtype_of
from xpaged.interpreter.rules.arith import constant_array
from xpaged.interpreter.views import MemRef, row_major, strides_of
from xpaged.ir.module_constants import elements_of, global_of
from xpaged.ir.transform_map import Transform, TransformMap

_WORKGROUP_SPACE = 3


@rule(memref.LoadOp)
def load(op: memref.LoadOp, b: Compiler) -> OpCode:
    dtype = b.dtype(op.res.type)

    def run(m: Machine, source: MemRef, *indices: Array) -> Array:
        loaded = source.load(m.memory, indices, mask=m.mask)
        return loaded if loaded.dtype == dtype else loaded.astype(dtype)

    return run


@rule(memref.StoreOp)
def store(op: memref.StoreOp, b: Compiler) -> OpCode:
    storage = dtype_of(op.value.type)

    def run(m: Machine, value: Array, target: MemRef, *indices: Array) -> None:
        target.store(m.memory, indices, value.astype(storage, copy=False), mask=m.mask)

    return run


@rule(memref.GetGlobalOp)
def get_global(op: memref.GetGlobalOp, b: Compiler) -> OpCode:
    """A constant of the module, placed in memory where it is first asked for."""
    type, name = op.memref.type, op.name_.string_value()
    assert isinstance(type, MemRefType)
    elements, dtype = constant_array(elements_of(global_of(op)), b, op), dtype_of(type)
    values = np.ascontiguousarray(elements, dtype)
    placed: WeakKeyDictionary[Memory, int] = WeakKeyDictionary()

    def run(m: Machine) -> MemRef:
        if m.memory not in placed:
            placed[m.memory] = m.memory.allocate(values.nbytes, name=name, dtype=dtype).base
            m.memory.write_array(placed[m.memory], values)
        at = np.full(m.lanes, placed[m.memory], np.uint64)
        return MemRef.dense(at, dtype, type.get_shape())

    return run


def _memory_space(type: MemRefType) -> int | None:
    space = type.memory_space
    return space.value.data if isinstance(space, IntegerAttr) else None


@rule(memref.AllocOp, memref.AllocaOp)
def alloc(op: memref.AllocOp | memref.AllocaOp, b: Compiler) -> OpCode:
    type = op.memref.type
    assert isinstance(type, MemRefType)
    shape = type.get_shape()
    if DYNAMIC_INDEX in shape:
        raise XpagedError("the interpreter allocates static shapes only", found=str(type))
    dtype = dtype_of(type)
    bytes = max(prod(shape) * dtype.itemsize, 1)
    name = op.memref.name_hint or "allocation"
    shared = _memory_space(type) == _WORKGROUP_SPACE

    def run(m: Machine) -> MemRef:
        if m.lanes == 1:
            at = np.array([m.memory.allocate(bytes, name=name, dtype=dtype, fill=0xFF).base], np.uint64)
        elif shared:
            at = m.memory.allocate_many(len(m.groups), bytes, name=name, dtype=dtype, fill=0xFF)
        else:
            at = m.memory.allocate_many(m.lanes, bytes, name=name, dtype=dtype, fill=0xFF)
        if m.lanes > 1 and shared:
            at = at[m.group_index]
        return MemRef.dense(at, dtype, shape)

    return run


@rule(memref.DeallocOp)
def dealloc(op: memref.DeallocOp, b: Compiler) -> OpCode:
    def run(m: Machine, x: MemRef) -> None:
        """Memory stays mapped until the end of the launch."""

    return run


@rule(memref.CopyOp)
def copy(op: memref.CopyOp, b: Compiler) -> OpCode:
    def run(m: Machine, source: MemRef, target: MemRef) -> None:
        target.write_all(m.memory, source.read_all(m.memory))

    return run


@rule(memref.CastOp, memref.MemorySpaceCastOp, memref.AssumeAlignmentOp)
def same(op: Operation, b: Compiler) -> OpCode:
    return unary(lambda x: x)


@rule(memref.DimOp)
def dim(op: memref.DimOp, b: Compiler) -> OpCode:
    def run(m: Machine, source: MemRef, index: Array) -> Array:
        return np.array(source.shape, np.int64)[index]

    return run


@rule(memref.RankOp)
def rank(op: memref.RankOp, b: Compiler) -> OpCode:
    assert isinstance(op.source.type, MemRefType)
    value = np.array([op.source.type.get_num_dims()], np.int64)
    return unary(lambda x: value)


@rule(memref.ExtractAlignedPointerAsIndexOp)
def pointer(op: memref.ExtractAlignedPointerAsIndexOp, b: Compiler) -> OpCode:
    def run(m: Machine, source: MemRef) -> Array:
        if source.maps or source.table is not None:
            raise XpagedError("a view through transforms or a page table has no single pointer")
        return source.base.view(np.int64)

    return run


def reassociation(attr: Attribute) -> list[list[int]]:
    """The groups of `expand_shape` and `collapse_shape` as lists of dims."""
    assert isinstance(attr, ArrayAttr)
    return [[i.value.data for i in group] for group in attr]


def reshape_map(groups: Sequence[Sequence[int]], many: Sequence[int], few: Sequence[int], expand: bool) -> TransformMap:
    """The map of a reshape between `many` dims and the `few` that they are grouped into."""
    kind = "Unmerge" if expand else "Merge"
    transforms: list[Transform] = []
    for i, group in enumerate(groups):
        params = tuple(many[d] for d in group)
        several, single = (tuple(f"d{d}" for d in group), tuple(group)), ((f"g{i}",), (i,))
        upper, lower = (several, single) if expand else (single, several)
        transforms.append(Transform(kind, params, *upper, *lower))
    bounds = (tuple(many), tuple(few)) if expand else (tuple(few), tuple(many))
    return TransformMap(tuple(transforms), *bounds)


@rule(memref.ExpandShapeOp, memref.CollapseShapeOp)
def reshape(op: memref.ExpandShapeOp | memref.CollapseShapeOp, b: Compiler) -> OpCode:
    source, result = op.src.type, op.result.type
    assert isinstance(source, MemRefType)
    assert isinstance(result, MemRefType)
    expand = isinstance(op, memref.ExpandShapeOp)
    many, few = (result, source) if expand else (source, result)
    groups = reassociation(op.reassociation)
    map = reshape_map(groups, many.get_shape(), few.get_shape(), expand) if groups else None
    shape = result.get_shape()

    def run(m: Machine, x: MemRef, *sizes: Array) -> MemRef:
        if x.table is None and not x.maps and x.strides == row_major(x.shape):
            return replace(x, shape=shape, strides=row_major(shape))
        if map is None:
            raise XpagedError("a view cannot be reshaped to or from a scalar memref")
        return x.transformed(map)

    return run


def mixed(static: Sequence[int], dynamic: Sequence[Value]) -> list[Value]:
    """Static numbers with each dynamic placeholder replaced by the next of `dynamic`."""
    rest = iter(dynamic)
    return [next(rest) if s == DYNAMIC_INDEX else s for s in static]


@rule(memref.SubviewOp)
def subview(op: memref.SubviewOp, b: Compiler) -> OpCode:
    offsets, sizes, strides = (tuple(a.get_values()) for a in (op.static_offsets, op.static_sizes, op.static_strides))
    if op.sizes or op.strides:
        raise XpagedError("the interpreter takes memref.subview with static sizes and strides only")
    result = op.result.type
    assert isinstance(result, MemRefType)
    kept = _kept_dims(sizes, result.get_shape())

    def run(m: Machine, x: MemRef, *dynamic: Array) -> MemRef:
        if x.table is not None or x.maps:
            raise XpagedError("memref.subview of a view through transforms: use a Slice transform")
        position: Value = np.zeros(1, np.int64)
        for offset, stride in zip(mixed(offsets, dynamic), x.strides, strict=True):
            position = position + offset * stride
        base = x.base + (position * x.dtype.itemsize).view(np.uint64)
        steps = [s * t for s, t in zip(strides, x.strides, strict=True)]
        return replace(x, base=base, shape=tuple(sizes[d] for d in kept), strides=tuple(steps[d] for d in kept))

    return run


def _kept_dims(sizes: Sequence[int], result: Sequence[int]) -> list[int]:
    """The dims of a subview that its rank-reduced type keeps: dropped ones have size 1."""
    kept: list[int] = []
    for d, size in enumerate(sizes):
        left = len(sizes) - d
        if len(kept) < len(result) and size == result[len(kept)] and (size != 1 or left <= len(result) - len(kept)):
            kept.append(d)
    if len(kept) != len(result):
        raise XpagedError("this subview's type does not follow from its sizes", found=str(list(result)))
    return kept


@rule(memref.ReinterpretCastOp)
def reinterpret_cast(op: memref.ReinterpretCastOp, b: Compiler) -> OpCode:
    offsets, sizes, strides = (tuple(a.get_values()) for a in (op.static_offsets, op.static_sizes, op.static_strides))
    if op.sizes or op.strides:
        raise XpagedError("the interpreter takes memref.reinterpret_cast with static sizes and strides only")

    def run(m: Machine, x: MemRef, *dynamic: Array) -> MemRef:
        if x.table is not None or x.maps:
            raise XpagedError("memref.reinterpret_cast of a view through transforms")
        offset = np.asarray(mixed(offsets, dynamic)[0], np.int64)
        base = x.base + (offset * x.dtype.itemsize).view(np.uint64)
        return replace(x, base=base, shape=sizes, strides=strides)

    return run


@rule(memref.ViewOp)
def view(op: memref.ViewOp, b: Compiler) -> OpCode:
    type = op.result.type
    assert isinstance(type, MemRefType)
    dtype, shape, strides = dtype_of(type), type.get_shape(), strides_of(type)

    def run(m: Machine, x: MemRef, shift: Array, *sizes: Array) -> MemRef:
        return MemRef(x.base + shift.view(np.uint64), dtype, shape, strides)

    return run
