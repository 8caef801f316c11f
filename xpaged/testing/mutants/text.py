"""What is changed in the emitted HIP text: the same kinds of mistakes, as a hand would make them there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_NUMBER = re.compile(r"(?<![\w.\[])(\d+)(u?)(?![\w.\]])")
_FLOAT = re.compile(r"(?<![\w.])(\d+\.\d+)f")


class TextMutant(NamedTuple):
    """One mistake in a text: of which operator, in which line (from 1), which variant, and the text with it."""

    operator: str
    line: int
    variant: str
    text: str


def body_of(text: str) -> tuple[int, int]:
    """The lines of the kernels of a text: everything behind the first kernel's head, numbered from 0, end excluded."""
    lines = text.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith('extern "C"'))
    first = next(i for i in range(head, len(lines)) if lines[i].endswith("{"))
    return first + 1, len(lines)


Change = Callable[[str], Iterator[tuple[str, str]]]
"""The changed forms of a line, each with the name of the variant."""


def _each(pattern: str, new: str | Callable[[re.Match[str]], str], variant: str) -> Change:
    compiled = re.compile(pattern)

    def change(line: str) -> Iterator[tuple[str, str]]:
        for found in compiled.finditer(line):
            made = new(found) if callable(new) else found.expand(new)
            yield variant, line[: found.start()] + made + line[found.end() :]

    return change


def _numbers(line: str) -> Iterator[tuple[str, str]]:
    for found in _NUMBER.finditer(line):
        for by in (1, -1):
            number = int(found[1]) + by
            if number >= 0:
                yield f"{by:+}", f"{line[: found.start()]}{number}{found[2]}{line[found.end() :]}"


OPERATORS: dict[str, tuple[Change, ...]] = {
    "mask": (
        _each(r"= (?P<c>[^;=?]+) \? (?=load<)", "= true ? ", "dropped"),
        _each(r"if \((?P<c>[^;]+)\) (?=store<|at<|lds_|\{)", "if (true) ", "dropped"),
    ),
    "select": (
        _each(r"(?<== )(?P<c>[^;=?]+(<=|<|==)[^;=?]+) \? (?!load<)", "true ? ", "always the first"),
        _each(r"(?<== )(?P<c>[^;=?]+(<=|<|==)[^;=?]+) \? (?!load<)", "false ? ", "always the second"),
    ),
    "comparison": (
        _each(r" <= ", " < ", "<"),
        _each(r" < (?!\d+; \+\+)", " <= ", "<="),
        _each(r" == ", " != ", "!="),
        _each(r" && ", " || ", "||"),
    ),
    "number": (_numbers,),
    "scale": (_each(_FLOAT.pattern, lambda m: f"{float(m[1]) * 1.25}f", "* 1.25"),),
    "arithmetic": (
        _each(r" \+ ", " - ", "-"),
        _each(r" - ", " + ", "+"),
        _each(r" \* ", " + ", "+"),
        _each(r" / ", " * ", "*"),
        _each(r" % ", " / ", "/"),
    ),
    "operands": (
        _each(r"mma\(([^,()]+), ([^,()]+), ", r"mma(\2, \1, ", "swapped"),
        _each(r"\.x, (\w+)\.y", r".y, \1.x", "swapped"),
        _each(r"imin\(([^,()]+), ([^,()]+)\)", r"\1", "missing"),
        _each(r"imin\(([^,()]+), ([^,()]+)\)", r"\2", "the second alone"),
    ),
    "exchange": (_each(r"lane_xor\d+\(", "(", "missing"), _each(r"lane_xor32\(", "lane_xor16(", "another lane")),
    "integer width": (_each(r"\bu64 ", "u32 ", "u32"), _each(r"\bint (?=\w+ =)", "signed char ", "signed char")),
}
"""Every operator by its name in reports, but for those that move lines."""

_SILENT = ("#", "//")


def mutants(text: str) -> Iterator[TextMutant]:
    """Every mutant of a text, line by line."""
    lines = text.splitlines()
    for number in range(*body_of(text)):
        line = lines[number]
        if line.strip().startswith(_SILENT) or "HOLD(" in line or not line.strip():
            continue
        if line.strip() == "barrier();":
            yield TextMutant("barrier", number + 1, "dropped", _joined(lines[:number] + lines[number + 1 :]))
            for by, where in ((1, "one line later"), (-1, "one line earlier")):
                other = lines[number + by].strip()
                if other.endswith(";") and not other.startswith(_SILENT):
                    moved = list(lines)
                    moved[number], moved[number + by] = moved[number + by], moved[number]
                    yield TextMutant("barrier", number + 1, where, _joined(moved))
            continue
        for operator, changes in OPERATORS.items():
            for change in changes:
                for variant, new in change(line):
                    if new != line:
                        changed = _joined([*lines[:number], new, *lines[number + 1 :]])
                        yield TextMutant(operator, number + 1, variant, changed)


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
