// RUN: xpaged-opt %s -p tosa-to-rock | filecheck %s

// Masks as an attention states them, and near misses that are computed with the scores.

// Key > index.
// CHECK-LABEL: func.func @key_index(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: lastValidKVIndex = (%{{.*}} : tensor<1xi32>)
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @key_index(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c = tosa.greater %cols, %n3 : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Key >= count.
// CHECK-LABEL: func.func @key_count(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: lastValidKVIndex = (%{{.*}} : tensor<1xi32>)
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {kvIndexClamp = array<i64: -2147483648, 2147483647, -1>, numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @key_count(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c = tosa.greater_equal %cols, %n3 : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Index >= key is kept.
// CHECK-LABEL: func.func @index_key_is_kept(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: lastValidKVIndex = (%{{.*}} : tensor<1xi32>)
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @index_key_is_kept(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c = tosa.greater_equal %n3, %cols : (tensor<1x1x1xi32>, tensor<1x1x4xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %s, %ninf : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Clipped, below.
// CHECK-LABEL: func.func @clipped_below(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: lastValidKVIndex = (%{{.*}} : tensor<1xi32>)
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {kvIndexClamp = array<i64: 0, 2147483647, 0>, numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @clipped_below(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %zero = "tosa.const"() <{values = dense<0> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %three = "tosa.const"() <{values = dense<3> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %n0 = tosa.maximum %n3, %zero : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %nc = tosa.minimum %n0, %three : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %c = tosa.greater %cols, %nc : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// A constant index.
// CHECK-LABEL: func.func @a_constant_index(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: lastValidKVIndex = (%{{.*}} : tensor<1xi32>)
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @a_constant_index(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %one = "tosa.const"() <{values = dense<1> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %c = tosa.greater %cols, %one : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Key > query.
// CHECK-LABEL: func.func @key_query(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: causal
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @key_query(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %rows = "tosa.const"() <{values = dense<[[[0], [1], [2]]]> : tensor<1x3x1xi32>}> : () -> tensor<1x3x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c = tosa.greater %cols, %rows : (tensor<1x1x4xi32>, tensor<1x3x1xi32>) -> tensor<1x3x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x3x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Query >= key is kept.
// CHECK-LABEL: func.func @query_key_is_kept(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: causal
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @query_key_is_kept(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %rows = "tosa.const"() <{values = dense<[[[0], [1], [2]]]> : tensor<1x3x1xi32>}> : () -> tensor<1x3x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c = tosa.greater_equal %rows, %cols : (tensor<1x3x1xi32>, tensor<1x1x4xi32>) -> tensor<1x3x4xi1>
  %x = tosa.select %c, %s, %ninf : (tensor<1x3x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// A constant truth.
// CHECK-LABEL: func.func @a_constant_truth(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: causal
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @a_constant_truth(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c = "tosa.const"() <{values = dense<[[[false, true, true, true], [false, false, true, true], [false, false, false, true]]]> : tensor<1x3x4xi1>}> : () -> tensor<1x3x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x3x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// A constant that is added.
// CHECK-LABEL: func.func @a_constant_that_is_added(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: causal
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @a_constant_that_is_added(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c = "tosa.const"() <{values = dense<[[[0.000000e+00, 0xfc00, 0xfc00, 0xfc00], [0.000000e+00, 0.000000e+00, 0xfc00, 0xfc00], [0.000000e+00, 0.000000e+00, 0.000000e+00, 0xfc00]]]> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %x = tosa.add %s, %c : (tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// A selection that is added.
// CHECK-LABEL: func.func @a_selection_that_is_added(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: causal
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @a_selection_that_is_added(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %rows = "tosa.const"() <{values = dense<[[[0], [1], [2]]]> : tensor<1x3x1xi32>}> : () -> tensor<1x3x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c = tosa.greater %cols, %rows : (tensor<1x1x4xi32>, tensor<1x3x1xi32>) -> tensor<1x3x4xi1>
  %z = "tosa.const"() <{values = dense<0.000000e+00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %b = tosa.select %c, %ninf, %z : (tensor<1x3x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %x = tosa.add %b, %s : (tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Bottom right.
// CHECK-LABEL: func.func @bottom_right(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: prefixOffset = (%{{.*}} : tensor<1xi32>)
// CHECK: causal
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @bottom_right(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %rows = "tosa.const"() <{values = dense<[[[0], [1], [2]]]> : tensor<1x3x1xi32>}> : () -> tensor<1x3x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %one = "tosa.const"() <{values = dense<1> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %next = tosa.add %rows, %one : (tensor<1x3x1xi32>, tensor<1x1x1xi32>) -> tensor<1x3x1xi32>
  %c = tosa.greater %cols, %next : (tensor<1x1x4xi32>, tensor<1x3x1xi32>) -> tensor<1x3x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x3x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Key > query + offset.
// CHECK-LABEL: func.func @key_query_offset(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: prefixOffset = (%{{.*}} : tensor<1xi32>)
// CHECK: causal
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @key_query_offset(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %rows = "tosa.const"() <{values = dense<[[[0], [1], [2]]]> : tensor<1x3x1xi32>}> : () -> tensor<1x3x1xi32>
  %m3 = tosa.reshape %m {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %far = tosa.add %rows, %m3 : (tensor<1x3x1xi32>, tensor<1x1x1xi32>) -> tensor<1x3x1xi32>
  %c = tosa.greater %cols, %far : (tensor<1x1x4xi32>, tensor<1x3x1xi32>) -> tensor<1x3x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x3x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Key > query + (length - 3).
// CHECK-LABEL: func.func @key_query_length_3(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: prefixOffset = (%{{.*}} : tensor<1xi32>)
// CHECK: causal
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, prefixOffsetClamp = array<i64: -2147483648, 2147483647, -3>, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @key_query_length_3(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %rows = "tosa.const"() <{values = dense<[[[0], [1], [2]]]> : tensor<1x3x1xi32>}> : () -> tensor<1x3x1xi32>
  %m3 = tosa.reshape %m {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %three = "tosa.const"() <{values = dense<3> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %off = tosa.sub %m3, %three : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %far = tosa.add %off, %rows : (tensor<1x1x1xi32>, tensor<1x3x1xi32>) -> tensor<1x3x1xi32>
  %c = tosa.greater %cols, %far : (tensor<1x1x4xi32>, tensor<1x3x1xi32>) -> tensor<1x3x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x3x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Index, then causal.
// CHECK-LABEL: func.func @index_then_causal(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: lastValidKVIndex = (%{{.*}} : tensor<1xi32>)
// CHECK: causal
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @index_then_causal(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %rows = "tosa.const"() <{values = dense<[[[0], [1], [2]]]> : tensor<1x3x1xi32>}> : () -> tensor<1x3x1xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c0 = tosa.greater %cols, %n3 : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %y = tosa.select %c0, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %c = tosa.greater %cols, %rows : (tensor<1x1x4xi32>, tensor<1x3x1xi32>) -> tensor<1x3x4xi1>
  %x = tosa.select %c, %ninf, %y : (tensor<1x3x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Offset, then index.
// CHECK-LABEL: func.func @offset_then_index(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: lastValidKVIndex = (%{{.*}} : tensor<1xi32>)
// CHECK: prefixOffset = (%{{.*}} : tensor<1xi32>)
// CHECK: causal
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @offset_then_index(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %rows = "tosa.const"() <{values = dense<[[[0], [1], [2]]]> : tensor<1x3x1xi32>}> : () -> tensor<1x3x1xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %m3 = tosa.reshape %m {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %far = tosa.add %rows, %m3 : (tensor<1x3x1xi32>, tensor<1x1x1xi32>) -> tensor<1x3x1xi32>
  %c0 = tosa.greater %cols, %far : (tensor<1x1x4xi32>, tensor<1x3x1xi32>) -> tensor<1x3x4xi1>
  %y = tosa.select %c0, %ninf, %s : (tensor<1x3x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %c = tosa.greater %cols, %n3 : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %y : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// One condition for both.
// CHECK-LABEL: func.func @one_condition_for_both(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: lastValidKVIndex = (%{{.*}} : tensor<1xi32>)
// CHECK: causal
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @one_condition_for_both(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %rows = "tosa.const"() <{values = dense<[[[0], [1], [2]]]> : tensor<1x3x1xi32>}> : () -> tensor<1x3x1xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %a1 = tosa.greater %cols, %n3 : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %a2 = tosa.greater %cols, %rows : (tensor<1x1x4xi32>, tensor<1x3x1xi32>) -> tensor<1x3x4xi1>
  %c = tosa.logical_or %a1, %a2 : (tensor<1x1x4xi1>, tensor<1x3x4xi1>) -> tensor<1x3x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x3x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// A window of 2.
// CHECK-LABEL: func.func @a_window_of_2(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: lastValidKVIndex = (%{{.*}} : tensor<1xi32>)
// CHECK: slidingWindowLookBack = 2
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {kvIndexClamp = array<i64: 0, 2147483647, 0>, numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @a_window_of_2(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %zero = "tosa.const"() <{values = dense<0> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %three = "tosa.const"() <{values = dense<3> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %n0 = tosa.maximum %n3, %zero : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %nc = tosa.minimum %n0, %three : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %c0 = tosa.greater %cols, %nc : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %y = tosa.select %c0, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %two = "tosa.const"() <{values = dense<2> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %low = tosa.sub %nc, %two : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %c = tosa.greater %low, %cols : (tensor<1x1x1xi32>, tensor<1x1x4xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %y : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Not quite minus infinity.
// CHECK-LABEL: func.func @not_quite_minus_infinity(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x3x4xi32>, tensor<1x3x4xi32>) {
// CHECK: ^bb0
// CHECK: arith.cmpi sgt, %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant -6.000000e+04 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @not_quite_minus_infinity(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %low = "tosa.const"() <{values = dense<-6.000000e+04> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %c = tosa.greater %cols, %n3 : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %low, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Keys from an index on.
// CHECK-LABEL: func.func @keys_from_an_index_on(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x3x4xi32>, tensor<1x3x4xi32>) {
// CHECK: ^bb0
// CHECK: arith.cmpi sgt, %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @keys_from_an_index_on(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c = tosa.greater %n3, %cols : (tensor<1x1x1xi32>, tensor<1x1x4xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Above the diagonal.
// CHECK-LABEL: func.func @above_the_diagonal(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x3x4xi32>, tensor<1x3x4xi32>) {
// CHECK: ^bb0
// CHECK: arith.cmpi sgt, %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @above_the_diagonal(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %rows = "tosa.const"() <{values = dense<[[[0], [1], [2]]]> : tensor<1x3x1xi32>}> : () -> tensor<1x3x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c = tosa.greater %rows, %cols : (tensor<1x3x1xi32>, tensor<1x1x4xi32>) -> tensor<1x3x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x3x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// A length for each key.
// CHECK-LABEL: func.func @a_length_for_each_key(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x3x4xi32>, tensor<1x3x4xi32>) {
// CHECK: ^bb0
// CHECK: arith.cmpi sgt, %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @a_length_for_each_key(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %w3 = tosa.reshape %w {new_shape = array<i64: 1, 1, 4>} : (tensor<4xi32>) -> tensor<1x1x4xi32>
  %c = tosa.greater %cols, %w3 : (tensor<1x1x4xi32>, tensor<1x1x4xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// A computed length.
// CHECK-LABEL: func.func @a_computed_length(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x3x4xi32>, tensor<1x3x4xi32>) {
// CHECK: ^bb0
// CHECK: arith.constant 0 : i32
// CHECK: arith.subi %{{.*}}, %{{.*}} : i32
// CHECK: arith.maxsi %{{.*}}, %{{.*}} : i32
// CHECK: arith.cmpi sgt, %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @a_computed_length(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %y = tosa.abs %n3 : (tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %c = tosa.greater %cols, %y : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// Columns in another order.
// CHECK-LABEL: func.func @columns_in_another_order(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x3x4xi32>, tensor<1x3x4xi32>) {
// CHECK: ^bb0
// CHECK: arith.cmpi sgt, %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @columns_in_another_order(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %mixed = "tosa.const"() <{values = dense<[[[0, 2, 1, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %c = tosa.greater %mixed, %n3 : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// A constant that is neither.
// CHECK-LABEL: func.func @a_constant_that_is_neither(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: qk = elementwise otherIns(%{{.*}} : tensor<1x3x4xi1>) {
// CHECK: ^bb0
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @a_constant_that_is_neither(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c = "tosa.const"() <{values = dense<[[[true, false, true, true], [false, false, true, true], [false, false, false, true]]]> : tensor<1x3x4xi1>}> : () -> tensor<1x3x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x3x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// A window without an index.
// CHECK-LABEL: func.func @a_window_without_an_index(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x3x4xi32>, tensor<1x3x4xi32>) {
// CHECK: ^bb0
// CHECK: arith.constant 0 : i32
// CHECK: arith.maxsi %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 3 : i32
// CHECK: arith.minsi %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 2 : i32
// CHECK: arith.subi %{{.*}}, %{{.*}} : i32
// CHECK: arith.cmpi sgt, %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @a_window_without_an_index(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %zero = "tosa.const"() <{values = dense<0> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %three = "tosa.const"() <{values = dense<3> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %n0 = tosa.maximum %n3, %zero : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %nc = tosa.minimum %n0, %three : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %two = "tosa.const"() <{values = dense<2> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %low = tosa.sub %nc, %two : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %c = tosa.greater %low, %cols : (tensor<1x1x1xi32>, tensor<1x1x4xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// A window from another argument.
// CHECK-LABEL: func.func @a_window_from_another_argument(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: lastValidKVIndex = (%{{.*}} : tensor<1xi32>)
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x3x4xi32>, tensor<1x3x4xi32>) {
// CHECK: ^bb0
// CHECK: arith.constant 3 : i32
// CHECK: arith.minsi %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 2 : i32
// CHECK: arith.subi %{{.*}}, %{{.*}} : i32
// CHECK: arith.cmpi sgt, %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @a_window_from_another_argument(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %m3 = tosa.reshape %m {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c0 = tosa.greater %cols, %n3 : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %y = tosa.select %c0, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %three = "tosa.const"() <{values = dense<3> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %two = "tosa.const"() <{values = dense<2> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %mc = tosa.minimum %m3, %three : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %low = tosa.sub %mc, %two : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %c = tosa.greater %low, %cols : (tensor<1x1x1xi32>, tensor<1x1x4xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %y : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// A window that is clipped otherwise.
// CHECK-LABEL: func.func @a_window_that_is_clipped_otherwise(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: lastValidKVIndex = (%{{.*}} : tensor<1xi32>)
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x3x4xi32>, tensor<1x3x4xi32>) {
// CHECK: ^bb0
// CHECK: arith.constant 2 : i32
// CHECK: arith.maxsi %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 3 : i32
// CHECK: arith.minsi %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 1 : i32
// CHECK: arith.subi %{{.*}}, %{{.*}} : i32
// CHECK: arith.cmpi sgt, %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @a_window_that_is_clipped_otherwise(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c0 = tosa.greater %cols, %n3 : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %y = tosa.select %c0, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %one = "tosa.const"() <{values = dense<1> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %two = "tosa.const"() <{values = dense<2> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %three = "tosa.const"() <{values = dense<3> : tensor<1x1x1xi32>}> : () -> tensor<1x1x1xi32>
  %n0 = tosa.maximum %n3, %two : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %nc = tosa.minimum %n0, %three : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %low = tosa.sub %nc, %one : (tensor<1x1x1xi32>, tensor<1x1x1xi32>) -> tensor<1x1x1xi32>
  %c = tosa.greater %low, %cols : (tensor<1x1x1xi32>, tensor<1x1x4xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %y : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// A second index.
// CHECK-LABEL: func.func @a_second_index(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: lastValidKVIndex = (%{{.*}} : tensor<1xi32>)
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x3x4xi32>, tensor<1x3x4xi32>) {
// CHECK: ^bb0
// CHECK: arith.cmpi sgt, %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @a_second_index(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %m3 = tosa.reshape %m {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c0 = tosa.greater %cols, %n3 : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %y = tosa.select %c0, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %c = tosa.greater %cols, %m3 : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %y : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// A scale behind the mask.
// CHECK-LABEL: func.func @a_scale_behind_the_mask(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x3x4xi32>, tensor<1x3x4xi32>) {
// CHECK: ^bb0
// CHECK: arith.cmpi sgt, %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: arith.constant 5.000000e-01 : f32
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @a_scale_behind_the_mask(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi32>}> : () -> tensor<1x1x4xi32>
  %n3 = tosa.reshape %n {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %c = tosa.greater %cols, %n3 : (tensor<1x1x4xi32>, tensor<1x1x1xi32>) -> tensor<1x1x4xi1>
  %y = tosa.select %c, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %h = "tosa.const"() <{values = dense<5.000000e-01> : tensor<1x1x1xf16>}> : () -> tensor<1x1x1xf16>
  %x = tosa.mul %y, %h : (tensor<1x3x4xf16>, tensor<1x1x1xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}

// An index of 64 bits.
// CHECK-LABEL: func.func @an_index_of_64_bits(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf16>, tensor<1x4x4xf16>
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x3x4xi64>, tensor<1x3x4xi64>) {
// CHECK: ^bb0
// CHECK: arith.cmpi sgt, %{{.*}}, %{{.*}} : i64
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x4x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf16>
func.func @an_index_of_64_bits(%q: tensor<1x3x4xf16>, %k: tensor<1x4x4xf16>, %v: tensor<1x4x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<4xi32>) -> tensor<1x3x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x3x4xf16>}> : () -> tensor<1x3x4xf16>
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  %l3 = tosa.reshape %l {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi64>) -> tensor<1x1x1xi64>
  %c64 = "tosa.const"() <{values = dense<[[[0, 1, 2, 3]]]> : tensor<1x1x4xi64>}> : () -> tensor<1x1x4xi64>
  %c = tosa.greater %c64, %l3 : (tensor<1x1x4xi64>, tensor<1x1x1xi64>) -> tensor<1x1x4xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x1x4xi1>, tensor<1x3x4xf16>, tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %p = tosa.exp %d : (tensor<1x3x4xf16>) -> tensor<1x3x4xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x4xf16>) -> tensor<1x3x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf16>) -> tensor<1x3x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x3x4xf16>, tensor<1x3x1xf16>) -> tensor<1x3x4xf16>
  %o = tosa.matmul %a, %v : (tensor<1x3x4xf16>, tensor<1x4x4xf16>) -> tensor<1x3x4xf16>
  func.return %o : tensor<1x3x4xf16>
}
