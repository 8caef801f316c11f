"""gridwise-to-tile: which workgroup does what, how many tiles it reads, masks, score regions, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import MemRefType, ModuleOp, i32
from xdsl.rewriter import Rewriter

from tests.lowering.kernels import (
    ALL,
    BOTH,
    TILE,
    Inputs,
    Placement,
    Results,
    check,
    errors,
    kernel_of,
    lowered,
    module_at,
    ops_of,
    problem,
    run,
)
from xpaged.arch import archs
from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.views import chain_of
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.pipeline import Pipeline
from xpaged.sizes import AttentionProblem

TO_TILE = "affix-tuning-params,gemm-to-gridwise,gridwise-to-tile,place-barriers"


def attention_of(module: ModuleOp) -> AttentionOp:
    (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    return op


# ---- workgroups and tiles


@pytest.mark.parametrize(("heads", "rows", "channels"), [*product((1, 3), (7, 70), (24, 700))])
def test_each_workgroup_has_its_problem_its_rows_and_its_channels(heads: int, rows: int, channels: int) -> None:
    p = problem(heads_q=heads, seq_q=rows, seq_k=20, dim_qk=16, dim_v=channels, dtype="f32", lse=True)
    check(p, levels=BOTH)


def loads_of(module: ModuleOp) -> list[tile.TileLoadOp]:
    return [op for op in module.walk() if isinstance(op, tile.TileLoadOp)]


def test_tiles_are_the_first_that_read_pages_and_read_the_right_ones() -> None:
    """Each load from pages goes through the chain of one deref; K and V have one load each."""
    module = module_at(problem(heads_q=4, heads_kv=2, seq_q=5, seq_k=70, dim_qk=24, page_size=48), TILE)
    tables = [chain_of(op.view).table for op in loads_of(module)]
    assert [t.root.name_hint for t in tables if t is not None] == ["k_table", "v_table"]
    views = [op for op in ops_of(module, "rock.deref")]
    assert len(views) == 2


def test_lines_of_the_source_stay_with_the_operations() -> None:
    text = """func.func @f(%q: memref<1x4x16xf16>, %k: memref<1x16x8xf16>,
                   %v: memref<1x8x16xf16>, %o: memref<1x4x16xf16>) attributes {rock.kernel} {
  rock.attention{
    qk = %q * %k : memref<1x4x16xf16>, memref<1x16x8xf16>
    %o = softmax(qk) * %v : memref<1x8x16xf16> -> memref<1x4x16xf16>
  }
  return
}"""
    module = lowered(parse(text, "k.mlir"), TO_TILE)
    from xpaged.ir.locations import describe

    places = {describe(op) for op in module.walk() if op.name.startswith("rock.tile_") and op.results}
    assert places == {"k.mlir:3:3"}


def operations(p: AttentionProblem, **changes: Any) -> tuple[int, Results]:
    results = run(replace(Inputs.random(p), **changes), TILE, placement=Placement(poison=0.0, unmap=False))
    return results.machine.ops, results


def test_only_tiles_with_kept_keys_are_read() -> None:
    """The loop ends at the KV index, and at the diagonal of the last row of the workgroup."""
    keyed = problem(seq_q=1, seq_k=1000, dim_qk=16, kv_index=[0])
    step = 4 * 64  # keys of a turn: four waves
    counts = [operations(keyed, kv_index=[i])[0] for i in (-1, 0, step - 2, step, 2 * step - 2, 999)]
    assert counts[0] < counts[1] == counts[2] < counts[3] == counts[4] < counts[5]
    causal = problem(seq_q=320, seq_k=320, dim_qk=16, causal=True)
    plain = problem(seq_q=320, seq_k=320, dim_qk=16)

    def trips(p: AttentionProblem, group: int) -> int:
        return run(Inputs.random(p), TILE, groups=[group]).machine.ops

    assert trips(causal, 0) < trips(causal, 1) < trips(causal, 4)
    assert trips(plain, 0) == trips(plain, 4)


@pytest.mark.parametrize(
    ("sizes", "masks", "guards"),
    [
        ({"seq_k": 64}, 0, 0),  # whole tiles of kept keys
        ({"seq_k": 60}, 1, 0),  # padding is masked, and not read by its view
        ({"seq_k": 64, "causal": True}, 1, 1),  # K of the first tile is read ahead only if the tile is whole
        ({"seq_k": 64, "kv_index": [9]}, 1, 3),  # neither K nor V of dead keys is read
        ({"seq_k": 64, "kv_index": [9], "sliding_window": 3}, 1, 2),
    ],
)
def test_masks_stand_only_where_something_is_masked(sizes: dict[str, Any], masks: int, guards: int) -> None:
    module = module_at(problem(seq_q=64, dim_qk=16, **sizes), TILE)
    found = [op for op in module.walk() if isinstance(op, tile.TileMaskOp)]
    assert len(found) == masks
    assert all((op.lower is not None) == ("sliding_window" in sizes) for op in found)
    assert len([op for op in loads_of(module) if op.mask is not None]) == guards


def test_a_kv_index_for_each_query_head() -> None:
    """What the operation takes: heads of one group may end at different keys."""
    p = problem(batch=2, heads_q=4, heads_kv=2, seq_q=5, seq_k=70, dim_qk=24, page_size=48, kv_index=True, lse=True)
    module = module_at(p, Level.ROCK_MEMREF).clone()
    op, function = attention_of(module), kernel_of(module)
    assert op.currentSeqLen is not None
    argument = next(a for a in function.body.block.args if a.name_hint == "kv_index")
    per_head = function.body.block.insert_arg(MemRefType(i32, [8]), argument.index)
    per_head.name_hint = "kv_index"
    op.operands[list(op.operands).index(op.currentSeqLen)] = per_head
    for view in reversed(ops_of(module, "rock.transform")):
        if not view.results[0].uses:
            Rewriter.erase_op(view)
    function.body.block.erase_arg(argument)
    function.update_function_type()
    function.properties.pop("arg_attrs", None)
    indices = [0, 69, 30, -1, 12, 12, 64, 5]
    base = Inputs.random(replace(p, kv_index=False))
    inputs = PerHead(p, base.q, base.k, base.v, indices)
    tiles = lowered(module, TO_TILE)
    placement = Placement(poison=0.0, unmap=False)
    for level, m in ((TILE, tiles), (Level.DEVICE, lowered(tiles, "tile-to-device"))):
        assert not errors(inputs, run(inputs, level, module=m, placement=placement)), level


class PerHead(Inputs):
    """Inputs with an index of its own for each query head."""

    @property
    def per_head(self) -> list[int] | None:
        return None if self.kv_index is None else list(self.kv_index)


# ---- score regions

REGIONS: dict[str, tuple[str, Callable[[Any, Sequence[Any]], Any]]] = {
    "soft cap": (
        """%c = arith.constant 3.0 : f32
        %r = arith.divf %s, %c : f32
        %t = math.tanh %r : f32
        %y = arith.mulf %t, %c : f32""",
        lambda s, extras: np.tanh(s / 3.0) * 3.0,
    ),
    "select": (
        """%c = arith.constant 0.5 : f32
        %m = arith.constant -2.0 : f32
        %b = arith.cmpf ogt, %s, %c : f32
        %y = arith.select %b, %s, %m : f32""",
        lambda s, extras: np.where(value_of(s) > 0.5, s, -2.0 + 0.0 * s),
    ),
    "narrowed": (
        """%h = arith.truncf %s : f32 to f16
        %c = arith.constant 0.5 : f16
        %r = arith.mulf %h, %c : f16
        %y = arith.extf %r : f16 to f32""",
        lambda s, extras: narrowed(narrowed(s) * 0.5),
    ),
    "constant": (
        """%y = arith.constant 1.0 : f32""",
        lambda s, extras: 1.0 + 0.0 * s,
    ),
    "ends in f16": ("""%y = arith.truncf %s : f32 to f16""", lambda s, extras: narrowed(s)),
}


def value_of(score: Any) -> Any:
    """The plain values, of an array or of one that bounds its own error."""
    return getattr(score, "value", score)


def narrowed(score: Any) -> Any:
    """Rounded to f16, as far as the bounds are concerned."""
    return score.narrowed(np.dtype(np.float16)) if hasattr(score, "narrowed") else score


@pytest.mark.parametrize("name", REGIONS)
def test_any_score_region(name: str) -> None:
    text, meaning = REGIONS[name]
    p = problem(heads_q=2, heads_kv=1, seq_q=5, seq_k=37, dim_qk=24, page_size=24, causal=True, lse=True)
    module = module_at(p, Level.ROCK_MEMREF).clone()
    op = attention_of(module)
    result = "f16" if name == "ends in f16" else "f32"
    region = parse(
        f"""func.func @f(%q: memref<1x4x16xf16>, %k: memref<1x16x8xf16>, %v: memref<1x8x16xf16>,
                     %o: memref<1x4x16xf16>) {{
          rock.attention{{
            qk = %q * %k : memref<1x4x16xf16>, memref<1x16x8xf16>
            qk = elementwise {{
            ^bb0(%s: f32):
              {text}
              rock.yield %y : {result}
            }}
            %o = softmax(qk) * %v : memref<1x8x16xf16> -> memref<1x4x16xf16>
          }}
          return
        }}"""
    )
    body = attention_of(region).preSoftmaxBody
    new = body.clone()
    op.detach_region(op.preSoftmaxBody)
    op.add_region(new)
    inputs = replace(Inputs.random(p), score=meaning)
    gridwise = lowered(module, "affix-tuning-params,gemm-to-gridwise")
    tiles = lowered(gridwise, "gridwise-to-tile,place-barriers")
    for level, m in zip(ALL, (module, gridwise, tiles, lowered(tiles, "tile-to-device")), strict=True):
        assert not errors(inputs, run(inputs, level, module=m)), level


# ---- refusals

GRIDWISE = """func.func @f(%q: memref<1x16x16xf16>, %k: memref<1x16x64xf16>, %v: memref<1x64x{dv}xf16>,
                         %o: memref<1x16x{dv}xf16>)
    attributes {{rock.kernel, arch = "gfx942", rock.grid_size = {grid} : i32, rock.block_size = {block} : i32}} {{
  {body}
  return
}}"""
OPERATION = """rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {{}}
    {{blockSize = 128 : i32, gridSize = 1 : i32,
      operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, {params}}}
    : memref<1x16x16xf16>, memref<1x16x64xf16>, memref<1x64x{dv}xf16>, memref<1x16x{dv}xf16>"""
TILES = {"keys_per_tile": 32, "query_waves": 1, "key_waves": 2, "channel_chunk": 16, "value_channels": 16}


def gridwise_text(
    tiles: dict[str, int] | None = None,
    *,
    grid: int = 1,
    block: int = 128,
    dv: int = 16,
    twice: bool = False,
    more: str = "",
) -> str:
    fields = ", ".join(f"{name} = {value}" for name, value in {**TILES, **(tiles or {})}.items())
    operation = OPERATION.format(params=f"params0 = #rock.attention_params<{fields}>{more}", dv=dv)
    return GRIDWISE.format(body=f"{operation}\n  {operation if twice else ''}", grid=grid, block=block, dv=dv)


@pytest.mark.parametrize(
    ("text", "what", "found", "expected"),
    [
        (gridwise_text({"keys_per_tile": 20}), "the tiles do not fit: keys_per_tile", "20", "a multiple of 16"),
        (gridwise_text({"keys_per_tile": 48}), "the tiles do not fit: keys", "64", "a multiple of 96"),
        (gridwise_text({"query_waves": 2}), "the tiles do not fit: query rows", "16", "a multiple of 32"),
        (gridwise_text({"channel_chunk": 32}), "the tiles do not fit: channels of Q and K", "16", "a multiple of 32"),
        (gridwise_text({"value_channels": 32}), "the tiles do not fit: channels of V", "16", "a multiple of 32"),
        (
            gridwise_text({"keys_per_tile": 16, "key_waves": 16}),
            "the tiles do not fit: keys",
            "64",
            "a multiple of 256",
        ),
        (
            gridwise_text({"value_channels": 1024}, dv=1024),
            "the join of the key waves does not fit into LDS",
            "131328",
            "at most 65536 on gfx942",
        ),
        (gridwise_text(grid=2), "the grid of the launch is not that of the tiles", "2", "1"),
        (gridwise_text(block=64), "the block of the launch is not that of the tiles", "64", "128"),
        (
            gridwise_text(twice=True),
            "a kernel does one thing, for which the launch is made, and this is a second "
            "'rock.gridwise_attention_accel'",
            None,
            None,
        ),
        (
            gridwise_text().replace("rock.grid_size = 1 : i32,", ""),
            "the kernel has no attribute rock.grid_size",
            None,
            None,
        ),
        (
            gridwise_text().replace("gfx942", "gfx1030"),
            "gfx1030 has no matrix instructions, which attention kernels need",
            "gfx1030",
            ", ".join(archs()),
        ),
    ],
)
def test_a_gridwise_operation_that_does_not_fit_is_refused(
    text: str, what: str, found: str | None, expected: str | None
) -> None:
    with pytest.raises(XpagedError) as error:
        Pipeline("gridwise-to-tile").apply(parse(text, "k.mlir"))
    assert (error.value.what, error.value.found, error.value.expected) == (what, found, expected)
    assert error.value.during == "gridwise-to-tile"


def test_the_text_itself_is_fine() -> None:
    Pipeline("gridwise-to-tile").apply(parse(gridwise_text()))
