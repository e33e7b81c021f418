/* What every rank checks, whatever carries it: used by the tests on virtual
 * ranks (threads) and by the ones under mpirun. A check prints what is wrong
 * and returns how much. */
#ifndef COMM_CHECKS_H
#define COMM_CHECKS_H

#include "comm_core.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>

/* ---- numbers of any type ------------------------------------------------ */

static inline float half_to_float(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    float v =
        e == 0 ? ldexpf((float)m, -24) : ldexpf((float)(m + 1024), e - 25);

    if (e == 31)
        v = m ? NAN : INFINITY;
    return h & 0x8000 ? -v : v;
}

static inline double get_value(const void *p, int64_t i, enum pdl_comm_type t)
{
    uint32_t u;
    float f;

    switch (t) {
    case PDL_COMM_F32:
        return ((const float *)p)[i];
    case PDL_COMM_F64:
        return ((const double *)p)[i];
    case PDL_COMM_BF16:
        u = (uint32_t)((const uint16_t *)p)[i] << 16;
        memcpy(&f, &u, sizeof f);
        return f;
    case PDL_COMM_F16:
        return half_to_float(((const uint16_t *)p)[i]);
    case PDL_COMM_I32:
        return ((const int32_t *)p)[i];
    default:
        return (double)((const int64_t *)p)[i];
    }
}

/* Small multiples of 1/64: exact in every type, so only sums round. */
static inline double new_value(int rank, int64_t i, bool whole)
{
    struct pdl_rng4 r = pdl_philox(7, (uint64_t)rank, (uint64_t)i);
    double v = (double)(r.v[0] % 255) - 127;

    return whole ? v * 1000 + r.v[1] % 1000 : v / 64;
}

/* A program that checks thousands of long vectors keeps their values. */
#ifdef COMM_CHECKS_KEEP
enum { KEPT_RANKS = 16, KEPT_VALUES = 1000064 };

static inline const double *kept_values(int rank, bool whole)
{
    static _Thread_local double *kept[2][KEPT_RANKS];
    double **v = &kept[whole][rank];

    if (!*v) {
        *v = malloc(KEPT_VALUES * sizeof **v);
        for (int64_t i = 0; *v && i < KEPT_VALUES; i++)
            (*v)[i] = new_value(rank, i, whole);
    }
    return *v;
}
#endif

static inline double made_value(int rank, int64_t i, enum pdl_comm_type t)
{
    bool whole = t == PDL_COMM_I32 || t == PDL_COMM_I64;
#ifdef COMM_CHECKS_KEEP
    const double *kept =
        rank < KEPT_RANKS && i < KEPT_VALUES ? kept_values(rank, whole) : NULL;

    if (kept)
        return kept[i];
#endif
    return new_value(rank, i, whole);
}

static inline uint16_t float_to_half(float f) /* of made_value: exact */
{
    int e;
    float m = frexpf(fabsf(f), &e);

    if (f == 0)
        return 0;
    return (uint16_t)((f < 0 ? 0x8000 : 0) | (e + 14) << 10 |
                      ((int)ldexpf(m, 11) & 1023));
}

static inline void put_value(void *p, int64_t i, enum pdl_comm_type t, double v)
{
    float f = (float)v;
    uint32_t u;

    switch (t) {
    case PDL_COMM_F32:
        ((float *)p)[i] = f;
        break;
    case PDL_COMM_F64:
        ((double *)p)[i] = v;
        break;
    case PDL_COMM_BF16:
        memcpy(&u, &f, sizeof u);
        ((uint16_t *)p)[i] = (uint16_t)(u >> 16);
        break;
    case PDL_COMM_F16:
        ((uint16_t *)p)[i] = float_to_half(f);
        break;
    case PDL_COMM_I32:
        ((int32_t *)p)[i] = (int32_t)v;
        break;
    default:
        ((int64_t *)p)[i] = (int64_t)v;
    }
}

static inline void fill_values(void *p, int64_t n, int rank, int64_t from,
                               enum pdl_comm_type t)
{
    for (int64_t i = 0; i < n; i++)
        put_value(p, i, t, made_value(rank, from + i, t));
}

/* ---- what it must be ---------------------------------------------------- */

/* Half a unit in the last place, relative. */
static const double unit_of[PDL_NCOMM_TYPES] = {0x1p-24, 0x1p-53, 0x1p-8,
                                                0x1p-11, 0,       0};

static inline double wanted_value(int p, int64_t i, enum pdl_comm_type t,
                                  enum pdl_comm_op op, double *slack)
{
    double v = made_value(0, i, t), size = fabs(v);

    for (int r = 1; r < p; r++) {
        double x = made_value(r, i, t);

        size += fabs(x);
        v = op == PDL_COMM_MAX   ? fmax(v, x)
            : op == PDL_COMM_MIN ? fmin(v, x)
                                 : v + x;
    }
    *slack = op == PDL_COMM_MAX || op == PDL_COMM_MIN
                 ? 0
                 : size * unit_of[t] * 2 * p;
    if (op == PDL_COMM_AVG && (t == PDL_COMM_I32 || t == PDL_COMM_I64))
        return trunc(v / p);
    if (op == PDL_COMM_AVG) {
        *slack = *slack / p + fabs(v) / p * unit_of[t] * 2;
        return v / p;
    }
    return v;
}

/* Elements [from, from + n) of the reduction: all of them where values are
 * kept, else some of a long vector. */
#ifdef COMM_CHECKS_KEEP
enum { CHECK_ALL = INT32_MAX };
#else
enum { CHECK_ALL = 5000 };
#endif

static inline int check_reduced(const char *what, const pdl_comm *c,
                                const void *out, int64_t from, int64_t n,
                                enum pdl_comm_type t, enum pdl_comm_op op)
{
    int64_t step = n > CHECK_ALL ? n / 997 : 1;
    int p = pdl_comm_size(c);

    for (int64_t i = 0; i < n; i += step) {
        double slack, want = wanted_value(p, from + i, t, op, &slack);
        double got = get_value(out, i, t);

        if (!(fabs(got - want) <= slack)) {
            fprintf(stderr,
                    "%s, %s, %d ranks: rank %d element %" PRId64
                    " is %.9g, not %.9g\n",
                    what, comm_type_name(t), p, pdl_comm_rank(c), from + i, got,
                    want);
            return 1;
        }
    }
    return 0;
}

static inline int said(enum pdl_status st, const char *what,
                       const struct pdl_err *err)
{
    if (st == PDL_OK)
        return 0;
    fprintf(stderr, "%s: %s\n", what, err->msg);
    return 1;
}

static inline int64_t block_begin(int64_t count, int p, int r)
{
    struct pdl_coll_buf b = {count, p};

    return pdl_coll_chunk_begin(&b, r);
}

/* ---- one case each ------------------------------------------------------ */

struct buffers {
    char *in, *out;
};

static inline struct buffers take_buffers(int64_t bytes)
{
    struct buffers b = {malloc((size_t)bytes + 64), malloc((size_t)bytes + 64)};

    memset(b.out, 0xa5, (size_t)bytes + 64);
    return b;
}

static inline void drop_buffers(struct buffers b)
{
    free(b.in);
    free(b.out);
}

static inline int check_allreduce(pdl_comm *c, int64_t n, enum pdl_comm_type t,
                                  enum pdl_comm_op op, bool in_place,
                                  const char *what)
{
    struct buffers b = take_buffers(n * 8);
    struct pdl_err err = {"", ""};
    int bad;

    fill_values(in_place ? b.out : b.in, n, pdl_comm_rank(c), 0, t);
    bad = said(
        pdl_comm_allreduce(c, in_place ? b.out : b.in, b.out, n, t, op, &err),
        what, &err);
    if (!bad)
        bad = check_reduced(what, c, b.out, 0, n, t, op);
    if (!bad && (unsigned char)b.out[n * comm_type_bytes(t)] != 0xa5)
        bad = 1, fprintf(stderr, "%s: wrote past the end\n", what);
    drop_buffers(b);
    return bad;
}

static inline int check_reduce_scatter(pdl_comm *c, int64_t n,
                                       enum pdl_comm_type t,
                                       enum pdl_comm_op op)
{
    int p = pdl_comm_size(c), r = pdl_comm_rank(c), bad;
    int64_t from = block_begin(n, p, r), to = block_begin(n, p, r + 1);
    struct buffers b = take_buffers(n * 8);
    struct pdl_err err = {"", ""};

    fill_values(b.in, n, r, 0, t);
    bad = said(pdl_comm_reduce_scatter(c, b.in, b.out, n, t, op, &err),
               "reduce-scatter", &err);
    if (!bad)
        bad = check_reduced("reduce-scatter", c, b.out, from, to - from, t, op);
    drop_buffers(b);
    return bad;
}

static inline int check_allgather(pdl_comm *c, int64_t n, enum pdl_comm_type t)
{
    int p = pdl_comm_size(c), r = pdl_comm_rank(c), bad;
    int64_t from = block_begin(n, p, r), to = block_begin(n, p, r + 1);
    struct buffers b = take_buffers(n * 8);
    struct pdl_err err = {"", ""};

    fill_values(b.in, to - from, r, from, t);
    bad =
        said(pdl_comm_allgather(c, b.in, b.out, n, t, &err), "allgather", &err);
    for (int q = 0; !bad && q < p; q++)
        for (int64_t i = block_begin(n, p, q); i < block_begin(n, p, q + 1);
             i++)
            bad |= get_value(b.out, i, t) != made_value(q, i, t);
    if (bad)
        fprintf(stderr, "allgather of %" PRId64 " on %d is wrong\n", n, p);
    drop_buffers(b);
    return bad;
}

/* Element i of the block from q to r is made_value(q, r*n + i). */
static inline int check_alltoall(pdl_comm *c, int64_t n, enum pdl_comm_type t)
{
    int p = pdl_comm_size(c), r = pdl_comm_rank(c), bad;
    struct buffers b = take_buffers(n * p * 8);
    struct pdl_err err = {"", ""};

    fill_values(b.in, n * p, r, 0, t);
    bad = said(pdl_comm_alltoall(c, b.in, b.out, n, t, &err), "alltoall", &err);
    for (int q = 0; !bad && q < p; q++)
        for (int64_t i = 0; i < n; i++)
            bad |=
                get_value(b.out, q * n + i, t) != made_value(q, r * n + i, t);
    if (bad)
        fprintf(stderr, "alltoall of %" PRId64 " on %d is wrong\n", n, p);
    drop_buffers(b);
    return bad;
}

static inline int check_broadcast(pdl_comm *c, int64_t n, enum pdl_comm_type t,
                                  int root)
{
    struct buffers b = take_buffers(n * 8);
    struct pdl_err err = {"", ""};
    int bad;

    if (pdl_comm_rank(c) == root)
        fill_values(b.out, n, root, 0, t);
    bad =
        said(pdl_comm_broadcast(c, b.out, n, t, root, &err), "broadcast", &err);
    for (int64_t i = 0; !bad && i < n; i++)
        bad |= get_value(b.out, i, t) != made_value(root, i, t);
    if (bad)
        fprintf(stderr, "broadcast of %" PRId64 " from %d is wrong\n", n, root);
    drop_buffers(b);
    return bad;
}

/* Everyone sends everyone (itself too) three messages of two tags. */
static inline int check_exchange(pdl_comm *c, int64_t bytes)
{
    enum { EACH = 3 };
    static const int tags[EACH] = {5, 9, 5};
    int p = pdl_comm_size(c), me = pdl_comm_rank(c), n = p * EACH, bad;
    struct pdl_comm_message *s = calloc((size_t)n, sizeof *s);
    struct pdl_comm_message *r = calloc((size_t)n, sizeof *r);
    struct buffers b = take_buffers(n * bytes);
    struct pdl_err err = {"", ""};
    pdl_comm_request *req;
    enum pdl_status st;

    for (int q = 0; q < p; q++)
        for (int k = 0; k < EACH; k++) {
            int i = q * EACH + k, j = q * EACH + (k + 1) % EACH;

            memset(b.in + i * bytes, me * 31 + q * 7 + k, (size_t)bytes);
            s[i] =
                (struct pdl_comm_message){q, tags[k], b.in + i * bytes, bytes};
            if (q == me)
                j = i;
            /* ask in another order: tags decide, then order */
            r[j] = (struct pdl_comm_message){q, tags[k], NULL, bytes};
        }
    for (int q = 0; q < p; q++) {
        int first = 0; /* the first of tag 5 in this order is message 0 */

        for (int k = 0; k < EACH; k++) {
            struct pdl_comm_message *m = &r[q * EACH + k];
            int which = m->tag == 9 ? 1 : first++ == 0 ? 0 : 2;

            m->data = b.out + (q * EACH + which) * bytes;
        }
    }
    st = pdl_comm_start_exchange(c, n, s, n, r, &req, &err);
    if (st == PDL_OK)
        st = pdl_comm_wait(req, &err);
    bad = said(st, "exchange", &err);
    for (int q = 0; !bad && q < p; q++)
        for (int k = 0; k < EACH; k++)
            for (int64_t i = 0; i<bytes; i += bytes> 999 ? 997 : 1)
                bad |= (unsigned char)b.out[(q * EACH + k) * bytes + i] !=
                       (unsigned char)(q * 31 + me * 7 + k);
    if (bad)
        fprintf(stderr, "exchange of %" PRId64 " bytes on %d is wrong\n", bytes,
                p);
    free(s);
    free(r);
    drop_buffers(b);
    return bad;
}

/* Several started at once, tested, then waited for in another order. */
static inline int check_started(pdl_comm *c, int64_t n)
{
    enum { AT_ONCE = 5 };
    struct buffers b[AT_ONCE];
    pdl_comm_request *req[AT_ONCE];
    struct pdl_err err = {"", ""};
    bool done;
    int bad = 0;

    for (int k = 0; k < AT_ONCE; k++) {
        b[k] = take_buffers((n + k) * 8);
        fill_values(b[k].in, n + k, pdl_comm_rank(c), 0, PDL_COMM_F32);
        bad |= said(
            pdl_comm_start_allreduce(c, b[k].in, b[k].out, n + k, PDL_COMM_F32,
                                     PDL_COMM_SUM, &req[k], &err),
            "start", &err);
    }
    bad |= said(pdl_comm_test(req[2], &done, &err), "test", &err);
    for (int k = AT_ONCE - 1; k >= 0; k--) {
        bad |= said(pdl_comm_wait(req[k], &err), "wait", &err);
        bad |= check_reduced("started", c, b[k].out, 0, n + k, PDL_COMM_F32,
                             PDL_COMM_SUM);
        drop_buffers(b[k]);
    }
    return bad;
}

static inline int check_others(pdl_comm *c, int64_t n, enum pdl_comm_type t)
{
    struct pdl_err err = {"", ""};
    int bad = check_reduce_scatter(c, n, t, PDL_COMM_SUM);

    bad |= check_reduce_scatter(c, n, t, PDL_COMM_MAX);
    bad |= check_allgather(c, n, t);
    bad |= check_alltoall(c, n / pdl_comm_size(c) + 1, t);
    bad |= check_broadcast(c, n, t, 0);
    bad |= check_broadcast(c, n, t, pdl_comm_size(c) - 1);
    bad |= said(pdl_comm_barrier(c, &err), "barrier", &err);
    return bad;
}

/* Halves of the ranks, backwards, and then all of them again. */
static inline int check_subset(pdl_comm *c)
{
    int p = pdl_comm_size(c), me = pdl_comm_rank(c), n = 0, bad;
    int *ranks = calloc((size_t)p, sizeof *ranks);
    struct pdl_err err = {"", ""};
    pdl_comm *half = NULL;
    double mine[2] = {me, 1}, sum[2], want = 0;

    for (int r = p - 1; r >= 0; r--)
        if (r % 2 == me % 2) {
            ranks[n++] = r;
            want += r;
        }
    bad = said(pdl_comm_subset(c, n, ranks, &half, &err), "subset", &err);
    if (!bad)
        bad = said(pdl_comm_allreduce(half, mine, sum, 2, PDL_COMM_F64,
                                      PDL_COMM_SUM, &err),
                   "a subset's allreduce", &err);
    if (!bad &&
        (sum[0] != want || sum[1] != n || ranks[pdl_comm_rank(half)] != me))
        bad = 1, fprintf(stderr, "subset of %d is wrong\n", p);
    pdl_comm_destroy(half);
    free(ranks);
    bad |= said(pdl_comm_barrier(c, &err), "barrier", &err);
    return bad;
}

/* Values whose sums round: wide exponents, no two ranks alike. */
static inline void fill_rough(void *p, int64_t n, int rank,
                              enum pdl_comm_type t)
{
    for (int64_t i = 0; i < n; i++) {
        struct pdl_rng4 r = pdl_philox(11, (uint64_t)rank, (uint64_t)i);
        double v = ((double)r.v[0] / 0x1p31 - 1) * (1 << r.v[1] % 8);

        if (t == PDL_COMM_F16)
            ((uint16_t *)p)[i] = (uint16_t)(r.v[2] % 0x7000 | r.v[3] << 15);
        else if (t == PDL_COMM_I32 || t == PDL_COMM_I64)
            put_value(p, i, t, (int32_t)r.v[0]);
        else
            put_value(p, i, t, v);
    }
}

/* With the fixed order the result has the bits of the sum in rank order,
 * made here one vector after the other. */
static inline int check_bits(pdl_comm *c, int64_t n, enum pdl_comm_type t,
                             enum pdl_comm_op op, const char *what)
{
    struct buffers b = take_buffers(n * 8), want = take_buffers(n * 8);
    struct pdl_err err = {"", ""};
    int p = pdl_comm_size(c), bad;

    fill_rough(want.out, n, 0, t);
    for (int r = 1; r < p; r++) {
        fill_rough(want.in, n, r, t);
        comm_reduce(want.out, want.in, n, t, op);
    }
    fill_rough(b.in, n, pdl_comm_rank(c), t);
    bad = said(pdl_comm_allreduce(c, b.in, b.out, n, t, op, &err), what, &err);
    if (!bad && memcmp(b.out, want.out, (size_t)(n * comm_type_bytes(t))) != 0)
        bad = 1, fprintf(stderr, "%s: other bits in %" PRId64 " %s on %d\n",
                         what, n, comm_type_name(t), p);
    drop_buffers(b);
    drop_buffers(want);
    return bad;
}

static inline int check_all_bits(pdl_comm *c, const char *what)
{
    static const int64_t counts[] = {1, 1000, 3001, 90001};
    int bad = 0;

    for (int t = 0; t < PDL_NCOMM_TYPES; t++)
        for (int i = 0; i < 3; i++)
            bad |= check_bits(c, counts[i], (enum pdl_comm_type)t,
                              i % 2 ? PDL_COMM_MAX : PDL_COMM_SUM, what);
    for (int i = 0; i < 4; i++)
        bad |= check_bits(c, counts[i], PDL_COMM_F32, PDL_COMM_SUM, what);
    return bad;
}

/* More messages than a lane holds, asked for from the last to the first. */
static inline int check_backwards(pdl_comm *c, int64_t bytes)
{
    enum { MANY = 40 };
    int p = pdl_comm_size(c), me = pdl_comm_rank(c), bad = 0;
    int to = (me + 1) % p, from = (me + p - 1) % p;
    struct buffers b = take_buffers(MANY * bytes);
    pdl_comm_request *sent[MANY], *got;
    struct pdl_err err = {"", ""};

    for (int i = 0; i < MANY && p > 1; i++) {
        struct pdl_comm_message m = {to, i, b.in + i * bytes, bytes};

        memset(m.data, me + i, (size_t)bytes);
        bad |= said(pdl_comm_start_exchange(c, 1, &m, 0, NULL, &sent[i], &err),
                    "send", &err);
    }
    for (int i = MANY - 1; i >= 0 && p > 1; i--) {
        struct pdl_comm_message m = {from, i, b.out + i * bytes, bytes};

        bad |= said(pdl_comm_start_exchange(c, 0, NULL, 1, &m, &got, &err),
                    "receive", &err);
        bad |= said(pdl_comm_wait(got, &err), "wait", &err);
        for (int64_t k = 0; k < bytes; k++)
            bad |= b.out[i * bytes + k] != (char)(from + i);
    }
    for (int i = 0; i < MANY && p > 1; i++)
        bad |= said(pdl_comm_wait(sent[i], &err), "sent", &err);
    if (bad)
        fprintf(stderr, "backwards, %" PRId64 " bytes: wrong\n", bytes);
    drop_buffers(b);
    return bad;
}

/* ---- two communicators at once ------------------------------------------ */

struct second {
    pdl_comm *c;
    int bad;
};

static void *second_main(void *arg)
{
    struct second *s = arg;

    for (int64_t n = 1; n < 200000; n = 3 * n + 1)
        s->bad |= check_allreduce(s->c, n, PDL_COMM_F64, PDL_COMM_SUM, true,
                                  "second thread");
    return NULL;
}

static inline int check_two_threads(pdl_comm *c, pdl_comm *other)
{
    struct second s = {other, 0};
    pthread_t thread;
    int bad = 0;

    if (pthread_create(&thread, NULL, second_main, &s) != 0)
        return 1;
    for (int64_t n = 100000; n > 0; n /= 3)
        bad |= check_allreduce(c, n, PDL_COMM_F32, PDL_COMM_MIN, false,
                               "first thread");
    pthread_join(thread, NULL);
    return bad | s.bad;
}

/* ---- virtual ranks ------------------------------------------------------ */

typedef int rank_body(pdl_comm *c, void *ctx);

struct rank_thread {
    pthread_t thread;
    pdl_comm *comm;
    rank_body *body;
    void *ctx;
    int bad;
};

static void *rank_main(void *arg)
{
    struct rank_thread *t = arg;

    t->bad = t->body(t->comm, t->ctx);
    pdl_comm_destroy(t->comm);
    return NULL;
}

/* Runs body on n threads, each with its communicator. */
static inline int on_ranks(int n, const struct pdl_comm_options *opt,
                           rank_body *body, void *ctx)
{
    struct rank_thread *t = calloc((size_t)n, sizeof *t);
    pdl_comm **comms = calloc((size_t)n, sizeof(pdl_comm *));
    struct pdl_err err = {"", ""};
    int bad = said(pdl_comm_create_memory(n, opt, comms, &err), "virtual ranks",
                   &err);

    for (int r = 0; !bad && r < n; r++) {
        t[r] = (struct rank_thread){.comm = comms[r], .body = body, .ctx = ctx};
        if (pthread_create(&t[r].thread, NULL, rank_main, &t[r]) != 0)
            abort();
    }
    for (int r = 0; !bad && r < n; r++)
        pthread_join(t[r].thread, NULL);
    for (int r = 0; r < n; r++)
        bad |= t[r].bad;
    free(comms);
    free(t);
    return bad;
}

#endif
