"""Tile operations that look across elements: reductions along a coordinate, and what a wave does only if it must."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

from xdsl.dialects.builtin import I64, IntegerAttr, StringAttr, i1
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.rock.tile_ops import TileYieldOp, parse_arguments, print_arguments, tile_of
from xpaged.dialects.rock.tile_type import TileType
from xpaged.ir.layout import Layout

Reduction = Literal["max", "sum"]


class _ReductionOp(IRDLOperation, ABC):
    """Maximum (maxnum: a NaN loses) or sum along one coordinate; `reduced` says how the result lies."""

    value = operand_def(TileType)
    kind = prop_def(StringAttr)
    dim = prop_def(IntegerAttr[I64])
    result = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = "$kind $value `along` $dim attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue, kind: Reduction, dim: int) -> None:
        tile = tile_of(value)
        super().__init__(
            operands=[value],
            properties={"kind": StringAttr(kind), "dim": IntegerAttr(dim, 64)},
            result_types=[TileType.of(tile.element_type, self.reduced(tile.layout, dim))],
        )

    @staticmethod
    @abstractmethod
    def reduced(layout: Layout, dim: int) -> Layout:
        """The layout of the result."""

    def verify_(self) -> None:
        tile, dim = tile_of(self.value), self.dim.value.data
        if self.kind.data not in ("max", "sum"):
            raise VerifyException(f"{self.name}: 'max' or 'sum', found '{self.kind.data}'")
        if not 0 <= dim < len(tile.shape):
            raise VerifyException(f"{self.name}: the tile has no coordinate {dim}")
        if any(d.dim == dim for d in tile.layout.wave):
            raise VerifyException(f"{self.name}: coordinate {dim} is spread over waves; reduce it through LDS")
        reduced = self.reduced(tile.layout, dim)
        if self.result.type != TileType.of(tile.element_type, reduced):
            raise VerifyException(f"{self.name}: the result is {reduced}")


@irdl_op_definition
class TileReduceOp(_ReductionOp):
    """A reduction whose coordinate gets the extent 1; all lanes get the result.

    The coordinate must lie in the registers and lanes of one wave; across waves data goes through LDS.
    """

    name = "rock.tile_reduce"

    @staticmethod
    def reduced(layout: Layout, dim: int) -> Layout:
        """All lanes that share the coordinate hold the result."""
        return layout.reduced(dim)


@irdl_op_definition
class TileReduceLaneOp(_ReductionOp):
    """A reduction of what each lane holds: nothing moves, and the coordinate counts the lanes that share it."""

    name = "rock.tile_reduce_lane"

    @staticmethod
    def reduced(layout: Layout, dim: int) -> Layout:
        """Each lane holds its own part."""
        return layout.reduced_in_lane(dim)


@irdl_op_definition
class TileIfAnyOp(IRDLOperation):
    """What a wave does only if the condition, a tile of i1, holds for any element that the wave holds.

    `(%a = %x, ...)`: the region gets the initial values as %a and ends with `rock.tile_yield` of as many of the same
    types.  The results of a wave are what its region yields, and where the condition holds nowhere the initial values.
    """

    name = "rock.tile_if_any"
    condition = operand_def(TileType)
    initial = var_operand_def(TileType)
    res = var_result_def(TileType)
    body = region_def("single_block")

    def __init__(self, condition: SSAValue, initial: Sequence[SSAValue], body: Region) -> None:
        super().__init__(operands=[condition, list(initial)], regions=[body], result_types=[[v.type for v in initial]])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.condition)
        printer.print_string(" : ")
        printer.print_attribute(self.condition.type)
        print_arguments(printer, self.body.block.args, self.initial)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> TileIfAnyOp:
        condition = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        test = parser.resolve_operand(condition, parser.parse_type())
        pairs = parse_arguments(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region([argument.resolve(value.type) for argument, value in pairs])
        op = cls(test, [value for _, value in pairs], body)
        if attributes is not None:
            op.attributes |= attributes.data
        return op

    def verify_(self) -> None:
        if tile_of(self.condition).element_type != i1:
            raise VerifyException(f"rock.tile_if_any: the condition is a tile of i1, found {self.condition.type}")
        last = self.body.block.last_op
        types = [v.type for v in self.initial]
        if not isinstance(last, TileYieldOp) or [v.type for v in last.values] != types:
            raise VerifyException("rock.tile_if_any: the region must end with rock.tile_yield of the types it is given")
        if [a.type for a in self.body.block.args] != types or [r.type for r in self.res] != types:
            raise VerifyException("rock.tile_if_any: arguments and results have the types of the initial values")


TILE_REDUCTIONS = [TileReduceOp, TileReduceLaneOp, TileIfAnyOp]
