"""The rules of tile operations: a tile is what all lanes of a workgroup hold together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from xpaged.dialects.rock.tile_ops import TILE_OPS
from xpaged.dialects.rock.tile_reductions import TILE_REDUCTIONS
from xpaged.interpreter import evaluator, rules
from xpaged.interpreter.evaluator import Machine, Program
from xpaged.interpreter.memory import Memory, MemoryFault
from xpaged.interpreter.views import MemRef
from xpaged.ir.parsing import parse

Array = npt.NDArray[Any]
GROUPS = (4, 2, 7)  # the workgroups that run
S = "#rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>"
K = "#rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>"
ROW = "#rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>"
ALIASES = f"#s = {S}\n#k = {K}\n#row = {ROW}\n"
TILE, ROWS = "!rock.tile<1x16x16x{}, #s>", "!rock.tile<1x1x16x{}, #row>"
FULL, ONE = TILE.format("f32"), ROWS.format("f32")
RNG = np.random.default_rng(0)


def run(body: str, args: str = "", values: Sequence[Any] = (), results: str = "", **machine: Any) -> tuple[Any, ...]:
    """Run the body of a function on three workgroups."""
    module = parse(f"{ALIASES}func.func @f({args}){f' -> ({results})' if results else ''} {{\n{body}\n}}")
    settings: dict[str, Any] = {"groups": GROUPS, "grid": 8, **machine}
    return Program(module).call(Machine(**settings), "f", values)


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def buffer(memory: Memory, values: Array) -> MemRef:
    at = memory.allocate(values.nbytes, dtype=values.dtype).base
    memory.write_array(at, values)
    return MemRef.dense(at, values.dtype, values.shape)


def test_workgroups_fills_and_numbers() -> None:
    group, filled, numbers = run(
        f"""%g = rock.workgroup_id : index
        rock.stage "a title"
        %c = arith.constant 3 : index
        %base = arith.muli %g, %c : index
        %a = rock.tile_fill %x : f32 -> {FULL}
        %n = rock.tile_index %base strides [5, 100, 7] -> {TILE.format("i32")}
        return %g, %a, %n : index, {FULL}, {TILE.format("i32")}""",
        "%x: f32",
        [np.array([1, 2, 3], np.float32)],
        f"index, {FULL}, {TILE.format('i32')}",
    )
    np.testing.assert_array_equal(group, GROUPS)
    np.testing.assert_array_equal(filled, np.broadcast_to(np.array([1, 2, 3])[:, None, None, None], (3, 1, 16, 16)))
    _, rows, columns = np.indices((1, 16, 16))
    expected = 3 * np.array(GROUPS)[:, None, None, None] + 100 * rows + 7 * columns
    np.testing.assert_array_equal(numbers, expected)
    assert numbers.dtype == np.int32


def test_values_that_all_workgroups_share_stay_one() -> None:
    (filled,) = run(f"%a = rock.tile_fill %x : f32 -> {FULL}\nreturn %a : {FULL}", "%x: f32", [np.ones(1)], FULL)
    assert filled.shape == (1, 1, 16, 16)


LOAD = f"""%g = rock.workgroup_id : index
        %two = arith.constant 2 : index
        %a = rock.tile_load %v[%g, %two] : memref<8x3x1x16x16xf32> -> {FULL}
        return %a : {FULL}"""


def test_load_and_store_through_a_view() -> None:
    memory, data = Memory(), normal(8, 3, 1, 16, 16)
    view = buffer(memory, data)
    (loaded,) = run(LOAD, "%v: memref<8x3x1x16x16xf32>", [view], FULL, memory=memory)
    np.testing.assert_array_equal(loaded, data[list(GROUPS), 2])
    store = f"""%g = rock.workgroup_id : index
        %one = arith.constant 1 : index
        rock.tile_store %a, %v[%g, %one] : {FULL}, memref<8x3x1x16x16xf32>
        return"""
    run(store, f"%v: memref<8x3x1x16x16xf32>, %a: {FULL}", [view, loaded], memory=memory)
    data[list(GROUPS), 1] = data[list(GROUPS), 2]
    np.testing.assert_array_equal(memory.read_array(int(view.base[0]), data.dtype, data.size).reshape(data.shape), data)


PADDED = """#pad = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0, d1 - 2, d2)> by
          [<PassThrough ["w"] at [0] -> ["w"] at [0]>, <Pad{2, 4} ["k"] at [1] -> ["k"] at [1]>,
           <PassThrough ["q"] at [2] -> ["q"] at [2]>] bounds = [1, 16, 16] -> [1, 10, 16]>
        """


def test_padding_is_not_touched() -> None:
    memory, data = Memory(), normal(1, 10, 16)
    view = buffer(memory, data)
    module = parse(
        f"""{ALIASES}{PADDED}func.func @f(%v: memref<1x10x16xf32>, %x: {FULL}) -> {FULL} {{
          %p = rock.transform %v by #pad : memref<1x10x16xf32> to memref<1x16x16xf32>
          %a = rock.tile_load %p[] : memref<1x16x16xf32> -> {FULL}
          rock.tile_store %x, %p[] : {FULL}, memref<1x16x16xf32>
          return %a : {FULL}
        }}"""
    )
    stored = normal(1, 1, 16, 16)
    (loaded,) = Program(module).call(Machine(memory), "f", [view, stored])
    expected = np.zeros((1, 1, 16, 16))
    expected[0, :, 2:12] = data
    np.testing.assert_array_equal(loaded, expected)
    np.testing.assert_array_equal(
        memory.read_array(int(view.base[0]), data.dtype, 160).reshape(10, 16), stored[0, 0, 2:12]
    )


def test_masked_elements_are_neither_read_nor_looked_up() -> None:
    """Rows of dead keys lie in a page that is not mapped; their element is 0."""
    body = f"""%g = rock.workgroup_id : index
        %d = rock.deref %t : memref<1x8x1xi64> -> memref<1x8x256xf32>
        %v = rock.transform %d by #tiles : memref<1x8x256xf32> to memref<8x1x16x16xf32>
        %a = rock.tile_load %v[%g] where %m : {ROWS.format("i1")} : memref<8x1x16x16xf32> -> {FULL}
        return %a : {FULL}"""
    tiles = """#tiles = #rock.transform_map<affine_map<(d0, d1, d2, d3) -> (0, d0, d1 * 256 + d2 * 16 + d3)> by
      [<ConstDim{0, 1} [] at [] -> ["b"] at [0]>, <PassThrough ["it"] at [0] -> ["p"] at [1]>,
       <Unmerge{1, 16, 16} ["w", "k", "d"] at [1, 2, 3] -> ["e"] at [2]>] bounds = [8, 1, 16, 16] -> [1, 8, 256]>\n"""
    module = parse(
        f"{ALIASES}{tiles}func.func @f(%t: memref<1x8x1xi64>, %m: {ROWS.format('i1')}) -> {FULL} {{\n{body}\n}}"
    )
    memory, data = Memory(), normal(8, 256)
    mapped = np.arange(8) != 2
    pages = memory.allocate_many(8, 1024, order=RNG.permutation(8), mapped=mapped, name="page", dtype=data.dtype)
    for page, values in zip(pages[mapped].tolist(), data[mapped], strict=True):
        memory.write_array(page, values)
    table = buffer(memory, pages.view(np.int64).reshape(1, 8, 1))
    alive = np.ones((3, 1, 1, 16), np.bool_)
    alive[1] = False  # workgroup 2, whose page is not there
    alive[0, 0, 0, 5] = False
    (loaded,) = Program(module).call(Machine(memory, groups=GROUPS), "f", [table, alive])
    expected = np.where(alive, data[list(GROUPS)].reshape(3, 1, 16, 16), 0)
    np.testing.assert_array_equal(loaded, expected)
    alive[1, 0, 0, 3] = True
    with pytest.raises(MemoryFault, match=r"page\[2\]") as fault:
        Program(module).call(Machine(memory, groups=GROUPS), "f", [table, alive])
    assert "rock.tile_load" in fault.value.render()


def test_products() -> None:
    a, b, c = normal(3, 1, 16, 16).astype(np.float16), normal(3, 1, 16, 16).astype(np.float16), normal(3, 1, 16, 16)
    left, right = "!rock.tile<1x16x16xf16, #k>", "!rock.tile<1x16x16xf16, #s>"
    args = f"%a: {left}, %b: {right}, %c: {FULL}"
    body = f"""%d = rock.tile_mma "mfma_f32_16x16x16_f16" %a, %b, %c : {left}, {right}, {FULL} -> {FULL}
        return %d : {FULL}"""
    (d,) = run(body, args, [a, b, c], FULL)
    expected = a.astype(np.float64) @ b.astype(np.float64) + c
    np.testing.assert_allclose(d, expected, rtol=1e-5, atol=1e-5)
    assert d.dtype == np.float32
    (shared,) = run(body, args, [a, b[:1], c], FULL)  # one B for all workgroups
    np.testing.assert_allclose(shared, a.astype(np.float64) @ b[0].astype(np.float64) + c, rtol=1e-5, atol=1e-5)


def test_elementwise_regions_take_tiles_rows_and_scalars() -> None:
    x, row, scalar = normal(3, 1, 16, 16), normal(3, 1, 1, 16), normal(3)
    (got,) = run(
        f"""%m = rock.tile_map(%a = %x : {FULL}, %b = %row : {ONE}, %c = %s : f32) -> {TILE.format("f16")} {{
          %d = arith.subf %a, %b : f32
          %e = arith.mulf %d, %c : f32
          %f = arith.truncf %e : f32 to f16
          rock.tile_yield %f : f16
        }}
        return %m : {TILE.format("f16")}""",
        f"%x: {FULL}, %row: {ONE}, %s: f32",
        [x, row, scalar],
        TILE.format("f16"),
    )
    np.testing.assert_array_equal(got, ((x - row) * scalar[:, None, None, None]).astype(np.float16))


def test_a_region_that_uses_no_input_still_fills_the_tile() -> None:
    (got,) = run(
        f"""%m = rock.tile_map(%a = %x : {FULL}) -> {FULL} {{
          %c = arith.constant 2.0 : f32
          rock.tile_yield %c : f32
        }}
        return %m : {FULL}""",
        f"%x: {FULL}",
        [normal(3, 1, 16, 16)],
        FULL,
    )
    np.testing.assert_array_equal(got, np.full((3, 1, 16, 16), 2))


@pytest.mark.parametrize("window", [False, True])
def test_masks(window: bool) -> None:
    scores = normal(3, 1, 16, 16)
    scores[0, 0, 3, 3] = np.nan  # of a key that is not kept
    upper = np.array([[2, 20, 10], [0, 5, 30]], np.int32)
    uppers = np.broadcast_to(upper[0][:, None, None, None], (3, 1, 1, 16))
    lowers = np.broadcast_to(upper[1][:, None, None, None], (3, 1, 1, 16))
    clause = f"lower %l : {ROWS.format('i32')} " if window else ""
    (got,) = run(
        f"""%m = rock.tile_mask %s keys %k strides [0, 1, 0] upper %u {clause}: {FULL}, {ROWS.format("i32")} -> {FULL}
        return %m : {FULL}""",
        f"%s: {FULL}, %k: index, %u: {ROWS.format('i32')}, %l: {ROWS.format('i32')}",
        [scores, np.array([0, 8, 0]), uppers, lowers],
        FULL,
    )
    keys = np.arange(16)[:, None] + np.array([0, 8, 0])[:, None, None, None]
    kept = keys <= uppers
    if window:
        kept = kept & (keys >= lowers)
    np.testing.assert_array_equal(got, np.where(kept, scores, -np.inf))


def test_reductions() -> None:
    x = normal(3, 1, 16, 16)
    x[0, 0, 2, 5] = np.nan
    x[1, 0, :, 4] = np.nan
    top, total = run(
        f"""%a = rock.tile_reduce "max" %x along 1 : {FULL} -> {ONE}
        %b = rock.tile_reduce "sum" %x along 1 : {FULL} -> {ONE}
        return %a, %b : {ONE}, {ONE}""",
        f"%x: {FULL}",
        [x],
        f"{ONE}, {ONE}",
    )
    np.testing.assert_array_equal(top, np.fmax.reduce(x, axis=2, keepdims=True))  # a NaN loses
    assert np.isnan(top[1, 0, 0, 4])
    assert not np.isnan(top[0]).any()
    np.testing.assert_allclose(total, x.sum(axis=2, keepdims=True), rtol=1e-5, atol=1e-5)
    assert top.shape == total.shape == (3, 1, 1, 16)


WAVES = "#rock.layout<wave = [2 -> d2 * 16, 3 -> d0], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1, 2 -> d1 * 16]>"
PARTS = "#rock.layout<wave = [2 -> d2 * 16, 3 -> d0], lane = [16 -> d2, 4 -> d1], regs = []>"
COLUMN = "#rock.layout<wave = [2 -> d2 * 16, 3 -> d0], lane = [16 -> d2, 4 -> copy], regs = []>"


def test_reductions_in_a_lane() -> None:
    """Lane group g has the keys 4 g + r and 16 + 4 g + r."""
    x = normal(2, 3, 32, 32)
    x[1, 2, 3, 4] = np.nan
    full, parts = f"!rock.tile<3x32x32xf32, {WAVES}>", f"!rock.tile<3x4x32xf32, {PARTS}>"
    top, total = run(
        f"""%a = rock.tile_reduce_lane "max" %x along 1 : {full} -> {parts}
        %b = rock.tile_reduce_lane "sum" %x along 1 : {full} -> {parts}
        return %a, %b : {parts}, {parts}""",
        f"%x: {full}",
        [x],
        f"{parts}, {parts}",
    )
    group = np.arange(32) // 4 % 4
    for g in range(4):
        np.testing.assert_array_equal(top[:, :, g], np.fmax.reduce(x[:, :, group == g], axis=2))
        np.testing.assert_allclose(total[:, :, g], x[:, :, group == g].sum(axis=2), rtol=1e-5, atol=1e-5)


def test_what_is_done_if_any_element_of_a_wave_asks_for_it() -> None:
    """Six waves: three along coordinate 0, two along columns.  One element speaks for its wave, and for no other."""
    parts, row = f"!rock.tile<3x4x32xi1, {PARTS}>", f"!rock.tile<3x1x32xf32, {COLUMN}>"
    full = f"!rock.tile<3x32x32xf32, {WAVES}>"
    asks = np.zeros((2, 3, 4, 32), np.bool_)
    asks[0, 1, 3, 17] = asks[1, 0, 0, 0] = asks[1, 2, 2, 31] = True
    m, acc = normal(2, 3, 1, 32), normal(2, 3, 32, 32)
    one, more = run(
        f"""%a, %b = rock.tile_if_any %c : {parts}(%x = %m : {row}, %y = %acc : {full}) {{
          %p = rock.tile_map(%u = %x : {row}) -> {row} {{
            %n = arith.negf %u : f32
            rock.tile_yield %n : f32
          }}
          %q = rock.tile_map(%u = %y : {full}, %v = %p : {row}) -> {full} {{
            %n = arith.mulf %u, %v : f32
            rock.tile_yield %n : f32
          }}
          rock.tile_yield %p, %q : {row}, {full}
        }}
        return %a, %b : {row}, {full}""",
        f"%c: {parts}, %m: {row}, %acc: {full}",
        [asks, m, acc],
        f"{row}, {full}",
    )
    taken = np.zeros((2, 3, 1, 32), np.bool_)
    taken[0, 1, 0, 16:] = taken[1, 0, 0, :16] = taken[1, 2, 0, 16:] = True
    np.testing.assert_array_equal(one, np.where(taken, -m, m))
    np.testing.assert_array_equal(more, np.where(taken, acc * -m, acc))


def test_layouts_do_not_change_a_tile() -> None:
    other = f"!rock.tile<1x16x16xf32, {S.replace('regs = [4 -> d1]', 'regs = [2 -> d1 * 2, 2 -> d1]')}>"
    x = normal(3, 1, 16, 16)
    (got,) = run(
        f"%y = rock.tile_convert_layout %x : {FULL} -> {other}\nreturn %y : {other}", f"%x: {FULL}", [x], other
    )
    np.testing.assert_array_equal(got, x)


def test_lds_belongs_to_one_workgroup_and_starts_as_nan() -> None:
    x = normal(3, 1, 16, 16)
    fresh, got = run(
        f"""%b = rock.lds_alloc : memref<1x16x16xf32, 3 : i32>
        %f = rock.tile_load %b[] : memref<1x16x16xf32, 3 : i32> -> {FULL}
        rock.tile_store %x, %b[] : {FULL}, memref<1x16x16xf32, 3 : i32>
        rock.barrier
        %y = rock.tile_load %b[] : memref<1x16x16xf32, 3 : i32> -> {FULL}
        return %f, %y : {FULL}, {FULL}""",
        f"%x: {FULL}",
        [x],
        f"{FULL}, {FULL}",
    )
    assert np.isnan(fresh).all()
    np.testing.assert_array_equal(got, x)


def test_workgroups_that_have_left_a_loop_touch_nothing() -> None:
    """Workgroup i makes trips[i] trips: what it loads and stores in them, and what it carries."""
    memory, data = Memory(), normal(8, 5, 1, 16, 16)
    view, out = buffer(memory, data), buffer(memory, np.zeros((8, 5, 1, 16, 16), np.float32))
    trips = np.array([3, 0, 5])
    (total,) = run(
        f"""%g = rock.workgroup_id : index
        %zero = arith.constant 0 : index
        %one = arith.constant 1 : index
        %r = scf.for %i = %zero to %n step %one iter_args(%a = %x) -> ({FULL}) {{
          %t = rock.tile_load %v[%g, %i] : memref<8x5x1x16x16xf32> -> {FULL}
          %s = rock.tile_map(%b = %a : {FULL}, %c = %t : {FULL}) -> {FULL} {{
            %d = arith.addf %b, %c : f32
            rock.tile_yield %d : f32
          }}
          rock.tile_store %s, %o[%g, %i] : {FULL}, memref<8x5x1x16x16xf32>
          scf.yield %s : {FULL}
        }}
        return %r : {FULL}""",
        f"%v: memref<8x5x1x16x16xf32>, %o: memref<8x5x1x16x16xf32>, %n: index, %x: {FULL}",
        [view, out, trips, np.zeros((1, 1, 16, 16), np.float32)],
        FULL,
        memory=memory,
    )
    stored = memory.read_array(int(out.base[0]), data.dtype, data.size).reshape(data.shape)
    for lane, (group, n) in enumerate(zip(GROUPS, trips, strict=True)):
        sums = np.cumsum(data[group, :n], axis=0, dtype=np.float32)
        np.testing.assert_allclose(total[lane], sums[-1] if n else np.zeros((1, 16, 16)), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(stored[group, :n], sums, rtol=1e-5, atol=1e-5)
        assert not stored[group, n:].any()


def test_what_lies_outside_is_a_fault() -> None:
    memory = Memory()
    view = buffer(memory, normal(8, 3, 1, 16, 16)[:5])
    with pytest.raises(MemoryFault, match=r"outside every allocation|runs over the end") as fault:
        run(LOAD, "%v: memref<8x3x1x16x16xf32>", [view], FULL, memory=memory)
    assert "rock.tile_load" in fault.value.render()


def test_every_operation_has_a_rule() -> None:
    rules.load("rock")
    registered = evaluator._RULES  # pyright: ignore[reportPrivateUsage]
    assert [
        op.name for op in [*TILE_OPS, *TILE_REDUCTIONS] if op not in registered and op.name != "rock.tile_yield"
    ] == []
