"""`python -m benchmarks.bars`: its exit status and its two outputs; the rows themselves are tested with the card."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks import bars
from benchmarks.bars import Row
from xpaged.errors import XpagedError

ROW = Row(
    *("gfx942", "f16", "decode", "clocks a KB of K/V", "", {16: 38.75, 128: None}, "<= 45"),
    met=True,
    triton=208.0,
    ratio=5.17,
    by_hand=27.2,
)


def _measures(monkeypatch: pytest.MonkeyPatch, *rows: Row) -> None:
    def measure(archs: Sequence[str], dtypes: Sequence[str], toolchain: str) -> tuple[list[Row], list[str]]:
        return list(rows), [f"{archs[0]}: {toolchain}"]

    monkeypatch.setattr(bars, "measure", measure)


def test_every_bar_met_is_status_0(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _measures(monkeypatch, ROW)
    assert bars.main([]) == 0
    text = capsys.readouterr().out
    assert "decode, gfx942, f16" in text
    assert next(line.split() for line in text.splitlines() if "clocks a KB" in line)[-8:] == (
        ["38.75", "-", "<=", "45", "ok", "208", "5.17", "27.2"]
    )
    assert "1 of 1 bars are met" in text


def test_a_missed_bar_is_status_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _measures(monkeypatch, ROW, replace(ROW, met=False))
    assert bars.main(["--json", "--arch", "gfx942", "--toolchain", "bundled"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["ok"], data["compilers"]) == (False, ["gfx942: bundled"])
    assert [row["met"] for row in data["rows"]] == [True, False]
    assert "Triton 3.x tutorial-style kernel" in data["sources"]["triton"]


@pytest.mark.parametrize("argv", [["--arch", "gfx1100"], ["--dtype", "f64"], ["--toolchain", "gcc"]])
def test_what_has_no_bars_is_a_usage_error(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        bars.main(argv)
    assert stop.value.code == 2
    assert "gfx1100" not in argv or "there are some for gfx942, gfx90a" in capsys.readouterr().err


def test_a_refusal_is_a_message(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(archs: Sequence[str], dtypes: Sequence[str], toolchain: str) -> tuple[list[Row], list[str]]:
        raise XpagedError("no compiler is left")

    monkeypatch.setattr(bars, "measure", refuse)
    assert bars.main([]) == 1
    assert "no compiler is left" in capsys.readouterr().err
