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


def narrowed(values: Any, dtype: np.dtype[Any]) -> Any:
    """A conversion to `dtype` in exact evaluation: arrays stay as they are, what follows its own error is told."""
    return values if isinstance(values, np.ndarray) else values.narrowed(dtype)


def round_to(values: Array, dtype: np.dtype[Any]) -> Array:
    """float32 `values` rounded to the nearest value of `dtype` (ties to even) and kept as float32.

    The same as `widen(values.astype(dtype))`, without the detour through packed 16-bit numbers when the values are of
    magnitude at most 1 -- see `round_unit_to_half`.
    """
    if dtype == F32 or dtype == np.float64:
        return values
    return widen(values.astype(dtype))


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
