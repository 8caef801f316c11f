"""gemm-to-gridwise: views, launch, what goes along and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import SSAValue

from tests.lowering.kernels import check, kernel_of, lowered, module_at, problem
from xpaged.dialects.rock.attention import AttentionOp, GridwiseAttentionAccelOp
from xpaged.dialects.rock.views import chain_of
from xpaged.errors import XpagedError
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.ir.transform_map import apply_chain
from xpaged.lowering.geometry import shape_of
from xpaged.lowering.kernel import block_size, grid_size
from xpaged.pipeline import Pipeline
from xpaged.sizes import AttentionProblem

PAGED: dict[str, Any] = {
    **{"batch": 2, "heads_q": 4, "heads_kv": 2, "seq_q": 5, "seq_k": 70, "dim_qk": 24, "dim_v": 48, "page_size": 48},
    **{"kv_index": [3, 69], "lse": True},
}


def gridwise(module: ModuleOp) -> GridwiseAttentionAccelOp:
    (op,) = [op for op in module.walk() if isinstance(op, GridwiseAttentionAccelOp)]
    return op


def of(p: AttentionProblem) -> GridwiseAttentionAccelOp:
    return gridwise(module_at(p, Level.GRIDWISE))


def apply(module: ModuleOp) -> ModuleOp:
    Pipeline("affix-tuning-params,gemm-to-gridwise").apply(module)
    return module


def test_everything_is_padded_to_whole_tiles() -> None:
    op = of(problem(**PAGED))
    assert op.params0 is not None
    params = op.params0.values()
    rows, keys = 16 * params["query_waves"], params["key_waves"] * params["keys_per_tile"]
    assert op.lse is not None
    assert op.out is not None
    shapes = [shape_of(x) for x in (op.queries, op.keys, op.values, op.out, op.lse)]
    d, m, dv = 32, -(-70 // keys) * keys, 64
    assert shapes == [(4, d, rows), (4, d, m), (4, m, dv), (4, rows, dv), (4, rows)]
    assert op.prePadG0M == IntegerAttr(70, 32)
    assert op.prePadG0N == IntegerAttr(10, 32)
    assert op.repeats == 2
    assert op.currentSeqLen is not None
    assert shape_of(op.currentSeqLen) == (4,)


def test_whole_tiles_have_no_padding() -> None:
    op = of(problem(seq_q=64, seq_k=64, dim_qk=64, page_size=1024))
    assert (op.prePadG0M, op.prePadG0N) == (None, None)
    maps = [m for x in (op.queries, op.keys, op.values) for m in chain_of(x).maps]
    assert not [t for m in maps for t in m.transforms if t.kind == "Pad"]


@pytest.mark.parametrize(
    ("sizes", "grid", "block"),
    [
        ({"seq_q": 1, "seq_k": 1000, "dim_qk": 64}, 1, 256),
        ({"seq_q": 64, "seq_k": 1000, "dim_qk": 64}, 1, 256),
        ({"seq_q": 65, "seq_k": 1000, "dim_qk": 64}, 2, 256),
        ({"seq_q": 65, "seq_k": 1000, "dim_qk": 64, "dim_v": 1040}, 6, 256),
        ({"batch": 3, "heads_q": 8, "heads_kv": 2, "seq_q": 20, "seq_k": 1000, "dim_qk": 64}, 12, 256),
        ({"seq_q": 1, "seq_k": 7, "dim_qk": 64}, 1, 64),
    ],
)
def test_the_launch(sizes: dict[str, Any], grid: int, block: int) -> None:
    module = module_at(problem(**sizes), Level.GRIDWISE)
    function, op = kernel_of(module), gridwise(module)
    assert (grid_size(function), block_size(function)) == (grid, block)
    assert (op.gridSize, op.blockSize) == (IntegerAttr(grid, 32), IntegerAttr(block, 32))


VARIANTS: list[dict[str, Any]] = [{}, *({f"trans_{x}": True} for x in "qkvo"), {"causal": True}, {"scale": 2.0}]


@pytest.mark.parametrize("variant", VARIANTS, ids=[" ".join(v) or "plain" for v in VARIANTS])
def test_the_page_addresses_pass_through(variant: dict[str, Any]) -> None:
    """The chains still end in the derefs that the operation names, which are those of before."""
    p = problem(**PAGED, **variant)
    (before,) = [op for op in module_at(p, Level.ROCK_MEMREF).walk() if isinstance(op, AttentionOp)]
    after = of(p)
    for view, address, old in (
        (after.keys, after.keyAddresses, before.keyAddresses),
        (after.values, after.valueAddresses, before.valueAddresses),
    ):
        chain = chain_of(view)
        assert chain.deref is not None
        assert chain.root is address
        assert old is not None
        assert table_of(chain.root) == table_of(old)
    assert len({table_of(x) for x in (after.keyAddresses, after.valueAddresses) if x is not None}) == 2


def table_of(view: SSAValue) -> str:
    """The name of the page table that a view of pages reads."""
    table = chain_of(view).table
    assert table is not None
    assert table.root.name_hint is not None
    return table.root.name_hint


@pytest.mark.parametrize("variant", VARIANTS, ids=[" ".join(v) or "plain" for v in VARIANTS])
def test_the_meaning_stays(variant: dict[str, Any]) -> None:
    check(problem(**{**PAGED, "seq_k": 12, "kv_index": [3, 11]}, **variant), levels=[Level.ROCK_MEMREF, Level.GRIDWISE])


def test_masks_and_regions_go_along() -> None:
    p = problem(**PAGED, causal=True, prefix_offset=(3, 4), sliding_window=7, scale=0.5, bias=True)
    op = of(p)
    (before,) = [op for op in module_at(p, Level.ROCK_MEMREF).walk() if isinstance(op, AttentionOp)]
    assert op.causal is not None
    assert op.window == 7
    assert op.prefixOffset is not None
    assert op.preSoftmaxBody.is_structurally_equivalent(before.preSoftmaxBody)
    (bias,) = op.preSoftmaxElemWiseInputs
    assert shape_of(bias) == (4, shape_of(op.keys)[2], shape_of(op.queries)[2])


def test_the_description_names_the_problem_and_its_masks() -> None:
    text = kernel_of(module_at(problem(**PAGED, causal=True), Level.GRIDWISE)).attributes["rock.description"]
    assert isinstance(text, StringAttr)
    for part in (
        "Attention of 8 query heads and 4 KV heads",
        "5 query rows, 70 keys, 24 channels of Q and K, 48 of V, f16",
        "Masks: causal (key <= row), keys up to the KV index (inclusive)",
        "70 of 48 elements (K) and 70 of 96 (V)",
    ):
        assert part in text.data


ATTENTION = """rock.attention{{
    qk = %q * %k : memref<1x4x16xf16>, memref<1x16x8xf16>
    %o = softmax(qk) * %v : memref<1x8x16xf16> -> memref<1x4x16xf16>
  }} {{{attributes}}}"""
PARAMS = (
    "params0 = #rock.attention_params<keys_per_tile = 16, query_waves = 1, key_waves = 1, channel_chunk = 16, "
    "value_channels = 16>"
)


def refused(*attributes: str, twice: bool = False) -> XpagedError:
    body = ATTENTION.format(attributes=", ".join(attributes))
    text = f"""func.func @f(%q: memref<1x4x16xf16>, %k: memref<1x16x8xf16>, %v: memref<1x8x16xf16>,
      %o: memref<1x4x16xf16>) attributes {{rock.kernel}} {{
  {body}
  {body if twice else ""}
  return
}}"""
    with pytest.raises(XpagedError) as error:
        lowered(parse(text, "k.mlir"), "gemm-to-gridwise")
    assert error.value.during == "gemm-to-gridwise"
    assert error.value.where.startswith("k.mlir:")
    return error.value


def test_what_is_refused() -> None:
    assert refused().what == "rock.attention has no tile sizes"
    assert refused().fix == "run affix-tuning-params first"
    assert refused(PARAMS, twice=True).what.startswith("a kernel does one thing, for which the launch is made")


def test_a_launch_larger_than_32_bits_is_refused() -> None:
    module = problem(batch=2**12, seq_q=2**30, seq_k=8, dim_qk=16, page_size=16)
    with pytest.raises(XpagedError, match="more workgroups than one launch can have"):
        module_at(module, Level.GRIDWISE)


def test_an_output_that_is_read_too_is_refused() -> None:
    text = """func.func @f(%q: memref<1x16x16xf16>, %k: memref<1x16x16xf16>, %v: memref<1x16x16xf16>)
        attributes {rock.kernel} {
      rock.attention{
        qk = %q * %k : memref<1x16x16xf16>, memref<1x16x16xf16>
        %q = softmax(qk) * %v : memref<1x16x16xf16> -> memref<1x16x16xf16>
      }
      return
    }"""
    for other in "qkv":
        with pytest.raises(XpagedError, match="attention reads a buffer that it writes"):
            apply(parse(text.replace("%q = softmax", f"%{other} = softmax")))


def test_several_kernels_in_one_module() -> None:
    one = "func.func @{name}(%q: memref<1x{n}x16xf16>, %k: memref<1x16x8xf16>, %v: memref<1x8x16xf16>, \
%o: memref<1x{n}x16xf16>) attributes {{rock.kernel}} {{ rock.attention{{ qk = %q * %k : memref<1x{n}x16xf16>, \
memref<1x16x8xf16> %o = softmax(qk) * %v : memref<1x8x16xf16> -> memref<1x{n}x16xf16> }} return }}"
    module = apply(parse(one.format(name="a", n=4) + one.format(name="b", n=100)))
    launches = {f.sym_name.data: (grid_size(f), block_size(f)) for f in module.ops if hasattr(f, "sym_name")}  # pyright: ignore
    assert launches == {"a": (1, 64), "b": (2, 256)}


def test_padded_channels_of_v_are_channels_again() -> None:
    """They end in channels that nobody stores, so no load of V needs a mask for them; K's are 0."""
    module = module_at(problem(seq_q=1, seq_k=64, dim_qk=40, dim_v=80), Level.GRIDWISE)
    (op,) = [op for op in module.walk() if isinstance(op, GridwiseAttentionAccelOp)]
    assert (shape_of(op.keys)[1], shape_of(op.values)[2]) == (48, 128)
    (_, conditions_of_v), (_, conditions_of_k) = (
        apply_chain(chain_of(view).maps, [IndexExpr.var(f"x{i}", 0, n - 1) for i, n in enumerate(shape_of(view))])
        for view in (op.values, op.keys)
    )
    assert not conditions_of_v
    assert conditions_of_k


def test_a_kernel_that_computes_nothing_is_refused() -> None:
    text = "func.func @f(%o: memref<4xf32>) attributes {rock.kernel} {\n  func.return\n}"
    with pytest.raises(XpagedError, match="the kernel 'f' computes nothing") as error:
        apply(parse(text, "f.mlir"))
    assert error.value.where == "f.mlir:1:1"
    assert error.value.expected == "an attention, or operations element by element"
