// RUN: XPAGED_ROUNDTRIP
// RUN: XPAGED_GENERIC_ROUNDTRIP

// CHECK-LABEL: func.func @ids
func.func @ids() {
  // CHECK-NEXT: %{{.*}} = hip.workgroup_id : i32
  %0 = hip.workgroup_id : i32
  // CHECK-NEXT: %{{.*}} = hip.lane_id : i32
  %1 = hip.lane_id : i32
  // CHECK-NEXT: %{{.*}} = hip.wave_id : i32
  %2 = hip.wave_id : i32
  return
}

// CHECK-LABEL: func.func @global_memory
func.func @global_memory(%q: memref<64xf16>, %page: i64, %i: i32, %j: i64, %ok: i1) {
  // CHECK-NEXT: %{{.*}} = hip.load %q[%i] : memref<64xf16>, i32 -> vector<8xf16>
  %0 = hip.load %q[%i] : memref<64xf16>, i32 -> vector<8xf16>
  // CHECK-NEXT: %{{.*}} = hip.load %page[%j] if %ok : i64, i64 -> f32
  %1 = hip.load %page[%j] if %ok : i64, i64 -> f32
  // CHECK-NEXT: hip.store %{{.*}}, %q[%i] : vector<8xf16>, memref<64xf16>, i32
  hip.store %0, %q[%i] : vector<8xf16>, memref<64xf16>, i32
  // CHECK-NEXT: hip.store %{{.*}}, %page[%j] if %ok : f32, i64, i64
  hip.store %1, %page[%j] if %ok : f32, i64, i64
  return
}

// CHECK-LABEL: func.func @lds
func.func @lds(%i: i32, %ok: i1) {
  // CHECK-NEXT: %{{.*}} = hip.lds_alloc : memref<256xf32, 3 : i{{[0-9]+}}>
  %0 = hip.lds_alloc : memref<256xf32, 3>
  // CHECK-NEXT: %{{.*}} = hip.lds_load %{{.*}}[%i] if %ok : memref<256xf32, 3 : i{{[0-9]+}}>, i32 -> vector<4xf32>
  %1 = hip.lds_load %0[%i] if %ok : memref<256xf32, 3>, i32 -> vector<4xf32>
  // CHECK-NEXT: hip.lds_store %{{.*}}, %{{.*}}[%i] if %ok : vector<4xf32>, memref<256xf32, 3 : i{{[0-9]+}}>, i32
  hip.lds_store %1, %0[%i] if %ok : vector<4xf32>, memref<256xf32, 3>, i32
  // CHECK-NEXT: hip.barrier
  hip.barrier
  return
}

// CHECK-LABEL: func.func @registers
func.func @registers(%i: i32, %x: f32) {
  // CHECK-NEXT: %{{.*}} = hip.regs : !hip.regs<8 x vector<4xf32>>
  %0 = hip.regs : !hip.regs<8 x vector<4xf32>>
  // CHECK-NEXT: %{{.*}} = hip.get %{{.*}}[%i] : !hip.regs<8 x vector<4xf32>>, i32 -> vector<4xf32>
  %1 = hip.get %0[%i] : !hip.regs<8 x vector<4xf32>>, i32 -> vector<4xf32>
  // CHECK-NEXT: %{{.*}} = hip.get %{{.*}}[%i, %i] : !hip.regs<8 x vector<4xf32>>, i32, i32 -> f32
  %2 = hip.get %0[%i, %i] : !hip.regs<8 x vector<4xf32>>, i32, i32 -> f32
  // CHECK-NEXT: hip.set %{{.*}}, %{{.*}}[%i] : vector<4xf32>, !hip.regs<8 x vector<4xf32>>, i32
  hip.set %1, %0[%i] : vector<4xf32>, !hip.regs<8 x vector<4xf32>>, i32
  // CHECK-NEXT: hip.set %x, %{{.*}}[%i, %i] : f32, !hip.regs<8 x vector<4xf32>>, i32, i32
  hip.set %x, %0[%i, %i] : f32, !hip.regs<8 x vector<4xf32>>, i32, i32
  // CHECK-NEXT: %{{.*}} = hip.regs : !hip.regs<3 x i1>
  %3 = hip.regs : !hip.regs<3 x i1>
  return
}

// CHECK-LABEL: func.func @vectors
func.func @vectors(%a: vector<2xf16>, %x: f16) {
  // CHECK-NEXT: %{{.*}} = hip.vector %a, %x, %x : vector<2xf16>, f16, f16 -> vector<4xf16>
  %0 = hip.vector %a, %x, %x : vector<2xf16>, f16, f16 -> vector<4xf16>
  // CHECK-NEXT: %{{.*}} = hip.splat %x : f16 -> vector<4xf16>
  %1 = hip.splat %x : f16 -> vector<4xf16>
  // CHECK-NEXT: %{{.*}} = hip.slice %{{.*}} at 2 : vector<4xf16> -> vector<2xf16>
  %2 = hip.slice %0 at 2 : vector<4xf16> -> vector<2xf16>
  // CHECK-NEXT: %{{.*}} = hip.slice %{{.*}} at 3 : vector<4xf16> -> f16
  %3 = hip.slice %0 at 3 : vector<4xf16> -> f16
  return
}

// CHECK-LABEL: func.func @waves
func.func @waves(%a: vector<4xf16>, %c: vector<4xf32>, %x: f32, %i: i32, %b: i1) {
  // CHECK-NEXT: hip.mma "mfma_f32_16x16x16_f16" %a, %a, %c : vector<4xf16>, vector<4xf16>, vector<4xf32> -> vector<4xf32>
  %0 = hip.mma "mfma_f32_16x16x16_f16" %a, %a, %c : vector<4xf16>, vector<4xf16>, vector<4xf32> -> vector<4xf32>
  // CHECK-NEXT: hip.mma "mfma_f32_16x16x4_f32" %x, %x, %c : f32, f32, vector<4xf32> -> vector<4xf32>
  %1 = hip.mma "mfma_f32_16x16x4_f32" %x, %x, %c : f32, f32, vector<4xf32> -> vector<4xf32>
  // CHECK-NEXT: %{{.*}} = hip.exchange %x xor 16 : f32 -> f32
  %2 = hip.exchange %x xor 16 : f32 -> f32
  // CHECK-NEXT: %{{.*}} = hip.exp2 %c : vector<4xf32> -> vector<4xf32>
  %3 = hip.exp2 %c : vector<4xf32> -> vector<4xf32>
  // CHECK-NEXT: %{{.*}} = hip.any %b
  %v = hip.any %b
  // CHECK-NEXT: %{{.*}} = hip.uniform %i : i32 -> i32
  %4 = hip.uniform %i : i32 -> i32
  return
}

// CHECK-LABEL: func.func @marks
func.func @marks() {
  // CHECK-NEXT: hip.sched_barrier
  hip.sched_barrier
  // CHECK-NEXT: hip.stage "keys, 16 at a time"
  hip.stage "keys, 16 at a time"
  // CHECK-NEXT: hip.stage "join" note "two lines\0Aof text"
  hip.stage "join" note "two lines\nof text"
  return
}

// CHECK-LABEL: func.func @to_lds
func.func @to_lds(%a: memref<256xf32>, %p: i64, %i: i32, %l: memref<256xf32, 3>, %h: memref<256xf16, 3>, %m: i1) {
  // CHECK-NEXT: hip.load_lds %a[%i] to %l[%i] x 1 : memref<256xf32>, i32, memref<256xf32, 3
  hip.load_lds %a[%i] to %l[%i] x 1 : memref<256xf32>, i32, memref<256xf32, 3>, i32
  // CHECK-NEXT: hip.load_lds %p[%i] to %h[%i] x 8 if %m : i64, i32, memref<256xf16, 3
  hip.load_lds %p[%i] to %h[%i] x 8 if %m : i64, i32, memref<256xf16, 3>, i32
  // CHECK-NEXT: hip.waitcnt 2
  hip.waitcnt 2
  return
}
