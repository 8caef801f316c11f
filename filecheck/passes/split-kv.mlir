// RUN: xpaged-gen --operation attention -seq_len_q 1 -seq_len_k 64 -head_dim_qk 32 -head_dim_v 32 -t f16 -num_heads_q 4 -num_heads_kv 2 --paged-attention --num-pages 4 --page-size 1024 -current_seq_len 50 --arch gfx942 | xpaged-opt - -p "split-kv{parts=3}" | filecheck %s
// RUN: xpaged-gen --operation attention -seq_len_q 1 -seq_len_k 64 -head_dim_qk 32 -head_dim_v 32 -t f16 -num_heads_q 4 -num_heads_kv 2 --paged-attention --num-pages 4 --page-size 1024 -current_seq_len 50 --arch gfx942 -split_kv 3 | xpaged-opt - -p outline-kernels,affix-tuning-params,gemm-to-gridwise | filecheck %s --check-prefix=GRID
// RUN: xpaged-gen --operation attention -seq_len_q 1 -seq_len_k 64 -head_dim_qk 32 -head_dim_v 32 -t f16 -return_lse -split_kv 2 -causal --arch gfx942 | xpaged-opt - -p affix-tuning-params,gemm-to-gridwise,gridwise-to-tile | filecheck %s --check-prefix=FIXED

// The parts go to temporaries in f32 and are merged; the page addresses stay.
// CHECK: %[[KP:.*]] = rock.deref
// CHECK: %[[VP:.*]] = rock.deref
// CHECK: %[[PARTS:.*]] = memref.alloc() : memref<12x1x32xf32>
// CHECK-NEXT: %[[LSES:.*]] = memref.alloc() : memref<12x1xf32>
// CHECK-NEXT: rock.attention{
// CHECK: keyAddresses = (%[[KP]]
// CHECK-NEXT: valueAddresses = (%[[VP]]
// CHECK: lse = %[[LSES]] : memref<12x1xf32>
// CHECK-NEXT: %[[PARTS]] = softmax(qk)
// CHECK-NEXT: } {balancedSplit, {{.*}}splitKV = 3 : i32}
// CHECK-NEXT: rock.merge_attention %[[PARTS]], %[[LSES]] into %{{.*}} : memref<12x1x32xf32>, memref<12x1xf32> into memref<4x1x32xf16>

// Two kernels, which name the same workspaces: three workgroups for each KV head, then the merge.
// GRID: func.func @rock_attention({{.*}}%parts: memref<12x1x32xf32> {rock.workspace = "parts"}, %lses: memref<12x1xf32> {rock.workspace = "lses"}){{.*}}rock.grid_size = 6 : i32
// GRID: rock.gridwise_attention_accel({{.*}}balancedSplit, {{.*}}splitKV = 3 : i32
// GRID: func.func @rock_attention_merge({{.*}}%parts: memref<12x1x32xf32> {rock.workspace = "parts"}, %lses: memref<12x1xf32> {rock.workspace = "lses"}){{.*}}rock.grid_size = 1 : i32, rock.block_size = 64 : i32
// GRID: rock.merge_attention

// Parts that are outputs have fixed shares of the keys: here 32 each, one tile.
// FIXED: %workgroup = rock.workgroup_id
// FIXED: %first_tile = arith.index_cast
// FIXED-NEXT: %tiles_1 = arith.index_cast
// FIXED: scf.for %it = %first_tile
// FIXED: rock.tile_store
// FIXED: rock.stage "LSE"
// FIXED: rock.tile_store
