/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step holds, on every lane and every rank that none is fuller than: at
 * the fullest moment of a lane weights, gradients and optimizer state all the
 * time, activations of the micro-batches in flight, and what comes on top while
 * a task runs. First stages hold the most activations, last ones the logits. */
#include "oracle/step/step.h"

#include <string.h>

/* ---- the fullest moment of a lane ------------------------------------- */

/* What stays while other stages of the lane run. */
struct held {
    int64_t saved, gradients;
};

/* What is live before a stretch of operations. */
struct before {
    int64_t all, gradients, weights, state, small;
};

static void note(const struct before *b, const struct oracle_moment *m,
                 struct pdl_projection *out)
{
    int64_t all = b->all + m->all;

    if (all <= out->allocated_bytes)
        return;
    out->allocated_bytes = all;
    out->weights_bytes = b->weights + m->weights;
    out->optimizer_bytes = b->state;
    out->gradients_bytes = b->gradients + m->gradients;
    out->workspace_bytes = m->work + b->small;
    out->comm_buffers_bytes = m->buffers;
    out->activations_bytes = all - out->weights_bytes - b->state -
                             out->gradients_bytes - out->workspace_bytes -
                             m->buffers;
    if (out->activations_bytes < 0) { /* weights that have no 16-bit copies */
        out->weights_bytes += out->activations_bytes;
        out->activations_bytes = 0;
    }
}

static void after(struct before *b, const struct oracle_span *s)
{
    b->all += s->all;
    b->gradients += s->gradients;
    b->weights += s->weights;
}

static void add_gradients(struct before *b, int64_t n)
{
    b->all += n;
    b->gradients += n;
}

static struct held held_by(const struct oracle_lived *s, int64_t input)
{
    const struct oracle_span *f = &s->pass[PASS_FORWARD];

    return (struct held){f->saved + f->input + input,
                         f->gradients + s->pass[PASS_BACKWARD].gradients};
}

/* A pass of a micro-batch that is not the first: gradients of weights are there
 * from the one before, and are added to. */
static void note_again(const struct before *b, const struct oracle_span *s,
                       struct pdl_projection *out)
{
    struct oracle_moment again = s->rest;
    struct before less = *b;

    again.all -= again.gradients;
    again.gradients = 0;
    note(b, &again, out);
    /* and where most are whole for a moment only, before they are scattered */
    add_gradients(&less, -s->gradients);
    note(&less, &s->top, out);
}

/* Micro-batches after the first, as gradients of weights are there: a forward
 * pass beside those in flight, and a backward pass. Where all are in flight
 * before the first comes back (gpipe) that is one too many; our runtime allots
 * so. */
static void note_later(const struct oracle_lived *s, struct before b,
                       const struct held *mine, int64_t in_flight,
                       struct pdl_projection *out)
{
    add_gradients(&b, mine->gradients);
    b.all += mine->saved * (in_flight - 1);
    note(&b, &s->pass[PASS_FORWARD].top, out);
    after(&b, &s->pass[PASS_FORWARD]);
    add_gradients(&b, s->written);
    note_again(&b, &s->pass[PASS_BACKWARD], out);
}

/* One stage of the lane, the others holding what they hold. */
static void note_stage(const struct oracle_lived *s, struct before b,
                       const struct held *mine, const struct held *others,
                       int64_t in_flight, struct pdl_projection *out)
{
    b.all += others->saved + s->ahead;
    add_gradients(&b, others->gradients);
    if (mine->gradients > 0)
        note_later(s, b, mine, in_flight, out);
    note(&b, &s->pass[PASS_FORWARD].top, out);
    b.all -= s->ahead;
    after(&b, &s->pass[PASS_FORWARD]);
    b.all += mine->saved * (in_flight - 1);
    add_gradients(&b, s->written);
    note(&b, &s->pass[PASS_BACKWARD].top, out);
    add_gradients(&b, -s->written);
    after(&b, &s->pass[PASS_BACKWARD]);
    note(&b, &s->update.top, out);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What is there all the time, and inputs of one micro-batch. */
static struct before always(const struct oracle_lived *const *stages, int n,
                            int64_t *input)
{
    struct before b = {0, 0, 0, 0, 0};

    *input = 0;
    for (int k = 0; k < n; k++) {
        const struct oracle_lived *s = stages[k];

        *input += s->input;
        b.weights += s->weights;
        b.gradients += s->buffers;
        b.state += s->state;
        b.all += s->weights + s->buffers + s->state + s->input + s->label;
        b.small = larger(b.small, s->update.small);
        for (int p = 0; p < PASSES; p++)
            b.small = larger(b.small, s->pass[p].small);
    }
    b.all += b.small;
    return b;
}

/* The host's: optimizer state, what is in flight, gradients of an update. */
static void note_host(const struct oracle_lived *const *stages,
                      const int64_t *in_flight, int n,
                      struct pdl_projection *out)
{
    int64_t all = 0, update = 0;

    for (int k = 0; k < n; k++) {
        all +=
            stages[k]->host + stages[k]->pass[PASS_FORWARD].host * in_flight[k];
        if (stages[k]->update.top_host > update)
            update = stages[k]->update.top_host;
    }
    all += update;
    out->host_bytes = all > out->host_bytes ? all : out->host_bytes;
}

static int64_t fullness(const struct oracle_moment *m, bool rest)
{
    return rest ? m->all - m->gradients : m->all;
}

/* The fuller of a moment of a and one of what comes after it. */
static struct oracle_moment fuller(const struct oracle_span *a,
                                   const struct oracle_moment *mine,
                                   struct oracle_moment later, bool rest)
{
    later.all += a->all;
    later.gradients += a->gradients;
    later.weights += a->weights;
    return fullness(&later, rest) > fullness(mine, rest) ? later : *mine;
}

struct oracle_span oracle_span_join(const struct oracle_span *a,
                                    const struct oracle_span *b)
{
    struct oracle_span s = {.top = fuller(a, &a->top, b->top, false),
                            .rest = fuller(a, &a->rest, b->rest, true),
                            .all = a->all + b->all,
                            .gradients = a->gradients + b->gradients,
                            .weights = a->weights + b->weights,
                            .saved = a->saved + b->saved,
                            .input = a->input + b->input,
                            .host = a->host + b->host,
                            .top_host = a->top_host,
                            .small = larger(a->small, b->small)};

    if (a->host + b->top_host > s.top_host)
        s.top_host = a->host + b->top_host;
    return s;
}

/* The fullest is in the last of n, or in the first where they leave less. */
static struct oracle_moment of_all(const struct oracle_span *a,
                                   struct oracle_moment m, int64_t leaves,
                                   int64_t n)
{
    int64_t before = leaves > 0 ? n - 1 : 0;

    m.all += before * a->all;
    m.gradients += before * a->gradients;
    m.weights += before * a->weights;
    return m;
}

struct oracle_span oracle_span_repeat(const struct oracle_span *a, int64_t n)
{
    if (n == 0)
        return (struct oracle_span){.top = {.all = INT64_MIN / 4},
                                    .rest = {.all = INT64_MIN / 4}};
    return (struct oracle_span){
        .top = of_all(a, a->top, a->all, n),
        .rest = of_all(a, a->rest, a->all - a->gradients, n),
        .all = n * a->all,
        .gradients = n * a->gradients,
        .weights = n * a->weights,
        .saved = n * a->saved,
        .input = n * a->input,
        .host = n * a->host,
        .top_host = a->top_host + (a->host > 0 ? n - 1 : 0) * a->host,
        .small = a->small};
}

/* A task of backward, and one that was run before: the gradients that it makes
 * are added to those of the micro-batch before. */
static void run_again(struct before *b, const struct oracle_span *s,
                      bool *begun, struct pdl_projection *out)
{
    if (*begun)
        note_again(b, s, out);
    else
        note(b, &s->top, out);
    after(b, s);
    if (*begun)
        add_gradients(b, -s->gradients);
    *begun = true;
}

/* What no operation of backward frees, though a micro-batch leaves nothing but
 * gradients: masks of dropout, which the gradients of inputs need last. */
static int64_t left_over(const struct oracle_lived *s)
{
    int64_t n = 0;

    for (int k = 0; k < PASSES; k++)
        n += s->pass[k].all - s->pass[k].gradients;
    return n;
}

/* A lane whose backward is two tasks, in rounds that are alike. */
struct rounds {
    const struct oracle_lived *const *stages;
    struct before b;
    int64_t input;
    bool begun[2][ORACLE_MAX_STAGES]; /* by task and place of the stage */
    struct pdl_projection *out;
};

static void run_task(struct rounds *r, int pass, int i)
{
    const struct oracle_lived *s = r->stages[i];

    if (pass == 0) {
        r->b.all += s->ahead;
        note(&r->b, &s->pass[pass].top, r->out);
        after(&r->b, &s->pass[pass]);
        r->b.all += r->input - s->ahead;
    } else if (pass == 1) {
        run_again(&r->b, &s->pass[pass], &r->begun[0][i], r->out);
        r->b.all -= r->input + left_over(s);
    } else {
        add_gradients(&r->b, s->written);
        run_again(&r->b, &s->pass[pass], &r->begun[1][i], r->out);
        add_gradients(&r->b, -s->written);
    }
}

/* What is live changes by the same from the second round on, so the first, the
 * second and the last have the fullest moments. */
static void run_rounds(struct rounds *r, const struct order_run *x, int chunks)
{
    for (int64_t i = 0; i < x->n; i++) {
        struct before b = r->b;

        for (int k = 0; k < x->length; k++)
            run_task(r, x->of[k] / chunks, x->of[k] % chunks);
        if (i == 1 && x->n > 3) {
            r->b.all += (x->n - 3) * (r->b.all - b.all);
            r->b.gradients += (x->n - 3) * (r->b.gradients - b.gradients);
            r->b.weights += (x->n - 3) * (r->b.weights - b.weights);
            i += x->n - 3;
        }
    }
}

/* One stage after another at its fullest. */
static void note_stages(const struct oracle_lived *const *stages,
                        const int64_t *in_flight, int n, int64_t micro,
                        struct pdl_projection *out)
{
    struct held all = {0, 0};
    int64_t input;
    struct before b = always(stages, n, &input);

    for (int k = 0; k < n; k++) {
        struct held one = held_by(stages[k], input);

        all.saved += one.saved * in_flight[k];
        all.gradients += one.gradients;
    }
    for (int k = 0; k < n; k++) {
        struct held one = held_by(stages[k], input);
        struct held others = {all.saved - one.saved * in_flight[k],
                              all.gradients - one.gradients};

        if (micro == 1) /* there is none after it */
            one.gradients = 0;
        /* one like the one before has the same moments */
        if (k == 0 || stages[k] != stages[k - 1] ||
            in_flight[k] != in_flight[k - 1])
            note_stage(stages[k], b, &one, &others, in_flight[k], out);
    }
}

/* A micro-batch holds what its forward leaves, then what its gradients of
 * weights read; those gradients stay from the first on (some, of norms say,
 * are made with those of inputs). */
static void note_tasks(const struct order_runs *runs,
                       const struct oracle_lived *const *stages, int n,
                       struct pdl_projection *out)
{
    struct rounds r = {.stages = stages, .out = out};

    r.b = always(stages, n, &r.input);
    for (int k = 0; k < runs->n; k++)
        run_rounds(&r, &runs->run[k], n);
    for (int i = 0; i < n; i++) {
        note(&r.b, &stages[i]->update.top, out);
        after(&r.b, &stages[i]->update);
    }
}

/* The worst moment of a lane of n stages, of which so many tasks are in flight
 * at a time, where it is worse than what `out` has; with backward in two tasks
 * (runs) every task where it stands in the order. */
static void note_lane(const struct order_runs *runs,
                      const struct oracle_lived *const *stages,
                      const int64_t *in_flight, int n, int64_t micro,
                      struct pdl_projection *out)
{
    note_host(stages, in_flight, n, out);
    if (runs)
        note_tasks(runs, stages, n, out);
    else
        note_stages(stages, in_flight, n, micro, out);
}

/* ---- passes ----------------------------------------------------------- */

/* What a plan repeats itself was walked as often as it comes. */
static struct oracle_span span_of(const struct step_stage *k, enum pass p,
                                  const struct oracle_span *parts)
{
    const struct stage_passes *x = k->work->shape;
    struct oracle_span s = {.all = 0};

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

/* ---- lanes ------------------------------------------------------------ */

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
    struct oracle_moment *const both[] = {&s->top, &s->rest};

    for (int i = 0; i < 2; i++) {
        both[i]->all -= both[i]->gradients + both[i]->weights;
        both[i]->gradients = both[i]->weights = 0;
    }
    s->all -= s->gradients + s->weights;
    s->gradients = s->weights = 0;
}

/* The runtime's sends do not wait: what forward sent is there until its
 * gradient comes back, what backward sent until the update. */
static void hold_sent(const int64_t sent[2], int64_t micro, int64_t in_flight,
                      struct oracle_lived *l)
{
    struct oracle_span *there = &l->pass[PASS_FORWARD];
    struct oracle_span *back = &l->pass[PASS_BACKWARD];

    there->top.all += (micro - in_flight) * sent[1];
    there->rest.all += (micro - in_flight) * sent[1];
    there->all += sent[0];
    there->saved += sent[0];
    back->top.all += (micro - 1) * sent[1];
    back->rest.all += (micro - 1) * sent[1];
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
    const int64_t *in_flight = c->in_flight + (int64_t)lane * c->chunks;

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
    note_lane(c->splits ? &c->brief->runs[lane] : NULL, stages, in_flight,
              c->chunks, c->o->p->micro_batches, out);
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

/* ---- the device ------------------------------------------------------- */

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
