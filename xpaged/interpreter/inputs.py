"""The arguments of a function: what they are, the data for them, and how they are laid out in simulated memory.

Data are kept level by level the same: flat buffers in memory order, and for a page table the contents of its pages in
table order. Only `place` turns them into memory and addresses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    ContainerType,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    ShapedType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, OpResult, SSAValue

from xpaged.errors import XpagedError, did_you_mean
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.numerics import Array, dtype_of, is_float
from xpaged.interpreter.views import MemRef, page_alignment, strides_of
from xpaged.lowering.kernel import (
    WORKSPACE,
    are_parts,
    argument_attributes,
    identity_of,
    kernels_of,
)
from xpaged.lowering.outputs import output_numbers

_FILL = 0xFF  # work buffers: NaN in every float type, -1 in every integer type
_MOST_ELEMENTS = 1 << 48
_FEW_EMPTY_PLACES = 4
"""A pool of pages with so many places for each page of a table, or fewer, is mirrored as a whole."""
_GARBAGE = 0xDEAD_0000_0000_0000  # unmapped entries of page tables


@dataclass(frozen=True)
class Argument:
    """One argument of a function. `count` elements of `dtype` in memory; `page` when it is a page table."""

    index: int
    name: str
    type: Attribute
    dtype: np.dtype[Any]
    count: int
    page_size: int | None = None
    page_dtype: np.dtype[Any] | None = None
    output: int | None = None
    default: tuple[int, ...] | None = None
    is_workspace: bool = False

    @property
    def is_input(self) -> bool:
        """Whether it is a buffer that is filled before the start."""
        return not (self.is_table or self.is_workspace or self.output is not None)

    @property
    def is_table(self) -> bool:
        """Whether it holds page addresses."""
        return self.page_size is not None

    def logical(self, flat: Array) -> Array:
        """The buffer's elements in the shape that the argument's type names (and with its sign, which data of an
        argument may have another one of: the levels below the first know none)."""
        if flat.dtype.kind in "iu" and flat.dtype.itemsize == self.dtype.itemsize:
            flat = flat.view(self.dtype)
        layout = getattr(self.type, "memory_layout", None)
        if layout is None:
            return flat.reshape(_shape(self.type))
        there = layout()
        view = flat.reshape(there.buffer_shape).transpose(there.permutation)
        view = view[tuple(slice(n) for n in there.sliced)]
        return np.broadcast_to(view, there.logical_shape).copy()


def in_memory_order(value: Array, type: Attribute) -> Array:
    """A result of type `type` as its elements lie in memory: the inverse of `Argument.logical`."""
    layout = getattr(type, "memory_layout", None)
    return value if layout is None else value.transpose(layout().memory_order)


def _shape(type: Attribute) -> tuple[int, ...]:
    return type.get_shape() if isinstance(type, ShapedType) else (1,)


@dataclass(frozen=True)
class Entry:
    """What to run of a module: its functions in order, and the arguments that they share.

    `slots` has for each function which of `arguments` its own are.
    """

    functions: Sequence[FuncOp]
    arguments: Sequence[Argument]
    slots: Sequence[Sequence[int]]


def entry_of(module: ModuleOp) -> Entry:
    """The kernel of a module (or its only function with a body), or the kernels that are the parts of one function.

    The arguments of several kernels are those of the function that they come from, then the workspaces. Raises
    XpagedError when it is not clear what to run, and for parts that do not fit together.
    """
    kernels = kernels_of(module)
    if not are_parts(kernels):
        function = kernel_of(module)
        arguments = arguments_of(function)
        return Entry((function,), arguments, (range(len(arguments)),))
    buffers: dict[int | str, Argument] = {}
    for kernel in kernels:
        for arg, value in zip(arguments_of(kernel), kernel.body.block.args, strict=True):
            key = identity_of(value)
            buffers[key] = _same_buffer(buffers.get(key, arg), arg, value)
    count = sum(not arg.is_workspace for arg in buffers.values())
    order = [*range(count), *(key for key in buffers if isinstance(key, str))]
    missing = [key for key in order if key not in buffers]
    if missing:
        raise XpagedError(
            "the kernels of a function do not have all of its arguments",
            at=kernels[0],
            found=f"no argument {missing[0]}",
        )
    places = {key: index for index, key in enumerate(order)}
    arguments = [replace(buffers[key], index=index) for index, key in enumerate(order)]
    return Entry(kernels, arguments, [[places[identity_of(a)] for a in f.body.block.args] for f in kernels])


def _same_buffer(known: Argument, other: Argument, at: BlockArgument) -> Argument:
    """What two kernels together say of one buffer."""
    if (known.type, known.page_size, known.page_dtype) != (other.type, other.page_size, other.page_dtype):
        raise XpagedError("two kernels name different buffers the same", at=at, found=other.type, expected=known.type)
    output = other.output if known.output is None else known.output
    return replace(known, output=output, default=known.default or other.default)


def kernel_of(module: ModuleOp) -> FuncOp:
    """The function to run: the kernel, or the only function with a body."""
    kernels = kernels_of(module)
    if len(kernels) == 1:
        return kernels[0]
    if not kernels:
        raise XpagedError("the module has no function to run", at=module, fix="give a func.func with a body")
    raise XpagedError(
        "the module has more than one kernel",
        at=kernels[1],
        found=", ".join(f.sym_name.data for f in kernels),
        fix="mark the one to run with the attribute rock.kernel",
    )


def arguments_of(function: FuncOp) -> list[Argument]:
    """What each argument of `function` is. Raises XpagedError for types that cannot be run with."""
    tables = _page_tables(function)
    outputs = output_numbers(function)
    result: list[Argument] = []
    for arg in function.body.block.args:
        attributes = argument_attributes(function, arg.index)
        count = _count(arg)
        default = attributes.get("rock.default")
        page = tables.get(arg.index)
        elements = count * (1 if page is None else page[0])
        if elements >= _MOST_ELEMENTS:
            raise XpagedError("an argument is larger than any memory", at=arg, found=f"{elements} elements")
        result.append(
            Argument(
                arg.index,
                arg.name_hint or f"arg{arg.index}",
                arg.type,
                dtype_of(arg.type) if page is None else np.dtype(np.int64),
                count,
                None if page is None else page[0],
                None if page is None else page[1],
                outputs.get(arg.index),
                tuple(default.get_values()) if isinstance(default, DenseArrayBase) else None,
                WORKSPACE in attributes,
            )
        )
    return result


def _count(arg: BlockArgument) -> int:
    type = arg.type
    flat = getattr(type, "flat_tensor", None)
    if flat is not None:
        type = flat()
    shape = _shape(type)
    if any(n < 0 for n in shape):
        raise XpagedError("an argument of dynamic shape cannot be run", at=arg, found=str(type))
    if isinstance(type, MemRefType):
        strides_of(type)  # refuses layouts that are not static
    return prod(shape)


def _page_tables(function: FuncOp) -> dict[int, tuple[int, np.dtype[Any]]]:
    """Page size and element type of each argument that holds page addresses."""
    found: dict[int, tuple[int, np.dtype[Any]]] = {}
    for index in range(len(function.body.block.args)):
        page = argument_attributes(function, index).get("rock.page_table")
        if isinstance(page, DictionaryAttr):
            size = page.data["page_size"]
            assert isinstance(size, IntegerAttr)
            found[index] = (size.value.data, dtype_of(page.data["elem"]))
    marked = set(found)
    for op in function.walk():
        if op.name.split(".")[-1] != "deref" and str(op.properties.get("operator_name", "")).strip('"') != "deref":
            continue
        type = op.results[0].type
        size = _shape(type)[-1]
        roots = [r for r in roots_of(op.operands[0]) if _is_address(r.type)]
        if len(roots) != 1:
            raise XpagedError(
                "a deref's addresses must come from one page table",
                at=op,
                found=", ".join(f"argument {r.index}" for r in roots) or "no argument of 64-bit integers",
            )
        (root,) = roots
        if root.index in marked:  # a graph may read only a part of each page
            continue
        if found.setdefault(root.index, (size, dtype_of(type))) != (size, dtype_of(type)):
            raise XpagedError(
                f"argument {root.index} is used as a table of pages of different sizes or types",
                at=op,
                found=f"pages of {size} x {dtype_of(type)}",
                expected=f"pages of {found[root.index][0]} x {found[root.index][1]}",
            )
    return found


def _is_address(type: Attribute) -> bool:
    element = type.get_element_type() if isinstance(type, ContainerType) else type
    return isinstance(element, IntegerType) and element.width.data == 64


def roots_of(value: SSAValue) -> list[BlockArgument]:
    """The arguments of the function around `value` that it is computed from, in order."""
    seen: set[SSAValue] = set()
    pending = [value]
    roots: dict[int, BlockArgument] = {}
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, BlockArgument):
            if isinstance(value.owner.parent_op(), FuncOp):
                roots[value.index] = value
        elif isinstance(value, OpResult):
            pending += value.op.operands
    return [roots[i] for i in sorted(roots)]


@dataclass
class Pages:
    """The pages behind a table, in table order.

    `data` is `[entries, page size]`; entry `i` lies at place `place[i]` among them (two entries with one place share a
    page); entries with `mapped` false lead nowhere. `base` is a start address. `dead` marks elements that no key that
    counts lies in (None: not known).
    """

    data: Array
    place: Array
    mapped: Array
    base: int | None = None
    dead: Array | None = None


@dataclass
class Inputs:
    """Data for the arguments of one function: `arrays` by argument index (flat), `pages` of each page table."""

    arrays: dict[int, Array] = field(default_factory=dict[int, Array])
    pages: dict[int, Pages] = field(default_factory=dict[int, Pages])
    random: bool = False


def from_arrays(arguments: Sequence[Argument], given: Mapping[str, Any], rng: np.random.Generator) -> Inputs:
    """Data from arrays by name, as an `.npz` holds them: `arg<i>` or an argument's name for its elements, and for a
    page table `<name>.pages` with optional `<name>.place`, `.mapped` and `.base`.

    Raises XpagedError for names that no argument has, missing ones, and arrays that do not fit.
    """
    left = dict(given)
    inputs = Inputs()

    def take(arg: Argument, suffix: str = "") -> Any:
        for name in dict.fromkeys((f"arg{arg.index}{suffix}", f"{arg.name}{suffix}")):
            if name in left:
                try:
                    return np.asarray(left.pop(name))
                except ValueError as err:
                    raise XpagedError(f"input {name!r} is not an array", found=str(err)) from err
        return None

    for arg in arguments:
        if arg.is_table:
            inputs.pages[arg.index] = _given_pages(arg, take, rng)
        elif arg.is_input:
            values = take(arg)
            if values is None and arg.default is not None:
                values = np.array(arg.default, arg.dtype)
            if values is None:
                raise XpagedError(f"the inputs lack {_known_as(arg)}", expected=f"{arg.count} elements of {arg.dtype}")
            inputs.arrays[arg.index] = _in_memory_order(arg, values)
    if left:
        known = [n for a in arguments for n in (f"arg{a.index}", a.name) if a.is_input or a.is_table]
        known += [f"{n}.{part}" for n in known for part in ("pages", "place", "mapped", "base")]
        name = next(iter(left))
        raise XpagedError(f"no input is called {name!r}", fix=did_you_mean(name, known))
    return inputs


def _known_as(arg: Argument) -> str:
    return f"'arg{arg.index}'" + ("" if arg.name == f"arg{arg.index}" else f" (or '{arg.name}')")


def _in_memory_order(arg: Argument, values: Array) -> Array:
    """`values` as the flat buffer of `arg`: of the logical shape, or any other shape in memory order."""
    shape = _shape(arg.type)
    layout = getattr(arg.type, "memory_layout", None)
    if layout is not None and values.shape == shape and values.size == arg.count:
        there = layout()
        values = values.transpose(np.argsort(there.permutation))
    if values.size != arg.count:
        raise XpagedError(
            f"input {_known_as(arg)} has the wrong number of elements",
            found=f"{values.size} of shape {list(values.shape)}",
            expected=f"{arg.count} for {arg.type}",
        )
    return as_elements(values, arg.dtype, f"input {_known_as(arg)}").reshape(-1)


def as_elements(values: Array, dtype: np.dtype[Any], what: str) -> Array:
    """`values` as elements of `dtype`: of that type already, its bits as unsigned integers of the same width where
    NumPy has no such type (bf16, fp8), or float32 or float64 that is rounded."""
    if values.dtype == dtype:
        return values
    bits = np.dtype(f"u{dtype.itemsize}")
    if is_float(dtype) and dtype.kind != "f" and values.dtype == bits:
        return values.view(dtype)
    if is_float(dtype) and values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            return values.astype(dtype)
    if dtype.kind in "iu" and values.dtype.kind in "iu" and _fits(values, dtype):
        return values.astype(dtype)
    if dtype == np.bool_ and values.dtype.kind in "iu":
        return values != 0
    raise XpagedError(f"{what} has the wrong element type", found=str(values.dtype), expected=str(dtype))


def _fits(values: Array, dtype: np.dtype[Any]) -> bool:
    limits = np.iinfo(dtype)
    return not values.size or (int(values.min()) >= limits.min and int(values.max()) <= limits.max)


def _given_pages(arg: Argument, take: Any, rng: np.random.Generator) -> Pages:
    what, size, dtype = _known_as(arg), arg.page_size or 0, arg.page_dtype or arg.dtype
    data = take(arg, ".pages")
    if data is None:
        raise XpagedError(
            f"the inputs lack the pages of table {what}",
            expected=f"'arg{arg.index}.pages' of shape [{arg.count}, {size}], in table order",
        )
    if data.size != arg.count * size or (data.ndim and data.shape[-1] != size):
        raise XpagedError(
            f"the pages of table {what} have the wrong shape",
            found=list(data.shape),
            expected=f"{arg.count} pages of {size} elements: [{arg.count}, {size}]",
        )
    data = as_elements(data.reshape(arg.count, size), dtype, f"'arg{arg.index}.pages'")
    place, mapped, base = take(arg, ".place"), take(arg, ".mapped"), take(arg, ".base")
    place = rng.permutation(arg.count) if place is None else place.reshape(-1)
    if place.shape != (arg.count,) or place.dtype.kind not in "iu" or (place.size and int(place.min()) < 0):
        raise XpagedError(
            f"the places of table {what} must be one number of 0 or more an entry",
            found=f"{place.dtype} {list(place.shape)}",
            expected=f"{arg.count} integers",
        )
    if place.size and (int(place.max()) + 1) * size >= _MOST_ELEMENTS:
        raise XpagedError(f"a place of table {what} lies beyond any memory", found=int(place.max()))
    if base is not None and (base.size != 1 or base.dtype.kind not in "iu" or not 0 <= base.item() < 1 << 64):
        raise XpagedError(f"the base of table {what} must be one 64-bit address", found=f"{base.dtype} {base.tolist()}")
    mapped = np.ones(arg.count, np.bool_) if mapped is None else mapped.reshape(-1).astype(np.bool_)
    if mapped.shape != (arg.count,):
        raise XpagedError(f"'arg{arg.index}.mapped' must hold one flag an entry", found=list(mapped.shape))
    _check_shared(what, data, place, mapped)
    return Pages(data, place.astype(np.int64), mapped, None if base is None else int(base.item()))


def _check_shared(what: str, data: Array, place: Array, mapped: Array) -> None:
    """Entries that share a place must hold the same page."""
    order = np.argsort(place, kind="stable")
    order = order[mapped[order]]
    same = np.flatnonzero(place[order][1:] == place[order][:-1])
    for i in same:
        a, b = order[i], order[i + 1]
        if data[a].tobytes() != data[b].tobytes():
            raise XpagedError(f"entries {a} and {b} of table {what} share place {place[a]} but hold different pages")


@dataclass(frozen=True)
class Placed:
    """Arguments in memory: the values to call a function with, and where each buffer lies."""

    values: list[Any]
    bases: dict[int, int]


def place(arguments: Sequence[Argument], inputs: Inputs, memory: Memory, poison: bool) -> Placed:
    """Lays `inputs` out in `memory` for `arguments`; outputs and workspaces are filled with NaN.

    With `poison` random data get NaN in every dead element of a page, pages without any other are unmapped, and
    their entries hold garbage. Without it dead elements are finite and every page is mapped.
    """
    values: list[Any] = []
    bases: dict[int, int] = {}
    tables: dict[int, Array] = {}
    for arg in sorted((a for a in arguments if a.is_table), key=lambda a: inputs.pages[a.index].base is None):
        tables[arg.index] = _place_pages(arg, inputs.pages[arg.index], memory, poison, inputs.random)
    for arg in arguments:
        if arg.is_table:
            flat = tables[arg.index]
        else:
            flat = inputs.arrays[arg.index] if arg.is_input else None
        if not isinstance(arg.type, MemRefType):
            assert flat is not None
            values.append(arg.logical(flat))
            continue
        size = max(arg.count * arg.dtype.itemsize, 1)
        made = memory.allocate(size, name=arg.name, dtype=arg.dtype, fill=0 if flat is not None else _FILL)
        if flat is not None:
            memory.write_array(made.base, flat)
        bases[arg.index] = made.base
        at = np.array([made.base], np.uint64)
        values.append(MemRef(at, arg.dtype, arg.type.get_shape(), strides_of(arg.type)))
    return Placed(values, bases)


def _place_pages(arg: Argument, pages: Pages, memory: Memory, poison: bool, random: bool) -> Array:
    """Puts the pages of a table into memory and returns the table, `int64[entries]`."""
    data, mapped = page_contents(pages, poison, random)
    size = data.shape[1] * data.itemsize
    slots = int(pages.place.max(initial=-1)) + 1
    where: dict[str, Any] = {"align": page_alignment(size), "name": f"{arg.name}.place", "dtype": data.dtype}
    taken, inverse = np.unique(pages.place[mapped], return_inverse=True)
    if slots <= _FEW_EMPTY_PLACES * max(len(pages.place), 64):
        used = np.zeros(slots, np.bool_)
        used[taken] = True
        straddle = pages.base is None
        every = memory.allocate_many(slots, size, base=pages.base, straddle=straddle, mapped=used, **where)
        addresses = every[pages.place]
    else:
        addresses = np.zeros(len(pages.place), np.uint64)
        addresses[mapped] = memory.allocate_places(taken, size, base=pages.base, **where)[inverse]
    if mapped.any():
        elements = data.shape[1]
        contents = data[mapped] if elements > 1 else data[mapped, 0]
        memory.store(addresses[mapped], contents, elements)
        if pages.dead is not None and poison:
            alive = np.zeros((len(taken), data.shape[1]), np.bool_)
            np.logical_or.at(alive, inverse, ~pages.dead[mapped])  # entries may share a page
            memory.poison(addresses[mapped], ~alive[inverse], data.itemsize)
    return np.where(mapped, addresses, garbage_of(len(data), size)).view(np.int64)


def page_contents(pages: Pages, poison: bool, random: bool) -> tuple[Array, Array]:
    """What the pages of a table hold, and which of them exist, as `place` says."""
    data, mapped, dead = pages.data, pages.mapped, pages.dead
    if dead is not None and poison and random:
        mapped = mapped & ~dead.all(axis=1)
        data = np.where(dead, poison_of(data.dtype), data)
    elif not poison:
        unusable = ~mapped[:, None] if dead is None else dead | ~mapped[:, None]
        data = np.where(unusable & ~finite(data), np.zeros(1, data.dtype), data)
        mapped = np.ones_like(mapped)
    return data, mapped


def garbage_of(count: int, bytes: int) -> npt.NDArray[np.uint64]:
    """What the entries of a table with `count` pages of `bytes` bytes hold that lead nowhere."""
    return np.uint64(_GARBAGE) + np.arange(count, dtype=np.uint64) * np.uint64(bytes)


def poison_of(dtype: np.dtype[Any]) -> Array:
    """What dead memory holds: NaN, or for integers all ones."""
    return np.full(dtype.itemsize, _FILL, np.uint8).view(dtype)


def finite(values: Array) -> Array:
    """Where `values` of any type are neither NaN nor infinite."""
    if not is_float(values.dtype):
        return np.ones(values.shape, np.bool_)
    return np.isfinite(values if values.dtype.kind == "f" else values.astype(np.float32))
