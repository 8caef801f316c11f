"""What every command shares: exit statuses, messages on stderr, output that is written only when all went well."""

import json
import os
import sys
import traceback
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Sequence
from pathlib import Path

from xpaged.errors import XpagedError, did_you_mean

DONE = 0
REFUSED = 1  # the input was refused, or a check failed
USAGE = 2


def command_parser(name: str, description: str) -> ArgumentParser:
    """An argument parser for `xpaged <name>`: no abbreviations, usage errors end with status 2."""
    return ArgumentParser(prog=f"xpaged {name}", description=description, allow_abbrev=False)


def one_of(*names: str) -> Callable[[str], str]:
    """An argparse type that takes one of `names`; anything else is a usage error with a hint."""

    def check(text: str) -> str:
        if text not in names:
            hint = did_you_mean(text, names)
            raise ArgumentTypeError(f"'{text}' is not one of {', '.join(names)}" + (f"; {hint}" if hint else ""))
        return text

    return check


def list_of(*names: str) -> Callable[[str], list[str]]:
    """An argparse type for a comma-separated list, of `names` only when some are given."""
    check = one_of(*names) if names else str

    def split(text: str) -> list[str]:
        return [check(each.strip()) for each in text.split(",") if each.strip()]

    return split


def emit(text: str) -> None:
    """Write a command's whole output to stdout at once. Raises XpagedError when that fails (a full disk)."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as err:
        _silence(sys.stdout)
        raise XpagedError(f"cannot write the output: {err.strerror or err}") from err


def emit_json(value: object) -> None:
    """Write one JSON object to stdout. NaN and infinities are written as null: JSON has none."""
    emit(json.dumps(_plain(value), indent=2, allow_nan=False) + "\n")


def _plain(value: object) -> object:
    match value:
        case float() if value != value or value in (float("inf"), float("-inf")):
            return None
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case Path():
            return str(value)
        case _:
            return value


def note(text: str) -> None:
    """Write a line for the reader to stderr: what was assumed, what was skipped."""
    print(f"note: {text}", file=sys.stderr)


def guarded(command: Callable[[Sequence[str]], int], argv: Sequence[str], *, debug: bool = False) -> int:
    """
    Run a command and turn every way that it can end into an exit status: a refusal is one message on stderr and
    status 1; a usage error has status 2; no input makes a Python traceback appear, unless `debug` asks for it.
    """
    try:
        return command(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else (DONE if stop.code is None else REFUSED)
    except KeyboardInterrupt:
        return _fail("interrupted")
    except BrokenPipeError:  # the reader has gone away: head, less
        _silence(sys.stdout)
        return REFUSED
    except Exception as err:
        if debug:
            traceback.print_exc()
            return REFUSED
        return _fail(_message(err))


def _message(err: Exception) -> str:
    match err:
        case XpagedError():
            return err.render()
        case RecursionError():
            return "error: the input is nested too deeply"
        case MemoryError():
            return "error: out of memory"
        case _:
            frames = traceback.extract_tb(err.__traceback__)
            own = [frame for frame in frames if "xpaged" in Path(frame.filename).parts] or frames
            text = str(err).strip().splitlines()
            return (
                f"error: internal error in xpaged: {type(err).__name__}: {text[0] if text else ''}\n"
                f"  at: {Path(own[-1].filename).name}:{own[-1].lineno}, in {own[-1].name}\n"
                "  fix: please report this input; `xpaged --traceback COMMAND ...` shows the whole trace"
            )


def _fail(message: str) -> int:
    print(message, file=sys.stderr)
    return REFUSED


def _silence(stream: object) -> None:
    """Point stdout to nowhere, so that the interpreter's own flush at exit does not fail a second time."""
    if stream is sys.__stdout__:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
