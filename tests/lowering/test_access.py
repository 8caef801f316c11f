"""Where elements lie and how wide a lane reads: one access where memory allows it, page addresses looked up once."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, i1, i64
from xdsl.ir import Block, Operation, SSAValue

from tests.lowering.kernels import DEVICE, kernel_of, module_at, ops_of, page_sizes, problem
from xpaged.dialects import hip
from xpaged.dialects.rock.attention import GridwiseAttentionAccelOp
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.levels import Level
from xpaged.lowering.access import Place, place_of, run_at
from xpaged.lowering.geometry import shape_of
from xpaged.sizes import AttentionProblem


def keys_of(p: AttentionProblem) -> SSAValue:
    """The keys of the gridwise operation: `[groups, channels, keys]`, padded."""
    (op,) = [op for op in module_at(p, Level.GRIDWISE).walk() if isinstance(op, GridwiseAttentionAccelOp)]
    return op.keys


@st.composite
def caches(draw: st.DrawFn) -> AttentionProblem:
    heads, keys, d = draw(st.integers(1, 2)), draw(st.integers(1, 40)), draw(st.integers(1, 40))
    sizes = page_sizes(heads, keys, d, d)
    return problem(heads_q=heads, batch=2, seq_q=1, seq_k=keys, dim_qk=d, page_size=draw(st.sampled_from(sizes)))


def flat(p: AttentionProblem, g: Any, d: Any, key: Any) -> tuple[Any, Any]:
    """By hand: the table entry and the offset in the page of element (g, d, key)."""
    assert p.page_size is not None
    assert p.num_pages is not None
    element = (g % p.heads_kv * p.seq_k + key) * p.dim_qk + d
    return g // p.heads_kv * p.num_pages + element // p.page_size, element % p.page_size


def evaluated(expr: IndexExpr | None, values: dict[str, Any]) -> Any:
    assert expr is not None
    return np.broadcast_to(expr.evaluate(values), next(iter(values.values())).shape)


@settings(max_examples=25)
@given(caches())
def test_the_place_of_an_element_is_the_page_and_the_offset_that_are_meant(p: AttentionProblem) -> None:
    view = keys_of(p)
    names = ("g", "d", "key")
    variables = [IndexExpr.var(n, 0, hi - 1) for n, hi in zip(names, shape_of(view), strict=True)]
    place = place_of(view, variables)
    values: dict[str, Any] = dict(zip(names, np.indices(shape_of(view)), strict=True))
    exists = np.ones(shape_of(view), np.bool_)
    for expr, lo, hi in place.conditions:
        found = evaluated(expr, values)
        exists &= (lo <= found) & (found < hi)
    np.testing.assert_array_equal(exists, (values["d"] < p.dim_qk) & (values["key"] < p.seq_k))
    entry, offset = flat(p, *values.values())
    np.testing.assert_array_equal(evaluated(place.entry, values)[exists], entry[exists])
    np.testing.assert_array_equal(evaluated(place.offset, values)[exists], offset[exists])
    assert place.entries == 2 * (p.num_pages or 0)


@settings(max_examples=25)
@given(caches(), st.sampled_from([2, 4, 8]))
def test_a_run_is_one_aligned_unbroken_piece(p: AttentionProblem, width: int) -> None:
    view = keys_of(p)
    groups, channels, keys = shape_of(view)
    names = ("g", "step", "key", "run")
    sizes = (groups, channels // width, keys, width)
    g, step, key, run = (IndexExpr.var(n, 0, size - 1) for n, size in zip(names, sizes, strict=True))
    whole = place_of(view, [g, step * width + run, key])
    piece = run_at(whole, run, width)
    values: dict[str, Any] = dict(zip(names, np.indices(sizes), strict=True))
    d = values["step"] * width + values["run"]
    entry, offset = flat(p, values["g"], d, values["key"])
    exists = (d < p.dim_qk) & (values["key"] < p.seq_k)
    if piece is None:
        return
    assert not any(x is not None and x.depends_on("run") for x in (piece.entry, piece.offset))
    start = evaluated(piece.offset, values)
    assert (start[exists] % width == 0).all()
    np.testing.assert_array_equal((start + values["run"])[exists], offset[exists])
    np.testing.assert_array_equal(evaluated(piece.entry, values)[exists], entry[exists])
    told = np.ones(sizes, np.bool_)
    for expr, lo, hi in piece.conditions:
        found = evaluated(expr, values)
        told &= (lo <= found) & (found < hi)
    np.testing.assert_array_equal(told, exists)


X, RUN = IndexExpr.var("x", 0, 9), IndexExpr.var("run", 0, 3)


@pytest.mark.parametrize(
    ("entry", "offset", "conditions", "one"),
    [
        (None, X * 4 + RUN, (), True),
        (X, X * 8 + 4 + RUN, (), True),
        (None, RUN + 4, (), True),
        (None, X * 4 + RUN * 2, (), False),  # every other element
        (None, X * 4 - RUN, (), False),  # backwards
        (None, X * 6 + RUN, (), False),  # not aligned
        (None, X * 4 + 2 + RUN, (), False),
        ((X * 4 + RUN) // 6, (X * 4 + RUN) % 6, (), False),  # over the edge of a page
        (RUN, X * 4 + RUN, (), False),
        (None, X * 4 + RUN, ((X, 0, 7),), True),  # for the whole run
        (None, X * 4 + RUN, ((X * 4 + RUN, 0, 36),), True),  # all of it or nothing
        (None, X * 4 + RUN, ((X * 4 + RUN, 0, 35),), False),
        (None, X * 4 + RUN, ((X * 4 + RUN, 2, 36),), False),
        (None, X * 4 + RUN, ((X * 4 + RUN + 1, 0, 36),), False),
        (None, X * 4 + RUN, ((X * 4 - RUN, 0, 36),), False),
    ],
)
def test_what_is_one_access(entry: IndexExpr | None, offset: IndexExpr, conditions: Any, one: bool) -> None:
    base = keys_of(problem(seq_q=1, seq_k=1, dim_qk=16, page_size=16))
    place = Place(base, entry, 100, offset, conditions)
    found = run_at(place, RUN, 4)
    assert (found is not None) == one
    if found is not None:
        assert found.offset == offset - RUN
        assert not any(expr.depends_on("run") for expr, _, _ in found.conditions)
    assert run_at(place, RUN, 1) is place


# ---- in whole kernels


def page_loads(p: AttentionProblem) -> list[hip.LoadOp]:
    """The loads from pages: those of K come first."""
    found = [op for op in ops_of(module_at(p, DEVICE), "hip.load") if isinstance(op, hip.LoadOp)]
    return [op for op in found if op.base.type == i64]


def widths(p: AttentionProblem) -> tuple[set[int], set[int]]:
    """Elements that a lane reads of K and of V at once."""
    loads = page_loads(p)
    k = {hip.lanes_of(op.result.type) for op in loads if (op.base.name_hint or "").startswith("k")}
    v = {hip.lanes_of(op.result.type) for op in loads if (op.base.name_hint or "").startswith("v")}
    assert k
    assert v
    return k, v


@pytest.mark.parametrize(
    ("dtype", "dim", "page", "k", "v"),
    [
        ("f16", 64, 1024, 8, 4),  # V: 16 lanes share a row of 64
        ("f16", 128, 1024, 8, 8),
        ("f16", 128, 96, 8, 8),
        ("f16", 128, 520, 8, 8),
        ("f16", 128, 12, 4, 4),
        ("f16", 128, 6, 2, 2),
        ("f16", 128, 39, 1, 1),
        ("f16", 128, 8, 8, 8),
        ("f16", 40, 520, 4, 4),  # 40 channels: no whole number of 8 for each of 4 lane groups; V is padded to 64
        ("f16", 36, 1024, 4, 1),
        ("f16", 34, 34, 2, 1),
        ("f16", 33, 33, 1, 1),
        ("f32", 64, 1024, 4, 4),  # 16 bytes
        ("f32", 128, 520, 4, 4),
        ("f32", 128, 6, 2, 2),
        ("f32", 128, 39, 1, 1),
    ],
)
def test_the_widest_access_that_page_and_row_permit(dtype: str, dim: int, page: int, k: int, v: int) -> None:
    keys = next(n for n in range(2, 2000) if n * dim % page == 0 and n * dim > page)
    assert widths(problem(seq_q=1, seq_k=keys, dim_qk=dim, page_size=page, dtype=dtype)) == ({k}, {v})


@settings(max_examples=10)
@given(st.integers(1, 3).map(lambda n: 128 * n), st.integers(2, 24), st.data())
def test_page_size_and_row_length_are_all_that_narrows_an_access(dim: int, keys: int, data: st.DataObject) -> None:
    page = data.draw(st.sampled_from([s for s in page_sizes(1, keys, dim, dim) if s < keys * dim]))
    widest = min(8, gcd(page, dim) & -gcd(page, dim))
    assert widths(problem(seq_q=1, seq_k=keys, dim_qk=dim, page_size=page)) == ({widest}, {widest})


def scope_of(value: SSAValue) -> Block:
    """The block in which a value comes to be."""
    owner = value.owner
    block = owner if isinstance(owner, Block) else owner.parent
    assert block is not None
    return block


def depth_of(block: Block) -> int:
    depth, parent = 0, block.parent_op()
    while parent is not None and parent.parent is not None:
        depth, parent = depth + 1, parent.parent_op()
    return depth


def is_index_arithmetic(op: Operation) -> bool:
    if isinstance(op, hip.LoadOp):
        return op.result.type == i64  # a page address: the table does not change
    if not isinstance(op, arith.AddiOp | arith.MuliOp | arith.DivUIOp | arith.RemUIOp | arith.MinUIOp | arith.ExtUIOp):
        return False
    return isinstance(op.results[0].type, IntegerType) and op.results[0].type != i1


KERNELS: dict[str, dict[str, Any]] = {
    "rows in pages": {"seq_q": 5, "seq_k": 64, "dim_qk": 128, "page_size": 1024},
    "rows across pages": {"seq_q": 5, "seq_k": 60, "dim_qk": 512, "page_size": 96},
    "odd": {"batch": 2, "seq_q": 5, "seq_k": 130, "dim_qk": 40, "page_size": 520, "kv_index": [3, 4], "causal": True},
    "f32": {"seq_q": 100, "seq_k": 130, "dim_qk": 300, "dim_v": 80, "page_size": 300, "dtype": "f32", "lse": True},
}


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_is_computed_in_a_loop_that_it_does_not_depend_on(name: str) -> None:
    module = module_at(problem(**KERNELS[name]), DEVICE)
    seen = 0
    for op in module.walk():
        if is_index_arithmetic(op):
            block = scope_of(op.results[0])
            operands = [scope_of(o) for o in op.operands if not isinstance(o.owner, arith.ConstantOp)]
            assert block in operands or (not operands and depth_of(block) == 2), op
            seen += 1
    assert seen > 20


def loops_around(op: Operation) -> int:
    """Loops between an operation and the loop over key tiles."""
    count, parent = 0, op.parent_op()
    while parent is not None and parent.name == "scf.for" and hip.UNROLL in parent.attributes:
        count, parent = count + 1, parent.parent_op()
    assert parent is not None
    assert parent.name in ("scf.for", "func.func")
    return count


@pytest.mark.parametrize(
    ("page", "around"),
    [
        (128 * 32, 0),  # a page holds whole tiles: one address for all that a lane reads of a tile
        (128 * 16, 1),  # half a tile: an address for each key of a lane, used for all its channels
        (128, 1),
        (64, 2),  # a part of a row: an address for each vector of channels
        (96, 2),
    ],
)
def test_a_page_address_is_looked_up_outside_of_the_loops_over_its_elements(page: int, around: int) -> None:
    p = problem(seq_q=64, seq_k=192, dim_qk=128, page_size=page)
    table = kernel_of(module_at(p, DEVICE)).body.block.args[1]
    before, ahead = [op for op in ops_of(module_at(p, DEVICE), "hip.load") if op.operands[0] is table]
    assert loops_around(ahead) == loops_around(before) == around
    assert loops_around(page_loads(p)[0]) == 2


def test_page_numbers_of_padding_stay_in_the_table() -> None:
    """Only where a tile reaches past the cache are page numbers clamped."""

    def clamps(keys: int) -> int:
        return len(ops_of(module_at(problem(seq_q=1, seq_k=keys, dim_qk=64, page_size=64), DEVICE), "arith.minui"))

    assert clamps(128) == 0
    assert clamps(100) > 0
