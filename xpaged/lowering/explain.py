"""What was decided on the way from a module to its kernels, and why, in lines for a reader."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp

from xpaged.arch import arch_of
from xpaged.arch.table import Arch
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.attrs import AttentionParamsAttr
from xpaged.dialects.rock.merge import MergeAttentionOp
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level, level_of
from xpaged.ir.locations import describe
from xpaged.lowering.fusion_report import Explanation, explain_fusion
from xpaged.lowering.geometry import MAX_WAVES, Geometry, choose_split, geometry_of, join_rows
from xpaged.lowering.kernel import block_size, grid_size, is_kernel, kernels_of
from xpaged.lowering.perf_config import SCHEDULES, PerfConfig, config_of
from xpaged.lowering.staged_layouts import STAGED_ROWS, STAGED_WAVES, staged_lds_bytes


def explain(module: ModuleOp, arch: str | None = None) -> list[str]:
    """
    For a graph, what became of every operation; then for each attention its geometry, tiles and schedule, and why.

    A module that is refused on the way is explained as far as it goes, with the reason last. Raises XpagedError for an
    unknown architecture.
    """
    target, _ = arch_of(module, arch)
    lines: list[str] = []
    try:
        if level_of(module) <= Level.TOSA:
            lines += explain_graph(module)
        if level_of(module) <= Level.ROCK_MEMREF:
            lines += explain_kernels(module, target)
        else:
            lines.append(f"tiles are fixed already: the module stands at level {level_of(module).value}")
    except XpagedError as refusal:
        lines.append(f"refused: {refusal.what}" + (f" (found {refusal.found})" if refusal.found else ""))
    return lines


def explain_graph(module: ModuleOp) -> list[str]:
    """A line for each operation of a graph: whether an attention kernel does its work, and its part or the reason.

    An operation that becomes several on the way to level tosa is told as one; shapes, which are no data, are left out.
    """
    places: dict[str, list[Explanation]] = {}
    for each in explain_fusion(module):
        if each.name != "tosa.const_shape":
            places.setdefault(each.location or each.name, []).append(each)
    lines: list[str] = []
    for op in module.walk():
        if isinstance(op, ModuleOp | FuncOp | ReturnOp) or op.name == "tosa.const_shape" or not op.results:
            continue
        place = describe(op) or op.name
        found = places.get(place)
        lines.append(f"{place}: {op.name}: {_verdict(found) if found else 'in the attention: folded into an operand'}")
    return lines


def _verdict(parts: Sequence[Explanation]) -> str:
    """What became of an operation that is `parts` at level tosa: what was not fused speaks first, views last."""
    used = [part for part in parts if part.reason != "nothing uses it"]
    if not used:
        return "not fused: nothing uses it"
    outside = [part.reason for part in used if not part.fused and part.name != "tosa.const"]
    if outside:
        return f"not fused: {outside[0]}"
    work = [part.reason for part in used if not part.reason.startswith(("a view", "part of"))]
    return f"in the attention: {(work or [part.reason for part in used])[0]}"


def explain_kernels(module: ModuleOp, arch: Arch) -> list[str]:
    """Lines for each kernel that a module becomes on `arch`. Raises XpagedError when a pass refuses it."""
    from xpaged.passes.pipelines import lower
    from xpaged.pipeline import Pipeline

    tiled = lower(module.clone(), Level.ROCK_MEMREF, arch)
    Pipeline("sort-dimensions-memory-layout,detect-flash-decoding,outline-kernels,affix-tuning-params").apply(tiled)
    attentions = {op.parent_op(): op for op in tiled.walk() if isinstance(op, AttentionOp)}
    launched = {
        function.sym_name.data: function
        for function in lower(module.clone(), Level.GRIDWISE, arch).walk()
        if isinstance(function, FuncOp) and is_kernel(function)
    }
    lines: list[str] = []
    for function in kernels_of(tiled):
        name = function.sym_name.data
        op = attentions.get(function)
        if op is None:
            merges = [each for each in function.walk() if isinstance(each, MergeAttentionOp)]
            lines.append(f"kernel {name}: {_merge(merges[0]) if merges else 'elementwise, one lane an element'}")
        else:
            lines += [f"kernel {name}: {line}" for line in _attention(op, arch)]
        if (kernel := launched.get(name)) is not None and "rock.grid_size" in kernel.attributes:
            lines.append(f"kernel {name}: {grid_size(kernel)} workgroups of {block_size(kernel)} lanes")
    return lines


def _attention(op: AttentionOp, arch: Arch) -> list[str]:
    """The problem of an attention, and each tile size with its reason."""
    geometry = geometry_of(op)
    assert isinstance(op.params0, AttentionParamsAttr)
    chosen, config = op.params0.values(), config_of(op)
    place, paged = describe(op), ", paged" if op.is_paged else ""
    lines = [
        f"attention{f' at {place}' if place else ''}: {_count(geometry.groups * geometry.ratio, 'query head')} on "
        f"{_count(geometry.groups, 'KV head')}, {_count(geometry.queries, 'query row')}, {geometry.keys} keys, "
        f"{geometry.channels} and {geometry.value_channels} channels of Q, K ({geometry.element}) and of V "
        f"({geometry.value_element}){paged}",
        _folding(geometry),
        _rows(geometry, chosen, config),
        _keys(geometry, chosen, config),
        _channels(geometry, chosen),
        _stages(geometry, chosen, config),
        _split(geometry, op.balancedSplit is not None, arch),
    ]
    return [*lines, _way_of_keys(geometry, chosen, config), f"arch {arch.name}: waves of {arch.wave_size} lanes"]


def _is_staged(chosen: dict[str, int]) -> bool:
    """Whether all waves of a workgroup share K and V through LDS."""
    return chosen["rows_per_wave"] == STAGED_ROWS


def _way_of_keys(geometry: Geometry, chosen: dict[str, int], config: PerfConfig | None) -> str:
    """How K and V come to the matrix instructions, and what else lies in LDS."""
    if _is_staged(chosen):
        size = staged_lds_bytes(chosen["channel_chunk"], chosen["value_channels"])
        return f"K and V go through {size} bytes of LDS: {geometry.rows} rows are enough for waves that share them"
    why = (
        "as a perf_config has it"
        if config is not None
        else "few rows use each key"
        if geometry.rows <= STAGED_ROWS * STAGED_WAVES // 2
        else "LDS has no layout for these types and sizes"
    )
    join = ""
    if chosen["key_waves"] > 1:
        rows = join_rows(chosen["query_waves"], geometry.rows)
        join = f"; LDS holds the results of {_count(rows, 'row')} that {chosen['key_waves']} waves join"
    return f"K and V go from memory straight to registers, {why}{join}"


def _split(geometry: Geometry, balanced: bool, arch: Arch) -> str:
    """What is done about a device that the query heads alone do not fill."""
    if geometry.split > 1:
        shares = "an equal share of the keys that are not masked" if balanced else f"{geometry.part_keys} keys"
        return f"split_kv = {geometry.split}: {shares} for each part, which has workgroups of its own"
    parts = choose_split(geometry, arch)
    if parts == 1:
        return "split_kv = 1: more parts of the keys would not fill the device any better"
    return f"split_kv = 1: none was asked for; {parts} would fill the {arch.compute_units} units of {arch.name}"


def _merge(op: MergeAttentionOp) -> str:
    return f"the results over {op.split_kv} parts of the keys become one, part by part in the order of their numbers"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _folding(geometry: Geometry) -> str:
    if geometry.ratio == 1:
        return "each query head has its own KV head"
    if geometry.fold == 1:
        return (
            f"the {geometry.ratio} query heads of a KV head are problems of their own: their last keys or offsets may "
            "differ"
        )
    return f"the {geometry.ratio} query heads of a KV head are rows of one problem, so that K and V are read once"


def _rows(geometry: Geometry, chosen: dict[str, int], config: PerfConfig | None) -> str:
    waves = chosen["query_waves"]
    rows = f"{geometry.rows} rows of a problem" if geometry.rows > 1 else "the one row of a problem"
    most = STAGED_WAVES if _is_staged(chosen) else MAX_WAVES
    why = f"nPerBlockG0 = {config.rows}" if config else f"at most {most} waves"
    return f"query_waves = {waves}: {rows}, {chosen['rows_per_wave']} a wave; {why}"


def _keys(geometry: Geometry, chosen: dict[str, int], config: PerfConfig | None) -> str:
    waves, keys = chosen["key_waves"], chosen["keys_per_tile"]
    if config is not None:
        size = f"keys_per_tile = {keys}: mPerBlockG0 = {config.keys}, whole matrix instructions"
    else:
        room = "LDS" if _is_staged(chosen) else "the registers of a wave"
        size = f"keys_per_tile = {keys}: what K and V of a tile may take of {room}"
    if waves > 1:
        return f"{size}; key_waves = {waves}: few query rows leave waves over, which take turns on the keys"
    return f"{size}; key_waves = 1: " + (
        "the waves have query rows enough" if chosen["query_waves"] > 1 else f"{geometry.keys} keys are few"
    )


def _channels(geometry: Geometry, chosen: dict[str, int]) -> str:
    chunk, values = chosen["channel_chunk"], chosen["value_channels"]
    first = f"channel_chunk = {chunk}: " + (
        "all channels of Q and K at once" if chunk >= geometry.channels else f"{geometry.channels} channels in chunks"
    )
    second = f"value_channels = {values}: " + (
        "all channels of V in a workgroup"
        if values >= geometry.value_channels
        else f"{geometry.value_channels} channels of V over several workgroups"
    )
    return f"{first}; {second}"


def _stages(geometry: Geometry, chosen: dict[str, int], config: PerfConfig | None) -> str:
    stages = chosen["stages"]
    text = f"stages = {stages}: " + (
        "K is loaded a turn of the key loop ahead" if stages > 1 else "K is loaded in the turn that multiplies it"
    )
    if config is None or config.stages is None:
        return text + (
            "" if stages > 1 or chosen["channel_chunk"] >= geometry.channels else ", since it comes in chunks"
        )
    schedule = SCHEDULES[config.schedule_version]
    text += f"; schedule version {config.schedule_version} ({schedule.name})"
    if config.stages > stages:
        text += " asks for two, but K comes in chunks"
    return text + (f": {schedule.instead}" if schedule.instead else "")
