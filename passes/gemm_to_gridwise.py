"""gemm-to-gridwise: attention as the grid of workgroups sees it.

    func.func @f(%q: memref<2x3x16xf16>, %kt: memref<1x40x1xi64>, %vt: memref<1x40x1xi64>, %out: memref<2x3x16xf16>)
        attributes {rock.kernel, arch = "gfx942"} {
      %keys = rock.deref %kt : memref<1x40x1xi64> -> memref<1x40x16xf16>
      %values = rock.deref %vt : memref<1x40x1xi64> -> memref<1x40x16xf16>
      rock.attention{
        qk = %q * tr %keys : memref<2x3x16xf16>, memref<1x40x16xf16>
        keyAddresses = (%keys : memref<1x40x16xf16>)
        valueAddresses = (%values : memref<1x40x16xf16>)
        %out = softmax(qk) * %values : memref<1x40x16xf16> -> memref<2x3x16xf16>
      } {numHeadsKV = 1 : i32, numHeadsQ = 2 : i32,
         params0 = #rock.attention_params<keys_per_tile = 16, query_waves = 1, key_waves = 4, channel_chunk = 16,
                                          value_channels = 16>}
      func.return
    }

becomes, in part,

    <Unmerge{1, 2} ["g", "r"] at [0, 1] -> ["head"] at [0]>
    <Merge{3, 2} ["n"] at [2] -> ["i", "r"] at [2, 1]>
    <Pad{0, 10} ["n"] at [2] -> ["n"] at [2]>
    <Pad{0, 24} ["key"] at [2] -> ["key"] at [2]>
    rock.grid_size = 1 : i32, rock.block_size = 256 : i32
      %keys = rock.deref %kt : memref<1x40x1xi64> -> memref<1x40x16xf16>
      %values = rock.deref %vt : memref<1x40x1xi64> -> memref<1x40x16xf16>
      %q_1 = rock.transform %q by #transform_map : memref<2x3x16xf16> to memref<1x2x3x16xf16>
      %q_2 = rock.transform %q_1 by #transform_map1 : memref<1x2x3x16xf16> to memref<1x16x6xf16>
      %q_3 = rock.transform %q_2 by #transform_map2 : memref<1x16x6xf16> to memref<1x16x16xf16>
      %keys_1 = rock.transform %keys by #transform_map3 : memref<1x40x16xf16> to memref<1x16x40xf16>
      %k = rock.transform %keys_1 by #transform_map4 : memref<1x16x40xf16> to memref<1x16x64xf16>
      rock.gridwise_attention_accel(%q_3, %k, %v, %o, %keys, %values) preSoftmaxOps = {}
        {blockSize = 256 : i32, gridSize = 1 : i32, numRepeatsGQA = 2 : i32,
        prePadG0M = 40 : i32, prePadG0N = 6 : i32

Query heads that share a KV head become rows of one problem (row `n` is query `n / R` of head `n % R`) where their masks
are the same, every extent is padded to whole tiles, and the launch is fixed. Everything is done by views; the page
addresses pass through. The operands of an elementwise kernel (a `linalg.generic`, or a `memref.copy`) become views of
one dimension in the order of the output in memory, padded to whole workgroups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.builder import Builder as OpBuilder
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xpaged.arch import arch_of_function
from xpaged.dialects.rock.attention import AttentionOp, GridwiseAttentionAccelOp
from xpaged.dialects.rock.merge import MergeAttentionOp
from xpaged.dialects.rock.views import chain_of, make_transform
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.locations import copy_location
from xpaged.ir.pass_base import LevelPass
from xpaged.ir.transform_map import Builder
from xpaged.lowering.elementwise_tiles import is_elementwise, to_gridwise
from xpaged.lowering.geometry import (
    Geometry,
    MergeTile,
    geometry_of,
    launch_size,
    round_up,
    shape_of,
    workgroup_rows,
)
from xpaged.lowering.kernel import DESCRIPTION, GRID_SIZE, MAX_GRID, kernels_of, set_launch
from xpaged.lowering.staged_layouts import STAGED_ROWS
from xpaged.lowering.work import WORK, Work


@dataclass(frozen=True)
class GemmToGridwisePass(LevelPass):
    """Turn every rock.attention into rock.gridwise_attention_accel (see the module's text)."""

    name = "gemm-to-gridwise"
    takes: ClassVar[Level | None] = Level.ROCK_MEMREF
    leaves: ClassVar[Level | None] = Level.GRIDWISE

    def run(self, ctx: Context, module: ModuleOp) -> None:
        lowered: set[Operation | None] = set()
        for op in list(module.walk()):
            if isinstance(op, AttentionOp) or is_elementwise(op):
                if op.parent_op() in lowered:
                    raise XpagedError(
                        f"a kernel does one thing, for which the launch is made, and this is a second '{op.name}'",
                        at=op,
                        fix="run outline-kernels first",
                    )
                lowered.add(op.parent_op())
                _lower(op) if isinstance(op, AttentionOp) else to_gridwise(op)
            elif isinstance(op, MergeAttentionOp):
                _launch_merge(op)
        for function in kernels_of(module):
            if GRID_SIZE not in function.attributes:
                raise XpagedError(
                    f"the kernel '{function.sym_name.data}' computes nothing",
                    at=function,
                    expected="an attention, or operations element by element",
                )


def _lower(op: AttentionOp) -> None:
    function = op.parent_op()
    assert isinstance(function, func.FuncOp)
    if op.params0 is None:
        raise XpagedError("rock.attention has no tile sizes", at=op, fix="run affix-tuning-params first")
    outputs = {chain_of(x).root for x in (op.out, op.lse) if x is not None}
    inputs = (op.queries, op.keys, op.values, *op.preSoftmaxElemWiseInputs, op.currentSeqLen, op.prefixOffset)
    if any(chain_of(x).root in outputs for x in inputs if x is not None):
        raise XpagedError("attention reads a buffer that it writes", at=op, fix="give it an output of its own")
    sizes = geometry_of(op)
    params = op.params0.values()
    arch = arch_of_function(function)
    columns = workgroup_rows(params)
    key_step = params["key_waves"] * params["keys_per_tile"]
    n, m = round_up(sizes.rows, columns), round_up(sizes.keys, key_step)
    d = round_up(sizes.channels, params["channel_chunk"])
    dv = round_up(sizes.value_channels, params["value_channels"])
    views = _Views(op, sizes)
    grid, block = launch_size(params, arch, problems=sizes.problems * op.split_kv, rows=n, value_channels=dv)
    if grid > MAX_GRID:
        raise XpagedError(
            "the problem needs more workgroups than one launch can have",
            at=op,
            found=grid,
            expected=f"at most {MAX_GRID}",
        )
    assert op.out is not None
    new = GridwiseAttentionAccelOp(
        views.rows(op.queries, op.qTransposed is not None, ("d", "n"), (d, n), "q"),
        views.cache(op.keys, op.kTransposed is None, "key", ("d", "key"), (d, m), "k"),
        views.cache(op.values, op.vTransposed is not None, "key", ("key", "d"), (m, dv), "v"),
        views.rows(op.out, op.oTransposed is not None, ("n", "d"), (n, dv), "o", op.split_kv),
        lse=None if op.lse is None else views.vector(op.lse, n, op.split_kv),
        preSoftmaxElemWiseInputs=[views.scores(x, m, n) for x in op.preSoftmaxElemWiseInputs],
        currentSeqLen=None if op.currentSeqLen is None else views.per_head(op.currentSeqLen),
        prefixOffset=None if op.prefixOffset is None else views.per_head(op.prefixOffset),
        keyAddresses=op.keyAddresses,
        valueAddresses=op.valueAddresses,
        params0=op.params0,
        blockSize=block,
        gridSize=grid,
        numRepeatsGQA=sizes.fold,
        prePadG0M=sizes.keys if m != sizes.keys else None,
        prePadG0N=sizes.rows if n != sizes.rows else None,
        causal=op.causal is not None,
        splitKV=op.split_kv,
        balancedSplit=op.balancedSplit is not None,
        slidingWindowLookBack=op.window,
        softmaxType=op.softmax_type,
        preSoftmaxBody=op.preSoftmaxBody.clone(),
    )
    for name in ("kvIndexClamp", "prefixOffsetClamp"):
        if name in op.properties:
            new.properties[name] = op.properties[name]
    copy_location(op, new)
    Rewriter.replace_op(op, new)
    set_launch(function, grid, block)
    function.attributes[DESCRIPTION] = StringAttr(_describe(op, sizes, new))
    function.attributes[WORK] = Work.of(op, sizes, params).attribute()


def _launch_merge(op: MergeAttentionOp) -> None:
    """Fix the launch of the kernel that merges the results over parts of the keys."""
    function = op.parent_op()
    assert isinstance(function, func.FuncOp)
    tile = MergeTile.of(shape_of(op.out), arch_of_function(function))
    set_launch(function, tile.grid, tile.lanes)
    groups, rows, channels = shape_of(op.out)
    function.attributes[DESCRIPTION] = StringAttr(
        f"Merges attention over {op.split_kv} parts of the keys: {groups} query heads (all batch entries), "
        f"{rows} query rows, {channels} channels.\nA workgroup: {tile.rows} rows and {tile.channels} channels."
    )


def _describe(op: AttentionOp, sizes: Geometry, new: GridwiseAttentionAccelOp) -> str:
    """What the kernel computes, for the head of its text."""
    heads = sizes.groups * sizes.ratio
    types = str(sizes.element) if sizes.element == sizes.value_element else f"{sizes.element} and {sizes.value_element}"
    lines = [
        f"Attention of {heads} query heads and {sizes.groups} KV heads (all batch entries), {sizes.queries} query "
        f"rows, {sizes.keys} keys, {sizes.channels} channels of Q and K, {sizes.value_channels} of V, {types}."
    ]
    if op.softmax_type != f32:
        lines.append(f"Scores are rounded to {op.softmax_type} before the masks and the softmax.")
    masks = [
        text
        for present, text in (
            (op.causal is not None and op.prefixOffset is None, "causal (key <= row)"),
            (op.causal is not None and op.prefixOffset is not None, "causal (key <= row + offset)"),
            (op.currentSeqLen is not None, "keys up to the KV index (inclusive)"),
            (op.window is not None, f"the last {op.window or 0} keys before the KV index and that one"),
        )
        if present
    ]
    if masks:
        lines.append("Masks: " + ", ".join(masks) + ".")
    if op.keyAddresses is not None and op.valueAddresses is not None:
        pages = [shape_of(x) for x in (op.keyAddresses, op.valueAddresses)]
        lines.append(
            f"K and V lie in pages: {pages[0][1]} of {pages[0][2]} elements (K) and {pages[1][1]} of {pages[1][2]} (V) "
            "a batch entry, anywhere in memory."
        )
    if op.split_kv > 1:
        shares = "of the keys that are not masked" if op.balancedSplit is not None else "of all keys"
        lines.append(
            f"The keys are split into {op.split_kv} parts {shares}, each with workgroups and a result of its own."
        )
    params = new.params0
    assert params is not None
    values = params.values()
    lines.append(
        f"A workgroup: {workgroup_rows(values)} rows, {values['rows_per_wave']} a wave; "
        f"{values['keys_per_tile']} keys at a time"
        + (", which all waves share through LDS" if values["rows_per_wave"] == STAGED_ROWS else "")
        + (f" in each of {values['key_waves']} waves, joined at the end." if values["key_waves"] > 1 else ".")
    )
    return "\n".join(lines)


class _Views:
    """Builds the gridwise views of the operands in front of an operation."""

    def __init__(self, op: AttentionOp, sizes: Geometry) -> None:
        self.builder = OpBuilder(InsertPoint.before(op))
        self.sizes = sizes
        self.op = op

    def _apply(self, value: SSAValue, builder: Builder, hint: str | None = None) -> SSAValue:
        view = make_transform(self.builder, value, builder.build(), hint)
        copy_location(self.op, view.owner) if view is not value else None  # pyright: ignore
        return view

    def _problems(self, value: SSAValue, names: tuple[str, ...], parts: int = 1) -> SSAValue:
        """Split the query heads into problems and folded heads: `[g, names...]` -> `[g, r, names...]`; with a result
        for each of several parts of the keys, `[g * parts, names...]` -> `[g, r, parts, names...]` and the parts go
        along with the problems: `[g * parts, r, names...]`."""
        heads = Builder(("head", *names), shape_of(value))
        problems, fold = self.sizes.problems, self.sizes.fold
        if parts == 1:
            return self._apply(value, heads.unmerge(("g", "r"), "head", (problems, fold)).pass_through(*names))
        value = self._apply(
            value, heads.unmerge(("g", "r", "part"), "head", (problems, fold, parts)).pass_through(*names)
        )
        merged = Builder(("g", "r", "part", *names), shape_of(value)).merge("gp", ("g", "part"))
        return self._apply(value, merged.pass_through("r", *names))

    def rows(
        self,
        value: SSAValue,
        transposed: bool,
        order: tuple[str, str],
        padded: tuple[int, int],
        hint: str,
        parts: int = 1,
    ) -> SSAValue:
        """Q or the output, `[heads, queries, channels]`, as `[g, order...]` with folded and padded rows."""
        names = ("d", "i") if transposed else ("i", "d")
        value = self._problems(value, names, parts)
        merged = Builder(("g", "r", *names), shape_of(value)).pass_through("g")
        for name in order:
            merged = merged.merge("n", ("i", "r")) if name == "n" else merged.pass_through("d")
        return self._pad(self._apply(value, merged), order, padded, hint)

    def cache(
        self, value: SSAValue, swapped: bool, key: str, order: tuple[str, str], padded: tuple[int, int], hint: str
    ) -> SSAValue:
        """K or V, `[KV heads, ...]`, as `[g, order...]`; `swapped` when the channels stand before the keys."""
        names = ("d", key) if swapped else (key, "d")
        if self.sizes.problems != self.sizes.groups:
            repeats = self.sizes.ratio
            value = self._apply(
                value,
                Builder(("kv", *names), shape_of(value)).pass_through("kv").add_dim("r", repeats).pass_through(*names),
            )
            value = self._apply(
                value, Builder(("kv", "r", *names), shape_of(value)).merge("g", ("kv", "r")).pass_through(*names)
            )
        if names != order:
            value = self._apply(value, Builder(("g", *names), shape_of(value)).pass_through("g", *order))
        return self._pad(value, order, padded, hint, again="d" if hint == "v" else None)

    def _pad(
        self,
        value: SSAValue,
        names: tuple[str, ...],
        padded: tuple[int, ...],
        hint: str | None,
        again: str | None = None,
    ) -> SSAValue:
        """Pad the dims after the first.  Along `again` padding holds the same elements again, so that a load needs no
        mask: channels of V end in channels of the output that nobody stores."""
        shape = shape_of(value)
        pad = Builder(("g", *names), shape).pass_through("g")
        for name, have, want in zip(names, shape[1:], padded, strict=True):
            if have == want:
                pad = pad.pass_through(name)
            else:
                pad = pad.broadcast(name, want) if name == again else pad.pad(name, 0, want - have)
        return self._apply(value, pad, hint)

    def vector(self, value: SSAValue, n: int, parts: int) -> SSAValue:
        """The LSE, `[heads, queries]`, as `[g, n]`."""
        value = self._problems(value, ("i",), parts)
        merged = Builder(("g", "r", "i"), shape_of(value)).pass_through("g").merge("n", ("i", "r"))
        return self._pad(self._apply(value, merged), ("n",), (n,), "lse")

    def scores(self, value: SSAValue, m: int, n: int) -> SSAValue:
        """An extra score input, `[heads, queries, keys]`, as `[g, key, n]`."""
        if self.op.has_split_scores:
            heads = Builder(("hp", "i", "key"), shape_of(value))
            count = (shape_of(value)[0] // self.op.split_kv, self.op.split_kv)
            value = self._apply(value, heads.unmerge(("head", "part"), "hp", count).pass_through("i", "key"))
            whole = Builder(("head", "part", "i", "key"), shape_of(value)).pass_through("head", "i")
            value = self._apply(value, whole.merge("keys", ("part", "key")))
        value = self._problems(value, ("i", "key"))
        merged = Builder(("g", "r", "i", "key"), shape_of(value)).pass_through("g", "key").merge("n", ("i", "r"))
        return self._pad(self._apply(value, merged), ("key", "n"), (m, n), None)

    def per_head(self, value: SSAValue) -> SSAValue:
        """A value per query head as one per problem: folded heads agree, so the first one speaks for all."""
        value = self._problems(value, ())
        return self._apply(value, Builder(("g", "r"), shape_of(value)).pass_through("g").const_dim("r", 0))
