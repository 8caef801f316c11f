"""`xpaged gen` and `xpaged-gen`: an attention kernel as MLIR text, from a line of sizes."""

import sys
from collections.abc import Sequence

from xpaged.cli.shell import DONE, USAGE, emit, guarded, note

_HELP = """usage: xpaged gen [OPTIONS]

Write an attention kernel as MLIR. The options are those of rocmlir-gen: with one or two dashes, as `-x v`, `-x=v`, and
switches bare.

{options}

  -h                                     show this text
"""


def command(argv: Sequence[str]) -> int:
    """Run `xpaged gen`: the module goes to stdout; 2 for a malformed command line, 1 for values that do not fit."""
    from xpaged.gen.options import UsageError, help_text, parse_options

    if any(each in ("-h", "-help", "--help") for each in argv):
        emit(_HELP.format(options=help_text()))
        return DONE
    try:
        values = parse_options(argv)
    except UsageError as err:
        print(f"usage: xpaged gen [OPTIONS]\nxpaged gen: {err.render()}", file=sys.stderr)
        return USAGE
    from xpaged.gen.generate import generate_from
    from xpaged.ir.printing import print_module

    notes: list[str] = []
    text = print_module(generate_from(values, notes))
    for each in notes:
        note(each)
    emit(text)
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Run `xpaged-gen`, the same under a name of its own."""
    return guarded(command, sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
