"""The text of `rock.attention` and `rock.gridwise_attention_accel`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr, i32
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from xpaged.dialects.rock.attrs import expect_identifier

if TYPE_CHECKING:
    from xpaged.dialects.rock.attention import AttentionOp, GridwiseAttentionAccelOp

# Older spellings of clauses and properties.
OLD_NAMES = {"currentSeqLen": "lastValidKVIndex", "slidingWindowSize": "slidingWindowLookBack"}
# The clause of an optional operand, and the operand's name.
CLAUSES = {
    "keyAddresses": "keyAddresses",
    "valueAddresses": "valueAddresses",
    "lastValidKVIndex": "currentSeqLen",
    "prefixOffset": "prefixOffset",
}
TRANSPOSED = ("qTransposed", "kTransposed", "vTransposed", "oTransposed")
SEGMENTS = "operandSegmentSizes"


def parse_attention(parser: Parser) -> dict[str, Any]:
    """The arguments of `AttentionOp.build_from` for the text after `rock.attention`:

    ```
    {
      qk = tr %q * %k : type, type
      keyAddresses = (%pages : type)          valueAddresses = (%pages : type)
      lastValidKVIndex = (%last : type)       prefixOffset = (%offset : type)
      causal                                  slidingWindowLookBack = 16
      lse = %lse : type
      qk = elementwise otherIns(%bias : type) { ^bb0(%s: f32, %b: f16): ... }
      %out = softmax(qk) * tr %v : type -> type
    } {attributes} -> types
    ```
    The clauses between the first and the last line may be left out and stand in any order. `%out =` and `-> type`
    belong to the memref form and to tensors that are written into; the result types to tensors.
    """
    operands: dict[str, list[SSAValue]] = {}
    properties: dict[str, Attribute] = {}
    region = Region()

    def flag(name: str, present: object) -> None:
        if present is not None:
            properties[name] = UnitAttr()

    parser.parse_punctuation("{")
    parser.parse_keyword("qk")
    parser.parse_punctuation("=")
    flag("qTransposed", parser.parse_optional_keyword("tr"))
    queries = parser.parse_unresolved_operand()
    parser.parse_punctuation("*")
    flag("kTransposed", parser.parse_optional_keyword("tr"))
    keys = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    operands["queries"] = [parser.resolve_operand(queries, parser.parse_type())]
    parser.parse_punctuation(",")
    operands["keys"] = [parser.resolve_operand(keys, parser.parse_type())]

    seen: set[str] = set()
    out: UnresolvedOperand | None = None
    while parser.parse_optional_keyword("softmax") is None:
        start = parser.pos
        flag("oTransposed", parser.parse_optional_keyword("tr"))
        if "oTransposed" in properties or (out := parser.parse_optional_unresolved_operand()) is not None:
            out = out or parser.parse_unresolved_operand()
            parser.parse_punctuation("=")
            parser.parse_keyword("softmax")
            break
        spelled = expect_identifier(parser, "a clause of rock.attention, or 'softmax(qk) * %v'")
        name = OLD_NAMES.get(spelled, spelled)
        if name in seen:
            parser.raise_error(f"the clause '{spelled}' is repeated", start, parser.pos)
        seen.add(name)
        if name in CLAUSES:
            operands[CLAUSES[name]] = [_parenthesized(parser)]
        elif name == "causal":
            flag(name, True)
        elif name == "slidingWindowLookBack":
            parser.parse_punctuation("=")
            properties[name] = IntegerAttr(parser.parse_integer(allow_boolean=False), i32)
        elif name == "lse":
            parser.parse_punctuation("=")
            operands["lse"] = [_typed(parser)]
        elif name == "qk":
            parser.parse_punctuation("=")
            parser.parse_keyword("elementwise")
            if parser.parse_optional_keyword("otherIns") is not None:
                operands["preSoftmaxElemWiseInputs"] = _operands_and_types(parser)
            region = parser.parse_region()
        else:
            known = ", ".join([*CLAUSES, "causal", "slidingWindowLookBack", "lse", "qk = elementwise"])
            parser.raise_error(f"unknown clause '{spelled}' of rock.attention, expected {known}", start, parser.pos)

    parser.parse_punctuation("(")
    parser.parse_keyword("qk")
    parser.parse_punctuation(")")
    parser.parse_punctuation("*")
    flag("vTransposed", parser.parse_optional_keyword("tr"))
    values = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    operands["values"] = [parser.resolve_operand(values, parser.parse_type())]
    if out is not None:
        parser.parse_punctuation("->")
        operands["out"] = [parser.resolve_operand(out, parser.parse_type())]
    parser.parse_punctuation("}")
    attributes = parser.parse_optional_attr_dict()
    result_types = (
        parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if parser.parse_optional_punctuation("->") is not None
        else []
    )
    return {
        "operands": operands,
        "properties": properties,
        "attributes": attributes,
        "region": region,
        "result_types": result_types,
    }


def _parenthesized(parser: Parser) -> SSAValue:
    """`= (%x : type)`"""
    parser.parse_punctuation("=")
    with parser.in_parens():
        return _typed(parser)


def _typed(parser: Parser) -> SSAValue:
    """`%x : type`"""
    operand = parser.parse_unresolved_operand()
    parser.parse_punctuation(":")
    return parser.resolve_operand(operand, parser.parse_type())


def _operands_and_types(parser: Parser) -> list[SSAValue]:
    """`(%x, %y : type, type)`"""
    with parser.in_parens():
        operands = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        return _resolved(parser, operands)


def _resolved(parser: Parser, operands: Sequence[UnresolvedOperand]) -> list[SSAValue]:
    start = parser.pos
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
    return list(parser.resolve_operands(operands, types, start))


def print_attention(op: AttentionOp, printer: Printer) -> None:
    """Print what `parse_attention` takes."""

    def clause(text: str, value: SSAValue, after: str = "") -> None:
        printer.print_string(f"\n{text}")
        printer.print_ssa_value(value)
        printer.print_string(" : ")
        printer.print_attribute(value.type)
        printer.print_string(after)

    printer.print_string("{")
    with printer.indented():
        printer.print_string("\nqk = " + ("tr " if op.qTransposed else ""))
        printer.print_ssa_value(op.queries)
        printer.print_string(" * " + ("tr " if op.kTransposed else ""))
        printer.print_ssa_value(op.keys)
        printer.print_string(" : ")
        printer.print_list((op.queries.type, op.keys.type), printer.print_attribute)
        for spelled, name in CLAUSES.items():
            value: SSAValue | None = getattr(op, name)
            if value is not None:
                clause(f"{spelled} = (", value, ")")
        if op.causal is not None:
            printer.print_string("\ncausal")
        if op.slidingWindowLookBack is not None:
            printer.print_string(f"\nslidingWindowLookBack = {op.slidingWindowLookBack.value.data}")
        if op.lse is not None:
            clause("lse = ", op.lse)
        if op.preSoftmaxElemWiseInputs or op.preSoftmaxBody.blocks:
            printer.print_string("\nqk = elementwise ")
            if inputs := op.preSoftmaxElemWiseInputs:
                printer.print_string("otherIns(")
                printer.print_list(inputs, printer.print_ssa_value)
                printer.print_string(" : ")
                printer.print_list([x.type for x in inputs], printer.print_attribute)
                printer.print_string(") ")
            printer.print_region(op.preSoftmaxBody)
        printer.print_string("\n")
        if op.out is not None:
            printer.print_string("tr " if op.oTransposed else "")
            printer.print_ssa_value(op.out)
            printer.print_string(" = ")
        printer.print_string("softmax(qk) * " + ("tr " if op.vTransposed else ""))
        printer.print_ssa_value(op.values)
        printer.print_string(" : ")
        printer.print_attribute(op.values.type)
        if op.out is not None:
            printer.print_string(" -> ")
            printer.print_attribute(op.out.type)
    printer.print_string("\n}")
    hidden = {SEGMENTS, "causal", "slidingWindowLookBack", *TRANSPOSED}
    if op.out is None:
        hidden.discard("oTransposed")
    _print_attributes(printer, {k: v for k, v in op.properties.items() if k not in hidden}, op.attributes)
    if op.results:
        printer.print_string(" -> ")
        printer.print_list(op.result_types, printer.print_attribute)


def _print_attributes(
    printer: Printer, properties: Mapping[str, Attribute], attributes: Mapping[str, Attribute]
) -> None:
    merged = {**properties, **attributes}
    printer.print_op_attributes({name: merged[name] for name in sorted(merged)})


def parse_gridwise(parser: Parser, build: Callable[..., GridwiseAttentionAccelOp]) -> GridwiseAttentionAccelOp:
    """Parse `(%q, %k, %v, ...) preSoftmaxOps = {region} {attributes} : types`.

    `operandSegmentSizes` among the attributes says which operands are given; without it they are queries, keys,
    values and out.
    """
    operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
    region = Region()
    if parser.parse_optional_keyword("preSoftmaxOps") is not None:
        parser.parse_punctuation("=")
        region = parser.parse_region()
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    values = _resolved(parser, operands)
    if len(values) == 4 and SEGMENTS not in attributes and "operand_segment_sizes" not in attributes:
        attributes[SEGMENTS] = DenseArrayBase.from_list(i32, [1, 1, 1, 0, 0, 0, 1, 0, 0, 0])
    return build(operands=values, attributes=attributes, regions=[region])


def print_gridwise(op: GridwiseAttentionAccelOp, printer: Printer) -> None:
    """Print what `parse_gridwise` takes."""
    printer.print_string("(")
    printer.print_list(op.operands, printer.print_ssa_value)
    printer.print_string(") preSoftmaxOps = ")
    if op.preSoftmaxBody.blocks:
        printer.print_region(op.preSoftmaxBody)
    else:
        printer.print_string("{}")
    _print_attributes(printer, op.properties, op.attributes)
    printer.print_string(" : ")
    printer.print_list([x.type for x in op.operands], printer.print_attribute)
