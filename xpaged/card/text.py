"""The performance card for a reader: short, aligned, every figure with its unit."""

from __future__ import annotations

from collections.abc import Iterable

from xpaged.card.figures import Card, KernelCard, Roofline
from xpaged.card.hot_loop import LoopFigures
from xpaged.card.use import Resources, Use

_INDENT = "  "
_TITLE = 12  # columns


def card_text(card: Card) -> str:
    """The whole card, with a line at its end for every kernel."""
    part = f" ({card.part})" if card.part else ""
    lines = [f"{card.name} on {card.arch}{part}, {card.compiler}"]
    if card.part is None:
        lines.append(f"there is no model of {card.arch} yet: clocks, waves and bounds are not known")
    for kernel in card.kernels:
        lines += ["", f"kernel {kernel.kernel}: {kernel.grid} workgroups of {kernel.resources.workgroup} lanes"]
        lines += [_INDENT + f"{title:{_TITLE}}{text}".rstrip() for title, text in _rows(kernel)]
    return "\n".join(lines) + "\n"


def _rows(kernel: KernelCard) -> Iterable[tuple[str, str]]:
    yield from _resources(kernel.resources)
    if kernel.loop is None:
        yield "hot loop", "none"
    else:
        yield from _loop(kernel.loop)
    if kernel.use is not None and kernel.loop is not None:
        yield from _use(kernel.use, kernel.loop)
    elif kernel.loop is not None and kernel.works:
        yield "work", "not known: the hot loop is only a part of what is done for a tile of keys"
    if kernel.roofline is not None:
        yield from _roofline(kernel.roofline)
    for i, line in enumerate(kernel.advice):
        yield ("" if i else "improve"), line


def _resources(used: Resources) -> Iterable[tuple[str, str]]:
    agprs = f" ({used.agprs} of them AGPR)" if used.agprs else ""
    yield "registers", f"{used.vgprs} VGPR{agprs}, {used.sgprs} SGPR; {used.vgpr_spills + used.sgpr_spills} spilled"
    yield "memory", f"{used.lds_bytes:,} bytes of LDS a workgroup, {used.scratch_bytes} bytes of scratch a lane"
    if used.waves_per_cu is not None:
        yield "waves", f"{used.waves_per_cu} a compute unit, limited by {_LIMITS[used.limited_by or 'waves']}"


_LIMITS = {"registers": "registers", "lds": "LDS", "waves": "the most that there can be"}


def _loop(loop: LoopFigures) -> Iterable[tuple[str, str]]:
    yield "hot loop", f"{loop.instructions} instructions a turn; each figure is for one wave and one turn"
    products = ", ".join(f"{count} {name}" for name, count in loop.matrix.items()) or "none"
    yield "products", products
    yield "others", ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in loop.mix.items() if kind != "matrix")
    if (clocks := loop.clocks) is not None:
        units = f"matrix {clocks.matrix}, vector {clocks.vector} ({clocks.transcendental} transcendental)"
        yield "clocks", f"{units}, LDS {clocks.lds:.0f}; memory at full speed {clocks.memory:.0f}"
        yield "bound", f"{clocks.bound:.0f} clocks, by {_UNITS[clocks.bound_by]}"
    left = loop.fewest_in_flight
    yield (
        "loads",
        f"{loop.loads}, {loop.loaded_bytes:,} bytes, {_percent(loop.wide_load_share)} of 16 bytes; {loop.vmcnt0_waits} "
        f"waits for all" + ("" if left is None else f", at least {left} left in flight"),
    )
    shared = (
        f"{loop.lds_accesses} accesses, {_percent(loop.wide_lds_share)} of 16 bytes" if loop.lds_accesses else "none"
    )
    yield "LDS", f"{shared}; {loop.barriers} barriers"


_UNITS = {"matrix": "matrix instructions", "vector": "the issue of vector instructions", "lds": "LDS"}


def _use(use: Use, loop: LoopFigures) -> Iterable[tuple[str, str]]:
    rows = f"{use.rows_per_wave:.4g} query rows x {use.keys_per_pass} keys: {use.useful_flops:,.0f} useful flops"
    excess = "" if use.product_excess is None else f", product excess {use.product_excess:.2f}"
    yield "work", rows + excess
    least = loop.loaded_bytes / use.least_bytes
    yield "K and V", f"{use.kv_bytes:,.0f} bytes; {least:.2f} times the least possible are loaded"
    if use.bytes_in_flight_per_cu is not None:
        yield "in flight", f"{use.bytes_in_flight_per_cu / 1024:.0f} KB a compute unit"
    if use.clocks_per_kb is not None and use.memory_clocks_per_kb is not None:
        yield (
            "K/V rate",
            f"{use.clocks_per_kb:.1f} clocks a KB; memory takes {use.memory_clocks_per_kb:.0f}",
        )
    if use.tflops_bound is not None:
        yield "rate", f"at most {use.tflops_bound:,.0f} TFLOP/s on the whole part"


def _roofline(line: Roofline) -> Iterable[tuple[str, str]]:
    yield "problem", f"{line.flops / 1e9:,.2f} GFLOP, {line.bytes / 1e6:,.2f} MB at the least"
    times = f"memory {line.memory_us:,.1f}, latency {line.latency_us:,.1f}, issue {line.issue_us:,.1f} microseconds"
    yield "least time", times
    rates = f"{line.tflops:,.1f} TFLOP/s, {line.gb_per_second:,.0f} GB/s"
    yield "estimate", f"{line.time_us:,.1f} microseconds, by {line.bound_by}: {rates}"


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.0f}%"
