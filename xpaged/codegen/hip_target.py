"""The target `hip` of `xpaged opt` and of stock `xdsl-opt`: HIP C++ of a module of any level."""

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target


@dataclass(frozen=True)
class HipTarget(Target):
    """Lowers what is left to level device and prints it, as `-t 'hip{arch=gfx942}'`."""

    name = "hip"

    arch: str | None = None
    """The architecture; without it the module's own, else the default one."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Write the HIP text of `module`. Raises XpagedError when a pass refuses it."""
        from xpaged.driver import compile

        output.write(compile(module, self.arch, emit=("hip",)).hip or "")
