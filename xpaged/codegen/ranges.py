"""Ranges of the integer values of one lane's program.

The printer asks them where C and MLIR differ: MLIR integers wrap and have no sign, C has `int`, whose overflow is
undefined, and `unsigned`. Where the ranges prove that nothing overflows and nothing is negative, plain `int` is right.
"""

from collections.abc import Callable
from typing import NamedTuple

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xpaged.arch.table import Arch
from xpaged.dialects import hip
from xpaged.dialects.hip import element_of


class Range(NamedTuple):
    """All values from `lo` to `hi`, both included; vectors: of every element."""

    lo: int
    hi: int

    @property
    def nonnegative(self) -> bool:
        """Whether no value is below zero."""
        return self.lo >= 0

    def union(self, other: "Range") -> "Range":
        """The smallest range that holds both."""
        return Range(min(self.lo, other.lo), max(self.hi, other.hi))


def width_of(type_: Attribute) -> int:
    """Bits of an integer type (or of the elements of a vector of integers); index has 64, other types 0."""
    element = element_of(type_)
    if isinstance(element, IndexType):
        return 64
    return element.width.data if isinstance(element, IntegerType) else 0


def full(type_: Attribute) -> Range:
    """Every value of a type, read as signed; i1 is 0 or 1."""
    width = width_of(type_)
    return Range(0, 1) if width <= 1 else Range(-(1 << width - 1), (1 << width - 1) - 1)


class Ranges:
    """The ranges of all integer values of a kernel, launched with `grid` workgroups of `block` lanes."""

    def __init__(self, body: Region, arch: Arch, grid: int, block: int) -> None:
        self._known: dict[SSAValue, Range] = {}
        self._wraps: set[Operation] = set()
        self._waves = max(block // arch.wave_size, 1)
        self._lanes = min(block, arch.wave_size)
        self._grid = grid
        self._walk(body.block)

    def of(self, value: SSAValue) -> Range:
        """The range of a value; for one that is no integer it says nothing."""
        known = self._known.get(value)
        return full(value.type) if known is None else known

    def wraps(self, op: Operation) -> bool:
        """Whether the signed result of an addition, subtraction, product or left shift may leave its type."""
        return op in self._wraps

    def _walk(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, scf.ForOp):
                self._for(op)
            elif isinstance(op, scf.IfOp):
                self._if(op)
            elif len(op.results) == 1 and width_of(op.results[0].type):
                found = self._result(op)
                if found is not None:
                    self._known[op.results[0]] = self._fitted(op, found)

    def _fitted(self, op: Operation, found: Range) -> Range:
        whole = full(op.results[0].type)
        if whole.lo <= found.lo and found.hi <= whole.hi:
            return found
        if not _no_signed_wrap(op):
            self._wraps.add(op)
            return whole
        return Range(max(found.lo, whole.lo), min(found.hi, whole.hi))

    def _for(self, op: scf.ForOp) -> None:
        lower, upper = self.of(op.lb), self.of(op.ub)
        self._known[op.body.block.args[0]] = Range(lower.lo, max(upper.hi - 1, lower.lo))
        self._walk(op.body.block)

    def _if(self, op: scf.IfOp) -> None:
        ends: list[Operation | None] = []
        for region in (op.true_region, op.false_region):
            if region.blocks:
                self._walk(region.block)
                ends.append(region.block.last_op)
        for number, result in enumerate(op.results):
            if width_of(result.type) and len(ends) == 2:
                values = [self.of(end.operands[number]) for end in ends if end is not None]
                self._known[result] = values[0].union(values[-1])

    def _result(self, op: Operation) -> Range | None:
        match op:
            case arith.ConstantOp():
                return _constant(op)
            case hip.LaneIdOp():
                return Range(0, self._lanes - 1)
            case hip.WaveIdOp():
                return Range(0, self._waves - 1)
            case hip.WorkgroupIdOp():
                return Range(0, self._grid - 1)
            case arith.CmpiOp() | arith.CmpfOp() | hip.AnyOp():
                return Range(0, 1)
            case arith.SelectOp():
                return self.of(op.lhs).union(self.of(op.rhs))
            case hip.UniformOp() | hip.SplatOp() | hip.ExchangeOp() | hip.SliceOp():
                return self.of(op.operands[0])
            case arith.ExtSIOp() | arith.IndexCastOp() | arith.TruncIOp() | arith.ExtUIOp():
                return self._cast(op)
            case _:
                rule = _RULES.get(type(op))
                return None if rule is None else rule(self.of(op.operands[0]), self.of(op.operands[1]))

    def _cast(self, op: Operation) -> Range | None:
        source, result = self.of(op.operands[0]), full(op.results[0].type)
        width = width_of(op.operands[0].type)
        if isinstance(op, arith.ExtUIOp):
            source = _modulo(source, width)
        elif width == 1 and isinstance(op, arith.ExtSIOp):
            source = Range(-source.hi, -source.lo)
        if result.lo <= source.lo and source.hi <= result.hi:
            return source
        if source.lo == source.hi:  # a constant that is cut
            width = width_of(op.results[0].type)
            cut = source.lo & ((1 << width) - 1)
            if width > 1 and cut >> (width - 1):
                cut -= 1 << width
            return Range(cut, cut)
        return None


def _modulo(source: Range, width: int) -> Range:
    """What a range is when it is read as unsigned numbers of that many bits."""
    if source.nonnegative:
        return source
    if source.hi < 0:
        return Range(source.lo + (1 << width), source.hi + (1 << width))
    return Range(0, (1 << width) - 1)


def _no_signed_wrap(op: Operation) -> bool:
    if not isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp | arith.ShLIOp):
        return True
    return arith.IntegerOverflowFlag.NSW in op.overflow_flags.data


def _constant(op: arith.ConstantOp) -> Range | None:
    if isinstance(op.value, IntegerAttr):
        value, width = op.value.value.data, width_of(op.value.type)
        if width == 1:
            return Range(value & 1, value & 1)
        half = 1 << width - 1
        value = (value + half) % (2 * half) - half  # literals may be written either way: -1 and 255 are one i8
        return Range(value, value)
    if isinstance(op.value, DenseIntOrFPElementsAttr):
        values = [v for v in op.value.get_values() if isinstance(v, int)]
        return Range(min(values), max(values)) if values else None
    return None


def _corners(fn: Callable[[int, int], int]) -> Callable[[Range, Range], Range]:
    """The rule of an operation that takes its extremes at the ends of its operands' ranges."""

    def rule(a: Range, b: Range) -> Range:
        ends = [fn(x, y) for x in a for y in b]
        return Range(min(ends), max(ends))

    return rule


def _divide(a: Range, b: Range) -> Range | None:
    return _signed_divide(a, b) if a.nonnegative else None


def _quotients(round_: Callable[[int, int], int]) -> Callable[[Range, Range], Range | None]:
    """The rule of a division by positive numbers, which grows with its dividend."""

    def rule(a: Range, b: Range) -> Range | None:
        if b.lo <= 0:
            return None
        ends = [round_(x, y) for x in a for y in b]
        return Range(min(ends), max(ends))

    return rule


_signed_divide = _quotients(lambda x, y: x // y if x >= 0 else -(-x // y))
_floor_divide = _quotients(lambda x, y: x // y)
_ceil_divide = _quotients(lambda x, y: -(-x // y))


def _unsigned_ceil_divide(a: Range, b: Range) -> Range | None:
    return _ceil_divide(a, b) if a.nonnegative else None


def _unsigned_remainder(a: Range, b: Range) -> Range | None:
    if b.lo <= 0:
        return None
    return Range(0, min(a.hi, b.hi - 1) if a.nonnegative else b.hi - 1)


def _signed_remainder(a: Range, b: Range) -> Range | None:
    return _unsigned_remainder(a, b) if a.nonnegative else None


def _and(a: Range, b: Range) -> Range | None:
    if a.nonnegative or b.nonnegative:
        return Range(0, min(r.hi for r in (a, b) if r.nonnegative))
    return None


def _or(a: Range, b: Range) -> Range | None:
    if not (a.nonnegative and b.nonnegative):
        return None
    return Range(0, (1 << max(a.hi.bit_length(), b.hi.bit_length())) - 1)


def _shift_left(a: Range, b: Range) -> Range | None:
    return _corners(lambda x, y: x << y)(a, b) if 0 <= b.lo <= b.hi < 64 else None


def _shift_right(a: Range, b: Range) -> Range | None:
    return Range(a.lo >> b.hi, a.hi >> b.lo) if a.nonnegative and 0 <= b.lo <= b.hi < 64 else None


def _unsigned_least(a: Range, b: Range) -> Range | None:
    return Range(min(a.lo, b.lo), min(a.hi, b.hi)) if a.nonnegative and b.nonnegative else None


def _unsigned_greatest(a: Range, b: Range) -> Range | None:
    return Range(max(a.lo, b.lo), max(a.hi, b.hi)) if a.nonnegative and b.nonnegative else None


_RULES: dict[type[Operation], Callable[[Range, Range], Range | None]] = {
    arith.AddiOp: lambda a, b: Range(a.lo + b.lo, a.hi + b.hi),
    arith.SubiOp: lambda a, b: Range(a.lo - b.hi, a.hi - b.lo),
    arith.MuliOp: _corners(lambda x, y: x * y),
    arith.DivUIOp: _divide,
    arith.DivSIOp: _signed_divide,
    arith.FloorDivSIOp: _floor_divide,
    arith.CeilDivSIOp: _ceil_divide,
    arith.CeilDivUIOp: _unsigned_ceil_divide,
    arith.RemUIOp: _unsigned_remainder,
    arith.RemSIOp: _signed_remainder,
    arith.MinSIOp: lambda a, b: Range(min(a.lo, b.lo), min(a.hi, b.hi)),
    arith.MaxSIOp: lambda a, b: Range(max(a.lo, b.lo), max(a.hi, b.hi)),
    arith.MinUIOp: _unsigned_least,
    arith.MaxUIOp: _unsigned_greatest,
    arith.AndIOp: _and,
    arith.OrIOp: _or,
    arith.XOrIOp: _or,
    arith.ShLIOp: _shift_left,
    arith.ShRUIOp: _shift_right,
    arith.ShRSIOp: _shift_right,
}
