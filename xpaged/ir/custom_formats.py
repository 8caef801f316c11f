"""Custom forms of operations that MLIR has and xDSL 0.75 has not: read as MLIR's tools print them."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import memref
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.parser import Parser


def _operand(parser: Parser) -> SSAValue:
    """`%x attributes : type`; the attributes of these operations say nothing."""
    operand = parser.parse_unresolved_operand()
    parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    return parser.resolve_operand(operand, parser.parse_type())


def _copy(parser: Parser) -> Operation:
    """`%x, %y : type to type`"""
    source = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    target = parser.parse_unresolved_operand()
    parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    values = [parser.resolve_operand(source, parser.parse_type())]
    parser.parse_keyword("to")
    values.append(parser.resolve_operand(target, parser.parse_type()))
    return memref.CopyOp.create(operands=values)


def _converted(op: type[Operation], word: str) -> Callable[[Parser], Operation]:
    """`%x : type to type`, or with `->` in place of the word."""

    def parse(parser: Parser) -> Operation:
        value = _operand(parser)
        if word == "->":
            parser.parse_punctuation("->")
        else:
            parser.parse_keyword(word)
        return op.create(operands=[value], result_types=[parser.parse_type()])

    return parse


def _rank(parser: Parser) -> Operation:
    """`%x : type`"""
    result: Attribute = IndexType()
    return memref.RankOp.create(operands=[_operand(parser)], result_types=[result])


FORMATS: dict[str, Callable[[Parser], Operation]] = {
    "memref.copy": _copy,
    "memref.cast": _converted(memref.CastOp, "to"),
    "memref.memory_space_cast": _converted(memref.MemorySpaceCastOp, "to"),
    "memref.extract_aligned_pointer_as_index": _converted(memref.ExtractAlignedPointerAsIndexOp, "->"),
    "memref.rank": _rank,
}
"""For each operation, what parses the text after its name."""
