// The end of the program: its kernels, what happens when something goes wrong, and where it begins.
#pragma once
#include "lanes.h"

#ifndef XPAGED_KERNELS
#error "define XPAGED_KERNELS as the kernels of the text, each in XPAGED_KERNEL(name) and a comma"
#endif

namespace xpaged_host {

// ---- kernels: called with one 64-bit word an argument

template <class T> inline T argument(u64 word) {
  T value;
  __builtin_memcpy(&value, &word, sizeof value);
  return value;
}

template <class T, T... I> struct Numbers {};
template <class... A, u32... I> inline void call(void (*kernel)(A...), const u64* words, Numbers<u32, I...>) {
  kernel(argument<A>(words[I])...);
}
template <class... A> inline void call(void (*kernel)(A...), const u64* words) {
  call(kernel, words, __make_integer_seq<Numbers, u32, sizeof...(A)>());
}
template <auto kernel> void enter(const u64* words) { call(kernel, words); }

#define XPAGED_KERNEL(name) enter<name>
void (*const kernels[])(const u64*) = {XPAGED_KERNELS};

// ---- bad accesses and instructions

struct Signal {
  int number, error, code, pad;
  u64 address;
};

struct Machine {  // the registers of the lane, as Linux hands them to a signal handler
  u64 flags, link, stack[3];
  u64 r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags, segments, error;
};

inline void on_signal(int number, Signal* signal, Machine* machine) {
  report->group = state.group;
  report->thread = state.thread;
  report->pc = machine->rip;
  report->address = signal->address;
  report->detail = (u64)number;
  const u64 top = (u64)state.stacks + (state.thread + 1) * STACK_STEP;
  const bool overflow = machine->rsp > top || machine->rsp < top - STACK;
  report->other_detail = overflow ? 2 : machine->error >> 1 & 1;  // 2: of the lane's stack, 1: write, 0: read
  stop(SIGNAL, "");
}

asm(R"(
  .text
  .type xpaged_return, @function
xpaged_return:
  movl $15, %eax
  syscall
  .size xpaged_return, . - xpaged_return
)");
extern "C" void xpaged_return();

struct Action {
  void (*handler)(int, Signal*, Machine*);
  u64 flags;
  void (*restorer)();
  u64 mask;
};

inline u8 signal_stack[16 * VM_PAGE];

inline void catch_signals() {
  struct {
    void* base;
    u64 flags, bytes;
  } stack = {signal_stack, 0, sizeof signal_stack};
  system_call(CALL_SIGALTSTACK, (u64)&stack);
  const Action action = {on_signal, 0x4 | 0x08000000 | 0x04000000, xpaged_return, 0};  // with details, on that stack
  const int caught[] = {4, 7, 8, 11};  // bad instruction, bus error, bad arithmetic, bad address
  for (int number : caught) system_call(CALL_SIGACTION, (u64)number, (u64)&action, 0, 8);
}

// ---- what C++ leaves undefined: the compiler puts checks in, which end here

struct CheckedPlace {
  const char* file;
  u32 line, column;
};

[[noreturn]] inline void undefined(const char* what, const CheckedPlace* place, u64 pc, u64 a, u64 b) {
  report->group = state.group;
  report->thread = state.thread;
  report->pc = pc;
  report->detail = a;
  report->other_detail = b;
  report->line = place->line;
  report->column = place->column;
  copy_text(report->other, place->file);
  stop(UNDEFINED, what);
}

#define XPAGED_CHECK(name, what)                                                                                    \
  extern "C" __attribute__((used, noinline, noreturn)) void __ubsan_handle_##name##_abort(CheckedPlace* p, u64 a, u64 b) { \
    undefined(what, p, (u64)__builtin_return_address(0), a, b);                                                     \
  }

XPAGED_CHECK(add_overflow, "overflow of a sum")
XPAGED_CHECK(sub_overflow, "overflow of a difference")
XPAGED_CHECK(mul_overflow, "overflow of a product")
XPAGED_CHECK(negate_overflow, "overflow of a negation")
XPAGED_CHECK(divrem_overflow, "division by zero, or overflow of a quotient")
XPAGED_CHECK(shift_out_of_bounds, "shift by more than the type has bits")
XPAGED_CHECK(out_of_bounds, "index outside an array")
XPAGED_CHECK(type_mismatch_v1, "access to a misaligned or null address")
XPAGED_CHECK(float_cast_overflow, "float that does not fit the integer type")

// ---- the beginning: program <number of the shared file> <number of this process>

inline u64 number_in(const char* text) {
  u64 number = 0;
  for (; *text; ++text) number = number * 10 + (u64)(*text - '0');
  return number;
}

[[noreturn]] inline void refused(const char* what, i64 error) {
  report->detail = (u64)-error;
  stop(SETUP, what);
}

inline i64 map(u64 address, u64 bytes, u64 access, u64 flags, i64 file = -1, u64 offset = 0) {
  return system_call(CALL_MMAP, address, bytes, access, flags, (u64)file, offset);
}

inline void make_stacks() {
  const u64 bytes = STACK_STEP * (state.threads + 1);
  const i64 at = map(0, bytes, 0, PRIVATE | ANONYMOUS | NO_RESERVE);
  if (failed(at)) refused("room for the lanes' stacks", at);
  state.stacks = (u8*)at;
  for (u64 i = 1; i <= state.threads; ++i) {
    const i64 stack = map((u64)at + i * STACK_STEP - STACK, STACK, READ | WRITE, PRIVATE | ANONYMOUS | NO_RESERVE | 0x10);
    if (failed(stack)) refused("a lane's stack", stack);
  }
}

extern "C" u8 __start_xpaged_lds[] __attribute__((weak)), __stop_xpaged_lds[] __attribute__((weak));

// The end of the last page of LDS: nothing else lies behind LDS there.
inline u8* lds_room() { return (u8*)(((u64)__stop_xpaged_lds + VM_PAGE - 1) / VM_PAGE * VM_PAGE); }

inline void check_lds() {
  for (u8* at = __stop_xpaged_lds; at < lds_room(); ++at) {
    if (*at == 0xff) continue;
    report->group = state.group;
    report->address = (u64)(at - __stop_xpaged_lds);
    stop(LDS_OVERRUN, "");
  }
}

extern "C" __attribute__((used, noreturn)) void xpaged_main(const u64* stack) {
  const char* const* words = (const char* const*)(stack + 1);
  const i64 file = (i64)number_in(words[1]);
  plan = (Plan*)map(0, VM_PAGE, READ | WRITE, SHARED, file);
  if (failed((i64)plan)) leave(3);
  plan = (Plan*)map(0, plan->bytes, READ | WRITE, SHARED, file);
  if (failed((i64)plan)) leave(3);
  u8* const start = (u8*)plan;
  report = (Report*)(start + plan->reports_at) + number_in(words[2]);
  state.threads = (u32)plan->threads;
  state.waves = state.threads / WAVE;
  state.lane_step = plan->backward ? WAVE - 1 : 1;
  state.wave_step = plan->backward ? state.waves - 1 : 1;
  state.enter = kernels[plan->kernel];
  state.arguments = (const u64*)(start + plan->arguments_at);
  const Map* maps = (const Map*)(start + plan->maps_at);
  for (u64 i = 0; i < plan->maps; ++i) {
    const Map& m = maps[i];
    const i64 at = map(m.address, m.bytes, READ | (m.writable ? WRITE : 0), SHARED | AT_FREE_ADDRESS, file, m.offset);
    report->address = m.address;
    if (failed(at)) refused("memory for a buffer", at);
    if ((u64)at != m.address) refused("memory at the address that a buffer should have", 0);
  }
  make_stacks();
  catch_signals();
  const u64* groups = (const u64*)(start + plan->groups_at);
  for (;;) {
    const u64 next = __atomic_fetch_add(&plan->next, 1, __ATOMIC_SEQ_CST);
    if (next >= plan->groups) break;
    memset(__start_xpaged_lds, 0xff, (unsigned long)(lds_room() - __start_xpaged_lds));
    run_group((u32)groups[next]);
    check_lds();
  }
  stop_clock();
  report->outcome = FINISHED;
  leave(0);
}

asm(R"(
  .text
  .globl _start
  .type _start, @function
_start:
  movq %rsp, %rdi
  andq $-16, %rsp
  callq xpaged_main
  .size _start, . - _start
)");

}  // namespace xpaged_host
