"""From a module to files: the results, the gate, and nothing half-written."""

import errno
import json
import os
from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from xpaged.arch.table import Arch, get_arch
from xpaged.codegen import hip_printer
from xpaged.codegen.code_object import matrix_instructions, read_code_object
from xpaged.codegen.toolchain import Compiled, Compiler
from xpaged.driver import Kernel, check, compile, write_kernels
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level, level_of
from xpaged.ir.parsing import parse

MODULE = """
func.func @product(%a: memref<256xf16>, %b: memref<256xf16>, %d: memref<256xf32> {rock.output = 0 : i32})
    attributes {rock.kernel, arch = "gfx942", rock.grid_size = 1 : i64, rock.block_size = 64 : i64,
                rock.lds_bytes = 512 : i64} {
  %lane = hip.lane_id : i32
  func.return
}
"""

Prints = Callable[[str], None]


@pytest.fixture
def module() -> ModuleOp:
    """A device-level function with the signature of the kernel in `mfma_text`."""
    return parse(MODULE)


@pytest.fixture
def prints(monkeypatch: pytest.MonkeyPatch, mfma_text: str) -> Prints:
    """Lets a test choose the text that is printed for the module: the hand-written kernel by default."""

    def choose(text: str) -> None:
        def print_text(module: ModuleOp, arch: Arch) -> str:
            return text

        monkeypatch.setattr(hip_printer, "print_hip", print_text)

    choose(mfma_text)
    return choose


def test_one_arch_gives_one_kernel(module: ModuleOp, prints: Prints, mfma_text: str) -> None:
    kernel = compile(module, "gfx942", emit=("hip", "asm", "object"), toolchain="bundled")
    assert (kernel.name, kernel.arch, kernel.hip, kernel.mlir) == ("product", "gfx942", mfma_text, None)
    assert kernel.asm is not None
    assert matrix_instructions(kernel.asm) == 1
    assert kernel.object is not None
    assert read_code_object(kernel.object).arch == "gfx942"
    assert kernel.launch is not None
    assert kernel.launch.launches[0].object == "product.gfx942.hsaco"
    assert any("gfx942 was compiled by bundled clang" in note for note in kernel.notes)


def test_several_archs_give_a_list_in_order(module: ModuleOp, prints: Prints) -> None:
    kernels = compile(module, ["gfx942", "gfx90a"], toolchain="bundled")
    assert [kernel.arch for kernel in kernels] == ["gfx942", "gfx90a"]
    assert [read_code_object(kernel.object or b"").arch for kernel in kernels] == ["gfx942", "gfx90a"]
    assert len(compile(module, ["gfx90a"], toolchain="bundled")) == 1


def test_without_an_arch_the_modules_own_is_taken(prints: Prints) -> None:
    assert compile(parse(MODULE.replace("gfx942", "gfx90a")), emit=["hip"]).arch == "gfx90a"


def test_the_module_stays_as_it_is(module: ModuleOp, prints: Prints) -> None:
    before = module.clone()
    compile(module, "gfx90a", emit=["hip"])
    assert module.is_structurally_equivalent(before)


def test_text_alone_needs_no_compiler(
    module: ModuleOp, prints: Prints, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(import_module("xpaged.driver"), "compile_text", None)
    kernel = compile(module, "gfx942", emit=["hip"])
    assert (kernel.asm, kernel.object) == (None, None)
    assert [path.name for path in kernel.write_outputs(tmp_path)] == [
        "product.gfx942.hip",
        "product.gfx942.launch.json",
    ]


def test_stopping_at_a_level_gives_its_mlir(module: ModuleOp, tmp_path: Path) -> None:
    kernel = compile(module, "gfx90a", to=Level.DEVICE)
    assert kernel.mlir is not None
    assert level_names(kernel.mlir) == "hip.lane_id"
    assert 'arch = "gfx90a"' in kernel.mlir
    assert (kernel.hip, kernel.object, kernel.launch) == (None, None, None)
    (path,) = kernel.write_outputs(tmp_path)
    assert path.name == "product.gfx90a.device.mlir"
    assert path.read_text() == kernel.mlir


def level_names(text: str) -> str:
    """The name of the one operation inside the function, from the text read back."""
    names = [op.name for op in parse(text).walk() if op.name.startswith("hip.")]
    return ", ".join(names)


def test_a_level_that_lies_behind_is_refused(module: ModuleOp) -> None:
    with pytest.raises(XpagedError, match="past rock"):
        compile(module, "gfx942", to=Level.ROCK)


@pytest.mark.parametrize(
    ("emit", "message"), [((), "nothing to make"), (("hip", "asn"), "did you mean 'asm'"), (("",), "unknown output")]
)
def test_unknown_outputs_are_refused(module: ModuleOp, emit: tuple[str, ...], message: str) -> None:
    with pytest.raises(XpagedError, match=message):
        compile(module, "gfx942", emit=emit)


def test_no_arch_at_all_is_refused(module: ModuleOp) -> None:
    with pytest.raises(XpagedError, match="no architecture"):
        compile(module, [])


def test_a_module_without_functions_is_refused() -> None:
    with pytest.raises(XpagedError, match="no function to compile"):
        compile(parse("module {}"), "gfx942", to=Level.DEVICE)


def test_the_kernel_is_what_the_files_are_named_after(prints: Prints) -> None:
    helper = "func.func @helper() {\n  func.return\n}\n"
    assert compile(parse(helper + MODULE), "gfx942", emit=["hip"]).name == "product"


# ---- a real kernel ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def decode() -> ModuleOp:
    """The decode example, a graph at level migraphx."""
    return parse((files("xpaged.examples") / "decode.mlir").read_text())


def test_an_example_becomes_checked_objects(decode: ModuleOp) -> None:
    for made in compile(decode, ["gfx942", "gfx90a"], emit=("hip", "asm", "object"), toolchain="bundled"):
        assert made.asm is not None
        assert matrix_instructions(made.asm) > 0
        (kernel,) = read_code_object(made.object or b"").kernels
        assert (kernel.name, kernel.scratch) == (made.name, 0)
        assert made.launch is not None
        assert {b.kind for b in made.launch.buffers} == {"buffer", "page_table"}
        assert [b.name for b in made.launch.buffers if b.access == "write"] == ["out"]


def test_every_compiler_takes_an_example_without_a_warning(decode: ModuleOp, every_compiler: Compiler) -> None:
    made = compile(decode, "gfx90a", toolchain=every_compiler.kind)
    notes = [note for note in made.notes if "compiled by" in note]
    assert notes == [f"gfx90a was compiled by {every_compiler.name}"]
    assert every_compiler.compile(made.hip or "", "gfx90a", frozenset({"asm"})).warnings == ""


@pytest.mark.parametrize("level", [Level.TOSA, Level.ROCK, Level.GRIDWISE, Level.TILE])
def test_an_example_stops_at_each_level(decode: ModuleOp, level: Level) -> None:
    made = compile(decode, "gfx942", to=level)
    assert level_of(parse(made.mlir or "")) is level


# ---- the gate ---------------------------------------------------------------------------------------------------


def test_scratch_fails_the_gate(module: ModuleOp, prints: Prints, scratch_text: str) -> None:
    prints(scratch_text)
    with pytest.raises(XpagedError, match="does not fit in registers"):
        compile(module, "gfx942", toolchain="bundled")


def test_auto_tries_every_compiler_before_it_refuses(module: ModuleOp, prints: Prints, scratch_text: str) -> None:
    prints(scratch_text)
    with pytest.raises(XpagedError, match="does not fit in registers"):
        compile(module, "gfx90a")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rock.lds_bytes = 512", "rock.lds_bytes = 1024", "bytes of LDS"),
        ("rock.block_size = 64", "rock.block_size = 256", "lanes in a workgroup"),
        ("%b: memref<256xf16>", "%b: memref<256xf16>, %n: i32", "places of the arguments"),
        ("@product", "@another", "no kernel 'another'"),
    ],
)
def test_an_object_unlike_its_description_fails_the_gate(prints: Prints, old: str, new: str, message: str) -> None:
    with pytest.raises(XpagedError, match=message):
        compile(parse(MODULE.replace(old, new)), "gfx942", toolchain="bundled")


def test_an_object_for_another_arch_fails_the_gate(module: ModuleOp, prints: Prints) -> None:
    kernel = compile(module, "gfx942", toolchain="bundled")
    assert kernel.launch is not None
    made = Compiled(None, kernel.object, "")
    check(made, kernel.launch, get_arch("gfx942"))
    with pytest.raises(XpagedError, match="another kind of code object"):
        check(made, kernel.launch, get_arch("gfx90a"))


# ---- files ------------------------------------------------------------------------------------------------------


def kernel(name: str = "k", arch: str = "gfx942") -> Kernel:
    """A kernel that was made by hand."""
    return Kernel(name, arch, frozenset({"hip", "object"}), hip="// text\n", object=b"\x7fELF")


def test_files_are_written_under_their_names(module: ModuleOp, prints: Prints, tmp_path: Path) -> None:
    made = compile(module, "gfx942", emit=("hip", "asm", "object"), toolchain="bundled")
    paths = made.write_outputs(tmp_path / "new" / "folder")
    assert sorted(path.name for path in paths) == [
        "product.gfx942.hip",
        "product.gfx942.hsaco",
        "product.gfx942.launch.json",
        "product.gfx942.s",
    ]
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == sorted(p.name for p in paths)
    contents = {path.suffix: path.read_bytes() for path in paths}
    assert contents[".hsaco"] == made.object
    assert contents[".hip"].decode() == made.hip
    assert json.loads(contents[".json"])["launches"][0]["object"] == "product.gfx942.hsaco"


def test_files_of_several_archs_stand_side_by_side(tmp_path: Path) -> None:
    paths = write_kernels([kernel(), kernel(arch="gfx90a")], tmp_path)
    assert [path.name for path in paths] == ["k.gfx942.hip", "k.gfx942.hsaco", "k.gfx90a.hip", "k.gfx90a.hsaco"]


def test_existing_files_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "k.gfx942.hip").write_text("old")
    kernel().write_outputs(tmp_path)
    assert (tmp_path / "k.gfx942.hip").read_text() == "// text\n"


def test_a_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    paths = kernel("../../k/%").write_outputs(tmp_path / "out")
    assert {path.parent for path in paths} == {tmp_path / "out"}
    assert paths[0].name == "______k__.gfx942.hip"


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name.endswith(".hsaco"):
            write(path, data[:1])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    for folder in (tmp_path, tmp_path / "new"):
        with pytest.raises(XpagedError, match="No space left on device"):
            kernel().write_outputs(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
def test_a_move_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    replace = os.replace

    def fail(source: Path, target: Path) -> None:
        if target.name.endswith(".hsaco"):
            raise error
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises((XpagedError, KeyboardInterrupt)):
        kernel().write_outputs(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(XpagedError, match="cannot write to"):
        kernel().write_outputs(tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"
