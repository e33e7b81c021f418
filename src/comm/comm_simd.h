/* Loops that are compiled for several instruction sets, of which the
 * processor's best is taken when the program is loaded. The work of such a
 * function must be in its own body or in INLINE functions. */
#ifndef COMM_SIMD_H
#define COMM_SIMD_H

/* GCC and clang from 14 make the copies; ThreadSanitizer cannot be called as
 * early as the choice is made. */
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define MANY_TARGETS \
    __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MANY_TARGETS
#endif
#define INLINE static inline __attribute__((always_inline))

#endif
