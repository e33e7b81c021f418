/* SPDX-License-Identifier: Apache-2.0
 *
 * One size of a benchmark. Each turn: write the input anew, wait for all, ours,
 * look at every element; the same for MPI's; the same for a plain copy. So all
 * three see the same machine, and none can pass with yesterday's result.
 *
 * Values are small whole numbers that depend on rank, place and turn, so that
 * sums are exact in every type and what they must be is known. A turn takes as
 * long as its slowest rank; the figure is the median of the turns. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONTENDERS = 3, MAX_TURNS = 1000, WARM = 2, PERIOD = 61 };

struct turns {
    struct bench *b;
    int64_t count, bytes;
    char *in, *out;
    double *took[CONTENDERS]; /* ours, MPI's, a copy */
    int64_t n, wrong;
    const char *used;
};

/* ---- values ----------------------------------------------------------- */

static double value(int rank, int64_t place, int64_t turn)
{
    return (double)((place + (int64_t)7 * rank + 3 * turn) % PERIOD % 16);
}

static void put(void *to, int64_t i, enum pdl_comm_type type, double v)
{
    uint32_t bits;
    float f = (float)v;

    memcpy(&bits, &f, sizeof bits);
    switch (type) {
    case PDL_COMM_F32:
        ((float *)to)[i] = f;
        break;
    case PDL_COMM_F64:
        ((double *)to)[i] = v;
        break;
    case PDL_COMM_BF16:
        ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
        break;
    case PDL_COMM_F16: /* small whole numbers: exponent moved, no rounding */
        ((uint16_t *)to)[i] =
            v == 0 ? 0 : (uint16_t)((bits >> 13) - ((127 - 15) << 10));
        break;
    case PDL_COMM_I32:
        ((int32_t *)to)[i] = (int32_t)v;
        break;
    default:
        ((int64_t *)to)[i] = (int64_t)v;
    }
}

/* The values repeat: one period is made, the rest is copied. */
static void write_period(const struct bench *b, char *to, int64_t count,
                         const double *of)
{
    int64_t head = count < PERIOD ? count : PERIOD, have = head;

    for (int64_t i = 0; i < head; i++)
        put(to, i, b->type, of[i]);
    while (have < count) {
        int64_t n = have < count - have ? have : count - have;

        memcpy(to + have * b->size, to, (size_t)(n * b->size));
        have += n; /* a multiple of the period until the last time */
    }
}

static void write_input(struct turns *t, int64_t turn)
{
    double of[PERIOD];
    int rank = pdl_comm_rank(t->b->comm);

    for (int i = 0; i < PERIOD; i++)
        of[i] = value(rank, i, turn);
    write_period(t->b, t->b->o->in_place ? t->out : t->in, t->count, of);
    if (!t->b->o->in_place && t->bytes > 0)
        memset(t->out, 0xff, (size_t)t->bytes);
}

static double wanted(const struct bench *b, int64_t place, int64_t turn)
{
    double v = value(0, place, turn);

    for (int r = 1; r < b->ranks; r++) {
        double x = value(r, place, turn);

        v = b->op == PDL_COMM_MAX   ? fmax(v, x)
            : b->op == PDL_COMM_MIN ? fmin(v, x)
                                    : v + x;
    }
    if (b->op != PDL_COMM_AVG)
        return v;
    if (b->type == PDL_COMM_F32)
        return (float)v / (float)b->ranks;
    return b->type == PDL_COMM_F64 ? v / b->ranks : trunc(v / b->ranks);
}

/* Compares with the first period, element by element. */
static void check_output(struct turns *t, int64_t turn)
{
    const struct bench *b = t->b;
    char first[PERIOD * 8];
    double of[PERIOD];
    int64_t head = t->count < PERIOD ? t->count : PERIOD;

    for (int i = 0; i < PERIOD; i++)
        of[i] = wanted(b, i, turn);
    write_period(b, first, head, of);
    for (int64_t i = 0; i < t->count; i += PERIOD) {
        int64_t n = t->count - i < PERIOD ? t->count - i : PERIOD;

        if (memcmp(t->out + i * b->size, first, (size_t)(n * b->size)) != 0)
            for (int64_t k = 0; k < n; k++)
                t->wrong += memcmp(t->out + (i + k) * b->size,
                                   first + k * b->size, (size_t)b->size) != 0;
    }
}

/* ---- contenders ------------------------------------------------------- */

static enum pdl_status ours(struct turns *t, struct pdl_err *err)
{
    const struct bench *b = t->b;

    return pdl_comm_allreduce(b->comm, b->o->in_place ? t->out : t->in, t->out,
                              t->count, b->type, b->op, err);
}

static enum pdl_status mpis(struct turns *t, struct pdl_err *err)
{
    static const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_SUM};
    const MPI_Datatype types[PDL_NCOMM_TYPES] = {
        [PDL_COMM_F32] = MPI_FLOAT,
        [PDL_COMM_F64] = MPI_DOUBLE,
        [PDL_COMM_I32] = MPI_INT32_T,
        [PDL_COMM_I64] = MPI_INT64_T,
    };
    const struct bench *b = t->b;
    int rc = MPI_Allreduce(b->o->in_place ? MPI_IN_PLACE : t->in, t->out,
                           (int)t->count, types[b->type], ops[b->op],
                           MPI_COMM_WORLD);

    return rc == MPI_SUCCESS ? PDL_OK
                             : pdl_fail(err, PDL_ENOENV, "MPI_Allreduce");
}

static enum pdl_status plain_copy(struct turns *t, struct pdl_err *err)
{
    (void)err;
    if (t->bytes > 0)
        memcpy(t->out, t->in, (size_t)t->bytes);
    return PDL_OK;
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
    start = pdl_clock_s();
    st = run[who](t, err);
    *took = pdl_clock_s() - start;
    if (st == PDL_OK && who < 2)
        check_output(t, turn);
    if (who == 0) {
        pdl_comm_describe(t->b->comm, &info);
        t->used = info.used;
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

    t->n = MAX_TURNS;
    for (int64_t i = -WARM; st == PDL_OK && i < t->n; i++) {
        for (int who = 0; st == PDL_OK && who < CONTENDERS; who++)
            if (enters(t->b, who))
                st = one_turn(t, who, i + WARM,
                              i < 0 ? &ignored : &t->took[who][i], err);
        if (i == -1 && st == PDL_OK)
            st = settle_turns(t, pdl_clock_s() - start, err);
    }
    return st;
}

static enum pdl_status result(struct turns *t, struct bench_row *row,
                              struct pdl_err *err)
{
    pdl_comm *c = t->b->comm;
    enum pdl_status st = PDL_OK;
    double v[CONTENDERS] = {0, 0, 0};
    int64_t wrong = t->wrong;

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
    row->bytes = t->bytes;
    row->iterations = t->n;
    row->algorithm = pdl_comm_choice(c, t->bytes);
    row->transport = t->used;
    row->ours_s = v[0];
    row->ours_min_s = t->took[0][0];
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
    for (int who = 0; who < CONTENDERS; who++)
        t->took[who] = calloc(MAX_TURNS, sizeof *t->took[who]);
    if (st == PDL_OK &&
        (!in || !out || !t->took[0] || !t->took[1] || !t->took[2]))
        st = pdl_fail(err, PDL_ENOMEM, "no memory for buffers");
    if (st == PDL_OK)
        memset(in, 0, (size_t)t->bytes + 1);
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
    for (int who = 0; who < CONTENDERS; who++)
        free(t->took[who]);
}

enum pdl_status run_bench_size(struct bench *b, int i, struct pdl_err *err)
{
    struct turns t = {.b = b, .count = b->sizes[i] / b->size};
    enum pdl_status st;

    t.bytes = t.count * b->size;
    st = take_memory(&t, err);
    if (st == PDL_OK)
        st = all_turns(&t, err);
    if (st == PDL_OK)
        st = result(&t, &b->row[i], err);
    give_memory(&t);
    return st;
}
