"""The mutation runner: mutants are planted and taken back, judged rightly, and a sample of them is killed."""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith, scf
from xdsl.ir import Operation

import xpaged
from benchmarks import evidence
from xpaged.codegen.host import unable
from xpaged.dialects import hip
from xpaged.ir.printing import print_module
from xpaged.ir.verify import verify
from xpaged.testing.mutants import __main__ as command
from xpaged.testing.mutants import equivalent, report, text
from xpaged.testing.mutants.changes import Change
from xpaged.testing.mutants.families import FAMILIES
from xpaged.testing.mutants.judge import EQUIVALENT, KILLED, SURVIVED, Bench, Verdict, sample
from xpaged.testing.mutants.operators import OPERATORS, Mutant, mutants

FAMILY = "decode, GQA, LSE"
SAMPLE, TEXTS = 24, 2
SMALL: dict[str, Any] = {
    **{"batch": 2, "heads_q": 2, "heads_kv": 1, "seq_q": 2, "seq_k": 190, "dim_qk": 16, "page_size": 80},
    **{"kv_index": [187, 70], "causal": True, "prefix_offset": [186, 70], "lse": True},
}


@cache
def bench() -> Bench:
    """A kernel of one trip or two, with several waves that are joined through LDS."""
    return Bench(FAMILY, xpaged.attention(**SMALL))


def test_every_mutant_is_valid_ir_and_is_taken_back() -> None:
    module = bench().module
    before = print_module(module)
    made: Counter[str] = Counter()
    for mutant in sample(list(mutants(module)), 60, 0):
        change = Change()
        mutant.plant(change)
        verify(module)
        assert print_module(module) != before, mutant
        change.undo()
        made[mutant.operator] += 1
    assert print_module(module) == before
    assert set(made) == set(OPERATORS) - {"wait"}  # no kernel has one yet


def test_a_sample_has_mutants_of_every_operator() -> None:
    every = list(mutants(bench().module))
    some = sample(every, SAMPLE, 0)
    assert {m.operator for m in some} == {m.operator for m in every}
    assert len(set(map(id, some))) == SAMPLE
    assert sample(every, SAMPLE, 0) == some
    assert sample(every, SAMPLE, 1) != some
    assert sample(every, None, 0) == every


def test_mutants_are_killed() -> None:
    verdicts = [bench().judge(m) for m in sample(list(bench().mutants()), SAMPLE, 0)]
    counts = Counter(v.verdict for v in verdicts)
    assert [v for v in verdicts if v.verdict == SURVIVED] == []
    assert counts[KILLED] > 0.7 * SAMPLE


def test_every_barrier_is_needed() -> None:
    barriers = [m for m in bench().mutants() if m.operator == "barrier"]
    verdicts = [bench().judge(m) for m in barriers]
    assert barriers
    assert {(v.verdict, v.why) for v in verdicts} == {(KILLED, "race")}


@pytest.mark.skipif(unable() is not None, reason="the text cannot be run here")
def test_mutants_of_the_text_are_killed() -> None:
    some = sample(list(text.mutants(bench().text)), TEXTS, 0)
    verdicts = [bench().judge_text(m) for m in some]
    assert [v for v in verdicts if v.verdict == SURVIVED] == []
    assert any(v.verdict == KILLED for v in verdicts)


def test_mutants_of_a_text() -> None:
    body = "int lane = a % 64u;\n  s = x <= upper ? s : NEG_INF;\n  barrier();\n  t = mma(a, b, s) * 1.5f;\n}\n"
    made = list(text.mutants(f'float f(1 + 2);\nextern "C" void k(int n) {{\n  {body}'))
    found = {(m.operator, m.line, m.variant) for m in made}
    assert {line for _, line, _ in found} == {3, 4, 5, 6}
    for expected in (
        ("number", 3, "+1"),
        ("arithmetic", 3, "/"),
        ("select", 4, "always the first"),
        ("comparison", 4, "<"),
        ("barrier", 5, "dropped"),
        ("barrier", 5, "one line later"),
        ("operands", 6, "swapped"),
        ("scale", 6, "* 1.25"),
    ):
        assert expected in found
    assert next(m for m in made if m[:3] == ("operands", 6, "swapped")).text.count("mma(b, a, s)") == 1


# ---- reasons


def of(kind: type[Operation], operator: str, variant: str) -> list[Mutant]:
    return [m for m in bench().mutants() if isinstance(m.op, kind) and (m.operator, m.variant) == (operator, variant)]


def test_more_trips_over_masked_tiles_are_no_mistake() -> None:
    loop = next(m for m in of(scf.ForOp, "loop", "one trip more") if hip.UNROLL not in m.op.attributes)
    unrolled = next(m for m in of(scf.ForOp, "loop", "one trip more") if hip.UNROLL in m.op.attributes)

    def reason(mutant: Mutant, trips: list[int]) -> str:
        before, after = equivalent.Behaviour(), equivalent.Behaviour()
        before.trips[mutant.op], after.trips[mutant.op] = [np.array([1, 2])], [np.array(trips)]
        after.results = b"other bits, within their bounds"
        before.note(None, np.zeros(1))
        return equivalent.reason(mutant, [before], [after])

    assert reason(loop, [1, 3]) == equivalent.MORE_TRIPS
    assert reason(loop, [1, 1]) == ""
    assert reason(unrolled, [1, 3]) == ""


def test_a_narrow_integer_that_fits_is_no_mistake() -> None:
    verdicts = [bench().judge(m) for m in of(arith.DivUIOp, "integer width", "through i8")[:3]]
    assert {(v.verdict, v.why) for v in verdicts} == {(EQUIVALENT, equivalent.SAME)}


def test_the_order_of_a_sum_is_no_mistake() -> None:
    orders = [m for m in of(hip.VectorOp, "operands", "swapped") if equivalent.static_reason(m) == equivalent.ORDER]
    assert orders
    assert bench().judge(orders[0]).why == equivalent.ORDER


# ---- the command and the table


def verdict(family: str, operator: str, what: str, why: str = "", level: str = report.DEVICE) -> Verdict:
    return Verdict(family, level, operator, "dropped", "hip.barrier", "k.mlir:1:2", what, why)


def test_the_table() -> None:
    verdicts = [
        verdict("a", "barrier", KILLED, "race"),
        verdict("a", "barrier", SURVIVED),
        verdict("a", "mask", EQUIVALENT, "it reads more"),
        verdict("a", "number", KILLED, "wrong-result", report.TEXT),
    ]
    table = report.as_markdown([report.Family("a", {report.DEVICE: 9}, verdicts, 1.0)])
    assert table == (
        "| device IR | barrier | mask | all |\n|---|---|---|---|\n| a | 1/2 | - | 1/2 |\n\n"
        "| HIP text | number | all |\n|---|---|---|\n| a | 1/1 | 1/1 |\n\n"
        "Mutants that are no mistakes are not counted:\n\n- 1: it reads more.\n\n"
        "Survivors:\n\n- a, device IR: barrier, dropped: `hip.barrier`\n"
    )


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(report, "Bench", lambda *_: bench())
    assert command.main(["--family", FAMILY, "--sample", "5", "--seed", "3", "--json"]) == 0
    captured = capsys.readouterr()
    (family,) = json.loads(captured.out)["families"]
    assert family["name"] == FAMILY
    assert len(family["verdicts"]) == 5
    assert {"verdict", "why", "operator", "variant", "op", "location", "level", "family"} == set(family["verdicts"][0])
    assert captured.err.startswith(f"{FAMILY}: ")
    with pytest.raises(SystemExit):
        command.main(["--sample", "0"])


def test_a_survivor_is_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    survived = report.Family("a", {}, [verdict("a", "mask", SURVIVED)], 0.0)

    def collect(*_: object, **__: object) -> list[report.Family]:
        return [survived]

    monkeypatch.setattr(report, "collect", collect)
    assert command.main([]) == 1
    assert "Survivors:" in capsys.readouterr().out


def test_the_table_is_put_between_its_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    family = report.Family("a", {report.DEVICE: 9}, [verdict("a", "barrier", KILLED, "race")], 1.0)
    monkeypatch.setattr(report, "collect", lambda *_, **__: [family])
    file = tmp_path / "page.md"
    file.write_text(f"before\n{evidence.BEGIN}\nold\n{evidence.END}\nafter\n")
    assert evidence.main(["--write", str(file)]) == 0
    text = file.read_text()
    assert text.startswith(f"before\n{evidence.BEGIN}\n\n1 of 9 mutants")
    assert "| a | 1/1 | 1/1 |" in text
    assert "old" not in text
    assert text.endswith(f"{evidence.END}\nafter\n")
    file.write_text(evidence.END + evidence.BEGIN)
    assert evidence.main(["--write", str(file)]) == 1
    assert "no place for the table" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_mutants_of_every_family(family: str) -> None:
    judged = report.judged(family, 100, 10, 0)
    assert [v for v in judged.verdicts if v.verdict == SURVIVED] == []
