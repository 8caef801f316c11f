"""Dense constants: compact splats, bit patterns, fast lists, refusals."""

import time

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    Builtin,
    DenseIntOrFPElementsAttr,
    TensorType,
    bf16,
    f16,
    f32,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from xpaged.ir import dense


class DenseParser(dense.DenseLiteralParser, Parser):
    pass


def parse(text: str) -> DenseIntOrFPElementsAttr:
    ctx = Context()
    ctx.load_dialect(Builtin)
    parser = DenseParser(ctx, text)
    attr = parser.parse_attribute()
    parser.parse_optional_punctuation(",")
    assert isinstance(attr, DenseIntOrFPElementsAttr)
    return attr


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("dense<[1, -2, 0x10]> : tensor<3xi64>", (1, -2, 16)),
        ("dense<[]> : tensor<0xi64>", ()),
        ("dense<> : tensor<0xi64>", ()),
        ("dense<[1.0, -2.5e1,\n 3.]> : tensor<3xf32>", (1.0, -25.0, 3.0)),
        ("dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>", (1, 2, 3, 4)),
        ("dense<true> : tensor<2xi1>", (-1, -1)),
        ("dense<[true, false]> : tensor<2xi1>", (-1, 0)),
        ("dense<0xFC00> : tensor<2xf16>", (-float("inf"),) * 2),
        ("dense<[[[0xFC00], [1.5]]]> : tensor<1x2x1xf16>", (-float("inf"), 1.5)),
        ("dense<[0xFF80, 0x7F80]> : tensor<2xbf16>", (-float("inf"), float("inf"))),
        ("dense<18446744073709551615> : tensor<1xui64>", (2**64 - 1,)),
        ("dense<- 3> : tensor<1xi32>", (-3,)),
        ("dense<255> : tensor<2xi8>", (-1, -1)),
        ('dense<"0x0100000002000000"> : tensor<2xi32>', (1, 2)),
        ('dense<"0x01000000"> : tensor<2xi32>', (1, 1)),
    ],
)
def test_parse(text: str, values: tuple[float, ...]):
    attr = parse(text)
    assert dense.values(attr) == values
    assert parse(str(attr)) == attr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dense<[1, 2]> : tensor<3xi64>", "Shape mismatch"),
        ("dense<[1, 2]> : tensor<1x2xi64>", "Shape mismatch"),
        ("dense<[[1, 2], [3]]> : tensor<2x2xi64>", "ragged"),
        ("dense<[[1, 2], 3]> : tensor<2x2xi64>", "ragged"),
        ("dense<[1, 2,]> : tensor<2xi64>", "Expected"),
        ("dense<[1 2]> : tensor<2xi64>", "expected"),
        ("dense<[1, a]> : tensor<2xi64>", "Expected"),
        ("dense<[1, 2> : tensor<2xi64>", "expected"),
        ("dense<[1.5]> : tensor<1xi64>", "is no integer"),
        ("dense<[+1.5]> : tensor<1xi64>", "invalid literal"),
        ("dense<300> : tensor<2xi8>", "out of range"),
        ("dense<-1> : tensor<1xui8>", "out of range"),
        ("dense<0x1FC00> : tensor<1xf16>", "too big"),
        ("dense<-0xFC00> : tensor<1xf16>", "bit pattern"),
        ("dense<1> : i64", "Expected a tensor"),
        ("dense<1> : tensor<?xi64>", "static shape"),
    ],
)
def test_refused(text: str, message: str):
    with pytest.raises(ParseError, match=message):
        parse(text)


def test_giant_splat_is_compact_and_fast():
    start = time.process_time()
    attr = parse("dense<0xFC00> : tensor<1x14x1500x4096xf16>")
    assert len(attr.data.data) == 2
    assert str(attr) == "dense<0xfc00> : tensor<1x14x1500x4096xf16>"
    array = dense.to_numpy(attr, np.float16)
    assert array.shape == (1, 14, 1500, 4096)
    assert array.strides == (0, 0, 0, 0)
    assert time.process_time() - start < 0.5


def test_long_list_is_fast():
    text = f"dense<[{', '.join(str(2 * i) for i in range(8192))}]> : tensor<8192xi64>"
    start = time.process_time()
    attr = parse(text)
    assert time.process_time() - start < 0.05
    assert dense.values(attr) == tuple(range(0, 16384, 2))


def test_splat_helpers():
    ones = dense.splat(TensorType(f16, [4, 8]), 1.0)
    assert dense.splat_value(ones) == 1.0
    assert dense.compact(DenseIntOrFPElementsAttr.from_list(TensorType(f16, [4, 8]), [1.0] * 32)) == ones
    mixed = dense.from_values(TensorType(i32, [3]), [1, 2, 3])
    assert not dense.is_splat(mixed)
    assert dense.splat_value(mixed) is None
    assert dense.splat_value(i32) is None
    assert dense.splat_value(dense.splat(TensorType(i8, [2]), 255)) == -1
    assert (dense.to_numpy(mixed, np.int32) == [1, 2, 3]).all()
    assert dense.to_numpy(parse("dense<[true, false]> : tensor<2xi1>"), np.bool_).tolist() == [True, False]
    with pytest.raises(ValueError, match="size"):
        dense.to_numpy(mixed, np.int64)


def test_with_element_type():
    unsigned = parse("dense<[1, 18446744073709551615]> : tensor<2xui64>")
    assert dense.values(dense.with_element_type(unsigned, TensorType(i64, [2]))) == (1, -1)
    assert dense.with_element_type(dense.splat(TensorType(i64, [1]), 3), TensorType(i64, [5, 5])).get_shape() == (5, 5)
    with pytest.raises(ValueError, match="do not fill"):
        dense.with_element_type(unsigned, TensorType(i64, [3]))
    with pytest.raises(ValueError, match="size of"):
        dense.with_element_type(unsigned, TensorType(i32, [2]))


def test_bits_of_small_floats():
    assert dense.splat(TensorType(bf16, [2]), 1.5).data.data == b"\xc0\x3f"
    assert dense.splat(TensorType(f32, [2]), 1.0).data.data == b"\x00\x00\x80\x3f"
    assert dense.splat(TensorType(i1, [2]), 1).data.data == b"\xff"
