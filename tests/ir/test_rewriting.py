"""Greedy rewriting: locations are kept, dead code goes only on request, endless patterns are stopped."""

import pytest
from xdsl.dialects.arith import AddiOp, MuliOp, SubiOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from xpaged.errors import XpagedError
from xpaged.ir.locations import describe
from xpaged.ir.parsing import parse
from xpaged.ir.rewriting import greedy

TEXT = """func.func @f(%a: i32, %b: i32) -> i32 {
  %unused = arith.muli %a, %b : i32
  %c = arith.addi %a, %b : i32
  return %c : i32
}"""


class AddToSub(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddiOp, rewriter: PatternRewriter) -> None:
        rewriter.replace(op, SubiOp(op.lhs, op.rhs))


class Swap(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddiOp, rewriter: PatternRewriter) -> None:
        rewriter.replace(op, AddiOp(op.rhs, op.lhs))


class Refuse(RewritePattern):
    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, AddiOp):
            raise XpagedError("no", at=op)


class Broken(RewritePattern):
    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        raise ZeroDivisionError


def test_new_operations_get_the_place_of_the_old_one() -> None:
    module = parse(TEXT, "k.mlir")
    assert greedy(module, [AddToSub()], dce=False, name="test")
    (sub,) = (op for op in module.walk() if isinstance(op, SubiOp))
    assert describe(sub) == "k.mlir:3:8"
    assert not greedy(module, [AddToSub()], dce=False, name="test")


@pytest.mark.parametrize("dce", [False, True])
def test_dead_code_goes_on_request_only(dce: bool) -> None:
    module = parse(TEXT)
    greedy(module, [], dce=dce, name="test")
    assert any(isinstance(op, MuliOp) for op in module.walk()) is not dce


def test_patterns_that_undo_each_other_are_stopped() -> None:
    with pytest.raises(XpagedError, match="test does not come to an end") as caught:
        greedy(parse(TEXT), [Swap()], dce=False, name="test")
    assert "Swap, Swap, Swap" in str(caught.value)


def test_a_refusal_of_a_pattern_comes_out_as_it_is() -> None:
    with pytest.raises(XpagedError) as caught:
        greedy(parse(TEXT, "k.mlir"), [Refuse()], dce=False, name="test")
    assert caught.value.where == "k.mlir:3:8"
    assert not getattr(caught.value, "__notes__", [])


def test_a_mistake_in_a_pattern_comes_out_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        greedy(parse(TEXT), [Broken()], dce=False, name="test")
    assert not getattr(caught.value, "__notes__", [])
