"""Running another program: no shell, a time limit, and nothing of it left running."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finished:
    """How a program ended: exit status (negative: a signal), its output and errors as text, and whether it hung."""

    status: int
    output: str
    errors: str
    timed_out: bool = False


def run_program(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path | None = None,
    seconds: float,
    files: Sequence[int] = (),
) -> Finished:
    """
    Run `command` in `folder` and wait at most `seconds`; a program that takes longer is stopped with all that it
    started. It shares the open files whose numbers `files` gives. Raises OSError when it cannot be started.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        pass_fds=files,
        start_new_session=True,  # a group of its own: hipcc is a script that starts others
    ) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _stop(process)
            output, errors = process.communicate()
            return Finished(process.returncode, output, errors, timed_out=True)
        except BaseException:  # an interrupt: take the children along
            _stop(process)
            raise
    return Finished(process.returncode, output, errors)


def _stop(process: "subprocess.Popen[str]") -> None:
    """Kill the group of a process that has not been waited for, so that its number is still its own."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
