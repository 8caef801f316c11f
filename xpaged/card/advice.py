"""What would make a kernel faster, in sentences, as far as its card shows it; the gravest first."""

from __future__ import annotations

from xpaged.arch.model import IssueModel
from xpaged.card.assembly import VECTOR_KINDS
from xpaged.card.hot_loop import LoopFigures
from xpaged.card.use import Resources, Use
from xpaged.lowering.geometry import INSTRUCTION_ROWS

_EXCESS = 1.05  # flops issued for each useful one: more is worth a sentence
_CLOSE = 1.1  # a unit that is busy so much longer than the next one is what binds


def advice(
    resources: Resources, loop: LoopFigures | None, use: Use | None, model: IssueModel | None
) -> tuple[str, ...]:
    """Sentences for a kernel; none where nothing stands out."""
    found = _memory_of_lanes(resources)
    if loop is not None:
        found += _waits(loop)
        if loop.clocks is not None and use is not None:
            found += _units(loop, use)
        found += _widths(loop)
    return tuple(found + _waves(resources, model))


def _memory_of_lanes(resources: Resources) -> list[str]:
    if resources.scratch_bytes or resources.vgpr_spills:
        return [f"{resources.vgpr_spills} registers are spilled: smaller tiles keep everything in registers"]
    return []


def _waits(loop: LoopFigures) -> list[str]:
    if loop.vmcnt0_waits:
        times = "once" if loop.vmcnt0_waits == 1 else f"{loop.vmcnt0_waits} times"
        return [f"the hot loop waits for all of its loads {times} a turn: nothing is in flight then"]
    return []


def _widths(loop: LoopFigures) -> list[str]:
    found: list[str] = []
    if loop.wide_load_share is not None and loop.wide_load_share < 1:
        narrow = round(loop.loads * (1 - loop.wide_load_share))
        found.append(f"{narrow} of {loop.loads} loads of a turn have less than 16 bytes a lane")
    if loop.wide_lds_share is not None and loop.wide_lds_share < 1:
        narrow = round(loop.lds_accesses * (1 - loop.wide_lds_share))
        found.append(f"{narrow} of {loop.lds_accesses} LDS accesses of a turn have less than 16 bytes a lane")
    return found


def _units(loop: LoopFigures, use: Use) -> list[str]:
    """What binds, where it is not what has to bind: memory for few query rows, products for many."""
    clocks = loop.clocks
    assert clocks is not None
    if use.clocks_per_kb is not None and use.memory_clocks_per_kb is not None:
        spare = use.memory_clocks_per_kb / use.clocks_per_kb
        if spare >= 1 and use.rows_per_wave < INSTRUCTION_ROWS:
            return [f"memory binds: its full speed leaves {spare:.1f} times the clocks that the loop takes"]
    if clocks.bound_by == "matrix":
        if use.product_excess is not None and use.product_excess > _EXCESS:
            return [f"matrix instructions bind, and {use.product_excess:.2f} products are made for each useful one"]
        return ["matrix instructions bind, and none is wasted: only fewer products would help"]
    next_clocks = sorted((clocks.matrix, clocks.vector, clocks.lds))[-2]
    much = f"{clocks.bound / next_clocks:.2f} times the next unit's clocks" if next_clocks else "nothing else is busy"
    if clocks.bound < _CLOSE * next_clocks:
        much = "barely more than the next unit"
    if clocks.bound_by == "lds":
        return [f"LDS binds ({much}): more query rows a wave, or fewer or wider accesses"]
    kinds = {kind: loop.mix.get(kind, 0) for kind in VECTOR_KINDS}
    most = max(kinds, key=lambda kind: kinds[kind])
    what = {"vector": "arithmetic", "convert": "conversions and permutes", "wide_product": "32-bit products"}
    named = what.get(most, "moves between registers")
    return [f"vector instructions bind ({much}); most are {named}, {kinds[most]} of {sum(kinds.values())}"]


def _waves(resources: Resources, model: IssueModel | None) -> list[str]:
    if model is None or resources.waves_per_cu is None:
        return []
    if resources.limited_by == "registers" and (held := model.waves_by_registers(resources.vgprs)) < 4:
        most = model.registers // (held + 1) // model.register_step * model.register_step
        return [f"{resources.vgprs - most} registers fewer (at most {most}) would hold {held + 1} waves a SIMD"]
    if resources.limited_by == "lds" and resources.waves_per_cu < 8:
        return [f"{resources.lds_bytes} bytes of LDS leave room for {resources.waves_per_cu} waves a compute unit"]
    return []
