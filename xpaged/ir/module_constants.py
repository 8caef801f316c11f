"""Constants of a module, which its functions get by name."""

from typing import Any, cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.traits import SymbolTable

from xpaged.errors import XpagedError


def global_of(op: memref.GetGlobalOp) -> memref.GlobalOp:
    """The constant that `op` gets. Raises XpagedError when the module has none of that name."""
    module = op.get_toplevel_object()
    found = SymbolTable.lookup_symbol(module, op.name_.string_value()) if isinstance(module, ModuleOp) else None
    if not isinstance(found, memref.GlobalOp):
        raise XpagedError("there is no constant of this name in the module", at=op, found=op.name_)
    return found


def elements_of(op: memref.GlobalOp) -> DenseIntOrFPElementsAttr[Any]:
    """The elements of a constant. Raises XpagedError for a variable, or one without elements."""
    if op.constant is None or not isinstance(op.initial_value, DenseIntOrFPElementsAttr):
        raise XpagedError("a kernel reads constants, not variables of the module", at=op, expected="constant elements")
    return cast("DenseIntOrFPElementsAttr[Any]", op.initial_value)
