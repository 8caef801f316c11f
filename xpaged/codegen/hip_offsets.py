"""Offsets of loads: which part is known once loops are unrolled, and which offsets a loop should keep in a register.

A load from a page adds three things: the page's address (scalar, another one in each turn of a loop), the lane's offset
(the same in each turn), and a constant. The hardware adds them for nothing when the compiler sees them as they are: a
scalar base, a 32-bit offset, an immediate. It does not when it moves the widening of the offset to 64 bits out of the
loop; so the text holds such offsets in place.
"""

from collections.abc import Iterator

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from xpaged.codegen.ranges import Ranges
from xpaged.dialects import hip

_STATIC = (
    arith.AddiOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.DivUIOp,
    arith.RemUIOp,
    arith.ShLIOp,
    arith.ShRUIOp,
    arith.AndIOp,
    arith.XOrIOp,
)


def trips(op: scf.ForOp) -> int | None:
    """How often a loop with constant bounds runs."""
    numbers: list[int] = []
    for bound in (op.lb, op.ub, op.step):
        owner = bound.owner
        if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, IntegerAttr):
            return None
        numbers.append(owner.value.value.data)
    lower, upper, step = numbers
    return max(-(-(upper - lower) // step), 0) if step > 0 else None


class Offsets:
    """The offsets of the loads of one kernel."""

    def __init__(self, body: Region, ranges: Ranges) -> None:
        self._ranges = ranges
        self._static: dict[SSAValue, bool] = {}
        self._by_lane: dict[SSAValue, bool] = {}
        self.held: dict[scf.ForOp, list[SSAValue]] = {}
        self._collect(body.block, None)
        self._values = {value for values in self.held.values() for value in values}

    def is_static(self, value: SSAValue) -> bool:
        """Whether a value is a number once the loops marked `unroll` are unrolled."""
        found = self._static.get(value)
        if found is None:
            owner = value.owner
            if isinstance(value, BlockArgument):
                loop = value.owner.parent_op()
                whole = isinstance(loop, scf.ForOp) and (hip.UNROLL in loop.attributes or trips(loop) == 1)
                found = whole and value.index == 0
            else:
                assert isinstance(owner, Operation)
                found = isinstance(owner, arith.ConstantOp) or (
                    isinstance(owner, _STATIC) and all(self.is_static(v) for v in owner.operands)
                )
            self._static[value] = found
        return found

    def parts(self, value: SSAValue) -> tuple[SSAValue, SSAValue] | None:
        """A sum as what is not static and what is; None for anything else, and where a part may be negative."""
        owner = value.owner
        if not isinstance(owner, arith.AddiOp) or value.type != i32 or self._ranges.wraps(owner):
            return None
        if not (self._ranges.of(owner.lhs).nonnegative and self._ranges.of(owner.rhs).nonnegative):
            return None
        match self.is_static(owner.lhs), self.is_static(owner.rhs):
            case False, True:
                return owner.lhs, owner.rhs
            case True, False:
                return owner.rhs, owner.lhs
            case _:
                return None

    def is_held(self, value: SSAValue) -> bool:
        """Whether some loop holds a value."""
        return value in self._values

    def _collect(self, block: Block, loop: scf.ForOp | None) -> None:
        for op in block.ops:
            if isinstance(op, hip.LoadOp) and loop is not None:
                self._hold(op, loop)
            for region in op.regions:
                for inner in region.blocks:
                    turns = isinstance(op, scf.ForOp) and hip.UNROLL not in op.attributes and trips(op) != 1
                    self._collect(inner, op if isinstance(op, scf.ForOp) and turns else loop)

    def _hold(self, op: hip.LoadOp, loop: scf.ForOp) -> None:
        root = op.offset
        while (parts := self.parts(root)) is not None:
            root = parts[0]
        held = self.held.setdefault(loop, [])
        if root.type != i32 or isinstance(root, BlockArgument) or root in held:
            return
        if _is_inside(root, loop) or not _is_inside(op.base, loop) or not self._depends_on_lane(root):
            return
        held.append(root)

    def _depends_on_lane(self, value: SSAValue) -> bool:
        """Whether a value may differ between the lanes of a wave."""
        found = self._by_lane.get(value)
        if found is None:
            if isinstance(value, BlockArgument):
                loop = value.owner.parent_op()
                found = isinstance(loop, scf.ForOp) and any(self._depends_on_lane(v) for v in loop.operands[:3])
            else:
                owner = value.owner
                assert isinstance(owner, Operation)
                found = isinstance(owner, hip.LaneIdOp | hip.GetOp | scf.ForOp | scf.IfOp) or (
                    not isinstance(owner, hip.UniformOp | hip.AnyOp)
                    and any(self._depends_on_lane(v) for v in owner.operands)
                )
            self._by_lane[value] = found
        return found


def _blocks_around(value: SSAValue) -> Iterator[Block]:
    block = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while block is not None:
        yield block
        parent = block.parent_op()
        block = None if parent is None else parent.parent


def _is_inside(value: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a value is computed inside a loop."""
    return loop.body.block in _blocks_around(value)
