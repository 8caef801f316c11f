"""Figures of the best kernels that others' compilers make, and of kernels written by hand, for the table of `bars`.

`TRITON`: kernels in the style of Triton's tutorials (Triton 3.x), unpaged for prefill, compiled for the same
architecture and measured by the same rules from their assembly; each figure is the best that any of several
configurations has (waves a compute unit are 4 to 8, waits for all loads 2 to 10 in decode).  `BY_HAND`: HIP kernels of
the same sizes written for one geometry.  Problems: D = 128, 32 query heads on 8 KV heads; decode: bf16, pages of 16
tokens.
"""

TRITON_SOURCE = "Triton 3.x tutorial-style kernel, measured by the same rules"
BY_HAND_SOURCE = "HIP kernel written by hand for one geometry, measured by the same rules"

TRITON: dict[str, dict[str, float]] = {
    "gfx942": {
        "scratch": 0,
        "prefill rate": 1307,
        "prefill vector": 0.99,
        "prefill waves": 8,
        "prefill drains": 1,
        "prefill barriers": 2,
        "prefill excess": 1.0,
        "decode clocks": 208,
        "decode waves": 8,
        "decode drains": 2,
        "decode in flight": 0,
        "decode width": 1.0,
    },
    "gfx90a": {
        "scratch": 0,
        "prefill rate": 191,
        "prefill vector": 0.55,
        "prefill waves": 8,
        "prefill drains": 1,
        "prefill barriers": 2,
        "prefill excess": 1.0,
        "decode clocks": 178,
        "decode waves": 8,
        "decode drains": 2,
        "decode in flight": 0,
        "decode width": 1.0,
    },
}

BY_HAND: dict[str, dict[str, float]] = {
    "gfx942": {
        "prefill rate": 1307,
        "prefill vector": 0.52,
        "prefill waves": 8,
        "prefill drains": 0,
        "prefill barriers": 2,
        "prefill LDS width": 1.0,
        "prefill excess": 1.0,
        "decode clocks": 27.2,
    },
    "gfx90a": {
        "prefill rate": 191,
        "prefill vector": 0.26,
        "prefill waves": 8,
        "prefill drains": 0,
        "prefill barriers": 2,
        "prefill LDS width": 1.0,
        "prefill excess": 1.0,
        "decode clocks": 40.2,
    },
}
