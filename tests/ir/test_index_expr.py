"""Index expressions: the simplifications fire, and never change a value."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpaged.ir.index_expr import IndexExpr

T = IndexExpr.var("t", 0, 63)
K = IndexExpr.var("k", 0, 15)
D = IndexExpr.var("d", 0, 63)
LANE = IndexExpr.var("lane", 0, 63)
FLAT = (16 * T + K) * 64 + D


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (FLAT // 1024, T),
        (FLAT // 8192, T // 8),
        (FLAT % 1024, 64 * K + D),
        ((1024 * T + 64 * K + D) % 8192, 1024 * (T % 8) + 64 * K + D),
        (FLAT // 64, 16 * T + K),
        (FLAT % 64, D),
        (FLAT // 128, 8 * T + K // 2),
        (FLAT // 16 % 4, D // 16),
        (T // 4 // 4, T // 16),
        ((T // 4 + 3) // 4, (T + 12) // 16),
        (T % 32 % 8, T % 8),
        (T % 32 // 8, T // 8 % 4),
        ((8 * (T % 8) + K) % 64, (8 * T + K) % 64),
        (T // 8 * 8 + T % 8, T),
        (T % 4 + T // 4 % 4 * 4, T % 16),
        (T % 4 + T // 4 % 4 * 4 + T // 16 * 16, T),
        (FLAT // 96 * 96 + FLAT % 96, FLAT),
        (FLAT // 520 * 520 + FLAT % 520, FLAT),
        (3 * (T - 5) // 7 * 7 + 3 * (T - 5) % 7, 3 * T - 15),
        ((63 - T) // 64, 0),
        ((T - 64) // 64, -1),
        ((T - 64) % 64, T),
        ((65 * T) // 64 - T, 0),
        ((65 * T) % 64, T),
        ((96 * T) // 64, 3 * T // 2),
        (2 * T - T - T + 7, 7),
        (IndexExpr.var("one", 3, 3) * T, 3 * T),
        (T % 1, 0),
        (IndexExpr.const(-7) // 2, -4),
        (IndexExpr.const(-7) % 2, 1),
    ],
)
def test_simplifies(found: IndexExpr, expected: IndexExpr | int):
    assert found == expected


def test_a_table_index_over_heads_and_pages_joins():
    """Batch, head and page digits of a group index come back as one product."""
    group = IndexExpr.var("g", 0, 5)
    batch, head = group // 2, group % 2
    flat = head * 4096 * 64 + FLAT
    assert batch * 512 + flat // 1024 == 256 * group + T


def test_lane_vector_offsets_are_as_short_as_by_hand():
    key = 16 * (T % 4) + LANE % 16
    offset = (key * 64 + 8 * (LANE // 16)) % 1024
    assert str(offset) == "64*(lane % 16) + 8*(lane / 16)"
    assert str(FLAT // 96) == "(1024*t + 64*k + d) / 96"
    assert str((T - 5) // 7) == "(t + 2) / 7 - 1"
    assert str(-T + 3) == "-t + 3"
    assert str(IndexExpr.const(0)) == "0"


def test_ranges():
    assert (FLAT.lo, FLAT.hi) == (0, 65535)
    assert ((T - K).lo, (T - K).hi) == (-15, 63)
    assert ((T % 40).lo, (T % 40).hi) == (0, 39)
    assert FLAT.within(0, 65536)
    assert not FLAT.within(0, 65535)


def test_questions():
    assert (8 * T + 24 * K).known_divisor() == 8
    assert (8 * T + 24 * K + 4).known_divisor() == 4
    assert IndexExpr.const(0).known_divisor() == 0
    assert IndexExpr.const(5).constant == 5
    assert T.constant is None
    assert (T // 8 + K).variables() == {"t", "k"}
    assert (T // 8).depends_on("t")
    assert not (T // 8).depends_on("k")
    part, rest = (64 * T + (LANE // 16) + 4 * K + 9).split({"t", "lane"})
    assert part == 64 * T + LANE // 16
    assert rest == 4 * K + 9


def test_substitute_and_evaluate():
    e = FLAT // 96
    assert e.substitute({"t": 3, "k": K // 2}) == ((48 + K // 2) * 64 + D) // 96
    assert e.substitute({"other": 1}) is e
    assert e.evaluate({"t": 3, "k": 5, "d": 7}) == (3 * 1024 + 5 * 64 + 7) // 96
    with pytest.raises(KeyError):
        e.evaluate({"t": 3, "k": 5})


def test_equal_expressions_have_equal_hashes():
    assert len({T + K, K + T, IndexExpr.of(T) + K}) == 1
    assert hash(IndexExpr.const(4)) == hash(4)
    assert T != IndexExpr.var("t", 0, 62)
    assert T // 2 != T % 2


@pytest.mark.parametrize("n", [0, -3])
def test_the_divisor_must_be_positive(n: int):
    with pytest.raises(ValueError, match=f"divided by {n}"):
        _ = T // n


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match=r"range of index variable 't' is empty: 3\.\.2"):
        IndexExpr.var("t", 3, 2)
    with pytest.raises(TypeError, match="one must be a constant"):
        _ = T * K


SMALL = {"a": (0, 5), "b": (-3, 4), "c": (2, 9)}
LEAVES = st.one_of(
    st.sampled_from([IndexExpr.var(name, lo, hi) for name, (lo, hi) in SMALL.items()]),
    st.integers(-20, 20).map(IndexExpr.const),
)
DIVISORS = st.sampled_from([1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 30])
Plain = Callable[[dict[str, int]], int]
Pair = tuple[IndexExpr, Plain]
"""An expression, and the same computation done on plain integers: a function of the variables."""


def _leaf(e: IndexExpr) -> Pair:
    return e, e.evaluate


def _combine(children: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    def unary(apply: Callable[[Any], Any], p: Pair) -> Pair:
        e, plain = p

        def computed(env: dict[str, int]) -> int:
            return apply(plain(env))

        return apply(e), computed

    def scaled(p: Pair, c: int) -> Pair:
        return unary(lambda x: x * c, p)

    def divided(p: Pair, n: int) -> Pair:
        return unary(lambda x: x // n, p)

    def remainder(p: Pair, n: int) -> Pair:
        return unary(lambda x: x % n, p)

    def added(p: Pair, q: Pair, sign: int) -> Pair:
        def computed(env: dict[str, int]) -> int:
            return p[1](env) + sign * q[1](env)

        return (p[0] + q[0] if sign > 0 else p[0] - q[0]), computed

    def rejoined(p: Pair, n: int) -> Pair:
        return p[0] // n * n + p[0] % n, p[1]

    return st.one_of(
        st.builds(scaled, children, st.sampled_from([-3, -1, 2, 4, 6, 8, 12, 16, 40])),
        st.builds(added, children, children, st.sampled_from([1, -1])),
        st.builds(divided, children, DIVISORS),
        st.builds(remainder, children, DIVISORS),
        st.builds(rejoined, children, DIVISORS),
    )


EXPRESSIONS = st.recursive(LEAVES.map(_leaf), _combine, max_leaves=8)


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS)
def test_simplification_keeps_every_value_and_bound(pair: Pair):
    """Over the whole range of the variables, the canonical form has the value of the plain computation."""
    expression, plain = pair
    for values in product(*(range(lo, hi + 1) for lo, hi in SMALL.values())):
        env = dict(zip(SMALL, values, strict=True))
        value = expression.evaluate(env)
        assert value == plain(env)
        assert expression.lo <= value <= expression.hi


@settings(max_examples=200, deadline=None)
@given(EXPRESSIONS, DIVISORS)
def test_quotient_and_remainder_always_rejoin(pair: Pair, n: int):
    e = pair[0]
    assert e // n * n + e % n == e


@settings(max_examples=100, deadline=None)
@given(EXPRESSIONS, st.sampled_from(list(SMALL)), st.integers(0, 3))
def test_substitution_agrees_with_evaluation(pair: Pair, name: str, at: int):
    e = pair[0]
    value = SMALL[name][0] + at
    env = {n: lo for n, (lo, _) in SMALL.items()} | {name: value}
    assert e.substitute({name: value}).evaluate(env) == e.evaluate(env)


def test_numpy_arrays_evaluate_elementwise():
    import numpy as np

    lane = np.arange(64)
    t = np.arange(4)[:, None]
    values = (FLAT // 96 + LANE % 16).evaluate({"t": t, "k": 3, "d": lane, "lane": lane})
    assert values.shape == (4, 64)
    assert (values == (t * 1024 + 3 * 64 + lane) // 96 + lane % 16).all()
