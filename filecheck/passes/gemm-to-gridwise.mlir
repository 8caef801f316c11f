// RUN: xpaged opt %s -p gemm-to-gridwise | filecheck %s

// Two query heads share a KV head and become rows of one problem (row n is query n / 2 of head n % 2); rows, keys and
// channels are padded to whole tiles. The page addresses pass through, and the chains from them stay whole.

// CHECK-DAG: #[[HEADS:.*]] = #rock.transform_map<{{.*}} by [<Unmerge{2, 2} ["g", "r"] at [0, 1] -> ["head"] at [0]>, {{.*}}] bounds = [2, 2, 3, 24] -> [4, 3, 24]>
// CHECK-DAG: #[[FOLD:.*]] = #rock.transform_map<{{.*}} by [{{.*}}, <Merge{3, 2} ["n"] at [2] -> ["i", "r"] at [2, 1]>] bounds = [2, 24, 6] -> [2, 2, 3, 24]>
// CHECK-DAG: #[[PADQ:.*]] = #rock.transform_map<{{.*}} by [{{.*}}, <Pad{0, 8} ["d"] at [1] -> ["d"] at [1]>, <Pad{0, 10} ["n"] at [2] -> ["n"] at [2]>] bounds = [2, 32, 16] -> [2, 24, 6]>
// CHECK-DAG: #[[PADK:.*]] = #rock.transform_map<{{.*}} by [{{.*}}, <Pad{0, 8} ["d"] at [1] -> ["d"] at [1]>, <Pad{0, 24} ["key"] at [2] -> ["key"] at [2]>] bounds = [2, 32, 64] -> [2, 24, 40]>

// CHECK-LABEL: func.func @grouped
// CHECK-SAME:    attributes {rock.kernel, arch = "gfx942", rock.grid_size = 2 : i32, rock.block_size = 256 : i32, rock.description = "Attention of 4 query heads
// CHECK-NEXT:    %keys = rock.deref %kt : memref<2x40x1xi64> -> memref<2x40x24xf16>
// CHECK-NEXT:    %values = rock.deref %vt : memref<2x40x1xi64> -> memref<2x40x24xf16>
// CHECK-NEXT:    %[[Q1:.*]] = rock.transform %q by #[[HEADS]] : memref<4x3x24xf16> to memref<2x2x3x24xf16>
// CHECK-NEXT:    %[[Q2:.*]] = rock.transform %[[Q1]] by #[[FOLD]] : memref<2x2x3x24xf16> to memref<2x24x6xf16>
// CHECK-NEXT:    %[[Q3:.*]] = rock.transform %[[Q2]] by #[[PADQ]] : memref<2x24x6xf16> to memref<2x32x16xf16>
// CHECK-NEXT:    %[[K1:.*]] = rock.transform %keys by {{.*}} : memref<2x40x24xf16> to memref<2x24x40xf16>
// CHECK-NEXT:    %[[K2:.*]] = rock.transform %[[K1]] by #[[PADK]] : memref<2x24x40xf16> to memref<2x32x64xf16>
// CHECK-NEXT:    %[[V1:.*]] = rock.transform %values by {{.*}} : memref<2x40x24xf16> to memref<2x64x32xf16>
// CHECK-NEXT:    %[[O1:.*]] = rock.transform %out by #[[HEADS]] : memref<4x3x24xf16> to memref<2x2x3x24xf16>
// CHECK-NEXT:    %[[O2:.*]] = rock.transform %[[O1]] by {{.*}} : memref<2x2x3x24xf16> to memref<2x6x24xf16>
// CHECK-NEXT:    %[[O3:.*]] = rock.transform %[[O2]] by {{.*}} : memref<2x6x24xf16> to memref<2x16x32xf16>
// CHECK-NEXT:    rock.gridwise_attention_accel(%[[Q3]], %[[K2]], %[[V1]], %[[O3]], %keys, %values) preSoftmaxOps = {} {blockSize = 256 : i32, causal, gridSize = 2 : i32, numRepeatsGQA = 2 : i32,
// CHECK-SAME:      prePadG0M = 40 : i32, prePadG0N = 6 : i32,
// CHECK-NEXT:    func.return
func.func @grouped(%q: memref<4x3x24xf16>, %kt: memref<2x40x1xi64>, %vt: memref<2x40x1xi64>, %out: memref<4x3x24xf16>)
    attributes {rock.kernel, arch = "gfx942"} {
  %keys = rock.deref %kt : memref<2x40x1xi64> -> memref<2x40x24xf16>
  %values = rock.deref %vt : memref<2x40x1xi64> -> memref<2x40x24xf16>
  rock.attention{
    qk = %q * tr %keys : memref<4x3x24xf16>, memref<2x40x24xf16>
    keyAddresses = (%keys : memref<2x40x24xf16>)
    valueAddresses = (%values : memref<2x40x24xf16>)
    causal
    %out = softmax(qk) * %values : memref<2x40x24xf16> -> memref<4x3x24xf16>
  } {numHeadsKV = 1 : i32, numHeadsQ = 2 : i32, params0 = #rock.attention_params<keys_per_tile = 16, query_waves = 1, key_waves = 4, channel_chunk = 32, value_channels = 32>}
  return
}

// A KV index of its own for each query head: the heads stay apart, and each sees the K and V of its group. Whole tiles
// need no padding.

// CHECK-LABEL: func.func @apart
// CHECK-SAME:    rock.grid_size = 4 : i32
// CHECK:         %[[K3:.*]] = rock.transform %k by {{.*}} : memref<2x32x64xf16> to memref<2x2x32x64xf16>
// CHECK-NEXT:    %[[K4:.*]] = rock.transform %[[K3]] by {{.*}} : memref<2x2x32x64xf16> to memref<4x32x64xf16>
// CHECK:         %[[LAST:.*]] = rock.transform %{{.*}} by {{.*}} : memref<4x1xi32> to memref<4xi32>
// CHECK-NEXT:    rock.gridwise_attention_accel(%{{.*}}, %[[K4]], %{{.*}}, %[[LAST]], %{{.*}}) preSoftmaxOps = {} {blockSize = 256 : i32, gridSize = 4 : i32, numRepeatsGQA = 1 : i32, operandSegmentSizes = {{.*}}, params0 = {{.*}}, softmaxType = f32, splitKV = 1 : i32} : memref<4x32x16xf16>, memref<4x32x64xf16>, memref<4x64x32xf16>, memref<4xi32>, memref<4x16x32xf16>
func.func @apart(%q: memref<4x16x32xf16>, %k: memref<2x32x64xf16>, %v: memref<2x64x32xf16>, %last: memref<4xi32>,
    %out: memref<4x16x32xf16>) attributes {rock.kernel, arch = "gfx942"} {
  rock.attention{
    qk = %q * %k : memref<4x16x32xf16>, memref<2x32x64xf16>
    lastValidKVIndex = (%last : memref<4xi32>)
    %out = softmax(qk) * %v : memref<2x64x32xf16> -> memref<4x16x32xf16>
  } {numHeadsKV = 1 : i32, numHeadsQ = 2 : i32, params0 = #rock.attention_params<keys_per_tile = 16, query_waves = 1, key_waves = 4, channel_chunk = 32, value_channels = 32>}
  return
}

// The score region goes along unchanged, and its inputs are seen as [group, key, row].

// CHECK-LABEL: func.func @biased
// CHECK:         %[[BIAS:.*]] = rock.transform %{{.*}} by {{.*}} : memref<1x64x3xf16> to memref<1x64x16xf16>
// CHECK-NEXT:    rock.gridwise_attention_accel(%{{.*}}, %{{.*}}, %{{.*}}, %[[BIAS]], %{{.*}}, %{{.*}}) preSoftmaxOps = {
// CHECK-NEXT:    ^{{.*}}(%[[S:.*]]: f32, %[[B:.*]]: f16):
// CHECK-NEXT:      %[[WIDE:.*]] = arith.extf %[[B]] : f16 to f32
// CHECK-NEXT:      %[[SUM:.*]] = arith.addf %[[S]], %[[WIDE]] : f32
// CHECK-NEXT:      rock.yield %[[SUM]] : f32
// CHECK-NEXT:    }
func.func @biased(%q: memref<1x3x32xf16>, %k: memref<1x32x64xf16>, %v: memref<1x64x32xf16>, %bias: memref<1x3x64xf16>,
    %lse: memref<1x3xf32>, %out: memref<1x3x32xf16>) attributes {rock.kernel, arch = "gfx942"} {
  rock.attention{
    qk = %q * %k : memref<1x3x32xf16>, memref<1x32x64xf16>
    lse = %lse : memref<1x3xf32>
    qk = elementwise otherIns(%bias : memref<1x3x64xf16>) {
    ^bb0(%s: f32, %b: f16):
      %wide = arith.extf %b : f16 to f32
      %sum = arith.addf %s, %wide : f32
      rock.yield %sum : f32
    }
    %out = softmax(qk) * %v : memref<1x64x32xf16> -> memref<1x3x32xf16>
  } {params0 = #rock.attention_params<keys_per_tile = 16, query_waves = 1, key_waves = 4, channel_chunk = 32, value_channels = 32>}
  return
}

// Elementwise kernels: every operand is a view of one dimension, in the order in which the output lies in memory, padded
// to whole workgroups of 16 bytes a lane. What is broadcast is read through a view.

// CHECK-LABEL: func.func @scaled
// CHECK-SAME:    rock.grid_size = 1 : i32, rock.block_size = 64 : i32, rock.description = "Elementwise on 120 elements: 256 of them in a workgroup, 4 in a lane."
// CHECK:         %[[X:.*]] = rock.transform %x by {{.*}} : memref<3x40xf16> to memref<120xf16>
// CHECK-NEXT:    %[[XP:.*]] = rock.transform %[[X]] by {{.*}} : memref<120xf16> to memref<256xf16>
// CHECK-NEXT:    %[[R:.*]] = rock.transform %row by {{.*}} : memref<1x40xf32> to memref<3x40xf32>
// CHECK-NEXT:    %[[RF:.*]] = rock.transform %[[R]] by {{.*}} : memref<3x40xf32> to memref<120xf32>
// CHECK-NEXT:    %[[RP:.*]] = rock.transform %[[RF]] by {{.*}} : memref<120xf32> to memref<256xf32>
// CHECK:         linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%[[XP]], %[[RP]] : memref<256xf16>, memref<256xf32>) outs(%{{.*}} : memref<256xf16>)
// CHECK-LABEL: func.func @copied
// CHECK-SAME:    rock.description = "Elementwise on 120 elements: 512 of them in a workgroup, 8 in a lane."
// CHECK:         linalg.generic {{.*}} ins(%{{.*}} : memref<512xf16>) outs(%{{.*}} : memref<512xf16>)
// CHECK-NEXT:    ^bb0(%[[IN:.*]]: f16, %{{.*}}: f16):
// CHECK-NEXT:      linalg.yield %[[IN]] : f16
func.func @scaled(%x: memref<3x40xf16>, %row: memref<1x40xf32>, %out: memref<3x40xf16>) attributes {rock.kernel, arch = "gfx942"} {
  linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %row : memref<3x40xf16>, memref<1x40xf32>) outs(%out : memref<3x40xf16>) {
  ^bb0(%a: f16, %b: f32, %o: f16):
    %wide = arith.extf %a : f16 to f32
    %0 = arith.mulf %wide, %b : f32
    %1 = arith.truncf %0 : f32 to f16
    linalg.yield %1 : f16
  }
  return
}
func.func @copied(%x: memref<3x40xf16>, %out: memref<3x40xf16>) attributes {rock.kernel, arch = "gfx942"} {
  "memref.copy"(%x, %out) : (memref<3x40xf16>, memref<3x40xf16>) -> ()
  return
}
