"""gridwise-to-tile refuses tiles that do not cut the padded sizes, as text written by hand may have them."""

import re

import pytest

from xpaged.errors import XpagedError
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.passes.pipelines import lower
from xpaged.pipeline import Pipeline
from xpaged.sizes import attention


@pytest.fixture(scope="module")
def gridwise() -> str:
    module = attention(seq_q=20, seq_k=64, dim_qk=32, dim_v=48, page_size=256, arch="gfx942")
    return print_module(lower(module, Level.GRIDWISE))


@pytest.mark.parametrize(
    ("pattern", "new", "what", "expected"),
    [
        (r"keys_per_tile = \d+", "keys_per_tile = 24", "keys_per_tile", "a multiple of 16"),
        (r"channel_chunk = \d+", "channel_chunk = 7", "channel_chunk", "a multiple of 16"),
        (r"channel_chunk = \d+", "channel_chunk = 48", "channels of Q and K", "a multiple of 48"),
        (r"value_channels = \d+", "value_channels = 48", "channels of V", "a multiple of 48"),
        (r"query_waves = \d+", "query_waves = 5", "query rows", "a multiple of 80"),
        (r"key_waves = \d+", "key_waves = 3", "keys", "a multiple of"),
        (r"key_waves = \d+", "key_waves = 0", None, ""),
    ],
)
def test_tiles_that_do_not_fit(gridwise: str, pattern: str, new: str, what: str | None, expected: str) -> None:
    text, count = re.subn(rf"(attention_params<[^>]*?){pattern}", rf"\g<1>{new}", gridwise)
    assert count == 1
    with pytest.raises(XpagedError) as caught:
        Pipeline("gridwise-to-tile").apply(parse(text, "k.mlir"))
    assert caught.value.where.startswith("k.mlir:")
    if what is not None:
        assert caught.value.what == f"the tiles do not fit: {what}"
        assert expected in (caught.value.expected or "")


def test_a_workgroup_that_is_too_large(gridwise: str) -> None:
    text = re.sub(
        r"keys_per_tile = \d+, query_waves = \d+, key_waves = \d+",
        "keys_per_tile = 16, query_waves = 2, key_waves = 4",
        gridwise,
    )
    text = re.sub(r"rock.block_size = \d+", "rock.block_size = 512", text)
    Pipeline("gridwise-to-tile").apply(parse(text))
    long = attention(seq_q=320, seq_k=64, dim_qk=32, page_size=256, arch="gfx942")
    text = re.sub(r"query_waves = \d+", "query_waves = 20", print_module(lower(long, Level.GRIDWISE)))
    with pytest.raises(XpagedError, match="a workgroup has too many lanes"):
        Pipeline("gridwise-to-tile").apply(parse(text))


def test_tiles_that_are_missing(gridwise: str) -> None:
    text, count = re.subn(r", params0 = #rock\.attention_params<[^>]*>", "", gridwise)
    assert count == 1
    with pytest.raises(XpagedError, match="attention has no tile sizes"):
        Pipeline("gridwise-to-tile").apply(parse(text))
