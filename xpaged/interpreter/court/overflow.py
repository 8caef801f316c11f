"""Arithmetic in 32 bits on the way to an address: proved not to overflow, watched while it runs, or refused.

The ranges of integer values are found once, from the launch and the constants. Where they prove that an addition or a
product fits its type, nothing is watched. A product with a factor of which nothing is known (a number read from memory)
is reported at once: a page number times a stride wraps around on the day the pool is large enough.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from xpaged.arch import arch_of_function
from xpaged.dialects import hip
from xpaged.interpreter.evaluator import Machine, OpCode, Value
from xpaged.lowering.kernel import block_size, grid_size, is_kernel

if TYPE_CHECKING:
    from xpaged.interpreter.court.court import Court

Range = tuple[int, int]

_SAME = (hip.UniformOp, hip.ExchangeOp, arith.IndexCastOp, arith.ExtSIOp)
_NARROW = 32


def limits(type_: Attribute) -> Range:
    """The numbers that an integer type holds, as signed ones."""
    bits = 64 if isinstance(type_, IndexType) else type_.width.data if isinstance(type_, IntegerType) else 64
    return (0, 1) if bits == 1 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


class Ranges:
    """The numbers that each integer value of a module may be."""

    def __init__(self, module: Operation) -> None:
        self.of: dict[SSAValue, Range] = {}
        self.exact: dict[Operation, Range] = {}
        """Of sums and products: what they would be if their type had no end."""
        for op in module.walk():
            if isinstance(op, FuncOp):
                self._launch = _launch(op)
            if isinstance(op, scf.ForOp):
                low, high = self[op.lb][0], self[op.ub][1] - 1
                self.of[op.body.block.args[0]] = (low, max(low, high))
            elif len(op.results) == 1:
                self._visit(op, op.results[0])

    def __getitem__(self, value: SSAValue) -> Range:
        return self.of.get(value) or limits(value.type)

    def _visit(self, op: Operation, result: SSAValue) -> None:
        if not isinstance(result.type, IntegerType | IndexType):
            return
        found = self._range(op)
        if found is None:
            return
        low, high = limits(result.type)
        self.exact[op] = found
        if low <= found[0] and found[1] <= high:
            self.of[result] = found

    def _range(self, op: Operation) -> Range | None:
        grid, lanes, waves = self._launch
        match op:
            case arith.ConstantOp():
                return (op.value.value.data, op.value.value.data) if isinstance(op.value, IntegerAttr) else None
            case hip.WorkgroupIdOp():
                return 0, grid - 1
            case hip.LaneIdOp():
                return 0, lanes - 1
            case hip.WaveIdOp():
                return 0, waves - 1
            case arith.SelectOp():
                (a, b), (c, d) = self[op.lhs], self[op.rhs]
                return min(a, c), max(b, d)
            case _ if isinstance(op, _SAME):
                return self[op.operands[0]]
            case arith.ExtUIOp():
                low, high = self[op.input]
                return (low, high) if low >= 0 else None
            case _ if len(op.operands) == 2:
                return _of_two(op, self[op.operands[0]], self[op.operands[1]])
            case _:
                return None


def _of_two(op: Operation, x: Range, y: Range) -> Range | None:
    (a, b), (c, d) = x, y
    match op:
        case arith.AddiOp():
            return a + c, b + d
        case arith.SubiOp():
            return a - d, b - c
        case arith.MuliOp():
            corners = (a * c, a * d, b * c, b * d)
            return min(corners), max(corners)
        case arith.ShLIOp() if c == d and 0 <= c < 64:
            return a << c, b << c
        case arith.MinSIOp():
            return min(a, c), min(b, d)
        case arith.MaxSIOp():
            return max(a, c), max(b, d)
        case arith.MinUIOp() if c >= 0:  # a negative number is a large unsigned one
            return (min(a, c) if a >= 0 else 0), (min(b, d) if a >= 0 else d)
        case arith.MinUIOp() if a >= 0:
            return 0, b
        case arith.AndIOp() if c >= 0 or a >= 0:
            return 0, min(n for n, low in ((b, a), (d, c)) if low >= 0)
        case arith.DivUIOp() | arith.DivSIOp() | arith.FloorDivSIOp() if a >= 0 and c > 0:
            return a // d, b // c
        case arith.DivSIOp() if c == d and c > 0:
            return (a // c if a >= 0 else -(-a // c)), (b // c if b >= 0 else -(-b // c))
        case arith.RemUIOp() | arith.RemSIOp() if c > 0 and (a >= 0 or isinstance(op, arith.RemUIOp)):
            return 0, d - 1 if a < 0 else min(b, d - 1)
        case arith.ShRUIOp() | arith.ShRSIOp() if a >= 0 and c == d and 0 <= c < 64:
            return a >> c, b >> c
        case _:
            return None


def _launch(function: FuncOp) -> tuple[int, int, int]:
    """Workgroups, lanes of a wave, waves of a workgroup: as large as any where the function is no kernel."""
    if not is_kernel(function):
        return 1 << 31, 64, 16
    wave = arch_of_function(function).wave_size
    return grid_size(function), wave, max(block_size(function) // wave, 1)


def address_slice(module: Operation) -> set[Operation]:
    """The operations whose results end in the place of a memory access."""
    seen: set[SSAValue] = set()
    pending = [v for op in module.walk() for v in _places(op)]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        pending += _sources(value)
    return {v.op for v in seen if isinstance(v, OpResult)}


def _places(op: Operation) -> Iterator[SSAValue]:
    if op.name.startswith("hip.") and hasattr(op, "base"):
        yield op.base  # pyright: ignore[reportAttributeAccessIssue]
        yield op.offset  # pyright: ignore[reportAttributeAccessIssue]


def _sources(value: SSAValue) -> list[SSAValue]:
    """What a value is computed from; reads of memory are an end."""
    owner = value.owner
    if isinstance(owner, Block):
        loop = owner.parent_op()
        if not isinstance(loop, scf.ForOp):
            return []
        index = owner.args.index(value)  # pyright: ignore[reportArgumentType]
        if index == 0:
            return [loop.lb, loop.ub, loop.step]
        last = owner.last_op
        assert last is not None
        return [loop.iter_args[index - 1], last.operands[index - 1]]
    if isinstance(owner, scf.ForOp):
        last = owner.body.block.last_op
        assert last is not None
        index = owner.results.index(value)  # pyright: ignore[reportArgumentType]
        return [owner.iter_args[index], last.operands[index]]
    if isinstance(owner, hip.GetOp):
        return [u.operation.operands[0] for u in owner.regs.uses if isinstance(u.operation, hip.SetOp)]
    if owner.name.startswith("hip.") and hasattr(owner, "base"):
        return []
    return list(owner.operands)


class OverflowCheck:
    """Which operations of a module may overflow on the way to an address, and the code that watches them."""

    def __init__(self, module: Operation, court: "Court") -> None:
        self.court = court
        self._slice = address_slice(module)
        self._ranges = Ranges(module)

    def checked(self, op: Operation, code: OpCode) -> OpCode:
        """The code of a sum, difference, product or shift, watched where it needs to be."""
        type_ = op.results[0].type
        if op not in self._slice or not isinstance(type_, IntegerType) or type_.width.data > _NARROW:
            return code
        exact = self._ranges.exact.get(op)
        low, high = limits(type_)
        if exact is not None and low <= exact[0] and exact[1] <= high:
            return code
        if isinstance(op, arith.MuliOp | arith.ShLIOp) and any(self._ranges[v] == (low, high) for v in op.operands):
            what = f"a product in {type_.width.data} bits of a number that may be anything forms an address"
            self.court.report(op, "address-overflow", what, owner="")

        def run(m: Machine, x: Value, y: Value) -> Value:
            result = code(m, x, y)
            wide = code(m, x.astype(np.int64), y.astype(np.int64))
            wrong = wide != result
            if wrong.any():
                active = wrong if m.mask is None else wrong & m.mask
                if active.any():
                    found = np.broadcast_to(wide, active.shape)[active]
                    what = f"{op.name} in {type_.width.data} bits overflows on the way to an address: {int(found[0])}"
                    self.court.report(op, "address-overflow", what, owner="", count=int(active.sum()))
            return result

        return run
