"""The tile program of one gridwise attention: operands cut into tiles, key bounds, the loop over key tiles, the end.

What it emits is shown in `xpaged.passes.gridwise_to_tile`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from xdsl.dialects import arith, func, math, memref, scf
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, MemRefType, f32, i1, i32
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import Rewriter

from xpaged.arch import arch_of_function
from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock.attention import GridwiseAttentionAccelOp
from xpaged.dialects.rock.ops import YieldOp
from xpaged.dialects.rock.tile_reductions import TileReduceLaneOp, TileReduceOp
from xpaged.ir.layout import Layout
from xpaged.lowering import masks
from xpaged.lowering.attention_join import join_key_waves
from xpaged.lowering.attention_parts import TileRange, part_of
from xpaged.lowering.geometry import bytes_of, element_of, join_rows, shape_of, waves_per_eu
from xpaged.lowering.kernel import set_waves_per_eu
from xpaged.lowering.layouts import AttentionLayouts
from xpaged.lowering.tile_builder import (
    LN_2,
    LOG2_E,
    LOWEST,
    Arithmetic,
    TileBuilder,
    exp2_difference,
    inverse,
    product,
)

SLACK = 8.0  # how far a score may lie above its row's reference, in units of log2: P stays below 2^8


def _rises(emit: Callable[..., SSAValue], top: SSAValue, m: SSAValue) -> SSAValue:
    """Whether a score lies so far above its row's reference that the reference must move."""
    limit = emit(arith.AddfOp(m, emit(arith.ConstantOp(FloatAttr(SLACK, f32)))))
    return emit(arith.CmpfOp(top, limit, "ogt"))


class AttentionTiles(TileBuilder):
    """Builds the tile program of one gridwise attention in front of it, then erases it."""

    op: GridwiseAttentionAccelOp
    family: ClassVar[type[AttentionLayouts]] = AttentionLayouts

    def __init__(self, op: GridwiseAttentionAccelOp) -> None:
        super().__init__(op)
        function = op.parent_op()
        assert isinstance(function, func.FuncOp)
        assert op.params0 is not None
        params = op.params0.values()
        arch, element = arch_of_function(function), element_of(op.queries)
        self.element = element_of(op.values)
        rows = params["rows_per_wave"]
        self.instruction = arch.matrix_instruction(str(element), params["channel_chunk"], rows)
        self.sums = i32 if self.instruction.accumulator == "i32" else f32  # what Q K^T is added up in
        self.layouts = self.family(
            self.instruction,
            params["query_waves"],
            params["key_waves"],
            params["keys_per_tile"],
            params["channel_chunk"],
            params["value_channels"],
            arch.matrix_instruction(str(self.element), params["keys_per_tile"], rows),
        )
        widest = max(bytes_of(element), bytes_of(self.element))
        set_waves_per_eu(function, waves_per_eu(params, widest, arch))
        self.groups, self.channels, self.rows = shape_of(op.queries)
        self.keys, self.value_channels = shape_of(op.values)[1:]

    def run(self) -> None:
        op, shapes = self.op, self.layouts
        self.stage("which rows and which keys")
        self._workgroup()
        self._views()
        self._bounds()
        one_chunk = self.channels == shapes.channels
        if one_chunk:
            self.stage("Q^T: the query rows of this workgroup")
            self.q = self._load_q(self.index(0))
        m = self.fill(LOWEST, shapes.s.reduced(1), "m")
        row_sum = self.fill(0.0, shapes.s.reduced_in_lane(1), "l")
        acc = self.fill(0.0, shapes.o, "acc")
        self._finish(*self._loops((m, row_sum, acc)))
        Rewriter.erase_op(op)

    def _loops(self, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """The loop over key tiles that need no mask, which loads K a turn ahead, and the loop over those that do."""
        trips, whole = self.keys // self.key_step, self.op.valid_keys // self.key_step
        start, full, end = self.range.start, self.range.full, self.range.end
        if full is not None and whole:
            self.stage("loop over whole key tiles")
            if self.stages == 1:
                carried = self.loop(
                    "it", full, whole, carried, lambda it, *state: self._key_tile(it, state, masked=False), start
                )
            else:
                carried = self._prefetching_loop(whole, carried)
        if not whole or full is None or self.upper is not None:
            self.stage("loop over key tiles that the masks cut")
            carried = self.loop(
                "it",
                end,
                trips,
                carried,
                lambda it, *state: self._key_tile(it, state, masked=True),
                start if full is None else full,
            )
        return carried

    def _prefetching_loop(self, whole: int, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """K of the first tile is loaded before the loop, K of the next one as soon as a product has used the last."""
        first, some, last = self._ahead(whole)
        k = self.emit(tile.TileLoadOp(self.kv, [self.g, first, self.index(0)], self.layouts.k, some), "k")

        def body(it: SSAValue, *state: SSAValue) -> Sequence[SSAValue]:
            return self._key_tile(it, state[:-1], masked=False, ahead=(state[-1], self._following(it, whole, last)))

        assert self.range.full is not None
        return self.loop("it", self.range.full, whole, [*carried, k], body, self.range.start)[:-1]

    def _ahead(self, whole: int) -> tuple[SSAValue, SSAValue | None, SSAValue]:
        """The first tile, whether there is a whole one (None: always), and the last whole one."""
        start, full = self.range.start, self.range.full
        assert full is not None
        some: SSAValue | None = None
        if self.upper is not None or start is not None:
            count = self.emit(arith.IndexCastOp(full, i32))
            begin = Arithmetic(self.emit).const(0) if start is None else self.emit(arith.IndexCastOp(start, i32))
            some = self.emit(arith.CmpiOp(count, begin, "sgt"), "some")
            some = self.emit(tile.TileFillOp(some, self.layouts.k.reduced(0).reduced(1).reduced(2)), "some")
        first = self.index(0)
        if start is not None:
            first = self.emit(arith.MinSIOp(start, self.index(whole - 1)), "first")
        return first, some, self.emit(arith.AddiOp(full, self.index(-1)))

    def _following(self, it: SSAValue, whole: int, last: SSAValue) -> SSAValue:
        """The tile to load for the next turn: the last whole one again in the last turn."""
        after = self.emit(arith.MinSIOp(self.emit(arith.AddiOp(it, self.index(1))), self.index(whole - 1)))
        return self.emit(arith.MinSIOp(after, last), "next")

    def _workgroup(self) -> None:
        """(g, part, nb, vb) of this workgroup: the problem, the part of the keys, the block of rows, the block of value
        channels. Results lie at `gp`, the parts of a problem side by side."""
        shapes = self.layouts
        row_blocks = self.rows // shapes.columns
        value_blocks = self.value_channels // shapes.value_channels
        workgroup = self.emit(tile.WorkgroupIdOp(), "workgroup")
        self.parts = self.op.split_kv
        results = self.groups * self.parts

        def digit(value: SSAValue, size: int, last: bool, hint: str) -> tuple[SSAValue, SSAValue]:
            if size == 1:
                return value, self.index(0)
            if last:
                return value, value
            rest = self.emit(arith.DivUIOp(value, self.index(size)))
            return rest, self.emit(arith.RemUIOp(value, self.index(size)), hint)

        rest, self.vb = digit(workgroup, value_blocks, value_blocks > 1 and results * row_blocks == 1, "value_block")
        rest, self.nb = digit(rest, row_blocks, results == 1, "row_block")
        self.gp = rest if results > 1 else self.index(0)
        self.part = self.gp
        if self.parts > 1:
            rest, self.part = digit(self.gp, self.parts, self.groups == 1, "part")
        self.g = rest if self.groups > 1 else self.index(0)
        if self.groups > 1:
            self.g.name_hint = self.g.name_hint or "kv_head"
        self.value_blocks = value_blocks
        self.stages = self.op.params0.values()["stages"] if self.op.params0 is not None else 1
        self.key_step = shapes.key_waves * shapes.keys

    def _views(self) -> None:
        """Cut the operands into tiles: leading coordinates choose the tile, the last three are the tile's own."""
        op, shapes = self.op, self.layouts
        rows, keys = (
            (self.rows // shapes.columns, shapes.columns),
            (self.keys // self.key_step, shapes.key_waves, shapes.keys),
        )
        chunks = (self.channels // shapes.channels, shapes.channels)
        values = (self.value_blocks, shapes.value_channels)

        key_cut = (("it", "w", "k"), keys)
        row_cut = (("nb", "q"), rows)
        self.qv = self.cut(
            op.queries,
            ("g", "D", "N"),
            {"D": (("dc", "d"), chunks), "N": row_cut},
            ("g", "nb", "dc", "w1", "d", "q"),
            "q_tiles",
        )
        self.kv = self.cut(
            op.keys,
            ("g", "D", "M"),
            {"D": (("dc", "d"), chunks), "M": key_cut},
            ("g", "it", "dc", "w", "k", "d"),
            "k_tiles",
        )
        self.vv = self.cut(
            op.values,
            ("g", "M", "D"),
            {"M": key_cut, "D": (("vb", "d"), values)},
            ("g", "it", "vb", "w", "d", "k"),
            "v_tiles",
        )
        assert op.out is not None
        self.ov = self.cut(
            op.out,
            ("g", "N", "D"),
            {"N": row_cut, "D": (("vb", "d"), values)},
            ("g", "nb", "vb", "w1", "d", "q"),
            "o_tiles",
        )
        self.lv = None
        if op.lse is not None:
            self.lv = self.cut(op.lse, ("g", "N"), {"N": row_cut}, ("g", "nb", "w1", "r1", "q"), "lse_tiles")
        self.extra = [
            self.cut(x, ("g", "M", "N"), {"M": key_cut, "N": row_cut}, ("g", "it", "nb", "w", "k", "q"), "bias_tiles")
            for x in op.preSoftmaxElemWiseInputs
        ]

    def _bounds(self) -> None:
        """The last key of the sequence, the bounds of each row, and how many key tiles any row needs."""
        op, shapes = self.op, self.layouts
        rules = Arithmetic(self.emit)
        keys = op.valid_keys

        def per_problem(value: SSAValue | None, clamp: masks.Clamp | None, hint: str) -> SSAValue | None:
            if value is None:
                return None
            return masks.clamped(rules, self.emit(memref.LoadOp.get(value, [self.g]), hint), clamp)

        index = per_problem(op.currentSeqLen, op.kv_index_clamp, "kv_index")
        offset = per_problem(op.prefixOffset, op.prefix_offset_clamp, "prefix_offset")
        last = masks.last_key(rules, index, keys)
        lower = masks.lower_key(rules, last, op.window)
        cut = self.parts > 1 and self._tiles_of_part() == 0
        if cut:
            part = self.emit(arith.IndexCastOp(self.part, i32))
            first, part_last = masks.part_keys(rules, part, masks.part_size(keys, self.parts))
            last, lower = rules.min(last, part_last), first if lower is None else rules.max(lower, first)
        last.name_hint = "last_key"
        bounded = index is not None or cut
        self.last = last if bounded else None
        causal = op.causal is not None
        self.upper = self.lower = None
        first_row = self.emit(arith.MuliOp(self.nb, self.index(shapes.columns)), "first_row")
        block_last = last
        if causal:
            end = self.emit(arith.AddiOp(first_row, self.index(shapes.columns - 1)))
            row = self.emit(arith.IndexCastOp(self.emit(arith.DivUIOp(end, self.index(op.repeats))), i32))
            block_last = masks.upper_key(rules, last, row, offset)
        if causal:
            rows = self.emit(tile.TileIndexOp(first_row, (0, 0, 1), shapes.s.reduced(1)), "rows")
            inputs = [rows, last, *([offset] if offset is not None else [])]

            def bound(
                emit: Callable[..., SSAValue], n: SSAValue, last_: SSAValue, offset_: SSAValue | None = None
            ) -> SSAValue:
                inner = Arithmetic(emit)
                row = emit(arith.DivUIOp(n, inner.const(op.repeats))) if op.repeats > 1 else n
                return masks.upper_key(inner, last_, row, offset_)

            self.upper = self.map(inputs, i32, bound, "upper")
        elif self.keys != keys or bounded:
            self.upper = self.emit(tile.TileFillOp(last, shapes.s.reduced(1)), "upper")
        self.first = lower
        if lower is not None:
            self.lower = self.emit(tile.TileFillOp(lower, shapes.s.reduced(1)), "lower")
        self._tile_range(rules, last, block_last if causal or bounded else None, offset if causal else None)

    def _tile_range(
        self, rules: Arithmetic, last: SSAValue, block_last: SSAValue | None, offset: SSAValue | None
    ) -> None:
        """Which key tiles some row of this workgroup needs, and which of them need no mask.

        `block_last` is the last key of any row of this workgroup, None where that is the last key of all.
        """
        op, step = self.op, self.key_step
        start: SSAValue | None = None
        full: SSAValue | None = None

        def tiles_to(key: SSAValue, more: int, hint: str) -> SSAValue:
            """(key + more) / step, 0 at least."""
            end = rules.max(self.emit(arith.AddiOp(key, rules.const(more))), rules.const(0))
            count = self.emit(arith.DivUIOp(end, rules.const(step)))
            return self.emit(arith.IndexCastOp(count, IndexType()), hint)

        if block_last is None:
            end = self.index(self.keys // step)
        else:
            end = tiles_to(block_last, step, "tiles")
        if self.first is not None:
            start = tiles_to(self.first, 0, "first_tile")
        elif block_last is None:
            full = self.index(op.valid_keys // step)
        else:
            least = last
            if op.causal is not None:
                row = self.emit(arith.MuliOp(self.nb, self.index(self.layouts.columns)))
                row = self.emit(arith.IndexCastOp(self.emit(arith.DivUIOp(row, self.index(op.repeats))), i32))
                least = masks.upper_key(rules, last, row, offset)
            full = tiles_to(least, 1, "full_tiles")
        self.range = TileRange(start, end, full)
        tiles = self._tiles_of_part() if self.parts > 1 else 0
        if tiles != 0:
            self.range = part_of(self, self.range, self.part, self.parts, tiles)

    def _tiles_of_part(self) -> int | None:
        """Key tiles of each part of the keys; 0 when parts are no whole tiles, None when they share what there is."""
        if self.op.balancedSplit is not None:
            return None
        size = masks.part_size(self.op.valid_keys, self.parts)
        return 0 if size % self.key_step else size // self.key_step

    def _load_q(self, chunk: SSAValue) -> SSAValue:
        return self.emit(tile.TileLoadOp(self.qv, [self.g, self.nb, chunk], self.layouts.q), "q_rows")

    def _alive(self, base: SSAValue | None, strides: Sequence[int], layout: Layout, hint: str) -> SSAValue | None:
        """Which elements of a tile of the cache belong to valid keys; None when all do."""
        if self.last is None or base is None:
            return None
        keys = self.emit(tile.TileIndexOp(base, strides, layout), f"{hint}_key")

        def valid(
            emit: Callable[..., SSAValue], key: SSAValue, last: SSAValue, first: SSAValue | None = None
        ) -> SSAValue:
            before_end = emit(arith.CmpiOp(key, last, "sle"))
            if first is None:
                return before_end
            return emit(arith.AndIOp(before_end, emit(arith.CmpiOp(key, first, "sge"))))

        bounds = [self.last] if self.first is None else [self.last, self.first]
        return self.map([keys, *bounds], i1, valid, f"{hint}_valid")

    def _key_tile(
        self,
        it: SSAValue,
        state: Sequence[SSAValue],
        *,
        masked: bool,
        ahead: tuple[SSAValue, SSAValue] | None = None,
    ) -> Sequence[SSAValue]:
        """One turn: the reference `m` of each row, the sum that each lane has, and O^T after one more key tile.

        `ahead` is K of this tile, loaded a turn before, and the tile whose K is to be loaded for the next turn, which
        is then the last result. V is loaded before the first product, so that it is there after the softmax.
        """
        shapes = self.layouts
        base = self.emit(arith.MuliOp(it, self.index(self.key_step)), "first_key") if masked else None
        v: SSAValue | None = None
        if ahead is not None:
            self.stage("V of this turn is on its way")
            v = self._load_v(it, None)
            self.emit(tile.SchedBarrierOp())
        self.stage("S^T = K Q^T")
        k_alive = self._alive(base, (shapes.keys, 1, 0), shapes.k.reduced(2), "k")
        s = self.fill(0, shapes.s, "s", self.sums)
        chunks = self.channels // shapes.channels

        def scores(chunk: SSAValue, q: SSAValue, sums: SSAValue) -> SSAValue:
            k = self.emit(tile.TileLoadOp(self.kv, [self.g, it, chunk], shapes.k, k_alive), "k")
            return self.emit(tile.TileMmaOp(self.instruction.name, k, q, sums), "s")

        following: list[SSAValue] = []
        if ahead is not None:
            s = self.emit(tile.TileMmaOp(self.instruction.name, ahead[0], self.q, s), "s")
            self.emit(tile.SchedBarrierOp())
            self.stage("K of the next turn")
            following = [self.emit(tile.TileLoadOp(self.kv, [self.g, ahead[1], self.index(0)], shapes.k), "k")]
            self.emit(tile.SchedBarrierOp())
        elif chunks == 1:
            s = scores(self.index(0), self.q, s)
        else:
            (s,) = self.loop("chunk", self.index(chunks), chunks, (s,), lambda c, x: (scores(c, self._load_q(c), x),))
        m, row_sum, acc, packed = self._softmax(it, base, s, state)
        self.stage("O^T += V^T P^T")
        if v is None:
            v = self._load_v(it, self._alive(base, (shapes.keys, 0, 1), shapes.v_rows.reduced(1), "v"))
        v = self.emit(tile.TileConvertLayoutOp(v, shapes.v), "v")
        acc = self.emit(tile.TileMmaOp(shapes.value_instruction.name, v, packed, acc), "acc")
        return m, row_sum, acc, *following

    def _softmax(
        self, it: SSAValue, base: SSAValue | None, s: SSAValue, state: Sequence[SSAValue]
    ) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
        """From the scores of a key tile to `m`, the row sum, O^T in the unit of the new `m`, and P^T as an operand.
        `base` is the first key of the tile where masks may cut it."""
        shapes = self.layouts
        m, row_sum, acc = state
        factor = self._factor()
        upper = None if base is None else self.upper
        if factor is None:
            self.stage("scores in units of log2" + (", masked" if upper else ""))
            extra = [self.emit(tile.TileLoadOp(x, [self.g, it, self.nb], shapes.s), "bias") for x in self.extra]
            s = self.map([s, *extra], f32, self._score, "x")
        elif upper is not None:
            self.stage("scores, masked")
        if base is not None and upper is not None:
            s = self.emit(tile.TileMaskOp(s, base, (shapes.keys, 1, 0), upper, self.lower), "x")
        self.stage("online softmax")

        def scaled(emit: Callable[..., SSAValue], score: SSAValue) -> SSAValue:
            """A score in units of log2."""
            return score if factor is None else product(emit, score, emit(arith.ConstantOp(FloatAttr(factor, f32))))

        top = self.emit(TileReduceLaneOp(s, "max", 1), "top")
        if factor is not None:
            top = self.map([top], f32, scaled, "top")
        rises = self.map([top, m], i1, _rises, "rises")
        m, row_sum, acc = self.if_any(rises, (m, row_sum, acc), lambda *old: self._raise(top, *old))
        p = self.map([s, m], f32, lambda emit, a, b: exp2_difference(emit, scaled(emit, a), b), "p")
        total = self.emit(TileReduceLaneOp(p, "sum", 1), "sum")
        row_sum = self.map([row_sum, total], f32, lambda emit, a, b: emit(arith.AddfOp(a, b)), "l")
        packed = self.narrowed(p, self.element, "p_packed", nan=False)  # a NaN is in the row sum too
        if shapes.p != shapes.s:
            packed = self.emit(tile.TileConvertLayoutOp(packed, shapes.p), "p_packed")
        return m, row_sum, acc, packed

    def _load_v(self, it: SSAValue, alive: SSAValue | None) -> SSAValue:
        return self.emit(tile.TileLoadOp(self.vv, [self.g, it, self.vb], self.layouts.v_rows, alive), "v_rows")

    def _raise(self, top: SSAValue, m: SSAValue, row_sum: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
        """Move the reference of each row up to its maximum, and what was summed up so far with it."""
        row_top = self.emit(TileReduceOp(top, "max", 1), "row_top")
        new = self.map([m, row_top], f32, lambda emit, a, b: emit(arith.MaxnumfOp(a, b)), "m_new")
        scale = self.map([m, new], f32, exp2_difference, "scale")
        row_sum = self.map([row_sum, scale], f32, product, "l")
        return new, row_sum, self.map([acc, scale], f32, product, "acc")

    def _factor(self) -> float | None:
        """What the score region multiplies scores by, in units of log2, if it does nothing else: the largest score of a
        row is then known before it is multiplied, and the product is part of the exponent's subtraction."""
        op, factor = self.op, LOG2_E
        block = op.preSoftmaxBody.blocks.first
        if self.sums != f32 or op.softmax_type != f32 or self.extra:
            return None
        score: SSAValue | None = None if block is None else block.args[0]
        for inner in () if block is None else block.ops:
            match inner:
                case arith.ConstantOp():
                    pass
                case arith.MulfOp() if inner.lhs is score and isinstance(inner.rhs.owner, arith.ConstantOp):
                    value = inner.rhs.owner.value
                    assert isinstance(value, FloatAttr)
                    factor, score = factor * value.value.data, inner.result
                case YieldOp() if inner.values[0] is score:
                    pass
                case _:
                    return None
        factor = float(FloatAttr(factor, f32).value.data)
        return factor if 0.0 < factor < float("inf") else None

    def _score(self, emit: Callable[..., SSAValue], score: SSAValue, *extra: SSAValue) -> SSAValue:
        """The score region, the rounding to the softmax type, then the change of base."""
        block = self.op.preSoftmaxBody.blocks.first
        if block is not None:
            known: dict[SSAValue, SSAValue] = dict(zip(block.args, (score, *extra), strict=True))
            for inner in block.ops:
                if isinstance(inner, YieldOp):
                    score = known[inner.values[0]]
                    break
                clone = inner.clone(known)
                emit(clone)
                known |= dict(zip(inner.results, clone.results, strict=True))
        softmax, already = self.op.softmax_type, score.type
        if already != f32:
            score = emit(arith.ExtFOp(score, f32))
        if softmax not in (f32, already):
            score = emit(arith.ExtFOp(emit(arith.TruncFOp(score, softmax)), f32))
        return emit(arith.MulfOp(score, emit(arith.ConstantOp(FloatAttr(LOG2_E, f32)))))

    def _finish(self, m: SSAValue, row_sum: SSAValue, acc: SSAValue) -> None:
        shapes = self.layouts
        self.stage("the rest")
        row_sum = self.emit(TileReduceOp(row_sum, "sum", 1), "l")
        acc = self.emit(tile.TileConvertLayoutOp(acc, shapes.o_rows), "acc_rows")
        if shapes.key_waves > 1:
            rows = join_rows(shapes.query_waves, self.op.valid_rows)
            m, row_sum, acc = join_key_waves(self, shapes, rows, m, row_sum, acc)
        self.stage("O = O^T / l")
        out = self.map([acc, self.map([row_sum], f32, inverse, "l_inv")], f32, product, "o")
        assert self.op.out is not None
        out = self.narrowed(out, element_of(self.op.out), "o_packed")
        self.emit(tile.TileStoreOp(out, self.ov, [self.gp, self.nb, self.vb]))
        if self.lv is not None:
            self._store_lse(m, row_sum)

    def _store_lse(self, m: SSAValue, row_sum: SSAValue) -> None:
        """LSE = ln 2 (m + log2 l), by the workgroup of the first value channels."""

        def body(emit: Callable[..., SSAValue], a: SSAValue, b: SSAValue) -> SSAValue:
            total = emit(arith.AddfOp(a, emit(math.Log2Op(b))))
            return emit(arith.MulfOp(total, emit(arith.ConstantOp(FloatAttr(LN_2, f32)))))

        assert self.lv is not None
        assert self.op.lse is not None
        assert isinstance(self.op.lse.type, MemRefType)
        self.stage("LSE")
        lse = self.map([m, row_sum], f32, body, "lse")
        lse = self.narrowed(lse, self.op.lse.type.element_type, "lse")
        if self.value_blocks == 1:
            self.emit(tile.TileStoreOp(lse, self.lv, [self.gp, self.nb]))
            return
        first = self.emit(
            arith.CmpiOp(
                self.emit(arith.IndexCastOp(self.vb, i32)), self.emit(arith.ConstantOp(IntegerAttr(0, i32))), "eq"
            )
        )
        block = Block([store := tile.TileStoreOp(lse, self.lv, [self.gp, self.nb]), scf.YieldOp()])
        store.location = self.op.location
        self.emit(scf.IfOp(first, [], Region(block), Region(Block([scf.YieldOp()]))))
