"""`xpaged gen`: options with one or two dashes, and refusals."""

from collections.abc import Sequence
from typing import Any

import pytest

from xpaged.cli.gen import main as gen_main
from xpaged.cli.shell import DONE, REFUSED
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module

Cli = Any

SIZES = ("-seq_len_q", "64", "-seq_len_k", "64", "-head_dim_qk", "32", "-head_dim_v", "32", "-t", "f16")
PAGES = ("--paged-attention", "--num-pages", "4", "--page-size", "512")


def test_the_text_parses_back(cli: Cli) -> None:
    ended = cli("gen", "--operation", "attention", *SIZES, *PAGES)
    assert (ended.status, ended.err) == (DONE, "")
    assert print_module(parse(ended.out)) == ended.out
    assert "rock.deref" in ended.out


def test_every_spelling_of_an_option_is_the_same(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    plain = cli("gen", *SIZES, *PAGES, "-causal").out
    assert cli("gen", *(each.replace("-seq", "--seq") for each in SIZES), *PAGES, "--causal").out == plain
    joined = [f"{name}={value}" for name, value in zip(SIZES[::2], SIZES[1::2], strict=True)]
    assert cli("gen", *joined, "-paged-attention", "-num-pages=4", "-page-size=512", "-causal=true").out == plain
    assert gen_main([*SIZES, *PAGES, "--causal"]) == DONE
    assert capsys.readouterr().out == plain


def test_a_negative_value_is_not_an_option(cli: Cli) -> None:
    assert cli("gen", *SIZES, "-current_seq_len", "-1").out == cli("gen", *SIZES, "-current_seq_len=-1").out != ""


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        ((*SIZES, "--paged-attention", "--num-pages", "3", "--page-size", "512"), "= 1536"),
        ((*SIZES, "--paged-attention", "--num-pages", "0", "--page-size", "512"), "found: 0"),
        ((*SIZES, "-seq_len_q", "-4"), "found: -4"),
        ((*SIZES, "-num_heads_q", "3", "-num_heads_kv", "2"), "heads_q = 3, heads_kv = 2"),
        ((*SIZES, "--arch", "gfx94"), "did you mean"),
        ((*SIZES, "--arch", "gfx1030"), "no matrix instructions"),
        (SIZES[2:], "-seq_len_q"),
    ],
)
def test_a_refusal_is_one_message_with_the_values(cli: Cli, argv: Sequence[str], what: str) -> None:
    ended = cli("gen", *argv)
    assert (ended.status, ended.out) == (REFUSED, "")
    assert ended.err.count("error:") == 1
    assert what in ended.err
