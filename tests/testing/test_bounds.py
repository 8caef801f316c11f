"""The bounds: never exceeded by arithmetic that rounds as it may, and small enough that mistakes exceed them."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpaged.testing import bounds, oracle

F16, F32, BF16 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16)


def problem(
    seed: int, dtype: Any, rows: int = 16, keys: int = 96, channels: int = 32, size: float = 0.5
) -> oracle.Problem:
    rng = np.random.default_rng(seed)

    def draw(n: int, d: int) -> Any:
        return (rng.standard_normal((1, n, d)) * size).astype(np.float32).astype(dtype)

    return oracle.Problem(draw(rows, channels), draw(keys, channels), draw(keys, channels))


def computed(p: oracle.Problem, types: bounds.Types, worst: bool = False) -> tuple[Any, Any]:
    """Attention as a kernel does it: key by key, online, P rounded to V's type before the running maximum is final."""
    q, k, v = (np.asarray(x[0], np.float32) for x in (p.q, p.k, p.v))
    m, total, acc = np.full(len(q), -np.inf, np.float32), np.zeros(len(q), np.float32), np.zeros((len(q), v.shape[1]))
    acc = acc.astype(np.float32)
    log2e = np.float32(np.log2(np.e))
    for j in range(len(k)):
        s = np.zeros(len(q), np.float32)
        for c in range(q.shape[1]):
            s = s + q[:, c] * k[j, c]
        s = np.asarray(s if p.score is None else p.score(s, []), np.float32)
        s = s * log2e
        new = np.maximum(m, s)
        old = np.exp2(m - new)
        e = np.exp2(s - new)
        total = total * old + e
        acc = acc * old[:, None] + e.astype(types.p).astype(np.float32)[:, None] * v[j]
        m = new
    out = (acc / total[:, None]).astype(types.out).astype(np.float64)
    return out, (np.log(total) + m / log2e).astype(types.lse).astype(np.float64)


def merged(p: oracle.Problem, types: bounds.Types) -> tuple[Any, Any]:
    """Parts as a kernel computes them, in f32, and merged as one does."""
    parts = [computed(p.part(i, types.parts), replace(types, out=F32, lse=F32)) for i in range(types.parts)]
    out, lse = (np.stack([part[i] for part in parts]).astype(np.float32) for i in range(2))
    top = lse.max(axis=0)
    weights = np.exp2((lse - top) * np.float32(np.log2(np.e)))
    total, acc = np.zeros_like(top), np.zeros_like(out[0])
    for weight, each in zip(weights, out, strict=True):
        total, acc = total + weight, acc + weight[:, None] * each
    whole = top + np.log2(total) * np.float32(np.log(2))
    return (acc / total[:, None]).astype(types.out).astype(np.float64), whole.astype(np.float64)


@pytest.mark.parametrize("dtype", [F16, BF16, F32], ids=str)
@given(seed=st.integers(0, 10_000), size=st.sampled_from([0.05, 0.5, 1.5, 4.0]), parts=st.sampled_from([2, 3, 5, 8]))
def test_merged_parts_stay_inside(dtype: Any, seed: int, size: float, parts: int) -> None:
    p = problem(seed, dtype, rows=4, keys=40, channels=12, size=size)
    types = bounds.Types(dtype, dtype, F32, F32, parts=parts)
    head = oracle.attend(p, 0, np.arange(4))
    out_bound, lse_bound = bounds.attention(p, 0, np.arange(4), head, types)
    plain = bounds.attention(p, 0, np.arange(4), head, replace(types, parts=1))
    assert (plain[0] <= out_bound).all()
    with np.errstate(all="ignore"):
        out, lse = merged(p, types)
    assert (np.abs(out - head.out) <= out_bound).all()
    assert (np.abs(lse - head.lse) <= lse_bound).all()


def test_the_bound_of_a_merge_is_no_excuse() -> None:
    """A part that is left out of the merge, or weighs as the next one does, lies far outside."""
    p = problem(0, F16, rows=8, keys=64, channels=16)
    types = bounds.Types(F16, F16, F32, F32, parts=4)
    head = oracle.attend(p, 0, np.arange(8))
    out_bound, lse_bound = bounds.attention(p, 0, np.arange(8), head, types)
    parts = [oracle.attend(p.part(i, 4), 0) for i in range(4)]
    out, lse = np.stack([h.out for h in parts])[None], np.stack([h.lse for h in parts])[None]
    less = oracle.merge(out[:, 1:], lse[:, 1:])
    rolled = oracle.merge(out, np.roll(lse, 1, axis=1))
    assert (np.abs(less[0][0] - head.out) > 3 * out_bound).any()
    assert (np.abs(less[1][0] - head.lse) > 100 * lse_bound).all()
    assert (np.abs(rolled[0][0] - head.out) > 3 * out_bound).any()


@pytest.mark.parametrize("dtype", [F16, BF16, F32], ids=str)
@given(seed=st.integers(0, 10_000), size=st.sampled_from([0.05, 0.5, 1.5, 4.0]))
def test_a_kernel_stays_inside(dtype: Any, seed: int, size: float) -> None:
    p = problem(seed, dtype, rows=4, keys=40, channels=12, size=size)
    types = bounds.Types(dtype, dtype, F32, F32)
    rows = np.arange(4)
    head = oracle.attend(p, 0, rows)
    out_bound, lse_bound = bounds.attention(p, 0, rows, head, types)
    with np.errstate(all="ignore"):
        out, lse = computed(p, types)
    assert (np.abs(out - head.out) <= out_bound).all()
    assert (np.abs(lse - head.lse) <= lse_bound).all()


def test_bounds_are_of_the_size_of_the_roundings() -> None:
    """For f16 a few units of roundoff of the values averaged, not a percent."""
    p = problem(0, F16)
    head = oracle.attend(p, 0)
    out, lse = bounds.attention(p, 0, np.arange(16), head, bounds.Types(F16, F16, F32, F32))
    size = head.p @ np.abs(np.asarray(p.v[0], np.float64))
    assert (out < 4 * 2.0**-11 * size).all()
    assert (lse < 1e-4).all()
    narrow, _ = bounds.attention(p, 0, np.arange(16), head, bounds.Types(F32, F32, F32, F32))
    assert (narrow < 2e-4 * size).all()


@pytest.mark.parametrize("mistake", ["last key dropped", "page swapped", "scale", "wrong head", "p in bf16"])
def test_mistakes_are_larger_than_the_bounds(mistake: str) -> None:
    p = problem(3, F16, keys=128, size=0.7)
    types = bounds.Types(F16, F16, F32, F32)
    head = oracle.attend(p, 0)
    bound, _ = bounds.attention(p, 0, np.arange(16), head, types)
    wrong = oracle.Problem(p.q.copy(), p.k.copy(), p.v.copy())
    if mistake == "last key dropped":
        wrong.kv_index = [126]
    elif mistake == "page swapped":
        wrong.v[0, :16], wrong.v[0, 16:32] = p.v[0, 16:32], p.v[0, :16]
    elif mistake == "scale":
        wrong.score = lambda s, _: s * 1.01
    elif mistake == "wrong head":
        wrong.v = problem(4, F16, keys=128, size=0.7).v
    else:
        head_p = oracle.attend(p, 0).p.astype(ml_dtypes.bfloat16).astype(float)
        found = head_p @ np.asarray(p.v[0], float)
        assert (np.abs(found - head.out) > bound).any()
        return
    assert (np.abs(oracle.attend(wrong, 0).out - head.out) > bound).any()


def test_an_empty_row_has_no_room() -> None:
    p = problem(0, F16)
    p.kv_index = [-1]
    head = oracle.attend(p, 0)
    out, lse = bounds.attention(p, 0, np.arange(16), head, bounds.Types(F16, F16, F32, F32))
    assert (out == 0).all()
    assert (lse == 0).all()


def bounded(values: Any, error: float = 0.0) -> Any:
    """A Bounded where an array is asked for."""
    return bounds.Bounded(values, error)


def _select(s: Any) -> Any:
    condition: Any = getattr(s, "value", s) > 0
    return np.where(condition, s, -s)


OPERATIONS: dict[str, Any] = {
    "scale": lambda s: s * 0.125,
    "affine": lambda s: s * 3.0 - 7.5,
    "divide": lambda s: 1.0 / (s + 10.0),
    "exp": lambda s: np.exp(s),
    "tanh": lambda s: 30.0 * np.tanh(s / 30.0),
    "relu": lambda s: np.maximum(s, 0.0),
    "select": _select,
    "square": lambda s: s * s,
    "sqrt": lambda s: np.sqrt(np.abs(s) + 1.0),
}


@pytest.mark.parametrize("name", OPERATIONS)
@given(st.lists(st.tuples(st.floats(-5, 5), st.floats(-1, 1)), min_size=1, max_size=10))
def test_errors_are_followed_through_operations(name: str, data: list[tuple[float, float]]) -> None:
    values = np.array([v for v, _ in data])
    error = 1e-3
    off = values + error * np.array([d for _, d in data])
    fn = OPERATIONS[name]
    followed = fn(bounded(values, error))
    np.testing.assert_allclose(followed.value, fn(values))
    if name != "select":  # whose condition is not continuous
        assert (np.abs(fn(off) - fn(values)) <= followed.error * (1 + 1e-9) + 1e-15).all()


def test_rounding_is_added_to_results_only() -> None:
    x = bounded(np.array([2.0]), 0.0)
    assert x.rounded(F16).error == 0
    assert (x + 0.0).rounded(F16).error == pytest.approx(2.0 * 2**-11, rel=1e-3)
    assert (x + 0.0).reshape(1, 1).rounded(F16).error == 0
    assert x.narrowed(BF16).error == pytest.approx(2.0 * 2**-8, rel=1e-3)
    assert x.transpose().shape == (1,)
    assert np.broadcast_to(x, (3, 1)).shape == (3, 1)


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(TypeError):
        np.arctan2(bounded(np.ones(1)), 1.0)
    with pytest.raises(TypeError):
        np.linalg.norm(bounded(np.ones(1)))
