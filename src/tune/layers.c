/* SPDX-License-Identifier: Apache-2.0
 *
 * Which layers to compress: gradients that travel while backward still computes
 * cost nothing, small ones gain nothing. Tried are the layers whose gradients
 * come last, those that come first, those that are large, each from many points
 * on; then one layer after the other is turned while that helps. Every try is
 * an estimate, a sum over the gradients. */
#include "tune_priv.h"

#include <math.h>
#include <string.h>

enum { CUTS = 12, ROUNDS = 3, CLAUSES = PDL_MAX_CLAUSES - 1 };

void tune_all_layers(struct tune *t)
{
    for (int i = 0; i < t->n; i++)
        t->gradient[i].plain = false;
}

void tune_keep_layers(struct tune *t)
{
    for (int i = 0; i < t->n; i++)
        t->gradient[i].kept = t->gradient[i].plain;
}

void tune_kept_layers(struct tune *t, const char *algorithm)
{
    for (int i = 0; i < t->n; i++)
        t->gradient[i].plain = t->gradient[i].kept;
    tune_plain_way(t, algorithm);
}

/* ---- sets of layers ----------------------------------------------------- */

static int64_t node_bytes(const struct tune *t, int node)
{
    int64_t bytes = 0;

    for (int i = 0; i < t->n; i++)
        bytes += t->gradient[i].node == node ? t->gradient[i].bytes : 0;
    return bytes;
}

static void mark(struct tune *t, int node, bool plain)
{
    for (int i = 0; i < t->n; i++)
        if (t->gradient[i].node == node)
            t->gradient[i].plain = plain;
}

/* Set k of 3 * CUTS: so large a part of the bytes that comes last, or first; or
 * layers of at least so many bytes. */
static void make_set(struct tune *t, int k)
{
    int64_t all = 0, before = 0;

    for (int i = 0; i < t->n; i++)
        all += t->gradient[i].bytes;
    for (int i = 0; i < t->n; i++) {
        struct tune_gradient *g = &t->gradient[i];
        bool early = before * CUTS < all * (k % CUTS + 1);

        if (k < 2 * CUTS)
            mark(t, g->node, k < CUTS ? early : !early);
        else
            g->plain = node_bytes(t, g->node) < INT64_C(4096) << (k % CUTS);
        before += g->bytes;
    }
}

/* ---- in a strategy ------------------------------------------------------- */

static bool has_gradient(const struct tune *t, int node, bool *plain)
{
    for (int i = 0; i < t->n; i++)
        if (t->gradient[i].node == node) {
            *plain = t->gradient[i].plain;
            return true;
        }
    return false;
}

static bool sayable(const char *name)
{
    return !name[strcspn(name, "(),;=+*@: ")] && !strstr(name, "..");
}

/* Runs of layers between two that are plain. */
static int find_runs(const struct tune *t, int (*run)[2], int most, int *layers)
{
    const struct pdl_model *m = t->alone->model;
    bool plain, on = false;
    int n = 0;

    *layers = 0;
    for (int i = 0; i < m->nnodes; i++) {
        if (!has_gradient(t, i, &plain))
            continue;
        if (plain || !sayable(m->nodes[i].name)) {
            on = false;
            continue;
        }
        if (!on && n == most)
            return most + 1;
        if (!on)
            run[n++][0] = i;
        run[n - 1][1] = i;
        ++*layers;
        on = true;
    }
    return n;
}

bool tune_write_layers(struct tune *t, const char *compress,
                       struct pdl_strategy *s, int *layers)
{
    const struct pdl_node *nodes = t->alone->model->nodes;
    int run[CLAUSES][2], n = find_runs(t, run, CLAUSES, layers);

    if (n > CLAUSES || n == 0 || s->nclauses != 1)
        return false;
    for (int i = 0; i < n; i++) {
        const char *a = nodes[run[i][0]].name, *b = nodes[run[i][1]].name;
        struct pdl_clause *c = &s->clause[s->nclauses++];

        *c = (struct pdl_clause){.compress = compress};
        c->layers = run[i][0] == run[i][1]
                        ? a
                        : pdl_arena_printf(t->arena, "%s..%s", a, b);
        if (!c->layers)
            return false;
    }
    return true;
}

/* ---- the search ---------------------------------------------------------- */

/* The best size of buckets for the layers that are marked. */
static double try_buckets(const struct tune *t, struct pdl_tuned *w)
{
    double best = INFINITY;
    int64_t by = 0;

    for (int k = 0; k < TUNE_BUCKETS; k++) {
        double s;

        w->bucket_bytes = tune_buckets[k];
        s = tune_estimate(t, w, NULL, NULL);
        by = s < best ? w->bucket_bytes : by;
        best = fmin(best, s);
    }
    w->bucket_bytes = by;
    return best;
}

static bool fits(const struct tune *t)
{
    int run[CLAUSES][2], layers;

    return find_runs(t, run, CLAUSES, &layers) <= CLAUSES;
}

/* Turns layers for as long as that saves a thousandth. */
static void climb(struct tune *t, struct pdl_tuned *w)
{
    bool better = true;

    for (int r = 0; r < ROUNDS && better; r++) {
        better = false;
        for (int i = 0; i < t->n; i++) {
            struct tune_gradient *g = &t->gradient[i];
            double s;

            if (i > 0 && g[-1].node == g->node)
                continue;
            mark(t, g->node, !g->plain);
            s = tune_estimate(t, w, NULL, NULL);
            if (s < .999 * w->estimate_s && fits(t)) {
                w->estimate_s = s;
                better = true;
            } else {
                mark(t, g->node, !g->plain);
            }
        }
    }
}

void tune_choose_layers(struct tune *t, struct pdl_tuned *w)
{
    int best = -1;
    int64_t bucket = w->bucket_bytes;

    for (int k = 0; k < 3 * CUTS; k++) {
        double s;

        make_set(t, k);
        s = try_buckets(t, w);
        if (s < w->estimate_s && fits(t)) {
            w->estimate_s = s;
            bucket = w->bucket_bytes;
            best = k;
        }
    }
    w->bucket_bytes = bucket;
    if (best < 0)
        tune_all_layers(t);
    else
        make_set(t, best);
    climb(t, w);
}
