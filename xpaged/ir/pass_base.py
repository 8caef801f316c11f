"""The base of every lowering pass: the level that it takes and the level that it leaves are checked."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException

from xpaged.errors import XpagedError
from xpaged.ir.levels import Level, check_level
from xpaged.ir.verify import verify


@dataclass(frozen=True)
class LevelPass(ModulePass):
    """
    A pass between levels. Subclasses are frozen dataclasses whose fields are the pass's options; they set `name`,
    `takes` and `leaves` and implement `run`. A level of None is not checked: the module is between levels there.
    """

    takes: ClassVar[Level | None] = None
    leaves: ClassVar[Level | None] = None

    @abstractmethod
    def run(self, ctx: Context, module: ModuleOp) -> None:
        """Rewrite `module` in place. Raises XpagedError when it refuses."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Check the level taken, run, verify, check the level left. Raises XpagedError that names the pass."""
        self.apply_in_sequence(ctx, op)
        try:
            verify(op)
        except XpagedError as err:
            err.during = err.during or self.name
            raise

    def apply_in_sequence(self, ctx: Context, op: ModuleOp) -> None:
        """As `apply`, for a caller that verifies the module itself after the last of several passes."""
        try:
            if self.takes is not None:
                check_level(op, self.takes)
            self.run(ctx, op)
            if self.leaves is not None:
                check_level(op, self.leaves)
        except XpagedError as err:
            err.during = err.during or self.name
            raise
        except DiagnosticException as err:
            raise XpagedError(f"pass '{self.name}' built something that does not verify: {err}", at=op) from err
