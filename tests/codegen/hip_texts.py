"""Texts of small device-level kernels, for the tests of the HIP printer."""

import re
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from xpaged.arch.table import get_arch
from xpaged.codegen.hip_printer import print_hip
from xpaged.codegen.toolchain import Compiler
from xpaged.ir.parsing import parse

ATTENTION = Path(__file__).parents[2] / "filecheck" / "hip" / "attention.mlir"
ARGS = (
    "%a: memref<64xf32>, %b: memref<64xf16>, %t: memref<64xi32>, %o: memref<64xf32>, %x: f32, %y: f32, %n: i32, %k: i32"
)
CONSTANTS = """%c0 = arith.constant 0 : i32
%c1 = arith.constant 1 : i32
%c4 = arith.constant 4 : i32
%lane = hip.lane_id : i32
"""


def kernel(body: str, args: str = ARGS, attributes: str = "", block: int = 64, constants: str = CONSTANTS) -> ModuleOp:
    return parse(
        f"""func.func @f({args}) attributes {{
          rock.kernel, rock.grid_size = 8 : i64, rock.block_size = {block} : i64{attributes}}} {{
        {constants}
        {body}
        func.return
        }}""",
        "kernel.mlir",
    )


def text_of(module: ModuleOp, arch: str = "gfx942") -> str:
    return print_hip(module, get_arch(arch))


def body_of(text: str) -> list[str]:
    """The lines of the body without the number of the lane."""
    lines = text.split('extern "C"', 1)[1].split(") {\n", 1)[1].removesuffix("}\n").splitlines()
    return [line[2:] for line in lines if not line.startswith("  const int lane = ")]


def lines(body: str, args: str = ARGS, block: int = 64) -> list[str]:
    return body_of(text_of(kernel(body, args, block=block)))


def stored(operations: str, value: str, type_: str = "f32") -> str:
    """The expression that `value` is, as it is stored."""
    if type_ == "f32":
        store = f"hip.store {value}, %o[%lane] : f32, memref<64xf32>, i32"
        (line,) = lines(f"{operations}\n{store}")
        return line.removeprefix("store<float>(o, lane, ").removesuffix(");")
    store = f"hip.store {value}, %t[%lane] : i32, memref<64xi32>, i32"
    (line,) = lines(f"{operations}\n{store}")
    return line.removeprefix("store<int>(t, lane, ").removesuffix(");")


def check(compiler: Compiler, text: str, kernels: int, arch: str) -> str:
    """Compile a text; no kernel may have scratch, calls or warnings. Returns the assembly."""
    done = compiler.compile(text, arch)
    assert done.warnings == ""
    assert done.asm is not None
    assert re.findall(r"\.private_segment_fixed_size: +(\d+)", done.asm) == ["0"] * kernels
    assert "s_swappc" not in done.asm
    return done.asm
