"""README: its file names exist, its kernel runs and compiles, its Python runs."""

import re
from pathlib import Path
from typing import Any

import pytest

import xpaged

Cli = Any

ROOT = Path(xpaged.__file__).parents[1]
README = ROOT / "README.md"

pytestmark = pytest.mark.skipif(not README.exists(), reason="not in a source tree")


def block(language: str) -> str:
    """The first fenced block of a language."""
    found = re.search(rf"```{language}\n(.*?)```", README.read_text(), re.DOTALL)
    assert found, language
    return found[1]


def test_every_file_that_is_named_exists() -> None:
    names = set(re.findall(r"(?<!tests/)(?:xpaged|passes)/[\w/]+(?:\.py|/)", README.read_text()))
    assert len(names) > 15
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []


def test_the_picture_names_the_levels_in_order() -> None:
    from xpaged.ir.levels import MODULE_LEVELS

    first_words = [line.split()[0] for line in block("text").splitlines() if line and not line.startswith(" ")]
    assert [word for word in first_words if word in [level.value for level in MODULE_LEVELS]] == [
        level.value for level in MODULE_LEVELS
    ]


def test_the_picture_names_every_step_that_changes_the_level() -> None:
    """The passes of the picture are on the way, in this order."""
    from xpaged.ir.levels import Level
    from xpaged.passes import NAMES
    from xpaged.passes.pipelines import passes_between

    named = [name.replace("_", "-") for name in re.findall(r"passes/(\w+)\.py", block("text"))]
    assert set(named) <= set(NAMES)
    way = iter(passes_between(Level.MIGRAPHX, Level.DEVICE))
    assert all(name in way for name in named)


def test_the_first_kernel_runs_and_compiles(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "first.mlir"
    path.write_text(block("mlir"))
    ended = cli("run", path, "--level", "all", "--check")
    assert ended.status == 0, ended
    shown = [line for line in block("console").splitlines() if " ok " in line]
    assert [line.split()[0] for line in shown] == [line.split()[0] for line in ended.out.splitlines()[: len(shown)]]
    assert cli("compile", path, "--arch", "gfx90a,gfx942", "-o", tmp_path / "out").status == 0
    names = [path.name for path in (tmp_path / "out").iterdir()]
    assert len(names) == 6
    assert all(name in README.read_text() for name in names)


def test_the_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("first.mlir").write_text(block("mlir"))
    code = block("python").replace('level="all"', 'level="gridwise"')  # the whole way takes longer than a test should
    exec(compile(code, "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert "+    %k_elements = rock.deref" in out
    assert "rock_attention" in out


# ---- the table of features

SHOWN_BY_FILE = {"decode.mlir": ROOT / "xpaged" / "examples" / "decode.mlir"}


def features() -> list[tuple[str, str]]:
    """Each command of the table, and what the table says of the feature."""
    text = README.read_text().split("## What works")[1].split("\n## ")[0] if README.exists() else ""
    rows = [line.replace("\\|", "\x00").split("|")[1:4] for line in text.splitlines() if line.startswith("| ")][1:]
    found: list[tuple[str, str]] = []
    for _, state, commands in rows:
        found += [
            (command.replace("\x00", "|"), state.strip()) for command in re.findall(r"`(xpaged [^`]+)`", commands)
        ]
    return found


def test_every_feature_has_a_state_and_a_command() -> None:
    text = README.read_text().split("## What works")[1].split("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 20
    for row in rows:
        _, state, command = (cell.strip() for cell in row.replace("\\|", "\x00").split("|")[1:4])
        assert re.match(r"works|refused|not yet|compiles", state), row
        assert ("`" in command) == (state != "not yet"), row
    for path in re.findall(r"`pytest (tests/\S+)`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize(("command", "state"), features())
def test_a_command_of_the_table_does_what_it_says(command: str, state: str, cli: Cli, tmp_path: Path) -> None:
    """At the level of lanes; the text on the CPU is left to the reader, who has a minute."""
    ended: Any = None
    for number, step in enumerate(command.split("|")):
        words = [str(SHOWN_BY_FILE.get(word, word)) for word in step.split()[1:]]
        words = [str(tmp_path / f"{number - 1}.mlir") if word == "-" else word for word in words]
        words = [str(tmp_path / "out") if word == "out" else word for word in words]
        if words[0] == "run":
            words += ["--level", "device"]
        ended = cli(*words)
        (tmp_path / f"{number}.mlir").write_text(ended.out)
    assert ended.status == (1 if state.startswith("refused") else 0), ended
