"""Random data that make mistakes show: scores spread so that many keys matter, the first and the last valid key of each
head matter to some row, and everything that must not matter is marked dead.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from xpaged.dialects.rock.attention import AttentionOp, GridwiseAttentionAccelOp
from xpaged.interpreter.inputs import Argument, Inputs, Pages, roots_of
from xpaged.interpreter.numerics import Array, is_float
from xpaged.interpreter.reference import Attention, Cells, capture
from xpaged.lowering.kernel import identity_of, kernels_of

SPREAD = 2.0
"""The standard deviation of the scores of random data: the largest of a thousand keys then weigh some percent."""
_STRONG = 3.0
"""How many standard deviations of the raw scores a planted key scores in the row that it is planted for."""
_TOWERING = 6.0
"""The same for the last key where a KV head has rows enough to give one away: whatever the row has summed up before is
then rescaled to almost nothing, so a rescaling that is wrong shows."""
_MANY_ROWS = 4


def random_inputs(arguments: Sequence[Argument], rng: np.random.Generator, rock: ModuleOp | None) -> Inputs:
    """Random data for `arguments`. `rock` is the module at a level where attention is one operation (None: unknown)."""
    inputs = Inputs(random=True)
    whole = _integers(arguments, rng, rock)
    for arg in arguments:
        if arg.is_table:
            assert arg.page_size is not None
            assert arg.page_dtype is not None
            data = _random(rng, (arg.count, arg.page_size), arg.page_dtype)
            inputs.pages[arg.index] = Pages(data, rng.permutation(arg.count), np.ones(arg.count, np.bool_))
        elif arg.is_input:
            values = whole.get(arg.index)
            if values is None:
                values = _random(rng, (arg.count,), arg.dtype)
                if rock is None and arg.dtype == np.int32:  # perhaps a KV index
                    values = np.abs(values)
            inputs.arrays[arg.index] = values
    if rock is not None:
        for attention in capture(rock, inputs):
            _spread_scores(attention, inputs)
        attentions = capture(rock, inputs)
        for attention in attentions:
            _plant_keys(attention, inputs, rng)
        mark_dead(attentions, inputs)
    return inputs


def _random(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    if is_float(dtype):
        return rng.standard_normal(shape, np.float32).astype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    limit = 127 if dtype.itemsize == 1 else 5
    return rng.integers(0 if dtype.kind == "u" else -limit, limit + 1, shape).astype(dtype)


def _integers(arguments: Sequence[Argument], rng: np.random.Generator, rock: ModuleOp | None) -> dict[int, Array]:
    """KV indices, prefix offsets, and arguments that come with values to run with."""
    found = {a.index: np.array(a.default, a.dtype) for a in arguments if a.default is not None}
    if rock is None:
        return found
    for op in (op for kernel in kernels_of(rock) for op in kernel.walk()):
        if not isinstance(op, AttentionOp | GridwiseAttentionAccelOp):
            continue
        queries, keys = _lengths(op)
        add = 0 if op.kv_index_clamp is None else op.kv_index_clamp.add
        for arg in _roots(op.currentSeqLen, arguments):
            found.setdefault(arg.index, (rng.integers(0, keys, arg.count) - add).astype(arg.dtype))
        for arg in _roots(op.prefixOffset, arguments):
            last = np.full(arg.count, keys)
            for index in _roots(op.currentSeqLen, arguments):
                if index.count == arg.count:
                    last = np.minimum(found[index.index] + add, keys - 1) + 1
            less = 0 if op.prefix_offset_clamp is None else op.prefix_offset_clamp.add
            found.setdefault(arg.index, (np.maximum(last - queries, 0) - less).astype(arg.dtype))
    return found


def _lengths(op: AttentionOp | GridwiseAttentionAccelOp) -> tuple[int, int]:
    if isinstance(op, AttentionOp):
        return op.sizes.seq_q, op.sizes.seq_k
    return op.valid_rows // op.repeats, op.valid_keys


def _roots(value: SSAValue | None, arguments: Sequence[Argument]) -> list[Argument]:
    numbers = [] if value is None else [identity_of(r) for r in roots_of(value)]
    return [arguments[n] for n in numbers if isinstance(n, int) and n < len(arguments)]


def _spread_scores(attention: Attention, inputs: Inputs) -> None:
    """Scales the argument that Q is, so that the scores of the first head spread by about SPREAD; for integers what
    scales the scores, and Q where that is nothing."""
    p = attention.problem
    numbers = [identity_of(r) for r in roots_of(attention.op.queries)]
    if len(numbers) != 1 or not isinstance(numbers[0], int) or numbers[0] not in inputs.arrays:
        return  # what another kernel computes, or an output, which the kernel passes refuse to read
    number = numbers[0]
    q, _, _ = p.head(0)
    rows = np.arange(min(len(q), 64))
    raw = q[rows] @ np.asarray(p.k[0][:1024], np.float64).T
    extras = [np.asarray(e[0][rows, : raw.shape[1]]) for e in p.extras]

    def spread_of(extras: Sequence[Array]) -> float:
        scores = raw if p.score is None else np.asarray(p.score(raw, extras), np.float64)
        scores = scores[np.isfinite(scores)]  # what a mask hides says nothing
        return float(scores.std()) if scores.size > 1 else 0.0

    spread = spread_of(extras)
    if not np.isfinite(spread) or spread <= 0:
        return
    factor, flat = min(max(SPREAD / spread, 2.0**-20), 2.0**10), inputs.arrays[number]
    if is_float(flat.dtype):
        factor = max(factor, 2.0**-10)
        inputs.arrays[number] = (flat.astype(np.float32) * np.float32(factor)).astype(flat.dtype)
        return
    for i, view in enumerate(attention.op.preSoftmaxElemWiseInputs):
        found = [identity_of(r) for r in roots_of(view)]
        scaled = [e * factor if j == i else e for j, e in enumerate(extras)]
        if is_float(extras[i].dtype) and abs(np.log2(max(spread_of(scaled), 1e-9) / SPREAD)) < 1:
            for each in found:
                if isinstance(each, int) and each in inputs.arrays:
                    values = inputs.arrays[each]
                    inputs.arrays[each] = (values.astype(np.float32) * np.float32(factor)).astype(values.dtype)
            return
    inputs.arrays[number] = np.rint(flat * factor).astype(flat.dtype)


def _plant_keys(attention: Attention, inputs: Inputs, rng: np.random.Generator) -> None:
    """Makes the first and the last valid key of each KV head score high in one row that keeps them: an off-by-one in a
    length then moves that row by more than rounding does."""
    p, cells = attention.problem, attention.k
    if cells is None:
        return
    data = inputs.pages[cells.argument].data
    usual = float(data.std()) if data.dtype.kind == "i" else 1.0
    for g in range(0, p.heads, p.repeats):
        valid = np.flatnonzero(p.valid(g))
        if not valid.size:
            continue
        many = p.repeats * p.q.shape[1] >= _MANY_ROWS
        for key, strong in {int(valid[0]): _STRONG, int(valid[-1]): _TOWERING if many else _STRONG}.items():
            head = g + int(rng.integers(p.repeats))
            keeps = np.flatnonzero(p.mask(head, np.arange(p.q.shape[1]))[:, key])
            if keeps.size:
                row = np.asarray(p.q[head, rng.choice(keeps)], np.float64)
                size = float(np.sqrt((row * row).sum()))
                if size > 0:
                    _write(cells, inputs, (g // p.repeats, key), row * (strong * usual / size))


def _write(cells: Cells, inputs: Inputs, where: tuple[int, int], values: Array) -> None:
    data = inputs.pages[cells.argument].data
    position = cells.position[where]
    there = position >= 0
    if data.dtype.kind == "i":
        values = np.clip(np.rint(values), -127, 127)
    data.reshape(-1)[position[there]] = values[there].astype(data.dtype)


def mark_dead(attentions: Sequence[Attention], inputs: Inputs) -> None:
    """Marks every element of a page in which no key that counts lies as dead."""
    alive: dict[int, Array] = {}
    for attention in attentions:
        live = attention.live_keys()
        for cells in (attention.k, attention.v):
            if cells is not None:
                pages = inputs.pages[cells.argument]
                flat = alive.setdefault(cells.argument, np.zeros(pages.data.size, np.bool_))
                position = cells.position[live]
                flat[position[position >= 0]] = True
    for argument, flat in alive.items():
        pages = inputs.pages[argument]
        pages.dead = ~flat.reshape(pages.data.shape)
