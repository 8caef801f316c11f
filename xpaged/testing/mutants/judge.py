"""Planting mutants one at a time, and whether the checks notice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xpaged.arch import arch_of
from xpaged.codegen.hip_printer import print_hip
from xpaged.interpreter.inputs import Entry, Inputs
from xpaged.interpreter.numerics import is_float
from xpaged.interpreter.reference import Attention
from xpaged.interpreter.run import Report, Trial
from xpaged.ir.levels import Level
from xpaged.ir.locations import describe
from xpaged.ir.printing import one_line
from xpaged.testing.mutants.changes import Change
from xpaged.testing.mutants.equivalent import Behaviour, reason, static_reason
from xpaged.testing.mutants.operators import Mutant, mutants
from xpaged.testing.mutants.text import TextMutant

_LARGEST = 6e4  # a float16
_RISE, _RARE = 5.8, 32
"""How much a few keys score above the others, and how few: one of so many."""
Made = TypeVar("Made", Mutant, TextMutant)
SAME_BITS = "the results of the text are the same bit by bit"
KILLED, SURVIVED, EQUIVALENT = "killed", "survived", "equivalent"


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant: killed (by which kind of fault), survived, or equivalent (why)."""

    family: str
    level: str
    operator: str
    variant: str
    op: str
    location: str
    verdict: str
    why: str

    def as_json(self) -> dict[str, str]:
        """As plain data."""
        return dict(self.__dict__)


@dataclass
class Bench:
    """One kernel with sets of inputs of four kinds: ordinary ones; scores so far apart that exponentials overflow or
    vanish where a maximum is wrong; scores that rise from tile to tile by as much as sums have to be scaled down for;
    and scores so near to 0 that every key weighs the same, also one that should not count."""

    family: str
    kernel: ModuleOp
    seed: int = 0
    trials: list[Trial] = field(init=False)
    behaviour: list[Behaviour] = field(init=False)

    def __post_init__(self) -> None:
        sets = ((0, None), (0, _far_apart), (0, _rising), (0, _near), (1, _far_apart), (2, _far_apart))
        first = Trial(self.kernel, seed=self.seed)
        others = [Trial(self.kernel, seed=self.seed + n, change=c, lowered=first.module) for n, c in sets[1:]]
        self.trials, self.module = [first, *others], first.module
        for trial in self.trials:
            report = trial.judge()
            assert report.ok, (self.family, report.faults)
        self.behaviour = [_behaviour(t) for t in self.trials]

    def mutants(self) -> Iterator[Mutant]:
        """Every mutant of the kernel."""
        yield from mutants(self.module)

    def judge(self, mutant: Mutant) -> Verdict:
        """Plants a mutant, looks, and takes it back."""
        text, place = one_line(mutant.op), describe(mutant.op)
        why = static_reason(mutant)
        verdict = EQUIVALENT if why else SURVIVED
        change = Change()
        try:
            mutant.plant(change)
            for trial in self.trials:
                if by := _noticed(trial.judge()):
                    verdict, why = KILLED, by
                    break
            if verdict == SURVIVED:
                why = reason(mutant, self.behaviour, [_behaviour(t) for t in self.trials])
                verdict = EQUIVALENT if why else SURVIVED
                if not why and not any(mutant.op in b.executed for b in self.behaviour):
                    why = "never executed"
        finally:
            change.undo()
        return Verdict(self.family, "device IR", mutant.operator, mutant.variant, text, place, verdict, why)

    # The text

    @cached_property
    def text(self) -> str:
        """The kernel's HIP text."""
        return print_hip(self.module, arch_of(self.module)[0])

    def judge_text(self, mutant: TextMutant) -> Verdict:
        """Runs a changed text on the CPU: killed where a check of this level notices it, equivalent where the results
        are the same bit by bit for all inputs."""
        results: list[bytes] = []
        verdict, why = SURVIVED, ""
        for trial in self.trials:
            report = trial.judge(Level.HOST, lambda _: mutant.text)
            if by := _noticed(report):
                verdict, why = KILLED, by
                break
            results.append(_bits(report, Level.HOST))
        if verdict == SURVIVED and results == self._text_results:
            verdict, why = EQUIVALENT, SAME_BITS
        lines = self.text.splitlines()
        line, place = lines[mutant.line - 1].strip(), f"{self.family}.hip:{mutant.line}"
        return Verdict(self.family, "HIP text", mutant.operator, mutant.variant, line, place, verdict, why)

    @cached_property
    def _text_results(self) -> list[bytes]:
        return [_bits(trial.judge(Level.HOST), Level.HOST) for trial in self.trials]


def _behaviour(trial: Trial) -> Behaviour:
    seen = Behaviour()
    seen.results = _bits(trial.watch(seen.wrap), Level.DEVICE)
    return seen


def _noticed(report: Report) -> str:
    """The kind of fault that a report shows; empty when all is well."""
    if report.ok:
        return ""
    return str(report.faults[0]["kind"]) if report.faults else "wrong-result"


def _queries(entry: Entry, inputs: Inputs) -> int:
    """The number of the argument that Q is."""
    return next(a.index for a in entry.arguments if a.index in inputs.arrays and is_float(a.dtype))


def _scale(entry: Entry, inputs: Inputs, factors: Sequence[float]) -> None:
    """Multiplies Q, eight elements by each factor in turn."""
    first = _queries(entry, inputs)
    flat = inputs.arrays[first]
    by = np.resize(np.repeat(np.array(factors, np.float32), 8), len(flat))
    inputs.arrays[first] = np.clip(flat.astype(np.float32) * by, -_LARGEST, _LARGEST).astype(flat.dtype)


def _far_apart(entry: Entry, inputs: Inputs, attentions: Sequence[Attention]) -> None:
    _scale(entry, inputs, (300.0, 1.0, 40.0, 1.0))


def _near(entry: Entry, inputs: Inputs, attentions: Sequence[Attention]) -> None:
    _scale(entry, inputs, (2.0**-8,))


def _rising(entry: Entry, inputs: Inputs, attentions: Sequence[Attention]) -> None:
    """All rows of Q are one vector, and so are those of K but for their size: the first half of the keys that count
    scores 0; of the second half a few score so much that sums are scaled down, and not to nothing."""
    first = _queries(entry, inputs)
    for attention in attentions:
        cells, channels = attention.k, attention.problem.k.shape[2]
        if cells is None:
            _scale(entry, inputs, (12.0, 1.0, 5.0, 1.0))
            continue
        signs = np.where(np.arange(channels) % 3 == 0, -1.0, 1.0)
        live = attention.live_keys()
        number = np.cumsum(live, axis=1) - 1
        late = number >= live.sum(1, keepdims=True) // 2
        score = np.where(late, np.where(number % _RARE == 0, _RISE, -_RISE), 0.0)
        there = cells.position >= 0
        data = inputs.pages[cells.argument].data.reshape(-1)
        values = np.broadcast_to(score[..., None] * signs / channels, cells.position.shape)
        data[cells.position[there]] = values[there].astype(data.dtype)
        inputs.arrays[first][:] = np.resize(signs, len(inputs.arrays[first])).astype(inputs.arrays[first].dtype)


def _bits(report: Report, level: Level) -> bytes:
    return b"".join(output.values.tobytes() for output in report.levels[level.value].outputs)


def sample(every: Sequence[Made], count: int | None, seed: int) -> list[Made]:
    """All mutants, or `count` of them: of each operator in turn, so that no kind of mistake is left out."""
    if count is None or count >= len(every):
        return list(every)
    rng = np.random.default_rng(seed)
    by_operator: dict[str, list[Made]] = {}
    for mutant in every:
        by_operator.setdefault(mutant.operator, []).append(mutant)
    for some in by_operator.values():
        rng.shuffle(some)  # pyright: ignore[reportArgumentType]
    chosen: list[Made] = []
    while len(chosen) < count:
        for some in by_operator.values():
            if some and len(chosen) < count:
                chosen.append(some.pop())
    return chosen
