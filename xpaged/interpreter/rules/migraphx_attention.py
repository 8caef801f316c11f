"""migraphx: attention as one operation, from its definition; the mask rules are those of the lowering."""

from typing import Any

import numpy as np

from xpaged.dialects.migraphx.attention import AttentionOp
from xpaged.dialects.migraphx.base import shaped
from xpaged.interpreter import tensors
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value, rule
from xpaged.interpreter.numerics import Array, narrow
from xpaged.interpreter.rules.rock import NUMBERS
from xpaged.interpreter.tensors import wide
from xpaged.lowering import masks


@rule(AttentionOp)
def attention(op: AttentionOp, b: Compiler) -> OpCode:
    """Rounded where the types say so: scores, what the body makes of them, softmax, weights, results."""
    body = b.region(op.preSoftmaxBody) if op.has_body else None
    count, rank, parts = len(op.preSoftmaxElemWiseInputs), len(op.leading), op.split_kv
    score_dtype, softmax_dtype = b.dtype(op.score_type), b.dtype(op.softmax_type)
    value_dtype, exact = b.dtype(op.values.type), b.exact
    shape, result_shape = op.score_shape, shaped(op.result).get_shape()

    def run(m: Machine, q: Array, k: Array, v: Array, *rest: Value) -> Value:
        inputs, rest = rest[:count], rest[count:]
        last = rest[0] if op.currentSeqLen is not None else None
        offset = rest[-1] if op.prefixOffset is not None else None
        if rank == 2:
            k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
        if parts > 1:
            q = np.broadcast_to(np.expand_dims(q, rank), (*q.shape[:rank], parts, *q.shape[rank:]))
            k = np.moveaxis(k.reshape(*k.shape[:-1], parts, -1), -2, rank)
            v = v.reshape(*v.shape[:rank], parts, -1, v.shape[-1])
        scores: Any = tensors.matmul(q, k, score_dtype, exact)
        if body is not None:
            (scores,) = body(m, [scores, *inputs])
        scores = wide(narrow(wide(scores, exact), softmax_dtype), exact)
        scores = np.where(_kept(op, shape, last, offset), scores, -np.inf)
        top = scores.max(axis=-1, keepdims=True)
        e = np.exp(scores - top)
        total = e.sum(axis=-1, keepdims=True)
        weights = narrow(narrow(e / total, softmax_dtype), value_dtype)
        result = tensors.matmul(weights, v, value_dtype, exact).reshape(result_shape)
        if op.lse is None:
            return result
        return result, narrow((np.log(total) + top)[..., 0], softmax_dtype)

    return run


def _kept(op: AttentionOp, shape: tuple[int, ...], last: Array | None, offset: Array | None) -> Array:
    """`bool`, broadcast to the scores: which keys each row keeps."""
    keys = shaped(op.keys).get_shape()[-1]
    column = np.arange(keys).reshape(-1, 1, shape[-1]) if op.split_kv > 1 else np.arange(keys)
    row = np.arange(shape[-2])[:, None]

    def per_head(x: Array | None) -> Any:
        return None if x is None else x.astype(np.int64).reshape(*x.shape, *[1] * (len(shape) - x.ndim))

    end = masks.last_key(NUMBERS, per_head(last), keys)
    upper = masks.upper_key(NUMBERS, end, row if "causal" in op.feature_names else None, per_head(offset))
    lower = masks.lower_key(NUMBERS, end, op.window)
    kept = column <= upper
    return kept if lower is None else kept & (column >= lower)
