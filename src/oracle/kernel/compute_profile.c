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
 * Chosen by leaving rows out one at a time: the parts alone or the nearest
 * rows alone err more. Limits: nothing is known of operators and kernel sizes
 * that the probes do not have (they are priced as for any processor). */
#include "oracle/context.h"

#include <math.h>
#include <string.h>

enum { PARTS = 4, TURNS = 200, MAX_ROWS = 256 };

/* Rows this near (squared, in octaves) to each other count as one. */
static const double NEAR2 = .02;

/* What is asked for: seconds with all PEs busy or one, or the bytes an operation
 * works in. */
enum asked { BUSY, ALONE, WORKSPACE };

struct likes {
    const struct pdl_profile_row *row[MAX_ROWS];
    double value[MAX_ROWS];
    int n;
    double rate[PARTS]; /* of one of each part */
};

static bool is_alike(const struct pdl_profile_row *r,
                     const struct pdl_plan_key *k, const char *precision,
                     const char *set)
{
    size_t n = strlen(set);

    if (strncmp(r->op, set, n) != 0 || strcmp(r->op + n, k->op) != 0 ||
        r->ndims != k->ndims + 1 || !r->pass || strcmp(r->pass, k->pass) != 0 ||
        (r->precision && strcmp(r->precision, precision) != 0) ||
        !(r->seconds > 0))
        return false;
    for (int i = PDL_KEY_CLASS; i < PDL_KEY_EXTENTS; i++)
        if (r->dims[i] != k->dims[i])
            return false;
    return true;
}

/* How much there is of each part. */
static void parts_of(const int64_t *d, int ndims, double *x)
{
    const int64_t *e = d + PDL_KEY_EXTENTS;

    x[0] = (double)d[PDL_KEY_FLOPS];
    x[1] = (double)d[PDL_KEY_BYTES];
    x[2] = 0;
    x[3] = 1;
    if (ndims == PDL_KEY_EXTENTS + 4) { /* a convolution */
        double c = (double)e[1], f = (double)e[2];

        if (d[PDL_KEY_CLASS + 2] == 0) /* no groups; tiles are whole */
            x[0] = 2 * (double)e[0] * c * f * (double)e[3] *
                   (double)d[PDL_KEY_CLASS];
        x[1] = (double)e[0] * (double)e[3] *
               (c * (double)d[PDL_KEY_CLASS + 1] + f);
        x[2] = c * f * (double)d[PDL_KEY_CLASS];
    } else if (ndims == PDL_KEY_EXTENTS + 3) { /* a matrix product */
        x[1] = (double)e[0] * (double)(e[1] + e[2]);
        x[2] = (double)e[1] * (double)e[2];
    }
}

static double by_parts(const struct likes *l, const int64_t *dims, int ndims)
{
    double x[PARTS], t = 0;

    parts_of(dims, ndims, x);
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
        parts_of(l->row[r]->dims, ndims, x);
        for (int i = 0; i < PARTS; i++)
            most[i] = fmax(most[i], x[i]);
    }
    for (int r = 0; r < l->n; r++) {
        parts_of(l->row[r]->dims, ndims, x);
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

/* Squared distance in octaves. */
static double distance2(const struct pdl_profile_row *r,
                        const struct pdl_plan_key *k)
{
    bool extents = k->ndims > PDL_KEY_EXTENTS;
    int first = extents ? PDL_KEY_EXTENTS : PDL_KEY_BYTES;
    int end = extents ? k->ndims : PDL_KEY_BYTES + 1;
    double sum = 0;

    for (int i = first; i < end; i++)
        if (r->dims[i] > 0 && k->dims[i] > 0) {
            double d = log2((double)r->dims[i] / (double)k->dims[i]);

            sum += d * d;
        }
    return sum;
}

/* By how much the rows around lie above the fit. */
static double left_over(const struct likes *l, const struct pdl_plan_key *k)
{
    double sum = 0, weights = 0;

    for (int i = 0; i < l->n; i++) {
        const struct pdl_profile_row *r = l->row[i];
        double d2 = distance2(r, k) + NEAR2, w = 1 / (d2 * d2);

        sum += w * log(l->value[i] / by_parts(l, r->dims, k->ndims));
        weights += w;
    }
    return exp(sum / weights);
}

bool oracle_has_profile(const struct oracle *o)
{
    return o->pe.core && o->sys->pe.nprofile > 0;
}

/* < 0: there are no rows like it. */
static double ask(const struct oracle *o, int op, int64_t rank, enum asked what)
{
    const struct pdl_pe *pe = &o->sys->pe;
    const char *precision = pdl_precision_name(o->opt->precision);
    struct pdl_plan_key k;
    struct likes l;
    int alike = 0;

    if (!pdl_plan_op_key(o->p, op, rank, &k))
        return -1;
    l.n = 0;
    if (o->p->ops[op].kind == PDL_PLAN_OP_UPDATE)
        k.dims[PDL_KEY_CLASS] = o->opt->optimizer_slots;
    for (int64_t i = 0; i < pe->nprofile && l.n < MAX_ROWS; i++) {
        const struct pdl_profile_row *r = &pe->profile[i];

        if (!is_alike(r, &k, precision, what == ALONE ? "alone." : "run."))
            continue;
        alike++;
        l.row[l.n] = r;
        l.value[l.n] =
            what == WORKSPACE ? (double)r->dims[r->ndims - 1] : r->seconds;
        l.n += l.value[l.n] > 0;
    }
    if (l.n == 0)
        return alike > 0 ? 0 : -1;
    fit(&l, k.ndims);
    return by_parts(&l, k.dims, k.ndims) * left_over(&l, &k);
}

double oracle_profiled(const struct oracle *o, int op, int64_t rank)
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
