"""migraphx-to-tosa: the documented example, the shipped graphs; what each operation becomes is tested by numbers."""

from collections.abc import Callable
from importlib.resources import files

import pytest
from xdsl.dialects.builtin import ModuleOp

from xpaged.errors import XpagedError
from xpaged.ir.levels import Level, check_level, level_of
from xpaged.ir.locations import describe
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.passes.migraphx_to_tosa import rule_names
from xpaged.pipeline import Pipeline

CONVERT = Pipeline("migraphx-to-tosa")


def test_the_ir_of_the_docstring(docstring_ir: Callable[[str], tuple[ModuleOp, ModuleOp]]):
    before, after = docstring_ir("migraphx-to-tosa")
    CONVERT.apply(before)
    assert print_module(before) == print_module(after)


@pytest.mark.parametrize("name", ["decode", "prefill"])
def test_examples(name: str):
    text = (files("xpaged.examples") / f"{name}.mlir").read_text()
    module = parse(text, f"{name}.mlir")
    assert level_of(module) is Level.MIGRAPHX
    CONVERT.apply(module)
    check_level(module, Level.TOSA)
    printed = print_module(module)
    assert len(printed) < 400_000  # splats stay small
    assert print_module(parse(printed)) == printed
    assert all(describe(op).startswith(f"{name}.mlir:") for op in module.walk())
    assert printed.count('operator_name = "deref"') == 2
    assert "tensor<1024xi64>" in printed


def test_every_operation_has_a_rule():
    from xpaged.dialects.migraphx import MIGraphX

    assert rule_names() == {op.name for op in MIGraphX.operations}


def test_other_arguments_and_attributes_stay():
    module = parse(
        """
        func.func @f(%n: index, %x: !migraphx.shaped<2x2xf32, 1x2> {mhal.read_access}) -> !migraphx.shaped<2x2xf32, 1x2>
            attributes {arch = "gfx942", kernel = "mixr"} {
          %0 = migraphx.neg %x : <2x2xf32, 1x2> -> <2x2xf32, 1x2>
          return %0 : !migraphx.shaped<2x2xf32, 1x2>
        }
        func.func private @g(!migraphx.shaped<4xf32, 1>)"""
    )
    CONVERT.apply(module)
    text = print_module(module)
    assert "@f(%n: index, %x: tensor<4xf32> {mhal.read_access}) -> tensor<4xf32>" in text
    assert 'arch = "gfx942", kernel = "mixr"' in text
    assert "func.func private @g(tensor<4xf32>)" in text


def test_constants_are_made_once():
    module = parse(
        """
        func.func @f(%x: !migraphx.shaped<1x4xf32, 4x1>, %y: !migraphx.shaped<1x4xf32, 4x1>)
            -> !migraphx.shaped<3x4xf32, 4x1> {
          %0 = migraphx.multibroadcast %x {out_lens = [3, 4]} : <1x4xf32, 4x1> -> <3x4xf32, 0x1>
          %1 = migraphx.multibroadcast %y {out_lens = [3, 4]} : <1x4xf32, 4x1> -> <3x4xf32, 0x1>
          %2 = migraphx.add %0, %1 : <3x4xf32, 0x1>, <3x4xf32, 0x1> -> <3x4xf32, 4x1>
          return %2 : !migraphx.shaped<3x4xf32, 4x1>
        }"""
    )
    CONVERT.apply(module)
    text = print_module(module)
    assert text.count("dense<1.000000e+00> : tensor<3x4xf32>") == 1
    assert text.count("tosa.const_shape") == 2  # [1, 4] and [12]


def test_errors_point_to_the_operation():
    text = """func.func @f(%x: !migraphx.shaped<4xf32, 1>) -> !migraphx.shaped<4xi64, 1> {
  %0 = migraphx.quantizelinear %x, %x : <4xf32, 1>, <4xf32, 1> -> <4xi64, 1>
  return %0 : !migraphx.shaped<4xi64, 1>
}"""
    with pytest.raises(XpagedError) as caught:
        CONVERT.apply(parse(text, "quantize.mlir"))
    rendered = caught.value.render()
    assert rendered.startswith("quantize.mlir:2:8: error: 'migraphx.quantizelinear' to i64 is not supported")
    assert "found: !migraphx.shaped<4xi64, 1>" in rendered
    assert "expected: integers of up to 32 bits" in rendered


def test_only_migraphx_is_taken():
    module = parse("func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }")
    with pytest.raises(XpagedError, match="may not stand at level migraphx"):
        CONVERT.apply(module)
