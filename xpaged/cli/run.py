"""`xpaged run`: execute a module on the CPU at one level or at all of them, and check every level."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xpaged.cli.shell import DONE, REFUSED, command_parser, emit, emit_json, note, one_of
from xpaged.errors import XpagedError

_LEVELS = ("migraphx", "tosa", "rock", "rock-memref", "gridwise", "tile", "device", "host", "all")


def command(argv: Sequence[str]) -> int:
    """Run `xpaged run`."""
    parser = command_parser("run", "Execute an MLIR file on the CPU, level by level, and check it.")
    parser.add_argument("file", metavar="FILE", help="MLIR text at any level; - for stdin")
    parser.add_argument("--arch", help="architecture that kernels are lowered for (default: the module's, else gfx942)")
    parser.add_argument("--level", type=one_of(*_LEVELS), help="level to run, or all from the file's own to device")
    data = parser.add_mutually_exclusive_group()
    data.add_argument("--inputs", metavar="X.npz", help="one array an argument: arg<i> or its name, arg<i>.pages, ...")
    data.add_argument("--random", type=int, metavar="SEED", help="random inputs (the default, with seed 0)")
    parser.add_argument("--outputs", metavar="Y.npz", help="write <level>/out<i> of every level that ran")
    parser.add_argument("--blocks", type=int, metavar="N", help="run N workgroups at the tile and device levels")
    parser.add_argument("--check", action="store_true", help="compare every level with the float64 reference")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args(argv)

    from xpaged.files import read_text, write_files
    from xpaged.interpreter.run import Report, run
    from xpaged.ir.parsing import parse

    text, name = read_text(options.file)
    module = parse(text, name)
    inputs = None if options.inputs is None else _read_arrays(options.inputs)
    report: Report = run(
        module,
        inputs,
        level=options.level,
        seed=options.random,
        arch=options.arch,
        blocks=options.blocks,
        check=options.check,
    )
    if options.outputs is not None:
        write_files({Path(options.outputs): _archive(report.arrays())})
    if options.json:
        emit_json(report.as_json())
    else:
        for each in report.notes:
            note(each)
        emit(_table(report))
    return DONE if report.ok else REFUSED


def _read_arrays(path: str) -> dict[str, Any]:
    """The arrays of an .npz file. Raises XpagedError when it cannot be read or holds anything else."""
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise XpagedError(f"'{path}' is not an .npz file", fix="write it with numpy.savez")
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as err:
        reason = getattr(err, "strerror", None) or str(err) or type(err).__name__
        raise XpagedError(f"cannot read the inputs '{path}': {reason}") from err


def _archive(arrays: dict[str, Any]) -> bytes:
    import numpy as np

    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _table(report: Any) -> str:
    """The report as lines for a reader."""
    lines: list[str] = []
    for name, level in report.levels.items():
        state = "ok" if level.ok else "WRONG"
        outputs = "  ".join(
            f"{o.name}: error {o.max_error:.2e} of {o.bound:.2e} allowed" if o.max_error is not None else f"{o.name}"
            for o in level.outputs
        )
        lines.append(f"{name:12} {state:6} {level.seconds:8.3f} s  {outputs}")
    for fault in report.faults:
        where = f"{fault['location']}: " if fault["location"] else ""
        lines.append(f"fault at level {fault['level']}: {where}{fault['what']}")
        if fault["op"]:
            lines.append(f"  in: {fault['op']}")
    lines.append("ok" if report.ok else "failed")
    return "\n".join(lines) + "\n"
