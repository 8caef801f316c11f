// RUN: xpaged-opt %s -p tosa-to-rock-deref --split-input-file | filecheck %s

// One of five layers of a table, by tosa operations and broadcasts as products with ones.

// CHECK: <Slice{6, 9} ["page"] at [1] -> ["page"] at [0]>
// CHECK-LABEL: func.func @layer(%t: tensor<15xi64> {rock.page_table = {page_size = 4 : i64, elem = f16}})
// CHECK-NEXT: %[[T:.*]] = rock.transform %t by {{.*}} : tensor<15xi64> to tensor<1x3x1xi64>
// CHECK-NEXT: %[[D:.*]] = rock.deref %[[T]] : tensor<1x3x1xi64> -> tensor<1x3x4xf16>
// CHECK-NEXT: func.return %[[D]]
func.func @layer(%t: tensor<15xi64>) -> tensor<1x3x4xf16> {
  %ones = "tosa.const"() <{values = dense<1> : tensor<1x3x4xi64>}> : () -> tensor<1x3x4xi64>
  %zero = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %i = "tosa.const"() <{values = dense<[[[0, 2, 4, 6]]]> : tensor<1x1x4xi64>}> : () -> tensor<1x1x4xi64>
  %1 = tosa.reshape %t {new_shape = array<i64: 1, 5, 3>} : (tensor<15xi64>) -> tensor<1x5x3xi64>
  %2 = tosa.slice %1 {start = array<i64: 0, 2, 0>, size = array<i64: 1, 1, 3>} : (tensor<1x5x3xi64>) -> tensor<1x1x3xi64>
  %3 = tosa.reshape %2 {new_shape = array<i64: 1, 3, 1>} : (tensor<1x1x3xi64>) -> tensor<1x3x1xi64>
  %4 = tosa.mul %3, %ones, %zero : (tensor<1x3x1xi64>, tensor<1x3x4xi64>, tensor<1xi8>) -> tensor<1x3x4xi64>
  %5 = tosa.mul %i, %ones, %zero : (tensor<1x1x4xi64>, tensor<1x3x4xi64>, tensor<1xi8>) -> tensor<1x3x4xi64>
  %6 = tosa.add %4, %5 : (tensor<1x3x4xi64>, tensor<1x3x4xi64>) -> tensor<1x3x4xi64>
  %7 = tosa.custom %6 {domain_name = "rocmlir", implementation_attrs = "", operator_name = "deref"} : (tensor<1x3x4xi64>) -> tensor<1x3x4xf16>
  return %7 : tensor<1x3x4xf16>
}

// -----

// The same layer by tensor operations.

// CHECK: <Slice{6, 9} ["page"] at [1] -> ["page"] at [0]>
// CHECK-LABEL: func.func @tensor_operations
// CHECK: rock.deref %{{.*}} : tensor<1x3x1xi64> -> tensor<1x3x4xf16>
func.func @tensor_operations(%t: tensor<15xi64>) -> tensor<1x3x4xf16> {
  %i = "tosa.const"() <{values = dense<[[[0, 2, 4, 6]]]> : tensor<1x1x4xi64>}> : () -> tensor<1x1x4xi64>
  %1 = tensor.expand_shape %t [[0, 1, 2]] output_shape [1, 5, 3] : tensor<15xi64> into tensor<1x5x3xi64>
  %2 = tensor.extract_slice %1[0, 2, 0] [1, 1, 3] [1, 1, 1] : tensor<1x5x3xi64> to tensor<1x1x3xi64>
  %3 = tensor.collapse_shape %2 [[0, 1], [2]] : tensor<1x1x3xi64> into tensor<1x3xi64>
  %4 = tensor.expand_shape %3 [[0], [1, 2]] output_shape [1, 3, 1] : tensor<1x3xi64> into tensor<1x3x1xi64>
  %5 = tosa.add %4, %i : (tensor<1x3x1xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4xi64>
  %6 = tosa.custom %5 {domain_name = "rocmlir", implementation_attrs = "", operator_name = "deref"} : (tensor<1x3x4xi64>) -> tensor<1x3x4xf16>
  return %6 : tensor<1x3x4xf16>
}

// -----

// Elements that begin three elements behind their pointer.

// CHECK: <Slice{3, 7} ["dim2"] at [2] -> ["dim2"] at [2]>
// CHECK-LABEL: func.func @header(%t: tensor<1x3x1xi64> {rock.page_table = {page_size = 7 : i64, elem = f16}})
// CHECK-NEXT: %[[D:.*]] = rock.deref %t : tensor<1x3x1xi64> -> tensor<1x3x7xf16>
// CHECK-NEXT: rock.transform %[[D]] by {{.*}} : tensor<1x3x7xf16> to tensor<1x3x4xf16>
func.func @header(%t: tensor<1x3x1xi64>) -> tensor<1x3x4xf16> {
  %i = "tosa.const"() <{values = dense<[[[6, 8, 10, 12]]]> : tensor<1x1x4xi64>}> : () -> tensor<1x1x4xi64>
  %0 = tosa.add %t, %i : (tensor<1x3x1xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4xi64>
  %1 = tosa.custom %0 {domain_name = "rocmlir", implementation_attrs = "", operator_name = "deref"} : (tensor<1x3x4xi64>) -> tensor<1x3x4xf16>
  return %1 : tensor<1x3x4xf16>
}
