"""Arithmetic of one lane: fills, elementwise regions, masks, reductions, layout changes and tile products."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, VectorType
from xdsl.ir import Operation, SSAValue

from xpaged.arch.table import MatrixInstruction
from xpaged.dialects import hip
from xpaged.dialects.rock.tile_ops import TileMapOp, TileMmaOp, TileYieldOp, tile_of
from xpaged.dialects.rock.tile_type import TileType
from xpaged.errors import XpagedError
from xpaged.ir.index_expr import IndexExpr
from xpaged.ir.layout import LayoutError, MmaLoop, plan_mma
from xpaged.lowering.emitter import Emitter
from xpaged.lowering.lane_tiles import (
    IndexTile,
    LaneTile,
    RegsTile,
    ScalarTile,
    cut,
    join,
    new_registers,
    register_loops,
    splat,
    vector_size,
)

NEGATIVE_INFINITY = float("-inf")


def fill(emitter: Emitter, tile: TileType, value: SSAValue, hint: str | None) -> LaneTile:
    """A tile whose elements are all `value`."""
    if tile.layout.registers == 1:
        return ScalarTile(tile, value)
    held = new_registers(emitter, tile, hint)
    size = vector_size(tile)
    vector = splat(emitter, value, size)
    with register_loops(emitter, tile.layout, skip=1 if size > 1 else 0) as (_, number):
        held.put(emitter, vector, number)
    return held


# ---- elementwise


def map_tile(
    emitter: Emitter, op: TileMapOp, inputs: Sequence[LaneTile | SSAValue], target: RegsTile | None
) -> LaneTile:
    """The elementwise region on vectors where every input has the same vectors or one value for all of them, else
    element by element.  `target` is an array that may be overwritten."""
    tile = tile_of(op.result)
    if tile.layout.registers == 1:
        zeros = [IndexExpr.const(0)] * len(tile.shape)
        value = _region(emitter, op, [_scalar(emitter, i, zeros) for i in inputs], 1)
        value.name_hint = value.name_hint or op.result.name_hint
        return ScalarTile(tile, value)
    size = vector_size(tile)
    wide = size > 1 and _vectorizes(op, tile, inputs, size)
    held = target or new_registers(emitter, tile, op.result.name_hint)
    if op.result.name_hint and held.regs.name_hint is None:
        held.regs.name_hint = op.result.name_hint
    with register_loops(emitter, tile.layout, skip=1 if wide else 0) as (at, number):
        values = [_wide(emitter, i, at, size) if wide else _scalar(emitter, i, at) for i in inputs]
        held.put(emitter, _region(emitter, op, values, size if wide else 1), number)
    return held


def _scalar(emitter: Emitter, value: LaneTile | SSAValue, at: Sequence[IndexExpr]) -> SSAValue:
    return value if isinstance(value, SSAValue) else value.element(emitter, _kept(value.tile, at))


def _kept(tile: TileType, at: Sequence[IndexExpr]) -> list[IndexExpr]:
    """Coordinates in a tile that repeats along its extents of 1."""
    return [IndexExpr.const(0) if n == 1 else a for n, a in zip(tile.get_shape(), at, strict=True)]


def _wide(emitter: Emitter, value: LaneTile | SSAValue, at: Sequence[IndexExpr], size: int) -> SSAValue:
    if isinstance(value, SSAValue):
        return splat(emitter, value, size)
    kept = _kept(value.tile, at)
    if isinstance(value, RegsTile) and _same_vectors(value, at):
        return value.vector(emitter, value.number(kept))
    return splat(emitter, value.element(emitter, kept), size)


def _same_vectors(value: RegsTile, at: Sequence[IndexExpr]) -> bool:
    digit = value.tile.layout.regs[0]
    return value.tile.get_shape()[digit.dim] != 1 and vector_size(value.tile) > 1 and len(at) > digit.dim


def _vectorizes(op: TileMapOp, tile: TileType, inputs: Sequence[LaneTile | SSAValue], size: int) -> bool:
    first = tile.layout.regs[0]
    for value in inputs:
        if isinstance(value, SSAValue) or isinstance(value, ScalarTile):
            continue
        if isinstance(value, IndexTile):
            return False
        extents = value.tile.get_shape()
        if extents[first.dim] == 1:
            if vector_size(value.tile) != 1:
                return False  # its vectors run along another coordinate
            continue
        if vector_size(value.tile) != size or value.tile.layout.regs[0] != first:
            return False
    return all(_elementwise_on_vectors(o) for o in op.body.block.ops)


def _elementwise_on_vectors(op: Operation) -> bool:
    if isinstance(op, TileYieldOp | arith.ConstantOp | math.Exp2Op):
        return True
    # Comparisons and what depends on them stay scalar: a vector of i1 is not a value of this level.
    return op.name.startswith("arith.") and all(isinstance(v.type, AnyFloat) for v in (*op.operands, *op.results))


def _region(emitter: Emitter, op: TileMapOp, values: Sequence[SSAValue], size: int) -> SSAValue:
    """Emit the region of a map on given values (vectors of `size`, or scalars)."""
    known: dict[SSAValue, SSAValue] = dict(zip(op.body.block.args, values, strict=True))
    for inner in op.body.block.ops:
        if isinstance(inner, TileYieldOp):
            return known[inner.value]
        if isinstance(inner, arith.ConstantOp):
            known[inner.result] = _constant(emitter, inner, size)
            continue
        operands = [known[o] for o in inner.operands]
        if isinstance(inner, math.Exp2Op):
            new: Operation = hip.Exp2Op(operands[0])
        else:
            types = [r.type if size == 1 else VectorType(r.type, [size]) for r in inner.results]  # pyright: ignore
            new = type(inner).create(
                operands=operands, properties=inner.properties, attributes=inner.attributes, result_types=types
            )
        result = emitter.value(new, hint=inner.results[0].name_hint)
        known[inner.results[0]] = result
    raise XpagedError("a region without rock.tile_yield", at=op)


def _constant(emitter: Emitter, op: arith.ConstantOp, size: int) -> SSAValue:
    value = op.value
    if isinstance(value, DenseIntOrFPElementsAttr):
        raise XpagedError("a region of a tile works on scalars", at=op)
    assert isinstance(value, IntegerAttr | FloatAttr)
    return splat(emitter, emitter.constant(value.value.data, op.result.type), size)


# ---- masks


def mask(
    emitter: Emitter, scores: LaneTile, keys: IndexTile, upper: LaneTile | None, lower: LaneTile | None
) -> LaneTile:
    """Minus infinity where the key of an element lies outside its row's bounds; changes a register array in place."""
    tile = scores.tile
    infinity = emitter.constant(NEGATIVE_INFINITY, tile.element_type)

    def one(at: Sequence[IndexExpr], score: SSAValue) -> SSAValue:
        key = keys.element(emitter, at)
        kept: SSAValue | None = None
        for bound, predicate in ((upper, "sle"), (lower, "sge")):
            if bound is not None:
                limit = bound.element(emitter, _kept(bound.tile, at))
                kept = emitter.both(kept, emitter.value(arith.CmpiOp(key, limit, predicate)))
        assert kept is not None
        return emitter.value(arith.SelectOp(kept, score, infinity))

    if not isinstance(scores, RegsTile):
        zeros = [IndexExpr.const(0)] * len(tile.shape)
        return ScalarTile(tile, one(zeros, scores.element(emitter, zeros)))
    with register_loops(emitter, tile.layout) as (at, number):
        scores.put(emitter, one(at, scores.element(emitter, at)), number)
    return scores


# ---- reductions


def reduce_tile(
    emitter: Emitter, value: LaneTile, kind: str, dim: int, result: TileType, hint: str | None, *, between_lanes: bool
) -> LaneTile:
    """Maximum or sum along a coordinate: first over the registers of a lane, then, if asked, between lanes."""

    def combine(a: SSAValue, b: SSAValue) -> SSAValue:
        return emitter.value(arith.MaxnumfOp(a, b) if kind == "max" else arith.AddfOp(a, b))

    def over_registers(at: Sequence[IndexExpr], lanes: int) -> SSAValue:
        """The reduction of the elements that differ from `at` along `dim`, on vectors of `lanes`."""
        if not isinstance(value, RegsTile):
            return value.element(emitter, at)
        held, layout = value, value.tile.layout
        along = [d for d in layout.regs if d.dim == dim]
        in_vector = lanes == 1 and vector_size(value.tile) > 1 and layout.regs[0].dim == dim
        outer = [d for d in along if not (in_vector and d is layout.regs[0])]

        def piece(steps: Sequence[IndexExpr]) -> SSAValue:
            there = list(at)
            for digit, step in zip(outer, steps, strict=True):
                there[dim] = there[dim] + step * digit.stride
            if lanes > 1:
                return held.vector(emitter, held.number(there))
            if not in_vector:
                return held.element(emitter, there)
            vector = held.vector(emitter, held.number(there))
            total = cut(emitter, vector, 0, 1)
            for i in range(1, layout.regs[0].size):
                total = combine(total, cut(emitter, vector, i, 1))
            return total

        total: SSAValue | None = None
        for steps in product(*(range(d.size) for d in outer)):
            part = piece([IndexExpr.const(s) for s in steps])
            total = part if total is None else combine(total, part)
        assert total is not None
        return total

    def over_lanes(total: SSAValue) -> SSAValue:
        weight = 1
        for digit in value.tile.layout.lane if between_lanes else ():
            if digit.dim == dim:
                if digit.size & (digit.size - 1) or weight & (weight - 1):
                    raise XpagedError(f"a reduction over {digit.size} lanes: only powers of two can be exchanged")
                step = weight
                while step < weight * digit.size:
                    total = combine(total, emitter.value(hip.ExchangeOp(total, step)))
                    step *= 2
            weight *= digit.size
        return total

    zeros = [IndexExpr.const(0)] * len(result.shape)
    if result.layout.registers == 1:
        reduced = over_lanes(over_registers(zeros, 1))
        reduced.name_hint = hint
        return ScalarTile(result, reduced)
    assert isinstance(value, RegsTile)
    exchanges = between_lanes and any(d.dim == dim for d in value.tile.layout.lane)
    size = vector_size(result)
    wide = size > 1 and not exchanges and value.tile.layout.regs[0] == result.layout.regs[0]
    held = new_registers(emitter, result, hint)
    with register_loops(emitter, result.layout, skip=1 if wide else 0) as (at, number):
        held.put(emitter, over_lanes(over_registers(at, size if wide else 1)), number)
    return held


def any_of(emitter: Emitter, value: LaneTile) -> SSAValue:
    """Whether any element of a tile of i1 that the lane holds is true."""
    zeros = [IndexExpr.const(0)] * len(value.tile.shape)
    if not isinstance(value, RegsTile):
        return value.element(emitter, zeros)
    total: SSAValue | None = None
    for steps in product(*(range(d.size) for d in value.tile.layout.regs)):
        at = list(zeros)
        for digit, step in zip(value.tile.layout.regs, steps, strict=True):
            at[digit.dim] = at[digit.dim] + step * digit.stride
        one = value.element(emitter, at)
        total = one if total is None else emitter.value(arith.OrIOp(total, one))
    assert total is not None
    return total


# ---- layouts


def convert_layout(emitter: Emitter, value: LaneTile, result: TileType, hint: str | None) -> LaneTile:
    """The same elements in other registers of the same lane, and of its partner where `result` has copies."""
    if value.tile == result or not isinstance(value, RegsTile):
        return value
    if value.tile.layout.conversion(result.layout).kind == "lanes":
        return _gathered(emitter, value, result, hint)
    held = new_registers(emitter, result, hint)
    size = vector_size(result)
    first = result.layout.regs[0]
    with register_loops(emitter, result.layout, skip=1 if size > 1 else 0) as (at, number):
        elements: list[SSAValue] = []
        for i in range(size):
            there = list(at)
            if size > 1:
                there[first.dim] = there[first.dim] + i * first.stride
            elements.append(value.element(emitter, there))
        held.put(emitter, join(emitter, elements), number)
    return held


def _gathered(emitter: Emitter, value: RegsTile, result: TileType, hint: str | None) -> LaneTile:
    """Both of two lanes get what either holds (see `Layout.exchange`)."""
    weight = value.tile.layout.exchange(result.layout)
    if weight is None:
        raise XpagedError(f"lanes cannot exchange parts of a tile: {value.tile.layout} to {result.layout}")
    held = new_registers(emitter, result, hint)
    upper = emitter.all_of([(emitter.lane // weight % 2, 1, 2)], "upper_half")
    assert upper is not None
    with register_loops(emitter, result.layout, skip=1) as (_, number):
        mine = value.vector(emitter, number // 2)
        other = emitter.value(hip.ExchangeOp(mine, weight))
        low, high = (emitter.value(arith.SelectOp(upper, *pair)) for pair in ((other, mine), (mine, other)))
        held.put(emitter, join(emitter, [low, high]), number)
    return held


# ---- products


def multiply(
    emitter: Emitter, instruction: MatrixInstruction, a: RegsTile, b: RegsTile, c: RegsTile, op: TileMmaOp
) -> None:
    """C += A B, as loops over matrix instructions."""
    try:
        loops = plan_mma(instruction, a.tile.layout, b.tile.layout, c.tile.layout)
    except LayoutError as error:
        raise XpagedError(f"the layouts of a product do not fit its instruction: {error}", at=op) from error

    def operand(tile: RegsTile, number: IndexExpr) -> SSAValue:
        size = vector_size(tile.tile)
        if size < instruction.elements:
            starts = range(0, instruction.elements, size)
            return join(emitter, [tile.vector(emitter, number + start) for start in starts])
        within = (number % size).constant
        assert within is not None
        return cut(emitter, tile.vector(emitter, number), within, instruction.elements)

    def step(todo: Sequence[MmaLoop], na: IndexExpr, nb: IndexExpr, nc: IndexExpr) -> None:
        if not todo:
            value = hip.MmaOp(instruction.name, operand(a, na), operand(b, nb), c.vector(emitter, nc))
            c.put(emitter, emitter.value(value), nc)
            return
        loop = todo[0]
        # Parts of one vector are told apart by name (.lo, .hi), so their loop is written out.
        if loop.a % vector_size(a.tile) or loop.b % vector_size(b.tile):
            for i in range(loop.size):
                step(todo[1:], na + i * loop.a, nb + i * loop.b, nc + i * loop.c)
            return
        with emitter.loop("mnk"[("rows", "columns", "reduction").index(loop.coordinate)], loop.size, unroll=True) as (
            i,
            _,
        ):
            step(todo[1:], na + i * loop.a, nb + i * loop.b, nc + i * loop.c)

    zero = IndexExpr.const(0)
    step(loops, zero, zero, zero)
