// Arithmetic that clang calls a library for: functions of floats, half precision, copies of memory.
//
// Functions are computed in double precision and rounded once, so that they are right to 0.501 units in the last place.
#pragma once
#include "system.h"

namespace xpaged_host {

template <class To, class From> inline To bits_of(From x) { return __builtin_bit_cast(To, x); }

// 2^x, -1080 < x < 1024
inline double exp2_of(double x) {
  const double whole = __builtin_rint(x), t = (x - whole) * 0.69314718055994530942;  // |t| < 0.347
  double sum = 1.0 / 479001600.0;
  const double terms[] = {1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0,
                          1.0 / 120.0,      1.0 / 24.0,      1.0 / 6.0,      0.5,           1.0,          1.0};
  for (double term : terms) sum = sum * t + term;
  return sum * bits_of<double>((u64)(1023 + (i64)whole) << 52);
}

inline float exp2_in_float(double x) {
  if (x != x) return (float)x;
  if (x >= 128.0) return __builtin_inff();
  if (x < -151.0) return 0.0f;
  return (float)exp2_of(x);
}

// log2(x), x finite and above 0
inline double log2_of(double x) {
  u64 raw = bits_of<u64>(x);
  i64 exponent = (i64)(raw >> 52) - 1023;
  double m = bits_of<double>((raw & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0), square = s * s;  // |s| < 0.172
  double sum = 1.0 / 23.0;
  for (int i = 21; i > 0; i -= 2) sum = sum * square + 1.0 / i;
  return (double)exponent + 2.0 * s * sum * 1.44269504088896340736;
}

inline float log_in_float(float x, double scale) {
  if (x != x || x == __builtin_inff()) return x;
  if (x == 0.0f) return -__builtin_inff();
  if (x < 0.0f) return __builtin_nanf("");
  return (float)(log2_of((double)x) * scale);
}

// x to half precision, to the nearest, ties to even: in one rounding.
inline u16 half_of(double x) {
  const u64 raw = bits_of<u64>(x);
  const u16 sign = (u16)(raw >> 48 & 0x8000);
  const u64 magnitude = raw & ~(1ull << 63);
  if (magnitude > 0x7ff0000000000000ull) return sign | 0x7e00 | (u16)(raw >> 42 & 0x1ff);  // a quiet NaN
  if (magnitude >= 0x40effe0000000000ull) return sign | 0x7c00;                            // from 65520 on
  const i64 exponent = (i64)(magnitude >> 52) - 1023;
  if (exponent < -25) return sign;
  const u64 mantissa = (magnitude & 0xfffffffffffffull) | 1ull << 52;
  const i64 drop = exponent < -14 ? 42 + (-14 - exponent) : 42;
  u64 kept = mantissa >> drop;
  const u64 rest = mantissa & ((1ull << drop) - 1), tie = 1ull << (drop - 1);
  kept += rest > tie || (rest == tie && (kept & 1));
  return sign | (u16)(exponent < -14 ? kept : kept + ((u64)(exponent + 14) << 10));
}

inline float of_half(u16 h) {
  const u32 sign = (u32)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
  if (exponent == 31) return bits_of<float>(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000u : 0u));
  if (exponent == 0) {
    const float magnitude = (float)mantissa * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return bits_of<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

}  // namespace xpaged_host

#define XPAGED_LIBRARY extern "C" __attribute__((weak, used))

XPAGED_LIBRARY float exp2f(float x) { return xpaged_host::exp2_in_float((double)x); }
XPAGED_LIBRARY float expf(float x) { return xpaged_host::exp2_in_float((double)x * 1.44269504088896340736); }
XPAGED_LIBRARY float log2f(float x) { return xpaged_host::log_in_float(x, 1.0); }
XPAGED_LIBRARY float logf(float x) { return xpaged_host::log_in_float(x, 0.69314718055994530942); }
XPAGED_LIBRARY float log10f(float x) { return xpaged_host::log_in_float(x, 0.30102999566398119521); }

// To the nearest integer, ties away from zero.
XPAGED_LIBRARY float roundf(float x) {
  const float t = __builtin_truncf(x), rest = __builtin_fabsf(x - t);
  return rest >= 0.5f ? t + __builtin_copysignf(1.0f, x) : t;
}

// a * b + c in one rounding: the product is exact in double precision, and the sum is rounded to odd there.
XPAGED_LIBRARY float fmaf(float a, float b, float c) {
  const double product = (double)a * (double)b, sum = product + (double)c;
  const double back = sum - product, lost = (product - (sum - back)) + ((double)c - back);
  const xpaged_host::u64 raw = __builtin_bit_cast(xpaged_host::u64, sum);
  if (!(lost > 0.0 || lost < 0.0) || (raw & 1)) return (float)sum;  // exact, infinite, NaN, or odd
  const bool away = (lost > 0.0) == (sum > 0.0);
  return (float)__builtin_bit_cast(double, away ? raw + 1 : raw - 1);
}

// Half precision where the CPU has no instructions for it; in the registers that the compiler expects.
#ifndef __F16C__
XPAGED_LIBRARY float __extendhfsf2(_Float16 x) {
  return xpaged_host::of_half(__builtin_bit_cast(xpaged_host::u16, x));
}
XPAGED_LIBRARY _Float16 __truncsfhf2(float x) { return __builtin_bit_cast(_Float16, xpaged_host::half_of((double)x)); }
#endif
XPAGED_LIBRARY _Float16 __truncdfhf2(double x) { return __builtin_bit_cast(_Float16, xpaged_host::half_of(x)); }

XPAGED_LIBRARY void* memset(void* to, int value, unsigned long bytes) {
  void* at = to;
  asm volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
  return to;
}
XPAGED_LIBRARY void* memcpy(void* to, const void* from, unsigned long bytes) {
  void* at = to;
  asm volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes) : : "memory");
  return to;
}
XPAGED_LIBRARY int memcmp(const void* left, const void* right, unsigned long bytes) {
  const volatile xpaged_host::u8 *a = (const xpaged_host::u8*)left, *b = (const xpaged_host::u8*)right;
  for (unsigned long i = 0; i < bytes; ++i) {
    const int x = a[i], y = b[i];
    if (x != y) return x - y;
  }
  return 0;
}
XPAGED_LIBRARY void* memmove(void* to, const void* from, unsigned long bytes) {
  if ((unsigned long)to - (unsigned long)from >= bytes) return memcpy(to, from, bytes);
  for (unsigned long i = bytes; i-- > 0;) ((volatile char*)to)[i] = ((const char*)from)[i];
  return to;
}
