"""
A compiler for attention over a paged KV cache on AMD GPUs: MLIR text in, HIP C++ and code objects out.

Everything here is imported when it is first used: `import xpaged` alone costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xpaged.driver import compile as compile
    from xpaged.errors import XpagedError as XpagedError
    from xpaged.interpreter.run import run as run
    from xpaged.ir.levels import Level as Level
    from xpaged.ir.parsing import parse as parse
    from xpaged.ir.printing import print_module as print_module
    from xpaged.pipeline import Pipeline as Pipeline
    from xpaged.pipeline import Trace as Trace
    from xpaged.sizes import attention as attention

__version__ = "0.1.0"

# No name here may be that of a module of the package: importing the module would hide what is exported.
_EXPORTS = {
    "Level": "xpaged.ir.levels",
    "Pipeline": "xpaged.pipeline",
    "Trace": "xpaged.pipeline",
    "XpagedError": "xpaged.errors",
    "attention": "xpaged.sizes",
    "compile": "xpaged.driver",
    "parse": "xpaged.ir.parsing",
    "print_module": "xpaged.ir.printing",
    "run": "xpaged.interpreter.run",
}


def __getattr__(name: str) -> object:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'xpaged' has no attribute {name!r}")
    value = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
