"""The architecture table: the one place that knows what a GPU can do.

Wave size, LDS, registers and matrix instructions (with the lane layout of their operands) are read from here by
every pass, by the interpreter and by the HIP printer.  Sources of the lane layouts: AMD's matrix instruction
calculator for CDNA1-3; the reduction index of A and B is a naming convention (see `MatrixInstruction`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from xpaged.errors import XpagedError, did_you_mean


@dataclass(frozen=True)
class MatrixInstruction:
    """D = A B + C on one wave: A is m x k, B is k x n, C and D are m x n.

    `lanes` is the number of lanes that hold different rows of A (columns of B); lane l stands for row `l % m` of A,
    column `l % n` of B, and belongs to reduction group `g = l // m`.  A lane holds `elements` values of A and of B;
    value e of group g is reduction index `elements * g + e`.  The hardware multiplies A(g, e) with B(g, e), so any
    bijection of (g, e) applied to both operands gives the same D.

    D: lane l, register r holds column `l % n` and row `rows_per_group * g + r` when all `registers` of a lane are
    neighbours (the 16x16 shapes).
    """

    name: str
    m: int
    n: int
    k: int
    operand: str  # element type of A and B: f16, bf16, f32
    accumulator: str  # element type of C and D
    elements: int  # values of A (and of B) a lane
    registers: int  # values of D a lane
    builtin: str  # the clang builtin that spells it
    clocks: int  # matrix clocks of one instruction on one SIMD

    def operand_place(self, lane: int, element: int) -> tuple[int, int]:
        """Row of A (column of B) and reduction index of value `element` of a lane."""
        return lane % self.m, self.elements * (lane // self.m) + element

    def result_place(self, lane: int, register: int) -> tuple[int, int]:
        """Row and column of D that value `register` of a lane is."""
        return self.registers * (lane // self.n) + register, lane % self.n


@dataclass(frozen=True)
class Arch:
    """One GPU architecture: limits in bytes and counts, matrix instructions in order of preference."""

    name: str
    part: str
    wave_size: int
    lds_bytes: int
    vgprs: int  # 32-bit registers of one lane, accumulation registers included
    max_workgroup: int  # lanes
    matrix: tuple[MatrixInstruction, ...]

    def matrix_instruction(self, operand: str) -> MatrixInstruction:
        """The preferred instruction for operands of element type `operand`; refuses a type without one."""
        for instruction in self.matrix:
            if instruction.operand == operand:
                return instruction
        raise XpagedError(
            f"{self.name} has no matrix instruction for {operand} operands",
            found=operand,
            expected=" or ".join(dict.fromkeys(i.operand for i in self.matrix)),
            fix="choose another element type or another --arch",
        )

    def instruction(self, name: str) -> MatrixInstruction:
        """The instruction called `name`; refuses a name that this architecture does not have."""
        for instruction in self.matrix:
            if instruction.name == name:
                return instruction
        raise XpagedError(
            f"{self.name} has no matrix instruction {name}",
            expected=", ".join(i.name for i in self.matrix),
            fix="compile for an architecture that has it",
        )


def _mfma16(operand: str, k: int, elements: int, builtin: str, clocks: int) -> MatrixInstruction:
    return MatrixInstruction(
        f"mfma_f32_16x16x{k}_{operand}", 16, 16, k, operand, "f32", elements, 4, f"__builtin_amdgcn_{builtin}", clocks
    )


_F32 = _mfma16("f32", 4, 1, "mfma_f32_16x16x4f32", 32)

_TABLE = (
    Arch(
        "gfx90a",
        "MI210, MI250X",
        64,
        65536,
        512,
        1024,
        (
            _mfma16("f16", 16, 4, "mfma_f32_16x16x16f16", 32),
            _mfma16("bf16", 16, 4, "mfma_f32_16x16x16bf16_1k", 32),
            _F32,
        ),
    ),
    Arch(
        "gfx942",
        "MI300X, MI325X",
        64,
        65536,
        512,
        1024,
        (
            _mfma16("f16", 16, 4, "mfma_f32_16x16x16f16", 16),
            _mfma16("bf16", 16, 4, "mfma_f32_16x16x16bf16_1k", 16),
            _F32,
        ),
    ),
)

DEFAULT_ARCH = "gfx942"

# Known names without matrix instructions that take f16: refused with the reason, not as unknown.
_NO_MATRIX = ("gfx900", "gfx906", "gfx1010", "gfx1030", "gfx1031", "gfx1032")
# Known names that the table lacks: another GPU's name is no slip of the pen.
_NOT_YET = ("gfx908", "gfx940", "gfx941", "gfx950", "gfx1100", "gfx1101", "gfx1102", "gfx1200", "gfx1201")


@cache
def archs() -> dict[str, Arch]:
    """All architectures by name."""
    return {arch.name: arch for arch in _TABLE}


@cache
def _instructions() -> dict[str, MatrixInstruction]:
    return {instruction.name: instruction for arch in _TABLE for instruction in arch.matrix}


def instruction_named(name: str) -> MatrixInstruction | None:
    """The instruction called `name` on any architecture (its shape and lane layout; `clocks` differ); None: unknown."""
    return _instructions().get(name)


def instruction_names() -> tuple[str, ...]:
    """The names of all matrix instructions of all architectures."""
    return tuple(_instructions())


def get_arch(name: str) -> Arch:
    """The architecture of a plain name (`gfx942`) or a full target (`amdgcn-amd-amdhsa:gfx942:sramecc+:xnack-`).

    Refuses unknown names, and known ones without matrix instructions.
    """
    parts = [part for part in name.strip().split(":") if part]
    chips = [part for part in parts if part.startswith("gfx")]
    if not chips and parts and "gfx" in parts[0]:  # amdgcn-amd-amdhsa--gfx942
        chips = [parts[0].rsplit("-", 1)[-1]]
    chip = chips[0] if chips else name
    if chip in archs():
        return archs()[chip]
    if chip in _NO_MATRIX:
        raise XpagedError(
            f"{chip} has no matrix instructions, which attention kernels need",
            found=name,
            expected=", ".join(archs()),
            fix="choose one of these with --arch",
        )
    if chip in _NOT_YET:
        raise XpagedError(
            f"{chip} is not supported yet",
            found=name,
            expected=", ".join(archs()),
            fix="choose one of these with --arch",
        )
    guess = did_you_mean(chip, list(archs()))
    raise XpagedError(
        f"unknown architecture '{chip}'",
        found=name,
        expected=", ".join(archs()),
        fix=guess or "choose one of these with --arch",
    )
