"""Register layouts: their algebra against brute force, and matrix products executed lane by lane."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from xpaged.arch import archs, get_arch
from xpaged.arch.table import MatrixInstruction
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.layout import COPY, HOMES, Digit, Home, Layout, LayoutError, plan_mma
from xpaged.lowering.layouts import AttentionLayouts

Array = npt.NDArray[Any]
F16 = get_arch("gfx942").matrix_instruction("f16")
F32 = get_arch("gfx942").matrix_instruction("f32")

# ---- layouts in general


@st.composite
def layouts(draw: st.DrawFn, copies: bool = True) -> Layout:
    """A layout of up to three coordinates whose digits lie in any home, in any order."""
    shape: list[int] = []
    digits: list[Digit] = []
    for dim in range(draw(st.integers(1, 3))):
        stride = 1
        for size in draw(st.lists(st.integers(2, 4), max_size=2)):
            digits.append(Digit(size, dim, stride))
            stride *= size
        shape.append(stride)
    return draw(placed(shape, digits, copies))


@st.composite
def placed(draw: st.DrawFn, shape: list[int], digits: list[Digit], copies: bool) -> Layout:
    """The digits dealt out to waves, lanes and registers."""
    homes: dict[Home, list[Digit]] = {home: [] for home in HOMES}
    for digit in draw(st.permutations(digits)):
        homes[draw(st.sampled_from(HOMES))].append(digit)
    if copies:
        for home in ("wave", "lane"):
            for size in draw(st.lists(st.integers(2, 3), max_size=1)):
                homes[home].insert(draw(st.integers(0, len(homes[home]))), Digit(size))
    return Layout.of(shape, wave=homes["wave"], lane=homes["lane"], regs=homes["regs"])


def held(layout: Layout, wave: int, lane: int) -> set[tuple[int, ...]]:
    """The elements that a lane holds; numbers beyond the layout's are read modulo its size, as digits are."""
    mine = layout.coordinates[wave % layout.size("wave"), lane % layout.size("lane")]
    return {tuple(int(x) for x in c) for c in mine}


@given(layouts())
def test_every_element_is_held_once_and_by_all_its_copies(layout: Layout) -> None:
    copies = prod(d.size for home in HOMES for d in layout.digits(home) if d.dim == COPY)
    count = Counter(tuple(c) for c in layout.coordinates.reshape(-1, len(layout.shape)).tolist())
    assert count == {c: copies for c in product(*map(range, layout.shape))}


@given(layouts())
def test_owner_is_the_inverse_and_the_first_copy(layout: Layout) -> None:
    for element in product(*map(range, layout.shape)):
        where = layout.owner(element)
        assert tuple(layout.coordinates[where]) == element
        first = np.argwhere((layout.coordinates == element).all(axis=-1))[0]
        assert where == tuple(first)


@given(layouts())
def test_expressions_agree_with_the_enumeration(layout: Layout) -> None:
    names = {home: [f"{home}{i}" for i in range(len(layout.digits(home)))] for home in HOMES}
    variables: dict[Home, list[IndexExpr]] = {
        home: [IndexExpr.var(n, 0, d.size - 1) for n, d in zip(names[home], layout.digits(home), strict=True)]
        for home in HOMES
    }
    expressions = layout.expressions(cast("Any", variables))
    for place in product(*(range(layout.size(home)) for home in HOMES)):
        values: dict[str, Any] = {}
        for home, number in zip(HOMES, place, strict=True):
            for name, digit in zip(names[home], layout.digits(home), strict=True):
                values[name], number = number % digit.size, number // digit.size
        assert [e.evaluate(values) for e in expressions] == layout.coordinates[place].tolist()


def test_text_and_sizes() -> None:
    layout = Layout.of(
        (2, 32, 80),
        wave=[(4, -1, 1), (2, 0, 1)],
        lane=[(16, 1, 1), (4, 2, 4)],
        regs=[(4, 2, 1), (5, 2, 16), (2, 1, 16)],
    )
    assert str(layout) == (
        "wave = [4 -> copy, 2 -> d0], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2, 5 -> d2 * 16, 2 -> d1 * 16]"
    )
    assert (layout.size("wave"), layout.size("lane"), layout.registers, layout.vector) == (8, 64, 40, 4)
    assert layout.owner((1, 17, 79)) == (4, 1 + 16 * 3, 3 + 4 * 4 + 20)


def test_digits_of_size_one_disappear() -> None:
    layout = Layout.of((1, 4), wave=[(1, 0, 1)], lane=[(4, 1, 1), (1, COPY, 1)], regs=[(1, 1, 4)])
    assert layout == Layout((1, 4), (), (Digit(4, 1),), ())
    assert (layout.registers, layout.vector) == (1, 1)


@given(layouts(), st.data())
def test_a_gap_or_an_overlap_is_refused(layout: Layout, data: st.DataObject) -> None:
    """Any change of one digit that moves a coordinate makes the tile's elements lie nowhere, or twice."""
    places: list[tuple[Home, int]] = [(h, i) for h in HOMES for i, d in enumerate(layout.digits(h)) if d.dim != COPY]
    assume(places)
    home, index = data.draw(st.sampled_from(places))
    digit = layout.digits(home)[index]
    change = data.draw(st.sampled_from(["drop", "twice", "size", "stride", "dim"]))
    changed = {
        "drop": [],
        "twice": [digit, digit],
        "size": [digit._replace(size=digit.size + 1)],
        "stride": [digit._replace(stride=digit.stride + 1)],
        "dim": [digit._replace(dim=(digit.dim + 1) % len(layout.shape))],
    }[change]
    assume(change != "dim" or len(layout.shape) > 1)
    digits = list(layout.digits(home))
    digits[index : index + 1] = changed
    broken = replace(layout, **{home: tuple(digits)})
    with pytest.raises(LayoutError):
        broken.verify()


@pytest.mark.parametrize(
    ("digits", "message"),
    [
        ({"lane": [(4, 1, 1)]}, r"coordinate 0 has 8 elements, the digits reach 1"),
        ({"lane": [(4, 0, 1)], "regs": [(4, 1, 1)]}, r"coordinate 0 has 8 elements, the digits reach 4"),
        ({"lane": [(4, 0, 1)], "regs": [(2, 0, 2), (4, 1, 1)]}, r"a step of 2 where 4 was expected"),
        ({"lane": [(4, 0, 1)], "regs": [(2, 0, 8), (4, 1, 1)]}, r"a step of 8 where 4 was expected"),
        ({"lane": [(8, 0, 1)], "regs": [(4, 2, 1)]}, r"the digit 4 -> d2 does not fit a tile of 8x4"),
        ({"lane": [(8, 0, 1)], "regs": [(4, -2, 1)]}, "does not fit a tile"),
        ({"lane": [(8, 0, 1)], "regs": [(4, 1, 1), (2, COPY, 1)]}, "registers of one lane may not hold copies"),
        ({"lane": [(8, 0, 1)], "regs": [(4, 1, 1), (0, 1, 4)]}, "does not fit a tile"),
    ],
)
def test_malformed_layouts_are_refused(digits: dict[str, Any], message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        Layout.of((8, 4), **digits)


# ---- reductions, broadcasts, conversions


@given(layouts(), st.data())
def test_a_reduced_tile_is_held_where_its_parts_were(layout: Layout, data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, len(layout.shape) - 1))
    reduced = layout.reduced(dim)
    reduced.verify()
    assert reduced.shape == tuple(1 if i == dim else n for i, n in enumerate(layout.shape))
    assert [reduced.size(h) for h in ("wave", "lane")] == [layout.size(h) for h in ("wave", "lane")]
    for wave, lane in product(range(layout.size("wave")), range(layout.size("lane"))):
        flat = {tuple(0 if i == dim else x for i, x in enumerate(c)) for c in held(layout, wave, lane)}
        assert held(reduced, wave, lane) == flat
    assert reduced.broadcasts_to(layout)
    assert layout.broadcasts_to(layout)
    assert layout.shape[dim] == 1 or not layout.broadcasts_to(reduced)


def lanes_of(*layouts: Layout) -> list[tuple[int, int]]:
    return list(product(range(max(x.size("wave") for x in layouts)), range(max(x.size("lane") for x in layouts))))


def can_pair(small: Layout, large: Layout) -> bool:
    """Brute force: each lane has the element of `small` that goes with each element of `large` that it holds."""

    def partner(element: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(0 if n == 1 else x for x, n in zip(element, small.shape, strict=True))

    return all({partner(e) for e in held(large, w, i)} <= held(small, w, i) for w, i in lanes_of(small, large))


@st.composite
def pairs(draw: st.DrawFn, reduce: bool) -> tuple[Layout, Layout]:
    """Two layouts of one tile (the first one perhaps reduced)."""
    shape: list[int] = []
    digits: list[Digit] = []
    for dim in range(2):
        stride = 1
        for size in draw(st.lists(st.integers(2, 3), max_size=2)):
            digits.append(Digit(size, dim, stride))
            stride *= size
        shape.append(stride)
    a, b = draw(placed(shape, digits, True)), draw(placed(shape, digits, True))
    if draw(st.booleans()):
        b = draw(shuffled(a))
    return (a.reduced(draw(st.integers(0, 1))) if reduce else a), b


@st.composite
def shuffled(draw: st.DrawFn, layout: Layout) -> Layout:
    """A layout that differs in the order of its registers only, or in one place besides."""
    regs = draw(st.permutations(layout.regs))
    lane = draw(st.sampled_from([layout.lane, tuple(reversed(layout.lane))]))
    return replace(layout, regs=tuple(regs), lane=lane)


@given(pairs(reduce=True))
def test_a_tile_that_broadcasts_lies_where_it_is_needed(pair: tuple[Layout, Layout]) -> None:
    small, large = pair
    if small.broadcasts_to(large):
        assert can_pair(small, large)


@given(pairs(reduce=False))
def test_the_kind_of_a_conversion(pair: tuple[Layout, Layout]) -> None:
    a, b = pair
    lanes = lanes_of(a, b)
    waves = range(max(a.size("wave"), b.size("wave")))

    def of_wave(layout: Layout, wave: int) -> set[tuple[int, ...]]:
        return {e for lane in range(layout.size("lane")) for e in held(layout, wave, lane)}

    kind = a.conversion(b).kind
    assert (kind == "none") == (a == b)
    if all(held(a, w, i) == held(b, w, i) for w, i in lanes):
        assert kind in ("none", "registers")
    elif all(of_wave(a, w) == of_wave(b, w) for w in waves):
        assert kind == "lanes"
    else:
        assert kind == "waves"


def test_a_conversion_sees_through_the_spelling() -> None:
    one = Layout.of((16, 4), lane=[(16, 0, 1)], regs=[(4, 1, 1)])
    two = Layout.of((16, 4), lane=[(2, 0, 1), (4, 0, 2), (2, 0, 8)], regs=[(2, 1, 2), (2, 1, 1)])
    assert one.conversion(two).kind == "registers"
    assert one.conversion(Layout.of((16, 4), lane=[(2, 0, 8), (8, 0, 1)], regs=[(4, 1, 1)])).kind == "lanes"
    assert one.conversion(Layout.of((16, 4), wave=[(4, 1, 1)], lane=[(16, 0, 1)])).kind == "waves"


def test_lanes_that_give_each_other_all_they_have() -> None:
    parts = Layout.of((32, 16), lane=[(16, 1, 1), (2, 0, 8)], regs=[(8, 0, 1), (2, 0, 16)])
    whole = Layout.of((32, 16), lane=[(16, 1, 1), Digit(2)], regs=[(16, 0, 1), (2, 0, 16)])
    assert parts.exchange(whole) == 16
    assert parts.conversion(whole).kind == "lanes"
    others = [
        parts,
        Layout.of((32, 16), lane=[(16, 1, 1), Digit(2)], regs=[(2, 0, 16), (16, 0, 1)]),  # another order
        Layout.of((32, 16), lane=[Digit(2), (16, 1, 1)], regs=[(16, 0, 1), (2, 0, 16)]),  # other lanes
        Layout.of((32, 16), lane=[(16, 1, 1)], regs=[(16, 0, 1), (2, 0, 16)]),
        Layout.of((32, 16), wave=[Digit(2)], lane=[(16, 1, 1), Digit(2)], regs=[(16, 0, 1), (2, 0, 16)]),
        Layout.of((32, 16), lane=[(16, 1, 1), Digit(2)], regs=[(32, 0, 1)]),  # the same, said in another way
    ]
    assert [parts.exchange(other) for other in others] == [None] * len(others)
    four = Layout.of((32, 16), lane=[(16, 1, 1), (4, 0, 8)], regs=[(8, 0, 1)])
    assert four.exchange(Layout.of((32, 16), lane=[(16, 1, 1), Digit(4)], regs=[(32, 0, 1)])) is None


# ---- matrix products, executed


def execute(instruction: MatrixInstruction, a: Layout, b: Layout, c: Layout, seed: int = 0) -> tuple[Array, Array]:
    """Run the plan of a product on random whole numbers, lane by lane as the hardware defines the instruction; the
    tile that the lanes of C then hold, and the one they should hold."""
    rng = np.random.default_rng(seed)
    left, right, start = (rng.integers(-3, 4, x.shape).astype(float) for x in (a, b, c))
    plan = plan_mma(instruction, a, b, c)
    registers = [tile[tuple(np.moveaxis(x.coordinates, -1, 0))] for tile, x in ((left, a), (right, b), (start, c))]
    waves = max(len(r) for r in registers)
    ra, rb, rc = (np.repeat(r, waves // len(r), axis=0) for r in registers)
    rdna3 = instruction.name.startswith("wmma") and "gfx12" not in instruction.name
    lane = np.arange(32 if instruction.name.startswith("wmma") else 64)
    e, r = instruction.elements, instruction.registers
    group = 0 * lane if rdna3 else lane // 16

    def instruction_at(na: int, nb: int, nc: int) -> None:
        for wave in range(waves):
            # A: row l % 16, index elements * (l / 16) + e; B likewise; D: row R * (l / 16) + r, column l % 16.
            # RDNA3: both halves of the wave hold all of A and B; D has row 2 * r + l / 16.
            x = np.zeros((16, instruction.k))
            y = np.zeros((instruction.k, 16))
            for i in range(e):
                x[lane % 16, e * group + i] = ra[wave, :, na + i]
                y[e * group + i, lane % 16] = rb[wave, :, nb + i]
                for operand, at in ((ra, na), (rb, nb)) if rdna3 else ():
                    np.testing.assert_array_equal(operand[wave, :16, at + i], operand[wave, 16:, at + i])
            z = x @ y
            for i in range(r):
                rc[wave, :, nc + i] += z[2 * i + lane // 16 if rdna3 else r * (lane // 16) + i, lane % 16]

    for steps in product(*(range(loop.size) for loop in plan)):
        at = [
            sum(s * stride for s, stride in zip(steps, strides, strict=True))
            for strides in ([x.a for x in plan], [x.b for x in plan], [x.c for x in plan])
        ]
        instruction_at(*at)
    got = np.full(c.shape, np.nan)
    got[tuple(np.moveaxis(np.broadcast_to(c.coordinates, (waves, *c.coordinates.shape[1:])), -1, 0))] = rc
    return got, left @ right + start


PAIRS = {
    (arch.matrix_instruction(first, channels), arch.matrix_instruction(second, keys))
    for arch in archs().values()
    for first, second in (("f16", "f16"), ("bf16", "bf16"), ("f32", "f32"), ("i8", "f16"), ("f16", "f32"))
    for channels, keys in ((0, 0), (16, 16))
    if {first, second} <= {i.operand for i in arch.matrix} and channels % arch.reduction_step(first) == 0
}


@st.composite
def families(draw: st.DrawFn) -> AttentionLayouts:
    """Layouts of any kernel."""
    query_waves = draw(st.integers(1, 4))
    key_waves = draw(st.sampled_from([n for n in (1, 2, 4) if n * query_waves <= 4]))
    first, second = draw(st.sampled_from(sorted(PAIRS, key=str)))

    def sizes(step: int, most: int) -> st.SearchStrategy[int]:
        return st.integers(1, most // max(step, 16)).map(lambda n: max(step, 16) * n)

    return AttentionLayouts(
        first,
        query_waves,
        key_waves,
        draw(sizes(second.k, 64)),
        draw(sizes(first.k, 192)),
        draw(sizes(16, 192)),
        second,
    )


@settings(max_examples=40)
@given(families())
def test_the_products_of_attention_are_exact(family: AttentionLayouts) -> None:
    got, expected = execute(family.instruction, family.k, family.q, family.s)
    np.testing.assert_array_equal(got, expected)
    got, expected = execute(family.value_instruction, family.v, family.p, family.o)
    np.testing.assert_array_equal(got, expected)


@settings(max_examples=25)
@given(families())
def test_the_tiles_of_attention_fit_together(family: AttentionLayouts) -> None:
    """Every layout covers its tile, and each step of the kernel finds its elements in its own lane."""
    f = family
    row = f.s.reduced(1)
    for layout in (f.k, f.q, f.s, f.p, f.v_rows, f.v, f.o, f.o_rows, f.row_parts, f.o_parts, row):
        layout.verify()
        assert layout.size("lane") == f.instruction.lanes
        assert layout.size("wave") == f.query_waves * f.key_waves
    for source, target in ((f.v_rows, f.v), (f.o, f.o_rows)):
        assert source.conversion(target).kind in ("none", "registers")
    replicated = f.value_instruction.copies > 1
    assert f.s.conversion(f.p).kind == ("lanes" if replicated else "none")
    everyone = f.row_parts.reduced(0)
    for small, large in ((row, f.s), (row, f.o), (row, f.o_rows), (everyone, row), (everyone, f.o_parts.reduced(0))):
        assert small.broadcasts_to(large)
        assert can_pair(small, large)
    # What lies in one vector register is read or written as one piece of memory: it runs along the channels.
    for layout, dim, vector in ((f.k, 2, f.channel_vector), (f.q, 1, f.channel_vector), (f.v_rows, 1, f.value_vector)):
        assert vector == 1 or layout.regs[0] == (vector, dim, 1)
    assert f.o_rows.regs[0].dim == 1


def test_rows_of_k_and_v_are_read_16_bytes_at_a_time() -> None:
    f = AttentionLayouts(F16, 4, 1, 32, 64, 128)
    assert (f.k.vector, f.v_rows.vector, f.o_rows.vector) == (8, 8, 8)
    f = AttentionLayouts(F16, 4, 1, 32, 48, 80)  # no multiples of 8 channels for each lane group
    assert (f.channel_vector, f.value_vector, f.o_rows.vector) == (4, 1, 4)


@given(families(), st.data())
def test_a_plan_that_is_accepted_is_right(family: AttentionLayouts, data: st.DataObject) -> None:
    """Whatever is done to one of the layouts: the product is refused, or it is still exact."""
    if data.draw(st.booleans()):
        instruction, tiles = family.instruction, [family.k, family.q, family.s]
    else:
        instruction, tiles = family.value_instruction, [family.v, family.p, family.o]
    assume(prod(tiles[0].shape[1:]) <= 64 * 64)
    which = data.draw(st.integers(0, 2))
    home = data.draw(st.sampled_from(HOMES))
    digits = data.draw(st.permutations(tiles[which].digits(home)))
    tiles[which] = replace(tiles[which], **{home: tuple(digits)})
    try:
        plan_mma(instruction, *tiles)
    except LayoutError:
        return
    got, expected = execute(instruction, tiles[0], tiles[1], tiles[2])
    np.testing.assert_array_equal(got, expected)


A = Layout.of((1, 16, 32), lane=[(16, 1, 1), (4, 2, 8)], regs=[(8, 2, 1)])
B = Layout.of((1, 32, 16), lane=[(16, 2, 1), (4, 1, 8)], regs=[(8, 1, 1)])
C = Layout.of((1, 16, 16), lane=[(16, 2, 1), (4, 1, 4)], regs=[(4, 1, 1)])
PERMUTED = {  # rows of A in another order, and the C that goes with it
    "a": Layout.of((1, 16, 32), lane=[(4, 1, 4), (4, 1, 1), (4, 2, 8)], regs=[(8, 2, 1)]),
    "c": Layout.of((1, 16, 16), lane=[(16, 2, 1), (4, 1, 1)], regs=[(4, 1, 4)]),
}


def test_a_small_plan() -> None:
    (loop,) = plan_mma(F16, A, B, C)
    assert loop == ("reduction", 2, 4, 4, 0)
    for a, b, c in ((A, B, C), (PERMUTED["a"], B, PERMUTED["c"])):
        got, expected = execute(F16, a, b, c)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("a", "b", "c", "message"),
    [
        # The rows that a 16x16 instruction writes are 4 * group + register: no other row map will do.
        (A, B, PERMUTED["c"], "the rows of C must be the rows that A holds"),
        (PERMUTED["a"], B, C, "the rows of C must be the rows that A holds"),
        # The same permutation of the reduction index on both sides cancels, on one side it does not.
        (replace(A, regs=(Digit(2, 2, 4), Digit(4, 2, 1))), B, C, "must move along|must hold the same reduction|steps"),
        (replace(A, lane=(Digit(16, 1), Digit(4, 2, 4)), regs=(Digit(4, 2), Digit(2, 2, 16))), B, C, "same reduction"),
        (A, replace(B, lane=(Digit(4, 1, 8), Digit(16, 2))), C, "a column of B must depend on lane % n alone"),
        (replace(A, lane=(Digit(4, 2, 8), Digit(16, 1))), B, C, "a row of A must depend on lane % m alone"),
        (A, B, replace(C, lane=(Digit(4, 1, 4), Digit(16, 2))), "a column of C must depend on lane % n alone"),
        (A, replace(B, lane=(Digit(4, 2, 4), Digit(4, 2), Digit(4, 1, 8))), C, "the columns of C must be those of B"),
    ],
)
def test_wrong_lane_maps_are_refused(a: Layout, b: Layout, c: Layout, message: str) -> None:
    for layout in (a, b, c):
        layout.verify()
    with pytest.raises(LayoutError, match=message):
        plan_mma(F16, a, b, c)


@pytest.mark.parametrize("group", [4, 16], ids=["as 32x32 instructions have it", "a common mistake"])
def test_the_row_map_of_32x32_instructions_is_refused(group: int) -> None:
    """Their D has row 8 * (r / 4) + 4 * (l / 32) + r % 4 (not 16 * (l / 32) + r): a 16x16 instruction has neither."""
    a = Layout.of((1, 32, 16), lane=[(32, 1, 1), (2, 2, 8)], regs=[(8, 2, 1)])
    b = Layout.of((1, 16, 32), lane=[(32, 2, 1), (2, 1, 8)], regs=[(8, 1, 1)])
    regs = [(4, 1, 1), (4, 1, 8)] if group == 4 else [(16, 1, 1)]
    c = Layout.of((1, 32, 32), lane=[(32, 2, 1), (2, 1, group)], regs=regs)
    with pytest.raises(LayoutError, match="must depend on lane % m alone"):
        plan_mma(F16, a, b, c)


BATCH = {"wave": [(2, 0, 1)]}
A2 = Layout.of((2, 16, 32), **BATCH, lane=A.lane, regs=A.regs)
B2 = Layout.of((2, 32, 16), **BATCH, lane=B.lane, regs=B.regs)
C2 = Layout.of((2, 16, 16), **BATCH, lane=C.lane, regs=C.regs)


def test_batches_lie_in_waves() -> None:
    shared = Layout.of((1, 32, 16), wave=[(2, COPY, 1)], lane=B.lane, regs=B.regs)
    for a, b, c in ((A2, B2, C2), (A2, shared, C2), (A, B2, C2)):
        got, expected = execute(F16, a, b, c)
        np.testing.assert_array_equal(got, expected)
    quarter = Layout.of((4, 16, 32), wave=[(2, 0, 2), (2, 0, 1)], lane=A.lane, regs=A.regs)
    others = [Layout.of((4, *x.shape[1:]), wave=[(4, 0, 1)], lane=x.lane, regs=x.regs) for x in (B, C)]
    with pytest.raises(LayoutError, match="the batch of an operand must be the batch of C"):
        plan_mma(F16, quarter, *others)
    in_registers = [Layout.of((2, *x.shape[1:]), lane=x.lane, regs=[*x.regs, (2, 0, 1)]) for x in (A, B, C)]
    with pytest.raises(LayoutError, match="must be spread over waves"):
        plan_mma(F16, *in_registers)


@pytest.mark.parametrize(
    ("a", "b", "c", "message"),
    [
        (A, B, Layout.of((1, 16, 32), lane=C.lane, regs=[*C.regs, (2, 2, 16)]), "cannot multiply 1x16x32 by 1x32x16"),
        (Layout.of((1, 16, 64), lane=A.lane, regs=[*A.regs, (2, 2, 32)]), B, C, "cannot multiply 1x16x64 by 1x32x16"),
        (Layout.of((1, 16, 32), lane=[(16, 1, 1), (2, 2, 16)], regs=[(16, 2, 1)]), B, C, "use 32, 64 and 64 lanes"),
        (A2, Layout.of((1, 32, 16), wave=[(4, COPY, 1)], lane=B.lane, regs=B.regs), C2, "different numbers of waves"),
        (
            Layout.of((1, 16, 8), lane=[(16, 1, 1), (4, 2, 2)], regs=[(2, 2, 1)]),
            Layout.of((1, 8, 16), lane=[(16, 2, 1), (4, 1, 2)], regs=[(2, 1, 1)]),
            C,
            "2 registers do not split into operands of 4",
        ),
        (
            Layout.of((1, 32, 32), lane=A.lane, regs=[*A.regs, (2, 1, 16)]),
            B,
            Layout.of((1, 32, 16), lane=[(16, 2, 1), (4, 1, 4)], regs=[(4, 1, 1), (2, 1, 16)]),
            None,
        ),
    ],
)
def test_shapes_lanes_and_waves_must_fit(a: Layout, b: Layout, c: Layout, message: str | None) -> None:
    if message is None:
        plan_mma(F16, a, b, c)
        return
    with pytest.raises(LayoutError, match=message):
        plan_mma(F16, a, b, c)


def test_a_reduction_stays_in_one_wave() -> None:
    """Each wave would keep the sum over its own share."""
    a = Layout.of((1, 16, 32), wave=[(2, 2, 16)], lane=[(16, 1, 1), (4, 2, 4)], regs=[(4, 2, 1)])
    b = Layout.of((1, 32, 16), wave=[(2, 1, 16)], lane=[(16, 2, 1), (4, 1, 4)], regs=[(4, 1, 1)])
    with pytest.raises(LayoutError, match="the reduction index may not be spread over waves"):
        plan_mma(F16, a, b, Layout.of(C.shape, wave=[(2, COPY, 1)], lane=C.lane, regs=C.regs))


def test_register_steps_must_be_the_same_on_both_sides() -> None:
    a = Layout.of((1, 64, 32), lane=A.lane, regs=[*A.regs, (4, 1, 16)])
    c = Layout.of((1, 64, 16), lane=C.lane, regs=[*C.regs, (2, 1, 32), (2, 1, 16)])
    with pytest.raises(LayoutError, match="the register steps along the rows differ"):
        plan_mma(F16, a, B, c)
