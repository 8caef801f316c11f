"""Transform maps: how the coordinates of a view lead to the coordinates of what it views.

A `TransformMap` goes from *upper* coordinates (of the new view) to *lower* ones (of the source); a chain of them, the
uppermost first, describes a view of a view. Maps are written with a builder:

>>> pages = Builder(("batch", "page", "offset"), (2, 64, 1024))
>>> tokens = pages.pass_through("batch").merge("total", ("page", "offset")).build()
>>> print(tokens.transforms[1])
<Merge{64, 1024} ["total"] at [1] -> ["page", "offset"] at [1, 2]>
>>> tokens.apply((1, 5000))
([1, 4, 904], [])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.transform import KINDS, PARAMS_PER_DIM, Condition, T, Transform

if TYPE_CHECKING:
    from xdsl.ir.affine import AffineMap

__all__ = ["KINDS", "Builder", "Condition", "TopDownBuilder", "Transform", "TransformMap", "apply_chain", "simplify"]


@dataclass(frozen=True)
class TransformMap:
    """Upper coordinates (bounded by `upper_bounds`) to lower coordinates (bounded by `lower_bounds`)."""

    transforms: tuple[Transform, ...]
    upper_bounds: tuple[int, ...]
    lower_bounds: tuple[int, ...]

    def __str__(self) -> str:
        steps = ", ".join(map(str, self.transforms))
        return f"[{steps}] bounds = {list(self.upper_bounds)} -> {list(self.lower_bounds)}"

    @cached_property
    def upper_names(self) -> tuple[str, ...]:
        """The name of each upper dim, in order."""
        names = {d: n for t in self.transforms for d, n in zip(t.upper_dims, t.upper_names, strict=True)}
        return tuple(names[d] for d in range(len(self.upper_bounds)))

    @cached_property
    def lower_names(self) -> tuple[str, ...]:
        """The name of each lower dim, in order."""
        names = {d: n for t in self.transforms for d, n in zip(t.lower_dims, t.lower_names, strict=True)}
        return tuple(names[d] for d in range(len(self.lower_bounds)))

    def apply(self, coords: Sequence[T]) -> tuple[list[T], list[Condition[T]]]:
        """The lower coordinates of the upper `coords`, and the conditions under which the element exists.

        `coords` may be integers, NumPy integer arrays that broadcast together, or `IndexExpr`s; for the last,
        conditions that the ranges prove are left out. Coordinates where a condition fails may lie outside the bounds.
        """
        if len(coords) != len(self.upper_bounds):
            raise ValueError(f"{len(coords)} coordinates for a transform map of {len(self.upper_bounds)} upper dims")
        symbolic = any(isinstance(c, IndexExpr) for c in coords)
        lower: list[Any] = [None] * len(self.lower_bounds)
        conditions: list[Condition[T]] = []
        for step in self.transforms:
            values, needed = step.apply(
                [coords[d] for d in step.upper_dims], [self.lower_bounds[d] for d in step.lower_dims]
            )
            for d, value in zip(step.lower_dims, values, strict=True):
                lower[d] = IndexExpr.const(value) if symbolic and isinstance(value, int) else value
            conditions.extend(c for c in needed if not (isinstance(c[0], IndexExpr) and c[0].within(c[1], c[2])))
        return lower, conditions

    def variables(self) -> list[IndexExpr]:
        """One bounded index variable `d0`, `d1` ... for each upper dim."""
        return [IndexExpr.var(f"d{i}", 0, n - 1) for i, n in enumerate(self.upper_bounds)]

    def affine_map(self) -> AffineMap:
        """The map as an affine map; conditions are not part of it."""
        from xdsl.ir.affine import AffineExpr, AffineMap

        lower, _ = self.apply([AffineExpr.dimension(i) for i in range(len(self.upper_bounds))])
        results = [AffineExpr.constant(x) if isinstance(x, int) else x for x in lower]
        return AffineMap(len(self.upper_bounds), 0, tuple(results))

    def verify(self) -> None:
        """Raise ValueError unless every dim has one producer or consumer and each step fits its bounds."""
        for what, bounds in (("upper", self.upper_bounds), ("lower", self.lower_bounds)):
            if any(n <= 0 for n in bounds):
                raise ValueError(f"{what} bounds {list(bounds)} must all be positive")
        for step in self.transforms:
            if len(step.upper_names) != len(step.upper_dims) or len(step.lower_names) != len(step.lower_dims):
                raise ValueError(f"{step}: as many names as dims are needed")
        for what, bounds, used in (
            ("upper", self.upper_bounds, [d for t in self.transforms for d in t.upper_dims]),
            ("lower", self.lower_bounds, [d for t in self.transforms for d in t.lower_dims]),
        ):
            if sorted(used) != list(range(len(bounds))):
                raise ValueError(f"{what} dims {sorted(used)} are used, expected each of 0..{len(bounds) - 1} once")
        for step in self.transforms:
            problem = step.check(
                [self.upper_bounds[d] for d in step.upper_dims], [self.lower_bounds[d] for d in step.lower_dims]
            )
            if problem is not None:
                raise ValueError(f"{step}: {problem}")

    def is_identity(self) -> bool:
        """Whether every coordinate passes through to its own place."""
        return all(t.kind == "PassThrough" and t.upper_dims == t.lower_dims for t in self.transforms)

    def inverse(self) -> TransformMap:
        """The map from lower to upper coordinates; ValueError when a step loses information or repeats elements."""
        return TransformMap(tuple(self._inverted(t) for t in self.transforms), self.lower_bounds, self.upper_bounds)

    def _inverted(self, t: Transform) -> Transform:
        kind, params = t.kind, t.params
        lower = [self.lower_bounds[d] for d in t.lower_dims]
        match t.kind:
            case "PassThrough":
                pass
            case "Merge" | "Unmerge":
                kind = "Unmerge" if t.kind == "Merge" else "Merge"
            case "Pad":
                kind = "Slice"
                params = tuple(x for i, n in enumerate(lower) for x in (params[2 * i], params[2 * i] + n))
            case "Slice":
                kind = "Pad"
                params = tuple(x for i, n in enumerate(lower) for x in (params[2 * i], n - params[2 * i + 1]))
            case "AddDim" if params == (1,):
                kind, params = "ConstDim", (0, 1)
            case "ConstDim" if params == (0, 1):
                kind, params = "AddDim", (1,)
            case _:
                raise ValueError(f"{t} has no inverse: it does not give each lower element exactly one upper place")
        return Transform(kind, params, t.lower_names, t.lower_dims, t.upper_names, t.upper_dims)


def apply_chain(maps: Sequence[TransformMap], coords: Sequence[T]) -> tuple[list[T], list[Condition[T]]]:
    """`TransformMap.apply` through `maps` from the uppermost to the lowest, collecting all conditions."""
    current = list(coords)
    conditions: list[Condition[T]] = []
    for transform_map in maps:
        current, needed = transform_map.apply(current)
        conditions += needed
    return current, conditions


class Builder:
    """Builds a map upwards: names the dims of the source, then says in turn what each new upper dim is made of.

    Upper dims stand in the order of the calls, so a permutation is a matter of calling in another order. Every lower
    dim must be used exactly once. Unknown names and lengths that do not fit raise ValueError, at the latest in `build`.
    """

    def __init__(self, lower_names: Sequence[str], lower_bounds: Sequence[int]):
        if len(lower_names) != len(lower_bounds):
            raise ValueError(f"{len(lower_names)} names for {len(lower_bounds)} dims")
        self.lower_names, self.lower_bounds = tuple(lower_names), tuple(lower_bounds)
        self.upper_bounds: list[int] = []
        self.transforms: list[Transform] = []

    def lengths(self, lower: Sequence[str]) -> list[int]:
        """The lengths of the lower dims `lower`."""
        return [self.lower_bounds[self._dim(name)] for name in lower]

    def _dim(self, name: str) -> int:
        if name not in self.lower_names:
            raise ValueError(f"no lower dim '{name}' among {', '.join(self.lower_names)}")
        return self.lower_names.index(name)

    def add(
        self, kind: str, params: Sequence[int], upper: Sequence[str], lengths: Sequence[int], lower: Sequence[str]
    ) -> Builder:
        """A step of any kind: new upper dims of `lengths` from the lower dims `lower`."""
        dims = tuple(range(len(self.upper_bounds), len(self.upper_bounds) + len(upper)))
        self.upper_bounds += lengths
        lower_dims = tuple(self._dim(name) for name in lower)
        self.transforms.append(Transform(kind, tuple(params), tuple(upper), dims, tuple(lower), lower_dims))
        return self

    def pass_through(self, *names: str) -> Builder:
        """The lower dims `names`, unchanged."""
        for name in names:
            self.add("PassThrough", (), (name,), self.lengths((name,)), (name,))
        return self

    def rename(self, upper: str, lower: str) -> Builder:
        """The lower dim `lower` under the name `upper`."""
        return self.add("PassThrough", (), (upper,), self.lengths((lower,)), (lower,))

    def merge(self, upper: str, lower: Sequence[str]) -> Builder:
        """One dim that runs over all of `lower` in row-major order."""
        lengths = self.lengths(lower)
        return self.add("Merge", lengths, (upper,), (prod(lengths),), lower)

    def unmerge(self, upper: Sequence[str], lower: str, lengths: Sequence[int]) -> Builder:
        """The dims `upper` of `lengths`, whose row-major position is `lower`."""
        return self.add("Unmerge", lengths, upper, lengths, (lower,))

    def pad(self, name: str, left: int, right: int) -> Builder:
        """The dim `name` with `left` and `right` more, invalid, elements."""
        return self.add("Pad", (left, right), (name,), (self.lengths((name,))[0] + left + right,), (name,))

    def slice(self, name: str, begin: int, end: int) -> Builder:
        """The elements `begin` to `end` (exclusive) of the dim `name`."""
        return self.add("Slice", (begin, end), (name,), (end - begin,), (name,))

    def embed(self, upper: Sequence[str], lengths: Sequence[int], lower: str, coefficients: Sequence[int]) -> Builder:
        """The dims `upper` of `lengths`; their sum weighted with `coefficients` is `lower`, valid inside its bound."""
        return self.add("Embed", coefficients, upper, lengths, (lower,))

    def broadcast(self, name: str, length: int) -> Builder:
        """The dim `name`, repeated to `length` (usually from length 1)."""
        return self.add("Broadcast", self.lengths((name,)), (name,), (length,), (name,))

    def add_dim(self, name: str, length: int) -> Builder:
        """A new dim along which every element is the same."""
        return self.add("AddDim", (length,), (name,), (length,), ())

    def const_dim(self, lower: str, value: int) -> Builder:
        """Only the element `value` of the dim `lower`; the dim disappears."""
        return self.add("ConstDim", (value, *self.lengths((lower,))), (), (), (lower,))

    def build(self) -> TransformMap:
        """The map; ValueError when it is not well formed."""
        result = TransformMap(tuple(self.transforms), tuple(self.upper_bounds), self.lower_bounds)
        result.verify()
        return result


class TopDownBuilder:
    """Builds a map downwards: names the dims of the view, then says in turn what each lower dim is computed from.

    Lower dims stand in the order of the calls; otherwise as `Builder`.
    """

    def __init__(self, upper_names: Sequence[str], upper_bounds: Sequence[int]):
        self._inner = Builder(upper_names, upper_bounds)

    def _add(
        self, kind: str, params: Sequence[int], upper: Sequence[str], lower: Sequence[str], lengths: Sequence[int]
    ) -> TopDownBuilder:
        self._inner.add(kind, params, lower, lengths, upper)
        return self

    def _lengths(self, upper: Sequence[str]) -> list[int]:
        return self._inner.lengths(upper)

    def pass_through(self, *names: str) -> TopDownBuilder:
        """The upper dims `names`, unchanged."""
        for name in names:
            self._add("PassThrough", (), (name,), (name,), self._lengths((name,)))
        return self

    def merge(self, upper: str, lower: Sequence[str], lengths: Sequence[int]) -> TopDownBuilder:
        """The dims `lower` of `lengths`: the row-major digits of `upper`."""
        return self._add("Merge", lengths, (upper,), lower, lengths)

    def unmerge(self, upper: Sequence[str], lower: str) -> TopDownBuilder:
        """The dim `lower`: the row-major position of the dims `upper`."""
        lengths = self._lengths(upper)
        return self._add("Unmerge", lengths, upper, (lower,), (prod(lengths),))

    def pad(self, name: str, left: int, right: int) -> TopDownBuilder:
        """The dim `name` without its first `left` and last `right` elements, which are invalid."""
        return self._add("Pad", (left, right), (name,), (name,), (self._lengths((name,))[0] - left - right,))

    def slice(self, name: str, begin: int, length: int) -> TopDownBuilder:
        """The dim `name` of `length`, of which the view shows the elements from `begin` on."""
        end = begin + self._lengths((name,))[0]
        return self._add("Slice", (begin, end), (name,), (name,), (length,))

    def embed(self, upper: Sequence[str], lower: str, length: int, coefficients: Sequence[int]) -> TopDownBuilder:
        """The dim `lower` of `length`: the sum of the dims `upper` weighted with `coefficients`."""
        return self._add("Embed", coefficients, upper, (lower,), (length,))

    def broadcast(self, name: str, length: int) -> TopDownBuilder:
        """The dim `name` of `length` (usually 1), which the view repeats."""
        return self._add("Broadcast", (length,), (name,), (name,), (length,))

    def drop(self, name: str) -> TopDownBuilder:
        """The upper dim `name` has no influence."""
        return self._add("AddDim", self._lengths((name,)), (name,), (), ())

    def const_dim(self, lower: str, value: int, length: int) -> TopDownBuilder:
        """The dim `lower` of `length`, always at `value`."""
        return self._add("ConstDim", (value, length), (), (lower,), (length,))

    def build(self) -> TransformMap:
        """The map; ValueError when it is not well formed."""
        flipped = [
            Transform(t.kind, t.params, t.lower_names, t.lower_dims, t.upper_names, t.upper_dims)
            for t in self._inner.transforms
        ]
        result = TransformMap(tuple(flipped), self._inner.lower_bounds, tuple(self._inner.upper_bounds))
        result.verify()
        return result


def simplify(chain: Sequence[TransformMap]) -> list[TransformMap]:
    """A chain of maps (uppermost first) that means the same with fewer maps; identities disappear.

    Two neighbours become one map where each of their steps combines with the steps it meets: dims that pass through,
    `Merge` and `Unmerge` that undo each other or nest, `Pad` and `Slice` of the same dim.
    """
    result: list[TransformMap] = []
    for transform_map in chain:
        current: TransformMap | None = None if transform_map.is_identity() else transform_map
        while current is not None and result:
            fused = _fuse(result[-1], current)
            if fused is None:
                break
            result.pop()
            current = None if fused.is_identity() else fused
        if current is not None:
            result.append(current)
    return result


def _fuse(upper: TransformMap, lower: TransformMap) -> TransformMap | None:
    """`upper` followed by `lower` as one map, or None where some steps do not combine."""
    above = [_one_dim_each(t) for t in upper.transforms]
    below = [_one_dim_each(t) for t in lower.transforms]
    producers = {d: t for steps in above for t in steps for d in t.lower_dims}
    consumers = {d: t for steps in below for t in steps for d in t.upper_dims}
    transforms = [t for steps in above for t in steps if not t.lower_dims]
    transforms += [t for steps in below for t in steps if not t.upper_dims]
    pending = set(producers)
    while pending:
        mid = min(pending)
        a, b = producers[mid], consumers[mid]
        group = _combined(a, b, producers, consumers)
        if group is None:
            return None
        pending -= set(a.lower_dims) | set(b.upper_dims)
        transforms += group
    fused = TransformMap(tuple(transforms), upper.upper_bounds, lower.lower_bounds)
    fused.verify()
    return fused


def _one_dim_each(t: Transform) -> list[Transform]:
    """A step over several independent dims as one step for each."""
    if t.kind not in PARAMS_PER_DIM:
        return [t]
    n = PARAMS_PER_DIM[t.kind]
    return [
        Transform(t.kind, t.params[n * i : n * i + n], (un,), (ud,), (ln,), (ld,))
        for i, (un, ud, ln, ld) in enumerate(zip(t.upper_names, t.upper_dims, t.lower_names, t.lower_dims, strict=True))
    ]


def _combined(
    a: Transform, b: Transform, producers: dict[int, Transform], consumers: dict[int, Transform]
) -> list[Transform] | None:
    """The steps that do what `a` (above) and `b` (below it) and the steps that share their middle dims do together."""
    if a.kind == "Merge" and b.kind == "Unmerge":
        if a.lower_dims == b.upper_dims and a.params == b.params:
            return [Transform("PassThrough", (), a.upper_names, a.upper_dims, b.lower_names, b.lower_dims)]
        return None
    if len(b.upper_dims) > 1:
        return _into_unmerge_like(b, [producers[d] for d in b.upper_dims])
    if len(a.lower_dims) > 1:
        return _out_of_merge_like(a, [consumers[d] for d in a.lower_dims])
    # One middle dim between a and b.
    if b.kind == "Merge" and a.kind == "Unmerge":
        if a.params == b.params:
            pairs = zip(a.upper_names, a.upper_dims, b.lower_names, b.lower_dims, strict=True)
            return [Transform("PassThrough", (), (un,), (ud,), (ln,), (ld,)) for un, ud, ln, ld in pairs]
        return None
    kind_params = _one_dim_chain(a, b)
    if kind_params is None:
        return None
    kind, params = kind_params
    return [Transform(kind, params, a.upper_names, a.upper_dims, b.lower_names, b.lower_dims)]


def _one_dim_chain(a: Transform, b: Transform) -> tuple[str, tuple[int, ...]] | None:
    """Kind and parameters of `b` after `a` where a single dim lies between them, and at most one above and below."""
    if a.kind == "PassThrough":
        return b.kind, b.params
    if b.kind == "PassThrough":
        return a.kind, a.params
    if a.kind == b.kind == "Pad":
        return "Pad", (a.params[0] + b.params[0], a.params[1] + b.params[1])
    if a.kind == b.kind == "Slice":
        return "Slice", (a.params[0] + b.params[0], a.params[1] + b.params[0])
    return None


def _into_unmerge_like(b: Transform, above: Sequence[Transform]) -> list[Transform] | None:
    """`b` with several upper dims, where each of the steps above passes through or (for Unmerge) is an Unmerge too."""
    names: list[str] = []
    dims: list[int] = []
    params: list[int] = []
    for i, a in enumerate(above):
        if a.kind == "PassThrough":
            params.append(b.params[i])
        elif a.kind == "Unmerge" and b.kind == "Unmerge":
            params += a.params
        else:
            return None
        names += a.upper_names
        dims += a.upper_dims
    return [Transform(b.kind, tuple(params), tuple(names), tuple(dims), b.lower_names, b.lower_dims)]


def _out_of_merge_like(a: Transform, below: Sequence[Transform]) -> list[Transform] | None:
    """`a` with several lower dims, where each of the steps below passes through or is a Merge as `a` is."""
    each = len(a.params) // len(a.lower_dims)
    names: list[str] = []
    dims: list[int] = []
    params: list[int] = []
    for i, b in enumerate(below):
        if b.kind == "PassThrough":
            params += a.params[each * i : each * i + each]
        elif b.kind == "Merge" and a.kind == "Merge":
            params += b.params
        else:
            return None
        names += b.lower_names
        dims += b.lower_dims
    return [Transform(a.kind, tuple(params), a.upper_names, a.upper_dims, tuple(names), tuple(dims))]
