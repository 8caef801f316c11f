"""Finding, choosing and running compilers."""

import json
import os
import shutil
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from xpaged.arch import archs
from xpaged.codegen import toolchain
from xpaged.codegen.code_object import matrix_instructions, read_code_object
from xpaged.codegen.doctor import doctor
from xpaged.codegen.process import run_program
from xpaged.codegen.toolchain import (
    KINDS,
    Compiled,
    Compiler,
    Missing,
    Requirements,
    ToolchainError,
    compile_text,
    find,
    select,
    shorten,
)
from xpaged.errors import XpagedError

NOTHING = "nowhere-to-be-found"


def fake(folder: Path, name: str, script: str) -> Path:
    """An executable that pretends to be a compiler."""
    path = folder / name
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH but for the shell's own tools, and no ROCm."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / NOTHING))
    return folder


# ---- every compiler ---------------------------------------------------------------------------------------------


def test_compile_gives_a_bare_elf_of_version_5(every_compiler: Compiler, mfma_text: str) -> None:
    made = every_compiler.compile(mfma_text, "gfx90a")
    assert made.object is not None
    assert made.asm is not None
    code = read_code_object(made.object)
    assert (code.arch, code.version, [k.name for k in code.kernels]) == ("gfx90a", 5, ["product"])
    assert matrix_instructions(made.asm) == 1
    assert made.warnings == ""


def test_only_what_is_wanted_is_made(every_compiler: Compiler, mfma_text: str) -> None:
    assert every_compiler.compile(mfma_text, "gfx90a", frozenset({"asm"})).object is None
    assert every_compiler.compile(mfma_text, "gfx90a", frozenset({"object"})).asm is None


def test_the_same_text_gives_the_same_bytes(every_compiler: Compiler, mfma_text: str) -> None:
    first, second = (every_compiler.compile(mfma_text, "gfx90a") for _ in range(2))
    assert first == second


def test_a_refused_text_shows_the_compilers_first_error(every_compiler: Compiler, mfma_text: str) -> None:
    with pytest.raises(ToolchainError) as caught:
        every_compiler.compile(mfma_text.replace("zero, 0, 0, 0", "zero, 0, 0"), "gfx90a")
    assert caught.value.found is not None
    assert caught.value.found.startswith("kernel.hip:14:")
    assert "too few arguments" in caught.value.found.splitlines()[0]
    assert len(caught.value.found.splitlines()) <= 13
    assert every_compiler.name in str(caught.value)


def test_a_call_that_nothing_defines_is_refused(every_compiler: Compiler, mfma_text: str) -> None:
    text = mfma_text.replace("  const int lane", "  extern __attribute__((device)) int other(int);\n  const int lane")
    text = text.replace("tile[63 - lane]", "tile[other(lane)]")
    with pytest.raises(ToolchainError, match="other"):
        every_compiler.compile(text, "gfx90a")


def test_warnings_are_kept(every_compiler: Compiler, mfma_text: str) -> None:
    made = every_compiler.compile("#warning look here\n" + mfma_text, "gfx90a")
    assert "look here" in made.warnings


def test_unknown_archs_are_not_supported(every_compiler: Compiler) -> None:
    assert every_compiler.supports("gfx90a")
    assert not every_compiler.supports("gfx9000")
    assert not every_compiler.supports("gfx9")
    assert every_compiler.refusal("gfx9000", Requirements()) == "does not know gfx9000"


# ---- the bundled one --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_bundled_compiles_every_arch(bundled: Compiler, mfma_text: str, arch: str) -> None:
    made = bundled.compile(mfma_text, arch)
    assert made.object is not None
    assert read_code_object(made.object).arch == arch


def test_nothing_stays_behind(
    bundled: Compiler, mfma_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bundled.compile(mfma_text, "gfx942")
    with pytest.raises(ToolchainError):
        bundled.compile(mfma_text + "}", "gfx942")
    assert list(tmp_path.iterdir()) == []


def test_needs_nothing_of_the_environment(
    bundled: Compiler, mfma_text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert bundled.compile(mfma_text, "gfx942").object is not None


def test_a_folder_with_spaces_and_quotes_is_no_trouble(
    every_compiler: Compiler, mfma_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / "a 'b\" $(c);d"
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    assert every_compiler.compile(mfma_text, "gfx90a").object is not None


def test_an_unusable_temporary_folder_is_a_refusal(
    bundled: Compiler, mfma_text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / NOTHING))
    with pytest.raises(ToolchainError, match="could not be run"):
        bundled.compile(mfma_text, "gfx942")


def test_a_step_that_fails_on_a_full_disk_says_so(
    bundled: Compiler, mfma_text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")

    def full(path: Path) -> object:
        return usage._replace(free=100)

    monkeypatch.setattr(shutil, "disk_usage", full)
    assert bundled.compile(mfma_text, "gfx942").object is not None
    with pytest.raises(ToolchainError, match="No space left on device") as caught:
        bundled.compile(mfma_text + "}", "gfx942")
    assert "TMPDIR" in str(caught.value.fix)


# ---- compilers that misbehave -----------------------------------------------------------------------------------

LISTS = "echo 'clang version {version}'; echo 'Available CPUs for this target:'; printf '\\tgfx90a\\n\\tgfx942\\n'"


def clang_like(folder: Path, name: str, version: str, otherwise: str) -> Path:
    probe = LISTS.format(version=version)
    fake(folder, "ld.lld", "exit 0")
    return fake(folder, name, f'case "$*" in *print-supported-cpus*) {probe}; exit 0;; esac\n{otherwise}\n')


def test_a_compiler_that_hangs_is_stopped(only: Path, mfma_text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clang_like(only, "clang-77", "77.0.0", "/bin/sleep 60 & wait")
    monkeypatch.setattr(toolchain, "COMPILE_SECONDS", 0.3)
    with pytest.raises(ToolchainError, match="did not finish"):
        compile_text(mfma_text, "gfx942", "clang")


def test_a_compiler_that_crashes_says_so(only: Path, mfma_text: str) -> None:
    clang_like(only, "clang-78", "78.0.0", "kill -SEGV $$")
    with pytest.raises(ToolchainError, match="crashed"):
        compile_text(mfma_text, "gfx942", "clang")


def test_an_output_that_is_no_elf_is_refused(only: Path, mfma_text: str) -> None:
    clang_like(only, "clang-79", "79.0.0", "echo text > kernel.s; echo __CLANG_OFFLOAD_BUNDLE__ > kernel.hsaco")
    with pytest.raises(ToolchainError, match="no bare ELF"):
        compile_text(mfma_text, "gfx942", "clang")


def test_auto_falls_to_the_next_when_one_fails(only: Path, mfma_text: str, bundled: Compiler) -> None:
    clang_like(only, "clang-80", "80.0.0", "echo 'x.hip:1:1: error: no such builtin' >&2; exit 1")
    notes: list[str] = []
    compiler, made = compile_text(mfma_text, "gfx942", notes=notes)
    assert compiler == bundled
    assert made.object is not None
    assert notes == [
        "hipcc was passed over: it is not installed",
        "clang 80.0.0 was passed over: clang 80.0.0 refused the kernel (x.hip:1:1: error: no such builtin)",
        f"gfx942 was compiled by {bundled.name}",
    ]


def test_auto_falls_to_the_next_when_a_result_is_not_accepted(only: Path, mfma_text: str, bundled: Compiler) -> None:
    clang_like(only, "clang-81", "81.0.0", "echo text > kernel.s; printf '\\177ELF' > kernel.hsaco")

    def accept(made: Compiled) -> None:
        assert made.object is not None
        read_code_object(made.object)

    notes: list[str] = []
    compiler, _ = compile_text(mfma_text, "gfx942", accept=accept, notes=notes)
    assert compiler == bundled
    assert any("clang 81.0.0 was passed over: this is no readable code object" in note for note in notes)


def test_when_every_compiler_fails_the_last_refusal_is_shown(only: Path, mfma_text: str) -> None:
    with pytest.raises(ToolchainError, match="refused the kernel") as caught:
        compile_text(mfma_text + "}", "gfx942")
    assert "extraneous closing brace" in str(caught.value)


# ---- choosing ---------------------------------------------------------------------------------------------------


def test_newest_clang_comes_first(only: Path) -> None:
    for version in (15, 9, 101, 20):
        clang_like(only, f"clang-{version}", f"{version}.1.0", "exit 1")
    fake(only, "clang-format-20", "exit 1")
    (only / "clang").symlink_to("clang-20")
    found = [c.clang_major for c in find("clang") if isinstance(c, Compiler)]
    assert found == [101, 20, 15, 9]


def test_a_clang_without_linker_or_target_is_passed_over_with_a_reason(only: Path) -> None:
    fake(only, "clang-82", "echo 'clang version 82.0.0'; echo 'error: unknown target triple' >&2; exit 1")
    path = clang_like(only, "clang-83", "83.0.0", "exit 0")
    (only / "ld.lld").unlink()
    assert [m.reason for m in find("clang") if isinstance(m, Missing)] == [
        "there is no ld.lld beside it",
        "its clang 82.0.0 was built without the AMDGPU target",
    ]
    assert path.exists()


def test_what_does_not_answer_is_passed_over(only: Path) -> None:
    fake(only, "clang-84", "exit 1")
    (only / "clang-85").write_bytes(b"not a program")
    (only / "clang-85").chmod(0o755)
    found = list(find("clang"))
    assert all(isinstance(each, Missing) for each in found)
    assert len(found) == 2


def test_requirements_are_read_from_the_text(mfma_text: str) -> None:
    assert Requirements.of(mfma_text) == Requirements()
    assert Requirements.of("// a kernel\n// requires clang >= 20: transposing LDS reads\n") == Requirements(
        20, "transposing LDS reads"
    )
    assert Requirements.of("// requires clang >= 18\n").min_clang == 18


def test_a_text_that_needs_a_newer_clang_skips_older_ones(only: Path, mfma_text: str, bundled: Compiler) -> None:
    clang_like(only, "clang-16", "16.0.0", "exit 1")
    notes: list[str] = []
    text = "// requires clang >= 20: transposing LDS reads\n" + mfma_text
    compiler, _ = compile_text(text, "gfx942", notes=notes)
    assert compiler == bundled
    expected = "clang 16.0.0 was passed over: the kernel needs clang 20 or newer (transposing LDS reads)"
    assert expected in notes
    with pytest.raises(ToolchainError, match="needs clang 20"):
        compile_text(text, "gfx942", "clang")


def test_an_arch_that_none_knows_is_refused_with_every_reason(mfma_text: str) -> None:
    with pytest.raises(ToolchainError, match="no compiler is left") as caught:
        compile_text(mfma_text, "gfx9000")
    assert "bundled clang" in str(caught.value.found)
    assert caught.value.fix is not None


def test_a_missing_compiler_is_refused_with_the_way_to_install_it(only: Path, mfma_text: str) -> None:
    with pytest.raises(ToolchainError, match="apt-get install hipcc"):
        compile_text(mfma_text, "gfx90a", "hipcc")


def test_unknown_toolchain() -> None:
    with pytest.raises(XpagedError, match="unknown toolchain 'clnag'") as caught:
        select("clnag", "gfx942")
    assert "did you mean 'clang'" in str(caught.value)


def test_looking_for_a_later_compiler_waits_until_it_is_asked_for(only: Path) -> None:
    clang_like(only, "clang-86", "86.0.0", "exit 1")
    notes: list[str] = []
    first = next(select("auto", "gfx942", notes=notes))
    assert first.version == "86.0.0"
    assert notes == ["hipcc was passed over: it is not installed"]


def test_a_compiler_is_asked_once_even_by_several_threads(only: Path) -> None:
    log = only.parent / "log"
    path = clang_like(only, "clang-87", "87.0.0", "exit 1")
    path.write_text(path.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\necho asked >> '{log}'\n"))
    with ThreadPoolExecutor(4) as pool:
        answers = [job.result() for job in [pool.submit(next, select("clang", "gfx942")) for _ in range(4)]]
    toolchain.prepare("clang")
    assert {answer.version for answer in answers} == {"87.0.0"}
    assert log.read_text() == "asked\n"


def test_prepare_asks_only_the_compiler_that_comes_first(only: Path) -> None:
    log = only.parent / "log"
    for name, version in (("clang-88", "88.0.0"), ("clang-12", "12.0.0")):
        path = clang_like(only, name, version, "exit 1")
        path.write_text(path.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\necho {name} >> '{log}'\n"))
    toolchain.prepare("clang")
    assert log.read_text() == "clang-88\n"


# ---- small parts ------------------------------------------------------------------------------------------------


def test_shorten_starts_at_the_first_error_and_ends_early() -> None:
    noise = "Traceback (most recent call last):\n  File x\nk.hip:1:1: warning: w\n\n"
    text = noise + "k.hip:3:1: error: e\n" + "\n".join(f"line {i}" for i in range(40))
    shown = shorten(text).splitlines()
    assert shown[0] == "k.hip:3:1: error: e"
    assert shown[-1] == "... and 29 more lines"
    assert len(shown) == 13
    assert shorten(text, "warning").startswith("k.hip:1:1: warning: w")
    assert shorten("only\nwords\n") == "only\nwords"
    assert shorten("") == ""


def test_run_program_reports_status_and_both_streams(tmp_path: Path) -> None:
    done = run_program(("/bin/sh", "-c", "pwd; echo bad >&2; exit 3"), environment={}, folder=tmp_path, seconds=10)
    assert (done.status, done.output.strip(), done.errors, done.timed_out) == (3, str(tmp_path), "bad\n", False)


def test_run_program_takes_grandchildren_along() -> None:
    done = run_program(("/bin/sh", "-c", "/bin/sleep 30 & echo started; wait"), environment={}, seconds=0.3)
    assert done.timed_out
    assert done.output == "started\n"


def test_doctor_lists_what_is_there_and_what_is_missing(only: Path, bundled: Compiler) -> None:
    report = doctor()
    assert report.ok
    assert [c.kind for c in report.compilers] == ["bundled"]
    assert set(report.archs.values()) == {bundled.name}
    assert [m.what for m in report.missing] == ["hipcc", "clang"]
    text = report.to_text()
    assert "apt-get install hipcc" in text
    assert bundled.name in text
    data = json.loads(report.to_json())
    assert data["compilers"][0]["archs"] == list(archs())
    assert data["ok"] is True


def test_doctor_without_any_compiler_is_not_ok(only: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_bundled_paths", list[str])
    report = doctor()
    assert not report.ok
    assert "no compiler" in report.to_text()
    assert [m.what for m in report.missing] == list(KINDS)
    assert report.missing[-1].install == "pip install 'xpaged[toolchain]'"
