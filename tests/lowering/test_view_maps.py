"""Views: every operation that only moves elements as maps, and any chain of them as a short one."""

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType, f16
from xdsl.ir import Block

from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.transform_map import TransformMap, apply_chain
from xpaged.lowering.tosa_views import View, broadcast_map, reshape_maps, slice_map, transpose_map
from xpaged.lowering.view_maps import maps_of, position_of


def positions(maps: list[TransformMap], upper: tuple[int, ...], lower: tuple[int, ...]) -> np.ndarray:
    """The row-major position in `lower` of every upper coordinate."""
    coordinates, conditions = apply_chain(maps, [np.asarray(i) for i in np.indices(upper)])
    assert not conditions
    result = np.zeros(upper, np.int64)
    for coordinate, length in zip(coordinates, lower, strict=True):
        result = result * length + coordinate
    return result


def factorizations(total: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes with `total` elements, of up to five dimensions."""

    @st.composite
    def draw_shape(draw: st.DrawFn) -> tuple[int, ...]:
        rest, shape = total, list[int]()
        while len(shape) < 4 and (rest > 1 or draw(st.booleans())):
            length = draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0]))
            shape.append(length)
            rest //= length
        return (*shape, rest) if rest > 1 or not shape else tuple(shape)

    return draw_shape()


@given(st.data(), st.sampled_from([1, 6, 8, 12, 24, 36]))
def test_reshapes(data: st.DataObject, total: int):
    lower, upper = data.draw(factorizations(total)), data.draw(factorizations(total))
    maps = reshape_maps(lower, upper)
    assert len(maps) <= 2
    for transform_map in maps:
        transform_map.verify()
    assert (positions(maps, upper, lower).reshape(-1) == np.arange(total)).all()


def test_reshapes_are_short():
    (split,) = reshape_maps((1024,), (1, 16, 64))
    assert [t.kind for t in split.transforms] == ["AddDim", "Unmerge"]
    (repeats,) = reshape_maps((1, 2, 7, 64, 4096), (1, 14, 64, 4096))
    assert [t.kind for t in repeats.transforms] == ["PassThrough", "Merge", "PassThrough", "PassThrough"]
    assert [[t.kind for t in m.transforms] for m in reshape_maps((6, 4), (8, 3))] == [["Unmerge"], ["Merge"]]
    with pytest.raises(ValueError, match="different numbers of elements"):
        reshape_maps((2, 3), (5,))


def source(shape: tuple[int, ...]) -> View:
    return View.of(Block(arg_types=[TensorType(f16, shape)]).args[0])


@st.composite
def views(draw: st.DrawFn) -> View:
    """Chains of reshapes, transposes, slices and broadcasts of a tensor."""
    shape = draw(factorizations(draw(st.sampled_from([6, 8, 12, 24, 36]))))
    view = source(shape)
    for _ in range(draw(st.integers(0, 5))):
        bounds = view.bounds
        kind = draw(st.sampled_from(["reshape", "transpose", "slice", "broadcast"]))
        if kind == "reshape":
            new = draw(factorizations(prod(bounds)))
            view = view.under(reshape_maps(bounds, new), new)
        elif kind == "transpose":
            step = transpose_map(bounds, draw(st.permutations(range(len(bounds)))))
            view = view.under([step], step.upper_bounds)
        elif kind == "slice":
            starts = [draw(st.integers(0, n - 1)) for n in bounds]
            sizes = [draw(st.integers(1, n - s)) for n, s in zip(bounds, starts, strict=True)]
            view = view.under([slice_map(bounds, starts, sizes)], sizes)
        elif prod(bounds) < 100:
            new = [draw(st.sampled_from([1, 2, 3])) if n == 1 else n for n in bounds]
            view = view.under([broadcast_map(bounds, new)], new)
    return view


@settings(max_examples=150)
@given(views())
def test_any_view_is_the_same_in_short(view: View):
    names = [f"n{i}" for i in range(len(view.bounds))]
    lower = view.source.type.get_shape()  # pyright: ignore
    short = maps_of(view, names)
    for transform_map in short:
        transform_map.verify()
    wanted = positions(list(view.maps), view.bounds, lower)
    assert (positions(short, view.bounds, lower) == wanted).all()
    assert not short or short[0].upper_bounds == view.bounds
    position = position_of(view)
    assert position is not None
    values = {f"d{i}": v for i, v in enumerate(np.indices(view.bounds))}
    assert (np.broadcast_to(position.evaluate(values), view.bounds) == wanted).all()


def test_the_form_of_a_view():
    pages = source((2, 3, 12))
    heads = pages.under(reshape_maps((2, 3, 12), (2, 2, 1, 3, 6)), (2, 2, 1, 3, 6))
    repeated = heads.under([broadcast_map(heads.bounds, (2, 2, 5, 3, 6))], (2, 2, 5, 3, 6))
    flat = repeated.under(reshape_maps(repeated.bounds, (20, 3, 6)), (20, 3, 6))
    maps = maps_of(flat, ("head", "key", "channel"))
    assert [sorted(t.kind for t in m.transforms) for m in maps] == [
        ["Merge", "PassThrough", "PassThrough"],
        ["AddDim", "Unmerge"],
        ["Merge"],
    ]
    assert maps[0].lower_names == ("head_0", "head_1", "key", "channel")
    assert maps_of(source((4, 5)), ("a", "b")) == []


def test_padding_has_no_position():
    pad = TransformMap(slice_map((4,), (1,), (2,)).inverse().transforms, (4,), (2,))
    view = source((2,)).under([pad], (4,))
    assert position_of(view) is None
    assert maps_of(view, ("x",)) == [pad]


def test_coordinates():
    view = source((4, 6)).under([transpose_map((4, 6), (1, 0))], (6, 4))
    assert [str(c) for c in view.coordinates()] == ["d1", "d0"]
    assert view.coordinates()[0] == IndexExpr.var("d1", 0, 3)
