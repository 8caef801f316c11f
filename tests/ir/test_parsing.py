"""Parsing: locations, and every mistake reported at its place."""

import pytest
from xdsl.dialects.builtin import FusedLoc
from xdsl.dialects.func import FuncOp

from xpaged.errors import XpagedError
from xpaged.ir.locations import describe
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module

GOOD = """\
func.func @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %sum = arith.addf %a, %b : tensor<4xf32>
  %sum_1 = arith.addf %sum, %b : tensor<4xf32> loc(#loc1)
  return %sum_1 : tensor<4xf32>
}
#loc1 = loc("model.py":7:8)
"""


def refused(text: str) -> XpagedError:
    with pytest.raises(XpagedError) as caught:
        parse(text, "k.mlir")
    return caught.value


def test_every_operation_has_the_place_of_its_name() -> None:
    module = parse(GOOD, "k.mlir")
    places = [describe(op) for op in module.walk()]
    assert places == ["k.mlir:1:1", "k.mlir:1:1", "k.mlir:2:10", "model.py:7:8", "k.mlir:4:3"]


def test_block_arguments_have_a_place() -> None:
    func = next(op for op in parse(GOOD, "k.mlir").walk() if isinstance(op, FuncOp))
    assert [describe(arg) for arg in func.args] == ["k.mlir:1:14", "k.mlir:1:33"]


def test_ranges_and_fused_locations_of_newer_mlir() -> None:
    text = """func.func @f() {
      %a = arith.constant 1 : i32 loc("x.py":1:2 to 3:4)
      %b = arith.constant 1 : i32 loc("x.py":5:2 to :9)
      %c = arith.constant 1 : i32 loc(fused<"why">[unknown, "y.py":3:4])
      return
    }"""
    _, _, a, b, c, _ = parse(text).walk()
    assert [describe(op) for op in (a, b, c)] == ["x.py:1:2", "x.py:5:2", "y.py:3:4"]
    assert isinstance(c.location, FusedLoc)


def test_locations_survive_a_round_trip() -> None:
    printed = print_module(parse(GOOD, "k.mlir"), locations=True)
    again = parse(printed, "other.mlir")
    assert print_module(again, locations=True) == printed


@pytest.mark.parametrize(
    ("old", "new", "where", "what", "fix"),
    [
        ("arith.addf %a", "arith.adf %a", "2:10", "unknown operation 'arith.adf'", "'arith.addf'"),
        ("arith.addf %a", "arit.addf %a", "2:10", "unknown dialect 'arit'", "'arith'"),
        ("arith.addf %a", "addf %a", "2:10", "unknown operation 'addf'", None),
        ("addf %sum,", "addf %sun,", "3:23", "value %sun is used but never defined", "'%sum'"),
        ("#loc1)", "#loc2)", "3:52", "alias '#loc2' is not defined", "'#loc1'"),
        ("%a: tensor<4xf32>", "%a: !rok.x", "1:18", "unknown type '!rok.x'", None),
        ("return %sum_1 : tensor<4xf32>", "return %sum_1 : tensor<5xf32>", "4:10", "previously used or defined", None),
        ("-> tensor<4xf32>", "-> tensor<5xf32>", "4:3", "function output types", None),
        ("%sum_1 = ", "%sum = ", "3:3", "%sum is already defined", None),
        ("addf %a, %b", "addf %sum_1, %b", "2:10", "used before it is defined", "above its use"),
    ],
)
def test_a_mistake_is_reported_at_its_place(old: str, new: str, where: str, what: str, fix: str | None) -> None:
    assert old in GOOD
    err = refused(GOOD.replace(old, new, 1))
    assert err.where == f"k.mlir:{where}"
    assert what in err.what
    if fix is not None:
        assert err.fix is not None
        assert fix in err.fix


def test_the_message_shows_the_source_line_and_a_caret() -> None:
    err = refused(GOOD.replace("arith.addf %a", "arith.adf %a"))
    assert err.render() == (
        "k.mlir:2:10: error: unknown operation 'arith.adf'\n"
        "    %sum = arith.adf %a, %b : tensor<4xf32>\n"
        "           ^\n"
        "  fix: did you mean 'arith.addf'?"
    )


@pytest.mark.parametrize("length", range(0, len(GOOD) - 60, 7))
def test_truncated_text_is_refused(length: int) -> None:
    text = GOOD[:length]
    err = refused(text)
    assert err.where.startswith("k.mlir:")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "// nothing\n",
        "}",
        "\x00",
        "func.func",
        '"' + "never closed " * 20,
        '"unterminated',
        "module {" * 5000,
        "func.func @f(%x: " + "tuple<" * 5000,
        "func.func @f() {%x = arith.constant 1" + "0" * 5000 + " : i32 return}",
        "{-# external_resources: {} #-}",
        'func.func @f() { "scf.if"() : () -> () return }',
        "func.func @f() { %c = arith.constant 1 : i32 }",
        "func.func @f(%x: i32) { %y = arith.addi %x, %x : i64 return }",
        "func.func @f(%x: memref<4xf32> {rock.output = 1.0 : f32}) {return}",
        "func.func @f(%x: memref<4xf32> {rock.output = -1 : i32}) {return}",
        "func.func @f(%x: memref<4xi64> {rock.page_table = {page_size = 0 : i64, elem = f16}}) {return}",
        "func.func @f(%x: memref<4xi64> {rock.page_table = {page_size = 4 : i64}}) {return}",
        "func.func @f(%x: memref<4xi64> {rock.page_table}) {return}",
        '"func.func"() <{sym_name = "f", function_type = (i32) -> (), arg_attrs = [{}, {}]}> '
        "({^bb0(%a: i32): func.return}) : () -> ()",
    ],
)
def test_malformed_text_is_refused_with_a_place(text: str) -> None:
    err = refused(text)
    assert err.where.startswith("k.mlir:")
    assert "internal" not in err.render()


def test_an_operand_of_another_region_is_refused() -> None:
    text = """func.func @f(%c: i1) -> i32 {
      scf.if %c { %x = arith.constant 1 : i32 }
      return %x : i32
    }"""
    assert "never defined" in refused(text).what


def test_an_error_after_parsing_still_shows_the_line() -> None:
    module = parse(GOOD, "k.mlir")
    add = list(module.walk())[2]
    err = XpagedError("no", at=add)
    assert err.render() == "k.mlir:2:10: error: no\n    %sum = arith.addf %a, %b : tensor<4xf32>\n           ^"


def test_an_error_about_an_operation_of_another_file_shows_the_operation() -> None:
    add = list(parse(GOOD, "k.mlir").walk())[3]
    err = XpagedError("no", at=add, found=1, expected=2, fix="do")
    assert err.render() == (
        "model.py:7:8: error: no\n  in: %sum = arith.addf %sum_1, %b : tensor<4xf32>\n"
        "  found: 1\n  expected: 2\n  fix: do"
    )
