"""What `migraphx.attention` demands of its operands, attributes and body."""

from collections.abc import Sequence
from typing import TypeGuard

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, IntegerType, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.migraphx import elementwise as mx
from xpaged.dialects.migraphx.attention import AttentionOp, YieldOp
from xpaged.dialects.migraphx.base import MIGraphXOp, expect_float, shaped
from xpaged.dialects.migraphx.quantize import DeQuantizeLinearOp, is_signed, is_signed_byte
from xpaged.dialects.migraphx.shaped import MIXRShapedType
from xpaged.dialects.shape_checks import shape_of

BODY_OPS: tuple[type[Operation], ...] = (
    mx.AddOp,
    mx.SubOp,
    mx.MulOp,
    mx.DivOp,
    mx.PowOp,
    mx.NegOp,
    mx.AbsOp,
    mx.CeilOp,
    mx.FloorOp,
    mx.ExpOp,
    mx.LogOp,
    mx.SqrtOp,
    mx.TanhOp,
    mx.ErfOp,
    mx.RecipOp,
    mx.ReluOp,
    mx.SigmoidOp,
    mx.WhereOp,
    mx.ConvertOp,
    DeQuantizeLinearOp,
)
"""What may be done to the scores in the body."""

_FLOATS = (Float32Type, Float16Type, BFloat16Type)


def verify_attention(op: AttentionOp) -> None:
    """VerifyException for the first rule that an attention breaks."""
    _verify_shapes(op)
    _verify_types(op)
    _verify_features(op)
    _verify_body(op)
    _verify_results(op)


def _refused(op: AttentionOp, text: str) -> VerifyException:
    return VerifyException(f"'{op.name}' op: {text}")


def _verify_shapes(op: AttentionOp) -> None:
    """Ranks, and the lengths of Q, K and V that go together."""
    names = {"queries": op.queries, "keys": op.keys, "values": op.values}
    shapes = {name: shape_of(op, value) for name, value in names.items()}
    for name, shape in shapes.items():
        if len(shape) not in (3, 4) or len(shape) != len(shapes["queries"]):
            raise _refused(op, f"Q, K and V must all have rank 3 or all rank 4, found {name} of shape {list(shape)}")
        if 0 in shape:
            raise _refused(op, f"the lengths of the {name} must be positive, found {list(shape)}")
    q, k, v = shapes.values()
    if q[-1] != k[-2]:
        raise _refused(op, f"queries {list(q)} have head dimension {q[-1]}, keys {list(k)} have {k[-2]}")
    if k[-1] != v[-2]:
        raise _refused(op, f"keys {list(k)} have sequence length {k[-1]}, values {list(v)} have {v[-2]}")
    if k[:-2] != v[:-2]:
        raise _refused(op, f"the leading dimensions of keys and values differ: {list(k[:-2])} and {list(v[:-2])}")
    if q[0] != k[0]:
        heads = " (fewer heads of keys and values need rank 4)" if len(q) == 3 else ""
        raise _refused(op, f"queries have batch {q[0]}, keys and values have {k[0]}{heads}")
    if len(q) == 4 and q[1] % k[1]:
        raise _refused(op, f"{q[1]} heads of queries are no multiple of {k[1]} heads of keys and values")


def _verify_types(op: AttentionOp) -> None:
    q, k, v = (shaped(value).element_type for value in (op.queries, op.keys, op.values))
    if q != k:
        raise _refused(op, f"queries and keys must have the same element type, found {q} and {k}")
    if not isinstance(q, _FLOATS) and not is_signed_byte(q):
        raise _refused(op, f"queries and keys must have elements of f32, f16, bf16 or i8, found {q}")
    if not isinstance(v, _FLOATS):
        raise _refused(op, f"values must have elements of f32, f16 or bf16, found {v}")
    if not isinstance(op.softmax_type, _FLOATS):
        raise _refused(op, f"softmax_type must be f16, bf16 or f32, found {op.softmax_type}")


def _verify_features(op: AttentionOp) -> None:
    """Each feature comes with its operand or attribute and the features it builds on; none comes without it."""
    names = op.feature_names
    if op.features is not None and op.features.value.data >> 5:
        raise _refused(op, f"features has bits 0 to 4, found {op.features.value.data}")
    for name, needed in (("prefix_offset", "causal"), ("sliding_window", "kvcache")):
        if name in names and needed not in names:
            raise _refused(op, f"feature '{name}' requires '{needed}' to be set, found only {', '.join(names)}")
    pairs: tuple[tuple[str, str, object], ...] = (
        ("kvcache", "operand 'current_seq_len'", op.currentSeqLen),
        ("prefix_offset", "operand 'prefix_offset'", op.prefixOffset),
        ("sliding_window", "attribute 'slidingWindowSize'", op.slidingWindowSize),
        ("splitkv", "attribute 'splitKV'", op.splitKV),
    )
    for name, what, given in pairs:
        if name in names and given is None:
            raise _refused(op, f"feature '{name}' requires the {what}")
        if name not in names and given is not None:
            raise _refused(op, f"the {what} requires feature '{name}'")
    keys = shaped(op.keys).get_shape()[-1]
    if op.window is not None and not 0 < op.window <= keys:
        raise _refused(
            op, f"slidingWindowSize must lie between 1 and the key sequence length {keys}, found {op.window}"
        )
    if "splitkv" in names:
        if op.split_kv <= 1:
            raise _refused(op, f"feature 'splitkv' requires splitKV > 1, found {op.split_kv}")
        if keys % op.split_kv:
            raise _refused(op, f"key sequence length ({keys}) must be divisible by splitKV ({op.split_kv})")
        if op.lse is None:
            raise _refused(op, "feature 'splitkv' requires the LSE as a second result")
    for what, value in (("current_seq_len", op.currentSeqLen), ("prefix_offset", op.prefixOffset)):
        if value is None:
            continue
        if not is_signed(shaped(value).element_type, i32):
            raise _refused(op, f"{what} must have elements of i32 or si32, found {value.type}")
        if shaped(value).get_shape() != op.leading:
            raise _refused(
                op,
                f"the shape of {what} must be that of Q's leading dimensions, {list(op.leading)}, "
                f"found {list(shaped(value).get_shape())}: broadcast it with migraphx.multibroadcast",
            )


def _verify_body(op: AttentionOp) -> None:
    """The body is elementwise on all scores at once, and everything in it has their shape."""
    inputs, blocks = op.preSoftmaxElemWiseInputs, list(op.preSoftmaxBody.blocks)
    if op.split_kv > 1 and inputs:
        for value in inputs:
            rank = shaped(value).get_num_dims()
            if rank != len(op.score_shape):
                raise _refused(
                    op,
                    f"a pre_softmax_input of rank {rank} does not have the rank of the scores of the parts, "
                    f"{len(op.score_shape)}: their shape is {list(op.score_shape)}",
                )
    for value in inputs:
        if shaped(value).get_shape() != op.score_shape:
            raise _refused(
                op,
                f"a pre_softmax_input must have the shape of the scores, {list(op.score_shape)}, "
                f"found {list(shaped(value).get_shape())}",
            )
    if inputs and not op.has_body:
        raise _refused(op, f"{len(inputs)} pre_softmax_inputs are given, but the body has no operations")
    if not op.has_body:
        if not isinstance(op.score_type, _FLOATS):
            raise _refused(op, f"scores of {op.score_type} need a body that makes floats of them, found an empty one")
        if blocks and blocks[0].args and len(blocks[0].args) != 1:
            raise _refused(op, f"an empty body takes the scores only, found {len(blocks[0].args)} arguments")
        return
    if not inputs:
        raise _refused(op, "the body has operations, but there are no pre_softmax_inputs: pass scale or bias as one")
    if len(blocks) != 1:
        raise _refused(op, f"the body must have one block, found {len(blocks)}")
    _verify_block_arguments(op, [op.score_type, *(shaped(value).element_type for value in inputs)])
    for inner in blocks[0].ops:
        _verify_body_op(op, inner)


def _verify_block_arguments(op: AttentionOp, types: Sequence[Attribute]) -> None:
    arguments = op.preSoftmaxBody.block.args
    if len(arguments) != len(types):
        raise _refused(
            op,
            f"the body must have {len(types)} arguments, the scores and {len(types) - 1} pre_softmax_inputs, "
            f"found {len(arguments)}",
        )
    for index, (argument, element) in enumerate(zip(arguments, types, strict=True)):
        given = argument.type
        if not _has_scores(given, op) or not is_signed(given.element_type, element):
            what = "the scores" if index == 0 else f"pre_softmax_input {index - 1}"
            lengths = "x".join(map(str, op.score_shape))
            raise _refused(op, f"argument {index} of the body is {what}, {lengths}x{element}, found {given}")


def _has_scores(type: Attribute, op: AttentionOp) -> TypeGuard[MIXRShapedType]:
    """Whether a shaped type has the lengths of the scores."""
    return isinstance(type, MIXRShapedType) and type.get_shape() == op.score_shape


def _verify_body_op(op: AttentionOp, inner: Operation) -> None:
    block = op.preSoftmaxBody.block
    if inner is block.last_op:
        if not isinstance(inner, YieldOp):
            raise _refused(op, f"the body must end in migraphx.yield, found '{inner.name}'")
        _verify_yield(op, inner)
        return
    if not isinstance(inner, BODY_OPS):
        allowed = ", ".join(each.name.split(".")[1] for each in BODY_OPS)
        raise VerifyException(
            f"'{inner.name}' op: the body of an attention holds elementwise operations only: {allowed}"
        )
    for operand in inner.operands:
        owner = operand.owner if not isinstance(operand.owner, Operation) else operand.owner.parent
        if owner is not block:
            raise VerifyException(
                f"'{inner.name}' op: the body uses a value from outside, of {operand.type}: "
                "pass it as one of the pre_softmax_inputs"
            )
        if not isinstance(inner, DeQuantizeLinearOp | mx.ConvertOp) and not _is_condition(inner, operand):
            assert isinstance(inner, MIGraphXOp)
            expect_float(inner, operand)
    for value in inner.results:
        if shaped(value).get_shape() != op.score_shape:
            raise VerifyException(
                f"'{inner.name}' op: in the body of an attention everything has the shape of the scores, "
                f"{list(op.score_shape)}, found {list(shaped(value).get_shape())}"
            )


def _is_condition(op: Operation, operand: SSAValue) -> bool:
    return isinstance(op, mx.WhereOp) and operand is op.cond and isinstance(shaped(operand).element_type, IntegerType)


def _verify_yield(op: AttentionOp, inner: YieldOp) -> None:
    given = [value.type for value in inner.arguments]
    if len(given) != 1:
        raise _refused(op, f"the body must yield the scores that enter the softmax, found {len(given)} values")
    (type,) = given
    if not _has_scores(type, op) or not isinstance(type.element_type, _FLOATS):
        lengths = "x".join(map(str, op.score_shape))
        raise _refused(op, f"the body must yield floats of shape {lengths}, found {type}")


def entering_type(op: AttentionOp) -> Attribute:
    """The element type of the scores that leave the body."""
    last = op.preSoftmaxBody.block.last_op if op.has_body else None
    return shaped(last.operands[0]).element_type if last is not None else op.score_type


def _verify_results(op: AttentionOp) -> None:
    value_type, entering = shaped(op.values).element_type, entering_type(op)
    if op.softmaxType is None and entering != value_type:
        raise _refused(
            op,
            f"softmax_type must be given where the scores that enter the softmax ({entering}) "
            f"have another type than the values ({value_type})",
        )
    parts = () if op.split_kv == 1 else (op.split_kv,)
    rows, channels = shaped(op.queries).get_shape()[-2], shaped(op.values).get_shape()[-1]
    expected = {"result": (op.result, (*op.leading, *parts, rows, channels), value_type)}
    if op.lse is not None:
        expected["LSE"] = (op.lse, (*op.leading, *parts, rows), op.softmax_type)
    for what, (value, shape, element) in expected.items():
        if shape_of(op, value) != shape:
            raise _refused(op, f"the {what} must have shape {list(shape)}, found {list(shaped(value).get_shape())}")
        if shaped(value).element_type != element:
            why = "the type of the values" if what == "result" else "the type of the softmax"
            raise _refused(op, f"the {what} must have elements of {element}, {why}, found {value.type}")
