/* SPDX-License-Identifier: Apache-2.0
 *
 * Mapped files that become shorter while they are read: the kernel answers
 * with SIGBUS, which would end the program without a word. A thread that reads
 * says so beforehand and comes back to that place. Signals are the process's,
 * so this is the one thing here that is global: the handler is put back where
 * somebody else has set one since, and passes on whatever is not ours. */
#include "guard.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

static _Thread_local struct io_guard *volatile inner;
static struct sigaction before;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void on_bus(int number, siginfo_t *info, void *context)
{
    struct io_guard *g = inner;

    (void)context;
    if (!g) { /* happens again, with the old handler */
        sigaction(number, &before, NULL);
        return;
    }
    inner = g->outer;
    g->at = info->si_addr;
    siglongjmp(g->jump, 1);
}

static bool is_ours(const struct sigaction *a)
{
    return (a->sa_flags & SA_SIGINFO) && a->sa_sigaction == on_bus;
}

void io_guard_install(void)
{
    struct sigaction a = {.sa_sigaction = on_bus,
                          .sa_flags = SA_SIGINFO | SA_NODEFER},
                     now;

    if (sigaction(SIGBUS, NULL, &now) == 0 && is_ours(&now))
        return;
    sigemptyset(&a.sa_mask);
    pthread_mutex_lock(&lock);
    if (sigaction(SIGBUS, NULL, &now) == 0 && !is_ours(&now)) {
        before = now;
        sigaction(SIGBUS, &a, NULL);
    }
    pthread_mutex_unlock(&lock);
}

void io_guard_begin(struct io_guard *g)
{
    io_guard_install();
    io_guard_push(g);
}

void io_guard_push(struct io_guard *g)
{
    g->outer = inner;
    inner = g;
}

void io_guard_end(const struct io_guard *g)
{
    inner = g->outer;
}

const char *io_file_at(const pdl_io *io, const void *at)
{
    const char *p = at;

    for (int i = 0; i < io->nfiles; i++)
        if (p >= io->file[i].bytes.data &&
            p < io->file[i].bytes.data + io->file[i].bytes.len)
            return io->file[i].path;
    return io->path;
}

enum pdl_status io_guard_fail(const pdl_io *io, const struct io_guard *g,
                              struct pdl_err *err)
{
    return io_guard_shorter(io_file_at(io, g->at), err);
}

enum pdl_status io_guard_shorter(const char *path, struct pdl_err *err)
{
    struct stat sb;

    if (stat(path, &sb) != 0)
        return pdl_fail(err, PDL_EIO, "%s: cannot be read any more", path);
    return pdl_fail(err, PDL_EIO,
                    "%s: has become shorter while it was read (%lld bytes now)",
                    path, (long long)sb.st_size);
}
