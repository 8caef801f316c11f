// RUN: XPAGED_INVALID

func.func @matmul(%a: tensor<5x2x4xf16>) {
  %0 = tosa.matmul %a, %a : (tensor<5x2x4xf16>, tensor<5x2x4xf16>) -> tensor<5x2x4xf16>
  return
}
// CHECK: 'tosa.matmul' op: [5, 2, 4] and [5, 2, 4] do not multiply

// -----

func.func @zero_point(%a: tensor<2x3xf16>, %z: tensor<1xf16>) {
  %0 = tosa.negate %a, %z, %z : (tensor<2x3xf16>, tensor<1xf16>, tensor<1xf16>) -> tensor<2x3xf16>
  return
}
// CHECK: 'tosa.negate' op: a shift or zero point must be the constant 0, found tensor<1xf16>

// -----

func.func @broadcast(%a: tensor<2x3xf16>, %b: tensor<3x2xf16>) {
  %0 = tosa.add %a, %b : (tensor<2x3xf16>, tensor<3x2xf16>) -> tensor<2x3xf16>
  return
}
// CHECK: 'tosa.add' op: operand of shape [3, 2] does not broadcast to the result's [2, 3]

// -----

func.func @reshape(%a: tensor<2x3xf16>) {
  %0 = tosa.reshape %a {new_shape = array<i64: 3, 3>} : (tensor<2x3xf16>) -> tensor<3x3xf16>
  return
}
// CHECK: 'tosa.reshape' op: [2, 3] has 6 elements, [3, 3] has 9

// -----

func.func @dynamic(%a: tensor<?x3xf16>) {
  %0 = tosa.exp %a : (tensor<?x3xf16>) -> tensor<?x3xf16>
  return
}
// CHECK: 'tosa.exp' op: dynamic shapes are not supported, found tensor<?x3xf16>

// -----

func.func @pad(%a: tensor<2x3xf16>) {
  %p = tosa.const_shape {values = dense<[0, 1]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %0 = tosa.pad %a, %p : (tensor<2x3xf16>, !tosa.shape<2>) -> tensor<2x3xf16>
  return
}
// CHECK: 'tosa.pad' op: expected two numbers of 0 or more for each of 2 dimensions, found [0, 1]

// -----

func.func @clamp(%a: tensor<2x3xi8>) {
  %0 = tosa.clamp %a {min_val = 5 : i8, max_val = -5 : i8} : (tensor<2x3xi8>) -> tensor<2x3xi8>
  return
}
// CHECK: 'tosa.clamp' op: expected bounds in order, found 5 and -5

// -----

func.func @custom(%a: tensor<2x3xf16>) {
  %0 = tosa.custom %a {domain_name = "rocmlir", implementation_attrs = "", operator_name = "fp_to_int_cast"} : (tensor<2x3xf16>) -> tensor<2x3xf32>
  return
}
// CHECK: 'tosa.custom' op 'fp_to_int_cast': takes no f16 to f32
