"""Reading and writing files so that a failure is one clear message and leaves nothing half done."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from xpaged.errors import XpagedError

STDIN_NAME = "<stdin>"


def read_text(path: str) -> tuple[str, str]:
    """
    The text of a UTF-8 file, and the name that messages give it; `-` is the standard input.

    Raises XpagedError when it cannot be read or is not UTF-8.
    """
    name = STDIN_NAME if path == "-" else path
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except (OSError, ValueError) as err:
        raise XpagedError(f"cannot read '{name}': {_reason(err)}") from err
    try:
        return data.decode("utf-8-sig"), name
    except UnicodeDecodeError as err:
        line = data.count(b"\n", 0, err.start) + 1
        column = err.start - (data.rfind(b"\n", 0, err.start) + 1) + 1
        raise XpagedError(
            "the file is not UTF-8 text",
            at=f"{name}:{line}:{column}",
            found=f"byte 0x{data[err.start]:02x}",
            fix="give MLIR text (bytecode is not read)",
        ) from err


def write_files(files: Mapping[Path, str | bytes]) -> None:
    """
    Write a set of files, all or none: each goes to a temporary name beside its place first, and the names are
    changed when all of them are complete. Folders that are missing are made.

    Raises XpagedError when the disk is full or a place cannot be written; nothing new is left behind then.
    """
    written: list[tuple[Path, Path]] = []
    folders: list[Path] = []
    placed: list[Path] = []
    current = Path()
    try:
        for path, content in files.items():
            current = path
            folders += _make_folder(path.parent)
            temporary = path.with_name(f".xpaged-{os.getpid()}-{path.name}")
            written.append((temporary, path))
            data = content.encode("utf-8") if isinstance(content, str) else content
            temporary.write_bytes(data)
        for temporary, path in written:
            current = path
            fresh = not path.exists()
            os.replace(temporary, path)
            if fresh:
                placed.append(path)
    except BaseException as err:
        for leftover in [*(temporary for temporary, _ in written), *placed]:
            with suppress(OSError):
                leftover.unlink()
        for folder in reversed(folders):
            with suppress(OSError):
                folder.rmdir()
        if isinstance(err, OSError | ValueError):
            raise XpagedError(
                f"cannot write to '{current}': {_reason(err)}", fix="choose another place, or free some space"
            ) from err
        raise


def _make_folder(folder: Path) -> list[Path]:
    """Make a folder and those above it; returns the ones that were made, outermost first."""
    missing: list[Path] = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    made: list[Path] = []
    try:
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            made.append(each)
    except OSError:
        for each in reversed(made):
            each.rmdir()
        raise
    return made


def _reason(err: Exception) -> str:
    return (err.strerror if isinstance(err, OSError) else None) or str(err)
