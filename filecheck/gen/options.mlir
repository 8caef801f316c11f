// RUN: xpaged gen --operation=attention -seq_len_q=5 --seq_len_k 64 -head_dim_qk 32 -head_dim_v 16 -g 2 -num_heads_q 4 -num_heads_kv 2 -current_seq_len -1,40 --causal -transK=true -t f32 | filecheck %s
// RUN: not xpaged gen --operation attention -seq_len_q 5 -seq_len_k 64 -head_dim_qk 32 -head_dim_v 32 --paged-attention --num-pages 3 --page-size 1024 2>&1 | filecheck %s --check-prefix=PAGES

// CHECK: %kv_index: memref<2xi32> {rock.default = array<i32: -1, 40>}
// CHECK: rock.transform %kv_index by {{.*}} : memref<2xi32> to memref<2x1xi32>
// CHECK: memref<2x1xi32> to memref<2x4xi32>
// CHECK: memref<2x4xi32> to memref<8xi32>
// CHECK: qk = %{{.*}} * tr %{{.*}} : memref<8x5x32xf32>, memref<4x64x32xf32>
// CHECK-NEXT: lastValidKVIndex = (%{{.*}} : memref<8xi32>)
// CHECK-NEXT: causal
// CHECK: } {numHeadsKV = 2 : i32, numHeadsQ = 4 : i32

// PAGES: error: the pages do not hold exactly the keys of a batch entry
// PAGES-NEXT: found: num_pages * page_size = 3 * 1024 = 3072
// PAGES-NEXT: expected: heads_kv * seq_k * dim_qk = 1 * 64 * 32 = 2048
