// RUN: xpaged-opt %s -p bufferize | filecheck %s

#rows = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0 * 16 + d1 * 8 + d2)> by [<Unmerge{1, 2, 8} ["g", "s", "d"] at [0, 1, 2] -> ["raw"] at [0]>] bounds = [1, 2, 8] -> [16]>
#flat = #rock.transform_map<affine_map<(d0) -> (0, d0 floordiv 8, d0 mod 8)> by [<Merge{1, 2, 8} ["raw"] at [0] -> ["g", "s", "d"] at [0, 1, 2]>] bounds = [16] -> [1, 2, 8]>

// The attention writes through the inverse view, and the derefs stay descriptions.
// CHECK: func.func @f(%q: memref<16xf16>, %kt: memref<1x4x1xi64> {rock.page_table = {page_size = 8 : i64, elem = f16}}, %vt: memref<1x4x1xi64> {rock.page_table = {page_size = 8 : i64, elem = f16}}, %out: memref<16xf16> {rock.output = 0 : i32}) attributes {rock.kernel} {
// CHECK-NEXT: %[[O:.*]] = rock.transform %out by #[[ROWS:.*]] : memref<16xf16> to memref<1x2x8xf16>
// CHECK-NEXT: %[[Q:.*]] = rock.transform %q by #[[ROWS]] : memref<16xf16> to memref<1x2x8xf16>
// CHECK-NEXT: %[[K:.*]] = rock.deref %kt : memref<1x4x1xi64> -> memref<1x4x8xf16>
// CHECK-NEXT: %[[V:.*]] = rock.deref %vt : memref<1x4x1xi64> -> memref<1x4x8xf16>
// CHECK-NEXT: rock.attention{
// CHECK-NEXT: qk = %[[Q]] * tr %[[K]]
// CHECK-NEXT: keyAddresses = (%[[K]]
// CHECK-NEXT: valueAddresses = (%[[V]]
// CHECK-NEXT: %[[O]] = softmax(qk) * %[[V]]
// CHECK: func.return
func.func @f(%q: tensor<16xf16>, %kt: tensor<1x4x1xi64>, %vt: tensor<1x4x1xi64>) -> tensor<16xf16> attributes {rock.kernel} {
  %queries = rock.transform %q by #rows : tensor<16xf16> to tensor<1x2x8xf16>
  %keys = rock.deref %kt : tensor<1x4x1xi64> -> tensor<1x4x8xf16>
  %values = rock.deref %vt : tensor<1x4x1xi64> -> tensor<1x4x8xf16>
  %rows = rock.attention{
    qk = %queries * tr %keys : tensor<1x2x8xf16>, tensor<1x4x8xf16>
    keyAddresses = (%keys : tensor<1x4x8xf16>)
    valueAddresses = (%values : tensor<1x4x8xf16>)
    softmax(qk) * %values : tensor<1x4x8xf16>
  } -> tensor<1x2x8xf16>
  %out = rock.transform %rows by #flat : tensor<1x2x8xf16> to tensor<16xf16>
  return %out : tensor<16xf16>
}
