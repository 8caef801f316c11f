"""The architecture table, and which architecture a module asks for."""

from __future__ import annotations

import pytest

from xpaged.arch import DEFAULT_ARCH, arch_name_of, arch_of, arch_of_function, archs, get_arch
from xpaged.arch.table import Arch, MatrixInstruction, instruction_named, instruction_names
from xpaged.errors import XpagedError
from xpaged.ir.parsing import parse

ALL = [(arch, instruction) for arch in archs().values() for instruction in arch.matrix]


def test_the_architectures() -> None:
    assert sorted(archs()) == ["gfx90a", "gfx942"]
    assert DEFAULT_ARCH == "gfx942"
    for arch in archs().values():
        assert (arch.wave_size, arch.lds_bytes, arch.vgprs, arch.max_workgroup) == (64, 65536, 512, 1024)


@pytest.mark.parametrize(("arch", "instruction"), ALL, ids=[f"{a.name} {i.name}" for a, i in ALL])
def test_an_instruction_fills_the_lanes_of_a_wave(arch: Arch, instruction: MatrixInstruction) -> None:
    i = instruction
    assert i.m * i.k == arch.wave_size * i.elements == i.k * i.n
    assert i.m * i.n == arch.wave_size * i.registers
    assert i.name == f"mfma_{i.accumulator}_{i.m}x{i.n}x{i.k}_{i.operand}"
    assert i.builtin.startswith("__builtin_amdgcn_mfma_f32_16x16x")
    assert i.clocks >= 8
    assert arch.instruction(i.name) is i
    assert instruction_named(i.name) is not None
    assert i.name in instruction_names()


@pytest.mark.parametrize(("arch", "instruction"), ALL, ids=[f"{a.name} {i.name}" for a, i in ALL])
def test_where_the_elements_of_a_product_lie(arch: Arch, instruction: MatrixInstruction) -> None:
    i = instruction
    for lane in range(arch.wave_size):
        for e in range(i.elements):
            assert i.operand_place(lane, e) == (lane % 16, i.elements * (lane // 16) + e)
        for r in range(i.registers):
            assert i.result_place(lane, r) == (4 * (lane // 16) + r, lane % 16)


@pytest.mark.parametrize(
    ("operand", "name"),
    [("f16", "mfma_f32_16x16x16_f16"), ("bf16", "mfma_f32_16x16x16_bf16"), ("f32", "mfma_f32_16x16x4_f32")],
)
def test_the_instruction_of_a_type(operand: str, name: str) -> None:
    assert [arch.matrix_instruction(operand).name for arch in archs().values()] == [name, name]


def test_types_and_names_without_an_instruction_are_refused() -> None:
    with pytest.raises(XpagedError, match="gfx90a has no matrix instruction for i8 operands") as error:
        get_arch("gfx90a").matrix_instruction("i8")
    assert (error.value.found, error.value.expected) == ("i8", "f16 or bf16 or f32")
    with pytest.raises(XpagedError, match="gfx942 has no matrix instruction mfma_f32_32x32x8_f16") as error:
        get_arch("gfx942").instruction("mfma_f32_32x32x8_f16")
    assert error.value.expected is not None
    assert "mfma_f32_16x16x16_f16" in error.value.expected
    assert instruction_named("mfma_f32_32x32x8_f16") is None


@pytest.mark.parametrize(
    "name",
    [
        "gfx942",
        " gfx942 ",
        "gfx942:sramecc+:xnack-",
        "amdgcn-amd-amdhsa:gfx942",
        "amdgcn-amd-amdhsa:gfx942:sramecc+:xnack-",
        "amdgcn-amd-amdhsa--gfx942",
        "amdgcn-amd-amdhsa--gfx942:xnack-",
    ],
)
def test_full_targets_are_taken(name: str) -> None:
    assert get_arch(name).name == "gfx942"


@pytest.mark.parametrize(
    ("name", "what", "fix"),
    [
        ("gfx943", "unknown architecture 'gfx943'", "did you mean 'gfx942'?"),
        ("gfx90b", "unknown architecture 'gfx90b'", "did you mean 'gfx90a'?"),
        ("amdgcn-amd-amdhsa:gfx90:xnack-", "unknown architecture 'gfx90'", "did you mean 'gfx90a'?"),
        ("sm_90", "unknown architecture 'sm_90'", "choose one of these with --arch"),
        ("", "unknown architecture ''", "choose one of these with --arch"),
        (":", "unknown architecture ':'", "choose one of these with --arch"),
        ("gfx950", "gfx950 is not supported yet", "choose one of these with --arch"),
        ("amdgcn-amd-amdhsa:gfx1200", "gfx1200 is not supported yet", "choose one of these with --arch"),
        ("gfx906", "gfx906 has no matrix instructions", "choose one of these with --arch"),
        ("amdgcn-amd-amdhsa:gfx1030", "gfx1030 has no matrix instructions", "choose one of these with --arch"),
    ],
)
def test_other_names_are_refused(name: str, what: str, fix: str) -> None:
    with pytest.raises(XpagedError, match=what) as error:
        get_arch(name)
    assert error.value.expected == "gfx90a, gfx942"
    assert error.value.fix == fix
    assert error.value.found == name


def module(on_module: str = "", on_function: str = "") -> str:
    attributes = [f" attributes {{{text}}}" if text else "" for text in (on_module, on_function)]
    return f"builtin.module{attributes[0]} {{ func.func @f(){attributes[1]} {{ return }} }}"


@pytest.mark.parametrize(
    ("on_module", "on_function", "name"),
    [
        ("", "", None),
        ("", 'arch = "gfx90a"', "gfx90a"),
        ("", 'mhal.arch = "amdgcn-amd-amdhsa:gfx90a"', "amdgcn-amd-amdhsa:gfx90a"),
        ('arch = "gfx90a"', "", "gfx90a"),
        ('mhal.arch = "gfx90a"', "", "gfx90a"),
        ('arch = "gfx942"', 'arch = "gfx90a"', "gfx90a"),  # for the kernel
        ("arch = 3 : i32", "", None),
    ],
)
def test_the_architecture_of_a_kernel(on_module: str, on_function: str, name: str | None) -> None:
    parsed = parse(module(on_module, on_function))
    (function,) = parsed.ops
    assert arch_name_of(function) == name
    assert arch_of_function(function).name == ("gfx942" if name is None else "gfx90a")


def test_the_command_line_comes_first_and_a_default_is_told() -> None:
    named, unnamed = parse(module("", 'arch = "gfx90a"')), parse(module())
    assert arch_of(named, "gfx942") == (get_arch("gfx942"), [])
    assert arch_of(named) == (get_arch("gfx90a"), [])
    arch, notes = arch_of(unnamed)
    assert arch.name == DEFAULT_ARCH
    assert notes == ["the module names no architecture: taking gfx942 (change it with --arch)"]
    with pytest.raises(XpagedError, match="unknown architecture"):
        arch_of(unnamed, "gfx9")
