"""MIGraphX functions of one operation for tests, and running them at the graph levels."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from xpaged.interpreter.evaluator import Machine, Program
from xpaged.interpreter.memory import Memory
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.passes.pipelines import lower

Array = np.ndarray[Any, Any]


def shaped(shape: Sequence[int], element: str) -> str:
    """The short type of a row-major tensor."""
    strides = "x".join(str(int(np.prod(shape[i + 1 :]))) for i in range(len(shape)))
    return f"<{'x'.join(map(str, shape))}x{element}, {strides}>"


def function(op: str, result: str, *arguments: str, arrow: str = "->") -> str:
    """A function of arguments %a, %b ... of the given short types around one operation."""
    names = ", ".join(f"%{'abcde'[i]}: !migraphx.shaped{type}" for i, type in enumerate(arguments))
    return (
        f"func.func @f({names}) -> !migraphx.shaped{result} {{\n  %r = migraphx.{op} {arrow} {result}\n"
        f"  return %r : !migraphx.shaped{result}\n}}"
    )


def run_all(
    text: str,
    *values: Array,
    exact: bool = False,
    level: Level = Level.MIGRAPHX,
    memory: Memory | None = None,
) -> tuple[Array, ...]:
    """The results of the function `f` of a module, at level migraphx or (flat) tosa."""
    module = lower(parse(text), level)
    arguments = [x.reshape(-1) if level is Level.TOSA else x for x in values]
    return Program(module, exact=exact).call(Machine(memory, exact=exact), "f", arguments)


def run(
    text: str,
    *values: Array,
    exact: bool = False,
    level: Level = Level.MIGRAPHX,
    memory: Memory | None = None,
) -> Array:
    """As `run_all`, for a function with one result."""
    (value,) = run_all(text, *values, exact=exact, level=level, memory=memory)
    return value
