// The builtins of AMD GPUs that emitted kernels use, for lanes that run on a CPU.
//
// Operations of a wave are functions that the compiler neither inlines nor looks into: the address that they return to
// tells which one of the program's operations a lane waits at.
#pragma once
#include "lanes.h"

#define XPAGED_HERE(name) \
  xpaged_host::Place { name, (xpaged_host::u64)__builtin_return_address(0) }
#define XPAGED_COLLECTIVE extern "C" __attribute__((weak, used, noinline, convergent, nomerge))
#define XPAGED_PURE static inline __attribute__((always_inline, unused))

namespace xpaged_host {

// An operand that the instruction does not have, or that this side does not know.
[[noreturn]] inline void refuse(Place here, i64 value) {
  report->group = state.group;
  report->thread = state.thread;
  report->pc = here.pc;
  report->detail = (u64)value;
  stop(OPERAND, here.what);
}

struct Words {
  int value[WAVE];
};

// `value` of all lanes, once all are here.
inline Words& gather(Place here, int value) {
  Words& words = operands<Words>();
  words.value[lane()] = value;
  meet(here);
  return words;
}

// The lane that lane `i` reads under a DPP control; -1: none. Within rows of 16 lanes.
inline int dpp_source(Place here, int control, int i) {
  const int row = i & ~15, column = i & 15;
  if (control >= 0 && control <= 0xff) return (i & ~3) | (control >> 2 * (i & 3) & 3);
  const int by = control & 15;
  switch (control >> 4) {
    case 0x10: return by == 0 || column + by > 15 ? -1 : i + by;
    case 0x11: return by == 0 || column < by ? -1 : i - by;
    case 0x12: return row | ((column - by) & 15);
  }
  if (control == 0x140) return i ^ 15;
  if (control == 0x141) return i ^ 7;
  refuse(here, control);
}

// The lane that lane `i` reads under a swizzle pattern. Within 32 lanes.
inline int swizzle_source(Place here, int pattern, int i) {
  if (pattern & 0x8000) {
    if (pattern & 0x7f00) refuse(here, pattern);  // rotations and butterflies, which not every architecture has
    return (i & ~3) | (pattern >> 2 * (i & 3) & 3);
  }
  return (i & ~31) | (((i & pattern & 31) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31));
}

// ---- matrix instructions: which element of a matrix each lane holds is given by tables made from the table of
// architectures: `A[lane * elements + e]` is row * k + index, `B` is index * n + column, `D[lane * registers + r]` is
// row * n + column.

inline float widened(float x) { return x; }
inline float widened(_Float16 x) { return (float)x; }
inline float widened(short bf16) { return bits_of<float>((u32)(u16)bf16 << 16); }
inline int widened(signed char x) { return x; }

template <int M, int N, int K, int ELEMENTS, int REGISTERS, int COPIES, class Operand, class Sum> struct Matrices {
  Operand a[WAVE * ELEMENTS], b[WAVE * ELEMENTS];
  Sum d[WAVE * REGISTERS];

  // A lane that holds other values than the first of those that have to hold the same; -1: none.
  int differs() const {
    for (u32 i = 0; i < WAVE; ++i) {
      const u32 first = i / (M * COPIES) * (M * COPIES) + i % M;
      if (__builtin_memcmp(a + i * ELEMENTS, a + first * ELEMENTS, ELEMENTS * sizeof(Operand))) return (int)i;
      if (__builtin_memcmp(b + i * ELEMENTS, b + first * ELEMENTS, ELEMENTS * sizeof(Operand))) return (int)i;
    }
    return -1;
  }

  __attribute__((noinline)) void multiply(const u16* a_place, const u16* b_place, const u16* d_place) {
    typedef Sum Row __attribute__((ext_vector_type(N)));
    __attribute__((uninitialized)) Sum left[M * K];
    __attribute__((uninitialized)) union {
      Row rows[K];
      Sum elements[K * N];
    } right;
    __attribute__((uninitialized)) union {
      Row rows[M];
      Sum elements[M * N];
    } sums;
    for (u32 i = 0; i < WAVE * ELEMENTS; ++i) left[a_place[i]] = widened(a[i]);
    for (u32 i = 0; i < WAVE * ELEMENTS; ++i) right.elements[b_place[i]] = widened(b[i]);
    for (u32 i = 0; i < WAVE * REGISTERS; ++i) sums.elements[d_place[i]] = d[i];
    for (int m = 0; m < M; ++m) {
      Row sum = sums.rows[m];
      for (int k = 0; k < K; ++k) sum += left[m * K + k] * right.rows[k];
      sums.rows[m] = sum;
    }
    for (u32 i = 0; i < WAVE * REGISTERS; ++i) d[i] = sums.elements[d_place[i]];
  }
};

}  // namespace xpaged_host

// `PARAMETERS` are those of the builtin; `CHECK` refuses values of those that are no operands.
#define XPAGED_MATRIX(builtin, M, N, K, ELEMENTS, REGISTERS, COPIES, OPERAND, SUM, C, PARAMETERS, CHECK) \
  XPAGED_COLLECTIVE C builtin PARAMETERS {                                                               \
    using namespace xpaged_host;                                                                         \
    const Place here = XPAGED_HERE(#builtin);                                                            \
    CHECK                                                                                                \
    auto& all = operands<Matrices<M, N, K, ELEMENTS, REGISTERS, COPIES, OPERAND, SUM>>();                \
    __builtin_memcpy(&all.a[lane() * ELEMENTS], &a, sizeof a);                                           \
    __builtin_memcpy(&all.b[lane() * ELEMENTS], &b, sizeof b);                                           \
    __builtin_memcpy(&all.d[lane() * REGISTERS], &c, sizeof c);                                          \
    if (meet(here)) {                                                                                    \
      if (COPIES > 1 && all.differs() >= 0) refuse({#builtin " with the copies", here.pc}, all.differs()); \
      all.multiply(builtin##_a, builtin##_b, builtin##_d);                                               \
    }                                                                                                    \
    __builtin_memcpy(&c, &all.d[lane() * REGISTERS], sizeof c);                                          \
    return c;                                                                                            \
  }

// ---- where a lane is

XPAGED_PURE xpaged_host::u32 __builtin_amdgcn_workitem_id_x() { return xpaged_host::state.thread; }
XPAGED_PURE xpaged_host::u32 __builtin_amdgcn_workitem_id_y() { return 0; }
XPAGED_PURE xpaged_host::u32 __builtin_amdgcn_workitem_id_z() { return 0; }
XPAGED_PURE xpaged_host::u32 __builtin_amdgcn_workgroup_id_x() {
  return xpaged_host::state.group % xpaged_host::plan->grid_x;
}
XPAGED_PURE xpaged_host::u32 __builtin_amdgcn_workgroup_id_y() {
  return xpaged_host::state.group / xpaged_host::plan->grid_x % xpaged_host::plan->grid_y;
}
XPAGED_PURE xpaged_host::u32 __builtin_amdgcn_workgroup_id_z() {
  return xpaged_host::state.group / xpaged_host::plan->grid_x / xpaged_host::plan->grid_y;
}

// Of the bits of `mask` for lanes below this one, how many are set: in lanes 0..31, and in lanes 32..63.
XPAGED_PURE int __builtin_amdgcn_mbcnt_lo(unsigned mask, int more) {
  const unsigned i = xpaged_host::lane();
  return more + __builtin_popcount(i < 32 ? mask & ((1u << i) - 1) : mask);
}
XPAGED_PURE int __builtin_amdgcn_mbcnt_hi(unsigned mask, int more) {
  const unsigned i = xpaged_host::lane();
  return i < 32 ? more : more + __builtin_popcount(mask & ((1u << (i - 32)) - 1));
}

// ---- exchanges

XPAGED_COLLECTIVE int __builtin_amdgcn_readfirstlane(int value) {
  return xpaged_host::gather(XPAGED_HERE("readfirstlane"), value).value[0];
}

XPAGED_COLLECTIVE int __builtin_amdgcn_readlane(int value, int lane) {
  const xpaged_host::Place here = XPAGED_HERE("readlane");
  if (lane < 0 || lane >= (int)xpaged_host::WAVE) xpaged_host::refuse(here, lane);
  return xpaged_host::gather(here, value).value[lane];
}

XPAGED_COLLECTIVE int __builtin_amdgcn_ds_bpermute(int address, int value) {
  const xpaged_host::Place here = XPAGED_HERE("ds_bpermute");
  if (address < 0 || address >= 4 * (int)xpaged_host::WAVE || address % 4) xpaged_host::refuse(here, address);
  return xpaged_host::gather(here, value).value[address / 4];
}

XPAGED_COLLECTIVE int __builtin_amdgcn_ds_swizzle(int value, int pattern) {
  const xpaged_host::Place here = XPAGED_HERE("ds_swizzle");
  const int from = xpaged_host::swizzle_source(here, pattern, (int)xpaged_host::lane());
  return xpaged_host::gather(here, value).value[from];
}

XPAGED_COLLECTIVE int __builtin_amdgcn_update_dpp(int old, int value, int control, int rows, int banks, bool zero) {
  using namespace xpaged_host;
  const Place here = XPAGED_HERE("DPP");
  const int i = (int)lane(), from = dpp_source(here, control, i);
  const int got = from < 0 ? 0 : gather(here, value).value[from];
  if (from < 0) gather(here, value);
  if (!(rows >> i / 16 & 1) || !(banks >> i % 16 / 4 & 1)) return old;
  return from < 0 && !zero ? old : got;
}

XPAGED_COLLECTIVE int __builtin_amdgcn_mov_dpp(int value, int control, int rows, int banks, bool zero) {
  using namespace xpaged_host;
  const Place here = XPAGED_HERE("DPP");
  const int i = (int)lane(), from = dpp_source(here, control, i);
  const Words& all = gather(here, value);
  const bool written = rows >> i / 16 & 1 && banks >> i % 16 / 4 & 1 && (from >= 0 || zero);
  return !written ? -1 /* undefined */ : from < 0 ? 0 : all.value[from];
}

XPAGED_COLLECTIVE xpaged_host::u64 __builtin_amdgcn_ballot_w64(bool vote) {
  const xpaged_host::Words& all = xpaged_host::gather(XPAGED_HERE("ballot"), vote);
  xpaged_host::u64 bits = 0;
  for (unsigned i = 0; i < xpaged_host::WAVE; ++i) bits |= (xpaged_host::u64)all.value[i] << i;
  return bits;
}
XPAGED_COLLECTIVE xpaged_host::u32 __builtin_amdgcn_ballot_w32(bool vote) {
  const xpaged_host::Words& all = xpaged_host::gather(XPAGED_HERE("ballot"), vote);
  xpaged_host::u32 bits = 0;
  for (unsigned i = 0; i < 32; ++i) bits |= (xpaged_host::u32)all.value[i] << i;
  return bits;
}

// ---- order

XPAGED_COLLECTIVE void __builtin_amdgcn_wave_barrier() { xpaged_host::meet(XPAGED_HERE("wave_barrier")); }

XPAGED_COLLECTIVE void __builtin_amdgcn_s_barrier() {
  const xpaged_host::Place here = XPAGED_HERE("s_barrier");
  if (xpaged_host::meet(here)) xpaged_host::meet_waves(here);
}

XPAGED_PURE void __builtin_amdgcn_fence(int, const char*) {}
XPAGED_PURE void __builtin_amdgcn_sched_barrier(int) {}
XPAGED_PURE void __builtin_amdgcn_s_waitcnt(int) {}
XPAGED_PURE void __builtin_amdgcn_s_setprio(int) {}

// ---- arithmetic

// The bytes that `which` names, of the eight of `high` and `low`, lowest first.
XPAGED_PURE xpaged_host::u32 __builtin_amdgcn_perm(xpaged_host::u32 high, xpaged_host::u32 low, xpaged_host::u32 which) {
  const xpaged_host::u64 bytes = (xpaged_host::u64)high << 32 | low;
  xpaged_host::u32 result = 0;
  for (int i = 0; i < 4; ++i) {
    const xpaged_host::u32 from = which >> 8 * i & 0xff;
    const xpaged_host::u32 sign = from < 12 ? (bytes >> (from % 4 * 16 + 15) & 1) * 0xff : from == 12 ? 0 : 0xff;
    result |= (from < 8 ? (xpaged_host::u32)(bytes >> 8 * from) & 0xff : sign) << 8 * i;
  }
  return result;
}
XPAGED_PURE float __builtin_amdgcn_exp2f(float x) { return exp2f(x); }
XPAGED_PURE float __builtin_amdgcn_logf(float x) { return log2f(x); }
