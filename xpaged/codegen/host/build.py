"""From the text of a kernel to a program for this machine's CPU, without a C library.

The program is one object: our headers, the matrix instructions as the table of architectures describes them, the text
itself (a file of its own, included unchanged), and the list of its kernels.
"""

import platform
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from xpaged.arch.table import Arch, MatrixInstruction
from xpaged.codegen.launch import LaunchDescription
from xpaged.codegen.toolchain import Compiler, Missing, ToolchainError, find
from xpaged.errors import XpagedError

HEADERS = ("system.h", "floats.h", "lanes.h", "builtins.h", "xpaged_host.h", "entry.h")
PROGRAM = "kernel"
LDS_END = 0x1000000
"""The address at which LDS ends. Nothing else lies near it: leaving it is a fault."""
_REST = 0x2000000
_LEAST_CLANG = 15  # the first that knows half precision on x86-64
_SCALARS = {"f16": "_Float16", "bf16": "short", "f32": "float", "i8": "signed char"}
_SUMS = {"f32": "float", "i32": "int"}
_PACKED = {"int": "int", "i64": "long long", "i32x2": ("int", 2), "i32x4": ("int", 4), "hw_bf16x8": ("short", 8)}

FLAGS = (
    *("--target=x86_64-linux-gnu", "-std=c++17", "-O1", "-gline-tables-only", "-gdwarf-4"),
    *("-ffreestanding", "-fno-pic", "-fno-exceptions", "-fno-rtti", "-fno-stack-protector"),
    "-fstack-clash-protection",  # an overflow of a stack meets the unmapped page below it
    *("-fno-asynchronous-unwind-tables", "-fno-threadsafe-statics", "-fno-optimize-sibling-calls"),
    "-fconvergent-functions",  # no operation of a wave is copied, moved or merged with another one
    *("-ffp-contract=off", "-fno-math-errno", "-ftrivial-auto-var-init=pattern", "-w"),
    "-fsanitize=signed-integer-overflow,shift,integer-divide-by-zero,array-bounds,alignment,float-cast-overflow",
    "-fno-sanitize-recover=all",
)
"""How text is compiled: every operation as written, and checks of what C++ leaves undefined."""


def host_compilers() -> Iterator[Compiler | Missing]:
    """The compilers that can make programs for this machine, best first, and why others cannot."""
    for kind in ("clang", "bundled"):
        for found in find(kind):
            if isinstance(found, Compiler) and found.clang_major < _LEAST_CLANG:
                found = Missing(found.name, f"it is older than clang {_LEAST_CLANG}", "install a newer clang")
            yield found


def unable() -> str | None:
    """Why this machine cannot run kernels on its CPU; None when it can."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return f"it takes x86-64 Linux, and this is {platform.machine()} {platform.system()}"
    missing: list[Missing] = []
    for each in host_compilers():
        if isinstance(each, Compiler):
            return None
        missing.append(each)
    return "there is no compiler for it: " + "; ".join(f"{m.what}: {m.reason} ({m.install})" for m in missing)


def usable_compilers() -> Iterator[Compiler]:
    """The compilers to try, best first. Raises ToolchainError when this machine has none, or is of another kind."""
    if (reason := unable()) is not None:
        raise ToolchainError("kernels cannot run on this machine's CPU", found=reason)
    yield from (each for each in host_compilers() if isinstance(each, Compiler))


def build(
    text: str, name: str, arch: Arch, launch: LaunchDescription, folder: Path, compilers: Iterable[Compiler]
) -> tuple[Path, Compiler]:
    """
    Compile and link the kernels of `launch`, whose `text` becomes the file `name` in `folder`, with the first of
    `compilers` that takes it; returns the program and that compiler.

    Raises ToolchainError with the last compiler's first error when none takes the text.
    """
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise XpagedError("this is no name for a file of HIP text", found=name)
    for header in HEADERS:
        (folder / header).write_text(files(__package__ or "").joinpath(header).read_text(encoding="utf-8"), "utf-8")
    (folder / name).write_text(text, "utf-8")
    (folder / "kernel.cpp").write_text(_source(name, arch, launch), "utf-8")
    lds = sum(-(-size // 16) * 16 for size in {each.kernel: each.lds_bytes for each in launch.launches}.values())
    places = (f"--section-start=xpaged_lds={LDS_END - lds:#x}", f"--section-start=.rodata={_REST:#x}")
    flags = (*FLAGS, *cpu_flags(), f"-DXPAGED_WAVE={arch.wave_size}")
    last = ToolchainError("there is no compiler for this machine's CPU")
    for compiler in compilers:
        try:
            compiler.step(folder, *compiler.driver, *flags, "-c", "kernel.cpp")
            compiler.step(folder, *compiler.linker, "-static", *places, "kernel.o", "-o", PROGRAM)
        except ToolchainError as err:
            last = err
        except OSError as err:
            last = ToolchainError(f"{compiler.name} could not be run: {err.strerror}", found=err.filename)
        else:
            return folder / PROGRAM, compiler
    raise last


@cache
def cpu_flags() -> tuple[str, ...]:
    """Flags for what this CPU has: instructions that convert half precision, which nearly every one has."""
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        flags = None
    return ("-mf16c",) if flags is not None and "f16c" in flags[1].split() else ("-msse4.1",)


def _source(name: str, arch: Arch, launch: LaunchDescription) -> str:
    """The program's own lines around the text."""
    kernels = list(dict.fromkeys(each.kernel for each in launch.launches))
    for kernel in kernels:
        if not re.fullmatch(r"[A-Za-z_]\w*", kernel, re.ASCII):
            raise XpagedError("this is no name of a kernel", found=kernel)
    return "\n".join(
        (
            '#include "xpaged_host.h"',
            *(line for each in arch.matrix for line in matrix_lines(each, arch.wave_size)),
            "// LDS lies together, and the compiler may not know what it holds.",
            '#define shared section("xpaged_lds"), annotate("LDS")',
            f'#include "{name}"',
            "#undef shared",
            f"#define XPAGED_KERNELS {' '.join(f'XPAGED_KERNEL({kernel}),' for kernel in kernels)}",
            '#include "entry.h"',
            "",
        )
    )


def kernel_number(launch: LaunchDescription, kernel: str) -> int:
    """The number of a kernel in the program."""
    return list(dict.fromkeys(each.kernel for each in launch.launches)).index(kernel)


def matrix_lines(instruction: MatrixInstruction, lanes: int) -> list[str]:
    """A matrix instruction in C++: where in the matrices each lane's values lie, and what it is called."""
    i = instruction
    operands = [i.operand_place(lane, e) for lane in range(lanes) for e in range(i.elements)]
    results = [i.result_place(lane, r) for lane in range(lanes) for r in range(i.registers)]
    scalar, total = _SCALARS[i.operand], _SUMS[i.accumulator]
    types = f"{i.builtin}_operand", f"{i.builtin}_result"
    sizes = f"{i.m}, {i.n}, {i.k}, {i.elements}, {i.registers}, {i.copies}"
    packed = (scalar, i.elements) if i.packed is None else _PACKED[i.packed]
    named = {"{a}": f"{types[0]} a", "{b}": f"{types[0]} b", "{c}": f"{types[1]} c"}
    arguments = i.call.split(", ")
    parameters = [
        named.get(each, f"{'int' if each.isdigit() else 'bool'} x{number}") for number, each in enumerate(arguments)
    ]
    checks = [f"if (x{n} != {each}) refuse(here, x{n});" for n, each in enumerate(arguments) if each not in named]
    return [
        _table(f"{i.builtin}_a", [row * i.k + index for row, index in operands]),
        _table(f"{i.builtin}_b", [index * i.n + column for column, index in operands]),
        _table(f"{i.builtin}_d", [row * i.n + column for row, column in results]),
        f"typedef {_vector(*((packed, 1) if isinstance(packed, str) else packed), types[0])};",
        f"typedef {_vector(total, i.registers, types[1])};",
        f"XPAGED_MATRIX({i.builtin}, {sizes}, {scalar}, {total}, {types[1]}, ({', '.join(parameters)}), "
        f"{' '.join(checks)})",
    ]


def _vector(scalar: str, lanes: int, name: str) -> str:
    return f"{scalar} {name}" + (f" __attribute__((ext_vector_type({lanes})))" if lanes > 1 else "")


def _table(name: str, values: list[int]) -> str:
    return f"const unsigned short {name}[] = {{{', '.join(map(str, values))}}};"
