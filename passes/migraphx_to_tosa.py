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
of integers are dropped, so what depends on an unsigned type is spelled out. A broadcast is a product with ones. What
each operation becomes is said in `xpaged.lowering.migraphx_rules`, `migraphx_numbers` and `migraphx_attention`.
"""

from dataclasses import dataclass
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from xpaged.dialects.migraphx.shaped import MIXRShapedType
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.pass_base import LevelPass
from xpaged.lowering.migraphx_attention import RULES
from xpaged.lowering.tosa_builder import TosaBuilder


def rule_names() -> set[str]:
    """The names of the operations that can be converted."""
    return {op_type.name for op_type in RULES}


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
        rule = RULES.get(type(op))
        if rule is None:
            raise XpagedError(f"'{op.name}' cannot be converted to TOSA", at=op)
        results = rule(builder, op, operands)
        for old_result, result in zip(op.results, results if isinstance(results, tuple) else (results,), strict=True):
            if result.name_hint is None and not isinstance(result.owner, Block):
                result.name_hint = old_result.name_hint
            values[old_result] = result


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
