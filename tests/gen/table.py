"""Every option of `xpaged gen`: values to try, which go together, and what is said where they do not."""

from __future__ import annotations

from collections.abc import Mapping

FACTORS: dict[str, tuple[str, ...]] = {
    "t": ("f16", "f32", "bf16", "i8"),
    "heads": ("1 1", "4 2", "3 3"),
    "groupsize": ("1", "2"),
    "seq_len_q": ("5", "1"),
    "seq_len_k": ("24", "40"),
    "head_dim_qk": ("16", "24"),
    "head_dim_v": ("16", "8"),
    "pages": ("", "four rows", "half a row"),
    "transQ": ("", "true"),
    "transK": ("", "true"),
    "transV": ("", "true"),
    "transO": ("", "true"),
    "with-attn-scale": ("", "true"),
    "with-attn-bias": ("", "true"),
    "causal": ("", "true"),
    "prefix_offset": ("", "3,19"),
    "current_seq_len": ("", "20,7", "-1,23"),
    "sliding_window_size": ("", "4"),
    "return_lse": ("", "true"),
    "softmax_dtype": ("", "f16", "bf16"),
    "split": ("", "split_kv 3", "split_kv 8 merge_split_kv true"),
    "perf_config": ("", "attn:v3:48,48,16,32,32,32,16,1,1,2,2,0,1", "attn:v1:16,16,32,8,16,16,4,1"),
    "schedule_version": ("", "1", "4"),
    "arch": ("", "gfx90a", "gfx942"),
    "num_cu": ("", "104"),
    "num_chiplets": ("", "8"),
    "reverse_grid": ("", "true"),
    "operation": ("", "attention"),
    "apply-bufferization-pipeline": ("", "true"),
}
"""Options of the kernel: the first value is the one that pairs are built on; "" leaves the option out."""

HARNESS: dict[str, tuple[str, ...]] = {
    "verifier": ("pv", "pv-strict", "pv-f64", "verifier mlir", "verifier mlir-strict", "host-harness", "cpu-kernels"),
    "t": ("f16", "f32", "bf16", "i8"),
    "pages": ("", "four rows"),
    "return_lse": ("", "true"),
    "split_kv": ("", "2"),
    "rand": ("", "none", "7", "fixed"),
    "rand_type": ("", "float", "int"),
    "range": ("", "rand_min -2 rand_max 2", "rand_min_int -2 rand_max_int 2"),
    "rand_type_int_for_inputs": ("", "0,1"),
    "rand_side": ("", "both"),
    "comparator": ("", "legacy", "allclose"),
    "thresholds": ("", "RMS_threshold 0.02", "absDiff_threshold 1 relDiff_threshold 1.5", "atol 0.5 rtol 0.1"),
    "kernel-repeats": ("", "2"),
    "print-results": ("", "true"),
    "print-inputs": ("", "true"),
    "print-validation-results": ("", "true"),
}
"""Options of the functions for the host."""

ILLEGAL: list[tuple[str, dict[str, str], str]] = [
    ("prefix_offset", {"causal": ""}, "--prefix_offset needs --causal: a prefix offset moves the causal diagonal"),
    ("schedule_version", {"perf_config": "attn:v1:16,16,32,8,16,16,4,1"}, "names no schedule"),
    ("verifier", {"verifier": "pv-f64", "t": "i8"}, "-pv-f64 is for floats"),
    ("thresholds", {"comparator": "legacy", "thresholds": "atol 0.5 rtol 0.1"}, "has no atol and rtol"),
    ("thresholds", {"comparator": "allclose", "thresholds": "RMS_threshold 0.02"}, "allclose has no such threshold"),
    (
        "thresholds",
        {"comparator": "allclose", "thresholds": "absDiff_threshold 1 relDiff_threshold 1.5"},
        "allclose has no such threshold",
    ),
]
"""An option, a row in which it is illegal (it has another value than none there, unless the row says which), and the
message."""


def legal(row: Mapping[str, str]) -> bool:
    """Whether options go together."""
    return not any(_broken(option, other, row) for option, other, _ in ILLEGAL)


def _broken(option: str, other: Mapping[str, str], row: Mapping[str, str]) -> bool:
    return bool(row.get(option)) and all(row.get(name, "") == value for name, value in other.items())


def arguments(row: Mapping[str, str]) -> list[str]:
    """The command line of a row. Lists of values are cut to the batch entries, pages are counted."""
    row = {"seq_len_q": "3", "seq_len_k": "12", "head_dim_qk": "16", "head_dim_v": "8", **row}
    batch = int(row.get("groupsize", "1"))
    argv: list[str] = []
    for name, value in row.items():
        words = value.split()
        if not value:
            continue
        if name in ("range", "thresholds", "split"):
            argv += [f"-{option}={number}" for option, number in zip(words[::2], words[1::2], strict=True)]
        elif name == "verifier":
            argv.append("--" + value.replace(" ", "="))
        elif name == "heads":
            argv += [f"-num_heads_q={words[0]}", f"-num_heads_kv={words[1]}"]
        elif name == "pages":
            heads, keys = int(row.get("heads", "1 1").split()[1]), int(row["seq_len_k"])
            channels = int(row["head_dim_qk"])
            size = channels * 4 if value == "four rows" else channels // 2
            argv += ["--paged-attention", f"--num-pages={heads * keys * channels // size}", f"--page-size={size}"]
        elif name in ("prefix_offset", "current_seq_len"):
            argv.append(f"-{name}={','.join(value.split(',')[:batch])}")
        else:
            argv.append(f"-{name}={value}")
    return argv
