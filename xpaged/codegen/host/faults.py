"""What went wrong in a kernel that ran on the CPU, said with the line of its text and the MLIR location beside it."""

import re
import signal
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from xpaged.codegen.host.arena import Arena
from xpaged.codegen.host.build import LDS_END
from xpaged.codegen.host.symbols import line_at
from xpaged.errors import XpagedError


class HostFault(XpagedError):
    """
    A kernel that did not run to its end on the CPU. `line` (of its text) and `location` (of the MLIR) say where, when
    that is known; `address` is that of a bad access; `workgroup` and `thread` say who.
    """

    def __init__(self, what: str, *, found: str | None = None, fix: str | None = None) -> None:
        super().__init__(what, found=found, fix=fix)
        self.line: int | None = None
        self.location = ""
        self.workgroup: int | None = None
        self.thread: int | None = None
        self.address: int | None = None


class Outcome(IntEnum):
    """How a process ended, as system.h numbers it."""

    NOTHING = 0
    FINISHED = 1
    DIVERGED = 2
    BLOCK_DIVERGED = 3
    SIGNAL = 4
    UNDEFINED = 5
    OPERAND = 6
    SETUP = 7
    LDS_OVERRUN = 8


REPORT = np.dtype(
    [
        *((name, np.uint64) for name in ("outcome", "group", "thread", "pc", "other_thread", "other_pc")),
        *((name, np.uint64) for name in ("address", "detail", "other_detail", "line", "column", "nanoseconds")),
        *((name, "S64") for name in ("what", "other")),
    ]
)
"""What a process says of itself: `Report` of system.h."""

_OVERFLOW = 2  # how a process marks an access with the lane's stack overflown, instead of read or write


@dataclass(frozen=True)
class Text:
    """The text of a kernel, the file that it is called, and the program made from it."""

    kernel: str
    file: str
    lines: tuple[str, ...]
    program: Path

    def line_of(self, pc: int) -> int | None:
        """The line of the text that the machine instruction at `pc` was made from: of the kernel itself where helpers
        of the text were put in its place. None when it is not known."""
        return line_at(self.program, self.file, pc) if pc else None

    def code(self, line: int | None) -> str:
        """A line of the text."""
        return self.lines[line - 1].strip() if line is not None and 0 < line <= len(self.lines) else ""

    def location(self, line: int | None) -> str:
        """The MLIR location that the stage comment above a line gives."""
        for text in reversed(self.lines[: line or 0]):
            if found := re.match(r"\s*// ---- .*?-*\s(\S+:\d+:\d+)$", text):
                return found[1]
            if text.startswith('extern "C"'):
                break
        return ""


def explain(report: Any, text: Text, arena: Arena) -> HostFault:
    """The fault that a process reports of itself; `report` is a record of type `REPORT`."""
    outcome = Outcome(int(report["outcome"]))
    what, other = report["what"].decode(), report["other"].decode()
    thread, group = int(report["thread"]), int(report["group"])
    pc, detail = int(report["pc"]), int(report["detail"])
    line = text.line_of(pc if outcome is Outcome.SIGNAL else pc - 1 if pc else 0)
    found: str | None = None
    fix: str | None = None
    address: int | None = None
    match outcome:
        case Outcome.DIVERGED | Outcome.BLOCK_DIVERGED:
            there = text.line_of(int(report["other_pc"]) - 1 if report["other_pc"] else 0)
            parts = _standing(what, line), _standing(other, there)
            others = int(report["other_thread"])
            if outcome is Outcome.DIVERGED:
                message = "the lanes of a wave do not meet at one operation"
                found = f"thread {thread} is at {parts[0]}, thread {others} of its wave waits at {parts[1]}"
                fix = "move the operation out of the branch or loop that lanes leave at different times"
            else:
                message = "the waves of a workgroup do not meet at one barrier"
                found = f"the wave of thread {thread} is at {parts[0]}, the wave of thread {others} at {parts[1]}"
                fix = "move the barrier out of the branch or loop that waves leave at different times"
            if "s_barrier" in (what, other):
                message = f"a barrier is reached by only a part of a workgroup: {message}"
            barriers = [at for at, op in ((line, what), (there, other)) if at is not None and op == "s_barrier"]
            line = min(barriers, default=there if line is None else line)
        case Outcome.SIGNAL:
            message, address = _signal(report, arena)
        case Outcome.UNDEFINED:
            message = what
            own = int(report["line"])
            values = f"{_signed(detail)} and {_signed(int(report['other_detail']))}"
            address = detail if what.startswith("access") else None
            if address is not None:
                message = f"access to the misaligned address {address:#x}: {arena.locate(address)}"
            elif "sum" in what or "difference" in what or "product" in what:
                found = f"of {values}"
            elif "index" in what:
                found = f"index {_signed(detail)}"
            line = own if line is None and other.endswith(text.file) else line
        case Outcome.OPERAND:
            message = f"{what} does not have the operand {_signed(detail)}"
        case Outcome.LDS_OVERRUN:
            message = f"a write {int(report['address'])} bytes behind the end of LDS"
        case Outcome.SETUP:
            return HostFault(f"this machine refused {what}", found=f"error {detail} at {int(report['address']):#x}")
        case _:
            return HostFault(f"kernel '{text.kernel}' ended without saying why")
    code = text.code(line)
    shown = [found] if found is not None else []
    if code:
        shown.append(f"line {line}: {code}")
    fault = HostFault(f"kernel '{text.kernel}', workgroup {group}, thread {thread}: {message}", fix=fix)
    fault.found = "\n    ".join(shown) or None
    fault.line, fault.location = line, text.location(line)
    fault.workgroup, fault.thread, fault.address = group, thread, address
    place = f"{text.file}:{line}" if line is not None else text.file
    return _at(fault, f"{place} ({fault.location})" if fault.location else place)


def _at(fault: HostFault, where: str) -> HostFault:
    fault.locate(where)
    return fault


def _standing(what: str, line: int | None) -> str:
    what = what.removeprefix("__builtin_amdgcn_")
    return what if line is None else f"{what} in line {line}"


def _signed(word: int) -> int:
    """A 64-bit word, or a 32-bit one that was handed over in it, with its sign."""
    if word >> 32 == 0:
        return word - (word >> 31 << 32)
    return word - (word >> 63 << 64)


def _signal(report: Any, arena: Arena) -> tuple[str, int | None]:
    number, access, address = int(report["detail"]), int(report["other_detail"]), int(report["address"])
    if number in (signal.SIGSEGV, signal.SIGBUS):
        if number == signal.SIGSEGV and address == 0 and access != _OVERFLOW:
            return "access to an address that no pointer may have, or to a misaligned one", None
        if access == _OVERFLOW:
            return "the lane's stack is full", None
        behind = address - LDS_END
        where = f"{behind} bytes past the end of LDS" if 0 <= behind < LDS_END else arena.locate(address)
        return f"{'write' if access else 'read'} at {address:#x}: {where}", address
    return f"the CPU refused an instruction ({signal.Signals(number).name})", None
