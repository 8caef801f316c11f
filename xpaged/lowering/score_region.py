"""The score region: what a graph does to `Q K^T` before the softmax, as scalar arithmetic.

Floats are computed in f32, integers (indices, lengths and truth values of masks that the attention does not state
itself) in their own types.
"""

from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, f32
from xdsl.ir import BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from xpaged.dialects.rock.ops import DerefOp, YieldOp
from xpaged.dialects.tosa import elementwise, ops
from xpaged.dialects.tosa.constants import constant_of
from xpaged.errors import XpagedError
from xpaged.ir.locations import copy_location, describe
from xpaged.lowering.attention_masks import origin
from xpaged.lowering.attention_match import Attention
from xpaged.lowering.scalars import Scalars, element_of
from xpaged.lowering.tosa_views import View
from xpaged.lowering.view_maps import position_of


class ScoreRegion(Scalars):
    """Builds the region; `first` is the product that the scores come from, `inputs` what else the region reads, and
    `ops` the operations of the graph that it computes."""

    def __init__(self, attention: Attention):
        super().__init__(attention.second)
        self.attention = attention
        self.first: ops.MatMulOp | None = None
        self._score_argument: SSAValue = self.block.insert_arg(f32, 0)
        result = self.emit(attention.scores)
        if self.first is None:
            raise XpagedError("a softmax is not that of the scores of a product", at=attention.second)
        for step in attention.steps:
            op = cast(Operation, step.view.source.owner)
            if step.mask is None:
                assert isinstance(op, elementwise.CastOp)
                result = self._converted(result, element_of(op.output), op)
                self.ops.add(op)
            elif step.mask.reason is not None:
                result = self._masked(step.view, op, step.mask.scores, result)
                self.ops.add(op)
        if not isinstance(result.type, AnyFloat):
            raise self.refused(attention.scores.source, f"scores of {result.type} in the softmax", "floats")
        self._result = result

    def region(self) -> Region:
        """The region, empty when the scores enter the softmax as they are. To be called once."""
        if self._result is self._score_argument:
            return Region()
        end = YieldOp(self._result)
        copy_location(self.attention.second, end)
        self.block.add_op(end)
        return Region(self.block)

    def leaf(self, view: View) -> SSAValue | None:
        """The score itself, and what lies in memory."""
        op = view.source.owner
        if isinstance(op, ops.MatMulOp):
            return self._score(view, op)
        return self._input(view) if not isinstance(op, Operation) or isinstance(op, DerefOp) else None

    def refused(self, at: SSAValue, found: str, expected: str) -> XpagedError:
        return XpagedError("this cannot be part of the scores of an attention", at=at, found=found, expected=expected)

    def _score(self, view: View, op: ops.MatMulOp) -> SSAValue:
        if self.first is not None and op is not self.first:
            raise XpagedError(
                "the scores of an attention are made of two products",
                at=op,
                found=f"another one at {describe(self.first)}",
            )
        whole = View.of(op.output)
        if view.bounds != whole.bounds or position_of(view) != position_of(whole):
            raise XpagedError(
                "the scores of an attention must enter the softmax in the order in which the product makes them",
                at=op,
                found=f"the score at ({', '.join(map(str, view.coordinates()))}) for d0, d1, d2",
            )
        if self.first is None:
            self.first = op
            if isinstance(element := element_of(op.output), IntegerType):
                self._score_argument = Rewriter.replace_value_with_new_type(self._score_argument, element)
        return self._score_argument

    def _input(self, view: View) -> SSAValue:
        """A new extra input of the region: an element of a function argument, a constant or a page."""
        if not isinstance(view.source, BlockArgument) and constant_of(view.source) is None:
            raise self.refused(view.source, origin(view.source), "a function argument")
        return super()._input(view)

    def _masked(self, view: View, op: Operation, scores: SSAValue, inner: SSAValue) -> SSAValue:
        """A mask that the attention does not state, put on `inner`, which is what the graph's `scores` are."""
        if isinstance(op, elementwise.SelectOp):
            condition = self.emit(view.operand(op.condition))
            choices = [inner if o is scores else self.emit(view.operand(o)) for o in (op.on_true, op.on_false)]
            return self._add(arith.SelectOp(condition, *choices), op)
        assert isinstance(op, elementwise.AddOp)
        other = op.input2 if scores is op.input1 else op.input1
        return self._add(arith.AddfOp(inner, self.emit(view.operand(other))), op)
