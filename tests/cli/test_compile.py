"""`xpaged compile` and `xpaged doctor`: files, notes on stderr, nothing on stdout."""

import json
from pathlib import Path
from typing import Any

import pytest

from xpaged.cli.shell import DONE, REFUSED, USAGE

Cli = Any


def test_the_files_of_every_architecture_are_written(cli: Cli, paged_kernel: str, tmp_path: Path) -> None:
    ended = cli(
        *("compile", "-", "--arch", "gfx90a,gfx942", "--emit", "hip", "-o", tmp_path / "new", "--explain"),
        stdin=paged_kernel,
    )
    assert (ended.status, ended.out) == (DONE, "")
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == [f"rock_attention.{arch}.{end}" for arch in ("gfx90a", "gfx942") for end in ("hip", "launch.json")]
    assert all(line.startswith("note: ") for line in ended.err.splitlines())
    assert json.loads((tmp_path / "new" / names[1]).read_text())["version"] == 1


def test_what_was_piped_has_no_file_name(cli: Cli, paged_kernel: str, tmp_path: Path) -> None:
    assert cli("compile", "-", "--emit", "hip", "-o", tmp_path, stdin=paged_kernel).status == DONE
    text = (tmp_path / "rock_attention.gfx942.hip").read_text()
    assert "stdin" not in text
    assert " line " in text
    (tmp_path / "k.mlir").write_text(paged_kernel)
    assert cli("compile", tmp_path / "k.mlir", "--emit", "hip", "-o", tmp_path).status == DONE
    assert " k.mlir:" in (tmp_path / "rock_attention.gfx942.hip").read_text()


@pytest.mark.parametrize("emit", ["hip", "hip,object"])
def test_the_launch_description_names_an_object_that_is_there(
    cli: Cli, paged_kernel: str, tmp_path: Path, emit: str
) -> None:
    assert cli("compile", "-", "--emit", emit, "-o", tmp_path, stdin=paged_kernel).status == DONE
    (launch,) = json.loads((tmp_path / "rock_attention.gfx942.launch.json").read_text())["launches"]
    assert launch["object"] == ("rock_attention.gfx942.hsaco" if "object" in emit else None)
    assert launch["object"] is None or (tmp_path / launch["object"]).exists()


def test_files_do_not_go_to_the_standard_output(cli: Cli, paged_kernel: str) -> None:
    ended = cli("compile", "-", "-o", "-", stdin=paged_kernel)
    assert ended.status == USAGE
    assert "-o takes a folder" in ended.err
    assert not Path("-").exists()


def test_an_architecture_that_was_assumed_is_noted(cli: Cli, paged_kernel: str, tmp_path: Path) -> None:
    ended = cli("compile", "-", "--emit", "hip", "-o", tmp_path, stdin=paged_kernel)
    assert ended.status == DONE
    assert "gfx942" in ended.err


def test_lowering_can_stop_at_a_level(cli: Cli, paged_kernel: str, tmp_path: Path) -> None:
    assert cli("compile", "-", "--to", "gridwise", "-o", tmp_path, stdin=paged_kernel).status == DONE
    (path,) = tmp_path.iterdir()
    assert path.name == "rock_attention.gfx942.gridwise.mlir"
    assert "rock.gridwise_attention_accel" in path.read_text()
    assert cli("run", path, "--level", "all", "--check").status == DONE


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (("--arch", "gfx94"), "unknown architecture 'gfx94'"),
        (("--arch", "gfx1030"), "no matrix instructions"),
        (("--arch", ","), "no architecture to compile for"),
        (("--to", "tosa"), "past tosa"),
        (("--emit", ""), "nothing to make"),
    ],
)
def test_a_refusal_leaves_no_folder(
    cli: Cli, paged_kernel: str, tmp_path: Path, argv: tuple[str, str], what: str
) -> None:
    ended = cli("compile", "-", *argv, "-o", tmp_path / "new", stdin=paged_kernel)
    assert (ended.status, ended.out) == (REFUSED, "")
    assert what in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_refused(cli: Cli, paged_kernel: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    ended = cli("compile", "-", "--emit", "hip", "-o", "/dev/full", stdin=paged_kernel)
    assert (ended.status, ended.out) == (REFUSED, "")
    assert "cannot write" in ended.err


def test_doctor_prints_one_object(cli: Cli) -> None:
    ended = cli("doctor", "--json")
    report = json.loads(ended.out)
    assert ended.status == (DONE if report["ok"] else REFUSED)
    assert ended.err == ""
    assert "compilers, in the order" in cli("doctor").out
