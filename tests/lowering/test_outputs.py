"""Which arguments are results: as marked, or as written."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.lowering.outputs import mark_outputs, output_numbers
from xpaged.passes.pipelines import lower

TEXT = """func.func @f(%q: memref<1x4x8xf16>, %k: memref<1x8x6xf16>, %v: memref<1x6x8xf16>, %lse: memref<1x4xf32>,
                 %o: memref<1x4x8xf16>, %copy: memref<1x4xf32>) attributes {rock.kernel} {
  rock.attention{
    qk = %q * %k : memref<1x4x8xf16>, memref<1x8x6xf16>
    lse = %lse : memref<1x4xf32>
    %o = softmax(qk) * %v : memref<1x6x8xf16> -> memref<1x4x8xf16>
  }
  memref.copy %lse, %copy : memref<1x4xf32> to memref<1x4xf32>
  return
}"""


def function(module: ModuleOp) -> FuncOp:
    return next(op for op in module.walk() if isinstance(op, FuncOp))


def test_what_is_written_is_a_result() -> None:
    assert output_numbers(function(parse(TEXT))) == {4: 0, 3: 1, 5: 2}


def test_marks_go_first() -> None:
    module = parse(TEXT.replace("%lse: memref<1x4xf32>", "%lse: memref<1x4xf32> {rock.output = 0 : i32}"))
    assert output_numbers(function(module)) == {3: 0}
    before = print_module(module)
    mark_outputs(function(module))
    assert print_module(module) == before


def test_marks_are_written_when_a_kernel_is_made() -> None:
    module = parse(TEXT.replace("  memref.copy %lse, %copy : memref<1x4xf32> to memref<1x4xf32>\n", ""))
    assert "rock.output" not in print_module(lower(module.clone(), Level.ROCK_MEMREF))
    text = print_module(lower(module, Level.TILE))
    assert "%lse: memref<1x4xf32> {rock.output = 1 : i32}, %o: memref<1x4x8xf16> {rock.output = 0 : i32}" in text
