"""Symbolic integer expressions with ranges: how the compiler reasons about coordinates and page offsets.

An expression is a linear sum `c0 + c1*t1 + c2*t2 + ...` whose terms are variables, floor divisions and remainders.
Every operator returns the canonical form, simplified with what the ranges of the variables prove:

>>> t, k, d = IndexExpr.var("t", 0, 63), IndexExpr.var("k", 0, 15), IndexExpr.var("d", 0, 63)
>>> flat = (16 * t + k) * 64 + d
>>> str(flat // 1024), str(flat % 1024), str(flat // 8192), str(flat % 8192)
('t', '64*k + d', 't / 8', '1024*(t % 8) + 64*k + d')
>>> str(flat // 96 * 96 + flat % 96)
'1024*t + 64*k + d'

Division rounds down and remainders are never negative, as in Python and NumPy; a dividend that may be negative is moved
up by a multiple of the divisor first, so every `/` and `%` that is left has a non-negative dividend. Expressions are
immutable and hashable; two expressions are equal when their canonical forms are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import gcd
from typing import Any


class Term:
    """What a linear sum is made of: a `Var`, `FloorDiv` or `Mod`, with its inclusive range `lo..hi`."""

    __slots__ = ("_hash", "hi", "key", "lo")
    lo: int
    hi: int
    key: str
    """The printed form; equal terms have equal keys."""
    _hash: int

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.key


class Var(Term):
    """A named integer in `lo..hi`."""

    __slots__ = ("name",)

    def __init__(self, name: str, lo: int, hi: int):
        self.name, self.lo, self.hi, self.key = name, lo, hi, name
        self._hash = hash((name, lo, hi))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Var) and (self.name, self.lo, self.hi) == (other.name, other.lo, other.hi)

    __hash__ = Term.__hash__


class _Division(Term):
    """`arg` divided by the positive constant `n`; `arg` is never negative, so unsigned arithmetic computes it."""

    __slots__ = ("arg", "n")
    arg: IndexExpr
    n: int

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, _Division)
            and type(self) is type(other)
            and self._hash == other._hash
            and self.n == other.n
            and self.arg == other.arg
        )

    __hash__ = Term.__hash__


class FloorDiv(_Division):
    """`arg` divided by `n`, rounded down. Built by `IndexExpr.__floordiv__` only, where nothing simpler is known."""

    __slots__ = ()

    def __init__(self, arg: IndexExpr, n: int):
        self.arg, self.n = arg, n
        self.lo, self.hi = arg.lo // n, arg.hi // n
        self.key = f"{_factor(arg)} / {n}"
        self._hash = hash((arg, n, "/"))


class Mod(_Division):
    """The remainder of `arg` by `n`, in `0..n-1`. Built by `IndexExpr.__mod__` only, where nothing simpler is known."""

    __slots__ = ()

    def __init__(self, arg: IndexExpr, n: int):
        self.arg, self.n = arg, n
        self.lo, self.hi = 0, min(n - 1, arg.hi)
        self.key = f"{_factor(arg)} % {n}"
        self._hash = hash((arg, n, "%"))


class IndexExpr:
    """An integer expression over named, bounded variables, kept in canonical form.

    `lo` and `hi` are inclusive bounds that hold for every value of the variables. `+`, `-` and `*` take integers and
    expressions (`*` needs one side constant); `//` and `%` take a positive integer. Make one with `IndexExpr.var` or
    `IndexExpr.const`.
    """

    __slots__ = ("_hash", "_text", "_variables", "const_term", "hi", "lo", "terms")
    terms: tuple[tuple[Term, int], ...]
    """`(term, coefficient)` pairs with non-zero coefficients, largest coefficient first."""
    const_term: int
    lo: int
    hi: int

    def __init__(self, terms: tuple[tuple[Term, int], ...], const_term: int):
        """For this module: `terms` must be canonical already. Others build expressions with `var` and operators."""
        self.terms, self.const_term = terms, const_term
        lo = hi = const_term
        for term, c in terms:
            if c > 0:
                lo += c * term.lo
                hi += c * term.hi
            else:
                lo += c * term.hi
                hi += c * term.lo
        self.lo, self.hi = lo, hi
        self._hash = hash((terms, const_term)) if terms else hash(const_term)
        self._text: str | None = None
        self._variables: frozenset[str] | None = None

    # Construction

    @classmethod
    def var(cls, name: str, lo: int, hi: int) -> IndexExpr:
        """The variable `name` in `lo..hi` (inclusive). A range of one value is that constant. ValueError if empty."""
        if lo > hi:
            raise ValueError(f"the range of index variable '{name}' is empty: {lo}..{hi}")
        return _const(lo) if lo == hi else cls(((Var(name, lo, hi), 1),), 0)

    @classmethod
    def const(cls, value: int) -> IndexExpr:
        """The constant `value`."""
        return _const(value)

    @classmethod
    def of(cls, value: IndexExpr | int) -> IndexExpr:
        """`value` as an expression."""
        return value if isinstance(value, IndexExpr) else _const(value)

    # Arithmetic

    def __add__(self, other: IndexExpr | int) -> IndexExpr:
        if isinstance(other, int):
            return IndexExpr(self.terms, self.const_term + other) if other else self
        if not other.terms:
            return self + other.const_term
        if not self.terms:
            return other + self.const_term
        return _linear(((1, self), (1, other)))

    __radd__ = __add__

    def __sub__(self, other: IndexExpr | int) -> IndexExpr:
        return self + (-other)

    def __rsub__(self, other: IndexExpr | int) -> IndexExpr:
        return -self + other

    def __neg__(self) -> IndexExpr:
        return self * -1

    def __mul__(self, other: IndexExpr | int) -> IndexExpr:
        if isinstance(other, IndexExpr):
            if other.terms:
                if self.terms:
                    raise TypeError(f"cannot multiply the index expressions {self} and {other}: one must be a constant")
                return other * self.const_term
            other = other.const_term
        if other == 1:
            return self
        if other == 0:
            return _const(0)
        terms = tuple((term, c * other) for term, c in self.terms)
        return IndexExpr(terms, self.const_term * other)

    __rmul__ = __mul__

    def __floordiv__(self, n: int) -> IndexExpr:
        return _divmod(self, n)[0]

    def __mod__(self, n: int) -> IndexExpr:
        return _divmod(self, n)[1]

    # Questions

    @property
    def constant(self) -> int | None:
        """The value, when the expression is a constant."""
        return None if self.terms else self.const_term

    def within(self, lo: int, hi: int) -> bool:
        """Whether `lo <= value < hi` is proved for every value of the variables (`hi` is exclusive)."""
        return lo <= self.lo and self.hi < hi

    def known_divisor(self) -> int:
        """The largest integer known to divide every value; 0 for the constant 0."""
        result = abs(self.const_term)
        for _, c in self.terms:
            result = gcd(result, c)
        return result

    def variables(self) -> frozenset[str]:
        """The names of the variables the value depends on."""
        if self._variables is None:
            names: set[str] = set()
            for term, _ in self.terms:
                names |= _term_variables(term)
            self._variables = frozenset(names)
        return self._variables

    def depends_on(self, name: str) -> bool:
        """Whether the variable `name` occurs in the expression."""
        return name in self.variables()

    def split(self, names: Iterable[str]) -> tuple[IndexExpr, IndexExpr]:
        """The sum as `(part, rest)`: the terms that depend on any of `names`, and the others with the constant."""
        wanted = frozenset(names)
        part = tuple(tc for tc in self.terms if not wanted.isdisjoint(_term_variables(tc[0])))
        rest = tuple(tc for tc in self.terms if wanted.isdisjoint(_term_variables(tc[0])))
        return IndexExpr(part, 0), IndexExpr(rest, self.const_term)

    # Values

    def map(self, leaf: Callable[[Var], Any]) -> Any:
        """Rebuild the expression with `leaf(variable)` in place of each variable, using `+`, `*`, `//` and `%` only."""
        total: Any = None
        for term, c in self.terms:
            if isinstance(term, Var):
                value = leaf(term)
            elif isinstance(term, FloorDiv):
                value = term.arg.map(leaf) // term.n
            else:
                assert isinstance(term, Mod)
                value = term.arg.map(leaf) % term.n
            value = value if c == 1 else value * c
            total = value if total is None else total + value
        if total is None:
            return self.const_term
        return total + self.const_term if self.const_term else total

    def substitute(self, values: Mapping[str, IndexExpr | int]) -> IndexExpr:
        """The expression with variables replaced; names that are not in `values` stay."""
        if self.variables().isdisjoint(values):
            return self
        return IndexExpr.of(self.map(lambda v: IndexExpr.of(values[v.name]) if v.name in values else _variable(v)))

    def evaluate(self, values: Mapping[str, Any]) -> Any:
        """The value for given integers or (broadcastable) NumPy integer arrays; KeyError when a variable is missing."""
        return self.map(lambda v: values[v.name])

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, int):
            return not self.terms and self.const_term == other
        return (
            isinstance(other, IndexExpr)
            and self._hash == other._hash
            and self.const_term == other.const_term
            and self.terms == other.terms
        )

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        if self._text is None:
            text = ""
            for term, c in self.terms:
                key = f"({term.key})" if c not in (1, -1) and isinstance(term, _Division) else term.key
                sign = (" - " if c < 0 else " + ") if text else ("-" if c < 0 else "")
                text += f"{sign}{key}" if c in (1, -1) else f"{sign}{abs(c)}*{key}"
            if not text:
                text = str(self.const_term)
            elif self.const_term:
                text += f" - {-self.const_term}" if self.const_term < 0 else f" + {self.const_term}"
            self._text = text
        return self._text

    def __repr__(self) -> str:
        return f"IndexExpr({self})"


def _factor(e: IndexExpr) -> str:
    """`e` as it stands to the left of `/` or `%`: in parentheses unless it is one variable."""
    plain = e.const_term == 0 and len(e.terms) == 1 and e.terms[0][1] == 1 and isinstance(e.terms[0][0], Var)
    return str(e) if plain else f"({e})"


def _const(value: int) -> IndexExpr:
    return IndexExpr((), value)


def _variable(v: Var) -> IndexExpr:
    return IndexExpr(((v, 1),), 0)


def _term_variables(term: Term) -> frozenset[str]:
    if isinstance(term, Var):
        return frozenset((term.name,))
    assert isinstance(term, _Division)
    return term.arg.variables()


def _order(tc: tuple[Term, int]) -> tuple[int, str, int, int]:
    term, c = tc
    return (-abs(c), term.key, term.lo, term.hi)


def _make(coefficients: dict[Term, int], const: int) -> IndexExpr:
    terms = [tc for tc in coefficients.items() if tc[1]]
    if len(terms) > 1:
        terms.sort(key=_order)
    return IndexExpr(tuple(terms), const)


def _linear(parts: Iterable[tuple[int, IndexExpr]], const: int = 0) -> IndexExpr:
    """The canonical form of `const + sum(c * e)`: like terms collected and remainders joined with their quotients."""
    coefficients: dict[Term, int] = {}
    divisions = 0
    for factor, e in parts:
        const += factor * e.const_term
        for term, c in e.terms:
            coefficients[term] = coefficients.get(term, 0) + factor * c
            divisions += isinstance(term, _Division)
    result = _make(coefficients, const)
    return _join(result) if divisions > 1 else result


def _join(e: IndexExpr) -> IndexExpr:
    """Undo divisions: `c*(x % n) + c*n*(x // n)` is `c*x`, and `c*(x % n) + c*n*(x // n % m)` is `c*(x % (n*m))`."""
    by_coefficient: dict[int, list[Term]] = {}
    for term, c in e.terms:
        if isinstance(term, _Division):
            by_coefficient.setdefault(c, []).append(term)
    for low, c in e.terms:
        if not isinstance(low, Mod):
            continue
        for high in by_coefficient.get(c * low.n, ()):
            joined = _joined(low, high)
            if joined is not None:
                rest = tuple(tc for tc in e.terms if tc[0] is not low and tc[0] is not high)
                return _linear(((1, IndexExpr(rest, e.const_term)), (c, joined)))
    return e


def _joined(low: Mod, high: Term) -> IndexExpr | None:
    """`low + low.n * high` as one expression, when `high` is the quotient that belongs to the remainder `low`."""
    x, n = low.arg, low.n
    if isinstance(high, Mod):
        return x % (n * high.n) if high.arg == x // n else None
    assert isinstance(high, FloorDiv)
    if high.n == n and (high.arg == x or (high.arg - x) % n == 0):
        return high.arg
    quotient = x // n
    return x if quotient.terms == ((high, 1),) and quotient.const_term == 0 else None


@lru_cache(maxsize=1 << 16)
def _divmod(e: IndexExpr, n: int) -> tuple[IndexExpr, IndexExpr]:
    """`(e // n, e % n)` in canonical form."""
    if n <= 0:
        raise ValueError(f"index expression {e} divided by {n}: the divisor must be positive")
    if n == 1:
        return e, _const(0)
    # Whole multiples of n leave the division: e = n*whole + rest, with rest.lo in 0..n-1.
    whole: dict[Term, int] = {}
    rest: dict[Term, int] = {}
    for term, c in e.terms:
        if c % n:
            rest[term] = c
        else:
            whole[term] = c // n
    inner = _make(rest, e.const_term)
    block = inner.lo // n
    inner = inner - block * n
    q, r = _divmod_rest(inner, n)
    return _linear(((1, _make(whole, block)), (1, q))), r


def _divmod_rest(e: IndexExpr, n: int) -> tuple[IndexExpr, IndexExpr]:
    """`divmod` of an expression with `0 <= lo < n` and no coefficient that `n` divides."""
    if e.hi < n:
        return _const(0), e
    reduced = _reduced(e, n)
    if reduced is not None:
        return reduced
    for g in _divisors(e, n):
        # e = g*x + r with 0 <= r < g: the low part r cannot carry into the quotient.
        low = {term: c for term, c in e.terms if c % g}
        r = _make(low, e.const_term % g)
        block = r.lo // g
        if block != r.hi // g:
            continue
        x = _make({term: c // g for term, c in e.terms if term not in low}, e.const_term // g + block)
        q, m = _divmod(x, n // g)
        return q, _linear(((g, m), (1, r - block * g)))
    return _quotient(e, n), _remainder(e, n)


def _reduced(e: IndexExpr, n: int) -> tuple[IndexExpr, IndexExpr] | None:
    """`divmod` when taking the nearest multiple of `n` out of each coefficient leaves less than one block of `n`."""
    quotients = {term: (c if c > 0 else c + n - 1) // n for term, c in e.terms}
    if not any(quotients.values()):
        return None
    rest = _make({term: c - quotients[term] * n for term, c in e.terms}, e.const_term)
    block = rest.lo // n
    if block != rest.hi // n:
        return None
    return _make(quotients, block), rest - block * n


def _divisors(e: IndexExpr, n: int) -> list[int]:
    """The divisors g > 1 of n, largest first, that are the common divisor of n and some of e's coefficients."""
    found: set[int] = set()
    for _, c in e.terms:
        g = gcd(c, n)
        if g not in found:
            found |= {gcd(g, f) for f in found}
            found.add(g)
    return sorted((g for g in found if g > 1), reverse=True)


def _single(e: IndexExpr) -> Term | None:
    """The term of `1*term + constant`."""
    return e.terms[0][0] if len(e.terms) == 1 and e.terms[0][1] == 1 else None


def _quotient(e: IndexExpr, n: int) -> IndexExpr:
    """`e // n` where ranges and divisors prove nothing: nested divisions fold, the rest becomes a term."""
    term = _single(e)
    if isinstance(term, FloorDiv):
        return (term.arg + e.const_term * term.n) // (term.n * n)
    if isinstance(term, Mod) and e.const_term == 0 and term.n % n == 0:
        return (term.arg // n) % (term.n // n)
    return IndexExpr(((FloorDiv(e, n), 1),), 0)


def _remainder(e: IndexExpr, n: int) -> IndexExpr:
    """`e % n` where ranges and divisors prove nothing: inner remainders that n does not see disappear."""
    parts: list[tuple[int, IndexExpr]] = []
    changed = False
    for term, c in e.terms:
        if isinstance(term, Mod) and (c * term.n) % n == 0:
            parts.append((c, term.arg))
            changed = True
        else:
            parts.append((1, IndexExpr(((term, c),), 0)))
    if changed:
        return _linear(parts, e.const_term) % n
    return IndexExpr(((Mod(e, n), 1),), 0)
