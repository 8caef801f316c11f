"""The functions for the host: the CPU function agrees with the oracle, `main` passes, and both notice what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import CallOp, FuncOp

from xpaged.dialects.rock.attention import AttentionOp
from xpaged.errors import XpagedError
from xpaged.gen import generate
from xpaged.gen.harness import placement
from xpaged.interpreter.host_functions import MAIN, NAIVE, VERDICT, host_function, run_main
from xpaged.interpreter.run import Report, run
from xpaged.ir.levels import Level, level_of
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.passes.pipelines import lower

SIZES = "-seq_len_q 3 -seq_len_k 12 -head_dim_qk 8 -head_dim_v 4 -groupsize 2 -num_heads_q 2 -num_heads_kv 1"
PAGES = "--paged-attention --num-pages 6 --page-size 16"


def gen(options: str) -> ModuleOp:
    return generate(f"{SIZES} {options}".split())


def checked(module: ModuleOp) -> Report:
    return run(module, level=Level.ROCK_MEMREF, check=True)


def flags(report: Report) -> list[str]:
    return [note.removeprefix("main printed ") for note in report.notes if note.startswith("main printed")]


FORMS = [
    "-pv -t f16",
    "-pv -t f32",
    "-pv -t bf16",
    "-pv -t i8 --with-attn-scale",
    "-pv -t f16 -transQ -transK -transV -transO",
    "-pv -t f16 -causal -prefix_offset=3,0 -current_seq_len=11,-1 -return_lse",
    "-pv -t f16 -current_seq_len=4,9 -sliding_window_size 3",
    "-pv -t f16 -sliding_window_size 3",
    "-pv -t f16 --with-attn-scale --with-attn-bias -rand_type float",
    "-pv -t f16 -split_kv 3 -return_lse",
    "-pv -t f16 -split_kv 2 -return_lse -current_seq_len=11,0 -transO",
    "-pv-strict -t f16 -softmax_dtype f16 -return_lse",
    "-pv-f64 -t f16",
    "-pv -t f16 -comparator allclose -rand_type float",
    "-pv -t f16 -kernel-repeats 3 -pr -pi -pvr -rand none",
]


@pytest.mark.parametrize("paged", ["", PAGES])
@pytest.mark.parametrize("options", FORMS)
def test_the_cpu_function_and_main_agree_with_the_kernel(options: str, paged: str) -> None:
    module = gen(f"{options} {paged}")
    report = checked(module)
    assert report.ok, report.as_json()
    assert [output.ok for output in report.levels[NAIVE].outputs] == [True] * (1 + ("lse" in options))
    assert flags(report) == ["[1 1 1]"] * (1 + ("lse" in options))


@pytest.mark.parametrize("paged", ["", PAGES])
def test_the_text_parses_back_and_stands_at_the_level_of_the_kernel(paged: str) -> None:
    module = gen(f"-pv -t f16 -kernel-repeats 2 {paged}")
    text = print_module(module)
    assert print_module(parse(text)) == text
    assert level_of(module) is Level.ROCK_MEMREF
    lowered = lower(module.clone(), Level.DEVICE)
    assert [op.sym_name.data for op in lowered.ops if isinstance(op, FuncOp)] == ["rock_attention"]


def test_host_functions_have_the_names_of_rocmlir_gen() -> None:
    def names(options: str) -> list[str]:
        return [op.sym_name.data for op in gen(f"{options} -t f16").ops if isinstance(op, FuncOp)]

    inputs, verify = "rock_attention_inputs", "rock_attention_verify"
    kernel, wrapper = "rock_attention", "rock_attention_gpu"
    assert names("-ph") == [kernel, inputs, wrapper, MAIN]
    assert names("-pv") == [kernel, inputs, wrapper, NAIVE, verify, MAIN, VERDICT]
    assert names("-prc") == [inputs, NAIVE, MAIN, "print_f32_48"]
    assert names("-ph -pr -pi")[-2:] == ["print_f16_192", "print_f16_48"]
    assert names("") == [kernel]


def test_the_cpu_function_alone_is_executed() -> None:
    module = gen("-prc -t f16 -return_lse")
    report = run(module)
    assert list(report.levels) == [MAIN]
    assert [output.values.size for output in report.levels[MAIN].outputs] == [12, 48]
    names = [name for name, _ in run_main(gen("-prc -t f16 -return_lse"))]
    assert names == ["print_f32_12", "print_f32_48"]


def test_data_follow_from_the_seed() -> None:
    def printed(options: str) -> list[np.ndarray]:
        return [values for _, values in run_main(gen(f"-ph -pi -t f16 {options}"))]

    fixed, again, one, other = (printed(o) for o in ("", "-rand fixed", "-rand 1", "-rand 2"))
    assert all((a == b).all() for a, b in zip(fixed, again, strict=True))
    assert any((a != b).any() for a, b in zip(one, other, strict=True))
    assert {float(x) for values in fixed for x in values} == set(range(-5, 6))
    floats = printed("-rand 3 -rand_type float -rand_min -2 -rand_max 3 -rand_type_int_for_inputs 1")
    assert floats[0].min() < -1.5
    assert floats[0].max() > 2.5
    assert (floats[1] == floats[1].round()).all()
    assert (floats[2] != floats[2].round()).any()
    assert all((values == 1).all() for values in printed("-rand none"))


@pytest.mark.parametrize("pages", [1, 2, 3, 4, 5, 7, 8, 12, 30, 97, 128, 1000])
def test_pages_are_placed_apart(pages: int) -> None:
    step, start = placement(pages)
    places = [(step * i + start) % pages for i in range(pages)]
    assert sorted(places) == list(range(pages))
    if pages > 1:
        assert not any(place == i for i, place in enumerate(places))


class TestWhatIsNoticed:
    """A check that cannot fail is worth nothing."""

    def test_a_table_that_leads_elsewhere(self) -> None:
        module = gen(f"-pv -t f16 {PAGES}")
        wrapper = host_function(module, "rock_attention_gpu")
        assert wrapper is not None
        starts = [
            op
            for op in wrapper.walk()
            if isinstance(op, arith.ConstantOp) and op.value == IntegerAttr(placement(12)[1], i64)
        ]
        assert len(starts) == 2  # K and V
        starts[0].properties["value"] = IntegerAttr(placement(12)[1] + 1, i64)
        report = checked(module)
        assert not report.ok
        assert flags(report) == ["[0 1 1]"]
        assert report.levels[NAIVE].ok

    @pytest.mark.parametrize("options", ["-comparator allclose", "-relDiff_threshold 0.01", "-absDiff_threshold 0.01"])
    def test_a_kernel_that_computes_something_else(self, options: str) -> None:
        module = gen(f"-pv -t f16 -causal {options}")
        (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
        op.causal = None
        report = checked(module)
        expected = {"-comparator": "[0 0 0]", "-relDiff_threshold": "[0 1 0]", "-absDiff_threshold": "[0 0 1]"}
        assert flags(report) == [expected[options.split()[0]]]
        assert [fault["what"].split(":")[0] for fault in report.faults] == [
            "main found a difference between the kernel and the CPU function"
        ]

    def test_a_cpu_function_that_computes_something_else(self) -> None:
        module = gen("-pv -t f16 -causal")
        naive = host_function(module, NAIVE)
        assert naive is not None
        select = next(op for op in naive.walk() if isinstance(op, arith.SelectOp))
        select.results[0].replace_all_uses_with(select.lhs)
        report = checked(module)
        assert not report.levels[NAIVE].ok
        assert report.levels["rock-memref"].ok

    def test_a_nan(self) -> None:
        module = gen("-pv -t f16")
        naive = host_function(module, NAIVE)
        assert naive is not None
        last = [op for op in naive.walk() if isinstance(op, arith.ConstantOp)][-1]
        assert isinstance(last.value, FloatAttr)
        last.properties["value"] = FloatAttr(float("nan"), last.value.type)
        assert flags(checked(module)) == ["[0 0 1]"]

    def test_arguments_that_do_not_match(self) -> None:
        module = gen("-pv -t f16")
        naive = host_function(module, NAIVE)
        assert naive is not None
        naive.body.block.args[0].name_hint = "query"
        with pytest.raises(XpagedError, match="an argument that the kernel has not"):
            checked(module)


def test_main_calls_what_it_should() -> None:
    main = host_function(gen("-pv -t f16 -pi"), MAIN)
    assert main is not None
    called = [op.callee.string_value() for op in main.walk() if isinstance(op, CallOp)]
    assert called == [
        *("rock_attention_inputs", "print_f16_96", "print_f16_192", "print_f16_96"),
        *("rock_attention_gpu", "host_naive_attention", "rock_attention_verify", "print_verdict"),
    ]
    assert not [op for op in main.walk() if op.name == "linalg.generic"]
