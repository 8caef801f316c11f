"""
The options of `xpaged gen`, in one table: names, kinds and defaults as rocmlir-gen has them, what each needs, and its
help. The command line, the checks, the help text and the tests all read this table.

An option is written with one or two dashes, `_` and `-` are the same in its name, and its value follows or is joined
by `=`; a switch may stand alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from xpaged.errors import XpagedError, did_you_mean

Kind = Literal["int", "ints", "float", "bool", "text"]

MOST = 2**31 - 1
"""The largest size: an index along any dimension is a signed 32-bit number."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """
    One option. `default` None means that it is not given; `choices` are the values that a text may have, `least` the
    smallest number. `needs` are options that must be given too, `needed_by` is what they are needed for. With
    `effect` set, the option does something only beside one of these, and a note says so otherwise.
    """

    name: str
    kind: Kind
    help: str
    default: Any = None
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    least: int | None = None
    needs: tuple[str, ...] = ()
    needed_by: str = ""
    effect: tuple[str, ...] = ()
    required: bool = False

    @property
    def key(self) -> str:
        """The name as a Python identifier, under which its value is found."""
        return self.name.replace("-", "_")

    @property
    def spelled(self) -> str:
        """The name as messages show it."""
        return f"--{self.name}"


class UsageError(XpagedError):
    """The command line itself is malformed: an option that is none, a value of the wrong kind."""


_HARNESS = ("host-harness", "pv", "verifier", "cpu-kernels", "pv-strict", "pv-f64")
_VERIFIERS = ("none", "mlir", "mlir-strict")

SIZES = (
    Option(name="operation", kind="text", default="attention", help="what to generate: attention"),
    Option(name="groupsize", aliases=("g",), kind="int", default=1, least=1, help="batch entries"),
    Option(name="num_heads_q", kind="int", default=1, least=1, help="query heads of each batch entry"),
    Option(name="num_heads_kv", kind="int", default=1, least=1, help="KV heads of each batch entry"),
    Option(name="seq_len_q", kind="int", least=1, required=True, help="query rows of each head"),
    Option(name="seq_len_k", kind="int", least=1, required=True, help="keys of each head"),
    Option(name="head_dim_qk", kind="int", least=1, required=True, help="channels of Q and K"),
    Option(name="head_dim_v", kind="int", least=1, required=True, help="channels of V"),
    Option(
        name="t",
        kind="text",
        default="f32",
        choices=("f32", "f16", "bf16", "i8"),
        help="element type; i8: Q and K are i8, V and the output f16, dequantized by two more inputs",
    ),
    Option(
        name="softmax_dtype",
        kind="text",
        default="f32",
        choices=("f32", "f16", "bf16"),
        help="type of the scores in the softmax, and of the log-sum-exp",
    ),
    Option(name="transQ", kind="bool", default=False, help="Q is [G, D, Sq] instead of [G, Sq, D]"),
    Option(name="transK", kind="bool", default=False, help="K is [G, Sk, D] instead of [G, D, Sk]"),
    Option(name="transV", kind="bool", default=False, help="V is [G, D, Sk] instead of [G, Sk, D]"),
    Option(name="transO", kind="bool", default=False, help="the output is [G, D, Sq] instead of [G, Sq, D]"),
)
FEATURES = (
    Option(name="with-attn-scale", kind="bool", default=False, help="an input that multiplies the scores, [G, Sq, Sk]"),
    Option(name="with-attn-bias", kind="bool", default=False, help="an input that is added to the scores, [G, Sq, Sk]"),
    Option(name="causal", kind="bool", default=False, help="keep key j for row i only when j <= i"),
    Option(
        name="prefix_offset",
        kind="ints",
        needs=("causal",),
        needed_by="a prefix offset moves the causal diagonal",
        help="keep key j for row i when j <= i + offset; one offset a batch entry, comma-separated",
    ),
    Option(
        name="current_seq_len",
        aliases=("last_valid_kv_index",),
        kind="ints",
        help="index of the last valid key (inclusive, -1 for none) of each batch entry, comma-separated",
    ),
    Option(
        name="sliding_window_size",
        aliases=("sliding_window_look_back",),
        kind="int",
        least=1,
        help="keep that many keys before the last valid one; without current_seq_len that is the last key of all",
    ),
    Option(name="return_lse", kind="bool", default=False, help="the log-sum-exp of each row as an output"),
    Option(
        name="split_kv",
        kind="int",
        default=1,
        least=1,
        help="parts that the keys are split into; with return_lse each has results of its own, else they are merged",
    ),
    Option(
        name="merge_split_kv",
        kind="bool",
        default=False,
        help="merge the results of the parts with return_lse too",
    ),
    Option(name="paged-attention", kind="bool", default=False, help="K and V are tables of page addresses"),
    Option(
        name="num-pages",
        kind="int",
        least=1,
        needs=("paged-attention",),
        needed_by="only a paged cache has pages",
        help="pages of K (and of V) of each batch entry",
    ),
    Option(
        name="page-size",
        kind="int",
        least=1,
        needs=("paged-attention",),
        needed_by="only a paged cache has pages",
        help="elements in a page of K",
    ),
)
TUNING = (
    Option(name="arch", kind="text", help="architecture to compile for, such as gfx942"),
    Option(name="num_cu", kind="int", least=1, help="compute units of the GPU, kept on the kernel"),
    Option(name="num_chiplets", kind="int", least=1, help="chiplets of the GPU, kept on the kernel"),
    Option(name="perf_config", kind="text", help="tuning parameters, attn:v3:... (kept on the attention)"),
    Option(name="schedule_version", kind="int", least=1, help="schedule 1 to 4, in place of the perf_config's"),
    Option(name="reverse_grid", kind="bool", default=False, help="workgroups in reversed order, kept on the kernel"),
    Option(
        name="apply-bufferization-pipeline", kind="bool", default=True, help="kernels on memrefs (there are no others)"
    ),
)
HOST = (
    Option(name="host-harness", aliases=("ph",), kind="bool", default=False, help="functions that run the kernel"),
    Option(
        name="verifier",
        kind="text",
        default="none",
        choices=_VERIFIERS,
        help="check the kernel: none; mlir: a CPU function in f32; mlir-strict: one that rounds as the kernel does",
    ),
    Option(name="pv", kind="bool", default=False, help="the same as --verifier mlir"),
    Option(name="pv-strict", kind="bool", default=False, help="the same as --verifier mlir-strict"),
    Option(name="pv-f64", kind="bool", default=False, help="as -pv, with the CPU function in f64 (not for i8)"),
    Option(
        name="cpu-kernels",
        aliases=("prc",),
        kind="bool",
        default=False,
        help="only the CPU function, with functions that run it and print its results",
    ),
    Option(
        name="kernel-repeats",
        kind="int",
        default=1,
        least=1,
        effect=_HARNESS,
        help="how often the kernel is launched",
    ),
    Option(
        name="print-results", aliases=("pr",), kind="bool", default=False, effect=_HARNESS, help="print the results"
    ),
    Option(name="print-inputs", aliases=("pi",), kind="bool", default=False, effect=_HARNESS, help="print the inputs"),
    Option(
        name="print-validation-results",
        aliases=("pvr",),
        kind="bool",
        default=False,
        effect=_HARNESS,
        help="print the results of the CPU function",
    ),
)
DATA = (
    Option(
        name="rand",
        kind="text",
        default="fixed",
        effect=_HARNESS,
        help="fixed: always the same data; none: all ones; a number: the seed of random data, 0 for the time",
    ),
    Option(
        name="rand_type",
        kind="text",
        default="int",
        choices=("int", "float"),
        effect=_HARNESS,
        help="whole numbers, or any in a range",
    ),
    Option(name="rand_min", kind="float", default=0.0, effect=_HARNESS, help="least float"),
    Option(name="rand_max", kind="float", default=1.0, effect=_HARNESS, help="largest float"),
    Option(name="rand_min_int", kind="int", default=-5, effect=_HARNESS, help="least whole number"),
    Option(name="rand_max_int", kind="int", default=5, effect=_HARNESS, help="largest whole number"),
    Option(
        name="rand_type_int_for_inputs",
        kind="ints",
        effect=_HARNESS,
        help="arguments (counted from 0) that get whole numbers with -rand_type float",
    ),
    Option(
        name="rand_side", kind="text", default="both", choices=("both",), effect=_HARNESS, help="random data everywhere"
    ),
)
COMPARISON = (
    Option(
        name="comparator",
        kind="text",
        choices=("legacy", "allclose"),
        effect=_HARNESS,
        help="legacy: the three thresholds below (default); allclose: |a - b| <= atol + rtol |b|",
    ),
    Option(
        name="RMS_threshold",
        kind="float",
        effect=_HARNESS,
        help="root mean square of the differences over the largest value (f32: 3e-5, f16: 1e-3, bf16: 5e-3)",
    ),
    Option(name="absDiff_threshold", kind="float", default=100.0, effect=_HARNESS, help="largest difference"),
    Option(
        name="relDiff_threshold",
        kind="float",
        effect=_HARNESS,
        help="largest difference over the reference value (not compared unless given)",
    ),
    Option(name="atol", kind="float", effect=_HARNESS, help="absolute part of allclose, which it switches on"),
    Option(name="rtol", kind="float", effect=_HARNESS, help="relative part of allclose, which it switches on"),
)

GROUPS: dict[str, tuple[Option, ...]] = {
    "the problem": SIZES,
    "features": FEATURES,
    "tuning": TUNING,
    "functions for the host": HOST,
    "data of the host functions": DATA,
    "comparison of the host functions": COMPARISON,
}
OPTIONS: tuple[Option, ...] = tuple(option for group in GROUPS.values() for option in group)

FOREIGN: dict[str, tuple[str, ...]] = {
    "a convolution": (
        *("batchsize", "in_channels", "out_channels", "in_h", "in_w", "out_h", "out_w", "fil_h", "fil_w"),
        *("dilation_h", "dilation_w", "conv_stride_h", "conv_stride_w", "padding_h", "padding_w", "padding_h_l"),
        *("padding_h_r", "padding_w_l", "padding_w_r", "fil_layout", "in_layout", "out_layout", "conv-config"),
    ),
    "a product of matrices": ("m", "n", "k", "o", "transA", "transB", "transC", "transD", "store-method"),
}
"""Options that rocmlir-gen has for other operations, by what they belong to."""

_UNUSED_VERIFIERS = {
    "cpu": "it is for convolutions",
    "gpu": "it is for convolutions",
    "cpp": "it is for convolutions",
    "clone": "`xpaged run --level all --check` executes the kernel itself on the CPU, at every level",
}


def parse_options(argv: Sequence[str]) -> dict[str, Any]:
    """
    The values of all options by key, in their kinds; those that are not given have their default.

    Raises UsageError, with a hint, for an option that is none or a value of the wrong kind; XpagedError for a value
    that may not be, or an option of another operation.
    """
    names = {_plain(name): option for option in OPTIONS for name in (option.name, *option.aliases)}
    values: dict[str, Any] = {option.key: option.default for option in OPTIONS}
    given: set[str] = set()
    rest = list(argv)
    while rest:
        spelled = rest.pop(0)
        if not spelled.startswith("-") or spelled.strip("-") == "":
            raise UsageError("unexpected argument", found=spelled, expected="options; gen reads no file")
        name, joined, text = spelled.lstrip("-").partition("=")
        option = names.get(_plain(name))
        if option is None:
            raise _unknown(name, names)
        if not joined:
            text = _next_value(option, rest)
        if option.key in given and values[option.key] != _value(option, text):
            raise UsageError(f"{option.spelled} is given twice", found=f"{values[option.key]} and {text}")
        given.add(option.key)
        values[option.key] = _value(option, text)
    return values


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _next_value(option: Option, rest: list[str]) -> str:
    """The value that follows an option; a switch without one is on."""
    if option.kind == "bool":
        return rest.pop(0) if rest and rest[0].lower() in _BOOLEANS else "true"
    if not rest or (rest[0].startswith("-") and not rest[0][1:2].isdigit()):
        raise UsageError(f"{option.spelled} needs a value", expected=_KINDS[option.kind][1])
    return rest.pop(0)


_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def _integers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError
    return _BOOLEANS[text.lower()]


_KINDS: dict[Kind, tuple[Callable[[str], Any], str]] = {
    "int": (int, "a whole number"),
    "ints": (_integers, "whole numbers, comma-separated"),
    "float": (float, "a number"),
    "bool": (_boolean, "true or false"),
    "text": (str, "a word"),
}


def _value(option: Option, text: str) -> Any:
    """`text` as a value of an option; XpagedError where it is none."""
    convert, expected = _KINDS[option.kind]
    try:
        value = convert(text)
    except ValueError:
        raise UsageError(f"{option.spelled} has no such value", found=repr(text), expected=expected) from None
    if option.name == "verifier":
        value = value or "none"
        if value in _UNUSED_VERIFIERS:
            raise XpagedError(
                f"xpaged has no verifier '{value}': {_UNUSED_VERIFIERS[value]}", expected=", ".join(_VERIFIERS)
            )
    if option.choices and value not in option.choices:
        raise XpagedError(
            f"{option.spelled} has no such value",
            found=value,
            expected=f"one of {', '.join(option.choices)}",
            fix=None if value in ("f64", "i16", "i32") else did_you_mean(value, option.choices),
        )
    lists: dict[Kind, Any] = {"int": [value], "ints": value}
    numbers: Sequence[int] = lists.get(option.kind, ())
    for number in numbers:
        if option.least is not None and number < option.least:
            raise XpagedError(f"{option.spelled} must be at least {option.least}", found=number)
        if not -MOST - 1 <= number <= MOST:
            raise XpagedError(f"{option.spelled} is out of range", found=number, expected="a 32-bit number")
    if option.kind == "float" and (value != value or value in (float("inf"), float("-inf"))):
        raise XpagedError(f"{option.spelled} has no such value", found=text, expected="a finite number")
    return value


def _unknown(name: str, names: Mapping[str, Option]) -> XpagedError:
    for what, foreign in FOREIGN.items():
        if _plain(name) in map(_plain, foreign):
            return XpagedError(
                f"--{name} is an option of {what}; xpaged generates attention",
                fix="sizes of attention are seq_len_q, seq_len_k, head_dim_qk, head_dim_v, num_heads_q, num_heads_kv",
            )
    by_plain = {_plain(each): each for option in OPTIONS for each in (option.name, *option.aliases)}
    hint = did_you_mean(_plain(name), names)
    if hint is not None:
        guess = hint.split("'")[1]
        hint = hint.replace(guess, f"--{by_plain[guess]}")
    return UsageError(f"unknown option --{name}", fix=hint or "`xpaged gen --help` lists the options")


def check_needs(values: Mapping[str, Any]) -> None:
    """Raise XpagedError for an option without those that it needs, and for sizes that are missing."""
    missing = [f"-{option.name}" for option in OPTIONS if option.required and values[option.key] is None]
    if missing:
        raise XpagedError(f"missing options: {', '.join(missing)}", fix="give each of them a positive number")
    for option in OPTIONS:
        if not differs(option, values):
            continue
        for needed in option.needs:
            if not values[_plain(needed)]:
                raise XpagedError(
                    f"{option.spelled} needs --{needed}: {option.needed_by}",
                    found=f"{option.spelled} {shown(values[option.key])}",
                    fix=f"add --{needed}",
                )


def without_effect(values: Mapping[str, Any]) -> list[str]:
    """Notes on options that do nothing here."""
    return [
        f"{option.spelled} does nothing without functions for the host: add -ph, -pv or -prc"
        for option in OPTIONS
        if option.effect and differs(option, values) and not any(_on(values[_plain(e)]) for e in option.effect)
    ]


def differs(option: Option, values: Mapping[str, Any]) -> bool:
    """Whether an option has another value than when it is left out."""
    return values[option.key] != option.default


def _on(value: object) -> bool:
    return value not in (None, False, "none")


def shown(value: object) -> str:
    """A value as the command line has it."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value).lower()


def help_text() -> str:
    """The options by group, with defaults."""
    lines: list[str] = []
    for title, options in GROUPS.items():
        lines += ["", f"{title}:"]
        for option in options:
            names = ", ".join(f"-{alias}" for alias in option.aliases)
            value = "" if option.kind == "bool" else " " + {"ints": "N,..", "text": "X"}.get(option.kind, "N")
            default = "required" if option.required else "" if option.default in (None, False) else option.default
            head = f"  -{option.name}{value}" + (f" ({names})" if names else "")
            lines.append(f"{head:38} {option.help}" + (f" [{shown(default)}]" if default != "" else ""))
    return "\n".join(lines).lstrip("\n")
