"""Device-level modules as HIP C++ that reads as if written by hand.

Loops stay loops, register arrays stay arrays, and a value that is used once stands where it is used. The text needs no
header and no library: it says all that it needs at its head (`hip_prelude`).
"""

import re
import textwrap
from math import prod

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, MemRefType, ModuleOp, StringAttr
from xdsl.ir import Attribute, SSAValue

from xpaged.arch.table import Arch
from xpaged.codegen.c_expr import name
from xpaged.codegen.c_text import KEYWORDS, WIDTH, Names, comment, wrap
from xpaged.codegen.hip_constants import Constants
from xpaged.codegen.hip_context import Context, c_type, size_of
from xpaged.codegen.hip_offsets import Offsets
from xpaged.codegen.hip_prelude import RESERVED, Prelude
from xpaged.codegen.hip_statements import Statements
from xpaged.codegen.ranges import Ranges
from xpaged.dialects import hip
from xpaged.errors import XpagedError
from xpaged.lowering.kernel import BLOCK_SIZE, DESCRIPTION, GRID_SIZE, LDS_BYTES, WAVES_PER_EU, WORKSPACE, is_kernel


def print_hip(module: ModuleOp | func.FuncOp, arch: Arch) -> str:
    """
    The HIP text of all kernels of a device-level module (or of one kernel), for one architecture.

    It compiles unchanged with every clang from 15 on, hipcc's and the bundled one among them. Raises XpagedError for
    a module without kernels, an operation that has no HIP form, and a kernel that does not fit the architecture.
    """
    functions = [module] if isinstance(module, func.FuncOp) else list(module.ops)
    kernels: list[func.FuncOp] = []
    for op in functions:
        if isinstance(op, memref.GlobalOp):
            continue
        if not isinstance(op, func.FuncOp) or not op.body.blocks or not is_kernel(op):
            raise XpagedError("a device-level module holds kernels only", at=op, expected="func.func with rock.kernel")
        if not re.fullmatch(r"[A-Za-z]\w*", op.sym_name.data, re.ASCII) or op.sym_name.data in KEYWORDS | RESERVED:
            raise XpagedError("a kernel's name has to be a name in C, too", at=op, found=op.sym_name.data)
        kernels.append(op)
    if not kernels:
        raise XpagedError("there is no kernel to print", at=module, expected="a func.func with rock.kernel")
    prelude = Prelude()
    names = Names(RESERVED | {kernel.sym_name.data for kernel in kernels})
    constants = Constants(prelude, names)
    bodies = [_Kernel(kernel, arch, prelude, names, constants) for kernel in kernels]
    texts = [f"{kernel.signature}\n{kernel.body}}}\n" for kernel in bodies]
    comment = "//\n".join(kernel.comment for kernel in bodies)
    code = constants.text + "\n".join(texts)
    return f"{comment}\n{prelude.text(code)}\n{code}"


class _Kernel:
    """One kernel as text: its head comment, its signature, and the lines of its body."""

    def __init__(self, function: func.FuncOp, arch: Arch, prelude: Prelude, names: Names, constants: Constants) -> None:
        self.function = function
        self.arch = arch
        self.grid = self._size(GRID_SIZE)
        self.block = self._size(BLOCK_SIZE)
        if self.block % arch.wave_size or self.block > arch.max_workgroup:
            raise XpagedError(
                f"kernel '{function.sym_name.data}' has a workgroup that {arch.name} cannot run",
                at=function,
                found=f"{self.block} lanes",
                expected=f"a multiple of {arch.wave_size}, at most {arch.max_workgroup}",
            )
        self.prelude = prelude
        self.arguments = list(function.body.block.args)
        self.written = _bases(function, hip.StoreOp)
        self.read = _bases(function, hip.LoadOp)
        self.lds_bytes = self._lds()
        ranges = Ranges(function.body, arch, self.grid, self.block)
        context = Context(prelude, ranges, Offsets(function.body, ranges), arch, self.block)
        context.read_only = frozenset(a for a in self.arguments if self._is_table(a) and a not in self.written)
        context.page_bytes = self._page_bytes()
        statements = Statements(context, names)
        for op in function.body.block.ops:
            if isinstance(op, memref.GetGlobalOp):
                statements.define(op.memref, name(constants.name(op), self._element(op.memref)))
        with names.scope():
            self.named = [(a, names.new(a.name_hint or f"arg{i}")) for i, a in enumerate(self.arguments)]
            for argument, text in self.named:
                statements.define(argument, name(text, self._element(argument)))
            self.body = statements.body(function.body.block)
        self.comment = self._comment()
        self.signature = self._signature()

    def _size(self, attribute: str) -> int:
        value = self.function.attributes.get(attribute)
        if not isinstance(value, IntegerAttr) or value.value.data < 1:
            raise XpagedError(
                f"kernel '{self.function.sym_name.data}' has no usable {attribute}",
                at=self.function,
                found=value,
                expected="a positive integer attribute",
            )
        return value.value.data

    def _lds(self) -> int:
        """Bytes of LDS; refuses more than there is, and a kernel that says another number."""
        sizes: list[int] = []
        for op in self.function.walk():
            if isinstance(op, hip.LdsAllocOp):
                assert isinstance(op.result.type, MemRefType)
                sizes.append(prod(op.result.type.get_shape()) * size_of(op.result.type.element_type, op))
        total = hip.lds_total(sizes)
        if total > self.arch.lds_bytes:
            raise XpagedError(
                f"kernel '{self.function.sym_name.data}' needs more LDS than {self.arch.name} has",
                at=self.function,
                found=f"{total} bytes",
                expected=f"at most {self.arch.lds_bytes}",
                fix="take smaller tiles",
            )
        said = self.function.attributes.get(LDS_BYTES)
        if isinstance(said, IntegerAttr) and said.value.data != total:
            raise XpagedError(
                "rock.lds_bytes is not what the kernel allocates",
                at=self.function,
                found=said.value.data,
                expected=total,
            )
        return total

    def _is_table(self, argument: SSAValue) -> bool:
        type_ = argument.type
        return isinstance(type_, MemRefType) and c_type(type_.element_type, argument) in ("int", "i64")

    def _argument_attribute(self, index: int, attribute: str) -> Attribute | None:
        every = self.function.arg_attrs
        return every.data[index].data.get(attribute) if every is not None and index < len(every.data) else None

    def _page(self, index: int) -> tuple[int, Attribute] | None:
        """Elements of a page, and their type, where the argument is a page table."""
        page = self._argument_attribute(index, "rock.page_table")
        if not isinstance(page, DictionaryAttr):
            return None
        size, element = page.data.get("page_size"), page.data.get("elem")
        return (size.value.data, element) if isinstance(size, IntegerAttr) and element is not None else None

    def _page_bytes(self) -> int | None:
        """Bytes of the largest page; None when one is unknown."""
        largest = 0
        for index, argument in enumerate(self.arguments):
            if isinstance(argument.type, MemRefType) and c_type(argument.type.element_type, argument) == "i64":
                page = self._page(index)
                if page is None:
                    return None
                largest = max(largest, page[0] * size_of(page[1], argument))
        return largest or None

    def _element(self, argument: SSAValue) -> str:
        if isinstance(argument.type, MemRefType):
            element = c_type(argument.type.element_type, argument)
            return "u64" if element == "i64" else element
        return c_type(argument.type, argument)

    def _signature(self) -> str:
        attributes = [f"amdgpu_flat_work_group_size({self.block}, {self.block})"]
        waves = self.function.attributes.get(WAVES_PER_EU)
        if isinstance(waves, IntegerAttr):
            attributes.append(f"amdgpu_waves_per_eu({waves.value.data})")
        parameters: list[str] = []
        for argument, text in self.named:
            type_ = self.prelude.type(self._element(argument))
            if isinstance(argument.type, MemRefType):
                const = "" if argument in self.written else "const "
                parameters.append(f"{const}{type_}* __restrict__ {text}")
            else:
                parameters.append(f"{type_} {text}")
        head = f'extern "C" __attribute__((global, {", ".join(attributes)}))\nvoid {self.function.sym_name.data}('
        return "\n".join([head, *wrap("    ", parameters, ") {")]) if parameters else head + ") {"

    def _comment(self) -> str:
        lines = [self.function.sym_name.data]
        description = self.function.attributes.get(DESCRIPTION)
        if isinstance(description, StringAttr):
            text = f"{lines[0]}: {description.data}"
            lines = [part for line in text.splitlines() for part in textwrap.wrap(line, WIDTH - 3) or [""]]
        waves = self.block // self.arch.wave_size
        rows = [self._row(index, text) for index, (_, text) in enumerate(self.named)]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(2)]
        lines += ["", f"Written by xpaged for {self.arch.name} ({self.arch.part}).", ""]
        lines += [f"  {row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}" for row in rows]
        lds = f"{self.lds_bytes} bytes of static LDS" if self.lds_bytes else "no LDS"
        waves_text = "1 wave" if waves == 1 else f"{waves} waves"
        lines += ["", f"Launch: grid {self.grid} x 1 x 1, block {self.block} x 1 x 1 ({waves_text}), {lds}."]
        return "".join(line + "\n" for line in comment("\n".join(lines)))

    def _row(self, index: int, text: str) -> tuple[str, str, str]:
        """Name, type and use of an argument."""
        argument = self.arguments[index]
        if not isinstance(argument.type, MemRefType):
            return text, str(argument.type), "value"
        shape = ", ".join("?" if n < 0 else str(n) for n in argument.type.get_shape())
        page = self._page(index)
        output = self._argument_attribute(index, "rock.output")
        element = "u64" if page is not None else str(argument.type.element_type)
        notes = ["written" if argument in self.written else "read" if argument in self.read else "not used"]
        if argument in self.written and argument in self.read:
            notes = ["read and written"]
        if page is not None:
            notes.append(f"page table: addresses of pages of {page[0]} {page[1]}")
        if self._argument_attribute(index, WORKSPACE) is not None:
            size = prod(argument.type.get_shape()) * size_of(argument.type.element_type, argument)
            notes.append(f"workspace of {size} bytes")
        if isinstance(output, IntegerAttr):
            notes.append(f"output {output.value.data}")
        return text, f"{element}[{shape}]", ", ".join(notes)


def _bases(function: func.FuncOp, kind: type[hip.LoadOp] | type[hip.StoreOp]) -> set[SSAValue]:
    """The arguments that loads (or stores) of a kernel start from."""
    return {op.base for op in function.walk() if isinstance(op, kind)}
