"""Operations on views: `rock.transform`, `rock.deref`, and the terminator `rock.yield`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, IntegerType, MemRefType, TensorType, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.rock.attrs import TransformMapAttr, parse_transform_map
from xpaged.ir.bufferizable import Bufferizable, Bufferization, memref_type
from xpaged.ir.transform_map import TransformMap

Shaped = MemRefType | TensorType
"""The types that rock's views and kernels are made of."""


def shaped_type(value: SSAValue, what: str) -> Shaped:
    """The memref or tensor type of `value`; VerifyException (naming `what`) for other types and dynamic shapes."""
    type_ = value.type
    if not isinstance(type_, Shaped):
        raise VerifyException(f"{what} must be a memref or a tensor, found {type_}")
    if any(n < 0 for n in type_.get_shape()):
        raise VerifyException(f"{what} must have a static shape, found {type_}")
    if any(n == 0 for n in type_.get_shape()):
        raise VerifyException(f"{what} must have no dimension of length 0, found {type_}")
    return type_


def like(type_: Shaped, shape: Sequence[int], element_type: Attribute | None = None) -> Shaped:
    """A tensor where `type_` is one, else a memref with identity layout, of `shape`."""
    element_type = element_type or type_.element_type
    return TensorType(element_type, shape) if isinstance(type_, TensorType) else MemRefType(element_type, shape)


def same_kind(a: Attribute, b: Attribute) -> bool:
    """Whether both types are tensors or both are memrefs."""
    return isinstance(a, TensorType) == isinstance(b, TensorType)


@irdl_op_definition
class TransformOp(IRDLOperation, Bufferizable):
    """`rock.transform %x by #map : memref<..> to memref<..>`: a view of `source`, whose coordinates `map` computes."""

    name = "rock.transform"
    source = operand_def()
    map = prop_def(TransformMapAttr)
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, map: TransformMap | TransformMapAttr, result_type: Attribute | None = None):
        """The view of `source` (a memref or tensor); its type follows from the map unless it is given."""
        attr = map if isinstance(map, TransformMapAttr) else TransformMapAttr(map)
        if result_type is None:
            assert isinstance(source.type, Shaped)
            result_type = like(source.type, attr.data.upper_bounds)
        super().__init__(operands=[source], properties={"map": attr}, result_types=[result_type])

    def place(self, b: Bufferization) -> None:
        place_view(b, self.source, self.result, self.map.data)

    def bufferize(self, b: Bufferization) -> None:
        bufferize_view(b, self.source, self.result, self.map.data)

    def verify_(self) -> None:
        source = shaped_type(self.source, "rock.transform: the source")
        result = shaped_type(self.result, "rock.transform: the result")
        transform_map = self.map.data
        for what, type_, bounds in (
            ("source", source, transform_map.lower_bounds),
            ("result", result, transform_map.upper_bounds),
        ):
            if type_.get_shape() != bounds:
                raise VerifyException(
                    f"rock.transform: the map has bounds {list(bounds)} for the {what}, found {type_}"
                )
        if source.element_type != result.element_type:
            raise VerifyException(
                f"rock.transform: element types differ: {source.element_type} and {result.element_type}"
            )
        if not same_kind(source, result):
            raise VerifyException(f"rock.transform: a view of {source} cannot be {result}")

    @classmethod
    def parse(cls, parser: Parser) -> TransformOp:
        source = parser.parse_unresolved_operand()
        parser.parse_keyword("by")
        start = parser.pos
        attr: Attribute
        if parser.parse_optional_punctuation("<") is not None:
            attr = TransformMapAttr(parse_transform_map(parser))
            parser.parse_punctuation(">")
        else:
            attr = parser.parse_attribute()
        if not isinstance(attr, TransformMapAttr):
            parser.raise_error(f"expected a #rock.transform_map, found {attr}", start, parser.pos)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source_type = parser.parse_type()
        parser.parse_keyword("to")
        result_type = parser.parse_type()
        op = cls(parser.resolve_operand(source, source_type), attr, result_type)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(" by ")
        printer.print_attribute(self.map)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" to ")
        printer.print_attribute(self.result.type)


def bufferize_view(b: Bufferization, source: SSAValue, result: SSAValue, map: TransformMap) -> None:
    """`result`, which shows `source` through `map`, becomes a view of its memref, unless it is in its place already."""
    place = b.place_of(result)
    if place is not None and b.is_in_place(source) and _shows(b.buffer(source), place):
        b.set_buffer(result, place)
    else:
        b.set_buffer(result, b.insert(TransformOp(b.buffer(source), map)).result)


def _shows(view: SSAValue, memref: SSAValue) -> bool:
    """Whether `view` is a view made straight of `memref`, or the same."""
    return view is memref or (isinstance(view.owner, TransformOp) and view.owner.source is memref)


def place_view(b: Bufferization, source: SSAValue, result: SSAValue, map: TransformMap) -> None:
    """When `result`, which shows `source` through `map`, is wanted in a place, put `source` there: through the inverse.

    Nothing is done where that would not write every element of the place (padding), or would lose elements of
    `source` that others read (a slice with other users).
    """
    place = b.place_of(result)
    kinds = {t.kind for t in map.transforms}
    if place is None or isinstance(source.owner, Block) or "Pad" in kinds:
        return
    if "Slice" in kinds and source.has_more_than_one_use():
        return
    try:
        inverse = map.inverse()
    except ValueError:
        return
    if inverse.is_identity():
        b.set_place(source, place)
    else:
        view = b.insert_at_head(TransformOp(place, inverse)).result
        view.name_hint = source.name_hint or place.name_hint
        b.set_place(source, view)


@irdl_op_definition
class DerefOp(IRDLOperation, Bufferizable):
    """`rock.deref %t : memref<1x32x1xi64> -> memref<1x32x1024xf16>`: the pages that a table of addresses points to.

    Nothing is loaded here: the result is a lazy view, `[batch, numPages, pageSize]`, whose element `[b, p, i]` lies
    at address `table[b, p, 0] + i * sizeof(element)`. Only a tile load reads through it.
    """

    name = "rock.deref"
    table = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format: ClassVar[str | None] = "$table attr-dict `:` type($table) `->` type($result)"

    def __init__(self, table: SSAValue, result_type: Attribute):
        """The pages of `table` (`[batch, numPages, 1]` of i64) as `result_type` (`[batch, numPages, pageSize]`)."""
        super().__init__(operands=[table], result_types=[result_type])

    @property
    def page_size(self) -> int:
        """Elements in a page."""
        return self._result_type.get_shape()[2]

    @property
    def num_pages(self) -> int:
        """Pages of each batch entry."""
        return self._result_type.get_shape()[1]

    @property
    def batch(self) -> int:
        """Batch entries, each with a table of its own."""
        return self._result_type.get_shape()[0]

    @property
    def element_type(self) -> Attribute:
        """What the pages hold."""
        return self._result_type.element_type

    @property
    def _result_type(self) -> Shaped:
        assert isinstance(self.result.type, Shaped)
        return self.result.type

    def bufferize(self, b: Bufferization) -> None:
        b.set_buffer(self.result, b.insert(DerefOp(b.buffer(self.table), memref_type(self.result.type))).result)

    def verify_(self) -> None:
        table = shaped_type(self.table, "rock.deref: the page table")
        pages = shaped_type(self.result, "rock.deref: the result")
        if table.element_type != i64:
            raise VerifyException(f"rock.deref: a page table holds i64 addresses, found {table}")
        if len(table.get_shape()) != 3:
            raise VerifyException(f"rock.deref: the page table must have rank 3 [batch, numPages, 1], found {table}")
        if len(pages.get_shape()) != 3:
            raise VerifyException(f"rock.deref: the result must have rank 3 [batch, numPages, pageSize], found {pages}")
        if table.get_shape()[2] != 1:
            raise VerifyException(f"rock.deref: the last dimension of the page table must be 1, found {table}")
        for dim, what in enumerate(("batch", "numPages")):
            if table.get_shape()[dim] != pages.get_shape()[dim]:
                found, expected = table.get_shape()[dim], pages.get_shape()[dim]
                raise VerifyException(f"rock.deref: the page table has {what} {found}, the result {expected}")
        if not isinstance(pages.element_type, AnyFloat | IntegerType):
            raise VerifyException(f"rock.deref: pages hold floats or integers, found {pages}")
        if not same_kind(table, pages):
            raise VerifyException(f"rock.deref: the page table is {table}, the result {pages}: both tensors or memrefs")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """`rock.yield %x : f32`: ends a score region with the score that enters the softmax."""

    name = "rock.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format: ClassVar[str | None] = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, *values: SSAValue | Operation):
        super().__init__(operands=[list(values)])


ROCK_OPS: list[type[Operation]] = [TransformOp, DerefOp, YieldOp]
