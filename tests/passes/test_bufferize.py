"""bufferize: every operation on memrefs, results written in place where a view allows it, copied where not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp

from xpaged.errors import XpagedError
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.pipeline import Pipeline

BUFFERIZE = Pipeline("bufferize")
ROWS = """#same = affine_map<(d0) -> (d0)>
#rows = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0 * 32 + d1 * 8 + d2)> by
  [<Unmerge{1, 4, 8} ["g", "s", "d"] at [0, 1, 2] -> ["raw"] at [0]>] bounds = [1, 4, 8] -> [32]>
#flat = #rock.transform_map<affine_map<(d0) -> (0, d0 floordiv 8, d0 mod 8)> by
  [<Merge{1, 4, 8} ["raw"] at [0] -> ["g", "s", "d"] at [0, 1, 2]>] bounds = [32] -> [1, 4, 8]>
#cut = #rock.transform_map<affine_map<(d0) -> (d0 + 8)> by
  [<Slice{8, 24} ["raw"] at [0] -> ["raw"] at [0]>] bounds = [16] -> [32]>
#pad = #rock.transform_map<affine_map<(d0) -> (d0 - 1)> by
  [<Pad{1, 0} ["raw"] at [0] -> ["raw"] at [0]>] bounds = [33] -> [32]>
"""


def bufferized(body: str, results: str, arguments: str = "%x: tensor<1x4x8xf16>") -> str:
    returned = "" if results == "()" else results
    module = parse(f"{ROWS}func.func @f({arguments}) -> {returned} attributes {{rock.kernel}} {{\n{body}\n}}")
    BUFFERIZE.apply(module)
    text = print_module(module)
    assert print_module(parse(text)) == text
    function = text[text.index("func.func") :]
    assert "tensor" not in function
    return function


ATTENTION = """%o = rock.attention{
  qk = %x * tr %x : tensor<1x4x8xf16>, tensor<1x4x8xf16>
  softmax(qk) * %x : tensor<1x4x8xf16>
} -> tensor<1x4x8xf16>
"""


def test_the_ir_of_the_docstring(docstring_ir: Callable[[str], tuple[ModuleOp, ModuleOp]]):
    before, after = docstring_ir("bufferize")
    BUFFERIZE.apply(before)
    assert print_module(before) == print_module(after)


def test_a_result_is_written_through_the_inverse_view():
    text = bufferized(
        ATTENTION + "%f = rock.transform %o by #flat : tensor<1x4x8xf16> to tensor<32xf16>\nreturn %f : tensor<32xf16>",
        "tensor<32xf16>",
    )
    assert "%out: memref<32xf16> {rock.output = 0 : i32}" in text
    assert "%o = rock.transform %out" in text
    assert "%o = softmax(qk)" in text
    assert "alloc" not in text
    assert "copy" not in text


def test_a_sliced_result_drops_what_is_cut_off():
    text = bufferized(
        ATTENTION
        + "%f = rock.transform %o by #flat : tensor<1x4x8xf16> to tensor<32xf16>\n"
        + "%c = rock.transform %f by #cut : tensor<32xf16> to tensor<16xf16>\nreturn %c : tensor<16xf16>",
        "tensor<16xf16>",
    )
    assert "alloc" not in text
    assert "copy" not in text


@pytest.mark.parametrize(
    ("view", "size", "and_whole"), [("#pad", 33, False), ("#cut", 16, True)], ids=["padded", "cut, and used whole"]
)
def test_a_result_that_the_view_does_not_cover_is_copied(view: str, size: int, and_whole: bool):
    whole = "tensor<1x4x8xf16>, " if and_whole else ""
    text = bufferized(
        ATTENTION
        + "%f = rock.transform %o by #flat : tensor<1x4x8xf16> to tensor<32xf16>\n"
        + f"%c = rock.transform %f by {view} : tensor<32xf16> to tensor<{size}xf16>\n"
        + f"return {'%o, ' * and_whole}%c : {whole}tensor<{size}xf16>",
        f"({whole}tensor<{size}xf16>)",
    )
    assert text.count("memref.copy") == 1
    assert text.count("memref.alloc") == (0 if and_whole else 1)


def test_an_argument_and_a_second_use_are_copied():
    text = bufferized(
        ATTENTION + "return %o, %x, %o : " + ", ".join(["tensor<1x4x8xf16>"] * 3),
        "(" + ", ".join(["tensor<1x4x8xf16>"] * 3) + ")",
    )
    assert '"memref.copy"(%x, %out1)' in text
    assert '"memref.copy"(%out0, %out2)' in text
    assert "%out0 = softmax(qk)" in text


def test_attention_into_tensors_with_lse():
    text = bufferized(
        """%e = tensor.empty() : tensor<1x4x8xf16>
        %l = tensor.empty() : tensor<1x4xf32>
        %o, %s = rock.attention{
          qk = %x * tr %x : tensor<1x4x8xf16>, tensor<1x4x8xf16>
          lse = %l : tensor<1x4xf32>
          %e = softmax(qk) * %x : tensor<1x4x8xf16> -> tensor<1x4x8xf16>
        } -> tensor<1x4x8xf16>, tensor<1x4xf32>
        return %s, %o : tensor<1x4xf32>, tensor<1x4x8xf16>""",
        "(tensor<1x4xf32>, tensor<1x4x8xf16>)",
    )
    assert "lse = %out0 : memref<1x4xf32>" in text
    assert "%out1 = softmax(qk)" in text
    assert "alloc" not in text


def test_tensor_reshapes_become_views():
    text = bufferized(
        """%a = tensor.expand_shape %t [[0, 1], [2]] output_shape [4, 2, 8] : tensor<8x8xf16> into tensor<4x2x8xf16>
        %b = tensor.extract_slice %a[0, 1, 0] [4, 1, 8] [1, 1, 1] : tensor<4x2x8xf16> to tensor<4x8xf16>
        %c = tensor.expand_shape %b [[0, 1], [2]] output_shape [1, 4, 8] : tensor<4x8xf16> into tensor<1x4x8xf16>
        %o = rock.attention{
          qk = %c * tr %c : tensor<1x4x8xf16>, tensor<1x4x8xf16>
          softmax(qk) * %c : tensor<1x4x8xf16>
        } -> tensor<1x4x8xf16>
        %f = tensor.collapse_shape %o [[0, 1, 2]] : tensor<1x4x8xf16> into tensor<32xf16>
        return %f : tensor<32xf16>""",
        "tensor<32xf16>",
        "%t: tensor<8x8xf16>",
    )
    assert text.count("rock.transform") == 4
    assert "copy" not in text


def test_linalg_generic_and_constants():
    text = bufferized(
        """%k = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
        %e = tensor.empty() : tensor<3xf32>
        %r = linalg.generic {indexing_maps = [#same, #same, #same],
                             iterator_types = ["parallel"]}
             ins(%y, %k : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<3xf32>) {
        ^bb0(%a: f32, %b: f32, %c: f32):
          %s = arith.addf %a, %b : f32
          linalg.yield %s : f32
        } -> tensor<3xf32>
        %q = linalg.generic {indexing_maps = [#same, #same],
                             iterator_types = ["parallel"]}
             ins(%r : tensor<3xf32>) outs(%y : tensor<3xf32>) {
        ^bb0(%a: f32, %c: f32):
          %s = arith.addf %a, %c : f32
          linalg.yield %s : f32
        } -> tensor<3xf32>
        return %q : tensor<3xf32>""",
        "tensor<3xf32>",
        "%y: tensor<3xf32>",
    )
    assert "memref.get_global" in text
    assert text.count("memref.alloc") == 1
    assert '"memref.copy"(%y, %out)' in text
    assert "outs(%out : memref<3xf32>)" in text


def test_page_tables_are_found_through_views():
    text = bufferized(
        """%s = tensor.extract_slice %t[2, 0] [1, 4] [1, 1] : tensor<3x4xi64> to tensor<1x4xi64>
        %e = tensor.expand_shape %s [[0], [1, 2]] output_shape [1, 4, 1] : tensor<1x4xi64> into tensor<1x4x1xi64>
        %p = rock.deref %e : tensor<1x4x1xi64> -> tensor<1x4x8xf16>
        %o = rock.attention{
          qk = %x * tr %p : tensor<1x4x8xf16>, tensor<1x4x8xf16>
          keyAddresses = (%p : tensor<1x4x8xf16>)
          valueAddresses = (%p : tensor<1x4x8xf16>)
          softmax(qk) * %p : tensor<1x4x8xf16>
        } -> tensor<1x4x8xf16>
        return %o : tensor<1x4x8xf16>""",
        "tensor<1x4x8xf16>",
        "%x: tensor<1x4x8xf16>, %t: tensor<3x4xi64>",
    )
    assert "%t: memref<3x4xi64> {rock.page_table = {page_size = 8 : i64, elem = f16}}" in text
    assert "keyAddresses = (%p : memref<1x4x8xf16>)" in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%e = tensor.splat %c : tensor<1x4x8xf16>\nreturn %e : tensor<1x4x8xf16>",
            "'tensor.splat' has no form on memrefs",
        ),
        (
            "%e = tensor.extract_slice %x[0, 0, 0] [1, 2, 8] [1, 2, 1] : tensor<1x4x8xf16> to tensor<1x2x8xf16>\n"
            "return %x : tensor<1x4x8xf16>",
            "static offsets and sizes and stride 1",
        ),
    ],
)
def test_refusals_name_the_operation(body: str, message: str):
    with pytest.raises(XpagedError, match=message) as refusal:
        bufferized(body, "tensor<1x4x8xf16>", "%x: tensor<1x4x8xf16>, %c: f16")
    assert refusal.value.where


def test_a_declaration_is_refused():
    module = parse("func.func private @f(tensor<4xf16>) -> tensor<4xf16>")
    with pytest.raises(XpagedError, match="a function of one block"):
        BUFFERIZE.apply(module)
