"""Code objects for every architecture: they fit its registers and LDS, and hold its matrix instructions."""

from typing import Any

import pytest

import xpaged
from xpaged.arch import archs, get_arch
from xpaged.codegen.code_object import KernelInfo, matrix_instructions, read_code_object

DECODE: dict[str, Any] = {"heads_q": 8, "heads_kv": 2, "seq_q": 1, "seq_k": 512, "page_tokens": 16, "kv_index": True}
PREFILL: dict[str, Any] = {"heads_q": 4, "heads_kv": 4, "seq_q": 256, "seq_k": 256, "page_tokens": 16, "causal": True}


def compiled(arch: str, **sizes: Any) -> tuple[str, KernelInfo]:
    """The assembly text and the figures of a kernel; scratch and spills are refused on the way."""
    made = xpaged.compile(xpaged.attention(**sizes), arch, emit=("asm", "object"), toolchain="bundled")
    (kernel,) = read_code_object(made.object or b"").kernels
    return made.asm or "", kernel


def check(arch: str, **sizes: Any) -> None:
    """Compile one kernel and look at what came out."""
    asm, kernel = compiled(arch, **sizes)
    limits = get_arch(arch)
    assert matrix_instructions(asm) > 0
    assert (kernel.scratch, kernel.wave_size) == (0, limits.wave_size)
    assert kernel.lds <= limits.lds_bytes
    assert kernel.vgprs <= limits.vgprs


MATRIX = {
    "gfx908": ("v_mfma_f32_16x16x8bf16", "v_mfma_i32_16x16x16i8"),
    "gfx90a": ("v_mfma_f32_16x16x16bf16_1k", "v_mfma_i32_16x16x16i8"),
    "gfx942": ("v_mfma_f32_16x16x16_bf16", "v_mfma_i32_16x16x32_i8"),
    "gfx950": ("v_mfma_f32_16x16x32_bf16", "v_mfma_i32_16x16x64_i8"),
    "gfx1100": ("v_wmma_f32_16x16x16_bf16", "v_wmma_i32_16x16x16_iu8"),
    "gfx1201": ("v_wmma_f32_16x16x16_bf16", "v_wmma_i32_16x16x16_iu8"),
}


@pytest.mark.parametrize("arch", MATRIX)
def test_both_products_are_matrix_instructions(arch: str) -> None:
    """i8 scores and bf16 values: the second product is that of bf16."""
    asm, kernel = compiled(arch, **DECODE, dim_qk=64, dtype="i8", value_dtype="bf16")
    assert all(name in asm for name in MATRIX[arch])
    assert ("v_cvt_pk_bf16_f32" in asm) == get_arch(arch).converts_bf16
    assert (kernel.scratch, kernel.wave_size) == (0, get_arch(arch).wave_size)


@pytest.mark.parametrize(("arch", "dtype"), [("gfx1100", "f16"), ("gfx950", "f16"), ("gfx90a", "bf16")])
def test_a_prefill_kernel_fits(arch: str, dtype: str) -> None:
    check(arch, **PREFILL, dim_qk=128, dtype=dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dims", [(64, 64), (80, 80), (128, 128), (192, 128), (256, 256)])
@pytest.mark.parametrize("arch", archs())
def test_every_kernel_fits(arch: str, dims: tuple[int, int]) -> None:
    for dtype in ("f16", "bf16", "i8", "f32"):
        if dtype in {i.operand for i in get_arch(arch).matrix}:
            for sizes in (DECODE, PREFILL):
                check(arch, **sizes, dim_qk=dims[0], dim_v=dims[1], dtype=dtype)
