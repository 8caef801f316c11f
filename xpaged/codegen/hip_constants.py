"""Constant tensors of a module as arrays of the text that its kernels read like buffers."""

import struct

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType

from xpaged.codegen import c_expr as c
from xpaged.codegen.c_text import Names, wrap
from xpaged.codegen.hip_context import c_type
from xpaged.codegen.hip_prelude import Prelude
from xpaged.ir import dense
from xpaged.ir.module_constants import elements_of, global_of


class Constants:
    """The constants that the kernels of one text have asked for."""

    def __init__(self, prelude: Prelude, names: Names) -> None:
        self._prelude, self._names = prelude, names
        self._known: dict[memref.GlobalOp, str] = {}
        self._texts: list[str] = []

    def name(self, op: memref.GetGlobalOp) -> str:
        """The name of the array that `op` gets; declares it. Raises XpagedError for one that the module lacks."""
        found = global_of(op)
        if found not in self._known:
            self._known[found] = self._names.new(found.sym_name.data)
            self._texts.append(self._declaration(found))
        return self._known[found]

    @property
    def text(self) -> str:
        """The declarations, each with an empty line behind."""
        return "".join(text + "\n\n" for text in self._texts)

    def _declaration(self, op: memref.GlobalOp) -> str:
        type_, elements = op.type, elements_of(op)
        assert isinstance(type_, MemRefType)
        element = c_type(type_.element_type, op)
        numbers = [_number(value, element) for value in dense.values(elements)]
        if any("NEG_INF" in number for number in numbers):
            self._prelude.use("NEG_INF")
        head = f"static __attribute__((device)) const {self._prelude.type(element)} {self._known[op]}[{len(numbers)}]"
        return "\n".join([f"{head} = {{", *wrap("  ", numbers, "};")])


def _number(value: int | float, element: str) -> str:
    if element == "bf16":
        return str(struct.unpack("<h", struct.pack("<f", value)[2:])[0])  # exactly representable: the upper half
    if element in c.SIGNED or isinstance(value, int):
        return c.integer(int(value), element).text
    return c.real(float(value), element).text
