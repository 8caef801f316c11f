"""The evidence that the kernels are right, as tables: `python benchmarks/evidence.py [--sample N] [--write FILE]`.

Runs mutants of every kernel family and prints the table of how many of them the checks kill; `--write` puts it between
the lines `<!-- mutants: begin -->` and `<!-- mutants: end -->` of FILE. With `--sample` some mutants of each family.
"""

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # many small products: more threads make them slower

from xpaged.errors import XpagedError
from xpaged.testing.mutants import report
from xpaged.testing.mutants.families import FAMILIES
from xpaged.testing.mutants.judge import SURVIVED

BEGIN, END = "<!-- mutants: begin -->", "<!-- mutants: end -->"


def between(text: str, table: str) -> str:
    """`text` with `table` between the two marks. Raises XpagedError when it does not have both, in order."""
    start, end = text.find(BEGIN), text.find(END)
    if not 0 <= start < end:
        raise XpagedError("the file has no place for the table", expected=f"a line {BEGIN} and behind it a line {END}")
    return f"{text[: start + len(BEGIN)]}\n\n{table.strip()}\n\n{text[end:]}"


def main(argv: Sequence[str]) -> int:
    """Prints or writes the table; the status is 1 when a mutant survived."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--sample", metavar="N", type=int, help="N mutants of each family (default: all of them)")
    parser.add_argument("--text", metavar="N", type=int, default=0, help="and N of its HIP text (default: none)")
    parser.add_argument("--jobs", metavar="J", type=int, default=1, help="families that run at a time (default: 1)")
    parser.add_argument("--write", metavar="FILE", help="put the table between the marks of FILE")
    args = parser.parse_args(argv)
    path = None if args.write is None else Path(args.write)
    if path is not None:
        try:
            between(path.read_text(), "")  # before an hour of work
        except (OSError, XpagedError) as error:
            print(error, file=sys.stderr)
            return 1
    families = report.collect(list(FAMILIES), args.sample, args.text, 0, args.jobs, say=report.progress)
    seconds = sum(family.seconds for family in families)
    made = sum(sum(family.made.values()) for family in families)
    judged = sum(len(family.verdicts) for family in families)
    table = f"{judged} of {made} mutants, {seconds:.0f} s. Killed of those that are mistakes:\n\n"
    table += report.as_markdown(families)
    if path is None:
        print(table)
    else:
        path.write_text(between(path.read_text(), table))
    return int(any(v.verdict == SURVIVED for family in families for v in family.verdicts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
