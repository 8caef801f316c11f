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
  {wide_scores}
  {softmax}
  %a = tosa.mul %p, %r : (tensor<{h}x{s}x{t}x{w}>, tensor<{h}x{s}x1x{w}>) -> tensor<{h}x{s}x{t}x{w}>
  {weights}
  %o = tosa.matmul {p}, %v : (tensor<{h}x{s}x{t}x{e}>, tensor<{h}x{t}x4x{e}>) -> tensor<{h}x{s}x4x{e}>
  {after}
  return {returned} : {types}
}}"""  # noqa: E501
SOFTMAX = """%top = tosa.reduce_max {maximum} {{axis = 2 : i32}} : (tensor<{h}x{s}x{t}x{w}>) -> tensor<{h}x{s}x1x{w}>
  %d = tosa.sub {x}, %top : (tensor<{h}x{s}x{t}x{w}>, tensor<{h}x{s}x1x{w}>) -> tensor<{h}x{s}x{t}x{w}>
  %p = tosa.exp {exponent} : (tensor<{h}x{s}x{t}x{w}>) -> tensor<{h}x{s}x{t}x{w}>
  %t = tosa.reduce_sum {total} {{axis = 2 : i32}} : (tensor<{h}x{s}x{t}x{w}>) -> tensor<{h}x{s}x1x{w}>
  %r = tosa.reciprocal %t : (tensor<{h}x{s}x1x{w}>) -> tensor<{h}x{s}x1x{w}>"""
SCORES = "(tensor<1x2x3xf16>, tensor<1x2x3xf16>) -> tensor<1x2x3xf16>"
MINUS_INFINITY = {"f16": "0xFC00", "bf16": "0xFF80", "f32": "0xFF800000"}


def small(
    scores: str = "",
    *,
    heads: int = 1,
    queries: int = 2,
    keys: int = 3,
    element: str = "f16",
    wide: str | None = None,
    **parts: str,
) -> ModuleOp:
    """A graph with `scores` making `%x` of the product `%s` (`%x` is `%s` when empty).

    The softmax is computed in `wide`: the scores are converted to it, unless they have it already, and the weights
    back. The parts are text: `arguments` before the last four, `before` the product of `q` and the keys, what
    `maximum`, `exponent` and `total` are taken of, or the whole `softmax` up to `%p` and `%r`, `weights` that make `p`
    of `%a`, and what comes `after`, of which `returned`, of type `result`, is returned.
    """
    sizes = f"{heads}x{queries}x{keys}"
    whole, soft = f"tensor<{sizes}x{element}>", f"tensor<{sizes}x{wide}>"
    scores = scores or f"%x = tosa.identity %s : ({whole}) -> {whole}"
    x = "%x"
    if wide is not None:
        parts = {"weights": f"%na = tosa.cast %a : ({soft}) -> {whole}", "p": "%na", **parts}
        if not scores.endswith(f"-> {soft}"):
            parts["wide_scores"], x = f"%wx = tosa.cast %x : ({whole}) -> {soft}", "%wx"
    softmax = parts.pop("softmax", None)
    text = SMALL.replace("{softmax}", SOFTMAX if softmax is None else softmax.replace("{", "{{").replace("}", "}}"))
    defaults = {
        "arguments": "%e: tensor<6xf16>, " if (queries, keys) == (2, 3) else "",
        "before": "", "q": "%q", "x": x, "maximum": x, "exponent": "%d", "total": "%p", "weights": "", "p": "%a",
        "wide_scores": "", "after": "", "returned": "%o", "result": f"tensor<{heads}x{queries}x4x{element}>",
        "h": str(heads), "s": str(queries), "t": str(keys), "e": element, "w": wide or element,
        "minus_infinity": MINUS_INFINITY[element], "columns": ", ".join(map(str, range(keys))),
        "rows": ", ".join(f"[{i}]" for i in range(queries)),
    }  # fmt: skip
    values = {**defaults, **parts}
    return parse(text.format(scores=scores, types=values["result"].strip("()"), **values), "small.mlir")


def masked(condition: str, *, kept_first: bool = False, value: str = "%ninf", **sizes: int) -> str:
    """Lines that make `%x` of `%s` by a mask; `condition` are lines that make `%c`, of any shape that broadcasts.

    The shape of `%c` is read from its last line. With `kept_first` the condition says what is kept.
    """
    heads, queries, keys = sizes.get("heads", 1), sizes.get("queries", 2), sizes.get("keys", 3)
    whole = f"tensor<{heads}x{queries}x{keys}xf16>"
    mask = condition.strip().rsplit("-> ", 1)[1]
    choices = f"%s, {value}" if kept_first else f"{value}, %s"
    return f"{condition}\n  %x = tosa.select %c, {choices} : ({mask}, {whole}, {whole}) -> {whole}"
