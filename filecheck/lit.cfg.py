"""Configuration of lit: RUN lines find the commands of the environment that lit itself runs in."""

import os
import sys
from pathlib import Path
from typing import Any

import lit.formats

here: Any = globals()["config"]  # lit puts it there
here.name = "xpaged"
here.test_format = lit.formats.ShTest()
here.suffixes = [".mlir", ".test"]
here.test_source_root = str(Path(__file__).parent)
here.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
if "PYTHONPATH" in os.environ:  # of a checkout that is not the installed one
    here.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]

# The text is printed, read again and printed once more; `// -----` separates modules.
here.substitutions += [
    ("XPAGED_ROUNDTRIP", "xpaged-opt %s --split-input-file | xpaged-opt --split-input-file | filecheck %s"),
    (
        "XPAGED_GENERIC_ROUNDTRIP",
        "xpaged-opt %s --split-input-file --print-op-generic | xpaged-opt --split-input-file | filecheck %s",
    ),
    # Every module of the file is refused; the messages are checked.
    ("XPAGED_INVALID", "xpaged-opt %s --split-input-file --verify-diagnostics | filecheck %s"),
]
