"""What a user sees when xpaged refuses: one message with the place, the values and the way out."""

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Operation, SSAValue


class XpagedError(Exception):
    """
    A refusal that is meant for the user: a bad input, a failed check, a missing tool.

    `what` is one sentence; `at` says where (an operation, a value, a location attribute, or text such as
    `file:line:col`); `found` and `expected` are the offending value and what it should have been; `fix` is the way
    out. Everything is turned into text at once, so that the error outlives the IR that it speaks of.
    """

    def __init__(
        self,
        what: str,
        *,
        at: "Operation | SSAValue | Attribute | str | None" = None,
        found: object = None,
        expected: object = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = ""
        self.op = ""
        self.source: str | None = None
        self.found = None if found is None else str(found)
        self.expected = None if expected is None else str(expected)
        self.fix = fix
        self.during: str | None = None
        """The pass that refused, set by the pass itself."""
        if at is not None:
            self.locate(at)

    def locate(self, at: "Operation | SSAValue | Attribute | str") -> "XpagedError":
        """Set the place that the message points to; returns the error itself."""
        if isinstance(at, str):
            self.where = at
        else:
            from xpaged.ir.locations import describe, op_of, source_of
            from xpaged.ir.printing import one_line

            self.where = describe(at)
            if (op := op_of(at)) is not None:
                self.op = one_line(op)
                if (source := source_of(op)) is not None and self.where.startswith(source.filename + ":"):
                    self.source = source.text
        return self

    def render(self, source: str | None = None) -> str:
        """
        The whole message: `file:line:col: error: ...`, then the source line with a caret where the text is known
        (`source` is used only when the error does not know its own text), then found, expected and fix.
        """
        lines = [f"{self.where}: error: {self.what}" if self.where else f"error: {self.what}"]
        text = self.source if self.source is not None else source
        lines += _snippet(text, self.where) if text is not None else []
        if self.op and len(lines) == 1:
            lines.append(f"  in: {self.op}")
        parts = (("found", self.found), ("expected", self.expected), ("fix", self.fix), ("pass", self.during))
        for title, value in parts:
            if value is not None:
                lines.append(f"  {title}: {value}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()

    def _render_traceback_(self) -> list[str]:
        """Notebooks call this hook instead of printing a Python traceback."""
        return self.render().splitlines()


def _snippet(text: str, where: str) -> list[str]:
    """The source line that `where` (`file:line:col`) names and a caret below it; nothing when it names none."""
    parts = where.rsplit(":", 2)
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return []
    line_number, column = int(parts[1]), int(parts[2])
    lines = text.split("\n")
    if not 1 <= line_number <= len(lines) or not lines[line_number - 1].strip():
        return []
    line = lines[line_number - 1].rstrip("\r")
    start = max(0, min(column - 1, len(line)) - 100)
    shown = line[start : start + 160]
    indent = "".join("\t" if c == "\t" else " " for c in line[start : column - 1])
    return [f"  {shown}", f"  {indent}^"]


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A hint such as `did you mean 'rock.deref'?` when a candidate is close to `name`."""
    close = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else None
