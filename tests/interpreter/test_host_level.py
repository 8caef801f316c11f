"""Level host: the emitted text on this machine's CPU, against the oracle and level device, and with faults planted."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.lowering.kernels import problem
from xpaged.arch.table import MatrixInstruction
from xpaged.codegen.host import build as host_build
from xpaged.codegen.host import unable
from xpaged.interpreter import host_level
from xpaged.interpreter.run import Report, run
from xpaged.ir.levels import Level
from xpaged.passes.pipelines import lower
from xpaged.sizes import AttentionProblem, build

pytestmark = pytest.mark.skipif(unable() is not None, reason="this machine cannot run kernels on its CPU")

DECODE = problem(seq_q=1, seq_k=260, heads_q=14, heads_kv=2, dim_qk=64, dtype="f16", page_size=640, kv_index=[150])
"""Tokens on pages of 10, rows that cross pages of both heads, most of the last pages dead."""

PROBLEMS: dict[str, AttentionProblem] = {
    "decode, grouped queries": DECODE,
    "prefill, causal, with LSE": problem(
        seq_q=70, seq_k=130, heads_q=2, dim_qk=64, dtype="f16", page_size=4160, causal=True, lse=True
    ),
    "f32, pages of part of a row": problem(seq_q=5, seq_k=33, heads_q=1, dim_qk=32, dtype="f32", page_size=24),
    "head sizes that are no multiple of 16": problem(
        seq_q=17, seq_k=65, heads_q=3, dim_qk=40, dim_v=24, dtype="f16", page_size=200, lse=True
    ),
    "two lengths, one of them none": problem(
        batch=2,
        seq_q=1,
        seq_k=64,
        heads_q=4,
        heads_kv=1,
        dim_qk=80,
        dtype="f16",
        page_size=1280,
        kv_index=[-1, 40],
        lse=True,
    ),
    "gfx90a": problem(seq_q=20, seq_k=40, heads_q=1, dim_qk=96, dtype="f16", page_size=480, arch="gfx90a"),
}


def checked(p: AttentionProblem, level: Level | str = Level.HOST, **options: Any) -> Report:
    return run(build(p), level=level, seed=1, check=True, **options)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_text_computes_what_level_device_computes(name: str) -> None:
    p = PROBLEMS[name]
    host, device = checked(p), checked(p, level=Level.DEVICE)
    assert host.ok, host.as_json()
    assert device.ok, device.as_json()
    for a, b in zip(host.levels["host"].outputs, device.levels["device"].outputs, strict=True):
        assert (a.name, a.number, a.values.dtype) == (b.name, b.number, b.values.dtype)
        assert a.written.all()
        assert a.bound is not None
        with np.errstate(invalid="ignore"):
            differ = a.values.astype(np.float64) - b.values.astype(np.float64)
        assert (np.abs(differ[a.values != b.values]) <= 2 * a.bound).all()


def test_chosen_workgroups_write_their_part() -> None:
    p = replace(PROBLEMS["prefill, causal, with LSE"], seq_q=300)
    host, device = checked(p, blocks=2), checked(p, blocks=2, level=Level.DEVICE)
    assert host.ok, host.as_json()
    for a, b in zip(host.levels["host"].outputs, device.levels["device"].outputs, strict=True):
        np.testing.assert_array_equal(a.written, b.written)
        assert 0 < a.written.sum() < a.written.size


def test_a_module_at_level_device_is_printed_and_run() -> None:
    module = lower(build(DECODE), Level.DEVICE)
    report = run(module, level="all", seed=1)
    assert list(report.levels) == ["device", "host"]
    assert report.ok


def test_a_base_address_is_kept_in_its_low_half() -> None:
    rng = np.random.default_rng(0)
    p = problem(seq_q=1, seq_k=32, heads_q=1, dim_qk=32, dtype="f16", page_size=128)
    arrays: dict[str, Any] = {"arg0": rng.standard_normal(32).astype(np.float16)}
    for i in (1, 2):
        arrays[f"arg{i}.pages"] = rng.standard_normal((8, 128)).astype(np.float16)
        arrays[f"arg{i}.base"] = np.array(0x1_FFFF_FE00 + 0x10_0000_0000 * i)
    report = checked(p, inputs=arrays)
    assert report.ok, report.as_json()


def test_all_without_a_compiler_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    p = problem(seq_q=1, seq_k=16, heads_q=1, dim_qk=32, dtype="f16", page_size=128)
    report = checked(p, level="all")
    assert report.ok
    assert "host" not in report.levels
    assert any("level host was left out: it takes x86-64 Linux" in note for note in report.notes)
    asked = checked(p)
    assert not asked.ok
    assert "cannot run on this machine's CPU" in asked.faults[0]["what"]


# ---- faults planted in the text


def mutated(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str], p: AttentionProblem = DECODE) -> Report:
    printed = host_level.print_hip

    def print_hip(*arguments: Any) -> str:
        text = printed(*arguments)
        mutant = change(text)
        assert mutant != text, "nothing was changed"
        return mutant

    monkeypatch.setattr(host_level, "print_hip", print_hip)
    return checked(p)


def nth(text: str, pattern: str, number: int, replacement: str) -> str:
    """`text` with the `number`-th place that matches `pattern` replaced."""
    found = list(re.finditer(pattern, text))[number]
    return text[: found.start()] + found.expand(replacement) + text[found.end() :]


CALL = r"(?m)^  barrier\(\);$"  # of the kernel itself
MUTANTS: dict[str, Callable[[str], str]] = {
    "the first barrier dropped": lambda text: nth(text, CALL, 0, ""),
    "the second barrier dropped": lambda text: nth(text, CALL, 1, ""),
    "a key too few": lambda text: re.sub(r"(key\w* [^;]*)<= last_key", r"\1< last_key", text),
    "a key too many, of V": lambda text: re.sub(r"(v_valid\[[^;]*)<= last_key", r"\1<= last_key + 1", text),
    "keys that are masked no more": lambda text: re.sub(r"\? (s\[i\]\[j\]) : NEG_INF", r"? \1 : \1", text),
    "a page further": lambda text: nth(text, r"lookup\(k_table, (\w+)", 0, r"lookup(k_table, \1 + 1"),
    "the wrong lane": lambda text: text.replace("lane ^ 32", "lane ^ 33"),
    "a row of the wrong query head": lambda text: re.sub(r"(const int col = lane % 16)u?;", r"\1 ^ 1;", text),
    "a store further": lambda text: re.sub(r"(store<\w+>\(out, [^;]*), (\w+\))", r"\1 + 16, \2", text),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_the_text_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    report = mutated(monkeypatch, MUTANTS[name])
    assert not report.ok, f"the mutant '{name}' survived"


def test_a_barrier_in_a_branch_is_reported_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    report = mutated(monkeypatch, lambda text: nth(text, CALL, 0, "  if (lane < 32) barrier();"))
    (fault,) = report.faults
    assert "a barrier is reached by only a part of a workgroup" in fault["what"]
    assert "if (lane < 32) barrier();" in fault["what"]
    assert re.fullmatch(r"\w+\.gfx942\.hip:\d+( \(\S+:\d+:\d+\))?", fault["location"])
    assert not report.levels["host"].ok


def test_what_depends_on_the_order_of_waves_lacks_a_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    race = "  LDS int last;\n  if (wave == 0) last = 7;\n  __builtin_amdgcn_wave_barrier();\n"
    store = r"(?m)^(.* store<f16x4>\(out, .*), (\w+)\);$"
    report = mutated(monkeypatch, lambda text: nth(text, store, 0, race + r"\1, \2 + f16(last));"))
    assert "depend on the order in which lanes and waves run" in report.faults[0]["what"]


def test_a_wrong_lane_map_of_a_matrix_instruction_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(self: MatrixInstruction, lane: int, register: int) -> tuple[int, int]:
        return self.registers * (lane // self.n) + (register ^ 1), lane % self.n

    lines = host_build.matrix_lines

    def wrong(instruction: MatrixInstruction, lanes: int) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setattr(MatrixInstruction, "result_place", swapped)
            return lines(instruction, lanes)

    monkeypatch.setattr(host_build, "matrix_lines", wrong)
    assert not checked(DECODE).ok


def test_a_read_over_the_end_of_a_page_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    report = mutated(monkeypatch, lambda text: nth(text, r"(load<f16x\d>\((\w*k\w*address), )", 2, r"\g<1>640 + "))
    (fault,) = report.faults
    assert "'k_table'" in fault["what"]
    assert fault["address"] is not None
