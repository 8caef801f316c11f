"""How compiled kernels are launched: buffers, grid, block, LDS and arguments, read from the device-level functions.

The description is written beside every object as `launch.json`; programs that launch a kernel need nothing else.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

from xdsl.dialects.builtin import DictionaryAttr, FixedBitwidthType, IntegerAttr, MemRefType, NoneAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument

from xpaged.codegen.code_object import CodeObject
from xpaged.errors import XpagedError
from xpaged.lowering.kernel import (
    BLOCK_SIZE,
    GRID_SIZE,
    LDS_BYTES,
    OUTPUT,
    WORKSPACE,
    are_parts,
    argument_attributes,
    identity_of,
)

VERSION = 1
POINTER_BYTES = 8

BufferKind = Literal["buffer", "page_table", "scalar", "workspace"]
Access = Literal["read", "write", "read_write"]


@dataclass(frozen=True)
class Buffer:
    """
    One thing that a caller passes: `dtype` is MLIR's name of the element type, `shape` counts elements (empty for a
    scalar), `bytes` is the whole size. A `page_table` holds the 64-bit device addresses of the pages, of `page_bytes`
    bytes each (0 for everything else).
    """

    name: str
    kind: BufferKind
    dtype: str
    shape: tuple[int, ...]
    bytes: int
    access: Access
    page_bytes: int = 0


@dataclass(frozen=True)
class Launch:
    """
    One kernel launch: `grid` counts workgroups and `block` lanes along x, y, z. `lds_bytes` is what the kernel
    allocates by itself; a launcher asks for no dynamic LDS. `object` is the file of the code object beside the
    description, None where none was made. `args` names the buffers in the order of the arguments,
    which lie naturally aligned one after the other (pointers: 8 bytes), with no hidden ones behind them.
    """

    kernel: str
    object: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    lds_bytes: int
    args: tuple[str, ...]


class Slot(NamedTuple):
    """Place of an argument in the kernel argument segment, in bytes."""

    offset: int
    size: int


@dataclass(frozen=True)
class LaunchDescription:
    """All launches of one module in order, and every buffer that they use, each once."""

    buffers: tuple[Buffer, ...]
    launches: tuple[Launch, ...]

    def to_json(self) -> str:
        """The text of `launch.json`, one buffer or launch a line."""
        fields = asdict(self)
        for buffer in fields["buffers"]:
            if buffer["kind"] != "page_table":
                del buffer["page_bytes"]
        rows = {name: ",\n    ".join(map(json.dumps, entries)) for name, entries in fields.items()}
        lists = ",\n".join(f'  "{name}": [\n    {text}\n  ]' for name, text in rows.items())
        return f'{{\n  "version": {VERSION},\n{lists}\n}}\n'

    @staticmethod
    def from_json(text: str) -> "LaunchDescription":
        """Read the text of a `launch.json`; refuses a text that is none, and another version."""
        try:
            data: dict[str, Any] = json.loads(text)
            if data["version"] != VERSION:
                raise XpagedError("unknown version of launch description", found=data["version"], expected=VERSION)
            return LaunchDescription(
                tuple(Buffer(**_tuples(entry)) for entry in data["buffers"]),
                tuple(Launch(**_tuples(entry)) for entry in data["launches"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise XpagedError("this is no launch description", found=f"{type(err).__name__}: {err}") from err

    def buffer(self, name: str) -> Buffer:
        """The buffer called `name`."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise XpagedError(f"no buffer '{name}'", expected=", ".join(buffer.name for buffer in self.buffers))

    def argument_slots(self, launch: Launch) -> tuple[Slot, ...]:
        """Where each argument of `launch` lies in the kernel argument segment."""
        slots: list[Slot] = []
        end = 0
        for name in launch.args:
            buffer = self.buffer(name)
            size = buffer.bytes if buffer.kind == "scalar" else POINTER_BYTES
            offset = -(-end // size) * size
            slots.append(Slot(offset, size))
            end = offset + size
        return tuple(slots)

    def check_object(self, code: CodeObject) -> None:
        """Refuse a code object whose kernels would not do what this description tells a launcher."""
        for launch in self.launches:
            kernel = code.kernel(launch.kernel)
            slots = self.argument_slots(launch)
            end = slots[-1].offset + slots[-1].size if slots else 0
            block = launch.block[0] * launch.block[1] * launch.block[2]
            hidden = [argument.kind for argument in kernel.arguments if argument.kind.startswith("hidden")]
            _agree(launch, "bytes of LDS", kernel.lds, launch.lds_bytes)
            _agree(launch, "lanes in a workgroup", kernel.max_workgroup, block)
            _agree(launch, "hidden arguments", ", ".join(hidden), "")
            found = tuple(Slot(argument.offset, argument.size) for argument in kernel.arguments)
            _agree(launch, "places of the arguments", _slots_text(found), _slots_text(slots))
            _agree(launch, "bytes of kernel arguments", kernel.kernarg_bytes, end)


def describe_launches(kernels: Sequence[FuncOp], object_name: str | None) -> LaunchDescription:
    """
    The description of device-level `kernels`, launched in this order from the object `object_name` (None: there is
    none).

    Before:
        func.func @k(%q: memref<64xf16>, %t: memref<4xi64> {rock.page_table = {...}}, %o: memref<64xf16>
            {rock.output = 0 : i32}) attributes {rock.kernel, rock.grid_size = 2 : i64, rock.block_size = 256 : i64,
            rock.lds_bytes = 4096 : i64}
    After: buffers q (read), t (page_table, read), o (write); one launch with grid [2, 1, 1] and block [256, 1, 1].

    A buffer that several kernels name is one buffer; those of the parts of one function are known by the marks of
    their arguments (`rock.argument`, `rock.workspace`). What such a part leaves for the next is a `workspace`, which
    the launcher allocates. Raises XpagedError for a function without these attributes, a shape that is not static, or a
    name that stands for two different buffers.
    """
    buffers: dict[str, Buffer] = {}
    names = _shared_names(kernels) if are_parts(kernels) else None
    launches: list[Launch] = []
    for kernel in kernels:
        name = kernel.sym_name.data
        args: list[str] = []
        for index, argument in enumerate(kernel.body.block.args):
            if names is None:
                name_of = _argument_name(kernel, index, args, first=not launches)
            else:
                name_of = names[identity_of(argument)]
            new = _buffer(kernel, argument, name_of)
            buffers[new.name] = _merge(buffers[new.name], new, argument) if new.name in buffers else new
            args.append(new.name)
        grid = _size(kernel, GRID_SIZE, 1)
        block = _size(kernel, BLOCK_SIZE, 1)
        lds_bytes = _size(kernel, LDS_BYTES, 0)
        launches.append(Launch(name, object_name, (grid, 1, 1), (block, 1, 1), lds_bytes, tuple(args)))
    return LaunchDescription(tuple(buffers.values()), tuple(launches))


def _argument_name(kernel: FuncOp, index: int, taken: Sequence[str], *, first: bool) -> str:
    """The argument's own name; `arg<i>` (of this kernel alone, after the first) where it has none."""
    hint = kernel.body.block.args[index].name_hint
    if hint is not None and hint not in taken:
        return hint
    return f"arg{index}" if first else f"{kernel.sym_name.data}.arg{index}"


def _shared_names(kernels: Sequence[FuncOp]) -> dict[int | str, str]:
    """A name for each buffer of the parts of a function: a workspace's own, an argument's hint or else `arg<i>`."""
    arguments = [argument for kernel in kernels for argument in kernel.body.block.args]
    names: dict[int | str, str] = {key: key for argument in arguments if isinstance(key := identity_of(argument), str)}
    for argument in arguments:
        key = identity_of(argument)
        if key not in names:
            hint, taken = argument.name_hint or f"arg{key}", set(names.values())
            choices = (hint, f"arg{key}", *(f"arg{key}_{i}" for i in range(len(taken) + 1)))
            names[key] = next(name for name in choices if name not in taken)
    return names


def _buffer(kernel: FuncOp, argument: BlockArgument, name: str) -> Buffer:
    attributes = argument_attributes(kernel, argument.index)
    access: Access = "read_write" if WORKSPACE in attributes else "write" if OUTPUT in attributes else "read"
    if isinstance(argument.type, FixedBitwidthType):
        return Buffer(name, "scalar", str(argument.type), (), argument.type.size, "read")
    if not isinstance(argument.type, MemRefType):
        raise XpagedError(
            f"argument %{name} of kernel '{kernel.sym_name.data}' cannot be passed to a GPU",
            at=argument,
            found=argument.type,
            expected="a memref or a number of fixed width",
        )
    element: Attribute = argument.type.element_type
    shape = argument.type.get_shape()
    if not isinstance(element, FixedBitwidthType) or min(shape, default=0) < 0:
        raise XpagedError(f"the size of buffer %{name} is not known", at=argument, found=argument.type)
    if not isinstance(argument.type.layout, NoneAttr):
        raise XpagedError(
            f"buffer %{name} has a layout of its own",
            at=argument,
            found=argument.type,
            expected="row-major elements without gaps",
        )
    count = 1
    for extent in shape:
        count *= extent
    kind: BufferKind = "page_table" if "rock.page_table" in attributes else "buffer"
    kind = "workspace" if WORKSPACE in attributes else kind
    page_bytes = _page_bytes(attributes["rock.page_table"]) if kind == "page_table" else 0
    return Buffer(name, kind, str(element), shape, count * element.size, access, page_bytes)


def _page_bytes(table: Attribute) -> int:
    """Bytes of a page; 0 where the mark of its table does not say it."""
    if not isinstance(table, DictionaryAttr):
        return 0
    size, element = table.data.get("page_size"), table.data.get("elem")
    return (
        size.value.data * element.size
        if isinstance(size, IntegerAttr) and isinstance(element, FixedBitwidthType)
        else 0
    )


def _merge(old: Buffer, new: Buffer, argument: BlockArgument) -> Buffer:
    if (old.kind, old.dtype, old.shape, old.page_bytes) != (new.kind, new.dtype, new.shape, new.page_bytes):
        raise XpagedError(
            f"two kernels name different buffers '{old.name}'",
            at=argument,
            found=f"{new.kind} of {new.dtype} {list(new.shape)}",
            expected=f"{old.kind} of {old.dtype} {list(old.shape)}",
        )
    return old if old.access == new.access else replace(old, access="read_write")


def _size(kernel: FuncOp, name: str, least: int) -> int:
    """An integer attribute of a kernel that lowering must have set."""
    attribute = kernel.attributes.get(name)
    if not isinstance(attribute, IntegerAttr) or attribute.value.data < least:
        raise XpagedError(
            f"kernel '{kernel.sym_name.data}' has no usable {name}",
            at=kernel,
            found=attribute,
            expected=f"an integer attribute, {least} or more",
            fix="lower the module to the device level first",
        )
    return attribute.value.data


def _agree(launch: Launch, what: str, found: object, expected: object) -> None:
    if found != expected:
        raise XpagedError(
            f"kernel '{launch.kernel}': the object and its launch description disagree on {what}",
            found=f"{found or 'none'} in the object",
            expected=f"{expected or 'none'} in the launch description",
        )


def _slots_text(slots: Sequence[Slot]) -> str:
    return " ".join(f"{slot.offset}+{slot.size}" for slot in slots)


def _tuples(entry: dict[str, Any]) -> dict[str, Any]:
    """JSON has only lists; the description holds tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
