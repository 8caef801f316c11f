"""Views: the whole-array way and the address way of reading and writing are the same function."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import MemRefType, StridedLayoutAttr, f32

from xpaged.errors import XpagedError
from xpaged.interpreter.memory import Memory, MemoryFault
from xpaged.interpreter.views import MemRef, page_alignment, row_major, strides_of, view_array, view_through
from xpaged.ir.transform_map import Builder, TransformMap

F32, F16, I64 = (np.dtype(t) for t in (np.float32, np.float16, np.int64))


@st.composite
def chains(draw: st.DrawFn) -> tuple[tuple[int, ...], list[TransformMap]]:
    """A buffer's shape and a chain of maps above it, the uppermost first."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    chain: list[TransformMap] = []
    current = shape
    for _ in range(draw(st.integers(0, 3))):
        current_map = draw(maps(current))
        chain.insert(0, current_map)
        current = current_map.upper_bounds
    return shape, chain


@st.composite
def maps(draw: st.DrawFn, shape: tuple[int, ...]) -> TransformMap:
    names = [f"d{i}" for i in range(len(shape))]
    b = Builder(names, shape)
    left = draw(st.permutations(names))
    fresh = 0
    while left:
        name = left.pop()
        length = shape[names.index(name)]
        kinds = ["pass", "pad", "slice", "embed", "add"]
        kinds += ["const"] if length > 1 and len(b.upper_bounds) + len(left) >= 1 else []
        kinds += ["merge"] if left else []
        kinds += ["unmerge"] if length in (4,) else []
        kinds += ["broadcast"] if length <= 2 else []
        match draw(st.sampled_from(kinds)):
            case "pad":
                b.pad(name, draw(st.integers(0, 2)), draw(st.integers(0, 2)))
            case "slice":
                begin = draw(st.integers(0, length - 1))
                b.slice(name, begin, draw(st.integers(begin + 1, length)))
            case "embed":
                sizes = [draw(st.integers(1, 3)), draw(st.integers(1, 3))]
                fresh += 1
                coefficients = [draw(st.integers(0, 2)), draw(st.integers(-1, 2))]
                b.embed([f"{name}_e{fresh}", f"{name}_f{fresh}"], sizes, name, coefficients)
            case "const":
                b.const_dim(name, draw(st.integers(0, length - 1)))
            case "merge":
                other = left.pop()
                b.merge(f"m{name}{other}", [name, other])
            case "unmerge":
                b.unmerge([f"{name}_u", f"{name}_v"], name, [2, 2])
            case "broadcast":
                b.broadcast(name, length * draw(st.integers(1, 3)))
            case "add":
                b.pass_through(name)
                b.add_dim(f"{name}_new", draw(st.integers(1, 3)))
            case _:
                b.pass_through(name)
    return b.build()


def coordinates(shape: tuple[int, ...]) -> list[Any]:
    return list(np.indices(shape).reshape(len(shape), -1))


def dense(memory: Memory, values: Any) -> MemRef:
    base = memory.allocate(values.nbytes, name="x", dtype=values.dtype).base
    memory.write_array(base, values)
    return MemRef.dense(base, values.dtype, values.shape)


def viewed(ref: MemRef, chain: list[TransformMap]) -> MemRef:
    for each in reversed(chain):
        ref = ref.transformed(each)
    return ref


@settings(max_examples=100)
@given(chains())
def test_a_view_read_by_coordinates_is_the_view_read_whole(chain: tuple[tuple[int, ...], list[TransformMap]]) -> None:
    shape, steps = chain
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    memory = Memory()
    view = viewed(dense(memory, values), steps)
    loaded = view.load(memory, coordinates(view.shape))
    by_coordinates = np.broadcast_to(loaded, int(np.prod(view.shape))).reshape(view.shape)
    np.testing.assert_array_equal(by_coordinates, view.read_all(memory))
    np.testing.assert_array_equal(by_coordinates, view_through(steps, values))


@settings(max_examples=100)
@given(chains())
def test_writing_a_view_whole_is_writing_each_of_its_elements(
    chain: tuple[tuple[int, ...], list[TransformMap]],
) -> None:
    shape, steps = chain
    memory = Memory()
    a, b = (dense(memory, np.zeros(shape, np.float32)) for _ in range(2))
    view_a, view_b = viewed(a, steps), viewed(b, steps)
    values = np.ones(view_a.shape, np.float32)
    view_a.write_all(memory, values)
    view_b.store(memory, coordinates(view_b.shape), values.reshape(-1))
    np.testing.assert_array_equal(a.read_all(memory), b.read_all(memory))


def paged(memory: Memory, pages: Any, order: Any, mapped: Any = None) -> tuple[MemRef, Any]:
    """A paged view [1, pages, size] of `pages`, and the addresses of the pages."""
    size = pages.shape[1] * pages.itemsize
    addresses = memory.allocate_many(
        len(pages), size, align=page_alignment(size), order=order, mapped=mapped, name="k", dtype=pages.dtype
    )
    for i, page in enumerate(pages):
        if mapped is None or mapped[i]:
            memory.write_array(int(addresses[i]), page)
    table = dense(memory, addresses.view(np.int64))
    table = table.transformed(
        Builder(("raw",), (len(pages),)).unmerge(("b", "p", "o"), "raw", (1, len(pages), 1)).build()
    )
    return MemRef.paged(table, pages.dtype, (1, *pages.shape)), addresses


def tokens(pages: int, size: int, length: int, channels: int) -> list[TransformMap]:
    """[token, channel] over [1, pages, size]."""
    flat = Builder(("b", "p", "o"), (1, pages, size)).const_dim("b", 0).merge("f", ("p", "o")).build()
    return [Builder(("f",), (pages * size,)).unmerge(("t", "c"), "f", (length, channels)).build(), flat]


@given(st.integers(1, 12), st.integers(1, 6), st.randoms(use_true_random=False), st.data())
def test_paged_reads(length: int, channels: int, random: Any, data: st.DataObject) -> None:
    total = length * channels
    size = data.draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
    logical = np.random.default_rng(1).standard_normal((length, channels)).astype(np.float16)
    order = list(range(total // size))
    random.shuffle(order)
    memory = Memory()
    view, _ = paged(memory, logical.reshape(-1, size), np.array(order))
    view = viewed(view, tokens(total // size, size, length, channels))
    np.testing.assert_array_equal(view.read_all(memory), logical)
    np.testing.assert_array_equal(view.load(memory, coordinates(view.shape)).reshape(logical.shape), logical)
    vectors = view.load(memory, [np.arange(length), np.zeros(1, np.int64)], np.gcd(size, channels))
    np.testing.assert_array_equal(vectors.reshape(length, -1), logical[:, : np.gcd(size, channels)])


def test_unmapped_pages_may_stay_unread() -> None:
    memory = Memory()
    mapped = np.array([True, True, False, True])
    view, addresses = paged(memory, np.arange(32, dtype=np.float16).reshape(4, 8), np.arange(4), mapped)
    view = viewed(view, tokens(4, 8, 8, 4))
    needed = np.ones((8, 1), bool)
    needed[4:6] = False
    read = view.read_all(memory, needed)
    np.testing.assert_array_equal(read[needed[:, 0]], np.arange(32).reshape(8, 4)[needed[:, 0]])
    needed[5] = True
    with pytest.raises(MemoryFault, match=r"entry \[0, 2\] of a page table") as caught:
        view.read_all(memory, needed)
    assert caught.value.address == int(addresses[2]) + 4 * 2
    with pytest.raises(MemoryFault):
        view.load(memory, [np.array([5]), np.array([0])])


def test_a_table_that_is_a_tensor() -> None:
    memory = Memory()
    pages = np.arange(8, dtype=np.float32).reshape(2, 4)
    _, addresses = paged(memory, pages, np.array([1, 0]))
    view = MemRef.paged(addresses.view(np.int64).reshape(1, 2, 1), F32, (1, 2, 4))
    np.testing.assert_array_equal(view.read_all(memory)[0], pages)
    np.testing.assert_array_equal(view.load(memory, [np.zeros(1, int), np.array([1, 0]), np.array([3, 2])]), [7, 2])


def test_bases_and_coordinates_of_many_lanes() -> None:
    memory = Memory()
    bases = memory.allocate_many(4, 64, name="lds", dtype=F32)
    for i, base in enumerate(bases):
        memory.write_array(int(base), np.arange(16, dtype=np.float32) + 100 * i)
    ref = MemRef(bases, F32, (4, 4), (4, 1))
    np.testing.assert_array_equal(ref.load(memory, [np.arange(4), np.array([1])]), [1, 105, 209, 313])
    tile = ref.load(memory, [np.arange(4)[None, :, None], np.arange(4)[None, None, :]])
    assert tile.shape == (4, 4, 4)
    np.testing.assert_array_equal(tile[2], np.arange(16).reshape(4, 4) + 200)
    other = MemRef(bases[::-1], F32, (4, 4), (4, 1))
    merged = ref.merge(np.array([True, False, True, False]), other)
    np.testing.assert_array_equal(merged.base, [bases[0], bases[2], bases[2], bases[0]])
    with pytest.raises(XpagedError, match="different shapes"):
        ref.merge(np.array([True]), MemRef(bases, F32, (16,), (1,)))


def test_strides_of_types() -> None:
    assert strides_of(MemRefType(f32, [2, 3])) == (3, 1) == row_major((2, 3))
    assert strides_of(MemRefType(f32, [2, 3], StridedLayoutAttr([8, 2]))) == (8, 2)
    with pytest.raises(XpagedError, match="static shape and layout"):
        strides_of(MemRefType(f32, [2, 3], StridedLayoutAttr([None, 1])))


def test_view_array_shares_memory_where_it_can() -> None:
    x = np.arange(24).reshape(4, 6)
    swap = Builder(("a", "b"), (4, 6)).pass_through("b", "a").build()
    assert np.shares_memory(view_array(swap, x), x)
    np.testing.assert_array_equal(view_array(swap, x), x.T)
