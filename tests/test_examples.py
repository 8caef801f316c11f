"""The shipped modules: every level of each computes what float64 does, on shuffled, poisoned pages."""

from importlib.resources import files

import pytest

from xpaged.errors import XpagedError
from xpaged.interpreter.run import run
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module

NAMES = ("decode", "decode_tosa", "prefill", "prefill_tosa")


def text(name: str) -> str:
    return (files("xpaged.examples") / f"{name}.mlir").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_they_round_trip_and_stay_small(name: str):
    module = parse(text(name), f"{name}.mlir")
    printed = print_module(module)
    assert print_module(parse(printed)) == printed
    assert len(text(name)) < 100_000


def test_all_of_them_are_here():
    shipped = {path.name for path in files("xpaged.examples").iterdir() if path.name.endswith(".mlir")}
    assert shipped == {f"{name}.mlir" for name in NAMES}


@pytest.mark.parametrize("name", ["decode", "decode_tosa"])
def test_decode(name: str):
    report = run(parse(text(name)), level="all", seed=11, check=True)
    assert report.ok, report.as_json()
    first = Level.MIGRAPHX if name == "decode" else Level.TOSA
    assert {level.value for level in Level if first <= level < Level.HOST} <= report.levels.keys()


def test_prefill():
    report = run(parse(text("prefill_tosa")), level="device", seed=11, check=True, blocks=2)
    assert report.ok, report.as_json()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prefill", "prefill_tosa"])
def test_prefill_at_every_level(name: str):
    report = run(parse(text(name)), level="all", seed=11, check=True, blocks=4)
    assert report.ok, report.as_json()


def test_a_change_of_the_graph_is_noticed():
    """One page offset that is not i * sizeof: the addresses are refused, not misread."""
    changed = text("decode").replace("dense<[0, 2, 4, 6, 8,", "dense<[0, 2, 4, 8, 6,")
    assert changed != text("decode")
    with pytest.raises(XpagedError, match="not an affine function"):
        run(parse(changed, "decode.mlir"), level="rock", seed=11, check=True)
