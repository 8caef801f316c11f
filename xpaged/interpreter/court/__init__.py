"""The memory court: a device-level program runs with every access to memory on trial.

`CourtProgram(module, court)` runs like any program; `court.findings` then holds what was wrong, by operation and kind
(`KINDS`). The state of memory is kept beside it: mapped, written, poisoned for each byte in `Memory`; writers and
readers since the last barrier in `Shadow`; poison in registers in `Tainted` values.
"""

from xpaged.interpreter.court.court import KINDS, Court, Finding
from xpaged.interpreter.court.rules import CourtProgram
from xpaged.interpreter.court.stats import Stats

__all__ = ["KINDS", "Court", "CourtProgram", "Finding", "Stats"]
