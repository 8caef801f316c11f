"""The mask rules against the oracle's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xpaged.lowering import masks
from xpaged.testing import oracle


class Integers:
    """Whole numbers that fit 32 bits, as the lowering has them."""

    def const(self, value: int) -> int:
        return value

    def min(self, a: int, b: int) -> int:
        return min(a, b)

    def max(self, a: int, b: int) -> int:
        return max(a, b)

    def add(self, a: int, b: int) -> int:
        assert -(2**31) <= a + b < 2**31
        return a + b


def kept(keys: int, index: int | None, row: int | None, offset: int | None, window: int | None) -> list[bool]:
    """Which keys a row keeps."""
    ops = Integers()
    last = masks.last_key(ops, index, keys)
    upper = masks.upper_key(ops, last, row, offset)
    lower = masks.lower_key(ops, last, window)
    return [j <= upper and (lower is None or j >= lower) for j in range(keys)]


@given(
    keys=st.integers(1, 12),
    rows=st.integers(1, 12),
    index=st.one_of(st.none(), st.integers(-1, 14), st.just(2**31 - 1)),
    causal=st.booleans(),
    offset=st.one_of(st.none(), st.integers(-15, 15), st.sampled_from((-(2**31), 2**31 - 1))),
    window=st.one_of(st.none(), st.integers(1, 12)),
)
def test_the_rules_are_the_oracles(
    keys: int, rows: int, index: int | None, causal: bool, offset: int | None, window: int | None
) -> None:
    window = None if index is None else window  # a window ends at the KV index
    offset = offset if causal else None
    problem = oracle.Problem(
        np.zeros((1, rows, 1)),
        np.zeros((1, keys, 1)),
        np.zeros((1, keys, 1)),
        kv_index=None if index is None else [index],
        causal=causal,
        prefix_offset=None if offset is None else [offset],
        window=window,
    )
    expected = problem.mask(0, np.arange(rows))
    for row in range(rows):
        assert kept(keys, index, row if causal else None, offset, window) == expected[row].tolist()


def test_edges() -> None:
    assert kept(4, None, None, None, None) == [True] * 4
    assert kept(4, -1, None, None, None) == [False] * 4
    assert kept(4, 0, None, None, None) == [True, False, False, False]
    assert kept(4, 4, None, None, None) == [True] * 4
    assert kept(4, None, 0, None, None) == [True, False, False, False]
    assert kept(4, None, 0, 2, None) == [True, True, True, False]
    assert kept(4, None, 0, -1, None) == [False] * 4
    assert kept(4, None, 3, 2**31 - 1, None) == [True] * 4
    assert kept(4, None, 3, -(2**31), None) == [False] * 4
    assert kept(4, 3, None, None, 1) == [False, False, True, True]  # a window of 1 keeps 2 keys
    assert kept(4, 2, 1, None, 1) == [False, True, False, False]
