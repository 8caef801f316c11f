"""The evaluator: slots, masks, control flow, and what errors say."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpaged.errors import XpagedError
from xpaged.interpreter.evaluator import Machine, Program
from xpaged.interpreter.memory import Memory, MemoryFault
from xpaged.interpreter.views import MemRef
from xpaged.ir.parsing import parse

LANES = 8


@cache
def program(text: str, exact: bool) -> Program:
    return Program(parse(text), exact=exact)


def run(text: str, *values: Any, lanes: int = LANES, memory: Memory | None = None, exact: bool = False) -> Any:
    """The results of `@f` on one workgroup of `lanes` lanes."""
    machine = Machine(memory, lanes_per_group=lanes, exact=exact)
    return program(text, exact).call(machine, "f", values)


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


SUM = """func.func @f(%n: index, %x: f32) -> f32 {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> (f32) {
    %s = arith.addf %acc, %x : f32
    scf.yield %s : f32
  }
  return %r : f32
}"""


def test_a_loop_with_uniform_bounds() -> None:
    (result,) = run(SUM, np.array([5]), np.arange(8, dtype=np.float32))
    np.testing.assert_array_equal(result, np.arange(8) * 5)


@given(st.lists(st.integers(-1, 6), min_size=LANES, max_size=LANES))
def test_a_loop_whose_bound_differs_between_lanes(counts: list[int]) -> None:
    (result,) = run(SUM, np.array(counts), np.ones(LANES, np.float32))
    np.testing.assert_array_equal(np.broadcast_to(result, LANES), np.maximum(counts, 0))


IF = """func.func @f(%c: i1, %a: i32, %b: i32) -> i32 {
  %r = scf.if %c -> (i32) {
    %s = arith.addi %a, %b : i32
    scf.yield %s : i32
  } else {
    %d = arith.subi %a, %b : i32
    scf.yield %d : i32
  }
  return %r : i32
}"""


@given(st.lists(st.booleans(), min_size=LANES, max_size=LANES))
def test_an_if_whose_condition_differs_between_lanes(taken: list[bool]) -> None:
    a, b = np.arange(LANES, dtype=np.int32), ints(100)
    (result,) = run(IF, np.array(taken), a, b)
    np.testing.assert_array_equal(result, np.where(taken, a + b, a - b))


NESTED = """func.func @f(%out: memref<64xi32>, %lane: index, %n: index, %m: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %n step %c1 {
    scf.for %j = %c0 to %m step %c1 {
      %even = arith.remui %j, %c8 : index
      %small = arith.cmpi slt, %j, %i : index
      scf.if %small {
        %base = arith.muli %lane, %c8 : index
        %at = arith.addi %base, %j : index
        %old = memref.load %out[%at] : memref<64xi32>
        %one = arith.constant 1 : i32
        %new = arith.addi %old, %one : i32
        memref.store %new, %out[%at] : memref<64xi32>
      }
    }
  }
  return
}"""


@given(
    st.lists(st.integers(0, 5), min_size=LANES, max_size=LANES),
    st.lists(st.integers(0, 7), min_size=LANES, max_size=LANES),
)
def test_nested_masks_guard_memory(outer: list[int], inner: list[int]) -> None:
    memory = Memory()
    base = memory.allocate(256, name="out").base
    out = MemRef.dense(base, np.dtype(np.int32), (64,))
    run(NESTED, out, np.arange(LANES), np.array(outer), np.array(inner), memory=memory)
    expected = np.zeros((LANES, 8), np.int32)
    for lane in range(LANES):
        for i in range(outer[lane]):
            for j in range(min(i, inner[lane])):
                expected[lane, j] += 1
    np.testing.assert_array_equal(memory.read_array(base, out.dtype, 64).reshape(LANES, 8), expected)


WHILE = """func.func @f(%n: i32) -> (i32, i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %steps, %last = scf.while (%x = %n, %k = %zero) : (i32, i32) -> (i32, i32) {
    %more = arith.cmpi sgt, %x, %one : i32
    scf.condition(%more) %k, %x : i32, i32
  } do {
  ^bb0(%k: i32, %x: i32):
    %odd = arith.andi %x, %one : i32
    %next = arith.divsi %x, %two : i32
    %sum = arith.addi %next, %odd : i32
    %k1 = arith.addi %k, %one : i32
    scf.yield %sum, %k1 : i32, i32
  }
  return %steps, %last : i32, i32
}"""


@given(st.lists(st.integers(-3, 1000), min_size=LANES, max_size=LANES))
def test_a_while_loop_ends_for_each_lane_by_itself(values: list[int]) -> None:
    steps, last = run(WHILE, np.array(values, np.int32))
    for lane, x in enumerate(values):
        count = 0
        while x > 1:
            x, count = x // 2 + x % 2, count + 1
        assert (np.broadcast_to(steps, LANES)[lane], np.broadcast_to(last, LANES)[lane]) == (count, x)


def test_values_outlive_slots_that_are_reused() -> None:
    text = """func.func @f(%a: i32) -> (i32, i32, i32) {
      %b = arith.addi %a, %a : i32
      %c = arith.addi %b, %a : i32
      %d = arith.addi %c, %c : i32
      %e = arith.subi %d, %b : i32
      %f = arith.addi %e, %e : i32
      return %a, %f, %c : i32, i32, i32
    }"""
    assert [int(x[0]) for x in run(text, ints(3))] == [3, 24, 9]


def test_uniform_values_stay_uniform() -> None:
    text = """func.func @f(%a: i32, %b: i32) -> (i32, i32) {
      %c = arith.constant 2 : i32
      %u = arith.muli %a, %c : i32
      %v = arith.addi %u, %b : i32
      return %u, %v : i32, i32
    }"""
    u, v = run(text, ints(4), np.arange(LANES, dtype=np.int32))
    assert u.shape == (1,)
    assert v.shape == (LANES,)


def test_calls() -> None:
    text = """func.func @g(%a: i32) -> (i32, i32) {
      %b = arith.addi %a, %a : i32
      return %a, %b : i32, i32
    }
    func.func @f(%a: i32) -> i32 {
      %x, %y = func.call @g(%a) : (i32) -> (i32, i32)
      %z = arith.addi %x, %y : i32
      return %z : i32
    }"""
    assert int(run(text, ints(5))[0][0]) == 15


def test_counts_lane_operations_of_active_lanes() -> None:
    text = """func.func @f(%c: i1, %a: i32) {
      scf.if %c {
        %b = arith.addi %a, %a : i32
        %d = arith.addi %b, %a : i32
      }
      return
    }"""
    machine = Machine(lanes_per_group=LANES)
    Program(parse(text)).call(machine, "f", [np.arange(LANES) < 3, ints(1)])
    assert machine.ops == 3
    assert machine.lane_ops == LANES + 2 * 3


def test_a_fault_names_operation_address_and_place() -> None:
    text = """func.func @f(%a: memref<4xf32>, %i: index) -> f32 {
      %x = memref.load %a[%i] : memref<4xf32>
      return %x : f32
    }"""
    memory = Memory()
    base = memory.allocate(16, name="a", dtype=np.dtype(np.float32)).base
    with pytest.raises(MemoryFault) as caught:
        run(text, MemRef.dense(base, np.dtype(np.float32), (4,)), np.array([4]), memory=memory)
    message = str(caught.value)
    assert message.startswith("<input>:2:")
    assert "memref.load" in message
    assert f"{base + 16:#x}" in message


def test_an_operation_without_a_rule_is_refused_by_name() -> None:
    text = """func.func @f(%a: memref<4xf32>) {
      %p, %o, %s, %t = memref.extract_strided_metadata %a : memref<4xf32> -> memref<f32>, index, index, index
      return
    }"""
    with pytest.raises(XpagedError, match=r"no rule for 'memref\.extract_strided_metadata'"):
        run(text, None)
    with pytest.raises(XpagedError, match="no function 'f'"):
        run("func.func @g() {\n return\n}")


def test_a_step_that_is_not_positive_is_refused() -> None:
    text = """func.func @f(%s: index) {
      %c0 = arith.constant 0 : index
      scf.for %i = %c0 to %s step %c0 {
      }
      return
    }"""
    with pytest.raises(XpagedError, match="step of a loop must be positive"):
        run(text, np.array([4]))


def test_exact_evaluation_neither_rounds_nor_widens_constants() -> None:
    text = """func.func @f(%x: f32) -> f32 {
      %third = arith.constant 0.333333 : f16
      %narrow = arith.truncf %x : f32 to f16
      %y = arith.mulf %narrow, %third : f16
      %z = arith.extf %y : f16 to f32
      return %z : f32
    }"""
    x = np.array([1 / 3])
    (exact,) = run(text, x, exact=True)
    (rounded,) = run(text, x.astype(np.float32))
    assert exact.dtype == np.float64
    assert exact[0] == x[0] * float(np.float16(0.333333))
    assert rounded[0] == np.float32(np.float16(x[0]) * np.float16(0.333333))


def _select(values: Sequence[int]) -> Any:
    return np.array(values, np.int64)


def test_index_switch() -> None:
    text = """func.func @f(%i: index) -> i32 {
      %r = scf.index_switch %i -> i32
      case 2 {
        %a = arith.constant 20 : i32
        scf.yield %a : i32
      }
      default {
        %b = arith.constant 7 : i32
        scf.yield %b : i32
      }
      return %r : i32
    }"""
    assert int(run(text, _select([2]))[0][0]) == 20
    assert int(run(text, _select([3]))[0][0]) == 7
    with pytest.raises(XpagedError, match="differs between lanes"):
        run(text, _select(range(LANES)))
