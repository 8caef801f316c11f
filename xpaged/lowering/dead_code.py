"""Erases what nothing uses, after a pass has replaced the values that it was computed for."""

from xdsl.ir import Operation
from xdsl.transforms.dead_code_elimination import is_trivially_dead


def erase_dead(root: Operation) -> None:
    """Erase every operation inside `root` that has no effect and no use, those only used by such ones included."""
    for op in reversed(list(root.walk())):
        if op is not root and op.parent is not None and is_trivially_dead(op):
            op.detach()
            op.erase()
