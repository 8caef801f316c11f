"""Register layouts as data: which lane of which wave holds which element of a tile, and in which register.

A layout is three lists of digits, for the wave number, the lane number and the register number.  Each list is a
mixed-radix reading of its number, lowest digit first; a digit says how many values it takes, which coordinate of the
tile it moves along, and how far one step goes.  A digit with no coordinate (`COPY`) makes lanes or waves that differ
in it hold the same element.  Sizes need not be powers of two, so head sizes such as 80 or 192 are ordinary.

    wave = [4 -> d0]                  wave w holds part w of coordinate 0
    lane = [16 -> d2, 4 -> d1 * 8]    lane l holds column l % 16 and rows from 8 * (l / 16)
    regs = [8 -> d1, 2 -> d1 * 32]    register r holds row offset r % 8 + 32 * (r / 8)

Digits of one coordinate must tile it exactly, so every element has one owner (and its copies).  Padding is the
business of the view that a tile is loaded through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Literal, NamedTuple

from xpaged.arch.table import MatrixInstruction
from xpaged.ir.index_expr import IndexExpr

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

COPY = -1
Home = Literal["wave", "lane", "regs"]
HOMES: tuple[Home, ...] = ("wave", "lane", "regs")


class LayoutError(ValueError):
    """A layout that does not cover its tile, or layouts that do not fit together."""


class Digit(NamedTuple):
    """One digit of a wave, lane or register number: `size` values, each moves coordinate `dim` by `stride`."""

    size: int
    dim: int = COPY
    stride: int = 1

    def __str__(self) -> str:
        if self.dim == COPY:
            return f"{self.size} -> copy"
        return f"{self.size} -> d{self.dim}" + (f" * {self.stride}" if self.stride != 1 else "")


class Conversion(NamedTuple):
    """What it takes to turn one layout into another: nothing, a renaming of registers, or data that moves."""

    kind: Literal["none", "registers", "lanes", "waves"]


@dataclass(frozen=True)
class Layout:
    """The layout of a tile of `shape`."""

    shape: tuple[int, ...]
    wave: tuple[Digit, ...]
    lane: tuple[Digit, ...]
    regs: tuple[Digit, ...]

    @staticmethod
    def of(
        shape: Sequence[int],
        *,
        wave: Sequence[tuple[int, int, int] | Digit] = (),
        lane: Sequence[tuple[int, int, int] | Digit] = (),
        regs: Sequence[tuple[int, int, int] | Digit] = (),
    ) -> Layout:
        """A verified layout; digits of size 1 are dropped (raises LayoutError)."""

        def tidy(digits: Sequence[tuple[int, int, int] | Digit]) -> tuple[Digit, ...]:
            return tuple(Digit(*d) for d in digits if d[0] != 1)

        layout = Layout(tuple(shape), tidy(wave), tidy(lane), tidy(regs))
        layout.verify()
        return layout

    def digits(self, home: Home) -> tuple[Digit, ...]:
        """The digits of the wave, lane or register number, lowest first."""
        return getattr(self, home)

    def size(self, home: Home) -> int:
        """How many waves, lanes or registers the layout speaks of."""
        return prod(d.size for d in self.digits(home))

    @property
    def registers(self) -> int:
        """Elements that one lane holds."""
        return self.size("regs")

    @property
    def vector(self) -> int:
        """Neighbouring registers that form one vector: the size of the lowest register digit."""
        return self.regs[0].size if self.regs else 1

    def verify(self) -> None:
        """Raises LayoutError unless the digits of each coordinate tile it exactly."""
        for digit in (*self.wave, *self.lane, *self.regs):
            if digit.size < 1 or digit.dim >= len(self.shape) or (digit.dim < 0 and digit.dim != COPY):
                raise LayoutError(f"the digit {digit} does not fit a tile of {_dims(self.shape)}")
        if any(d.dim == COPY for d in self.regs):
            raise LayoutError("registers of one lane may not hold copies")
        for dim, extent in enumerate(self.shape):
            reach = 1
            for digit in sorted((d for h in HOMES for d in self.digits(h) if d.dim == dim), key=lambda d: d.stride):
                if digit.stride != reach:
                    raise LayoutError(f"coordinate {dim}: a step of {digit.stride} where {reach} was expected ({self})")
                reach *= digit.size
            if reach != extent:
                raise LayoutError(f"coordinate {dim} has {extent} elements, the digits reach {reach} ({self})")

    def __str__(self) -> str:
        return ", ".join(f"{home} = [{', '.join(map(str, self.digits(home)))}]" for home in HOMES)

    # ---- enumeration

    @cached_property
    def coordinates(self) -> NDArray[np.int64]:
        """Coordinates of every register: an array of (waves, lanes, registers, rank)."""
        import numpy as np

        sizes = [self.size(h) for h in HOMES]
        out = np.zeros((*sizes, len(self.shape)), np.int64)
        for axis, home in enumerate(HOMES):
            number = np.arange(sizes[axis])
            for digit in self.digits(home):
                if digit.dim != COPY:
                    shape = [1, 1, 1]
                    shape[axis] = -1
                    out[..., digit.dim] += (number % digit.size * digit.stride).reshape(shape)
                number = number // digit.size
        return out

    def owner(self, coordinates: Sequence[int]) -> tuple[int, int, int]:
        """The inverse: (wave, lane, register) that holds an element (the first of its copies)."""
        place: list[int] = []
        for home in HOMES:
            number, weight = 0, 1
            for digit in self.digits(home):
                if digit.dim != COPY:
                    number += coordinates[digit.dim] // digit.stride % digit.size * weight
                weight *= digit.size
            place.append(number)
        return place[0], place[1], place[2]

    def shares(self, home: Home, dim: int, count: int | None = None) -> list[int]:
        """What each wave, lane or register number (the first `count`) adds to coordinate `dim`."""
        out: list[int] = []
        for number in range(self.size(home) if count is None else count):
            share = 0
            for digit in self.digits(home):
                if digit.dim == dim:
                    share += number % digit.size * digit.stride
                number //= digit.size
            out.append(share)
        return out

    # ---- symbolic coordinates

    def expressions(self, variables: dict[Home, Sequence[IndexExpr]]) -> list[IndexExpr]:
        """Coordinates as expressions over one variable a digit (in the order of `digits(home)`)."""
        out = [IndexExpr.const(0) for _ in self.shape]
        for home in HOMES:
            for digit, variable in zip(self.digits(home), variables[home], strict=True):
                if digit.dim != COPY:
                    out[digit.dim] = out[digit.dim] + variable * digit.stride
        return out

    # ---- algebra

    def reduced(self, dim: int) -> Layout:
        """The layout of the result of a reduction along `dim` (its extent becomes 1): lanes and waves hold copies."""

        def copied(digits: tuple[Digit, ...]) -> tuple[Digit, ...]:
            return tuple(Digit(d.size) if d.dim == dim else d for d in digits)

        shape = tuple(1 if i == dim else n for i, n in enumerate(self.shape))
        return Layout(shape, copied(self.wave), copied(self.lane), tuple(d for d in self.regs if d.dim != dim))

    def reduced_in_lane(self, dim: int) -> Layout:
        """The layout of the result of a reduction along `dim` of what each lane holds: the coordinate counts lanes."""
        strides: dict[Digit, int] = {}
        reach = 1
        for digit in sorted((d for h in HOMES[:2] for d in self.digits(h) if d.dim == dim), key=lambda d: d.stride):
            strides[digit] = reach
            reach *= digit.size

        def packed(digits: tuple[Digit, ...]) -> tuple[Digit, ...]:
            return tuple(Digit(d.size, dim, strides[d]) if d.dim == dim else d for d in digits)

        shape = tuple(reach if i == dim else n for i, n in enumerate(self.shape))
        return Layout(shape, packed(self.wave), packed(self.lane), tuple(d for d in self.regs if d.dim != dim))

    def broadcasts_to(self, other: Layout) -> bool:
        """Whether each lane holds what it needs to pair this tile (extents 1 repeat) with a tile of `other`."""
        for mine, theirs in zip(self.shape, other.shape, strict=True):
            if mine not in (1, theirs):
                return False
        repeated = {i for i, (m, t) in enumerate(zip(self.shape, other.shape, strict=True)) if m == 1 and t != 1}

        def match(home: Home) -> bool:
            mine = [d for d in self.digits(home)]
            theirs = [Digit(d.size) if d.dim in repeated else d for d in other.digits(home)]
            if home == "regs":
                theirs = [d for d in theirs if d.dim != COPY]
            return _place(mine) == _place(theirs)

        return match("wave") and match("lane") and match("regs")

    def exchange(self, other: Layout) -> int | None:
        """The distance of two lanes that become `other` by giving each other all they have: the lowest register digit
        of `other` is that of this layout and, above it, a lane digit of two, in whose place `other` has copies. None
        for any other change."""
        if len(self.lane) != len(other.lane) or (self.shape, self.wave) != (other.shape, other.wave):
            return None
        changed = [i for i, (old, new) in enumerate(zip(self.lane, other.lane, strict=True)) if old != new]
        if len(changed) != 1 or not self.regs:
            return None
        (at,), lowest = changed, self.regs[0]
        given = lowest.stride == 1 and self.lane[at] == Digit(2, lowest.dim, lowest.size) and other.lane[at] == Digit(2)
        if not given or other.regs != (Digit(2 * lowest.size, lowest.dim), *self.regs[1:]):
            return None
        return prod(d.size for d in self.lane[:at])

    def conversion(self, other: Layout) -> Conversion:
        """What turns this layout into `other` of the same shape."""
        if self == other:
            return Conversion("none")
        if _place(self.wave) != _place(other.wave):
            return Conversion("waves")
        if _place(self.lane) != _place(other.lane):
            return Conversion("lanes")
        return Conversion("registers")


def _place(digits: Sequence[Digit]) -> dict[int, dict[int, tuple[int, int]]]:
    """Where each step of each coordinate stands in a number: dim -> {step: (weight, size)}, neighbours joined.

    Copies are left out except for their weight, which moves the others.
    """
    out: dict[int, dict[int, tuple[int, int]]] = {}
    weight = 1
    for digit in digits:
        if digit.dim != COPY:
            steps = out.setdefault(digit.dim, {})
            for step, (at, size) in steps.items():
                if step * size == digit.stride and at * size == weight:
                    steps[step] = (at, size * digit.size)
                    break
            else:
                steps[digit.stride] = (weight, digit.size)
        weight *= digit.size
    return out


def _dims(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


# ---- matrix products ------------------------------------------------------------------------------------------------


class MmaLoop(NamedTuple):
    """One loop of a tile product: `size` steps, each moves the register numbers of A, B and C by these strides."""

    coordinate: Literal["rows", "columns", "reduction"]
    size: int
    a: int
    b: int
    c: int


def plan_mma(instruction: MatrixInstruction, a: Layout, b: Layout, c: Layout) -> list[MmaLoop]:
    """How a tile product C += A B splits into matrix instructions, outermost loop first.

    Tiles are [batch, rows, reduction], [batch, reduction, columns] and [batch, rows, columns]; a batch of 1 in A or B
    repeats.  Raises LayoutError when the lanes do not hold what the instruction multiplies: the rows of C that an
    instruction writes must be the rows of A it read, the columns those of B, and the reduction index of every
    (lane group, element) the same in A and B - whatever that index is.
    """
    elements, registers = instruction.elements, instruction.registers
    if a.shape[1] != c.shape[1] or b.shape[2] != c.shape[2] or a.shape[2] != b.shape[1]:
        raise LayoutError(f"cannot multiply {_dims(a.shape)} by {_dims(b.shape)} into {_dims(c.shape)}")
    _check_fragment(instruction, a, b, c)

    def steps(layout: Layout, fragment: int, fragment_dim: int) -> dict[tuple[int, int], tuple[int, int]]:
        """Register digits beyond the first `fragment` registers: (dim, stride) -> (size, register stride)."""
        out: dict[tuple[int, int], tuple[int, int]] = {}
        weight = 1
        for digit in layout.regs:
            size, stride, at = digit.size, digit.stride, weight
            if weight < fragment:
                inside = min(size, fragment // weight)
                if digit.dim != fragment_dim or size % inside or fragment % (weight * inside):
                    raise LayoutError(
                        f"the first {fragment} registers must move along coordinate {fragment_dim}: {layout}"
                    )
                size, stride, at = size // inside, stride * inside, weight * inside
            if size > 1:
                out[digit.dim, stride] = (size, at)
            weight *= digit.size
        return out

    in_a, in_b, in_c = steps(a, elements, 2), steps(b, elements, 1), steps(c, registers, 1)
    loops: list[MmaLoop] = []

    def pair(
        name: Literal["rows", "columns", "reduction"],
        left: dict[int, tuple[int, int]],
        right: dict[int, tuple[int, int]],
    ) -> list[tuple[int, int, int]]:
        if {s: v[0] for s, v in left.items()} != {s: v[0] for s, v in right.items()}:
            raise LayoutError(f"the register steps along the {name} differ: {left} and {right}")
        return [(size, at, right[stride][1]) for stride, (size, at) in sorted(left.items(), reverse=True)]

    def along(digits: dict[tuple[int, int], tuple[int, int]], dim: int) -> dict[int, tuple[int, int]]:
        return {stride: v for (d, stride), v in digits.items() if d == dim}

    for size, left, right in pair("rows", along(in_a, 1), along(in_c, 1)):
        loops.append(MmaLoop("rows", size, left, 0, right))
    for size, left, right in pair("columns", along(in_b, 2), along(in_c, 2)):
        loops.append(MmaLoop("columns", size, 0, left, right))
    for size, left, right in pair("reduction", along(in_a, 2), along(in_b, 1)):
        loops.append(MmaLoop("reduction", size, left, right, 0))
    if any(d == 0 for digits in (in_a, in_b, in_c) for d, _ in digits):
        raise LayoutError("the batch coordinate of a product must be spread over waves")
    return loops


def _check_fragment(instruction: MatrixInstruction, a: Layout, b: Layout, c: Layout) -> None:
    """Raise LayoutError unless one operand of A and B and one accumulator of C are laid out as the instruction says.

    A coordinate is a sum of what the wave, the lane and the register number add to it, so each is looked at alone.
    """
    m, n, elements, registers = instruction.m, instruction.n, instruction.elements, instruction.registers
    waves, lanes = ([layout.size(home) for layout in (a, b, c)] for home in HOMES[:2])
    if any(count != instruction.lanes for count in lanes):
        raise LayoutError(f"the operands use {lanes[0]}, {lanes[1]} and {lanes[2]} lanes")
    if any(count not in (1, max(waves)) for count in waves):
        raise LayoutError("the operands use different numbers of waves")

    def expect(ok: bool, what: str) -> None:
        if not ok:
            raise LayoutError(f"{instruction.name}: {what}\n  A: {a}\n  B: {b}\n  C: {c}")

    for layout in (a, b):
        if layout.registers % elements:
            raise LayoutError(f"{layout.registers} registers do not split into operands of {elements}: {layout}")
    lane, each = range(lanes[0]), instruction.copies
    row_of_a, row_of_c = a.shares("lane", 1), c.shares("lane", 1)
    column_of_b, column_of_c = b.shares("lane", 2), c.shares("lane", 2)
    index_in_a, index_in_b = a.shares("lane", 2), b.shares("lane", 1)
    expect(all(row_of_a[x] == row_of_a[x % m] for x in lane), "a row of A must depend on lane % m alone")
    expect(all(column_of_b[x] == column_of_b[x % n] for x in lane), "a column of B must depend on lane % n alone")
    expect(all(column_of_c[x] == column_of_c[x % n] for x in lane), "a column of C must depend on lane % n alone")
    alone = "the lane group alone" if each == 1 else f"the lane group, of which {each} count as one, alone"
    expect(
        all(index_in_a[x] == index_in_a[x - x % (m * each)] for x in lane),
        f"the reduction index of A must depend on {alone}",
    )
    expect(
        all(index_in_b[x] == index_in_b[x - x % (n * each)] for x in lane),
        f"the reduction index of B must depend on {alone}",
    )
    for layout, dim, what in ((a, 1, "row of A"), (b, 2, "column of B")):
        expect(not any(layout.shares("regs", dim, elements)), f"an operand holds one {what} a lane")
    expect(not any(c.shares("regs", 2, registers)), "an accumulator holds one column of C a lane")
    expect(
        index_in_a[::m] == index_in_b[::n] and a.shares("regs", 2, elements) == b.shares("regs", 1, elements),
        "A and B must hold the same reduction index in each lane group",
    )
    expect(column_of_c[:n] == column_of_b[:n], "the columns of C must be those of B")
    in_group = c.shares("regs", 1, registers)
    written = {
        instruction.result_place(x, r)[0]: row_of_c[x] + row for x in lane[::n] for r, row in enumerate(in_group)
    }
    same = all(written.get(i) == row_of_a[i] for i in range(m))
    expect(same, "the rows of C must be the rows that A holds in these lanes")
    for layout, dim in ((a, 2), (b, 1)):
        expect(all(d.dim != dim for d in layout.wave), "the reduction index may not be spread over waves")
    for layout, dim, what in ((a, 1, "rows"), (b, 2, "columns")):
        expect(
            layout.shares("wave", dim, max(waves)) == c.shares("wave", dim, max(waves)),
            f"a wave of C must hold the {what} that its operands hold",
        )
    for layout in (a, b):
        if layout.shape[0] != 1:
            same = layout.shares("wave", 0, max(waves)) == c.shares("wave", 0, max(waves))
            expect(same, "the batch of an operand must be the batch of C")
