"""`xpaged opt`: passes, flags, and refusals that leave nothing behind."""

from pathlib import Path
from typing import Any

import pytest

from xpaged.cli.opt import main as opt_main
from xpaged.cli.shell import DONE, REFUSED

Cli = Any

TEXT = """func.func @f(%a: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %b = arith.addi %a, %zero : i32
  return %b : i32
}
"""
FOLDED = """builtin.module {
  func.func @f(%a: i32) -> i32 {
    func.return %a : i32
  }
}
"""


def test_passes_are_run_in_order(cli: Cli) -> None:
    ended = cli("opt", "-", "-p", "canonicalize,cse", stdin=TEXT)
    assert ended == (DONE, FOLDED, "")


def test_without_a_file_the_text_comes_from_stdin(cli: Cli) -> None:
    assert cli("opt", "-p", "canonicalize", stdin=TEXT).out == FOLDED


def test_the_console_script_is_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.mlir"
    path.write_text(TEXT)
    assert opt_main([str(path), "-p", "canonicalize"]) == DONE
    assert capsys.readouterr().out == FOLDED


def test_the_result_goes_to_a_file(cli: Cli, tmp_path: Path) -> None:
    ended = cli("opt", "-", "-p", "canonicalize", "-o", tmp_path / "out.mlir", stdin=TEXT)
    assert ended == (DONE, "", "")
    assert (tmp_path / "out.mlir").read_text() == FOLDED


def test_a_refusal_writes_nothing(cli: Cli, tmp_path: Path) -> None:
    ended = cli("opt", "-", "-p", "tosa-to-rock{x=1}", "-o", tmp_path / "out.mlir", stdin=TEXT)
    assert ended.status == REFUSED
    assert ended.out == ""
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_pass_is_refused_with_a_hint(cli: Cli) -> None:
    ended = cli("opt", "-", "-p", "bufferise", stdin=TEXT)
    assert (ended.status, ended.out) == (REFUSED, "")
    assert ended.err == "error: unknown pass 'bufferise'\n  fix: did you mean 'bufferize'?\n"


def test_split_inputs_keep_their_line_numbers(cli: Cli) -> None:
    bad = TEXT.replace("addi", "adi")
    ended = cli("opt", "--split-input-file", "-p", "canonicalize", stdin=f"{TEXT}// -----\n{TEXT}")
    assert ended.out == f"{FOLDED}// -----\n{FOLDED}"
    ended = cli("opt", "--split-input-file", stdin=f"{TEXT}// -----\n{bad}")
    assert (ended.status, ended.out) == (REFUSED, "")
    assert ended.err.startswith("<stdin>:9:8: error: unknown operation 'arith.adi'\n    %b = arith.adi")


def test_diagnostics_can_be_printed_instead(cli: Cli) -> None:
    bad = TEXT.replace("addi", "adi")
    ended = cli("opt", "--split-input-file", "--verify-diagnostics", stdin=f"{bad}// -----\n{TEXT}")
    assert ended.status == DONE
    assert ended.out.startswith("<stdin>:3:8: error: unknown operation 'arith.adi'")
    assert "// -----\nbuiltin.module {" in ended.out


def test_flags_of_xdsl_work(cli: Cli) -> None:
    assert '"arith.addi"(%a, %zero)' in cli("opt", "--print-op-generic", stdin=TEXT).out
    assert 'loc("<stdin>":3:8)' in cli("opt", "--print-debuginfo", stdin=TEXT).out
    ended = cli("opt", "-p", "canonicalize,cse", "--print-between-passes", "--time-passes", stdin=TEXT)
    assert ended.out == FOLDED
    assert "// IR after canonicalize:" in ended.err
    assert "Pass cse took" in ended.err
    assert cli("opt", "--no-implicit-module", stdin=TEXT).status == REFUSED
    unregistered = 'func.func @f() {\n  "my.op"() : () -> ()\n  return\n}'
    assert cli("opt", stdin=unregistered).status == REFUSED
    assert '"my.op"() : () -> ()' in cli("opt", "--allow-unregistered-dialect", stdin=unregistered).out


@pytest.mark.parametrize("argv", [("-t", "{"), ("-f", "{")])
def test_malformed_option_values_are_refused(cli: Cli, argv: tuple[str, str]) -> None:
    ended = cli("opt", *argv, stdin=TEXT)
    assert (ended.status, ended.out) == (REFUSED, "")
    assert "malformed option value" in ended.err


def test_text_printed_by_one_run_is_read_by_the_next(cli: Cli) -> None:
    text = "func.func @f(%a: i32) { %x_1_2 = arith.constant 1 : i32\n%x_1 = arith.constant 2 : i32\nreturn }"
    once = cli("opt", stdin=text).out
    assert cli("opt", stdin=once).out == once
