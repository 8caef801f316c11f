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

// CHECK-LABEL: func.func @more_views
func.func @more_views(%a: !migraphx.shaped<2x3x4xf16, 12x4x1>) {
  // CHECK-NEXT: migraphx.flatten %{{.*}} {axis = 1 : i64} : <2x3x4xf16, 12x4x1> -> <2x12xf16, 12x1>
  %0 = migraphx.flatten %a {axis = 1 : i64} : <2x3x4xf16, 12x4x1> -> <2x12xf16, 12x1>
  // CHECK-NEXT: migraphx.flatten %{{.*}} {axis = 0 : i64} : <2x3x4xf16, 12x4x1> -> <1x24xf16, 24x1>
  %1 = migraphx.flatten %a {axis = 0 : i64} : <2x3x4xf16, 12x4x1> -> <1x24xf16, 24x1>
  // CHECK-NEXT: migraphx.pad %{{.*}} {mode = 0 : i32, pads = [0, 1, 0, 0, 0, 2], value = 0.000000e+00 : f32} : <2x3x4xf16, 12x4x1> -> <2x4x6xf16, 24x6x1>
  %2 = migraphx.pad %a {mode = 0 : i32, pads = [0, 1, 0, 0, 0, 2], value = 0.000000e+00 : f32} : <2x3x4xf16, 12x4x1> -> <2x4x6xf16, 24x6x1>
  // CHECK-NEXT: %[[T:.*]] = migraphx.mlir.as.logical.shape %{{.*}} : <2x3x4xf16, 12x4x1> to tensor<2x3x4xf16>
  %3 = migraphx.mlir.as.logical.shape %a : <2x3x4xf16, 12x4x1> to tensor<2x3x4xf16>
  // CHECK-NEXT: migraphx.mlir.as.underlying.shape %[[T]] : tensor<2x3x4xf16> to <2x3x4xf16, 12x1x3>
  %4 = migraphx.mlir.as.underlying.shape %3 : tensor<2x3x4xf16> to <2x3x4xf16, 12x1x3>
  return
}

// CHECK-LABEL: func.func @quantized
func.func @quantized(%x: !migraphx.shaped<2x4xf32, 4x1>, %s: !migraphx.shaped<1x4xf32, 4x1>, %z: !migraphx.shaped<1x4xsi8, 4x1>, %u: !migraphx.shaped<2x4xui8, 4x1>, %f: !migraphx.shaped<2x4xf8E4M3FNUZ, 4x1>) {
  // CHECK-NEXT: %[[Q:.*]] = migraphx.quantizelinear %{{.*}}, %{{.*}}, %{{.*}} : <2x4xf32, 4x1>, <1x4xf32, 4x1>, <1x4xsi8, 4x1> -> <2x4xsi8, 4x1>
  %0 = migraphx.quantizelinear %x, %s, %z : <2x4xf32, 4x1>, <1x4xf32, 4x1>, !migraphx.shaped<1x4xsi8, 4x1> -> <2x4xsi8, 4x1>
  // CHECK-NEXT: migraphx.quantizelinear %{{.*}}, %{{.*}} : <2x4xf32, 4x1>, <1x4xf32, 4x1> -> <2x4xi8, 4x1>
  %1 = migraphx.quantizelinear %x, %s : <2x4xf32, 4x1>, <1x4xf32, 4x1> -> <2x4xi8, 4x1>
  // CHECK-NEXT: migraphx.dequantizelinear %[[Q]], %{{.*}}, %{{.*}} : <2x4xsi8, 4x1>, <1x4xf32, 4x1>, <1x4xsi8, 4x1> -> <2x4xf32, 4x1>
  %2 = migraphx.dequantizelinear %0, %s, %z : <2x4xsi8, 4x1>, <1x4xf32, 4x1>, <1x4xsi8, 4x1> -> <2x4xf32, 4x1>
  // CHECK-NEXT: migraphx.dequantizelinear %{{.*}}, %{{.*}} : <2x4xui8, 4x1>, <1x4xf32, 4x1> -> <2x4xf32, 4x1>
  %3 = migraphx.dequantizelinear %u, %s : <2x4xui8, 4x1>, <1x4xf32, 4x1> -> <2x4xf32, 4x1>
  %4 = migraphx.transpose %1 {permutation = [1, 0]} : <2x4xi8, 4x1> -> <4x2xi8, 1x4>
  // CHECK: migraphx.quant_dot %{{.*}}, %{{.*}} {perf_config = "x"} : <2x4xi8, 4x1>, <4x2xi8, 1x4> -> <2x2xi32, 2x1>
  %5 = migraphx.quant_dot %1, %4 {perf_config = "x"} : <2x4xi8, 4x1>, <4x2xi8, 1x4> -> <2x2xi32, 2x1>
  %6 = migraphx.transpose %f {permutation = [1, 0]} : <2x4xf8E4M3FNUZ, 4x1> -> <4x2xf8E4M3FNUZ, 1x4>
  // CHECK: migraphx.quant_dot %{{.*}}, %{{.*}} : <2x4xf8E4M3FNUZ, 4x1>, <4x2xf8E4M3FNUZ, 1x4> -> <2x2xf32, 2x1>
  %7 = migraphx.quant_dot %f, %6 : <2x4xf8E4M3FNUZ, 4x1>, <4x2xf8E4M3FNUZ, 1x4> -> <2x2xf32, 2x1>
  // CHECK-NEXT: migraphx.unpack %{{.*}} {axis = 1 : i64} : <2x4xui8, 4x1> -> <2x8xui8, 8x1>
  %8 = migraphx.unpack %u {axis = 1 : i64} : <2x4xui8, 4x1> -> <2x8xui8, 8x1>
  // CHECK-NEXT: migraphx.unpack %{{.*}} {isUnsigned = false, axis = -2 : i64} : <2x4xi8, 4x1> -> <4x4xi8, 4x1>
  %9 = migraphx.unpack %1 {isUnsigned = false, axis = -2 : i64} : <2x4xi8, 4x1> -> <4x4xi8, 4x1>
  return
}

// CHECK-LABEL: func.func @attention
func.func @attention(%q: !migraphx.shaped<1x4x2x8xf16, 64x16x8x1>, %k: !migraphx.shaped<1x2x8x6xf16, 96x48x6x1>, %v: !migraphx.shaped<1x2x6x8xf16, 96x48x8x1>, %b: !migraphx.shaped<1x4x2x6xf16, 48x12x6x1>, %l: !migraphx.shaped<1x4xsi32, 4x1>, %o: !migraphx.shaped<1x4xi32, 4x1>) {
  // CHECK-NEXT: migraphx.attention %{{.*}}, %{{.*}}, %{{.*}} {
  // CHECK-NEXT: } : <1x4x2x8xf16, 64x16x8x1>, <1x2x8x6xf16, 96x48x6x1>, <1x2x6x8xf16, 96x48x8x1> -> <1x4x2x8xf16, 64x16x8x1>
  %0 = migraphx.attention %q, %k, %v {
  } : <1x4x2x8xf16, 64x16x8x1>, <1x2x8x6xf16, 96x48x6x1>, <1x2x6x8xf16, 96x48x8x1> -> <1x4x2x8xf16, 64x16x8x1>
  // CHECK-NEXT: migraphx.attention %{{.*}}, %{{.*}}, %{{.*}} pre_softmax_inputs(%{{.*}} : !migraphx.shaped<1x4x2x6xf16, 48x12x6x1>) current_seq_len(%{{.*}} : !migraphx.shaped<1x4xsi32, 4x1>) prefix_offset(%{{.*}} : !migraphx.shaped<1x4xi32, 4x1>) {
  // CHECK-NEXT: ^{{.*}}(%[[QK:.*]]: !migraphx.shaped<1x4x2x6xf16, 48x12x6x1>, %[[BIAS:.*]]: !migraphx.shaped<1x4x2x6xf16, 48x12x6x1>):
  // CHECK-NEXT: %[[SUM:.*]] = migraphx.add %[[QK]], %[[BIAS]]
  // CHECK-NEXT: migraphx.yield %[[SUM]] : !migraphx.shaped<1x4x2x6xf16, 48x12x6x1>
  // CHECK-NEXT: } softmax_type = f32 features = "kvcache|causal|prefix_offset|sliding_window" slidingWindowSize = 3 {perf_config = "attn:v3"} : <1x4x2x8xf16, 64x16x8x1>, <1x2x8x6xf16, 96x48x6x1>, <1x2x6x8xf16, 96x48x8x1> -> <1x4x2x8xf16, 64x16x8x1>, !migraphx.shaped<1x4x2xf32, 8x2x1>
  %1, %2 = migraphx.attention %q, %k, %v
    pre_softmax_inputs(%b : !migraphx.shaped<1x4x2x6xf16, 48x12x6x1>)
    current_seq_len(%l : !migraphx.shaped<1x4xsi32, 4x1>)
    prefix_offset(%o : <1x4xi32, 4x1>) {
    ^bb0(%qk: !migraphx.shaped<1x4x2x6xf16, 48x12x6x1>, %bias: !migraphx.shaped<1x4x2x6xf16, 48x12x6x1>):
      %sum = migraphx.add %qk, %bias : <1x4x2x6xf16, 48x12x6x1>, <1x4x2x6xf16, 48x12x6x1> -> <1x4x2x6xf16, 48x12x6x1>
      migraphx.yield %sum : !migraphx.shaped<1x4x2x6xf16, 48x12x6x1>
    } softmax_type = f32 features = "kvcache|causal|sliding_window|prefix_offset" slidingWindowSize = 3 {perf_config = "attn:v3"}
    : <1x4x2x8xf16, 64x16x8x1>, <1x2x8x6xf16, 96x48x6x1>, <1x2x6x8xf16, 96x48x8x1>
    -> !migraphx.shaped<1x4x2x8xf16, 64x16x8x1>, !migraphx.shaped<1x4x2xf32, 8x2x1>
  // CHECK: } features = splitkv splitKV = 3 : {{.*}} -> <1x4x3x2x8xf16, 192x48x16x8x1>, !migraphx.shaped<1x4x3x2xf16, 24x6x2x1>
  %3, %4 = migraphx.attention %q, %k, %v {
    ^bb0(%qk: !migraphx.shaped<1x4x3x2x2xf16, 48x12x4x2x1>):
      migraphx.yield
    } features = splitkv splitKV = 3
    : <1x4x2x8xf16, 64x16x8x1>, <1x2x8x6xf16, 96x48x6x1>, <1x2x6x8xf16, 96x48x8x1>
    -> <1x4x3x2x8xf16, 192x48x16x8x1>, <1x4x3x2xf16, 24x6x2x1>
  return
}
