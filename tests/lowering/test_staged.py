"""Kernels whose waves share K and V through LDS: layouts, banks, whole kernels, dropped barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, f32
from xdsl.rewriter import Rewriter

import xpaged
from tests.lowering.kernels import BOTH, DEVICE, TILE, check, kernel_of, module_at, ops_of, problem
from xpaged.arch.table import archs, get_arch
from xpaged.context import context
from xpaged.dialects import hip
from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock.attention import GridwiseAttentionAccelOp
from xpaged.dialects.rock.attrs import AttentionParamsAttr
from xpaged.dialects.rock.views import chain_of
from xpaged.errors import XpagedError
from xpaged.ir.layout import Layout, plan_mma
from xpaged.ir.levels import Level
from xpaged.ir.transform_map import Builder
from xpaged.lowering.geometry import choose_params, geometry_of, staged_params
from xpaged.lowering.staged_layouts import STAGED_KEYS, STAGED_WAVES, StagedLayouts, staged_lds_bytes
from xpaged.passes.gridwise_to_tile import GridwiseToTilePass
from xpaged.sizes import AttentionProblem

from .test_geometry import attention_of  # the same problems, asked for their parameters

SIZES = [(c, v) for c in (64, 128) for v in (64, 128)]
BANK_BYTES, BANKS = 4, 32


def layouts(channels: int, value_channels: int) -> StagedLayouts:
    instruction = get_arch("gfx942").matrix_instruction("f16", rows=32)
    return StagedLayouts(instruction, STAGED_WAVES, 1, STAGED_KEYS, channels, value_channels, instruction)


@pytest.mark.parametrize(("channels", "value_channels"), SIZES)
def test_the_layouts_are_what_the_instruction_multiplies(channels: int, value_channels: int) -> None:
    shapes = layouts(channels, value_channels)
    instruction = shapes.instruction
    for a, b, c in ((shapes.k, shapes.q, shapes.s), (shapes.v, shapes.p, shapes.o)):
        steps = np.prod([loop.size for loop in plan_mma(instruction, a, b, c)])
        assert steps * instruction.m * instruction.n * instruction.k == a.shape[1] * a.shape[2] * 32
    assert shapes.o.conversion(shapes.o_rows).kind == "registers"
    assert shapes.v_rows.conversion(shapes.v_chunks).kind == "registers"
    for layout in (shapes.k_rows, shapes.v_rows):  # no lane idles, and nothing is loaded twice
        assert layout.size("wave") * layout.size("lane") == 512
        assert layout.registers * 512 == np.prod(layout.shape)


def places(layout: Layout, shape: tuple[int, ...], view: list[Builder]) -> NDArray[np.int64]:
    """The element of LDS that each (wave, lane, register) of a layout touches."""
    at: Any = list(np.moveaxis(layout.coordinates, -1, 0))
    for map_ in reversed(view):
        at, conditions = map_.build().apply(at)
        assert all(((lo <= x) & (x < hi)).all() for x, lo, hi in conditions)
    return np.ravel_multi_index(tuple(np.broadcast_arrays(*at)), shape)


@pytest.mark.parametrize(("channels", "value_channels"), SIZES)
def test_eight_lanes_that_move_16_bytes_meet_every_bank_once(channels: int, value_channels: int) -> None:
    shapes = layouts(channels, value_channels)
    k, v = (shapes.k_shape, shapes.k_view()), (shapes.v_shape, shapes.v_view())
    for layout, (shape, view) in ((shapes.k_rows, k), (shapes.k, k), (shapes.v_chunks, v), (shapes.v, v)):
        found = places(layout, shape, view)
        chunks = found.reshape(*found.shape[:2], -1, 8)  # eight elements of 16 bits are one access
        assert (np.diff(chunks, axis=-1) == 1).all()
        assert (chunks[..., 0] % 8 == 0).all()
        groups = chunks[..., 0].reshape(found.shape[0], -1, 8, chunks.shape[2]) * 2 // (4 * BANK_BYTES) % (BANKS // 4)
        assert (np.sort(groups, axis=2) == np.arange(8)[:, None]).all()


@pytest.mark.parametrize(("channels", "value_channels"), SIZES)
def test_lds_holds_each_element_once(channels: int, value_channels: int) -> None:
    shapes = layouts(channels, value_channels)
    k, v = (shapes.k_shape, shapes.k_view()), (shapes.v_shape, shapes.v_view())
    sizes = 0
    for written, read, (shape, view) in ((shapes.k_rows, shapes.k, k), (shapes.v_chunks, shapes.v, v)):
        put, got = places(written, shape, view).ravel(), places(read, shape, view).ravel()
        assert len(np.unique(put)) == put.size
        assert set(got) == set(put)
        sizes += 2 * int(np.prod(shape))
    assert sizes == staged_lds_bytes(channels, value_channels)


# ---- whole kernels

KERNELS: dict[str, dict[str, Any]] = {
    "causal, GQA, pages of 16": {
        **{"heads_q": 4, "heads_kv": 1, "seq_q": 40, "seq_k": 192, "dim_qk": 128},
        **{"page_size": 16 * 128, "causal": True},
    },
    "KV index, LSE": {"seq_q": 200, "seq_k": 200, "dim_qk": 64, "kv_index": [150], "lse": True, "page_size": 80},
    "padded channels": {"seq_q": 150, "seq_k": 96, "dim_qk": 50, "dim_v": 120, "dtype": "bf16"},
    "keys that end inside a tile": {"seq_q": 129, "seq_k": 65, "dim_qk": 128, "dim_v": 64},
    "no key": {"seq_q": 150, "seq_k": 128, "dim_qk": 64, "kv_index": [-1], "lse": True},
    "window": {"seq_q": 150, "seq_k": 320, "dim_qk": 64, "kv_index": [300], "sliding_window": 70},
    "prefix": {"seq_q": 140, "seq_k": 256, "dim_qk": 64, "causal": True, "kv_index": [230], "prefix_offset": (90,)},
    "bias": {"seq_q": 140, "seq_k": 70, "dim_qk": 64, "bias": True, "scale": 0.5},
    "gfx90a": {"seq_q": 140, "seq_k": 140, "dim_qk": 64, "arch": "gfx90a", "page_size": 64},
    "gfx950": {"seq_q": 140, "seq_k": 140, "dim_qk": 64, "arch": "gfx950", "page_size": 64 * 7},
}


@pytest.mark.parametrize("name", KERNELS)
def test_whole_kernels(name: str) -> None:
    p = problem(**KERNELS[name])
    params = choose_params(geometry_of(attention_of(p)), get_arch(p.arch or "gfx942"))
    assert params.values()["rows_per_wave"] == 32
    check(p, BOTH, seed=1)


def test_an_inner_loop_has_two_barriers_and_keeps_loads_in_flight() -> None:
    module = module_at(problem(seq_q=256, seq_k=256, dim_qk=128, page_size=16 * 128), TILE)
    (loop,) = [op for op in module.walk() if op.name == "scf.for"]
    inside = [op for op in loop.regions[0].block.ops if op.name.startswith("rock.")]
    names = [op.name for op in inside]
    assert names.count("rock.barrier") == 2
    loads = [op for op in inside if isinstance(op, tile.TileLoadOp) and not hip.is_lds(chain_of(op.view).root.type)]
    assert [op.result.name_hint for op in loads] == ["k_rows", "v_rows"]
    # What is loaded goes to LDS behind the next barrier, or in the next turn.
    k_rows = loads[0].result
    (put,) = [use.operation for use in k_rows.uses]
    between = inside[inside.index(loads[0]) : inside.index(put)]
    assert "rock.barrier" in [op.name for op in between]
    assert loads[1].result in loop.regions[0].block.last_op.operands  # pyright: ignore


def test_every_lds_access_moves_16_bytes() -> None:
    module = module_at(problem(seq_q=256, seq_k=256, dim_qk=128, page_size=16 * 128), DEVICE)
    accesses = ops_of(module, "hip.lds_load", "hip.lds_store")
    assert accesses
    moved = [op.results[0].type if op.results else op.operands[0].type for op in accesses]
    assert {str(type_) for type_ in moved} == {"vector<8xf16>"}


@pytest.mark.parametrize("number", range(4))
def test_a_dropped_barrier_is_seen(number: int) -> None:
    """Two in the loop over whole tiles, two in the loop over those that masks cut."""
    module = xpaged.attention(heads_q=1, heads_kv=1, seq_q=256, seq_k=250, dim_qk=64)

    def drop(module: ModuleOp, level: Level) -> None:
        barriers = ops_of(module, "hip.barrier")
        assert len(barriers) == 4
        Rewriter.erase_op(barriers[number])

    report = xpaged.run(module, level=DEVICE, check=True, edit=drop)
    assert not report.ok
    assert "race" in {fault["kind"] for fault in report.faults}, report.faults


# ---- which problems


def params_of(**sizes: Any) -> AttentionParamsAttr | None:
    p: AttentionProblem = problem(**({"seq_k": 512, "dim_qk": 64} | sizes))
    return staged_params(geometry_of(attention_of(p)), get_arch(p.arch or "gfx942"))


def test_which_problems_go_through_lds() -> None:
    for sizes in (
        {"seq_q": 129},
        {"seq_q": 33, "heads_q": 4, "heads_kv": 1},
        {"seq_q": 500, "dim_qk": 128, "dim_v": 96},
    ):
        assert params_of(**sizes) is not None
    few_rows, few_keys, padded = {"seq_q": 128}, {"seq_q": 500, "seq_k": 63}, {"seq_q": 500, "dim_qk": 80}
    large, f32s, no_layout = {"seq_q": 500, "dim_qk": 192}, {"seq_q": 500, "dtype": "f32"}, {"arch": "gfx1201"}
    for sizes in (few_rows, few_keys, padded, large, f32s, {"seq_q": 500} | no_layout):
        assert params_of(**sizes) is None
    assert all(not a.has_matrix("f16", 32) for a in archs().values() if a.wave_size == 32)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"keys_per_tile": 32}, "keys_per_tile"),
        ({"query_waves": 4}, "query_waves"),
        ({"channel_chunk": 32}, "channel_chunk"),
        ({"value_channels": 32}, "value_channels"),
    ],
)
def test_other_parameters_are_refused(changes: dict[str, int], what: str) -> None:
    module = module_at(problem(seq_q=256, seq_k=128, dim_qk=64), Level.GRIDWISE).clone()
    (op,) = [op for op in module.walk() if isinstance(op, GridwiseAttentionAccelOp)]
    assert op.params0 is not None
    op.params0 = AttentionParamsAttr.of(**(op.params0.values() | changes))
    waves = op.params0.values()["query_waves"]
    kernel_of(module).attributes["rock.block_size"] = IntegerAttr(64 * waves, 32)
    with pytest.raises(XpagedError, match=rf"rows_per_wave = 32 cannot have this: {what}") as error:
        GridwiseToTilePass().apply(context(), module)
    assert error.value.fix is not None


def test_other_types_are_refused() -> None:
    module = module_at(problem(seq_q=256, seq_k=128, dim_qk=64, dtype="f32"), Level.GRIDWISE).clone()
    (op,) = [op for op in module.walk() if isinstance(op, GridwiseAttentionAccelOp)]
    assert op.queries.type.element_type == f32  # pyright: ignore
    op.params0 = AttentionParamsAttr.of(
        keys_per_tile=64, query_waves=8, key_waves=1, channel_chunk=64, value_channels=64, stages=2, rows_per_wave=32
    )
    with pytest.raises(XpagedError, match="cannot have this: an instruction of 32 rows"):
        GridwiseToTilePass().apply(context(), module)
