"""Score regions on whole tensors and memrefs: rewritten to scalars where they are elementwise, refused where not."""

from __future__ import annotations

import pytest

from xpaged.dialects.rock.attention import AttentionOp
from xpaged.errors import XpagedError
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module

ALIASES = """#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#turned = affine_map<(d0, d1, d2) -> (d1, d0, d2)>
#wide = #rock.transform_map<affine_map<(d0, d1, d2, d3) -> (d1, d2, d3)> by
  [<AddDim{1} ["one"] at [0] -> [] at []>, <PassThrough ["g", "n", "m"] at [1, 2, 3] -> ["g", "n", "m"] at [0, 1, 2]>]
  bounds = [1, 2, 4, 6] -> [2, 4, 6]>
#thin = #rock.transform_map<affine_map<(d0, d1, d2) -> (0, d0, d1, d2)> by
  [<ConstDim{0, 1} [] at [] -> ["one"] at [0]>,
   <PassThrough ["g", "n", "m"] at [0, 1, 2] -> ["g", "n", "m"] at [1, 2, 3]>]
  bounds = [2, 4, 6] -> [1, 2, 4, 6]>
#part = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0, d1, d2)> by
  [<PassThrough ["g", "n"] at [0, 1] -> ["g", "n"] at [0, 1]>, <Slice{0, 3} ["m"] at [2] -> ["m"] at [2]>]
  bounds = [2, 4, 3] -> [2, 4, 6]>
"""


def source(region: str, kind: str = "memref") -> str:
    text = f"""func.func @f(%q: {kind}<2x4x8xf16>, %k: {kind}<2x8x6xf16>, %v: {kind}<2x6x8xf16>, %o: {kind}<2x4x8xf16>,
                 %bias: {kind}<2x4x6xf16>) {{
      %outside = arith.constant 2.5 : f16
      %variable = arith.addf %outside, %outside : f16
      %r = rock.attention{{
        qk = %q * %k : {kind}<2x4x8xf16>, {kind}<2x8x6xf16>
        qk = elementwise otherIns(%bias : {kind}<2x4x6xf16>) {{ {region} }}
        %o = softmax(qk) * %v : {kind}<2x6x8xf16> -> {kind}<2x4x8xf16>
      }} -> tensor<2x4x8xf16>
      func.return
    }}"""
    if kind == "memref":
        text = text.replace("%r = rock", "rock").replace(" -> tensor<2x4x8xf16>", "")
    return ALIASES + text


def body_of(text: str) -> list[str]:
    module = parse(text)
    op = next(op for op in module.walk() if isinstance(op, AttentionOp))
    printed = print_module(module)
    assert print_module(parse(printed)) == printed
    assert "linalg" not in printed
    return [str(arg.type) for arg in op.preSoftmaxBody.block.args] + [
        inner.name for inner in op.preSoftmaxBody.block.ops
    ]


GENERIC = """linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
  ins(%qk, %b : memref<2x4x6xf16>, memref<2x4x6xf16>) outs(%sum : memref<2x4x6xf16>) {
  ^bb1(%x: f16, %y: f16, %z: f16):
    %s = arith.addf %x, %y : f16
    linalg.yield %s : f16
  }"""
MEMREFS = f"""^bb0(%qk: memref<2x4x6xf16>, %b: memref<2x4x6xf16>, %result: memref<2x4x6xf16>):
  %sum = memref.alloc() : memref<2x4x6xf16>
  {GENERIC}
  "memref.copy"(%sum, %result) : (memref<2x4x6xf16>, memref<2x4x6xf16>) -> ()
  rock.yield"""


def test_memrefs():
    assert body_of(source(MEMREFS)) == ["f32", "f16", "arith.truncf", "arith.addf", "rock.yield"]


def test_generic_text_is_taken_too():
    """The operation's generic form goes the same way."""
    scalar = print_module(parse(source(MEMREFS)), generic=True)
    start, end = scalar.index('"rock.attention"'), scalar.index('"func.return"')
    region = scalar[scalar.index("({", start) : scalar.index("})", start) + 2]
    whole = scalar[:start] + scalar[start:end].replace(region, "({ " + MEMREFS + " })") + scalar[end:]
    assert print_module(parse(ALIASES + whole), generic=True) == scalar


def test_reshapes_do_not_matter():
    text = MEMREFS.replace(
        "%sum = memref.alloc() : memref<2x4x6xf16>",
        "%wide = memref.alloc() : memref<1x2x4x6xf16>\n"
        "%sum = rock.transform %wide by #thin : memref<1x2x4x6xf16> to memref<2x4x6xf16>\n"
        "%same = rock.transform %qk by #wide : memref<2x4x6xf16> to memref<1x2x4x6xf16>\n"
        "%back = rock.transform %same by #thin : memref<1x2x4x6xf16> to memref<2x4x6xf16>",
    ).replace("ins(%qk", "ins(%back")
    assert body_of(source(text)) == ["f32", "f16", "arith.truncf", "arith.addf", "rock.yield"]


def test_constants_from_outside_are_brought_in():
    text = MEMREFS.replace("arith.addf %x, %y", "arith.mulf %x, %outside").replace(
        "linalg.yield %s", "%t = arith.addf %s, %y : f16\nlinalg.yield %t"
    )
    assert body_of(source(text))[2:] == ["arith.truncf", "arith.constant", "arith.mulf", "arith.addf", "rock.yield"]
    assert body_of(source(MEMREFS.replace("linalg.yield %s", "linalg.yield %outside")))[-2:] == [
        "arith.constant",
        "rock.yield",
    ]


def test_what_the_output_holds_already_is_read():
    text = (
        MEMREFS.replace("outs(%sum", "outs(%b")
        .replace("(%sum, %result)", "(%b, %result)")
        .replace("%y : f16", "%z : f16")
    )
    assert body_of(source(text)) == ["f32", "f16", "arith.truncf", "arith.addf", "rock.yield"]


def test_tensors():
    text = """^bb0(%qk: tensor<2x4x6xf32>, %b: tensor<2x4x6xf16>):
      %c = arith.constant dense<0.5> : tensor<2x4x6xf32>
      %w = arith.extf %b : tensor<2x4x6xf16> to tensor<2x4x6xf32>
      %s = arith.mulf %qk, %c : tensor<2x4x6xf32>
      %t = arith.addf %s, %w : tensor<2x4x6xf32>
      %e = math.tanh %t : tensor<2x4x6xf32>
      rock.yield %e : tensor<2x4x6xf32>"""
    assert body_of(source(text, "tensor")) == [
        *("f32", "f16"),
        *("arith.constant", "arith.extf", "arith.mulf", "arith.addf", "math.tanh", "rock.yield"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[#id, #id, #id]", "[#turned, #turned, #turned]", "indexing map that is not the identity"),
        ('"parallel"]}', '"reduction"]}', "iterator that is not parallel"),
        (
            "%x: f16, %y: f16, %z: f16):",
            "%x: f16, %y: f16, %z: f16):\n%m = memref.alloc() : memref<f16>",
            "'memref.alloc' in a",
        ),
        ("%y : f16", "%z : f16", "reads memref<2x4x6xf16> before it is written"),
        ("%y : f16", "%variable : f16", "a value from outside that is no constant"),
        (
            "  rock.yield",
            "  memref.dealloc %sum : memref<2x4x6xf16>\n  rock.yield",
            "'memref.dealloc' in a score region",
        ),
        (
            '"memref.copy"(%sum, %result) : (memref<2x4x6xf16>, memref<2x4x6xf16>) -> ()',
            "%p = rock.transform %sum by #part : memref<2x4x6xf16> to memref<2x4x3xf16>\n"
            "%whole = rock.transform %result by #part : memref<2x4x6xf16> to memref<2x4x3xf16>\n"
            '"memref.copy"(%p, %whole) : (memref<2x4x3xf16>, memref<2x4x3xf16>) -> ()',
            "'memref.copy' in a score region does not visit all scores one for one",
        ),
        ("%b: memref<2x4x6xf16>,", "%b: memref<2x4x6xf16>, %c: f16,", "mix scalars and memref"),
    ],
)
def test_what_is_not_elementwise_is_refused(old: str, new: str, message: str):
    assert old in MEMREFS
    with pytest.raises(XpagedError) as refusal:
        parse(source(MEMREFS.replace(old, new)))
    assert message in refusal.value.render()
    assert refusal.value.where


def test_a_constant_tensor_of_different_elements_is_refused():
    text = """^bb0(%qk: tensor<2x4x6xf32>, %b: tensor<2x4x6xf16>):
      %c = arith.constant dense<[[[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]]]> : tensor<1x1x6xf32>
      rock.yield %qk : tensor<2x4x6xf32>"""
    with pytest.raises(XpagedError, match="a constant in a score region has different elements"):
        parse(source(text, "tensor"))
