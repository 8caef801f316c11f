// RUN: xpaged-opt %s -p migraphx-to-tosa --split-input-file | filecheck %s

// Addresses: signs are dropped, the read keeps its name.

// CHECK-LABEL: func.func @deref(%t: tensor<2xi64>) -> tensor<8xf16>
func.func @deref(%t: !migraphx.shaped<1x2xui64, 2x1>) -> !migraphx.shaped<1x2x4xf16, 8x4x1> {
  // CHECK: %[[OFFSETS:.*]] = "tosa.const"() <{values = dense<[0, 2, 4, 6]> : tensor<4xi64>}> : () -> tensor<4xi64>
  %offsets = migraphx.literal(dense<[0, 2, 4, 6]> : tensor<4xui64>) : <4xui64, 1>
  %pointers = migraphx.reshape %t {dims = [1, 2, 1]} : <1x2xui64, 2x1> -> <1x2x1xui64, 2x1x1>
  // CHECK: tosa.mul %{{.*}}, %{{.*}}, %{{.*}} : (tensor<1x2x1xi64>, tensor<1x2x4xi64>, tensor<1xi8>) -> tensor<1x2x4xi64>
  %bases = migraphx.multibroadcast %pointers {out_dyn_dims = [], out_lens = [1, 2, 4]} : <1x2x1xui64, 2x1x1> -> <1x2x4xui64, 2x1x0>
  %positions = migraphx.broadcast %offsets {axis = 2 : i64, out_lens = [1, 2, 4]} : <4xui64, 1> -> <1x2x4xui64, 0x0x1>
  // CHECK: %[[ADDRESSES:.*]] = tosa.add %{{.*}}, %{{.*}} : (tensor<1x2x4xi64>, tensor<1x2x4xi64>) -> tensor<1x2x4xi64>
  %addresses = migraphx.add %bases, %positions : <1x2x4xui64, 2x1x0>, <1x2x4xui64, 0x0x1> -> <1x2x4xui64, 8x4x1>
  // CHECK: tosa.custom %[[ADDRESSES]] {domain_name = "rocmlir", implementation_attrs = "", operator_name = "deref"} : (tensor<1x2x4xi64>) -> tensor<1x2x4xf16>
  %elements = migraphx.deref %addresses : <1x2x4xui64, 8x4x1> -> <1x2x4xf16, 8x4x1>
  return %elements : !migraphx.shaped<1x2x4xf16, 8x4x1>
}

// -----

// Arguments lie in memory as their strides say.

// CHECK-LABEL: func.func @strides(%a: tensor<30xf32>) -> tensor<60xf32>
// CHECK: tosa.reshape %a, %{{.*}} : (tensor<30xf32>, !tosa.shape<3>) -> tensor<5x6x1xf32>
// CHECK: tosa.transpose %{{.*}} {perms = array<i32: 1, 2, 0>} : (tensor<5x6x1xf32>) -> tensor<6x1x5xf32>
// CHECK: tosa.slice %{{.*}} : (tensor<6x1x5xf32>, !tosa.shape<3>, !tosa.shape<3>) -> tensor<4x1x5xf32>
// CHECK: tosa.mul %{{.*}} : (tensor<4x1x5xf32>, tensor<4x3x5xf32>, tensor<1xi8>) -> tensor<4x3x5xf32>
// CHECK: tosa.floor
// CHECK: tosa.reshape %{{.*}} : (tensor<4x3x5xf32>, !tosa.shape<1>) -> tensor<60xf32>
func.func @strides(%a: !migraphx.shaped<4x3x5xf32, 1x0x6>) -> !migraphx.shaped<4x3x5xf32, 15x5x1> {
  %0 = migraphx.floor %a : <4x3x5xf32, 1x0x6> -> <4x3x5xf32, 15x5x1>
  return %0 : !migraphx.shaped<4x3x5xf32, 15x5x1>
}

// -----

// CHECK-LABEL: func.func @softmax
// CHECK: %[[TOP:.*]] = tosa.reduce_max %[[X:.*]] {axis = 1 : i32} : (tensor<2x3xf16>) -> tensor<2x1xf16>
// CHECK-NEXT: %[[D:.*]] = tosa.sub %[[X]], %[[TOP]]
// CHECK-NEXT: %[[E:.*]] = tosa.exp %[[D]]
// CHECK-NEXT: %[[S:.*]] = tosa.reduce_sum %[[E]] {axis = 1 : i32}
// CHECK-NEXT: %[[R:.*]] = tosa.reciprocal %[[S]]
// CHECK: tosa.mul %[[E]], %[[R]]
func.func @softmax(%x: !migraphx.shaped<2x3xf16, 3x1>) -> !migraphx.shaped<2x3xf16, 3x1> {
  %0 = migraphx.softmax %x {axis = 1 : i64} : <2x3xf16, 3x1> -> <2x3xf16, 3x1>
  return %0 : !migraphx.shaped<2x3xf16, 3x1>
}

// -----

// Truth values are i1 here and integers there.

// CHECK-LABEL: func.func @where
// CHECK: %[[G:.*]] = tosa.greater %{{.*}} -> tensor<2xi1>
// CHECK-NEXT: %[[I:.*]] = tosa.cast %[[G]] : (tensor<2xi1>) -> tensor<2xi32>
// CHECK-NEXT: %[[B:.*]] = tosa.cast %[[I]] : (tensor<2xi32>) -> tensor<2xi8>
// CHECK-NEXT: %[[C:.*]] = tosa.cast %[[B]] : (tensor<2xi8>) -> tensor<2xi1>
// CHECK-NEXT: tosa.select %[[C]]
func.func @where(%a: !migraphx.shaped<2xsi32, 1>, %b: !migraphx.shaped<2xsi32, 1>) -> !migraphx.shaped<2xsi32, 1> {
  %0 = migraphx.greater %a, %b : <2xsi32, 1>, <2xsi32, 1> -> <2xsi32, 1>
  %1 = migraphx.convert %0 {target_type = 0 : i64} : <2xsi32, 1> to <2xsi8, 1>
  %2 = migraphx.where %1, %a, %b : <2xsi8, 1>, <2xsi32, 1>, <2xsi32, 1> -> <2xsi32, 1>
  return %2 : !migraphx.shaped<2xsi32, 1>
}
