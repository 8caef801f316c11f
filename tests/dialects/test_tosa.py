"""The extended TOSA dialect: every operation round-trips, older text is taken, every rule refuses."""

from pathlib import Path

import pytest

from xpaged.dialects import rocmlir_names
from xpaged.dialects.tosa import Tosa
from xpaged.dialects.tosa.constants import ConstOp, constant_of
from xpaged.dialects.tosa.ops import CustomOp, ignores_nan
from xpaged.errors import XpagedError
from xpaged.ir import dense
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module

OPS = (Path(__file__).parents[2] / "filecheck/dialects/tosa/ops.mlir").read_text()


def test_every_operation_round_trips():
    module = parse(OPS)
    text = print_module(module)
    assert print_module(parse(text)) == text
    assert print_module(parse(print_module(module, generic=True))) == text
    assert {op.name for op in module.walk()} >= {op.name for op in Tosa.operations}


def test_names_and_helpers():
    module = parse(OPS)
    derefs = [op for op in module.walk() if rocmlir_names.is_deref(op)]
    assert len(derefs) == 1
    other = CustomOp("deref", "elsewhere", list(derefs[0].operands), [derefs[0].results[0].type])  # pyright: ignore
    assert not rocmlir_names.is_deref(other)
    assert [ignores_nan(op) for op in module.walk() if op.name == "tosa.maximum"] == [True, False]  # pyright: ignore
    const = next(op for op in module.walk() if isinstance(op, ConstOp))
    assert dense.splat_value(constant_of(const.output)) == 1
    assert constant_of(derefs[0].results[0]) is None


T = "tensor<2x3xf16>"
BAD = [
    ('"tosa.const"() : () -> tensor<2xi32>', "expected the attribute `values`"),
    (
        '"tosa.const"() <{values = dense<1> : tensor<2xi32>, value = dense<1> : tensor<2xi32>}> : () -> tensor<2xi32>',
        "expected the attribute `values`, and only it",
    ),
    ('"tosa.const"() <{values = dense<1> : tensor<2xi32>}> : () -> tensor<3xi32>', "for a result of tensor<3xi32>"),
    ("tosa.const_shape {values = dense<1> : tensor<2xindex>} : () -> !tosa.shape<3>", "does not give the 3 lengths"),
    ("tosa.const_shape {values = dense<1> : tensor<2xi64>} : () -> !tosa.shape<2>", "expected index elements"),
    (f"tosa.exp %a : ({T}) -> tensor<3x2xf16>", r"shape \[3, 2\], expected \[2, 3\]"),
    (f"tosa.exp %a : ({T}) -> tensor<2x3xf32>", "expected f16"),
    ("tosa.exp %i : (tensor<2x3xi32>) -> tensor<2x3xi32>", "expected float elements"),
    ("tosa.exp %y : (tensor<?x3xf16>) -> tensor<?x3xf16>", "dynamic shapes are not supported"),
    (f"tosa.add %a, %i : ({T}, tensor<2x3xi32>) -> {T}", "found elements of i32, expected f16"),
    (f"tosa.add %a, %a : ({T}, {T}) -> tensor<2x3xf32>", "found elements of f32, expected f16"),
    (f"tosa.add %a, %b : ({T}, tensor<3x2xf16>) -> {T}", r"\[3, 2\] does not broadcast"),
    (f"tosa.add %a, %c : ({T}, tensor<3xf16>) -> {T}", r"\[3\] does not broadcast"),
    (f"tosa.add %a, %a : ({T}, {T}) -> tensor<4x3xf16>", "does not broadcast"),
    ("tosa.add %o, %o : (tensor<1x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>", r"give shape \[1, 3\]"),
    (f"tosa.mul %a, %a, %i : ({T}, {T}, tensor<2x3xi32>) -> {T}", "must be the constant 0"),
    (f"tosa.mul %a, %a, %one : ({T}, {T}, tensor<1xi8>) -> {T}", "must be the constant 0"),
    (f"tosa.negate %a, %one : ({T}, tensor<1xi8>) -> {T}", "expected two zero points or none, found 1"),
    (f"tosa.intdiv %a, %a : ({T}, {T}) -> {T}", "expected integer elements"),
    (f"tosa.greater %a, %a : ({T}, {T}) -> {T}", "expected i1"),
    (f"tosa.select %a, %a, %a : ({T}, {T}, {T}) -> {T}", "expected i1"),
    (f"tosa.select %t, %a, %i : (tensor<2x3xi1>, {T}, tensor<2x3xi32>) -> {T}", "found elements of i32, expected f16"),
    (f"tosa.cast %a : ({T}) -> tensor<3x2xf32>", r"expected \[2, 3\]"),
    (f"tosa.cast %a : ({T}) -> tensor<2x3xindex>", "expected float or integer"),
    (f"tosa.reshape %a : ({T}) -> tensor<3x2xf16>", "expected the new lengths"),
    (f"tosa.reshape %a {{new_shape = array<i64: 6>}} : ({T}) -> tensor<3x2xf16>", r"new lengths \[6\]"),
    (f"tosa.reshape %a {{new_shape = array<i64: 3, 3>}} : ({T}) -> tensor<3x3xf16>", r"has 6 elements.* has 9"),
    (f"tosa.reshape %a {{new_shape = array<i64: 6>}} : ({T}) -> tensor<6xf32>", "expected f16"),
    (f"tosa.reshape %a, %s : ({T}, !tosa.shape<2>) -> tensor<2x3xf16>", "expected lengths from tosa.const_shape"),
    (f"tosa.transpose %a : ({T}) -> tensor<3x2xf16>", "expected the permutation"),
    (f"tosa.transpose %a, %i : ({T}, tensor<2x3xi32>) -> tensor<3x2xf16>", "expected the permutation"),
    (f"tosa.transpose %a {{perms = array<i32: 1, 1>}} : ({T}) -> tensor<3x2xf16>", "no permutation"),
    (f"tosa.transpose %a {{perms = array<i32: 1, 0>}} : ({T}) -> tensor<2x3xf16>", r"expected \[3, 2\]"),
    (
        f"tosa.transpose %a, %i {{perms = array<i32: 1, 0>}} : ({T}, tensor<2x3xi32>) -> tensor<3x2xf16>",
        "expected the permutation",
    ),
    (f"tosa.slice %a : ({T}) -> {T}", "expected start and size"),
    (f"tosa.slice %a {{start = array<i64: 0, 0>}} : ({T}) -> {T}", "expected start and size"),
    (f"tosa.slice %a {{start = array<i64: 0>, size = array<i64: 2>}} : ({T}) -> {T}", "for 2 dimensions"),
    (
        f"tosa.slice %a {{start = array<i64: 1, 0>, size = array<i64: 2, 3>}} : ({T}) -> {T}",
        r"\[1, 3\) does not lie in dimension 0 of length 2",
    ),
    (
        f"tosa.slice %a {{start = array<i64: 1, 0>, size = array<i64: 1, 3>}} : ({T}) -> {T}",
        r"expected \[1, 3\]",
    ),
    (f"tosa.concat %a, %b {{axis = 0 : i32}} : ({T}, tensor<3x2xf16>) -> tensor<5x3xf16>", "more than dimension 0"),
    (f"tosa.concat %a, %a {{axis = 0 : i32}} : ({T}, {T}) -> tensor<5x3xf16>", r"expected \[4, 3\]"),
    (f"tosa.concat %a {{axis = 2 : i32}} : ({T}) -> {T}", "axis 2 is out of range"),
    (f"tosa.reduce_max %a {{axis = 2 : i32}} : ({T}) -> {T}", "axis 2 is out of range"),
    (f"tosa.reduce_max %a {{axis = 1 : i32}} : ({T}) -> {T}", r"expected \[2, 1\]"),
    (f"tosa.clamp %a : ({T}) -> {T}", "expected the attributes `min_val` and `max_val`"),
    (f"tosa.clamp %a {{min_val = 0 : i8, max_val = 1 : i8}} : ({T}) -> {T}", "a bound of i8 for elements of"),
    (f"tosa.clamp %a {{min_int = 0 : i64, max_int = 1 : i64}} : ({T}) -> {T}", "expected the attributes `min_val`"),
    (f"tosa.clamp %a {{min_val = 1.0 : f16, max_val = 0.0 : f16}} : ({T}) -> {T}", "expected bounds in order, found 1"),
    (f"tosa.pad %a, %i : ({T}, tensor<2x3xi32>) -> {T}", "expected the padding as a constant"),
    (f"tosa.pad %a, %one : ({T}, tensor<1xi8>) -> {T}", r"two numbers of 0 or more for each of 2 dimensions, found"),
    (f"tosa.logical_left_shift %a, %a : ({T}, {T}) -> {T}", "expected integer elements"),
    (
        "tosa.arithmetic_right_shift %i, %i {round = true} : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>",
        "expected round = false",
    ),
    *(
        (
            f'tosa.custom {operands} {{domain_name = "rocmlir", implementation_attrs = "", operator_name = "{name}"}} '
            f": ({', '.join(types)}) -> {result}",
            message,
        )
        for name, operands, types, result, message in (
            ("deref", "%a, %a", [T, T], T, "'deref': expected 1 operands and 1 result, found 2"),
            ("unsigned_div", "%i", ["tensor<2x3xi32>"], "tensor<2x3xi32>", "expected 2 operands and 1 result, found 1"),
            ("unsigned_div", "%a, %a", [T, T], T, "takes no f16 to f16"),
            ("unsigned_div", "%a, %i", [T, "tensor<2x3xi32>"], T, "operands of one element type"),
            ("unsigned_cast", "%a", [T], "tensor<2x3xf32>", "takes no f16 to f32"),
            ("fp_to_int_cast", "%i", ["tensor<2x3xi32>"], "tensor<2x3xi8>", "takes no i32 to i8"),
            ("fp_to_int_cast", "%a", [T], "tensor<3x2xi8>", "does not broadcast"),
        )
    ),
    (f"tosa.matmul %a, %a : ({T}, {T}) -> {T}", "expected operands of rank 3"),
    ("tosa.matmul %m, %m : (tensor<5x2x4xf16>, tensor<5x2x4xf16>) -> tensor<5x2x4xf16>", "do not multiply"),
    ("tosa.matmul %m, %n : (tensor<5x2x4xf16>, tensor<5x4x3xf16>) -> tensor<5x2x4xf16>", r"expected \[5, 2, 3\]"),
    ("tosa.matmul %m, %n : (tensor<5x2x4xf16>, tensor<5x4x3xf16>) -> tensor<5x2x3xi32>", "cannot have elements of i32"),
    (
        "tosa.matmul %m, %n, %one : (tensor<5x2x4xf16>, tensor<5x4x3xf16>, tensor<1xi8>) -> tensor<5x2x3xf16>",
        "expected two zero points or none, found 1",
    ),
]


@pytest.mark.parametrize(("op", "message"), BAD)
def test_refused(op: str, message: str):
    text = f"""
func.func @f(%a: {T}, %b: tensor<3x2xf16>, %c: tensor<3xf16>, %i: tensor<2x3xi32>, %t: tensor<2x3xi1>,
             %o: tensor<1x3xf16>, %s: !tosa.shape<2>, %m: tensor<5x2x4xf16>, %n: tensor<5x4x3xf16>,
             %y: tensor<?x3xf16>) {{
  %one = "tosa.const"() <{{values = dense<1> : tensor<1xi8>}}> : () -> tensor<1xi8>
  %r = {op}
  return
}}"""
    with pytest.raises(XpagedError, match=message) as caught:
        parse(text, "bad.mlir")
    assert "bad.mlir:6:8: error: " in caught.value.render()
