"""Covering arrays: few rows in which every legal pair of values of any two factors occurs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from random import Random
from typing import TypeVar

Value = TypeVar("Value")
Row = dict[str, Value]
Legal = Callable[[Mapping[str, Value]], bool]


def pairs_of(factors: Mapping[str, Sequence[Value]], legal: Legal[Value]) -> Iterator[Row[Value]]:
    """Every row in which at most two factors differ from their first value, without those that are not legal.

    The row of first values comes first, then those with one factor changed.
    """
    first = {name: values[0] for name, values in factors.items()}
    yield dict(first)
    for name, values in factors.items():
        yield from (row for value in values[1:] if legal(row := {**first, name: value}))
    for a, b in combinations(factors, 2):
        for x in factors[a][1:]:
            yield from (row for y in factors[b][1:] if legal(row := {**first, a: x, b: y}))


def covering_rows(factors: Mapping[str, Sequence[Value]], legal: Legal[Value], tries: int = 5) -> list[Row[Value]]:
    """Legal rows that hold every pair of values that some legal row holds; the same ones at every call."""
    rng = Random(1)
    wanted = {
        frozenset(((a, x), (b, y))): None for a, b in combinations(factors, 2) for x in factors[a] for y in factors[b]
    }
    rows: list[Row[Value]] = []
    while wanted:
        seed = dict(next(iter(wanted)))
        found: list[Row[Value]] = []
        for _ in range(50 * tries):
            row = _row(factors, legal, seed, wanted, rng)
            found += [] if row is None else [row]
            if len(found) == tries:
                break
        if not found:
            del wanted[frozenset(seed.items())]  # no legal row holds it
            continue
        held = [[pair for pair in _pairs_in(row) if pair in wanted] for row in found]
        best = max(range(len(found)), key=lambda i: len(held[i]))
        rows.append(found[best])
        for pair in held[best]:
            del wanted[pair]
    return rows


def _pairs_in(row: Mapping[str, Value]) -> Iterator[frozenset[tuple[str, Value]]]:
    return (frozenset(pair) for pair in combinations(row.items(), 2))


def _row(
    factors: Mapping[str, Sequence[Value]],
    legal: Legal[Value],
    seed: Mapping[str, Value],
    wanted: Mapping[frozenset[tuple[str, Value]], None],
    rng: Random,
) -> Row[Value] | None:
    """A legal row with the values of `seed` and, greedily, many pairs of `wanted`; None when chance found none."""
    row = dict(seed)
    names = [name for name in factors if name not in row]
    rng.shuffle(names)
    for name in names:
        values = list(factors[name])
        rng.shuffle(values)
        values.sort(key=lambda value: -sum(frozenset(((name, value), other)) in wanted for other in row.items()))
        last = len(row) + 1 == len(factors)
        choice = next((value for value in values if not last or legal({**row, name: value})), None)
        if choice is None:
            return None
        row[name] = choice
    return {name: row[name] for name in factors} if legal(row) else None
