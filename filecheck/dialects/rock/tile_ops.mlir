// RUN: XPAGED_ROUNDTRIP
// RUN: XPAGED_GENERIC_ROUNDTRIP

// A tile names a layout: wave, lane and register numbers, lowest digit first, and where each digit leads. Head sizes
// need not be powers of two, and lanes that differ in a `copy` hold the same element.
#keys = #rock.layout<wave = [4 -> copy, 2 -> d0], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2, 5 -> d2 * 16, 2 -> d1 * 16]>

// CHECK:      #layout = #rock.layout<wave = [4 -> copy, 2 -> d0], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2, 5 -> d2 * 16, 2 -> d1 * 16]>
// CHECK:      func.func @layouts(%a: !rock.tile<2x32x80xf16, #layout>) {
func.func @layouts(%a: !rock.tile<2x32x80xf16, #keys>) {
  return
}

// -----

// K [1, keys, channels], Q^T [1, channels, columns] and S^T [1, keys, columns] of one wave, one value a column, one a key.
#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
#key = #rock.layout<wave = [], lane = [16 -> d1, 4 -> copy], regs = []>
#part = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1], regs = []>
#pairs = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [2 -> d1 * 2, 2 -> d1]>

// CHECK:      #layout = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
// CHECK-NEXT: #layout1 = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
// CHECK-NEXT: #layout2 = #rock.layout<wave = [], lane = [16 -> d1, 4 -> copy], regs = []>
// CHECK-NEXT: #layout3 = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
// CHECK-NEXT: #layout4 = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1], regs = []>
// CHECK-NEXT: #layout5 = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [2 -> d1 * 2, 2 -> d1]>

// CHECK:      func.func @values
func.func @values(%zero: f32, %base: index) {
  // CHECK-NEXT: rock.stage "the start"
  rock.stage "the start"
  // CHECK-NEXT: %g = rock.workgroup_id : index
  %g = rock.workgroup_id : index
  // CHECK-NEXT: %s = rock.tile_fill %zero : f32 -> !rock.tile<1x16x16xf32, #layout>
  %s = rock.tile_fill %zero : f32 -> !rock.tile<1x16x16xf32, #s>
  // CHECK-NEXT: %rows = rock.tile_index %base strides [0, 0, 1] -> !rock.tile<1x1x16xi32, #layout1>
  %rows = rock.tile_index %base strides [0, 0, 1] -> !rock.tile<1x1x16xi32, #row>
  return
}

// CHECK:      func.func @memory
func.func @memory(%view: memref<8x3x1x16x16xf16>, %i: index, %j: index, %alive: !rock.tile<1x16x1xi1, #key>) {
  // A view has a leading coordinate for each index, the others are the tile's.
  // CHECK-NEXT: %k = rock.tile_load %view[%i, %j] : memref<8x3x1x16x16xf16> -> !rock.tile<1x16x16xf16, #layout3>
  %k = rock.tile_load %view[%i, %j] : memref<8x3x1x16x16xf16> -> !rock.tile<1x16x16xf16, #k>
  // CHECK-NEXT: %some = rock.tile_load %view[%i, %j] where %alive : !rock.tile<1x16x1xi1, #layout2> : memref<8x3x1x16x16xf16> -> !rock.tile<1x16x16xf16, #layout3>
  %some = rock.tile_load %view[%i, %j] where %alive : !rock.tile<1x16x1xi1, #key> : memref<8x3x1x16x16xf16> -> !rock.tile<1x16x16xf16, #k>
  // CHECK-NEXT: rock.tile_store %k, %view[%i, %j] : !rock.tile<1x16x16xf16, #layout3>, memref<8x3x1x16x16xf16>
  rock.tile_store %k, %view[%i, %j] : !rock.tile<1x16x16xf16, #k>, memref<8x3x1x16x16xf16>
  // CHECK-NEXT: %lds = rock.lds_alloc : memref<1x16x16xf16, 3 : i32>
  %lds = rock.lds_alloc : memref<1x16x16xf16, 3 : i32>
  // CHECK-NEXT: rock.tile_store %k, %lds[] : !rock.tile<1x16x16xf16, #layout3>, memref<1x16x16xf16, 3 : i32>
  rock.tile_store %k, %lds[] : !rock.tile<1x16x16xf16, #k>, memref<1x16x16xf16, 3 : i32>
  // CHECK-NEXT: rock.barrier
  rock.barrier
  // CHECK-NEXT: rock.sched_barrier
  rock.sched_barrier
  return
}

// CHECK:      func.func @arithmetic
func.func @arithmetic(%k: !rock.tile<1x16x16xf16, #k>, %q: !rock.tile<1x16x16xf16, #s>, %s0: !rock.tile<1x16x16xf32, #s>,
    %upper: !rock.tile<1x1x16xi32, #row>, %base: index, %scale: f32, %alive: !rock.tile<1x16x1xi1, #key>) {
  // CHECK-NEXT: %s = rock.tile_mma "mfma_f32_16x16x16_f16" %k, %q, %s0 : !rock.tile<1x16x16xf16, #layout3>, !rock.tile<1x16x16xf16, #layout>, !rock.tile<1x16x16xf32, #layout> -> !rock.tile<1x16x16xf32, #layout>
  %s = rock.tile_mma "mfma_f32_16x16x16_f16" %k, %q, %s0 : !rock.tile<1x16x16xf16, #k>, !rock.tile<1x16x16xf16, #s>, !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x16x16xf32, #s>
  // CHECK-NEXT: %m = rock.tile_mask %s keys %base strides [16, 1, 0] upper %upper : !rock.tile<1x16x16xf32, #layout>, !rock.tile<1x1x16xi32, #layout1> -> !rock.tile<1x16x16xf32, #layout>
  %m = rock.tile_mask %s keys %base strides [16, 1, 0] upper %upper : !rock.tile<1x16x16xf32, #s>, !rock.tile<1x1x16xi32, #row> -> !rock.tile<1x16x16xf32, #s>
  // CHECK-NEXT: %w = rock.tile_mask %s keys %base strides [16, 1, 0] upper %upper lower %upper : !rock.tile<1x1x16xi32, #layout1> : !rock.tile<1x16x16xf32, #layout>, !rock.tile<1x1x16xi32, #layout1> -> !rock.tile<1x16x16xf32, #layout>
  %w = rock.tile_mask %s keys %base strides [16, 1, 0] upper %upper lower %upper : !rock.tile<1x1x16xi32, #row> : !rock.tile<1x16x16xf32, #s>, !rock.tile<1x1x16xi32, #row> -> !rock.tile<1x16x16xf32, #s>
  // CHECK-NEXT: %top = rock.tile_reduce "max" %m along 1 : !rock.tile<1x16x16xf32, #layout> -> !rock.tile<1x1x16xf32, #layout1>
  %top = rock.tile_reduce "max" %m along 1 : !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x1x16xf32, #row>
  // A tile with an extent of 1 repeats, a scalar is the same everywhere.
  // CHECK-NEXT: %p = rock.tile_map(%a = %m : !rock.tile<1x16x16xf32, #layout>, %b = %top : !rock.tile<1x1x16xf32, #layout1>, %c = %scale : f32) -> !rock.tile<1x16x16xf16, #layout> attributes {note = "p"} {
  // CHECK-NEXT:   %d = arith.subf %a, %b : f32
  // CHECK-NEXT:   %e = arith.mulf %d, %c : f32
  // CHECK-NEXT:   %f = arith.truncf %e : f32 to f16
  // CHECK-NEXT:   rock.tile_yield %f : f16
  // CHECK-NEXT: }
  %p = rock.tile_map(%a = %m : !rock.tile<1x16x16xf32, #s>, %b = %top : !rock.tile<1x1x16xf32, #row>, %c = %scale : f32) -> !rock.tile<1x16x16xf16, #s> attributes {note = "p"} {
    %d = arith.subf %a, %b : f32
    %e = arith.mulf %d, %c : f32
    %f = arith.truncf %e : f32 to f16
    rock.tile_yield %f : f16
  }
  // CHECK-NEXT: %sum = rock.tile_reduce "sum" %p along 1 : !rock.tile<1x16x16xf16, #layout> -> !rock.tile<1x1x16xf16, #layout1>
  %sum = rock.tile_reduce "sum" %p along 1 : !rock.tile<1x16x16xf16, #s> -> !rock.tile<1x1x16xf16, #row>
  // The lanes of a column keep a part each; what follows is done by a wave if it must be.
  // CHECK-NEXT: %part = rock.tile_reduce_lane "max" %m along 1 : !rock.tile<1x16x16xf32, #layout> -> !rock.tile<1x4x16xf32, #layout4>
  %part = rock.tile_reduce_lane "max" %m along 1 : !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x4x16xf32, #part>
  // CHECK-NEXT: %x, %y = rock.tile_if_any %alive : !rock.tile<1x16x1xi1, #layout2>(%g = %top : !rock.tile<1x1x16xf32, #layout1>, %h = %part : !rock.tile<1x4x16xf32, #layout4>) {
  // CHECK-NEXT:   rock.tile_yield %g, %h : !rock.tile<1x1x16xf32, #layout1>, !rock.tile<1x4x16xf32, #layout4>
  // CHECK-NEXT: }
  %x, %y = rock.tile_if_any %alive : !rock.tile<1x16x1xi1, #key>(%g = %top : !rock.tile<1x1x16xf32, #row>, %h = %part : !rock.tile<1x4x16xf32, #part>) {
    rock.tile_yield %g, %h : !rock.tile<1x1x16xf32, #row>, !rock.tile<1x4x16xf32, #part>
  }
  // CHECK-NEXT: %r = rock.tile_convert_layout %p : !rock.tile<1x16x16xf16, #layout> -> !rock.tile<1x16x16xf16, #layout5>
  %r = rock.tile_convert_layout %p : !rock.tile<1x16x16xf16, #s> -> !rock.tile<1x16x16xf16, #pairs>
  return
}
