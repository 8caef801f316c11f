"""What went wrong in a kernel that ran on the CPU, said with the line of its text and the MLIR location beside it."""

import os
import re
import signal
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from xpaged.codegen.host.arena import Arena
from xpaged.codegen.host.build import LDS_END
from xpaged.codegen.host.symbols import line_table
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
        return line_table(self.program, self.file).line_of(pc) if pc else None

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


@dataclass
class _Finding:
    """What is wrong, the line where it shows, and details."""

    message: str
    line: int | None
    detail: str | None = None
    fix: str | None = None
    address: int | None = None


def explain(report: Any, text: Text, arena: Arena) -> HostFault:
    """The fault that a process reports of itself; `report` is a record of type `REPORT`."""
    group, thread = int(report["group"]), int(report["thread"])
    match Outcome(int(report["outcome"])):
        case Outcome.DIVERGED:
            finding = _diverged(report, text, of_waves=False)
        case Outcome.BLOCK_DIVERGED:
            finding = _diverged(report, text, of_waves=True)
        case Outcome.SIGNAL:
            finding = _signal(report, text, arena)
        case Outcome.UNDEFINED:
            finding = _undefined(report, text, arena)
        case Outcome.OPERAND:
            what, value = _operation(report["what"]), _signed(report["detail"])
            finding = _Finding(f"{what} does not have the operand {value}", _called_at(report["pc"], text))
        case Outcome.LDS_OVERRUN:
            distance = int(report["address"])
            fault = HostFault(
                f"kernel '{text.kernel}', workgroup {group}: a write {distance} bytes behind the end of LDS"
            )
            fault.workgroup = group
            return fault
        case _:
            what, error = report["what"].decode(), int(report["detail"])
            return HostFault(
                f"kernel '{text.kernel}' could not begin: this machine refused {what}",
                found=f"{os.strerror(error)} at {int(report['address']):#x}",
            )
    line = finding.line
    shown = [finding.detail, f"line {line}: {text.code(line)}" if text.code(line) else None]
    fault = HostFault(
        f"kernel '{text.kernel}', workgroup {group}, thread {thread}: {finding.message}",
        found="\n    ".join(part for part in shown if part is not None) or None,
        fix=finding.fix,
    )
    fault.line, fault.location = line, text.location(line)
    fault.workgroup, fault.thread, fault.address = group, thread, finding.address
    place = f"{text.file}:{line}" if line is not None else text.file
    fault.locate(f"{place} ({fault.location})" if fault.location else place)
    return fault


def _called_at(pc: Any, text: Text) -> int | None:
    """The line of the call that returns to `pc`."""
    return text.line_of(int(pc) - 1) if pc else None


def _operation(what: bytes) -> str:
    return what.decode().removeprefix("__builtin_amdgcn_")


def _diverged(report: Any, text: Text, *, of_waves: bool) -> _Finding:
    """Lanes, or waves, that wait at different places."""
    here = _operation(report["what"]), _called_at(report["pc"], text)
    there = _operation(report["other"]), _called_at(report["other_pc"], text)
    shown = [what if line is None else f"{what} in line {line}" for what, line in (here, there)]
    thread, other = int(report["thread"]), int(report["other_thread"])
    barriers = [line for what, line in (here, there) if what == "s_barrier" and line is not None]
    line = min(barriers, default=here[1] if there[1] is None else there[1])
    part = "a barrier is reached by only a part of a workgroup: " if barriers else ""
    if of_waves:
        return _Finding(
            f"{part}the waves of a workgroup do not meet at one barrier",
            line,
            f"the wave of thread {thread} is at {shown[0]}, the wave of thread {other} at {shown[1]}",
            "move the barrier out of the branch or loop that waves leave at different times",
        )
    return _Finding(
        f"{part}the lanes of a wave do not meet at one operation",
        line,
        f"thread {thread} is at {shown[0]}, thread {other} of its wave waits at {shown[1]}",
        "move the operation out of the branch or loop that lanes leave at different times",
    )


def _signal(report: Any, text: Text, arena: Arena) -> _Finding:
    """A bad access, or a bad instruction."""
    number, access, address = int(report["detail"]), int(report["other_detail"]), int(report["address"])
    line = text.line_of(int(report["pc"]))
    if number not in (signal.SIGSEGV, signal.SIGBUS):
        return _Finding(f"the CPU refused an instruction ({signal.Signals(number).name})", line)
    if access == _OVERFLOW:
        return _Finding("the lane's stack is full", line)
    if address == 0:
        return _Finding("access to an address that no pointer may have", line)
    behind = address - LDS_END
    where = f"{behind} bytes past the end of LDS" if 0 <= behind < LDS_END else arena.locate(address)
    return _Finding(f"{'write' if access else 'read'} at {address:#x}: {where}", line, address=address)


def _undefined(report: Any, text: Text, arena: Arena) -> _Finding:
    """What C++ leaves undefined, as a check of the compiler found it."""
    what, values = report["what"].decode(), (_signed(report["detail"]), _signed(report["other_detail"]))
    line = _called_at(report["pc"], text)
    if line is None and report["other"].decode().endswith(text.file):
        line = int(report["line"])
    if what.startswith("access"):
        address = int(report["detail"])
        where = arena.locate(address)
        return _Finding(f"access to the misaligned address {address:#x}: {where}", line, address=address)
    if what.startswith("overflow of a") and "negation" not in what:
        return _Finding(what, line, f"of {values[0]} and {values[1]}")
    return _Finding(what, line, f"index {values[0]}" if what.startswith("index") else None)


def _signed(word: Any) -> int:
    """A 64-bit word, or a 32-bit one that was handed over in it, with its sign."""
    word = int(word)
    if word >> 32 == 0:
        return word - (word >> 31 << 32)
    return word - (word >> 63 << 64)
