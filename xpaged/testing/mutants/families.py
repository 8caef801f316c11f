"""The kernels that mutants are made of: small ones of every family, such that each part of them matters to a result."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp

from xpaged.sizes import AttentionProblem, build

FAMILIES: dict[str, dict[str, Any]] = {
    "decode": {
        "batch": 4,
        "heads_q": 12,
        "heads_kv": 1,
        "seq_q": 1,
        "seq_k": 840,
        "dim_qk": 24,
        "page_size": 48,
        "kv_index": [131, 2147483647, 777, -1],
    },
    "decode, GQA, LSE": {
        "batch": 4,
        "heads_q": 2,
        "heads_kv": 1,
        "seq_q": 3,
        "seq_k": 600,
        "dim_qk": 24,
        "page_size": 48,
        "kv_index": [581, 599, 2147483647, 70],
        "causal": True,
        "prefix_offset": [579, 2147483647, 598, -1],
        "lse": True,
    },
    "split over the keys": {
        "batch": 2,
        "heads_q": 4,
        "heads_kv": 2,
        "seq_q": 1,
        "seq_k": 190,
        "dim_qk": 16,
        "page_size": 80,
        "kv_index": [187, 40],
        "lse": True,
        "split_kv": 3,
        "merge": True,
    },
    "prefill": {"heads_q": 2, "seq_q": 40, "seq_k": 190, "dim_qk": 32, "page_size": 32 * 10},
    "through LDS": {
        "batch": 2,
        "heads_q": 2,
        "heads_kv": 1,
        "seq_q": 70,
        "seq_k": 190,
        "dim_qk": 64,
        "page_size": 64 * 10,
        "kv_index": [187, 126],
        "lse": True,
    },
    "causal": {"seq_q": 190, "seq_k": 190, "dim_qk": 16, "page_size": 16 * 5, "causal": True, "lse": True},
    "causal, more queries": {"heads_q": 2, "seq_q": 70, "seq_k": 62, "dim_qk": 16, "page_size": 64, "causal": True},
    "GQA": {"heads_q": 6, "heads_kv": 2, "seq_q": 12, "seq_k": 190, "dim_qk": 16, "page_size": 64, "lse": True},
    "window": {
        "batch": 4,
        "seq_q": 2,
        "seq_k": 600,
        "dim_qk": 16,
        "page_size": 64,
        "kv_index": [580, 20, 599, -1],
        "sliding_window": 300,
        "lse": True,
    },
    "bias and scales": {
        "heads_q": 2,
        "heads_kv": 2,
        "seq_q": 5,
        "seq_k": 190,
        "dim_qk": 16,
        "page_size": 64,
        "scale": 0.5,
        "scale_input": True,
        "bias": True,
        "lse": True,
    },
    "f32": {"heads_q": 2, "heads_kv": 1, "seq_q": 5, "seq_k": 190, "dim_qk": 20, "page_size": 100, "dtype": "f32"},
    "bf16": {
        "batch": 4,
        "seq_q": 2,
        "seq_k": 190,
        "dim_qk": 32,
        "page_size": 160,
        "dtype": "bf16",
        "kv_index": [189, 9, 125, -1],
    },
    "part of a row a page": {
        "batch": 2,
        "seq_q": 3,
        "seq_k": 190,
        "dim_qk": 24,
        "page_size": 8,
        "kv_index": [188, 60],
    },
    "pages across heads": {"heads_q": 3, "heads_kv": 3, "seq_q": 2, "seq_k": 190, "dim_qk": 16, "page_size": 480},
    "other dimension of V": {
        "batch": 2,
        "seq_q": 3,
        "seq_k": 190,
        "dim_qk": 32,
        "dim_v": 40,
        "page_size": 160,
        "kv_index": [187, 126],
    },
    "unpaged": {"batch": 2, "heads_q": 2, "seq_q": 5, "seq_k": 190, "dim_qk": 16, "kv_index": [188, 124], "lse": True},
}
"""Sizes by the name of the family."""


def kernel(family: str) -> ModuleOp:
    """The kernel of a family."""
    sizes = dict(FAMILIES[family])
    heads = sizes.setdefault("heads_kv", sizes.get("heads_q", 1))
    sizes.setdefault("dim_v", sizes["dim_qk"])
    if "page_size" in sizes:
        sizes["num_pages"] = heads * sizes["seq_k"] * sizes["dim_qk"] // sizes["page_size"]
    return build(AttentionProblem(**sizes))
