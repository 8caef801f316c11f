"""Verdicts on the mutants of many kernels, and their table."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from xpaged.codegen.host import unable
from xpaged.testing.mutants import operators, text
from xpaged.testing.mutants.families import kernel
from xpaged.testing.mutants.judge import EQUIVALENT, KILLED, SURVIVED, Bench, Verdict, sample

DEVICE, TEXT = "device IR", "HIP text"


@dataclass(frozen=True)
class Family:
    """What became of the mutants of one kernel: `made` is how many there are, at each level."""

    name: str
    made: dict[str, int]
    verdicts: list[Verdict]
    seconds: float


def judged(name: str, count: int | None, texts: int, seed: int) -> Family:
    """Judges all mutants, or `count`, of a family's device IR, and `texts` of its HIP text."""
    started = time.perf_counter()
    bench = Bench(name, kernel(name), seed)
    every = list(bench.mutants())
    verdicts = [bench.judge(mutant) for mutant in sample(every, count, seed)]
    made = {DEVICE: len(every)}
    if texts:
        changed = list(text.mutants(bench.text))
        made[TEXT] = len(changed)
        verdicts += [bench.judge_text(mutant) for mutant in sample(changed, texts, seed)]
    return Family(name, made, verdicts, time.perf_counter() - started)


def collect(
    families: Sequence[str],
    count: int | None,
    texts: int,
    seed: int,
    jobs: int = 1,
    say: Callable[[Family], None] | None = None,
) -> list[Family]:
    """Judges the mutants of families, `jobs` at a time; `say` is told of each family that is done."""
    if texts and unable() is not None:
        texts = 0
    judge = partial(judged, count=count, texts=texts, seed=seed)
    found: list[Family] = []
    if jobs == 1:
        results = map(judge, families)
    else:
        pool = ProcessPoolExecutor(jobs)
        results = pool.map(judge, families)
    for family in results:
        if say is not None:
            say(family)
        found.append(family)
    return found


def progress(family: Family) -> None:
    """One line on the standard error."""
    counts = Counter(v.verdict for v in family.verdicts)
    line = f"{family.name}: {counts[KILLED]} of {len(family.verdicts)} killed, {counts[SURVIVED]} survived"
    print(f"{line}, {counts[EQUIVALENT]} equivalent, {family.seconds:.0f} s", file=sys.stderr, flush=True)


def as_json(families: Sequence[Family]) -> str:
    """Everything, as one object."""
    return json.dumps(
        {
            "families": [
                {
                    "name": f.name,
                    "made": f.made,
                    "seconds": f.seconds,
                    "verdicts": [v.as_json() for v in f.verdicts],
                }
                for f in families
            ]
        }
    )


def as_markdown(families: Sequence[Family]) -> str:
    """Tables of families by operators (killed of those that are not equivalent), then survivors and reasons."""
    lines: list[str] = []
    for level, names in ((DEVICE, operators.OPERATORS), (TEXT, {"barrier": None, **text.OPERATORS})):
        if any(v.level == level for f in families for v in f.verdicts):
            lines += [*_table(families, level, list(names)), ""]
    return "\n".join([*lines, *_reasons(families), *_survivors(families)]).rstrip() + "\n"


def _table(families: Sequence[Family], level: str, names: Sequence[str]) -> list[str]:
    used = [n for n in names if any(v.operator == n and v.level == level for f in families for v in f.verdicts)]
    lines = [f"| {level} | {' | '.join(used)} | all |", "|---|" + "---|" * (len(used) + 1)]
    for family in families:
        of = [v for v in family.verdicts if v.level == level]
        cells = [_cell([v for v in of if v.operator == name]) for name in used]
        lines.append(f"| {family.name} | {' | '.join(cells)} | {_cell(of)} |")
    return lines


def _cell(verdicts: Sequence[Verdict]) -> str:
    counts = Counter(v.verdict for v in verdicts)
    total = counts[KILLED] + counts[SURVIVED]
    return f"{counts[KILLED]}/{total}" if total else "-"


def _reasons(families: Sequence[Family]) -> list[str]:
    reasons = Counter(v.why for f in families for v in f.verdicts if v.verdict == EQUIVALENT)
    if not reasons:
        return []
    lines = ["Mutants that are no mistakes are not counted:", ""]
    return [*lines, *(f"- {count}: {why}." for why, count in reasons.most_common()), ""]


def _survivors(families: Sequence[Family]) -> list[str]:
    survivors = [v for f in families for v in f.verdicts if v.verdict == SURVIVED]
    if not survivors:
        return ["No mutant survived."]
    lines = ["Survivors:", ""]
    return [*lines, *(f"- {v.family}, {v.level}: {v.operator}, {v.variant}: `{v.op}`" for v in survivors)]
