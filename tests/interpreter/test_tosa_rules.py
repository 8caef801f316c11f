"""TOSA operations on arrays: each against NumPy in float64, rounded once to the type that the graph gives it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xpaged.errors import XpagedError
from xpaged.interpreter import tensors
from xpaged.interpreter.evaluator import Machine, Program
from xpaged.interpreter.memory import Memory, MemoryFault
from xpaged.ir.parsing import parse

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(7)


def run(arguments: str, body: str, result: str, *values: Array, exact: bool = False, memory: Memory | None = None):
    """The result `%r` of a function."""
    module = parse(f"func.func @f({arguments}) -> {result} {{\n{body}\nreturn %r : {result}\n}}")
    (value,) = Program(module, exact=exact).call(Machine(memory, exact=exact), "f", values)
    return value


F16 = np.float16
X = (rng.standard_normal((2, 3)) * 2).astype(F16)
Y = rng.standard_normal((1, 3)).astype(F16)
POSITIVE = np.abs(X) + F16(0.5)
UNARY: list[tuple[str, Callable[..., Any], Array]] = [
    ("abs", np.abs, X),
    ("ceil", np.ceil, X),
    ("floor", np.floor, X),
    ("exp", np.exp, X),
    ("log", np.log, POSITIVE),
    ("reciprocal", np.reciprocal, POSITIVE),
    ("rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), X),
    ("tanh", np.tanh, X),
    ("negate", np.negative, X),
    ("identity", lambda x: x, X),
]
BINARY: list[tuple[str, Callable[..., Any]]] = [
    ("add", np.add),
    ("sub", np.subtract),
    ("mul", np.multiply),
    ("maximum", np.maximum),
    ("minimum", np.minimum),
]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("name", "fn", "x"), UNARY, ids=[u[0] for u in UNARY])
def test_unary(name: str, fn: Callable[..., Any], x: Array, exact: bool):
    body = f"%r = tosa.{name} %x : (tensor<2x3xf16>) -> tensor<2x3xf16>"
    found = run("%x: tensor<2x3xf16>", body, "tensor<2x3xf16>", x, exact=exact)
    wanted = fn(x.astype(np.float64))
    if exact:
        assert found.dtype == (F16 if name == "identity" else np.float64)
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
    else:
        assert found.dtype == F16
        np.testing.assert_array_equal(found, wanted.astype(F16))


@pytest.mark.parametrize(("name", "fn"), BINARY, ids=[b[0] for b in BINARY])
def test_binary(name: str, fn: Callable[..., Any]):
    body = f"%r = tosa.{name} %x, %y : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>"
    found = run("%x: tensor<2x3xf16>, %y: tensor<1x3xf16>", body, "tensor<2x3xf16>", X, Y)
    np.testing.assert_array_equal(found, fn(X.astype(np.float64), Y.astype(np.float64)).astype(F16))


def test_erf_and_pow():
    erf = "%r = tosa.erf %x : (tensor<2xf32>) -> tensor<2xf32>"
    found = run("%x: tensor<2xf32>", erf, "tensor<2xf32>", np.array([0.5, -3], np.float32))
    np.testing.assert_allclose(found, [0.5204998778, -0.9999779095], rtol=1e-6)
    body = "%r = tosa.pow %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"
    np.testing.assert_array_equal(
        run("%x: tensor<2xf32>", body, "tensor<2xf32>", np.array([2, 3], np.float32)), [4, 27]
    )


def test_nan_modes():
    x, y = np.array([np.nan, 1], np.float32), np.array([2, np.nan], np.float32)
    for name, ignored in (("maximum", [2, 1]), ("minimum", [2, 1])):
        for mode, wanted in (("IGNORE", ignored), ("PROPAGATE", [np.nan, np.nan])):
            body = f"%r = tosa.{name} %x, %y {{nan_mode = #tosa.nan_mode<{mode}>}} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>"  # noqa: E501
            found = run("%x: tensor<2xf32>, %y: tensor<2xf32>", body, "tensor<2xf32>", x, y)
            np.testing.assert_array_equal(found, wanted)
    for name, ignored in (("reduce_max", 1.0), ("reduce_min", 1.0)):
        for mode, wanted in (("IGNORE", ignored), ("PROPAGATE", np.nan)):
            body = f"%r = tosa.{name} %x {{axis = 0 : i32, nan_mode = #tosa.nan_mode<{mode}>}} : (tensor<2xf32>) -> tensor<1xf32>"  # noqa: E501
            np.testing.assert_array_equal(run("%x: tensor<2xf32>", body, "tensor<1xf32>", x), [wanted])


def test_compare_select_and_truth():
    body = """
      %g = tosa.greater %x, %y : (tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<2x3xi1>
      %e = tosa.greater_equal %x, %y : (tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<2x3xi1>
      %q = tosa.equal %x, %y : (tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<2x3xi1>
      %o = tosa.logical_or %g, %q : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
      %s = tosa.equal %o, %e : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
      %n = tosa.logical_not %g : (tensor<2x3xi1>) -> tensor<2x3xi1>
      %a = tosa.logical_and %s, %n : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
      %r = tosa.select %a, %x, %y : (tensor<2x3xi1>, tensor<2x3xi32>, tensor<1x3xi32>) -> tensor<2x3xi32>"""
    x, y = np.array([[1, -5, 3], [9, 0, -1]], np.int32), np.array([[0, -5, 4]], np.int32)
    found = run("%x: tensor<2x3xi32>, %y: tensor<1x3xi32>", body, "tensor<2x3xi32>", x, y)
    np.testing.assert_array_equal(found, np.where(x <= y, x, y))


@pytest.mark.parametrize(
    ("source", "target", "values", "wanted"),
    [
        ("f32", "i32", [0.5, 1.5, -2.5, 2.6], [0, 2, -2, 3]),
        ("i32", "i8", [300, -1, 128, 0], [44, -1, -128, 0]),
        ("i1", "i32", [True, False, True, False], [1, 0, 1, 0]),
        ("i8", "i1", [1, 0, -1, 2], [True, False, True, True]),
        ("i32", "f32", [1, -7, 0, 5], [1, -7, 0, 5]),
        ("f32", "f16", [1 + 2**-11, 70000, 2**-25, -0.0], [1, np.inf, 0, -0.0]),
        ("f16", "f32", [1, 2, 3, 4], [1, 2, 3, 4]),
    ],
)
def test_cast(source: str, target: str, values: list[Any], wanted: list[Any]):
    types = {"f32": np.float32, "f16": F16, "i32": np.int32, "i8": np.int8, "i1": np.bool_}
    body = f"%r = tosa.cast %x : (tensor<4x{source}>) -> tensor<4x{target}>"
    found = run(f"%x: tensor<4x{source}>", body, f"tensor<4x{target}>", np.array(values, types[source]))
    assert found.dtype == types[target]
    np.testing.assert_array_equal(found, np.array(wanted, types[target]))


def test_integers_wrap_and_divide_toward_zero():
    x = np.array([2**31 - 1, -7], np.int32)
    body = "%r = tosa.add %x, %x : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>"
    np.testing.assert_array_equal(run("%x: tensor<2xi32>", body, "tensor<2xi32>", x), [-2, -14])
    body = "%r = tosa.intdiv %x, %y : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>"
    found = run("%x: tensor<2xi32>, %y: tensor<2xi32>", body, "tensor<2xi32>", x, np.array([2, 2], np.int32))
    np.testing.assert_array_equal(found, [2**30 - 1, -3])


def test_views():
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    body = """
      %shape = tosa.const_shape {values = dense<[4, 6]> : tensor<2xindex>} : () -> !tosa.shape<2>
      %two = tosa.const_shape {values = dense<[2, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
      %t = tosa.transpose %x {perms = array<i32: 2, 0, 1>} : (tensor<2x3x4xi32>) -> tensor<4x2x3xi32>
      %a = tosa.reshape %t, %shape : (tensor<4x2x3xi32>, !tosa.shape<2>) -> tensor<4x6xi32>
      %s = tosa.slice %a {start = array<i64: 1, 2>, size = array<i64: 2, 3>} : (tensor<4x6xi32>) -> tensor<2x3xi32>
      %m = tosa.tile %s, %two : (tensor<2x3xi32>, !tosa.shape<2>) -> tensor<4x3xi32>
      %c = tosa.concat %m, %m {axis = 1 : i32} : (tensor<4x3xi32>, tensor<4x3xi32>) -> tensor<4x6xi32>
      %e = tensor.expand_shape %c [[0, 1], [2]] output_shape [2, 2, 6] : tensor<4x6xi32> into tensor<2x2x6xi32>
      %o = tensor.collapse_shape %e [[0], [1, 2]] : tensor<2x2x6xi32> into tensor<2x12xi32>
      %r = tensor.extract_slice %o[0, 3] [2, 4] [1, 2] : tensor<2x12xi32> to tensor<2x4xi32>"""
    found = run("%x: tensor<2x3x4xi32>", body, "tensor<2x4xi32>", x)
    s = x.transpose(2, 0, 1).reshape(4, 6)[1:3, 2:5]
    wide = np.tile(np.tile(s, (2, 1)), (1, 2)).reshape(2, 12)
    np.testing.assert_array_equal(found, wide[:, 3:11:2])


@pytest.mark.parametrize("shape", [(3, 5), (300, 700)])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions(shape: tuple[int, int], axis: int):
    x = rng.standard_normal(shape).astype(F16)
    source, target = "x".join(map(str, shape)), "x".join(str(1 if i == axis else n) for i, n in enumerate(shape))
    for name, fn in (("sum", np.sum), ("max", np.max), ("min", np.min)):
        body = f"%r = tosa.reduce_{name} %x {{axis = {axis} : i32}} : (tensor<{source}xf16>) -> tensor<{target}xf16>"
        found = run(f"%x: tensor<{source}xf16>", body, f"tensor<{target}xf16>", x)
        wanted = fn(x.astype(np.float32), axis=axis, keepdims=True)
        np.testing.assert_allclose(found.astype(np.float64), wanted.astype(F16).astype(np.float64), rtol=2**-10, atol=0)


@pytest.mark.parametrize("exact", [False, True])
def test_matmul(exact: bool):
    x, y = rng.standard_normal((3, 2, 5)).astype(F16), rng.standard_normal((3, 5, 4)).astype(F16)
    body = "%r = tosa.matmul %x, %y : (tensor<3x2x5xf16>, tensor<3x5x4xf16>) -> tensor<3x2x4xf16>"
    found = run("%x: tensor<3x2x5xf16>, %y: tensor<3x5x4xf16>", body, "tensor<3x2x4xf16>", x, y, exact=exact)
    wanted = x.astype(np.float64) @ y.astype(np.float64)
    np.testing.assert_allclose(found, wanted if exact else wanted.astype(F16), rtol=1e-14 if exact else 2**-10)
    a, c = np.full((1, 1, 2), 127, np.int8), np.full((1, 2, 1), 127, np.int8)
    body = "%r = tosa.matmul %x, %y : (tensor<1x1x2xi8>, tensor<1x2x1xi8>) -> tensor<1x1x1xi32>"
    found = run("%x: tensor<1x1x2xi8>, %y: tensor<1x2x1xi8>", body, "tensor<1x1x1xi32>", a, c)
    np.testing.assert_array_equal(found, [[[2 * 127 * 127]]])


def test_broadcast_constants_stay_views():
    body = """
      %one = "tosa.const"() <{values = dense<1> : tensor<1x64x8192x4096xi32>}> : () -> tensor<1x64x8192x4096xi32>
      %zero = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
      %r = tosa.mul %x, %one, %zero : (tensor<1x1x1x4096xi32>, tensor<1x64x8192x4096xi32>, tensor<1xi8>) -> tensor<1x64x8192x4096xi32>"""  # noqa: E501
    x = np.arange(4096, dtype=np.int32).reshape(1, 1, 1, 4096)
    found = run("%x: tensor<1x1x1x4096xi32>", body, "tensor<1x64x8192x4096xi32>", x)
    assert found.strides[:3] == (0, 0, 0)
    np.testing.assert_array_equal(found[0, 63, 8191], x[0, 0, 0])


DEREF = """%r = tosa.custom %x {domain_name = "rocmlir", implementation_attrs = "", operator_name = "deref"}
    : (tensor<1x2x4xi64>) -> tensor<1x2x4xf16>"""


@pytest.mark.parametrize("exact", [False, True])
def test_deref(exact: bool):
    memory = Memory()
    pages = [memory.allocate(8, name=f"page {i}", dtype=np.dtype(F16)).base for i in range(2)]
    for i, base in enumerate(pages):
        memory.write_array(base, np.arange(4, dtype=F16) + F16(10 * i))
    addresses = np.array(pages)[[1, 0]][None, :, None] + 2 * np.arange(4)
    found = run("%x: tensor<1x2x4xi64>", DEREF, "tensor<1x2x4xf16>", addresses, exact=exact, memory=memory)
    np.testing.assert_array_equal(found, [[[10, 11, 12, 13], [0, 1, 2, 3]]])
    assert found.dtype == (np.float64 if exact else F16)
    with pytest.raises(MemoryFault, match=r"tosa.custom|outside|mapped"):
        run("%x: tensor<1x2x4xi64>", DEREF, "tensor<1x2x4xf16>", addresses + 2, memory=memory)


def test_bounds_and_shifts():
    x = np.array([-128, -3, 5, 127], np.int8)
    type = "tensor<4xi8>"
    for op, wanted in (
        ("tosa.clamp %x {min_val = 0 : i8, max_val = 5 : i8}", [0, 0, 5, 5]),
        (
            "tosa.clamp %x {min_int = -3 : i64, max_int = 6 : i64, min_fp = 0.0 : f32, max_fp = 0.0 : f32}",
            [-3, -3, 5, 6],
        ),
    ):
        np.testing.assert_array_equal(run(f"%x: {type}", f"%r = {op} : ({type}) -> {type}", type, x), wanted)
    for op, wanted in (
        ("logical_left_shift", [0, -12, 20, -4]),
        ("logical_right_shift", [32, 63, 1, 31]),
        ("arithmetic_right_shift", [-32, -1, 1, 31]),
    ):
        round = " {round = false}" if op.startswith("arith") else ""
        body = f"%r = tosa.{op} %x, %y{round} : ({type}, {type}) -> {type}"
        found = run(f"%x: {type}, %y: {type}", body, type, x, np.full(4, 2, np.int8))
        np.testing.assert_array_equal(found, wanted)


def test_clamp_and_nan():
    x = np.array([np.nan, -9, 9], np.float32)
    for mode, wanted in (("", [np.nan, -1, 2]), (", nan_mode = #tosa.nan_mode<IGNORE>", [-1, -1, 2])):
        body = (
            f"%r = tosa.clamp %x {{min_val = -1.0 : f32, max_val = 2.0 : f32{mode}}} : (tensor<3xf32>) -> tensor<3xf32>"
        )
        np.testing.assert_array_equal(run("%x: tensor<3xf32>", body, "tensor<3xf32>", x), wanted)


def test_pad():
    x = np.arange(6, dtype=F16).reshape(2, 3)
    body = """
      %c = "tosa.const"() <{values = dense<-1.0> : tensor<1xf16>}> : () -> tensor<1xf16>
      %p = tosa.const_shape {values = dense<[1, 0, 0, 2]> : tensor<4xindex>} : () -> !tosa.shape<4>
      %r = tosa.pad %x, %p, %c : (tensor<2x3xf16>, !tosa.shape<4>, tensor<1xf16>) -> tensor<3x5xf16>"""
    wanted = np.pad(x, ((1, 0), (0, 2)), constant_values=-1)
    np.testing.assert_array_equal(run("%x: tensor<2x3xf16>", body, "tensor<3x5xf16>", x), wanted)


def test_unknown_custom_operator():
    body = DEREF.replace('"deref"', '"conv_bwd_data"')
    with pytest.raises(XpagedError, match="no rule for the custom operator 'conv_bwd_data'"):
        run("%x: tensor<1x2x4xi64>", body, "tensor<1x2x4xf16>", np.zeros((1, 2, 4), np.int64))


def test_narrowing_is_that_of_numpy():
    every = np.arange(1 << 16, dtype=np.uint16).view(F16).astype(np.float32)
    finite = every[np.isfinite(every)]
    with np.errstate(all="ignore"):
        between = (finite[:-1] + finite[1:]) / 2
        bits = rng.integers(0, 1 << 32, 1 << 18, dtype=np.uint64).astype(np.uint32).view(np.float32)
        near = [between, np.nextafter(between, np.float32(0)), np.nextafter(between, np.float32(np.inf))]
        values = np.concatenate([every, *near, bits, np.array([65519.99, 65520, -65520, 1e30], np.float32)])
        wanted, found = values.astype(F16), tensors.narrow(values, np.dtype(F16))
    nan = np.isnan(wanted)
    np.testing.assert_array_equal(nan, np.isnan(found))
    np.testing.assert_array_equal(wanted.view(np.uint16)[~nan], found.view(np.uint16)[~nan])


@given(st.lists(st.integers(1, 400), min_size=1, max_size=4), st.data())
def test_blocks_cover_once(shape: list[int], data: st.DataObject):
    whole = data.draw(st.sets(st.integers(0, len(shape) - 1)))
    shape = [min(n, 40) if len(shape) > 2 else n for n in shape]
    count = np.zeros(shape, np.uint8)
    for block in tensors.blocks(shape, list(whole)):
        count[block] += 1
        assert all(block[d].start == 0 and block[d].stop >= shape[d] for d in whole)
    assert (count == 1).all()
