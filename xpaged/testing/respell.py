"""The same TOSA graph with `tensor` operations in place of reshapes and slices, as other tools print it."""

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, TensorType, i64
from xdsl.dialects.tensor import CollapseShapeOp, ExpandShapeOp, ExtractSliceOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from xpaged.dialects.tosa import ops
from xpaged.lowering.dead_code import erase_dead

Groups = ArrayAttr[ArrayAttr[IntegerAttr]]


def reassociation(long: Sequence[int], short: Sequence[int]) -> Groups | None:
    """Runs of dimensions of `long` that make up those of `short`, if there are such runs."""
    groups: list[list[int]] = []
    at = 0
    for length in short:
        group: list[int] = []
        while prod(long[i] for i in group) != length or not group:
            if at == len(long):
                return None
            group.append(at)
            at += 1
        groups.append(group)
    if at < len(long) and groups:
        groups[-1] += range(at, len(long))
    if not groups or prod(long) != prod(short):
        return None
    return ArrayAttr([ArrayAttr([IntegerAttr(i, i64) for i in group]) for group in groups])


def _collapse(value: SSAValue, shape: Sequence[int]) -> Operation | None:
    type = value.type
    assert isinstance(type, TensorType)
    groups = reassociation(type.get_shape(), shape)
    if groups is None:
        return None
    return CollapseShapeOp.create(
        operands=[value], result_types=[TensorType(type.element_type, shape)], properties={"reassociation": groups}
    )


def _expand(value: SSAValue, shape: Sequence[int]) -> Operation | None:
    type = value.type
    assert isinstance(type, TensorType)
    groups = reassociation(shape, type.get_shape())
    return None if groups is None else ExpandShapeOp(value, [], groups, shape, TensorType(type.element_type, shape))


def _reshaped(value: SSAValue, shape: Sequence[int]) -> list[Operation]:
    one = _collapse(value, shape) or _expand(value, shape)
    if one is not None:
        return [one]
    flat = _collapse(value, [prod(shape)])
    assert flat is not None
    expanded = _expand(flat.results[0], shape)
    assert expanded is not None
    return [flat, expanded]


def respell(module: ModuleOp) -> None:
    """Replace every `tosa.reshape` and `tosa.slice` in place."""
    for op in list(module.walk()):
        if isinstance(op, ops.ReshapeOp):
            new = _reshaped(op.input1, op.output.type.get_shape())
        elif isinstance(op, ops.SliceOp):
            new = [ExtractSliceOp.from_static_parameters(op.input1, op.starts, op.sizes)]
        else:
            continue
        new[-1].results[0].name_hint = op.output.name_hint
        Rewriter.replace_op(op, new)
    erase_dead(module)
