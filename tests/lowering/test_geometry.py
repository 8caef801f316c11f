"""Sizes of a problem and the tile sizes that are chosen for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerAttr, MemRefType, bf16, f16, f32, i8, i32
from xdsl.ir import Block, SSAValue

from tests.lowering.kernels import DEVICE, kernel_of, module_at, ops_of, problem
from xpaged.arch import archs, get_arch
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.lowering.geometry import (
    ENOUGH,
    MAX_PARTS,
    MAX_VALUE_PADDING,
    MAX_WAVES,
    MIN_PART_KEYS,
    Geometry,
    MergeTile,
    bytes_of,
    choose_params,
    choose_split,
    direct_params,
    geometry_of,
    lds_bytes,
    round_up,
    waves_per_eu,
)
from xpaged.sizes import AttentionProblem


def attention_of(p: AttentionProblem) -> AttentionOp:
    """The attention of a fresh module, whose function stays alive through the operation."""
    (op,) = [op for op in module_at(p, Level.ROCK_MEMREF).clone().walk() if isinstance(op, AttentionOp)]
    return op


def test_round_up() -> None:
    assert [round_up(n, 16) for n in (0, 1, 16, 17)] == [0, 16, 16, 32]


def test_the_sizes_of_an_operation() -> None:
    p = problem(batch=3, heads_q=8, heads_kv=2, seq_q=5, seq_k=40, dim_qk=24, dim_v=48, page_size=120, kv_index=True)
    sizes = geometry_of(attention_of(p))
    assert sizes == Geometry(6, 4, 4, 5, 40, 24, 48, f16, f16)
    assert (sizes.problems, sizes.rows) == (6, 20)


def with_argument(op: AttentionOp, operand: SSAValue | None, type_: MemRefType) -> AttentionOp:
    """The operation with one operand replaced by a function argument of its own."""
    assert operand is not None
    block = op.parent
    assert isinstance(block, Block)
    op.operands[list(op.operands).index(operand)] = block.insert_arg(type_, len(block.args))
    return op


def test_query_heads_are_folded_only_where_their_masks_are_the_same() -> None:
    """A KV index of its own for each query head, as the operation takes it, keeps the heads apart."""
    p = problem(batch=2, heads_q=4, heads_kv=2, seq_q=5, seq_k=40, dim_qk=24, page_size=120, kv_index=True)
    op = attention_of(p)
    sizes = geometry_of(with_argument(op, op.currentSeqLen, MemRefType(i32, [8])))
    assert (sizes.groups, sizes.ratio, sizes.fold, sizes.problems, sizes.rows) == (4, 2, 1, 8, 5)


def test_v_may_have_a_type_of_its_own() -> None:
    op = attention_of(problem(seq_q=5, seq_k=40, dim_qk=24))
    sizes = geometry_of(with_argument(op, op.values, MemRefType(f32, [1, 40, 24])))
    assert (sizes.element, sizes.value_element) == (f16, f32)


def test_products_of_i8_that_an_i32_cannot_sum_are_refused() -> None:
    """131071 products of -128 * -128 are the most below 2**31."""
    for channels, fits in ((131071, True), (131072, False)):
        op = attention_of(problem(seq_q=1, seq_k=1, dim_qk=channels, dim_v=16))
        for value, shape in ((op.queries, [1, 1, channels]), (op.keys, [1, channels, 1])):
            with_argument(op, value, MemRefType(i8, shape))
        if fits:
            assert geometry_of(op).element == i8
        else:
            with pytest.raises(XpagedError, match="products of so many i8 channels") as error:
                geometry_of(op)
            assert (error.value.found, error.value.expected) == ("131072", "at most 131071")


# ---- tile sizes

sizes = st.builds(
    Geometry,
    groups=st.integers(1, 64),
    ratio=st.just(1),
    fold=st.just(1),
    queries=st.integers(1, 5000),
    keys=st.integers(1, 100000),
    channels=st.integers(1, 2000),
    value_channels=st.integers(1, 2000),
    element=st.sampled_from([f16, bf16, f32, i8]),
    value_element=st.sampled_from([f16, bf16, f32]),
)


@settings(max_examples=200)
@given(sizes, st.sampled_from(sorted(archs())))
def test_tile_sizes_fit_any_problem(geometry: Geometry, name: str) -> None:
    arch = get_arch(name)
    assume({str(geometry.element), str(geometry.value_element)} <= {i.operand for i in arch.matrix})
    chosen = direct_params(geometry, arch).values()
    waves = chosen["query_waves"] * chosen["key_waves"]
    assert 1 <= waves <= MAX_WAVES
    assert chosen["key_waves"] in (1, 2, 4)
    assert waves * arch.wave_size <= arch.max_workgroup
    assert all(chosen[n] % 16 == 0 and chosen[n] > 0 for n in ("keys_per_tile", "channel_chunk", "value_channels"))
    assert (
        lds_bytes(chosen["query_waves"], chosen["key_waves"], chosen["value_channels"], geometry.rows) <= arch.lds_bytes
    )
    # Registers: 32 bits times 64 lanes hold a row of 64 elements of f32 or 128 of f16.
    first = arch.matrix_instruction(str(geometry.element), chosen["channel_chunk"])
    arch.matrix_instruction(str(geometry.value_element), chosen["keys_per_tile"])
    size = bytes_of(geometry.element)
    accumulators = 16 * chosen["value_channels"] // arch.wave_size
    tile = (16 + chosen["keys_per_tile"]) * chosen["channel_chunk"] * size // 4 // arch.wave_size * first.copies
    assert accumulators + tile <= arch.vgprs // 2
    # No more waves than rows, or keys, give work to; padding of channels below one instruction a tile.
    assert chosen["query_waves"] == 1 or 16 * (chosen["query_waves"] - 1) < geometry.rows
    assert chosen["key_waves"] == 1 or chosen["key_waves"] // 2 * chosen["keys_per_tile"] < geometry.keys
    for extent, tile_size in ((geometry.channels, "channel_chunk"), (geometry.value_channels, "value_channels")):
        pieces = -(-extent // chosen[tile_size])
        step = max(16, first.k) if tile_size == "channel_chunk" and geometry.element == i8 else 16
        most = MAX_VALUE_PADDING * extent if tile_size == "value_channels" else 0  # for wider loads of V
        assert pieces * chosen[tile_size] - extent < step * pieces or pieces * chosen[tile_size] <= most


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"seq_q": 1, "seq_k": 4096, "dim_qk": 64}, (64, 1, 4, 64, 64)),  # decode: the waves share the keys
        ({"seq_q": 1, "seq_k": 4096, "dim_qk": 128}, (32, 1, 4, 128, 128)),
        (
            {"seq_q": 1024, "seq_k": 1024, "dim_qk": 64},
            (64, 8, 1, 64, 64),
        ),  # prefill: 32 rows a wave, K and V through LDS
        ({"seq_q": 1024, "seq_k": 1024, "dim_qk": 160}, (16, 4, 1, 160, 192)),  # for other sizes straight to registers
        ({"seq_q": 20, "seq_k": 1024, "dim_qk": 64}, (64, 2, 2, 64, 64)),
        ({"seq_q": 40, "seq_k": 1024, "dim_qk": 64}, (64, 3, 1, 64, 64)),
        ({"seq_q": 1, "seq_k": 7, "dim_qk": 64}, (16, 1, 1, 64, 64)),  # one tile of keys: one wave
        ({"seq_q": 1, "seq_k": 20, "dim_qk": 64}, (16, 1, 2, 64, 64)),
        ({"seq_q": 1, "seq_k": 1000, "dim_qk": 40, "dim_v": 80}, (64, 1, 4, 48, 128)),
        ({"seq_q": 1, "seq_k": 1000, "dim_qk": 512}, (16, 1, 4, 256, 512)),
        ({"seq_q": 16, "seq_k": 1000, "dim_qk": 512}, (16, 1, 1, 256, 512)),  # O of more waves would not fit into LDS
        ({"seq_q": 1, "seq_k": 1000, "dim_qk": 300, "dim_v": 1040}, (16, 1, 4, 160, 384)),
        ({"seq_q": 1, "seq_k": 1000, "dim_qk": 64, "dtype": "f32"}, (32, 1, 4, 64, 64)),
        ({"seq_q": 1, "seq_k": 1000, "dim_qk": 300, "dtype": "f32"}, (16, 1, 4, 112, 160)),
        ({"heads_q": 8, "heads_kv": 1, "seq_q": 6, "seq_k": 1000, "dim_qk": 64}, (64, 3, 1, 64, 64)),  # 48 rows
    ],
)
def test_tile_sizes_of_typical_problems(sizes: dict[str, Any], expected: tuple[int, ...]) -> None:
    chosen = choose_params(geometry_of(attention_of(problem(**sizes))), get_arch("gfx942")).values()
    names = ("keys_per_tile", "query_waves", "key_waves", "channel_chunk", "value_channels")
    assert tuple(chosen[n] for n in names) == expected


@pytest.mark.parametrize("dim", [16, 64, 80, 200])
@pytest.mark.parametrize("queries", [1, 20])
def test_the_join_takes_the_lds_that_was_planned(dim: int, queries: int) -> None:
    p = problem(seq_q=queries, seq_k=1000, dim_qk=dim)
    chosen = choose_params(geometry_of(attention_of(p)), get_arch("gfx942")).values()
    planned = lds_bytes(chosen["query_waves"], chosen["key_waves"], chosen["value_channels"], queries)
    module = module_at(p, DEVICE)
    taken = kernel_of(module).attributes["rock.lds_bytes"]
    assert isinstance(taken, IntegerAttr)
    assert taken.value.data == planned > 0


def test_without_key_waves_there_is_no_lds() -> None:
    module = module_at(problem(seq_q=64, seq_k=64, dim_qk=64), DEVICE)
    assert kernel_of(module).attributes["rock.lds_bytes"] == IntegerAttr(0, 64)
    assert not ops_of(module, "hip.lds_alloc", "hip.barrier")
    assert lds_bytes(4, 1, 512, 64) == 0


def decode(batch: int, heads: int, keys: int) -> Geometry:
    return Geometry(batch * heads, 4, 4, 1, keys, 128, 128, f16, f16)


@pytest.mark.parametrize(
    ("batch", "heads", "keys", "least", "most"),
    [
        (1, 8, 8192, 16, 32),  # eight workgroups on 304 units: split as far as parts stay large enough
        (1, 8, 512, 2, 2),
        (1, 8, 511, 1, 1),  # too short
        (64, 8, 8192, 1, 1),  # fills the device by itself
        (16, 8, 8192, 2, 3),
        (1, 1, 2**20, MAX_PARTS * 3 // 4, MAX_PARTS),
    ],
)
def test_the_split_fills_the_device(batch: int, heads: int, keys: int, least: int, most: int) -> None:
    assert least <= choose_split(decode(batch, heads, keys), get_arch("gfx942")) <= most


@given(st.integers(1, 600), st.integers(1, 16), st.integers(1, 100_000))
@settings(max_examples=100)
def test_a_split_is_clamped(batch: int, heads: int, keys: int) -> None:
    for arch in archs().values():
        parts = choose_split(decode(batch, heads, keys), arch)
        assert 1 <= parts <= MAX_PARTS
        assert parts == 1 or parts * MIN_PART_KEYS <= keys
        assert parts == 1 or batch * heads < ENOUGH * arch.compute_units


def test_tiles_fit_the_keys_of_a_part() -> None:
    """Half the keys a workgroup: no wave has more than it needs."""
    arch = get_arch("gfx942")
    whole, part = (Geometry(8, 4, 4, 1, 512, 128, 128, f16, f16, split) for split in (1, 16))
    assert part.part_keys == 32
    step = {
        g.split: c["keys_per_tile"] * c["key_waves"] for g in (whole, part) for c in [choose_params(g, arch).values()]
    }
    assert step[16] <= 32 < step[1]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((8, 1, 128), MergeTile(4, 64, 2, 2, 64)),
        ((3, 5, 80), MergeTile(16, 16, 1, 5, 64)),
        ((1, 1, 5), MergeTile(32, 8, 1, 1, 64)),
    ],
)
def test_the_tile_of_a_merge(shape: tuple[int, int, int], expected: MergeTile) -> None:
    tile = MergeTile.of(shape, get_arch("gfx942"))
    assert tile == expected
    assert tile.grid == expected.row_blocks * expected.channel_blocks


@pytest.mark.parametrize(
    ("sizes", "arch", "waves"),
    [
        ({"seq_q": 1, "seq_k": 4096, "dim_qk": 128}, "gfx942", 3),
        ({"seq_q": 1, "seq_k": 4096, "dim_qk": 256}, "gfx942", 2),
        ({"seq_q": 1024, "seq_k": 1024, "dim_qk": 128}, "gfx942", 2),  # eight waves of a workgroup, two a SIMD
        ({"seq_q": 1, "seq_k": 1000, "dim_qk": 512}, "gfx942", None),  # registers of one wave and more
        ({"seq_q": 1, "seq_k": 4096, "dim_qk": 128}, "gfx1100", None),
    ],
)
def test_how_many_waves_a_simd_has_to_hold(sizes: dict[str, Any], arch: str, waves: int | None) -> None:
    params = choose_params(geometry_of(attention_of(problem(**sizes))), get_arch(arch)).values()
    assert waves_per_eu(params, 2, get_arch(arch)) == waves
