/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for another rank. With a processor for every rank the answer comes
 * within a microsecond, and looking again at once is fastest; with fewer, the
 * one that is waited for needs this processor, so give way at once. Either
 * way somebody who waits long must not eat what the others compute with, and
 * must find out when the other will never answer. */
#include "comm_core.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

enum {
    SPIN = 4096,  /* turns that only look again: some 20 us */
    YIELD = 8192, /* turns until it sleeps between looks */
    CHECK = 64,   /* turns between looks at the clock */
    BRIEF = 64,   /* turns of giving way before a rank sleeps, if it may */
};

enum pdl_status comm_usable(const pdl_comm *c, struct pdl_err *err)
{
    if (!*c->broken)
        return PDL_OK;
    pdl_say(err, "this communicator is broken: %s", c->broken);
    pdl_hint(err, "destroy it and create another");
    return PDL_ENOENV;
}

enum pdl_status comm_break(pdl_comm *c, struct pdl_err *err, const char *fmt,
                           ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(c->broken, sizeof c->broken, fmt, ap);
    va_end(ap);
    if (c->area) {
        atomic_store(&c->area->broken, c->rank + 1);
        comm_ring_all(c);
    }
    return pdl_fail(err, PDL_ENOENV, "rank %d of %d: %s", c->rank, c->size,
                    c->broken);
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* A rank of this node whose process is gone: its number, or -1. */
static int lost_rank(pdl_comm *c)
{
    for (int i = 0; i < c->node_size; i++) {
        int pid = comm_area_seat(c->area, i)->pid;

        if (i != c->node_rank && pid > 0 && kill(pid, 0) < 0 && errno == ESRCH)
            return c->rank_of_seat[i];
    }
    return -1;
}

static enum pdl_status look_around(pdl_comm *c, struct comm_patience *p,
                                   const char *what, struct pdl_err *err)
{
    double now = pdl_clock_s();
    int who;

    if (p->since_s == 0)
        p->since_s = now;
    if (c->area) {
        who = atomic_load(&c->area->broken);
        if (who > 0)
            return comm_break(c, err, "%s: rank %d gave up", what, who - 1);
        who = comm_may_sleep(c) || p->turns % ((int64_t)64 * CHECK) == 0
                  ? lost_rank(c)
                  : -1;
        if (who >= 0)
            return comm_break(c, err, "%s: the process of rank %d is gone",
                              what, who);
    }
    if (now - p->since_s > c->timeout_s)
        return comm_break(c, err, "%s: no answer within %g s", what,
                          c->timeout_s);
    return PDL_OK;
}

enum pdl_status comm_wait_turn(pdl_comm *c, struct comm_patience *p,
                               const char *what, struct pdl_err *err)
{
    static const struct timespec nap = {0, 50000};

    if (p->moves != c->moves) {
        p->turns = 0;
        p->moves = c->moves;
        p->since_s = 0;
    }
    p->turns++;
    if (comm_may_sleep(c) && (p->is_long || p->turns > BRIEF))
        return comm_listen(c, p) ? PDL_OK : look_around(c, p, what, err);
    if (!c->crowded && p->turns < SPIN)
        relax();
    else if (p->turns < YIELD)
        sched_yield();
    else
        nanosleep(&nap, NULL);
    if (p->turns % CHECK == 0)
        return look_around(c, p, what, err);
    return PDL_OK;
}
