"""What the lanes of a wave and of a workgroup do together on the CPU, and what happens when they do not."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.codegen.host.texts import LANES, describe, switch
from xpaged.arch.table import get_arch
from xpaged.codegen.doctor import doctor
from xpaged.codegen.host import HostFault, HostKernel, arena, unable
from xpaged.codegen.host.symbols import line_table
from xpaged.codegen.toolchain import Missing, ToolchainError, find
from xpaged.errors import XpagedError

Array = npt.NDArray[Any]
pytestmark = pytest.mark.skipif(unable() is not None, reason="this machine cannot run kernels on its CPU")

LANE = np.arange(64)
ROW, COLUMN = LANE & ~15, LANE & 15
DPP = "__builtin_amdgcn_mov_dpp(x, {}, 0xf, 0xf, true)"


def taken(x: Array, source: Array) -> Array:
    return x[:, source]


def shifted(x: Array, by: int) -> Array:
    """Lane i gets what lane i + by of its row holds, 0 outside the row."""
    there = (COLUMN + by >= 0) & (COLUMN + by < 16)
    return np.where(there, x[:, np.where(there, LANE + by, 0)], 0)


EXCHANGES: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "bpermute": ("y = __builtin_amdgcn_ds_bpermute(4 * (lane ^ 37), x);", lambda x: taken(x, LANE ^ 37)),
    "bpermute any": ("y = __builtin_amdgcn_ds_bpermute(4 * (lane * 7 % 64), x);", lambda x: taken(x, LANE * 7 % 64)),
    "swizzle xor": ("y = __builtin_amdgcn_ds_swizzle(x, 16 << 10 | 0x1f);", lambda x: taken(x, LANE ^ 16)),
    "swizzle and": ("y = __builtin_amdgcn_ds_swizzle(x, 0x18);", lambda x: taken(x, LANE & (32 | 0x18))),
    "swizzle or": ("y = __builtin_amdgcn_ds_swizzle(x, 5 << 5 | 0x1f);", lambda x: taken(x, LANE | 5)),
    "swizzle quad": ("y = __builtin_amdgcn_ds_swizzle(x, 0x8000 | 0x1b);", lambda x: taken(x, LANE ^ 3)),
    "dpp quad": (f"y = {DPP.format('0x39')};", lambda x: taken(x, (LANE & ~3) | ((LANE + 1) & 3))),
    "dpp xor 1": (f"y = {DPP.format('0xb1')};", lambda x: taken(x, LANE ^ 1)),
    "dpp half mirror": (f"y = {DPP.format('0x141')};", lambda x: taken(x, LANE ^ 7)),
    "dpp mirror": (f"y = {DPP.format('0x140')};", lambda x: taken(x, LANE ^ 15)),
    "dpp rotate": (f"y = {DPP.format('0x123')};", lambda x: taken(x, ROW | ((COLUMN - 3) & 15))),
    "dpp shift left": (f"y = {DPP.format('0x102')};", lambda x: shifted(x, 2)),
    "dpp shift right": (f"y = {DPP.format('0x111')};", lambda x: shifted(x, -1)),
    "dpp old": (
        "y = __builtin_amdgcn_update_dpp(-7, x, 0x111, 0xd, 0xf, false);",
        lambda x: np.where((COLUMN == 0) | (ROW == 16), -7, np.roll(x, 1, axis=1)),
    ),
    "readfirstlane": ("y = __builtin_amdgcn_readfirstlane(x);", lambda x: taken(x, 0 * LANE)),
    "readlane": ("y = __builtin_amdgcn_readlane(x, 41);", lambda x: taken(x, 0 * LANE + 41)),
    "ballot": (
        "u64 b = __builtin_amdgcn_ballot_w64(x & 1); y = (int)(b >> lane & 1) + 2 * __builtin_popcountll(b);",
        lambda x: (x & 1) + 2 * (x & 1).sum(axis=1, keepdims=True),
    ),
    "mbcnt": (
        "u64 b = __builtin_amdgcn_ballot_w64(x & 1); "
        "y = __builtin_amdgcn_mbcnt_hi((u32)(b >> 32), __builtin_amdgcn_mbcnt_lo((u32)b, 0));",
        lambda x: np.cumsum(x & 1, axis=1) - (x & 1),
    ),
    "several": (
        "for (int i = 1; i < 64; i *= 2) { x += __builtin_amdgcn_ds_bpermute(4 * (lane ^ i), x); } y = x;",
        lambda x: np.broadcast_to(x.sum(axis=1, keepdims=True), x.shape),
    ),
    "through LDS": (
        "box[thread] = x; barrier(); y = box[127 - thread];",
        lambda x: x.reshape(-1)[::-1].reshape(x.shape),
    ),
    "through LDS, twice": (
        "box[thread] = x; barrier(); y = box[127 - thread]; barrier(); "
        "box[thread] = y; barrier(); y = box[thread ^ 64];",
        lambda x: x[:, ::-1],
    ),
    "within a wave": (
        "box[thread] = x; __builtin_amdgcn_wave_barrier(); y = box[thread ^ 63];",
        lambda x: x[:, ::-1],
    ),
    "LDS is poisoned": ("y = box[thread];", lambda x: np.full_like(x, -1)),
    "newest builtins": ("y = NEWEST;", np.ones_like),
}

SUM = "a barrier is reached by only a part of a workgroup"
FAULTS: dict[str, tuple[str, str]] = {
    "half a wave at a barrier": ("if (lane < 32) barrier();", SUM),
    "half the waves at a barrier": ("if (wave == 0) barrier();", SUM),
    "different barriers": ("if (wave == 0) { barrier(); x = 1; } else { x = 2; barrier(); } box[thread] = x;", SUM),
    "an early end": ("if (lane == 5) return; y = __builtin_amdgcn_readfirstlane(x);", "do not meet at one operation"),
    "a branch": ("if (lane & 1) y = __builtin_amdgcn_ds_swizzle(x, 0x1f);", "do not meet at one operation"),
    "two branches": (
        "if (lane & 1) y = __builtin_amdgcn_readlane(x, 0); else y = __builtin_amdgcn_readlane(x, 1);",
        "do not meet at one operation",
    ),
    "an uneven loop": (
        "for (int i = 0; i < 2 + (lane == 3); ++i) y += __builtin_amdgcn_readfirstlane(x);",
        "do not meet at one operation",
    ),
    "a lane that is not there": (
        "y = __builtin_amdgcn_ds_bpermute(4 * (lane + 1), x);",
        "does not have the operand 256",
    ),
    "an exchange that is not there": (f"y = {DPP.format('0x1ff')};", "DPP does not have the operand 511"),
    "a read before a buffer": ("y = ((const volatile int*)in)[thread - 2048];", "bytes before 'in'"),
    "a read behind a buffer": ("y = ((const volatile int*)in)[thread + 1];", "0 bytes past the end of 'in'"),
    "a write behind a buffer": ("out[group * 128 + thread + 1] = 1;", "write at "),
    "a write to what is only read": ("((int*)in)[thread] = 1;", "'in', which is read only"),
    "no address": ("y = *(const int*)0xdead000000000000ull;", "no pointer may have"),
    "LDS": ("box[thread + 1] = 1;", "index outside an array"),
    "LDS by address": ("*(int*)((char*)box + 4 * thread + 32) = 1;", "bytes past the end of LDS"),
    "misaligned": ("y = *(const int*)((const char*)in + thread + 1);", "misaligned address"),
    "a sum": ("y = x + 0x7fffffff;", "overflow of a sum"),
    "a product": ("y = (x + 2) * 0x40000000;", "overflow of a product"),
    "a shift": ("y = 1 << (x + 32);", "shift by more than the type has bits"),
    "a division": ("y = x / (x - in[0]);", "division by zero"),
    "a float": ("y = (int)(1e20f * (float)(x + 1));", "does not fit the integer type"),
    "an instruction": ("__builtin_trap();", "the CPU refused an instruction"),
}
OTHERS = {
    "no end": "for (;;) __builtin_amdgcn_wave_barrier();",
    "an exit": 'asm volatile("syscall" ::"a"(231L), "D"(5L));',
    "order": "LDS int last; last = thread; __builtin_amdgcn_wave_barrier(); y = last;",
    "LDS by little": "*(int*)((char*)box + 4 * thread + 8) = 1;",
    "the stack": "y = eat_the_stack(x);",
    "which group": "y = group * 128 + thread;",
}
TEXTS = {name: text for name, (text, _) in (EXCHANGES | FAULTS).items()} | OTHERS
PARAMETERS = ("const int* __restrict__ in", "int* __restrict__ out", "int which")
GRID = 3


@pytest.fixture(scope="module", params=["clang", "bundled"])
def probe(request: pytest.FixtureRequest) -> Iterator[HostKernel]:
    compiler = next(iter(find(request.param)))
    if isinstance(compiler, Missing):
        pytest.skip(compiler.reason)
    cases = {name: f"{text} out[group * 128 + thread] = y;" for name, text in TEXTS.items()}
    text = switch(cases, PARAMETERS, "  LDS int box[128];\n  int x = in[thread], y = 0;")
    launch = describe(
        {"in": ("i32", LANES, "read"), "out": ("i32", GRID * LANES, "write"), "which": ("i32", 0, "read")},
        grid=GRID,
        lds=528,
    )
    with HostKernel(text, get_arch("gfx942"), launch, compiler=compiler) as kernel:
        yield kernel


X = np.random.default_rng(0).integers(0, 1000, LANES).astype(np.int32)


def tried(probe: HostKernel, name: str, **options: Any) -> Array:
    out = np.full(GRID * LANES, 12345, np.int32)
    which = np.array(list(TEXTS).index(name), np.int32)
    probe.launch({"in": X, "out": out, "which": which}, **options)
    return out.reshape(GRID, -1, 64)


@pytest.mark.parametrize("name", EXCHANGES)
def test_lanes_exchange_values(probe: HostKernel, name: str) -> None:
    expected = EXCHANGES[name][1](X.reshape(-1, 64))
    for backward in (False, True):
        found = tried(probe, name, jobs=1, backward=backward)
        np.testing.assert_array_equal(found, np.broadcast_to(expected, found.shape))


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_says_where(probe: HostKernel, name: str, backward: bool) -> None:
    text, message = FAULTS[name]
    with pytest.raises(HostFault) as caught:
        tried(probe, name, jobs=1, backward=backward)
    fault = caught.value
    assert message in fault.what + str(fault.found), fault
    assert fault.workgroup == (GRID - 1 if "past the end of 'out'" in fault.what else 0), fault
    assert fault.line is not None, fault
    shown = f"case {list(TEXTS).index(name)}: {{ {text}"
    assert f"line {fault.line}: {shown}" in str(fault.found), fault
    assert fault.where == f"probe.gfx942.hip:{fault.line} (probe.mlir:7:3)"
    assert fault.location == "probe.mlir:7:3"


def test_a_barrier_in_a_branch_names_both_places(probe: HostKernel) -> None:
    with pytest.raises(HostFault) as caught:
        tried(probe, "half the waves at a barrier", jobs=1)
    assert "the wave of thread 126 is at the end of the kernel" in str(caught.value.found) or (
        "the wave of thread" in str(caught.value.found) and "at s_barrier in line" in str(caught.value.found)
    )


def test_a_fault_knows_its_address(probe: HostKernel) -> None:
    with pytest.raises(HostFault) as caught:
        tried(probe, "no address")
    assert caught.value.address is None
    with pytest.raises(HostFault) as caught:
        tried(probe, "a write behind a buffer", jobs=1)
    assert caught.value.address is not None
    assert f"{caught.value.address:#x}" in caught.value.what


def test_a_full_stack_is_said_to_be_full(probe: HostKernel) -> None:
    with pytest.raises(HostFault, match="the lane's stack is full"):
        tried(probe, "the stack")


def test_a_write_right_behind_lds_is_found_afterwards(probe: HostKernel) -> None:
    with pytest.raises(HostFault, match=r"workgroup 1: a write 0 bytes behind the end of LDS") as caught:
        tried(probe, "LDS by little", groups=[1])
    assert caught.value.thread is None


def test_a_kernel_that_does_not_end_is_stopped(probe: HostKernel) -> None:
    with pytest.raises(HostFault, match=r"did not end within 0\.3 s"):
        tried(probe, "no end", seconds=0.3)


def test_a_process_that_just_ends_is_noticed(probe: HostKernel) -> None:
    with pytest.raises(HostFault, match="ended without a report") as caught:
        tried(probe, "an exit")
    assert caught.value.found == "exit status 5"


def test_lanes_and_waves_also_run_backward(probe: HostKernel) -> None:
    forward, backward = (tried(probe, "order", backward=b)[0] for b in (False, True))
    np.testing.assert_array_equal(forward[:, 0], [63, 127])
    np.testing.assert_array_equal(backward[:, 0], [0, 64])


@pytest.mark.parametrize("jobs", [1, 2, None])
@pytest.mark.parametrize("groups", [None, [2, 0], []])
def test_workgroups_may_be_chosen_and_spread(probe: HostKernel, groups: list[int] | None, jobs: int | None) -> None:
    found = tried(probe, "which group", groups=groups, jobs=jobs).reshape(GRID, -1)
    for group, row in enumerate(found):
        ran = groups is None or group in groups
        np.testing.assert_array_equal(row, group * LANES + np.arange(LANES) if ran else 12345)


def test_waves_of_32_lanes() -> None:
    arch = replace(get_arch("gfx942"), wave_size=32, matrix=())
    case = "out[thread] = __builtin_amdgcn_readfirstlane(thread) * 100"
    case += " + __builtin_amdgcn_ds_bpermute(4 * (31 - lane % 32), thread);"
    launch = describe({"out": ("i32", 96, "write"), "which": ("i32", 0, "read")}, lanes=96)
    out = np.zeros(96, np.int32)
    with HostKernel(switch({"all": case}, ("int* out", "int which"), lanes=96), arch, launch) as kernel:
        kernel.launch({"out": out, "which": np.array(0, np.int32)})
    thread = np.arange(96)
    np.testing.assert_array_equal(out, thread // 32 * 3200 + (thread ^ 31))


def test_a_machine_that_refuses_memory_is_named(probe: HostKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arena, "ORIGIN", 0x1FF000)  # the program itself lies there
    with pytest.raises(HostFault, match="this machine refused memory for a buffer") as caught:
        tried(probe, "which group")
    assert "0x200000" in str(caught.value.found)


def test_lines_are_not_known_without_the_package_that_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "elftools.elf.elffile", None)
    assert line_table(Path("program"), "text.hip").line_of(1) is None


def test_buffers_that_do_not_fit_are_refused(probe: HostKernel) -> None:
    good: dict[str, Any] = {"in": X, "out": np.zeros(GRID * LANES, np.int32), "which": np.array(0, np.int32)}
    frozen = np.zeros(GRID * LANES, np.int32)
    frozen.flags.writeable = False
    changes: tuple[tuple[dict[str, Any], str], ...] = (
        ({"which": 3}, "is no NumPy array"),
        ({"inn": X}, "did you mean 'in'"),
        ({"in": X[:-1]}, "the wrong size"),
        ({"out": frozen}, "is written, and the array cannot be"),
        ({"out": np.zeros((GRID * LANES, 2), np.int32)[:, 0]}, "is written, and the array cannot be"),
    )
    for change, message in changes:
        with pytest.raises(XpagedError, match=message):
            probe.launch(good | change)
    with pytest.raises(XpagedError, match="buffer 'out' is missing"):
        probe.launch({"in": X, "which": good["which"]})
    with pytest.raises(XpagedError, match="no such workgroup"):
        probe.launch(good, groups=[GRID])


def test_a_text_that_is_no_program_is_refused_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    launch = describe({"which": ("i32", 0, "read")})
    with pytest.raises(ToolchainError, match=r"probe\.gfx942\.hip.*unheard_of"):
        HostKernel(switch({"a": "unheard_of();"}, PARAMETERS[2:]), get_arch("gfx942"), launch)
    assert list(tmp_path.iterdir()) == []


def test_machines_that_cannot_run_kernels_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor().host is None
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    launch = describe({"which": ("i32", 0, "read")})
    with pytest.raises(ToolchainError, match="x86-64 Linux, and this is riscv64"):
        HostKernel("", get_arch("gfx942"), launch)
    assert "level host cannot run here: it takes x86-64 Linux, and this is riscv64" in doctor().to_text()
