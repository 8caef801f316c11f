"""Architectures: the table, and which one a module or a command line asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpaged.arch.table import DEFAULT_ARCH, Arch, MatrixInstruction, archs, get_arch
from xpaged.errors import XpagedError

if TYPE_CHECKING:
    from xdsl.ir import Operation

ARCH_ATTRIBUTES = ("arch", "mhal.arch", "rock.arch")

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
    """The architecture that an operation, or the nearest one around or inside it, names in one of ARCH_ATTRIBUTES."""
    named = _named(op)
    return named[1] if named is not None else None


def _named(op: Operation) -> tuple[Operation, str] | None:
    """The operation that says the architecture of `op`, and what it says."""
    from xdsl.dialects.builtin import StringAttr

    around = [op]
    while (parent := around[-1].parent_op()) is not None:
        around.append(parent)
    for each in (*around, *op.walk()):
        for name in ARCH_ATTRIBUTES:
            value = each.attributes.get(name)
            if isinstance(value, StringAttr):
                return each, value.data
    return None


def _arch_in(op: Operation) -> Arch | None:
    """The architecture of `op`; None when nothing says it. A refusal points to the operation that names it."""
    named = _named(op)
    if named is None:
        return None
    try:
        return get_arch(named[1])
    except XpagedError as err:
        raise err.locate(named[0]) from None


def arch_of_function(function: Operation) -> Arch:
    """The architecture that a kernel is lowered for; the default one when neither it nor its module says.

    Raises XpagedError for an architecture that is unknown or has no matrix instructions.
    """
    return _arch_in(function) or get_arch(DEFAULT_ARCH)


def arch_of(module: Operation, override: str | None = None) -> tuple[Arch, list[str]]:
    """The architecture of a module, `override` first, and notes for the user (the default was taken)."""
    if override is not None:
        return get_arch(override), []
    if (arch := _arch_in(module)) is not None:
        return arch, []
    return get_arch(DEFAULT_ARCH), [f"the module names no architecture: taking {DEFAULT_ARCH} (change it with --arch)"]
