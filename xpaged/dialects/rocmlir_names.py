"""The names by which rocMLIR's custom TOSA operators are known: the only place where they are spelled."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Operation

DOMAIN = "rocmlir"
"""`domain_name` of every one of them."""
DEREF = "deref"
"""Reads the element at each 64-bit address."""
UNSIGNED_DIV = "unsigned_div"
"""The quotient of integers that are unsigned."""
UNSIGNED_CAST = "unsigned_cast"
"""A conversion from or to integers that are unsigned; from floats rounded toward zero, to the nearest that fits."""
FP_TO_INT_CAST = "fp_to_int_cast"
"""A conversion from floats to signed integers, rounded toward zero, to the nearest that fits."""


def is_deref(op: "Operation") -> bool:
    """Whether `op` is the `tosa.custom` operator that reads through addresses."""
    from xpaged.dialects.tosa.ops import CustomOp

    return isinstance(op, CustomOp) and (op.domain_name.data, op.operator_name.data) == (DOMAIN, DEREF)
