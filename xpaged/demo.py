"""`make demo`: one page that shows the whole of xpaged on an example, with a fault planted and caught at the end.

From MIGraphX text to HIP C++ and code objects for two architectures; every level executed on the CPU on shuffled,
poisoned pages and compared with float64; then the same kernel with one wrong comparison.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Attribute

from xpaged.codegen.code_object import read_code_object
from xpaged.driver import Kernel, compile, write_kernels
from xpaged.errors import XpagedError
from xpaged.examples import example
from xpaged.interpreter.run import LevelReport, Report, run
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse

ARCHS = ("gfx90a", "gfx942")
OUT = Path("out", "demo")
SIGNED_LESS_OR_EQUAL, SIGNED_LESS = 3, 2  # predicates of arith.cmpi


def main() -> int:
    """Print the page; the exit status is 0 when everything was as it should be."""
    started = time.perf_counter()
    print("xpaged: attention over a paged KV cache, decode step of a small language model")
    print("14 query heads, 2 KV heads, head size 64, 4096 keys at most, 64 pages of 8192 f16 in each page table\n")
    text = example("decode")
    module = parse(text, "decode.mlir")
    kernels = _compile(module)
    good = _run(module)
    bad = _plant(module)
    print(f"\n{time.perf_counter() - started:.1f} s in all, {_compiler_seconds:.1f} s of them xpaged's own compilation")
    ok = bool(kernels) and good.ok and not bad.ok
    print("everything as it should be" if ok else "NOT as it should be")
    return 0 if ok else 1


_compiler_seconds = 0.0


def _compile(module: ModuleOp) -> list[Kernel]:
    global _compiler_seconds
    print("1. decode.mlir -> HIP C++ -> code objects")
    started = time.perf_counter()
    for arch in ARCHS:  # the text alone first: that is our own work
        compile(module, arch, emit=["hip"])
    _compiler_seconds = time.perf_counter() - started
    kernels = compile(module, list(ARCHS), emit=["hip", "asm", "object"])
    for kernel in kernels:
        assert kernel.hip is not None
        assert kernel.asm is not None
        assert kernel.object is not None
        facts = read_code_object(kernel.object).kernel(kernel.name)
        print(
            f"   {kernel.arch}: {len(kernel.hip.splitlines())} lines of HIP, {facts.vgprs} VGPRs, "
            f"{facts.vgpr_spills} spilled, {facts.scratch} bytes of scratch, "
            f"{facts.lds} bytes of LDS, {kernel.asm.count('v_mfma')} matrix instructions"
        )
        for note in kernel.notes:
            print(f"           {note}")
    paths = write_kernels(kernels, OUT)
    print(f"   {len(paths)} files written to {OUT}: HIP text, assembly, code object and launch description of each\n")
    return list(kernels)


def _run(module: ModuleOp) -> Report:
    print("2. every level on the CPU: pages shuffled, dead slots and unmapped pages poisoned; compared with float64")
    report = run(module, level="all", seed=1, check=True)
    print("   level          seconds   largest error   bound there")
    for name, level in report.levels.items():
        print(f"   {name:<12} {level.seconds:>9.2f}   {_errors(level)}   {'ok' if level.ok else 'WRONG'}")
    _faults(report)
    return report


def _errors(level: LevelReport) -> str:
    output = level.outputs[0]
    if output.max_error is None or output.bound is None:
        return f"{'-':>13}   {'-':>11}"
    return f"{output.max_error:>13.2e}   {output.bound:>11.2e}"


def _faults(report: Report) -> None:
    for fault in report.faults[:3]:
        print(f"   fault at level {fault['level']}: {fault['what']} {fault['op']} {fault['location']}".rstrip())


def _plant(module: ModuleOp) -> Report:
    print("\n3. the same kernel with one fault: the device program drops the last valid key (`<` for `<=`)")
    report = run(module, level=Level.DEVICE, seed=1, check=True, edit=_drop_last_key)
    level = report.levels[Level.DEVICE.value]
    print(
        f"   {Level.DEVICE.value:<12} {level.seconds:>9.2f}   {_errors(level)}   {'MISSED' if report.ok else 'caught'}"
    )
    _faults(report)
    return report


def _drop_last_key(module: ModuleOp, level: Level) -> None:
    """The fault: every `key <= last_key` becomes `key < last_key`."""
    if level is not Level.DEVICE:
        return
    for op in module.walk():
        if isinstance(op, arith.CmpiOp) and op.rhs.name_hint == "last_key":
            predicate: Attribute = op.predicate
            assert isinstance(predicate, IntegerAttr)
            assert predicate.value.data == SIGNED_LESS_OR_EQUAL
            op.properties["predicate"] = IntegerAttr(SIGNED_LESS, predicate.type)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except XpagedError as error:
        print(error.render(), file=sys.stderr)
        sys.exit(1)
