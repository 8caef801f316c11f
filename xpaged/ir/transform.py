"""The steps of transform maps: each takes some upper dimensions of a view to some lower ones of its source.

| kind | upper -> lower | parameters | lower coordinate |
|---|---|---|---|
| `PassThrough` | n -> n | none | the upper one |
| `Pad` | n -> n | left, right of each dim | upper - left; valid inside the lower bound |
| `Slice` | n -> n | begin, end of each dim | upper + begin |
| `Broadcast` | n -> n | lower length of each dim | upper mod length |
| `Embed` | n -> 1 | coefficient of each upper dim | sum of coefficient * upper; valid inside the lower bound |
| `Unmerge` | n -> 1 | length of each upper dim | row-major position of the upper coordinates |
| `Merge` | 1 -> n | length of each lower dim | row-major digits of the upper coordinate |
| `AddDim` | 1 -> 0 | length of the upper dim | (the coordinate is dropped) |
| `ConstDim` | 0 -> n | value, length of each lower dim | value |

The same rule serves plain numbers, NumPy arrays, symbolic index expressions and affine maps: it uses `+ - * // %` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

T = TypeVar("T")
Condition = tuple[T, int, int]
"""`(x, lo, hi)`: the element exists only where `lo <= x < hi`."""

PARAMS_PER_DIM = {"PassThrough": 0, "Pad": 2, "Slice": 2, "Broadcast": 1}
"""The kinds that take n upper dims to n lower dims, and how many parameters each dim has."""
KINDS = (*PARAMS_PER_DIM, "Embed", "Unmerge", "Merge", "AddDim", "ConstDim")


@dataclass(frozen=True)
class Transform:
    """One step of a `TransformMap`: `kind{params} upper_names at upper_dims -> lower_names at lower_dims`."""

    kind: str
    params: tuple[int, ...]
    upper_names: tuple[str, ...]
    upper_dims: tuple[int, ...]
    lower_names: tuple[str, ...]
    lower_dims: tuple[int, ...]

    def __str__(self) -> str:
        def names(values: tuple[str, ...]) -> str:
            return "[" + ", ".join(f'"{value}"' for value in values) + "]"

        params = "{" + ", ".join(map(str, self.params)) + "}" if self.params else ""
        return (
            f"<{self.kind}{params} {names(self.upper_names)} at {list(self.upper_dims)}"
            f" -> {names(self.lower_names)} at {list(self.lower_dims)}>"
        )

    def apply(self, upper: Sequence[Any], lower_bounds: Sequence[int]) -> tuple[list[Any], list[Condition[Any]]]:
        """The lower coordinates for this step's upper ones, and what must hold; `lower_bounds` are this step's own."""
        p = self.params
        match self.kind:
            case "PassThrough":
                return list(upper), []
            case "Pad":
                lower = [u - p[2 * i] if p[2 * i] else u for i, u in enumerate(upper)]
                padded = [i for i in range(len(lower)) if p[2 * i] or p[2 * i + 1]]
                return lower, [(lower[i], 0, lower_bounds[i]) for i in padded]
            case "Slice":
                return [u + p[2 * i] if p[2 * i] else u for i, u in enumerate(upper)], []
            case "Broadcast":
                return [u % n if n > 1 else 0 for u, n in zip(upper, p, strict=True)], []
            case "Embed":
                total = _weighted_sum(upper, p)
                return [total], [(total, 0, lower_bounds[0])]
            case "Unmerge":
                return [_position(upper, p)], []
            case "Merge":
                return _digits(upper[0], p), []
            case "AddDim":
                return [], []
            case "ConstDim":
                return list(p[::2]), []
            case _:
                raise ValueError(f"unknown transform kind '{self.kind}', expected one of {', '.join(KINDS)}")

    def check(self, upper_bounds: Sequence[int], lower_bounds: Sequence[int]) -> str | None:
        """What is wrong with this step between dims of these lengths (its own dims, in order), or None."""
        n_up, n_low, p = len(upper_bounds), len(lower_bounds), self.params
        if self.kind not in KINDS:
            return f"unknown kind, expected one of {', '.join(KINDS)}"
        if self.kind in PARAMS_PER_DIM:
            each = PARAMS_PER_DIM[self.kind]
            if n_up != n_low or len(p) != each * n_up:
                return f"takes n dims to n dims with {each} parameters each, found {n_up} -> {n_low} and {len(p)}"
            for i, (u, low) in enumerate(zip(upper_bounds, lower_bounds, strict=True)):
                problem = self._check_dim(p[each * i : each * i + each], u, low)
                if problem is not None:
                    return problem
            return None
        shape = {
            "Embed": (n_low == 1 and n_up >= 1, len(p) == n_up),
            "Unmerge": (n_low == 1 and n_up >= 1, len(p) == n_up),
            "Merge": (n_up == 1 and n_low >= 1, len(p) == n_low),
            "AddDim": (n_up == 1 and n_low == 0, len(p) == 1),
            "ConstDim": (n_up == 0 and n_low >= 1, len(p) == 2 * n_low),
        }[self.kind]
        if not all(shape):
            return f"cannot take {n_up} dims to {n_low} with {len(p)} parameters"
        lengths = {"Unmerge": upper_bounds, "Merge": lower_bounds, "AddDim": upper_bounds, "ConstDim": lower_bounds}
        params = p[1::2] if self.kind == "ConstDim" else p
        if self.kind != "Embed" and list(params) != list(lengths[self.kind]):
            return f"lengths {list(params)} do not match the bounds {list(lengths[self.kind])}"
        if self.kind in ("Unmerge", "Merge"):
            other = (lower_bounds if self.kind == "Unmerge" else upper_bounds)[0]
            if prod(p) != other:
                return f"the product of lengths {list(p)} is {prod(p)}, the other side has length {other}"
        if self.kind == "ConstDim" and not all(0 <= v < n for v, n in zip(p[::2], p[1::2], strict=True)):
            return f"value and length pairs {list(p)} need 0 <= value < length"
        return None

    def _check_dim(self, p: Sequence[int], upper: int, lower: int) -> str | None:
        if self.kind == "PassThrough" and upper != lower:
            return f"upper length {upper} and lower length {lower} differ"
        if self.kind == "Pad" and (min(p) < 0 or upper != lower + sum(p)):
            return f"padding {list(p)} around length {lower} does not give {upper}"
        if self.kind == "Slice" and not (0 <= p[0] < p[1] <= lower and upper == p[1] - p[0]):
            return f"range {p[0]} to {p[1]} of length {lower} does not give {upper}"
        if self.kind == "Broadcast" and p[0] != lower:
            return f"length {p[0]} differs from the lower length {lower}"
        return None


def _weighted_sum(values: Sequence[Any], weights: Sequence[int]) -> Any:
    total: Any = None
    for value, weight in zip(values, weights, strict=True):
        scaled = value if weight == 1 else value * weight
        total = scaled if total is None else total + scaled
    return total


def _position(digits: Sequence[Any], lengths: Sequence[int]) -> Any:
    """The row-major position of `digits` in a shape of `lengths`."""
    total = digits[0]
    for digit, length in zip(digits[1:], lengths[1:], strict=True):
        total = (total * length if length > 1 else total) + digit
    return total


def _digits(position: Any, lengths: Sequence[int]) -> list[Any]:
    """The row-major digits of `position` in a shape of `lengths`: 0 where the length is 1."""
    digits: list[Any] = []
    leading = True
    for i, length in enumerate(lengths):
        stride = prod(lengths[i + 1 :])
        digit = position // stride if stride > 1 else position
        digits.append(0 if length == 1 else digit if leading else digit % length)
        leading = leading and length == 1
    return digits
