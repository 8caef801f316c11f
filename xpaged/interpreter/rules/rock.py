"""rock: lazy views, and attention as its definition says it, one head at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.ir import Region

from xpaged.dialects.rock.attention import AttentionOp, GridwiseAttentionAccelOp
from xpaged.dialects.rock.merge import MergeAttentionOp
from xpaged.dialects.rock.ops import DerefOp, TransformOp
from xpaged.errors import XpagedError
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value, rule, unary
from xpaged.interpreter.numerics import F16, F32, Array, dtype_of, round_to, round_unit_to_half, widen
from xpaged.interpreter.views import MemRef, materialize, view_array
from xpaged.lowering import masks

Score = Callable[[Array, slice, slice], Array]
"""Scores of some rows and keys -> what enters the softmax. Gets the scores and which rows and keys they are."""

_CHUNK = 1 << 17
"""Scores held at a time: a chunk of rows that stays in a core's cache."""


@rule(TransformOp)
def transform(op: TransformOp, b: Compiler) -> OpCode:
    map = op.map.data

    def run(x: Value) -> Value:
        return x.transformed(map) if isinstance(x, MemRef) else view_array(map, x)

    return unary(run)


@rule(DerefOp)
def deref(op: DerefOp, b: Compiler) -> OpCode:
    dtype, shape = dtype_of(op.element_type), (op.batch, op.num_pages, op.page_size)
    return unary(lambda table: MemRef.paged(table, dtype, shape))


class _Numbers:
    """The arithmetic of the mask rules on plain numbers and NumPy arrays."""

    def const(self, value: int) -> Any:
        return value

    def min(self, a: Any, b: Any) -> Any:
        return np.minimum(a, b)

    def max(self, a: Any, b: Any) -> Any:
        return np.maximum(a, b)

    def add(self, a: Any, b: Any) -> Any:
        return a + b

    def mul(self, a: Any, b: Any) -> Any:
        return a * b


NUMBERS = _Numbers()
"""The arithmetic of the mask rules on plain numbers and NumPy arrays."""


@dataclass(frozen=True)
class Rows:
    """What one head's rows may look at: the keys `first <= j < end`, and of these row `i` those up to `upper[i]`
    (None: all of them)."""

    first: int
    end: int
    upper: Array | None = None

    @staticmethod
    def of(index: Array, keys: tuple[int, int], causal: bool, offset: int | None) -> "Rows":
        """The rows at query indices `index` over the range `keys`."""
        first, end = keys
        return Rows(first, end, masks.upper_key(NUMBERS, end - 1, index, offset) if causal else None)


def key_range(valid_keys: int, kv_index: int | None, window: int | None) -> tuple[int, int]:
    """The keys `first <= j < end` that a KV index (inclusive; -1 for none) and a sliding window leave."""
    if kv_index is not None and kv_index < -1:
        raise XpagedError("a KV index below -1", found=kv_index, expected="the last valid key, or -1 for no key")
    last = masks.last_key(NUMBERS, kv_index, valid_keys)
    first = masks.lower_key(NUMBERS, last, window)
    return 0 if first is None else int(first), int(last) + 1


def attend(
    q: Array,
    k: Array,
    v: Array,
    rows: Rows,
    score: Score,
    softmax_dtype: np.dtype[Any],
    p_dtype: np.dtype[Any],
) -> tuple[Array, Array]:
    """One head: q `[N, D]`, k `[D, M]`, v `[M, Dv]` -> out `[N, Dv]`, LSE `[N]`, all float32 (float64 when q is).

    Only keys and values in the valid range are looked at. A row that keeps no key gives 0 and minus infinity. P is
    rounded once, to `p_dtype`, before the division by its sum.
    """
    n, work = len(q), q.dtype if q.dtype == np.float64 else F32
    out = np.zeros((n, v.shape[1]), work)
    lse = np.full(n, -np.inf, work)
    first, end = rows.first, rows.end
    step = max(1, _CHUNK // max(end - first, 1))
    for at in range(0, n, step):
        some = slice(at, min(at + step, n))
        upper = None if rows.upper is None else rows.upper[some]
        stop = end if upper is None else int(upper.max()) + 1
        if stop <= first:
            continue
        keys = slice(first, stop)
        s = score(q[some] @ k[:, keys], some, keys)
        if softmax_dtype != F32:
            s = round_to(s, softmax_dtype)
        if upper is not None and int(upper.min()) < stop - 1:
            s = np.where(np.arange(first, stop) <= upper[:, None], s, work.type(-np.inf))
        top = s.max(axis=1, keepdims=True)
        own = s.flags.owndata and s.flags.writeable
        p = np.subtract(s, np.where(top == -np.inf, work.type(0), top), out=s if own else None)
        np.exp(p, out=p)
        total = p.sum(axis=1)
        if p_dtype == F16 and work == F32:
            p = round_unit_to_half(p)
        elif work == F32:
            p = round_to(p, p_dtype)
        kept = total != 0
        out[some] = (p @ v[keys]) / np.where(kept, total, work.type(1))[:, None]
        out[some][~kept] = 0
        lse[some] = np.where(kept, np.log(total) + top[:, 0], work.type(-np.inf))
    return out, lse


def _score(op: AttentionOp | GridwiseAttentionAccelOp, b: Compiler) -> Callable[[Machine, Sequence[Array]], Score]:
    """The score region as a function of the machine and of the extra inputs of one head, `[N, M]` each."""
    region: Region = op.preSoftmaxBody
    body = b.region(region) if region.blocks else None
    work = b.dtype(op.softmax_type) if b.exact else F32
    integer = dtype_of(op.queries.type).kind == "i"

    def bind(m: Machine, extras: Sequence[Array]) -> Score:
        def score(s: Array, rows: slice, keys: slice) -> Array:
            if integer:
                s = s.astype(np.int32)  # exact: products of i8 in float64
            if body is None:
                return s.astype(work, copy=False)
            (mapped,) = body(m, (s, *(e[rows, keys] for e in extras)))
            return np.broadcast_to(mapped, s.shape) if mapped.shape != s.shape else mapped

        return score

    return bind


class Operands:
    """The operands' values by name."""

    def __init__(self, op: AttentionOp | GridwiseAttentionAccelOp, values: Sequence[Value]) -> None:
        rest = iter(values)
        extra_count = len(op.preSoftmaxElemWiseInputs)
        self.q, self.k, self.v = next(rest), next(rest), next(rest)
        self.extras = [next(rest) for _ in range(extra_count)]
        self.kv_index: Value | None = next(rest) if op.currentSeqLen is not None else None
        self.offset: Value | None = next(rest) if op.prefixOffset is not None else None
        self.out: Value | None = next(rest) if op.out is not None else None
        self.lse: Value | None = next(rest) if op.lse is not None else None


def _swap(x: Array, swapped: bool) -> Array:
    return x.swapaxes(1, 2) if swapped else x


def _numbers(m: Machine, value: Value | None, clamp: masks.Clamp | None) -> list[int] | None:
    return None if value is None else clamped(materialize(m.memory, value), clamp)


def clamped(held: Array, clamp: masks.Clamp | None) -> list[int]:
    """The KV indices or offsets that an operand holds as `held`."""
    return [int(x) for x in np.asarray(masks.clamped(NUMBERS, held.astype(np.int64), clamp))]


def _wide(x: Array, exact: bool) -> Array:
    """Data as the products are computed: float32, float64 for integers (whose sums it holds exactly)."""
    return x.astype(np.float64) if exact or x.dtype.kind == "i" else widen(x)


def _split(first: int, end: int, parts: int, part: int, keys: int) -> tuple[int, int]:
    """The keys of one of `parts` equal parts of `keys` keys, within `first <= j < end`."""
    low, high = masks.part_keys(NUMBERS, part, masks.part_size(keys, parts))
    return max(first, low), min(end, high + 1)


def whole_scores(op: AttentionOp, x: Array) -> Array:
    """A score input as `[G, Sq, Sk]`, where it is given for each part of the keys as `[G * parts, Sq, Sk / parts]`."""
    if not op.has_split_scores:
        return x
    x = x.reshape(-1, op.split_kv, *x.shape[1:])
    return np.moveaxis(x, 1, 2).reshape(len(x), x.shape[2], -1)


@rule(AttentionOp)
def attention(op: AttentionOp, b: Compiler) -> OpCode:
    sizes = op.sizes
    q_swap, k_swap, v_swap, o_swap = (
        flag is not None for flag in (op.qTransposed, op.kTransposed, op.vTransposed, op.oTransposed)
    )
    bind = _score(op, b)
    softmax, p_dtype = dtype_of(op.softmax_type), dtype_of(op.values.type)
    window, causal, parts = op.window, op.causal is not None, op.split_kv
    index = np.arange(sizes.seq_q)

    def run(m: Machine, *values: Value) -> Value:
        given = Operands(op, values)
        indices = _numbers(m, given.kv_index, op.kv_index_clamp)
        offsets = _numbers(m, given.offset, op.prefix_offset_clamp)
        ranges = [key_range(sizes.seq_k, None if indices is None else indices[g], window) for g in range(sizes.groups)]
        live = _live(ranges, sizes.repeats, sizes.seq_k)
        q = _swap(materialize(m.memory, given.q), q_swap)
        k = _swap(materialize(m.memory, given.k, _swap(live[:, None, :], k_swap)), k_swap)
        v = _swap(materialize(m.memory, given.v, _swap(live[:, :, None], v_swap)), v_swap)
        extras = [whole_scores(op, materialize(m.memory, e)) for e in given.extras]
        out = np.empty((sizes.groups * parts, sizes.seq_q, sizes.dim_v), np.float64 if b.exact else F32)
        lse = np.empty(out.shape[:2], out.dtype)
        kh = vh = np.empty(0)
        for g in range(sizes.groups):
            if g % sizes.repeats == 0:
                h = g // sizes.repeats
                kh, vh = _wide(k[h], b.exact), _wide(v[h], b.exact)
            qh, score = _wide(q[g], b.exact), bind(m, [e[g] for e in extras])
            offset = None if offsets is None else offsets[g]
            for part in range(parts):
                rows = Rows.of(index, _split(*ranges[g], parts, part, sizes.seq_k), causal, offset)
                at = g * parts + part
                out[at], lse[at] = attend(qh, kh, vh, rows, score, softmax, p_dtype)
        return _finish(m, op, b, given, _swap(out, o_swap), lse)

    return run


@rule(GridwiseAttentionAccelOp)
def gridwise(op: GridwiseAttentionAccelOp, b: Compiler) -> OpCode:
    bind = _score(op, b)
    softmax, p_dtype = dtype_of(op.softmax_type), dtype_of(op.values.type)
    window, causal, parts = op.window, op.causal is not None, op.split_kv
    count, repeats, keys = op.valid_rows, op.repeats, op.valid_keys
    index = np.arange(count) // repeats

    def run(m: Machine, *values: Value) -> Value:
        given = Operands(op, values)
        groups = given.q.shape[0]
        indices = _numbers(m, given.kv_index, op.kv_index_clamp)
        offsets = _numbers(m, given.offset, op.prefix_offset_clamp)
        ranges = [key_range(keys, None if indices is None else indices[g], window) for g in range(groups)]
        live = _live(ranges, 1, given.k.shape[2])
        q = materialize(m.memory, given.q)
        k = materialize(m.memory, given.k, live[:, None, :])
        v = materialize(m.memory, given.v, live[:, :, None])
        extras = [materialize(m.memory, e) for e in given.extras]
        out = np.zeros((groups * parts, q.shape[2], v.shape[2]), np.float64 if b.exact else F32)
        lse = np.full(out.shape[:2], -np.inf, out.dtype)
        for g in range(groups):
            qh, kh, vh = _wide(q[g].T[:count], b.exact), _wide(k[g], b.exact), _wide(v[g], b.exact)
            score = bind(m, [e[g].T for e in extras])
            offset = None if offsets is None else offsets[g]
            for part in range(parts):
                rows = Rows.of(index, _split(*ranges[g], parts, part, keys), causal, offset)
                at = g * parts + part
                out[at, :count], lse[at, :count] = attend(qh, kh, vh, rows, score, softmax, p_dtype)
        return _finish(m, op, b, given, out, lse)

    return run


@rule(MergeAttentionOp)
def merge(op: MergeAttentionOp, b: Compiler) -> OpCode:
    n = op.split_kv

    def run(m: Machine, parts: MemRef, lses: MemRef, out: MemRef, lse: MemRef | None = None) -> None:
        each = _wide(materialize(m.memory, lses), b.exact)
        each = each.reshape(-1, n, each.shape[1])
        values = _wide(materialize(m.memory, parts), b.exact)
        values = values.reshape(*each.shape, values.shape[2])
        top = each.max(axis=1)
        top = np.where(np.isneginf(top), 0, top).astype(each.dtype)
        weights = np.exp(each - top[:, None])
        total = weights.sum(axis=1)
        divisor = np.where(total == 0, 1, total).astype(each.dtype)
        out.write_all(m.memory, ((weights[..., None] * values).sum(axis=1) / divisor[..., None]).astype(out.dtype))
        if lse is not None:
            lse.write_all(m.memory, (np.log(total) + top).astype(lse.dtype))

    return run


def _live(ranges: Sequence[tuple[int, int]], repeats: int, keys: int) -> Array:
    """`bool[kv heads, keys]`: the keys that some query head of a KV head may look at."""
    j = np.arange(keys)
    each = np.array([(first <= j) & (j < end) for first, end in ranges])
    return np.logical_or.reduce(each.reshape(-1, repeats, keys), axis=1)


def _finish(
    m: Machine,
    op: AttentionOp | GridwiseAttentionAccelOp,
    b: Compiler,
    given: Operands,
    out: Array,
    lse: Array,
) -> Value:
    """Results of tensors are returned, those of memrefs written."""
    if op.results:
        results = [x.astype(b.dtype(r.type), copy=False) for x, r in zip((out, lse), op.results, strict=False)]
        return results if len(results) > 1 else results[0]
    for target, value in ((given.out, out), (given.lse, lse)):
        if isinstance(target, MemRef):
            target.write_all(m.memory, value.astype(target.dtype, copy=False))
    return None
