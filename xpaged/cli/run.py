"""`xpaged run`: execute an MLIR file on the CPU, level by level, and compare it with the float64 reference."""

import os
from argparse import RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpaged.cli.shell import DONE, REFUSED, command_parser, emit, emit_json, one_of
from xpaged.errors import XpagedError
from xpaged.files import read_text, write_files

if TYPE_CHECKING:
    from xpaged.interpreter.run import LevelReport, Report

INPUTS_HELP = """\
arrays of X.npz, i counting arguments from 0; an argument's name may stand for arg<i>:
  arg<i>         elements, in the argument's shape or flat in memory order; outputs are
                 left out
  arg<i>.pages   [entries, page size]: for a page table, the page of each entry
  arg<i>.place   optional, [entries] integers: the slot of the pool where each page lies
                 (default: shuffled); entries may share one
  arg<i>.mapped  optional, [entries] flags: false leaves a page unmapped
  arg<i>.base    optional, one integer: address of the pool of pages

max error: the largest difference from float64, of the bound for that level."""


def command(argv: Sequence[str]) -> int:
    """Run `xpaged run`; status 1 when an input is refused, a level has a fault, or a check fails."""
    from xpaged.ir.levels import Level

    levels = [level.value for level in Level]
    parser = command_parser("run", "Execute attention on the CPU at any level, and check every level against float64.")
    parser.formatter_class = RawDescriptionHelpFormatter
    parser.epilog = INPUTS_HELP
    option = parser.add_argument
    option("file", metavar="FILE", help="MLIR text of any level; - is the standard input")
    option("--arch", help="architecture that lower levels are made for (default: the module's own, else gfx942)")
    option(
        "--level",
        type=one_of(*levels, "all"),
        help=f"{', '.join(levels)}, or all from the file's own level down (default: all with --check, else the file's "
        "own level)",
    )
    data = parser.add_mutually_exclusive_group()
    data.add_argument("--inputs", metavar="X.npz", help="data by argument: see below")
    data.add_argument(
        "--random", metavar="SEED", type=int, help="random data, shuffled and poisoned pages (default: 0)"
    )
    option("--outputs", metavar="Y.npz", help="where <level>/out<i> of every level that ran are written")
    option("--blocks", metavar="N", type=int, help="run N workgroups of the lower levels, and compare only their rows")
    option("--check", action="store_true", help="compare every level with the float64 reference")
    option("--court", action="store_true", help="judge every access to memory at level device (with --check: always)")
    option("--stats", action="store_true", help="count bytes, memory lines, bank conflicts ... at level device")
    option("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    text, name = read_text(args.file)

    # Before NumPy is imported: many small products, which more threads than idle cores make ten times slower.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from xpaged.interpreter.run import run
    from xpaged.ir.parsing import parse

    module = parse(text, name)
    inputs = None if args.inputs is None else read_arrays(args.inputs)
    report = run(
        module,
        inputs,
        level=args.level or ("all" if args.check else None),
        seed=args.random,
        arch=args.arch,
        blocks=args.blocks,
        check=args.check,
        court=args.court or None,
        stats=args.stats,
    )
    if args.outputs is not None:
        write_files({Path(args.outputs): packed(report.arrays())})
    if args.json:
        emit_json(report.as_json())
    else:
        emit(summary(report, args.check))
    return DONE if report.ok else REFUSED


def read_arrays(path: str) -> dict[str, Any]:
    """The arrays of an `.npz` file by name. Raises XpagedError when it cannot be read as one."""
    from zipfile import BadZipFile
    from zlib import error as ZlibError

    import numpy as np

    try:
        with open(path, "rb") as stream:
            archive = np.load(stream, allow_pickle=False)
            if not isinstance(archive, Mapping):
                raise ValueError("it holds one array and no names")
            return {name: archive[name] for name in archive}
    except OSError as err:
        raise XpagedError(f"cannot read '{path}': {err.strerror or err}") from err
    except (ValueError, KeyError, EOFError, BadZipFile, ZlibError, NotImplementedError) as err:
        raise XpagedError(
            f"'{path}' is not a file of arrays", found=str(err), fix="write it with numpy.savez(path, arg0=..., ...)"
        ) from err


def packed(arrays: Mapping[str, Any]) -> bytes:
    """The bytes of an `.npz` file with these arrays."""
    import numpy as np

    stream = BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def summary(report: "Report", checked: bool) -> str:
    """The report for a terminal: a line for each output of each level, then faults and notes."""
    width = max((12, *(len(name) + 1 for name in report.levels)))
    lines = [line for name, level in report.levels.items() for line in _level_lines(name, width, level, checked)]
    for fault in report.faults:
        place = f"{fault['location']}: " if fault["location"] else ""
        often = f", {fault['count']} times" if fault.get("count", 1) > 1 else ""
        lines.append(f"{place}fault at level {fault['level']} ({fault['kind']}{often}): {fault['what']}")
        if fault["op"]:
            lines.append(f"  in: {fault['op']}")
        if fault["address"]:
            lines.append(f"  address: {fault['address']}")
    lines += [f"note: {note}" for note in report.notes]
    return "\n".join([*lines, "ok" if report.ok else "failed", ""])


def _level_lines(name: str, width: int, level: "LevelReport", checked: bool) -> list[str]:
    head = f"{name:{width}}{'ok' if level.ok else 'FAILED':7}{level.seconds:8.3f} s"
    lines = [head] if not level.outputs else []
    for output in level.outputs:
        error = f"  max error {output.max_error:.2e} of {output.bound:.2e}" if output.max_error is not None else ""
        if not error and checked:
            error = "  not compared"
        lines.append(f"{head}  {output.name}{error}" + (f"  {output.nan} NaN" if output.nan else ""))
        head = " " * len(head)
    return lines if level.stats is None else [*lines, *_stats_lines(level.stats)]


def _stats_lines(stats: Mapping[str, Any]) -> list[str]:
    """What a level moved: a line for each buffer, one for each direction of LDS, one for matrix instructions."""
    lines: list[str] = []
    for verb in ("reads", "writes"):
        for name, each in stats["global"][verb].items():
            widths = ", ".join(f"{n} of {width} B" for width, n in each["instructions_by_width"].items())
            lines.append(
                f"  {verb} {name}: {each['useful_bytes']} bytes, {each['distinct_bytes']} of them distinct, "
                f"{each['lines_of_64']} lines of 64 B, {each['lines_of_128']} of 128 B; wave instructions: {widths}"
            )
    for verb, each in stats["lds"].items():
        widths = ", ".join(f"{n} of {width} B" for width, n in each["instructions_by_width"].items())
        lines.append(
            f"  LDS {verb}: {each['useful_bytes']} bytes, {each['clocks']} clocks, {each['conflict_clocks']} of them "
            f"bank conflicts; wave instructions: {widths or 'none'}"
        )
    return [*lines, *(f"  {n} x {name}" for name, n in stats["matrix_instructions"].items())]
