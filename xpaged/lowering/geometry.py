"""The sizes of an attention problem, and the tile sizes that a kernel for it uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from xdsl.dialects.builtin import AnyFloat, IntegerType, MemRefType
from xdsl.ir import Attribute, SSAValue

from xpaged.arch.table import Arch
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.attrs import ROWS_PER_WAVE, AttentionParamsAttr
from xpaged.dialects.rock.views import chain_of
from xpaged.errors import XpagedError
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.transform_map import apply_chain
from xpaged.lowering.masks import part_size
from xpaged.lowering.staged_layouts import STAGED_CHANNELS, STAGED_KEYS, STAGED_ROWS, STAGED_WAVES

INSTRUCTION_ROWS = ROWS_PER_WAVE[0]  # of the matrix instructions that are used, where nothing goes through LDS
MAX_WAVES = 4  # waves of a workgroup
MAX_PARTS = 128  # of the keys, when their number is chosen here
MIN_PART_KEYS = 256
ENOUGH = 0.8  # of the units that have a workgroup: a split would not pay
NEARLY = 0.8  # of the best use of the units
MAX_KEYS_PER_TILE = 64
MAX_VALUE_PADDING = 1.6  # times the channels of V
OTHER_REGISTERS = 40  # of a lane: addresses, offsets and what the softmax holds for a moment
MAX_I8_CHANNELS = (2**31 - 1) // 128**2  # whose products, at most 128 * 128 each, an i32 can sum


def round_up(value: int, step: int) -> int:
    """The smallest multiple of `step` that is at least `value`."""
    return -(-value // step) * step


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The static shape of a memref."""
    assert isinstance(value.type, MemRefType)
    return value.type.get_shape()


def element_of(value: SSAValue) -> Attribute:
    """The element type of a memref."""
    assert isinstance(value.type, MemRefType)
    return value.type.element_type


@dataclass(frozen=True)
class Geometry:
    """Sizes of one `rock.attention`: `groups` KV heads of all batch entries, each with `ratio` query heads.

    `fold` query heads of a KV head are rows of one problem: `ratio`, or 1 where their key bounds may differ. The keys
    are split into `split` parts, each with workgroups of its own.
    """

    groups: int
    ratio: int
    fold: int
    queries: int
    keys: int
    channels: int
    value_channels: int
    element: Attribute  # of Q and K
    value_element: AnyFloat
    split: int = 1

    @property
    def part_keys(self) -> int:
        """Keys of each part that the keys are split into."""
        return part_size(self.keys, self.split)

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
    element, value_element = op.queries.type.element_type, op.values.type.element_type  # pyright: ignore
    fold = ratio if all(_same_for_group(x, ratio) for x in (op.currentSeqLen, op.prefixOffset) if x) else 1
    assert isinstance(value_element, AnyFloat)  # the operation verifies
    if not isinstance(element, AnyFloat) and sizes.dim_qk > MAX_I8_CHANNELS:
        raise XpagedError(
            "the products of so many i8 channels may not fit into the i32 that they are summed in",
            at=op,
            found=sizes.dim_qk,
            expected=f"at most {MAX_I8_CHANNELS}",
        )
    rows, keys = sizes.seq_q, sizes.seq_k
    problem = (sizes.kv_groups, ratio, fold, rows, keys, sizes.dim_qk, sizes.dim_v)
    return Geometry(*problem, element, value_element, op.split_kv)


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
    assert isinstance(type_, AnyFloat | IntegerType)
    return type_.bitwidth // 8


def choose_params(geometry: Geometry, arch: Arch) -> AttentionParamsAttr:
    """Tile sizes for a problem: through LDS where many query rows share each key, else straight to registers."""
    return staged_params(geometry, arch) or direct_params(geometry, arch)


def staged_params(geometry: Geometry, arch: Arch) -> AttentionParamsAttr | None:
    """Tile sizes of a kernel whose waves share K and V through LDS; None where it has too few rows or keys for that, or
    sizes or types that its layouts do not have without much padding."""
    element = str(geometry.element)
    wanted = geometry.channels, geometry.value_channels
    if max(wanted) > STAGED_CHANNELS[-1]:
        return None
    channels, value_channels = (next(c for c in STAGED_CHANNELS if n <= c) for n in wanted)
    padded = 3 * channels > 4 * geometry.channels or 3 * value_channels > 4 * geometry.value_channels
    if (
        geometry.element != geometry.value_element
        or not arch.has_matrix(element, STAGED_ROWS)
        or padded
        or geometry.rows <= STAGED_ROWS * STAGED_WAVES // 2
        or geometry.keys < STAGED_KEYS
    ):
        return None
    return AttentionParamsAttr.of(
        keys_per_tile=STAGED_KEYS,
        query_waves=STAGED_WAVES,
        key_waves=1,
        channel_chunk=channels,
        value_channels=value_channels,
        stages=2,
        rows_per_wave=STAGED_ROWS,
    )


def direct_params(geometry: Geometry, arch: Arch) -> AttentionParamsAttr:
    """Tile sizes that fit any geometry: registers of a lane first, then waves where there is work for them.

    Few query rows (decode) leave waves over, which then take turns on the keys; their results are joined through LDS.
    """
    size, value_size = bytes_of(geometry.element), bytes_of(geometry.value_element)
    registers = arch.vgprs * arch.wave_size
    query_waves = min(MAX_WAVES, ceil(geometry.rows / INSTRUCTION_ROWS))
    key_waves = MAX_WAVES // query_waves
    value_channels = _value_tile(geometry.value_channels, registers // (32 * value_size), value_size)
    step = max(INSTRUCTION_ROWS, arch.reduction_step(str(geometry.element)))
    copies = arch.matrix_instruction(str(geometry.element)).copies
    limit = min(512, registers // (32 * copies)) // max(size, 2)
    chunk = _even(geometry.channels, limit, step)
    keys_per_tile = _keys_per_tile(geometry, registers, max(chunk * size, value_channels * value_size // 2), key_waves)
    while key_waves > 1 and (
        key_waves // 2 * keys_per_tile >= geometry.part_keys
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


def _keys_per_tile(geometry: Geometry, registers: int, bytes_per_key: int, key_waves: int) -> int:
    """Keys of a tile: so many that K of it is about a 16th of the registers of a wave, in loads of 16 bytes, and V
    no more than an eighth."""
    keys = MAX_KEYS_PER_TILE
    while keys > INSTRUCTION_ROWS and (
        keys * bytes_per_key > registers // 16 * 4 or keys * key_waves > 2 * geometry.part_keys
    ):
        keys //= 2
    return keys


def _value_tile(extent: int, limit: int, size: int) -> int:
    """A tile of channels of V: with the least padding where a lane then loads 8 bytes of a row, else with as much more
    as that takes, if it is not too much."""
    least = _even(extent, limit, INSTRUCTION_ROWS)
    wide = _even(extent, limit, INSTRUCTION_ROWS * 8 // size)
    return wide if wide <= limit and round_up(extent, wide) <= MAX_VALUE_PADDING * extent else least


def _even(extent: int, limit: int, step: int) -> int:
    """A tile of at most `limit`, a multiple of `step`, that divides the extent with the least padding."""
    pieces = ceil(extent / limit)
    return round_up(ceil(extent / pieces), step)


def launch_size(
    params: Mapping[str, int], arch: Arch, *, problems: int, rows: int, value_channels: int
) -> tuple[int, int]:
    """(workgroups, lanes of one) of a kernel for padded sizes: one workgroup a problem, block of rows and block of
    value channels."""
    row_blocks = rows // workgroup_rows(params)
    grid = problems * row_blocks * (value_channels // params["value_channels"])
    return grid, params["query_waves"] * params["key_waves"] * arch.wave_size


def workgroup_rows(params: Mapping[str, int]) -> int:
    """Query rows of a workgroup."""
    return params["query_waves"] * params["rows_per_wave"]


@dataclass(frozen=True)
class MergeTile:
    """What a workgroup of the kernel that merges parts has: one wave, `rows` of all rows, `channels` of the output.

    A lane has four neighbouring channels of one row, so that a row of a tile is `channels / 4` lanes.
    """

    rows: int
    channels: int
    row_blocks: int
    channel_blocks: int
    lanes: int

    @staticmethod
    def of(shape: Sequence[int], arch: Arch) -> MergeTile:
        """The tile for an output `[groups, rows, channels]`: as wide as it can be without more padding."""
        groups, rows, channels = shape
        widths = [4 * lanes for lanes in (16, 8, 4, 2, 1)]
        width = min(widths, key=lambda w: round_up(channels, w))
        height = arch.wave_size * 4 // width
        return MergeTile(height, width, ceil(groups * rows / height), ceil(channels / width), arch.wave_size)

    @property
    def grid(self) -> int:
        """Workgroups."""
        return self.row_blocks * self.channel_blocks


def choose_split(geometry: Geometry, arch: Arch) -> int:
    """Into how many parts to split the keys, so that the workgroups fill the device; 1 where they do without.

    Decided by the sizes of one problem and the architecture, so that results do not depend on how long sequences
    happen to be. Parts that are too small cost more in the merge than they win: each has `MIN_PART_KEYS` at least. Of
    the splits whose last round of workgroups leaves nearly as few units idle as the best one's, the smallest is taken.
    """
    params = choose_params(geometry, arch).values()
    rows = round_up(geometry.rows, workgroup_rows(params))
    channels = round_up(geometry.value_channels, params["value_channels"])
    grid, _ = launch_size(params, arch, problems=geometry.problems, rows=rows, value_channels=channels)
    units = arch.compute_units
    most = min(MAX_PARTS, geometry.keys // MIN_PART_KEYS)
    if grid >= ENOUGH * units or most < 2:
        return 1

    def busy(parts: int) -> float:
        return grid * parts / (round_up(grid * parts, units))

    best = max(busy(parts) for parts in range(1, most + 1))
    return next(parts for parts in range(1, most + 1) if busy(parts) >= NEARLY * best)


def join_rows(query_waves: int, rows: int) -> int:
    """Query rows of a workgroup that are no padding: those that key waves exchange through LDS."""
    return min(query_waves * INSTRUCTION_ROWS, rows)


def lds_bytes(query_waves: int, key_waves: int, value_channels: int, rows: int) -> int:
    """LDS that the join of the key waves takes for a problem of `rows` query rows: O, the row maximum and the row sum
    in f32."""
    if key_waves == 1:
        return 0
    return key_waves * join_rows(query_waves, rows) * (value_channels + 2) * 4


def waves_per_eu(params: Mapping[str, int], element_bytes: int, arch: Arch) -> int | None:
    """How many waves a SIMD is to hold: three or two, where that leaves each as many registers as it is thought to
    need; None leaves it to the compiler.

    The compiler then keeps accumulators out of the second half of the register file, which costs moves, and does not
    copy what a loop has loaded ahead.
    """
    if arch.vgprs < 512:
        return None
    if params["rows_per_wave"] == STAGED_ROWS:
        return 2
    lanes = 64 * 4
    cache = params["keys_per_tile"] * (params["channel_chunk"] + params["value_channels"]) * element_bytes
    queries = INSTRUCTION_ROWS * (params["channel_chunk"] * element_bytes + params["value_channels"] * 4)
    scores = 2 * INSTRUCTION_ROWS * params["keys_per_tile"] * 4
    estimate = round_up((cache + queries + scores) // lanes + OTHER_REGISTERS, 8)
    waves = arch.vgprs // estimate
    return min(3, waves) if waves >= 2 else None
