"""What each operation does, one module a dialect (two where a part of it is large)."""

from importlib import import_module
from importlib.util import find_spec

_MODULES = {"rock": ("rock", "tile"), "migraphx": ("migraphx", "migraphx_attention"), "hip": ("hip", "hip_async")}


def load(dialect: str) -> None:
    """Imports the rules of `dialect`, which registers them; does nothing for a dialect without any."""
    for name in _MODULES.get(dialect, (dialect,)):
        path = f"{__name__}.{name}"
        if name.isidentifier() and find_spec(path) is not None:
            import_module(path)
