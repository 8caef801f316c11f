"""The oracle: attention in float64 NumPy, written from its definition. It imports nothing of xpaged.

It is the one second place in which the rules for masks, KV lengths, GQA and empty rows are written down; everything
that xpaged runs is compared with it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

ScoreMap = Callable[[Array, Sequence[Array]], Array]
"""What happens to the scores `[rows, Sk]` of one head before the softmax, given the extra inputs of the same shape."""


@dataclass
class Problem:
    """An attention problem in logical order, one entry a query head over the whole batch.

    `q` is `[G, Sq, Dqk]`, `k` `[G / repeats, Sk, Dqk]`, `v` `[G / repeats, Sk, Dv]`; query head `g` reads KV head
    `g // repeats`. `kv_index[g]` is the last valid key, inclusive (-1: none; None: all are valid);
    `prefix_offset[g]` shifts the causal diagonal; `window` is how far a row looks back from the last valid key.
    `extras` are `[G, Sq, Sk]`. In a part of the keys, K's first one is number `first_key` of `all_keys`.
    """

    q: Array
    k: Array
    v: Array
    repeats: int = 1
    kv_index: Sequence[int] | None = None
    causal: bool = False
    prefix_offset: Sequence[int] | None = None
    window: int | None = None
    score: ScoreMap | None = None
    extras: Sequence[Array] = field(default_factory=tuple[Array, ...])
    first_key: int = 0
    all_keys: int | None = None
    _last: tuple[int, Floats, Floats, Floats] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def heads(self) -> int:
        """Query heads over the whole batch."""
        return len(self.q)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """`int[Sk]`: the number of each key."""
        return np.arange(self.first_key, self.first_key + self.k.shape[1])

    def part(self, number: int, parts: int) -> "Problem":
        """Part `number` of the problem when its keys are split into `parts` equal ones (the last may be shorter, or
        have none: then it gets a key that is not valid)."""
        keys = self.k.shape[1]
        each = -(-keys // parts)
        first = min(number * each, keys - 1)
        some = slice(first, min(first + each, keys))
        part = replace(
            self,
            k=self.k[:, some],
            v=self.v[:, some],
            extras=[e[:, :, some] for e in self.extras],
            first_key=first,
            all_keys=keys,
        )
        return part if number * each < keys else replace(part, kv_index=[-1] * self.heads)

    def valid(self, g: int) -> npt.NDArray[np.bool_]:
        """`bool[Sk]`: the keys that the KV index and the window of head `g` leave."""
        j = self.numbers
        if self.kv_index is None:
            return j >= 0
        index = int(self.kv_index[g])
        if index < -1:
            raise ValueError(f"KV index {index} of head {g} is below -1")
        keep = j <= index
        if self.window is not None:
            keys = self.k.shape[1] if self.all_keys is None else self.all_keys
            keep &= j >= min(index, keys - 1) - self.window
        return keep

    def mask(self, g: int, rows: Array) -> npt.NDArray[np.bool_]:
        """`bool[rows, Sk]`: which key each of `rows` of head `g` keeps."""
        keep = np.broadcast_to(self.valid(g), (len(rows), self.k.shape[1]))
        if self.causal:
            offset = 0 if self.prefix_offset is None else int(self.prefix_offset[g])
            keep = keep & (self.numbers <= rows[:, None] + offset)
        return keep

    def head(self, g: int) -> tuple[Floats, Floats, Floats]:
        """Q, K and V of query head `g` in float64; K and V rows that are not valid are 0. (Kept until another head is
        asked for: data must not change in between.)"""
        if self._last is None or self._last[0] != g:
            valid = self.valid(g)[:, None]
            h = g // self.repeats
            q, k, v = (np.asarray(x, np.float64) for x in (self.q[g], self.k[h], self.v[h]))
            self._last = g, q, np.where(valid, k, 0.0), np.where(valid, v, 0.0)
        return self._last[1:]


@dataclass
class Head:
    """The results of some rows of one head: `out` `[rows, Dv]`, `lse` `[rows]`, and on the way there the raw scores,
    those that entered the softmax (minus infinity where masked) and the probabilities, all `[rows, Sk]`."""

    out: Floats
    lse: Floats
    raw: Floats
    scores: Floats
    p: Floats


@np.errstate(invalid="ignore")  # infinite operands make NaN scores, as they do in a kernel
def attend(problem: Problem, g: int, rows: Array | None = None) -> Head:
    """Rows `rows` (all of them when None) of head `g` of `problem`.

    A row that keeps no key has output 0 and LSE minus infinity.
    """
    rows = np.arange(problem.q.shape[1]) if rows is None else rows
    q, k, v = problem.head(g)
    raw = q[rows] @ k.T
    s = raw
    if problem.score is not None:
        s = np.asarray(problem.score(s, [e[g][rows] for e in problem.extras]), np.float64)
    s = np.where(problem.mask(g, rows), s, -np.inf)
    top = s.max(axis=1, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    e = np.exp(s - top)
    total = e.sum(axis=1, keepdims=True)
    empty = total == 0
    p = e / np.where(empty, 1.0, total)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[:, 0]
    return Head(p @ v, lse, raw, s, p)


def attention(problem: Problem) -> tuple[Floats, Floats]:
    """All heads: out `[G, Sq, Dv]` and LSE `[G, Sq]`."""
    heads = [attend(problem, g) for g in range(problem.heads)]
    return np.stack([h.out for h in heads]), np.stack([h.lse for h in heads])


def merge(out: Array, lse: Array) -> tuple[Floats, Floats]:
    """Merges results over parts of the keys: out `[G, parts, Sq, Dv]` and LSE `[G, parts, Sq]` -> without `parts`.

    Empty parts have no weight; where all are empty the result is 0 and minus infinity.
    """
    out, lse = np.asarray(out, np.float64), np.asarray(lse, np.float64)
    top = lse.max(axis=1, keepdims=True)
    weight = np.exp(lse - np.where(np.isneginf(top), 0.0, top))
    total = weight.sum(axis=1, keepdims=True)
    share = weight / np.where(total == 0, 1.0, total)
    parts = np.where(share[..., None] > 0, out, 0.0)
    with np.errstate(divide="ignore"):
        merged = np.log(total[:, 0]) + np.where(np.isneginf(top), 0.0, top)[:, 0]
    return (share[..., None] * parts).sum(axis=1), merged
