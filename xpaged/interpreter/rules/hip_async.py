"""hip: loads straight to LDS. What they bring is kept aside until a wait: a read before it sees what was there."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Operation

from xpaged.dialects import hip
from xpaged.errors import XpagedError
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value, rule
from xpaged.interpreter.numerics import Array, dtype_of
from xpaged.interpreter.rules.hip import access_mask, alignment, check_inside, elements, start_of, waves_of
from xpaged.interpreter.views import MemRef


@dataclass(eq=False)
class Arrival:
    """A load to LDS that has started: where each lane writes, what, and the lanes for which it has not arrived."""

    op: Operation
    addresses: Array
    values: Value
    lanes: Array


def targets(op: hip.LoadLdsOp, m: Machine, lds: MemRef, start: Array, mask: Array) -> tuple[Array, Array]:
    """The LDS elements that the lanes' parts start at, and their addresses. Refuses places that are not the wave's."""
    count = op.count.value.data
    waves_of(m, op)
    start = np.broadcast_to(start, (m.lanes,))
    by_wave, active = start.reshape(-1, m.wave_size), mask.reshape(-1, m.wave_size)
    first = np.take_along_axis(by_wave, active.argmax(1)[:, None], 1)
    if ((by_wave != first) & active).any():
        raise XpagedError(
            "hip.load_lds fills one place for each wave",
            at=op,
            found="a start that differs between the lanes of a wave",
            fix="put what differs into the global address",
        )
    element = start + m.lane_id * count
    return element, start_of(lds) + (element.astype(np.int64) * lds.dtype.itemsize).view(np.uint64)


def active_lanes(m: Machine, mask: Array | None) -> Array:
    """The active lanes for which a mask holds, `bool[lanes]`."""
    lanes = np.ones(m.lanes, np.bool_) if m.mask is None else m.mask
    return lanes if mask is None else lanes & mask


def arrived(m: Machine, pending: int) -> Iterator[tuple[Arrival, Array]]:
    """Takes the loads of each active wave out of the queue, all but its last `pending`: each with the lanes of the
    waves for which it has arrived, in the order in which they were started."""
    if not m.arrivals:
        return
    waiting = active_lanes(m, None).reshape(-1, m.wave_size).any(1)
    started = np.stack([a.lanes.reshape(-1, m.wave_size).any(1) for a in m.arrivals])
    behind = started[::-1].cumsum(0)[::-1]  # of a wave, this one included
    done = started & (behind > pending) & waiting
    for arrival, waves in zip(list(m.arrivals), done, strict=True):
        if waves.any():
            lanes = arrival.lanes & np.repeat(waves, m.wave_size)
            arrival.lanes = arrival.lanes & ~lanes
            yield arrival, lanes
    m.arrivals = [a for a in m.arrivals if a.lanes.any()]


@rule(hip.LoadLdsOp)
def load_lds(op: hip.LoadLdsOp, b: Compiler) -> OpCode:
    storage, count = dtype_of(op.lds.type), op.count.value.data
    align, limit = alignment(storage.itemsize, count), elements(op.lds) - count

    def run(m: Machine, base: Value, offset: Array, lds: MemRef, start: Array, mask: Array | None = None) -> None:
        addresses = start_of(base) + (offset.astype(np.int64) * storage.itemsize).view(np.uint64)
        lanes = active_lanes(m, mask)
        if not lanes.any():
            return
        element, places = targets(op, m, lds, start, lanes)
        check_inside(op, element, limit, lanes)
        loaded = m.memory.load(addresses, storage, count, access_mask(m, addresses, mask), align)
        m.arrivals.append(Arrival(op, places, np.broadcast_to(loaded, (m.lanes, *loaded.shape[1:])), lanes))

    return run


@rule(hip.WaitcntOp)
def waitcnt(op: hip.WaitcntOp, b: Compiler) -> OpCode:
    pending = op.pending.value.data

    def run(m: Machine) -> None:
        for arrival, lanes in arrived(m, pending):
            values: Any = arrival.values
            count = 1 if values.ndim == 1 else values.shape[1]
            m.memory.store(arrival.addresses, values, count, lanes)

    return run
