"""The package as it is installed: names, the folder `passes`, and the plug-in for xDSL."""

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from xdsl.universe import Universe

import xpaged
from xpaged.context import OWN_DIALECTS, context
from xpaged.passes import NAMES

ROOT = Path(xpaged.__file__).parents[1]

pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="not in a source tree")


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_is_listed() -> None:
    """setuptools takes exactly what pyproject.toml lists: a package that is not there is not installed."""
    folders = {path.parent.relative_to(ROOT) for path in (ROOT / "xpaged").rglob("*.py")}
    folders.add(Path("xpaged/passes"))
    packages = {".".join(folder.parts) for folder in folders}
    assert set(project()["tool"]["setuptools"]["packages"]) == packages


def test_every_package_has_an_init_file() -> None:
    for name in project()["tool"]["setuptools"]["packages"]:
        assert (ROOT / Path(*name.split(".")) / "__init__.py").exists(), name


def test_passes_are_one_package_in_two_places() -> None:
    assert (ROOT / "xpaged" / "passes").resolve() == (ROOT / "passes").resolve()
    code = "import passes"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "import the passes as xpaged.passes" in done.stderr


def test_no_exported_name_is_a_module() -> None:
    """`import xpaged.compile` would put the module in the place of the function `xpaged.compile`."""
    modules = {path.stem for path in (ROOT / "xpaged").iterdir()}
    exported = {"Level", "Pipeline", "Trace", "XpagedError", "attention", "compile", "parse", "print_module", "run"}
    assert exported <= set(dir(xpaged))
    assert not exported & modules


def test_importing_xpaged_is_cheap() -> None:
    code = "import sys, xpaged, xpaged.cli.main; print([name for name in ('xdsl', 'numpy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_parsing_and_printing_do_not_import_numpy() -> None:
    code = (
        "import sys, xpaged.cli.opt, xpaged.ir.printing; from xpaged.context import context\n"
        "ctx = context()\n"
        "for name in list(ctx.registered_dialect_names): ctx.load_registered_dialect(name)\n"
        "print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_every_dialect_loads() -> None:
    ctx = context()
    for name in list(ctx.registered_dialect_names):
        assert ctx.get_dialect(name).name == name


@pytest.mark.parametrize("name", NAMES)
def test_every_pass_loads_under_its_name(name: str) -> None:
    from xpaged.passes import get_all_passes

    assert get_all_passes()[name]().name == name


def test_the_hip_target_loads() -> None:
    from xpaged.universe import UNIVERSE

    targets: dict[str, Any] = UNIVERSE.all_targets
    assert targets["hip"]().name == "hip"


def test_stock_xdsl_tools_find_the_plug_in() -> None:
    if "xpaged" not in entry_points(group="xdsl.universe").names:
        pytest.skip("xpaged is not installed")
    everything = Universe.get_multiverse()  # raises when a name is there twice
    assert set(OWN_DIALECTS) <= set(everything.all_dialects)
    assert set(NAMES) <= set(everything.all_passes)
    assert "hip" in everything.all_targets


def test_tosa_is_left_to_xdsl_in_the_plug_in() -> None:
    from xpaged.universe import UNIVERSE

    assert "tosa" not in UNIVERSE.all_dialects
