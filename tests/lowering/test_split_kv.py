"""Attention whose keys are split over workgroups: the parts, and the merge of the parts, at every level."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp

import xpaged
from tests.lowering.kernels import ops_of
from tests.lowering.test_kernels import covering
from xpaged.codegen.host import unable
from xpaged.dialects import hip
from xpaged.interpreter.run import Report, run
from xpaged.ir.levels import Level
from xpaged.lowering.kernel import grid_size, kernels_of
from xpaged.passes.pipelines import lower

LEVELS = (Level.ROCK_MEMREF, Level.GRIDWISE, Level.TILE, Level.DEVICE)
CHOICES: dict[str, Any] = {
    "split_kv": [2, 3, 5, 8],
    "form": ["merged", "merged with LSE", "parts"],
    "masks": ["none", "index", "causal", "both", "prefix", "window", "no key"],
    "heads": [(1, 1), (4, 2), (6, 2), (5, 1)],
    "seq_q": [1, 3, 20],
    "seq_k": [24, 80, 131, 256],
    "pages": ["none", "one row", "many rows", "odd"],
    "dtype": ["f16", "bf16", "f32"],
    "dims": [(16, 16), (32, 24), (20, 36)],
}


def module_of(choice: dict[str, Any]) -> ModuleOp:
    """An attention as a choice of sizes and features says."""
    heads_q, heads_kv = choice["heads"]
    dim_qk, dim_v = choice["dims"]
    keys, masks, seq_q = choice["seq_k"], choice["masks"], choice["seq_q"]
    total = heads_kv * keys * dim_qk
    sizes = [n for n in range(1, total + 1) if total % n == 0 and n * dim_v % dim_qk == 0 and total // n <= 400]
    page_size = {
        "none": None,
        "one row": next((n for n in sizes if n >= dim_qk), None),
        "many rows": max(n for n in sizes if n <= max(sizes[0], total // 3)),
        "odd": next((n for n in sizes if n > dim_qk and n % dim_qk), sizes[0]),
    }[choice["pages"]]
    last = {"index": keys // 2, "both": keys - 3, "window": keys // 2 + 5, "no key": -1, "prefix": keys - 2}
    index = (last[masks], max(last[masks] - 7, -1)) if masks in last else False
    return xpaged.attention(
        batch=2 if index else 1,
        heads_q=heads_q,
        heads_kv=heads_kv,
        seq_q=seq_q,
        seq_k=keys,
        dim_qk=dim_qk,
        dim_v=dim_v,
        dtype=choice["dtype"],
        page_size=page_size,
        causal=masks in ("causal", "both", "prefix"),
        kv_index=index,
        prefix_offset=tuple(max(i + 1 - seq_q, 0) for i in index) if masks == "prefix" and index else False,
        sliding_window=11 if masks == "window" else None,
        scale=0.5,
        lse=choice["form"] != "merged",
        merge=choice["form"] == "merged with LSE",
        split_kv=choice["split_kv"],
        arch="gfx942",
    )


def sample() -> Iterator[dict[str, Any]]:
    """Choices in which each pair of values occurs."""
    return covering(CHOICES)


SOME = list(sample())


@pytest.mark.parametrize("number", range(0, len(SOME), 3))
def test_splits_agree_with_the_oracle(number: int) -> None:
    choice = SOME[number]
    report = run(module_of(choice), level=LEVELS, check=True, seed=number)
    assert report.ok, (choice, report.as_json())


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(SOME)))
def test_each_pair_of_features(number: int) -> None:
    report = run(module_of(SOME[number]), level="all", check=True, seed=number)
    assert report.ok, (SOME[number], report.as_json())


@pytest.mark.skipif(unable() is not None, reason="no compiler for this machine")
@pytest.mark.parametrize("form", ["merged with LSE", "parts"])
def test_the_text_of_a_split(form: str) -> None:
    choice = {"form": form, "split_kv": 3, "masks": "both", "heads": (4, 2), "seq_q": 2, "seq_k": 131}
    report = run(module_of({**choice, "pages": "odd", "dtype": "f16", "dims": (32, 24)}), level="host", check=True)
    assert report.ok, report.as_json()


DECODE: dict[str, Any] = {"heads_q": 2, "heads_kv": 1, "seq_q": 1, "seq_k": 160, "dim_qk": 16, "page_size": 128}


def decode(**changes: Any) -> ModuleOp:
    sizes: dict[str, Any] = {**DECODE, "arch": "gfx942", "kv_index": (149,), "split_kv": 3, **changes}
    return xpaged.attention(**sizes)


def outputs(report: Report, level: str = "device") -> list[np.ndarray[Any, Any]]:
    assert report.ok, report.as_json()
    return [np.asarray(o.values) for o in report.levels[level].outputs]


def test_two_launches() -> None:
    kernels = kernels_of(lower(decode(), Level.DEVICE))
    assert [k.sym_name.data for k in kernels] == ["rock_attention", "rock_attention_merge"]
    assert [grid_size(k) for k in kernels] == [3, 1]
    description = xpaged.compile(decode(), emit=["hip"]).launch
    assert description is not None
    work = {b.name: b.bytes for b in description.buffers if b.kind == "workspace"}
    assert work == {"parts": 3 * 2 * 16 * 4, "lses": 3 * 2 * 4}
    assert [launch.kernel for launch in description.launches] == ["rock_attention", "rock_attention_merge"]


def test_the_parts_on_request() -> None:
    """As rocMLIR gives them: results `[G * splitKV, ...]`, each part normalised over its own keys."""
    module = decode(lse=True)
    (kernel,) = kernels_of(lower(module.clone(), Level.DEVICE))
    assert grid_size(kernel) == 3
    out, lse = outputs(run(module, level="device", check=True, seed=1))
    whole, whole_lse = outputs(run(decode(lse=True, merge=True), level="device", check=True, seed=1))
    assert out.size == 3 * whole.size
    parts = np.exp(lse.reshape(2, 3).astype(np.float64))
    np.testing.assert_allclose(np.log(parts.sum(axis=1)), whole_lse, rtol=1e-5)
    share = (parts / parts.sum(axis=1, keepdims=True))[..., None]
    merged = (share * out.reshape(2, 3, 16).astype(np.float64)).sum(axis=1)
    np.testing.assert_allclose(merged, whole.reshape(2, 16).astype(np.float64), atol=2e-3)


@pytest.mark.parametrize(("last", "empty"), [(-1, 8), (0, 7), (19, 7), (20, 6), (149, 0)])
def test_empty_parts_give_zero_and_minus_infinity(last: int, empty: int) -> None:
    out, lse = outputs(run(decode(kv_index=(last,), split_kv=8, lse=True), level="device", check=True))
    none = np.isneginf(lse.reshape(2, 8))
    assert (none.sum(axis=1) == empty).all()
    assert (out.reshape(2, 8, 16)[none] == 0).all()
    merged = run(decode(kv_index=(last,), split_kv=8, lse=True, merge=True), level=("tile", "device"), check=True)
    out, lse = outputs(merged)
    assert np.isfinite(out).all()
    assert np.isneginf(lse).all() == (last == -1)


@pytest.mark.parametrize("split", [7, 40, pytest.param(161, marks=pytest.mark.slow)])
def test_more_parts_than_tiles_or_keys(split: int) -> None:
    assert run(decode(split_kv=split), level=("device",), check=True).ok
    assert run(decode(split_kv=split, lse=True), level=("device",), check=True).ok


def test_a_balanced_split_shares_the_keys_that_there_are() -> None:
    """A short sequence in a long cache keeps all workgroups busy; fixed parts would leave all but the first idle."""

    def busy(balanced: bool) -> int:
        def look(module: ModuleOp, level: Level) -> None:
            if not balanced and level is Level.GRIDWISE:
                for op in ops_of(module, "rock.gridwise_attention_accel"):
                    op.properties.pop("balancedSplit", None)

        module = lower(decode(seq_k=1024, kv_index=(127,), split_kv=4, page_size=1024), Level.GRIDWISE)
        look(module, Level.GRIDWISE)
        report = run(lower(module, Level.TILE), level="tile")
        assert report.ok
        return report.levels["tile"].ops

    assert busy(True) != busy(False)


def test_the_same_bits_wherever_the_pages_lie() -> None:
    """The split is fixed by sizes and lengths, the order of the merge by the number of the part."""
    rng = np.random.default_rng(0)
    inputs: dict[str, Any] = {
        "q": rng.standard_normal(2 * 16).astype(np.float16),
        "k_table.pages": rng.standard_normal((20, 128)).astype(np.float16),
        "v_table.pages": rng.standard_normal((20, 128)).astype(np.float16),
    }
    found: list[bytes] = []
    for _ in range(3):
        places = {f"{name}_table.place": rng.permutation(20) for name in "kv"}
        report = run(decode(lse=True, merge=True), {**inputs, **places}, level="device")
        found.append(b"".join(o.tobytes() for o in outputs(report)))
    assert found[0] == found[1] == found[2]


def test_a_batch_mate_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    pages = {f"{name}_table.pages": rng.standard_normal((40, 128)).astype(np.float16) for name in "kv"}
    q = rng.standard_normal(2 * 2 * 16).astype(np.float16)
    found = [
        outputs(run(decode(batch=2, kv_index=(130, other), split_kv=4), {"q": q, **pages}, level="device"))[0][:32]
        for other in (3, 159)
    ]
    assert found[0].tobytes() == found[1].tobytes()


def test_the_score_inputs_of_parts() -> None:
    """`preSoftmaxHasSplitKVTransforms`: the score inputs come for each part of the keys."""
    text = """
    func.func @f(%q: memref<2x3x16xf16>, %k: memref<2x96x16xf16>, %v: memref<2x96x16xf16>, %b: memref<BIAS>,
                 %lse: memref<6x3xf32> {rock.output = 1 : i32}, %out: memref<6x3x16xf16> {rock.output = 0 : i32})
        attributes {rock.kernel, arch = "gfx942"} {
      rock.attention{
        qk = %q * tr %k : memref<2x3x16xf16>, memref<2x96x16xf16>
        lse = %lse : memref<6x3xf32>
        qk = elementwise otherIns(%b : memref<BIAS>) {
        ^bb0(%s: f32, %x: f32):
          %t = arith.addf %s, %x : f32
          rock.yield %t : f32
        }
        %out = softmax(qk) * %v : memref<2x96x16xf16> -> memref<6x3x16xf16>
      } {numHeadsQ = 1 : i32, numHeadsKV = 1 : i32, splitKV = 3 : i32, preSoftmaxHasSplitKVTransforms = FLAG}
      func.return
    }"""
    rng = np.random.default_rng(0)
    bias = rng.standard_normal((2, 3, 96)).astype(np.float32)
    inputs = {name: rng.standard_normal(n).astype(np.float16) for name, n in (("q", 96), ("k", 3072), ("v", 3072))}
    found: list[bytes] = []
    for shape, flag, values in (
        ("2x3x96xf32", "false", bias),
        ("6x3x32xf32", "true", bias.reshape(2, 3, 3, 32).swapaxes(1, 2)),
    ):
        module = xpaged.parse(text.replace("BIAS", shape).replace("FLAG", flag))
        report = run(module, {**inputs, "b": values.reshape(-1)}, level=LEVELS, check=True)
        found.append(b"".join(o.tobytes() for o in outputs(report)))
    assert found[0] == found[1]


# ---- faults that must show


def caught(change: Callable[[ModuleOp], int], **changes: Any) -> bool:
    """Whether a fault planted at the device level is found, in at least one place where it was planted."""
    planted: list[int] = []

    def edit(module: ModuleOp, level: Level) -> None:
        if level is Level.DEVICE:
            planted.append(change(module))

    report = run(decode(**{"lse": True, "merge": True, **changes}), level="device", check=True, edit=edit)
    assert planted
    assert planted[0]
    return not report.ok


def part(module: ModuleOp, number: int) -> FuncOp:
    return kernels_of(module)[number]


def without_log2_e(module: ModuleOp) -> int:
    """Weights of base 2 where they are of base e."""
    some = ops_of(part(module, 1), "hip.exp2")
    for op in some:
        product = op.operands[0].owner
        assert isinstance(product, arith.MulfOp)
        op.operands[0] = product.lhs
    return len(some)


def without_a_sum(module: ModuleOp) -> int:
    """A weight that is not added to the sum of them."""
    sums = [op for op in ops_of(part(module, 1), "arith.addf") if str(op.results[0].type) == "f32"]
    for op in sums[:1]:
        op.results[0].replace_all_uses_with(op.operands[0])
    return len(sums)


def shifted_constant(value: int, by: int, name: str) -> Callable[[ModuleOp], int]:
    """A constant of the kernel that computes the parts is off by `by`, where an operation `name` uses it."""

    def change(module: ModuleOp) -> int:
        count = 0
        for op in ops_of(part(module, 0), name):
            for index, operand in enumerate(op.operands):
                constant = operand.owner
                if (
                    isinstance(constant, arith.ConstantOp)
                    and isinstance(constant.value, IntegerAttr)
                    and constant.value.value.data == value
                ):
                    new = arith.ConstantOp(IntegerAttr(value + by, constant.value.type))
                    block = op.parent
                    assert block is not None
                    block.insert_op_before(new, op)
                    op.operands[index] = new.result
                    count += 1
        return count

    return change


def test_a_wrong_weight_is_caught() -> None:
    assert caught(without_log2_e)


def test_weights_that_do_not_add_up_are_caught() -> None:
    assert caught(without_a_sum)


LONG: dict[str, Any] = {"seq_k": 1024, "kv_index": (1023,), "page_size": 1024}


@pytest.mark.parametrize(("value", "by", "name"), [(3, 1, "arith.divui"), (2, -2, "arith.addi")])
def test_a_wrong_share_of_the_keys_is_caught(value: int, by: int, name: str) -> None:
    """(tiles + parts - 1) / parts: divided by too much, or rounded down, keys are left out."""
    assert caught(shifted_constant(value, by, name), **LONG)


@pytest.mark.parametrize("by", [-1, 1])
def test_a_wrong_first_key_of_a_part_is_caught(by: int) -> None:
    """Parts of 54 keys, which are no whole tiles: the bounds are masks."""
    assert caught(shifted_constant(54, by, "arith.muli"), merge=False)


def test_parts_that_are_merged_wrong_places_are_caught() -> None:
    def swap(module: ModuleOp) -> int:
        """The workgroups of two parts exchange the places of their results."""
        stores = [op for op in ops_of(part(module, 0), "hip.store") if isinstance(op, hip.StoreOp)]
        for op in stores:
            if "lses" in (op.operands[1].name_hint or "") or op.value.name_hint == "lse":
                zero = arith.ConstantOp(IntegerAttr(0, 32))
                block = op.parent
                assert block is not None
                block.insert_op_before(zero, op)
                op.operands[2] = zero.result
                return 1
        return 0

    assert caught(swap)


CASES = [(1, False), *product((2, 3, 5, 8), (True, False))]


@pytest.mark.parametrize(("split", "merged"), CASES)
def test_each_number_of_parts(split: int, merged: bool) -> None:
    changes = {"split_kv": split, "lse": True, "merge": merged}
    assert run(decode(**changes), level="device", check=True).ok
