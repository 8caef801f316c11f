"""Random texts and random mutations of good ones: the parser gives a module or one clear refusal, nothing else."""

import random
import re
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xpaged
from xpaged.errors import XpagedError
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module

ROOT = Path(xpaged.__file__).parents[1]
WORDS = [
    *(
        "func.func",
        "@f",
        "%a",
        "%0",
        "arith.addf",
        "arith.constant",
        "rock.deref",
        "rock.transform",
        "by",
        "to",
        "return",
    ),
    *("memref<1x4x1xi64>", "tensor<4x?xf16>", "!rock.tile<4x4xf16>", "!migraphx.shaped<1x2xf16, 2x1>", "i32", "index"),
    *(
        "affine_map<(d0) -> (d0 floordiv 0)>",
        "dense<",
        "{",
        "}",
        "(",
        ")",
        "<",
        ">",
        "[",
        "]",
        ":",
        "->",
        "=",
        ",",
        "#map",
    ),
    *(
        "0x",
        "-1",
        "1e400",
        "99999999999999999999",
        '"',
        "loc(",
        "^bb0",
        "true",
        "{-#",
        "#-}",
        "//",
        "\n",
        "%a#1",
        "scf.for",
    ),
]


def corpus() -> list[str]:
    """Good modules: the shipped examples and those of filecheck/, one piece each, not the longest."""
    files = [*sorted((ROOT / "filecheck").rglob("*.mlir")), *sorted((ROOT / "xpaged" / "examples").glob("*.mlir"))]
    pieces = [piece for path in files for piece in path.read_text().split("// -----")]
    return [piece for piece in pieces if "func.func" in piece and len(piece) < 12000]


def mutate(text: str, random: random.Random) -> str:
    """One to three small changes: cut, doubled, swapped or replaced pieces, other numbers, strange characters."""
    for _ in range(random.randint(1, 3)):
        tokens = re.findall(r"\s+|[\w.$]+|.", text)
        if not tokens:
            return text
        at = random.randrange(len(tokens))
        to = min(len(tokens), at + random.randint(1, 6))
        match random.randrange(7):
            case 0:
                del tokens[at:to]
            case 1:
                tokens[at:at] = tokens[at:to]
            case 2:
                other = random.randrange(len(tokens))
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case 3:
                tokens[at] = random.choice(WORDS)
            case 4:
                numbers = [i for i, token in enumerate(tokens) if token.isdecimal()] or [at]
                tokens[random.choice(numbers)] = random.choice(["0", "-1", "1", "3", "7", "64", "4096", "?", "x"])
            case 5:
                tokens[at] = random.choice(string.printable + "\0\ufffd\u00e9")
            case _:
                return "".join(tokens[:at])
        text = "".join(tokens)
    return text


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
