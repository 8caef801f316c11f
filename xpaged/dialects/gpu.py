"""xDSL's gpu dialect with `#gpu.address_space<workgroup>`, which names a memory in the type of a memref."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.gpu import GPU
from xdsl.ir import Data, Dialect
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from xpaged.dialects.rock.attrs import expect_identifier

SPACES = ("global", "workgroup", "private", "constant")


@irdl_attr_definition
class AddressSpaceAttr(Data[str]):
    """`#gpu.address_space<workgroup>`: where a memref lies."""

    name = "gpu.address_space"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        with parser.in_angle_brackets():
            start = parser.pos
            space = expect_identifier(parser, "an address space")
            if space not in SPACES:
                parser.raise_error(f"unknown address space '{space}', expected {', '.join(SPACES)}", start, parser.pos)
        return space

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)


Gpu = Dialect("gpu", [*GPU.operations], [*GPU.attributes, AddressSpaceAttr])
