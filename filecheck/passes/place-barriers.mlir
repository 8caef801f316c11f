// RUN: xpaged opt %s -p place-barriers | filecheck %s

#rows = #rock.layout<wave = [4 -> d0], lane = [16 -> d1, 4 -> copy], regs = []>
#all = #rock.layout<wave = [4 -> copy], lane = [16 -> d1, 4 -> copy], regs = [4 -> d0]>

// Each wave writes its part and reads all of them: the reads wait for the writes.

// CHECK-LABEL: func.func @exchange
// CHECK:         rock.tile_store %m, %lds[]
// CHECK-NEXT:    rock.barrier
// CHECK-NEXT:    rock.tile_load %lds[]
// CHECK-NEXT:    rock.tile_load %lds[]
// CHECK-NEXT:    func.return
func.func @exchange(%m: !rock.tile<4x16xf32, #rows>) attributes {rock.kernel} {
  %lds = rock.lds_alloc : memref<4x16xf32, 3 : i32>
  rock.tile_store %m, %lds[] : !rock.tile<4x16xf32, #rows>, memref<4x16xf32, 3 : i32>
  %a = rock.tile_load %lds[] : memref<4x16xf32, 3 : i32> -> !rock.tile<4x16xf32, #all>
  %b = rock.tile_load %lds[] : memref<4x16xf32, 3 : i32> -> !rock.tile<4x16xf32, #all>
  return
}

// In a loop the next trip overwrites what this one reads.

// CHECK-LABEL: func.func @again
// CHECK:         scf.for
// CHECK-NEXT:      rock.barrier
// CHECK-NEXT:      rock.tile_store %m, %lds[]
// CHECK-NEXT:      rock.barrier
// CHECK-NEXT:      rock.tile_load %lds[]
// CHECK-NEXT:    }
func.func @again(%m: !rock.tile<4x16xf32, #rows>, %n: index) attributes {rock.kernel} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %lds = rock.lds_alloc : memref<4x16xf32, 3 : i32>
  scf.for %i = %zero to %n step %one {
    rock.tile_store %m, %lds[] : !rock.tile<4x16xf32, #rows>, memref<4x16xf32, 3 : i32>
    %a = rock.tile_load %lds[] : memref<4x16xf32, 3 : i32> -> !rock.tile<4x16xf32, #all>
  }
  return
}

// Global memory and another buffer need none; one barrier serves two buffers.

// CHECK-LABEL: func.func @several
// CHECK:         rock.tile_store %m, %x[]
// CHECK-NEXT:    rock.tile_store %m, %y[]
// CHECK-NEXT:    rock.tile_store %m, %o[]
// CHECK-NEXT:    rock.tile_load %o[]
// CHECK-NEXT:    rock.barrier
// CHECK-NEXT:    rock.tile_load %x[]
// CHECK-NEXT:    rock.tile_load %y[]
// CHECK-NEXT:    func.return
func.func @several(%m: !rock.tile<4x16xf32, #rows>, %o: memref<4x16xf32>) attributes {rock.kernel} {
  %x = rock.lds_alloc : memref<4x16xf32, 3 : i32>
  %y = rock.lds_alloc : memref<4x16xf32, 3 : i32>
  rock.tile_store %m, %x[] : !rock.tile<4x16xf32, #rows>, memref<4x16xf32, 3 : i32>
  rock.tile_store %m, %y[] : !rock.tile<4x16xf32, #rows>, memref<4x16xf32, 3 : i32>
  rock.tile_store %m, %o[] : !rock.tile<4x16xf32, #rows>, memref<4x16xf32>
  %g = rock.tile_load %o[] : memref<4x16xf32> -> !rock.tile<4x16xf32, #all>
  %a = rock.tile_load %x[] : memref<4x16xf32, 3 : i32> -> !rock.tile<4x16xf32, #all>
  %b = rock.tile_load %y[] : memref<4x16xf32, 3 : i32> -> !rock.tile<4x16xf32, #all>
  return
}

// A loop may make no trip at all, and a branch may not be taken: what comes after them needs a barrier of its own.

// CHECK-LABEL: func.func @perhaps
// CHECK:         rock.tile_store %m, %lds[]
// CHECK-NEXT:    scf.for
// CHECK-NEXT:      rock.barrier
// CHECK-NEXT:      rock.tile_load %lds[]
// CHECK-NEXT:    }
// CHECK-NEXT:    scf.if
// CHECK-NEXT:      rock.barrier
// CHECK-NEXT:      rock.tile_load %lds[]
// CHECK-NEXT:    }
// CHECK-NEXT:    rock.barrier
// CHECK-NEXT:    rock.tile_load %lds[]
// CHECK-NEXT:    func.return
func.func @perhaps(%m: !rock.tile<4x16xf32, #rows>, %n: index, %c: i1) attributes {rock.kernel} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %lds = rock.lds_alloc : memref<4x16xf32, 3 : i32>
  rock.tile_store %m, %lds[] : !rock.tile<4x16xf32, #rows>, memref<4x16xf32, 3 : i32>
  scf.for %i = %zero to %n step %one {
    %a = rock.tile_load %lds[] : memref<4x16xf32, 3 : i32> -> !rock.tile<4x16xf32, #all>
  }
  scf.if %c {
    %b = rock.tile_load %lds[] : memref<4x16xf32, 3 : i32> -> !rock.tile<4x16xf32, #all>
  }
  %d = rock.tile_load %lds[] : memref<4x16xf32, 3 : i32> -> !rock.tile<4x16xf32, #all>
  return
}
