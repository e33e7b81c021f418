/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of one machine without MPI: ranks of a PyTorch job, for instance.
 * They meet in a file of /dev/shm whose name they know. Rank 0 makes it; when
 * all have come the name goes, and the file with the last process. */
#include "comm_core.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 1024, MOST_NAME = 80 };

struct meeting {
    pdl_comm *c;
    char name[MOST_NAME + 16];
    int64_t bytes;
    struct comm_area *area;
    double until_s;
};

static enum pdl_status check(const char *name, int rank, int size,
                             struct pdl_err *err)
{
    size_t n = strlen(name);

    if (size < 1 || size > MOST_RANKS || rank < 0 || rank >= size)
        return pdl_fail(err, PDL_EINVAL, "rank %d of %d: up to %d ranks", rank,
                        size, MOST_RANKS);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("-_", name[i]))
            n = 0;
    return n > 0 && n <= MOST_NAME
               ? PDL_OK
               : pdl_fail(err, PDL_EINVAL,
                          "'%.40s' is no name of letters, digits, - and _",
                          name);
}

/* Waits a moment; false: too long. */
static bool patient(const struct meeting *m)
{
    static const struct timespec nap = {0, 1000000};

    nanosleep(&nap, NULL);
    return pdl_clock_s() < m->until_s;
}

static enum pdl_status late(const struct meeting *m, const char *what,
                            struct pdl_err *err)
{
    return pdl_fail(err, PDL_ENOENV, "%s: %s after %.3g s", m->name + 1, what,
                    m->c->timeout_s);
}

static enum pdl_status map(struct meeting *m, int fd, struct pdl_err *err)
{
    void *p =
        mmap(NULL, (size_t)m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    close(fd);
    if (p == MAP_FAILED)
        return pdl_fail(err, PDL_ENOENV, "%s: %s", m->name, strerror(errno));
    m->area = p;
    return PDL_OK;
}

static enum pdl_status host(struct meeting *m, int n, struct pdl_err *err)
{
    int fd = comm_shared_open(m->name, m->bytes, m->c->note, sizeof m->c->note);
    enum pdl_status st;

    if (fd < 0)
        return pdl_fail(err, PDL_ENOENV, "%s: %s", m->name + 1, m->c->note);
    st = map(m, fd, err);
    if (st != PDL_OK) {
        shm_unlink(m->name);
        return st;
    }
    comm_area_init(m->area, n, true);
    atomic_store(&m->area->ready, 1);
    return PDL_OK;
}

/* The file comes, then its room, then what is in it. */
static enum pdl_status come(struct meeting *m, struct pdl_err *err)
{
    struct stat sb = {.st_size = 0};
    enum pdl_status st;
    int fd;

    while ((fd = shm_open(m->name, O_RDWR | O_CLOEXEC, 0600)) < 0)
        if (!patient(m))
            return late(m, "rank 0 has not come", err);
    while (fstat(fd, &sb) == 0 && sb.st_size < m->bytes)
        if (!patient(m))
            break;
    if (sb.st_uid != geteuid() || sb.st_size != m->bytes) {
        close(fd);
        return pdl_fail(err, PDL_ENOENV, "%s: not made by rank 0 of this job",
                        m->name + 1);
    }
    st = map(m, fd, err);
    while (st == PDL_OK && !atomic_load(&m->area->ready))
        if (!patient(m))
            st = late(m, "rank 0 is not ready", err);
    return st;
}

static enum pdl_status wait_for(const struct meeting *m, int count,
                                struct pdl_err *err)
{
    while (atomic_load(&m->area->joined) < count)
        if (!patient(m))
            return late(m, "not all ranks have come", err);
    return PDL_OK;
}

/* All show a word, each tries its neighbour's; the answer is one for all. */
static enum pdl_status try_reach(struct meeting *m, struct pdl_err *err)
{
    pdl_comm *c = m->c;
    struct comm_seat *s = comm_area_seat(m->area, c->rank);
    uint64_t word = (uint64_t)(uint32_t)getpid() * 3 + 1;
    enum pdl_status st;

    s->pid = getpid();
    s->probe = (uintptr_t)&word;
    atomic_fetch_add(&m->area->joined, 1);
    st = wait_for(m, c->size, err);
    if (c->rank == 0)
        shm_unlink(m->name);
    if (st != PDL_OK)
        return st;
    if (comm_cma_works(c, (c->rank + 1) % c->size))
        atomic_fetch_add(&m->area->reached, 1);
    atomic_fetch_add(&m->area->joined, 1);
    st = wait_for(m, 2 * c->size, err);
    c->cma = atomic_load(&m->area->reached) == c->size;
    if (!c->cma)
        snprintf(c->note, sizeof c->note,
                 "another process's memory may not be read here: long messages "
                 "are copied twice");
    return st;
}

static bool crowded(int n)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 && n > CPU_COUNT(&set);
}

static enum pdl_status join(struct meeting *m, struct pdl_err *err)
{
    pdl_comm *c = m->c;
    enum pdl_status st = c->rank == 0 ? host(m, c->size, err) : come(m, err);

    if (st == PDL_OK)
        st = comm_sit(c, m->area, c->size, NULL, err);
    else
        comm_shared_unmap(m->area, m->bytes);
    if (st != PDL_OK)
        return st;
    c->mapped = true;
    c->nodes = 1;
    c->crowded = crowded(c->size);
    st = try_reach(m, err);
    if (st == PDL_OK)
        st = comm_settle_reach(c, err);
    if (st == PDL_OK && c->progress)
        st = comm_engine_start(c, err);
    return st;
}

enum pdl_status pdl_comm_create_shared(const char *name, int rank, int size,
                                       const struct pdl_comm_options *opt,
                                       pdl_comm **out, struct pdl_err *err)
{
    struct meeting m = {.bytes = comm_area_bytes(size > 0 ? size : 1, true)};
    enum pdl_status st = check(name, rank, size, err);

    if (st == PDL_OK)
        m.c = comm_begin(rank, size, opt, &st, err);
    if (st != PDL_OK)
        return st;
    snprintf(m.name, sizeof m.name, "/paradl-%s", name);
    m.until_s = pdl_clock_s() + m.c->timeout_s;
    st = join(&m, err);
    if (st == PDL_OK)
        *out = m.c;
    else
        pdl_comm_destroy(m.c);
    return st;
}
