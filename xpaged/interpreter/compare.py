"""Comparing the outputs of a level with what they should hold."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xpaged.errors import XpagedError
from xpaged.interpreter.numerics import Array
from xpaged.interpreter.reference import Expected, Reference


@dataclass
class Output:
    """One output of one level: `values` flat in memory order, and where the program wrote it."""

    number: int
    name: str
    values: Array
    written: Array
    max_error: float | None = None
    bound: float | None = None
    nan: int = 0
    ok: bool = True

    def as_json(self) -> dict[str, Any]:
        """The entry of the report; error and bound are those of one element, the one with the largest error."""
        entry: dict[str, Any] = {"name": self.name, "nan": self.nan}
        if self.max_error is not None:
            entry = {"name": self.name, "max_error": self.max_error, "bound": self.bound, "nan": self.nan}
        return entry


def compare(outputs: Sequence[Output], reference: Reference) -> bool:
    """Fills in the errors of `outputs` and says whether all lie within their bounds, where something is expected.

    Elements that the program did not write are not compared (a part of a kernel was run, or there is a fault already).
    Raises XpagedError for an output of which nothing is known.
    """
    for output in outputs:
        if output.number in reference.outputs:
            values = numbers(output.values.reshape(-1))
            _compare(output, values, output.written, reference.outputs[output.number])
        else:
            raise XpagedError(
                f"output {output.name!r} is not computed by attention, so that there is nothing to check it against",
                fix="check the module at a level with tensors, or run without --check",
            )
    return all(output.ok for output in outputs)


def numbers(values: Array) -> Array:
    """Elements as float64; integers as signed ones, which they are below the first level."""
    if values.dtype.kind == "u":
        values = np.ascontiguousarray(values).view(f"i{values.dtype.itemsize}")
    return values.astype(np.float64)


def _compare(output: Output, values: Array, written: Array, expected: Expected) -> None:
    compared = ~np.isnan(expected.value) & written
    found, wanted, bound = values[compared], expected.value[compared], expected.bound[compared]
    output.nan = int(np.isnan(found).sum())
    with np.errstate(invalid="ignore"):
        error = np.where(found == wanted, 0.0, np.abs(found - wanted))  # equal infinities are no error
    error[np.isnan(error)] = np.inf
    output.ok = bool((error <= bound).all())
    if not len(error):
        output.max_error = output.bound = 0.0
        return
    wrong = error > bound
    at = int(np.argmax(np.where(wrong, error, -1.0) if wrong.any() else error))
    output.max_error, output.bound = float(error[at]), float(bound[at])
