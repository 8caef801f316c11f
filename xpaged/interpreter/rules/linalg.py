"""linalg: `linalg.generic` with any indexing maps, whole arrays at a time along its parallel dimensions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import MemRefType, ShapedType
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from xpaged.errors import XpagedError
from xpaged.interpreter.evaluator import Compiler, Machine, OpCode, Value, rule
from xpaged.interpreter.numerics import Array, dtype_of, is_float
from xpaged.interpreter.views import materialize


def _extents(op: linalg.GenericOp) -> list[int]:
    """The length of each iteration dimension, from the operands that it indexes by itself."""
    extents: dict[int, int] = {}
    for operand, attr in zip(op.operands, op.indexing_maps, strict=True):
        assert isinstance(operand.type, ShapedType)
        for length, expr in zip(operand.type.get_shape(), attr.data.results, strict=True):
            if isinstance(expr, AffineDimExpr):
                extents.setdefault(expr.position, length)
    count = len(op.iterator_types)
    if sorted(extents) != list(range(count)):
        raise XpagedError("linalg.generic: the length of an iteration dimension does not follow from the operands")
    return [extents[d] for d in range(count)]


def _take(x: Any, map: AffineMap, dims: Sequence[Array]) -> Any:
    """`x` at the coordinates that `map` gives for iteration coordinates `dims` (each along its own axis)."""
    results = map.results
    used = [e.position for e in results if isinstance(e, AffineDimExpr)]
    whole = all(dims[d].size == n for d, n in zip(used, x.shape, strict=False))
    if len(used) == len(results) == len(set(used)) and whole:
        x = x.transpose(*np.argsort(used)) if used else x
        shape = [1] * len(dims)
        for d in used:
            shape[d] = dims[d].size
        return x.reshape(*shape) if shape else x.reshape(())
    return x[tuple(_coordinate(e, dims) for e in results)]


def _coordinate(expr: AffineExpr, dims: Sequence[Array]) -> Any:
    if isinstance(expr, AffineDimExpr):
        return dims[expr.position]
    if isinstance(expr, AffineConstantExpr):
        return expr.value
    return expr.eval(dims, ())  # pyright: ignore[reportArgumentType]: its operators work on arrays as they do on numbers


@rule(linalg.GenericOp)
def generic(op: linalg.GenericOp, b: Compiler) -> OpCode:
    body = b.region(op.body)
    extents = _extents(op)
    maps = [attr.data for attr in op.indexing_maps]
    inputs, outputs = len(op.inputs), len(op.outputs)
    types = [b.dtype(v.type) for v in op.operands]
    reductions = [d for d, kind in enumerate(op.iterator_types) if kind.data is not IteratorType.PARALLEL]
    parallel = [d for d in range(len(extents)) if d not in reductions]
    for map in maps[inputs:]:
        dims = [e.position for e in map.results if isinstance(e, AffineDimExpr)]
        if sorted(dims) != parallel:
            raise XpagedError("linalg.generic: an output must be indexed by all parallel dimensions, and only by them")

    def run(m: Machine, *operands: Value) -> Value:
        arrays = [_widened(materialize(m.memory, x), t) for x, t in zip(operands, types, strict=True)]
        results = [
            _take(x, map, _axes(extents, reductions, None))
            for x, map in zip(arrays[inputs:], maps[inputs:], strict=True)
        ]
        for at in np.ndindex(*(extents[d] for d in reductions)):
            dims = _axes(extents, reductions, at)
            taken = [_take(x, map, dims) for x, map in zip(arrays[:inputs], maps[:inputs], strict=True)]
            before, m.iteration = m.iteration, dims
            results = list(body(m, [*taken, *results]))
            m.iteration = before
        shape = [1 if d in reductions else n for d, n in enumerate(extents)]
        finished = [_placed(x, shape, map) for x, map in zip(results, maps[inputs:], strict=True)]
        if op.results:
            return finished[0] if outputs == 1 else tuple(finished)
        for target, value in zip(operands[inputs:], finished, strict=True):
            target.write_all(m.memory, value.astype(target.dtype, copy=False))
        return None

    return run


def _widened(x: Array, dtype: np.dtype[Any]) -> Array:
    return x.astype(dtype) if is_float(x.dtype) and dtype == np.float64 else x


def _axes(extents: Sequence[int], reductions: Sequence[int], at: Sequence[int] | None) -> list[Array]:
    """The coordinates of each iteration dimension along an axis of its own; reductions stand at one point."""
    points = dict(zip(reductions, at or [0] * len(reductions), strict=True))
    ranges = [np.array([points[d]]) if d in points else np.arange(n) for d, n in enumerate(extents)]
    return [r.reshape([-1 if i == d else 1 for i in range(len(extents))]) for d, r in enumerate(ranges)]


def _placed(x: Any, shape: Sequence[int], map: AffineMap) -> Any:
    """A result over the iteration space as the output that `map` indexes."""
    order = [e.position for e in map.results if isinstance(e, AffineDimExpr)]
    whole = np.broadcast_to(x, shape) if tuple(x.shape) != tuple(shape) else x
    kept = [d for d in range(len(shape)) if d in order]
    whole = whole.reshape(*(shape[d] for d in kept)) if len(kept) != len(shape) else whole
    return whole.transpose(*(kept.index(d) for d in order)) if order else whole


@rule(linalg.IndexOp)
def index(op: linalg.IndexOp, b: Compiler) -> OpCode:
    dim = op.dim.value.data

    def run(m: Machine) -> Array:
        return m.iteration[dim]

    return run


@rule(linalg.FillOp)
def fill(op: linalg.FillOp, b: Compiler) -> OpCode:
    type = op.outputs[0].type
    assert isinstance(type, ShapedType)
    shape = type.get_shape()
    dtype = b.dtype(op.outputs[0].type)
    storage = dtype_of(op.outputs[0].type)

    def run(m: Machine, value: Array, target: Value) -> Value:
        if isinstance(type, MemRefType):
            target.write_all(m.memory, np.broadcast_to(value.astype(storage), shape))
            return None
        return np.broadcast_to(value.astype(dtype), shape)

    return run
