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
that nothing was done to but reshaping, slicing and broadcasting, plus `i * sizeof(element)`, proved exactly. The
arguments that hold the pointers are marked `rock.page_table`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from xpaged.dialects import rocmlir_names
from xpaged.dialects.rock.ops import DerefOp
from xpaged.dialects.rock.page_tables import mark_page_table
from xpaged.dialects.rock.views import make_chain
from xpaged.dialects.tosa.ops import CustomOp
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.pass_base import LevelPass
from xpaged.ir.transform_map import TransformMap
from xpaged.lowering.dead_code import erase_dead
from xpaged.lowering.insertion import builder_before
from xpaged.lowering.integers import Integers, integers_of
from xpaged.lowering.tosa_views import View, shape_of, slice_map
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
    pointers, skipped = _pointers(op, addresses, pages)
    builder = builder_before(op)
    batch, count, size = shape_of(addresses)
    table = make_chain(builder, pointers.source, _table_maps(pointers, (batch, count, size)))
    deref = DerefOp(table, TensorType(pages.element_type, [batch, count, skipped + size]))
    deref.result.name_hint = op.outputs[0].name_hint
    builder.insert(deref)
    mark_page_table(deref)
    result = deref.result
    if skipped:
        whole = (batch, count, skipped + size)
        result = make_chain(builder, result, [slice_map(whole, (0, 0, skipped), (batch, count, size))])
    op.outputs[0].replace_all_uses_with(result)
    op.detach()
    op.erase()
    return deref


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


def _pointers(op: CustomOp, addresses: SSAValue, pages: TensorType[Attribute]) -> tuple[View, int]:
    """The view of the pointers, in the coordinates of the addresses, and how many elements each page skips."""
    try:
        found = integers_of(View.of(addresses))
    except XpagedError as error:
        error.what = f"the addresses of a deref cannot be proved to be pointers plus offsets: {error.what}"
        raise
    leaf = found.leaf
    if leaf is None:
        raise XpagedError("the addresses of a deref come from no page table: they are constants", at=op, found=found)
    if not isinstance(leaf.source, BlockArgument) or not isinstance(leaf.source.owner.parent_op(), FuncOp):
        raise XpagedError(
            "the pointers of a deref must come from a function argument",
            at=leaf.source,
            found=f"the result of '{cast(Operation, leaf.source.owner).name}'",
        )
    for coordinate in leaf.coordinates():
        if coordinate.depends_on("d2"):
            raise XpagedError(
                "the elements of a page of a deref have pointers of their own",
                at=op,
                found=f"{found}, where d2 is the position in the page",
                expected="one pointer for each page, broadcast along the last dimension",
            )
    return leaf, _skipped_elements(op, found, pages)


def _skipped_elements(op: CustomOp, found: Integers, pages: TensorType[Attribute]) -> int:
    """The number of elements between the pointer and the first element: the same, not negative, for every page."""
    size = cast(Any, pages.element_type).size
    within, rest = found.offset.split(["d2"])
    expected = View(found.leaf.source if found.leaf else op.inputs[0], (), pages.get_shape()).coordinates()[2] * size
    if within - within.const_term != expected:
        raise XpagedError(
            "the offsets in a page of a deref cannot be proved to be i * sizeof(element)",
            at=op,
            found=f"{found}, where d2 is the position in the page",
            expected=f"{size}*d2 for elements of {pages.element_type}",
        )
    start = (within - expected + rest).constant
    if start is None:
        raise XpagedError(
            "the pages of a deref do not all start at the same offset from their pointer",
            at=op,
            found=f"{found}, where d0 is the batch entry and d1 the page",
        )
    if start < 0 or start % size:
        raise XpagedError(
            "the pages of a deref must start a whole number of elements after their pointer",
            at=op,
            found=f"{start} bytes",
            expected=f"a multiple of {size}, the size of {pages.element_type}, not negative",
        )
    return start // size


def _table_maps(pointers: View, shape: tuple[int, int, int]) -> list[TransformMap]:
    """From `[batch, numPages, 1]` down to the argument: the pointer of each page's first element."""
    batch, count, _ = shape
    first = slice_map(shape, (0, 0, 0), (batch, count, 1))
    return maps_of(pointers.under([first], (batch, count, 1)), ("batch", "page", "pointer"))
