"""Chains of views: from a value down through its `rock.transform`s to what it is a view of, and back up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.builder import Builder
from xdsl.ir import SSAValue

from xpaged.dialects.rock.attrs import TransformMapAttr
from xpaged.dialects.rock.ops import DerefOp, Shaped, TransformOp
from xpaged.ir.index_expr import IndexExpr, Var
from xpaged.ir.transform_map import TransformMap, apply_chain


class Chain(NamedTuple):
    """What a value is a view of. `maps` lead from the value (first) down to `root`.

    When the chain ends in a `rock.deref`, `root` is the deref's result, and `table` is the chain of its page table.
    """

    root: SSAValue
    maps: list[TransformMap]
    deref: DerefOp | None

    @property
    def table(self) -> Chain | None:
        """The chain of the page table below the deref, which ends in a block argument or an allocation."""
        return None if self.deref is None else chain_of(self.deref.table)


def chain_of(value: SSAValue) -> Chain:
    """Walk `rock.transform`s from `value` down to a block argument, an allocation, or a `rock.deref`."""
    maps: list[TransformMap] = []
    while isinstance(owner := value.owner, TransformOp):
        maps.append(owner.map.data)
        value = owner.source
    return Chain(value, maps, owner if isinstance(owner, DerefOp) else None)


def transforms_of(value: SSAValue) -> list[TransformOp]:
    """The `rock.transform` operations of the chain of `value`, uppermost first."""
    found: list[TransformOp] = []
    while isinstance(owner := value.owner, TransformOp):
        found.append(owner)
        value = owner.source
    return found


def make_transform(
    builder: Builder, value: SSAValue, map: TransformMap | TransformMapAttr, name_hint: str | None = None
) -> SSAValue:
    """Insert a `rock.transform` of `value` (a memref or tensor) and return the view; an identity inserts nothing.

    `builder` may be a pattern rewriter.
    """
    transform_map = map.data if isinstance(map, TransformMapAttr) else map
    if transform_map.is_identity():
        return value
    op = TransformOp(value, map)
    op.result.name_hint = name_hint or value.name_hint
    builder.insert(op)
    return op.result


def make_chain(
    builder: Builder,
    value: SSAValue,
    maps: Sequence[TransformMap],
    name_hint: str | None = None,
) -> SSAValue:
    """Insert the views of `maps` (uppermost first, as in `Chain.maps`) on `value` and return the uppermost."""
    for transform_map in reversed(maps):
        value = make_transform(builder, value, transform_map, name_hint)
    return value


def memory_position(view: SSAValue, coords: Sequence[IndexExpr] | None = None) -> tuple[IndexExpr, list[str]]:
    """Where an element of a view lies, counted in elements from the first one of what the view is of.

    `coords` are the element's coordinates; without them they are variables `d0`, `d1` ... over the whole view, and
    the names of these are returned too. In pages, the count runs on from each page to the next of the table. Elements
    that do not exist (padding) have a position that means nothing.
    """
    assert isinstance(view.type, Shaped)
    names = [f"d{i}" for i in range(len(view.type.get_shape()))]
    if coords is None:
        coords = [IndexExpr.var(name, 0, n - 1) for name, n in zip(names, view.type.get_shape(), strict=True)]
    chain = chain_of(view)
    lower, _ = apply_chain(chain.maps, coords)
    assert isinstance(chain.root.type, Shaped)
    position = IndexExpr.const(0)
    for coordinate, length in zip(lower, chain.root.type.get_shape(), strict=True):
        position = position * length + coordinate
    return position, names


def step_of(position: IndexExpr, name: str) -> int | None:
    """How far a position moves when the variable `name` grows by one; None when that is not always the same."""
    part, _ = position.split((name,))
    if not part.terms:
        return 0
    (term, step), *others = part.terms
    return step if not others and isinstance(term, Var) else None


def erase_unused_views(value: SSAValue) -> None:
    """Erase the `rock.transform`s of the chain of `value` from the top on, as far as nothing uses them.

    A view that has been erased already is left alone.
    """
    while isinstance(owner := value.owner, TransformOp) and owner.parent is not None and not value.uses:
        value = owner.source
        owner.detach()
        owner.erase()
