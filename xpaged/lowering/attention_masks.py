"""Masks of a TOSA graph: which of them an attention can state as its own, and why the others stay with the scores.

A condition says for each score, at (query head, query, key), whether it is masked. It is brought to the form `a > b` of
integers, whatever the comparison, its order and its branches were, or read off a constant; of these forms an attention
has the last valid key, the causal mask with its offset, and the sliding window.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, IntegerType, i1, i32
from xdsl.ir import BlockArgument, Operation, SSAValue

from xpaged.dialects.tosa import elementwise
from xpaged.dialects.tosa.constants import constant_of
from xpaged.errors import XpagedError
from xpaged.ir import dense
from xpaged.ir.index_expr import IndexExpr
from xpaged.lowering.integers import Integers, integers_of
from xpaged.lowering.tosa_views import View

HEAD, QUERY, KEY = "d0", "d1", "d2"
"""The coordinates of a score: query head over the batch, query, key."""


class Scores(NamedTuple):
    """The shape of the scores that masks stand on; with `parts` neighbouring heads hold parts of the keys of one."""

    heads: int
    queries: int
    keys: int
    parts: int = 1

    @property
    def head(self) -> IndexExpr:
        """The number of a score's head, over the batch and the parts."""
        return IndexExpr.var(HEAD, 0, self.heads - 1)

    @property
    def query(self) -> IndexExpr:
        """The number of its query."""
        return IndexExpr.var(QUERY, 0, self.queries - 1)

    @property
    def key(self) -> IndexExpr:
        """The number of its key, over all parts."""
        return self.head % self.parts * self.keys + IndexExpr.var(KEY, 0, self.keys - 1)

    @property
    def all_keys(self) -> int:
        """Keys over all parts."""
        return self.keys * self.parts


class Bound(NamedTuple):
    """A number for each query head: `min(max(leaf, least), most) + add`; without a leaf it is `add` for all of them."""

    leaf: View | None
    add: int
    least: int | None = None
    most: int | None = None

    def same_leaf(self, other: "Bound") -> bool:
        """Whether both are made of the same elements of one argument."""
        if self.leaf is None or other.leaf is None:
            return self.leaf is other.leaf
        return self.leaf.source is other.leaf.source and self.leaf.coordinates() == other.leaf.coordinates()

    def equals(self, other: "Bound") -> bool:
        """Whether both are the same number for every head."""
        return self.same_leaf(other) and self[1:] == other[1:]

    def within(self, keys: int) -> "Bound":
        """The same last key, told once: a bound above that only says that there are no more than `keys` is left out."""
        return self if self.most is None or self.most + self.add < keys - 1 else self._replace(most=None)


class Constraint(NamedTuple):
    """A kind of mask: `key` masks keys > bound, `causal` keys > query + bound, `window` keys < bound."""

    kind: str
    bound: Bound


@dataclass
class Masks:
    """The masks that an attention states as its own."""

    last_key: Bound | None = None
    """The last valid key of each head, inclusive."""
    causal: Bound | None = None
    """What is added to the query in the causal comparison."""
    window: int | None = None
    """How many keys before the last valid one are kept with it."""


@dataclass
class Mask:
    """One mask that stands on the scores: `scores` is the operand that it is put on."""

    op: Operation
    scores: SSAValue
    constraints: list[Constraint | str] = field(default_factory=list[Constraint | str])
    """What it masks; in words what is not understood about a part of it."""
    reason: str | None = None
    """Why it is computed with the scores; None when the attention states it."""


def mask_of(view: View, scores: Scores) -> Mask | None:
    """The mask that the operation which makes `view.source` puts on scores; None when it is not one.

    It selects minus infinity, or adds a constant, or a selection, of 0 and minus infinity.
    """
    op = view.source.owner
    if isinstance(op, elementwise.SelectOp):
        for masked, kept, when in ((op.on_true, op.on_false, True), (op.on_false, op.on_true, False)):
            if splat(view.operand(masked)) == -inf:
                return Mask(op, kept, conditions(view.operand(op.condition), when, scores))
    elif isinstance(op, elementwise.AddOp):
        for under, added in ((op.input1, op.input2), (op.input2, op.input1)):
            if (found := _added(view.operand(added).followed(), scores)) is not None:
                return Mask(op, under, found)
    return None


def resolve(found: Sequence[Mask], scores: Scores) -> Masks:
    """What the attention states of the masks `found`; each of them gets its reason when it cannot be left out."""
    masks = Masks()
    for kinds in (("key", "causal"), ("window",)):  # a window is told from the last valid key
        for mask in found:
            for constraint in mask.constraints:
                if isinstance(constraint, str):
                    mask.reason = constraint
                elif (
                    constraint.kind in kinds
                    and (reason := _take(masks, constraint, scores.queries, scores.all_keys)) is not None
                ):
                    mask.reason = reason
    return masks


def splat(view: View) -> int | float | None:
    """The value of all elements of a constant; None for anything else."""
    return dense.splat_value(constant_of(view.followed().source))


def conditions(view: View, masked: bool, scores: Scores) -> list[Constraint | str]:
    """What is masked where a truth value is `masked`."""
    plain, value = _truth(view, masked)
    if (elements := constant_of(plain.source)) is not None:
        return _pattern(plain, elements, lambda x: (x != 0) == value, scores)
    op = plain.source.owner
    if isinstance(op, elementwise.LogicalOrOp if value else elementwise.LogicalAndOp):
        return [c for operand in op.operands for c in conditions(plain.operand(operand), value, scores)]
    found: list[Constraint | str] = []
    for pair in comparisons(view, masked):
        found += [pair] if isinstance(pair, str) else _compared(*pair, scores)
    return found


Comparison = tuple[Integers, Integers] | str
"""`a > b` of integers; in words what is another condition."""


def comparisons(view: View, wanted: bool, *, loose: bool = False) -> list[Comparison]:
    """The comparisons of which at least one holds just where a truth value is `wanted`.

    With `loose` one may hold elsewhere, too: `a == b` is told as `b + 1 > a`.
    """
    view, wanted = _truth(view, wanted)
    op = view.source.owner
    if isinstance(op, elementwise.LogicalOrOp if wanted else elementwise.LogicalAndOp):
        return [c for operand in op.operands for c in comparisons(view.operand(operand), wanted, loose=loose)]
    ordered = isinstance(op, elementwise.GreaterOp | elementwise.GreaterEqualOp)
    if not ordered and not (loose and wanted and isinstance(op, elementwise.EqualOp)):
        return [f"its condition is {origin(view.source)}, not a > b or a >= b of integers"]
    assert isinstance(op, elementwise.CompareOp)
    if not isinstance(cast(Any, op.input1.type).element_type, IntegerType):
        return ["its condition compares floats"]
    try:
        left, right = (integers_of(view.operand(operand)) for operand in (op.input1, op.input2))
    except XpagedError as error:
        found = f", found {error.found}" if error.found is not None else ""
        return [f"its condition is not understood: {error.what}{found}"]
    if isinstance(op, elementwise.EqualOp):
        return [(right.plus(1), left) if right.leaf is None else (left.plus(1), right)]
    if isinstance(op, elementwise.GreaterEqualOp):
        left = left.plus(1)
    return [(left, right) if wanted else (right.plus(1), left)]  # not a > b: b + 1 > a


def origin(value: SSAValue) -> str:
    """Where a value comes from, in words."""
    owner = value.owner
    if isinstance(owner, Operation):
        return f"the result of '{owner.name}'"
    return f"the function argument %{value.name_hint}" if value.name_hint else "a function argument"


def _added(view: View, scores: Scores) -> list[Constraint | str] | None:
    """What a sum masks that adds `view`; None when that is not 0 and minus infinity."""
    op = view.source.owner
    if (elements := constant_of(view.source)) is not None:
        if not isinstance(elements.get_element_type(), AnyFloat):
            return None
        stored = dense.values(elements) if dense.splat_value(elements) is None else (dense.splat_value(elements),)
        return None if set(stored) - {0.0, -inf} else _pattern(view, elements, lambda x: x != 0, scores)
    if isinstance(op, elementwise.SelectOp):
        for masked, kept, when in ((op.on_true, op.on_false, True), (op.on_false, op.on_true, False)):
            if splat(view.operand(masked)) == -inf and splat(view.operand(kept)) == 0:
                return conditions(view.operand(op.condition), when, scores)
    return None


def _truth(view: View, masked: bool) -> tuple[View, bool]:
    """Through conversions of a truth value to integers and back, and through negations."""
    while True:
        view = view.followed()
        op = view.source.owner
        if isinstance(op, elementwise.LogicalNotOp):
            view, masked = view.onto(op.input1, []), not masked
        elif isinstance(op, elementwise.CastOp) and _is_truth(view.onto(op.input, [])):
            view = view.onto(op.input, [])
        else:
            return view, masked


def _is_truth(view: View) -> bool:
    """Whether every element is 0 or 1 (or i1), having been converted from a truth value, or a constant."""
    view = view.followed()
    element = cast(Any, view.source.type).element_type
    if element == i1:
        return True
    if not isinstance(element, IntegerType):
        return False
    op = view.source.owner
    if constant_of(view.source) is not None:
        return True
    return isinstance(op, elementwise.CastOp) and _is_truth(view.onto(op.input, []))


def _compared(left: Integers, right: Integers, scores: Scores) -> list[Constraint | str]:
    """What is masked where `left > right`."""
    query, key = scores.query, scores.key
    text = f"it masks where {left} > {right}, at query d1 and key d2 of head d0"
    if left.leaf is not None:
        below = (right.offset - left.offset - key).constant
        if right.leaf is not None or below is None:
            return [f"{text}; only a last valid key, a causal mask and a window before the last valid key are fused"]
        return _per_head("window", left, -below, text, scores)
    above = left.offset - right.offset
    if above.hi <= 0 and right.leaf is None:
        return []
    past_query, past = (above - (key - query)).constant, (above - key).constant
    if past_query is not None and (scores.queries > 1 or right.leaf is None):
        return _per_head("causal", right, -past_query, text, scores)
    if past is not None:
        return _per_head("key", right, -past, text, scores)
    return [f"{text}; expected key > last valid key, or key > query + offset"]


def _per_head(kind: str, value: Integers, add: int, text: str, scores: Scores) -> list[Constraint | str]:
    """The constraint by `value` without its offset plus `add`: a number, or an i32 argument with one for each head."""
    leaf = value.leaf
    if leaf is None:
        return [Constraint(kind, Bound(None, add))]
    element = cast(Any, leaf.source.type).element_type
    if not isinstance(leaf.source, BlockArgument):
        return [f"{text}, with {origin(leaf.source)}; expected a function argument"]
    if element != i32:
        return [f"{text}, with elements of {element}; expected i32"]
    if any(c.depends_on(name) for c in leaf.coordinates() for name in (QUERY, KEY)):
        return [f"{text}; expected one value for each head, not for each query or key"]
    first = {HEAD: scores.head // scores.parts * scores.parts}
    if any(c.substitute(first) != c for c in leaf.coordinates()):
        return [f"{text}; expected one value for all parts of the keys of a head"]
    return [Constraint(kind, Bound(leaf, add, value.least, value.most))]


def _take(masks: Masks, constraint: Constraint, queries: int, keys: int) -> str | None:
    """Add a constraint to `masks`, or say why it cannot be."""
    kind, bound = constraint
    if kind == "window":
        return _take_window(masks, bound, keys)
    if kind == "key":
        bound = bound.within(keys)
        if masks.last_key is None or masks.last_key.equals(bound):
            masks.last_key = bound
            return None
        if queries > 1:
            return "the attention has another last valid key already"
        # With one query, a bound for it is one for all.
    if masks.causal is None or masks.causal.equals(bound):
        masks.causal = bound
        return None
    return "the attention has another causal mask already"


def _take_window(masks: Masks, bound: Bound, keys: int) -> str | None:
    """A window is one when it ends at the last valid key, which is kept below the number of keys in the same way."""
    last = masks.last_key
    if last is None or last.leaf is None:
        return "a sliding window needs a mask by the last valid key beside it"
    if not bound.same_leaf(last):
        return "the sliding window is not told from the last valid key of the other mask"
    look_back = last.add - bound.add
    ends = bound._replace(add=last.add)
    if all(least is None or least + bound.add <= 0 for least in (bound.least, last.least)):
        ends = ends._replace(least=last.least)  # whichever it is, no key lies before it
    if ends.most is None or ends.most + ends.add > keys - 1:
        return f"the sliding window lets the last valid key be {keys} or more, where it masks every key"
    if not ends.within(keys).equals(last):
        return "the last valid key of the sliding window is clipped otherwise than that of the other mask"
    if not 1 <= look_back <= keys:
        return f"the sliding window looks {look_back} keys back; expected 1 to {keys}"
    if masks.window not in (None, look_back):
        return "the attention has another sliding window already"
    masks.window = look_back
    return None


def _pattern(
    view: View, elements: DenseIntOrFPElementsAttr[Any], masked: Any, scores: Scores
) -> list[Constraint | str]:
    """What a constant masks: `masked` says it of an array of its elements."""
    if (value := dense.splat_value(elements)) is not None:
        return [] if not masked(value) else ["it masks every score"]
    import numpy as np

    heads, queries, keys, parts = scores
    if parts > 1:
        return ["a constant mask where the keys are split"]
    coordinates = view.coordinates()
    if any(c.depends_on(HEAD) for c in coordinates) and heads * queries * keys > 1 << 24:
        return ["a constant mask that differs between heads"]
    where = np.ix_(*(np.arange(n) for n in view.bounds))
    index: dict[str, Any] = dict(zip((HEAD, QUERY, KEY), where, strict=True))
    flat = np.array(dense.values(elements)).reshape(elements.get_shape())
    taken = flat[tuple(np.asarray(c.evaluate(index)) for c in coordinates)]
    hidden = np.broadcast_to(masked(taken), (taken.shape[0] if taken.ndim == 3 else 1, queries, keys))
    if not (hidden == hidden[:1]).all():
        return ["a constant mask that differs between heads"]
    last = keys - 1 - np.count_nonzero(hidden[0], axis=1)
    if not ((np.arange(keys) > last[:, None]) == hidden[0]).all():
        return ["a constant mask that drops a key before one that it keeps"]
    return _staircase([int(x) for x in last], keys)


def _staircase(last: Sequence[int], keys: int) -> list[Constraint | str]:
    """The constraint that leaves query `i` the keys up to `last[i]`."""
    if all(x == keys - 1 for x in last):
        return []
    steps = [x - i for i, x in enumerate(last) if 0 <= x < keys - 1]
    # Rows without a key say that it ends before them: the last of them that the first key is next.
    steps += [x - i for i, x in reversed(list(enumerate(last))) if x == -1]
    for offset in steps[:1]:
        if all(x == min(max(i + offset, -1), keys - 1) for i, x in enumerate(last)):
            return [Constraint("causal", Bound(None, offset))]
    if len(set(last)) == 1:
        return [Constraint("key", Bound(None, last[0]))]
    return ["a constant mask that is neither causal nor the same for every query"]
