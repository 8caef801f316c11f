"""sort-dimensions-memory-layout: the operands of attention with their dimensions in the order of memory.

    #rows = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0 * 32 + d2 * 8 + d1)>
      by [<Unmerge{1, 4, 8} ["g", "s", "d"] at [0, 2, 1] -> ["raw"] at [0]>] bounds = [1, 8, 4] -> [32]>
    func.func @f(%q: memref<1x2x8xf16>, %k: memref<32xf16>, %v: memref<1x4x8xf16>, %out: memref<1x2x8xf16>)
        attributes {rock.kernel} {
      %keys = rock.transform %k by #rows : memref<32xf16> to memref<1x8x4xf16>
      rock.attention{
        qk = %q * %keys : memref<1x2x8xf16>, memref<1x8x4xf16>
        %out = softmax(qk) * %v : memref<1x4x8xf16> -> memref<1x2x8xf16>
      }
      func.return
    }

becomes

    #rows = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0 * 32 + d1 * 8 + d2)>
      by [<Unmerge{1, 4, 8} ["g", "s", "d"] at [0, 1, 2] -> ["raw"] at [0]>] bounds = [1, 4, 8] -> [32]>
    func.func @f(%q: memref<1x2x8xf16>, %k: memref<32xf16>, %v: memref<1x4x8xf16>, %out: memref<1x2x8xf16>)
        attributes {rock.kernel} {
      %keys = rock.transform %k by #rows : memref<32xf16> to memref<1x4x8xf16>
      rock.attention{
        qk = %q * tr %keys : memref<1x2x8xf16>, memref<1x4x8xf16>
        %out = softmax(qk) * %v : memref<1x4x8xf16> -> memref<1x2x8xf16>
      }
      func.return
    }

Only kernels (`rock.kernel`) are touched, and of an operand only the order of its last two dimensions, where the view
tells which of them is contiguous: in memory, or inside a page. Everything else stays, the page addresses among it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import InsertPoint

from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.ops import TransformOp
from xpaged.dialects.rock.views import erase_unused_views, make_chain, memory_position, step_of
from xpaged.ir.levels import Level
from xpaged.ir.locations import copy_location
from xpaged.ir.pass_base import LevelPass
from xpaged.ir.transform_map import Builder as MapBuilder
from xpaged.ir.transform_map import simplify
from xpaged.lowering.kernel import is_kernel

_FLAGS = {"queries": "qTransposed", "keys": "kTransposed", "values": "vTransposed", "out": "oTransposed"}


@dataclass(frozen=True)
class SortDimensionsMemoryLayoutPass(LevelPass):
    """Exchange the last two dimensions of operands whose memory runs the other way (see the module's text)."""

    name = "sort-dimensions-memory-layout"
    takes: ClassVar[Level | None] = Level.ROCK_MEMREF
    leaves: ClassVar[Level | None] = Level.ROCK_MEMREF

    def run(self, ctx: Context, module: ModuleOp) -> None:
        for func in module.walk():
            if isinstance(func, FuncOp) and is_kernel(func):
                for op in list(func.walk()):
                    if isinstance(op, AttentionOp):
                        _sort(op)


def _sort(op: AttentionOp) -> None:
    operands: dict[str, SSAValue] = {}
    flags: dict[str, Attribute | None] = {}
    for name, flag in _FLAGS.items():
        value: SSAValue | None = getattr(op, name)
        if value is not None and _is_reversed(value):
            operands[name] = _exchanged(op, value)
            flags[flag] = None if getattr(op, flag) is not None else UnitAttr()
    if operands:
        _replace(op, operands, flags)


def _is_reversed(view: SSAValue) -> bool:
    """Whether the middle dimension of a rank-3 view runs faster through memory than the last."""
    if not isinstance(view.owner, TransformOp):
        return False
    position, dims = memory_position(view)
    _, middle, last = (step_of(position, dim) for dim in dims)
    return middle == 1 and last is not None and last != 1


def _exchanged(op: AttentionOp, view: SSAValue) -> SSAValue:
    """The view with its last two dimensions exchanged, made straight from what `view` is made of."""
    top = view.owner
    assert isinstance(top, TransformOp)
    first, second, third = top.map.data.upper_names
    exchange = MapBuilder((first, second, third), top.map.data.upper_bounds).pass_through(first, third, second).build()
    maps = simplify([exchange, top.map.data])
    return make_chain(Builder(InsertPoint.before(top)), top.source, maps, view.name_hint)


def _replace(op: AttentionOp, operands: Mapping[str, SSAValue], flags: Mapping[str, Attribute | None]) -> None:
    new = op.rebuilt(operands, flags)
    copy_location(op, new)
    Builder(InsertPoint.before(op)).insert(new)
    views: list[SSAValue] = [getattr(op, name) for name in operands]
    op.detach()
    op.erase()
    for view in views:
        erase_unused_views(view)
