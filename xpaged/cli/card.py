"""`xpaged card`: the static performance card of the kernels that a file becomes."""

from collections.abc import Sequence

from xpaged.cli.shell import DONE, command_parser, emit, emit_json, note, one_of
from xpaged.files import read_text


def command(argv: Sequence[str]) -> int:
    """Run `xpaged card`: the card on stdout, as text or as one JSON object."""
    from xpaged.codegen.toolchain import KINDS

    toolchains = ("auto", *KINDS)
    parser = command_parser("card", "Compile kernels and show what their registers and their hot loop allow.")
    option = parser.add_argument
    option("file", metavar="FILE", help="MLIR text of any level; - is the standard input")
    option("--arch", metavar="A", help="the architecture (default: the module's own, else gfx942)")
    option("--toolchain", type=one_of(*toolchains), default="auto", help=f"one of {', '.join(toolchains)}")
    option("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)

    from xpaged.driver import compile
    from xpaged.ir.parsing import parse

    kernel = compile(parse(*read_text(args.file)), args.arch, emit=["card"], toolchain=args.toolchain)
    for line in kernel.notes:
        note(line)
    assert kernel.card is not None
    if args.json:
        emit_json(kernel.card.to_dict())
    else:
        emit(kernel.card.to_text())
    return DONE
