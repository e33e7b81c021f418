/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop on several threads. Which thread runs which index is left open, so a
 * body writes only to what belongs to its index; then the result does not
 * depend on the number of threads. */
#include "base_priv.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MAX_THREADS = 256 };

struct loop {
    atomic_int_fast64_t next;
    atomic_bool stop;
    int64_t n;
    bool (*body)(void *ctx, int64_t i);
    void *ctx;
};

static void *work(void *arg)
{
    struct loop *l = arg;
    int64_t i;

    while (!atomic_load(&l->stop) && (i = atomic_fetch_add(&l->next, 1)) < l->n)
        if (!l->body(l->ctx, i))
            atomic_store(&l->stop, true);
    return NULL;
}

int pdl_cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int)n;
}

bool pdl_parallel(int64_t n, int threads, bool (*body)(void *ctx, int64_t i),
                  void *ctx)
{
    struct loop l = {.n = n, .body = body, .ctx = ctx};
    pthread_t thread[MAX_THREADS];
    int want = threads > 0 ? threads : pdl_cores(), started = 0;

    if (want > MAX_THREADS)
        want = MAX_THREADS;
    if (want > n)
        want = n < 1 ? 1 : (int)n;
    while (started < want - 1 &&
           pthread_create(&thread[started], NULL, work, &l) == 0)
        started++; /* fewer threads than wished for are only slower */
    work(&l);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    return !atomic_load(&l.stop);
}
