"""A kernel in which every operation of the device level stands, and that every compiler takes it."""

import re
from functools import cache

import pytest
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.dialects.func import FuncOp

from tests.codegen.hip_texts import ATTENTION, check, kernel, text_of
from xpaged.codegen.hip_statements import BUILDERS
from xpaged.codegen.toolchain import Compiler
from xpaged.ir.parsing import parse


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_every_compiler_takes_the_attention_kernel(every_compiler: Compiler, arch: str) -> None:
    if not every_compiler.supports(arch):
        pytest.skip(f"{every_compiler.name} does not know {arch}")
    asm = check(every_compiler, text_of(parse(ATTENTION.read_text()), arch), 1, arch)
    assert len(re.findall(r"v_mfma_f32_16x16x16", asm)) == 8
    assert ".max_flat_workgroup_size: 256" in asm
    assert ".group_segment_fixed_size: 16896" in asm
    assert "v_exp_f32" in asm


INTEGER = ["i8", "i16", "i32", "i64"]
FLOAT = ["f16", "f32"]
BOTH = ["f32", "f16", "bf16", "vector<4xf32>", "vector<2xf16>", "vector<4xbf16>"]
BINARY = {
    **{op: [*INTEGER, "vector<4xi32>"] for op in "addi subi muli andi ori xori".split()},
    **{op: INTEGER for op in "shli shrui shrsi divui remui divsi remsi ceildivui ceildivsi floordivsi".split()},
    **{op: INTEGER for op in "minsi maxsi minui maxui".split()},
    **{op: BOTH for op in "addf subf mulf divf maxnumf minnumf maximumf minimumf".split()},
}
UNARY_MATH = "exp exp2 log log2 log10 sqrt rsqrt absf floor ceil trunc roundeven round".split()
CASTS = [
    *(("extsi", "i8", "i32"), ("extui", "i16", "i64"), ("extui", "i1", "i32"), ("extsi", "i1", "i32")),
    *(("trunci", "i64", "i32"), ("trunci", "i32", "i8"), ("trunci", "i32", "i1"), ("extf", "f16", "f32")),
    *(("index_cast", "i32", "index"), ("sitofp", "i32", "f32"), ("sitofp", "i1", "f32"), ("uitofp", "i8", "f16")),
    *(("fptosi", "f32", "i32"), ("fptoui", "f32", "i64"), ("truncf", "f32", "f16"), ("extf", "bf16", "f32")),
    *(("truncf", "vector<4xf32>", "vector<4xf16>"), ("extf", "vector<2xf16>", "vector<2xf32>")),
    *(("extf", "vector<4xbf16>", "vector<4xf32>"), ("truncf", "vector<4xf32>", "vector<4xbf16>")),
    *(("truncf", "f32", "bf16"), ("bitcast", "f32", "i32"), ("bitcast", "i16", "f16")),
    *(("bitcast", "vector<4xf32>", "vector<4xi32>"), ("bitcast", "i16", "bf16"), ("extf", "f32", "f64")),
]


class Everything:
    """One kernel with every expression that the printer knows, on every type that it takes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.arguments: dict[str, str] = {}
        self.count = 0

    def buffer(self, type_: str, kind: str) -> tuple[str, str]:
        """A buffer of the elements of a type, for reading or for writing."""
        element = re.sub(r"vector<\d+x(\w+)>", r"\1", type_)
        memref = f"memref<4096x{'i64' if element == 'index' else element}>"
        self.arguments[f"%{kind}_{element}"] = memref
        return f"%{kind}_{element}", memref

    def new(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def value(self, type_: str) -> str:
        """A value that nobody knows."""
        if type_ == "i1":
            return self.new(f"arith.cmpi slt, {self.value('i32')}, %lane : i32")
        name, memref = self.buffer(type_, "in")
        at = self.new(f"arith.constant {16 * self.count % 4000} : i32")
        at = self.new(f"arith.addi {at}, %lane16 : i32")
        if type_ == "index":
            return self.new(
                f"arith.index_cast {self.new(f'hip.load {name}[{at}] : {memref}, i32 -> i64')} : i64 to index"
            )
        return self.new(f"hip.load {name}[{at}] : {memref}, i32 -> {type_}")

    def keep(self, value: str, type_: str) -> None:
        """Store a value."""
        if type_ in ("i1", "index", "f64"):
            other = {"i1": "i32", "index": "i64", "f64": "f32"}[type_]
            op = {"i1": "extui", "index": "index_cast", "f64": "truncf"}[type_]
            value, type_ = self.new(f"arith.{op} {value} : {type_} to {other}"), other
        name, memref = self.buffer(type_, "out")
        at = self.new(f"arith.constant {16 * self.count % 4000} : i32")
        at = self.new(f"arith.addi {at}, %lane16 : i32")
        self.lines.append(f"hip.store {value}, {name}[{at}] : {type_}, {memref}, i32")

    def write(self) -> str:
        for op, types in BINARY.items():
            for type_ in types:
                self.keep(self.new(f"arith.{op} {self.value(type_)}, {self.value(type_)} : {type_}"), type_)
        for op in ("tanh", "erf"):
            self.keep(self.new(f"math.{op} {self.value('f32')} : f32"), "f32")
        self.keep(self.new(f"math.powf {self.value('f32')}, {self.value('f32')} : f32"), "f32")
        for op in UNARY_MATH:
            for type_ in BOTH if op != "exp" else FLOAT:
                self.keep(self.new(f"math.{op} {self.value(type_)} : {type_}"), type_)
        for type_ in BOTH:
            self.keep(self.new(f"arith.negf {self.value(type_)} : {type_}"), type_)
            self.keep(self.new(f"hip.exp2 {self.value(type_)} : {type_} -> {type_}"), type_)
            self.keep(self.new(f"math.copysign {self.value(type_)}, {self.value(type_)} : {type_}"), type_)
            self.keep(
                self.new(f"arith.select {self.value('i1')}, {self.value(type_)}, {self.value(type_)} : {type_}"), type_
            )
        for type_ in ("f32", "vector<4xf32>"):
            operands = ", ".join(self.value(type_) for _ in range(3))
            self.keep(self.new(f"math.fma {operands} : {type_}"), type_)
        for op, source, target in CASTS:
            self.keep(self.new(f"arith.{op} {self.value(source)} : {source} to {target}"), target)
        for predicate in "eq ne slt sle sgt sge ult ule ugt uge".split():
            for type_ in INTEGER:
                self.keep(self.new(f"arith.cmpi {predicate}, {self.value(type_)}, {self.value(type_)} : {type_}"), "i1")
        for predicate in "oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno".split():
            self.keep(
                self.new(f"arith.cmpf {predicate}, {self.value('f32')}, {self.value('f32')} : f32"),
                "i1",
            )
        for op in ("andi", "ori", "xori"):
            self.keep(self.new(f"arith.{op} {self.value('i1')}, {self.value('i1')} : i1"), "i1")
        self.hip()
        arguments = ", ".join(f"{name}: {memref}" for name, memref in self.arguments.items())
        body = "\n".join(self.lines)
        return f"""func.func @everything({arguments}) attributes {{
          rock.kernel, rock.grid_size = 8 : i64, rock.block_size = 128 : i64}} {{
        %lane = hip.lane_id : i32
        %c16 = arith.constant 16 : i32
        %lane16 = arith.muli %lane, %c16 : i32
        {body}
        func.return
        }}"""

    def hip(self) -> None:
        for xor in (1, 2, 3, 4, 7, 8, 15, 16, 21, 32, 63):
            self.keep(self.new(f"hip.exchange {self.value('f32')} xor {xor} : f32 -> f32"), "f32")
        self.keep(self.new(f"hip.exchange {self.value('i32')} xor 16 : i32 -> i32"), "i32")
        for type_ in ("i32", "f32", "i64"):
            self.keep(self.new(f"hip.uniform {self.value(type_)} : {type_} -> {type_}"), type_)
        self.keep(self.new(f"hip.any {self.value('i1')}"), "i1")
        self.keep(self.new("hip.workgroup_id : i32"), "i32")
        self.keep(self.new("hip.wave_id : i32"), "i32")
        for name, type_ in (("f16", "vector<4xf16>"), ("bf16", "vector<4xbf16>"), ("f32", "f32")):
            k = 4 if name == "f32" else 16
            types = f"{type_}, {type_}, vector<4xf32> -> vector<4xf32>"
            operands = f"{self.value(type_)}, {self.value(type_)}, {self.value('vector<4xf32>')}"
            self.keep(self.new(f'hip.mma "mfma_f32_16x16x{k}_{name}" {operands} : {types}'), "vector<4xf32>")
        for element in ("f16", "i32"):
            vector = self.value(f"vector<4x{element}>")
            for offset, result in ((1, element), (2, f"vector<2x{element}>"), (1, f"vector<2x{element}>")):
                self.keep(self.new(f"hip.slice {vector} at {offset} : vector<4x{element}> -> {result}"), result)
            half = self.value(f"vector<2x{element}>")
            types = f"vector<2x{element}>, vector<2x{element}> -> vector<4x{element}>"
            self.keep(
                self.new(f"hip.vector {half}, {self.value(f'vector<2x{element}>')} : {types}"), f"vector<4x{element}>"
            )
            parts = f"{half}, {self.value(element)}, {self.value(element)}"
            types = f"vector<2x{element}>, {element}, {element} -> vector<4x{element}>"
            self.keep(self.new(f"hip.vector {parts} : {types}"), f"vector<4x{element}>")
            self.keep(
                self.new(f"hip.splat {self.value(element)} : {element} -> vector<4x{element}>"), f"vector<4x{element}>"
            )
        regs = self.new("hip.regs : !hip.regs<2 x vector<4xf32>>")
        one = self.new("arith.constant 1 : i32")
        self.lines.append(
            f"hip.set {self.value('vector<4xf32>')}, {regs}[{one}] : vector<4xf32>, !hip.regs<2 x vector<4xf32>>, i32"
        )
        self.keep(self.new(f"hip.get {regs}[{one}, {one}] : !hip.regs<2 x vector<4xf32>>, i32, i32 -> f32"), "f32")
        mask = self.value("i1")
        for type_ in ("i8", "i16", "i64", "f16", "bf16", "f32", "vector<4xf32>", "vector<8xf16>"):
            name, memref = self.buffer(type_, "in")
            self.keep(self.new(f"hip.load {name}[%lane16] if {mask} : {memref}, i32 -> {type_}"), type_)
        page = self.value("i64")
        self.keep(self.new(f"hip.load {page}[%lane16] : i64, i32 -> vector<8xf16>"), "vector<8xf16>")
        self.lines += ["hip.barrier", "hip.sched_barrier", 'hip.stage "LDS" note "line one"']
        for type_ in ("f32", "vector<4xf32>", "f16"):
            element = re.sub(r"vector<\d+x(\w+)>", r"\1", type_)
            lds = self.new(f"hip.lds_alloc : memref<1024x{element}, 3>")
            self.lines.append(
                f"hip.lds_store {self.value(type_)}, {lds}[%lane16] if {mask} : {type_}, memref<1024x{element}, 3>, i32"
            )
            self.keep(
                self.new(f"hip.lds_load {lds}[%lane16] if {mask} : memref<1024x{element}, 3>, i32 -> {type_}"), type_
            )


@cache
def everything() -> str:
    """The text of that kernel; every operation is in it."""
    module = parse(Everything().write())
    used = {type(op) for op in module.walk()}
    assert [op.name for op in BUILDERS if op not in used] == []
    return text_of(module, "gfx90a")


def test_every_compiler_takes_every_operation(every_compiler: Compiler) -> None:
    check(every_compiler, everything(), 1, "gfx90a")


def test_an_empty_kernel_needs_no_definitions(bundled: Compiler) -> None:
    text = text_of(kernel("", args="", constants=""))
    assert text == (
        "// f\n//\n// Written by xpaged for gfx942 (MI300X, MI325X).\n//\n//\n"
        "// Launch: grid 8 x 1 x 1, block 64 x 1 x 1 (1 wave), no LDS.\n\n\n"
        'extern "C" __attribute__((global, amdgpu_flat_work_group_size(64, 64)))\nvoid f() {\n}\n'
    )
    check(bundled, text, 1, "gfx942")


def test_the_text_is_the_same_each_time() -> None:
    module = parse(ATTENTION.read_text())
    assert text_of(module) == text_of(module)


def test_several_kernels_share_one_prelude(bundled: Compiler) -> None:
    module = parse(ATTENTION.read_text())
    first = module.body.block.first_op
    assert isinstance(first, FuncOp)
    second = first.clone()
    second.properties["sym_name"] = type(first.sym_name)("again")
    second.attributes["rock.waves_per_eu"] = IntegerAttr(2, i32)
    module.body.block.add_op(second)
    text = text_of(module)
    assert text.count("DEV float maxf(") == 1
    assert "amdgpu_flat_work_group_size(256, 256), amdgpu_waves_per_eu(2)))\nvoid again(" in text
    check(bundled, text, 2, "gfx942")


def test_lines_are_not_too_long() -> None:
    text = everything()
    assert max(len(line) for line in text.splitlines()) <= 120
