"""Custom forms of operations that xDSL reads in generic form only, and aliases that are used before they are made."""

from __future__ import annotations

import pytest

from xpaged.errors import XpagedError
from xpaged.ir.custom_formats import FORMATS
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module

FORMS = {
    "memref.copy": ("memref.copy %a, %b : memref<4xf32> to memref<4xf32>", "(memref<4xf32>, memref<4xf32>) -> ()"),
    "memref.cast": ("%r = memref.cast %a {x} : memref<4xf32> to memref<?xf32>", "(memref<4xf32>) -> memref<?xf32>"),
    "memref.memory_space_cast": (
        "%r = memref.memory_space_cast %a : memref<4xf32> to memref<4xf32, 1>",
        "(memref<4xf32>) -> memref<4xf32, 1 : i64>",
    ),
    "memref.extract_aligned_pointer_as_index": (
        "%r = memref.extract_aligned_pointer_as_index %a : memref<4xf32> -> index",
        "(memref<4xf32>) -> index",
    ),
    "memref.rank": ("%r = memref.rank %a : memref<4xf32>", "(memref<4xf32>) -> index"),
}


def source(line: str) -> str:
    return f"func.func @f(%a: memref<4xf32>, %b: memref<4xf32>) {{\n  {line}\n  return\n}}"


def test_every_form_is_tried() -> None:
    assert set(FORMS) == set(FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_both_forms_are_the_same(name: str) -> None:
    custom, type_ = FORMS[name]
    module = parse(source(custom))
    text = print_module(module)
    assert f'"{name}"(%a' in text
    assert type_ in text
    assert parse(text).is_structurally_equivalent(module)
    op = next(op for op in module.walk() if op.name == name)
    assert type(op) is type(next(op for op in parse(text).walk() if op.name == name))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("memref.copy %a, %c : memref<4xf32> to memref<4xf32>", "value %c is used but never defined"),
        ("memref.copy %a : memref<4xf32> to memref<4xf32>", "expected ','"),
        ("%r = memref.cast %a : memref<4xf32> -> memref<?xf32>", "Expected 'to'"),
        (
            "%m = memref.alloc() : memref<4xf32, #gpu.address_space<lds>>",
            "unknown address space 'lds', expected global",
        ),
    ],
)
def test_mistakes_are_told_at_their_place(line: str, message: str) -> None:
    with pytest.raises(XpagedError) as refusal:
        parse(source(line), "k.mlir")
    assert message.lower() in refusal.value.render().lower()
    assert refusal.value.where.startswith("k.mlir:2:")


class TestAliasesAfterUse:
    def test_of_types_attributes_and_locations(self) -> None:
        text = """func.func @f(%a: !m, %b: memref<4xf32, #layout>) {
          return loc(#where)
        }
        """.replace("        ", "")
        late = '#layout = strided<[1]>\n!m = memref<4xf32, #layout>\n#where = loc(#in)\n#in = loc("k.mlir":7:8)\n'
        module = parse(text + late.replace("loc(#in)", 'loc("x"(#in))'))
        assert "memref<4xf32, strided<[1]>>" in print_module(module)
        assert '"k.mlir":7:8' in print_module(module, locations=True)

    def test_one_that_is_not_defined(self) -> None:
        with pytest.raises(XpagedError, match="alias '#lay' is not defined") as refusal:
            parse("func.func @f(%b: memref<4xf32, #lay>) {\n  return\n}\n#layout = strided<[1]>\n", "k.mlir")
        assert refusal.value.where == "k.mlir:1:32"
        assert refusal.value.fix is None or "#layout" in refusal.value.fix

    def test_one_that_is_defined_by_itself(self) -> None:
        with pytest.raises(XpagedError, match="alias '#a' is not defined"):
            parse("func.func @f(%b: memref<4xf32, #a>) {\n  return\n}\n#a = #a\n")
