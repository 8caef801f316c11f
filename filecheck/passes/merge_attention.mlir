// RUN: xpaged-opt %s -p gemm-to-gridwise,gridwise-to-tile | filecheck %s
// RUN: xpaged-opt %s -p gemm-to-gridwise,gridwise-to-tile,place-barriers,tile-to-device | filecheck %s --check-prefix=LANE

// Two loops over the parts: the largest logarithm, then the weighted sums. A lane has four channels of one row.
// CHECK: #[[ALL:.*]] = #rock.layout<wave = [], lane = [8 -> d1 * 4, 8 -> d0], regs = [4 -> d1]>
// CHECK: rock.grid_size = 2 : i32, rock.block_size = 64 : i32
// CHECK: %m_1 = scf.for %part = %{{.*}} iter_args(%{{.*}} = %m) -> (!rock.tile<8x1xf32
// CHECK: rock.tile_load %lse_tiles{{.*}}[%part, %workgroup]
// CHECK: arith.maxnumf
// CHECK: {rock.trip_bound = 3 : i32, unroll}
// CHECK: %total_1, %acc_1 = scf.for %part
// CHECK: math.exp2
// CHECK: rock.tile_load %part_tiles{{.*}}[%part{{.*}}, %workgroup, %{{.*}}] : {{.*}} -> !rock.tile<8x32xf32, #[[ALL]]>
// CHECK: {rock.trip_bound = 3 : i32, unroll}
// CHECK: arith.truncf
// CHECK: rock.tile_store %o_packed
// CHECK: math.log2
// CHECK: rock.tile_store %lse

// LANE-NOT: hip.lds_alloc
// LANE: hip.load %lses
// LANE: hip.load %parts{{.*}} -> vector<4xf32>
// LANE: hip.store {{.*}}%out
// LANE: hip.store {{.*}}%lse
func.func @merge(%parts: memref<30x1x32xf32>, %lses: memref<30x1xf32>, %lse: memref<10x1xf32> {rock.output = 1 : i32}, %out: memref<10x1x32xf16> {rock.output = 0 : i32}) attributes {rock.kernel, arch = "gfx942"} {
  rock.merge_attention %parts, %lses into %out, %lse : memref<30x1x32xf32>, memref<30x1xf32> into memref<10x1x32xf16>, memref<10x1xf32>
  func.return
}
