"""The performance card of compiled kernels: from the assembly, the object and the work to figures and to JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from xpaged.arch.model import MEMORY_LATENCY_NS, IssueModel, issue_model
from xpaged.arch.table import Arch
from xpaged.card.advice import advice
from xpaged.card.assembly import read_assembly
from xpaged.card.hot_loop import LoopFigures
from xpaged.card.use import Resources, Use
from xpaged.codegen.code_object import CodeObject
from xpaged.codegen.launch import Launch, LaunchDescription
from xpaged.errors import XpagedError
from xpaged.lowering.work import Work

VERSION = 1


@dataclass(frozen=True)
class Roofline:
    """The whole problem on the whole part, once: how long memory, latency and the compute units take at the least.
    K, V, Q and the output come from memory once; no KV index shortens the sequences."""

    flops: int
    bytes: int
    memory_us: float
    latency_us: float
    """At the rate at which the loads that are in flight at once come back, each after the latency of memory."""
    issue_us: float
    """Turns of the hot loop, one workgroup after the other on the unit that has most of them."""
    time_us: float
    bound_by: str
    tflops: float
    gb_per_second: float

    @staticmethod
    def of(work: Work, use: Use, loop: LoopFigures, launch: Launch, waves: int, model: IssueModel) -> Roofline:
        """The least times of one launch."""
        assert loop.clocks is not None
        groups = launch.grid[0] * launch.grid[1] * launch.grid[2]
        size = work.query_waves * work.key_waves
        turns = -(-work.tiles * work.keys_per_tile // use.keys_per_pass)
        rounds = -(-groups // model.compute_units) * -(-size // model.simds)
        at_once = min(groups, model.compute_units * max(1, waves // size)) * size * loop.loaded_bytes
        moved = groups * size * turns * loop.loaded_bytes
        times = {
            "memory": work.bytes / model.memory_gbs / 1e3,
            "latency": moved / max(1, at_once) * MEMORY_LATENCY_NS / 1e3,
            loop.clocks.bound_by: rounds * turns * loop.clocks.bound / model.ghz / 1e3,
        }
        limit = max(times, key=lambda name: times[name])
        time = times[limit]
        return Roofline(
            flops=work.flops,
            bytes=work.bytes,
            memory_us=round(times["memory"], 2),
            latency_us=round(times["latency"], 2),
            issue_us=round(times[loop.clocks.bound_by], 2),
            time_us=round(time, 2),
            bound_by=limit,
            tflops=round(work.flops / time / 1e6, 1),
            gb_per_second=round(work.bytes / time / 1e3, 1),
        )


@dataclass(frozen=True)
class KernelCard:
    """The card of one kernel. `loop` is None where it has none. `works`: its work is known (it is attention
    and came in at level rock-memref or above); `use` and `roofline` are None where not, or where the hot loop is a part
    of what is done for a tile of keys; `roofline` also on an architecture without a model."""

    kernel: str
    grid: int
    resources: Resources
    loop: LoopFigures | None
    works: bool
    use: Use | None
    roofline: Roofline | None
    advice: tuple[str, ...]


@dataclass(frozen=True)
class Card:
    """The cards of the kernels of one program, compiled for one architecture by one compiler. `part` is the GPU whose
    clock, memory and compute units are taken, None where the architecture has no model."""

    name: str
    arch: str
    compiler: str
    part: str | None
    kernels: tuple[KernelCard, ...]

    def to_dict(self) -> dict[str, Any]:
        """The card as plain data: the names of the fields are the keys; clocks get the figures that follow."""
        data: dict[str, Any] = {"version": VERSION, **asdict(self)}
        for entry, kernel in zip(data["kernels"], self.kernels, strict=True):
            if kernel.loop is not None and (clocks := kernel.loop.clocks) is not None:
                entry["loop"]["clocks"] |= {"bound": clocks.bound, "bound_by": clocks.bound_by}
        return data

    def to_json(self) -> str:
        """The text of `card.json`."""
        import json

        return json.dumps(self.to_dict(), indent=2) + "\n"

    def to_text(self) -> str:
        """The card for a reader."""
        from xpaged.card.text import card_text

        return card_text(self)


def make_card(
    name: str,
    arch: Arch,
    compiler: str,
    asm: str,
    code: CodeObject,
    launch: LaunchDescription,
    works: Mapping[str, Work],
) -> Card:
    """
    The card of the kernels that `launch` describes, from what a compiler made of them; `works` says what those that are
    attention have to do, by name.

    Raises XpagedError when the assembly lacks a kernel, or has a matrix instruction that the architecture lacks.
    """
    functions, model = read_assembly(asm), issue_model(arch.name)
    cards: list[KernelCard] = []
    for each in launch.launches:
        if each.kernel not in functions:
            raise XpagedError(
                f"the assembly has no kernel '{each.kernel}'", expected=", ".join(functions) or "text with functions"
            )
        resources = Resources.of(code.kernel(each.kernel), arch, model)
        hot = functions[each.kernel].hot_loop
        loop = None if hot is None else LoopFigures.of(hot, arch, model)
        work = works.get(each.kernel)
        waves = resources.waves_per_cu
        use = None if work is None or loop is None else Use.of(work, loop, waves, model)
        roofline = None
        if work is not None and loop is not None and use is not None and waves is not None and model is not None:
            roofline = Roofline.of(work, use, loop, each, waves, model)
        grid = each.grid[0] * each.grid[1] * each.grid[2]
        improve = advice(resources, loop, use, model)
        cards.append(KernelCard(each.kernel, grid, resources, loop, work is not None, use, roofline, improve))
    return Card(name, arch.name, compiler, None if model is None else model.part, tuple(cards))
