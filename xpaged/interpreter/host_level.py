"""Level host: the emitted HIP text on this machine's CPU, with the same data in the same state as the levels above."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xpaged.arch.table import Arch
from xpaged.codegen.hip_printer import print_hip
from xpaged.codegen.host import HostFault, HostKernel, PageTable
from xpaged.codegen.launch import describe_launches
from xpaged.interpreter.compare import Output
from xpaged.interpreter.inputs import Argument, Entry, Inputs, Pages, garbage_of, page_contents
from xpaged.interpreter.memory import page_stride
from xpaged.interpreter.numerics import Array, is_float
from xpaged.interpreter.views import page_alignment
from xpaged.lowering.kernel import program_name


def run_host(
    module: ModuleOp,
    arch: Arch,
    entry: Entry,
    inputs: Inputs,
    groups: Sequence[int] | None = None,
    edit: Callable[[str], str] | None = None,
) -> list[Output]:
    """
    Print the kernels of a device-level module, compile the text (perhaps changed by `edit`) for the CPU, and run all
    workgroups, or `groups` of the last kernel.

    Everything runs twice, the second time with lanes and waves in backward order: results that depend on the order
    lack a barrier, and are a fault. Raises HostFault for what goes wrong in a kernel, ToolchainError when this machine
    cannot run kernels, XpagedError for a module that cannot be printed.
    """
    name, arguments = program_name(entry.functions), entry.arguments
    text = print_hip(module, arch)
    text = text if edit is None else edit(text)
    launch = describe_launches(entry.functions, f"{name}.{arch.name}.hsaco")
    names = {
        index: buffer
        for each, slots in zip(launch.launches, entry.slots, strict=True)
        for index, buffer in zip(slots, each.args, strict=True)
    }
    given: dict[str, Array | PageTable] = {}
    for arg in arguments:
        if arg.is_table:
            given[names[arg.index]] = _table(inputs.pages[arg.index], inputs.random)
        elif arg.is_input:
            given[names[arg.index]] = inputs.arrays[arg.index]
    found: list[dict[int, Array]] = []
    with HostKernel(text, arch, launch) as kernel:
        for backward in (False, True):
            outputs = {a.index: _unwritten(a.dtype, a.count, backward) for a in arguments if a.output is not None}
            by_name = {names[index]: values for index, values in outputs.items()}
            kernel.launch(given | by_name, groups=groups, backward=backward)
            found.append(outputs)
    forward, backward = found
    results: list[Output] = []
    for arg in arguments:
        if arg.output is not None:
            values, again = forward[arg.index], backward[arg.index]
            fills = [_bits(_unwritten(arg.dtype, 1, order)) for order in (False, True)]
            written = (_bits(values) != fills[0]) | (_bits(again) != fills[1])
            _same(arg, name, _bits(values)[written], _bits(again)[written])
            if _has_pattern(arg.dtype):
                values[~written] = np.nan  # a quiet one
            results.append(Output(arg.output, arg.name, values, written))
    return sorted(results, key=lambda output: output.number)


def _table(pages: Pages, random: bool) -> PageTable:
    data, mapped = page_contents(pages, poison=True, random=random)
    size = data.shape[1] * data.itemsize
    align = page_alignment(size)
    return PageTable(
        data, pages.place, mapped, garbage_of(len(data), size), pages.base, page_stride(size, align), align
    )


def _same(arg: Argument, kernel: str, forward: Array, backward: Array) -> None:
    differ = np.flatnonzero(forward != backward)
    if len(differ):
        raise HostFault(
            f"kernel '{kernel}': the results depend on the order in which lanes and waves run: a barrier is missing",
            found=f"{len(differ)} of {arg.count} elements of output '{arg.name}', the first is element {differ[0]}",
        )


def _bits(values: Array) -> Array:
    return values.view(np.dtype(f"u{values.dtype.itemsize}"))


def _has_pattern(dtype: np.dtype[Any]) -> bool:
    return is_float(dtype) and dtype.itemsize > 1


def _unwritten(dtype: np.dtype[Any], count: int, backward: bool) -> Array:
    """What an output holds before the kernel runs: a signalling NaN, which no arithmetic gives, where the type has
    one (the bits above the first mantissa bit are all set, that bit is not); else zeros, and ones when run backward."""
    if not _has_pattern(dtype):
        return np.full(count * dtype.itemsize, -backward, np.int8).view(dtype)
    return np.full(count, _SIGNALLING[dtype.name], np.dtype(f"u{dtype.itemsize}")).view(dtype)


_SIGNALLING = {
    "float16": 0xFDA5,
    "bfloat16": 0xFFA5,
    "float32": 0xFFA5_A5A5,
    "float64": 0xFFF5_A5A5_A5A5_A5A5,
}
