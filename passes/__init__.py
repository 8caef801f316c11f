"""
The lowering passes, one a file: the pass `tosa-to-rock` is the class `TosaToRockPass` of `tosa_to_rock.py`.

Add a pass by writing its file and naming it in `NAMES`; nothing is imported before it is used.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, cast

if __name__ != "xpaged.passes":
    raise ImportError("import the passes as xpaged.passes: `import passes` would make a second copy of every class")

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

NAMES = (
    "migraphx-to-tosa",
    "tosa-to-rock-deref",
    "tosa-to-rock",
    "detect-flash-decoding",
    "bufferize",
    "sort-dimensions-memory-layout",
    "split-kv",
    "outline-kernels",
    "affix-tuning-params",
    "gemm-to-gridwise",
    "gridwise-to-tile",
    "place-barriers",
    "tile-to-device",
)


def _load(name: str) -> "type[ModulePass]":
    module = import_module(f"xpaged.passes.{name.replace('-', '_')}")
    class_name = "".join(part.capitalize() for part in name.split("-")) + "Pass"
    return cast("type[ModulePass]", getattr(module, class_name))


def get_all_passes() -> "dict[str, Callable[[], type[ModulePass]]]":
    """Every pass of xpaged by name; the class is imported when its entry is called."""
    return {name: partial(_load, name) for name in NAMES}
