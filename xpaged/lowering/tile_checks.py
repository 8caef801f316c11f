"""What a gridwise attention must be before it is cut into tiles; text written by hand may be anything."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from xpaged.arch import arch_of_function
from xpaged.arch.table import Arch
from xpaged.dialects.rock.attention import GridwiseAttentionAccelOp
from xpaged.dialects.rock.merge import MergeAttentionOp
from xpaged.errors import XpagedError
from xpaged.lowering.geometry import INSTRUCTION_ROWS, MergeTile, launch_size, lds_bytes, shape_of, workgroup_rows
from xpaged.lowering.kernel import block_size, grid_size
from xpaged.lowering.staged_layouts import STAGED_CHANNELS, STAGED_KEYS, STAGED_ROWS, STAGED_WAVES, staged_lds_bytes

_PARAMS_FIX = "let affix-tuning-params and gemm-to-gridwise choose the tiles and pad the sizes"


def check_tiles(op: GridwiseAttentionAccelOp) -> None:
    """Refuse a gridwise attention whose tiles do not cut its padded sizes, as hand-written text may have them."""
    function = op.parent_op()
    if not isinstance(function, func.FuncOp):
        raise XpagedError("attention stands outside a function", at=op, fix="put it into a func.func")
    if op.params0 is None:
        raise XpagedError("attention has no tile sizes", at=op, fix="affix-tuning-params chooses them")
    params = op.params0.values()
    groups, channels, rows = shape_of(op.queries)
    keys, value_channels = shape_of(op.values)[1:]
    unit, arch = INSTRUCTION_ROWS, arch_of_function(function)

    def unit_of(value: SSAValue) -> int:
        """What the instruction for the elements of an operand multiplies at once."""
        assert isinstance(value.type, MemRefType)
        return max(unit, arch.reduction_step(str(value.type.element_type)))

    for what, size, step in (
        ("keys_per_tile", params["keys_per_tile"], unit_of(op.values)),
        ("channel_chunk", params["channel_chunk"], unit_of(op.queries)),
        ("value_channels", params["value_channels"], unit),
        ("query rows", rows, workgroup_rows(params)),
        ("keys", keys, params["key_waves"] * params["keys_per_tile"]),
        ("channels of Q and K", channels, params["channel_chunk"]),
        ("channels of V", value_channels, params["value_channels"]),
        ("value_channels of a key wave", params["value_channels"], 4 * params["key_waves"]),
    ):
        if size % step:
            raise XpagedError(
                f"the tiles do not fit: {what}", at=op, found=size, expected=f"a multiple of {step}", fix=_PARAMS_FIX
            )
    grid, lanes = launch_size(params, arch, problems=groups * op.split_kv, rows=rows, value_channels=value_channels)
    if lanes > arch.max_workgroup:
        expected = f"at most {arch.max_workgroup} on {arch.name}"
        raise XpagedError("a workgroup has too many lanes", at=op, found=lanes, expected=expected, fix=_PARAMS_FIX)
    taken = lds_bytes(params["query_waves"], params["key_waves"], params["value_channels"], op.valid_rows)
    if taken > arch.lds_bytes:
        expected = f"at most {arch.lds_bytes} on {arch.name}"
        raise XpagedError("the join of the key waves does not fit into LDS", at=op, found=taken, expected=expected)
    if params["rows_per_wave"] == STAGED_ROWS:
        _check_staged(op, params, arch)
    _check_launch(op, function, grid, lanes)


def check_merge(op: MergeAttentionOp) -> None:
    """Refuse a merge that is launched for another size than its output's, as hand-written text may have it."""
    function = op.parent_op()
    if not isinstance(function, func.FuncOp):
        raise XpagedError("a merge stands outside a function", at=op, fix="put it into a func.func")
    merge = MergeTile.of(shape_of(op.out), arch_of_function(function))
    _check_launch(op, function, merge.grid, merge.lanes)


def _check_launch(op: Operation, function: func.FuncOp, grid: int, lanes: int) -> None:
    for what, found, expected in (("grid", grid_size(function), grid), ("block", block_size(function), lanes)):
        if found != expected:
            raise XpagedError(
                f"the {what} of the launch is not that of the tiles", at=op, found=found, expected=expected
            )


def _check_staged(op: GridwiseAttentionAccelOp, params: dict[str, int], arch: Arch) -> None:
    """A kernel that goes through LDS has layouts for few sizes only."""
    element = op.queries.type.element_type  # pyright: ignore
    for what, found, possible in (
        ("keys_per_tile", params["keys_per_tile"], (STAGED_KEYS,)),
        ("query_waves", params["query_waves"], (STAGED_WAVES,)),
        ("key_waves", params["key_waves"], (1,)),
        ("channel_chunk", params["channel_chunk"], STAGED_CHANNELS),
        ("channels of Q and K", shape_of(op.queries)[1], (params["channel_chunk"],)),
        ("value_channels", params["value_channels"], STAGED_CHANNELS),
        ("the type of V", op.values.type.element_type, (element,)),  # pyright: ignore
        ("an instruction of 32 rows", arch.has_matrix(str(element), STAGED_ROWS), (True,)),
    ):
        if found not in possible:
            expected = " or ".join(map(str, possible))
            raise XpagedError(
                f"a kernel with rows_per_wave = {STAGED_ROWS} cannot have this: {what}",
                at=op,
                found=found,
                expected=expected,
                fix=_PARAMS_FIX,
            )
    taken = staged_lds_bytes(params["channel_chunk"], params["value_channels"])
    if taken > arch.lds_bytes:
        expected = f"at most {arch.lds_bytes} on {arch.name}"
        raise XpagedError("a tile of K and V does not fit into LDS", at=op, found=taken, expected=expected)
