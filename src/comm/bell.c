/* SPDX-License-Identifier: Apache-2.0
 *
 * Sleeping until another rank has something for this one, where ranks share
 * processors. A rank that waits there keeps from its processor the very rank
 * that it waits for. Giving way (sched_yield) does not help reliably: it is
 * the scheduler's choice who runs next, the ranks that wait take turns with
 * each other before the one that has work, and on a machine with other load
 * every turn given away is a whole time slice of somebody else's. A rank that
 * sleeps is out of the way, and is scheduled soon after it is woken, because it
 * has used little.
 *
 * Every seat has a bell, a word that others count up after they have changed
 * something this rank may wait for. A rank remembers the bell, looks at what it
 * waits for, and sleeps only if the bell is still the same (futex(2)): what is
 * changed in between is not missed. Points where all ranks meet are counted,
 * so that only the last one wakes the others.
 *
 * Only where all ranks of the communicator are in one area: a rank that waits
 * for MPI messages must look for them itself. */
#include "comm_core.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

bool comm_may_sleep(const pdl_comm *c)
{
    return c->crowded && c->area && c->node_size == c->size;
}

static void wake(struct comm_seat *s)
{
    atomic_fetch_add(&s->bell, 1);
    if (atomic_load(&s->asleep))
        syscall(SYS_futex, &s->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void comm_ring(const pdl_comm *c, int seat)
{
    if (comm_may_sleep(c))
        wake(comm_area_seat(c->area, seat));
}

void comm_ring_all(const pdl_comm *c)
{
    if (!comm_may_sleep(c))
        return;
    for (int i = 1; i < c->node_size; i++)
        wake(comm_area_seat(c->area, (c->node_rank + i) % c->node_size));
}

void comm_meet(const pdl_comm *c)
{
    if (comm_may_sleep(c) &&
        (atomic_fetch_add(&c->area->met, 1) + 1) % (uint64_t)c->node_size == 0)
        comm_ring_all(c);
}

bool comm_listen(const pdl_comm *c, struct comm_patience *p)
{
    static const struct timespec nap = {0, 5000000};
    struct comm_seat *s = comm_area_seat(c->area, c->node_rank);
    uint32_t now = atomic_load(&s->bell);
    long rc;

    if (!p->listens || now != p->bell) { /* look once more first */
        p->listens = true;
        p->bell = now;
        return true;
    }
    atomic_store(&s->asleep, 1);
    rc = syscall(SYS_futex, &s->bell, FUTEX_WAIT, now, &nap, NULL, 0);
    atomic_store(&s->asleep, 0);
    p->bell = atomic_load(&s->bell);
    return rc == 0 || p->bell != now;
}
