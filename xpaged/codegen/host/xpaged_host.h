// Makes the text of a HIP kernel, unchanged, a program for the CPU: include this, then the text, then entry.h.
//
// XPAGED_WAVE is the number of lanes of a wave. The matrix instructions are not in here: they are written by build.py
// from the table of architectures.
#pragma once
#include "system.h"
#include "floats.h"
#include "lanes.h"
#include "builtins.h"

// The text may ask which of the newer builtins there are. It takes the forms that a new compiler takes.
#undef __has_builtin
#define __has_builtin(name) xpaged_has_##name
#define xpaged_has___builtin_amdgcn_exp2f 1
#define xpaged_has___builtin_amdgcn_sched_barrier 1

// All memory is one, and every function is a host function.
#define address_space(number)
#define amdgpu_flat_work_group_size(least, most)
#define amdgpu_waves_per_eu(...)
