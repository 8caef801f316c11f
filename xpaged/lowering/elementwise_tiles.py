"""Elementwise kernels: a `linalg.generic` outside attention as a grid of workgroups, and as tiles.

At level gridwise its operands are views of one dimension, in the order in which the output lies in memory, padded to
whole workgroups. At level tile a workgroup loads its part of every input, computes, and stores; each lane holds
neighbouring elements, so that an operand that lies as the output does is read and written by whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import func
from xdsl.dialects.builtin import AffineMapAttr, MemRefType, StringAttr
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.dialects.memref import CopyOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap
from xdsl.rewriter import Rewriter

from xpaged.arch import arch_of_function
from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock.score_region import SCORE_OPS
from xpaged.dialects.rock.tile_type import TileType
from xpaged.dialects.rock.views import chain_of, memory_position, step_of
from xpaged.errors import XpagedError
from xpaged.ir.layout import Layout
from xpaged.ir.locations import copy_location
from xpaged.ir.transform_map import Builder
from xpaged.lowering.geometry import shape_of
from xpaged.lowering.kernel import DESCRIPTION, MAX_GRID, block_size, grid_size, set_launch
from xpaged.lowering.lane_access import WIDEST, element_bytes
from xpaged.lowering.tile_builder import TileBuilder

_WAVES = 4
"""Most waves of a workgroup."""


def is_elementwise(op: Operation) -> bool:
    """Whether an operation of a function's body is to become an elementwise kernel."""
    return isinstance(op, GenericOp | CopyOp) and isinstance(op.parent_op(), func.FuncOp)


def to_gridwise(op: Operation) -> None:
    """Put the operands of a `linalg.generic` or `memref.copy` on the grid, and fix the launch of its kernel.

    Raises XpagedError for a `linalg.generic` that is not elementwise.
    """
    generic = _as_generic(op)
    _check(generic)
    function = generic.parent_op()
    assert isinstance(function, func.FuncOp)
    (out,) = generic.outputs
    shape, wave = shape_of(out), arch_of_function(function).wave_size
    elements = prod(shape)
    vector = max(1, WIDEST // max(element_bytes(_element(operand)) for operand in generic.operands))
    waves = min(_WAVES, -(-elements // (wave * vector)))
    group = waves * wave * vector
    grid = -(-elements // group)
    if grid > MAX_GRID:
        raise XpagedError(
            "an elementwise kernel has more workgroups than a launch can hold",
            at=generic,
            found=grid,
            expected=f"at most {MAX_GRID}",
        )
    names = [f"d{i}" for i in range(len(shape))]
    flat = Builder(names, shape)
    flat = flat.merge("element", [names[i] for i in _memory_order(out)]) if shape else flat.add_dim("element", 1)
    padded = Builder(("element",), (elements,)).pad("element", 0, grid * group - elements)
    builder = TileBuilder(generic)
    operands: list[SSAValue] = []
    for operand, attr in zip(generic.operands, generic.indexing_maps, strict=True):
        view = builder.view(_over_iterations(builder, operand, attr.data, shape), flat)
        operands.append(builder.view(view, padded) if grid * group != elements else view)
    maps = [AffineMapAttr(AffineMap.identity(1))] * len(operands)
    parallel = [IteratorTypeAttr(IteratorType.PARALLEL)]
    new = GenericOp(operands[:-1], operands[-1:], generic.body.clone(), maps, parallel)
    copy_location(generic, new)
    Rewriter.replace_op(generic, new, [])
    set_launch(function, grid, waves * wave)
    function.attributes[DESCRIPTION] = StringAttr(
        f"Elementwise on {elements} elements: {group} of them in a workgroup, {vector} in a lane."
    )


def _as_generic(op: Operation) -> GenericOp:
    """The operation itself, or the `linalg.generic` that does what a `memref.copy` does, in its place."""
    if isinstance(op, GenericOp):
        return op
    assert isinstance(op, CopyOp)
    rank = len(shape_of(op.destination))
    body = Block(arg_types=[_element(op.source), _element(op.destination)])
    body.add_op(YieldOp(body.args[0]))
    maps = [AffineMapAttr(AffineMap.identity(rank))] * 2
    parallel = [IteratorTypeAttr(IteratorType.PARALLEL)] * rank
    new = GenericOp([op.source], [op.destination], Region(body), maps, parallel)
    copy_location(op, new)
    Rewriter.replace_op(op, new, [])
    return new


def _element(value: SSAValue) -> Attribute:
    assert isinstance(value.type, MemRefType)
    return value.type.element_type


def _check(op: GenericOp) -> None:
    """XpagedError for what is not one elementwise result."""
    outputs = op.outputs
    if len(outputs) != 1:
        raise XpagedError("an elementwise kernel has one result", at=op, found=len(outputs), expected=1)
    if any(kind.data is not IteratorType.PARALLEL for kind in op.iterator_types):
        raise XpagedError("a reduction outside attention is not supported", at=op)
    rank = len(op.iterator_types)
    if op.indexing_maps.data[-1].data != AffineMap.identity(rank):
        raise XpagedError(
            "the output of an elementwise kernel is indexed by the iterations in order",
            at=op,
            found=op.indexing_maps.data[-1],
            expected=AffineMapAttr(AffineMap.identity(rank)),
            fix="give it a view (rock.transform) instead",
        )
    if op.body.block.args[-1].uses:
        raise XpagedError("an elementwise kernel does not read what it writes", at=op)
    root = chain_of(outputs[0]).root
    if any(chain_of(value).root is root for value in op.inputs):
        raise XpagedError("a buffer that an elementwise kernel both reads and writes is not supported", at=op)
    for inner in op.body.block.ops:
        if not isinstance(inner, YieldOp) and (type(inner) not in SCORE_OPS or len(inner.results) != 1):
            raise XpagedError("an elementwise kernel holds arithmetic only", at=inner)
        for operand in inner.operands:
            owner = operand.owner if isinstance(operand.owner, Block) else operand.owner.parent
            if owner is not op.body.block:
                raise XpagedError("an elementwise kernel uses a value from outside", at=inner, found=operand.type)


def _memory_order(view: SSAValue) -> list[int]:
    """The dimensions of a view from the outermost in memory to the innermost, as far as its strides tell."""
    position, names = memory_position(view)
    steps = [step_of(position, name) for name in names]
    if any(step is None for step in steps):
        return list(range(len(names)))
    return sorted(range(len(names)), key=lambda i: -abs(steps[i] or 0))


def _over_iterations(builder: TileBuilder, operand: SSAValue, map: AffineMap, shape: Sequence[int]) -> SSAValue:
    """An operand with one dimension for each iteration dimension, along which it may be the same."""
    if map == AffineMap.identity(len(shape)):
        return operand
    lower = [f"m{i}" for i in range(len(map.results))]
    result = Builder(lower, shape_of(operand))
    dims: dict[int, str] = {}
    for name, expr in zip(lower, map.results, strict=True):
        if isinstance(expr, AffineConstantExpr):
            result = result.const_dim(name, expr.value)
        elif isinstance(expr, AffineDimExpr) and expr.position not in dims:
            dims[expr.position] = name
        else:
            raise XpagedError(
                "an elementwise kernel indexes its operands by iterations and constants",
                at=builder.op,
                found=AffineMapAttr(map),
                fix="give the operand a view (rock.transform) instead",
            )
    for d, length in enumerate(shape):
        result = result.rename(f"d{d}", dims[d]) if d in dims else result.add_dim(f"d{d}", length)
    return builder.view(operand, result)


def to_tiles(op: GenericOp) -> None:
    """The tile program of a `linalg.generic` on the grid."""
    function = op.parent_op()
    assert isinstance(function, func.FuncOp)
    grid, block = grid_size(function), block_size(function)
    wave = arch_of_function(function).wave_size
    (out,) = op.outputs
    (total,) = shape_of(out)
    group = total // grid
    vector = group // block
    layout = Layout.of(
        (group,), wave=[(block // wave, 0, wave * vector)], lane=[(wave, 0, vector)], regs=[(vector, 0, 1)]
    )
    builder = TileBuilder(op)
    workgroup = builder.emit(tile.WorkgroupIdOp(), "workgroup")
    cut = Builder(("element",), (total,)).unmerge(("workgroup", "element"), "element", (grid, group))
    body, inputs, loaded = Block(), list[SSAValue](), dict[SSAValue, SSAValue]()
    known: dict[SSAValue, SSAValue] = {}
    for value, argument in zip(op.inputs, op.body.block.args, strict=False):
        if not argument.uses:
            continue
        if value not in loaded:
            view = builder.view(value, cut)
            hint = chain_of(value).root.name_hint
            inputs.append(builder.emit(tile.TileLoadOp(view, [workgroup], layout), hint and f"{hint}_in"))
            loaded[value] = body.insert_arg(argument.type, len(body.args))
        known[argument] = loaded[value]
    for inner in op.body.block.ops:
        if isinstance(inner, YieldOp):
            end = tile.TileYieldOp(known.get(inner.arguments[0], inner.arguments[0]))
            copy_location(inner, end)
            body.add_op(end)
        else:
            body.add_op(inner.clone(known))
    result = builder.emit(tile.TileMapOp(inputs, Region(body), TileType.of(_element(out), layout)), "result")
    builder.emit(tile.TileStoreOp(result, builder.view(out, cut), [workgroup]))
    Rewriter.erase_op(op)
