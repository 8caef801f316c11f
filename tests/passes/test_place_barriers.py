"""place-barriers: on every way through a program, a barrier stands between accesses of LDS that conflict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation

from tests.lowering.kernels import DEVICE, lowered, module_at, ops_of, problem
from xpaged.dialects.rock import tile_ops as tile
from xpaged.dialects.rock.views import chain_of
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse

Statement = str | tuple[str, list["Statement"]]
"""`load x`, `store x`, `barrier`, or a loop or branch around statements."""

BUFFERS = ("x", "y", "g")  # g lies in global memory
statements: st.SearchStrategy[list[Statement]] = st.deferred(
    lambda: st.lists(
        st.one_of(
            st.builds("{} {}".format, st.sampled_from(["load", "store"]), st.sampled_from(BUFFERS)),
            st.just("barrier"),
            st.tuples(st.sampled_from(["loop", "branch"]), statements),
        ),
        max_size=4,
    )
)


def text_of(program: Sequence[Statement]) -> str:
    """The program as a tile-level function."""
    tile_type = "!rock.tile<4x16xf32, #rock.layout<wave = [4 -> d0], lane = [16 -> d1, 4 -> copy], regs = []>>"
    types = {"x": "memref<4x16xf32, 3 : i32>", "y": "memref<16x4xf32, 3 : i32>", "g": "memref<4x16xf32>"}
    names = {"x": "%x", "y": "%yt", "g": "%g"}
    lines: list[str] = []
    count = iter(range(10000))

    def write(body: Sequence[Statement]) -> None:
        for s in body:
            if isinstance(s, tuple):
                head = "scf.for %i{} = %zero to %n step %one" if s[0] == "loop" else "scf.if %c"
                lines.append(head.format(next(count)) + " {")
                write(s[1])
                lines.append("}")
            elif s == "barrier":
                lines.append("rock.barrier")
            else:
                kind, buffer = s.split()
                type_ = types[buffer] if buffer != "y" else "memref<4x16xf32>"
                if kind == "load":
                    lines.append(f"%v{next(count)} = rock.tile_load {names[buffer]}[] : {type_} -> {tile_type}")
                else:
                    lines.append(f"rock.tile_store %m, {names[buffer]}[] : {tile_type}, {type_}")

    write(program)
    body = "\n".join(lines)
    return f"""func.func @f(%m: {tile_type}, %g: memref<4x16xf32>, %n: index, %c: i1) attributes {{rock.kernel}} {{
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %x = rock.lds_alloc : {types["x"]}
      %y = rock.lds_alloc : {types["y"]}
      %yt = rock.transform %y by #rock.transform_map<affine_map<(d0, d1) -> (d1, d0)> by
        [<PassThrough ["a"] at [0] -> ["a"] at [1]>, <PassThrough ["b"] at [1] -> ["b"] at [0]>]
        bounds = [4, 16] -> [16, 4]> : {types["y"]} to memref<4x16xf32>
      {body}
      return
    }}"""


def ways(block: Block) -> Iterator[list[Operation]]:
    """The operations on every way through a block: loops make 0 to 2 trips, branches are taken or not."""
    choices: list[list[list[Operation]]] = []
    for op in block.ops:
        if isinstance(op, scf.ForOp | scf.IfOp):
            inner = list(ways(op.regions[0].block))
            trips = range(3) if isinstance(op, scf.ForOp) else range(2)
            options = [[*chain(*chosen)] for n in trips for chosen in product(inner[:6], repeat=n)]
            choices.append(options[:30])
        else:
            choices.append([[op]])
    for chosen in islice(product(*choices), 200):
        yield [*chain(*chosen)]


def conflicts(way: Sequence[Operation]) -> list[str]:
    """Accesses that meet another wave's without a barrier between them."""
    found: list[str] = []
    read: set[object] = set()
    written: set[object] = set()
    for op in way:
        if isinstance(op, tile.BarrierOp):
            read, written = set(), set()
        elif isinstance(op, tile.TileLoadOp | tile.TileStoreOp):
            root = chain_of(op.view).root
            if not isinstance(root.owner, tile.LdsAllocOp):
                continue
            if isinstance(op, tile.TileLoadOp):
                found += ["load after store"] if root in written else []
                read.add(root)
            else:
                found += ["store after load"] if root in read else []
                written.add(root)
    return found


def body_of(module: ModuleOp) -> Block:
    (function,) = [op for op in module.ops if isinstance(op, FuncOp)]
    return function.body.block


def barriers(module: ModuleOp) -> int:
    return len(ops_of(module, "rock.barrier"))


@settings(max_examples=40)
@given(statements)
def test_every_way_is_safe(program: list[Statement]) -> None:
    module = parse(text_of(program))
    placed = lowered(module, "place-barriers")
    for way in ways(body_of(placed)):
        assert not conflicts(way)
    # Nothing else changes, nothing is placed twice, and where nothing conflicts nothing is placed.
    assert lowered(placed, "place-barriers").is_structurally_equivalent(placed)
    ours = [op.name for op in placed.walk() if op.name != "rock.barrier"]
    assert ours == [op.name for op in module.walk() if op.name != "rock.barrier"]
    if not any(conflicts(way) for way in ways(body_of(module))):
        assert barriers(placed) == barriers(module)
    for first, second in pairwise(op for op in placed.walk()):
        placed_now = isinstance(first, tile.BarrierOp) and isinstance(second, tile.BarrierOp)
        assert not placed_now or "barrier" in str(program)


@pytest.mark.parametrize(
    ("program", "count"),
    [
        (["store x", "load x", "load x"], 1),
        (["load x", "store x"], 1),
        (["store x", "store y", "load x", "load y"], 1),
        (["store x", "load y", "store g", "load g"], 0),
        (["store x", "barrier", "load x"], 1),
        (["store y", "load y", "store y", "load y"], 3),  # y is seen through a view
        ([("loop", ["store x", "load x"])], 2),
        ([("loop", ["store x"]), "load x"], 1),
        (["store x", ("loop", ["load x"]), "load x"], 2),
        (["store x", ("branch", ["barrier"]), "load x"], 2),
        ([("loop", [("branch", ["load x"]), "store x"])], 2),
    ],
)
def test_how_many(program: list[Statement], count: int) -> None:
    assert barriers(lowered(parse(text_of(program)), "place-barriers")) == count


def test_a_kernel_whose_key_waves_are_joined_has_two() -> None:
    p = problem(seq_q=1, seq_k=1024, dim_qk=64, page_size=1024)
    assert barriers(module_at(p, Level.TILE)) == 2
    assert len(ops_of(module_at(p, DEVICE), "hip.barrier")) == 2


def test_a_barrier_stands_where_the_access_stands_in_the_source() -> None:
    from xpaged.ir.locations import describe

    module = lowered(parse(text_of(["store x", "load x"]), "k.mlir"), "place-barriers")
    (barrier,) = ops_of(module, "rock.barrier")
    (load,) = ops_of(module, "rock.tile_load")
    assert describe(barrier) == describe(load)
    assert describe(barrier).startswith("k.mlir:")
