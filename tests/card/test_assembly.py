"""Assembly texts: blocks, loops, waits, widths, and what one turn of a loop is made of."""

import pytest

from xpaged.arch.model import issue_model
from xpaged.arch.table import get_arch
from xpaged.card.assembly import Function, Instruction, read_assembly
from xpaged.card.hot_loop import LoopFigures
from xpaged.errors import XpagedError

TWO_LOOPS = """
	.text
	.globl	k
	.type	k,@function
k:                                      ; @k
; %bb.0:
	s_load_dwordx2 s[0:1], s[4:5], 0x0
.LBB0_1:                                ; outer
	v_mov_b32_e32 v0, 0
.LBB0_2:                                ; =>  This Inner Loop Header: Depth=2
	global_load_dwordx4 v[4:7], v1, s[0:1]
	global_load_dwordx4 v[8:11], v1, s[0:1] offset:16 ; a comment: with a colon
	ds_read_b128 v[12:15], v2
	s_waitcnt vmcnt(1) lgkmcnt(0)
	v_mfma_f32_16x16x16_f16 v[16:19], v[4:5], v[6:7], v[16:19]
	v_exp_f32_e32 v3, v3
	v_add_f32_e32 v3, v3, v3
	s_cbranch_vccnz .LBB0_4
; %bb.3:                                ; rarely taken
	v_mul_lo_u32 v3, v3, v3
.LBB0_4:
	s_barrier
	s_cbranch_scc0 .LBB0_2
; %bb.5:
	s_cbranch_scc1 .LBB0_1
; %bb.6:
	global_load_dword v1, v1, s[0:1]
.LBB0_7:
	global_load_dword v1, v1, s[0:1]
	s_cbranch_scc1 .LBB0_7
	s_endpgm
.Lfunc_end0:
	.size	k, .Lfunc_end0-k
other:
	s_endpgm
.Lfunc_end1:
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count: 0
...
	.end_amdgpu_metadata
"""


def function(text: str = TWO_LOOPS) -> Function:
    """The kernel of a text."""
    return read_assembly(text)["k"]


def figures(text: str = TWO_LOOPS, arch: str = "gfx942") -> LoopFigures:
    """The figures of its hot loop."""
    loop = function(text).hot_loop
    assert loop is not None
    return LoopFigures.of(loop, get_arch(arch), issue_model(arch))


def test_functions_and_loops_are_found() -> None:
    functions = read_assembly(TWO_LOOPS)
    assert list(functions) == ["k", "other"]
    loops = functions["k"].loops
    assert [(loop.label, loop.inner) for loop in loops] == [(".LBB0_1", False), (".LBB0_2", True), (".LBB0_7", True)]
    assert functions["k"].hot_loop is loops[1]
    assert [loop.count("load") for loop in loops] == [2, 2, 1]
    assert functions["other"].hot_loop is None


def test_a_text_without_functions_has_none() -> None:
    assert read_assembly("") == {}
    assert read_assembly("\t.text\nlonely:\n\t.long 4\n") == {}


def test_loads_decide_where_no_loop_has_a_product() -> None:
    plain = TWO_LOOPS.replace("\tv_mfma_f32_16x16x16_f16 v[16:19], v[4:5], v[6:7], v[16:19]\n", "")
    loop = function(plain).hot_loop
    assert loop is not None
    assert loop.label == ".LBB0_2"


def test_what_a_turn_is_made_of() -> None:
    found = figures()
    assert found.clocks is not None
    # v_add; v_mul_lo and v_exp take 16; a product 4 of the vector unit's and 16 of its own
    assert (found.clocks.matrix, found.clocks.vector, found.clocks.transcendental) == (16, 4 + 16 + 16 + 4, 16)
    assert (found.clocks.lds, found.clocks.bound, found.clocks.bound_by) == (16 * 64 / 32, 40, "vector")
    assert (found.matrix, found.matrix_flops) == ({"mfma_f32_16x16x16_f16": 1}, 2 * 16**3)
    assert (found.loads, found.loaded_bytes, found.wide_load_share) == (2, 2048, 1.0)
    assert (found.lds_accesses, found.wide_lds_share, found.barriers) == (1, 1.0, 1)
    assert (found.vmcnt0_waits, found.fewest_in_flight, found.scratch_accesses) == (0, 1, 0)
    assert found.instructions == sum(found.mix.values()) == 11


def test_a_wait_for_all_loads_is_reported() -> None:
    found = figures(TWO_LOOPS.replace("vmcnt(1)", "vmcnt(0)"))
    assert (found.vmcnt0_waits, found.fewest_in_flight) == (1, 0)


def test_narrow_accesses_lower_the_shares() -> None:
    narrow = TWO_LOOPS.replace("global_load_dwordx4 v[4:7]", "global_load_dwordx2 v[4:5]")
    assert (figures(narrow).wide_load_share, figures(narrow).loaded_bytes) == (0.5, 64 * 24)
    assert figures(TWO_LOOPS.replace("ds_read_b128", "ds_read_b64")).wide_lds_share == 0.0


def test_an_access_of_a_byte_takes_a_bank_of_lds() -> None:
    found = figures(TWO_LOOPS.replace("ds_read_b128", "ds_read_u8"))
    assert found.clocks is not None
    assert found.clocks.lds == 4 * 64 / 32


def test_scratch_in_the_loop_is_reported() -> None:
    spilled = "\tscratch_store_dword off, v3, s32\n\tbuffer_load_dword v3, off, s[0:3], 0 offset:4\n\ts_barrier\n"
    assert figures(TWO_LOOPS.replace("\ts_barrier\n", spilled)).scratch_accesses == 2


def test_without_a_model_there_are_no_clocks() -> None:
    text = TWO_LOOPS.replace("v_mfma_f32_16x16x16_f16", "v_wmma_f32_16x16x16_f16")
    found = figures(text, "gfx1100")
    assert (found.clocks, found.loaded_bytes) == (None, 32 * 32)


def test_a_product_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(XpagedError, match="lacks a matrix instruction") as refusal:
        figures(TWO_LOOPS.replace("16x16x16_f16", "4x4x4_16b_f16"))
    assert refusal.value.found == "v_mfma_f32_4x4x4_16b_f16"


@pytest.mark.parametrize(
    ("line", "kind", "size"),
    [
        ("global_load_dwordx3 v[0:2], v1, s[0:1]", "load", 12),
        ("global_load_b128 v[0:3], v1, s[0:1]", "load", 16),
        ("global_load_ushort v0, v1, s[0:1]", "load", 2),
        ("global_load_d16_hi_b16 v0, v1, s[0:1]", "load", 2),
        ("buffer_load_ubyte v0, off, s[4:7], 0", "load", 1),
        ("global_store_dwordx2 v0, v[2:3], s[0:1]", "store", 8),
        ("ds_read2_b32 v[0:1], v2 offset1:1", "lds_read", 8),
        ("ds_load_2addr_stride64_b64 v[0:3], v2", "lds_read", 16),
        ("ds_write2st64_b64 v0, v[2:3], v[4:5]", "lds_write", 16),
        ("ds_write_b16 v0, v2", "lds_write", 2),
        ("ds_read_u16_d16_hi v0, v2", "lds_read", 2),
        ("ds_bpermute_b32 v0, v1, v2", "lds_exchange", 4),
    ],
)
def test_kind_and_width_of_an_access(line: str, kind: str, size: int) -> None:
    name, _, operands = line.partition(" ")
    found = Instruction(name, operands)
    assert (found.kind, found.bytes) == (kind, size)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("s_waitcnt vmcnt(8)", 8),
        ("s_waitcnt lgkmcnt(0)", None),
        ("s_waitcnt vmcnt(0) lgkmcnt(0)", 0),
        ("s_waitcnt 0", 0),
        ("s_wait_loadcnt 0x2", 2),
        ("s_wait_loadcnt_dscnt 0x300", 3),
        ("s_wait_dscnt 0x0", None),
        ("v_add_f32 v0, v0, v0", None),
    ],
)
def test_what_a_wait_leaves_in_flight(line: str, left: int | None) -> None:
    name, _, operands = line.partition(" ")
    assert Instruction(name, operands).loads_left == left
