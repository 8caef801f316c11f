"""The order of the passes: for each level, those that leave it for the next one."""

from typing import TYPE_CHECKING

from xpaged.ir.levels import MODULE_LEVELS, Level

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

PATH: dict[Level, tuple[str, ...]] = {
    Level.MIGRAPHX: ("migraphx-to-tosa",),
    Level.TOSA: ("tosa-to-rock-deref", "tosa-to-rock", "detect-flash-decoding"),
    Level.ROCK: ("bufferize",),
    Level.ROCK_MEMREF: (
        "sort-dimensions-memory-layout",
        "detect-flash-decoding",
        "outline-kernels",
        "affix-tuning-params",
        "gemm-to-gridwise",
    ),
    Level.GRIDWISE: ("gridwise-to-tile", "place-barriers"),
    Level.TILE: ("tile-to-device",),
    Level.DEVICE: (),
}


def passes_between(src: Level, dst: Level) -> list[str]:
    """The names of the passes that take a module from level `src` to level `dst`, in order."""
    return [name for level in MODULE_LEVELS if src <= level < dst for name in PATH[level]]


def lower(module: "ModuleOp", to: Level, arch: object = None) -> "ModuleOp":
    """
    Lower `module` in place from the level that it stands at to level `to`, and return it.

    `arch` (a name or an Arch) replaces the architecture that the module names. Every pass checks its levels; the
    module is verified after the last one. Arguments that are written get `rock.output`, and
    functions for the host are left behind where kernels are made.

    Raises XpagedError when it stands below `to` already, or a pass refuses it.
    """
    from xpaged.context import context
    from xpaged.errors import XpagedError
    from xpaged.ir.levels import level_of
    from xpaged.ir.pass_base import LevelPass
    from xpaged.ir.verify import verify
    from xpaged.lowering.kernel import kernels_of
    from xpaged.lowering.outputs import mark_outputs
    from xpaged.passes import get_all_passes

    here = level_of(module)
    if here > to:
        raise XpagedError(f"the module stands at level {here.value}, which is past {to.value}", at=module)
    if arch is not None:
        set_arch(module, getattr(arch, "name", arch))
    if to > Level.ROCK_MEMREF:
        drop_host_functions(module)
    if here in (Level.ROCK_MEMREF, Level.GRIDWISE) and here < to:
        for function in kernels_of(module):
            mark_outputs(function)
    ctx, passes = context(), get_all_passes()
    for name in passes_between(here, to):
        each = passes[name]()()
        assert isinstance(each, LevelPass)
        each.apply_in_sequence(ctx, module)
    verify(module)
    return module


def drop_host_functions(module: "ModuleOp") -> None:
    """Erase the functions of a module that are for the host."""
    from xpaged.lowering.kernel import is_host

    hosts = [op for op in module.walk() if is_host(op)]
    for op in hosts:  # they call each other
        op.detach()
    for op in hosts:
        op.erase()


def set_arch(module: "ModuleOp", arch: object) -> None:
    """Write the architecture on every kernel of a module, where the passes look for it."""
    from xdsl.dialects.builtin import StringAttr
    from xdsl.dialects.func import FuncOp

    for op in module.walk():
        if isinstance(op, FuncOp):
            op.attributes["arch"] = StringAttr(str(arch))
