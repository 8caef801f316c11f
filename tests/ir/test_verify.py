"""Verification: the first operation that fails is named with its place."""

import pytest
from xdsl.dialects.arith import AddiOp, ConstantOp
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnrealizedConversionCastOp, i32, i64

from xpaged.errors import XpagedError
from xpaged.ir.parsing import parse
from xpaged.ir.verify import verify


def test_a_good_module_passes() -> None:
    verify(parse("func.func @f(%a: i32) -> i32 { %b = arith.addi %a, %a : i32 return %b : i32 }"))


def test_a_use_before_the_definition_is_refused() -> None:
    one = ConstantOp(IntegerAttr(1, i32))
    add = AddiOp(one.result, one.result)
    with pytest.raises(XpagedError, match=r"operand 0 of 'arith.addi' is used before it is defined"):
        verify(ModuleOp([add, one]))


def test_a_value_of_another_function_is_refused() -> None:
    module = parse("func.func @f(%a: i32) {return}\n func.func @g() { %x = arith.constant 1 : i32 return }")
    f, g = module.body.block.ops
    constant = g.regions[0].block.first_op
    assert constant is not None
    add = AddiOp(f.regions[0].block.args[0], constant.results[0])
    g.regions[0].block.insert_op_after(add, constant)
    with pytest.raises(XpagedError, match="used before it is defined, or is defined in another region"):
        verify(module)


def test_an_erased_value_is_refused() -> None:
    one = ConstantOp(IntegerAttr(1, i32))
    module = ModuleOp([one, AddiOp(one.result, one.result)])
    one.result.erase(safe_erase=False)
    with pytest.raises(XpagedError):
        verify(module)


def test_the_message_has_the_place_and_the_operation() -> None:
    module = parse("func.func @f(%a: i32) {\n  %b = arith.addi %a, %a : i32\n  return\n}", "k.mlir")
    add = list(module.walk())[2]
    cast = UnrealizedConversionCastOp.get([add.operands[0]], [i64])
    assert add.parent is not None
    add.parent.insert_op_before(cast, add)
    add.operands[1] = cast.results[0]
    with pytest.raises(XpagedError) as caught:
        verify(module)
    assert caught.value.where == "k.mlir:2:8"
    assert "arith.addi" in caught.value.what
