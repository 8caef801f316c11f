"""What MIGraphX conversions become in TOSA: between element types, to and from quantized numbers, out of packed ones.

TOSA's cast rounds floats to the nearest integer and knows no unsigned integers, where MIGraphX rounds toward zero; so
these are custom operators with the names that rocMLIR gives them.
"""

from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType, f32, i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from xpaged.dialects import rocmlir_names
from xpaged.dialects.migraphx import elementwise as mx
from xpaged.dialects.migraphx import quantize as mq
from xpaged.dialects.migraphx.base import shaped
from xpaged.dialects.migraphx.shaped import signless
from xpaged.dialects.tosa import elementwise as tx
from xpaged.errors import XpagedError
from xpaged.ir import dense
from xpaged.lowering.migraphx_rules import RULES, Operands, is_unsigned, rule
from xpaged.lowering.tosa_builder import TosaBuilder, broadcast_type, tensor_of

__all__ = ("RULES", "converted")


@rule(mx.ConvertOp)
def _convert(builder: TosaBuilder, op: mx.ConvertOp, operands: Operands) -> SSAValue:
    return converted(builder, operands[0], shaped(op.in_a).element_type, shaped(op.output).element_type)


def converted(builder: TosaBuilder, value: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
    """`value`, whose elements are `source` in MIGraphX, as `target`: floats become integers toward zero."""
    from_float, element = isinstance(source, AnyFloat), signless(target)
    if element == signless(source):
        return value
    name = None
    if is_unsigned(source) or (from_float and is_unsigned(target)):
        name = rocmlir_names.UNSIGNED_CAST
    elif from_float and isinstance(target, IntegerType):
        name = rocmlir_names.FP_TO_INT_CAST
    if name is None or element == i1:
        return builder.cast(value, element)
    return builder.custom(name, [value], TensorType(element, tensor_of(value).get_shape()))


@rule(mq.DeQuantizeLinearOp)
def _dequantize(builder: TosaBuilder, op: mq.DeQuantizeLinearOp, operands: Operands) -> SSAValue:
    """`(input - bias) * scale` in f32, then one rounding to the result's type."""
    values = (op.input, op.scale) if op.bias is None else (op.input, op.scale, op.bias)
    target = shaped(op.output).element_type
    wide = f32 if isinstance(target, AnyFloat) and target.bitwidth < 32 else target
    input, scale, *bias = (
        converted(builder, operand, shaped(value).element_type, wide)
        for operand, value in zip(operands, values, strict=True)
    )
    if bias:
        input = builder.binary(tx.SubOp, input, bias[0])
    return builder.cast(builder.mul(input, scale), target)


@rule(mq.QuantizeLinearOp)
def _quantize(builder: TosaBuilder, op: mq.QuantizeLinearOp, operands: Operands) -> SSAValue:
    """`clamp(round(input / scale) + bias)` in integers that hold the sum."""
    target = shaped(op.output).element_type
    if not isinstance(target, IntegerType) or target.bitwidth > 32:
        raise XpagedError(
            f"'{op.name}' to {target} is not supported",
            at=op,
            found=op.output.type,
            expected="integers of up to 32 bits",
        )
    narrow, bits = signless(target), target.bitwidth
    low, high = (0, 2**bits - 1) if is_unsigned(target) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    quotient = builder.mul(operands[0], builder.unary(tx.ReciprocalOp, operands[1]))
    if bits < 32:
        wide, margin = i32, 2**20
    elif op.bias is None and not is_unsigned(target):
        return builder.cast(quotient, i32)
    else:
        wide, margin = i64, 2**40
    value = builder.cast(quotient, wide)
    if op.bias is not None:
        bias = converted(builder, operands[2], target, IntegerType(wide.bitwidth))
        value = builder.binary(tx.AddOp, builder.clamp(value, -margin, margin), bias)
    return builder.cast(builder.clamp(value, low, high), narrow)


@rule(mq.UnpackOp)
def _unpack(builder: TosaBuilder, op: mq.UnpackOp, operands: Operands) -> SSAValue:
    """Two copies of each byte, moved up until the wanted half is on top, and down again."""
    shape, axis = list(tensor_of(operands[0]).get_shape()), op.axis.value.data
    axis %= len(shape)
    after = len(shape) - axis - 1
    byte = tensor_of(operands[0]).element_type
    pairs = builder.reshape(operands[0], [*shape[: axis + 1], 1, *shape[axis + 1 :]])
    lengths = [1] * (axis + 1) + [2] + [1] * after
    up = builder.constant(dense.from_values(TensorType(byte, lengths), [4, 0]))
    moved = builder.binary(tx.LogicalLeftShiftOp, pairs, up)
    four = builder.splat(TensorType(byte, [1] * len(lengths)), 4)
    down = tx.LogicalRightShiftOp if op.is_unsigned else tx.ArithmeticRightShiftOp
    result = builder.insert(down(moved, four, broadcast_type(moved, four))).output
    return builder.reshape(result, shaped(op.output).get_shape())
