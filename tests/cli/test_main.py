"""The command line as a whole: dispatch, statuses, and that a failure is one message on stderr."""

import errno
import io
import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from xpaged.cli import main as cli_main
from xpaged.cli.shell import DONE, REFUSED, USAGE, emit, emit_json, guarded
from xpaged.errors import XpagedError

Cli = Any


def test_without_a_command_the_help_goes_to_stderr(cli: Cli) -> None:
    assert cli().status == USAGE
    assert "commands:" in cli().err
    assert cli().out == ""


def test_help_lists_every_command(cli: Cli) -> None:
    ended = cli("--help")
    assert ended.status == DONE
    for name in cli_main.COMMANDS:
        assert f"  {name}" in ended.out


@pytest.mark.parametrize("name", cli_main.COMMANDS)
def test_every_command_has_help(cli: Cli, name: str) -> None:
    ended = cli(name, "--help")
    assert ended.status == DONE
    assert f"usage: xpaged {name}" in ended.out


def test_the_version(cli: Cli) -> None:
    assert cli("--version").out == "xpaged 0.1.0\n"


def test_an_unknown_command_is_a_usage_error(cli: Cli) -> None:
    ended = cli("complie", "x.mlir")
    assert ended.status == USAGE
    assert ended.out == ""
    assert "did you mean 'compile'?" in ended.err


@pytest.mark.parametrize(
    "argv",
    [
        ("compile",),
        ("compile", "x.mlir"),
        ("compile", "x.mlir", "-o", "d", "--to", "tyle"),
        ("compile", "x.mlir", "-o", "d", "--toolchain", "gcc"),
        ("compile", "x.mlir", "-o", "d", "--emit", "hip,objekt"),
        ("run",),
        ("run", "x.mlir", "--level", "tiles"),
        ("run", "x.mlir", "--blocks", "many"),
        ("doctor", "--yaml"),
        ("opt", "--nothing"),
        ("opt", "--disable-verify", "x.mlir"),
        ("gen", "--nothing"),
    ],
)
def test_wrong_usage_has_status_2(cli: Cli, argv: Sequence[str]) -> None:
    ended = cli(*argv)
    assert ended.status == USAGE
    assert ended.out == ""
    assert "usage:" in ended.err


@pytest.mark.parametrize("argv", [("opt", "/nothing.mlir"), ("compile", "/nothing.mlir", "-o", "x"), ("run", "/")])
def test_an_unreadable_file_is_refused(cli: Cli, argv: Sequence[str]) -> None:
    ended = cli(*argv)
    assert ended.status == REFUSED
    assert ended.out == ""
    assert ended.err.startswith(f"error: cannot read '{argv[1]}': ")


@pytest.mark.parametrize("command", ["opt", "compile", "run"])
def test_malformed_text_is_refused_with_its_place(cli: Cli, command: str) -> None:
    extra = ("-o", "/nowhere") if command == "compile" else ()
    ended = cli(command, "-", *extra, stdin="func.func @f() {\n  %x = arith.addii %x : i32\n}")
    assert ended.status == REFUSED
    assert ended.out == ""
    assert ended.err == (
        "<stdin>:2:8: error: unknown operation 'arith.addii'\n    %x = arith.addii %x : i32\n         ^\n"
        "  fix: did you mean 'arith.addi'?\n"
    )


@pytest.mark.parametrize("command", ["opt", "compile", "run"])
def test_bytes_that_are_no_text_are_refused(cli: Cli, command: str) -> None:
    extra = ("-o", "/nowhere") if command == "compile" else ()
    ended = cli(command, "-", *extra, stdin=b"ML\xefR\x00\xff")
    assert ended.status == REFUSED
    assert "is not UTF-8 text" in ended.err
    assert ended.out == ""


def raising(err: BaseException) -> Any:
    def command(argv: Sequence[str]) -> int:
        raise err

    return command


@pytest.mark.parametrize(
    ("err", "status", "message"),
    [
        (XpagedError("no", at="k.mlir:1:2", fix="do"), REFUSED, "k.mlir:1:2: error: no\n  fix: do\n"),
        (KeyboardInterrupt(), REFUSED, "interrupted\n"),
        (RecursionError(), REFUSED, "error: the input is nested too deeply\n"),
        (MemoryError(), REFUSED, "error: out of memory\n"),
        (BrokenPipeError(), REFUSED, ""),
        (SystemExit(2), USAGE, ""),
        (SystemExit(), DONE, ""),
    ],
)
def test_every_end_has_a_status(
    err: BaseException, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(raising(err), []) == status
    captured = capsys.readouterr()
    assert captured.err == message
    assert captured.out == ""


def test_a_mistake_in_xpaged_is_said_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(raising(ZeroDivisionError("x")), []) == REFUSED
    err = capsys.readouterr().err
    assert err.startswith("error: internal error in xpaged: ZeroDivisionError: x\n")
    assert "Traceback" not in err
    assert guarded(raising(ZeroDivisionError("x")), [], debug=True) == REFUSED
    assert "Traceback" in capsys.readouterr().err


def test_a_full_disk_under_stdout_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(XpagedError, match="cannot write the output: No space left on device"):
        emit("text")


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    emit_json({"a": [float("nan"), float("inf"), 1.5], "b": (1, None, True)})
    assert json.loads(capsys.readouterr().out) == {"a": [None, None, 1.5], "b": [1, None, True]}
