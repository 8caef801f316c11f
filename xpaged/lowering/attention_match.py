"""Finds attention in a TOSA graph: a product whose left operand is the softmax of masked scores.

Everything is matched by where its elements come from, in the coordinates (query head, query, key) of the weights that
enter the second product; how the graph reshapes, broadcasts and orders its operations plays no part. What stands in
the way is refused by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat, IntegerType, i1, i32
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from xpaged.dialects.tosa import elementwise, ops
from xpaged.dialects.tosa.constants import constant_of
from xpaged.errors import XpagedError
from xpaged.ir import dense
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.transform_map import apply_chain
from xpaged.lowering.integers import Integers, integers_of
from xpaged.lowering.tosa_views import View

HEAD, QUERY, KEY = "d0", "d1", "d2"
"""The coordinates of a score: query head over the batch, query, key."""


@dataclass
class Masks:
    """The masks that stand between the scores and the softmax."""

    last_key: View | None = None
    """The last valid key of each score, inclusive: depends on the head only."""
    prefix_offset: View | None = None
    """What is added to the query in the causal comparison: depends on the head only."""
    causal: bool = False


@dataclass
class Attention:
    """An attention that was found in a graph."""

    second: ops.MatMulOp
    """The product of weights and values."""
    scores: View
    """What enters the softmax, below the masks and `converted`."""
    converted: list[AnyFloat] = field(default_factory=list[AnyFloat])
    """Types that the scores are converted to after that, in order."""
    masks: Masks = field(default_factory=Masks)


def attention_at(second: ops.MatMulOp) -> Attention | str:
    """The attention whose last product is `second`, or in words why its left operand is not a softmax.

    Raises XpagedError for a softmax of which a part is not understood.
    """
    weights = View.of(second.a).followed()
    if isinstance(cast_op := weights.source.owner, elementwise.CastOp):
        weights = weights.onto(cast_op.input, []).followed()
    product = weights.source.owner
    if not isinstance(product, elementwise.MulOp):
        return f"its left operand is not a softmax but {origin(weights.source)}"
    for a, b in ((product.input1, product.input2), (product.input2, product.input1)):
        exponentials, reciprocals = weights.operand(a).followed(), weights.operand(b).followed()
        exp, reciprocal = exponentials.source.owner, reciprocals.source.owner
        if isinstance(exp, elementwise.ExpOp) and isinstance(reciprocal, elementwise.ReciprocalOp):
            break
    else:
        return "its left operand is not a softmax but a product that is not exp(..) * reciprocal(..)"
    _expect_reduction(reciprocals.operand(reciprocal.input1).followed(), ops.ReduceSumOp, exponentials)
    shifted = exponentials.operand(exp.input1).followed()
    sub = shifted.source.owner
    if not isinstance(sub, elementwise.SubOp):
        raise XpagedError(
            "a softmax must subtract the largest score before the exponential",
            at=exp,
            found=origin(shifted.source),
        )
    scores = shifted.operand(sub.input1).followed()
    _expect_reduction(shifted.operand(sub.input2).followed(), ops.ReduceMaxOp, scores)
    return _without_masks(Attention(second, scores))


def origin(value: SSAValue) -> str:
    """Where a value comes from, in words."""
    owner = value.owner
    if isinstance(owner, Operation):
        return f"the result of '{owner.name}'"
    return f"the function argument %{value.name_hint}" if value.name_hint else "a function argument"


def _expect_reduction(reduced: View, op_type: type[ops.ReduceOp], elements: View) -> None:
    """XpagedError unless `reduced` is the reduction over all keys of just `elements`."""
    op = reduced.source.owner
    what = "sum" if op_type is ops.ReduceSumOp else "maximum"
    if not isinstance(op, op_type):
        at = op if isinstance(op, Operation) else reduced.source
        raise XpagedError(
            f"a softmax needs the {what} over the keys here", at=at, found=origin(reduced.source), expected=op_type.name
        )
    axis, coordinates = op.axis.value.data, reduced.coordinates()
    key = IndexExpr.var(KEY, 0, elements.bounds[2] - 1)
    source = View.of(op.input).followed()
    same = (
        source.source is elements.source
        and source.bounds[axis] == elements.bounds[2]
        and not any(c.depends_on(KEY) for c in coordinates)
    )
    if same:
        coordinates[axis] = key
        same = apply_chain(source.maps, coordinates)[0] == elements.coordinates()
    if not same:
        raise XpagedError(
            f"the {what} of a softmax is not that of the same elements over all keys", at=op, found=op.input.type
        )


def _without_masks(attention: Attention) -> Attention:
    """Take masks and conversions off the scores, outermost first."""
    view, converted = attention.scores, list[AnyFloat]()
    while True:
        view = view.followed()
        op = view.source.owner
        if isinstance(op, elementwise.CastOp) and all(_is_float(v) for v in (op.input, op.output)):
            converted.insert(0, cast(AnyFloat, cast(Any, op.output.type).element_type))
            view = view.onto(op.input, [])
        elif isinstance(op, elementwise.SelectOp) and _splat(view.operand(op.on_true)) == -inf:
            _add_mask(attention.masks, view.operand(op.condition), op)
            view = view.operand(op.on_false)
        else:
            break
    attention.scores, attention.converted = view, converted
    return attention


def _is_float(value: SSAValue) -> bool:
    return isinstance(cast(Any, value.type).element_type, AnyFloat)


def _splat(view: View) -> int | float | None:
    return dense.splat_value(constant_of(view.followed().source))


def _add_mask(masks: Masks, condition: View, select: elementwise.SelectOp) -> None:
    """Understand `condition`, which is true where a score is masked, and add it to `masks`."""
    condition = _truth(condition)
    op = condition.source.owner
    if isinstance(op, elementwise.LogicalOrOp):
        for operand in (op.input1, op.input2):
            _add_mask(masks, condition.operand(operand), select)
        return
    if not isinstance(op, elementwise.GreaterOp | elementwise.GreaterEqualOp):
        raise _unknown_mask(select, f"the condition is {origin(condition.source)}", "a > b or a >= b of integers")
    try:
        left, right = (integers_of(condition.operand(operand)) for operand in (op.input1, op.input2))
    except XpagedError as error:
        error.what = f"a mask of the scores is not understood: {error.what}"
        raise
    if isinstance(op, elementwise.GreaterEqualOp):
        left = Integers(left.leaf, left.offset + 1)
    _classify(masks, left, right, condition.bounds, select)


def _truth(view: View) -> View:
    """Through conversions of a truth value to integers and back."""
    while isinstance(op := (view := view.followed()).source.owner, elementwise.CastOp):
        inner = view.onto(op.input, [])
        if not isinstance(cast(Any, op.input.type).element_type, IntegerType) or not _holds_truth(inner):
            break
        view = inner
    return view


def _holds_truth(view: View) -> bool:
    """Whether every element is 0 or 1 (or i1), because it was converted from a truth value."""
    view = view.followed()
    if cast(Any, view.source.type).element_type == i1:
        return True
    op = view.source.owner
    return (
        isinstance(op, elementwise.CastOp)
        and isinstance(cast(Any, op.input.type).element_type, IntegerType)
        and _holds_truth(view.onto(op.input, []))
    )


def _classify(
    masks: Masks, left: Integers, right: Integers, bounds: Sequence[int], select: elementwise.SelectOp
) -> None:
    """A score is masked where `left > right`: by the last valid key, or causally, perhaps with a prefix."""
    query, key = (IndexExpr.var(name, 0, n - 1) for name, n in zip((QUERY, KEY), bounds[1:], strict=True))
    known = left.offset - right.offset
    text = f"masked where {left} > {right}, at query d1 and key d2 of head d0"
    if left.leaf is not None:
        raise _unknown_mask(select, text, "the key on the left of >")
    if right.leaf is None:
        if known != key - query:
            raise _unknown_mask(select, text, "key > query")
        masks.causal = True
        return
    leaf = _per_head(right.leaf, select, text)
    if known == key and masks.last_key is None:
        masks.last_key = leaf
    elif known == key - query and bounds[1] > 1 and masks.prefix_offset is None:
        masks.prefix_offset, masks.causal = leaf, True
    else:
        raise _unknown_mask(select, text, "key > last valid key, or key > query + prefix offset, each once")


def _per_head(leaf: View, select: elementwise.SelectOp, text: str) -> View:
    """A length or offset that a mask compares with: an i32 function argument that depends on the head only."""
    if not isinstance(leaf.source, BlockArgument):
        raise _unknown_mask(select, f"{text}, with {origin(leaf.source)}", "a function argument")
    element: Attribute = cast(Any, leaf.source.type).element_type
    if element != i32:
        raise _unknown_mask(select, f"{text}, with elements of {element}", "i32")
    if any(c.depends_on(name) for c in leaf.coordinates() for name in (QUERY, KEY)):
        raise _unknown_mask(select, text, "one value for each head, not for each query or key")
    return leaf


def _unknown_mask(select: elementwise.SelectOp, found: str, expected: str) -> XpagedError:
    return XpagedError(
        "a mask of the scores is not understood",
        at=select,
        found=found,
        expected=expected,
        fix="masks by the last valid key and causal masks are fused; others are not supported yet",
    )
