// RUN: XPAGED_ROUNDTRIP
// RUN: XPAGED_GENERIC_ROUNDTRIP

#map = affine_map<(d0, d1, d2) -> ((d0 * 4 + d1) * 8 + d2)>
#rows = #rock.transform_map<#map by [<Unmerge{1, 4, 8} ["g", "s", "d"] at [0, 1, 2] -> ["raw"] at [0]>] bounds = [1, 4, 8] -> [32]>

// CHECK: #[[MAP:.*]] = affine_map<(d0, d1, d2) -> (d0 * 32 + d1 * 8 + d2)>
// CHECK-NEXT: #[[ROWS:.*]] = #rock.transform_map<#[[MAP]] by [<Unmerge{1, 4, 8} ["g", "s", "d"] at [0, 1, 2] -> ["raw"] at [0]>] bounds = [1, 4, 8] -> [32]>

// CHECK: func.func @paged
func.func @paged(%q: memref<32xf16>, %t: memref<1x2x1xi64>, %last: memref<1xi32>, %lse: memref<1x4xf32>, %bias: memref<1x4x4xf16>, %o: memref<1x4x8xf16>) attributes {rock.kernel, arch = "gfx942"} {
  // CHECK: %[[Q:.*]] = rock.transform %{{.*}} by #[[ROWS]] : memref<32xf16> to memref<1x4x8xf16>
  %0 = rock.transform %q by #rows : memref<32xf16> to memref<1x4x8xf16>
  // CHECK: %[[PAGES:.*]] = rock.deref %{{.*}} : memref<1x2x1xi64> -> memref<1x2x16xf16>
  %pages = rock.deref %t : memref<1x2x1xi64> -> memref<1x2x16xf16>
  // A map that is written in place, and one of several kinds.
  %1 = rock.transform %pages by <affine_map<(d0, d1) -> (d0, d1 floordiv 16, d1 mod 16)> by [<PassThrough ["b"] at [0] -> ["b"] at [0]>, <Merge{2, 16} ["n"] at [1] -> ["p", "o"] at [1, 2]>] bounds = [1, 32] -> [1, 2, 16]> : memref<1x2x16xf16> to memref<1x32xf16>
  %2 = rock.transform %1 by <affine_map<(d0, d1, d2) -> (d0, d1 * 8 + d2)> by [<PassThrough ["b"] at [0] -> ["b"] at [0]>, <Unmerge{4, 8} ["s", "d"] at [1, 2] -> ["n"] at [1]>] bounds = [1, 4, 8] -> [1, 32]> : memref<1x32xf16> to memref<1x4x8xf16>
  // CHECK: rock.attention{
  // CHECK-NEXT: qk = %[[Q]] * tr %[[K:.*]] : memref<1x4x8xf16>, memref<1x4x8xf16>
  // CHECK-NEXT: keyAddresses = (%[[PAGES]] : memref<1x2x16xf16>)
  // CHECK-NEXT: valueAddresses = (%[[PAGES]] : memref<1x2x16xf16>)
  // CHECK-NEXT: lastValidKVIndex = (%{{.*}} : memref<1xi32>)
  // CHECK-NEXT: prefixOffset = (%{{.*}} : memref<1xi32>)
  // CHECK-NEXT: causal
  // CHECK-NEXT: slidingWindowLookBack = 2
  // CHECK-NEXT: lse = %{{.*}} : memref<1x4xf32>
  // CHECK-NEXT: qk = elementwise otherIns(%{{.*}} : memref<1x4x4xf16>) {
  // CHECK-NEXT: ^bb0(%{{.*}}: f32, %{{.*}}: f16):
  // CHECK: rock.yield %{{.*}} : f32
  // CHECK: %{{.*}} = softmax(qk) * %[[K]] : memref<1x4x8xf16> -> memref<1x4x8xf16>
  // CHECK-NEXT: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, perf_config = "attn:v3:1", splitKV = 1 : i32, storeMethod = #rock<StoreMethod set>}
  rock.attention{
    qk = %0 * tr %2 : memref<1x4x8xf16>, memref<1x4x8xf16>
    keyAddresses = (%pages : memref<1x2x16xf16>)
    valueAddresses = (%pages : memref<1x2x16xf16>)
    currentSeqLen = (%last : memref<1xi32>)
    prefixOffset = (%last : memref<1xi32>)
    causal
    slidingWindowSize = 2
    lse = %lse : memref<1x4xf32>
    qk = elementwise otherIns(%bias : memref<1x4x4xf16>) {
    ^bb0(%s: f32, %b: f16):
      %w = arith.extf %b : f16 to f32
      %r = arith.addf %s, %w : f32
      rock.yield %r : f32
    }
    %o = softmax(qk) * %2 : memref<1x4x8xf16> -> memref<1x4x8xf16>
  } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, perf_config = "attn:v3:1", splitKV = 1 : i32, storeMethod = #rock<StoreMethod set>}
  return
}

// CHECK: func.func @tensors
func.func @tensors(%q: tensor<2x4x8xf32>, %k: tensor<1x8x6xf32>, %v: tensor<1x6x8xf32>) -> tensor<2x4x8xf32> {
  // CHECK: %{{.*}}, %{{.*}} = rock.attention{
  // CHECK: softmax(qk) * %{{.*}} : tensor<1x6x8xf32>
  // CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 2 : i32} -> tensor<2x4x8xf32>, tensor<2x4xf32>
  %o, %lse = rock.attention{
    qk = %q * %k : tensor<2x4x8xf32>, tensor<1x8x6xf32>
    softmax(qk) * %v : tensor<1x6x8xf32>
  } {numHeadsKV = 1 : i32, numHeadsQ = 2 : i32} -> tensor<2x4x8xf32>, tensor<2x4xf32>
  return %o : tensor<2x4x8xf32>
}

// CHECK: func.func @older_segments
func.func @older_segments(%q: memref<1x4x8xf32>, %k: memref<1x8x6xf32>, %v: memref<1x6x8xf32>, %o: memref<1x4x8xf32>) {
  // CHECK: softmax(qk)
  "rock.attention"(%q, %k, %v, %o) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0>}> ({}) : (memref<1x4x8xf32>, memref<1x8x6xf32>, memref<1x6x8xf32>, memref<1x4x8xf32>) -> ()
  return
}

// CHECK: func.func @gridwise
func.func @gridwise(%q: memref<1x8x32xf16>, %k: memref<1x8x16xf16>, %v: memref<1x16x8xf16>, %o: memref<1x32x8xf16>) {
  // CHECK: rock.gridwise_attention_accel(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) preSoftmaxOps = {} {blockSize = 64 : i32, gridSize = 24 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, params0 = #rock.attention_params<keys_per_tile = 16, query_waves = 1, key_waves = 1, channel_chunk = 8, value_channels = 8{{[^>]*}}>, splitKV = 1 : i32} : memref<1x8x32xf16>, memref<1x8x16xf16>, memref<1x16x8xf16>, memref<1x32x8xf16>
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {
    blockSize = 64 : i32,
    gridSize = 24 : i32,
    params0 = #rock.attention_params<keys_per_tile = 16, query_waves = 1, key_waves = 1, channel_chunk = 8, value_channels = 8>,
    splitKV = 1 : i32
  } : memref<1x8x32xf16>, memref<1x8x16xf16>, memref<1x16x8xf16>, memref<1x32x8xf16>
  return
}

// The KV index told by a count, the prefix offset by a clipped length.
// CHECK: func.func @clamps
func.func @clamps(%q: tensor<1x4x8xf16>, %k: tensor<1x8x6xf16>, %v: tensor<1x6x8xf16>, %n: tensor<1xi32>) -> tensor<1x4x8xf16> {
  // CHECK: {kvIndexClamp = array<i64: -2147483648, 2147483647, -1>, numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, prefixOffsetClamp = array<i64: 0, 5, 2>}
  %o = rock.attention{
    qk = %q * %k : tensor<1x4x8xf16>, tensor<1x8x6xf16>
    lastValidKVIndex = (%n : tensor<1xi32>)
    prefixOffset = (%n : tensor<1xi32>)
    causal
    softmax(qk) * %v : tensor<1x6x8xf16>
  } {kvIndexClamp = array<i64: -2147483648, 2147483647, -1>, numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, prefixOffsetClamp = array<i64: 0, 5, 2>} -> tensor<1x4x8xf16>
  return %o : tensor<1x4x8xf16>
}

// CHECK: func.func @merge
func.func @merge(%p: memref<6x2x8xf32>, %l: memref<6x2xf32>, %o: memref<3x2x8xf16>, %e: memref<3x2xf32>) {
  // CHECK: rock.merge_attention %{{.*}}, %{{.*}} into %{{.*}}, %{{.*}} : memref<6x2x8xf32>, memref<6x2xf32> into memref<3x2x8xf16>, memref<3x2xf32>
  rock.merge_attention %p, %l into %o, %e : memref<6x2x8xf32>, memref<6x2xf32> into memref<3x2x8xf16>, memref<3x2xf32>
  // CHECK: rock.merge_attention %{{.*}}, %{{.*}} into %{{.*}} : memref<6x2x8xf32>, memref<6x2xf32> into memref<3x2x8xf16>
  rock.merge_attention %p, %l into %o : memref<6x2x8xf32>, memref<6x2xf32> into memref<3x2x8xf16>
  return
}
