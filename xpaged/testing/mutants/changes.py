"""Changing IR in place and taking the change back: a mutant costs no copy of its kernel."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter


class Change:
    """What was changed, so that `undo` can restore it."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def undo(self) -> None:
        """Takes everything back, the last change first."""
        while self._undo:
            self._undo.pop()()

    def operand(self, op: Operation, index: int, value: SSAValue) -> None:
        """Another operand."""
        before = op.operands[index]
        op.operands[index] = value
        self._undo.append(lambda: op.operands.__setitem__(index, before))

    def swap(self, op: Operation, a: int, b: int) -> None:
        """Two operands change places."""
        first, second = op.operands[a], op.operands[b]
        self.operand(op, a, second)
        self.operand(op, b, first)

    def property(self, op: Operation, name: str, value: Attribute) -> None:
        """Another property."""
        before = op.properties[name]
        op.properties[name] = value
        self._undo.append(lambda: op.properties.__setitem__(name, before))

    def insert(self, op: Operation, ops: list[Operation], *, after: bool = False) -> None:
        """New operations before (or after) `op`."""
        Rewriter.insert_op(ops, InsertPoint.after(op) if after else InsertPoint.before(op))

        def erase() -> None:
            for each in reversed(ops):
                each.detach()
                each.erase()

        self._undo.append(erase)

    def uses(self, old: SSAValue, new: SSAValue, but: Operation | None = None) -> None:
        """`new` in the place of `old`, except in operation `but`."""
        for use in list(old.uses):
            if use.operation is not but:
                self.operand(use.operation, use.index, new)

    def remove(self, op: Operation) -> None:
        """An operation without results goes."""
        block, behind = op.parent, op.next_op
        assert block is not None
        op.detach()

        def put_back() -> None:
            if behind is None:
                block.add_op(op)
            else:
                block.insert_op_before(op, behind)

        self._undo.append(put_back)

    def move(self, op: Operation, target: Operation, *, after: bool) -> None:
        """An operation goes before (or after) `target`."""
        self.remove(op)
        Rewriter.insert_op(op, InsertPoint.after(target) if after else InsertPoint.before(target))
        self._undo.append(lambda: op.detach())  # pyright: ignore[reportArgumentType]
