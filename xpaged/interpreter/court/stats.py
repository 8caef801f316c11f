"""What a kernel moves: bytes, memory lines, LDS clocks and matrix instructions, counted from the lanes' addresses.

LDS serves as many lanes a clock as its banks of 4 bytes have room for (32 lanes of 4 bytes on 32 banks, 8 lanes of 16
bytes), taken in lane order. Lanes that want different words of one bank wait for each other, those that want the same
word do not: a group of lanes takes as many clocks as its busiest bank has different words.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xpaged.interpreter.evaluator import Machine
from xpaged.interpreter.memory import Memory, Segment
from xpaged.interpreter.numerics import Array

BANK_BYTES = 4
LINES = (64, 128)
"""Bytes of the memory lines that are counted."""


@dataclass
class Buffer:
    """Traffic between the kernel and one buffer, or all pages of one table. `useful` counts the bytes that lanes asked
    for, `lines` for each size how many lines the instructions of single waves touched, `instructions` those of waves
    by the bytes of a lane."""

    useful: int = 0
    instructions: Counter[int] = field(default_factory=Counter[int])
    lines: Counter[int] = field(default_factory=Counter[int])
    touched: Array = field(default_factory=lambda: np.zeros(0, np.bool_))

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "useful_bytes": self.useful,
            "distinct_bytes": int(self.touched.sum()),
            **{f"lines_of_{size}": self.lines[size] for size in LINES},
            "instructions_by_width": {str(k): self.instructions[k] for k in sorted(self.instructions)},
        }


@dataclass
class Lds:
    """LDS traffic of one direction: instructions of waves by the bytes of a lane, the clocks they take, and the clocks
    they would take without bank conflicts."""

    instructions: Counter[int] = field(default_factory=Counter[int])
    useful: int = 0
    clocks: int = 0
    least_clocks: int = 0

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "useful_bytes": self.useful,
            "instructions_by_width": {str(k): self.instructions[k] for k in sorted(self.instructions)},
            "clocks": self.clocks,
            "conflict_clocks": self.clocks - self.least_clocks,
        }


class Stats:
    """The counters of a run. `banks` is the number of LDS banks."""

    def __init__(self, banks: int = 32) -> None:
        self.banks = banks
        self.reads: dict[str, Buffer] = {}
        self.writes: dict[str, Buffer] = {}
        self.lds = {"reads": Lds(), "writes": Lds()}
        self.matrix: Counter[str] = Counter()

    def access(
        self, m: Machine, access: Any, addresses: Array, allowed: Array | None, segment: Segment | None, memory: Memory
    ) -> None:
        """Counts one memory operation of all active lanes."""
        active = m.mask if allowed is None else np.broadcast_to(allowed, (m.lanes,))
        waves = np.broadcast_to(addresses, (m.lanes,)).reshape(-1, min(m.wave_size, m.lanes))
        mask = np.ones(waves.shape, np.bool_) if active is None else active.reshape(waves.shape)
        count, issued = int(mask.sum()), int(mask.any(1).sum())
        if access.lds:
            lds = self.lds["writes" if access.writes else "reads"]
            lds.instructions[access.width] += issued
            lds.useful += count * access.width
            clocks, least = self._lds_clocks(waves, mask, access.width)
            lds.clocks += clocks
            lds.least_clocks += least
            return
        name = "elsewhere" if segment is None else segment.name
        buffer = (self.writes if access.writes else self.reads).setdefault(name, Buffer())
        buffer.instructions[access.width] += issued
        buffer.useful += count * access.width
        for size in LINES:
            first, last = waves // np.uint64(size), (waves + np.uint64(access.width - 1)) // np.uint64(size)
            both = np.concatenate((first, last), 1)
            buffer.lines[size] += _distinct(both, np.concatenate((mask, mask), 1))
        if segment is not None:
            if len(buffer.touched) < segment.end - segment.base:
                buffer.touched = np.resize(buffer.touched, segment.end - segment.base) & False | np.pad(
                    buffer.touched, (0, segment.end - segment.base - len(buffer.touched))
                )
            offsets = (waves[mask] - np.uint64(segment.base)).astype(np.int64)
            buffer.touched[offsets[:, None] + np.arange(access.width)] = True

    def product(self, m: Machine, name: str) -> None:
        """Counts one matrix instruction of each active wave."""
        waves = m.lanes // m.wave_size
        self.matrix[name] += waves if m.mask is None else int(m.mask.reshape(waves, -1).any(1).sum())

    def _lds_clocks(self, waves: Array, mask: Array, width: int) -> tuple[int, int]:
        """The clocks that instructions of waves take, with and without bank conflicts."""
        words = max(width // BANK_BYTES, 1)
        together = max(self.banks // words, 1)  # lanes a clock
        lanes = waves.shape[1]
        groups = waves.reshape(-1, min(together, lanes))
        active = mask.reshape(groups.shape)
        groups, active = groups[active.any(1)], active[active.any(1)]
        first = (groups // np.uint64(BANK_BYTES)).astype(np.int64)
        wanted = (first[..., None] + np.arange(words)).reshape(len(groups), -1)
        there = np.repeat(active, words, axis=1)
        wanted = np.sort(np.where(there, wanted, -1), axis=1)
        new = wanted >= 0
        new[:, 1:] &= wanted[:, 1:] != wanted[:, :-1]
        rows = np.nonzero(new)[0]
        busy = np.bincount(rows * self.banks + wanted[new] % self.banks, minlength=len(groups) * self.banks)
        return int(busy.reshape(-1, self.banks).max(1, initial=0).sum()), len(groups)

    def as_json(self) -> dict[str, Any]:
        """All counters as plain data."""
        loads: Counter[int] = sum((b.instructions for b in self.reads.values()), Counter())
        issued = sum(loads.values())
        return {
            "global": {
                "reads": {name: b.as_json() for name, b in self.reads.items()},
                "writes": {name: b.as_json() for name, b in self.writes.items()},
                "share_of_16_byte_reads": loads[16] / issued if issued else None,
            },
            "lds": {name: each.as_json() for name, each in self.lds.items()},
            "matrix_instructions": dict(self.matrix),
        }


def _distinct(values: Array, mask: Array) -> int:
    """How many different values each row holds where `mask` is true, in all."""
    top = np.iinfo(values.dtype).max
    ordered = np.sort(np.where(mask, values, values.dtype.type(top)), axis=1)
    new = ordered != top
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return int(new.sum())
