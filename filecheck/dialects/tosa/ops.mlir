// RUN: XPAGED_ROUNDTRIP
// RUN: XPAGED_GENERIC_ROUNDTRIP

// CHECK-LABEL: func.func @constants
func.func @constants() {
  // CHECK-NEXT: %{{.*}} = "tosa.const"() <{values = dense<1> : tensor<1x14x1500x4096xi32>}> : () -> tensor<1x14x1500x4096xi32>
  %0 = "tosa.const"() <{values = dense<1> : tensor<1x14x1500x4096xi32>}> : () -> tensor<1x14x1500x4096xi32>
  // CHECK-NEXT: %{{.*}} = "tosa.const"() <{value = dense<[0, 2, 1]> : tensor<3xi32>}> : () -> tensor<3xi32>
  %1 = "tosa.const"() {value = dense<[0, 2, 1]> : tensor<3xi32>} : () -> tensor<3xi32>
  // CHECK-NEXT: %{{.*}} = tosa.const_shape {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %2 = tosa.const_shape  {values = dense<[2, 3]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // CHECK-NEXT: %{{.*}} = tosa.const_shape {values = dense<> : tensor<0xindex>} : () -> !tosa.shape<0>
  %3 = tosa.const_shape {values = dense<> : tensor<0xindex>} : () -> !tosa.shape<0>
  return
}

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%a: tensor<2x3xf16>, %b: tensor<1x3xf16>, %c: tensor<2x1xi1>, %d: tensor<2x1xi32>) {
  %shift = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %zero = "tosa.const"() <{values = dense<0.0> : tensor<1xf16>}> : () -> tensor<1xf16>
  // CHECK: tosa.mul %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<1x3xf16>, tensor<1xi8>) -> tensor<2x3xf16>
  %0 = tosa.mul %a, %b, %shift : (tensor<2x3xf16>, tensor<1x3xf16>, tensor<1xi8>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.mul %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  %1 = tosa.mul %a, %b : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.negate %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<1xf16>, tensor<1xf16>) -> tensor<2x3xf16>
  %2 = tosa.negate %a, %zero, %zero : (tensor<2x3xf16>, tensor<1xf16>, tensor<1xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.negate %{{.*}} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %3 = tosa.negate %a : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.select %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x1xi1>, tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  %4 = tosa.select %c, %a, %b : (tensor<2x1xi1>, tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.cast %{{.*}} : (tensor<2x3xf16>) -> tensor<2x3xf32>
  %5 = tosa.cast %a : (tensor<2x3xf16>) -> tensor<2x3xf32>
  // CHECK-NEXT: tosa.logical_not %{{.*}} : (tensor<2x1xi1>) -> tensor<2x1xi1>
  %6 = tosa.logical_not %c : (tensor<2x1xi1>) -> tensor<2x1xi1>
  // CHECK-NEXT: tosa.maximum %{{.*}}, %{{.*}} {nan_mode = #tosa.nan_mode<IGNORE>} :
  %7 = tosa.maximum %a, %b {nan_mode = #tosa.nan_mode<IGNORE>} : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.abs %{{.*}} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %10 = tosa.abs %a : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.identity %{{.*}} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %11 = tosa.identity %a : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.ceil %{{.*}} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %12 = tosa.ceil %a : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.floor %{{.*}} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %13 = tosa.floor %a : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.exp %{{.*}} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %14 = tosa.exp %a : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.log %{{.*}} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %15 = tosa.log %a : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.erf %{{.*}} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %16 = tosa.erf %a : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.reciprocal %{{.*}} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %17 = tosa.reciprocal %a : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.rsqrt %{{.*}} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %18 = tosa.rsqrt %a : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.sigmoid %{{.*}} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %19 = tosa.sigmoid %a : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.tanh %{{.*}} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %20 = tosa.tanh %a : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.add %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  %21 = tosa.add %a, %b : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.sub %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  %22 = tosa.sub %a, %b : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.pow %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  %23 = tosa.pow %a, %b : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.maximum %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  %24 = tosa.maximum %a, %b : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.minimum %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  %25 = tosa.minimum %a, %b : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.greater %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xi1>
  %26 = tosa.greater %a, %b : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xi1>
  // CHECK-NEXT: tosa.greater_equal %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xi1>
  %27 = tosa.greater_equal %a, %b : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xi1>
  // CHECK-NEXT: tosa.equal %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xi1>
  %28 = tosa.equal %a, %b : (tensor<2x3xf16>, tensor<1x3xf16>) -> tensor<2x3xi1>
  // CHECK-NEXT: tosa.logical_and
  %29 = tosa.logical_and %c, %c : (tensor<2x1xi1>, tensor<2x1xi1>) -> tensor<2x1xi1>
  // CHECK-NEXT: tosa.logical_or
  %30 = tosa.logical_or %c, %c : (tensor<2x1xi1>, tensor<2x1xi1>) -> tensor<2x1xi1>
  // CHECK-NEXT: tosa.intdiv
  %31 = tosa.intdiv %d, %d : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x1xi32>
  return
}

// CHECK-LABEL: func.func @views
func.func @views(%a: tensor<2x3xf16>) {
  %shape = tosa.const_shape {values = dense<[3, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %start = tosa.const_shape {values = dense<[0, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %size = tosa.const_shape {values = dense<[2, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %order = "tosa.const"() <{values = dense<[1, 0]> : tensor<2xi32>}> : () -> tensor<2xi32>
  // CHECK: tosa.reshape %{{.*}}, %{{.*}} : (tensor<2x3xf16>, !tosa.shape<2>) -> tensor<3x2xf16>
  %0 = tosa.reshape %a, %shape : (tensor<2x3xf16>, !tosa.shape<2>) -> tensor<3x2xf16>
  // CHECK-NEXT: tosa.reshape %{{.*}} {new_shape = array<i64: 3, 2>} : (tensor<2x3xf16>) -> tensor<3x2xf16>
  %1 = tosa.reshape %a {new_shape = array<i64: 3, 2>} : (tensor<2x3xf16>) -> tensor<3x2xf16>
  // CHECK-NEXT: tosa.transpose %{{.*}} {perms = array<i32: 1, 0>} : (tensor<2x3xf16>) -> tensor<3x2xf16>
  %2 = tosa.transpose %a {perms = array<i32: 1, 0>} : (tensor<2x3xf16>) -> tensor<3x2xf16>
  // CHECK-NEXT: tosa.transpose %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<2xi32>) -> tensor<3x2xf16>
  %3 = tosa.transpose %a, %order : (tensor<2x3xf16>, tensor<2xi32>) -> tensor<3x2xf16>
  // CHECK-NEXT: tosa.slice %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x3xf16>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x2xf16>
  %4 = tosa.slice %a, %start, %size : (tensor<2x3xf16>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<2x2xf16>
  // CHECK-NEXT: tosa.slice %{{.*}} {size = array<i64: 2, 2>, start = array<i64: 0, 1>} : (tensor<2x3xf16>) -> tensor<2x2xf16>
  %5 = tosa.slice %a {size = array<i64: 2, 2>, start = array<i64: 0, 1>} : (tensor<2x3xf16>) -> tensor<2x2xf16>
  // CHECK-NEXT: tosa.tile %{{.*}}, %{{.*}} : (tensor<2x3xf16>, !tosa.shape<2>) -> tensor<6x6xf16>
  %6 = tosa.tile %a, %shape : (tensor<2x3xf16>, !tosa.shape<2>) -> tensor<6x6xf16>
  // CHECK-NEXT: tosa.concat %{{.*}}, %{{.*}} {axis = 1 : i32} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x6xf16>
  %7 = tosa.concat %a, %a {axis = 1 : i32} : (tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x6xf16>
  return
}

// CHECK-LABEL: func.func @products
func.func @products(%a: tensor<5x2x4xf16>, %b: tensor<5x4x3xf16>, %t: tensor<1x2x8xi64>) {
  %zp = "tosa.const"() <{values = dense<0.0> : tensor<1xf16>}> : () -> tensor<1xf16>
  // CHECK: tosa.matmul %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {acc_type = f32} : (tensor<5x2x4xf16>, tensor<5x4x3xf16>, tensor<1xf16>, tensor<1xf16>) -> tensor<5x2x3xf16>
  %0 = tosa.matmul %a, %b, %zp, %zp {acc_type = f32} : (tensor<5x2x4xf16>, tensor<5x4x3xf16>, tensor<1xf16>, tensor<1xf16>) -> tensor<5x2x3xf16>
  // CHECK-NEXT: tosa.matmul %{{.*}}, %{{.*}} : (tensor<5x2x4xf16>, tensor<5x4x3xf16>) -> tensor<5x2x3xf32>
  %1 = tosa.matmul %a, %b : (tensor<5x2x4xf16>, tensor<5x4x3xf16>) -> tensor<5x2x3xf32>
  // CHECK-NEXT: tosa.reduce_max %{{.*}} {axis = 2 : i32} : (tensor<5x2x4xf16>) -> tensor<5x2x1xf16>
  %2 = tosa.reduce_max %a {axis = 2 : i32} : (tensor<5x2x4xf16>) -> tensor<5x2x1xf16>
  // CHECK-NEXT: tosa.reduce_min
  %3 = tosa.reduce_min %a {axis = 2 : i32} : (tensor<5x2x4xf16>) -> tensor<5x2x1xf16>
  // CHECK-NEXT: tosa.reduce_sum
  %4 = tosa.reduce_sum %a {axis = 2 : i32} : (tensor<5x2x4xf16>) -> tensor<5x2x1xf16>
  // CHECK-NEXT: tosa.custom %{{.*}} {domain_name = "rocmlir", implementation_attrs = "", operator_name = "deref"} : (tensor<1x2x8xi64>) -> tensor<1x2x8xf16>
  %5 = tosa.custom %t {domain_name = "rocmlir", implementation_attrs = "", operator_name = "deref"} : (tensor<1x2x8xi64>) -> tensor<1x2x8xf16>
  return
}

// CHECK-LABEL: func.func @bounds
func.func @bounds(%a: tensor<2x3xf16>, %b: tensor<2x3xi8>) {
  %value = "tosa.const"() <{values = dense<0.5> : tensor<1xf16>}> : () -> tensor<1xf16>
  %around = tosa.const_shape {values = dense<[0, 1, 2, 0]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %older = "tosa.const"() <{value = dense<[[0, 1], [2, 0]]> : tensor<2x2xi32>}> : () -> tensor<2x2xi32>
  // CHECK: tosa.pad %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x3xf16>, !tosa.shape<4>, tensor<1xf16>) -> tensor<3x5xf16>
  %0 = tosa.pad %a, %around, %value : (tensor<2x3xf16>, !tosa.shape<4>, tensor<1xf16>) -> tensor<3x5xf16>
  // CHECK-NEXT: tosa.pad %{{.*}}, %{{.*}} : (tensor<2x3xf16>, tensor<2x2xi32>) -> tensor<3x5xf16>
  %1 = tosa.pad %a, %older : (tensor<2x3xf16>, tensor<2x2xi32>) -> tensor<3x5xf16>
  // CHECK-NEXT: tosa.clamp %{{.*}} {min_val = -1.000000e+00 : f16, max_val = 1.000000e+00 : f16} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  %2 = tosa.clamp %a {min_val = -1.0 : f16, max_val = 1.0 : f16} : (tensor<2x3xf16>) -> tensor<2x3xf16>
  // CHECK-NEXT: tosa.clamp %{{.*}} {min_int = 0 : i64, max_int = 6 : i64, min_fp = 0.000000e+00 : f32, max_fp = 6.000000e+00 : f32} : (tensor<2x3xi8>) -> tensor<2x3xi8>
  %3 = tosa.clamp %b {min_int = 0 : i64, max_int = 6 : i64, min_fp = 0.0 : f32, max_fp = 6.0 : f32} : (tensor<2x3xi8>) -> tensor<2x3xi8>
  // CHECK-NEXT: tosa.logical_left_shift %{{.*}}, %{{.*}} : (tensor<2x3xi8>, tensor<2x3xi8>) -> tensor<2x3xi8>
  %4 = tosa.logical_left_shift %b, %b : (tensor<2x3xi8>, tensor<2x3xi8>) -> tensor<2x3xi8>
  // CHECK-NEXT: tosa.logical_right_shift
  %5 = tosa.logical_right_shift %b, %b : (tensor<2x3xi8>, tensor<2x3xi8>) -> tensor<2x3xi8>
  // CHECK-NEXT: tosa.arithmetic_right_shift %{{.*}}, %{{.*}} {round = false} : (tensor<2x3xi8>, tensor<2x3xi8>) -> tensor<2x3xi8>
  %6 = tosa.arithmetic_right_shift %b, %b {round = false} : (tensor<2x3xi8>, tensor<2x3xi8>) -> tensor<2x3xi8>
  return
}
