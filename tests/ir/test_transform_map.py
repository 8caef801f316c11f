"""Transform maps: every kind, their algebra, and that all ways to evaluate them agree."""

from __future__ import annotations

import doctest
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xpaged.ir import index_expr, transform_map
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.transform_map import (
    Builder,
    TopDownBuilder,
    Transform,
    TransformMap,
    apply_chain,
    simplify,
)


@pytest.mark.parametrize("module", [index_expr, transform_map])
def test_examples_in_docstrings(module: Any):
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("built", "coords", "lower", "conditions"),
    [
        (Builder(("x", "y"), (2, 3)).pass_through("y", "x"), (2, 1), [1, 2], []),
        (Builder(("x",), (6,)).rename("z", "x"), (4,), [4], []),
        (Builder(("x",), (6,)).pad("x", 1, 2), (0,), [-1], [(-1, 0, 6)]),
        (Builder(("x",), (6,)).pad("x", 0, 0), (3,), [3], []),
        (Builder(("x",), (6,)).slice("x", 2, 5), (1,), [3], []),
        (Builder(("x",), (1,)).broadcast("x", 7), (5,), [0], []),
        (Builder(("x",), (3,)).broadcast("x", 7), (5,), [2], []),
        (Builder(("x",), (6,)).embed(("a", "b"), (3, 4), "x", (2, 1)), (2, 3), [7], [(7, 0, 6)]),
        (Builder(("x",), (6,)).unmerge(("a", "b"), "x", (2, 3)), (1, 2), [5], []),
        (Builder(("x", "y", "z"), (2, 3, 4)).merge("m", ("x", "y", "z")), (23,), [1, 2, 3], []),
        (Builder((), ()).add_dim("g", 9), (5,), [], []),
        (Builder(("x",), (6,)).const_dim("x", 4), (), [4], []),
    ],
)
def test_each_kind(built: Builder, coords: tuple[int, ...], lower: list[int], conditions: list[Any]):
    m = built.build()
    assert m.apply(coords) == (lower, conditions)
    assert m.affine_map().eval(coords, ()) == tuple(lower)


def test_text_and_names():
    m = Builder(("g", "s"), (2, 6)).pass_through("g").unmerge(("h", "t"), "s", (2, 3)).build()
    assert str(m) == (
        '[<PassThrough ["g"] at [0] -> ["g"] at [0]>, <Unmerge{2, 3} ["h", "t"] at [1, 2] -> ["s"] at [1]>]'
        " bounds = [2, 2, 3] -> [2, 6]"
    )
    assert m.upper_names == ("g", "h", "t")
    assert m.lower_names == ("g", "s")


def test_the_page_chain_of_a_key_cache_is_short():
    """Pages to `[kv head, channel, token]`: page and offset come out as one would write them."""
    batch, heads, tokens, dim, pages, page = 1, 2, 64, 64, 8, 1024
    flat = (
        Builder(("batch", "page", "offset"), (batch, pages, page)).pass_through("batch").merge("n", ("page", "offset"))
    )
    split = Builder(("batch", "n"), (batch, pages * page)).pass_through("batch")
    split = split.unmerge(("head", "token", "channel"), "n", (heads, tokens, dim))
    view = Builder(("batch", "head", "token", "channel"), (batch, heads, tokens, dim))
    view = view.merge("g", ("batch", "head")).pass_through("channel", "token")
    chain = [view.build(), split.build(), flat.build()]
    g, t, k, d = (IndexExpr.var(n, 0, hi) for n, hi in (("g", 1), ("t", 3), ("k", 15), ("d", 63)))
    (b, p, o), conditions = apply_chain(chain, [g, d, 16 * t + k])
    assert (str(b), str(p), str(o), conditions) == ("0", "4*g + t", "64*k + d", [])


def test_symbolic_conditions_that_hold_are_left_out():
    m = Builder(("x",), (10,)).pad("x", 0, 6).build()
    x = IndexExpr.var("x", 0, 15)
    assert m.apply([x]) == ([x], [(x, 0, 10)])
    assert m.apply([IndexExpr.var("x", 0, 9)])[1] == []


def test_constants_stay_symbolic_among_symbols():
    lower, _ = Builder(("x", "y"), (4, 5)).pass_through("x").const_dim("y", 3).build().apply([IndexExpr.var("x", 0, 3)])
    assert lower[1] == IndexExpr.const(3)
    assert isinstance(lower[1], IndexExpr)


def test_top_down_gives_the_same_maps():
    down = TopDownBuilder(("g", "n", "m", "k", "drop", "s", "w", "b"), (2, 6, 3, 4, 7, 3, 8, 9)).pass_through("g")
    down = down.merge("n", ("a", "c"), (2, 3)).unmerge(("m", "k"), "p").drop("drop").slice("s", 1, 5)
    down = down.pad("w", 1, 2).broadcast("b", 1).const_dim("z", 2, 3)
    up = Builder(("g", "a", "c", "p", "s", "w", "b", "z"), (2, 2, 3, 12, 5, 5, 1, 3)).pass_through("g")
    up = up.merge("n", ("a", "c")).unmerge(("m", "k"), "p", (3, 4)).add_dim("drop", 7).slice("s", 1, 4)
    up = up.pad("w", 1, 2).broadcast("b", 9).const_dim("z", 2)
    assert down.build() == up.build()
    assert TopDownBuilder(("x", "y"), (2, 3)).embed(("x", "y"), "l", 9, (4, 1)).build().apply((1, 2))[0] == [6]


@pytest.mark.parametrize(
    ("transform", "upper", "lower", "message"),
    [
        (Transform("Twist", (), ("x",), (0,), ("x",), (0,)), (4,), (4,), "unknown kind, expected one of PassThrough"),
        (Transform("PassThrough", (), ("x",), (0,), ("x",), (0,)), (4,), (5,), "upper length 4 and lower length 5"),
        (Transform("PassThrough", (1,), ("x",), (0,), ("x",), (0,)), (4,), (4,), "0 parameters each"),
        (Transform("Pad", (1, 1), ("x",), (0,), ("x",), (0,)), (4,), (4,), r"padding \[1, 1\] around length 4"),
        (Transform("Pad", (-1, 1), ("x",), (0,), ("x",), (0,)), (4,), (4,), r"padding \[-1, 1\]"),
        (Transform("Slice", (2, 7), ("x",), (0,), ("x",), (0,)), (5,), (6,), "range 2 to 7 of length 6"),
        (Transform("Slice", (2, 6), ("x",), (0,), ("x",), (0,)), (5,), (6,), "does not give 5"),
        (
            Transform("Broadcast", (2,), ("x",), (0,), ("x",), (0,)),
            (5,),
            (1,),
            "length 2 differs from the lower length 1",
        ),
        (
            Transform("Merge", (2, 3), ("x",), (0,), ("a", "b"), (0, 1)),
            (7,),
            (2, 3),
            r"product of lengths \[2, 3\] is 6",
        ),
        (Transform("Merge", (2, 3), ("x",), (0,), ("a", "b"), (0, 1)), (6,), (3, 2), "do not match the bounds"),
        (Transform("Merge", (2,), ("x",), (0,), ("a", "b"), (0, 1)), (6,), (3, 2), "cannot take 1 dims to 2 with 1"),
        (Transform("Unmerge", (3, 2), ("a", "b"), (0, 1), ("x",), (0,)), (3, 2), (7,), "the other side has length 7"),
        (Transform("Embed", (1,), ("a", "b"), (0, 1), ("x",), (0,)), (3, 2), (7,), "cannot take 2 dims to 1 with 1"),
        (Transform("AddDim", (3,), ("x",), (0,), (), ()), (4,), (), r"lengths \[3\] do not match the bounds \[4\]"),
        (Transform("ConstDim", (4, 4), (), (), ("x",), (0,)), (), (4,), "need 0 <= value < length"),
        (Transform("PassThrough", (), ("x",), (0,), ("x",), (1,)), (4,), (4,), r"lower dims \[1\] are used"),
        (Transform("PassThrough", (), ("x", "y"), (0,), ("x",), (0,)), (4,), (4,), "as many names as dims"),
        (
            Transform("PassThrough", (), ("x",), (0,), ("x",), (0,)),
            (0,),
            (0,),
            r"upper bounds \[0\] must all be positive",
        ),
    ],
)
def test_malformed_maps_are_refused(transform: Transform, upper: Any, lower: Any, message: str):
    with pytest.raises(ValueError, match=message):
        TransformMap((transform,), upper, lower).verify()


def test_a_dim_that_is_used_twice_or_never_is_refused():
    with pytest.raises(ValueError, match=r"lower dims \[0\] are used, expected each of 0..1 once"):
        Builder(("x", "y"), (2, 3)).pass_through("x").build()
    with pytest.raises(ValueError, match=r"lower dims \[0, 0, 1\] are used"):
        Builder(("x", "y"), (2, 3)).pass_through("x", "x", "y").build()
    with pytest.raises(ValueError, match="no lower dim 'z' among x, y"):
        Builder(("x", "y"), (2, 3)).pass_through("z")
    with pytest.raises(ValueError, match="1 names for 2 dims"):
        Builder(("x",), (2, 3))


def test_wrong_number_of_coordinates():
    with pytest.raises(ValueError, match="2 coordinates for a transform map of 1 upper dims"):
        Builder(("x",), (2,)).pass_through("x").build().apply([1, 2])
    with pytest.raises(ValueError, match="unknown transform kind 'Twist'"):
        Transform("Twist", (), (), (), (), ()).apply((), ())


@pytest.mark.parametrize(
    ("built", "step"),
    [
        (Builder(("x",), (1,)).broadcast("x", 7), "Broadcast"),
        (Builder((), ()).add_dim("x", 7), "AddDim"),
        (Builder(("x",), (4,)).const_dim("x", 2), "ConstDim"),
        (Builder(("x",), (6,)).embed(("a", "b"), (3, 4), "x", (2, 1)), "Embed"),
    ],
)
def test_no_inverse(built: Builder, step: str):
    with pytest.raises(ValueError, match=f"{step}.* has no inverse"):
        built.build().inverse()


def test_simplify_undoes_and_nests():
    split = Builder(("x",), (24,)).unmerge(("a", "b"), "x", (4, 6)).build()
    join = Builder(("a", "b"), (4, 6)).merge("x", ("a", "b")).build()
    assert simplify([join, split]) == []
    assert simplify([split, join]) == []
    assert simplify([join, split, join]) == [join]
    deeper = Builder(("a", "b"), (4, 6)).unmerge(("c", "d"), "a", (2, 2)).pass_through("b").build()
    (fused,) = simplify([deeper, split])
    assert fused == Builder(("x",), (24,)).unmerge(("c", "d", "b"), "x", (2, 2, 6)).build()
    (fused,) = simplify([join, deeper.inverse()])
    assert fused == Builder(("c", "d", "b"), (2, 2, 6)).merge("x", ("c", "d", "b")).build()


def test_simplify_sums_padding_and_slices():
    pad = Builder(("x",), (5,)).pad("x", 1, 2).build()
    more = Builder(("x",), (8,)).pad("x", 0, 4).build()
    assert simplify([more, pad]) == [Builder(("x",), (5,)).pad("x", 1, 6).build()]
    cut = Builder(("x",), (10,)).slice("x", 2, 9).build()
    again = Builder(("x",), (7,)).slice("x", 1, 3).build()
    assert simplify([again, cut]) == [Builder(("x",), (10,)).slice("x", 3, 5).build()]


@st.composite
def chains(draw: st.DrawFn) -> list[TransformMap]:
    """A random chain, uppermost first, of at most four maps with few elements."""
    bounds = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3))
    chain: list[TransformMap] = []
    for _ in range(draw(st.integers(1, 4))):
        names = [f"n{i}" for i in range(len(bounds))]
        builder = Builder(names, bounds)
        order = draw(st.permutations(list(range(len(bounds)))))
        while order:
            i = order.pop()
            kind = draw(
                st.sampled_from(
                    [
                        "pass",
                        "pass",
                        "pass",
                        "pad",
                        "slice",
                        "unmerge",
                        "unmerge",
                        "merge",
                        "merge",
                        "const",
                        "embed",
                        "broadcast",
                    ]
                )
            )
            length = bounds[i]
            room = prod(builder.upper_bounds) * prod([bounds[j] for j in order]) * length
            if kind == "merge" and order:
                j = order.pop()
                builder.merge(f"m{i}", (names[i], names[j]))
            elif kind == "unmerge":
                a = draw(st.sampled_from([f for f in range(1, length + 1) if length % f == 0]))
                builder.unmerge((f"a{i}", f"b{i}"), names[i], (a, length // a))
            elif kind == "pad" and room < 300:
                builder.pad(names[i], draw(st.integers(0, 2)), draw(st.integers(0, 2)))
            elif kind == "slice":
                begin = draw(st.integers(0, length - 1))
                builder.slice(names[i], begin, draw(st.integers(begin + 1, length)))
            elif kind == "const" and (order or builder.upper_bounds):
                builder.const_dim(names[i], draw(st.integers(0, length - 1)))
            elif kind == "embed" and room < 300:
                builder.embed((f"a{i}", f"b{i}"), (2, 3), names[i], (draw(st.integers(1, 3)), draw(st.integers(1, 2))))
            elif kind == "broadcast" and room < 300:
                builder.broadcast(names[i], length * draw(st.integers(1, 2)))
            else:
                builder.pass_through(names[i])
        if draw(st.integers(0, 5)) == 0 and prod(builder.upper_bounds) < 300:
            builder.add_dim("extra", 2)
        chain.insert(0, builder.build())
        bounds = list(builder.upper_bounds)
    return chain


def evaluated(chain: list[TransformMap], upper: tuple[int, ...]) -> tuple[list[Any], Any]:
    """Lower coordinates and validity at every element of the uppermost view."""
    lower, conditions = apply_chain(chain, list(np.indices(upper, dtype=np.int64)))
    valid = np.ones(upper, dtype=bool)
    for x, lo, hi in conditions:
        valid &= (x >= lo) & (x < hi)
    return [np.broadcast_to(x, upper) for x in lower], valid


@settings(max_examples=150, deadline=None)
@given(chains())
def test_simplify_keeps_the_meaning(chain: list[TransformMap]):
    upper = chain[0].upper_bounds
    short = simplify(chain)
    assert len(short) <= len(chain)
    lower, valid = evaluated(chain, upper)
    short_lower, short_valid = evaluated(short, upper)
    assert (valid == short_valid).all()
    for x, y in zip(lower, short_lower, strict=True):
        assert (x[valid] == y[valid]).all()


@settings(max_examples=100, deadline=None)
@given(chains())
def test_symbolic_affine_and_array_evaluation_agree(chain: list[TransformMap]):
    upper = chain[0].upper_bounds
    lower, valid = evaluated(chain, upper)
    symbols, conditions = apply_chain(chain, chain[0].variables())
    env = {f"d{i}": x for i, x in enumerate(np.indices(upper, dtype=np.int64))}
    proved = np.ones(upper, dtype=bool)
    for x, lo, hi in conditions:
        value = x.evaluate(env)
        proved &= (value >= lo) & (value < hi)
    assert (proved == valid).all()
    for x, y in zip(lower, symbols, strict=True):
        assert (x == y.evaluate(env)).all()
    last = tuple(n - 1 for n in upper)
    values: tuple[int, ...] = last
    for m in chain:
        values = tuple(m.affine_map().eval(values, ()))
    assert [int(x[last]) for x in lower] == list(values)


@settings(max_examples=100, deadline=None)
@given(chains())
def test_inverse_goes_back(chain: list[TransformMap]):
    for m in chain:
        try:
            inverse = m.inverse()
        except ValueError:
            continue
        inverse.verify()
        coords, valid = evaluated([m], m.upper_bounds)
        back, _ = inverse.apply(coords)
        for x, y in zip(back, np.indices(m.upper_bounds), strict=True):
            assert (x[valid] == y[valid]).all() if isinstance(x, np.ndarray) else (y[valid] == x).all()
        assert inverse.inverse().apply(list(m.upper_bounds))[0] == m.apply(list(m.upper_bounds))[0]
