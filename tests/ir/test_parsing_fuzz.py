"""Random texts and random mutations of good ones: the parser gives a module or one clear refusal, nothing else."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpaged
from xpaged.errors import XpagedError
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.testing.mutation import WORDS, mutate

ROOT = Path(xpaged.__file__).parents[1]


def corpus() -> list[str]:
    """Good modules: the shipped examples and those of filecheck/, one piece each, not the longest."""
    files = [*sorted((ROOT / "filecheck").rglob("*.mlir")), *sorted((ROOT / "xpaged" / "examples").glob("*.mlir"))]
    pieces = [piece for path in files for piece in path.read_text().split("// -----")]
    return [piece for piece in pieces if "func.func" in piece and len(piece) < 12000]


def check(text: str) -> None:
    """Parse: a module that prints to text that parses back, or a refusal with a place and no mistake of our own."""
    try:
        module = parse(text, "k.mlir")
    except XpagedError as refusal:
        message = refusal.render()
        assert re.match(r"k\.mlir:\d+:\d+: error: .", message) or "loc" in text, text
        return
    printed = print_module(module)
    assert print_module(parse(printed)) == printed, text


@given(st.text(max_size=60))
def test_random_characters(text: str) -> None:
    check(text)


@given(st.lists(st.sampled_from(WORDS), max_size=25))
def test_random_words(words: list[str]) -> None:
    check(" ".join(words))


@pytest.mark.parametrize("seed", range(8))
def test_random_mutations(seed: int) -> None:
    source = random.Random(seed)
    for text in corpus():
        for _ in range(5):
            check(mutate(text, source))
