"""The IR that the docstrings of passes show is real: it is parsed, lowered by the pass, and compared.

A docstring holds two indented blocks: a module before the pass, and after `becomes` the same module after it.  Where
it says `becomes, in part` the second block is an excerpt: each of its lines (or the part of a line that is shown)
occurs in the real result, in this order.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from importlib import import_module
from textwrap import dedent

import pytest

from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.passes import NAMES
from xpaged.pipeline import Pipeline


@dataclass
class Example:
    """What a docstring shows."""

    before: str
    after: str
    whole: bool


def example_of(text: str) -> Example:
    """The two blocks of a docstring."""
    parts = re.split(r"^(becomes[^\n]*)$", text, maxsplit=1, flags=re.MULTILINE)
    assert len(parts) == 3, "a docstring shows the IR before the pass, `becomes`, and the IR after it"
    return Example(_block(parts[0], last=True), _block(parts[2], last=False), "in part" not in parts[1])


def _block(text: str, *, last: bool) -> str:
    """The last, or first, indented block of a text."""
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("    ") or (not line.strip() and blocks[-1]):
            blocks[-1].append(line)
        elif blocks[-1]:
            blocks.append([])
    found = [block for block in blocks if any(line.strip() for line in block)]
    assert found, "no indented block"
    return dedent("\n".join(found[-1 if last else 0]))


def missing(excerpt: str, text: str) -> str | None:
    """The first line of an excerpt that does not occur in its place; None when all do."""
    flat, at = " ".join(text.split()), 0
    for line in excerpt.splitlines():
        words = " ".join(line.split())
        found = flat.find(words, at)
        if found < 0:
            return words
        at = found + len(words)
    return None


def compared(example: Example, name: str) -> str | None:
    """What is wrong with an example of a pass; None when it is true."""
    module = parse(example.before, f"{name}: before")
    Pipeline(name).apply(module)
    text = print_module(module)
    if not example.whole:
        line = missing(example.after, text)
        return None if line is None else f"{line!r} is not in its place in\n{text}"
    shown = print_module(parse(example.after, f"{name}: after"))
    return None if shown == text else f"the result is\n{text}"


@pytest.mark.parametrize("name", NAMES)
def test_the_ir_of_a_pass(name: str) -> None:
    module = import_module(f"xpaged.passes.{name.replace('-', '_')}")
    text = inspect.cleandoc(module.__doc__ or "")
    assert text.startswith(f"{name}: "), "the first line says what the pass does"
    assert not re.search(r"\.\.\.", text), "what is left out is told in words"
    options = re.search(rf"`({name}\{{[^}}]*\}})`", text)  # those that the text says the example has
    wrong = compared(example_of(text), name if options is None else options[1])
    assert wrong is None, wrong


EXAMPLE = """place-barriers: text.

    func.func @f() {
      %x = arith.constant 1 : i32
      func.return
    }

becomes{how}

    func.func @f() {{
      %x = arith.constant {value} : i32
      func.return
    }}

More text.
"""


@pytest.mark.parametrize("how", ["", ", in part,"])
def test_a_wrong_example_is_noticed(how: str) -> None:
    def judged(value: int) -> str | None:
        before, after = EXAMPLE.split("becomes")
        return compared(example_of(before + "becomes" + after.format(how=how, value=value)), "place-barriers")

    assert judged(1) is None
    wrong = judged(2)
    assert wrong is not None
    assert "arith.constant 1" in wrong


def test_excerpts_are_in_order() -> None:
    text = "one two three\n  four   five\nsix"
    assert missing("one two\nfive\nsix", text) is None
    assert missing("two three four\nfive", text) is None  # lines may be broken elsewhere
    assert missing("five\nfour", text) == "four"
    assert missing("one three", text) == "one three"


def test_a_docstring_without_an_example_is_noticed() -> None:
    with pytest.raises(AssertionError, match="before the pass"):
        example_of("some-pass: does something.")
    with pytest.raises(AssertionError, match="no indented block"):
        example_of("some-pass: does something.\n\nbecomes\n\nnothing")
