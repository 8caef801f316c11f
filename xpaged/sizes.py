"""An attention kernel from its sizes: `xpaged.attention(...)`, and what `xpaged gen` builds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Literal

from xdsl.builder import Builder
from xdsl.dialects.arith import AddfOp, ConstantOp, ExtFOp, ExtSIOp, MulfOp, SIToFPOp, SubiOp
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    ModuleOp,
    StringAttr,
    UnitAttr,
    bf16,
    f16,
    f32,
    i8,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from xpaged.dialects.rock.attention import AttentionOp
from xpaged.dialects.rock.ops import DerefOp, YieldOp
from xpaged.dialects.rock.page_tables import mark_page_tables
from xpaged.dialects.rock.views import make_chain, make_transform
from xpaged.errors import XpagedError, did_you_mean
from xpaged.ir.transform_map import Builder as MapBuilder
from xpaged.ir.transform_map import TransformMap
from xpaged.lowering.kernel import KERNEL

DTYPES: dict[str, AnyFloat | IntegerType] = {"f16": f16, "bf16": bf16, "f32": f32, "i8": i8}
"""Element types of Q and K; V and the output have the same, but f16 beside i8."""
SOFTMAX_DTYPES: dict[str, AnyFloat] = {"f32": f32, "f16": f16, "bf16": bf16}

PerBatch = bool | Sequence[int]
"""An i32 for each batch entry: absent (False), an argument (True), or an argument with values to run with."""

MOST = 2**31 - 1
"""The largest size along a dimension: indices are signed 32-bit numbers."""
MOST_BYTES = 2**48
"""No buffer is larger than what 48-bit addresses reach."""


@dataclass(frozen=True, kw_only=True)
class AttentionProblem:
    """The sizes and features of one attention kernel; see `attention` for what each means."""

    batch: int = 1
    heads_q: int = 1
    heads_kv: int = 1
    seq_q: int
    seq_k: int
    dim_qk: int
    dim_v: int
    dtype: str = "f16"
    value_dtype: str | None = None
    page_size: int | None = None
    num_pages: int | None = None
    causal: bool = False
    kv_index: PerBatch = False
    prefix_offset: PerBatch = False
    sliding_window: int | None = None
    scale: float | None = None
    scale_input: bool = False
    bias: bool = False
    lse: bool = False
    split_kv: int = 1
    merge: bool = False
    softmax_dtype: str = "f32"
    trans_q: bool = False
    trans_k: bool = False
    trans_v: bool = False
    trans_o: bool = False
    arch: str | None = None
    perf_config: str | None = None
    hints: Mapping[str, int | bool] = field(default_factory=dict[str, "int | bool"], compare=False)
    """More attributes of the kernel function, such as the number of compute units."""
    name: str = "rock_attention"

    def check(self) -> None:
        """Raise XpagedError, with the numbers, for sizes that do not fit together."""
        for what in ("batch", "heads_q", "heads_kv", "seq_q", "seq_k", "dim_qk", "dim_v", "split_kv"):
            value = getattr(self, what)
            if value <= 0:
                raise XpagedError(f"{what} must be positive", found=value, expected="1 or more")
            if value > MOST:
                raise XpagedError(f"{what} is too large", found=value, expected=f"at most {MOST}, a 32-bit number")
        _known("dtype", self.dtype, DTYPES)
        if self.value_dtype is not None:
            _known("value_dtype", self.value_dtype, SOFTMAX_DTYPES)
        _known("softmax_dtype", self.softmax_dtype, SOFTMAX_DTYPES)
        if self.heads_q % self.heads_kv:
            raise XpagedError(
                "the query heads cannot be shared out over the KV heads",
                found=f"heads_q = {self.heads_q}, heads_kv = {self.heads_kv}",
                expected="heads_q a multiple of heads_kv",
            )
        if self.merge and self.split_kv == 1:
            raise XpagedError("there is nothing to merge without a split", fix="give split_kv, the number of parts")
        if self.prefix_offset is not False and not self.causal:
            raise XpagedError("a prefix offset moves the causal diagonal, so it needs causal", fix="add causal")
        if self.sliding_window is not None and self.kv_index is False:
            raise XpagedError("a sliding window ends at the last valid key, so it needs the KV index")
        if self.sliding_window is not None and not 1 <= self.sliding_window <= self.seq_k:
            raise XpagedError(
                "the sliding window does not fit the keys",
                found=self.sliding_window,
                expected=f"1 to seq_k = {self.seq_k}",
            )
        self._check_per_batch("kv_index", self.kv_index, -1)
        self._check_per_batch("prefix_offset", self.prefix_offset, None)
        if self.page_size is not None or self.num_pages is not None:
            self._check_pages()
        self._check_bytes()

    def _check_per_batch(self, what: str, values: PerBatch, least: int | None) -> None:
        if isinstance(values, bool):
            return
        if len(values) != self.batch:
            raise XpagedError(
                f"{what} needs one value for each batch entry",
                found=f"{len(values)} values: {', '.join(map(str, values))}",
                expected=f"{self.batch}, the batch",
            )
        for value in values:
            if (least is not None and value < least) or not -(2**31) <= value < 2**31:
                expected = "-1 (no key) or the index of the last valid key" if least is not None else "a 32-bit integer"
                raise XpagedError(f"{what} is out of range", found=value, expected=expected)

    def _check_bytes(self) -> None:
        scores = (self.batch, self.heads_q, self.seq_q, self.seq_k) if self.scale_input or self.bias else (1,)
        for what, shape in (
            ("Q", (self.batch, self.heads_q, self.seq_q, self.dim_qk)),
            ("K", (self.batch, self.heads_kv, self.seq_k, self.dim_qk)),
            ("V", (self.batch, self.heads_kv, self.seq_k, self.dim_v)),
            ("the output", (self.batch, self.heads_q, self.parts, self.seq_q, self.dim_v)),
            ("an input of the scores", scores),
        ):
            size = prod(shape) * self.value_type.size
            if size > MOST_BYTES:
                raise XpagedError(
                    f"{what} is larger than any memory",
                    found=f"{' * '.join(map(str, shape))} elements of {self.value_type.size} bytes: {size} bytes",
                    expected=f"at most {MOST_BYTES} bytes",
                )

    def _check_pages(self) -> None:
        for what, value in (("page_size", self.page_size), ("num_pages", self.num_pages)):
            if value is None:
                raise XpagedError(f"a paged cache needs both page_size and num_pages; {what} is missing")
            if value <= 0:
                raise XpagedError(f"{what} must be positive", found=value, expected="1 or more elements or pages")
            if what == "num_pages" and value > MOST:
                raise XpagedError(f"{what} is too large", found=value, expected=f"at most {MOST}, a 32-bit number")
        assert self.page_size is not None
        assert self.num_pages is not None
        needed, held = self.heads_kv * self.seq_k * self.dim_qk, self.num_pages * self.page_size
        if held != needed:
            raise XpagedError(
                "the pages do not hold exactly the keys of a batch entry",
                found=f"num_pages * page_size = {self.num_pages} * {self.page_size} = {held}",
                expected=f"heads_kv * seq_k * dim_qk = {self.heads_kv} * {self.seq_k} * {self.dim_qk} = {needed}",
                fix=None if needed % self.page_size else f"num_pages = {needed // self.page_size} holds them",
            )
        if self.page_size * self.dim_v % self.dim_qk:
            raise XpagedError(
                "a page of V, which covers the same tokens as a page of K, would not hold a whole number of elements",
                found=f"page_size * dim_v / dim_qk = {self.page_size} * {self.dim_v} / {self.dim_qk}",
                expected="a whole number",
            )

    @cached_property
    def parts(self) -> int:
        """How many results there are for each row: those of the parts of the keys, or 1 where these are merged."""
        return self.split_kv if self.lse and not self.merge else 1

    @cached_property
    def groups(self) -> int:
        """Query heads over the batch."""
        return self.batch * self.heads_q

    @cached_property
    def kv_groups(self) -> int:
        """KV heads over the batch."""
        return self.batch * self.heads_kv

    @cached_property
    def element_type(self) -> AnyFloat | IntegerType:
        """The element type of Q and K."""
        return DTYPES[self.dtype]

    @cached_property
    def value_type(self) -> AnyFloat:
        """The element type of V, the output and the inputs of the scores: if nothing else is said that of Q and K, or
        f16 beside i8."""
        if self.value_dtype is not None:
            return SOFTMAX_DTYPES[self.value_dtype]
        return self.element_type if isinstance(self.element_type, AnyFloat) else f16

    @property
    def quantized(self) -> bool:
        """Whether Q and K are integers."""
        return isinstance(self.element_type, IntegerType)


def _known(what: str, name: str, known: Mapping[str, AnyFloat | IntegerType]) -> None:
    if name not in known:
        real = name in ("f64", "i8", "i16", "i32")  # types that exist: no slips of the pen
        guess = None if real else did_you_mean(name, known)
        raise XpagedError(f"unknown {what}", found=name, expected=f"one of {', '.join(known)}", fix=guess)


def attention(
    *,
    batch: int = 1,
    heads_q: int = 1,
    heads_kv: int | None = None,
    seq_q: int,
    seq_k: int,
    dim_qk: int,
    dim_v: int | None = None,
    dtype: str = "f16",
    value_dtype: str | None = None,
    softmax_dtype: str = "f32",
    page_size: int | None = None,
    page_tokens: int | None = None,
    num_pages: int | None = None,
    causal: bool = False,
    kv_index: PerBatch = False,
    prefix_offset: PerBatch = False,
    sliding_window: int | None = None,
    scale: float | None = None,
    lse: bool = False,
    split_kv: int | Literal["auto"] = 1,
    merge: bool = False,
    arch: str | None = None,
    name: str = "rock_attention",
) -> ModuleOp:
    """A module with one attention kernel at level `rock-memref`, from its sizes.

    Q is `[batch * heads_q, seq_q, dim_qk]`, the output `[batch * heads_q, seq_q, dim_v]`, both flat memrefs. Without
    pages, K is `[batch * heads_kv, dim_qk, seq_k]` and V `[batch * heads_kv, seq_k, dim_v]`. With pages, K and V are
    tables of page addresses, and the pages hold `[heads_kv, seq_k, dim]` of each batch entry in that order:
    `page_size` is the number of elements in a page of K, or `page_tokens` that of token rows (of one head).

    `dtype` is the type of Q and K (f16, bf16, f32 or i8), `value_dtype` that of V and the output (the same, or f16
    beside i8). i8 scores are dequantized by two more inputs, a bias (i8) and a scale for each score. Scores are rounded
    to `softmax_dtype` before the masks, and the LSE has that type; the softmax itself is computed in f32.

    `kv_index` adds an i32 argument with the last valid key of each batch entry, inclusive (-1: none); given as
    numbers, it also records them as the values to run with. `prefix_offset` (with `causal`) is passed alike.
    `sliding_window` keeps that many keys before the last valid one. `scale` multiplies the scores. `lse` adds the
    log-sum-exp of each row as an output.

    `split_kv` spreads the keys over that many workgroups, or over as many as fill the device (`"auto"`), and a second
    kernel merges what they give. With `lse`, the outputs are instead the results of the parts, `[.. * split_kv, ...]`
    (part `i` has the keys from `i * c` on, c = seq_k / split_kv rounded up), unless `merge` asks for the merged ones.

    Raises XpagedError, with the numbers, when the sizes do not fit together.
    """
    if page_tokens is not None:
        if page_size is not None:
            raise XpagedError(
                "the size of a page is given twice", found=f"page_size = {page_size}, page_tokens = {page_tokens}"
            )
        page_size = page_tokens * dim_qk
    heads_kv = heads_q if heads_kv is None else heads_kv
    if page_size is not None and num_pages is None:
        num_pages = max(1, heads_kv * seq_k * dim_qk // max(1, page_size))
    automatic = split_kv == "auto"
    module = build(
        AttentionProblem(
            batch=batch,
            heads_q=heads_q,
            heads_kv=heads_kv,
            seq_q=seq_q,
            seq_k=seq_k,
            dim_qk=dim_qk,
            dim_v=dim_qk if dim_v is None else dim_v,
            dtype=dtype,
            value_dtype=value_dtype,
            softmax_dtype=softmax_dtype,
            page_size=page_size,
            num_pages=num_pages,
            causal=causal,
            kv_index=kv_index,
            prefix_offset=prefix_offset,
            sliding_window=sliding_window,
            scale=scale,
            lse=lse,
            split_kv=1 if split_kv == "auto" else split_kv,
            merge=merge and not automatic,
            arch=arch,
            name=name,
        )
    )
    if automatic:
        _split(module, "auto")
    return module


def _split(module: ModuleOp, parts: int | Literal["auto"]) -> None:
    """Split the keys of a module's attention, with a merge behind it."""
    from xpaged.context import context
    from xpaged.passes.split_kv import SplitKvPass

    SplitKvPass(parts).apply(context(), module)


@dataclass
class _Arguments:
    """The arguments of a kernel function, in order."""

    block: Block = field(default_factory=Block)
    attributes: list[DictionaryAttr] = field(default_factory=list)

    def add(self, name: str, size: int, element_type: Attribute, **attributes: Attribute) -> SSAValue:
        """A flat memref argument; `attributes` get the prefix `rock.`."""
        value = self.block.insert_arg(MemRefType(element_type, [size]), len(self.block.args))
        value.name_hint = name
        self.attributes.append(DictionaryAttr({f"rock.{key}": attr for key, attr in attributes.items()}))
        return value


def build(p: AttentionProblem) -> ModuleOp:
    """The kernel of an attention problem, as a module at level `rock-memref`. Raises XpagedError, see `check`.

    Arguments: q, k, v (or their page tables), for i8 the bias and scale of the quantization, then scale, bias, KV
    index, prefix offset, LSE, output; absent ones are skipped.
    """
    p.check()
    element, softmax = p.value_type, SOFTMAX_DTYPES[p.softmax_dtype]
    rows = p.groups * p.parts * p.seq_q
    args = _Arguments()
    q = args.add("q", p.groups * p.seq_q * p.dim_qk, p.element_type)
    k = _cache_argument(args, p, "k", p.dim_qk, p.element_type)
    v = _cache_argument(args, p, "v", p.dim_v, element)
    extras = [args.add(name, p.groups * p.seq_q * p.seq_k, type_) for name, type_ in score_inputs(p).items()]
    kv_index = _per_batch_argument(args, p, "kv_index", p.kv_index)
    offset = _per_batch_argument(args, p, "prefix_offset", p.prefix_offset)
    lse = args.add("lse", rows, softmax, output=IntegerAttr(1, i32)) if p.lse else None
    out = args.add("out", rows * p.dim_v, element, output=IntegerAttr(0, i32))

    b = Builder(InsertPoint.at_end(args.block))
    queries = make_transform(
        b, q, _unmerged(("g", "seq_q", "dim"), (p.groups, p.seq_q, p.dim_qk), p.trans_q), "queries"
    )
    paged, key_pages, value_pages = p.page_size is not None, None, None
    key_map = _table_map(p) if paged else _unmerged(("g", "dim", "seq_k"), (p.kv_groups, p.dim_qk, p.seq_k), p.trans_k)
    value_map = _table_map(p) if paged else _unmerged(("g", "seq_k", "dim"), (p.kv_groups, p.seq_k, p.dim_v), p.trans_v)
    keys = make_transform(b, k, key_map, "k_table" if paged else "keys")
    values = make_transform(b, v, value_map, "v_table" if paged else "values")
    inputs = [
        make_transform(b, x, _unmerged(("g", "seq_q", "seq_k"), (p.groups, p.seq_q, p.seq_k), False)) for x in extras
    ]
    lse_view = (
        None if lse is None else make_transform(b, lse, _unmerged(("g", "seq_q"), (rows // p.seq_q, p.seq_q), False))
    )
    out_shape = (rows // p.seq_q, p.seq_q, p.dim_v)
    output = make_transform(b, out, _unmerged(("g", "seq_q", "dim"), out_shape, p.trans_o), "output")
    if p.page_size is not None:
        key_pages = _deref(b, keys, MemRefType(p.element_type, [p.batch, p.num_pages or 0, p.page_size]), "key_pages")
        page = p.page_size * p.dim_v // p.dim_qk
        value_pages = _deref(b, values, MemRefType(element, [p.batch, p.num_pages or 0, page]), "value_pages")
        keys = make_chain(b, key_pages, _cache_maps(p, p.dim_qk, channel_first=not p.trans_k), "keys")
        values = make_chain(b, value_pages, _cache_maps(p, p.dim_v, channel_first=p.trans_v), "values")
    b.insert(
        AttentionOp(
            queries,
            keys,
            values,
            preSoftmaxElemWiseInputs=inputs,
            currentSeqLen=None if kv_index is None else make_chain(b, kv_index, _heads_maps(p)),
            prefixOffset=None if offset is None else make_chain(b, offset, _heads_maps(p)),
            out=output,
            lse=lse_view,
            keyAddresses=key_pages,
            valueAddresses=value_pages,
            numHeadsQ=p.heads_q,
            numHeadsKV=p.heads_kv,
            qTransposed=p.trans_q,
            kTransposed=p.trans_k,
            vTransposed=p.trans_v,
            oTransposed=p.trans_o,
            causal=p.causal,
            splitKV=p.parts,
            slidingWindowLookBack=p.sliding_window,
            softmaxType=softmax,
            preSoftmaxBody=_score_region(p),
            perf_config=p.perf_config,
        )
    )
    b.insert(ReturnOp())
    func = FuncOp(
        p.name,
        FunctionType.from_lists([arg.type for arg in args.block.args], []),
        Region(args.block),
        arg_attrs=ArrayAttr(args.attributes),
    )
    func.attributes[KERNEL] = UnitAttr()
    if p.arch is not None:
        func.attributes["arch"] = StringAttr(p.arch)
    for name, value in p.hints.items():
        func.attributes[name] = UnitAttr() if value is True else IntegerAttr(value, i64)
    mark_page_tables(func)
    module = ModuleOp([func])
    module.verify()
    if p.split_kv > p.parts:
        _split(module, p.split_kv)
    return module


def score_inputs(p: AttentionProblem) -> dict[str, Attribute]:
    """The extra inputs of the scores, `[G, Sq, Sk]` each, in order, with their element types."""
    found: dict[str, Attribute] = {"quant_bias": i8, "quant_scale": p.value_type} if p.quantized else {}
    return found | {name: p.value_type for name, given in (("scale", p.scale_input), ("bias", p.bias)) if given}


def _cache_argument(args: _Arguments, p: AttentionProblem, name: str, dim: int, element: Attribute) -> SSAValue:
    """K or V: the elements, or a table with the address of each page."""
    if p.page_size is None or p.num_pages is None:
        return args.add(name, p.kv_groups * p.seq_k * dim, element)
    return args.add(f"{name}_table", p.batch * p.num_pages, i64)


def _per_batch_argument(args: _Arguments, p: AttentionProblem, name: str, values: PerBatch) -> SSAValue | None:
    if values is False:
        return None
    if values is True:
        return args.add(name, p.batch, i32)
    return args.add(name, p.batch, i32, default=DenseArrayBase.from_list(i32, list(values)))


def _unmerged(names: Sequence[str], shape: Sequence[int], transposed: bool) -> TransformMap:
    """A flat memref seen as `shape`, or with the last two dimensions exchanged in memory and view."""
    if transposed:
        names, shape = (names[0], names[2], names[1]), (shape[0], shape[2], shape[1])
    flat = 1
    for n in shape:
        flat *= n
    return MapBuilder(("raw",), (flat,)).unmerge(tuple(names), "raw", tuple(shape)).build()


def _table_map(p: AttentionProblem) -> TransformMap:
    """A flat page table as `[batch, numPages, 1]`."""
    assert p.num_pages is not None
    flat = MapBuilder(("raw",), (p.batch * p.num_pages,))
    return flat.unmerge(("batch", "page", "one"), "raw", (p.batch, p.num_pages, 1)).build()


def _deref(b: Builder, table: SSAValue, pages: MemRefType, name: str) -> SSAValue:
    op = b.insert(DerefOp(table, pages))
    op.result.name_hint = name
    return op.result


def _cache_maps(p: AttentionProblem, dim: int, *, channel_first: bool) -> list[TransformMap]:
    """Pages `[batch, numPages, pageSize]` as `[G, dim, seq_k]` or (`channel_first` false) `[G, seq_k, dim]`."""
    assert p.page_size is not None
    assert p.num_pages is not None
    page_size, total = p.page_size * dim // p.dim_qk, p.heads_kv * p.seq_k * dim
    pages = MapBuilder(("batch", "page", "offset"), (p.batch, p.num_pages, page_size))
    flat = MapBuilder(("batch", "total"), (p.batch, total)).pass_through("batch")
    heads = MapBuilder(("batch", "head", "seq_k", "dim"), (p.batch, p.heads_kv, p.seq_k, dim))
    heads = heads.merge("g", ("batch", "head")).pass_through(*(("dim", "seq_k") if channel_first else ("seq_k", "dim")))
    return [
        heads.build(),
        flat.unmerge(("head", "seq_k", "dim"), "total", (p.heads_kv, p.seq_k, dim)).build(),
        pages.pass_through("batch").merge("total", ("page", "offset")).build(),
    ]


def _heads_maps(p: AttentionProblem) -> list[TransformMap]:
    """One value for each batch entry, repeated for each query head, uppermost first."""
    if p.heads_q == 1:
        return []
    return [
        MapBuilder(("batch", "head"), (p.batch, p.heads_q)).merge("g", ("batch", "head")).build(),
        MapBuilder(("batch", "head"), (p.batch, 1)).pass_through("batch").broadcast("head", p.heads_q).build(),
        MapBuilder(("batch",), (p.batch,)).pass_through("batch").add_dim("head", 1).build(),
    ]


def _score_region(p: AttentionProblem) -> Region | None:
    """What `score` does, as the region of the attention; None where there is nothing to do."""
    types = list(score_inputs(p).values())
    if p.scale is None and not types:
        return None
    block = Block(arg_types=[i32 if p.quantized else f32, *types])
    b = Builder(InsertPoint.at_end(block))
    block.args[0].name_hint = "score"
    b.insert(YieldOp(score(b, p, block.args[0], block.args[1:], f32)))
    return Region(block)


def score(b: Builder, p: AttentionProblem, value: SSAValue, inputs: Sequence[SSAValue], type_: AnyFloat) -> SSAValue:
    """What enters the softmax for a score and its extra inputs, computed in `type_`: dequantized (minus the
    quantization bias, times the quantization scale), times the scale input, times the constant scale, plus the bias."""
    left = dict(zip(score_inputs(p), inputs, strict=True))
    if p.quantized:
        bias = b.insert(ExtSIOp(left["quant_bias"], i32)).result
        value = b.insert(SIToFPOp(b.insert(SubiOp(value, bias)).result, type_)).result
        value = b.insert(MulfOp(value, widened(b, left["quant_scale"], type_))).result
    if p.scale_input:
        value = b.insert(MulfOp(value, widened(b, left["scale"], type_))).result
    if p.scale is not None:
        value = b.insert(MulfOp(value, b.insert(ConstantOp(FloatAttr(p.scale, type_))).result)).result
    if p.bias:
        value = b.insert(AddfOp(value, widened(b, left["bias"], type_))).result
    return value


def widened(b: Builder, value: SSAValue, type_: AnyFloat) -> SSAValue:
    """A float as one of `type_`, which is at least as wide."""
    return value if value.type == type_ else b.insert(ExtFOp(value, type_)).result
