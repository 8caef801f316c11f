"""Finds attention in a TOSA graph: a product whose left operand is the softmax of masked scores.

Everything is matched by where its elements come from, in the coordinates (query head, query, key) of the weights that
enter the second product; how the graph reshapes, broadcasts and orders its operations plays no part. What stands in
the way is refused by name.
"""

from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat, IntegerAttr
from xdsl.ir import Operation, SSAValue

from xpaged.dialects.tosa import elementwise, ops
from xpaged.errors import XpagedError
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.transform_map import apply_chain
from xpaged.lowering.attention_masks import HEAD, KEY, QUERY, Mask, Masks, Scores, mask_of, origin, resolve
from xpaged.lowering.tosa_views import View, shape_of
from xpaged.lowering.view_maps import position_of


@dataclass
class Step:
    """One operation between the scores and the softmax: a conversion, or a mask."""

    view: View
    """Its result, in the coordinates of a score."""
    mask: Mask | None = None


@dataclass
class LogSumExp:
    """The log-sum-exp of each row, as the graph computes it besides."""

    value: SSAValue
    rows: View
    """`value`, as a view of what holds one element for each row; the row's number is its row-major position."""


@dataclass
class Attention:
    """An attention that was found in a graph."""

    second: ops.MatMulOp
    """The product of weights and values."""
    shape: Scores
    """The scores' shape, as that product has them."""
    scores: View
    """What enters the softmax, below `steps`."""
    steps: list[Step] = field(default_factory=list[Step])
    """Conversions and masks on the scores, innermost first."""
    masks: Masks = field(default_factory=Masks)
    lse: LogSumExp | None = None
    roles: dict[Operation, str] = field(default_factory=dict[Operation, str])
    """What the operations are that make up the softmax and its masks, in words."""


@dataclass
class _Softmax:
    """The parts of a softmax, as views in the coordinates of a score; of one key, the sum and the maximum may be the
    elements themselves."""

    scores: View
    shifted: View
    exponentials: View
    total: View
    largest: View
    ops: list[Operation]


def attention_at(second: ops.MatMulOp) -> Attention | str:
    """The attention whose last product is `second`, or in words why its left operand is not a softmax.

    Raises XpagedError for a softmax of which a part is not understood.
    """
    found = _softmax_of(second)
    if isinstance(found, str):
        return found
    heads, queries, keys = found.scores.bounds
    attention = Attention(second, Scores(heads, queries, keys, _parts_of(second)), found.scores)
    attention.roles |= dict.fromkeys(found.ops, "softmax")
    attention.roles[second] = "the product of weights and values"
    _take_steps(attention)
    attention.lse = _log_sum_exp(found, attention.roles)
    return attention


def _parts_of(second: ops.MatMulOp) -> int:
    """Into how many parts the graph says that it splits the keys: each is a head of its own."""
    attr = second.attributes.get("splitKV")
    parts = attr.value.data if isinstance(attr, IntegerAttr) else 1
    heads = shape_of(second.a)[0]
    if parts < 1 or heads % parts:
        raise XpagedError(
            "splitKV does not divide the heads of a product", at=second, found=f"splitKV = {parts}, {heads} heads"
        )
    return parts


def _softmax_of(second: ops.MatMulOp) -> _Softmax | str:
    weights = View.of(second.a).followed()
    converted = weights.source.owner
    if isinstance(converted, elementwise.CastOp) and _is_float(converted.input):
        weights = weights.onto(converted.input, []).followed()
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
    total = reciprocals.operand(reciprocal.input1).followed()
    _expect_reduction(total, ops.ReduceSumOp, exponentials)
    shifted = exponentials.operand(exp.input1).followed()
    sub = shifted.source.owner
    if not isinstance(sub, elementwise.SubOp):
        raise XpagedError(
            "a softmax must subtract the largest score before the exponential",
            at=exp,
            found=origin(shifted.source),
        )
    scores, largest = shifted.operand(sub.input1).followed(), shifted.operand(sub.input2).followed()
    _expect_reduction(largest, ops.ReduceMaxOp, scores)
    parts = [product, exp, reciprocal, sub, total.source.owner]
    parts += [largest.source.owner] if largest.source is not scores.source else []
    parts += [converted] if isinstance(converted, elementwise.CastOp) else []
    known = [op for op in parts if isinstance(op, Operation)]
    return _Softmax(scores, shifted, exponentials, total, largest, known)


def _expect_reduction(reduced: View, op_type: type[ops.ReduceOp], elements: View) -> None:
    """XpagedError unless `reduced` is the reduction over all keys of just `elements`: of one key, the elements."""
    op = reduced.source.owner
    what = "sum" if op_type is ops.ReduceSumOp else "maximum"
    if elements.bounds[2] == 1 and _same_elements(reduced, elements):
        return
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
        and View.of(op.input).bounds[axis] == elements.bounds[2]
        and not any(c.depends_on(KEY) for c in coordinates)
    )
    if same:
        coordinates[axis] = key
        same = apply_chain(source.maps, coordinates)[0] == elements.coordinates()
    if not same:
        raise XpagedError(
            f"the {what} of a softmax is not that of the same elements over all keys", at=op, found=op.input.type
        )


def _same_elements(a: View, b: View) -> bool:
    return a.source is b.source and a.coordinates() == b.coordinates()


def _take_steps(attention: Attention) -> None:
    """Take masks and conversions off the scores, outermost first, and see which masks the attention can state."""
    view, found = attention.scores, list[Mask]()
    while True:
        view = view.followed()
        op = view.source.owner
        if isinstance(op, elementwise.CastOp) and all(_is_float(v) for v in (op.input, op.output)):
            attention.steps.insert(0, Step(view))
            view = view.onto(op.input, [])
        elif (mask := mask_of(view, attention.shape)) is not None:
            attention.steps.insert(0, Step(view, mask))
            found.append(mask)
            view = view.operand(mask.scores)
        else:
            break
    attention.scores = view
    attention.masks = resolve(found, attention.shape)
    attention.roles |= {m.op: "a mask of the attention" for m in found if m.reason is None}
    attention.roles |= {m.op: f"score region: {m.reason}" for m in found if m.reason is not None}


def _is_float(value: SSAValue) -> bool:
    return isinstance(cast(Any, value.type).element_type, AnyFloat)


def _log_sum_exp(found: _Softmax, roles: dict[Operation, str]) -> LogSumExp | None:
    """The sum `log(total) + largest` of a softmax, if the graph computes it; of one key also `(x - x) + x`."""
    heads, queries, keys = found.scores.bounds
    row = IndexExpr.var(HEAD, 0, heads - 1) * queries + IndexExpr.var(QUERY, 0, queries - 1)
    block = found.ops[0].parent_block()
    if block is None or any(position_of(v) != row for v in (found.total, found.largest)):
        return None
    for add in block.ops:
        if not isinstance(add, elementwise.AddOp):
            continue
        for a, b in ((add.input1, add.input2), (add.input2, add.input1)):
            whole = View.of(add.output)
            log, top = _unconverted(whole.operand(a)), _unconverted(whole.operand(b))
            if top.source is not found.largest.source:
                continue
            parts: list[Operation] = [add]
            if isinstance(op := log.source.owner, elementwise.LogOp):
                parts.append(op)
                total = _unconverted(log.operand(op.input1))
                if total.source is not found.total.source:
                    continue
            elif keys == 1 and log.source is found.shifted.source and position_of(found.shifted) == row:
                total = log  # log(exp(x - x)), simplified
            else:
                continue
            if position_of(total) == position_of(top):
                roles.update(dict.fromkeys(parts, "log-sum-exp"))
                return LogSumExp(add.output, total)
    return None


def _unconverted(view: View) -> View:
    """Through views and conversions between floats."""
    while isinstance(op := (view := view.followed()).source.owner, elementwise.CastOp) and _is_float(op.input):
        view = view.onto(op.input, [])
    return view
