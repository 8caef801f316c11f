"""
The host program that `--emit harness` writes: hipcc compiles and links it, and on a stub of the HIP runtime, which runs
the emitted kernel on the CPU, it passes right results and fails wrong ones.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from xpaged.codegen.harness import print_harness
from xpaged.codegen.host import unable
from xpaged.driver import Kernel, compile
from xpaged.errors import XpagedError
from xpaged.gen import generate
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.passes.pipelines import lower

HERE = Path(__file__).parent
ARCH = "gfx90a"
SIZES = "-seq_len_q 3 -seq_len_k 24 -head_dim_qk 16 -head_dim_v 8 -groupsize 2 -num_heads_q 2 -num_heads_kv 1 -t f16"
PAGES = "--paged-attention --num-pages 6 --page-size 64"
MASKS = "-causal -prefix_offset=22,3 -current_seq_len=20,-1 -return_lse"


def gen(options: str) -> ModuleOp:
    return generate(f"{SIZES} {options}".split())


@dataclass
class Built:
    """A host program on the stub, and what its launches are run with."""

    folder: Path
    kernel: Kernel

    def run(self, *argv: str, fault: str = "none") -> subprocess.CompletedProcess[str]:
        stem = self.folder / f"{self.kernel.name}.{ARCH}"
        runner = [sys.executable, str(HERE / "stub_runner.py"), f"{stem}.hip", f"{stem}.launch.json", ARCH, fault]
        environment = {"STUB_RUNNER": shlex.join(runner), "PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
        command = [str(self.folder / "program"), "--repeat", "0", *argv]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)


def built(module: ModuleOp, folder: Path) -> Built:
    """The host program of a module, compiled with the stub in place of HIP."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    if (reason := unable()) is not None:
        pytest.skip(reason)
    kernel = compile(module, ARCH, emit=["hip"])
    assert kernel.launch is not None
    name = f"{kernel.name}.{ARCH}.harness.cpp"
    (folder / "hip").mkdir()
    shutil.copy(HERE / "stub_hip.h", folder / "hip" / "hip_runtime.h")
    kernel.write_outputs(folder)
    (folder / name).write_text(print_harness(module, kernel.launch, name, ARCH))
    (folder / f"{kernel.name}.{ARCH}.hsaco").touch()
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-I."]
    done = subprocess.run(
        ["g++", *flags, name, "-o", "program"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return Built(folder, kernel)


@pytest.fixture(scope="module")
def paged(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(gen(f"{PAGES} {MASKS} --with-attn-scale --with-attn-bias"), tmp_path_factory.mktemp("paged"))


class TestOnTheStub:
    def test_a_right_kernel_passes(self, paged: Built) -> None:
        done = paged.run()
        assert done.returncode == 0, done.stdout + done.stderr
        assert "out: 96 of 96 elements compared" in done.stdout
        assert "lse: 12 of 12 elements compared" in done.stdout
        assert done.stdout.endswith("all results are right\n")

    @pytest.mark.parametrize(("fault", "wrong"), [("table", "out"), ("nothing", "lse")])
    def test_wrong_results_fail(self, paged: Built, fault: str, wrong: str) -> None:
        done = paged.run(fault=fault)
        assert done.returncode == 1
        assert f"{wrong}: " in done.stdout
        assert done.stdout.endswith("WRONG RESULTS\n")

    def test_rows_and_seed_are_taken(self, paged: Built) -> None:
        done = paged.run("--rows", "2", "--seed", "7")
        assert done.returncode == 0
        assert "out: 16 of 96 elements compared" in done.stdout

    @pytest.mark.parametrize("argv", [("--rows",), ("--rows", "x"), ("--rows", "-1"), ("--what", "1"), ("--seed", "")])
    def test_usage(self, paged: Built, argv: tuple[str, ...]) -> None:
        done = paged.run(*argv)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("usage: ")

    def test_help(self, paged: Built) -> None:
        done = paged.run("--help")
        assert done.returncode == 0
        assert "--objects DIR" in done.stdout

    def test_faults_of_the_driver_have_a_status_of_their_own(self, paged: Built) -> None:
        done = paged.run("--device", "1")
        assert done.returncode == 3
        assert "hipSetDevice" in done.stderr
        assert paged.run("--objects", "/nowhere").returncode == 3

    @pytest.mark.parametrize(
        "options",
        [
            pytest.param("-transQ -transK -transV -transO", marks=pytest.mark.slow),
            pytest.param(f"{PAGES} -current_seq_len=20,7 -sliding_window_size 5 -transV", marks=pytest.mark.slow),
            "-split_kv 3 -return_lse -merge_split_kv -causal",
            pytest.param("-split_kv 2 -return_lse", marks=pytest.mark.slow),
            pytest.param(f"{PAGES} -current_seq_len=20,-1 -split_kv 8", marks=pytest.mark.slow),
        ],
    )
    def test_other_kernels(self, options: str, tmp_path: Path) -> None:
        done = built(gen(options), tmp_path).run()
        assert done.returncode == 0, done.stdout + done.stderr

    def test_a_table_of_which_a_part_is_used(self, tmp_path: Path) -> None:
        """The pages of one layer among those of two: the others are never read."""
        text = """
          #layer = #rock.transform_map<affine_map<(d0) -> (d0 + 3)> by
            [<Slice{3, 6} ["page"] at [0] -> ["raw"] at [0]>] bounds = [3] -> [6]>
          #table = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0 * 3 + d1 + d2)> by
            [<Unmerge{1, 3, 1} ["b", "page", "one"] at [0, 1, 2] -> ["raw"] at [0]>] bounds = [1, 3, 1] -> [3]>
          #keys = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0, d1 floordiv 4, d1 mod 4, d2)> by
            [<PassThrough ["b"] at [0] -> ["b"] at [0]>, <Merge{3, 4} ["key"] at [1] -> ["page", "row"] at [1, 2]>,
             <PassThrough ["d"] at [2] -> ["d"] at [3]>] bounds = [1, 12, 8] -> [1, 3, 4, 8]>
          #rows = #rock.transform_map<affine_map<(d0, d1, d2, d3) -> (d0, d1, d2 * 8 + d3)> by
            [<PassThrough ["b", "page"] at [0, 1] -> ["b", "page"] at [0, 1]>,
             <Unmerge{4, 8} ["row", "d"] at [2, 3] -> ["offset"] at [2]>] bounds = [1, 3, 4, 8] -> [1, 3, 32]>
          func.func @f(%q: memref<1x2x8xf16>, %t: memref<6xi64> {rock.page_table = {page_size = 32 : i64, elem = f16}},
                       %o: memref<1x2x8xf16> {rock.output = 0 : i32}) attributes {rock.kernel} {
            %0 = rock.transform %t by #layer : memref<6xi64> to memref<3xi64>
            %1 = rock.transform %0 by #table : memref<3xi64> to memref<1x3x1xi64>
            %2 = rock.deref %1 : memref<1x3x1xi64> -> memref<1x3x32xf16>
            %3 = rock.transform %2 by #rows : memref<1x3x32xf16> to memref<1x3x4x8xf16>
            %4 = rock.transform %3 by #keys : memref<1x3x4x8xf16> to memref<1x12x8xf16>
            rock.attention{
              qk = %q * tr %4 : memref<1x2x8xf16>, memref<1x12x8xf16>
              keyAddresses = (%2 : memref<1x3x32xf16>)
              valueAddresses = (%2 : memref<1x3x32xf16>)
              %o = softmax(qk) * %4 : memref<1x12x8xf16> -> memref<1x2x8xf16>
            }
            func.return
          }"""
        done = built(parse(text), tmp_path).run()
        assert done.returncode == 0, done.stdout + done.stderr

    def test_several_launches_with_a_workspace(self, tmp_path: Path) -> None:
        text = """
          func.func @f(%q: memref<1x2x8xf16>, %k: memref<1x4x8xf16>, %v: memref<1x4x8xf16>, %w: memref<1x3x8xf16>,
                       %out: memref<1x2x8xf16> {rock.output = 0 : i32}) attributes {rock.kernel} {
            %rows = memref.alloc() : memref<1x2x8xf16>
            rock.attention{
              qk = %q * tr %k : memref<1x2x8xf16>, memref<1x4x8xf16>
              %rows = softmax(qk) * %v : memref<1x4x8xf16> -> memref<1x2x8xf16>
            }
            rock.attention{
              qk = %rows * tr %w : memref<1x2x8xf16>, memref<1x3x8xf16>
              %out = softmax(qk) * %w : memref<1x3x8xf16> -> memref<1x2x8xf16>
            }
            func.return
          }"""
        program = built(parse(text), tmp_path)
        assert program.kernel.launch is not None
        assert len(program.kernel.launch.launches) == 2
        done = program.run()
        assert done.returncode == 0, done.stdout + done.stderr


def test_hipcc_compiles_and_links_it(tmp_path: Path) -> None:
    if shutil.which("hipcc") is None:
        pytest.skip("there is no hipcc")
    kernel = compile(gen(f"{PAGES} {MASKS} --with-attn-bias"), ARCH, emit=["harness"])
    assert kernel.object is not None  # the program loads it
    assert kernel.harness is not None
    kernel.write_outputs(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [f"rock_attention.{ARCH}.{end}" for end in ("harness.cpp", "hsaco", "launch.json")]
    (line,) = [line for line in kernel.harness.splitlines() if line.startswith("// Build:")]
    command = shlex.split(line.removeprefix("// Build:"))
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={"HIP_PLATFORM": "amd", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    usage = subprocess.run([tmp_path / command[-1], "--help"], capture_output=True, text=True, check=False)
    assert usage.returncode == 0
    assert "usage:" in usage.stdout


def test_numbers_of_the_launch_description_are_taken_as_they_are() -> None:
    kernel = compile(gen(f"{PAGES} {MASKS}"), ARCH, emit=["hip"])
    assert kernel.launch is not None
    text = print_harness(gen(f"{PAGES} {MASKS}"), kernel.launch, "x.harness.cpp", ARCH)
    (launch,) = kernel.launch.launches
    assert f'{{"rock_attention", "x.hsaco", {{{launch.grid[0]}, 1, 1}}, {{{launch.block[0]}, 1, 1}},' in text
    assert '{"k_table", PAGE_TABLE, F16, 12, 96, 128, true, false},' in text
    assert '{"v_table", PAGE_TABLE, F16, 12, 96, 64, true, false},' in text
    assert '{"lse", BUFFER, F32, 12, 48, 0, false, true},' in text


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (lower(gen(""), Level.GRIDWISE), "a host program needs the attention as one operation"),
        (
            parse(
                """func.func @f(%x: memref<4x4xf32>, %o: memref<4xf32> {rock.output = 0 : i32})
                    attributes {rock.kernel} {
                  linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>, affine_map<(a, b) -> (a)>],
                    iterator_types = ["parallel", "reduction"]} ins(%x : memref<4x4xf32>) outs(%o : memref<4xf32>) {
                  ^bb0(%a: f32, %b: f32):
                    %s = arith.addf %a, %b : f32
                    linalg.yield %s : f32
                  }
                  func.return
                }"""
            ),
            "no reference for a reduction outside attention",
        ),
    ],
)
def test_what_has_no_reference_is_refused(module: ModuleOp, message: str) -> None:
    from xpaged.codegen.launch import Buffer, LaunchDescription

    buffers = tuple(Buffer(name, "buffer", "f32", (16,), 64, "read") for name in ("q", "k", "v", "x", "o"))
    with pytest.raises(XpagedError, match=message):
        print_harness(module, LaunchDescription(buffers, ()), "x.cpp", ARCH)
