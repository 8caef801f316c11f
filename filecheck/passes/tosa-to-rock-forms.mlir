// RUN: xpaged-opt %s -p tosa-to-rock | filecheck %s

// Forms other than masks: the log-sum-exp, one key, types, and what is computed with the scores.

// LSE plain.
// CHECK-LABEL: func.func @lse_plain(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf32>, tensor<1x4x3xf32>
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf32>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf32>, tensor<1x2xf32>
func.func @lse_plain(%q: tensor<1x2x4xf32>, %k: tensor<1x4x3xf32>, %v: tensor<1x3x4xf32>, %e: tensor<6xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> (tensor<1x2x4xf32>, tensor<1x2x1xf32>) {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf32>, tensor<1x4x3xf32>) -> tensor<1x2x3xf32>
  %x = tosa.identity %s : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %p = tosa.exp %d : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf32>, tensor<1x3x4xf32>) -> tensor<1x2x4xf32>
  %g = tosa.log %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %lse = tosa.add %g, %top : (tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  func.return %o, %lse : tensor<1x2x4xf32>, tensor<1x2x1xf32>
}

// LSE exchanged.
// CHECK-LABEL: func.func @lse_exchanged(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf32>, tensor<1x4x3xf32>
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf32>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf32>, tensor<1x2xf32>
func.func @lse_exchanged(%q: tensor<1x2x4xf32>, %k: tensor<1x4x3xf32>, %v: tensor<1x3x4xf32>, %e: tensor<6xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> (tensor<1x2x4xf32>, tensor<1x2x1xf32>) {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf32>, tensor<1x4x3xf32>) -> tensor<1x2x3xf32>
  %x = tosa.identity %s : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %p = tosa.exp %d : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf32>, tensor<1x3x4xf32>) -> tensor<1x2x4xf32>
  %g = tosa.log %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %lse = tosa.add %top, %g : (tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  func.return %o, %lse : tensor<1x2x4xf32>, tensor<1x2x1xf32>
}

// LSE collapsed.
// CHECK-LABEL: func.func @lse_collapsed(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf32>, tensor<1x4x3xf32>
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf32>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf32>, tensor<1x2xf32>
func.func @lse_collapsed(%q: tensor<1x2x4xf32>, %k: tensor<1x4x3xf32>, %v: tensor<1x3x4xf32>, %e: tensor<6xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> (tensor<1x2x4xf32>, tensor<1x2xf32>) {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf32>, tensor<1x4x3xf32>) -> tensor<1x2x3xf32>
  %x = tosa.identity %s : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %p = tosa.exp %d : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf32>, tensor<1x3x4xf32>) -> tensor<1x2x4xf32>
  %g = tosa.log %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %y = tosa.add %g, %top : (tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %lse = tosa.reshape %y {new_shape = array<i64: 1, 2>} : (tensor<1x2x1xf32>) -> tensor<1x2xf32>
  func.return %o, %lse : tensor<1x2x4xf32>, tensor<1x2xf32>
}

// LSE of rank 4.
// CHECK-LABEL: func.func @lse_of_rank_4(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf32>, tensor<1x4x3xf32>
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf32>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf32>, tensor<1x2xf32>
func.func @lse_of_rank_4(%q: tensor<1x2x4xf32>, %k: tensor<1x4x3xf32>, %v: tensor<1x3x4xf32>, %e: tensor<6xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> (tensor<1x2x4xf32>, tensor<1x1x2x1xf32>) {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf32>, tensor<1x4x3xf32>) -> tensor<1x2x3xf32>
  %x = tosa.identity %s : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %p = tosa.exp %d : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf32>, tensor<1x3x4xf32>) -> tensor<1x2x4xf32>
  %g = tosa.log %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %g4 = tosa.reshape %g {new_shape = array<i64: 1, 1, 2, 1>} : (tensor<1x2x1xf32>) -> tensor<1x1x2x1xf32>
  %top4 = tosa.reshape %top {new_shape = array<i64: 1, 1, 2, 1>} : (tensor<1x2x1xf32>) -> tensor<1x1x2x1xf32>
  %lse = tosa.add %g4, %top4 : (tensor<1x1x2x1xf32>, tensor<1x1x2x1xf32>) -> tensor<1x1x2x1xf32>
  func.return %o, %lse : tensor<1x2x4xf32>, tensor<1x1x2x1xf32>
}

// LSE converted.
// CHECK-LABEL: func.func @lse_converted(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf32>, tensor<1x4x3xf32>
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf32>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf32>, tensor<1x2xf16>
func.func @lse_converted(%q: tensor<1x2x4xf32>, %k: tensor<1x4x3xf32>, %v: tensor<1x3x4xf32>, %e: tensor<6xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> (tensor<1x2x4xf32>, tensor<1x2x1xf16>) {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf32>, tensor<1x4x3xf32>) -> tensor<1x2x3xf32>
  %x = tosa.identity %s : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %p = tosa.exp %d : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf32>, tensor<1x3x4xf32>) -> tensor<1x2x4xf32>
  %g = tosa.log %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %y = tosa.add %g, %top : (tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %lse = tosa.cast %y : (tensor<1x2x1xf32>) -> tensor<1x2x1xf16>
  func.return %o, %lse : tensor<1x2x4xf32>, tensor<1x2x1xf16>
}

// LSE converted in between.
// CHECK-LABEL: func.func @lse_converted_in_between(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf32>, tensor<1x4x3xf32>
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf32>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf32>, tensor<1x2xf32>
func.func @lse_converted_in_between(%q: tensor<1x2x4xf32>, %k: tensor<1x4x3xf32>, %v: tensor<1x3x4xf32>, %e: tensor<6xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> (tensor<1x2x4xf32>, tensor<1x2x1xf32>) {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf32>, tensor<1x4x3xf32>) -> tensor<1x2x3xf32>
  %x = tosa.identity %s : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %p = tosa.exp %d : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf32>, tensor<1x3x4xf32>) -> tensor<1x2x4xf32>
  %tw = tosa.cast %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %g = tosa.log %tw : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %lse = tosa.add %g, %top : (tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  func.return %o, %lse : tensor<1x2x4xf32>, tensor<1x2x1xf32>
}

// LSE transposed.
// CHECK-LABEL: func.func @lse_transposed(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf32>, tensor<1x4x3xf32>
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf32>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf32>, tensor<1x2xf32>
func.func @lse_transposed(%q: tensor<1x2x4xf32>, %k: tensor<1x4x3xf32>, %v: tensor<1x3x4xf32>, %e: tensor<6xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> (tensor<1x2x4xf32>, tensor<2x1x1xf32>) {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf32>, tensor<1x4x3xf32>) -> tensor<1x2x3xf32>
  %x = tosa.identity %s : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %p = tosa.exp %d : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf32>, tensor<1x3x4xf32>) -> tensor<1x2x4xf32>
  %g = tosa.log %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %y = tosa.add %g, %top : (tensor<1x2x1xf32>, tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %lse = tosa.transpose %y {perms = array<i32: 1, 0, 2>} : (tensor<1x2x1xf32>) -> tensor<2x1x1xf32>
  func.return %o, %lse : tensor<1x2x4xf32>, tensor<2x1x1xf32>
}

// One key with reductions.
// CHECK-LABEL: func.func @one_key_with_reductions(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf32>, tensor<1x4x1xf32>
// CHECK: softmax(qk) * %{{.*}} : tensor<1x1x4xf32>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf32>
func.func @one_key_with_reductions(%q: tensor<1x3x4xf32>, %k: tensor<1x4x1xf32>, %v: tensor<1x1x4xf32>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<1xi32>) -> tensor<1x3x4xf32> {
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf32>, tensor<1x4x1xf32>) -> tensor<1x3x1xf32>
  %x = tosa.identity %s : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %d = tosa.sub %x, %top : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %p = tosa.exp %d : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %a = tosa.mul %p, %r : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %o = tosa.matmul %a, %v : (tensor<1x3x1xf32>, tensor<1x1x4xf32>) -> tensor<1x3x4xf32>
  func.return %o : tensor<1x3x4xf32>
}

// One key without.
// CHECK-LABEL: func.func @one_key_without(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf32>, tensor<1x4x1xf32>
// CHECK: softmax(qk) * %{{.*}} : tensor<1x1x4xf32>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf32>
func.func @one_key_without(%q: tensor<1x3x4xf32>, %k: tensor<1x4x1xf32>, %v: tensor<1x1x4xf32>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<1xi32>) -> tensor<1x3x4xf32> {
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf32>, tensor<1x4x1xf32>) -> tensor<1x3x1xf32>
  %x = tosa.identity %s : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %d = tosa.sub %x, %x : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %p = tosa.exp %d : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %r = tosa.reciprocal %p : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %a = tosa.mul %p, %r : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %o = tosa.matmul %a, %v : (tensor<1x3x1xf32>, tensor<1x1x4xf32>) -> tensor<1x3x4xf32>
  func.return %o : tensor<1x3x4xf32>
}

// One key without the maximum.
// CHECK-LABEL: func.func @one_key_without_the_maximum(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf32>, tensor<1x4x1xf32>
// CHECK: softmax(qk) * %{{.*}} : tensor<1x1x4xf32>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf32>
func.func @one_key_without_the_maximum(%q: tensor<1x3x4xf32>, %k: tensor<1x4x1xf32>, %v: tensor<1x1x4xf32>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<1xi32>) -> tensor<1x3x4xf32> {
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf32>, tensor<1x4x1xf32>) -> tensor<1x3x1xf32>
  %x = tosa.identity %s : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %d = tosa.sub %x, %x : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %p = tosa.exp %d : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %r = tosa.reciprocal %t : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %a = tosa.mul %p, %r : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %o = tosa.matmul %a, %v : (tensor<1x3x1xf32>, tensor<1x1x4xf32>) -> tensor<1x3x4xf32>
  func.return %o : tensor<1x3x4xf32>
}

// One key, LSE (x - x) + x.
// CHECK-LABEL: func.func @one_key_lse_x_x_x(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf32>, tensor<1x4x1xf32>
// CHECK: softmax(qk) * %{{.*}} : tensor<1x1x4xf32>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf32>, tensor<1x3xf32>
func.func @one_key_lse_x_x_x(%q: tensor<1x3x4xf32>, %k: tensor<1x4x1xf32>, %v: tensor<1x1x4xf32>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<1xi32>) -> (tensor<1x3x4xf32>, tensor<1x3x1xf32>) {
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf32>, tensor<1x4x1xf32>) -> tensor<1x3x1xf32>
  %x = tosa.identity %s : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %d = tosa.sub %x, %x : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %p = tosa.exp %d : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %r = tosa.reciprocal %p : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %a = tosa.mul %p, %r : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %o = tosa.matmul %a, %v : (tensor<1x3x1xf32>, tensor<1x1x4xf32>) -> tensor<1x3x4xf32>
  %lse = tosa.add %d, %x : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  func.return %o, %lse : tensor<1x3x4xf32>, tensor<1x3x1xf32>
}

// One key, LSE log(exp(x - x)) + x.
// CHECK-LABEL: func.func @one_key_lse_log_exp_x_x_x(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x3x4xf32>, tensor<1x4x1xf32>
// CHECK: softmax(qk) * %{{.*}} : tensor<1x1x4xf32>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x3x4xf32>, tensor<1x3xf32>
func.func @one_key_lse_log_exp_x_x_x(%q: tensor<1x3x4xf32>, %k: tensor<1x4x1xf32>, %v: tensor<1x1x4xf32>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<1xi32>) -> (tensor<1x3x4xf32>, tensor<1x3x1xf32>) {
  %s = tosa.matmul %q, %k : (tensor<1x3x4xf32>, tensor<1x4x1xf32>) -> tensor<1x3x1xf32>
  %x = tosa.identity %s : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %d = tosa.sub %x, %x : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %p = tosa.exp %d : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %r = tosa.reciprocal %p : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %a = tosa.mul %p, %r : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %o = tosa.matmul %a, %v : (tensor<1x3x1xf32>, tensor<1x1x4xf32>) -> tensor<1x3x4xf32>
  %g = tosa.log %p : (tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  %lse = tosa.add %g, %x : (tensor<1x3x1xf32>, tensor<1x3x1xf32>) -> tensor<1x3x1xf32>
  func.return %o, %lse : tensor<1x3x4xf32>, tensor<1x3x1xf32>
}

// A wider softmax.
// CHECK-LABEL: func.func @a_wider_softmax(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf16>, tensor<1x4x3xf16>
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf16>
func.func @a_wider_softmax(%q: tensor<1x2x4xf16>, %k: tensor<1x4x3xf16>, %v: tensor<1x3x4xf16>, %e: tensor<6xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> tensor<1x2x4xf16> {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf16>, tensor<1x4x3xf16>) -> tensor<1x2x3xf16>
  %x = tosa.identity %s : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %wx = tosa.cast %x : (tensor<1x2x3xf16>) -> tensor<1x2x3xf32>
  %top = tosa.reduce_max %wx {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %d = tosa.sub %wx, %top : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %p = tosa.exp %d : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf32>) -> tensor<1x2x1xf32>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf32>, tensor<1x2x1xf32>) -> tensor<1x2x3xf32>
  %na = tosa.cast %a : (tensor<1x2x3xf32>) -> tensor<1x2x3xf16>
  %o = tosa.matmul %na, %v : (tensor<1x2x3xf16>, tensor<1x3x4xf16>) -> tensor<1x2x4xf16>
  func.return %o : tensor<1x2x4xf16>
}

// A narrower softmax.
// CHECK-LABEL: func.func @a_narrower_softmax(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf32>, tensor<1x4x3xf32>
// CHECK: qk = elementwise {
// CHECK: ^bb0
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf32>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf32>
func.func @a_narrower_softmax(%q: tensor<1x2x4xf32>, %k: tensor<1x4x3xf32>, %v: tensor<1x3x4xf32>, %e: tensor<6xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> tensor<1x2x4xf32> {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf32>, tensor<1x4x3xf32>) -> tensor<1x2x3xf32>
  %x = tosa.identity %s : (tensor<1x2x3xf32>) -> tensor<1x2x3xf32>
  %wx = tosa.cast %x : (tensor<1x2x3xf32>) -> tensor<1x2x3xf16>
  %top = tosa.reduce_max %wx {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %d = tosa.sub %wx, %top : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %p = tosa.exp %d : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %na = tosa.cast %a : (tensor<1x2x3xf16>) -> tensor<1x2x3xf32>
  %o = tosa.matmul %na, %v : (tensor<1x2x3xf32>, tensor<1x3x4xf32>) -> tensor<1x2x4xf32>
  func.return %o : tensor<1x2x4xf32>
}

// Scores of integers.
// CHECK-LABEL: func.func @scores_of_integers(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<2x3x8xi8>, tensor<2x8x5xi8>
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<2x3x5xi32>, tensor<2x3x5xf32>) {
// CHECK: ^bb0
// CHECK: arith.subi %{{.*}}, %{{.*}} : i32
// CHECK: arith.sitofp %{{.*}} : i32 to f32
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<2x5x4xf16>
// CHECK: } {numHeadsKV = 2 : i32, numHeadsQ = 2 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<2x3x4xf16>
func.func @scores_of_integers(%q: tensor<2x3x8xi8>, %k: tensor<2x8x5xi8>, %v: tensor<2x5x4xf16>, %scale: tensor<1xf32>, %zero: tensor<1xi32>) -> tensor<2x3x4xf16> {
  %s = tosa.matmul %q, %k : (tensor<2x3x8xi8>, tensor<2x8x5xi8>) -> tensor<2x3x5xi32>
  %z = tosa.reshape %zero {new_shape = array<i64: 1, 1, 1>} : (tensor<1xi32>) -> tensor<1x1x1xi32>
  %sc = tosa.reshape %scale {new_shape = array<i64: 1, 1, 1>} : (tensor<1xf32>) -> tensor<1x1x1xf32>
  %y = tosa.sub %s, %z : (tensor<2x3x5xi32>, tensor<1x1x1xi32>) -> tensor<2x3x5xi32>
  %f = tosa.cast %y : (tensor<2x3x5xi32>) -> tensor<2x3x5xf32>
  %x = tosa.mul %f, %sc : (tensor<2x3x5xf32>, tensor<1x1x1xf32>) -> tensor<2x3x5xf32>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<2x3x5xf32>) -> tensor<2x3x1xf32>
  %d = tosa.sub %x, %top : (tensor<2x3x5xf32>, tensor<2x3x1xf32>) -> tensor<2x3x5xf32>
  %p = tosa.exp %d : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<2x3x5xf32>) -> tensor<2x3x1xf32>
  %r = tosa.reciprocal %t : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %a = tosa.mul %p, %r : (tensor<2x3x5xf32>, tensor<2x3x1xf32>) -> tensor<2x3x5xf32>
  %w = tosa.cast %a : (tensor<2x3x5xf32>) -> tensor<2x3x5xf16>
  %o = tosa.matmul %w, %v : (tensor<2x3x5xf16>, tensor<2x5x4xf16>) -> tensor<2x3x4xf16>
  func.return %o : tensor<2x3x4xf16>
}

// Region, a mask of bytes.
// CHECK-LABEL: func.func @region_a_mask_of_bytes(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf16>, tensor<1x4x3xf16>
// CHECK: qk = elementwise otherIns(%{{.*}} : tensor<1x2x3xi8>) {
// CHECK: ^bb0
// CHECK: arith.constant 0 : i8
// CHECK: arith.cmpi ne, %{{.*}}, %{{.*}} : i8
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf16>
func.func @region_a_mask_of_bytes(%q: tensor<1x2x4xf16>, %k: tensor<1x4x3xf16>, %v: tensor<1x3x4xf16>, %b: tensor<1x2x3xi8>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> tensor<1x2x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x2x3xf16>}> : () -> tensor<1x2x3xf16>
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf16>, tensor<1x4x3xf16>) -> tensor<1x2x3xf16>
  %c = tosa.cast %b : (tensor<1x2x3xi8>) -> tensor<1x2x3xi1>
  %x = tosa.select %c, %ninf, %s : (tensor<1x2x3xi1>, tensor<1x2x3xf16>, tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %p = tosa.exp %d : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf16>, tensor<1x3x4xf16>) -> tensor<1x2x4xf16>
  func.return %o : tensor<1x2x4xf16>
}

// Region, a mask of bits.
// CHECK-LABEL: func.func @region_a_mask_of_bits(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf16>, tensor<1x4x3xf16>
// CHECK: qk = elementwise otherIns(%{{.*}} : tensor<1x2x3xi1>) {
// CHECK: ^bb0
// CHECK: arith.constant 0xff800000 : f32
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf16>
func.func @region_a_mask_of_bits(%q: tensor<1x2x4xf16>, %k: tensor<1x4x3xf16>, %v: tensor<1x3x4xf16>, %b: tensor<1x2x3xi1>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> tensor<1x2x4xf16> {
  %ninf = "tosa.const"() <{values = dense<0xfc00> : tensor<1x2x3xf16>}> : () -> tensor<1x2x3xf16>
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf16>, tensor<1x4x3xf16>) -> tensor<1x2x3xf16>
  %x = tosa.select %b, %ninf, %s : (tensor<1x2x3xi1>, tensor<1x2x3xf16>, tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %p = tosa.exp %d : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf16>, tensor<1x3x4xf16>) -> tensor<1x2x4xf16>
  func.return %o : tensor<1x2x4xf16>
}

// Region, a mask that is added.
// CHECK-LABEL: func.func @region_a_mask_that_is_added(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf16>, tensor<1x4x3xf16>
// CHECK: qk = elementwise otherIns(%{{.*}} : tensor<1x2x3xf16>) {
// CHECK: ^bb0
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: arith.addf %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf16>
func.func @region_a_mask_that_is_added(%q: tensor<1x2x4xf16>, %k: tensor<1x4x3xf16>, %v: tensor<1x3x4xf16>, %b: tensor<1x2x3xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> tensor<1x2x4xf16> {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf16>, tensor<1x4x3xf16>) -> tensor<1x2x3xf16>
  %x = tosa.add %s, %b : (tensor<1x2x3xf16>, tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %p = tosa.exp %d : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf16>, tensor<1x3x4xf16>) -> tensor<1x2x4xf16>
  func.return %o : tensor<1x2x4xf16>
}

// Region, one bias a key.
// CHECK-LABEL: func.func @region_one_bias_a_key(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf16>, tensor<1x4x3xf16>
// CHECK: qk = elementwise otherIns(%{{.*}} : tensor<1x2x3xf16>) {
// CHECK: ^bb0
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: arith.addf %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf16>
func.func @region_one_bias_a_key(%q: tensor<1x2x4xf16>, %k: tensor<1x4x3xf16>, %v: tensor<1x3x4xf16>, %b: tensor<1x1x3xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> tensor<1x2x4xf16> {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf16>, tensor<1x4x3xf16>) -> tensor<1x2x3xf16>
  %x = tosa.add %s, %b : (tensor<1x2x3xf16>, tensor<1x1x3xf16>) -> tensor<1x2x3xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %p = tosa.exp %d : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf16>, tensor<1x3x4xf16>) -> tensor<1x2x4xf16>
  func.return %o : tensor<1x2x4xf16>
}

// Region, a computed bias.
// CHECK-LABEL: func.func @region_a_computed_bias(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf16>, tensor<1x4x3xf16>
// CHECK: qk = elementwise otherIns(%{{.*}} : tensor<1x2x3xf16>) {
// CHECK: ^bb0
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: math.tanh %{{.*}} : f32
// CHECK: arith.subf %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf16>
func.func @region_a_computed_bias(%q: tensor<1x2x4xf16>, %k: tensor<1x4x3xf16>, %v: tensor<1x3x4xf16>, %b: tensor<1x2x1xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> tensor<1x2x4xf16> {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf16>, tensor<1x4x3xf16>) -> tensor<1x2x3xf16>
  %b2 = tosa.mul %b, %b : (tensor<1x2x1xf16>, tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
  %b3 = tosa.tanh %b2 : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
  %x = tosa.sub %s, %b3 : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %p = tosa.exp %d : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf16>, tensor<1x3x4xf16>) -> tensor<1x2x4xf16>
  func.return %o : tensor<1x2x4xf16>
}

// Region, different constants.
// CHECK-LABEL: func.func @region_different_constants(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf16>, tensor<1x4x3xf16>
// CHECK: qk = elementwise otherIns(%{{.*}} : tensor<1x2x3xf16>) {
// CHECK: ^bb0
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf16>
func.func @region_different_constants(%q: tensor<1x2x4xf16>, %k: tensor<1x4x3xf16>, %v: tensor<1x3x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> tensor<1x2x4xf16> {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf16>, tensor<1x4x3xf16>) -> tensor<1x2x3xf16>
  %y = "tosa.const"() <{values = dense<[[[1.000000e+00, 2.000000e+00, -3.000000e+00]]]> : tensor<1x1x3xf16>}> : () -> tensor<1x1x3xf16>
  %x = tosa.mul %s, %y : (tensor<1x2x3xf16>, tensor<1x1x3xf16>) -> tensor<1x2x3xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %p = tosa.exp %d : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf16>, tensor<1x3x4xf16>) -> tensor<1x2x4xf16>
  func.return %o : tensor<1x2x4xf16>
}

// Region, a distance.
// CHECK-LABEL: func.func @region_a_distance(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf16>, tensor<1x4x3xf16>
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x2x3xi32>, tensor<1x2x3xi32>) {
// CHECK: ^bb0
// CHECK: arith.subi %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 0 : i32
// CHECK: arith.subi %{{.*}}, %{{.*}} : i32
// CHECK: arith.constant 0 : i32
// CHECK: arith.subi %{{.*}}, %{{.*}} : i32
// CHECK: arith.maxsi %{{.*}}, %{{.*}} : i32
// CHECK: arith.sitofp %{{.*}} : i32 to f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: arith.subf %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf16>
func.func @region_a_distance(%q: tensor<1x2x4xf16>, %k: tensor<1x4x3xf16>, %v: tensor<1x3x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> tensor<1x2x4xf16> {
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2]]]> : tensor<1x1x3xi32>}> : () -> tensor<1x1x3xi32>
  %rows = "tosa.const"() <{values = dense<[[[0], [1]]]> : tensor<1x2x1xi32>}> : () -> tensor<1x2x1xi32>
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf16>, tensor<1x4x3xf16>) -> tensor<1x2x3xf16>
  %dist = tosa.sub %cols, %rows : (tensor<1x1x3xi32>, tensor<1x2x1xi32>) -> tensor<1x2x3xi32>
  %neg = tosa.negate %dist : (tensor<1x2x3xi32>) -> tensor<1x2x3xi32>
  %far = tosa.abs %neg : (tensor<1x2x3xi32>) -> tensor<1x2x3xi32>
  %f = tosa.cast %far : (tensor<1x2x3xi32>) -> tensor<1x2x3xf16>
  %x = tosa.sub %s, %f : (tensor<1x2x3xf16>, tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %p = tosa.exp %d : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf16>, tensor<1x3x4xf16>) -> tensor<1x2x4xf16>
  func.return %o : tensor<1x2x4xf16>
}

// Region, integers of several widths.
// CHECK-LABEL: func.func @region_integers_of_several_widths(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf16>, tensor<1x4x3xf16>
// CHECK: qk = elementwise otherIns(%{{.*}}, %{{.*}} : tensor<1x2x3xi8>, tensor<1x2x3xi32>) {
// CHECK: ^bb0
// CHECK: arith.extsi %{{.*}} : i8 to i16
// CHECK: arith.muli %{{.*}}, %{{.*}} : i16
// CHECK: arith.extsi %{{.*}} : i16 to i32
// CHECK: arith.minsi %{{.*}}, %{{.*}} : i32
// CHECK: arith.sitofp %{{.*}} : i32 to f32
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: arith.extf %{{.*}} : f16 to f32
// CHECK: arith.addf %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf16>
func.func @region_integers_of_several_widths(%q: tensor<1x2x4xf16>, %k: tensor<1x4x3xf16>, %v: tensor<1x3x4xf16>, %b: tensor<1x1x3xi8>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> tensor<1x2x4xf16> {
  %cols = "tosa.const"() <{values = dense<[[[0, 1, 2]]]> : tensor<1x1x3xi32>}> : () -> tensor<1x1x3xi32>
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf16>, tensor<1x4x3xf16>) -> tensor<1x2x3xf16>
  %b1 = tosa.cast %b : (tensor<1x1x3xi8>) -> tensor<1x1x3xi16>
  %b2 = tosa.mul %b1, %b1 : (tensor<1x1x3xi16>, tensor<1x1x3xi16>) -> tensor<1x1x3xi16>
  %b3 = tosa.cast %b2 : (tensor<1x1x3xi16>) -> tensor<1x1x3xi32>
  %b4 = tosa.minimum %b3, %cols : (tensor<1x1x3xi32>, tensor<1x1x3xi32>) -> tensor<1x1x3xi32>
  %f = tosa.cast %b4 : (tensor<1x1x3xi32>) -> tensor<1x1x3xf16>
  %x = tosa.add %s, %f : (tensor<1x2x3xf16>, tensor<1x1x3xf16>) -> tensor<1x2x3xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %p = tosa.exp %d : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf16>, tensor<1x3x4xf16>) -> tensor<1x2x4xf16>
  func.return %o : tensor<1x2x4xf16>
}

// Region, clamped scores.
// CHECK-LABEL: func.func @region_clamped_scores(
// CHECK: rock.attention{
// CHECK: qk = %{{.*}} * %{{.*}} : tensor<1x2x4xf16>, tensor<1x4x3xf16>
// CHECK: qk = elementwise {
// CHECK: ^bb0
// CHECK: arith.constant 5.000000e-01 : f32
// CHECK: arith.minimumf %{{.*}}, %{{.*}} : f32
// CHECK: arith.negf %{{.*}} : f32
// CHECK: arith.maximumf %{{.*}}, %{{.*}} : f32
// CHECK: rock.yield %{{.*}} : f32
// CHECK: }
// CHECK: softmax(qk) * %{{.*}} : tensor<1x3x4xf16>
// CHECK: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32} -> tensor<1x2x4xf16>
func.func @region_clamped_scores(%q: tensor<1x2x4xf16>, %k: tensor<1x4x3xf16>, %v: tensor<1x3x4xf16>, %n: tensor<1xi32>, %m: tensor<1xi32>, %l: tensor<1xi64>, %w: tensor<3xi32>) -> tensor<1x2x4xf16> {
  %s = tosa.matmul %q, %k : (tensor<1x2x4xf16>, tensor<1x4x3xf16>) -> tensor<1x2x3xf16>
  %hi = "tosa.const"() <{values = dense<5.000000e-01> : tensor<1x1x1xf16>}> : () -> tensor<1x1x1xf16>
  %lo = tosa.negate %hi : (tensor<1x1x1xf16>) -> tensor<1x1x1xf16>
  %y = tosa.minimum %s, %hi : (tensor<1x2x3xf16>, tensor<1x1x1xf16>) -> tensor<1x2x3xf16>
  %x = tosa.maximum %y, %lo : (tensor<1x2x3xf16>, tensor<1x1x1xf16>) -> tensor<1x2x3xf16>
  %top = tosa.reduce_max %x {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %d = tosa.sub %x, %top : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %p = tosa.exp %d : (tensor<1x2x3xf16>) -> tensor<1x2x3xf16>
  %t = tosa.reduce_sum %p {axis = 2 : i32} : (tensor<1x2x3xf16>) -> tensor<1x2x1xf16>
  %r = tosa.reciprocal %t : (tensor<1x2x1xf16>) -> tensor<1x2x1xf16>
  %a = tosa.mul %p, %r : (tensor<1x2x3xf16>, tensor<1x2x1xf16>) -> tensor<1x2x3xf16>
  %o = tosa.matmul %a, %v : (tensor<1x2x3xf16>, tensor<1x3x4xf16>) -> tensor<1x2x4xf16>
  func.return %o : tensor<1x2x4xf16>
}
