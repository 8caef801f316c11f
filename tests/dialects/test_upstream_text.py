"""Text as rocMLIR's tools print it is taken as it stands: parsed, lowered, executed at every level and checked."""

# ruff: noqa: E501 - the lines of the text are as they are printed

from __future__ import annotations

import re

import pytest
from xdsl.dialects.builtin import ModuleOp

from xpaged.arch import arch_of
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.driver import compile
from xpaged.errors import XpagedError
from xpaged.interpreter.run import run
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module

ARCH = "amdgcn-amd-amdhsa:gfx90a:sramecc+:xnack-"
ALIASES = """#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#to_pages = affine_map<(d0, d1) -> (d0, d1 floordiv 16, d1 mod 16)>
#rows = affine_map<(d0, d1, d2) -> (0, d1 * 8 + d2)>
#pages = #rock.transform_map<#to_pages by [<PassThrough ["b"] at [0] -> ["b"] at [0]>,
  <Merge{6, 16} ["flat"] at [1] -> ["page", "offset"] at [1, 2]>] bounds = [1, 96] -> [1, 6, 16]>
#heads = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0, d1 * 8 + d2)> by [<PassThrough ["g"] at [0] -> ["b"] at [0]>,
  <Unmerge{12, 8} ["seq", "dim"] at [1, 2] -> ["flat"] at [1]>] bounds = [1, 12, 8] -> [1, 96]>
"""
REGION = """{
      ^bb0(%arg5: memref<2x3x12xf16>, %arg6: memref<2x3x12xf16>, %arg7: memref<2x3x12xf16>):
        %alloc = memref.alloc() {alignment = 64 : i64} : memref<2x3x12xf16>
        linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg5, %arg6 : memref<2x3x12xf16>, memref<2x3x12xf16>) outs(%alloc : memref<2x3x12xf16>) {
        ^bb0(%in: f16, %in_0: f16, %out: f16):
          %5 = arith.addf %in, %in_0 : f16
          linalg.yield %5 : f16
        }
        memref.copy %alloc, %arg7 : memref<2x3x12xf16> to memref<2x3x12xf16>
        rock.yield
      }"""
PLAIN = f"""module {{
  func.func @rock_attention(%arg0: memref<2x3x8xf16> {{mhal.read_access}}, %arg1: memref<1x12x8xf16> {{mhal.read_access}},
                            %arg2: memref<1x12x8xf16> {{mhal.read_access}}, %arg3: memref<2x3x12xf16> {{mhal.read_access}},
                            %arg4: memref<2x3x8xf16> {{mhal.write_access}})
      attributes {{rock.kernel, mhal.arch = "{ARCH}"}} {{
    rock.attention{{
      qk = %arg0 * tr %arg1 : memref<2x3x8xf16>, memref<1x12x8xf16>
      qk = elementwise otherIns(%arg3 : memref<2x3x12xf16>) {REGION}
      %arg4 = softmax(qk) * %arg2 : memref<1x12x8xf16> -> memref<2x3x8xf16>
    }} {{firstGemmIndices = array<i64: 0>, numHeadsKV = 1 : i32, numHeadsQ = 2 : i32, softmaxType = f32, splitKV = 1 : i32, storeMethod = #rock<StoreMethod set>}}
    return
  }}
}}
"""
PAGED = """module {
  func.func @rock_attention(%arg0: memref<2x3x8xf16>, %arg1: memref<6xi64>, %arg2: memref<6xi64>, %arg3: memref<2xi32>,
                            %arg4: memref<2x3x8xf16>) attributes {rock.kernel, mhal.arch = "gfx90a"} {
    %0 = rock.transform %arg1 by #table : memref<6xi64> to memref<1x6x1xi64>
    %1 = rock.transform %arg2 by #table : memref<6xi64> to memref<1x6x1xi64>
    %2 = rock.deref %0 : memref<1x6x1xi64> -> memref<1x6x16xf16>
    %3 = rock.deref %1 : memref<1x6x1xi64> -> memref<1x6x16xf16>
    %4 = rock.transform %2 by #pages : memref<1x6x16xf16> to memref<1x96xf16>
    %5 = rock.transform %4 by #heads : memref<1x96xf16> to memref<1x12x8xf16>
    %6 = rock.transform %3 by #pages : memref<1x6x16xf16> to memref<1x96xf16>
    %7 = rock.transform %6 by #heads : memref<1x96xf16> to memref<1x12x8xf16>
    rock.attention{
      qk = %arg0 * tr %5 : memref<2x3x8xf16>, memref<1x12x8xf16>
      keyAddresses = (%2 : memref<1x6x16xf16>)
      valueAddresses = (%3 : memref<1x6x16xf16>)
      currentSeqLen = (%arg3 : memref<2xi32>)
      slidingWindowSize = 4
      %arg4 = softmax(qk) * %7 : memref<1x12x8xf16> -> memref<2x3x8xf16>
    } {numHeadsKV = 1 : i32, numHeadsQ = 2 : i32, splitKV = 1 : i32, storeMethod = #rock<StoreMethod set>}
    return
  }
}
"""
TABLE = """#table = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0 * 6 + d1 + d2)> by
  [<Unmerge{1, 6, 1} ["b", "page", "one"] at [0, 1, 2] -> ["raw"] at [0]>] bounds = [1, 6, 1] -> [6]>
"""


def changed(text: str, *changes: tuple[str, str]) -> str:
    """The text with replacements, each of which must do something."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def attribute(text: str) -> tuple[str, str]:
    """A replacement that adds attributes to the attention."""
    return "numHeadsKV = 1 : i32", f"{text}, numHeadsKV = 1 : i32"


FUNCTION = f'rock.kernel, mhal.arch = "{ARCH}"'
VARIANTS: dict[str, str] = {
    "plain": ALIASES + PLAIN,
    "paged": ALIASES + TABLE + PAGED,
    "aliases after use": changed(PLAIN, ("#id", "#id")) + "#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>\n",
    "location aliases after use": changed(ALIASES + PLAIN, ("    return\n", "    return loc(#loc3)\n"))
    + '#loc = loc("k.mlir":1:2)\n#loc3 = loc("model"(#loc))\n',
    "locations": changed(
        ALIASES + PLAIN,
        ("    return\n", '    return loc(fused["a", "k.mlir":3:4])\n'),
        ("memref<2x3x8xf16> {mhal.write_access}", 'memref<2x3x8xf16> {mhal.write_access} loc("o")'),
    ),
    "no aliases": changed(PLAIN, ("#id", "affine_map<(d0, d1, d2) -> (d0, d1, d2)>")),
    "arch": changed(ALIASES + PLAIN, ("mhal.arch", "arch")),
    "rock.arch": changed(ALIASES + PLAIN, ("mhal.arch", "rock.arch")),
    "arch of the module": changed(
        ALIASES + PLAIN, (f', mhal.arch = "{ARCH}"', ""), ("module {", f'module attributes {{mhal.arch = "{ARCH}"}} {{')
    ),
    "kernel": changed(ALIASES + PLAIN, ("rock.kernel", "kernel")),
    "kernel with a number": changed(ALIASES + PLAIN, ("rock.kernel", "kernel = 0 : i32")),
    "rock.kernel with a name": changed(ALIASES + PLAIN, ("rock.kernel", 'rock.kernel = "mixr"')),
    "extra attributes": changed(
        ALIASES + PLAIN,
        (FUNCTION, f"{FUNCTION}, block_size = 64 : i32, grid_size = 3 : i32, num_cu = 104 : i64, original_func = @f"),
        attribute('features = #rock<GemmFeatures mfma|dot|atomic_add>, firstGemmIdx = 0 : i32, my.note = [1, "x"]'),
    ),
    "no features": changed(ALIASES + PLAIN, attribute("features = #rock<GemmFeatures none>")),
    "parameters of products": changed(
        ALIASES + PLAIN,
        attribute(
            "params0 = #rock.xdlops_gemm_derived_params<kpackPerBlock = 8, mPerBlock = 32, nPerBlock = 32, kpack = 8, "
            "mPerWave = 32, nPerWave = 32, mnPerXdl = 32, splitKFactor = 1, scheduleVersion = 1, outputSwizzle = 2, "
            "wavesPerEU = 0, gridGroupSize = 0, forceUnroll = true>, params1 = #rock.mfma_gemm_params<kpackPerBlock = 4, "
            "mPerBlock = 32, nPerBlock = 32, kpack = 8, mPerWave = 32, mnPerXdl = 32, splitKFactor = 1, forceUnroll = true>"
        ),
    ),
    "perf_config of the function": changed(
        ALIASES + PLAIN, (FUNCTION, f'{FUNCTION}, perf_config = "attn:v2:32,32,16,8,16,16,8,1,1,2,1"')
    ),
    "global memory named": re.sub(
        r"memref<([0-9x]+f16)>",
        r"memref<\1, #gpu.address_space<global>>",
        changed(ALIASES + PLAIN, (f"\n      qk = elementwise otherIns(%arg3 : memref<2x3x12xf16>) {REGION}", "")),
    ),
    "a region on workgroup memory": changed(
        ALIASES + PLAIN,
        (
            "%alloc = memref.alloc() {alignment = 64 : i64} : memref<2x3x12xf16>",
            "%alloc = memref.alloc() : memref<2x3x12xf16, #gpu.address_space<workgroup>>",
        ),
        ("outs(%alloc : memref<2x3x12xf16>)", "outs(%alloc : memref<2x3x12xf16, #gpu.address_space<workgroup>>)"),
        (
            "memref.copy %alloc, %arg7 : memref<2x3x12xf16> to",
            "memref.copy %alloc, %arg7 : memref<2x3x12xf16, #gpu.address_space<workgroup>> to",
        ),
    ),
}


@pytest.mark.parametrize("text", VARIANTS.values(), ids=VARIANTS.keys())
def test_text_of_rocmlir_is_taken(text: str) -> None:
    module = parse(text)
    assert arch_of(module)[0].name == "gfx90a"
    printed = print_module(module)
    assert print_module(parse(printed)) == printed
    report = run(module, level="all", check=True)
    assert report.ok, report.as_json()
    assert not [note for note in report.notes if "architecture" in note]
    assert compile(module, emit=["hip"]).arch == "gfx90a"


def generic(text: str) -> str:
    return print_module(parse(text), generic=True)


SEGMENTS = "array<i32: 1, 1, 1, 1, 0, 0, 1, 0, 0, 0>"
GENERIC: dict[str, str] = {
    "generic": generic(ALIASES + PLAIN),
    "generic, paged": generic(ALIASES + TABLE + PAGED),
    "segments from before paging": changed(generic(ALIASES + PLAIN), (SEGMENTS, SEGMENTS.replace(", 0, 0>", ">"))),
    "older name of the segments": changed(
        generic(ALIASES + PLAIN),
        (f"operandSegmentSizes = {SEGMENTS}", "operand_segment_sizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 0>"),
    ),
    "older name of the window": changed(
        generic(ALIASES + TABLE + PAGED), ("slidingWindowLookBack", "slidingWindowSize")
    ),
}


@pytest.mark.parametrize("text", GENERIC.values(), ids=GENERIC.keys())
def test_generic_text_is_taken(text: str) -> None:
    assert '"rock.attention"(' in text
    report = run(parse(text), level="all", check=True)
    assert report.ok, report.as_json()


def test_what_the_variants_say_is_the_same() -> None:
    def attention_of(module: ModuleOp) -> AttentionOp:
        return next(op for op in module.walk() if isinstance(op, AttentionOp))

    plain = attention_of(parse(VARIANTS["plain"]))
    for name in ("aliases after use", "no aliases", "locations", "kernel", "a region on workgroup memory"):
        assert attention_of(parse(VARIANTS[name])).is_structurally_equivalent(plain) or name, name
        body = attention_of(parse(VARIANTS[name])).preSoftmaxBody
        assert [op.name for op in body.block.ops] == [op.name for op in plain.preSoftmaxBody.block.ops]


def test_older_spellings_mean_the_same() -> None:
    new = changed(PAGED, ("currentSeqLen", "lastValidKVIndex"), ("slidingWindowSize", "slidingWindowLookBack"))
    assert print_module(parse(ALIASES + TABLE + new)) == print_module(parse(ALIASES + TABLE + PAGED))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("#id, #id, #id", "#id, #id, #ids", "did you mean '#id'?"),
        ("StoreMethod set", "StoreMethod atomic_add", "storeMethod must be set"),
        ("mhal.arch", "mhal.arc", ""),
    ],
)
def test_slips_are_told(old: str, new: str, message: str) -> None:
    text = changed(ALIASES + PLAIN, (old, new))
    if not message:
        assert run(parse(text), level="gridwise").notes  # nothing names an architecture then
        return
    with pytest.raises(XpagedError) as refusal:
        parse(text)
    assert message in refusal.value.render()
