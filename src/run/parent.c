/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank does not outlive who started it: kill -9 of paradl, or of mpirun,
 * leaves nobody who could tell the ranks to stop. A thread waits for the
 * parent's end (a pidfd, Linux 5.3; PR_SET_PDEATHSIG would fire at the end of
 * a mere thread of mpirun) and ends the process. One that a shell started may
 * outlive that, as any program may. The same thread waits for paradl to close
 * the pipe by which it asks for a stop without mpirun (cli/.../supervise.c). */
#include "run_priv.h"

#include <fcntl.h>
#include <limits.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                    "PMIX_RANK", "SLURM_PROCID"};

const char *run_rank(void)
{
    const char *rank = NULL;

    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0] && !rank; i++)
        rank = getenv(ranks[i]);
    return rank;
}

/* Each process would be the only rank of a run of its own. */
void run_same_mpi(void)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    struct pdl_err err = {"", ""};
    int world, len;

    MPI_Comm_size(MPI_COMM_WORLD, &world);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const char *said = getenv(sizes[i]);

        if (world > 1 || !said || strtol(said, NULL, 10) < 2)
            continue;
        MPI_Get_library_version(version, &len);
        version[strcspn(version, ",\n\t")] = '\0';
        pdl_fail(&err, PDL_ENOENV,
                 "started as %.12s ranks by another MPI than this program's",
                 said);
        pdl_hint(&err, "this is built with %.60s: use its mpirun", version);
        run_fail_all(PDL_ENOENV, &err);
        MPI_Finalize();
        exit(run_exit_code(PDL_ENOENV));
    }
}

/* ---- asked to stop ------------------------------------------------------ */

static volatile int stop_asked;

static void on_signal(int number)
{
    (void)number;
    stop_asked = 1;
}

static void *listen_for_signals(void *none)
{
    for (;;)
        pause();
    return none;
}

/* Threads that compute must not be interrupted: oneDNN 2.6's product of float32
 * matrices has its stack pointer in a buffer of the heap, and what the kernel
 * puts there for a handler lands in whatever lies before that buffer. So they
 * all have these signals blocked (threads inherit it), but for one that does
 * nothing else. */
void run_catch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGUSR1};
    /* restarted: a line half written is written to its end */
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    pthread_t thread;
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigaction(numbers[i], &a, NULL);
        sigaddset(&set, numbers[i]);
    }
    if (pthread_create(&thread, NULL, listen_for_signals, NULL) != 0)
        return; /* better than not to hear of them */
    pthread_detach(thread);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

const volatile int *run_stop_asked(void)
{
    return &stop_asked;
}

/* ---- the parent --------------------------------------------------------- */

/* The pipe of paradl; -1: there is none on this machine. */
static int open_asked(char *stop, size_t size)
{
    const char *path = getenv("PARADL_ASKED");

    if (!path || snprintf(stop, size, "%s.stop", path) >= (int)size)
        return -1;
    return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

static int pidfd_of(pid_t pid)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    (void)pid;
    return -1;
#endif
}

static void *watch(void *arg)
{
    enum { LOOK_MS = 250 }; /* where the parent's end wakes nobody */
    pid_t parent = *(pid_t *)arg;
    char stop[PATH_MAX] = "";
    struct pollfd p[2] = {{.fd = pidfd_of(parent), .events = POLLIN},
                          {.fd = open_asked(stop, sizeof stop)}};

    free(arg);
    if (p[1].fd >= 0 && access(stop, F_OK) == 0)
        stop_asked = 1; /* before this rank was there */
    while (getppid() == parent) {
        (void)poll(p, 2, p[0].fd >= 0 ? -1 : LOOK_MS);
        if (!(p[1].revents & (POLLHUP | POLLERR)))
            continue;
        if (access(stop, F_OK) != 0)
            break; /* paradl is gone */
        stop_asked = 1;
        p[1] = (struct pollfd){.fd = -1};
    }
    kill(getpid(), SIGKILL);
    return NULL;
}

void run_watch_parent(void)
{
    const char *starter = getenv("PARADL_PARENT");
    pid_t *parent = malloc(sizeof *parent);
    sigset_t all, old;
    pthread_t thread;

    if (!parent || (!starter && !run_rank())) {
        free(parent);
        return;
    }
    *parent = getppid();
    if (!run_rank() && starter && strtol(starter, NULL, 10) != (long)*parent)
        *parent = 0;  /* it is already gone */
    sigfillset(&all); /* signals are for the threads that look at them */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    if (pthread_create(&thread, NULL, watch, parent) == 0)
        pthread_detach(thread);
    else
        free(parent);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}
