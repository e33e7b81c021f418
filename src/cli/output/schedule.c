/* SPDX-License-Identifier: Apache-2.0
 *
 * When a step does what, for a picture: the operations of the timeline joined
 * to tasks. A pipeline has one row for each lane, its tasks are the passes of
 * a micro-batch; without one there is a row for computation and one for the
 * network, where anything is copied to the host one for each way, and one for
 * what the host updates; neighbouring operations of a pass are one task. The
 * earliest MOST tasks are kept. */
#include "cli/output/projection.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 10000 };
enum kind { FORWARD, BACKWARD, UPDATE, EXCHANGE, COLLECTIVE, WEIGHTS, COPY };

/* Without a pipeline; the last are there where something is copied. */
enum row { COMPUTATION, NETWORK, COPIES_OUT, COPIES_IN, HOST, ROWS };
static const char *const row_names[ROWS] = {"computation", "network",
                                            "copies out", "copies in", "host"};

struct task {
    int row;
    enum kind kind;
    int64_t micro;
    double start_s, end_s;
};

struct schedule {
    const struct pdl_plan *p;
    char *phase; /* of each operation */
    struct task *task;
    int64_t n;
    double least_s; /* gaps below this are not seen */
    int rows;
};

static void mark(struct schedule *s, int first, int nitems, char phase)
{
    for (int i = first; i < first + nitems; i++)
        for (int k = 0; k < s->p->items[i].nops; k++)
            s->phase[s->p->items[i].first_op + k] = phase;
}

static bool is_comm(enum pdl_plan_op_kind kind)
{
    return kind >= PDL_PLAN_OP_ALLREDUCE && kind <= PDL_PLAN_OP_RECV &&
           kind != PDL_PLAN_OP_SLICE;
}

static enum row row_of(const struct pdl_plan *p, const struct pdl_plan_op *o)
{
    switch (o->kind) {
    case PDL_PLAN_OP_COPY_OUT:
        return COPIES_OUT;
    case PDL_PLAN_OP_COPY_IN:
        return COPIES_IN;
    case PDL_PLAN_OP_UPDATE:
        return o->nout > 0 && p->tensors[o->out[0]].host ? HOST : COMPUTATION;
    default:
        return is_comm(o->kind) ? NETWORK : COMPUTATION;
    }
}

static struct task of_event(const struct schedule *s, const struct pdl_event *e)
{
    enum row row = row_of(s->p, &s->p->ops[e->op]);
    bool comm = row == NETWORK, pipe = s->p->nstages > 1;
    struct task t = {.row = pipe ? pdl_plan_lane(s->p, e->stage) : (int)row,
                     .kind = (enum kind)s->phase[e->op],
                     .micro = e->micro,
                     .start_s = fmax(e->start_s, 0), /* sums leave 1e-16 */
                     .end_s = fmax(e->start_s + e->seconds, 0)};

    if (row == COPIES_OUT || row == COPIES_IN)
        t.kind = COPY;
    else if (comm && e->micro < 0)
        t.kind = EXCHANGE;
    else if (comm && !pipe)
        t.kind = COLLECTIVE;
    return t;
}

/* Without a pipeline the rows alternate: the last task of the same row. */
static struct task *last_of(struct schedule *s, const struct task *t)
{
    for (int64_t i = s->n - 1; i >= 0 && i >= s->n - s->rows; i--)
        if (s->task[i].row == t->row && s->task[i].kind == t->kind &&
            s->task[i].micro == t->micro)
            return &s->task[i];
    return NULL;
}

static void add(struct schedule *s, const struct pdl_event *e)
{
    struct task t = of_event(s, e), *last = last_of(s, &t);

    if (last && (s->p->nstages > 1 || t.start_s - last->end_s < s->least_s)) {
        last->start_s = fmin(last->start_s, t.start_s);
        last->end_s = fmax(last->end_s, t.end_s);
    } else {
        s->task[s->n++] = t;
    }
}

static int by_start(const void *pa, const void *pb)
{
    const struct task *a = pa, *b = pb;

    if (a->start_s != b->start_s)
        return a->start_s < b->start_s ? -1 : 1;
    return a->row != b->row ? a->row - b->row : (int)a->kind - (int)b->kind;
}

static bool make(pdl_arena *a, const struct cli_job *j, struct schedule *s)
{
    struct pdl_timeline line;

    s->p = j->plan;
    if (pdl_timeline(a, j->plan, &j->sys, &j->oracle, &line, NULL) != PDL_OK)
        return false;
    s->phase = PDL_NEW(a, char, s->p->nops + 1);
    s->task = PDL_NEW(a, struct task, line.n + 1);
    if (!s->phase || !s->task)
        return false;
    for (int i = 0; i < s->p->nstages; i++) {
        const struct pdl_plan_stage *x = &s->p->stages[i];

        mark(s, x->first_forward, x->nforward, FORWARD);
        mark(s, x->first_backward, x->nbackward, BACKWARD);
        if (x->nbackward > 1) /* in two tasks: zero bubble */
            mark(s, x->first_backward + 1, x->nbackward - 1, WEIGHTS);
        mark(s, x->first_update, x->nupdate, UPDATE);
    }
    s->least_s = j->x.step_s / 1000;
    s->rows = NETWORK + 1;
    for (int64_t i = 0; i < line.n; i++) {
        int n = (int)row_of(s->p, &s->p->ops[line.events[i].op]) + 1;

        s->rows = n > s->rows ? (n > COPIES_IN ? n : COPIES_IN + 1) : s->rows;
    }
    for (int64_t i = 0; i < line.n; i++)
        add(s, &line.events[i]);
    qsort(s->task, (size_t)s->n, sizeof *s->task, by_start);
    return true;
}

static void write_rows(struct pdl_json *w, const struct schedule *s)
{
    char name[32];

    pdl_json_key(w, "rows");
    pdl_json_flat(w);
    for (int i = 0; s->p->nstages == 1 && i < s->rows; i++)
        pdl_json_str(w, row_names[i]);
    for (int i = 0; s->p->nstages > 1 && i < s->p->lanes; i++) {
        snprintf(name, sizeof name, "stage %d", i);
        pdl_json_str(w, name);
    }
    pdl_json_end(w);
}

void cli_schedule_json(struct pdl_json *w, const struct cli_job *j)
{
    static const char *const names[] = {"forward",  "backward",   "update",
                                        "exchange", "collective", "weights",
                                        "copy"};
    pdl_arena *a = pdl_arena_create((size_t)1 << 30);
    struct schedule s = {.n = 0};

    if (a && make(a, j, &s)) {
        pdl_json_key(w, "schedule");
        pdl_json_object(w);
        write_rows(w, &s);
        pdl_json_kint(w, "micro_batches", s.p->micro_batches);
        pdl_json_kint(w, "total", s.n);
        pdl_json_key(w, "tasks");
        pdl_json_array(w);
        for (int64_t i = 0; i < s.n && i < MOST; i++) {
            const struct task *t = &s.task[i];

            pdl_json_row(w);
            pdl_json_kint(w, "row", t->row);
            pdl_json_kstr(w, "kind", names[t->kind]);
            pdl_json_kint(w, "micro", t->micro);
            pdl_json_knum(w, "start_s", t->start_s);
            pdl_json_knum(w, "seconds", t->end_s - t->start_s);
            pdl_json_end(w);
        }
        pdl_json_end(w);
        pdl_json_end(w);
    }
    pdl_arena_destroy(a);
}
