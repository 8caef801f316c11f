"""`xpaged gen`: the options of rocmlir-gen for attention, and the module that they describe."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING, Any

from xpaged.errors import XpagedError, did_you_mean

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

OPERATIONS = ("attention",)


def _bool(text: str) -> bool:
    values = {"true": True, "1": True, "false": False, "0": False}
    if text.lower() not in values:
        raise ArgumentTypeError(f"'{text}' is not true or false")
    return values[text.lower()]


def _integers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentTypeError(f"'{text}' is not a comma-separated list of integers") from None


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of `xpaged gen`, spelled and defaulting as rocmlir-gen does it."""

    def value(*names: str, help: str, default: Any = None, type: Any = int) -> None:
        parser.add_argument(*names, help=help, default=default, type=type)

    def switch(*names: str, help: str) -> None:
        parser.add_argument(*names, help=help, nargs="?", const=True, default=False, type=_bool, metavar="BOOL")

    value("--operation", "-operation", type=str, default="attention", help="what to generate: attention")
    value("--seq_len_q", help="query rows of each head (required)")
    value("--seq_len_k", help="keys of each head (required)")
    value("--head_dim_qk", help="channels of Q and K (required)")
    value("--head_dim_v", help="channels of V (required)")
    value("-g", "--g", default=1, help="batch entries (1)")
    value("--num_heads_q", default=1, help="query heads of each batch entry (1)")
    value("--num_heads_kv", default=1, help="KV heads of each batch entry (1)")
    value("-t", "--t", type=str, default="f32", help="element type: f16, bf16 or f32 (f32)")
    switch("--transQ", help="Q is [G, D, Sq] instead of [G, Sq, D]")
    switch("--transK", help="K is [G, Sk, D] instead of [G, D, Sk]")
    switch("--transV", help="V is [G, D, Sk] instead of [G, Sk, D]")
    switch("--transO", help="the output is [G, D, Sq] instead of [G, Sq, D]")
    switch("--causal", help="keep key j for row i only when j <= i")
    value(
        "--current_seq_len",
        "--last_valid_kv_index",
        type=_integers,
        default=None,
        help="index of the last valid key (inclusive, -1 for none) of each batch entry, comma-separated",
    )
    switch("--paged-attention", "--paged_attention", help="K and V are tables of page addresses")
    value("--num-pages", "--num_pages", help="pages of K (and of V) of each batch entry")
    value("--page-size", "--page_size", help="elements in a page of K")
    value("--arch", type=str, help="architecture to compile for, such as gfx942")
    value("--perf_config", type=str, help="tuning parameters, attn:v3:... (kept on the attention)")


def generate(options: Namespace) -> ModuleOp:
    """The module that parsed options describe, at level `rock-memref`.

    Raises XpagedError, with the values, for options that are missing or do not fit together.
    """
    from xpaged.sizes import AttentionProblem, build

    if options.operation not in OPERATIONS:
        raise XpagedError(
            "unknown operation",
            found=options.operation,
            expected=", ".join(OPERATIONS),
            fix=did_you_mean(options.operation, OPERATIONS),
        )
    required = ("seq_len_q", "seq_len_k", "head_dim_qk", "head_dim_v")
    missing = [f"-{name}" for name in required if getattr(options, name) is None]
    if missing:
        raise XpagedError(f"missing options: {', '.join(missing)}", fix="give each of them a positive number")
    _check_paging(options)
    if options.arch is not None:
        from xpaged.arch import get_arch

        get_arch(options.arch)
    return build(
        AttentionProblem(
            batch=options.g,
            heads_q=options.num_heads_q,
            heads_kv=options.num_heads_kv,
            seq_q=options.seq_len_q,
            seq_k=options.seq_len_k,
            dim_qk=options.head_dim_qk,
            dim_v=options.head_dim_v,
            dtype=options.t,
            page_size=options.page_size,
            num_pages=options.num_pages,
            causal=options.causal,
            kv_index=False if options.current_seq_len is None else options.current_seq_len,
            trans_q=options.transQ,
            trans_k=options.transK,
            trans_v=options.transV,
            trans_o=options.transO,
            arch=options.arch,
            perf_config=options.perf_config,
        )
    )


def _check_paging(options: Namespace) -> None:
    sizes = {"--num-pages": options.num_pages, "--page-size": options.page_size}
    given = [f"{name} {value}" for name, value in sizes.items() if value is not None]
    if options.paged_attention and len(given) < len(sizes):
        missing = ", ".join(name for name, value in sizes.items() if value is None)
        raise XpagedError(f"--paged-attention needs {missing}", found=", ".join(given) or None)
    if given and not options.paged_attention:
        raise XpagedError("page sizes without --paged-attention", found=", ".join(given), fix="add --paged-attention")
