"""From the options of `xpaged gen` to a module: a kernel at level `rock-memref`, and functions for the host."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from xpaged.errors import XpagedError, did_you_mean
from xpaged.gen.options import check_needs, parse_options, without_effect

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from xpaged.sizes import AttentionProblem

OPERATIONS = ("attention",)
OTHER_OPERATIONS = ("conv", "conv_bwd_data", "conv_bwd_weight", "gemm", "gemm_gemm", "conv_gemm")

Reference = Literal["f32", "strict", "f64"]
"""How the CPU function computes: in f32, in f32 rounded as a kernel rounds, or in f64 rounded likewise."""

ALLCLOSE = {"f32": (1e-5, 1.3e-6), "f16": (1e-5, 1e-3), "bf16": (1e-5, 1.6e-2)}
"""Absolute and relative tolerance of a comparison by `allclose`, by the type of the output; the absolute one grows with
the number of products that a result is a sum of."""
RMS = {"f32": 3e-5, "f16": 1e-3, "bf16": 5e-3}
"""Largest root mean square of the differences, relative to the largest value, by the type of the output. (rocmlir-gen
has 1e-3 for bf16 too, which is what rounding P and the output once leaves.)"""


@dataclass(frozen=True, kw_only=True)
class Data:
    """What the inputs of the host functions hold: all ones, or numbers drawn from `seed` in a range."""

    ones: bool = False
    seed: int = 0
    whole: bool = True
    floats: tuple[float, float] = (0.0, 1.0)
    integers: tuple[int, int] = (-5, 5)
    whole_inputs: frozenset[int] = frozenset()
    """Arguments that get whole numbers even where `whole` is false."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """When the kernel's result passes: three thresholds (a None is not compared), or `allclose` with two."""

    allclose: bool
    rms: float
    absolute: float
    relative: float | None


@dataclass(frozen=True, kw_only=True)
class Harness:
    """Which functions for the host there are, and what they do."""

    kernel: bool = True
    reference: Reference | None = None
    data: Data = field(default_factory=Data)
    comparison: Comparison = field(
        default_factory=lambda: Comparison(allclose=False, rms=1e-3, absolute=100.0, relative=None)
    )
    repeats: int = 1
    print_inputs: bool = False
    print_results: bool = False
    print_reference: bool = False


def generate(argv: Sequence[str], notes: list[str] | None = None) -> ModuleOp:
    """
    The module that a command line describes. What has no effect is added to `notes`.

    Raises XpagedError, with the values, for options that are missing, unknown or do not fit together.
    """
    return generate_from(parse_options(argv), notes)


def generate_from(values: Mapping[str, Any], notes: list[str] | None = None) -> ModuleOp:
    """The module that the values of all options (see `parse_options`) describe; as `generate`."""
    from xpaged.sizes import build

    said = [] if notes is None else notes
    _check_operation(values["operation"])
    check_needs(values)
    if values["paged_attention"]:
        pages = ("num-pages", "page-size")
        missing = [f"--{name}" for name in pages if values[name.replace("-", "_")] is None]
        if missing:
            raise XpagedError(f"--paged-attention needs {', '.join(missing)}")
    if not values["apply_bufferization_pipeline"]:
        raise XpagedError("kernels are generated on memrefs: --apply-bufferization-pipeline=false has no meaning")
    if values["arch"] is not None:
        from xpaged.arch import get_arch

        get_arch(values["arch"])
    said += without_effect(values)
    problem = problem_of(values)
    module = build(problem)
    _check_kernel(module)
    harness = harness_of(values, problem, said)
    if harness is not None:
        from xpaged.gen.harness import add_harness

        add_harness(module, problem, harness)
    return module


def _check_operation(operation: str) -> None:
    if operation in OPERATIONS:
        return
    expected = ", ".join(OPERATIONS)
    if operation in OTHER_OPERATIONS:
        raise XpagedError(f"xpaged generates attention, not {operation}", found=operation, expected=expected)
    raise XpagedError("unknown operation", found=operation, expected=expected, fix=did_you_mean(operation, OPERATIONS))


def _check_kernel(module: ModuleOp) -> None:
    """Refuse what cannot be compiled: a perf_config, a type that the architecture has not, too large a launch."""
    from xpaged.ir.levels import Level
    from xpaged.passes.pipelines import lower

    lower(module.clone(), Level.GRIDWISE)


def problem_of(values: Mapping[str, Any]) -> AttentionProblem:
    """The attention problem that the values of all options describe. Raises XpagedError for values that do not fit."""
    from xpaged.sizes import AttentionProblem

    window, index = values["sliding_window_size"], values["current_seq_len"]
    if window is not None and index is None:
        index = [values["seq_len_k"] - 1] * values["groupsize"]
    return AttentionProblem(
        batch=values["groupsize"],
        heads_q=values["num_heads_q"],
        heads_kv=values["num_heads_kv"],
        seq_q=values["seq_len_q"],
        seq_k=values["seq_len_k"],
        dim_qk=values["head_dim_qk"],
        dim_v=values["head_dim_v"],
        dtype=values["t"],
        softmax_dtype=values["softmax_dtype"],
        page_size=values["page_size"],
        num_pages=values["num_pages"],
        causal=values["causal"],
        kv_index=False if index is None else tuple(index),
        prefix_offset=False if values["prefix_offset"] is None else tuple(values["prefix_offset"]),
        sliding_window=window,
        scale_input=values["with_attn_scale"],
        bias=values["with_attn_bias"],
        lse=values["return_lse"],
        split_kv=values["split_kv"],
        merge=values["merge_split_kv"],
        trans_q=values["transQ"],
        trans_k=values["transK"],
        trans_v=values["transV"],
        trans_o=values["transO"],
        arch=values["arch"],
        perf_config=_config_of(values),
        hints={
            name: value
            for name in ("num_cu", "num_chiplets", "reverse_grid")
            if (value := values[name]) not in (None, False)
        },
    )


def _config_of(values: Mapping[str, Any]) -> str | None:
    """The perf_config, with the schedule that another option may name."""
    config, version = values["perf_config"], values["schedule_version"]
    if version is None:
        return config
    from xpaged.lowering.perf_config import DEFAULT, PerfConfig

    return PerfConfig.parse(DEFAULT if config is None else config).with_schedule(version).text


def harness_of(values: Mapping[str, Any], problem: AttentionProblem, notes: list[str]) -> Harness | None:
    """The host functions that the options ask for; None for none."""
    chosen = _reference(values, problem)
    only_cpu = values["cpu_kernels"]
    if only_cpu and chosen is None:
        chosen = "f32"
    if chosen is None and not values["host_harness"]:
        return None
    return Harness(
        kernel=not only_cpu,
        reference=chosen,
        data=_data(values, notes),
        comparison=_comparison(values, problem),
        repeats=values["kernel_repeats"],
        print_inputs=values["print_inputs"],
        print_results=values["print_results"] or only_cpu,
        print_reference=values["print_validation_results"],
    )


def _reference(values: Mapping[str, Any], problem: AttentionProblem) -> Reference | None:
    verifiers: dict[str, Reference | None] = {"none": None, "mlir": "f32", "mlir-strict": "strict"}
    verifier = verifiers[values["verifier"]]
    switches: dict[str, Reference] = {"pv": "f32", "pv_strict": "strict", "pv_f64": "f64"}
    asked: dict[str, Reference] = {name: kind for name, kind in switches.items() if values[name]}
    if verifier is not None:
        asked["verifier"] = verifier
    kinds: set[Reference] = set(asked.values())
    if "f64" in kinds:
        kinds.discard("strict")
    if len(kinds) > 1:
        raise XpagedError(
            "several CPU functions are asked for",
            found=", ".join("--" + name.replace("_", "-") for name in asked),
            expected="one of -pv, -pv-strict, -pv-f64, --verifier",
        )
    if "f64" in kinds and problem.dtype == "i8":
        raise XpagedError("-pv-f64 is for floats: the first product of i8 operands is exact in i32", found="-t i8")
    return next(iter(kinds), None)


def _data(values: Mapping[str, Any], notes: list[str]) -> Data:
    text: str = values["rand"]
    if text not in ("fixed", "none") and not text.isdigit():
        raise XpagedError("-rand has no such value", found=text, expected="fixed, none, or a seed of 0 or more")
    seed = 1 if text in ("fixed", "none") else int(text)
    if text.isdigit() and seed == 0:
        seed = int(time.time())
        notes.append(f"-rand 0: the seed is {seed}, the time")
    for low, high in (("rand_min", "rand_max"), ("rand_min_int", "rand_max_int")):
        if values[low] > values[high]:
            raise XpagedError(f"-{low} is larger than -{high}", found=f"{values[low]} and {values[high]}")
    whole_inputs = frozenset(values["rand_type_int_for_inputs"] or ())
    return Data(
        ones=text == "none",
        seed=seed % 2**31,
        whole=values["rand_type"] == "int",
        floats=(values["rand_min"], values["rand_max"]),
        integers=(values["rand_min_int"], values["rand_max_int"]),
        whole_inputs=whole_inputs,
    )


def _comparison(values: Mapping[str, Any], problem: AttentionProblem) -> Comparison:
    """The thresholds, from the options or their defaults by type."""
    output = "f16" if problem.dtype == "i8" else problem.dtype
    names = ("RMS_threshold", "relDiff_threshold", "atol", "rtol")
    for name in (*names, "absDiff_threshold"):
        if values[name] is not None and values[name] < 0:
            raise XpagedError(f"-{name} must not be negative", found=values[name])
    asked = values["comparator"]
    bands = [name for name in ("atol", "rtol") if values[name] is not None]
    if asked == "legacy" and bands:
        raise XpagedError("the legacy comparison has no atol and rtol", found=f"-{bands[0]} {values[bands[0]]}")
    if asked == "allclose" or bands:
        given = [name for name in ("RMS_threshold", "relDiff_threshold") if values[name] is not None]
        if given:
            raise XpagedError("allclose has no such threshold", found=f"-{given[0]} {values[given[0]]}")
        absolute, relative = ALLCLOSE[output]
        absolute *= 1 + problem.dim_qk + problem.seq_k
        return Comparison(
            allclose=True,
            rms=0.0,
            absolute=absolute if values["atol"] is None else values["atol"],
            relative=relative if values["rtol"] is None else values["rtol"],
        )
    rms = values["RMS_threshold"]
    return Comparison(
        allclose=False,
        rms=RMS[output] if rms is None else rms,
        absolute=values["absDiff_threshold"],
        relative=values["relDiff_threshold"],
    )
