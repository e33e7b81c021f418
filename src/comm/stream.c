/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies into memory that another core will read next. Where the two cores
 * share a cache the copy should stay in it. Where they do not, fetching each
 * line from the other core's cache costs more than memory does, and stores
 * that go past the cache are up to four times faster (measured on Zen 4: 64
 * KiB through a stage in 10 us instead of 33). Which of the two it is depends
 * on where the ranks run, and on virtual machines that changes while they run;
 * so both are timed as they are used, for each size, and the better one is
 * taken. Only the writer decides, so ranks need not agree. Vectors of ordinary
 * memory go through stages or by the kernel (CMA) in the same way; there rank 0
 * decides for all. */
#include "comm_core.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    LOOK_AGAIN = 32, /* uses between tries of the other way */
    TRIES = 8,       /* uses in turn, at first: one may hit cold memory, or
                        another choice below it that is still being tried */
};

void comm_stream_copy(void *restrict to, const void *restrict from, int64_t n)
{
    char *t = to;
    const char *f = from;

#if defined(__SSE2__)
    int64_t head = (int64_t)(-(uintptr_t)t & 15);

    if (n >= 256) {
        memcpy(t, f, (size_t)head);
        t += head;
        f += head;
        n -= head;
        for (; n >= 64; n -= 64, t += 64, f += 64)
            for (int i = 0; i < 64; i += 16)
                _mm_stream_si128(
                    (__m128i *)(void *)(t + i),
                    _mm_loadu_si128((const __m128i *)(const void *)(f + i)));
        _mm_sfence();
    }
#endif
    if (n > 0)
        memcpy(t, f, (size_t)n);
}

/* By the logarithm of the size. */
static struct comm_habit *habit(pdl_comm *c, enum comm_habits what,
                                int64_t bytes)
{
    int i = 0;

    while (bytes >>= 1)
        i++;
    return &c->habit[what][i < COMM_HABITS ? i : COMM_HABITS - 1];
}

/* Choices that are made in one operation are tried each with each. */
static int apart(enum comm_habits what)
{
    return what < COMM_MOVE_IN                       ? 0
           : what % 3 == (unsigned)COMM_MOVE_IN % 3  ? 1
           : what % 3 == (unsigned)COMM_MOVE_OUT % 3 ? 2
                                                     : 0;
}

bool comm_habit_choose(pdl_comm *c, enum comm_habits what, int64_t bytes)
{
    struct comm_habit *h = habit(c, what, bytes);
    bool better = h->seconds[1] < h->seconds[0];

    h->uses++;
    if (h->uses <= TRIES)
        return h->uses >> apart(what) & 1;
    return h->uses % LOOK_AGAIN == 0 ? !better : better;
}

void comm_habit_learn(pdl_comm *c, enum comm_habits what, int64_t bytes,
                      bool second, double seconds)
{
    struct comm_habit *h = habit(c, what, bytes);
    double *known = &h->seconds[second];

    if (*known == 0 || h->uses <= 2 || seconds < *known)
        *known = seconds;
    else /* slowly: one slow turn may be anybody's fault */
        *known += (seconds < 4 * *known ? seconds - *known : *known) / 8;
}
