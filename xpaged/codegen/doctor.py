"""What `xpaged doctor` reports: compilers, the architectures that each serves, what is missing and how to get it."""

import importlib.util
import json
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version

from xpaged.arch.table import archs
from xpaged.codegen.host import unable
from xpaged.codegen.toolchain import KINDS, Compiler, Kind, Missing, find

_PACKAGES = ("xpaged", "xdsl", "numpy", "ml_dtypes", "ziglang", "pyelftools", "msgpack")
_READERS = {"elftools": "pyelftools", "msgpack": "msgpack"}


@dataclass(frozen=True)
class Found:
    """A compiler that works, and those of xpaged's architectures that it makes code for."""

    name: str
    kind: Kind
    path: str
    version: str
    archs: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """
    The state of this machine. `archs` maps each architecture of xpaged to the compiler that `--toolchain auto` tries
    first (None: there is none); `host` is why level host cannot run (None: it can); `ok` says that every architecture
    has a compiler and that objects can be read.
    """

    ok: bool
    versions: dict[str, str | None]
    compilers: tuple[Found, ...]
    archs: dict[str, str | None]
    missing: tuple[Missing, ...]
    host: str | None = None

    def to_json(self) -> str:
        """The report as one JSON object."""
        return json.dumps(asdict(self), indent=2)

    def to_text(self) -> str:
        """The report for a terminal."""
        lines = ["versions"]
        lines += [f"  {name} {found or 'not installed'}" for name, found in self.versions.items()]
        lines.append("compilers, in the order in which --toolchain auto tries them")
        lines += [
            f"  {c.name}: {', '.join(c.archs) or 'none of the architectures'}  ({c.path})" for c in self.compilers
        ]
        if not self.compilers:
            lines.append("  none")
        lines.append("architectures")
        lines += [f"  {arch}: {name or 'no compiler'}" for arch, name in self.archs.items()]
        lines.append("level host runs on this CPU" if self.host is None else f"level host cannot run here: {self.host}")
        if self.missing:
            lines.append("missing")
            lines += [f"  {m.what}: {m.reason}\n    {m.install}" for m in self.missing]
        lines.append("everything that is needed is here" if self.ok else "something that is needed is missing")
        return "\n".join(lines)


def doctor() -> Report:
    """Look at every compiler and package once; takes about half a second where hipcc is installed."""
    compilers: list[Compiler] = []
    missing: list[Missing] = []
    for kind in KINDS:
        for found in find(kind):
            if isinstance(found, Missing):
                missing.append(found)
            else:
                compilers.append(found)
    unreadable = [
        Missing(package, "it reads the objects that compile checks", "pip install 'xpaged[toolchain]'")
        for module, package in _READERS.items()
        if importlib.util.find_spec(module) is None
    ]
    first = {arch: next((c.name for c in compilers if c.supports(arch)), None) for arch in archs()}
    return Report(
        ok=not unreadable and None not in first.values(),
        versions={"python": platform.python_version(), **{package: _version(package) for package in _PACKAGES}},
        compilers=tuple(
            Found(c.name, c.kind, c.path, c.version, tuple(arch for arch in archs() if c.supports(arch)))
            for c in compilers
        ),
        archs=first,
        missing=(*missing, *unreadable),
        host=unable(),
    )


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
