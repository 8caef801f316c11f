"""Functions for the host beside a kernel, executed: a second opinion on the kernel's results, and the whole program.

`host_naive_attention` takes K and V in logical order, which is the order of the entries of a page table. `main` makes
inputs of its own, calls the kernel as its definition says, and prints flags.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp

from xpaged.errors import XpagedError
from xpaged.interpreter.compare import Output
from xpaged.interpreter.evaluator import Machine, Program
from xpaged.interpreter.inputs import Argument, Inputs
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.numerics import Array, dtype_of
from xpaged.interpreter.views import MemRef, strides_of

NAIVE = "host_naive_attention"
MAIN = "main"
VERDICT = "print_verdict"


def host_function(module: ModuleOp, name: str) -> FuncOp | None:
    """The function for the host called `name`, with a body."""
    found = (op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == name)
    return next((op for op in found if not op.is_declaration), None)


def second_opinion(module: ModuleOp, arguments: Sequence[Argument], inputs: Inputs) -> list[Output]:
    """The results of `host_naive_attention` on the inputs of the kernel with `arguments`, by the kernel's numbers.

    Raises XpagedError where an argument of one has no counterpart in the other.
    """
    function = host_function(module, NAIVE)
    assert function is not None
    memory = Memory()
    by_name = {arg.name.removesuffix("_table"): arg for arg in arguments}
    values: list[MemRef] = []
    outputs: list[tuple[Argument, MemRef]] = []
    for arg in function.body.block.args:
        source = by_name.get(arg.name_hint or "")
        if source is None or not isinstance(arg.type, MemRefType):
            raise XpagedError(
                f"{NAIVE} has an argument that the kernel has not", at=arg, found=f"%{arg.name_hint}: {arg.type}"
            )
        dtype, count = dtype_of(arg.type), prod(arg.type.get_shape())
        made = memory.allocate(max(count * dtype.itemsize, 1), name=source.name, dtype=dtype, fill=0xFF)
        there = MemRef(np.array([made.base], np.uint64), dtype, arg.type.get_shape(), strides_of(arg.type))
        values.append(there)
        if source.output is not None:
            outputs.append((source, there))
            continue
        data = inputs.pages[source.index].data if source.is_table else inputs.arrays[source.index]
        if data.size != count:
            raise XpagedError(
                f"{NAIVE} takes another number of elements than the kernel",
                at=arg,
                found=count,
                expected=data.size,
            )
        memory.write_array(made.base, data.reshape(-1).astype(dtype, copy=False))
    Program(module).call(Machine(memory), NAIVE, values)
    found = [_output(memory, source, there) for source, there in outputs]
    return sorted(found, key=lambda output: output.number)


def _output(memory: Memory, source: Argument, there: MemRef) -> Output:
    values = there.read_all(memory).reshape(-1)
    assert source.output is not None
    return Output(source.output, source.name, values, np.ones(values.size, np.bool_))


def run_main(module: ModuleOp) -> list[tuple[str, Array]]:
    """Executes `main` and returns what it printed: the name of each printing function, and the values."""
    machine = Machine(Memory())
    Program(module).call(machine, MAIN, [])
    return machine.printed
