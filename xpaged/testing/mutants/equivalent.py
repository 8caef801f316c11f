"""Mutants that are no mistakes, and why: each reason is a property of the mutant that is looked at, no list of names.

What a kernel does with integers is written down while it runs: every address in the lanes that access it, every mask,
every condition of a select, every bound of a loop. Numbers that come from lane, wave, workgroup and loop numbers alone
take all their values in one run, so that a mutant that changes nothing of this is equivalent for these sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from xpaged.dialects import hip
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value
from xpaged.interpreter.numerics import Array
from xpaged.interpreter.rules.hip import start_of
from xpaged.interpreter.views import MemRef
from xpaged.testing.mutants.operators import LOADS, STORES, Mutant

Trips = dict[Operation, list[Array]]
SAME = "no address, mask, condition or bound is another in any lane, workgroup or trip"
SAME_RESULTS = (
    "what it changes (a read whose value is not used, a row that is not stored) changes no bit of any result, in any "
    "lane, workgroup or trip"
)
SAME_LENGTHS = "what it changes changes no bit of any result for any of the lengths in the batch"
ONE_WAY = "the condition has one value in every lane, workgroup and trip: no row of this kernel is without a key"
NOT_STORED = "the lanes in which it differs store nothing: no bit of any result changes"
ONE_TILE = "there is one tile of keys, so that what it scales down is still 0: no bit of any result changes"
MORE_TRIPS = "it only makes trips over tiles that hold no key that counts: they are masked off"
MORE_READ = "it only reads more, where it may, and no output depends on what: the court follows it"
ORDER = "it only changes the order in which numbers are added or compared"
UNUSED = "nothing uses the result"


class Behaviour:
    """What a run of a kernel does with integers: `signature` stands for all of it, `trips` are the bounds of loops.
    Also which operations were executed, and the bits of the results."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self.trips: Trips = {}
        self.executed: set[Operation] = set()
        self.conditions: dict[Operation, set[bool]] = {}  # of selects, in the active lanes
        self.results = b""

    @property
    def signature(self) -> bytes:
        """The same for runs that do the same."""
        return self._hash.digest()

    def most_trips(self) -> int:
        """The most trips that a lane makes over tiles, in all loops of a kernel together."""
        kernels: dict[Operation | None, list[Array]] = {}
        for op, trips in self.trips.items():
            if hip.UNROLL not in op.attributes:
                kernels.setdefault(_function(op), []).extend(trips)
        most = 0
        for trips in kernels.values():
            together = [np.maximum(t, 0) for t in trips]
            same = len({len(t) for t in together}) == 1
            most = max(most, int(np.sum(together, 0).max()) if same else sum(int(t.max()) for t in together))
        return most

    def note(self, m: Machine | None, *values: Array) -> None:
        """Takes numbers of the active lanes of a machine into the signature."""
        for value in values:
            if m is not None:
                value = np.broadcast_to(value, (m.lanes, *value.shape[1:]))
                value = value if m.mask is None else value[m.mask]
            self._hash.update(np.ascontiguousarray(value).tobytes())

    def wrap(self, op: Operation, code: OpCode, b: Compiler) -> OpCode:
        """Looks at the integers that an operation is given."""
        watch, executed = self._watch(op), self.executed

        def run(m: Machine, *values: Value) -> Value:
            executed.add(op)
            if watch is not None:
                watch(m, *values)
            return code(m, *values)

        return run

    def _watch(self, op: Operation) -> Callable[..., None] | None:
        if isinstance(op, LOADS + STORES):
            first, size = (1 if isinstance(op, STORES) else 0), len(op.operands)
            masked = op.mask is not None

            def access(m: Machine, *values: Value) -> None:
                lanes = np.broadcast_to(values[size - 1], (m.lanes,)) if masked else np.ones(m.lanes, np.bool_)
                places = [start_of(values[first]).astype(np.int64), *values[first + 1 : size - masked]]
                places = [start_of(p).astype(np.int64) if isinstance(p, MemRef) else p for p in places]
                self.note(m, lanes, *(np.where(lanes, p, 0) for p in places))

            return access
        if isinstance(op, scf.ForOp):

            def bounds(m: Machine, low: Array, high: Array, *rest: Value) -> None:
                self.note(m, low, high)
                self.trips.setdefault(op, []).append(np.broadcast_to(high - low, (m.lanes,)).copy())

            return bounds
        if isinstance(op, arith.SelectOp):
            seen = self.conditions.setdefault(op, set())

            def select(m: Machine, condition: Array, *rest: Value) -> None:
                self.note(m, condition)
                active = condition if m.mask is None or condition.shape[0] == 1 else condition[m.mask]
                seen.update((bool(active.any()), bool(active.all())))

            return select
        if isinstance(op, scf.IfOp):
            return lambda m, condition, *rest: self.note(m, condition)
        if isinstance(op, hip.GetOp):
            return lambda m, regs, *indices: self.note(m, *indices)
        if isinstance(op, hip.SetOp):

            def set_(m: Machine, value: Value, regs: Value, *indices: Value) -> None:
                self.note(m, *indices)
                if isinstance(value, np.ndarray) and value.dtype.kind in "iub":
                    self.note(m, value)

            return set_
        return None


_TAKEN = {"always the first": True, "always the second": False}


def _function(op: Operation) -> Operation | None:
    while (parent := op.parent_op()) is not None and op.name != "func.func":
        op = parent
    return op


def static_reason(mutant: Mutant) -> str:
    """Why a mutant computes the same as the kernel, as far as the IR alone says it; empty where it does not."""
    op = mutant.op
    if op.results and all(r.first_use is None for r in op.results) and not op.regions:
        return UNUSED
    if mutant.operator == "operands" and isinstance(op, hip.VectorOp | hip.SliceOp) and _only_reduced(op.results[0]):
        return ORDER
    return ""


def reason(mutant: Mutant, before: list[Behaviour], after: list[Behaviour]) -> str:
    """Why a mutant that survived computes the same as the kernel, from what both did; empty where nothing says it."""
    integers = _only_integers(mutant)
    if integers and all(x.signature == y.signature for x, y in zip(before, after, strict=True)):
        return SAME
    if mutant.operator == "select" and mutant.variant in _TAKEN:
        seen = set[bool]().union(*(b.conditions.get(mutant.op, set()) for b in before))
        if seen == {_TAKEN[mutant.variant]}:
            return ONE_WAY
    if mutant.operator in ("loop", "bound", "select", "comparison") and all(map(_more_trips, before, after)):
        return MORE_TRIPS
    if all(x.results == y.results for x, y in zip(before, after, strict=True)):
        if mutant.operator == "mask" and mutant.variant == "dropped" and isinstance(mutant.op, LOADS):
            return MORE_READ
        if mutant.operator == "select":
            return NOT_STORED
        if all(b.most_trips() <= 1 for b in before):
            return ONE_TILE
        if integers:
            return SAME_LENGTHS if _depends_on_lengths(mutant.op) else SAME_RESULTS
    return ""


def _only_integers(mutant: Mutant) -> bool:
    """Whether a mutant changes integers and conditions only."""
    op = mutant.op
    types = [r.type for r in op.results] or [v.type for v in op.operands]
    return mutant.operator in ("mask", "loop", "offset", "page index") or all(isinstance(t, IntegerType) for t in types)


def _depends_on_lengths(op: Operation) -> bool:
    """Whether an operation is given a number that was read from memory (a length, an offset)."""
    seen: set[SSAValue] = set()
    pending = list(op.operands)
    while pending:
        value = pending.pop()
        if value in seen or not isinstance(value.type, IntegerType):
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, hip.LoadOp | hip.LdsLoadOp):
            return True
        if isinstance(owner, Operation):
            pending += owner.operands
        elif isinstance(loop := owner.parent_op(), scf.ForOp):
            pending += [loop.lb, loop.ub]
    return False


def _more_trips(before: Behaviour, after: Behaviour) -> bool:
    """Whether the only loops that make other numbers of trips make more, and these are not unrolled."""
    changed = False
    for op, trips in before.trips.items():
        others = after.trips.get(op, [])
        if len(trips) != len(others):
            if len(trips) < len(others):
                continue  # a loop inside one that makes more trips
            return False
        for x, y in zip(trips, others, strict=True):
            if (y < x).any() or (hip.UNROLL in op.attributes and (y != x).any()):
                return False
            changed |= bool((y != x).any())
    return changed


_MOVES = (hip.SetOp, hip.GetOp, hip.SliceOp)


def _only_reduced(value: SSAValue, seen: frozenset[SSAValue] = frozenset()) -> bool:
    """Whether all elements of a value end in sums or maxima of one another."""
    for use in value.uses:
        user = use.operation
        if isinstance(user, arith.AddfOp | arith.MaxnumfOp):
            continue
        if isinstance(user, hip.SetOp) and user.regs not in seen:
            gets = [u.operation for u in user.regs.uses if isinstance(u.operation, hip.GetOp)]
            if all(_only_reduced(g.result, seen | {user.regs}) for g in gets):
                continue
        if isinstance(user, hip.SliceOp) and _only_reduced(user.result, seen):
            continue
        return False
    return True
