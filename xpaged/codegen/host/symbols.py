"""Which line of a text a machine instruction was made from: read from the line table of a program (DWARF 4)."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elftools.dwarf.die import DIE


def line_at(program: Path, file: str, pc: int) -> int | None:
    """
    The line of `file` that the instruction at address `pc` of `program` belongs to: where functions were put in the
    place of their calls, the line of the outermost call. None when it is not known, or pyelftools is not installed.
    """
    try:
        from elftools.elf.elffile import ELFFile
    except ImportError:  # belongs to the extra that brings the compiler
        return None
    with program.open("rb") as stream:
        info: Any = ELFFile(stream).get_dwarf_info()
        for unit in info.iter_CUs():
            names = [entry.name.decode() for entry in info.line_program_for_CU(unit)["file_entry"]]
            for die in unit.iter_DIEs():  # outer ones first
                call = die.attributes.get("DW_AT_call_file")
                if die.tag == "DW_TAG_inlined_subroutine" and call is not None and _covers(die, pc, info):
                    if names[call.value - 1] == file:
                        return die.attributes["DW_AT_call_line"].value
            for start, end, number, line in _rows(info.line_program_for_CU(unit)):
                if start <= pc < end and names[number - 1] == file:
                    return line or None
    return None


def _rows(table: Any) -> Iterator[tuple[int, int, int, int]]:
    """Ranges of addresses with the number of their file and their line."""
    before: Any = None
    for entry in table.get_entries():
        if entry.state is not None:
            if before is not None:
                yield before.address, entry.state.address, before.file, before.line
            before = None if entry.state.end_sequence else entry.state


def _covers(die: "DIE", pc: int, info: Any) -> bool:
    """Whether the code of `die` lies at `pc`. A unit with several ranges of code counts addresses from 0."""
    low, high, ranges = (die.attributes.get(f"DW_AT_{name}") for name in ("low_pc", "high_pc", "ranges"))
    if low is not None and high is not None:
        return low.value <= pc < low.value + high.value
    if ranges is None:
        return False
    return any(r.begin_offset <= pc < r.end_offset for r in info.range_lists().get_range_list_at_offset(ranges.value))
