// The lanes of a workgroup, each with a stack of its own.
//
// A lane runs until it needs the others: until the next operation of its wave (a matrix instruction, an exchange) or of
// its workgroup (a barrier). It then hands over to the next lane of its wave. The lane that arrives last goes on, and
// the others follow in turn; so each lane is switched to once for each such operation, in the order of their numbers or
// backward. (What depends on that order lacks a barrier.) All lanes have to arrive at the same place of the program: if
// not, the run stops and names both places.
#pragma once
#include "system.h"

#ifndef XPAGED_WAVE
#error "define XPAGED_WAVE as the number of lanes of a wave"
#endif

namespace xpaged_host {

constexpr u32 WAVE = XPAGED_WAVE;
constexpr u32 MOST_THREADS = 1024;
constexpr u64 STACK = 31 * VM_PAGE, STACK_STEP = 32 * VM_PAGE;  // the rest stays unmapped: an overflow is a fault

static_assert(WAVE == 32 || WAVE == 64, "waves have 32 or 64 lanes");

// An operation that lanes wait at.
struct Place {
  const char* what;
  u64 pc;
  bool operator!=(const Place& other) const { return what != other.what || pc != other.pc; }
};

struct Wave {
  Place place;       // where the first lane to arrive stands
  u32 first;         // that lane
  u32 arrived;       // lanes that stand there
  u32 round;         // operations so far
  u32 resume;        // the thread that goes on when the wave does
  alignas(64) u8 operands[2][WAVE * 256];  // of this operation and of the last one, whose results may still be read
};

struct State {
  u32 thread;  // that runs now
  u32 threads, waves;
  u32 group;
  u32 lane_step, wave_step;  // to the next one, around
  Place place;  // where waves wait, and how many
  u32 waiting;
  Wave* wave;
  void* scheduler;
  void (*enter)(const u64* arguments);
  const u64* arguments;
  u8* stacks;
  void* stack[MOST_THREADS];  // where each lane's stack ends while it waits
  Wave every_wave[MOST_THREADS / WAVE];
};

inline State state;

// Saves what a function has to keep, and goes on where `to` was saved.
extern "C" void xpaged_switch(void** from, void* to);
asm(R"(
  .text
  .p2align 4
  .type xpaged_switch, @function
xpaged_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx   # the next lane stands at the same place as a rule, so this is predicted where a return is not
  .size xpaged_switch, . - xpaged_switch
)");

[[noreturn]] inline void diverged(Outcome outcome, Place here, u32 other_thread, Place there) {
  report->group = state.group;
  report->thread = state.thread;
  report->pc = here.pc;
  report->other_thread = other_thread;
  report->other_pc = there.pc;
  copy_text(report->other, there.what);
  stop(outcome, here.what);
}

// Wait until all lanes of the wave are here. True in the lane that comes last, at once.
inline bool meet(Place here) {
  State& s = state;
  Wave& wave = *s.wave;
  if (wave.arrived == 0) {
    wave.place = here;
    wave.first = s.thread;
  } else if (here != wave.place) {
    diverged(DIVERGED, here, wave.first, wave.place);
  }
  if (++wave.arrived == WAVE) {
    wave.arrived = 0;
    ++wave.round;
    return true;
  }
  const u32 from = s.thread;
  s.thread = (from & ~(WAVE - 1)) | ((from + s.lane_step) & (WAVE - 1));
  xpaged_switch(&s.stack[from], s.stack[s.thread]);
  return false;
}

// The same for whole waves: called by one lane of each, which then stands for its wave.
inline bool meet_waves(Place here) {
  State& s = state;
  if (s.waiting == 0) {
    s.place = here;
  } else if (here != s.place) {
    const u32 before = (u32)(s.wave - s.every_wave) + s.waves - s.wave_step;  // it ran before this one, and waits there
    diverged(BLOCK_DIVERGED, here, s.every_wave[before % s.waves].resume, s.place);
  }
  s.wave->resume = s.thread;
  if (++s.waiting == s.waves) {
    s.waiting = 0;
    return true;
  }
  const u32 from = s.thread;
  s.wave = &s.every_wave[((u32)(s.wave - s.every_wave) + s.wave_step) % s.waves];
  s.thread = s.wave->resume;
  xpaged_switch(&s.stack[from], s.stack[s.thread]);
  return false;
}

// Operands of the operation that the wave comes to next: one of `T` for all lanes.
template <class T> inline T& operands() {
  static_assert(sizeof(T) <= sizeof(Wave::operands[0]), "operands too large");
  return *(T*)state.wave->operands[state.wave->round & 1];
}

inline u32 lane() { return state.thread % WAVE; }

// The life of a lane.
inline void live() {
  state.enter(state.arguments);
  const Place end = {"the end of the kernel", 0};
  if (meet(end) && meet_waves(end)) xpaged_switch(&state.stack[state.thread], state.scheduler);
  __builtin_unreachable();
}

// Where a lane that has not begun is switched to: with the stack as behind a call.
inline void* begin(u32 thread) {
  u8* top = state.stacks + (thread + 1) * STACK_STEP - thread % 16 * 192;  // neighbours use different cache lines
  void** words = (void**)top;
  *--words = nullptr;  // returned to by nobody
  *--words = (void*)live;
  for (int i = 0; i < 6; ++i) *--words = nullptr;
  return words;
}

inline void run_group(u32 group) {
  State& s = state;
  s.group = group;
  s.waiting = 0;
  for (u32 i = 0; i < s.threads; ++i) s.stack[i] = begin(i);
  for (u32 i = 0; i < s.waves; ++i) {
    s.every_wave[i].arrived = s.every_wave[i].round = 0;
    s.every_wave[i].resume = i * WAVE + (s.lane_step == 1 ? 0 : WAVE - 1);
  }
  s.wave = &s.every_wave[s.wave_step == 1 ? 0 : s.waves - 1];
  s.thread = s.wave->resume;
  xpaged_switch(&s.scheduler, s.stack[s.thread]);
}

}  // namespace xpaged_host
