"""tosa-to-rock: what is fused, into what, and what stands in the way when it is not."""

import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.passes.tosa_graphs import SCORES, TO_ROCK, small
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.views import chain_of
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level, check_level
from xpaged.ir.locations import describe
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.passes.pipelines import lower
from xpaged.pipeline import Pipeline
from xpaged.testing.graphs import AttentionGraph
from xpaged.testing.respell import respell


def test_the_ir_of_the_docstring(docstring_ir: Callable[[str], tuple[ModuleOp, ModuleOp]]):
    before, after = docstring_ir("tosa-to-rock")
    Pipeline("tosa-to-rock").apply(before)
    assert print_module(before) == print_module(after)


def tosa(graph: AttentionGraph) -> ModuleOp:
    """The graph at level tosa, parsed from text so that it has places of its own."""
    return parse(print_module(lower(parse(graph.text), Level.TOSA)), "graph.mlir")


def attention_in(module: ModuleOp) -> AttentionOp:
    check_level(module, Level.ROCK)
    text = print_module(module)
    assert print_module(parse(text)) == text
    (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    return op


def fused(graph: AttentionGraph) -> AttentionOp:
    module = tosa(graph)
    TO_ROCK.apply(module)
    return attention_in(module)


# What is fused


def test_the_pages_of_keys_and_values_are_told_apart():
    op = fused(AttentionGraph())
    for view, pages, table in (
        (op.keys, op.keyAddresses, "key_pages"),
        (op.values, op.valueAddresses, "value_pages"),
    ):
        chain = chain_of(view)
        assert chain.root is pages
        assert chain.table is not None
        assert chain.table.root.name_hint == table
    assert describe(op).startswith("graph.mlir:")


@pytest.mark.parametrize(
    ("graph", "sizes", "heads"),
    [
        (AttentionGraph(), (2, 1, 4, 16, 8, 8, 1), (2, 1)),
        (AttentionGraph(heads_q=6, heads_kv=2, batch=2), (12, 4, 4, 16, 8, 8, 1), (6, 2)),
        (AttentionGraph(heads_q=3, heads_kv=3), (3, 3, 4, 16, 8, 8, 1), (3, 3)),
        (AttentionGraph(page_size=None, batch=2, heads_q=4, heads_kv=2), (8, 4, 4, 16, 8, 8, 1), (4, 2)),
        (AttentionGraph(dim_v=16, seq_q=1), (2, 1, 1, 16, 8, 16, 1), (2, 1)),
    ],
)
def test_sizes_and_heads(graph: AttentionGraph, sizes: tuple[int, ...], heads: tuple[int, int]):
    op = fused(graph)
    assert op.sizes == sizes
    assert (op.heads_q, op.heads_kv) == heads


@pytest.mark.parametrize(
    "given", ["", "attributes {kernel}", 'attributes {kernel = "mixr"}', "attributes {rock.kernel}"]
)
def test_a_function_with_attention_is_a_kernel(given: str):
    text = print_module(small()).replace("-> tensor<1x2x4xf16> {", f"-> tensor<1x2x4xf16> {given} {{")
    module = parse(text)
    TO_ROCK.apply(module)
    assert re.search(r"attributes \{rock.kernel( = \"mixr\")?\}", print_module(module))
    assert "{kernel" not in print_module(module)


def test_masks_become_operands_and_attributes():
    both = [fused(AttentionGraph(masks=masks)) for masks in (("index", "causal"), ("causal", "index"))]
    for op in both:
        assert op.causal is not None
        assert op.currentSeqLen is not None
        assert chain_of(op.currentSeqLen).root.name_hint == "kv_index"
    plain = fused(AttentionGraph(masks=()))
    assert plain.causal is None
    assert plain.currentSeqLen is None


def region(op: AttentionOp) -> list[str]:
    return [o.name for o in op.preSoftmaxBody.walk()] if op.preSoftmaxBody.blocks else []


def test_the_score_region():
    assert region(fused(AttentionGraph(scale=None))) == []
    assert region(fused(AttentionGraph())) == ["arith.constant", "arith.mulf", "rock.yield"]
    biased = fused(AttentionGraph(bias="full", scale=None))
    assert region(biased) == ["arith.extf", "arith.addf", "rock.yield"]
    assert [str(v.type) for v in biased.preSoftmaxElemWiseInputs] == ["tensor<2x4x16xf16>"]
    wide = fused(AttentionGraph(bias="full", scale=None, element="f32", page_size=32))
    assert region(wide) == ["arith.addf", "rock.yield"]


def test_explicit_narrowing_of_the_scores_is_kept():
    module = tosa(AttentionGraph(softmax_type="f32", scale=None, masks=()))
    text = print_module(module)
    cast = re.search(r"( *)(%\w+) = tosa.cast (%\w+) : \((tensor<1x2x4x16xf16>)\) -> (tensor<1x2x4x16xf32>)\n", text)
    assert cast is not None
    narrow = cast[0] + f"{cast[1]}%n = tosa.cast {cast[2]} : ({cast[5]}) -> {cast[4]}\n"
    narrow += f"{cast[1]}%w = tosa.cast %n : ({cast[4]}) -> {cast[5]}\n"
    before, after = text.split(cast[0])
    module = parse(before + narrow + re.sub(rf"{cast[2]}\b", "%w", after))
    TO_ROCK.apply(module)
    assert region(attention_in(module)) == ["arith.truncf", "arith.extf", "rock.yield"]


ARITHMETIC = {
    "tosa.abs": ["math.absf"],
    "tosa.ceil": ["math.ceil"],
    "tosa.floor": ["math.floor"],
    "tosa.erf": ["math.erf"],
    "tosa.exp": ["math.exp"],
    "tosa.log": ["math.log"],
    "tosa.negate": ["arith.negf"],
    "tosa.rsqrt": ["math.rsqrt"],
    "tosa.tanh": ["math.tanh"],
    "tosa.reciprocal": ["arith.constant", "arith.divf"],
    "tosa.sigmoid": ["arith.negf", "arith.constant", "math.exp", "arith.addf", "arith.constant", "arith.divf"],
    "tosa.identity": [],
    "tosa.sub": ["arith.subf"],
    "tosa.pow": ["math.powf"],
    "tosa.maximum": ["arith.maximumf"],
    "tosa.minimum": ["arith.minimumf"],
}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic_on_the_scores(name: str):
    unary = f"%x = {name} %s : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>"
    binary = f"%x = {name} %s, %s : {SCORES}"
    module = small(binary if name in ("tosa.sub", "tosa.pow", "tosa.maximum", "tosa.minimum") else unary)
    TO_ROCK.apply(module)
    names = region(attention_in(module))
    assert names[:-1] == ARITHMETIC[name]


def test_maximum_that_ignores_nan_and_selection_by_scores():
    module = small(
        f"""%b = tosa.maximum %s, %s {{nan_mode = #tosa.nan_mode<IGNORE>}} : {SCORES}
        %g = tosa.greater %s, %b : (tensor<1x2x3xf16>, tensor<1x2x3xf16>) -> tensor<1x2x3xi1>
        %x = tosa.select %g, %s, %b : (tensor<1x2x3xi1>, tensor<1x2x3xf16>, tensor<1x2x3xf16>) -> tensor<1x2x3xf16>"""
    )
    TO_ROCK.apply(module)
    assert region(attention_in(module)) == ["arith.maxnumf", "arith.cmpf", "arith.select", "rock.yield"]


@pytest.mark.parametrize("name", ["decode", "prefill"])
def test_the_shipped_twins_mean_the_same(name: str):
    """The graph at level migraphx, its twin at level tosa, and the twin in other words."""
    texts: list[str] = []
    for file in (f"{name}.mlir", f"{name}_tosa.mlir"):
        module = parse((files("xpaged.examples") / file).read_text(), file)
        texts.append(print_module(lower(module, Level.ROCK)))
    module = parse((files("xpaged.examples") / f"{name}_tosa.mlir").read_text())
    respell(module)
    assert any(op.name == "tensor.extract_slice" for op in module.walk())
    texts.append(print_module(lower(module, Level.ROCK)))
    assert texts[0] == texts[1] == texts[2]


def test_older_spellings():
    """Products without zero points, permutations as constants, sums with zeros as broadcasts."""
    text = print_module(tosa(AttentionGraph()))
    wanted = print_module(lower(parse(text), Level.ROCK))
    old = re.sub(r"(tosa.matmul %\w+, %\w+), %\w+, %\w+ (.*), tensor<1xf16>, tensor<1xf16>\)", r"\1 \2)", text)
    old = re.sub(r"<\{values = ", "<{value = ", old)

    def permutation_as_operand(m: re.Match[str]) -> str:
        type = f"tensor<{m[3].count(',') + 1}xi32>"
        const = f'{m[1]}%perm{m.start()} = "tosa.const"() <{{value = dense<[{m[3]}]> : {type}}}> : () -> {type}\n'
        return f"{const}{m[1]}{m[2]}, %perm{m.start()} : ({m[4]}, {type})"

    old = re.sub(
        r"( *)(%\w+ = tosa.transpose %\w+) \{perms = array<i32: ([\d, ]+)>\} : \((tensor<[\dx]+f16>)\)",
        permutation_as_operand,
        old,
    )
    assert "%perm" in old
    assert "acc_type = f32} : (tensor<2x4x8xf16>, tensor<2x8x16xf16>) ->" in old
    assert print_module(lower(parse(old), Level.ROCK)) == wanted


# What is refused


def refused(module: ModuleOp, message: str) -> str:
    with pytest.raises(XpagedError) as caught:
        TO_ROCK.apply(module)
    rendered = caught.value.render()
    assert rendered.startswith(("small.mlir:", "graph.mlir:"))
    assert re.search(message, rendered), rendered
    return rendered


CUMULATED = "%y = tosa.reduce_sum %{0} {{axis = 1 : i32}} : (tensor<1x2x4xf16>) -> tensor<1x1x4xf16>"
NORM = f"""{CUMULATED.format("q")}
  %q2 = tosa.mul %q, %y : (tensor<1x2x4xf16>, tensor<1x1x4xf16>) -> tensor<1x2x4xf16>"""
NOT_FUSED = {
    "q of a norm": (
        {"before": NORM, "q": "%q2"},
        "'tosa.reduce_sum' outside the attention at small.mlir",
        "used by 'tosa.mul'; it computes Q of the attention",
    ),
    "q joined": (
        {
            "before": "%q2 = tosa.concat %h, %h {axis = 2 : i32} : "
            "(tensor<1x2x2xf16>, tensor<1x2x2xf16>) -> tensor<1x2x4xf16>",
            "arguments": "%h: tensor<1x2x2xf16>, ",
            "q": "%q2",
        },
        "'tosa.concat' outside the attention",
        "used by 'rock.attention'",
    ),
    "a projection": (
        {
            "before": "%q2 = tosa.matmul %q, %wq : (tensor<1x2x4xf16>, tensor<1x4x4xf16>) -> tensor<1x2x4xf16>",
            "arguments": "%wq: tensor<1x4x4xf16>, ",
            "q": "%q2",
        },
        "a product outside attention",
        "it computes Q of the attention",
    ),
    "no softmax": (
        {"weights": "%b = tosa.abs %a : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>", "p": "%b"},
        "a product outside attention",
        "'tosa.abs'",
    ),
    "squares": (
        {"weights": f"%b = tosa.mul %a, %a : {SCORES}", "p": "%b"},
        "a product outside attention",
        r"not exp\(..\) \* reciprocal",
    ),
    "no maximum": ({"exponent": "%x"}, "must subtract the largest score", "tosa.matmul"),
    "other maximum": ({"maximum": "%ninf"}, "maximum of a softmax is not that of the same", ""),
    "other sum": ({"total": "%x"}, "sum of a softmax is not that of the same", ""),
    "after": (
        {"after": CUMULATED.format("o"), "returned": "%y", "result": "tensor<1x1x4xf16>"},
        "'tosa.reduce_sum' outside the attention at small.mlir",
        "used by 'func.return'; it works on the output of the attention",
    ),
    "weights returned": ({"returned": "%a", "result": "tensor<1x2x3xf16>"}, "a product outside", "not a softmax"),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "message", "found"), NOT_FUSED.values(), ids=NOT_FUSED)
def test_what_stands_in_the_way(parts: dict[str, Any], message: str, found: str):
    assert re.search(found, refused(small(**parts), message))


SCORE_PARTS = {
    "doubles": (
        "%i = tosa.cast %s : (tensor<1x2x3xf16>) -> tensor<1x2x3xf64>\n"
        "  %x = tosa.cast %i : (tensor<1x2x3xf64>) -> tensor<1x2x3xf16>",
        "scores of more than 32 bits",
    ),
    "two products": (
        "%y = tosa.matmul %q, %k : (tensor<1x2x4xf16>, tensor<1x4x3xf16>) -> tensor<1x2x3xf16>\n"
        f"  %x = tosa.add %s, %y : {SCORES}",
        "made of two products",
    ),
    "a reduction": (
        "%y = tosa.reduce_sum %s {axis = 1 : i32} : (tensor<1x2x3xf16>) -> tensor<1x1x3xf16>\n"
        "  %x = tosa.add %s, %y : (tensor<1x2x3xf16>, tensor<1x1x3xf16>) -> tensor<1x2x3xf16>",
        "found: 'tosa.reduce_sum'",
    ),
    "turned round": (
        "%y = tosa.reshape %s {new_shape = array<i64: 1, 3, 2>} : (tensor<1x2x3xf16>) -> tensor<1x3x2xf16>\n"
        "  %x = tosa.transpose %y {perms = array<i32: 0, 2, 1>} : (tensor<1x3x2xf16>) -> tensor<1x2x3xf16>",
        "in the order in which the product makes them",
    ),
    "no product": (
        "%x = tosa.reshape %e {new_shape = array<i64: 1, 2, 3>} : (tensor<6xf16>) -> tensor<1x2x3xf16>",
        "not that of the scores of a product",
    ),
}


@pytest.mark.parametrize(("scores", "message"), SCORE_PARTS.values(), ids=SCORE_PARTS)
def test_what_cannot_be_part_of_the_scores(scores: str, message: str):
    refused(small(scores), message)


def test_k_and_v_are_paged_both_or_neither():
    paged, plain = (print_module(tosa(AttentionGraph(page_size=p))) for p in (32, None))
    values = re.search(r"%values: tensor<\w+>", plain)
    assert values is not None
    text = paged.replace("%value_pages", f"{values[0]}, %value_pages", 1)
    cache = re.search(r"(%\w+) = tosa.custom .*\n", text)
    assert cache is not None
    given = f"""{cache[1]}s = tosa.slice %values {{start = array<i64: 0>, size = array<i64: 128>}} : (tensor<256xf16>) -> tensor<128xf16>
    {cache[1]} = tosa.reshape {cache[1]}s {{new_shape = array<i64: 1, 4, 32>}} : (tensor<128xf16>) -> tensor<1x4x32xf16>
    """  # noqa: E501
    rendered = refused(
        parse(text.replace(cache[0], given), "graph.mlir"), "K of an attention is read from pages, but V"
    )
    assert "V is a view of the function argument %values" in rendered


def test_derefs_come_first():
    with pytest.raises(XpagedError, match="a read through addresses is left") as caught:
        Pipeline("tosa-to-rock").apply(tosa(AttentionGraph()))
    assert "run tosa-to-rock-deref before" in caught.value.render()


def test_a_function_without_attention():
    text = """func.func @f(%x: tensor<2xf16>) -> tensor<1xf16> {
      %0 = tosa.reduce_sum %x {axis = 0 : i32} : (tensor<2xf16>) -> tensor<1xf16>
      return %0 : tensor<1xf16>
    }"""
    with pytest.raises(XpagedError, match=r"'tosa.reduce_sum' in a function without attention"):
        TO_ROCK.apply(parse(text))


@pytest.mark.parametrize(
    ("source", "result", "message"),
    [
        ("tensor<?x4xf16>", "tensor<?xf16>", "dynamic shapes are not supported"),
        ("tensor<0x4xf16>", "tensor<0xf16>", "a tensor without elements is not supported"),
    ],
)
def test_lengths_that_are_not_known_or_zero(source: str, result: str, message: str):
    text = f"""func.func @f(%x: {source}) -> {result} {{
      %0 = tensor.collapse_shape %x [[0, 1]] : {source} into {result}
      return %0 : {result}
    }}"""
    with pytest.raises(XpagedError, match=message):
        TO_ROCK.apply(parse(text))


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("tensor.collapse_shape %x [[0, 1]] : tensor<2x3xf16> into tensor<5xf16>", "changes the number of elements"),
        ("tensor.extract_slice %x[0, 0] [1, 2] [1, 2] : tensor<2x3xf16> to tensor<1x2xf16>", "strides of 1"),
        ("tensor.extract_slice %x[1, 0] [2, 3] [1, 1] : tensor<2x3xf16> to tensor<2x3xf16>", "reaches outside"),
        ("tensor.extract_slice %x[0, 0] [1, 3] [1, 1] : tensor<2x3xf16> to tensor<2xf16>", "result of other lengths"),
    ],
)
def test_malformed_views(op: str, message: str):
    result = op.split(" ")[-1]
    text = f"func.func @f(%x: tensor<2x3xf16>) -> {result} {{\n  %0 = {op}\n  return %0 : {result}\n}}"
    with pytest.raises(XpagedError, match=message):
        TO_ROCK.apply(parse(text))
