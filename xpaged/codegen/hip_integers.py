"""Integer operations in C.

MLIR's integers have no sign and wrap. Here they are `int` (`i64`), and an expression turns unsigned where its operation
is unsigned or the ranges do not exclude that it overflows. Variables are always signed again, so that comparisons read
as they do in MLIR.
"""

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType, VectorType
from xdsl.ir import Operation

from xpaged.codegen import c_expr as c
from xpaged.codegen.c_expr import Expr
from xpaged.codegen.hip_context import Builder, Context, c_type, unknown, without_splats

SMALL = ("i8", "i16")
"""Types that C computes in `int`."""


def _is_vector(op: Operation) -> bool:
    return isinstance(op.results[0].type, VectorType)


def _on_unsigned_vectors(e: Context, op: Operation, a: Expr, b: Expr, operator: str) -> Expr:
    type_ = e.type(op.results[0])
    unsigned = e.prelude.type(f"u{type_[1:]}")
    return c.cast(type_, c.binary(operator, c.cast(unsigned, a), c.cast(unsigned, b), unsigned))


def _wrapping(operator: str) -> Builder:
    """A sum, difference, product or left shift."""

    def build(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
        a, b = operands
        type_, wraps = e.type(op.results[0]), e.ranges.wraps(op)
        if type_ == "bool":
            raise unknown(op, f"{op.name} on i1")
        if _is_vector(op):
            if wraps:
                return _on_unsigned_vectors(e, op, a, b, operator)
            return c.binary(operator, *without_splats(a, b), type_)
        if type_ in SMALL:
            return c.cast(type_, c.binary(operator, c.unsigned(a) if wraps else a, b, "int"))
        if wraps:
            a = c.unsigned(a)
        shift = operator == "<<"
        if operator == "+" and b.literal is not None and -(1 << 31) < b.literal < 0:
            return c.binary("-", a, c.integer(-b.literal, b.type), a.type)
        mixed = a.type if shift or a.type in c.UNSIGNED else b.type
        positive = operator == "+" and not wraps and e.nonnegative(*op.operands)
        if a.literal is not None and b.literal is not None:  # C would compute it in the types of the literals
            a = c.cast(a.type, a)
        found = replace(c.binary(operator, a, b, mixed, reassociate=positive and b.sum), sum=positive)
        parts = e.offsets.parts(op.results[0])
        return found if parts is None else replace(found, split=_split(a, b, parts[0] is op.operands[0]))

    return build


def _split(a: Expr, b: Expr, first: bool) -> tuple[Expr, Expr]:
    """The parts of a sum of which `a` (`first`) or `b` is not static."""
    rest, static = (a, b) if first else (b, a)
    if rest.split is None:
        return rest, static
    rest, before = rest.split
    return rest, c.binary("+", before, static, before.type, reassociate=static.sum)


def _unsigned(operator: str) -> Builder:
    """A division, remainder or right shift of unsigned numbers."""

    def build(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
        a, b = operands
        type_ = e.type(op.results[0])
        if type_ == "bool":
            raise unknown(op, f"{op.name} on i1")
        if _is_vector(op):
            return _on_unsigned_vectors(e, op, a, b, operator)
        if type_ in SMALL:
            return c.cast(type_, c.binary(operator, c.unsigned(a), c.unsigned(b), "int"))
        if operator == ">>":
            a = a if e.nonnegative(op.operands[0]) else c.unsigned(a)
            return c.binary(operator, a, b, a.type)
        b = c.unsigned(b)  # C then takes a as unsigned, too
        return c.binary(operator, a, b, b.type)

    return build


def _signed(operator: str) -> Builder:
    """A division, remainder or right shift of signed numbers."""

    def build(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
        type_ = e.type(op.results[0])
        if type_ == "bool":
            raise unknown(op, f"{op.name} on i1")
        a, b = (e.signed(x, value) for x, value in zip(operands, op.operands, strict=True))
        if operator == ">>":
            return c.binary(operator, a, b, a.type)
        if not e.nonnegative(*op.operands):  # else one unsigned operand would make both unsigned
            a, b = c.signed(a), c.signed(b)
        found = c.binary(operator, a, b, b.type if b.type in c.UNSIGNED else a.type)
        return c.cast(type_, found) if type_ in SMALL else found

    return build


def _bitwise(operator: str, logical: str) -> Builder:
    def build(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
        a, b = operands
        type_ = e.type(op.results[0])
        if type_ == "bool":
            return _logical(a, b, operator, logical)
        if _is_vector(op):
            return c.binary(operator, a, b, type_)
        if type_ in SMALL:
            return c.cast(type_, c.binary(operator, a, b, "int"))
        return c.binary(operator, a, b, a.type if a.type in c.UNSIGNED else b.type)

    return build


def _logical(a: Expr, b: Expr, operator: str, logical: str) -> Expr:
    """An operation of truth values; both sides are evaluated where a branch could matter."""
    if operator == "^":
        for x, y in ((a, b), (b, a)):
            if y.literal is not None:
                return c.prefix("!", x, "bool") if y.literal else x
    elif b.collective or b.reads_memory:
        return c.binary(operator, a, b, "bool")
    return c.binary(logical, a, b, "bool")


def _extreme(name: str, *, unsigned: bool = False) -> Builder:
    """A minimum or maximum: `imin` of int, `lmin` of i64, `umin` and `ulmin` of unsigned ones."""

    def build(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
        type_ = e.type(op.results[0])
        if _is_vector(op) or type_ == "bool":
            raise unknown(op, f"{op.name} on {op.results[0].type}")
        as_unsigned = unsigned and not e.nonnegative(*op.operands)
        function = ("u" if as_unsigned else "") + ("l" if type_ == "i64" else "" if as_unsigned else "i") + name
        result = "i64" if type_ == "i64" else "int"
        if as_unsigned:
            operands = [c.unsigned(a) for a in operands]
            result = c.SIGNED[result]
        found = c.call(e.prelude.use(function), result, *operands)
        return c.cast(type_, found) if type_ in SMALL else found

    return build


def _rounded(function: str, *, unsigned: bool = False) -> Builder:
    """A division that rounds up or down."""

    def build(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
        type_ = e.type(op.results[0])
        if _is_vector(op) or type_ == "bool":
            raise unknown(op, f"{op.name} on {op.results[0].type}")
        shown = c.SIGNED[type_] if unsigned else type_
        found = c.call(f"{e.prelude.use(function)}<{shown}>", shown, *operands)
        return c.cast(type_, found) if type_ in SMALL else found

    return build


_OPERATORS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _compare(e: Context, op: arith.CmpiOp, operands: Sequence[Expr]) -> Expr:
    a, b = operands
    predicate = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    if isinstance(op.lhs.type, VectorType):
        raise unknown(op, "comparisons of vectors")
    small = c_type(op.lhs.type, op) in SMALL
    if not e.nonnegative(op.lhs, op.rhs):  # else signed, unsigned and mixed comparisons say the same
        if predicate.startswith("s") or (small and not predicate.startswith("u")):
            a, b = c.signed(a), c.signed(b)
        elif predicate.startswith("u"):
            a, b = c.unsigned(a), c.unsigned(b)
    return c.binary(_OPERATORS[predicate[-2:]], a, b, "bool")


def _convert(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
    """A cast between integer types, `index` (64 bits) among them."""
    (a,), value = operands, op.operands[0]
    type_ = e.type(op.results[0])
    known = e.ranges.of(op.results[0])
    if a.literal is not None and known.lo == known.hi:
        return c.integer(known.lo, type_)
    if type_ == "bool":  # keeps the lowest bit
        return c.binary("!=", c.binary("&", a, c.integer(1, "int"), a.type), c.integer(0, "int"), "bool")
    if a.type == "bool":
        found = c.cast(type_, a)
        return c.prefix("-", found, type_) if isinstance(op, arith.ExtSIOp) else found
    if isinstance(op, arith.ExtUIOp):
        a = a if e.nonnegative(value) else c.unsigned(a)
    elif isinstance(op, arith.ExtSIOp | arith.IndexCastOp):
        a = e.signed(a, value)
    return a if a.type == type_ else c.cast(type_, a)


def _bitcast(e: Context, op: arith.BitcastOp, operands: Sequence[Expr]) -> Expr:
    type_ = e.type(op.result)
    if "bool" in (type_, operands[0].type) or isinstance(op.input.type, MemRefType):
        raise unknown(op, f"the bitcast from {op.input.type} to {op.result.type}")
    return c.call(f"{e.prelude.use('bits')}<{type_}>", type_, operands[0])


INTEGERS: dict[type[Operation], Builder] = {
    arith.AddiOp: _wrapping("+"),
    arith.SubiOp: _wrapping("-"),
    arith.MuliOp: _wrapping("*"),
    arith.ShLIOp: _wrapping("<<"),
    arith.DivUIOp: _unsigned("/"),
    arith.RemUIOp: _unsigned("%"),
    arith.ShRUIOp: _unsigned(">>"),
    arith.DivSIOp: _signed("/"),
    arith.RemSIOp: _signed("%"),
    arith.ShRSIOp: _signed(">>"),
    arith.FloorDivSIOp: _rounded("floor_div"),
    arith.CeilDivSIOp: _rounded("ceil_div"),
    arith.CeilDivUIOp: _rounded("ceil_div", unsigned=True),
    arith.MinSIOp: _extreme("min"),
    arith.MaxSIOp: _extreme("max"),
    arith.MinUIOp: _extreme("min", unsigned=True),
    arith.MaxUIOp: _extreme("max", unsigned=True),
    arith.AndIOp: _bitwise("&", "&&"),
    arith.OrIOp: _bitwise("|", "||"),
    arith.XOrIOp: _bitwise("^", "!="),
    arith.ExtSIOp: _convert,
    arith.ExtUIOp: _convert,
    arith.TruncIOp: _convert,
    arith.IndexCastOp: _convert,
    arith.BitcastOp: _bitcast,
    arith.CmpiOp: _compare,
}
