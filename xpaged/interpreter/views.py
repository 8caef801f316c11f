"""Memrefs as values: a base address, a chain of transform maps above it, and for paged memory the page table below it.

Nothing is read when a view is made. Elements are read either by coordinates (tiles, lanes), which turns coordinates
into addresses through the chain, or as a whole, which turns the chain into NumPy reshapes and one gather.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any, Self

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, NoneAttr

from xpaged.errors import XpagedError
from xpaged.interpreter.memory import Memory, MemoryFault
from xpaged.interpreter.numerics import Array
from xpaged.ir.transform_map import TransformMap


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a dense array of `shape`."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def strides_of(type: MemRefType) -> tuple[int, ...]:
    """The strides, in elements, of memrefs of a type with a static shape and an identity or static strided layout.

    Raises XpagedError for any other.
    """
    shape = type.get_shape()
    if isinstance(type.layout, NoneAttr):
        return row_major(shape)
    strides = type.get_strides()
    if strides is None or DYNAMIC_INDEX in shape or any(s is None for s in strides):
        raise XpagedError("the interpreter takes memrefs of static shape and layout", found=str(type))
    return tuple(s for s in strides if s is not None)


def view_array(map: TransformMap, lower: Array, fill: Any = 0) -> Array:
    """What `rock.transform` by `map` makes of `lower` (an array of shape `map.lower_bounds`): an array of shape
    `map.upper_bounds`, sharing memory where NumPy can. Elements that the map calls invalid are `fill`."""
    array = lower.transpose([d for t in map.transforms for d in t.lower_dims])
    axis = 0
    for t in map.transforms:
        before = (slice(None),) * axis
        p = t.params
        if t.kind == "Unmerge":
            array = array.reshape(*array.shape[:axis], *p, *array.shape[axis + 1 :])
        elif t.kind == "Merge":
            array = array.reshape(*array.shape[:axis], prod(p), *array.shape[axis + len(p) :])
        elif t.kind == "Slice":
            array = array[(*before, *(slice(p[2 * i], p[2 * i + 1]) for i in range(len(p) // 2)))]
        elif t.kind == "Pad":
            width = [(0, 0)] * array.ndim
            width[axis : axis + len(p) // 2] = [(p[2 * i], p[2 * i + 1]) for i in range(len(p) // 2)]
            array = np.pad(array, width, constant_values=fill)
        elif t.kind == "ConstDim":
            array = array[(*before, *p[::2])]
        elif t.kind == "AddDim":
            array = array[(*before, None)]
        elif t.kind == "Embed":
            grid = np.ogrid[tuple(slice(map.upper_bounds[d]) for d in t.upper_dims)]
            index = sum(c * g for c, g in zip(p, grid, strict=True))
            valid = (index >= 0) & (index < array.shape[axis])
            array = array[(*before, np.where(valid, index, 0))]
            if not valid.all():
                valid = valid.reshape(*valid.shape, *([1] * (array.ndim - axis - valid.ndim)))
                array = np.where(valid, array, np.asarray(fill, array.dtype))
        elif t.kind == "Broadcast":
            for i, (d, n) in enumerate(zip(t.upper_dims, p, strict=True)):
                if n > 1:
                    array = array.take(np.arange(map.upper_bounds[d]) % n, axis + i)
        bounds = tuple(map.upper_bounds[d] for d in t.upper_dims)
        shape = (*array.shape[:axis], *bounds, *array.shape[axis + len(bounds) :])
        if array.shape != shape:  # AddDim, and Broadcast of length 1
            array = np.broadcast_to(array, shape)
        axis += len(bounds)
    upper = [d for t in map.transforms for d in t.upper_dims]
    return array.transpose(np.argsort(upper)) if upper else array


def view_through(maps: Sequence[TransformMap], lower: Array, fill: Any = 0) -> Array:
    """`view_array` through a chain, the uppermost map first in `maps`."""
    for map in reversed(maps):
        lower = view_array(map, lower, fill)
    return lower


@lru_cache(maxsize=64)
def positions(maps: tuple[TransformMap, ...], shape: tuple[int, ...]) -> Array:
    """For each element of the view its row-major position in an array of `shape`, -1 for an invalid one."""
    return view_through(maps, np.arange(prod(shape)).reshape(shape), -1)


def page_alignment(bytes: int) -> int:
    """What the address of a page of `bytes` bytes is a multiple of: the largest power of two in `bytes`, 16 at most."""
    return min(bytes & -bytes, 16)


@dataclass(frozen=True)
class MemRef:
    """A view of memory.

    `shape` is the view's own; `maps` lead from it (the uppermost map first) to the coordinates of the buffer. Without
    `table` the buffer starts at the addresses `base` (`uint64[P]`, or `uint64[1]` where it is the same for all lanes)
    and has `strides`, in elements. With `table` the buffer's coordinates are (batch, page, offset) and the table holds
    the pages' addresses: a memref, or at the tensor level an array, of shape [batch, page, 1].
    """

    base: Array
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    maps: tuple[TransformMap, ...] = ()
    table: "MemRef | Array | None" = None

    @classmethod
    def dense(cls, base: Array | int, dtype: np.dtype[Any], shape: Sequence[int]) -> Self:
        """A buffer of `shape` in row-major order from address `base`."""
        at = np.array([base], np.uint64) if isinstance(base, int) else base
        return cls(at, dtype, tuple(shape), row_major(shape))

    @classmethod
    def paged(cls, table: "MemRef | Array", dtype: np.dtype[Any], shape: Sequence[int]) -> Self:
        """What `rock.deref` makes of a page table: a view of shape [batch, page, offset] of all its pages."""
        return cls(np.zeros(1, np.uint64), dtype, tuple(shape), row_major(shape), (), table)

    @property
    def buffer_shape(self) -> tuple[int, ...]:
        """The shape below all maps."""
        return self.maps[-1].lower_bounds if self.maps else self.shape

    def transformed(self, map: TransformMap) -> Self:
        """The view of this view by `map`."""
        return replace(self, shape=map.upper_bounds, maps=(map, *self.maps))

    # By coordinates

    def addresses(
        self, memory: Memory, coords: Sequence[Array], mask: Array | None = None
    ) -> tuple[Array, Array | None]:
        """The addresses (uint64) of the elements at `coords`, one integer array a dimension of the view, and where they
        exist and `mask` holds (None: everywhere); other addresses mean nothing. Both arrays broadcast to the common
        shape of `coords`: a coordinate that nothing depends on leaves a length of 1.

        With one base a lane the first axis of `coords` is that of lanes. A page table is read, where needed, by one
        gather; reading it may raise MemoryFault.
        """
        valid = mask
        current = list(coords)
        for map in self.maps:
            current, conditions = map.apply(current)
            for x, low, high in conditions:
                inside = np.asarray((x >= low) & (x < high))
                valid = inside if valid is None else valid & inside
        if not any(np.ndim(x) for x in current):  # every coordinate is a constant
            rank = max((np.ndim(x) for x in coords), default=1)
            current = [np.full((1,) * max(rank, 1), x) for x in current]
        if self.table is not None:
            batch, page, offset = current
            addresses = self._page(memory, batch, page, valid)
            return addresses + _bytes(offset, self.dtype.itemsize), valid
        position: Any = 0
        for x, stride in zip(current, self.strides, strict=True):
            position = position + (x if stride == 1 else x * stride)
        offset = _bytes(position, self.dtype.itemsize)
        base = self.base
        if base.size > 1 and offset.ndim > 1:
            base = base.reshape(-1, *([1] * (offset.ndim - 1)))
        return base + offset, valid

    def _page(self, memory: Memory, batch: Any, page: Any, valid: Array | None) -> Array:
        batch, page = np.asarray(batch), np.asarray(page)
        if isinstance(self.table, MemRef):
            zero = np.zeros((1,) * max(page.ndim, 1), np.int64)
            return self.table.load(memory, (batch, page, zero), mask=valid).view(np.uint64)
        table = self.table
        assert table is not None
        if valid is not None:
            batch, page = np.where(valid, batch, 0), np.where(valid, page, 0)
        return np.ascontiguousarray(table[batch, page, 0]).view(np.uint64)

    def load(
        self,
        memory: Memory,
        coords: Sequence[Array],
        count: int = 1,
        mask: Array | None = None,
        align: int | None = None,
    ) -> Array:
        """The elements at `coords`, or `count` consecutive ones in memory from each (a last axis of that length).

        Elements that do not exist or whose `mask` is false are not touched and are 0.
        """
        addresses, valid = self.addresses(memory, coords, mask)
        return memory.load(addresses, self.dtype, count, valid, align)

    def store(
        self,
        memory: Memory,
        coords: Sequence[Array],
        values: Array,
        count: int = 1,
        mask: Array | None = None,
        align: int | None = None,
    ) -> None:
        """Writes `values` at `coords`, as `load` reads; elements that do not exist or are masked off are dropped."""
        addresses, valid = self.addresses(memory, coords, mask)
        memory.store(addresses, values, count, valid, align)

    # As a whole

    def read_all(self, memory: Memory, needed: Array | None = None) -> Array:
        """The whole view as an array of `shape`; elements that do not exist are 0.

        Only elements with `needed` true (an array that broadcasts to `shape`) have to be mapped; what stands in the
        place of the others means nothing. Raises MemoryFault.
        """
        if self.table is None:
            index = positions(self.maps, self.buffer_shape)
            if self.strides == row_major(self.buffer_shape):
                flat = memory.read_array(int(self.base[0]), self.dtype, prod(self.buffer_shape))
                return view_through(self.maps, flat.reshape(self.buffer_shape))
            coords = np.unravel_index(np.maximum(index, 0), self.buffer_shape)
            return replace(self, shape=self.buffer_shape, maps=()).load(memory, coords, mask=index >= 0)
        pages = self.page_addresses(memory)
        size = self.buffer_shape[2]
        align = page_alignment(size * self.dtype.itemsize)
        mapped = memory.is_mapped(pages, size * self.dtype.itemsize)
        if mapped.all():
            return view_through(self.maps, memory.load(pages, self.dtype, size, align=align).reshape(self.buffer_shape))
        there = np.broadcast_to(mapped[..., None], self.buffer_shape)
        missing = ~view_through(self.maps, there, True)
        if needed is not None:
            missing &= needed
        if missing.any():
            index = positions(self.maps, self.buffer_shape)[missing].flat[0]
            batch, page, offset = np.unravel_index(index, self.buffer_shape)
            address = int(pages[batch, page]) + int(offset) * self.dtype.itemsize
            where = memory.locate(address)
            raise MemoryFault(
                f"read of {self.dtype.itemsize} bytes at {address & (1 << 64) - 1:#x}, which entry [{batch}, {page}] "
                f"of a page table leads to and where nothing is mapped: {where}",
                address,
            )
        data = memory.load(pages, self.dtype, size, mapped, align).reshape(self.buffer_shape)
        return view_through(self.maps, data)

    def page_addresses(self, memory: Memory) -> Array:
        """The page table's entries, `uint64[batch, page]`."""
        table = self.table
        if table is None:
            raise XpagedError("a view of unpaged memory has no page table")
        entries = table.read_all(memory) if isinstance(table, MemRef) else table
        return np.ascontiguousarray(entries[..., 0]).view(np.uint64)

    def write_all(self, memory: Memory, values: Array) -> None:
        """Writes an array of `shape` to the whole view; elements that do not exist are dropped."""
        position = positions(self.maps, self.buffer_shape)
        there = position >= 0
        count = prod(self.buffer_shape)
        if self.table is None and self.base.size == 1 and self.strides == row_major(self.buffer_shape):
            flat = np.empty(count, self.dtype)
            used = np.zeros(count, np.bool_)
            flat[position[there]] = values[there]
            used[position[there]] = True
            if used.all():
                memory.write_array(int(self.base[0]), flat)
                return
        coords = np.unravel_index(np.maximum(position, 0), self.buffer_shape)
        whole = replace(self, shape=self.buffer_shape, maps=())
        whole.store(memory, coords, np.ascontiguousarray(values), mask=there)

    def merge(self, mask: Array, old: "MemRef") -> "MemRef":
        """This memref in the lanes of `mask`, `old` elsewhere; both must be views of the same form."""
        if replace(self, base=old.base) != replace(old, table=self.table) or self.table is not old.table:
            raise XpagedError("lanes of one value hold memrefs of different shapes, layouts or views")
        return replace(self, base=np.where(mask, self.base, old.base))


def _bytes(position: Any, itemsize: int) -> Array:
    """Element positions (integers of any type) as byte offsets in uint64."""
    array = np.asarray(position)
    if array.dtype != np.int64:
        array = array.astype(np.int64)
    return (array * itemsize if itemsize > 1 else array).view(np.uint64)


def materialize(memory: Memory, value: Any, needed: Array | None = None) -> Array:
    """A tensor or memref value as a plain array: paged tensors are lazy until someone needs their elements."""
    return value.read_all(memory, needed) if isinstance(value, MemRef) else value
