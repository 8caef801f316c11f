"""`!migraphx.shaped`: text, verification, and the memory layout that its strides describe."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, NoneType, Signedness, TensorType, f16, f32, i32
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from xpaged.context import context
from xpaged.dialects.migraphx.shaped import MIXRShapedType, signless, standard_strides
from xpaged.errors import XpagedError


def parse(text: str) -> MIXRShapedType:
    type = Parser(context(), text).parse_type()
    assert isinstance(type, MIXRShapedType)
    return type


@pytest.mark.parametrize(
    ("text", "shape", "strides"),
    [
        ("!migraphx.shaped<4x5x24xf16, 120x24x1>", (4, 5, 24), (120, 24, 1)),
        ("!migraphx.shaped<2x3xf32, 0x1>", (2, 3), (0, 1)),
        ("!migraphx.shaped<0x10xf32, 0x0>", (0, 10), (0, 0)),
        ("!migraphx.shaped<1xui64, 0>", (1,), (0,)),
        ("!migraphx.shaped<f32>", (), ()),
        ("!migraphx.shaped<?x3xsi8, ?x1>", (DYNAMIC_INDEX, 3), (DYNAMIC_INDEX, 1)),
        ("!migraphx.shaped<2xi1, 1>", (2,), (1,)),
    ],
)
def test_text(text: str, shape: tuple[int, ...], strides: tuple[int, ...]):
    type = parse(text)
    assert type.get_shape() == shape
    assert type.get_strides() == strides
    assert str(type) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!migraphx.shaped<>", "expected shaped dimension list with type"),
        ("!migraphx.shaped<4x4xf32>", "expected `,` and a `x`-separated list"),
        ("!migraphx.shaped<4x4xf32,>", "expected `,` and a `x`-separated list"),
        ("!migraphx.shaped<f32,>", "expected `,` and a `x`-separated list"),
        ("!migraphx.shaped<2x3, 6x2>", "expected shaped dimension list with type"),
        ("!migraphx.shaped<2x3xfoo, 6x2>", "expected shaped dimension list with type"),
        ("!migraphx.shaped<2x3xf32 6x2>", "expected `,`"),
        ("!migraphx.shaped<2x3xf32, 6x2", "expected"),
        ("!migraphx.shaped<2x3xf32, 6x2x1>", "2 elements in its shape but 3 strides"),
        ("!migraphx.shaped<?x?x?xf32, ?x?>", "3 elements in its shape but 2 strides"),
        ("!migraphx.shaped<2xmemref<2xf32>, 1>", "cannot put the type memref<2xf32>"),
    ],
)
def test_refused(text: str, message: str):
    with pytest.raises((ParseError, VerifyException), match=message):
        parse(text)


def test_constructor_verifies():
    assert MIXRShapedType(f16, [2, 3]) == parse("!migraphx.shaped<2x3xf16, 3x1>")
    with pytest.raises(VerifyException, match="negative stride"):
        MIXRShapedType(f16, [2], [-3])
    with pytest.raises(VerifyException, match="cannot put the type"):
        MIXRShapedType(NoneType(), [2])


@pytest.mark.parametrize(
    ("text", "standard"),
    [
        ("!migraphx.shaped<2x3xf32, 3x1>", True),
        ("!migraphx.shaped<2x3xf32, 6x1>", True),
        ("!migraphx.shaped<2x3xf32, 1x2>", False),
        ("!migraphx.shaped<2x3xf32, 0x1>", False),
        ("!migraphx.shaped<2xf32, 2>", False),
        ("!migraphx.shaped<1xf32, 0>", True),
        ("!migraphx.shaped<f32>", True),
    ],
)
def test_is_standard(text: str, standard: bool):
    assert parse(text).is_standard() is standard


def test_tensors():
    type = parse("!migraphx.shaped<4x3x5xui8, 1x0x6>")
    assert type.as_tensor() == TensorType(IntegerType(8), [4, 3, 5])
    assert type.flat_tensor() == TensorType(IntegerType(8), [30])
    assert signless(IntegerType(32, Signedness.SIGNED)) == i32
    assert signless(f32) == f32


@pytest.mark.parametrize(
    ("text", "buffer", "permutation", "sliced"),
    [
        ("!migraphx.shaped<4x3xf32, 3x1>", (4, 3), (0, 1), (4, 3)),
        ("!migraphx.shaped<4x3xf32, 1x4>", (3, 4), (1, 0), (4, 3)),
        ("!migraphx.shaped<4x3xf32, 5x1>", (4, 5), (0, 1), (4, 3)),
        ("!migraphx.shaped<4x3xf32, 1x0>", (4, 1), (0, 1), (4, 1)),
        ("!migraphx.shaped<4x3x5xf32, 1x0x6>", (5, 6, 1), (1, 2, 0), (4, 1, 5)),
        ("!migraphx.shaped<3x1x1xf32, 1x1x1>", (3, 1, 1), (0, 1, 2), (3, 1, 1)),
        ("!migraphx.shaped<1xf32, 0>", (1,), (0,), (1,)),
        ("!migraphx.shaped<f32>", (), (), ()),
    ],
)
def test_memory_layout(text: str, buffer: tuple[int, ...], permutation: tuple[int, ...], sliced: tuple[int, ...]):
    layout = parse(text).memory_layout()
    assert (layout.buffer_shape, layout.permutation, layout.sliced) == (buffer, permutation, sliced)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!migraphx.shaped<4x24x24xf16, 1152x48x2>", "smallest stride 2 has no in-memory layout"),
        ("!migraphx.shaped<4x24x24xf16, 1000x100x1>", "stride of dimension 0 is too small"),
        ("!migraphx.shaped<4x24x24xf16, 480x10x1>", "stride of dimension 1 is too small"),
        ("!migraphx.shaped<4x24x24xf16, 576x10x1>", "stride of dimension 0 is not a multiple"),
        ("!migraphx.shaped<4x2x3xf16, 7x3x1>", "stride of dimension 0 is not a multiple"),
        ("!migraphx.shaped<4x?xf16, 24x1>", "dynamic shape"),
        ("!migraphx.shaped<4x0xf16, 1x1>", "without elements"),
    ],
)
def test_no_memory_layout(text: str, message: str):
    with pytest.raises(XpagedError, match=message):
        parse(text).memory_layout()


@st.composite
def strided_types(draw: st.DrawFn) -> MIXRShapedType:
    """Types made by permuting, slicing and broadcasting a row-major buffer."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    buffer = [length + draw(st.integers(0, 2)) if i else length for i, length in enumerate(lengths)]
    strides = list(standard_strides(buffer))
    order = draw(st.permutations(range(len(lengths))))
    shape, strides = [lengths[i] for i in order], [strides[i] for i in order]
    if buffer[-1] == lengths[-1]:  # only a dimension that is stepped over may be dropped
        for i in range(len(shape)):
            if strides[i] != 1 and draw(st.booleans()):
                strides[i] = 0
    return MIXRShapedType(f32, shape, strides)


@given(strided_types())
def test_layout_reads_what_the_strides_say(type: MIXRShapedType):
    layout = type.memory_layout()
    flat = np.arange(layout.count)
    view = flat.reshape(layout.buffer_shape).transpose(layout.permutation)
    logical = np.broadcast_to(view[tuple(slice(n) for n in layout.sliced)], type.get_shape())
    index = np.indices(type.get_shape())
    expected = sum(i * s for i, s in zip(index, type.get_strides(), strict=True))
    assert (logical == expected).all()
