/* SPDX-License-Identifier: Apache-2.0
 *
 * Cross memory attach: the kernel copies between two processes of one user,
 * in one pass and without either preparing anything (process_vm_readv, Linux
 * 3.2). It may be forbidden: by seccomp in containers, by Yama's ptrace_scope,
 * across user namespaces. So it is tried before it is used. */
#include "comm_core.h"

#include <errno.h>
#include <sys/uio.h>

char *comm_scratch(pdl_comm *c)
{
    if (!c->scratch)
        c->scratch = aligned_alloc(4096, COMM_SCRATCH);
    return c->scratch;
}

static enum pdl_status refused(pdl_comm *c, int seat, const char *call,
                               struct pdl_err *err)
{
    return comm_break(c, err, "%s of rank %d: %s", call, c->rank_of_seat[seat],
                      strerror(errno));
}

enum pdl_status comm_cma_read(pdl_comm *c, int seat, void *to, uint64_t from,
                              int64_t bytes, struct pdl_err *err)
{
    int pid = comm_area_seat(c->area, seat)->pid;

    while (bytes > 0) {
        struct iovec here = {to, (size_t)bytes};
        struct iovec there = {(void *)(uintptr_t)from, (size_t)bytes};
        ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);

        if (n <= 0)
            return refused(c, seat, "process_vm_readv", err);
        to = (char *)to + n;
        from += (uint64_t)n;
        bytes -= n;
    }
    return PDL_OK;
}

enum pdl_status comm_cma_write(pdl_comm *c, int seat, uint64_t to,
                               const void *from, int64_t bytes,
                               struct pdl_err *err)
{
    int pid = comm_area_seat(c->area, seat)->pid;

    while (bytes > 0) {
        struct iovec here = {(void *)(uintptr_t)from, (size_t)bytes};
        struct iovec there = {(void *)(uintptr_t)to, (size_t)bytes};
        ssize_t n = process_vm_writev(pid, &here, 1, &there, 1, 0);

        if (n <= 0)
            return refused(c, seat, "process_vm_writev", err);
        from = (const char *)from + n;
        to += (uint64_t)n;
        bytes -= n;
    }
    return PDL_OK;
}

/* Reads a word of another rank that only that rank's memory has, and writes
 * it back. */
bool comm_cma_works(pdl_comm *c, int seat)
{
    struct comm_seat *s = comm_area_seat(c->area, seat);
    uint64_t got = 0;
    struct iovec here = {&got, sizeof got};
    struct iovec there = {(void *)(uintptr_t)s->probe, sizeof got};

    return process_vm_readv(s->pid, &here, 1, &there, 1, 0) == sizeof got &&
           got == (uint64_t)(uint32_t)s->pid * 3 + 1 &&
           process_vm_writev(s->pid, &here, 1, &there, 1, 0) == sizeof got;
}
