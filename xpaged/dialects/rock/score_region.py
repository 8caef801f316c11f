"""Score regions on whole tensors or memrefs, as rocMLIR writes them, rewritten to scalars.

In rocMLIR the region of an attention takes all scores at once: as tensors,

    ^bb0(%qk: tensor<2x4x8xf16>, %bias: tensor<2x4x8xf16>):
      %sum = arith.addf %qk, %bias : tensor<2x4x8xf16>
      rock.yield %sum : tensor<2x4x8xf16>

or, after bufferization, as memrefs with a last argument that is written:

    ^bb0(%qk: memref<2x4x8xf16>, %bias: memref<2x4x8xf16>, %result: memref<2x4x8xf16>):
      %sum = memref.alloc() : memref<2x4x8xf16>
      linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%qk, %bias : memref<2x4x8xf16>, memref<2x4x8xf16>) outs(%sum : memref<2x4x8xf16>) {...}
      memref.copy %sum, %result : memref<2x4x8xf16> to memref<2x4x8xf16>
      rock.yield

Both say what happens to one score, and xpaged's form says just that:

    ^bb0(%qk: f32, %bias: f16):
      %0 = arith.truncf %qk : f32 to f16
      %sum = arith.addf %0, %bias : f16
      rock.yield %sum : f16
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.builder import Builder
from xdsl.dialects.arith import Arith, ConstantOp, TruncFOp
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, f32
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.linalg.ops import YieldOp as LinalgYieldOp
from xdsl.dialects.math import Math
from xdsl.dialects.memref import AllocOp, CopyOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from xpaged.dialects.rock.ops import Shaped, TransformOp, YieldOp
from xpaged.dialects.rock.views import chain_of, memory_position
from xpaged.ir.locations import copy_location

SCORE_OPS: frozenset[type[Operation]] = frozenset((*Arith.operations, *Math.operations))
"""What may be done to scores: arithmetic without memory."""


def is_whole(region: Region) -> bool:
    """Whether a region takes all scores at once, as tensors or memrefs."""
    block = region.blocks.first
    return block is not None and bool(block.args) and isinstance(block.args[0].type, Shaped)


def scalar_region(region: Region) -> Region:
    """The region on scalars that does to each score what `region`, which must be whole, does to all of them.

    Scores come as f32 (i32 where the region takes that); what the region takes narrower is narrowed explicitly.
    Raises VerifyException, with the operation, for anything that is not elementwise.
    """
    return _Scalars(region).result


class _Scalars:
    """Walks a whole region and keeps, for each tensor and each buffer, the scalar that stands for its elements."""

    def __init__(self, region: Region):
        if len(region.blocks) != 1:
            raise VerifyException(f"a score region has one block, found {len(region.blocks)}")
        source = region.block
        self.block = Block()
        self.builder = Builder(InsertPoint.at_end(self.block))
        self.scalars: dict[SSAValue, SSAValue] = {}
        yielded = source.last_op
        if not isinstance(yielded, YieldOp):
            raise VerifyException("a score region must end in rock.yield")
        arguments = list(source.args) if yielded.values else list(source.args[:-1])
        for i, arg in enumerate(arguments):
            if not isinstance(arg.type, Shaped):
                raise VerifyException(f"score regions mix scalars and {source.args[0].type}: {arg.type}")
            self._argument(arg, arg.type.element_type, is_score=i == 0)
        for op in source.ops:
            if op is not yielded:
                self._visit(op)
        value = yielded.values[0] if yielded.values else source.args[-1]
        self.builder.insert(YieldOp(self._scalar(value, yielded)))
        self.result = Region(self.block)

    def _argument(self, arg: SSAValue, element_type: Attribute, *, is_score: bool) -> None:
        wide = f32 if is_score and isinstance(element_type, AnyFloat) else element_type
        scalar: SSAValue = self.block.insert_arg(wide, len(self.block.args))
        scalar.name_hint = arg.name_hint
        if wide != element_type:
            assert isinstance(element_type, AnyFloat)
            scalar = self.builder.insert(TruncFOp(scalar, element_type)).result
        self.scalars[arg] = scalar

    def _scalar(self, value: SSAValue, op: Operation) -> SSAValue:
        """The scalar for an element of a tensor, or of the buffer that `value` is a view of."""
        root = chain_of(value).root
        if root not in self.scalars:
            raise VerifyException(f"'{op.name}' in a score region reads {value.type} before it is written")
        return self.scalars[root]

    def _visit(self, op: Operation) -> None:
        match op:
            case TransformOp() | AllocOp():
                return
            case CopyOp():
                self._same_elements(op, (op.source, op.destination))
                self.scalars[chain_of(op.destination).root] = self._scalar(op.source, op)
            case GenericOp():
                self._generic(op)
            case _ if type(op) in SCORE_OPS and len(op.results) == 1:
                self.scalars[op.results[0]] = self._elementwise(op)
            case _:
                raise VerifyException(f"'{op.name}' in a score region is not elementwise arithmetic")

    def _elementwise(self, op: Operation) -> SSAValue:
        """Arithmetic on tensors as arithmetic on their elements; on scalars as it is."""
        result = op.results[0].type
        element = result.element_type if isinstance(result, Shaped) else result
        if isinstance(op, ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr):
            values = op.value.get_attrs() if op.value.is_splat() else ()
            if not values:
                raise VerifyException("a constant in a score region has different elements")
            new: Operation = ConstantOp(values[0])
        else:
            operands = [self.scalars.get(x) or self._captured(x, op) for x in op.operands]
            new = type(op).create(
                operands=operands, result_types=[element], properties=op.properties, attributes=op.attributes
            )
        copy_location(op, new)
        self.builder.insert(new)
        new.results[0].name_hint = op.results[0].name_hint
        return new.results[0]

    def _captured(self, value: SSAValue, op: Operation) -> SSAValue:
        """A constant from outside the region, brought inside."""
        if not isinstance(value.owner, ConstantOp):
            raise VerifyException(f"'{op.name}' in a score region uses a value from outside that is no constant")
        self.scalars[value] = self._elementwise(value.owner)
        return self.scalars[value]

    def _generic(self, op: GenericOp) -> None:
        """The body of a `linalg.generic` that visits the same element of every operand."""
        rank = len(op.iterator_types)
        if any(m.data != AffineMap.identity(rank) for m in op.indexing_maps):
            raise VerifyException("a linalg.generic in a score region has an indexing map that is not the identity")
        if any(kind.data is not IteratorType.PARALLEL for kind in op.iterator_types):
            raise VerifyException("a linalg.generic in a score region has an iterator that is not parallel")
        self._same_elements(op, op.operands)
        body = op.body.block
        for arg, operand in zip(body.args, op.operands, strict=True):
            if arg.uses:
                self.scalars[arg] = self._scalar(operand, op)
        for inner in body.ops:
            if isinstance(inner, LinalgYieldOp):
                for out, value in zip(op.outputs, inner.operands, strict=True):
                    self.scalars[chain_of(out).root] = self.scalars.get(value) or self._captured(value, inner)
            elif type(inner) in SCORE_OPS and len(inner.results) == 1:
                self.scalars[inner.results[0]] = self._elementwise(inner)
            else:
                raise VerifyException(f"'{inner.name}' in a score region is not elementwise arithmetic")

    def _same_elements(self, op: Operation, operands: Sequence[SSAValue]) -> None:
        """Every operand shows its whole buffer, in the same order: reshapes do not matter, broadcasts do."""
        first = memory_position(operands[0])[0]
        for operand in operands:
            assert isinstance(operand.type, Shaped)
            root = chain_of(operand).root.type
            assert isinstance(root, Shaped)
            if memory_position(operand)[0] != first or prod(root.get_shape()) != prod(operand.type.get_shape()):
                raise VerifyException(f"'{op.name}' in a score region does not visit all scores one for one")
