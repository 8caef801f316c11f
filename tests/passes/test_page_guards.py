"""Page addresses with a fallback for slots that are not used: taken where no key that counts is in one."""

import re

import pytest
from xdsl.dialects.builtin import ModuleOp

from xpaged.dialects.rock.attention import AttentionOp
from xpaged.errors import XpagedError
from xpaged.interpreter.run import run
from xpaged.ir.levels import MODULE_LEVELS, Level
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.passes.pipelines import lower
from xpaged.testing.graphs import AttentionGraph

GRAPHS = {
    "fallback": AttentionGraph(addresses="guarded"),
    "batch and head of a page": AttentionGraph(addresses="guarded", batch=2, page_header=1),
    "causal, too": AttentionGraph(addresses="guarded", masks=("causal", "index"), page_size=8),
    "one pointer": AttentionGraph(addresses="run"),
    "one pointer a sequence": AttentionGraph(addresses="run", batch=2, heads_kv=2, page_size=64, page_header=3),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_every_level(graph: AttentionGraph):
    report = run(parse(graph.text), level=MODULE_LEVELS, check=True, seed=2)
    assert report.ok, report.as_json()


def edited(pattern: str, replacement: str, **options: object) -> ModuleOp:
    """A graph with guards, at level tosa, after a replacement in its text: K and V are guarded alike."""
    text = print_module(lower(parse(AttentionGraph(addresses="guarded", **options).text), Level.TOSA))  # pyright: ignore
    changed = re.sub(pattern, replacement, text)
    assert changed != text
    return parse(changed, "guarded.mlir")


def test_no_key_counts_without_a_mask():
    graph = parse(AttentionGraph(addresses="guarded", masks=("causal",)).text)
    with pytest.raises(XpagedError, match="fallback for slots that may be used") as caught:
        lower(graph, Level.ROCK)
    assert "but every key counts" in caught.value.render()


def test_a_key_too_few():
    """Pages are used from the token that they start with on; from one token later on is too late."""
    module = edited(r"dense<\[0, 4, 8, 12\]>", "dense<[1, 5, 9, 13]>")
    with pytest.raises(XpagedError, match="fallback for slots that may be used") as caught:
        lower(module, Level.ROCK)
    assert "of which some count" in caught.value.render()


def test_more_slots_than_count_may_be_used():
    module = lower(edited(r"dense<\[0, 4, 8, 12\]>", "dense<[0, 3, 6, 9]>"), Level.ROCK)
    assert any(isinstance(op, AttentionOp) for op in module.walk())
    with pytest.raises(XpagedError, match="fallback for slots that may be used"):  # 0, 3, 7, 11 is no sum of multiples
        lower(edited(r"dense<\[0, 4, 8, 12\]>", "dense<[0, 3, 7, 11]>"), Level.ROCK)
