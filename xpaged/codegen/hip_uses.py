"""Who uses the values of a kernel: how often each is written in the text, and until when its variable is needed."""

from collections.abc import Container

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from xpaged.dialects import hip

_TRANSPARENT: frozenset[type[Operation]] = frozenset((arith.ConstantOp, hip.SplatOp, hip.SliceOp))


def is_transparent(op: Operation) -> bool:
    """Whether an operation is never named: what it makes of a name is as short as the name."""
    return type(op) in _TRANSPARENT


class Uses:
    """The uses of the values of `block` (and of the blocks inside it). Operations of the types `expressions` that
    nobody uses are dead, and so are their uses of others."""

    def __init__(self, block: Block | None = None, expressions: Container[type[Operation]] = ()) -> None:
        self._dead: set[Operation] = set()
        if block is not None:
            self._find_dead(block, expressions)

    def of(self, value: SSAValue) -> list[Operation]:
        """The operations that use a value; transparent ones stand for their own uses."""
        found: list[Operation] = []
        for use in value.uses:
            op = use.operation
            if op not in self._dead:
                found += self.of(op.results[0]) if is_transparent(op) else [op]
        return found

    def _find_dead(self, block: Block, expressions: Container[type[Operation]]) -> None:
        for op in reversed(tuple(block.ops)):
            for region in op.regions:
                for inner in region.blocks:
                    self._find_dead(inner, expressions)
            if type(op) in expressions and all(use.operation in self._dead for r in op.results for use in r.uses):
                self._dead.add(op)


def is_last(value: SSAValue, op: Operation) -> bool:
    """Whether nobody needs `value`, which belongs to the block of `op`, behind `op`: its variable may change there."""
    owner = value.owner if isinstance(value.owner, Block) else value.owner.parent
    block = op.parent
    if owner is not block or block is None:
        return False
    behind = False
    users: list[Operation] = []
    todo = [value]
    while todo:
        for use in todo.pop().uses:
            users.append(use.operation)
            if is_transparent(use.operation):
                todo.append(use.operation.results[0])
    tops = {_in_block(user, block) for user in users}
    for other in block.ops:
        if behind and other in tops:
            return False
        behind = behind or other is op
    # Inside a loop the value is gone after the first turn, and a second initial value needs a variable of its own.
    return not isinstance(op, scf.ForOp) or sum(_in_block(user, block) is op for user in users) == 1


def _in_block(op: Operation, block: Block) -> Operation:
    """The operation of `block` that `op` is, or lies in."""
    while op.parent is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op
