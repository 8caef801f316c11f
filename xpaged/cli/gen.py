"""`xpaged gen` and `xpaged-gen`: an attention kernel as MLIR text, from a line of sizes."""

import re
import sys
from collections.abc import Sequence

from xpaged.cli.shell import DONE, command_parser, emit, guarded

_LONG_OPTION = re.compile(r"-(?=[A-Za-z][\w-]+)")
_NEGATIVE = re.compile(r"-\d")


def double_dashes(argv: Sequence[str]) -> list[str]:
    """
    `-seq_len_q=4` as `--seq_len_q=4`: options of more than one letter are taken with one dash too. A value that
    begins with a minus sign is joined to its option (`-x -1,4` as `--x=-1,4`), or argparse would take it for one.
    """
    result: list[str] = []
    for each in argv:
        if _LONG_OPTION.match(each):
            result.append(_LONG_OPTION.sub("--", each, count=1))
        elif _NEGATIVE.match(each) and result and result[-1].startswith("-") and "=" not in result[-1]:
            result[-1] += f"={each}"
        else:
            result.append(each)
    return result


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
