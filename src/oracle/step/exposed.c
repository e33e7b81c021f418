/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage's passes and its update on the streams of one PE, operation by
 * operation, as project.c runs a plan's: computation, gradient exchange, and
 * copies to and from the host. The operations come from pieces; what is
 * written here is their order. */
#include "oracle/step/pieces.h"

#include <math.h>

/* The copies of the last two blocks are looked back at. */
enum { LAST = 4 };

struct walk {
    const struct piece_run *x;
    const struct piece_update *u; /* NULL: no exchange */
    struct streams s;
    double in_end[LAST]; /* of copies in, the last first */
    double net_end[PIECE_BACK], marked[PIECE_BACK]; /* rings */
    unsigned nets, marks;
    struct { /* of the scatters that may move: what they made, and where */
        const struct piece_op *op;
        int64_t first;
        unsigned net;
    } scatter[ORACLE_SCATTERS];
    double late_update;
    int next;
    bool early; /* exchanges start while backward runs */
};

static inline double later(double a, double b)
{
    return a > b ? a : b;
}

/* ---- the update -------------------------------------------------------------- */

static double ready_at(const struct walk *w, const struct piece_step *x)
{
    int64_t row = x->block < 0 ? w->x->blocks : x->block;
    double t = 0;

    for (int k = 0; k < ON_STREAMS; k++)
        if (x->after[k] >= 0)
            t = later(t, w->x->end[x->after[k]]);
    if (x->on != ON_COMPUTE && x->block > -2 && w->x->made)
        t = later(t, w->x->made[row * w->x->tensors + x->tensor]);
    if (x->net_block > -2 && w->x->made) {
        row = x->net_block < 0 ? w->x->blocks : x->net_block;
        t = later(t, w->x->made[row * w->x->tensors + x->net_tensor]);
    }
    return t;
}

/* Does it wait for a copy rather than for an exchange? */
static bool waits_for_copy(const struct walk *w, const struct piece_step *x,
                           double ready)
{
    return (x->after[ON_OUT] >= 0 && w->x->end[x->after[ON_OUT]] >= ready) ||
           (x->after[ON_IN] >= 0 && w->x->end[x->after[ON_IN]] >= ready);
}

static void copy_step(struct walk *w, int i, double seconds)
{
    const struct piece_step *x = &w->u->steps[i];
    double *stream = x->on == ON_OUT ? &w->s.out : &w->s.in;
    double start = ready_at(w, x);

    if (!w->s.overlap)
        start = later(start, w->s.compute);
    *stream = later(start, *stream) + seconds;
    w->x->end[i] = *stream;
    if (!w->s.overlap) {
        w->s.late += *stream - w->s.compute;
        w->s.compute = *stream;
    }
}

static void run_step(struct walk *w, int i)
{
    const struct piece_step *x = &w->u->steps[i];
    const struct piece_price *p = &w->u->price[x->kind];
    struct stream_op run = {.seconds = p->seconds,
                            .level = p->level,
                            .exchange = x->on == ON_NETWORK,
                            .update = true};
    double ready, took;

    if (x->on == ON_OUT || x->on == ON_IN) {
        copy_step(w, i, p->seconds);
        return;
    }
    ready = ready_at(w, x);
    if (x->on == ON_COMPUTE && ready > w->s.compute &&
        waits_for_copy(w, x, ready))
        w->s.late += ready - w->s.compute;
    w->x->end[i] = oracle_stream_step(&w->s, &run, ready, &took);
    w->x->end[i] += took;
}

/* Exchanges start in order, as soon as their gradients are there. */
static void start_exchanges(struct walk *w)
{
    for (; w->next < w->u->n; w->next++) {
        const struct piece_step *x = &w->u->steps[w->next];

        if (x->on != ON_NETWORK)
            continue;
        if (ready_at(w, x) > w->s.compute)
            return;
        run_step(w, w->next);
    }
}

/* What has not begun yet; the weights of the host must all have come back. */
static void run_update(struct walk *w)
{
    double late = w->s.late;

    for (int i = 0; i < w->u->n; i++)
        if (w->u->steps[i].on != ON_NETWORK || i >= w->next)
            run_step(w, i);
    if (w->u->optimizer && w->s.in > w->s.compute) {
        w->s.late += w->s.in - w->s.compute;
        w->s.compute = w->s.in;
    }
    w->late_update = w->s.late - late;
}

/* ---- forward and backward -------------------------------------------------------- */

static void wait_until(struct walk *w, double t)
{
    if (t > w->s.compute) {
        w->s.late += t - w->s.compute;
        w->s.compute = t;
    }
}

static void run_copy(struct walk *w, const struct piece_op *x, double seconds)
{
    bool out = x->copy == PIECE_OUT, early = w->s.ahead && !out;
    double *stream = out ? &w->s.out : &w->s.in;
    double start = early ? 0 : w->s.compute;

    if (!early && x->out)
        start = later(start, w->s.out);
    *stream = later(start, *stream) + seconds;
    *(out ? &w->s.out_busy : &w->s.in_busy) += seconds;
    for (int k = LAST - 1; !out && k > 0; k--)
        w->in_end[k] = w->in_end[k - 1];
    if (!out)
        w->in_end[0] = *stream;
    if (!w->s.overlap)
        wait_until(w, *stream);
}

static void keep_made(struct walk *w, const struct piece_op *x, int64_t first,
                      double end)
{
    for (int k = 0; w->u && k < x->nmade; k++) {
        int64_t row =
            x->made[k].outside ? w->x->blocks : first + x->made[k].back;

        w->x->made[row * w->x->tensors + x->made[k].tensor] = end;
    }
}

static void move_scatters(struct walk *w, double later)
{
    for (int i = 0; i < w->s.nscatters; i++) {
        double *end = &w->net_end[w->scatter[i].net];

        *end += later;
        keep_made(w, w->scatter[i].op, w->scatter[i].first, *end);
    }
}

/* One block ahead, and ahead of the gradients that wait (prefetch.c). */
static double gather_weights(struct walk *w, const struct stream_op *run)
{
    double ready = w->s.prefetch, start, took, later;

    w->s.prefetch = w->s.compute;
    if (oracle_gathers_ahead(&w->s, ready, run->seconds, &start, &later)) {
        move_scatters(w, later);
        took = run->seconds;
    } else {
        start = oracle_stream_step(&w->s, run, ready, &took);
    }
    w->s.nscatters = 0;
    return start + took;
}

static double scatter_gradients(struct walk *w, const struct stream_op *run,
                                const struct piece_op *x, int64_t first)
{
    double ready = 0, before = w->s.network, start, took;
    int i;

    if (x->after > 0)
        ready = w->marked[(w->marks - (unsigned)x->after) % PIECE_BACK];
    start = oracle_stream_step(&w->s, run, ready, &took);
    oracle_scattered(&w->s, 0, start, before);
    i = w->s.nscatters - 1;
    if (i >= 0) {
        w->scatter[i].op = x;
        w->scatter[i].first = first;
        w->scatter[i].net = w->nets % PIECE_BACK;
    }
    return start + took;
}

static void run_net(struct walk *w, const struct piece_op *x, int64_t first)
{
    struct stream_op run = {
        .seconds = x->seconds, .level = x->level, .exchange = true};
    double end = x->net == PIECE_GATHER ? gather_weights(w, &run)
                                        : scatter_gradients(w, &run, x, first);

    w->net_end[w->nets++ % PIECE_BACK] = end;
    keep_made(w, x, first, end);
}

/* When all that the operation waits for is there; what it waits for copies
 * rather than for weights is late. */
static double wait_for(struct walk *w, const struct piece_op *x)
{
    double copy = 0, net = 0;

    if (x->in > 0 && x->in <= LAST)
        copy = w->in_end[x->in - 1];
    if (x->out)
        copy = later(copy, w->s.out);
    if (x->waits > 0)
        net = w->net_end[(w->nets - (unsigned)x->waits) % PIECE_BACK];
    if (copy >= net)
        wait_until(w, copy);
    return net;
}

/* One part of a pass; first: the block of its stage that it starts with. */
static void run_part(struct walk *w, const struct piece_list *list,
                     int64_t first)
{
    for (int i = 0; i < list->n; i++) {
        const struct piece_op *x = &list->op[i];
        struct stream_op run = {
            .seconds = x->seconds, .level = x->level, .comm = x->comm};
        double took;

        if (x->copy != PIECE_NO_COPY) {
            run_copy(w, x, x->seconds);
            continue;
        }
        w->s.ahead = false;
        w->s.compute += x->packing;
        if (w->early)
            start_exchanges(w);
        if (x->net != PIECE_NO_NET) {
            run_net(w, x, first);
            continue;
        }
        oracle_stream_step(&w->s, &run, wait_for(w, x), &took);
        if (x->marks)
            w->marked[w->marks++ % PIECE_BACK] = w->s.compute;
        if (x->nmade > 0)
            keep_made(w, x, first, w->s.compute);
    }
}

static void run_parts(struct walk *w, const struct piece_list *list, bool back)
{
    const struct piece_shape *s = w->x->work->shape;
    int64_t at = s->parts > 1 ? w->x->blocks - 1 : 0;

    for (int i = 0; i < s->parts; i++)
        for (int64_t n = oracle_part_times(s, back, i, w->x->blocks); n > 0;
             n--)
            run_part(w, &list[i], at--);
}

/* Returns when the gradients of inputs were made. */
static double run_pass(struct walk *w, bool back)
{
    const struct piece_work *p = w->x->work;
    double split;

    run_parts(w, back ? p->back : p->fore, back);
    split = w->s.compute - w->s.slowed;
    if (back && p->shape->split)
        run_parts(w, p->late, true);
    return split;
}

/* Each way, copies of a micro-batch take no longer than a pipeline's PE has
 * between two of them. */
static void keep_pace(struct walk *w)
{
    if (w->x->flying)
        wait_until(w, later(w->s.out_busy, w->s.in_busy));
}

static void begin_backward(struct walk *w)
{
    w->s.ahead = w->s.overlap && w->s.out_busy > 0 && w->x->flying;
}

/* Backward; alone, as most micro-batches are. */
static void run_backward(struct walk *w, struct piece_ran *out)
{
    double start = w->s.compute, late = w->s.late, split;

    begin_backward(w);
    split = run_pass(w, true);
    keep_pace(w);
    out->backward = w->s.compute - w->s.slowed - start;
    out->weights = w->s.compute - w->s.slowed - split;
    out->backward_copy = w->s.late - late;
}

void oracle_piece_run(const struct piece_run *x, struct piece_ran *out)
{
    struct walk w = {.x = x, .s = {.overlap = x->overlap}};

    run_pass(&w, false);
    out->forward = w.s.compute;
    out->forward_copy = w.s.late;
    run_backward(&w, out);
}

static void begin_steps(struct walk *w, const struct piece_update *u)
{
    w->u = u;
    for (int i = 0; i < u->n; i++)
        w->x->end[i] = INFINITY;
}

/* No gradient is there, nothing was exchanged. */
static void begin_exchanges(struct walk *w, const struct piece_update *u)
{
    begin_steps(w, u);
    for (int64_t i = 0; i < (w->x->blocks + 1) * w->x->tensors; i++)
        w->x->made[i] = INFINITY;
}

double oracle_piece_exposed(const struct piece_run *x,
                            const struct piece_update *u,
                            const struct piece_ran *alone, double *copy)
{
    struct walk w = {.x = x, .s = {.overlap = true, .shares = x->shares}};

    if (x->work->shape->copies)
        run_pass(&w, false);
    w.s.compute = alone->forward;
    w.s.held = x->held;
    begin_exchanges(&w, u);
    w.early = true;
    begin_backward(&w);
    run_pass(&w, true);
    if (x->work->shape->copies)
        keep_pace(&w);
    run_update(&w);
    *copy = w.late_update;
    return oracle_exposed(&w.s, alone->forward + alone->backward,
                          u->update + *copy);
}

double oracle_piece_traffic_again(const struct piece_run *x,
                                  const struct piece_update *u,
                                  const struct piece_ran *ran,
                                  const struct streams *end, double *copy)
{
    struct walk w = {.x = x, .s = *end};

    begin_steps(&w, u);
    run_update(&w);
    *copy = w.late_update;
    return oracle_exposed(&w.s, ran->forward + ran->backward,
                          u->update + *copy);
}

double oracle_piece_traffic(const struct piece_run *x,
                            const struct piece_update *u, struct piece_ran *out,
                            struct streams *end, double *copy)
{
    struct walk w = {
        .x = x,
        .s = {.overlap = x->overlap, .shares = x->shares, .held = x->held}};
    struct piece_ran beside;
    bool apart;

    run_pass(&w, false);
    out->forward = w.s.compute;
    out->forward_copy = w.s.late;
    apart = w.s.out_busy > 0 && x->held > 0;
    if (apart) { /* what is exchanged beside it would change it */
        struct walk alone = w;

        alone.s.held = 0;
        run_backward(&alone, out);
    }
    begin_exchanges(&w, u);
    w.early = x->held > 0;
    run_backward(&w, apart ? &beside : out);
    *end = w.s;
    run_update(&w);
    *copy = w.late_update;
    return oracle_exposed(&w.s, out->forward + out->backward,
                          u->update + *copy);
}

void oracle_piece_apart(struct piece_update *u, double *end)
{
    struct piece_run x = {.end = end};
    struct walk w = {.x = &x, .u = u};

    for (int i = 0; i < u->n; i++)
        end[i] = INFINITY;
    run_update(&w);
    u->apart_copy = w.late_update;
    u->apart = oracle_exposed(&w.s, 0, u->update + u->apart_copy);
}
