/* SPDX-License-Identifier: Apache-2.0
 *
 * CADIS (Nguyen et al., CCGrid 2023): where groups of clients have the same
 * classes, a mean over clients hears the largest group most. The server
 * compares what clients changed in the last layer, joins those that are alike
 * (cluster.c), and gives every cluster the same weight; a round in which only
 * some of the known clusters take part moves the model only as far as their
 * share. Clients keep the distances between samples that the model of the round
 * has (distil.c), against forgetting. Two things of the authors' code are not
 * followed: updates are paired as they should be, and similarities go on to be
 * measured in every round. */
#include "fed/cluster.h"
#include "fed/fed_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { THRESHOLD, LAST, KD, GAMMA };
enum { SUM, COUNT }; /* tables */

struct cadis {
    struct fed_likeness like; /* the tables */
    double *room;
    uint8_t *alike;
    int64_t *task; /* of each result of the round */
    int64_t nresults;
};

static enum pdl_status begin(struct fed *f, struct pdl_err *err)
{
    enum { MOST = 4096 };
    int64_t n = f->job->partition.clients;
    int64_t m = f->job->select > 0 ? f->job->select : f->able;
    struct cadis *c = PDL_NEW(f->arena, struct cadis, 1);
    int64_t cells = f->rank == 0 ? n * n : 1;
    enum pdl_status st;

    if (f->dry)
        return PDL_OK;
    if (n > MOST)
        return pdl_fail(err, PDL_EINVAL,
                        "cadis: keeps a table of all pairs of clients: at most "
                        "%d",
                        (int)MOST);
    st = fed_table_open(f, SUM, "likeness", n * n, err);
    if (st == PDL_OK)
        st = fed_table_open(f, COUNT, "met", n * n, err);
    if (st == PDL_OK)
        st = fed_shelf_open(f, 0, "result", m, err);
    if (st != PDL_OK)
        return st;
    if (c) {
        c->like =
            (struct fed_likeness){n, f->table[SUM].at, f->table[COUNT].at};
        c->room = PDL_NEW(f->arena, double, cells);
        c->alike = PDL_NEW(f->arena, uint8_t, cells);
        c->task = PDL_NEW(f->arena, int64_t, m + 1);
        f->similarity = PDL_NEW(f->arena, float, cells);
    }
    f->own = c;
    return c && c->room && c->alike && c->task && f->similarity
               ? PDL_OK
               : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

static void teach(struct fed *f, int64_t task, const float *down,
                  struct fed_pull *pull)
{
    (void)task;
    (void)down;
    pull->distil = fed_value(f, KD);
}

static void take(struct fed *f, const struct fed_back *b)
{
    memcpy(fed_slot(f, 0, b->task), b->up, (size_t)f->n * sizeof b->up[0]);
}

/* Tasks of this round that came back: also those of before a resume. */
static void find_results(struct fed *f)
{
    struct cadis *c = f->own;

    c->nresults = 0;
    for (int64_t i = 0; i < f->plan.is.ntasks; i++)
        if (fed_has_slot(f, 0, i))
            c->task[c->nresults++] = i;
}

static double cosine(const struct fed *f, const float *x, const float *y)
{
    double xy = 0, xx = 0, yy = 0;
    int64_t from, to;

    fed_learner_last(f->learner, &from, &to);
    for (int64_t i = from; i < to; i++) {
        double a = (double)x[i] - (double)f->model[i];
        double b = (double)y[i] - (double)f->model[i];

        xy += a * b;
        xx += a * a;
        yy += b * b;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

static void compare(struct fed *f)
{
    struct cadis *c = f->own;
    int64_t n = c->like.n;

    for (int64_t i = 0; i < c->nresults; i++)
        for (int64_t j = 0; j < c->nresults; j++) {
            int64_t at =
                fed_client_of(f, c->task[i]) * n + fed_client_of(f, c->task[j]);

            c->like.sum[at] += cosine(f, fed_slot(f, 0, c->task[i]),
                                      fed_slot(f, 0, c->task[j]));
            c->like.count[at]++;
        }
}

static double threshold(const struct fed *f, double t)
{
    double thr = fed_value(f, THRESHOLD);

    /* thr <- thr 1.0005^t in round t, so 1 + 2 + ... + t in the exponent */
    return thr > 0 ? fmin(thr * pow(1.0005, t * (t + 1) / 2),
                          fmax(thr, fed_value(f, LAST)))
                   : 0;
}

/* Of what is kept, after round t. */
static void find_clusters(struct fed *f, int64_t t)
{
    struct cadis *c = f->own;
    int64_t n = c->like.n;

    for (int64_t i = 0; i < n * n; i++)
        f->similarity[i] = c->like.count[i] > 0
                               ? (float)(c->like.sum[i] / c->like.count[i])
                               : -2;
    fed_likeness_join(&c->like, threshold(f, (double)t), c->room, c->alike);
    f->clusters = (double)fed_likeness_label(&c->like, c->alike, f->cluster);
}

static void recall(struct fed *f)
{
    find_clusters(f, f->plan.is.round - 1);
}

/* Each cluster that is here weighs the same: 1 / its members here. */
static double weigh(struct fed *f, int64_t result, bool *first)
{
    struct cadis *c = f->own;
    int64_t me = fed_client_of(f, c->task[result]), members = 0;

    *first = true;
    for (int64_t j = 0; j < c->nresults; j++)
        if (f->cluster[fed_client_of(f, c->task[j])] == f->cluster[me]) {
            *first = *first && j >= result;
            members++;
        }
    return 1 / (double)members;
}

static void end(struct fed *f)
{
    struct cadis *c = f->own;
    double here = 0, gamma;

    find_results(f);
    compare(f);
    find_clusters(f, f->plan.is.round);
    for (int64_t i = 0; i < c->nresults; i++) {
        bool first;

        fed_add(f, fed_slot(f, 0, c->task[i]), weigh(f, i, &first));
        here += first;
    }
    gamma = fed_value(f, GAMMA) > 0 && f->clusters > 0 ? here / f->clusters : 1;
    for (int64_t i = 0; i < f->n && f->weight > 0; i++)
        f->model[i] = (float)((1 - gamma) * (double)f->model[i] +
                              gamma * f->sum[i] / f->weight);
    for (int64_t i = 0; i < f->shelf[0].slots; i++) {
        free(f->shelf[0].at[i]);
        f->shelf[0].at[i] = NULL;
    }
}

static const char *const answers[] = {"no", "yes", NULL};

const struct fed_alg fed_alg_cadis = {
    .is = {.name = "cadis",
           .summary = "clusters of alike clients weigh the same; distils",
           .keys = {{"thr", "similarity of who is alike; 0: the widest gap", 0,
                     0, 1, NULL},
                    {"last", "what it rises to", 0.985, 0, 1, NULL},
                    {"kd", "weight of distillation", 1, 0, 1e3, NULL},
                    {"gamma", "move by the share of clusters that are here", 1,
                     0, 1, answers}}},
    .distils = true,
    .open = begin,
    .teach = teach,
    .take = take,
    .end = end,
    .recall = recall,
};
