"""Views in TOSA graphs: operations that only say where an element comes from, as transform maps.

Reshapes, transposes, slices and broadcasts (also those spelled as a product with ones, as a sum with zeros, or as
`tensor.expand_shape` and its like) take the coordinates of their result to those of their operand. Following them
from a value leads to what it is a view of.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.dialects.tensor import CollapseShapeOp, ExpandShapeOp, ExtractSliceOp
from xdsl.ir import Operation, SSAValue

from xpaged.dialects.rock.ops import TransformOp
from xpaged.dialects.tosa import elementwise, ops
from xpaged.dialects.tosa.constants import constant_of
from xpaged.errors import XpagedError
from xpaged.ir import dense
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.transform_map import Transform, TransformMap, apply_chain


class View(NamedTuple):
    """`source` seen through `maps`, uppermost first; `bounds` are the lengths of the uppermost coordinates."""

    source: SSAValue
    maps: tuple[TransformMap, ...]
    bounds: tuple[int, ...]

    @staticmethod
    def of(value: SSAValue) -> "View":
        """A value seen as it is."""
        return View(value, (), shape_of(value))

    def onto(self, source: SSAValue, maps: Sequence[TransformMap]) -> "View":
        """The same view with `maps`, from the present source to a new one, added below."""
        return View(source, (*self.maps, *(m for m in maps if not m.is_identity())), self.bounds)

    def under(self, maps: Sequence[TransformMap], bounds: Sequence[int]) -> "View":
        """The view of these `bounds` that looks through `maps` at this one."""
        return View(self.source, (*(m for m in maps if not m.is_identity()), *self.maps), tuple(bounds))

    def coordinates(self, names: str | None = None) -> list[IndexExpr]:
        """Where in `source` the element at the variables `names` (one letter each, else d0, d1 ...) lies."""
        letters = names or [f"d{i}" for i in range(len(self.bounds))]
        upper = [IndexExpr.var(n, 0, length - 1) for n, length in zip(letters, self.bounds, strict=True)]
        return apply_chain(self.maps, upper)[0]

    def followed(self) -> "View":
        """Down to what this is a view of: the result of an operation that computes, or a block argument."""
        view = self
        while (step := step_of(view.source)) is not None:
            view = view.onto(*step)
        return view

    def in_memory(self) -> "View":
        """As `followed`, but also through padding with 0, for what is read from memory: there, an element that does not
        exist reads as 0."""
        view = self.followed()
        while isinstance(op := view.source.owner, ops.PadOp) and op.value == 0:
            view = view.onto(op.input1, [pad_map(op)]).followed()
        return view

    def operand(self, value: SSAValue) -> "View":
        """The view of an operand of the elementwise operation that makes `source`: its lengths of 1 are broadcast."""
        return self.onto(value, [broadcast_map(shape_of(value), shape_of(self.source))])


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The static, positive lengths of a tensor; XpagedError for anything else."""
    if not isinstance(value.type, TensorType):
        raise XpagedError("expected a tensor", at=value, found=value.type)
    if DYNAMIC_INDEX in value.type.get_shape():
        raise XpagedError(
            "dynamic shapes are not supported", at=value, found=value.type, fix="give every dimension a length"
        )
    if 0 in value.type.get_shape():
        raise XpagedError("a tensor without elements is not supported", at=value, found=value.type)
    return value.type.get_shape()


def step_of(value: SSAValue) -> tuple[SSAValue, list[TransformMap]] | None:
    """What `value` is a direct view of, and the maps that lead there; None when it is computed or an argument."""
    op = value.owner
    match op:
        case ops.ReshapeOp():
            return op.input1, reshape_maps(shape_of(op.input1), shape_of(value))
        case ExpandShapeOp() | CollapseShapeOp():
            return op.src, _reassociated(op)
        case ops.TransposeOp():
            return op.input1, [transpose_map(shape_of(op.input1), op.order)]
        case ops.SliceOp():
            return op.input1, [slice_map(shape_of(op.input1), op.starts, op.sizes)]
        case ExtractSliceOp():
            return op.source, _extracted(op)
        case ops.TileOp():
            return op.input1, [_broadcast(shape_of(op.input1), shape_of(value))]
        case elementwise.IdentityOp():
            return op.input1, []
        case TransformOp():
            return op.source, [op.map.data]
        case elementwise.MulOp() | elementwise.AddOp():
            source = _neutral_operand(op)
            return None if source is None else (source, [broadcast_map(shape_of(source), shape_of(value))])
        case _:
            return None


def _neutral_operand(op: elementwise.MulOp | elementwise.AddOp) -> SSAValue | None:
    """The operand that is left unchanged because the other one is a constant 1 (product) or 0 (sum)."""
    neutral = 1 if isinstance(op, elementwise.MulOp) else 0
    for operand, other in ((op.input1, op.input2), (op.input2, op.input1)):
        if dense.splat_value(constant_of(other)) == neutral:
            return operand
    return None


def _reassociated(op: ExpandShapeOp | CollapseShapeOp) -> list[TransformMap]:
    source, result = shape_of(op.src), shape_of(op.result)
    if prod(source) != prod(result):
        raise XpagedError(
            f"'{op.name}' changes the number of elements", at=op, found=f"{prod(source)} to {prod(result)}"
        )
    return reshape_maps(source, result)


def _extracted(op: ExtractSliceOp) -> list[TransformMap]:
    source, result = shape_of(op.source), shape_of(op.result)
    starts, sizes = (tuple(attr.get_values()) for attr in (op.static_offsets, op.static_sizes))
    if DYNAMIC_INDEX in (*starts, *sizes) or set(op.static_strides.get_values()) != {1}:
        raise XpagedError(
            f"'{op.name}' must have static offsets and sizes, and strides of 1",
            at=op,
            found=f"offsets {list(starts)}, sizes {list(sizes)}, strides {list(op.static_strides.get_values())}",
        )
    if len(starts) != len(source) or not all(
        0 <= a and 0 < n and a + n <= length for a, n, length in zip(starts, sizes, source, strict=True)
    ):
        raise XpagedError(
            f"'{op.name}' reaches outside its source",
            at=op,
            found=f"offsets {list(starts)}, sizes {list(sizes)}",
            expected=f"inside {list(source)}",
        )
    if [n for n in sizes if n != 1] != [n for n in result if n != 1]:
        raise XpagedError(f"'{op.name}' of sizes {list(sizes)} has a result of other lengths", at=op, found=result)
    return [*reshape_maps(sizes, result), slice_map(source, starts, sizes)]


def _names(prefix: str, shape: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(len(shape)))


def transpose_map(lower: Sequence[int], order: Sequence[int]) -> TransformMap:
    """Upper dimension `i` is lower dimension `order[i]`."""
    names = _names("dim", lower)
    return TransformMap(
        (Transform("PassThrough", (), tuple(names[p] for p in order), tuple(range(len(order))),
                   tuple(names[p] for p in order), tuple(order)),),
        tuple(lower[p] for p in order),
        tuple(lower),
    )  # fmt: skip


def slice_map(lower: Sequence[int], starts: Sequence[int], sizes: Sequence[int]) -> TransformMap:
    """`sizes[i]` elements of dimension `i` from `starts[i]` on."""
    names = _names("dim", lower)
    transforms = [
        Transform("PassThrough", (), (name,), (i,), (name,), (i,))
        if (start, size) == (0, length)
        else Transform("Slice", (start, start + size), (name,), (i,), (name,), (i,))
        for i, (name, length, start, size) in enumerate(zip(names, lower, starts, sizes, strict=True))
    ]
    return TransformMap(tuple(transforms), tuple(sizes), tuple(lower))


def pad_map(op: ops.PadOp) -> TransformMap:
    """From a padded tensor to the one that is padded; an element outside of that does not exist."""
    lower, upper = shape_of(op.input1), shape_of(op.output)
    names = _names("dim", lower)
    transforms = [
        Transform("Pad", pair, (name,), (i,), (name,), (i,))
        if any(pair)
        else Transform("PassThrough", (), (name,), (i,), (name,), (i,))
        for i, (name, pair) in enumerate(zip(names, op.margins, strict=True))
    ]
    return TransformMap(tuple(transforms), upper, lower)


def broadcast_map(lower: Sequence[int], upper: Sequence[int]) -> TransformMap:
    """Lower dimensions of length 1 are repeated, as operands of elementwise operations are."""
    if len(lower) != len(upper) or any(a not in (1, b) for a, b in zip(lower, upper, strict=True)):
        raise XpagedError(f"{list(lower)} does not broadcast to {list(upper)}")
    return _broadcast(lower, upper)


def _broadcast(lower: Sequence[int], upper: Sequence[int]) -> TransformMap:
    names = _names("dim", lower)
    transforms = [
        Transform("PassThrough", (), (name,), (i,), (name,), (i,))
        if a == b
        else Transform("Broadcast", (a,), (name,), (i,), (name,), (i,))
        for i, (name, a, b) in enumerate(zip(names, lower, upper, strict=True))
    ]
    return TransformMap(tuple(transforms), tuple(upper), tuple(lower))


def reshape_maps(
    lower: Sequence[int], upper: Sequence[int], names: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None)
) -> list[TransformMap]:
    """A view of the lengths `upper` of the same elements in row-major order: one map, or two through a common form.

    Lengths of 1 come and go; runs of dimensions whose products agree become a `Merge` or an `Unmerge`. `names` are
    those of the lower and the upper dimensions.
    """
    if prod(lower) != prod(upper):
        raise ValueError(f"{list(lower)} and {list(upper)} have different numbers of elements")
    groups = list(_groups(lower, upper))
    middle: list[int] = []
    above: list[Transform] = []
    below: list[Transform] = []
    low, up = names[0] or _names("dim", lower), names[1] or _names("dim", upper)
    one_map = all(len(us) <= 1 or len(ls) <= 1 for us, ls in groups)
    for us, ls in groups:
        if not us or not ls:
            # A length of 1 on one side only: it exists in the middle where the lower side has it.
            if us:
                above.append(Transform("AddDim", (1,), (up[us[0]],), (us[0],), (), ()))
            else:
                below.append(Transform("ConstDim", (0, 1), (), (), (low[ls[0]],), (ls[0],)))
            continue
        name = low[ls[0]] if len(ls) == 1 else f"total{len(middle) or ''}"
        place = (len(middle),)
        middle.append(prod(upper[u] for u in us))
        unames, lnames = tuple(up[u] for u in us), tuple(low[i] for i in ls)
        kind = "PassThrough" if len(us) == 1 else "Unmerge"
        params = () if len(us) == 1 else tuple(upper[u] for u in us)
        above.append(Transform(kind, params, unames, tuple(us), (name,), place))
        kind = "PassThrough" if len(ls) == 1 else "Merge"
        params = () if len(ls) == 1 else tuple(lower[i] for i in ls)
        below.append(Transform(kind, params, (name,), place, lnames, tuple(ls)))
    if one_map:
        return [_composed(above, below, upper, lower)]
    first = TransformMap(tuple(above), tuple(upper), tuple(middle))
    second = TransformMap(tuple(below), tuple(middle), tuple(lower))
    return [first, second]


def _composed(
    above: Sequence[Transform], below: Sequence[Transform], upper: Sequence[int], lower: Sequence[int]
) -> TransformMap:
    """The two halves of a reshape as one map, where in each group one half passes through."""
    by_place = {t.upper_dims[0]: t for t in below if t.upper_dims}
    transforms: list[Transform] = [t for t in below if not t.upper_dims]
    for t in above:
        if not t.lower_dims:
            transforms.append(t)
            continue
        b = by_place[t.lower_dims[0]]
        kind, params = (b.kind, b.params) if t.kind == "PassThrough" else (t.kind, t.params)
        transforms.append(Transform(kind, params, t.upper_names, t.upper_dims, b.lower_names, b.lower_dims))
    return TransformMap(tuple(transforms), tuple(upper), tuple(lower))


def _groups(lower: Sequence[int], upper: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Runs of upper and lower dimensions with equal products, as short as possible; a lone 1 makes a one-sided run."""
    groups: list[tuple[list[int], list[int]]] = []
    u = low = 0
    while u < len(upper) or low < len(lower):
        unit_up, unit_low = upper[u : u + 1] == (1,), lower[low : low + 1] == (1,)
        if u == len(upper) or (unit_low and not unit_up):
            groups.append(([], [low]))
            low += 1
            continue
        if low == len(lower) or (unit_up and not unit_low):
            groups.append(([u], []))
            u += 1
            continue
        us, ls = [u], [low]
        size_up, size_low = upper[u], lower[low]
        u, low = u + 1, low + 1
        while size_up != size_low:
            if size_up < size_low:
                us.append(u)
                size_up *= upper[u]
                u += 1
            else:
                ls.append(low)
                size_low *= lower[low]
                low += 1
        groups.append((us, ls))
    return groups


def is_view(op: Operation) -> bool:
    """Whether an operation only says where elements come from."""
    return len(op.results) == 1 and step_of(op.results[0]) is not None
