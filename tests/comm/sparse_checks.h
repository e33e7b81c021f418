/* What every rank checks of a sparse allreduce; see comm_checks.h. */
#ifndef SPARSE_CHECKS_H
#define SPARSE_CHECKS_H

#include "comm_checks.h"
#include "comm_sparse.h"

/* How the elements given lie; each rank has its own. */
enum layout { RANDOM, SAME, CLUSTERED, NONE_ON_SOME, AS_DENSE, NLAYOUTS };

static inline bool given(enum layout l, int rank, int64_t i, int64_t dim,
                         double density)
{
    int who = l == SAME ? 0 : rank;
    double u = pdl_philox(11, (uint64_t)who, (uint64_t)i).v[0] / 4294967296.0;

    if (l == AS_DENSE || (l == NONE_ON_SOME && rank % 2))
        return l == AS_DENSE;
    if (l == CLUSTERED)
        return i < dim / 8 && u < 8 * density;
    return u < density;
}

/* exact: small multiples of 1/64, whose sums are exact. */
static inline float element(int rank, int64_t i, bool exact)
{
    uint32_t u = pdl_philox(12, (uint64_t)rank, (uint64_t)i).v[0];

    return exact ? (float)((int)(u % 255) - 127) / 64
                 : (float)ldexp((int32_t)u, (int)(u % 7) - 30);
}

struct sample {
    enum layout layout;
    int64_t dim;
    double density;
    bool exact;
    uint32_t *index;
    float *value;
    struct pdl_sparse x;
};

static inline void make_sample(struct sample *s, int rank)
{
    size_t room = (size_t)s->dim + 1;
    int64_t n = 0;

    s->index = calloc(room, sizeof *s->index);
    s->value = calloc(room, sizeof *s->value);
    if (!s->index || !s->value)
        abort();
    for (int64_t i = 0; i < s->dim; i++)
        if (given(s->layout, rank, i, s->dim, s->density)) {
            s->index[n] = (uint32_t)i;
            s->value[n++] = element(rank, i, s->exact);
        }
    s->x = (struct pdl_sparse){
        s->dim, n, s->layout == AS_DENSE ? NULL : s->index, s->value};
}

static inline void drop_sample(struct sample *s)
{
    free(s->index);
    free(s->value);
}

static inline float *as_dense(const struct pdl_sparse *x)
{
    float *d = calloc((size_t)x->dim + 1, sizeof *d);

    if (!d)
        abort();
    pdl_sparse_add(x, 1, d);
    return d;
}

/* The result is well-formed and as short as promised. */
static inline int check_form(const struct pdl_sparse *x)
{
    int bad = x->index ? comm_stream_fills(x->n, x->dim) : x->n != x->dim;

    for (int64_t i = 0; x->index && i < x->n; i++)
        bad |=
            x->index[i] >= x->dim || (i > 0 && x->index[i] <= x->index[i - 1]);
    return bad;
}

/* All ranks have the same bits. */
static inline int check_same(pdl_comm *c, const struct pdl_sparse *x)
{
    uint64_t hash = (uint64_t)x->n;
    int64_t mine[2], most[2];
    struct pdl_err err = {"", ""};

    for (int64_t i = 0; i < x->n; i++) {
        uint32_t u;

        memcpy(&u, &x->value[i], sizeof u);
        hash = (hash ^ u) * 0x9e3779b97f4a7c15u;
        hash = (hash ^ (x->index ? x->index[i] : 1)) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    mine[0] = (int64_t)(hash >> 2);
    mine[1] = -mine[0];
    if (said(pdl_comm_allreduce(c, mine, most, 2, PDL_COMM_I64, PDL_COMM_MAX,
                                &err),
             "compare", &err))
        return 1;
    return most[0] != -most[1];
}

static inline int check_exact(const struct sample *s, int p,
                              const struct pdl_sparse *out)
{
    float *got = as_dense(out);
    int bad = 0;

    for (int64_t i = 0; i < s->dim; i++) {
        double want = 0;

        for (int r = 0; r < p; r++)
            if (given(s->layout, r, i, s->dim, s->density))
                want += element(r, i, true);
        bad |= got[i] != (float)want;
    }
    free(got);
    return bad;
}

/* The same program on the dense vectors adds in the same order. */
static inline int check_order(pdl_comm *c, const struct sample *s,
                              const struct pdl_sparse *out)
{
    float *in = as_dense(&s->x), *got = as_dense(out);
    float *sum = calloc((size_t)s->dim + 1, sizeof *sum);
    struct pdl_err err = {"", ""};
    int bad = said(pdl_comm_allreduce(c, in, sum, s->dim, PDL_COMM_F32,
                                      PDL_COMM_SUM, &err),
                   "dense", &err);

    for (int64_t i = 0; !bad && i < s->dim; i++)
        bad |= got[i] != sum[i];
    free(in);
    free(got);
    free(sum);
    return bad;
}

/* c runs `algorithm` too; in_order: compare with it bit for bit. */
static inline int check_sparse(pdl_comm *c, const char *algorithm,
                               struct sample s, bool in_order)
{
    struct pdl_err err = {"", ""};
    pdl_comm_sparse *op;
    struct pdl_sparse out;
    int bad, p = pdl_comm_size(c);

    make_sample(&s, pdl_comm_rank(c));
    bad = said(
        pdl_comm_sparse_create(c, s.dim, (int64_t)((double)s.dim * s.density),
                               algorithm, &op, &err),
        "sparse", &err);
    for (int again = 0; !bad && again < 2; again++) {
        bad = said(pdl_comm_sparse_allreduce(op, &s.x, &out, &err), "sparse",
                   &err);
        if (bad)
            break;
        bad = check_form(&out) | check_same(c, &out);
        if (s.exact)
            bad |= check_exact(&s, p, &out);
        else if (in_order)
            bad |= check_order(c, &s, &out);
    }
    if (bad)
        fprintf(stderr, "%s: %" PRId64 " elements, layout %d on %d: wrong\n",
                algorithm ? algorithm : "auto", s.dim, (int)s.layout, p);
    else
        pdl_comm_sparse_destroy(op);
    drop_sample(&s);
    return bad;
}

static inline int check_layouts(pdl_comm *c, const char *algorithm,
                                bool in_order, int64_t longest)
{
    static const int64_t dims[] = {0, 1, 3, 7, 1000, 30011, 400000};
    static const double densities[] = {0.0, 0.01, 0.2, 0.6};
    int bad = 0;

    for (int l = 0; l < NLAYOUTS; l++)
        for (int d = 0; d < 7 && dims[d] <= longest; d++)
            for (int q = 0; q < 4; q++)
                for (int exact = 0; exact < 2; exact++)
                    bad |=
                        check_sparse(c, algorithm,
                                     (struct sample){.layout = (enum layout)l,
                                                     .dim = dims[d],
                                                     .density = densities[q],
                                                     .exact = exact},
                                     in_order);
    return bad;
}

/* Algorithms whose order of additions is the same for a dense vector; in the
 * split exchanges of the others arrivals are added as they come. */
static inline bool is_ring(const char *algorithm)
{
    return strncmp(algorithm, "sparse-ring", 11) == 0;
}

#endif
