/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage on the streams of one PE: forward, backward and update, operation by
 * operation. What hides an exchange is slower while it runs: the kernels of a
 * collective hold a part of the PE (pe.interference), and a layer's collective
 * that leaves the node has half of the adapters. Limits: the exchange itself is
 * slowed by other collectives only, and the weight update by nothing.
 *
 * Weights are gathered ahead of the gradients before them. ZeRO 3 asks for the
 * weights of the next block while a block computes, backward too (Zhao et al.,
 * PyTorch FSDP, VLDB 2023: backward prefetching), so their allgather is on the
 * wires before the reduce-scatter of the block that computes, which has to wait
 * for its gradients. The plan has them the other way round, as they depend on
 * each other; here the gather takes its place in front, and the scatters since
 * the gather before it move back if they must. Limits: one block ahead;
 * scatters move together. */
#include "oracle/step/streams.h"

#include <math.h>
#include <string.h>

struct walk {
    const struct stage_run *x;
    const struct stage_update *u; /* NULL: no exchange */
    struct streams s;
    double *back; /* ends of each stream's last operations: rings */
    unsigned n[STREAMS], mask;
    struct { /* scatters that may move: what they made, and where */
        const struct stream_op *op;
        int64_t first;
        double *end;
    } scatter[ORACLE_SCATTERS];
    double late_update;
    int next;   /* step of the update: exchanges before it have begun */
    bool early; /* exchanges begin while backward runs */
};

static inline double later(double a, double b)
{
    return a > b ? a : b;
}

/* ---- two streams ------------------------------------------------------ */

/* What an operation on the computing stream takes beside the network's: a
 * kernel has the rest of the PE, a collective that leaves the node half of the
 * adapters, as has the exchange. */
static double beside(struct streams *c, double start, double seconds, bool comm,
                     int level)
{
    double from = start > c->network_from ? start : c->network_from;
    double left = c->network - from, work = seconds - (from - start);
    double longer = 0;

    if (left <= 0 || work <= 0 || (c->exchange && c->alone))
        return seconds;
    if (!comm) {
        longer = work < left * (1 - c->held) ? work / (1 - c->held) - work
                                             : left * c->held;
    } else if (level > 0 && c->network_level > 0 && c->shares) {
        longer = work < left ? work : left;
        c->network += longer;
    }
    if (c->exchange)
        c->slowed += longer;
    return seconds + longer;
}

/* Runs it on the network's stream once `ready`; returns when it starts. */
static double exchange(struct streams *c, double ready, double seconds,
                       int level, bool update)
{
    if (!c->overlap)
        ready = later(ready, c->compute);
    ready = later(ready, c->network);
    if (seconds > 0) {
        c->network_from = ready > c->network ? ready : c->network_from;
        c->network_level = level;
        c->exchange = update;
    }
    c->network = ready + seconds;
    if (!c->overlap) /* computation waits for it, too */
        c->compute = c->network;
    return ready;
}

void oracle_scattered(struct streams *c, double start, double before)
{
    if (c->nscatters == ORACLE_SCATTERS) { /* too many to move: none does */
        c->nscatters = 0;
        return;
    }
    if (c->nscatters == 0) {
        c->before_scatter = before;
        c->scatter_start = start;
    }
    c->nscatters++;
}

bool oracle_gathers_ahead(struct streams *c, double ready, double seconds,
                          double *start, double *later_by)
{
    double end, slowed;

    *start = fmax(ready, c->before_scatter);
    if (!c->overlap || c->nscatters == 0 || *start >= c->scatter_start)
        return false;
    end = *start + seconds;
    /* what computed beside it had the rest of the PE */
    slowed = c->held * fmax(0, fmin(end, c->compute) - *start);
    *later_by = fmax(slowed, end - c->scatter_start);
    c->compute += slowed;
    c->network_from += *later_by;
    c->network += *later_by;
    return true;
}

static void record(const struct walk *w, int id, double start, double seconds)
{
    if (w->x->record) {
        w->x->record->start[id] = start;
        w->x->record->seconds[id] = seconds;
    }
}

/* ---- the update ------------------------------------------------------- */

static double ready_at(const struct walk *w, const struct stream_step *x)
{
    double t = 0;

    for (int k = 0; k < STREAMS; k++)
        if (x->after[k] >= 0)
            t = later(t, w->x->end[x->after[k]]);
    if (x->on != ON_COMPUTE && x->computed >= 0 && w->x->made)
        t = later(t, w->x->made[x->computed]);
    return x->brought >= 0 && w->x->made ? later(t, w->x->made[x->brought]) : t;
}

/* Does it wait for a copy rather than for an exchange? */
static bool waits_for_copy(const struct walk *w, const struct stream_step *x,
                           double ready)
{
    for (int k = ON_OUT; k < STREAMS; k++)
        if (x->after[k] >= 0 && w->x->end[x->after[k]] >= ready)
            return true;
    return false;
}

/* Copies start when what they copy is there, the host when its gradients
 * are. */
static double copy_step(struct walk *w, enum stream on, double start,
                        double seconds)
{
    double *stream = on == ON_OUT  ? &w->s.out
                     : on == ON_IN ? &w->s.in
                                   : &w->s.host;

    if (!w->s.overlap)
        start = later(start, w->s.compute);
    start = later(start, *stream);
    *stream = start + seconds;
    if (!w->s.overlap) {
        w->s.late += *stream - w->s.compute;
        w->s.compute = *stream;
    }
    return start;
}

/* Gradients are coded by who computes: it goes on later by so much. */
static void code(struct streams *c, double start, double seconds)
{
    if (!(seconds > 0))
        return;
    c->slowed += later(start + seconds, c->compute + seconds) - c->compute;
    c->compute = later(start, c->compute) + seconds;
}

static void run_step(struct walk *w, int i)
{
    const struct stream_step *x = &w->u->steps[i];
    const struct stream_price *p = &w->u->price[x->price];
    double ready = ready_at(w, x);

    if (x->on >= ON_OUT) {
        ready = copy_step(w, x->on, ready, p->seconds);
    } else if (x->on == ON_NETWORK) {
        ready = exchange(&w->s, ready, p->seconds, p->level, true);
        if (w->s.overlap)
            code(&w->s, ready, p->coding);
    } else {
        if (ready > w->s.compute && waits_for_copy(w, x, ready))
            w->s.late += ready - w->s.compute;
        ready = later(ready, w->s.compute);
        w->s.compute = ready + p->seconds;
    }
    w->x->end[i] = ready + p->seconds;
    record(w, x->price, ready, p->seconds);
}

/* Exchanges start in order, as soon as their gradients are there. */
static void start_exchanges(struct walk *w)
{
    for (; w->next < w->u->n; w->next++) {
        const struct stream_step *x = &w->u->steps[w->next];

        if (x->on != ON_NETWORK)
            continue;
        if (!x->gradients || ready_at(w, x) > w->s.compute)
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

/* What the exchange shows of a stage whose backward ends at `end`. What is
 * gathered after the update (ZeRO 1 and 2) must be there before the next step
 * begins. */
static double exposed(const struct walk *w, double backward_end, double *copy)
{
    double t = later(w->s.network, w->s.compute) - backward_end;

    *copy = w->late_update;
    t -= w->u->update + *copy;
    return t < 1e-12 * w->s.compute ? 0 : t; /* what rounding leaves */
}

/* ---- forward and backward --------------------------------------------- */

static double *ring(const struct walk *w, enum stream s, unsigned i)
{
    return &w->back[s * (w->mask + 1) + (i & w->mask)];
}

/* The end of the k-th last of a stream. */
static double look_back(const struct walk *w, enum stream s, int k)
{
    return *ring(w, s, w->n[s] - (unsigned)k);
}

static void remember(struct walk *w, enum stream s, double end)
{
    *ring(w, s, w->n[s]++) = end;
}

static void wait_until(struct walk *w, double t)
{
    if (t > w->s.compute) {
        w->s.late += t - w->s.compute;
        w->s.compute = t;
    }
}

static void run_copy(struct walk *w, const struct stream_op *x)
{
    bool out = x->on == ON_OUT, early = w->s.ahead && !out;
    double *stream = out ? &w->s.out : &w->s.in;
    double start = early ? 0 : w->s.compute;

    if (!early && x->back[ON_OUT] > 0)
        start = later(start, look_back(w, ON_OUT, x->back[ON_OUT]));
    start = later(start, *stream);
    *stream = start + x->seconds;
    *(out ? &w->s.out_busy : &w->s.in_busy) += x->seconds;
    remember(w, x->on, *stream);
    record(w, x->price, start, x->seconds);
    w->s.compute += x->packing;
    if (!w->s.overlap)
        wait_until(w, *stream);
}

static void keep_made(struct walk *w, const struct stream_op *x, int64_t first,
                      double end)
{
    for (int k = 0; k < x->nmade; k++)
        w->x->made[x->made[k].slot + first * x->made[k].stride] = end;
}

static void move_scatters(struct walk *w, double by)
{
    for (int i = 0; i < w->s.nscatters; i++) {
        *w->scatter[i].end += by;
        keep_made(w, w->scatter[i].op, w->scatter[i].first, *w->scatter[i].end);
        if (w->x->record)
            w->x->record->start[w->scatter[i].op->price] += by;
    }
}

/* One block ahead, and ahead of the gradients that wait. */
static double gather_weights(struct walk *w, const struct stream_op *x)
{
    double ready = w->s.prefetch, start, by;

    w->s.prefetch = w->s.compute;
    if (oracle_gathers_ahead(&w->s, ready, x->seconds, &start, &by))
        move_scatters(w, by);
    else
        start = exchange(&w->s, ready, x->seconds, x->level, false);
    w->s.nscatters = 0;
    return start;
}

static double scatter_gradients(struct walk *w, const struct stream_op *x,
                                int64_t first)
{
    double ready = 0, before = w->s.network, start;
    int i;

    for (i = 0; i < x->nreads; i++)
        ready = later(
            ready, w->x->made[x->reads[i].slot + first * x->reads[i].stride]);
    start = exchange(&w->s, ready, x->seconds, x->level, false);
    oracle_scattered(&w->s, start, before);
    i = w->s.nscatters - 1;
    if (i >= 0) {
        w->scatter[i].op = x;
        w->scatter[i].first = first;
        w->scatter[i].end = ring(w, ON_NETWORK, w->n[ON_NETWORK]);
    }
    return start;
}

static void run_network(struct walk *w, const struct stream_op *x,
                        int64_t first)
{
    double start =
        x->gathers ? gather_weights(w, x) : scatter_gradients(w, x, first);

    record(w, x->price, start, x->seconds);
    remember(w, ON_NETWORK, start + x->seconds);
    keep_made(w, x, first, start + x->seconds);
}

/* When all that the operation waits for is there; what it waits for copies
 * rather than for weights is late. */
static double wait_for(struct walk *w, const struct stream_op *x)
{
    double copy = 0, net = 0;

    if (x->back[ON_IN] > 0)
        copy = look_back(w, ON_IN, x->back[ON_IN]);
    if (x->back[ON_OUT] > 0)
        copy = later(copy, look_back(w, ON_OUT, x->back[ON_OUT]));
    if (x->back[ON_NETWORK] > 0)
        net = look_back(w, ON_NETWORK, x->back[ON_NETWORK]);
    if (copy >= net)
        wait_until(w, copy);
    return net;
}

static void compute(struct walk *w, const struct stream_op *x, int64_t first)
{
    double start = wait_for(w, x), took = x->seconds;

    start = later(start, w->s.compute);
    if (w->s.held > 0)
        took = beside(&w->s, start, took, x->comm, x->level);
    w->s.compute = start + took;
    record(w, x->price, start, took);
    if (x->nmade > 0)
        keep_made(w, x, first, w->s.compute);
}

/* One part of a pass; first: what slots of gradients are counted from. */
static void run_part(struct walk *w, const struct stream_list *list,
                     int64_t first)
{
    for (int i = 0; i < list->n; i++) {
        const struct stream_op *x = &list->op[i];

        if (x->on == ON_OUT || x->on == ON_IN) {
            run_copy(w, x);
            continue;
        }
        w->s.ahead = false;
        w->s.compute += x->packing;
        if (w->early)
            start_exchanges(w);
        if (x->on == ON_NETWORK)
            run_network(w, x, first);
        else
            compute(w, x, first);
    }
}

static void run_parts(struct walk *w, enum pass pass)
{
    const struct stage_passes *s = w->x->passes;
    int64_t block = s->parts[pass] > 1 ? w->x->blocks - 1 : 0;

    for (int i = 0; i < s->parts[pass]; i++) {
        int64_t n = oracle_part_times(s, pass, i, w->x->blocks);

        for (int64_t k = 0; k < n; k++, block--)
            run_part(w, &s->list[pass][i], s->times[pass][i] > 0 ? k : block);
    }
}

/* Each way, copies of a micro-batch take no longer than a pipeline's PE has
 * between two of them. */
static void keep_pace(struct walk *w)
{
    if (w->x->flying)
        wait_until(w, later(w->s.out_busy, w->s.in_busy));
}

static void run_forward(struct walk *w, struct stage_ran *out)
{
    run_parts(w, PASS_FORWARD);
    out->forward = w->s.compute;
    out->forward_copy = w->s.late;
}

/* Backward; alone, as most micro-batches are. */
static void run_backward(struct walk *w, struct stage_ran *out)
{
    double start = w->s.compute, late = w->s.late, split;

    w->s.ahead = w->s.overlap && w->s.out_busy > 0 && w->x->flying;
    run_parts(w, PASS_BACKWARD);
    split = w->s.compute - w->s.slowed;
    if (w->x->passes->split)
        run_parts(w, PASS_LATE);
    keep_pace(w);
    out->backward = w->s.compute - w->s.slowed - start;
    out->weights = w->x->passes->split ? w->s.compute - w->s.slowed - split : 0;
    out->backward_copy = w->s.late - late;
}

/* ---- stages ----------------------------------------------------------- */

static unsigned ring_size(const struct stage_passes *p)
{
    unsigned n = 1;

    while (n < (unsigned)p->back)
        n *= 2;
    return n;
}

int64_t oracle_run_back(const struct stage_passes *p)
{
    return (int64_t)2 * STREAMS *
           (int64_t)ring_size(p); /* backward may be run twice */
}

static struct walk begin(const struct stage_run *x)
{
    return (struct walk){.x = x,
                         .s = {.overlap = x->overlap,
                               .shares = x->shares,
                               .held = x->held,
                               .alone = x->alone},
                         .back = x->back,
                         .mask = ring_size(x->passes) - 1};
}

static void begin_steps(struct walk *w)
{
    w->u = w->x->update;
    for (int i = 0; i < w->u->n; i++)
        w->x->end[i] = INFINITY;
}

/* No gradient is there, nothing was exchanged. */
static void begin_exchanges(struct walk *w)
{
    begin_steps(w);
    for (int64_t i = 0; i < w->x->slots; i++)
        w->x->made[i] = INFINITY;
    w->early = w->x->held > 0;
    for (int i = 0; i < w->u->n; i++)
        w->early = w->early || (w->u->steps[i].on == ON_NETWORK &&
                                w->u->price[w->u->steps[i].price].coding > 0);
}

void oracle_run_passes(const struct stage_run *x, struct stage_ran *out)
{
    struct walk w = begin(x);

    w.s.held = 0;
    run_forward(&w, out);
    run_backward(&w, out);
}

/* Where copies are waited for, what is exchanged beside backward would change
 * what it takes: it is run alone first. */
static void run_alone(const struct walk *w, struct stage_ran *out)
{
    struct walk alone = *w;
    size_t n = STREAMS * (size_t)(w->mask + 1);

    alone.back = w->back + n;
    memcpy(alone.back, w->back, n * sizeof *w->back);
    alone.s.nscatters = 0; /* none is in forward */
    alone.s.held = 0;
    run_backward(&alone, out);
}

double oracle_run_stage(const struct stage_run *x, struct stage_ran *out,
                        struct streams *end, double *copy)
{
    struct walk w = begin(x);
    struct stage_ran beside_it;
    bool apart;

    run_forward(&w, out);
    apart = w.s.out_busy > 0 && x->held > 0;
    if (apart)
        run_alone(&w, out);
    begin_exchanges(&w);
    run_backward(&w, apart ? &beside_it : out);
    *end = w.s;
    run_update(&w);
    return exposed(&w, out->forward + out->backward, copy);
}

double oracle_run_beside(const struct stage_run *x,
                         const struct stage_ran *alone, double *copy)
{
    struct walk w = begin(x);
    struct stage_ran unused;

    w.s.held = 0;
    if (x->passes->copies)
        run_parts(&w, PASS_FORWARD);
    w.s.compute = alone->forward;
    w.s.held = x->held;
    begin_exchanges(&w);
    w.early = true;
    run_backward(&w, &unused);
    run_update(&w);
    return exposed(&w, alone->forward + alone->backward, copy);
}

double oracle_run_update(const struct stage_run *x, const struct stage_ran *ran,
                         const struct streams *end, double *copy)
{
    struct walk w = begin(x);

    w.s = *end;
    begin_steps(&w);
    run_update(&w);
    return exposed(&w, ran->forward + ran->backward, copy);
}

double oracle_run_apart(const struct stage_update *u, double *end, double *copy)
{
    static const struct stage_passes none = {.back = 1};
    struct stage_run x = {.passes = &none, .update = u, .end = end};
    struct walk w = begin(&x);

    begin_steps(&w);
    run_update(&w);
    return exposed(&w, 0, copy);
}
