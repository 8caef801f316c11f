"""Which line of a text a machine instruction was made from: read from the line table of a program (DWARF 4)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elftools.dwarf.die import DIE


@cache
def line_table(program: Path, file: str) -> "LineTable":
    """
    The lines of `file` in `program`. Knows no line when pyelftools is not installed. It is read once: a program stays
    as it is.
    """
    calls: list[tuple[int, int, int]] = []
    rows: list[tuple[int, int, int]] = []
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError:  # belongs to the extra that brings the compiler
        return LineTable(calls, rows)
    with program.open("rb") as stream:
        info: Any = ELFFile(stream).get_dwarf_info()
        for unit in info.iter_CUs():
            table = info.line_program_for_CU(unit)
            names = enumerate(table["file_entry"], 1)
            numbers = {number for number, entry in names if PurePosixPath(entry.name.decode()).name == file}
            for die in unit.iter_DIEs():  # outer ones first
                call = die.attributes.get("DW_AT_call_file")
                if die.tag == "DW_TAG_inlined_subroutine" and call is not None and call.value in numbers:
                    line: int = die.attributes["DW_AT_call_line"].value
                    calls += ((start, end, line) for start, end in _ranges(die, info))
            rows += ((start, end, line) for start, end, of, line in _rows(table) if of in numbers)
    return LineTable(calls, rows)


@dataclass(frozen=True)
class LineTable:
    """
    Ranges of addresses and the line that they belong to: of functions that were put in the place of their calls (the
    line of the call; outer ones first), and of all code.
    """

    calls: Sequence[tuple[int, int, int]]
    rows: Sequence[tuple[int, int, int]]

    def line_of(self, pc: int) -> int | None:
        """The line that the instruction at address `pc` belongs to, that of the outermost call; None: not known."""
        return next((line for start, end, line in (*self.calls, *self.rows) if start <= pc < end and line), None)


def _rows(table: Any) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of addresses with the number of their file and their line."""
    before: Any = None
    for entry in table.get_entries():
        if entry.state is not None:
            if before is not None:
                yield before.address, entry.state.address, before.file, before.line
            before = None if entry.state.end_sequence else entry.state


def _ranges(die: "DIE", info: Any) -> list[tuple[int, int]]:
    """Where the code of `die` lies. In a unit with several ranges of code, addresses count from 0."""
    low, high, ranges = (die.attributes.get(f"DW_AT_{name}") for name in ("low_pc", "high_pc", "ranges"))
    if low is not None and high is not None:
        return [(low.value, low.value + high.value)]
    if ranges is None:
        return []
    entries = info.range_lists().get_range_list_at_offset(ranges.value)
    return [(entry.begin_offset, entry.end_offset) for entry in entries]
