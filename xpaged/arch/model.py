"""How fast one compute unit issues instructions, and what a part moves: the figures behind the performance card.

Clocks of matrix instructions stand in the table (`MatrixInstruction.clocks`); here is everything else.  CDNA: a SIMD
issues one vector instruction of a wave in 4 clocks; transcendental functions and 32-bit integer products take 16; a
matrix instruction takes one such issue slot and then runs beside other instructions; LDS moves 128 bytes a clock for
the four SIMDs of a compute unit.  Sources: AMD's CDNA ISA documents and data sheets of the parts.  No figure was
measured on a device: they rank kernels of one kind, and tell no time to the percent.  RDNA has no model yet.
"""

from __future__ import annotations

from dataclasses import dataclass

MEMORY_LATENCY_NS = 800  # assumed, from the load to the data, under load


@dataclass(frozen=True)
class IssueModel:
    """Rates of one SIMD of a part, in clocks; sizes of its register file; the part's clock and memory."""

    part: str  # one die, where each die is a device
    compute_units: int
    ghz: float
    memory_gbs: int  # GB a second, 10^9 bytes
    registers: int = 512  # of a lane, shared by the waves of a SIMD
    register_step: int = 8  # in which they are given out
    max_waves: int = 8  # of a SIMD
    simds: int = 4  # of a compute unit
    vector_clocks: int = 4
    slow_clocks: int = 16  # transcendental functions and 32-bit integer products
    lds_bytes_per_clock: int = 32  # for one SIMD
    lds_least_bytes: int = 4  # a bank, however narrow the access of a lane is

    @property
    def memory_bytes_per_clock(self) -> float:
        """Bytes that memory at full speed brings each SIMD in a clock."""
        return self.memory_gbs / (self.compute_units * self.simds * self.ghz)

    @property
    def simd_ghz(self) -> float:
        """Clocks of all SIMDs of the part together, 10^9 a second."""
        return self.compute_units * self.simds * self.ghz

    def waves_by_registers(self, registers: int) -> int:
        """Waves of a SIMD that have room with so many registers a lane."""
        taken = max(self.register_step, -(-registers // self.register_step) * self.register_step)
        return min(self.max_waves, self.registers // taken)


_MODELS = {
    "gfx908": IssueModel("MI100", 120, 1.502, 1229, registers=256, register_step=4, max_waves=10),
    "gfx90a": IssueModel("MI250X, one die", 110, 1.7, 1638),
    "gfx942": IssueModel("MI300X", 304, 2.1, 5300),
    "gfx950": IssueModel("MI355X", 256, 2.4, 8000),
}


def issue_model(arch: str) -> IssueModel | None:
    """The model of an architecture; None where there is none."""
    return _MODELS.get(arch)
