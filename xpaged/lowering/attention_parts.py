"""Which key tiles a workgroup goes through when the keys of a problem are split into parts."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, i32
from xdsl.ir import SSAValue

from xpaged.lowering.tile_builder import Arithmetic, TileBuilder


@dataclass
class TileRange:
    """Key tiles `start <= it < end` (from 0 when `start` is None); those before `full` need no mask (None: all do)."""

    start: SSAValue | None
    end: SSAValue
    full: SSAValue | None


def part_of(to: TileBuilder, whole: TileRange, part: SSAValue, parts: int, tiles: int | None) -> TileRange:
    """The tiles of part `part` of `whole`: always the same `tiles` of all tiles, or an equal share of those in `whole`
    when `tiles` is None. The share is as large for each part but the last ones, which may have fewer or none."""
    rules = Arithmetic(to.emit)

    def number(index: SSAValue) -> SSAValue:
        return to.emit(arith.IndexCastOp(index, i32))

    def index(value: SSAValue, hint: str) -> SSAValue:
        return to.emit(arith.IndexCastOp(value, IndexType()), hint)

    own, end = number(part), number(whole.end)
    begin = None if whole.start is None else number(whole.start)
    if tiles is None:
        count = end if begin is None else rules.max(to.emit(arith.SubiOp(end, begin)), rules.const(0))
        share = to.emit(arith.DivUIOp(rules.add(count, rules.const(parts - 1)), rules.const(parts)), "part_tiles")
        start = rules.mul(own, share)
        start = start if begin is None else rules.add(begin, start)
        stop = rules.min(rules.add(start, share), end)
    else:
        start = rules.mul(own, rules.const(tiles))
        stop = rules.min(rules.add(start, rules.const(tiles)), end)
        start = start if begin is None else rules.max(start, begin)
    full = None
    if whole.full is not None:
        full = index(rules.min(rules.max(number(whole.full), start), rules.max(stop, start)), "full_tiles")
    return TileRange(index(start, "first_tile"), index(stop, "tiles"), full)
