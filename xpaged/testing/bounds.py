"""How far a result may lie from the oracle's: bounds derived from the types, lengths and magnitudes of a problem.

This is the only place that holds tolerances. Nothing here is fitted: every term is the worst case of a rounding that
design and types prescribe.

Notation: `u(T)` is the unit roundoff of type T (half the distance from 1 to the next number), `gamma(n, u) =
n u / (1 - n u)` bounds the relative error of a sum or product chain of n roundings. Operations in f32 are charged a
whole ulp, `ULP32 = 2**-23`, which also covers hardware that truncates (matrix instructions) or is faithful only
(exp2, reciprocal).

**Scores.** `s = sum of q k` over D products has error at most `gamma(D) * sum |q k|` (0 for i8, which is exact). The
score region is followed operation by operation (`Bounded`: each value carries a bound on its error, Wilkinson's
running error analysis), each result rounding in its own type. Call the bound on the score that enters the softmax
`E_j`.

**Probabilities.** `e_j = exp(s_j - m)` is computed as `exp2` of a difference of products with log2(e). The common
factor `exp(m)` cancels. The exponent's error is at most `X_j = E_j + 3 ULP32 (|s_j| + max |s|)`, so that `e_j` has
relative error at most `eps_j = expm1(X_j) + 2 ULP32`. Rounding it to V's type adds `u(V)`, or half the smallest
subnormal where that is larger.

**Output.** `out = sum e_j v_j / sum e_j`, both sums in f32 over n keys, rescaled at most once a key as the running
maximum grows: relative error `gamma(2 n + 16)` of the sum of magnitudes. With `P_j = e_j / sum e`:

    |error| <= sum P_j |v_j| (eps_j + u(V) + gamma) + tiny(V) sum |v_j| / sum e      numerator
             + |out| (sum P_j eps_j + gamma + 4 ULP32)                               denominator and division
             + u(out) |out| + tiny(out)                                              one rounding

**LSE.** `sum P_j eps_j + gamma + 4 ULP32 (max |s| + |lse|) + u(lse) |lse|`.

**Parts.** Results over `n` parts of the keys, in f32, are merged with weights `exp2((LSE_i - max) log2 e)`. With `w =
max eps_j + gamma + 6 ULP32` for what normalizes one part, no part's LSE larger than `L = max |s| + log keys`, and each
rounded to f32, `f = w + 9 ULP32 L` bounds the error of an LSE, `x = f + 6 ULP32 L` that of a weight's exponent, and
`e = expm1(x) + 2 ULP32 + gamma(2 n + 16)` the relative error of a sum of weighted parts. The output's error grows by
`(w + 2 e + 5 ULP32) sum P_j |v_j|` before its rounding, that of the LSE by `w + e + 17 ULP32 L`.

**Elementwise kernels** are followed operation by operation as the score region is. Functions that a machine computes
(`_FUNCTION_ULPS`) are charged what OpenCL allows them at most. What an attention reads from such a kernel comes with
an error of its own (`Errors`): `|dq| |k| + |q| |dk| + |dq| |dk|` on a score, `sum P_j |dv_j|` on the output.

**Graphs.** Levels 0 and 1 round after each operation: with `u` of the graph's type, `u |s_j|` on the raw score, `u`
on each operation of the score region, `u |s_j - m|` on the difference and `4 u` on exponential, sum, reciprocal and
product; and `tiny` on the product.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from xpaged.testing import oracle

Floats = npt.NDArray[np.float64]

ULP32 = 2.0**-23

_TYPES: dict[str, tuple[float, float]] = {
    "float64": (2.0**-53, 2.0**-1075),
    "float32": (2.0**-24, 2.0**-150),
    "float16": (2.0**-11, 2.0**-25),
    "bfloat16": (2.0**-8, 2.0**-134),
    "float8_e4m3fn": (2.0**-4, 2.0**-10),
    "float8_e4m3fnuz": (2.0**-4, 2.0**-11),
    "float8_e5m2": (2.0**-3, 2.0**-17),
    "float8_e5m2fnuz": (2.0**-3, 2.0**-18),
}
"""Unit roundoff, and half the distance between subnormals."""


def unit(dtype: np.dtype[Any]) -> float:
    """The unit roundoff of a float type; 0 for integers, which are exact."""
    return _TYPES[dtype.name][0] if dtype.name in _TYPES else 0.0


def tiny(dtype: np.dtype[Any]) -> float:
    """Half the distance between the subnormal numbers of a float type: the absolute rounding error near 0."""
    return _TYPES[dtype.name][1] if dtype.name in _TYPES else 0.0


def gamma(n: int, u: float = ULP32) -> float:
    """The relative error of n roundings in a row, each at most `u`."""
    return n * u / (1 - n * u) if n * u < 0.5 else float("inf")


class Bounded(np.lib.mixins.NDArrayOperatorsMixin):
    """A float64 array of exact values with a bound on the error of each, as computed in the types of a program.

    It stands in for an array wherever NumPy functions and operators are used: what it is passed through bounds the
    errors that come in; `rounded` adds the rounding of one operation's result.
    """

    def __init__(
        self, value: Any, error: Any = 0.0, *, computed: bool = False, graph: np.dtype[Any] | None = None
    ) -> None:
        """With `graph` every operation rounds to that type at the finest."""
        self.value: Floats = np.asarray(value, np.float64)
        self.error: Floats = np.asarray(error, np.float64)
        self.computed = computed
        self.graph = graph
        with np.errstate(all="ignore"):
            ordinary = np.isfinite(self.error.sum()) and np.isfinite(self.value.sum())
        if not ordinary:
            error = np.where(np.isnan(self.error), np.inf, self.error)
            self.error = np.where(np.isfinite(self.value), error, 0.0)

    @property
    def dtype(self) -> np.dtype[np.float64]:
        """Always float64."""
        return self.value.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the values."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """Of the values."""
        return self.value.ndim

    @property
    def size(self) -> int:
        """Of the values."""
        return self.value.size

    def rounded(self, dtype: np.dtype[Any]) -> "Bounded":
        """The same after the rounding of an operation in `dtype`; integers are exact, and values that were only moved
        are not rounded."""
        if not self.computed or np.dtype(dtype).kind in "iub":
            return self
        u, least = max(unit(dtype), 2.0**-24), tiny(dtype)
        if self.graph is not None:
            u, least = max(u, unit(self.graph)), max(least, tiny(self.graph))
        error = self.error + u * (np.abs(self.value) + self.error) + least
        return Bounded(self.value, error, graph=self.graph)

    def narrowed(self, dtype: np.dtype[Any]) -> "Bounded":
        """The same after a conversion to `dtype`."""
        return Bounded(self.value, self.error, computed=True, graph=self.graph).rounded(dtype)

    def through(self, function: Callable[[Floats], Any], slope: float, ulps: float) -> "Bounded":
        """A function that grows by at most `slope`, computed to `ulps` units in the last place of f32."""
        value = function(self.value)
        return Bounded(value, slope * self.error + ulps * ULP32 * np.abs(value), computed=True, graph=self.graph)

    def astype(self, dtype: Any, **_: Any) -> "Bounded":
        """Itself: the rounding of conversions is `rounded`'s and `narrowed`'s business."""
        return self

    def _moved(self, move: Callable[[Floats], Any]) -> "Bounded":
        return Bounded(move(self.value), move(np.broadcast_to(self.error, self.value.shape)), graph=self.graph)

    def __getitem__(self, index: Any) -> "Bounded":
        return self._moved(lambda x: x[index])

    def __len__(self) -> int:
        return len(self.value)

    def reshape(self, *shape: Any) -> "Bounded":
        """As `ndarray.reshape`."""
        return self._moved(lambda x: x.reshape(*shape))

    def transpose(self, *axes: Any) -> "Bounded":
        """As `ndarray.transpose`."""
        return self._moved(lambda x: x.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> "Bounded":
        """As `ndarray.swapaxes`."""
        return self._moved(lambda x: x.swapaxes(a, b))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs.get("out") is not None:
            return NotImplemented
        values = [x.value if isinstance(x, Bounded) else np.asarray(x) for x in inputs]
        errors = [x.error if isinstance(x, Bounded) else np.zeros(1) for x in inputs]
        with np.errstate(all="ignore"):
            result = ufunc(*values, **kwargs)
            if result.dtype.kind != "f":
                return result
            error = _propagate(ufunc, values, errors, result)
            if error is not None and ufunc in _FUNCTION_ULPS:
                error = error + _FUNCTION_ULPS[ufunc] * ULP32 * np.abs(result)
        return NotImplemented if error is None else Bounded(result, error, computed=True, graph=_graph(inputs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        del types
        if function not in _MOVES:
            return NotImplemented

        def part(x: Any, error: bool) -> Any:
            if isinstance(x, Bounded):
                return np.broadcast_to(x.error, x.value.shape) if error else x.value
            if isinstance(x, (list, tuple)):
                return [part(y, error) for y in x]
            return x

        value = function(*[part(x, False) for x in args], **kwargs)
        if function is np.where:
            condition, *pair = args
            errors = [part(x, True) if isinstance(x, Bounded) else np.zeros(1) for x in pair]
            return Bounded(value, np.where(condition, *errors), graph=_graph(pair))
        return Bounded(value, function(*[part(x, True) for x in args], **kwargs), graph=_graph(args))


def _graph(values: Any) -> np.dtype[Any] | None:
    """The type that the operations on any of `values` round to, where one says so."""
    return next((x.graph for x in values if isinstance(x, Bounded) and x.graph is not None), None)


_MOVES = {
    np.pad,
    np.where,
    np.broadcast_to,
    np.reshape,
    np.transpose,
    np.swapaxes,
    np.expand_dims,
    np.squeeze,
    np.ascontiguousarray,
}
_MONOTONE = {
    np.exp,
    np.exp2,
    np.expm1,
    np.log,
    np.log2,
    np.log10,
    np.log1p,
    np.sqrt,
    np.cbrt,
    np.tanh,
    np.sinh,
    np.arctan,
    np.arcsinh,
    np.floor,
    np.ceil,
    np.trunc,
    np.rint,
    np.sign,
}


_FUNCTION_ULPS: dict[np.ufunc, float] = {
    np.exp: 3,
    np.exp2: 3,
    np.log: 3,
    np.log2: 3,
    np.log10: 3,
    np.sqrt: 3,
    np.tanh: 5,
    np.power: 16,
    np.divide: 2.5,
}
"""Units in the last place of f32 that a machine may be off."""


def _propagate(ufunc: np.ufunc, x: list[Any], e: list[Any], result: Any) -> Any:
    """How far `ufunc` may be from `result` when its inputs are off by `e`; None when that is not known."""
    if ufunc in (np.add, np.subtract):
        return e[0] + e[1]
    if ufunc is np.multiply:
        return np.abs(x[0]) * e[1] + np.abs(x[1]) * e[0] + e[0] * e[1]
    if ufunc is np.divide:
        room = np.abs(x[1]) - e[1]
        return np.where(room > 0, (e[0] + np.abs(result) * e[1]) / np.where(room > 0, room, 1.0), np.inf)
    if ufunc in (np.maximum, np.minimum, np.fmax, np.fmin):
        return np.maximum(e[0], e[1])
    if ufunc in (np.negative, np.positive, np.absolute, np.fabs, np.sin, np.cos):
        return e[0]
    if ufunc in _MONOTONE:
        return np.maximum(np.abs(ufunc(x[0] + e[0]) - result), np.abs(result - ufunc(x[0] - e[0])))
    if ufunc is np.power:
        corners = [(a, b) for a in (x[0] - e[0], x[0] + e[0]) for b in (x[1] - e[1], x[1] + e[1])]
        worst = np.maximum.reduce([np.broadcast_to(np.abs(ufunc(a, b) - result), result.shape) for a, b in corners])
        return np.where((x[0] - e[0] > 0) | ((e[0] == 0) & (e[1] == 0)), worst, np.inf)
    return None


@dataclass(frozen=True)
class Types:
    """The types that an attention computes in: `p` is what P is rounded to (V's), `softmax` what scores are rounded
    to; with `parts` the keys are split and the f32 results of the parts merged; with `graph` every operation rounds to
    that type, as levels 0 and 1 do."""

    p: np.dtype[Any]
    out: np.dtype[Any]
    lse: np.dtype[Any]
    softmax: np.dtype[Any]
    parts: int = 1
    graph: np.dtype[Any] | None = None


@dataclass(frozen=True)
class Errors:
    """Bounds on the errors that Q, K and V come with, of their shapes; None for what is exact."""

    q: Floats | None = None
    k: Floats | None = None
    v: Floats | None = None

    def of(self, part: oracle.Problem) -> "Errors":
        """The errors of a part of the problem."""
        some = slice(part.first_key, part.first_key + part.k.shape[1])
        k, v = (None if x is None else x[:, some] for x in (self.k, self.v))
        return Errors(self.q, k, v)


EXACT = Errors()


def scores(
    problem: oracle.Problem, g: int, rows: npt.NDArray[Any], raw: Floats, types: Types, errors: Errors = EXACT
) -> Floats:
    """`E`: the bound on the error of each score that enters the softmax, `[rows, Sk]`."""
    q, k, _ = problem.head(g)
    exact = problem.q.dtype.kind == "i"
    error: Any = 0.0 if exact else gamma(q.shape[1]) * (np.abs(q[rows]) @ np.abs(k.T))
    if errors.q is not None:
        error = error + errors.q[g][rows] @ np.abs(k.T)
    if errors.k is not None:
        dk = errors.k[g // problem.repeats]
        error = error + (np.abs(q[rows]) + (0.0 if errors.q is None else errors.q[g][rows])) @ dk.T
    if types.graph is not None and not exact:
        error = error + unit(types.graph) * np.abs(raw) + tiny(types.graph)
    s: Any = Bounded(raw, error)
    if problem.score is not None:
        s = problem.score(s, [e[g][rows] for e in problem.extras])
    if types.softmax.name != "float32":
        s = s.narrowed(types.softmax)
    return np.broadcast_to(s.error, raw.shape)


def attention(
    problem: oracle.Problem,
    g: int,
    rows: npt.NDArray[Any],
    head: oracle.Head,
    types: Types,
    errors: Errors = EXACT,
) -> tuple[Floats, Floats]:
    """Bounds on the errors of `head` (rows `rows` of head `g`, from the oracle): of out `[rows, Dv]`, LSE `[rows]`."""
    with np.errstate(all="ignore"):
        return _attention(problem, g, rows, head, types, errors)


def _attention(
    problem: oracle.Problem, g: int, rows: npt.NDArray[Any], head: oracle.Head, types: Types, errors: Errors
) -> tuple[Floats, Floats]:
    _, _, v = problem.head(g)
    magnitude = np.abs(v)
    kept = np.isfinite(head.scores)
    size = np.where(kept, np.abs(head.scores), 0.0)
    top = size.max(axis=1, keepdims=True)
    size += top
    x = scores(problem, g, rows, head.raw, types, errors) + 3 * ULP32 * size
    extra, least = 0.0 if types.p.name == "float32" else unit(types.p), tiny(types.p)
    total = np.exp(head.lse - head.scores.max(axis=1))  # of the exponentials: at least 1
    smallest: Floats = least / np.maximum(total, 1.0)
    if types.graph is not None:
        size *= unit(types.graph)
        x += size
        extra += 4 * unit(types.graph)
        smallest = smallest + least
    sums = gamma(2 * max(int(np.count_nonzero(kept, axis=1).max(initial=0)), 1) + 16)
    weighted = np.where(kept, head.p * _expm1(x), 0.0)  # P_j eps_j, first without the error of exp2
    below = weighted.sum(axis=1) + 2 * ULP32 + sums
    weighted += (2 * ULP32 + extra + sums) * head.p
    out = weighted @ magnitude + smallest[:, None] * magnitude.sum(axis=0)
    if errors.v is not None:
        out += (head.p + weighted) @ errors.v[g // problem.repeats]
    size = np.abs(head.out)
    out += size * (below + 4 * ULP32)[:, None]
    merging: Floats | float = 0.0
    if types.parts > 1:
        worst = _expm1(np.where(kept, x, 0.0)).max(axis=1, initial=0.0) + sums + 6 * ULP32
        longest = top[:, 0] + np.log(head.p.shape[1])  # no part's LSE is larger
        weights = _expm1(worst + 15 * ULP32 * longest) + 2 * ULP32 + gamma(2 * types.parts + 16)
        out += (worst + 2 * weights + 5 * ULP32)[:, None] * (head.p @ magnitude)
        merging = worst + weights + 17 * ULP32 * longest
    out += unit(types.out) * (size + out) + tiny(types.out)
    length = np.abs(head.lse)
    lse = below + 4 * ULP32 * (top[:, 0] + length) + unit(types.lse) * length + merging
    if types.graph is not None:
        lse += 4 * unit(types.graph) * (1 + length + top[:, 0])
    empty = np.logical_not(np.logical_or.reduce(kept, axis=1))
    return np.where(empty[:, None], 0.0, out), np.where(empty, 0.0, lse)


def _expm1(x: Floats) -> Floats:
    """No less than `exp(x) - 1` for x >= 0: `x + x**2` while x is at most 1."""
    return x * (1 + x) if float(x.max(initial=0)) <= 1 else np.expm1(x)
