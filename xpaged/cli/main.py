"""The `xpaged` command: finds the subcommand and runs it. Nothing of a command is imported before it is asked for."""

import sys
from collections.abc import Sequence
from importlib import import_module

from xpaged.cli.shell import DONE, USAGE, guarded
from xpaged.errors import did_you_mean

COMMANDS = {
    "gen": "write an attention kernel as MLIR, from a line of sizes",
    "opt": "run passes on an MLIR file and print the result",
    "compile": "compile an MLIR file to HIP C++ and code objects",
    "run": "execute an MLIR file on the CPU, level by level, and check it",
    "card": "show what registers and the hot loop of compiled kernels allow",
    "doctor": "say which compilers there are and what is missing",
}

_HELP = """usage: xpaged [--version] [--traceback] COMMAND ...

A compiler for attention over a paged KV cache on AMD GPUs.

commands:
{commands}

`xpaged COMMAND --help` lists the options of a command.
--traceback shows Python's own trace when a command fails.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run `xpaged` with the given arguments (those of the process by default).

    Returns the exit status: 0 done, 1 the input was refused or a check failed, 2 usage.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = arguments[:1] == ["--traceback"]
    if debug:
        arguments = arguments[1:]
    match arguments:
        case [] | ["-h" | "--help" | "help", *_]:
            text = _HELP.format(commands="\n".join(f"  {name:9}{text}" for name, text in COMMANDS.items()))
            print(text, end="", file=sys.stdout if arguments else sys.stderr)
            return DONE if arguments else USAGE
        case ["-V" | "--version", *_]:
            from xpaged import __version__

            print(f"xpaged {__version__}")
            return DONE
        case [name, *rest] if name in COMMANDS:
            command = import_module(f"xpaged.cli.{name}").command
            return guarded(command, rest, debug=debug)
        case _:
            name = arguments[0]
            hint = did_you_mean(name, COMMANDS) or f"the commands are {', '.join(COMMANDS)}"
            print(f"xpaged: error: unknown command '{name}'\n  fix: {hint}", file=sys.stderr)
            return USAGE


if __name__ == "__main__":
    sys.exit(main())
