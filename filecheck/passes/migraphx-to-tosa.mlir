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

// -----

// Floats become integers toward zero, unsigned integers have an operator of their own, signs alone do nothing.

// CHECK-LABEL: func.func @convert
// CHECK: %[[A:.*]] = tosa.custom %a {domain_name = "rocmlir", implementation_attrs = "", operator_name = "fp_to_int_cast"} : (tensor<4xf32>) -> tensor<4xi8>
// CHECK-NEXT: %[[B:.*]] = tosa.custom %a {domain_name = "rocmlir", implementation_attrs = "", operator_name = "unsigned_cast"} : (tensor<4xf32>) -> tensor<4xi8>
// CHECK-NEXT: %[[C:.*]] = tosa.custom %b {domain_name = "rocmlir", implementation_attrs = "", operator_name = "unsigned_cast"} : (tensor<4xi8>) -> tensor<4xf16>
// CHECK-NEXT: %[[D:.*]] = tosa.cast %c : (tensor<4xi8>) -> tensor<4xi32>
// CHECK-NEXT: return %[[A]], %[[B]], %[[C]], %[[D]], %c
func.func @convert(%a: !migraphx.shaped<4xf32, 1>, %b: !migraphx.shaped<4xui8, 1>, %c: !migraphx.shaped<4xsi8, 1>) -> (!migraphx.shaped<4xsi8, 1>, !migraphx.shaped<4xui8, 1>, !migraphx.shaped<4xf16, 1>, !migraphx.shaped<4xsi32, 1>, !migraphx.shaped<4xui8, 1>) {
  %0 = migraphx.convert %a : <4xf32, 1> to <4xsi8, 1>
  %1 = migraphx.convert %a : <4xf32, 1> to <4xui8, 1>
  %2 = migraphx.convert %b : <4xui8, 1> to <4xf16, 1>
  %3 = migraphx.convert %c : <4xsi8, 1> to <4xsi32, 1>
  %4 = migraphx.convert %c : <4xsi8, 1> to <4xui8, 1>
  return %0, %1, %2, %3, %4 : !migraphx.shaped<4xsi8, 1>, !migraphx.shaped<4xui8, 1>, !migraphx.shaped<4xf16, 1>, !migraphx.shaped<4xsi32, 1>, !migraphx.shaped<4xui8, 1>
}

// -----

// Unsigned numbers in signed order: the highest bit is flipped.

// CHECK-LABEL: func.func @unsigned
// CHECK: tosa.custom %a, %b {domain_name = "rocmlir", implementation_attrs = "", operator_name = "unsigned_div"} : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
// CHECK-NEXT: %[[TOP:.*]] = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
// CHECK-NEXT: %[[A:.*]] = tosa.add %a, %[[TOP]]
// CHECK-NEXT: %[[B:.*]] = tosa.add %b, %[[TOP]]
// CHECK-NEXT: %[[G:.*]] = tosa.greater %[[A]], %[[B]]
// CHECK-NEXT: tosa.cast %[[G]] : (tensor<4xi1>) -> tensor<4xi8>
// CHECK: %[[M:.*]] = tosa.maximum
// CHECK-NEXT: tosa.add %[[M]], %[[TOP]]
func.func @unsigned(%a: !migraphx.shaped<4xui8, 1>, %b: !migraphx.shaped<4xui8, 1>) -> (!migraphx.shaped<4xui8, 1>, !migraphx.shaped<4xui8, 1>, !migraphx.shaped<4xui8, 1>) {
  %0 = migraphx.div %a, %b : <4xui8, 1>, <4xui8, 1> -> <4xui8, 1>
  %1 = migraphx.greater %a, %b : <4xui8, 1>, <4xui8, 1> -> <4xui8, 1>
  %2 = migraphx.max %a, %b : <4xui8, 1>, <4xui8, 1> -> <4xui8, 1>
  return %0, %1, %2 : !migraphx.shaped<4xui8, 1>, !migraphx.shaped<4xui8, 1>, !migraphx.shaped<4xui8, 1>
}

// -----

// CHECK-LABEL: func.func @quantize
// CHECK: %[[R:.*]] = tosa.reciprocal
// CHECK: %[[X:.*]] = tosa.mul %{{.*}}, %[[R]]
// CHECK-NEXT: %[[I:.*]] = tosa.cast %[[X]] : (tensor<2x4xf16>) -> tensor<2x4xi32>
// CHECK-NEXT: %[[Z:.*]] = tosa.custom %{{.*}} {{.*}}operator_name = "unsigned_cast"} : (tensor<1x4xi8>) -> tensor<1x4xi32>
// CHECK-NEXT: %[[N:.*]] = tosa.clamp %[[I]] {min_val = -1048576 : i32, max_val = 1048576 : i32}
// CHECK-NEXT: %[[S:.*]] = tosa.add %[[N]], %[[Z]]
// CHECK-NEXT: %[[C:.*]] = tosa.clamp %[[S]] {min_val = 0 : i32, max_val = 255 : i32}
// CHECK-NEXT: %[[Q:.*]] = tosa.cast %[[C]] : (tensor<2x4xi32>) -> tensor<2x4xi8>
// CHECK-NEXT: %[[F:.*]] = tosa.custom %[[Q]] {{.*}}operator_name = "unsigned_cast"} : (tensor<2x4xi8>) -> tensor<2x4xf32>
// CHECK: %[[D:.*]] = tosa.sub %[[F]], %{{.*}} : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: %[[P:.*]] = tosa.mul %[[D]], %{{.*}} : (tensor<2x4xf32>, tensor<1x4xf32>, tensor<1xi8>) -> tensor<2x4xf32>
// CHECK-NEXT: tosa.cast %[[P]] : (tensor<2x4xf32>) -> tensor<2x4xf16>
func.func @quantize(%x: !migraphx.shaped<2x4xf16, 4x1>, %s: !migraphx.shaped<1x4xf16, 4x1>, %z: !migraphx.shaped<1x4xui8, 4x1>) -> (!migraphx.shaped<2x4xui8, 4x1>, !migraphx.shaped<2x4xf16, 4x1>) {
  %0 = migraphx.quantizelinear %x, %s, %z : <2x4xf16, 4x1>, <1x4xf16, 4x1>, <1x4xui8, 4x1> -> <2x4xui8, 4x1>
  %1 = migraphx.dequantizelinear %0, %s, %z : <2x4xui8, 4x1>, <1x4xf16, 4x1>, <1x4xui8, 4x1> -> <2x4xf16, 4x1>
  return %0, %1 : !migraphx.shaped<2x4xui8, 4x1>, !migraphx.shaped<2x4xf16, 4x1>
}

// -----

// CHECK-LABEL: func.func @products
// CHECK: tosa.matmul {{.*}} {acc_type = i32, perf_config = "p"} : (tensor<2x3x4xi8>, tensor<2x4x5xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3x5xi32>
// CHECK: %[[UP:.*]] = "tosa.const"() <{values = dense<{{\[\[\[}}4, 0]]]> : tensor<1x1x2xi8>}>
// CHECK-NEXT: %[[T:.*]] = tosa.logical_left_shift %{{.*}}, %[[UP]] : (tensor<2x4x1xi8>, tensor<1x1x2xi8>) -> tensor<2x4x2xi8>
// CHECK: tosa.logical_right_shift %[[T]]
// CHECK: %[[VALUE:.*]] = "tosa.const"() <{values = dense<7> : tensor<1xi8>}>
// CHECK-NEXT: %[[AROUND:.*]] = tosa.const_shape {values = dense<[1, 0, 0, 0]> : tensor<4xindex>}
// CHECK-NEXT: tosa.pad %{{.*}}, %[[AROUND]], %[[VALUE]] : (tensor<2x4xi8>, !tosa.shape<4>, tensor<1xi8>) -> tensor<3x4xi8>
func.func @products(%a: !migraphx.shaped<2x3x4xi8, 12x4x1>, %b: !migraphx.shaped<2x4x5xi8, 20x5x1>, %u: !migraphx.shaped<2x4xui8, 4x1>) -> (!migraphx.shaped<2x3x5xi32, 15x5x1>, !migraphx.shaped<2x8xui8, 8x1>, !migraphx.shaped<3x4xui8, 4x1>) {
  %0 = migraphx.quant_dot %a, %b {perf_config = "p"} : <2x3x4xi8, 12x4x1>, <2x4x5xi8, 20x5x1> -> <2x3x5xi32, 15x5x1>
  %1 = migraphx.unpack %u {axis = 1 : i64} : <2x4xui8, 4x1> -> <2x8xui8, 8x1>
  %2 = migraphx.pad %u {mode = 0 : i32, pads = [1, 0, 0, 0], value = 7.0 : f32} : <2x4xui8, 4x1> -> <3x4xui8, 4x1>
  return %0, %1, %2 : !migraphx.shaped<2x3x5xi32, 15x5x1>, !migraphx.shaped<2x8xui8, 8x1>, !migraphx.shaped<3x4xui8, 4x1>
}

// -----

// Attention spelled out: repeated heads, body, KV index, causal with an offset, window, softmax, LSE.

// CHECK-LABEL: func.func @attention
// CHECK: tosa.mul %{{.*}} : (tensor<1x1x1x4x6xf16>, tensor<1x1x2x4x6xf16>, tensor<1xi8>) -> tensor<1x1x2x4x6xf16>
// CHECK: tosa.mul %{{.*}} : (tensor<1x1x1x6x4xf16>, tensor<1x1x2x6x4xf16>, tensor<1xi8>) -> tensor<1x1x2x6x4xf16>
// CHECK: tosa.matmul {{.*}} -> tensor<2x3x6xf16>
// CHECK: %[[BIASED:.*]] = tosa.add
// CHECK-NEXT: %[[WIDE:.*]] = tosa.cast %[[BIASED]] : (tensor<1x2x3x6xf16>) -> tensor<1x2x3x6xf32>
// CHECK: %[[COLUMN:.*]] = tosa.reshape %{{.*}} -> tensor<1x1x1x6xi32>
// CHECK: %[[LAST:.*]] = tosa.minimum
// CHECK-NEXT: %[[KV:.*]] = tosa.greater %[[COLUMN]], %[[LAST]] : (tensor<1x1x1x6xi32>, tensor<1x2x1x1xi32>) -> tensor<1x2x1x6xi1>
// CHECK: %[[DISTANCE:.*]] = tosa.sub %[[COLUMN]], %{{.*}} : (tensor<1x1x1x6xi32>, tensor<1x1x3x1xi32>) -> tensor<1x1x3x6xi32>
// CHECK: %[[CAUSAL:.*]] = tosa.greater %[[DISTANCE]], %{{.*}} -> tensor<1x2x3x6xi1>
// CHECK: %[[FIRST:.*]] = tosa.sub %[[LAST]]
// CHECK-NEXT: %[[WINDOW:.*]] = tosa.greater %[[FIRST]], %[[COLUMN]] : (tensor<1x2x1x1xi32>, tensor<1x1x1x6xi32>) -> tensor<1x2x1x6xi1>
// CHECK-NEXT: %[[NOTHING:.*]] = "tosa.const"() <{values = dense<0xff800000> : tensor<1x1x1x1xf32>}>
// CHECK-NEXT: %[[S1:.*]] = tosa.select %[[KV]], %[[NOTHING]], %[[WIDE]]
// CHECK-NEXT: %[[S2:.*]] = tosa.select %[[CAUSAL]], %[[NOTHING]], %[[S1]]
// CHECK-NEXT: %[[S3:.*]] = tosa.select %[[WINDOW]], %[[NOTHING]], %[[S2]]
// CHECK-NEXT: %[[TOP:.*]] = tosa.reduce_max %[[S3]] {axis = 3 : i32}
// CHECK: %[[SUM:.*]] = tosa.reduce_sum
// CHECK: %[[P:.*]] = tosa.mul
// CHECK-NEXT: %[[LOG:.*]] = tosa.log %[[SUM]]
// CHECK-NEXT: tosa.add %[[LOG]], %[[TOP]]
// CHECK: tosa.cast %[[P]] : (tensor<1x2x3x6xf32>) -> tensor<1x2x3x6xf16>
// CHECK: tosa.matmul {{.*}} : (tensor<2x3x6xf16>, tensor<2x6x4xf16>, tensor<1xf16>, tensor<1xf16>) -> tensor<2x3x4xf16>
func.func @attention(%q: !migraphx.shaped<1x2x3x4xf16, 24x12x4x1>, %k: !migraphx.shaped<1x1x4x6xf16, 24x24x6x1>, %v: !migraphx.shaped<1x1x6x4xf16, 24x24x4x1>, %b: !migraphx.shaped<1x2x3x6xf16, 36x18x6x1>, %l: !migraphx.shaped<1x2xi32, 2x1>, %o: !migraphx.shaped<1x2xi32, 2x1>) -> (!migraphx.shaped<1x2x3x4xf16, 24x12x4x1>, !migraphx.shaped<1x2x3xf32, 6x3x1>) {
  %0, %1 = migraphx.attention %q, %k, %v pre_softmax_inputs(%b : !migraphx.shaped<1x2x3x6xf16, 36x18x6x1>) current_seq_len(%l : !migraphx.shaped<1x2xi32, 2x1>) prefix_offset(%o : !migraphx.shaped<1x2xi32, 2x1>) {
  ^bb0(%x: !migraphx.shaped<1x2x3x6xf16, 36x18x6x1>, %y: !migraphx.shaped<1x2x3x6xf16, 36x18x6x1>):
    %z = migraphx.add %x, %y : <1x2x3x6xf16, 36x18x6x1>, <1x2x3x6xf16, 36x18x6x1> -> <1x2x3x6xf16, 36x18x6x1>
    migraphx.yield %z : !migraphx.shaped<1x2x3x6xf16, 36x18x6x1>
  } softmax_type = f32 features = "kvcache|causal|prefix_offset|sliding_window" slidingWindowSize = 2 : <1x2x3x4xf16, 24x12x4x1>, <1x1x4x6xf16, 24x24x6x1>, <1x1x6x4xf16, 24x24x4x1> -> <1x2x3x4xf16, 24x12x4x1>, !migraphx.shaped<1x2x3xf32, 6x3x1>
  return %0, %1 : !migraphx.shaped<1x2x3x4xf16, 24x12x4x1>, !migraphx.shaped<1x2x3xf32, 6x3x1>
}

// -----

// Parts of the keys: an axis before the matrices, columns that count all keys, and the number on the last product.

// CHECK-LABEL: func.func @split
// CHECK: tosa.mul %{{.*}} : (tensor<2x1x3x4xf32>, tensor<2x2x3x4xf32>, tensor<1xi8>) -> tensor<2x2x3x4xf32>
// CHECK: tosa.transpose %{{.*}} {perms = array<i32: 0, 2, 1, 3>} : (tensor<2x4x2x3xf32>) -> tensor<2x2x4x3xf32>
// CHECK: %[[COLUMN:.*]] = tosa.reshape %{{.*}} : (tensor<6xi32>, !tosa.shape<4>) -> tensor<1x2x1x3xi32>
// CHECK: tosa.greater %[[COLUMN]], %{{.*}} : (tensor<1x2x1x3xi32>, tensor<1x1x3x1xi32>) -> tensor<1x2x3x3xi1>
// CHECK: tosa.matmul {{.*}} {acc_type = f32, splitKV = 2 : i32} : (tensor<4x3x3xf32>, tensor<4x3x4xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4x3x4xf32>
func.func @split(%q: !migraphx.shaped<2x3x4xf32, 12x4x1>, %k: !migraphx.shaped<2x4x6xf32, 24x6x1>, %v: !migraphx.shaped<2x6x4xf32, 24x4x1>) -> (!migraphx.shaped<2x2x3x4xf32, 24x12x4x1>, !migraphx.shaped<2x2x3xf32, 6x3x1>) {
  %0, %1 = migraphx.attention %q, %k, %v {
  } features = "causal|splitkv" splitKV = 2 : <2x3x4xf32, 12x4x1>, <2x4x6xf32, 24x6x1>, <2x6x4xf32, 24x4x1> -> <2x2x3x4xf32, 24x12x4x1>, !migraphx.shaped<2x2x3xf32, 6x3x1>
  return %0, %1 : !migraphx.shaped<2x2x3x4xf32, 24x12x4x1>, !migraphx.shaped<2x2x3xf32, 6x3x1>
}
