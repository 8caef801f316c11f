"""Building one lane's program: a cursor with nested scopes that puts every index expression as far out as it can go.

An index expression is emitted in the outermost scope where all its variables exist, in the narrowest type that holds
its range, and once; sums are grouped by scope, so that what does not change in a loop stands before the loop.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, LocationAttr, UnitAttr, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xpaged.dialects.hip import UNROLL
from xpaged.ir.index_expr import FloorDiv, IndexExpr, Mod, Term, Var

INT32 = range(-(2**31), 2**31)


def fits_i32(expr: IndexExpr, scale: int = 1) -> bool:
    """Whether `scale` times every value of the expression is a signed 32-bit integer."""
    return expr.lo * scale in INT32 and expr.hi * scale in INT32


@dataclass
class _Scope:
    block: Block
    known: dict[tuple[IndexExpr, int], SSAValue] = field(default_factory=dict)
    constants: dict[tuple[object, Attribute], SSAValue] = field(default_factory=dict)
    pages: dict[tuple[SSAValue, IndexExpr], SSAValue] = field(default_factory=dict)
    comparisons: dict[tuple[IndexExpr, int, str], SSAValue] = field(default_factory=dict)
    both: dict[tuple[SSAValue, SSAValue], SSAValue] = field(default_factory=dict)
    inner: Operation | None = None  # the operation of this block that holds the next scope


class Emitter:
    """A cursor at the end of the innermost scope.  `location` is given to every operation that is inserted."""

    def __init__(self, block: Block) -> None:
        self.scopes = [_Scope(block)]
        self.location: LocationAttr | None = None
        self._variables: dict[str, tuple[SSAValue, int]] = {}
        self._names: dict[IndexExpr, str] = {}
        self._fresh = 0
        self.lane = IndexExpr.const(0)  # the number of this lane in its wave, once it is known

    # ---- operations

    @property
    def depth(self) -> int:
        """The number of the innermost scope; 0 is the function body."""
        return len(self.scopes) - 1

    def insert(self, op: Operation, depth: int | None = None, hint: str | None = None) -> Operation:
        """Put an operation at the end of the innermost scope, or of the scope `depth` before the loop that is open."""
        scope = self.scopes[self.depth if depth is None else depth]
        if self.location is not None:
            op.location = self.location
        if scope.inner is not None:
            Rewriter.insert_op(op, InsertPoint.before(scope.inner))
        else:
            scope.block.add_op(op)
        if hint is not None and op.results:
            op.results[0].name_hint = hint
        return op

    def value(self, op: Operation, depth: int | None = None, hint: str | None = None) -> SSAValue:
        """Insert an operation and return its first result."""
        return self.insert(op, depth, hint).results[0]

    def constant(self, value: int | float | bool, type_: Attribute) -> SSAValue:
        """A constant at the top of the function."""
        key = (str(value), type_)
        known = self.scopes[0].constants
        if key not in known:
            if isinstance(type_, IntegerType):
                op = arith.ConstantOp(IntegerAttr(int(value), type_))
            else:
                assert isinstance(type_, AnyFloat)
                op = arith.ConstantOp(FloatAttr(float(value), type_))
            first = self.scopes[0].block.first_op
            if first is None:
                self.scopes[0].block.add_op(op)
            else:
                Rewriter.insert_op(op, InsertPoint.before(first))
            known[key] = op.result
        return known[key]

    @contextmanager
    def loop(
        self,
        name: str,
        count: int | SSAValue,
        *,
        start: SSAValue | None = None,
        carried: Sequence[SSAValue] = (),
        bound: int | None = None,
        unroll: bool = False,
    ) -> Generator[tuple[IndexExpr, scf.ForOp]]:
        """A loop from `start` (0) to `count`; yields the induction variable (an expression below `bound`) and the loop.

        The caller ends the body with `yield_` when values are carried.
        """
        zero, one = self.constant(0, i32), self.constant(1, i32)
        upper = self.constant(count, i32) if isinstance(count, int) else count
        body = Block(arg_types=[i32, *(v.type for v in carried)])
        op = scf.ForOp(start or zero, upper, one, list(carried), Region(body))
        if unroll:
            op.attributes[UNROLL] = UnitAttr()
        self.insert(op)
        induction = body.args[0]
        induction.name_hint = name
        extent = count if isinstance(count, int) else bound
        assert extent is not None
        with self._scope(op, body):
            yield self.fresh(name, max(extent - 1, 0), induction), op
            if not carried:
                self.yield_()

    @contextmanager
    def condition(self, condition: SSAValue, values: Sequence[SSAValue] = ()) -> Generator[scf.IfOp]:
        """A block that runs where `condition` (i1) holds; its results are `values` where it does not.

        The caller ends the block with `yield_` when there are values.
        """
        body = Block()
        op = scf.IfOp(condition, [v.type for v in values], Region(body), Region(Block([scf.YieldOp(*values)])))
        self.insert(op)
        with self._scope(op, body):
            yield op
            if not values:
                self.yield_()

    def yield_(self, *values: SSAValue) -> None:
        """End the innermost scope."""
        self.insert(scf.YieldOp(*values))

    @contextmanager
    def _scope(self, op: Operation, body: Block) -> Generator[None]:
        self.scopes[-1].inner = op
        self.scopes.append(_Scope(body))
        try:
            yield
        finally:
            self.scopes.pop()
            self.scopes[-1].inner = None

    # ---- index expressions

    def variable(self, name: str, hi: int, value: SSAValue, depth: int | None = None) -> IndexExpr:
        """An index variable 0 .. hi that stands for a value of the innermost scope (or of scope `depth`)."""
        self._variables[name] = (value, self.depth if depth is None else depth)
        return IndexExpr.var(name, 0, hi) if hi > 0 else IndexExpr.const(0)

    def fresh(self, name: str, hi: int, value: SSAValue) -> IndexExpr:
        """A variable with a name of its own, for the value of an operation of the innermost scope."""
        self._fresh += 1
        return self.variable(f"{name}.{self._fresh}", hi, value)

    def name(self, expr: IndexExpr, hint: str) -> None:
        """How the value of an expression is to be called when it is emitted."""
        self._names[expr] = hint

    def depth_of(self, expr: IndexExpr) -> int:
        """The outermost scope in which the expression can be computed."""
        return max((self._variables[name][1] for name in expr.variables()), default=0)

    def index(self, expr: IndexExpr, *, wide: bool = False, hint: str | None = None) -> SSAValue:
        """The value of an expression: i32, or i64 when `wide` or when its range asks for it."""
        bits = 64 if wide or not fits_i32(expr) else 32
        return self._sum(expr, bits, hint)

    def _sum(self, expr: IndexExpr, bits: int, hint: str | None = None) -> SSAValue:
        type_ = i64 if bits == 64 else i32
        if not expr.terms:
            return self.constant(expr.const_term, type_)
        found = self._find(expr, bits)
        if found is not None:
            return found
        groups: dict[int, list[tuple[Term, int]]] = {}
        for term, coefficient in expr.terms:
            depth = self.depth_of(IndexExpr(((term, 1),), 0))
            groups.setdefault(depth, []).append((term, coefficient))
        depths = sorted(groups)
        total: SSAValue | None = None
        done: list[tuple[Term, int]] = []
        for depth in depths:
            constant = expr.const_term if depth == depths[-1] else 0
            for term, coefficient in groups[depth]:
                done.append((term, coefficient))
                partial = IndexExpr(tuple(t for t in expr.terms if t in done), 0)
                known = self._find(partial, bits)
                if known is None:
                    value = self._scaled(term, coefficient, bits, depth)
                    known = value if total is None else self._add(total, value, depth)
                    self.scopes[depth].known[partial, bits] = known
                total = known
            assert total is not None
            partial = IndexExpr(tuple(t for t in expr.terms if t in done), constant)
            if constant:
                total = self._add(total, self.constant(constant, type_), depth)
                self.scopes[depth].known[partial, bits] = total
            name = self._names.get(partial) or (hint if len(done) > 1 or depth == depths[-1] else None)
            if name is not None and total.name_hint is None:
                total.name_hint = name
        assert total is not None
        return total

    def _find(self, expr: IndexExpr, bits: int) -> SSAValue | None:
        for scope in self.scopes:
            value = scope.known.get((expr, bits))
            if value is not None:
                return value
        return None

    def _add(self, a: SSAValue, b: SSAValue, depth: int) -> SSAValue:
        return self.value(arith.AddiOp(a, b), depth)

    def _scaled(self, term: Term, coefficient: int, bits: int, depth: int) -> SSAValue:
        value = self._term(term, bits, depth)
        if coefficient == 1:
            return value
        key = (IndexExpr(((term, coefficient),), 0), bits)
        known = self._find(*key)
        if known is None:
            known = self.value(arith.MuliOp(value, self.constant(coefficient, i64 if bits == 64 else i32)), depth)
            self.scopes[depth].known[key] = known
        return known

    def _term(self, term: Term, bits: int, depth: int) -> SSAValue:
        single = IndexExpr(((term, 1),), 0)
        if isinstance(term, Var):
            value = self._variables[term.name][0]
            return value if bits == 32 else self._widen(single, value, depth)
        known = self._find(single, bits)
        if known is not None:
            return known
        assert isinstance(term, FloorDiv | Mod)
        if bits == 64 and fits_i32(term.arg):
            value = self._widen(single, self._term(term, 32, depth), depth)
        elif bits == 32 and not fits_i32(term.arg):  # the quotient or remainder is small, what is divided is not
            value = self.value(arith.TruncIOp(self._term(term, 64, depth), i32), depth)
        else:
            argument = self._sum(term.arg, bits)
            divisor = self.constant(term.n, i64 if bits == 64 else i32)
            op = arith.DivUIOp(argument, divisor) if isinstance(term, FloorDiv) else arith.RemUIOp(argument, divisor)
            value = self.value(op, depth, self._names.get(single))
        self.scopes[depth].known[single, bits] = value
        return value

    def _widen(self, expr: IndexExpr, value: SSAValue, depth: int) -> SSAValue:
        known = self._find(expr, 64)
        if known is None:
            known = self.value(arith.ExtUIOp(value, i64), depth)
            self.scopes[depth].known[expr, 64] = known
        return known

    def all_of(self, conditions: Sequence[tuple[IndexExpr, int, int]], hint: str | None = None) -> SSAValue | None:
        """`lo <= expression < hi` for every condition, as an i1; None when the ranges prove all of them."""
        parts: list[SSAValue] = []
        for expr, lo, hi in conditions:
            below, above = expr.lo >= lo, expr.hi < hi
            if below and above:
                continue
            if not below:
                parts.append(self._compare(expr, lo, "sge"))
            if not above:
                parts.append(self._compare(expr, hi, "slt"))
        both = self.both(*parts)
        if both is not None and both.name_hint is None:
            both.name_hint = hint
        return both

    def _compare(self, expr: IndexExpr, bound: int, predicate: str) -> SSAValue:
        depth = self.depth_of(expr)
        known = self.scopes[depth].comparisons
        key = (expr, bound, predicate)
        if key not in known:
            value = self.index(expr)
            known[key] = self.value(arith.CmpiOp(value, self.constant(bound, value.type), predicate), depth)
        return known[key]

    def both(self, *conditions: SSAValue | None) -> SSAValue | None:
        """The conjunction of the conditions that are given, None for none."""
        total: SSAValue | None = None
        for condition in conditions:
            if condition is not None:
                total = condition if total is None else self._and(total, condition)
        return total

    def _and(self, a: SSAValue, b: SSAValue) -> SSAValue:
        for scope in self.scopes:
            if (a, b) in scope.both:
                return scope.both[a, b]
        result = self.value(arith.AndIOp(a, b))
        self.scopes[-1].both[a, b] = result
        return result
