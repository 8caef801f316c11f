"""`migraphx.attention`: attention as one operation, its variants chosen by a set of features; and `migraphx.yield`."""

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import I32, AnyFloat, IntegerAttr, i32
from xdsl.dialects.utils import AbstractYieldOperation
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure

from xpaged.dialects.migraphx.base import SHAPED, MIGraphXOp, shaped
from xpaged.dialects.migraphx.shaped import parse_shaped, print_shaped
from xpaged.errors import did_you_mean

FEATURES = ("kvcache", "causal", "prefix_offset", "sliding_window", "splitkv")
"""The names of the features; the number of a name is its bit in `features`."""


@irdl_op_definition
class YieldOp(AbstractYieldOperation[Attribute]):
    """`migraphx.yield %x : type`: ends the body of an attention with the scores that enter the softmax."""

    name = "migraphx.yield"
    traits = traits_def(IsTerminator(), Pure())


@irdl_op_definition
class AttentionOp(MIGraphXOp):
    """`softmax(masks(body(Q K))) V`, with the LSE of each row as a second result where there is one.

    Queries are `[B, Sq, Dqk]` or `[B, Hq, Sq, Dqk]`, keys `[.., Dqk, Sk]`, values `[.., Sk, Dv]`; at rank 4 K and V may
    have fewer heads, head `h` of Q reads head `h // (Hq / Hkv)`. `current_seq_len` (the last valid key, inclusive)
    and `prefix_offset` have Q's leading dimensions. The body takes all scores at once, in the type of Q (i32 for i8),
    and the `pre_softmax_inputs`. `splitKV = N` gives results `[.., N, Sq, Dv]` over parts of the keys.

        %r = migraphx.attention %q, %k, %v
          pre_softmax_inputs(%bias : !migraphx.shaped<1x4x8xf16, 32x8x1>)
          current_seq_len(%last : !migraphx.shaped<1xi32, 1>) {
        ^bb0(%qk : !migraphx.shaped<1x4x8xf16, 32x8x1>, %b : !migraphx.shaped<1x4x8xf16, 32x8x1>):
          %s = migraphx.add %qk, %b : <1x4x8xf16, 32x8x1>, <1x4x8xf16, 32x8x1> -> <1x4x8xf16, 32x8x1>
          migraphx.yield %s : !migraphx.shaped<1x4x8xf16, 32x8x1>
        } softmax_type = f32 features = "kvcache|causal" : <types of Q, K and V> -> <types of the results>
    """

    name = "migraphx.attention"
    queries = operand_def(SHAPED)
    keys = operand_def(SHAPED)
    values = operand_def(SHAPED)
    preSoftmaxElemWiseInputs = var_operand_def(SHAPED)
    currentSeqLen = opt_operand_def(SHAPED)
    prefixOffset = opt_operand_def(SHAPED)
    softmaxType = opt_prop_def(Attribute)
    features = opt_prop_def(IntegerAttr[I32])
    splitKV = opt_prop_def(IntegerAttr[I32])
    slidingWindowSize = opt_prop_def(IntegerAttr[I32])
    preSoftmaxBody = region_def()
    result = result_def(SHAPED)
    lse = opt_result_def(SHAPED)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())

    def __init__(
        self,
        queries: SSAValue,
        keys: SSAValue,
        values: SSAValue,
        result_types: Sequence[Attribute],
        *,
        inputs: Sequence[SSAValue] = (),
        current_seq_len: SSAValue | None = None,
        prefix_offset: SSAValue | None = None,
        body: Region | None = None,
        softmax_type: Attribute | None = None,
        features: Sequence[str] = (),
        split_kv: int | None = None,
        window: int | None = None,
    ):
        """`result_types` are that of the result and perhaps that of the LSE."""
        bits = sum(1 << FEATURES.index(name) for name in features)
        numbers = {"features": bits or None, "splitKV": split_kv, "slidingWindowSize": window}
        properties: dict[str, Attribute] = {k: IntegerAttr(n, i32) for k, n in numbers.items() if n is not None}
        if softmax_type is not None:
            properties["softmaxType"] = softmax_type
        super().__init__(
            operands=[queries, keys, values, list(inputs), current_seq_len, prefix_offset],
            properties=properties,
            regions=[body or Region()],
            result_types=[result_types[0], list(result_types[1:])],
        )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The features that are set."""
        bits = 0 if self.features is None else self.features.value.data
        return tuple(name for bit, name in enumerate(FEATURES) if bits >> bit & 1)

    @property
    def split_kv(self) -> int:
        """The number of parts of the keys, 1 where they are not split."""
        return 1 if self.splitKV is None else self.splitKV.value.data

    @property
    def window(self) -> int | None:
        """How far a row looks back from the last valid key."""
        return None if self.slidingWindowSize is None else self.slidingWindowSize.value.data

    @property
    def softmax_type(self) -> Attribute:
        """The type of the scores in the softmax: V's unless it is said."""
        return shaped(self.values).element_type if self.softmaxType is None else self.softmaxType

    @property
    def leading(self) -> tuple[int, ...]:
        """The dimensions before rows and columns: `[B]` or `[B, Hq]`."""
        return shaped(self.queries).get_shape()[:-2]

    @property
    def score_shape(self) -> tuple[int, ...]:
        """The lengths of the scores, with the axis of the parts where the keys are split."""
        rows, keys, parts = shaped(self.queries).get_shape()[-2], shaped(self.keys).get_shape()[-1], self.split_kv
        return (*self.leading, rows, keys) if parts == 1 else (*self.leading, parts, rows, keys // parts)

    @property
    def score_type(self) -> Attribute:
        """The element type of Q K: Q's, i32 for integers."""
        element = shaped(self.queries).element_type
        return element if isinstance(element, AnyFloat) else i32

    @property
    def has_body(self) -> bool:
        """Whether something happens to the scores before the masks."""
        return any(not isinstance(op, YieldOp) for op in self.preSoftmaxBody.walk())

    def verify_(self) -> None:
        from xpaged.dialects.migraphx.attention_verify import verify_attention

        verify_attention(self)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        names = [parser.parse_unresolved_operand()]
        for _ in range(2):
            parser.parse_punctuation(",")
            names.append(parser.parse_unresolved_operand())
        inputs = _clause(parser, "pre_softmax_inputs")
        current = _clause(parser, "current_seq_len")
        offset = _clause(parser, "prefix_offset")
        for keyword, given in (("current_seq_len", current), ("prefix_offset", offset)):
            if len(given) > 1:
                parser.raise_error(f"expected one value in {keyword}(..), found {len(given)}")
        body = parser.parse_region()
        softmax_type = None
        if parser.parse_optional_keyword("softmax_type") is not None:
            parser.parse_punctuation("=")
            softmax_type = parser.parse_type()
        features: list[str] = []
        if parser.parse_optional_keyword("features") is not None:
            parser.parse_punctuation("=")
            features = _features(parser)
        split, window = (_number(parser, keyword) for keyword in ("splitKV", "slidingWindowSize"))
        place = parser.pos
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: parse_shaped(parser))
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: parse_shaped(parser))
        if len(results) > 2:
            parser.raise_error(f"expected one or two result types, found {len(results)}")
        queries, keys, values = parser.resolve_operands(names, types, parser.pos)
        op = cls(
            queries,
            keys,
            values,
            results,
            inputs=inputs,
            current_seq_len=current[0] if current else None,
            prefix_offset=offset[0] if offset else None,
            body=body,
            softmax_type=softmax_type,
            features=features,
            split_kv=split,
            window=window,
        )
        for name, attribute in attributes.items():
            if name in op.properties:
                parser.raise_error(f"{name} is given twice", place)
            known = name in cls.get_irdl_definition().properties
            (op.properties if known else op.attributes)[name] = attribute
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list((self.queries, self.keys, self.values), printer.print_ssa_value)
        single = [self.currentSeqLen], [self.prefixOffset]
        for keyword, values in zip(
            ("pre_softmax_inputs", "current_seq_len", "prefix_offset"),
            (self.preSoftmaxElemWiseInputs, *([v for v in value if v is not None] for value in single)),
            strict=True,
        ):
            if values:
                printer.print_string(f" {keyword}(")
                printer.print_list(values, printer.print_ssa_value)
                printer.print_string(" : ")
                printer.print_list([value.type for value in values], printer.print_attribute)
                printer.print_string(")")
        printer.print_string(" ")
        printer.print_region(self.preSoftmaxBody)
        if self.softmaxType is not None:
            printer.print_string(" softmax_type = ")
            printer.print_attribute(self.softmaxType)
        if names := self.feature_names:
            text = "|".join(names)
            printer.print_string(f" features = {text}" if len(names) == 1 else f' features = "{text}"')
        for keyword, number in (("splitKV", self.splitKV), ("slidingWindowSize", self.slidingWindowSize)):
            if number is not None:
                printer.print_string(f" {keyword} = {number.value.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_list((self.queries, self.keys, self.values), lambda value: print_shaped(printer, value.type))
        printer.print_string(" -> ")
        print_shaped(printer, self.result.type)
        if self.lse is not None:
            printer.print_string(", ")
            printer.print_attribute(self.lse.type)


def _clause(parser: Parser, keyword: str) -> list[SSAValue]:
    """The operands of `keyword(%a, %b : type, type)`, none where the clause is left out."""
    if parser.parse_optional_keyword(keyword) is None:
        return []
    parser.parse_punctuation("(")
    names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
    parser.parse_punctuation(":")
    types = parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: parse_shaped(parser))
    parser.parse_punctuation(")")
    return list(parser.resolve_operands(names, types, parser.pos))


def _features(parser: Parser) -> list[str]:
    """`causal`, `kvcache|causal` or the same in quotes."""
    start = parser.pos
    text = parser.parse_optional_str_literal()
    if text is None:
        names = [parser.parse_optional_identifier() or parser.raise_error("expected the name of a feature")]
        while parser.parse_optional_punctuation("|") is not None:
            names.append(parser.parse_optional_identifier() or parser.raise_error("expected the name of a feature"))
    else:
        names = [name.strip() for name in text.split("|")]
    for name in names:
        if name not in FEATURES:
            hint = did_you_mean(name, FEATURES)
            parser.raise_error(
                f"unknown feature '{name}', expected one of {', '.join(FEATURES)}" + (f" ({hint})" if hint else ""),
                start,
                parser.pos,
            )
    return list(dict.fromkeys(names))


def _number(parser: Parser, keyword: str) -> int | None:
    if parser.parse_optional_keyword(keyword) is None:
        return None
    parser.parse_punctuation("=")
    return parser.parse_integer(allow_boolean=False)
