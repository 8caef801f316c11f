"""Which keys a query row keeps: the one place of the mask rules (the float64 oracle is the permitted second).

A row keeps the keys `lower <= j <= upper`:

    last   = min(KV index, Sk - 1)      the KV index is inclusive, signed, -1: no key; without one, last = Sk - 1
    upper  = min(last, i)               causal: top-left, query row i keeps key j when j <= i
    upper  = min(last, i + min(offset, last))   causal with a prefix offset; the same as min(last, i + offset) for
                                        i >= 0, and no sum of 32 bits that may overflow
    lower  = max(0, last - W)           sliding window of W keys back: W + 1 keys

KV index and offset may be told by a clamp of what memory holds: `min(max(x, least), most) + add`, which makes an
inclusive index of a count (`add` is -1) and keeps a length in range.

Part p of n has, of these, the keys p * c <= j < (p + 1) * c, with c = Sk / n rounded up.

The rules are written over `MaskArithmetic`, so the interpreter evaluates them on NumPy arrays and the lowering emits
them as operations.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

T = TypeVar("T")


class MaskArithmetic(Protocol[T]):
    """What the rules need of a number system: signed minimum, maximum, sum, and constants."""

    def const(self, value: int) -> T: ...
    def min(self, a: T, b: T) -> T: ...
    def max(self, a: T, b: T) -> T: ...
    def add(self, a: T, b: T) -> T: ...


class PartArithmetic(MaskArithmetic[T], Protocol[T]):
    """What the rule for parts of the keys needs beside that: products."""

    def mul(self, a: T, b: T) -> T: ...


class Clamp(NamedTuple):
    """`min(max(x, least), most) + add`; every number fits 32 bits."""

    least: int
    most: int
    add: int


def clamped(ops: MaskArithmetic[T], value: T, clamp: Clamp | None) -> T:
    """The KV index or offset that memory holds as `value`."""
    if clamp is None:
        return value
    if clamp.least > -(2**31):
        value = ops.max(value, ops.const(clamp.least))
    if clamp.most < 2**31 - 1:
        value = ops.min(value, ops.const(clamp.most))
    return ops.add(value, ops.const(clamp.add)) if clamp.add else value


def last_key(ops: MaskArithmetic[T], kv_index: T | None, keys: int) -> T:
    """The last valid key of a sequence, -1 for none; `keys` is Sk."""
    last = ops.const(keys - 1)
    return last if kv_index is None else ops.min(kv_index, last)


def upper_key(ops: MaskArithmetic[T], last: T, row: T | None, offset: T | None) -> T:
    """The last key that a row keeps; `row` is the query row of a causal mask, None without one."""
    if row is None:
        return last
    return ops.min(last, row if offset is None else ops.add(row, ops.min(offset, last)))


def lower_key(ops: MaskArithmetic[T], last: T, look_back: int | None) -> T | None:
    """The first key that a row keeps, None when there is no window."""
    if look_back is None:
        return None
    return ops.max(ops.const(0), ops.add(last, ops.const(-look_back)))


def part_size(keys: int, parts: int) -> int:
    """How many keys each part has when `keys` are split (the last parts have what is left)."""
    return -(-keys // parts)


def part_keys(ops: PartArithmetic[T], part: T, size: int) -> tuple[T, T]:
    """The first and the last key of a part of `size` keys, as far as the keys go."""
    first = ops.mul(part, ops.const(size))
    return first, ops.add(first, ops.const(size - 1))
