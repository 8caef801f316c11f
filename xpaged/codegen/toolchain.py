"""From HIP text to a code object: finding a compiler, choosing one, running it.

Three kinds of compiler are known: `hipcc` (ROCm), `clang` (any with the AMDGPU target, beside its `ld.lld`) and
`bundled` (the clang inside the `ziglang` package, so that pip is enough).  All of them get the same text and the same
flags, need no HIP headers and no device library, and give a bare ELF of code object version 5.  The object depends
on the text, the architecture and the compiler alone: never on a path, the time or the machine.
"""

import errno
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Literal, get_args

from xpaged.codegen.process import Finished, run_program
from xpaged.errors import XpagedError, did_you_mean

Kind = Literal["hipcc", "clang", "bundled"]
Want = Literal["asm", "object"]

KINDS: tuple[Kind, ...] = get_args(Kind)
"""Every kind of compiler, in the order in which `auto` tries them."""

CODE_OBJECT_VERSION = 5
COMPILE_SECONDS = 300.0
PROBE_SECONDS = 60.0

_SOURCE = "kernel.hip"
_LEAST_BYTES = 1 << 20  # with less room than this, a step that failed is taken to have failed of it
_TEXT_FLAGS = (
    *("-std=c++17", "-O3", "-nogpuinc", "-nogpulib"),
    f"-mcode-object-version={CODE_OBJECT_VERSION}",
    "-fuse-cuid=none",  # no symbol that is made of the path
    "-Wno-unused-command-line-argument",  # hipcc adds flags for the linker to every call
)
_DEVICE_FLAGS = ("-x", "hip", "--cuda-device-only", *_TEXT_FLAGS)
# -c: without it hipcc asks for a HIP link, for which clang refuses the target
_PROBE_FLAGS = ("-c", "-nogpulib", "--target=amdgcn-amd-amdhsa", "-print-supported-cpus")


class ToolchainError(XpagedError):
    """No compiler can be used, or one refused the text; says which and why, with the way out."""


@dataclass(frozen=True)
class Requirements:
    """What a HIP text needs of a compiler: the lowest clang major version (0: any) and why."""

    min_clang: int = 0
    reason: str = ""

    @staticmethod
    def of(text: str) -> "Requirements":
        """What `text` says of itself in a line `// requires clang >= 20: transposing LDS reads`."""
        if (line := re.search(r"^// requires clang >= (\d+)(?:: *(.*))?$", text, re.MULTILINE)) is None:
            return Requirements()
        return Requirements(int(line[1]), (line[2] or "").strip())


@dataclass(frozen=True)
class Compiled:
    """What a compiler made of one text: assembly, the bytes of a bare ELF (None when not wanted), its warnings."""

    asm: str | None
    object: bytes | None
    warnings: str


@dataclass(frozen=True)
class Compiler:
    """A compiler that was found and answered: `archs` are the AMDGPU processors that it says it knows."""

    kind: Kind
    path: str
    version: str
    archs: frozenset[str]
    linker: tuple[str, ...] = ()  # command of the ELF linker; hipcc links by itself

    @property
    def clang_major(self) -> int:
        """The major version of the clang inside: 15 for the hipcc of Debian 12."""
        return int(self.version.split(".")[0])

    @property
    def name(self) -> str:
        """As shown to users: `clang 19.1.7`, `hipcc (clang 15.0.6)`, `bundled clang 22.1.8`."""
        shown: dict[Kind, str] = {"hipcc": "hipcc (clang {})", "clang": "clang {}", "bundled": "bundled clang {}"}
        return shown[self.kind].format(self.version)

    @property
    def driver(self) -> tuple[str, ...]:
        """The command that is clang (or hipcc) itself."""
        return (self.path, "clang") if self.kind == "bundled" else (self.path,)

    def supports(self, arch: str) -> bool:
        """Whether this compiler makes code for `arch` (`gfx942`)."""
        return arch in self.archs

    def refusal(self, arch: str, requires: Requirements) -> str | None:
        """Why this compiler is of no use for a text with these requirements on `arch`; None when it is of use."""
        if not self.supports(arch):
            return f"does not know {arch}"
        if self.clang_major < requires.min_clang:
            why = f" ({requires.reason})" if requires.reason else ""
            return f"the kernel needs clang {requires.min_clang} or newer{why}"
        return None

    def compile(self, text: str, arch: str, want: frozenset[Want] = frozenset(("asm", "object"))) -> Compiled:
        """
        Compile HIP `text` for `arch`, in a directory of its own that is gone afterwards.

        Raises ToolchainError with the compiler's own first error when it refuses the text, crashes or hangs.
        """
        try:
            with tempfile.TemporaryDirectory(prefix="xpaged-") as folder:
                work = Path(folder)
                (work / _SOURCE).write_text(text, encoding="utf-8")
                warnings = self._hipcc(work, arch, want) if self.kind == "hipcc" else self._clang(work, arch, want)
                asm = (work / "kernel.s").read_text(encoding="utf-8") if "asm" in want else None
                code = (work / "kernel.hsaco").read_bytes() if "object" in want else None
        except OSError as err:
            raise ToolchainError(
                f"{self.name} could not be run: {err.strerror}",
                found=err.filename,
                fix="point TMPDIR to a directory with free space"
                if err.errno in (errno.ENOSPC, errno.EDQUOT)
                else "xpaged doctor says which compilers can be used",
            ) from err
        if code is not None and not code.startswith(b"\x7fELF"):
            raise ToolchainError(
                f"{self.name} wrote no bare ELF file for {arch}", found=code[:24], fix="choose another --toolchain"
            )
        return Compiled(asm, code, warnings)

    def _hipcc(self, work: Path, arch: str, want: frozenset[Want]) -> str:
        """One call for each output: hipcc hides its own steps."""
        common = (self.path, f"--offload-arch={arch}", *_TEXT_FLAGS, _SOURCE)
        calls: dict[Want, tuple[str, ...]] = {
            "asm": ("--cuda-device-only", "-S", "-o", "kernel.s"),
            "object": ("--genco", "--no-gpu-bundle-output", "-o", "kernel.hsaco"),
        }
        with ThreadPoolExecutor(max_workers=len(calls)) as pool:
            jobs = [pool.submit(self.step, work, *common, *calls[each]) for each in calls if each in want]
            return "\n".join(dict.fromkeys(warnings for job in jobs if (warnings := job.result())))

    def _clang(self, work: Path, arch: str, want: frozenset[Want]) -> str:
        """Three steps (text, assembler, linker): the driver's own link step needs tools that are often missing."""
        text = (*_DEVICE_FLAGS, f"--offload-arch={arch}", _SOURCE)
        warnings = self.step(work, *self.driver, *text, "-S", "-o", "kernel.s")
        if "object" in want:
            target = ("--target=amdgcn-amd-amdhsa", f"-mcpu={arch}", f"-mcode-object-version={CODE_OBJECT_VERSION}")
            self.step(work, *self.driver, *target, "-c", "kernel.s", "-o", "kernel.o")
            self.step(work, *self.linker, "-shared", "--no-undefined", "kernel.o", "-o", "kernel.hsaco")
        return warnings

    def step(self, work: Path, *command: str) -> str:
        """Run one program of this compiler in the folder `work`; returns its warnings, ToolchainError when it fails."""
        done = _run(self.kind, command, COMPILE_SECONDS, work)
        if done.timed_out:
            raise ToolchainError(
                f"{self.name} did not finish within {COMPILE_SECONDS:.0f} s and was stopped",
                fix="choose another --toolchain",
            )
        if done.status != 0:
            if shutil.disk_usage(work).free < _LEAST_BYTES:  # a linker whose output does not fit dies of a signal
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(work))
            crashed = done.status < 0 or "PLEASE submit a bug report" in done.errors
            raise ToolchainError(
                f"{self.name} {'crashed on' if crashed else 'refused'} the kernel",
                found=shorten(done.errors) or f"exit status {done.status} and no message",
                fix="choose another --toolchain, and report the kernel: generated text should compile everywhere",
            )
        return shorten(done.errors, "warning") if "warning:" in done.errors else ""


@dataclass(frozen=True)
class Missing:
    """A compiler that is not there or not usable: why, and the command that installs it."""

    what: str
    reason: str
    install: str


def shorten(errors: str, kind: str = "error", lines: int = 12) -> str:
    """A compiler's stderr from its first `kind` on, at most `lines` lines; the last lines when there is none."""
    every = [line.rstrip() for line in errors.splitlines() if line.strip()]
    start = next((i for i, line in enumerate(every) if f"{kind}:" in line), None)
    kept = every[-lines:] if start is None else every[start:]
    cut = len(kept) - lines
    return "\n".join(kept if cut <= 0 else [*kept[:lines], f"... and {cut} more lines"])


def select(
    toolchain: str, arch: str, requires: Requirements | None = None, *, notes: list[str] | None = None
) -> Iterator[Compiler]:
    """
    The compilers to try for `arch`, best first; each is looked for only when it is asked for.

    `toolchain` is `auto` (hipcc, then clang, then bundled) or one of these. Why a compiler is passed over is added to
    `notes`. Raises XpagedError for an unknown name, ToolchainError when there is nothing (left) to try.
    """
    if toolchain != "auto" and toolchain not in KINDS:
        raise XpagedError(
            f"unknown toolchain '{toolchain}'",
            expected=", ".join(("auto", *KINDS)),
            fix=did_you_mean(toolchain, ("auto", *KINDS)),
        )
    return _select(toolchain, arch, requires or Requirements(), [] if notes is None else notes)


def _select(toolchain: str, arch: str, requires: Requirements, notes: list[str]) -> Iterator[Compiler]:
    fixes: list[str] = []
    for kind in KINDS:
        if toolchain not in ("auto", kind):
            continue
        for found in find(kind):
            if isinstance(found, Missing):
                notes.append(f"{found.what} was passed over: {found.reason}")
                fixes.append(found.install)
            elif (refusal := found.refusal(arch, requires)) is not None:
                notes.append(f"{found.name} was passed over: {refusal}")
            else:
                yield found
    raise ToolchainError(
        f"no compiler is left that takes this kernel for {arch}",
        found="; ".join(notes),
        fix=fixes[-1] if fixes else "--toolchain auto, or pip install 'xpaged[toolchain]'",
    )


def compile_text(
    text: str,
    arch: str,
    toolchain: str = "auto",
    *,
    want: frozenset[Want] = frozenset(("asm", "object")),
    accept: Callable[[Compiled], object] = lambda compiled: None,
    notes: list[str] | None = None,
) -> tuple[Compiler, Compiled]:
    """
    Compile HIP `text` with the first compiler that takes it and whose result passes `accept`.

    `accept` raises XpagedError for a result that may not be used. The compiler used, and why each one before it was
    not, is added to `notes`. Raises the last refusal when every compiler failed, ToolchainError when there was none.
    """
    said = [] if notes is None else notes
    last: XpagedError | None = None
    compilers = select(toolchain, arch, Requirements.of(text), notes=said)
    while True:
        try:
            compiler = next(compilers)
        except ToolchainError as none_left:
            raise last or none_left from None
        try:
            compiled = compiler.compile(text, arch, want)
            accept(compiled)
        except XpagedError as refusal:
            last = refusal
            detail = f" ({refusal.found.splitlines()[0]})" if refusal.found else ""
            said.append(f"{compiler.name} was passed over: {refusal.what}{detail}")
        else:
            said.append(f"{arch} was compiled by {compiler.name}")
            return compiler, compiled


def find(kind: Kind) -> Iterator[Compiler | Missing]:
    """The compilers of one kind, best first, and a Missing for each that cannot be used (or when there is none)."""
    some = False
    for path in _paths(kind):
        some = True
        yield _probe(kind, path)
    if not some:
        yield Missing(kind, "it is not installed", _INSTALL[kind])


def prepare(toolchain: str) -> None:
    """Ask the compiler that `toolchain` tries first, so that a later `select` need not wait for its answer."""
    for kind in KINDS:
        if toolchain in ("auto", kind):
            next(find(kind))
            return


_INSTALL: dict[Kind, str] = {
    "hipcc": "install ROCm, or on Debian and Ubuntu: apt-get install hipcc",
    "clang": "on Debian and Ubuntu: apt-get install clang-19 lld-19",
    "bundled": "pip install 'xpaged[toolchain]'",
}


def _paths(kind: Kind) -> Iterator[str]:
    """Where executables of one kind are, best first, each once."""
    seen: set[str] = set()
    for path in {"hipcc": _hipcc_paths, "clang": _clang_paths, "bundled": _bundled_paths}[kind]():
        if (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            yield path


def _rocm() -> str:
    return os.environ.get("ROCM_PATH") or "/opt/rocm"


def _hipcc_paths() -> list[str]:
    found = (shutil.which("hipcc"), shutil.which("hipcc", path=os.path.join(_rocm(), "bin")))
    return [path for path in found if path is not None]


def _clang_paths() -> list[str]:
    """Every `clang` and `clang-NN` of PATH and of ROCm, newest first by the version that the file's name gives."""
    folders = [*os.get_exec_path(), os.path.join(_rocm(), "llvm", "bin")]
    found: list[tuple[int, int, str]] = []
    for order, folder in enumerate(folders):
        try:
            names = os.listdir(folder or ".")
        except OSError:  # PATH may name what does not exist
            continue
        for name in names:
            path = os.path.join(folder, name)
            if re.fullmatch(r"clang(-\d+)?", name) and os.access(path, os.X_OK):
                version = re.search(r"-(\d+)$", os.path.basename(os.path.realpath(path))) or re.search(r"-(\d+)$", name)
                found.append((-int(version[1]) if version else 0, order, path))
    return [path for _, _, path in sorted(found)]


def _bundled_paths() -> list[str]:
    """The one binary of the `ziglang` package, without importing it."""
    spec = importlib.util.find_spec("ziglang")
    folders = (spec.submodule_search_locations if spec is not None else None) or []
    candidates = [os.path.join(folder, name) for folder in folders for name in ("zig", "zig.exe")]
    return [path for path in candidates if os.access(path, os.X_OK)]


_probing = Lock()


def _probe(kind: Kind, path: str) -> Compiler | Missing:
    """What answers at `path`, asked once in a process even when several threads compile."""
    with _probing:
        return _ask(kind, path)


@cache
def _ask(kind: Kind, path: str) -> Compiler | Missing:
    """Ask a compiler for its version and processors: one short run (0.05 s; 0.3 s for hipcc)."""
    driver = (path, "clang") if kind == "bundled" else (path,)
    try:
        done = _run(kind, (*driver, *_PROBE_FLAGS), PROBE_SECONDS, None)
    except OSError as err:
        return Missing(path, f"it cannot be run: {err.strerror}", _INSTALL[kind])
    answer = done.output + done.errors
    version = re.search(r"clang version (\d+\.\d+\.\d+)", answer)
    archs = frozenset(re.findall(r"^\s*(gfx[0-9a-f]+)\s*$", answer, re.MULTILINE))
    if version is None:
        return Missing(path, "it does not answer as a clang", _INSTALL[kind])
    if not archs:
        return Missing(path, f"its clang {version[1]} was built without the AMDGPU target", _INSTALL[kind])
    linker: tuple[str, ...] = ()
    if kind != "hipcc":
        linker = (path, "ld.lld") if kind == "bundled" else _lld(path, version[1].split(".")[0])
        if not linker:
            return Missing(path, "there is no ld.lld beside it", _INSTALL[kind])
    return Compiler(kind, path, version[1], archs, linker)


def _lld(clang: str, major: str) -> tuple[str, ...]:
    """The ELF linker that belongs to a clang."""
    beside = os.path.dirname(os.path.realpath(clang))
    found = shutil.which("ld.lld", path=beside) or shutil.which(f"ld.lld-{major}") or shutil.which("ld.lld")
    return (found,) if found is not None else ()


def _run(kind: Kind, command: tuple[str, ...], seconds: float, folder: Path | None) -> Finished:
    """Run one step; temporary files and crash reports of the compiler land in `folder` and go with it."""
    environment = {**os.environ, "LC_ALL": "C"}
    if kind == "hipcc":
        environment["HIP_PLATFORM"] = "amd"  # or it picks nvcc where CUDA is installed
    if folder is not None:
        environment["TMPDIR"] = str(folder)
    return run_program(command, environment=environment, folder=folder, seconds=seconds)
