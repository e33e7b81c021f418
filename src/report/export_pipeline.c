/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipeline's schedule as torch.distributed.pipelining reads it
 * (PipelineScheduleMulti, its CSV of computations): one row a rank, one cell a
 * task: stage, F, B (whole backward), I (of inputs) or W (of weights), and
 * micro-batch; an empty cell is a slot in which the rank waits. Slots come
 * from running the order with tasks of equal length. torchtitan takes the file
 * as pipeline_parallel_schedule_csv. The format has no comments. */
#include "export.h"

static const char *const NAME = "pipeline-csv";

struct table {
    const struct pdl_tasks *o;
    int64_t *end;   /* [pass][stage][micro]: the slot after it; 0: not yet */
    int64_t *next;  /* of each lane: its next task */
    int64_t *slots; /* of each lane: cells written so far */
    struct pdl_sink *out;
};

static int64_t *slot(const struct table *t, int pass, int stage, int micro)
{
    return &t->end[((int64_t)pass * t->o->nstages + stage) * t->o->micro +
                   micro];
}

/* The slot in which each task of all lanes runs; false: it never does. */
static bool place(struct table *t)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (int l = 0; l < t->o->lanes; l++)
            for (; t->next[l] < t->o->n; t->next[l]++) {
                const struct pdl_task *x = &t->o->task[l][t->next[l]];
                int pass, stage;
                int64_t ready = 0;

                if (pdl_task_needs(t->o, x, &pass, &stage)) {
                    ready = *slot(t, pass, stage, x->micro);
                    if (ready == 0)
                        break;
                }
                if (t->slots[l] > ready)
                    ready = t->slots[l];
                t->slots[l] = ready + 1;
                *slot(t, pdl_task_pass(x->kind), x->stage, x->micro) =
                    ready + 1;
                moved = true;
            }
    }
    for (int l = 0; l < t->o->lanes; l++)
        if (t->next[l] < t->o->n)
            return false;
    return true;
}

static void put_lane(const struct table *t, int lane)
{
    static const char letter[] = {
        [PDL_TASK_FORWARD] = 'F',
        [PDL_TASK_BACKWARD] = 'B',
        [PDL_TASK_INPUT] = 'I',
        [PDL_TASK_WEIGHTS] = 'W',
    };
    int64_t at = 0;

    for (int64_t k = 0; k < t->o->n; k++) {
        const struct pdl_task *x = &t->o->task[lane][k];
        int64_t end = *slot(t, pdl_task_pass(x->kind), x->stage, x->micro);

        for (; at < end - 1; at++)
            pdl_puts(t->out, at ? "," : "");
        pdl_printf(t->out, "%s%d%c%d", at ? "," : "", x->stage, letter[x->kind],
                   x->micro);
        at = end;
    }
    pdl_puts(t->out, "\n");
}

static enum pdl_status put(pdl_arena *a, const struct pdl_tasks *o,
                           struct pdl_sink *out, struct pdl_err *err)
{
    struct table t = {.o = o, .out = out};

    t.end = PDL_NEW(a, int64_t, 3 * (int64_t)o->nstages * o->micro);
    t.next = PDL_NEW(a, int64_t, o->lanes);
    t.slots = PDL_NEW(a, int64_t, o->lanes);
    if (!t.end || !t.next || !t.slots)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (!place(&t))
        return pdl_fail(err, PDL_EWRONG, "the schedule waits for ever");
    for (int l = 0; l < o->lanes; l++)
        put_lane(&t, l);
    return PDL_OK;
}

static enum pdl_status write(const struct pdl_export_job *job,
                             struct pdl_sink *out, struct pdl_err *err)
{
    const struct pdl_strategy *s = job->strategy;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct report_cut c;
    struct pdl_tasks o;
    enum pdl_status st = a ? report_cut_make(job, NAME, &c, err)
                           : pdl_fail(err, PDL_ENOMEM, "out of memory");

    if (st == PDL_OK && c.pipe < 2)
        st =
            pdl_fail(err, PDL_EINVAL, "%s: the strategy has no pipeline", NAME);
    if (st == PDL_OK)
        st = pdl_tasks_make(a, s->schedule, (int)c.pipe,
                            (int)(c.pipe * c.virtual_stages), c.micro_count, &o,
                            err);
    if (st == PDL_OK)
        st = put(a, &o, out, err);
    pdl_arena_destroy(a);
    return st;
}

const struct pdl_exporter report_export_pipeline = {
    .name = "pipeline-csv",
    .summary = "the schedule for torch.distributed.pipelining",
    .write = write,
};
