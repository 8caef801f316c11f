"""Every option of `xpaged gen`, alone and in all legal pairs: what is generated runs at every level and agrees with
float64; what is illegal is refused with the message of the table."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.gen.table import FACTORS, HARNESS, ILLEGAL, arguments, legal
from tests.pairs import covering_rows, pairs_of
from xpaged.errors import XpagedError
from xpaged.gen import OPTIONS, generate
from xpaged.interpreter.run import run
from xpaged.ir.levels import Level

QUICK = [Level.ROCK_MEMREF, Level.GRIDWISE, Level.TILE, Level.DEVICE]
Row = Mapping[str, str]


def check(row: Row, level: object = "all") -> None:
    """The kernel of a row is right at every level, and functions for the host find nothing."""
    module = generate(arguments(row))
    if row.get("verifier") == "cpu-kernels":
        assert run(module).ok
        return
    report = run(module, level=level, check=True)  # pyright: ignore[reportArgumentType]
    assert report.ok, (arguments(row), report.as_json())
    if row.get("verifier", "host-harness") != "host-harness":
        assert "main printed [1 1 1]" in report.notes


def test_every_option_is_in_a_table() -> None:
    known = {"heads": "num_heads_q num_heads_kv", "pages": "paged-attention num-pages page-size"}
    known |= {"range": "rand_min rand_max rand_min_int rand_max_int", "verifier": "verifier pv pv-strict pv-f64"}
    known["split"] = "split_kv merge_split_kv"
    known["verifier"] += " host-harness cpu-kernels"
    known["thresholds"] = "RMS_threshold absDiff_threshold relDiff_threshold atol rtol"
    names = {option for name in (*FACTORS, *HARNESS) for option in known.get(name, name).split()}
    assert names == {option.name for option in OPTIONS}


def label(row: Row) -> str:
    return " ".join(arguments(row))[-60:]


ROWS = covering_rows(FACTORS, legal)


def test_the_rows_hold_every_legal_pair() -> None:
    held = {(a, row[a], b, row[b]) for row in ROWS for a in FACTORS for b in FACTORS}
    for row in pairs_of(FACTORS, legal):
        changed = [name for name in FACTORS if row[name] != FACTORS[name][0]]
        assert all((a, row[a], b, row[b]) in held for a in changed for b in changed), row
    assert all(legal(row) for row in ROWS)


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_rows_of_kernel_options(number: int) -> None:
    check(ROWS[number], "all" if number % 6 == 0 else QUICK)


HARNESS_ROWS = covering_rows(HARNESS, legal)


@pytest.mark.parametrize("number", range(len(HARNESS_ROWS)))
def test_rows_of_host_options(number: int) -> None:
    check(HARNESS_ROWS[number], Level.ROCK_MEMREF)


@pytest.mark.slow
@pytest.mark.parametrize("row", list(pairs_of(FACTORS, legal)), ids=label)
def test_all_pairs_of_kernel_options(row: Row) -> None:
    check(row)


@pytest.mark.slow
@pytest.mark.parametrize("row", list(pairs_of(HARNESS, legal)), ids=label)
def test_all_pairs_of_host_options(row: Row) -> None:
    check(row)


@pytest.mark.parametrize(("option", "row", "message"), ILLEGAL, ids=[option for option, _, _ in ILLEGAL])
def test_illegal_pairs(option: str, row: Row, message: str) -> None:
    factors = {**FACTORS, **HARNESS}
    verifier = {"verifier": "pv"} if option in HARNESS and option != "t" else {}
    for value in [row[option]] if option in row else factors[option][1:]:
        asked = {**verifier, **row, option: value}
        assert not legal(asked)
        with pytest.raises(XpagedError) as refusal:
            generate(arguments(asked))
        assert message in refusal.value.render()


def test_what_an_option_needs_is_asked_for() -> None:
    """Each `needs` of the table of options, with everything else that the option needs given."""
    values = {"int": "2", "ints": "2", "bool": "true"}
    for option in OPTIONS:
        for needed in option.needs:
            others = [f"--{other}=true" for other in option.needs if other != needed]
            with pytest.raises(XpagedError) as refusal:
                generate([*arguments({}), f"--{option.name}={values[option.kind]}", *others])
            assert f"--{option.name} needs --{needed}: {option.needed_by}" in refusal.value.render()
