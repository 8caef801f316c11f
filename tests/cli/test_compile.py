"""`xpaged compile` and `xpaged doctor`: files, notes on stderr, nothing on stdout."""

import json
from pathlib import Path
from typing import Any

import pytest

from xpaged.cli.shell import DONE, REFUSED

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
