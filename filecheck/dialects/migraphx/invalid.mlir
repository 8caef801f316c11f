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

// -----

func.func @pad(%a: !migraphx.shaped<2x4xf16, 4x1>) {
  %0 = migraphx.pad %a {mode = 2 : i32, pads = [0, 0, 0, 0], value = 0.0 : f32} : <2x4xf16, 4x1> -> <2x4xf16, 4x1>
  return
}
// CHECK: 'migraphx.pad' op: expected mode 0 (constant), found 2

// -----

func.func @quantizelinear(%x: !migraphx.shaped<2x4xf32, 4x1>, %z: !migraphx.shaped<2x4xi32, 4x1>) {
  %0 = migraphx.quantizelinear %x, %x, %z : <2x4xf32, 4x1>, <2x4xf32, 4x1>, <2x4xi32, 4x1> -> <2x4xi8, 4x1>
  return
}
// CHECK: 'migraphx.quantizelinear' op: {output, bias} must have the same element type, found output: i8, bias: i32

// -----

func.func @quant_dot(%a: !migraphx.shaped<4x4xi8, 4x1>) {
  %0 = migraphx.quant_dot %a, %a : <4x4xi8, 4x1>, <4x4xi8, 4x1> -> <4x4xi8, 4x1>
  return
}
// CHECK: 'migraphx.quant_dot' op: a product of i8 has elements of i32, found i8

// -----

func.func @unpack(%a: !migraphx.shaped<4x4xi8, 4x1>) {
  %0 = migraphx.unpack %a {axis = 1 : i64} : <4x4xi8, 4x1> -> <4x4xi8, 4x1>
  return
}
// CHECK: 'migraphx.unpack' op: the result has shape [4, 4], expected [4, 8]: twice the length of dimension 1
