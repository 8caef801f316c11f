"""Attention kernels from rock to device level on shuffled, poisoned pages, compared with the oracle.

The helpers of several test files: lowering is cached, inputs come from a seed, and a result is judged by the derived
bounds.  What is dead (keys that the KV index or the window drops, pages that hold nothing else, memory between pages,
buffers before they are written) is NaN or unmapped, so that reading it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from xpaged.arch import arch_of_function
from xpaged.interpreter.court import Court, CourtProgram, Finding
from xpaged.interpreter.evaluator import Machine, Program
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.numerics import dtype_of
from xpaged.interpreter.views import MemRef, page_alignment
from xpaged.ir.levels import Level
from xpaged.lowering.kernel import block_size, grid_size
from xpaged.pipeline import Pipeline
from xpaged.sizes import SOFTMAX_DTYPES, AttentionProblem, build, score_inputs
from xpaged.testing import bounds, oracle

Array = npt.NDArray[Any]
TILE, DEVICE = Level.TILE, Level.DEVICE
BOTH = (TILE, DEVICE)
ALL = (Level.ROCK_MEMREF, Level.GRIDWISE, TILE, DEVICE)
STEPS = {
    Level.GRIDWISE: (Level.ROCK_MEMREF, "affix-tuning-params,gemm-to-gridwise"),
    Level.TILE: (Level.GRIDWISE, "gridwise-to-tile,place-barriers"),
    Level.DEVICE: (Level.TILE, "tile-to-device"),
}
LANES = 8192  # that run at a time


def problem(**sizes: Any) -> AttentionProblem:
    """An attention problem; `heads_q` and `heads_kv`, `dim_qk` and `dim_v` default to each other, pages fill up."""
    sizes.setdefault("heads_kv", sizes.get("heads_q", 1))
    sizes.setdefault("dim_v", sizes.get("dim_qk"))
    if sizes.get("page_size") is not None:
        elements = sizes["heads_kv"] * sizes["seq_k"] * sizes["dim_qk"]
        sizes.setdefault("num_pages", elements // sizes["page_size"])
    if isinstance(sizes.get("kv_index"), list):
        sizes["kv_index"] = tuple(sizes["kv_index"])
    return AttentionProblem(**sizes)


def page_sizes(heads_kv: int, seq_k: int, dim_qk: int, dim_v: int, most: int = 512) -> list[int]:
    """All page sizes (elements of K) that such a cache can have with at most `most` pages."""
    total = heads_kv * seq_k * dim_qk
    sizes = (size for size in range(1, total + 1) if total % size == 0 and size * dim_v % dim_qk == 0)
    return [size for size in sizes if total // size <= most]


def lowered(module: ModuleOp, passes: str) -> ModuleOp:
    """A copy of a module after some passes."""
    copy = module.clone()
    Pipeline(passes).apply(copy)
    return copy


@lru_cache(maxsize=64)
def module_at(p: AttentionProblem, level: Level) -> ModuleOp:
    """The kernel of a problem at a level (shared: clone it before changing it)."""
    if level is Level.ROCK_MEMREF:
        return build(p)
    before, passes = STEPS[level]
    return lowered(module_at(p, before), passes)


@lru_cache(maxsize=64)
def program_at(p: AttentionProblem, level: Level) -> Program:
    """The kernel of a problem, ready to run."""
    return Program(module_at(p, level))


def kernel_of(module: ModuleOp) -> FuncOp:
    """The one function of a module."""
    (function,) = [op for op in module.ops if isinstance(op, FuncOp)]
    return function


def ops_of(module: Operation, *names: str) -> list[Operation]:
    """All operations with one of these names, in order."""
    return [op for op in module.walk() if op.name in names]


# ---- inputs


@dataclass(frozen=True)
class Cache:
    """One of K and V: `[batch, heads, keys, channels]`, and which of its keys may be read."""

    values: Array
    alive: npt.NDArray[np.bool_]  # [batch, keys]

    @property
    def elements_alive(self) -> npt.NDArray[np.bool_]:
        """For each element in memory order, `[batch, elements]`."""
        alive = self.alive[:, None, :, None]
        return np.broadcast_to(alive, self.values.shape).reshape(len(self.values), -1)

    def poisoned(self, poison: float) -> Array:
        """The elements in memory order, `[batch, elements]`, `poison` (-128 for integers) where they are dead."""
        flat = self.values.reshape(len(self.values), -1)
        return np.where(self.elements_alive, flat, np.asarray(-128 if flat.dtype.kind == "i" else poison, flat.dtype))


class Expected(NamedTuple):
    """The oracle's results and the bounds on the error of each element."""

    out: Array
    lse: Array
    out_bound: Array
    lse_bound: Array


@dataclass(frozen=True)
class Inputs:
    """Random operands of a problem, in logical order."""

    problem: AttentionProblem
    q: Array  # [heads, queries, channels]
    k: Cache
    v: Cache
    kv_index: Sequence[int] | None = None
    extras: tuple[Array, ...] = ()  # score inputs [heads, queries, keys], as `score_inputs` names them
    score: oracle.ScoreMap | None = None  # instead of what the problem says
    out: np.dtype[Any] | None = None  # the type of the output, where it is not that of V

    @staticmethod
    def random(p: AttentionProblem, seed: int = 0) -> Inputs:
        """Normally distributed operands: Q and V of size 1, K such that the scores spread by about 2; i8 up to 100, and
        a scale of the quantization that makes up for it."""
        rng = np.random.default_rng(seed)
        element, value = dtype_of(p.element_type), dtype_of(p.value_type)
        index = None if isinstance(p.kv_index, bool) else list(p.kv_index)
        keys, window = np.arange(p.seq_k), p.sliding_window
        ends = [p.seq_k - 1 if index is None else min(index[b], p.seq_k - 1) for b in range(p.batch)]
        alive = np.stack([(keys <= end) & (keys >= (0 if window is None else end - window)) for end in ends])

        def normal(*shape: int, scale: float = 1.0, dtype: Any = value) -> Array:
            if dtype.kind == "i":
                return rng.integers(-100, 101, shape).astype(dtype)
            return (rng.standard_normal(shape) * scale).astype(dtype)

        k = normal(p.batch, p.heads_kv, p.seq_k, p.dim_qk, scale=2 / np.sqrt(p.dim_qk), dtype=element)
        v = normal(p.batch, p.heads_kv, p.seq_k, p.dim_v)
        q = normal(p.groups, p.seq_q, p.dim_qk, dtype=element)
        small = {"quant_scale": 2 / (58**2 * np.sqrt(p.dim_qk))}  # the standard deviation of the integers is 58
        extras = tuple(
            normal(p.groups, p.seq_q, p.seq_k, scale=small.get(name, 1.0), dtype=dtype_of(type_))
            for name, type_ in score_inputs(p).items()
        )
        return Inputs(p, q, Cache(k, alive), Cache(v, alive), index, extras)

    @property
    def per_head(self) -> list[int] | None:
        """The KV index of each query head."""
        return None if self.kv_index is None else [i for i in self.kv_index for _ in range(self.problem.heads_q)]

    @cached_property
    def expected(self) -> Expected:
        """What the oracle says, and how far from it a kernel may be."""
        p = self.problem
        offsets = None if isinstance(p.prefix_offset, bool) else [x for x in p.prefix_offset for _ in range(p.heads_q)]
        asked = oracle.Problem(
            self.q,
            self.k.values.reshape(p.kv_groups, p.seq_k, p.dim_qk),
            self.v.values.reshape(p.kv_groups, p.seq_k, p.dim_v),
            repeats=p.heads_q // p.heads_kv,
            kv_index=self.per_head,
            causal=p.causal,
            prefix_offset=offsets,
            window=p.sliding_window,
            score=self.score or (lambda s, extras: score_of(p, s, extras)),
            extras=self.extras,
        )
        value, softmax = self.v.values.dtype, dtype_of(SOFTMAX_DTYPES[p.softmax_dtype])
        types = bounds.Types(p=value, out=value if self.out is None else self.out, lse=softmax, softmax=softmax)
        rows = np.arange(p.seq_q)
        heads = [oracle.attend(asked, g) for g in range(asked.heads)]
        allowed = [bounds.attention(asked, g, rows, head, types) for g, head in enumerate(heads)]
        return Expected(
            np.stack([h.out for h in heads]),
            np.stack([h.lse for h in heads]),
            np.stack([a[0] for a in allowed]),
            np.stack([a[1] for a in allowed]),
        )


def score_of(p: AttentionProblem, score: Array, extras: Sequence[Array]) -> Array:
    """What happens to the scores before the softmax: dequantized, times the scale input, times the scale, plus the
    bias."""
    if p.quantized:
        score = (score - extras[0]) * extras[1]
        extras = extras[2:]
    if p.scale_input:
        score = score * extras[0]
    if p.scale is not None:
        score = score * p.scale
    return score + extras[-1] if p.bias else score


@dataclass(frozen=True)
class Placement:
    """Where things lie, and what lies where nothing should be read."""

    seed: int = 0  # of the order of the pages
    poison: float = float("nan")
    unmap: bool = True  # pages with dead keys only are unmapped
    bases: tuple[int, int] | None = None  # addresses at which the pages of K and V start
    swap: tuple[str, int, int] | None = None  # exchange two entries of one page table


@dataclass
class Results:
    """What a kernel wrote."""

    out: Array  # [heads, queries, channels]
    lse: Array | None
    machine: Machine = field(repr=False)
    findings: list[Finding] = field(default_factory=list[Finding])  # of the memory court

    def __eq__(self, other: object) -> bool:
        """Bit by bit."""
        assert isinstance(other, Results)
        pairs = [(self.out, other.out), (self.lse, other.lse)]
        return all((a is None and b is None) or (a is not None and a.tobytes() == b.tobytes()) for a, b in pairs)  # pyright: ignore[reportOptionalMemberAccess]


def run(
    inputs: Inputs,
    level: Level = DEVICE,
    *,
    placement: Placement = Placement(),
    module: ModuleOp | None = None,
    groups: Iterable[int] | None = None,
    setup: Callable[[Memory, list[MemRef]], None] | None = None,
    court: bool = False,
) -> Results:
    """Run a kernel (of the problem, or `module` that has the same arguments) on some or all workgroups.

    `setup` may change memory and arguments before the start. At the device level a `court` judges it.
    """
    p = inputs.problem
    program = program_at(p, level) if module is None else Program(module)
    function = kernel_of(module_at(p, level) if module is None else module)
    memory = Memory()
    rng = np.random.default_rng(placement.seed)
    args: list[MemRef] = []

    def buffer(name: str, values: Array) -> MemRef:
        at = memory.allocate(values.nbytes, name=name, dtype=values.dtype).base
        memory.write_array(at, values)
        args.append(MemRef.dense(at, values.dtype, (values.size,)))
        return args[-1]

    def result(name: str, count: int, dtype: Any) -> MemRef:
        at = memory.allocate(count * np.dtype(dtype).itemsize, name=name, dtype=np.dtype(dtype), fill=0xFF).base
        args.append(MemRef.dense(at, np.dtype(dtype), (count,)))
        return args[-1]

    def cache_of(name: str, cache: Cache, transposed: bool, base: int | None) -> None:
        if p.page_size is None:
            poisoned = cache.poisoned(placement.poison).reshape(cache.values.shape)
            buffer(name, np.swapaxes(poisoned, 2, 3) if transposed else poisoned)
            return
        flat = cache.poisoned(placement.poison)
        pages = flat.reshape(-1, p.page_size * cache.values.shape[3] // p.dim_qk)
        mapped = np.any(cache.elements_alive.reshape(pages.shape) | (not placement.unmap), axis=1)
        where = memory.allocate_many(
            len(pages),
            pages[0].nbytes,
            align=page_alignment(pages[0].nbytes),
            base=base,
            order=rng.permutation(len(pages)),
            mapped=mapped,
            name=f"{name}_page",
            dtype=pages.dtype,
        )
        for address, page in zip(where[mapped].tolist(), pages[mapped], strict=True):
            memory.write_array(address, page)
        alive = cache.elements_alive.reshape(pages.shape)
        memory.poison(where[mapped], ~alive[mapped], pages.itemsize)
        if placement.swap is not None and placement.swap[0] == name:
            a, b = placement.swap[1:]
            where[[a, b]] = where[[b, a]]
        buffer(f"{name}_table", where.view(np.int64))

    buffer("q", np.swapaxes(inputs.q, 1, 2) if p.trans_q else inputs.q)
    starts = placement.bases or (None, None)
    cache_of("k", inputs.k, not p.trans_k, starts[0])
    cache_of("v", inputs.v, p.trans_v, starts[1])
    for name, extra in zip(score_inputs(p), inputs.extras, strict=True):
        buffer(name, extra)
    if inputs.kv_index is not None:
        buffer("kv_index", np.array(inputs.kv_index, np.int32))
    if not isinstance(p.prefix_offset, bool):
        buffer("prefix_offset", np.array(p.prefix_offset, np.int32))
    lse = result("lse", p.groups * p.seq_q, dtype_of(SOFTMAX_DTYPES[p.softmax_dtype])) if p.lse else None
    out = result("out", p.groups * p.seq_q * p.dim_v, inputs.v.values.dtype if inputs.out is None else inputs.out)
    if setup is not None:
        setup(memory, args)
    judge: Court | None = None
    if court and level is DEVICE:
        judge = Court(memory, {int(x.base[0]): name for name, x in (("out", out), ("lse", lse)) if x is not None})
        program = CourtProgram(program.module, judge)
    if level < TILE:  # the whole problem at once
        grid, block = 1, 1
    else:
        grid, block = grid_size(function), 1 if level is TILE else block_size(function)
    todo = list(range(grid) if groups is None else groups)
    wave_size = arch_of_function(function).wave_size
    machine = Machine(memory)
    for start in range(0, len(todo), step := max(1, LANES // block)):
        some = todo[start : start + step]
        machine = Machine(memory, groups=some, lanes_per_group=block, grid=grid, wave_size=wave_size)
        program.call(machine, function.sym_name.data, args)
    read = {
        name: None if x is None else memory.read_array(int(x.base[0]), x.dtype, x.shape[0])
        for name, x in (("out", out), ("lse", lse))
    }
    values = read["out"]
    assert values is not None
    shape = (p.groups, p.dim_v, p.seq_q) if p.trans_o else (p.groups, p.seq_q, p.dim_v)
    values = values.reshape(shape)
    lse_values = None if read["lse"] is None else read["lse"].reshape(p.groups, p.seq_q)
    findings = [] if judge is None else list(judge.findings.values())
    return Results(np.swapaxes(values, 1, 2) if p.trans_o else values, lse_values, machine, findings)


# ---- judging


def errors(inputs: Inputs, results: Results) -> list[str]:
    """What is wrong with the results, in words; nothing when they lie within the bounds of the oracle's."""
    out, lse, out_bound, lse_bound = inputs.expected
    wrong: list[str] = []
    pairs = [("out", results.out, out, out_bound)]
    if results.lse is not None:
        pairs.append(("lse", results.lse, lse, lse_bound))
    for name, got, expected, bound in pairs:
        with np.errstate(invalid="ignore"):
            distance = np.where(got == expected, 0.0, np.abs(got.astype(np.float64) - expected))
        bad = ~(distance <= bound)
        if bad.any():
            where = tuple(int(x) for x in np.argwhere(bad)[0])
            wrong.append(
                f"{name}{list(where)} is {got[where]}, expected {expected[where]} +- {bound[where]:.2g} "
                f"({int(bad.sum())} of {bad.size} elements are wrong)"
            )
    return wrong


def check(p: AttentionProblem, levels: Iterable[Level] = ALL, seed: int = 0, **placement: Any) -> None:
    """Run a problem at some levels and compare the results with the oracle's."""
    inputs = Inputs.random(p, seed)
    for level in levels:
        results = run(inputs, level, placement=Placement(seed=seed, **placement), court=True)
        wrong = errors(inputs, results) + [f.what for f in results.findings]
        assert not wrong, f"{level.value}: {wrong[0]}\n{p}"


def changed(p: AttentionProblem, **sizes: Any) -> AttentionProblem:
    """The problem with other sizes."""
    return replace(p, **sizes)
