"""The sizes of an attention problem, and the tile sizes that a kernel for it uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from xdsl.dialects.builtin import AnyFloat, MemRefType
from xdsl.ir import Attribute, SSAValue

from xpaged.arch.table import Arch
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.attrs import AttentionParamsAttr
from xpaged.dialects.rock.views import chain_of
from xpaged.errors import XpagedError
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.transform_map import apply_chain

INSTRUCTION_ROWS = 16  # rows and columns of the matrix instructions that are used
MAX_WAVES = 4  # waves of a workgroup
MAX_KEYS_PER_TILE = 64
OTHER_REGISTERS = 40  # of a lane: addresses, offsets and what the softmax holds for a moment


def round_up(value: int, step: int) -> int:
    """The smallest multiple of `step` that is at least `value`."""
    return -(-value // step) * step


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The static shape of a memref."""
    assert isinstance(value.type, MemRefType)
    return value.type.get_shape()


@dataclass(frozen=True)
class Geometry:
    """Sizes of one `rock.attention`: `groups` KV heads of all batch entries, each with `ratio` query heads.

    `fold` query heads of a KV head are rows of one problem: `ratio`, or 1 where their key bounds may differ.
    """

    groups: int
    ratio: int
    fold: int
    queries: int
    keys: int
    channels: int
    value_channels: int
    element: AnyFloat

    @property
    def problems(self) -> int:
        """Independent problems: KV heads, or query heads when they are not folded."""
        return self.groups * self.ratio // self.fold

    @property
    def rows(self) -> int:
        """Query rows of one problem."""
        return self.queries * self.fold


def geometry_of(op: AttentionOp) -> Geometry:
    """The sizes of an attention operation on memrefs."""
    sizes = op.sizes
    ratio = sizes.repeats
    element = op.queries.type.element_type  # pyright: ignore
    fold = ratio if all(_same_for_group(x, ratio) for x in (op.currentSeqLen, op.prefixOffset) if x) else 1
    if not isinstance(element, AnyFloat) or element != op.values.type.element_type:  # pyright: ignore
        raise XpagedError(
            "attention kernels are made for Q, K and V of one float type",
            at=op,
            found=f"Q of {element}, V of {op.values.type.element_type}",  # pyright: ignore
            expected="f16, bf16 or f32",
        )
    return Geometry(sizes.kv_groups, ratio, fold, sizes.seq_q, sizes.seq_k, sizes.dim_qk, sizes.dim_v, element)


def _same_for_group(value: SSAValue, ratio: int) -> bool:
    """Whether a value per query head is the same for all query heads of a KV head, as its view proves."""
    if ratio == 1:
        return True
    group = IndexExpr.var("group", 0, shape_of(value)[0] // ratio - 1)
    member = IndexExpr.var("member", 0, ratio - 1)
    chain = chain_of(value)
    lower, conditions = apply_chain(chain.maps, [group * ratio + member])
    return not conditions and not any(x.depends_on("member") for x in lower)


def bytes_of(type_: Attribute) -> int:
    """Bytes of one element."""
    assert isinstance(type_, AnyFloat)
    return type_.bitwidth // 8


def choose_params(geometry: Geometry, arch: Arch) -> AttentionParamsAttr:
    """Tile sizes that fit any geometry: registers of a lane first, then waves where there is work for them.

    Few query rows (decode) leave waves over, which then take turns on the keys; their results are joined through LDS.
    """
    size = bytes_of(geometry.element)
    query_waves = min(MAX_WAVES, ceil(geometry.rows / INSTRUCTION_ROWS))
    key_waves = MAX_WAVES // query_waves
    limit = 512 if size == 2 else 256
    value_channels = _even(geometry.value_channels, limit)
    chunk = _even(geometry.channels, 256 if size == 2 else 128)
    keys_per_tile = _keys_per_tile(geometry, chunk, size, key_waves)
    while key_waves > 1 and (
        key_waves // 2 * keys_per_tile >= geometry.keys
        or lds_bytes(query_waves, key_waves, value_channels, geometry.rows) > arch.lds_bytes
    ):
        key_waves //= 2
    return AttentionParamsAttr.of(
        keys_per_tile=keys_per_tile,
        query_waves=query_waves,
        key_waves=key_waves,
        channel_chunk=chunk,
        value_channels=value_channels,
        stages=2 if chunk >= geometry.channels else 1,
    )


def _keys_per_tile(geometry: Geometry, channels: int, size: int, key_waves: int) -> int:
    """Keys of a tile: so many that K of it is about 32 registers of a lane, in eight loads of 16 bytes."""
    keys = MAX_KEYS_PER_TILE
    while keys > INSTRUCTION_ROWS and (
        keys * round_up(channels, INSTRUCTION_ROWS) * size > 32 * 64 * 4 or keys * key_waves > 2 * geometry.keys
    ):
        keys //= 2
    return keys


def _even(extent: int, limit: int) -> int:
    """A tile of at most `limit`, a multiple of 16, that divides the extent with the least padding."""
    pieces = ceil(extent / limit)
    return round_up(ceil(extent / pieces), INSTRUCTION_ROWS)


def launch_size(
    params: Mapping[str, int], arch: Arch, *, problems: int, rows: int, value_channels: int
) -> tuple[int, int]:
    """(workgroups, lanes of one) of a kernel for padded sizes: one workgroup a problem, block of rows and block of
    value channels."""
    row_blocks = rows // (params["query_waves"] * INSTRUCTION_ROWS)
    grid = problems * row_blocks * (value_channels // params["value_channels"])
    return grid, params["query_waves"] * params["key_waves"] * arch.wave_size


def join_rows(query_waves: int, rows: int) -> int:
    """Query rows of a workgroup that are no padding: those that key waves exchange through LDS."""
    return min(query_waves * INSTRUCTION_ROWS, rows)


def lds_bytes(query_waves: int, key_waves: int, value_channels: int, rows: int) -> int:
    """LDS that the join of the key waves takes for a problem of `rows` query rows: O, the row maximum and the row sum
    in f32."""
    if key_waves == 1:
        return 0
    return key_waves * join_rows(query_waves, rows) * (value_channels + 2) * 4


def waves_per_eu(params: Mapping[str, int], element_bytes: int) -> int | None:
    """How many waves a SIMD is to hold, where the registers of a lane (256 for each of two waves) allow two of them.

    The compiler then keeps accumulators out of the second half of the register file, which costs moves.
    """
    lanes = 64 * 4
    cache = params["keys_per_tile"] * (params["channel_chunk"] + params["value_channels"]) * element_bytes
    queries = INSTRUCTION_ROWS * (params["channel_chunk"] * element_bytes + params["value_channels"] * 4)
    scores = 2 * INSTRUCTION_ROWS * params["keys_per_tile"] * 4
    return 2 if (cache + queries + scores) // lanes + OTHER_REGISTERS <= 256 else None
