"""Planted faults: whatever single thing is wrong in a lowered kernel, the oracle or a memory fault shows it.

Each kind of fault is planted at every place of one device kernel where it can be, one at a time.  (A dropped barrier
is not among them: lanes that run in lock-step do not need it.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, ModuleOp, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tests.lowering.kernels import BOTH, DEVICE, TILE, Inputs, errors, kernel_of, module_at, ops_of, problem, run
from xpaged.dialects import hip
from xpaged.dialects.rock import tile_ops as tile
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.printing import one_line
from xpaged.ir.verify import verify
from xpaged.lowering.attention_tiles import SLACK

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


def moved(operand: int, by: int) -> Fault:
    """An integer operand is off by something."""

    def plant(op: Operation) -> None:
        value = op.operands[operand]
        assert isinstance(value.type, IntegerType)
        step = arith.ConstantOp(IntegerAttr(by, value.type))
        wrong = arith.AddiOp(value, step)
        Rewriter.insert_op([step, wrong], InsertPoint.before(op))
        op.operands[operand] = wrong.result

    return plant


def becomes(operand: int) -> Fault:
    """The result is one of the operands."""
    return lambda op: op.results[0].replace_all_uses_with(op.operands[operand])


def exchanged(a: int, b: int) -> Fault:
    """Two operands change places."""

    def plant(op: Operation) -> None:
        first, second = op.operands[a], op.operands[b]
        op.operands[a], op.operands[b] = second, first

    return plant


def compares(predicate: str) -> Fault:
    """A comparison asks something else."""

    def plant(op: Operation) -> None:
        assert isinstance(op, arith.CmpiOp)
        op.properties["predicate"] = arith.CmpiOp(op.lhs, op.rhs, predicate).predicate

    return plant


def partner(op: Operation) -> None:
    """The value comes from another lane."""
    assert isinstance(op, hip.ExchangeOp)
    op.properties["xor"] = IntegerAttr(op.xor.value.data ^ 1, 64)


def is_uniform(op: Operation) -> bool:
    return any(isinstance(use.operation, hip.UniformOp) for use in op.results[0].uses)


def is_key_mask(op: Operation) -> bool:
    """Comparisons of a key with a bound that is known at run time only."""
    assert isinstance(op, arith.CmpiOp)
    return op.predicate.value.data == 3 and not isinstance(op.rhs.owner, arith.ConstantOp)


def bounds_a_row(op: Operation) -> bool:
    """Minima that end in a comparison; others say how many tiles there are, where one more does no harm."""

    def reaches(value: SSAValue) -> bool:
        users = [use.operation for use in value.uses]
        return any(isinstance(u, arith.CmpiOp) for u in users) or any(
            isinstance(u, arith.MinSIOp) and reaches(u.result) for u in users
        )

    return reaches(op.results[0])


def makes_an_address(op: Operation) -> bool:
    """Index arithmetic that ends in the place of a load or store."""

    def reaches(value: SSAValue) -> bool:
        for use in value.uses:
            user = use.operation
            if isinstance(user, LOADS) and use.index == 1 and not is_uniform(user):
                return True
            if isinstance(user, STORES) and use.index == 2:
                return True
            if isinstance(user, ARITHMETIC) and reaches(user.results[0]):
                return True
        return False

    return isinstance(op.results[0].type, IntegerType) and reaches(op.results[0])


def is_slack(op: Operation) -> bool:
    """How far a score may lie above the reference of its row: any finite slack gives the same result."""
    added = op.operands[1].owner
    return isinstance(added, arith.ConstantOp) and added.value == FloatAttr(SLACK, f32)


LOADS = (hip.LoadOp, hip.LdsLoadOp)
ARITHMETIC = (arith.AddiOp, arith.MuliOp, arith.DivUIOp, arith.RemUIOp, arith.MinUIOp)
STORES = (hip.StoreOp, hip.LdsStoreOp)
KINDS: dict[str, Kind] = {
    "an element or page-table entry beside the right one is loaded": Kind(
        LOADS, {"+1": moved(1, 1), "-1": moved(1, -1)}, lambda op: not is_uniform(op)
    ),
    "a lane or a wave has a wrong share": Kind(
        (arith.MuliOp, arith.DivUIOp, arith.RemUIOp), {"+1": moved(1, 1), "first": becomes(0)}, makes_an_address
    ),
    "an element is stored beside its place": Kind(STORES, {"+1": moved(2, 1), "-1": moved(2, -1)}),
    "a value is not exchanged, or with the wrong lane": Kind(
        (hip.ExchangeOp,), {"missing": becomes(0), "partner": partner}
    ),
    "a mask compares wrongly": Kind(
        (arith.CmpiOp,),
        {**{p: compares(p) for p in ("slt", "sge", "sgt", "eq")}, "+1": moved(0, 1), "-1": moved(0, -1)},
        is_key_mask,
    ),
    "the last key of a row is wrong": Kind((arith.MinSIOp,), {"first": becomes(0), "-1": moved(0, -1)}, bounds_a_row),
    "the operands of a matrix instruction change places": Kind((hip.MmaOp,), {"swap": exchanged(0, 1)}),
    "a select takes the other value": Kind((arith.SelectOp,), {"swap": exchanged(1, 2)}),
    "a register is not set": Kind((hip.SetOp,), {"dropped": Rewriter.erase_op}),
    "a product or difference is left out": Kind(
        (arith.MulfOp, arith.SubfOp, arith.AddfOp), {"first": becomes(0)}, lambda op: not is_slack(op)
    ),
}


def planted(kind: Kind, level: Level = DEVICE) -> Iterator[tuple[str, ModuleOp]]:
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


@pytest.mark.parametrize("name", KINDS)
def test_a_fault_is_caught_wherever_it_is(name: str) -> None:
    mutants = list(planted(KINDS[name]))
    assert mutants
    survivors = [where for where, module in mutants if not caught(module)]
    assert not survivors, f"{len(survivors)} of {len(mutants)} are not noticed, such as {survivors[0]}"


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


def test_a_loop_that_makes_a_trip_less_is_caught() -> None:
    """Of the loop over whole tiles, and of that over tiles that masks cut."""
    for number in range(2):
        module = module_at(PROBLEM, DEVICE).clone()
        loops = [op for op in ops_of(module, "scf.for") if hip.UNROLL not in op.attributes]
        assert len(loops) == 2
        loop = loops[number]
        assert isinstance(loop, scf.ForOp)
        assert not isinstance(loop.ub.owner, arith.ConstantOp)
        if number == 0:  # the trip that is left out is not made up for by the other loop, which starts behind it
            assert loops[1].operands[0] is loop.ub
        moved(1, -1)(loop)
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
