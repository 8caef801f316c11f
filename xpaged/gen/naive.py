"""
`host_naive_attention`: the attention of a problem on the CPU, step by step on whole matrices.

It takes what the kernel takes, but K and V always as elements in logical order, `[batch, heads, token, channel]`, never
as page tables. Without pages that is the order that the transpositions say. Its output is in the type that it computes
in, f32 or f64, or in the kernel's where it rounds as a kernel does (`strict`: the softmax type, P and the results).

    scores[g, i, j]  = sum over d of q[g, i, d] k[h, j, d]        h: the KV head of query head g
    logits[g, i, j]  = the scores, dequantized, scaled and biased; minus infinity where the masks drop a key
    largest[g, i]    = max over j of logits
    weights[g, i, j] = exp(logits - largest), 0 in a row without keys
    sum[g, i]        = sum over j of weights, at least 1
    out[g, i, c]     = sum over j of weights v[h, j, c] / sum; a weight of 0 leaves its V out, whatever it holds
    lse[g, i]        = log(sum over j of weights) + largest
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, MemRefType, f32, f64, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from xpaged.gen.generate import Reference
from xpaged.gen.loops import HostFunction, MaskRules, Scalars, at
from xpaged.lowering import masks
from xpaged.lowering.tile_builder import LOWEST as LOWEST_F32
from xpaged.sizes import SOFTMAX_DTYPES, AttentionProblem, score, score_inputs

NAME = "host_naive_attention"
LOWEST = {f32: LOWEST_F32, f64: -1.7976931348623157e308}
NEGATIVE_INFINITY = float("-inf")


def reference_type(p: AttentionProblem, kind: Reference, lse: bool) -> AnyFloat:
    """The element type of an output of the CPU function."""
    if kind == "strict":
        return SOFTMAX_DTYPES[p.softmax_dtype] if lse else p.value_type
    return f64 if kind == "f64" else f32


def naive_arguments(p: AttentionProblem, kind: Reference) -> list[tuple[str, MemRefType[Attribute]]]:
    """The arguments of the CPU function, in the kernel's order."""
    scores = p.groups * p.seq_q * p.seq_k
    sizes: list[tuple[str, int, Attribute]] = [
        ("q", p.groups * p.seq_q * p.dim_qk, p.element_type),
        ("k", p.kv_groups * p.seq_k * p.dim_qk, p.element_type),
        ("v", p.kv_groups * p.seq_k * p.dim_v, p.value_type),
        *((name, scores, type_) for name, type_ in score_inputs(p).items()),
    ]
    if p.kv_index is not False:
        sizes.append(("kv_index", p.batch, i32))
    if p.prefix_offset is not False:
        sizes.append(("prefix_offset", p.batch, i32))
    if p.lse:
        sizes.append(("lse", p.groups * p.seq_q, reference_type(p, kind, True)))
    sizes.append(("out", p.groups * p.seq_q * p.dim_v, reference_type(p, kind, False)))
    return [(name, MemRefType(type_, [size])) for name, size, type_ in sizes]


def naive_attention(p: AttentionProblem, kind: Reference) -> FuncOp:
    """The CPU function of a problem (see the module's text)."""
    return _Naive(p, kind).function()


def shared(head: AffineExpr, heads: int) -> AffineExpr:
    """Which of the groups of `heads` heads a head belongs to."""
    return head if heads == 1 else head // heads


class _Naive:
    def __init__(self, p: AttentionProblem, kind: Reference) -> None:
        self.p = p
        self.kind: Reference = kind
        self.type = f64 if kind == "f64" else f32
        self.f = HostFunction(NAME, naive_arguments(p, kind))
        self.repeats = p.heads_q // p.heads_kv

    def function(self) -> FuncOp:
        p, f = self.p, self.f
        raw = self._scores()
        logits = f.alloc("logits", self.type, (p.groups, p.seq_q, p.seq_k))
        self._score(raw, logits)
        largest = f.alloc("largest", self.type, (p.groups, p.seq_q))
        f.fill(largest, NEGATIVE_INFINITY)
        f.loop(
            [at(logits, 3, lambda d: d)],
            at(largest, 3, lambda d: d[:2]),
            lambda s, x: s(arith.MaximumfOp(x[0], x[1])),
            reduced=[2],
        )
        f.loop(
            [at(largest, 3, lambda d: d[:2])],
            at(logits, 3, lambda d: d),
            lambda s, x: s(math.ExpOp(s(arith.SubfOp(x[1], self._finite(s, x[0]))))),
        )
        total = f.alloc("sum", self.type, (p.groups, p.seq_q))
        f.fill(total, 0.0)
        f.loop(
            [at(logits, 3, lambda d: d)],
            at(total, 3, lambda d: d[:2]),
            lambda s, x: s(arith.AddfOp(x[1], x[0])),
            reduced=[2],
        )
        self._output(logits, total)
        if p.lse:
            lse = f.view(f.arguments["lse"], (p.groups, p.seq_q))
            f.loop(
                [at(total, 2, lambda d: d), at(largest, 2, lambda d: d)],
                at(lse, 2, lambda d: d),
                lambda s, x: s.as_float(s(arith.AddfOp(s(math.LogOp(x[0])), x[1])), reference_type(p, self.kind, True)),
            )
        return f.finish()

    def _finite(self, s: Scalars, largest: SSAValue) -> SSAValue:
        """A row without keys has no largest score: any finite number makes its weights 0."""
        return s(arith.MaximumfOp(largest, s.number(LOWEST[self.type], self.type)))

    def _view(self, name: str, heads: int, rows: int, channels: int, *, channels_first: bool) -> SSAValue:
        shape = (heads, channels, rows) if channels_first else (heads, rows, channels)
        return self.f.view(self.f.arguments[name], shape)

    def _scores(self) -> SSAValue:
        p, f = self.p, self.f
        paged = p.page_size is not None
        k_first = not paged and not p.trans_k
        q = self._view("q", p.groups, p.seq_q, p.dim_qk, channels_first=p.trans_q)
        k = self._view("k", p.kv_groups, p.seq_k, p.dim_qk, channels_first=k_first)
        element = i32 if p.quantized else self.type
        raw = f.alloc("scores", element, (p.groups, p.seq_q, p.seq_k))
        f.fill(raw, 0)

        def product(s: Scalars, x: Sequence[SSAValue]) -> SSAValue:
            if p.quantized:
                a, b = (s(arith.ExtSIOp(value, i32)) for value in x[:2])
                return s(arith.AddiOp(x[2], s(arith.MuliOp(a, b))))
            a, b = (s.as_float(value, self.type) for value in x[:2])
            return s(arith.AddfOp(x[2], s(arith.MulfOp(a, b))))

        r = self.repeats
        f.loop(
            [
                at(q, 4, lambda d: (d[0], d[3], d[1]) if p.trans_q else (d[0], d[1], d[3])),
                at(k, 4, lambda d: (shared(d[0], r), d[3], d[2]) if k_first else (shared(d[0], r), d[2], d[3])),
            ],
            at(raw, 4, lambda d: d[:3]),
            product,
            reduced=[3],
        )
        return raw

    def _score(self, raw: SSAValue, logits: SSAValue) -> None:
        """The score region and the masks."""
        p, f = self.p, self.f
        extras = [f.view(f.arguments[name], (p.groups, p.seq_q, p.seq_k)) for name in score_inputs(p)]
        numbers = [name for name in ("kv_index", "prefix_offset") if name in f.arguments]

        def body(s: Scalars, x: Sequence[SSAValue]) -> SSAValue:
            value = score(s.builder, p, x[0], x[1 : 1 + len(extras)], self.type)
            if self.kind != "f32" and p.softmax_dtype != "f32":
                value = s.rounded(value, SOFTMAX_DTYPES[p.softmax_dtype])
            return self._masked(s, value, dict(zip(numbers, x[1 + len(extras) : -1], strict=True)))

        f.loop(
            [
                *(at(value, 3, lambda d: d) for value in (raw, *extras)),
                *(at(f.arguments[name], 3, lambda d: (shared(d[0], p.heads_q),)) for name in numbers),
            ],
            at(logits, 3, lambda d: d),
            body,
        )

    def _masked(self, s: Scalars, value: SSAValue, numbers: dict[str, SSAValue]) -> SSAValue:
        """`value`, or minus infinity where the masks drop the key."""
        p = self.p
        if not numbers and not p.causal:
            return value
        rules = MaskRules(s)
        last = masks.last_key(rules, numbers.get("kv_index"), p.seq_k)
        row = s.position(1) if p.causal else None
        upper = masks.upper_key(rules, last, row, numbers.get("prefix_offset"))
        lower = masks.lower_key(rules, last, p.sliding_window)
        key = s.position(2)
        nothing = s.number(NEGATIVE_INFINITY, self.type)
        value = s.select(s.compare("sle", key, upper), value, nothing)
        return value if lower is None else s.select(s.compare("sge", key, lower), value, nothing)

    def _output(self, weights: SSAValue, total: SSAValue) -> None:
        p, f = self.p, self.f
        v_first = p.page_size is None and p.trans_v
        v = self._view("v", p.kv_groups, p.seq_k, p.dim_v, channels_first=v_first)
        sums = f.alloc("products", self.type, (p.groups, p.seq_q, p.dim_v))
        f.fill(sums, 0.0)

        def product(s: Scalars, x: Sequence[SSAValue]) -> SSAValue:
            weight = s.rounded(x[0], p.value_type) if self.kind != "f32" else x[0]
            part = s(arith.MulfOp(weight, s.as_float(x[1], self.type)))
            zero = s.number(0.0, self.type)
            return s(arith.AddfOp(x[2], s.select(s.compare("oeq", weight, zero), zero, part)))

        r = self.repeats
        f.loop(
            [
                at(weights, 4, lambda d: (d[0], d[1], d[3])),
                at(v, 4, lambda d: (shared(d[0], r), d[2], d[3]) if v_first else (shared(d[0], r), d[3], d[2])),
            ],
            at(sums, 4, lambda d: d[:3]),
            product,
            reduced=[3],
        )
        out = self._view("out", p.groups, p.seq_q, p.dim_v, channels_first=p.trans_o)
        result = reference_type(p, self.kind, False)
        f.loop(
            [at(sums, 3, lambda d: d), at(total, 3, lambda d: d[:2])],
            at(out, 3, lambda d: (d[0], d[2], d[1]) if p.trans_o else d),
            lambda s, x: s.as_float(s(arith.DivfOp(x[0], s(arith.MaximumfOp(x[1], s.number(1.0, self.type))))), result),
        )
