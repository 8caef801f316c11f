// The pair that -pv prints, with grouped heads, masks and an LSE: the CPU function names the KV head of each query head.

// RUN: xpaged gen -seq_len_q 4 -seq_len_k 8 -head_dim_qk 2 -head_dim_v 2 -t f16 -groupsize 2 -num_heads_q 6 -num_heads_kv 2 -current_seq_len=7,3 -causal -prefix_offset=4,0 -return_lse -transK -pv | filecheck %s --check-prefixes=KERNEL,CHECK
// RUN: xpaged gen -seq_len_q 4 -seq_len_k 8 -head_dim_qk 2 -head_dim_v 2 -t f16 -groupsize 2 -num_heads_q 6 -num_heads_kv 2 -current_seq_len=7,3 -causal -prefix_offset=4,0 -return_lse -pv --paged-attention --num-pages 4 --page-size 8 | filecheck %s --check-prefixes=PAGED,CHECK

// CHECK-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3) -> (d0 floordiv 3, d2, d3)>
// CHECK-DAG: #[[V:.*]] = affine_map<(d0, d1, d2, d3) -> (d0 floordiv 3, d3, d2)>
// CHECK-DAG: #[[BATCH:.*]] = affine_map<(d0, d1, d2) -> (d0 floordiv 6)>

// KERNEL: func.func @rock_attention(%q: memref<96xf16>, %k: memref<64xf16>, %v: memref<64xf16>, %kv_index: memref<2xi32> {rock.default = array<i32: 7, 3>}, %prefix_offset: memref<2xi32> {rock.default = array<i32: 4, 0>}, %lse: memref<48xf32> {rock.output = 1 : i32}, %out: memref<96xf16> {rock.output = 0 : i32})
// PAGED: func.func @rock_attention(%q: memref<96xf16>, %k_table: memref<8xi64> {{.*}}, %v_table: memref<8xi64> {{.*}}, %kv_index: memref<2xi32> {{.*}}, %prefix_offset: memref<2xi32> {{.*}}, %lse: memref<48xf32> {{.*}}, %out: memref<96xf16> {{.*}})
// CHECK: numHeadsKV = 2 : i32, numHeadsQ = 6 : i32

// CHECK: func.func @host_naive_attention(%q: memref<96xf16>, %k: memref<64xf16>, %v: memref<64xf16>, %kv_index: memref<2xi32>, %prefix_offset: memref<2xi32>, %lse: memref<48xf32>, %out: memref<96xf32>) attributes {rock.host} {
// CHECK: linalg.generic {indexing_maps = [{{.*}}, #[[K]], {{.*}}]{{.*}} outs(%scores : memref<12x4x8xf32>)
// CHECK: linalg.generic {indexing_maps = [{{.*}}, #[[BATCH]], #[[BATCH]], {{.*}}]{{.*}} ins(%scores, %kv_index, %prefix_offset : {{.*}}) outs(%logits : memref<12x4x8xf32>)
// CHECK: arith.minsi
// CHECK: linalg.index 1
// CHECK: linalg.index 2
// CHECK: arith.cmpi sle
// CHECK: arith.select
// CHECK: linalg.generic {indexing_maps = [{{.*}}, #[[V]], {{.*}}]{{.*}} outs(%products : memref<12x4x2xf32>)
// CHECK: math.log
// CHECK: func.func @rock_attention_verify_lse
// CHECK: func.func @rock_attention_verify(
