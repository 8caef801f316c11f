"""The tile program of an attention with many query rows, whose waves share K and V through LDS.

Each wave brings a part of a tile of keys from memory to registers and from there to LDS, in the layouts of
`staged_layouts`; all waves then read all of it.  In a turn of the loop over whole tiles

    K of the next tile is loaded     S^T = K Q^T     V goes to LDS, V of the next tile is loaded
    barrier
    the softmax     O^T += V^T P^T     K of the next tile goes to LDS
    barrier

so that a load has most of a turn to arrive, and a barrier never waits for one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, MemRefType, i32
from xdsl.ir import SSAValue

from xpaged.dialects.hip import LDS_SPACE
from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock.attention import GridwiseAttentionAccelOp
from xpaged.ir.transform_map import Builder
from xpaged.lowering.attention_tiles import AttentionTiles
from xpaged.lowering.layouts import AttentionLayouts
from xpaged.lowering.staged_layouts import STAGED_ROWS, StagedLayouts


def tiles_of(op: GridwiseAttentionAccelOp) -> AttentionTiles:
    """The builder of the tile program that the parameters of an attention ask for."""
    assert op.params0 is not None
    staged = op.params0.values()["rows_per_wave"] == STAGED_ROWS
    return StagedAttention(op) if staged else AttentionTiles(op)


class StagedAttention(AttentionTiles):
    """Builds the tile program of one gridwise attention through LDS, then erases it."""

    layouts: StagedLayouts
    family: ClassVar[type[AttentionLayouts]] = StagedLayouts

    def _loops(self, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        shapes = self.layouts
        self.k_lds = self._buffer(shapes.k_shape, shapes.k_view(), "lds_k")
        self.v_lds = self._buffer(shapes.v_shape, shapes.v_view(), "lds_v")
        return super()._loops(carried)

    def _buffer(self, shape: Sequence[int], view: Sequence[Builder], hint: str) -> SSAValue:
        space = IntegerAttr(LDS_SPACE, i32)
        place = self.emit(tile.LdsAllocOp(MemRefType(self.element, shape, memory_space=space)), hint)
        for map_ in view:
            place = self.view(place, map_)
        return place

    # ---- from memory to registers, from there to LDS

    def _fetch_k(self, it: SSAValue, alive: SSAValue | None) -> SSAValue:
        place = [self.g, it, self.index(0)]
        return self.emit(tile.TileLoadOp(self.kv, place, self.layouts.k_rows, alive), "k_rows")

    def _put_k(self, rows: SSAValue) -> None:
        self.emit(tile.TileStoreOp(rows, self.k_lds, []))

    def _put_v(self, rows: SSAValue) -> None:
        chunks = self.emit(tile.TileConvertLayoutOp(rows, self.layouts.v_chunks), "v_chunks")
        self.emit(tile.TileStoreOp(chunks, self.v_lds, []))

    # ---- the products, from LDS

    def _scores(self) -> SSAValue:
        s = self.fill(0, self.layouts.s, "s", self.sums)
        k = self.emit(tile.TileLoadOp(self.k_lds, [], self.layouts.k), "k")
        return self.emit(tile.TileMmaOp(self.instruction.name, k, self.q, s), "s")

    def _values(self, packed: SSAValue, acc: SSAValue) -> SSAValue:
        v = self.emit(tile.TileLoadOp(self.v_lds, [], self.layouts.v), "v")
        return self.emit(tile.TileMmaOp(self.layouts.value_instruction.name, v, packed, acc), "acc")

    # ---- turns

    def _prefetching_loop(self, whole: int, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        first, some, last = self._ahead(whole)
        self._put_k(self._fetch_k(first, some))
        v = self._load_v(first, some)

        def body(it: SSAValue, *state: SSAValue) -> Sequence[SSAValue]:
            after = self._following(it, whole, last)
            self.stage("K of the next turn is on its way")
            k_rows = self._fetch_k(after, None)
            self.emit(tile.SchedBarrierOp())
            self.stage("S^T = K Q^T")
            s = self._scores()
            self.stage("V goes to LDS, V of the next turn is on its way")
            self._put_v(state[3])
            v_rows = self._load_v(after, None)
            m, row_sum, acc, packed = self._softmax(it, None, s, state[:3])
            self.stage("O^T += V^T P^T")
            acc = self._values(packed, acc)
            self._put_k(k_rows)
            return m, row_sum, acc, v_rows

        assert self.range.full is not None
        return self.loop("it", self.range.full, whole, [*carried, v], body, self.range.start)[:-1]

    def _key_tile(
        self,
        it: SSAValue,
        state: Sequence[SSAValue],
        *,
        masked: bool,
        ahead: tuple[SSAValue, SSAValue] | None = None,
    ) -> Sequence[SSAValue]:
        shapes = self.layouts
        base = self.emit(arith.MuliOp(it, self.index(self.key_step)), "first_key") if masked else None
        self.stage("K and V to LDS")
        self._put_k(self._fetch_k(it, self._alive(base, (shapes.keys, 1, 0), shapes.k_rows.reduced(2), "k")))
        self._put_v(self._load_v(it, self._alive(base, (shapes.keys, 0, 1), shapes.v_rows.reduced(1), "v")))
        self.stage("S^T = K Q^T")
        m, row_sum, acc, packed = self._softmax(it, base, self._scores(), state)
        self.stage("O^T += V^T P^T")
        return m, row_sum, self._values(packed, acc)
