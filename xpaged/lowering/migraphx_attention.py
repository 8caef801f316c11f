"""What `migraphx.attention` becomes in TOSA: the graph that spells it out, which is understood as attention later.

With queries `[B, H, Sq, D]` and parts of the keys `[B, H, N, Sq, Sk / N]`, step by step:

    scores    matmul(Q, K), in Q's type (i32 for i8), repeated heads of K and V by a product with ones
    body      its operations one for one, then a cast to the softmax's type
    masks     select(greater(column, current_seq_len), -inf, scores): the KV index
              select(greater(column - row, prefix_offset), -inf, scores): causal, without an offset greater(column, row)
              select(greater(current_seq_len - W, column), -inf, scores): the sliding window
    weights   exp(scores - max) * reciprocal(sum), cast to V's type
    LSE       log(sum) + max
    result    matmul(weights, V), in V's type

A column counts all keys, also where these are split. `column - row` does not overflow, where `row + prefix_offset` may.
With a window `current_seq_len` is at most the last key, in both of its masks. Both `perf_config` and the number of
parts (`splitKV`) go to the last product.
"""

from collections.abc import Sequence
from math import inf

from xdsl.dialects.builtin import AnyFloat, IntegerAttr, TensorType, i32
from xdsl.ir import Attribute, SSAValue

from xpaged.dialects.migraphx.attention import AttentionOp, YieldOp
from xpaged.dialects.migraphx.base import shaped
from xpaged.dialects.migraphx.shaped import signless
from xpaged.dialects.tosa import elementwise as tx
from xpaged.ir import dense
from xpaged.lowering.migraphx_numbers import RULES, Operands, rule
from xpaged.lowering.migraphx_rules import product
from xpaged.lowering.tosa_builder import TosaBuilder, tensor_of


@rule(AttentionOp)
def _attention(builder: TosaBuilder, op: AttentionOp, operands: Operands) -> tuple[SSAValue, ...]:
    queries, keys, values, *rest = operands
    inputs = rest[: len(op.preSoftmaxElemWiseInputs)]
    rest = rest[len(inputs) :]
    last = rest.pop(0) if op.currentSeqLen is not None else None
    offset = rest.pop(0) if op.prefixOffset is not None else None

    keys, values = (_for_every_head(builder, x, op.leading) for x in (keys, values))
    if op.split_kv > 1:
        queries, keys, values = _in_parts(builder, op, queries, keys, values)
    scores = product(builder, queries, keys, signless(op.score_type))
    scores = _body(builder, op, [scores, *inputs])
    softmax_type, value_type = op.softmax_type, shaped(op.values).element_type
    scores = _masked(builder, op, builder.cast(scores, softmax_type), last, offset)
    weights, largest, total = builder.softmax(scores, len(op.score_shape) - 1)
    lse = None
    if op.lse is not None:
        lse = builder.binary(tx.AddOp, builder.unary(tx.LogOp, total), largest)
        lse = builder.reshape(lse, shaped(op.lse).get_shape())
    given = {name: attr for name, attr in op.attributes.items() if name == "perf_config"}
    if op.split_kv > 1:
        given["splitKV"] = IntegerAttr(op.split_kv, i32)
    result = product(builder, builder.cast(weights, value_type), values, value_type, given)
    return (result,) if lse is None else (result, lse)


@rule(YieldOp)
def _yield(builder: TosaBuilder, op: YieldOp, operands: Operands) -> SSAValue:
    """What leaves the body."""
    return operands[0]


def _for_every_head(builder: TosaBuilder, value: SSAValue, leading: Sequence[int]) -> SSAValue:
    """K or V with each of its heads repeated for the heads of Q that read it."""
    batch, *shape = tensor_of(value).get_shape()
    if len(leading) == 1 or shape[0] == leading[1]:
        return value
    heads, *matrix = shape
    apart = builder.reshape(value, [batch, heads, 1, *matrix])
    repeated = builder.broadcast(apart, [batch, heads, leading[1] // heads, *matrix])
    return builder.reshape(repeated, [*leading, *matrix])


def _in_parts(
    builder: TosaBuilder, op: AttentionOp, queries: SSAValue, keys: SSAValue, values: SSAValue
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Q repeated for each part of the keys, and the parts of K and V: all with an axis of parts before the matrices."""
    parts, lead, rank = op.split_kv, op.leading, len(op.leading)
    (rows, depth), channels = tensor_of(queries).get_shape()[-2:], tensor_of(values).get_shape()[-1]
    chunk = tensor_of(keys).get_shape()[-1] // parts
    queries = builder.broadcast(builder.reshape(queries, [*lead, 1, rows, depth]), [*lead, parts, rows, depth])
    keys = builder.reshape(keys, [*lead, depth, parts, chunk])
    keys = builder.transpose(keys, [*range(rank), rank + 1, rank, rank + 2])
    return queries, keys, builder.reshape(values, [*lead, parts, chunk, channels])


def _body(builder: TosaBuilder, op: AttentionOp, values: Sequence[SSAValue]) -> SSAValue:
    """The scores after the body's operations."""
    if not op.has_body:
        return values[0]
    block = op.preSoftmaxBody.block
    known: dict[SSAValue, SSAValue] = dict(zip(block.args, values, strict=True))
    result: SSAValue | tuple[SSAValue, ...] = values[0]
    location = builder.location
    for inner in block.ops:
        builder.location = inner.location
        result = RULES[type(inner)](builder, inner, [known[operand] for operand in inner.operands])
        if inner.results and isinstance(result, SSAValue):
            known[inner.results[0]] = result
    builder.location = location
    assert isinstance(result, SSAValue)
    return result


def _masked(
    builder: TosaBuilder, op: AttentionOp, scores: SSAValue, last: SSAValue | None, offset: SSAValue | None
) -> SSAValue:
    """The scores with minus infinity at the keys that a row does not keep."""
    shape, rank = op.score_shape, len(op.score_shape)
    before = [1] * len(op.leading)
    rows, key_count = shape[-2], shaped(op.keys).get_shape()[-1]
    parts = [] if op.split_kv == 1 else [op.split_kv]
    conditions: list[SSAValue] = []

    def per_head(value: SSAValue) -> SSAValue:
        return builder.reshape(value, [*op.leading, *[1] * (rank - len(op.leading))])

    def counted(count: int, lengths: Sequence[int]) -> SSAValue:
        numbers = builder.constant(dense.from_values(TensorType(i32, [count]), list(range(count))))
        return builder.reshape(numbers, lengths)

    columns = counted(key_count, [*before, *parts, 1, shape[-1]]) if op.feature_names else None
    if last is not None:
        assert columns is not None
        last = per_head(last)
        if op.window is not None:
            last = builder.binary(tx.MinimumOp, last, builder.splat(tensor_of(last), key_count - 1))
        conditions.append(builder.compare(tx.GreaterOp, columns, last))
    if "causal" in op.feature_names:
        assert columns is not None
        row = counted(rows, [*before, *[1] * len(parts), rows, 1])
        if offset is None:
            conditions.append(builder.compare(tx.GreaterOp, columns, row))
        else:
            distance = builder.binary(tx.SubOp, columns, row)
            conditions.append(builder.compare(tx.GreaterOp, distance, per_head(offset)))
    if op.window is not None:
        assert last is not None
        assert columns is not None
        first = builder.binary(tx.SubOp, last, builder.splat(tensor_of(last), op.window))
        conditions.append(builder.compare(tx.GreaterOp, first, columns))
    for condition in conditions:
        nothing = builder.splat(TensorType(_float(op.softmax_type), [1] * rank), -inf)
        scores = builder.select(condition, nothing, scores)
    return scores


def _float(type: Attribute) -> AnyFloat:
    assert isinstance(type, AnyFloat)
    return type
