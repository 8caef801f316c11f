"""The passes check the level that they take and the one that they leave: a deref stays lazy until tiles are loaded."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest
from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, ModuleOp, f32, i64
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint

from tests.lowering.kernels import module_at, ops_of, problem
from xpaged.dialects import hip
from xpaged.dialects.rock.ops import DerefOp
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level, check_level
from xpaged.ir.pass_base import LevelPass
from xpaged.passes import get_all_passes
from xpaged.pipeline import Pipeline

PROBLEM = problem(heads_q=2, heads_kv=1, seq_q=5, seq_k=24, dim_qk=16, page_size=48, kv_index=[7])
LEVELS = {
    "affix-tuning-params": (Level.ROCK_MEMREF, Level.ROCK_MEMREF),
    "gemm-to-gridwise": (Level.ROCK_MEMREF, Level.GRIDWISE),
    "gridwise-to-tile": (Level.GRIDWISE, Level.TILE),
    "place-barriers": (Level.TILE, Level.TILE),
    "tile-to-device": (Level.TILE, Level.DEVICE),
}


def class_of(name: str) -> type[LevelPass]:
    found = get_all_passes()[name]()
    assert issubclass(found, LevelPass)
    return found


def input_of(name: str) -> ModuleOp:
    """A module that the pass takes."""
    module = module_at(PROBLEM, LEVELS[name][0]).clone()
    if name == "gemm-to-gridwise":
        Pipeline("affix-tuning-params").apply(module)
    return module


def read_eagerly(module: ModuleOp) -> None:
    """Plant an operation that reads an element through a deref."""
    deref = ops_of(module, "rock.deref")[0]
    builder = Builder(InsertPoint.after(deref))
    zero = builder.insert(arith.ConstantOp(IntegerAttr(0, IndexType()))).result
    builder.insert(memref.LoadOp.get(deref.results[0], [zero, zero, zero]))


def read_as_lanes_do(module: ModuleOp) -> None:
    """Plant an operation of the device level that takes a table for a buffer."""
    deref = ops_of(module, "rock.deref")[0]
    builder = Builder(InsertPoint.after(deref))
    zero = builder.insert(arith.ConstantOp(IntegerAttr(0, 32))).result
    assert isinstance(deref.results[0].type, MemRefType)
    builder.insert(hip.LoadOp(deref.results[0], zero, deref.results[0].type.element_type))


def keep_a_deref(module: ModuleOp) -> None:
    """Put a deref of a page table back."""
    function = next(iter(module.ops))
    assert isinstance(function, Operation)
    table = function.regions[0].block.args[1]
    pages = MemRefType(f32, [1, 1, 8])
    view = memref.CastOp.get(table, MemRefType(i64, [1, 1, 1]))
    Builder(InsertPoint.at_start(function.regions[0].block)).insert(view)
    Builder(InsertPoint.after(view)).insert(DerefOp(view.results[0], pages))


@pytest.mark.parametrize("name", LEVELS)
def test_the_levels_of_each_pass(name: str) -> None:
    class_ = class_of(name)
    assert class_.name == name
    assert (class_.takes, class_.leaves) == LEVELS[name]
    module = input_of(name)
    check_level(module, LEVELS[name][0])
    class_().apply(Context(), module)
    check_level(module, LEVELS[name][1])


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize(
    ("plant", "what"),
    [
        (read_eagerly, "'memref.load' reads memory through a rock.deref"),
        (read_as_lanes_do, "'hip.load'"),
    ],
)
def test_a_pass_does_not_take_a_module_that_reads_too_early(
    name: str, plant: Callable[[ModuleOp], None], what: str
) -> None:
    module = input_of(name)
    plant(module)
    with pytest.raises(XpagedError) as error:
        class_of(name)().apply(Context(), module)
    assert error.value.what.startswith(what)
    assert error.value.during == name


@pytest.mark.parametrize(
    ("name", "plant", "what"),
    [
        ("affix-tuning-params", read_eagerly, "'memref.load' reads memory through a rock.deref at level rock-memref"),
        ("gemm-to-gridwise", read_eagerly, "'memref.load' reads memory through a rock.deref at level gridwise"),
        ("gridwise-to-tile", read_eagerly, "'memref.load' reads memory through a rock.deref at level tile"),
        ("gridwise-to-tile", read_as_lanes_do, "'hip.load' reads memory through a rock.deref at level tile"),
        ("place-barriers", read_eagerly, "'memref.load' reads memory through a rock.deref at level tile"),
        ("tile-to-device", keep_a_deref, "'rock.deref' may not stand at level device"),
    ],
)
def test_a_pass_does_not_leave_a_module_that_reads_too_early(
    monkeypatch: pytest.MonkeyPatch, name: str, plant: Callable[[ModuleOp], None], what: str
) -> None:
    """The pass itself is broken: it leaves behind what the level does not allow."""
    class_ = class_of(name)
    run = class_.run

    def broken(self: LevelPass, ctx: Context, module: ModuleOp) -> None:
        run(self, ctx, module)
        plant(module)

    monkeypatch.setattr(class_, "run", broken)
    with pytest.raises(XpagedError) as error:
        class_().apply(Context(), input_of(name))
    assert error.value.what == what
    assert error.value.during == name


@pytest.mark.parametrize("name", LEVELS)
def test_a_module_of_another_level_is_refused(name: str) -> None:
    takes = LEVELS[name][0]
    for level in (Level.ROCK_MEMREF, Level.GRIDWISE, Level.TILE, Level.DEVICE):
        if level is not takes:
            with pytest.raises(XpagedError, match=r"may not stand at level|reads memory") as error:
                class_of(name)().apply(Context(), module_at(PROBLEM, level).clone())
            assert error.value.during == name


def test_each_pass_has_a_file_and_a_class_of_its_name() -> None:
    for name in LEVELS:
        module = import_module(f"xpaged.passes.{name.replace('-', '_')}")
        assert class_of(name).__module__ == module.__name__
