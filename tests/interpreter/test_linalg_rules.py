"""linalg.generic on tensors and memrefs, against NumPy."""

from typing import Any

import numpy as np
import pytest

from xpaged.errors import XpagedError
from xpaged.interpreter.evaluator import Machine, Program
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.views import MemRef
from xpaged.ir.parsing import parse
from xpaged.testing.bounds import Bounded

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Y = np.array([10.0, 20.0, 30.0], np.float32)


def generic(maps: str, kinds: str, body: str, ins: str = "2x3xf32", other: str = "3xf32", out: str = "2x3xf32") -> str:
    maps = ", ".join(f"affine_map<{m}>" for m in maps.split("; "))
    kinds = ", ".join(f'"{k}"' for k in kinds.split())
    return f"""func.func @f(%x: tensor<{ins}>, %y: tensor<{other}>, %z: tensor<{out}>) -> tensor<{out}> {{
      %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
        ins(%x, %y : tensor<{ins}>, tensor<{other}>) outs(%z : tensor<{out}>) {{
      ^bb0(%a: f32, %b: f32, %c: f32):
        {body}
      }} -> tensor<{out}>
      return %r : tensor<{out}>
    }}"""


def run(text: str, *values: Any, exact: bool = False) -> Any:
    return Program(parse(text), exact=exact).call(Machine(exact=exact), "f", values)[0]


ADD = "%s = arith.addf %a, %b : f32\nlinalg.yield %s : f32"


def test_broadcasts_and_permutations() -> None:
    text = generic("(i, j) -> (i, j); (i, j) -> (j); (i, j) -> (i, j)", "parallel parallel", ADD)
    np.testing.assert_array_equal(run(text, X, Y, np.zeros((2, 3), np.float32)), X + Y)
    text = generic(
        "(i, j) -> (j, i); (i, j) -> (i); (i, j) -> (i, j)", "parallel parallel", ADD, "2x3xf32", "3xf32", "3x2xf32"
    )
    np.testing.assert_array_equal(run(text, X, Y, np.zeros((3, 2), np.float32)), X.T + Y[:, None])


def test_constant_and_computed_coordinates() -> None:
    text = generic("(i, j) -> (i, 0); (i, j) -> (2 - j); (i, j) -> (j, i)", "parallel parallel", ADD, out="3x2xf32")
    expected = (X[:, :1] + Y[::-1][None]).T
    np.testing.assert_array_equal(run(text, X, Y, np.zeros((3, 2), np.float32)), expected)


def test_reductions() -> None:
    body = "%s = arith.addf %a, %c : f32\nlinalg.yield %s : f32"
    text = generic("(i, j) -> (i, j); (i, j) -> (j); (i, j) -> (i)", "parallel reduction", body, out="2xf32")
    np.testing.assert_array_equal(run(text, X, Y, np.ones(2, np.float32)), X.sum(axis=1) + 1)


def test_indices() -> None:
    body = """%i = linalg.index 0 : index
        %j = linalg.index 1 : index
        %k = arith.muli %i, %j : index
        %l = arith.index_cast %k : index to i32
        %s = arith.sitofp %l : i32 to f32
        linalg.yield %s : f32"""
    text = generic("(i, j) -> (i, j); (i, j) -> (j); (i, j) -> (i, j)", "parallel parallel", body)
    np.testing.assert_array_equal(run(text, X, Y, X), [[0, 0, 0], [0, 1, 2]])


def test_values_that_follow_their_errors() -> None:
    text = generic("(i, j) -> (i, j); (i, j) -> (j); (i, j) -> (i, j)", "parallel parallel", ADD)
    result = run(text, Bounded(X, 0.5), Y.astype(np.float64), np.zeros((2, 3)), exact=True)
    np.testing.assert_array_equal(result.value, X + Y)
    assert (result.error >= 0.5).all()
    assert (result.error < 0.5 + 1e-5).all()


def test_memrefs() -> None:
    text = """func.func @f(%x: memref<2x3xf16>, %z: memref<3x2xf16>) {
      linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j, i)>],
          iterator_types = ["parallel", "parallel"]} ins(%x : memref<2x3xf16>) outs(%z : memref<3x2xf16>) {
      ^bb0(%a: f16, %c: f16):
        %s = arith.addf %a, %a : f16
        linalg.yield %s : f16
      }
      return
    }"""
    memory = Memory()
    values = X.astype(np.float16)
    refs = [MemRef.dense(memory.allocate(12, name=n).base, values.dtype, s) for n, s in (("x", (2, 3)), ("z", (3, 2)))]
    memory.write_array(int(refs[0].base[0]), values)
    Program(parse(text)).call(Machine(memory), "f", refs)
    np.testing.assert_array_equal(refs[1].read_all(memory), 2 * values.T)


def test_an_output_that_is_not_indexed_by_the_parallel_dimensions_is_refused() -> None:
    text = generic("(i, j) -> (i, j); (i, j) -> (j); (i, j) -> (i)", "parallel parallel", ADD, out="2xf32")
    with pytest.raises(XpagedError, match="indexed by all parallel dimensions"):
        run(text, X, Y, np.zeros(2, np.float32))
