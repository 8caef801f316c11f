"""Attention over pages at level rock-memref: the properties that make a paged cache a paged cache."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from paged import Case, cases

from xpaged.errors import XpagedError
from xpaged.interpreter.run import run

FEW = settings(max_examples=25)


def outputs(case: Case, inputs: dict[str, Any], level: str = "rock-memref") -> list[Any]:
    report = run(case.module(), inputs, level=level)
    assert report.ok, report.faults
    return [o.values for o in report.levels[level].outputs]


def same(a: list[Any], b: list[Any]) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))


@FEW
@given(cases())
def test_agrees_with_the_definition(case: Case) -> None:
    data = case.data()
    got = outputs(case, data.inputs())
    out, lse = data.expected()
    tolerance = {"f16": 4e-3, "bf16": 3.2e-2, "f32": 1e-5}[case.dtype]
    np.testing.assert_allclose(got[0].reshape(out.shape).astype(float), out, rtol=tolerance, atol=tolerance)
    if case.lse:
        np.testing.assert_allclose(got[1].reshape(lse.shape), lse, rtol=1e-5, atol=1e-4)


@FEW
@given(cases())
def test_the_check_of_a_run_agrees(case: Case) -> None:
    report = run(case.module(), case.data().inputs(), level="rock-memref", check=True)
    assert report.ok, report.as_json()
    assert all(o.max_error is not None for o in report.levels["rock-memref"].outputs)


@FEW
@given(cases(), st.randoms(use_true_random=False))
def test_permuting_the_physical_pages_changes_no_bit(case: Case, random: Any) -> None:
    data = case.data()
    results: list[list[Any]] = []
    for base in (None, 3 << 32, (5 << 32) - 64):
        order = list(range(case.batch * case.num_pages))
        random.shuffle(order)
        place = np.array(order)
        extra = {} if base is None else {"k_table.base": np.array(base)}
        results.append(outputs(case, data.inputs(**{"k_table.place": place, "v_table.place": place[::-1]}, **extra)))
    assert same(results[0], results[1])
    assert same(results[0], results[2])


@FEW
@given(cases(masks=False), st.sampled_from(["k_table.pages", "v_table.pages"]))
def test_swapping_two_entries_of_one_table_changes_the_output(case: Case, table: str) -> None:
    assume(case.num_pages >= 2)
    assume(case.seq_k >= 2)
    assume(case.dtype != "bf16")  # too coarse to show every exchange
    inputs = case.data().inputs()
    swapped = inputs[table].copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    assume(not np.array_equal(swapped, inputs[table]))
    assert not same(outputs(case, inputs), outputs(case, inputs | {table: swapped}))


@FEW
@given(cases(), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_what_lies_past_the_kv_index_changes_no_bit(case: Case, value: float) -> None:
    assume(case.kv_index is not None)
    data = case.data()
    assert same(outputs(case, data.inputs()), outputs(case, data.poisoned(value).inputs()))


@FEW
@given(cases())
def test_pages_past_the_kv_index_may_be_unmapped(case: Case) -> None:
    assume(case.kv_index is not None)
    data = case.data()
    inputs = data.inputs()
    for name, channels in (("k_table", case.dim_qk), ("v_table", case.dim_v)):
        tokens = np.arange(case.heads_kv * case.seq_k).repeat(channels) % case.seq_k
        needed = np.stack([tokens <= index for index in case.kv_index or ()])
        inputs[f"{name}.mapped"] = needed.reshape(case.batch * case.num_pages, -1).any(axis=1)
    assert same(outputs(case, data.inputs()), outputs(case, inputs))


@FEW
@given(cases())
def test_reading_an_unmapped_page_is_a_fault(case: Case) -> None:
    assume(case.kv_index is None or min(case.kv_index) >= case.seq_k - 1)
    assume(case.window is None)
    assume(not case.causal)
    mapped = np.ones(case.batch * case.num_pages, bool)
    mapped[-1] = False
    report = run(case.module(), case.data().inputs(**{"v_table.mapped": mapped}), level="rock-memref")
    assert not report.ok
    (fault,) = report.faults
    assert "rock.attention" in fault["op"]
    assert fault["address"] is not None
    assert "page table" in fault["what"]


@FEW
@given(cases())
def test_pages_may_be_shared(case: Case) -> None:
    """Two entries with the same contents may lead to one page."""
    data = case.data()
    inputs = data.inputs()
    pages = inputs["k_table.pages"].copy()
    pages[:] = pages[0]
    separate = outputs(case, inputs | {"k_table.pages": pages})
    shared = outputs(case, inputs | {"k_table.pages": pages, "k_table.place": np.zeros(len(pages), int)})
    assert same(separate, shared)


def test_a_kv_index_below_minus_one_is_refused() -> None:
    case = Case(kv_index=(-2,))
    with pytest.raises(XpagedError, match="below -1"):
        run(case.module(), case.data().inputs())


def test_an_empty_row_gives_zero_and_minus_infinity() -> None:
    case = Case(batch=2, kv_index=(-1, 3), lse=True)
    out, lse = outputs(case, case.data().poisoned().inputs())
    assert (out[: out.size // 2] == 0).all()
    assert np.isneginf(lse[: lse.size // 2]).all()
    assert np.isfinite(out).all()
    assert np.isfinite(lse[lse.size // 2 :]).all()


def test_the_window_keeps_one_key_more_than_it_looks_back() -> None:
    case = Case(seq_q=1, seq_k=8, kv_index=(5,), window=2)
    data = case.data()
    data.q[:] = 0
    (out,) = outputs(case, data.inputs())
    np.testing.assert_allclose(out.astype(float), data.v[0, 0, 3:6].astype(float).mean(axis=0), atol=2e-3)


def test_misaligned_pages_are_a_fault() -> None:
    case = Case()
    report = run(case.module(), case.data().inputs(**{"k_table.base": np.array((7 << 32) + 8)}))
    assert "misaligned" in str(report.faults) or "cannot place" in str(report.faults)
