"""How fast the interpreter is, as ratios within one run: `python benchmarks/interpreter.py`.

- the rock level against the same mathematics in plain NumPy float32, 4 heads x 1024 x 1024 x 64;
- the device level in lane-operations (one IR operation for one lane) a second, at 4096 lanes;
- the time of 8 workgroups against that of 4;
- the 1024 x 1024 x 32 kernel, all workgroups.

Each figure is the best of several runs on one core, in seconds of the CPU, so that other programs on the machine count
as little as they can; the exit status is 1 when one misses its bar.
"""

import os
import sys
import time
from collections.abc import Callable

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when NumPy is imported: one core means one core

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import xpaged
from xpaged.interpreter.run import LevelReport, run
from xpaged.ir.levels import Level
from xpaged.passes.pipelines import lower


def best(measure: Callable[[], float], runs: int = 5) -> float:
    """The smallest of several measurements, in seconds."""
    return min(measure() for _ in range(runs))


def plain(heads: int, rows: int, keys: int, channels: int) -> float:
    """Seconds that attention takes in plain NumPy float32."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((heads, n, channels), np.float32) for n in (rows, keys, keys))
    started = time.process_time()
    s = q @ k.swapaxes(1, 2)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    out = (p @ v) / p.sum(axis=-1, keepdims=True)
    seconds = time.process_time() - started
    assert np.isfinite(out).all()
    return seconds


def level(module: ModuleOp, name: str, blocks: int | None = None, runs: int = 10) -> LevelReport:
    """The fastest of several runs at one level."""
    reports = [run(module, level=name, seed=0, blocks=blocks) for _ in range(runs)]
    assert all(r.ok for r in reports)
    return min((r.levels[name] for r in reports), key=lambda r: r.cpu_seconds)


def main() -> int:
    """Prints the figures."""
    failed = False

    def line(what: str, value: float, unit: str, bar: float, more: bool) -> None:
        nonlocal failed
        good = value >= bar if more else value <= bar
        failed |= not good
        print(f"{what:58} {value:9.2f} {unit:22} bar {'>=' if more else '<='} {bar:g}{'' if good else '   MISSED'}")

    shape = (4, 1024, 1024, 64)
    module = xpaged.attention(heads_q=4, seq_q=1024, seq_k=1024, dim_qk=64, page_size=8192)
    numpy_seconds = best(lambda: plain(*shape))
    rock = level(module, "rock-memref").cpu_seconds
    line("rock level / plain NumPy float32, 4 x 1024 x 1024 x 64", rock / numpy_seconds, "times", 2, False)

    def kernel(to: Level) -> ModuleOp:
        return lower(xpaged.attention(seq_q=1024, seq_k=1024, dim_qk=32, page_size=1024), to)

    device = kernel(Level.DEVICE)
    whole = level(device, "device")
    line("device level, 4096 lanes", whole.lane_ops / whole.cpu_seconds / 1e6, "M lane-operations/s", 150, True)
    pairs = [
        [level(device, "device", n, 1).cpu_seconds for n in (4, 8)] for _ in range(20)
    ]  # in turns: the load is shared
    four, eight = (min(column) for column in zip(*pairs, strict=True))
    line("device level, 8 workgroups / 4 workgroups", eight / four, "times", 1.6, False)
    line("device level, 1024 x 1024 x 32, all workgroups", whole.cpu_seconds, "s", 4, False)
    tile = level(kernel(Level.TILE), "tile").cpu_seconds
    print(f"{'tile level, 1024 x 1024 x 32, all workgroups':58} {tile:9.2f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
