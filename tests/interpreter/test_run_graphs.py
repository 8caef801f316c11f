"""Runs of graphs: every level from migraphx down, and the cross-check of the lowering to rock."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import UnitAttr

from xpaged.interpreter import run as runner
from xpaged.interpreter.run import run
from xpaged.ir.levels import MODULE_LEVELS, Level
from xpaged.ir.parsing import parse
from xpaged.passes.pipelines import lower
from xpaged.testing.graphs import AttentionGraph


def graph(**sizes: Any) -> Any:
    defaults: dict[str, Any] = {"heads_q": 4, "heads_kv": 2, "seq_q": 3, "seq_k": 32, "page_size": 64}
    return parse(AttentionGraph(**(defaults | sizes)).text)


@pytest.mark.parametrize("masks", [(), ("index",)])
def test_every_level_of_a_graph_agrees(masks: tuple[str, ...]) -> None:
    report = run(graph(masks=masks), level=MODULE_LEVELS, check=True, seed=2)
    assert report.ok, report.as_json()
    assert list(report.levels) == [level.value for level in MODULE_LEVELS]
    assert any("executed as written" in note for note in report.notes)
    assert not any("too large" in note for note in report.notes)


def test_a_graph_that_is_lowered_to_something_else_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    original = runner.lower

    def wrong(module: Any, to: Level, arch: Any = None) -> Any:
        lowered = original(module, to, arch)
        if to is Level.ROCK:
            (attention,) = (op for op in lowered.walk() if op.name == "rock.attention")
            attention.properties["causal"] = UnitAttr()
        return lowered

    monkeypatch.setattr(runner, "lower", wrong)
    report = run(graph(), level="device", check=True)
    assert not report.ok
    assert any("the graph in float64 differs" in fault["what"] for fault in report.faults)


def test_large_graphs_are_not_evaluated_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_GRAPH_SCORES", 10)
    report = run(graph(), check=True)
    assert report.ok
    assert any("too large" in note for note in report.notes)


def test_dead_slots_are_finite_at_the_graph_levels_and_poison_below() -> None:
    module = graph()
    inputs = _inputs(module)
    results = run(module, inputs, level="migraphx").arrays(), run(module, inputs, level="rock").arrays()
    assert all(np.isfinite(values.astype(float)).all() for found in results for values in found.values())


def _inputs(module: Any) -> dict[str, Any]:
    """NaN in every slot past the last valid key."""
    from xpaged.interpreter.inputs import arguments_of, kernel_of
    from xpaged.interpreter.sampling import random_inputs

    rock = lower(module.clone(), Level.ROCK)
    arguments = arguments_of(kernel_of(module))
    drawn = random_inputs(arguments, np.random.default_rng(0), rock)
    given: dict[str, Any] = {f"arg{i}": values for i, values in drawn.arrays.items()}
    for index, pages in drawn.pages.items():
        assert pages.dead is not None
        given[f"arg{index}.pages"] = np.where(pages.dead, np.float16(np.nan), pages.data)
    assert any(np.isnan(given[f"arg{i}.pages"]).any() for i in drawn.pages)
    return given


def test_a_module_without_attention_runs_and_is_checked() -> None:
    module = parse("""func.func @f(%x: !migraphx.shaped<4xf16, 1>) -> !migraphx.shaped<4xf16, 1> {
      %y = migraphx.add %x, %x : <4xf16, 1>, <4xf16, 1> -> <4xf16, 1>
      return %y : !migraphx.shaped<4xf16, 1>
    }""")
    report = run(module, {"x": np.arange(4, dtype=np.float16)})
    np.testing.assert_array_equal(report.arrays()["migraphx/out0"], [0, 2, 4, 6])
    report = run(module, {"x": np.arange(4, dtype=np.float16)}, level="device", check=True)
    assert report.ok
    np.testing.assert_array_equal(report.arrays()["device/out0"], [0, 2, 4, 6])
