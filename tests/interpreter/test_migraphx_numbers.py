"""MIGraphX conversions, unsigned integers, quantized and packed numbers: exact tables, at both graph levels."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from graphs import Array, function, run, shaped
from hypothesis import given
from hypothesis import strategies as st

from xpaged.ir.levels import Level

LEVELS = (Level.MIGRAPHX, Level.TOSA)


def dtype(element: str) -> np.dtype[Any]:
    """The storage of elements of a type given as text."""
    if element == "i1":
        return np.dtype(np.bool_)
    if element == "bf16":
        return np.dtype(ml_dtypes.bfloat16)
    kind, bits = element.rstrip("0123456789"), int(element.lstrip("sufi"))
    return np.dtype({"f": "f", "ui": "u", "i": "i", "si": "i"}[kind] + str(bits // 8))


def check(text: str, wanted: list[Any], *values: Array) -> None:
    """Both levels give just `wanted`, in the bits of the result's type."""
    for level in LEVELS:
        found = run(text, *values, level=level).reshape(-1)
        bits = found.view(f"u{found.itemsize}") if found.dtype.kind in "iu" else found
        expected = np.array(wanted)
        if found.dtype.kind in "iu":
            expected = np.array([int(x) & (1 << 8 * found.itemsize) - 1 for x in wanted], bits.dtype)
        np.testing.assert_array_equal(bits, expected, err_msg=level.value)


NAN, INF = float("nan"), float("inf")
CONVERSIONS = [
    ("f32", "si32", [-1.5, 1.5, 2.9, NAN, INF, -3e9], [-1, 1, 2, 0, 2**31 - 1, -(2**31)]),
    ("f32", "i8", [-1.9, 127.9, 128.0, -128.9, -129.0, 0.99], [-1, 127, 127, -128, -128, 0]),
    ("f16", "si8", [0.5, -0.5, 300.0, -300.0], [0, 0, 127, -128]),
    ("f32", "ui8", [-1.5, -0.5, 254.9, 255.9, 300.0, NAN, INF], [0, 0, 254, 255, 255, 0, 255]),
    ("f32", "ui32", [-1.0, 3e9, 5e9], [0, 3000000000, 2**32 - 1]),
    ("f32", "si64", [-2.5, 2.0**62, 1e30, -1e30], [-2, 2**62, 2**63 - 1, -(2**63)]),
    ("f32", "i1", [0.0, -0.0, 0.5, NAN, -3.0], [0, 0, 1, 1, 1]),
    ("ui8", "f32", [0, 127, 128, 255], [0, 127, 128, 255]),
    ("si8", "f32", [0, 127, -128, -1], [0, 127, -128, -1]),
    ("ui8", "si32", [128, 255], [128, 255]),
    ("ui8", "ui32", [128, 255], [128, 255]),
    ("si8", "ui32", [-1, 1], [2**32 - 1, 1]),
    ("si8", "ui8", [-1, -128], [255, 128]),
    ("ui8", "si8", [255, 128], [-1, -128]),
    ("ui32", "ui8", [256, 511], [0, 255]),
    ("si32", "i8", [300, -129], [44, 127]),
    ("ui64", "f32", [2**63, 2**64 - 1], [2.0**63, 2.0**64]),
    ("si32", "i1", [0, -5, 2], [0, 1, 1]),
    ("ui8", "i1", [0, 255], [0, 1]),
    ("f16", "f32", [1.5, NAN], [1.5, NAN]),
    ("f32", "bf16", [1.00390625, 1.01171875], [1.0, 1.015625]),
    ("f32", "f16", [70000.0, 2.0**-25], [INF, 0.0]),
]


@pytest.mark.parametrize(
    ("source", "target", "values", "wanted"), CONVERSIONS, ids=[f"{c[0]}-{c[1]}" for c in CONVERSIONS]
)
def test_convert(source: str, target: str, values: list[Any], wanted: list[Any]):
    types = shaped([len(values)], target), shaped([len(values)], source)
    check(function(f"convert %a : {types[1]}", *types, arrow="to"), wanted, np.array(values).astype(dtype(source)))


U, V = np.array([0, 1, 127, 128, 200, 255], np.uint8), np.array([255, 1, 128, 127, 3, 7], np.uint8)
UNSIGNED = [
    ("greater", U > V),
    ("equal", U == V),
    ("max", np.maximum(U, V)),
    ("min", np.minimum(U, V)),
    ("add", U + V),
    ("sub", U - V),
    ("mul", U * V),
    ("div", U // V),
]


@pytest.mark.parametrize(("name", "wanted"), UNSIGNED, ids=[u[0] for u in UNSIGNED])
def test_unsigned_binary(name: str, wanted: Array):
    T = shaped([6], "ui8")
    check(function(f"{name} %a, %b : {T}, {T}", T, T, T), wanted.tolist(), U, V)


def test_unsigned_unary_and_reductions():
    T = shaped([6], "ui8")
    check(function(f"abs %a : {T}", T, T), U.tolist(), U)
    check(function(f"relu %a : {T}", T, T), U.tolist(), U)
    check(function(f"neg %a : {T}", T, T), (-U.astype(int)).tolist(), U)
    check(
        function(f"clip %a, %b, %c : {T}, {T}, {T}", T, T, T, T), [3, 3, 127, 128, 200, 201], U, U * 0 + 3, U * 0 + 201
    )
    check(function(f"reduce_max %a {{axes = [0]}} : {T}", shaped([1], "ui8"), T), [255], U)
    check(function(f"reduce_sum %a {{axes = [0]}} : {T}", shaped([1], "ui8"), T), [int(U.sum()) % 256], U)


def test_signed_division_and_shared_bits():
    T = shaped([4], "si32")
    x, y = np.array([-7, 7, -8, 2**31 - 1], np.int32), np.array([2, -2, 3, -1], np.int32)
    check(function(f"div %a, %b : {T}, {T}", T, T, T), [-3, -3, -2, -(2**31 - 1)], x, y)


@given(st.sampled_from(["i1", "si8", "ui8", "si16", "ui16", "si32", "ui32", "f16", "bf16", "f32"]), st.data())
def test_conversions_agree_at_both_levels(target: str, data: st.DataObject):
    source = data.draw(st.sampled_from(["si8", "ui8", "si16", "ui16", "si32", "ui32", "f16", "bf16", "f32"]))
    kind = dtype(source)
    bits = data.draw(st.lists(st.integers(0, 256**kind.itemsize - 1), min_size=1, max_size=6))
    values = np.array(bits, f"u{kind.itemsize}").view(kind)
    types = shaped([len(bits)], target), shaped([len(bits)], source)
    text = function(f"convert %a : {types[1]}", *types, arrow="to")
    found = [run(text, values, level=level) for level in LEVELS]
    assert found[0].dtype.itemsize == found[1].dtype.itemsize
    np.testing.assert_array_equal(found[0].view(f"u{found[0].itemsize}"), found[1].view(f"u{found[1].itemsize}"))


QUANTIZED = [
    # x, scale, bias, result type, result
    (
        [1.0, -INF, INF, NAN, 0.0, -1.0, 127.0, -128.0, 12.1, 12.4],
        0.5,
        2,
        "si8",
        [4, -128, 127, 2, 2, 0, 127, -128, 26, 27],
    ),
    ([0.5, 1.5, 2.5, -0.5, -1.5], 1.0, None, "si8", [0, 2, 2, 0, -2]),
    ([-1.0, 3.0, 300.0], 1.0, 5, "ui8", [4, 8, 255]),
    ([-1.0, 3.0, 300.0], 1.0, None, "ui8", [0, 3, 255]),
    ([1e12, -1e12, 7.0], 1.0, None, "si32", [2**31 - 1, -(2**31), 7]),
    ([1e12, -1e12, 7.0, 2147483000.0], 1.0, 1000, "si32", [2**31 - 1, -(2**31), 1007, 2**31 - 1]),
    ([-5.0, 4e9, 5e9], 1.0, None, "ui32", [0, 4000000000, 2**32 - 1]),
]


@pytest.mark.parametrize(("x", "scale", "bias", "target", "wanted"), QUANTIZED)
def test_quantizelinear(x: list[float], scale: float, bias: int | None, target: str, wanted: list[int]):
    X, S, Z, R = shaped([len(x)], "f32"), shaped([1], "f32"), shaped([1], target), shaped([len(x)], target)
    values = [np.array(x, np.float32), np.array([scale], np.float32)]
    operands, types = "%a, %b", [X, S]
    if bias is not None:
        operands, types = "%a, %b, %c", [X, S, Z]
        values.append(np.array([bias], dtype(target)))
    check(function(f"quantizelinear {operands} : {', '.join(types)}", R, *types), wanted, *values)


DEQUANTIZED = [
    ([-128, 0, 127], 0.5, None, "si8", "f32", [-64.0, 0.0, 63.5]),
    ([-128, 0, 127], 0.5, -128, "si8", "f32", [0.0, 64.0, 127.5]),
    ([0, 128, 255], 2.0, 128, "ui8", "f16", [-256.0, 0.0, 254.0]),
    ([1000000, -70000], 2.0**-10, None, "si32", "f16", [976.5, -68.375]),  # neither fits f16 before the scale
    ([3, 5], 1.0, None, "si8", "bf16", [3.0, 5.0]),
]


@pytest.mark.parametrize(("x", "scale", "bias", "source", "target", "wanted"), DEQUANTIZED)
def test_dequantizelinear(x: list[int], scale: float, bias: int | None, source: str, target: str, wanted: list[float]):
    X, S, Z, R = shaped([len(x)], source), shaped([1], target), shaped([1], source), shaped([len(x)], target)
    values = [np.array(x, dtype(source)), np.array([scale], np.float32).astype(dtype(target))]
    operands, types = "%a, %b", [X, S]
    if bias is not None:
        operands, types = "%a, %b, %c", [X, S, Z]
        values.append(np.array([bias], dtype(source)))
    check(function(f"dequantizelinear {operands} : {', '.join(types)}", R, *types), wanted, *values)


def test_quantized_there_and_back():
    x = np.random.default_rng(5).standard_normal(64).astype(np.float32)
    T, S, I = shaped([64], "f32"), shaped([1], "f32"), shaped([64], "si8")  # noqa: E741
    scale, text = np.array([1 / 32], np.float32), function(f"quantizelinear %a, %b : {T}, {S}", I, T, S)
    for level in LEVELS:
        quantized = run(text, x, scale, level=level)
        back = run(function(f"dequantizelinear %a, %b : {I}, {S}", T, I, S), quantized, scale, level=level)
        assert float(np.abs(back - np.clip(x, -4, 127 / 32)).max()) <= 1 / 64


@pytest.mark.parametrize(
    ("element", "wanted"), [("ui8", [15, 8, 1, 2, 0, 7]), ("i8", [-1, -8, 1, 2, 0, 7]), ("si8", [-1, -8, 1, 2, 0, 7])]
)
def test_unpack(element: str, wanted: list[int]):
    bytes = np.array([0x8F, 0x21, 0x70], np.uint8).view(dtype(element))
    types = shaped([6], element), shaped([3], element)
    check(function(f"unpack %a {{axis = 0 : i64}} : {types[1]}", *types), wanted, bytes)
    types = shaped([2, 3], element), shaped([1, 3], element)
    low_high = np.array(wanted).reshape(3, 2).T.reshape(-1)
    check(function(f"unpack %a {{axis = 0 : i64}} : {types[1]}", *types), low_high.tolist(), bytes[None])


def test_quant_dot_is_exact():
    a = np.full((2, 3, 300), -128, np.int8)
    b = np.random.default_rng(1).integers(-128, 128, (2, 300, 2)).astype(np.int8)
    types = shaped((2, 3, 2), "i32"), shaped(a.shape, "i8"), shaped(b.shape, "i8")
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    check(function(f"quant_dot %a, %b : {types[1]}, {types[2]}", *types), wanted.reshape(-1).tolist(), a, b)


def test_pad_and_flatten():
    x = np.arange(6, dtype=np.float16).reshape(1, 2, 3)
    T = shaped(x.shape, "f16")
    text = function(
        f"pad %a {{mode = 0 : i32, pads = [1, 0, 2, 0, 1, 0], value = -1.5 : f32}} : {T}", shaped((2, 3, 5), "f16"), T
    )
    check(text, np.pad(x, ((1, 0), (0, 1), (2, 0)), constant_values=-1.5).reshape(-1).tolist(), x)
    text = function(f"pad %a {{mode = 0 : i32, pads = [0, 0, 0, 0, 0, 0], value = 0.0 : f32}} : {T}", T, T)
    check(text, x.reshape(-1).tolist(), x)
    check(function(f"flatten %a {{axis = 2 : i64}} : {T}", shaped((2, 3), "f16"), T), x.reshape(-1).tolist(), x)


def test_booleans_are_bytes_or_bits():
    """A truth value is any byte but 0 to `where`; i1 works, too, where a type allows it."""
    T, C = shaped([4], "f32"), shaped([4], "i8")
    x, y, c = np.arange(4, dtype=np.float32), -np.ones(4, np.float32), np.array([0, 1, -1, 2], np.int8)
    check(function(f"where %a, %b, %c : {C}, {T}, {T}", T, C, T, T), [-1.0, 1.0, 2.0, 3.0], c, x, y)
    B, W = shaped([1], "i1"), shaped([2, 3], "i1")
    text = function(f"multibroadcast %a {{out_lens = [2, 3]}} : {B}", W, B)
    for level in LEVELS:
        assert run(text, np.array([True]), level=level).all()


def test_boundary_operations_leave_values_alone():
    text = """
    func.func @f(%a: !migraphx.shaped<2x3xf32, 1x2>) -> !migraphx.shaped<2x3xf32, 1x2> {
      %0 = migraphx.mlir.as.logical.shape %a : <2x3xf32, 1x2> to tensor<2x3xf32>
      %1 = migraphx.mlir.as.underlying.shape %0 : tensor<2x3xf32> to <2x3xf32, 1x2>
      return %1 : !migraphx.shaped<2x3xf32, 1x2>
    }"""
    x = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(run(text, x, level=Level.TOSA), x)
    np.testing.assert_array_equal(run(text, x.reshape(2, 3)), x.reshape(2, 3))


@pytest.mark.parametrize("element", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    "name", ["exp", "tanh", "sigmoid", "abs", "neg", "relu", "ceil", "floor", "recip", "erf", "rsqrt", "sqrt", "log"]
)
def test_special_values_are_the_same_at_both_levels(name: str, element: str):
    x = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0], np.float32).astype(dtype(element))
    T = shaped([6], element)
    found = [run(function(f"{name} %a : {T}", T, T), x, level=level).astype(np.float32) for level in LEVELS]
    np.testing.assert_array_equal(found[0], found[1])


def test_a_scalar_function():
    text = function("add %a, %b : <f32>, <f32>", "<f32>", "<f32>", "<f32>")
    assert run(text, np.array(2, np.float32), np.array(3, np.float32)).shape == ()
    np.testing.assert_array_equal(
        run(text, np.array([2], np.float32), np.array([3], np.float32), level=Level.TOSA), [5]
    )
