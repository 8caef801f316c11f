"""What a module should compute: its attention by the oracle, the rest of it in float64.

The module's own operations are evaluated exactly, except that every attention is turned into a logical problem (its
operands read through their views, K and V straight from the pages' contents, no addresses and no simulated pages) and
solved by `xpaged.testing.oracle`, with error bounds from `xpaged.testing.bounds`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation

from xpaged.dialects.rock.attention import AttentionOp, GridwiseAttentionAccelOp
from xpaged.dialects.rock.merge import MergeAttentionOp
from xpaged.errors import XpagedError
from xpaged.interpreter.evaluator import Compiler, Machine, Maker, OpCode, Program, RegionCode, Value
from xpaged.interpreter.inputs import Argument, Inputs, entry_of
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.numerics import Array, dtype_of, is_float
from xpaged.interpreter.rules.linalg import generic
from xpaged.interpreter.rules.rock import Operands, clamped, key_range, whole_scores
from xpaged.interpreter.views import MemRef, materialize, positions, strides_of, view_through
from xpaged.testing import bounds, oracle

_CHUNK = 1 << 17
"""Scores held at a time, about as many as stay in a core's cache."""
_TABLE_SHIFT = 40  # coded page tables: (argument + 1) << 40 | entry


@dataclass(frozen=True)
class Cells:
    """Where the elements of K or V, `[KV heads, Sk, D]`, lie: positions in the pages of table `argument`."""

    argument: int
    position: Array


@dataclass
class Attention:
    """One attention of a module as a logical problem, and where its data came from and its results go."""

    op: AttentionOp | GridwiseAttentionAccelOp
    problem: oracle.Problem
    types: bounds.Types
    k: Cells | None
    v: Cells | None
    parts: int
    out: tuple[int, Array] | None
    """Where the buffer that the output goes to starts, and the position of each element, `[G * parts, Sq, Dv]`."""
    lse: tuple[int, Array] | None
    errors: bounds.Errors = bounds.EXACT

    def solve(self, graphs: Sequence[np.dtype[Any] | None]) -> list[tuple[bounds.Bounded, bounds.Bounded]]:
        """Output `[G * parts, Sq, Dv]` and LSE `[G * parts, Sq]` by the oracle, bounded for each of `graphs` (see
        `references`)."""
        if self.parts == 1:
            return self._solve(self.problem, self.types, graphs)
        problems = [self.problem.part(i, self.parts) for i in range(self.parts)]
        parts = [self._solve(part, self.types, graphs) for part in problems]
        return [(_woven([p[i][0] for p in parts]), _woven([p[i][1] for p in parts])) for i in range(len(graphs))]

    def merged(self, out: np.dtype[Any], lse: np.dtype[Any]) -> tuple[bounds.Bounded, bounds.Bounded]:
        """What a merge of the parts gives: output `[G, Sq, Dv]` in type `out` and LSE `[G, Sq]` in type `lse`."""
        types = replace(self.types, out=out, lse=lse, parts=self.parts)
        return self._solve(self.problem, types, [None])[0]

    def _solve(
        self, p: oracle.Problem, kernel: bounds.Types, graphs: Sequence[np.dtype[Any] | None]
    ) -> list[tuple[bounds.Bounded, bounds.Bounded]]:
        given = self.errors.of(p)
        shape = (p.heads, p.q.shape[1], p.v.shape[2])
        out, lse = np.empty(shape), np.empty(shape[:2])
        errors = [(np.empty(shape), np.empty(shape[:2])) for _ in graphs]
        step = max(1, _CHUNK // p.k.shape[1])
        for g in range(p.heads):
            for start in range(0, shape[1], step):
                rows = np.arange(start, min(start + step, shape[1]))
                head = oracle.attend(p, g, rows)
                out[g, rows], lse[g, rows] = head.out, head.lse
                for graph, (out_error, lse_error) in zip(graphs, errors, strict=True):
                    types = replace(kernel, graph=graph)
                    out_error[g, rows], lse_error[g, rows] = bounds.attention(p, g, rows, head, types, given)
        return [(bounds.Bounded(out.copy(), e), bounds.Bounded(lse.copy(), f)) for e, f in errors]

    def live_keys(self) -> Array:
        """`bool[KV heads, Sk]`: the keys that the KV index and the window leave to some head."""
        valid = np.stack([self.problem.valid(g) for g in range(self.problem.heads)])
        return np.logical_or.reduce(valid.reshape(-1, self.problem.repeats, valid.shape[1]), axis=1)


@dataclass
class Expected:
    """What one output should hold: `value` and `bound`, flat in memory order; NaN where nothing is expected."""

    value: Array
    bound: Array


@dataclass
class Reference:
    """The expected outputs of a module, by result number; `attentions` are what they were computed from."""

    outputs: dict[int, Expected] = field(default_factory=dict[int, Expected])
    split: list[tuple[Attention, tuple[int | None, int | None]]] = field(
        default_factory=list[tuple[Attention, tuple[int | None, int | None]]]
    )
    """Attentions with results over parts of the keys, and which outputs these are."""
    attentions: list[Attention] = field(default_factory=list[Attention])


def whole(reference: Reference) -> Reference:
    """What a computation gives that does not split the keys: for results over parts, what the parts give together."""
    outputs = dict(reference.outputs)
    for attention, numbers in reference.split:
        results = attention.merged(attention.types.out, attention.types.lse)
        for target, number, result in zip((attention.out, attention.lse), numbers, results, strict=True):
            if target is None or number is None:
                continue
            at = target[1].reshape(len(result.value), attention.parts, -1)[:, 0]
            order = np.argsort(at, axis=None)  # the whole result lies in memory as each part does
            error = np.broadcast_to(result.error, result.shape)
            outputs[number] = Expected(result.value.reshape(-1)[order], error.reshape(-1)[order])
    return Reference(outputs)


def capture(module: ModuleOp, inputs: Inputs) -> list[Attention]:
    """The attentions of a module at level rock, rock-memref or gridwise as logical problems; nothing is solved."""
    if not any(isinstance(op, AttentionOp | GridwiseAttentionAccelOp) for op in module.walk()):
        return []
    return _Evaluation(module, inputs, None).run().attentions


def references(module: ModuleOp, inputs: Inputs, graphs: Sequence[np.dtype[Any] | None] = (None,)) -> list[Reference]:
    """The expected outputs of a module at level rock, rock-memref or gridwise, once for each of `graphs`.

    None is for kernels. A type is for a graph that rounds every operation to it: its bounds are wider, and rows that
    keep no key are not expected to hold anything.
    """
    solutions = [_Solutions(graph, list(graphs)) for graph in graphs]
    for each in solutions[1:]:
        each.found = solutions[0].found
    return [_Evaluation(module, inputs, each).run() for each in solutions]


@dataclass
class _Solutions:
    """What the attentions of a module give, in order, for one of `graphs`; solved for all of them at once."""

    graph: np.dtype[Any] | None
    graphs: list[np.dtype[Any] | None]
    found: list[list[tuple[bounds.Bounded, bounds.Bounded]]] = field(
        default_factory=list[list[tuple[bounds.Bounded, bounds.Bounded]]]
    )

    def of(self, number: int, attention: Attention) -> tuple[bounds.Bounded, bounds.Bounded]:
        if number == len(self.found):
            self.found.append(attention.solve(self.graphs))
        out, lse = self.found[number][self.graphs.index(self.graph)]
        if self.graph is not None:
            empty = np.isneginf(lse.value)
            out.value[empty] = np.nan
            lse.value[empty] = np.nan
        return out, lse


class _Evaluation:
    """One exact evaluation of a function, or of the kernels that are its parts."""

    def __init__(self, module: ModuleOp, inputs: Inputs, solutions: _Solutions | None) -> None:
        self.entry = entry_of(module)
        self.inputs = inputs
        self.solutions = solutions
        self.memory = Memory()
        self.bases: dict[int, Argument] = {}
        self.computed: set[int] = set()
        """Where buffers start that attention has written: they do not hold what it computes."""
        self.attentions: list[Attention] = []
        self.merges: list[tuple[tuple[int, Array] | None, bounds.Bounded]] = []
        rules: dict[type[Operation], Maker] = {
            AttentionOp: self._rule,
            GridwiseAttentionAccelOp: self._rule,
            MergeAttentionOp: self._merge_rule,
            GenericOp: self._elementwise,
        }
        self.program = Program(module, exact=True, rules=rules)

    def run(self) -> Reference:
        machine = Machine(self.memory, exact=True)
        values = [self._value(a) for a in self.entry.arguments]
        results: tuple[Value, ...] = ()
        for function, slots in zip(self.entry.functions, self.entry.slots, strict=True):
            results = self.program.call(machine, function.sym_name.data, [values[i] for i in slots])
        found = Reference(attentions=self.attentions)
        if self.solutions is None:
            return found
        for number, result in enumerate(results):
            value = result if isinstance(result, bounds.Bounded) else bounds.Bounded(materialize(self.memory, result))
            found.outputs[number] = Expected(
                value.value.reshape(-1), np.broadcast_to(value.error, value.shape).reshape(-1)
            )
        self._written(found)
        return found

    def _written(self, found: Reference) -> None:
        """Expected contents of the outputs that attention writes."""
        assert self.solutions is not None
        for number, attention in enumerate(self.attentions):
            targets = [t for t in (attention.out, attention.lse) if t is not None and self._argument(t[0]) is not None]
            if not targets:
                continue
            if _is_balanced(attention.op):
                raise XpagedError(
                    "which keys each part of a balanced split has is not known",
                    at=attention.op,
                    fix="merge the parts, or remove balancedSplit",
                )
            if attention.parts > 1:
                found.split.append((attention, (self._number(attention.out), self._number(attention.lse))))
            solved = self.solutions.of(number, attention)
            for target, value in zip((attention.out, attention.lse), solved, strict=True):
                self._expect(found, target, value)
        for target, value in self.merges:
            self._expect(found, target, value)

    def _expect(self, found: Reference, target: tuple[int, Array] | None, value: bounds.Bounded) -> None:
        """`value` is what the positions of `target` should hold, where that is an output."""
        if target is None or (arg := self._argument(target[0])) is None:
            return
        assert arg.output is not None
        nothing = Expected(np.full(arg.count, np.nan), np.full(arg.count, np.nan))
        expected = found.outputs.setdefault(arg.output, nothing)
        position = target[1].reshape(value.shape)
        there = position >= 0
        expected.value[position[there]] = value.value[there]
        expected.bound[position[there]] = value.error[there]

    def _argument(self, base: int) -> Argument | None:
        """The output that starts at `base`; None for a temporary."""
        arg = self.bases.get(base)
        if arg is None or arg.is_workspace:
            return None
        if arg.output is None:
            raise XpagedError("attention writes to an argument that is not an output", found=arg.name)
        return arg

    def _number(self, target: tuple[int, Array] | None) -> int | None:
        """Which result goes to a target, None for none."""
        arg = None if target is None else self._argument(target[0])
        return None if arg is None else arg.output

    def _value(self, arg: Argument) -> Value:
        """An argument as the exact evaluation sees it; tables hold codes instead of addresses."""
        if arg.is_table:
            flat = np.arange(arg.count, dtype=np.int64) + (np.int64(arg.index + 1) << _TABLE_SHIFT)
        else:
            flat = self.inputs.arrays[arg.index] if arg.is_input else np.zeros(arg.count, arg.dtype)
        if not isinstance(arg.type, MemRefType):
            return arg.logical(flat.astype(np.float64) if is_float(flat.dtype) else flat)
        made = self.memory.allocate(max(flat.nbytes, 1), name=arg.name, dtype=flat.dtype)
        self.memory.write_array(made.base, flat)
        self.bases[made.base] = arg
        return MemRef(np.array([made.base], np.uint64), flat.dtype, arg.type.get_shape(), strides_of(arg.type))

    def _elementwise(self, op: GenericOp, b: Compiler) -> OpCode:
        """An elementwise kernel on tensors: the errors of its inputs and of its own operations are followed."""
        code = generic(op, b)
        graph = None if self.solutions is None else self.solutions.graph
        if not op.results:
            return code
        type = dtype_of(op.results[0].type)

        def run(m: Machine, *values: Value) -> Value:
            result = code(m, *(_followed(x, graph) for x in values))
            if is_float(type) or type == np.bool_ or not isinstance(result, bounds.Bounded):
                return result
            half = 2.0 ** (8 * type.itemsize - 1)  # what is stored wraps
            return bounds.Bounded((result.value + half) % (2 * half) - half, result.error)

        return run

    def _rule(self, op: AttentionOp | GridwiseAttentionAccelOp, b: Compiler) -> OpCode:
        body = b.region(op.preSoftmaxBody) if op.preSoftmaxBody.blocks else None

        def run(m: Machine, *values: Value) -> Value:
            attention = self._attention(op, Operands(op, values), body, m)
            self.attentions.append(attention)
            if not op.results:
                return None
            number = len(self.attentions) - 1
            out, lse = _nothing(attention) if self.solutions is None else self.solutions.of(number, attention)
            if isinstance(op, AttentionOp) and op.oTransposed is not None:
                out = out.swapaxes(1, 2)
            return (out, lse) if len(op.results) > 1 else out

        return run

    def _merge_rule(self, op: MergeAttentionOp, b: Compiler) -> OpCode:
        def run(m: Machine, parts: MemRef, lses: MemRef, out: MemRef, lse: MemRef | None = None) -> None:
            sources = [(int(x.base[0]), positions(x.maps, x.buffer_shape)) for x in (parts, lses)]
            targets = [self._target(out), self._target(lse)]
            if self.solutions is None:
                return
            for attention in self.attentions:
                if attention.parts == op.split_kv and all(
                    target is not None and target[0] == base and np.array_equal(target[1].reshape(at.shape), at)
                    for target, (base, at) in zip((attention.out, attention.lse), sources, strict=True)
                ):
                    solved = attention.merged(out.dtype, out.dtype if lse is None else lse.dtype)
                    self.merges += zip(targets, solved, strict=True)
                    return
            raise XpagedError(
                "what is merged is not what an attention of this module writes, part by part",
                at=op,
                fix="run the module without --check",
            )

        return run

    def _attention(
        self, op: AttentionOp | GridwiseAttentionAccelOp, given: Operands, body: RegionCode | None, m: Machine
    ) -> Attention:
        gridwise = isinstance(op, GridwiseAttentionAccelOp)
        swap = _identity if gridwise else _swapper(op)
        q, extras = self._read(given.q), [self._read(e) for e in given.extras]
        (k, k_cells), (v, v_cells) = self._cache(given.k), self._cache(given.v)
        told = ((given.kv_index, op.kv_index_clamp), (given.offset, op.prefix_offset_clamp))
        numbers = [None if x is None else clamped(self._read(x), clamp) for x, clamp in told]
        if isinstance(op, GridwiseAttentionAccelOp):
            repeats, keys, rows = op.repeats, op.valid_keys, op.valid_rows

            def heads(x: Array, axis: int, parts: int = 1) -> Array:
                """Rows on `axis` of `[G * parts, ...]` as `[G * repeats * parts, rows / repeats, rest]`."""
                x = np.moveaxis(x, axis, 1)[:, :rows]
                x = x.reshape(len(x) // parts, parts, rows // repeats, repeats, *x.shape[2:])
                return np.moveaxis(x, 3, 1).reshape(-1, rows // repeats, *x.shape[4:])

            q = heads(q, 2)
            k, k_at = k.swapaxes(1, 2)[:, :keys], _swapped(k_cells, True, keys)
            v, v_at = v[:, :keys], _swapped(v_cells, False, keys)
            extras = [heads(e[:, :keys], 2) for e in extras]
            numbers = [None if x is None else [i for i in x for _ in range(repeats)] for x in numbers]
            out, lse = self._target(given.out), self._target(given.lse)
            out = None if out is None else (out[0], heads(out[1], 1, op.split_kv))
            lse = None if lse is None else (lse[0], heads(lse[1], 1, op.split_kv))
        else:
            repeats = op.sizes.repeats
            q = swap(q, "q")
            k_swapped, v_swapped = op.kTransposed is None, op.vTransposed is not None
            k, k_at = swap(k, "k"), _swapped(k_cells, k_swapped, None)
            v, v_at = swap(v, "v"), _swapped(v_cells, v_swapped, None)
            out, lse = self._target(given.out), self._target(given.lse)
            out = None if out is None else (out[0], swap(out[1], "o"))
            extras = [whole_scores(op, e) for e in extras]
        (q, dq), (k, dk), (v, dv) = (_parted(x) for x in (q, k, v))
        for index in numbers[0] or ():
            key_range(k.shape[1], index, op.window)
        problem = oracle.Problem(
            q,
            k,
            v,
            repeats=repeats,
            kv_index=numbers[0],
            causal=op.causal is not None,
            prefix_offset=numbers[1],
            window=op.window,
            score=None if body is None else _bound_score(body, m),
            extras=extras,
        )
        errors = bounds.Errors(dq, dk, dv)
        return Attention(op, problem, self._types(op, given), k_at, v_at, op.split_kv, out, lse, errors)

    def _types(self, op: AttentionOp | GridwiseAttentionAccelOp, given: Operands) -> bounds.Types:
        def of(value: Value, result: int) -> np.dtype[Any]:
            if isinstance(value, MemRef):
                return value.dtype
            return dtype_of(op.results[result].type) if len(op.results) > result else dtype_of(op.softmax_type)

        return bounds.Types(dtype_of(op.values.type), of(given.out, 0), of(given.lse, 1), dtype_of(op.softmax_type))

    def _read(self, value: Value) -> Array:
        if isinstance(value, MemRef) and value.table is None and int(value.base[0]) in self.computed:
            if self.solutions is None:
                return np.zeros(value.shape)
            raise XpagedError(
                "attention that reads what another attention writes to memory has no reference",
                fix="run the module without --check",
            )
        return materialize(self.memory, value)

    def _cache(self, value: Value) -> tuple[Array, Cells | None]:
        """K or V as the operand views it, and where each element lies in its pages."""
        if not isinstance(value, MemRef) or value.table is None:
            return self._read(value), None
        codes = value.page_addresses(self.memory).astype(np.int64)
        argument = int(codes.flat[0] >> _TABLE_SHIFT) - 1
        entries = codes & ((1 << _TABLE_SHIFT) - 1)
        if not ((codes >> _TABLE_SHIFT) == argument + 1).all():
            raise XpagedError("one view takes its pages from several tables")
        pages = self.inputs.pages[argument]
        size = value.buffer_shape[2]
        data = view_through(value.maps, pages.data[entries].reshape(value.buffer_shape))
        at = entries[..., None] * size + np.arange(size)
        return data, Cells(argument, view_through(value.maps, at, -1))

    def _target(self, value: Value | None) -> tuple[int, Array] | None:
        """Where the buffer that a memref of results is a view of starts, and the position of each of its elements."""
        if not isinstance(value, MemRef):
            return None
        base = int(value.base[0])
        self.computed.add(base)
        return base, positions(value.maps, value.buffer_shape)


def _followed(value: Value, graph: np.dtype[Any] | None) -> Value:
    """Floats as values that follow their own errors."""
    if isinstance(value, bounds.Bounded):
        return bounds.Bounded(value.value, value.error, graph=graph)
    floats = isinstance(value, np.ndarray | np.floating) and value.dtype.kind == "f"
    return bounds.Bounded(value, graph=graph) if floats else value


def _parted(value: Any) -> tuple[Array, Array | None]:
    """The values of an operand of attention, and how far they may be off."""
    if not isinstance(value, bounds.Bounded):
        return value, None
    return value.value, np.broadcast_to(value.error, value.shape)


def _identity(x: Array, _: str) -> Array:
    return x


def _swapper(op: AttentionOp) -> Callable[[Array, str], Array]:
    """Puts an operand, in whichever order the operation takes it, into `[heads, length, channels]`."""
    swapped = {
        "q": op.qTransposed is not None,
        "k": op.kTransposed is None,
        "v": op.vTransposed is not None,
        "o": op.oTransposed is not None,
    }
    return lambda x, which: x.swapaxes(1, 2) if swapped[which] else x


def _swapped(cells: Cells | None, swapped: bool, keys: int | None) -> Cells | None:
    if cells is None:
        return None
    at = cells.position.swapaxes(1, 2) if swapped else cells.position
    return Cells(cells.argument, at[:, :keys])


def _bound_score(body: RegionCode, m: Machine) -> oracle.ScoreMap:
    """The score region in the frame that it was met in: it may use values from outside."""
    frame = m.frame

    def score(s: Any, extras: Sequence[Array]) -> Any:
        before, m.frame = m.frame, frame
        try:
            with np.errstate(all="ignore"):
                (result,) = body(m, (s, *(e.astype(np.float64) for e in extras)))
        finally:
            m.frame = before
        return result

    return score


def _is_balanced(op: AttentionOp | GridwiseAttentionAccelOp) -> bool:
    return op.split_kv > 1 and op.balancedSplit is not None


def _woven(parts: Sequence[bounds.Bounded]) -> bounds.Bounded:
    """Results `[G, ...]` over each part as one of `[G * parts, ...]`, the parts of a head side by side."""
    value, error = (np.stack(each, axis=1) for each in ([p.value for p in parts], [p.error for p in parts]))
    return bounds.Bounded(value.reshape(-1, *value.shape[2:]), error.reshape(-1, *error.shape[2:]))


def _nothing(attention: Attention) -> tuple[bounds.Bounded, bounds.Bounded]:
    p = attention.problem
    shape = (p.heads * attention.parts, p.q.shape[1], p.v.shape[2])
    return bounds.Bounded(np.zeros(shape)), bounds.Bounded(np.zeros(shape[:2]))


def elements(attention: Attention) -> int:
    """Scores of an attention: what its solution costs."""
    p = attention.problem
    return prod((p.heads, p.q.shape[1], p.k.shape[1]))
