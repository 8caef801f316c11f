"""What integer constants are recognised as."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType, i32, i64

from xpaged.ir import dense
from xpaged.lowering.integers import affine_form


def elements(values: Any) -> Any:
    array = np.asarray(values)
    return dense.from_values(TensorType(i64, array.shape), [int(x) for x in array.reshape(-1)])


def evaluated(form: tuple[int, tuple[int, ...]], index: Any) -> Any:
    base, coefficients = form
    return np.asarray(sum((c * i for c, i in zip(coefficients, index, strict=True)), np.int64(base)))


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.integers(-100, 100),
    st.lists(st.integers(-9, 9), min_size=3, max_size=3),
    st.data(),
)
def test_affine(shape: list[int], base: int, steps: list[int], data: st.DataObject):
    index = np.indices(shape)
    array = np.asarray(sum((s * i for s, i in zip(steps, index, strict=False)), np.int64(base)))
    form = affine_form(elements(array))
    assert form is not None
    assert (evaluated(form, index) == array).all()
    place = data.draw(st.integers(0, array.size - 1))
    broken = array.reshape(-1).copy()
    broken[place] += 1
    form = affine_form(elements(broken.reshape(shape)))
    if form is not None:  # only where one element decides a coefficient
        assert (evaluated(form, index) == broken.reshape(shape)).all()


@pytest.mark.parametrize("values", [[0, 1, 3], [[0, 1], [2, 4]], [2, 2, 3, 3]])
def test_not_affine(values: Any):
    assert affine_form(elements(values)) is None


def test_splats_of_any_size():
    assert affine_form(dense.splat(TensorType(i32, [1, 14, 1500, 4096]), 7)) == (7, (0, 0, 0, 0))
