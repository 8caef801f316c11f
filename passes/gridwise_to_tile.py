"""gridwise-to-tile: the online softmax as a loop over key tiles; the first level that reads through a deref.

    #swap = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0, d2, d1)> by
      [<PassThrough ["g"] at [0] -> ["g"] at [0]>, <PassThrough ["d"] at [1] -> ["d"] at [2]>,
       <PassThrough ["key"] at [2] -> ["key"] at [1]>] bounds = [3, 16, 96] -> [3, 96, 16]>
    func.func @f(%q: memref<3x16x16xf16>, %kt: memref<3x96x1xi64>, %vt: memref<3x96x1xi64>, %last: memref<3xi32>,
                 %o: memref<3x16x16xf16>)
        attributes {rock.kernel, arch = "gfx942", rock.grid_size = 3 : i32, rock.block_size = 64 : i32} {
      %kd = rock.deref %kt : memref<3x96x1xi64> -> memref<3x96x16xf16>
      %vd = rock.deref %vt : memref<3x96x1xi64> -> memref<3x96x16xf16>
      %k = rock.transform %kd by #swap : memref<3x96x16xf16> to memref<3x16x96xf16>
      rock.gridwise_attention_accel(%q, %k, %vd, %last, %o, %kd, %vd) preSoftmaxOps = {}
        {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1, 0, 1, 1>,
         params0 = #rock.attention_params<keys_per_tile = 32, query_waves = 1, key_waves = 1, channel_chunk = 16,
                                          value_channels = 16>}
        : memref<3x16x16xf16>, memref<3x16x96xf16>, memref<3x96x16xf16>, memref<3xi32>, memref<3x16x16xf16>,
          memref<3x96x16xf16>, memref<3x96x16xf16>
      func.return
    }

becomes, in part,

      %workgroup = rock.workgroup_id : index
      %k_tiles = rock.transform %k by
      %kv_index = memref.load %last[%workgroup] : memref<3xi32>
      %last_key = arith.minsi %kv_index,
      %q_rows = rock.tile_load %q_tiles_1[%workgroup,
      %m_1, %l_1, %acc_1 = scf.for %it =
        %k_1 = rock.tile_load %k_tiles_1[%workgroup, %it,
        %s_1 = rock.tile_mma "mfma_f32_16x16x16_f16" %k_1, %q_rows, %s
        %x = rock.tile_map
        %x_1 = rock.tile_mask %x keys %first_key
        %tile_max = rock.tile_reduce "max" %x_1 along 1
        %p = rock.tile_map
          math.exp2
        %tile_sum = rock.tile_reduce "sum" %p along 1
        %v_rows = rock.tile_load %v_tiles_1[%workgroup, %it,
        %acc_4 = rock.tile_mma "mfma_f32_16x16x16_f16" %v, %p_packed, %acc_3
        scf.yield %m_new, %l_new, %acc_4
      } {rock.trip_bound = 3 : i32}
      rock.tile_store %o_packed, %o_tiles_1[%workgroup,

Scores are in units of log2, so that 2^x is the hardware's own instruction. The loop ends with the last tile that has a
kept key. Where waves take turns on the keys, what they have is joined through LDS at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from typing import ClassVar

from xdsl.builder import Builder as OpBuilder
from xdsl.context import Context
from xdsl.dialects import arith, func, math, memref, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, MemRefType, ModuleOp, f32, i1, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xpaged.arch import arch_of_function
from xpaged.dialects.hip import LDS_SPACE
from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock.attention import GridwiseAttentionAccelOp
from xpaged.dialects.rock.ops import YieldOp
from xpaged.dialects.rock.tile_type import TileType
from xpaged.dialects.rock.views import make_transform
from xpaged.errors import XpagedError
from xpaged.ir.layout import Layout
from xpaged.ir.levels import Level
from xpaged.ir.pass_base import LevelPass
from xpaged.ir.transform_map import Builder
from xpaged.lowering import masks
from xpaged.lowering.geometry import shape_of
from xpaged.lowering.layouts import AttentionLayouts
from xpaged.lowering.tile_checks import check_tiles

LOG2_E = 1.4426950408889634
LN_2 = log(2.0)
NEGATIVE_INFINITY = float("-inf")


@dataclass(frozen=True)
class GridwiseToTilePass(LevelPass):
    """Lower rock.gridwise_attention_accel to tiles (see the module's text)."""

    name = "gridwise-to-tile"
    takes: ClassVar[Level | None] = Level.GRIDWISE
    leaves: ClassVar[Level | None] = Level.TILE

    def run(self, ctx: Context, module: ModuleOp) -> None:
        lowered: set[Operation | None] = set()
        for op in list(module.walk()):
            if isinstance(op, GridwiseAttentionAccelOp):
                if op.parent_op() in lowered:
                    raise XpagedError("a kernel holds one attention: the launch is made for it", at=op)
                lowered.add(op.parent_op())
                check_tiles(op)
                _Lowering(op).run()


def _exp2_difference(emit: Callable[..., SSAValue], a: SSAValue, b: SSAValue) -> SSAValue:
    return emit(math.Exp2Op(emit(arith.SubfOp(a, b))))


def _product(emit: Callable[..., SSAValue], a: SSAValue, b: SSAValue) -> SSAValue:
    return emit(arith.MulfOp(a, b))


class _Arithmetic:
    """The mask rules as i32 operations (see `xpaged.lowering.masks`)."""

    def __init__(self, emit: Callable[..., SSAValue]) -> None:
        self.emit = emit

    def const(self, value: int) -> SSAValue:
        return self.emit(arith.ConstantOp(IntegerAttr(value, i32)))

    def min(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.MinSIOp(a, b))

    def max(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.MaxSIOp(a, b))

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.AddiOp(a, b))


class _Lowering:
    """Builds the tile program of one gridwise attention in front of it, then erases it."""

    def __init__(self, op: GridwiseAttentionAccelOp) -> None:
        self.op = op
        function = op.parent_op()
        assert isinstance(function, func.FuncOp)
        assert op.params0 is not None
        self.builder = OpBuilder(InsertPoint.before(op))
        params = op.params0.values()
        assert isinstance(op.queries.type, MemRefType)
        element = op.queries.type.element_type
        assert isinstance(element, AnyFloat)
        self.element = element
        self.instruction = arch_of_function(function).matrix_instruction(str(element))
        self.layouts = AttentionLayouts(
            self.instruction,
            params["query_waves"],
            params["key_waves"],
            params["keys_per_tile"],
            params["channel_chunk"],
            params["value_channels"],
        )
        self.groups, self.channels, self.rows = shape_of(op.queries)
        self.keys, self.value_channels = shape_of(op.values)[1:]

    # ---- emitting

    def emit(self, op: Operation, hint: str | None = None) -> SSAValue:
        """Insert an operation, with the location of the attention, and return its first result."""
        op.location = self.op.location
        self.builder.insert(op)
        if hint is not None:
            op.results[0].name_hint = hint
        return op.results[0] if op.results else None  # pyright: ignore[reportReturnType]

    def index(self, value: int) -> SSAValue:
        return self.emit(arith.ConstantOp(IntegerAttr(value, IndexType())))

    def number(self, value: float, type_: AnyFloat = f32) -> SSAValue:
        return self.emit(arith.ConstantOp(FloatAttr(value, type_)))

    def stage(self, title: str) -> None:
        self.emit(tile.StageOp(title))

    def view(self, value: SSAValue, map_: Builder, hint: str | None = None) -> SSAValue:
        result = make_transform(self.builder, value, map_.build(), hint)
        if isinstance(result.owner, Operation):
            result.owner.location = self.op.location
        return result

    def map(
        self,
        inputs: Sequence[SSAValue],
        element: Attribute,
        body: Callable[..., SSAValue],
        hint: str | None = None,
        layout: Layout | None = None,
    ) -> SSAValue:
        """An elementwise operation; `body` gets an emitter and the scalars.  The layout is that of the first input."""
        types = [v.type.element_type if isinstance(v.type, TileType) else v.type for v in inputs]
        block = Block(arg_types=types)
        inner = OpBuilder(InsertPoint.at_end(block))

        def emit(op: Operation) -> SSAValue:
            op.location = self.op.location
            inner.insert(op)
            return op.results[0]

        result = body(emit, *block.args)
        inner.insert(tile.TileYieldOp(result))
        layout = layout or tile.tile_of(inputs[0]).layout
        return self.emit(tile.TileMapOp(inputs, Region(block), TileType.of(element, layout)), hint)

    def fill(self, value: float, layout: Layout, hint: str) -> SSAValue:
        return self.emit(tile.TileFillOp(self.number(value), layout), hint)

    # ---- the program

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
        row = shapes.s.reduced(1)
        m = self.fill(NEGATIVE_INFINITY, row, "m")
        row_sum = self.fill(0.0, row, "l")
        acc = self.fill(0.0, shapes.o, "acc")
        self.stage("loop over key tiles")
        trips = self.keys // self.key_step
        m, row_sum, acc = self._loop(
            "it", self.tiles, trips, (m, row_sum, acc), lambda it, *carried: self._key_tile(it, *carried)
        )
        self._finish(m, row_sum, acc)
        Rewriter.erase_op(op)

    def _loop(
        self,
        name: str,
        count: SSAValue,
        bound: int,
        carried: Sequence[SSAValue],
        body: Callable[..., Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        zero, one = self.index(0), self.index(1)
        block = Block(arg_types=[IndexType(), *(v.type for v in carried)])
        block.args[0].name_hint = name
        for argument, value in zip(block.args[1:], carried, strict=True):
            argument.name_hint = value.name_hint
        loop = scf.ForOp(zero, count, one, list(carried), Region(block))
        loop.attributes["rock.trip_bound"] = IntegerAttr(bound, i32)
        self.emit(loop)
        outer, self.builder = self.builder, OpBuilder(InsertPoint.at_end(block))
        results = body(block.args[0], *block.args[1:])
        self.emit(scf.YieldOp(*results))
        self.builder = outer
        for result, value in zip(loop.results, carried, strict=True):
            result.name_hint = value.name_hint
        return loop.results

    def _workgroup(self) -> None:
        """(g, nb, vb) of this workgroup: the problem, the block of rows, the block of value channels."""
        shapes = self.layouts
        row_blocks = self.rows // shapes.columns
        value_blocks = self.value_channels // shapes.value_channels
        workgroup = self.emit(tile.WorkgroupIdOp(), "workgroup")

        def digit(value: SSAValue, size: int, last: bool, hint: str) -> tuple[SSAValue, SSAValue]:
            if size == 1:
                return value, self.index(0)
            if last:
                return value, value
            rest = self.emit(arith.DivUIOp(value, self.index(size)))
            return rest, self.emit(arith.RemUIOp(value, self.index(size)), hint)

        rest, self.vb = digit(
            workgroup, value_blocks, value_blocks > 1 and self.groups * row_blocks == 1, "value_block"
        )
        rest, self.nb = digit(rest, row_blocks, self.groups == 1, "row_block")
        self.g = rest if self.groups > 1 else self.index(0)
        if self.groups > 1:
            self.g.name_hint = self.g.name_hint or "kv_head"
        self.value_blocks = value_blocks
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

        def cut(
            value: SSAValue,
            names: Sequence[str],
            cuts: dict[str, tuple[tuple[str, ...], tuple[int, ...]]],
            order: Sequence[str],
            hint: str,
        ) -> SSAValue:
            """Unmerge dims into tiles and put them in order; a dim `w1` or `r1` of length 1 is added where asked."""
            first = Builder(names, shape_of(value))
            inner: list[str] = []
            for name in names:
                if name in cuts:
                    upper, lengths = cuts[name]
                    first = first.unmerge(upper, name, lengths)
                    inner += upper
                else:
                    first = first.pass_through(name)
                    inner.append(name)
            value = self.view(value, first, hint)
            second = Builder(inner, shape_of(value))
            for name in order:
                second = second.pass_through(name) if name in inner else second.add_dim(name, 1)
            return self.view(value, second, hint)

        key_cut = (("it", "w", "k"), keys)
        row_cut = (("nb", "q"), rows)
        self.qv = cut(
            op.queries,
            ("g", "D", "N"),
            {"D": (("dc", "d"), chunks), "N": row_cut},
            ("g", "nb", "dc", "w1", "d", "q"),
            "q_tiles",
        )
        self.kv = cut(
            op.keys,
            ("g", "D", "M"),
            {"D": (("dc", "d"), chunks), "M": key_cut},
            ("g", "it", "dc", "w", "k", "d"),
            "k_tiles",
        )
        self.vv = cut(
            op.values,
            ("g", "M", "D"),
            {"M": key_cut, "D": (("vb", "d"), values)},
            ("g", "it", "vb", "w", "d", "k"),
            "v_tiles",
        )
        assert op.out is not None
        self.ov = cut(
            op.out,
            ("g", "N", "D"),
            {"N": row_cut, "D": (("vb", "d"), values)},
            ("g", "nb", "vb", "w1", "d", "q"),
            "o_tiles",
        )
        self.lv = None
        if op.lse is not None:
            self.lv = cut(op.lse, ("g", "N"), {"N": row_cut}, ("g", "nb", "w1", "r1", "q"), "lse_tiles")
        self.extra = [
            cut(x, ("g", "M", "N"), {"M": key_cut, "N": row_cut}, ("g", "it", "nb", "w", "k", "q"), "bias_tiles")
            for x in op.preSoftmaxElemWiseInputs
        ]

    def _bounds(self) -> None:
        """The last key of the sequence, the bounds of each row, and how many key tiles any row needs."""
        op, shapes = self.op, self.layouts
        rules = _Arithmetic(self.emit)
        keys = op.valid_keys

        def per_problem(value: SSAValue | None, hint: str) -> SSAValue | None:
            return None if value is None else self.emit(memref.LoadOp.get(value, [self.g]), hint)

        index = per_problem(op.currentSeqLen, "kv_index")
        offset = per_problem(op.prefixOffset, "prefix_offset")
        last = masks.last_key(rules, index, keys)
        last.name_hint = "last_key"
        self.last = last if index is not None else None
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
                inner = _Arithmetic(emit)
                row = emit(arith.DivUIOp(n, inner.const(op.repeats))) if op.repeats > 1 else n
                return masks.upper_key(inner, last_, row, offset_)

            self.upper = self.map(inputs, i32, bound, "upper")
        elif self.keys != keys or index is not None:
            self.upper = self.emit(tile.TileFillOp(last, shapes.s.reduced(1)), "upper")
        lower = masks.lower_key(rules, last, op.window)
        self.first = lower
        if lower is not None:
            self.lower = self.emit(tile.TileFillOp(lower, shapes.s.reduced(1)), "lower")
        if block_last is last and index is None:
            self.tiles = self.index(self.keys // self.key_step)
        else:
            step = self.key_step
            up = self.emit(arith.AddiOp(block_last, rules.const(step)))
            count = self.emit(arith.DivSIOp(up, rules.const(step)))
            self.tiles = self.emit(arith.IndexCastOp(count, IndexType()), "tiles")

    def _load_q(self, chunk: SSAValue) -> SSAValue:
        return self.emit(tile.TileLoadOp(self.qv, [self.g, self.nb, chunk], self.layouts.q), "q_rows")

    def _alive(self, base: SSAValue, strides: Sequence[int], layout: Layout, hint: str) -> SSAValue | None:
        """Which elements of a tile of the cache belong to valid keys; None when all do."""
        if self.last is None:
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

    def _key_tile(self, it: SSAValue, m: SSAValue, row_sum: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
        shapes = self.layouts
        base = self.emit(arith.MuliOp(it, self.index(self.key_step)), "first_key")
        self.stage("S^T = K Q^T")
        k_alive = self._alive(base, (shapes.keys, 1, 0), shapes.k.reduced(2), "k")
        s = self.fill(0.0, shapes.s, "s")
        chunks = self.channels // shapes.channels

        def product(chunk: SSAValue, q: SSAValue, scores: SSAValue) -> SSAValue:
            k = self.emit(tile.TileLoadOp(self.kv, [self.g, it, chunk], shapes.k, k_alive), "k")
            return self.emit(tile.TileMmaOp(self.instruction.name, k, q, scores), "s")

        if chunks == 1:
            s = product(self.index(0), self.q, s)
        else:
            (s,) = self._loop("chunk", self.index(chunks), chunks, (s,), lambda c, x: (product(c, self._load_q(c), x),))
        self.stage("scores in units of log2, masked")
        extra = [self.emit(tile.TileLoadOp(x, [self.g, it, self.nb], shapes.s), "bias") for x in self.extra]
        x = self.map([s, *extra], f32, self._score, "x")
        if self.upper is not None:
            x = self.emit(tile.TileMaskOp(x, base, (shapes.keys, 1, 0), self.upper, self.lower), "x")
        self.stage("online softmax")
        top = self.emit(tile.TileReduceOp(x, "max", 1), "tile_max")
        new_m = self.map([m, top], f32, lambda emit, a, b: emit(arith.MaxnumfOp(a, b)), "m_new")
        ref = self._finite(new_m)
        p = self.map([x, ref], f32, _exp2_difference, "p")
        scale = self.map([m, ref], f32, _exp2_difference, "scale")
        total = self.emit(tile.TileReduceOp(p, "sum", 1), "tile_sum")
        new_l = self.map(
            [row_sum, scale, total], f32, lambda emit, a, b, c: emit(arith.AddfOp(emit(arith.MulfOp(a, b)), c)), "l_new"
        )
        acc = self.map([acc, scale], f32, _product, "acc")
        self.stage("O^T += V^T P^T")
        packed = self._narrowed(p, self.element, "p_packed")
        v_alive = self._alive(base, (shapes.keys, 0, 1), shapes.v_rows.reduced(1), "v")
        v = self.emit(tile.TileLoadOp(self.vv, [self.g, it, self.vb], shapes.v_rows, v_alive), "v_rows")
        v = self.emit(tile.TileConvertLayoutOp(v, shapes.v), "v")
        acc = self.emit(tile.TileMmaOp(self.instruction.name, v, packed, acc), "acc")
        return new_m, new_l, acc

    def _score(self, emit: Callable[..., SSAValue], score: SSAValue, *extra: SSAValue) -> SSAValue:
        """The score region, then the change of base."""
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
        if score.type != f32:
            score = emit(arith.ExtFOp(score, f32))
        return emit(arith.MulfOp(score, emit(arith.ConstantOp(FloatAttr(LOG2_E, f32)))))

    def _narrowed(self, value: SSAValue, element: Attribute, hint: str) -> SSAValue:
        """A tile of f32 rounded once to `element`."""
        if element == f32:
            return value
        assert isinstance(element, AnyFloat)
        return self.map([value], element, lambda emit, a: emit(arith.TruncFOp(a, element)), hint)

    def _finite(self, m: SSAValue) -> SSAValue:
        """The running maximum, 0 for a row that has no key yet: its scores are all minus infinity."""

        def body(emit: Callable[..., SSAValue], a: SSAValue) -> SSAValue:
            empty = emit(arith.CmpfOp(a, emit(arith.ConstantOp(FloatAttr(NEGATIVE_INFINITY, f32))), "oeq"))
            return emit(arith.SelectOp(empty, emit(arith.ConstantOp(FloatAttr(0.0, f32))), a))

        return self.map([m], f32, body, "m_ref")

    # ---- the end

    def _finish(self, m: SSAValue, row_sum: SSAValue, acc: SSAValue) -> None:
        shapes = self.layouts
        acc = self.emit(tile.TileConvertLayoutOp(acc, shapes.o_rows), "acc_rows")
        if shapes.key_waves > 1:
            m, row_sum, acc = self._join(m, row_sum, acc)
        self.stage("O = O^T / l")

        def inverse(emit: Callable[..., SSAValue], a: SSAValue) -> SSAValue:
            zero = emit(arith.ConstantOp(FloatAttr(0.0, f32)))
            one = emit(arith.ConstantOp(FloatAttr(1.0, f32)))
            empty = emit(arith.CmpfOp(a, zero, "oeq"))
            return emit(arith.SelectOp(empty, zero, emit(arith.DivfOp(one, a))))

        out = self.map([acc, self.map([row_sum], f32, inverse, "l_inv")], f32, _product, "o")
        out = self._narrowed(out, self.element, "o_packed")
        self.emit(tile.TileStoreOp(out, self.ov, [self.g, self.nb, self.vb]))
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
        lse = self._narrowed(lse, self.op.lse.type.element_type, "lse")
        if self.value_blocks == 1:
            self.emit(tile.TileStoreOp(lse, self.lv, [self.g, self.nb]))
            return
        first = self.emit(
            arith.CmpiOp(
                self.emit(arith.IndexCastOp(self.vb, i32)), self.emit(arith.ConstantOp(IntegerAttr(0, i32))), "eq"
            )
        )
        block = Block([store := tile.TileStoreOp(lse, self.lv, [self.g, self.nb]), scf.YieldOp()])
        store.location = self.op.location
        self.emit(scf.IfOp(first, [], Region(block), Region(Block([scf.YieldOp()]))))

    def _join(self, m: SSAValue, row_sum: SSAValue, acc: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
        """Add up the key waves through LDS: maximum of the row maxima, then sums of rescaled parts."""
        shapes = self.layouts
        waves, columns, channels = shapes.key_waves, shapes.columns, shapes.value_channels
        self.stage("join the key waves: row maxima")

        def buffer(shape: Sequence[int], hint: str) -> SSAValue:
            return self.emit(tile.LdsAllocOp(MemRefType(f32, shape, memory_space=IntegerAttr(LDS_SPACE, i32))), hint)

        def rows_of(value: SSAValue) -> SSAValue:
            return self.view(
                value, Builder(("w", "q"), shape_of(value)).pass_through("w").add_dim("r1", 1).pass_through("q")
            )

        def exchange(value: SSAValue, hint: str) -> SSAValue:
            place = rows_of(buffer((waves, columns), f"lds_{hint}"))
            self.emit(tile.TileStoreOp(value, place, []))
            return place

        tops = self.emit(tile.TileLoadOp(exchange(m, "m"), [], shapes.row_parts), "m_parts")
        top = self.emit(tile.TileReduceOp(tops, "max", 0), "m_all")
        ref = self._finite(top)
        scale = self.map([m, ref], f32, _exp2_difference, "scale")
        self.stage("join the key waves: sums")
        row_sum = self.map([row_sum, scale], f32, _product, "l_part")
        acc = self.map([acc, scale], f32, _product, "acc_part")
        place = buffer((waves, columns, channels), "lds_acc")
        place = self.view(place, Builder(("w", "q", "d"), shape_of(place)).pass_through("w", "d", "q"))
        sums = exchange(row_sum, "l")
        self.emit(tile.TileStoreOp(acc, place, []))
        total = self.emit(
            tile.TileReduceOp(self.emit(tile.TileLoadOp(sums, [], shapes.row_parts), "l_parts"), "sum", 0), "l_all"
        )
        parts = self.emit(tile.TileLoadOp(place, [], shapes.o_parts), "acc_parts")
        return top, total, self.emit(tile.TileReduceOp(parts, "sum", 0), "acc_all")
