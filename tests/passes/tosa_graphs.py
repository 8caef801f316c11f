"""Small attention graphs in TOSA, with some of their parts replaced: the text that tests of the match change."""

from xdsl.dialects.builtin import ModuleOp

from xpaged.ir.parsing import parse
from xpaged.pipeline import Pipeline

TO_ROCK = Pipeline("tosa-to-rock-deref,tosa-to-rock")

SMALL = """
func.func @f(%q: tensor<{h}x{s}x4x{e}>, %k: tensor<{h}x4x{t}x{e}>, %v: tensor<{h}x{t}x4x{e}>, {arguments}%n: tensor<1xi32>,
             %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<{t}xi32>) -> {result} {{
  %ninf = "tosa.const"() <{{values = dense<{minus_infinity}> : tensor<{h}x{s}x{t}x{e}>}}> : () -> tensor<{h}x{s}x{t}x{e}>
  %cols = "tosa.const"() <{{values = dense<[[[{columns}]]]> : tensor<1x1x{t}xi32>}}> : () -> tensor<1x1x{t}xi32>
  %rows = "tosa.const"() <{{values = dense<[[{rows}]]> : tensor<1x{s}x1xi32>}}> : () -> tensor<1x{s}x1xi32>
  %n3 = tosa.reshape %n {{new_shape = array<i64: 1, 1, 1>}} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %m3 = tosa.reshape %m {{new_shape = array<i64: 1, 1, 1>}} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  {before}
  %s = tosa.matmul {q}, %k : (tensor<{h}x{s}x4x{e}>, tensor<{h}x4x{t}x{e}>) -> tensor<{h}x{s}x{t}x{e}>
  {scores}
  %top = tosa.reduce_max {maximum} {{axis = 2 : i32}} : (tensor<{h}x{s}x{t}x{e}>) -> tensor<{h}x{s}x1x{e}>
  %d = tosa.sub %x, %top : (tensor<{h}x{s}x{t}x{e}>, tensor<{h}x{s}x1x{e}>) -> tensor<{h}x{s}x{t}x{e}>
  %p = tosa.exp {exponent} : (tensor<{h}x{s}x{t}x{e}>) -> tensor<{h}x{s}x{t}x{e}>
  %t = tosa.reduce_sum {total} {{axis = 2 : i32}} : (tensor<{h}x{s}x{t}x{e}>) -> tensor<{h}x{s}x1x{e}>
  %r = tosa.reciprocal %t : (tensor<{h}x{s}x1x{e}>) -> tensor<{h}x{s}x1x{e}>
  %a = tosa.mul %p, %r : (tensor<{h}x{s}x{t}x{e}>, tensor<{h}x{s}x1x{e}>) -> tensor<{h}x{s}x{t}x{e}>
  {weights}
  %o = tosa.matmul {p}, %v : (tensor<{h}x{s}x{t}x{e}>, tensor<{h}x{t}x4x{e}>) -> tensor<{h}x{s}x4x{e}>
  {after}
  return {returned} : {result}
}}"""  # noqa: E501
SCORES = "(tensor<1x2x3xf16>, tensor<1x2x3xf16>) -> tensor<1x2x3xf16>"
MINUS_INFINITY = {"f16": "0xFC00", "bf16": "0xFF80", "f32": "0xFF800000"}


def small(
    scores: str = "", *, heads: int = 1, queries: int = 2, keys: int = 3, element: str = "f16", **parts: str
) -> ModuleOp:
    """A graph with `scores` making `%x` of the product `%s` (`%x` is `%s` when empty).

    The parts are text: `arguments` before the last four, `before` the product of `q` and the keys, what `maximum`,
    `exponent` and `total` are taken of, `weights` that make `p` of `%a`, and what comes `after`, of which `returned`,
    of type `result`, is returned.
    """
    whole = f"tensor<{heads}x{queries}x{keys}x{element}>"
    defaults = {
        "arguments": "%e: tensor<6xf16>, " if (queries, keys) == (2, 3) else "",
        "before": "", "q": "%q", "maximum": "%x", "exponent": "%d", "total": "%p", "weights": "", "p": "%a",
        "after": "", "returned": "%o", "result": f"tensor<{heads}x{queries}x4x{element}>",
        "h": str(heads), "s": str(queries), "t": str(keys), "e": element,
        "minus_infinity": MINUS_INFINITY[element],
        "columns": ", ".join(map(str, range(keys))), "rows": ", ".join(f"[{i}]" for i in range(queries)),
    }  # fmt: skip
    scores = scores or f"%x = tosa.identity %s : ({whole}) -> {whole}"
    return parse(SMALL.format(scores=scores, **{**defaults, **parts}), "small.mlir")


def masked(condition: str, *, kept_first: bool = False, value: str = "%ninf", **sizes: int) -> str:
    """Lines that make `%x` of `%s` by a mask; `condition` are lines that make `%c`, of any shape that broadcasts.

    The shape of `%c` is read from its last line. With `kept_first` the condition says what is kept.
    """
    heads, queries, keys = sizes.get("heads", 1), sizes.get("queries", 2), sizes.get("keys", 3)
    whole = f"tensor<{heads}x{queries}x{keys}xf16>"
    mask = condition.strip().rsplit("-> ", 1)[1]
    choices = f"%s, {value}" if kept_first else f"{value}, %s"
    return f"{condition}\n  %x = tosa.select %c, {choices} : ({mask}, {whole}, {whole}) -> {whole}"
