"""Pipelines: passes by name, verification, levels, and the trace."""

from dataclasses import dataclass

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.passes import ModulePass

import xpaged
from xpaged.errors import XpagedError
from xpaged.ir.levels import MODULE_LEVELS, Level
from xpaged.ir.parsing import parse
from xpaged.ir.pass_base import LevelPass
from xpaged.ir.printing import print_module
from xpaged.passes import NAMES, get_all_passes
from xpaged.passes.pipelines import PATH, passes_between
from xpaged.pipeline import Pipeline, apply_pass, parse_passes

TEXT = """func.func @f(%a: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %b = arith.addi %a, %zero : i32
  return %b : i32
}"""


@dataclass(frozen=True)
class ToDevice(LevelPass):
    name = "to-device"
    takes = Level.TOSA
    leaves = Level.DEVICE

    def run(self, ctx: Context, module: ModuleOp) -> None:
        """Claims to lower, and does nothing."""


@dataclass(frozen=True)
class Breaks(LevelPass):
    name = "breaks"

    def run(self, ctx: Context, module: ModuleOp) -> None:
        """Puts an operation behind the terminator of the function."""
        (func,) = module.body.block.ops
        func.regions[0].block.add_op(ConstantOp(IntegerAttr(1, i32)))


@dataclass(frozen=True)
class StockBreaks(ModulePass):
    name = "stock-breaks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        Breaks().run(ctx, op)


@dataclass(frozen=True)
class StockFails(ModulePass):
    name = "stock-fails"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyError("what")


def test_a_trace_tells_what_every_pass_did() -> None:
    module = parse(TEXT)
    before = print_module(module)
    trace = Pipeline("canonicalize,cse").run(module)
    assert print_module(module) == before  # the input stays as it is
    assert [stage.name for stage in trace] == ["canonicalize", "cse"]
    assert trace["canonicalize"].changed
    assert not trace["cse"].changed
    assert trace[0].before == before
    assert trace[0].after == trace[1].before == trace[1].after == print_module(trace.module)
    assert "-    %b = arith.addi" in trace[0].diff()
    assert trace[0].seconds > 0
    assert len(trace) == 2
    with pytest.raises(KeyError):
        trace["dce"]


def test_without_a_trace_nothing_is_kept() -> None:
    trace = Pipeline("canonicalize").run(parse(TEXT), trace=False)
    assert trace[0].before == trace[0].after == ""
    assert "addi" not in print_module(trace.module)


def test_errors_after_a_run_show_the_source() -> None:
    trace = Pipeline("").run(parse(TEXT, "k.mlir"))
    add = list(trace.module.walk())[3]
    assert "%b = arith.addi %a, %zero" in XpagedError("no", at=add).render()


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("canonicalise", "unknown pass 'canonicalise'", "'canonicalize'"),
        ("tosa-to-rok", "unknown pass 'tosa-to-rok'", "'tosa-to-rock'"),
        ("zzzz", "unknown pass 'zzzz'", "gemm-to-gridwise"),
        ("canonicalize{x=1}", "does not take these options", '"x"'),
        ("convert-scf-to-cf{", "not a list of passes", None),
        ("a b", "not a list of passes", None),
        ("{", "not a list of passes", None),
        ('"', "not a list of passes", None),
        ("a{b=}", "not a list of passes", None),
        ("a,,b", "not a list of passes", None),
    ],
)
def test_a_wrong_list_of_passes_is_refused(text: str, what: str, fix: str | None) -> None:
    with pytest.raises(XpagedError) as caught:
        parse_passes(text)
    assert what in caught.value.what
    if fix is not None:
        assert fix in (caught.value.fix or "")


def test_levels_are_checked_before_and_after() -> None:
    with pytest.raises(XpagedError) as caught:
        ToDevice().apply(Context(), parse("func.func @f(%m: memref<4xf32>) { return }"))
    assert "may not stand at level tosa" in caught.value.what
    with pytest.raises(XpagedError) as caught:
        ToDevice().apply(Context(), parse("func.func @f(%t: tensor<4xf32>) { return }"))
    assert "may not stand at level device" in caught.value.what
    assert caught.value.render().endswith("pass: to-device")


@pytest.mark.parametrize("each", [Breaks(), StockBreaks()])
def test_what_a_pass_leaves_is_verified(each: ModulePass) -> None:
    with pytest.raises(XpagedError) as caught:
        apply_pass(each, Context(), parse(TEXT))
    assert caught.value.during == each.name


def test_a_failing_pass_of_xdsl_is_a_refusal() -> None:
    with pytest.raises(XpagedError, match="pass 'stock-fails' failed"):
        apply_pass(StockFails(), Context(), parse(TEXT))


def test_the_path_names_registered_passes_only_and_each_of_them() -> None:
    on_the_way = [name for level in MODULE_LEVELS for name in PATH[level]]
    assert {*on_the_way, "split-kv"} == set(NAMES) == set(get_all_passes())  # a split is asked for
    assert passes_between(Level.ROCK, Level.ROCK) == []
    assert passes_between(Level.GRIDWISE, Level.DEVICE) == ["gridwise-to-tile", "place-barriers", "tile-to-device"]
    assert passes_between(Level.MIGRAPHX, Level.DEVICE) == on_the_way


def test_the_public_names_are_found() -> None:
    assert xpaged.parse is parse
    assert xpaged.Pipeline is Pipeline
    assert set(dir(xpaged)) >= {"parse", "Pipeline", "compile", "run", "attention", "XpagedError", "Level"}
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        xpaged.nothing  # noqa: B018  # pyright: ignore
