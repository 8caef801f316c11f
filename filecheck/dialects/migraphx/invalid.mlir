// RUN: XPAGED_INVALID

func.func @deref_signed(%a: !migraphx.shaped<1x2x8xsi64, 16x8x1>) {
  %0 = migraphx.deref %a : <1x2x8xsi64, 16x8x1> -> <1x2x8xf16, 16x8x1>
  return
}
// CHECK: 'migraphx.deref' op: the addresses must be ui64, found si64

// -----

func.func @deref_shape(%a: !migraphx.shaped<1x2x8xui64, 16x8x1>) {
  %0 = migraphx.deref %a : <1x2x8xui64, 16x8x1> -> <1x2x4xf16, 8x4x1>
  return
}
// CHECK: 'migraphx.deref' op: input and output must have the same shape, found [1, 2, 8] and [1, 2, 4]

// -----

func.func @deref_strides(%a: !migraphx.shaped<1x2x8xui64, 16x8x1>) {
  %0 = migraphx.deref %a : <1x2x8xui64, 16x8x1> -> <1x2x8xf16, 32x8x1>
  return
}
// CHECK: 'migraphx.deref' op: input and output must have the same strides, found [16, 8, 1] and [32, 8, 1]

// -----

func.func @reshape(%a: !migraphx.shaped<2x4xf16, 4x1>) {
  %0 = migraphx.reshape %a {dims = [3, 5]} : <2x4xf16, 4x1> -> <3x5xf16, 5x1>
  return
}
// CHECK: 'migraphx.reshape' op: input and output element counts do not match: 8 and 15

// -----

func.func @dot(%a: !migraphx.shaped<2x4xf16, 4x1>) {
  %0 = migraphx.dot %a, %a : <2x4xf16, 4x1>, <2x4xf16, 4x1> -> <2x4xf16, 4x1>
  return
}
// CHECK: are incompatible: 4 columns and 2 rows

// -----

func.func @strides(%a: !migraphx.shaped<2x4xf16, 4x1x1>) {
  return
}
// CHECK: migraphx.shaped type has 2 elements in its shape but 3 strides defined

// -----

func.func @missing_strides(%a: !migraphx.shaped<2x4xf16>) {
  return
}
// CHECK: expected `,` and a `x`-separated list in non-scalar migraphx.shaped type
