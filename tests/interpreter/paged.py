"""Attention with a paged cache for tests: data in logical order, packed into pages by the rule that defines them."""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import xpaged
from xpaged.testing import oracle

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}


@dataclass(frozen=True)
class Case:
    """Sizes of one attention; `kv_index` holds one entry a batch entry, or is None."""

    batch: int = 1
    heads_q: int = 1
    heads_kv: int = 1
    seq_q: int = 4
    seq_k: int = 8
    dim_qk: int = 8
    dim_v: int = 8
    page_size: int = 16
    dtype: str = "f16"
    causal: bool = False
    scale: float | None = None
    kv_index: tuple[int, ...] | None = None
    prefix_offset: tuple[int, ...] | None = None
    window: int | None = None
    lse: bool = False
    seed: int = 0

    @property
    def num_pages(self) -> int:
        return self.heads_kv * self.seq_k * self.dim_qk // self.page_size

    def module(self) -> ModuleOp:
        return xpaged.attention(
            batch=self.batch,
            heads_q=self.heads_q,
            heads_kv=self.heads_kv,
            seq_q=self.seq_q,
            seq_k=self.seq_k,
            dim_qk=self.dim_qk,
            dim_v=self.dim_v,
            dtype=self.dtype,
            page_size=self.page_size,
            num_pages=self.num_pages,
            causal=self.causal,
            scale=self.scale,
            kv_index=self.kv_index is not None,
            prefix_offset=self.prefix_offset is not None,
            sliding_window=self.window,
            lse=self.lse,
        )

    def data(self) -> "Data":
        """Q, K and V in logical order: [batch, heads, length, channels]."""
        rng = np.random.default_rng(self.seed)

        def draw(heads: int, length: int, channels: int) -> Any:
            return rng.standard_normal((self.batch, heads, length, channels)).astype(DTYPES[self.dtype])

        return Data(
            self,
            draw(self.heads_q, self.seq_q, self.dim_qk),
            draw(self.heads_kv, self.seq_k, self.dim_qk),
            draw(self.heads_kv, self.seq_k, self.dim_v),
        )


@dataclass
class Data:
    """The data of a case."""

    case: Case
    q: Any
    k: Any
    v: Any

    def inputs(self, **changes: Any) -> dict[str, Any]:
        """As `xpaged run --inputs` takes them. Element (h, j, c) of a batch entry is number `(h Sk + j) D + c`; it lies
        in page `number // page size`."""
        case = self.case
        pages_k = self.k.reshape(case.batch * case.num_pages, case.page_size)
        pages_v = self.v.reshape(case.batch * case.num_pages, -1)
        result = {"q": self.q, "k_table.pages": pages_k, "v_table.pages": pages_v}
        for name, values in (("kv_index", case.kv_index), ("prefix_offset", case.prefix_offset)):
            if values is not None:
                result[name] = np.array(values, np.int32)
        return result | changes

    def expected(self) -> tuple[Any, Any]:
        """Output and LSE in float64, [batch * heads, Sq, ...], straight from the logical arrays."""
        case = self.case

        def per_head(values: tuple[int, ...] | None) -> list[int] | None:
            return None if values is None else [v for v in values for _ in range(case.heads_q)]

        problem = oracle.Problem(
            self.q.reshape(-1, case.seq_q, case.dim_qk),
            self.k.reshape(-1, case.seq_k, case.dim_qk),
            self.v.reshape(-1, case.seq_k, case.dim_v),
            repeats=case.heads_q // case.heads_kv,
            kv_index=per_head(case.kv_index),
            causal=case.causal,
            prefix_offset=per_head(case.prefix_offset),
            window=case.window,
            score=None if case.scale is None else lambda s, _: s * case.scale,
        )
        return oracle.attention(problem)

    def poisoned(self, value: float = np.nan) -> "Data":
        """The same with `value` in every slot past the KV index, and before the window, in K and V."""
        k, v = self.k.copy(), self.v.copy()
        for entry, index in enumerate(self.case.kv_index or ()):
            first = 0 if self.case.window is None else max(0, min(index, self.case.seq_k - 1) - self.case.window)
            for x in (k, v):
                x[entry, :, index + 1 :] = value
                x[entry, :, :first] = value
        return Data(self.case, self.q, k, v)


@st.composite
def cases(draw: st.DrawFn, *, masks: bool = True) -> Case:
    """Small geometries of every kind: page sizes that cut rows and heads, GQA, batches, lengths, and with `masks` KV
    indices, causality and windows."""
    batch = draw(st.integers(1, 2))
    heads_kv = draw(st.integers(1, 2))
    seq_k = draw(st.integers(1, 20))
    dim_qk = draw(st.sampled_from([1, 3, 4, 8]))
    total = heads_kv * seq_k * dim_qk
    page_size = draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
    dim_v = draw(st.sampled_from([d for d in (1, 2, 4, 5, 8) if page_size * d % dim_qk == 0] or [dim_qk]))
    with_index = masks and draw(st.booleans())
    causal = masks and draw(st.booleans())
    return Case(
        batch=batch,
        heads_kv=heads_kv,
        heads_q=heads_kv * draw(st.integers(1, 3)),
        seq_q=draw(st.integers(1, 6)),
        seq_k=seq_k,
        dim_qk=dim_qk,
        dim_v=dim_v,
        page_size=page_size,
        dtype=draw(st.sampled_from(["f16", "bf16", "f32"])),
        causal=causal,
        scale=draw(st.sampled_from([None, 0.25, -1.5])),
        kv_index=tuple(draw(st.integers(-1, seq_k + 3)) for _ in range(batch)) if with_index else None,
        prefix_offset=tuple(draw(st.integers(-3, seq_k)) for _ in range(batch))
        if causal and draw(st.booleans())
        else None,
        window=draw(st.none() | st.integers(1, seq_k)) if with_index else None,
        lse=draw(st.booleans()),
        seed=draw(st.integers(0, 1000)),
    )
