"""The end of a kernel whose waves took turns on the keys: their parts are added up through LDS."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, MemRefType, f32, i32
from xdsl.ir import SSAValue

from xpaged.dialects.hip import LDS_SPACE
from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock.tile_reductions import TileReduceOp
from xpaged.ir.transform_map import Builder
from xpaged.lowering.geometry import shape_of
from xpaged.lowering.layouts import AttentionLayouts
from xpaged.lowering.tile_builder import TileBuilder, exp2_difference, product


def join_key_waves(
    to: TileBuilder, shapes: AttentionLayouts, rows: int, m: SSAValue, row_sum: SSAValue, acc: SSAValue
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Add up the key waves through LDS: maximum of the row maxima, then sums of rescaled parts.

    Only the first `rows` query columns are exchanged; the others are padding.
    """
    waves, channels, padding = shapes.key_waves, shapes.value_channels, shapes.columns - rows
    to.stage("join the key waves: row maxima")

    def buffer(shape: Sequence[int], hint: str) -> SSAValue:
        return to.emit(tile.LdsAllocOp(MemRefType(f32, shape, memory_space=IntegerAttr(LDS_SPACE, i32))), hint)

    def view(place: SSAValue, names: Sequence[str], order: Sequence[str]) -> SSAValue:
        """A buffer with a coordinate of 1 where `order` names one more, and with the columns that are padding."""
        ordered = Builder(names, shape_of(place))
        for name in order:
            ordered = ordered.pass_through(name) if name in names else ordered.add_dim(name, 1)
        place = to.view(place, ordered)
        if not padding:
            return place
        padded = Builder(order, shape_of(place)).pass_through(*order[:-1])
        return to.view(place, padded.pad(order[-1], 0, padding))

    def exchange(value: SSAValue, hint: str) -> SSAValue:
        place = view(buffer((waves, rows), f"lds_{hint}"), ("w", "q"), ("w", "r1", "q"))
        to.emit(tile.TileStoreOp(value, place, []))
        return place

    tops = to.emit(tile.TileLoadOp(exchange(m, "m"), [], shapes.row_parts), "m_parts")
    top = to.emit(TileReduceOp(tops, "max", 0), "m_all")
    scale = to.map([m, top], f32, exp2_difference, "scale")
    to.stage("join the key waves: sums")
    row_sum = to.map([row_sum, scale], f32, product, "l_part")
    acc = to.map([acc, scale], f32, product, "acc_part")
    place = view(buffer((waves, rows, channels), "lds_acc"), ("w", "q", "d"), ("w", "d", "q"))
    sums = exchange(row_sum, "l")
    to.emit(tile.TileStoreOp(acc, place, []))
    total = to.emit(TileReduceOp(to.emit(tile.TileLoadOp(sums, [], shapes.row_parts), "l_parts"), "sum", 0), "l_all")
    parts = to.emit(tile.TileLoadOp(place, [], shapes.o_parts), "acc_parts")
    return top, total, to.emit(TileReduceOp(parts, "sum", 0), "acc_all")
