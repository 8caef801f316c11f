"""The message of a refusal: place, source line, caret, values."""

import pytest

from xpaged.errors import XpagedError, did_you_mean


def test_a_message_without_a_place() -> None:
    assert str(XpagedError("no")) == "error: no"


def test_everything_that_is_given_is_shown_in_order() -> None:
    err = XpagedError("no", at="k.mlir:2:3", found=0, expected=[1, 2], fix="do")
    err.during = "a-pass"
    text = "first\n  second\n"
    assert err.render(text) == (
        "k.mlir:2:3: error: no\n    second\n    ^\n  found: 0\n  expected: [1, 2]\n  fix: do\n  pass: a-pass"
    )


@pytest.mark.parametrize("where", ["k.mlir:9:1", "k.mlir:0:1", "k.mlir", "k.mlir:a:b", "k.mlir:3:1"])
def test_no_line_is_shown_where_there_is_none(where: str) -> None:
    assert XpagedError("no", at=where).render("one\ntwo\n\n") == f"{where}: error: no"


def test_long_lines_are_cut_around_the_caret_and_tabs_are_kept() -> None:
    lines = XpagedError("no", at="k:1:500").render("x" * 1000).splitlines()
    assert lines[1] == "  " + "x" * 160
    assert lines[2] == "  " + " " * 100 + "^"
    assert XpagedError("no", at="k:1:3").render("\t\tx").splitlines()[2] == "  \t\t^"


def test_notebooks_show_the_message_and_no_trace() -> None:
    err = XpagedError("no", fix="do")
    assert err._render_traceback_() == ["error: no", "  fix: do"]  # pyright: ignore[reportPrivateUsage]


def test_hints() -> None:
    assert did_you_mean("bufferise", ["bufferize", "cse"]) == "did you mean 'bufferize'?"
    assert did_you_mean("nothing", ["bufferize", "cse"]) is None
