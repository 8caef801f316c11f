"""Register tiles: `!rock.tile<1x64x16xf16, #rock.layout<...>>`, a value spread over the lanes of a workgroup."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xpaged.ir.layout import COPY, HOMES, Digit, Layout, LayoutError


@irdl_attr_definition
class LayoutAttr(Data[tuple[tuple[Digit, ...], tuple[Digit, ...], tuple[Digit, ...]]]):
    """The digits of a register layout (see `xpaged.ir.layout`); the tile type gives the shape."""

    name = "rock.layout"

    @staticmethod
    def of(layout: Layout) -> LayoutAttr:
        """The attribute of a layout."""
        return LayoutAttr((layout.wave, layout.lane, layout.regs))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[Digit, ...], tuple[Digit, ...], tuple[Digit, ...]]:
        with parser.in_angle_brackets():
            homes: list[tuple[Digit, ...]] = []
            for index, home in enumerate(HOMES):
                if index:
                    parser.parse_punctuation(",")
                parser.parse_keyword(home)
                parser.parse_punctuation("=")
                homes.append(
                    tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_digit(parser)))
                )
            return homes[0], homes[1], homes[2]

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(
                ", ".join(
                    f"{home} = [{', '.join(map(str, digits))}]" for home, digits in zip(HOMES, self.data, strict=True)
                )
            )


def _parse_digit(parser: AttrParser) -> Digit:
    size = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_punctuation("->")
    where = parser.parse_identifier(context_msg=": a coordinate (d0, d1, ...) or 'copy'")
    if where == "copy":
        return Digit(size)
    if not (where.startswith("d") and where[1:].isdigit()):
        parser.raise_error(f"expected a coordinate (d0, d1, ...) or 'copy', found '{where}'")
    stride = 1
    if parser.parse_optional_punctuation("*") is not None:
        stride = parser.parse_integer(allow_boolean=False, allow_negative=False)
    return Digit(size, int(where[1:]), stride)


@irdl_attr_definition
class TileType(ParametrizedAttribute, TypeAttribute):
    """A tile in registers: shape, element type and layout."""

    name = "rock.tile"
    shape: ArrayAttr[IntAttr] = param_def()
    element_type: Attribute = param_def()
    layout_attr: LayoutAttr = param_def()

    @staticmethod
    def of(element_type: Attribute, layout: Layout) -> TileType:
        """The type of a tile of `layout.shape`."""
        shape = ArrayAttr([IntAttr(n) for n in layout.shape])
        return TileType(shape, element_type, LayoutAttr.of(layout))  # pyright: ignore[reportCallIssue]

    def get_shape(self) -> tuple[int, ...]:
        """The extents of the tile."""
        return tuple(n.data for n in self.shape)

    @property
    def layout(self) -> Layout:
        """The layout, with the shape."""
        return Layout(self.get_shape(), *self.layout_attr.data)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            shape = parser.parse_dimension_list()
            parser.parse_shape_delimiter()
            element = parser.parse_type()
            parser.parse_punctuation(",")
            layout = parser.parse_attribute()
            if not isinstance(layout, LayoutAttr):
                parser.raise_error(f"expected a #rock.layout, found {layout}")
            return ArrayAttr([IntAttr(n) for n in shape]), element, layout

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_dimension_list(self.get_shape())
            printer.print_string("x")
            printer.print_attribute(self.element_type)
            printer.print_string(", ")
            printer.print_attribute(self.layout_attr)

    def verify(self) -> None:
        try:
            self.layout.verify()
        except LayoutError as error:
            raise VerifyException(f"rock.tile: {error}") from error


__all__ = ["COPY", "TILE_ATTRS", "LayoutAttr", "TileType"]
TILE_ATTRS = [LayoutAttr, TileType]
