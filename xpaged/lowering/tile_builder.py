"""Building tile programs: the emitter, elementwise tile operations and loops that every lowering to tiles uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

from xdsl.builder import Builder as OpBuilder
from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType, UnitAttr, f32, i32
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from xpaged.dialects.hip import UNROLL
from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock.tile_reductions import TileIfAnyOp
from xpaged.dialects.rock.tile_type import TileType
from xpaged.dialects.rock.views import make_transform
from xpaged.ir.layout import Layout
from xpaged.ir.transform_map import Builder
from xpaged.lowering.geometry import shape_of

LOWEST = -3.4028234663852886e38
"""The lowest finite f32: a maximum that starts here can be subtracted from minus infinity."""
LOG2_E = 1.4426950408889634
LN_2 = log(2.0)


def exp2_difference(emit: Callable[..., SSAValue], a: SSAValue, b: SSAValue) -> SSAValue:
    """2^(a - b), as the body of `TileBuilder.map`."""
    return emit(math.Exp2Op(emit(arith.SubfOp(a, b))))


def product(emit: Callable[..., SSAValue], a: SSAValue, b: SSAValue) -> SSAValue:
    """a * b, as the body of `TileBuilder.map`."""
    return emit(arith.MulfOp(a, b))


def inverse(emit: Callable[..., SSAValue], a: SSAValue) -> SSAValue:
    """1 / a, and 0 for 0 (the sum over no keys), as the body of `TileBuilder.map`."""
    zero = emit(arith.ConstantOp(FloatAttr(0.0, f32)))
    one = emit(arith.ConstantOp(FloatAttr(1.0, f32)))
    empty = emit(arith.CmpfOp(a, zero, "oeq"))
    return emit(arith.SelectOp(empty, zero, emit(arith.DivfOp(one, a))))


class Arithmetic:
    """The mask rules as i32 operations (see `xpaged.lowering.masks`)."""

    def __init__(self, emit: Callable[..., SSAValue]) -> None:
        self.emit = emit

    def const(self, value: int) -> SSAValue:
        return self.emit(arith.ConstantOp(IntegerAttr(value, i32)))

    def min(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.MinSIOp(a, b))

    def max(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.MaxSIOp(a, b))

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.AddiOp(a, b))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit(arith.MuliOp(a, b))


class TileBuilder:
    """Emits the tile program of `op` in front of it; everything has the location of `op`."""

    def __init__(self, op: Operation) -> None:
        self.op = op
        self.builder = OpBuilder(InsertPoint.before(op))

    def emit(self, op: Operation, hint: str | None = None) -> SSAValue:
        """Insert an operation, with the location of the attention, and return its first result."""
        op.location = self.op.location
        self.builder.insert(op)
        if hint is not None:
            op.results[0].name_hint = hint
        return op.results[0] if op.results else None  # pyright: ignore[reportReturnType]

    def index(self, value: int) -> SSAValue:
        """A constant of type index."""
        return self.emit(arith.ConstantOp(IntegerAttr(value, IndexType())))

    def number(self, value: float, type_: AnyFloat = f32) -> SSAValue:
        """A float constant."""
        return self.emit(arith.ConstantOp(FloatAttr(value, type_)))

    def stage(self, title: str) -> None:
        """Name what follows, for the reader of the text."""
        self.emit(tile.StageOp(title))

    def view(self, value: SSAValue, map_: Builder, hint: str | None = None) -> SSAValue:
        """`value` seen through one more transform map."""
        result = make_transform(self.builder, value, map_.build(), hint)
        if isinstance(result.owner, Operation):
            result.owner.location = self.op.location
        return result

    def map(
        self,
        inputs: Sequence[SSAValue],
        element: Attribute,
        body: Callable[..., SSAValue],
        hint: str | None = None,
        layout: Layout | None = None,
    ) -> SSAValue:
        """An elementwise operation; `body` gets an emitter and the scalars.  The layout is that of the first input."""
        types = [v.type.element_type if isinstance(v.type, TileType) else v.type for v in inputs]
        block = Block(arg_types=types)
        inner = OpBuilder(InsertPoint.at_end(block))

        def emit(op: Operation) -> SSAValue:
            op.location = self.op.location
            inner.insert(op)
            return op.results[0]

        result = body(emit, *block.args)
        inner.insert(tile.TileYieldOp(result))
        layout = layout or tile.tile_of(inputs[0]).layout
        return self.emit(tile.TileMapOp(inputs, Region(block), TileType.of(element, layout)), hint)

    def fill(self, value: float, layout: Layout, hint: str, element: Attribute = f32) -> SSAValue:
        """A tile of `element` that holds `value` everywhere."""
        if isinstance(element, IntegerType):
            scalar = self.emit(arith.ConstantOp(IntegerAttr(int(value), element)))
        else:
            assert isinstance(element, AnyFloat)
            scalar = self.number(value, element)
        return self.emit(tile.TileFillOp(scalar, layout), hint)

    def cut(
        self,
        value: SSAValue,
        names: Sequence[str],
        cuts: dict[str, tuple[tuple[str, ...], tuple[int, ...]]],
        order: Sequence[str],
        hint: str,
    ) -> SSAValue:
        """Unmerge dims into tiles and put them in order; a dim that `order` names and nothing provides has length 1."""
        first = Builder(names, shape_of(value))
        inner: list[str] = []
        for name in names:
            if name in cuts:
                upper, lengths = cuts[name]
                first = first.unmerge(upper, name, lengths)
                inner += upper
            else:
                first = first.pass_through(name)
                inner.append(name)
        value = self.view(value, first, hint)
        second = Builder(inner, shape_of(value))
        for name in order:
            second = second.pass_through(name) if name in inner else second.add_dim(name, 1)
        return self.view(value, second, hint)

    def loop(
        self,
        name: str,
        count: SSAValue,
        bound: int,
        carried: Sequence[SSAValue],
        body: Callable[..., Sequence[SSAValue]],
        start: SSAValue | None = None,
        unroll: bool = False,
    ) -> Sequence[SSAValue]:
        """A loop from `start` (0) to `count`, at most `bound`, with carried values, which `body` gets after the trip's
        number. With `unroll` the trips' loads do not wait for each other."""
        start, one = start or self.index(0), self.index(1)
        block = Block(arg_types=[IndexType(), *(v.type for v in carried)])
        block.args[0].name_hint = name
        for argument, value in zip(block.args[1:], carried, strict=True):
            argument.name_hint = value.name_hint
        loop = scf.ForOp(start, count, one, list(carried), Region(block))
        loop.attributes["rock.trip_bound"] = IntegerAttr(bound, i32)
        if unroll:
            loop.attributes[UNROLL] = UnitAttr()
        self.emit(loop)
        outer, self.builder = self.builder, OpBuilder(InsertPoint.at_end(block))
        results = body(block.args[0], *block.args[1:])
        self.emit(scf.YieldOp(*results))
        self.builder = outer
        for result, value in zip(loop.results, carried, strict=True):
            result.name_hint = value.name_hint
        return loop.results

    def if_any(
        self,
        condition: SSAValue,
        carried: Sequence[SSAValue],
        body: Callable[..., Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """What `body` makes of `carried` in the waves where `condition` holds for any element, else `carried`."""
        block = Block(arg_types=[v.type for v in carried])
        op = TileIfAnyOp(condition, carried, Region(block))
        self.emit(op)
        outer, self.builder = self.builder, OpBuilder(InsertPoint.at_end(block))
        self.emit(tile.TileYieldOp(*body(*block.args)))
        self.builder = outer
        for result, argument, value in zip(op.res, block.args, carried, strict=True):
            argument.name_hint = result.name_hint = value.name_hint
        return op.res

    def narrowed(self, value: SSAValue, element: Attribute, hint: str, *, nan: bool = True) -> SSAValue:
        """A tile of f32 rounded once to `element`; without `nan` it does not matter what becomes of NaN."""
        if element == f32:
            return value
        assert isinstance(element, AnyFloat)

        def body(emit: Callable[..., SSAValue], a: SSAValue) -> SSAValue:
            op = arith.TruncFOp(a, element)
            if not nan:
                op.attributes["fastmath"] = arith.FastMathFlagsAttr([FastMathFlag.NO_NANS])
            return emit(op)

        return self.map([value], element, body, hint)

    def widened(self, value: SSAValue) -> SSAValue:
        """A tile of floats as one of f32."""
        if tile.tile_of(value).element_type == f32:
            return value
        return self.map([value], f32, lambda emit, a: emit(arith.ExtFOp(a, f32)), value.name_hint)
