"""Elementwise operations outside attention, as kernels of their own: every level computes what the graph says."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.math import TanhOp

from tests.interpreter.graphs import shaped
from xpaged.dialects.hip import StoreOp
from xpaged.interpreter.run import run
from xpaged.ir.levels import Level
from xpaged.ir.parsing import parse
from xpaged.lowering.kernel import is_kernel
from xpaged.passes.pipelines import lower

LEVELS = list(Level)


def graph(arguments: dict[str, str], lines: Sequence[str], **results: str) -> str:
    """A kernel of the given short types; `lines` are operations without their dialect, `%name = op ...`."""
    body = "\n".join("  " + line.replace("= ", "= migraphx.", 1) for line in lines)
    names = ", ".join(f"%{name}: !migraphx.shaped{type}" for name, type in arguments.items())
    types = ", ".join(f"!migraphx.shaped{type}" for type in results.values())
    return (
        f'func.func @f({names}) -> ({types}) attributes {{rock.kernel, arch = "gfx942"}} {{\n{body}\n'
        f"  return {', '.join('%' + name for name in results)} : {types}\n}}"
    )


Q, K, V = (shaped(shape, "f16") for shape in ((1, 2, 4, 16), (1, 1, 16, 8), (1, 1, 8, 16)))
QKV = {"q": Q, "k": K, "v": V}
SMALL, HALF, TURNED = (shaped(shape, "f16") for shape in ((4, 16), (1, 2, 4, 8), (1, 4, 2, 16)))


def attention(result: str, q: str = "q", k: str = "k", v: str = "v") -> str:
    return f"%{result} = attention %{q}, %{k}, %{v} {{\n  }} : {Q}, {K}, {V} -> {Q}"


AROUND_ATTENTION = {
    "rotary": graph(
        {**QKV, "cosine": SMALL, "sine": SMALL},
        [
            f"%c = multibroadcast %cosine {{out_lens = [1, 2, 4, 16]}} : {SMALL} -> {Q}",
            f"%s = multibroadcast %sine {{out_lens = [1, 2, 4, 16]}} : {SMALL} -> {Q}",
            f"%turned = transpose %q {{permutation = [0, 1, 2, 3]}} : {Q} -> {Q}",
            f"%x = mul %q, %c : {Q}, {Q} -> {Q}",
            f"%n = neg %turned : {Q} -> {Q}",
            f"%y = mul %n, %s : {Q}, {Q} -> {Q}",
            f"%rotated = add %x, %y : {Q}, {Q} -> {Q}",
            attention("out", q="rotated"),
        ],
        out=Q,
    ),
    "a gate after": graph(
        {**QKV, "gate": Q},
        [
            attention("a"),
            f"%g = sigmoid %gate : {Q} -> {Q}",
            f"%x = mul %a, %g : {Q}, {Q} -> {Q}",
            f"%out = transpose %x {{permutation = [0, 2, 1, 3]}} : {Q} -> {TURNED}",
        ],
        out=TURNED,
    ),
    "before and after, used twice": graph(
        QKV,
        [
            f"%Q = relu %q : {Q} -> {Q}",
            f"%K = tanh %k : {K} -> {K}",
            f"%V = abs %v : {V} -> {V}",
            attention("a", "Q", "K", "V"),
            f"%out = add %a, %Q : {Q}, {Q} -> {Q}",
        ],
        out=Q,
        a=Q,
    ),
    "padded values": graph(
        {**QKV, "v": shaped((1, 1, 8, 12), "f16")},
        [
            f"%V = pad %v {{mode = 0 : i32, pads = [0, 0, 0, 0, 0, 0, 0, 4], value = 0.0 : f32}} : "
            f"{shaped((1, 1, 8, 12), 'f16')} -> {V}",
            attention("out", v="V"),
        ],
        out=Q,
    ),
    "computed, padded with ones": graph(
        {**QKV, "q": shaped((1, 2, 3, 14), "f16")},
        [
            f"%e = exp %q : {shaped((1, 2, 3, 14), 'f16')} -> {shaped((1, 2, 3, 14), 'f16')}",
            f"%Q = pad %e {{mode = 0 : i32, pads = [0, 0, 1, 1, 0, 0, 0, 1], value = 1.5 : f32}} : "
            f"{shaped((1, 2, 3, 14), 'f16')} -> {Q}",
            attention("out", q="Q"),
        ],
        out=Q,
    ),
    "between two attentions": graph(
        QKV, [attention("a"), f"%Q = tanh %a : {Q} -> {Q}", attention("out", q="Q")], out=Q
    ),
    "of two attentions": graph(
        {**QKV, "q2": Q}, [attention("a"), attention("b", q="q2"), f"%out = sub %a, %b : {Q}, {Q} -> {Q}"], out=Q
    ),
}  # fmt: skip


def alone(element: str, *lines: str, shape: Sequence[int] = (3, 40), result: str | None = None) -> str:
    """Operations of `%x`, `%y` and `%z`, which make `%out`; `@` stands for their type."""
    type = shaped(shape, element)
    given = dict.fromkeys("xyz", type)
    return graph(given, [line.replace("@", type) for line in lines], out=shaped(shape, result or element))


BYTES, NIBBLES = shaped((4, 6), "ui8"), shaped((4, 12), "ui8")
ALONE = {
    "f32": alone("f32", "%e = exp %x : @ -> @", "%out = div %e, %y : @, @ -> @"),
    "f16": alone("f16", "%s = sqrt %x : @ -> @", "%t = log %y : @ -> @", "%out = max %s, %t : @, @ -> @"),
    "bf16": alone("bf16", "%out = erf %x : @ -> @", shape=(40, 60)),
    "power": alone("f32", "%out = pow %x, %y : @, @ -> @", shape=(7,)),
    "clipped": alone("f16", "%out = clip %x, %y, %z : @, @, @ -> @"),
    "signed bytes": alone("si8", "%s = add %x, %y : @, @ -> @", "%out = div %s, %z : @, @ -> @"),
    "unsigned bytes": alone(
        "ui8",
        "%g = greater %x, %y : @, @ -> @",
        "%m = max %x, %y : @, @ -> @",
        "%d = div %m, %y : @, @ -> @",
        "%out = where %g, %d, %m : @, @, @ -> @",
    ),
    "integers": alone("si32", "%d = div %x, %y : @, @ -> @", "%m = mul %d, %z : @, @ -> @", "%out = neg %m : @ -> @"),
    "to integers": alone("f32", f"%out = convert %x : @ to {shaped((3, 40), 'si8')}", result="si8"),
    "from integers": alone("ui8", f"%out = convert %x : @ to {shaped((3, 40), 'f16')}", result="f16"),
    "integers are quantized": alone(
        "f32",
        f"%zero = convert %z : @ to {shaped((3, 40), 'si8')}",
        "%scale = exp %y : @ -> @",
        f"%out = quantizelinear %x, %scale, %zero : @, @, {shaped((3, 40), 'si8')} -> {shaped((3, 40), 'si8')}",
        result="si8",
    ),
    "nibbles": graph(
        {"x": BYTES, "scale": shaped((4, 12), "f16")},
        [
            f"%u = unpack %x {{axis = 1 : i64}} : {BYTES} -> {NIBBLES}",
            f"%out = dequantizelinear %u, %scale : {NIBBLES}, {shaped((4, 12), 'f16')} -> {shaped((4, 12), 'f16')}",
        ],
        out=shaped((4, 12), "f16"),
    ),
    "a scalar": graph({"x": "<f32>"}, ["%out = exp %x : <f32> -> <f32>"], out="<f32>"),
    "a copy": graph({"x": Q}, [f"%out = transpose %x {{permutation = [0, 2, 1, 3]}} : {Q} -> {TURNED}"], out=TURNED),
    "nothing at all": graph({"x": Q}, [], x=Q),
    "returned twice": graph({"x": Q}, [f"%y = relu %x : {Q} -> {Q}"], y=Q)
    .replace(f") -> (!migraphx.shaped{Q}", f") -> (!migraphx.shaped{Q}, !migraphx.shaped{Q}")
    .replace(f"return %y : !migraphx.shaped{Q}", f"return %y, %y : !migraphx.shaped{Q}, !migraphx.shaped{Q}"),
    "a constant": graph({"x": Q}, ["%out = literal(dense<[1.0, 2.0, 3.0]> : tensor<3xf16>) : <3xf16, 1>"],
                        out="<3xf16, 1>"),
    "a constant everywhere": graph({"x": Q}, [f"%out = literal(dense<1.5> : tensor<1xf16>) : {Q}"], out=Q),
    "strides": graph(
        {"x": "<4x3x5xf32, 1x0x6>"},
        [
            "%t = transpose %x {permutation = [1, 0, 2]} : <4x3x5xf32, 1x0x6> -> <3x4x5xf32, 0x1x6>",
            "%out = exp %t : <3x4x5xf32, 0x1x6> -> <3x4x5xf32, 5x15x1>",
        ],
        out="<3x4x5xf32, 5x15x1>",
    ),
}  # fmt: skip
CASES = {**AROUND_ATTENTION, **ALONE}


@pytest.mark.parametrize("name", CASES)
def test_every_level_computes_what_the_graph_says(name: str) -> None:
    report = run(parse(CASES[name]), level=LEVELS, seed=len(name), check=True)
    assert report.ok, report.as_json()
    assert list(report.levels) == [level.value for level in LEVELS]


def test_values_at_the_edges() -> None:
    """NaN, infinities and what no integer holds: float to integer saturates, a division by 0 is 0."""
    x = np.array([np.nan, np.inf, -np.inf, 127.5, -128.5, 2.5, -0.0, 300.0], np.float32)
    report = run(parse(alone("f32", f"%out = convert %x : @ to {shaped((8,), 'si8')}", shape=(8,), result="si8")),
                 {"x": x, "y": x, "z": x}, level=LEVELS, check=True)  # fmt: skip
    assert report.ok, report.as_json()
    for values in report.arrays().values():
        assert values.reshape(-1).astype(np.int8).tolist() == [0, 127, -128, 127, -128, 2, 0, 127]
    numbers = np.array([7, -7, -128, 5], np.int8), np.array([0, 2, -1, 0], np.int8)
    report = run(parse(alone("si8", "%out = div %x, %y : @, @ -> @", shape=(4,))),
                 dict(zip("xyz", (*numbers, numbers[0]), strict=True)), level=LEVELS, check=True)  # fmt: skip
    assert report.ok, report.as_json()
    for values in report.arrays().values():
        assert values.reshape(-1).astype(np.int8).tolist() == [0, -3, -128, 0]


def test_a_wrong_kernel_is_noticed() -> None:
    """One wrong operation, in one kernel of two, at one level."""

    def spoil(module: ModuleOp, level: Level) -> None:
        if level is Level.TILE:
            (op,) = [op for op in module.walk() if isinstance(op, TanhOp)]
            op.result.replace_all_uses_with(op.operand)
            op.detach()

    report = run(parse(AROUND_ATTENTION["between two attentions"]), level=LEVELS, seed=0, check=True, edit=spoil)
    assert not report.ok
    assert [name for name, level in report.levels.items() if not level.ok] == ["tile"]


@pytest.mark.parametrize(("element", "name"), [("si8", "add"), ("f32", "mul"), ("f16", "sub")])
def test_elements_that_are_not_written_are_noticed(element: str, name: str) -> None:
    def shorten(module: ModuleOp, level: Level) -> None:
        if level is Level.DEVICE:
            [op for op in module.walk() if isinstance(op, StoreOp)][-1].detach()

    text = alone(element, f"%out = {name} %x, %y : @, @ -> @")
    report = run(parse(text), level=LEVELS, seed=0, check=True, edit=shorten)
    assert not report.levels["device"].ok
    assert report.levels["tile"].ok


@pytest.mark.parametrize("shape", [(1,), (63,), (64,), (65,), (1031,), (5, 1, 7), (2, 256)])
@pytest.mark.parametrize("element", ["f16", "si8"])
def test_lengths(shape: Sequence[int], element: str) -> None:
    report = run(parse(alone(element, "%out = add %x, %y : @, @ -> @", shape=shape)), level=LEVELS, seed=1, check=True)
    assert report.ok, report.as_json()


@st.composite
def views(draw: st.DrawFn) -> str:
    """Products and sums of tensors that lie in memory in any order, broadcast and sliced."""
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    rank = len(shape)

    def strides(broadcast: bool) -> str:
        order, place, found = draw(st.permutations(range(rank))), 1, [0] * rank
        for dim in order:
            if broadcast and draw(st.integers(0, 3)) == 0:
                continue
            found[dim] = place
            place *= shape[dim] + (draw(st.integers(0, 2)) if broadcast else 0)
        return "x".join(map(str, found))

    element = draw(st.sampled_from(["f16", "f32", "bf16", "si8", "ui8", "si32"]))
    sizes = "x".join(map(str, shape))
    x, y, out = (f"<{sizes}x{element}, {strides(i < 2)}>" for i in range(3))
    return graph({"x": x, "y": y}, [f"%m = mul %x, %y : {x}, {y} -> {x}", f"%out = add %m, %y : {x}, {y} -> {out}"],
                 out=out)  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(views())
def test_any_strides(text: str) -> None:
    report = run(parse(text), level=LEVELS, seed=2, check=True)
    assert report.ok, report.as_json()


def test_kernels_and_their_order() -> None:
    module = lower(parse(AROUND_ATTENTION["before and after, used twice"]), Level.GRIDWISE)
    kernels = [op.name for function in module.ops if is_kernel(function) for op in function.walk()
               if op.name in ("linalg.generic", "rock.gridwise_attention_accel")]  # fmt: skip
    assert kernels == [*["linalg.generic"] * 3, "rock.gridwise_attention_accel", "linalg.generic"]


def floats(seed: int) -> np.ndarray[Any, Any]:
    """Floats of every size, and those that functions stumble over."""
    rng = np.random.default_rng(seed)
    special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        np.inf,
        -np.inf,
        np.nan,
        0.5,
        -0.5,
        2.0,
        3.0,
        -3.0,
        1e-45,
        -1e-45,
        3e38,
        16777217.0,
    ]
    bits = rng.integers(0, 1 << 32, 512, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = rng.standard_normal(512) * 4
    pairs = np.repeat(special, 16) if seed % 2 else np.tile(special, 16)
    bits[np.isnan(bits)] = np.nan  # no signalling ones, of which NumPy warns
    return np.concatenate((pairs.astype(np.float32), bits, near.astype(np.float32)))


OVERFLOWS = {
    "exp": lambda x, y: np.exp(x),
    "sigmoid": lambda x, y: np.exp(-x),
    "recip": lambda x, y: 1 / x,
    "pow": np.power,
}
DEFINED = ("tanh", "erf", "log", "sqrt", "rsqrt", "floor", "ceil")


@pytest.mark.parametrize("name", [*DEFINED, *OVERFLOWS])
def test_functions(name: str) -> None:
    """At every level within its bounds, where the result is one that f32 has."""
    x, y = floats(1), floats(2)
    if name in ("log", "sqrt", "rsqrt"):
        x = np.abs(x)
    if name in OVERFLOWS:
        with np.errstate(all="ignore"):
            size = np.abs(OVERFLOWS[name](x.astype(np.float64), y.astype(np.float64)))
        x[np.isfinite(size) & (size > 3e38)] = 1.0
    operands, types = ("%x, %y", "@, @") if name == "pow" else ("%x", "@")
    text = alone("f32", f"%out = {name} {operands} : {types} -> @", shape=(len(x),))
    report = run(parse(text), {"x": x, "y": y, "z": y}, level=LEVELS, check=True)
    assert report.ok, report.as_json()
