"""detect-flash-decoding: attention whose heads are parts of the keys of one head becomes attention with `splitKV`.

    #twice = #rock.transform_map<affine_map<(d0, d1, d2, d3) -> (d0, 0, d2, d3)> by
      [<PassThrough ["h"] at [0] -> ["h"] at [0]>, <Broadcast{1} ["t"] at [1] -> ["t"] at [1]>,
       <PassThrough ["s"] at [2] -> ["s"] at [2]>, <PassThrough ["d"] at [3] -> ["d"] at [3]>]
      bounds = [3, 2, 1, 8] -> [3, 1, 1, 8]>
    #heads = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0 floordiv 2, d0 mod 2, d1, d2)> by
      [<Merge{3, 2} ["g"] at [0] -> ["h", "t"] at [0, 1]>, <PassThrough ["s"] at [1] -> ["s"] at [2]>,
       <PassThrough ["d"] at [2] -> ["d"] at [3]>] bounds = [6, 1, 8] -> [3, 2, 1, 8]>
    func.func @f(%q: memref<3x1x1x8xf16>, %k: memref<6x4x8xf16>, %v: memref<6x4x8xf16>, %out: memref<6x1x8xf16>,
                 %lse: memref<6x1xf32>) {
      %repeated = rock.transform %q by #twice : memref<3x1x1x8xf16> to memref<3x2x1x8xf16>
      %queries = rock.transform %repeated by #heads : memref<3x2x1x8xf16> to memref<6x1x8xf16>
      rock.attention{
        qk = %queries * tr %k : memref<6x1x8xf16>, memref<6x4x8xf16>
        lse = %lse : memref<6x1xf32>
        %out = softmax(qk) * %v : memref<6x4x8xf16> -> memref<6x1x8xf16>
      } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, splitKV = 1 : i32}
      func.return
    }

becomes

    #twice = #rock.transform_map<affine_map<(d0, d1, d2, d3) -> (d0, 0, d2, d3)> by
      [<PassThrough ["h"] at [0] -> ["h"] at [0]>, <Broadcast{1} ["t"] at [1] -> ["t"] at [1]>,
       <PassThrough ["s"] at [2] -> ["s"] at [2]>, <PassThrough ["d"] at [3] -> ["d"] at [3]>]
      bounds = [3, 2, 1, 8] -> [3, 1, 1, 8]>
    #once = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0, 0, d1, d2)> by
      [<PassThrough ["h"] at [0] -> ["h"] at [0]>, <ConstDim{0, 2} [] at [] -> ["part"] at [1]>,
       <PassThrough ["d1"] at [1] -> ["d1"] at [2]>, <PassThrough ["d2"] at [2] -> ["d2"] at [3]>]
      bounds = [3, 1, 8] -> [3, 2, 1, 8]>
    #parts = #rock.transform_map<affine_map<(d0, d1, d2, d3) -> (d0 * 2 + d1, d2, d3)> by
      [<Unmerge{3, 2} ["h", "part"] at [0, 1] -> ["g"] at [0]>, <PassThrough ["d1"] at [2] -> ["d1"] at [1]>,
       <PassThrough ["d2"] at [3] -> ["d2"] at [2]>] bounds = [3, 2, 4, 8] -> [6, 4, 8]>
    #whole = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0, d1 floordiv 4, d1 mod 4, d2)> by
      [<PassThrough ["h"] at [0] -> ["h"] at [0]>, <Merge{2, 4} ["key"] at [1] -> ["part", "d1"] at [1, 2]>,
       <PassThrough ["d2"] at [2] -> ["d2"] at [3]>] bounds = [3, 8, 8] -> [3, 2, 4, 8]>
    func.func @f(%q: memref<3x1x1x8xf16>, %k: memref<6x4x8xf16>, %v: memref<6x4x8xf16>, %out: memref<6x1x8xf16>,
                 %lse: memref<6x1xf32>) {
      %queries = rock.transform %q by #twice : memref<3x1x1x8xf16> to memref<3x2x1x8xf16>
      %queries_1 = rock.transform %queries by #once : memref<3x2x1x8xf16> to memref<3x1x8xf16>
      %k_1 = rock.transform %k by #parts : memref<6x4x8xf16> to memref<3x2x4x8xf16>
      %k_2 = rock.transform %k_1 by #whole : memref<3x2x4x8xf16> to memref<3x8x8xf16>
      %v_1 = rock.transform %v by #parts : memref<6x4x8xf16> to memref<3x2x4x8xf16>
      %v_2 = rock.transform %v_1 by #whole : memref<3x2x4x8xf16> to memref<3x8x8xf16>
      rock.attention{
        qk = %queries_1 * tr %k_2 : memref<3x1x8xf16>, memref<3x8x8xf16>
        lse = %lse : memref<6x1xf32>
        %out = softmax(qk) * %v_2 : memref<3x8x8xf16> -> memref<6x1x8xf16>
      } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, preSoftmaxHasSplitKVTransforms = true, splitKV = 2 : i32}
      func.return
    }

Query rows that are the same for each of the S parts are taken once, and K and V are seen whole: S times as many keys.
The results keep their shape, since an attention with `splitKV = S` gives S partial results for each head.

Plain cases are detected: S is a power of two, the parts are the innermost factor of the heads, Q repeats and both K
and V go on from part to part, in memory or in pages, and an LSE is written. With a mask nothing is changed, since masks
count the keys from the start of each part before, and from the start of all keys after; with grouped heads nothing is
changed either, since the parts would be what is grouped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i1, i32
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.ops import Shaped
from xpaged.dialects.rock.views import chain_of, erase_unused_views, make_chain, memory_position, step_of
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.levels import Level
from xpaged.ir.locations import copy_location
from xpaged.ir.pass_base import LevelPass
from xpaged.ir.transform_map import Builder as MapBuilder
from xpaged.ir.transform_map import simplify


@dataclass(frozen=True)
class DetectFlashDecodingPass(LevelPass):
    """Set `splitKV` where the heads are parts of keys (see the module's text); works on tensors and on memrefs."""

    name = "detect-flash-decoding"
    takes: ClassVar[Level | None] = None
    leaves: ClassVar[Level | None] = None

    def run(self, ctx: Context, module: ModuleOp) -> None:
        for op in list(module.walk()):
            if isinstance(op, AttentionOp) and (split := _split_of(op)) > 1:
                _rewrite(op, split)


def _split_of(op: AttentionOp) -> int:
    """The largest power of two of parts that the views show; 1 when there is none."""
    masks = (op.causal, op.currentSeqLen, op.prefixOffset, op.slidingWindowLookBack)
    if op.split_kv > 1 or not op.has_lse or op.heads_q != op.heads_kv or any(mask is not None for mask in masks):
        return 1
    if any(_has_padding(view) for view in (op.queries, op.keys, op.values)):
        return 1
    sizes = op.sizes
    split = sizes.kv_groups & -sizes.kv_groups
    while split > 1 and not (
        not _position(op.queries, split).depends_on("part")
        and _goes_on(op.keys, split, _key_dim(op, "keys"))
        and _goes_on(op.values, split, _key_dim(op, "values"))
    ):
        split //= 2
    return split


def _has_padding(view: SSAValue) -> bool:
    return any(t.kind in ("Pad", "Embed") for m in chain_of(view).maps for t in m.transforms)


def _key_dim(op: AttentionOp, name: str) -> int:
    """The dimension of the keys in the view `keys` or `values`."""
    if name == "keys":
        return 1 if op.kTransposed is not None else 2
    return 2 if op.vTransposed is not None else 1


def _shape(view: SSAValue) -> tuple[int, ...]:
    assert isinstance(view.type, Shaped)
    return view.type.get_shape()


def _position(view: SSAValue, split: int) -> IndexExpr:
    """The position in memory of an element of head `split * h + part`, at coordinates `d1` and `d2`."""
    heads, *rest = _shape(view)
    head = IndexExpr.var("h", 0, heads // split - 1) * split + IndexExpr.var("part", 0, split - 1)
    return memory_position(view, [head, *(IndexExpr.var(f"d{i}", 0, n - 1) for i, n in enumerate(rest, 1))])[0]


def _goes_on(view: SSAValue, split: int, key_dim: int) -> bool:
    """Whether the keys of each part lie behind those of the part before, at the same distance as inside a part."""
    position, keys = _position(view, split), _shape(view)[key_dim]
    between, inside = step_of(position, "part"), step_of(position, f"d{key_dim}")
    return between is not None and inside is not None and (keys == 1 or between == keys * inside)


def _rewrite(op: AttentionOp, split: int) -> None:
    operands: dict[str, SSAValue] = {
        "queries": _view(op, op.queries, split, None),
        "keys": _view(op, op.keys, split, _key_dim(op, "keys")),
        "values": _view(op, op.values, split, _key_dim(op, "values")),
    }
    heads = math.gcd(op.heads_q, op.sizes.groups // split)  # heads that counted the parts do not any more
    flags = {
        "splitKV": IntegerAttr(split, i32),
        "numHeadsQ": IntegerAttr(heads, i32),
        "numHeadsKV": IntegerAttr(heads, i32),
        "preSoftmaxHasSplitKVTransforms": IntegerAttr(1, i1),
    }
    new = op.rebuilt(operands, flags)
    copy_location(op, new)
    before: list[SSAValue] = [op.queries, op.keys, op.values]
    Rewriter.replace_op(op, new)
    for view in before:
        erase_unused_views(view)


def _view(op: AttentionOp, view: SSAValue, split: int, key_dim: int | None) -> SSAValue:
    """The first part of each head (`key_dim` None), or all parts one after the other along `key_dim`."""
    heads, first, second = _shape(view)
    parts = MapBuilder(("g", "d1", "d2"), (heads, first, second))
    parts = parts.unmerge(("h", "part"), "g", (heads // split, split)).pass_through("d1", "d2").build()
    joined = MapBuilder(("h", "part", "d1", "d2"), parts.upper_bounds).pass_through("h")
    if key_dim is None:
        joined = joined.const_dim("part", 0).pass_through("d1", "d2")
    else:
        for dim in (1, 2):
            joined = joined.merge("key", ("part", f"d{dim}")) if dim == key_dim else joined.pass_through(f"d{dim}")
    chain = chain_of(view)
    maps = simplify([joined.build(), parts, *chain.maps])
    return make_chain(Builder(InsertPoint.before(op)), chain.root, maps, view.name_hint)
