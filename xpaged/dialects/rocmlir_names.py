"""The names by which rocMLIR's custom TOSA operators are known: the only place where they are spelled."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Operation

DOMAIN = "rocmlir"
"""`domain_name` of every one of them."""
DEREF = "deref"
"""Reads the element at each 64-bit address."""


def is_deref(op: "Operation") -> bool:
    """Whether `op` is the `tosa.custom` operator that reads through addresses."""
    from xpaged.dialects.tosa.ops import CustomOp

    return isinstance(op, CustomOp) and (op.domain_name.data, op.operator_name.data) == (DOMAIN, DEREF)
