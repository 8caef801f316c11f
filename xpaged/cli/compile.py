"""`xpaged compile`: an MLIR file of any level to HIP C++, assembly and code objects."""

from collections.abc import Sequence

from xpaged.cli.shell import DONE, command_parser, note
from xpaged.files import read_text


def command(argv: Sequence[str]) -> int:
    """Run `xpaged compile`: nothing is printed on stdout, the results are files."""
    parser = command_parser("compile", "Compile attention kernels to HIP C++ and code objects.")
    parser.add_argument("file", metavar="FILE", help="MLIR text of any level; - is the standard input")
    parser.add_argument("--arch", metavar="ARCH[,ARCH]", help="architectures; default: the module's own, else gfx942")
    parser.add_argument("-o", dest="folder", metavar="DIR", required=True, help="where the files go; made when missing")
    parser.add_argument(
        "--emit", metavar="KIND[,KIND]", default="hip,object", help="hip, asm, object (default: hip,object)"
    )
    parser.add_argument("--to", metavar="LEVEL", help="stop at a level and write its MLIR")
    parser.add_argument("--toolchain", default="auto", help="auto, hipcc, clang or bundled (default: auto)")
    parser.add_argument("--explain", action="store_true", help="say on stderr what was decided on the way, and why")
    args = parser.parse_args(argv)

    text, name = read_text(args.file)
    from xpaged.compile import compile, write_kernels
    from xpaged.ir.levels import level_named
    from xpaged.ir.parsing import parse

    level = None if args.to is None else level_named(args.to)
    module = parse(text, name)
    archs = None if args.arch is None else [each.strip() for each in args.arch.split(",") if each.strip()]
    emit = [each.strip() for each in args.emit.split(",") if each.strip()]
    made = (
        compile(module, archs, emit=emit, to=level, toolchain=args.toolchain)
        if archs is not None
        else [compile(module, emit=emit, to=level, toolchain=args.toolchain)]
    )
    paths = write_kernels(made, args.folder)
    for each in dict.fromkeys(line for kernel in made for line in kernel.notes):
        note(each)
    if args.explain:
        for path in paths:
            note(f"wrote {path}")
    return DONE
