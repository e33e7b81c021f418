/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that the processes of a node share: a file in /dev/shm that has no
 * name any more when it is in use, so that it goes with its last process.
 * Room is reserved before anyone touches it: without that a full /dev/shm is
 * a SIGBUS in the middle of a collective.
 *
 * A window is such memory with a part for every rank. A place in it is its
 * number and an offset, the same for all; every process knows where it has it.
 * The list of windows is shared by a communicator and those made from it. */
#include "comm_core.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- shared memory ---------------------------------------------------- */

int comm_shared_open(const char *name, int64_t bytes, char *why, size_t size)
{
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc = fd < 0 ? errno : posix_fallocate(fd, 0, bytes);

    if (rc == 0)
        return fd;
    snprintf(why, size, "no shared memory of %.1f MiB: %s",
             (double)bytes / 1048576, strerror(rc));
    if (fd >= 0) {
        close(fd);
        shm_unlink(name);
    }
    return -1;
}

static bool all_say(MPI_Comm node, bool yes)
{
    int mine = yes, all = 0;

    if (MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, node) != MPI_SUCCESS)
        return false;
    return all;
}

void *comm_shared_map(MPI_Comm node, int64_t bytes, char *why, size_t size)
{
    char name[64];
    int rank = 0, fd = -1;
    void *p = MAP_FAILED;

    MPI_Comm_rank(node, &rank);
    if (rank == 0) {
        snprintf(name, sizeof name, "/paradl-%d-%llx", (int)getpid(),
                 (unsigned long long)(pdl_clock_s() * 1e9));
        fd = comm_shared_open(name, bytes, why, size);
        if (fd < 0)
            name[0] = '\0';
    }
    if (MPI_Bcast(name, sizeof name, MPI_CHAR, 0, node) != MPI_SUCCESS)
        name[0] = '\0';
    if (rank > 0 && name[0])
        fd = shm_open(name, O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                 0);
    if (fd >= 0)
        close(fd);
    if (!all_say(node, p != MAP_FAILED)) {
        if (p != MAP_FAILED)
            munmap(p, (size_t)bytes);
        p = MAP_FAILED;
        if (!*why)
            snprintf(why, size, "another rank has no shared memory");
    }
    if (rank == 0 && name[0])
        shm_unlink(name);
    return p == MAP_FAILED ? NULL : p;
}

void comm_shared_unmap(void *p, int64_t bytes)
{
    if (p)
        munmap(p, (size_t)bytes);
}

/* ---- windows ---------------------------------------------------------- */

struct window {
    uint64_t id; /* the same in all its processes; never 0 */
    char *base, *mine;
    int64_t bytes;
    int n;
    int32_t *pids; /* the processes that have it */
    struct window *next;
};

struct comm_windows {
    pthread_mutex_t lock;
    int users;
    struct window *first;
};

struct comm_windows *comm_windows_create(void)
{
    struct comm_windows *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    pthread_mutex_init(&w->lock, NULL);
    w->users = 1;
    return w;
}

struct comm_windows *comm_windows_share(struct comm_windows *w)
{
    pthread_mutex_lock(&w->lock);
    w->users++;
    pthread_mutex_unlock(&w->lock);
    return w;
}

static void close_window(struct window *x)
{
    comm_shared_unmap(x->base, x->bytes);
    free(x->pids);
    free(x);
}

void comm_windows_drop(struct comm_windows *w)
{
    struct window *x;
    int left;

    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    left = --w->users;
    pthread_mutex_unlock(&w->lock);
    if (left > 0)
        return;
    while ((x = w->first)) {
        w->first = x->next;
        close_window(x);
    }
    pthread_mutex_destroy(&w->lock);
    free(w);
}

/* Do all ranks of c's node have this window? */
static bool known_to_all(const pdl_comm *c, const struct window *x)
{
    for (int i = 0; i < c->node_size; i++) {
        int pid = comm_area_seat(c->area, i)->pid, k = 0;

        while (k < x->n && x->pids[k] != pid)
            k++;
        if (k == x->n)
            return false;
    }
    return true;
}

struct comm_place comm_place_of(const pdl_comm *c, const void *p, int64_t bytes)
{
    struct comm_place at = {0, (uintptr_t)p};

    if (!c->windows || !c->windows->first)
        return at;
    pthread_mutex_lock(&c->windows->lock);
    for (const struct window *x = c->windows->first; x; x = x->next)
        if ((uintptr_t)p >= (uintptr_t)x->base &&
            (uintptr_t)p + (uint64_t)bytes <=
                (uintptr_t)x->base + (uint64_t)x->bytes &&
            known_to_all(c, x)) {
            at.window = x->id;
            at.at = (uintptr_t)p - (uintptr_t)x->base;
        }
    pthread_mutex_unlock(&c->windows->lock);
    return at;
}

char *comm_place_here(const pdl_comm *c, struct comm_place at)
{
    char *here = NULL;

    if (!c->windows)
        return NULL;
    pthread_mutex_lock(&c->windows->lock);
    for (const struct window *x = c->windows->first; x; x = x->next)
        if (x->id == at.window)
            here = x->base + at.at;
    pthread_mutex_unlock(&c->windows->lock);
    return here;
}

/* ---- the public calls ------------------------------------------------- */

static int64_t page_up(int64_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

static enum pdl_status plain_memory(int64_t bytes, void **out,
                                    struct pdl_err *err)
{
    void *p = aligned_alloc(4096, (size_t)page_up(bytes + 1));

    if (!p)
        return pdl_fail(err, PDL_ENOMEM, "no memory for a buffer");
    *out = p;
    return PDL_OK;
}

/* What one rank tells the others about the window they make. */
struct share {
    int64_t bytes;
    uint64_t id; /* the first rank's */
    int32_t pid;
};

static void drop_window(struct window *x)
{
    if (x)
        free(x->pids);
    free(x);
}

/* How large the parts are, and whose. */
static bool gather_shares(pdl_comm *c, int64_t bytes, struct share *all)
{
    struct share mine = {
        page_up(bytes + 1),
        (uint64_t)getpid() << 32 | (uint32_t)(pdl_clock_s() * 1e6), getpid()};

    return MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine,
                         MPI_BYTE, c->node) == MPI_SUCCESS;
}

/* A window with a part for every rank; NULL: not to be had. */
static struct window *make_window(pdl_comm *c, int64_t bytes)
{
    struct share *all = calloc((size_t)c->node_size, sizeof *all);
    struct window *x = calloc(1, sizeof *x);
    int64_t before = 0;

    if (x)
        x->pids = calloc((size_t)c->node_size, sizeof *x->pids);
    if (!all_say(c->node, all && x && x->pids) || !all || !x || !x->pids ||
        !gather_shares(c, bytes, all)) {
        drop_window(x);
        free(all);
        return NULL;
    }
    for (int i = 0; i < c->node_size; i++) {
        if (i == c->node_rank)
            before = x->bytes;
        x->bytes += all[i].bytes;
        x->pids[i] = all[i].pid;
    }
    x->id = all[0].id | 1;
    free(all);
    x->base = comm_shared_map(c->node, x->bytes, c->note, sizeof c->note);
    if (!x->base) {
        drop_window(x);
        return NULL;
    }
    x->n = c->node_size;
    x->mine = x->base + before;
    return x;
}

enum pdl_status pdl_comm_alloc(pdl_comm *c, int64_t bytes, void **out,
                               struct pdl_err *err)
{
    enum pdl_status st = comm_usable(c, err);
    struct window *x;

    if (st != PDL_OK)
        return st;
    if (bytes < 0 || bytes > (int64_t)1 << 46)
        return pdl_fail(err, PDL_EINVAL, "a buffer of that many bytes");
    if (c->node == MPI_COMM_NULL || !c->area || c->node_size < 2)
        return plain_memory(bytes, out, err);
    x = make_window(c, bytes);
    if (!x)
        return plain_memory(bytes, out, err);
    pthread_mutex_lock(&c->windows->lock);
    x->next = c->windows->first;
    c->windows->first = x;
    pthread_mutex_unlock(&c->windows->lock);
    *out = x->mine;
    return PDL_OK;
}

enum pdl_status pdl_comm_free(pdl_comm *c, void *buffer, struct pdl_err *err)
{
    struct window **at, *x = NULL;

    (void)err;
    if (!buffer)
        return PDL_OK;
    if (c->windows) {
        pthread_mutex_lock(&c->windows->lock);
        at = &c->windows->first;
        while (*at && (*at)->mine != (char *)buffer)
            at = &(*at)->next;
        x = *at;
        if (x)
            *at = x->next;
        pthread_mutex_unlock(&c->windows->lock);
    }
    if (x)
        close_window(x);
    else
        free(buffer);
    return PDL_OK;
}
