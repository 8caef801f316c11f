"""`python -m xpaged.testing.mutants`: plant mistakes in kernels and see that the checks notice them."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # many small products: more threads make them slower


def main(argv: Sequence[str]) -> int:
    """Prints a table, or with --json all verdicts; the status is 1 when a mutant survives without a reason."""
    from xpaged.errors import XpagedError
    from xpaged.testing.mutants import report
    from xpaged.testing.mutants.families import FAMILIES

    parser = ArgumentParser(prog="python -m xpaged.testing.mutants", description=__doc__)
    option = parser.add_argument
    option("--family", action="append", choices=list(FAMILIES), help="only kernels of this family (may be repeated)")
    option("--sample", metavar="N", type=int, help="N mutants a family, of each kind in turn (default: all of them)")
    option("--text", metavar="N", type=int, default=0, help="and N mutants of each family's HIP text (default: none)")
    option("--seed", metavar="S", type=int, default=0, help="of the sample and of the inputs (default: 0)")
    option("--jobs", metavar="J", type=int, default=1, help="families that run at a time (default: 1)")
    option("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    for name in ("sample", "jobs"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            parser.error(f"--{name} must be 1 or more")
    try:
        results = report.collect(
            args.family or list(FAMILIES), args.sample, args.text, args.seed, args.jobs, say=report.progress
        )
    except XpagedError as error:
        print(error.render(), file=sys.stderr)
        return 1
    print(report.as_json(results) if args.json else report.as_markdown(results))
    return int(any(v.verdict == "survived" for each in results for v in each.verdicts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
