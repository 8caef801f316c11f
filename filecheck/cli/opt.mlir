// RUN: xpaged opt %s -p canonicalize | filecheck %s
// RUN: xpaged-opt %s -p canonicalize | xpaged opt - | filecheck %s
// RUN: not xpaged opt %s -p canonicalise 2>&1 | filecheck %s --check-prefix=UNKNOWN

func.func @f(%a: i32) -> i32 {
  %zero = arith.constant 0 : i32
  %b = arith.addi %a, %zero : i32
  return %b : i32
}

// CHECK:      builtin.module {
// CHECK-NEXT:   func.func @f(%a: i32) -> i32 {
// CHECK-NEXT:     func.return %a : i32
// CHECK-NEXT:   }
// CHECK-NEXT: }

// UNKNOWN: error: unknown pass 'canonicalise'
// UNKNOWN-NEXT: fix: did you mean 'canonicalize'?
