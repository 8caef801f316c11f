"""What the printing of one kernel's expressions needs to know, and the C types of values."""

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    VectorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xpaged.arch.table import Arch
from xpaged.codegen import c_expr as c
from xpaged.codegen.c_expr import Expr
from xpaged.codegen.hip_offsets import Offsets
from xpaged.codegen.hip_prelude import Prelude, vector_type
from xpaged.codegen.ranges import Ranges
from xpaged.dialects.hip import element_of, lanes_of
from xpaged.errors import XpagedError

_INTEGERS = {1: "bool", 8: "i8", 16: "i16", 32: "int", 64: "i64"}
_BYTES = {"bool": 1, "i8": 1, "i16": 2, "int": 4, "i64": 8, "f16": 2, "bf16": 2, "float": 4, "double": 8}


def c_type(type_: Attribute, at: Operation | SSAValue) -> str:
    """The C type of values of an IR type; refuses types that one lane's program cannot hold."""
    match type_:
        case IntegerType() if type_.width.data in _INTEGERS:
            return _INTEGERS[type_.width.data]
        case IndexType():
            return "i64"
        case Float16Type():
            return "f16"
        case BFloat16Type():
            return "bf16"
        case Float32Type():
            return "float"
        case Float64Type():
            return "double"
        case VectorType() if type_.get_num_dims() == 1 and not type_.get_num_scalable_dims():
            element = c_type(type_.element_type, at)
            if element != "bool":
                return vector_type(element, type_.get_shape()[0])
        case _:
            pass
    raise XpagedError("the HIP printer has no C type for this", at=at, found=type_)


def element_type(type_: Attribute, at: Operation | SSAValue) -> str:
    """The C type of the elements of a vector type, or of a scalar type itself."""
    return c_type(element_of(type_), at)


def size_of(type_: Attribute, at: Operation | SSAValue) -> int:
    """Bytes of a value of an IR type in memory."""
    return _BYTES[element_type(type_, at)] * lanes_of(type_)


class Context:
    """One kernel: its architecture and launch, what is known of its integers, and the prelude of its text."""

    def __init__(self, prelude: Prelude, ranges: Ranges, offsets: Offsets, arch: Arch, block: int) -> None:
        self.prelude = prelude
        self.ranges = ranges
        self.offsets = offsets
        self.arch = arch
        self.block = block
        self.read_only: frozenset[SSAValue] = frozenset()  # integer buffers that nobody writes
        self.page_bytes: int | None = None  # of the largest page, where it is known

    def type(self, value: SSAValue) -> str:
        """The C type of a value; the prelude defines it."""
        return self.prelude.type(c_type(value.type, value))

    def nonnegative(self, *values: SSAValue) -> bool:
        """Whether no value can be below zero."""
        return all(self.ranges.of(value).nonnegative for value in values)

    def signed(self, a: Expr, value: SSAValue) -> Expr:
        """An operand of an operation that looks at the sign."""
        return a if self.nonnegative(value) else c.signed(a)


Builder = Callable[[Context, Any, Sequence[Expr]], Expr]
"""Makes the expression of an operation of expressions of its operands."""


def unknown(op: Operation, what: str = "") -> XpagedError:
    """The refusal of an operation, or of a form of it."""
    return XpagedError(f"the HIP printer does not know {what or op.name}", at=op)


def converted(e: Context, a: Expr, type_: str, *, number: bool = False) -> Expr:
    """A float, or a vector of floats, in another precision; with `number` it is known to be no NaN."""
    lanes = int(type_.split("x")[1]) if "x" in type_ else 1
    single = "float" if lanes == 1 else vector_type("float", lanes)
    source, target = a.type.split("x")[0], type_.split("x")[0]
    if source == target:
        return a
    if source == "bf16":
        a = c.call(e.prelude.overload("widen", "bf16", a.type, 1, single), single, a)
        return converted(e, a, type_)
    if target == "bf16":
        a = converted(e, a, single)
        function = e.prelude.narrow(e.prelude.type(single), type_, number=number, whole=e.arch.converts_bf16)
        return c.call(function, type_, a)
    if lanes > 1:
        return c.call(f"{e.prelude.use('convert')}<{e.prelude.type(type_)}>", type_, a)
    return c.cast(type_, a)


def without_splats(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Vector operands of an operator: one of them may stay a scalar, which C spreads over the vector."""
    if b.scalar is not None and a.scalar is None:
        return a, b.scalar
    if a.scalar is not None and b.scalar is None:
        return a.scalar, b
    return a, b
