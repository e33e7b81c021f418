/* SPDX-License-Identifier: Apache-2.0
 *
 * What a lane of a pipeline holds at its fullest moment, from what its stages
 * hold: weights, gradients and optimizer state all the time, activations of
 * the micro-batches in flight, and what comes on top while a task runs. Stages
 * are walked in memory.c. */
#include "oracle/step/stage.h"

/* What stays while other stages of the lane run. */
struct held {
    int64_t saved, gradients;
};

/* What is live before a stretch of operations. */
struct before {
    int64_t all, gradients, weights, state;
};

static void note(const struct before *b, const struct oracle_span *s,
                 struct pdl_projection *out)
{
    int64_t all = b->all + s->top_all;

    if (all <= out->allocated_bytes)
        return;
    out->allocated_bytes = all;
    out->weights_bytes = b->weights + s->top_weights;
    out->optimizer_bytes = b->state;
    out->gradients_bytes = b->gradients + s->top_gradients;
    out->workspace_bytes = s->top_work;
    out->comm_buffers_bytes = s->top_buffers;
    out->activations_bytes = all - out->weights_bytes - b->state -
                             out->gradients_bytes - s->top_work -
                             s->top_buffers;
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

/* One stage of the lane, the others holding what they hold. */
static void note_stage(const struct oracle_lived *s, struct before b,
                       const struct held *mine, const struct held *others,
                       int64_t in_flight, struct pdl_projection *out)
{
    b.all += others->saved + s->ahead;
    add_gradients(&b, others->gradients);
    note(&b, &s->pass[PASS_FORWARD], out);
    b.all -= s->ahead;
    after(&b, &s->pass[PASS_FORWARD]);
    b.all += mine->saved * (in_flight - 1);
    add_gradients(&b, s->written);
    note(&b, &s->pass[PASS_BACKWARD], out);
    add_gradients(&b, -s->written);
    after(&b, &s->pass[PASS_BACKWARD]);
    note(&b, &s->update, out);
}

/* What is there all the time, and inputs of one micro-batch. */
static struct before always(const struct oracle_lived *const *stages, int n,
                            int64_t *input)
{
    struct before b = {0, 0, 0, 0};

    *input = 0;
    for (int k = 0; k < n; k++) {
        const struct oracle_lived *s = stages[k];

        *input += s->input;
        b.weights += s->weights;
        b.gradients += s->buffers;
        b.state += s->state;
        b.all += s->weights + s->buffers + s->state + s->input + s->label;
    }
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

struct oracle_span oracle_span_join(const struct oracle_span *a,
                                    const struct oracle_span *b)
{
    struct oracle_span s = {.top_all = a->top_all,
                            .top_gradients = a->top_gradients,
                            .top_weights = a->top_weights,
                            .top_work = a->top_work,
                            .top_buffers = a->top_buffers,
                            .all = a->all + b->all,
                            .gradients = a->gradients + b->gradients,
                            .weights = a->weights + b->weights,
                            .saved = a->saved + b->saved,
                            .input = a->input + b->input,
                            .host = a->host + b->host,
                            .top_host = a->top_host};

    if (a->host + b->top_host > s.top_host)
        s.top_host = a->host + b->top_host;

    if (a->all + b->top_all > s.top_all) {
        s.top_all = a->all + b->top_all;
        s.top_gradients = a->gradients + b->top_gradients;
        s.top_weights = a->weights + b->top_weights;
        s.top_work = b->top_work;
        s.top_buffers = b->top_buffers;
    }
    return s;
}

struct oracle_span oracle_span_repeat(const struct oracle_span *a, int64_t n)
{
    int64_t before = a->all > 0 ? n - 1 : 0; /* the fullest: last or first */

    if (n == 0)
        return (struct oracle_span){.top_all = INT64_MIN / 4};
    return (struct oracle_span){
        .top_all = a->top_all + before * a->all,
        .top_gradients = a->top_gradients + before * a->gradients,
        .top_weights = a->top_weights + before * a->weights,
        .top_work = a->top_work,
        .top_buffers = a->top_buffers,
        .all = n * a->all,
        .gradients = n * a->gradients,
        .weights = n * a->weights,
        .saved = n * a->saved,
        .input = n * a->input,
        .host = n * a->host,
        .top_host = a->top_host + (a->host > 0 ? n - 1 : 0) * a->host};
}

/* A task of backward that was run before: the gradients that it makes take the
 * place of those of the micro-batch before. */
static void run_again(struct before *b, const struct oracle_span *s,
                      bool *begun, struct pdl_projection *out)
{
    if (*begun)
        add_gradients(b, -s->gradients);
    note(b, s, out);
    after(b, s);
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
        note(&r->b, &s->pass[pass], r->out);
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
                        const int64_t *in_flight, int n,
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
        note(&r.b, &stages[i]->update, out);
        after(&r.b, &stages[i]->update);
    }
}

void oracle_lane_memory(const struct order_runs *runs,
                        const struct oracle_lived *const *stages,
                        const int64_t *in_flight, int n,
                        struct pdl_projection *out)
{
    note_host(stages, in_flight, n, out);
    if (runs)
        note_tasks(runs, stages, n, out);
    else
        note_stages(stages, in_flight, n, out);
}
