"""`xpaged.run`: levels, checks, faults; and that the checks can fail."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from paged import Case, cases

import xpaged
from xpaged.errors import XpagedError
from xpaged.interpreter import run as runner
from xpaged.interpreter.inputs import Inputs
from xpaged.interpreter.run import run
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.passes.pipelines import lower

KERNEL_LEVELS = ["rock-memref", "gridwise", "tile", "device"]
CASE = Case(
    batch=2, heads_q=4, heads_kv=2, seq_q=5, seq_k=40, dim_qk=16, dim_v=16, page_size=64, kv_index=(17, 39), lse=True
)


def run_all(module: Any, inputs: Any = None, **options: Any) -> dict[str, Any]:
    """Runs every level down to device; they must be fine. (The text's level is slower to make and has tests itself.)"""
    report = run(module, inputs, level=[Level(name) for name in KERNEL_LEVELS], **options)
    assert report.ok, report.as_json()
    assert list(report.levels) == KERNEL_LEVELS
    return report.arrays()


def test_every_level_from_the_modules_own_is_run_and_checked() -> None:
    report = run(CASE.module(), level="all", check=True, seed=3)
    assert report.ok, report.as_json()
    assert list(report.levels)[:4] == KERNEL_LEVELS
    for level in report.levels.values():
        assert [o.name for o in level.outputs] == ["out", "lse"]
        assert all(o.max_error is not None and o.bound is not None for o in level.outputs)
    assert list(run(CASE.module()).levels) == ["rock-memref"]
    assert any("gfx942" in note for note in report.notes)


@settings(max_examples=12)
@given(cases())
def test_random_problems_at_every_level(case: Case) -> None:
    run_all(case.module(), case.data().poisoned().inputs(), check=True)


@settings(max_examples=6)
@given(cases())
def test_placement_changes_no_bit_at_the_device_level(case: Case) -> None:
    data = case.data()
    entries = case.batch * case.num_pages
    results = [
        run(case.module(), data.inputs(**{"k_table.place": place, "v_table.place": place[::-1]}), level="device")
        for place in (np.arange(entries), np.random.default_rng(0).permutation(entries))
    ]
    a, b = ([o.values.tobytes() for o in r.levels["device"].outputs] for r in results)
    assert a == b


def test_the_module_is_not_changed() -> None:
    module = CASE.module()
    before = str(module)
    run(module, level="device", check=True)
    assert str(module) == before


def test_inputs_are_reproducible_from_the_seed() -> None:
    a, b, c = (run(CASE.module(), seed=seed).arrays() for seed in (1, 1, 2))
    assert a["rock-memref/out0"].tobytes() == b["rock-memref/out0"].tobytes()
    assert a["rock-memref/out0"].tobytes() != c["rock-memref/out0"].tobytes()
    assert set(a) == {"rock-memref/out0", "rock-memref/out1"}


def mutated(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Inputs], Inputs], case: Case = CASE, **options: Any
) -> Any:
    """A checked run in which what the levels see is `change`d, but not what the reference sees."""
    original = runner.place

    def wrong(arguments: Any, inputs: Inputs, memory: Any, poison: bool) -> Any:
        return original(arguments, change(inputs), memory, poison)

    monkeypatch.setattr(runner, "place", wrong)
    return run(case.module(), check=True, **options)


def swap_entries(table: int) -> Callable[[Inputs], Inputs]:
    """Entries 0 and 1 lead to each other's page."""

    def change(inputs: Inputs) -> Inputs:
        data = inputs.pages[table].data.copy()
        data[[0, 1]] = data[[1, 0]]
        return replace(inputs, pages={**inputs.pages, table: replace(inputs.pages[table], data=data)})

    return change


def other_length(step: int) -> Callable[[Inputs], Inputs]:
    return lambda inputs: replace(inputs, arrays={**inputs.arrays, 3: inputs.arrays[3] + np.int32(step)})


MUTANTS: dict[str, Callable[[Inputs], Inputs]] = {
    "two entries of the K table swapped": swap_entries(1),
    "two entries of the V table swapped": swap_entries(2),
    "one key too few": other_length(-1),
    "one key too many": other_length(1),
}


@pytest.mark.parametrize("level", KERNEL_LEVELS)
@pytest.mark.parametrize("mutant", MUTANTS)
@pytest.mark.parametrize("keys", [64, 1024])
def test_mutants_are_caught(monkeypatch: pytest.MonkeyPatch, mutant: str, level: str, keys: int) -> None:
    case = Case(heads_q=2, heads_kv=1, seq_q=2, seq_k=keys, dim_qk=32, dim_v=32, page_size=512, kv_index=(0,))
    report = mutated(monkeypatch, MUTANTS[mutant], case, level=level, seed=1)
    assert not report.ok


def test_no_mutant_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert mutated(monkeypatch, lambda inputs: inputs, level="device").ok


def test_outputs_that_are_not_written_are_faults() -> None:
    module = parse("""func.func @f(%x: memref<4xf32>, %y: memref<4xf32> {rock.output = 0 : i32}) {
      %c1 = arith.constant 1 : index
      %v = memref.load %x[%c1] : memref<4xf32>
      memref.store %v, %y[%c1] : memref<4xf32>
      return
    }""")
    report = run(module, {"x": np.zeros(4, np.float32)})
    assert not report.ok
    (fault,) = report.faults
    assert "3 of 4 elements of output 'y' were never written, the first is element 0" in fault["what"]


def test_a_fault_is_reported_with_operation_place_and_address() -> None:
    module = parse(
        """func.func @f(%x: memref<4xf32>, %y: memref<4xf32> {rock.output = 0 : i32}) attributes {rock.kernel} {
      %c4 = arith.constant 4 : index
      %v = memref.load %x[%c4] : memref<4xf32>
      memref.store %v, %y[%c4] : memref<4xf32>
      return
    }""",
        "k.mlir",
    )
    report = run(module, {"x": np.zeros(4, np.float32)})
    (fault,) = report.faults
    assert fault["location"] == "k.mlir:3:12"
    assert fault["op"].startswith("%v = memref.load")
    assert fault["address"].startswith("0x")
    assert "0 bytes past the end of x" in fault["what"]
    assert report.as_json()["ok"] is False


def test_blocks_run_some_workgroups_and_compare_their_rows() -> None:
    case = Case(heads_q=8, heads_kv=8, seq_q=70, seq_k=16, dim_qk=16, dim_v=16, page_size=256)
    whole = run(case.module(), level="device", check=True)
    some = run(case.module(), level="device", check=True, blocks=2)
    assert whole.ok
    assert some.ok
    (a,), (b,) = whole.levels["device"].outputs, some.levels["device"].outputs
    assert a.written.all()
    assert 0 < b.written.sum() < b.written.size
    np.testing.assert_array_equal(a.values[b.written], b.values[b.written])
    with pytest.raises(XpagedError, match="workgroups to run must be positive"):
        run(case.module(), blocks=0)


@pytest.mark.parametrize("level", ["rock-memref", "tile", "device"])
def test_pages_may_lie_far_apart(level: str) -> None:
    """A pool is as large as the pages in it, not as the distance between them."""
    case = Case(seq_k=16, page_size=32)
    rng = np.random.default_rng(0)
    pages = rng.standard_normal((2, 4, 32)).astype(np.float16)
    near = {"q": rng.standard_normal(4 * 8).astype(np.float16), "k_table.pages": pages[0], "v_table.pages": pages[1]}
    far = near | {"k_table.place": np.array([5, 1 << 40, 0, 1 << 40]), "v_table.place": np.array([1 << 35, 3, 2, 9])}
    pages[0, 3] = pages[0, 1]  # one page in two entries
    reports = [run(case.module(), inputs, level=level, check=True) for inputs in (near, far)]
    assert all(r.ok for r in reports), [r.faults for r in reports]
    a, b = (r.levels[level].outputs[0].values for r in reports)
    assert a.tobytes() == b.tobytes()


def test_batches_of_workgroups_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    a = run_all(CASE.module())
    monkeypatch.setattr(runner, "_BATCH_GROUPS", 1)
    monkeypatch.setattr(runner, "_BATCH_LANES", 1)
    b = run_all(CASE.module())
    assert all(a[name].tobytes() == b[name].tobytes() for name in a)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "rock"}, "stands at level rock-memref, which is past rock"),
        ({"level": "tiles"}, "no level 'tiles'"),
        ({"level": ["tile", "tiles"]}, "no level 'tiles'"),
        ({"level": []}, "no level to run"),
        ({"level": "gridwise", "arch": "gfx9421"}, "gfx942"),
        ({"arch": "gfx9421"}, "gfx942"),
        ({"inputs": {}}, "lack 'arg0'"),
        ({"seed": -1}, "must not be negative"),
    ],
)
def test_requests_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(XpagedError) as caught:
        run(CASE.module(), options.pop("inputs", None), **options)
    assert message in caught.value.render()


def test_levels_may_be_named_together() -> None:
    assert list(run(CASE.module(), level=["tile", Level.ROCK_MEMREF, "tile"]).levels) == ["rock-memref", "tile"]


def test_arguments_larger_than_any_memory_are_refused() -> None:
    rows = "memref<1x100000000000000000000x8xf16>"
    module = parse(
        f"""func.func @f(%q: {rows}, %k: memref<1x8x4xf16>, %v: memref<1x4x8xf16>, %o: {rows}) {{
          rock.attention{{
            qk = %q * %k : {rows}, memref<1x8x4xf16>
            %o = softmax(qk) * %v : memref<1x4x8xf16> -> {rows}
          }}
          return
        }}"""
    )
    with pytest.raises(XpagedError, match="larger than any memory"):
        run(module)


def test_a_module_below_gridwise_cannot_be_checked_but_runs() -> None:
    module = lower(CASE.module(), Level.DEVICE)
    assert run(module, CASE.data().inputs()).ok
    with pytest.raises(XpagedError, match="does not say what it should compute"):
        run(module, check=True)


def test_gridwise_modules_can_be_checked() -> None:
    module = lower(CASE.module(), Level.GRIDWISE)
    assert run(module, check=True).ok
    assert run(module, level="device", check=True).ok


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("name", ["trans_q", "trans_k", "trans_v", "trans_o", "scale_input", "bias"])
def test_options_of_the_generator(name: str, dtype: str) -> None:
    from xpaged.sizes import AttentionProblem, build

    changes: dict[str, Any] = {name: True}
    problem = AttentionProblem(
        heads_q=2, heads_kv=2, seq_q=3, seq_k=10, dim_qk=8, dim_v=4, dtype=dtype, page_size=20, num_pages=8
    )
    run_all(build(replace(problem, **changes)), check=True)


@pytest.mark.parametrize("name", ["out0", "out1"])
def test_the_same_from_the_package(name: str) -> None:
    assert f"rock-memref/{name}" in xpaged.run(CASE.module()).arrays()


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("parts", [2, 3, 4])
def test_results_over_parts_of_the_keys_are_merged_before_they_are_compared(dtype: str, parts: int) -> None:
    def module(**changes: Any) -> Any:
        sizes: dict[str, Any] = {"heads_q": 2, "seq_q": 3, "seq_k": 20, "dim_qk": 8, "page_size": 40, "kv_index": (13,)}
        return xpaged.attention(**sizes, dtype=dtype, lse=True, split_kv=parts, **changes)

    report = run(module(), check=True)
    assert report.ok, report.as_json()
    out, lse = report.levels["rock-memref"].outputs
    assert (out.values.size, lse.values.size) == (2 * parts * 3 * 8, 2 * parts * 3)
    assert out.max_error is not None
    assert out.max_error > 0 or dtype == "f32"


def test_a_part_that_is_wrong_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    module = xpaged.attention(heads_q=2, seq_q=3, seq_k=20, dim_qk=8, page_size=40, lse=True, split_kv=2)
    monkeypatch.setattr(runner, "compare", lambda outputs, reference: _spoiled(outputs, reference))
    assert not run(module, check=True).ok


def _spoiled(outputs: Any, reference: Any) -> bool:
    from xpaged.interpreter.compare import compare

    outputs[1].values[4] += 0.25
    return compare(outputs, reference)
