"""Tile operations of the rock dialect: what one workgroup does, tile by tile.

Tiles are SSA values in registers with a layout; LDS is memory.  `rock.tile_load` is the only operation that reads
through a `rock.deref`; a view that a tile is loaded from has one leading coordinate for each scalar index, and its
trailing coordinates are the tile's.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    DenseArrayBase,
    IndexType,
    IntegerType,
    MemRefType,
    StringAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from xpaged.arch.table import instruction_named, instruction_names
from xpaged.dialects.hip import LdsBufferOp
from xpaged.dialects.rock.tile_type import TileType
from xpaged.errors import did_you_mean
from xpaged.ir.layout import Layout, LayoutError, plan_mma


def tile_of(value: SSAValue) -> TileType:
    """The tile type of a value that is known to be a tile."""
    assert isinstance(value.type, TileType)
    return value.type


@irdl_op_definition
class WorkgroupIdOp(IRDLOperation):
    """The number of this workgroup, 0 .. grid_size - 1."""

    name = "rock.workgroup_id"
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self) -> None:
        super().__init__(result_types=[IndexType()])


@irdl_op_definition
class StageOp(IRDLOperation):
    """Names the part of the kernel that follows; becomes a comment in the text."""

    name = "rock.stage"
    title = prop_def(StringAttr)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$title attr-dict"

    def __init__(self, title: str) -> None:
        super().__init__(properties={"title": StringAttr(title)})


@irdl_op_definition
class TileFillOp(IRDLOperation):
    """A tile whose elements are all the same scalar."""

    name = "rock.tile_fill"
    value = operand_def()
    result = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue, layout: Layout) -> None:
        super().__init__(operands=[value], result_types=[TileType.of(value.type, layout)])

    def verify_(self) -> None:
        if self.value.type != tile_of(self.result).element_type:
            raise VerifyException(f"rock.tile_fill: cannot fill {self.result.type} with {self.value.type}")


@irdl_op_definition
class TileIndexOp(IRDLOperation):
    """A tile of i32: `base + sum of strides[d] * (coordinate d)`."""

    name = "rock.tile_index"
    base = operand_def(IndexType)
    strides = prop_def(DenseArrayBase[I64])
    result = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = "$base `strides` $strides attr-dict `->` type($result)"

    def __init__(self, base: SSAValue, strides: Sequence[int], layout: Layout) -> None:
        super().__init__(
            operands=[base],
            properties={"strides": DenseArrayBase.from_list(i64, list(strides))},
            result_types=[TileType.of(i32, layout)],
        )

    def verify_(self) -> None:
        tile = tile_of(self.result)
        if tile.element_type != i32:
            raise VerifyException(f"rock.tile_index makes i32 tiles, found {tile.element_type}")
        _expect_rank("strides", len(self.strides), tile)


def _expect_rank(what: str, found: int, tile: TileType) -> None:
    if found != len(tile.shape):
        raise VerifyException(f"the tile has {len(tile.shape)} coordinates, found {found} {what}")


def _check_access(view: Attribute, indices: int, tile: TileType) -> None:
    assert isinstance(view, MemRefType)
    shape = view.get_shape()
    if view.element_type != tile.element_type:
        raise VerifyException(f"the view holds {view.element_type}, the tile {tile.element_type}")
    if shape[indices:] != tile.get_shape():
        raise VerifyException(
            f"after {indices} indices the view {'x'.join(map(str, shape))} leaves {list(shape[indices:])}, "
            f"expected the shape of the tile {list(tile.get_shape())}"
        )


@irdl_op_definition
class TileLoadOp(IRDLOperation):
    """Load a tile through a view.  Elements outside the view's padding, and those whose mask is false, are not read
    and are 0.  The mask is a tile of i1 that broadcasts to the result (extents of 1 repeat)."""

    name = "rock.tile_load"
    view = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    mask = opt_operand_def(TileType)
    result = result_def(TileType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$view `[` $indices `]` (`where` $mask^ `:` type($mask))? attr-dict `:` type($view) `->` type($result)"
    )

    def __init__(
        self, view: SSAValue, indices: Sequence[SSAValue], layout: Layout, mask: SSAValue | None = None
    ) -> None:
        assert isinstance(view.type, MemRefType)
        super().__init__(
            operands=[view, list(indices), [] if mask is None else [mask]],
            result_types=[TileType.of(view.type.element_type, layout)],
        )

    def verify_(self) -> None:
        tile = tile_of(self.result)
        _check_access(self.view.type, len(self.indices), tile)
        if self.mask is not None:
            mask = tile_of(self.mask)
            if mask.element_type != i1:
                raise VerifyException(f"rock.tile_load: the mask is a tile of i1, found {mask.element_type}")
            _expect_broadcast(mask, tile)


@irdl_op_definition
class TileStoreOp(IRDLOperation):
    """Store a tile through a view; elements outside the view's padding are dropped, copies are stored once."""

    name = "rock.tile_store"
    value = operand_def(TileType)
    view = operand_def(MemRefType)
    indices = var_operand_def(IndexType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value `,` $view `[` $indices `]` attr-dict `:` type($value) `,` type($view)"

    def __init__(self, value: SSAValue, view: SSAValue, indices: Sequence[SSAValue]) -> None:
        super().__init__(operands=[value, view, list(indices)])

    def verify_(self) -> None:
        _check_access(self.view.type, len(self.indices), tile_of(self.value))


def _expect_broadcast(small: TileType, tile: TileType) -> None:
    if len(small.shape) != len(tile.shape) or not small.layout.broadcasts_to(tile.layout):
        raise VerifyException(
            f"a tile of {'x'.join(map(str, small.get_shape()))} with {small.layout} does not broadcast "
            f"to {'x'.join(map(str, tile.get_shape()))} with {tile.layout}"
        )


@irdl_op_definition
class TileMmaOp(IRDLOperation):
    """C + A B for each batch: tiles [batch, rows, reduction], [batch, reduction, columns], [batch, rows, columns].

    A batch of 1 in A or B repeats.  The layouts must put into each lane what the instruction, a row of the architecture
    table, takes from it.
    """

    name = "rock.tile_mma"
    a = operand_def(TileType)
    b = operand_def(TileType)
    c = operand_def(TileType)
    instruction = prop_def(StringAttr)
    result = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = (
        "$instruction $a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `,` type($c) `->` type($result)"
    )

    def __init__(self, instruction: str, a: SSAValue, b: SSAValue, c: SSAValue) -> None:
        super().__init__(operands=[a, b, c], properties={"instruction": StringAttr(instruction)}, result_types=[c.type])

    def verify_(self) -> None:
        a, b, c = (tile_of(v).get_shape() for v in (self.a, self.b, self.c))
        if self.result.type != self.c.type:
            raise VerifyException(f"rock.tile_mma: the result has the type of C, {self.c.type}")
        ok = len(a) == len(b) == len(c) == 3 and a[2] == b[1] and c[1:] == (a[1], b[2])
        if not ok or a[0] not in (1, c[0]) or b[0] not in (1, c[0]):
            raise VerifyException(f"rock.tile_mma: cannot multiply {list(a)} by {list(b)} into {list(c)}")
        self._check_instruction()

    def _check_instruction(self) -> None:
        instruction = instruction_named(self.instruction.data)
        if instruction is None:
            guess = did_you_mean(self.instruction.data, instruction_names())
            raise VerifyException(
                f"rock.tile_mma: unknown instruction {self.instruction}" + (f", {guess}" if guess else "")
            )
        given = ((self.a, instruction.operand), (self.b, instruction.operand), (self.c, instruction.accumulator))
        for value, element in given:
            if str(tile_of(value).element_type) != element:
                raise VerifyException(
                    f"rock.tile_mma: {instruction.name} multiplies {instruction.operand} into "
                    f"{instruction.accumulator}, found a tile of {tile_of(value).element_type}"
                )
        try:
            plan_mma(instruction, *(tile_of(v).layout for v, _ in given))
        except LayoutError as error:
            raise VerifyException(f"rock.tile_mma: {error}") from error


def print_arguments(printer: Printer, arguments: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
    """`(%argument = %value : type, ...)`."""
    printer.print_string("(")
    for index, (argument, value) in enumerate(zip(arguments, values, strict=True)):
        printer.print_string(", " if index else "")
        printer.print_ssa_value(argument)
        printer.print_string(" = ")
        printer.print_ssa_value(value)
        printer.print_string(" : ")
        printer.print_attribute(value.type)
    printer.print_string(")")


def parse_arguments(parser: Parser) -> list[tuple[Parser.UnresolvedArgument, SSAValue]]:
    """What `print_arguments` writes."""

    def one() -> tuple[Parser.UnresolvedArgument, SSAValue]:
        argument = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        operand = parser.parse_unresolved_operand()
        parser.parse_punctuation(":")
        return argument, parser.resolve_operand(operand, parser.parse_type())

    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)


@irdl_op_definition
class TileMapOp(IRDLOperation):
    """An elementwise computation on tiles (extents of 1 repeat) and scalars; the region works on scalars."""

    name = "rock.tile_map"
    inputs = var_operand_def()
    result = result_def(TileType)
    body = region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove())

    def __init__(self, inputs: Sequence[SSAValue], body: Region, result_type: TileType) -> None:
        super().__init__(operands=[list(inputs)], regions=[body], result_types=[result_type])

    def print(self, printer: Printer) -> None:
        print_arguments(printer, self.body.block.args, self.inputs)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> TileMapOp:
        pairs = parse_arguments(parser)
        parser.parse_punctuation("->")
        result = parser.parse_type()
        if not isinstance(result, TileType):
            parser.raise_error("rock.tile_map makes a tile")
        attributes = parser.parse_optional_attr_dict_with_keyword()
        arguments = [argument.resolve(_scalar(value.type)) for argument, value in pairs]
        body = parser.parse_region(arguments)
        op = cls([value for _, value in pairs], body, result)
        if attributes is not None:
            op.attributes |= attributes.data
        return op

    def verify_(self) -> None:
        result, arguments = tile_of(self.result), self.body.block.args
        if len(arguments) != len(self.inputs):
            raise VerifyException(f"rock.tile_map: {len(self.inputs)} inputs for {len(arguments)} region arguments")
        for argument, value in zip(arguments, self.inputs, strict=True):
            if argument.type != _scalar(value.type):
                raise VerifyException(f"rock.tile_map: {value.type} enters the region as {_scalar(value.type)}")
            if isinstance(value.type, TileType):
                _expect_broadcast(value.type, result)
            elif not isinstance(value.type, IntegerType | AnyFloat):
                raise VerifyException(f"rock.tile_map takes tiles and scalars, found {value.type}")
        last = self.body.block.last_op
        if not isinstance(last, TileYieldOp) or [v.type for v in last.values] != [result.element_type]:
            raise VerifyException(f"rock.tile_map: the region must end with rock.tile_yield of {result.element_type}")


def _scalar(type_: Attribute) -> Attribute:
    return type_.element_type if isinstance(type_, TileType) else type_


@irdl_op_definition
class TileYieldOp(IRDLOperation):
    """Ends the region of `rock.tile_map` with the element of the result, that of `rock.tile_if_any` with its tiles."""

    name = "rock.tile_yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, *values: SSAValue) -> None:
        super().__init__(operands=[list(values)])

    @property
    def value(self) -> SSAValue:
        """The one value that ends a `rock.tile_map`."""
        return self.values[0]


@irdl_op_definition
class TileMaskOp(IRDLOperation):
    """Keep the scores of kept keys, make the others minus infinity.

    The key of an element is `base + sum of strides[d] * (coordinate d)`; it is kept when it is at most `upper` and,
    if given, at least `lower` (i32 tiles, one value a query row, extents of 1 repeat).
    """

    name = "rock.tile_mask"
    scores = operand_def(TileType)
    base = operand_def(IndexType)
    upper = operand_def(TileType)
    lower = opt_operand_def(TileType)
    strides = prop_def(DenseArrayBase[I64])
    result = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = (
        "$scores `keys` $base `strides` $strides `upper` $upper (`lower` $lower^ `:` type($lower))? attr-dict `:` "
        "type($scores) `,` type($upper) `->` type($result)"
    )

    def __init__(
        self,
        scores: SSAValue,
        base: SSAValue,
        strides: Sequence[int],
        upper: SSAValue,
        lower: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[scores, base, upper, lower],
            properties={"strides": DenseArrayBase.from_list(i64, list(strides))},
            result_types=[scores.type],
        )

    def verify_(self) -> None:
        scores = tile_of(self.scores)
        if self.result.type != scores or not isinstance(scores.element_type, AnyFloat):
            raise VerifyException(f"rock.tile_mask works on a tile of floats, found {scores} -> {self.result.type}")
        _expect_rank("strides", len(self.strides), scores)
        for bound in (self.upper, self.lower):
            if bound is not None:
                if tile_of(bound).element_type != i32:
                    raise VerifyException(f"rock.tile_mask: a bound is a tile of i32, found {bound.type}")
                _expect_broadcast(tile_of(bound), scores)


@irdl_op_definition
class SchedBarrierOp(IRDLOperation):
    """The compiler moves no instruction across: what is loaded before it stays in flight behind it."""

    name = "rock.sched_barrier"
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class TileConvertLayoutOp(IRDLOperation):
    """The same tile with its registers in another order.  Data that must move between lanes goes through LDS."""

    name = "rock.tile_convert_layout"
    value = operand_def(TileType)
    result = result_def(TileType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `->` type($result)"

    def __init__(self, value: SSAValue, layout: Layout) -> None:
        super().__init__(operands=[value], result_types=[TileType.of(tile_of(value).element_type, layout)])

    def verify_(self) -> None:
        source, target = tile_of(self.value), tile_of(self.result)
        if source.get_shape() != target.get_shape() or source.element_type != target.element_type:
            raise VerifyException(f"rock.tile_convert_layout: {source} and {target} are not the same tile")
        kind = source.layout.conversion(target.layout).kind
        if kind not in ("none", "registers") and source.layout.exchange(target.layout) is None:
            raise VerifyException(f"rock.tile_convert_layout: elements would move between {kind}; go through LDS")


@irdl_op_definition
class LdsAllocOp(LdsBufferOp):
    """A buffer in LDS (memory space 3), one for each workgroup; its contents are unwritten at the start."""

    name = "rock.lds_alloc"


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All waves of the workgroup meet; LDS writes before it are seen after it."""

    name = "rock.barrier"
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


TILE_OPS = [
    WorkgroupIdOp,
    StageOp,
    TileFillOp,
    TileIndexOp,
    TileLoadOp,
    TileStoreOp,
    TileMmaOp,
    TileMapOp,
    TileYieldOp,
    TileMaskOp,
    SchedBarrierOp,
    TileConvertLayoutOp,
    LdsAllocOp,
    BarrierOp,
]
