// RUN: xpaged-opt %s -p outline-kernels | filecheck %s
// RUN: xpaged-opt %s -p outline-kernels,affix-tuning-params,gemm-to-gridwise | filecheck %s --check-prefix=GRID

// What the first attention leaves in a temporary for the second is a workspace of both kernels; views go along.
// CHECK: func.func @f(%q: {{.*}}rock.argument = 0 : i32{{.*}}, %k: {{.*}}rock.argument = 1{{.*}}, %rows: memref<32xf16> {rock.workspace = "rows"})
// CHECK-SAME: attributes {{{.*}}rock.part_of = "f"}
// CHECK-NEXT: %[[VIEW:.*]] = rock.transform %rows
// CHECK-NEXT: rock.attention{
// CHECK: %[[VIEW]] = softmax(qk) * %k
// CHECK: func.func @f_attention(%k: {{.*}}rock.argument = 1{{.*}}, %out: {{.*}}rock.argument = 2 : i32, rock.output = 0 : i32}, %rows: memref<32xf16> {rock.workspace = "rows"})
// CHECK-SAME: rock.part_of = "f"
// CHECK-NEXT: %[[VIEW:.*]] = rock.transform %rows
// CHECK-NEXT: rock.attention{
// CHECK-NEXT: qk = %[[VIEW]] * tr %k
// CHECK-NOT: memref.alloc
// GRID: func.func @f({{.*}}rock.block_size
// GRID: rock.gridwise_attention_accel
// GRID: func.func @f_attention({{.*}}rock.block_size
// GRID: rock.gridwise_attention_accel
#rows = #rock.transform_map<affine_map<(d0, d1, d2) -> (d0 * 32 + d1 * 16 + d2)> by [<Unmerge{1, 2, 16} ["g", "s", "d"] at [0, 1, 2] -> ["raw"] at [0]>] bounds = [1, 2, 16] -> [32]>
func.func @f(%q: memref<1x2x16xf16>, %k: memref<1x24x16xf16>, %out: memref<1x2x16xf16> {rock.output = 0 : i32}) attributes {rock.kernel, arch = "gfx942"} {
  %rows = memref.alloc() : memref<32xf16>
  %view = rock.transform %rows by #rows : memref<32xf16> to memref<1x2x16xf16>
  rock.attention{
    qk = %q * tr %k : memref<1x2x16xf16>, memref<1x24x16xf16>
    %view = softmax(qk) * %k : memref<1x24x16xf16> -> memref<1x2x16xf16>
  }
  rock.attention{
    qk = %view * tr %k : memref<1x2x16xf16>, memref<1x24x16xf16>
    %out = softmax(qk) * %k : memref<1x24x16xf16> -> memref<1x2x16xf16>
  }
  func.return
}
