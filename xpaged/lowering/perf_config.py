"""Tuning parameters as rocMLIR writes them, `attn:v3:32,32,32,...`: what their numbers mean, and what they mean here.

A string counts the sizes of the transposed products that rocMLIR computes: its M is keys, its N query rows.

    v3   mPerBlockG0, mPerBlockG1, nPerBlockG0, kpackPerBlock, mPerWave, nPerWave, mnPerXdl, kpack, splitKFactor,
         scheduleVersion, outputSwizzle, wavesPerEU, forceUnroll; some strings leave wavesPerEU out
    v2   mPerBlockG0, mPerBlockG1, nPerBlockG0, kpackPerBlock, mPerWave, mnPerXdl, kpack, splitKFactor,
         scheduleVersion, outputSwizzle, forceUnroll
    v1   mPerBlockG0, mPerBlockG1, nPerBlockG0, kpackPerBlock, mPerWave, mnPerXdl, kpack, forceUnroll

xpaged takes the keys and query rows of a tile and the schedule from it; the rest steers instructions that it chooses by
itself. `SCHEDULES` is the one table from the schedules of rocMLIR to those of xpaged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from xpaged.errors import XpagedError

DEFAULT = "attn:v3:32,32,32,32,32,32,16,1,1,1,2,0,1"
"""The string that rocMLIR starts from."""

_V3 = (
    *("mPerBlockG0", "mPerBlockG1", "nPerBlockG0", "kpackPerBlock", "mPerWave", "nPerWave", "mnPerXdl", "kpack"),
    *("splitKFactor", "scheduleVersion", "outputSwizzle", "wavesPerEU", "forceUnroll"),
)
_FIELDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "v3": (_V3, tuple(name for name in _V3 if name != "wavesPerEU")),
    "v2": (tuple(name for name in _V3 if name not in ("nPerWave", "wavesPerEU")),),
    "v1": ((*_V3[:5], *_V3[6:8], "forceUnroll"),),
}
"""The numbers of each version, in order; some versions come in two lengths."""

_POSITIVE = ("mPerBlockG0", "mPerBlockG1", "nPerBlockG0")


@dataclass(frozen=True)
class Schedule:
    """
    What a `scheduleVersion` is called in rocMLIR, and what it is here: with `stages = 2` K is loaded a turn of the key
    loop ahead. `instead` says what is done where the schedule asks for something else.
    """

    name: str
    stages: int
    instead: str | None = None


_TO_REGISTERS = "pages are loaded straight to the registers of the matrix instructions, and not to LDS"
SCHEDULES: dict[int, Schedule] = {
    1: Schedule("Default", 1),
    2: Schedule("DoubleBuffer", 2),
    3: Schedule("DirectToLDSDefault", 1, _TO_REGISTERS),
    4: Schedule("DirectToLDSDoubleBuffer", 2, _TO_REGISTERS),
}
"""The schedules of rocMLIR by `scheduleVersion`: the one table that maps them to those of xpaged."""


@dataclass(frozen=True)
class PerfConfig:
    """A tuning string: its version, and its numbers by name."""

    version: str
    numbers: dict[str, int]

    @staticmethod
    def parse(text: str, at: Operation | None = None) -> PerfConfig:
        """The parameters that `text` holds. Raises XpagedError, at the operation `at`, for anything else."""
        parts = text.split(":")
        numbers = parts[-1].split(",")
        forms = _FIELDS.get(parts[1], ()) if len(parts) == 3 and parts[0] == "attn" else ()
        names = next((form for form in forms if len(form) == len(numbers)), None)
        if names is None:
            raise XpagedError(
                "malformed perf_config",
                at=at,
                found=text,
                expected="attn:v3: and 13 (or 12) numbers, attn:v2: and 11, or attn:v1: and 8",
                fix=f"for example {DEFAULT}, or leave it out",
            )
        if not all(n.strip().isascii() and n.strip().isdigit() for n in numbers):
            raise XpagedError("a perf_config holds whole numbers of 0 or more", at=at, found=text)
        values = {name: int(n) for name, n in zip(names, numbers, strict=True)}
        for name in _POSITIVE:
            if values[name] < 1:
                raise XpagedError("a perf_config holds whole numbers, the first three at least 1", at=at, found=text)
        config = PerfConfig(parts[1], values)
        _check_split(config, at, text)
        _check_schedule(config.schedule_version, at)
        return config

    @property
    def keys(self) -> int:
        """Keys of a tile."""
        return self.numbers["mPerBlockG0"]

    @property
    def rows(self) -> int:
        """Query rows of a tile."""
        return self.numbers["nPerBlockG0"]

    @property
    def schedule_version(self) -> int:
        """`scheduleVersion`; 1 where the string is from before schedules."""
        return self.numbers.get("scheduleVersion", 1)

    @property
    def stages(self) -> int | None:
        """Stages of the key loop that the schedule asks for; None where the string names no schedule."""
        return SCHEDULES[self.schedule_version].stages if "scheduleVersion" in self.numbers else None

    @property
    def text(self) -> str:
        """The string again."""
        return f"attn:{self.version}:{','.join(map(str, self.numbers.values()))}"

    def with_schedule(self, version: int) -> PerfConfig:
        """The same with another schedule. Raises XpagedError where there is none, or the string has no place for it."""
        _check_schedule(version, None)
        if "scheduleVersion" not in self.numbers:
            raise XpagedError(
                f"a perf_config of {self.version} names no schedule",
                found=f"{self.text} and schedule version {version}",
                fix="write it as attn:v2 or attn:v3",
            )
        return replace(self, numbers={**self.numbers, "scheduleVersion": version})

    def note(self) -> str | None:
        """What is done in place of the schedule that is asked for; None when it is done as asked."""
        schedule = SCHEDULES[self.schedule_version]
        if schedule.instead is None:
            return None
        return f"schedule version {self.schedule_version} ({schedule.name}): {schedule.instead}"


def _check_split(config: PerfConfig, at: Operation | None, text: str) -> None:
    split = config.numbers.get("splitKFactor", 1)
    if split != 1:
        raise XpagedError(
            "splitKFactor is for products of matrices: attention is split over the keys by splitKV",
            at=at,
            found=f"splitKFactor = {split} in {text}",
            expected="splitKFactor = 1",
        )


def _check_schedule(version: int, at: Operation | None) -> None:
    if version not in SCHEDULES:
        known = ", ".join(f"{number} ({schedule.name})" for number, schedule in SCHEDULES.items())
        raise XpagedError("unknown schedule version", at=at, found=version, expected=known)


def config_of(op: Operation) -> PerfConfig | None:
    """The perf_config of an attention or, failing that, of the function around it; None without one."""
    found: object = op.attributes.get("perf_config")
    function = op.parent_op()
    if found is None and isinstance(function, FuncOp):
        found = function.attributes.get("perf_config")
    if found is None:
        return None
    return PerfConfig.parse(found.data if isinstance(found, StringAttr) else str(found), op)


def notes_of(module: Operation) -> list[str]:
    """What is done in place of the schedules that attentions ask for; malformed strings are left to the passes."""
    notes: list[str] = []
    for op in module.walk():
        if op.name == "rock.attention":
            try:
                config = config_of(op)
            except XpagedError:
                continue
            note = None if config is None else config.note()
            if note is not None and note not in notes:
                notes.append(note)
    return notes
