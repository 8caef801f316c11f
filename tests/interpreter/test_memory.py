"""The simulated address space."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpaged.errors import XpagedError
from xpaged.interpreter.memory import Memory, MemoryFault

F16, F32, I64 = (np.dtype(t) for t in (np.float16, np.float32, np.int64))


def buffer(memory: Memory, values: Any, name: str = "x") -> int:
    base = memory.allocate(values.nbytes, name=name, dtype=values.dtype).base
    memory.write_array(base, values)
    return base


def at(base: int, offsets: Any) -> Any:
    return np.uint64(base) + np.asarray(offsets, np.uint64)


def test_loads_scalars_and_vectors() -> None:
    memory = Memory()
    data = np.arange(64, dtype=np.float16)
    base = buffer(memory, data)
    np.testing.assert_array_equal(memory.load(at(base, [0, 20, 126]), F16), [0, 10, 63])
    np.testing.assert_array_equal(memory.load(at(base, [[0], [16]]), F16, 8), data[:16].reshape(2, 1, 8))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 16, 33])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
def test_every_width_reads_and_writes_the_same_bytes(dtype: str, count: int) -> None:
    memory, type = Memory(), np.dtype(dtype)
    data = np.random.default_rng(count).integers(0, 256, 4096, np.uint8).view(type)
    base = buffer(memory, data)
    starts = np.array([0, 1, 7, 16, len(data) - count])
    expected = np.stack([data[s : s + count] for s in starts])
    loaded = memory.load(at(base, starts * type.itemsize), type, count)
    assert loaded.tobytes() == expected.tobytes()
    target = memory.allocate(data.nbytes, name="y").base
    memory.store(at(target, starts * type.itemsize), loaded, count)
    written = memory.written(target, data.nbytes)
    back = memory.read_array(target, type, len(data))
    for start in starts:
        assert back[start : start + count].tobytes() == data[start : start + count].tobytes()
    covered = {b for s in starts for b in range(s * type.itemsize, (s + count) * type.itemsize)}
    assert set(np.flatnonzero(written)) == covered


def test_masked_lanes_are_not_touched() -> None:
    memory = Memory()
    base = buffer(memory, np.arange(8, dtype=np.float32))
    mask = np.array([True, False, True])
    addresses = np.array([base + 4, 0, base + 12], np.uint64)
    np.testing.assert_array_equal(memory.load(addresses, F32, mask=mask), [1, 0, 3])
    np.testing.assert_array_equal(memory.load(addresses, F32, mask=np.zeros(3, bool)), [0, 0, 0])
    memory.store(addresses, np.array([10, 20, 30], np.float32), mask=mask)
    np.testing.assert_array_equal(memory.read_array(base, F32, 4), [0, 10, 2, 30])


@pytest.mark.parametrize(
    ("offset", "text"),
    [
        (-4, "4 bytes before"),
        (64, "0 bytes past the end of"),
        (1 << 20, "past the end of"),
        (1 << 40, "more than 4 GiB away"),
        (58, "misaligned"),
    ],
)
def test_an_access_outside_names_the_address_and_the_nearest_allocation(offset: int, text: str) -> None:
    memory = Memory()
    base = memory.allocate(64, name="queries", dtype=F16).base
    addresses = np.array([base, base + offset], np.int64)
    for access in (lambda: memory.load(addresses, F32), lambda: memory.store(addresses, np.zeros(2, np.float32))):
        with pytest.raises(MemoryFault) as caught:
            access()
        assert caught.value.address == base + offset
        assert f"{base + offset:#x}" in str(caught.value)
        assert text in str(caught.value)
        assert "queries of float16" in str(caught.value)


def test_a_vector_that_runs_over_the_end_is_a_fault() -> None:
    memory = Memory()
    base = memory.allocate(60, name="x").base
    memory.load(at(base, [44]), F16, 8)
    with pytest.raises(MemoryFault, match="runs over the end"):
        memory.load(at(base, [46]), F16, 8)


@pytest.mark.parametrize("bytes", [14, 16, 192, 1040, 16384])
def test_pages_have_gaps_and_no_more_alignment_than_asked(bytes: int) -> None:
    memory = Memory()
    align = min(bytes & -bytes, 16)
    pages = memory.allocate_many(16, bytes, align=align, order=np.random.default_rng(0).permutation(16), name="k")
    assert (pages % align == 0).all()
    assert (pages % (2 * align) != 0).any()
    for offset in (bytes, -2):
        with pytest.raises(MemoryFault):
            memory.load(at(int(pages[3]), np.int64(offset)), F16)
    with pytest.raises(MemoryFault):  # from one page into the next
        memory.load(pages, np.dtype(np.int8), bytes + 1)
    assert memory.load(pages, np.dtype(np.int8), bytes).shape == (16, bytes)


def test_unmapped_pages_fault_by_name() -> None:
    memory = Memory()
    mapped = np.array([True, False, True])
    pages = memory.allocate_many(3, 64, mapped=mapped, name="k.place", dtype=F16)
    np.testing.assert_array_equal(memory.is_mapped(pages, 64), mapped)
    with pytest.raises(MemoryFault, match=r"unmapped memory.*k.place\[1\]"):
        memory.load(pages, F16)
    memory.load(pages, F16, mask=mapped)


def test_pages_straddle_4_gib_lines() -> None:
    memory = Memory()
    for _ in range(3):
        pages = memory.allocate_many(8, 512, straddle=True)
        assert len(set((pages >> np.uint64(32)).tolist())) == 2


def test_a_line_that_is_taken_is_passed_over() -> None:
    memory = Memory()
    first = Memory().allocate_many(8, 512, straddle=True)
    memory.allocate(64, base=int(first[5]) // 256 * 256)
    assert int(memory.allocate_many(8, 512, straddle=True)[0]) > int(first[7])


def test_one_access_may_touch_several_segments() -> None:
    memory = Memory()
    bases = [buffer(memory, np.full(4, i, np.int64)) for i in range(5)]
    order = np.array([3, 0, 4, 1, 1])
    np.testing.assert_array_equal(memory.load(np.array(bases, np.uint64)[order], I64), order)
    with pytest.raises(MemoryFault):
        memory.load(np.array([bases[0], bases[1] + 32], np.uint64), I64)


def test_allocations_do_not_overlap() -> None:
    memory = Memory()
    memory.allocate(256, base=1 << 20, name="a")
    with pytest.raises(XpagedError, match="'b' would overlap 'a'"):
        memory.allocate(256, base=1 << 20, name="b")
    with pytest.raises(XpagedError, match="multiple of 256"):
        memory.allocate(256, base=(1 << 22) + 8, name="c")


def test_release_takes_back_what_came_after_the_mark() -> None:
    memory = Memory()
    keep = buffer(memory, np.arange(4, dtype=np.float32))
    mark = memory.mark()
    gone = memory.allocate_many(4, 1024, name="lds", fill=255)
    assert np.isnan(memory.load(gone, F16)).all()
    memory.release(mark)
    with pytest.raises(MemoryFault):
        memory.load(gone, F16)
    np.testing.assert_array_equal(memory.read_array(keep, F32, 4), np.arange(4))
    again = memory.allocate(1 << 16, name="again")
    assert not memory.written(again.base, again.bytes).any()


@given(st.data())
def test_memory_behaves_like_a_dictionary_of_bytes(data: st.DataObject) -> None:
    memory = Memory(64)
    sizes = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    regions = [memory.allocate(n, name=f"r{i}", align=16) for i, n in enumerate(sizes)]
    model: dict[int, int] = {r.base + i: 0 for r in regions for i in range(r.bytes)}
    for _ in range(data.draw(st.integers(1, 8))):
        width = data.draw(st.sampled_from([1, 2, 4]))
        region = data.draw(st.sampled_from(regions))
        places = data.draw(st.lists(st.integers(-2, region.bytes // width), min_size=1, max_size=4))
        addresses = np.array([region.base + p * width for p in places], np.uint64)
        inside = all(a + i in model for a in addresses.tolist() for i in range(width))
        dtype = np.dtype(f"u{width}")
        if data.draw(st.booleans()):
            values = np.array(
                data.draw(st.lists(st.integers(0, 255), min_size=len(places), max_size=len(places))), dtype
            )
            if not inside:
                with pytest.raises(MemoryFault):
                    memory.store(addresses, values)
                continue
            memory.store(addresses, values)
            for a, v in zip(addresses.tolist(), values, strict=True):
                model |= {a + i: b for i, b in enumerate(v.tobytes())}
        elif not inside:
            with pytest.raises(MemoryFault):
                memory.load(addresses, dtype)
        else:
            expected = [bytes(model[a + i] for i in range(width)) for a in addresses.tolist()]
            assert memory.load(addresses, dtype).tobytes() == b"".join(expected)
