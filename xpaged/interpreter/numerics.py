"""Element types as NumPy types, and the conversions between them that NumPy itself does slowly."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from xdsl.dialects import builtin
from xdsl.ir import Attribute

from xpaged.errors import XpagedError

Array = npt.NDArray[Any]
"""Any interpreter value that is plain data."""

F32 = np.dtype(np.float32)
F16 = np.dtype(np.float16)

_FLOATS: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": F32,
    "f16": F16,
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
}
_INTEGERS = {8: "int8", 16: "int16", 32: "int32", 64: "int64"}


def dtype_of(type: Attribute) -> np.dtype[Any]:
    """The NumPy type that stores one element of `type` (a scalar type, or the element type of a shaped one).

    Signless and signed integers are signed, `index` is int64, `i1` is bool.
    Raises XpagedError for a type that the interpreter has no storage for.
    """
    if isinstance(type, builtin.ShapedType) and isinstance(type, builtin.ContainerType):
        type = type.get_element_type()
    if isinstance(type, builtin.IndexType):
        return np.dtype(np.int64)
    if isinstance(type, builtin.IntegerType):
        width = type.width.data
        if width == 1:
            return np.dtype(np.bool_)
        if width in _INTEGERS:
            unsigned = type.signedness.data == builtin.Signedness.UNSIGNED
            return np.dtype(("u" if unsigned else "") + _INTEGERS[width])
    elif (found := _FLOATS.get(type.name)) is not None:
        return found
    raise XpagedError("the interpreter cannot store this element type", found=str(type), expected=", ".join(_FLOATS))


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` holds floating-point numbers (bf16 and fp8 included, which NumPy itself does not class so)."""
    return dtype.kind == "f" or dtype in _FLOATS.values()


_FEW = 1 << 14
_HALF_TABLE: list[Array] = []


def widen(values: Array) -> Array:
    """`values` of any float type as float32 (float64 stays): exact for every type of 32 bits or fewer."""
    if values.dtype == F32 or values.dtype == np.float64:
        return values
    if values.dtype == F16:
        if not _HALF_TABLE:
            _HALF_TABLE.append(np.arange(1 << 16, dtype=np.uint16).view(F16).astype(F32))
        return _HALF_TABLE[0].take(np.ascontiguousarray(values).view(np.uint16))
    return values.astype(F32)


def narrow(x: Array, dtype: np.dtype[Any]) -> Array:
    """`x.astype(dtype)`, several times faster from float32 to float16 (a hundred times where results are inexact and
    below the normal numbers, since NumPy raises a flag for each).

    The bits of a normal result are those of `x` rounded at the 13th and rebiased; a subnormal one is what adding 0.5,
    whose last place is a float16's smallest step, leaves in the lowest bits. Few elements take NumPy's way, with those
    below the normal numbers rounded first.
    """
    if x.dtype != np.float32 or dtype != np.float16:
        return x.astype(dtype, copy=False)
    if x.size < _FEW:
        small = np.abs(x) < np.float32(2.0**-14)
        if small.any():
            x = np.where(small, np.copysign((x + np.float32(0.75)) - np.float32(0.75), x), x)
        return x.astype(dtype)
    bits = x.view(np.uint32)
    magnitude = bits & np.uint32(0x7FFF_FFFF)
    result = (magnitude >> 13) & np.uint32(1)
    result += magnitude
    result -= np.uint32((112 << 23) - 0xFFF)
    result >>= np.uint32(13)
    np.minimum(result, np.uint32(0x7C00), out=result)
    small = magnitude < np.uint32(0x3880_0000)
    if small.any():
        steps = (magnitude.view(np.float32) + np.float32(0.5)).view(np.uint32) - np.uint32(0x3F00_0000)
        np.copyto(result, steps, where=small)
    if magnitude.size and magnitude.max() > np.uint32(0x7F80_0000):
        result[magnitude > np.uint32(0x7F80_0000)] = 0x7E00
    result |= (bits >> 16) & np.uint32(0x8000)
    return result.astype(np.uint16).view(np.float16)


def to_half(values: Array) -> Array:
    """float32 `values` as float16, rounded to nearest (ties to even)."""
    return narrow(values, F16)


def narrowed(values: Any, dtype: np.dtype[Any]) -> Any:
    """A conversion to `dtype` in exact evaluation: arrays stay as they are, what follows its own error is told."""
    return values if isinstance(values, np.ndarray) else values.narrowed(dtype)


def round_to(values: Array, dtype: np.dtype[Any]) -> Array:
    """float32 `values` rounded to the nearest value of `dtype` (ties to even) and kept as float32."""
    return values if dtype == F32 or dtype == np.float64 else widen(narrow(values, dtype))


def round_unit_to_half(values: Array) -> Array:
    """float32 `values` in [0, 1] (a softmax's P) rounded to the nearest float16, as float32; several times faster
    than through `astype`.

    Normal results: Veltkamp's splitting keeps the leading 11 bits (ties to even). Below 2**-14 float16 has the fixed
    spacing 2**-24, which is float32's spacing in [0.5, 1): adding 0.5 + 2**-2 and taking it away rounds to it.
    """
    scaled = values * np.float32(8193.0)
    high = scaled - values
    np.subtract(scaled, high, out=high)
    small = np.less(values, np.float32(2.0**-14))
    if small.any():
        np.add(values, np.float32(0.75), out=scaled)
        np.subtract(scaled, np.float32(0.75), out=scaled)
        np.copyto(high, scaled, where=small)
    return high
