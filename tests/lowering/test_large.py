"""Kernels whose buffers hold more elements than 32 bits can number: offsets and page numbers stay right."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.ir import SSAValue

from tests.lowering.kernels import (
    BOTH,
    DEVICE,
    TILE,
    Cache,
    Inputs,
    Results,
    errors,
    kernel_of,
    module_at,
    ops_of,
    problem,
)
from xpaged.dialects import hip
from xpaged.interpreter.evaluator import Machine, Program
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.views import MemRef
from xpaged.ir.levels import Level
from xpaged.lowering.kernel import block_size, grid_size

HEADS, KEYS, CHANNELS = 9000, 4095, 128  # 4.7e9 elements of K
PAGE = 3**4 * 5**4 * 7  # odd, so that a page number is a division of the element number


@pytest.mark.parametrize("level", BOTH)
def test_the_last_head_of_a_large_cache(level: Level) -> None:
    """Every entry of a table leads to one of three pages, so that the cache needs little memory."""
    p = problem(heads_q=HEADS, seq_q=1, seq_k=KEYS, dim_qk=CHANNELS, page_size=PAGE)
    assert p.num_pages is not None
    rng = np.random.default_rng(0)
    memory = Memory()
    args: list[MemRef] = []

    def buffer(values: np.ndarray) -> int:
        at = memory.allocate(values.nbytes, dtype=values.dtype).base
        memory.write_array(at, values)
        args.append(MemRef.dense(at, values.dtype, (values.size,)))
        return at

    def cache(scale: float) -> np.ndarray:
        """Puts a table in place; the rows of the last head."""
        pages = (rng.standard_normal((3, PAGE)) * scale).astype(np.float16)
        bases = memory.allocate_many(3, pages[0].nbytes)
        for base, page in zip(bases.tolist(), pages, strict=True):
            memory.write_array(base, page)
        which = rng.integers(0, 3, p.num_pages)
        buffer(bases[which].view(np.int64))
        flat = (HEADS - 1) * KEYS * CHANNELS + np.arange(KEYS * CHANNELS)
        return pages[which[flat // PAGE], flat % PAGE].reshape(1, 1, KEYS, CHANNELS)

    q = rng.standard_normal((HEADS, 1, CHANNELS)).astype(np.float16)
    buffer(q)
    k, v = cache(0.2), cache(1.0)
    out = buffer(np.full(q.size, np.nan, np.float16))
    module = module_at(p, level)
    function = kernel_of(module)
    lanes = 1 if level is TILE else block_size(function)
    machine = Machine(memory, groups=[HEADS - 1], lanes_per_group=lanes, grid=grid_size(function))
    Program(module).call(machine, function.sym_name.data, args)
    got = memory.read_array(out, q.dtype, q.size).reshape(q.shape)
    assert np.isnan(got[:-1]).all()
    alive = np.ones((1, KEYS), np.bool_)
    last = Inputs(problem(seq_q=1, seq_k=KEYS, dim_qk=CHANNELS), q[-1:], Cache(k, alive), Cache(v, alive))
    assert not errors(last, Results(got[-1:], None, machine))


def offset_types(heads: int, keys: int = 64) -> dict[str, set[IntegerType]]:
    """The types of the offsets into each argument and into pages, and of the page numbers."""
    module = module_at(problem(heads_q=heads, seq_q=64, seq_k=keys, dim_qk=64, page_size=1024), DEVICE)
    names: dict[SSAValue, str] = {arg: arg.name_hint or "" for arg in kernel_of(module).body.block.args}
    found: dict[str, set[IntegerType]] = {}
    for op in ops_of(module, "hip.load", "hip.store"):
        assert isinstance(op, hip.LoadOp | hip.StoreOp)
        assert isinstance(op.offset.type, IntegerType)
        found.setdefault(names.get(op.base, "page"), set()).add(op.offset.type)
    return found


def test_offsets_are_64_bits_wide_only_where_a_buffer_asks_for_it() -> None:
    small = offset_types(4)
    assert set(small) == {"q", "k_table", "v_table", "page", "out"}
    assert all(types == {i32} for types in small.values())
    # 2^31 bytes of Q and of the output: byte offsets still fit into 31 bits, one head more and they do not.
    assert all(types == {i32} for types in offset_types(1 << 18).values())
    large = offset_types((1 << 18) + 1)
    assert large == {**small, "q": {i64}, "out": {i64}}


def test_nothing_else_is_64_bits_wide() -> None:
    module = module_at(problem(heads_q=4, seq_q=64, seq_k=64, dim_qk=64, page_size=1024), DEVICE)
    wide = {op.name for op in module.walk() if any(r.type == i64 for r in op.results)}
    assert wide == {"hip.load"}  # the addresses of pages
