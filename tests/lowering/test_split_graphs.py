"""Graphs whose attention is over parts of the keys: kernels with the results of each part, exact part by part."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import ModuleOp, UnitAttr

from tests.passes.test_detect_flash_decoding import module as detectable
from xpaged.codegen.host import unable
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.interpreter.run import run
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.lowering.kernel import grid_size, kernels_of
from xpaged.passes.pipelines import lower
from xpaged.testing.attention_op import AttentionOpGraph

PLAIN = AttentionOpGraph(parts=2, lse=True, seq_k=64, seq_q=3, softmax_type="f32")
GRAPHS = {
    "two parts": PLAIN,
    "four parts": replace(PLAIN, parts=4),
    "eight small parts": replace(PLAIN, parts=8, seq_k=24),
    "grouped heads": replace(PLAIN, heads_q=6, heads_kv=2),
    "KV index": replace(PLAIN, parts=4, kv_index=True, batch=2),
    "causal": replace(PLAIN, causal=True),
    "prefix": replace(PLAIN, parts=4, causal=True, prefix_offset=True),
    "window": replace(PLAIN, parts=4, kv_index=True, window=9),
    "bias": replace(PLAIN, parts=4, body=("scale", "bias")),
    "f32": replace(PLAIN, parts=4, element="f32", softmax_type=None),
    "pages": replace(PLAIN, parts=4, page_tokens=8, kv_index=True),
}
KERNELS = (Level.ROCK, Level.ROCK_MEMREF, Level.GRIDWISE, Level.TILE, Level.DEVICE)


def parts_of(module: ModuleOp) -> int:
    lowered = lower(module.clone(), Level.ROCK)
    return next(op.split_kv for op in lowered.walk() if isinstance(op, AttentionOp))


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_over_parts_runs_at_every_level(name: str) -> None:
    module = parse(GRAPHS[name].text)
    assert parts_of(module) == GRAPHS[name].parts
    report = run(module, level=KERNELS, check=True)
    assert report.ok, report.as_json()
    device = lower(module, Level.DEVICE)
    assert grid_size(kernels_of(device)[-1]) % GRAPHS[name].parts == 0


@pytest.mark.skipif(unable() is not None, reason="no compiler for this machine")
def test_the_text_of_a_graph_over_parts() -> None:
    report = run(parse(GRAPHS["KV index"].text), level="host", check=True)
    assert report.ok, report.as_json()


@pytest.mark.parametrize("split", [2, 4, 8])
@pytest.mark.parametrize("score_input", [False, True])
def test_detected_parts_run_at_every_level(split: int, score_input: bool) -> None:
    """Heads that are the parts of one head's keys, in pages."""
    module = detectable(split, score_input=score_input)
    kernels_of(module)[0].attributes["rock.kernel"] = UnitAttr()
    report = run(module, level=KERNELS[1:], check=True)
    assert report.ok, report.as_json()
    assert f"splitKV = {split}" in str(lower(module, Level.GRIDWISE))
