// RUN: XPAGED_INVALID

// CHECK: the affine map (d0) -> (d0 + 1) is not what the transforms do: (d0) -> (d0)
func.func @map(%x: memref<4xf16>) {
  %0 = rock.transform %x by <affine_map<(d0) -> (d0 + 1)> by [<PassThrough ["x"] at [0] -> ["x"] at [0]>] bounds = [4] -> [4]> : memref<4xf16> to memref<4xf16>
  return
}

// -----

// CHECK: the product of lengths [2, 3] is 6, the other side has length 7
func.func @merge(%x: memref<2x3xf16>) {
  %0 = rock.transform %x by <affine_map<(d0) -> (d0 floordiv 3, d0 mod 3)> by [<Merge{2, 3} ["x"] at [0] -> ["a", "b"] at [0, 1]>] bounds = [7] -> [2, 3]> : memref<2x3xf16> to memref<7xf16>
  return
}

// -----

// CHECK: rock.deref: the page table must have rank 3 [batch, numPages, 1], found memref<1x8xi64>
func.func @rank(%t: memref<1x8xi64>) {
  %0 = rock.deref %t : memref<1x8xi64> -> memref<1x8x16xf16>
  return
}

// -----

// CHECK: rock.attention: keyAddresses is given without valueAddresses; K and V are paged together or not at all
func.func @one_side(%q: memref<1x4x8xf16>, %t: memref<1x6x1xi64>, %o: memref<1x4x8xf16>) {
  %p = rock.deref %t : memref<1x6x1xi64> -> memref<1x6x8xf16>
  rock.attention{
    qk = %q * tr %p : memref<1x4x8xf16>, memref<1x6x8xf16>
    keyAddresses = (%p : memref<1x6x8xf16>)
    %o = softmax(qk) * %p : memref<1x6x8xf16> -> memref<1x4x8xf16>
  }
  return
}

// -----

// CHECK: rock.attention: the view 'keys' ends in another rock.deref than the one given as keyAddresses
func.func @another_deref(%q: memref<1x4x8xf16>, %t: memref<1x6x1xi64>, %o: memref<1x4x8xf16>) {
  %p = rock.deref %t : memref<1x6x1xi64> -> memref<1x6x8xf16>
  %r = rock.deref %t : memref<1x6x1xi64> -> memref<1x6x8xf16>
  rock.attention{
    qk = %q * tr %p : memref<1x4x8xf16>, memref<1x6x8xf16>
    keyAddresses = (%r : memref<1x6x8xf16>)
    valueAddresses = (%r : memref<1x6x8xf16>)
    %o = softmax(qk) * %r : memref<1x6x8xf16> -> memref<1x4x8xf16>
  }
  return
}

// -----

// CHECK: rock.attention: numHeadsQ = 4 is not a multiple of numHeadsKV = 3
func.func @heads(%q: memref<4x4x8xf16>, %k: memref<3x8x6xf16>, %v: memref<3x6x8xf16>, %o: memref<4x4x8xf16>) {
  rock.attention{
    qk = %q * %k : memref<4x4x8xf16>, memref<3x8x6xf16>
    %o = softmax(qk) * %v : memref<3x6x8xf16> -> memref<4x4x8xf16>
  } {numHeadsQ = 4 : i32, numHeadsKV = 3 : i32}
  return
}

// -----

// CHECK: rock.attention: kvIndexClamp needs lastValidKVIndex
func.func @clamp_of_nothing(%q: memref<1x4x8xf16>, %k: memref<1x8x6xf16>, %v: memref<1x6x8xf16>, %n: memref<1xi32>, %o: memref<1x4x8xf16>) {
  rock.attention{
    qk = %q * %k : memref<1x4x8xf16>, memref<1x8x6xf16>
    %o = softmax(qk) * %v : memref<1x6x8xf16> -> memref<1x4x8xf16>
  } {kvIndexClamp = array<i64: 0, 1, 0>}
  return
}

// -----

// CHECK: rock.attention: kvIndexClamp has least = 3 above most = 2
func.func @clamp_order(%q: memref<1x4x8xf16>, %k: memref<1x8x6xf16>, %v: memref<1x6x8xf16>, %n: memref<1xi32>, %o: memref<1x4x8xf16>) {
  rock.attention{
    qk = %q * %k : memref<1x4x8xf16>, memref<1x8x6xf16>
    lastValidKVIndex = (%n : memref<1xi32>)
    %o = softmax(qk) * %v : memref<1x6x8xf16> -> memref<1x4x8xf16>
  } {kvIndexClamp = array<i64: 3, 2, 0>}
  return
}

// -----

// CHECK: rock.attention: kvIndexClamp must be [least, most, add], found 2 numbers
func.func @clamp_numbers(%q: memref<1x4x8xf16>, %k: memref<1x8x6xf16>, %v: memref<1x6x8xf16>, %n: memref<1xi32>, %o: memref<1x4x8xf16>) {
  rock.attention{
    qk = %q * %k : memref<1x4x8xf16>, memref<1x8x6xf16>
    lastValidKVIndex = (%n : memref<1xi32>)
    %o = softmax(qk) * %v : memref<1x6x8xf16> -> memref<1x4x8xf16>
  } {kvIndexClamp = array<i64: 3, 2>}
  return
}

// -----

// CHECK: rock.attention: kvIndexClamp has numbers that i32 does not hold: 0, 2147483648, 0
func.func @clamp_wide(%q: memref<1x4x8xf16>, %k: memref<1x8x6xf16>, %v: memref<1x6x8xf16>, %n: memref<1xi32>, %o: memref<1x4x8xf16>) {
  rock.attention{
    qk = %q * %k : memref<1x4x8xf16>, memref<1x8x6xf16>
    lastValidKVIndex = (%n : memref<1xi32>)
    %o = softmax(qk) * %v : memref<1x6x8xf16> -> memref<1x4x8xf16>
  } {kvIndexClamp = array<i64: 0, 2147483648, 0>}
  return
}

// -----

// CHECK: rock.merge_attention: the parts must be [a multiple of 3, 2, 8] for this output, found memref<6x1x8xf32>
func.func @merge_rows(%p: memref<6x1x8xf32>, %l: memref<6x1xf32>, %o: memref<3x2x8xf16>) {
  rock.merge_attention %p, %l into %o : memref<6x1x8xf32>, memref<6x1xf32> into memref<3x2x8xf16>
  return
}

// -----

// CHECK: rock.merge_attention: the logarithms of the parts must be [6, 2] for this output, found memref<3x2xf32>
func.func @merge_lses(%p: memref<6x2x8xf32>, %l: memref<3x2xf32>, %o: memref<3x2x8xf16>) {
  rock.merge_attention %p, %l into %o : memref<6x2x8xf32>, memref<3x2xf32> into memref<3x2x8xf16>
  return
}

// -----

// CHECK: rock.attention: balancedSplit needs splitKV, found 1
func.func @balanced_whole(%q: memref<1x4x8xf16>, %k: memref<1x8x6xf16>, %v: memref<1x6x8xf16>, %o: memref<1x4x8xf16>) {
  rock.attention{
    qk = %q * %k : memref<1x4x8xf16>, memref<1x8x6xf16>
    %o = softmax(qk) * %v : memref<1x6x8xf16> -> memref<1x4x8xf16>
  } {balancedSplit}
  return
}
