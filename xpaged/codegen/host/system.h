// What a program without a C library needs of Linux: system calls, the plan of a run, and the report of what went wrong.
//
// The plan and all buffers lie in one file that the starting program shares: this side maps each buffer where the plan
// says and touches nothing else, so that an access outside a buffer is a fault that names its address.
#pragma once

#if !defined(__x86_64__) || !defined(__linux__)
#error "kernels run on the CPU of x86-64 Linux only"
#endif

namespace xpaged_host {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long i64;

constexpr u64 VM_PAGE = 4096;

// ---- system calls

inline i64 system_call(i64 number, u64 a = 0, u64 b = 0, u64 c = 0, u64 d = 0, u64 e = 0, u64 f = 0) {
  register u64 r10 asm("r10") = d;
  register u64 r8 asm("r8") = e;
  register u64 r9 asm("r9") = f;
  i64 result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

enum : i64 { CALL_MMAP = 9, CALL_SIGACTION = 13, CALL_SIGALTSTACK = 131, CALL_CLOCK = 228, CALL_EXIT = 231 };
enum : u64 { READ = 1, WRITE = 2, SHARED = 1, PRIVATE = 2, ANONYMOUS = 0x20, NO_RESERVE = 0x4000, AT_FREE_ADDRESS = 0x100000 };

inline bool failed(i64 result) { return result < 0 && result > -4096; }

[[noreturn]] inline void leave(int status) {
  for (;;) system_call(CALL_EXIT, (u64)status);
}

// ---- the plan of a run, written by arena.py and kernel.py: 64-bit words, in this order

struct Map {
  u64 address, offset, bytes, writable;
};

struct Plan {
  u64 bytes;  // of the plan
  u64 kernel;
  u64 threads;  // of a workgroup
  u64 grid_x, grid_y;
  u64 arguments, arguments_at;  // how many, and at which byte of the plan
  u64 maps, maps_at;
  u64 groups, groups_at;  // the workgroups to run
  u64 reports_at;         // one for each process
  u64 next;               // the first workgroup of `groups` that nobody has begun
  u64 backward;           // whether the last lane and the last wave run first
};

enum Outcome : u64 {
  NOTHING,     // the process ended without saying why
  FINISHED,
  DIVERGED,    // lanes of a wave stand at different places
  BLOCK_DIVERGED,  // waves of a workgroup do
  SIGNAL,      // a bad access or instruction; `detail` is the number of the signal
  UNDEFINED,   // what C++ leaves undefined, found by a check that the compiler put in
  OPERAND,     // an operand that an instruction does not have
  SETUP,       // the machine refused; `detail` is its error number
  LDS_OVERRUN,
};

struct Report {
  u64 outcome;
  u64 group, thread, pc;       // who, and where
  u64 other_thread, other_pc;  // whom the others wait for, or who waits
  u64 address, detail, other_detail;
  u64 line, column;  // of the text, where the compiler knows them
  u64 nanoseconds;   // of this process
  char what[64], other[64];
};

inline Plan* plan;
inline Report* report;
inline u64 lds_end;

inline void copy_text(char (&to)[64], const char* from) {
  u32 i = 0;
  for (; from && from[i] && i < 63; ++i) to[i] = from[i];
  to[i] = 0;
}

inline void stop_clock() {
  u64 time[2] = {};
  system_call(CALL_CLOCK, 2 /* of this process */, (u64)time);
  report->nanoseconds = time[0] * 1000000000ull + time[1];
}

// Ends the process; the other ones begin no further workgroup.
[[noreturn]] inline void stop(Outcome outcome, const char* what) {
  copy_text(report->what, what);
  stop_clock();
  report->outcome = outcome;
  __atomic_store_n(&plan->next, plan->groups, __ATOMIC_SEQ_CST);
  leave(1);
}

}  // namespace xpaged_host
