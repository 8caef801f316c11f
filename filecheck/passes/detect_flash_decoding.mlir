// RUN: xpaged-opt %s -p detect-flash-decoding | filecheck %s

#twice = #rock.transform_map<affine_map<(d0, d1, d2, d3) -> (d0, 0, d2, d3)> by [<PassThrough ["h"] at [0] -> ["h"] at [0]>, <Broadcast{1} ["t"] at [1] -> ["t"] at [1]>, <PassThrough ["s"] at [2] -> ["s"] at [2]>, <PassThrough ["d"] at [3] -> ["d"] at [3]>] bounds = [3, 2, 1, 8] -> [3, 1, 1, 8]>
#heads = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0 floordiv 2, d0 mod 2, d1, d2)> by [<Merge{3, 2} ["g"] at [0] -> ["h", "t"] at [0, 1]>, <PassThrough ["s"] at [1] -> ["s"] at [2]>, <PassThrough ["d"] at [2] -> ["d"] at [3]>] bounds = [6, 1, 8] -> [3, 2, 1, 8]>

// CHECK: func.func @parts
// CHECK: qk = %{{.*}} * tr %{{.*}} : tensor<3x1x8xf16>, tensor<3x8x8xf16>
// CHECK-NEXT: softmax(qk) * %{{.*}} : tensor<3x8x8xf16>
// CHECK-NEXT: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, preSoftmaxHasSplitKVTransforms = true, splitKV = 2 : i32} -> tensor<6x1x8xf16>, tensor<6x1xf32>
func.func @parts(%q: tensor<3x1x1x8xf16>, %k: tensor<6x4x8xf16>, %v: tensor<6x4x8xf16>) -> (tensor<6x1x8xf16>, tensor<6x1xf32>) {
  %0 = rock.transform %q by #twice : tensor<3x1x1x8xf16> to tensor<3x2x1x8xf16>
  %1 = rock.transform %0 by #heads : tensor<3x2x1x8xf16> to tensor<6x1x8xf16>
  %o, %lse = rock.attention{
    qk = %1 * tr %k : tensor<6x1x8xf16>, tensor<6x4x8xf16>
    softmax(qk) * %v : tensor<6x4x8xf16>
  } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, splitKV = 1 : i32} -> tensor<6x1x8xf16>, tensor<6x1xf32>
  return %o, %lse : tensor<6x1x8xf16>, tensor<6x1xf32>
}

// A mask counts keys from the start of each part: nothing is changed.
// CHECK: func.func @masked
// CHECK: qk = %{{.*}} * tr %{{.*}} : tensor<6x1x8xf16>, tensor<6x4x8xf16>
// CHECK-NEXT: causal
func.func @masked(%q: tensor<3x1x1x8xf16>, %k: tensor<6x4x8xf16>, %v: tensor<6x4x8xf16>) -> (tensor<6x1x8xf16>, tensor<6x1xf32>) {
  %0 = rock.transform %q by #twice : tensor<3x1x1x8xf16> to tensor<3x2x1x8xf16>
  %1 = rock.transform %0 by #heads : tensor<3x2x1x8xf16> to tensor<6x1x8xf16>
  %o, %lse = rock.attention{
    qk = %1 * tr %k : tensor<6x1x8xf16>, tensor<6x4x8xf16>
    causal
    softmax(qk) * %v : tensor<6x4x8xf16>
  } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, splitKV = 1 : i32} -> tensor<6x1x8xf16>, tensor<6x1xf32>
  return %o, %lse : tensor<6x1x8xf16>, tensor<6x1xf32>
}
