"""migraphx-to-tosa: MIGraphX graphs become TOSA graphs on plain tensors.

    func.func @f(%t: !migraphx.shaped<1x4xui64, 4x1>) -> !migraphx.shaped<1x4xf16, 4x1> {
      %0 = migraphx.deref %t : <1x4xui64, 4x1> -> <1x4xf16, 4x1>
      return %0 : !migraphx.shaped<1x4xf16, 4x1>
    }

becomes

    func.func @f(%t: tensor<4xi64>) -> tensor<4xf16> {
      %0 = tosa.const_shape {values = dense<[1, 4]> : tensor<2xindex>} : () -> !tosa.shape<2>
      %1 = tosa.reshape %t, %0 : (tensor<4xi64>, !tosa.shape<2>) -> tensor<1x4xi64>
      %2 = tosa.custom %1 {domain_name = "rocmlir", implementation_attrs = "", operator_name = "deref"}
         : (tensor<1x4xi64>) -> tensor<1x4xf16>
      %3 = tosa.const_shape {values = dense<4> : tensor<1xindex>} : () -> !tosa.shape<1>
      %4 = tosa.reshape %2, %3 : (tensor<1x4xf16>, !tosa.shape<1>) -> tensor<4xf16>
      return %4 : tensor<4xf16>
    }

Arguments and results become the flat buffers behind them; their strides become reshapes, transposes and slices. Signs
of integers are dropped, so whatever depends on an unsigned type is refused here. A broadcast is a product with ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, FunctionType, IntegerType, ModuleOp, Signedness, TensorType, i1
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xpaged.dialects import rocmlir_names
from xpaged.dialects.migraphx import elementwise as mx
from xpaged.dialects.migraphx import ops as mo
from xpaged.dialects.migraphx.base import ints, shaped
from xpaged.dialects.migraphx.shaped import MIXRShapedType, signless
from xpaged.dialects.tosa import elementwise as tx
from xpaged.dialects.tosa import ops as to
from xpaged.errors import XpagedError
from xpaged.ir import dense
from xpaged.ir.levels import Level
from xpaged.ir.pass_base import LevelPass
from xpaged.lowering.tosa_builder import TosaBuilder, flattened, tensor_of

OpT = TypeVar("OpT", bound=Operation)
Rule = Callable[[TosaBuilder, Any, Sequence[SSAValue]], SSAValue]

_RULES: dict[type[Operation], Rule] = {}


def _rule(op_type: type[OpT]) -> Callable[[Callable[[TosaBuilder, OpT, Sequence[SSAValue]], SSAValue]], Rule]:
    """Register how to build `op_type`: rule(builder, operation, converted operands) -> converted result."""

    def register(rule: Callable[[TosaBuilder, OpT, Sequence[SSAValue]], SSAValue]) -> Rule:
        _RULES[op_type] = rule
        return rule

    return register


def rule_names() -> set[str]:
    """The names of the operations that can be converted."""
    return {op_type.name for op_type in _RULES}


_UNARY: dict[type[mx.UnaryOp], type[tx.UnaryOp]] = {
    mx.AbsOp: tx.AbsOp,
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
    mx.MaxOp: tx.MaximumOp,
    mx.MinOp: tx.MinimumOp,
}
_SIGN_MATTERS = (mx.PowOp, mx.MaxOp, mx.MinOp, mx.DivOp, mx.GreaterOp, mx.ClipOp, mx.AbsOp, mx.ReluOp, mo.ReduceMaxOp)


@dataclass(frozen=True)
class MigraphxToTosaPass(LevelPass):
    """Convert every function of a MIGraphX module to TOSA (see the module's text)."""

    name = "migraphx-to-tosa"
    takes: ClassVar[Level | None] = Level.MIGRAPHX
    leaves: ClassVar[Level | None] = Level.TOSA

    def run(self, ctx: Context, module: ModuleOp) -> None:
        for op in list(module.walk()):
            if isinstance(op, FuncOp):
                _convert_function(op)


def _convert_function(function: FuncOp) -> None:
    """Rebuild the body of a function and give it the types of its flat arguments and results."""
    inputs = [_boundary_type(type, function) for type in function.function_type.inputs]
    results = [_boundary_type(type, function) for type in function.function_type.outputs]
    if function.body.blocks:
        old = function.body.block
        new = Block(arg_types=inputs)
        _convert_block(function, old, new)
        function.detach_region(function.body)
        function.add_region(Region(new))
    function.function_type = FunctionType.from_lists(inputs, results)


def _boundary_type(type: Attribute, function: FuncOp) -> Attribute:
    """The type of a function argument or result; XpagedError for one that has no memory layout."""
    try:
        return type.flat_tensor() if isinstance(type, MIXRShapedType) else type
    except XpagedError as error:
        raise error.locate(function) from None


def _convert_block(function: FuncOp, old: Block, new: Block) -> None:
    builder = TosaBuilder(new)
    values: dict[SSAValue, SSAValue] = {}
    builder.location = function.location
    for argument, converted in zip(old.args, new.args, strict=True):
        converted.name_hint, converted.location = argument.name_hint, argument.location
        values[argument] = _from_memory(builder, argument.type, converted)
    for op in old.ops:
        builder.location = op.location
        operands = [values[operand] for operand in op.operands]
        if isinstance(op, ReturnOp):
            flat = [_to_memory(builder, a.type, b, op) for a, b in zip(op.operands, operands, strict=True)]
            builder.insert(ReturnOp(*flat))
            continue
        rule = _RULES.get(type(op))
        if rule is None:
            raise XpagedError(f"'{op.name}' cannot be converted to TOSA", at=op)
        _expect_signed(op)
        result = rule(builder, op, operands)
        if result.name_hint is None and not isinstance(result.owner, Block):
            result.name_hint = op.results[0].name_hint
        values[op.results[0]] = result


def _expect_signed(op: Operation) -> None:
    """Refuse operations whose meaning would change when the operand's sign is dropped."""
    if isinstance(op, _SIGN_MATTERS) and any(_is_unsigned(operand.type) for operand in op.operands):
        raise XpagedError(
            f"'{op.name}' of unsigned integers is not supported",
            at=op,
            found=op.operands[0].type,
            expected="float or signed integer elements",
            fix="convert to a signed type of more bits first",
        )


def _is_unsigned(type: Attribute) -> bool:
    element = type.element_type if isinstance(type, MIXRShapedType) else type
    return isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED


def _from_memory(builder: TosaBuilder, type: Attribute, flat: SSAValue) -> SSAValue:
    """The logical tensor of a flat argument: buffer, permuted, sliced, broadcast."""
    if not isinstance(type, MIXRShapedType):
        return flat
    layout = type.memory_layout()
    value = builder.reshape(flat, layout.buffer_shape)
    value = builder.transpose(value, layout.permutation)
    value = builder.slice(value, [0] * len(layout.sliced), layout.sliced)
    return builder.broadcast(value, layout.logical_shape)


def _to_memory(builder: TosaBuilder, type: Attribute, value: SSAValue, at: Operation) -> SSAValue:
    """The flat buffer of a logical result."""
    if not isinstance(type, MIXRShapedType):
        return value
    layout = type.memory_layout()
    if layout.has_broadcast:
        raise XpagedError("a result cannot be written to a tensor with broadcast (stride 0)", at=at, found=type)
    if layout.has_slice:
        raise XpagedError(
            "a result cannot be written to a slice of a larger buffer",
            at=at,
            found=type,
            expected=f"strides without gaps, such as {MIXRShapedType(type.element_type, type.get_shape())}",
        )
    return builder.reshape(builder.transpose(value, layout.memory_order), [layout.count])


def _aligned(builder: TosaBuilder, value: SSAValue, rank: int) -> SSAValue:
    """`value` with leading dimensions of length 1 up to `rank`."""
    shape = tensor_of(value).get_shape()
    return builder.reshape(value, [1] * (rank - len(shape)) + list(shape))


@_rule(mx.LiteralOp)
def _literal(builder: TosaBuilder, op: mx.LiteralOp, operands: Sequence[SSAValue]) -> SSAValue:
    return builder.constant(dense.with_element_type(op.value, shaped(op.output).as_tensor()))


def _unary(builder: TosaBuilder, op: mx.UnaryOp, operands: Sequence[SSAValue]) -> SSAValue:
    return builder.unary(_UNARY[type(op)], operands[0])


def _binary(builder: TosaBuilder, op: mx.BinaryOp, operands: Sequence[SSAValue]) -> SSAValue:
    return builder.binary(_BINARY[type(op)], operands[0], operands[1])


_RULES.update(dict.fromkeys(_UNARY, _unary))
_RULES.update(dict.fromkeys(_BINARY, _binary))


@_rule(mx.MulOp)
def _mul(builder: TosaBuilder, op: mx.MulOp, operands: Sequence[SSAValue]) -> SSAValue:
    return builder.mul(operands[0], operands[1])


@_rule(mx.DivOp)
def _div(builder: TosaBuilder, op: mx.DivOp, operands: Sequence[SSAValue]) -> SSAValue:
    if isinstance(shaped(op.output).element_type, AnyFloat):
        return builder.mul(operands[0], builder.unary(tx.ReciprocalOp, operands[1]))
    return builder.binary(tx.IntDivOp, operands[0], operands[1])


@_rule(mx.NegOp)
def _neg(builder: TosaBuilder, op: mx.NegOp, operands: Sequence[SSAValue]) -> SSAValue:
    return builder.insert(tx.NegateOp(operands[0])).output


@_rule(mx.ReluOp)
def _relu(builder: TosaBuilder, op: mx.ReluOp, operands: Sequence[SSAValue]) -> SSAValue:
    return builder.binary(tx.MaximumOp, operands[0], builder.splat(tensor_of(operands[0]), 0))


@_rule(mx.SqrtOp)
def _sqrt(builder: TosaBuilder, op: mx.SqrtOp, operands: Sequence[SSAValue]) -> SSAValue:
    return builder.unary(tx.ReciprocalOp, builder.unary(tx.RsqrtOp, operands[0]))


@_rule(mx.ClipOp)
def _clip(builder: TosaBuilder, op: mx.ClipOp, operands: Sequence[SSAValue]) -> SSAValue:
    low = builder.binary(tx.MaximumOp, operands[0], operands[1])
    return builder.binary(tx.MinimumOp, low, operands[2])


def _compare(builder: TosaBuilder, op: mx.BinaryOp, operands: Sequence[SSAValue]) -> SSAValue:
    """A truth value in the operands' element type, as MIGraphX has it."""
    result = shaped(op.output)
    op_type = tx.GreaterOp if isinstance(op, mx.GreaterOp) else tx.EqualOp
    truth = builder.insert(op_type(operands[0], operands[1], TensorType(i1, result.get_shape()))).output
    return builder.cast(truth, signless(result.element_type))


_RULES.update(dict.fromkeys((mx.GreaterOp, mx.EqualOp), _compare))


@_rule(mx.WhereOp)
def _where(builder: TosaBuilder, op: mx.WhereOp, operands: Sequence[SSAValue]) -> SSAValue:
    condition, on_true, on_false = operands
    condition = builder.cast(condition, i1)
    return builder.insert(tx.SelectOp(condition, on_true, on_false, shaped(op.output).as_tensor())).output


@_rule(mx.ConvertOp)
def _convert(builder: TosaBuilder, op: mx.ConvertOp, operands: Sequence[SSAValue]) -> SSAValue:
    source, target = shaped(op.in_a).element_type, shaped(op.output).element_type
    widens = isinstance(target, AnyFloat) or (
        isinstance(source, IntegerType) and isinstance(target, IntegerType) and target.bitwidth > source.bitwidth
    )
    if isinstance(source, AnyFloat) and isinstance(target, IntegerType):
        reason = "MIGraphX rounds toward zero and TOSA to nearest"
    elif _is_unsigned(source) and widens:
        reason = "TOSA knows no unsigned conversion"
    else:
        return builder.cast(operands[0], signless(target))
    raise XpagedError(
        f"'{op.name}' from {source} to {target} is not supported: {reason}",
        at=op,
        found=op.in_a.type,
        expected="float to float, signed integer to any, unsigned integer to as many or fewer bits",
    )


@_rule(mo.TransposeOp)
def _transpose(builder: TosaBuilder, op: mo.TransposeOp, operands: Sequence[SSAValue]) -> SSAValue:
    return builder.transpose(operands[0], ints(op.permutation))


@_rule(mo.ReshapeOp)
def _reshape(builder: TosaBuilder, op: mo.ReshapeOp, operands: Sequence[SSAValue]) -> SSAValue:
    return builder.reshape(operands[0], shaped(op.output).get_shape())


@_rule(mo.SliceOp)
def _slice(builder: TosaBuilder, op: mo.SliceOp, operands: Sequence[SSAValue]) -> SSAValue:
    return builder.slice(operands[0], op.bounds()[0], shaped(op.output).get_shape())


@_rule(mo.BroadcastOp)
def _broadcast(builder: TosaBuilder, op: mo.BroadcastOp, operands: Sequence[SSAValue]) -> SSAValue:
    target, source = shaped(op.output).get_shape(), tensor_of(operands[0]).get_shape()
    axis = op.axis.value.data
    placed = [1] * axis + list(source) + [1] * (len(target) - axis - len(source))
    return builder.broadcast(builder.reshape(operands[0], placed), target)


@_rule(mo.MultiBroadcastOp)
def _multibroadcast(builder: TosaBuilder, op: mo.MultiBroadcastOp, operands: Sequence[SSAValue]) -> SSAValue:
    target = shaped(op.output)
    if (value := dense.splat_value(_constant(operands[0]))) is not None:
        return builder.splat(target.as_tensor(), value)
    return builder.broadcast(_aligned(builder, operands[0], target.get_num_dims()), target.get_shape())


def _constant(value: SSAValue) -> Any:
    from xpaged.dialects.tosa.constants import constant_of

    return constant_of(value)


def _reduce(builder: TosaBuilder, op: mo.ReduceOp, operands: Sequence[SSAValue]) -> SSAValue:
    """One reduction an axis; a mean scales before it adds, so that the sum does not overflow."""
    value, source = operands[0], tensor_of(operands[0])
    axes = sorted(axis % source.get_num_dims() for axis in ints(op.axes))
    if isinstance(op, mo.ReduceMeanOp):
        if not isinstance(source.element_type, AnyFloat):
            raise XpagedError(f"'{op.name}' of integers is not supported", at=op, found=op.input.type)
        count = prod(source.get_shape()[axis] for axis in axes)
        value = builder.mul(value, _fraction(builder, source, count))
    reduction = to.ReduceMaxOp if isinstance(op, mo.ReduceMaxOp) else to.ReduceSumOp
    for axis in axes:
        value = builder.reduce(reduction, value, axis)
    return value


def _fraction(builder: TosaBuilder, like: TensorType[Attribute], count: int) -> SSAValue:
    """`1 / count` as a tensor like `like`: the reciprocal of the count where its type holds that exactly."""
    if dense.splat_value(dense.splat(like, float(count))) == count:
        return builder.unary(tx.ReciprocalOp, builder.splat(like, float(count)))
    return builder.splat(like, 1.0 / count)


_RULES.update(dict.fromkeys((mo.ReduceMaxOp, mo.ReduceSumOp, mo.ReduceMeanOp), _reduce))


@_rule(mo.SoftmaxOp)
def _softmax(builder: TosaBuilder, op: mo.SoftmaxOp, operands: Sequence[SSAValue]) -> SSAValue:
    axis = op.axis.value.data % tensor_of(operands[0]).get_num_dims()
    largest = builder.reduce(to.ReduceMaxOp, operands[0], axis)
    exponentials = builder.unary(tx.ExpOp, builder.binary(tx.SubOp, operands[0], largest))
    total = builder.reduce(to.ReduceSumOp, exponentials, axis)
    return builder.mul(exponentials, builder.unary(tx.ReciprocalOp, total))


@_rule(mo.DotOp)
def _dot(builder: TosaBuilder, op: mo.DotOp, operands: Sequence[SSAValue]) -> SSAValue:
    """Leading dimensions become one batch; where B has none, A's become rows."""
    a, b = operands
    shape_a, shape_b = tensor_of(a).get_shape(), tensor_of(b).get_shape()
    shared = prod(shape_b[:-2]) == 1
    a = builder.reshape(a, (1, prod(shape_a[:-1]), shape_a[-1]) if shared else flattened(shape_a, 2))
    b = builder.reshape(b, flattened(shape_b, 2))
    product = builder.matmul(a, b, shaped(op.output).element_type)
    return builder.reshape(product, shaped(op.output).get_shape())


@_rule(mo.DerefOp)
def _deref(builder: TosaBuilder, op: mo.DerefOp, operands: Sequence[SSAValue]) -> SSAValue:
    result = shaped(op.output).as_tensor()
    custom = to.CustomOp(rocmlir_names.DEREF, rocmlir_names.DOMAIN, operands, [result])
    return builder.insert(custom).outputs[0]
