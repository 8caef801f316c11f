"""Attention as MIGraphX writes it, from sizes: text for tests of the front end."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class AttentionGraph:
    """An attention graph at level migraphx; `text` is its module, with one function `attention`.

    Arguments in order: value pages, key pages (or values and keys when `page_size` is None), the KV index with
    `kv_index`, Q, and a bias over all scores with `bias`. Tables and caches hold `layers` layers, of which `layer` is
    read.
    """

    batch: int = 1
    heads_q: int = 2
    heads_kv: int = 1
    seq_q: int = 4
    seq_k: int = 16
    dim_qk: int = 8
    dim_v: int = 8
    page_size: int | None = 32
    """Elements of a page of K; a page of V holds as many tokens."""
    page_header: int = 0
    """Elements before the first one that counts, in each page."""
    layers: int = 2
    layer: int = 1
    element: str = "f16"
    scale: float | None = 0.25
    kv_index: bool = True
    causal: bool = False
    causal_first: bool = False
    """Whether the causal mask is the inner one of the two."""
    bias: bool = False
    softmax_type: str | None = None
    """The scores are converted to this type before the masks, and the weights back after the softmax."""
    q_first: bool = True
    """Whether Q is an argument `[batch, heads, ..]`; else `[batch, seq_q, heads, ..]`, transposed."""
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

    def argument(self, name: str, element: str, shape: Sequence[int]) -> str:
        self.arguments.append(f"%{name}: !migraphx.shaped{_type(element, shape)}")
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
        heads, scores = (g.batch, g.heads_q), (g.batch, g.heads_q, g.seq_q, g.seq_k)
        index = self.argument("kv_index", "si32", [g.batch, 1]) if g.kv_index else None
        queries = self.queries()
        bias = self.argument("bias", g.element, scores[1:]) if g.bias else None

        k_type, v_type = _type(g.element, (*heads, g.dim_qk, g.seq_k)), _type(g.element, (*heads, g.seq_k, g.dim_v))
        element, type = g.element, _type(g.element, scores)
        x = self.op("dot", queries, (keys, k_type), to=type)
        if g.scale is not None:
            scale = self.broadcast(self.literal(element, g.scale), element, scores)
            x = self.op("mul", (x, type), scale, to=type)
        if bias is not None:
            other = self.broadcast((bias, _type(element, scores[1:])), element, scores)
            x = self.op("add", other, (x, type), to=type)
        if g.softmax_type is not None:
            element, wide = g.softmax_type, _type(g.softmax_type, scores)
            x, type = self.op("convert", (x, type), to=wide, arrow="to"), wide
        masks = ([self.causal_mask] if g.causal else []) + ([lambda: self.index_mask(index)] if index else [])
        for mask in masks if g.causal_first else reversed(masks):
            x = self.masked(x, type, element, mask())
        x = self.op("softmax", (x, type), to=type, axis="3 : i64")
        if g.softmax_type is not None:
            narrow = _type(g.element, scores)
            x, type = self.op("convert", (x, type), to=narrow, arrow="to"), narrow
        out = (*heads, g.seq_q, g.dim_v)
        o = self.op("dot", (x, type), (values, v_type), to=_type(g.element, out))
        result, result_type = self.transpose((o, _type(g.element, out)), g.element, out, (0, 2, 1, 3))
        if g.flat_result:
            flat = (g.batch, g.seq_q, g.heads_q * g.dim_v)
            result, result_type = self.reshape((result, result_type), g.element, flat)
        else:
            strides = [_strides(out)[i] for i in (0, 2, 1, 3)]
            given = result_type.split(",")[0] + f", {'x'.join(map(str, strides))}>"
            self.lines[-1], result_type = self.lines[-1].replace(f"-> {result_type}", f"-> {given}"), given
        head = f"func.func @attention({', '.join(self.arguments)})\n    -> !migraphx.shaped{result_type}"
        body = "\n".join(self.lines)
        return (
            f'{head} attributes {{arch = "gfx942", rock.kernel = "mixr"}} {{\n{body}\n'
            f"  return %{result} : !migraphx.shaped{result_type}\n}}\n"
        )

    def queries(self) -> tuple[str, str]:
        g = self.graph
        shape = (g.batch, g.heads_q, g.seq_q, g.dim_qk)
        if g.q_first:
            return self.argument("q", g.element, shape), _type(g.element, shape)
        given = (g.batch, g.seq_q, g.heads_q, g.dim_qk)
        value = (self.argument("q", g.element, given), _type(g.element, given))
        return self.transpose(value, g.element, given, (0, 2, 1, 3))

    def cache(self, name: str, dim: int, page: int | None) -> str:
        """K as `[batch, heads, dim, seq_k]` or V as `[batch, heads, seq_k, dim]`, repeated for the query heads."""
        g = self.graph
        grouped = (g.batch, g.heads_kv, 1, g.seq_k, dim)
        if page is None:
            whole = (g.batch, g.layers, g.heads_kv, g.seq_k, dim)
            value = (self.argument(f"{name}s", g.element, whole), _type(g.element, whole))
            one = (g.batch, 1, *whole[2:])
            value = self.layer(value, g.element, one)
        else:
            table = (g.batch, g.layers, g.pages)
            value = (self.argument(f"{name}_pages", "ui64", table), _type("ui64", table))
            value = self.layer(value, "ui64", (g.batch, 1, g.pages))
            value = self.reshape(value, "ui64", (g.batch, g.pages, 1))
            shape = (g.batch, g.pages, page)
            bases = self.broadcast(value, "ui64", shape)
            size = 4 if g.element == "f32" else 2
            first, end = g.page_header, g.page_header + page
            offsets = self.placed(self.literal("ui64", range(size * first, size * end, size)), "ui64", 2, shape)
            addresses = self.op("add", bases, offsets, to=_type("ui64", shape))
            elements = self.op("deref", (addresses, _type("ui64", shape)), to=_type(g.element, shape))
            value = (elements, _type(g.element, shape))
        value = self.reshape(value, g.element, grouped)
        if name == "key":
            value = self.transpose(value, g.element, grouped, (0, 1, 2, 4, 3))
            grouped = (*grouped[:3], dim, g.seq_k)
        repeated = (g.batch, g.heads_kv, g.heads_q // g.heads_kv, *grouped[3:])
        value = self.broadcast(value, g.element, repeated)
        return self.reshape(value, g.element, (g.batch, g.heads_q, *grouped[3:]))[0]

    def layer(self, value: tuple[str, str], element: str, shape: Sequence[int]) -> tuple[str, str]:
        layer = self.graph.layer
        type = _type(element, shape)
        return self.op("slice", value, to=type, axes=[1], ends=[layer + 1], starts=[layer]), type

    def index_mask(self, index: str) -> tuple[str, str]:
        """Where the key lies past the last valid one."""
        g = self.graph
        scores = (g.batch, g.heads_q, g.seq_q, g.seq_k)
        columns = self.broadcast(self.literal("si32", range(g.seq_k)), "si32", scores)
        last = self.reshape((index, _type("si32", [g.batch, 1])), "si32", (g.batch, 1, 1, 1))
        return self.greater(columns, self.broadcast(last, "si32", scores))

    def causal_mask(self) -> tuple[str, str]:
        """Where the key lies past the query."""
        g = self.graph
        scores = (g.batch, g.heads_q, g.seq_q, g.seq_k)
        columns = self.broadcast(self.literal("si32", range(g.seq_k)), "si32", scores)
        return self.greater(columns, self.placed(self.literal("si32", range(g.seq_q)), "si32", 2, scores))

    def greater(self, a: tuple[str, str], b: tuple[str, str]) -> tuple[str, str]:
        truth = self.op("greater", a, b, to=a[1])
        narrow = a[1].replace("si32", "si8")
        return self.op("convert", (truth, a[1]), to=narrow, arrow="to"), narrow

    def masked(self, x: str, type: str, element: str, mask: tuple[str, str]) -> str:
        g = self.graph
        bits = {"f16": "0xFC00", "bf16": "0xFF80", "f32": "0xFF800000"}[element]
        self.count += 1
        name = f"v{self.count}"
        self.lines.append(f"  %{name} = migraphx.literal(dense<{bits}> : tensor<1x{element}>) : {_type(element, [1])}")
        nothing = self.broadcast((name, _type(element, [1])), element, (g.batch, g.heads_q, g.seq_q, g.seq_k))
        return self.op("where", mask, nothing, (x, type), to=type)
