"""The expressions of the hip dialect in C: memory, registers, vectors, and what the lanes of a wave do together."""

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from xpaged.codegen import c_expr as c
from xpaged.codegen.c_expr import MEMORY, Expr
from xpaged.codegen.hip_context import Builder, Context, c_type, element_type, size_of, unknown
from xpaged.dialects import hip
from xpaged.dialects.hip import element_of, lanes_of
from xpaged.errors import XpagedError

GLOBAL_MEMORY = f"{MEMORY}global"
LDS_MEMORY = f"{MEMORY}LDS"
_OFFSETS = 1 << 32  # bytes that a 32-bit offset reaches


# ---- memory


def global_offset(e: Context, op: hip.LoadOp | hip.StoreOp, offset: Expr, type_: Attribute) -> tuple[bool, Expr]:
    """Whether an access needs 64-bit offsets, and its offset. 32 bits are enough when the size of the buffer or page,
    or the range of the offset, says so."""
    bytes_ = size_of(element_of(type_), op)
    limit = e.page_bytes
    if isinstance(op.base.type, MemRefType):
        limit = bytes_
        for extent in op.base.type.get_shape():
            limit = None if extent < 0 or limit is None else limit * extent
    found = e.ranges.of(op.offset)
    near = (limit is not None and limit <= _OFFSETS) or (found.nonnegative and found.hi * bytes_ < _OFFSETS)
    if near:
        return False, c.cast("u32", offset) if offset.type in ("i64", "u64") and offset.literal is None else offset
    return True, e.signed(offset, op.offset)


def check_access(op: Operation, type_: Attribute) -> None:
    """Refuse sizes that no load or store instruction has."""
    size = size_of(type_, op)
    if size > 16 or size & (size - 1):
        raise XpagedError(
            f"{op.name} moves {size} bytes at once", at=op, expected="1, 2, 4, 8 or 16", fix="split the vector"
        )


def _load(e: Context, op: hip.LoadOp, operands: Sequence[Expr]) -> Expr:
    base, offset, *mask = operands
    check_access(op, op.result.type)
    far, offset = global_offset(e, op, offset, op.result.type)
    type_ = c_type(op.result.type, op)
    if type_ == "i64":
        type_ = "u64"  # an address, as a rule
    if op.base in e.read_only and not isinstance(op.result.type, VectorType) and not far:
        found = c.call(e.prelude.use("lookup"), type_, base, offset)
    else:
        function = e.prelude.use("load_far" if far else "load")
        offsets = (offset,) if far or offset.split is None else offset.split
        found = c.call(f"{function}<{e.prelude.type(type_)}>", type_, base, *offsets)
    return _masked(e, op, replace(found, reads=found.reads | {GLOBAL_MEMORY}), mask)


def _masked(e: Context, op: hip.LoadOp | hip.LdsLoadOp, found: Expr, mask: Sequence[Expr]) -> Expr:
    """A read that touches memory only where its mask holds."""
    if not mask:
        return found
    type_ = c_type(op.result.type, op)
    if isinstance(op.result.type, VectorType):
        zero = Expr(f"{type_}(0)", c.POSTFIX, type_)
    elif type_ in ("float", "double", "f16"):
        zero = c.real(0.0, type_)
    else:
        zero = c.integer(0, "int" if type_ == "i64" else type_)
    return c.conditional(mask[0], found, zero, found.type)


def lds_place(e: Context, op: hip.LdsLoadOp | hip.LdsStoreOp, type_: Attribute, base: Expr, offset: Expr) -> Expr:
    """An element of an LDS array, or the vector that begins there; can be assigned to."""
    check_access(op, type_)
    shown = e.prelude.type(c_type(type_, op))
    if isinstance(type_, VectorType):
        return c.call(f"{e.prelude.use('at')}<{shown}>", shown, base, offset)
    return c.compose(f"{base.text}[{offset.text}]", c.POSTFIX, shown, base, offset)


def _lds_load(e: Context, op: hip.LdsLoadOp, operands: Sequence[Expr]) -> Expr:
    base, offset, *mask = operands
    found = lds_place(e, op, op.result.type, base, offset)
    return _masked(e, op, replace(found, reads=found.reads | {LDS_MEMORY}), mask)


# ---- registers and vectors


def register(regs: SSAValue, operands: Sequence[Expr], type_: str) -> Expr:
    """An element of a register array (or of the vector that stands there); can be assigned to. An array of one is a
    plain variable."""
    array, *indices = operands
    assert isinstance(regs.type, hip.RegsType)
    text = array.text if regs.type.count.data == 1 else f"{array.text}[{indices[0].text}]"
    found = c.compose(text, c.POSTFIX, type_, *operands)
    if len(indices) == 2:
        lanes, literal = lanes_of(regs.type.element), indices[1].literal
        if literal is not None:
            found = replace(c.element(found, literal, lanes, type_), collective=found.collective)
        else:
            found = replace(found, text=f"{text}[{indices[1].text}]")
    return replace(found, reads=found.reads | {array.text})


def _get(e: Context, op: hip.GetOp, operands: Sequence[Expr]) -> Expr:
    return register(op.regs, operands, e.type(op.result))


def _vector(e: Context, op: hip.VectorOp, operands: Sequence[Expr]) -> Expr:
    type_ = e.type(op.result)
    if is_joined(op):
        return c.call(e.prelude.join(e.type(op.parts[0]), type_), type_, *operands)
    shown: list[str] = []
    for part, expr in zip(op.parts, operands, strict=True):
        if isinstance(part.type, VectorType):
            lanes, element = lanes_of(part.type), element_type(part.type, op)
            shown += [c.element(expr, i, lanes, element).text for i in range(lanes)]
        else:
            shown.append(c.signed(expr).text)
    return c.compose(f"{type_}{{{', '.join(shown)}}}", c.POSTFIX, type_, *operands)


def is_joined(op: hip.VectorOp) -> bool:
    """Whether a vector is made of two equal ones, whose elements then need not be named."""
    first = op.parts[0].type
    return len(op.parts) == 2 and isinstance(first, VectorType) and first == op.parts[1].type


def _splat(e: Context, op: hip.SplatOp, operands: Sequence[Expr]) -> Expr:
    type_, scalar = e.type(op.result), c.signed(operands[0])
    shown = "0" if scalar.text in ("0.0f", "(f16)0.0f") else scalar.text
    return replace(c.compose(f"{type_}({shown})", c.POSTFIX, type_, scalar), scalar=scalar)


def _halves(first: int, lanes: int, total: int) -> str | None:
    """Elements `first ..` of a vector as halves of halves of it; None when they are none."""
    text = ""
    while total > lanes and total % 2 == 0:
        total //= 2
        text += ".hi" if first >= total else ".lo"
        first %= total
    return text if total == lanes and first == 0 else None


def _slice(e: Context, op: hip.SliceOp, operands: Sequence[Expr]) -> Expr:
    (vector,), total = operands, lanes_of(op.value.type)
    first, lanes, type_ = op.offset.value.data, lanes_of(op.result.type), e.type(op.result)
    if not isinstance(op.result.type, VectorType):
        return c.element(vector, first, total, type_)
    if lanes == total:
        return vector
    halves = _halves(first, lanes, total)
    if halves is not None:
        return c.compose(vector.at(c.POSTFIX) + halves, c.POSTFIX, type_, vector)
    numbers = ", ".join(str(first + i) for i in range(lanes))
    text = f"__builtin_shufflevector({vector.text}, {vector.text}, {numbers})"
    return c.compose(text, c.POSTFIX, type_, vector)


# ---- lanes, waves, workgroups

_THREAD = Expr("__builtin_amdgcn_workitem_id_x()", c.POSTFIX, "u32")


def _workgroup_id(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
    return Expr("__builtin_amdgcn_workgroup_id_x()", c.POSTFIX, "u32")


def _lane_id(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
    if e.block <= e.arch.wave_size:
        return _THREAD
    return c.binary("%", _THREAD, c.integer(e.arch.wave_size, "int"), "u32")


def _wave_id(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
    number = c.binary("/", _THREAD, c.integer(e.arch.wave_size, "int"), "u32")
    return c.call("__builtin_amdgcn_readfirstlane", "int", number, collective=True)


def _mma(e: Context, op: hip.MmaOp, operands: Sequence[Expr]) -> Expr:
    instruction = e.arch.instruction(op.instruction.data)
    return c.call(e.prelude.mma(instruction), e.type(op.result), *operands, collective=True)


def _exchange(e: Context, op: hip.ExchangeOp, operands: Sequence[Expr]) -> Expr:
    mask, type_ = op.xor.value.data, e.type(op.result)
    if not 0 < mask < e.arch.wave_size:
        raise XpagedError("hip.exchange leaves the wave", at=op, found=mask, expected=f"1 .. {e.arch.wave_size - 1}")
    words = size_of(op.result.type, op) // 4
    return c.call(e.prelude.lane_xor(mask, type_, words), type_, c.signed(operands[0]), collective=True)


def _uniform(e: Context, op: hip.UniformOp, operands: Sequence[Expr]) -> Expr:
    type_ = c_type(op.result.type, op)
    (a,) = operands
    if type_ == "i64":
        a, type_ = c.unsigned(a), "u64"
    elif type_ in ("int", "float"):
        a = c.signed(a)
    else:
        raise unknown(op, f"hip.uniform on {op.result.type}")
    return c.call(e.prelude.use(f"uniform:{type_}"), type_, a, collective=True)


def _any(e: Context, op: hip.AnyOp, operands: Sequence[Expr]) -> Expr:
    return c.call(e.prelude.use(f"any:{e.arch.wave_size}"), "bool", *operands, collective=True)


OPERATIONS: dict[type[Operation], Builder] = {
    hip.WorkgroupIdOp: _workgroup_id,
    hip.LaneIdOp: _lane_id,
    hip.WaveIdOp: _wave_id,
    hip.LoadOp: _load,
    hip.LdsLoadOp: _lds_load,
    hip.GetOp: _get,
    hip.VectorOp: _vector,
    hip.SplatOp: _splat,
    hip.SliceOp: _slice,
    hip.MmaOp: _mma,
    hip.ExchangeOp: _exchange,
    hip.UniformOp: _uniform,
    hip.AnyOp: _any,
}
