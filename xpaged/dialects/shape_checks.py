"""Checks of shapes that the verifiers of several dialects make, on any type that has a shape."""

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, ShapedType
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException


def shape_of(op: Operation, value: SSAValue) -> tuple[int, ...]:
    """The static lengths of a value of a shaped type; VerifyException when one is dynamic."""
    assert isinstance(value.type, ShapedType)
    shape = value.type.get_shape()
    if DYNAMIC_INDEX in shape:
        raise VerifyException(f"'{op.name}' op: dynamic shapes are not supported, found {value.type}")
    return shape


def expect_shape(op: Operation, result: SSAValue, expected: Sequence[int], why: str) -> None:
    """VerifyException when the lengths of `result` are not `expected`."""
    found = shape_of(op, result)
    if found != tuple(expected):
        raise VerifyException(f"'{op.name}' op: the result has shape {list(found)}, expected {list(expected)}: {why}")


def expect_broadcastable(op: Operation, result: SSAValue, *operands: SSAValue) -> None:
    """VerifyException unless every operand has the result's rank and, in each dimension, its length or 1."""
    target = shape_of(op, result)
    reached = [1] * len(target)
    for operand in operands:
        shape = shape_of(op, operand)
        if len(shape) != len(target) or any(a not in (1, b) for a, b in zip(shape, target, strict=True)):
            raise VerifyException(
                f"'{op.name}' op: operand of shape {list(shape)} does not broadcast to the result's {list(target)}"
            )
        reached = [max(a, b) for a, b in zip(reached, shape, strict=True)]
    if tuple(reached) != target:
        raise VerifyException(f"'{op.name}' op: the operands give shape {reached}, but the result has {list(target)}")
