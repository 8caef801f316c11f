"""arith, math and vector: MLIR's meaning against Python's own integers and NumPy's float64."""

import math
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpaged.interpreter.evaluator import Machine, Program
from xpaged.interpreter.numerics import narrow, round_to, round_unit_to_half, widen
from xpaged.ir.parsing import parse

I32 = st.integers(-(2**31), 2**31 - 1)


@cache
def program(text: str) -> Program:
    return Program(parse(text))


def run(body: str, args: str, result: str, *values: Any) -> Any:
    text = f"func.func @f({args}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"
    lanes = max(v.shape[0] for v in values) if values else 1
    return program(text).call(Machine(lanes_per_group=lanes), "f", values)[0]


def wrap(x: int) -> int:
    return (x + 2**31) % 2**32 - 2**31


def u(x: int) -> int:
    return x % 2**32


INTEGER = {
    "addi": lambda x, y: wrap(x + y),
    "subi": lambda x, y: wrap(x - y),
    "muli": lambda x, y: wrap(x * y),
    "divsi": lambda x, y: wrap(int(math.copysign(abs(x) // abs(y), x * y))) if y else None,
    "divui": lambda x, y: wrap(u(x) // u(y)) if y else None,
    "floordivsi": lambda x, y: wrap(x // y) if y else None,
    "ceildivsi": lambda x, y: wrap(-(-x // y)) if y else None,
    "ceildivui": lambda x, y: wrap(-(-u(x) // u(y))) if y else None,
    "remsi": lambda x, y: wrap(int(math.fmod(x, y))) if y else None,
    "remui": lambda x, y: wrap(u(x) % u(y)) if y else None,
    "minsi": min,
    "maxsi": max,
    "minui": lambda x, y: wrap(min(u(x), u(y))),
    "maxui": lambda x, y: wrap(max(u(x), u(y))),
    "andi": lambda x, y: x & y,
    "ori": lambda x, y: x | y,
    "xori": lambda x, y: x ^ y,
}


@pytest.mark.parametrize("name", INTEGER)
@given(pairs=st.lists(st.tuples(I32, I32 | st.integers(-3, 3)), min_size=1, max_size=16))
def test_integer_operations_wrap(name: str, pairs: list[tuple[int, int]]) -> None:
    x, y = (np.array(column, np.int32) for column in zip(*pairs, strict=True))
    found = run(f"%r = arith.{name} %x, %y : i32", "%x: i32, %y: i32", "i32", x, y)
    assert found.dtype == np.int32
    for got, (a, b) in zip(found, pairs, strict=True):
        expected = INTEGER[name](a, b)
        overflow = name in ("divsi", "floordivsi", "ceildivsi", "remsi") and (a, b) == (-(2**31), -1)
        assert expected is None or overflow or int(got) == expected


@pytest.mark.parametrize(
    ("name", "fn"),
    [
        ("shli", lambda x, s: wrap(x << s)),
        ("shrsi", lambda x, s: x >> s),
        ("shrui", lambda x, s: wrap(u(x) >> s)),
    ],
)
@given(x=I32, shift=st.integers(0, 31))
def test_shifts(name: str, fn: Any, x: int, shift: int) -> None:
    arrays = np.array([x], np.int32), np.array([shift], np.int32)
    assert int(run(f"%r = arith.{name} %x, %y : i32", "%x: i32, %y: i32", "i32", *arrays)[0]) == fn(x, shift)


SIGNED = {"eq": "==", "ne": "!=", "slt": "<", "sle": "<=", "sgt": ">", "sge": ">="}


@given(x=I32, y=I32)
def test_integer_comparisons(x: int, y: int) -> None:
    values = np.array([x], np.int32), np.array([y], np.int32)
    for name, sign in SIGNED.items():
        got = run(f"%r = arith.cmpi {name}, %x, %y : i32", "%x: i32, %y: i32", "i1", *values)
        assert bool(got[0]) == eval(f"{x} {sign} {y}")
        if name not in ("eq", "ne"):
            got = run(f"%r = arith.cmpi u{name[1:]}, %x, %y : i32", "%x: i32, %y: i32", "i1", *values)
            assert bool(got[0]) == eval(f"{u(x)} {sign} {u(y)}")


@pytest.mark.parametrize("ordered", [True, False])
def test_float_comparisons_know_nan(ordered: bool) -> None:
    x = np.array([1, 2, 2, np.nan], np.float32)
    y = np.array([2, 1, 2, 1], np.float32)
    for name, expected in {
        "eq": [0, 0, 1],
        "gt": [0, 1, 0],
        "ge": [0, 1, 1],
        "lt": [1, 0, 0],
        "le": [1, 0, 1],
        "ne": [1, 1, 0],
    }.items():
        got = run(f"%r = arith.cmpf {'o' if ordered else 'u'}{name}, %x, %y : f32", "%x: f32, %y: f32", "i1", x, y)
        assert got.tolist() == [bool(e) for e in expected] + [not ordered]


def test_maximum_and_maxnum_differ_on_nan() -> None:
    x, y = np.array([np.nan, 1], np.float32), np.array([2, np.nan], np.float32)
    args = "%x: f32, %y: f32"
    assert np.isnan(run("%r = arith.maximumf %x, %y : f32", args, "f32", x, y)).all()
    assert run("%r = arith.maxnumf %x, %y : f32", args, "f32", x, y).tolist() == [2, 1]


def test_conversions() -> None:
    x = np.array([-1, 255, 300], np.int32)
    assert run("%r = arith.trunci %x : i32 to i8", "%x: i32", "i8", x).tolist() == [-1, -1, 44]
    assert run("%r = arith.extui %x : i8 to i32", "%x: i8", "i32", x.astype(np.int8)).tolist() == [255, 255, 44]
    assert run("%r = arith.extsi %x : i1 to i32", "%x: i1", "i32", np.array([True, False])).tolist() == [-1, 0]
    assert run("%r = arith.uitofp %x : i8 to f32", "%x: i8", "f32", np.array([-1], np.int8)).tolist() == [255]
    assert run("%r = arith.sitofp %x : i32 to f16", "%x: i32", "f16", np.array([2049], np.int32)).tolist() == [2048]
    assert run("%r = arith.fptosi %x : f32 to i32", "%x: f32", "i32", np.array([-1.9], np.float32)).tolist() == [-1]
    bits = run("%r = arith.bitcast %x : f32 to i32", "%x: f32", "i32", np.array([1.0], np.float32))
    assert bits.tolist() == [0x3F800000]


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "erf", "absf", "floor", "roundeven"])
def test_math_in_f32_and_f16(name: str) -> None:
    x = np.linspace(0.1, 4, 50).astype(np.float16)
    exact = {
        "rsqrt": lambda v: 1 / np.sqrt(v),
        "erf": lambda v: np.array([math.erf(float(e)) for e in v]),
        "absf": np.abs,
        "roundeven": np.rint,
    }
    expected = exact.get(name, getattr(np, name, None))(x.astype(np.float64))  # pyright: ignore[reportOptionalCall]
    wide = run(f"%r = math.{name} %x : f32", "%x: f32", "f32", x.astype(np.float32))
    narrow = run(f"%r = math.{name} %x : f16", "%x: f16", "f16", x)
    assert (wide.dtype, narrow.dtype) == (np.float32, np.float16)
    np.testing.assert_allclose(wide, expected, rtol=3e-7)
    np.testing.assert_allclose(narrow.astype(np.float64), expected, rtol=2**-11 * 1.01)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=20))
def test_erf_to_float64(values: list[float]) -> None:
    from xpaged.interpreter.rules.math import erf

    expected = [math.erf(v) for v in values]
    np.testing.assert_allclose(erf(np.array(values)), expected, rtol=1e-13, atol=1e-300)


def test_fma_rounds_once() -> None:
    x = np.array([1 + 2.0**-12], np.float32)
    got = run("%r = math.fma %x, %x, %y : f32", "%x: f32, %y: f32", "f32", x, np.array([-1], np.float32))
    assert got[0] == np.float32(float(x[0]) ** 2 - 1)
    assert got[0] != x[0] * x[0] - np.float32(1)


def test_vectors() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    args = "%x: vector<4xf32>, %s: f32, %i: index"
    values = x, np.array([10, 20], np.float32), np.array([3, 0])
    assert run("%r = vector.extract %x[2] : f32 from vector<4xf32>", args, "f32", *values).tolist() == [2, 6]
    assert run("%r = vector.extract %x[%i] : f32 from vector<4xf32>", args, "f32", *values).tolist() == [3, 4]
    got = run("%r = vector.insert %s, %x[1] : f32 into vector<4xf32>", args, "vector<4xf32>", *values)
    assert got.tolist() == [[0, 10, 2, 3], [4, 20, 6, 7]]
    got = run("%r = vector.broadcast %s : f32 to vector<4xf32>", args, "vector<4xf32>", *values)
    assert got.tolist() == [[10] * 4, [20] * 4]
    got = run("%r = vector.reduction <add>, %x : vector<4xf32> into f32", args, "f32", *values)
    assert got.tolist() == [6, 22]
    got = run("%r = vector.shuffle %x, %x [3, 4, 0] : vector<4xf32>, vector<4xf32>", args, "vector<3xf32>", *values)
    assert got.tolist() == [[3, 0, 0], [7, 4, 4]]


def every_half() -> Any:
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def test_widening_is_exact_for_every_half() -> None:
    np.testing.assert_array_equal(widen(every_half()), every_half().astype(np.float32))


def test_rounding_to_half_in_float32_is_the_conversion() -> None:
    halves = every_half()
    unit = np.sort(halves[(halves >= 0) & (halves <= 1)].astype(np.float64))
    middles = (unit[:-1] + unit[1:]) / 2
    near = np.concatenate([np.nextafter(middles.astype(np.float32), d) for d in (np.float32(0), np.float32(1))])
    values = np.concatenate([unit, middles, near, np.random.default_rng(0).random(100000)]).astype(np.float32)
    np.testing.assert_array_equal(round_unit_to_half(values), values.astype(np.float16).astype(np.float32))


@np.errstate(all="ignore")
def test_narrowing_to_half_is_the_conversion() -> None:
    values = np.concatenate([every_half().astype(np.float32) * np.float32(f) for f in (1, 1.0004882, 0.9997, 0.5, 0.3)])
    expected = values.astype(np.float16)
    few = np.concatenate([narrow(part, expected.dtype) for part in np.array_split(values, 64)])
    for found in (narrow(values, expected.dtype), few):
        nan = np.isnan(expected)
        assert (np.isnan(found) == nan).all()
        assert found[~nan].tobytes() == expected[~nan].tobytes()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_round_to(dtype: Any) -> None:
    values = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    np.testing.assert_array_equal(round_to(values, np.dtype(dtype)), values.astype(dtype).astype(np.float32))
