"""`xpaged gen` and `xpaged.attention`: the kernels they build, and what they refuse."""

from __future__ import annotations

import re

import pytest
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.dialects.func import FuncOp

from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.views import chain_of
from xpaged.errors import XpagedError
from xpaged.gen import generate
from xpaged.ir.levels import Level, level_of
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.ir.transform_map import apply_chain
from xpaged.sizes import AttentionProblem, attention, build

SIZES = "--seq_len_q 5 --seq_len_k 64 --head_dim_qk 32 --head_dim_v 32 -t f16"


def gen(options: str) -> ModuleOp:
    return generate(options.split())


def function(module: ModuleOp) -> FuncOp:
    op = module.body.block.first_op
    assert isinstance(op, FuncOp)
    return op


def attention_of(module: ModuleOp) -> AttentionOp:
    return next(op for op in module.walk() if isinstance(op, AttentionOp))


def arguments(module: ModuleOp) -> list[str]:
    return [f"{arg.name_hint}: {arg.type}" for arg in function(module).body.block.args]


def test_the_paged_kernel():
    module = gen(
        "--operation attention --seq_len_q 1024 --seq_len_k 1024 --head_dim_qk 32 --head_dim_v 32 -t f16"
        " --paged-attention --num-pages 32 --page-size 1024 --arch gfx942"
    )
    assert arguments(module) == [
        "q: memref<32768xf16>",
        "k_table: memref<32xi64>",
        "v_table: memref<32xi64>",
        "out: memref<32768xf16>",
    ]
    names = [op.name for op in function(module).body.block.ops]
    assert names == [
        *["rock.transform"] * 4,
        *["rock.deref"] * 2,
        *["rock.transform"] * 6,
        "rock.attention",
        "func.return",
    ]
    op = attention_of(module)
    assert op.sizes == (1, 1, 1024, 1024, 32, 32, 1)
    assert [t.kind for m in chain_of(op.keys).maps for t in m.transforms] == [
        *("Merge", "PassThrough", "PassThrough"),
        *("PassThrough", "Unmerge"),
        *("PassThrough", "Merge"),
    ]
    text = print_module(module)
    assert "%k_table: memref<32xi64> {rock.page_table = {page_size = 1024 : i64, elem = f16}}" in text
    assert "%out: memref<32768xf16> {rock.output = 0 : i32}" in text
    assert 'attributes {rock.kernel, arch = "gfx942"}' in text
    assert print_module(parse(text)) == text
    assert level_of(module) is Level.ROCK_MEMREF


@pytest.mark.parametrize(("trans_k", "trans_v"), [(False, False), (True, True)])
def test_pages_hold_head_then_token_then_channel(trans_k: bool, trans_v: bool):
    """Whatever the views, element `f` of the order head, token, channel lies in page `f // pageSize`."""
    p = AttentionProblem(
        batch=2, heads_q=6, heads_kv=3, seq_q=1, seq_k=10, dim_qk=8, dim_v=12, page_size=16, num_pages=15,
        trans_k=trans_k, trans_v=trans_v,
    )  # fmt: skip
    op = attention_of(build(p))
    for view, transposed, channel_first, dim, page in (
        (op.keys, trans_k, not trans_k, 8, 16),
        (op.values, trans_v, trans_v, 12, 24),
    ):
        chain = chain_of(view)
        assert transposed == ((op.kTransposed if dim == 8 else op.vTransposed) is not None)
        for batch, head, token, channel in ((0, 0, 0, 0), (1, 2, 7, 5), (0, 1, 9, 7)):
            rest = [channel, token] if channel_first else [token, channel]
            lower, conditions = apply_chain(chain.maps, [batch * 3 + head, *rest])
            flat = (head * 10 + token) * dim + channel
            assert (lower, conditions) == ([batch, flat // page, flat % page], [])
        assert chain.table is not None
        assert apply_chain(chain.table.maps, [1, 3, 0])[0] == [18]


def test_without_pages_the_trans_flags_are_the_memory_order():
    plain, transposed = attention_of(gen(SIZES)), attention_of(gen(f"{SIZES} --transQ --transK --transV --transO"))
    assert plain.sizes == transposed.sizes == (1, 1, 5, 64, 32, 32, 1)
    assert not plain.is_paged
    assert apply_chain(chain_of(plain.keys).maps, [0, 3, 2])[0] == [3 * 64 + 2]
    assert apply_chain(chain_of(transposed.keys).maps, [0, 3, 2])[0] == [3 * 32 + 2]
    assert transposed.oTransposed is not None


def test_options_of_batch_heads_and_length():
    module = gen(f"{SIZES} -g 2 --num_heads_q 4 --num_heads_kv 2 --current_seq_len=-1,40 --causal=true")
    assert arguments(module)[3:] == ["kv_index: memref<2xi32>", "out: memref<1280xf16>"]
    op = attention_of(module)
    assert (op.heads_q, op.heads_kv, op.sizes.groups, op.sizes.kv_groups) == (4, 2, 8, 4)
    assert op.causal is not None
    assert op.currentSeqLen is not None
    rows = [apply_chain(chain_of(op.currentSeqLen).maps, [row])[0] for row in range(8)]
    assert rows == [[0]] * 4 + [[1]] * 4
    assert "rock.default = array<i32: -1, 40>" in print_module(module)


@pytest.mark.parametrize("spelling", ["--causal", "--causal=true", "--causal true", "--causal 1"])
def test_switches_are_taken_bare_or_with_a_value(spelling: str):
    assert attention_of(gen(f"{SIZES} {spelling}")).causal is not None


def test_a_switch_can_be_off():
    assert attention_of(gen(f"{SIZES} --causal=false")).causal is None


def test_defaults():
    module = gen("--seq_len_q 5 --seq_len_k 64 --head_dim_qk 32 --head_dim_v 16")
    assert arguments(module)[0] == "q: memref<160xf32>"
    assert "arch" not in function(module).attributes


def test_perf_config_is_kept():
    config = "attn:v3:32,32,32,32,32,32,16,1,1,1,2,0,1"
    assert f'perf_config = "{config}"' in print_module(gen(f"{SIZES} --perf_config {config}"))


class TestPythonBuilder:
    def test_page_tokens_are_rows_of_one_head(self):
        module = attention(
            heads_q=4, heads_kv=2, seq_q=1, seq_k=128, dim_qk=64, dim_v=32, page_tokens=16, kv_index=True
        )
        assert arguments(module)[1:3] == ["k_table: memref<16xi64>", "v_table: memref<16xi64>"]
        sizes = re.findall(r"page_size = (\d+)", print_module(module))
        assert sizes == ["1024", "512"]
        assert "rock.default" not in print_module(module)
        assert function(module).body.block.args[1].type.element_type == i64  # pyright: ignore

    def test_scale_lse_window_and_offset(self):
        module = attention(
            batch=2, seq_q=3, seq_k=8, dim_qk=4, scale=0.5, lse=True, causal=True,
            kv_index=[3, 7], prefix_offset=[0, 4], sliding_window=2, split_kv=2,
        )  # fmt: skip
        op = attention_of(module)
        assert [a.split(":")[0] for a in arguments(module)] == [
            "q",
            "k",
            "v",
            "kv_index",
            "prefix_offset",
            "lse",
            "out",
        ]
        assert (op.window, op.split_kv, op.has_lse) == (2, 2, True)
        assert op.out_type.get_shape() == (4, 3, 4)
        assert [o.name for o in op.preSoftmaxBody.block.ops] == ["arith.constant", "arith.mulf", "rock.yield"]
        assert print_module(parse(print_module(module))) == print_module(module)

    def test_extra_score_inputs(self):
        op = attention_of(build(AttentionProblem(seq_q=3, seq_k=8, dim_qk=4, dim_v=4, scale_input=True, bias=True)))
        assert [o.name for o in op.preSoftmaxBody.block.ops] == [
            *("arith.extf", "arith.mulf", "arith.extf", "arith.addf", "rock.yield")
        ]
        assert len(op.preSoftmaxElemWiseInputs) == 2

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"page_size": 64, "page_tokens": 2}, "given twice"),
            ({"page_size": 48}, "the pages do not hold exactly"),
            ({"page_size": 0}, "page_size must be positive"),
            ({"merge": True}, "nothing to merge without a split"),
            ({"split_kv": 0}, "split_kv must be positive"),
            ({"prefix_offset": True}, "needs causal"),
            ({"sliding_window": 9, "kv_index": True}, "does not fit the keys"),
            ({"sliding_window": 4}, "needs the KV index"),
            ({"dtype": "i16"}, "unknown dtype"),
            ({"seq_k": 2**31}, "seq_k is too large"),
            ({"seq_q": 2**20, "seq_k": 2**31 - 1, "batch": 2**20}, "is larger than any memory"),
        ],
    )
    def test_refusals(self, arguments: dict[str, int], message: str):
        sizes = {"seq_q": 3, "seq_k": 8, "dim_qk": 4}
        with pytest.raises(XpagedError, match=message):
            attention(**{**sizes, **arguments})  # pyright: ignore
