"""Attributes of a kernel function: how it is launched. Written by gemm-to-gridwise, read by everything after it."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation

from xpaged.errors import XpagedError

KERNEL = "rock.kernel"
GRID_SIZE = "rock.grid_size"
BLOCK_SIZE = "rock.block_size"
LDS_BYTES = "rock.lds_bytes"
DESCRIPTION = "rock.description"
MAX_GRID = 2**31 - 1  # workgroups of a launch: the attribute and the hardware register are 32 bits


def is_kernel(op: Operation) -> bool:
    """Whether an operation is a kernel function."""
    return KERNEL in op.attributes


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


def _integer(function: Operation, name: str) -> int:
    value = function.attributes.get(name)
    if not isinstance(value, IntegerAttr):
        raise XpagedError(
            f"the kernel has no attribute {name}", at=function, fix="run gemm-to-gridwise, which sets the launch"
        )
    return value.value.data
