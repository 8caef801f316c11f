// The pair that -pv prints, of one head: the kernel, and the CPU function on K and V in logical order.

// RUN: xpaged gen --operation attention -seq_len_q 4 -seq_len_k 8 -head_dim_qk 2 -head_dim_v 3 -t f16 -pv | filecheck %s --check-prefixes=KERNEL,CHECK
// RUN: xpaged gen --operation attention -seq_len_q 4 -seq_len_k 8 -head_dim_qk 2 -head_dim_v 3 -t f16 -pv --paged-attention --num-pages 2 --page-size 8 | filecheck %s --check-prefixes=PAGED,CHECK

// Without pages K is [G, D, Sk]; pages hold [head, token, channel].
// KERNEL-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>
// PAGED-DAG: #[[K:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>

// KERNEL: func.func @rock_attention(%q: memref<8xf16>, %k: memref<16xf16>, %v: memref<24xf16>, %out: memref<12xf16> {rock.output = 0 : i32}) attributes {rock.kernel} {
// PAGED: func.func @rock_attention(%q: memref<8xf16>, %k_table: memref<2xi64> {rock.page_table = {page_size = 8 : i64, elem = f16}}, %v_table: memref<2xi64> {rock.page_table = {page_size = 12 : i64, elem = f16}}, %out: memref<12xf16> {rock.output = 0 : i32}) attributes {rock.kernel} {
// CHECK: rock.attention{
// CHECK: func.func @rock_attention_inputs(%q: memref<8xf16>, %k: memref<16xf16>, %v: memref<24xf16>) attributes {rock.host} {

// CHECK: func.func @rock_attention_gpu(%q: memref<8xf16>, %k: memref<16xf16>, %v: memref<24xf16>, %out: memref<12xf16>) attributes {rock.host} {
// KERNEL: "memref.copy"(%k, %k_device)
// PAGED: %k_pool = memref.alloc() : memref<2x8xf16>
// PAGED: linalg.generic {{.*}} ins(%{{.*}} : memref<2x8xf16>) outs(%k_pool : memref<2x8xf16>)
// PAGED: "memref.extract_aligned_pointer_as_index"(%k_pool)
// PAGED: %k_table = memref.alloc() : memref<2xi64>
// PAGED: linalg.generic {{.*}} outs(%k_table : memref<2xi64>)
// PAGED: %v_pool = memref.alloc() : memref<2x12xf16>
// KERNEL: func.call @rock_attention(%q_device, %k_device, %v_device, %out_device)
// PAGED: func.call @rock_attention(%q_device, %k_table, %v_table, %out_device)
// CHECK: "memref.copy"(%out_device, %out)

// CHECK: func.func @host_naive_attention(%q: memref<8xf16>, %k: memref<16xf16>, %v: memref<24xf16>, %out: memref<12xf32>) attributes {rock.host} {
// CHECK: %scores = memref.alloc() : memref<1x4x8xf32>
// CHECK: linalg.generic {indexing_maps = [{{.*}}, #[[K]], {{.*}}], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins({{.*}} : memref<1x4x2xf16>, {{.*}}) outs(%scores : memref<1x4x8xf32>)
// CHECK: %logits = memref.alloc()
// CHECK: outs(%largest : memref<1x4xf32>)
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: outs(%sum : memref<1x4xf32>)
// CHECK: %products = memref.alloc() : memref<1x4x3xf32>
// CHECK: arith.cmpf oeq
// CHECK: arith.select
// CHECK: arith.divf

// CHECK: func.func @rock_attention_verify(%device: memref<12xf16>, %expected: memref<12xf32>, %verdict: memref<3xi32>) attributes {rock.host} {
// CHECK: arith.constant 1.000000e-03 : f64

// CHECK: func.func @main() attributes {rock.host} {
// CHECK: func.call @rock_attention_inputs(%q, %k, %v)
// CHECK: func.call @rock_attention_gpu(%q, %k, %v, %out)
// CHECK: func.call @host_naive_attention(%q, %k, %v, %out_expected)
// CHECK: func.call @rock_attention_verify(%out, %out_expected, %out_verdict)
// CHECK: func.call @print_verdict(%out_verdict)
// CHECK: func.func private @print_verdict(memref<3xi32>)
