"""`xpaged gen` and `xpaged-gen`: an attention kernel as MLIR text, from a line of sizes."""

import re
import sys
from collections.abc import Sequence

from xpaged.cli.shell import DONE, command_parser, emit, guarded

_LONG_OPTION = re.compile(r"-(?=[A-Za-z][\w-]+)")


def double_dashes(argv: Sequence[str]) -> list[str]:
    """`-seq_len_q=4` as `--seq_len_q=4`: options of more than one letter are taken with one dash too."""
    return [_LONG_OPTION.sub("--", each, count=1) if _LONG_OPTION.match(each) else each for each in argv]


def command(argv: Sequence[str]) -> int:
    """Run `xpaged gen`."""
    from xpaged.generate import add_arguments, generate

    parser = command_parser("gen", "Write an attention kernel as MLIR; the options are those of rocmlir-gen.")
    add_arguments(parser)
    module = generate(parser.parse_args(double_dashes(argv)))

    from xpaged.ir.printing import print_module

    emit(print_module(module))
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Run `xpaged-gen`, the same under a name of its own."""
    return guarded(command, sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
