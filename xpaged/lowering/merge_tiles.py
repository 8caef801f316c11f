"""The tile program of `rock.merge_attention`: each workgroup merges the parts of some rows and channels.

Two loops over the parts: the largest of their logarithms, then the sum of what they give, weighted with `2^((lse - m)
log2 e)`. They are unrolled, so that all parts are on their way at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, func, math, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, MemRefType, f32, i32
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import Rewriter

from xpaged.arch import arch_of_function
from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock.merge import MergeAttentionOp
from xpaged.ir.layout import Layout
from xpaged.ir.transform_map import Builder
from xpaged.lowering.geometry import MAX_PARTS, MergeTile, shape_of
from xpaged.lowering.tile_builder import LN_2, LOG2_E, LOWEST, TileBuilder, inverse, product


class MergeTiles(TileBuilder):
    """Builds the tile program of one merge in front of it, then erases it."""

    op: MergeAttentionOp

    def __init__(self, op: MergeAttentionOp) -> None:
        super().__init__(op)
        function = op.parent_op()
        assert isinstance(function, func.FuncOp)
        self.shape = shape_of(op.out)
        self.tile = MergeTile.of(self.shape, arch_of_function(function))
        lanes = self.tile.channels // 4
        self.layout = Layout.of(
            (self.tile.rows, self.tile.channels), lane=[(lanes, 1, 4), (self.tile.rows, 0, 1)], regs=[(4, 1, 1)]
        )

    def run(self) -> None:
        op, blocks = self.op, self.tile.channel_blocks
        self.stage("which rows and channels")
        nb = self.emit(tile.WorkgroupIdOp(), "workgroup")
        vb = self.index(0)
        if blocks > 1:
            vb = self.emit(arith.RemUIOp(nb, self.index(blocks)), "channel_block")
            nb = self.emit(arith.DivUIOp(nb, self.index(blocks)), "row_block")
        parts, lses = self._tiles(op.parts, True, "part_tiles"), self._tiles(op.lses, True, "lse_tiles")
        row = self.layout.reduced(1)

        def lse_of(part: SSAValue) -> SSAValue:
            value = self.emit(tile.TileLoadOp(lses, [part, nb], row), "part_lse")
            return self.widened(value)

        def largest(part: SSAValue, m: SSAValue) -> Sequence[SSAValue]:
            return (self.map([m, lse_of(part)], f32, lambda emit, a, b: emit(arith.MaxnumfOp(a, b)), "m"),)

        def add(part: SSAValue, total: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
            weight = self.map([lse_of(part), m], f32, _weight, "weight")
            values = self.widened(self.emit(tile.TileLoadOp(parts, [part, nb, vb], self.layout), "part_rows"))
            return (
                self.map([total, weight], f32, lambda emit, a, b: emit(arith.AddfOp(a, b)), "total"),
                self.map([acc, values, weight], f32, _weighted, "acc"),
            )

        count, unroll = op.split_kv, op.split_kv <= MAX_PARTS
        self.stage("the largest logarithm of the parts")
        (m,) = self.loop("part", self.index(count), count, [self.fill(LOWEST, row, "m")], largest, unroll=unroll)
        self.stage("the parts, weighted")
        start = [self.fill(0.0, row, "total"), self.fill(0.0, self.layout, "acc")]
        total, acc = self.loop("part", self.index(count), count, start, add, unroll=unroll)
        self.stage("what they give together")
        assert isinstance(op.out.type, MemRefType)
        out = self.map([acc, self.map([total], f32, inverse, "inverse")], f32, product, "o")
        out = self.narrowed(out, op.out.type.element_type, "o_packed")
        self.emit(tile.TileStoreOp(out, self._tiles(op.out, False, "o_tiles"), [nb, vb]))
        if op.lse is not None:
            self._store_lse(op.lse, m, total, nb, vb)
        Rewriter.erase_op(op)

    def _tiles(self, value: SSAValue, of_parts: bool, hint: str) -> SSAValue:
        """An operand cut into tiles: `[part, row block, channel block, rows, channels]`, without what it lacks."""
        groups, rows, channels = self.shape
        size, wide = self.tile, len(shape_of(value)) == 3
        inner = ("i", "d") if wide else ("i",)
        if of_parts:
            heads = Builder(("gp", *inner), shape_of(value)).unmerge(("g", "p"), "gp", (groups, self.op.split_kv))
            value = self.view(value, heads.pass_through(*inner))
        leading = ("p",) if of_parts else ()
        names = ("g", *leading, *inner)
        merged = Builder(names, shape_of(value)).pass_through(*leading).merge("N", ("g", "i"))
        value = self.view(value, merged.pass_through("d") if wide else merged)
        padded = Builder((*leading, "N", "D")[: len(shape_of(value))], shape_of(value)).pass_through(*leading)
        for name, have, want in (
            ("N", groups * rows, size.row_blocks * size.rows),
            ("D", channels, size.channel_blocks * size.channels),
        )[: 1 + wide]:
            padded = padded.pass_through(name) if have == want else padded.pad(name, 0, want - have)
        value = self.view(value, padded)
        cuts = {"N": (("nb", "q"), (size.row_blocks, size.rows))}
        if wide:
            cuts["D"] = (("vb", "d"), (size.channel_blocks, size.channels))
        blocks = ("nb", "vb") if wide else ("nb",)
        return self.cut(value, (*leading, "N", "D")[: len(shape_of(value))], cuts, (*leading, *blocks, "q", "d"), hint)

    def _store_lse(self, lse: SSAValue, m: SSAValue, total: SSAValue, nb: SSAValue, vb: SSAValue) -> None:
        """LSE = m + ln total, by the workgroup of the first channels."""
        assert isinstance(lse.type, MemRefType)
        self.stage("LSE")
        value = self.narrowed(self.map([m, total], f32, _logarithm, "lse"), lse.type.element_type, "lse")
        store = tile.TileStoreOp(value, self._tiles(lse, False, "lse_out"), [nb])
        if self.tile.channel_blocks == 1:
            self.emit(store)
            return
        zero = self.emit(arith.ConstantOp(IntegerAttr(0, i32)))
        first = self.emit(arith.CmpiOp(self.emit(arith.IndexCastOp(vb, i32)), zero, "eq"))
        store.location = self.op.location
        self.emit(scf.IfOp(first, [], Region(Block([store, scf.YieldOp()])), Region(Block([scf.YieldOp()]))))


def _weight(emit: Callable[..., SSAValue], lse: SSAValue, m: SSAValue) -> SSAValue:
    """2^((lse - m) log2 e)."""
    log2_e = emit(arith.ConstantOp(FloatAttr(LOG2_E, f32)))
    return emit(math.Exp2Op(emit(arith.MulfOp(emit(arith.SubfOp(lse, m)), log2_e))))


def _weighted(emit: Callable[..., SSAValue], acc: SSAValue, value: SSAValue, weight: SSAValue) -> SSAValue:
    """acc + value * weight."""
    return emit(arith.AddfOp(acc, emit(arith.MulfOp(value, weight))))


def _logarithm(emit: Callable[..., SSAValue], m: SSAValue, total: SSAValue) -> SSAValue:
    """m + ln total."""
    ln_2 = emit(arith.ConstantOp(FloatAttr(LN_2, f32)))
    return emit(arith.AddfOp(m, emit(arith.MulfOp(emit(math.Log2Op(total)), ln_2))))
