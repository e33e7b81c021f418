/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step holds: live bytes of its stages, on every lane and every rank
 * that none is fuller than. First stages hold the most activations, last ones
 * the logits. */
#include "oracle/step/step.h"

#include <string.h>

/* ---- passes ------------------------------------------------------------------ */

/* What a plan repeats itself was walked as often as it comes. */
static struct oracle_span span_of(const struct step_stage *k, enum pass p,
                                  const struct oracle_span *parts)
{
    const struct stage_passes *x = k->work->shape;
    struct oracle_span s = {.top_all = 0};

    for (int i = 0; i < x->parts[p]; i++) {
        struct oracle_span one = parts[i];

        if (x->times[p][i] == 0)
            one =
                oracle_span_repeat(&one, oracle_part_times(x, p, i, k->blocks));
        s = i == 0 ? one : oracle_span_join(&s, &one);
    }
    return s;
}

bool oracle_live_kind(struct step *c, struct step_stage *k, int slots)
{
    struct stage_found *f = k->found;

    if (slots > f->slots) {
        f->live = pdl_arena_alloc(c->arena, (size_t)slots, sizeof *f->live);
        f->slots = f->live ? slots : 0;
    }
    for (int r = 0; f->live && r < slots; r++)
        for (int p = 0; p < PASSES; p++)
            f->live[r][p] = span_of(k, (enum pass)p, k->work->live[r].part[p]);
    return f->live != NULL;
}

/* ---- lanes ------------------------------------------------------------------- */

/* Is lane b made of the same stages as a, with no more of them in flight? */
static bool no_fuller(const struct step *c, int a, int b)
{
    for (int k = 0; k < c->chunks; k++)
        if (c->of[k * c->lanes + a] != c->of[k * c->lanes + b] ||
            c->in_flight[a * c->chunks + k] < c->in_flight[b * c->chunks + k])
            return false;
    return true;
}

void oracle_step_lanes(struct step *c)
{
    c->nfull = 0;
    for (int l = 0; l < c->lanes; l++) {
        bool again = false;

        for (int k = 0; k < c->chunks; k++)
            c->in_flight[l * c->chunks + k] =
                c->brief->in_flight[pdl_schedule_stage(c->brief->schedule,
                                                       c->lanes, l, k)];
        for (int i = 0; i < c->nfull && !again; i++)
            again = no_fuller(c, c->full[i], l);
        if (!again)
            c->full[c->nfull++] = l;
    }
}

/* A pass without weights and their gradients. */
static void leave_out_weights(struct oracle_span *s)
{
    s->top_all -= s->top_gradients + s->top_weights;
    s->all -= s->gradients + s->weights;
    s->top_gradients = s->gradients = s->top_weights = s->weights = 0;
}

/* The runtime's sends do not wait: what forward sent is there until its gradient
 * comes back, what backward sent until the update. */
static void hold_sent(const int64_t sent[2], int64_t micro, int64_t in_flight,
                      struct oracle_lived *l)
{
    struct oracle_span *there = &l->pass[PASS_FORWARD];
    struct oracle_span *back = &l->pass[PASS_BACKWARD];

    there->top_all += (micro - in_flight) * sent[1];
    there->all += sent[0];
    there->saved += sent[0];
    back->top_all += (micro - 1) * sent[1];
    back->all += micro * sent[1] - sent[0];
    l->update.all -= micro * sent[1];
}

/* A stage on a rank: slots of its passes and of its update (-1: states are not
 * looked at). */
struct rank {
    int work, update;
};

static void live(const struct step *c, const struct step_stage *k,
                 struct rank r, int64_t in_flight, struct oracle_lived *l)
{
    const struct stage_live *w = &k->work->live[r.work];
    bool all = r.update >= 0;

    *l = (struct oracle_lived){.weights = 0};
    if (all)
        *l = k->update->lived[r.update];
    l->input = w->input;
    l->label = w->label;
    l->written = all ? w->written : 0;
    l->ahead = in_flight > 1 ? w->ahead : 0;
    memcpy(l->pass, k->found->live[r.work], sizeof l->pass);
    for (int p = 0; !all && p < PASSES; p++)
        leave_out_weights(&l->pass[p]);
    if (w->sent[0] > 0 || w->sent[1] > 0)
        hold_sent(w->sent, c->o->p->micro_batches, in_flight, l);
}

/* Stages of a kind are looked at once, where what is in flight changes nothing
 * but what comes ahead. */
static void live_lane(const struct step *c, struct rank r, int lane, bool *done,
                      struct pdl_projection *out)
{
    const struct oracle_lived *stages[ORACLE_MAX_STAGES];
    const int64_t *in_flight = &c->in_flight[lane * c->chunks];

    for (int k = 0; k < c->chunks; k++) {
        int kind = c->of[k * c->lanes + lane];
        const struct step_stage *x = &c->stage[kind];
        const struct stage_live *w = &x->work->live[r.work];
        bool sends = w->sent[0] > 0 || w->sent[1] > 0;
        int at = sends ? 2 * c->n + k
                       : 2 * kind + (w->ahead > 0 && in_flight[k] > 1);

        if (sends || !done[at])
            live(c, x, r, in_flight[k], &c->lived[at]);
        done[at] = true;
        stages[k] = &c->lived[at];
    }
    oracle_lane_memory(c->splits ? &c->brief->runs[lane] : NULL, stages,
                       in_flight, c->chunks, out);
}

/* With backward in two tasks no two lanes hold the same. */
static void live_rank(const struct step *c, struct rank r, int lane,
                      struct pdl_projection *out)
{
    bool done[2 * ORACLE_MAX_STAGES + ORACLE_MAX_STAGES] = {false};
    int n = c->splits ? c->lanes : c->nfull;

    for (int i = 0; i < n; i++) {
        int l = c->splits ? i : c->full[i];

        if (lane < 0 || l == lane)
            live_lane(c, r, l, done, out);
    }
}

void oracle_step_memory(const struct step *c, int lane,
                        struct pdl_projection *out)
{
    for (int r = c->nranks - 1; r >= 0; r--)
        live_rank(c, (struct rank){c->held_work[r], c->held_update[r]}, lane,
                  out);
    oracle_fill_device(c->o, out);
}

void oracle_step_passes(const struct step *c, int slots,
                        struct pdl_projection *out)
{
    for (int r = 0; r < slots; r++)
        live_rank(c, (struct rank){r, -1}, -1, out);
}

/* ---- the device ---------------------------------------------------------------- */

/* What the allocator reserves, and what the device holds beside it. */
void oracle_fill_device(const struct oracle *o, struct pdl_projection *out)
{
    const struct pdl_framework *f =
        o->opt->parameters == PDL_IDEAL ? NULL : o->opt->framework;

    out->reserved_bytes = out->allocated_bytes;
    if (f)
        out->reserved_bytes +=
            (int64_t)((double)out->activations_bytes * f->fragments);
    out->peak_bytes = out->reserved_bytes + (f ? (int64_t)f->context_bytes : 0);
    out->capacity_bytes = oracle_capacity(o);
}

void oracle_find_fit(const struct oracle *o, struct pdl_projection *out)
{
    bool host = oracle_host_fits(o, out);

    out->feasible = out->peak_bytes <= out->capacity_bytes;
    if (!out->feasible)
        out->reason = "more memory than a PE has";
    else if (!host)
        out->reason = "more memory than a host has";
    out->feasible = out->feasible && host;
}
