"""Loads that go from global memory straight to LDS, and the wait for them.

A `hip.load_lds` only starts a load: what it brings stands in LDS after a `hip.waitcnt` of the same wave, and other
waves may read it after a barrier that follows the wait. A wave of which no lane is active starts none, and counts none.
"""

from __future__ import annotations

from xdsl.dialects.builtin import I64, IntegerAttr, IntegerType, MemRefType, i1
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    traits_def,
)
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.hip_values import LDS_SPACE, Ordered, check_base, is_lds

LOAD_LDS_BYTES = (4, 12, 16)
"""How much one lane can load to LDS (4 bytes everywhere, 12 and 16 on newer architectures)."""


@irdl_op_definition
class LoadLdsOp(IRDLOperation):
    """Start to load `count` neighbouring elements a lane from global memory, `base[offset]`, to LDS.

    LDS is written in lane order: lane `l` of the wave fills elements `start + l * count ..`, and `start` is the same
    in all lanes of a wave (a swizzle is therefore one of the global addresses). A lane whose mask is false loads and
    writes nothing. `base`, `offset` and the alignment are those of `hip.load`.
    """

    name = "hip.load_lds"
    base = operand_def()
    offset = operand_def(IntegerType)
    lds = operand_def(MemRefType)
    start = operand_def(IntegerType)
    mask = opt_operand_def(i1)
    count = prop_def(IntegerAttr[I64])
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Ordered())
    assembly_format = (
        "$base `[` $offset `]` `to` $lds `[` $start `]` `x` $count (`if` $mask^)? attr-dict "
        "`:` type($base) `,` type($offset) `,` type($lds) `,` type($start)"
    )

    def __init__(
        self,
        base: SSAValue,
        offset: SSAValue,
        lds: SSAValue,
        start: SSAValue,
        count: int,
        mask: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[base, offset, lds, start, [] if mask is None else [mask]],
            properties={"count": IntegerAttr(count, 64)},
        )

    def verify_(self) -> None:
        target = self.lds.type
        if not isinstance(target, MemRefType) or not is_lds(target):
            raise VerifyException(f"{self.name} fills a memref in memory space {LDS_SPACE}, found {target}")
        element = target.element_type
        check_base(self.base.type, element, self.name)
        size = getattr(element, "size", 0) * self.count.value.data
        if size not in LOAD_LDS_BYTES:
            expected = ", ".join(map(str, LOAD_LDS_BYTES))
            raise VerifyException(
                f"{self.name}: a lane loads one of {expected} bytes, found {self.count.value.data} x {element}"
            )


@irdl_op_definition
class WaitcntOp(IRDLOperation):
    """Wait until all but the last `pending` `hip.load_lds` of this wave have arrived in LDS."""

    name = "hip.waitcnt"
    pending = prop_def(IntegerAttr[I64])
    traits = traits_def(Ordered())
    assembly_format = "$pending attr-dict"

    def __init__(self, pending: int = 0) -> None:
        super().__init__(properties={"pending": IntegerAttr(pending, 64)})

    def verify_(self) -> None:
        if self.pending.value.data < 0:
            raise VerifyException(f"{self.name}: a number of loads is 0 or more, found {self.pending.value.data}")
