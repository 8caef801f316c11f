"""The text of device-level kernels: how it reads, and what it refuses."""

import re
from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.codegen.hip_texts import ARGS, ATTENTION, CONSTANTS, check, kernel, lines, stored, text_of
from xpaged.arch.table import get_arch
from xpaged.codegen.hip_printer import print_hip
from xpaged.codegen.toolchain import Compiler
from xpaged.errors import XpagedError
from xpaged.ir.parsing import parse

# ---- expressions


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ("%s = arith.addf %x, %y : f32\n%r = arith.mulf %s, %y : f32", "(x + y) * y"),
        ("%s = arith.mulf %x, %y : f32\n%r = arith.addf %s, %y : f32", "x * y + y"),
        ("%s = arith.addf %x, %y : f32\n%r = arith.addf %y, %s : f32", "y + (x + y)"),
        ("%s = arith.subf %x, %y : f32\n%r = arith.subf %y, %s : f32", "y - (x - y)"),
        ("%s = arith.negf %x : f32\n%r = arith.negf %s : f32", "-(-x)"),
        ("%s = arith.subf %x, %y : f32\n%r = arith.negf %s : f32", "-(x - y)"),
        ("%s = arith.maxnumf %x, %y : f32\n%r = arith.divf %x, %s : f32", "x / maxf(x, y)"),
        ("%s = arith.truncf %x : f32 to f16\n%r = arith.extf %s : f16 to f32", "(float)(f16)x"),
        ("%b0 = arith.cmpf ult, %x, %y : f32\n%r = arith.select %b0, %x, %y : f32", "!(x >= y) ? x : y"),
        ("%r = arith.sitofp %n : i32 to f32", "(float)n"),
        ("%r = arith.uitofp %n : i32 to f32", "(float)(u32)n"),
        ("%r = arith.constant 1.0e-3 : f32", "0.001f"),
        ("%r = arith.constant 0xFF800000 : f32", "NEG_INF"),
        ("%r = arith.constant 0.1 : f32", "0.1f"),
        ("%r = arith.constant -2.0 : f32", "-2.0f"),
    ],
)
def test_float_expressions(operations: str, expected: str) -> None:
    assert stored(operations, "%r") == expected


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        # n and k may be any number, lane is 0 .. 63.
        ("%r = arith.divui %n, %c4 : i32", "n / 4u"),
        ("%r = arith.divui %n, %k : i32", "n / (u32)k"),
        ("%r = arith.divsi %n, %c4 : i32", "n / 4"),
        ("%s = arith.remui %n, %c4 : i32\n%r = arith.addi %s, %lane : i32", "n % 4u + lane"),
        ("%s = arith.addi %lane, %c4 : i32\n%r = arith.muli %s, %lane : i32", "(lane + 4) * lane"),
        ("%s = arith.muli %lane, %c4 : i32\n%r = arith.addi %lane, %s : i32", "lane + lane * 4"),
        ("%s = arith.addi %lane, %c4 : i32\n%r = arith.addi %lane, %s : i32", "lane + lane + 4"),
        ("%r = arith.addi %n, %k : i32", "(u32)n + k"),
        ("%r = arith.addi %n, %k overflow<nsw> : i32", "n + k"),
        ("%m1 = arith.constant -1 : i32\n%r = arith.addi %lane, %m1 : i32", "lane - 1"),
        ("%r = arith.minsi %n, %k : i32", "imin(n, k)"),
        ("%r = arith.minui %n, %k : i32", "umin((u32)n, (u32)k)"),
        ("%r = arith.minui %lane, %c4 : i32", "imin(lane, 4)"),
        ("%r = arith.shrui %n, %c4 : i32", "(u32)n >> 4"),
        ("%r = arith.shrsi %n, %c4 : i32", "n >> 4"),
        ("%s = arith.shli %lane, %c4 : i32\n%r = arith.addi %s, %lane : i32", "(lane << 4) + lane"),
        ("%s = arith.andi %n, %c4 : i32\n%r = arith.xori %s, %k : i32", "(n & 4) ^ k"),
        ("%b0 = arith.cmpi slt, %n, %k : i32\n%r = arith.select %b0, %n, %k : i32", "n < k ? n : k"),
        ("%b0 = arith.cmpi ult, %n, %k : i32\n%r = arith.select %b0, %n, %k : i32", "(u32)n < (u32)k ? n : k"),
        ("%b0 = arith.cmpi ult, %lane, %c4 : i32\n%r = arith.select %b0, %n, %k : i32", "lane < 4 ? n : k"),
        # The quotient may be read as negative: the comparison has to say that it is signed.
        ("%s = arith.divui %n, %c1 : i32\n%b0 = arith.cmpi slt, %s, %k : i32\n%r = arith.select %b0, %n, %k : i32",
         "(int)(n / 1u) < k ? n : k"),
        ("%s = arith.remui %n, %c4 : i32\n%b0 = arith.cmpi slt, %s, %k : i32\n%r = arith.select %b0, %n, %k : i32",
         "(int)(n % 4u) < k ? n : k"),
        ("%w = arith.extui %n : i32 to i64\n%r = arith.trunci %w : i64 to i32", "(int)(i64)(u32)n"),
        ("%r = arith.constant -2147483648 : i32", "(-2147483647 - 1)"),
    ],
)  # fmt: skip
def test_integer_expressions(operations: str, expected: str) -> None:
    assert stored(operations, "%r", "i32") == expected


def test_conditions_are_joined_without_parentheses() -> None:
    body = """%p = arith.cmpi sge, %n, %c0 : i32
    %q = arith.cmpi slt, %n, %c4 : i32
    %both = arith.andi %p, %q : i1
    hip.store %x, %o[%lane] if %both : f32, memref<64xf32>, i32"""
    assert lines(body) == ["if (n >= 0 && n < 4) store<float>(o, lane, x);"]


def test_reads_that_lanes_do_together_stay_out_of_choices() -> None:
    body = """%p = arith.cmpi slt, %n, %c4 : i32
    %e = hip.exchange %x xor 1 : f32 -> f32
    %z = hip.load %a[%n] : memref<64xf32>, i32 -> f32
    %r = arith.select %p, %e, %z : f32
    hip.store %r, %o[%lane] : f32, memref<64xf32>, i32"""
    assert lines(body) == [
        "const float e = lane_xor1(x);",
        "const float z = load<float>(a, n);",
        "store<float>(o, lane, n < 4 ? e : z);",
    ]


def test_masked_accesses_touch_memory_in_their_branch_only() -> None:
    body = """%p = arith.cmpi slt, %n, %c4 : i32
    %e = hip.exchange %x xor 1 : f32 -> f32
    %z = hip.load %b[%lane] if %p : memref<64xf16>, i32 -> f16
    %w = arith.extf %z : f16 to f32
    hip.store %e, %o[%lane] if %p : f32, memref<64xf32>, i32
    hip.store %w, %o[%n] if %p : f32, memref<64xf32>, i32"""
    assert lines(body) == [
        "const bool p = n < 4;",
        "const float e = lane_xor1(x);",
        "const float w = (float)(p ? load<f16>(b, lane) : (f16)0.0f);",
        "if (p) {",
        "  store<float>(o, lane, e);",
        "  store<float>(o, n, w);",
        "}",
    ]


def test_splats_are_scalars_next_to_vectors() -> None:
    body = """%v = hip.load %a[%lane] : memref<64xf32>, i32 -> vector<4xf32>
    %s = hip.splat %x : f32 -> vector<4xf32>
    %m = arith.mulf %v, %s : vector<4xf32>
    %two = arith.constant dense<2.0> : vector<4xf32>
    %w = arith.subf %m, %two : vector<4xf32>
    hip.store %w, %o[%c0] : vector<4xf32>, memref<64xf32>, i32
    hip.store %s, %o[%c4] : vector<4xf32>, memref<64xf32>, i32"""
    assert lines(body) == [
        "store<f32x4>(o, 0, load<f32x4>(a, lane) * x - 2.0f);",
        "store<f32x4>(o, 4, f32x4(x));",
    ]


# ---- order


def test_a_value_that_was_read_keeps_its_value() -> None:
    body = """%r = hip.regs : !hip.regs<2 x f32>
    hip.set %x, %r[%c0] : f32, !hip.regs<2 x f32>, i32
    %before = hip.get %r[%c0] : !hip.regs<2 x f32>, i32 -> f32
    hip.set %y, %r[%c0] : f32, !hip.regs<2 x f32>, i32
    %after = hip.get %r[%c0] : !hip.regs<2 x f32>, i32 -> f32
    %s = arith.subf %before, %after : f32
    hip.store %s, %o[%lane] : f32, memref<64xf32>, i32"""
    assert lines(body) == [
        "float r[2];",
        "r[0] = x;",
        "const float before = r[0];",
        "r[0] = y;",
        "store<float>(o, lane, before - r[0]);",
    ]


def test_an_array_of_one_is_a_variable() -> None:
    body = """%r = hip.regs : !hip.regs<1 x f32>
    %s = hip.regs : !hip.regs<1 x f32>
    hip.set %x, %s[%c0] : f32, !hip.regs<1 x f32>, i32
    hip.set %y, %r[%c0] : f32, !hip.regs<1 x f32>, i32
    %g = hip.get %s[%c0] : !hip.regs<1 x f32>, i32 -> f32
    hip.set %g, %r[%c0] : f32, !hip.regs<1 x f32>, i32
    %h = hip.get %r[%c0] : !hip.regs<1 x f32>, i32 -> f32
    hip.store %h, %o[%lane] : f32, memref<64xf32>, i32"""
    assert lines(body) == ["const float s = x;", "float r = y;", "r = s;", "store<float>(o, lane, r);"]


LDS = """%m = hip.lds_alloc : memref<64xf32, 3>
    hip.lds_store %x, %m[%lane] : f32, memref<64xf32, 3>, i32
    {between}
    %v = hip.lds_load %m[%c4] : memref<64xf32, 3>, i32 -> f32
    hip.barrier
    hip.store %v, %o[%lane] : f32, memref<64xf32>, i32"""


def test_reads_do_not_pass_barriers() -> None:
    assert lines(LDS.format(between="hip.barrier")) == [
        "LDS float m[64];",
        "m[lane] = x;",
        "barrier();",
        "const float v = m[4];",
        "barrier();",
        "store<float>(o, lane, v);",
    ]


# ---- loops and branches

SWAP = """%end = arith.constant 3 : i32
    %p, %q = scf.for %i = %c0 to %end step %c1 iter_args(%u = %x, %v = %y) -> (f32, f32) : i32 {
      scf.yield %v, %u : f32, f32
    }
    %s = arith.subf %p, %q : f32
    hip.store %s, %o[%lane] : f32, memref<64xf32>, i32"""


def test_variables_of_a_loop_change_at_once() -> None:
    assert lines(SWAP) == [
        "float u = x;",
        "float v = y;",
        "for (int i = 0; i < 3; ++i) {",
        "  const float new_u = v;",
        "  v = u;",
        "  u = new_u;",
        "}",
        "store<float>(o, lane, u - v);",
    ]


def test_a_second_loop_goes_on_with_the_variable_of_the_first() -> None:
    body = """%end = arith.constant 3 : i32
    %p = scf.for %i = %c0 to %end step %c1 iter_args(%u = %x) -> (f32) : i32 {
      %w = arith.addf %u, %y : f32
      scf.yield %w : f32
    } {unroll}
    %q = scf.for %i = %c0 to %n step %c4 iter_args(%u = %p) -> (f32) : i32 {
      %b0 = arith.cmpf olt, %u, %y : f32
      %t2 = scf.if %b0 -> (f32) {
        %w = arith.mulf %u, %y : f32
        scf.yield %w : f32
      } else {
        scf.yield %u : f32
      }
      scf.yield %t2 : f32
    }
    hip.store %q, %o[%lane] : f32, memref<64xf32>, i32"""
    assert lines(body) == [
        "float u = x;",
        "UNROLL for (int i = 0; i < 3; ++i) u += y;",
        "for (int i = 0; i < n; i += 4) if (u < y) u *= y;",
        "store<float>(o, lane, u);",
    ]


def test_a_branch_that_only_changes_one_side_starts_from_the_other() -> None:
    body = """%b0 = arith.cmpf olt, %x, %y : f32
    %r = scf.if %b0 -> (f32) {
      %w = arith.mulf %x, %y : f32
      scf.yield %w : f32
    } else {
      scf.yield %y : f32
    }
    %z = arith.addf %r, %y : f32
    hip.store %z, %o[%lane] : f32, memref<64xf32>, i32"""
    assert lines(body) == [
        "float r = y;",
        "if (x < y) r = x * y;",
        "store<float>(o, lane, r + y);",
    ]


def test_branches_with_two_sides() -> None:
    body = """%b0 = arith.cmpf olt, %x, %y : f32
    scf.if %b0 {
      hip.store %x, %o[%lane] : f32, memref<64xf32>, i32
    } else {
      hip.store %y, %o[%lane] : f32, memref<64xf32>, i32
    }
    scf.if %b0 {
    } else {
      hip.store %y, %o[%c4] : f32, memref<64xf32>, i32
    }"""
    assert lines(body) == [
        "const bool b0 = x < y;",
        "if (b0) {",
        "  store<float>(o, lane, x);",
        "} else {",
        "  store<float>(o, lane, y);",
        "}",
        "if (!b0) store<float>(o, 4, y);",
    ]


def test_a_loop_of_one_turn_is_its_body() -> None:
    body = """%p = scf.for %i = %c4 to %c5 step %c1 iter_args(%u = %x) -> (f32) : i32 {
      %z = hip.load %a[%i] : memref<64xf32>, i32 -> f32
      %w = arith.addf %u, %z : f32
      scf.yield %w : f32
    } {unroll}
    hip.store %p, %o[%lane] : f32, memref<64xf32>, i32"""
    five = "%c5 = arith.constant 5 : i32\n"
    assert lines(five + body) == ["const float p = x + load<float>(a, 4);", "store<float>(o, lane, p);"]


def test_bounds_of_loops_do_not_change_under_way() -> None:
    body = """%end = arith.constant 3 : i32
    %e = scf.for %i = %c0 to %end step %c1 iter_args(%u = %n) -> (i32) : i32 {
      %w = arith.addi %u, %c1 : i32
      scf.yield %w : i32
    }
    %q = scf.for %i = %c0 to %e step %c1 iter_args(%u = %e) -> (i32) : i32 {
      %w = arith.addi %u, %c4 : i32
      scf.yield %w : i32
    }
    hip.store %q, %t[%lane] : i32, memref<64xi32>, i32"""
    text = lines(body)
    bound = next(re.search(r"i < (\w+); ", line) for line in text[3:] if line.startswith("for"))
    assert bound is not None
    assert f"const int {bound[1]} = u;" in text


# ---- lanes


def source_lane(call: str, lane: int) -> int:
    """The lane that an exchange reads, by the manuals' meaning of its control word."""
    if (dpp := re.search(r"mov_dpp\(x, (0x\w+), 0xf, 0xf, true\)", call)) is not None:
        control = int(dpp[1], 16)
        if control < 0x100:  # quad_perm: two bits for each lane of four
            return lane & ~3 | control >> 2 * (lane & 3) & 3
        row = lane & ~15
        within = {0x140: 15 - lane % 16, 0x141: lane % 16 & 8 | 7 - lane % 8}  # row_mirror, row_half_mirror
        return row | (within[control] if control in within else (lane - (control - 0x120)) % 16)  # row_ror
    if (swizzle := re.search(r"ds_swizzle\(x, (0x\w+)\)", call)) is not None:  # (lane & and | or) ^ xor, of 32
        word = int(swizzle[1], 16)
        return lane & 32 | (lane & word & 31 | word >> 5 & 31) ^ word >> 10 & 31
    permute = re.search(r"ds_bpermute\(4 \* \(lane \^ (\d+)\), x\)", call)
    assert permute is not None
    return lane ^ int(permute[1])


@pytest.mark.parametrize("mask", range(1, 64))
def test_exchanges_read_the_right_lane(mask: int) -> None:
    text = text_of(
        kernel(
            f"""%e = hip.exchange %n xor {mask} : i32 -> i32
            hip.store %e, %t[%lane] : i32, memref<64xi32>, i32"""
        )
    )
    assert f"store<int>(t, lane, lane_xor{mask}(n));" in text
    helper = text.split(f"DEV int lane_xor{mask}(int x)")[1].split("}")[0]
    assert [source_lane(helper, lane) for lane in range(64)] == [lane ^ mask for lane in range(64)]


# ---- offsets

PAGED = """%c8 = arith.constant 8 : i32
    %row = arith.muli %lane, %c8 : i32
    scf.for %it = %c0 to %n step %c1 : i32 {
      %page = hip.load %pages[%it] : memref<16xi64>, i32 -> i64
      %r = hip.regs : !hip.regs<4 x vector<4xf16>>
      scf.for %i = %c0 to %c4 step %c1 : i32 {
        %i8 = arith.muli %i, %c8 : i32
        %at = arith.addi %row, %i8 : i32
        %v = hip.load %page[%at] : i64, i32 -> vector<4xf16>
        hip.set %v, %r[%i] : vector<4xf16>, !hip.regs<4 x vector<4xf16>>, i32
      } {unroll}
      %w = hip.get %r[%c0] : !hip.regs<4 x vector<4xf16>>, i32 -> vector<4xf16>
      hip.store %w, %b[%it] : vector<4xf16>, memref<64xf16>, i32
    }"""
PAGES = "%pages: memref<16xi64> {rock.page_table = {page_size = 1024 : i64, elem = f16}}, "


def test_offsets_in_pages_stay_in_their_registers() -> None:
    assert lines(PAGED, PAGES + ARGS) == [
        "int row = lane * 8;",
        "for (int it = 0; it < n; ++it) {",
        "  HOLD(row);",
        "  const u64 page = lookup(pages, it);",
        "  f16x4 r[4];",
        "  UNROLL for (int i = 0; i < 4; ++i) r[i] = load<f16x4>(page, row, i * 8);",
        "  store<f16x4>(b, it, r[0]);",
        "}",
    ]


def test_the_hardware_adds_page_lane_and_constant(every_compiler: Compiler) -> None:
    asm = check(every_compiler, text_of(kernel(PAGED, PAGES + ARGS), "gfx90a"), 1, "gfx90a")
    loads = re.findall(r"global_load_dwordx2 .*", asm)
    assert loads
    assert all(re.search(r", v\d+, s\[\d+:\d+\]", load) for load in loads), loads


@pytest.mark.parametrize(
    ("args", "base", "offset", "expected"),
    [
        ("%far: memref<4294967296xf32>", "%far", "%n", "load_far<float>(far, n)"),
        ("%far: memref<1073741824xf32>", "%far", "%n", "load<float>(far, n)"),
        ("%far: memref<?xf32>", "%far", "%n", "load_far<float>(far, n)"),
        ("%far: memref<?xf32>", "%far", "%lane", "load<float>(far, lane)"),
        ("%far: i64", "%far", "%n", "load_far<float>(far, n)"),
    ],
)
def test_offsets_that_may_not_fit_in_32_bits(args: str, base: str, offset: str, expected: str) -> None:
    type_ = args.split(": ")[1]
    body = f"""%z = hip.load {base}[{offset}] : {type_}, i32 -> f32
    hip.store %z, %o[%lane] : f32, memref<64xf32>, i32"""
    assert lines(body, f"{args}, {ARGS}") == [f"store<float>(o, lane, {expected});"]


# ---- LDS

BUFFERS = """%m1 = hip.lds_alloc : memref<{}xf32, 3>
    %m2 = hip.lds_alloc : memref<{}xf16, 3>
    %m3 = hip.lds_alloc : memref<{}xf32, 3>
    hip.lds_store %x, %m1[%c0] : f32, memref<{}xf32, 3>, i32
    %h = arith.truncf %y : f32 to f16
    hip.lds_store %h, %m2[%c1] : f16, memref<{}xf16, 3>, i32
    hip.lds_store %x, %m3[%c1] : f32, memref<{}xf32, 3>, i32
    hip.barrier
    %v1 = hip.lds_load %m1[%n] : memref<{}xf32, 3>, i32 -> f32
    %v2 = hip.lds_load %m2[%n] : memref<{}xf16, 3>, i32 -> f16
    %v3 = hip.lds_load %m3[%n] : memref<{}xf32, 3>, i32 -> f32
    %w2 = arith.extf %v2 : f16 to f32
    %s1 = arith.addf %v1, %w2 : f32
    %s2 = arith.addf %s1, %v3 : f32
    hip.store %s2, %o[%lane] : f32, memref<64xf32>, i32"""


@pytest.mark.parametrize(("counts", "bytes_"), [((25, 5, 64), 380), ((3, 64, 25), 252), ((64, 64, 64), 640)])
def test_bytes_of_lds_are_what_the_compiler_takes(
    every_compiler: Compiler, counts: tuple[int, int, int], bytes_: int
) -> None:
    text = text_of(kernel(BUFFERS.format(*counts * 3)), "gfx90a")
    assert f"{bytes_} bytes of static LDS" in text
    assert f".group_segment_fixed_size: {bytes_}\n" in check(every_compiler, text, 1, "gfx90a")


# ---- names and comments


def test_names_clash_with_nothing() -> None:
    body = """%float = arith.addf %x, %y : f32
    %load = arith.addf %float, %float : f32
    %f32x4 = arith.addf %load, %load : f32
    %a_1 = arith.mulf %f32x4, %f32x4 : f32
    %f = arith.mulf %a_1, %a_1 : f32
    hip.store %f, %o[%lane] : f32, memref<64xf32>, i32"""
    assert lines(body) == [
        "const float float2 = x + y;",
        "const float load2 = float2 + float2;",
        "const float f32x4_2 = load2 + load2;",
        "const float a2 = f32x4_2 * f32x4_2;",
        "store<float>(o, lane, a2 * a2);",
    ]


def test_head_comment() -> None:
    text = text_of(parse(ATTENTION.read_text()))
    head = [line.removeprefix("//").removeprefix(" ") for line in text.split("\n\n")[0].splitlines()]
    assert head == [
        "decode: Attention of 4 heads x 16 query rows over at most 128 keys, head size 64, f16.",
        "Pages of 32 tokens.",
        "",
        "Written by xpaged for gfx942 (MI300X, MI325X).",
        "",
        "  q        f16[4096]  read",
        "  k_pages  u64[16]    read, page table: addresses of pages of 2048 f16",
        "  v_pages  u64[16]    read, page table: addresses of pages of 2048 f16",
        "  last     i32[1]     read",
        "  out      f16[4096]  written, output 0",
        "  lse      f32[64]    written, output 1",
        "",
        "Launch: grid 4 x 1 x 1, block 256 x 1 x 1 (4 waves), 16896 bytes of static LDS.",
    ]


def test_stages_say_where_they_come_from() -> None:
    first, second = lines('hip.stage "the first  part" note "ends in a backslash \\\\"\nhip.stage "the second"')[::3]
    assert re.fullmatch(r"// ---- the first part -+ kernel.mlir:\d+:\d+", first)
    assert re.fullmatch(r"// ---- the second -+ kernel.mlir:\d+:\d+", second)
    assert lines('hip.stage "a" note "ends in a backslash \\\\"')[1] == "// ends in a backslash \\."


# ---- matrix instructions and exchanges of other architectures


@pytest.mark.parametrize(
    ("arch", "name", "types", "call"),
    [
        ("gfx90a", "mfma_i32_16x16x16_i8", ("vector<4xi8>", "vector<4xi32>"),
         "16i8(bits<int>(a), bits<int>(b), c, 0, 0, 0)"),
        ("gfx942", "mfma_i32_16x16x32_i8", ("vector<8xi8>", "vector<4xi32>"),
         "32_i8(bits<i64>(a), bits<i64>(b), c, 0, 0, 0)"),
        ("gfx950", "mfma_f32_16x16x32_bf16", ("vector<8xbf16>", "vector<4xf32>"),
         "_bf16(bits<hw_bf16x8>(a), bits<hw_bf16x8>(b), c, 0, 0, 0)"),
        ("gfx1100", "wmma_f32_16x16x16_f16", ("vector<16xf16>", "vector<8xf32>"), "_f16_w32(a, b, c)"),
        ("gfx1100", "wmma_i32_16x16x16_i8", ("vector<16xi8>", "vector<8xi32>"),
         "_iu8_w32(true, bits<i32x4>(a), true, bits<i32x4>(b), c, false)"),
        ("gfx1201", "wmma_f32_16x16x16_bf16_gfx12", ("vector<8xbf16>", "vector<8xf32>"), "_bf16_w32_gfx12(a, b, c)"),
    ],
)  # fmt: skip
def test_how_matrix_instructions_are_called(arch: str, name: str, types: tuple[str, str], call: str) -> None:
    operand, total = types
    module = kernel(f"""%held = hip.regs : !hip.regs<1 x {operand}>
    %a1 = hip.get %held[%c0] : !hip.regs<1 x {operand}>, i32 -> {operand}
    %sums = hip.regs : !hip.regs<1 x {total}>
    %c1x = hip.get %sums[%c0] : !hip.regs<1 x {total}>, i32 -> {total}
    %d = hip.mma "{name}" %a1, %a1, %c1x : {operand}, {operand}, {total} -> {total}
    hip.set %d, %sums[%c0] : {total}, !hip.regs<1 x {total}>, i32""")
    text = " ".join(text_of(module, arch).split())
    assert f"return __builtin_amdgcn_{name.split('_')[0]}_{name.split('_')[1]}_16x16x" in text
    assert call in text
    if "hw_bf16x8" in call:  # which a CPU's compiler may not have
        assert "#ifdef __AMDGCN__ typedef __bf16 hw_bf16x8" in text


def test_vectors_are_exchanged_word_by_word() -> None:
    text = text_of(
        kernel("""%x1 = hip.load %a[%c0] : memref<64xf32>, i32 -> vector<4xf32>
    %e = hip.exchange %x1 xor 16 : vector<4xf32> -> vector<4xf32>
    %y1 = hip.slice %e at 0 : vector<4xf32> -> f32
    hip.store %y1, %o[%lane] : f32, memref<64xf32>, i32""")
    )
    assert "i32x4 w = bits<i32x4>(x);" in text
    assert "UNROLL for (int i = 0; i < 4; ++i) w[i] = lane_xor16(w[i]);" in text
    assert text.index("DEV int lane_xor16(int x)") < text.index("DEV f32x4 lane_xor16(f32x4 x)")


def test_a_loop_of_loads_that_is_not_marked_stays_a_loop() -> None:
    """A compiler that unrolls it has all loads in registers at once."""
    body = """%r = scf.for %i = %c0 to %c4 step %c1 iter_args(%s = %f0) -> (f32) : i32 {{
      %x1 = {what}
      %t1 = arith.addf %s, %x1 : f32
      scf.yield %t1 : f32
    }}
    hip.store %r, %o[%lane] : f32, memref<64xf32>, i32"""
    constants = CONSTANTS + "%f0 = arith.constant 0.0 : f32\n"
    load = kernel(body.format(what="hip.load %a[%i] : memref<64xf32>, i32 -> f32"), constants=constants)
    assert "ROLLED for (int i = 0; i < 4; ++i) s += load<float>(a, i);" in text_of(load)
    add = kernel(body.format(what="arith.addf %s, %s : f32"), constants=constants)
    assert "ROLLED" not in text_of(add)


# ---- refusals


def refused(module: ModuleOp, match: str, arch: str = "gfx942") -> XpagedError:
    with pytest.raises(XpagedError, match=match) as error:
        text_of(module, arch)
    return error.value


@pytest.mark.parametrize(
    ("operation", "match"),
    [
        ("%r = math.sin %x : f32", "does not know math.sin"),
        ("%r = math.atan2 %x, %y : f32", "does not know math.atan2"),
        ("%z = memref.load %a[%i] : memref<64xf32>\n%r = arith.addf %z, %z : f32", "does not know memref.load"),
        ("%v = arith.constant dense<1> : vector<4xi32>\n%b0 = arith.cmpi slt, %v, %v : vector<4xi32>\n"
         "%r = arith.select %b0, %x, %y : f32", "comparisons of vectors"),
        ("%w = arith.extf %x : f32 to f64\n%z = arith.truncf %w : f64 to bf16\n%r = arith.extf %z : bf16 to f32",
         "the conversion from f64 to bf16"),
        ("%w = arith.bitcast %n : i32 to f32\n%r = hip.exchange %w xor 64 : f32 -> f32", "leaves the wave"),
        ("%w = hip.load %a[%c0] : memref<64xf32>, i32 -> vector<8xf32>\n%r = hip.slice %w at 0 : vector<8xf32> -> f32",
         "hip.load moves 32 bytes"),
        ("%w = hip.load %a[%c0] : memref<64xf32>, i32 -> vector<3xf32>\n%r = hip.slice %w at 0 : vector<3xf32> -> f32",
         "hip.load moves 12 bytes"),
        ("%w = arith.constant 5 : i7\n%z = arith.extsi %w : i7 to i32\n%r = arith.sitofp %z : i32 to f32",
         "no C type"),
    ],
)  # fmt: skip
def test_unknown_operations_are_named_with_their_place(operation: str, match: str) -> None:
    constants = CONSTANTS + "%i = arith.constant 0 : index\n"
    store = "hip.store %r, %o[%lane] : f32, memref<64xf32>, i32"
    error = refused(kernel(f"{operation}\n{store}", constants=constants), match)
    assert error.where.startswith("kernel.mlir:")


def test_a_matrix_instruction_of_another_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    arch = get_arch("gfx90a")
    arch = replace(arch, matrix=arch.matrix[1:])
    with pytest.raises(XpagedError, match="no matrix instruction mfma_f32_16x16x16_f16"):
        print_hip(parse(ATTENTION.read_text()), arch)


@pytest.mark.parametrize(
    ("module", "match"),
    [
        (lambda: kernel("", block=96), "cannot run"),
        (lambda: kernel("", block=2048), "cannot run"),
        (lambda: kernel("", attributes=", rock.lds_bytes = 4 : i64"), "rock.lds_bytes is not what"),
        (lambda: kernel("%m = hip.lds_alloc : memref<20000xf32, 3>"), "needs more LDS"),
        (lambda: kernel("scf.for %i = %c0 to %c4 step %c1 : i32 {\n%m = hip.lds_alloc : memref<4xf32, 3>\n}"),
         "at the top of a kernel"),
        (lambda: parse("func.func @f() attributes {rock.kernel} { func.return }"), "no usable rock.grid_size"),
        (lambda: parse("func.func @f() { func.return }"), "holds kernels only"),
        (lambda: parse("%0 = arith.constant 1 : i32"), "holds kernels only"),
        (lambda: ModuleOp([]), "no kernel to print"),
        (lambda: parse('func.func @"a-b"() attributes {rock.kernel} { func.return }'), "a name in C"),
        (lambda: parse("func.func @while() attributes {rock.kernel} { func.return }"), "a name in C"),
        (lambda: kernel("", args="%a: tensor<4xf32>", constants=""), "no C type"),
    ],
)  # fmt: skip
def test_kernels_that_cannot_be(module: Callable[[], ModuleOp], match: str) -> None:
    refused(module(), match)
