"""`xpaged run`: levels, checks, inputs and outputs as files, the JSON object."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xpaged.cli.shell import DONE, REFUSED
from xpaged.codegen.host import unable
from xpaged.ir.levels import Level
from xpaged.ir.printing import print_module
from xpaged.passes.pipelines import passes_between
from xpaged.sizes import attention

Cli = Any
LEVELS = ["rock-memref", "gridwise", "tile", "device"] + (["host"] if unable() is None else [])


def test_all_levels_are_checked(cli: Cli, paged_kernel: str) -> None:
    ended = cli("run", "-", "--level", "all", "--check", "--json", stdin=paged_kernel)
    report = json.loads(ended.out)
    assert (ended.status, ended.err) == (DONE, "")
    assert report["ok"] is True
    assert list(report["levels"]) == LEVELS
    for level in report["levels"].values():
        (output,) = level["outputs"]
        assert set(output) == {"name", "max_error", "bound", "nan"}
        assert output["max_error"] <= output["bound"]
    assert report["faults"] == []


def test_a_check_without_a_level_is_one_of_all_levels(cli: Cli, paged_kernel: str) -> None:
    report = json.loads(cli("run", "-", "--check", "--json", stdin=paged_kernel).out)
    assert list(report["levels"]) == LEVELS
    report = json.loads(cli("run", "-", "--json", stdin=paged_kernel).out)
    assert list(report["levels"]) == LEVELS[:1]


def test_the_report_for_people(cli: Cli, paged_kernel: str) -> None:
    ended = cli("run", "-", "--level", "all", "--check", "--random", "3", stdin=paged_kernel)
    assert ended.status == DONE
    lines = ended.out.splitlines()
    assert [line.split()[0] for line in lines[: len(LEVELS)]] == LEVELS
    assert lines[-1] == "ok"


def test_a_program_below_gridwise_cannot_be_checked(cli: Cli, paged_kernel: str) -> None:
    lowered = cli("opt", "-", "-p", ",".join(passes_between(Level.ROCK_MEMREF, Level.TILE)), stdin=paged_kernel)
    ended = cli("run", "-", "--level", "tile", "--check", "--json", stdin=lowered.out)
    assert (ended.status, ended.out) == (REFUSED, "")
    assert "does not say what it should compute" in ended.err
    assert cli("run", "-", "--level", "tile", stdin=lowered.out).status == DONE


def test_a_fault_has_status_1_and_is_told_with_its_place(cli: Cli, paged_kernel: str, tmp_path: Path) -> None:
    mapped = np.array([True, False, True, True])
    pages = np.ones((4, 32), np.float16)
    arrays: dict[str, Any] = {"q": np.ones(40, np.float16), "kv_index": np.array([15], np.int32)}
    arrays |= {"arg1.pages": pages, "arg2.pages": pages, "arg2.mapped": mapped}
    np.savez(tmp_path / "in.npz", **arrays)
    argv = ("run", "-", "--level", "device", "--inputs", tmp_path / "in.npz")
    ended = cli(*argv, "--json", stdin=paged_kernel)
    assert (ended.status, ended.err) == (REFUSED, "")
    report = json.loads(ended.out)
    assert (report["ok"], report["levels"]["device"]["ok"]) == (False, False)
    (fault,) = report["faults"]
    assert fault["level"] == "device"
    assert int(fault["address"], 16) > 0
    assert fault["location"].startswith("<stdin>:")
    ended = cli(*argv, stdin=paged_kernel)
    assert ended.status == REFUSED
    assert "fault at level device (bad-access): " in ended.out
    assert ended.out.endswith("failed\n")


def test_the_court_and_what_was_moved(cli: Cli, paged_kernel: str) -> None:
    argv = ("run", "-", "--level", "device", "--court", "--stats")
    ended = cli(*argv, "--json", stdin=paged_kernel)
    report = json.loads(ended.out)
    assert (ended.status, report["faults"]) == (DONE, [])
    stats = report["levels"]["device"]["stats"]
    assert stats["global"]["writes"]["out"]["distinct_bytes"] == 5 * 8 * 2
    ended = cli(*argv, stdin=paged_kernel)
    assert "  writes out: 80 bytes, 80 of them distinct" in ended.out
    assert "  LDS reads: " in ended.out
    assert " x mfma_f32_16x16x16_f16" in ended.out


def test_the_court_names_the_kind_the_place_and_the_owner(cli: Cli) -> None:
    kernel = print_module(attention(seq_q=1, seq_k=256, dim_qk=8, page_size=32, kv_index=True))
    lowered = cli("opt", "-", "-p", ",".join(passes_between(Level.ROCK_MEMREF, Level.DEVICE)), stdin=kernel).out
    assert "hip.barrier" in lowered
    text = lowered.replace("hip.barrier\n", "\n", 1)
    ended = cli("run", "-", "--level", "device", "--court", "--json", stdin=text)
    assert ended.status == REFUSED
    fault = next(f for f in json.loads(ended.out)["faults"] if f["kind"] == "race")
    assert fault["op"].split(" = ")[1].startswith("hip.lds_load")
    assert fault["location"].startswith("<stdin>:")
    assert int(fault["address"], 16) > 0
    assert fault["owner"].startswith("lane ")
    assert fault["count"] > 1
    ended = cli("run", "-", "--level", "device", "--court", stdin=text)
    assert f"fault at level device (race, {fault['count']} times): lane " in ended.out


def test_inputs_and_outputs_are_files(cli: Cli, paged_kernel: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pages = rng.standard_normal((2, 4, 32)).astype(np.float16)
    arrays = {
        "arg0": rng.standard_normal(5 * 8).astype(np.float16),
        "arg1.pages": pages[0],
        "arg1.place": np.array([3, 1, 0, 2]),
        "v_table.pages": pages[1],
        "kv_index": np.array([9], np.int32),
    }
    np.savez(tmp_path / "in.npz", **arrays)  # pyright: ignore[reportArgumentType]
    argv = ("run", "-", "--level", "all", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert cli(*argv, stdin=paged_kernel).status == DONE
    found = np.load(tmp_path / "out.npz")
    assert set(found) == {f"{level}/out0" for level in LEVELS}
    keys, values = (page.reshape(16, 8)[:10].astype(np.float64) for page in pages)
    scores = np.exp(arrays["arg0"].reshape(5, 8) @ keys.T)
    expected = scores / scores.sum(axis=1, keepdims=True) @ values
    for level in LEVELS:
        np.testing.assert_allclose(found[f"{level}/out0"].reshape(5, 8), expected, atol=3e-3)


@pytest.mark.parametrize(
    ("name", "content"),
    [("nothing.npz", None), ("text.npz", b"no archive"), ("cut.npz", b"PK\x03\x04abc"), ("one.npy", b"")],
)
def test_files_that_are_no_arrays_are_refused(
    cli: Cli, paged_kernel: str, tmp_path: Path, name: str, content: bytes | None
) -> None:
    path = tmp_path / name
    if name.endswith(".npy"):
        np.save(path, np.zeros(3))
    elif content is not None:
        path.write_bytes(content)
    ended = cli("run", "-", "--inputs", path, stdin=paged_kernel)
    assert (ended.status, ended.out) == (REFUSED, "")
    assert "internal error" not in ended.err
    assert str(path) in ended.err


def test_pickled_arrays_are_refused(cli: Cli, paged_kernel: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", arg0=np.array([object()]))
    ended = cli("run", "-", "--inputs", tmp_path / "in.npz", stdin=paged_kernel)
    assert (ended.status, ended.out) == (REFUSED, "")
    assert "is not a file of arrays" in ended.err


def test_an_unwritable_output_is_refused(cli: Cli, paged_kernel: str, tmp_path: Path) -> None:
    (tmp_path / "out.npz").mkdir()
    ended = cli("run", "-", "--outputs", tmp_path / "out.npz", "--json", stdin=paged_kernel)
    assert (ended.status, ended.out) == (REFUSED, "")
    assert "cannot write" in ended.err


@pytest.mark.parametrize("argv", [("--blocks", "0"), ("--level", "tosa"), ("--arch", "gfx000")])
def test_wrong_values_are_refused(cli: Cli, paged_kernel: str, argv: tuple[str, str]) -> None:
    ended = cli("run", "-", "--level", "device", *argv, stdin=paged_kernel)
    assert (ended.status, ended.out) == (REFUSED, "")
    assert ended.err.count("error:") == 1


@pytest.mark.parametrize("option", ["--court", "--stats"])
def test_the_court_says_when_it_does_not_sit(option: str, cli: Any, tmp_path: Path, paged_kernel: str) -> None:
    path = tmp_path / "k.mlir"
    path.write_text(paged_kernel)

    def said(*options: str) -> bool:
        ended = cli("run", path, *options)
        assert ended.status == DONE, ended
        return "those of level device, which was not run" in ended.out + ended.err

    assert said("--level", "tile", option)
    assert not said("--level", "device", option)
    assert not said("--level", "tile", "--check")
