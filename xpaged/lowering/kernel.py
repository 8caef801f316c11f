"""Attributes of kernel functions: how they are launched, and which buffers the kernels of one module share.

The launch is written by gemm-to-gridwise. A function that does several things one after the other becomes several
kernels (outline-kernels), launched in the order in which they stand: each says which function it was a part of, and
each of its arguments which argument of that function it is (`rock.argument`), or which temporary (`rock.workspace`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation

from xpaged.errors import XpagedError

KERNEL = "rock.kernel"
OLDER_KERNEL = "kernel"
HOST = "rock.host"  # a function that runs on the CPU beside kernels, and stands at no level
GRID_SIZE = "rock.grid_size"
BLOCK_SIZE = "rock.block_size"
WAVES_PER_EU = "rock.waves_per_eu"
LDS_BYTES = "rock.lds_bytes"
DESCRIPTION = "rock.description"
PART_OF = "rock.part_of"
ARGUMENT = "rock.argument"
WORKSPACE = "rock.workspace"
OUTPUT = "rock.output"
MAX_GRID = 2**31 - 1  # workgroups of a launch: the attribute and the hardware register are 32 bits


def is_kernel(op: Operation) -> bool:
    """Whether an operation is a kernel function."""
    return KERNEL in op.attributes or OLDER_KERNEL in op.attributes


def is_host(op: Operation) -> bool:
    """Whether an operation is a function for the CPU."""
    return HOST in op.attributes


def kernels_of(module: ModuleOp) -> list[FuncOp]:
    """The kernels of a module in the order of their launches; its functions with a body where none is marked."""
    functions = [op for op in module.walk() if isinstance(op, FuncOp) and op.body.blocks and not is_host(op)]
    return [f for f in functions if is_kernel(f)] or functions


def program_name(kernels: Sequence[FuncOp]) -> str:
    """What the kernels of a module together are called: as the function that they are parts of."""
    part_of = kernels[0].attributes.get(PART_OF)
    return part_of.data if isinstance(part_of, StringAttr) else kernels[0].sym_name.data


def are_parts(kernels: Sequence[FuncOp]) -> bool:
    """Whether kernels are the parts of one function."""
    names = {each.attributes.get(PART_OF) for each in kernels}
    return len(names) == 1 and None not in names


def argument_attributes(function: FuncOp, index: int) -> dict[str, Attribute]:
    """The attributes of one argument of a function."""
    every = function.arg_attrs.data if isinstance(function.arg_attrs, ArrayAttr) else ()
    return dict(every[index].data) if index < len(every) else {}


def identity_of(argument: BlockArgument) -> int | str:
    """Which buffer an argument of a kernel is: the number of the argument of the function that it comes from (its own,
    unless the kernel is a part of another function), or the name of a temporary."""
    function = argument.owner.parent_op()
    assert isinstance(function, FuncOp)
    attributes = argument_attributes(function, argument.index)
    workspace, number = attributes.get(WORKSPACE), attributes.get(ARGUMENT)
    if isinstance(workspace, StringAttr):
        return workspace.data
    return number.value.data if isinstance(number, IntegerAttr) else argument.index


def grid_size(function: Operation) -> int:
    """Workgroups of a launch."""
    return _integer(function, GRID_SIZE)


def block_size(function: Operation) -> int:
    """Lanes of a workgroup."""
    return _integer(function, BLOCK_SIZE)


def set_launch(function: Operation, grid: int, block: int) -> None:
    """Fix the launch of a kernel."""
    function.attributes[GRID_SIZE] = IntegerAttr(grid, i32)
    function.attributes[BLOCK_SIZE] = IntegerAttr(block, i32)


def set_waves_per_eu(function: Operation, waves: int | None) -> None:
    """Say how many waves of a SIMD the registers must leave room for, None to leave it to the compiler."""
    if waves is not None:
        function.attributes[WAVES_PER_EU] = IntegerAttr(waves, i32)


def _integer(function: Operation, name: str) -> int:
    value = function.attributes.get(name)
    if not isinstance(value, IntegerAttr):
        raise XpagedError(
            f"the kernel has no attribute {name}", at=function, fix="run gemm-to-gridwise, which sets the launch"
        )
    return value.value.data
