"""The hip dialect from Python: constructors that know their result types, what moves and what does not."""

import pytest
from xdsl.dialects.builtin import (
    Float32Type,
    FunctionType,
    MemRefType,
    ModuleOp,
    UnitAttr,
    VectorType,
    f16,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.traits import MemoryEffectKind as Kind
from xdsl.traits import is_side_effect_free, only_has_effect

from xpaged.arch.table import instruction_named, instruction_names
from xpaged.dialects import hip
from xpaged.errors import XpagedError
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.ir.verify import verify


def module_of(types: list[Attribute], *ops: Operation, block: Block) -> ModuleOp:
    for op in ops:
        block.add_op(op)
    block.add_op(ReturnOp())
    return ModuleOp([FuncOp("f", FunctionType.from_lists(types, []), Region(block))])


def test_constructors_know_the_types_of_their_results() -> None:
    types: list[Attribute] = [MemRefType(f16, [64]), i64, i32, i1, VectorType(f32, [4]), f32]
    block = Block(arg_types=types)
    buffer, page, index, mask, vector, scalar = block.args
    halves = VectorType(f16, [4])
    lds = hip.LdsAllocOp(MemRefType(f32, [64], memory_space=hip_space()))
    regs = hip.RegsOp(3, VectorType(f32, [4]))
    a = hip.LoadOp(buffer, index, halves)
    ops: list[Operation] = [
        *(hip.WorkgroupIdOp(), hip.LaneIdOp(), hip.WaveIdOp(), lds, regs, a),
        hip.LoadOp(page, index, halves, mask),
        hip.StoreOp(a.result, buffer, index, mask),
        hip.LdsLoadOp(lds.result, index, VectorType(f32, [2]), mask),
        hip.LdsStoreOp(scalar, lds.result, index),
        whole := hip.GetOp(regs.result, index),
        piece := hip.GetOp(regs.result, index, index),
        hip.SetOp(vector, regs.result, index),
        hip.SetOp(scalar, regs.result, index, index),
        joined := hip.VectorOp([vector, scalar, scalar]),
        splat := hip.SplatOp(scalar, 4),
        one := hip.SliceOp(vector, 1, 1),
        two := hip.SliceOp(vector, 1, 2),
        product := hip.MmaOp("mfma_f32_16x16x16_f16", a.result, a.result, vector),
        other := hip.ExchangeOp(scalar, 16),
        hip.Exp2Op(vector),
        hip.UniformOp(index),
        *(hip.BarrierOp(), hip.SchedBarrierOp(), hip.StageOp("title"), hip.StageOp("title", "note")),
    ]
    module = module_of(types, *ops, block=block)
    verify(module)
    four = VectorType(f32, [4])
    assert whole.result.type == four
    assert piece.result.type == f32
    assert joined.result.type == VectorType(f32, [6])
    assert splat.result.type == four
    assert one.result.type == f32
    assert two.result.type == VectorType(f32, [2])
    assert product.result.type == four
    assert other.result.type == f32
    assert print_module(parse(print_module(module))) == print_module(module)


def hip_space() -> Attribute:
    from xdsl.dialects.builtin import IntegerAttr

    return IntegerAttr(hip.LDS_SPACE, i64)


def test_helpers_on_types() -> None:
    lds = MemRefType(f32, [64], memory_space=hip_space())
    assert hip.is_lds(lds)
    assert not hip.is_lds(MemRefType(f32, [64]))
    assert hip.element_of(VectorType(f16, [8])) == f16
    assert isinstance(hip.element_of(f32), Float32Type)
    assert (hip.lanes_of(VectorType(f16, [8])), hip.lanes_of(f16)) == (8, 1)
    assert str(hip.RegsType.of(2, VectorType(f16, [8]))) == "!hip.regs<2 x vector<8xf16>>"


PURE = {
    *(hip.WorkgroupIdOp, hip.LaneIdOp, hip.WaveIdOp, hip.VectorOp, hip.SplatOp, hip.SliceOp),
    *(hip.MmaOp, hip.ExchangeOp, hip.Exp2Op, hip.UniformOp, hip.AnyOp),
}
READS = {hip.LoadOp, hip.LdsLoadOp, hip.GetOp}
WRITES = {hip.StoreOp, hip.LdsStoreOp, hip.SetOp}


@pytest.mark.parametrize("kind", list(hip.Hip.operations), ids=lambda op: op.name)
def test_effects(kind: type[Operation]) -> None:
    """What may move past what: pure operations anywhere, reads not past writes, marks past neither; arrays and buffers
    are places, so that two of them never become one."""
    op = kind.create()
    assert is_side_effect_free(op) == (kind in PURE)
    assert only_has_effect(op, Kind.READ) == (kind in READS | PURE)
    assert only_has_effect(op, Kind.WRITE) == (kind in WRITES | PURE)


def test_loops_are_marked_to_be_unrolled() -> None:
    module = parse(
        """func.func @f(%a: i32) {
          scf.for %i = %a to %a step %a : i32 {
          } {unroll}
          func.return
        }"""
    )
    loop = next(op for op in module.walk() if op.name == "scf.for")
    assert loop.attributes[hip.UNROLL] == UnitAttr()
    del loop.attributes[hip.UNROLL]
    hip.mark_unroll(loop)
    assert "{unroll}" in print_module(module)


def test_instructions_by_name() -> None:
    assert {f"mfma_f32_16x16x16_{t}" for t in ("f16", "bf16")} < set(instruction_names())
    found = instruction_named("mfma_f32_16x16x4_f32")
    assert found is not None
    assert (found.m, found.n, found.k, found.elements, found.registers) == (16, 16, 4, 1, 4)
    assert instruction_named("mfma") is None


def test_a_wrong_matrix_operand_is_shown_at_its_place() -> None:
    text = """func.func @f(%a: vector<4xf16>, %c: vector<8xf32>) {
      %0 = hip.mma "mfma_f32_16x16x16_f16" %a, %a, %c : vector<4xf16>, vector<4xf16>, vector<8xf32> -> vector<8xf32>
      func.return
    }"""
    with pytest.raises(XpagedError, match="c of mfma_f32_16x16x16_f16 is 4 x f32 a lane, found vector<8xf32>") as error:
        parse(text, "k.mlir")
    assert error.value.where == "k.mlir:2:12"
