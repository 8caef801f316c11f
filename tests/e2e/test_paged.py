"""Paged attention from the command line to the text that is emitted: generated, executed at every level, checked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from xpaged.cli.shell import DONE

Cli = Any

SIZES = "-seq_len_q 3 -seq_len_k 40 -head_dim_qk 16 -head_dim_v 16 -groupsize 2 -num_heads_q 4 -num_heads_kv 2"
PAGES = "--paged-attention --num-pages 20 --page-size 64 -current_seq_len=37,9"
CONFIG = "attn:v3:{keys},{keys},{rows},32,32,32,16,1,1,{schedule},2,0,1"


def config(keys: int = 32, rows: int = 16, schedule: int = 1) -> str:
    return f"--perf_config {CONFIG.format(keys=keys, rows=rows, schedule=schedule)}"


CASES: dict[str, tuple[str, str]] = {
    "f32": ("-t f32 --arch gfx90a", ""),
    "f16": ("-t f16 --arch gfx942", ""),
    "bf16": ("-t bf16 --arch gfx942", ""),
    "i8": ("-t i8 --arch gfx942", ""),
    "schedule 1": (f"-t f16 --arch gfx942 {config(schedule=1)}", ""),
    "schedule 2": (f"-t f16 --arch gfx942 {config(schedule=2)}", ""),
    "direct to LDS": (f"-t f16 --arch gfx90a {config(schedule=3)}", "schedule version 3 (DirectToLDSDefault)"),
    "direct to LDS, double buffer": (
        f"-t f16 --arch gfx942 {config(schedule=4)}",
        "schedule version 4 (DirectToLDSDoubleBuffer)",
    ),
    "schedule by its option": ("-t f16 --arch gfx942 --schedule_version 3", "schedule version 3"),
    "48 keys of a tile": (f"-t f16 --arch gfx942 {config(keys=48)}", ""),
    "48 query rows of a tile": (f"-t bf16 --arch gfx942 {config(keys=48, rows=48, schedule=2)}", ""),
    "tiles of f32": (f"-t f32 --arch gfx90a {config(keys=48, schedule=2)}", ""),
    "masks, a bias, the log-sum-exp": (
        "-t f16 --arch gfx942 -causal -prefix_offset=34,6 -sliding_window_size 20 --with-attn-bias -return_lse",
        "",
    ),
}


@pytest.mark.parametrize(("options", "note"), CASES.values(), ids=CASES.keys())
def test_every_level_agrees(cli: Cli, options: str, note: str) -> None:
    text = cli("gen", *SIZES.split(), *PAGES.split(), *options.split()).out
    ended = cli("run", "-", "--level", "all", "--check", "--json", stdin=text)
    report = json.loads(ended.out)
    assert ended.status == DONE, report
    assert report["ok"] is True
    assert list(report["levels"])[:4] == ["rock-memref", "gridwise", "tile", "device"]
    assert all(output["max_error"] <= output["bound"] for e in report["levels"].values() for output in e["outputs"])
    assert (note == "") == (report["notes"] == [])
    assert note in "\n".join(report["notes"])


def test_schedules_are_different_programs(cli: Cli) -> None:
    def kernel(schedule: int) -> str:
        options = f"-seq_len_q 1 -seq_len_k 512 -head_dim_qk 32 -head_dim_v 32 -t f16 {config(schedule=schedule)}"
        text = cli("gen", *options.split()).out
        return cli("opt", "-", "-p", "affix-tuning-params,gemm-to-gridwise,gridwise-to-tile", stdin=text).out

    kernels = {schedule: kernel(schedule) for schedule in (1, 2, 3, 4)}
    assert kernels[1] == kernels[3] != ""
    assert kernels[2] == kernels[4] != kernels[1]
