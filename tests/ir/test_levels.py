"""Levels: what may stand where, and that a deref stays lazy until tiles are loaded."""

import pytest

from xpaged.errors import XpagedError
from xpaged.ir.levels import MODULE_LEVELS, Level, check_level, level_of
from xpaged.ir.parsing import parse

MEMREF = """
func.func @f(%t: memref<1x4x1xi64>, %x: memref<4xf16>) {{
  %pages = rock.deref %t : memref<1x4x1xi64> -> memref<1x4x8xf16>
  %flat = rock.transform %pages by <affine_map<(d0) -> (0, d0 floordiv 8, d0 mod 8)> by
    [<Merge{{1, 4, 8}} ["raw"] at [0] -> ["b", "page", "offset"] at [0, 1, 2]>] bounds = [32] -> [1, 4, 8]>
    : memref<1x4x8xf16> to memref<32xf16>
  {use}
  return
}}
"""
TENSOR = """
func.func @f(%t: tensor<1x4x1xi64>, %i: index) -> {result} {{
  %pages = rock.deref %t : tensor<1x4x1xi64> -> tensor<1x4x8xf16>
  {use}
}}
"""


def test_levels_are_ordered_and_named_as_on_the_command_line() -> None:
    assert sorted(Level) == list(Level)
    assert Level.MIGRAPHX < Level.TOSA < Level.ROCK < Level.ROCK_MEMREF < Level.GRIDWISE < Level.TILE < Level.DEVICE
    assert [level.value for level in Level] == [
        *("migraphx", "tosa", "rock", "rock-memref", "gridwise", "tile", "device", "host")
    ]
    assert Level.HOST not in MODULE_LEVELS


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }", Level.TOSA),
        (TENSOR.format(use="return %pages : tensor<1x4x8xf16>", result="tensor<1x4x8xf16>"), None),
        (MEMREF.format(use=""), Level.ROCK_MEMREF),
        (
            "func.func @f(%a: memref<4xf32>, %i: index) { %x = memref.load %a[%i] : memref<4xf32> return }",
            Level.ROCK_MEMREF,
        ),
        ("func.func @f() { return }", Level.MIGRAPHX),
        ("func.func @f(%v: vector<4xf32>) { return }", Level.TILE),
        ("func.func @f(%a: i32) { %b = math.absi %a : i32 return }", Level.ROCK),
    ],
)
def test_the_level_of_a_module_is_the_first_that_takes_all_of_it(text: str, level: Level | None) -> None:
    module = parse(text)
    if level is None:
        with pytest.raises(XpagedError):
            level_of(module)
    else:
        assert level_of(module) is level
        check_level(module, level)


def test_a_module_of_two_levels_is_refused() -> None:
    module = parse("func.func @f(%a: tensor<4xf32>, %m: memref<4xf32>) { return }", "k.mlir")
    with pytest.raises(XpagedError) as caught:
        level_of(module)
    assert caught.value.where == "k.mlir:1:1"
    assert "memref<4xf32>" in caught.value.what or "tensor<4xf32>" in caught.value.what


@pytest.mark.parametrize(
    ("text", "level", "what", "fix"),
    [
        ("func.func @f(%a: tensor<4xf32>) { return }", Level.ROCK_MEMREF, "tensor<4xf32>", "bufferize"),
        ("func.func @f(%a: memref<4xf32>) { return }", Level.ROCK, "memref<4xf32>", None),
        ("func.func @f() { %c = arith.constant 1 : i32 return }", Level.MIGRAPHX, "'arith.constant'", None),
        (MEMREF.format(use=""), Level.DEVICE, "'rock.deref'", "tile-to-device"),
        (
            "func.func @f(%a: i32) { %b = builtin.unrealized_conversion_cast %a : i32 to f32 return }",
            Level.TILE,
            "'builtin.unrealized_conversion_cast'",
            None,
        ),
    ],
)
def test_what_may_not_stand_is_named_with_the_pass_that_removes_it(
    text: str, level: Level, what: str, fix: str | None
) -> None:
    module = parse(text, "k.mlir")
    with pytest.raises(XpagedError) as caught:
        check_level(module, level)
    assert what in caught.value.what
    assert caught.value.where.startswith("k.mlir:")
    assert caught.value.fix == (None if fix is None else f"the pass {fix} should have removed it")


@pytest.mark.parametrize("level", [Level.ROCK_MEMREF, Level.GRIDWISE])
@pytest.mark.parametrize(
    "use",
    [
        "%zero = arith.constant 0 : index\n %v = memref.load %flat[%zero] : memref<32xf16>",
        '"memref.copy"(%flat, %flat) : (memref<32xf16>, memref<32xf16>) -> ()',
        "linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0 floordiv 8)>], "
        'iterator_types = ["parallel"]} ins(%flat : memref<32xf16>) outs(%x : memref<4xf16>) '
        "{ ^bb0(%a: f16, %b: f16): linalg.yield %a : f16 }",
    ],
)
def test_no_operation_before_tiles_reads_through_a_deref(level: Level, use: str) -> None:
    module = parse(MEMREF.format(use=use))
    with pytest.raises(XpagedError, match=r"reads memory through a rock\.deref"):
        check_level(module, level)


def test_tensors_do_not_read_through_a_deref_either() -> None:
    use = "%v = tensor.extract %pages[%i, %i, %i] : tensor<1x4x8xf16>\n return %v : f16"
    with pytest.raises(XpagedError, match=r"'tensor.extract' reads memory through a rock\.deref"):
        check_level(parse(TENSOR.format(use=use, result="f16")), Level.ROCK)


def test_at_level_tile_only_a_tile_load_reads_through_a_deref() -> None:
    use = "%zero = arith.constant 0 : index\n %v = memref.load %flat[%zero] : memref<32xf16>"
    with pytest.raises(XpagedError, match=r"'memref.load' reads memory through a rock\.deref at level tile"):
        check_level(parse(MEMREF.format(use=use)), Level.TILE)


def test_a_deref_that_nothing_reads_may_stand_at_every_view_level() -> None:
    module = parse(MEMREF.format(use=""))
    for level in (Level.ROCK_MEMREF, Level.GRIDWISE, Level.TILE):
        check_level(module, level)
