"""Small HIP texts that try one thing in each branch of a switch, so that one program serves many tests."""

from collections.abc import Mapping, Sequence

from xpaged.codegen.launch import Access, Buffer, Launch, LaunchDescription

HEAD = """\
#define DEV static __attribute__((device, always_inline)) inline
#define LDS __attribute__((shared, aligned(16))) static
typedef unsigned u32;
typedef unsigned long long u64;
typedef _Float16 f16;
typedef short bf16;
typedef f16 f16x4 __attribute__((ext_vector_type(4)));
typedef bf16 bf16x4 __attribute__((ext_vector_type(4)));
typedef float f32x4 __attribute__((ext_vector_type(4)));
#if __has_builtin(__builtin_amdgcn_exp2f) && !__has_builtin(__builtin_amdgcn_unheard_of)
#define NEWEST 1
#else
#define NEWEST 0
#endif
DEV void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
__attribute__((noinline)) int eat_the_stack(int x) {
  volatile char big[300000];
  big[x & 7] = 0;
  return big[0];
}

"""
LANES = 128
Spec = tuple[str, int, Access]
_BYTES = {"i32": 4, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}


def switch(cases: Mapping[str, str], parameters: Sequence[str], body: str = "", lanes: int = LANES) -> str:
    """A text whose kernel `probe` has `parameters` and does `body`, then the statements of case number `which`."""
    branches = "\n".join(
        f"    case {i}: {{ {text} break; }}  // {name}" for i, (name, text) in enumerate(cases.items())
    )
    return f"""{HEAD}extern "C" __attribute__((global, amdgpu_flat_work_group_size({lanes}, {lanes})))
void probe({", ".join(parameters)}) {{
  const int thread = __builtin_amdgcn_workitem_id_x();
  const int lane = thread % 64, wave = thread / 64, group = __builtin_amdgcn_workgroup_id_x();

  // ---- what is tried ---------------------------------------------------------------------------- probe.mlir:7:3
{body}
  switch (which) {{
{branches}
  }}
}}
"""


def describe(buffers: Mapping[str, Spec], *, grid: int = 1, lanes: int = LANES, lds: int = 0) -> LaunchDescription:
    """How `probe` is launched: each buffer has an element type, a number of elements (0: a scalar) and an access."""
    made = tuple(
        Buffer(name, "buffer" if n else "scalar", dtype, (n,) if n else (), max(n, 1) * _BYTES[dtype], access)
        for name, (dtype, n, access) in buffers.items()
    )
    launch = Launch("probe", "probe.gfx942.hsaco", (grid, 1, 1), (lanes, 1, 1), lds, tuple(buffers))
    return LaunchDescription(made, (launch,))
