"""Kernels that run on the CPU: the emitted text, compiled unchanged for this machine, in processes of its own."""

import os
import shutil
import signal
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from xpaged.arch.table import Arch
from xpaged.codegen.host.arena import Arena, Array
from xpaged.codegen.host.build import build, kernel_number, usable_compilers
from xpaged.codegen.host.faults import REPORT, HostFault, Outcome, Text, explain
from xpaged.codegen.launch import Buffer, Launch, LaunchDescription
from xpaged.codegen.process import Finished, run_program
from xpaged.codegen.toolchain import Compiler
from xpaged.errors import XpagedError, did_you_mean

SECONDS = 600.0
"""How long the workgroups of one kernel may take."""

_PLAN = np.dtype(
    [
        (name, np.uint64)
        for name in "bytes kernel threads grid_x grid_y arguments arguments_at maps maps_at groups groups_at "
        "reports_at next backward".split()
    ]
)
"""What the processes are told: `Plan` of system.h."""
_MAP_WORDS = 4
_LEAST_GROUPS = 2  # that a process is worth its start for


@dataclass(frozen=True)
class PageTable:
    """
    The pages behind a page table: row `i` of `pages` is what entry `i` leads to, and lies at place `place[i]` among
    them (in this order when None; entries of one place share a page). Entries with `mapped` false lead nowhere and
    hold `garbage`, 64 bits each. With `base` the pages start at an address with the same low 32 bits, `stride` bytes
    apart. Pages are aligned to `align` bytes and no more. Kernels read pages and do not write them.
    """

    pages: Array
    place: Array | None = None
    mapped: Array | None = None
    garbage: Array | None = None
    base: int | None = None
    stride: int | None = None
    align: int = 16


@dataclass
class _Run:
    """Buffers in memory, for all launches of one call."""

    arena: Arena = field(default_factory=Arena)
    words: dict[str, int] = field(default_factory=dict[str, int])  # what a kernel gets as this argument
    writes: list[tuple[int, Array]] = field(default_factory=list[tuple[int, Array]])
    pages: list[tuple[Array, Array]] = field(default_factory=list[tuple[Array, Array]])
    results: list[tuple[int, Array]] = field(default_factory=list[tuple[int, Array]])


_MOST_PLACES = 1 << 22
"""Every place of a pool up to the last one that is taken gets an address."""


class HostKernel:
    """
    The kernels of one HIP text, ready to run on this machine's CPU.

        with HostKernel(kernel.hip, arch, kernel.launch) as host:
            host.launch({"q": q, "k_table": PageTable(k_pages), "v_table": PageTable(v_pages), "out": out})

    The text is compiled once, as it is, and takes some memory and a folder for temporary files until `close`. Every
    lane runs by itself between operations of its wave or workgroup, so a missing barrier, an exchange that not all
    lanes reach, and an access outside a buffer show; a kernel that goes wrong ends in a `HostFault` that says where.

    Raises ToolchainError when this machine has no compiler for it, or the compiler refuses the text.
    """

    def __init__(self, text: str, arch: Arch, launch: LaunchDescription, *, compiler: Compiler | None = None) -> None:
        self.arch = arch
        self.description = launch
        self.seconds = 0.0
        """Processor time that the kernels took so far."""
        folder = Path(tempfile.mkdtemp(prefix="xpaged-"))
        self._close = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        try:
            first = launch.launches[0]
            file = Path(first.object or first.kernel).stem + ".hip"
            compilers = usable_compilers() if compiler is None else (compiler,)
            program, self.compiler = build(text, file, arch, launch, folder, compilers)
        except BaseException:
            self.close()
            raise
        self._text = Text(first.kernel, file, tuple(text.splitlines()), program)

    def close(self) -> None:
        """Remove the program and all temporary files."""
        self._close()

    def __enter__(self) -> "HostKernel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def launch(
        self,
        buffers: Mapping[str, Array | PageTable],
        *,
        groups: Sequence[int] | None = None,
        backward: bool = False,
        jobs: int | None = None,
        seconds: float = SECONDS,
    ) -> None:
        """
        Run all launches in order (of the last one only the workgroups `groups`, where they are given), spread over
        `jobs` processes: as many as there are processors by default. Lanes and waves run in the order of their numbers,
        or `backward`: a kernel whose results differ lacks a barrier.

        `buffers` holds an array for each buffer of the launch description, and for a page table a `PageTable`. What
        the kernels write is written to these arrays, which must then lie in memory without gaps; a workspace may be
        left out. Memory for a kernel's eyes only (LDS, workspaces, registers that were not set) is filled with NaN.

        Raises HostFault when a kernel goes wrong or takes longer than `seconds`, XpagedError for buffers that do not
        fit the description.
        """
        run = self._place(buffers)
        jobs = len(os.sched_getaffinity(0)) if jobs is None else jobs
        launches = self.description.launches
        todo = [self._groups(each, groups if each is launches[-1] else None) for each in launches]
        words = max(len(each.args) + len(some) for each, some in zip(launches, todo, strict=True))
        words += _MAP_WORDS * run.arena.count_mappings()
        file = run.arena.make(_PLAN.itemsize + 8 * words + jobs * REPORT.itemsize)
        try:
            for address, values in run.writes:
                run.arena.write(address, values)
            for addresses, pages in run.pages:
                run.arena.write_pages(addresses, pages)
            for each, some in zip(launches, todo, strict=True):
                plan = self._plan(each, run, some, backward, jobs)
                self._execute(each, plan, run.arena, file, min(jobs, len(some) // _LEAST_GROUPS), seconds)
        finally:
            os.close(file)
        for address, array in run.results:
            array.reshape(-1).view(np.uint8)[:] = run.arena.bytes_at(address, array.nbytes)

    # ---- buffers

    def _place(self, buffers: Mapping[str, Array | PageTable]) -> _Run:
        known = {buffer.name: buffer for buffer in self.description.buffers}
        for name in buffers:
            if name not in known:
                raise XpagedError(f"the kernel has no buffer '{name}'", fix=did_you_mean(name, known))
        run = _Run()
        for buffer in known.values():
            given = buffers.get(buffer.name)
            if given is None and buffer.kind == "workspace":
                run.words[buffer.name] = run.arena.reserve(buffer.name, buffer.bytes, writable=True)
            elif given is None:
                raise XpagedError(f"buffer '{buffer.name}' is missing", expected=f"{buffer.bytes} bytes")
            elif isinstance(given, PageTable):
                self._place_table(buffer, given, run)
            else:
                self._place_array(buffer, given, run)
        return run

    @staticmethod
    def _place_array(buffer: Buffer, array: Array, run: _Run) -> None:
        if buffer.kind == "page_table":
            raise XpagedError(
                f"'{buffer.name}' is a page table", found=f"an array of {array.dtype}", expected="a PageTable"
            )
        if not isinstance(array, np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance] - for those who have no checker
            raise XpagedError(f"what is given for buffer '{buffer.name}' is no NumPy array", found=type(array).__name__)
        if array.nbytes != buffer.bytes:
            raise XpagedError(
                f"buffer '{buffer.name}' has the wrong size",
                found=f"{array.nbytes} bytes",
                expected=f"{buffer.bytes}: {buffer.dtype} {list(buffer.shape)}",
            )
        if buffer.kind == "scalar":
            run.words[buffer.name] = int.from_bytes(array.tobytes(), "little")
            return
        writable = buffer.access != "read"
        if writable and not (array.flags.c_contiguous and array.flags.writeable):
            raise XpagedError(f"buffer '{buffer.name}' is written, and the array cannot be", found=str(array.flags))
        address = run.arena.reserve(buffer.name, array.nbytes, writable=writable)
        run.words[buffer.name] = address
        run.writes.append((address, array))
        if writable:
            run.results.append((address, array))

    @staticmethod
    def _place_table(buffer: Buffer, table: PageTable, run: _Run) -> None:
        count = len(table.pages)
        if buffer.kind != "page_table" or count * 8 != buffer.bytes:
            raise XpagedError(
                f"pages do not fit buffer '{buffer.name}'",
                found=f"{count} pages",
                expected=f"a {buffer.kind} of {buffer.bytes} bytes",
            )
        place = np.arange(count) if table.place is None else table.place.astype(np.int64)
        mapped = np.ones(count, np.bool_) if table.mapped is None else table.mapped.astype(np.bool_)
        for what, values in (("place", place), ("mapped", mapped)):
            if values.shape != (count,) or (values < 0).any():
                raise XpagedError(
                    f"'{what}' of the pages of '{buffer.name}' must hold one number of 0 or more an entry",
                    found=f"{values.dtype} {list(values.shape)}",
                )
        if table.base is not None and table.base % table.align:
            raise XpagedError(
                f"cannot place the pages of '{buffer.name}'",
                found=f"base {table.base:#x}",
                expected=f"a multiple of {table.align}",
            )
        if int(place.max(initial=0)) >= _MOST_PLACES:
            raise XpagedError(
                f"the pages of '{buffer.name}' lie too far apart for this machine",
                found=f"place {place.max()}",
                expected=f"places below {_MOST_PLACES}",
                fix="use level device for such a pool",
            )
        garbage = np.full(count, 0xDEAD << 48, np.uint64) if table.garbage is None else table.garbage.view(np.uint64)
        used = np.zeros(int(place.max(initial=-1)) + 1, np.bool_)
        used[place[mapped]] = True
        size = table.pages[:1].nbytes
        addresses = run.arena.reserve_pages(
            buffer.name,
            len(used),
            size,
            align=table.align,
            stride=-(-size // table.align) * table.align if table.stride is None else table.stride,
            base=table.base,
            mapped=used,
        )
        run.pages.append((addresses[place[mapped]], table.pages.reshape(count, -1)[mapped]))
        entries = np.where(mapped, addresses[place], garbage)
        address = run.arena.reserve(buffer.name, entries.nbytes, writable=False)
        run.words[buffer.name] = address
        run.writes.append((address, entries))

    # ---- processes

    def _groups(self, launch: Launch, groups: Sequence[int] | None) -> Sequence[int]:
        """The workgroups to run; refuses a launch that no architecture could run."""
        grid = launch.grid[0] * launch.grid[1] * launch.grid[2]
        todo = range(grid) if groups is None else groups
        if len(todo) and not 0 <= min(todo) <= max(todo) < grid:
            raise XpagedError(
                f"kernel '{launch.kernel}' has no such workgroup", found=list(todo), expected=f"0 .. {grid - 1}"
            )
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        if threads % self.arch.wave_size or not 0 < threads <= self.arch.max_workgroup:
            raise XpagedError(
                f"kernel '{launch.kernel}' has workgroups that are no whole waves",
                found=f"{threads} lanes",
                expected=f"a multiple of {self.arch.wave_size}, at most {self.arch.max_workgroup}",
            )
        return todo

    def _plan(self, launch: Launch, run: _Run, todo: Sequence[int], backward: bool, jobs: int) -> Array:
        """The plan of a launch and the lists behind it, as 64-bit words; reports come next."""
        lists = {
            "arguments": [run.words[name] for name in launch.args],
            "groups": list(todo),
            "maps": [word for m in run.arena.mappings for word in (m.address, m.offset, m.bytes, int(m.writable))],
        }
        plan = np.zeros(1, _PLAN)
        end = _PLAN.itemsize
        for name, words in lists.items():
            plan[name], plan[f"{name}_at"] = len(words), end
            end += 8 * len(words)
        plan["maps"] = len(run.arena.mappings)
        plan["reports_at"], plan["bytes"] = end, end + jobs * REPORT.itemsize
        plan["kernel"] = kernel_number(self.description, launch.kernel)
        plan["threads"] = launch.block[0] * launch.block[1] * launch.block[2]
        plan["grid_x"], plan["grid_y"], plan["backward"] = *launch.grid[:2], backward
        return np.concatenate((plan.view(np.uint64), *(np.array(words, np.uint64) for words in lists.values())))

    def _execute(self, launch: Launch, plan: Array, arena: Arena, file: int, jobs: int, seconds: float) -> None:
        count = max(jobs, 1)
        arena.file[: plan.nbytes] = plan.view(np.uint8)
        reports = arena.file[plan.nbytes : plan.nbytes + count * REPORT.itemsize].view(REPORT)
        reports[:] = np.zeros(1, REPORT)
        program = str(self._text.program)

        def start(job: int) -> Finished:
            command = (program, str(file), str(job))
            return run_program(command, environment={}, seconds=seconds, files=(file,))

        try:
            if count == 1:
                ends = [start(0)]
            else:
                with ThreadPoolExecutor(max_workers=count) as pool:
                    ends = list(pool.map(start, range(count)))
        except OSError as err:
            raise HostFault(
                f"kernel '{launch.kernel}' could not be started: {err.strerror}",
                found=program,
                fix="point TMPDIR to a folder that programs may be started from",
            ) from err
        self.seconds += float(reports["nanoseconds"].sum()) / 1e9
        faults: list[HostFault] = []
        for report, end in zip(reports, ends, strict=True):
            if end.timed_out:
                raise HostFault(
                    f"kernel '{launch.kernel}' did not end within {seconds:g} s and was stopped",
                    fix="run fewer workgroups, or give it more time",
                )
            if report["outcome"] == Outcome.NOTHING:
                faults.append(_killed(launch, end))
            elif report["outcome"] != Outcome.FINISHED:
                faults.append(explain(report, self._text, arena))
        if faults:
            raise min(faults, key=lambda fault: -1 if fault.workgroup is None else fault.workgroup)


def _killed(launch: Launch, end: Finished) -> HostFault:
    how = f"exit status {end.status}" if end.status >= 0 else signal.Signals(-end.status).name
    return HostFault(f"kernel '{launch.kernel}' ended without a report", found=how)
