"""math: in f32 and f64 as NumPy computes them; narrower types in f32, rounded once."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from xdsl.dialects import math
from xdsl.ir import Operation

from xpaged.interpreter.evaluator import Compiler, OpCode, binary, rule, ternary, unary
from xpaged.interpreter.numerics import F32, Array, widen

Fn = Callable[..., Any]


def erf(x: Array) -> Array:
    """The error function in float64, by a series near 0 and a continued fraction far from it."""
    if hasattr(x, "through"):  # what follows its own error: the function grows by 2 / sqrt(pi) at most
        return cast(Any, x).through(erf, 1.13, 16)
    z = np.abs(x.astype(np.float64))
    small = np.minimum(z, 3.0)
    # erf(z) = 2/sqrt(pi) * exp(-z*z) * sum of 2**n z**(2n+1) / (2n+1)!!: all terms positive, no cancellation.
    term = small
    total = small.copy()
    for n in range(1, 60):
        term = term * (2 * small * small / (2 * n + 1))
        total += term
    near = 2 / np.sqrt(np.pi) * np.exp(-small * small) * total
    # erfc(z) = exp(-z*z) / sqrt(pi) / (z + 1/2/(z + 2/2/(z + 3/2/(z + ...))))
    far = np.maximum(z, 3.0)
    fraction = far
    for n in range(40, 0, -1):
        fraction = far + n / 2 / fraction
    tail = 1 - np.exp(-far * far) / np.sqrt(np.pi) / fraction
    return np.where(np.isnan(x), np.nan, np.sign(x) * np.where(z < 3.0, near, tail))


def _round_half_away(x: Array) -> Array:
    return np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


_UNARY: dict[type[Operation], Fn] = {
    math.AbsFOp: np.abs,
    math.AcosOp: np.arccos,
    math.AcoshOp: np.arccosh,
    math.AsinOp: np.arcsin,
    math.AsinhOp: np.arcsinh,
    math.AtanOp: np.arctan,
    math.AtanhOp: np.arctanh,
    math.CbrtOp: np.cbrt,
    math.CeilOp: np.ceil,
    math.CosOp: np.cos,
    math.CoshOp: np.cosh,
    math.ErfOp: erf,
    math.ExpOp: np.exp,
    math.Exp2Op: np.exp2,
    math.ExpM1Op: np.expm1,
    math.FloorOp: np.floor,
    math.LogOp: np.log,
    math.Log10Op: np.log10,
    math.Log1pOp: np.log1p,
    math.Log2Op: np.log2,
    math.RoundEvenOp: np.rint,
    math.RoundOp: _round_half_away,
    math.RsqrtOp: _rsqrt,
    math.SinOp: np.sin,
    math.SinhOp: np.sinh,
    math.SqrtOp: np.sqrt,
    math.TanOp: np.tan,
    math.TanhOp: np.tanh,
    math.TruncOp: np.trunc,
}
_BINARY: dict[type[Operation], Fn] = {
    math.Atan2Op: np.arctan2,
    math.CopySignOp: np.copysign,
    math.PowFOp: np.power,
}


@rule(*_UNARY)
def float_unary(op: Operation, b: Compiler) -> OpCode:
    fn, dtype = _UNARY[type(op)], b.dtype(op.results[0].type)
    if dtype == F32 or dtype == np.float64:
        if isinstance(op, math.ErfOp):
            return unary(lambda x: erf(x).astype(dtype))
        return unary(fn)
    return unary(lambda x: fn(widen(x)).astype(dtype))


@rule(*_BINARY)
def float_binary(op: Operation, b: Compiler) -> OpCode:
    fn, dtype = _BINARY[type(op)], b.dtype(op.results[0].type)
    if dtype == F32 or dtype == np.float64:
        return binary(fn)
    return binary(lambda x, y: fn(widen(x), widen(y)).astype(dtype))


@rule(math.FmaOp)
def fma(op: math.FmaOp, b: Compiler) -> OpCode:
    return ternary(fused_multiply_add)


def fused_multiply_add(x: Array, y: Array, z: Array) -> Array:
    """`x * y + z` with one rounding: exact for the product in float64 (types of 32 bits or fewer)."""
    if x.dtype == np.float64:
        return x * y + z
    return (x.astype(np.float64) * y + z).astype(x.dtype)


@rule(math.AbsIOp)
def absi(op: math.AbsIOp, b: Compiler) -> OpCode:
    return unary(np.abs)


@rule(math.CtPopOp)
def ctpop(op: math.CtPopOp, b: Compiler) -> OpCode:
    return unary(lambda x: np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(x.dtype))
