// RUN: xpaged-gen --operation attention -seq_len_q 4 -seq_len_k 64 -head_dim_qk 32 -head_dim_v 32 -t f16 --paged-attention --num-pages 2 --page-size 1024 | xpaged-opt - -p sort-dimensions-memory-layout | filecheck %s

// Channels are contiguous in a page, so K is read as [G, Sk, D]; the addresses stay.
// CHECK: %[[KP:.*]] = rock.deref
// CHECK: %[[VP:.*]] = rock.deref
// CHECK: %[[K:.*]] = rock.transform %{{.*}} by {{.*}} : memref<1x1x64x32xf16> to memref<1x64x32xf16>
// CHECK: %[[V:.*]] = rock.transform %{{.*}} by {{.*}} : memref<1x1x64x32xf16> to memref<1x64x32xf16>
// CHECK-NEXT: rock.attention{
// CHECK-NEXT: qk = %{{.*}} * tr %[[K]] : memref<1x4x32xf16>, memref<1x64x32xf16>
// CHECK-NEXT: keyAddresses = (%[[KP]]
// CHECK-NEXT: valueAddresses = (%[[VP]]
// CHECK-NEXT: %{{.*}} = softmax(qk) * %[[V]]
