"""
A host program beside a kernel: HIP C++ that makes data, launches the kernel as its launch description says, compares
the results with a CPU reference, and times it.

The owner of a GPU builds it with one command and needs nothing of xpaged. K and V of a paged cache are made in logical
order, cut into pages, and placed in shuffled order in a pool of their own; what no key that counts lies in stays NaN.
"""

from __future__ import annotations

from importlib.resources import files
from math import prod

from xdsl.dialects.builtin import DenseArrayBase, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from xpaged.codegen.harness_reference import Reference, reference_of
from xpaged.codegen.launch import Buffer, LaunchDescription
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.views import chain_of
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level, level_of
from xpaged.lowering.kernel import argument_attributes, kernels_of

_TYPES = {
    **{"f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64"},
    **{"i1": "I1", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64"},
}
_BYTES = {"F16": 2, "BF16": 2, "F32": 4, "F64": 8, "I1": 1, "I8": 1, "I16": 2, "I32": 4, "I64": 8}


def print_harness(module: ModuleOp, launch: LaunchDescription, name: str, arch: str) -> str:
    """
    The text of the host program for a kernel of `module`, launched as `launch` says; `name` is that of its file.

    Raises XpagedError for a module below level `rock-memref`, and for one with operations that have no reference.
    """
    from xpaged.passes.pipelines import lower

    if level_of(module) > Level.ROCK_MEMREF:
        raise XpagedError(
            "a host program needs the attention as one operation, to compute what the kernel should",
            at=module,
            found=f"a module at level {level_of(module).value}",
            expected="level rock-memref or above",
        )
    whole = lower(module.clone(), Level.ROCK_MEMREF)
    kernels = kernels_of(whole)
    if len(kernels) != 1:
        raise XpagedError("a host program is for one function", at=whole, found=f"{len(kernels)} functions")
    return _Program(kernels[0], launch, name, arch).text()


class _Program:
    def __init__(self, function: FuncOp, launch: LaunchDescription, name: str, arch: str) -> None:
        self.function, self.launch, self.name, self.arch = function, launch, name, arch
        self.object = f"{name.removesuffix('.harness.cpp')}.hsaco"
        self.numbers = {buffer.name: i for i, buffer in enumerate(launch.buffers)}
        self.arguments: dict[SSAValue, int] = {}
        for index, arg in enumerate(function.body.block.args):
            known_as = arg.name_hint or f"arg{index}"
            if known_as not in self.numbers:
                raise XpagedError("an argument is not in the launch description", at=arg, found=known_as)
            self.arguments[arg] = self.numbers[known_as]

    def text(self) -> str:
        reference = reference_of(self.function, self.arguments)
        package = files("xpaged.codegen")
        return "\n".join(
            [
                self._head(),
                f"#define ULP32 {2.0**-23}",
                package.joinpath("harness_runtime.h").read_text("utf-8"),
                self._description(),
                *reference.functions,
                "",
                self._inputs(reference),
                self._reference(reference),
                package.joinpath("harness_main.h").read_text("utf-8"),
            ]
        )

    def _head(self) -> str:
        names = ", ".join(dict.fromkeys(launch.kernel for launch in self.launch.launches))
        program = self.name.removesuffix(".cpp")
        return f"""// Runs {names} on {self.arch} and compares it with a reference that is computed on the CPU.
// Build:  hipcc -O2 -std=c++17 {self.name} -o {program}
// Run:    ./{program}   (beside the code objects; --help lists the options)
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>
"""

    def _description(self) -> str:
        lines = ["static const Buffer buffers[] = {"]
        for buffer in self.launch.buffers:
            kind = {"buffer": "BUFFER", "page_table": "PAGE_TABLE", "scalar": "SCALAR", "workspace": "WORKSPACE"}
            element = self._element(buffer)
            access = ", ".join(str(each in buffer.access).lower() for each in ("read", "write"))
            lines.append(
                f'    {{"{buffer.name}", {kind[buffer.kind]}, {element}, {prod(buffer.shape)}, {buffer.bytes}, '
                f"{buffer.page_bytes}, {access}}},"
            )
        lines += ["};", "", "static const std::vector<Launch> launches = {"]
        for launch in self.launch.launches:
            slots = self.launch.argument_slots(launch)
            end = slots[-1].offset + slots[-1].size if slots else 0
            grid, block = (", ".join(map(str, size)) for size in (launch.grid, launch.block))
            numbers = ", ".join(str(self.numbers[arg]) for arg in launch.args)
            offsets = ", ".join(str(slot.offset) for slot in slots)
            lines.append(
                f'    {{"{launch.kernel}", "{launch.object or self.object}", {{{grid}}}, {{{block}}},\n'
                f"     {{{numbers}}}, {{{offsets}}}, {end}}},"
            )
        return "\n".join([*lines, "};", ""])

    def _element(self, buffer: Buffer) -> str:
        """The type of the elements; for a page table, of those in its pages."""
        dtype = buffer.dtype
        if buffer.kind == "page_table":
            table = next(arg for arg, number in self.arguments.items() if self.numbers[buffer.name] == number)
            assert hasattr(table, "index")
            page = argument_attributes(self.function, table.index)["rock.page_table"]  # pyright: ignore
            dtype = str(page.data["elem"])  # pyright: ignore
        if dtype not in _TYPES:
            raise XpagedError(
                "a host program cannot make data of this type",
                found=f"{buffer.name}: {dtype}",
                expected=", ".join(_TYPES),
            )
        return _TYPES[dtype]

    # Data

    def _inputs(self, reference: Reference) -> str:
        lines = ["static void make_inputs(std::vector<Values> &b) {"]
        special = self._indices()
        for arg, number in self.arguments.items():
            buffer = self.launch.buffers[number]
            if "read" not in buffer.access and buffer.access != "read_write":
                continue
            if "write" in buffer.access:
                continue
            given = argument_attributes(self.function, arg.index).get("rock.default")  # pyright: ignore
            lines.append(f"    // {buffer.name}")
            if isinstance(given, DenseArrayBase):
                values = ", ".join(map(str, given.get_values()))
                lines.append(f"    b[{number}].value = {{{values}}};")
                continue
            element = self._element(buffer)
            value = special.get(arg)
            if value is None:
                whole = "(double)(random_below(17) - 8)"
                value = "2 * random_unit() - 1" if element in ("F16", "BF16", "F32", "F64") else whole
            lines += [
                f"    for (double &x : b[{number}].value) {{",
                "        uint64_t bits = 0;",
                f"        write_element({element}, &bits, {value});",
                f"        x = read_element({element}, &bits);",
                "    }",
            ]
        return "\n".join([*lines, *reference.live, "}", ""])

    def _indices(self) -> dict[SSAValue, str]:
        """Random values of the arguments that are KV indices and offsets."""
        found: dict[SSAValue, str] = {}
        for op in self.function.walk():
            if isinstance(op, AttentionOp):
                keys, queries = op.sizes.seq_k, op.sizes.seq_q
                for value, text in (
                    (op.currentSeqLen, f"(double)random_below({keys})"),
                    (op.prefixOffset, f"(double)random_below({max(keys - queries, 0) + 1})"),
                ):
                    if value is not None:
                        found[chain_of(value).root] = text
        return found

    def _reference(self, reference: Reference) -> str:
        return "\n".join(
            ["static void reference(std::vector<Values> &b) {", *reference.temporaries, *reference.steps, "}", ""]
        )
