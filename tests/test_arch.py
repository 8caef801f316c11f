"""The architecture table, and which architecture a module asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xpaged.arch import DEFAULT_ARCH, arch_name_of, arch_of, arch_of_function, archs, get_arch
from xpaged.arch.table import Arch, MatrixInstruction, instruction_named, instruction_names
from xpaged.errors import XpagedError
from xpaged.ir.parsing import parse

ALL = [(arch, instruction) for arch in archs().values() for instruction in arch.matrix]


CDNA = ["gfx908", "gfx90a", "gfx942", "gfx950"]
RDNA3 = ["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152"]
RDNA4 = ["gfx1200", "gfx1201"]


def test_the_architectures() -> None:
    assert list(archs()) == [*CDNA, *RDNA3, *RDNA4]
    assert DEFAULT_ARCH == "gfx942"
    for arch in archs().values():
        cdna = arch.name in CDNA
        assert (arch.wave_size, arch.max_workgroup) == (64 if cdna else 32, 1024)
        assert arch.vgprs == (512 if arch.name in CDNA[1:] else 256)
        assert arch.lds_bytes == (163840 if arch.name == "gfx950" else 65536)


@pytest.mark.parametrize(("arch", "instruction"), ALL, ids=[f"{a.name} {i.name}" for a, i in ALL])
def test_an_instruction_fills_the_lanes_of_a_wave(arch: Arch, instruction: MatrixInstruction) -> None:
    i = instruction
    assert i.m * i.k * i.copies == arch.wave_size * i.elements == i.k * i.n * i.copies
    assert i.m * i.n == arch.wave_size * i.registers
    assert (i.lanes, i.operand_groups * i.copies, i.result_groups) == (arch.wave_size, *[arch.wave_size // i.m] * 2)
    kind = "mfma" if arch.name in CDNA else "wmma"
    name = f"{kind}_{i.accumulator}_{i.m}x{i.n}x{i.k}_{i.operand}"
    assert i.name == name + ("_gfx12" if arch.name in RDNA4 else "")
    assert i.builtin.startswith(f"__builtin_amdgcn_{kind}_{i.accumulator}_{i.m}x{i.n}x{i.k}")
    assert i.accumulator == ("i32" if i.operand == "i8" else "f32")
    assert i.clocks >= 8
    assert arch.instruction(i.name) is i
    same = instruction_named(i.name)
    assert same is not None
    assert replace(same, clocks=i.clocks) == i  # one name is one layout
    assert i.name in instruction_names()


@pytest.mark.parametrize(("arch", "instruction"), ALL, ids=[f"{a.name} {i.name}" for a, i in ALL])
def test_where_the_elements_of_a_product_lie(arch: Arch, instruction: MatrixInstruction) -> None:
    i = instruction
    for lane in range(arch.wave_size):
        group = lane // i.m
        for e in range(i.elements):
            index = e if arch.name in RDNA3 else i.elements * group + e
            assert i.operand_place(lane, e) == (lane % i.m, index)
        for r in range(i.registers):
            if i.m == 32:
                row = 8 * (r // 4) + 4 * group + r % 4
            else:
                row = 2 * r + group if arch.name in RDNA3 else (4 if arch.name in CDNA else 8) * group + r
            assert i.result_place(lane, r) == (row, lane % i.n)


FIRST = {  # the instruction that is preferred, and the one for 16 indices
    **{("gfx908", t): [f"mfma_f32_16x16x{k}_{t}"] * 2 for t, k in (("f16", 16), ("bf16", 8), ("f32", 4))},
    **{("gfx90a", t): [f"mfma_f32_16x16x{k}_{t}"] * 2 for t, k in (("f16", 16), ("bf16", 16), ("f32", 4))},
    **{("gfx942", t): [f"mfma_f32_16x16x{k}_{t}"] * 2 for t, k in (("f16", 16), ("bf16", 16), ("f32", 4))},
    **{("gfx950", t): [f"mfma_f32_16x16x32_{t}", f"mfma_f32_16x16x16_{t}"] for t in ("f16", "bf16")},
    **{(a, "i8"): ["mfma_i32_16x16x16_i8"] * 2 for a in ("gfx908", "gfx90a")},
    **{("gfx1100", t): [f"wmma_f32_16x16x16_{t}"] * 2 for t in ("f16", "bf16")},
    **{("gfx1201", t): [f"wmma_f32_16x16x16_{t}_gfx12"] * 2 for t in ("f16", "bf16")},
}


@pytest.mark.parametrize(("name", "operand"), FIRST)
def test_the_instruction_of_a_type(name: str, operand: str) -> None:
    arch = get_arch(name)
    assert [arch.matrix_instruction(operand, n).name for n in (0, 16)] == FIRST[name, operand]
    assert arch.reduction_step(operand) == min(arch.matrix_instruction(operand, n).k for n in (0, 16))


def test_types_and_names_without_an_instruction_are_refused() -> None:
    with pytest.raises(XpagedError, match="gfx90a has no matrix instruction for f64 operands") as error:
        get_arch("gfx90a").matrix_instruction("f64")
    assert (error.value.found, error.value.expected) == ("f64", "f16 or bf16 or i8 or f32")
    with pytest.raises(XpagedError, match="gfx1100 has no matrix instruction for f32 operands"):
        get_arch("gfx1100").reduction_step("f32")
    with pytest.raises(XpagedError, match="no matrix instruction that multiplies 48 channels or keys of i8") as error:
        get_arch("gfx942").matrix_instruction("i8", 48)
    assert (error.value.found, error.value.expected) == ("48", "a multiple of 32")
    with pytest.raises(XpagedError, match="gfx942 has no matrix instruction mfma_f32_32x32x16_f16") as error:
        get_arch("gfx942").instruction("mfma_f32_32x32x16_f16")
    assert error.value.expected is not None
    assert "mfma_f32_16x16x16_f16" in error.value.expected
    assert instruction_named("mfma_f32_32x32x16_f16") is None


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
        ("gfx940", "gfx940 is not supported yet", "choose one of these with --arch"),
        ("amdgcn-amd-amdhsa:gfx1250", "gfx1250 is not supported yet", "choose one of these with --arch"),
        ("gfx1109", "unknown architecture 'gfx1109'", "did you mean 'gfx1103'?"),
        ("gfx906", "gfx906 has no matrix instructions", "choose one of these with --arch"),
        ("amdgcn-amd-amdhsa:gfx1030", "gfx1030 has no matrix instructions", "choose one of these with --arch"),
    ],
)
def test_other_names_are_refused(name: str, what: str, fix: str) -> None:
    with pytest.raises(XpagedError, match=what) as error:
        get_arch(name)
    assert error.value.expected == ", ".join(archs())
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
