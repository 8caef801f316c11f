// RUN: XPAGED_ROUNDTRIP
// RUN: XPAGED_GENERIC_ROUNDTRIP

// Every attribute of rock.attention; those that rocMLIR writes and xpaged does not need are kept.

// CHECK: func.func @attributes
func.func @attributes(%q: memref<4x8x5xf16>, %k: memref<2x6x8xf16>, %v: memref<2x12x6xf16>, %o: memref<8x12x5xf16>, %lse: memref<8x5xf16>) attributes {rock.kernel, mhal.arch = "amdgcn-amd-amdhsa:gfx942:sramecc+:xnack-", block_size = 64 : i32} {
  // CHECK: rock.attention{
  // CHECK-NEXT: qk = tr %{{.*}} * tr %{{.*}} : memref<4x8x5xf16>, memref<2x6x8xf16>
  // CHECK-NEXT: causal
  // CHECK-NEXT: lse = %{{.*}} : memref<8x5xf16>
  // CHECK-NEXT: tr %{{.*}} = softmax(qk) * tr %{{.*}} : memref<2x12x6xf16> -> memref<8x12x5xf16>
  // CHECK-NEXT: } {features = #rock<GemmFeatures mfma|dot|atomic_add>, firstGemmIndices = array<i64: 0>, numHeadsKV = 1 : i32, numHeadsQ = 2 : i32, perf_config = "attn:v3:32,32,32,32,32,32,16,1,1,1,2,0,1", preSoftmaxHasSplitKVTransforms = false, softmaxType = f16, splitKV = 2 : i32, storeMethod = #rock<StoreMethod set>}
  rock.attention{
    qk = tr %q * tr %k : memref<4x8x5xf16>, memref<2x6x8xf16>
    lse = %lse : memref<8x5xf16>
    causal
    tr %o = softmax(qk) * tr %v : memref<2x12x6xf16> -> memref<8x12x5xf16>
  } {features = #rock<GemmFeatures mfma|dot|atomic_add>, firstGemmIndices = array<i64: 0>, numHeadsKV = 1 : i32, numHeadsQ = 2 : i32, perf_config = "attn:v3:32,32,32,32,32,32,16,1,1,1,2,0,1", preSoftmaxHasSplitKVTransforms = false, softmaxType = f16, splitKV = 2 : i32, storeMethod = #rock<StoreMethod set>}
  return
}

// The sizes of both products, as rocMLIR's passes leave them, are the perf_config that they were made from.

// CHECK: func.func @parameters
func.func @parameters(%q: memref<1x5x8xf16>, %k: memref<1x8x6xf16>, %v: memref<1x6x12xf16>, %o: memref<1x5x12xf16>) {
  // CHECK: } {perf_config = "attn:v2:32,64,16,8,32,16,4,1,2,2,1"}
  rock.attention{
    qk = %q * %k : memref<1x5x8xf16>, memref<1x8x6xf16>
    %o = softmax(qk) * %v : memref<1x6x12xf16> -> memref<1x5x12xf16>
  } {params0 = #rock.mfma_gemm_params<kpackPerBlock = 8, mPerBlock = 32, nPerBlock = 16, kpack = 4, mPerWave = 32, mnPerXdl = 16, scheduleVersion = 2, forceUnroll = true>, params1 = #rock.xdlops_gemm_derived_params<mPerBlock = 64>}
  return
}

// CHECK: func.func @tiles
func.func @tiles(%q: memref<1x5x8xf16>, %k: memref<1x8x6xf16>, %v: memref<1x6x12xf16>, %o: memref<1x5x12xf16, #gpu.address_space<workgroup>>) {
  // CHECK: memref<1x6x12xf16> -> memref<1x5x12xf16, #gpu.address_space<workgroup>>
  // CHECK-NEXT: } {params0 = #rock.attention_params<keys_per_tile = 16, query_waves = 1, key_waves = 1, channel_chunk = 16, value_channels = 16{{.*}}>}
  rock.attention{
    qk = %q * %k : memref<1x5x8xf16>, memref<1x8x6xf16>
    %o = softmax(qk) * %v : memref<1x6x12xf16> -> memref<1x5x12xf16, #gpu.address_space<workgroup>>
  } {params0 = #rock.attention_params<keys_per_tile = 16, query_waves = 1, key_waves = 1, channel_chunk = 16, value_channels = 16>}
  return
}

// CHECK: func.func @gridwise
func.func @gridwise(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %bias: memref<2x32x32xf16>, %last: memref<2xi32>, %offset: memref<2xi32>, %o: memref<4x32x16xf16>, %lse: memref<4x32xf32>) {
  // CHECK: rock.gridwise_attention_accel(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) preSoftmaxOps = {
  // CHECK: rock.yield
  // CHECK: blockSize = 64 : i32, causal, disableQBypassLDS = false, enableSoftmax = true, gridSize = 4 : i32, numRepeatsGQA = 2 : i32
  // CHECK-SAME: prePadG0M = 30 : i32, prePadG0N = 20 : i32, slidingWindowLookBack = 3 : i32, softmaxType = f32, splitKV = 2 : i32, storeMethod = #rock<StoreMethod set>
  rock.gridwise_attention_accel(%q, %k, %v, %bias, %last, %offset, %o, %lse) preSoftmaxOps = {
  ^bb0(%s: f32, %b: f16):
    rock.yield %s : f32
  } {operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>, blockSize = 64 : i32, gridSize = 4 : i32, causal, disableQBypassLDS = false, enableSoftmax = true, numRepeatsGQA = 2 : i32, prePadG0M = 30 : i32, prePadG0N = 20 : i32, slidingWindowSize = 3 : i32, softmaxType = f32, splitKV = 2 : i32, storeMethod = #rock<StoreMethod set>} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2x32x32xf16>, memref<2xi32>, memref<2xi32>, memref<4x32x16xf16>, memref<4x32xf32>
  return
}
