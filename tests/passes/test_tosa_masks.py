"""tosa-to-rock, masks: each form as what the attention states, or as arithmetic on the scores, and as numbers.

The tables say by hand which keys each query keeps; a zero Q makes the weights of all of them equal, so the output of a
query shows them, and the levels from rock on must show them alike.
"""

# ruff: noqa: E501
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.passes.tosa_graphs import TO_ROCK, masked, small
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.interpreter.run import run
from xpaged.ir.levels import MODULE_LEVELS, Level
from xpaged.lowering.fusion_report import explain_fusion

QUERIES, KEYS = 3, 4
I32, BOOL = "tensor<{}xi32>", "tensor<{}xi1>"
SHAPES = {"%cols": "1x1x4", "%rows": "1x3x1", "%n3": "1x1x1", "%m3": "1x1x1", "%w3": "1x1x4"}


def operation(result: str, name: str, a: str, b: str, element: str = "i32") -> str:
    """`%result = tosa.name %a, %b`; shapes are known by the names of values, and broadcast."""
    shapes = [SHAPES[x].split("x") for x in (a, b)]
    whole = "x".join(max(pair, key=int) for pair in zip(*shapes, strict=True))
    SHAPES[result] = whole
    types = ", ".join(I32.format(SHAPES[x]) for x in (a, b))
    return f"{result} = tosa.{name} {a}, {b} : ({types}) -> tensor<{whole}x{element}>"


def number(name: str, value: int) -> str:
    SHAPES[name] = "1x1x1"
    return f'{name} = "tosa.const"() <{{values = dense<{value}> : tensor<1x1x1xi32>}}> : () -> tensor<1x1x1xi32>'


def compare(a: str, b: str, name: str = "greater", result: str = "%c") -> str:
    return operation(result, name, a, b, "i1")


def lines(*each: str) -> str:
    return "\n  ".join(each)


def one(condition: str, **options: Any) -> str:
    return masked(condition, queries=QUERIES, keys=KEYS, **options)


def both(first: str, second: str) -> str:
    """Two masks, one after the other; the second's values have names of their own."""
    inner = one(first).replace("%x = ", "%y = ").replace("%c = ", "%c0 = ").replace("select %c,", "select %c0,")
    return inner + "\n  " + one(second).replace("%s :", "%y :")


def constant(values: str, shape: str, element: str) -> str:
    return f'%c = "tosa.const"() <{{values = dense<{values}> : tensor<{shape}x{element}>}}> : () -> tensor<{shape}x{element}>'


def added(values: str, shape: str = "1x3x4") -> str:
    total = f"(tensor<1x3x4xf16>, tensor<{shape}xf16>) -> tensor<1x3x4xf16>"
    return f"{constant(values, shape, 'f16')}\n  %x = tosa.add %s, %c : {total}"


@dataclass(frozen=True)
class Form:
    """Lines that make `%x` of the scores `%s`; `n` and `m` are lengths, `kept` a row of 0 and 1 a query.

    `stated` is what the attention says of its masks; `region` whether anything of them is left to the score region.
    """

    scores: str
    kept: str
    n: int = 0
    m: int = 0
    stated: Mapping[str, Any] = field(default_factory=dict[str, Any])
    region: bool = False


def index(**rest: Any) -> dict[str, Any]:
    """A KV index beside other masks."""
    return {"index": "%n", **rest}


ALL, CAUSAL = "1111 1111 1111", "1000 1100 1110"
ONE, TWO = number("%one", 1), number("%two", 2)
CLIP = lines(
    number("%zero", 0), number("%three", 3), operation("%n0", "maximum", "%n3", "%zero"),
    operation("%nc", "minimum", "%n0", "%three"),
)  # fmt: skip
WINDOW = lines(TWO, operation("%low", "sub", "%nc", "%two"))

FORMS = {
    # The last valid key
    "key > index": Form(one(compare("%cols", "%n3")), "1110 1110 1110", 2, stated=index()),
    "no key": Form(one(compare("%cols", "%n3")), "0000 0000 0000", -1, stated=index()),
    "an index past the end": Form(one(compare("%cols", "%n3")), ALL, 9, stated=index()),
    "index >= key is kept": Form(
        one(compare("%n3", "%cols", "greater_equal"), kept_first=True), "1100 1100 1100", 1, stated=index()
    ),
    "key >= count": Form(
        one(compare("%cols", "%n3", "greater_equal")), "1100 1100 1100", 2, stated=index(index_add=-1)
    ),
    "no keys by count": Form(
        one(compare("%cols", "%n3", "greater_equal")), "0000 0000 0000", 0, stated=index(index_add=-1)
    ),
    "count > key is kept": Form(
        one(compare("%n3", "%cols"), kept_first=True), "1110 1110 1110", 3, stated=index(index_add=-1)
    ),
    "key + 1 > count": Form(
        one(lines(ONE, operation("%next", "add", "%cols", "%one"), compare("%next", "%n3"))),
        "1100 1100 1100", 2, stated=index(index_add=-1),
    ),
    "key > count - 1": Form(
        one(lines(ONE, operation("%last", "sub", "%n3", "%one"), compare("%cols", "%last"))),
        "1100 1100 1100", 2, stated=index(index_add=-1),
    ),
    "clipped, below": Form(
        one(lines(CLIP, compare("%cols", "%nc"))), "1000 1000 1000", -7, stated=index(index_clamp=(0, 2**31 - 1))
    ),
    "clipped, above": Form(
        one(lines(CLIP, compare("%cols", "%nc"))), ALL, 70, stated=index(index_clamp=(0, 2**31 - 1))
    ),
    "clipped below the end": Form(
        one(lines(ONE, operation("%nc", "minimum", "%n3", "%one"), compare("%cols", "%nc"))), "1100 1100 1100", 3,
        stated=index(index_clamp=(-(2**31), 1)),
    ),
    "a constant index": Form(one(lines(ONE, compare("%cols", "%one"))), "1100 1100 1100", stated={"index": 1}),
    "not": Form(
        one(lines(compare("%cols", "%n3", result="%g"), "%c = tosa.logical_not %g : (tensor<1x1x4xi1>) -> tensor<1x1x4xi1>"),
            kept_first=True), "1110 1110 1110", 2, stated=index(),
    ),
    "through integers": Form(
        one(lines(compare("%cols", "%n3", result="%g"), "%i = tosa.cast %g : (tensor<1x1x4xi1>) -> tensor<1x1x4xi8>",
                  "%c = tosa.cast %i : (tensor<1x1x4xi8>) -> tensor<1x1x4xi1>")), "1110 1110 1110", 2, stated=index(),
    ),
    # Causal
    "key > query": Form(one(compare("%cols", "%rows")), CAUSAL, stated={"causal": True}),
    "query >= key is kept": Form(
        one(compare("%rows", "%cols", "greater_equal"), kept_first=True), CAUSAL, stated={"causal": True}
    ),
    "key >= query + 1": Form(
        one(lines(ONE, operation("%next", "add", "%rows", "%one"), compare("%cols", "%next", "greater_equal"))),
        CAUSAL, stated={"causal": True},
    ),
    "a constant truth": Form(
        one(constant("[[[false, true, true, true], [false, false, true, true], [false, false, false, true]]]", "1x3x4", "i1")),
        CAUSAL, stated={"causal": True},
    ),
    "a constant of integers": Form(
        one(lines(constant("[[[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]]]", "1x3x4", "i8").replace("%c ", "%i "),
                  "%c = tosa.cast %i : (tensor<1x3x4xi8>) -> tensor<1x3x4xi1>")), CAUSAL, stated={"causal": True},
    ),
    "a constant that is added": Form(
        added("[[[0.0, 0xFC00, 0xFC00, 0xFC00], [0.0, 0.0, 0xFC00, 0xFC00], [0.0, 0.0, 0.0, 0xFC00]]]"),
        CAUSAL, stated={"causal": True},
    ),
    "a selection that is added": Form(
        lines(compare("%cols", "%rows"),
              '%z = "tosa.const"() <{values = dense<0.0> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>',
              "%b = tosa.select %c, %ninf, %z : (tensor<1x3x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>",
              "%x = tosa.add %b, %s : (tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>"),
        CAUSAL, stated={"causal": True},
    ),
    "bottom right": Form(
        one(lines(ONE, operation("%next", "add", "%rows", "%one"), compare("%cols", "%next"))),
        "1100 1110 1111", stated={"causal": True, "offset": 1},
    ),
    "strictly below": Form(
        one(compare("%cols", "%rows", "greater_equal")), "0000 1000 1100", stated={"causal": True, "offset": -1}
    ),
    "a constant with an offset": Form(
        one(constant("[[[true, true, true, true], [false, true, true, true], [false, false, true, true]]]", "1x3x4", "i1")),
        "0000 1000 1100", stated={"causal": True, "offset": -1},
    ),
    # With an offset for each sequence
    "key > query + offset": Form(
        one(lines(operation("%far", "add", "%rows", "%m3"), compare("%cols", "%far"))),
        "1100 1110 1111", m=1, stated={"causal": True, "offset": "%m"},
    ),
    "key > query + (length - 3)": Form(
        one(lines(number("%three", 3), operation("%off", "sub", "%m3", "%three"), operation("%far", "add", "%off", "%rows"),
                  compare("%cols", "%far"))),
        "1100 1110 1111", m=4, stated={"causal": True, "offset": "%m", "offset_add": -3},
    ),
    "a negative offset": Form(
        one(lines(operation("%far", "add", "%rows", "%m3"), compare("%cols", "%far"))),
        "0000 0000 1000", m=-2, stated={"causal": True, "offset": "%m"},
    ),
    # Several
    "index, then causal": Form(
        both(compare("%cols", "%n3"), compare("%cols", "%rows")), "1000 1100 1100", 1, stated=index(causal=True)
    ),
    "causal, then index": Form(
        both(compare("%cols", "%rows"), compare("%cols", "%n3")), "1000 1100 1100", 1, stated=index(causal=True)
    ),
    "offset, then index": Form(
        both(lines(operation("%far", "add", "%rows", "%m3"), compare("%cols", "%far")), compare("%cols", "%n3")),
        "1100 1110 1110", 2, 1, stated=index(causal=True, offset="%m"),
    ),
    "one condition for both": Form(
        one(lines(compare("%cols", "%n3", result="%a1"), compare("%cols", "%rows", result="%a2"),
                  "%c = tosa.logical_or %a1, %a2 : (tensor<1x1x4xi1>, tensor<1x3x4xi1>) -> tensor<1x3x4xi1>")),
        "1000 1100 1100", 1, stated=index(causal=True),
    ),
    "both conditions are kept": Form(
        one(lines(compare("%n3", "%cols", "greater_equal", "%a1"), compare("%rows", "%cols", "greater_equal", "%a2"),
                  "%c = tosa.logical_and %a1, %a2 : (tensor<1x1x4xi1>, tensor<1x3x4xi1>) -> tensor<1x3x4xi1>"), kept_first=True),
        "1000 1100 1100", 1, stated=index(causal=True),
    ),
    "the same twice": Form(
        both(compare("%cols", "%n3"), lines(compare("%n3", "%cols", "greater_equal", "%keeps"),
                                            "%c = tosa.logical_not %keeps : (tensor<1x1x4xi1>) -> tensor<1x1x4xi1>")),
        "1110 1110 1110", 2, stated=index(),
    ),
    "a mask of nothing": Form(
        one(lines(number("%big", 3), compare("%cols", "%big"))), ALL, stated={}
    ),
    # Sliding windows: W + 1 keys
    "a window of 2": Form(
        both(lines(CLIP, compare("%cols", "%nc")), lines(WINDOW, compare("%low", "%cols"))),
        "0111 0111 0111", 3, stated=index(window=2, index_clamp=(0, 2**31 - 1)),
    ),
    "a window of 2 at 1": Form(
        both(lines(CLIP, compare("%cols", "%nc")), lines(WINDOW, compare("%low", "%cols"))),
        "1100 1100 1100", 1, stated=index(window=2, index_clamp=(0, 2**31 - 1)),
    ),
    "a window before the index": Form(
        both(lines(CLIP, WINDOW, compare("%low", "%cols")), compare("%cols", "%nc")),
        "0111 0111 0111", 3, stated=index(window=2, index_clamp=(0, 2**31 - 1)),
    ),
    "a window not below 0": Form(
        both(lines(CLIP, compare("%cols", "%nc")),
             lines(WINDOW, operation("%low0", "maximum", "%low", "%zero"), compare("%low0", "%cols"))),
        "1110 1110 1110", 2, stated=index(window=2, index_clamp=(0, 2**31 - 1)),
    ),
    # Near misses, which stay with the scores
    "not quite minus infinity": Form(
        lines('%low = "tosa.const"() <{values = dense<-60000.0> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>',
              one(compare("%cols", "%n3"), value="%low")),
        "1110 1110 1110", 2, region=True,
    ),
    "keys from an index on": Form(one(compare("%n3", "%cols")), "0011 0011 0011", 2, region=True),
    "one key": Form(one(compare("%cols", "%n3", "equal")), "1101 1101 1101", 2, region=True),
    "above the diagonal": Form(one(compare("%rows", "%cols")), "1111 0111 0011", region=True),
    "a length for each key": Form(
        one(lines("%w3 = tosa.reshape %w {new_shape = array<i64: 1, 1, 4>} : (tensor<4xi32>) -> tensor<1x1x4xi32>",
                  compare("%cols", "%w3"))),
        "1101 1101 1101", region=True,
    ),
    "a computed length": Form(
        one(lines("%y = tosa.abs %n3 : (tensor<1x1x1xi32>) -> tensor<1x1x1xi32>",
                  compare("%cols", "%y" if SHAPES.setdefault("%y", "1x1x1") else ""))),
        "1100 1100 1100", -1, region=True,
    ),
    "two lengths": Form(
        one(lines(operation("%y", "add", "%n3", "%m3"), compare("%cols", "%y"))), "1110 1110 1110", 1, 1, region=True
    ),
    "columns in another order": Form(
        one(lines('%mixed = "tosa.const"() <{values = dense<[[[0, 2, 1, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>',
                  compare("%mixed" if SHAPES.setdefault("%mixed", "1x1x4") else "", "%n3"))),
        "1010 1010 1010", 1, region=True,
    ),
    "a constant that is neither": Form(
        one(constant("[[[true, false, true, true], [false, false, true, true], [false, false, false, true]]]", "1x3x4", "i1")),
        "0100 1100 1110", region=True,
    ),
    "a constant that is added and neither": Form(
        added("[[[0.0, 0xFC00, 0.0, 0xFC00]]]", "1x1x4"), "1010 1010 1010", region=True
    ),
    "a window without an index": Form(
        one(lines(CLIP, WINDOW, compare("%low", "%cols"))), "0111 0111 0111", 3, region=True
    ),
    "a window from another argument": Form(
        both(compare("%cols", "%n3"), lines(number("%three", 3), TWO, operation("%mc", "minimum", "%m3", "%three"),
                                            operation("%low", "sub", "%mc", "%two"), compare("%low", "%cols"))),
        "0110 0110 0110", 2, 3, stated=index(), region=True,
    ),
    "a window that is clipped otherwise": Form(
        both(compare("%cols", "%n3"), lines(
            ONE, TWO, number("%three", 3), operation("%n0", "maximum", "%n3", "%two"),
            operation("%nc", "minimum", "%n0", "%three"), operation("%low", "sub", "%nc", "%one"), compare("%low", "%cols"))),
        "0000 0000 0000", 0, stated=index(), region=True,
    ),
    "a window that is not clipped": Form(
        both(compare("%cols", "%n3"), lines(TWO, operation("%low", "sub", "%n3", "%two"), compare("%low", "%cols"))),
        "0000 0000 0000", 9, stated=index(), region=True,
    ),
    "a window that moves with the query": Form(
        one(lines(ONE, operation("%low", "sub", "%rows", "%one"), compare("%low", "%cols"))),
        "1111 1111 0111", region=True,
    ),
    "a second index": Form(
        both(compare("%cols", "%n3"), compare("%cols", "%m3")), "1100 1100 1100", 2, 1, stated={"index": "%m"}, region=True
    ),
    "causal under a mask that stays": Form(
        both(compare("%cols", "%rows"), compare("%n3", "%cols")), "0000 0100 0110", 1, stated={"causal": True}, region=True
    ),
    "a scale behind the mask": Form(
        lines(one(compare("%cols", "%n3")).replace("%x = ", "%y = "),
              '%h = "tosa.const"() <{values = dense<0.5> : tensor<1x1x1xf16>}> : () -> tensor<1x1x1xf16>',
              "%x = tosa.mul %y, %h : (tensor<1x3x4xf16>, tensor<1x1x1xf16>) -> tensor<1x3x4xf16>"),
        "1110 1110 1110", 2, region=True,
    ),
    "one of two conditions": Form(
        one(lines(compare("%cols", "%n3", result="%a1"), compare("%rows", "%cols", result="%a2"),
                  "%c = tosa.logical_or %a1, %a2 : (tensor<1x1x4xi1>, tensor<1x3x4xi1>) -> tensor<1x3x4xi1>")),
        "1110 0110 0010", 2, stated=index(), region=True,
    ),
    "an index of 64 bits": Form(
        lines("%l3 = tosa.reshape %l {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi64>) -> tensor<1x1x1xi64>",
              '%c64 = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi64>}> : () -> tensor<1x1x4xi64>',
              one("%c = tosa.greater %c64, %l3 : (tensor<1x1x4xi64>, tensor<1x1x1xi64>) -> tensor<1x1x4xi1>")),
        "1100 1100 1100", region=True,
    ),
    "an index in 64 bits": Form(
        lines("%l3 = tosa.cast %n3 : (tensor<1x1x1xi32>) -> tensor<1x1x1xi64>",
              '%c64 = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi64>}> : () -> tensor<1x1x4xi64>',
              one("%c = tosa.greater %c64, %l3 : (tensor<1x1x4xi64>, tensor<1x1x1xi64>) -> tensor<1x1x4xi1>")),
        "1100 1100 1100", 1, stated=index(),
    ),
}  # fmt: skip


def graph(form: Form) -> ModuleOp:
    return small(form.scores, queries=QUERIES, keys=KEYS)


def stated(op: AttentionOp) -> dict[str, Any]:
    """The masks that an attention states, in words of the table."""
    from xpaged.dialects.rock.views import chain_of
    from xpaged.dialects.tosa.constants import constant_of
    from xpaged.ir import dense

    found: dict[str, Any] = {}
    for name, operand, clamp in (
        ("index", op.currentSeqLen, op.kv_index_clamp),
        ("offset", op.prefixOffset, op.prefix_offset_clamp),
    ):
        if operand is None:
            continue
        root = chain_of(operand).root
        value = dense.splat_value(constant_of(root))
        found[name] = f"%{root.name_hint}" if value is None else value
        if clamp is not None and clamp.add:
            found[f"{name}_add"] = clamp.add
        if clamp is not None and (clamp.least, clamp.most) != (-(2**31), 2**31 - 1):
            found[f"{name}_clamp"] = (clamp.least, clamp.most)
    if op.causal is not None:
        found["causal"] = True
    if op.window is not None:
        found["window"] = op.window
    return found


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_the_attention_states(form: Form):
    module = graph(form)
    TO_ROCK.apply(module)
    (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    assert stated(op) == form.stated
    assert bool(op.preSoftmaxBody.blocks) == form.region


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_why_a_mask_stays(form: Form):
    reasons = [each.reason for each in explain_fusion(graph(form)) if each.reason.startswith("score region")]
    assert bool(reasons) == form.region


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_which_keys_are_kept(form: Form):
    kept = np.array([[int(x) for x in row] for row in form.kept.split()])
    inputs = {
        "q": np.zeros((1, QUERIES, 4), np.float16),
        "k": np.ones((1, 4, KEYS), np.float16),
        "v": np.eye(KEYS, dtype=np.float16)[None],
        "n": np.array([form.n], np.int32),
        "m": np.array([form.m], np.int32),
        "l": np.array([1], np.int64),
        "w": np.array([3, 3, -3, 3], np.int32),
    }
    levels = [level for level in MODULE_LEVELS if level >= Level.TOSA]
    report = run(graph(form), inputs, level=levels, check=True)
    assert report.ok, report.as_json()
    for name, level in report.levels.items():
        if name != "tosa":
            shown = level.outputs[0].values.reshape(QUERIES, KEYS) > 0.01
            assert shown.astype(int).tolist() == kept.tolist(), name


@pytest.mark.parametrize("form", [form for form in FORMS.values() if form.region or len(form.stated) > 1])
def test_random_numbers(form: Form):
    report = run(graph(form), level=[Level.TOSA, Level.DEVICE], check=True, seed=3)
    assert report.ok, report.as_json()
