"""From a module to files: lower, print HIP text, compile it, check the object, write everything or nothing."""

import os
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args, overload

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from xpaged.codegen.code_object import read_code_object
from xpaged.codegen.launch import LaunchDescription, describe_launches
from xpaged.codegen.toolchain import CODE_OBJECT_VERSION, Compiled, Want, compile_text, prepare
from xpaged.errors import XpagedError, did_you_mean
from xpaged.files import write_files
from xpaged.ir.levels import Level
from xpaged.lowering.kernel import kernels_of, program_name

if TYPE_CHECKING:
    from xpaged.arch.table import Arch
    from xpaged.card.figures import Card
    from xpaged.lowering.work import Work

Emit = Literal["hip", "asm", "object", "card", "harness"]

EMITS: tuple[Emit, ...] = get_args(Emit)
"""What `compile` can write beside the launch description."""

DEFAULT_EMIT: tuple[Emit, ...] = ("hip", "object")


@dataclass(frozen=True)
class Kernel:
    """
    The result of a compilation for one architecture.

    `hip` is the text and `launch` how to launch it; `asm`, `object` (a bare ELF) and `card` (the static performance
    card) are None unless they were asked for. When compilation stopped at a level `to`, only `mlir`, the text of that
    level, is there. `notes` tell what was decided on the way: the architecture, the compiler and why others were
    passed over.
    """

    name: str
    arch: str
    emit: frozenset[Emit]
    hip: str | None = None
    asm: str | None = None
    object: bytes | None = None
    launch: LaunchDescription | None = None
    card: "Card | None" = None
    harness: str | None = None
    mlir: str | None = None
    level: Level = Level.HOST
    notes: tuple[str, ...] = ()

    def files(self) -> dict[str, bytes]:
        """
        The files of this kernel by name: `<kernel>.<arch>.hip`, `.s`, `.hsaco`, `.card.json`, `.harness.cpp` as asked
        for, and `.launch.json`.
        """
        texts = {
            f".{self.level.value}.mlir": self.mlir,
            ".hip": self.hip if "hip" in self.emit else None,
            ".s": self.asm,
            ".card.json": self.card.to_json() if self.card is not None else None,
            ".harness.cpp": self.harness,
            ".launch.json": self.launch.to_json() if self.launch is not None else None,
        }
        files = {_stem(self.name, self.arch) + end: text.encode() for end, text in texts.items() if text is not None}
        if self.object is not None:
            files[_object_name(self.name, self.arch)] = self.object
        return files

    def write_outputs(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the files into `folder` (made when missing), all of them or none; returns their paths."""
        return write_kernels((self,), folder)


@overload
def compile(
    module: ModuleOp,
    arch: str | None = None,
    *,
    emit: Iterable[str] = DEFAULT_EMIT,
    to: Level | None = None,
    toolchain: str = "auto",
) -> Kernel: ...


@overload
def compile(
    module: ModuleOp,
    arch: Sequence[str],
    *,
    emit: Iterable[str] = DEFAULT_EMIT,
    to: Level | None = None,
    toolchain: str = "auto",
) -> list[Kernel]: ...


def compile(
    module: ModuleOp,
    arch: str | Sequence[str] | None = None,
    *,
    emit: Iterable[str] = DEFAULT_EMIT,
    to: Level | None = None,
    toolchain: str = "auto",
) -> Kernel | list[Kernel]:
    """
    Compile a module of any level for `arch`: one name gives a Kernel, a sequence of names a list of them.

    Without `arch` the module's own is taken, else the default one with a note. `emit` names what is made (`hip`,
    `asm`, `object`, `card`, `harness`); with `to`, lowering stops there and only that level's MLIR is made. `toolchain`
    is `auto`, `hipcc`, `clang` or `bundled`. `module` itself stays as it is.

    Raises XpagedError when the module is refused by a pass, when no compiler takes the text, and when the object has
    scratch or spilled registers, too much LDS, or differs from its launch description.
    """
    wanted = _wanted(emit)
    names: Sequence[str | None] = [arch] if arch is None or isinstance(arch, str) else arch
    if not names:
        raise XpagedError("no architecture to compile for", fix="name one with --arch")
    with ThreadPoolExecutor(max_workers=len(names) + 1) as pool:
        if to is None and not wanted.isdisjoint(("asm", "object", "card")):
            pool.submit(prepare, toolchain)
        jobs = [pool.submit(_build, *_lower(module, name, wanted, to), toolchain) for name in names]
        kernels = [job.result() for job in jobs]
    return kernels if arch is not None and not isinstance(arch, str) else kernels[0]


def write_kernels(kernels: Iterable[Kernel], folder: str | os.PathLike[str]) -> list[Path]:
    """
    Write the files of all `kernels` into `folder` (made when missing) and return their paths.

    Everything is written beside its place first and then moved, so that a full disk or an interrupt leaves no partial
    file. Raises XpagedError when the folder cannot be written.
    """
    files: dict[str, bytes] = {}
    for kernel in kernels:
        files |= kernel.files()
    paths = {Path(folder) / name: data for name, data in files.items()}
    write_files(paths)
    return list(paths)


def _wanted(emit: Iterable[str]) -> frozenset[Emit]:
    names = tuple(emit)
    for name in names:
        if name not in EMITS:
            fix = did_you_mean(name, EMITS)
            raise XpagedError(f"unknown output '{name}'", expected=", ".join(EMITS), fix=fix)
    if not names:
        raise XpagedError("nothing to make", expected=", ".join(EMITS))
    if "harness" in names:  # it loads the object
        names = (*names, "object")
    return frozenset(cast("tuple[Emit, ...]", names))


def _lower(
    module: ModuleOp, arch_name: str | None, emit: frozenset[Emit], to: Level | None
) -> "tuple[Kernel, Arch, dict[str, Work]]":
    """Everything but the compiler's part: lowered, printed, described."""
    from xpaged.arch import arch_of
    from xpaged.ir.locations import set_source, source_of
    from xpaged.lowering.perf_config import notes_of as schedule_notes
    from xpaged.lowering.work import work_of
    from xpaged.passes.pipelines import lower

    _kernels(module)
    arch, notes = arch_of(module, arch_name)
    notes = [*notes, *schedule_notes(module)]
    lowered = module.clone()
    set_source(lowered, source_of(module))
    lower(lowered, Level.DEVICE if to is None or to is Level.HOST else to, arch)
    kernels = _kernels(lowered)
    name = program_name(kernels)
    if to is not None and to is not Level.HOST:
        from xpaged.ir.printing import print_module

        text = print_module(lowered).rstrip("\n") + "\n"
        return Kernel(name, arch.name, emit, mlir=text, level=to, notes=tuple(notes)), arch, {}
    from xpaged.codegen.hip_printer import print_hip

    launch = describe_launches(kernels, _object_name(name, arch.name) if "object" in emit else None)
    harness = None
    if "harness" in emit:
        from xpaged.codegen.harness import print_harness

        harness = print_harness(module, launch, f"{_stem(name, arch.name)}.harness.cpp", arch.name)
    text = print_hip(lowered, arch)
    works = {each.sym_name.data: work for each in kernels if (work := work_of(each)) is not None}
    return Kernel(name, arch.name, emit, text, launch=launch, harness=harness, notes=tuple(notes)), arch, works


def _kernels(module: ModuleOp) -> list[FuncOp]:
    """The kernels of a module in order; at levels where none is marked yet, its functions."""
    kernels = kernels_of(module)
    if not kernels:
        raise XpagedError("the module has no function to compile", at=module, expected="a func.func with a body")
    return kernels


def _build(kernel: Kernel, arch: "Arch", works: "dict[str, Work]", toolchain: str) -> Kernel:
    """The compiler's part: the text becomes assembly, a checked object and its card, as far as these were asked for."""
    card = "card" in kernel.emit
    want: frozenset[Want] = frozenset(("asm", "object")) if card else frozenset(("asm", "object")) & kernel.emit
    text, launch = kernel.hip, kernel.launch
    if text is None or launch is None or not want:
        return kernel
    notes = list(kernel.notes)
    compiler, made = compile_text(
        text, arch.name, toolchain, want=want, accept=lambda result: check(result, launch, arch), notes=notes
    )
    kernel = replace(kernel, notes=tuple(notes))
    if card and made.asm is not None and made.object is not None:
        from xpaged.card.figures import make_card

        code = read_code_object(made.object)
        kernel = replace(kernel, card=make_card(kernel.name, arch, compiler.name, made.asm, code, launch, works))
    return replace(
        kernel,
        asm=made.asm if "asm" in kernel.emit else None,
        object=made.object if "object" in kernel.emit else None,
    )


def check(made: Compiled, launch: LaunchDescription, arch: "Arch") -> None:
    """
    The gate that every object passes: right architecture and version, no scratch, no spills, LDS within limits, and
    the same LDS, workgroup size and arguments as the launch description says. Raises XpagedError.
    """
    if made.object is None:
        return
    code = read_code_object(made.object)
    if (code.arch, code.version) != (arch.name, CODE_OBJECT_VERSION):
        raise XpagedError(
            "the compiler made another kind of code object than asked for",
            found=f"{code.arch}, version {code.version}",
            expected=f"{arch.name}, version {CODE_OBJECT_VERSION}",
        )
    for each in launch.launches:
        code.kernel(each.kernel).check_memory(arch.lds_bytes)
    launch.check_object(code)


def _stem(name: str, arch: str) -> str:
    """`<kernel>.<arch>`, with nothing in it that a file's name may not have."""
    return f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)}.{arch}"


def _object_name(name: str, arch: str) -> str:
    return _stem(name, arch) + ".hsaco"
