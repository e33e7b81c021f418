/* SPDX-License-Identifier: Apache-2.0
 *
 * Seconds of a local operation from a profile of the machine: rows that
 * `paradl calibrate` took while networks of its own trained, on all PEs of the
 * node at once ("run.*") and on one alone ("alone.*"). PEs share caches and
 * memory, so how many are busy counts: those that the plan uses, of a pipeline
 * as many as its schedule keeps busy on the mean, and between one and all in
 * proportion.
 *
 * Of the rows of the operator, the pass and the class (kernel size, stride) a
 * time is made of four parts, none of them negative: work, activations, weights
 * and a call (Winograd transforms activations and weights, and multiplies in
 * between; a thin product waits for its weights). The rates are those that fit
 * the rows best, each by its relative error. What is left over is taken from
 * the rows nearest in samples, channels, filters and pixels, or in bytes:
 * inverse distances of logarithms (D. Shepard, A two-dimensional interpolation
 * function for irregularly-spaced data, ACM 1968).
 *
 * What the probes do not have is priced by kinds of work: a kernel size by the
 * operator's other sizes, an operator by the others that do the same to memory
 * (or that multiply), in the same pass and precision.
 *
 * Chosen by leaving rows out one at a time: the parts alone or the nearest
 * rows alone err more. So was what differs for a device, probe by probe:
 * samples and pixels of its convolutions are one extent that fills no tiles,
 * its matrix units take channels and filters by tiles, and what divides them
 * decides which kernels there are. Operations are timed one by one there, and
 * between two that nobody looks at less time passes: the steps of the probes
 * say how much. */
#include "oracle/context.h"

#include <math.h>
#include <string.h>

enum { PARTS = 4, TURNS = 200, MAX_ROWS = 1024 };
/* Fewer rows than this do not tell the parts apart: the operator's other
 * classes then say the rates, and the rows how much is left over. */
enum { ENOUGH = 2 * PARTS };

/* Channels that matrix units take at once, for 16 bits. */
enum { WIDE = 64 };

/* Rows this near (squared, in octaves) to each other count as one. */
static const double NEAR2 = .02;

/* What is asked for: seconds with all PEs busy or one, or the bytes an
 * operation works in. */
enum asked { BUSY, ALONE, WORKSPACE };

/* How near of kin rows are to what is asked for. */
enum kin { SAME_CLASS, SAME_OPERATOR, SAME_KIND };

struct likes {
    const struct pdl_profile_row *row[MAX_ROWS];
    double value[MAX_ROWS];
    int n;
    bool core;          /* of processors; else of a device */
    bool tiles;         /* ... which multiplies tiles */
    double rate[PARTS]; /* of one of each part */
};

/* Operators whose time is arithmetic; of all others it is memory. */
static bool multiplies(const char *op)
{
    static const char *const names[] = {"conv",   "conv_transpose", "linear",
                                        "matmul", "attention",      "experts"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], op) == 0)
            return true;
    return false;
}

static bool same_class(const struct pdl_profile_row *r,
                       const struct pdl_plan_key *k)
{
    for (int i = PDL_KEY_CLASS; i < PDL_KEY_EXTENTS; i++)
        if (r->dims[i] != k->dims[i])
            return false;
    return true;
}

static bool is_grouped(const int64_t *dims)
{
    return dims[PDL_KEY_CLASS + 2] > 0;
}

/* Of enough channels on both sides the runtime transforms the tiles of 3 x 3,
 * in a workspace many times that of the other kernels. */
static bool transforms(const int64_t *dims)
{
    const int64_t *e = dims + PDL_KEY_EXTENTS;

    return dims[PDL_KEY_CLASS] == 9 && dims[PDL_KEY_CLASS + 1] == 1 &&
           !is_grouped(dims) && e[1] >= PDL_KEY_WIDE && e[2] >= PDL_KEY_WIDE;
}

/* Only keys of convolutions have channels to ask. */
static bool has_same_kernel(const int64_t *a, const int64_t *b, int ndims)
{
    return ndims != PDL_KEY_EXTENTS + 4 || transforms(a) == transforms(b);
}

/* An update or a copy is like nothing else. */
static bool is_alike(const struct pdl_profile_row *r,
                     const struct pdl_plan_key *k, const char *precision,
                     const char *set, enum kin kin)
{
    size_t n = strlen(set);
    const char *op = r->op + n;

    if (strncmp(r->op, set, n) != 0 || r->ndims != k->ndims + 1 || !r->pass ||
        strcmp(r->pass, k->pass) != 0 ||
        (r->precision && strcmp(r->precision, precision) != 0) ||
        !(r->seconds > 0))
        return false;
    if (kin == SAME_KIND)
        return multiplies(op) == multiplies(k->op) && pdl_op_find(op) &&
               pdl_op_find(k->op);
    if (strcmp(op, k->op) != 0)
        return false;
    return kin == SAME_CLASS ? same_class(r, k)
                             : k->ndims != PDL_KEY_EXTENTS + 4 ||
                                   is_grouped(r->dims) == is_grouped(k->dims);
}

static bool is_conv(int ndims)
{
    return ndims == PDL_KEY_EXTENTS + 4;
}

/* Pixels of all samples: to a device they are one extent, and none too many;
 * processors compute whole tiles. */
static double pixels(const int64_t *d, bool core)
{
    const int64_t *e = d + PDL_KEY_EXTENTS;
    double each = 2 * (double)e[1] * (double)e[2] * (double)d[PDL_KEY_CLASS];

    return core || is_grouped(d) || !(each > 0) || d[PDL_KEY_FLOPS] <= 0
               ? (double)e[0] * (double)e[3]
               : (double)d[PDL_KEY_FLOPS] / each;
}

static double whole_tiles(double channels)
{
    return ceil(channels / WIDE) * WIDE;
}

/* How much there is of each part. */
static void parts_of(const struct likes *l, const int64_t *d, int ndims,
                     double *x)
{
    const int64_t *e = d + PDL_KEY_EXTENTS;

    x[0] = (double)d[PDL_KEY_FLOPS];
    x[1] = (double)d[PDL_KEY_BYTES];
    x[2] = 0;
    x[3] = 1;
    if (is_conv(ndims)) {
        double c = (double)e[1], f = (double)e[2], n = pixels(d, l->core);

        if (l->core && !is_grouped(d))
            x[0] = 2 * n * c * f * (double)d[PDL_KEY_CLASS];
        if (l->tiles && !is_grouped(d))
            x[0] = 2 * n * whole_tiles(c) * whole_tiles(f) *
                   (double)d[PDL_KEY_CLASS];
        x[1] = n * (c * (double)d[PDL_KEY_CLASS + 1] + f);
        if (is_grouped(d)) /* of its group only */
            c = (double)d[PDL_KEY_CLASS + 2];
        x[2] = c * f * (double)d[PDL_KEY_CLASS];
    } else if (ndims == PDL_KEY_EXTENTS + 3) { /* a matrix product */
        x[1] = (double)e[0] * (double)(e[1] + e[2]);
        x[2] = (double)e[1] * (double)e[2];
    }
}

static double by_parts(const struct likes *l, const int64_t *dims, int ndims)
{
    double x[PARTS], t = 0;

    parts_of(l, dims, ndims, x);
    for (int i = 0; i < PARTS; i++)
        t += l->rate[i] * x[i];
    return t > 1e-12 ? t : 1e-12;
}

/* Least squares of relative errors, no rate below zero, one at a time: the
 * function is convex and has few variables. */
static void fit(struct likes *l, int ndims)
{
    double g[PARTS][PARTS] = {{0}}, b[PARTS] = {0}, most[PARTS] = {0};
    double x[PARTS], y[PARTS] = {0};

    for (int r = 0; r < l->n; r++) {
        parts_of(l, l->row[r]->dims, ndims, x);
        for (int i = 0; i < PARTS; i++)
            most[i] = fmax(most[i], x[i]);
    }
    for (int r = 0; r < l->n; r++) {
        parts_of(l, l->row[r]->dims, ndims, x);
        for (int i = 0; i < PARTS; i++)
            x[i] = most[i] > 0 ? x[i] / most[i] / l->value[r] : 0;
        for (int i = 0; i < PARTS; i++) {
            b[i] += x[i];
            for (int j = 0; j < PARTS; j++)
                g[i][j] += x[i] * x[j];
        }
    }
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < PARTS; i++) {
            double rest = b[i];

            for (int j = 0; j < PARTS; j++)
                rest -= j == i ? 0 : g[i][j] * y[j];
            y[i] = g[i][i] > 0 && rest > 0 ? rest / g[i][i] : 0;
        }
    for (int i = 0; i < PARTS; i++)
        l->rate[i] = most[i] > 0 ? y[i] / most[i] : 0;
}

static double octaves2(double a, double b)
{
    double d = a > 0 && b > 0 ? log2(a / b) : 0;

    return d * d;
}

/* The power of two that divides it, up to a tile. */
static double divisor(int64_t channels)
{
    int64_t d = 1;

    while (d < WIDE && channels % (2 * d) == 0)
        d *= 2;
    return (double)d;
}

/* Squared distance in octaves. */
static double distance2(const struct pdl_profile_row *r,
                        const struct pdl_plan_key *k, bool core)
{
    bool extents = k->ndims > PDL_KEY_EXTENTS;
    int first = extents ? PDL_KEY_EXTENTS : PDL_KEY_BYTES;
    int end = extents ? k->ndims : PDL_KEY_BYTES + 1;
    double sum = 0;

    if (!core && is_conv(k->ndims)) {
        sum = octaves2(pixels(r->dims, core), pixels(k->dims, core));
        first++;
        end--;
    }
    for (int i = first; i < end; i++)
        sum += octaves2((double)r->dims[i], (double)k->dims[i]);
    for (int i = 1; !core && extents && i < 3; i++)
        sum += octaves2(divisor(r->dims[PDL_KEY_EXTENTS + i]),
                        divisor(k->dims[PDL_KEY_EXTENTS + i]));
    return sum;
}

/* By how much the rows around lie above the fit. */
static double left_over(const struct likes *l, const struct pdl_plan_key *k)
{
    double sum = 0, weights = 0;

    for (int i = 0; i < l->n; i++) {
        const struct pdl_profile_row *r = l->row[i];
        double d2 = distance2(r, k, l->core) + NEAR2, w = 1 / (d2 * d2);

        sum += w * log(l->value[i] / by_parts(l, r->dims, k->ndims));
        weights += w;
    }
    return exp(sum / weights);
}

bool oracle_has_profile(const struct oracle *o)
{
    return o->pe.own && o->sys->pe.nprofile > 0;
}

/* What is asked of a profile. */
struct question {
    const struct pdl_pe *pe;
    const char *precision;
    struct pdl_plan_key key;
    enum asked what;
};

/* The rows of one kin; how many there were with or without a value. */
static int find_rows(const struct question *q, enum kin kin, struct likes *l)
{
    const char *set = q->what == ALONE ? "alone." : "run.";
    int alike = 0;

    l->n = 0;
    l->core = q->pe->arch && strcmp(q->pe->arch, "cpu") == 0;
    l->tiles = !l->core && strcmp(q->precision, "fp32") != 0;
    for (int64_t i = 0; i < q->pe->nprofile && l->n < MAX_ROWS; i++) {
        const struct pdl_profile_row *r = &q->pe->profile[i];

        if (!is_alike(r, &q->key, q->precision, set, kin) ||
            (q->what == WORKSPACE &&
             !has_same_kernel(r->dims, q->key.dims, q->key.ndims)))
            continue;
        alike++;
        l->row[l->n] = r;
        l->value[l->n] =
            q->what == WORKSPACE ? (double)r->dims[r->ndims - 1] : r->seconds;
        l->n += l->value[l->n] > 0;
    }
    return alike;
}

/* < 0: there are no rows like it. Nobody guesses a workspace by its kind, nor
 * by other classes where two rows of its own tell: another kernel has
 * another. */
static double answer(const struct question *q)
{
    int last = q->what == WORKSPACE ? SAME_OPERATOR : SAME_KIND, alike = 0;
    struct likes l, wide;

    for (int kin = 0; kin <= last && alike == 0; kin++)
        alike = find_rows(q, (enum kin)kin, &l);
    if (alike == 0 || l.n == 0)
        return alike > 0 ? 0 : -1;
    if (l.n >= ENOUGH || (q->what == WORKSPACE && l.n > 1) ||
        find_rows(q, SAME_OPERATOR, &wide) < l.n) {
        fit(&l, q->key.ndims);
    } else {
        fit(&wide, q->key.ndims);
        memcpy(l.rate, wide.rate, sizeof l.rate);
    }
    return by_parts(&l, q->key.dims, q->key.ndims) * left_over(&l, &q->key);
}

/* The group that the operation is run in, and its key, where rows have an
 * answer for it in this precision; NULL: its operations are asked for one by
 * one. */
static const struct pdl_plan_group *group_of(const struct oracle *o, int op,
                                             int64_t rank, struct question *q)
{
    const struct pdl_plan_group *g;

    if (!o->pe.joins || !o->p->group || o->p->group[op] < 0)
        return NULL;
    g = &o->p->groups[o->p->group[op]];
    if (!pdl_plan_group_key(o->p, g, rank, &q->key))
        return NULL;
    for (int64_t i = 0; i < q->pe->nprofile; i++)
        if (is_alike(&q->pe->profile[i], &q->key, q->precision, "run.",
                     SAME_OPERATOR))
            return g;
    return NULL;
}

/* Its first operation has all that a group takes. */
static double ask(const struct oracle *o, int op, int64_t rank, enum asked what)
{
    struct question q = {.pe = &o->sys->pe,
                         .precision = pdl_precision_name(o->opt->precision),
                         .what = what};
    const struct pdl_plan_group *g = group_of(o, op, rank, &q);

    if (g && g->op[0] != op)
        return 0;
    if (!g && !pdl_plan_op_key(o->p, op, rank, &q.key))
        return -1;
    if (o->p->ops[op].kind == PDL_PLAN_OP_UPDATE)
        q.key.dims[PDL_KEY_CLASS] = o->opt->optimizer_slots;
    return answer(&q);
}

double pdl_profile_estimate(const struct pdl_pe *pe,
                            const struct pdl_profile_row *row)
{
    struct question q = {.pe = pe,
                         .precision = row->precision ? row->precision : "",
                         .what = BUSY};
    static const char set[] = "run.";

    if (strncmp(row->op, set, sizeof set - 1) != 0 || !row->pass ||
        row->ndims <= PDL_KEY_EXTENTS || row->ndims > PDL_KEY_DIMS + 1)
        return -1;
    q.key.op = row->op + sizeof set - 1;
    q.key.pass = row->pass;
    q.key.ndims = (int)row->ndims - 1;
    memcpy(q.key.dims, row->dims, (size_t)q.key.ndims * sizeof q.key.dims[0]);
    return answer(&q);
}

/* A step's row: operations, nanoseconds of all of them one by one, bytes; and
 * the seconds of a step that goes by itself. */
double oracle_watched(const struct pdl_pe *pe, const char *precision)
{
    double each[MAX_ROWS];
    int n = 0;

    for (int64_t i = 0; i < pe->nprofile && n < MAX_ROWS; i++) {
        const struct pdl_profile_row *r = &pe->profile[i];

        if (strcmp(r->op, "step") == 0 && r->ndims == 3 && r->dims[0] > 0 &&
            r->precision && strcmp(r->precision, precision) == 0)
            each[n++] =
                ((double)r->dims[1] * 1e-9 - r->seconds) / (double)r->dims[0];
    }
    pdl_sort(each, n);
    return n > 0 ? fmax(each[n / 2], 0) : 0;
}

double pdl_unwatched(double seconds, double watched_s)
{
    return fmax(seconds - watched_s, seconds / 4);
}

static double profiled(const struct oracle *o, int op, int64_t rank)
{
    double all, one;

    if (!oracle_has_profile(o))
        return -1;
    all = o->busy > 0 ? ask(o, op, rank, BUSY) : -1;
    one = o->busy < 1 ? ask(o, op, rank, ALONE) : all;
    if (one < 0) /* nobody measured that */
        return all < 0 ? ask(o, op, rank, BUSY) : all;
    return all < 0 ? one : one + o->busy * (all - one);
}

double oracle_profiled(const struct oracle *o, int op, int64_t rank)
{
    double t = profiled(o, op, rank);

    return t > 0 ? pdl_unwatched(t, o->pe.watched_s) : t;
}

double oracle_profiled_bytes(const struct oracle *o, const char *op,
                             int64_t bytes)
{
    struct question q = {.pe = &o->sys->pe,
                         .precision = pdl_precision_name(o->opt->precision),
                         .key = {.op = op,
                                 .pass = "forward",
                                 .dims = {[PDL_KEY_BYTES] = bytes},
                                 .ndims = PDL_KEY_EXTENTS},
                         .what = BUSY};
    struct likes l;
    double all, one;

    if (!oracle_has_profile(o) || find_rows(&q, SAME_OPERATOR, &l) == 0)
        return -1;
    if (bytes <= 0)
        return 0;
    one = all = answer(&q);
    q.what = ALONE;
    if (find_rows(&q, SAME_OPERATOR, &l) > 0)
        one = answer(&q);
    return one + o->busy * (all - one);
}

double oracle_busy(const struct oracle *o, double lanes)
{
    double pes = (double)o->sys->node.pes, used = (double)o->p->mesh->pes;

    if (!oracle_has_profile(o) || pes < 2)
        return 1;
    used = fmin(used, pes) * lanes / (double)o->p->lanes;
    return fmin(fmax(used - 1, 0) / (pes - 1), 1);
}

int64_t oracle_workspace(const struct oracle *o, int op, int64_t rank)
{
    double n = o->opt->parameters == PDL_IDEAL || !oracle_has_profile(o) ||
                       o->p->ops[op].kind != PDL_PLAN_OP_COMPUTE
                   ? 0
                   : ask(o, op, rank, WORKSPACE);

    return n > 0 ? (int64_t)n : 0;
}
