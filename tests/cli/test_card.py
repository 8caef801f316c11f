"""`xpaged card`: text, JSON, refusals."""

import json
from typing import Any

from xpaged.cli.shell import DONE, REFUSED, USAGE

Cli = Any


def test_json_is_one_object_and_text_is_for_reading(cli: Cli, paged_kernel: str) -> None:
    ended = cli("card", "-", "--arch", "gfx942", "--toolchain", "bundled", "--json", stdin=paged_kernel)
    assert ended.status == DONE
    data = json.loads(ended.out)
    assert (data["name"], data["arch"], data["kernels"][0]["resources"]["scratch_bytes"]) == (
        *("rock_attention", "gfx942"),
        0,
    )
    assert "gfx942 was compiled by bundled clang" in ended.err


def test_an_architecture_without_a_model(cli: Cli, paged_kernel: str) -> None:
    ended = cli("card", "-", "--arch", "gfx1201", "--toolchain", "bundled", stdin=paged_kernel)
    assert ended.status == DONE
    assert "there is no model of gfx1201 yet" in ended.out
    assert "VGPR" in ended.out


def test_refusals(cli: Cli, paged_kernel: str) -> None:
    unknown = cli("card", "-", "--arch", "gfx943", stdin=paged_kernel)
    assert (unknown.status, unknown.out) == (REFUSED, "")
    assert "unknown architecture 'gfx943'" in unknown.err
    empty = cli("card", "-", "--arch", "gfx942", stdin="module {}")
    assert (empty.status, empty.out) == (REFUSED, "")
    assert "no function to compile" in empty.err
    assert cli("card", "-", "--toolchain", "gcc", stdin=paged_kernel).status == USAGE
