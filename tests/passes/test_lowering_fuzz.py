"""Random changes of the text of a kernel, at any level: it becomes a kernel or is refused, never with a traceback."""

from __future__ import annotations

import random
import re
from functools import cache

import pytest

from tests.lowering.kernels import module_at, problem
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.passes.pipelines import passes_between
from xpaged.pipeline import Pipeline

PROBLEMS = (
    problem(
        **{"batch": 2, "heads_q": 4, "heads_kv": 2, "seq_q": 5, "seq_k": 40, "dim_qk": 24, "page_size": 48},
        **{"kv_index": [3, 39], "causal": True, "lse": True, "scale": 0.5, "bias": True, "arch": "gfx942"},
    ),
    problem(seq_q=20, seq_k=40, dim_qk=16, page_size=640, dtype="f32", arch="gfx90a"),
)
LEVELS = (Level.ROCK_MEMREF, Level.GRIDWISE, Level.TILE)
NUMBER = re.compile(r"(?<![\w%#.])-?\d+(?![\w.])|(?<=[x<])\d+(?=x)")
VALUE = re.compile(r"%\w+")


@cache
def texts() -> list[tuple[Level, str]]:
    return [(level, print_module(module_at(p, level))) for p in PROBLEMS for level in LEVELS]


def mutated(rng: random.Random, text: str) -> str:
    """One number, line or use of a value is changed, dropped or exchanged."""
    lines = text.split("\n")
    match rng.choice(["number", "number", "drop", "exchange", "value"]):
        case "number":
            found = rng.choice(list(NUMBER.finditer(text)))
            n = int(found[0])
            new = rng.choice([0, 1, -1, n + 1, n - 1, 2 * n, n // 2, 7, 2**31, 2**40, 10**30])
            return text[: found.start()] + str(new) + text[found.end() :]
        case "drop":
            lines.pop(rng.randrange(len(lines)))
        case "exchange":
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
        case _:
            uses = list(VALUE.finditer(text))
            found, other = rng.choice(uses), rng.choice(uses)[0]
            return text[: found.start()] + other + text[found.end() :]
    return "\n".join(lines)


def lower_some(count: int, seed: int) -> int:
    """Lower changed texts; how many became kernels."""
    rng = random.Random(seed)
    taken = 0
    for _ in range(count):
        level, text = rng.choice(texts())
        for _ in range(rng.randint(1, 2)):
            text = mutated(rng, text)
        try:
            module = parse(text, "k.mlir")
            Pipeline(",".join(passes_between(level, Level.DEVICE))).apply(module)
        except XpagedError:
            continue
        except Exception as error:
            error.add_note(text)
            raise
        taken += 1
    return taken


def test_changed_kernels_are_lowered_or_refused() -> None:
    assert lower_some(30, seed=0) < 30


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_changed_kernels(seed: int) -> None:
    lower_some(400, seed)
