"""Where a lane's piece of a tile lies: the buffer or page, the offset in it, and when the element exists.

Everything is decided on index expressions: a run of neighbouring elements may be one vector access when the page does
not depend on the position in the run, the offset grows by one with it, starts at a multiple of the run, and the
element exists for all of the run or for none of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from xpaged.dialects.rock.views import chain_of
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.transform_map import apply_chain

Condition = tuple[IndexExpr, int, int]


@dataclass(frozen=True)
class Place:
    """One element: its offset (in elements) in a buffer, or in the page that entry `entry` of `base` points to."""

    base: SSAValue  # the buffer, or the page table
    entry: IndexExpr | None  # which page-table entry; None without a page table
    entries: int  # how many the table has
    offset: IndexExpr
    conditions: tuple[Condition, ...]


def _linear(type_: MemRefType, coordinates: Sequence[IndexExpr]) -> IndexExpr:
    offset = IndexExpr.const(0)
    for extent, coordinate in zip(type_.get_shape(), coordinates, strict=True):
        offset = offset * extent + coordinate
    return offset


def place_of(view: SSAValue, coordinates: Sequence[IndexExpr]) -> Place:
    """Where the element of `view` at `coordinates` lies."""
    chain = chain_of(view)
    lower, conditions = apply_chain(chain.maps, coordinates)
    if chain.deref is None:
        assert isinstance(chain.root.type, MemRefType)
        return Place(chain.root, None, 0, _linear(chain.root.type, lower), tuple(conditions))
    batch, page, offset = lower
    table = chain_of(chain.deref.table)
    at, more = apply_chain(table.maps, [batch, page, IndexExpr.const(0)])
    assert isinstance(table.root.type, MemRefType)
    size = 1
    for extent in table.root.type.get_shape():
        size *= extent
    return Place(table.root, _linear(table.root.type, at), size, offset, (*conditions, *more))


def _divides(expr: IndexExpr, width: int) -> bool:
    return expr.const_term % width == 0 and all(coefficient % width == 0 for _, coefficient in expr.terms)


def _whole(condition: Condition, run: IndexExpr, width: int) -> Condition | None:
    """The condition for the start of a run of `width` elements, None when the run may be cut by it."""
    expr, lo, hi = condition
    (name,) = run.variables()
    if not expr.depends_on(name):
        return condition
    start = expr - run
    if start.depends_on(name) or not _divides(start, width) or lo % width or hi % width:
        return None
    return start, lo, hi


def run_at(place: Place, run: IndexExpr, width: int) -> Place | None:
    """The place of a run of `width` elements as one access, where `run` is the variable 0 .. width - 1; None when the
    elements are not one aligned, unbroken piece of memory."""
    if width == 1:
        return place
    (name,) = run.variables()
    if place.entry is not None and place.entry.depends_on(name):
        return None
    start = place.offset - run
    if start.depends_on(name) or not _divides(start, width):
        return None
    conditions = [_whole(c, run, width) for c in place.conditions]
    if any(c is None for c in conditions):
        return None
    return Place(place.base, place.entry, place.entries, start, tuple(c for c in conditions if c is not None))
