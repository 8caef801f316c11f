"""Files: all or none, and one message when something cannot be read or written."""

import os
from pathlib import Path

import pytest

from xpaged.errors import XpagedError
from xpaged.files import read_text, write_files


def test_a_set_of_files_is_written_with_its_folders(tmp_path: Path) -> None:
    write_files({tmp_path / "a" / "b" / "x.hip": "text", tmp_path / "a" / "y.hsaco": b"\x7fELF"})
    assert (tmp_path / "a" / "b" / "x.hip").read_text() == "text"
    assert (tmp_path / "a" / "y.hsaco").read_bytes() == b"\x7fELF"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "x.hip", "y.hsaco"]


def test_nothing_is_left_when_one_of_them_fails(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "full").write_text("")
    with pytest.raises(XpagedError, match="cannot write"):
        write_files({tmp_path / "new" / "x": "1", tmp_path / "old": "2", tmp_path / "folder": "3"})
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "full", "old"]


def test_a_full_disk_is_a_refusal() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with pytest.raises(XpagedError, match="cannot write to '/dev/full/x'"):
        write_files({Path("/dev/full/x"): "1"})


def test_an_interrupt_leaves_nothing_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_files({tmp_path / "a" / "x": "1"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["nothing.mlir", "."])
def test_what_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(XpagedError, match="cannot read"):
        read_text(str(tmp_path / name))


def test_bytes_that_are_no_text_are_refused_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "k.mlir"
    path.write_bytes(b"module {\n  \xff}")
    with pytest.raises(XpagedError) as caught:
        read_text(str(path))
    assert caught.value.where == f"{path}:2:3"
    assert caught.value.found == "byte 0xff"


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "k.mlir"
    path.write_bytes(b"\xef\xbb\xbfmodule {}")
    assert read_text(str(path)) == ("module {}", str(path))
