"""The architecture table: the one place that knows what a GPU can do.

Wave size, LDS, registers and matrix instructions (with the lane layout of their operands) are read from here by
every pass, by the interpreter and by the HIP printer.  Sources of the lane layouts: AMD's matrix instruction
calculator for CDNA1-3 and RDNA3-4, and for gfx950 the tables that IREE and Triton publish; the reduction index of A
and B is a naming convention (see `MatrixInstruction`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from xpaged.errors import XpagedError, did_you_mean


@dataclass(frozen=True)
class MatrixInstruction:
    """D = A B + C on one wave: A is m x k, B is k x n, C and D are m x n.

    Lane l stands for row `l % m` of A, column `l % n` of B, and belongs to lane group `l // m`.  A lane holds
    `elements` values of A and of B; value e of group g is reduction index `elements * g + e`.  The hardware multiplies
    A(g, e) with B(g, e), so any bijection of (g, e) applied to both operands gives the same D.  With `copies` above 1
    that many groups next to each other must hold the same values, and count as one.

    D: lane l, register r holds column `l % n`.  Lane groups take turns on `block` rows each (None: all that a lane
    has): group g holds rows `block * g + (0 .. block - 1)` of each `block * groups`.
    """

    name: str
    m: int
    n: int
    k: int
    operand: str  # element type of A and B: f16, bf16, f32, i8
    accumulator: str  # element type of C and D: f32, i32
    elements: int  # values of A (and of B) a lane
    registers: int  # values of D a lane
    builtin: str  # the clang builtin that spells it
    clocks: int  # matrix clocks of one instruction on one SIMD
    call: str = "{a}, {b}, {c}, 0, 0, 0"  # the builtin's arguments
    packed: str | None = None  # the C type in which the builtin takes an operand, where it is no vector of elements
    copies: int = 1
    block: int | None = None

    @property
    def lanes(self) -> int:
        """Lanes of the wave."""
        return self.m * self.n // self.registers

    @property
    def operand_groups(self) -> int:
        """Lane groups that hold different reduction indices."""
        return self.lanes // self.m // self.copies

    @property
    def result_groups(self) -> int:
        """Lane groups that hold different rows of D."""
        return self.lanes // self.n

    @property
    def result_block(self) -> int:
        """Neighbouring rows of D that a lane holds in neighbouring registers."""
        return self.registers if self.block is None else self.block

    def operand_place(self, lane: int, element: int) -> tuple[int, int]:
        """Row of A (column of B) and reduction index of value `element` of a lane."""
        return lane % self.m, self.elements * (lane // self.m // self.copies) + element

    def result_place(self, lane: int, register: int) -> tuple[int, int]:
        """Row and column of D that value `register` of a lane is."""
        group = lane // self.n
        block = self.result_block
        return block * (register // block * self.result_groups + group) + register % block, lane % self.n


@dataclass(frozen=True)
class Arch:
    """One GPU architecture: limits in bytes and counts, matrix instructions in order of preference."""

    name: str
    part: str
    wave_size: int
    lds_bytes: int
    vgprs: int  # 32-bit registers of one lane; accumulation registers included where any value may be in them
    max_workgroup: int  # lanes
    matrix: tuple[MatrixInstruction, ...]

    @property
    def compute_units(self) -> int:
        """Compute units of the smallest usual part (of one die, where each die is a device)."""
        return _COMPUTE_UNITS[self.name]

    @property
    def converts_bf16(self) -> bool:
        """Whether one instruction rounds two f32 to bf16 (the compiler uses it for its own bf16 type)."""
        return self.name == "gfx950"

    def has_matrix(self, operand: str, rows: int) -> bool:
        """Whether there is an instruction with `rows` rows for operands of element type `operand`."""
        return any(i.operand == operand and i.m == rows for i in self.matrix)

    def matrix_instruction(self, operand: str, reduction: int = 0, rows: int = 16) -> MatrixInstruction:
        """The preferred instruction for operands of element type `operand` among those with `rows` rows that cut
        `reduction` indices into whole steps; refuses a type without one."""
        found = [i for i in self.matrix if i.operand == operand and i.m == rows and reduction % i.k == 0]
        if found:
            return found[0]
        of_type = [i for i in self.matrix if i.operand == operand]
        if of_type:
            raise XpagedError(
                f"{self.name} has no matrix instruction that multiplies {reduction} channels or keys of {operand}",
                found=reduction,
                expected=f"a multiple of {min(i.k for i in of_type)}",
            )
        raise XpagedError(
            f"{self.name} has no matrix instruction for {operand} operands",
            found=operand,
            expected=" or ".join(dict.fromkeys(i.operand for i in self.matrix)),
            fix="choose another element type or another --arch",
        )

    def reduction_step(self, operand: str) -> int:
        """The fewest reduction indices that one instruction for operands of type `operand` multiplies."""
        self.matrix_instruction(operand)  # refuses a type without one
        return min(i.k for i in self.matrix if i.operand == operand and i.m == 16)

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


def _mfma(operand: str, k: int, elements: int, suffix: str, clocks: int, packed: str = "") -> MatrixInstruction:
    """A 16x16 instruction of CDNA."""
    sums = "i32" if operand == "i8" else "f32"
    name, builtin = f"mfma_{sums}_16x16x{k}_{operand}", f"__builtin_amdgcn_mfma_{sums}_16x16x{k}{suffix}"
    return MatrixInstruction(name, 16, 16, k, operand, sums, elements, 4, builtin, clocks, packed=packed or None)


def _mfma32(operand: str, suffix: str, clocks: int) -> MatrixInstruction:
    """A 32x32x8 instruction of CDNA: a lane has four rows of every eight."""
    name, builtin = f"mfma_f32_32x32x8_{operand}", f"__builtin_amdgcn_mfma_f32_32x32x8{suffix}"
    return MatrixInstruction(name, 32, 32, 8, operand, "f32", 4, 16, builtin, clocks, block=4)


def _wmma11(operand: str, clocks: int) -> MatrixInstruction:
    """A 16x16x16 instruction of RDNA3: both halves of the wave hold all of A and of B."""
    if operand == "i8":
        builtin, sums, call = "wmma_i32_16x16x16_iu8_w32", "i32", "true, {a}, true, {b}, {c}, false"
    else:
        builtin, sums, call = f"wmma_f32_16x16x16_{operand}_w32", "f32", "{a}, {b}, {c}"
    return MatrixInstruction(
        f"wmma_{sums}_16x16x16_{operand}",
        *(16, 16, 16, operand, sums, 16, 8, f"__builtin_amdgcn_{builtin}", clocks, call),
        packed="i32x4" if operand == "i8" else None,
        copies=2,
        block=1,
    )


def _wmma12(operand: str, clocks: int) -> MatrixInstruction:
    """A 16x16x16 instruction of RDNA4."""
    if operand == "i8":
        builtin, sums, call = "wmma_i32_16x16x16_iu8_w32_gfx12", "i32", "true, {a}, true, {b}, {c}, false"
    else:
        builtin, sums, call = f"wmma_f32_16x16x16_{operand}_w32_gfx12", "f32", "{a}, {b}, {c}"
    return MatrixInstruction(
        f"wmma_{sums}_16x16x16_{operand}_gfx12",
        *(16, 16, 16, operand, sums, 8, 8, f"__builtin_amdgcn_{builtin}", clocks, call),
        packed="i32x2" if operand == "i8" else None,
    )


_F32 = _mfma("f32", 4, 1, "f32", 32)


def _cdna(name: str, part: str, lds: int, *matrix: MatrixInstruction, vgprs: int = 512) -> Arch:
    return Arch(name, part, 64, lds, vgprs, 1024, (*matrix, _F32))


def _rdna3(name: str, part: str) -> Arch:
    return Arch(name, part, 32, 65536, 256, 1024, tuple(_wmma11(t, 32) for t in ("f16", "bf16", "i8")))


def _rdna4(name: str, part: str) -> Arch:
    return Arch(name, part, 32, 65536, 256, 1024, tuple(_wmma12(t, 16) for t in ("f16", "bf16", "i8")))


_TABLE = (
    _cdna(
        *("gfx908", "MI100", 65536),
        _mfma("f16", 16, 4, "f16", 32),
        _mfma("bf16", 8, 2, "bf16", 32),
        _mfma("i8", 16, 4, "i8", 32, "int"),
        vgprs=256,
    ),
    _cdna(
        *("gfx90a", "MI210, MI250X", 65536),
        _mfma("f16", 16, 4, "f16", 32),
        _mfma("bf16", 16, 4, "bf16_1k", 32),
        _mfma("i8", 16, 4, "i8", 32, "int"),
        _mfma32("f16", "f16", 64),
        _mfma32("bf16", "bf16_1k", 64),
    ),
    _cdna(
        *("gfx942", "MI300X, MI325X", 65536),
        _mfma("f16", 16, 4, "f16", 16),
        _mfma("bf16", 16, 4, "bf16_1k", 16),
        _mfma("i8", 32, 8, "_i8", 16, "i64"),
        _mfma32("f16", "f16", 32),
        _mfma32("bf16", "bf16_1k", 32),
    ),
    _cdna(
        *("gfx950", "MI350X, MI355X", 163840),
        _mfma("f16", 32, 8, "_f16", 16),
        _mfma("f16", 16, 4, "f16", 16),
        _mfma("bf16", 32, 8, "_bf16", 16, "hw_bf16x8"),
        _mfma("bf16", 16, 4, "bf16_1k", 16),
        _mfma("i8", 64, 16, "_i8", 16, "i32x4"),
        _mfma("i8", 32, 8, "_i8", 16, "i64"),
        _mfma32("f16", "f16", 32),
        _mfma32("bf16", "bf16_1k", 32),
    ),
    _rdna3("gfx1100", "Radeon RX 7900"),
    _rdna3("gfx1101", "Radeon RX 7800"),
    _rdna3("gfx1102", "Radeon RX 7600"),
    _rdna3("gfx1103", "Ryzen 7040"),
    _rdna3("gfx1150", "Ryzen AI 300"),
    _rdna3("gfx1151", "Ryzen AI Max 300"),
    _rdna3("gfx1152", "Ryzen AI 300"),
    _rdna4("gfx1200", "Radeon RX 9060"),
    _rdna4("gfx1201", "Radeon RX 9070"),
)

_COMPUTE_UNITS = {
    **{"gfx908": 120, "gfx90a": 104, "gfx942": 304, "gfx950": 256},
    **{"gfx1100": 84, "gfx1101": 54, "gfx1102": 28, "gfx1103": 12, "gfx1150": 16, "gfx1151": 32, "gfx1152": 8},
    **{"gfx1200": 28, "gfx1201": 56},
}

DEFAULT_ARCH = "gfx942"

# Known names without matrix instructions that take f16: refused with the reason, not as unknown.
_NO_MATRIX = ("gfx900", "gfx906", "gfx1010", "gfx1030", "gfx1031", "gfx1032")
# Known names that the table lacks: another GPU's name is no slip of the pen.
_NOT_YET = ("gfx940", "gfx941", "gfx1250")


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
    alike = {each: next((n for n, (a, b) in enumerate(zip(chip, each, strict=False)) if a != b), 9) for each in archs()}
    guess = did_you_mean(chip, [each for each, shared in alike.items() if shared == max(alike.values())])
    raise XpagedError(
        f"unknown architecture '{chip}'",
        found=name,
        expected=", ".join(archs()),
        fix=guess or "choose one of these with --arch",
    )
