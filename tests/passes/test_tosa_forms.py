"""tosa-to-rock, forms of attention other than masks: the log-sum-exp, one key, types, what the region computes."""

# ruff: noqa: E501
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32

from tests.passes.tosa_graphs import TO_ROCK, masked, small
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.errors import XpagedError
from xpaged.interpreter.run import Report, run
from xpaged.ir.levels import MODULE_LEVELS, Level
from xpaged.ir.parsing import parse
from xpaged.passes.pipelines import lower
from xpaged.testing.attention_op import AttentionOpGraph

LEVELS = tuple(level for level in MODULE_LEVELS if level >= Level.TOSA)


def fused(module: ModuleOp) -> AttentionOp:
    module = module.clone()
    TO_ROCK.apply(module)
    (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    return op


def ran(module: ModuleOp, inputs: Any = None, levels: Any = LEVELS) -> Report:
    report = run(module, inputs, level=levels, check=True, seed=5)
    assert report.ok, report.as_json()
    return report


# The log-sum-exp


def with_lse(lines: str, rows: str, element: str = "f32", **sizes: Any) -> ModuleOp:
    """A graph that returns `%lse`, of shape `rows`, beside the output."""
    sizes = {"element": "f32", **sizes}
    whole = f"tensor<{sizes.get('heads', 1)}x{sizes.get('queries', 2)}x4x{sizes['element']}>"
    return small(after=lines, returned="%o, %lse", result=f"({whole}, tensor<{rows}x{element}>)", **sizes)


ROW = "(tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<1x2x1xf32>"
LOG = "%g = tosa.log %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>\n  "
LSE = {
    "plain": (LOG + f"%lse = tosa.add %g, %top : {ROW}", "1x2x1", "f32"),
    "exchanged": (LOG + f"%lse = tosa.add %top, %g : {ROW}", "1x2x1", "f32"),
    "collapsed": (
        LOG + f"%y = tosa.add %g, %top : {ROW}\n  %lse = tosa.reshape %y {{new_shape = array<i64: 1, 2>}} : (tensor<1x2x1xf32>) -> tensor<1x2xf32>",
        "1x2", "f32",
    ),
    "of rank 4": (
        LOG + "%g4 = tosa.reshape %g {new_shape = array<i64: 1, 1, 2, 1>} : (tensor<1x2x1xf32>) -> tensor<1x1x2x1xf32>\n"
        "  %top4 = tosa.reshape %top {new_shape = array<i64: 1, 1, 2, 1>} : (tensor<1x2x1xf32>) -> tensor<1x1x2x1xf32>\n"
        "  %lse = tosa.add %g4, %top4 : (tensor<1x1x2x1xf32>, tensor<1x1x2x1xf32>) -> tensor<1x1x2x1xf32>",
        "1x1x2x1", "f32",
    ),
    "converted": (
        LOG + f"%y = tosa.add %g, %top : {ROW}\n  %lse = tosa.cast %y : (tensor<1x2x1xf32>) -> tensor<1x2x1xf16>", "1x2x1", "f16",
    ),
    "converted in between": (
        "%tw = tosa.cast %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>\n  "
        "%g = tosa.log %tw : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>\n  "
        f"%lse = tosa.add %g, %top : {ROW}", "1x2x1", "f32",
    ),
    "transposed": (
        LOG + f"%y = tosa.add %g, %top : {ROW}\n  %lse = tosa.transpose %y {{perms = array<i32: 1, 0, 2>}} : (tensor<1x2x1xf32>) -> tensor<2x1x1xf32>",
        "2x1x1", "f32",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "rows", "element"), LSE.values(), ids=LSE)
def test_log_sum_exp(lines: str, rows: str, element: str):
    module = with_lse(lines, rows, element)
    op = fused(module)
    assert op.lse_type is not None
    assert (op.lse_type.get_shape(), str(op.lse_type.element_type)) == ((1, 2), element)
    report = ran(module)
    assert all(len(level.outputs) == 2 for level in report.levels.values())


def test_log_sum_exp_of_hand_checked_rows():
    """Zero scores: the log of the number of keys that are kept; a row that keeps none has minus infinity."""
    mask = masked(
        "%c = tosa.greater %cols, %n3 : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>", queries=2, keys=4
    ).replace("f16", "f32")
    module = with_lse(LSE["plain"][0], "1x2x1", scores=mask, keys=4)
    for index, expected in ((-1, -np.inf), (0, 0.0), (1, np.log(2.0)), (3, np.log(4.0))):
        inputs: dict[str, Any] = {
            "q": np.zeros((1, 2, 4), np.float32), "k": np.ones((1, 4, 4), np.float32), "v": np.ones((1, 4, 4), np.float32),
            "n": np.array([index], np.int32), "m": np.zeros(1, np.int32), "l": np.zeros(1, np.int64),
            "w": np.zeros(4, np.int32),
        }  # fmt: skip
        for name, level in ran(module, inputs).levels.items():
            out, lse = (o.values.reshape(2, -1) for o in level.outputs)
            if name == "tosa" and index < 0:
                assert np.isnan(out).all()
                continue
            assert np.allclose(lse, expected, atol=1e-6), name
            assert (out == (index >= 0)).all(), name


NO_LSE = {
    "of the wrong sum": LOG + f"%lse = tosa.add %g, %t : {ROW}",
    "of the product": "%g = tosa.log %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>\n  " + f"%lse = tosa.mul %g, %top : {ROW}",
    "of other rows": LOG + "%gr = tosa.reshape %g {new_shape = array<i64: 2, 1, 1>} : (tensor<1x2x1xf32>) -> tensor<2x1x1xf32>\n"
    "  %lse = tosa.add %gr, %top : (tensor<2x1x1xf32>, tensor<1x2x1xf32>) -> tensor<2x2x1xf32>",
}  # fmt: skip


@pytest.mark.parametrize("lines", NO_LSE.values(), ids=NO_LSE)
def test_what_is_no_log_sum_exp(lines: str):
    with pytest.raises(XpagedError, match=r"tosa\.|a reduction"):
        fused(with_lse(lines, "2x2x1" if "2x2x1" in lines else "1x2x1"))


# One key: sums and maxima may be gone

ONE: dict[str, Any] = {"queries": 3, "keys": 1, "element": "f32"}
SAME = "(tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>"
ONE_KEY: dict[str, dict[str, Any]] = {
    "with reductions": {},
    "without": {
        "softmax": f"""%d = tosa.sub %x, %x : {SAME}
  %p = tosa.exp %d : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %r = tosa.reciprocal %p : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>"""
    },
    "without the maximum": {
        "softmax": f"""%d = tosa.sub %x, %x : {SAME}
  %p = tosa.exp %d : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %t = tosa.reduce_sum %p {{axis = 2 : i32}} : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>"""
    },
}  # fmt: skip


@pytest.mark.parametrize("parts", ONE_KEY.values(), ids=ONE_KEY)
def test_one_key(parts: dict[str, Any]):
    module = small(**ONE, **parts)
    assert fused(module).sizes.seq_k == 1
    ran(module)


ONE_KEY_LSE = {
    "(x - x) + x": f"%lse = tosa.add %d, %x : {SAME}",
    "log(exp(x - x)) + x": f"%g = tosa.log %p : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>\n  %lse = tosa.add %g, %x : {SAME}",
}


@pytest.mark.parametrize("lines", ONE_KEY_LSE.values(), ids=ONE_KEY_LSE)
def test_log_sum_exp_of_one_key(lines: str):
    module = with_lse(lines, "1x3x1", **ONE, **ONE_KEY["without"])
    assert fused(module).has_lse
    ran(module)


def test_of_several_keys_the_elements_are_no_maximum():
    same = SAME.replace("3x1", "2x3")
    softmax = f"""%d = tosa.sub %x, %x : {same}
  %p = tosa.exp %d : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %r3 = tosa.reciprocal %p : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %r = tosa.slice %r3 {{start = array<i64: 0, 0, 0>, size = array<i64: 1, 2, 1>}} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>"""
    with pytest.raises(XpagedError, match="needs the sum over the keys"):
        fused(small(element="f32", softmax=softmax))


# Types


def test_a_wider_softmax():
    """Scores of f16 are converted to f32 before the softmax, the weights back after it."""
    module = small(element="f16", wide="f32")
    op = fused(module)
    assert str(op.softmax_type) == "f32"
    ran(module)


def test_a_narrower_softmax():
    """An explicit conversion to fewer bits is kept."""
    module = small(element="f32", wide="f16")
    assert [o.name for o in fused(module).preSoftmaxBody.walk()] == ["arith.truncf", "arith.extf", "rock.yield"]
    ran(module)


def test_masks_on_both_sides_of_a_conversion():
    scores = """%c0 = tosa.greater %cols, %rows : (tensor<1x1x3xi32>, tensor<1x2x1xi32>) -> tensor<1x2x3xi1>
  %y = tosa.select %c0, %ninf, %s : (tensor<1x2x3xi1>, tensor<1x2x3xf16>, tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %z = tosa.cast %y : (tensor<1x2x3xf16>) -> tensor<1x2x3xf32>
  %winf = "tosa.const"() <{values = dense<0xFF800000> : tensor<1x2x3xf32>}> : () -> tensor<1x2x3xf32>
  %c = tosa.greater %cols, %n3 : (tensor<1x1x3xi32>, tensor<1x1x1xi32>) -> tensor<1x1x3xi1>
  %x = tosa.select %c, %winf, %z : (tensor<1x1x3xi1>, tensor<1x2x3xf32>, tensor<1x2x3xf32>) -> tensor<1x2x3xf32>"""
    module = small(scores, wide="f32")
    op = fused(module)
    assert op.causal is not None
    assert op.currentSeqLen is not None
    assert not op.preSoftmaxBody.blocks
    ran(module)


def quantized(values: str = "%sc") -> ModuleOp:
    """Q and K of i8, scores of i32 that are made floats with a scale and a zero point."""
    text = f"""
func.func @f(%q: tensor<2x3x8xi8>, %k: tensor<2x8x5xi8>, %v: tensor<2x5x4xf16>, %scale: tensor<1xf32>, %zero: tensor<1xi32>) -> tensor<2x3x4xf16> {{
  %s = tosa.matmul %q, %k : (tensor<2x3x8xi8>, tensor<2x8x5xi8>) -> tensor<2x3x5xi32>
  %z = tosa.reshape %zero {{new_shape = array<i64: 1, 1, 1>}} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %sc = tosa.reshape %scale {{new_shape = array<i64: 1, 1, 1>}} : (tensor<1xf32>) -> tensor<1x1x1xf32>
  %y = tosa.sub %s, %z : (tensor<2x3x5xi32>, tensor<1x1x1xi32>) -> tensor<2x3x5xi32>
  %f = tosa.cast %y : (tensor<2x3x5xi32>) -> tensor<2x3x5xf32>
  %x = tosa.mul %f, {values} : (tensor<2x3x5xf32>, tensor<1x1x1xf32>) -> tensor<2x3x5xf32>
  %top = tosa.reduce_max %x {{axis = 2 : i32}} : (tensor<2x3x5xf32>) -> tensor<2x3x1xf32>
  %d = tosa.sub %x, %top : (tensor<2x3x5xf32>, tensor<2x3x1xf32>) -> tensor<2x3x5xf32>
  %p = tosa.exp %d : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %t = tosa.reduce_sum %p {{axis = 2 : i32}} : (tensor<2x3x5xf32>) -> tensor<2x3x1xf32>
  %r = tosa.reciprocal %t : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %a = tosa.mul %p, %r : (tensor<2x3x5xf32>, tensor<2x3x1xf32>) -> tensor<2x3x5xf32>
  %w = tosa.cast %a : (tensor<2x3x5xf32>) -> tensor<2x3x5xf16>
  %o = tosa.matmul %w, %v : (tensor<2x3x5xf16>, tensor<2x5x4xf16>) -> tensor<2x3x4xf16>
  return %o : tensor<2x3x4xf16>
}}"""
    return parse(text, "quantized.mlir")


def test_scores_of_integers():
    module = quantized()
    op = fused(module)
    assert [str(a.type) for a in op.preSoftmaxBody.block.args] == ["i32", "i32", "f32"]
    assert [o.name for o in op.preSoftmaxBody.walk()] == ["arith.subi", "arith.sitofp", "arith.mulf", "rock.yield"]
    rng = np.random.default_rng(0)
    inputs = {
        "q": rng.integers(-128, 128, (2, 3, 8)).astype(np.int8),
        "k": rng.integers(-128, 128, (2, 8, 5)).astype(np.int8),
        "v": rng.standard_normal((2, 5, 4)).astype(np.float16),
        "scale": np.array([0.0001], np.float32),
        "zero": np.array([3], np.int32),
    }
    ran(module, inputs, levels=[Level.TOSA, Level.ROCK, Level.ROCK_MEMREF])


# What the score region computes

REGIONS = {
    "a mask of bytes": (
        "%c = tosa.cast %b : (tensor<1x2x3xi8>) -> tensor<1x2x3xi1>\n"
        "  %x = tosa.select %c, %ninf, %s : (tensor<1x2x3xi1>, tensor<1x2x3xf16>, tensor<1x2x3xf16>) -> tensor<1x2x3xf16>",
        "%b: tensor<1x2x3xi8>, ",
    ),
    "a mask of bits": (
        "%x = tosa.select %b, %ninf, %s : (tensor<1x2x3xi1>, tensor<1x2x3xf16>, tensor<1x2x3xf16>) -> tensor<1x2x3xf16>",
        "%b: tensor<1x2x3xi1>, ",
    ),
    "a mask that is added": (
        "%x = tosa.add %s, %b : (tensor<1x2x3xf16>, tensor<1x2x3xf16>) -> tensor<1x2x3xf16>", "%b: tensor<1x2x3xf16>, ",
    ),
    "one bias a key": (
        "%x = tosa.add %s, %b : (tensor<1x2x3xf16>, tensor<1x1x3xf16>) -> tensor<1x2x3xf16>", "%b: tensor<1x1x3xf16>, ",
    ),
    "a computed bias": (
        "%b2 = tosa.mul %b, %b : (tensor<1x2x1xf16>, tensor<1x2x1xf16>) -> tensor<1x2x1xf16>\n"
        "  %b3 = tosa.tanh %b2 : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>\n"
        "  %x = tosa.sub %s, %b3 : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>", "%b: tensor<1x2x1xf16>, ",
    ),
    "different constants": (
        '%y = "tosa.const"() <{values = dense<[[[1.0, 2.0, -3.0]]]> : tensor<1x1x3xf16>}> : () -> tensor<1x1x3xf16>\n'
        "  %x = tosa.mul %s, %y : (tensor<1x2x3xf16>, tensor<1x1x3xf16>) -> tensor<1x2x3xf16>", "",
    ),
    "a distance": (
        "%dist = tosa.sub %cols, %rows : (tensor<1x1x3xi32>, tensor<1x2x1xi32>) -> tensor<1x2x3xi32>\n"
        "  %neg = tosa.negate %dist : (tensor<1x2x3xi32>) -> tensor<1x2x3xi32>\n"
        "  %far = tosa.abs %neg : (tensor<1x2x3xi32>) -> tensor<1x2x3xi32>\n"
        "  %f = tosa.cast %far : (tensor<1x2x3xi32>) -> tensor<1x2x3xf16>\n"
        "  %x = tosa.sub %s, %f : (tensor<1x2x3xf16>, tensor<1x2x3xf16>) -> tensor<1x2x3xf16>", "",
    ),
    "integers of several widths": (
        "%b1 = tosa.cast %b : (tensor<1x1x3xi8>) -> tensor<1x1x3xi16>\n"
        "  %b2 = tosa.mul %b1, %b1 : (tensor<1x1x3xi16>, tensor<1x1x3xi16>) -> tensor<1x1x3xi16>\n"
        "  %b3 = tosa.cast %b2 : (tensor<1x1x3xi16>) -> tensor<1x1x3xi32>\n"
        "  %b4 = tosa.minimum %b3, %cols : (tensor<1x1x3xi32>, tensor<1x1x3xi32>) -> tensor<1x1x3xi32>\n"
        "  %f = tosa.cast %b4 : (tensor<1x1x3xi32>) -> tensor<1x1x3xf16>\n"
        "  %x = tosa.add %s, %f : (tensor<1x2x3xf16>, tensor<1x1x3xf16>) -> tensor<1x2x3xf16>", "%b: tensor<1x1x3xi8>, ",
    ),
    "clamped scores": (
        '%hi = "tosa.const"() <{values = dense<0.5> : tensor<1x1x1xf16>}> : () -> tensor<1x1x1xf16>\n'
        "  %lo = tosa.negate %hi : (tensor<1x1x1xf16>) -> tensor<1x1x1xf16>\n"
        "  %y = tosa.minimum %s, %hi : (tensor<1x2x3xf16>, tensor<1x1x1xf16>) -> tensor<1x2x3xf16>\n"
        "  %x = tosa.maximum %y, %lo : (tensor<1x2x3xf16>, tensor<1x1x1xf16>) -> tensor<1x2x3xf16>", "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("scores", "arguments"), REGIONS.values(), ids=REGIONS)
def test_the_score_region(scores: str, arguments: str):
    module = small(scores, arguments=arguments)
    assert fused(module).preSoftmaxBody.blocks
    ran(module)


def test_rows_that_a_bias_masks():
    """A row whose bias is minus infinity everywhere: NaN as the graph is written, 0 and minus infinity in kernels."""
    scores, arguments = REGIONS["a mask that is added"]
    module = small(scores, arguments=arguments)
    inputs: dict[str, Any] = {
        "q": np.ones((1, 2, 4), np.float16), "k": np.ones((1, 4, 3), np.float16), "v": np.ones((1, 3, 4), np.float16),
        "b": np.array([[[-np.inf] * 3, [0, -np.inf, 0]]], np.float16),
        "n": np.zeros(1, np.int32), "m": np.zeros(1, np.int32), "l": np.zeros(1, np.int64), "w": np.zeros(3, np.int32),
    }  # fmt: skip
    for name, level in ran(module, inputs).levels.items():
        out = level.outputs[0].values.reshape(2, 4)
        assert np.isnan(out[0]).all() if name == "tosa" else (out[0] == 0).all(), name
        assert (out[1] == 1).all(), name


# Parts of the keys


PARTS: dict[str, dict[str, Any]] = {
    "without masks": {},
    "index": {"kv_index": True},
    "causal": {"causal": True},
    "offset": {"causal": True, "prefix_offset": True},
    "everything": {"kv_index": True, "causal": True, "prefix_offset": True, "window": 3, "body": ("bias",)},
    "without heads": {"rank": 3, "heads_q": 1, "kv_index": True},
    "pages": {"kv_index": True, "page_tokens": 4},
}


@pytest.mark.parametrize("features", PARTS.values(), ids=PARTS)
def test_keys_in_parts(features: dict[str, Any]):
    """Masks are told in keys over all parts; the results of the parts stay apart."""
    sizes: dict[str, Any] = {"batch": 2, "heads_q": 4, "heads_kv": 2, "parts": 2, "lse": True}
    graph = AttentionOpGraph(**(sizes | features))
    module = parse(graph.text)
    lowered = lower(module.clone(), Level.ROCK)
    (op,) = [op for op in lowered.walk() if isinstance(op, AttentionOp)]
    assert op.sizes[:4] == (2 * graph.heads_q, op.sizes.kv_groups, 4, 8)
    assert op.split_kv == 2
    assert (op.currentSeqLen is not None, op.causal is not None) == (graph.kv_index, graph.causal)
    assert (op.prefixOffset is not None, op.window) == (graph.prefix_offset, graph.window)
    found = run(module, level=[Level.MIGRAPHX, Level.TOSA, Level.ROCK], seed=1).arrays()
    for number in (0, 1):
        graph_result, result = (found[f"{level}/out{number}"].astype(float) for level in ("tosa", "rock"))
        there = ~np.isnan(graph_result) & ~np.isneginf(graph_result)
        assert there.any()
        assert np.allclose(graph_result[there], result[there], atol=0.02)


def split(module: ModuleOp, parts: int) -> ModuleOp:
    """The graph with `splitKV` on its last product."""
    for op in module.walk():
        if op.name == "tosa.matmul" and op.results[0].name_hint == "o":
            op.attributes["splitKV"] = IntegerAttr(parts, i32)
    return module


WRONG_PARTS = {
    "no log-sum-exp": (lambda: small(heads=2), 2, "needs its log-sum-exp"),
    "different queries": (
        lambda: with_lse(LSE["plain"][0].replace("1x2x1", "2x2x1"), "2x2x1", heads=2), 2, "must read the same Q",
    ),
    "heads": (lambda: small(heads=2), 3, "does not divide the heads"),
}  # fmt: skip


@pytest.mark.parametrize(("graph", "parts", "message"), WRONG_PARTS.values(), ids=WRONG_PARTS)
def test_parts_that_are_refused(graph: Callable[[], ModuleOp], parts: int, message: str):
    with pytest.raises(XpagedError, match=message):
        TO_ROCK.apply(split(graph(), parts))
