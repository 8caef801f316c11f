"""Where an operation came from: its location attribute, and the text that it was parsed from."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, FusedLoc, LocationAttr, NameLoc, UnknownLoc
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue


class Source(NamedTuple):
    """A text that was parsed, and the name that locations give it."""

    filename: str
    text: str


_sources: "WeakKeyDictionary[Operation, Source]" = WeakKeyDictionary()


def set_source(module: Operation, source: Source | None) -> None:
    """Remember the text that `module` was parsed from, so that errors can show its lines."""
    if source is not None:
        _sources[module] = source


def source_of(op: Operation) -> Source | None:
    """The text that the outermost operation around `op` was parsed from, when it is known."""
    while (parent := op.parent_op()) is not None:
        op = parent
    return _sources.get(op)


def op_of(at: Operation | SSAValue | Attribute) -> Operation | None:
    """The operation that a value belongs to: its own, or the one around the block of a block argument."""
    if isinstance(at, Operation):
        return at
    if isinstance(at, SSAValue):
        owner = at.owner
        return owner.parent_op() if isinstance(owner, Block) else owner
    return None


def location_of(at: Operation | SSAValue) -> LocationAttr | None:
    """The location of an operation or value; None when it is unknown."""
    if isinstance(at, BlockArgument):
        location = at.location
        if isinstance(location, UnknownLoc):
            op = at.owner.parent_op()
            return None if op is None else location_of(op)
        return location
    op = op_of(at)
    if op is None or isinstance(op.location, UnknownLoc):
        return None
    return op.location


def describe(at: Operation | SSAValue | Attribute) -> str:
    """`file:line:col` of an operation, value or location attribute; empty when it is unknown."""
    location = location_of(at) if isinstance(at, Operation | SSAValue) else at
    match location:
        case FileLineColLoc():
            return f"{location.filename.data}:{location.line.data}:{location.column.data}"
        case NameLoc():
            return describe(location.location) or location.desc.data
        case CallSiteLoc():
            return describe(location.callee) or describe(location.caller)
        case FusedLoc():
            for part in getattr(location.locations, "data", ()):
                if text := describe(part):
                    return text
            return ""
        case _:
            return ""


def copy_location(src: Operation | LocationAttr, dst: Operation) -> None:
    """Give `dst`, and the operations inside it, the location `src` (or that of `src`) where they have none."""
    location = src.location if isinstance(src, Operation) else src
    if isinstance(location, UnknownLoc):
        return
    for op in dst.walk():
        if isinstance(op.location, UnknownLoc):
            op.location = location
