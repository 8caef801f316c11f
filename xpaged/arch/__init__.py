"""Architectures: the table, and which one a module or a command line asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpaged.arch.table import DEFAULT_ARCH, Arch, MatrixInstruction, archs, get_arch

if TYPE_CHECKING:
    from xdsl.ir import Operation

ARCH_ATTRIBUTES = ("arch", "mhal.arch")

__all__ = [
    "DEFAULT_ARCH",
    "Arch",
    "MatrixInstruction",
    "arch_name_of",
    "arch_of",
    "arch_of_function",
    "archs",
    "get_arch",
]


def arch_name_of(op: Operation) -> str | None:
    """The architecture that an operation, or the nearest one around or inside it, names in `arch` or `mhal.arch`."""
    from xdsl.dialects.builtin import StringAttr

    here: Operation | None = op
    while here is not None:
        for name in ARCH_ATTRIBUTES:
            value = here.attributes.get(name)
            if isinstance(value, StringAttr):
                return value.data
        here = here.parent_op()
    for inner in op.walk():
        for name in ARCH_ATTRIBUTES:
            value = inner.attributes.get(name)
            if isinstance(value, StringAttr):
                return value.data
    return None


def arch_of_function(function: Operation) -> Arch:
    """The architecture that a kernel is lowered for; the default one when neither it nor its module says.

    Raises XpagedError for an architecture that is unknown or has no matrix instructions.
    """
    return get_arch(arch_name_of(function) or DEFAULT_ARCH)


def arch_of(module: Operation, override: str | None = None) -> tuple[Arch, list[str]]:
    """The architecture of a module, `override` first, and notes for the user (the default was taken)."""
    if override is not None:
        return get_arch(override), []
    name = arch_name_of(module)
    if name is not None:
        return get_arch(name), []
    return get_arch(DEFAULT_ARCH), [f"the module names no architecture: taking {DEFAULT_ARCH} (change it with --arch)"]
