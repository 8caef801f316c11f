// RUN: xpaged opt %s -p tile-to-device | filecheck %s

// A tile of 16 keys out of a page of 16: the address of the page is looked up once, a lane has 8 channels of one key and
// reads them in one piece. No deref and no tile is left.

// CHECK-LABEL: func.func @copy
// CHECK-SAME:    rock.lds_bytes = 0 : i64
// CHECK:         %[[LANE:.*]] = hip.lane_id : i32
// CHECK-NEXT:    %[[IT:.*]] = hip.workgroup_id : i32
// CHECK-NEXT:    %[[K:.*]] = hip.regs : !hip.regs<1 x vector<8xf16>>
// CHECK-NEXT:    %[[PAGE:.*]] = hip.load %kt[%[[IT]]] : memref<1x64x1xi64>, i32 -> i64
// CHECK-NEXT:    %[[COL:.*]] = arith.remui %[[LANE]], %{{.*}} : i32
// CHECK-NEXT:    %[[ROW:.*]] = arith.muli %[[COL]], %{{.*}} : i32
// CHECK-NEXT:    %[[GROUP:.*]] = arith.divui %[[LANE]], %{{.*}} : i32
// CHECK-NEXT:    %[[CHANNEL:.*]] = arith.muli %[[GROUP]], %{{.*}} : i32
// CHECK-NEXT:    %[[OFFSET:.*]] = arith.addi %[[ROW]], %[[CHANNEL]] : i32
// CHECK-NEXT:    %[[LOADED:.*]] = hip.load %[[PAGE]][%[[OFFSET]]] : i64, i32 -> vector<8xf16>
// CHECK-NEXT:    hip.set %[[LOADED]], %[[K]][%{{.*}}] : vector<8xf16>, !hip.regs<1 x vector<8xf16>>, i32
// CHECK:         hip.store %{{.*}}, %o[%{{.*}}] : vector<8xf16>, memref<64x1x16x32xf16>, i32
// CHECK-NEXT:    func.return

#k = #rock.layout<wave = [], lane = [16 -> d1, 4 -> d2 * 8], regs = [8 -> d2]>
#tiles = #rock.transform_map<affine_map<(d0, d1, d2, d3) -> (0, d0, d1 * 512 + d2 * 32 + d3)> by
  [<ConstDim{0, 1} [] at [] -> ["b"] at [0]>, <PassThrough ["it"] at [0] -> ["p"] at [1]>,
   <Unmerge{1, 16, 32} ["w", "k", "d"] at [1, 2, 3] -> ["e"] at [2]>] bounds = [64, 1, 16, 32] -> [1, 64, 512]>

func.func @copy(%kt: memref<1x64x1xi64>, %o: memref<64x1x16x32xf16>)
    attributes {rock.kernel, arch = "gfx942", rock.grid_size = 64 : i32, rock.block_size = 64 : i32} {
  %pages = rock.deref %kt : memref<1x64x1xi64> -> memref<1x64x512xf16>
  %keys = rock.transform %pages by #tiles : memref<1x64x512xf16> to memref<64x1x16x32xf16>
  %it = rock.workgroup_id : index
  %k = rock.tile_load %keys[%it] : memref<64x1x16x32xf16> -> !rock.tile<1x16x32xf16, #k>
  rock.tile_store %k, %o[%it] : !rock.tile<1x16x32xf16, #k>, memref<64x1x16x32xf16>
  return
}

// A page of 12 rows: each key has a page of its own, whose number stays inside the table although the last tile reaches
// past it; what is not there is not read.

// CHECK-LABEL: func.func @odd
// CHECK:         %[[KEY:.*]] = arith.addi %{{.*}}, %{{.*}} : i32
// CHECK-NEXT:    %[[NUMBER:.*]] = arith.divui %[[KEY]], %{{.*}} : i32
// CHECK-NEXT:    %[[ENTRY:.*]] = arith.minui %[[NUMBER]], %{{.*}} : i32
// CHECK-NEXT:    %[[ADDRESS:.*]] = hip.load %kt[%[[ENTRY]]] : memref<1x5x1xi64>, i32 -> i64
// CHECK-NEXT:    %[[EXISTS:.*]] = arith.cmpi slt, %[[KEY]], %{{.*}} : i32
// CHECK:         arith.remui %[[KEY]], %{{.*}} : i32
// CHECK:         hip.load %[[ADDRESS]][%{{.*}}] if %[[EXISTS]] : i64, i32 -> vector<8xf16>
#flat = #rock.transform_map<affine_map<(d0) -> (0, d0 floordiv 384, d0 mod 384)> by
  [<ConstDim{0, 1} [] at [] -> ["b"] at [0]>, <Merge{5, 384} ["e"] at [0] -> ["p", "o"] at [1, 2]>]
  bounds = [1920] -> [1, 5, 384]>
#rows = #rock.transform_map<affine_map<(d0, d1) -> (d0 * 32 + d1)> by
  [<Unmerge{60, 32} ["key", "d"] at [0, 1] -> ["e"] at [0]>] bounds = [60, 32] -> [1920]>
#pad = #rock.transform_map<affine_map<(d0, d1) -> (d0, d1)> by
  [<Pad{0, 4} ["key"] at [0] -> ["key"] at [0]>, <PassThrough ["d"] at [1] -> ["d"] at [1]>]
  bounds = [64, 32] -> [60, 32]>
#cut = #rock.transform_map<affine_map<(d0, d1, d2, d3) -> (d0 * 16 + d1 * 16 + d2, d3)> by
  [<Unmerge{4, 1, 16} ["it", "w", "k"] at [0, 1, 2] -> ["key"] at [0]>, <PassThrough ["d"] at [3] -> ["d"] at [1]>]
  bounds = [4, 1, 16, 32] -> [64, 32]>
func.func @odd(%kt: memref<1x5x1xi64>, %o: memref<4x1x16x32xf16>)
    attributes {rock.kernel, arch = "gfx942", rock.grid_size = 4 : i32, rock.block_size = 64 : i32} {
  %pages = rock.deref %kt : memref<1x5x1xi64> -> memref<1x5x384xf16>
  %flat = rock.transform %pages by #flat : memref<1x5x384xf16> to memref<1920xf16>
  %rows = rock.transform %flat by #rows : memref<1920xf16> to memref<60x32xf16>
  %padded = rock.transform %rows by #pad : memref<60x32xf16> to memref<64x32xf16>
  %keys = rock.transform %padded by #cut : memref<64x32xf16> to memref<4x1x16x32xf16>
  %it = rock.workgroup_id : index
  %k = rock.tile_load %keys[%it] : memref<4x1x16x32xf16> -> !rock.tile<1x16x32xf16, #k>
  rock.tile_store %k, %o[%it] : !rock.tile<1x16x32xf16, #k>, memref<4x1x16x32xf16>
  return
}
