"""What all tests share: Hypothesis without random seeds or deadlines, and the command line run in process."""

import io
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import settings

# Before NumPy is imported: its products are small here, and its threads would fight with those of the other workers.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

settings.register_profile("xpaged", derandomize=True, deadline=None, database=None, max_examples=50)
settings.load_profile("xpaged")


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


Cli = Callable[..., Ended]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run `xpaged` in process: `cli("opt", path, stdin="...")` gives its status and what it wrote."""
    from xpaged.cli.main import main

    def run(*argv: object, stdin: str | bytes = "") -> Ended:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        capsys.readouterr()
        status = main([str(each) for each in argv])
        captured = capsys.readouterr()
        return Ended(status, captured.out, captured.err)

    return run
