/* Sparse against dense allreduce of 32 M floats at 1/128 density, in turn in
 * the same processes: mpirun -n P sparse_ours [TRANSPORT]. Wall time of the
 * slowest rank and CPU time of all ranks, medians. */
#include "paradl/comm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 9, MOST = 8, WARM = 10 };
static const int64_t count = 1 << 25;

struct bench {
    pdl_comm *comm;
    float *in, *out;
    pdl_topk *topk;
    struct pdl_sparse x;
    struct {
        const char *name;
        pdl_comm_sparse *op;
        double wall[RUNS], cpu[RUNS];
    } row[MOST];
    int nrows;
};

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *x)
{
    qsort(x, RUNS, sizeof *x, ascending);
    return x[RUNS / 2];
}

static void check(enum pdl_status st, const struct pdl_err *err)
{
    if (st == PDL_OK)
        return;
    fprintf(stderr, "%s\n", err->msg);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void measure(struct bench *b, int row, int run)
{
    struct pdl_err err = {"", ""};
    struct pdl_sparse out = {0};
    double t[2], s[2];

    MPI_Barrier(MPI_COMM_WORLD);
    t[0] = pdl_clock_s();
    t[1] = pdl_cpu_s();
    if (b->row[row].op)
        check(pdl_comm_sparse_allreduce(b->row[row].op, &b->x, &out, &err),
              &err);
    else
        check(pdl_comm_allreduce(b->comm, b->in, b->out, count, PDL_COMM_F32,
                                 PDL_COMM_SUM, &err),
              &err);
    t[0] = pdl_clock_s() - t[0];
    t[1] = pdl_cpu_s() - t[1];
    MPI_Allreduce(&t[0], &s[0], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&t[1], &s[1], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    b->row[row].wall[run] = s[0];
    b->row[row].cpu[run] = s[1];
    /* every given element of the first run is in the sum of all */
    for (int64_t i = 0; run == 0 && out.index && i + 1 < out.n; i++)
        if (out.index[i] >= out.index[i + 1])
            MPI_Abort(MPI_COMM_WORLD, 1);
}

static void prepare(struct bench *b, const char *transport)
{
    static const char *const names[] = {"sparse-ring", "sparse-ring-ring:k=2",
                                        "ssar", "dsar"};
    struct pdl_comm_options opt = {.transport = transport};
    struct pdl_err err = {"", ""};
    struct pdl_rng r;
    int size;

    check(pdl_comm_create(MPI_COMM_WORLD, &opt, &b->comm, &err), &err);
    size = pdl_comm_size(b->comm);
    r = (struct pdl_rng){.key = (uint64_t)pdl_comm_rank(b->comm)};
    b->in = aligned_alloc(64, (size_t)count * sizeof(float));
    b->out = aligned_alloc(64, (size_t)count * sizeof(float));
    if (!b->in || !b->out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int64_t i = 0; i < count; i++)
        b->in[i] = (float)(pdl_rng_unit(&r) - 0.5);
    memset(b->out, 0, (size_t)count * sizeof(float));
    check(
        pdl_topk_create(count, count / 128, PDL_TOPK_EXACT, 1, &b->topk, &err),
        &err);
    pdl_topk_select(b->topk, b->in, &b->x);
    b->row[b->nrows++].name = "dense";
    for (int i = 0; i < 4; i++) {
        pdl_comm_sparse *op = NULL;

        if (size % 2 == 1 && i == 1)
            continue;
        if (pdl_comm_sparse_create(b->comm, count, b->x.n, names[i], &op,
                                   &err) != PDL_OK)
            continue;
        b->row[b->nrows].name = names[i];
        b->row[b->nrows++].op = op;
    }
    b->row[b->nrows].name = "auto";
    check(pdl_comm_sparse_create(b->comm, count, b->x.n, NULL,
                                 &b->row[b->nrows++].op, &err),
          &err);
}

int main(int argc, char **argv)
{
    static struct bench b;
    double wall, cpu;
    int rank;

    MPI_Init(&argc, &argv);
    prepare(&b, argc > 1 ? argv[1] : NULL);
    rank = pdl_comm_rank(b.comm);
    for (int run = 0; run < WARM; run++) /* until it has tried its ways */
        measure(&b, 0, 0);
    for (int run = -1; run < RUNS; run++) /* one to warm up */
        for (int i = 0; i < b.nrows; i++)
            measure(&b, i, run < 0 ? 0 : run);
    for (int i = 0; i < b.nrows; i++) {
        double w = median(b.row[i].wall), c = median(b.row[i].cpu);

        if (i == 0) {
            wall = w;
            cpu = c;
        }
        if (rank == 0)
            printf("allreduce 32 M floats %d ranks %s%s%s: %.2f ms, CPU %.2f "
                   "ms, %.1f x, CPU %.1f x  (128 MiB, 0.78 %%, median of %d)\n",
                   pdl_comm_size(b.comm), b.row[i].name,
                   strcmp(b.row[i].name, "auto") ? "" : " = ",
                   strcmp(b.row[i].name, "auto")
                       ? ""
                       : pdl_comm_sparse_algorithm(b.row[i].op),
                   w * 1e3, c * 1e3, wall / w, cpu / c, RUNS);
        pdl_comm_sparse_destroy(b.row[i].op);
    }
    pdl_topk_destroy(b.topk);
    pdl_comm_destroy(b.comm);
    free(b.in);
    free(b.out);
    MPI_Finalize();
    return 0;
}
