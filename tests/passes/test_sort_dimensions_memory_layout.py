"""sort-dimensions-memory-layout: which operands are exchanged, and what is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.views import memory_position
from xpaged.ir.printing import print_module
from xpaged.pipeline import Pipeline
from xpaged.sizes import AttentionProblem, build

SORT = Pipeline("sort-dimensions-memory-layout")


def attention_of(module: ModuleOp) -> AttentionOp:
    return next(op for op in module.walk() if isinstance(op, AttentionOp))


def test_the_ir_of_the_docstring(docstring_ir: Callable[[str], tuple[ModuleOp, ModuleOp]]):
    before, after = docstring_ir("sort-dimensions-memory-layout")
    SORT.apply(before)
    assert print_module(before) == print_module(after)


def problem(trans_k: bool = False, trans_v: bool = False, paged: bool = True) -> ModuleOp:
    return build(
        AttentionProblem(
            batch=2,
            heads_q=4,
            heads_kv=2,
            seq_q=3,
            seq_k=6,
            dim_qk=8,
            dim_v=8,
            trans_k=trans_k,
            trans_v=trans_v,
            page_size=32 if paged else None,
            num_pages=3 if paged else None,
            kv_index=True,
            causal=True,
            lse=True,
            scale=0.5,
            perf_config="attn:v3:1",
        )
    )


@pytest.mark.parametrize("trans_k", [False, True])
@pytest.mark.parametrize("trans_v", [False, True])
def test_channels_of_pages_end_up_last(trans_k: bool, trans_v: bool):
    module = problem(trans_k, trans_v)
    before = attention_of(module)
    kept = {name: value for name, value in before.operands_by_name().items() if name not in ("keys", "values")}
    sizes, attributes = before.sizes, dict(before.attributes)
    SORT.apply(module)
    after = attention_of(module)
    assert after.kTransposed is not None
    assert after.vTransposed is None
    assert after.sizes == sizes
    assert {k: v for k, v in after.operands_by_name().items() if k not in ("keys", "values")} == kept
    assert after.attributes == attributes
    assert len(after.preSoftmaxBody.block.ops) == 3
    for view in (after.keys, after.values):
        assert str(memory_position(view)[0]) == "48*d0 + 8*d1 + d2"


@pytest.mark.parametrize("paged", [False, True])
def test_the_same_bits_are_computed(paged: bool, executed: Callable[..., dict[str, Any]]):
    module = problem(trans_v=True, paged=paged)
    rng = np.random.default_rng(3)

    def data(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float16)

    caches = (
        {"k_table.pages": data(2, 3, 32), "v_table.pages": data(2, 3, 32)}
        if paged
        else {"k": data(192), "v": data(192)}
    )
    inputs = {"q": data(192), "kv_index": np.array([4, 2], np.int32), **caches}
    before = executed(module, inputs)
    SORT.apply(module)
    after = executed(module, inputs)
    assert before.keys() == after.keys() == {"out0", "out1"}
    assert all((before[name] == after[name]).all() for name in before)


def test_a_second_run_changes_nothing():
    module = problem()
    SORT.apply(module)
    text = print_module(module)
    SORT.apply(module)
    assert print_module(module) == text


def test_memory_without_pages_is_left_alone():
    module = problem(paged=False)
    text = print_module(module)
    SORT.apply(module)
    assert print_module(module) == text


def test_only_kernels_are_touched():
    module = problem()
    func = module.body.block.first_op
    assert func is not None
    del func.attributes["rock.kernel"]
    text = print_module(module)
    SORT.apply(module)
    assert print_module(module) == text
