// RUN: XPAGED_ROUNDTRIP
// RUN: XPAGED_GENERIC_ROUNDTRIP

// CHECK-LABEL: func.func @constants
func.func @constants() {
  // CHECK-NEXT: %{{.*}} = migraphx.literal(dense<[0, 1, 2]> : tensor<3xsi32>) : <3xsi32, 1>
  %0 = migraphx.literal(dense<[0, 1, 2]> : tensor<3xsi32>) : <3xsi32, 1>
  // CHECK-NEXT: %{{.*}} = migraphx.literal(dense<1.500000e+00> : tensor<1xf16>) : <4x5xf16, 0x0>
  %1 = migraphx.literal (dense<1.5> : tensor<1xf16>) : !migraphx.shaped<4x5xf16, 0x0>
  // CHECK-NEXT: %{{.*}} = migraphx.literal(dense<2.000000e+00> : tensor<f32>) : <f32>
  %2 = "migraphx.literal"() {value = dense<2.0> : tensor<f32>} : () -> !migraphx.shaped<f32>
  return
}

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%a: !migraphx.shaped<2x3xf16, 3x1>, %b: !migraphx.shaped<1x3xf16, 3x1>, %c: !migraphx.shaped<2x3xsi8, 3x1>) {
  // CHECK-NEXT: migraphx.add %{{.*}}, %{{.*}} : <2x3xf16, 3x1>, <1x3xf16, 3x1> -> <2x3xf16, 3x1>
  %0 = migraphx.add %a, %b : <2x3xf16, 3x1>, <1x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.sub
  %1 = migraphx.sub %a, %a : !migraphx.shaped<2x3xf16, 3x1>, !migraphx.shaped<2x3xf16, 3x1> -> !migraphx.shaped<2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.mul
  %2 = migraphx.mul %a, %a : <2x3xf16, 3x1>, <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.div
  %3 = migraphx.div %a, %a : <2x3xf16, 3x1>, <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.pow
  %4 = migraphx.pow %a, %a : <2x3xf16, 3x1>, <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.max
  %5 = migraphx.max %a, %a : <2x3xf16, 3x1>, <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.min
  %6 = migraphx.min %a, %a : <2x3xf16, 3x1>, <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.equal
  %7 = migraphx.equal %a, %a : <2x3xf16, 3x1>, <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.greater
  %8 = migraphx.greater %a, %a : <2x3xf16, 3x1>, <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.clip %{{.*}}, %{{.*}}, %{{.*}} : <2x3xf16, 3x1>, <1x3xf16, 3x1>, <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  %9 = migraphx.clip %a, %b, %a : <2x3xf16, 3x1>, <1x3xf16, 3x1>, <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.where %{{.*}}, %{{.*}}, %{{.*}} : <2x3xsi8, 3x1>, <2x3xf16, 3x1>, <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  %10 = migraphx.where %c, %a, %a : <2x3xsi8, 3x1>, <2x3xf16, 3x1>, <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.convert %{{.*}} {target_type = 2 : i64} : <2x3xf16, 3x1> to <2x3xf32, 3x1>
  %11 = migraphx.convert %a {target_type = 2 : i64} : <2x3xf16, 3x1> to <2x3xf32, 3x1>
  // CHECK-NEXT: migraphx.abs %{{.*}} : <2x3xsi8, 3x1> -> <2x3xsi8, 3x1>
  %12 = migraphx.abs %c : <2x3xsi8, 3x1> -> <2x3xsi8, 3x1>
  // CHECK-NEXT: migraphx.neg
  %13 = migraphx.neg %a : <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.relu
  %14 = migraphx.relu %a : <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.ceil
  %15 = migraphx.ceil %a : <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.floor
  %16 = migraphx.floor %a : <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.erf
  %17 = migraphx.erf %a : <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.exp
  %18 = migraphx.exp %a : <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.log
  %19 = migraphx.log %a : <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.recip
  %20 = migraphx.recip %a : <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.rsqrt
  %21 = migraphx.rsqrt %a : <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.sigmoid
  %22 = migraphx.sigmoid %a : <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.sqrt
  %23 = migraphx.sqrt %a : <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  // CHECK-NEXT: migraphx.tanh
  %24 = migraphx.tanh %a : <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  return
}

// CHECK-LABEL: func.func @views
func.func @views(%a: !migraphx.shaped<2x3x4xf16, 12x4x1>) {
  // CHECK-NEXT: migraphx.transpose %{{.*}} {permutation = [2, 0, 1]} : <2x3x4xf16, 12x4x1> -> <4x2x3xf16, 1x12x4>
  %0 = migraphx.transpose %a {permutation = [2, 0, 1]} : <2x3x4xf16, 12x4x1> -> <4x2x3xf16, 1x12x4>
  // CHECK-NEXT: migraphx.reshape %{{.*}} {dims = [6, -1]} : <2x3x4xf16, 12x4x1> -> <6x4xf16, 4x1>
  %1 = migraphx.reshape %a {dims = [6, -1]} : <2x3x4xf16, 12x4x1> -> <6x4xf16, 4x1>
  // CHECK-NEXT: migraphx.slice %{{.*}} {axes = [1], ends = [3], starts = [1]} : <2x3x4xf16, 12x4x1> -> <2x2x4xf16, 12x4x1>
  %2 = migraphx.slice %a {axes = [1], ends = [3], starts = [1]} : <2x3x4xf16, 12x4x1> -> <2x2x4xf16, 12x4x1>
  // CHECK-NEXT: migraphx.broadcast %{{.*}} {axis = 1 : i64, out_lens = [5, 2, 3, 4]} : <2x3x4xf16, 12x4x1> -> <5x2x3x4xf16, 0x12x4x1>
  %3 = migraphx.broadcast %a {axis = 1 : i64, out_lens = [5, 2, 3, 4]} : <2x3x4xf16, 12x4x1> -> <5x2x3x4xf16, 0x12x4x1>
  // CHECK-NEXT: migraphx.multibroadcast %{{.*}} {out_dyn_dims = [], out_lens = [5, 2, 3, 4]}
  %4 = migraphx.multibroadcast %a {out_dyn_dims = [], out_lens = [5, 2, 3, 4]} : <2x3x4xf16, 12x4x1> -> <5x2x3x4xf16, 0x12x4x1>
  return
}

// CHECK-LABEL: func.func @reductions
func.func @reductions(%a: !migraphx.shaped<2x3x4xf16, 12x4x1>, %b: !migraphx.shaped<4x5xf16, 5x1>) {
  // CHECK-NEXT: migraphx.softmax %{{.*}} {axis = 2 : i64} : <2x3x4xf16, 12x4x1> -> <2x3x4xf16, 12x4x1>
  %0 = migraphx.softmax %a {axis = 2 : i64} : <2x3x4xf16, 12x4x1> -> <2x3x4xf16, 12x4x1>
  // CHECK-NEXT: migraphx.reduce_max %{{.*}} {axes = [2]} : <2x3x4xf16, 12x4x1> -> <2x3x1xf16, 3x1x1>
  %1 = migraphx.reduce_max %a {axes = [2]} : <2x3x4xf16, 12x4x1> -> <2x3x1xf16, 3x1x1>
  // CHECK-NEXT: migraphx.reduce_sum %{{.*}} {axes = [-1, 0]}
  %2 = migraphx.reduce_sum %a {axes = [-1, 0]} : <2x3x4xf16, 12x4x1> -> <1x3x1xf16, 3x1x1>
  // CHECK-NEXT: migraphx.reduce_mean
  %3 = migraphx.reduce_mean %a {axes = [2]} : <2x3x4xf16, 12x4x1> -> <2x3x1xf16, 3x1x1>
  // CHECK-NEXT: migraphx.dot %{{.*}}, %{{.*}} : <2x3x4xf16, 12x4x1>, <4x5xf16, 5x1> -> <2x3x5xf16, 15x5x1>
  %4 = migraphx.dot %a, %b : <2x3x4xf16, 12x4x1>, <4x5xf16, 5x1> -> <2x3x5xf16, 15x5x1>
  return
}

// CHECK-LABEL: func.func @pages
func.func @pages(%a: !migraphx.shaped<1x2x8xui64, 16x8x1>) {
  // CHECK-NEXT: migraphx.deref %{{.*}} : <1x2x8xui64, 16x8x1> -> <1x2x8xf16, 16x8x1>
  %0 = migraphx.deref %a : <1x2x8xui64, 16x8x1> -> <1x2x8xf16, 16x8x1>
  return
}
