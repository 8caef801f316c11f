"""tosa-to-rock-deref: reads through computed addresses become lazy derefs of page tables.

    func.func @f(%t: tensor<1x3x1xi64>) -> tensor<1x3x4xf16> {
      %0 = "tosa.const"() <{values = dense<[0, 2, 4, 6]> : tensor<4xi64>}> : () -> tensor<4xi64>
      %1 = tosa.reshape %0 {new_shape = array<i64: 1, 1, 4>} : (tensor<4xi64>) -> tensor<1x1x4xi64>
      %2 = tosa.add %t, %1 : (tensor<1x3x1xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4xi64>
      %3 = tosa.custom %2 {domain_name = "rocmlir", implementation_attrs = "", operator_name = "deref"}
         : (tensor<1x3x4xi64>) -> tensor<1x3x4xf16>
      return %3 : tensor<1x3x4xf16>
    }

becomes

    func.func @f(%t: tensor<1x3x1xi64> {rock.page_table = {page_size = 4 : i64, elem = f16}}) -> tensor<1x3x4xf16> {
      %0 = rock.deref %t : tensor<1x3x1xi64> -> tensor<1x3x4xf16>
      return %0 : tensor<1x3x4xf16>
    }

The address of the element at `[batch, page, i]` must be one pointer for each page, an element of a function argument
that nothing was done to but reshaping, slicing and broadcasting, plus `i * sizeof(element)`, proved exactly, and
perhaps a constant. Pages that follow one another behind one pointer are one long page. Slots for which another address
is selected read as zeros here; an attention that reads them proves that it does not look there. The arguments that hold
the pointers are marked `rock.page_table`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, cast

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i64
from xdsl.ir import Attribute, SSAValue

from xpaged.dialects import rocmlir_names
from xpaged.dialects.rock.ops import DerefOp
from xpaged.dialects.rock.page_tables import mark_page_table
from xpaged.dialects.rock.views import make_chain
from xpaged.dialects.tosa.constants import ConstOp
from xpaged.dialects.tosa.elementwise import SelectOp
from xpaged.dialects.tosa.ops import CustomOp
from xpaged.errors import XpagedError
from xpaged.ir import dense
from xpaged.ir.levels import Level
from xpaged.ir.pass_base import LevelPass
from xpaged.ir.transform_map import TransformMap
from xpaged.lowering.dead_code import erase_dead
from xpaged.lowering.insertion import builder_before
from xpaged.lowering.page_addresses import Guard, page_addresses
from xpaged.lowering.tosa_views import View, reshape_maps, shape_of, slice_map
from xpaged.lowering.view_maps import maps_of


@dataclass(frozen=True)
class TosaToRockDerefPass(LevelPass):
    """Turn every `tosa.custom` deref into a `rock.deref` of a page table (see the module's text)."""

    name = "tosa-to-rock-deref"
    takes: ClassVar[Level | None] = None
    leaves: ClassVar[Level | None] = None

    def run(self, ctx: Context, module: ModuleOp) -> None:
        derefs = [op for op in module.walk() if rocmlir_names.is_deref(op)]
        for op in derefs:
            assert isinstance(op, CustomOp)
            convert_deref(op)
        if derefs:
            erase_dead(module)


def convert_deref(op: CustomOp) -> DerefOp:
    """Replace one `tosa.custom` deref; XpagedError says which address it is that cannot be understood, and why."""
    addresses, pages = _checked_types(op)
    found = page_addresses(op, addresses, pages)
    builder = builder_before(op)
    batch, count, size = shape = shape_of(addresses)
    pages_held, length = (1, count * size) if found.consecutive else (count, size)
    held = (batch, pages_held, found.skipped + length)
    table = make_chain(builder, found.pointers.source, _table_maps(found.pointers, shape, held[1]))
    deref = DerefOp(table, TensorType(pages.element_type, held))
    deref.result.name_hint = op.outputs[0].name_hint
    builder.insert(deref)
    mark_page_table(deref)
    result = make_chain(builder, deref.result, _page_maps(shape, held, found.skipped))
    for guard in found.guards:
        result = _guarded(builder, guard, result)
    op.outputs[0].replace_all_uses_with(result)
    op.detach()
    op.erase()
    return deref


def _page_maps(shape: tuple[int, ...], held: tuple[int, ...], skipped: int) -> list[TransformMap]:
    """From the elements that the graph reads down to those of the pages: what a page skips, and pages in a row."""
    batch, pages, _ = held
    whole = (batch, pages, shape[1] * shape[2] // pages)
    maps = reshape_maps(whole, shape) if whole != shape else []
    return [*maps, *([slice_map(held, (0, 0, skipped), whole)] if skipped else [])]


def _guarded(builder: Builder, guard: Guard, pages: SSAValue) -> SSAValue:
    """Pages where the guard says that a slot is used, else zeros: who reads them proves that these do not matter."""
    names = ("batch", "page", "offset")
    condition = make_chain(builder, guard.condition.source, maps_of(guard.condition, names))
    type = pages.type
    assert isinstance(type, TensorType)
    zeros = builder.insert(ConstOp(dense.splat(type, 0.0))).output
    choices = (pages, zeros) if guard.valid else (zeros, pages)
    return builder.insert(SelectOp(condition, *choices, type)).output


def _checked_types(op: CustomOp) -> tuple[SSAValue, TensorType[Attribute]]:
    """The addresses and the type of the elements, with the ranks and shapes that a deref must have."""
    if len(op.inputs) != 1 or len(op.outputs) != 1:
        raise XpagedError(
            "a deref takes one tensor of addresses and gives one of elements",
            at=op,
            found=f"{len(op.inputs)} operands and {len(op.outputs)} results",
        )
    addresses, result = op.inputs[0], op.outputs[0].type
    shape = shape_of(addresses)
    if cast(Any, addresses.type).element_type != i64:
        raise XpagedError("the addresses of a deref must be i64", at=op, found=addresses.type)
    if shape != shape_of(op.outputs[0]):
        raise XpagedError("a deref must have one address for each element", at=op, found=f"{addresses.type}, {result}")
    if len(shape) != 3:
        raise XpagedError(
            "the addresses of a deref must have rank 3",
            at=op,
            found=f"{addresses.type}, of rank {len(shape)}",
            expected="[batch, numPages, pageSize]",
            fix="reshape the page table to [batch, numPages, 1] and broadcast it to the size of a page",
        )
    return addresses, result


def _table_maps(pointers: View, shape: tuple[int, ...], count: int) -> list[TransformMap]:
    """From `[batch, numPages, 1]` down to the argument: the pointer of each page's first element."""
    first = slice_map(shape, (0, 0, 0), (shape[0], count, 1))
    return maps_of(pointers.under([first], (shape[0], count, 1)), ("batch", "page", "pointer"))
