"""Taint: which elements of a value depend on memory that holds nothing, and what operations make of that.

A clean value is an ordinary array; only where something is tainted is there a `Tainted` in its place, so that a program
that reads no poison pays one look at the type of each operand. Arithmetic taints its result, a select that takes the
other value does not, and a matrix product spreads the taint of an element over a row or a column: 0 * NaN is NaN.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import i1
from xdsl.ir import Operation

from xpaged.arch.table import instruction_named
from xpaged.dialects import hip
from xpaged.interpreter.evaluator import Machine, OpCode, Value, merge
from xpaged.interpreter.numerics import Array

Origin = tuple[Operation, int | None]
"""The operation that read poison, and the address where it did (None: a register)."""


class Tainted:
    """An array `value` with elements that mean nothing: where `taint` (a bool array of the same shape) is true."""

    __slots__ = ("origin", "taint", "value")

    def __init__(self, value: Array, taint: Array, origin: Origin) -> None:
        self.value = value
        self.taint = taint if taint.shape == value.shape else np.broadcast_to(taint, value.shape)
        self.origin = origin

    def merge(self, mask: Array, old: Value) -> Value:
        """This value in the lanes of `mask`, `old` elsewhere."""
        value = merge(mask, self.value, clean(old))
        return tainted(value, merge(mask, self.taint, taint_of(old)), self.origin)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The plain value, for rules that look at numbers only."""
        return self.value if dtype is None else self.value.astype(dtype)


def tainted(value: Array, taint: Array, origin: Origin) -> Value:
    """`value` with a taint, or alone where there is none."""
    return Tainted(value, taint, origin) if taint.any() else value


def clean(value: Value) -> Value:
    """The plain value."""
    return value.value if type(value) is Tainted else value


def taint_of(value: Value) -> Array:
    """Where a value is tainted, in an array that broadcasts to its shape."""
    return value.taint if type(value) is Tainted else np.zeros((1,) * value.ndim, np.bool_)


Spread = Callable[[Machine, tuple[Value, ...], Array], Array]
"""The taint of a result, from the operands and the plain result."""


def _elementwise(m: Machine, values: tuple[Value, ...], result: Array) -> Array:
    total: Array | None = None
    for v in values:
        if type(v) is Tainted:
            total = v.taint if total is None else total | v.taint
    assert total is not None
    return total


def _select(m: Machine, values: tuple[Value, ...], result: Array) -> Array:
    c, x, y = values
    condition, unknown = clean(c), taint_of(c)
    if condition.ndim < result.ndim:
        rest = (1,) * (result.ndim - condition.ndim)
        condition, unknown = condition.reshape(*condition.shape, *rest), unknown.reshape(*unknown.shape, *rest)
    return np.where(condition, taint_of(x), taint_of(y)) | unknown


def _and(m: Machine, values: tuple[Value, ...], result: Array) -> Array:
    """Zero and anything is zero."""
    (x, s), (y, t) = ((clean(v), taint_of(v)) for v in values)
    return (s | t) & (s | (x != 0)) & (t | (y != 0))


def _or(m: Machine, values: tuple[Value, ...], result: Array) -> Array:
    """True or anything is true."""
    (x, s), (y, t) = ((clean(v), taint_of(v)) for v in values)
    return (s | t) & (s | ~x) & (t | ~y)


def _by_lane(m: Machine, values: tuple[Value, ...], result: Array) -> Array:
    """Of operations that mix the elements of a lane: one tainted element taints them all."""
    lanes = np.zeros(1, np.bool_)
    for v in values:
        if type(v) is Tainted:
            lanes = lanes | v.taint.reshape(v.taint.shape[0], -1).any(1)
    return lanes.reshape(-1, *(1,) * (result.ndim - 1))


def _by_wave(m: Machine, values: tuple[Value, ...], result: Array) -> Array:
    """Of operations that mix lanes: one tainted lane taints its wave."""
    lanes = _by_lane(m, values, np.empty(1)).reshape(-1)
    if lanes.shape[0] > 1:
        active = lanes if m.mask is None else lanes & m.mask
        lanes = np.repeat(active.reshape(-1, m.wave_size).any(1), m.wave_size)
    return lanes.reshape(-1, *(1,) * (result.ndim - 1))


def _moved(code: OpCode) -> Spread:
    """Of operations that only move elements: where they move from."""

    def spread(m: Machine, values: tuple[Value, ...], result: Array) -> Array:
        flags = [np.broadcast_to(taint_of(v), clean(v).shape) for v in values]
        return np.asarray(code(m, *flags)) != 0

    return spread


def _product(op: hip.MmaOp) -> Spread:
    """A tainted element of A taints a row of D, one of B a column, one of C itself."""
    instruction = instruction_named(op.instruction.data)
    assert instruction is not None

    places: dict[int, tuple[Array, Array]] = {}

    def spread(m: Machine, values: tuple[Value, ...], result: Array) -> Array:
        a, b, c = values
        if m.wave_size not in places:
            lanes = range(m.wave_size)
            registers = range(instruction.registers)
            places[m.wave_size] = (
                np.array([instruction.operand_place(lane, 0)[0] for lane in lanes]),
                np.array([[instruction.result_place(lane, r) for r in registers] for lane in lanes]),
            )
        held, results = places[m.wave_size]

        def lines(v: Value, count: int) -> Array:
            """For each wave and row (column) whether a lane that holds a part of it is tainted."""
            flags = np.broadcast_to(_by_lane(m, (v,), np.empty(1)), (m.lanes,)).reshape(-1, m.wave_size)
            out = np.zeros((len(flags), count), np.bool_)
            waves, where = np.nonzero(flags)
            out[waves, held[where]] = True
            return out

        rows, columns = lines(a, instruction.m), lines(b, instruction.n)
        mixed = rows[:, results[..., 0]] | columns[:, results[..., 1]]  # [wave, lane, register]
        return mixed.reshape(m.lanes, -1) | taint_of(c)

    return spread


_MOVES = (hip.VectorOp, hip.SplatOp, hip.SliceOp, hip.ExchangeOp, vector.ShuffleOp)
_CONTROL: dict[str, int] = {"scf.for": 3, "scf.if": 1, "scf.index_switch": 1}
"""How many operands of an operation with regions decide which way it goes."""


def spread_of(op: Operation, code: OpCode) -> Spread:
    """How taint goes through an operation: exactly where it is known, else from each operand to every element of the
    lane, or of the wave where the operation is one of a wave."""
    match op:
        case arith.SelectOp():
            return _select
        case arith.AndIOp():
            return _and
        case arith.OrIOp() if op.result.type == i1:
            return _or
        case hip.MmaOp():
            return _product(op)
        case hip.Exp2Op():
            return _elementwise
        case _ if isinstance(op, _MOVES):
            return _moved(code)
        case _ if op.name.startswith("hip."):
            return _by_wave
        case _ if op.name.startswith(("arith.", "math.")) or isinstance(op, vector.FMAOp):
            return _elementwise
        case _:
            return _by_lane


def follow(op: Operation, code: OpCode, decided: Callable[[Machine, Operation, Tainted], None]) -> OpCode:
    """The code of an operation that also follows taint; `decided` is told of a tainted value that decides which way
    the program goes, or that ends in something that is no array."""
    if op.regions:
        return _follow_control(op, code, decided)
    if not op.operands:
        return code
    spread: Spread | None = None

    def dirty(m: Machine, values: tuple[Value, ...]) -> Value:
        nonlocal spread
        spread = spread or spread_of(op, code)
        result = code(m, *[clean(v) for v in values])
        origin = next(v for v in values if type(v) is Tainted)
        if not isinstance(result, np.ndarray):
            decided(m, op, origin)
            return result
        return tainted(result, spread(m, values, result), origin.origin)

    def one(m: Machine, x: Value) -> Value:
        return code(m, x) if type(x) is not Tainted else dirty(m, (x,))

    def two(m: Machine, x: Value, y: Value) -> Value:
        return code(m, x, y) if type(x) is not Tainted and type(y) is not Tainted else dirty(m, (x, y))

    def several(m: Machine, *values: Value) -> Value:
        return dirty(m, values) if Tainted in map(type, values) else code(m, *values)

    return {1: one, 2: two}.get(len(op.operands), several)


def _follow_control(op: Operation, code: OpCode, decided: Callable[[Machine, Operation, Tainted], None]) -> OpCode:
    count = _CONTROL.get(op.name, 0)

    def run(m: Machine, *values: Value) -> Value:
        steering = values[:count]
        if Tainted in map(type, steering):
            for v in steering:
                if type(v) is Tainted:
                    decided(m, op, v)
            values = (*map(clean, steering), *values[count:])
        return code(m, *values)

    return run
