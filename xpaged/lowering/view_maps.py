"""The shortest chain of transform maps for a view, found from what the view computes rather than how it was written.

A graph reaches an element through many reshapes, broadcasts and slices; what counts is the row-major position in the
source. Where that is a sum of digits of the coordinates with nested strides, as it is for everything that a reshape,
transpose, slice or broadcast can do, three maps suffice: split coordinates into digits, arrange and slice them, and
read them as a position.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

from xpaged.dialects.rock.ops import DerefOp
from xpaged.ir.index_expr import FloorDiv, IndexExpr, Mod, Term, Var
from xpaged.ir.transform_map import Transform, TransformMap, apply_chain, simplify
from xpaged.lowering.tosa_views import View, reshape_maps, shape_of


@dataclass(frozen=True)
class _Digit:
    """`(coordinate // divisor) % length`, which counts `stride` elements of the source; 0 when it counts nothing."""

    dim: int
    divisor: int
    length: int
    stride: int = 0


def maps_of(view: View, names: Sequence[str]) -> list[TransformMap]:
    """A short chain, uppermost first, that does what `view.maps` does; `names` are those of its upper dimensions.

    What a deref skips at the head of each page stays a map of its own, straight above it.
    """
    paged = isinstance(view.source.owner, DerefOp)
    lowest = list(view.maps[-1:]) if paged and view.maps and _cuts_pages(view.maps[-1]) else []
    maps = view.maps[: len(view.maps) - len(lowest)]
    lower = lowest[0].upper_bounds if lowest else shape_of(view.source)
    return [*_shortest(maps, view.bounds, lower, names, ("batch", "page", "offset") if paged else None), *lowest]


def _shortest(
    chain: Sequence[TransformMap],
    bounds: Sequence[int],
    lower: tuple[int, ...],
    names: Sequence[str],
    lower_names: Sequence[str] | None,
) -> list[TransformMap]:
    """A short chain for `chain`; what lies above and below padding is shortened by itself."""
    for i, m in enumerate(chain):
        if any(t.kind == "Pad" for t in m.transforms):
            inner = [f"dim{d}" for d in range(len(m.lower_bounds))]
            above = _shortest(chain[:i], bounds, m.upper_bounds, names, None)
            return [*above, m, *_shortest(chain[i + 1 :], m.lower_bounds, lower, inner, lower_names)]
    found = _synthesized(chain, bounds, lower, names, lower_names)
    return simplify(chain) if found is None else found


def _cuts_pages(lowest: TransformMap) -> bool:
    """Whether a map right above `[batch, page, offset]` slices the offset, and nothing else."""
    changed = [t for t in lowest.transforms if t.kind != "PassThrough" or t.upper_dims != t.lower_dims]
    return [(t.kind, t.upper_dims, t.lower_dims) for t in changed] == [("Slice", (2,), (2,))]


def position_in(coordinates: Sequence[IndexExpr], shape: Sequence[int]) -> IndexExpr:
    """The row-major position of `coordinates` in `shape`."""
    position = IndexExpr.const(0)
    for coordinate, length in zip(coordinates, shape, strict=True):
        position = position * length + coordinate
    return position


@cache
def _keeps_positions(transform_map: TransformMap) -> bool:
    """Whether a map is a reshape: upper and lower coordinates have the same row-major position."""
    upper = transform_map.variables()
    lower, conditions = transform_map.apply(upper)
    return not conditions and position_in(lower, transform_map.lower_bounds) == position_in(
        upper, transform_map.upper_bounds
    )


def position_of(view: View) -> IndexExpr | None:
    """The row-major position in the source of the element at d0, d1 ...; None where it may not exist (padding).

    Reshapes at the end of the chain do not change positions, so they are not followed: the quotients and remainders
    by which they split a position would only have to be joined again.
    """
    return _position(view.maps, view.bounds, shape_of(view.source))


def same_elements(view: View, values: Mapping[str, IndexExpr]) -> bool:
    """Whether a view shows the same elements (and lacks the same) with `values` in place of some of its coordinates."""
    position, conditions = _placed(view.maps, view.bounds, shape_of(view.source))
    return all(e.substitute(values) == e for e in (position, *(condition for condition, _, _ in conditions)))


def _position(chain: Sequence[TransformMap], bounds: Sequence[int], lower: Sequence[int]) -> IndexExpr | None:
    position, conditions = _placed(chain, bounds, lower)
    return None if conditions else position


def _placed(
    chain: Sequence[TransformMap], bounds: Sequence[int], lower: Sequence[int]
) -> tuple[IndexExpr, Sequence[tuple[IndexExpr, int, int]]]:
    """The position in the source of the element at d0, d1 ..., and when there is one."""
    while chain and _keeps_positions(chain[-1]):
        chain, lower = chain[:-1], chain[-1].upper_bounds
    variables = [IndexExpr.var(f"d{i}", 0, n - 1) for i, n in enumerate(bounds)]
    coordinates, conditions = apply_chain(chain, variables)
    return position_in(coordinates, lower), conditions


def _synthesized(
    chain: Sequence[TransformMap],
    bounds: Sequence[int],
    lower: tuple[int, ...],
    names: Sequence[str],
    lower_names: Sequence[str] | None,
) -> list[TransformMap] | None:
    position = _position(chain, bounds, lower)
    digits = None if position is None else _digits(position, bounds)
    if position is None or digits is None:
        return None
    arranged = _arranged(digits, position.const_term, prod(lower), names, bounds)
    if arranged is None or _position(arranged, bounds, arranged[1].lower_bounds) != position:
        return None
    below = reshape_maps(lower, arranged[1].lower_bounds, (lower_names, arranged[1].lower_names))
    return simplify([_with_units_kept(m) for m in simplify([*arranged, *below])])


def _with_units_kept(transform_map: TransformMap) -> TransformMap:
    """A length of 1 that is dropped above and made anew in the same place below passes through."""
    kept = {t.upper_dims[0]: t for t in transform_map.transforms if t.kind == "AddDim" and t.params == (1,)}
    made = {t.lower_dims[0]: t for t in transform_map.transforms if t.kind == "ConstDim" and t.params == (0, 1)}
    both = kept.keys() & made.keys()
    transforms = [t for t in transform_map.transforms if not any(t in (kept[d], made[d]) for d in both)]
    transforms += [
        Transform("PassThrough", (), kept[d].upper_names, (d,), made[d].lower_names, (d,)) for d in sorted(both)
    ]
    return TransformMap(tuple(transforms), transform_map.upper_bounds, transform_map.lower_bounds)


def _digits(position: IndexExpr, bounds: Sequence[int]) -> list[_Digit] | None:
    """All digits of all coordinates, most significant first; None when the position is not a sum of digits."""
    used: list[_Digit] = []
    for term, stride in position.terms:
        digit = _digit(term, bounds, stride)
        if digit is None or stride < 0:
            return None
        used.append(digit)
    digits: list[_Digit] = []
    for dim, length in enumerate(bounds):
        own = {d.divisor: d for d in used if d.dim == dim}
        if len(own) != sum(d.dim == dim for d in used):
            return None
        divisor, below = 1, list[_Digit]()
        for start in sorted(own):
            if start % divisor or length % start:
                return None
            if start > divisor:
                below.append(_Digit(dim, divisor, start // divisor))
            below.append(own[start])
            divisor = start * own[start].length
        if divisor > length or length % divisor:
            return None
        if divisor < length or not below:
            below.append(_Digit(dim, divisor, length // divisor))
        digits += reversed(below)
    return digits


def _digit(term: Term, bounds: Sequence[int], stride: int) -> _Digit | None:
    """A term as a digit of one coordinate."""
    divisor, length = 1, None
    if isinstance(term, Mod):
        inner = term.arg.terms
        if len(inner) != 1 or inner[0][1] != 1 or term.arg.const_term:
            return None
        term, length = inner[0][0], term.n
    if isinstance(term, FloorDiv):
        inner = term.arg.terms
        if len(inner) != 1 or inner[0][1] != 1 or term.arg.const_term:
            return None
        divisor, term = term.n, inner[0][0]
    if not isinstance(term, Var):
        return None
    dim = int(term.name[1:])
    whole, rest = divmod(bounds[dim], divisor)
    if rest or (length is not None and whole % length):
        return None
    return _Digit(dim, divisor, whole if length is None else length, stride)


def _arranged(
    digits: Sequence[_Digit], start: int, total: int, names: Sequence[str], bounds: Sequence[int]
) -> tuple[TransformMap, TransformMap] | None:
    """From the coordinates to digits, and from these to dimensions whose row-major position is that in the source."""
    labels = _labels(digits, names)
    split = _split(digits, labels, names, bounds)
    used = sorted((i for i, d in enumerate(digits) if d.stride), key=lambda i: -digits[i].stride)
    strides = [digits[i].stride for i in used]
    outer = [total, *strides]
    transforms = [
        Transform("AddDim", (d.length,), (labels[i],), (i,), (), ()) for i, d in enumerate(digits) if not d.stride
    ]
    lower: list[int] = []
    for place, (i, around, stride) in enumerate(zip(used, outer, strides, strict=False)):
        length, rest = divmod(around, stride)
        begin, start = divmod(start, stride)
        if rest or begin + digits[i].length > length:
            return None
        kind, params = ("PassThrough", ())
        if length != digits[i].length:
            kind, params = "Slice", (begin, begin + digits[i].length)
        transforms.append(Transform(kind, params, (labels[i],), (i,), (labels[i],), (place,)))
        lower.append(length)
    if outer[-1] > 1 or not lower:
        transforms.append(Transform("ConstDim", (start, outer[-1]), (), (), ("at",), (len(lower),)))
        lower.append(outer[-1])
    elif start:
        return None
    return split, TransformMap(tuple(transforms), split.lower_bounds, tuple(lower))


def _labels(digits: Sequence[_Digit], names: Sequence[str]) -> list[str]:
    """A name for each digit: its coordinate's, with a letter when there are several."""
    labels: list[str] = []
    for digit in digits:
        several = sum(d.dim == digit.dim for d in digits) > 1
        count = sum(label.startswith(f"{names[digit.dim]}_") for label in labels)
        labels.append(f"{names[digit.dim]}_{count}" if several else names[digit.dim])
    return labels


def _split(
    digits: Sequence[_Digit], labels: Sequence[str], names: Sequence[str], bounds: Sequence[int]
) -> TransformMap:
    transforms: list[Transform] = []
    for dim, name in enumerate(names):
        places = tuple(i for i, d in enumerate(digits) if d.dim == dim)
        lengths = tuple(digits[i].length for i in places)
        kind, params = ("Merge", lengths) if len(places) > 1 else ("PassThrough", ())
        transforms.append(Transform(kind, params, (name,), (dim,), tuple(labels[i] for i in places), places))
    return TransformMap(tuple(transforms), tuple(bounds), tuple(d.length for d in digits))
