"""`xpaged compile`: an MLIR file of any level to HIP C++, assembly and code objects."""

from collections.abc import Sequence

from xpaged.cli.shell import DONE, command_parser, list_of, note, one_of
from xpaged.files import read_text


def command(argv: Sequence[str]) -> int:
    """Run `xpaged compile`: nothing is printed on stdout, the results are files."""
    from xpaged.codegen.toolchain import KINDS
    from xpaged.driver import DEFAULT_EMIT, EMITS, compile, write_kernels
    from xpaged.ir.levels import Level
    from xpaged.ir.parsing import parse

    emits, toolchains, levels = ", ".join(EMITS), ("auto", *KINDS), [level.value for level in Level]
    parser = command_parser("compile", "Compile attention kernels to HIP C++ and code objects.")
    option = parser.add_argument
    option("file", metavar="FILE", help="MLIR text of any level; - is the standard input")
    option("--arch", metavar="A[,A]", type=list_of(), help="architectures (default: the module's own, else gfx942)")
    option(
        "-o", dest="folder", metavar="DIR", help="where the files go, made when it is missing; needed but for --explain"
    )
    option(
        "--emit",
        metavar="E[,E]",
        type=list_of(*EMITS),
        default=DEFAULT_EMIT,
        help=f"any of {emits} (default: {','.join(DEFAULT_EMIT)})",
    )
    option(
        "--to",
        metavar="LEVEL",
        type=one_of(*levels),
        help="stop at a level and write its MLIR as NAME.ARCH.LEVEL.mlir; host: all the way",
    )
    option("--toolchain", type=one_of(*toolchains), default="auto", help=f"one of {', '.join(toolchains)}")
    option(
        "--explain",
        action="store_true",
        help="say on stderr for every operation of a graph whether it is in the attention kernel and why, and which "
        "tiles and schedule were chosen and why",
    )
    args = parser.parse_args(argv)
    folder: str | None = args.folder
    if folder is None and not args.explain:
        parser.error("-o DIR is missing: where the files go")
    if folder == "-":
        parser.error("-o takes a folder: several files are written, and none of them to the standard output")

    module = parse(*read_text(args.file))
    if args.explain:
        from xpaged.lowering.explain import explain

        for name in args.arch or [None]:
            for line in explain(module, name):
                note(line)
    if folder is None:
        return DONE
    level = None if args.to is None else Level(args.to)
    made = compile(module, args.arch, emit=args.emit, to=level, toolchain=args.toolchain)
    kernels = made if isinstance(made, list) else [made]
    paths = write_kernels(kernels, folder)
    for line in dict.fromkeys(line for kernel in kernels for line in kernel.notes):
        note(line)
    if args.explain:
        for path in paths:
            note(f"wrote {path}")
    return DONE
