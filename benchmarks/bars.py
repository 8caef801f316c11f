"""The bars that kernels have to reach, by their performance cards, beside the figures of peers.

    python -m benchmarks.bars [--arch gfx942,gfx90a] [--dtype f16,bf16] [--toolchain auto] [--json]

Attention with D = 128 and 32 query heads on 8 KV heads, in pages of 16 and of 128 tokens: prefill is causal over 4096
tokens, decode has one query row and a KV index.  No GPU is needed: every figure is read from the compiled object, for
one wave and one turn of the hot loop where it is not of the whole kernel (see `xpaged card`).  Ends with status 0 when
every bar is met, else 1.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from xdsl.dialects.builtin import ModuleOp

import xpaged
from benchmarks.peers import BY_HAND, BY_HAND_SOURCE, TRITON, TRITON_SOURCE
from xpaged.card.figures import KernelCard

ARCHS = ("gfx942", "gfx90a")
DTYPES = ("f16", "bf16")
PAGES = (16, 128)  # tokens
PAGE_TOLERANCE = 0.05  # by which figures may differ between the page sizes
TOKENS = 4096
LDS_BYTES = 64 * 1024

Kind = Literal["prefill", "decode"]


@dataclass(frozen=True)
class Bar:
    """One figure of a card and the limit for it: `most` (else it is the least) of each architecture."""

    key: str
    title: str
    unit: str
    figure: Callable[[KernelCard], float | None]
    limits: tuple[float, float]  # of gfx942 and gfx90a
    most: bool
    even: bool = False  # whether it may differ between page sizes by the tolerance at most, whatever its limit

    def met(self, value: float | None, arch: str) -> bool:
        """Whether a figure is there and within its limit."""
        limit = self.limits[ARCHS.index(arch)]
        return value is not None and (value <= limit if self.most else value >= limit)


@dataclass(frozen=True)
class Row:
    """A bar, ours for each page size, and what peers have. `ratio` is how many times better than Triton the worse of
    ours is; None where there is nothing to divide."""

    arch: str
    dtype: str
    kind: Kind
    figure: str
    unit: str
    ours: dict[int, float | None]
    limit: str
    met: bool
    triton: float | None
    ratio: float | None
    by_hand: float | None


def _scratch(card: KernelCard) -> float:
    used = card.resources
    return used.scratch_bytes + used.vgpr_spills + used.sgpr_spills


def _rate(card: KernelCard) -> float | None:
    return card.use.tflops_bound if card.use is not None else None


def _vector(card: KernelCard) -> float | None:
    clocks = card.loop.clocks if card.loop is not None else None
    return round(clocks.vector / clocks.matrix, 3) if clocks is not None and clocks.matrix else None


def _touched(card: KernelCard) -> float | None:
    loop = card.loop
    return None if loop is None else loop.lds_accesses + loop.barriers + loop.scratch_accesses


COMMON = (
    Bar("scratch", "scratch and spills", "", _scratch, (0, 0), most=True),
    Bar("LDS", "LDS of a workgroup", "bytes", lambda c: c.resources.lds_bytes, (LDS_BYTES, LDS_BYTES), most=True),
)
PREFILL = (
    Bar("prefill rate", "static bound", "TFLOP/s", _rate, (1300, 190), most=False, even=True),
    Bar("prefill vector", "vector clocks for each matrix clock", "", _vector, (0.65, 0.35), most=True, even=True),
    Bar("prefill waves", "waves a compute unit", "", lambda c: c.resources.waves_per_cu, (8, 8), most=False),
    Bar("prefill drains", "vmcnt(0) in the hot loop", "", lambda c: c.loop and c.loop.vmcnt0_waits, (0, 0), most=True),
    Bar("prefill barriers", "barriers in the hot loop", "", lambda c: c.loop and c.loop.barriers, (2, 2), most=True),
    Bar("prefill LDS width", "LDS accesses of 16 bytes", "", lambda c: c.loop and c.loop.wide_lds_share, (1, 1), False),
    Bar("prefill excess", "product excess", "", lambda c: c.use and c.use.product_excess, (1, 1), most=True),
)
DECODE = (
    Bar("decode clocks", "clocks a KB of K/V", "", lambda c: c.use and c.use.clocks_per_kb, (45, 75), True, even=True),
    Bar("decode waves", "waves a compute unit", "", lambda c: c.resources.waves_per_cu, (12, 12), most=False),
    Bar("decode width", "K/V loads of 16 bytes", "", lambda c: c.loop and c.loop.wide_load_share, (1, 1), most=False),
    Bar("decode drains", "vmcnt(0) in the hot loop", "", lambda c: c.loop and c.loop.vmcnt0_waits, (0, 0), most=True),
    Bar(
        *("decode in flight", "fewest loads left in flight", "", lambda c: c.loop and c.loop.fewest_in_flight, (8, 8)),
        most=False,
    ),
    Bar("decode pass", "LDS, barriers, scratch in the pass", "", _touched, (0, 0), most=True),
)
BARS: dict[Kind, tuple[Bar, ...]] = {"prefill": COMMON + PREFILL, "decode": COMMON + DECODE}


def problem(kind: Kind, dtype: str, page_tokens: int) -> ModuleOp:
    """The attention that a bar is for."""
    prefill = kind == "prefill"
    return xpaged.attention(
        batch=1 if prefill else 64,
        heads_q=32,
        heads_kv=8,
        seq_q=TOKENS if prefill else 1,
        seq_k=TOKENS,
        dim_qk=128,
        dim_v=128,
        dtype=dtype,
        page_tokens=page_tokens,
        causal=prefill,
        kv_index=not prefill,
        name=kind,
    )


def rows_of(kind: Kind, arch: str, dtype: str, cards: dict[int, KernelCard]) -> list[Row]:
    """The rows of one kernel, from its cards by page size."""
    rows: list[Row] = []
    for bar in BARS[kind]:
        ours = {page: bar.figure(card) for page, card in cards.items()}
        found = [value for value in ours.values() if value is not None]
        met = all(bar.met(value, arch) for value in ours.values())
        met &= not bar.even or (bool(found) and max(found) <= (1 + PAGE_TOLERANCE) * min(found))
        worst = (max(found) if bar.most else min(found)) if found else None
        peer = TRITON[arch].get(bar.key)
        rows.append(
            Row(
                *(arch, dtype, kind, bar.title, bar.unit, ours),
                limit=f"{'<=' if bar.most else '>='} {bar.limits[ARCHS.index(arch)]:g}",
                met=met,
                triton=peer,
                ratio=_ratio(worst, peer, bar.most),
                by_hand=BY_HAND[arch].get(bar.key),
            )
        )
    return rows


def _ratio(ours: float | None, peer: float | None, most: bool) -> float | None:
    if not ours or not peer:
        return None
    return round(peer / ours if most else ours / peer, 2)


def measure(archs: Sequence[str], dtypes: Sequence[str], toolchain: str) -> tuple[list[Row], list[str]]:
    """All rows, and which compilers made the kernels."""
    rows: list[Row] = []
    compilers: dict[str, None] = {}
    for kind in BARS:
        for dtype in dtypes:
            cards: dict[str, dict[int, KernelCard]] = {arch: {} for arch in archs}
            for page in PAGES:
                made = xpaged.compile(problem(kind, dtype, page), archs, emit=["card"], toolchain=toolchain)
                for kernel in made:
                    assert kernel.card is not None
                    cards[kernel.arch][page] = kernel.card.kernels[0]
                    compilers[f"{kernel.arch}: {kernel.card.compiler}"] = None
            for arch in archs:
                rows += rows_of(kind, arch, dtype, cards[arch])
    return rows, list(compilers)


def table(rows: Sequence[Row]) -> str:
    """The rows for a reader."""
    lines: list[str] = []
    head = ("", *(f"page {page}" for page in PAGES), "bar", "", "Triton", "ratio", "by hand")
    widths = (38, 10, 10, 10, 5, 8, 7, 8)
    for kind, arch, dtype in dict.fromkeys((row.kind, row.arch, row.dtype) for row in rows):
        lines += ["", f"{kind}, {arch}, {dtype}", _line(head, widths)]
        for row in rows:
            if (row.kind, row.arch, row.dtype) == (kind, arch, dtype):
                title = f"{row.figure}, {row.unit}" if row.unit else row.figure
                ours = (_number(row.ours[page]) for page in PAGES)
                met = "ok" if row.met else "MISS"
                others = (_number(row.triton), _number(row.ratio), _number(row.by_hand))
                lines.append(_line((title, *ours, row.limit, met, *others), widths))
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = (
        f"{cell:<{width}}" if i == 0 else f"{cell:>{width}}"
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return ("  " + first + "".join(others)).rstrip()


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; the exit status is 0 when every bar is met."""
    parser = argparse.ArgumentParser(prog="benchmarks.bars", description="The bars that kernels have to reach.")
    parser.add_argument("--arch", default=",".join(ARCHS), help=f"any of {', '.join(ARCHS)}")
    parser.add_argument("--dtype", default=",".join(DTYPES), help=f"any of {', '.join(DTYPES)}")
    parser.add_argument("--toolchain", default="auto", choices=("auto", "hipcc", "clang", "bundled"))
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    archs, dtypes = args.arch.split(","), args.dtype.split(",")
    for given, known in ((archs, ARCHS), (dtypes, DTYPES)):
        for each in given:
            if each not in known:
                parser.error(f"'{each}' has no bars: there are some for {', '.join(known)}")
    try:
        rows, compilers = measure(archs, dtypes, args.toolchain)
    except xpaged.XpagedError as refusal:
        print(refusal.render(), file=sys.stderr)
        return 1
    missed = [row for row in rows if not row.met]
    if args.json:
        sources = {"triton": TRITON_SOURCE, "by_hand": BY_HAND_SOURCE}
        report = {"ok": not missed, "compilers": compilers, "sources": sources, "rows": [asdict(row) for row in rows]}
        print(json.dumps(report, indent=2))
    else:
        print("compilers: " + ", ".join(compilers))
        print(f"Triton: {TRITON_SOURCE}\nby hand: {BY_HAND_SOURCE}")
        print(table(rows))
        print(f"\n{len(rows) - len(missed)} of {len(rows)} bars are met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
