"""Random tile programs with random layouts: one lane's program computes what the tiles mean.

The values are small whole numbers, so that sums are exact in any order and the results must agree bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.builder import Builder as OpBuilder
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    UnitAttr,
    f16,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from tests.lowering.kernels import DEVICE, TILE, kernel_of, lowered
from xpaged.dialects.hip import LDS_SPACE
from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock.ops import DerefOp
from xpaged.dialects.rock.tile_reductions import TileReduceOp
from xpaged.dialects.rock.tile_type import TileType
from xpaged.dialects.rock.views import make_transform
from xpaged.interpreter.evaluator import Machine, Program
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.views import MemRef
from xpaged.ir.layout import HOMES, Digit, Home, Layout
from xpaged.ir.levels import Level
from xpaged.ir.transform_map import Builder
from xpaged.ir.verify import verify
from xpaged.lowering.kernel import block_size, grid_size, set_launch

GROUPS = 2
DTYPES: dict[AnyFloat, np.dtype[Any]] = {f16: np.dtype(np.float16), f32: np.dtype(np.float32)}


@st.composite
def layouts(draw: st.DrawFn, shape: Sequence[int], waves: int) -> Layout:
    """A layout of a tile on `waves` waves of 64 lanes; what no digit fills are copies."""
    homes: dict[Home, list[Digit]] = {home: [] for home in HOMES}
    room = {"wave": waves, "lane": 64}
    digits: list[Digit] = []
    for dim, extent in enumerate(shape):
        stride = 1
        for size in _factors(extent):
            digits.append(Digit(size, dim, stride))
            stride *= size
    for digit in draw(st.permutations(digits)):
        home: Home = draw(st.sampled_from(HOMES))
        if home != "regs" and room[home] % digit.size == 0:
            homes[home].append(digit)
            room[home] //= digit.size
        else:
            homes["regs"].append(digit)
    for home in ("wave", "lane"):
        homes[home].insert(draw(st.integers(0, len(homes[home]))), Digit(room[home]))
    return Layout.of(shape, wave=homes["wave"], lane=homes["lane"], regs=homes["regs"])


def _factors(extent: int) -> list[int]:
    out: list[int] = []
    for p in (4, 2, 3, 5):
        while extent % p == 0:
            out.append(p)
            extent //= p
    assert extent == 1
    return out


@dataclass
class Writer:
    """Builds a tile-level kernel @f(input or page table, output)."""

    waves: int
    block: Block = field(default_factory=Block)

    def __post_init__(self) -> None:
        self.builder = OpBuilder(InsertPoint.at_end(self.block))
        self.group = self.emit(tile.WorkgroupIdOp())

    def emit(self, op: Operation) -> SSAValue:
        self.builder.insert(op)
        return op.results[0]

    def index(self, value: int) -> SSAValue:
        return self.emit(arith.ConstantOp(IntegerAttr(value, IndexType())))

    def argument(self, type_: MemRefType) -> SSAValue:
        return self.block.insert_arg(type_, len(self.block.args))

    def view(self, value: SSAValue, map_: Builder) -> SSAValue:
        return make_transform(self.builder, value, map_.build())

    def tiles(self, value: SSAValue, extents: Sequence[int], padded: Sequence[int], order: Sequence[int]) -> SSAValue:
        """A flat buffer (or the elements of pages) as `[group, *padded]`, its dims in memory in another order."""
        names = ["g", "x", "y", "z"]
        memory = ["g", *(names[1 + d] for d in order)]
        shape = dict(zip(names, (GROUPS, *extents), strict=True))
        assert isinstance(value.type, MemRefType)
        flat = Builder(("raw",), value.type.get_shape())
        value = self.view(value, flat.unmerge(tuple(memory), "raw", tuple(shape[n] for n in memory)))
        value = self.view(value, Builder(memory, [shape[n] for n in memory]).pass_through(*names))
        pad = Builder(names, list(shape.values())).pass_through("g")
        for name, have, want in zip(names[1:], extents, padded, strict=True):
            pad = pad.pass_through(name) if have == want else pad.pad(name, 0, want - have)
        return self.view(value, pad)

    def map(self, inputs: Sequence[SSAValue], element: Attribute, layout: Layout, body: Any) -> SSAValue:
        types = [v.type.element_type if isinstance(v.type, TileType) else v.type for v in inputs]
        block = Block(arg_types=types)
        inner = OpBuilder(InsertPoint.at_end(block))
        result = body(lambda op: inner.insert(op).results[0], *block.args)
        inner.insert(tile.TileYieldOp(result))
        return self.emit(tile.TileMapOp(list(inputs), Region(block), TileType.of(element, layout)))

    def finish(self) -> ModuleOp:
        self.builder.insert(func.ReturnOp())
        function = func.FuncOp("f", ([a.type for a in self.block.args], []), Region(self.block))
        function.attributes |= {"rock.kernel": UnitAttr(), "arch": StringAttr("gfx942")}
        set_launch(function, GROUPS, 64 * self.waves)
        module = ModuleOp([function])
        verify(module)
        return module


@dataclass
class Case:
    """A program and its input."""

    module: ModuleOp
    element: AnyFloat
    elements: int
    page: int | None
    output: int


PADDED = ((4, 6, 8), (1, 12, 8), (2, 16, 4), (16, 1, 20), (3, 8, 16))


@st.composite
def programs(draw: st.DrawFn) -> Case:
    """Load, compute, change layouts, store."""
    waves = draw(st.sampled_from([1, 2, 3, 4]))
    w = Writer(waves)
    padded = draw(st.sampled_from(PADDED))
    extents = [draw(st.sampled_from(sorted({n, max(1, n - 1), -(-n // 2)}))) for n in padded]
    element = draw(st.sampled_from([f16, f32]))
    elements = GROUPS * prod(extents)
    order = draw(st.permutations(range(3)))
    page = draw(st.sampled_from([None, *(p for p in range(1, elements + 1) if elements % p == 0)]))
    if page is None:
        source = w.argument(MemRefType(element, [elements]))
    else:
        table = w.argument(MemRefType(i64, [elements // page]))
        table = w.view(
            table, Builder(("raw",), (elements // page,)).unmerge(("b", "p", "o"), "raw", (1, elements // page, 1))
        )
        pages = w.emit(DerefOp(table, MemRefType(element, [1, elements // page, page])))
        whole = Builder(("b", "p", "o"), (1, elements // page, page)).const_dim("b", 0)
        source = w.view(pages, whole.merge("raw", ("p", "o")))
    view = w.tiles(source, extents, padded, order)
    layout = draw(layouts(padded, waves))
    value = w.emit(tile.TileLoadOp(view, [w.group], layout, draw(masks(w, layout))))
    if element == f16:
        value = w.map([value], f32, layout, lambda emit, x: emit(arith.ExtFOp(x, f32)))
    for step in draw(st.lists(st.sampled_from(["scale", "add reduced", "convert", "lds", "mask", "loop"]), max_size=4)):
        layout = tile.tile_of(value).layout
        match step:
            case "scale":
                value = scaled(w, value, draw(st.integers(-2, 3)))
            case "add reduced":
                value = draw(reduced(w, value))
            case "convert":
                regs = draw(st.permutations(layout.regs))
                value = w.emit(
                    tile.TileConvertLayoutOp(value, Layout(layout.shape, layout.wave, layout.lane, tuple(regs)))
                )
            case "lds":
                value = draw(through_lds(w, value))
            case "mask":
                value = draw(masked(w, value))
            case _:
                value = draw(looped(w, value))
    layout = tile.tile_of(value).layout
    out_extents = [draw(st.sampled_from(sorted({n, max(1, n - 1)}))) for n in padded]
    out = w.tiles(
        w.argument(MemRefType(f32, [GROUPS * prod(out_extents)])), out_extents, padded, draw(st.permutations(range(3)))
    )
    w.builder.insert(tile.TileStoreOp(value, out, [w.group]))
    return Case(w.finish(), element, elements, page, GROUPS * prod(out_extents))


def scaled(w: Writer, value: SSAValue, by: int) -> SSAValue:
    layout = tile.tile_of(value).layout
    factor = w.emit(arith.ConstantOp(FloatAttr(by, f32)))
    return w.map([value, factor], f32, layout, lambda emit, x, f: emit(arith.AddfOp(emit(arith.MulfOp(x, f)), f)))


@st.composite
def numbers(draw: st.DrawFn, w: Writer, layout: Layout) -> tuple[SSAValue, SSAValue, list[int]]:
    """An index tile of a tile whose extents repeat or not, its base and strides."""
    for dim in range(3):
        if draw(st.booleans()):
            layout = layout.reduced(dim)
    strides = [draw(st.integers(0, 5)) for _ in range(3)]
    base = w.emit(arith.MuliOp(w.group, w.index(draw(st.integers(0, 3)))))
    return w.emit(tile.TileIndexOp(base, strides, layout)), base, strides


@st.composite
def masks(draw: st.DrawFn, w: Writer, layout: Layout) -> SSAValue | None:
    """Which elements are loaded: all, or those whose number is small."""
    if draw(st.booleans()):
        return None
    index, _, _ = draw(numbers(w, layout))
    limit = w.emit(arith.ConstantOp(IntegerAttr(draw(st.integers(0, 20)), i32)))
    of = tile.tile_of(index).layout
    return w.map([index, limit], i1, of, lambda emit, x, y: emit(arith.CmpiOp(x, y, "sle")))


@st.composite
def masked(draw: st.DrawFn, w: Writer, value: SSAValue) -> SSAValue:
    """Scores of some keys become minus infinity, then 7."""
    layout = tile.tile_of(value).layout
    upper, _, _ = draw(numbers(w, layout))
    lower = draw(numbers(w, layout))[0] if draw(st.booleans()) else None
    strides = [draw(st.integers(0, 5)) for _ in range(3)]
    kept = w.emit(tile.TileMaskOp(value, w.group, strides, upper, lower))
    seven = w.emit(arith.ConstantOp(FloatAttr(7, f32)))
    return w.map(
        [kept, seven],
        f32,
        layout,
        lambda emit, x, y: emit(
            arith.SelectOp(emit(arith.CmpfOp(x, emit(arith.ConstantOp(FloatAttr(float("-inf"), f32))), "oeq")), y, x)
        ),
    )


@st.composite
def reduced(draw: st.DrawFn, w: Writer, value: SSAValue) -> SSAValue:
    """The tile plus its maximum or sum along a coordinate that one wave holds."""
    layout = tile.tile_of(value).layout
    spread = {d.dim for d in layout.wave}
    threes = {d.dim for d in layout.lane if d.size & (d.size - 1)}
    dims = [d for d in range(3) if d not in spread | threes]
    if not dims:
        return value
    total = value
    for dim in draw(st.lists(st.sampled_from(dims), min_size=1, max_size=2, unique=True)):
        total = w.emit(TileReduceOp(total, draw(st.sampled_from(["max", "sum"])), dim))
    return w.map([value, total], f32, layout, lambda emit, x, y: emit(arith.SubfOp(y, x)))


@st.composite
def through_lds(draw: st.DrawFn, w: Writer, value: SSAValue) -> SSAValue:
    """Write the tile to LDS and read it with another layout."""
    layout = tile.tile_of(value).layout
    order = draw(st.permutations(range(3)))
    shape = [layout.shape[d] for d in order]
    lds = w.emit(tile.LdsAllocOp(MemRefType(f32, shape, memory_space=IntegerAttr(LDS_SPACE, i32))))
    names = [("x", "y", "z")[d] for d in order]
    lds = w.view(lds, Builder(names, shape).pass_through("x", "y", "z"))
    w.builder.insert(tile.TileStoreOp(value, lds, []))
    return w.emit(tile.TileLoadOp(lds, [], draw(layouts(layout.shape, w.waves))))


@st.composite
def looped(draw: st.DrawFn, w: Writer, value: SSAValue) -> SSAValue:
    """A loop that carries the tile, and a reduced one beside it that it takes in."""
    layout = tile.tile_of(value).layout
    type_, small = value.type, TileType.of(f32, layout.reduced(1))
    one = w.emit(tile.TileFillOp(w.emit(arith.ConstantOp(FloatAttr(1, f32))), small.layout))
    trips = draw(st.integers(0, 3))
    block = Block(arg_types=[IndexType(), type_, small])
    loop = scf.ForOp(w.index(0), w.index(trips), w.index(1), [value, one], Region(block))
    loop.attributes["rock.trip_bound"] = IntegerAttr(max(trips, 1), i32)
    w.builder.insert(loop)
    outer, w.builder = w.builder, OpBuilder(InsertPoint.at_end(block))
    held, added = block.args[1], block.args[2]
    swap = draw(st.booleans())
    new = w.map([held, added], f32, layout, lambda emit, x, y: emit(arith.AddfOp(x, y)))
    more = w.map([added], f32, small.layout, lambda emit, x: emit(arith.AddfOp(x, x)))
    if swap:  # the old value is still wanted
        new = w.map([new, held], f32, layout, lambda emit, x, y: emit(arith.SubfOp(x, y)))
    w.builder.insert(scf.YieldOp(new, more))
    w.builder = outer
    return w.map([loop.results[0], loop.results[1]], f32, layout, lambda emit, x, y: emit(arith.AddfOp(x, y)))


def execute(case: Case, module: ModuleOp, level: Level) -> npt.NDArray[np.float32]:
    """What the program writes; the output holds 99 before."""
    memory = Memory()
    rng = np.random.default_rng(0)
    values = rng.integers(-4, 5, case.elements).astype(DTYPES[case.element])
    size = case.page or case.elements
    places = memory.allocate_many(
        case.elements // size, size * values.itemsize, order=rng.permutation(case.elements // size), dtype=values.dtype
    )
    for at, page in zip(places.tolist(), values.reshape(-1, size), strict=True):
        memory.write_array(at, page)
    if case.page is None:
        source = MemRef.dense(int(places[0]), values.dtype, (case.elements,))
    else:
        table = memory.allocate(8 * len(places)).base
        memory.write_array(table, places.view(np.int64))
        source = MemRef.dense(table, np.dtype(np.int64), (len(places),))
    out = memory.allocate(4 * case.output).base
    memory.write_array(out, np.full(case.output, 99, np.float32))
    function = kernel_of(module)
    lanes = 1 if level is TILE else block_size(function)
    machine = Machine(memory, groups=range(GROUPS), lanes_per_group=lanes, grid=grid_size(function))
    target = MemRef.dense(out, np.dtype(np.float32), (case.output,))
    Program(module).call(machine, "f", [source, target])
    return memory.read_array(out, np.dtype(np.float32), case.output)


@settings(max_examples=30)
@given(programs())
def test_a_lane_program_computes_what_the_tiles_mean(case: Case) -> None:
    tiles = execute(case, case.module, TILE)
    assert not np.isnan(tiles).any()
    lanes = execute(case, lowered(case.module, "place-barriers,tile-to-device"), DEVICE)
    np.testing.assert_array_equal(lanes, tiles)


@pytest.mark.slow
@settings(max_examples=1500)
@given(programs())
def test_many_lane_programs(case: Case) -> None:
    np.testing.assert_array_equal(
        execute(case, lowered(case.module, "place-barriers,tile-to-device"), DEVICE), execute(case, case.module, TILE)
    )
