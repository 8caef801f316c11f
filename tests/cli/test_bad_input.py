"""Every kind of bad input through the command line: one clear message with the values, status 1, nothing written."""

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from xpaged.cli.shell import REFUSED
from xpaged.ir.printing import print_module
from xpaged.sizes import attention

Cli = Any
Changes = Sequence[tuple[str, str]]


@pytest.fixture(scope="module")
def kernel() -> str:
    """A paged kernel: 4 query heads, 2 KV heads, 16 keys of 8 channels, 8 pages of 32 elements."""
    return print_module(attention(heads_q=4, heads_kv=2, seq_q=5, seq_k=16, dim_qk=8, page_size=32), aliases=False)


def changed(text: str, changes: Changes) -> str:
    """`text` with every pattern of `changes` replaced where it first stands; each must stand somewhere."""
    for pattern, new in changes:
        text, count = re.subn(pattern, lambda _, new=new: new, text, count=1, flags=re.DOTALL)
        assert count, pattern
    return text


def check_refused(cli: Cli, text: str, parts: Sequence[str], folder: Path) -> None:
    for argv in (("compile", "-", "--emit", "hip", "-o", folder / "new"), ("run", "-", "--check", "--level", "device")):
        ended = cli(*argv, stdin=text)
        assert (ended.status, ended.out) == (REFUSED, ""), ended
        assert ended.err.count("error: ") == 1, ended.err
        assert re.match(r"<stdin>:\d+:\d+: error: ", ended.err), ended.err
        assert "internal error" not in ended.err
        for part in parts:
            assert part in ended.err, ended.err
        assert list(folder.iterdir()) == []


KERNEL_CHANGES: dict[str, tuple[Changes, Sequence[str]]] = {
    "truncated": ([(r"rock\.attention.*", "")], ["the end of the text"]),
    "unknown operation": ([(r"rock\.deref", "rock.derf")], ["'rock.derf'", "'rock.deref'"]),
    "types that do not match": (
        [(r"memref<160xf16> to", "memref<161xf16> to")],
        ["memref<161xf16>", "memref<160xf16>"],
    ),
    "another element type": ([(r"-> memref<1x8x32xf16>", "-> memref<1x8x32xf32>")], ["f32", "f16"]),
    "a table of rank 2": (
        [(r"rock\.deref %k_table_1 : memref<1x8x1xi64>", "rock.deref %k_table : memref<8xi64>")],
        ["rank 3", "memref<8xi64>"],
    ),
    "value addresses alone": ([(r"keyAddresses = [^\n]*\n", "\n")], ["keyAddresses", "valueAddresses"]),
    "key addresses alone": ([(r"valueAddresses = [^\n]*\n", "\n")], ["keyAddresses", "valueAddresses"]),
    "addresses of the other deref": (
        [(r"keyAddresses = \(%key_pages", "keyAddresses = (%value_pages")],
        ["keyAddresses", "keys"],
    ),
    "addresses that are no deref": (
        [(r"keyAddresses = \(%key_pages : memref<1x8x32xf16>", "keyAddresses = (%queries : memref<4x5x8xf16>")],
        ["keyAddresses"],
    ),
    "a page too few": (
        [(r"%key_pages = [^\n]*", "%key_pages = rock.deref %k_table_1 : memref<1x8x1xi64> -> memref<1x7x32xf16>")],
        ["8", "7"],
    ),
    "heads that do not divide": ([(r"numHeadsQ = 4", "numHeadsQ = 3")], ["3", "2"]),
    "no heads": ([(r"numHeadsKV = 2", "numHeadsKV = 0")], ["0"]),
    "a size of zero": ([(r"-> memref<1x8x32xf16>", "-> memref<1x8x0xf16>")], ["memref<1x8x0xf16>"]),
    "a dynamic shape": ([(r"-> memref<1x8x32xf16>", "-> memref<1x8x?xf16>")], ["memref<1x8x?xf16>"]),
    "an unknown architecture": ([(r"attributes \{", 'attributes {arch = "gfx94", ')], ["gfx94", "gfx942"]),
    "one without matrix instructions": (
        [(r"attributes \{", 'attributes {arch = "gfx1030", ')],
        ["gfx1030", "matrix instructions"],
    ),
}


@pytest.mark.parametrize("name", KERNEL_CHANGES)
def test_a_damaged_kernel(cli: Cli, kernel: str, tmp_path: Path, name: str) -> None:
    changes, parts = KERNEL_CHANGES[name]
    check_refused(cli, changed(kernel, changes), parts, tmp_path)


GRAPH_CHANGES: dict[str, tuple[Changes, Sequence[str]]] = {
    "offsets that are not i * 2": ([(r"dense<\[0, 2, 4, 6, 8,", "dense<[0, 2, 4, 7, 8,")], ["7"]),
    "offsets of f32 elements": ([(r"migraphx\.literal\(dense<\[0, 2, 4.*?\]>", "migraphx.literal(dense<4>")], ["4"]),
    "an unknown operation": (
        [(r"migraphx\.softmax", "migraphx.softmin")],
        ["'migraphx.softmin'", "'migraphx.softmax'"],
    ),
    "a mask that is no mask": ([(r"out_lens = \[1, 64, 8192\]", "out_lens = [1, 64, 8191]")], ["8191"]),
    "dynamic dimensions": ([(r"shaped<1x1x18x64xf16", "shaped<1x?x18x64xf16")], ["?"]),
}


@pytest.mark.parametrize("name", GRAPH_CHANGES)
def test_a_damaged_graph(cli: Cli, tmp_path: Path, name: str) -> None:
    changes, parts = GRAPH_CHANGES[name]
    check_refused(cli, changed(files("xpaged.examples").joinpath("decode.mlir").read_text(), changes), parts, tmp_path)
