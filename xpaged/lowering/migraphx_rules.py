"""What each MIGraphX operation becomes in TOSA: arithmetic, views, reductions and products.

A rule takes a builder, the operation and its converted operands, and returns the converted results. Signs of integers
are gone in TOSA, so that what depends on them is spelled out here (`xpaged.lowering.migraphx_numbers` has the rest of
it). A broadcast is a product with ones.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeVar

from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness, TensorType, i1
from xdsl.ir import Attribute, Operation, SSAValue

from xpaged.dialects import rocmlir_names
from xpaged.dialects.migraphx import boundary as mb
from xpaged.dialects.migraphx import elementwise as mx
from xpaged.dialects.migraphx import ops as mo
from xpaged.dialects.migraphx import quantize as mq
from xpaged.dialects.migraphx.base import ints, shaped
from xpaged.dialects.migraphx.shaped import signless
from xpaged.dialects.tosa import elementwise as tx
from xpaged.dialects.tosa import ops as to
from xpaged.dialects.tosa.constants import constant_of
from xpaged.ir import dense
from xpaged.lowering.tosa_builder import TosaBuilder, broadcast_type, flattened, tensor_of

OpT = TypeVar("OpT", bound=Operation)
Operands = Sequence[SSAValue]
Rule = Callable[[TosaBuilder, Any, Operands], SSAValue | tuple[SSAValue, ...]]

RULES: dict[type[Operation], Rule] = {}
"""The rule of each operation type."""

RuleT = TypeVar("RuleT", bound=Rule)


def rule(*op_types: type[Operation]) -> Callable[[RuleT], RuleT]:
    """Register how to build `op_types`: rule(builder, operation, converted operands) -> converted results."""

    def register(function: RuleT) -> RuleT:
        RULES.update(dict.fromkeys(op_types, function))
        return function

    return register


def is_unsigned(type: Attribute) -> bool:
    """Whether an element type is an unsigned integer."""
    return isinstance(type, IntegerType) and type.signedness.data is Signedness.UNSIGNED


def has_unsigned(value: SSAValue) -> bool:
    """Whether a shaped value holds unsigned integers."""
    return is_unsigned(shaped(value).element_type)


def in_signed_order(builder: TosaBuilder, value: SSAValue) -> SSAValue:
    """Unsigned integers as signed ones in the same order, or back: the highest bit is flipped."""
    type = tensor_of(value)
    element = type.element_type
    assert isinstance(element, IntegerType)
    lowest = TensorType(element, [1] * type.get_num_dims())
    return builder.binary(tx.AddOp, value, builder.splat(lowest, -(1 << (element.bitwidth - 1))))


_UNARY: dict[type[mx.UnaryOp], type[tx.UnaryOp]] = {
    mx.CeilOp: tx.CeilOp,
    mx.FloorOp: tx.FloorOp,
    mx.ErfOp: tx.ErfOp,
    mx.ExpOp: tx.ExpOp,
    mx.LogOp: tx.LogOp,
    mx.RecipOp: tx.ReciprocalOp,
    mx.RsqrtOp: tx.RsqrtOp,
    mx.SigmoidOp: tx.SigmoidOp,
    mx.TanhOp: tx.TanhOp,
}
_BINARY: dict[type[mx.BinaryOp], type[tx.BinaryOp]] = {
    mx.AddOp: tx.AddOp,
    mx.SubOp: tx.SubOp,
    mx.PowOp: tx.PowOp,
}
_EXTREMA: dict[type[mx.BinaryOp], type[tx.BinaryOp]] = {mx.MaxOp: tx.MaximumOp, mx.MinOp: tx.MinimumOp}


@rule(mx.LiteralOp)
def _literal(builder: TosaBuilder, op: mx.LiteralOp, operands: Operands) -> SSAValue:
    return builder.constant(dense.with_element_type(op.value, shaped(op.output).as_tensor()))


@rule(*_UNARY)
def _unary(builder: TosaBuilder, op: mx.UnaryOp, operands: Operands) -> SSAValue:
    return builder.unary(_UNARY[type(op)], operands[0])


@rule(*_BINARY)
def _binary(builder: TosaBuilder, op: mx.BinaryOp, operands: Operands) -> SSAValue:
    return builder.binary(_BINARY[type(op)], operands[0], operands[1])


@rule(*_EXTREMA)
def _extremum(builder: TosaBuilder, op: mx.BinaryOp, operands: Operands) -> SSAValue:
    if not has_unsigned(op.output):
        return builder.binary(_EXTREMA[type(op)], operands[0], operands[1])
    a, b = (in_signed_order(builder, operand) for operand in operands)
    return in_signed_order(builder, builder.binary(_EXTREMA[type(op)], a, b))


@rule(mx.AbsOp)
def _abs(builder: TosaBuilder, op: mx.AbsOp, operands: Operands) -> SSAValue:
    return operands[0] if has_unsigned(op.in_a) else builder.unary(tx.AbsOp, operands[0])


@rule(mx.MulOp)
def _mul(builder: TosaBuilder, op: mx.MulOp, operands: Operands) -> SSAValue:
    return builder.mul(operands[0], operands[1])


@rule(mx.DivOp)
def _div(builder: TosaBuilder, op: mx.DivOp, operands: Operands) -> SSAValue:
    if isinstance(shaped(op.output).element_type, AnyFloat):
        return builder.mul(operands[0], builder.unary(tx.ReciprocalOp, operands[1]))
    if has_unsigned(op.output):
        return builder.custom(rocmlir_names.UNSIGNED_DIV, operands, broadcast_type(*operands))
    return builder.binary(tx.IntDivOp, operands[0], operands[1])


@rule(mx.NegOp)
def _neg(builder: TosaBuilder, op: mx.NegOp, operands: Operands) -> SSAValue:
    return builder.insert(tx.NegateOp(operands[0])).output


@rule(mx.ReluOp)
def _relu(builder: TosaBuilder, op: mx.ReluOp, operands: Operands) -> SSAValue:
    if has_unsigned(op.in_a):
        return operands[0]
    return builder.binary(tx.MaximumOp, operands[0], builder.splat(tensor_of(operands[0]), 0))


@rule(mx.SqrtOp)
def _sqrt(builder: TosaBuilder, op: mx.SqrtOp, operands: Operands) -> SSAValue:
    return builder.unary(tx.ReciprocalOp, builder.unary(tx.RsqrtOp, operands[0]))


@rule(mx.ClipOp)
def _clip(builder: TosaBuilder, op: mx.ClipOp, operands: Operands) -> SSAValue:
    unsigned = has_unsigned(op.output)
    x, low, high = (in_signed_order(builder, o) for o in operands) if unsigned else operands
    result = builder.binary(tx.MinimumOp, builder.binary(tx.MaximumOp, x, low), high)
    return in_signed_order(builder, result) if unsigned else result


@rule(mx.GreaterOp, mx.EqualOp)
def _compare(builder: TosaBuilder, op: mx.BinaryOp, operands: Operands) -> SSAValue:
    """A truth value in the operands' element type, as MIGraphX has it."""
    result, op_type = shaped(op.output), tx.GreaterOp if isinstance(op, mx.GreaterOp) else tx.EqualOp
    a, b = operands
    if op_type is tx.GreaterOp and has_unsigned(op.in_a):
        a, b = in_signed_order(builder, a), in_signed_order(builder, b)
    return builder.cast(builder.compare(op_type, a, b), signless(result.element_type))


@rule(mx.WhereOp)
def _where(builder: TosaBuilder, op: mx.WhereOp, operands: Operands) -> SSAValue:
    condition, on_true, on_false = operands
    return builder.select(builder.cast(condition, i1), on_true, on_false)


@rule(mb.AsLogicalShapeOp, mb.AsUnderlyingShapeOp)
def _boundary(builder: TosaBuilder, op: Operation, operands: Operands) -> SSAValue:
    """Every value between operations is its logical tensor already; strides matter to arguments and results."""
    return operands[0]


@rule(mo.TransposeOp)
def _transpose(builder: TosaBuilder, op: mo.TransposeOp, operands: Operands) -> SSAValue:
    return builder.transpose(operands[0], ints(op.permutation))


@rule(mo.ReshapeOp, mo.FlattenOp)
def _reshape(builder: TosaBuilder, op: mo.ReshapeOp | mo.FlattenOp, operands: Operands) -> SSAValue:
    return builder.reshape(operands[0], shaped(op.output).get_shape())


@rule(mo.SliceOp)
def _slice(builder: TosaBuilder, op: mo.SliceOp, operands: Operands) -> SSAValue:
    return builder.slice(operands[0], op.bounds()[0], shaped(op.output).get_shape())


@rule(mo.PadOp)
def _pad(builder: TosaBuilder, op: mo.PadOp, operands: Operands) -> SSAValue:
    margins = op.margins()
    if not any(n for pair in margins for n in pair):
        return operands[0]
    result = shaped(op.output).as_tensor()
    value = builder.splat(TensorType(result.element_type, [1]), op.value.value.data)
    padding = builder.lengths([n for pair in margins for n in pair])
    return builder.insert(to.PadOp(operands[0], padding, value, result)).output


@rule(mo.BroadcastOp)
def _broadcast(builder: TosaBuilder, op: mo.BroadcastOp, operands: Operands) -> SSAValue:
    target, source = shaped(op.output).get_shape(), tensor_of(operands[0]).get_shape()
    axis = op.axis.value.data
    placed = [1] * axis + list(source) + [1] * (len(target) - axis - len(source))
    return builder.broadcast(builder.reshape(operands[0], placed), target)


@rule(mo.MultiBroadcastOp)
def _multibroadcast(builder: TosaBuilder, op: mo.MultiBroadcastOp, operands: Operands) -> SSAValue:
    target, source = shaped(op.output), tensor_of(operands[0]).get_shape()
    if (value := dense.splat_value(constant_of(operands[0]))) is not None:
        return builder.splat(target.as_tensor(), value)
    aligned = builder.reshape(operands[0], [1] * (target.get_num_dims() - len(source)) + list(source))
    return builder.broadcast(aligned, target.get_shape())


@rule(mo.ReduceMaxOp, mo.ReduceSumOp, mo.ReduceMeanOp)
def _reduce(builder: TosaBuilder, op: mo.ReduceOp, operands: Operands) -> SSAValue:
    """One reduction an axis; a mean scales before it adds, so that the sum does not overflow."""
    value, source = operands[0], tensor_of(operands[0])
    axes = sorted(axis % source.get_num_dims() for axis in ints(op.axes))
    if isinstance(op, mo.ReduceMeanOp):
        count = prod(source.get_shape()[axis] for axis in axes)
        value = builder.mul(value, _fraction(builder, source, count))
    largest = isinstance(op, mo.ReduceMaxOp)
    flipped = largest and has_unsigned(op.input)
    if flipped:
        value = in_signed_order(builder, value)
    for axis in axes:
        value = builder.reduce(to.ReduceMaxOp if largest else to.ReduceSumOp, value, axis)
    return in_signed_order(builder, value) if flipped else value


def _fraction(builder: TosaBuilder, like: TensorType[Attribute], count: int) -> SSAValue:
    """`1 / count` as a tensor like `like`: the reciprocal of the count where its type holds that exactly."""
    if dense.splat_value(dense.splat(like, float(count))) == count:
        return builder.unary(tx.ReciprocalOp, builder.splat(like, float(count)))
    return builder.splat(like, 1.0 / count)


@rule(mo.SoftmaxOp)
def _softmax(builder: TosaBuilder, op: mo.SoftmaxOp, operands: Operands) -> SSAValue:
    return builder.softmax(operands[0], op.axis.value.data % tensor_of(operands[0]).get_num_dims())[0]


@rule(mo.DotOp, mq.QuantDotOp)
def _dot(builder: TosaBuilder, op: mo.DotOp | mq.QuantDotOp, operands: Operands) -> SSAValue:
    given = {name: attr for name, attr in op.attributes.items() if name == "perf_config"}
    return product(builder, operands[0], operands[1], signless(shaped(op.output).element_type), given)


def product(
    builder: TosaBuilder,
    a: SSAValue,
    b: SSAValue,
    element_type: Attribute,
    attributes: Mapping[str, Attribute] | None = None,
) -> SSAValue:
    """The product of the last two dimensions; `attributes` go to the operation that makes it.

    The leading dimensions become one batch; where B has none, A's become rows.
    """
    shape_a, shape_b = tensor_of(a).get_shape(), tensor_of(b).get_shape()
    shared = prod(shape_b[:-2]) == 1
    a = builder.reshape(a, (1, prod(shape_a[:-1]), shape_a[-1]) if shared else flattened(shape_a, 2))
    b = builder.reshape(b, flattened(shape_b, 2))
    matmul = builder.matmul(a, b, element_type)
    assert isinstance(matmul.owner, Operation)
    matmul.owner.attributes.update(attributes or {})
    return builder.reshape(matmul, (*shape_a[:-1], shape_b[-1]))


@rule(mo.DerefOp)
def _deref(builder: TosaBuilder, op: mo.DerefOp, operands: Operands) -> SSAValue:
    return builder.custom(rocmlir_names.DEREF, operands, shaped(op.output).as_tensor())
