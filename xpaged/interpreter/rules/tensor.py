"""tensor: reshapes and slices of whole tensors."""

import numpy as np
from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType

from xpaged.errors import XpagedError
from xpaged.interpreter import tensors
from xpaged.interpreter.evaluator import Compiler, OpCode, nullary, rule, unary


@rule(tensor.ExpandShapeOp, tensor.CollapseShapeOp)
def reassociate(op: tensor.ExpandShapeOp | tensor.CollapseShapeOp, b: Compiler) -> OpCode:
    return tensors.reshape(op)


@rule(tensor.EmptyOp)
def empty(op: tensor.EmptyOp, b: Compiler) -> OpCode:
    """What is not computed yet, as one element that is seen everywhere."""
    type = op.tensor.type
    assert isinstance(type, TensorType)
    value = np.broadcast_to(np.zeros(1, b.dtype(type)).reshape([1] * len(type.get_shape())), type.get_shape())
    return nullary(lambda: value)


@rule(tensor.ExtractSliceOp)
def extract_slice(op: tensor.ExtractSliceOp, b: Compiler) -> OpCode:
    starts, sizes, strides = (
        tuple(attr.get_values()) for attr in (op.static_offsets, op.static_sizes, op.static_strides)
    )
    if DYNAMIC_INDEX in (*starts, *sizes, *strides):
        raise XpagedError("the interpreter takes slices with static offsets, sizes and strides", at=op)
    shape = op.result.type.get_shape()
    index = tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, sizes, strides, strict=True))
    return unary(lambda x: x[index].reshape(shape))
