"""Which arguments of a function are results: marked `rock.output`, or written by what the function does."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, i32
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.memref import CopyOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from xpaged.dialects.rock.attention import AttentionOp, GridwiseAttentionAccelOp
from xpaged.dialects.rock.merge import MergeAttentionOp
from xpaged.dialects.rock.views import chain_of
from xpaged.lowering.kernel import OUTPUT, PART_OF, argument_attributes


def output_numbers(function: FuncOp) -> dict[int, int]:
    """For each argument of `function` that is a result, which one.

    Marks say it. Where there are none, an attention's output comes first and its LSE second, then what else is written.
    """
    found: dict[int, int] = {}
    for index in range(len(function.body.block.args)):
        number = argument_attributes(function, index).get(OUTPUT)
        if isinstance(number, IntegerAttr):
            found[index] = number.value.data
    if found or PART_OF in function.attributes:
        return found
    for op in function.body.block.ops:
        for value in written_by(op) or ():
            root = chain_of(value).root
            if isinstance(root, BlockArgument) and root.owner is function.body.block:
                found.setdefault(root.index, len(found))
    return found


def mark_outputs(function: FuncOp) -> None:
    """Write `rock.output` on the arguments that are results, so that it stays known when what wrote them is lowered."""
    numbers = output_numbers(function)
    if any(OUTPUT in argument_attributes(function, index) for index in numbers):
        return
    attributes = [argument_attributes(function, index) for index in range(len(function.body.block.args))]
    for index, number in numbers.items():
        attributes[index][OUTPUT] = IntegerAttr(number, i32)
    if numbers:
        function.arg_attrs = ArrayAttr([DictionaryAttr(each) for each in attributes])


def written_by(op: Operation) -> list[SSAValue] | None:
    """The memrefs that an operation writes, the output of an attention before its LSE; None where that is not known."""
    match op:
        case AttentionOp() | GridwiseAttentionAccelOp() | MergeAttentionOp() if not op.results:
            return [value for value in (op.out, op.lse) if value is not None]
        case GenericOp() if not op.results:
            return list(op.outputs)
        case CopyOp():
            return [op.destination]
        case _:
            return None
