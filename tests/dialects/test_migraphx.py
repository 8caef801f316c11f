"""MIGraphX operations: every one round-trips; every rule of a verifier refuses with the offending values."""

from pathlib import Path

import pytest

from xpaged.dialects.migraphx import MIGraphX
from xpaged.errors import XpagedError
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module

OPS = (Path(__file__).parents[2] / "filecheck/dialects/migraphx/ops.mlir").read_text()


def test_every_operation_round_trips():
    module = parse(OPS)
    text = print_module(module)
    assert print_module(parse(text)) == text
    assert print_module(parse(print_module(module, generic=True))) == text
    used = {op.name for op in module.walk()}
    assert used >= {op.name for op in MIGraphX.operations}


A = "%a: !migraphx.shaped<2x3xf16, 3x1>"
I = "%a: !migraphx.shaped<2x3xsi32, 3x1>"  # noqa: E741
U = "%a: !migraphx.shaped<1x2x8xui64, 16x8x1>"
SHORT = "<2x3xf16, 3x1>"
BAD = [
    (A, "migraphx.literal(dense<[1.0, 2.0, 3.0]> : tensor<3xf32>) : <2x3xf32, 3x1>", "matches the literal's logical"),
    (A, "migraphx.literal(dense<[1.0, 2.0]> : tensor<2xf32>) : <2xf32, 2>", "strides of non-splat literal"),
    (A, "migraphx.literal(dense<1> : tensor<1xsi32>) : <2xf32, 1>", "elements of si32 do not fit"),
    (A, "migraphx.literal(dense<1> : tensor<1xsi32>) : <?xsi32, 1>", "dynamic shapes are not supported"),
    (A, f"migraphx.add %a, %a : {SHORT}, {SHORT} -> <2x3xf32, 3x1>", r"same element type.*output: f32"),
    (I, "migraphx.equal %a, %a : <2x3xsi32, 3x1>, <2x3xsi32, 3x1> -> <2x3xsi8, 3x1>", "same element type"),
    (A, f"migraphx.add %a, %a : {SHORT}, {SHORT} -> <2x4xf16, 4x1>", r"\[2, 3\] does not broadcast to .*\[2, 4\]"),
    (A, f"migraphx.add %a, %a : {SHORT}, {SHORT} -> <6xf16, 1>", "does not broadcast"),
    (A, f"migraphx.where %a, %a, %a : {SHORT}, {SHORT}, {SHORT} -> {SHORT}", "cond must have 8-bit integer"),
    (A, f"migraphx.clip %a, %a, %a : {SHORT}, {SHORT}, {SHORT} -> <2x3xf32, 3x1>", "same element type"),
    (A, f"migraphx.convert %a : {SHORT} to <3x2xf32, 2x1>", r"shape \[3, 2\], expected \[2, 3\]"),
    (A, f"migraphx.neg %a : {SHORT} -> <3x2xf16, 2x1>", r"shape \[3, 2\], expected \[2, 3\]"),
    (I, "migraphx.exp %a : <2x3xsi32, 3x1> -> <2x3xsi32, 3x1>", "expected float elements"),
    (A, f"migraphx.transpose %a {{permutation = [0, 0]}} : {SHORT} -> {SHORT}", "is no permutation"),
    (A, f"migraphx.transpose %a {{permutation = [1, 0]}} : {SHORT} -> {SHORT}", r"\[2, 3\], expected \[3, 2\]"),
    (A, f"migraphx.reshape %a {{dims = [6, 1]}} : {SHORT} -> {SHORT}", "dim 6 inconsistent with result dimension 2"),
    (A, f"migraphx.reshape %a {{dims = [1, 2, 3]}} : {SHORT} -> {SHORT}", r"dims \(3\) .* result rank \(2\)"),
    (A, f"migraphx.reshape %a {{dims = [-1, -1]}} : {SHORT} -> <6x1xf16, 1x1>", "at most one"),
    (A, f"migraphx.reshape %a {{dims = [0, -1]}} : {SHORT} -> <6x1xf16, 1x1>", "cannot mix"),
    (A, f"migraphx.reshape %a {{dims = [-2, 6]}} : {SHORT} -> <1x6xf16, 6x1>", "negative and not -1"),
    (A, f"migraphx.reshape %a {{dims = [3, 5]}} : {SHORT} -> <3x5xf16, 5x1>", "do not match: 6 and 15"),
    (A, f"migraphx.reshape %a {{dims = [6]}} : {SHORT} -> <6xf32, 1>", "same element type"),
    (
        "%a: !migraphx.shaped<?x3xf16, 3x1>",
        "migraphx.reshape %a {dims = [6]} : <?x3xf16, 3x1> -> <6xf16, 1>",
        "dynamic shapes are not supported",
    ),
    (A, f"migraphx.slice %a {{axes = [0], ends = [1], starts = []}} : {SHORT} -> {SHORT}", "the numbers differ"),
    (A, f"migraphx.slice %a {{axes = [2], ends = [1], starts = [0]}} : {SHORT} -> {SHORT}", "are no dimensions"),
    (
        A,
        f"migraphx.slice %a {{axes = [0, 0], ends = [1, 1], starts = [0, 0]}} : {SHORT} -> <1x3xf16, 3x1>",
        "each once",
    ),
    (A, f"migraphx.slice %a {{axes = [0], ends = [3], starts = [1]}} : {SHORT} -> {SHORT}", r"\[1, 3\) does not lie"),
    (A, f"migraphx.slice %a {{axes = [0], ends = [1], starts = [0]}} : {SHORT} -> {SHORT}", r"expected \[1, 3\]"),
    (
        A,
        f"migraphx.broadcast %a {{axis = 1 : i64, out_lens = [2, 3]}} : {SHORT} -> {SHORT}",
        r"does not fit into \[2, 3\] at axis 1",
    ),
    (
        A,
        f"migraphx.broadcast %a {{axis = -1 : i64, out_lens = [2, 3]}} : {SHORT} -> {SHORT}",
        "at axis -1",
    ),
    (A, f"migraphx.multibroadcast %a {{out_lens = [2, 4]}} : {SHORT} -> <2x4xf16, 3x1>", "does not broadcast to"),
    (A, f"migraphx.multibroadcast %a {{out_lens = [3]}} : {SHORT} -> <3xf16, 1>", "does not broadcast to"),
    (A, f"migraphx.multibroadcast %a {{out_lens = [2, 2, 3]}} : {SHORT} -> {SHORT}", r"expected \[2, 2, 3\]"),
    (A, f"migraphx.softmax %a {{axis = 2 : i64}} : {SHORT} -> {SHORT}", "axis 2 is out of range for rank 2"),
    (I, "migraphx.softmax %a {axis = 0 : i64} : <2x3xsi32, 3x1> -> <2x3xsi32, 3x1>", "expected float elements"),
    (A, f"migraphx.reduce_max %a {{axes = [1]}} : {SHORT} -> {SHORT}", r"expected \[2, 1\]"),
    (A, f"migraphx.reduce_sum %a {{axes = [1, -1]}} : {SHORT} -> <2x1xf16, 1x1>", "named twice"),
    (
        "%a: !migraphx.shaped<3xf16, 1>",
        "migraphx.dot %a, %a : <3xf16, 1>, <3xf16, 1> -> <1xf16, 1>",
        "rank greater or equal to 2",
    ),
    (A, f"migraphx.dot %a, %a : {SHORT}, {SHORT} -> {SHORT}", "3 columns and 2 rows"),
    (I, "migraphx.dot %a, %a : <2x3xsi32, 3x1>, <2x3xsi32, 3x1> -> <2x3xsi32, 3x1>", "expected float elements"),
    (
        "%a: !migraphx.shaped<3x2x2xf32, 4x2x1>, %b: !migraphx.shaped<6x2x2xf32, 4x2x1>",
        "migraphx.dot %a, %b : <3x2x2xf32, 4x2x1>, <6x2x2xf32, 4x2x1> -> <3x2x2xf32, 4x2x1>",
        r"batch dimension mismatch.*\[3\] and \[6\]",
    ),
    (
        "%a: !migraphx.shaped<3x2x2xf32, 4x2x1>",
        "migraphx.dot %a, %a : <3x2x2xf32, 4x2x1>, <3x2x2xf32, 4x2x1> -> <3x2x3xf32, 6x3x1>",
        r"expected \[3, 2, 2\]",
    ),
    (I, "migraphx.pow %a, %a : <2x3xsi32, 3x1>, <2x3xsi32, 3x1> -> <2x3xsi32, 3x1>", "expected float elements"),
    (I, "migraphx.reduce_mean %a {axes = [0]} : <2x3xsi32, 3x1> -> <1x3xsi32, 3x1>", "expected float elements"),
    (A, f"migraphx.flatten %a {{axis = 3 : i64}} : {SHORT} -> {SHORT}", "axis 3 is out of range for rank 2"),
    (A, f"migraphx.flatten %a {{axis = 1 : i64}} : {SHORT} -> <3x2xf16, 2x1>", r"expected \[2, 3\]: two parts around"),
    (
        A,
        f"migraphx.pad %a {{mode = 0 : i32, pads = [1, 0, 0], value = 0.0 : f32}} : {SHORT} -> <3x3xf16, 3x1>",
        "expected 4 pads of 0 or more",
    ),
    (
        A,
        f"migraphx.pad %a {{mode = 0 : i32, pads = [-1, 0, 0, 0], value = 0.0 : f32}} : {SHORT} -> <1x3xf16, 3x1>",
        "expected 4 pads of 0 or more",
    ),
    (
        A,
        f"migraphx.pad %a {{mode = 1 : i32, pads = [0, 0, 0, 0], value = 0.0 : f32}} : {SHORT} -> {SHORT}",
        r"expected mode 0 \(constant\), found 1",
    ),
    (
        A,
        f"migraphx.pad %a {{mode = 0 : i32, pads = [0, 1, 0, 1], value = 0.0 : f32}} : {SHORT} -> {SHORT}",
        r"expected \[2, 5\]",
    ),
    (
        I,
        "migraphx.pad %a {mode = 0 : i32, pads = [0, 0, 0, 0], value = 0.5 : f32} : <2x3xsi32, 3x1> -> <2x3xsi32, 3x1>",
        "0.5 is no element",
    ),
    (A, f"migraphx.unpack %a {{axis = 0 : i64}} : {SHORT} -> <4x3xf16, 3x1>", "expected 8-bit integers"),
    (
        "%a: !migraphx.shaped<2x3xi8, 3x1>",
        "migraphx.unpack %a {axis = 0 : i64} : <2x3xi8, 3x1> -> <2x6xi8, 6x1>",
        r"expected \[4, 3\]: twice the length of dimension 0",
    ),
    (
        "%a: !migraphx.shaped<2x3xi8, 3x1>",
        "migraphx.unpack %a {axis = 0 : i64, isUnsigned = true} : <2x3xi8, 3x1> -> <4x3xi8, 3x1>",
        "isUnsigned = true for a result of i8",
    ),
    (A, f"migraphx.quant_dot %a, %a : {SHORT}, {SHORT} -> {SHORT}", "expected elements of i8 or of an 8-bit float"),
    (
        "%a: !migraphx.shaped<2x2xui8, 2x1>",
        "migraphx.quant_dot %a, %a : <2x2xui8, 2x1>, <2x2xui8, 2x1> -> <2x2xi32, 2x1>",
        "expected elements of i8 or of an 8-bit float, found ui8",
    ),
    (
        "%a: !migraphx.shaped<2x2xi8, 2x1>",
        "migraphx.quant_dot %a, %a : <2x2xi8, 2x1>, <2x2xi8, 2x1> -> <2x2xf32, 2x1>",
        "a product of i8 has elements of i32, found f32",
    ),
    (
        "%a: !migraphx.shaped<2x2xi8, 2x1>, %b: !migraphx.shaped<2x2xf8E4M3FN, 2x1>",
        "migraphx.quant_dot %a, %b : <2x2xi8, 2x1>, <2x2xf8E4M3FN, 2x1> -> <2x2xi32, 2x1>",
        "must have the same element type",
    ),
    (
        "%a: !migraphx.shaped<2x3xi8, 3x1>",
        "migraphx.quant_dot %a, %a : <2x3xi8, 3x1>, <2x3xi8, 3x1> -> <2x3xi32, 3x1>",
        "3 columns and 2 rows",
    ),
    (I, "migraphx.quantizelinear %a, %a : <2x3xsi32, 3x1>, <2x3xsi32, 3x1> -> <2x3xsi8, 3x1>", "expected float"),
    (
        f"{A}, %b: !migraphx.shaped<2x3xf32, 3x1>",
        f"migraphx.quantizelinear %a, %b : {SHORT}, <2x3xf32, 3x1> -> <2x3xsi8, 3x1>",
        "same element type.*input: f16, scale: f32",
    ),
    (
        f"{A}, %b: !migraphx.shaped<2x3xsi32, 3x1>",
        f"migraphx.quantizelinear %a, %a, %b : {SHORT}, {SHORT}, <2x3xsi32, 3x1> -> <2x3xsi8, 3x1>",
        "output: si8, bias: si32",
    ),
    (A, f"migraphx.quantizelinear %a, %a : {SHORT}, {SHORT} -> <2x4xsi8, 4x1>", "does not broadcast to"),
    (
        f"{A}, %b: !migraphx.shaped<2x3xsi8, 3x1>",
        f"migraphx.dequantizelinear %b, %a : <2x3xsi8, 3x1>, {SHORT} -> <2x3xf32, 3x1>",
        "scale: f16, output: f32",
    ),
    (
        "%a: !migraphx.shaped<2x3xsi8, 3x1>",
        "migraphx.dequantizelinear %a, %a : <2x3xsi8, 3x1>, <2x3xsi8, 3x1> -> <2x3xsi8, 3x1>",
        "expected float elements",
    ),
    (A, f"migraphx.mlir.as.logical.shape %a : {SHORT} to tensor<6xf16>", "logical tensor of .* is tensor<2x3xf16>"),
    (A, f"migraphx.deref %a : {SHORT} -> {SHORT}", "the addresses must be ui64, found f16"),
    (
        "%a: !migraphx.shaped<2xsi64, 1>",
        "migraphx.deref %a : <2xsi64, 1> -> <2xf16, 1>",
        "the addresses must be ui64, found si64",
    ),
    (U, "migraphx.deref %a : <1x2x8xui64, 16x8x1> -> <1x2x4xf16, 8x4x1>", r"same shape.*\[1, 2, 8\] and \[1, 2, 4\]"),
    (U, "migraphx.deref %a : <1x2x8xui64, 16x8x1> -> <1x2x8xf16, 32x8x1>", "same strides"),
]


@pytest.mark.parametrize(("argument", "op", "message"), BAD)
def test_refused(argument: str, op: str, message: str):
    text = f"func.func @f({argument}) {{\n  %r = {op}\n  return\n}}"
    with pytest.raises(XpagedError, match=message) as caught:
        parse(text, "bad.mlir")
    assert "bad.mlir:2:8: error: " in caught.value.render()
    assert op.split(" ")[0].split("(")[0] in caught.value.render()


def test_wrong_operand_type():
    with pytest.raises(XpagedError, match=r"migraphx\.shaped"):
        parse('func.func @f(%a: f32) { "migraphx.exp"(%a) : (f32) -> f32\n return }')


def test_texts_that_do_not_parse():
    A = "%a: !migraphx.shaped<2x2xi8, 2x1>"
    for op, message in (
        ("quant_dot %a scaled by %a, %a scaled by %a : <2x2xi8, 2x1>", "f4E2M1FN, a type that is not supported"),
        ("quantizelinear %a : <2x2xi8, 2x1> -> <2x2xi8, 2x1>", "expected an input, a scale and perhaps a bias"),
    ):
        with pytest.raises(XpagedError, match=message):
            parse(f"func.func @f({A}) {{\n  %r = migraphx.{op}\n  return\n}}")
