// RUN: XPAGED_INVALID

// Every rule of rock.attention, rock.gridwise_attention_accel and rock.deref, broken once.

// Splits.

// CHECK: rock.attention: splitKV must be positive, found 0
func.func @split_zero(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32, splitKV = 0 : i32}
  return
}

// -----

// CHECK: rock.attention: splitKV = 2 needs an LSE: the parts are merged with it
func.func @split_without_lse(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<8x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<8x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32, splitKV = 2 : i32}
  return
}

// -----

// CHECK: rock.attention: output batch 4 is not a multiple of splitKV = 3
func.func @split_batch(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %lse: memref<4x5xf32>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    lse = %lse : memref<4x5xf32>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32, splitKV = 3 : i32}
  return
}

// -----

// CHECK: rock.attention: storeMethod must be set, found atomic_add
func.func @store(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32, storeMethod = #rock<StoreMethod atomic_add>}
  return
}

// -----

// CHECK: rock.attention: softmaxType must be f16, bf16 or f32, found f64
func.func @softmax_type(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32, softmaxType = f64}
  return
}

// -----

// Masks.

// CHECK: rock.attention: prefixOffset needs causal
func.func @offset_without_causal(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %offset: memref<4xi32>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    prefixOffset = (%offset : memref<4xi32>)
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: slidingWindowLookBack = 2 needs lastValidKVIndex
func.func @window_without_index(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    slidingWindowLookBack = 2
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: slidingWindowLookBack must be in 1..6, the number of keys, found 0
func.func @window_zero(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %last: memref<4xi32>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    lastValidKVIndex = (%last : memref<4xi32>)
    slidingWindowLookBack = 0
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: slidingWindowLookBack must be in 1..6, the number of keys, found 7
func.func @window_large(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %last: memref<4xi32>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    lastValidKVIndex = (%last : memref<4xi32>)
    slidingWindowSize = 7
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: lastValidKVIndex must have one entry for each of the 4 heads over the batch, found memref<2xi32>
func.func @index_per_batch(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %last: memref<2xi32>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    lastValidKVIndex = (%last : memref<2xi32>)
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: lastValidKVIndex holds i32, found memref<4xi64>
func.func @index_type(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %last: memref<4xi64>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    lastValidKVIndex = (%last : memref<4xi64>)
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: lastValidKVIndex must have one entry for each of the 4 heads over the batch, found memref<4x1xi32>
func.func @index_rank(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %last: memref<4x1xi32>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    lastValidKVIndex = (%last : memref<4x1xi32>)
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: prefixOffset must have one entry for each of the 4 heads over the batch, found memref<5xi32>
func.func @offset_size(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %offset: memref<5xi32>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    causal
    prefixOffset = (%offset : memref<5xi32>)
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// Heads and sizes.

// CHECK: rock.attention: numHeadsQ must be positive, found 0
func.func @heads_q(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 0 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: numHeadsKV must be positive, found -1
func.func @heads_kv(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 1 : i32, numHeadsKV = -1 : i32}
  return
}

// -----

// CHECK: rock.attention: numHeadsQ = 1 is not a multiple of numHeadsKV = 2
func.func @heads_ratio(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 1 : i32, numHeadsKV = 2 : i32}
  return
}

// -----

// CHECK: rock.attention: queries have 4 heads over the batch, keys 3 and values 2; expected queries = 2 * keys = 2 * values (numHeadsQ = 2, numHeadsKV = 1)
func.func @batch(%q: memref<4x5x8xf16>, %k: memref<3x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<3x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: queries have 4 heads over the batch, keys 2 and values 4; expected queries = 2 * keys = 2 * values (numHeadsQ = 2, numHeadsKV = 1)
func.func @batch_of_values(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<4x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<4x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: queries have head dimension 9, keys 8
func.func @channels(%q: memref<4x5x9xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x9xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: there are 6 keys, but 7 values
func.func @keys(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x7x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x7x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: queries must have rank 3, found memref<5x8xf16>
func.func @rank(%q: memref<5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: queries must have a static shape, found memref<4x?x8xf16>
func.func @dynamic(%q: memref<4x?x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x?x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: queries and keys have different element types f16 and f32
func.func @types(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf32>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf32>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: queries and keys hold floats or i8, found i32
func.func @type_of_queries(%q: memref<4x5x8xi32>, %k: memref<2x8x6xi32>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xi32>, memref<2x8x6xi32>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: values hold floats, found i8
func.func @type_of_values(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xi8>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xi8> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: scores of i8 operands are i32 and need a region that makes them floats
func.func @integers_without_region(%q: memref<4x5x8xi8>, %k: memref<2x8x6xi8>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xi8>, memref<2x8x6xi8>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// Results.

// CHECK: rock.attention: the output must have rank 3, as the queries, found memref<60x4xf16>
func.func @out_rank(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<60x4xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<60x4xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: output batch 8 / splitKV 1 is 8, the query batch is 4
func.func @out_batch(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<8x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<8x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: the output has 6 rows, there are 5 queries
func.func @out_rows(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x6x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x6x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: the output has head dimension 11, the values 12
func.func @out_channels(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x11xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x11xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: the output holds floats, found memref<4x5x12xi32>
func.func @out_type(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xi32>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xi32>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: the LSE must have rank 2, found memref<20xf32>
func.func @lse_rank(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %lse: memref<20xf32>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    lse = %lse : memref<20xf32>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: the LSE must be [4, 5], found memref<4x6xf32>
func.func @lse_shape(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %lse: memref<4x6xf32>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    lse = %lse : memref<4x6xf32>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: the LSE holds floats, found memref<4x5xi32>
func.func @lse_type(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %lse: memref<4x5xi32>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    lse = %lse : memref<4x5xi32>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: on memrefs the output must be given
func.func @no_out(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    softmax(qk) * %v : memref<2x6x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: on memrefs there are no results, found 1
func.func @result_of_memrefs(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  %r = rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32} -> memref<4x5x12xf16>
  return
}

// -----

// CHECK: rock.attention: on tensors there are 1 or 2 results, found 3
func.func @three_results(%q: tensor<4x5x8xf16>, %k: tensor<2x8x6xf16>, %v: tensor<2x6x12xf16>) {
  %r:3 = rock.attention{
    qk = %q * %k : tensor<4x5x8xf16>, tensor<2x8x6xf16>
    softmax(qk) * %v : tensor<2x6x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32} -> tensor<4x5x12xf16>, tensor<4x5xf32>, tensor<4x5xf32>
  return
}

// -----

// CHECK: rock.attention: operands are memrefs and tensors mixed: memref<4x5x8xf16> and tensor<2x6x12xf16>
func.func @mixed(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: tensor<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    %o = softmax(qk) * %v : tensor<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// The score region.

// CHECK: rock.attention: score input 0 must be [4, 5, 6], as the scores, found memref<4x5x7xf16>
func.func @input_shape(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %bias: memref<4x5x7xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    qk = elementwise otherIns(%bias : memref<4x5x7xf16>) {
    ^bb0(%s: f32, %b: f16):
      %w = arith.extf %b : f16 to f32
      %r = arith.addf %s, %w : f32
      rock.yield %r : f32
    }
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: the score region takes (f32, f32): the score, then one scalar for each input; found (f32, f16)
func.func @input_type(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %bias: memref<4x5x6xf32>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    qk = elementwise otherIns(%bias : memref<4x5x6xf32>) {
    ^bb0(%s: f32, %b: f16):
      %w = arith.extf %b : f16 to f32
      %r = arith.addf %s, %w : f32
      rock.yield %r : f32
    }
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: the score region takes (f32): the score, then one scalar for each input; found (f32, f16)
func.func @region_without_inputs(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    qk = elementwise {
    ^bb0(%s: f32, %b: f16):
      %w = arith.extf %b : f16 to f32
      %r = arith.addf %s, %w : f32
      rock.yield %r : f32
    }
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: the score region takes (i32, f16): the score, then one scalar for each input; found (f32, f16)
func.func @score_of_integers(%q: memref<4x5x8xi8>, %k: memref<2x8x6xi8>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>, %bias: memref<4x5x6xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xi8>, memref<2x8x6xi8>
    qk = elementwise otherIns(%bias : memref<4x5x6xf16>) {
    ^bb0(%s: f32, %b: f16):
      %w = arith.extf %b : f16 to f32
      %r = arith.addf %s, %w : f32
      rock.yield %r : f32
    }
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: the score region yields one float, found ()
func.func @yields_nothing(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    qk = elementwise {
    ^bb0(%s: f32):
      rock.yield
    }
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: the score region yields one float, found (i32)
func.func @yields_an_integer(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    qk = elementwise {
    ^bb0(%s: f32):
      %i = arith.fptosi %s : f32 to i32
      rock.yield %i : i32
    }
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: Operation arith.addf terminates block in single-block region but is not a terminator
func.func @no_yield(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    qk = elementwise {
    ^bb0(%s: f32):
      %t = arith.addf %s, %s : f32
    }
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: the score region holds arith and math operations on scalars, found 'memref.alloc'
func.func @memory(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    qk = elementwise {
    ^bb0(%s: f32):
      %m = memref.alloc() : memref<f32>
      rock.yield %s : f32
    }
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: 'arith.mulf' in the score region uses a value from outside
func.func @outside(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  %c = arith.constant 2.0 : f32
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    qk = elementwise {
    ^bb0(%s: f32):
      %t = arith.mulf %s, %c : f32
      rock.yield %t : f32
    }
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// Text.

// CHECK: unknown clause 'casual' of rock.attention, expected keyAddresses, valueAddresses, lastValidKVIndex, prefixOffset, causal, slidingWindowLookBack, lse, qk = elementwise
func.func @unknown_clause(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    casual
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: the clause 'causal' is repeated
func.func @repeated_clause(%q: memref<4x5x8xf16>, %k: memref<2x8x6xf16>, %v: memref<2x6x12xf16>, %o: memref<4x5x12xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x5x8xf16>, memref<2x8x6xf16>
    causal
    causal
    %o = softmax(qk) * %v : memref<2x6x12xf16> -> memref<4x5x12xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// rock.gridwise_attention_accel.

// CHECK: rock.gridwise_attention_accel: keys [G, Dqk, M] must be [2, 8, 32] for queries [G, Dqk, N] = [2, 8, 32], found memref<2x9x32xf16>
func.func @g_keys(%q: memref<2x8x32xf16>, %k: memref<2x9x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>} : memref<2x8x32xf16>, memref<2x9x32xf16>, memref<2x32x16xf16>, memref<2x32x16xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: values [G, M, Dv] must be [2, 32, 16] for queries [G, Dqk, N] = [2, 8, 32], found memref<2x31x16xf16>
func.func @g_values(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x31x16xf16>, %o: memref<2x32x16xf16>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x31x16xf16>, memref<2x32x16xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: out [G * splitKV, N, Dv] must be [2, 32, 16] for queries [G, Dqk, N] = [2, 8, 32], found memref<2x16x32xf16>
func.func @g_out(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x16x32xf16>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2x16x32xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: lse [G, N] must be [2, 32], found memref<2x31xf32>
func.func @g_lse(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>, %lse: memref<2x31xf32>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o, %lse) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 1, 0, 0>} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2x32x16xf16>, memref<2x31xf32>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: lastValidKVIndex must have one entry for each of the 2 heads over the batch, found memref<4xi32>
func.func @g_index(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>, %last: memref<4xi32>) {
  rock.gridwise_attention_accel(%q, %k, %v, %last, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 1, 0, 1, 0, 0, 0>} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<4xi32>, memref<2x32x16xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: splitKV = 2 needs an LSE
func.func @g_split(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, splitKV = 2 : i32} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2x32x16xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: splitKV must be positive, found 0
func.func @g_split_zero(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, splitKV = 0 : i32} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2x32x16xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: enableSoftmax = false is no attention
func.func @g_softmax(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, enableSoftmax = false} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2x32x16xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: blockSize must be positive, found 0 : i32
func.func @g_block(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, blockSize = 0 : i32} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2x32x16xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: gridSize must be positive, found -1 : i32
func.func @g_grid(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, gridSize = -1 : i32} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2x32x16xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: numRepeatsGQA must be positive, found 0 : i32
func.func @g_repeats(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, numRepeatsGQA = 0 : i32} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2x32x16xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: prePadG0M must be in 1..32, the padded length, found 33 : i32
func.func @g_pad_m(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, prePadG0M = 33 : i32} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2x32x16xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: prePadG0N must be in 1..32, the padded length, found 0 : i32
func.func @g_pad_n(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, prePadG0N = 0 : i32} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2x32x16xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: prefixOffset needs causal
func.func @g_offset(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>, %offset: memref<2xi32>) {
  rock.gridwise_attention_accel(%q, %k, %v, %offset, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 1, 0, 0, 0>} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2xi32>, memref<2x32x16xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: slidingWindowLookBack = 2 needs lastValidKVIndex
func.func @g_window(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, slidingWindowLookBack = 2 : i32} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2x32x16xf16>
  return
}

// -----

// CHECK: rock.gridwise_attention_accel: storeMethod must be set, found atomic_max
func.func @g_store(%q: memref<2x8x32xf16>, %k: memref<2x8x32xf16>, %v: memref<2x32x16xf16>, %o: memref<2x32x16xf16>) {
  rock.gridwise_attention_accel(%q, %k, %v, %o) preSoftmaxOps = {} {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 1, 0, 0, 0>, storeMethod = #rock<StoreMethod atomic_max>} : memref<2x8x32xf16>, memref<2x8x32xf16>, memref<2x32x16xf16>, memref<2x32x16xf16>
  return
}

// -----

// Pages.

// CHECK: rock.deref: a page table holds i64 addresses, found memref<1x8x1xi32>
func.func @d_type(%t: memref<1x8x1xi32>) {
  %p = rock.deref %t : memref<1x8x1xi32> -> memref<1x8x16xf16>
  return
}

// -----

// CHECK: rock.deref: the result must have rank 3 [batch, numPages, pageSize], found memref<8x16xf16>
func.func @d_result_rank(%t: memref<1x8x1xi64>) {
  %p = rock.deref %t : memref<1x8x1xi64> -> memref<8x16xf16>
  return
}

// -----

// CHECK: rock.deref: the last dimension of the page table must be 1, found memref<1x8x2xi64>
func.func @d_last(%t: memref<1x8x2xi64>) {
  %p = rock.deref %t : memref<1x8x2xi64> -> memref<1x8x16xf16>
  return
}

// -----

// CHECK: rock.deref: the page table has batch 2, the result 1
func.func @d_batch(%t: memref<2x8x1xi64>) {
  %p = rock.deref %t : memref<2x8x1xi64> -> memref<1x8x16xf16>
  return
}

// -----

// CHECK: rock.deref: the page table has numPages 8, the result 9
func.func @d_pages(%t: memref<1x8x1xi64>) {
  %p = rock.deref %t : memref<1x8x1xi64> -> memref<1x9x16xf16>
  return
}

// -----

// CHECK: rock.deref: pages hold floats or integers, found memref<1x8x16xindex>
func.func @d_elements(%t: memref<1x8x1xi64>) {
  %p = rock.deref %t : memref<1x8x1xi64> -> memref<1x8x16xindex>
  return
}

// -----

// CHECK: rock.deref: the result must have no dimension of length 0, found memref<1x8x0xf16>
func.func @d_empty(%t: memref<1x8x1xi64>) {
  %p = rock.deref %t : memref<1x8x1xi64> -> memref<1x8x0xf16>
  return
}

// -----

// CHECK: rock.attention: the view 'keys' ends in a rock.deref, but keyAddresses and valueAddresses are not given
func.func @no_addresses(%q: memref<4x5x8xf16>, %t: memref<2x6x1xi64>, %k: memref<2x6x8xf16>, %o: memref<4x5x8xf16>) {
  %p = rock.deref %t : memref<2x6x1xi64> -> memref<2x6x8xf16>
  rock.attention{
    qk = %q * tr %p : memref<4x5x8xf16>, memref<2x6x8xf16>
    %o = softmax(qk) * %p : memref<2x6x8xf16> -> memref<4x5x8xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: valueAddresses is given without keyAddresses; K and V are paged together or not at all
func.func @values_only(%q: memref<4x5x8xf16>, %t: memref<2x6x1xi64>, %k: memref<2x6x8xf16>, %o: memref<4x5x8xf16>) {
  %p = rock.deref %t : memref<2x6x1xi64> -> memref<2x6x8xf16>
  rock.attention{
    qk = %q * tr %p : memref<4x5x8xf16>, memref<2x6x8xf16>
    valueAddresses = (%p : memref<2x6x8xf16>)
    %o = softmax(qk) * %p : memref<2x6x8xf16> -> memref<4x5x8xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: keyAddresses must be the result of a rock.deref, found an argument of type memref<2x6x8xf16>
func.func @no_deref(%q: memref<4x5x8xf16>, %t: memref<2x6x1xi64>, %k: memref<2x6x8xf16>, %o: memref<4x5x8xf16>) {
  %p = rock.deref %t : memref<2x6x1xi64> -> memref<2x6x8xf16>
  rock.attention{
    qk = %q * tr %k : memref<4x5x8xf16>, memref<2x6x8xf16>
    keyAddresses = (%k : memref<2x6x8xf16>)
    valueAddresses = (%p : memref<2x6x8xf16>)
    %o = softmax(qk) * %p : memref<2x6x8xf16> -> memref<4x5x8xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}

// -----

// CHECK: rock.attention: keyAddresses is given, but the view 'keys' ends in an argument of type memref<2x6x8xf16>, not in a rock.deref
func.func @not_a_view(%q: memref<4x5x8xf16>, %t: memref<2x6x1xi64>, %k: memref<2x6x8xf16>, %o: memref<4x5x8xf16>) {
  %p = rock.deref %t : memref<2x6x1xi64> -> memref<2x6x8xf16>
  rock.attention{
    qk = %q * tr %k : memref<4x5x8xf16>, memref<2x6x8xf16>
    keyAddresses = (%p : memref<2x6x8xf16>)
    valueAddresses = (%p : memref<2x6x8xf16>)
    %o = softmax(qk) * %p : memref<2x6x8xf16> -> memref<4x5x8xf16>
  } {numHeadsQ = 2 : i32, numHeadsKV = 1 : i32}
  return
}
