"""Attention as MIGraphX writes it, from sizes: text for tests of the front end."""

from collections.abc import Sequence
from dataclasses import dataclass, field

MASKS = ("index", "count", "causal", "bottom_right", "prefix", "window", "bytes", "above", "diagonal")
"""Masks that a graph may have: keys past the KV index, keys from a count on, keys past the query, past the query when
both end together, past the query plus an offset, before the window that ends at the KV index; those that an argument of
bytes names, keys before the query, and the key of the query's own number."""
BIASES = ("full", "key", "head", "constant")
"""What is added to the scores: an argument for each score, for each key of a sequence or for each head, or a constant
for each key."""
QUERIES = ("heads", "tokens", "packed")
"""How Q is given: `[batch, heads, seq_q, ..]`, `[batch, seq_q, heads, ..]`, or a part of a larger one like this."""
ADDRESSES = ("pointers", "guarded", "run")
"""How the addresses of pages are made: from a pointer for each, from one that is another's where the page starts behind
the KV index (of one KV head), or from one pointer for each sequence, behind which the pages follow one another."""


@dataclass(frozen=True)
class AttentionGraph:
    """An attention graph at level migraphx; `text` is its module, with one function `attention`.

    Arguments: value pages, key pages (or values and keys when `page_size` is None), the integers that masks need, Q, a
    bias and a mask of bytes. Tables and caches hold `layers` layers, of which `layer` is read. Results: the output, and
    with `lse` the log-sum-exp of each row.
    output, and with `lse` the log-sum-exp of each row.
    """

    batch: int = 1
    heads_q: int = 2
    heads_kv: int = 1
    seq_q: int = 4
    seq_k: int = 16
    spare: int = 0
    """Tokens that caches without pages hold behind those that are read."""
    padded: int = 0
    """Channels of 0 that Q and K are padded with."""
    dim_qk: int = 8
    dim_v: int = 8
    page_size: int | None = 32
    """Elements of a page of K; a page of V holds as many tokens."""
    page_header: int = 0
    """Elements before the first one that counts, in each page."""
    addresses: str = "pointers"
    """One of `ADDRESSES`."""
    layers: int = 2
    layer: int = 1
    element: str = "f16"
    scale: float | None = 0.25
    softcap: float | None = None
    """Scores are bent to lie between this and its negative: `softcap * tanh(scores / softcap)`."""
    bias: str | None = None
    """One of `BIASES`, or none."""
    masks: tuple[str, ...] = ("index",)
    """Some of `MASKS`, innermost first."""
    window: int = 2
    """The look-back of the mask `window`."""
    kept: bool = False
    """Whether masks are written by what they keep: comparison and branches are exchanged."""
    softmax_type: str | None = None
    """The scores are converted to this type before the masks, and the weights back after the softmax."""
    lse: bool = False
    """Whether the log-sum-exp is a result; the softmax is then written in its parts."""
    queries: str = "heads"
    """One of `QUERIES`."""
    swapped: bool = False
    """Whether caches without pages hold tokens innermost."""
    flat_result: bool = True
    """Whether the result is `[batch, seq_q, heads * dim_v]`; else `[batch, seq_q, heads, dim_v]` in memory by heads."""

    @property
    def text(self) -> str:
        """The module as text."""
        return _Writer(self).write()

    @property
    def pages(self) -> int:
        """Pages of each table row."""
        assert self.page_size is not None
        return self.heads_kv * self.seq_k * self.dim_qk // self.page_size

    @property
    def value_page_size(self) -> int:
        """Elements of a page of V."""
        assert self.page_size is not None
        return self.page_size * self.dim_v // self.dim_qk


def _strides(shape: Sequence[int]) -> list[int]:
    strides, step = list[int](), 1
    for length in reversed(shape):
        strides.insert(0, step)
        step *= length
    return strides


def _type(element: str, shape: Sequence[int]) -> str:
    """A short type; strides of values between operations carry no meaning, so they are always the standard ones."""
    return f"<{'x'.join(map(str, shape))}x{element}, {'x'.join(map(str, _strides(shape)))}>"


@dataclass
class _Writer:
    graph: AttentionGraph
    lines: list[str] = field(default_factory=list[str])
    arguments: list[str] = field(default_factory=list[str])
    count: int = 0

    def argument(self, name: str, element: str, shape: Sequence[int], innermost: int | None = None) -> str:
        """A new argument; of its last two dimensions, `innermost` is the one that is dense in memory."""
        type = _type(element, shape)
        if innermost is not None and innermost == len(shape) - 2:
            order = [*range(innermost), innermost + 1, innermost]
            strides = _strides([shape[i] for i in order])
            type = f"{type.split(',')[0]}, {'x'.join(str(strides[i]) for i in order)}>"
        self.arguments.append(f"%{name}: !migraphx.shaped{type}")
        return name

    def op(self, op: str, *operands: tuple[str, str], to: str, arrow: str = "->", **attributes: object) -> str:
        """Add an operation on operands given by name and type; returns the name of its result, of type `to`."""
        self.count += 1
        result = f"v{self.count}"
        names = ", ".join(f"%{name}" for name, _ in operands)
        types = ", ".join(type for _, type in operands)
        entries = ", ".join(f"{name} = {value}" for name, value in attributes.items())
        attrs = f" {{{entries}}}" if entries else ""
        self.lines.append(f"  %{result} = migraphx.{op} {names}{attrs} : {types} {arrow} {to}")
        return result

    def literal(self, element: str, values: Sequence[int | float] | float) -> tuple[str, str]:
        shape = [len(values)] if isinstance(values, Sequence) else [1]
        body = f"[{', '.join(map(str, values))}]" if isinstance(values, Sequence) else str(values)
        self.count += 1
        type = _type(element, shape)
        self.lines.append(f"  %v{self.count} = migraphx.literal(dense<{body}> : tensor<{shape[0]}x{element}>) : {type}")
        return f"v{self.count}", type

    def broadcast(self, value: tuple[str, str], element: str, shape: Sequence[int]) -> tuple[str, str]:
        type = _type(element, shape)
        return self.op("multibroadcast", value, to=type, out_dyn_dims=[], out_lens=list(shape)), type

    def placed(self, value: tuple[str, str], element: str, axis: int, shape: Sequence[int]) -> tuple[str, str]:
        type = _type(element, shape)
        return self.op("broadcast", value, to=type, axis=f"{axis} : i64", out_lens=list(shape)), type

    def reshape(self, value: tuple[str, str], element: str, shape: Sequence[int]) -> tuple[str, str]:
        type = _type(element, shape)
        return self.op("reshape", value, to=type, dims=list(shape)), type

    def transpose(
        self, value: tuple[str, str], element: str, shape: Sequence[int], order: Sequence[int]
    ) -> tuple[str, str]:
        """`shape` is that of the operand."""
        type = _type(element, [shape[i] for i in order])
        return self.op("transpose", value, to=type, permutation=list(order)), type

    def write(self) -> str:
        g = self.graph
        values = self.cache("value", g.dim_v, None if g.page_size is None else g.value_page_size)
        keys = self.cache("key", g.dim_qk, g.page_size)
        heads, scores = (g.batch, g.heads_q), self.scores
        numbers = {"kv_index": self.kv_index} if {"index", "window"} & set(g.masks) else {}
        for name, user in (("kv_count", "count"), ("offset", "prefix")):
            if user in g.masks:
                numbers[name] = self.argument(name, "si32", [g.batch, 1]), _type("si32", [g.batch, 1])
        queries = self.queries()

        depth = g.dim_qk + g.padded
        k_type, v_type = _type(g.element, (*heads, depth, g.seq_k)), _type(g.element, (*heads, g.seq_k, g.dim_v))
        if g.padded:
            queries = self.pad(queries, (*heads, g.seq_q, depth), 3)
            keys = self.pad((keys, _type(g.element, (*heads, g.dim_qk, g.seq_k))), (*heads, depth, g.seq_k), 2)[0]
        element, type = g.element, _type(g.element, scores)
        x = self.op("dot", queries, (keys, k_type), to=type)
        x = self.region(x, type)
        if g.softmax_type is not None:
            element, wide = g.softmax_type, _type(g.softmax_type, scores)
            x, type = self.op("convert", (x, type), to=wide, arrow="to"), wide
        for mask in g.masks:
            x = self.masked(x, type, element, mask, numbers)
        x, lse = self.softmax(x, element)
        if g.softmax_type is not None:
            narrow = _type(g.element, scores)
            x, type = self.op("convert", (x, type), to=narrow, arrow="to"), narrow
        out = (*heads, g.seq_q, g.dim_v)
        o = self.op("dot", (x, type), (values, v_type), to=_type(g.element, out))
        results = [self.result((o, _type(g.element, out)), out), *lse]
        types = [f"!migraphx.shaped{type}" for _, type in results]
        head = f"func.func @attention({', '.join(self.arguments)})\n    -> ({', '.join(types)})"
        body = "\n".join(self.lines)
        return (
            f'{head} attributes {{arch = "gfx942", rock.kernel = "mixr"}} {{\n{body}\n'
            f"  return {', '.join(f'%{name}' for name, _ in results)} : {', '.join(types)}\n}}\n"
        )

    @property
    def scores(self) -> tuple[int, ...]:
        g = self.graph
        return (g.batch, g.heads_q, g.seq_q, g.seq_k)

    def result(self, o: tuple[str, str], shape: Sequence[int]) -> tuple[str, str]:
        g = self.graph
        result, result_type = self.transpose(o, g.element, shape, (0, 2, 1, 3))
        if g.flat_result:
            return self.reshape((result, result_type), g.element, (g.batch, g.seq_q, g.heads_q * g.dim_v))
        strides = [_strides(shape)[i] for i in (0, 2, 1, 3)]
        given = result_type.split(",")[0] + f", {'x'.join(map(str, strides))}>"
        self.lines[-1] = self.lines[-1].replace(f"-> {result_type}", f"-> {given}")
        return result, given

    def region(self, x: str, type: str) -> str:
        """Scale, soft cap and bias."""
        g, scores = self.graph, self.scores
        if g.scale is not None:
            x = self.op("mul", (x, type), self.number(g.element, g.scale), to=type)
        if g.softcap is not None:
            x = self.op("div", (x, type), self.number(g.element, g.softcap), to=type)
            x = self.op("tanh", (x, type), to=type)
            x = self.op("mul", self.number(g.element, g.softcap), (x, type), to=type)
        if g.bias is not None:
            lengths = {"full": scores[1:], "key": (g.batch, 1, 1, g.seq_k), "head": (g.heads_q, 1, 1)}.get(g.bias)
            if lengths is None:
                bias = self.literal(g.element, [(5 * i % 7 - 3) / 4 for i in range(g.seq_k)])
            else:
                bias = (self.argument("bias", g.element, lengths), _type(g.element, lengths))
            x = self.op("add", self.broadcast(bias, g.element, scores), (x, type), to=type)
        return x

    def number(self, element: str, value: float) -> tuple[str, str]:
        """One number, for every score."""
        return self.broadcast(self.literal(element, value), element, self.scores)

    def softmax(self, x: str, element: str) -> tuple[str, list[tuple[str, str]]]:
        """The weights, and the log-sum-exp when it is wanted."""
        g, type = self.graph, _type(element, self.scores)
        if not g.lse:
            return self.op("softmax", (x, type), to=type, axis="3 : i64"), []
        rows = (*self.scores[:3], 1)
        row = _type(element, rows)
        top = self.op("reduce_max", (x, type), to=row, axes="[3 : i64]")
        less = self.op("sub", (x, type), self.broadcast((top, row), element, self.scores), to=type)
        e = self.op("exp", (less, type), to=type)
        total = self.op("reduce_sum", (e, type), to=row, axes="[3 : i64]")
        weights = self.op("div", (e, type), self.broadcast((total, row), element, self.scores), to=type)
        log = self.op("log", (total, row), to=row)
        lse = self.op("add", (log, row), (top, row), to=row)
        return weights, [self.reshape((lse, row), element, rows[:3])]

    def queries(self) -> tuple[str, str]:
        g = self.graph
        shape = (g.batch, g.heads_q, g.seq_q, g.dim_qk)
        if g.queries == "heads":
            return self.argument("q", g.element, shape), _type(g.element, shape)
        given = (g.batch, g.seq_q, g.heads_q, g.dim_qk)
        if g.queries == "tokens":
            value = (self.argument("q", g.element, given), _type(g.element, given))
        else:
            packed = (g.batch, g.seq_q, g.heads_q + 2, g.dim_qk)
            value = (self.argument("q", g.element, packed), _type(g.element, packed))
            type = _type(g.element, given)
            value = self.op("slice", value, to=type, axes=[2], ends=[g.heads_q + 1], starts=[1]), type
        return self.transpose(value, g.element, given, (0, 2, 1, 3))

    def cache(self, name: str, dim: int, page: int | None) -> str:
        """K as `[batch, heads, dim, seq_k]` or V as `[batch, heads, seq_k, dim]`, repeated for the query heads."""
        g = self.graph
        held = g.seq_k + (g.spare if page is None else 0)
        grouped = (g.batch, g.heads_kv, 1, held, dim)
        if page is None:
            whole = (g.batch, g.layers, g.heads_kv, held, dim)
            value = (self.argument(f"{name}s", g.element, whole, innermost=3 if g.swapped else 4), "")
            value = (value[0], self.arguments[-1].split("shaped")[1])
            one = (g.batch, 1, *whole[2:])
            value = self.layer(value, g.element, one)
        else:
            shape = (g.batch, g.pages, page)
            elements = self.op("deref", self.page_addresses(name, shape), to=_type(g.element, shape))
            value = (elements, _type(g.element, shape))
        value = self.reshape(value, g.element, grouped)
        if held > g.seq_k:
            grouped = (*grouped[:3], g.seq_k, dim)
            type = _type(g.element, grouped)
            value = self.op("slice", value, to=type, axes=[3], ends=[g.seq_k], starts=[0]), type
        if name == "key":
            value = self.transpose(value, g.element, grouped, (0, 1, 2, 4, 3))
            grouped = (*grouped[:3], dim, g.seq_k)
        repeated = (g.batch, g.heads_kv, g.heads_q // g.heads_kv, *grouped[3:])
        value = self.broadcast(value, g.element, repeated)
        return self.reshape(value, g.element, (g.batch, g.heads_q, *grouped[3:]))[0]

    def page_addresses(self, name: str, shape: tuple[int, int, int]) -> tuple[str, str]:
        """The address of each element of `[batch, pages, page]`."""
        g, (batch, pages, page) = self.graph, shape
        pointers = 1 if g.addresses == "run" else pages
        table, type = (batch, g.layers, pointers), _type("ui64", shape)
        value = (self.argument(f"{name}_pages", "ui64", table), _type("ui64", table))
        value = self.layer(value, "ui64", (batch, 1, pointers))
        if g.addresses == "guarded":
            value = self.guarded(value)
        value = self.reshape(value, "ui64", (batch, pointers, 1))
        size = 4 if g.element == "f32" else 2
        first, count = g.page_header, page * (pages if g.addresses == "run" else 1)
        offsets = self.literal("ui64", range(size * first, size * (first + count), size))
        if g.addresses == "run":
            offsets = self.broadcast(self.reshape(offsets, "ui64", (1, pages, page)), "ui64", shape)
        else:
            offsets = self.placed(offsets, "ui64", 2, shape)
        return self.op("add", self.broadcast(value, "ui64", shape), offsets, to=type), type

    def guarded(self, pointers: tuple[str, str]) -> tuple[str, str]:
        """The pointers of pages with a key up to the KV index, for the others that of the first page."""
        g = self.graph
        shape, type = (g.batch, 1, g.pages), pointers[1]
        tokens = g.seq_k // g.pages
        starts = self.literal("si32", range(0, g.seq_k, tokens))
        starts = self.broadcast(starts, "si32", shape)
        index = self.broadcast(self.reshape(self.kv_index, "si32", (g.batch, 1, 1)), "si32", shape)
        unused = self.bytes((self.op("greater", starts, index, to=starts[1]), starts[1]))
        first = _type("ui64", (g.batch, 1, 1))
        fallback = self.op("slice", pointers, to=first, axes=[2], ends=[1], starts=[0]), first
        fallback = self.broadcast(fallback, "ui64", shape)
        return self.op("where", unused, fallback, pointers, to=type), type

    @property
    def kv_index(self) -> tuple[str, str]:
        """The argument with the last valid key of each sequence."""
        type = _type("si32", [self.graph.batch, 1])
        if not any(each.startswith("%kv_index:") for each in self.arguments):
            self.argument("kv_index", "si32", [self.graph.batch, 1])
        return "kv_index", type

    def pad(self, value: tuple[str, str], shape: Sequence[int], axis: int) -> tuple[str, str]:
        """`value` with zeros behind it along `axis`."""
        type, pads = _type(self.graph.element, shape), [0] * (2 * len(shape))
        pads[len(shape) + axis] = self.graph.padded
        return self.op("pad", value, to=type, pads=pads, value="0.0 : f32", mode="0 : i32"), type

    def layer(self, value: tuple[str, str], element: str, shape: Sequence[int]) -> tuple[str, str]:
        layer = self.graph.layer
        type = _type(element, shape)
        return self.op("slice", value, to=type, axes=[1], ends=[layer + 1], starts=[layer]), type

    def mask(self, kind: str, numbers: dict[str, tuple[str, str]]) -> tuple[str, str]:
        """Where a score is masked, or with `kept` where it is not, as bytes."""
        g, scores = self.graph, self.scores
        columns = self.broadcast(self.literal("si32", range(g.seq_k)), "si32", scores)
        rows = self.placed(self.literal("si32", range(g.seq_q)), "si32", 2, scores)
        match kind:
            case "index":
                return self.greater(columns, self.per_row(self.index(numbers)))
            case "count":
                return self.greater(self.plus(columns, 1), self.per_row(numbers["kv_count"]))
            case "causal":
                return self.greater(columns, rows)
            case "bottom_right":
                return self.greater(columns, self.plus(rows, g.seq_k - g.seq_q))
            case "prefix":
                offset = self.per_row(numbers["offset"])
                return self.greater(columns, (self.op("add", rows, offset, to=rows[1]), rows[1]))
            case "window":
                return self.greater(self.plus(self.per_row(self.index(numbers)), -g.window), columns)
            case "above":
                return self.greater(rows, columns)
            case "diagonal":
                same = self.op("equal", rows, columns, to=rows[1])
                return self.bytes((same, rows[1]))
            case _:
                shape = (g.seq_q, g.seq_k)
                type = _type("si8", shape)
                name = self.argument("mask", "si8", shape) if "%mask" not in str(self.arguments) else "mask"
                return self.broadcast((name, type), "si8", scores)

    def index(self, numbers: dict[str, tuple[str, str]]) -> tuple[str, str]:
        """The KV index, kept inside of the keys where a window is told from it."""
        value = numbers["kv_index"]
        if "window" not in self.graph.masks:
            return value
        low, high = (
            self.broadcast(self.literal("si32", n), "si32", (self.graph.batch, 1)) for n in (0, self.graph.seq_k - 1)
        )
        return self.op("clip", value, low, high, to=value[1]), value[1]

    def per_row(self, value: tuple[str, str]) -> tuple[str, str]:
        """One number for each sequence, for all of its scores."""
        return self.broadcast(self.reshape(value, "si32", (self.graph.batch, 1, 1, 1)), "si32", self.scores)

    def plus(self, value: tuple[str, str], number: int) -> tuple[str, str]:
        if number == 0:
            return value
        return self.op("add", value, self.number("si32", number), to=value[1]), value[1]

    def greater(self, a: tuple[str, str], b: tuple[str, str]) -> tuple[str, str]:
        """`a > b`; what is kept is `b + 1 > a`."""
        if self.graph.kept:
            a, b = self.plus(b, 1), a
        return self.bytes((self.op("greater", a, b, to=a[1]), a[1]))

    def bytes(self, truth: tuple[str, str]) -> tuple[str, str]:
        narrow = truth[1].replace("si32", "si8")
        return self.op("convert", truth, to=narrow, arrow="to"), narrow

    def masked(self, x: str, type: str, element: str, kind: str, numbers: dict[str, tuple[str, str]]) -> str:
        """The scores `x` under one more mask."""
        g, mask = self.graph, self.mask(kind, numbers)
        bits = {"f16": "0xFC00", "bf16": "0xFF80", "f32": "0xFF800000"}[element]
        self.count += 1
        name = f"v{self.count}"
        self.lines.append(f"  %{name} = migraphx.literal(dense<{bits}> : tensor<1x{element}>) : {_type(element, [1])}")
        nothing = self.broadcast((name, _type(element, [1])), element, (g.batch, g.heads_q, g.seq_q, g.seq_k))
        keeps = self.graph.kept and kind not in ("bytes", "diagonal")
        choices = ((x, type), nothing) if keeps else (nothing, (x, type))
        return self.op("where", mask, *choices, to=type)
