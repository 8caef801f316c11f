"""Elementwise kernels, pass by pass: what becomes one, what it looks like, and what cannot be one."""

import re

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.ops import GenericOp

from tests.passes.tosa_graphs import TO_ROCK, small
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level, check_level
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.lowering.fusion_report import explain_fusion
from xpaged.pipeline import Pipeline

HEAD = 'attributes {rock.kernel, arch = "gfx942"}'


def kernels(module: ModuleOp) -> list[GenericOp]:
    check_level(module, Level.ROCK)
    text = print_module(module)
    assert print_module(parse(text)) == text
    return [op for op in module.walk() if isinstance(op, GenericOp)]


def alone(body: str, result: str, returned: str = "%r", arguments: str = "%x: tensor<4x6xf16>") -> ModuleOp:
    """A function that holds only `body`, at level rock."""
    types = re.sub(r"^\((.*)\)$", r"\1", result)
    module = parse(f"func.func @f({arguments}) -> {result} {{\n  {body}\n  return {returned} : {types}\n}}", "g.mlir")
    TO_ROCK.apply(module)
    return module


def arithmetic(op: GenericOp) -> list[str]:
    return [inner.name for inner in op.body.block.ops]


# What becomes a kernel


def test_values_that_are_used_twice_lie_in_memory_only_where_they_must():
    shared = """%a = tosa.abs %x : (tensor<4x6xf16>) -> tensor<4x6xf16>
      %b = tosa.negate %a : (tensor<4x6xf16>) -> tensor<4x6xf16>
      %r = tosa.add %a, %b : (tensor<4x6xf16>, tensor<4x6xf16>) -> tensor<4x6xf16>"""
    (one,) = kernels(alone(shared, "tensor<4x6xf16>"))
    assert arithmetic(one).count("math.absf") == 1
    assert len(one.inputs) == 1
    two = kernels(alone(shared, "(tensor<4x6xf16>, tensor<4x6xf16>)", "%r, %a"))
    assert [op.results[0].name_hint for op in two] == ["a", "r"]
    assert two[1].inputs[0] is two[0].results[0]
    assert "math.absf" not in arithmetic(two[1])


def test_a_function_of_elementwise_operations_is_a_kernel():
    body = "%r = tosa.exp %x : (tensor<4x6xf16>) -> tensor<4x6xf16>"
    assert "attributes {rock.kernel}" in print_module(alone(body, "tensor<4x6xf16>"))
    text = print_module(alone("", "tensor<4x6xf16>", "%x"))
    assert "linalg" not in text


def test_views_between_operations_are_part_of_the_kernel():
    body = """%a = tosa.abs %x : (tensor<4x6xf16>) -> tensor<4x6xf16>
      %t = tosa.transpose %a {perms = array<i32: 1, 0>} : (tensor<4x6xf16>) -> tensor<6x4xf16>
      %r = tosa.negate %t : (tensor<6x4xf16>) -> tensor<6x4xf16>"""
    (op,) = kernels(alone(body, "tensor<6x4xf16>"))
    assert op.inputs[0].owner.name == "rock.transform"  # pyright: ignore[reportAttributeAccessIssue]
    assert arithmetic(op)[:3] == ["arith.extf", "math.absf", "arith.negf"]


PADS = """%pads = tosa.const_shape {{values = dense<[0, 0, 1, 2]> : tensor<4xindex>}} : () -> !tosa.shape<4>
      %with = "tosa.const"() <{{values = dense<{0}> : tensor<1xf16>}}> : () -> tensor<1xf16>
      %r = tosa.pad %x, %pads, %with : (tensor<4x6xf16>, !tosa.shape<4>, tensor<1xf16>) -> tensor<4x9xf16>"""


def test_padding_with_zeros_is_a_view_and_with_others_a_selection():
    (zeros,) = kernels(alone(PADS.format("0.0"), "tensor<4x9xf16>"))
    assert arithmetic(zeros) == ["linalg.yield"]
    (ones,) = kernels(alone(PADS.format("1.0"), "tensor<4x9xf16>"))
    assert {"arith.cmpi", "arith.select"} <= set(arithmetic(ones))


def test_what_stands_before_q_and_after_the_output():
    other = "tosa.abs %{} : (tensor<1x2x4xf16>) -> tensor<1x2x4xf16>"
    module = small(before="%q2 = " + other.format("q"), q="%q2", after="%y = " + other.format("o"), returned="%y")
    reasons = {each.reason for each in explain_fusion(module) if each.name == "tosa.abs"}
    assert {reason.partition(",")[0] for reason in reasons} == {"in an elementwise kernel"}
    TO_ROCK.apply(module)
    before, after = kernels(module)
    names = [op.name for op in module.walk()]
    assert names.index("rock.attention") > names.index("linalg.generic")
    assert {use.operation.name for use in before.results[0].uses} == {"rock.attention"}
    assert {use.operation.name for use in after.results[0].uses} == {"func.return"}


# What cannot


@pytest.mark.parametrize(
    ("body", "result", "message", "found"),
    [
        (
            "%r = tosa.reduce_max %x {axis = 0 : i32} : (tensor<4x6xf16>) -> tensor<1x6xf16>",
            "tensor<1x6xf16>",
            "'tosa.reduce_max' in a function without attention",
            "used by 'func.return'",
        ),
        (
            "%c = tosa.cast %x : (tensor<4x6xf16>) -> tensor<4x6xf64>\n"
            "  %r = tosa.exp %c : (tensor<4x6xf64>) -> tensor<4x6xf64>",
            "tensor<4x6xf64>",
            "an elementwise kernel cannot compute this|more than 32 bits",
            "f64",
        ),
    ],
)
def test_what_no_kernel_computes(body: str, result: str, message: str, found: str):
    with pytest.raises(XpagedError, match=message) as caught:
        alone(body, result)
    assert found in caught.value.render()


def test_arithmetic_on_pages_outside_attention():
    body = """%i = "tosa.const"() <{values = dense<[[[0, 2, 4, 6]]]> : tensor<1x1x4xi64>}> : () -> tensor<1x1x4xi64>
      %w = tosa.add %t, %i : (tensor<1x3x1xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4xi64>
      %a = tosa.custom %w {domain_name = "rocmlir", implementation_attrs = "", operator_name = "deref"} :
        (tensor<1x3x4xi64>) -> tensor<1x3x4xf16>
      %r = tosa.abs %a : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>"""
    with pytest.raises(XpagedError, match="pages are read inside of an attention only") as caught:
        alone(body, "tensor<1x3x4xf16>", arguments="%t: tensor<1x3x1xi64>")
    assert caught.value.render().startswith("g.mlir:")


def generic(
    maps: str = "affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>",
    kinds: str = '"parallel"',
    body: str = "linalg.yield %a : f16",
    ins: str = "%x : memref<8xf16>",
    outs: str = "%out : memref<8xf16>",
    block: str = "%a: f16, %o: f16",
    more: str = "",
) -> str:
    return f"""func.func @f(%x: memref<8xf16>, %y: memref<8x8xf16>, %out: memref<8xf16>, %out2: memref<8xf16>) {HEAD} {{
      {more}
      linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} ins({ins}) outs({outs}) {{
      ^bb0({block}):
        {body}
      }}
      return
    }}"""


ONE = "affine_map<(d0) -> (d0)>"
REFUSED = {
    "two results": (
        generic(f"{ONE}, {ONE}, {ONE}", outs="%out, %out2 : memref<8xf16>, memref<8xf16>",
                block="%a: f16, %o: f16, %p: f16", body="linalg.yield %a, %a : f16, f16"),
        "an elementwise kernel has one result",
    ),
    "a reduction": (
        generic("affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>", '"parallel", "reduction"',
                ins="%y : memref<8x8xf16>"),
        "a reduction outside attention is not supported",
    ),
    "the output turned": (
        generic("affine_map<(d0) -> (d0)>, affine_map<(d0) -> (7 - d0)>"),
        "indexed by the iterations in order",
    ),
    "a diagonal": (
        generic(f"affine_map<(d0) -> (d0, d0)>, {ONE}", ins="%y : memref<8x8xf16>"),
        "indexes its operands by iterations and constants",
    ),
    "reads its output": (
        generic(body="%s = arith.addf %a, %o : f16\n linalg.yield %s : f16"),
        "does not read what it writes",
    ),
    "in place": (generic(ins="%out : memref<8xf16>"), "both reads and writes"),
    "from outside": (
        generic(more="%c = arith.constant 1.0 : f16", body="%s = arith.addf %a, %c : f16\n linalg.yield %s : f16"),
        "uses a value from outside",
    ),
    "no arithmetic": (
        generic(body='%s = "test.op"(%a) : (f16) -> f16\n linalg.yield %s : f16'),
        "holds arithmetic only|unregistered|not registered|unknown",
    ),
    "two things": (
        generic(more='"memref.copy"(%x, %out2) : (memref<8xf16>, memref<8xf16>) -> ()'),
        "a kernel does one thing, for which the launch is made, and this is a second 'linalg.generic'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_what_gemm_to_gridwise_refuses(text: str, message: str):
    with pytest.raises(XpagedError, match=message):
        Pipeline("gemm-to-gridwise").apply(parse(text, "k.mlir"))


def test_a_launch_that_is_too_large():
    text = generic().replace("memref<8xf16>", f"memref<{2**44}xf16>")
    with pytest.raises(XpagedError, match="more workgroups than a launch can hold"):
        Pipeline("gemm-to-gridwise").apply(parse(text))


# What the kernels look like


def at_device(text: str) -> str:
    module = parse(text)
    Pipeline("gemm-to-gridwise,gridwise-to-tile,place-barriers,tile-to-device").apply(module)
    return print_module(module)


@pytest.mark.parametrize(("element", "vector"), [("f16", 8), ("f32", 4)])
def test_whole_vectors_are_read_and_written(element: str, vector: int):
    text = at_device(generic().replace("8xf16", f"8192x{element}").replace("f16", element))
    assert f"-> vector<{vector}x{element}>" in text
    assert len(re.findall("hip.load", text)) == len(re.findall("hip.store", text)) == 1
    assert f"rock.grid_size = {8192 // (256 * vector)} : i32, rock.block_size = 256 : i32" in text
    assert " if " not in text


def test_the_order_is_that_of_the_output_in_memory():
    """An output whose dimensions lie turned round is written whole vector by whole vector."""
    turn = (
        "#turn = #rock.transform_map<affine_map<(d0, d1) -> (d1, d0)> by "
        '[<PassThrough ["a", "b"] at [0, 1] -> ["a", "b"] at [1, 0]>] bounds = [64, 32] -> [32, 64]>\n'
    )
    two = "affine_map<(d0, d1) -> (d0, d1)>"
    text = f"""{turn}func.func @f(%x: memref<64x32xf16>, %out: memref<32x64xf16>) {HEAD} {{
      %t = rock.transform %out by #turn : memref<32x64xf16> to memref<64x32xf16>
      linalg.generic {{indexing_maps = [{two}, {two}], iterator_types = ["parallel", "parallel"]}}
          ins(%x : memref<64x32xf16>) outs(%t : memref<64x32xf16>) {{
      ^bb0(%a: f16, %o: f16):
        linalg.yield %a : f16
      }}
      return
    }}"""
    device = at_device(text)
    assert len(re.findall("hip.store", device)) == 1
    assert len(re.findall("hip.load", device)) == 8
