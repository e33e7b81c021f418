/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes of a stage from the pieces of its work: seconds, one operation after
 * another and on the streams, and live bytes. They depend on the work and on
 * the number of blocks, not on how many chunks there are, and stages of as many
 * blocks come with many numbers of chunks; so they are kept until points have
 * another micro-batch. */
#include "oracle/search/point_priv.h"

#include <string.h>

struct stage_run oracle_run_of(struct oracle_pricer *c, const struct class *k,
                               bool flying)
{
    return (struct stage_run){
        .passes = &k->work->run,
        .blocks = k->blocks,
        .overlap = c->overlap,
        .shares = !oracle_without(&c->lite, ORACLE_SHARING),
        .flying = flying,
        .held = c->overlap ? c->held : 0,
        .end = c->end,
        .made = c->made,
        .slots = 2 * (k->blocks + 1) * c->f->model->ntensors,
        .back = c->back};
}

void oracle_time_class(struct oracle_pricer *c, struct class *k)
{
    const struct stage_work *w = k->work;
    struct stage_time t = {0};
    int flights = w->shape->copies ? 2 : 1; /* alone, and one of several */

    for (int i = 0; i < w->shape->parts; i++)
        oracle_add_times(
            &t, &w->forward[i],
            oracle_part_times(w->shape, PASS_FORWARD, i, k->blocks));
    k->passes->calls[0] = t.calls;
    for (int i = 0; i < w->shape->parts; i++)
        oracle_add_times(
            &t, &w->backward[i],
            oracle_part_times(w->shape, PASS_BACKWARD, i, k->blocks));
    k->passes->calls[1] = t.calls - k->passes->calls[0];
    k->passes->sums = t;
    for (int f = 0; f < flights; f++) {
        struct timed *x = &k->passes->timed[f];

        *x = (struct timed){.ran = {.forward = t.forward + t.forward_comm,
                                    .backward = t.backward + t.backward_comm,
                                    .weights = t.weights}};
        if (w->shape->copies && !c->traffic) {
            struct stage_run run = oracle_run_of(c, k, f);

            oracle_run_passes(&run, &x->ran);
        }
        x->time = t;
        oracle_time_stage(&c->lite, &x->ran, k->passes->calls, &x->time);
    }
}

/* Stage k of lane l. */
struct timed *oracle_timed_of(const struct oracle_pricer *c, int64_t l,
                              int64_t k)
{
    struct split *s = c->split;
    struct class *x = &s->classes[s->of[k * c->mesh.pipe + l]];

    return &x->passes->timed[x->work->shape->copies &&
                             s->in_flight[l * s->chunks + k] > 1];
}

static struct oracle_span
pass_span(const struct class *k, const struct oracle_span *parts, enum pass p)
{
    const struct stage_passes *x = k->work->shape;
    struct oracle_span s = parts[0], more;

    for (int i = 1; i < x->parts; i++) {
        more = oracle_span_repeat(&parts[i],
                                  oracle_part_times(x, p, i, k->blocks));
        s = oracle_span_join(&s, &more);
    }
    return s;
}

/* Live bytes of its passes; false: out of memory. */
static bool live_class(struct oracle_pricer *c, const struct class *k)
{
    struct passes *p = k->passes;
    int slots = k->works->ranks->slots;

    if (slots > p->slots) {
        p->live = PDL_NEW(c->arena, struct class_live, slots);
        p->slots = p->live ? slots : 0;
    }
    for (int r = 0; p->live && r < slots; r++) {
        const struct stage_live *l = &k->work->live[r];
        struct class_live *x = &p->live[r];

        x->forward = pass_span(k, l->forward, PASS_FORWARD);
        x->backward = pass_span(k, l->backward, PASS_BACKWARD);
        if (k->work->shape->split)
            x->late = pass_span(k, l->late, PASS_LATE);
    }
    return p->live != NULL;
}

/* ---- what is kept -------------------------------------------------------------------- */

static void forget(struct oracle_pricer *c, int64_t micro)
{
    for (int i = 0; i < KEPT_PASSES; i++)
        for (struct passes *p = c->passes[i], *next; p; p = next) {
            next = p->next;
            p->next = c->spare;
            c->spare = p;
        }
    memset(c->passes, 0, sizeof c->passes);
    c->passes_of = micro;
}

static struct passes *take(struct oracle_pricer *c)
{
    struct passes *p = c->spare;

    if (!p)
        return PDL_NEW(c->arena, struct passes, 1);
    c->spare = p->next;
    return p;
}

bool oracle_find_passes(struct oracle_pricer *c, const struct oracle_point *x,
                        struct class *k)
{
    bool overlap = (k->work->shape->copies || c->traffic) && c->overlap;
    bool folded = x->bubble == ORACLE_BUBBLE_V;
    uint64_t h = (uint64_t)(uintptr_t)k->work + (uint64_t)k->blocks * 8191;
    struct passes **at, *p;

    if (c->passes_of != x->micro)
        forget(c, x->micro);
    at = &c->passes[(h * UINT64_C(0x9e3779b97f4a7c15)) >> 56];
    for (p = *at; p; p = p->next)
        if (p->work == k->work && p->blocks == k->blocks &&
            p->update == k->lane[LANE_UPDATE] && p->overlap == overlap &&
            p->folded == folded) {
            k->passes = p;
            return true;
        }
    p = k->passes = take(c);
    if (!p)
        return false;
    p->work = k->work;
    p->blocks = k->blocks;
    p->update = k->lane[LANE_UPDATE];
    p->overlap = overlap;
    p->folded = folded;
    p->next = *at;
    *at = p;
    if (!c->traffic) /* else with its update */
        oracle_time_class(c, k);
    return live_class(c, k);
}
