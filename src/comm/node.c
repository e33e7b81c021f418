/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of one node: found with MPI_Comm_split_type, given an area, and
 * then what the machine permits is tried. Collective; every rank of a node
 * comes to the same answer. */
#include "comm_core.h"

#include <sched.h>
#include <unistd.h>

/* Are there more ranks on this node than processors that they may run on, all
 * together? */
static bool is_crowded(MPI_Comm node)
{
    enum { WORDS = sizeof(cpu_set_t) / sizeof(uint64_t) };
    cpu_set_t set;
    uint64_t mine[WORDS] = {0}, all[WORDS] = {0};
    int n = 0, ranks = 1;

    MPI_Comm_size(node, &ranks);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        memcpy(mine, &set, sizeof mine);
    if (MPI_Allreduce(mine, all, WORDS, MPI_UINT64_T, MPI_BOR, node) !=
        MPI_SUCCESS)
        return true;
    for (int i = 0; i < WORDS; i++)
        n += __builtin_popcountll(all[i]);
    return ranks > n;
}

/* The communicator of this node's ranks, and which ranks they are. */
static enum pdl_status split(pdl_comm *c, int **ranks, int *n,
                             struct pdl_err *err)
{
    MPI_Comm lane = c->lane[COMM_COLLECTIVE];
    MPI_Comm found = MPI_COMM_NULL;
    int rc = MPI_Comm_split_type(lane, MPI_COMM_TYPE_SHARED, c->rank,
                                 MPI_INFO_NULL, &found);

    if (rc == MPI_SUCCESS) { /* asked of all, whatever is known already */
        bool here = is_crowded(found);

        c->crowded = c->crowded || here;
    }
    if (rc == MPI_SUCCESS && c->ranks_per_node > 0)
        rc = MPI_Comm_split(found, c->rank / c->ranks_per_node, c->rank,
                            &c->node);
    else
        c->node = found;
    if (c->node != found && found != MPI_COMM_NULL)
        MPI_Comm_free(&found);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_set_errhandler(c->node, MPI_ERRORS_RETURN);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_size(c->node, n);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_rank(c->node, &c->node_rank);
    *ranks = rc == MPI_SUCCESS ? calloc((size_t)*n, sizeof **ranks) : NULL;
    if (rc == MPI_SUCCESS && !*ranks)
        return pdl_fail(err, PDL_ENOMEM, "no memory for a communicator");
    if (rc == MPI_SUCCESS)
        rc = MPI_Allgather(&c->rank, 1, MPI_INT, *ranks, 1, MPI_INT, c->node);
    return rc == MPI_SUCCESS ? PDL_OK
                             : comm_mpi_fail(c, rc, "finding the node", err);
}

static enum pdl_status sit_down(pdl_comm *c, const int *ranks, int n,
                                struct pdl_err *err)
{
    int64_t bytes = comm_area_bytes(n, true);
    struct comm_area *a =
        comm_shared_map(c->node, bytes, c->note, sizeof c->note);
    enum pdl_status st;

    if (!a)
        return PDL_OK; /* the note says why */
    if (ranks[0] == c->rank)
        comm_area_init(a, n, true);
    MPI_Barrier(c->node);
    st = comm_sit(c, a, n, ranks, err);
    if (st != PDL_OK) {
        c->area = NULL;
        comm_shared_unmap(a, bytes);
    }
    return st;
}

/* Every rank tries its neighbour. */
static void try_cma(pdl_comm *c)
{
    struct comm_seat *s = comm_area_seat(c->area, c->node_rank);
    uint64_t word = (uint64_t)(uint32_t)getpid() * 3 + 1;
    int mine, all = 0;

    s->probe = (uintptr_t)&word;
    MPI_Barrier(c->node);
    mine = comm_cma_works(c, (c->node_rank + 1) % c->node_size);
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, c->node);
    c->cma = all;
    if (!c->cma)
        snprintf(c->note, sizeof c->note,
                 "another process's memory may not be read here (seccomp or "
                 "ptrace_scope): long messages are copied twice");
}

enum pdl_status comm_settle_reach(pdl_comm *c, struct pdl_err *err)
{
    const char *want = c->transport;
    bool wants = strcmp(want, "auto") != 0 && strcmp(want, "p2p") != 0;

    if (strcmp(want, "memory") == 0)
        return pdl_fail(err, PDL_EINVAL,
                        "transport 'memory' is for virtual "
                        "ranks of one process");
    if (wants && !c->area && c->node_size > 1)
        return pdl_fail(err, PDL_ENOENV, "transport '%s': %s", want, c->note);
    if (strcmp(want, "cma") == 0 && c->area && !c->cma)
        return pdl_fail(err, PDL_ENOENV, "transport 'cma': %s", c->note);
    c->reach = strcmp(want, "staged") == 0 ? COMM_REACH_STAGED
               : strcmp(want, "cma") == 0  ? COMM_REACH_CMA
                                           : COMM_REACH_WINDOW;
    return PDL_OK;
}

enum pdl_status comm_find_node(pdl_comm *c, const struct pdl_comm_options *opt,
                               bool crowded, struct pdl_err *err)
{
    enum pdl_status st;
    int *ranks = NULL, n = 1;

    (void)opt;
    c->crowded = crowded;
    st = split(c, &ranks, &n, err);
    c->node_size = n;
    c->in_line = st == PDL_OK && ranks && ranks[0] % n == 0 &&
                 ranks[n - 1] == ranks[0] + n - 1;
    if (st == PDL_OK && ranks && n > 1 && strcmp(c->transport, "p2p") != 0)
        st = sit_down(c, ranks, n, err);
    if (st == PDL_OK && c->area) {
        comm_area_seat(c->area, c->node_rank)->pid = getpid();
        MPI_Barrier(c->node);
        try_cma(c);
    }
    if (st == PDL_OK)
        st = comm_settle_reach(c, err);
    free(ranks);
    return st;
}

void comm_leave_node(pdl_comm *c)
{
    int finalized = 0;

    if (c->area)
        comm_shared_unmap(c->area, c->area->bytes);
    MPI_Finalized(&finalized);
    if (c->node != MPI_COMM_NULL && !finalized && !*c->broken)
        MPI_Comm_free(&c->node);
}

void pdl_comm_describe(const pdl_comm *c, struct pdl_comm_info *out)
{
    static const char *const names[] = {"memory", "window", "cma", "staged"};

    *out = (struct pdl_comm_info){
        .transport = c->area ? names[c->reach] : "p2p",
        .used = c->used,
        .nodes = c->nodes,
        .node_ranks = c->node_size,
        .cma = c->cma,
        .crowded = c->crowded,
        .signals = c->signals,
        .worked = c->worked,
        .note = c->note,
    };
}
