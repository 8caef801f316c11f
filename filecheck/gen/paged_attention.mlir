// RUN: xpaged-gen --operation attention -seq_len_q 1024 -seq_len_k 1024 -head_dim_qk 32 -head_dim_v 32 -t f16 --paged-attention --num-pages 32 --page-size 1024 --arch gfx942 | filecheck %s

// The kernel of rocmlir-gen: pages to [batch, total], to [batch, head, token, channel], to the operand.

// CHECK: func.func @rock_attention(%q: memref<32768xf16>, %k_table: memref<32xi64> {rock.page_table = {page_size = 1024 : i64, elem = f16}}, %v_table: memref<32xi64> {rock.page_table = {page_size = 1024 : i64, elem = f16}}, %out: memref<32768xf16> {rock.output = 0 : i32}) attributes {rock.kernel, arch = "gfx942"} {
// CHECK-NEXT: %[[Q:.*]] = rock.transform %q by {{.*}} : memref<32768xf16> to memref<1x1024x32xf16>
// CHECK-NEXT: %[[KT:.*]] = rock.transform %k_table by {{.*}} : memref<32xi64> to memref<1x32x1xi64>
// CHECK-NEXT: %[[VT:.*]] = rock.transform %v_table by {{.*}} : memref<32xi64> to memref<1x32x1xi64>
// CHECK-NEXT: %[[O:.*]] = rock.transform %out by {{.*}} : memref<32768xf16> to memref<1x1024x32xf16>
// CHECK-NEXT: %[[KP:.*]] = rock.deref %[[KT]] : memref<1x32x1xi64> -> memref<1x32x1024xf16>
// CHECK-NEXT: %[[VP:.*]] = rock.deref %[[VT]] : memref<1x32x1xi64> -> memref<1x32x1024xf16>
// CHECK-NEXT: %[[K0:.*]] = rock.transform %[[KP]] by {{.*}} : memref<1x32x1024xf16> to memref<1x32768xf16>
// CHECK-NEXT: %[[K1:.*]] = rock.transform %[[K0]] by {{.*}} : memref<1x32768xf16> to memref<1x1x1024x32xf16>
// CHECK-NEXT: %[[K2:.*]] = rock.transform %[[K1]] by {{.*}} : memref<1x1x1024x32xf16> to memref<1x32x1024xf16>
// CHECK-NEXT: %[[V0:.*]] = rock.transform %[[VP]] by {{.*}} : memref<1x32x1024xf16> to memref<1x32768xf16>
// CHECK-NEXT: %[[V1:.*]] = rock.transform %[[V0]] by {{.*}} : memref<1x32768xf16> to memref<1x1x1024x32xf16>
// CHECK-NEXT: %[[V2:.*]] = rock.transform %[[V1]] by {{.*}} : memref<1x1x1024x32xf16> to memref<1x1024x32xf16>
// CHECK-NEXT: rock.attention{
// CHECK-NEXT: qk = %[[Q]] * %[[K2]] : memref<1x1024x32xf16>, memref<1x32x1024xf16>
// CHECK-NEXT: keyAddresses = (%[[KP]] : memref<1x32x1024xf16>)
// CHECK-NEXT: valueAddresses = (%[[VP]] : memref<1x32x1024xf16>)
// CHECK-NEXT: %[[O]] = softmax(qk) * %[[V2]] : memref<1x1024x32xf16> -> memref<1x1024x32xf16>
// CHECK-NEXT: } {numHeadsKV = 1 : i32, numHeadsQ = 1 : i32, softmaxType = f32, splitKV = 1 : i32}
// CHECK-NEXT: func.return
