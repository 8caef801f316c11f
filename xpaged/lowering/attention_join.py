"""The end of a kernel whose waves took turns on the keys: their parts are added up through LDS."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, MemRefType, f32, i32
from xdsl.ir import SSAValue

from xpaged.dialects.hip import LDS_SPACE
from xpaged.dialects.rock import tile_ops as tile
from xpaged.ir.transform_map import Builder
from xpaged.lowering.geometry import shape_of
from xpaged.lowering.layouts import AttentionLayouts
from xpaged.lowering.tile_builder import TileBuilder, exp2_difference, product


def join_key_waves(
    to: TileBuilder, shapes: AttentionLayouts, m: SSAValue, row_sum: SSAValue, acc: SSAValue
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Add up the key waves through LDS: maximum of the row maxima, then sums of rescaled parts."""
    waves, columns, channels = shapes.key_waves, shapes.columns, shapes.value_channels
    to.stage("join the key waves: row maxima")

    def buffer(shape: Sequence[int], hint: str) -> SSAValue:
        return to.emit(tile.LdsAllocOp(MemRefType(f32, shape, memory_space=IntegerAttr(LDS_SPACE, i32))), hint)

    def rows_of(value: SSAValue) -> SSAValue:
        return to.view(value, Builder(("w", "q"), shape_of(value)).pass_through("w").add_dim("r1", 1).pass_through("q"))

    def exchange(value: SSAValue, hint: str) -> SSAValue:
        place = rows_of(buffer((waves, columns), f"lds_{hint}"))
        to.emit(tile.TileStoreOp(value, place, []))
        return place

    tops = to.emit(tile.TileLoadOp(exchange(m, "m"), [], shapes.row_parts), "m_parts")
    top = to.emit(tile.TileReduceOp(tops, "max", 0), "m_all")
    ref = to.finite(top)
    scale = to.map([m, ref], f32, exp2_difference, "scale")
    to.stage("join the key waves: sums")
    row_sum = to.map([row_sum, scale], f32, product, "l_part")
    acc = to.map([acc, scale], f32, product, "acc_part")
    place = buffer((waves, columns, channels), "lds_acc")
    place = to.view(place, Builder(("w", "q", "d"), shape_of(place)).pass_through("w", "d", "q"))
    sums = exchange(row_sum, "l")
    to.emit(tile.TileStoreOp(acc, place, []))
    total = to.emit(
        tile.TileReduceOp(to.emit(tile.TileLoadOp(sums, [], shapes.row_parts), "l_parts"), "sum", 0), "l_all"
    )
    parts = to.emit(tile.TileLoadOp(place, [], shapes.o_parts), "acc_parts")
    return top, total, to.emit(tile.TileReduceOp(parts, "sum", 0), "acc_all")
