"""The judge: every access of a device-level program to memory is checked, and what is wrong is written down.

Nothing stops the program: an access that may not happen reads poison or writes nothing, so that one run finds all kinds
of faults. Each operation is reported once for each kind, with its first address and how often it happened.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xpaged.interpreter.court.shadow import (
    MOST_OPERATIONS,
    Clock,
    Conflict,
    Shadow,
    clock_in,
    group_in,
    lane_in,
    operation_in,
)
from xpaged.interpreter.court.stats import Stats
from xpaged.interpreter.court.taint import Origin, Tainted, clean, taint_of, tainted
from xpaged.interpreter.evaluator import Machine, Value
from xpaged.interpreter.memory import MAPPED, POISONED, WRITTEN, Memory, Segment
from xpaged.interpreter.numerics import Array
from xpaged.interpreter.rules.hip_async import Arrival
from xpaged.ir.locations import describe
from xpaged.ir.printing import one_line

KINDS = {
    "out-of-bounds": "an access outside its buffer or page, or to unmapped memory",
    "page-crossing": "a vector access that starts in a page and ends outside it",
    "misaligned": "an access to an address that is no multiple of its size",
    "wide-offset": "an offset from a page's start that does not fit 32 bits",
    "address-overflow": "32-bit arithmetic that overflows on the way to an address",
    "unwritten-read": "a read of bytes that nobody wrote",
    "poison-result": "a value from a dead slot, or from bytes that nobody wrote, that reaches an output",
    "poison-decides": "such a value that is an address, a mask of a store, or decides a branch or a loop",
    "race": "two accesses to the same bytes, one of them a write, that no barrier orders",
    "written-twice": "an element of an output that is written more than once",
    "unwritten-output": "an element of an output that is never written",
    "early-read": "an access to bytes that a load to LDS may still be writing: its wait is missing",
}
"""The kinds of faults, and what each is."""


@dataclass
class Finding:
    """A fault: of which kind, where in the program, at which address, whose memory that is, and how often."""

    kind: str
    what: str
    op: str
    location: str
    address: int | None
    owner: str
    count: int = 1

    def as_json(self, level: str) -> dict[str, Any]:
        """The finding as an entry of a report's faults."""
        return {
            "level": level,
            "kind": self.kind,
            "what": self.what,
            "op": self.op,
            "location": self.location,
            "address": None if self.address is None else hex(self.address),
            "owner": self.owner,
            "count": self.count,
        }


@dataclass(eq=False)
class Access:
    """What is known of a memory operation before it runs. `limit` is the last element offset at which an access to a
    buffer may start (None: the base is the address of a page)."""

    op: Operation
    number: int
    dtype: np.dtype[Any]
    count: int
    align: int
    limit: int | None
    lds: bool
    tracked: bool
    writes: bool
    width: int = field(init=False)

    def __post_init__(self) -> None:
        self.width = self.dtype.itemsize * self.count


class Court:
    """The checks of one memory. `outputs` are the addresses and names of the buffers whose elements are results."""

    def __init__(self, memory: Memory, outputs: Mapping[int, str] | None = None, stats: Stats | None = None) -> None:
        self.memory = memory
        self.outputs = dict(outputs or {})
        self.stats = stats
        self.findings: dict[tuple[Operation, str], Finding] = {}
        self._operations: list[Operation] = []
        self._clock: Clock | None = None
        self._shadows: dict[Segment, Shadow] = {}
        self._arriving: dict[Arrival, Access] = {}
        self._sound: set[Segment] = set()  # every byte is written and no poison
        self._judged: set[Segment] = set()  # since the launch began, whether they are sound

    # Setting up

    def number(self, op: Operation) -> int:
        """A number for an operation that accesses memory."""
        self._operations.append(op)
        return min(len(self._operations) - 1, MOST_OPERATIONS - 1)

    def begin_launch(self) -> None:
        """Everything before is done: nothing that follows races with it."""
        for shadow in self._shadows.values():
            shadow.forget()
        self._judged.clear()

    def clock(self, m: Machine) -> Clock:
        """The clock of a machine; a new machine starts with what other workgroups of its launch left behind."""
        if self._clock is None or self._clock.machine is not m:
            self._clock = Clock(m)
            known = set(self.memory.segments)
            for gone in [s for s in self._shadows if s not in known]:
                del self._shadows[gone]
        return self._clock

    def _shadow(self, segment: Segment, lds: bool) -> Shadow:
        shadow = self._shadows.get(segment)
        if shadow is None:
            shadow = self._shadows[segment] = Shadow(segment.start, segment.end - segment.base, lds)
        return shadow

    # Reporting

    def report(
        self, op: Operation, kind: str, what: str, address: int | None = None, count: int = 1, owner: str | None = None
    ) -> None:
        """Writes a fault down, or counts it again."""
        found = self.findings.get((op, kind))
        if found is not None:
            found.count += count
            return
        if owner is None:
            owner = "" if address is None else self.memory.locate(address)
        self.findings[op, kind] = Finding(kind, what, one_line(op), describe(op), address, owner, count)

    def decided(self, m: Machine, op: Operation, value: Tainted) -> None:
        """A value that means nothing is an address, or decides which way the program goes."""
        wrong = value.taint.reshape(value.taint.shape[0], -1).any(1)
        if m.mask is not None:
            wrong = wrong & m.mask
        if wrong.any():
            what = f"a value that means nothing decides what {op.name} does: {self._source(value.origin)}"
            self.report(op, "poison-decides", what, value.origin[1], int(wrong.sum()))

    def _source(self, origin: Origin) -> str:
        op, address = origin
        place = describe(op)
        where = f"it was read by {op.name}" + (f" at {place}" if place else "")
        return f"{where}, {'undefined' if address is None else self.memory.locate(address)}"

    # Accesses

    def load(
        self, m: Machine, access: Access, start: Array, offset: Array, addresses: Array, mask: Array | None
    ) -> Value:
        """The elements at `addresses`, which are `start` plus `offset` elements; masked-off and forbidden ones are 0
        and poison."""
        shape = addresses.shape if mask is None else np.broadcast_shapes(addresses.shape, mask.shape)
        full = shape if access.count == 1 else (*shape, access.count)
        allowed, offsets, segment = self._checked(m, access, start, offset, addresses, mask)
        if offsets is None:
            value = np.zeros(full, access.dtype)
            if allowed is None or (mask is not None and not mask.any()):
                return value
            return self._forbidden(access, value, mask, allowed, addresses)
        if allowed is not None:  # inactive lanes read what the first active one does
            first = int(allowed.argmax())
            offsets = np.where(allowed, offsets, np.broadcast_to(offsets, shape)[first])
        value = self.memory.peek(offsets, access.dtype, access.count)
        if self.stats is not None:
            self.stats.access(m, access, addresses, allowed, segment, self.memory)
        if access.tracked and segment is not None:
            self._note_read(m, access, segment, offsets, allowed)
        taint: Array | None = None
        if segment is None or segment not in self._sound:
            taint = self._unsound(m, access, offsets, segment, allowed)
        if allowed is not None:
            value[~allowed] = 0
            if taint is not None:
                taint[~allowed] = False
        result: Value = value
        if taint is not None and taint.any():
            at = int(np.flatnonzero(taint.reshape(taint.shape[0], -1).any(1))[0])
            result = Tainted(value, taint, (access.op, int(np.broadcast_to(addresses, shape)[at])))
        if allowed is not mask and allowed is not None:
            result = self._forbidden(access, result, mask, allowed, addresses)
        return result

    def _forbidden(self, access: Access, value: Value, mask: Array | None, allowed: Array, addresses: Array) -> Value:
        """The value of a load of which some lanes were not allowed: these read poison."""
        plain, taint = clean(value), taint_of(value)
        wrong = ~allowed if mask is None else mask & ~allowed
        if not wrong.any():
            return value
        at = int(np.broadcast_to(addresses, wrong.shape)[wrong][0])
        if access.count > 1:
            wrong = wrong[:, None]
        return tainted(plain, taint | wrong, (access.op, at))

    def store(
        self,
        m: Machine,
        access: Access,
        start: Array,
        offset: Array,
        addresses: Array,
        value: Value,
        mask: Array | None,
    ) -> None:
        """Writes `value` where it may be written."""
        allowed, offsets, segment = self._checked(m, access, start, offset, addresses, mask)
        if offsets is None:
            return
        plain = clean(value)
        shape = (m.lanes,)
        full = shape if access.count == 1 else (m.lanes, access.count)
        plain = np.broadcast_to(plain, full)
        offsets = np.broadcast_to(offsets, shape)
        stamps = self.clock(m).stamps(access.number)
        taint = np.broadcast_to(value.taint, full) if type(value) is Tainted else None
        if allowed is not None:
            plain, offsets, stamps = plain[allowed], offsets[allowed], stamps[allowed]
            taint = None if taint is None else taint[allowed]
        if not offsets.size:
            return
        if self.stats is not None:
            self.stats.access(m, access, addresses, allowed, segment, self.memory)
        if segment is not None:
            self._note_write(m, access, segment, offsets, stamps)
        self.memory.poke(offsets, plain, access.width)
        if taint is not None and taint.any():
            assert type(value) is Tainted
            self._stored_poison(access, segment, offsets, taint, value.origin)

    def _stored_poison(
        self, access: Access, segment: Segment | None, offsets: Array, taint: Array, origin: Origin
    ) -> None:
        size = access.dtype.itemsize
        rows = np.nonzero(taint)
        at = offsets[rows[0]] + (rows[1] * size if len(rows) > 1 else 0)
        if segment is not None and segment.base in self.outputs:
            name = self.outputs[segment.base]
            what = f"a value that means nothing reaches output {name!r}: {self._source(origin)}"
            self.report(access.op, "poison-result", what, self._address(segment, int(at[0])), len(at))
        else:
            self.memory.taint(at, size)
            if segment is not None:
                self._sound.discard(segment)

    def _checked(
        self, m: Machine, access: Access, start: Array, offset: Array, addresses: Array, mask: Array | None
    ) -> tuple[Array | None, Array | None, Segment | None]:
        """The lanes that may access memory (None: all), the offsets in the arena (None: no lane may), the segment."""
        if mask is not None:
            if not mask.any():
                return mask, None, None
            shape = np.broadcast_shapes(addresses.shape, mask.shape)
            mask = np.broadcast_to(mask, shape)
            addresses = np.broadcast_to(addresses, shape)
            addresses = np.where(mask, addresses, addresses[int(mask.argmax())])
        allowed = mask
        if access.limit is not None:
            wrong = (offset < 0) | (offset > access.limit)
            if wrong.any():
                allowed = self._refuse(access, "out-of-bounds", wrong, allowed, addresses, offset)
                if not allowed.any():
                    return allowed, None, None
                addresses = np.where(allowed, addresses, np.broadcast_to(addresses, allowed.shape)[allowed.argmax()])
        offsets, segment, outside = self.memory.resolve(addresses, access.width)
        if access.limit is None:
            wrong = self._leaves_page(access, start, offset, addresses, segment, outside)
            if wrong is not None:
                kind = "out-of-bounds"
                if access.count > 1 and segment is not None:
                    kind = self._crossing(access, start, offset, segment, wrong)
                if (np.abs(_bytes(offset, access)) >> 31).any():
                    kind = "wide-offset"
                allowed = self._refuse(access, kind, wrong, allowed, addresses, offset)
        elif outside is not None:
            allowed = self._refuse(access, "out-of-bounds", outside, allowed, addresses, offset)
        if access.align > 1:
            odd = (offsets & (access.align - 1)) != 0
            if odd.any():
                allowed = self._refuse(access, "misaligned", odd, allowed, addresses, offset)
        if segment is not None and not segment.solid:
            state = self.memory.states(offsets, 1)[..., 0]
            unmapped = (state & MAPPED) == 0
            if unmapped.any():
                allowed = self._refuse(access, "out-of-bounds", unmapped, allowed, addresses, offset)
        if allowed is not None and not allowed.any():
            return allowed, None, None
        return allowed, offsets, segment

    def _leaves_page(
        self,
        access: Access,
        start: Array,
        offset: Array,
        addresses: Array,
        segment: Segment | None,
        outside: Array | None,
    ) -> Array | None:
        """Where an access from the address of a page ends in another, or in none."""
        if segment is None:
            if outside is not None and outside.all():
                return outside
            distance, sizes = self.memory.within(start)  # pages of several pools, or far apart
            there = distance + _bytes(offset, access)
            wrong = (there < 0) | (there > sizes - access.width) | ~self.memory.is_mapped(addresses, access.width)
            wrong = wrong if outside is None else wrong | outside
            return wrong if wrong.any() else None
        within = (start - np.uint64(segment.first)).view(np.int64)
        if within.shape != addresses.shape and within.shape[0] != 1:
            within = np.broadcast_to(within, addresses.shape)
        step = _bytes(offset, access)
        there = within % segment.stride + step
        wrong = (there < 0) | (there > segment.size - access.width)
        if outside is not None:
            wrong = wrong | outside
        return wrong if wrong.any() else None

    def _crossing(self, access: Access, start: Array, offset: Array, segment: Segment, wrong: Array) -> str:
        """Whether the first wrong access begins inside its page."""
        within = (start - np.uint64(segment.first)).view(np.int64) % segment.stride + _bytes(offset, access)
        first = np.broadcast_to(within, wrong.shape)[wrong][0]
        return "page-crossing" if 0 <= first < segment.size else "out-of-bounds"

    def _refuse(
        self, access: Access, kind: str, wrong: Array, allowed: Array | None, addresses: Array, offset: Array
    ) -> Array:
        """The lanes of `allowed` that are not wrong; the others are written down."""
        if allowed is not None:
            wrong = wrong & allowed
        shape = np.broadcast_shapes(wrong.shape, addresses.shape)
        wrong = np.broadcast_to(wrong, shape)
        count = int(np.count_nonzero(wrong))
        if count:
            address = int(np.broadcast_to(addresses, shape)[wrong][0])
            verb = "write" if access.writes else "read"
            what = f"{verb} of {access.width} bytes at {address:#x}: {self.memory.locate(address)}"
            if kind == "misaligned":
                what = f"{what}; it is not a multiple of {access.align}"
            elif access.limit is not None:
                element = int(np.broadcast_to(offset, shape)[wrong][0])
                what = f"{what}; element {element} of 0 .. {access.limit + access.count - 1}"
            self.report(access.op, kind, what, address, count)
        return ~wrong if allowed is None else np.broadcast_to(allowed, shape) & ~wrong

    # Loads to LDS

    def start_arrival(self, m: Machine, access: Access, arrival: Arrival, start: Array, element: Array) -> None:
        """A load to LDS starts: from now on until its wait it may write at any time."""
        allowed, offsets, segment = self._checked(m, access, start, element, arrival.addresses, arrival.lanes)
        if offsets is None or segment is None or allowed is None:
            return
        arrival.lanes = allowed
        if self.stats is not None:
            self.stats.access(m, access, arrival.addresses, allowed, segment, self.memory)
        offsets, stamps = offsets[allowed], self.clock(m).stamps(access.number)[allowed]
        shadow = self._shadow(segment, True)
        self._early(access, segment, offsets)
        conflict, _ = shadow.write(self.clock(m), offsets, access.width, stamps)
        self._race(access, segment, conflict, "writes")
        shadow.pend(offsets, access.width, 1)
        m.arrivals.append(arrival)
        self._arriving[arrival] = access

    def end_arrival(self, m: Machine, arrival: Arrival, lanes: Array) -> None:
        """A load to LDS has arrived for some lanes."""
        access = self._arriving[arrival]
        offsets, segment, _ = self.memory.resolve(arrival.addresses[lanes], access.width)
        assert segment is not None
        self._shadow(segment, True).pend(offsets, access.width, -1)
        self._shadow(segment, True).arrive(self.clock(m), offsets, access.width, access.number, lanes)
        plain = clean(arrival.values)
        full = (m.lanes, *plain.shape[1:])
        self.memory.poke(offsets, np.broadcast_to(plain, full)[lanes], access.width)
        if type(arrival.values) is Tainted:
            taint = np.broadcast_to(arrival.values.taint, full)[lanes]
            self._stored_poison(access, segment, offsets, taint, arrival.values.origin)
        if not arrival.lanes.any():
            del self._arriving[arrival]

    def _early(self, access: Access, segment: Segment, offsets: Array) -> None:
        """Refuses accesses to bytes that a load to LDS may still write."""
        shadow = self._shadow(segment, True)
        early = shadow.pending(offsets, access.width)
        if early is None:
            return
        address = self._address(segment, int(offsets[early][0]))
        what = (
            f"{'write to' if access.writes else 'read of'} {address:#x} ({self.memory.locate(address)}), where a load "
            "to LDS may still write: no hip.waitcnt says that it has arrived"
        )
        self.report(access.op, "early-read", what, address, int(early.sum()))

    # What memory holds

    def _unsound(
        self, m: Machine, access: Access, offsets: Array, segment: Segment | None, allowed: Array | None
    ) -> Array | None:
        """Which elements of a load mean nothing; bytes that nobody wrote are written down."""
        good = self.memory.sound(offsets, access.width)
        if good is None:
            if segment is not None and segment.solid and segment not in self._judged:
                self._judged.add(segment)
                if self.memory.all_sound(segment):
                    self._sound.add(segment)
            return None
        wrong = ~good if allowed is None else ~good & allowed
        rows = np.flatnonzero(wrong)
        if not rows.size:
            return None
        states = self.memory.states(offsets[rows], access.width).reshape(len(rows), access.count, -1)
        unwritten = ((states & WRITTEN) == 0).any(2)
        if unwritten.any():
            at = offsets[rows[np.flatnonzero(unwritten.any(1))[0]]]
            address = self.memory.address_at(int(at))
            what = f"read of {access.width} bytes at {address:#x} that nobody wrote: {self.memory.locate(address)}"
            self.report(access.op, "unwritten-read", what, address, int(unwritten.any(1).sum()))
        elements = unwritten | ((states & POISONED) != 0).any(2)
        shape = wrong.shape if access.count == 1 else (*wrong.shape, access.count)
        taint = np.zeros(shape, np.bool_)
        taint[rows] = elements[:, 0] if access.count == 1 else elements
        return taint

    def _address(self, segment: Segment, offset: int) -> int:
        return offset - segment.start + segment.base

    # Order

    def _note_read(self, m: Machine, access: Access, segment: Segment, offsets: Array, allowed: Array | None) -> None:
        clock = self.clock(m)
        stamps = clock.stamps(access.number)
        offsets = np.broadcast_to(offsets, stamps.shape)
        if allowed is not None:
            allowed = np.broadcast_to(allowed, stamps.shape)
            offsets, stamps = offsets[allowed], stamps[allowed]
        elif m.mask is not None:
            offsets, stamps = offsets[m.mask], stamps[m.mask]
        if access.lds:
            self._early(access, segment, offsets)
        conflict = self._shadow(segment, access.lds).read(clock, offsets, access.width, stamps)
        self._race(access, segment, conflict, "reads")

    def _note_write(self, m: Machine, access: Access, segment: Segment, offsets: Array, stamps: Array) -> None:
        clock, shadow = self.clock(m), self._shadow(segment, access.lds)
        if access.lds:
            self._early(access, segment, offsets)
        conflict, again = shadow.write(clock, offsets, access.width, stamps)
        if segment.base in self.outputs and again.any():
            at = self._address(segment, int(offsets[again][0]))
            name = self.outputs[segment.base]
            what = f"{int(again.sum())} elements or more of output {name!r} are written a second time"
            self.report(access.op, "written-twice", what, at, int(again.sum()), self._owner(segment, shadow, conflict))
        else:
            self._race(access, segment, conflict, "writes")

    def _race(self, access: Access, segment: Segment, conflict: Conflict | None, verb: str) -> None:
        if conflict is None:
            return
        shadow = self._shadow(segment, access.lds)
        address = self._address(segment, shadow.address_of(int(conflict.cells[0])))
        owner = self._owner(segment, shadow, conflict)
        where = f"{address:#x} ({self.memory.locate(address)})"
        what = f"{_who(int(conflict.after[0]))} {verb} {where} and no barrier orders it after {owner}"
        self.report(access.op, "race", what, address, len(conflict.cells), owner)

    def _owner(self, segment: Segment, shadow: Shadow, conflict: Conflict | None) -> str:
        """Whose bytes the first conflict is about: who accessed them before."""
        if conflict is None:
            return "the same lane"
        stamp = int(conflict.before[0])
        op = self._operations[operation_in(stamp)]
        place = describe(op)
        return f"{_who(stamp)} in {op.name}" + (f" at {place}" if place else "")

    def barrier(self, m: Machine) -> None:
        """All lanes of each active workgroup met."""
        active = self.clock(m).barrier(m.mask)
        for shadow in self._shadows.values():
            if shadow.lds:
                shadow.met(m.groups, active)

    def fence(self, m: Machine) -> None:
        """The order of each active wave's instructions is fixed here."""
        self.clock(m).fence(m.mask)


def _who(stamp: int) -> str:
    return f"lane {lane_in(stamp)} of workgroup {group_in(stamp) - 1}"


def _bytes(offset: Array, access: Access) -> Array:
    return offset.astype(np.int64, copy=False) * access.dtype.itemsize


__all__ = ["KINDS", "Access", "Court", "Finding", "clock_in"]
