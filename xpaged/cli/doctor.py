"""`xpaged doctor`: which compilers there are, which architectures they serve, what is missing."""

from collections.abc import Sequence

from xpaged.cli.shell import DONE, REFUSED, command_parser, emit


def command(argv: Sequence[str]) -> int:
    """Run `xpaged doctor`; status 1 when something that compiling needs is missing."""
    parser = command_parser("doctor", "Say which compilers and packages there are, and how to get what is missing.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    from xpaged.codegen.doctor import doctor

    report = doctor()
    emit((report.to_json() if args.json else report.to_text()) + "\n")
    return DONE if report.ok else REFUSED
