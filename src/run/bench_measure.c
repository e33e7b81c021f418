/* SPDX-License-Identifier: Apache-2.0
 *
 * One size of a benchmark. Each turn: write the input anew, wait for all, ours,
 * look at every element; the same for MPI's; the same for a plain copy. So all
 * three see the same machine, and none can pass with yesterday's result. A turn
 * takes as long as its slowest rank; the figure is the median of the turns. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* TRIED: turns that are not counted because a communicator still tries its
 * ways of copying. */
enum { CONTENDERS = 3, MAX_TURNS = 1000, WARM = 2, TRIED = 10 };

struct turns {
    struct bench *b;
    struct bench_buffers x;
    int64_t bytes;
    char *in, *out;           /* to be freed */
    char *copy;               /* where a plain copy goes */
    double *took[CONTENDERS]; /* ours, MPI's, a copy */
    int64_t n, wrong;
    const char *used;
    int64_t work[2]; /* signals and bytes of our last turn */
};

/* ---- contenders ------------------------------------------------------- */

static enum pdl_status ours(struct turns *t, struct pdl_err *err)
{
    return t->b->coll->ours(&t->x, err);
}

static enum pdl_status mpis(struct turns *t, struct pdl_err *err)
{
    return t->b->coll->mpis(&t->x, err);
}

/* What a rank gets is read and written at least once. */
static enum pdl_status plain_copy(struct turns *t, struct pdl_err *err)
{
    struct bench_part p;
    int64_t n = 0;

    (void)err;
    for (int i = 0; t->b->coll->result(&t->x, i, &p); i++)
        n += p.count;
    if (n > 0)
        memcpy(t->copy, t->x.out, (size_t)(n * t->b->size));
    return PDL_OK;
}

static void write_input(struct turns *t, int64_t turn)
{
    struct bench_part p = t->b->coll->input(&t->x);

    if ((p.count == 0 || t->x.in != t->x.out) && t->bytes > 0)
        memset(t->x.out, 0xff, (size_t)t->bytes);
    run_bench_write(t->b, t->x.in, &p, turn);
}

static void check_output(struct turns *t, int64_t turn)
{
    struct bench_part p;

    for (int i = 0; t->b->coll->result(&t->x, i, &p); i++)
        t->wrong += run_bench_wrong(t->b, t->x.out, &p, turn);
}

/* The ranks leave together: a barrier, then a little later by the clock would
 * be better still, but clocks differ. */
static enum pdl_status one_turn(struct turns *t, int who, int64_t turn,
                                double *took, struct pdl_err *err)
{
    static enum pdl_status (*const run[CONTENDERS])(
        struct turns *, struct pdl_err *) = {ours, mpis, plain_copy};
    struct pdl_comm_info info;
    enum pdl_status st;
    double start;

    write_input(t, turn);
    st = pdl_comm_barrier(t->b->comm, err);
    if (st != PDL_OK)
        return st;
    pdl_comm_describe(t->b->comm, &info);
    t->work[0] = who == 0 ? info.signals : t->work[0];
    t->work[1] = who == 0 ? info.worked : t->work[1];
    start = pdl_clock_s();
    st = run[who](t, err);
    *took = pdl_clock_s() - start;
    if (st == PDL_OK && who < 2)
        check_output(t, turn);
    if (who == 0) {
        pdl_comm_describe(t->b->comm, &info);
        t->used = info.used;
        t->work[0] = info.signals - t->work[0];
        t->work[1] = info.worked - t->work[1];
    }
    return st;
}

/* ---- one size --------------------------------------------------------- */

static bool enters(const struct bench *b, int who)
{
    return who != 1 || (b->o->against && b->mpi);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, int64_t n)
{
    qsort(v, (size_t)n, sizeof *v, ascending);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* How many turns: the same on all ranks. */
static enum pdl_status settle_turns(struct turns *t, double spent,
                                    struct pdl_err *err)
{
    const struct bench_options *o = t->b->o;
    double seconds = o->seconds > 0 ? o->seconds : 0.5;
    double n = o->iterations > 0 ? (double)o->iterations
                                 : floor(seconds / (spent / WARM + 1e-9));
    int64_t mine = n < 5 ? 5 : n > MAX_TURNS ? MAX_TURNS : (int64_t)n;

    if (o->iterations > 0)
        mine = o->iterations > MAX_TURNS ? MAX_TURNS : o->iterations;
    return pdl_comm_allreduce(t->b->comm, &mine, &t->n, 1, PDL_COMM_I64,
                              PDL_COMM_MIN, err);
}

static enum pdl_status all_turns(struct turns *t, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    double start = pdl_clock_s(), ignored;
    int64_t more = 0;

    t->n = MAX_TURNS;
    for (int64_t turn = 0; st == PDL_OK && turn < WARM + more + t->n; turn++) {
        int64_t i = turn - WARM - more;

        for (int who = 0; st == PDL_OK && who < CONTENDERS; who++)
            if (enters(t->b, who))
                st = one_turn(t, who, turn, i < 0 ? &ignored : &t->took[who][i],
                              err);
        if (turn == WARM - 1 && st == PDL_OK) {
            st = settle_turns(t, pdl_clock_s() - start, err);
            more = t->n < (int64_t)2 * TRIED ? t->n / 2 : TRIED;
        }
    }
    return st;
}

static enum pdl_status result(struct turns *t, struct bench_row *row,
                              struct pdl_err *err)
{
    pdl_comm *c = t->b->comm;
    enum pdl_status st = PDL_OK;
    double v[CONTENDERS] = {0, 0, 0};
    int64_t wrong = t->wrong, most[2] = {0, 0};

    for (int who = 0; st == PDL_OK && who < CONTENDERS; who++) {
        if (!enters(t->b, who))
            continue;
        st = pdl_comm_allreduce(c, t->took[who], t->took[who], t->n,
                                PDL_COMM_F64, PDL_COMM_MAX, err);
        if (st == PDL_OK)
            v[who] = median(t->took[who], t->n);
    }
    if (st == PDL_OK)
        st = pdl_comm_allreduce(c, &wrong, &row->wrong, 1, PDL_COMM_I64,
                                PDL_COMM_SUM, err);
    if (st == PDL_OK)
        st = pdl_comm_allreduce(c, t->work, most, 2, PDL_COMM_I64, PDL_COMM_MAX,
                                err);
    row->signals = most[0];
    row->worked = most[1];
    row->bytes = t->bytes;
    row->iterations = t->n;
    row->algorithm = pdl_comm_choice(c, t->b->coll->name, t->bytes);
    row->transport = t->used;
    row->ours_s = v[0];
    row->ours_min_s = t->took[0][0];
    row->ours_quartile_s = t->took[0][t->n / 4];
    row->mpi_s = v[1];
    row->limit_s = v[2];
    return st;
}

static enum pdl_status take_memory(struct turns *t, struct pdl_err *err)
{
    const char *tr = t->b->o->transport;
    bool window = tr && strcmp(tr, "window") == 0;
    enum pdl_status st = PDL_OK;
    void *in = NULL, *out = NULL;

    if (window) {
        st = pdl_comm_alloc(t->b->comm, t->bytes, &in, err);
        if (st == PDL_OK)
            st = pdl_comm_alloc(t->b->comm, t->bytes, &out, err);
    } else {
        in = malloc((size_t)t->bytes + 1);
        out = malloc((size_t)t->bytes + 1);
    }
    t->in = in;
    t->out = out;
    t->copy = in;
    t->x.in = t->b->o->in_place || t->b->coll->in_place ? out : in;
    t->x.out = out;
    t->x.counts = calloc((size_t)t->b->ranks, sizeof *t->x.counts);
    t->x.begins = calloc((size_t)t->b->ranks, sizeof *t->x.begins);
    for (int who = 0; who < CONTENDERS; who++)
        t->took[who] = calloc(MAX_TURNS, sizeof *t->took[who]);
    if (st == PDL_OK && (!in || !out || !t->took[0] || !t->took[1] ||
                         !t->took[2] || !t->x.counts || !t->x.begins))
        st = pdl_fail(err, PDL_ENOMEM, "no memory for buffers");
    if (st == PDL_OK) {
        memset(in, 0, (size_t)t->bytes + 1);
        run_bench_blocks(&t->x);
    }
    return st;
}

static void give_memory(struct turns *t)
{
    const char *tr = t->b->o->transport;
    bool window = tr && strcmp(tr, "window") == 0;

    if (window) {
        pdl_comm_free(t->b->comm, t->in, NULL);
        pdl_comm_free(t->b->comm, t->out, NULL);
    } else {
        free(t->in);
        free(t->out);
    }
    free(t->x.counts);
    free(t->x.begins);
    for (int who = 0; who < CONTENDERS; who++)
        free(t->took[who]);
}

enum pdl_status run_bench_size(struct bench *b, int i, struct pdl_err *err)
{
    struct turns t = {.b = b, .x = {.b = b, .count = b->sizes[i] / b->size}};
    enum pdl_status st;

    if (strcmp(b->coll->name, "alltoall") == 0) /* blocks of equal length */
        t.x.count = t.x.count / b->ranks * b->ranks;
    t.bytes = t.x.count * b->size;
    st = take_memory(&t, err);
    if (st == PDL_OK)
        st = all_turns(&t, err);
    if (st == PDL_OK)
        st = result(&t, &b->row[i], err);
    give_memory(&t);
    return st;
}
