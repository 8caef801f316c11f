"""Arguments, the arrays that are given for them, and how they are laid out in memory."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from paged import Case

from xpaged.errors import XpagedError
from xpaged.interpreter.inputs import Inputs, Pages, arguments_of, as_elements, from_arrays, kernel_of, place, roots_of
from xpaged.interpreter.memory import Memory, MemoryFault
from xpaged.interpreter.reference import capture
from xpaged.interpreter.sampling import random_inputs
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.passes.pipelines import lower

CASE = Case(batch=2, heads_q=4, heads_kv=2, seq_k=8, dim_qk=4, dim_v=8, page_size=16, kv_index=(3, 8), lse=True)
RNG = np.random.default_rng(0)


def arguments(case: Case = CASE, level: Level = Level.ROCK_MEMREF) -> Any:
    return arguments_of(kernel_of(lower(case.module(), level)))


@pytest.mark.parametrize("level", [Level.ROCK_MEMREF, Level.GRIDWISE, Level.TILE, Level.DEVICE])
def test_arguments_are_known_at_every_level(level: Level) -> None:
    found = {a.name: a for a in arguments(level=level)}
    assert list(found) == ["q", "k_table", "v_table", "kv_index", "lse", "out"]
    assert [a.is_table for a in found.values()] == [False, True, True, False, False, False]
    assert (found["k_table"].page_size, found["v_table"].page_size) == (16, 32)
    assert found["k_table"].page_dtype == np.float16
    assert (found["out"].output, found["lse"].output) == (0, 1)
    assert found["kv_index"].dtype == np.int32


def test_tables_and_outputs_are_found_without_attributes() -> None:
    module = CASE.module()
    function = kernel_of(module)
    function.arg_attrs = None
    found = {a.name: a for a in arguments_of(function)}
    assert (found["k_table"].page_size, found["out"].output, found["lse"].output) == (16, 0, 1)


def given(**changes: Any) -> Inputs:
    return from_arrays(arguments(), CASE.data().inputs(**changes), np.random.default_rng(0))


def test_names_and_numbers_mean_the_same() -> None:
    by_name = CASE.data().inputs()
    numbers = {"q": "arg0", "k_table.pages": "arg1.pages", "v_table.pages": "arg2.pages", "kv_index": "arg3"}
    by_number = {numbers[name]: value for name, value in by_name.items()}
    a, b = (from_arrays(arguments(), x, np.random.default_rng(0)) for x in (by_name, by_number))
    assert all((a.arrays[i] == b.arrays[i]).all() for i in a.arrays)
    assert all((a.pages[i].data == b.pages[i].data).all() for i in a.pages)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"qq": np.zeros(1)}, "no input is called 'qq'"),
        ({"q": np.zeros(3)}, "wrong number of elements"),
        ({"q": np.zeros(128, np.int32)}, "wrong element type"),
        ({"kv_index": np.array([1.0, 2.0])}, "wrong element type"),
        ({"kv_index": np.array([1, 2**40])}, "wrong element type"),
        ({"k_table.pages": np.zeros((3, 16), np.float16)}, "pages of table 'arg1'"),
        ({"k_table.pages": np.zeros((16, 8), np.float16)}, "expected: 8 pages of 16 elements"),
        ({"k_table.place": np.zeros(3, int)}, "places of table"),
        ({"k_table.place": np.arange(8) - 1}, "places of table"),
        ({"k_table.place": np.arange(8) * 1.0}, "places of table"),
        ({"k_table.place": np.append(np.arange(7), 2**63 - 1)}, "beyond any memory"),
        ({"k_table.base": -64}, "one 64-bit address"),
        ({"k_table.base": 2**64}, "one 64-bit address"),
        ({"k_table.base": 1.5}, "one 64-bit address"),
        ({"k_table.base": [64, 128]}, "one 64-bit address"),
        ({"kv_index": [1, [2]]}, "'kv_index' is not an array"),
        ({"k_table.mapped": np.ones(3, bool)}, "one flag an entry"),
        ({"k_table.place": np.zeros(8, int)}, "share place 0 but hold different pages"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    if "q" in changes and changes["q"].dtype == np.int32:
        changes["q"] = np.zeros(CASE.data().q.size, np.int32)
    with pytest.raises(XpagedError) as caught:
        given(**changes)
    assert message in caught.value.render()


def test_a_missing_input_is_named() -> None:
    with pytest.raises(XpagedError, match=r"lack 'arg0' \(or 'q'\)"):
        from_arrays(arguments(), {}, RNG)
    inputs = CASE.data().inputs()
    del inputs["k_table.pages"]
    with pytest.raises(XpagedError, match="lack the pages of table 'arg1'"):
        from_arrays(arguments(), inputs, RNG)


def test_elements_may_be_given_as_bits_or_as_wider_floats() -> None:
    bf16 = np.dtype(ml_dtypes.bfloat16)
    values = np.array([1.0, -2.5, 3.0], np.float32)
    for given_as in (values, values.astype(bf16), values.astype(bf16).view(np.uint16), values.astype(np.float64)):
        np.testing.assert_array_equal(as_elements(given_as, bf16, "x").astype(np.float32), values)
    with pytest.raises(XpagedError):
        as_elements(values.view(np.uint32), bf16, "x")


def placed(inputs: Inputs, poison: bool) -> tuple[Memory, Any, Any]:
    """The memory, and the page tables of K and V."""
    memory, args = Memory(), arguments()
    values = place(args, inputs, memory, poison).values
    return memory, *(values[a.index].read_all(memory).view(np.uint64) for a in args if a.is_table)


def test_pages_lie_in_the_order_of_their_places() -> None:
    order = np.array([3, 1, 0, 2, 7, 6, 5, 4])
    memory, table, _ = placed(given(**{"k_table.place": order, "k_table.base": np.array(9 << 32)}), True)
    assert (np.argsort(np.argsort(table)) == order).all()
    assert table.min() == 9 << 32
    for entry, page in enumerate(CASE.data().inputs()["k_table.pages"]):
        np.testing.assert_array_equal(memory.read_array(int(table[entry]), page.dtype, 16), page)


def test_without_a_base_pages_lie_on_both_sides_of_a_4_gib_line() -> None:
    _, k, v = placed(given(), True)
    assert len(set((k >> np.uint64(32)).tolist())) == 2
    assert not set((k >> np.uint64(32)).tolist()) & set((v >> np.uint64(32)).tolist())


def test_an_unmapped_entry_holds_an_address_where_nothing_is() -> None:
    mapped = np.arange(8) != 5
    memory, table, _ = placed(given(**{"k_table.mapped": mapped}), True)
    np.testing.assert_array_equal(memory.is_mapped(table, 32), mapped)
    with pytest.raises(MemoryFault):
        memory.load(table[5:6], np.dtype(np.float16))


def test_outputs_start_as_nan_and_unwritten() -> None:
    memory, args = Memory(), arguments()
    there = place(args, given(), memory, True)
    for arg in args:
        if arg.output is not None:
            base, bytes = there.bases[arg.index], arg.count * arg.dtype.itemsize
            assert not memory.written(base, bytes).any()
            assert np.isnan(memory.read_array(base, arg.dtype, arg.count)).all()


def random(case: Case = CASE, seed: int = 0) -> Inputs:
    module = case.module()
    return random_inputs(arguments_of(kernel_of(module)), np.random.default_rng(seed), module)


def test_random_data_are_reproducible_and_shuffled() -> None:
    a, b, c = random(), random(), random(seed=1)
    assert (a.pages[1].place == b.pages[1].place).all()
    assert (a.pages[1].data == b.pages[1].data).all()
    assert not (a.pages[1].data == c.pages[1].data).all()
    assert (a.pages[1].place != np.arange(8)).any()


def test_everything_past_the_kv_index_is_poison_and_unmapped_where_whole_pages_are() -> None:
    case = Case(batch=2, seq_k=8, dim_qk=4, dim_v=4, page_size=8, kv_index=(2, -1))
    module = case.module()
    args = arguments_of(kernel_of(module))
    inputs = random_inputs(args, np.random.default_rng(0), module)
    inputs.arrays[3] = np.array([2, -1], np.int32)
    from xpaged.interpreter.sampling import mark_dead

    mark_dead(capture(module, inputs), inputs)
    memory = Memory()
    table = place(args, inputs, memory, True).values[1].read_all(memory).view(np.uint64)
    np.testing.assert_array_equal(memory.is_mapped(table, 16), [True, True] + [False] * 6)
    second = memory.read_array(int(table[1]), np.dtype(np.float16), 8)
    assert np.isfinite(second[:4]).all()
    assert np.isnan(second[4:]).all()
    memory = Memory()
    table = place(args, inputs, memory, False).values[1].read_all(memory).view(np.uint64)
    assert memory.is_mapped(table, 16).all()
    assert np.isfinite(memory.load(table, np.dtype(np.float16), 8)).all()


def test_random_scores_spread_and_the_last_key_matters() -> None:
    case = Case(heads_q=2, heads_kv=2, seq_q=8, seq_k=256, dim_qk=64, dim_v=64, page_size=1024, kv_index=(0,))
    module = case.module()
    inputs = random_inputs(arguments_of(kernel_of(module)), np.random.default_rng(0), module)
    (attention,) = capture(module, inputs)
    problem = attention.problem
    assert problem.kv_index is not None
    for g in range(problem.heads):
        valid = np.flatnonzero(problem.valid(g))
        q, k, _ = problem.head(g)
        scores = q @ k[valid].T
        assert 0.5 < scores.std() < 8
        assert scores[:, -1].max() > scores.std() * 2


def test_values_to_run_with_are_taken() -> None:
    module = parse("""func.func @f(%q: memref<4xf32>, %n: memref<2xi32> {rock.default = array<i32: 3, -1>}) {
      return
    }""")
    args = arguments_of(kernel_of(module))
    assert random_inputs(args, RNG, None).arrays[1].tolist() == [3, -1]
    assert from_arrays(args, {"q": np.zeros(4, np.float32)}, RNG).arrays[1].tolist() == [3, -1]


def test_which_function_runs() -> None:
    two = "func.func @a() {\n return\n}\nfunc.func @b() attributes {rock.kernel} {\n return\n}"
    assert kernel_of(parse(two)).sym_name.data == "b"
    with pytest.raises(XpagedError, match="more than one kernel"):
        kernel_of(parse(two.replace(" attributes {rock.kernel}", "")))
    with pytest.raises(XpagedError, match="no function to run"):
        kernel_of(parse("func.func private @a()"))


def test_roots() -> None:
    function = kernel_of(CASE.module())
    attention = next(op for op in function.walk() if op.name == "rock.attention")
    assert [r.index for r in roots_of(attention.operands[1])] == [1]
    assert isinstance(random().pages[1], Pages)
