"""Tile operations from Python: what builders make, what standard passes may move, what the files cover."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from xdsl.dialects import arith, test
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, ModuleOp, f16, f32, i32
from xdsl.ir import Block, Region
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.hip import LDS_SPACE
from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock import tile_reductions
from xpaged.dialects.rock.tile_reductions import TILE_REDUCTIONS, TileReduceOp
from xpaged.dialects.rock.tile_type import LayoutAttr, TileType
from xpaged.ir.layout import Layout
from xpaged.ir.parsing import parse
from xpaged.pipeline import Pipeline

FILES = Path(__file__).parents[2] / "filecheck" / "dialects" / "rock"
S = Layout.of((1, 16, 16), lane=[(16, 2, 1), (4, 1, 4)], regs=[(4, 1, 1)])


def test_the_type_of_a_layout_and_back() -> None:
    type_ = TileType.of(f16, S)
    assert type_.layout == S
    assert type_.get_shape() == (1, 16, 16)
    assert type_.layout_attr == LayoutAttr.of(S)
    assert str(type_) == (
        "!rock.tile<1x16x16xf16, #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>>"
    )
    with pytest.raises(VerifyException, match="coordinate 2 has 32 elements, the digits reach 16"):
        TileType.of(f16, Layout((1, 16, 32), S.wave, S.lane, S.regs))


def test_builders_give_the_types_that_the_verifiers_ask_for() -> None:
    zero, scale, view = test.TestOp(result_types=[f32, f16, MemRefType(f32, [7, 1, 16, 16])]).results
    (index,) = test.TestOp(result_types=[IndexType()]).results
    fill = tile.TileFillOp(zero, S)
    load = tile.TileLoadOp(view, [index], S)
    top = TileReduceOp(load.result, "max", 1)
    rows = tile.TileIndexOp(index, (0, 0, 1), S.reduced(1))
    masked = tile.TileMaskOp(load.result, index, (0, 1, 0), rows.result, rows.result)
    assert tile.tile_of(fill.result) == tile.tile_of(load.result) == tile.tile_of(masked.result) == TileType.of(f32, S)
    assert tile.tile_of(top.result) == TileType.of(f32, S.reduced(1))
    assert tile.tile_of(rows.result) == TileType.of(i32, S.reduced(1))
    block = Block(arg_types=[f32, f32, f16])
    wide = arith.ExtFOp(block.args[2], f32)
    product = arith.MulfOp(block.args[0], wide)
    block.add_ops([wide, product, tile.TileYieldOp(product.result)])
    mapped = tile.TileMapOp([fill.result, top.result, scale], Region(block), TileType.of(f32, S))
    converted = tile.TileConvertLayoutOp(mapped.result, Layout(S.shape, S.wave, S.lane, S.regs))
    stored = tile.TileStoreOp(converted.result, view, [index])
    lds = tile.LdsAllocOp(MemRefType(f32, [4], memory_space=IntegerAttr(LDS_SPACE, i32)))
    for op in (fill, load, top, rows, masked, mapped, converted, stored, lds):
        op.verify()


def test_every_operation_and_every_refusal_is_in_the_files() -> None:
    ops, invalid = ((FILES / name).read_text() for name in ("tile_ops.mlir", "tile_invalid.mlir"))
    for op in [*tile.TILE_OPS, *TILE_REDUCTIONS]:
        assert re.search(rf"CHECK-NEXT: +(%\w+(, %\w+)* = )?{op.name}\b", ops), op.name
        if op.verify_.__module__ in (tile.__name__, tile_reductions.__name__):
            assert op.name in invalid, f"{op.name} has a verifier but no refusal among the invalid ones"


# ---- what standard passes may do

KERNEL = """
#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
func.func @f(%t: memref<1x4x1xi64>, %n: index, %o: memref<1x16x16xf16>) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
{body}
  return
}}
"""
LAZY = (
    'rock.transform %d by <affine_map<(i, w, k, d) -> (0, i, k * 16 + d)> by [<ConstDim{0, 1} [] at [] -> ["b"] '
    'at [0]>, <PassThrough ["i"] at [0] -> ["p"] at [1]>, <Unmerge{1, 16, 16} ["w", "k", "d"] at [1, 2, 3] -> '
    '["e"] at [2]>] bounds = [4, 1, 16, 16] -> [1, 4, 256]> : memref<1x4x256xf16> to memref<4x1x16x16xf16>'
)
LOAD = "rock.tile_load {}[%i] : memref<4x1x16x16xf16> -> !rock.tile<1x16x16xf16, #k>"
STORE = "rock.tile_store {}, %o[] : !rock.tile<1x16x16xf16, #k>, memref<1x16x16xf16>"
DEREF = "rock.deref %t : memref<1x4x1xi64> -> memref<1x4x256xf16>"


def after(passes: str, body: str) -> ModuleOp:
    module = parse(KERNEL.format(body=body))
    Pipeline(passes).apply(module)
    return module


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("rock.")]


def test_descriptors_move_out_of_a_loop_and_loads_stay() -> None:
    module = after(
        "licm",
        f"""scf.for %i = %zero to %n step %one {{
          %d = {DEREF}
          %v = {LAZY}
          %k = {LOAD.format("%v")}
          %same = {LOAD.replace("%i", "%zero").format("%v")}
          {STORE.format("%k")}
          {STORE.format("%same")}
        }}""",
    )
    (loop,) = [op for op in module.walk() if op.name == "scf.for"]
    inside = [op.name for op in loop.walk() if op.name.startswith("rock.")]
    assert inside == ["rock.tile_load", "rock.tile_load", "rock.tile_store", "rock.tile_store"]
    assert names(module)[:2] == ["rock.deref", "rock.transform"]


def test_equal_descriptors_become_one_and_unused_ones_none() -> None:
    module = after(
        "cse,dce",
        f"""%d = {DEREF}
        %v = {LAZY}
        %d2 = {DEREF}
        %v2 = {LAZY.replace("%d ", "%d2 ")}
        %d3 = rock.deref %t : memref<1x4x1xi64> -> memref<1x4x512xf16>
        %i = arith.constant 1 : index
        %k = {LOAD.format("%v")}
        {STORE.format("%k")}
        %k2 = {LOAD.format("%v2")}
        {STORE.format("%k2")}""",
    )
    assert names(module)[:3] == ["rock.deref", "rock.transform", "rock.tile_load"]
    assert names(module).count("rock.deref") == 1


def test_a_tile_is_loaded_again_after_a_store_or_a_barrier() -> None:
    lds = "rock.tile_load %b[] : memref<1x16x16xf16, 3 : i32> -> !rock.tile<1x16x16xf16, #k>"
    for between in (
        "rock.barrier",
        "rock.tile_store %x, %b[] : !rock.tile<1x16x16xf16, #k>, memref<1x16x16xf16, 3 : i32>",
    ):
        module = after(
            "cse,dce,canonicalize",
            f"""%b = rock.lds_alloc : memref<1x16x16xf16, 3 : i32>
            %x = {lds}
            {STORE.format("%x")}
            {between}
            %y = {lds}
            {STORE.format("%y")}""",
        )
        assert names(module).count("rock.tile_load") == 2


def test_buffers_are_not_merged() -> None:
    module = after(
        "cse,canonicalize",
        """%a = rock.lds_alloc : memref<1x16x16xf16, 3 : i32>
        %b = rock.lds_alloc : memref<1x16x16xf16, 3 : i32>
        %x = rock.tile_load %a[] : memref<1x16x16xf16, 3 : i32> -> !rock.tile<1x16x16xf16, #k>
        rock.tile_store %x, %b[] : !rock.tile<1x16x16xf16, #k>, memref<1x16x16xf16, 3 : i32>""",
    )
    assert names(module).count("rock.lds_alloc") == 2
