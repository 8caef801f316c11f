"""`!migraphx.shaped<4x5x24xf16, 120x24x1>`: a tensor type that also says how the tensor lies in memory.

The lengths and the element type are the logical tensor; the strides, in elements, are where its elements lie in a flat
buffer. Stride 0 is a broadcast, permuted strides are a transpose, strides larger than what they step over are a slice
of a larger buffer. A function argument of this type is such a flat buffer; between operations they are only a record.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ArrayAttr,
    ContainerType,
    IndexType,
    IntAttr,
    IntegerType,
    ShapedType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.irdl.declarative_assembly_format import (
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.irdl.operations import IRDLOperation
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from xpaged.errors import XpagedError


@irdl_attr_definition
class MIXRShapedType(ParametrizedAttribute, TypeAttribute, ShapedType, ContainerType[Attribute]):
    """Lengths, element type and strides of a MIGraphX tensor; `?` (DYNAMIC_INDEX) where a number is not known."""

    name = "migraphx.shaped"

    shape: ArrayAttr[IntAttr]
    element_type: Attribute
    strides: ArrayAttr[IntAttr]

    def __init__(self, element_type: Attribute, shape: Iterable[int], strides: Iterable[int] | None = None):
        """A type of the given lengths; without `strides` it lies row-major ("standard")."""
        shape = tuple(shape)
        strides = standard_strides(shape) if strides is None else strides
        super().__init__(ArrayAttr(map(IntAttr, shape)), element_type, ArrayAttr(map(IntAttr, strides)))

    def get_num_dims(self) -> int:
        return len(self.shape.data)

    def get_shape(self) -> tuple[int, ...]:
        return tuple(length.data for length in self.shape.data)

    def get_strides(self) -> tuple[int, ...]:
        """One stride a dimension, in elements; 0 where the dimension is broadcast."""
        return tuple(stride.data for stride in self.strides.data)

    def get_element_type(self) -> Attribute:
        return self.element_type

    def is_standard(self) -> bool:
        """Whether the strides fall from high to low with a 1 among them (a single element may have stride 0)."""
        strides = self.get_strides()
        if not strides or (self.get_shape() == (1,) and strides == (0,)):
            return True
        return list(strides) == sorted(strides, reverse=True) and 1 in strides

    def as_tensor(self) -> TensorType[Attribute]:
        """The logical tensor: the same lengths, the element type without its sign."""
        return TensorType(signless(self.element_type), self.get_shape())

    def memory_layout(self) -> "MemoryLayout":
        """How the elements lie in a flat buffer; XpagedError when no buffer of whole rows has these strides."""
        return MemoryLayout.of(self)

    def flat_tensor(self) -> TensorType[Attribute]:
        """The flat tensor a function argument of this type becomes, with every element of the buffer behind it."""
        return TensorType(signless(self.element_type), [self.memory_layout().count])

    def verify(self) -> None:
        lengths, strides = self.get_shape(), self.get_strides()
        if len(lengths) != len(strides):
            raise VerifyException(
                f"migraphx.shaped type has {len(lengths)} elements in its shape but {len(strides)} strides defined"
            )
        if not isinstance(self.element_type, IntegerType | IndexType | AnyFloat):
            raise VerifyException(f"cannot put the type {self.element_type} into a migraphx.shaped type")
        for kind, numbers in (("length", lengths), ("stride", strides)):
            if any(n < 0 and n != DYNAMIC_INDEX for n in numbers):
                raise VerifyException(f"migraphx.shaped type has a negative {kind} in {list(numbers)}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            start = parser.pos
            try:
                shape, element_type = parser.parse_ranked_shape()
            except ParseError as error:
                parser.raise_error(f"expected shaped dimension list with type: {error.msg}", start, parser.pos)
            strides: list[int] = []
            if shape or parser.parse_optional_punctuation(","):
                if shape and parser.parse_optional_punctuation(",") is None:
                    parser.raise_error("expected `,` and a `x`-separated list in non-scalar migraphx.shaped type")
                strides = parser.parse_dimension_list()
                if not strides:
                    parser.raise_error("expected `,` and a `x`-separated list in non-scalar migraphx.shaped type")
        return ArrayAttr(map(IntAttr, shape)), element_type, ArrayAttr(map(IntAttr, strides))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            if self.shape.data:
                printer.print_dimension_list(self.get_shape())
                printer.print_string("x")
            printer.print_attribute(self.element_type)
            if self.shape.data:
                printer.print_string(", ")
                printer.print_dimension_list(self.get_strides())


@irdl_custom_directive
class Shaped(CustomDirective):
    """The type of one operand or result, in short form `<2x3xf16, 3x1>`; the full form is taken, too."""

    value: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.value.set(state, (parse_shaped(parser),))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        print_shaped(printer, self.value.get(op)[0])


def parse_shaped(parser: Parser) -> Attribute:
    """Parse `<2x3xf16, 3x1>` or any full type."""
    type = parser.parse_optional_type()
    return MIXRShapedType.new(MIXRShapedType.parse_parameters(parser)) if type is None else type


def print_shaped(printer: Printer, type: Attribute) -> None:
    """Print a shaped type in short form, any other in full."""
    if isinstance(type, MIXRShapedType):
        type.print_parameters(printer)
    else:
        printer.print_attribute(type)


def standard_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a row-major tensor of these static lengths."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def signless(type: Attribute) -> Attribute:
    """An integer type without its sign; other types as they are."""
    if isinstance(type, IntegerType) and type.signedness.data is not Signedness.SIGNLESS:
        return IntegerType(type.width.data)
    return type


@dataclass(frozen=True)
class MemoryLayout:
    """The row-major buffer behind a shaped type, and how to get from the buffer to the logical tensor.

    `reshape` the flat buffer to `buffer_shape`, `transpose` it by `permutation`, slice every dimension to
    `[0, sliced[i])`, and broadcast the dimensions of length 1 in `sliced` to the logical lengths.
    """

    logical_shape: tuple[int, ...]
    buffer_shape: tuple[int, ...]
    """Lengths in memory order, outermost first; broadcast dimensions have length 1."""
    permutation: tuple[int, ...]
    """Logical dimension `i` is dimension `permutation[i]` of the buffer."""
    sliced: tuple[int, ...]
    """The logical lengths before broadcasting."""

    @property
    def memory_order(self) -> tuple[int, ...]:
        """The logical dimensions in the order of the buffer, outermost first."""
        return tuple(self.permutation.index(i) for i in range(len(self.permutation)))

    @property
    def count(self) -> int:
        """The number of elements of the buffer."""
        return prod(self.buffer_shape)

    @property
    def has_broadcast(self) -> bool:
        return self.sliced != self.logical_shape

    @property
    def has_slice(self) -> bool:
        return self.sliced != tuple(self.buffer_shape[p] for p in self.permutation)

    @staticmethod
    def of(type: MIXRShapedType) -> "MemoryLayout":
        """The layout of `type`; XpagedError for dynamic types and for strides that no buffer of whole rows has."""
        shape, strides = type.get_shape(), type.get_strides()
        text = f"!migraphx.shaped type {type}"
        if DYNAMIC_INDEX in (*shape, *strides):
            raise XpagedError(
                "a dynamic shape has no memory layout", found=type, fix="give every length and stride a number"
            )
        if 0 in shape:
            raise XpagedError("a tensor without elements has no memory layout", found=type)
        lengths = [1 if stride == 0 else length for length, stride in zip(shape, strides, strict=True)]
        order = sorted(range(len(shape)), key=lambda i: (strides[i], lengths[i]), reverse=True)
        buffer: list[int] = []
        inner = [i for i in order if strides[i] != 0]
        if inner and strides[inner[-1]] != 1:
            raise XpagedError(f"{text} with smallest stride {strides[inner[-1]]} has no in-memory layout")
        for outer, i in zip([None, *inner], inner, strict=False):
            if outer is None:
                buffer.append(lengths[i])
                continue
            if strides[outer] < lengths[i] * strides[i]:
                raise XpagedError(
                    f"{text} cannot be laid out in memory: its stride of dimension {outer} is too small",
                    found=strides[outer],
                    expected=f"at least {lengths[i]} x {strides[i]}, what dimension {i} takes",
                )
            if strides[outer] % strides[i]:
                raise XpagedError(
                    f"{text} cannot be laid out in memory: its stride of dimension {outer} is not a multiple",
                    found=strides[outer],
                    expected=f"a multiple of {strides[i]}, the stride of dimension {i}",
                )
            buffer.append(strides[outer] // strides[i])
        buffer += [1] * (len(shape) - len(inner))
        permutation = tuple(order.index(i) for i in range(len(shape)))
        return MemoryLayout(shape, tuple(buffer), permutation, tuple(lengths))
