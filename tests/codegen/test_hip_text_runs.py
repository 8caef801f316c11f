"""The printed text against the interpreter: random programs of one lane, run on this machine's CPU and compared bit by
bit. Signed overflow, which C leaves undefined, is counted: there must be none."""

import ctypes
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from xpaged.arch.table import get_arch
from xpaged.codegen.hip_printer import print_hip
from xpaged.interpreter.evaluator import Machine, Program
from xpaged.interpreter.memory import Memory
from xpaged.interpreter.views import MemRef
from xpaged.ir.parsing import parse

Array = npt.NDArray[Any]
LANES = 64
SLOTS = 12  # results of each type that a program stores
TYPES = ("i32", "i64", "f32", "f16")
DTYPES = {"i32": np.int32, "i64": np.int64, "f32": np.float32, "f16": np.float16}

_UNSAFE = ("add_overflow", "sub_overflow", "mul_overflow", "negate_overflow", "divrem_overflow", "shift_out_of_bounds")
_HOST = """\
typedef unsigned host_u32;
static host_u32 host_lane, host_unsafe;
#define __builtin_amdgcn_workgroup_id_x() 3u
#define __builtin_amdgcn_workitem_id_x() host_lane
#define __builtin_amdgcn_readfirstlane(x) (x)
#define amdgpu_flat_work_group_size(least, most)
extern "C" host_u32 unsafe() { return host_unsafe; }
""" + "".join(f'extern "C" void __ubsan_handle_{name}_minimal() {{ ++host_unsafe; }}\n' for name in _UNSAFE)


class Writer:
    """Writes random programs in MLIR: `env` holds the values that can be used, by type."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.loops = 0

    def name(self) -> str:
        self.count += 1
        hints = ("x", "y", "top", "row", "at", "load", "float", "m", "n", "key")
        return f"%{self.random.choice(hints)}_{self.count}"

    def emit(self, env: dict[str, list[str]], type_: str, text: str) -> str:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        env.setdefault(type_, []).append(name)
        return name

    def pick(self, env: dict[str, list[str]], type_: str) -> str:
        """A value of a type: one that there is, recent ones more often, or a constant."""
        known = env.get(type_, [])
        if known and self.random.random() < 0.85:
            return known[-1] if self.random.random() < 0.5 else self.random.choice(known)
        return self.constant(env, type_)

    def constant(self, env: dict[str, list[str]], type_: str) -> str:
        r = self.random
        if type_ == "i1":
            return self.emit(env, "i1", f"arith.constant {r.choice(('true', 'false'))}")
        if type_ in ("i32", "i64"):
            top = 2 ** (31 if type_ == "i32" else 63)
            value = r.choice((0, 1, 2, 3, 7, 64, -1, -2, -100, top - 1, -top, r.randrange(-top, top)))
            return self.emit(env, type_, f"arith.constant {value} : {type_}")
        if type_ in ("f32", "f16"):
            return self.emit(env, type_, f"arith.constant {r.choice((0.0, 1.0, -1.5, 0.1, 3.25e-3, 100.0))} : {type_}")
        if type_ == "vector<4xf32>":
            return self.emit(env, type_, "arith.constant dense<[1.0, -2.5, 0.0, 3.0]> : vector<4xf32>")
        return self.emit(env, type_, f"arith.constant dense<{r.choice((-3, 0, 5))}> : vector<4xi32>")

    def number(self, env: dict[str, list[str]], value: int, type_: str) -> str:
        return self.emit(env, type_, f"arith.constant {value} : {type_}")

    def statements(self, env: dict[str, list[str]], count: int, depth: int = 0) -> None:
        choices = [self.integer] * 6 + [self.compare] * 2 + [self.select] * 2 + [self.cast] * 2 + [self.real] * 3
        choices += [self.vector] * 2 + [self.memory] * 2 + [self.registers]
        if depth < 2:
            choices += [self.loop, self.branch] * 2
        for _ in range(count):
            self.random.choice(choices)(env, depth)

    def integer(self, env: dict[str, list[str]], depth: int) -> None:
        r = self.random
        type_ = r.choice(("i32", "i32", "i32", "i64", "vector<4xi32>", "i1"))
        a, b = self.pick(env, type_), self.pick(env, type_)
        if type_ == "i1":
            op = r.choice(("andi", "ori", "xori"))
        elif type_.startswith("vector"):
            op = r.choice(("addi", "subi", "muli", "andi", "xori"))
        else:
            op = r.choice(
                "addi subi muli addi muli andi ori xori minsi maxsi minui maxui divui remui divsi remsi "
                "ceildivui ceildivsi floordivsi shli shrui shrsi".split()
            )
            width = int(type_[1:])
            if op.startswith("sh"):
                b = self.number(env, r.randrange(width), type_)
            elif "div" in op or "rem" in op:
                b = self.number(env, r.choice((1, 2, 3, 16, 96, 1000)), type_)
        self.emit(env, type_, f"arith.{op} {a}, {b} : {type_}")

    def compare(self, env: dict[str, list[str]], depth: int) -> None:
        r = self.random
        if r.random() < 0.6:
            type_ = r.choice(("i32", "i32", "i64"))
            predicate = r.choice("eq ne slt sle sgt sge ult ule ugt uge".split())
            self.emit(env, "i1", f"arith.cmpi {predicate}, {self.pick(env, type_)}, {self.pick(env, type_)} : {type_}")
        else:
            predicate = r.choice("oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true false".split())
            self.emit(env, "i1", f"arith.cmpf {predicate}, {self.pick(env, 'f32')}, {self.pick(env, 'f32')} : f32")

    def select(self, env: dict[str, list[str]], depth: int) -> None:
        type_ = self.random.choice(("i32", "i64", "f32", "f16", "i1", "vector<4xf32>"))
        condition, a, b = self.pick(env, "i1"), self.pick(env, type_), self.pick(env, type_)
        self.emit(env, type_, f"arith.select {condition}, {a}, {b} : {type_}")

    def cast(self, env: dict[str, list[str]], depth: int) -> None:
        op, a, b = self.random.choice(
            (
                *(("extsi", "i32", "i64"), ("extui", "i32", "i64"), ("trunci", "i64", "i32"), ("extui", "i1", "i32")),
                *(("extsi", "i1", "i32"), ("trunci", "i32", "i1"), ("sitofp", "i32", "f32"), ("uitofp", "i32", "f32")),
                *(("extf", "f16", "f32"), ("truncf", "f32", "f16"), ("bitcast", "i32", "f32"), ("sitofp", "i1", "f32")),
            )
        )
        self.emit(env, b, f"arith.{op} {self.pick(env, a)} : {a} to {b}")

    def real(self, env: dict[str, list[str]], depth: int) -> None:
        r = self.random
        type_ = r.choice(("f32", "f32", "vector<4xf32>"))
        if r.random() < 0.15:
            self.emit(env, type_, f"arith.negf {self.pick(env, type_)} : {type_}")
        else:
            op = r.choice("addf subf mulf divf maxnumf minnumf".split())
            a, b = self.pick(env, type_), self.pick(env, type_)
            if op == "divf":  # the sign of a zero, which the extremes leave open, must not become that of an infinity
                b = self.emit({}, type_, f"arith.constant {'dense<-3.0>' if type_ != 'f32' else '0.3'} : {type_}")
            self.emit(env, type_, f"arith.{op} {a}, {b} : {type_}")

    def vector(self, env: dict[str, list[str]], depth: int) -> None:
        r = self.random
        element = r.choice(("f32", "i32"))
        type_ = f"vector<4x{element}>"
        kind = r.randrange(4)
        if kind == 0:
            self.emit(env, type_, f"hip.splat {self.pick(env, element)} : {element} -> {type_}")
        elif kind == 1:
            self.emit(env, element, f"hip.slice {self.pick(env, type_)} at {r.randrange(4)} : {type_} -> {element}")
        elif kind == 2:
            parts = ", ".join(self.pick(env, element) for _ in range(4))
            self.emit(env, type_, f"hip.vector {parts} : {', '.join([element] * 4)} -> {type_}")
        else:
            half = f"vector<2x{element}>"
            a = self.emit({}, half, f"hip.slice {self.pick(env, type_)} at {r.randrange(3)} : {type_} -> {half}")
            b = self.emit({}, half, f"hip.slice {self.pick(env, type_)} at {r.randrange(3)} : {type_} -> {half}")
            self.emit(env, type_, f"hip.vector {a}, {b} : {half}, {half} -> {type_}")

    def memory(self, env: dict[str, list[str]], depth: int) -> None:
        type_ = self.random.choice(TYPES)
        offset = self.emit(env, "i32", f"arith.remui {self.pick(env, 'i32')}, %size : i32")
        mask = f" if {self.pick(env, 'i1')}" if self.random.random() < 0.5 else ""
        self.emit(env, type_, f"hip.load %in_{type_}[{offset}]{mask} : memref<64x{type_}>, i32 -> {type_}")

    def registers(self, env: dict[str, list[str]], depth: int) -> None:
        """An array that is filled, changed in a loop, and read before and behind the change."""
        r = self.random
        count, element = r.choice(((1, "f32"), (3, "i32"), (1, "vector<4xf32>"), (3, "vector<4xf32>")))
        type_ = f"!hip.regs<{count} x {element}>"
        regs = self.emit({}, type_, f"hip.regs : {type_}")
        places = [self.number({}, i, "i32") for i in range(count)]
        for place in places:
            self.lines.append(f"hip.set {self.pick(env, element)}, {regs}[{place}] : {element}, {type_}, i32")
        before = self.emit({}, element, f"hip.get {regs}[{r.choice(places)}] : {type_}, i32 -> {element}")
        again = self.emit({}, element, f"hip.get {regs}[{places[0]}] : {type_}, i32 -> {element}")
        if "vector" in element:
            lane = self.number({}, r.randrange(4), "i32")
            value = self.pick(env, "f32")
            self.lines.append(f"hip.set {value}, {regs}[{r.choice(places)}, {lane}] : f32, {type_}, i32, i32")
            self.emit(env, "f32", f"hip.get {regs}[{places[0]}, {lane}] : {type_}, i32, i32 -> f32")
        else:
            self.lines.append(f"hip.set {again}, {regs}[{places[-1]}] : {element}, {type_}, i32")
        end = self.number({}, count, "i32")
        index = self.name()
        self.lines.append(f"scf.for {index} = %zero to {end} step %one : i32 {{")
        old = self.emit({}, element, f"hip.get {regs}[{index}] : {type_}, i32 -> {element}")
        kind = "i" if element == "i32" else "f"
        new = self.emit(
            {},
            element,
            f"arith.add{kind} {old}, {self.pick({k: list(v) for k, v in env.items()}, element)} : {element}",
        )
        self.lines.append(f"hip.set {new}, {regs}[{index}] : {element}, {type_}, i32")
        self.lines.append("} {unroll}")
        self.emit(env, element, f"hip.get {regs}[{r.choice(places)}] : {type_}, i32 -> {element}")
        env.setdefault(element, []).append(before)

    def carried(self, env: dict[str, list[str]]) -> list[str]:
        return [
            self.random.choice(("i32", "f32", "i64", "i1", "vector<4xf32>")) for _ in range(self.random.randrange(4))
        ]

    def loop(self, env: dict[str, list[str]], depth: int) -> None:
        r = self.random
        types = self.carried(env)
        if r.random() < 0.5:
            types += types[:2]  # two of a kind may be exchanged
        initial = [self.pick(env, t) for t in types]
        trips = r.choice((0, 1, 1, 2, 3))
        lower, upper = self.number(env, 0, "i32"), self.number(env, trips, "i32")
        if r.random() < 0.5:
            upper = self.emit(env, "i32", f"arith.remui {self.pick(env, 'i32')}, %three : i32")
        index, results = self.name(), [self.name() for _ in types]
        arguments = [self.name() for _ in types]
        start = f"{', '.join(results)} = " if results else ""
        pairs = ", ".join(f"{a} = {i}" for a, i in zip(arguments, initial, strict=True))
        carried = f" iter_args({pairs}) -> ({', '.join(types)})" if types else ""
        self.lines.append(f"{start}scf.for {index} = {lower} to {upper} step %one{carried} : i32 {{")
        inner = {k: list(v) for k, v in env.items()}
        inner.setdefault("i32", []).append(index)
        for argument, type_ in zip(arguments, types, strict=True):
            inner.setdefault(type_, []).append(argument)
        self.statements(inner, r.randrange(1, 7), depth + 1)
        if types:
            values = [
                r.choice((self.pick(inner, t), r.choice([a for a, u in zip(arguments, types, strict=True) if u == t])))
                for t in types
            ]
            self.lines.append(f"scf.yield {', '.join(values)} : {', '.join(types)}")
        self.lines.append("}")
        for result, type_ in zip(results, types, strict=True):
            env.setdefault(type_, []).append(result)

    def branch(self, env: dict[str, list[str]], depth: int) -> None:
        r = self.random
        types = self.carried(env)
        results = [self.name() for _ in types]
        condition = self.pick(env, "i1")
        outer = [self.pick(env, t) for t in types]
        start = f"{', '.join(results)} = " if results else ""
        kind = f" -> ({', '.join(types)})" if types else ""
        self.lines.append(f"{start}scf.if {condition}{kind} {{")
        for side in range(2):
            inner = {k: list(v) for k, v in env.items()}
            plain = r.random() < 0.4
            if not plain:
                self.statements(inner, r.randrange(1, 5), depth + 1)
            if types:
                values = outer if plain else [self.pick(inner, t) for t in types]
                self.lines.append(f"scf.yield {', '.join(values)} : {', '.join(types)}")
            self.lines.append("} else {" if side == 0 else "}")
        for result, type_ in zip(results, types, strict=True):
            env.setdefault(type_, []).append(result)

    def kernel(self, name: str) -> str:
        arguments = [f"%in_{t}: memref<64x{t}>" for t in TYPES] + [f"%out_{t}: memref<{64 * SLOTS}x{t}>" for t in TYPES]
        env: dict[str, list[str]] = {"i32": ["%lane"]}
        for type_ in TYPES:
            self.emit(env, type_, f"hip.load %in_{type_}[%lane] : memref<64x{type_}>, i32 -> {type_}")
        self.statements(env, 30)
        for type_ in TYPES:
            chosen = env[type_][-SLOTS:]
            for slot, value in enumerate(chosen):
                at = self.number({}, slot * LANES, "i32")
                place = self.emit({}, "i32", f"arith.addi %lane, {at} : i32")
                mask = f" if {self.pick(env, 'i1')}" if self.random.random() < 0.3 else ""
                self.lines.append(
                    f"hip.store {value}, %out_{type_}[{place}]{mask} : {type_}, memref<{64 * SLOTS}x{type_}>, i32"
                )
        body = "\n  ".join(self.lines)
        return f"""func.func @{name}({", ".join(arguments)}) attributes {{
    rock.kernel, rock.grid_size = 4 : i64, rock.block_size = 64 : i64}} {{
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  %size = arith.constant 64 : i32
  %lane = hip.lane_id : i32
  %group = hip.workgroup_id : i32
  %wave = hip.wave_id : i32
  {body}
  func.return
}}
"""


def inputs(seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    small = rng.integers(-100, 100, LANES)
    wide = rng.integers(-(2**63), 2**63, LANES, dtype=np.int64)
    pick = rng.random(LANES) < 0.6
    return {
        "i32": np.where(pick, small, wide >> 32).astype(np.int32),
        "i64": np.where(pick, small, wide),
        "f32": np.where(rng.random(LANES) < 0.1, np.nan, rng.standard_normal(LANES)).astype(np.float32),
        "f16": rng.standard_normal(LANES).astype(np.float16),
    }


def interpret(program: Program, name: str, given: dict[str, Array]) -> dict[str, Array]:
    memory = Memory()

    def place(values: Array) -> MemRef:
        base = memory.allocate(values.nbytes, dtype=values.dtype).base
        memory.write_array(base, values)
        return MemRef.dense(base, values.dtype, values.shape)

    args = [place(given[t]) for t in TYPES] + [place(np.zeros(LANES * SLOTS, DTYPES[t])) for t in TYPES]
    program.call(Machine(memory, groups=(3,), lanes_per_group=LANES, grid=4), name, args)
    outputs = zip(TYPES, args[len(TYPES) :], strict=True)
    return {t: memory.read_array(int(a.base[0]), a.dtype, LANES * SLOTS) for t, a in outputs}


def build(text: str, names: Sequence[str], folder: Path) -> ctypes.CDLL:
    """The text as a library for this CPU: a loop over the lanes around each kernel."""
    loops = [
        f'extern "C" void run_{name}(void** a) {{ for (host_lane = 0; host_lane < {LANES}; ++host_lane) {name}('
        + ", ".join(f"({kind}*)a[{i}]" for i, kind in enumerate(("int", "u64", "float", "f16") * 2))
        + "); }\n"
        for name in names
    ]
    source = folder / "kernel.cpp"
    source.write_text(_HOST + text + "".join(loops))
    spec = __import__("importlib.util").util.find_spec("ziglang")
    zig = str(Path(spec.submodule_search_locations[0]) / "zig")
    command = [zig, "clang", "-target", "x86_64-linux-gnu", "-x", "c++", "-std=c++17", "-O1", "-mf16c", "-fPIC", "-c"]
    command += ["-ffp-contract=off", "-fno-exceptions", "-fno-stack-protector", "-Wno-everything"]
    command += ["-fsanitize=signed-integer-overflow,shift-exponent,integer-divide-by-zero"]
    command += ["-fsanitize-minimal-runtime", "-fsanitize-recover=all"]
    done = subprocess.run([*command, "kernel.cpp", "-o", "kernel.o"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    subprocess.run([zig, "ld.lld", "-shared", "kernel.o", "-o", "kernel.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "kernel.so"))


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("true") is None, reason="builds an ELF library")
@pytest.mark.parametrize("seed", range(3))
def test_random_programs_run_as_they_are_interpreted(seed: int, tmp_path: Path) -> None:
    names = [f"program_{i}" for i in range(8)]
    module = parse("\n".join(Writer(1000 * seed + i).kernel(name) for i, name in enumerate(names)))
    text = print_hip(module, get_arch("gfx90a"))
    library = build(text, names, tmp_path)
    program, given = Program(module), inputs(seed)
    for name in names:
        expected = interpret(program, name, given)
        arrays = [given[t] for t in TYPES] + [np.zeros(LANES * SLOTS, DTYPES[t]) for t in TYPES]
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        library[f"run_{name}"](pointers)
        for type_, got in zip(TYPES, arrays[len(TYPES) :], strict=True):
            np.testing.assert_array_equal(got, expected[type_], err_msg=f"{name} {type_}")
        assert library.unsafe() == 0, f"{name}: C leaves its integer arithmetic undefined"
