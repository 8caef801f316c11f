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
from xpaged.interpreter.run import Report, Trial
from xpaged.ir.levels import Level
from xpaged.ir.locations import describe
from xpaged.ir.printing import one_line
from xpaged.testing.mutants.changes import Change
from xpaged.testing.mutants.equivalent import Behaviour, reason, static_reason
from xpaged.testing.mutants.operators import Mutant, mutants
from xpaged.testing.mutants.text import TextMutant

_LARGEST = 6e4  # a float16
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
    """One kernel with three sets of inputs: ordinary ones; scores so far apart that exponentials overflow or vanish
    where a maximum is wrong; and scores so near to 0 that every key weighs the same, also one that should not count."""

    family: str
    kernel: ModuleOp
    seed: int = 0
    trials: list[Trial] = field(init=False)
    behaviour: list[Behaviour] = field(init=False)

    def __post_init__(self) -> None:
        self.trials = [Trial(self.kernel, seed=self.seed, change=change) for change in (None, _far_apart, _near)]
        self.module = self.trials[0].module
        for trial in self.trials:
            trial.module = self.module
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
        verdict, why = EQUIVALENT, SAME_BITS
        for number, trial in enumerate(self.trials):
            report = trial.judge(Level.HOST, lambda _: mutant.text)
            if by := _noticed(report):
                verdict, why = KILLED, by
                break
            if _bits(report) != self._text_results[number]:
                verdict, why = SURVIVED, ""
        lines = self.text.splitlines()
        line, place = lines[mutant.line - 1].strip(), f"{self.family}.hip:{mutant.line}"
        return Verdict(self.family, "HIP text", mutant.operator, mutant.variant, line, place, verdict, why)

    @cached_property
    def _text_results(self) -> list[bytes]:
        return [_bits(trial.judge(Level.HOST)) for trial in self.trials]


def _behaviour(trial: Trial) -> Behaviour:
    seen = Behaviour()
    trial.watch(seen.wrap)
    return seen


def _noticed(report: Report) -> str:
    """The kind of fault that a report shows; empty when all is well."""
    if report.ok:
        return ""
    return str(report.faults[0]["kind"]) if report.faults else "wrong-result"


def _scale(entry: Entry, inputs: Inputs, factors: Sequence[float]) -> None:
    """Multiplies Q, eight elements by each factor in turn."""
    (first, *_) = [a for a in entry.arguments if a.index in inputs.arrays and is_float(a.dtype)]
    flat = inputs.arrays[first.index]
    by = np.resize(np.repeat(np.array(factors, np.float32), 8), len(flat))
    inputs.arrays[first.index] = np.clip(flat.astype(np.float32) * by, -_LARGEST, _LARGEST).astype(flat.dtype)


def _far_apart(entry: Entry, inputs: Inputs) -> None:
    _scale(entry, inputs, (300.0, 1.0, 40.0, 1.0))


def _near(entry: Entry, inputs: Inputs) -> None:
    _scale(entry, inputs, (2.0**-8,))


def _bits(report: Report) -> bytes:
    return b"".join(output.values.tobytes() for output in report.levels[Level.HOST.value].outputs)


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
