// A paged decode kernel written by hand at the device level: 4 heads of 16 query rows, 128 keys, 64 channels.

func.func @decode(
    %q: memref<4096xf16>,
    %k_pages: memref<16xi64> {rock.page_table = {page_size = 2048 : i64, elem = f16}},
    %v_pages: memref<16xi64> {rock.page_table = {page_size = 2048 : i64, elem = f16}},
    %last: memref<1xi32>,
    %out: memref<4096xf16> {rock.output = 0 : i32},
    %lse: memref<64xf32> {rock.output = 1 : i32})
    attributes {rock.kernel, rock.grid_size = 4 : i64, rock.block_size = 256 : i64, rock.lds_bytes = 16896 : i64,
                rock.description = "Attention of 4 heads x 16 query rows over at most 128 keys, head size 64, f16.\nPages of 32 tokens."} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c4 = arith.constant 4 : i32
  %c8 = arith.constant 8 : i32
  %c16 = arith.constant 16 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %c1024 = arith.constant 1024 : i32
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 0.18033688 : f32
  %ln2 = arith.constant 0.6931472 : f32
  %neg_inf = arith.constant 0xFF800000 : f32

  hip.stage "where this lane is"
  %head = hip.workgroup_id : i32
  %lane = hip.lane_id : i32
  %wave = hip.wave_id : i32
  %group = arith.divui %lane, %c16 : i32
  %col = arith.remui %lane, %c16 : i32
  %last_key = hip.load %last[%c0] : memref<1xi32>, i32 -> i32
  %c127 = arith.constant 127 : i32
  %last_here = arith.minsi %last_key, %c127 : i32
  %keys = arith.addi %last_here, %c1 overflow<nsw> : i32
  %c15 = arith.constant 15 : i32
  %up = arith.addi %keys, %c15 : i32
  %tiles = arith.divsi %up, %c16 : i32
  %head4 = arith.muli %head, %c4 : i32

  hip.stage "queries" note "operand B: lane l holds row l % 16, channels 8 (l / 16) .. + 7 of each 32"
  %queries = hip.regs : !hip.regs<2 x vector<8xf16>>
  %head_rows = arith.muli %head, %c1024 : i32
  %col_row = arith.muli %col, %c64 : i32
  %row = arith.addi %head_rows, %col_row : i32
  %g8 = arith.muli %group, %c8 : i32
  %q_offset = arith.addi %row, %g8 : i32
  scf.for %i = %c0 to %c2 step %c1 : i32 {
    %i32 = arith.muli %i, %c32 : i32
    %at = arith.addi %q_offset, %i32 : i32
    %x = hip.load %q[%at] : memref<4096xf16>, i32 -> vector<8xf16>
    hip.set %x, %queries[%i] : vector<8xf16>, !hip.regs<2 x vector<8xf16>>, i32
  } {unroll}

  hip.stage "keys, 16 at a time"
  %acc = hip.regs : !hip.regs<4 x vector<4xf32>>
  %zeros = arith.constant dense<0.0> : vector<4xf32>
  scf.for %i = %c0 to %c4 step %c1 : i32 {
    hip.set %zeros, %acc[%i] : vector<4xf32>, !hip.regs<4 x vector<4xf32>>, i32
  } {unroll}
  %k_offset = arith.addi %col_row, %g8 : i32
  %g256 = arith.muli %g8, %c32 : i32
  %c4col = arith.muli %col, %c4 : i32
  %v_offset = arith.addi %g256, %c4col : i32
  %final_m, %final_l = scf.for %tile = %wave to %tiles step %c4 iter_args(%m = %neg_inf, %l = %zero) -> (f32, f32) : i32 {
    %page_in_head = arith.divui %tile, %c2 : i32
    %entry = arith.addi %head4, %page_in_head : i32
    %k_page = hip.load %k_pages[%entry] : memref<16xi64>, i32 -> i64
    %v_page = hip.load %v_pages[%entry] : memref<16xi64>, i32 -> i64
    %half = arith.remui %tile, %c2 : i32
    %in_page = arith.muli %half, %c1024 : i32
    %key_row = arith.addi %in_page, %k_offset : i32
    %s = hip.regs : !hip.regs<1 x vector<4xf32>>
    hip.set %zeros, %s[%c0] : vector<4xf32>, !hip.regs<1 x vector<4xf32>>, i32
    scf.for %i = %c0 to %c2 step %c1 : i32 {
      %i32 = arith.muli %i, %c32 : i32
      %at = arith.addi %key_row, %i32 : i32
      %k = hip.load %k_page[%at] : i64, i32 -> vector<8xf16>
      %qi = hip.get %queries[%i] : !hip.regs<2 x vector<8xf16>>, i32 -> vector<8xf16>
      %s0 = hip.get %s[%c0] : !hip.regs<1 x vector<4xf32>>, i32 -> vector<4xf32>
      %k_lo = hip.slice %k at 0 : vector<8xf16> -> vector<4xf16>
      %q_lo = hip.slice %qi at 0 : vector<8xf16> -> vector<4xf16>
      %s1 = hip.mma "mfma_f32_16x16x16_f16" %k_lo, %q_lo, %s0 : vector<4xf16>, vector<4xf16>, vector<4xf32> -> vector<4xf32>
      %k_hi = hip.slice %k at 4 : vector<8xf16> -> vector<4xf16>
      %q_hi = hip.slice %qi at 4 : vector<8xf16> -> vector<4xf16>
      %s2 = hip.mma "mfma_f32_16x16x16_f16" %k_hi, %q_hi, %s1 : vector<4xf16>, vector<4xf16>, vector<4xf32> -> vector<4xf32>
      hip.set %s2, %s[%c0] : vector<4xf32>, !hip.regs<1 x vector<4xf32>>, i32
    } {unroll}
    %tile16 = arith.muli %tile, %c16 : i32
    %g4 = arith.muli %group, %c4 : i32
    %key = arith.addi %tile16, %g4 : i32
    %top = scf.for %r = %c0 to %c4 step %c1 iter_args(%top = %neg_inf) -> (f32) : i32 {
      %this_key = arith.addi %key, %r : i32
      %kept = arith.cmpi slt, %this_key, %keys : i32
      %score = hip.get %s[%c0, %r] : !hip.regs<1 x vector<4xf32>>, i32, i32 -> f32
      %scaled = arith.mulf %score, %scale : f32
      %masked = arith.select %kept, %scaled, %neg_inf : f32
      hip.set %masked, %s[%c0, %r] : f32, !hip.regs<1 x vector<4xf32>>, i32, i32
      %higher = arith.maxnumf %top, %masked : f32
      scf.yield %higher : f32
    } {unroll}
    %top16 = hip.exchange %top xor 16 : f32 -> f32
    %both = arith.maxnumf %top, %top16 : f32
    %both32 = hip.exchange %both xor 32 : f32 -> f32
    %tile_top = arith.maxnumf %both, %both32 : f32
    %new_m = arith.maxnumf %m, %tile_top : f32
    %fall = arith.subf %m, %new_m : f32
    %none = arith.cmpf oeq, %new_m, %neg_inf : f32
    %shrink = hip.exp2 %fall : f32 -> f32
    %alpha = arith.select %none, %zero, %shrink : f32
    %sum = scf.for %r = %c0 to %c4 step %c1 iter_args(%sum = %zero) -> (f32) : i32 {
      %score = hip.get %s[%c0, %r] : !hip.regs<1 x vector<4xf32>>, i32, i32 -> f32
      %below = arith.subf %score, %new_m : f32
      %e = hip.exp2 %below : f32 -> f32
      %p = arith.select %none, %zero, %e : f32
      hip.set %p, %s[%c0, %r] : f32, !hip.regs<1 x vector<4xf32>>, i32, i32
      %more = arith.addf %sum, %p : f32
      scf.yield %more : f32
    } {unroll}
    %l_alpha = arith.mulf %l, %alpha : f32
    %new_l = arith.addf %l_alpha, %sum : f32
    hip.stage "O += V^T P^T"
    %probs = hip.get %s[%c0] : !hip.regs<1 x vector<4xf32>>, i32 -> vector<4xf32>
    %p16 = arith.truncf %probs : vector<4xf32> to vector<4xf16>
    %v = hip.regs : !hip.regs<4 x vector<4xf16>>
    %value_row = arith.addi %in_page, %v_offset : i32
    scf.for %r = %c0 to %c4 step %c1 : i32 {
      %r64 = arith.muli %r, %c64 : i32
      %at = arith.addi %value_row, %r64 : i32
      %this_key = arith.addi %key, %r : i32
      %kept = arith.cmpi slt, %this_key, %keys : i32
      %x = hip.load %v_page[%at] if %kept : i64, i32 -> vector<4xf16>
      hip.set %x, %v[%r] : vector<4xf16>, !hip.regs<4 x vector<4xf16>>, i32
    } {unroll}
    scf.for %x = %c0 to %c4 step %c1 : i32 {
      %v0 = hip.get %v[%c0, %x] : !hip.regs<4 x vector<4xf16>>, i32, i32 -> f16
      %v1 = hip.get %v[%c1, %x] : !hip.regs<4 x vector<4xf16>>, i32, i32 -> f16
      %v2 = hip.get %v[%c2, %x] : !hip.regs<4 x vector<4xf16>>, i32, i32 -> f16
      %c3 = arith.constant 3 : i32
      %v3 = hip.get %v[%c3, %x] : !hip.regs<4 x vector<4xf16>>, i32, i32 -> f16
      %vt = hip.vector %v0, %v1, %v2, %v3 : f16, f16, f16, f16 -> vector<4xf16>
      %o = hip.get %acc[%x] : !hip.regs<4 x vector<4xf32>>, i32 -> vector<4xf32>
      %alphas = hip.splat %alpha : f32 -> vector<4xf32>
      %o_alpha = arith.mulf %o, %alphas : vector<4xf32>
      %o_new = hip.mma "mfma_f32_16x16x16_f16" %vt, %p16, %o_alpha : vector<4xf16>, vector<4xf16>, vector<4xf32> -> vector<4xf32>
      hip.set %o_new, %acc[%x] : vector<4xf32>, !hip.regs<4 x vector<4xf32>>, i32
    } {unroll}
    scf.yield %new_m, %new_l : f32, f32
  }

  hip.stage "join the waves"
  %lds_o = hip.lds_alloc : memref<4096xf32, 3>
  %lds_m = hip.lds_alloc : memref<64xf32, 3>
  %lds_l = hip.lds_alloc : memref<64xf32, 3>
  %l16 = hip.exchange %final_l xor 16 : f32 -> f32
  %l_both = arith.addf %final_l, %l16 : f32
  %l32 = hip.exchange %l_both xor 32 : f32 -> f32
  %l_all = arith.addf %l_both, %l32 : f32
  %wave16 = arith.muli %wave, %c16 : i32
  %slot = arith.addi %wave16, %col : i32
  %first = arith.cmpi eq, %group, %c0 : i32
  hip.lds_store %final_m, %lds_m[%slot] if %first : f32, memref<64xf32, 3>, i32
  hip.lds_store %l_all, %lds_l[%slot] if %first : f32, memref<64xf32, 3>, i32
  %slot64 = arith.muli %slot, %c64 : i32
  %g16 = arith.muli %group, %c16 : i32
  %o_at = arith.addi %slot64, %g16 : i32
  scf.for %r = %c0 to %c4 step %c1 : i32 {
    %a0 = hip.get %acc[%c0, %r] : !hip.regs<4 x vector<4xf32>>, i32, i32 -> f32
    %a1 = hip.get %acc[%c1, %r] : !hip.regs<4 x vector<4xf32>>, i32, i32 -> f32
    %a2 = hip.get %acc[%c2, %r] : !hip.regs<4 x vector<4xf32>>, i32, i32 -> f32
    %c3 = arith.constant 3 : i32
    %a3 = hip.get %acc[%c3, %r] : !hip.regs<4 x vector<4xf32>>, i32, i32 -> f32
    %quad = hip.vector %a0, %a1, %a2, %a3 : f32, f32, f32, f32 -> vector<4xf32>
    %r4 = arith.muli %r, %c4 : i32
    %at = arith.addi %o_at, %r4 : i32
    hip.lds_store %quad, %lds_o[%at] : vector<4xf32>, memref<4096xf32, 3>, i32
  } {unroll}
  hip.barrier
  %wave4 = arith.muli %wave, %c4 : i32
  %my_row = arith.addi %wave4, %group : i32
  %grand = scf.for %w = %c0 to %c4 step %c1 iter_args(%grand = %neg_inf) -> (f32) : i32 {
    %w16 = arith.muli %w, %c16 : i32
    %at = arith.addi %w16, %my_row : i32
    %wave_m = hip.lds_load %lds_m[%at] : memref<64xf32, 3>, i32 -> f32
    %higher = arith.maxnumf %grand, %wave_m : f32
    scf.yield %higher : f32
  } {unroll}
  %empty = arith.cmpf oeq, %grand, %neg_inf : f32
  %total, %o_sum = scf.for %w = %c0 to %c4 step %c1 iter_args(%total = %zero, %o_sum = %zeros) -> (f32, vector<4xf32>) : i32 {
    %w16 = arith.muli %w, %c16 : i32
    %at = arith.addi %w16, %my_row : i32
    %wave_m = hip.lds_load %lds_m[%at] : memref<64xf32, 3>, i32 -> f32
    %fall = arith.subf %wave_m, %grand : f32
    %e = hip.exp2 %fall : f32 -> f32
    %f = arith.select %empty, %zero, %e : f32
    %wave_l = hip.lds_load %lds_l[%at] : memref<64xf32, 3>, i32 -> f32
    %part = arith.mulf %f, %wave_l : f32
    %total_new = arith.addf %total, %part : f32
    %at64 = arith.muli %at, %c64 : i32
    %o_at4 = arith.addi %at64, %c4col : i32
    %wave_o = hip.lds_load %lds_o[%o_at4] : memref<4096xf32, 3>, i32 -> vector<4xf32>
    %fs = hip.splat %f : f32 -> vector<4xf32>
    %o_part = arith.mulf %wave_o, %fs : vector<4xf32>
    %o_new = arith.addf %o_sum, %o_part : vector<4xf32>
    scf.yield %total_new, %o_new : f32, vector<4xf32>
  } {unroll}
  %one = arith.constant 1.0 : f32
  %by = arith.select %empty, %one, %total : f32
  %bys = hip.splat %by : f32 -> vector<4xf32>
  %o_final = arith.divf %o_sum, %bys : vector<4xf32>
  %o16 = arith.truncf %o_final : vector<4xf32> to vector<4xf16>
  %head16 = arith.muli %head, %c16 : i32
  %out_row = arith.addi %head16, %my_row : i32
  %out_row64 = arith.muli %out_row, %c64 : i32
  %out_at = arith.addi %out_row64, %c4col : i32
  hip.store %o16, %out[%out_at] : vector<4xf16>, memref<4096xf16>, i32
  %writes_lse = arith.cmpi eq, %col, %c0 : i32
  %log = math.log2 %total : f32
  %log2_sum = arith.addf %grand, %log : f32
  %natural = arith.mulf %log2_sum, %ln2 : f32
  %lse_value = arith.select %empty, %neg_inf, %natural : f32
  hip.store %lse_value, %lse[%out_row] if %writes_lse : f32, memref<64xf32>, i32
  func.return
}

// RUN: xpaged opt %s -t hip | filecheck %s
// RUN: not xpaged opt %s -t 'hip{arch=gfx94}' 2>&1 | filecheck %s --check-prefix=ARCH

// CHECK:      // Written by xpaged for gfx942
// CHECK:      //   k_pages  u64[16]    read, page table: addresses of pages of 2048 f16
// CHECK:      // Launch: grid 4 x 1 x 1, block 256 x 1 x 1 (4 waves), 16896 bytes of static LDS.
// CHECK:      extern "C" {{.*}}amdgpu_flat_work_group_size(256, 256)
// CHECK:      load<f16x8>(
// CHECK:      mma(
// CHECK:      barrier();
// CHECK:      store<f16x4>(out,

// ARCH: error: unknown architecture 'gfx94'
