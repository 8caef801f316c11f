"""The rules of the device level under the court: memory operations go through it, everything else follows taint."""

from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from xpaged.dialects import hip
from xpaged.dialects.hip import element_of, lanes_of
from xpaged.interpreter.court.court import Access, Court
from xpaged.interpreter.court.overflow import OverflowCheck
from xpaged.interpreter.court.taint import Tainted, clean, follow, taint_of, tainted
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Program, Value, Wrap
from xpaged.interpreter.numerics import Array, dtype_of
from xpaged.interpreter.rules.hip import Registers, access_mask, alignment, elements, register_indices, start_of
from xpaged.interpreter.rules.hip_async import Arrival, active_lanes, arrived, targets

_UNDEFINED = (None,)
"""Stands in a register array's shadow for an element that was never set."""


class CourtProgram(Program):
    """A device-level module whose accesses to memory a court judges."""

    def __init__(self, module: Any, court: Court) -> None:
        super().__init__(module, wrap=self._wrap)
        self.court = court
        self._written = _written_buffers(module)
        overflow = OverflowCheck(module, court)

        def watched(op: Operation, code: OpCode, b: Compiler) -> OpCode:
            return follow(op, overflow.checked(op, code), court.decided)

        self._special: dict[type[Operation], Wrap] = {
            hip.LoadOp: self._load,
            hip.LdsLoadOp: self._load,
            hip.StoreOp: self._store,
            hip.LdsStoreOp: self._store,
            hip.RegsOp: _regs,
            hip.GetOp: _get,
            hip.SetOp: _set,
            hip.BarrierOp: lambda op, code, b: _then(code, court.barrier),
            hip.SchedBarrierOp: lambda op, code, b: _then(code, court.fence),
            hip.LoadLdsOp: self._load_lds,
            hip.WaitcntOp: self._waitcnt,
            hip.MmaOp: self._product,
            **dict.fromkeys((arith.AddiOp, arith.SubiOp, arith.MuliOp, arith.ShLIOp), watched),
        }

    def _wrap(self, op: Operation, code: OpCode, b: Compiler) -> OpCode:
        special = self._special.get(type(op))
        return follow(op, code, self.court.decided) if special is None else special(op, code, b)

    def _access(self, op: Any, type_: Any, writes: bool) -> Access:
        dtype, count = dtype_of(element_of(type_)), lanes_of(type_)
        lds = isinstance(op, hip.LdsLoadOp | hip.LdsStoreOp)
        limit = elements(op.base) - count if isinstance(op.base.type, MemRefType) else None
        tracked = writes or lds or _buffer(op.base) in self._written or None in self._written
        number = self.court.number(op)
        return Access(op, number, dtype, count, alignment(dtype.itemsize, count), limit, lds, tracked, writes)

    def _plain(self, m: Machine, op: Operation, *values: Value) -> list[Any]:
        """Operands that say where an access goes; one that means nothing is written down."""
        for value in values:
            if type(value) is Tainted:
                self.court.decided(m, op, value)
        return [clean(v) for v in values]

    def _load(self, op: Any, code: OpCode, b: Compiler) -> OpCode:
        access, result, court = self._access(op, op.result.type, False), b.dtype(op.result.type), self.court
        size = access.dtype.itemsize

        def run(m: Machine, base: Value, offset: Value, mask: Value = None) -> Value:
            if type(base) is Tainted or type(offset) is Tainted:
                base, offset = self._plain(m, op, base, offset)
            start = start_of(base)
            addresses = start + (offset.astype(np.int64, copy=False) * size).view(np.uint64)
            unsure = mask if type(mask) is Tainted else None
            loaded = court.load(m, access, start, offset, addresses, access_mask(m, addresses, clean(mask)))
            if unsure is not None:
                lanes = unsure.taint if access.count == 1 else unsure.taint[:, None]
                loaded = Tainted(clean(loaded), taint_of(loaded) | lanes, unsure.origin)
            return loaded if result == access.dtype else _cast(loaded, result)

        return run

    def _store(self, op: Any, code: OpCode, b: Compiler) -> OpCode:
        access, court = self._access(op, op.value.type, True), self.court
        size = access.dtype.itemsize

        def run(m: Machine, value: Value, base: Value, offset: Value, mask: Value = None) -> None:
            base, offset, mask = self._plain(m, op, base, offset, mask)
            start = start_of(base)
            addresses = start + (offset.astype(np.int64, copy=False) * size).view(np.uint64)
            if m.mask is not None:
                mask = m.mask if mask is None else mask & m.mask
            court.store(m, access, start, offset, addresses, _cast(value, access.dtype), mask)

        return run

    def _load_lds(self, op: Any, code: OpCode, b: Compiler) -> OpCode:
        court, storage, count = self.court, dtype_of(op.lds.type), op.count.value.data
        number, align = court.number(op), alignment(storage.itemsize, count)
        limit = elements(op.base) - count if isinstance(op.base.type, MemRefType) else None
        tracked = _buffer(op.base) in self._written or None in self._written
        read = Access(op, number, storage, count, align, limit, False, tracked, False)
        write = Access(op, number, storage, count, align, elements(op.lds) - count, True, True, True)

        def run(m: Machine, base: Value, offset: Value, lds: Value, start: Value, mask: Value = None) -> None:
            base, offset, lds, start, mask = self._plain(m, op, base, offset, lds, start, mask)
            first = start_of(base)
            addresses = first + (offset.astype(np.int64) * storage.itemsize).view(np.uint64)
            lanes = active_lanes(m, mask)
            if not lanes.any():
                return
            element, places = targets(op, m, lds, start, lanes)
            loaded = court.load(m, read, first, offset, addresses, access_mask(m, addresses, mask))
            court.start_arrival(m, write, Arrival(op, places, loaded, lanes), start_of(lds), element)

        return run

    def _waitcnt(self, op: Any, code: OpCode, b: Compiler) -> OpCode:
        pending, court = op.pending.value.data, self.court

        def run(m: Machine) -> None:
            for arrival, lanes in arrived(m, pending):
                court.end_arrival(m, arrival, lanes)

        return run

    def _product(self, op: Any, code: OpCode, b: Compiler) -> OpCode:
        name, stats, code = op.instruction.data, self.court.stats, follow(op, code, self.court.decided)
        if stats is None:
            return code

        def run(m: Machine, *values: Value) -> Value:
            stats.product(m, name)
            return code(m, *values)

        return run


def _cast(value: Value, dtype: np.dtype[Any]) -> Value:
    if type(value) is Tainted:
        return Tainted(value.value.astype(dtype, copy=False), value.taint, value.origin)
    return value.astype(dtype, copy=False)


def _then(code: OpCode, after: Any) -> OpCode:
    def run(m: Machine) -> None:
        code(m)
        after(m)

    return run


def _buffer(base: SSAValue) -> SSAValue | None:
    """The argument that a base is; None for the address of a page, which may be anywhere."""
    return base if isinstance(base.type, MemRefType) else None


def _written_buffers(module: Operation) -> set[SSAValue | None]:
    """The bases through which a module writes global memory."""
    return {_buffer(op.base) for op in module.walk() if isinstance(op, hip.StoreOp)}


# ---- registers: an element that was never set is poison


def _regs(op: Any, code: OpCode, b: Compiler) -> OpCode:
    def run(m: Machine) -> Registers:
        regs = code(m)
        regs.shadow = [_UNDEFINED] * len(regs.items)
        return regs

    return run


def _get(op: Any, code: OpCode, b: Compiler) -> OpCode:
    where = register_indices(op)
    origin = (op, None)

    def run(m: Machine, regs: Registers, *indices: Value) -> Value:
        if Tainted in map(type, indices):
            indices = tuple(map(clean, indices))
        value = code(m, regs, *indices)
        kept = regs.shadow[where[0](indices[0])]
        if kept is None:
            return value
        if kept is _UNDEFINED:
            return Tainted(value, np.ones((1,) * value.ndim, np.bool_), origin)
        taint = kept.taint
        if len(indices) == 2 and taint.ndim == 2:
            taint = taint[:, where[1](indices[1])]
        if m.mask is not None and taint.shape[0] > 1:  # what other lanes hold matters when they are active
            taint = taint & (m.mask if taint.ndim == 1 else m.mask[:, None])
        return tainted(value, taint, kept.origin)

    return run


class _Kept:
    """The taint of one register of an array, and where it comes from."""

    __slots__ = ("origin", "taint")

    def __init__(self, taint: Array, origin: Any) -> None:
        self.taint = taint
        self.origin = origin


def _set(op: Any, code: OpCode, b: Compiler) -> OpCode:
    where = register_indices(op)
    type_ = op.regs.type
    assert isinstance(type_, hip.RegsType)
    size = lanes_of(type_.element)
    vector = not isinstance(op.value.type, type(type_.element)) or size > 1

    def run(m: Machine, value: Value, regs: Registers, *indices: Value) -> None:
        if Tainted in map(type, indices):
            indices = tuple(map(clean, indices))
        code(m, clean(value), regs, *indices)
        number = where[0](indices[0])
        kept = regs.shadow[number]
        if kept is None and type(value) is not Tainted:
            return
        if len(indices) == 1 and m.mask is None:
            regs.shadow[number] = None if type(value) is not Tainted else _Kept(value.taint, value.origin)
            return
        shape = (m.lanes, size) if vector and size > 1 else (m.lanes,)
        if kept is None:
            taint = np.zeros(shape, np.bool_)
        elif kept is _UNDEFINED:
            taint = np.ones(shape, np.bool_)
        else:
            taint = np.broadcast_to(kept.taint, shape).copy()
        new = taint_of(value)
        if len(indices) == 2 and taint.ndim == 2:
            column = taint[:, where[1](indices[1])]
            column[...] = new if m.mask is None else np.where(m.mask, new, column)
        else:
            mask = m.mask if m.mask is None or taint.ndim == 1 else m.mask[:, None]
            taint = np.broadcast_to(new, shape) if mask is None else np.where(mask, new, taint)
        origin = value.origin if type(value) is Tainted else (op, None) if kept in (None, _UNDEFINED) else kept.origin
        regs.shadow[number] = _Kept(taint, origin) if taint.any() else None

    return run
