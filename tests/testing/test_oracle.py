"""The oracle against the definition written out as loops, one row and one key at a time."""

import ast
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpaged.testing import oracle


def by_loops(p: oracle.Problem) -> tuple[Any, Any]:
    heads, rows, keys, channels = p.heads, p.q.shape[1], p.k.shape[1], p.v.shape[2]
    out, lse = np.zeros((heads, rows, channels)), np.full((heads, rows), -math.inf)
    for g in range(heads):
        for i in range(rows):
            kept: dict[int, float] = {}
            for j in range(keys):
                if p.kv_index is not None:
                    last = min(p.kv_index[g], keys - 1)
                    if j > last or (p.window is not None and j < last - p.window):
                        continue
                if p.causal and j > i + (0 if p.prefix_offset is None else p.prefix_offset[g]):
                    continue
                s = math.fsum(float(a) * float(b) for a, b in zip(p.q[g, i], p.k[g // p.repeats, j], strict=True))
                kept[j] = s if p.score is None else float(p.score(np.array([[s]]), [])[0, 0])
            if kept:
                total = math.fsum(math.exp(s) for s in kept.values())
                lse[g, i] = math.log(total)
                for j, s in kept.items():
                    out[g, i] += math.exp(s) / total * p.v[g // p.repeats, j].astype(float)
    return out, lse


@st.composite
def problems(draw: st.DrawFn) -> oracle.Problem:
    repeats, kv_heads = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    rows, keys, channels, values = (draw(st.integers(1, 5)) for _ in range(4))
    heads = repeats * kv_heads
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    causal = draw(st.booleans())
    index = draw(st.none() | st.lists(st.integers(-1, keys + 2), min_size=heads, max_size=heads))
    return oracle.Problem(
        rng.standard_normal((heads, rows, channels)),
        rng.standard_normal((kv_heads, keys, channels)),
        rng.standard_normal((kv_heads, keys, values)),
        repeats=repeats,
        kv_index=index,
        causal=causal,
        prefix_offset=draw(st.none() | st.lists(st.integers(-2, 4), min_size=heads, max_size=heads))
        if causal
        else None,
        window=None if index is None else draw(st.none() | st.integers(1, keys)),
        score=draw(st.sampled_from([None, lambda s, _: 0.5 * s - 1])),
    )


@given(problems())
def test_agrees_with_loops(problem: oracle.Problem) -> None:
    out, lse = oracle.attention(problem)
    expected_out, expected_lse = by_loops(problem)
    np.testing.assert_allclose(out, expected_out, atol=1e-13)
    np.testing.assert_allclose(lse, expected_lse, atol=1e-13)
    assert np.isfinite(out).all()


@given(problems(), st.sampled_from([np.nan, np.inf]))
def test_invalid_keys_and_values_do_not_matter(problem: oracle.Problem, value: float) -> None:
    expected = oracle.attention(problem)
    for h in range(len(problem.k)):
        heads = range(h * problem.repeats, (h + 1) * problem.repeats)
        dead = ~np.logical_or.reduce([problem.valid(g) for g in heads])
        problem.k[h, dead] = value
        problem.v[h, dead] = value
    for a, b in zip(oracle.attention(problem), expected, strict=True):
        np.testing.assert_array_equal(a, b)


@given(problems(), st.integers(1, 3))
def test_merging_parts_gives_the_whole(problem: oracle.Problem, parts: int) -> None:
    out, lse = oracle.attention(problem)
    pieces: list[tuple[Any, Any]] = []
    for part in range(parts):
        mine = np.arange(problem.k.shape[1]) % parts == part

        def only(s: Any, e: Any, mine: Any = mine) -> Any:
            return np.where(mine, s if problem.score is None else problem.score(s, e), -np.inf)

        pieces.append(oracle.attention(replace(problem, score=only)))
    merged = oracle.merge(*(np.stack([p[i] for p in pieces], axis=1) for i in range(2)))
    np.testing.assert_allclose(merged[0], out, atol=1e-12)
    np.testing.assert_allclose(merged[1], lse, atol=1e-12)


@given(problems(), st.integers(1, 7))
def test_parts_of_a_problem_give_the_whole(problem: oracle.Problem, parts: int) -> None:
    """Also parts without a key: masks count all keys, not those of the part."""
    out, lse = oracle.attention(problem)
    pieces = [oracle.attention(problem.part(i, parts)) for i in range(parts)]
    merged = oracle.merge(*(np.stack([p[i] for p in pieces], axis=1) for i in range(2)))
    np.testing.assert_allclose(merged[0], out, atol=1e-12)
    np.testing.assert_allclose(merged[1], lse, atol=1e-12)


def test_the_keys_of_a_part() -> None:
    """Seven keys in three parts are 3, 3 and 1; in five 2, 2, 2, 1 and none."""
    x = np.arange(7.0).reshape(1, 7, 1)
    p = oracle.Problem(np.ones((1, 1, 1)), np.zeros((1, 7, 1)), x)
    for parts, expected in ((3, [[0, 1, 2], [3, 4, 5], [6]]), (5, [[0, 1], [2, 3], [4, 5], [6], []])):
        for i, keys in enumerate(expected):
            out, lse = oracle.attention(p.part(i, parts))
            assert out.item() == pytest.approx(np.mean(keys) if keys else 0)
            assert np.exp(lse.item()) == pytest.approx(len(keys))


def test_a_kv_index_below_minus_one_is_an_error() -> None:
    x = np.zeros((1, 1, 1))
    with pytest.raises(ValueError, match="below -1"):
        oracle.attention(oracle.Problem(x, x, x, kv_index=[-2]))


def test_imports_nothing_of_xpaged() -> None:
    tree = ast.parse(Path(oracle.__file__).read_text())
    modules = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    modules |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert {m.split(".")[0] for m in modules} <= {"collections", "dataclasses", "typing", "numpy"}
