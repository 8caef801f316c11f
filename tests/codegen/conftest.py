"""HIP texts and compilers that several test files of the toolchain share."""

import pytest

from xpaged.codegen.toolchain import Compiler, Kind, Missing, find

MFMA_TEXT = """// D = A B on one wave: 16x16x16, f16 operands, f32 sums
typedef _Float16 f16x4 __attribute__((ext_vector_type(4)));
typedef float f32x4 __attribute__((ext_vector_type(4)));

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(64, 64)))
product(const _Float16* a, const _Float16* b, float* d) {
  const int lane = __builtin_amdgcn_workitem_id_x();
  __attribute__((shared)) static f16x4 tile[64];
  tile[lane] = ((const f16x4*)b)[lane];
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  const f32x4 zero = {0, 0, 0, 0};
  ((f32x4*)d)[lane] = __builtin_amdgcn_mfma_f32_16x16x16f16(((const f16x4*)a)[lane], tile[63 - lane], zero, 0, 0, 0);
}
"""

# An array that is indexed by a run-time value cannot live in registers.
SCRATCH_TEXT = MFMA_TEXT.replace(
    "  const f32x4 zero",
    "  volatile float spilled[32];\n"
    "  for (int i = 0; i < 32; ++i) spilled[i] = d[i];\n"
    "  d[lane + 1024] = spilled[lane & 31];\n"
    "  const f32x4 zero",
)


@pytest.fixture
def mfma_text() -> str:
    """One kernel, `product(const half* a, const half* b, float* d)`: a matrix instruction and 512 bytes of LDS."""
    return MFMA_TEXT


@pytest.fixture
def scratch_text() -> str:
    """The same kernel with an array that stays in scratch."""
    return SCRATCH_TEXT


def compiler(kind: Kind) -> Compiler:
    """The best compiler of a kind; skips the test, with the reason, when this machine has none."""
    found = next(find(kind))
    if isinstance(found, Missing):
        if kind == "bundled":
            pytest.fail(f"the bundled compiler must be there for the tests: {found.reason}")
        pytest.skip(f"{kind}: {found.reason} ({found.install})")
    return found


@pytest.fixture
def bundled() -> Compiler:
    """The compiler that pip brings."""
    return compiler("bundled")


@pytest.fixture(params=["hipcc", "clang", "bundled"])
def every_compiler(request: pytest.FixtureRequest) -> Compiler:
    """Each kind of compiler in turn."""
    return compiler(request.param)
