"""split-kv: what is split and what is left alone. How it runs: tests/lowering/test_split_kv.py."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.dialects.memref import AllocOp

import xpaged
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.merge import MergeAttentionOp
from xpaged.errors import XpagedError
from xpaged.interpreter.run import run
from xpaged.ir.locations import describe
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.pipeline import Pipeline
from xpaged.sizes import AttentionProblem, build

SIZES: dict[str, Any] = {"heads_q": 4, "heads_kv": 2, "seq_q": 3, "seq_k": 40, "dim_qk": 16, "arch": "gfx942"}


def split(module: ModuleOp, options: str = "{parts=3}") -> tuple[AttentionOp, MergeAttentionOp | None]:
    Pipeline(f"split-kv{options}").apply(module)
    (attention,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    merges = [op for op in module.walk() if isinstance(op, MergeAttentionOp)]
    return attention, merges[0] if merges else None


@pytest.mark.parametrize("lse", [False, True])
def test_an_attention_becomes_parts_and_a_merge(lse: bool) -> None:
    module = xpaged.attention(**SIZES, lse=lse, causal=True, kv_index=True, page_tokens=8)
    before = next(op for op in module.walk() if isinstance(op, AttentionOp))
    out, pages = before.out, before.keyAddresses
    attention, merge = split(module)
    assert merge is not None
    assert (attention.split_kv, attention.balancedSplit is not None, attention.causal is not None) == (3, True, True)
    assert attention.keyAddresses is pages
    assert [a.memref.type.element_type for a in module.walk() if isinstance(a, AllocOp)] == [f32, f32]  # pyright: ignore
    assert (merge.parts, merge.lses) == (attention.out, attention.lse)
    assert merge.out is out
    assert (merge.lse is not None) == lse


def test_a_transposed_output_is_written_through_a_view() -> None:
    p = AttentionProblem(**SIZES, dim_v=16, trans_o=True, trans_q=True, trans_v=True, split_kv=3)
    assert run(build(p), level="all", check=True).ok


def test_a_split_that_is_there_stays() -> None:
    module = xpaged.attention(**SIZES, lse=True, split_kv=2)
    text = print_module(module)
    attention, merge = split(module)
    assert (attention.split_kv, merge) == (2, None)
    assert print_module(module) == text


@pytest.mark.parametrize("options", ["{parts=1}", "", "{parts=auto}"])
def test_no_split_where_it_does_not_pay(options: str) -> None:
    attention, merge = split(xpaged.attention(**SIZES), options)
    assert (attention.split_kv, merge) == (1, None)


def test_the_split_that_fills_the_device() -> None:
    sizes: dict[str, Any] = {"heads_q": 32, "heads_kv": 8, "seq_q": 1, "seq_k": 4096, "dim_qk": 128, "page_tokens": 16}
    (attention, merge), (smaller, _) = (split(xpaged.attention(**sizes, arch=a), "") for a in ("gfx942", "gfx90a"))
    assert merge is not None
    assert 1 < smaller.split_kv <= attention.split_kv == merge.split_kv
    automatic = xpaged.attention(**sizes, arch="gfx942", split_kv="auto")
    assert attention.split_kv == next(op.split_kv for op in automatic.walk() if isinstance(op, AttentionOp))


@pytest.mark.parametrize("value", ["0", "-2", "1025", "many"])
def test_what_is_no_number_of_parts(value: str) -> None:
    with pytest.raises(XpagedError, match="no number of parts") as error:
        split(xpaged.attention(**SIZES), f"{{parts={value}}}")
    assert error.value.expected == "1 to 1024, or auto"
    assert error.value.during == "split-kv"


def test_everything_keeps_the_location() -> None:
    text = print_module(xpaged.attention(**SIZES))
    attention, merge = split(parse(text, "k.mlir"))
    assert merge is not None
    assert describe(attention) == describe(merge) != ""


@pytest.mark.parametrize(
    ("properties", "message"),
    [("balancedSplit", "balancedSplit needs splitKV, found 1")],
)
def test_what_does_not_verify(properties: str, message: str) -> None:
    text = print_module(xpaged.attention(**SIZES)).replace("{numHeadsKV", f"{{{properties}, numHeadsKV")
    with pytest.raises(XpagedError, match=message):
        parse(text)


def test_balanced_parts_are_nobodys_outputs() -> None:
    """Which keys each of them has is not told, so that there is nothing to compare them with."""
    text = print_module(xpaged.attention(**SIZES, lse=True, split_kv=2))
    module = parse(text.replace("{numHeadsKV", "{balancedSplit, numHeadsKV"))
    with pytest.raises(XpagedError, match="which keys each part of a balanced split has is not known"):
        run(module, check=True)


def test_a_merge_of_something_else_is_not_checked() -> None:
    text = """func.func @f(%p: memref<4x1x8xf32>, %l: memref<4x1xf32>, %o: memref<2x1x8xf32> {rock.output = 0 : i32})
      attributes {rock.kernel, arch = "gfx942"} {
      rock.merge_attention %p, %l into %o : memref<4x1x8xf32>, memref<4x1xf32> into memref<2x1x8xf32>
      func.return
    }"""
    assert run(parse(text), level=("rock-memref", "tile", "device")).ok
    with pytest.raises(XpagedError, match="what is merged is not what an attention of this module writes"):
        run(parse(text), check=True)


def test_a_launch_of_another_size_is_refused() -> None:
    module = xpaged.attention(**SIZES, split_kv=2)
    Pipeline("outline-kernels,affix-tuning-params,gemm-to-gridwise").apply(module)
    text = print_module(module).replace(
        "rock.grid_size = 1 : i32, rock.block_size = 64", "rock.grid_size = 2 : i32, rock.block_size = 64"
    )
    changed = parse(text)
    with pytest.raises(XpagedError, match="the grid of the launch is not that of the tiles"):
        Pipeline("gridwise-to-tile").apply(changed)
