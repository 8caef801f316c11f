"""What is changed in a kernel at the device level: one mutation operator for each kind of mistake.

An operator looks at one operation and yields what can go wrong there: a name, and a function that plants it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, VectorType, i1, i8, i32, i64
from xdsl.ir import Operation, OpResult, SSAValue

from xpaged.dialects import hip
from xpaged.testing.mutants.changes import Change

Plant = Callable[[Change], None]


class Mutant(NamedTuple):
    """One mistake: of which operator, in which operation, which variant, and how it is planted."""

    operator: str
    op: Operation
    variant: str
    plant: Plant


Operator = Callable[[Operation, "Facts"], Iterator[tuple[str, Plant]]]
LOADS = (hip.LoadOp, hip.LdsLoadOp, hip.LoadLdsOp)
STORES = (hip.StoreOp, hip.LdsStoreOp)
ORDERED = (hip.LdsLoadOp, hip.LdsStoreOp, hip.LoadLdsOp, hip.WaitcntOp)
INTEGERS = (
    arith.AddiOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.DivUIOp,
    arith.DivSIOp,
    arith.RemUIOp,
    arith.RemSIOp,
    arith.MinSIOp,
    arith.MaxSIOp,
    arith.MinUIOp,
    arith.MaxUIOp,
    arith.ShLIOp,
    arith.ShRUIOp,
)


class Facts:
    """What operators need to know of a kernel: which arithmetic forms addresses."""

    def __init__(self, module: Operation) -> None:
        from xpaged.interpreter.court.overflow import address_slice

        self.addresses = address_slice(module)


# ---- how mistakes are planted


def moved(op: Operation, operand: int, by: int) -> Plant:
    """An integer operand is off by something."""

    def plant(c: Change) -> None:
        value = op.operands[operand]
        type_ = value.type
        assert isinstance(type_, IntegerType)
        step = arith.ConstantOp(IntegerAttr(by, type_))
        wrong = arith.AddiOp(value, step)
        c.insert(op, [step, wrong])
        c.operand(op, operand, wrong.result)

    return plant


def becomes(op: Operation, operand: int) -> Plant:
    """The result is one of the operands."""
    return lambda c: c.uses(op.results[0], op.operands[operand])


def property_is(op: Operation, name: str, value: Any) -> Plant:
    """Another property."""
    return lambda c: c.property(op, name, value)


def narrowed(op: Operation, type_: IntegerType) -> Plant:
    """The result is cut to fewer bits and widened again, with its sign."""

    def plant(c: Change) -> None:
        result = op.results[0]
        cut = arith.TruncIOp(result, type_)
        wide = arith.ExtSIOp(cut.result, result.type)  # pyright: ignore[reportArgumentType]
        c.insert(op, [cut, wide], after=True)
        c.uses(result, wide.result, but=cut)

    return plant


def scaled(op: Operation, operand: int, factor: float) -> Plant:
    """A float operand is multiplied by something."""

    def plant(c: Change) -> None:
        value = op.operands[operand]
        element = hip.element_of(value.type)
        assert isinstance(element, AnyFloat)
        ops: list[Operation] = [arith.ConstantOp(FloatAttr(factor, element))]
        if isinstance(value.type, VectorType):
            ops.append(hip.SplatOp(ops[0].results[0], hip.lanes_of(value.type)))
        ops.append(arith.MulfOp(value, ops[-1].results[0]))
        c.insert(op, ops)
        c.operand(op, operand, ops[-1].results[0])

    return plant


def is_true(op: Operation, operand: int, value: bool = True) -> Plant:
    """A mask holds everywhere (or nowhere)."""

    def plant(c: Change) -> None:
        always = arith.ConstantOp(IntegerAttr(-1 if value else 0, i1))
        c.insert(op, [always])
        c.operand(op, operand, always.result)

    return plant


# ---- the operators


def barriers(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """A barrier is missing, or stands behind (before) the LDS access that it should stand before (behind)."""
    if not isinstance(op, hip.BarrierOp):
        return
    yield "dropped", lambda c: c.remove(op)
    for after in (True, False):
        near = op.next_op if after else op.prev_op
        while near is not None and not isinstance(near, ORDERED) and not near.regions:
            near = near.next_op if after else near.prev_op
        if near is not None and near.next_op is not None:
            yield f"{'behind' if after else 'before'} the next access", _moved_to(op, near, after)


def _moved_to(op: Operation, near: Operation, after: bool) -> Plant:
    return lambda c: c.move(op, near, after=after)


def waits(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """A wait is missing, waits for one load less, or stands behind the read that needs it."""
    if not isinstance(op, hip.WaitcntOp):
        return
    yield "dropped", lambda c: c.remove(op)
    yield "one less", property_is(op, "pending", IntegerAttr(op.pending.value.data + 1, 64))


def masks(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """The mask of an access holds everywhere or nowhere."""
    mask = getattr(op, "mask", None) if isinstance(op, LOADS + STORES) else None
    if mask is not None:
        at = list(op.operands).index(mask)
        yield "dropped", is_true(op, at)
        yield "nothing left", is_true(op, at, False)


def selects(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """A select takes always one of its values, or the other one."""
    if isinstance(op, arith.SelectOp):
        yield "always the first", becomes(op, 1)
        yield "always the second", becomes(op, 2)
        yield "the other one", lambda c: c.swap(op, 1, 2)


_NEAR = {"slt": "sle", "sle": "slt", "sgt": "sge", "sge": "sgt", "ult": "ule", "ule": "ult", "ugt": "uge", "uge": "ugt"}
_NAMES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_INVERSE = {0: 1, 1: 0, 2: 5, 3: 4, 4: 3, 5: 2, 6: 9, 7: 8, 8: 7, 9: 6}


def comparisons(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """A comparison includes its bound or not, is inverted, or its bound is off by one."""
    if isinstance(op, arith.CmpiOp):
        predicate = op.predicate.value.data
        near = _NEAR.get(_NAMES[predicate])
        if near is not None:
            yield near, property_is(op, "predicate", IntegerAttr(_NAMES.index(near), 64))
        yield "inverted", property_is(op, "predicate", IntegerAttr(_INVERSE[predicate], 64))
        yield "bound + 1", moved(op, 1, 1)
        yield "bound - 1", moved(op, 1, -1)
    elif isinstance(op, arith.CmpfOp):
        yield "inverted", property_is(op, "predicate", IntegerAttr(13 if op.predicate.value.data == 1 else 1, 64))


def lane_maps(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """Arithmetic that leads to an address: a factor or divisor is off by one, or the operation is missing."""
    if op in facts.addresses and isinstance(op, INTEGERS):
        if isinstance(op, arith.MuliOp | arith.DivUIOp | arith.DivSIOp | arith.RemUIOp | arith.RemSIOp):
            yield "+ 1", moved(op, 1, 1)
            yield "- 1", moved(op, 1, -1)
        yield "missing", becomes(op, 0)
        if isinstance(op, arith.AddiOp):
            yield "the second alone", becomes(op, 1)


def bounds(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """Integer arithmetic that leads to no address: a count of tiles, the last key of a row."""
    if isinstance(op, INTEGERS) and op not in facts.addresses:
        yield "+ 1", moved(op, 0, 1)
        yield "- 1", moved(op, 0, -1)
        yield "missing", becomes(op, 0)
        yield "the second alone", becomes(op, 1)


def offsets(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """An access is one element beside its place."""
    if isinstance(op, LOADS + STORES) and not _is_table(op):
        at = 2 if isinstance(op, STORES) else 1
        yield "+ 1", moved(op, at, 1)
        yield "- 1", moved(op, at, -1)
    if isinstance(op, hip.LoadLdsOp):
        yield "LDS + 1", moved(op, 3, 1)


def pages(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """The entry of the page table beside the right one."""
    if _is_table(op):
        yield "+ 1", moved(op, 1, 1)
        yield "- 1", moved(op, 1, -1)


def _is_table(op: Operation) -> bool:
    return isinstance(op, hip.LoadOp) and op.result.type == i64


def loops(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """A loop makes one trip more or less, or begins one trip late."""
    if isinstance(op, scf.ForOp):
        yield "one trip less", moved(op, 1, -1)
        yield "one trip more", moved(op, 1, 1)
        yield "begins late", moved(op, 0, 1)


def scales(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """A factor, divisor, exponent or base is off by a quarter."""
    if isinstance(op, arith.MulfOp | arith.DivfOp | hip.Exp2Op):
        yield "* 1.25", scaled(op, len(op.operands) - 1, 1.25)


def floats(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """Arithmetic on floats is missing or takes one operand alone."""
    if isinstance(op, arith.AddfOp | arith.SubfOp | arith.MulfOp | arith.DivfOp | arith.MaxnumfOp | arith.MaximumfOp):
        yield "the first alone", becomes(op, 0)
        if op.operands[0].type == op.results[0].type:
            yield "the second alone", becomes(op, 1)
    elif isinstance(op, hip.Exp2Op) or op.name.startswith("math."):
        yield "missing", becomes(op, 0)


def operands(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """The operands of something that is not commutative change places."""
    one_type = len(op.operands) >= 2 and op.operands[0].type == op.operands[1].type
    ordered = (arith.SubfOp, arith.DivfOp, arith.SubiOp, arith.DivUIOp, arith.DivSIOp, arith.RemUIOp, hip.MmaOp)
    if one_type and isinstance(op, (*ordered, arith.CmpiOp)):
        yield "swapped", lambda c: c.swap(op, 0, 1)
    if isinstance(op, hip.VectorOp) and one_type:
        yield "swapped", lambda c: c.swap(op, 0, 1)
    if isinstance(op, hip.SliceOp):
        last = hip.lanes_of(op.value.type) - hip.lanes_of(op.result.type)
        at = op.offset.value.data
        for by in (1, -1):
            if 0 <= at + by <= last:
                yield f"{'+' if by > 0 else '-'} 1", property_is(op, "offset", IntegerAttr(at + by, 64))


def exchanges(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """A value is not exchanged, or with the wrong lane."""
    if isinstance(op, hip.ExchangeOp):
        yield "missing", becomes(op, 0)
        yield "another lane", property_is(op, "xor", IntegerAttr(op.xor.value.data ^ 1, 64))


def writes(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """A register or a place in memory is not set."""
    if isinstance(op, (hip.SetOp, *STORES, hip.LoadLdsOp)):
        yield "dropped", lambda c: c.remove(op)


def widths(op: Operation, facts: Facts) -> Iterator[tuple[str, Plant]]:
    """An integer passes through fewer bits, or is widened without (with) its sign."""
    if isinstance(op, INTEGERS) and op.results[0].type in (i32, i64):
        narrow = i8 if op.results[0].type == i32 else i32
        yield f"through {narrow}", narrowed(op, narrow)
    if _is_table(op):
        yield "through i32", narrowed(op, i32)
    if isinstance(op, arith.ExtSIOp | arith.ExtUIOp) and op.results[0].type == i64:
        other = arith.ExtUIOp if isinstance(op, arith.ExtSIOp) else arith.ExtSIOp
        yield other.name, _replaced(op, other)


def _replaced(op: Operation, kind: Any) -> Plant:
    def plant(c: Change) -> None:
        new = kind(op.operands[0], op.results[0].type)
        c.insert(op, [new])
        c.uses(op.results[0], new.result)

    return plant


OPERATORS: dict[str, Operator] = {
    "barrier": barriers,
    "wait": waits,
    "mask": masks,
    "select": selects,
    "comparison": comparisons,
    "lane map": lane_maps,
    "bound": bounds,
    "offset": offsets,
    "page index": pages,
    "loop": loops,
    "scale": scales,
    "arithmetic": floats,
    "operands": operands,
    "exchange": exchanges,
    "write": writes,
    "integer width": widths,
}
"""Every operator by its name in reports."""


def mutants(module: Operation) -> Iterator[Mutant]:
    """Every mutant of a kernel, in the order of its operations."""
    facts = Facts(module)
    for op in list(module.walk()):
        for name, operator in OPERATORS.items():
            for variant, plant in operator(op, facts):
                yield Mutant(name, op, variant, plant)


def is_dead(value: SSAValue) -> bool:
    """Whether nothing uses a value."""
    return isinstance(value, OpResult) and value.first_use is None
