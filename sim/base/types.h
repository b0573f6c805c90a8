// SPDX-License-Identifier: Apache-2.0
/* Fixed-width types and the few macros that every layer shares. No state, no errors. */
#ifndef DS_BASE_TYPES_H
#define DS_BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DS_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define DS_NS_PER_S 1000000000LL
#define DS_NS_PER_MS 1000000LL
#define DS_NAME_MAX 64 /* bytes of a name, with its terminating zero */
#define DS_TIME_NEVER INT64_MAX

#if defined(__GNUC__) || defined(__clang__)
#define DS_LIKELY(x) __builtin_expect(!!(x), 1)
#define DS_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define DS_ALWAYS_INLINE inline __attribute__((always_inline))
#define DS_APART __attribute__((noinline)) /* keeps what is rare out of a hot function, with the registers it needs */
#else
#define DS_LIKELY(x) (x)
#define DS_UNLIKELY(x) (x)
#define DS_ALWAYS_INLINE inline
#define DS_APART
#endif

/* A broken invariant is a bug of ours, never of the input: stop at once in checking builds. */
#ifdef DS_CHECKING
#define DS_ASSERT(cond)                                                                            \
  do {                                                                                             \
    if (!(cond)) __builtin_trap();                                                                 \
  } while (0)
#else
#define DS_ASSERT(cond) ((void)0)
#endif

#endif
