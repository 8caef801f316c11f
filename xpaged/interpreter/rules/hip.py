"""hip: what one lane's program does, for all lanes of all workgroups at once.

Vectors are kept with the lanes as the fastest axis in memory (shape `(P, n)`, strides of `(n, P)` reversed): arithmetic
with one scalar a lane then runs over long rows. Register arrays are lists of such values, so that reading and setting
one copies nothing.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, MemRefType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from xpaged.arch.table import MatrixInstruction, instruction_named
from xpaged.dialects import hip
from xpaged.dialects.hip import element_of, lanes_of
from xpaged.errors import XpagedError
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value, rule, unary
from xpaged.interpreter.numerics import F32, Array, dtype_of, is_float, widen
from xpaged.interpreter.views import MemRef

I32 = np.dtype(np.int32)
_KEPT_OPERANDS = 16
"""How many operands one matrix instruction keeps in order, in case they come again."""


# ---- where a lane is


@rule(hip.WorkgroupIdOp)
def workgroup_id(op: hip.WorkgroupIdOp, b: Compiler) -> OpCode:
    def run(m: Machine) -> Array:
        ids = m.workgroup_id if len(m.groups) > 1 else m.groups
        return ids.astype(I32)

    return run


@rule(hip.LaneIdOp)
def lane_id(op: hip.LaneIdOp, b: Compiler) -> OpCode:
    def run(m: Machine) -> Array:
        return m.lane_id.astype(I32)

    return run


@rule(hip.WaveIdOp)
def wave_id(op: hip.WaveIdOp, b: Compiler) -> OpCode:
    def run(m: Machine) -> Array:
        return m.wave_id.astype(I32)

    return run


# ---- global memory and LDS


def _bytes(offset: Array, itemsize: int) -> Array:
    return (offset.astype(np.int64, copy=False) * itemsize).view(np.uint64)


def start_of(base: Value) -> Array:
    """The address (uint64) where a buffer, or a page, starts."""
    return base.base if isinstance(base, MemRef) else base.view(np.uint64)


def _address(base: Value, offset: Array, itemsize: int) -> Array:
    """The addresses (uint64) of elements at `offset` of a buffer or of pages that start at `base`."""
    return start_of(base) + _bytes(offset, itemsize)


def alignment(itemsize: int, count: int) -> int:
    """A vector of a power of two of bytes is aligned to its size, others to that of their elements."""
    width = itemsize * count
    return width if width & (width - 1) == 0 else itemsize


def access_mask(m: Machine, addresses: Array, mask: Array | None) -> Array | None:
    """The mask of an access: lanes that are active and whose own mask holds. Where a single address stands for all
    lanes, it is touched as soon as one of them is active."""
    if mask is None:
        return None if m.mask is None or addresses.shape[0] == 1 else m.mask
    if m.mask is None or (mask.shape[0] == 1 and addresses.shape[0] == 1):
        return mask
    return mask & m.mask


def check_inside(op: Operation, offset: Array, limit: int, mask: Array | None) -> None:
    """Refuse an LDS access that leaves its buffer: behind it lies another buffer, or another workgroup's."""
    wrong = (offset < 0) | (offset > limit)
    if mask is not None:
        wrong = wrong & mask
    if wrong.any():
        found = np.broadcast_to(offset, wrong.shape)[wrong]
        raise XpagedError(
            f"{op.name} leaves its LDS buffer", at=op, found=f"element offset {found[0]}", expected=f"0 .. {limit}"
        )


def elements(base: SSAValue) -> int:
    """The number of elements of a buffer."""
    assert isinstance(base.type, MemRefType)
    return prod(base.type.get_shape())


@rule(hip.LoadOp, hip.LdsLoadOp)
def load(op: hip.LoadOp | hip.LdsLoadOp, b: Compiler) -> OpCode:
    type_ = op.result.type
    storage, result, count = dtype_of(element_of(type_)), b.dtype(type_), lanes_of(type_)
    itemsize, align = storage.itemsize, alignment(storage.itemsize, count)
    limit = elements(op.base) - count if isinstance(op, hip.LdsLoadOp) else None

    def run(m: Machine, base: Value, offset: Array, mask: Array | None = None) -> Array:
        addresses = _address(base, offset, itemsize)
        mask = access_mask(m, addresses, mask)
        if limit is not None:
            check_inside(op, offset, limit, mask)
        loaded = m.memory.load(addresses, storage, count, mask, align)
        return loaded if result == storage else loaded.astype(result)

    return run


@rule(hip.StoreOp, hip.LdsStoreOp)
def store(op: hip.StoreOp | hip.LdsStoreOp, b: Compiler) -> OpCode:
    type_ = op.value.type
    storage, count = dtype_of(element_of(type_)), lanes_of(type_)
    itemsize, align = storage.itemsize, alignment(storage.itemsize, count)
    limit = elements(op.base) - count if isinstance(op, hip.LdsStoreOp) else None

    def run(m: Machine, value: Array, base: Value, offset: Array, mask: Array | None = None) -> None:
        addresses = _address(base, offset, itemsize)
        if value.shape[0] != 1 and addresses.shape[0] == 1:
            addresses = np.broadcast_to(addresses, value.shape[:1])
        mask = access_mask(m, addresses, mask)
        if limit is not None:
            check_inside(op, offset, limit, mask)
        m.memory.store(addresses, value.astype(storage, copy=False), count, mask, align)

    return run


@rule(hip.LdsAllocOp)
def lds_alloc(op: hip.LdsAllocOp, b: Compiler) -> OpCode:
    type_ = op.result.type
    assert isinstance(type_, MemRefType)
    shape, dtype = type_.get_shape(), dtype_of(type_.element_type)
    size, name = max(prod(shape) * dtype.itemsize, 1), op.result.name_hint or "lds"

    def run(m: Machine) -> MemRef:
        at = m.memory.allocate_many(len(m.groups), size, name=name, dtype=dtype, fill=0xFF)
        return MemRef.dense(at[m.group_index] if len(m.groups) > 1 else at, dtype, shape)

    return run


# ---- registers


class Registers:
    """A register array: `items[i]` is the value of element `i`, a list of scalars where a vector was set piecewise, or
    None where it is undefined. Arrays are never changed in place, so values that were read stay what they were."""

    __slots__ = ("items", "shadow", "undefined")

    def __init__(self, count: int, undefined: Array) -> None:
        self.items: list[Any] = [None] * count
        self.undefined = undefined
        self.shadow: list[Any] = []
        """What is known of each element under the memory court."""

    def vector(self, index: int) -> Array:
        """Element `index` as one array."""
        item = self.items[index]
        if item is None:
            return self.undefined
        if isinstance(item, list):
            item = self.items[index] = _stack(item)
        return item

    def pieces(self, index: int) -> list[Array]:
        """The scalars of element `index`; the caller may set entries of the list."""
        item = self.items[index]
        if not isinstance(item, list):
            vector = self.vector(index)
            item = self.items[index] = [vector[:, i] for i in range(vector.shape[1])]
        return item

    def merge(self, mask: Array, old: Value) -> Value:
        """Register arrays are places, not values: lanes cannot hold different ones."""
        raise XpagedError("lanes of one value hold different register arrays", fix="yield the elements instead")


def _stack(scalars: Sequence[Array]) -> Array:
    """Scalars `(P,)` or `(1,)` as one vector."""
    lanes = max(s.shape[0] for s in scalars)
    out = np.empty((len(scalars), lanes), scalars[0].dtype)
    for row, scalar in zip(out, scalars, strict=True):
        row[:] = scalar
    return out.T


def _poison(type_: Attribute, b: Compiler) -> Array:
    """What an undefined register holds: NaN, or a number that no address or count can be."""
    dtype = b.dtype(type_)
    lanes = lanes_of(type_)
    shape = (1, lanes) if isinstance(type_, VectorType) else (1,)
    if is_float(dtype):
        return np.full(shape, np.nan).astype(dtype)
    return np.full(shape, True if dtype == np.bool_ else np.iinfo(dtype).min // 3, dtype)


@rule(hip.RegsOp)
def regs(op: hip.RegsOp, b: Compiler) -> OpCode:
    type_ = op.result.type
    assert isinstance(type_, hip.RegsType)
    count, undefined = type_.count.data, _poison(type_.element, b)

    def run(m: Machine) -> Registers:
        return Registers(count, undefined)

    return run


Index = Callable[[Array], int]


def _index(op: Operation, index: SSAValue, limit: int) -> Index:
    """How to get the register number from its value: known when compiled, or the same in all lanes."""

    def checked(number: int) -> int:
        if not 0 <= number < limit:
            raise XpagedError(f"{op.name} leaves its register array", at=op, found=number, expected=f"0 .. {limit - 1}")
        return number

    owner = index.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        number = checked(owner.value.value.data)
        return lambda x: number

    def read(x: Array) -> int:
        if x.size > 1 and (x != x[0]).any():
            raise XpagedError("a register number differs between lanes", at=op, found=f"{x.min()} .. {x.max()}")
        return checked(int(x[0]))

    return read


def register_indices(op: hip.GetOp | hip.SetOp) -> list[Index]:
    """How to get the numbers of a register, and of an element of the vector in it, from the values of the indices."""
    type_ = op.regs.type
    assert isinstance(type_, hip.RegsType)
    limits = (type_.count.data, lanes_of(type_.element))
    return [_index(op, index, limit) for index, limit in zip(op.indices, limits, strict=False)]


@rule(hip.GetOp)
def get(op: hip.GetOp, b: Compiler) -> OpCode:
    match register_indices(op):
        case [at]:

            def get_whole(m: Machine, regs: Registers, index: Array) -> Array:
                item = regs.items[at(index)]
                return item if isinstance(item, np.ndarray) else regs.vector(at(index))

            return get_whole
        case [at, element]:

            def get_one(m: Machine, regs: Registers, index: Array, piece: Array) -> Array:
                item = regs.items[at(index)]
                if isinstance(item, list):
                    return item[element(piece)]
                return (regs.undefined if item is None else item)[:, element(piece)]

            return get_one
        case _:
            raise XpagedError("hip.get takes one index or two", at=op)


def _merged(m: Machine, new: Array, old: Array) -> Array:
    mask = m.mask
    if mask is None:
        return new
    return np.where(mask if new.ndim == 1 else mask[:, None], new, old)


@rule(hip.SetOp)
def set_(op: hip.SetOp, b: Compiler) -> OpCode:
    match register_indices(op):
        case [at]:

            def set_whole(m: Machine, value: Array, regs: Registers, index: Array) -> None:
                number = at(index)
                regs.items[number] = value if m.mask is None else _merged(m, value, regs.vector(number))

            return set_whole
        case [at, element]:

            def set_one(m: Machine, value: Array, regs: Registers, index: Array, piece: Array) -> None:
                pieces, number = regs.pieces(at(index)), element(piece)
                pieces[number] = _merged(m, value, pieces[number])

            return set_one
        case _:
            raise XpagedError("hip.set takes one index or two", at=op)


# ---- vectors


def _stack_parts(m: Machine, *parts: Array) -> Array:
    return _stack(parts)


@rule(hip.VectorOp)
def vector(op: hip.VectorOp, b: Compiler) -> OpCode:
    sizes = [lanes_of(p.type) for p in op.parts]
    if all(not isinstance(p.type, VectorType) for p in op.parts):
        return _stack_parts
    total, dtype = sum(sizes), b.dtype(op.result.type)

    def run(m: Machine, *parts: Array) -> Array:
        out = np.empty((total, max(p.shape[0] for p in parts)), dtype)
        start = 0
        for part, size in zip(parts, sizes, strict=True):
            out[start : start + size] = part.T
            start += size
        return out.T

    return run


@rule(hip.SplatOp)
def splat(op: hip.SplatOp, b: Compiler) -> OpCode:
    lanes = lanes_of(op.result.type)
    return unary(lambda x: np.broadcast_to(x[:, None], (x.shape[0], lanes)))


@rule(hip.SliceOp)
def slice_(op: hip.SliceOp, b: Compiler) -> OpCode:
    first = op.offset.value.data
    if not isinstance(op.result.type, VectorType):
        return unary(lambda x: x[:, first])
    last = first + lanes_of(op.result.type)
    return unary(lambda x: x[:, first:last])


# ---- operations of a wave


def waves_of(m: Machine, op: Operation) -> int:
    """The number of waves; refuses workgroups that are no whole number of them."""
    if m.lanes_per_group % m.wave_size:
        raise XpagedError(
            f"{op.name} works on whole waves",
            at=op,
            found=f"{m.lanes_per_group} lanes in a workgroup",
            expected=f"a multiple of {m.wave_size}",
        )
    return m.lanes // m.wave_size


def _whole_waves(m: Machine, op: Operation) -> None:
    """Refuse a mask that splits a wave."""
    if m.mask is not None:
        active = m.mask.reshape(waves_of(m, op), m.wave_size)
        if (active.any(1) != active.all(1)).any():
            raise XpagedError(
                f"{op.name} needs all lanes of a wave",
                at=op,
                found=f"{int(active[active.any(1) != active.all(1)][0].sum())} active lanes of {m.wave_size}",
                fix="move it out of the branch that only some lanes of a wave take",
            )


class _Operands:
    """Matrix operands in the order in which NumPy multiplies them, kept as long as the same array comes again.

    A lane holds `elements` values of row `l % rows` (of A; column, of B) in reduction group `l // rows`: `matrices` is
    the array as `[wave, row, elements * group + element]`. Of `copies` groups that count as one all must hold the
    same.
    """

    def __init__(self, op: hip.MmaOp, rows: int, instruction: MatrixInstruction, dtype: np.dtype[Any]) -> None:
        self.op = op
        self.rows = rows
        self.elements = instruction.elements
        self.copies = instruction.copies
        self.dtype = dtype
        self._kept: dict[int, tuple[Array, Array]] = {}

    def matrices(self, values: Array, waves: int, lanes: int) -> Array:
        """The operand as `[wave, row, k]`."""
        key = id(values)
        found = self._kept.get(key)
        if found is not None and found[0] is values:
            return found[1]
        if len(self._kept) == _KEPT_OPERANDS:
            del self._kept[next(iter(self._kept))]
        made = self._order(values, waves, lanes)
        self._kept[key] = values, made
        return made

    def _order(self, values: Array, waves: int, lanes: int) -> Array:
        rows, elements, itemsize = self.rows, self.elements, values.dtype.itemsize
        groups = lanes // waves // rows
        if values.shape[0] == 1:
            values = np.repeat(values, lanes, 0)
        if values.ndim == 1:
            values = values[:, None]
        if self.copies > 1:
            groups //= self.copies
            apart = values.reshape(waves, groups, self.copies, rows, elements)
            self._check_copies(apart)
            values = np.ascontiguousarray(apart[:, :, 0]).reshape(-1, elements)
        size = elements * itemsize
        if values.strides[1] == itemsize and size in (2, 4, 8):  # a lane's elements lie together, as they were loaded
            apart = values.view(f"u{size}").reshape(waves, groups, rows).transpose(0, 2, 1)
            return self._wide(np.ascontiguousarray(apart).view(values.dtype))
        apart = values.T.reshape(elements, waves, groups, rows).transpose(1, 2, 0, 3)
        return self._wide(np.ascontiguousarray(apart).reshape(waves, groups * elements, rows)).transpose(0, 2, 1)

    def _check_copies(self, apart: Array) -> None:
        """Refuse lanes that should hold the same and do not: `[wave, group, copy, row, element]`."""
        bits = np.ascontiguousarray(apart).view(f"u{apart.dtype.itemsize}")
        if (bits != bits[:, :, :1]).any():
            lane = int(np.argwhere(bits != bits[:, :, :1])[0][2:4] @ (self.rows, 1))
            raise XpagedError(
                "lanes that a matrix instruction takes the same operand from hold different ones",
                at=self.op,
                found=f"lane {lane} differs from lane {lane % self.rows}",
            )

    def _wide(self, values: Array) -> Array:
        wide = values if values.dtype.kind == "i" else widen(values)
        return wide if wide.dtype == self.dtype else wide.astype(self.dtype)


@rule(hip.MmaOp)
def mma(op: hip.MmaOp, b: Compiler) -> OpCode:
    instruction = instruction_named(op.instruction.data)
    assert instruction is not None  # the operation verifies
    return _mma(op, instruction, b.dtype(op.result.type))


def _mma(op: hip.MmaOp, instruction: MatrixInstruction, dtype: np.dtype[Any]) -> OpCode:
    rows, columns, registers = instruction.m, instruction.n, instruction.registers
    work = dtype if dtype.kind == "f" else F32  # whose sums of products of i8 are exact
    left = _Operands(op, rows, instruction, work)
    right = _Operands(op, columns, instruction, work)
    block = instruction.result_block

    def run(m: Machine, x: Array, y: Array, z: Array) -> Array:
        waves = waves_of(m, op)
        _whole_waves(m, op)
        product = np.matmul(left.matrices(x, waves, m.lanes), right.matrices(y, waves, m.lanes).transpose(0, 2, 1))
        if product.dtype != dtype:
            product = product.astype(dtype)
        groups = m.wave_size // columns
        # Groups take turns on blocks of rows: [wave, turn, group, row of the block, column].
        apart = product.reshape(waves, registers // block, groups, block, columns).transpose(1, 3, 0, 2, 4)
        out = apart.reshape(registers, m.lanes)
        return out.T + z if z.shape[0] == 1 else (out + z.T).T

    return run


@rule(hip.ExchangeOp)
def exchange(op: hip.ExchangeOp, b: Compiler) -> OpCode:
    xor = op.xor.value.data
    partners: dict[int, Array] = {}

    def run(m: Machine, x: Array) -> Array:
        if x.shape[0] == 1:
            return x
        partner = partners.get(m.lanes)
        if partner is None:
            if not 0 <= xor < m.wave_size:
                raise XpagedError("hip.exchange leaves the wave", at=op, found=xor, expected=f"0 .. {m.wave_size - 1}")
            waves_of(m, op)
            partner = partners[m.lanes] = np.arange(m.lanes) ^ xor
        if m.mask is not None and (m.mask & ~m.mask.take(partner)).any():
            raise XpagedError("hip.exchange reads lanes that are not active", at=op, fix="move it out of the branch")
        return x.take(partner, axis=0)

    return run


@rule(hip.UniformOp)
def uniform(op: hip.UniformOp, b: Compiler) -> OpCode:
    def run(m: Machine, x: Array) -> Array:
        if x.shape[0] == 1:
            return x
        by_wave = x.reshape(waves_of(m, op), m.wave_size, *x.shape[1:])
        if m.mask is None:
            first = by_wave[:, :1]
            wrong = by_wave != first
        else:
            active = m.mask.reshape(-1, m.wave_size)
            first = np.take_along_axis(by_wave, active.argmax(1).reshape(-1, *[1] * (by_wave.ndim - 1)), 1)
            wrong = (by_wave != first) & active.reshape(*active.shape, *[1] * (by_wave.ndim - 2))
        if wrong.any() and not _same_bits(by_wave, first, m):
            raise XpagedError("hip.uniform of a value that differs between the lanes of a wave", at=op)
        return np.broadcast_to(first, by_wave.shape).reshape(x.shape)

    return run


@rule(hip.AnyOp)
def any_(op: hip.AnyOp, b: Compiler) -> OpCode:
    def run(m: Machine, x: Array) -> Array:
        votes = x if m.mask is None else x & m.mask
        if votes.shape[0] == 1:
            return votes
        by_wave = votes.reshape(waves_of(m, op), m.wave_size)
        return np.repeat(by_wave.any(1), m.wave_size)

    return run


def _same_bits(by_wave: Array, first: Array, m: Machine) -> bool:
    """NaN differs from itself: compare the bits of the active lanes."""
    bits = np.dtype(f"u{by_wave.dtype.itemsize}")
    wrong = np.ascontiguousarray(by_wave).view(bits) != np.ascontiguousarray(first).view(bits)
    if m.mask is not None:
        active = m.mask.reshape(-1, m.wave_size)
        wrong = wrong & active.reshape(*active.shape, *[1] * (wrong.ndim - 2))
    return not wrong.any()


@rule(hip.Exp2Op)
def exp2(op: hip.Exp2Op, b: Compiler) -> OpCode:
    dtype = b.dtype(op.value.type)
    if dtype in (F32, np.float64):
        return unary(np.exp2)
    return unary(lambda x: np.exp2(widen(x)).astype(dtype))


# ---- order


@rule(hip.BarrierOp)
def barrier(op: hip.BarrierOp, b: Compiler) -> OpCode:
    def run(m: Machine) -> None:
        if m.mask is not None:
            active = m.mask.reshape(len(m.groups), m.lanes_per_group)
            if (active.any(1) != active.all(1)).any():
                raise XpagedError(
                    "hip.barrier is reached by only a part of a workgroup", at=op, fix="move it out of the branch"
                )

    return run


@rule(hip.SchedBarrierOp, hip.StageOp)
def mark(op: Operation, b: Compiler) -> OpCode:
    def run(m: Machine) -> None:
        """Marks for compilers and readers: nothing happens."""

    return run
