"""The cards of a decode and a prefill kernel, and the bars that are read from them."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, i64

import xpaged
from benchmarks.bars import problem, rows_of
from benchmarks.peers import BY_HAND, TRITON
from xpaged.arch.model import issue_model
from xpaged.card.advice import advice
from xpaged.card.assembly import read_assembly
from xpaged.card.figures import Card, KernelCard
from xpaged.card.use import Use
from xpaged.driver import Kernel
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.lowering.kernel import kernels_of
from xpaged.lowering.work import WORK, Work, work_of
from xpaged.passes.pipelines import lower

WORK_OF_DECODE = Work(
    *(8, 8, 4, 1, 16, 1, 4, 32, 4096, 4096, 1, 128, 128, 1, 2, 2, 0),
)


@pytest.fixture(scope="module")
def decode() -> Kernel:
    """The decode kernel of the bars with everything that is made of it."""
    return xpaged.compile(problem("decode", "f16", 16), "gfx942", emit=["asm", "card"], toolchain="bundled")


@pytest.fixture(scope="module")
def prefill() -> KernelCard:
    """The card of the prefill kernel of the bars."""
    made = xpaged.compile(problem("prefill", "f16", 128), "gfx942", emit=["card"], toolchain="bundled")
    assert (made.asm, made.object) == (None, None)
    assert made.card is not None
    return made.card.kernels[0]


def only(kernel: Kernel) -> KernelCard:
    """The card of its one kernel."""
    assert kernel.card is not None
    (card,) = kernel.card.kernels
    return card


def test_a_decode_kernel(decode: Kernel) -> None:
    card = only(decode)
    used, loop, use = card.resources, card.loop, card.use
    assert loop is not None
    assert use is not None
    assert loop.clocks is not None
    assert (used.scratch_bytes, used.vgpr_spills, used.workgroup) == (0, 0, 256)
    assert used.waves_per_cu is not None
    assert used.waves_per_cu >= 8
    assert (loop.wide_load_share, loop.lds_accesses, loop.barriers, loop.scratch_accesses) == (1.0, 0, 0, 0)
    assert (use.rows_per_wave, use.keys_per_pass) == (4.0, 32)
    assert use.useful_flops == 4 * 4 * 32 * 128
    assert use.kv_bytes == use.least_bytes == 2 * 32 * 128 * 2 == loop.loaded_bytes
    assert use.product_excess == 4.0  # 4 of 16 rows count
    assert use.clocks_per_kb == round(loop.clocks.bound / 16, 2)
    assert use.bytes_in_flight_per_cu == loop.loaded_bytes * used.waves_per_cu
    assert any("memory binds" in line for line in card.advice)


def test_a_prefill_kernel(prefill: KernelCard) -> None:
    used, loop, use = prefill.resources, prefill.loop, prefill.use
    assert loop is not None
    assert use is not None
    assert (used.scratch_bytes, used.vgpr_spills) == (0, 0)
    assert (use.rows_per_wave, use.product_excess) == (32.0, 1.0)
    assert use.useful_flops == loop.matrix_flops == 4 * 32 * use.keys_per_pass * 128
    assert loop.wide_lds_share == 1.0
    assert prefill.roofline is not None
    assert prefill.roofline.flops == 4 * 32 * 4096 * 2049 * 128  # a causal row keeps 2048.5 keys on average


def test_the_keys_of_the_json(decode: Kernel) -> None:
    assert decode.card is not None
    files = decode.files()
    assert sorted(files) == ["decode.gfx942.card.json", "decode.gfx942.launch.json", "decode.gfx942.s"]
    data: dict[str, Any] = json.loads(files["decode.gfx942.card.json"])
    assert list(data) == ["version", "name", "arch", "compiler", "part", "kernels"]
    (kernel,) = data["kernels"]
    assert list(kernel) == ["kernel", "grid", "resources", "loop", "works", "use", "roofline", "advice"]
    assert list(kernel["loop"]["clocks"]) == [
        "matrix",
        "vector",
        "transcendental",
        "lds",
        "memory",
        "bound",
        "bound_by",
    ]
    assert {"rows_per_wave", "keys_per_pass", "useful_flops", "kv_bytes", "clocks_per_kb", "tflops_bound"} <= set(
        kernel["use"]
    )
    assert {"vmcnt0_waits", "fewest_in_flight", "wide_load_share", "wide_lds_share"} <= set(kernel["loop"])


def test_the_text_says_it_in_lines_that_fit(decode: Kernel) -> None:
    assert decode.card is not None
    text = decode.card.to_text()
    assert text.startswith("decode on gfx942 (MI300X), bundled clang ")
    for title in ("registers", "waves", "clocks", "bound", "loads", "K/V rate", "estimate", "improve"):
        assert f"\n  {title} " in text
    assert max(map(len, text.splitlines())) < 140


def test_a_turn_that_does_twice_the_work_counts_once(decode: Kernel) -> None:
    """Loads or products that are made twice do not pass for more keys; a loop of two tiles does."""
    loop, model = only(decode).loop, issue_model("gfx942")
    assert loop is not None

    def keys(loads: int, products: int) -> int:
        changed = replace(
            loop, loaded_bytes=loads * loop.loaded_bytes // 2, matrix_flops=products * loop.matrix_flops // 2
        )
        use = Use.of(WORK_OF_DECODE, changed, 12, model)
        return use.keys_per_pass if use is not None else 0

    assert [keys(2, 2), keys(4, 2), keys(2, 4), keys(4, 4), keys(1, 1)] == [32, 32, 32, 64, 0]


def test_no_model_is_said(decode: Kernel) -> None:
    card = only(decode)
    assert card.loop is not None
    bare = replace(
        card,
        resources=replace(card.resources, waves_per_cu=None, limited_by=None),
        loop=replace(card.loop, clocks=None),
        use=Use.of(WORK_OF_DECODE, replace(card.loop, clocks=None), None, None),
        roofline=None,
    )
    text = Card("k", "gfx1100", "clang", None, (bare,)).to_text()
    assert "there is no model of gfx1100 yet" in text
    assert "bound" not in text.split("yet: ")[1].split("\n", 1)[1]
    assert "work " in text


Change = Callable[[KernelCard], KernelCard]


def _loop(**changes: Any) -> Change:
    def change(card: KernelCard) -> KernelCard:
        assert card.loop is not None
        return replace(card, loop=replace(card.loop, **changes))

    return change


def _used(**changes: Any) -> Change:
    return lambda card: replace(card, resources=replace(card.resources, **changes))


@pytest.mark.parametrize(
    ("change", "bar", "words"),
    [
        (_loop(vmcnt0_waits=2), "vmcnt(0) in the hot loop", "waits for all of its loads 2 times"),
        (_loop(wide_load_share=0.75), "K/V loads of 16 bytes", "4 of 16 loads"),
        (_loop(fewest_in_flight=2), "fewest loads left in flight", ""),
        (_loop(lds_accesses=1, wide_lds_share=0.0), "LDS, barriers, scratch in the pass", "1 of 1 LDS accesses"),
        (_used(vgpr_spills=3), "scratch and spills", "3 registers are spilled"),
        (_used(waves_per_cu=4), "waves a compute unit", ""),
    ],
)
def test_a_worse_kernel_misses_its_bar_and_is_told_why(decode: Kernel, change: Change, bar: str, words: str) -> None:
    card = only(decode)
    good = _used(waves_per_cu=12)(_loop(vmcnt0_waits=0, fewest_in_flight=8)(card))  # as every compiler should make it
    before = {row.figure: row.met for row in rows_of("decode", "gfx942", "f16", {16: good, 128: good})}
    bad = change(good)
    rows = {row.figure: row.met for row in rows_of("decode", "gfx942", "f16", {16: good, 128: bad})}
    assert before[bar]
    assert {figure for figure, met in rows.items() if met != before[figure]} == {bar}
    told = advice(bad.resources, bad.loop, bad.use, issue_model("gfx942"))
    assert not words or any(words in line for line in told)


def test_page_sizes_must_not_matter(decode: Kernel) -> None:
    card = only(decode)
    assert card.use is not None
    assert card.use.clocks_per_kb is not None
    slower = replace(card, use=replace(card.use, clocks_per_kb=card.use.clocks_per_kb * 1.06))
    slow = replace(card, use=replace(card.use, clocks_per_kb=card.use.clocks_per_kb * 1.04))
    met = [
        next(row.met for row in rows_of("decode", "gfx90a", "f16", {16: card, 128: each}) if "clocks" in row.figure)
        for each in (card, slow, slower)
    ]
    assert met == [True, True, False]


def test_peers_have_the_figures_of_both_architectures() -> None:
    assert list(TRITON["gfx942"]) == list(TRITON["gfx90a"])
    assert list(BY_HAND["gfx942"]) == list(BY_HAND["gfx90a"])


def test_assembly_without_the_kernel_is_refused(decode: Kernel) -> None:
    from xpaged.arch.table import get_arch
    from xpaged.card.figures import make_card
    from xpaged.codegen.code_object import CodeObject

    assert decode.launch is not None
    assert decode.asm is not None
    assert read_assembly(decode.asm)["decode"].hot_loop is not None
    with pytest.raises(XpagedError, match="no kernel 'decode'"):
        make_card("decode", get_arch("gfx942"), "clang", "", CodeObject("gfx942", 5, ()), decode.launch, {})


def test_the_work_is_written_at_gridwise_and_read_back() -> None:
    module = lower(xpaged.attention(heads_q=10, heads_kv=2, seq_q=1, seq_k=64, dim_qk=16, dim_v=16), Level.GRIDWISE)
    (kernel,) = kernels_of(module)
    work = work_of(kernel)
    assert work is not None
    assert (work.problems, work.rows, work.rows_per_wave, work.wave_rows) == (2, 5, 5.0, 16)
    assert work.flops == 4 * 10 * 64 * 16
    kernel.attributes[WORK] = DictionaryAttr({"rows": IntegerAttr(5, i64)})
    with pytest.raises(XpagedError, match=r"rock\.work does not say"):
        work_of(kernel)
    del kernel.attributes[WORK]
    assert work_of(kernel) is None
