"""`rock.merge_attention`: the results over parts of the keys become the result over all of them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AnyFloat, MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class MergeAttentionOp(IRDLOperation):
    """`rock.merge_attention %parts, %lses into %out, %lse : types into types`, on memrefs.

    `parts` is `[G * n, Sq, Dv]` and `lses` `[G * n, Sq]`, as `rock.attention` with `splitKV = n` writes them: for each
    row the attention over each of n parts of the keys, and the natural logarithm of the sum of its exponentials. `out`
    is `[G, Sq, Dv]`, the sum of the parts weighted with their share of that sum, and `lse` `[G, Sq]` (it may be left
    out) the logarithm over all parts. A part without keys (0 and minus infinity) has no weight; where all parts are
    empty, so is the result.
    """

    name = "rock.merge_attention"
    parts = operand_def(MemRefType)
    lses = operand_def(MemRefType)
    out = operand_def(MemRefType)
    lse = opt_operand_def(MemRefType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$parts `,` $lses `into` $out (`,` $lse^)? attr-dict "
        "`:` type($parts) `,` type($lses) `into` type($out) (`,` type($lse)^)?"
    )

    def __init__(self, parts: SSAValue, lses: SSAValue, out: SSAValue, lse: SSAValue | None = None) -> None:
        """The merge of `parts` and `lses` into `out`, and `lse` unless it is None."""
        super().__init__(operands=[parts, lses, out, [] if lse is None else [lse]])

    @property
    def split_kv(self) -> int:
        """Parts of the keys."""
        return _shape(self.parts)[0] // _shape(self.out)[0]

    def verify_(self) -> None:
        shapes: dict[str, tuple[int, ...]] = {}
        for what, value, rank in (("parts", self.parts, 3), ("lses", self.lses, 2), ("out", self.out, 3)):
            shapes[what] = _checked(value, what, rank)
        groups, rows, channels = shapes["out"]
        found = shapes["parts"]
        if found[1:] != (rows, channels) or found[0] % groups:
            _refuse("the parts", [f"a multiple of {groups}", rows, channels], self.parts)
        if shapes["lses"] != found[:2]:
            _refuse("the logarithms of the parts", found[:2], self.lses)
        if self.lse is not None and _checked(self.lse, "lse", 2) != (groups, rows):
            _refuse("the logarithm", (groups, rows), self.lse)


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, MemRefType)
    return value.type.get_shape()


def _checked(value: SSAValue, what: str, rank: int) -> tuple[int, ...]:
    """The shape of a memref of floats with `rank` dimensions, none of which is empty."""
    assert isinstance(value.type, MemRefType)
    shape = value.type.get_shape()
    if len(shape) != rank or min(shape) < 1 or not isinstance(value.type.element_type, AnyFloat):
        expected = f"a memref of floats of rank {rank}"
        raise VerifyException(f"rock.merge_attention: '{what}' is {expected}, found {value.type}")
    return shape


def _refuse(what: str, expected: Sequence[object], value: SSAValue) -> None:
    shape = ", ".join(map(str, expected))
    raise VerifyException(f"rock.merge_attention: {what} must be [{shape}] for this output, found {value.type}")


MERGE_OPS: list[type[Operation]] = [MergeAttentionOp]
