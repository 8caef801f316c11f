"""place-barriers: a barrier wherever a wave may read from LDS what another wrote, or overwrite what another reads.

    #rows = #rock.layout<wave = [2 -> d0], lane = [16 -> d1, 4 -> copy], regs = []>
    #all = #rock.layout<wave = [2 -> copy], lane = [16 -> d1, 4 -> copy], regs = [2 -> d0]>
    func.func @f(%m: !rock.tile<2x16xf32, #rows>) {
      %lds = rock.lds_alloc : memref<2x16xf32, 3 : i32>
      rock.tile_store %m, %lds[] : !rock.tile<2x16xf32, #rows>, memref<2x16xf32, 3 : i32>
      %parts = rock.tile_load %lds[] : memref<2x16xf32, 3 : i32> -> !rock.tile<2x16xf32, #all>
      func.return
    }

becomes

    #rows = #rock.layout<wave = [2 -> d0], lane = [16 -> d1, 4 -> copy], regs = []>
    #all = #rock.layout<wave = [2 -> copy], lane = [16 -> d1, 4 -> copy], regs = [2 -> d0]>
    func.func @f(%m: !rock.tile<2x16xf32, #rows>) {
      %lds = rock.lds_alloc : memref<2x16xf32, 3 : i32>
      rock.tile_store %m, %lds[] : !rock.tile<2x16xf32, #rows>, memref<2x16xf32, 3 : i32>
      rock.barrier
      %parts = rock.tile_load %lds[] : memref<2x16xf32, 3 : i32> -> !rock.tile<2x16xf32, #all>
      func.return
    }

Loops follow themselves, and may make no trip; branches may not be taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xpaged.dialects.hip import is_lds
from xpaged.dialects.rock.tile_ops import BarrierOp, TileLoadOp, TileStoreOp
from xpaged.dialects.rock.views import chain_of
from xpaged.ir.levels import Level
from xpaged.ir.locations import copy_location
from xpaged.ir.pass_base import LevelPass


@dataclass(frozen=True)
class PlaceBarriersPass(LevelPass):
    """Place barriers between conflicting LDS accesses (see the module's text)."""

    name = "place-barriers"
    takes: ClassVar[Level | None] = Level.TILE
    leaves: ClassVar[Level | None] = Level.TILE

    def run(self, ctx: Context, module: ModuleOp) -> None:
        for op in module.ops:
            if isinstance(op, func.FuncOp):
                _walk(op.body.block, _Pending())


@dataclass
class _Pending:
    """LDS buffers read and written since the last barrier."""

    read: set[SSAValue] = field(default_factory=set)
    written: set[SSAValue] = field(default_factory=set)

    def clear(self) -> None:
        self.read.clear()
        self.written.clear()

    def copy(self) -> _Pending:
        return _Pending(set(self.read), set(self.written))

    def join(self, other: _Pending) -> None:
        """What is pending on one way or the other."""
        self.read |= other.read
        self.written |= other.written


def _walk(block: Block, pending: _Pending) -> None:
    for op in list(block.ops):
        if isinstance(op, BarrierOp):
            pending.clear()
        before = pending.copy()  # a loop may make no trip, a branch may not be taken
        for region in op.regions:
            for inner in region.blocks:
                inside = before.copy()
                _walk(inner, inside)
                if not isinstance(op, scf.IfOp):
                    # A loop body also follows itself: its second trip meets what the first one left pending.
                    _walk(inner, inside)
                pending.join(inside)
        buffer = _buffer(op)
        if buffer is None:
            continue
        if isinstance(op, TileLoadOp):
            if buffer in pending.written:
                _barrier(op, pending)
            pending.read.add(buffer)
        else:
            if buffer in pending.read:
                _barrier(op, pending)
            pending.written.add(buffer)


def _buffer(op: Operation) -> SSAValue | None:
    """The LDS buffer that a tile is loaded from or stored to."""
    if isinstance(op, TileLoadOp | TileStoreOp):
        root = chain_of(op.view).root
        return root if is_lds(root.type) else None
    return None


def _barrier(before: Operation, pending: _Pending) -> None:
    barrier = BarrierOp()
    copy_location(before, barrier)
    Rewriter.insert_op(barrier, InsertPoint.before(before))
    pending.clear()
