"""Every type of Q and K, V, softmax and log-sum-exp on every architecture, at all levels, against the oracle; and
mistakes in types that the same checks catch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, ModuleOp, bf16, f16, f32, i32
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from tests.lowering.kernels import (
    DEVICE,
    TILE,
    Cache,
    Inputs,
    Level,
    check,
    errors,
    lowered,
    module_at,
    ops_of,
    page_sizes,
    problem,
    run,
)
from xpaged.arch import archs, get_arch
from xpaged.dialects import hip
from xpaged.errors import XpagedError
from xpaged.interpreter.run import run as run_levels
from xpaged.ir.parsing import parse
from xpaged.sizes import AttentionProblem, build

ARCHS = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
"""One of each set of matrix instructions."""

TYPES: dict[str, dict[str, str]] = {
    "f16": {"dtype": "f16"},
    "bf16": {"dtype": "bf16"},
    "f32": {"dtype": "f32"},
    "i8": {"dtype": "i8"},
    "i8 and bf16": {"dtype": "i8", "value_dtype": "bf16"},
    "i8 and f32": {"dtype": "i8", "value_dtype": "f32"},
    "f16 and f32": {"dtype": "f16", "value_dtype": "f32"},
    "bf16 and f16": {"dtype": "bf16", "value_dtype": "f16"},
    "f16 scores": {"dtype": "f16", "softmax_dtype": "f16"},
    "bf16 scores": {"dtype": "bf16", "softmax_dtype": "bf16"},
    "f32 and f16 scores": {"dtype": "f32", "softmax_dtype": "f16"},
    "i8 and f16 scores": {"dtype": "i8", "softmax_dtype": "f16"},
}
FORMS: dict[str, dict[str, Any]] = {
    "decode, GQA": {"heads_q": 6, "heads_kv": 2, "seq_q": 1, "seq_k": 100, "dim_qk": 40, "page_size": 160},
    "causal": {"heads_q": 2, "seq_q": 40, "seq_k": 40, "dim_qk": 32, "page_size": 64, "causal": True},
    "KV index": {"batch": 2, "seq_q": 3, "seq_k": 70, "dim_qk": 32, "page_size": 64, "kv_index": (-1, 41)},
    "odd pages": {"heads_q": 2, "seq_q": 5, "seq_k": 33, "dim_qk": 24, "dim_v": 40, "page_size": 36},
    "bias": {"seq_q": 5, "seq_k": 37, "dim_qk": 16, "page_size": 37 * 16, "bias": True, "scale": 0.5},
    "window": {"seq_q": 4, "seq_k": 90, "dim_qk": 80, "page_size": 80, "kv_index": (77,), "sliding_window": 20},
}


PLAIN = ("f16", "bf16", "f32", "i8")


def cases() -> Iterator[tuple[str, str, str]]:
    """Plain types on every architecture, the others on one or two, the forms in turns."""
    forms = cycle(FORMS)
    for arch in ARCHS:
        yield from ((types, next(forms), arch) for types in PLAIN if runs(types, arch))
    for number, types in enumerate(t for t in TYPES if t not in PLAIN):
        yield types, next(forms), ("gfx942", "gfx90a")[number % 2]
        if runs(types, "gfx1100") and number % 2:
            yield types, next(forms), "gfx1100"


def runs(types: str, arch: str) -> bool:
    """Whether an architecture has instructions for these types."""
    names = {TYPES[types]["dtype"], TYPES[types].get("value_dtype", "f16")}
    return names <= {i.operand for i in get_arch(arch).matrix}


def case(types: str, form: str, arch: str) -> AttentionProblem:
    """A problem with a log-sum-exp."""
    return problem(**FORMS[form], **TYPES[types], arch=arch, lse=True)


CASES = list(cases())


@pytest.mark.parametrize(("types", "form", "arch"), CASES, ids=[" | ".join(c) for c in CASES])
def test_types_forms_and_architectures(types: str, form: str, arch: str) -> None:
    check(case(types, form, arch))


def test_the_cases_are_few_and_complete() -> None:
    assert len(CASES) < 40
    assert {t for t, _, _ in CASES} == set(TYPES)
    assert {f for _, f, _ in CASES} == set(FORMS)
    assert {(t, a) for t, _, a in CASES} >= {(t, a) for t, a in product(PLAIN, ARCHS) if runs(t, a)}
    same = {tuple((i.name, i.k) for i in archs()[name].matrix) for name in ARCHS}
    assert {tuple((i.name, i.k) for i in arch.matrix) for arch in archs().values()} == same


@pytest.mark.slow
@pytest.mark.parametrize("arch", archs())
@pytest.mark.parametrize("types", TYPES)
def test_all_types_forms_and_architectures(types: str, arch: str) -> None:
    for form in FORMS if runs(types, arch) else ():
        check(case(types, form, arch), seed=1)


@st.composite
def problems(draw: st.DrawFn) -> AttentionProblem:
    """Small problems of any types on any architecture."""
    arch = draw(st.sampled_from(ARCHS))
    types = draw(st.sampled_from([t for t in TYPES if runs(t, arch)]))
    keys, d, heads = draw(st.integers(1, 70)), draw(st.integers(1, 72)), draw(st.integers(1, 2))
    dim_v = draw(st.integers(1, 72))
    return problem(
        **TYPES[types],
        arch=arch,
        heads_kv=heads,
        heads_q=heads * draw(st.integers(1, 3)),
        seq_q=draw(st.integers(1, 40)),
        seq_k=keys,
        dim_qk=d,
        dim_v=dim_v,
        page_size=draw(st.sampled_from(page_sizes(heads, keys, d, dim_v))),
        causal=draw(st.booleans()),
        kv_index=draw(st.one_of(st.just(False), st.tuples(st.integers(-1, keys)))),
        bias=draw(st.booleans()),
        scale_input=draw(st.booleans()),
        lse=draw(st.booleans()),
    )


@settings(max_examples=6)
@given(problems(), st.integers(0, 1000))
def test_any_types(p: AttentionProblem, seed: int) -> None:
    check(p, seed=seed)


@pytest.mark.slow
@settings(max_examples=300)
@given(problems(), st.integers(0, 1000))
def test_many_types(p: AttentionProblem, seed: int) -> None:
    check(p, seed=seed)


@pytest.mark.parametrize(("types", "arch"), [("i8 and bf16", "gfx90a"), ("i8", "gfx1201"), ("bf16", "gfx1100")])
def test_the_text_on_a_cpu(types: str, arch: str) -> None:
    report = run_levels(build(case(types, "odd pages", arch)), level="host", check=True)
    assert report.ok, report.as_json()


def test_what_an_architecture_cannot_multiply_is_refused() -> None:
    for dtype, value in (("f32", None), ("f16", "f32")):
        p = problem(seq_q=1, seq_k=16, dim_qk=16, dtype=dtype, value_dtype=value, arch="gfx1100")
        with pytest.raises(XpagedError, match="gfx1100 has no matrix instruction for f32 operands") as error:
            module_at(p, Level.GRIDWISE)
        assert error.value.expected == "f16 or bf16 or i8"
        assert error.value.fix == "choose another element type or another --arch"


# ---- exact products


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100", "gfx1201"])
def test_products_of_i8_are_exact(arch: str) -> None:
    """Sums beyond 2**24, which differ in their last bits only."""
    d, keys = 1040, 3
    p = problem(dtype="i8", value_dtype="f32" if arch.startswith("gfx9") else "f16", seq_q=1, seq_k=keys, dim_qk=d)
    p = replace(p, arch=arch, dim_v=16, num_pages=keys, page_size=d, lse=True)
    q, k = np.full((1, 1, d), -128, np.int8), np.full((1, 1, keys, d), -128, np.int8)
    k[0, 0, 1, 7], k[0, 0, 2, 1039] = -127, -127
    k[0, 0, 2, 1038] = -127  # sums of 128 * 128 * 1040 less 0, 128 and 256
    v = np.zeros((1, 1, keys, 16), np.float32 if arch.startswith("gfx9") else np.float16)
    v[0, 0, :, 0], v[0, 0, :, 1] = (1, 0, 0), (0, 1, 0)
    alive = np.ones((1, keys), np.bool_)
    bias, scale = np.zeros((1, 1, keys), np.int8), np.full((1, 1, keys), 1 / 128, v.dtype)
    bias[0, 0] = (0, 126, -2)  # less 0, 254 and 254
    inputs = Inputs(p, q, Cache(k, alive), Cache(v, alive), extras=(bias, scale))
    for level in (TILE, DEVICE):
        assert not errors(inputs, run(inputs, level))
    weights = np.exp(-np.array([0, 254 / 128, 254 / 128]))
    exact = weights / weights.sum()
    np.testing.assert_allclose(run(inputs, DEVICE).out[0, 0, :2].astype(float), exact[:2], rtol=2e-3)


# ---- mistakes

CONSTANT = problem(dtype="bf16", seq_q=1, seq_k=16, dim_qk=16, dim_v=48, page_size=64, arch="gfx90a")


@cache
def wide_output(level: Level) -> tuple[ModuleOp, Inputs]:
    """An attention with an f32 output whose P are all just below the next bf16: rounding them is seen, cutting them off
    is an error of nearly 2 units of which half of one is allowed."""
    p = CONSTANT
    text = (
        str(build(p)).replace("memref<48xbf16>", "memref<48xf32>").replace("memref<1x1x48xbf16>", "memref<1x1x48xf32>")
    )
    q, k = np.zeros((1, 1, 16), np.float32), np.zeros((1, 1, 16, 16), np.float32)
    q[0, 0, 0] = 1.0
    weight = 0.5 * (1 + 2.0**-7 * 0.998)
    score = np.float32(np.log(weight))
    q[0, 0, :3] = 1.0  # the score as a sum of three bf16
    rest = score
    for channel in range(3):
        part = np.float32(rest).astype(hip_bf16())
        k[0, 0, 1:, channel] = part
        rest = rest - np.float32(part)
    v = np.ones((1, 1, 16, 48), np.float32)
    dtype, alive = hip_bf16(), np.ones((1, 16), np.bool_)
    keys, values = (Cache(x.astype(dtype), alive) for x in (k, v))
    return lowered(parse(text), PASSES[level]), Inputs(p, q.astype(dtype), keys, values, out=np.dtype(np.float32))


def hip_bf16() -> Any:
    """bf16 for NumPy."""
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


PASSES = {
    TILE: "affix-tuning-params,gemm-to-gridwise,gridwise-to-tile,place-barriers",
    DEVICE: "affix-tuning-params,gemm-to-gridwise,gridwise-to-tile,place-barriers,tile-to-device",
}


def cut_off(op: Operation) -> None:
    """A conversion to bf16 that drops bits."""
    assert isinstance(op, arith.TruncFOp)
    vector = hip.lanes_of(op.input.type)
    assert vector == 1
    at = InsertPoint.before(op)
    mask = arith.ConstantOp(IntegerAttr(-65536, i32))
    bits = arith.BitcastOp(op.input, i32)
    kept = arith.AndIOp(bits.result, mask.result)
    cut = arith.BitcastOp(kept.result, f32)
    for new in (mask, bits, kept, cut):
        Rewriter.insert_op(new, at)
    op.operands[0] = cut.result


@pytest.mark.parametrize("level", [TILE])
def test_a_conversion_that_drops_bits_is_caught(level: Level) -> None:
    module, inputs = wide_output(level)
    assert not errors(inputs, run(inputs, level, module=module))
    broken = module.clone()
    conversions = [op for op in ops_of(broken, "arith.truncf") if op.results[0].type == bf16]
    assert conversions
    for op in conversions:
        cut_off(op)
    assert errors(inputs, run(inputs, level, module=broken))


@pytest.mark.parametrize(
    ("change", "types"),
    [
        (lambda op: Rewriter.replace_op(op, arith.UIToFPOp(op.operands[0], f32)), "i8"),
        (lambda op: Rewriter.replace_op(op, arith.SIToFPOp(narrow(op), f32)), "i8"),
    ],
    ids=["scores as unsigned numbers", "scores of 16 bits"],
)
def test_a_wrong_conversion_of_integer_scores_is_caught(change: Callable[[Operation], None], types: str) -> None:
    inputs = Inputs.random(case(types, "bias", "gfx90a"))
    module = module_at(inputs.problem, DEVICE).clone()
    for op in ops_of(module, "arith.sitofp"):
        change(op)
    assert errors(inputs, run(inputs, DEVICE, module=module))


def other_lane(op: Operation) -> None:
    """An exchange with another lane."""
    assert isinstance(op, hip.ExchangeOp)
    Rewriter.replace_op(op, hip.ExchangeOp(op.value, op.xor.value.data ^ 3))


def own_half(op: Operation) -> None:
    """What a lane has instead of what its partner has."""
    Rewriter.replace_op(op, [], [op.operands[0]])


def other_half(op: Operation) -> None:
    """The halves exchanged."""
    op.operands[1], op.operands[2] = op.operands[2], op.operands[1]


@pytest.mark.parametrize("fault", [other_lane, own_half, other_half])
def test_halves_of_p_that_are_not_exchanged_rightly_are_caught(fault: Callable[[Operation], None]) -> None:
    """RDNA3 takes all keys of P in both halves of a wave."""
    inputs = Inputs.random(case("f16", "bias", "gfx1100"))
    original = module_at(inputs.problem, DEVICE)
    kind = arith.SelectOp if fault is other_half else hip.ExchangeOp
    halves = [
        n for n, op in enumerate(original.walk()) if isinstance(op, kind) and hip.lanes_of(op.results[0].type) > 1
    ]
    assert halves
    for number in halves:
        module = original.clone()
        fault(list(module.walk())[number])
        assert wrong(inputs, module)


def wrong(inputs: Inputs, module: ModuleOp) -> bool:
    """Whether a broken kernel is noticed: by its results, or while it runs."""
    try:
        return bool(errors(inputs, run(inputs, DEVICE, module=module)))
    except XpagedError:
        return True


def narrow(op: Operation) -> Any:
    """What is converted, cut to 16 bits."""
    from xdsl.dialects.builtin import IntegerType

    at, i16 = InsertPoint.before(op), IntegerType(16)
    small = arith.TruncIOp(op.operands[0], i16)
    wide = arith.ExtSIOp(small.result, i32)
    for new in (small, wide):
        Rewriter.insert_op(new, at)
    return wide.result


def test_scores_that_are_not_rounded_to_the_softmax_type_are_seen() -> None:
    """They are nearer to the exact result than the bound asks for; the text says where they are rounded."""
    p = case("f32 and f16 scores", "causal", "gfx90a")
    rounded = [op for op in ops_of(module_at(p, TILE), "arith.truncf") if op.results[0].type == f16]
    assert len(rounded) == 2  # the scores (there are no whole tiles), and the log-sum-exp
    assert not ops_of(module_at(replace(p, softmax_dtype="f32"), TILE), "arith.truncf")


def test_types_of_a_kernel_may_all_differ() -> None:
    p = replace(case("i8 and bf16", "odd pages", "gfx942"), softmax_dtype="f16")
    check(p)
    types = {str(v.type.element_type) for v in module_types(p)}
    assert types == {"i8", "bf16", "f16", "i64"}


def module_types(p: AttentionProblem) -> list[Any]:
    """The arguments of the kernel."""
    (function,) = module_at(p, Level.ROCK_MEMREF).ops
    return list(function.regions[0].block.args)


def test_a_float_that_is_no_operand_type_is_refused_by_name() -> None:
    assert isinstance(f16, AnyFloat)
    with pytest.raises(XpagedError, match="unknown value_dtype") as error:
        build(problem(seq_q=1, seq_k=16, dim_qk=16, value_dtype="i8"))
    assert error.value.expected == "one of f32, f16, bf16"
