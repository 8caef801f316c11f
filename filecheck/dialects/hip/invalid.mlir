// RUN: XPAGED_INVALID

func.func @load_element(%q: memref<64xf16>, %i: i32) {
  %0 = hip.load %q[%i] : memref<64xf16>, i32 -> vector<4xf32>
  return
}
// CHECK: hip.load: the base holds f16, the value is vector<4xf32>

// -----

func.func @load_base(%q: i32, %i: i32) {
  %0 = hip.load %q[%i] : i32, i32 -> f32
  return
}
// CHECK: hip.load: the base is an i64 address or a memref in global memory, found i32

// -----

func.func @store_to_lds(%q: memref<64xf32, 3>, %i: i32, %x: f32) {
  hip.store %x, %q[%i] : f32, memref<64xf32, 3>, i32
  return
}
// CHECK: hip.store: the base is an i64 address or a memref in global memory, found memref<64xf32, 3

// -----

func.func @lds_alloc() {
  %0 = hip.lds_alloc : memref<64xf32>
  return
}
// CHECK: hip.lds_alloc makes memrefs in memory space 3, found memref<64xf32>

// -----

func.func @lds_load(%q: memref<64xf32>, %i: i32) {
  %0 = hip.lds_load %q[%i] : memref<64xf32>, i32 -> f32
  return
}
// CHECK: hip.lds_load: the base is a memref in memory space 3, found memref<64xf32>

// -----

func.func @lds_store(%q: memref<64xf32, 3>, %i: i32, %x: f16) {
  hip.lds_store %x, %q[%i] : f16, memref<64xf32, 3>, i32
  return
}
// CHECK: hip.lds_store: the base holds f32, the value is f16

// -----

func.func @get(%r: !hip.regs<2 x vector<4xf32>>, %i: i32) {
  %0 = hip.get %r[%i] : !hip.regs<2 x vector<4xf32>>, i32 -> f32
  return
}
// CHECK: hip.get: the array holds vector<4xf32>, so the value is vector<4xf32>, found f32

// -----

func.func @set(%r: !hip.regs<2 x vector<4xf32>>, %i: i32, %x: f16) {
  hip.set %x, %r[%i, %i] : f16, !hip.regs<2 x vector<4xf32>>, i32, i32
  return
}
// CHECK: hip.set: the array holds vector<4xf32>, so the value is f32, found f16

// -----

func.func @get_indices(%r: !hip.regs<2 x f32>, %i: i32) {
  %0 = hip.get %r[%i, %i, %i] : !hip.regs<2 x f32>, i32, i32, i32 -> f32
  return
}
// CHECK: hip.get takes one index, or two for an element of a vector, found 3

// -----

func.func @regs_count() {
  %0 = hip.regs : !hip.regs<0 x f32>
  return
}
// CHECK: a register array needs a positive count, found 0

// -----

func.func @regs_element() {
  %0 = hip.regs : !hip.regs<2 x memref<4xf32>>
  return
}
// CHECK: a register array holds scalars or vectors, found memref<4xf32>

// -----

func.func @vector_count(%x: f32) {
  %0 = hip.vector %x, %x, %x : f32, f32, f32 -> vector<4xf32>
  return
}
// CHECK: hip.vector: the parts hold 3 elements, the result 4

// -----

func.func @vector_element(%x: f32, %y: f16) {
  %0 = hip.vector %x, %y : f32, f16 -> vector<2xf32>
  return
}
// CHECK: hip.vector: cannot put f16 into vector<2xf32>

// -----

func.func @splat(%x: f32) {
  %0 = hip.splat %x : f32 -> vector<2xf16>
  return
}
// CHECK: hip.splat: cannot put f32 into vector<2xf16>

// -----

func.func @slice_end(%x: vector<4xf32>) {
  %0 = hip.slice %x at 3 : vector<4xf32> -> vector<2xf32>
  return
}
// CHECK: hip.slice: elements up to 5 asked of vector<4xf32>

// -----

func.func @slice_element(%x: vector<4xf32>) {
  %0 = hip.slice %x at 0 : vector<4xf32> -> f16
  return
}
// CHECK: hip.slice: vector<4xf32> holds no f16

// -----

func.func @mma_name(%a: vector<4xf16>, %c: vector<4xf32>) {
  %0 = hip.mma "mfma_f32_16x16x16f16" %a, %a, %c : vector<4xf16>, vector<4xf16>, vector<4xf32> -> vector<4xf32>
  return
}
// CHECK: hip.mma: unknown instruction "mfma_f32_16x16x16f16", did you mean 'mfma_f32_16x16x16_f16'?

// -----

func.func @mma_operand(%a: vector<4xf16>, %b: vector<2xf16>, %c: vector<4xf32>) {
  %0 = hip.mma "mfma_f32_16x16x16_f16" %a, %b, %c : vector<4xf16>, vector<2xf16>, vector<4xf32> -> vector<4xf32>
  return
}
// CHECK: hip.mma: b of mfma_f32_16x16x16_f16 is 4 x f16 a lane, found vector<2xf16>

// -----

func.func @exchange_type(%x: f16) {
  %0 = hip.exchange %x xor 1 : f16 -> f16
  return
}
// CHECK: hip.exchange moves whole 32-bit words, found f16

// -----

func.func @exchange_self(%x: f32) {
  %0 = hip.exchange %x xor 0 : f32 -> f32
  return
}
// CHECK: hip.exchange: a lane is another one's partner, found xor 0

// -----

func.func @exp2_type(%x: i32) {
  %0 = hip.exp2 %x : i32 -> i32
  return
}
// CHECK: hip.exp2 takes floats, found i32

// -----

func.func @uniform_type(%x: i32) {
  %0 = hip.uniform %x : i32 -> f32
  return
}
// CHECK: hip.uniform: the result is of the type of its operand, i32, found f32

// -----

func.func @load_lds_target(%q: memref<64xf32>, %i: i32) {
  hip.load_lds %q[%i] to %q[%i] x 1 : memref<64xf32>, i32, memref<64xf32>, i32
  return
}
// CHECK: hip.load_lds fills a memref in memory space 3, found memref<64xf32>

// -----

func.func @load_lds_element(%q: memref<64xf16>, %l: memref<64xf32, 3>, %i: i32) {
  hip.load_lds %q[%i] to %l[%i] x 1 : memref<64xf16>, i32, memref<64xf32, 3>, i32
  return
}
// CHECK: hip.load_lds: the base holds f16, the value is f32

// -----

func.func @load_lds_width(%q: memref<64xf32>, %l: memref<64xf32, 3>, %i: i32) {
  hip.load_lds %q[%i] to %l[%i] x 2 : memref<64xf32>, i32, memref<64xf32, 3>, i32
  return
}
// CHECK: hip.load_lds: a lane loads one of 4, 12, 16 bytes, found 2 x f32

// -----

func.func @waitcnt() {
  hip.waitcnt -1
  return
}
// CHECK: hip.waitcnt: a number of loads is 0 or more, found -1
