"""Greedy pattern rewriting: the only place that touches xDSL's pattern walker."""

from collections import deque
from collections.abc import Sequence

from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.transforms.dead_code_elimination import is_trivially_dead

from xpaged.errors import XpagedError
from xpaged.ir.locations import copy_location


class _Escape(BaseException):
    """Carries an exception past the walker, which would print the whole module into it."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class _Patterns(RewritePattern):
    """The first pattern that acts wins; new operations get the location of the matched one; rewrites are counted."""

    def __init__(self, patterns: Sequence[RewritePattern], dce: bool, name: str, cap: int) -> None:
        self.patterns = patterns
        self.dce = dce
        self.name = name
        self.cap = cap
        self.rewrites = 0
        self.last: deque[str] = deque(maxlen=3)

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if self.dce and is_trivially_dead(op):
            rewriter.erase(op)
            return
        location = op.location

        def keep_location(new: Operation) -> None:
            copy_location(location, new)

        rewriter.operation_insertion_handler.append(keep_location)
        try:
            for pattern in self.patterns:
                pattern.match_and_rewrite(op, rewriter)
                if rewriter.has_done_action:
                    self._count(pattern)
                    return
        except Exception as err:
            raise _Escape(err) from err
        finally:
            rewriter.operation_insertion_handler.remove(keep_location)

    def _count(self, pattern: RewritePattern) -> None:
        self.rewrites += 1
        self.last.append(type(pattern).__name__)
        if self.rewrites > self.cap:
            raise XpagedError(
                f"{self.name} does not come to an end: {self.rewrites} rewrites",
                found=f"the last patterns that fired: {', '.join(self.last)}",
                expected=f"at most {self.cap}",
                fix="this is a mistake in the patterns, which undo each other",
            )


def greedy(op: Operation, patterns: Sequence[RewritePattern], *, dce: bool, name: str) -> bool:
    """
    Apply `patterns` inside `op` until none acts; returns whether anything changed.

    `dce` says whether operations that are unused and free of effects are erased on the way. `name` is what an error
    calls the rewriting (the pass). Operations that a pattern inserts without a location get that of the operation
    that it matched. Raises XpagedError when the patterns do not come to an end.
    """
    cap = 1000 + 10 * sum(1 for _ in op.walk())
    applier = _Patterns(patterns, dce, name, cap)
    walker = PatternRewriteWalker(applier)
    changed = False
    try:
        for region in op.regions:
            changed |= walker.rewrite_region(region)
    except _Escape as escape:
        raise escape.error from None
    return changed
