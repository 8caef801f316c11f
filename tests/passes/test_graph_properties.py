"""Whole MIGraphX graphs, drawn at random: every level agrees with float64, in every spelling of the graph."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.passes.tosa_graphs import TO_ROCK
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.interpreter.run import run
from xpaged.ir.levels import MODULE_LEVELS, Level, check_level
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.passes.pipelines import lower
from xpaged.testing.graphs import AttentionGraph
from xpaged.testing.respell import respell
from xpaged.testing.strategies import attention_graphs


def every_level_agrees(graph: AttentionGraph, seed: int) -> None:
    report = run(parse(graph.text), level=MODULE_LEVELS, seed=seed, check=True)
    assert report.ok, report.as_json()
    assert list(report.levels) == [level.value for level in MODULE_LEVELS]


@settings(max_examples=8, deadline=None, derandomize=True)
@given(attention_graphs(), st.integers(0, 1000))
def test_every_level_computes_what_the_graph_says(graph: AttentionGraph, seed: int):
    every_level_agrees(graph, seed)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(attention_graphs(), st.integers(0, 1000))
def test_every_level_computes_what_many_graphs_say(graph: AttentionGraph, seed: int):
    every_level_agrees(graph, seed)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(attention_graphs())
def test_any_graph_is_fused_in_any_spelling(graph: AttentionGraph):
    one = lower(parse(graph.text), Level.TOSA)
    other = one.clone()
    respell(other)
    for module in (one, other):
        TO_ROCK.apply(module)
        check_level(module, Level.ROCK)
    (op,) = [op for op in one.walk() if isinstance(op, AttentionOp)]
    assert op.sizes.repeats >= graph.heads_q // graph.heads_kv
    assert print_module(one) == print_module(other)
