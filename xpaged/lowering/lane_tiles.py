"""What one lane holds of a tile: nothing but an index expression, one value, or a register array.

Elements are asked for by their coordinates, given as expressions over the digits of the register number (the lane's
and wave's share of the coordinates is left out), so tiles of different layouts can be read side by side.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import AnyFloat, VectorType, i8, i32
from xdsl.ir import Attribute, SSAValue

from xpaged.dialects.hip import GetOp, RegsOp, SetOp, SliceOp, SplatOp, VectorOp, lanes_of
from xpaged.dialects.rock.tile_type import TileType
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.layout import Digit, Layout
from xpaged.lowering.emitter import Emitter

Coordinates = Sequence[IndexExpr]


def vector_size(tile: TileType) -> int:
    """Elements of one register vector: neighbouring registers for numbers that matrix instructions take or make, single
    ones for masks."""
    return tile.layout.vector if isinstance(tile.element_type, AnyFloat) or tile.element_type in (i8, i32) else 1


def register_type(tile: TileType) -> Attribute:
    """The type of one element of the register array of a tile."""
    size = vector_size(tile)
    return tile.element_type if size == 1 else VectorType(tile.element_type, [size])


@dataclass(frozen=True)
class IndexTile:
    """A tile of i32 that is an affine function of its coordinates: nothing is stored."""

    tile: TileType
    base: IndexExpr  # the lane's own share of the coordinates included
    strides: tuple[int, ...]
    hint: str | None = None

    def element(self, emitter: Emitter, at: Coordinates) -> SSAValue:
        """The element at these register coordinates."""
        return emitter.index(self.expression(at), hint=self.hint)

    def expression(self, at: Coordinates) -> IndexExpr:
        """The element as an expression."""
        total = self.base
        for coordinate, stride in zip(at, self.strides, strict=True):
            total = total + coordinate * stride
        return total


@dataclass(frozen=True)
class ScalarTile:
    """A tile of which every lane holds one element."""

    tile: TileType
    value: SSAValue

    def element(self, emitter: Emitter, at: Coordinates) -> SSAValue:
        """The one element."""
        return self.value


@dataclass(frozen=True)
class RegsTile:
    """A tile in a register array."""

    tile: TileType
    regs: SSAValue

    def number(self, at: Coordinates) -> IndexExpr:
        """The register number of the element at these coordinates."""
        number, weight = IndexExpr.const(0), 1
        for digit in self.tile.layout.regs:
            number = number + at[digit.dim] // digit.stride % digit.size * weight
            weight *= digit.size
        return number

    def element(self, emitter: Emitter, at: Coordinates) -> SSAValue:
        """One element."""
        size = vector_size(self.tile)
        number = self.number(at)
        index = emitter.index(number // size)
        if size == 1:
            return emitter.value(GetOp(self.regs, index))
        return emitter.value(GetOp(self.regs, index, emitter.index(number % size)))

    def vector(self, emitter: Emitter, number: IndexExpr) -> SSAValue:
        """The vector that begins at register `number`."""
        return emitter.value(GetOp(self.regs, emitter.index(number // vector_size(self.tile))))

    def put(self, emitter: Emitter, value: SSAValue, number: IndexExpr) -> None:
        """Set the vector (or the element) that begins at register `number`."""
        size = vector_size(self.tile)
        index = emitter.index(number // size)
        if size > 1 and lanes_of(value.type) == 1:
            emitter.insert(SetOp(value, self.regs, index, emitter.index(number % size)))
        else:
            emitter.insert(SetOp(value, self.regs, index))


LaneTile = IndexTile | ScalarTile | RegsTile


def new_registers(emitter: Emitter, tile: TileType, hint: str | None) -> RegsTile:
    """A fresh register array for a tile, in the innermost scope."""
    count = tile.layout.registers // vector_size(tile)
    return RegsTile(tile, emitter.value(RegsOp(count, register_type(tile)), hint=hint))


@contextmanager
def register_loops(
    emitter: Emitter, layout: Layout, *, skip: int = 0, outer: Sequence[Digit] = ()
) -> Generator[tuple[list[IndexExpr], IndexExpr]]:
    """Unrolled loops over the register digits from `skip` on; yields their coordinates and the register number.

    Digits in `outer` become the outermost loops.  Without digits there is no loop.
    """
    weights = [prod(d.size for d in layout.regs[:i]) for i in range(len(layout.regs))]
    todo = list(zip(layout.regs, weights, strict=True))[skip:]
    todo = [t for t in todo if t[0] in outer] + [t for t in reversed(todo) if t[0] not in outer]
    at = [IndexExpr.const(0) for _ in layout.shape]
    number = IndexExpr.const(0)
    with ExitStack() as stack:
        for (digit, weight), name in zip(todo, "ijuvxyz", strict=False):
            variable, _ = stack.enter_context(emitter.loop(name, digit.size, unroll=True))
            at[digit.dim] = at[digit.dim] + variable * digit.stride
            number = number + variable * weight
        yield at, number


def join(emitter: Emitter, parts: Sequence[SSAValue]) -> SSAValue:
    """Vectors or scalars put one behind the other; a single one stays as it is."""
    return parts[0] if len(parts) == 1 else emitter.value(VectorOp(parts))


def splat(emitter: Emitter, value: SSAValue, lanes: int) -> SSAValue:
    """A scalar as a vector of `lanes` (itself for 1)."""
    return value if lanes == 1 else emitter.value(SplatOp(value, lanes))


def cut(emitter: Emitter, vector: SSAValue, offset: int, lanes: int) -> SSAValue:
    """Elements `offset .. offset + lanes - 1` of a vector."""
    if lanes_of(vector.type) == lanes:
        return vector
    return emitter.value(SliceOp(vector, offset, lanes))
