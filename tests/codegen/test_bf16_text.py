"""bf16 in the text: conversions and arithmetic, run on this machine's CPU, against the interpreter and ml_dtypes."""

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from xpaged.arch.table import get_arch
from xpaged.codegen.hip_printer import print_hip
from xpaged.codegen.host import HostKernel, unable
from xpaged.codegen.launch import Buffer, Launch, LaunchDescription
from xpaged.interpreter.evaluator import Machine, Program
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.views import MemRef
from xpaged.ir.parsing import parse

Array = npt.NDArray[Any]
BF16 = np.dtype(ml_dtypes.bfloat16)
LANES = 256
NO_NAN = "{fastmath = #arith.fastmath<nnan>}"
CASES: dict[str, tuple[str, Any]] = {
    "one": ("%r = arith.truncf %x : f32 to bf16", lambda x, y: x.astype(BF16)),
    "one that is no NaN": (f"%r = arith.truncf %x {NO_NAN} : f32 to bf16", None),
    "two": (
        "%v = hip.vector %x, %y : f32, f32 -> vector<2xf32>\n%w = arith.truncf %v : vector<2xf32> to vector<2xbf16>\n"
        "%r = hip.slice %w at 1 : vector<2xbf16> -> bf16",
        lambda x, y: y.astype(BF16),
    ),
    "four": (
        "%v = hip.vector %y, %x, %y, %y : f32, f32, f32, f32 -> vector<4xf32>\n"
        "%w = arith.truncf %v : vector<4xf32> to vector<4xbf16>\n%r = hip.slice %w at 1 : vector<4xbf16> -> bf16",
        lambda x, y: x.astype(BF16),
    ),
    "four that are no NaN": (
        "%v = hip.vector %y, %y, %x, %y : f32, f32, f32, f32 -> vector<4xf32>\n"
        f"%w = arith.truncf %v {NO_NAN} : vector<4xf32> to vector<4xbf16>\n"
        "%r = hip.slice %w at 2 : vector<4xbf16> -> bf16",
        None,
    ),
    "sum": ("%r = arith.addf %a, %b : bf16", lambda x, y: x.astype(BF16) + y.astype(BF16)),
    "product": ("%r = arith.mulf %a, %b : bf16", lambda x, y: x.astype(BF16) * y.astype(BF16)),
    "quotient": ("%r = arith.divf %a, %b : bf16", lambda x, y: x.astype(BF16) / y.astype(BF16)),
    "minus": ("%r = arith.negf %a : bf16", lambda x, y: -x.astype(BF16)),
    "larger": ("%r = arith.maxnumf %a, %b : bf16", lambda x, y: np.fmax(x.astype(BF16), y.astype(BF16))),
    "chosen": (
        "%c = arith.cmpf ogt, %a, %b : bf16\n%r = arith.select %c, %a, %b : bf16",
        lambda x, y: np.where(x.astype(BF16) > y.astype(BF16), x.astype(BF16), y.astype(BF16)),
    ),
    "by way of half": (
        "%h = arith.truncf %x : f32 to f16\n%s = arith.extf %h : f16 to f32\n%r = arith.truncf %s : f32 to bf16",
        lambda x, y: x.astype(np.float16).astype(BF16),
    ),
    "a constant": ("%r = arith.constant 0.1 : bf16", lambda x, y: np.full(len(x), 0.1, BF16)),
}


def module() -> Any:
    outputs = [f"%out{i}: memref<{LANES}xbf16>" for i in range(len(CASES))]
    cases = [
        "".join(f"{line}\n" for line in text.splitlines())
        .replace("%r", f"%r{i}")
        .replace("%v", f"%v{i}")
        .replace("%w", f"%w{i}")
        .replace("%c", f"%c{i}")
        + f"hip.store %r{i}, %out{i}[%at] : bf16, memref<{LANES}xbf16>, i32"
        for i, (text, _) in enumerate(CASES.values())
    ]
    body = "\n".join(cases)
    return parse(f"""
func.func @k(%xs: memref<{LANES}xf32>, %ys: memref<{LANES}xf32>, {", ".join(outputs)})
    attributes {{rock.kernel, rock.grid_size = 4 : i32, rock.block_size = 64 : i32}} {{
  %lane = hip.lane_id : i32
  %group = hip.workgroup_id : i32
  %size = arith.constant 64 : i32
  %first = arith.muli %group, %size : i32
  %at = arith.addi %first, %lane : i32
  %x = hip.load %xs[%at] : memref<{LANES}xf32>, i32 -> f32
  %y = hip.load %ys[%at] : memref<{LANES}xf32>, i32 -> f32
  %a = arith.truncf %x : f32 to bf16
  %b = arith.truncf %y : f32 to bf16
  {body}
  func.return
}}""")


def floats(seed: int) -> Array:
    """Floats of every size; ties between two bf16, above an even and above an odd one; the largest; infinities."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, LANES, dtype=np.uint64).astype(np.uint32)
    ties = rng.random(LANES) < 0.5
    bits[ties] = bits[ties] & 0xFFFF0000 | 0x8000
    special = [0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7F7F7FFF]
    special += [0x00000001, 0x00008000, 0x00018000, 0x80008000, 0]
    bits[: len(special)] = special
    return bits.view(np.float32)


def interpreted(program: Program, x: Array, y: Array) -> list[Array]:
    memory = Memory()

    def place(values: Array) -> MemRef:
        base = memory.allocate(values.nbytes, dtype=values.dtype).base
        memory.write_array(base, values)
        return MemRef.dense(base, values.dtype, values.shape)

    args = [place(x), place(y), *(place(np.zeros(LANES, BF16)) for _ in CASES)]
    program.call(Machine(memory, groups=(0, 1, 2, 3), lanes_per_group=64, grid=4), "k", args)
    return [memory.read_array(int(a.base[0]), BF16, LANES) for a in args[2:]]


def bits(values: Array) -> Array:
    """The bits, all NaN alike."""
    return np.where(np.isnan(values.astype(np.float32)), 0x7FC0, values.view(np.uint16))


@pytest.mark.skipif(unable() is not None, reason="this machine cannot run kernels on its CPU")
def test_the_text_rounds_as_the_interpreter_does() -> None:
    made = module()
    names = ["xs", "ys", *(f"out{i}" for i in range(len(CASES)))]
    buffers = [Buffer(n, "buffer", "f32", (LANES,), 4 * LANES, "read") for n in names[:2]]
    buffers += [Buffer(n, "buffer", "bf16", (LANES,), 2 * LANES, "write") for n in names[2:]]
    launch = Launch("k", "k.gfx942.hsaco", (4, 1, 1), (64, 1, 1), 0, tuple(names))
    program = Program(made)
    with HostKernel(
        print_hip(made, get_arch("gfx942")), get_arch("gfx942"), LaunchDescription(tuple(buffers), (launch,))
    ) as k:
        for seed, with_nan in ((0, False), (1, True)):
            x, y = floats(seed), floats(seed + 10)
            if with_nan:  # with every payload that could be lost, or carry over
                x[20:25] = np.array([0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0x7FC00000, 0xFFFF8000], np.uint32).view(
                    np.float32
                )
            x[np.isnan(x) & (not with_nan)] = 1.0
            y[np.isnan(y)] = 1.0
            outs = [np.zeros(LANES, np.uint16) for _ in CASES]
            k.launch(dict(zip(names, (x, y, *outs), strict=True)))
            for (name, (_, expected)), out, inner in zip(CASES.items(), outs, interpreted(program, x, y), strict=True):
                if expected is None and with_nan:
                    continue
                with np.errstate(all="ignore"):
                    exact = x.astype(BF16) if expected is None else expected(x, y)
                np.testing.assert_array_equal(bits(inner), bits(exact), name)
                np.testing.assert_array_equal(bits(out.view(BF16)), bits(exact), name)


def test_numbers_are_rounded_two_at_a_time_and_without_a_comparison() -> None:
    text = print_hip(module(), get_arch("gfx942"))
    assert "DEV u32 pair_number(float a, float b) { return __builtin_amdgcn_perm(rounded_number(b), " in text
    body = text[text.index("DEV u32 rounded_number") :]
    assert "?" not in body[: body.index("}")]
