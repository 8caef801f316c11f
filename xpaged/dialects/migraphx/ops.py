"""MIGraphX operations that move, reduce or multiply tensors, and `migraphx.deref`."""

from abc import ABC
from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import I32, I64, Float32Type, FloatAttr, IntegerAttr, IntegerType, Signedness, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.migraphx.base import (
    SHAPED,
    I64Array,
    MIGraphXOp,
    expect_float,
    expect_product,
    expect_same_element_type,
    i64_array,
    ints,
    normalized_axis,
    shaped,
)
from xpaged.dialects.shape_checks import expect_shape, shape_of


class ViewOp(MIGraphXOp, ABC):
    """One operand, one result of the same element type."""

    input = operand_def(SHAPED)
    output = result_def(SHAPED)
    assembly_format = "$input attr-dict `:` custom<Shaped>(type($input)) `->` custom<Shaped>(type($output))"

    def verify_(self) -> None:
        self.verify_element_types()
        self.verify_shape(shape_of(self, self.input))

    def verify_element_types(self) -> None:
        """Check what the elements are."""
        expect_same_element_type(self, input=self.input, output=self.output)

    def verify_shape(self, source: tuple[int, ...]) -> None:
        """Check the attributes and the result's shape; `source` is the operand's."""
        raise VerifyException(f"'{self.name}' op: no shape rule")


@irdl_op_definition
class TransposeOp(ViewOp):
    """Result dimension `i` is operand dimension `permutation[i]`."""

    name = "migraphx.transpose"
    permutation = prop_def(I64Array)

    def __init__(self, input: SSAValue, permutation: Sequence[int], result: Attribute):
        super().__init__(operands=[input], properties={"permutation": i64_array(permutation)}, result_types=[result])

    def verify_shape(self, source: tuple[int, ...]) -> None:
        permutation = ints(self.permutation)
        if sorted(permutation) != list(range(len(source))):
            raise VerifyException(
                f"'{self.name}' op: {list(permutation)} is no permutation of {len(source)} dimensions"
            )
        expect_shape(self, self.output, [source[p] for p in permutation], f"permutation {list(permutation)}")


@irdl_op_definition
class ReshapeOp(ViewOp):
    """The same elements in row-major order under other lengths; one of `dims` may be -1."""

    name = "migraphx.reshape"
    dims = prop_def(I64Array)

    def __init__(self, input: SSAValue, dims: Sequence[int], result: Attribute):
        super().__init__(operands=[input], properties={"dims": i64_array(dims)}, result_types=[result])

    def verify_shape(self, source: tuple[int, ...]) -> None:
        dims, result = ints(self.dims), shape_of(self, self.output)
        if len(dims) != len(result):
            raise VerifyException(
                f"'{self.name}' op: number of dims ({len(dims)}) does not match result rank ({len(result)})"
            )
        if any(d < -1 for d in dims):
            raise VerifyException(f"'{self.name}' op: a dim of {list(dims)} is negative and not -1")
        if dims.count(-1) > 1:
            raise VerifyException(
                f"'{self.name}' op: expected at most one target dimension to be -1, found {list(dims)}"
            )
        if -1 in dims and 0 in dims:
            raise VerifyException(
                f"'{self.name}' op: cannot mix missing dimensions with zero dimension, found {list(dims)}"
            )
        for dim, length in zip(dims, result, strict=True):
            if dim not in (-1, length):
                raise VerifyException(f"'{self.name}' op: dim {dim} inconsistent with result dimension {length}")
        if prod(source) != prod(result):
            raise VerifyException(
                f"'{self.name}' op: input and output element counts do not match: {prod(source)} and {prod(result)}"
            )


@irdl_op_definition
class FlattenOp(ViewOp):
    """Two dimensions: the product of the lengths before `axis`, and of those from it on."""

    name = "migraphx.flatten"
    axis = prop_def(IntegerAttr[I64])

    def verify_shape(self, source: tuple[int, ...]) -> None:
        axis = self.axis.value.data
        if not -len(source) <= axis <= len(source):
            raise VerifyException(f"'{self.name}' op: axis {axis} is out of range for rank {len(source)}")
        axis += len(source) if axis < 0 else 0
        expect_shape(self, self.output, [prod(source[:axis]), prod(source[axis:])], f"two parts around axis {axis}")


@irdl_op_definition
class PadOp(ViewOp):
    """More elements around the operand, all equal to `value`: `pads` is how many before each dimension, then after."""

    name = "migraphx.pad"
    pads = prop_def(I64Array)
    value = prop_def(FloatAttr[Float32Type])
    mode = prop_def(IntegerAttr[I32])

    def margins(self) -> list[tuple[int, int]]:
        """How many elements are added before and after each dimension."""
        pads, rank = ints(self.pads), shaped(self.input).get_num_dims()
        return list(zip(pads[:rank], pads[rank:], strict=True))

    def verify_shape(self, source: tuple[int, ...]) -> None:
        pads, mode, value = ints(self.pads), self.mode.value.data, self.value.value.data
        if len(pads) != 2 * len(source) or any(n < 0 for n in pads):
            raise VerifyException(
                f"'{self.name}' op: expected {2 * len(source)} pads of 0 or more, before and after each of the "
                f"{len(source)} dimensions, found {list(pads)}"
            )
        if mode != 0:
            raise VerifyException(f"'{self.name}' op: expected mode 0 (constant), found {mode}")
        if isinstance(shaped(self.input).element_type, IntegerType) and not value.is_integer():
            raise VerifyException(f"'{self.name}' op: {value} is no element of {self.input.type}")
        expected = [a + n + b for n, (a, b) in zip(source, self.margins(), strict=True)]
        expect_shape(self, self.output, expected, "the operand's with the pads")


@irdl_op_definition
class SliceOp(ViewOp):
    """`[starts[i], ends[i])` of dimension `axes[i]`, whole dimensions otherwise."""

    name = "migraphx.slice"
    axes = prop_def(I64Array)
    ends = prop_def(I64Array)
    starts = prop_def(I64Array)

    def bounds(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """First and past-the-last index of every dimension of the operand."""
        shape = shaped(self.input).get_shape()
        starts, ends = [0] * len(shape), list(shape)
        for axis, start, end in zip(ints(self.axes), ints(self.starts), ints(self.ends), strict=True):
            starts[axis], ends[axis] = start, end
        return tuple(starts), tuple(ends)

    def verify_shape(self, source: tuple[int, ...]) -> None:
        axes, starts, ends = ints(self.axes), ints(self.starts), ints(self.ends)
        if not len(axes) == len(starts) == len(ends):
            raise VerifyException(
                f"'{self.name}' op: {len(axes)} axes, {len(starts)} starts and {len(ends)} ends: the numbers differ"
            )
        if len(set(axes)) != len(axes) or any(not 0 <= axis < len(source) for axis in axes):
            raise VerifyException(f"'{self.name}' op: axes {list(axes)} are no dimensions of {list(source)}, each once")
        for axis, start, end in zip(axes, starts, ends, strict=True):
            if not 0 <= start < end <= source[axis]:
                raise VerifyException(
                    f"'{self.name}' op: [{start}, {end}) does not lie in dimension {axis} of length {source[axis]}"
                )
        first, last = self.bounds()
        expect_shape(self, self.output, [e - s for s, e in zip(first, last, strict=True)], "what the bounds leave")


@irdl_op_definition
class BroadcastOp(ViewOp):
    """The operand's dimensions become those of the result from `axis` on; the others are broadcast."""

    name = "migraphx.broadcast"
    axis = prop_def(IntegerAttr[I64])
    out_lens = prop_def(I64Array)

    def verify_shape(self, source: tuple[int, ...]) -> None:
        lengths, axis = ints(self.out_lens), self.axis.value.data
        placed = lengths[axis : axis + len(source)] if axis >= 0 else ()
        if len(placed) != len(source) or any(a not in (1, b) for a, b in zip(source, placed, strict=True)):
            raise VerifyException(f"'{self.name}' op: {list(source)} does not fit into {list(lengths)} at axis {axis}")
        expect_shape(self, self.output, lengths, "out_lens")


@irdl_op_definition
class MultiBroadcastOp(ViewOp):
    """Trailing dimensions aligned, dimensions of length 1 and missing leading ones broadcast to `out_lens`."""

    name = "migraphx.multibroadcast"
    out_lens = prop_def(I64Array)

    def verify_shape(self, source: tuple[int, ...]) -> None:
        lengths = ints(self.out_lens)
        aligned = lengths[len(lengths) - len(source) :] if len(source) <= len(lengths) else ()
        if len(aligned) != len(source) or any(a not in (1, b) for a, b in zip(source, aligned, strict=True)):
            raise VerifyException(f"'{self.name}' op: {list(source)} does not broadcast to {list(lengths)}")
        expect_shape(self, self.output, lengths, "out_lens")


@irdl_op_definition
class SoftmaxOp(ViewOp):
    """`exp(x - max) / sum(exp(x - max))` along `axis`."""

    name = "migraphx.softmax"
    axis = prop_def(IntegerAttr[I64])

    def __init__(self, input: SSAValue, axis: int, result: Attribute):
        super().__init__(operands=[input], properties={"axis": IntegerAttr(axis, i64)}, result_types=[result])

    def verify_shape(self, source: tuple[int, ...]) -> None:
        expect_float(self, self.input)
        normalized_axis(self, self.axis.value.data, len(source))
        expect_shape(self, self.output, source, "that of the operand")


class ReduceOp(ViewOp, ABC):
    """A reduction over `axes`, which keep length 1."""

    axes = prop_def(I64Array)

    def verify_shape(self, source: tuple[int, ...]) -> None:
        axes = {normalized_axis(self, axis, len(source)) for axis in ints(self.axes)}
        if len(axes) != len(self.axes):
            raise VerifyException(f"'{self.name}' op: an axis is named twice in {list(ints(self.axes))}")
        expect_shape(
            self, self.output, [1 if i in axes else n for i, n in enumerate(source)], "length 1 along the axes"
        )


@irdl_op_definition
class ReduceMaxOp(ReduceOp):
    """The largest element."""

    name = "migraphx.reduce_max"


@irdl_op_definition
class ReduceSumOp(ReduceOp):
    """The sum of the elements."""

    name = "migraphx.reduce_sum"


@irdl_op_definition
class ReduceMeanOp(ReduceOp):
    """The mean of the elements, which are floats."""

    name = "migraphx.reduce_mean"

    def verify_shape(self, source: tuple[int, ...]) -> None:
        expect_float(self, self.input)
        super().verify_shape(source)


@irdl_op_definition
class DotOp(MIGraphXOp):
    """The matrix product of the last two dimensions; B's leading ones equal A's, or are 1 or absent."""

    name = "migraphx.dot"
    in_a = operand_def(SHAPED)
    in_b = operand_def(SHAPED)
    output = result_def(SHAPED)
    assembly_format = (
        "$in_a `,` $in_b attr-dict `:` "
        "custom<Shaped>(type($in_a)) `,` custom<Shaped>(type($in_b)) `->` custom<Shaped>(type($output))"
    )

    def __init__(self, a: SSAValue, b: SSAValue, result: Attribute):
        super().__init__(operands=[a, b], result_types=[result])

    def verify_(self) -> None:
        expect_same_element_type(self, inA=self.in_a, inB=self.in_b)
        expect_float(self, self.in_a)
        expect_float(self, self.output)
        expect_product(self, self.in_a, self.in_b, self.output)


@irdl_op_definition
class DerefOp(MIGraphXOp):
    """Reads the element at each 64-bit address: the only access to a paged cache.

    The addresses are `ui64`; the result has their shape and strides and any element type.
    """

    name = "migraphx.deref"
    input = operand_def(SHAPED)
    output = result_def(SHAPED)
    assembly_format = "$input attr-dict `:` custom<Shaped>(type($input)) `->` custom<Shaped>(type($output))"

    def __init__(self, input: SSAValue, result: Attribute):
        super().__init__(operands=[input], result_types=[result])

    def verify_(self) -> None:
        source, result = shaped(self.input), shaped(self.output)
        if source.element_type != IntegerType(64, Signedness.UNSIGNED):
            raise VerifyException(f"'{self.name}' op: the addresses must be ui64, found {source.element_type}")
        for kind, a, b in (
            ("shape", source.get_shape(), result.get_shape()),
            ("strides", source.get_strides(), result.get_strides()),
        ):
            if a != b:
                raise VerifyException(
                    f"'{self.name}' op: input and output must have the same {kind}, found {list(a)} and {list(b)}"
                )
