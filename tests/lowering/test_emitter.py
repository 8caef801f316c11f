"""Index expressions as operations: the right value, in the narrowest type, once, and as far out as it can stand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import ModuleOp, f32, i32, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from xpaged.interpreter.evaluator import Machine, Program
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.verify import verify
from xpaged.lowering.emitter import Emitter, fits_i32

RANGES = {"a": 63, "b": 3, "c": 1000}


def fresh(count: int = 3) -> tuple[Emitter, Block]:
    """An emitter in a function of `count` i32 arguments."""
    block = Block(arg_types=[i32] * count)
    return Emitter(block), block


def variables(emitter: Emitter, block: Block) -> list[IndexExpr]:
    return [emitter.variable(n, hi, v) for (n, hi), v in zip(RANGES.items(), block.args, strict=True)]


def module_of(block: Block, results: Sequence[SSAValue]) -> ModuleOp:
    """The block as the body of @f; the operations are verified."""
    block.add_op(func.ReturnOp(*results))
    types = [v.type for v in results]
    module = ModuleOp([func.FuncOp("f", ([a.type for a in block.args], types), Region(block))])
    verify(module)
    return module


def evaluate(block: Block, results: Sequence[SSAValue], values: dict[str, Any]) -> tuple[Any, ...]:
    """Run the block on values of its arguments."""
    lanes = len(next(iter(values.values())))
    program = Program(module_of(block, results))
    return program.call(Machine(lanes_per_group=lanes), "f", [v.astype(np.int32) for v in values.values()])


@st.composite
def expressions(draw: st.DrawFn) -> list[str]:
    """Steps that make an expression from the variables."""
    step = st.sampled_from(
        ["+a", "+b", "+c", "-a", "*2", "*3", "*7", "*40000", "*3000000", "//3", "//16", "%5", "%16", "+11", "-9"]
    )
    return draw(st.lists(step, min_size=1, max_size=8))


def build(steps: Sequence[str], given: Sequence[IndexExpr]) -> IndexExpr | None:
    by_name = dict(zip(RANGES, given, strict=True))
    expr = by_name["a"]
    for step in steps:
        operator, operand = step.rstrip("0123456789abc"), step.lstrip("+-*/%")
        value = by_name[operand] if operand in by_name else int(operand)
        match operator:
            case "+":
                expr = expr + value
            case "-":
                expr = expr - value
            case "*":
                expr = expr * int(operand)
            case "//":
                expr = expr // int(operand)
            case _:
                expr = expr % int(operand)
    return expr if abs(expr.lo) < 1 << 50 and abs(expr.hi) < 1 << 50 else None


@given(st.lists(expressions(), min_size=1, max_size=3), st.booleans())
def test_the_value_and_the_type(steps: list[list[str]], wide: bool) -> None:
    emitter, block = fresh()
    given_ = variables(emitter, block)
    exprs = [e for e in (build(s, given_) for s in steps) if e is not None]
    results = [emitter.index(e, wide=wide) for e in exprs]
    rng = np.random.default_rng(0)
    values = {n: np.array([0, hi, *rng.integers(0, hi + 1, 20)]) for n, hi in RANGES.items()}
    for expr, value, got in zip(exprs, results, evaluate(block, results, values), strict=True):
        assert value.type == (i64 if wide or not fits_i32(expr) else i32)
        np.testing.assert_array_equal(got, expr.evaluate(values))


def test_what_fits_in_32_bits() -> None:
    x = IndexExpr.var("x", 0, (1 << 30) - 1)
    assert fits_i32(x)
    assert fits_i32(x, 2)
    assert not fits_i32(x + 1, 2)
    assert fits_i32(x * -2)
    assert fits_i32(x * -2 - 2)
    assert not fits_i32(x * -2 - 3)


def test_offsets_of_large_buffers_are_64_bits_wide_from_where_it_matters() -> None:
    """Terms that fit stay narrow; only what multiplies them up is widened."""
    emitter, block = fresh()
    a, _, c = variables(emitter, block)
    emitter.index(c // 8 * (1 << 25) + a % 16)
    assert [op.name for op in block.ops if not isinstance(op, arith.ConstantOp)] == [
        "arith.divui",
        "arith.extui",
        "arith.muli",
        "arith.remui",
        "arith.extui",
        "arith.addi",
    ]
    assert [op.results[0].type for op in block.ops if isinstance(op, arith.DivUIOp | arith.RemUIOp)] == [i32, i32]


@pytest.mark.parametrize(("n", "kind"), [(5, "%"), (1_000_000_007, "/"), (3_000_000_019, "/")])
def test_small_results_of_large_dividends(n: int, kind: str) -> None:
    """A page number fits into 32 bits also where the number of the element in the cache does not."""
    emitter, block = fresh()
    a, _, c = variables(emitter, block)
    flat = c * 30_000_001 + a
    expr = flat % n if kind == "%" else flat // n
    value = emitter.index(expr)
    assert value.type == i32
    values = {"a": np.arange(64), "b": np.zeros(64), "c": np.arange(64) * 15 + 55}
    np.testing.assert_array_equal(evaluate(block, [value], values)[0], expr.evaluate(values))


def test_the_same_expression_is_computed_once() -> None:
    emitter, block = fresh()
    a, b, _ = variables(emitter, block)
    first = emitter.index(a * 12 + b + 5)
    count = len(block.ops)
    assert emitter.index(b + a * 12 + 5) is first
    assert emitter.index(a * 12 + b) is not first
    assert len(block.ops) == count
    emitter.index(a * 12)
    assert len(block.ops) == count


def test_constants_stand_at_the_top_once() -> None:
    emitter, _ = fresh()
    with emitter.loop("i", 4) as (i, loop):
        inside = emitter.index(i * 12)
        assert emitter.constant(12, i32) is emitter.constant(12, i32)
        assert emitter.constant(1.0, f32) is not emitter.constant(-1.0, f32)
        assert emitter.constant(0.0, f32) is not emitter.constant(-0.0, f32)
    assert inside.owner in list(loop.body.block.ops)
    assert not [op for op in loop.body.block.ops if isinstance(op, arith.ConstantOp)]
    assert emitter.index(IndexExpr.const(12)) is emitter.constant(12, i32)
    assert emitter.index(IndexExpr.const(1 << 40)).type == i64


# ---- loops


def block_of(value: SSAValue) -> Block:
    owner = value.owner
    if isinstance(owner, Block):
        return owner
    assert isinstance(owner.parent, Block)
    return owner.parent


def test_each_part_stands_in_the_outermost_loop_that_knows_it() -> None:
    emitter, block = fresh()
    a, _, _ = variables(emitter, block)
    with emitter.loop("it", block.args[2], bound=100) as (it, outer), emitter.loop("i", 4, unroll=True) as (i, inner):
        total = emitter.index(a * 64 + it * 1024 + i * 8 + 3)
        early = emitter.index(a % 7)
        again = emitter.index(a * 64 + it * 1024)
    assert "unroll" in inner.attributes
    assert "unroll" not in outer.attributes
    assert inner.body.block.args[0].name_hint == "i"
    assert block_of(total) is inner.body.block
    assert block_of(again) is outer.body.block
    assert block_of(early) is block
    # a * 64 before the loop; it * 1024 and its sum in the outer one; i * 8 and two sums in the inner one.
    counts = [len([o for o in b.ops if o.name in ("arith.muli", "arith.addi")]) for b in (block, outer.body.block)]
    assert counts == [1, 2]
    assert [op.name for op in inner.body.block.ops] == ["arith.muli", "arith.addi", "arith.addi", "scf.yield"]
    module_of(block, [])


def test_what_is_known_in_a_loop_is_not_known_after_it() -> None:
    emitter, block = fresh()
    a, _, _ = variables(emitter, block)
    with emitter.loop("i", 4) as (i, first):
        one = emitter.index(a + i)
    with emitter.loop("i", 4) as (j, second):
        two = emitter.index(a + j)
    assert block_of(one) is first.body.block
    assert block_of(two) is second.body.block
    module_of(block, [])


def test_operations_stand_before_the_loop_that_is_open() -> None:
    """What moves out goes before the loop at hand, behind everything that came before."""
    emitter, block = fresh()
    a, b, _ = variables(emitter, block)
    with emitter.loop("i", 4):
        emitter.index(a + b)
    with emitter.loop("j", 4):
        emitter.index(a * 3)
    names = [op.name for op in block.ops if not isinstance(op, arith.ConstantOp)]
    assert names == ["arith.addi", "scf.for", "arith.muli", "scf.for"]


def test_a_loop_that_carries_values() -> None:
    emitter, block = fresh()
    one = emitter.constant(1, i32)
    with emitter.loop("i", 10, carried=[one]) as (i, loop):
        total = emitter.value(arith.AddiOp(loop.body.block.args[1], emitter.index(i)))
        emitter.yield_(total)
    values = {n: np.zeros(1) for n in RANGES}
    (got,) = evaluate(block, [loop.results[0]], values)
    assert got == 46


def test_a_branch_runs_where_its_condition_holds() -> None:
    emitter, block = fresh()
    a, b, _ = variables(emitter, block)
    condition = emitter.all_of([(a, 0, 5)])
    assert condition is not None
    with emitter.condition(condition):
        inside = emitter.index(a * 2 + b)
        emitter.insert(arith.MuliOp(inside, inside))
    (branch,) = [op for op in block.ops if isinstance(op, scf.IfOp)]
    assert [op.name for op in branch.true_region.block.ops] == ["arith.muli", "scf.yield"]
    module_of(block, [])


# ---- conditions


@given(st.integers(-5, 70), st.integers(-5, 70))
def test_conditions(lo: int, hi: int) -> None:
    emitter, block = fresh()
    a, _, _ = variables(emitter, block)
    condition = emitter.all_of([(a, lo, hi)])
    values = np.arange(64)
    expected = (values >= lo) & (values < hi)
    if condition is None:
        assert expected.all()
        return
    assert not (lo <= 0 and hi > 63)
    (got,) = evaluate(block, [condition], {"a": values, "b": values % 4, "c": values})
    np.testing.assert_array_equal(got, expected)


def test_a_condition_is_compared_once_and_outside_of_loops() -> None:
    emitter, block = fresh()
    a, b, _ = variables(emitter, block)
    with emitter.loop("i", 4) as (i, loop):
        first = emitter.all_of([(a, 0, 50), (b, 0, 4), (a * 2 + i, 0, 100)])
        second = emitter.all_of([(a * 2 + i, 0, 100), (a, 0, 50)])
    assert first is not None
    assert second is not None
    assert len([op for op in block.ops if isinstance(op, arith.CmpiOp)]) == 1
    assert len([op for op in loop.body.block.ops if isinstance(op, arith.CmpiOp)]) == 1


def test_both() -> None:
    emitter, block = fresh()
    a, b, _ = variables(emitter, block)
    x, y = emitter.all_of([(a, 0, 5)]), emitter.all_of([(b, 0, 2)])
    assert emitter.both() is None
    assert emitter.both(None, x, None) is x
    assert emitter.both(x, y) is emitter.both(x, None, y)
    values = {"a": np.arange(64) % 9, "b": np.arange(64) % 4, "c": np.arange(64)}
    both = emitter.both(x, y)
    assert both is not None
    (got,) = evaluate(block, [both], values)
    np.testing.assert_array_equal(got, (values["a"] < 5) & (values["b"] < 2))


def test_locations_and_names() -> None:
    from xpaged.ir.parsing import parse

    source = next(iter(parse("func.func @f() { return }", "k.mlir").ops))
    emitter, block = fresh()
    a, b, _ = variables(emitter, block)
    emitter.location = source.location
    emitter.name(a // 16, "group")
    group = emitter.index(a // 16)
    total = emitter.index(a // 16 * 4 + b, hint="key")
    assert (group.name_hint, total.name_hint) == ("group", "key")
    ops: list[Operation] = [op for op in block.ops if not isinstance(op, arith.ConstantOp)]
    assert ops
    assert all(op.location == source.location for op in ops)


@pytest.mark.parametrize("count", [1, 5])
def test_a_loop_variable_of_one_trip_is_the_constant_zero(count: int) -> None:
    emitter, block = fresh()
    with emitter.loop("i", count) as (i, _):
        assert (i == IndexExpr.const(0)) == (count == 1)
    assert all(x.lo <= y.lo for x, y in pairwise([i, i + 1]))
    module_of(block, [])
