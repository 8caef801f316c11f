"""The hip dialect: the device level, one lane's program.

Values are scalars, short vectors and 64-bit page addresses.  Register arrays (`!hip.regs`) are the only mutable
things besides memory; their indices are constants or induction variables of loops marked `unroll`, so that every
element ends in a register.  Reads and writes of global memory take a base (a kernel argument or an i64 page address)
and an element offset; LDS has operations of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    UnitAttr,
    VectorType,
    f32,
    i1,
    i32,
)
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    param_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from xpaged.arch.table import instruction_named, instruction_names
from xpaged.dialects.hip_async import LoadLdsOp, WaitcntOp
from xpaged.dialects.hip_values import (
    LDS_ALIGNMENT,
    LDS_SPACE,
    Ordered,
    check_base,
    element_of,
    is_lds,
    lanes_of,
    lds_total,
)
from xpaged.errors import did_you_mean

__all__ = [
    "LDS_ALIGNMENT",
    "LDS_SPACE",
    "Hip",
    "LoadLdsOp",
    "WaitcntOp",
    "element_of",
    "is_lds",
    "lanes_of",
    "lds_total",
]


def _is_value(type_: Attribute) -> bool:
    return isinstance(element_of(type_), IntegerType | AnyFloat | IndexType)


@irdl_attr_definition
class RegsType(ParametrizedAttribute, TypeAttribute):
    """`!hip.regs<8 x vector<4xf16>>`: an array of registers of one lane, `count` values of type `element`."""

    name = "hip.regs"
    count: IntAttr = param_def()
    element: Attribute = param_def()

    @staticmethod
    def of(count: int, element: Attribute) -> RegsType:
        """An array type from a plain count."""
        return RegsType(IntAttr(count), element)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            count = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_keyword("x")
            return IntAttr(count), parser.parse_type()

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.count.data} x ")
            printer.print_attribute(self.element)

    def verify(self) -> None:
        if self.count.data <= 0:
            raise VerifyException(f"a register array needs a positive count, found {self.count.data}")
        if not _is_value(self.element):
            raise VerifyException(f"a register array holds scalars or vectors, found {self.element}")


class _IdOp(IRDLOperation):
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


@irdl_op_definition
class WorkgroupIdOp(_IdOp):
    """The number of this workgroup along x, 0 .. grid_size - 1."""

    name = "hip.workgroup_id"


@irdl_op_definition
class LaneIdOp(_IdOp):
    """The number of this lane in its wave, 0 .. wave_size - 1."""

    name = "hip.lane_id"


@irdl_op_definition
class WaveIdOp(_IdOp):
    """The number of this wave in its workgroup; the same for all lanes of a wave."""

    name = "hip.wave_id"


class _ReadOp(IRDLOperation):
    """What reads of global memory and of LDS share: `base[offset]`, in elements, perhaps under a mask."""

    base = operand_def()
    offset = operand_def(IntegerType)
    mask = opt_operand_def(i1)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$base `[` $offset `]` (`if` $mask^)? attr-dict `:` type($base) `,` type($offset) `->` type($result)"
    )

    def __init__(self, base: SSAValue, offset: SSAValue, result_type: Attribute, mask: SSAValue | None = None) -> None:
        super().__init__(operands=[base, offset, [] if mask is None else [mask]], result_types=[result_type])

    def verify_(self) -> None:
        check_base(self.base.type, self.result.type, self.name)


class _WriteOp(IRDLOperation):
    """What writes to global memory and to LDS share; operands as in `_ReadOp`."""

    value = operand_def()
    base = operand_def()
    offset = operand_def(IntegerType)
    mask = opt_operand_def(i1)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$value `,` $base `[` $offset `]` (`if` $mask^)? attr-dict `:` type($value) `,` type($base) `,` type($offset)"
    )

    def __init__(self, value: SSAValue, base: SSAValue, offset: SSAValue, mask: SSAValue | None = None) -> None:
        super().__init__(operands=[value, base, offset, [] if mask is None else [mask]])

    def verify_(self) -> None:
        check_base(self.base.type, self.value.type, self.name)


@irdl_op_definition
class LoadOp(_ReadOp):
    """Read a scalar or a vector of neighbouring elements from global memory.

    `base` is a kernel argument or an i64 address; `offset` counts elements of the result's element type.  With a
    mask, a lane whose mask is false touches no memory and gets 0.  A vector load is aligned to its size.
    """

    name = "hip.load"


@irdl_op_definition
class StoreOp(_WriteOp):
    """Write a scalar or a vector of neighbouring elements to global memory; operands as in `hip.load`."""

    name = "hip.store"


@irdl_op_definition
class LdsLoadOp(_ReadOp):
    """Read a scalar or a vector from LDS at an element offset; masked lanes get 0."""

    name = "hip.lds_load"


@irdl_op_definition
class LdsStoreOp(_WriteOp):
    """Write a scalar or a vector to LDS at an element offset."""

    name = "hip.lds_store"


class LdsBufferOp(IRDLOperation):
    """What allocations in LDS share at the tile and the device level."""

    result = result_def(MemRefType)
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, result_type: MemRefType) -> None:
        super().__init__(result_types=[result_type])

    def verify_(self) -> None:
        if not is_lds(self.result.type):
            raise VerifyException(f"{self.name} makes memrefs in memory space {LDS_SPACE}, found {self.result.type}")


@irdl_op_definition
class LdsAllocOp(LdsBufferOp):
    """A buffer in LDS, one for each workgroup; its contents are unwritten at the start."""

    name = "hip.lds_alloc"


@irdl_op_definition
class RegsOp(IRDLOperation):
    """A new register array; its elements are undefined until set."""

    name = "hip.regs"
    result = result_def(RegsType)
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, count: int, element: Attribute) -> None:
        super().__init__(result_types=[RegsType.of(count, element)])


@irdl_op_definition
class GetOp(IRDLOperation):
    """Element `index` of a register array; with a second index, one element of the vector that stands there."""

    name = "hip.get"
    regs = operand_def(RegsType)
    indices = var_operand_def(IntegerType)
    result = result_def()
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$regs `[` $indices `]` attr-dict `:` type($regs) `,` type($indices) `->` type($result)"

    def __init__(self, regs: SSAValue, *indices: SSAValue) -> None:
        type_ = regs.type
        assert isinstance(type_, RegsType)
        element = type_.element if len(indices) == 1 else element_of(type_.element)
        super().__init__(operands=[regs, list(indices)], result_types=[element])

    def verify_(self) -> None:
        _check_element(self.regs.type, len(self.indices), self.result.type, self.name)


@irdl_op_definition
class SetOp(IRDLOperation):
    """Set element `index` of a register array, or one element of the vector that stands there."""

    name = "hip.set"
    value = operand_def()
    regs = operand_def(RegsType)
    indices = var_operand_def(IntegerType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value `,` $regs `[` $indices `]` attr-dict `:` type($value) `,` type($regs) `,` type($indices)"

    def __init__(self, value: SSAValue, regs: SSAValue, *indices: SSAValue) -> None:
        super().__init__(operands=[value, regs, list(indices)])

    def verify_(self) -> None:
        _check_element(self.regs.type, len(self.indices), self.value.type, self.name)


def _check_element(regs: Attribute, indices: int, value: Attribute, name: str) -> None:
    assert isinstance(regs, RegsType)
    if indices not in (1, 2):
        raise VerifyException(f"{name} takes one index, or two for an element of a vector, found {indices}")
    expected = regs.element if indices == 1 else element_of(regs.element)
    if value != expected:
        raise VerifyException(f"{name}: the array holds {regs.element}, so the value is {expected}, found {value}")


@irdl_op_definition
class VectorOp(IRDLOperation):
    """A vector from its elements, or from vectors put one behind the other."""

    name = "hip.vector"
    parts = var_operand_def()
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$parts attr-dict `:` type($parts) `->` type($result)"

    def __init__(self, parts: Sequence[SSAValue]) -> None:
        total = sum(lanes_of(p.type) for p in parts)
        super().__init__(operands=[list(parts)], result_types=[VectorType(element_of(parts[0].type), [total])])

    def verify_(self) -> None:
        total = sum(lanes_of(p.type) for p in self.parts)
        if total != lanes_of(self.result.type):
            raise VerifyException(
                f"hip.vector: the parts hold {total} elements, the result {lanes_of(self.result.type)}"
            )
        for part in self.parts:
            if element_of(part.type) != element_of(self.result.type):
                raise VerifyException(f"hip.vector: cannot put {part.type} into {self.result.type}")


@irdl_op_definition
class SplatOp(IRDLOperation):
    """A vector whose elements are all the same scalar."""

    name = "hip.splat"
    value = operand_def()
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue, lanes: int) -> None:
        super().__init__(operands=[value], result_types=[VectorType(value.type, [lanes])])

    def verify_(self) -> None:
        if self.value.type != element_of(self.result.type):
            raise VerifyException(f"hip.splat: cannot put {self.value.type} into {self.result.type}")


@irdl_op_definition
class SliceOp(IRDLOperation):
    """Elements `offset .. offset + n - 1` of a vector; a scalar when the result type is one."""

    name = "hip.slice"
    value = operand_def(VectorType)
    offset = prop_def(IntegerAttr[I64])
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$value `at` $offset attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue, offset: int, lanes: int) -> None:
        element = element_of(value.type)
        result = element if lanes == 1 else VectorType(element, [lanes])
        super().__init__(operands=[value], properties={"offset": IntegerAttr(offset, 64)}, result_types=[result])

    def verify_(self) -> None:
        end = self.offset.value.data + lanes_of(self.result.type)
        if self.offset.value.data < 0 or end > lanes_of(self.value.type):
            raise VerifyException(f"hip.slice: elements up to {end} asked of {self.value.type}")
        if element_of(self.result.type) != element_of(self.value.type):
            raise VerifyException(f"hip.slice: {self.value.type} holds no {element_of(self.result.type)}")


@irdl_op_definition
class MmaOp(IRDLOperation):
    """One matrix instruction of a wave: D = A B + C; `instruction` names a row of the architecture table.

    All lanes of the wave take part; the lane layout of the operands is the instruction's.
    """

    name = "hip.mma"
    a = operand_def()
    b = operand_def()
    c = operand_def()
    instruction = prop_def(StringAttr)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = (
        "$instruction $a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `,` type($c) `->` type($result)"
    )

    def __init__(self, instruction: str, a: SSAValue, b: SSAValue, c: SSAValue) -> None:
        super().__init__(operands=[a, b, c], properties={"instruction": StringAttr(instruction)}, result_types=[c.type])

    def verify_(self) -> None:
        instruction = instruction_named(self.instruction.data)
        if instruction is None:
            guess = did_you_mean(self.instruction.data, instruction_names())
            raise VerifyException(f"hip.mma: unknown instruction {self.instruction}" + (f", {guess}" if guess else ""))
        operand = (instruction.operand, instruction.elements)
        accumulator = (instruction.accumulator, instruction.registers)
        given = (("a", self.a, operand), ("b", self.b, operand), ("c", self.c, accumulator))
        for name, value, expected in (*given, ("the result", self.result, accumulator)):
            if (str(element_of(value.type)), lanes_of(value.type)) != expected:
                raise VerifyException(
                    f"hip.mma: {name} of {instruction.name} is {expected[1]} x {expected[0]} a lane, found {value.type}"
                )


def _is_words(type_: Attribute) -> bool:
    """Whether values of a type are whole 32-bit words."""
    element = element_of(type_)
    if isinstance(type_, VectorType) and isinstance(element, AnyFloat | IntegerType) and element != i1:
        return element.bitwidth * lanes_of(type_) % 32 == 0
    return type_ in (f32, i32)


@irdl_op_definition
class ExchangeOp(IRDLOperation):
    """The value that lane `lane ^ xor` of the same wave holds (whole 32-bit words: f32, i32, vectors)."""

    name = "hip.exchange"
    value = operand_def()
    xor = prop_def(IntegerAttr[I64])
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$value `xor` $xor attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue, xor: int) -> None:
        super().__init__(operands=[value], properties={"xor": IntegerAttr(xor, 64)}, result_types=[value.type])

    def verify_(self) -> None:
        if self.value.type != self.result.type or not _is_words(self.value.type):
            raise VerifyException(f"hip.exchange moves whole 32-bit words, found {self.value.type}")
        if self.xor.value.data < 1:
            raise VerifyException(f"hip.exchange: a lane is another one's partner, found xor {self.xor.value.data}")


@irdl_op_definition
class Exp2Op(IRDLOperation):
    """2^x by the hardware's own instruction, f32 scalars or vectors (denormal results may be flushed)."""

    name = "hip.exp2"
    value = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue) -> None:
        super().__init__(operands=[value], result_types=[value.type])

    def verify_(self) -> None:
        if not isinstance(element_of(self.value.type), AnyFloat):
            raise VerifyException(f"hip.exp2 takes floats, found {self.value.type}")
        _check_same(self.value.type, self.result.type, self.name)


@irdl_op_definition
class UniformOp(IRDLOperation):
    """A value that is the same in all lanes of a wave, moved to a scalar register (readfirstlane)."""

    name = "hip.uniform"
    value = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue) -> None:
        super().__init__(operands=[value], result_types=[value.type])

    def verify_(self) -> None:
        _check_same(self.value.type, self.result.type, self.name)


@irdl_op_definition
class AnyOp(IRDLOperation):
    """Whether a condition holds in any active lane of the wave: the same for all of them (a vote)."""

    name = "hip.any"
    condition = operand_def(i1)
    result = result_def(i1)
    traits = traits_def(Pure())
    assembly_format = "$condition attr-dict"

    def __init__(self, condition: SSAValue) -> None:
        super().__init__(operands=[condition], result_types=[i1])


def _check_same(value: Attribute, result: Attribute, name: str) -> None:
    if value != result:
        raise VerifyException(f"{name}: the result is of the type of its operand, {value}, found {result}")


class _MarkOp(IRDLOperation):
    traits = traits_def(Ordered())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class BarrierOp(_MarkOp):
    """All lanes of the workgroup meet; LDS and global writes before it are seen after it."""

    name = "hip.barrier"


@irdl_op_definition
class SchedBarrierOp(_MarkOp):
    """No instruction is scheduled across it by the compiler."""

    name = "hip.sched_barrier"


@irdl_op_definition
class StageOp(IRDLOperation):
    """Names the part of the kernel that follows; becomes a comment in the text."""

    name = "hip.stage"
    title = prop_def(StringAttr)
    note = opt_prop_def(StringAttr)
    traits = traits_def(Ordered())
    assembly_format = "$title (`note` $note^)? attr-dict"

    def __init__(self, title: str, note: str | None = None) -> None:
        super().__init__(properties={"title": StringAttr(title), "note": StringAttr(note) if note else None})


UNROLL = "unroll"  # attribute of scf.for: the loop is unrolled in full


def mark_unroll(loop: Operation) -> None:
    """Mark a loop to be unrolled in full."""
    loop.attributes[UNROLL] = UnitAttr()


Hip = Dialect(
    "hip",
    [
        WorkgroupIdOp,
        LaneIdOp,
        WaveIdOp,
        LoadOp,
        StoreOp,
        LdsAllocOp,
        LdsLoadOp,
        LdsStoreOp,
        LoadLdsOp,
        WaitcntOp,
        RegsOp,
        GetOp,
        SetOp,
        VectorOp,
        SplatOp,
        SliceOp,
        MmaOp,
        ExchangeOp,
        Exp2Op,
        UniformOp,
        AnyOp,
        BarrierOp,
        SchedBarrierOp,
        StageOp,
    ],
    [RegsType],
)
