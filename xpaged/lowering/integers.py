"""What integer tensors hold, as a function of where in the tensor one looks.

Offsets, row and column numbers in a graph are constants, added, multiplied and broadcast; lengths and page pointers are
function arguments, perhaps kept between two bounds, to which such constants are added. An element is
`min(max(leaf[...], least), most) + offset`, where the offset is an exact expression in the coordinates: whatever is
proved with it holds for every element.
"""

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, cast

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerType
from xdsl.ir import Operation, SSAValue

from xpaged.dialects.tosa import elementwise
from xpaged.dialects.tosa.constants import ConstOp, constant_of
from xpaged.errors import XpagedError
from xpaged.ir import dense
from xpaged.ir.index_expr import IndexExpr
from xpaged.lowering.tosa_views import View, shape_of


class Integers(NamedTuple):
    """`leaf` at its own coordinates, not less than `least` nor more than `most` (None: not bounded), plus `offset`, in
    the coordinates of the view that was asked about."""

    leaf: View | None
    offset: IndexExpr
    least: int | None = None
    most: int | None = None

    def __str__(self) -> str:
        if self.leaf is None:
            return str(self.offset)
        source = self.leaf.source
        where = ", ".join(map(str, self.leaf.coordinates()))
        text = f"{f'%{source.name_hint}' if source.name_hint else 'a value'}[{where}]"
        if self.least is not None or self.most is not None:
            low, high = ("" if bound is None else bound for bound in (self.least, self.most))
            text = f"clip({text}, {low}..{high})"
        return f"{text} + {self.offset}"

    def plus(self, offset: IndexExpr | int) -> "Integers":
        """The same elements with `offset` added."""
        return self._replace(offset=self.offset + offset)


def integers_of(view: View) -> Integers:
    """The elements of `view`, whose source holds integers, as a bounded leaf and an offset.

    Raises XpagedError at the operation that adds two leaves, multiplies one, or is a constant that is not affine.
    """
    view = view.followed()
    if (elements := constant_of(view.source)) is not None:
        return Integers(None, _constant_at(view, elements))
    match op := view.source.owner:
        case elementwise.AddOp() | elementwise.SubOp():
            return _added(op, *(integers_of(view.operand(operand)) for operand in (op.input1, op.input2)))
        case elementwise.MulOp():
            return _multiplied(op, *(integers_of(view.operand(operand)) for operand in (op.input1, op.input2)))
        case elementwise.MaximumOp() | elementwise.MinimumOp():
            return _bounded(op, *(integers_of(view.operand(operand)) for operand in (op.input1, op.input2)))
        case elementwise.CastOp() if _widens(op):
            return integers_of(view.onto(op.input, []))
        case _:
            return Integers(view, IndexExpr.const(0))


def _widens(op: elementwise.CastOp) -> bool:
    """Whether a conversion keeps every integer as it is (those of one bit are truth values)."""
    before, after = (cast(Any, value.type).element_type for value in (op.input, op.output))
    integers = isinstance(before, IntegerType) and isinstance(after, IntegerType)
    return integers and 1 < before.width.data <= after.width.data


def _added(op: elementwise.AddOp | elementwise.SubOp, a: Integers, b: Integers) -> Integers:
    if isinstance(op, elementwise.SubOp):
        if b.leaf is not None:
            raise XpagedError(f"'{op.name}' subtracts a value that is not constant", at=op, found=b)
        return _checked(op, a.plus(-b.offset))
    if a.leaf is not None and b.leaf is not None:
        raise XpagedError(f"'{op.name}' adds two values that are not constant", at=op, found=f"{a} and {b}")
    return _checked(op, a.plus(b.offset) if b.leaf is None else b.plus(a.offset))


def _bounded(op: elementwise.MaximumOp | elementwise.MinimumOp, a: Integers, b: Integers) -> Integers:
    """A maximum or minimum with one number; of two that are constant, the one that always is it."""
    larger = isinstance(op, elementwise.MaximumOp)
    if a.leaf is None:
        a, b = b, a
    bound = b.offset.constant
    if a.leaf is None:
        difference = a.offset - b.offset
        if difference.lo >= 0 or difference.hi <= 0:
            return a if (difference.lo >= 0) is larger else b
    if a.leaf is None or b.leaf is not None or bound is None or a.offset.constant is None:
        raise XpagedError(f"'{op.name}' is not that of a value and a number", at=op, found=f"{a} and {b}")
    bound -= a.offset.constant
    choose = max if larger else min
    least = None if a.least is None else choose(a.least, bound)
    most = None if a.most is None else choose(a.most, bound)
    if larger:
        least = bound if least is None else least
    else:
        most = bound if most is None else most
    return a._replace(least=least, most=most)


def _multiplied(op: elementwise.MulOp, a: Integers, b: Integers) -> Integers:
    if a.leaf is not None or b.leaf is not None:
        raise XpagedError(f"'{op.name}' multiplies a value that is not constant", at=op, found=f"{a} and {b}")
    if a.offset.constant is None and b.offset.constant is None:
        raise XpagedError(f"'{op.name}' is not linear in its coordinates", at=op, found=f"({a}) * ({b})")
    return _checked(op, Integers(None, a.offset * b.offset))


def _checked(op: Operation, result: Integers) -> Integers:
    """Refuse a constant part that its type cannot hold: the graph would wrap around there."""
    element = cast(Any, op.results[0].type).element_type
    low, high = (-(1 << (element.bitwidth - 1)), 1 << (element.bitwidth - 1))
    if not (low <= result.offset.lo and result.offset.hi < high):
        raise XpagedError(f"'{op.name}' overflows {element}", at=op, found=f"{result.offset.lo} to {result.offset.hi}")
    return result


def _constant_at(view: View, elements: DenseIntOrFPElementsAttr[Any]) -> IndexExpr:
    op = view.source.owner
    assert isinstance(op, ConstOp | ConstantOp)
    if not isinstance(elements.get_element_type(), IntegerType):
        raise XpagedError("expected integers", at=op, found=elements.get_type())
    form = affine_form(elements)
    if form is None:
        raise XpagedError(
            "a constant is not an affine function of its coordinates, so nothing can be proved about it",
            at=op,
            found=f"{elements.get_type()} that starts with {', '.join(map(str, dense.values(elements)[:6]))}",
            expected="a + b*i (+ c*j ...), such as 0, 2, 4, 6, ...",
        )
    base, coefficients = form
    total = IndexExpr.const(base)
    for coefficient, coordinate in zip(coefficients, view.coordinates(), strict=True):
        total = total + coordinate * coefficient
    return total


@lru_cache(maxsize=64)
def affine_form(elements: DenseIntOrFPElementsAttr[Any]) -> tuple[int, tuple[int, ...]] | None:
    """`(base, coefficients)` such that the element at `i, j, ...` is `base + i*c0 + j*c1 + ...`; None if it is not."""
    shape = elements.get_shape()
    if (splat := dense.splat_value(elements)) is not None:
        return int(splat), (0,) * len(shape)
    found = cast("tuple[int, ...]", dense.values(elements))
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
    coefficients = tuple(found[s] - found[0] if n > 1 else 0 for n, s in zip(shape, strides, strict=True))
    row, step = shape[-1], coefficients[-1]
    for start in range(0, len(found), row):
        rest, first = start, found[0]
        for stride, coefficient in zip(strides[:-1], coefficients[:-1], strict=True):
            first += rest // stride * coefficient
            rest %= stride
        if found[start : start + row] != _row(first, step, row):
            return None
    return found[0], coefficients


def _row(first: int, step: int, count: int) -> tuple[int, ...]:
    return tuple(range(first, first + step * count, step)) if step else (first,) * count


def is_integer(value: SSAValue) -> bool:
    """Whether a tensor holds integers."""
    shape_of(value)
    return isinstance(cast(Any, value.type).element_type, IntegerType)
