"""tile-to-device: what a lane's program looks like, and what cannot become one."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp

from tests.lowering.kernels import DEVICE, kernel_of, module_at, ops_of, problem
from xpaged.arch import get_arch
from xpaged.dialects import hip
from xpaged.errors import XpagedError
from xpaged.ir.locations import describe
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.pipeline import Pipeline

SIZES: dict[str, dict[str, Any]] = {
    "decode": {
        "heads_q": 14,
        "heads_kv": 2,
        "seq_q": 1,
        "seq_k": 4096,
        "dim_qk": 64,
        "page_size": 8192,
        "kv_index": [5],
    },
    "prefill": {
        "heads_q": 4,
        "heads_kv": 2,
        "seq_q": 100,
        "seq_k": 130,
        "dim_qk": 64,
        "page_size": 520,
        "causal": True,
    },
    "f32": {"seq_q": 5, "seq_k": 70, "dim_qk": 300, "page_size": 150, "dtype": "f32", "lse": True},
}


@pytest.fixture(params=SIZES)
def device(request: pytest.FixtureRequest) -> ModuleOp:
    """A kernel at device level."""
    return module_at(problem(**SIZES[request.param]), DEVICE)


def test_no_tile_and_no_deref_is_left(device: ModuleOp) -> None:
    assert not [op for op in device.walk() if op.name.startswith("rock.")]
    assert not [v for op in device.walk() for v in op.results if "rock." in str(v.type)]


def test_registers_are_numbered_by_constants_and_unrolled_loops(device: ModuleOp) -> None:
    """Every element of a register array ends in a register."""
    unrolled = {op.regions[0].block.args[0] for op in ops_of(device, "scf.for") if hip.UNROLL in op.attributes}

    def known(value: Any) -> bool:
        owner = value.owner
        if value in unrolled or getattr(owner, "name", "") == "arith.constant":
            return True
        arithmetic = ("arith.addi", "arith.muli", "arith.divui", "arith.remui")
        return getattr(owner, "name", "") in arithmetic and all(known(o) for o in owner.operands)

    accesses = [op for op in device.walk() if isinstance(op, hip.GetOp | hip.SetOp)]
    assert len(accesses) > 20
    assert all(known(i) for op in accesses for i in op.indices)


def test_the_text_parses_again(device: ModuleOp) -> None:
    text = print_module(device)
    assert print_module(parse(text)) == text


def test_loops_over_registers_are_marked_and_the_loop_over_keys_is_not(device: ModuleOp) -> None:
    loops = ops_of(device, "scf.for")
    # Whole tiles of keys and those that masks cut, each with its chunks of channels where these are several.
    assert len([op for op in loops if hip.UNROLL not in op.attributes]) in (2, 4)
    assert kernel_of(device).attributes["rock.lds_bytes"] is not None


def test_stages_follow_each_other(device: ModuleOp) -> None:
    titles = [op.title.data for op in device.walk() if isinstance(op, hip.StageOp)]
    assert titles[0] == "which rows and which keys"
    for title in (
        "loop over whole key tiles",
        "loop over key tiles that the masks cut",
        "S^T = K Q^T",
        "online softmax",
        "O^T += V^T P^T",
        "O = O^T / l",
    ):
        assert title in titles


def test_page_addresses_come_from_the_tables_only() -> None:
    module = module_at(problem(**SIZES["decode"]), DEVICE)
    arguments = list(kernel_of(module).body.block.args)
    for op in ops_of(module, "hip.load"):
        assert isinstance(op, hip.LoadOp)
        if op.base not in arguments:
            lookup = op.base.owner
            assert isinstance(lookup, hip.LoadOp)
            assert lookup.base.name_hint == ("k_table" if (op.base.name_hint or "").startswith("k") else "v_table")
            assert lookup.mask is None


def test_a_kernel_fits_the_registers_and_the_lds(device: ModuleOp) -> None:
    arch = get_arch("gfx942")
    bits = 0
    for op in ops_of(device, "hip.regs"):
        type_ = op.results[0].type
        assert isinstance(type_, hip.RegsType)
        element = hip.element_of(type_.element)
        bits += type_.count.data * hip.lanes_of(type_.element) * getattr(element, "bitwidth", 1)
    assert bits // 32 <= arch.vgprs
    lds = kernel_of(device).attributes["rock.lds_bytes"]
    assert isinstance(lds, IntegerAttr)
    assert lds.value.data <= arch.lds_bytes


# ---- refusals

LAYOUTS = """#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#waves = #rock.layout<wave = [4 -> d0], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
#half = #rock.layout<wave = [], lane = [16 -> d1, 2 -> d2 * 8], regs = [8 -> d2]>
"""
LAUNCH = 'arch = "gfx942", rock.grid_size = 4 : i32, rock.block_size = 64 : i32'
LOAD = "%k = rock.tile_load %v[{}] : memref<4x1x16x16xf16> -> !rock.tile<1x16x16xf16, #k>"
TILE = "!rock.tile<1x16x16xf16, #k>"
LOOP = "%nine = arith.constant 9 : index\nscf.for %i = {} to {} step {} {{\n" + LOAD.format("%i") + "\n}}"


def kernel(body: str, *, launch: str = LAUNCH, more: str = "") -> str:
    arguments = "%v: memref<4x1x16x16xf16>, %w: memref<4x4x16x16xf16>, %t: memref<4xi32>, %x: memref<4xindex>"
    return f"""{LAYOUTS}func.func @f({arguments}{more}) attributes {{rock.kernel, {launch}}} {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %g = rock.workgroup_id : index
  {body}
  return
}}"""


def apply(text: str) -> ModuleOp:
    module = parse(text, "k.mlir")
    Pipeline("tile-to-device").apply(module)
    return module


@pytest.mark.parametrize(
    "body",
    [
        LOAD.format("%g"),
        "%a = arith.remui %g, %one : index\n" + LOAD.format("%a"),
        LOOP.format("%zero", "%one", "%one") + " {rock.trip_bound = 4 : i32}",
        "%n = memref.load %t[%g] : memref<4xi32>\n%m = arith.index_cast %n : i32 to index\n"
        + LOOP.format("%zero", "%m", "%one")
        + " {rock.trip_bound = 4 : i32}",
    ],
)
def test_what_is_taken(body: str) -> None:
    assert ops_of(apply(kernel(body)), "hip.load")


@pytest.mark.parametrize(
    ("text", "what", "found", "expected"),
    [
        (
            kernel(LOAD.format("%g"), launch=LAUNCH.replace("rock.block_size = 64", "rock.block_size = 100")),
            "a workgroup is made of whole waves",
            "100",
            "a multiple of 64, 1024 at most",
        ),
        (
            kernel(LOAD.format("%g"), launch=LAUNCH.replace("rock.block_size = 64", "rock.block_size = 2048")),
            "a workgroup is made of whole waves",
            "2048",
            "a multiple of 64, 1024 at most",
        ),
        (
            kernel(LOAD.format("%g"), launch=LAUNCH.replace("rock.grid_size = 4", "rock.grid_size = 0")),
            "a launch has workgroups",
            "0",
            "1 or more",
        ),
        (
            kernel("", launch='rock.grid_size = 4 : i32, arch = "gfx942"'),
            "the kernel has no attribute rock.block_size",
            None,
            None,
        ),
        (kernel("", more=", %s: f32"), "a kernel takes buffers and page tables", "f32", "memrefs"),
        (
            kernel(LOAD.format("%g"), launch=LAUNCH.replace("rock.grid_size = 4", "rock.grid_size = 5")),
            "an index may leave its view",
            "0 .. 4",
            "0 .. 3",
        ),
        (
            kernel(LOOP.format("%zero", "%nine", "%one") + " {rock.trip_bound = 9 : i32}"),
            "an index may leave its view",
            "0 .. 8",
            "0 .. 3",
        ),
        (
            kernel("%s = memref.load %t[%a] : memref<4xi32>").replace(
                "%s = ", "%a = arith.addi %g, %one : index\n  %s = "
            ),
            "an index may leave its view",
            "1 .. 4",
            "0 .. 3",
        ),
        (
            kernel("%k = rock.tile_load %w[%zero] : memref<4x4x16x16xf16> -> !rock.tile<4x16x16xf16, #waves>"),
            "a tile is not spread over the workgroup",
            "a layout of 4 wave(s) of 64 lanes",
            "1 of 64, copies included",
        ),
        (
            kernel(LOAD.format("%g").replace("#k", "#half")),
            "a tile is not spread over the workgroup",
            "a layout of 1 wave(s) of 32 lanes",
            "1 of 64, copies included",
        ),
        (
            kernel(LOOP.format("%zero", "%nine", "%one") + " {rock.trip_bound = 3 : i32}"),
            "a loop makes more trips than it says",
            "9",
            "at most rock.trip_bound = 3",
        ),
        (
            kernel(LOOP.format("%zero", "%one", "%one")),
            "a tile-level loop needs the attribute rock.trip_bound, the most trips it can make",
            None,
            None,
        ),
        (
            kernel(LOOP.format("%zero", "%nine", "%nine") + " {rock.trip_bound = 9 : i32}"),
            "a tile-level loop goes in steps of 1",
            None,
            None,
        ),
        (
            kernel("%s = memref.load %x[%zero] : memref<4xindex>\n  " + LOAD.format("%s")),
            "memory holds no index values",
            "memref<4xindex>",
            "i32 elements",
        ),
        (
            kernel("%m = arith.constant -1 : index\n  %a = arith.divui %g, %m : index\n  " + LOAD.format("%a")),
            "an index is divided by a positive number",
            "-1",
            "1 or more",
        ),
        (kernel("%a = memref.alloc() : memref<4xf16>"), "tile-to-device cannot lower memref.alloc", None, None),
        (
            kernel("%a = rock.lds_alloc : memref<1000x64xf16, 3 : i32>"),
            "the LDS buffers do not fit",
            "128000",
            "at most 65536 bytes on gfx942",
        ),
    ],
)
def test_what_is_refused(text: str, what: str, found: str | None, expected: str | None) -> None:
    with pytest.raises(XpagedError) as error:
        apply(text)
    assert (error.value.what, error.value.found, error.value.expected) == (what, found, expected)
    assert error.value.where.startswith("k.mlir:")
    assert error.value.during == "tile-to-device"


@pytest.mark.parametrize(
    "body",
    [
        "%a = arith.muli %g, %g : index\n  " + LOAD.format("%a"),
        "%s = memref.load %t[%zero] : memref<4xi32>\n  %a = arith.index_cast %s : i32 to index\n  " + LOAD.format("%a"),
    ],
)
def test_an_index_that_is_not_affine_is_refused(body: str) -> None:
    with pytest.raises(XpagedError, match="an index is made of workgroup and loop numbers"):
        apply(kernel(body))


def test_branches_have_one_side() -> None:
    condition = "%n = memref.load %t[%g] : memref<4xi32>\n  %c = arith.cmpi eq, %n, %n : i32\n  "
    taken = condition + "scf.if %c {\n  rock.barrier\n  }"
    assert ops_of(apply(kernel(taken)), "hip.barrier")
    for body in (
        condition + "scf.if %c {\n  rock.barrier\n  } else {\n  rock.barrier\n  }",
        condition + "%r = scf.if %c -> (i32) {\n  scf.yield %n : i32\n  } else {\n  scf.yield %n : i32\n  }",
    ):
        with pytest.raises(XpagedError, match=r"a tile-level scf.if has one branch and no results"):
            apply(kernel(body))


def test_a_loop_cannot_carry_a_tile_of_indices() -> None:
    type_ = "!rock.tile<1x16x16xi32, #k>"
    body = f"""%t0 = rock.tile_index %g strides [0, 1, 0] -> {type_}
  %r = scf.for %i = %zero to %one step %one iter_args(%a = %t0) -> ({type_}) {{
    scf.yield %a : {type_}
  }} {{rock.trip_bound = 1 : i32}}"""
    with pytest.raises(XpagedError, match=r"a tile of indices cannot be carried by scf\.for"):
        apply(kernel(body))


def test_a_wave_votes_on_every_element_of_a_lane() -> None:
    """Four registers of the condition are one vote; what the region yields are the results where any lane says so."""
    type_, test = "!rock.tile<1x16x16xi32, #k>", "!rock.tile<1x16x16xi1, #k>"
    body = f"""%t0 = rock.tile_index %g strides [0, 1, 0] -> {type_}
  %c = rock.tile_map(%e = %t0 : {type_}) -> {test} {{
    %z = arith.constant 7 : i32
    %l = arith.cmpi slt, %e, %z : i32
    rock.tile_yield %l : i1
  }}
  %f = arith.constant 1.0 : f32
  %a0 = rock.tile_fill %f : f32 -> !rock.tile<1x16x16xf32, #k>
  %r = rock.tile_if_any %c : {test}(%a = %a0 : !rock.tile<1x16x16xf32, #k>) {{
    %b = rock.tile_map(%e = %a : !rock.tile<1x16x16xf32, #k>) -> !rock.tile<1x16x16xf32, #k> {{
      %n = arith.negf %e : f32
      rock.tile_yield %n : f32
    }}
    rock.tile_yield %b : !rock.tile<1x16x16xf32, #k>
  }}"""
    module = apply(kernel(body))
    assert len(ops_of(module, "hip.any")) == 1
    assert len(ops_of(module, "arith.ori")) == 3
    (branch,) = ops_of(module, "scf.if")
    assert not branch.results  # the array changes in place
    assert ops_of(branch, "arith.negf")


def test_functions_that_are_no_kernels_stay_and_are_refused_by_the_level() -> None:
    with pytest.raises(XpagedError, match="may not stand at level device") as error:
        apply(kernel(LOAD.format("%g")).replace("rock.kernel, ", ""))
    assert error.value.fix == "the pass tile-to-device should have removed it"


def test_lines_of_the_source_stay_with_the_operations() -> None:
    module = apply(kernel(LOAD.format("%g")))
    places = {describe(op) for op in ops_of(module, "hip.load", "hip.set", "hip.regs")}
    assert places == {"k.mlir:9:8"}
