"""The kernels that mutants are made of: small ones of every family, such that each part of them matters to a result."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp

import xpaged

FAMILIES: dict[str, dict[str, Any]] = {
    "decode": {
        "batch": 4,
        "heads_q": 4,
        "heads_kv": 4,
        "seq_q": 1,
        "seq_k": 160,
        "dim_qk": 24,
        "page_size": 48,
        "kv_index": [131, 159, 5, -1],
    },
    "decode, GQA, LSE": {
        "batch": 4,
        "heads_q": 2,
        "heads_kv": 1,
        "seq_q": 3,
        "seq_k": 150,
        "dim_qk": 24,
        "page_size": 48,
        "kv_index": [131, 149, 2147483647, 20],
        "causal": True,
        "prefix_offset": [129, 2147483647, 148, -1],
        "lse": True,
    },
    "prefill": {"heads_q": 2, "seq_q": 40, "seq_k": 70, "dim_qk": 32, "page_size": 32 * 7},
    "causal": {"heads_q": 2, "seq_q": 70, "seq_k": 70, "dim_qk": 16, "page_size": 16 * 5, "causal": True, "lse": True},
    "GQA": {"heads_q": 6, "heads_kv": 2, "seq_q": 12, "seq_k": 40, "dim_qk": 16, "page_size": 64, "lse": True},
    "window": {
        "batch": 2,
        "seq_q": 2,
        "seq_k": 300,
        "dim_qk": 16,
        "page_size": 64,
        "kv_index": [280, 20],
        "sliding_window": 100,
        "lse": True,
    },
    "bias and scales": {
        "heads_q": 2,
        "heads_kv": 2,
        "seq_q": 5,
        "seq_k": 40,
        "dim_qk": 16,
        "page_size": 64,
        "scale": 0.5,
        "scale_input": True,
        "bias": True,
        "lse": True,
    },
    "f32": {"heads_q": 2, "heads_kv": 1, "seq_q": 5, "seq_k": 70, "dim_qk": 20, "page_size": 100, "dtype": "f32"},
    "bf16": {"batch": 2, "seq_q": 2, "seq_k": 40, "dim_qk": 32, "page_size": 256, "dtype": "bf16", "kv_index": [30, 9]},
    "part of a row a page": {"seq_q": 3, "seq_k": 40, "dim_qk": 24, "page_size": 8, "kv_index": [33]},
    "pages across heads": {"heads_q": 3, "heads_kv": 3, "seq_q": 2, "seq_k": 20, "dim_qk": 16, "page_size": 480},
    "other dimension of V": {"seq_q": 3, "seq_k": 48, "dim_qk": 32, "dim_v": 40, "page_size": 128, "kv_index": [40]},
    "unpaged": {"heads_q": 2, "seq_q": 5, "seq_k": 40, "dim_qk": 16, "kv_index": [33], "lse": True},
}
"""Sizes by the name of the family."""


def kernel(family: str) -> ModuleOp:
    """The kernel of a family."""
    sizes = dict(FAMILIES[family])
    sizes.setdefault("heads_kv", sizes.get("heads_q", 1))
    return xpaged.attention(**sizes)
