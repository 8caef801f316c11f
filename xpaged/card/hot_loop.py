"""What one turn of a loop is made of, for one wave: instructions, clocks of each unit, bytes and waits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from xpaged.arch.model import IssueModel
from xpaged.arch.table import Arch, MatrixInstruction
from xpaged.card.assembly import VECTOR_KINDS, Instruction, Loop
from xpaged.errors import XpagedError

_MATRIX = re.compile(r"v_\w*?(?:mfma|wmma)c?_[fi]32_(\d+)x(\d+)x(\d+)_?([a-z]+\d+)")
WIDE = 16  # bytes a lane: the widest access


@dataclass(frozen=True)
class LoopClocks:
    """Clocks of a SIMD that one turn of one wave takes of each unit. `vector` counts every instruction that the vector
    unit issues: `transcendental` ones and the first slot of matrix instructions too."""

    matrix: int
    vector: int
    transcendental: int
    lds: float
    memory: float
    """What bringing the loaded bytes takes of memory at full speed, had no cache any of them."""

    @property
    def bound(self) -> float:
        """The unit that is busy longest, memory aside: no turn is shorter."""
        return max(self.matrix, self.vector, self.lds)

    @property
    def bound_by(self) -> str:
        """Which unit that is: `matrix`, `vector` or `lds`."""
        units = {"matrix": self.matrix, "vector": self.vector, "lds": self.lds}
        return max(units, key=lambda unit: units[unit])


@dataclass(frozen=True)
class LoopFigures:
    """One turn of a loop for one wave. `mix` counts instructions by kind. Bytes are of all lanes of the wave. Loads are
    those of the vector unit, of page addresses too (8 bytes a lane) where lanes need their own. A share, of accesses of
    16 bytes a lane, is None where there is no such access; `vmcnt0_waits` are waits for all loads;
    `fewest_in_flight` is how many loads every wait leaves in flight, None where no wait is for loads; `clocks` is None
    on an architecture without a model."""

    label: str | None
    instructions: int
    mix: dict[str, int]
    matrix: dict[str, int]
    matrix_flops: int
    clocks: LoopClocks | None
    loads: int
    loaded_bytes: int
    wide_load_share: float | None
    lds_accesses: int
    wide_lds_share: float | None
    barriers: int
    vmcnt0_waits: int
    fewest_in_flight: int | None
    scratch_accesses: int

    @staticmethod
    def of(loop: Loop, arch: Arch, model: IssueModel | None) -> LoopFigures:
        """The figures of one turn on `arch`. Raises XpagedError for a matrix instruction that the table lacks."""
        every = loop.instructions
        mix = Counter(each.kind for each in every)
        products = Counter(_matrix(each, arch) for each in every if each.kind == "matrix")
        loads = [each.bytes for each in every if each.kind == "load"]
        shared = [each.bytes for each in every if each.kind in ("lds_read", "lds_write")]
        waits = [each.loads_left for each in every if each.loads_left is not None]
        return LoopFigures(
            label=loop.label,
            instructions=len(every),
            mix=dict(sorted(mix.items(), key=lambda entry: (-entry[1], entry[0]))),
            matrix={each.name: count for each, count in products.items()},
            matrix_flops=sum(2 * each.m * each.n * each.k * count for each, count in products.items()),
            clocks=None if model is None else _clocks(mix, products, loads, shared, arch, model),
            loads=len(loads),
            loaded_bytes=sum(loads) * arch.wave_size,
            wide_load_share=_share(loads),
            lds_accesses=len(shared),
            wide_lds_share=_share(shared),
            barriers=mix["barrier"],
            vmcnt0_waits=waits.count(0),
            fewest_in_flight=min(waits, default=None),
            scratch_accesses=mix["scratch"],
        )


def _clocks(
    mix: Counter[str],
    products: Counter[MatrixInstruction],
    loads: Iterable[int],
    shared: Iterable[int],
    arch: Arch,
    model: IssueModel,
) -> LoopClocks:
    lanes = arch.wave_size
    slow = model.slow_clocks * mix["transcendental"]
    plain = sum(mix[kind] for kind in (*VECTOR_KINDS, "matrix")) - mix["wide_product"]
    least = model.lds_least_bytes
    lds = sum(max(size, least) for size in shared) + least * mix["lds_exchange"]
    return LoopClocks(
        matrix=sum(each.clocks * count for each, count in products.items()),
        vector=model.vector_clocks * plain + model.slow_clocks * mix["wide_product"] + slow,
        transcendental=slow,
        lds=lds * lanes / model.lds_bytes_per_clock,
        memory=round(sum(loads) * lanes / model.memory_bytes_per_clock, 1),
    )


def _share(sizes: list[int]) -> float | None:
    """How many of these accesses have 16 bytes, of all."""
    return round(sum(size == WIDE for size in sizes) / len(sizes), 4) if sizes else None


def _matrix(instruction: Instruction, arch: Arch) -> MatrixInstruction:
    """The table's entry for a matrix instruction of the text."""
    if (found := _MATRIX.match(instruction.name)) is not None:
        sizes, operand = tuple(map(int, found.groups()[:3])), found[4].replace("iu8", "i8")
        for each in arch.matrix:
            if (each.m, each.n, each.k) == sizes and each.operand == operand:
                return each
    raise XpagedError(
        f"the table of {arch.name} lacks a matrix instruction that the kernel has",
        found=instruction.name,
        expected=", ".join(each.name for each in arch.matrix),
    )
