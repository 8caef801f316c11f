"""Whole kernels at tile and device level against the oracle: sizes, masks, pages, placement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lowering.kernels import (
    BOTH,
    DEVICE,
    TILE,
    Cache,
    Inputs,
    Placement,
    changed,
    check,
    errors,
    kernel_of,
    lowered,
    module_at,
    page_sizes,
    problem,
    run,
)
from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.attrs import AttentionParamsAttr
from xpaged.interpreter.memory import Memory, MemoryFault
from xpaged.interpreter.views import MemRef
from xpaged.ir.levels import Level
from xpaged.sizes import AttentionProblem

# ---- sizes

SIZES: dict[str, Sequence[Any]] = {
    "dim_qk": (32, 40, 64, 80, 128, 512),
    "seq_k": (1, 7, 64, 130, 1000),
    "seq_q": (1, 5, 64, 100),
    "dim_v": ("same", 24, 96),
    "pages": ("part of a row", "a row", "some rows", "across rows", "all rows"),
    "masks": ("none", "causal", "KV index", "both", "no key"),
    "heads": ((1, 1), (4, 2), (7, 1)),
    "batch": (1, 2),
    "dtype": ("f16", "bf16", "f32"),
    "arch": ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"),
    "lse": (False, True),
}


def paged(choice: dict[str, Any], seed: int) -> AttentionProblem:
    """The problem of one choice of sizes; pages as near to what was asked for as the sizes permit."""
    rng = np.random.default_rng(seed)
    if choice["dtype"] == "f32" and choice["arch"].startswith("gfx1"):  # which has no instruction for it
        choice = choice | {"dtype": "bf16"}
    heads_q, heads_kv = choice["heads"]
    d, keys = choice["dim_qk"], choice["seq_k"]
    dim_v = d if choice["dim_v"] == "same" else choice["dim_v"]
    sizes = page_sizes(heads_kv, keys, d, dim_v)
    wanted = {
        "part of a row": [s for s in sizes if s < d],
        "a row": [s for s in sizes if s == d],
        "some rows": [s for s in sizes if d < s < heads_kv * keys * d and s % d == 0],
        "across rows": [s for s in sizes if s > d and s % d],
        "all rows": [heads_kv * keys * d],
    }[choice["pages"]]
    masks, batch = choice["masks"], choice["batch"]
    indices = {"KV index": int(rng.integers(0, keys)), "both": int(rng.integers(0, keys)), "no key": -1}
    kv_index = [indices[masks], *rng.integers(-1, keys + 1, batch - 1).tolist()] if masks in indices else False
    return problem(
        **{name: choice[name] for name in ("dim_qk", "seq_k", "seq_q", "batch", "dtype", "arch", "lse")},
        dim_v=dim_v,
        heads_q=heads_q,
        heads_kv=heads_kv,
        page_size=int(rng.choice(wanted or sizes)),
        causal=masks in ("causal", "both"),
        kv_index=kv_index,
    )


def covering(sizes: dict[str, Sequence[Any]], seed: int = 0) -> Iterator[dict[str, Any]]:
    """Choices in which each pair of values of two sizes occurs: the best of some random ones, again and again."""
    rng = np.random.default_rng(seed)
    names = list(sizes)
    missing = {
        (a, i, b, j) for a, b in combinations(names, 2) for i in range(len(sizes[a])) for j in range(len(sizes[b]))
    }

    def pairs(choice: dict[str, int]) -> set[tuple[str, int, str, int]]:
        return {(a, choice[a], b, choice[b]) for a, b in combinations(names, 2)}

    while missing:
        start = sorted(missing)[0]
        options = [{n: int(rng.integers(len(sizes[n]))) for n in names} for _ in range(60)]
        for option in options:
            option[start[0]], option[start[2]] = start[1], start[3]
        best = max(options, key=lambda o: len(pairs(o) & missing))
        missing -= pairs(best)
        yield {n: sizes[n][i] for n, i in best.items()}


SAMPLE = list(enumerate(covering(SIZES)))


@pytest.mark.parametrize(("seed", "choice"), SAMPLE, ids=[f"{i}" for i, _ in SAMPLE])
def test_each_pair_of_sizes(seed: int, choice: dict[str, Any]) -> None:
    check(paged(choice, seed), seed=seed)


NAMED: dict[str, dict[str, Any]] = {
    "pages of 96": {"seq_q": 5, "seq_k": 99, "dim_qk": 64, "page_size": 96},
    "pages of 512": {"seq_q": 5, "seq_k": 64, "dim_qk": 64, "page_size": 512},
    "pages of 520": {"seq_q": 5, "seq_k": 130, "dim_qk": 64, "page_size": 520},
    "pages of 4096": {"seq_q": 64, "seq_k": 128, "dim_qk": 64, "page_size": 4096},
    "pages of 1": {"seq_q": 2, "seq_k": 5, "dim_qk": 8, "page_size": 1},
    "GQA with 64 pages": {"heads_q": 4, "heads_kv": 2, "seq_q": 64, "seq_k": 512, "dim_qk": 64, "page_size": 1024},
    "all at once": {
        **{"batch": 3, "heads_q": 6, "heads_kv": 2, "seq_q": 5, "seq_k": 130, "dim_qk": 40, "dim_v": 24},
        **{"page_size": 520, "causal": True, "kv_index": [-1, 77, 129], "lse": True, "scale": 0.37},
    },
    "f32 all at once": {
        **{"batch": 2, "heads_q": 4, "heads_kv": 2, "seq_q": 100, "seq_k": 130, "dim_qk": 40, "dim_v": 80},
        **{"page_size": 520, "causal": True, "kv_index": [-1, 100], "lse": True, "dtype": "f32"},
    },
    "odd everything": {
        **{"batch": 2, "heads_q": 3, "heads_kv": 3, "seq_q": 17, "seq_k": 33, "dim_qk": 35, "dim_v": 7},
        **{"page_size": 165, "causal": True, "kv_index": [32, 5]},
    },
    "one channel": {"seq_q": 3, "seq_k": 9, "dim_qk": 1, "dim_v": 1, "page_size": 3},
    "more channels than a tile": {"seq_q": 3, "seq_k": 20, "dim_qk": 300, "dim_v": 1040, "page_size": 600, "lse": True},
    "transposed": {
        **{"seq_q": 5, "seq_k": 24, "dim_qk": 16, "dim_v": 32, "page_size": 96, "lse": True},
        **{"trans_q": True, "trans_k": True, "trans_v": True, "trans_o": True},
    },
    "no pages": {"heads_q": 4, "heads_kv": 2, "batch": 2, "seq_q": 5, "seq_k": 33, "dim_qk": 40, "kv_index": [-1, 20]},
    "no pages, transposed": {
        **{"heads_q": 2, "heads_kv": 1, "seq_q": 5, "seq_k": 33, "dim_qk": 40},
        **{"trans_q": True, "trans_k": True, "trans_v": True, "trans_o": True},
    },
    "a prefix": {
        **{"batch": 2, "heads_q": 2, "seq_q": 20, "seq_k": 70, "dim_qk": 32, "page_size": 160},
        **{"causal": True, "prefix_offset": (50, -7), "kv_index": [60, 69], "lse": True},
    },
    "a prefix far outside": {
        **{"batch": 2, "seq_q": 20, "seq_k": 70, "dim_qk": 32, "page_size": 160},
        **{"causal": True, "prefix_offset": (1000, -1000), "lse": True},
    },
    "a window": {
        **{"batch": 3, "heads_q": 4, "heads_kv": 2, "seq_q": 5, "seq_k": 70, "dim_qk": 32, "page_size": 160},
        **{"sliding_window": 17, "kv_index": [60, 5, -1], "lse": True},
    },
    "a scale and a bias for each score": {
        **{"batch": 2, "heads_q": 4, "heads_kv": 2, "seq_q": 5, "seq_k": 33, "dim_qk": 40, "page_size": 120},
        **{"scale_input": True, "scale": 0.25, "bias": True, "kv_index": [20, 32], "lse": True},
    },
    "a bias in f32": {
        **{"heads_q": 2, "heads_kv": 1, "seq_q": 20, "seq_k": 70, "dim_qk": 24, "page_size": 56},
        **{"bias": True, "causal": True, "dtype": "f32"},
    },
    "KV index past the end": {
        **{"batch": 2, "seq_q": 5, "seq_k": 70, "dim_qk": 32, "page_size": 160, "kv_index": [70, 2**31 - 1]},
    },
}


@pytest.mark.parametrize("name", NAMED)
def test_named_sizes(name: str) -> None:
    sizes = NAMED[name]
    check(problem(**sizes), seed=1, poison=float("inf") if "odd" in name else float("nan"))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", SIZES["dtype"])
@pytest.mark.parametrize("dim_qk", SIZES["dim_qk"])
@pytest.mark.parametrize("seq_k", SIZES["seq_k"])
def test_every_combination_of_sizes(dtype: str, dim_qk: int, seq_k: int) -> None:
    """All query lengths and masks for these; what is left is drawn."""
    rng = np.random.default_rng((dim_qk, seq_k, len(dtype)))
    for seq_q, masks in product(SIZES["seq_q"], ("none", "causal", "both", "no key")):
        drawn = {name: SIZES[name][int(rng.integers(len(SIZES[name])))] for name in ("dim_v", "pages", "arch", "lse")}
        heads = {"heads": (4, 2) if masks in ("both", "no key") else (1, 1), "batch": 2 if masks == "no key" else 1}
        choice = {"dtype": dtype, "dim_qk": dim_qk, "seq_k": seq_k, "seq_q": seq_q, "masks": masks, **drawn, **heads}
        check(paged(choice, seed=int(rng.integers(1 << 30))))


@pytest.mark.slow
@pytest.mark.parametrize("page_size", [96, 512, 520, 1024, 4096, 8192])
@pytest.mark.parametrize("seq_q", SIZES["seq_q"])
@pytest.mark.parametrize("dtype", SIZES["dtype"])
def test_every_page_size(page_size: int, seq_q: int, dtype: str) -> None:
    """Head size 64, the shortest and a long cache that such pages divide, all masks, both architectures."""
    shortest = next(n for n in range(1, 10000) if n * 64 % page_size == 0)
    for seq_k, masks, arch in product((shortest, 1000 // shortest * shortest), SIZES["masks"], SIZES["arch"]):
        if seq_k:
            choice = {"dim_qk": 64, "seq_k": seq_k, "seq_q": seq_q, "dim_v": "same", "pages": "a row", "masks": masks}
            p = paged({**choice, "heads": (4, 2), "batch": 1, "dtype": dtype, "arch": arch, "lse": True}, seed=seq_k)
            check(changed(p, page_size=page_size, num_pages=2 * seq_k * 64 // page_size))


def test_the_architectures_differ_by_name_only() -> None:
    """These have the same instructions; what one computes the other computes, bit by bit."""
    sizes = {"heads_q": 4, "heads_kv": 2, "seq_q": 5, "seq_k": 33, "dim_qk": 40, "page_size": 120}
    for dtype in SIZES["dtype"]:
        modules = [module_at(problem(**sizes, dtype=dtype, arch=arch), DEVICE).clone() for arch in ("gfx90a", "gfx942")]
        for module in modules:
            del kernel_of(module).attributes["arch"]
        assert modules[0].is_structurally_equivalent(modules[1])


# ---- properties of random problems


@st.composite
def problems(draw: st.DrawFn) -> AttentionProblem:
    """Any small problem with pages."""
    heads_kv = draw(st.integers(1, 3))
    keys, d = draw(st.integers(1, 70)), draw(st.integers(1, 72))
    dim_v = draw(st.one_of(st.just(d), st.integers(1, 72)))
    batch = draw(st.integers(1, 2))
    with_index = draw(st.booleans())
    causal = draw(st.booleans())
    offsets = st.tuples(*[st.integers(-30, 80)] * batch)
    arch = draw(st.sampled_from(SIZES["arch"]))
    return problem(
        arch=arch,
        batch=batch,
        heads_kv=heads_kv,
        heads_q=heads_kv * draw(st.integers(1, 4)),
        seq_q=draw(st.integers(1, 40)),
        seq_k=keys,
        dim_qk=d,
        dim_v=dim_v,
        dtype=draw(st.sampled_from(["f16", "bf16"] if arch.startswith("gfx1") else ["f16", "bf16", "f32"])),
        page_size=draw(st.sampled_from(page_sizes(heads_kv, keys, d, dim_v))),
        causal=causal,
        prefix_offset=draw(st.one_of(st.just(False), offsets)) if causal else False,
        kv_index=draw(st.tuples(*[st.integers(-1, keys)] * batch)) if with_index else False,
        sliding_window=draw(st.one_of(st.none(), st.integers(1, keys))) if with_index else None,
        scale=draw(st.sampled_from([None, 0.5])),
        lse=draw(st.booleans()),
        trans_q=draw(st.booleans()),
        trans_k=draw(st.booleans()),
        trans_v=draw(st.booleans()),
        trans_o=draw(st.booleans()),
    )


@settings(max_examples=15)
@given(problems(), st.integers(0, 1000))
def test_any_problem(p: AttentionProblem, seed: int) -> None:
    check(p, seed=seed)


@pytest.mark.slow
@settings(max_examples=400)
@given(problems(), st.integers(0, 1000))
def test_many_problems(p: AttentionProblem, seed: int) -> None:
    check(p, seed=seed)


def test_every_length_of_a_short_cache() -> None:
    """The KV index on both sides of every tile edge: 33 batch entries, all lengths from none to all."""
    check(problem(batch=34, seq_q=1, seq_k=33, dim_qk=16, page_size=48, kv_index=list(range(-1, 33)), lse=True))


# ---- what must not matter, and what must

PAGED = problem(
    batch=2, heads_q=4, heads_kv=2, seq_q=3, seq_k=60, dim_qk=24, page_size=120, kv_index=[40, 59], lse=True
)
LINE = 1 << 32  # offsets in a page may be 32 bits wide, addresses may not


@pytest.mark.parametrize("level", BOTH)
def test_placement_and_dead_slots_change_no_bit(level: Level) -> None:
    inputs = Inputs.random(PAGED)
    reference = run(inputs, level)
    assert not errors(inputs, reference)
    size = PAGED.page_size
    assert size is not None
    for placement in (
        Placement(seed=1),
        Placement(seed=2, poison=float("-inf")),
        Placement(seed=3, poison=1e4),
        Placement(seed=4, poison=0.0, unmap=False),
        Placement(seed=5, unmap=False),
        Placement(seed=6, bases=(7 * LINE - 16 * size, 9 * LINE - 16 * 80)),  # pages on both sides of a line
        Placement(seed=7, bases=((1 << 63) - 16 * size, 3 * LINE // 2)),
    ):
        assert run(inputs, level, placement=placement) == reference


@pytest.mark.parametrize("level", BOTH)
@pytest.mark.parametrize("table", ["k", "v"])
def test_exchanging_two_entries_of_one_table_is_seen(level: Level, table: str) -> None:
    inputs = Inputs.random(PAGED)
    swapped = run(inputs, level, placement=Placement(swap=(table, 0, 1)))
    (wrong,) = errors(inputs, swapped)  # not the LSE: the same scores in another order
    assert wrong.startswith("out")
    assert not (swapped == run(inputs, level))


@pytest.mark.parametrize("level", BOTH)
def test_a_change_of_any_kept_key_is_seen_and_of_a_dead_one_is_not(level: Level) -> None:
    inputs = Inputs.random(PAGED)
    reference = run(inputs, level)
    for (batch, key), channel, cache in product(((0, 0), (0, 40), (0, 41), (1, 59)), (0, 23), ("k", "v")):
        values = getattr(inputs, cache).values.copy()
        values[batch, 1, key, channel] += 8
        alive = np.ones_like(inputs.k.alive)  # so that dead slots hold numbers
        others = {c: Cache(getattr(inputs, c).values, alive) for c in ("k", "v")}
        others[cache] = Cache(values, alive)
        changed_inputs = Inputs(PAGED, inputs.q, others["k"], others["v"], inputs.kv_index)
        assert (run(changed_inputs, level) == reference) == ((batch, key) == (0, 41))


@pytest.mark.parametrize("level", BOTH)
def test_pages_may_be_shared(level: Level) -> None:
    """Both sequences read the pages of the first one (a common prefix)."""
    p = changed(PAGED, kv_index=(40, 30))
    inputs = Inputs.random(p)
    first = [Cache(np.repeat(c.values[:1], 2, axis=0), c.alive) for c in (inputs.k, inputs.v)]

    def share(memory: Memory, args: list[MemRef]) -> None:
        for table in args[1:3]:
            base, half = int(table.base[0]), table.shape[0] // 2
            memory.write_array(base + 8 * half, memory.read_array(base, table.dtype, half))

    both = Inputs(p, inputs.q, first[0], first[1], inputs.kv_index)
    shared = run(inputs, level, setup=share, placement=Placement(unmap=False, poison=0.0))
    assert shared == run(both, level)
    assert not errors(both, shared)


@pytest.mark.parametrize("level", BOTH)
def test_a_kept_page_that_is_not_mapped_is_a_fault_that_names_it(level: Level) -> None:
    def lose(memory: Memory, args: list[MemRef]) -> None:
        memory.write_array(int(args[2].base[0]) + 8 * 3, np.array([0xDEAD0000]))

    with pytest.raises(MemoryFault, match="0xdead00") as fault:
        run(Inputs.random(PAGED), level, setup=lose)
    assert "load" in fault.value.render()


@pytest.mark.parametrize("level", BOTH)
def test_workgroups_do_not_depend_on_each_other(level: Level) -> None:
    p = problem(batch=2, heads_q=2, heads_kv=1, seq_q=40, seq_k=33, dim_qk=16, page_size=48)
    inputs = Inputs.random(p)
    whole = run(inputs, level)
    one = run(inputs, level, groups=[1])
    mine = ~np.isnan(one.out)
    assert 0 < mine.sum() < mine.size
    np.testing.assert_array_equal(one.out[mine], whole.out[mine])


def test_all_of_the_output_is_written_and_nothing_else() -> None:
    """Buffers start as NaN and `errors` sees those; a write past a buffer is a fault.  Inputs stay as they are."""
    inputs = Inputs.random(PAGED)
    seen: list[tuple[Memory, list[MemRef]]] = []
    run(inputs, setup=lambda memory, args: seen.append((memory, args)))
    memory, args = seen[0]
    np.testing.assert_array_equal(
        memory.read_array(int(args[0].base[0]), inputs.q.dtype, inputs.q.size), inputs.q.ravel()
    )


# ---- every choice of tile sizes


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_any_tile_sizes_give_the_same_attention(dtype: str) -> None:
    p = problem(
        heads_q=2,
        heads_kv=1,
        seq_q=20,
        seq_k=75,
        dim_qk=50,
        page_size=150,
        kv_index=[70],
        causal=True,
        dtype=dtype,
        lse=True,
    )
    inputs = Inputs.random(p)
    choices = list(product((16, 48, 64), ((1, 1), (1, 2), (1, 4), (2, 2), (3, 1), (4, 1)), ((64, 64), (16, 32))))
    for keys, (query_waves, key_waves), (chunk, value_channels) in choices[:: 9 if dtype == "f32" else 5]:
        module = module_at(p, Level.ROCK_MEMREF).clone()
        (op,) = [op for op in module.walk() if isinstance(op, AttentionOp)]
        op.params0 = AttentionParamsAttr.of(
            keys_per_tile=keys,
            query_waves=query_waves,
            key_waves=key_waves,
            channel_chunk=chunk,
            value_channels=value_channels,
        )
        tiles = lowered(module, "gemm-to-gridwise,gridwise-to-tile,place-barriers")
        assert not errors(inputs, run(inputs, TILE, module=tiles)), op.params0
        assert not errors(inputs, run(inputs, module=lowered(tiles, "tile-to-device"))), op.params0


@pytest.mark.parametrize("level", BOTH)
@pytest.mark.parametrize("passes", ["cse,dce", "licm", "canonicalize"])
def test_standard_passes_change_no_bit(level: Level, passes: str) -> None:
    """They may move descriptors and arithmetic, never a load across a store or a barrier."""
    inputs = Inputs.random(PAGED)
    assert run(inputs, level, module=lowered(module_at(PAGED, level), passes)) == run(inputs, level)
