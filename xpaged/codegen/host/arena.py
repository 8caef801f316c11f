"""Where buffers lie while a kernel runs on the CPU: real addresses, each buffer and each page ending at memory that is
not there, so that reading over an end is a fault and not a number.

All bytes are in one file in memory that the running programs share. What no buffer owns (between a buffer and the page
of the machine that it lies in) is 0xFF: NaN in every float type.
"""

import mmap
import os
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xpaged.errors import XpagedError

Array = npt.NDArray[Any]
VM_PAGE = 4096
ORIGIN = 0x5700_0000_0000
"""The first address: free in every program of 64-bit Linux, also under sanitizers."""
POISON = 0xFF
_MOST_APART = 16384
"""Pages that get unmapped memory of their own behind them; more lie side by side, 64 bytes or more apart."""
_LINE = 1 << 32


@dataclass(frozen=True)
class _Item:
    """Allocations of one size: a buffer, or all pages of a table. `addresses` are those that exist, ascending."""

    name: str
    addresses: npt.NDArray[np.uint64]
    numbers: Array | None  # of the pages
    bytes: int
    writable: bool


@dataclass(frozen=True)
class Mapping:
    """`bytes` bytes from `address` are those from `offset` of the file; both are whole pages of the machine."""

    address: int
    offset: int
    bytes: int
    writable: bool


class Arena:
    """Reserve addresses first, then `make` the memory, then write and read."""

    def __init__(self) -> None:
        self._items: list[_Item] = []
        self._next = ORIGIN
        self.mappings: list[Mapping] = []

    # ---- addresses

    def reserve(self, name: str, bytes: int, *, writable: bool, align: int = 16) -> int:
        """The address of a buffer of `bytes` bytes, a multiple of `align` (a power of two, at most 4096)."""
        start = -(-self._next // VM_PAGE) * VM_PAGE + VM_PAGE
        room = -(-max(bytes, 1) // VM_PAGE) * VM_PAGE
        address = start + (room - bytes) // align * align
        self._add(_Item(name, np.array([address], np.uint64), None, bytes, writable), start + room)
        return address

    def reserve_pages(
        self, name: str, count: int, bytes: int, *, align: int, stride: int, base: int | None, mapped: Array
    ) -> npt.NDArray[np.uint64]:
        """
        The addresses of `count` pages of `bytes` bytes, `uint64[count]`, on both sides of a multiple of 4 GiB.

        With `base` the first one is at an address with the same low 32 bits, and the others follow `stride` bytes
        apart; otherwise each ends before unmapped memory. Pages that are not `mapped` have an address and no memory.
        """
        if base is None and count <= _MOST_APART:
            slot = -(-(bytes + align) // VM_PAGE) * VM_PAGE + VM_PAGE
            ends = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(slot) - np.uint64(VM_PAGE)
            # Every other page is aligned to no more than `align`: nobody can rely on more.
            places = ends - np.uint64(bytes) - (np.arange(count, dtype=np.uint64) & np.uint64(1)) * np.uint64(align)
            start = self._before_line(slot * (count // 2))
        else:
            places = np.arange(count, dtype=np.uint64) * np.uint64(stride)
            if base is None:
                start = self._before_line(stride * (count // 2) // VM_PAGE * VM_PAGE)
            else:
                start = (self._next + VM_PAGE) // _LINE * _LINE + base % _LINE
                start += _LINE if start < self._next + VM_PAGE else 0
        addresses = places + np.uint64(start)
        numbers = np.flatnonzero(mapped)
        end = int(addresses[-1]) + bytes if count else start
        self._add(_Item(name, addresses[numbers], numbers, bytes, writable=False), end)
        return addresses

    def _before_line(self, bytes: int) -> int:
        """An address `bytes` before a multiple of 4 GiB."""
        return -(-(self._next + VM_PAGE + bytes) // _LINE) * _LINE - bytes

    def _add(self, item: _Item, end: int) -> None:
        self._items.append(item)
        self._next = end + VM_PAGE

    def count_mappings(self) -> int:
        """How many mappings `make` is going to make."""
        return sum(len(_runs(item)) for item in self._items)

    # ---- memory

    def make(self, reserved: int) -> int:
        """
        Make the memory, in a file that begins with `reserved` bytes for the caller, and return the file's number: the
        caller closes it.
        """
        offset = -(-reserved // VM_PAGE) * VM_PAGE
        for item in self._items:
            for first, last in _runs(item):
                size = (last - first) * VM_PAGE
                self.mappings.append(Mapping(first * VM_PAGE, offset, size, item.writable))
                offset += size
        self._starts = [mapping.address for mapping in self.mappings]
        try:
            file = os.memfd_create("xpaged", os.MFD_CLOEXEC)
            try:
                os.posix_fallocate(file, 0, offset)
                self.file = np.frombuffer(mmap.mmap(file, offset), np.uint8)
            except BaseException:
                os.close(file)
                raise
        except OSError as err:
            raise XpagedError(
                "there is no memory for the buffers of a kernel", found=f"{offset} bytes: {err.strerror}"
            ) from err
        self.file[reserved:] = POISON
        return file

    def bytes_at(self, address: int, bytes: int) -> npt.NDArray[np.uint8]:
        """The bytes from `address`, to be read and written."""
        mapping = self.mappings[bisect_right(self._starts, address) - 1]
        at = address - mapping.address + mapping.offset
        return self.file[at : at + bytes]

    def write(self, address: int, values: Array) -> None:
        """Put the elements of an array, in row-major order, from `address` on."""
        flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        self.bytes_at(address, len(flat))[:] = flat

    def write_pages(self, addresses: Array, pages: Array) -> None:
        """Put row `i` of `pages` at `addresses[i]`."""
        rows = np.ascontiguousarray(pages).view(np.uint8)
        for address, row in zip(addresses.tolist(), rows, strict=True):
            self.bytes_at(address, len(row))[:] = row

    # ---- messages

    def locate(self, address: int) -> str:
        """Where an address lies with respect to the nearest buffer or page, in words."""
        nearest: tuple[int, str] | None = None
        for item in self._items:
            after = int(np.searchsorted(item.addresses, np.uint64(address), side="right"))
            for at in range(max(after - 1, 0), min(after + 1, len(item.addresses))):
                start = int(item.addresses[at])
                number = item.numbers[at] if item.numbers is not None else None
                name = f"'{item.name}'" if number is None else f"page {number} of '{item.name}'"
                kind = "" if item.writable else ", which is read only"
                distance, text = 0, f"{address - start} bytes into {name}{kind}"
                if address >= start + item.bytes:
                    distance = address - start - item.bytes
                    text = f"{distance} bytes past the end of {name}"
                elif address < start:
                    distance = start - address
                    text = f"{distance} bytes before {name}"
                if nearest is None or distance < nearest[0]:
                    nearest = distance, text
        if nearest is None:
            return "the kernel has no buffers"
        return nearest[1] if nearest[0] < _LINE else "near no buffer"


def _runs(item: _Item) -> list[tuple[int, int]]:
    """The pages of the machine that an item lies in, as ranges of page numbers."""
    if not len(item.addresses):
        return []
    first = (item.addresses // np.uint64(VM_PAGE)).astype(np.int64)
    last = ((item.addresses + np.uint64(max(item.bytes, 1) - 1)) // np.uint64(VM_PAGE)).astype(np.int64) + 1
    new = np.flatnonzero(first[1:] > last[:-1]) + 1
    starts, ends = np.concatenate(([0], new)), np.concatenate((new, [len(first)]))
    return [(int(first[a]), int(last[b - 1])) for a, b in zip(starts, ends, strict=True)]
