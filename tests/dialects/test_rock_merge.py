"""rock.merge_attention: its text, and what it refuses."""

from __future__ import annotations

import pytest

from xpaged.dialects.rock.merge import MergeAttentionOp
from xpaged.errors import XpagedError
from xpaged.ir.levels import Level, level_of
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module

TYPES = {"p": "12x3x16xf32", "l": "12x3xf32", "o": "4x3x16xf16", "e": "4x3xf32"}


def source(types: dict[str, str], lse: bool = True) -> str:
    t = {**TYPES, **types}
    given = ", ".join(f"%{name}: memref<{text}>" for name, text in t.items())
    more, kind = (", %e", f", memref<{t['e']}>") if lse else ("", "")
    return f"""func.func @f({given}) {{
  rock.merge_attention %p, %l into %o{more} : memref<{t["p"]}>, memref<{t["l"]}> into memref<{t["o"]}>{kind}
  func.return
}}"""


@pytest.mark.parametrize("lse", [True, False])
def test_its_text(lse: bool) -> None:
    module = parse(source({}, lse))
    text = print_module(module)
    assert print_module(parse(text)) == text
    (op,) = [op for op in module.walk() if isinstance(op, MergeAttentionOp)]
    assert op.split_kv == 3
    assert (op.lse is not None) == lse
    assert level_of(module) is Level.ROCK_MEMREF


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"p": "13x3x16xf32"}, "the parts must be [a multiple of 4, 3, 16] for this output, found memref<13x3x16xf32>"),
        ({"p": "12x2x16xf32"}, "the parts must be"),
        ({"p": "12x3x8xf32"}, "the parts must be"),
        ({"p": "12x48xf32"}, "'parts' is a memref of floats of rank 3, found memref<12x48xf32>"),
        ({"l": "12x4xf32"}, "the logarithms of the parts must be [12, 3]"),
        ({"l": "12x3xi32"}, "'lses' is a memref of floats of rank 2"),
        ({"o": "4x3x16xi8"}, "'out' is a memref of floats of rank 3"),
        ({"o": "0x3x16xf16"}, "'out' is a memref of floats of rank 3"),
        ({"e": "3x4xf32"}, "the logarithm must be [4, 3] for this output, found memref<3x4xf32>"),
        ({"e": "12xf32"}, "'lse' is a memref of floats of rank 2"),
    ],
)
def test_what_does_not_verify(types: dict[str, str], message: str) -> None:
    with pytest.raises(XpagedError) as error:
        parse(source(types))
    assert message in error.value.what
