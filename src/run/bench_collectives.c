/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives that can be measured: ours and MPI's call, what a rank puts
 * in, what it must get, and the factor of the bus bandwidth as nccl-tests has
 * it. Sizes count the whole vector: what one rank ends with in an allgather,
 * begins with in a reduce-scatter. */
#include "bench.h"

#include <string.h>

static int64_t begin(const struct bench_buffers *x, int rank)
{
    struct pdl_coll_buf b = {x->count, x->b->ranks};

    return pdl_coll_chunk_begin(&b, rank);
}

static int64_t own(const struct bench_buffers *x)
{
    int r = pdl_comm_rank(x->b->comm);

    return begin(x, r + 1) - begin(x, r);
}

static enum pdl_status mpi_says(int rc, const char *what, struct pdl_err *err)
{
    return rc == MPI_SUCCESS ? PDL_OK : pdl_fail(err, PDL_ENOENV, "%s", what);
}

static MPI_Datatype mpi_type(const struct bench *b)
{
    const MPI_Datatype types[PDL_NCOMM_TYPES] = {
        [PDL_COMM_F32] = MPI_FLOAT,   [PDL_COMM_F64] = MPI_DOUBLE,
        [PDL_COMM_BF16] = MPI_SHORT,  [PDL_COMM_F16] = MPI_SHORT,
        [PDL_COMM_I32] = MPI_INT32_T, [PDL_COMM_I64] = MPI_INT64_T,
    };

    return types[b->type];
}

static MPI_Op mpi_op(const struct bench *b)
{
    static const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_SUM};

    return ops[b->op];
}

/* ---- what goes in and comes out ---------------------------------------- */

static struct bench_part all_in(const struct bench_buffers *x)
{
    return (struct bench_part){0, x->count, pdl_comm_rank(x->b->comm), 0};
}

static struct bench_part own_in(const struct bench_buffers *x)
{
    int r = pdl_comm_rank(x->b->comm);

    return (struct bench_part){0, own(x), r, begin(x, r)};
}

static struct bench_part root_in(const struct bench_buffers *x)
{
    int r = pdl_comm_rank(x->b->comm);

    return (struct bench_part){0, r == 0 ? x->count : 0, 0, 0};
}

static bool all_reduced(const struct bench_buffers *x, int i,
                        struct bench_part *out)
{
    *out = (struct bench_part){0, x->count, -1, 0};
    return i == 0;
}

static bool own_reduced(const struct bench_buffers *x, int i,
                        struct bench_part *out)
{
    *out =
        (struct bench_part){0, own(x), -1, begin(x, pdl_comm_rank(x->b->comm))};
    return i == 0;
}

static bool gathered(const struct bench_buffers *x, int i,
                     struct bench_part *out)
{
    if (i == x->b->ranks)
        return false;
    *out = (struct bench_part){begin(x, i), begin(x, i + 1) - begin(x, i), i,
                               begin(x, i)};
    return true;
}

static bool exchanged(const struct bench_buffers *x, int i,
                      struct bench_part *out)
{
    int64_t n = x->count / x->b->ranks;

    *out = (struct bench_part){i * n, n, i, pdl_comm_rank(x->b->comm) * n};
    return i < x->b->ranks;
}

static bool from_root(const struct bench_buffers *x, int i,
                      struct bench_part *out)
{
    *out = (struct bench_part){0, x->count, 0, 0};
    return i == 0;
}

/* ---- the calls --------------------------------------------------------- */

static enum pdl_status allreduce(const struct bench_buffers *x,
                                 struct pdl_err *err)
{
    return pdl_comm_allreduce(x->b->comm, x->in, x->out, x->count, x->b->type,
                              x->b->op, err);
}

static enum pdl_status mpi_allreduce(const struct bench_buffers *x,
                                     struct pdl_err *err)
{
    return mpi_says(MPI_Allreduce(x->in == x->out ? MPI_IN_PLACE : x->in,
                                  x->out, (int)x->count, mpi_type(x->b),
                                  mpi_op(x->b), MPI_COMM_WORLD),
                    "MPI_Allreduce", err);
}

static enum pdl_status reduce_scatter(const struct bench_buffers *x,
                                      struct pdl_err *err)
{
    return pdl_comm_reduce_scatter(x->b->comm, x->in, x->out, x->count,
                                   x->b->type, x->b->op, err);
}

static enum pdl_status mpi_reduce_scatter(const struct bench_buffers *x,
                                          struct pdl_err *err)
{
    return mpi_says(MPI_Reduce_scatter(x->in, x->out, x->counts, mpi_type(x->b),
                                       mpi_op(x->b), MPI_COMM_WORLD),
                    "MPI_Reduce_scatter", err);
}

static enum pdl_status allgather(const struct bench_buffers *x,
                                 struct pdl_err *err)
{
    return pdl_comm_allgather(x->b->comm, x->in, x->out, x->count, x->b->type,
                              err);
}

static enum pdl_status mpi_allgather(const struct bench_buffers *x,
                                     struct pdl_err *err)
{
    return mpi_says(
        MPI_Allgatherv(x->in, (int)own(x), mpi_type(x->b), x->out, x->counts,
                       x->begins, mpi_type(x->b), MPI_COMM_WORLD),
        "MPI_Allgatherv", err);
}

static enum pdl_status alltoall(const struct bench_buffers *x,
                                struct pdl_err *err)
{
    return pdl_comm_alltoall(x->b->comm, x->in, x->out, x->count / x->b->ranks,
                             x->b->type, err);
}

static enum pdl_status mpi_alltoall(const struct bench_buffers *x,
                                    struct pdl_err *err)
{
    int n = (int)(x->count / x->b->ranks);

    return mpi_says(MPI_Alltoall(x->in, n, mpi_type(x->b), x->out, n,
                                 mpi_type(x->b), MPI_COMM_WORLD),
                    "MPI_Alltoall", err);
}

static enum pdl_status broadcast(const struct bench_buffers *x,
                                 struct pdl_err *err)
{
    return pdl_comm_broadcast(x->b->comm, x->out, x->count, x->b->type, 0, err);
}

static enum pdl_status mpi_broadcast(const struct bench_buffers *x,
                                     struct pdl_err *err)
{
    return mpi_says(
        MPI_Bcast(x->out, (int)x->count, mpi_type(x->b), 0, MPI_COMM_WORLD),
        "MPI_Bcast", err);
}

// clang-format off
static const struct bench_collective table[] = {
    {"allreduce", true, false, 2, all_in, all_reduced,
     allreduce, mpi_allreduce},
    {"reduce-scatter", true, false, 1, all_in, own_reduced,
     reduce_scatter, mpi_reduce_scatter},
    {"allgather", false, false, 1, own_in, gathered,
     allgather, mpi_allgather},
    {"alltoall", false, false, 1, all_in, exchanged,
     alltoall, mpi_alltoall},
    {"broadcast", false, true, 0, root_in, from_root,
     broadcast, mpi_broadcast},
};
// clang-format on

const struct bench_collective *run_bench_collective(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

double run_bench_bus_factor(const struct bench *b)
{
    double p = b->ranks;

    return b->coll->passes > 0 ? b->coll->passes * (p - 1) / p : 1;
}

void run_bench_blocks(struct bench_buffers *x)
{
    for (int r = 0; r < x->b->ranks; r++) {
        x->begins[r] = (int)begin(x, r);
        x->counts[r] = (int)(begin(x, r + 1) - begin(x, r));
    }
}
