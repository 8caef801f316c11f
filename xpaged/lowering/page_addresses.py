"""Addresses that a graph reads through: a pointer for each page, the place in the page, and guards of unused slots.

A guard is a selection of another address for slots that are not used, `valid ? pointer + offset : fallback`. What is
read there does not matter when no key that counts lies in such a slot, which is proved once the attention that reads
the pages is known (`guard_reason`).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from xpaged.dialects.rock.ops import DerefOp
from xpaged.dialects.rock.views import chain_of
from xpaged.dialects.tosa import elementwise
from xpaged.dialects.tosa.ops import CustomOp
from xpaged.errors import XpagedError
from xpaged.ir.index_expr import IndexExpr
from xpaged.lowering.attention_masks import Bound, comparisons, splat
from xpaged.lowering.integers import Integers, integers_of
from xpaged.lowering.tosa_views import View

_LARGEST_PROOF = 1 << 24
"""Elements at which a guard is looked at, one by one."""


class Guard(NamedTuple):
    """Where the addresses of a deref are those of its pages: where `condition` is `valid`."""

    condition: View
    valid: bool


@dataclass
class PageAddresses:
    """The addresses of a deref of `[batch, page, i]`, where views have these coordinates."""

    pointers: View
    skipped: int
    """Elements between a pointer and the first element."""
    consecutive: bool
    """Whether all pages of a batch entry lie behind one pointer, one after the other."""
    guards: list[Guard]


def page_addresses(op: CustomOp, addresses: SSAValue, pages: TensorType[Attribute]) -> PageAddresses:
    """What the addresses of a deref are; XpagedError says which of them cannot be understood, and why."""
    try:
        found, guards = _without_guards(op, View.of(addresses))
    except XpagedError as error:
        error.what = f"the addresses of a deref cannot be proved to be pointers plus offsets: {error.what}"
        raise
    leaf = found.leaf
    if leaf is None:
        raise XpagedError("the addresses of a deref come from no page table: they are constants", at=op, found=found)
    if not isinstance(leaf.source, BlockArgument) or not isinstance(leaf.source.owner.parent_op(), FuncOp):
        raise XpagedError(
            "the pointers of a deref must come from a function argument",
            at=leaf.source,
            found=f"the result of '{cast(Operation, leaf.source.owner).name}'",
        )
    if found.least is not None or found.most is not None:
        raise XpagedError("the pointers of a deref are clipped", at=op, found=found)
    for coordinate in leaf.coordinates():
        if coordinate.depends_on("d2"):
            raise XpagedError(
                "the elements of a page of a deref have pointers of their own",
                at=op,
                found=f"{found}, where d2 is the position in the page",
                expected="one pointer for each page, broadcast along the last dimension",
            )
    skipped, consecutive = _skipped_elements(op, found, pages)
    return PageAddresses(leaf, skipped, consecutive, guards)


def _without_guards(op: CustomOp, view: View) -> tuple[Integers, list[Guard]]:
    """The addresses of slots that are used, and when a slot is."""
    found, guards = integers_of(view), list[Guard]()
    while found.leaf is not None and isinstance(select := found.leaf.source.owner, elementwise.SelectOp):
        if found.least is not None or found.most is not None:
            raise XpagedError("a selection of addresses is clipped", at=select, found=found)
        choices = [integers_of(found.leaf.operand(value)) for value in (select.on_true, select.on_false)]
        if str(choices[0]) == str(choices[1]) and _same_source(*choices):  # of one page, say
            found = choices[0].plus(found.offset)
            continue
        used = [c for c in choices if c.leaf is not None and any(x.depends_on("d1") for x in c.leaf.coordinates())]
        used = used or [c for c in choices if c.leaf is not None]
        if len(used) != 1:
            raise XpagedError(
                "it cannot be told which of two addresses is meant for slots that are not used",
                at=select,
                found=f"{choices[0]} and {choices[1]}, where d1 is the page",
                expected="a pointer for each page, and one address that is the same for all of them",
            )
        guards.append(Guard(found.leaf.operand(select.condition), used[0] is choices[0]))
        found = used[0].plus(found.offset)
    return found, guards


def _same_source(a: Integers, b: Integers) -> bool:
    return a.leaf is b.leaf if a.leaf is None or b.leaf is None else a.leaf.source is b.leaf.source


def _skipped_elements(op: CustomOp, found: Integers, pages: TensorType[Attribute]) -> tuple[int, bool]:
    """The elements between a pointer and the first element, not negative, and whether pages follow one another."""
    size = cast(Any, pages.element_type).size
    within, rest = found.offset.split(["d2"])
    _, count, length = pages.get_shape()
    page, element = IndexExpr.var("d1", 0, count - 1), IndexExpr.var("d2", 0, length - 1)
    if within - within.const_term != element * size:
        raise XpagedError(
            "the offsets in a page of a deref cannot be proved to be i * sizeof(element)",
            at=op,
            found=f"{found}, where d2 is the position in the page",
            expected=f"{size}*d2 for elements of {pages.element_type}",
        )
    start = within - element * size + rest
    leaf = found.leaf
    consecutive = (
        leaf is not None and start.depends_on("d1") and not any(c.depends_on("d1") for c in leaf.coordinates())
    )
    first = (start - page * (length * size) if consecutive else start).constant
    if first is None:
        raise XpagedError(
            "the pages of a deref do not all start at the same offset from their pointer",
            at=op,
            found=f"{found}, where d0 is the batch entry and d1 the page",
            expected=f"the same for all pages of pointers of their own, or {length * size}*d1 behind one pointer",
        )
    if first < 0 or first % size:
        raise XpagedError(
            "the pages of a deref must start a whole number of elements after their pointer",
            at=op,
            found=f"{first} bytes",
            expected=f"a multiple of {size}, the size of {pages.element_type}, not negative",
        )
    return first // size, consecutive


def guard_reason(guard: Guard, table: SSAValue, last_key: Bound | None, keys: int, key_dim: int) -> str | None:
    """Why a key that counts may lie in a slot that a guard of pages says is not used; None when none does.

    The guard is seen in the coordinates of K or V, whose dimension `key_dim` are the keys; keys up to `last_key` count.
    A slot that is not used because its entry of `table` is no address holds no key that counts.
    """
    key = IndexExpr.var(f"d{key_dim}", 0, keys - 1)
    for unused in comparisons(guard.condition, not guard.valid, loose=True):
        if isinstance(unused, str):
            return unused
        left, right = unused
        if left.leaf is None and right.leaf is None:
            if _at_most(left.offset - right.offset, 0):
                continue
            return f"slots are not used where {left} > {right}"
        text = f"slots are not used where {left} > {right}, at key d{key_dim}"
        if left.leaf is not None or right.leaf is None or last_key is None:
            return text if last_key is not None else f"{text}, but every key counts"
        if right.leaf.source is table and (number := (left.offset - right.offset).constant) is not None and number <= 1:
            continue
        same = Bound(right.leaf, last_key.add, right.least, right.most).within(keys)
        if not same.equals(last_key) or not _at_most(left.offset - right.offset - key + last_key.add, 0):
            return f"{text}, of which some count"
    return None


def _at_most(value: IndexExpr, bound: int) -> bool:
    """Whether an expression never is more than `bound`: by its range, or by looking at all of its values."""
    if value.hi <= bound:
        return True
    import numpy as np

    ranges = {name: _range(value, name) for name in value.variables()}
    count = 1
    for low, high in ranges.values():
        count *= high - low + 1
    if count > _LARGEST_PROOF:
        return False
    grids = np.ix_(*(np.arange(low, high + 1) for low, high in ranges.values()))
    return int(np.max(value.evaluate(dict(zip(ranges, grids, strict=True))))) <= bound


def _range(value: IndexExpr, name: str) -> tuple[int, int]:
    found: dict[str, tuple[int, int]] = {}
    value.map(lambda v: found.setdefault(v.name, (v.lo, v.hi)) and IndexExpr.var(v.name, v.lo, v.hi))
    return found[name]


def without_guards(name: str, view: View, last_key: Bound | None, keys: int, key_dim: int, at: Operation) -> View:
    """K or V (`name`) as a view of its pages: guards are left out where no key that counts lies in an unused slot.

    Raises XpagedError, with the reason, where that is not proved.
    """
    while isinstance(select := view.source.owner, elementwise.SelectOp):
        chosen, valid = _read(view, select)
        if chosen is None:
            return view
        inner = view.operand(chosen).followed()
        if (deref := _deref_behind(inner)) is None:
            return view
        reason = guard_reason(Guard(view.operand(select.condition), valid), deref, last_key, keys, key_dim)
        if reason is not None:
            raise XpagedError(
                f"{name} of an attention is read through addresses with a fallback for slots that may be used",
                at=at,
                found=reason,
                expected="only slots behind the last valid key, or without an address, that have another address",
                fix="mask the scores by the number that the addresses are selected by",
            )
        view = inner
    return view


def _read(view: View, select: elementwise.SelectOp) -> tuple[SSAValue | None, bool]:
    for chosen, other, valid in ((select.on_true, select.on_false, True), (select.on_false, select.on_true, False)):
        if splat(view.operand(other)) == 0:
            return chosen, valid
    return None, True


def _deref_behind(view: View) -> SSAValue | None:
    """The page table that pages are read from, through more guards."""
    while isinstance(select := view.source.owner, elementwise.SelectOp):
        chosen, _ = _read(view, select)
        if chosen is None:
            return None
        view = view.operand(chosen).followed()
    owner = view.source.owner
    return chain_of(owner.table).root if isinstance(owner, DerefOp) else None
