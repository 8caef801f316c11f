"""Printing: text that always parses back, aliases, MLIR's spelling of affine maps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.arith import AddiOp, ConstantOp
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineMap

from xpaged.ir.parsing import parse
from xpaged.ir.printing import affine_map_text, one_line, print_module


def chain(names: list[str | None]) -> ModuleOp:
    """A function whose values have these name hints, set as a pass may set them."""
    first = ConstantOp(IntegerAttr(1, i32))
    ops = [first]
    value: SSAValue = first.result
    values = [value]
    for _ in names[1:]:
        add = AddiOp(value, first.result)
        ops.append(add)  # pyright: ignore[reportArgumentType]
        value = add.result
        values.append(value)
    for each, name in zip(values, names, strict=False):
        each._name = name  # pyright: ignore[reportPrivateUsage]  # no check, no stripping: the worst a pass can do
    return ModuleOp([FuncOp("f", ((), (i32,)), Region(Block([*ops, ReturnOp(value)])))])


@given(st.lists(st.sampled_from([None, "a", "a_1", "a_1_2", "b_1", "b", "_1", "x.y", "a_0"]), min_size=1, max_size=12))
def test_any_name_hints_print_to_text_that_parses_back(names: list[str | None]) -> None:
    module = chain(names)
    text = print_module(module)
    again = parse(text)
    assert again.is_structurally_equivalent(module)
    assert print_module(again) == text


def test_affine_maps_are_aliased_at_the_head_and_parse_back() -> None:
    text = """\
#map = affine_map<(d0, d1) -> (d0 * 4 + d1)>
#map1 = affine_map<(d0)[s0] -> ((d0 + s0) mod 7 - 3, (d0 floordiv 2) * 5, d0 ceildiv 3)>
builtin.module {
  func.func @f(%a: memref<2x4xf32, #map>, %b: memref<2x4xf32, #map>) {
    func.return {m = #map1}
  }
}
"""
    assert print_module(parse(text)) == text


def test_without_aliases_everything_is_in_place() -> None:
    module = parse("func.func @f(%a: memref<4xf32, affine_map<(d0) -> (d0 * 2)>>) {return}")
    text = print_module(module, aliases=False)
    assert "#map" not in text
    assert "memref<4xf32, affine_map<(d0) -> (d0 * 2)>>" in text


@pytest.mark.parametrize(
    "text",
    [
        "(d0, d1) -> (d0 * 4 + d1)",
        "(d0) -> ((d0 + 1) * 2)",
        "(d0, d1) -> (d0 - d1, d0 - 3, d0 - d1 * 2)",
        "(d0) -> (d0 floordiv 8, d0 mod 8)",
        "(d0)[s0] -> (d0 + s0)",
        "() -> (0)",
        "(d0, d1) -> ((d0 * 4 + d1) floordiv 3)",
    ],
)
def test_affine_maps_are_spelled_as_in_mlir(text: str) -> None:
    module = parse(f"func.func @f() attributes {{m = affine_map<{text}>}} {{return}}")
    func = next(op for op in module.walk() if isinstance(op, FuncOp))
    data = func.attributes["m"].data  # pyright: ignore
    assert isinstance(data, AffineMap)
    printed = affine_map_text(data)
    again = parse(f"func.func @f() attributes {{m = affine_map<{printed}>}} {{return}}")
    assert again.is_structurally_equivalent(module)


def test_one_line_stops_at_the_end_of_the_line_and_is_cut() -> None:
    module = parse("func.func @a_long_name(%a: i32) {return}")
    func = next(op for op in module.walk() if isinstance(op, FuncOp))
    assert one_line(func) == "func.func @a_long_name(%a: i32)"
    assert one_line(func, limit=20) == "func.func @a_long..."


def test_dense_resources_are_kept() -> None:
    text = """func.func @f() {
      %c = arith.constant dense_resource<blob> : tensor<1xi32>
      return
    }
    {-# dialect_resources: { builtin: { blob: "0x0400000001000000" } } #-}"""
    assert '"0x0400000001000000"' in print_module(parse(text))
