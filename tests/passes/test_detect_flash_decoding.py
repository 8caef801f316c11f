"""detect-flash-decoding: the plain cases, on tensors and memrefs, in pages; and what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.builder import Builder
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType, f16, f32, i32, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.ops import DerefOp
from xpaged.dialects.rock.views import chain_of, make_chain, memory_position
from xpaged.ir.printing import print_module
from xpaged.ir.transform_map import Builder as MapBuilder
from xpaged.ir.verify import verify
from xpaged.pipeline import Pipeline

DETECT = Pipeline("detect-flash-decoding")


def test_the_ir_of_the_docstring(docstring_ir: Callable[[str], tuple[ModuleOp, ModuleOp]]):
    before, after = docstring_ir("detect-flash-decoding")
    DETECT.apply(before)
    assert print_module(before) == print_module(after)


HEADS, KEYS, DIM = 3, 8, 4


def module(
    split: int, *, tensors: bool = False, repeat_q: bool = True, part_of_heads: bool = False, mask: bool = False,
    lse: bool = True, grouped: bool = False, score_input: bool = False,
) -> ModuleOp:  # fmt: skip
    """Paged K and V of `HEADS` heads seen in `split` parts each, as one attention over `HEADS * split` heads."""
    make = TensorType if tensors else MemRefType
    q_heads = HEADS if repeat_q else HEADS * split
    groups, keys = HEADS * split, KEYS // split
    types: list[Attribute] = [
        make(f16, [q_heads, 1, DIM]),
        make(i64, [1, HEADS * KEYS, 1]),
        make(f16, [groups, 1, DIM]),
        make(f32, [groups, 1]),
        make(i32, [groups]),
        make(f32, [groups, 1, keys]),
    ]
    block = Block(arg_types=types)
    q, table, out, lse_out, index, bias = block.args
    b = Builder(InsertPoint.at_end(block))
    queries: SSAValue = q
    if repeat_q:
        spread = (
            MapBuilder(("h", "s", "d"), (HEADS, 1, DIM)).pass_through("h").add_dim("t", split).pass_through("s", "d")
        )
        join = MapBuilder(("h", "t", "s", "d"), (HEADS, split, 1, DIM)).merge("g", ("h", "t")).pass_through("s", "d")
        queries = make_chain(b, q, [join.build(), spread.build()])
    pages = b.insert(DerefOp(table, make(f16, [1, HEADS * KEYS, DIM]))).result
    lengths = (split, HEADS, keys) if part_of_heads else (HEADS, split, keys)
    names = ("t", "h", "k") if part_of_heads else ("h", "t", "k")
    rows = MapBuilder(("b", "row", "d"), (1, HEADS * KEYS, DIM)).const_dim("b", 0).unmerge(names, "row", lengths)
    rows = rows.pass_through("d").build()
    shape = dict(zip((*names, "d"), (*lengths, DIM), strict=True))
    joined = MapBuilder((*names, "d"), tuple(shape.values())).merge("g", ("h", "t")).pass_through("k", "d")
    view = make_chain(b, pages, [joined.build(), rows])
    if grouped:
        pair = MapBuilder(("g", "s", "d"), (groups, 1, DIM)).add_dim("r", 2).pass_through("g", "s", "d").build()
        two = (
            MapBuilder(("r", "g", "s", "d"), (2, groups, 1, DIM)).merge("g", ("g", "r")).pass_through("s", "d").build()
        )
        queries = make_chain(b, queries, [two, pair])
    op = AttentionOp(
        queries,
        view,
        view,
        kTransposed=True,
        currentSeqLen=index if mask else None,
        out=None if tensors or grouped else out,
        lse=None if tensors or grouped or not lse else lse_out,
        preSoftmaxElemWiseInputs=[bias] if score_input else [],
        preSoftmaxBody=_bias_region() if score_input else None,
        keyAddresses=pages,
        valueAddresses=pages,
        numHeadsQ=2 if grouped else 1,
        result_types=_results(types, grouped, lse) if tensors or grouped else [],
    )
    b.insert(op)
    b.insert(ReturnOp(*op.results))
    results = [r.type for r in op.results]
    result = ModuleOp([FuncOp("f", (types, results), Region(block))])
    verify(result)
    return result


def _results(types: list[Attribute], grouped: bool, lse: bool) -> list[Attribute]:
    repeats = 2 if grouped else 1
    found: list[Attribute] = []
    for type_ in types[2:4] if lse else types[2:3]:
        assert isinstance(type_, TensorType)
        found.append(TensorType(type_.element_type, [type_.get_shape()[0] * repeats, *type_.get_shape()[1:]]))
    return found


def _bias_region() -> Region:
    from xdsl.dialects.arith import AddfOp

    from xpaged.dialects.rock.ops import YieldOp

    block = Block(arg_types=[f32, f32])
    total = AddfOp(block.args[0], block.args[1])
    block.add_ops([total, YieldOp(total.result)])
    return Region(block)


def attention_of(module: ModuleOp) -> AttentionOp:
    return next(op for op in module.walk() if isinstance(op, AttentionOp))


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("split", [2, 4, 8])
def test_parts_in_pages_are_detected(split: int, tensors: bool):
    m = module(split, tensors=tensors)
    DETECT.apply(m)
    op = attention_of(m)
    assert op.split_kv == split
    assert op.sizes[:4] == (HEADS, HEADS, 1, KEYS)
    assert op.keyAddresses is not None
    assert chain_of(op.keys).deref is op.keyAddresses.owner
    assert str(memory_position(op.keys)[0]) == "32*d0 + 4*d1 + d2"
    assert str(memory_position(op.queries)[0]) == "4*d0 + d2"
    assert op.preSoftmaxHasSplitKVTransforms is not None


@pytest.mark.parametrize("split", [2, 8])
def test_the_same_parts_are_computed(split: int, executed: Callable[..., dict[str, Any]]):
    m = module(split)
    rng = np.random.default_rng(3)
    inputs = {
        "arg0": rng.standard_normal((HEADS, 1, DIM)).astype(np.float16),
        "arg1.pages": rng.standard_normal((1, HEADS * KEYS, DIM)).astype(np.float16),
        "arg4": np.zeros(HEADS * split, np.int32),
        "arg5": np.zeros((HEADS * split, 1, KEYS // split), np.float32),
    }
    before = executed(m, inputs)
    DETECT.apply(m)
    assert attention_of(m).split_kv == split
    after = executed(m, inputs)
    assert before.keys() == after.keys() == {"out0", "out1"}
    for name in before:
        np.testing.assert_allclose(before[name].astype(float), after[name].astype(float), rtol=2e-3, atol=2e-3)


def test_score_inputs_keep_their_parts():
    m = module(2, score_input=True)
    DETECT.apply(m)
    op = attention_of(m)
    assert op.split_kv == 2
    assert len(op.preSoftmaxElemWiseInputs) == 1
    assert len(op.preSoftmaxBody.block.ops) == 2


@pytest.mark.parametrize(
    "features",
    [
        {"repeat_q": False},
        {"part_of_heads": True},
        {"mask": True},
        {"lse": False},
        {"tensors": True, "grouped": True},
    ],
    ids=str,
)
def test_anything_else_is_left_alone(features: dict[str, bool]):
    m = module(2, **features)
    text = print_module(m)
    DETECT.apply(m)
    assert print_module(m) == text


def test_a_second_run_changes_nothing():
    m = module(4)
    DETECT.apply(m)
    text = print_module(m)
    DETECT.apply(m)
    assert print_module(m) == text
