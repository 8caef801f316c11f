"""Bufferization as an interface: each operation says how it reads as memrefs, and where its results are to be put.

An operation takes part in one of two ways. Operations of ours inherit from `Bufferizable`; operations of xDSL get a
`BufferizationModel` (see `xpaged.ir.bufferization_models`). Either has two methods:

* `place(b)`, called from the last operation to the first: where the wanted place of a result is known, say where an
  operand should be put, so that no copy is needed in the end;
* `bufferize(b)`, called from the first operation to the last: build the form on memrefs and tell `b` which memref
  each result has become.

Operations that touch no tensor are left alone.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

from xdsl.builder import Builder
from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from xpaged.errors import XpagedError
from xpaged.ir.locations import copy_location

OpT = TypeVar("OpT", bound=Operation)


class Bufferizable(Operation, abc.ABC):
    """An operation of ours that can stand on tensors and on memrefs."""

    def place(self, b: Bufferization) -> None:
        """Say where operands should be put, given the places of the results. By default nothing is known."""
        del b

    @abc.abstractmethod
    def bufferize(self, b: Bufferization) -> None:
        """Build the operation on memrefs (`b.insert`) and give each result its memref (`b.set_buffer`)."""


class BufferizationModel(abc.ABC):
    """The same two methods for an operation that is not ours."""

    def place(self, op: Operation, b: Bufferization) -> None:
        """See `Bufferizable.place`."""
        del op, b

    @abc.abstractmethod
    def bufferize(self, op: Operation, b: Bufferization) -> None:
        """See `Bufferizable.bufferize`."""


def memref_type(type_: Attribute) -> Attribute:
    """The memref with identity layout for a tensor type; other types as they are.

    Raises XpagedError for a shape that is not static.
    """
    if not isinstance(type_, TensorType):
        return type_
    shape = type_.get_shape()
    if any(n < 0 for n in shape):
        raise XpagedError("a tensor without a static shape cannot become a memref", found=type_)
    return MemRefType(type_.element_type, shape)


def touches_tensors(op: Operation) -> bool:
    """Whether an operand or result of `op` is a tensor."""
    return any(isinstance(value.type, TensorType) for value in (*op.operands, *op.results))


@cache
def _models() -> dict[type[Operation], BufferizationModel]:
    from xpaged.ir.bufferization_models import MODELS

    return MODELS


@dataclass
class Bufferization:
    """The state while the body of one function goes from tensors to memrefs."""

    block: Block
    ops: list[Operation]
    """The operations of the block that touch tensors, in order."""
    _buffers: dict[SSAValue, SSAValue] = field(default_factory=dict)
    _places: dict[SSAValue, SSAValue] = field(default_factory=dict)
    _current: Operation | None = None
    _allocations: list[AllocOp] = field(default_factory=list)
    _views: Operation | None = None
    """The last operation that builds a place at the head of the block."""

    # What operations ask and tell

    def buffer(self, value: SSAValue) -> SSAValue:
        """The memref that a tensor has become; a value that is no tensor (any more) is its own."""
        return self._buffers[value] if isinstance(value.type, TensorType) else value

    def buffers(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """`buffer` of each."""
        return [self.buffer(value) for value in values]

    def set_buffer(self, value: SSAValue, memref: SSAValue) -> None:
        """The tensor `value` is the memref `memref` from now on."""
        self._buffers[value] = memref
        if memref.name_hint is None:
            memref.name_hint = value.name_hint

    def place_of(self, value: SSAValue) -> SSAValue | None:
        """The memref that the tensor `value` should be written into, when one is wanted."""
        return self._places.get(value)

    def set_place(self, value: SSAValue, memref: SSAValue) -> None:
        """The tensor `value` should be written into `memref`; the first to ask wins."""
        self._places.setdefault(value, memref)

    def is_in_place(self, value: SSAValue) -> bool:
        """Whether the tensor `value` has been written into the place that was wanted for it."""
        return value in self._places and self._buffers.get(value) is self._places[value]

    def result_buffer(self, value: SSAValue) -> SSAValue:
        """The memref for a result that an operation writes in full: its place, or a new allocation."""
        place = self._places.get(value)
        if place is None:
            alloc = AllocOp([], [], memref_type(value.type))
            self._allocations.append(alloc)
            place = self.insert(alloc).memref
        self.set_buffer(value, place)
        return place

    def insert(self, op: OpT) -> OpT:
        """Insert an operation in place of the one that is being bufferized; it gets that one's location."""
        assert self._current is not None
        Builder(InsertPoint.before(self._current)).insert(op)
        copy_location(self._current, op)
        return op

    def insert_at_head(self, op: OpT) -> OpT:
        """Insert an operation that depends on arguments only, at the head of the function."""
        if self._views is None:
            first = self.block.first_op
            point = InsertPoint.at_end(self.block) if first is None else InsertPoint.before(first)
        else:
            point = InsertPoint.after(self._views)
        Builder(point).insert(op)
        self._views = op
        return op

    # What drives them

    def run(self) -> None:
        """Bufferize `ops`, in order. Raises XpagedError that names an operation which has no form on memrefs."""
        for op in reversed(self.ops):
            self._dispatch(op, "place")
        for op in self.ops:
            self._current = op
            self._dispatch(op, "bufferize")

    def erase(self) -> None:
        """Erase the operations on tensors, and allocations that nothing uses."""
        for op in reversed(self.ops):
            op.detach()
            op.erase()
        for alloc in self._allocations:
            if not alloc.memref.uses:
                alloc.detach()
                alloc.erase()

    def _dispatch(self, op: Operation, phase: str) -> None:
        if isinstance(op, Bufferizable):
            op.place(self) if phase == "place" else op.bufferize(self)
            return
        model = _models().get(type(op))
        if model is None:
            raise XpagedError(
                f"'{op.name}' has no form on memrefs",
                at=op,
                expected="views, attention, linalg.generic, or tensor operations that only reshape",
            )
        model.place(op, self) if phase == "place" else model.bufferize(op, self)
