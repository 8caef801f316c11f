// RUN: xpaged gen --operation attention -seq_len_q 1 -seq_len_k 64 -head_dim_qk 64 -head_dim_v 64 -t i8 > %t.i8.mlir
// RUN: rm -rf %t && xpaged compile %t.i8.mlir --arch gfx942,gfx1100 --emit hip -o %t
// RUN: cat %t/rock_attention.gfx942.hip | filecheck %s --check-prefix=I8
// RUN: cat %t/rock_attention.gfx1100.hip | filecheck %s --check-prefix=RDNA3
// RUN: xpaged gen --operation attention -seq_len_q 1 -seq_len_k 64 -head_dim_qk 64 -head_dim_v 64 -t bf16 -softmax_dtype f16 > %t.bf16.mlir
// RUN: xpaged compile %t.bf16.mlir --arch gfx90a --emit hip -o %t
// RUN: cat %t/rock_attention.gfx90a.hip | filecheck %s --check-prefix=BF16

// i8 scores are summed in i32, dequantized in f32, and multiply f16 values.
// I8: i8 and f16.
// I8: DEV i32x4 mma(i8x8 a, i8x8 b, i32x4 c)
// I8: __builtin_amdgcn_mfma_i32_16x16x32_i8(bits<i64>(a), bits<i64>(b), c, 0, 0, 0)
// I8: DEV f32x4 mma(f16x4 a, f16x4 b, f32x4 c) { return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0); }
// I8: const i8* __restrict__ q, const i8* __restrict__ k, const f16* __restrict__ v
// I8: const i8* __restrict__ quant_bias, const f16* __restrict__ quant_scale, f16* __restrict__ out

// RDNA3 takes all keys of P in both halves of a wave of 32 lanes.
// RDNA3: block {{[0-9]+}} x 1 x 1
// RDNA3: DEV f16x8 lane_xor16(f16x8 x)
// RDNA3: __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, c)
// RDNA3: % 32;
// RDNA3: lane_xor16(p_packed
// RDNA3: join(upper_half ?

// bf16 is rounded in pairs; scores are rounded to the softmax type and widened again.
// BF16: Scores are rounded to f16 before the masks and the softmax.
// BF16: DEV u32 pair_number(float a, float b) { return __builtin_amdgcn_perm(
// BF16: __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0)
// BF16: convert<f32x4>(convert<f16x4>(
// BF16: narrow_number(
