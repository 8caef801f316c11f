"""Who wrote a piece of memory, who read it, and when: what races are found with.

Time is one clock that every barrier moves on. A *stamp* is one number that holds the workgroup, the time, the operation
and the lane of an access. A *cell* is as many bytes as the narrowest access to its segment had (16 at first), so that
a vector access is one or two cells.

Two accesses of different lanes are ordered by a barrier between them that their workgroup passed, and within one wave,
in LDS, by a `hip.sched_barrier`: a wave's LDS instructions happen in the order in which they are issued, which the
compiler may change otherwise. Nothing orders different workgroups of a launch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from xpaged.interpreter.evaluator import Machine
from xpaged.interpreter.numerics import Array

_LANE_BITS, _OP_BITS, _CLOCK_BITS = 11, 12, 20
_OP = _LANE_BITS
_CLOCK = _OP + _OP_BITS
_GROUP = _CLOCK + _CLOCK_BITS
_LOOK_BACK = 8
_MOST_READS = 128
MOST_OPERATIONS = 1 << _OP_BITS


def lane_in(stamps: Any) -> Any:
    """The lane of its workgroup."""
    return stamps & ((1 << _LANE_BITS) - 1)


def operation_in(stamps: Any) -> Any:
    """The number of the operation."""
    return (stamps >> _OP) & ((1 << _OP_BITS) - 1)


def clock_in(stamps: Any) -> Any:
    """The time."""
    return (stamps >> _CLOCK) & ((1 << _CLOCK_BITS) - 1)


def group_in(stamps: Any) -> Any:
    """The workgroup, counted from 1: 0 is nobody's stamp."""
    return stamps >> _GROUP


class Clock:
    """The time on one machine, and when each workgroup last met at a barrier."""

    def __init__(self, machine: Machine, start: int = 1) -> None:
        self.now = start
        self.machine = machine
        self.lanes: Array = ((machine.workgroup_id + 1) << _GROUP) | machine.thread_id
        self.met: Array = np.full(len(machine.groups), start)
        self.fenced: Array = np.full(max(machine.lanes // machine.wave_size, 1), start)
        self.oldest = start
        """No workgroup met last before this."""

    def stamps(self, operation: int) -> Array:
        """The stamps of all lanes for an access that happens now."""
        return self.lanes + ((self.now << _CLOCK) | (operation << _OP))

    def barrier(self, mask: Array | None) -> Array:
        """All active workgroups meet; returns which these are."""
        self.now += 1
        everyone = np.ones(len(self.met), np.bool_)
        active: Array = everyone if mask is None else np.any(mask.reshape(len(self.met), -1), axis=1)
        self.met[active] = self.now
        self.oldest = int(self.met.min())
        return active

    def fence(self, mask: Array | None) -> None:
        """The order of each active wave's instructions is fixed here."""
        self.now += 1
        if mask is None:
            self.fenced[:] = self.now
        else:
            self.fenced[mask.reshape(len(self.fenced), -1).any(1)] = self.now

    def unordered(self, before: Array, after: Array, lds: bool) -> Array:
        """Which accesses `before` are not sure to happen before those `after`, which lanes of this machine make.
        Both are stamps; nobody's stamp is ordered."""
        m = self.machine
        thread = lane_in(after)
        at = np.searchsorted(m.groups, group_in(after) - 1)
        same_group = group_in(before) == group_in(after)
        earlier = lane_in(before)
        ordered = (earlier == thread) | (clock_in(before) < self.met[at])
        if lds:
            wave = (at * m.lanes_per_group + thread) // m.wave_size
            same_wave = earlier // m.wave_size == thread // m.wave_size
            ordered |= same_wave & (clock_in(before) < self.fenced[wave])
        return (before != 0) & ~(ordered & same_group)


@dataclass
class Conflict:
    """Accesses that nothing orders: for each the cell, and the stamps of the earlier and the later one."""

    cells: Array
    before: Array
    after: Array


class Shadow:
    """The cells of one segment."""

    def __init__(self, start: int, size: int, lds: bool) -> None:
        self.start = start // 16 * 16  # in the arena
        self.size = size + start - self.start
        self.lds = lds
        self.granule = 16
        self.writers: Array = np.zeros(self.size // 16 + 1, np.int64)
        self.last_write = 0
        self.arriving: Array | None = None
        """How many loads to LDS may still write each cell."""
        self.reads: list[tuple[Array, Array]] = []
        """Cells and stamps of the reads since all workgroups last met."""

    def cells(self, offsets: Array, width: int) -> Array:
        """The cells of accesses, `[access, cell]`."""
        while width % self.granule or (self.granule > 1 and (offsets & (self.granule - 1)).any()):
            self._refine()
        shift = self.granule.bit_length() - 1
        first = (offsets - self.start) >> shift
        count = width >> shift
        return first[:, None] if count == 1 else first[:, None] + np.arange(count)

    def _refine(self) -> None:
        self.granule //= 2
        self.writers = np.repeat(self.writers, 2)
        self.arriving = None if self.arriving is None else np.repeat(self.arriving, 2)
        self.reads = [((2 * c[..., None] + np.arange(2)).reshape(len(c), -1), s) for c, s in self.reads]

    def address_of(self, cell: int) -> int:
        """Where a cell starts in the arena."""
        return self.start + cell * self.granule

    def read(self, clock: Clock, offsets: Array, width: int, stamps: Array) -> Conflict | None:
        """Notes a read; returns the writes that it races with."""
        cells = self.cells(offsets, width)
        self._note(cells, stamps)
        if self.lds and self.last_write < clock.oldest:
            return None
        return self._conflict(clock, self.writers[cells], stamps, cells)

    def _note(self, cells: Array, stamps: Array) -> None:
        """Keeps a read, unless the same lanes read the same cells shortly before: then the newer one says as much."""
        for at in range(len(self.reads) - 1, max(len(self.reads) - _LOOK_BACK, 0) - 1, -1):
            old, old_stamps = self.reads[at]
            if old.shape == cells.shape and (old == cells).all() and (lane_in(old_stamps) == lane_in(stamps)).all():
                self.reads[at] = cells, stamps
                return
        self.reads.append((cells, stamps))
        if len(self.reads) > _MOST_READS:
            self._fold()

    def _fold(self) -> None:
        """One entry for each cell and lane, the newest: long loops without a barrier read the same again and again."""
        wide = max(c.shape[1] for c, _ in self.reads)
        pairs = [(np.resize(c.T, (wide, len(c))).T, s) for c, s in self.reads if c.size]
        cells = np.concatenate([c for c, _ in pairs]).reshape(-1)
        stamps = np.repeat(np.concatenate([s for _, s in pairs]), wide)
        who = (group_in(stamps) << _LANE_BITS) | lane_in(stamps)
        order = np.lexsort((who, cells))  # stable: of equal ones the newest is the last
        cells, stamps, who = cells[order], stamps[order], who[order]
        newest = np.append((cells[1:] != cells[:-1]) | (who[1:] != who[:-1]), True)
        self.reads = [(cells[newest][:, None], stamps[newest])]

    def write(self, clock: Clock, offsets: Array, width: int, stamps: Array) -> tuple[Conflict | None, Array]:
        """Notes a write; returns the accesses that it races with, and where something was written before, `[access]`
        (another lane in the same instruction counts)."""
        cells = self.cells(offsets, width)
        before = self.writers[cells]
        conflicts = (
            [] if self.lds and self.last_write < clock.oldest else [self._conflict(clock, before, stamps, cells)]
        )
        self.writers[cells] = stamps[:, None]
        after = self.writers[cells]
        lost = after != stamps[:, None]
        if lost.any():  # several lanes of one instruction write one cell
            rows = np.nonzero(lost)
            conflicts.append(Conflict(cells[rows], stamps[rows[0]], after[rows]))
        conflicts.append(self._read_before(clock, cells))
        self.last_write = clock.now
        found = [c for c in conflicts if c is not None]
        return _joined(found), ((before != 0) | lost).any(1)

    def pend(self, offsets: Array, width: int, by: int) -> None:
        """A load to LDS that writes there starts (1) or has arrived (-1)."""
        cells = self.cells(offsets, width)
        if self.arriving is None:
            self.arriving = np.zeros(len(self.writers), np.int16)
        self.arriving[cells] += by

    def pending(self, offsets: Array, width: int) -> Array | None:
        """Which accesses touch what a load to LDS may still write, `[access]`; None: none."""
        if self.arriving is None:
            return None
        early = np.any(self.arriving[self.cells(offsets, width)] > 0, axis=1)
        return early if early.any() else None

    def arrive(self, clock: Clock, offsets: Array, width: int, operation: int, lanes: Array) -> None:
        """A load to LDS has arrived: its bytes count as written now."""
        self.writers[self.cells(offsets, width)] = clock.stamps(operation)[lanes][:, None]
        self.last_write = clock.now

    def _read_before(self, clock: Clock, cells: Array) -> Conflict | None:
        """Reads that the writes of `cells`, just noted, race with."""
        if not self.reads:
            return None
        written = np.zeros(len(self.writers), np.bool_)
        written[cells] = True
        parts: list[Conflict] = []
        for read, stamps in self.reads:
            hit = written[read]
            if hit.any():
                rows = np.nonzero(hit)
                at = read[rows]
                parts += _listed(self._among(clock, stamps[rows[0]], self.writers[at], at))
        return _joined(parts)

    def _conflict(self, clock: Clock, before: Array, stamps: Array, cells: Array) -> Conflict | None:
        return self._among(clock, before, np.broadcast_to(stamps[:, None], before.shape), cells)

    def _among(self, clock: Clock, before: Array, after: Array, cells: Array) -> Conflict | None:
        wrong = clock.unordered(before, after, self.lds)
        return Conflict(cells[wrong], before[wrong], after[wrong]) if wrong.any() else None

    def met(self, groups: Array, active: Array) -> None:
        """Workgroups `groups[active]` passed a barrier: what they read in LDS no write of theirs can race with."""
        if active.all():
            self.reads.clear()
            return
        kept: list[tuple[Array, Array]] = []
        waiting = groups[~active] + 1
        for cells, stamps in self.reads:
            left = np.isin(group_in(stamps), waiting)
            if left.any():
                kept.append((cells[left], stamps[left]))
        self.reads = kept

    def forget(self) -> None:
        """A launch has ended: nothing that follows races with what was."""
        self.writers[:] = 0
        self.reads.clear()
        self.last_write = 0


def _listed(conflict: Conflict | None) -> list[Conflict]:
    return [] if conflict is None else [conflict]


def _joined(parts: list[Conflict]) -> Conflict | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    cells, before, after = (np.concatenate(x) for x in zip(*((p.cells, p.before, p.after) for p in parts), strict=True))
    return Conflict(cells, before, after)
