"""What the tests of passes share: the IR that a pass's docstring shows."""

import inspect
from collections.abc import Callable
from importlib import import_module
from textwrap import dedent
from typing import Any

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


Executed = Callable[[ModuleOp, dict[str, Any]], dict[str, Any]]


@pytest.fixture
def executed() -> Executed:
    """`executed(module, inputs)`: the arrays that a module computes at its own level, on shuffled pages."""
    from xpaged.interpreter.run import run

    def outputs(module: ModuleOp, inputs: dict[str, Any]) -> dict[str, Any]:
        report = run(module, inputs, seed=7)
        assert report.ok, report.faults
        return {name.split("/")[1]: array for name, array in report.arrays().items()}

    return outputs
