"""Faults planted at tile level, and the wrong table or number of keys: the oracle or a memory fault shows them.

(Mistakes in one lane's program are planted by `xpaged.testing.mutants`.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from tests.lowering.kernels import BOTH, DEVICE, TILE, Inputs, errors, kernel_of, module_at, ops_of, problem, run
from xpaged.dialects.rock import tile_ops as tile
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.printing import one_line
from xpaged.ir.verify import verify

PROBLEM = problem(
    batch=4,
    heads_q=2,
    heads_kv=1,
    seq_q=3,
    seq_k=600,
    dim_qk=24,
    page_size=48,
    kv_index=[581, 599, 1000, 70],
    causal=True,
    prefix_offset=(579, 598, 598, -1),
    lse=True,
)
"""Four key waves, several trips, GQA rows, pages of two rows; rows end at the diagonal, at the KV index, at no key."""
ORDINARY = Inputs.random(PROBLEM)
ROW = 2 * np.arange(3) + np.arange(8)[:, None] % 2  # of the tile: query row and head of the group
LARGE = replace(ORDINARY, q=ORDINARY.q * np.where(np.isin(ROW, (1, 2, 5)), 120, 20)[..., None].astype(np.float16))
"""Scores so far apart, in neighbouring rows too, that exponentials overflow or vanish where a maximum is wrong."""


def caught(module: ModuleOp, level: Level = DEVICE) -> bool:
    """Whether the check sees that a kernel is wrong."""
    try:
        return any(errors(inputs, run(inputs, level, module=module)) for inputs in (ORDINARY, LARGE))
    except XpagedError:
        return True


@pytest.mark.parametrize("level", BOTH)
def test_the_kernel_itself_is_right(level: Level) -> None:
    assert not caught(module_at(PROBLEM, level), level)


# ---- faults

Fault = Callable[[Operation], None]


class Kind(NamedTuple):
    """A kind of fault: which operations can have it, and how it is planted."""

    ops: tuple[type[Operation], ...]
    faults: dict[str, Fault]
    where: Callable[[Operation], bool] = lambda op: True


def becomes(operand: int) -> Fault:
    """The result is one of the operands."""
    return lambda op: op.results[0].replace_all_uses_with(op.operands[operand])


def planted(kind: Kind, level: Level) -> Iterator[tuple[str, ModuleOp]]:
    """Every module with one fault of a kind, and where the fault is."""
    original = module_at(PROBLEM, level)
    for number, op in enumerate(original.walk()):
        if isinstance(op, kind.ops) and kind.where(op):
            for name, plant in kind.faults.items():
                module = original.clone()
                target = list(module.walk())[number]
                where = f"{name}: {one_line(target)}"
                plant(target)
                verify(module)
                yield where, module


def test_exchanged_tables_are_caught() -> None:
    module = module_at(PROBLEM, DEVICE).clone()
    k_table, v_table = kernel_of(module).body.block.args[1:3]
    k_uses, v_uses = list(k_table.uses), list(v_table.uses)
    assert k_uses
    assert v_uses
    for uses, other in ((k_uses, v_table), (v_uses, k_table)):
        for use in uses:
            use.operation.operands[use.index] = other
    assert caught(module)


def test_one_key_less_or_more_is_caught() -> None:
    """Sk - 1 and Sk + 1 where the kernel says Sk."""
    for by in (-1, 1):
        module = module_at(PROBLEM, DEVICE).clone()
        wrong = 0
        for op in ops_of(module, "arith.constant"):
            assert isinstance(op, arith.ConstantOp)
            if (
                op.result.type == IntegerType(32)
                and isinstance(op.value, IntegerAttr)
                and op.value.value.data in (PROBLEM.seq_k - 1, PROBLEM.seq_k)
            ):
                op.properties["value"] = IntegerAttr(op.value.value.data + by, 32)
                wrong += 1
        assert wrong
        assert caught(module)


# ---- at tile level


def unmasked(op: Operation) -> None:
    assert isinstance(op, tile.TileLoadOp)
    new = tile.TileLoadOp(op.view, list(op.indices), tile.tile_of(op.result).layout)
    Rewriter.replace_op(op, new)


TILE_KINDS: dict[str, Kind] = {
    "a tile is loaded without its mask": Kind(
        (tile.TileLoadOp,),
        {"dropped": unmasked},
        lambda op: isinstance(op, tile.TileLoadOp) and op.mask is not None,
    ),
    "scores are not masked": Kind((tile.TileMaskOp,), {"dropped": becomes(0)}),
    "an elementwise operation is left out": Kind(
        (tile.TileMapOp,),
        {"first": becomes(0)},
        lambda op: op.operands[0].type == op.results[0].type,
    ),
}


@pytest.mark.parametrize("name", TILE_KINDS)
def test_a_fault_at_tile_level_is_caught(name: str) -> None:
    mutants = list(planted(TILE_KINDS[name], TILE))
    assert mutants
    survivors = [where for where, module in mutants if not caught(module, TILE)]
    assert not survivors, survivors[0]
