"""What the operations of the hip dialect share: values, LDS buffers, and the bases of memory accesses."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import IntegerAttr, MemRefType, VectorType, i64
from xdsl.ir import Attribute, Operation
from xdsl.traits import EffectInstance, MemoryEffect, MemoryEffectKind
from xdsl.utils.exceptions import VerifyException

LDS_SPACE = 3  # memory space of LDS memrefs, as in the AMDGPU address spaces

LDS_ALIGNMENT = 16  # bytes: every LDS buffer starts at a multiple, so that it can be read in the widest vectors


def element_of(type_: Attribute) -> Attribute:
    """The element type of a vector, or the scalar type itself."""
    return type_.element_type if isinstance(type_, VectorType) else type_


def lanes_of(type_: Attribute) -> int:
    """The number of elements of a vector; 1 for a scalar."""
    return type_.get_shape()[0] if isinstance(type_, VectorType) else 1


def is_lds(type_: Attribute) -> bool:
    """Whether a type is a memref in LDS."""
    return (
        isinstance(type_, MemRefType)
        and isinstance(type_.memory_space, IntegerAttr)
        and type_.memory_space.value.data == LDS_SPACE
    )


def lds_total(sizes: Iterable[int]) -> int:
    """Bytes of LDS that buffers of `sizes` bytes take together, laid out as compilers do: the largest first, the whole
    a multiple of 4."""
    total = 0
    for size in sorted(sizes, reverse=True):
        total = -(-total // LDS_ALIGNMENT) * LDS_ALIGNMENT + size
    return -(-total // 4) * 4


def check_base(base: Attribute, value: Attribute, name: str) -> None:
    """Refuse a base that is no place of elements like those of `value`. Raises VerifyException."""
    in_lds = name.startswith("hip.lds_")
    if base == i64 and not in_lds:
        return
    if not isinstance(base, MemRefType) or is_lds(base) != in_lds:
        expected = f"a memref in memory space {LDS_SPACE}" if in_lds else "an i64 address or a memref in global memory"
        raise VerifyException(f"{name}: the base is {expected}, found {base}")
    if base.element_type != element_of(value):
        raise VerifyException(f"{name}: the base holds {base.element_type}, the value is {value}")


class Ordered(MemoryEffect):
    """An operation that may not move across reads and writes (barriers, fences, stage marks)."""

    @classmethod
    def get_effects(cls, op: Operation) -> set[EffectInstance]:
        """Both kinds, of anything."""
        return {EffectInstance(MemoryEffectKind.READ), EffectInstance(MemoryEffectKind.WRITE)}
