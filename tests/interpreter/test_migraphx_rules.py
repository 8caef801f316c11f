"""MIGraphX operations on arrays, and after migraphx-to-tosa the same numbers from the TOSA that they become."""

from typing import Any

import numpy as np
import pytest
from graphs import Array, function, run, shaped

from xpaged.errors import XpagedError
from xpaged.interpreter.memory import Memory, MemoryFault
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.passes.pipelines import lower

rng = np.random.default_rng(3)
F16 = np.float16


A, B = rng.standard_normal((2, 3, 4)).astype(F16), rng.standard_normal((1, 3, 4)).astype(F16)
P = np.abs(A) + F16(0.5)
I, J = rng.integers(-9, 9, (2, 3, 4)).astype(np.int32), rng.integers(1, 9, (1, 3, 4)).astype(np.int32)  # noqa: E741
C = rng.integers(0, 2, (2, 3, 4)).astype(np.int8)
F, G, S, T = shaped((2, 3, 4), "f16"), shaped((1, 3, 4), "f16"), shaped((2, 3, 4), "si32"), shaped((1, 3, 4), "si32")
K, M = shaped((2, 3, 4), "si8"), shaped((2, 4, 5), "f16")


def w(x: Array) -> Array:
    return x.astype(np.float64)


CASES: list[tuple[str, str, Any, tuple[Array, ...]]] = [
    (function(f"add %a, %b : {F}, {G}", F, F, G), "add", w(A) + w(B), (A, B)),
    (function(f"sub %a, %b : {F}, {G}", F, F, G), "sub", w(A) - w(B), (A, B)),
    (function(f"mul %a, %b : {F}, {G}", F, F, G), "mul", w(A) * w(B), (A, B)),
    (function(f"div %a, %b : {F}, {F}", F, F, F), "div", w(A) / w(P), (A, P)),
    (function(f"div %a, %b : {S}, {T}", S, S, T), "intdiv", np.trunc(I / J), (I, J)),
    (function(f"pow %a, %b : {F}, {F}", F, F, F), "pow", w(P) ** w(A), (P, A)),
    (function(f"max %a, %b : {F}, {G}", F, F, G), "max", np.maximum(A, B), (A, B)),
    (function(f"min %a, %b : {S}, {T}", S, S, T), "min", np.minimum(I, J), (I, J)),
    (function(f"equal %a, %b : {S}, {T}", S, S, T), "equal", I == J, (I, J)),
    (function(f"greater %a, %b : {S}, {T}", S, S, T), "greater", I > J, (I, J)),
    (function(f"greater %a, %b : {F}, {G}", F, F, G), "greaterf", A > B, (A, B)),
    (
        function(f"clip %a, %b, %c : {S}, {T}, {T}", S, S, T, T),
        "clip",
        np.minimum(np.maximum(I, -J), J),
        (I, -J, J),
    ),
    (function(f"where %a, %b, %c : {K}, {F}, {F}", F, K, F, F), "where", np.where(C != 0, A, P), (C, A, P)),
    *(
        (function(f"{name} %a : {F}", F, F), name, fn(w(x)), (x,))
        for name, fn, x in (
            ("abs", np.abs, A),
            ("neg", np.negative, A),
            ("relu", lambda x: np.maximum(x, 0), A),
            ("ceil", np.ceil, A),
            ("floor", np.floor, A),
            ("exp", np.exp, A),
            ("log", np.log, P),
            ("recip", np.reciprocal, P),
            ("rsqrt", lambda x: x**-0.5, P),
            ("sigmoid", lambda x: 1 / (1 + np.exp(-x)), A),
            ("sqrt", np.sqrt, P),
            ("tanh", np.tanh, A),
        )
    ),
    (function(f"convert %a : {F}", shaped((2, 3, 4), "f32"), F).replace("->", "to").replace(") to", ") ->"), "convert", A, (A,)),  # noqa: E501
    (function(f"transpose %a {{permutation = [2, 0, 1]}} : {F}", shaped((4, 2, 3), "f16"), F), "transpose", A.transpose(2, 0, 1), (A,)),  # noqa: E501
    (function(f"reshape %a {{dims = [6, -1]}} : {F}", shaped((6, 4), "f16"), F), "reshape", A.reshape(6, 4), (A,)),
    (
        function(f"slice %a {{axes = [2, 0], ends = [3, 2], starts = [1, 1]}} : {F}", shaped((1, 3, 2), "f16"), F),
        "slice",
        A[1:2, :, 1:3],
        (A,),
    ),
    (
        function(
            f"broadcast %a {{axis = 1 : i64, out_lens = [5, 2, 3, 4, 2]}} : {F}", shaped((5, 2, 3, 4, 2), "f16"), F
        ),
        "broadcast",
        np.broadcast_to(A[None, ..., None], (5, 2, 3, 4, 2)),
        (A,),
    ),
    (
        function(f"multibroadcast %a {{out_lens = [5, 2, 3, 4]}} : {G}", shaped((5, 2, 3, 4), "f16"), G),
        "multibroadcast",
        np.broadcast_to(B, (5, 2, 3, 4)),
        (B,),
    ),
    (
        function(f"softmax %a {{axis = -2 : i64}} : {F}", F, F),
        "softmax",
        np.exp(w(A)) / np.exp(w(A)).sum(axis=1, keepdims=True),
        (A,),
    ),
    (function(f"reduce_max %a {{axes = [0, 2]}} : {F}", shaped((1, 3, 1), "f16"), F), "reduce_max", A.max((0, 2), keepdims=True), (A,)),  # noqa: E501
    (function(f"reduce_sum %a {{axes = [-1]}} : {F}", shaped((2, 3, 1), "f16"), F), "reduce_sum", w(A).sum(2, keepdims=True), (A,)),  # noqa: E501
    (function(f"reduce_mean %a {{axes = [1]}} : {F}", shaped((2, 1, 4), "f16"), F), "reduce_mean", w(A).mean(1, keepdims=True), (A,)),  # noqa: E501
    (
        function(f"dot %a, %b : {F}, {M}", shaped((2, 3, 5), "f16"), F, M),
        "dot",
        w(A) @ np.arange(40).reshape(2, 4, 5),
        (A, np.arange(40).reshape(2, 4, 5).astype(F16)),
    ),
    *(
        (
            function(f"dot %a, %b : {F}, {shaped(s, 'f16')}", shaped((2, 3, 5), "f16"), F, shaped(s, "f16")),
            f"dot of {s}",
            w(A) @ np.arange(20).reshape(4, 5),
            (A, np.arange(20).reshape(s).astype(F16)),
        )
        for s in ((4, 5), (1, 4, 5))
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted", "values"), [(c[0], c[2], c[3]) for c in CASES], ids=[c[1] for c in CASES])
def test_operation(text: str, wanted: Any, values: tuple[Array, ...]):
    wanted = np.asarray(wanted, np.float64)
    found = run(text, *values)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=2**-9, atol=2**-10)
    np.testing.assert_allclose(run(text, *values, exact=True), wanted, rtol=1e-12)
    flat = run(text, *values, level=Level.TOSA)
    np.testing.assert_allclose(flat.astype(np.float64), wanted.reshape(-1), rtol=2**-8, atol=2**-9)
    np.testing.assert_allclose(run(text, *values, exact=True, level=Level.TOSA), wanted.reshape(-1), rtol=1e-12)


def test_erf():
    text = function("erf %a : <2xf32, 1>", "<2xf32, 1>", "<2xf32, 1>")
    found = run(text, np.array([0.5, -3], np.float32))
    np.testing.assert_allclose(found, [0.5204998778, -0.9999779095], rtol=1e-6)


def test_conversion_to_integer_is_toward_zero():
    text = function("convert %a : <3xf32, 1>", "<3xsi32, 1>", "<3xf32, 1>").replace("f32, 1> ->", "f32, 1> to")
    found = run(text, np.array([-1.5, 1.5, 2.9], np.float32))
    np.testing.assert_array_equal(found, [-1, 1, 2])


def test_literals():
    text = """
    func.func @f() -> !migraphx.shaped<2x2xf16, 2x1> {
      %0 = migraphx.literal(dense<0xFC00> : tensor<1xf16>) : <2x2xf16, 0x0>
      %1 = migraphx.literal(dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf16>) : <2x2xf16, 2x1>
      %2 = migraphx.literal(dense<[[0, 1], [1, 0]]> : tensor<2x2xsi8>) : <2x2xsi8, 2x1>
      %3 = migraphx.where %2, %0, %1 : <2x2xsi8, 2x1>, <2x2xf16, 0x0>, <2x2xf16, 2x1> -> <2x2xf16, 2x1>
      return %3 : !migraphx.shaped<2x2xf16, 2x1>
    }"""
    wanted = np.array([[1, -np.inf], [-np.inf, 4]])
    np.testing.assert_array_equal(run(text), wanted)
    np.testing.assert_array_equal(run(text, level=Level.TOSA), wanted.reshape(-1))


def test_deref_reads_the_addresses():
    memory = Memory()
    base = memory.allocate(16, name="page", dtype=np.dtype(F16)).base
    memory.write_array(base, np.arange(8, dtype=F16))
    text = function("deref %a : <1x2x2xui64, 4x2x1>", "<1x2x2xf16, 4x2x1>", "<1x2x2xui64, 4x2x1>")
    addresses = np.array([[[base + 6, base], [base + 2, base + 14]]])
    np.testing.assert_array_equal(run(text, addresses, memory=memory), [[[3, 0], [1, 7]]])
    np.testing.assert_array_equal(run(text, addresses, memory=memory, level=Level.TOSA), [3, 0, 1, 7])
    with pytest.raises(MemoryFault):
        run(text, addresses + 100, memory=memory)


def test_arguments_lie_as_their_strides_say():
    text = """
    func.func @f(%a: !migraphx.shaped<4x3x5xf32, 1x0x6>) -> !migraphx.shaped<3x4x5xf32, 5x15x1> {
      %0 = migraphx.transpose %a {permutation = [1, 0, 2]} : <4x3x5xf32, 1x0x6> -> <3x4x5xf32, 5x15x1>
      return %0 : !migraphx.shaped<3x4x5xf32, 5x15x1>
    }"""
    flat = np.arange(30, dtype=np.float32)
    found = run(text, flat, level=Level.TOSA)
    logical = np.broadcast_to(flat.reshape(5, 6, 1).transpose(1, 2, 0)[:4], (4, 3, 5)).transpose(1, 0, 2)
    np.testing.assert_array_equal(found, logical.transpose(1, 0, 2).reshape(-1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (function("sigmoid %a : <4x24xf16, 24x1>", "<4x24xf16, 0x1>", "<4x24xf16, 24x1>"), "broadcast"),
        (function("sigmoid %a : <4x24xf16, 24x1>", "<4x24xf16, 48x1>", "<4x24xf16, 24x1>"), "slice of a larger"),
        (
            "func.func @f(%a: !migraphx.shaped<?xf16, 1>) -> !migraphx.shaped<?xf16, 1> {\n"
            "  return %a : !migraphx.shaped<?xf16, 1>\n}",
            "dynamic shape",
        ),
        (
            "func.func private @g(f32) -> f32\nfunc.func @f(%a: f32) -> f32 {\n  %0 = func.call @g(%a) : (f32) -> f32\n"
            "  return %0 : f32\n}",
            "'func.call' cannot be converted",
        ),
    ],
)
def test_refused_by_the_conversion(text: str, message: str):
    module = parse(text)
    with pytest.raises(XpagedError, match=message):
        lower(module, Level.TOSA) if "migraphx" in text else _convert(module)


def _convert(module: Any) -> None:
    from xpaged.pipeline import Pipeline

    Pipeline("migraphx-to-tosa").apply(module)
