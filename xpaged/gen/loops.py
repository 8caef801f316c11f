"""Loops over memrefs as `linalg.generic`: what the functions for the host are written in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    i32,
    i64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, IndexOp
from xdsl.dialects.linalg.ops import YieldOp as LinalgYieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from xpaged.lowering.kernel import HOST

Body = Callable[["Scalars", Sequence[SSAValue]], SSAValue]
"""What a loop computes for one element: gets the scalars of the operands, those of the output last."""


class Scalars:
    """Builds operations on scalars, one call each."""

    def __init__(self, block: Block) -> None:
        self.builder = Builder(InsertPoint.at_end(block))

    def __call__(self, op: Operation) -> SSAValue:
        return self.builder.insert(op).results[0]

    def number(self, value: float, type_: AnyFloat) -> SSAValue:
        """A float constant."""
        return self(arith.ConstantOp(FloatAttr(value, type_)))

    def integer(self, value: int, type_: IntegerType | IndexType = i32) -> SSAValue:
        """An integer constant."""
        return self(arith.ConstantOp(IntegerAttr(value, type_)))

    def position(self, dim: int, type_: IntegerType = i32) -> SSAValue:
        """The coordinate of the loop along `dim`."""
        return self(arith.IndexCastOp(self(IndexOp(dim)), type_))

    def compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """A comparison of integers (`sle`, ...) or floats (`oeq`, ...) by the type of `a`."""
        return self(arith.CmpfOp(a, b, predicate) if isinstance(a.type, AnyFloat) else arith.CmpiOp(a, b, predicate))

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a` where the condition holds, else `b`."""
        return self(arith.SelectOp(condition, a, b))

    def as_float(self, value: SSAValue, type_: AnyFloat) -> SSAValue:
        """A number of any type as a float of `type_`, rounded once."""
        if value.type == type_:
            return value
        if isinstance(value.type, AnyFloat):
            widen = value.type.size < type_.size
            return self(arith.ExtFOp(value, type_) if widen else arith.TruncFOp(value, type_))
        return self(arith.SIToFPOp(value, type_))

    def rounded(self, value: SSAValue, type_: AnyFloat) -> SSAValue:
        """`value`, rounded to a narrower float type and back."""
        return self.as_float(self.as_float(value, type_), value.type) if isinstance(value.type, AnyFloat) else value


class MaskRules:
    """The arithmetic of `xpaged.lowering.masks` as i32 operations."""

    def __init__(self, scalars: Scalars) -> None:
        self.scalars = scalars

    def const(self, value: int) -> SSAValue:
        """A number."""
        return self.scalars.integer(value)

    def min(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The smaller."""
        return self.scalars(arith.MinSIOp(a, b))

    def max(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The larger."""
        return self.scalars(arith.MaxSIOp(a, b))

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The sum."""
        return self.scalars(arith.AddiOp(a, b))


@dataclass(frozen=True)
class Operand:
    """A memref in a loop: element `map(coordinates of the loop)` of it."""

    value: SSAValue
    map: AffineMap


def at(value: SSAValue, rank: int, coordinates: Callable[[Sequence[AffineExpr]], Sequence[AffineExpr]]) -> Operand:
    """An operand of a loop of `rank` dimensions at coordinates that are computed from the loop's."""
    dims = [AffineExpr.dimension(i) for i in range(rank)]
    return Operand(value, AffineMap(rank, 0, tuple(coordinates(dims))))


class HostFunction:
    """A function for the host, marked `rock.host`, that is being built."""

    def __init__(self, name: str, arguments: Sequence[tuple[str, MemRefType[Attribute]]]) -> None:
        block = Block(arg_types=[type_ for _, type_ in arguments])
        for arg, (hint, _) in zip(block.args, arguments, strict=True):
            arg.name_hint = hint
        self.name = name
        self.arguments = {hint: arg for (hint, _), arg in zip(arguments, block.args, strict=True)}
        self.scalars = Scalars(block)
        self.block = block

    def finish(self) -> FuncOp:
        """The function, with its return."""
        self.scalars.builder.insert(ReturnOp())
        type_ = FunctionType.from_lists([arg.type for arg in self.block.args], [])
        function = FuncOp(self.name, type_, Region(self.block))
        function.attributes[HOST] = UnitAttr()
        return function

    def alloc(self, hint: str, element: Attribute, shape: Sequence[int]) -> SSAValue:
        """New memory."""
        result = self.scalars(memref.AllocOp.get(element, shape=shape))
        result.name_hint = hint
        return result

    def view(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """A flat memref as one of `shape`."""
        assert isinstance(value.type, MemRefType)
        dims = ArrayAttr([ArrayAttr([IntegerAttr(i, i64) for i in range(len(shape))])])
        expanded = memref.ExpandShapeOp(
            operands=[value, []],
            result_types=[MemRefType(value.type.element_type, shape)],
            properties={"reassociation": dims, "static_output_shape": DenseArrayBase.from_list(i64, list(shape))},
        )
        result = self.scalars(expanded)
        result.name_hint = value.name_hint
        return result

    def loop(self, inputs: Sequence[Operand], output: Operand, body: Body, *, reduced: Sequence[int] = ()) -> None:
        """For all coordinates, the element of `output` becomes what `body` gives; `reduced` are the dimensions that
        it is accumulated along."""
        operands = [*inputs, output]
        block = Block(arg_types=[x.value.type.element_type for x in operands])  # pyright: ignore
        scalars = Scalars(block)
        result = body(scalars, block.args)
        scalars.builder.insert(LinalgYieldOp(result))
        kinds = [
            IteratorTypeAttr(IteratorType.REDUCTION if d in reduced else IteratorType.PARALLEL)
            for d in range(output.map.num_dims)
        ]
        maps = [AffineMapAttr(x.map) for x in operands]
        generic = GenericOp([x.value for x in inputs], [output.value], Region(block), maps, kinds)
        self.scalars.builder.insert(generic)

    def fill(self, value: SSAValue, number: float | int) -> None:
        """Sets every element to a constant."""
        type_ = value.type
        assert isinstance(type_, MemRefType)
        rank = len(type_.get_shape())
        element = type_.element_type

        def constant(s: Scalars, _: Sequence[SSAValue]) -> SSAValue:
            if isinstance(element, AnyFloat):
                return s.number(number, element)
            assert isinstance(element, IntegerType)
            return s.integer(int(number), element)

        self.loop([], at(value, rank, lambda dims: dims), constant)

    def call(self, callee: str, *arguments: SSAValue) -> None:
        """Calls a function without results."""
        self.scalars.builder.insert(CallOp(callee, arguments, []))


def declared(name: str, *arguments: Attribute) -> FuncOp:
    """A function of the run-time library: only its type is known."""
    function = FuncOp.external(name, arguments, [])
    function.attributes[HOST] = UnitAttr()
    return function
