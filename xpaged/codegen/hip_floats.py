"""Floating-point operations in C.

f32 and f16 (and f64) are the compiler's own types. bf16 travels as 16-bit integers, since clang 15 has no such type:
arithmetic on it is done in f32 and rounded, which is the nearest bf16 to the exact result. A function that would need
a device library is refused.
"""

from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, VectorType
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation

from xpaged.codegen import c_expr as c
from xpaged.codegen.c_expr import Expr
from xpaged.codegen.hip_context import Builder, Context, c_type, converted, element_type, unknown, without_splats
from xpaged.codegen.hip_prelude import vector_type
from xpaged.dialects import hip

REPEATING = (arith.CmpfOp,)
"""Operations whose text may name an operand twice."""


def _constant(e: Context, op: arith.ConstantOp, operands: Sequence[Expr]) -> Expr:
    type_ = e.type(op.result)
    value = op.value
    if isinstance(value, IntegerAttr):
        return c.integer(e.ranges.of(op.result).lo, type_)
    if isinstance(value, FloatAttr):
        return _real(e, value.value.data, type_)
    if isinstance(value, DenseIntOrFPElementsAttr):
        element = element_type(op.result.type, op)
        values = value.get_values()
        if value.is_splat():
            scalar = _number(e, values[0], element)
            plain = values[0] == 0 and not str(values[0]).startswith("-")
            return Expr(f"{type_}({'0' if plain else scalar.text})", c.POSTFIX, type_, scalar=scalar)
        return Expr(f"{type_}{{{', '.join(_number(e, v, element).text for v in values)}}}", c.POSTFIX, type_)
    raise unknown(op, f"the constant {value}")


def _number(e: Context, value: object, type_: str) -> Expr:
    assert isinstance(value, int | float)
    if isinstance(value, int) and type_ in c.SIGNED:
        return c.integer(value, type_)
    return _real(e, float(value), type_)


def _real(e: Context, value: float, type_: str) -> Expr:
    if type_ == "bf16":
        return converted(e, _real(e, value, "float"), type_)
    found = c.real(value, type_)
    if "NEG_INF" in found.text:
        e.prelude.use("NEG_INF")
    return found


def _single(type_: str) -> str:
    """The type of as many floats in f32."""
    return vector_type("float", int(type_.split("x")[1])) if "x" in type_ else "float"


def _widened(e: Context, type_: str, operands: Sequence[Expr]) -> tuple[str, Sequence[Expr]]:
    """The type to compute in, and the operands in it: f32 for bf16."""
    if not type_.startswith("bf16"):
        return type_, operands
    return _single(type_), [converted(e, a, _single(type_)) for a in operands]


def _operator(operator: str) -> Builder:
    def build(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
        type_ = e.type(op.results[0])
        work, (a, b) = _widened(e, type_, operands)
        if isinstance(op.results[0].type, VectorType):
            a, b = without_splats(a, b)
        return converted(e, c.binary(operator, a, b, work), type_)

    return build


def _negf(e: Context, op: arith.NegfOp, operands: Sequence[Expr]) -> Expr:
    type_ = e.type(op.result)
    work, (a,) = _widened(e, type_, operands)
    return converted(e, c.prefix("-", a, work), type_)


def _function(name: str) -> Builder:
    """A function that is computed in f32; of f16 and bf16 where that cannot round twice."""

    def build(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
        type_ = e.type(op.results[0])
        element = element_type(op.results[0].type, op)
        if element == "float":
            return c.call(e.prelude.overload(name, "float", type_, len(operands)), type_, *operands)
        if element in ("f16", "bf16") and not isinstance(op, math.FmaOp):
            single = _single(type_)
            wide = [converted(e, a, single) for a in operands]
            found = c.call(e.prelude.overload(name, "float", single, len(operands)), single, *wide)
            return converted(e, found, type_)
        raise unknown(op, f"{op.name} on {op.results[0].type}")

    return build


def _no_nan(op: Operation) -> bool:
    """Whether an operation says that it does not matter what it makes of NaN."""
    flags = op.attributes.get("fastmath")
    return isinstance(flags, arith.FastMathFlagsAttr) and FastMathFlag.NO_NANS in flags.data


def _convert(e: Context, op: arith.ExtFOp | arith.TruncFOp, operands: Sequence[Expr]) -> Expr:
    ends = element_type(op.input.type, op), element_type(op.result.type, op)
    if ends == ("double", "bf16"):  # by way of f32 it would be rounded twice
        raise unknown(op, f"the conversion from {op.input.type} to {op.result.type}")
    return converted(e, operands[0], e.type(op.result), number=_no_nan(op))


def _from_integer(*, unsigned: bool) -> Builder:
    def build(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
        (a,), value = operands, op.operands[0]
        type_ = e.type(op.results[0])
        if unsigned:
            a = a if e.nonnegative(value) else c.unsigned(a)
        elif a.type == "bool":
            a = c.prefix("-", c.cast("int", a), "int")
        else:
            a = e.signed(a, value)
        work = "float" if type_ == "bf16" else type_
        return converted(e, c.cast(work, a), type_)

    return build


def _to_integer(*, unsigned: bool) -> Builder:
    def build(e: Context, op: Operation, operands: Sequence[Expr]) -> Expr:
        type_ = e.type(op.results[0])
        if type_ not in c.SIGNED:
            raise unknown(op, f"the conversion from {op.operands[0].type} to {op.results[0].type}")
        _, (a,) = _widened(e, operands[0].type, operands)
        return c.cast(c.SIGNED[type_] if unsigned else type_, a)

    return build


_ORDERED = {"oeq": "==", "ogt": ">", "oge": ">=", "olt": "<", "ole": "<=", "une": "!="}
_UNORDERED = {"ugt": "<=", "uge": "<", "ult": ">=", "ule": ">"}


def _compare(e: Context, op: arith.CmpfOp, operands: Sequence[Expr]) -> Expr:
    predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    if isinstance(op.lhs.type, VectorType):
        raise unknown(op, "comparisons of vectors")
    _, (a, b) = _widened(e, e.type(op.lhs), operands)
    if predicate in _ORDERED:
        return c.binary(_ORDERED[predicate], a, b, "bool")
    if predicate in _UNORDERED:  # true when one of them is NaN: the opposite of an ordered comparison
        return c.prefix("!", c.binary(_UNORDERED[predicate], a, b, "bool"), "bool")
    if predicate in ("true", "false"):
        return c.integer(int(predicate == "true"), "bool")
    function = "__builtin_isunordered" if predicate in ("uno", "ord") else "__builtin_islessgreater"
    found = c.call(function, "bool", a, b)
    return c.prefix("!", found, "bool") if predicate in ("ord", "ueq") else found


def _select(e: Context, op: arith.SelectOp, operands: Sequence[Expr]) -> Expr:
    condition, a, b = operands
    type_ = c_type(op.result.type, op)
    if type_ in c.SIGNED:
        type_ = a.type if a.type in c.UNSIGNED else b.type
        if a.literal is not None and b.literal is not None:
            type_ = a.type
    return c.conditional(condition, a, b, type_)


FLOATS: dict[type[Operation], Builder] = {
    arith.ConstantOp: _constant,
    arith.AddfOp: _operator("+"),
    arith.SubfOp: _operator("-"),
    arith.MulfOp: _operator("*"),
    arith.DivfOp: _operator("/"),
    arith.NegfOp: _negf,
    arith.MaxnumfOp: _function("maxf"),
    arith.MinnumfOp: _function("minf"),
    arith.MaximumfOp: _function("max_nan"),
    arith.MinimumfOp: _function("min_nan"),
    arith.ExtFOp: _convert,
    arith.TruncFOp: _convert,
    arith.SIToFPOp: _from_integer(unsigned=False),
    arith.UIToFPOp: _from_integer(unsigned=True),
    arith.FPToSIOp: _to_integer(unsigned=False),
    arith.FPToUIOp: _to_integer(unsigned=True),
    arith.CmpfOp: _compare,
    arith.SelectOp: _select,
    math.ExpOp: _function("exp_"),
    math.Exp2Op: _function("exp2_"),
    math.LogOp: _function("log_"),
    math.Log2Op: _function("log2_"),
    math.Log10Op: _function("log10_"),
    math.SqrtOp: _function("sqrt_"),
    math.RsqrtOp: _function("rsqrt_"),
    math.AbsFOp: _function("abs_"),
    math.FloorOp: _function("floor_"),
    math.CeilOp: _function("ceil_"),
    math.TruncOp: _function("trunc_"),
    math.RoundEvenOp: _function("rint_"),
    math.RoundOp: _function("round_"),
    math.CopySignOp: _function("copysign_"),
    math.TanhOp: _function("tanh_"),
    math.ErfOp: _function("erf_"),
    math.PowFOp: _function("pow_"),
    math.FmaOp: _function("fma_"),
    hip.Exp2Op: _function("hw_exp2"),
}
