"""affix-tuning-params: chosen tile sizes, those of a perf_config, what is refused."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

from tests.lowering.kernels import BOTH, Inputs, errors, kernel_of, lowered, module_at, problem, run
from xpaged.arch import archs
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.attrs import AttentionParamsAttr
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.pipeline import Pipeline
from xpaged.sizes import AttentionProblem

PASS = Pipeline("affix-tuning-params")
PROBLEM = problem(heads_q=4, heads_kv=2, seq_q=20, seq_k=70, dim_qk=48, page_size=96, kv_index=[60])


def params_of(module: ModuleOp) -> dict[str, int]:
    (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    assert isinstance(op.params0, AttentionParamsAttr)
    return op.params0.values()


def fresh(p: AttentionProblem = PROBLEM) -> ModuleOp:
    return module_at(p, Level.ROCK_MEMREF).clone()


def configured(text: str, *, on_function: bool = False, p: AttentionProblem = PROBLEM) -> ModuleOp:
    """The module with a perf_config, lowered by the pass."""
    module = fresh(p)
    (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    (kernel_of(module) if on_function else op).attributes["perf_config"] = StringAttr(text)
    PASS.apply(module)
    return module


def test_everything_but_the_tile_sizes_stays() -> None:
    module = fresh()
    PASS.apply(module)
    (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    assert op.params0 is not None
    op.params0 = None
    assert module.is_structurally_equivalent(module_at(PROBLEM, Level.ROCK_MEMREF))


def test_tile_sizes_that_are_there_stay() -> None:
    module = fresh()
    (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
    op.params0 = AttentionParamsAttr.of(
        keys_per_tile=48, query_waves=2, key_waves=1, channel_chunk=16, value_channels=32
    )
    before = module.clone()
    PASS.apply(module)
    assert module.is_structurally_equivalent(before)


@pytest.mark.parametrize("on_function", [False, True])
@pytest.mark.parametrize(
    ("text", "keys", "query_waves", "key_waves"),
    [
        ("attn:v3:32,32,32,32,32,32,16,1,1,1,2,0,1", 32, 2, 2),
        ("attn:v3:64,64,16,32,32,32,16,1,1,1,2,0,1", 64, 1, 1),
        ("attn:v3:20,1,17,1,1,1,1,1,1,1,1,1", 32, 2, 2),  # 12 numbers; rounded up to whole instructions
        ("attn:v2:16,16,64,16,16,16,16,1,1,1,1", 16, 3, 1),  # 40 rows are all there are
        ("attn:v2:48,16,1000000,16,16,16,16,1,1,1,1", 48, 3, 1),
    ],
)
def test_a_perf_config_says_how_many_keys_and_rows(
    text: str, keys: int, query_waves: int, key_waves: int, on_function: bool
) -> None:
    chosen = params_of(configured(text, on_function=on_function))
    assert (chosen["keys_per_tile"], chosen["query_waves"]) == (keys, query_waves)
    assert chosen["key_waves"] <= key_waves
    assert chosen["query_waves"] * chosen["key_waves"] <= 4


@pytest.mark.parametrize("text", ["attn:v3:64,64,16,32,32,32,16,1,1,1,2,0,1", "attn:v2:16,16,32,16,16,16,16,1,1,1,1"])
def test_a_configured_kernel_computes_the_same(text: str) -> None:
    module = configured(text)
    inputs = Inputs.random(PROBLEM)
    tiles = lowered(module, "gemm-to-gridwise,gridwise-to-tile,place-barriers")
    device = lowered(tiles, "tile-to-device")
    for level, lowered_module in zip(BOTH, (tiles, device), strict=True):
        assert not errors(inputs, run(inputs, level, module=lowered_module))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "malformed perf_config"),
        ("attn", "malformed perf_config"),
        ("attn:v3", "malformed perf_config"),
        ("gemm:v3:32,32,32,32,32,32,16,1,1,1,2,0,1", "malformed perf_config"),
        ("attn:v4:32,32,32,32,32,32,16,1,1,1,2,0,1", "malformed perf_config"),
        ("attn:v3:32,32,32", "malformed perf_config"),
        ("attn:v3:32,32,32,32,32,32,16,1,1,1,2,0,1,1", "malformed perf_config"),
        ("attn:v2:32,32,32,32,32,32,16,1,1,1,2,0", "malformed perf_config"),
        ("attn:v3:32,32,32,32,32,32,16,1,1,1,2,0,1:more", "malformed perf_config"),
        ("attn:v3:a,32,32,32,32,32,16,1,1,1,2,0,1", "whole numbers"),
        ("attn:v3:-32,32,32,32,32,32,16,1,1,1,2,0,1", "whole numbers"),
        ("attn:v3:0,32,32,32,32,32,16,1,1,1,2,0,1", "whole numbers"),
        ("attn:v3:32,32,0,32,32,32,16,1,1,1,2,0,1", "whole numbers"),
        ("attn:v3:32,,32,32,32,32,16,1,1,1,2,0,1", "whole numbers"),
        ("attn:v3:65,32,32,32,32,32,16,1,1,1,2,0,1", "more keys than the registers"),
        ("attn:v3:1000000000000,32,32,32,32,32,16,1,1,1,2,0,1", "more keys than the registers"),
    ],
)
def test_other_perf_configs_are_refused(text: str, what: str) -> None:
    with pytest.raises(XpagedError, match=what) as error:
        configured(text)
    assert error.value.during == "affix-tuning-params"
    assert error.value.found in (text, text.split(":")[-1].split(",")[0])


def attention(q: str, *, v: str | None = None, arch: str = "gfx942", region: str = "") -> ModuleOp:
    """An attention with Q and K of one type, V and the output of another."""
    q_type, k_type, v_type = f"memref<1x4x16x{q}>", f"memref<1x16x8x{q}>", f"memref<1x8x16x{v or q}>"
    o_type = f"memref<1x4x16x{v or q}>"
    return parse(
        f"""func.func @f(%q: {q_type}, %k: {k_type}, %v: {v_type}, %o: {o_type})
        attributes {{rock.kernel, arch = "{arch}"}} {{
      rock.attention{{
        qk = %q * %k : {q_type}, {k_type}
        {region}
        %o = softmax(qk) * %v : {v_type} -> {o_type}
      }}
      return
    }}""",
        "k.mlir",
    )


INTEGERS = """qk = elementwise {
        ^bb0(%s: i32):
          %f = arith.sitofp %s : i32 to f32
          rock.yield %f : f32
        }"""


@pytest.mark.parametrize(
    ("module", "what", "found", "expected"),
    [
        (attention("f64"), "gfx942 has no matrix instruction for f64 operands", "f64", "f16 or bf16 or i8 or f32"),
        (attention("f16", v="f64"), "gfx942 has no matrix instruction for f64", "f64", "f16 or bf16 or i8 or f32"),
        (attention("f32", arch="gfx1100"), "gfx1100 has no matrix instruction for f32", "f32", "f16 or bf16 or i8"),
        (attention("f16", arch="gfx943"), "unknown architecture 'gfx943'", "gfx943", ", ".join(archs())),
        (attention("f16", arch="gfx1030"), "gfx1030 has no matrix instructions", "gfx1030", ", ".join(archs())),
    ],
)
def test_what_has_no_kernel_is_refused(module: ModuleOp, what: str, found: str, expected: str) -> None:
    with pytest.raises(XpagedError, match=what) as error:
        PASS.apply(module)
    assert (error.value.found, error.value.expected, error.value.during) == (found, expected, "affix-tuning-params")
    assert (error.value.where or "").startswith("k.mlir:")


@pytest.mark.parametrize(
    ("module", "chunk"),
    [
        (attention("bf16"), 16),
        (attention("f16", v="f32"), 16),
        (attention("i8", v="f16", region=INTEGERS), 32),  # one instruction multiplies 32 channels
        (attention("i8", v="bf16", region=INTEGERS, arch="gfx90a"), 16),
    ],
)
def test_other_types_have_tile_sizes_too(module: ModuleOp, chunk: int) -> None:
    PASS.apply(module)
    assert (params_of(module)["keys_per_tile"], params_of(module)["channel_chunk"]) == (16, chunk)
