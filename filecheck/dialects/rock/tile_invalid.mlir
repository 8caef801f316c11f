// RUN: XPAGED_INVALID

func.func @gap(%a: !rock.tile<16x4xf16, #rock.layout<wave = [], lane = [8 -> d0], regs = [4 -> d1]>>) {
  return
}
// CHECK: rock.tile: coordinate 0 has 16 elements, the digits reach 8 (wave = [], lane = [8 -> d0], regs = [4 -> d1])

// -----

func.func @overlap(%a: !rock.tile<16x4xf16, #rock.layout<wave = [2 -> d0 * 8], lane = [16 -> d0], regs = [4 -> d1]>>) {
  return
}
// CHECK: rock.tile: coordinate 0: a step of 8 where 16 was expected

// -----

func.func @too_many_coordinates(%a: !rock.tile<16x4xf16, #rock.layout<wave = [], lane = [16 -> d0, 4 -> d2], regs = [4 -> d1]>>) {
  return
}
// CHECK: rock.tile: the digit 4 -> d2 does not fit a tile of 16x4

// -----

func.func @copies_in_registers(%a: !rock.tile<16x4xf16, #rock.layout<wave = [], lane = [16 -> d0], regs = [4 -> d1, 2 -> copy]>>) {
  return
}
// CHECK: rock.tile: registers of one lane may not hold copies

// -----

func.func @coordinate_name(%a: !rock.tile<16x4xf16, #rock.layout<wave = [], lane = [16 -> x0], regs = [4 -> d1]>>) {
  return
}
// CHECK: expected a coordinate (d0, d1, ...) or 'copy', found 'x0'

// -----

func.func @not_a_layout(%a: !rock.tile<16x4xf16, 7 : i32>) {
  return
}
// CHECK: expected a #rock.layout, found 7 : i32

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @fill(%x: f16) {
  %0 = rock.tile_fill %x : f16 -> !rock.tile<1x16x16xf32, #s>
  return
}
// CHECK: rock.tile_fill: cannot fill !rock.tile<1x16x16xf32, 

// -----

#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @index_type(%x: index) {
  %0 = rock.tile_index %x strides [0, 0, 1] -> !rock.tile<1x1x16xf32, #row>
  return
}
// CHECK: rock.tile_index makes i32 tiles, found f32

// -----

#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @index_rank(%x: index) {
  %0 = rock.tile_index %x strides [0, 1] -> !rock.tile<1x1x16xi32, #row>
  return
}
// CHECK: the tile has 3 coordinates, found 2 strides

// -----

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
func.func @load_element(%v: memref<4x1x16x16xf32>, %i: index) {
  %0 = rock.tile_load %v[%i] : memref<4x1x16x16xf32> -> !rock.tile<1x16x16xf16, #k>
  return
}
// CHECK: the view holds f32, the tile f16

// -----

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
func.func @load_indices(%v: memref<4x1x16x16xf16>, %i: index) {
  %0 = rock.tile_load %v[%i, %i] : memref<4x1x16x16xf16> -> !rock.tile<1x16x16xf16, #k>
  return
}
// CHECK: after 2 indices the view 4x1x16x16 leaves [16, 16], expected the shape of the tile [1, 16, 16]

// -----

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
func.func @store_shape(%v: memref<4x1x16x32xf16>, %i: index, %k: !rock.tile<1x16x16xf16, #k>) {
  rock.tile_store %k, %v[%i] : !rock.tile<1x16x16xf16, #k>, memref<4x1x16x32xf16>
  return
}
// CHECK: after 1 indices the view 4x1x16x32 leaves [1, 16, 32], expected the shape of the tile [1, 16, 16]

// -----

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
func.func @mask_element(%v: memref<1x16x16xf16>, %m: !rock.tile<1x16x16xi32, #k>) {
  %0 = rock.tile_load %v[] where %m : !rock.tile<1x16x16xi32, #k> : memref<1x16x16xf16> -> !rock.tile<1x16x16xf16, #k>
  return
}
// CHECK: rock.tile_load: the mask is a tile of i1, found i32

// -----

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @mask_layout(%v: memref<1x16x16xf16>, %m: !rock.tile<1x1x16xi1, #row>) {
  %0 = rock.tile_load %v[] where %m : !rock.tile<1x1x16xi1, #row> : memref<1x16x16xf16> -> !rock.tile<1x16x16xf16, #k>
  return
}
// CHECK: a tile of 1x1x16 with wave = [], lane = [16 -> d2, 4 -> copy], regs = [] does not broadcast to 1x16x16 with wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]

// -----

func.func @global_lds() {
  %0 = rock.lds_alloc : memref<4xf32>
  return
}
// CHECK: rock.lds_alloc makes memrefs in memory space 3, found memref<4xf32>

// -----

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @mma_result(%a: !rock.tile<1x16x16xf16, #k>, %b: !rock.tile<1x16x16xf16, #s>, %c: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_mma "mfma_f32_16x16x16_f16" %a, %b, %c : !rock.tile<1x16x16xf16, #k>, !rock.tile<1x16x16xf16, #s>, !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x16x16xf16, #s>
  return
}
// CHECK: rock.tile_mma: the result has the type of C

// -----

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#b = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 8], regs = [8 -> d1]>
func.func @mma_shape(%a: !rock.tile<1x16x16xf16, #k>, %b: !rock.tile<1x32x16xf16, #b>, %c: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_mma "mfma_f32_16x16x16_f16" %a, %b, %c : !rock.tile<1x16x16xf16, #k>, !rock.tile<1x32x16xf16, #b>, !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x16x16xf32, #s>
  return
}
// CHECK: rock.tile_mma: cannot multiply [1, 16, 16] by [1, 32, 16] into [1, 16, 16]

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#a = #rock.layout<wave = [2 -> d0], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
func.func @mma_batch(%a: !rock.tile<2x16x16xf16, #a>, %b: !rock.tile<1x16x16xf16, #s>, %c: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_mma "mfma_f32_16x16x16_f16" %a, %b, %c : !rock.tile<2x16x16xf16, #a>, !rock.tile<1x16x16xf16, #s>, !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x16x16xf32, #s>
  return
}
// CHECK: rock.tile_mma: cannot multiply [2, 16, 16] by [1, 16, 16] into [1, 16, 16]

// -----

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @mma_name(%a: !rock.tile<1x16x16xf16, #k>, %b: !rock.tile<1x16x16xf16, #s>, %c: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_mma "mfma_f32_16x16x16_f17" %a, %b, %c : !rock.tile<1x16x16xf16, #k>, !rock.tile<1x16x16xf16, #s>, !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x16x16xf32, #s>
  return
}
// CHECK: rock.tile_mma: unknown instruction "mfma_f32_16x16x16_f17", did you mean 'mfma_f32_16x16x16_f16'?

// -----

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @mma_element(%a: !rock.tile<1x16x16xf16, #k>, %b: !rock.tile<1x16x16xf16, #s>, %c: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_mma "mfma_f32_16x16x16_bf16" %a, %b, %c : !rock.tile<1x16x16xf16, #k>, !rock.tile<1x16x16xf16, #s>, !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x16x16xf32, #s>
  return
}
// CHECK: rock.tile_mma: mfma_f32_16x16x16_bf16 multiplies bf16 into f32, found a tile of f16

// -----

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#c = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1], regs = [4 -> d1 * 4]>
func.func @mma_rows(%a: !rock.tile<1x16x16xf16, #k>, %b: !rock.tile<1x16x16xf16, #s>, %c: !rock.tile<1x16x16xf32, #c>) {
  %0 = rock.tile_mma "mfma_f32_16x16x16_f16" %a, %b, %c : !rock.tile<1x16x16xf16, #k>, !rock.tile<1x16x16xf16, #s>, !rock.tile<1x16x16xf32, #c> -> !rock.tile<1x16x16xf32, #c>
  return
}
// CHECK: mfma_f32_16x16x16_f16: the rows of C must be the rows that A holds in these lanes

// -----

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#b = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1], regs = [4 -> d1 * 4]>
func.func @mma_reduction(%a: !rock.tile<1x16x16xf16, #k>, %b: !rock.tile<1x16x16xf16, #b>, %c: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_mma "mfma_f32_16x16x16_f16" %a, %b, %c : !rock.tile<1x16x16xf16, #k>, !rock.tile<1x16x16xf16, #b>, !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x16x16xf32, #s>
  return
}
// CHECK: mfma_f32_16x16x16_f16: A and B must hold the same reduction index in each lane group

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @map_result(%s: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_map(%a = %s : !rock.tile<1x16x16xf32, #s>) -> f32 {
    rock.tile_yield %a : f32
  }
  return
}
// CHECK: rock.tile_map makes a tile

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @map_yield(%s: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_map(%a = %s : !rock.tile<1x16x16xf32, #s>) -> !rock.tile<1x16x16xf16, #s> {
    rock.tile_yield %a : f32
  }
  return
}
// CHECK: rock.tile_map: the region must end with rock.tile_yield of f16

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @map_outer(%s: !rock.tile<1x16x16xf32, #s>, %x: f32) {
  %0 = rock.tile_map(%a = %s : !rock.tile<1x16x16xf32, #s>) -> !rock.tile<1x16x16xf32, #s> {
    rock.tile_yield %x : f32
  }
  return
}
// CHECK: operand 0 of 'rock.tile_yield' is used before it is defined, or is defined in another region

// -----

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @map_layout(%s: !rock.tile<1x16x16xf32, #s>, %k: !rock.tile<1x16x16xf16, #k>) {
  %0 = rock.tile_map(%a = %s : !rock.tile<1x16x16xf32, #s>, %b = %k : !rock.tile<1x16x16xf16, #k>) -> !rock.tile<1x16x16xf32, #s> {
    rock.tile_yield %a : f32
  }
  return
}
// CHECK: a tile of 1x16x16 with wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2] does not broadcast to 1x16x16 with

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @map_input(%v: memref<4xf32>) {
  %0 = rock.tile_map(%a = %v : memref<4xf32>) -> !rock.tile<1x16x16xf32, #s> {
    %b = arith.constant 1.0 : f32
    rock.tile_yield %b : f32
  }
  return
}
// CHECK: rock.tile_map takes tiles and scalars, found memref<4xf32>

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @map_argument(%s: !rock.tile<1x16x16xf32, #s>) {
  %0 = "rock.tile_map"(%s) ({
  ^bb0(%a0: f16):
    rock.tile_yield %a0 : f16
  }) : (!rock.tile<1x16x16xf32, #s>) -> !rock.tile<1x16x16xf16, #s>
  return
}
// CHECK: rock.tile_map: !rock.tile<1x16x16xf32, #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>> enters the region as f32

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @map_count(%s: !rock.tile<1x16x16xf32, #s>) {
  %0 = "rock.tile_map"(%s) ({
  ^bb0(%a0: f32, %a1: f32):
    rock.tile_yield %a0 : f32
  }) : (!rock.tile<1x16x16xf32, #s>) -> !rock.tile<1x16x16xf32, #s>
  return
}
// CHECK: rock.tile_map: 1 inputs for 2 region arguments

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @mask_integers(%s: !rock.tile<1x16x16xi32, #s>, %u: !rock.tile<1x1x16xi32, #row>, %i: index) {
  %0 = rock.tile_mask %s keys %i strides [16, 1, 0] upper %u : !rock.tile<1x16x16xi32, #s>, !rock.tile<1x1x16xi32, #row> -> !rock.tile<1x16x16xi32, #s>
  return
}
// CHECK: rock.tile_mask works on a tile of floats, found !rock.tile<1x16x16xi32, 

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @mask_result(%s: !rock.tile<1x16x16xf32, #s>, %u: !rock.tile<1x1x16xi32, #row>, %i: index) {
  %0 = rock.tile_mask %s keys %i strides [16, 1, 0] upper %u : !rock.tile<1x16x16xf32, #s>, !rock.tile<1x1x16xi32, #row> -> !rock.tile<1x16x16xf16, #s>
  return
}
// CHECK: rock.tile_mask works on a tile of floats, found !rock.tile<1x16x16xf32, 

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @mask_rank(%s: !rock.tile<1x16x16xf32, #s>, %u: !rock.tile<1x1x16xi32, #row>, %i: index) {
  %0 = rock.tile_mask %s keys %i strides [1] upper %u : !rock.tile<1x16x16xf32, #s>, !rock.tile<1x1x16xi32, #row> -> !rock.tile<1x16x16xf32, #s>
  return
}
// CHECK: the tile has 3 coordinates, found 1 strides

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @mask_bound(%s: !rock.tile<1x16x16xf32, #s>, %u: !rock.tile<1x1x16xf32, #row>, %i: index) {
  %0 = rock.tile_mask %s keys %i strides [16, 1, 0] upper %u : !rock.tile<1x16x16xf32, #s>, !rock.tile<1x1x16xf32, #row> -> !rock.tile<1x16x16xf32, #s>
  return
}
// CHECK: rock.tile_mask: a bound is a tile of i32, found !rock.tile<1x1x16xf32, 

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @mask_bound_layout(%s: !rock.tile<1x16x16xf32, #s>, %u: !rock.tile<1x16x16xi32, #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>>, %i: index) {
  %0 = rock.tile_mask %s keys %i strides [16, 1, 0] upper %u : !rock.tile<1x16x16xf32, #s>, !rock.tile<1x16x16xi32, #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>> -> !rock.tile<1x16x16xf32, #s>
  return
}
// CHECK: a tile of 1x16x16 with wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2] does not broadcast

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @reduce_kind(%s: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_reduce "min" %s along 1 : !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x1x16xf32, #row>
  return
}
// CHECK: rock.tile_reduce: 'max' or 'sum', found 'min'

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @reduce_dim(%s: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_reduce "max" %s along 3 : !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x1x16xf32, #row>
  return
}
// CHECK: rock.tile_reduce: the tile has no coordinate 3

// -----

#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
#w = #rock.layout<wave = [4 -> d0], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @reduce_waves(%s: !rock.tile<4x16x16xf32, #w>) {
  %0 = rock.tile_reduce "max" %s along 0 : !rock.tile<4x16x16xf32, #w> -> !rock.tile<1x1x16xf32, #row>
  return
}
// CHECK: rock.tile_reduce: coordinate 0 is spread over waves; reduce it through LDS

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @reduce_lane_result(%s: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_reduce_lane "max" %s along 1 : !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x1x16xf32, #row>
  return
}
// CHECK: rock.tile_reduce_lane: the result is wave = [], lane = [16 -> d2, 4 -> d1], regs = []

// -----

#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @if_any_condition(%s: !rock.tile<1x1x16xf32, #row>) {
  %0 = rock.tile_if_any %s : !rock.tile<1x1x16xf32, #row>(%a = %s : !rock.tile<1x1x16xf32, #row>) {
    rock.tile_yield %a : !rock.tile<1x1x16xf32, #row>
  }
  return
}
// CHECK: rock.tile_if_any: the condition is a tile of i1, found !rock.tile<1x1x16xf32

// -----

#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @if_any_yield(%c: !rock.tile<1x1x16xi1, #row>, %s: !rock.tile<1x1x16xf32, #row>) {
  %0 = rock.tile_if_any %c : !rock.tile<1x1x16xi1, #row>(%a = %s : !rock.tile<1x1x16xf32, #row>) {
    rock.tile_yield %c : !rock.tile<1x1x16xi1, #row>
  }
  return
}
// CHECK: rock.tile_if_any: the region must end with rock.tile_yield of the types it is given

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#row = #rock.layout<wave = [], lane = [16 -> d2, 4 -> copy], regs = []>
func.func @reduce_result(%s: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_reduce "max" %s along 1 : !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x16x16xf32, #s>
  return
}
// CHECK: rock.tile_reduce: the result is wave = [], lane = [16 -> d2, 4 -> copy], regs = []

// -----

#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @convert_shape(%s: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_convert_layout %s : !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x16x16xf16, #s>
  return
}
// CHECK: rock.tile_convert_layout: !rock.tile<1x16x16xf32, #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>> and !rock.tile<1x16x16xf16, #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>> are not the same tile

// -----

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 4], regs = [4 -> d2]>
#s = #rock.layout<wave = [], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
func.func @convert_lanes(%s: !rock.tile<1x16x16xf32, #s>) {
  %0 = rock.tile_convert_layout %s : !rock.tile<1x16x16xf32, #s> -> !rock.tile<1x16x16xf32, #k>
  return
}
// CHECK: rock.tile_convert_layout: elements would move between lanes; go through LDS

// -----

#a = #rock.layout<wave = [2 -> d0], lane = [16 -> d2, 4 -> d1 * 4], regs = [4 -> d1]>
#b = #rock.layout<wave = [2 -> d1 * 8], lane = [16 -> d2, 4 -> d1 * 2], regs = [2 -> d1, 2 -> d0]>
func.func @convert_waves(%s: !rock.tile<2x16x16xf32, #a>) {
  %0 = rock.tile_convert_layout %s : !rock.tile<2x16x16xf32, #a> -> !rock.tile<2x16x16xf32, #b>
  return
}
// CHECK: rock.tile_convert_layout: elements would move between waves; go through LDS
