"""What `--explain` tells: every operation of a graph, the tiles of every kernel, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from xpaged.cli.shell import DONE, USAGE
from xpaged.examples import NAMES, example
from xpaged.gen import generate
from xpaged.ir.parsing import parse
from xpaged.lowering.explain import explain
from xpaged.passes.pipelines import lower

Cli = Any

GRAPH = """func.func @f(%q: !migraphx.shaped<1x4x8xf16, 32x8x1>, %k: !migraphx.shaped<1x8x16xf16, 128x16x1>,
                 %v: !migraphx.shaped<1x16x8xf16, 128x8x1>, %w: !migraphx.shaped<1x4x8xf16, 32x8x1>)
    -> !migraphx.shaped<1x4x8xf16, 32x8x1> attributes {rock.kernel = "mixr", arch = "gfx942"} {
  %n = migraphx.mul %q, %w : <1x4x8xf16, 32x8x1>, <1x4x8xf16, 32x8x1> -> <1x4x8xf16, 32x8x1>
  %s = migraphx.dot %n, %k : <1x4x8xf16, 32x8x1>, <1x8x16xf16, 128x16x1> -> <1x4x16xf16, 64x16x1>
  %t = migraphx.tanh %s : <1x4x16xf16, 64x16x1> -> <1x4x16xf16, 64x16x1>
  %p = migraphx.softmax %t {axis = 2 : i64} : <1x4x16xf16, 64x16x1> -> <1x4x16xf16, 64x16x1>
  %r = migraphx.dot %p, %v : <1x4x16xf16, 64x16x1>, <1x16x8xf16, 128x8x1> -> <1x4x8xf16, 32x8x1>
  return %r : !migraphx.shaped<1x4x8xf16, 32x8x1>
}"""


def told(lines: list[str], *parts: str) -> bool:
    """Whether one line holds all of `parts`."""
    return any(all(part in line for part in parts) for line in lines)


def test_every_operation_of_a_graph_has_a_line() -> None:
    lines = explain(parse(GRAPH, "g.mlir"))
    assert [line.split(": ")[1] for line in lines[:5]] == [
        *("migraphx.mul", "migraphx.dot", "migraphx.tanh", "migraphx.softmax", "migraphx.dot")
    ]
    assert told(lines, "g.mlir:4:8: migraphx.mul: not fused", "Q of the attention")
    assert told(lines, "g.mlir:5:8: migraphx.dot: in the attention: the product of queries and keys")
    assert told(lines, "migraphx.tanh: in the attention: score region")
    assert told(lines, "migraphx.softmax: in the attention: softmax")
    assert told(lines, "g.mlir:8:8: migraphx.dot: in the attention: the product of weights and values")


def test_what_blocks_the_fusion_is_named() -> None:
    norm = GRAPH.replace("migraphx.softmax %t {axis = 2 : i64} :", "migraphx.softmax %t {axis = 1 : i64} :")
    lines = explain(parse(norm, "g.mlir"))
    assert told(lines, "g.mlir:8:8: migraphx.dot: not fused", "softmax")
    assert lines[-1].startswith("refused: ")


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_are_in_the_attention(name: str) -> None:
    lines = explain(parse(example(name), name), "gfx942")
    assert not told(lines, "not fused: elementwise")
    assert told(lines, "the 7 query heads of a KV head are rows of one problem")
    assert told(lines, "workgroups of ")
    way = "straight to registers, few rows" if "decode" in name else "bytes of LDS: 10500 rows"
    assert told(lines, way)


def gen(options: str) -> list[str]:
    sizes = "-seq_len_q 1 -seq_len_k 640 -head_dim_qk 32 -head_dim_v 32 -t f16 --arch gfx942"
    return explain(generate([*sizes.split(), *options.split()]))


def test_tiles_and_their_reasons() -> None:
    lines = gen("-num_heads_q 4")
    assert told(lines, "4 query heads on 1 KV head, 1 query row, 640 keys, 32 and 32 channels")
    assert told(lines, "query_waves = 1: 4 rows of a problem")
    assert told(lines, "key_waves = 4: few query rows leave waves over")
    assert told(lines, "stages = 2: K is loaded a turn of the key loop ahead")
    assert told(lines, "1 workgroups of 256 lanes")
    assert told(gen("-g 2 -num_heads_q 2"), "rows of one problem")


def test_splits_and_merges_are_told() -> None:
    assert told(gen("-split_kv 3"), "split_kv = 3: an equal share of the keys that are not masked")
    assert told(gen("-split_kv 3"), "kernel rock_attention_merge: the results over 3 parts of the keys become one")
    assert told(gen("-split_kv 5 -return_lse"), "split_kv = 5: 128 keys for each part")
    assert told(gen(""), "split_kv = 1: none was asked for; 2 would fill the 304 units of gfx942")
    assert told(gen("-g 400"), "split_kv = 1: more parts of the keys would not fill the device any better")


def test_schedules_are_told() -> None:
    config = "--perf_config attn:v3:48,64,16,32,32,32,16,1,1,{},2,0,1"
    assert told(gen(config.format(1)), "keys_per_tile = 48: mPerBlockG0 = 48", "key_waves")
    assert told(gen(config.format(1)), "stages = 1", "schedule version 1 (Default)")
    assert told(gen(config.format(3)), "schedule version 3 (DirectToLDSDefault)", "straight to the registers")
    wide = explain(
        generate("-seq_len_q 1 -seq_len_k 64 -head_dim_qk 2000 -head_dim_v 8 -t f16 --schedule_version 2".split())
    )
    assert told(wide, "asks for two, but K comes in chunks")


def test_lower_levels_and_refusals() -> None:
    from xpaged.ir.levels import Level

    module = generate("-seq_len_q 1 -seq_len_k 64 -head_dim_qk 32 -head_dim_v 32 -t f16".split())
    assert explain(lower(module.clone(), Level.TILE)) == ["tiles are fixed already: the module stands at level tile"]


def test_the_command(cli: Cli) -> None:
    text = cli("gen", *"-seq_len_q 1 -seq_len_k 64 -head_dim_qk 32 -head_dim_v 32 -t f16".split()).out
    ended = cli("compile", "-", "--explain", "--arch", "gfx90a,gfx942", stdin=text)
    assert (ended.status, ended.out) == (DONE, "")
    assert ended.err.count("kernel rock_attention: attention at <stdin>:") == 2
    assert "gfx90a: waves of 64 lanes" in ended.err
    assert cli("compile", "-", stdin=text).status == USAGE
