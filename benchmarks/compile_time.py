"""How long a compilation takes: text in to HIP text out in a warm process, and the whole command in a cold one.

    python benchmarks/compile_time.py [FILE ...] [--arch gfx942] [--repeat 5] [--check]

Without FILE the decode example is measured.  Every figure is a median: wall time, and the CPU time of this process and
its children, which says more when the machine has other work.  The ratio is wall time over its bar, so that 1.0 or
less is good; `--check` ends with status 1 when a bar is missed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import NamedTuple

from xpaged.driver import compile
from xpaged.ir.parsing import parse

GENERATION_SECONDS = 0.3
PROCESS_SECONDS = 2.0
_COMMAND = (sys.executable, "-m", "xpaged.cli.main")


class Seconds(NamedTuple):
    """How long something took."""

    wall: float
    cpu: float


def seconds(action: Callable[[], object], repeat: int) -> Seconds:
    """Median times of `action`."""
    times: list[Seconds] = []
    for _ in range(repeat):
        start, before = time.perf_counter(), sum(os.times()[:4])
        action()
        times.append(Seconds(time.perf_counter() - start, sum(os.times()[:4]) - before))
    return Seconds(median(each.wall for each in times), median(each.cpu for each in times))


def process(*command: str) -> None:
    """Run a program to its end; its failure is ours."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def measure(path: Path, arch: str, repeat: int) -> list[tuple[str, Seconds, float | None]]:
    """Rows of what was done, its times and its bar (None: shown for comparison only)."""
    text = path.read_text()
    compile(parse(text), arch, emit=["hip", "object"], toolchain="bundled")  # everything is imported and read once
    kernel = compile(parse(text), arch, emit=["hip"])
    with tempfile.TemporaryDirectory() as folder:
        command = (*_COMMAND, "compile", str(path), "--arch", arch, "--toolchain", "bundled", "-o", folder)
        return [
            ("warm: parse", seconds(lambda: parse(text), repeat), None),
            (
                f"warm: MLIR text to HIP text ({len(kernel.hip or '')} characters)",
                seconds(lambda: compile(parse(text), arch, emit=["hip"]), repeat),
                GENERATION_SECONDS,
            ),
            (
                "warm: MLIR text to a checked object",
                seconds(lambda: compile(parse(text), arch, toolchain="bundled"), repeat),
                None,
            ),
            ("cold: python alone", seconds(lambda: process(sys.executable, "-c", "pass"), repeat), None),
            ("cold: xpaged compile --toolchain bundled", seconds(lambda: process(*command), repeat), PROCESS_SECONDS),
        ]


def main(argv: Sequence[str] | None = None) -> int:
    """Print one table a file; returns the exit status."""
    parser = argparse.ArgumentParser(description="How long a compilation takes.")
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="end with status 1 when a bar is missed")
    args = parser.parse_args(argv)
    missed = False
    for path in args.files or [Path(str(files("xpaged.examples") / "decode.mlir"))]:
        print(f"{path.name}, {args.arch}, median of {args.repeat}")
        for what, took, bar in measure(path, args.arch, args.repeat):
            against = "" if bar is None else f"{took.wall / bar:6.2f}x of {bar:.1f} s"
            missed |= bar is not None and took.wall > bar
            print(f"  {what:54} {took.wall * 1000:7.0f} ms  {took.cpu * 1000:7.0f} ms CPU {against}")
    return 1 if args.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
