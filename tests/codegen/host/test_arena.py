"""Where buffers and pages lie while a kernel runs on the CPU."""

import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codegen.host.texts import Spec, describe, switch
from xpaged.arch.table import get_arch
from xpaged.codegen.host import HostFault, HostKernel, PageTable, unable
from xpaged.codegen.host.arena import POISON, VM_PAGE, Arena
from xpaged.codegen.launch import Buffer, LaunchDescription
from xpaged.errors import XpagedError
from xpaged.interpreter.memory import Memory, page_stride

LINE = 1 << 32
Array = npt.NDArray[Any]


def pages(arena: Arena, count: int, size: int, *, align: int = 16, base: int | None = None) -> Array:
    mapped = np.ones(count, np.bool_)
    stride = page_stride(size, align)
    return arena.reserve_pages("table", count, size, align=align, stride=stride, base=base, mapped=mapped)


@given(sizes=st.lists(st.integers(1, 20000), min_size=1, max_size=8), align=st.sampled_from((1, 4, 16)))
def test_buffers_end_before_memory_that_is_not_there(sizes: list[int], align: int) -> None:
    arena = Arena()
    starts = [arena.reserve(str(size), size, writable=True, align=align) for size in sizes]
    os.close(arena.make(0))
    owned = {p for m in arena.mappings for p in range(m.address // VM_PAGE, (m.address + m.bytes) // VM_PAGE)}
    for start, size in zip(starts, sizes, strict=True):
        assert start % align == 0
        end = -(-(start + size) // align) * align
        assert end % VM_PAGE == 0
        assert end // VM_PAGE not in owned
        assert {start // VM_PAGE, (start + size - 1) // VM_PAGE} <= owned
        assert (arena.bytes_at(start, size) == POISON).all()
        assert arena.locate(start + size - 1) == f"{size - 1} bytes into '{size}'"


@pytest.mark.parametrize(("count", "size", "align"), [(1, 64, 16), (7, 24, 8), (64, 16384, 16), (5, 12290, 2)])
def test_pages_lie_on_both_sides_of_4_gib_and_end_before_nothing(count: int, size: int, align: int) -> None:
    arena = Arena()
    arena.reserve("before", 100, writable=False)
    at = pages(arena, count, size, align=align)
    assert not (at % np.uint64(align)).any()
    assert count == 1 or (at % np.uint64(2 * align) != 0).any()
    assert count == 1 or int(at[0]) // LINE < int(at[-1]) // LINE
    ends = at + np.uint64(size)
    assert ((-ends.astype(np.int64)) % VM_PAGE <= align).all()
    assert (at[1:] - ends[:-1] >= VM_PAGE).all()
    os.close(arena.make(0))
    assert arena.count_mappings() == 1 + count


@pytest.mark.parametrize("base", [0, 0xFFFF_F000, 0x1_0000_0000 - 48, 0x7E00_1234_5670])
def test_a_base_keeps_its_low_32_bits(base: int) -> None:
    arena = Arena()
    for _ in range(3):
        at = pages(arena, 9, 1000, align=8, base=base)
        simulated = Memory().allocate_many(9, 1000, align=8, base=base or LINE)
        np.testing.assert_array_equal(at % np.uint64(LINE), simulated % np.uint64(LINE))
        assert (np.diff(at.astype(np.int64)) == page_stride(1000, 8)).all()
    os.close(arena.make(0))
    spans = sorted((m.address, m.address + m.bytes) for m in arena.mappings)
    assert all(end < start for (_, end), (start, _) in pairwise(spans))


def test_many_pages_lie_side_by_side() -> None:
    arena = Arena()
    at = pages(arena, 20000, 64)
    assert (np.diff(at.astype(np.int64)) == page_stride(64, 16)).all()
    assert int(at[0]) // LINE < int(at[-1]) // LINE
    os.close(arena.make(0))
    assert arena.count_mappings() == 1


def test_what_is_written_is_there() -> None:
    arena = Arena()
    at = pages(arena, 6, 5000, align=8)
    first = arena.reserve("x", 24, writable=True)
    os.close(arena.make(100))
    contents = np.random.default_rng(0).integers(0, 1 << 32, (6, 625)).astype(np.float64)
    arena.write_pages(at, contents)
    arena.write(first, np.arange(3.0))
    for address, row in zip(at.tolist(), contents, strict=True):
        np.testing.assert_array_equal(arena.bytes_at(address, 5000).view(np.float64), row)
    np.testing.assert_array_equal(arena.bytes_at(first, 24).view(np.float64), [0, 1, 2])
    assert not arena.file[:100].any()
    assert arena.locate(int(at[2]) - 3) == "3 bytes before page 2 of 'table'"
    assert arena.locate(int(at[2])) == "0 bytes into page 2 of 'table', which is read only"
    assert arena.locate(0) == "near no buffer"
    assert Arena().locate(0) == "the kernel has no buffers"


# ---- page tables of a kernel

PAGE, ENTRIES = 1024, 6
CASES = {
    "copy": "out[i] = ((const int*)table[i / 1024])[i % 1024];",
    "past": "out[i] = ((const int*)table[i / 1024])[i % 1024 + 1];",
    "addresses": "out[i] = (int)(table[i % 6] >> 16 * (i / 6 % 4) & 0xffff);",
}


@pytest.fixture(scope="module")
def reader() -> Iterator[HostKernel]:
    if (reason := unable()) is not None:
        pytest.skip(reason)
    body = f"  for (int i = lane; i < {PAGE * ENTRIES}; i += 64) {{"
    text = switch(CASES, ["const u64* table", "int* out", "int which"], body, 64) + "}\n"
    buffers: dict[str, Spec] = {"table": ("f64", ENTRIES, "read"), "out": ("i32", PAGE * ENTRIES, "write")}
    plain = describe({**buffers, "which": ("i32", 0, "read")}, lanes=64)
    table = Buffer("table", "page_table", "i64", (ENTRIES,), 8 * ENTRIES, "read")
    with HostKernel(text, get_arch("gfx90a"), LaunchDescription((table, *plain.buffers[1:]), plain.launches)) as kernel:
        yield kernel


def read(kernel: HostKernel, table: Any, case: str = "copy") -> Array:
    out = np.zeros(PAGE * ENTRIES, np.int32)
    kernel.launch({"table": table, "out": out, "which": np.array(list(CASES).index(case), np.int32)})
    return out.reshape(ENTRIES, PAGE)


CONTENTS = np.arange(PAGE * ENTRIES, dtype=np.int32).reshape(ENTRIES, PAGE)
ORDER = np.array([3, 0, 5, 1, 4, 2])


@pytest.mark.parametrize("base", [None, 0xFFFF_E000])
def test_entries_lead_to_their_pages_wherever_they_lie(reader: HostKernel, base: int | None) -> None:
    table = PageTable(CONTENTS, ORDER, base=base)
    np.testing.assert_array_equal(read(reader, table), CONTENTS)
    parts = read(reader, table, "addresses").reshape(-1)[:24].reshape(4, 6).astype(np.int64)
    addresses = parts[0] + (parts[1] << 16) + (parts[2] << 32) + (parts[3] << 48)
    assert (np.argsort(addresses) == np.argsort(ORDER)).all()
    assert len(set((addresses >> 32).tolist())) == 2
    if base is not None:
        assert int(addresses[1]) % LINE == base


def test_entries_may_share_a_page(reader: HostKernel) -> None:
    shared = CONTENTS.copy()
    shared[4] = shared[1]
    np.testing.assert_array_equal(read(reader, PageTable(shared, np.array([0, 1, 2, 3, 1, 9]))), shared)


def test_a_read_over_the_end_of_a_page_is_a_fault(reader: HostKernel) -> None:
    with pytest.raises(HostFault, match=r"0 bytes past the end of page \d of 'table'"):
        read(reader, PageTable(CONTENTS), "past")


def test_a_page_that_is_not_there_is_a_fault(reader: HostKernel) -> None:
    mapped = np.arange(ENTRIES) != 2
    with pytest.raises(HostFault, match="no pointer may have"):
        read(reader, PageTable(CONTENTS, ORDER, mapped))
    garbage = np.full(ENTRIES, 0x4000, np.uint64)
    with pytest.raises(HostFault, match="read at 0x4000: near no buffer"):
        read(reader, PageTable(CONTENTS, ORDER, mapped, garbage))


def test_page_tables_that_make_no_sense_are_refused(reader: HostKernel) -> None:
    for table, message in (
        (CONTENTS, "is a page table"),
        (PageTable(CONTENTS[1:]), "do not fit"),
        (PageTable(CONTENTS, ORDER[1:]), "'place' of the pages"),
        (PageTable(CONTENTS, -ORDER), "'place' of the pages"),
        (PageTable(CONTENTS, ORDER + (1 << 30)), "too far apart for this machine"),
        (PageTable(CONTENTS, mapped=np.ones(2)), "'mapped' of the pages"),
        (PageTable(CONTENTS, base=8), "a multiple of 16"),
    ):
        with pytest.raises(XpagedError, match=message):
            read(reader, table)
