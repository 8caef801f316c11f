"""The table of options: what is taken, what is refused, and with which message."""

from __future__ import annotations

from typing import Any

import pytest

from xpaged.errors import XpagedError
from xpaged.gen import OPTIONS, generate, parse_options
from xpaged.gen.options import FOREIGN, GROUPS, UsageError, help_text

SIZES = "--seq_len_q 5 --seq_len_k 64 --head_dim_qk 32 --head_dim_v 32"
PAGED = f"{SIZES} --paged-attention"
HUGE = 2**63
MOST = 2**31 - 1

REFUSED: list[tuple[str, str]] = [
    ("--operation conv", "xpaged generates attention, not conv"),
    ("--operation atention", "did you mean 'attention'?"),
    ("--seq_len_q 5", "missing options: -seq_len_k, -head_dim_qk, -head_dim_v"),
    (f"{SIZES} --seq_len_k 0", "--seq_len_k must be at least 1"),
    (f"{SIZES} --head_dim_qk 0", "--head_dim_qk must be at least 1"),
    (f"{SIZES} --head_dim_v -3", "--head_dim_v must be at least 1"),
    (f"{SIZES} --num_heads_q 0", "--num_heads_q must be at least 1"),
    (f"{SIZES} --num_heads_kv -1", "--num_heads_kv must be at least 1"),
    (f"{SIZES} -g 0", "--groupsize must be at least 1"),
    (f"{SIZES} --num_heads_q 4 --num_heads_kv 3", "heads_q = 4, heads_kv = 3"),
    (f"{SIZES} --num_heads_q 1 --num_heads_kv 2", "heads_q = 1, heads_kv = 2"),
    (f"{SIZES} -seq_len_k {HUGE}", "--seq_len_k is out of range"),
    (f"{SIZES} -head_dim_qk {HUGE - 1}", "--head_dim_qk is out of range"),
    (f"{SIZES} -g {2**31 - 1} -num_heads_q {2**31 - 1}", "Q is larger than any memory"),
    (f"{SIZES} -seq_len_k {2**31 - 1} -g 100000", "K is larger than any memory"),
    (f"{SIZES} -t f61", "did you mean 'f16'?"),
    (f"{SIZES} -t f64", "one of f32, f16, bf16, i8"),
    (f"{SIZES} -softmax_dtype i8", "one of f32, f16, bf16"),
    (f"{SIZES} --current_seq_len=1,2", "kv_index needs one value for each batch entry"),
    (f"{SIZES} --current_seq_len=-2", "kv_index is out of range"),
    (f"{SIZES} --prefix_offset 4", "--prefix_offset needs --causal: a prefix offset moves the causal diagonal"),
    (f"{SIZES} --causal --prefix_offset 4,4", "prefix_offset needs one value for each batch entry"),
    (f"{SIZES} --merge_split_kv", "there is nothing to merge without a split"),
    (f"{SIZES} --split_kv 2000", "this is no number of parts to split the keys into"),
    (f"{SIZES} --split_kv 0", "--split_kv must be at least 1"),
    (f"{SIZES} --sliding_window_size 65", "the sliding window does not fit the keys"),
    (f"{SIZES} --sliding_window_size 0", "--sliding_window_size must be at least 1"),
    (f"{PAGED} --num-pages 2", "--paged-attention needs --page-size"),
    (PAGED, "--paged-attention needs --num-pages, --page-size"),
    (f"{SIZES} --page-size 8", "--page-size needs --paged-attention: only a paged cache has pages"),
    (f"{SIZES} --num-pages 8", "--num-pages needs --paged-attention: only a paged cache has pages"),
    (f"{PAGED} --operation gemm --num-pages 2 --page-size 1024", "xpaged generates attention, not gemm"),
    (f"{PAGED} --num-pages 0 --page-size 8", "--num-pages must be at least 1"),
    (f"{PAGED} --num-pages 8 --page-size -8", "--page-size must be at least 1"),
    (f"{PAGED} --num-pages {HUGE} --page-size 1", "--num-pages is out of range"),
    (f"{PAGED} --num-pages 3 --page-size 1024", "num_pages * page_size = 3 * 1024 = 3072"),
    (f"{PAGED} --num-pages 128 --page-size 16 --head_dim_v 33", "page_size * dim_v / dim_qk = 16 * 33 / 32"),
    (f"{SIZES} --arch gfx9420", "gfx9420"),
    (f"{SIZES} --arch gfx1030", "no matrix instructions"),
    (f"{SIZES} --arch gfx1100", "gfx1100 has no matrix instruction for f32 operands"),
    (
        f"{SIZES} -seq_len_q {MOST} -seq_len_k {MOST} -g 700",
        "the problem needs more workgroups than one launch can have",
    ),
    (f"{SIZES} --perf_config attn:v3:1,2", "malformed perf_config"),
    (f"{SIZES} --perf_config attn:v3:128,32,32,32,32,32,16,1,1,1,2,0,1", "mPerBlockG0 is more keys than"),
    (f"{SIZES} --perf_config attn:v3:32,32,32,32,32,32,16,1,2,1,2,0,1", "splitKFactor is for products of matrices"),
    (f"{SIZES} --perf_config attn:v3:32,32,32,32,32,32,16,1,1,5,2,0,1", "unknown schedule version"),
    (f"{SIZES} --schedule_version 5", "unknown schedule version"),
    (f"{SIZES} --schedule_version 2 --perf_config attn:v1:32,32,32,8,32,32,8,1", "attn:v2 or attn:v3"),
    (f"{SIZES} --apply-bufferization-pipeline=false", "has no meaning"),
    (f"{SIZES} --verifier clone", "xpaged run --level all --check"),
    (f"{SIZES} --verifier cpu", "it is for convolutions"),
    (f"{SIZES} --verifier mlri", "did you mean 'mlir'?"),
    (f"{SIZES} -pv -pv-strict", "several CPU functions are asked for"),
    (f"{SIZES} -pv-f64 -t i8", "-pv-f64 is for floats"),
    (f"{SIZES} -pv -rand seven", "-rand has no such value"),
    (f"{SIZES} -pv -rand_type double", "one of int, float"),
    (f"{SIZES} -pv -rand_side filter", "one of both"),
    (f"{SIZES} -pv -rand_min 2", "-rand_min is larger than -rand_max"),
    (f"{SIZES} -pv -rand_min_int 6", "-rand_min_int is larger than -rand_max_int"),
    (f"{SIZES} -pv -rand_max inf", "a finite number"),
    (f"{SIZES} -pv -atol -1", "-atol must not be negative"),
    (f"{SIZES} -pv -comparator legacy -rtol 0.1", "the legacy comparison has no atol and rtol"),
    (f"{SIZES} -pv -comparator allclose -RMS_threshold 0.1", "allclose has no such threshold"),
    (f"{SIZES} -pv -kernel-repeats 0", "--kernel-repeats must be at least 1"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[f"{o[-40:]}" for o, _ in REFUSED])
def test_a_refusal_says_what_and_why(options: str, message: str) -> None:
    with pytest.raises(XpagedError) as refusal:
        generate(_last_wins(options))
    assert message in refusal.value.render()
    assert not isinstance(refusal.value, UsageError)


def _last_wins(options: str) -> list[str]:
    """The options as `--name=value`, of those with one name only the last: the tests override sizes."""
    words, taken = options.split(), dict[str, str]()
    for i, word in enumerate(words):
        if not word.startswith("-") or word[1:].isdigit():
            continue
        name, joined, value = word.lstrip("-").partition("=")
        following = words[i + 1] if i + 1 < len(words) else "-"
        if not joined and (not following.startswith("-") or following[1:].isdigit()):
            value = following
        taken[name] = f"--{name}={value}" if value else f"--{name}"
    return list(taken.values())


@pytest.mark.parametrize("name", [name for names in FOREIGN.values() for name in names])
def test_options_of_other_operations(name: str) -> None:
    with pytest.raises(XpagedError, match="xpaged generates attention") as refusal:
        parse_options([f"-{name}", "1"])
    assert not isinstance(refusal.value, UsageError)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("-seq_len 5", "did you mean '--seq_len_q'?"),
        ("--page-sise 5", "did you mean '--page-size'?"),
        ("--casual", "did you mean '--causal'?"),
        ("-xyzzy", "`xpaged gen --help` lists the options"),
        ("file.mlir", "gen reads no file"),
        ("-", "gen reads no file"),
        ("-g two", "a whole number"),
        ("-g", "--groupsize needs a value"),
        ("-g -t f16", "--groupsize needs a value"),
        ("--causal=maybe", "true or false"),
        ("--current_seq_len=1,x", "whole numbers, comma-separated"),
        ("--current_seq_len=,", "whole numbers"),
        ("--current_seq_len=", "whole numbers"),
        ("-g 1 -g 2", "--groupsize is given twice"),
        ("-atol much", "a number"),
    ],
)
def test_a_malformed_command_line_is_a_usage_error(argv: str, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_options(argv.split())
    assert message in refusal.value.render()


def test_every_option_is_spelled_in_several_ways() -> None:
    for option in OPTIONS:
        text = _some_value(option)
        expected = parse_options([f"--{option.name}={text}"])
        for name in (option.name, *option.aliases):
            assert parse_options([f"-{name}", text]) == expected
            assert parse_options([f"--{name.replace('-', '_')}={text}"]) == expected
            assert parse_options([f"--{name.replace('_', '-')}", text]) == expected
        if option.kind == "bool":
            assert parse_options([f"-{option.name}"]) == expected


def _some_value(option: Any) -> str:
    return (
        option.choices[-1]
        if option.choices
        else {"int": "7", "ints": "1,2", "float": "0.5", "bool": "true"}.get(option.kind, "7")
    )


def test_names_are_distinct_and_those_that_are_needed_exist() -> None:
    names = [name.replace("-", "_") for option in OPTIONS for name in (option.name, *option.aliases)]
    assert len(names) == len(set(names))
    for option in OPTIONS:
        assert set(option.needs) | set(option.effect) <= {each.name for each in OPTIONS}
        assert bool(option.needs) == bool(option.needed_by)


def test_the_help_lists_every_option_once() -> None:
    text = help_text()
    for option in OPTIONS:
        assert text.count(f"\n  -{option.name} ") == 1, option.name
    for title in GROUPS:
        assert f"{title}:" in text


def test_options_without_effect_are_noted() -> None:
    notes: list[str] = []
    generate([*SIZES.split(), "-rand_type", "float", "-pr"], notes)
    assert [note.split()[0] for note in notes] == ["--print-results", "--rand_type"]
    notes.clear()
    generate([*SIZES.split(), "-rand_type", "float", "-pr", "-pv"], notes)
    assert notes == []


def test_a_seed_of_0_is_the_time() -> None:
    notes: list[str] = []
    generate([*SIZES.split(), "-ph", "-rand", "0"], notes)
    assert notes[0].startswith("-rand 0: the seed is ")
