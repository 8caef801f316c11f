"""What the tests of passes share: the IR that a pass's docstring shows."""

import inspect
from collections.abc import Callable
from importlib import import_module
from textwrap import dedent

import pytest
from xdsl.dialects.builtin import ModuleOp

Examples = Callable[[str], tuple[ModuleOp, ModuleOp]]


@pytest.fixture
def docstring_ir() -> Examples:
    """`docstring_ir("bufferize")`: the modules before and after that the text of `passes/bufferize.py` shows."""
    from xpaged.ir.parsing import parse

    def examples(name: str) -> tuple[ModuleOp, ModuleOp]:
        module = import_module(f"xpaged.passes.{name.replace('-', '_')}")
        text = inspect.cleandoc(module.__doc__ or "")
        indented: list[list[str]] = [[]]
        for line in text.splitlines():
            if line.startswith("    ") or (not line and indented[-1]):
                indented[-1].append(line)
            elif indented[-1]:
                indented.append([])
        before, after = (dedent("\n".join(lines)) for lines in indented[:2])
        return parse(before, f"{name}:before"), parse(after, f"{name}:after")

    return examples
