// RUN: xpaged-opt %s -p tosa-to-rock-deref,tosa-to-rock --split-input-file | filecheck %s
// RUN: not xpaged-opt %S/../../xpaged/examples/decode_tosa.mlir -p tosa-to-rock 2>&1 | filecheck %s --check-prefix=ORDER

// ORDER: error: a read through addresses is left
// ORDER: fix: run tosa-to-rock-deref before tosa-to-rock

// Two query heads share one KV head; V's pages are read first in the text; scale and a mask by the last valid key.

// CHECK-LABEL: func.func @paged
// CHECK: %[[VP:.*]] = rock.deref %{{.*}} : tensor<1x3x1xi64> -> tensor<1x3x4xf16>
// CHECK: %[[KP:.*]] = rock.deref %{{.*}} : tensor<1x3x1xi64> -> tensor<1x3x4xf16>
// CHECK: %[[K:.*]] = rock.transform %{{.*}} to tensor<1x4x3xf16>
// CHECK: %[[N:.*]] = rock.transform %n by {{.*}} : tensor<1xi32> to tensor<2xi32>
// CHECK: rock.attention{
// CHECK-NEXT: qk = %q * %[[K]] : tensor<2x1x4xf16>, tensor<1x4x3xf16>
// CHECK-NEXT: keyAddresses = (%[[KP]] : tensor<1x3x4xf16>)
// CHECK-NEXT: valueAddresses = (%[[VP]] : tensor<1x3x4xf16>)
// CHECK-NEXT: lastValidKVIndex = (%[[N]] : tensor<2xi32>)
// CHECK-NEXT: qk = elementwise {
// CHECK: arith.mulf
// CHECK: softmax(qk) * %[[VP]] : tensor<1x3x4xf16>
// CHECK: numHeadsKV = 1 : i32, numHeadsQ = 2 : i32
func.func @paged(%q: tensor<2x1x4xf16>, %kt: tensor<3xi64>, %vt: tensor<3xi64>, %n: tensor<1xi32>) -> tensor<8xf16> {
  %i = "tosa.const"() <{values = dense<[[[0, 2, 4, 6]]]> : tensor<1x1x4xi64>}> : () -> tensor<1x1x4xi64>
  %vt3 = tosa.reshape %vt {new_shape = array<i64: 1, 3, 1>} : (tensor<3xi64>) -> tensor<1x3x1xi64>
  %va = tosa.add %vt3, %i : (tensor<1x3x1xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4xi64>
  %v = tosa.custom %va {domain_name = "rocmlir", implementation_attrs = "", operator_name = "deref"} : (tensor<1x3x4xi64>) -> tensor<1x3x4xf16>
  %kt3 = tosa.reshape %kt {new_shape = array<i64: 1, 3, 1>} : (tensor<3xi64>) -> tensor<1x3x1xi64>
  %ka = tosa.add %kt3, %i : (tensor<1x3x1xi64>, tensor<1x1x4xi64>) -> tensor<1x3x4xi64>
  %k = tosa.custom %ka {domain_name = "rocmlir", implementation_attrs = "", operator_name = "deref"} : (tensor<1x3x4xi64>) -> tensor<1x3x4xf16>
  %ones = "tosa.const"() <{values = dense<1.0> : tensor<2x3x4xf16>}> : () -> tensor<2x3x4xf16>
  %k2 = tosa.mul %k, %ones : (tensor<1x3x4xf16>, tensor<2x3x4xf16>) -> tensor<2x3x4xf16>
  %v2 = tosa.mul %v, %ones : (tensor<1x3x4xf16>, tensor<2x3x4xf16>) -> tensor<2x3x4xf16>
  %kc = tosa.transpose %k2 {perms = array<i32: 0, 2, 1>} : (tensor<2x3x4xf16>) -> tensor<2x4x3xf16>
  %0 = tosa.matmul %q, %kc {acc_type = f32} : (tensor<2x1x4xf16>, tensor<2x4x3xf16>) -> tensor<2x1x3xf16>
  %scale = "tosa.const"() <{values = dense<0.5> : tensor<2x1x3xf16>}> : () -> tensor<2x1x3xf16>
  %1 = tosa.mul %0, %scale : (tensor<2x1x3xf16>, tensor<2x1x3xf16>) -> tensor<2x1x3xf16>
  %columns = "tosa.const"() <{values = dense<[[[0, 1, 2]]]> : tensor<1x1x3xi32>}> : () -> tensor<1x1x3xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %past = tosa.greater %columns, %n3 : (tensor<1x1x3xi32>, tensor<1x1x1xi32>) -> tensor<1x1x3xi1>
  %nothing = "tosa.const"() <{values = dense<0xFC00> : tensor<2x1x3xf16>}> : () -> tensor<2x1x3xf16>
  %2 = tosa.select %past, %nothing, %1 : (tensor<1x1x3xi1>, tensor<2x1x3xf16>, tensor<2x1x3xf16>) -> tensor<2x1x3xf16>
  %3 = tosa.reduce_max %2 {axis = 2 : i32} : (tensor<2x1x3xf16>) -> tensor<2x1x1xf16>
  %4 = tosa.sub %2, %3 : (tensor<2x1x3xf16>, tensor<2x1x1xf16>) -> tensor<2x1x3xf16>
  %5 = tosa.exp %4 : (tensor<2x1x3xf16>) -> tensor<2x1x3xf16>
  %6 = tosa.reduce_sum %5 {axis = 2 : i32} : (tensor<2x1x3xf16>) -> tensor<2x1x1xf16>
  %7 = tosa.reciprocal %6 : (tensor<2x1x1xf16>) -> tensor<2x1x1xf16>
  %8 = tosa.mul %5, %7 : (tensor<2x1x3xf16>, tensor<2x1x1xf16>) -> tensor<2x1x3xf16>
  %9 = tosa.matmul %8, %v2 {acc_type = f32} : (tensor<2x1x3xf16>, tensor<2x3x4xf16>) -> tensor<2x1x4xf16>
  %10 = tosa.reshape %9 {new_shape = array<i64: 8>} : (tensor<2x1x4xf16>) -> tensor<8xf16>
  return %10 : tensor<8xf16>
}

// What stands around an attention is computed in kernels of its own, one for each value that must lie in memory: Q with
// all that it is made of, and what is returned, of which the transpose is a view.

// CHECK-LABEL: func.func @around
// CHECK: %[[C:.*]] = rock.transform %c by {{.*}} : tensor<1x1x4xf16> to tensor<1x2x4xf16>
// CHECK-NEXT: %[[TO:.*]] = tensor.empty() : tensor<1x2x4xf16>
// CHECK-NEXT: %query = linalg.generic {{.*}} ins(%q, %[[C]] : {{.*}}) outs(%[[TO]] : tensor<1x2x4xf16>) {
// CHECK: %[[PRODUCT:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT: %[[T:.*]] = math.tanh %[[PRODUCT]] : f32
// CHECK-NEXT: %[[N:.*]] = arith.truncf %[[T]] : f32 to f16
// CHECK-NEXT: linalg.yield %[[N]] : f16
// CHECK: %[[O:.*]] = rock.attention{
// CHECK-NEXT: qk = %query * %k
// CHECK: %sum = linalg.generic {{.*}} ins(%[[O]], %n : tensor<1x2x4xf16>, tensor<1x2x4xi8>)
// CHECK: math.roundeven
// CHECK: arith.fptosi %{{.*}} : f32 to i8
// CHECK: arith.addi %{{.*}}, %{{.*}} : i8
// CHECK: %out = rock.transform %sum by {{.*}} : tensor<1x2x4xi8> to tensor<1x4x2xi8>
// CHECK-NEXT: return %out
func.func @around(%q: tensor<1x2x4xf16>, %k: tensor<1x4x3xf16>, %v: tensor<1x3x4xf16>, %c: tensor<1x1x4xf16>, %n: tensor<1x2x4xi8>) -> tensor<1x4x2xi8> {
  %rotated = tosa.mul %q, %c : (tensor<1x2x4xf16>, tensor<1x1x4xf16>) -> tensor<1x2x4xf16>
  %query = tosa.tanh %rotated : (tensor<1x2x4xf16>) -> tensor<1x2x4xf16>
  %0 = tosa.matmul %query, %k : (tensor<1x2x4xf16>, tensor<1x4x3xf16>) -> tensor<1x2x3xf16>
  %2 = tosa.reduce_max %0 {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %3 = tosa.sub %0, %2 : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %4 = tosa.exp %3 : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %5 = tosa.reduce_sum %4 {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %6 = tosa.reciprocal %5 : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
  %7 = tosa.mul %4, %6 : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %8 = tosa.matmul %7, %v : (tensor<1x2x3xf16>, tensor<1x3x4xf16>) -> tensor<1x2x4xf16>
  %whole = tosa.cast %8 : (tensor<1x2x4xf16>) -> tensor<1x2x4xi8>
  %sum = tosa.add %whole, %n : (tensor<1x2x4xi8>, tensor<1x2x4xi8>) -> tensor<1x2x4xi8>
  %out = tosa.transpose %sum {perms = array<i32: 0, 2, 1>} : (tensor<1x2x4xi8>) -> tensor<1x4x2xi8>
  return %out : tensor<1x4x2xi8>
}
