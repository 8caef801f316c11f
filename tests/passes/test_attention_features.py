"""Every feature of `migraphx.attention`, alone and in all legal pairs, paged and unpaged: every level agrees with
float64. Illegal pairs are refused with the message of the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.pairs import covering_rows, pairs_of
from xpaged.dialects.migraphx.attention import FEATURES
from xpaged.errors import XpagedError
from xpaged.interpreter.run import run
from xpaged.ir.levels import MODULE_LEVELS
from xpaged.ir.parsing import parse
from xpaged.testing.attention_op import AttentionOpGraph

FACTORS: dict[str, tuple[Any, ...]] = {
    "element": ("f16", "f32", "bf16", "i8"),
    "heads": ((2, 1), (1, 1), (3, 3), (6, 2)),
    "rank": (4, 3),
    "batch": (1, 2),
    "seq_q": (3, 1),
    "seq_k": (8, 24),
    "dim_v": (8, 16),
    "page_tokens": (None, 4, 1),
    "kv_index": (False, True),
    "causal": (False, True),
    "prefix_offset": (False, True),
    "window": (None, 3),
    "parts": (1, 2, 4),
    "lse": (False, True),
    "body": ((), ("scale",), ("bias",), ("scale", "bias")),
    "softmax_type": (None, "f32", "f16", "bf16"),
}
"""Fields of `AttentionOpGraph`; `heads` is those of Q and of K and V. The first value is what pairs are built on."""

ILLEGAL: list[tuple[dict[str, Any], str]] = [
    ({"prefix_offset": True, "causal": False}, "feature 'prefix_offset' requires 'causal' to be set"),
    ({"window": 3, "kv_index": False}, "feature 'sliding_window' requires 'kvcache' to be set"),
    ({"parts": 2, "lse": False}, "feature 'splitkv' requires the LSE as a second result"),
    ({"parts": 4, "lse": False}, "feature 'splitkv' requires the LSE as a second result"),
]
"""Values that do not go together, and the message."""

MORE_ILLEGAL: list[tuple[dict[str, Any], str]] = [
    ({"parts": 3, "lse": True}, "key sequence length (8) must be divisible by splitKV (3)"),
    ({"window": 9, "kv_index": True}, "slidingWindowSize must lie between 1 and the key sequence length 8, found 9"),
    ({"window": 0, "kv_index": True}, "slidingWindowSize must lie between 1 and the key sequence length 8, found 0"),
    ({"heads": (3, 2)}, "3 heads of queries are no multiple of 2 heads of keys and values"),
    ({"value_element": "f32"}, "softmax_type must be given where the scores that enter the softmax (f16)"),
    ({"element": "i8", "value_element": "f16"}, "scores of i32 need a body that makes floats of them"),
]
"""Single values, or values outside of the table, that are refused."""

Row = Mapping[str, Any]


def legal(row: Row) -> bool:
    """Whether features go together."""
    return not any(all(row.get(name) == value for name, value in bad.items()) for bad, _ in ILLEGAL)


def graph(row: Row) -> AttentionOpGraph:
    """The graph of a row. Scores of i8 operands are dequantized first, and V is f16 beside them."""
    fields = dict(row)
    heads = fields.pop("heads", (2, 1))
    fields |= {"heads_q": heads[0], "heads_kv": heads[1]}
    if fields.get("element") == "i8" and "value_element" not in fields:
        fields |= {"value_element": "f16", "body": ("dequantize", *fields.get("body", ()))}
    return AttentionOpGraph(**fields)


def check(row: Row, level: Any = "all") -> None:
    """Every level of a row is right."""
    report = run(parse(graph(row).text), level=level, check=True)
    assert report.ok, (row, report.as_json())
    assert "migraphx" in report.levels


ROWS = covering_rows(FACTORS, legal)


def test_the_features_of_the_operation_are_in_the_table() -> None:
    fields = {"kvcache": "kv_index", "causal": "causal", "prefix_offset": "prefix_offset"}
    fields |= {"sliding_window": "window", "splitkv": "parts"}
    assert set(fields) == set(FEATURES)
    assert set(fields.values()) <= set(FACTORS)


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_rows(number: int) -> None:
    check(ROWS[number], "all" if number % 8 == 0 else MODULE_LEVELS)


@pytest.mark.slow
@pytest.mark.parametrize("row", list(pairs_of(FACTORS, legal)), ids=str)
def test_all_pairs(row: Row) -> None:
    check(row)


@pytest.mark.parametrize(("row", "message"), [*ILLEGAL, *MORE_ILLEGAL], ids=str)
def test_what_does_not_go_together(row: Row, message: str) -> None:
    with pytest.raises(XpagedError) as refusal:
        parse(graph(row).text)
    assert message in refusal.value.render()
