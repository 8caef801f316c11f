"""scf: structured control flow. Uniform conditions and bounds steer Python's own; others run under a mask."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects import scf
from xdsl.ir import Operation

from xpaged.errors import XpagedError
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value, merge, rule
from xpaged.interpreter.numerics import Array


def _results(op: Operation, values: tuple[Value, ...]) -> Value:
    return values[0] if len(op.results) == 1 else values


def uniform(m: Machine, x: Array) -> Any:
    """The one value that `x` has in all active lanes, as a Python scalar, or None."""
    if x.size == 1:
        return x.item()
    if m.mask is not None:
        x = x[m.mask]
    first = x[0]
    return first.item() if (x == first).all() else None


@rule(scf.IfOp)
def if_(op: scf.IfOp, b: Compiler) -> OpCode:
    then = b.region(op.true_region)
    other = b.region(op.false_region) if op.false_region.blocks else None

    def run(m: Machine, condition: Array) -> Value:
        taken = uniform(m, condition)
        if taken is not None:
            if taken:
                return _results(op, then(m, ()))
            return _results(op, other(m, ())) if other is not None else None
        yes = m.and_mask(condition)
        with m.masked(yes):
            values = then(m, ())
        if other is None:
            return None
        with m.masked(m.and_mask(~condition)):
            others = other(m, ())
        return _results(op, tuple(merge(yes, x, y) for x, y in zip(values, others, strict=True)))

    return run


@rule(scf.ForOp)
def for_(op: scf.ForOp, b: Compiler) -> OpCode:
    body = b.region(op.body)
    dtype = b.dtype(op.lb.type)

    def run(m: Machine, lower: Array, upper: Array, step: Array, *values: Value) -> Value:
        first, last, stride = uniform(m, lower), uniform(m, upper), uniform(m, step)
        if (step <= 0).any():
            raise XpagedError("the step of a loop must be positive", found=int(step.min()))
        if first is None or last is None or stride is None:
            return _results(op, masked(m, lower, upper, step, values))
        ivs = np.arange(int(first), int(last), int(stride)).astype(dtype)
        for i in range(len(ivs)):
            values = body(m, (ivs[i : i + 1], *values))
        return _results(op, values)

    def masked(m: Machine, lower: Array, upper: Array, step: Array, values: tuple[Value, ...]) -> tuple[Value, ...]:
        iv = lower
        while True:
            active = m.and_mask(iv < upper)
            if not active.any():
                return values
            with m.masked(active):
                new = body(m, (iv, *values))
            values = _merge_all(active, new, values)
            iv = iv + step

    return run


@rule(scf.WhileOp)
def while_(op: scf.WhileOp, b: Compiler) -> OpCode:
    before, after = b.region(op.before_region), b.region(op.after_region)

    def run(m: Machine, *values: Value) -> Value:
        active = np.ones(m.lanes, np.bool_) if m.mask is None else m.mask
        results: tuple[Value, ...] | None = None
        while True:
            with m.masked(active):
                condition, *passed = before(m, values)
            results = tuple(passed) if results is None else _merge_all(active, passed, results)
            active = active & condition
            if not active.any():
                return _results(op, results)
            with m.masked(active):
                values = _merge_all(active, after(m, passed), values)

    return run


def _merge_all(mask: Array, new: Sequence[Value], old: Sequence[Value]) -> tuple[Value, ...]:
    if mask.all():
        return tuple(new)
    return tuple(merge(mask, n, o) for n, o in zip(new, old, strict=True))


@rule(scf.ExecuteRegionOp)
def execute_region(op: scf.ExecuteRegionOp, b: Compiler) -> OpCode:
    body = b.region(op.region)

    def run(m: Machine) -> Value:
        return _results(op, body(m, ()))

    return run


@rule(scf.IndexSwitchOp)
def index_switch(op: scf.IndexSwitchOp, b: Compiler) -> OpCode:
    cases = dict(zip(op.cases.get_values(), (b.region(r) for r in op.case_regions), strict=True))
    default = b.region(op.default_region)

    def run(m: Machine, selector: Array) -> Value:
        case = uniform(m, selector)
        if case is None:
            raise XpagedError("scf.index_switch on a value that differs between lanes")
        return _results(op, cases.get(case, default)(m, ()))

    return run
