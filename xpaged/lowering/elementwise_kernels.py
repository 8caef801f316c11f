"""Elementwise operations of a graph that stand outside attention: each value that must lie in memory becomes a
`linalg.generic`, which becomes a kernel of its own.

A value must lie in memory when an attention reads it or the function returns it. All that it is computed from, element
by element, is computed with it, in f32, and rounded once; what it is a view of is read through that view.
"""

from collections.abc import Iterable

from xdsl.dialects.arith import CmpiOp, SelectOp
from xdsl.dialects.builtin import AffineMapAttr, IntegerType, TensorType, UnitAttr, i8
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.dialects.tensor import EmptyOp
from xdsl.ir import Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap

from xpaged.dialects.rock.ops import DerefOp
from xpaged.dialects.tosa import ops
from xpaged.dialects.tosa.constants import ConstOp, constant_of
from xpaged.errors import XpagedError
from xpaged.ir import dense
from xpaged.ir.locations import copy_location
from xpaged.ir.transform_map import Transform, TransformMap
from xpaged.lowering.attention_fuse import insert_view
from xpaged.lowering.insertion import builder_before
from xpaged.lowering.kernel import KERNEL
from xpaged.lowering.scalars import Scalars, element_of, is_elementwise
from xpaged.lowering.tosa_views import View, broadcast_map, is_view, shape_of


def outline_elementwise(function: FuncOp) -> None:
    """Replace every elementwise value that must lie in memory by the result of a `linalg.generic`.

    What these take over stays where it is, used no more. Raises XpagedError for what a kernel cannot compute.
    """
    stored = _stored(function)
    for value in sorted(stored, key=stored.__getitem__):
        op = value.owner
        assert isinstance(op, Operation)
        value.replace_all_uses_with(_kernel(View.of(value), op, value.name_hint))
    constants = _return_constants(function)
    if (stored or constants) and KERNEL not in function.attributes:
        function.attributes[KERNEL] = function.attributes.pop("kernel", UnitAttr())  # the older spelling


def is_computed(op: Operation) -> bool:
    """Whether an elementwise kernel computes what an operation does."""
    return (is_elementwise(op) and not is_view(op)) or isinstance(op, ops.PadOp)


def _stored(function: FuncOp) -> dict[SSAValue, int]:
    """The computed values that must lie in memory, with their place in the function."""
    numbers = {op: number for number, op in enumerate(function.body.block.ops)}
    found: dict[SSAValue, int] = {}

    def want(values: Iterable[SSAValue]) -> None:
        for value in values:
            if not isinstance(value.type, TensorType):
                continue
            source = View.of(value).followed().source
            if isinstance(source.owner, Operation) and is_computed(source.owner) and source not in found:
                found[source] = numbers[source.owner]

    for op in function.body.block.ops:
        if isinstance(op, ops.PadOp):
            want([op.input1])  # its elements are read through a view that has none outside
        elif op.dialect_name() not in ("tosa", "tensor", "arith") and not is_view(op):
            want(op.operands)
    return found


def _return_constants(function: FuncOp) -> bool:
    """Let kernels write the constants that a function returns; whether there are any."""
    last = function.body.block.last_op
    assert last is not None
    found = False
    for index, value in enumerate(last.operands):
        if isinstance(value.type, TensorType) and constant_of(View.of(value).followed().source) is not None:
            last.operands[index] = _kernel(View.of(value).followed(), last, value.name_hint)
            found = True
    return found


def _kernel(view: View, op: Operation, name_hint: str | None) -> SSAValue:
    """What a view shows, computed in a `linalg.generic` in front of `op`."""
    element, elements = element_of(view.source), _Elements(op)
    end = YieldOp(elements.stored(elements.whole(view), element))
    copy_location(op, end)
    elements.block.insert_arg(element, len(elements.block.args))
    elements.block.add_op(end)
    builder = builder_before(op)
    names = [f"dim{i}" for i in range(len(view.bounds))]
    inputs = [insert_view(builder, each, names) for each in elements.inputs]
    type = TensorType(element, view.bounds)
    target = EmptyOp([], type)
    builder.insert(target)
    identity, parallel = AffineMap.identity(len(view.bounds)), IteratorTypeAttr(IteratorType.PARALLEL)
    generic = GenericOp(
        inputs,
        [target.tensor],
        Region(elements.block),
        [AffineMapAttr(identity)] * (len(inputs) + 1),
        [parallel] * len(view.bounds),
        [type],
    )
    builder.insert(generic)
    generic.results[0].name_hint = name_hint
    return generic.results[0]


class _Elements(Scalars):
    """The region of an elementwise kernel."""

    def whole(self, view: View) -> SSAValue:
        """The element of what the kernel is for."""
        op = view.source.owner
        if constant_of(view.source) is not None:
            return self._constant(view)
        assert isinstance(op, Operation)
        return self._padded(view, op) if isinstance(op, ops.PadOp) else self._arithmetic(view, op)

    def leaf(self, view: View) -> SSAValue | None:
        op = view.source.owner
        if isinstance(op, ops.PadOp):
            return self._padded(view, op)
        if isinstance(op, DerefOp):
            raise XpagedError(
                "pages are read inside of an attention only",
                at=self.at,
                found=f"'{self.at.name}' on what is read through addresses",
                fix="apply the operation to the scores, or to the output, of the attention",
            )
        if not isinstance(op, Operation) or op.dialect_name() not in ("tosa", "tensor"):
            return self._input(view)
        return None

    def refused(self, at: SSAValue, found: str, expected: str) -> XpagedError:
        return XpagedError("an elementwise kernel cannot compute this", at=at, found=found, expected=expected)

    def _padded(self, view: View, op: ops.PadOp) -> SSAValue:
        """An element of a padded tensor: outside of the tensor that is padded a view has none, which reads as 0."""
        around = _pad_map(op)
        inner = view.onto(op.input1, [around]).followed()
        assert not isinstance(inner.source.owner, Operation) or not is_computed(inner.source.owner)
        if isinstance(inner.source.owner, DerefOp):
            self.leaf(inner)
        value = self._input(inner)
        if not op.value:
            return value
        ones = ConstOp(dense.splat(TensorType(i8, [1] * len(around.lower_bounds)), 1))
        builder_before(op).insert(ones)
        maps = (*view.maps, around, broadcast_map([1] * len(around.lower_bounds), around.lower_bounds))
        exists = self._input(View(ones.output, maps, view.bounds))
        condition = self._add(CmpiOp(exists, self._integer(0, i8, op), "ne"), op)
        element = element_of(op.output)
        if isinstance(element, IntegerType):
            outside = self._integer(int(op.value), element, op)
        else:
            outside = self._number(float(op.value), op)
        return self._add(SelectOp(condition, value, outside), op)


def _pad_map(op: ops.PadOp) -> TransformMap:
    """From the padded tensor to the one that is padded."""
    lower = shape_of(op.input1)
    transforms = [
        Transform("PassThrough", (), (f"dim{i}",), (i,), (f"dim{i}",), (i,))
        if margins == (0, 0)
        else Transform("Pad", margins, (f"dim{i}",), (i,), (f"dim{i}",), (i,))
        for i, margins in enumerate(op.margins)
    ]
    return TransformMap(tuple(transforms), shape_of(op.output), lower)
