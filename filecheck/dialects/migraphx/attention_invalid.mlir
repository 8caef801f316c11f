// RUN: XPAGED_INVALID

func.func @rank(%q: !migraphx.shaped<128xf16, 1>, %k: !migraphx.shaped<2x128x256xf16, 32768x256x1>, %v: !migraphx.shaped<2x256x64xf16, 16384x64x1>) {
  %0 = migraphx.attention %q, %k, %v {
  } : <128xf16, 1>, <2x128x256xf16, 32768x256x1>, <2x256x64xf16, 16384x64x1> -> <64xf16, 1>
  return
}
// CHECK: 'migraphx.attention' op: Q, K and V must all have rank 3 or all rank 4, found queries of shape [128]

// -----

func.func @head_dim(%q: !migraphx.shaped<2x64x128xf16, 8192x128x1>, %k: !migraphx.shaped<2x64x256xf16, 16384x256x1>, %v: !migraphx.shaped<2x256x64xf16, 16384x64x1>) {
  %0 = migraphx.attention %q, %k, %v {
  } : <2x64x128xf16, 8192x128x1>, <2x64x256xf16, 16384x256x1>, <2x256x64xf16, 16384x64x1> -> <2x64x64xf16, 4096x64x1>
  return
}
// CHECK: queries [2, 64, 128] have head dimension 128, keys [2, 64, 256] have 64

// -----

func.func @heads(%q: !migraphx.shaped<2x3x32x64xf16, 6144x2048x64x1>, %k: !migraphx.shaped<2x2x64x32xf16, 4096x2048x32x1>, %v: !migraphx.shaped<2x2x32x64xf16, 4096x2048x64x1>) {
  %0 = migraphx.attention %q, %k, %v {
  } : <2x3x32x64xf16, 6144x2048x64x1>, <2x2x64x32xf16, 4096x2048x32x1>, <2x2x32x64xf16, 4096x2048x64x1> -> <2x3x32x64xf16, 6144x2048x64x1>
  return
}
// CHECK: 3 heads of queries are no multiple of 2 heads of keys and values

// -----

func.func @index(%q: !migraphx.shaped<2x64x128xf16, 8192x128x1>, %k: !migraphx.shaped<2x128x256xf16, 32768x256x1>, %v: !migraphx.shaped<2x256x64xf16, 16384x64x1>) {
  %0 = migraphx.attention %q, %k, %v {
  } features = kvcache : <2x64x128xf16, 8192x128x1>, <2x128x256xf16, 32768x256x1>, <2x256x64xf16, 16384x64x1> -> <2x64x64xf16, 4096x64x1>
  return
}
// CHECK: feature 'kvcache' requires the operand 'current_seq_len'

// -----

func.func @orphan(%q: !migraphx.shaped<2x64x128xf16, 8192x128x1>, %k: !migraphx.shaped<2x128x256xf16, 32768x256x1>, %v: !migraphx.shaped<2x256x64xf16, 16384x64x1>, %l: !migraphx.shaped<2xi32, 1>) {
  %0 = migraphx.attention %q, %k, %v current_seq_len(%l : !migraphx.shaped<2xi32, 1>) {
  } : <2x64x128xf16, 8192x128x1>, <2x128x256xf16, 32768x256x1>, <2x256x64xf16, 16384x64x1> -> <2x64x64xf16, 4096x64x1>
  return
}
// CHECK: the operand 'current_seq_len' requires feature 'kvcache'

// -----

func.func @window(%q: !migraphx.shaped<2x64x128xf16, 8192x128x1>, %k: !migraphx.shaped<2x128x256xf16, 32768x256x1>, %v: !migraphx.shaped<2x256x64xf16, 16384x64x1>, %l: !migraphx.shaped<2xi32, 1>) {
  %0 = migraphx.attention %q, %k, %v current_seq_len(%l : !migraphx.shaped<2xi32, 1>) {
  } features = "kvcache|sliding_window" slidingWindowSize = 999 : <2x64x128xf16, 8192x128x1>, <2x128x256xf16, 32768x256x1>, <2x256x64xf16, 16384x64x1> -> <2x64x64xf16, 4096x64x1>
  return
}
// CHECK: slidingWindowSize must lie between 1 and the key sequence length 256, found 999

// -----

func.func @split(%q: !migraphx.shaped<2x64x128xf16, 8192x128x1>, %k: !migraphx.shaped<2x128x256xf16, 32768x256x1>, %v: !migraphx.shaped<2x256x64xf16, 16384x64x1>) {
  %0, %1 = migraphx.attention %q, %k, %v {
  } features = splitkv splitKV = 3 : <2x64x128xf16, 8192x128x1>, <2x128x256xf16, 32768x256x1>, <2x256x64xf16, 16384x64x1> -> <2x3x64x64xf16, 12288x4096x64x1>, !migraphx.shaped<2x3x64xf32, 192x64x1>
  return
}
// CHECK: key sequence length (256) must be divisible by splitKV (3)

// -----

func.func @body(%q: !migraphx.shaped<2x64x128xf16, 8192x128x1>, %k: !migraphx.shaped<2x128x256xf16, 32768x256x1>, %v: !migraphx.shaped<2x256x64xf16, 16384x64x1>, %b: !migraphx.shaped<2x64x256xf16, 16384x256x1>) {
  %0 = migraphx.attention %q, %k, %v pre_softmax_inputs(%b : !migraphx.shaped<2x64x256xf16, 16384x256x1>) {
  ^bb0(%x: !migraphx.shaped<2x64x256xf16, 16384x256x1>, %y: !migraphx.shaped<2x64x256xf16, 16384x256x1>):
    %z = migraphx.softmax %x {axis = 2 : i64} : <2x64x256xf16, 16384x256x1> -> <2x64x256xf16, 16384x256x1>
    migraphx.yield %z : !migraphx.shaped<2x64x256xf16, 16384x256x1>
  } : <2x64x128xf16, 8192x128x1>, <2x128x256xf16, 32768x256x1>, <2x256x64xf16, 16384x64x1> -> <2x64x64xf16, 4096x64x1>
  return
}
// CHECK: 'migraphx.softmax' op: the body of an attention holds elementwise operations only: add, sub, mul, div, pow, neg, abs, ceil, floor, exp, log, sqrt, tanh, erf, recip, relu, sigmoid, where, convert, dequantizelinear
