/* SPDX-License-Identifier: Apache-2.0
 *
 * SCAFFOLD (Karimireddy et al., ICML 2020), option II: client i has a control
 * variate c_i (which the server keeps and sends here), the server their mean c,
 * and every local step adds c - c_i to its gradient, so that a client does not
 * drift to its own optimum. After K steps at rate lr from x to y, c_i becomes
 * c_i - c + (x - y) / (K lr). That is of plain SGD; with momentum it is an
 * approximation. */
#include "fed/fed_priv.h"

enum { CONTROL, CHANGE }; /* shelves */

static enum pdl_status begin(struct fed *f, struct pdl_err *err)
{
    enum pdl_status st =
        fed_shelf_open(f, CONTROL, "control", f->job->partition.clients, err);

    return st == PDL_OK ? fed_shelf_open(f, CHANGE, "change", 1, err) : st;
}

static void pack(struct fed *f, int64_t task, float *down)
{
    int64_t c = fed_client_of(f, task);
    const float *own =
        fed_has_slot(f, CONTROL, c) ? fed_slot(f, CONTROL, c) : NULL;

    for (int64_t i = 0; i < f->n; i++)
        down[f->n + i] = own ? own[i] : 0;
}

static void teach(struct fed *f, int64_t task, const float *down,
                  struct fed_pull *pull)
{
    (void)task;
    for (int64_t i = 0; i < f->n; i++)
        f->squares[i] = f->shared[0][i] - down[f->n + i];
    pull->add = f->squares;
}

static void take(struct fed *f, const struct fed_back *b)
{
    float *own = fed_slot(f, CONTROL, fed_client_of(f, b->task));
    float *change = fed_slot(f, CHANGE, 0);
    double scale = 1 / ((double)b->grade.steps * fed_rate(f));

    for (int64_t i = 0; i < f->n; i++) {
        double d = scale * ((double)f->model[i] - (double)b->up[i]) -
                   (double)f->shared[0][i];

        own[i] = (float)((double)own[i] + d);
        change[i] = (float)((double)change[i] + d);
    }
    fed_add(f, b->up, 1);
}

static void end(struct fed *f)
{
    float *change = fed_slot(f, CHANGE, 0);
    double n = (double)f->able;

    for (int64_t i = 0; i < f->n; i++) {
        f->shared[0][i] =
            (float)((double)f->shared[0][i] + (double)change[i] / n);
        change[i] = 0;
    }
    fed_mean(f);
}

const struct fed_alg fed_alg_scaffold = {
    .is = {.name = "scaffold",
           .summary = "control variates keep clients from drifting"},
    .shared = 1,
    .down = 1,
    .open = begin,
    .pack = pack,
    .teach = teach,
    .take = take,
    .end = end,
};
