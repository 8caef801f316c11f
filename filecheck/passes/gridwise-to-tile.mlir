// RUN: xpaged opt %s -p gridwise-to-tile | filecheck %s

// The online softmax of one workgroup: a loop over the key tiles that need no mask, and one over those up to the KV
// index. K and V are read here for the first time, each through the very chain that starts at its deref, and nothing but
// tiles is read through one.

// CHECK-LABEL: func.func @decode
// CHECK-NEXT:    %kd = rock.deref %kt : memref<3x96x1xi64> -> memref<3x96x16xf16>
// CHECK-NEXT:    %vd = rock.deref %vt : memref<3x96x1xi64> -> memref<3x96x16xf16>
// CHECK-NEXT:    %k = rock.transform %kd by
// CHECK:         %[[G:.*]] = rock.workgroup_id : index
// CHECK:         %[[K1:.*]] = rock.transform %k by {{.*}} : memref<3x16x96xf16> to memref<3x1x16x3x1x32xf16>
// CHECK-NEXT:    %[[K2:.*]] = rock.transform %[[K1]] by {{.*}} to memref<3x3x1x1x32x16xf16>
// CHECK-NEXT:    %[[V1:.*]] = rock.transform %vd by {{.*}} : memref<3x96x16xf16> to memref<3x3x1x32x1x16xf16>
// CHECK-NEXT:    %[[V2:.*]] = rock.transform %[[V1]] by {{.*}} to memref<3x3x1x1x16x32xf16>
// CHECK:         %[[INDEX:.*]] = memref.load %last[%[[G]]] : memref<3xi32>
// CHECK-NEXT:    %[[END:.*]] = arith.constant 95 : i32
// CHECK-NEXT:    %[[LAST:.*]] = arith.minsi %[[INDEX]], %[[END]] : i32
// CHECK:         arith.addi %[[LAST]], %{{.*}} : i32
// CHECK:         %[[TILES:.*]] = arith.index_cast %{{.*}} : i32 to index
// CHECK:         %[[FULL:.*]] = arith.index_cast %{{.*}} : i32 to index
// CHECK:         %[[Q:.*]] = rock.tile_load %{{.*}}[%[[G]], {{.*}}] : memref<3x1x1x1x16x16xf16> -> !rock.tile<1x16x16xf16,

// CHECK:         rock.stage "loop over whole key tiles"
// CHECK:         scf.for %[[IT:.*]] = %{{.*}} to %[[FULL]] step
// CHECK-NOT:       rock.tile_mask
// CHECK:           rock.tile_load %[[K2]][%[[G]], %[[IT]], {{.*}}] : memref<3x3x1x1x32x16xf16> -> !rock.tile<1x32x16xf16,
// CHECK:           rock.tile_load %[[V2]][%[[G]], %[[IT]], {{.*}}] : memref<3x3x1x1x16x32xf16> -> !rock.tile<1x16x32xf16,
// CHECK:         } {rock.trip_bound = 3 : i32}

// CHECK:         rock.stage "loop over key tiles that the masks cut"
// CHECK:         scf.for %[[IT:.*]] = %[[FULL]] to %[[TILES]] step
// CHECK:           %[[KKEY:.*]] = rock.tile_index %{{.*}} strides [32, 1, 0] -> !rock.tile<1x32x1xi32,
// CHECK-NEXT:      %[[KVALID:.*]] = rock.tile_map({{.*}} = %[[KKEY]] : {{.*}}, {{.*}} = %[[LAST]] : i32)
// CHECK-NEXT:        arith.cmpi sle
// CHECK:           %[[KTILE:.*]] = rock.tile_load %[[K2]][%[[G]], %[[IT]], {{.*}}] where %[[KVALID]] : {{.*}} : memref<3x3x1x1x32x16xf16> -> !rock.tile<1x32x16xf16,
// CHECK-NEXT:      %[[S:.*]] = rock.tile_mma "mfma_f32_16x16x16_f16" %[[KTILE]], %[[Q]], %{{.*}}
// CHECK:           %[[MASKED:.*]] = rock.tile_mask %{{.*}} keys %{{.*}} strides [32, 1, 0] upper %{{.*}}
// CHECK:           rock.tile_reduce_lane "max" %[[MASKED]] along 1
// CHECK:           rock.tile_if_any
// CHECK:             rock.tile_reduce "max"
// CHECK:           math.exp2
// CHECK:           rock.tile_reduce_lane "sum" %{{.*}} along 1
// CHECK:           %[[P:.*]] = rock.tile_map({{.*}}) -> !rock.tile<1x32x16xf16,
// CHECK-NEXT:        arith.truncf {{.*}} : f32 to f16
// CHECK:           %[[VTILE:.*]] = rock.tile_load %[[V2]][%[[G]], %[[IT]], {{.*}}] where %{{.*}} : memref<3x3x1x1x16x32xf16> -> !rock.tile<1x16x32xf16,
// CHECK-NEXT:      %[[VT:.*]] = rock.tile_convert_layout %[[VTILE]]
// CHECK-NEXT:      %[[NEW:.*]] = rock.tile_mma "mfma_f32_16x16x16_f16" %[[VT]], %[[P]], %{{.*}}
// CHECK-NEXT:      scf.yield %{{.*}}, %{{.*}}, %[[NEW]]
// CHECK-NEXT:    } {rock.trip_bound = 3 : i32}
// CHECK-NOT:     rock.lds_alloc
// CHECK:         rock.tile_reduce "sum"
// CHECK:         rock.tile_store %{{.*}}, %{{.*}}[%[[G]], {{.*}}] : !rock.tile<1x16x16xf16, {{.*}}>, memref<3x1x1x1x16x16xf16>
// CHECK-NEXT:    func.return

#swap = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0, d2, d1)> by
  [<PassThrough ["g"] at [0] -> ["g"] at [0]>, <PassThrough ["d"] at [1] -> ["d"] at [2]>,
   <PassThrough ["key"] at [2] -> ["key"] at [1]>] bounds = [3, 16, 96] -> [3, 96, 16]>

func.func @decode(%q: memref<3x16x16xf16>, %kt: memref<3x96x1xi64>, %vt: memref<3x96x1xi64>, %last: memref<3xi32>,
    %o: memref<3x16x16xf16>) attributes {rock.kernel, arch = "gfx942", rock.grid_size = 3 : i32, rock.block_size = 64 : i32} {
  %kd = rock.deref %kt : memref<3x96x1xi64> -> memref<3x96x16xf16>
  %vd = rock.deref %vt : memref<3x96x1xi64> -> memref<3x96x16xf16>
  %k = rock.transform %kd by #swap : memref<3x96x16xf16> to memref<3x16x96xf16>
  rock.gridwise_attention_accel(%q, %k, %vd, %last, %o, %kd, %vd) preSoftmaxOps = {}
    {blockSize = 64 : i32, gridSize = 3 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1, 0, 1, 1>,
     params0 = #rock.attention_params<keys_per_tile = 32, query_waves = 1, key_waves = 1, channel_chunk = 16, value_channels = 16>}
    : memref<3x16x16xf16>, memref<3x16x96xf16>, memref<3x96x16xf16>, memref<3xi32>, memref<3x16x16xf16>, memref<3x96x16xf16>, memref<3x96x16xf16>
  return
}

// Two key waves, no KV index and whole tiles: nothing is masked, and what the waves have is joined through LDS.

// CHECK-LABEL: func.func @joined
// CHECK-NOT:     rock.tile_mask
// CHECK:         rock.stage "join the key waves: row maxima"
// CHECK:         rock.lds_alloc : memref<2x16xf32, 3 : i32>
// CHECK:         rock.tile_store
// CHECK-NEXT:    %[[PARTS:.*]] = rock.tile_load
// CHECK-NEXT:    rock.tile_reduce "max" %[[PARTS]] along 0
// CHECK:         rock.lds_alloc : memref<2x16x16xf32, 3 : i32>
// CHECK:         rock.lds_alloc : memref<2x16xf32, 3 : i32>
// CHECK:         rock.tile_reduce "sum" %{{.*}} along 0
// CHECK:         rock.tile_reduce "sum" %{{.*}} along 0
func.func @joined(%q: memref<1x16x16xf16>, %k: memref<1x16x64xf16>, %v: memref<1x64x16xf16>, %o: memref<1x16x16xf16>)
    attributes {rock.kernel, arch = "gfx942", rock.grid_size = 1 : i32, rock.block_size = 128 : i32} {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {}
    {blockSize = 128 : i32, gridSize = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>,
     params0 = #rock.attention_params<keys_per_tile = 32, query_waves = 1, key_waves = 2, channel_chunk = 16, value_channels = 16>}
    : memref<1x16x16xf16>, memref<1x16x64xf16>, memref<1x64x16xf16>, memref<1x16x16xf16>
  return
}

// An elementwise kernel: each lane holds neighbouring elements of every operand.

// CHECK-LABEL: func.func @elementwise
// CHECK-NEXT:    %[[G:.*]] = rock.workgroup_id : index
// CHECK-NEXT:    %[[A:.*]] = rock.transform %a by {{.*}} : memref<1024xf16> to memref<2x512xf16>
// CHECK-NEXT:    %[[AT:.*]] = rock.tile_load %[[A]][%[[G]]] : memref<2x512xf16> -> !rock.tile<512xf16, #[[LAYOUT:.*]]>
// CHECK-NEXT:    %[[RESULT:.*]] = rock.tile_map(%[[X:.*]] = %[[AT]] : !rock.tile<512xf16, #[[LAYOUT]]>) -> !rock.tile<512xf16, #[[LAYOUT]]> {
// CHECK-NEXT:      %[[Y:.*]] = math.absf %[[X]] : f16
// CHECK-NEXT:      rock.tile_yield %[[Y]] : f16
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[O:.*]] = rock.transform %o by {{.*}} : memref<1024xf16> to memref<2x512xf16>
// CHECK-NEXT:    rock.tile_store %[[RESULT]], %[[O]][%[[G]]] : !rock.tile<512xf16, #[[LAYOUT]]>, memref<2x512xf16>
func.func @elementwise(%a: memref<1024xf16>, %unread: memref<1024xf16>, %o: memref<1024xf16>)
    attributes {rock.kernel, arch = "gfx942", rock.grid_size = 2 : i32, rock.block_size = 64 : i32} {
  linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%a, %unread : memref<1024xf16>, memref<1024xf16>) outs(%o : memref<1024xf16>) {
  ^bb0(%x: f16, %y: f16, %z: f16):
    %0 = math.absf %x : f16
    linalg.yield %0 : f16
  }
  return
}
