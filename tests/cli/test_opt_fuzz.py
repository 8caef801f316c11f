"""`xpaged opt` on damaged inputs: a result, or one message on stderr and status 1; never a trace or half an output."""

from random import Random
from typing import Any

import pytest

from xpaged.cli.shell import DONE, REFUSED
from xpaged.ir.levels import Level, level_of
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.passes import NAMES
from xpaged.passes.pipelines import lower, passes_between
from xpaged.testing.mutation import drop_line, mutate, mutate_values

Cli = Any

KERNELS = {
    "paged": (
        *("-seq_len_q", "20", "-seq_len_k", "64", "-head_dim_qk", "32", "-head_dim_v", "32", "-t", "f16"),
        *("--paged-attention", "--num-pages", "8", "--page-size", "512", "-num_heads_q", "4", "-num_heads_kv", "2"),
        *("--causal", "-current_seq_len", "40"),
    ),
    "plain": ("-seq_len_q", "5", "-seq_len_k", "7", "-head_dim_qk", "8", "-head_dim_v", "4", "-t", "f32"),
}
LEVELS = [Level.ROCK_MEMREF, Level.GRIDWISE, Level.TILE, Level.DEVICE]


@pytest.fixture(params=list(KERNELS))
def kernel(request: pytest.FixtureRequest, cli: Cli) -> str:
    """The text of a kernel at level rock-memref."""
    ended = cli("gen", *KERNELS[request.param])
    assert ended.status == DONE
    return ended.out


def check(cli: Cli, text: str, passes: list[str]) -> int:
    ended = cli("opt", "-", "-p", ",".join(passes), stdin=text.encode("utf-8", "surrogatepass"))
    assert ended.status in (DONE, REFUSED), text
    assert "internal error" not in ended.err, f"{ended.err}\n{text}"
    assert "Traceback" not in ended.err
    assert bool(ended.out) == (ended.status == DONE), text
    assert bool(ended.err) == (ended.status == REFUSED), text
    return ended.status


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", LEVELS)
def test_damaged_kernels_of_every_level(cli: Cli, kernel: str, level: Level, seed: int) -> None:
    random = Random(seed)
    text = print_module(lower(parse(kernel), level))
    passes = passes_between(level, Level.DEVICE)
    assert check(cli, text, passes) == DONE
    for damage in (mutate, mutate_values, mutate_values, drop_line):
        check(cli, damage(text, random), passes)


def test_passes_in_the_wrong_order(cli: Cli, kernel: str) -> None:
    random = Random(0)
    assert level_of(parse(kernel)) is Level.ROCK_MEMREF
    for _ in range(12):
        check(cli, kernel, random.choices([*NAMES, "canonicalize", "cse"], k=3))


@pytest.mark.parametrize("seed", range(10))
def test_random_bytes(cli: Cli, seed: int) -> None:
    random = Random(seed)
    text = random.randbytes(random.randint(1, 200)).decode("latin-1")
    assert check(cli, text, ["canonicalize"]) == REFUSED
