"""The memory court: each kind of fault is planted and found, and kernels without a fault are acquitted."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from xpaged.errors import XpagedError
from xpaged.interpreter.court import KINDS, Court, CourtProgram, Finding, Stats
from xpaged.interpreter.evaluator import Machine
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.views import MemRef
from xpaged.ir.parsing import parse

Array = npt.NDArray[Any]
F16, F32, I32, I64 = (np.dtype(t) for t in (np.float16, np.float32, np.int32, np.int64))
GROUPS, LANES = (5, 7), 128


class Trial:
    """A memory with an input of 256 floats, an output of as many, and pages of 16 floats."""

    def __init__(self, stats: Stats | None = None) -> None:
        self.memory = Memory()
        self.input = self.buffer("input", np.arange(256).astype(F32))
        at = self.memory.allocate(1024, name="out", dtype=F32, fill=0xFF).base
        self.out = MemRef.dense(at, F32, (256,))
        self.pages = self.memory.allocate_many(
            4, 64, order=np.array([2, 0, 3, 1]), mapped=np.arange(4) < 3, name="page", dtype=F32
        )
        for page in self.pages[:3]:
            self.memory.write_array(int(page), np.arange(16).astype(F32))
        self.court = Court(self.memory, {at: "out"}, stats)

    def buffer(self, name: str, values: Array) -> MemRef:
        at = self.memory.allocate(values.nbytes, name=name, dtype=values.dtype).base
        self.memory.write_array(at, values)
        return MemRef.dense(at, values.dtype, values.shape)

    def run(self, body: str, args: str = "", values: Sequence[Any] = (), **machine: Any) -> dict[str, Finding]:
        """What is found in a function `(%a: input, %o: output, args)`, by kind."""
        buffers = "%a: memref<256xf32>, %o: memref<256xf32>"
        module = parse(f"func.func @f({buffers}{', ' if args else ''}{args}) {{\n{body}\nfunc.return\n}}", "k.mlir")
        settings: dict[str, Any] = {"groups": GROUPS, "lanes_per_group": LANES, "grid": 8, **machine}
        CourtProgram(module, self.court).call(Machine(self.memory, **settings), "f", [self.input, self.out, *values])
        found = {finding.kind: finding for finding in self.court.findings.values()}
        assert set(found) <= set(KINDS)
        return found


def thread(lanes: int = len(GROUPS) * LANES) -> Array:
    """The number of each lane in the launch."""
    return np.arange(lanes, dtype=I32)


def only(found: dict[str, Finding], kind: str) -> Finding:
    """The one finding, which is of a kind."""
    assert list(found) == [kind], [f.what for f in found.values()]
    return found[kind]


# ---- where accesses go

LOAD = """%x = hip.load %a[%i] if %m : memref<256xf32>, i32 -> f32
hip.store %x, %o[%t] : f32, memref<256xf32>, i32"""
WHERE = "%i: i32, %m: i1, %t: i32"


def test_a_read_past_the_end_of_a_buffer() -> None:
    trial = Trial()
    always = np.ones(1, np.bool_)
    assert not trial.run(LOAD, WHERE, [thread(), always, thread()])
    trial = Trial()
    found = trial.run(LOAD, WHERE, [thread() + 1, always, thread()])
    wrong = found["out-of-bounds"]
    assert wrong.count == 1
    assert wrong.address == int(trial.input.base[0]) + 1024
    assert "0 bytes past the end of input" in wrong.what
    assert "element 256 of 0 .. 255" in wrong.what
    assert wrong.op.startswith("%x = hip.load")
    assert wrong.location.startswith("k.mlir:2:")
    assert "poison-result" in found  # what was read there is stored
    assert not Trial().run(LOAD, WHERE, [thread() + 1, thread() < 255, thread()])  # masked off


def test_a_read_before_a_buffer_and_far_away() -> None:
    for by in (-1, 1 << 30):
        found = Trial().run(LOAD, WHERE, [thread() + np.int32(by), np.ones(1, np.bool_), thread()])
        assert found["out-of-bounds"].count == (1 if by < 0 else 256)


def test_a_prefetch_of_a_page_table_past_its_end() -> None:
    """The entry is read and never used."""
    table = "%t: memref<4xi64>, %i: i32"
    body = "%e = hip.load %t[%i] : memref<4xi64>, i32 -> i64"
    trial = Trial()
    values = [trial.buffer("table", trial.pages.view(I64)), np.array([4], I32)]
    found = only(trial.run(body, table, values), "out-of-bounds")
    assert "past the end of table" in found.what


def test_a_write_past_the_end_writes_nothing() -> None:
    trial = Trial()
    body = """%x = hip.load %a[%i] : memref<256xf32>, i32 -> f32
    hip.store %x, %o[%t] : f32, memref<256xf32>, i32"""
    found = only(trial.run(body, "%i: i32, %t: i32", [thread(), thread() + 1]), "out-of-bounds")
    assert found.what.startswith("write of 4 bytes")
    assert trial.memory.written(int(trial.out.base[0]), 1024).sum() == 255 * 4


PAGE = """%x = hip.load %p[%i] : i64, i32 -> vector<4xf32>"""


def test_an_access_that_leaves_its_page() -> None:
    def at(element: int, page: int = 0) -> dict[str, Finding]:
        trial = Trial()
        return trial.run(PAGE, "%p: i64, %i: i32", [trial.pages[page : page + 1].view(I64), np.array([element], I32)])

    assert not at(0)
    assert not at(12)
    assert only(at(16), "out-of-bounds").address is not None  # between pages
    stride = 128 // 4  # from page to page: lands in another page
    assert "out-of-bounds" in at(stride)
    assert "out-of-bounds" in at(-stride)
    assert "0 bytes into page[3]" in only(at(0, page=3), "out-of-bounds").what  # unmapped


def test_a_vector_that_crosses_a_page() -> None:
    trial = Trial()
    values = [trial.pages[:1].view(I64) + 8, np.array([12], I32)]  # starts 56 bytes into a page of 64
    found = trial.run("%x = hip.load %p[%i] : i64, i32 -> vector<4xf32>", "%p: i64, %i: i32", values)
    assert "page-crossing" in found
    assert "misaligned" in Trial().run(
        "%x = hip.load %a[%i] : memref<256xf32>, i32 -> vector<4xf32>", "%i: i32", [np.array([2], I32)]
    )


def test_an_offset_in_a_page_that_needs_more_than_32_bits() -> None:
    trial = Trial()
    values = [trial.pages[:1].view(I64), np.array([1 << 31], I64)]
    only(trial.run("%x = hip.load %p[%i] : i64, i64 -> f32", "%p: i64, %i: i64", values), "wide-offset")


def test_a_page_at_any_address() -> None:
    """The pool is sparse: a page at either end of the address space costs no more than elsewhere."""
    trial = Trial()
    places = np.array([1 << 12, (1 << 64) - (1 << 16), 1 << 63, 0x1234_5678_9ABC_DE00], np.uint64)
    for place in places.tolist():
        at = trial.memory.allocate(64, base=place, align=16, name="far", dtype=F32).base
        trial.memory.write_array(at, np.arange(16).astype(F32))
    body = """%x = hip.load %p[%i] : i64, i32 -> f32
    hip.store %x, %o[%t] : f32, memref<256xf32>, i32"""
    values = [places[thread() % 4].view(I64), thread() % 16, thread()]
    assert not trial.run(body, "%p: i64, %i: i32, %t: i32", values)
    np.testing.assert_array_equal(trial.memory.read_array(int(trial.out.base[0]), F32, 256), thread() % 16)
    assert trial.memory.capacity < 1 << 20
    found = trial.run(body, "%p: i64, %i: i32, %t: i32", [values[0], thread() % 17, thread()])
    assert "out-of-bounds" in found


# ---- 32 bits

INDEX = """%n = arith.constant {n} : i32
%j = arith.{op} %i, %n : i32
%l = hip.lane_id : i32
%k = arith.addi %j, %l : i32
%w = arith.extsi %k : i32 to i64
%x = hip.load %a[%w] if %m : memref<256xf32>, i64 -> f32"""


def test_32_bit_products_on_the_way_to_an_address() -> None:
    masked = np.zeros(1, np.bool_)
    found = Trial().run(INDEX.format(op="muli", n=276_000), "%i: i32, %m: i1", [np.array([7768], I32), masked])
    assert "any" in only(found, "address-overflow").what  # whatever the argument is
    bounded = "%e = arith.constant 255 : i32\n%i = arith.minui %u, %e : i32\n"
    few = bounded + INDEX.format(op="muli", n=64)
    assert not Trial().run(few, "%u: i32, %m: i1", [np.array([3], I32), masked])
    many = bounded + INDEX.format(op="muli", n=1 << 24)
    assert not Trial().run(many, "%u: i32, %m: i1", [np.array([3], I32), masked])  # it could, and does not
    found = Trial().run(many, "%u: i32, %m: i1", [np.array([200], I32), masked])
    assert "overflows" in only(found, "address-overflow").what


def test_a_32_bit_sum_that_overflows() -> None:
    body = INDEX.format(op="addi", n=1 << 30)
    masked = np.zeros(1, np.bool_)
    assert not Trial().run(body, "%i: i32, %m: i1", [np.array([5], I32), masked])
    only(Trial().run(body, "%i: i32, %m: i1", [np.array([1 << 30], I32), masked]), "address-overflow")


# ---- what memory holds


def test_a_read_of_bytes_that_nobody_wrote() -> None:
    body = """%x = hip.load %o[%t] : memref<256xf32>, i32 -> f32"""
    found = only(Trial().run(body, "%t: i32", [thread()]), "unwritten-read")
    assert found.count == 256


DEAD = """%x = hip.load %p[%i] : i64, i32 -> f32
{use}
hip.store %y, %o[%t] : f32, memref<256xf32>, i32"""
USES = {
    "arith.addf %x, %x : f32": True,
    "arith.select %m, %x, %c : f32": False,
    "arith.select %n, %x, %c : f32": True,
    "arith.mulf %x, %c : f32": True,
    "hip.exchange %x xor 1 : f32 -> f32": True,
    "hip.exp2 %x : f32 -> f32": True,
}


@pytest.mark.parametrize("use", USES)
def test_a_dead_slot_that_reaches_an_output(use: str) -> None:
    """Finite poison: only its taint shows it. A select that drops the value drops the taint."""
    trial = Trial()
    trial.memory.poison(trial.pages[:1], np.arange(16)[None] >= 8, 4)
    slot = thread() % 16
    body = "%c = arith.constant 0.0 : f32\n%one = arith.constant true\n%n = arith.xori %one, %m : i1\n"
    body += DEAD.format(use=f"%y = {use}")
    args = "%p: i64, %i: i32, %t: i32, %m: i1"
    found = trial.run(body, args, [trial.pages[:1].view(I64), slot, thread(), slot < 8])
    assert list(found) == (["poison-result"] if USES[use] else [])
    if USES[use]:
        assert found["poison-result"].count == 128
        assert "output 'out'" in found["poison-result"].what
        assert "k.mlir:" in found["poison-result"].what
        assert "page[0]" in found["poison-result"].what


def test_poison_goes_through_lds_and_registers_and_products() -> None:
    body = """%z = arith.constant 0 : i32
    %v = hip.load %p[%i] : i64, i32 -> f32
    %lds = hip.lds_alloc : memref<128xf32, 3>
    hip.lds_store %v, %lds[%l] : f32, memref<128xf32, 3>, i32
    hip.barrier
    %w = hip.lds_load %lds[%l] : memref<128xf32, 3>, i32 -> f32
    %r = hip.regs : !hip.regs<1 x f32>
    hip.set %w, %r[%z] : f32, !hip.regs<1 x f32>, i32
    %u = hip.get %r[%z] : !hip.regs<1 x f32>, i32 -> f32
    %one = arith.constant 1.0 : f32
    %c = arith.constant dense<0.0> : vector<4xf32>
    %d = hip.mma "mfma_f32_16x16x4_f32" %u, %one, %c : f32, f32, vector<4xf32> -> vector<4xf32>
    %y = hip.slice %d at 0 : vector<4xf32> -> f32
    hip.store %y, %o[%t] : f32, memref<256xf32>, i32"""
    trial = Trial()
    trial.memory.poison(trial.pages[:1], np.arange(16)[None] == 4, 4)
    lane = thread() % 128
    values = [trial.pages[:1].view(I64), lane % 16, lane, thread()]
    found = trial.run(body, "%p: i64, %i: i32, %l: i32, %t: i32", values)
    # Row 4 of D, in register 0 of group 1: 16 lanes of each of the 4 waves.
    assert only(found, "poison-result").count == 64


def test_poison_that_decides() -> None:
    trial = Trial()
    trial.memory.poison(trial.pages[:1], np.ones((1, 16), np.bool_), 4)
    page = trial.pages[:1].view(I64)
    body = """%x = hip.load %p[%i] : i64, i32 -> i32
    %y = hip.load %a[%x] : memref<256xf32>, i32 -> f32"""
    trial.memory.write_array(int(trial.pages[0]), np.arange(16).astype(I32))
    trial.memory.poison(trial.pages[:1], np.ones((1, 16), np.bool_), 4)
    found = only(trial.run(body, "%p: i64, %i: i32", [page, np.zeros(1, I32)]), "poison-decides")
    assert "decides what hip.load does" in found.what
    trial.court.findings.clear()
    branch = """%x = hip.load %p[%i] : i64, i32 -> i32
    %c = arith.cmpi eq, %x, %i : i32
    scf.if %c {
      hip.barrier
    }"""
    assert "scf.if" in only(trial.run(branch, "%p: i64, %i: i32", [page, np.zeros(1, I32)]), "poison-decides").what


def test_a_register_that_was_never_set() -> None:
    body = """%z = arith.constant 0 : i32
    %r = hip.regs : !hip.regs<1 x vector<2xf32>>
    {set}
    %y = hip.get %r[%z, %z] : !hip.regs<1 x vector<2xf32>>, i32, i32 -> f32
    hip.store %y, %o[%t] : f32, memref<256xf32>, i32"""
    only(Trial().run(body.format(set=""), "%t: i32", [thread()]), "poison-result")
    set_ = "%c = arith.constant 1.0 : f32\nhip.set %c, %r[%z, %z] : f32, !hip.regs<1 x vector<2xf32>>, i32, i32"
    assert not Trial().run(body.format(set=set_), "%t: i32", [thread()])


# ---- order

SHARED = """%x = hip.load %a[%t] : memref<256xf32>, i32 -> f32
%lds = hip.lds_alloc : memref<128xf32, 3>
hip.lds_store %x, %lds[%l] : f32, memref<128xf32, 3>, i32
{between}
%y = hip.lds_load %lds[%j] : memref<128xf32, 3>, i32 -> f32
{after}"""
OTHER = "%l: i32, %j: i32, %t: i32"


def shared(partner: int, between: str = "", after: str = "") -> dict[str, Finding]:
    lane = thread() % LANES
    return Trial().run(SHARED.format(between=between, after=after), OTHER, [lane, lane ^ partner, thread()])


def test_a_write_and_a_read_of_other_waves() -> None:
    found = only(shared(64), "race")
    assert found.count == 256
    assert found.owner.startswith("lane 64 of workgroup 5 in hip.lds_store at k.mlir:")
    assert "hip.lds_load" in found.op
    assert not shared(64, "hip.barrier")
    assert not shared(0)  # a lane's own
    assert list(shared(64, "hip.sched_barrier")) == ["race"]


def test_lanes_of_a_wave_are_ordered_where_the_compiler_keeps_the_order() -> None:
    assert list(shared(1)) == ["race"]
    assert not shared(1, "hip.sched_barrier")


def test_a_read_and_a_later_write_of_other_waves() -> None:
    again = "hip.lds_store %y, %lds[%l] : f32, memref<128xf32, 3>, i32"
    assert list(shared(64, "hip.barrier", again)) == ["race"]
    assert not shared(64, "hip.barrier", f"hip.barrier\n{again}")


def test_two_writes() -> None:
    again = "hip.lds_store %y, %lds[%j] : f32, memref<128xf32, 3>, i32"
    assert list(shared(0, "", again)) == []
    body = """%x = hip.load %a[%t] : memref<256xf32>, i32 -> f32
    %lds = hip.lds_alloc : memref<128xf32, 3>
    hip.lds_store %x, %lds[%l] : f32, memref<128xf32, 3>, i32"""
    lane = thread() % LANES
    assert not Trial().run(body, OTHER, [lane, lane, thread()])
    found = only(Trial().run(body, OTHER, [lane // 2, lane, thread()]), "race")  # one instruction, two lanes
    assert found.count == 128


def test_long_loops_without_a_barrier_keep_few_reads() -> None:
    body = """%x = hip.load %a[%t] : memref<256xf32>, i32 -> f32
    %lds = hip.lds_alloc : memref<128xf32, 3>
    hip.lds_store %x, %lds[%l] : f32, memref<128xf32, 3>, i32
    hip.barrier
    %0 = arith.constant 0 : i32
    %1 = arith.constant 1 : i32
    %n = arith.constant 300 : i32
    %127 = arith.constant 127 : i32
    scf.for %i = %0 to %n step %1 : i32 {
      %k = arith.addi %l, %i : i32
      %slot = arith.andi %k, %127 : i32
      %y = hip.lds_load %lds[%slot] : memref<128xf32, 3>, i32 -> f32
    }
    hip.lds_store %x, %lds[%l] : f32, memref<128xf32, 3>, i32"""
    lane = thread() % LANES
    trial = Trial()
    assert only(trial.run(body, OTHER, [lane, lane, thread()]), "race").count > 128


def test_barriers_that_some_workgroups_reach() -> None:
    """Workgroup 7 makes one trip more: its barrier orders its own accesses only."""
    body = """%x = hip.load %a[%t] : memref<256xf32>, i32 -> f32
    %lds = hip.lds_alloc : memref<128xf32, 3>
    %0 = arith.constant 0 : i32
    %1 = arith.constant 1 : i32
    scf.for %i = %0 to %n step %1 : i32 {
      hip.lds_store %x, %lds[%l] : f32, memref<128xf32, 3>, i32
      hip.barrier
      %y = hip.lds_load %lds[%j] : memref<128xf32, 3>, i32 -> f32
      {last}
    }
    """
    lane = thread() % LANES
    trips = np.repeat(np.array([2, 4], I32), LANES)
    values = [lane, lane ^ 64, thread(), trips]
    assert not Trial().run(body.replace("{last}", "hip.barrier"), OTHER + ", %n: i32", values)
    assert list(Trial().run(body.replace("{last}", ""), OTHER + ", %n: i32", values)) == ["race"]


GLOBAL = """%x = hip.load %a[%t] : memref<256xf32>, i32 -> f32
hip.store %x, %w[%t] : f32, memref<256xf32>, i32
{between}
%y = hip.load %w[%j] : memref<256xf32>, i32 -> f32"""


def in_memory(partner: int, between: str = "", **machine: Any) -> dict[str, Finding]:
    trial = Trial()
    at = trial.memory.allocate(1024, name="work", dtype=F32, fill=0xFF).base
    work = MemRef.dense(at, F32, (256,))
    args = "%w: memref<256xf32>, %t: i32, %j: i32"
    return trial.run(GLOBAL.format(between=between), args, [work, thread(), thread() ^ partner], **machine)


def test_races_in_global_memory() -> None:
    assert not in_memory(0)
    assert not in_memory(64, "hip.barrier")  # within a workgroup
    assert list(in_memory(64)) == ["race"]
    assert list(in_memory(1, "hip.sched_barrier")) == ["race"]  # not even within a wave
    assert list(in_memory(128, "hip.barrier")) == ["race"]  # of another workgroup


def test_a_launch_orders_everything() -> None:
    write = "%x = hip.load %a[%t] : memref<256xf32>, i32 -> f32\nhip.store %x, %o[%t] : f32, memref<256xf32>, i32"
    read = "%x = hip.load %o[%j] : memref<256xf32>, i32 -> f32\nhip.store %x, %w[%t] : f32, memref<256xf32>, i32"
    trial = Trial()
    trial.court.outputs.clear()
    at = trial.memory.allocate(1024, name="work", dtype=F32, fill=0xFF).base
    args, values = (
        "%w: memref<256xf32>, %t: i32, %j: i32",
        [MemRef.dense(at, F32, (256,)), thread(), thread()[::-1].copy()],
    )
    assert not trial.run(write, args, values)
    trial.court.begin_launch()
    assert not trial.run(read, args, values)


def test_an_output_that_is_written_twice() -> None:
    body = """%x = hip.load %a[%t] : memref<256xf32>, i32 -> f32
    hip.store %x, %o[%t] : f32, memref<256xf32>, i32
    hip.barrier
    hip.store %x, %o[%j] if %m : f32, memref<256xf32>, i32"""
    args = "%t: i32, %j: i32, %m: i1"
    assert not Trial().run(body, args, [thread(), thread(), np.zeros(1, np.bool_)])
    found = only(Trial().run(body, args, [thread(), thread(), thread() == 3]), "written-twice")
    assert found.count == 1
    assert found.address is not None


# ---- loads to LDS

DIRECT = """%lds = hip.lds_alloc : memref<1024xf32, 3>
%c64 = arith.constant 64 : i32
%w = hip.wave_id : i32
%start = arith.muli %w, %c64 : i32
{before}
hip.load_lds %a[%t] to %lds[%start] x 1 : memref<256xf32>, i32, memref<1024xf32, 3>, i32
{between}
%y = hip.lds_load %lds[%j] : memref<1024xf32, 3>, i32 -> f32
hip.store %y, %o[%t] : f32, memref<256xf32>, i32
{after}"""
AGAIN = "hip.load_lds %a[%t] to %lds[%start] x 1 : memref<256xf32>, i32, memref<1024xf32, 3>, i32"


def direct(partner: int, before: str = "", between: str = "", after: str = "") -> tuple[dict[str, Finding], Array]:
    trial = Trial()
    lane = thread() % LANES
    body = DIRECT.format(before=before, between=between, after=after)
    found = trial.run(body, OTHER, [lane, lane ^ partner, thread()])
    return found, trial.memory.read_array(int(trial.out.base[0]), F32, 256)


def test_a_load_to_lds_and_its_wait() -> None:
    found, got = direct(0, between="hip.waitcnt 0")
    assert not found
    np.testing.assert_array_equal(got, thread())
    found, got = direct(0)
    assert found["early-read"].count == 256
    assert np.isnan(got).all()  # not there yet
    assert "lds" in found["early-read"].what
    assert "unwritten-read" in found
    found, _ = direct(0, between="hip.waitcnt 1")
    assert "early-read" in found


def test_another_wave_reads_a_load_to_lds_after_a_wait_and_a_barrier() -> None:
    found, got = direct(64, between="hip.waitcnt 0\nhip.barrier")
    assert not found
    np.testing.assert_array_equal(got, thread() ^ 64)
    assert list(direct(64, between="hip.waitcnt 0")[0]) == ["race"]
    assert "race" in direct(64, between="hip.barrier\nhip.waitcnt 0")[0]


def test_a_load_to_lds_over_what_others_read() -> None:
    waited = "hip.waitcnt 0\nhip.barrier"
    assert list(direct(64, between=waited, after=AGAIN)[0]) == ["race"]
    assert not direct(64, between=waited, after=f"hip.barrier\n{AGAIN}")[0]


def test_a_wait_leaves_the_newest_loads_pending() -> None:
    """The first of two has arrived after a wait for all but one."""
    second = AGAIN.replace("[%start]", "[%start2]")
    more = f"%c512 = arith.constant 512 : i32\n%start2 = arith.addi %start, %c512 : i32\n{second}\n"
    found, got = direct(0, between=f"{more}hip.waitcnt 1")
    assert not found
    np.testing.assert_array_equal(got, thread())
    assert "early-read" in direct(0, between=f"{more}hip.waitcnt 2")[0]


def test_a_load_to_lds_fills_one_place_for_each_wave() -> None:
    with pytest.raises(XpagedError, match="one place for each wave"):
        direct(0, before="%s = arith.addi %start, %t : i32", between=AGAIN.replace("%start", "%s"))


def test_a_load_to_lds_out_of_bounds() -> None:
    body = """%lds = hip.lds_alloc : memref<128xf32, 3>
    hip.load_lds %a[%t] to %lds[%l] x 1 : memref<256xf32>, i32, memref<128xf32, 3>, i32
    hip.waitcnt 0"""
    wave = thread() % LANES // 64 * 64
    assert not Trial().run(body, OTHER, [wave, thread(), thread()])
    assert only(Trial().run(body, OTHER, [wave, thread(), thread() - 64]), "out-of-bounds").count == 64
    found = only(Trial().run(body, OTHER, [wave + 1, thread(), thread()]), "out-of-bounds")
    assert "lds[0]" in found.what
    assert found.count == 2  # the last lane of each workgroup


# ---- what is moved


def test_statistics() -> None:
    stats = Stats()
    trial = Trial(stats)
    body = """%x = hip.load %a[%i] : memref<256xf32>, i32 -> vector<4xf32>
    %y = hip.load %a[%t] : memref<256xf32>, i32 -> f32
    %lds = hip.lds_alloc : memref<4096xf32, 3>
    hip.lds_store %y, %lds[%j] : f32, memref<4096xf32, 3>, i32
    %z = arith.constant 0.0 : f32
    %c = arith.constant dense<0.0> : vector<4xf32>
    %d = hip.mma "mfma_f32_16x16x4_f32" %z, %z, %c : f32, f32, vector<4xf32> -> vector<4xf32>
    hip.store %y, %o[%t] if %m : f32, memref<256xf32>, i32"""
    args = "%i: i32, %t: i32, %j: i32, %m: i1"
    lane = thread() % LANES
    trial.run(body, args, [thread() % 16 * 4, thread(), lane * 32, thread() < 64])
    got = stats.as_json()
    read = got["global"]["reads"]["input"]
    assert read["useful_bytes"] == 256 * 16 + 256 * 4
    assert read["distinct_bytes"] == 1024
    assert read["lines_of_64"] == 4 * 4 + 4 * 4  # 4 waves; 16 vectors of 16 bytes, 64 floats
    assert read["instructions_by_width"] == {"4": 4, "16": 4}
    assert got["global"]["share_of_16_byte_reads"] == 0.5
    assert got["global"]["writes"]["out"]["useful_bytes"] == 256
    assert got["lds"]["writes"]["instructions_by_width"] == {"4": 4}
    assert got["lds"]["writes"]["clocks"] == 256  # all lanes want one bank
    assert got["lds"]["writes"]["conflict_clocks"] == 256 - 8
    assert got["matrix_instructions"] == {"mfma_f32_16x16x4_f32": 4}


CONFLICTS = {  # 16-byte reads of rows: the padding takes the conflicts away
    (16, 4): 0,
    (16, 32): 56,
    (16, 8): 8,
    (16, 36): 0,
    (8, 2): 0,
    (4, 1): 0,
    (4, 2): 2,
    (4, 0): 0,
}


@pytest.mark.parametrize(("width", "step"), CONFLICTS)
def test_bank_conflicts(width: int, step: int) -> None:
    stats = Stats()
    trial = Trial(stats)
    count = width // 4
    type_ = f"vector<{count}xf32>" if count > 1 else "f32"
    value = f"dense<1.0> : {type_}" if count > 1 else "1.0 : f32"
    body = f"""%x = arith.constant {value}
    %lds = hip.lds_alloc : memref<4096xf32, 3>
    hip.lds_store %x, %lds[%j] if %m : {type_}, memref<4096xf32, 3>, i32"""
    lane = thread(64)
    trial.run(body, "%j: i32, %m: i1", [lane * step, lane < 64], groups=(0,), lanes_per_group=64)
    assert stats.as_json()["lds"]["writes"]["conflict_clocks"] == CONFLICTS[width, step]
