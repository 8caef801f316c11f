"""`migraphx.attention` from sizes and features: text for tests of the front end."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from xpaged.dialects.migraphx.shaped import standard_strides


def short_type(element: str, shape: Sequence[int]) -> str:
    """The short type of a row-major tensor, such as `<2x3xf16, 3x1>`."""
    return f"<{'x'.join(map(str, shape))}x{element}, {'x'.join(map(str, standard_strides(shape)))}>"


@dataclass(frozen=True)
class AttentionOpGraph:
    """A function around one `migraphx.attention`; `text` is its module, with one function `attention`.

    Arguments in order: Q, K and V (tables of pages `[batch, pages]` with `page_tokens`), the inputs of the body, the
    KV index, the prefix offset. Features are on where their argument is: `kv_index`, `causal`, `prefix_offset`,
    `window` and `parts`. At `rank` 3 there is one head.
    """

    batch: int = 1
    heads_q: int = 2
    heads_kv: int = 1
    seq_q: int = 4
    seq_k: int = 8
    dim_qk: int = 8
    dim_v: int = 8
    rank: int = 4
    element: str = "f16"
    value_element: str | None = None
    """V's element type, where it is not Q's."""
    softmax_type: str | None = None
    kv_index: bool = False
    causal: bool = False
    prefix_offset: bool = False
    window: int | None = None
    parts: int = 1
    lse: bool = False
    body: tuple[str, ...] = ()
    """What happens to the scores: `scale`, `bias` (an input each), `dequantize` (i32 scores, a scale as input)."""
    page_tokens: int | None = None
    """Tokens of a page of K and of V."""
    kernel: bool = True

    @property
    def values(self) -> str:
        """V's element type."""
        return self.value_element or self.element

    @property
    def leading(self) -> tuple[int, ...]:
        """Q's dimensions before rows and columns."""
        return (self.batch,) if self.rank == 3 else (self.batch, self.heads_q)

    @property
    def cache_leading(self) -> tuple[int, ...]:
        """Those of K and V."""
        return (self.batch,) if self.rank == 3 else (self.batch, self.heads_kv)

    @property
    def split(self) -> tuple[int, ...]:
        """The axis of the parts, none without."""
        return () if self.parts == 1 else (self.parts,)

    @property
    def scores(self) -> tuple[int, ...]:
        """The lengths of the scores."""
        return (*self.leading, *self.split, self.seq_q, self.seq_k // self.parts)

    @property
    def features(self) -> list[str]:
        """The features that are on, in order."""
        on = {
            "kvcache": self.kv_index,
            "causal": self.causal,
            "prefix_offset": self.prefix_offset,
            "sliding_window": self.window is not None,
            "splitkv": self.parts > 1,
        }
        return [name for name, present in on.items() if present]

    @property
    def text(self) -> str:
        """The module as text."""
        return _Writer(self).write()


@dataclass
class _Writer:
    graph: AttentionOpGraph
    arguments: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])

    def argument(self, name: str, element: str, shape: Sequence[int]) -> str:
        self.arguments.append(f"%{name}: !migraphx.shaped{short_type(element, shape)}")
        return short_type(element, shape)

    def write(self) -> str:
        g = self.graph
        types = [self.argument("q", g.element, (*g.leading, g.seq_q, g.dim_qk))]
        types.append(self.cache("k", g.element, g.dim_qk))
        types.append(self.cache("v", g.values, g.dim_v))
        clauses, body = self.body()
        per_head = short_type("i32", g.leading)
        for name, present in (("current_seq_len", g.kv_index), ("prefix_offset", g.prefix_offset)):
            if present:
                self.argument(name, "i32", g.leading)
                clauses.append(f"{name}(%{name} : !migraphx.shaped{per_head})")
        options = [f"softmax_type = {g.softmax_type}"] if g.softmax_type else []
        options += [f'features = "{"|".join(g.features)}"'] if g.features else []
        options += [f"splitKV = {g.parts}"] if g.parts > 1 else []
        options += [f"slidingWindowSize = {g.window}"] if g.window is not None else []
        results = [short_type(g.values, (*g.leading, *g.split, g.seq_q, g.dim_v))]
        if g.lse:
            results.append(short_type(g.softmax_type or g.values, (*g.leading, *g.split, g.seq_q)))
        names = [f"%r{i}" for i in range(len(results))]
        full = ", ".join(f"!migraphx.shaped{type}" for type in results)
        attributes = ' attributes {arch = "gfx942", rock.kernel = "mixr"}' if g.kernel else ""
        return (
            f"func.func @attention({', '.join(self.arguments)})\n    -> ({full}){attributes} {{\n"
            + "".join(f"  {line}\n" for line in self.lines)
            + f"  {', '.join(names)} = migraphx.attention %q, %k, %v {' '.join(clauses)} {{\n"
            + "".join(f"    {line}\n" for line in body)
            + f"  }} {' '.join(options)} : {', '.join(types)} -> {', '.join(results)}\n"
            f"  return {', '.join(names)} : {full}\n}}\n"
        )

    def cache(self, name: str, element: str, dim: int) -> str:
        """Defines %k as `[.., dim, seq_k]` or %v as `[.., seq_k, dim]`."""
        g = self.graph
        transposed = name == "k"
        shape = (*g.cache_leading, dim, g.seq_k) if transposed else (*g.cache_leading, g.seq_k, dim)
        if g.page_tokens is None:
            return self.argument(name, element, shape)
        page, size = g.page_tokens * dim, {"f32": 4, "f16": 2, "bf16": 2, "i8": 1}[element]
        heads = 1 if g.rank == 3 else g.heads_kv
        table = (g.batch, heads * g.seq_k // g.page_tokens)
        pages = (*table, page)
        self.argument(f"{name}_pages", "ui64", table)
        bases, offsets = short_type("ui64", (*table, 1)), short_type("ui64", (page,))
        wide, elements = short_type("ui64", pages), short_type(element, pages)
        rows = short_type(element, (*g.cache_leading, g.seq_k, dim))
        numbers, lengths = ", ".join(str(size * i) for i in range(page)), list(pages)
        last = f"%{name}_rows" if transposed else f"%{name}"
        self.lines += [
            f"%{name}_bases = migraphx.reshape %{name}_pages {{dims = {[*table, 1]}}} "
            f": {short_type('ui64', table)} -> {bases}",
            f"%{name}_wide = migraphx.multibroadcast %{name}_bases {{out_lens = {lengths}}} : {bases} -> {wide}",
            f"%{name}_numbers = migraphx.literal(dense<[{numbers}]> : tensor<{page}xui64>) : {offsets}",
            f"%{name}_offsets = migraphx.broadcast %{name}_numbers {{axis = 2 : i64, out_lens = {lengths}}} "
            f": {offsets} -> {wide}",
            f"%{name}_addresses = migraphx.add %{name}_wide, %{name}_offsets : {wide}, {wide} -> {wide}",
            f"%{name}_elements = migraphx.deref %{name}_addresses : {wide} -> {elements}",
            f"{last} = migraphx.reshape %{name}_elements {{dims = {[*g.cache_leading, g.seq_k, dim]}}} "
            f": {elements} -> {rows}",
        ]
        if transposed:
            order = [0, 2, 1] if g.rank == 3 else [0, 1, 3, 2]
            self.lines.append(
                f"%k = migraphx.transpose %k_rows {{permutation = {order}}} : {rows} -> {short_type(element, shape)}"
            )
        return short_type(element, shape)

    def body(self) -> tuple[list[str], list[str]]:
        """The clause of the inputs, and the lines of the region."""
        g = self.graph
        if not g.body:
            return [], []
        element = g.element
        scores = "i32" if element == "i8" else element
        arguments, lines, value = [f"%qk: !migraphx.shaped{short_type(scores, g.scores)}"], list[str](), "%qk"
        inputs: list[tuple[str, str]] = []
        for number, step in enumerate(g.body):
            before = short_type(scores, g.scores)
            scores = g.softmax_type or g.values if step == "dequantize" else scores
            type = short_type(scores, g.scores)
            inputs.append((f"%{step}{number}", type))
            self.argument(f"{step}{number}", scores, g.scores)
            arguments.append(f"%in{number}: !migraphx.shaped{type}")
            name = {"scale": "mul", "bias": "add", "dequantize": "dequantizelinear"}[step]
            lines.append(f"%s{number} = migraphx.{name} {value}, %in{number} : {before}, {type} -> {type}")
            value = f"%s{number}"
        lines.append(f"migraphx.yield {value} : !migraphx.shaped{short_type(scores, g.scores)}")
        names, types = ", ".join(n for n, _ in inputs), ", ".join(f"!migraphx.shaped{t}" for _, t in inputs)
        return [f"pre_softmax_inputs({names} : {types})"], [f"^bb0({', '.join(arguments)}):", *lines]
