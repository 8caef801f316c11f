"""Functions that do several things become several kernels, which share memory and are launched in order."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

import xpaged
from xpaged.codegen.host import unable
from xpaged.codegen.launch import describe_launches
from xpaged.errors import XpagedError
from xpaged.interpreter.inputs import entry_of
from xpaged.interpreter.run import Report, run
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.ir.printing import print_module
from xpaged.lowering.kernel import argument_attributes, kernels_of, program_name
from xpaged.passes.pipelines import lower
from xpaged.pipeline import Pipeline

CHAIN = """
func.func @f(%q: memref<1x2x16xf16>, %k: memref<1x40x16xf16>, %v: memref<1x40x16xf16>, %w: memref<1x24x16xf16>,
             %idle: memref<7xf32>, %out: memref<1x2x16xf16> {rock.output = 0 : i32}) attributes {rock.kernel} {
  %rows = memref.alloc() : memref<1x2x16xf16>
  rock.attention{
    qk = %q * tr %k : memref<1x2x16xf16>, memref<1x40x16xf16>
    %rows = softmax(qk) * %v : memref<1x40x16xf16> -> memref<1x2x16xf16>
  }
  rock.attention{
    qk = %rows * tr %w : memref<1x2x16xf16>, memref<1x24x16xf16>
    %out = softmax(qk) * %w : memref<1x24x16xf16> -> memref<1x2x16xf16>
  }
  func.return
}
"""
PAIR = """
func.func @f(%q: memref<1x2x16xf16>, %kt: memref<1x40x1xi64>, %vt: memref<1x40x1xi64>, %w: memref<1x24x16xf16>,
             %b: memref<1x2x16xf16> {rock.output = 1 : i32}, %a: memref<1x2x16xf16> {rock.output = 0 : i32})
    attributes {rock.kernel} {
  %k = rock.deref %kt : memref<1x40x1xi64> -> memref<1x40x16xf16>
  %v = rock.deref %vt : memref<1x40x1xi64> -> memref<1x40x16xf16>
  rock.attention{
    qk = %q * tr %k : memref<1x2x16xf16>, memref<1x40x16xf16>
    keyAddresses = (%k : memref<1x40x16xf16>)
    valueAddresses = (%v : memref<1x40x16xf16>)
    %a = softmax(qk) * %v : memref<1x40x16xf16> -> memref<1x2x16xf16>
  }
  rock.attention{
    qk = %q * tr %w : memref<1x2x16xf16>, memref<1x24x16xf16>
    %b = softmax(qk) * %w : memref<1x24x16xf16> -> memref<1x2x16xf16>
  }
  func.return
}
"""
LEVELS = (Level.ROCK_MEMREF, Level.GRIDWISE, Level.TILE, Level.DEVICE)


def outlined(text: str) -> ModuleOp:
    module = parse(text)
    Pipeline("outline-kernels").apply(module)
    return module


def marks(module: ModuleOp) -> list[list[dict[str, str]]]:
    """The attributes of each argument of each kernel, as text."""
    return [
        [{n: str(a) for n, a in argument_attributes(f, i).items()} for i in range(len(f.body.block.args))]
        for f in kernels_of(module)
    ]


def outputs(report: Report) -> dict[str, Any]:
    assert report.ok, report.faults
    return {name: np.asarray(values, np.float64) for name, values in report.arrays().items()}


def test_a_temporary_becomes_a_workspace_that_both_kernels_name() -> None:
    module = outlined(CHAIN)
    kernels = kernels_of(module)
    assert [k.sym_name.data for k in kernels] == ["f", "f_attention"]
    assert program_name(kernels) == "f"
    first, second = marks(module)
    assert [m.get("rock.argument", "").split(" ")[0] for m in first] == ["0", "1", "2", "4", ""]  # idle goes along
    assert first[-1] == second[-1] == {"rock.workspace": '"rows"'}
    assert second[1] == {"rock.argument": "5 : i32", "rock.output": "0 : i32"}
    entry = entry_of(module)
    assert [a.name for a in entry.arguments] == ["q", "k", "v", "w", "idle", "out", "rows"]
    assert [list(s) for s in entry.slots] == [[0, 1, 2, 4, 6], [3, 5, 6]]


def test_kernels_run_in_order_at_every_level() -> None:
    found = outputs(run(parse(CHAIN), level=LEVELS, seed=3))
    expected = found["rock-memref/out0"]
    assert np.abs(expected).max() > 0.1
    for level in LEVELS:
        np.testing.assert_allclose(found[f"{level.value}/out0"], expected, atol=2e-3)


@pytest.mark.skipif(unable() is not None, reason="no compiler for this machine")
def test_kernels_run_in_order_as_text() -> None:
    found = outputs(run(parse(CHAIN), level=(Level.DEVICE, Level.HOST), seed=3))
    assert found["host/out0"].tobytes() == found["device/out0"].tobytes()


def test_each_kernel_is_checked() -> None:
    report = run(parse(PAIR), level=LEVELS, check=True)
    assert report.ok, report.faults
    assert [o.name for o in report.levels["device"].outputs] == ["a", "b"]
    module = lower(parse(PAIR), Level.GRIDWISE)
    assert len(kernels_of(module)) == 2
    report = run(module, level=(Level.GRIDWISE, Level.DEVICE), check=True)
    assert report.ok, report.faults


def test_a_workspace_of_another_name_is_another_buffer() -> None:
    """The mark ties the kernels together: without it the second reads poison."""

    def rename(module: ModuleOp, level: Level) -> None:
        if level is Level.DEVICE:
            last = kernels_of(module)[-1]
            assert last.arg_attrs is not None
            new = DictionaryAttr({"rock.workspace": StringAttr("other")})
            last.arg_attrs = type(last.arg_attrs)([*last.arg_attrs.data[:-1], new])

    report = run(parse(CHAIN), level="device", edit=rename)
    assert np.isnan(report.levels["device"].outputs[0].values).all()


def test_kernels_out_of_order_read_poison() -> None:
    def exchange(module: ModuleOp, level: Level) -> None:
        first, last = kernels_of(module)
        first.detach()
        block = last.parent
        assert block is not None
        block.insert_op_after(first, last)

    report = run(parse(CHAIN), level="tile", edit=exchange)
    assert np.isnan(report.levels["tile"].outputs[0].values).all()


def test_a_chain_has_no_reference_on_memrefs() -> None:
    with pytest.raises(XpagedError, match="reads what another attention writes") as info:
        run(parse(CHAIN), level="tile", check=True)
    assert info.value.fix == "run the module without --check"


def test_chosen_workgroups_are_those_of_the_last_kernel() -> None:
    text = CHAIN.replace("1x2x16", "1x80x16")  # two workgroups a kernel
    report = run(parse(text), level=("device",), blocks=1)
    assert report.ok, report.faults
    assert report.levels["device"].outputs[0].written.reshape(80, 16).any(axis=1).sum() in (16, 64)
    assert "only workgroups of the last kernel, f_attention, are chosen: f ran whole" in report.notes


def test_one_description_of_all_launches() -> None:
    kernel = xpaged.compile(parse(CHAIN), arch="gfx942", emit=["hip"])
    assert kernel.name == "f"
    assert kernel.launch is not None
    found = json.loads(kernel.launch.to_json())
    assert [launch["kernel"] for launch in found["launches"]] == ["f", "f_attention"]
    assert [launch["args"] for launch in found["launches"]] == [["q", "k", "v", "idle", "rows"], ["w", "out", "rows"]]
    (rows,) = [b for b in found["buffers"] if b["kind"] == "workspace"]
    assert (rows["name"], rows["bytes"], rows["access"]) == ("rows", 64, "read_write")
    assert kernel.hip is not None
    assert "workspace of 64 bytes" in kernel.hip
    assert kernel.hip.count("__attribute__((global") == 2


def test_both_kernels_are_in_one_object() -> None:
    if unable() is not None:
        pytest.skip("no compiler")
    kernel = xpaged.compile(parse(CHAIN), arch="gfx942", emit=["object"])
    assert kernel.object is not None  # checked against the description of both launches
    assert sorted(kernel.files()) == ["f.gfx942.hsaco", "f.gfx942.launch.json"]


def test_an_output_that_a_later_kernel_reads() -> None:
    """It is written by one kernel and read by the other, and known by its mark, whatever it is called."""
    text = CHAIN.replace("%rows = memref.alloc() : memref<1x2x16xf16>", "").replace("%idle: memref<7xf32>,", "")
    text = text.replace("%out: memref", "%rows: memref<1x2x16xf16> {rock.output = 1 : i32}, %out: memref")
    module = outlined(text)
    assert "rock.output" in marks(module)[0][-1]
    assert "rock.output" not in marks(module)[1][1]
    device = lower(module, Level.DEVICE, "gfx942")
    kernels = kernels_of(device)
    kernels[1].body.block.args[1].name_hint = "something"
    buffers = describe_launches(kernels, "o").buffers
    assert [b.access for b in buffers if b.name == "rows"] == ["read_write"]
    assert len(outputs(run(parse(text), level="device"))) == 2


@pytest.mark.parametrize("passes", [None, "outline-kernels"])
def test_outputs_without_marks(passes: str | None) -> None:
    """What the function writes is marked while it is whole: the output of a merge, and what the last kernel writes."""
    split = print_module(xpaged.attention(seq_q=2, seq_k=64, dim_qk=16, lse=True, merge=True, split_kv=2))
    for text, names in ((CHAIN, ["out"]), (split, ["out", "lse"])):
        module = parse(re.sub(r" \{rock.output = \d : i32\}", "", text))
        if passes is not None:
            Pipeline(passes).apply(module)
        report = run(module, level="device")
        assert [o.name for o in report.levels["device"].outputs] == names
        assert report.ok, report.faults


def test_workspaces_get_names_that_nothing_else_has() -> None:
    text = CHAIN.replace("%rows", "%0").replace("%idle", "%workspace")
    module = outlined(text)
    assert (
        marks(module)[0][-1] == {"rock.workspace": '"workspace_0"'}
        or "workspace_1" in marks(module)[0][-1]["rock.workspace"]
    )
    assert entry_of(module).arguments[-1].is_workspace


def test_one_operation_is_left_alone() -> None:
    text = PAIR[: PAIR.rindex("  rock.attention{")] + "  func.return\n}\n"
    module = outlined(text)
    assert "part_of" not in str(module)
    assert module.is_structurally_equivalent(parse(text))


def test_one_operation_with_a_temporary() -> None:
    text = """
    func.func @f(%q: memref<1x2x16xf16>, %k: memref<1x40x16xf16>, %out: memref<1x2x16xf16>) {
      %lse = memref.alloc() : memref<1x2xf32>
      rock.attention{
        qk = %q * tr %k : memref<1x2x16xf16>, memref<1x40x16xf16>
        lse = %lse : memref<1x2xf32>
        %out = softmax(qk) * %k : memref<1x40x16xf16> -> memref<1x2x16xf16>
      }
      func.return
    }"""
    module = outlined(text.replace("memref<1x2x16xf16>) {", "memref<1x2x16xf16> {rock.output = 0 : i32}) {"))
    (kernel,) = kernels_of(module)
    assert kernel.sym_name.data == "f"
    assert run(module, level="all", check=True).ok


def test_a_part_is_not_taken_apart_again() -> None:
    with pytest.raises(XpagedError, match="cannot be taken apart again"):
        outlined(CHAIN.replace("attributes {rock.kernel}", 'attributes {rock.kernel, rock.part_of = "g"}'))


def test_a_temporary_has_a_size() -> None:
    alloc = '  %n = arith.constant 1 : index\n  %t = memref.alloc(%n) : memref<?xf16>\n  "memref.copy"(%t, %t)'
    with pytest.raises(XpagedError, match="the size of a temporary is not known"):
        outlined(CHAIN.replace("  func.return", f"{alloc} : (memref<?xf16>, memref<?xf16>) -> ()\n  func.return"))


def test_values_do_not_cross_kernels() -> None:
    text = CHAIN.replace(
        "  func.return",
        "  %z = arith.constant 0 : index\n  %x = memref.load %idle[%z] : memref<7xf32>\n"
        "  memref.store %x, %idle[%z] : memref<7xf32>\n  func.return",
    )
    with pytest.raises(XpagedError, match="kernels share memory only"):
        outlined(text)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("rock.argument = -1 : i32", "must be the number of an argument"),
        ("rock.workspace = 3 : i32", "must be a name"),
        ("rock.argument = 0 : i32", "for the second time"),
    ],
)
def test_marks_are_verified(attributes: str, message: str) -> None:
    text = f"func.func @f(%a: memref<4xf32>, %b: memref<4xf32> {{{attributes}}}) {{\n  func.return\n}}"
    with pytest.raises(XpagedError, match=message):
        parse(text)


def _parts(first: str, second: str) -> ModuleOp:
    part = 'attributes {rock.kernel, rock.part_of = "f"} {\n  func.return\n}\n'
    return parse(f"func.func @f({first}) {part}func.func @g({second}) {part}")


def test_parts_that_do_not_fit_together() -> None:
    with pytest.raises(XpagedError, match="do not have all of its arguments"):
        entry_of(_parts("%a: memref<4xf32> {rock.argument = 0 : i32}", "%b: memref<4xf32> {rock.argument = 2 : i32}"))
    with pytest.raises(XpagedError, match="name different buffers the same"):
        entry_of(_parts("%a: memref<4xf32> {rock.argument = 0 : i32}", "%b: memref<5xf32> {rock.argument = 0 : i32}"))


def test_kernels_of_different_functions_are_not_run_together() -> None:
    module = outlined(CHAIN)
    function = kernels_of(module)[1]
    assert isinstance(function, FuncOp)
    function.attributes["rock.part_of"] = StringAttr("other")
    with pytest.raises(XpagedError, match="more than one kernel"):
        run(module)
