/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for the best exchange of gradients. See tune.h for what is
 * compared; the lists below are what there is to choose from. */
#include "tune_priv.h"

#include <math.h>
#include <string.h>

/* Algorithms by name, whose price is held to the simulator
 * (tests/oracle/test_wires.c), and what the library takes by itself. Of equals
 * the first is taken. */
static const char *const algorithms[] = {"ring", "ring-ring",
                                         "halving-doubling", NULL};
static const char *const compressions[] = {
    "lossless",   "bf16",       "fp16",       "int8",       "sign",
    "topk:0.1",   "topk:0.01",  "topk:0.001", "powersgd:1", "powersgd:2",
    "powersgd:4", "powersgd:8", "powersgd:16"};
const int64_t tune_buckets[TUNE_BUCKETS] = {
    1 << 20, 4 << 20, 10 << 20, 25 << 20, 100 << 20, INT64_C(1) << 40};
enum {
    NALGORITHMS = sizeof algorithms / sizeof algorithms[0],
    NCOMPRESSIONS = sizeof compressions / sizeof compressions[0],
    NWAYS = NALGORITHMS + NCOMPRESSIONS,
    KEPT = 4, /* ways that compress and that do not, projected in full */
};

/* What a choice of layers must save to be worth a longer strategy. */
static const double WORTH = .01;

enum pdl_tune_loss pdl_tune_loss(const char *compress)
{
    static const char *const tried[] = {"topk:0.01", "int8", "sign",
                                        "powersgd:4"};

    if (!compress || strcmp(compress, "lossless") == 0)
        return PDL_TUNE_EXACT;
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++)
        if (strcmp(compress, tried[i]) == 0)
            return PDL_TUNE_TRIED;
    return PDL_TUNE_UNKNOWN;
}

/* ---- strategies -------------------------------------------------------- */

static const char *text_of(pdl_arena *a, struct pdl_strategy *s)
{
    struct pdl_buf b;
    const char *text;

    pdl_buf_init(&b);
    pdl_strategy_print(s, &b.sink);
    text = pdl_arena_strndup(a, b.text ? b.text : "", b.len);
    pdl_buf_free(&b);
    return text;
}

/* The strategy with another exchange, lowered and projected. */
static enum pdl_status project(struct tune *t, struct pdl_tuned *w,
                               struct pdl_err *err)
{
    struct pdl_strategy s = t->strategy;
    const struct pdl_plan *plan;
    enum pdl_status st;

    s.allreduce = w->algorithm;
    s.compress = w->layers ? NULL : w->compress;
    if (w->layers && !tune_write_layers(t, w->compress, &s, &w->layers))
        return PDL_OK;
    s.bucket_bytes = w->bucket_bytes;
    s.no_overlap = w->no_overlap;
    w->strategy = text_of(t->arena, &s);
    if (!w->strategy)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = pdl_oracle_lower(t->arena, t->model, t->sys, t->oracle, t->plan, &s,
                          &plan, err);
    if (st == PDL_OK)
        st = pdl_project(plan, t->sys, t->oracle, &w->x, err);
    t->projected++;
    return st;
}

/* ---- combinations ------------------------------------------------------ */

struct way {
    const char *algorithm, *compress;
};

static struct way way_at(int i)
{
    return i < NALGORITHMS ? (struct way){algorithms[i], NULL}
                           : (struct way){NULL, compressions[i - NALGORITHMS]};
}

/* What nobody has trained with must be worth it. */
static double doubted(const struct pdl_tuned *w, double seconds)
{
    return pdl_tune_loss(w->compress) == PDL_TUNE_UNKNOWN ? 1.03 * seconds
                                                          : seconds;
}

/* Kept in order, the best first. */
static void keep(struct pdl_tuned *list, const struct pdl_tuned *w)
{
    int at = KEPT;

    while (at > 0 && (!(list[at - 1].estimate_s > 0) ||
                      doubted(w, w->estimate_s) <
                          doubted(&list[at - 1], list[at - 1].estimate_s)))
        at--;
    if (at == KEPT)
        return;
    memmove(list + at + 1, list + at, (size_t)(KEPT - 1 - at) * sizeof *list);
    list[at] = *w;
}

static bool better(const struct pdl_tuned *a, const struct pdl_tuned *b)
{
    if (!(b->x.step_s > 0) || a->x.feasible != b->x.feasible)
        return !(b->x.step_s > 0) || a->x.feasible;
    return doubted(a, a->x.step_s) < doubted(b, b->x.step_s);
}

/* Projects what was kept, and takes the best into out. */
static enum pdl_status settle(struct tune *t, struct pdl_tuned *list, int n,
                              struct pdl_tuned *out, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < n && st == PDL_OK; i++) {
        if (!(list[i].estimate_s > 0))
            continue;
        st = project(t, &list[i], err);
        if (st == PDL_OK && better(&list[i], out))
            *out = list[i];
    }
    return st;
}

/* The same with the next larger or smaller buckets, if that is better. */
static enum pdl_status beside(struct tune *t, int by, struct pdl_tuned *w,
                              struct pdl_err *err)
{
    struct pdl_tuned x = *w;
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < TUNE_BUCKETS; i++)
        if (tune_buckets[i] == w->bucket_bytes && i + by >= 0 &&
            i + by < TUNE_BUCKETS)
            x.bucket_bytes = tune_buckets[i + by];
    if (x.bucket_bytes != w->bucket_bytes)
        st = project(t, &x, err);
    if (st == PDL_OK && better(&x, w))
        *w = x;
    return st;
}

/* All buckets and overlaps of a way; the one that is estimated best is kept. */
static enum pdl_status look_at(struct tune *t,
                               const struct pdl_tune_options *opt,
                               const struct way *w, struct pdl_tune_result *out,
                               struct pdl_tuned *list, struct pdl_err *err)
{
    struct pdl_tuned best = {.estimate_s = INFINITY};
    enum pdl_status st = PDL_OK;

    for (int k = 0; k < 2 * TUNE_BUCKETS && st == PDL_OK; k++) {
        struct pdl_tuned x = {.algorithm = w->algorithm,
                              .compress = w->compress,
                              .bucket_bytes = tune_buckets[k / 2],
                              .no_overlap = k % 2};

        x.estimate_s = tune_estimate(t, &x, NULL, NULL);
        out->combinations++;
        if (opt->exhaustive)
            st = settle(t, &x, 1, w->compress ? &out->any : &out->dense, err);
        else if (x.estimate_s < best.estimate_s)
            best = x;
    }
    if (!opt->exhaustive)
        keep(list, &best);
    return st;
}

/* The best ways that compress again, of some layers only. */
static enum pdl_status look_at_layers(struct tune *t, struct pdl_tuned *list,
                                      struct pdl_tune_result *out,
                                      struct pdl_err *err)
{
    struct pdl_tuned best = {.layers = 0};
    enum pdl_status st = PDL_OK;

    if (t->strategy.nclauses != 1 || t->alone->roll ||
        !tune_plain_way(t, out->dense.algorithm))
        return PDL_OK;
    for (int i = 0; i < KEPT && st == PDL_OK && list[i].compress; i++) {
        struct pdl_tuned x = list[i];

        if (!tune_ways(t, NULL, x.compress))
            continue;
        x.algorithm = out->dense.algorithm;
        tune_choose_layers(t, &x);
        x.layers = 1;
        x.x.step_s = 0;
        if (x.estimate_s < (1 - WORTH) * list[i].estimate_s)
            st = project(t, &x, err);
        if (st == PDL_OK && x.x.step_s > 0 && better(&x, &best)) {
            best = x;
            tune_keep_layers(t);
        }
        tune_all_layers(t);
    }
    if (best.layers && out->any.x.step_s > 0 &&
        doubted(&best, best.x.step_s) <
            (1 - WORTH) * doubted(&out->any, out->any.x.step_s))
        out->any = best;
    return st;
}

static enum pdl_status look(struct tune *t, const struct pdl_tune_options *opt,
                            struct pdl_tune_result *out, struct pdl_err *err)
{
    struct pdl_tuned dense[KEPT] = {{0}}, coded[KEPT] = {{0}};
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < NWAYS && st == PDL_OK; i++) {
        struct way w = way_at(i);

        if (opt->lossless && pdl_tune_loss(w.compress) != PDL_TUNE_EXACT)
            continue;
        if (!tune_ways(t, w.algorithm, w.compress))
            continue;
        st = look_at(t, opt, &w, out, w.compress ? coded : dense, err);
    }
    if (st == PDL_OK && !opt->exhaustive)
        st = settle(t, dense, KEPT, &out->dense, err);
    if (st == PDL_OK && !opt->exhaustive)
        st = settle(t, coded, KEPT, &out->any, err);
    for (int k = -1; k <= 1 && st == PDL_OK && !opt->exhaustive; k += 2) {
        st = beside(t, k, &out->dense, err);
        if (st == PDL_OK && out->any.compress)
            st = beside(t, k, &out->any, err);
    }
    if (st == PDL_OK && !opt->exhaustive)
        st = look_at_layers(t, coded, out, err);
    if (st == PDL_OK && better(&out->dense, &out->any))
        out->any = out->dense;
    return st;
}

static enum pdl_status open_tune(struct tune *t, const char *strategy,
                                 struct pdl_tune_result *out,
                                 struct pdl_err *err)
{
    enum pdl_status st =
        pdl_strategy_parse(t->arena, strategy, &t->strategy, err);

    if (st == PDL_OK && t->strategy.zero)
        return pdl_fail(err, PDL_EINVAL,
                        "tune is about whole gradients: zero= scatters them");
    out->base = (struct pdl_tuned){.algorithm = t->strategy.allreduce,
                                   .compress = t->strategy.compress,
                                   .bucket_bytes = t->strategy.bucket_bytes,
                                   .no_overlap = t->strategy.no_overlap};
    if (st == PDL_OK)
        st = tune_gradients(t, err);
    return st == PDL_OK ? project(t, &out->base, err) : st;
}

enum pdl_status pdl_tune_gradients(pdl_arena *a, const struct pdl_model *model,
                                   const struct pdl_system *sys,
                                   const struct pdl_oracle_options *oracle,
                                   const struct pdl_plan_options *plan,
                                   const char *strategy,
                                   const struct pdl_tune_options *opt,
                                   struct pdl_tune_result *out,
                                   struct pdl_err *err)
{
    struct tune *t = PDL_NEW(a, struct tune, 1);
    double least = opt->least > 0 ? opt->least : .03, begin = pdl_clock_s();
    enum pdl_status st;

    *out = (struct pdl_tune_result){.nbuckets = 0};
    if (!t)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    t->arena = a;
    t->model = model;
    t->sys = sys;
    t->oracle = oracle;
    t->plan = plan;
    st = open_tune(t, strategy, out, err);
    if (st == PDL_OK)
        st = look(t, opt, out, err);
    if (st != PDL_OK)
        return st;
    out->best = out->any.x.step_s < (1 - least) * out->dense.x.step_s ||
                        (out->any.x.feasible && !out->dense.x.feasible)
                    ? &out->any
                    : &out->dense;
    if (!t->strategy.compress && !better(out->best, &out->base))
        out->best = &out->base;
    tune_ways(t, out->best->layers ? NULL : out->best->algorithm,
              out->best->compress);
    if (out->best->layers)
        tune_kept_layers(t, out->best->algorithm);
    out->bucket = PDL_NEW(a, struct pdl_tuned_bucket, t->n + 1);
    if (!out->bucket)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    tune_estimate(t, out->best, out->bucket, &out->nbuckets);
    out->backward_s = t->backward_s;
    out->projected = t->projected;
    out->seconds = pdl_clock_s() - begin;
    return PDL_OK;
}
