"""split-kv: attention over parts of the keys, each part in workgroups of its own, and the merge of what they give.

    func.func @f(%q: memref<2x1x8xf16>, %kt: memref<1x4x1xi64>, %vt: memref<1x4x1xi64>, %last: memref<2xi32>,
                 %lse: memref<2x1xf32>, %out: memref<2x1x8xf16>) attributes {rock.kernel, arch = "gfx942"} {
      %keys = rock.deref %kt : memref<1x4x1xi64> -> memref<1x4x8xf16>
      %values = rock.deref %vt : memref<1x4x1xi64> -> memref<1x4x8xf16>
      rock.attention{
        qk = %q * tr %keys : memref<2x1x8xf16>, memref<1x4x8xf16>
        keyAddresses = (%keys : memref<1x4x8xf16>)
        valueAddresses = (%values : memref<1x4x8xf16>)
        lastValidKVIndex = (%last : memref<2xi32>)
        lse = %lse : memref<2x1xf32>
        %out = softmax(qk) * %values : memref<1x4x8xf16> -> memref<2x1x8xf16>
      } {numHeadsKV = 1 : i32, numHeadsQ = 2 : i32}
      func.return
    }

becomes

    func.func @f(%q: memref<2x1x8xf16>, %kt: memref<1x4x1xi64>, %vt: memref<1x4x1xi64>, %last: memref<2xi32>,
                 %lse: memref<2x1xf32>, %out: memref<2x1x8xf16>) attributes {rock.kernel, arch = "gfx942"} {
      %keys = rock.deref %kt : memref<1x4x1xi64> -> memref<1x4x8xf16>
      %values = rock.deref %vt : memref<1x4x1xi64> -> memref<1x4x8xf16>
      %parts = memref.alloc() : memref<6x1x8xf32>
      %lses = memref.alloc() : memref<6x1xf32>
      rock.attention{
        qk = %q * tr %keys : memref<2x1x8xf16>, memref<1x4x8xf16>
        keyAddresses = (%keys : memref<1x4x8xf16>)
        valueAddresses = (%values : memref<1x4x8xf16>)
        lastValidKVIndex = (%last : memref<2xi32>)
        lse = %lses : memref<6x1xf32>
        %parts = softmax(qk) * %values : memref<1x4x8xf16> -> memref<6x1x8xf32>
      } {balancedSplit, numHeadsKV = 1 : i32, numHeadsQ = 2 : i32, splitKV = 3 : i32}
      rock.merge_attention %parts, %lses into %out, %lse : memref<6x1x8xf32>, memref<6x1xf32> into memref<2x1x8xf16>,
        memref<2x1xf32>
      func.return
    }

That is `split-kv{parts=3}`; without the option (or with `auto`) the sizes and the architecture decide, and a kernel
that fills the device by itself is left alone. The results of the parts stay in f32, so the whole is as exact as without
a split. An attention that is split already is left as it is: its user wants the results of the parts.
"""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, UnitAttr, f32, i32
from xdsl.dialects.func import FuncOp
from xdsl.dialects.memref import AllocOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xpaged.arch import arch_of_function
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.merge import MergeAttentionOp
from xpaged.dialects.rock.views import make_transform
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.locations import copy_location
from xpaged.ir.pass_base import LevelPass
from xpaged.ir.transform_map import Builder as MapBuilder
from xpaged.lowering.geometry import choose_split, geometry_of, shape_of

MOST_PARTS = 1024


@dataclass(frozen=True)
class SplitKvPass(LevelPass):
    """Split the keys of every rock.attention over workgroups (see the module's text)."""

    name = "split-kv"
    takes: ClassVar[Level | None] = Level.ROCK_MEMREF
    leaves: ClassVar[Level | None] = Level.ROCK_MEMREF

    parts: int | str = "auto"
    """Parts of the keys, or `auto`."""

    def run(self, ctx: Context, module: ModuleOp) -> None:
        for op in list(module.walk()):
            if isinstance(op, AttentionOp) and op.split_kv == 1:
                parts = self._parts(op)
                if parts > 1:
                    _split(op, parts)

    def _parts(self, op: AttentionOp) -> int:
        if self.parts == "auto":
            function = op.parent_op()
            assert isinstance(function, FuncOp)
            return choose_split(geometry_of(op), arch_of_function(function))
        if not isinstance(self.parts, int) or not 1 <= self.parts <= MOST_PARTS:
            raise XpagedError(
                "this is no number of parts to split the keys into",
                at=op,
                found=self.parts,
                expected=f"1 to {MOST_PARTS}, or auto",
            )
        return self.parts


def _split(op: AttentionOp, parts: int) -> None:
    sizes = op.sizes
    assert op.out is not None
    b = Builder(InsertPoint.before(op))
    shape = (sizes.groups * parts, sizes.seq_q, sizes.dim_v)
    pieces, lses = (b.insert(AllocOp([], [], MemRefType(f32, s))) for s in (shape, shape[:2]))
    pieces.memref.name_hint, lses.memref.name_hint = "parts", "lses"
    new = op.rebuilt(
        {"out": pieces.memref, "lse": lses.memref},
        {"splitKV": IntegerAttr(parts, i32), "balancedSplit": UnitAttr(), "oTransposed": None},
    )
    b.insert(new)
    out = _rows(b, op.out, op.oTransposed is not None)
    merge = b.insert(MergeAttentionOp(pieces.memref, lses.memref, out, op.lse))
    for each in (pieces, lses, new, merge):
        copy_location(op, each)
    Rewriter.erase_op(op)


def _rows(b: Builder, out: SSAValue, transposed: bool) -> SSAValue:
    """The output as `[G, Sq, Dv]`."""
    if not transposed:
        return out
    return make_transform(b, out, MapBuilder(("g", "d", "q"), shape_of(out)).pass_through("g", "q", "d").build())
