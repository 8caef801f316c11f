"""Reading code objects: what the compiler used, and refusing what is no code object."""

import sys
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xpaged.codegen.code_object import KernelArgument, KernelInfo, matrix_instructions, read_code_object
from xpaged.codegen.toolchain import Compiler, find
from xpaged.errors import XpagedError


@pytest.fixture(scope="module")
def tiny_object() -> bytes:
    """A code object of one small kernel."""
    bundled = next(find("bundled"))
    assert isinstance(bundled, Compiler)
    text = 'extern "C" __attribute__((global)) void k(int* x) { *x = 1; }'
    made = bundled.compile(text, "gfx942", frozenset({"object"}))
    assert made.object is not None
    return made.object


def info(**changes: int) -> KernelInfo:
    """A kernel that fits, with some of its figures changed."""
    kernel = KernelInfo("k", 64, 0, 32, 0, 0, 0, 512, 256, 64, 8, (KernelArgument(0, 8, "global_buffer"),))
    return replace(kernel, **changes)


def test_figures_of_a_kernel(every_compiler: Compiler, mfma_text: str) -> None:
    made = every_compiler.compile(mfma_text, "gfx90a", frozenset({"object"}))
    assert made.object is not None
    kernel = read_code_object(made.object).kernel("product")
    assert (kernel.lds, kernel.scratch, kernel.vgpr_spills, kernel.sgpr_spills) == (512, 0, 0, 0)
    assert (kernel.max_workgroup, kernel.wave_size, kernel.kernarg_bytes) == (64, 64, 24)
    assert [(a.offset, a.size) for a in kernel.arguments] == [(0, 8), (8, 8), (16, 8)]
    assert {a.kind for a in kernel.arguments} == {"global_buffer"}
    assert 6 <= kernel.vgprs < 64
    assert 0 < kernel.sgprs < 64
    kernel.check_memory(512)


def test_scratch_is_seen_and_refused(every_compiler: Compiler, scratch_text: str) -> None:
    made = every_compiler.compile(scratch_text, "gfx90a", frozenset({"object"}))
    assert made.object is not None
    kernel = read_code_object(made.object).kernel("product")
    assert kernel.scratch >= 128
    with pytest.raises(XpagedError, match=f"{kernel.scratch} bytes of scratch"):
        kernel.check_memory(65536)


@pytest.mark.parametrize("figure", ["scratch", "vgpr_spills", "sgpr_spills"])
def test_each_kind_of_spill_is_refused(figure: str) -> None:
    with pytest.raises(XpagedError, match="does not fit in registers"):
        info(**{figure: 4}).check_memory(65536)


def test_too_much_lds_is_refused() -> None:
    info(lds=65536).check_memory(65536)
    with pytest.raises(XpagedError, match="more LDS") as caught:
        info(lds=65540).check_memory(65536)
    assert (caught.value.found, caught.value.expected) == ("65540 bytes", "at most 65536 bytes")


def test_kernels_keep_the_order_of_the_text(bundled: Compiler, mfma_text: str) -> None:
    second = mfma_text.split("extern", 1)[1].replace("product", "another")
    made = bundled.compile(mfma_text + "extern" + second, "gfx942", frozenset({"object"}))
    assert made.object is not None
    code = read_code_object(made.object)
    assert [k.name for k in code.kernels] == ["product", "another"]
    with pytest.raises(XpagedError, match="no kernel 'third'"):
        code.kernel("third")


def test_matrix_instructions_are_counted() -> None:
    asm = """
    v_mfma_f32_16x16x16_f16 v[2:5], v[2:3], v[4:5], 0
    v_mfma_f32_16x16x16_f16 a[0:3], v[2:3], v[4:5], a[0:3] ; v_mfma_ in a comment
    v_smfmac_f32_16x16x32_f16 v[2:5], v[2:3], v[4:7], v1
    v_wmma_f32_16x16x16_f16 v[2:5], v[2:3], v[4:5], 0
    v_fma_f32 v0, v1, v2, v3
    ; v_mfma_f32_4x4x4_f16
    """
    assert matrix_instructions(asm) == 4
    assert matrix_instructions("v_mfma_f32_label:") == 0


def test_what_is_no_code_object_is_refused() -> None:
    with open(sys.executable, "rb") as file:
        program = file.read()
    for data in (b"", b"text", b"\x7fELF", program):
        with pytest.raises(XpagedError):
            read_code_object(data)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=8), st.floats(0, 2))
def test_damage_never_shows_a_traceback(tiny_object: bytes, at: float, noise: bytes, length: float) -> None:
    start = int(at * len(tiny_object))
    damaged = tiny_object[:start] + noise + tiny_object[start + len(noise) :]
    with suppress(XpagedError):
        read_code_object(damaged[: int(length * len(damaged))])


@pytest.mark.parametrize(("old", "new"), [(b"amdhsa.target", b"amdhsa.TARGET"), (b".vgpr_count", b".VGPR_count")])
def test_metadata_that_lacks_a_field_is_refused(tiny_object: bytes, old: bytes, new: bytes) -> None:
    assert old in tiny_object
    with pytest.raises(XpagedError, match="no readable code object"):
        read_code_object(tiny_object.replace(old, new))


def test_the_readers_are_asked_for_when_missing(tiny_object: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(XpagedError, match=r"pip install 'xpaged\[toolchain\]'"):
        read_code_object(tiny_object)
