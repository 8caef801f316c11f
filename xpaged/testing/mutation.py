"""Damaged MLIR for robustness tests: random changes to a good text, from one seed always the same."""

import re
import string
from random import Random

WORDS = (
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
)
"""Pieces of MLIR, and things that look like them."""

_NUMBERS = ("0", "-1", "1", "2", "3", "7", "64", "4096", "?", "x")
_CHARACTERS = string.printable + "\0\ufffd\u00e9"
_TYPES = ("f16", "f32", "i8", "i32", "i64", "index", "bf16")


def mutate(text: str, random: Random) -> str:
    """`text` with one to three changes: pieces cut, doubled, swapped or replaced, other numbers, strange characters."""
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
                tokens[random.choice(numbers)] = random.choice(_NUMBERS)
            case 5:
                tokens[at] = random.choice(_CHARACTERS)
            case _:
                return "".join(tokens[:at])
        text = "".join(tokens)
    return text


def mutate_values(text: str, random: Random) -> str:
    """`text` with one number or element type changed wherever it stands: what is left often still parses."""
    pieces = re.split(r"((?<![\w.%@#$])-?\d+(?![\w.])|\b(?:f16|f32|i32|i64)\b)", text)
    chosen = pieces[random.randrange(1, len(pieces), 2)]
    other = random.choice(_TYPES if chosen[0] in "fi" else _NUMBERS)
    everywhere = random.random() < 0.5
    places = [i for i in range(1, len(pieces), 2) if pieces[i] == chosen]
    for i in places if everywhere else [random.choice(places)]:
        pieces[i] = other
    return "".join(pieces)


def drop_line(text: str, random: Random) -> str:
    """`text` without one of its lines, or with two neighbouring lines exchanged."""
    lines = text.splitlines()
    at = random.randrange(len(lines) - 1)
    if random.random() < 0.5:
        del lines[at]
    else:
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return "\n".join(lines)
