"""`migraphx.attention`: every rule of its verifier refuses with the values, every spelling round-trips."""

from dataclasses import replace

import pytest

from xpaged.dialects.migraphx.attention import FEATURES, AttentionOp
from xpaged.errors import XpagedError
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.testing.attention_op import AttentionOpGraph

G = AttentionOpGraph(kernel=False)
EVERYTHING = replace(
    G,
    kv_index=True,
    causal=True,
    prefix_offset=True,
    window=3,
    parts=2,
    lse=True,
    softmax_type="f32",
    body=("scale", "bias"),
    page_tokens=2,
)


@pytest.mark.parametrize("graph", [G, EVERYTHING, replace(EVERYTHING, rank=3, parts=1)])
def test_round_trips(graph: AttentionOpGraph):
    module = parse(graph.text)
    text = print_module(module)
    assert print_module(parse(text)) == text
    assert print_module(parse(print_module(module, generic=True))) == text
    (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    assert list(op.feature_names) == graph.features
    assert op.score_shape == graph.scores


def test_features_are_bits():
    assert FEATURES == ("kvcache", "causal", "prefix_offset", "sliding_window", "splitkv")
    text = G.text.replace("}  : <", "} features = causal : <")
    for spelled in ('"causal"', "causal|causal", '"causal | causal"'):
        module = parse(text.replace("features = causal", f"features = {spelled}"))
        assert "features = causal :" in print_module(module)
        assert "features = 2 : i32" in print_module(module, generic=True)


Q, K, V, R = (
    "<1x2x4x8xf16, 64x32x8x1>",
    "<1x1x8x8xf16, 64x64x8x1>",
    "<1x1x8x8xf16, 64x64x8x1>",
    "<1x2x4x8xf16, 64x32x8x1>",
)


def op(
    *,
    q: str = Q,
    k: str = K,
    v: str = V,
    to: str = R,
    clauses: str = "",
    body: str = "",
    options: str = "",
    more: str = "",
) -> str:
    """A module around one attention of the given types, `more` further arguments."""
    head = "".join(f", %{'cdef'[i]}: !migraphx.shaped{type}" for i, type in enumerate(more.split(";")) if type)
    two = ", %s" if ">, <" in to or ">, !" in to else ""
    return (
        f"func.func @f(%q: !migraphx.shaped{q}, %k: !migraphx.shaped{k}, %v: !migraphx.shaped{v}{head}) {{\n"
        f"  %r{two} = migraphx.attention %q, %k, %v {clauses} {{\n{body}}} {options} : {q}, {k}, {v} -> {to}\n"
        "  return\n}"
    )


def shaped(lengths: str, element: str = "f16") -> str:
    """A row-major short type from `2x3`."""
    numbers = [int(n) for n in lengths.split("x")]
    strides = [1]
    for n in reversed(numbers[1:]):
        strides.insert(0, strides[0] * n)
    return f"<{lengths}x{element}, {'x'.join(map(str, strides))}>"


S = shaped("1x2x4x8")
FULL = f"!migraphx.shaped{S}"


def body(lines: str, extra: str = FULL, score: str = FULL) -> str:
    """A body of the scores and one input."""
    return f"^bb0(%x: {score}, %y: {extra}):\n{lines}\n"


ADD = f"%z = migraphx.add %x, %y : {S}, {S} -> {S}\n"
YIELD = f"migraphx.yield %z : {FULL}"
IN = f"pre_softmax_inputs(%c : {FULL})"
INDEX, PREFIX = (
    f"{name}(%c : !migraphx.shaped{shaped('1x2', 'i32')})" for name in ("current_seq_len", "prefix_offset")
)
LAST = shaped("1x2", "i32")
LSE = f"{shaped('1x2x2x4x8')}, {shaped('1x2x2x4')}"

BAD = [
    (op(q=shaped("4x8")), r"all have rank 3 or all rank 4, found queries of shape \[4, 8\]"),
    (op(v=shaped("1x8x8")), r"all have rank 3 or all rank 4, found values of shape \[1, 8, 8\]"),
    (op(q=shaped("1x1x2x4x8")), "all have rank 3 or all rank 4"),
    (op(q="<1x2x?x8xf16, 64x32x8x1>"), "dynamic shapes are not supported"),
    (op(q=shaped("1x2x0x8")), "the lengths of the queries must be positive"),
    (op(k=shaped("1x1x6x8")), "head dimension 8, keys .* have 6"),
    (op(v=shaped("1x1x6x8")), "sequence length 8, values .* have 6"),
    (op(v=shaped("1x2x8x8")), r"leading dimensions of keys and values differ: \[1, 1\] and \[1, 2\]"),
    (op(q=shaped("2x2x4x8")), "queries have batch 2, keys and values have 1"),
    (op(q=shaped("2x4x8"), k=shaped("1x8x8"), v=shaped("1x8x8")), "fewer heads of keys and values need rank 4"),
    (op(q=shaped("1x3x4x8"), k=shaped("1x2x8x8"), v=shaped("1x2x8x8")), "3 heads of queries are no multiple of 2"),
    (op(q=shaped("1x1x4x8"), k=shaped("1x2x8x8"), v=shaped("1x2x8x8")), "1 heads of queries are no multiple of 2"),
    (op(k=shaped("1x1x8x8", "bf16")), "same element type, found f16 and bf16"),
    (
        op(q=shaped("1x2x4x8", "f8E4M3FN"), k=shaped("1x1x8x8", "f8E4M3FN")),
        "queries and keys must have elements of f32, f16, bf16 or i8, found f8E4M3FN",
    ),
    (op(q=shaped("1x2x4x8", "ui8"), k=shaped("1x1x8x8", "ui8")), "f32, f16, bf16 or i8, found ui8"),
    (op(v=shaped("1x1x8x8", "i8")), "values must have elements of f32, f16 or bf16, found i8"),
    (op(v=shaped("1x1x8x8", "f64")), "values must have elements of f32, f16 or bf16, found f64"),
    (op(options="softmax_type = i32"), "softmax_type must be f16, bf16 or f32, found i32"),
    (op(options="softmax_type = f64"), "softmax_type must be f16, bf16 or f32, found f64"),
    (op(options="features = prefix_offset"), "feature 'prefix_offset' requires 'causal' to be set"),
    (op(options="features = sliding_window slidingWindowSize = 4"), "'sliding_window' requires 'kvcache' to be set"),
    (op(options="features = kvcache"), "feature 'kvcache' requires the operand 'current_seq_len'"),
    (op(options='features = "causal|prefix_offset"'), "'prefix_offset' requires the operand 'prefix_offset'"),
    (
        op(clauses=INDEX, more=LAST, options='features = "kvcache|sliding_window"'),
        "'sliding_window' requires the attribute 'slidingWindowSize'",
    ),
    (op(options="features = splitkv"), "feature 'splitkv' requires the attribute 'splitKV'"),
    (op(clauses=INDEX, more=LAST), "the operand 'current_seq_len' requires feature 'kvcache'"),
    (op(clauses=PREFIX, more=LAST), "the operand 'prefix_offset' requires feature 'prefix_offset'"),
    (op(options="slidingWindowSize = 4"), "the attribute 'slidingWindowSize' requires feature 'sliding_window'"),
    (op(options="splitKV = 2"), "the attribute 'splitKV' requires feature 'splitkv'"),
    *(
        (
            op(clauses=INDEX, more=LAST, options=f'features = "kvcache|sliding_window" slidingWindowSize = {n}'),
            f"slidingWindowSize must lie between 1 and the key sequence length 8, found {n}",
        )
        for n in (-1, 0, 9)
    ),
    (op(options="features = splitkv splitKV = 1"), "'splitkv' requires splitKV > 1, found 1"),
    (op(options="features = splitkv splitKV = -2"), "'splitkv' requires splitKV > 1, found -2"),
    (op(options="features = splitkv splitKV = 3"), r"key sequence length \(8\) must be divisible by splitKV \(3\)"),
    (op(options="features = splitkv splitKV = 2", to=shaped("1x2x2x4x8")), "'splitkv' requires the LSE"),
    (
        op(clauses=INDEX.replace("i32", "i64"), more=shaped("1x2", "i64"), options="features = kvcache"),
        "current_seq_len must have elements of i32 or si32",
    ),
    (
        op(clauses=INDEX.replace("i32", "ui32"), more=shaped("1x2", "ui32"), options="features = kvcache"),
        "current_seq_len must have elements of i32 or si32",
    ),
    (
        op(clauses="current_seq_len(%c : <1xi32, 1>)", more="<1xi32, 1>", options="features = kvcache"),
        r"current_seq_len must be that of Q's leading dimensions, \[1, 2\], found \[1\]: broadcast it",
    ),
    (
        op(
            clauses="prefix_offset(%c : <1x1xi32, 1x1>)",
            more="<1x1xi32, 1x1>",
            options='features = "causal|prefix_offset"',
        ),
        r"prefix_offset must be that of Q's leading dimensions, \[1, 2\], found \[1, 1\]",
    ),
    (op(clauses=IN, more=S), "1 pre_softmax_inputs are given, but the body has no operations"),
    (op(clauses=IN, more=S, body=body(f"migraphx.yield %x : {FULL}")), "but the body has no operations"),
    (
        op(body=f"^bb0(%x: {FULL}):\n%z = migraphx.neg %x : {S} -> {S}\n{YIELD}\n"),
        "the body has operations, but there are no pre_softmax_inputs",
    ),
    (
        op(q=shaped("1x2x4x8", "i8"), k=shaped("1x1x8x8", "i8"), options="softmax_type = f32"),
        "scores of i32 need a body that makes floats of them",
    ),
    (
        op(body=f"^bb0(%x: {FULL}, %y: {FULL}):\nmigraphx.yield %x : {FULL}\n"),
        "an empty body takes the scores only, found 2",
    ),
    (
        op(
            clauses="pre_softmax_inputs(%c : <1x2x4x1xf16, 8x4x1x1>)",
            more="<1x2x4x1xf16, 8x4x1x1>",
            body=body(ADD + YIELD),
        ),
        r"must have the shape of the scores, \[1, 2, 4, 8\], found \[1, 2, 4, 1\]",
    ),
    (
        op(clauses=IN, more=S, body=body(ADD + YIELD), options="features = splitkv splitKV = 2", to=LSE),
        "of rank 4 does not have the rank of the scores of the parts, 5",
    ),
    (
        op(clauses=IN, more=S, body=f"^bb0(%x: {FULL}):\n%z = migraphx.neg %x : {S} -> {S}\n{YIELD}\n"),
        "must have 2 arguments",
    ),
    (
        op(
            clauses=IN,
            more=S,
            body=f"^bb0(%x: !migraphx.shaped{shaped('1x2x4x4')}, %y: {FULL}):\n"
            f"%z = migraphx.neg %y : {S} -> {S}\n{YIELD}\n",
        ),
        "argument 0 of the body is the scores, 1x2x4x8xf16",
    ),
    (
        op(
            clauses=IN,
            more=S,
            body=f"^bb0(%x: {FULL}, %y: !migraphx.shaped{shaped('1x2x4x8', 'f32')}):\n"
            f"%z = migraphx.neg %x : {S} -> {S}\n{YIELD}\n",
        ),
        "argument 1 of the body is pre_softmax_input 0, 1x2x4x8xf16",
    ),
    (
        op(clauses=IN, more=S, body=body(f"%z = migraphx.max %x, %y : {S}, {S} -> {S}\n{YIELD}")),
        "'migraphx.max' op: the body of an attention holds elementwise operations only: add, sub",
    ),
    (
        op(
            clauses=IN,
            more=S,
            body=body(f"%w = migraphx.reduce_sum %x {{axes = [3]}} : {S} -> {shaped('1x2x4x1')}\n{ADD}{YIELD}"),
        ),
        "'migraphx.reduce_sum' op: the body of an attention holds elementwise operations only",
    ),
    (
        op(clauses=IN, more=f"{S};{S}", body=body(f"%z = migraphx.add %x, %d : {S}, {S} -> {S}\n{YIELD}")),
        "the body uses a value from outside",
    ),
    (op(clauses=IN, more=S, body=body(ADD + "rock.yield")), "the body must end in migraphx.yield, found 'rock.yield'"),
    (op(clauses=IN, more=S, body=body(ADD + "migraphx.yield")), "must yield the scores .*, found 0 values"),
    (
        op(
            clauses=IN,
            more=S,
            body=body(
                ADD + f"%w = migraphx.convert %z : {S} to {shaped('1x2x4x8', 'si32')}\n"
                f"migraphx.yield %w : !migraphx.shaped{shaped('1x2x4x8', 'si32')}"
            ),
        ),
        "must yield floats of shape 1x2x4x8",
    ),
    (
        op(
            q=shaped("1x2x4x8", "i8"),
            k=shaped("1x1x8x8", "i8"),
            clauses=IN,
            more=S,
            options="softmax_type = f32",
            body=f"^bb0(%x: !migraphx.shaped{shaped('1x2x4x8', 'i32')}, %y: {FULL}):\n"
            f"%w = migraphx.neg %x : {shaped('1x2x4x8', 'i32')} -> {shaped('1x2x4x8', 'i32')}\n"
            f"%z = migraphx.convert %w : {shaped('1x2x4x8', 'i32')} to {S}\n{YIELD}\n",
        ),
        "'migraphx.neg' op: expected float elements",
    ),
    (op(v=shaped("1x1x8x8", "f32"), to=shaped("1x2x4x8", "f32")), r"softmax_type must be given .*\(f16\).* \(f32\)"),
    (op(to=shaped("1x2x4x6")), r"result must have shape \[1, 2, 4, 8\], found \[1, 2, 4, 6\]"),
    (op(to=shaped("1x2x4x8", "f32")), "result must have elements of f16, the type of the values"),
    (op(to=f"{R}, {shaped('1x2x5')}"), r"LSE must have shape \[1, 2, 4\], found \[1, 2, 5\]"),
    (op(to=f"{R}, {shaped('1x2x4', 'f32')}"), "LSE must have elements of f16, the type of the softmax"),
    (op(to=f"{R}, {shaped('1x2x4')}", options="softmax_type = f32"), "LSE must have elements of f32"),
    (
        op(options="features = splitkv splitKV = 2", to=f"{R}, {shaped('1x2x2x4')}"),
        r"result must have shape \[1, 2, 2, 4, 8\], found \[1, 2, 4, 8\]",
    ),
    (
        op(options="features = splitkv splitKV = 2", to=f"{shaped('1x2x2x4x8')}, {shaped('1x2x4')}"),
        r"LSE must have shape \[1, 2, 2, 4\]",
    ),
    # What does not parse.
    (op(options="features = casual"), r"unknown feature 'casual', expected one of kvcache, .*did you mean 'causal'"),
    (op(options='features = "causal|"'), "unknown feature ''"),
    (op(clauses="current_seq_len(%c, %c : <1x2xi32, 2x1>, <1x2xi32, 2x1>)", more=LAST), "one value in current_seq_len"),
    (op(to=f"{R}, {R}, {R}"), "expected one or two result types, found 3"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_refused(text: str, message: str):
    with pytest.raises(XpagedError, match=message) as caught:
        parse(text, "bad.mlir")
    assert "bad.mlir:" in caught.value.render()


def test_what_the_table_varies_is_accepted():
    for text in (
        op(),
        op(clauses=IN, more=S, body=body(ADD + YIELD)),
        op(clauses=INDEX, more=LAST, options='features = "kvcache|sliding_window" slidingWindowSize = 8'),
        op(clauses=INDEX.replace("i32", "si32"), more=shaped("1x2", "si32"), options="features = kvcache"),
        op(options="features = splitkv splitKV = 2", to=LSE),
        op(body=f"^bb0(%x: {FULL}):\nmigraphx.yield %x : {FULL}\n"),
        op(body="migraphx.yield\n"),
    ):
        parse(text)


def test_properties_in_the_attribute_dictionary_are_properties():
    text = replace(G, parts=2, lse=True).text
    assert " splitKV = 2 :" in text
    moved = text.replace(" splitKV = 2 :", " {splitKV = 2 : i32} :")
    assert print_module(parse(moved)) == print_module(parse(text))
    with pytest.raises(XpagedError, match="splitKV is given twice"):
        parse(text.replace(" splitKV = 2 :", " splitKV = 2 {splitKV = 2 : i32} :"))
