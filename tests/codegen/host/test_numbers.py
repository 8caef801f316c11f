"""Arithmetic of kernels on the CPU: functions of floats, half precision, matrix instructions."""

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.codegen.host.texts import HEAD, Spec, describe, switch
from xpaged.arch.table import MatrixInstruction, get_arch
from xpaged.codegen.host import HostFault, HostKernel, build, unable

Array = npt.NDArray[Any]
pytestmark = pytest.mark.skipif(unable() is not None, reason="this machine cannot run kernels on its CPU")

# ---- functions

LANES, COUNT = 64, 1 << 14
FUNCTIONS: dict[str, tuple[str, Any]] = {
    "exp2": ("__builtin_exp2f(x)", np.exp2),
    "hardware exp2": ("__builtin_amdgcn_exp2f(x)", np.exp2),
    "exp": ("__builtin_expf(x)", np.exp),
    "log": ("__builtin_logf(x)", np.log),
    "log2": ("__builtin_log2f(x)", np.log2),
    "hardware log2": ("__builtin_amdgcn_logf(x)", np.log2),
    "log10": ("__builtin_log10f(x)", np.log10),
    "sqrt": ("__builtin_sqrtf(x)", np.sqrt),
    "round": ("__builtin_roundf(x)", lambda x: np.copysign(np.trunc(np.abs(x) + 0.5), x)),
    "rint": ("__builtin_rintf(x)", np.rint),
    "floor": ("__builtin_floorf(x)", np.floor),
    "ceil": ("__builtin_ceilf(x)", np.ceil),
    "trunc": ("__builtin_truncf(x)", np.trunc),
    "abs": ("__builtin_fabsf(x)", np.abs),
    "max": ("__builtin_fmaxf(x, z[i])", None),
    "min": ("__builtin_fminf(x, z[i])", None),
    "fma": ("__builtin_fmaf(x, y[i], z[i])", None),
    "to half": ("(float)(f16)x", lambda x: x.astype(np.float16)),
    "to half, from double": ("(float)(f16)((double)x + (double)z[i])", None),
    "vectors to half": ("({ f32x4 v = {x, x, x, x}; (float)__builtin_convertvector(v, f16x4)[i & 3]; })", None),
}
PARAMETERS = (*(f"const float* __restrict__ {name}" for name in "ayz"), "float* __restrict__ out", "int which")


@pytest.fixture(scope="module", params=["what this CPU has", "no half precision"])
def functions(request: pytest.FixtureRequest) -> Any:
    cases = {name: f"out[i] = {text};" for name, (text, _) in FUNCTIONS.items()}
    body = f"  for (int i = lane; i < {COUNT}; i += 64) {{ const float x = a[i];"
    text = switch(cases, PARAMETERS, body, LANES) + "}\n"
    reads: dict[str, Spec] = {name: ("f32", COUNT, "read") for name in "ayz"}
    launch = describe({**reads, "out": ("f32", COUNT, "write"), "which": ("i32", 0, "read")}, lanes=LANES)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "no half precision":
            patch.setattr(build, "cpu_flags", lambda: ("-msse4.1",))
        kernel = HostKernel(text, get_arch("gfx942"), launch)
    with kernel:
        yield kernel


def computed(kernel: HostKernel, name: str, *operands: Array) -> Array:
    given = dict(zip("ayz", (*operands, *operands[:1] * 3)[:3], strict=True))
    out = np.zeros(COUNT, np.float32)
    kernel.launch({**given, "out": out, "which": np.array(list(FUNCTIONS).index(name), np.int32)})
    return out


def floats(seed: int = 0) -> Array:
    """Floats of every size, and those that functions stumble over."""
    rng = np.random.default_rng(seed)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 128.0, 127.99999, -126.0, -149.0, -149.5, -151.0, 1e-45]
    special += [0.5, -0.5, 0.49999997, 1.5, 2.5, 65519.0, 65519.996, 65520.0, 5.96e-8, 2.98e-8, 2.980233e-8, 8388609.0]
    bits = rng.integers(0, 1 << 32, COUNT // 4, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = rng.standard_normal(COUNT // 4) * 30
    steps = 1 + 2.0**-11 * rng.integers(0, 3, COUNT // 4)
    halves = rng.standard_normal(COUNT // 4).astype(np.float16).astype(np.float64) * steps
    small = 2.0 ** rng.uniform(-26, -13, COUNT - len(special) - 3 * (COUNT // 4))
    with np.errstate(all="ignore"):
        return np.concatenate((special, bits, near, halves, small)).astype(np.float32)


@pytest.mark.parametrize("name", [name for name, (_, function) in FUNCTIONS.items() if function is not None])
def test_functions_are_right_to_half_a_unit_in_the_last_place(functions: HostKernel, name: str) -> None:
    x = floats()
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name][1](x.astype(np.float64)).astype(np.float64)
        if name == "to half":
            exact = x.astype(np.float16).astype(np.float64)
        found = computed(functions, name, x).astype(np.float64)
        nearest = exact.astype(np.float32).astype(np.float64)
        unit = np.spacing(np.abs(nearest).astype(np.float32)).astype(np.float64)
        wrong = ~((found == nearest) | (np.isnan(found) & np.isnan(nearest)) | (np.abs(found - exact) <= 0.502 * unit))
    assert not wrong.any(), [(x[i], found[i], exact[i]) for i in np.flatnonzero(wrong)[:5]]


def test_the_larger_and_the_smaller_ignore_nan(functions: HostKernel) -> None:
    x, z = floats(), floats(1)
    for name, function in (("max", np.fmax), ("min", np.fmin)):
        np.testing.assert_array_equal(computed(functions, name, x, x, z), function(x, z))


def test_vectors_are_narrowed_like_scalars(functions: HostKernel) -> None:
    x = floats()
    np.testing.assert_array_equal(computed(functions, "vectors to half", x), computed(functions, "to half", x))


def test_doubles_are_narrowed_in_one_rounding(functions: HostKernel) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(COUNT).astype(np.float16).astype(np.float32)
    half_unit = np.spacing(np.abs(x).astype(np.float16)).astype(np.float32) / 2
    z = (half_unit * rng.choice([1, -1], COUNT) * (1 + rng.integers(-1, 2, COUNT) * 2.0**-20)).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = (x.astype(np.float64) + z.astype(np.float64)).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(computed(functions, "to half, from double", x, x, z), expected)


def test_a_product_and_a_sum_are_rounded_once(functions: HostKernel) -> None:
    rng = np.random.default_rng(0)
    x, y, _ = np.split(rng.standard_normal(3 * COUNT).astype(np.float32), 3)
    z = (-(x * y) * rng.choice([1, 1, 1 + 2.0**-23, 2.0**-24, -(2.0**-25), 2.0**24], COUNT)).astype(np.float32)
    found = computed(functions, "fma", x, y, z)
    for i in range(0, COUNT, 8):
        exact = Fraction(float(x[i])) * Fraction(float(y[i])) + Fraction(float(z[i]))
        near = (np.nextafter(found[i], side) for side in (np.float32(-np.inf), np.float32(np.inf)))
        distance = abs(Fraction(float(found[i])) - exact)
        assert all(distance <= abs(Fraction(float(other)) - exact) for other in near), (x[i], y[i], z[i], found[i])


# ---- matrix instructions

MATRIX_BUFFERS: dict[str, Spec] = {
    **{"a": ("i32", 256, "read"), "b": ("i32", 256, "read")},
    **{"out": ("i32", 1024, "read_write"), "which": ("i32", 0, "read")},
}
SCALARS = {"f16": "f16", "bf16": "bf16", "f32": "float", "i8": "signed char", "i32": "int"}
PACKED = {
    **{"int": "int P", "i64": "long long P", "hw_bf16x8": "bf16 P __attribute__((ext_vector_type(8)))"},
    **{f"i32x{n}": f"int P __attribute__((ext_vector_type({n})))" for n in (2, 4)},
}
TRIED = ["gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1200"]


def matrix_text(instructions: list[MatrixInstruction]) -> str:
    """A kernel for each instruction, in the branch of its number: lane l reads and writes its own values."""
    cases = {}
    for i in instructions:
        vector = "" if i.elements == 1 else f" __attribute__((ext_vector_type({i.elements})))"
        operand = f"{SCALARS[i.operand]} P{vector}" if i.packed is None else PACKED[i.packed]
        inner = i.call.format(a="y", b="x", c="out[lane]")
        outer = i.call.format(a="x", b="y", c=f"{i.builtin}({inner})")
        cases[i.name] = (
            f"typedef {operand}; typedef {SCALARS[i.accumulator]} D __attribute__((ext_vector_type({i.registers}))); "
            f"D* out = (D*)d; const P x = ((P*)a)[lane], y = ((P*)b)[lane]; out[lane] = {i.builtin}({outer});"
        )
    lanes = instructions[0].lanes
    return switch(cases, ["void* a", "void* b", "void* d", "int which"], lanes=lanes)


@pytest.mark.parametrize("arch", TRIED)
def test_matrix_instructions_multiply_as_published(arch: str) -> None:
    instructions = list(get_arch(arch).matrix)
    rng, lanes = np.random.default_rng(0), instructions[0].lanes
    launch = describe(MATRIX_BUFFERS, lanes=lanes)
    with HostKernel(matrix_text(instructions), get_arch(arch), launch) as kernel:
        for number, i in enumerate(instructions):
            values = [rng.integers(-8, 9, (lanes, i.elements)).astype(np.float32) for _ in range(2)]
            if i.copies > 1:
                values = [np.concatenate([v[:16]] * 2) for v in values]
            start = rng.integers(-8, 9, (lanes, i.registers))
            raw = [np.zeros(1024, np.uint8) for _ in values]
            for to, of in zip(raw, values, strict=True):
                stored = narrowed(of, i.operand)
                to[: stored.nbytes] = stored.reshape(-1).view(np.uint8)
            out = np.zeros(1024, np.float32 if i.accumulator == "f32" else np.int32)
            out[: start.size] = start.reshape(-1)
            words = {"a": raw[0].view(np.int32), "b": raw[1].view(np.int32), "out": out.view(np.int32)}
            kernel.launch({**words, "which": np.array(number, np.int32)})
            expected = expected_product(i, values[0], values[1], start)
            np.testing.assert_array_equal(out[: start.size].reshape(lanes, i.registers), expected, i.name)


def narrowed(values: Array, operand: str) -> Array:
    if operand == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype({"f16": np.float16, "f32": np.float32, "i8": np.int8}[operand])


def expected_product(i: MatrixInstruction, x: Array, y: Array, start: Array) -> Array:
    """Products as AMD's calculator lays them out: with n rows, row l % n and index elements * (l / n) + e of the
    operands, column l % n of the sums and row registers * (l / 16) + r of 16, 8 * (r / 4) + 4 * (l / 32) + r % 4 of 32.
    RDNA3: index e, row 2 * r + l / 16."""
    n, lane = i.m, np.arange(len(x))
    group, rdna3 = lane // n, i.builtin.endswith("_w32")

    def matrix(values: Array) -> Array:
        made = np.zeros((n, i.k))
        for e in range(i.elements):
            made[lane % n, e if rdna3 else i.elements * group + e] = values[:, e]
        return made

    a, b = matrix(x), matrix(y)
    sums = np.zeros((n, n))
    if n == 32:
        rows = [8 * (r // 4) + 4 * group + r % 4 for r in range(i.registers)]
    else:
        rows = [2 * r + group if rdna3 else i.registers * group + r for r in range(i.registers)]
    for r, row in enumerate(rows):
        sums[row, lane % n] = start[:, r]
    sums += b @ a.T + a @ b.T
    return np.stack([sums[row, lane % n] for row in rows], axis=1)


def test_lanes_that_must_hold_the_same_operand_are_compared() -> None:
    instructions = list(get_arch("gfx1100").matrix[:1])
    words = {"a": np.zeros(256, np.int32), "b": np.zeros(256, np.int32), "out": np.zeros(1024, np.int32)}
    words["b"].view(np.float16)[16 * 18 + 3] = 1.0  # of lane 18, not of lane 2
    with HostKernel(matrix_text(instructions), get_arch("gfx1100"), describe(MATRIX_BUFFERS, lanes=32)) as kernel:
        with pytest.raises(HostFault, match="wmma_f32_16x16x16_f16_w32 with the copies does not have the operand 18"):
            kernel.launch({**words, "which": np.array(0, np.int32)})


def test_operands_that_matrix_instructions_ignore_must_be_0() -> None:
    text = matrix_text(list(get_arch("gfx942").matrix[:1])).replace(", 0, 0, 0), 0, 0, 0)", ", 0, 0, 0), 0, 0, 4)")
    assert HEAD in text
    launch = describe(MATRIX_BUFFERS, lanes=64)
    zeros = {"a": np.zeros(256, np.int32), "b": np.zeros(256, np.int32), "out": np.zeros(1024, np.int32)}
    with HostKernel(text, get_arch("gfx942"), launch) as kernel:
        with pytest.raises(HostFault, match="mfma_f32_16x16x16f16 does not have the operand 4"):
            kernel.launch({**zeros, "which": np.array(0, np.int32)})
