"""Tuning strings: every version, every schedule, and what is refused."""

from __future__ import annotations

import pytest

from xpaged.errors import XpagedError
from xpaged.lowering.perf_config import DEFAULT, SCHEDULES, PerfConfig


@pytest.mark.parametrize(
    ("text", "keys", "rows", "schedule", "stages"),
    [
        (DEFAULT, 32, 32, 1, 1),
        ("attn:v3:48,64,16,32,32,32,16,1,1,2,2,0,1", 48, 16, 2, 2),
        ("attn:v3:48,64,16,32,32,32,16,1,1,2,2,1", 48, 16, 2, 2),  # no wavesPerEU
        ("attn:v2:64,16,128,8,16,16,8,1,4,2,1", 64, 128, 4, 2),
        ("attn:v1:128,128,16,8,32,64,8,1", 128, 16, 1, None),
    ],
)
def test_what_a_string_says(text: str, keys: int, rows: int, schedule: int, stages: int | None) -> None:
    config = PerfConfig.parse(text)
    assert (config.keys, config.rows, config.schedule_version, config.stages) == (keys, rows, schedule, stages)
    assert config.text == text


def test_every_schedule_of_rocmlir_has_an_entry() -> None:
    assert {number: schedule.name for number, schedule in SCHEDULES.items()} == {
        1: "Default",
        2: "DoubleBuffer",
        3: "DirectToLDSDefault",
        4: "DirectToLDSDoubleBuffer",
    }
    for number, schedule in SCHEDULES.items():
        config = PerfConfig.parse(DEFAULT).with_schedule(number)
        note = config.note()
        assert (note is None) == (schedule.instead is None)
        assert note is None or f"schedule version {number} ({schedule.name})" in note


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("attn:v1:32,32,32,32,32,32,16,1,1", "malformed perf_config"),
        ("attn:v3:٣,32,32,32,32,32,16,1,1,1,2,0,1", "whole numbers"),
        ("attn:v3:32,0,32,32,32,32,16,1,1,1,2,0,1", "the first three at least 1"),
        ("attn:v3:32,32,32,32,32,32,16,1,3,1,2,0,1", "splitKFactor = 3"),
        ("attn:v3:32,32,32,32,32,32,16,1,1,0,2,0,1", "unknown schedule version"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(XpagedError) as refusal:
        PerfConfig.parse(text)
    assert message in refusal.value.render()
