"""`migraphx.attention` at both graph levels against the float64 oracle, feature by feature and in all legal pairs."""

from dataclasses import replace
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from graphs import Array, run_all
from hypothesis import given
from hypothesis import strategies as st

from xpaged.ir.levels import Level
from xpaged.testing import oracle
from xpaged.testing.attention_op import AttentionOpGraph

DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8}


def inputs_of(g: AttentionOpGraph, seed: int = 0, *, empty: bool = False) -> list[Array]:
    """Random arguments; a KV index leaves at least one key to every row (of every part), unless `empty`."""
    rng = np.random.default_rng(seed)

    def floats(element: str, shape: tuple[int, ...]) -> Array:
        if element == "i8":
            return rng.integers(-9, 10, shape).astype(np.int8)
        return rng.standard_normal(shape).astype(np.float32).astype(DTYPES[element])

    values = [
        floats(g.element, (*g.leading, g.seq_q, g.dim_qk)),
        floats(g.element, (*g.cache_leading, g.dim_qk, g.seq_k)),
        floats(g.values, (*g.cache_leading, g.seq_k, g.dim_v)),
    ]
    for step in g.body:
        element = g.softmax_type or g.values if g.element == "i8" else g.element
        values.append(floats(element, g.scores))
        if step == "dequantize":
            values[-1] = (np.abs(values[-1]) * 2**-5).astype(values[-1].dtype)
    if g.kv_index:
        first = -1 if empty else (g.seq_k - g.seq_k // g.parts if g.parts > 1 else 0)
        values.append(rng.integers(first, g.seq_k + 3, g.leading).astype(np.int32))
    if g.prefix_offset:
        values.append(
            rng.integers(g.seq_k - g.seq_k // g.parts if g.parts > 1 else 0, g.seq_k, g.leading).astype(np.int32)
        )
    return values


def wanted(g: AttentionOpGraph, values: list[Array]) -> tuple[Array, Array]:
    """Output `[.., Sq, Dv]` and LSE `[.., Sq]` by the oracle, with parts as heads of their own."""
    q, k, v = (x.astype(np.float64) for x in values[:3])
    rest = values[3:]
    extras = [x.astype(np.float64) for x in rest[: len(g.body)]]
    rest = rest[len(g.body) :]
    last = rest.pop(0).reshape(-1) if g.kv_index else None
    offset = rest.pop(0).reshape(-1) if g.prefix_offset else None
    heads = int(np.prod(g.leading))
    repeats = heads // int(np.prod(g.cache_leading))

    def score(s: Array, given: Any) -> Array:
        for step, extra in zip(g.body, given, strict=True):
            s = s + extra if step == "bias" else s * extra
        return s

    out, lse = np.zeros((heads, g.parts, g.seq_q, g.dim_v)), np.zeros((heads, g.parts, g.seq_q))
    chunk = g.seq_k // g.parts
    q = q.reshape(heads, g.seq_q, g.dim_qk)
    k = k.reshape(-1, g.dim_qk, g.seq_k).swapaxes(1, 2)
    v = v.reshape(-1, g.seq_k, g.dim_v)
    extras = [e.reshape(heads, g.parts, g.seq_q, chunk) for e in extras]
    for part in range(g.parts):
        # The keys of other parts get a score of minus infinity: masks count all keys.
        whole = [np.zeros((heads, g.seq_q, g.seq_k)) for _ in extras]
        for e, w in zip(extras, whole, strict=True):
            w[:, :, part * chunk : (part + 1) * chunk] = e[:, part]
        outside = np.full((heads, g.seq_q, g.seq_k), -np.inf)
        outside[:, :, part * chunk : (part + 1) * chunk] = 0

        def masked(s: Array, given: Any) -> Array:
            return score(s, given[:-1]) + given[-1]

        problem = oracle.Problem(
            q,
            k,
            v,
            repeats=repeats,
            kv_index=None if last is None else [int(i) for i in last],
            causal=g.causal,
            prefix_offset=None if offset is None else [int(i) for i in offset],
            window=g.window,
            score=masked,
            extras=[*whole, outside],
        )
        out[:, part], lse[:, part] = oracle.attention(problem)
    return out.reshape(*g.leading, *g.split, g.seq_q, g.dim_v), lse.reshape(*g.leading, *g.split, g.seq_q)


def check(g: AttentionOpGraph, seed: int = 0, *, empty: bool = False) -> None:
    """Every row that keeps a key agrees with the oracle; rows that keep none are NaN, as the graph is written."""
    values = inputs_of(g, seed, empty=empty)
    if g.kernel:
        g = replace(g, kernel=False)
    out, lse = wanted(g, values)
    kept = np.isfinite(lse)
    text = g.text.replace("@attention(", "@f(")
    unit = {"f32": 2.0**-19, "f16": 2.0**-8, "bf16": 2.0**-5}
    narrow = max(unit[t] for t in (g.values, g.softmax_type or g.values, "f32" if g.element == "i8" else g.element))
    for level, exact in product((Level.MIGRAPHX, Level.TOSA), (False, True)):
        found = run_all(text, *values, exact=exact, level=level)
        close = 1e-9 if exact else 8 * narrow
        result = found[0].astype(np.float64).reshape(out.shape)
        np.testing.assert_allclose(result[kept], out[kept], rtol=close, atol=close, err_msg=f"{level.value} {exact}")
        assert np.isnan(result[~kept]).all()
        if g.lse:
            sums = found[1].astype(np.float64).reshape(lse.shape)
            np.testing.assert_allclose(sums[kept], lse[kept], rtol=close, atol=close)


PLAIN = AttentionOpGraph()
ALONE = {
    "plain": PLAIN,
    "rank3": replace(PLAIN, rank=3, batch=3),
    "gqa": replace(PLAIN, heads_q=6, heads_kv=2, batch=2),
    "f32": replace(PLAIN, element="f32"),
    "bf16": replace(PLAIN, element="bf16"),
    "softmax_type": replace(PLAIN, softmax_type="f32"),
    "mixed_values": replace(PLAIN, element="bf16", value_element="f32", softmax_type="f32"),
    "i8": replace(PLAIN, element="i8", value_element="f16", softmax_type="f32", body=("dequantize", "bias")),
    "lse": replace(PLAIN, lse=True, softmax_type="f32"),
    "one_key": replace(PLAIN, seq_k=1, lse=True),
    "odd_sizes": replace(PLAIN, seq_q=3, seq_k=7, dim_qk=5, dim_v=11, batch=2),
    "scale": replace(PLAIN, body=("scale",)),
    "scale_and_bias": replace(PLAIN, body=("scale", "bias")),
    "kvcache": replace(PLAIN, kv_index=True, batch=2),
    "causal": replace(PLAIN, causal=True),
    "prefix": replace(PLAIN, causal=True, prefix_offset=True),
    "window": replace(PLAIN, kv_index=True, window=3),
    "split": replace(PLAIN, parts=2, lse=True),
    "split_by_3": replace(PLAIN, parts=3, seq_k=9, lse=True),
}


@pytest.mark.parametrize("name", ALONE)
def test_alone(name: str):
    check(ALONE[name])


MASKS = [
    (kv, causal, prefix, window)
    for kv, causal, prefix, window in product((False, True), repeat=4)
    if (causal or not prefix) and (kv or not window)
]


@pytest.mark.parametrize("masks", MASKS, ids=lambda m: "".join("kcpw"[i] for i in range(4) if m[i]) or "none")
@pytest.mark.parametrize("parts", [1, 4])
def test_masks_together(masks: tuple[bool, bool, bool, bool], parts: int):
    kv, causal, prefix, window = masks
    g = AttentionOpGraph(
        batch=2,
        seq_k=8,
        kv_index=kv,
        causal=causal,
        prefix_offset=prefix,
        window=2 if window else None,
        parts=parts,
        lse=parts > 1,
        softmax_type="f32" if parts > 1 else None,
        body=("scale",) if causal else (),
    )
    check(g, seed=parts, empty=True)


def test_the_kv_index_is_inclusive_and_the_window_keeps_one_more():
    """By hand: equal scores, so that the output is the mean of the rows of V that count."""
    g = AttentionOpGraph(heads_q=1, seq_q=1, seq_k=6, dim_qk=1, dim_v=1, element="f32", kernel=False)
    q, k, v = np.zeros((1, 1, 1, 1)), np.zeros((1, 1, 1, 6)), 2.0 ** np.arange(6).reshape(1, 1, 6, 1)

    def result(g: AttentionOpGraph, *more: int) -> float:
        values = [x.astype(np.float32) for x in (q, k, v)] + [np.full((1, 1), n, np.int32) for n in more]
        found = [
            run_all(g.text.replace("@attention(", "@f("), *values, level=at)[0] for at in (Level.MIGRAPHX, Level.TOSA)
        ]
        np.testing.assert_allclose(found[0].reshape(-1), found[1].reshape(-1), rtol=1e-6)
        return float(found[0].reshape(-1)[0])

    assert result(g) == 63 / 6
    for index, kept in ((0, [1]), (2, [1, 2, 4]), (5, [1, 2, 4, 8, 16, 32]), (99, [1, 2, 4, 8, 16, 32])):
        assert result(replace(g, kv_index=True), index) == pytest.approx(sum(kept) / len(kept))
    assert np.isnan(result(replace(g, kv_index=True), -1))
    for index, window, kept in ((4, 1, [8, 16]), (4, 2, [4, 8, 16]), (1, 3, [1, 2]), (99, 1, [16, 32])):
        assert result(replace(g, kv_index=True, window=window), index) == pytest.approx(sum(kept) / len(kept))
    assert result(replace(g, causal=True)) == 1
    for offset, kept in ((0, [1]), (2, [1, 2, 4]), (2**31 - 1, [1, 2, 4, 8, 16, 32])):
        assert result(replace(g, causal=True, prefix_offset=True), offset) == pytest.approx(sum(kept) / len(kept))


@given(st.data())
def test_any_attention(data: st.DataObject):
    draw = data.draw
    kv, causal = draw(st.booleans()), draw(st.booleans())
    parts = draw(st.sampled_from([1, 1, 2, 3]))
    seq_k = parts * draw(st.integers(1, 4))
    heads_kv = draw(st.integers(1, 3))
    rank = draw(st.sampled_from([3, 4]))
    check(
        AttentionOpGraph(
            batch=draw(st.integers(1, 2)),
            heads_q=heads_kv * draw(st.integers(1, 3)),
            heads_kv=heads_kv,
            seq_q=draw(st.integers(1, 4)),
            seq_k=seq_k,
            dim_qk=draw(st.integers(1, 5)),
            dim_v=draw(st.integers(1, 5)),
            rank=rank,
            element=draw(st.sampled_from(["f16", "f32"])),
            kv_index=kv,
            causal=causal,
            prefix_offset=causal and draw(st.booleans()),
            window=draw(st.one_of(st.none(), st.integers(1, seq_k))) if kv else None,
            parts=parts,
            lse=parts > 1 or draw(st.booleans()),
            body=draw(st.sampled_from([(), ("scale",), ("bias", "scale")])),
        ),
        seed=draw(st.integers(0, 99)),
        empty=True,
    )
