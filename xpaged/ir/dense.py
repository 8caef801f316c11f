"""Dense constants: splats that store one element, values as Python numbers or NumPy arrays, and their fast parsing.

xDSL stores a splat `dense<1> : tensor<1x14x1500x4096xi32>` as 86 million elements and parses a list of numbers one
token at a time; it also reads the bit pattern in `dense<0xFC00> : tensor<f16>` as the number 64512 where MLIR means
minus infinity. Everything here keeps a splat as a single element (`DenseIntOrFPElementsAttr` prints it correctly), and
`DenseLiteralParser` is mixed into the parser so that text becomes such constants.
"""

from __future__ import annotations

import json
import re
from math import prod
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    MemRefType,
    TensorType,
    VectorType,
)
from xdsl.ir import Attribute
from xdsl.parser import AttrParser

if TYPE_CHECKING:
    import numpy.typing as npt

_NUMBER = re.compile(r"[-+]?\s*(0[xX][0-9a-fA-F]+|[0-9]+(\.[0-9]*([eE][-+]?[0-9]+)?)?)")
_NUMBERS = re.compile(r"([-+0-9.xXa-fA-F,\s\[\]]+)>")
"""The rest of `dense<1.0>` and `dense<[[1, 2], [3, 4]]>`; not of booleans, strings and complex numbers."""


def splat(tensor_type: Any, value: int | float) -> DenseIntOrFPElementsAttr:
    """The constant of static ranked type `tensor_type` whose elements all are `value`; it stores one element."""
    element: Any = tensor_type.get_element_type()
    if isinstance(element, IntegerType):
        value = cast("IntegerType[Any, Any]", element).get_normalized_value(int(value))
    return DenseIntOrFPElementsAttr(tensor_type, BytesAttr(cast(Any, element).pack((value,))))


def from_values(tensor_type: Any, values: list[int] | list[float]) -> DenseIntOrFPElementsAttr:
    """The constant of type `tensor_type` with the elements `values` in row-major order; compact when all are equal."""
    return compact(DenseIntOrFPElementsAttr.from_list(tensor_type, values))


def is_splat(attr: DenseIntOrFPElementsAttr) -> bool:
    """Whether every element has the same bits; looks at the bytes, never unpacks the elements."""
    data, size = attr.data.data, _element_size(attr)
    return len(data) > 0 and data == data[:size] * (len(data) // size)


def compact(attr: DenseIntOrFPElementsAttr) -> DenseIntOrFPElementsAttr:
    """`attr`, or the same constant storing one element when it is a splat of more."""
    size = _element_size(attr)
    if len(attr.data.data) <= size or not is_splat(attr):
        return attr
    return DenseIntOrFPElementsAttr(attr.type, BytesAttr(attr.data.data[:size]))


def splat_value(attr: Attribute | None) -> int | float | None:
    """The value of all elements of a dense constant; None when they differ or `attr` is no dense constant."""
    if not isinstance(attr, DenseIntOrFPElementsAttr) or not is_splat(attr):
        return None
    element = cast(Any, attr.get_element_type())
    return next(iter(element.iter_unpack(attr.data.data[: _element_size(attr)])))


def values(attr: DenseIntOrFPElementsAttr) -> tuple[int, ...] | tuple[float, ...]:
    """The elements in row-major order; a splat is written out, so ask `splat_value` first."""
    stored = cast("tuple[Any, ...]", attr.get_values())
    return stored * prod(attr.get_shape()) if len(stored) == 1 else stored


def with_element_type(attr: DenseIntOrFPElementsAttr, tensor_type: Any) -> DenseIntOrFPElementsAttr:
    """The same bits under another type of equal element width (a sign dropped) and the shape of `tensor_type`.

    A splat may take any shape; otherwise the element counts must agree, else ValueError.
    """
    target = tensor_type.get_element_type()
    if target.compile_time_size != _element_size(attr):
        raise ValueError(f"elements of {attr.get_element_type()} do not have the size of {target}")
    attr = compact(attr)
    count = len(attr.data.data) // _element_size(attr)
    if count not in (1, prod(tensor_type.get_shape())):
        raise ValueError(f"{count} elements do not fill {tensor_type}")
    return DenseIntOrFPElementsAttr(tensor_type, attr.data)


def to_numpy(attr: DenseIntOrFPElementsAttr, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The elements as an array of `dtype` (that of the element type: same width, i1 as bool) and the constant's shape.

    A splat becomes a broadcast view of one element. ValueError when `dtype` has another width.
    """
    import numpy as np

    dtype = np.dtype(dtype)
    if dtype.itemsize != _element_size(attr):
        raise ValueError(f"elements of {attr.get_element_type()} do not have the size of {dtype}")
    if dtype == np.bool_:
        stored = np.frombuffer(attr.data.data, np.int8) != 0
    else:
        stored = np.frombuffer(attr.data.data, dtype)
    shape = attr.get_shape()
    return np.broadcast_to(stored.reshape(()), shape) if stored.size == 1 else stored.reshape(shape)


def _element_size(attr: DenseIntOrFPElementsAttr) -> int:
    return cast(Any, attr.get_element_type()).compile_time_size


class DenseLiteralParser(AttrParser):
    """Parses `dense<...>`: hexadecimal floats mean what they do in MLIR, splats stay compact, lists are fast."""

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> DenseIntOrFPElementsAttr:
        start = self._current_token.span
        match = _NUMBERS.match(self.lexer.input.content, start.end) if start.text == "<" else None
        literal = _literal(match[1]) if match else None
        if match is None or literal is None:
            return compact(super().parse_dense_int_or_fp_elements_attr(type))
        self._resume_from(match.end())
        if type is None:
            self.parse_punctuation(":", " in dense attribute")
            type = self.parse_type()
        if not isinstance(type, TensorType | VectorType | MemRefType) or not type.has_static_shape():
            self.raise_error(f"Expected a tensor, vector or memref type of static shape, found {type}")
        found, expected = _literal_shape(literal), tuple(type.get_shape())
        if found not in ((), expected):
            text = "a ragged literal" if found is None else f"a literal of shape {list(found)}"
            self.raise_error(f"Shape mismatch in dense literal: {text} for {type}", start.start, self.pos)
        try:
            return self._dense_from_numbers(type, _flatten(literal))
        except (ValueError, OverflowError) as error:
            self.raise_error(f"Invalid dense literal for {type}: {error}", start.start, self.pos)

    @staticmethod
    def _dense_from_numbers(tensor_type: Any, numbers: list[int | float | str]) -> DenseIntOrFPElementsAttr:
        """The constant with the elements `numbers`; ValueError for one that the element type cannot hold."""
        element = tensor_type.get_element_type()
        if isinstance(element, AnyFloat):
            packed = b"".join(_float_bits(number, element) for number in numbers)
        elif isinstance(element, IntegerType | IndexType):
            ints = list(map(_integer, numbers))
            if isinstance(element, IntegerType) and ints:
                normalized = {n: element.get_normalized_value(n) for n in (min(ints), max(ints))}
                if any(n != value for n, value in normalized.items()):
                    ints = list(map(element.get_normalized_value, ints))
            packed = element.pack(ints)
        else:
            raise ValueError("expected integer, index or float elements")
        return compact(DenseIntOrFPElementsAttr(tensor_type, BytesAttr(packed)))


def _literal(text: str) -> Any:
    """Nested lists of a literal's numbers, or one number: decimal integers as int, others as text. None: not one."""
    try:
        return json.loads(text)  # integers alone, the long lists
    except json.JSONDecodeError:
        pass
    try:
        return json.loads(_NUMBER.sub(r'"\g<0>"', text))
    except json.JSONDecodeError:
        return None


def _literal_shape(literal: Any) -> tuple[int, ...] | None:
    """The shape of nested lists, () for a single number; None when they are ragged."""
    if not isinstance(literal, list):
        return ()
    shapes = {_literal_shape(part) for part in cast("list[Any]", literal)} or {()}
    shape = shapes.pop()
    return None if shapes or shape is None else (len(cast("list[Any]", literal)), *shape)


def _flatten(literal: Any) -> list[int | float | str]:
    if not isinstance(literal, list):
        return [literal]
    parts = cast("list[Any]", literal)
    return [number for part in parts for number in _flatten(part)] if parts and isinstance(parts[0], list) else parts


def _integer(number: int | float | str) -> int:
    """An integer element; ValueError for a float."""
    if isinstance(number, str):
        number = number.replace(" ", "").lower()
        return int(number, 16 if "x" in number else 10)
    if isinstance(number, float):
        raise ValueError(f"{number} is no integer literal")
    return number


def _float_bits(number: int | float | str, element: Any) -> bytes:
    """A float element's bytes; a hexadecimal integer is its bit pattern, as in MLIR."""
    if isinstance(number, str):
        number = number.replace(" ", "").lower()
        if number.startswith("0x"):
            return int(number, 16).to_bytes(element.compile_time_size, "little")
        if "x" in number:
            raise ValueError(f"{number}: a bit pattern has no sign")
    return element.pack((float(number),))
