/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitions: which client has which samples. A way (one file and one row
 * here) says who owns each sample; what all of them need is here: samples in a
 * random order, class by class, shares of a Dirichlet distribution, and the
 * lists that come out. Everything is drawn in one order from one generator, so
 * that a partition is a function of its options, whoever asks for it. */
#include "data_priv.h"

#include <math.h>
#include <string.h>

/* To add one: its file, a declaration in data_priv.h, a row here. */
static const struct data_partition *const ways[] = {
    &data_partition_iid,          &data_partition_dirichlet,
    &data_partition_pathological, &data_partition_cluster,
    &data_partition_quantity,
};
enum { NWAYS = sizeof ways / sizeof ways[0] };

const struct pdl_sampling *pdl_partition_at(int i)
{
    return i >= 0 && i < NWAYS ? &ways[i]->is : NULL;
}

/* ---- draws ---------------------------------------------------------- */

static double normal(struct pdl_rng *r)
{
    double u = 1 - pdl_rng_unit(r), v = pdl_rng_unit(r);

    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* Marsaglia and Tsang, ACM TOMS 26(3), 2000, of shape a >= 1. */
static double gamma_of(struct pdl_rng *r, double a)
{
    double d = a - 1.0 / 3, c = 1 / sqrt(9 * d);

    for (;;) {
        double x = normal(r), v = 1 + c * x, u = 1 - pdl_rng_unit(r);

        v = v * v * v;
        if (v > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}

/* The logarithm: of a small shape the number itself is often too small. */
static double log_gamma_of(struct pdl_rng *r, double a)
{
    double boost = a < 1 ? log(1 - pdl_rng_unit(r)) / a : 0;

    return log(gamma_of(r, a < 1 ? a + 1 : a)) + boost;
}

void data_draw_shares(struct data_split *s, double alpha)
{
    int64_t n = s->opt->clients;
    double most = -INFINITY, sum = 0;

    for (int64_t i = 0; i < n; i++) {
        s->share[i] = log_gamma_of(&s->rng, alpha);
        most = s->share[i] > most ? s->share[i] : most;
    }
    for (int64_t i = 0; i < n; i++)
        sum += s->share[i] = exp(s->share[i] - most);
    for (int64_t i = 0; i < n; i++)
        s->share[i] /= sum;
}

void data_deal_shares(struct data_split *s, int64_t from, int64_t to)
{
    double sum = 0, n = (double)(to - from);
    int64_t at = from, last = s->opt->clients - 1;

    for (int64_t i = 0; i <= last; i++) {
        int64_t end = from + (int64_t)floor((sum += s->share[i]) * n + 0.5);

        end = i == last || end > to ? to : end;
        for (; at < end; at++)
            s->owner[s->list[at]] = i;
    }
}

/* ---- clients that came out too small -------------------------------- */

static int64_t largest(const double *count, int64_t n)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++)
        if (count[i] > count[best])
            best = i;
    return best;
}

/* Of the samples in the random order, the first that `from` has. */
static void hand_on(struct data_split *s, int64_t from, int64_t to)
{
    int64_t i = 0;

    while (s->owner[s->list[i]] != from)
        i++;
    s->owner[s->list[i]] = to;
}

void data_top_up(struct data_split *s, int64_t least)
{
    int64_t n = s->opt->clients;
    double *count = s->share;

    memset(count, 0, (size_t)n * sizeof count[0]);
    for (int64_t i = 0; i < s->opt->samples; i++)
        if (s->owner[i] != DATA_NOBODY)
            count[s->owner[i]]++;
    for (int64_t i = 0; i < n; i++)
        while (count[i] < (double)least) {
            int64_t from = largest(count, n);

            if (count[from] <= (double)least)
                return; /* there are not as many */
            hand_on(s, from, i);
            count[from]--;
            count[i]++;
        }
}

/* ---- making one ----------------------------------------------------- */

/* The list: a random order, then stably by class. */
static enum pdl_status make_list(struct data_split *s, pdl_arena *a,
                                 struct pdl_err *err)
{
    const struct pdl_partition_options *o = s->opt;
    int64_t classes = o->classes > 0 ? o->classes : 1, *at;
    struct pdl_order order;

    s->list = PDL_NEW(a, int64_t, o->samples);
    s->begin = PDL_NEW(a, int64_t, classes + 1);
    at = PDL_NEW(a, int64_t, classes + 1);
    if (!s->list || !s->begin || !at)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a partition");
    for (int64_t i = 0; i < o->samples; i++)
        s->begin[(o->classes > 0 ? o->labels[i] : 0) + 1]++;
    for (int64_t c = 0; c < classes; c++)
        s->begin[c + 1] += s->begin[c];
    memcpy(at, s->begin, (size_t)classes * sizeof at[0]);
    pdl_order_begin(&order, &data_shuffle_global, s->rng.key, 0, o->samples);
    for (int64_t i = 0; i < o->samples; i++) {
        int64_t x = pdl_order_at(&order, i);

        s->list[at[o->classes > 0 ? o->labels[x] : 0]++] = x;
    }
    return PDL_OK;
}

static enum pdl_status check(const struct pdl_partition_options *o,
                             const struct data_partition *w,
                             struct pdl_err *err)
{
    enum { MOST = 1 << 30 };

    if (o->clients < 1 || o->clients > MOST)
        return pdl_fail(err, PDL_EINVAL, "%lld clients: from 1 to %d",
                        (long long)o->clients, (int)MOST);
    if (w->by_class && o->classes < 1)
        return pdl_fail(err, PDL_EINVAL, "%s: samples have no classes",
                        w->is.name);
    for (int64_t i = 0; i < o->samples && o->classes > 0; i++)
        if (o->labels[i] < 0 || o->labels[i] >= o->classes)
            return pdl_fail(
                err, PDL_EPARSE, "sample %lld: label %d is not below %lld",
                (long long)i, (int)o->labels[i], (long long)o->classes);
    return PDL_OK;
}

/* Lists and counts of who owns what. */
static enum pdl_status conclude(const struct data_split *s, pdl_arena *a,
                                struct pdl_partition *out, struct pdl_err *err)
{
    const struct pdl_partition_options *o = s->opt;
    int64_t *first = PDL_NEW(a, int64_t, o->clients + 2);
    int64_t *sample = PDL_NEW(a, int64_t, o->samples + 1), *count = NULL, cells;

    if (!pdl_mul64(o->clients, o->classes, &cells))
        return pdl_fail(err, PDL_EINVAL, "too many clients");
    if (o->classes > 0)
        count = PDL_NEW(a, int64_t, cells);
    if (!first || !sample || (o->classes > 0 && !count))
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a partition");
    /* first[c + 1] counts, then is where the next of c goes, then its end */
    for (int64_t i = 0; i < o->samples; i++)
        if (s->owner[i] != DATA_NOBODY)
            first[s->owner[i] + 2]++;
    for (int64_t c = 0; c < o->clients; c++)
        first[c + 2] += first[c + 1];
    for (int64_t i = 0; i < o->samples; i++) {
        if (s->owner[i] == DATA_NOBODY)
            continue;
        sample[first[s->owner[i] + 1]++] = i;
        if (count)
            count[s->owner[i] * o->classes + o->labels[i]]++;
    }
    *out = (struct pdl_partition){.samples = o->samples,
                                  .clients = o->clients,
                                  .classes = o->classes,
                                  .groups = s->groups,
                                  .first = first,
                                  .sample = sample,
                                  .group = s->group,
                                  .count = count};
    return PDL_OK;
}

enum pdl_status pdl_partition_make(pdl_arena *a,
                                   const struct pdl_partition_options *o,
                                   struct pdl_partition *out,
                                   struct pdl_err *err)
{
    struct data_split s = {.opt = o, .groups = 1};
    enum pdl_status st =
        pdl_sampling_parse(pdl_partition_at, "divide samples",
                           o->how ? o->how : "iid", &s.with, err);

    if (st == PDL_OK)
        st = check(o, ways[s.with.way], err);
    if (st != PDL_OK)
        return st;
    s.rng.key = pdl_draw_key(o->seed, PDL_DRAW_PARTITION, 0);
    s.owner = PDL_NEW(a, int64_t, o->samples + 1);
    s.group = PDL_NEW(a, int32_t, o->clients);
    s.share = PDL_NEW(a, double, o->clients);
    if (!s.owner || !s.group || !s.share)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a partition");
    for (int64_t i = 0; i < o->samples; i++)
        s.owner[i] = DATA_NOBODY;
    st = make_list(&s, a, err);
    if (st == PDL_OK)
        st = ways[s.with.way]->split(&s, err);
    return st == PDL_OK ? conclude(&s, a, out, err) : st;
}
