"""Inserting operations that keep the location of what they stand for."""

from xdsl.builder import Builder
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint

from xpaged.ir.locations import copy_location


def builder_before(op: Operation, source: Operation | None = None) -> Builder:
    """A builder that inserts before `op` and gives what it inserts the location of `source` (else of `op`)."""
    origin = op if source is None else source

    def located(new: Operation) -> None:
        copy_location(origin, new)

    return Builder(InsertPoint.before(op), operation_insertion_handler=[located])
