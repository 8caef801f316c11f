"""The simulated 64-bit address space: every pointer of an interpreted program is an address in it.

Bytes live in one arena. A *segment* is a range of addresses that the arena mirrors byte for byte, so that an access
whose addresses lie in one segment (a buffer, all pages of one table, the LDS of all workgroups) is translated by one
subtraction and read by one gather. Inside a segment each byte is mapped or not: pages are separated by unmapped bytes,
and a page that the caller left unmapped stays so. Each byte also knows whether it was ever written, and whether what it
holds is poison. Segments lie anywhere; what lies between them costs nothing.
"""

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xpaged.errors import XpagedError

Array = npt.NDArray[Any]
Addresses = npt.NDArray[np.uint64]

MAPPED = 1
WRITTEN = 2
POISONED = 4
"""Holds nothing that means anything, although it may be read: a result must not depend on it."""
_GUARD = 64
"""Unmapped bytes on both sides of every allocation that shares a segment with others."""
_FIRST_BASE = 0x7E00_0000_0000
_SEGMENT_SPACING = 1 << 21
_FAR = 64
"""Places of allocations that are so many apart are mirrored apart."""
_MOVERS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype(np.complex128),
}
"""Types that move that many bytes at once, bits untouched."""
_SHIFTS = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4}
_WRITTEN_STATE: dict[int, Array] = {
    step: np.full(step, MAPPED | WRITTEN, np.uint8).view(mover) for step, mover in _MOVERS.items()
}


class MemoryFault(XpagedError):
    """An access outside mapped memory, or a misaligned one. `address` is the first offending one."""

    def __init__(self, what: str, address: int, *, at: Any = None, fix: str | None = None) -> None:
        super().__init__(what, at=at, fix=fix)
        self.address = address


@dataclass(frozen=True)
class Allocation:
    """`bytes` bytes from address `base`; `dtype` is what the allocation was made to hold."""

    base: int
    bytes: int
    name: str
    dtype: np.dtype[Any] | None = None

    @property
    def end(self) -> int:
        """One past the last address."""
        return self.base + self.bytes

    def __str__(self) -> str:
        of = f" of {self.dtype}" if self.dtype is not None else ""
        return f"{self.name or 'allocation'}{of} [{self.base:#x}, {self.end:#x})"


def page_stride(bytes: int, align: int) -> int:
    """How far apart allocations of `bytes` bytes lie that are aligned to `align`, with unmapped bytes between them."""
    stride = -(-(bytes + _GUARD) // align) * align
    if (stride // align) % 2 == 0 and bytes:
        stride += align  # consecutive ones then differ in alignment: nobody can rely on more than `align`
    return stride


@dataclass(frozen=True, eq=False)
class Segment:
    """A range of addresses that the arena mirrors: one allocation, or many of one size at a regular distance."""

    base: int
    end: int
    start: int  # of the segment in the arena
    solid: bool  # every byte is mapped, so that the range check is the whole check
    bases: Addresses  # of its allocations
    size: int  # of each of them, in bytes
    name: str
    dtype: np.dtype[Any] | None
    first: int  # the lowest address that an allocation may have
    stride: int  # from one allocation to the next

    def allocations(self) -> list[Allocation]:
        """Its allocations, in the order in which they were asked for."""
        if len(self.bases) == 1 and self.solid:
            return [Allocation(self.base, self.size, self.name, self.dtype)]
        return [Allocation(a, self.size, f"{self.name}[{i}]", self.dtype) for i, a in enumerate(self.bases.tolist())]


class Memory:
    """A simulated address space.

    `load` and `store` take arrays of addresses and check each of them; both are a handful of NumPy calls whatever the
    number of lanes.
    """

    def __init__(self, capacity: int = 1 << 16) -> None:
        self._arena = np.zeros(capacity, np.uint8)
        self._state = np.zeros(capacity, np.uint8)
        self._views: dict[np.dtype[Any], Array] = {}
        self._used = 0
        self._next_base = _FIRST_BASE
        self._next_line = 1 << 10
        self._segments: list[Segment] = []  # by base
        self._bases: list[int] = []  # theirs
        self._segments_by_age: list[Segment] = []
        self._table: Array | None = None  # of the segments: see _segment_table

    # Allocation

    def allocate(
        self,
        bytes: int,
        *,
        align: int = 256,
        base: int | None = None,
        name: str = "",
        dtype: np.dtype[Any] | None = None,
        fill: int = 0,
    ) -> Allocation:
        """Maps `bytes` bytes at `base`, or where there is room, at a multiple of `align`; each byte is `fill` and
        counts as never written (255: NaN in every float type, and as a pointer an address where nothing is).

        Raises XpagedError when `base` is not a multiple of `align` or the range overlaps another allocation's.
        """
        if base is None:
            base = -(-self._next_base // align) * align
        elif base % align:
            raise XpagedError(f"cannot place {name!r}", found=f"base {base:#x}", expected=f"a multiple of {align}")
        bases = np.array([base], np.uint64)
        start = self._add_segment(base, base + bytes, True, bases, bytes, name, dtype, fill, base, max(bytes, 1))
        self._state[start : start + bytes] = MAPPED
        return Allocation(base, bytes, name, dtype)

    def allocate_many(
        self,
        count: int,
        bytes: int,
        *,
        align: int = 16,
        base: int | None = None,
        straddle: bool = False,
        order: Array | None = None,
        mapped: npt.NDArray[np.bool_] | None = None,
        name: str = "",
        dtype: np.dtype[Any] | None = None,
        fill: int = 0,
    ) -> Addresses:
        """Maps `count` allocations of `bytes` bytes each and returns their addresses, `uint64[count]`.

        Allocation `i` is the `order[i]`-th in address order (the `i`-th without `order`). They are aligned to `align`
        and not all to more, with unmapped bytes between them. Those with `mapped[i]` false are reserved but unmapped:
        an access there is a fault that names them. With `straddle` they lie on both sides of a multiple of 4 GiB.
        """
        stride = page_stride(bytes, align)
        size = stride * max(count, 1) + _GUARD
        lead = -(-_GUARD // align) * align
        if straddle:
            base = 0
            while not base or self._overlapped(base - lead, base + size) is not None:
                self._next_line += 3
                base = (self._next_line << 32) - stride * count // 2 // align * align
        elif base is None:
            base = -(-self._next_base // align) * align + lead
        elif base % align:
            raise XpagedError(f"cannot place {name!r}", found=f"base {base:#x}", expected=f"a multiple of {align}")
        slots = np.arange(count) if order is None else np.asarray(order, np.int64)
        places = np.uint64(base) + slots.astype(np.uint64) * np.uint64(stride)
        start = self._add_segment(base - lead, base + size, False, places, bytes, name, dtype, fill, base, stride)
        state = self._state[start + lead : start + lead + stride * count].reshape(count, stride)
        if mapped is None:
            state[:, :bytes] = MAPPED
        else:
            state[slots[np.asarray(mapped, np.bool_)], :bytes] = MAPPED
        return places

    def allocate_places(
        self,
        places: Array,
        bytes: int,
        *,
        align: int = 16,
        base: int | None = None,
        name: str = "",
        dtype: np.dtype[Any] | None = None,
    ) -> Addresses:
        """As `allocate_many`, with allocation `i` at place `places[i]` (different numbers, in ascending order) from
        `base`: only places that are taken cost memory, however far apart they are."""
        stride = page_stride(bytes, align)
        if base is None:
            lead = -(-_GUARD // align) * align
            base = -(-self._next_base // align) * align + lead
        starts = np.flatnonzero(np.diff(places, prepend=-_FAR) >= _FAR)
        ends = np.append(starts[1:], len(places))
        found: list[Addresses] = []
        for first, end in zip(starts.tolist(), ends.tolist(), strict=True):
            run = places[first:end]
            at = base + int(run[0]) * stride
            slots = run - run[0]
            taken = np.zeros(int(slots[-1]) + 1, np.bool_)
            taken[slots] = True
            several = self.allocate_many(len(taken), bytes, align=align, base=at, mapped=taken, name=name, dtype=dtype)
            found.append(several[slots])
        return np.concatenate(found)

    def mark(self) -> int:
        """A point to come back to with `release`."""
        return len(self._segments_by_age)

    def release(self, mark: int) -> None:
        """Takes back everything allocated since `mark`."""
        while len(self._segments_by_age) > mark:
            segment = self._segments_by_age.pop()
            at = self._bases.index(segment.base)
            del self._segments[at], self._bases[at]
            self._table = None
            self._state[segment.start : self._used] = 0
            self._used = segment.start

    @property
    def allocations(self) -> list[Allocation]:
        """All allocations, oldest first."""
        return [a for segment in self._segments_by_age for a in segment.allocations()]

    def _add_segment(
        self,
        base: int,
        end: int,
        solid: bool,
        bases: Addresses,
        size: int,
        name: str,
        dtype: np.dtype[Any] | None,
        fill: int,
        first: int,
        stride: int,
    ) -> int:
        if base < 0 or end > 1 << 64:
            raise XpagedError("an allocation lies outside the 64-bit address space", found=f"[{base:#x}, {end:#x})")
        other = self._overlapped(base, end)
        if other is not None:
            found = f"[{base:#x}, {end:#x}) and [{other.base:#x}, {other.end:#x})"
            raise XpagedError(f"{name!r} would overlap {other.name!r}", found=found)
        at = bisect_right(self._bases, base)
        # The lowest address bits are kept in the arena so that aligned accesses are aligned there, too.
        start = -(-self._used // 16) * 16 + base % 16
        self._reserve(start + end - base)
        segment = Segment(base, end, start, solid, bases, size, name, dtype, first, stride)
        self._table = None
        self._segments.insert(at, segment)
        self._bases.insert(at, base)
        self._segments_by_age.append(segment)
        self._used = start + end - base
        self._arena[start : self._used] = fill
        if base >= self._next_base:
            self._next_base = end + _SEGMENT_SPACING
        return start

    def _overlapped(self, base: int, end: int) -> Segment | None:
        at = bisect_right(self._bases, base)
        near = self._segments[max(at - 1, 0) : at + 1]
        return next((s for s in near if s.base < end and base < s.end), None)

    def _reserve(self, bytes: int) -> None:
        if bytes <= len(self._arena):
            return
        capacity = max(bytes, 2 * len(self._arena))
        capacity = -(-capacity // 16) * 16
        for name in ("_arena", "_state"):
            grown = np.zeros(capacity, np.uint8)
            old: Array = getattr(self, name)
            grown[: self._used] = old[: self._used]
            setattr(self, name, grown)
        self._views.clear()

    # Whole arrays, for setting up inputs and reading results

    def write_array(self, base: int, values: Array) -> None:
        """Writes `values` in row-major order from address `base`."""
        flat = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
        start = self._whole(base, len(flat), "write")
        self._arena[start : start + len(flat)] = flat
        self._state[start : start + len(flat)] |= WRITTEN

    def read_array(self, base: int, dtype: np.dtype[Any], count: int) -> Array:
        """A copy of `count` elements from address `base`."""
        start = self._whole(base, count * dtype.itemsize, "read")
        return self._arena[start : start + count * dtype.itemsize].copy().view(dtype)

    def written(self, base: int, bytes: int) -> npt.NDArray[np.bool_]:
        """For each of `bytes` bytes from `base`, whether the program (or `write_array`) ever wrote it."""
        start = self._whole(base, bytes, "read")
        return (self._state[start : start + bytes] & WRITTEN) != 0

    def _whole(self, base: int, bytes: int, verb: str) -> int:
        segment = self._segment_of(base)
        if segment is None or base + bytes > segment.end:
            raise self._fault(verb, base, bytes)
        start = base - segment.base + segment.start
        if not segment.solid and not (self._state[start : start + bytes] & MAPPED).all():
            raise self._fault(verb, base, bytes)
        return start

    # Access by lanes

    def load(
        self,
        addresses: Array,
        dtype: np.dtype[Any],
        count: int = 1,
        mask: Array | None = None,
        align: int | None = None,
    ) -> Array:
        """The elements at `addresses` (int64 or uint64, any shape): shape `addresses.shape`, and with `count` > 1
        `(*addresses.shape, count)`: that many consecutive elements from each address.

        Elements with `mask` false are not accessed and are 0. Addresses must be multiples of `align` (the element
        size by default). Raises MemoryFault for a misaligned address or one outside mapped memory.
        """
        if mask is not None:
            if addresses.shape != mask.shape:
                addresses, mask = np.broadcast_arrays(addresses, mask)
            first = int(mask.argmax()) if mask.size else 0
            if not mask.size or not mask.flat[first]:
                return np.zeros(addresses.shape if count == 1 else (*addresses.shape, count), dtype)
            addresses = np.where(mask, addresses, addresses.flat[first])
        elif not addresses.size:
            return np.zeros(addresses.shape if count == 1 else (*addresses.shape, count), dtype)
        width = dtype.itemsize * count
        offsets = self._translate(addresses, width, dtype.itemsize if align is None else align, "read")
        result = self.peek(offsets, dtype, count)
        if mask is not None:
            result[~mask] = 0
        return result

    def store(
        self, addresses: Array, values: Array, count: int = 1, mask: Array | None = None, align: int | None = None
    ) -> None:
        """Writes `values` of shape `addresses.shape`, or `(*addresses.shape, count)` with `count` > 1.

        `values` and `addresses` broadcast against each other; where two elements have one address, the later wins.
        Elements with `mask` false are left alone. Raises MemoryFault as `load` does.
        """
        lanes = values.shape if count == 1 else values.shape[:-1]
        shape = np.broadcast_shapes(addresses.shape, lanes, () if mask is None else mask.shape)
        if addresses.shape != shape:
            addresses = np.broadcast_to(addresses, shape)
        full = shape if count == 1 else (*shape, count)
        if values.shape != full:
            values = np.broadcast_to(values, full)
        if mask is not None:
            if mask.shape != shape:
                mask = np.broadcast_to(mask, shape)
            addresses, values = addresses[mask], values[mask]
        if not addresses.size:
            return
        dtype = values.dtype
        width = dtype.itemsize * count
        offsets = self._translate(addresses, width, dtype.itemsize if align is None else align, "write")
        self.poke(offsets, values, width)

    def poke(self, offsets: Array, values: Array, width: int) -> None:
        """Writes `width` bytes of `values` at each of `offsets` in the arena, unchecked."""
        step = self._step(offsets, values.dtype, width)
        moved = np.ascontiguousarray(values).view(np.uint8).reshape(*offsets.shape, width)
        index = offsets >> _SHIFTS[step]
        if step == width:
            self._view(_MOVERS[step])[index] = moved.view(_MOVERS[step])[..., 0]
        else:
            index = index[..., None] + np.arange(width // step)
            self._view(_MOVERS[step])[index] = moved.view(_MOVERS[step])
        self._state.view(_MOVERS[step])[index] = _WRITTEN_STATE[step]

    def peek(self, offsets: Array, dtype: np.dtype[Any], count: int) -> Array:
        """`count` elements from each of `offsets` in the arena, unchecked."""
        width = dtype.itemsize * count
        step = self._step(offsets, dtype, width)
        index = offsets >> _SHIFTS[step]
        if width > step:
            index = index[..., None] + np.arange(width // step)
        raw = self._view(_MOVERS[step] if step > dtype.itemsize else dtype).take(index)
        if count == 1:
            return raw
        return raw.view(dtype).reshape(*offsets.shape, count)

    @staticmethod
    def _step(offsets: Array, dtype: np.dtype[Any], width: int) -> int:
        """The widest power of two of bytes that divides `width` and every offset."""
        step = width & -width
        if step > 16:
            step = 16
        if step > dtype.itemsize:
            ored = int(np.bitwise_or.reduce(offsets, axis=None)) | step
            step = max(ored & -ored, dtype.itemsize)
        return step

    def _view(self, dtype: np.dtype[Any]) -> Array:
        view = self._views.get(dtype)
        if view is None:
            view = self._views[dtype] = self._arena.view(dtype)
        return view

    def resolve(self, addresses: Array, width: int) -> tuple[Array, Segment | None, Array | None]:
        """The offsets in the arena of `width` bytes from each address; the segment, when all lie in one; and where an
        access lies in none (None: nowhere), with an offset that means nothing."""
        addresses = addresses.view(np.uint64)
        segment = self._segment_of(int(addresses.flat[0]))
        if segment is not None:
            relative = addresses - np.uint64(segment.base)
            if int(relative.max()) + width <= segment.end - segment.base:
                offsets = relative.view(np.int64)
                offsets += segment.start
                return offsets, segment, None
        if not self._segments:
            return np.zeros(addresses.shape, np.int64), None, np.ones(addresses.shape, np.bool_)
        which, inside = self._find(addresses, width)
        offsets = np.where(inside, self._offsets(addresses, which), 0)
        segments = np.unique(which[inside])
        only = self._segments[int(segments[0])] if len(segments) == 1 else None
        return offsets, only, None if inside.all() else ~inside

    @property
    def segments(self) -> list[Segment]:
        """All segments, oldest first."""
        return list(self._segments_by_age)

    @property
    def capacity(self) -> int:
        """Bytes that the simulation itself takes for what memory holds."""
        return len(self._arena)

    def within(self, addresses: Array) -> tuple[Array, Array]:
        """How far into its allocation each address lies, as if allocations of a segment followed each other without
        an end, and how large the allocation is; 0 of 0 outside every segment."""
        which, inside = self._find(addresses.view(np.uint64), 1)
        of = np.array([(s.first & (1 << 63) - 1, s.stride, s.size) for s in self._segments], np.int64)[which]
        distance = (addresses.view(np.int64) & np.int64((1 << 63) - 1)) - of[..., 0]
        return np.where(inside, distance % of[..., 1], 0), np.where(inside, of[..., 2], 0)

    def address_at(self, offset: int) -> int:
        """The address of an offset in the arena."""
        segment = next(s for s in self._segments_by_age if s.start <= offset < s.start + s.end - s.base)
        return offset - segment.start + segment.base

    def all_sound(self, segment: Segment) -> bool:
        """Whether every byte of a segment is mapped, written and not poisoned."""
        there = slice(segment.start, segment.start + segment.end - segment.base)
        return bool((self._state[there] == MAPPED | WRITTEN).all())

    def sound(self, offsets: Array, width: int) -> Array | None:
        """Where all of `width` bytes from an offset in the arena are mapped, written and not poisoned (None:
        everywhere)."""
        step = self._step(offsets, np.dtype(np.uint8), width)
        index = offsets >> _SHIFTS[step]
        if width > step:
            index = index[..., None] + np.arange(width // step)
        good = self._state.view(_MOVERS[step]).take(index) == _WRITTEN_STATE[step]
        return None if good.all() else good if width == step else good.all(axis=-1)

    def states(self, offsets: Array, width: int) -> Array:
        """The state of `width` bytes from each offset in the arena: sums of MAPPED, WRITTEN and POISONED."""
        return self._state.take(offsets[..., None] + np.arange(width))

    def poison(self, addresses: Array, elements: Array, itemsize: int) -> None:
        """Marks elements of `itemsize` bytes as poison: `elements[i, j]` says whether the `j`-th from `addresses[i]`
        is. Writing there takes the mark away."""
        rows, columns = np.nonzero(elements)
        if rows.size:
            offsets, _, outside = self.resolve(addresses[rows] + (columns * itemsize).astype(np.uint64), itemsize)
            assert outside is None
            self.taint(offsets, itemsize)

    def taint(self, offsets: Array, width: int) -> None:
        """Marks `width` bytes from each offset in the arena as poison."""
        self._state[offsets[..., None] + np.arange(width)] |= POISONED

    def is_mapped(self, addresses: Array, bytes: int) -> npt.NDArray[np.bool_]:
        """For each address, whether the `bytes` bytes from it are mapped, all of them."""
        addresses = addresses.view(np.uint64)
        if not self._segments:
            return np.zeros(addresses.shape, np.bool_)
        which, inside = self._find(addresses, bytes)
        offsets = np.where(inside, self._offsets(addresses, which), 0)
        return inside & self._state_is_mapped(offsets, bytes)

    def _translate(self, addresses: Array, width: int, align: int, verb: str) -> Array:
        """Offsets in the arena (int64), or a MemoryFault."""
        addresses = addresses.view(np.uint64)
        segment = self._segment_of(int(addresses.flat[0]))
        solid = False
        offsets = None
        if segment is not None:
            relative = addresses - np.uint64(segment.base)  # lower addresses wrap round to huge ones
            if int(relative.max()) + width <= segment.end - segment.base:
                offsets = relative.view(np.int64)
                offsets += segment.start
                solid = segment.solid
        if offsets is None:
            if not self._segments:
                raise self._fault(verb, int(addresses.flat[0]), width)
            which, inside = self._find(addresses, width)
            if not inside.all():
                raise self._fault(verb, int(addresses[~inside].flat[0]), width)
            offsets = self._offsets(addresses, which)
        if align > 1 and int(np.bitwise_or.reduce(offsets, axis=None)) & (align - 1):
            wrong = int(addresses[(offsets & (align - 1)) != 0].flat[0])
            where = self.locate(wrong)
            raise MemoryFault(f"misaligned {verb}: {wrong:#x} is not a multiple of {align} ({where})", wrong)
        if not solid:
            mapped = self._state_is_mapped(offsets, width)
            if not mapped.all():
                raise self._fault(verb, int(addresses[~mapped].flat[0]), width)
        return offsets

    def _find(self, addresses: Array, width: int) -> tuple[Array, Array]:
        """The segment of each address, and whether `width` bytes from it lie in that segment."""
        bases, lasts, _ = self._segment_table()
        which = np.searchsorted(bases, addresses, side="right") - 1
        last = addresses + np.uint64(width - 1)
        return which, (which >= 0) & (last <= lasts[which]) & (last >= addresses)

    def _segment_table(self) -> Array:
        """First and last address of each segment, and the way from an address to the arena: `uint64[3, segment]`."""
        if self._table is None:
            shifts = [(s.start - s.base) & ((1 << 64) - 1) for s in self._segments]
            self._table = np.array([self._bases, [s.end - 1 for s in self._segments], shifts], np.uint64)
        return self._table

    def _offsets(self, addresses: Array, which: Array) -> Array:
        return (addresses + self._segment_table()[2][which]).view(np.int64)

    def _state_is_mapped(self, offsets: Array, width: int) -> npt.NDArray[np.bool_]:
        mapped = (self._state.take(offsets) & MAPPED) != 0
        if width > _GUARD:  # every gap is at least _GUARD wide: one look in each _GUARD bytes finds it
            looks = np.arange(_GUARD, width, _GUARD)
            mapped &= np.bitwise_and.reduce(self._state.take(offsets[..., None] + looks), axis=-1) & MAPPED != 0
        if width > 1:
            mapped &= (self._state.take(offsets + (width - 1)) & MAPPED) != 0
        return mapped

    def _segment_of(self, address: int) -> Segment | None:
        at = bisect_right(self._bases, address) - 1
        if at < 0:
            return None
        segment = self._segments[at]
        return segment if address < segment.end else None

    # Diagnostics

    def locate(self, address: int) -> str:
        """Where `address` lies with respect to the nearest allocation, in words."""
        if not self.allocations:
            return "nothing is allocated"
        nearest = min(self.allocations, key=lambda a: max(a.base - address, address - a.end + 1, 0))
        if max(nearest.base - address, address - nearest.end) >> 32 > 0:
            return f"the nearest, {nearest}, is more than 4 GiB away"
        if nearest.base <= address < nearest.end:
            return f"{address - nearest.base} bytes into {nearest}"
        if address >= nearest.end:
            return f"{address - nearest.end} bytes past the end of {nearest}"
        return f"{nearest.base - address} bytes before {nearest}"

    def _fault(self, verb: str, address: int, width: int) -> MemoryFault:
        where = self.locate(address)
        inside = next((a for a in self.allocations if a.base <= address < a.end), None)
        if inside is not None and address + width > inside.end:
            what = f"{verb} of {width} bytes at {address:#x} runs over the end of an allocation: {where}"
        elif inside is not None:
            what = f"{verb} of {width} bytes at {address:#x} in unmapped memory: {where}"
        else:
            what = f"{verb} of {width} bytes at {address:#x} outside every allocation: {where}"
        return MemoryFault(what, address)
