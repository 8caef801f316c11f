"""What a kernel takes of a compute unit, and what the work of one turn of its hot loop comes to."""

from __future__ import annotations

from dataclasses import dataclass

from xpaged.arch.model import IssueModel
from xpaged.arch.table import Arch
from xpaged.card.hot_loop import LoopFigures
from xpaged.codegen.code_object import KernelInfo
from xpaged.lowering.work import Work

_EVEN = 0.02  # a ratio that lies so close below a whole number is that number


@dataclass(frozen=True)
class Resources:
    """What a kernel takes: registers a lane (`vgprs` includes `agprs` on gfx90a and later), bytes of LDS a workgroup,
    bytes of scratch a lane. `waves_per_cu` is None on an architecture without a model."""

    vgprs: int
    agprs: int
    sgprs: int
    lds_bytes: int
    scratch_bytes: int
    vgpr_spills: int
    sgpr_spills: int
    workgroup: int
    waves_per_cu: int | None
    limited_by: str | None
    """What keeps more waves off a compute unit: `registers`, `lds` or `waves`, the most that there can be."""

    @staticmethod
    def of(kernel: KernelInfo, arch: Arch, model: IssueModel | None) -> Resources:
        """The resources of a kernel in an object."""
        waves, limit = (None, None) if model is None else _waves(kernel, arch, model)
        return Resources(
            *(kernel.vgprs, kernel.agprs, kernel.sgprs, kernel.lds, kernel.scratch),
            *(kernel.vgpr_spills, kernel.sgpr_spills, kernel.max_workgroup, waves, limit),
        )


def _waves(kernel: KernelInfo, arch: Arch, model: IssueModel) -> tuple[int, str]:
    """Waves of whole workgroups that a compute unit holds, and what limits them."""
    size = -(-kernel.max_workgroup // arch.wave_size)
    room = {
        "waves": model.max_waves * model.simds // size,
        "registers": model.waves_by_registers(kernel.vgprs) * model.simds // size,
        "lds": arch.lds_bytes // kernel.lds if kernel.lds else model.max_waves * model.simds,
    }
    limit = min(room, key=lambda name: room[name])
    return room[limit] * size, limit


@dataclass(frozen=True)
class Use:
    """What the work of one turn of the hot loop comes to, for one wave: query rows that count, keys that the wave goes
    through, flops of both products and bytes of K and V that these need (`least_bytes`: had no wave of the workgroup
    loaded what another one loads). Figures in clocks are None on an architecture without a model."""

    rows_per_wave: float
    keys_per_pass: int
    useful_flops: float
    kv_bytes: float
    least_bytes: float
    product_excess: float | None
    """Flops of the matrix instructions for each useful one: 1 when nothing is padding or done twice."""
    bytes_in_flight_per_cu: int | None
    """Bytes that the waves of a compute unit load in a turn."""
    clocks_per_kb: float | None
    """Clocks of a SIMD for each KB of K and V."""
    memory_clocks_per_kb: float | None
    """Clocks in which memory at full speed brings a SIMD its KB: a decode kernel is to stay below."""
    tflops_bound: float | None
    """What the whole part could do if nothing but this loop's busiest unit held it up."""

    @staticmethod
    def of(work: Work, loop: LoopFigures, waves: int | None, model: IssueModel | None) -> Use | None:
        """What a turn of `loop` is good for; None where it is less than a tile of keys (channels in chunks)."""
        tiles = _tiles(work, loop)
        if not tiles:
            return None
        flops, size = tiles * work.tile_flops, tiles * work.tile_bytes
        bound = loop.clocks.bound if loop.clocks is not None else None
        return Use(
            rows_per_wave=work.rows_per_wave,
            keys_per_pass=tiles * work.keys_per_tile,
            useful_flops=flops,
            kv_bytes=size,
            least_bytes=tiles * work.least_tile_bytes,
            product_excess=round(loop.matrix_flops / flops, 3) if loop.matrix_flops else None,
            bytes_in_flight_per_cu=None if waves is None else loop.loaded_bytes * waves,
            clocks_per_kb=round(1024 * bound / size, 2) if bound else None,
            memory_clocks_per_kb=None if model is None else round(1024 / model.memory_bytes_per_clock, 1),
            tflops_bound=round(flops / bound * model.simd_ghz / 1000, 1) if bound and model is not None else None,
        )


def _tiles(work: Work, loop: LoopFigures) -> int:
    """Tiles of keys that a turn covers: as many as both its products and its loads are made for, so that neither
    products nor loads that are done twice pass for more keys."""
    by_loads = loop.loaded_bytes / work.wave_tile_bytes
    by_products = loop.matrix_flops / work.padded_tile_flops if loop.matrix_flops else by_loads
    return int(min(by_loads, by_products) + _EVEN)
