/* SPDX-License-Identifier: Apache-2.0
 *
 * Traces in the "Trace Event Format" that chrome://tracing and Perfetto read
 * (one process a rank; computation, exchanges), with the same operation
 * numbers as the projected ones of paradl project --trace; and timings by
 * operation (paradl.timings/1), which paradl validate reads. */
#include "train_trace.h"

#include <stdio.h>

void train_trace_begin(struct train_trace *t, const struct pdl_plan *p)
{
    t->plan = p;
    pdl_buf_init(&t->text);
    pdl_json_init(&t->json, &t->text.sink);
    pdl_json_object(&t->json);
    pdl_json_kstr(&t->json, "displayTimeUnit", "ms");
    pdl_json_key(&t->json, "traceEvents");
    pdl_json_array(&t->json);
}

static bool is_local(enum pdl_plan_op_kind k)
{
    return k == PDL_PLAN_OP_COMPUTE || k == PDL_PLAN_OP_ADD ||
           k == PDL_PLAN_OP_UPDATE || k == PDL_PLAN_OP_SLICE;
}

static void label(struct pdl_json *j, int rank, int lane, const char *name)
{
    pdl_json_row(j);
    pdl_json_kstr(j, "name", lane < 0 ? "process_name" : "thread_name");
    pdl_json_kstr(j, "ph", "M");
    pdl_json_kint(j, "pid", rank);
    if (lane >= 0)
        pdl_json_kint(j, "tid", lane);
    pdl_json_key(j, "args");
    pdl_json_row(j);
    pdl_json_kstr(j, "name", name);
    pdl_json_end(j);
    pdl_json_end(j);
}

void train_trace_rank(struct train_trace *t, int rank,
                      const struct pdl_train_event *events, int64_t n)
{
    static const char *const lanes[] = {"computation", "waiting for exchanges",
                                        "exchanges behind it"};
    struct pdl_json *j = &t->json;
    char name[256];

    snprintf(name, sizeof name, "rank %d", rank);
    label(j, rank, -1, name);
    for (int lane = 0; lane < 3; lane++)
        label(j, rank, lane, lanes[lane]);
    for (int64_t i = 0; i < n; i++) {
        const struct pdl_train_event *e = &events[i];
        enum pdl_plan_op_kind k = t->plan->ops[e->op].kind;

        pdl_json_row(j);
        pdl_json_kstr(j, "name",
                      pdl_plan_op_text(t->plan, e->op, name, sizeof name));
        pdl_json_kstr(j, "cat", pdl_plan_op_name(k));
        pdl_json_kstr(j, "ph", "X");
        pdl_json_knum(j, "ts", 1e6 * e->start_s);
        pdl_json_knum(j, "dur", 1e6 * e->seconds);
        pdl_json_kint(j, "pid", rank);
        pdl_json_kint(j, "tid",
                      e->micro == PDL_TRAIN_BEHIND ? 2
                      : is_local(k)                ? 0
                                                   : 1);
        pdl_json_key(j, "args");
        pdl_json_row(j);
        pdl_json_kint(j, "op", e->op);
        if (e->micro >= 0)
            pdl_json_kint(j, "micro", e->micro);
        pdl_json_end(j);
        pdl_json_end(j);
    }
}

enum pdl_status train_trace_end(struct train_trace *t, const char *path,
                                struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    pdl_json_end(&t->json);
    pdl_json_end(&t->json);
    if (t->text.sink.failed)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory for the trace");
    else if (path)
        st = pdl_file_write(path, t->text.text, t->text.len, err);
    pdl_buf_free(&t->text);
    return st;
}

/* What it is, for sums by kind of operator. */
static void kind_fields(struct pdl_json *j, const struct pdl_plan *p,
                        const struct pdl_plan_op *o)
{
    static const char *const passes[] = {[PDL_FORWARD] = "forward",
                                         [PDL_BACKWARD_DATA] = "data",
                                         [PDL_BACKWARD_WEIGHTS] = "weights"};

    pdl_json_kstr(j, "kind", pdl_plan_op_name(o->kind));
    if (o->kind != PDL_PLAN_OP_COMPUTE)
        return;
    pdl_json_kstr(j, "operator",
                  o->node >= 0 ? p->model->nodes[o->node].op->name : "loss");
    if (o->node >= 0 && (size_t)o->pass < sizeof passes / sizeof passes[0])
        pdl_json_kstr(j, "pass", passes[o->pass]);
}

enum pdl_status train_timings_write(const struct train_trace *t,
                                    const struct pdl_train_summary *s,
                                    const char *path, struct pdl_err *err)
{
    struct pdl_json j;
    struct pdl_buf b;
    enum pdl_status st;
    char name[256];

    pdl_buf_init(&b);
    pdl_json_init(&j, &b.sink);
    pdl_json_schema(&j, "timings");
    pdl_json_kint(&j, "ranks", t->plan->mesh->pes);
    pdl_json_kint(&j, "batch", t->plan->batch);
    pdl_json_knum(&j, "step_s", s->step_s);
    pdl_json_knum(&j, "fastest_s", s->fastest_s);
    pdl_json_kint(&j, "bytes", s->most_bytes);
    pdl_json_key(&j, "operations");
    pdl_json_array(&j);
    for (int i = 0; t->seconds && i < t->plan->nops; i++) {
        if (t->plan->ops[i].kind == PDL_PLAN_OP_FREE)
            continue;
        pdl_json_row(&j);
        pdl_json_kint(&j, "id", i);
        pdl_json_kstr(&j, "name",
                      pdl_plan_op_text(t->plan, i, name, sizeof name));
        kind_fields(&j, t->plan, &t->plan->ops[i]);
        pdl_json_knum(&j, "seconds", t->seconds[i]);
        pdl_json_end(&j);
    }
    pdl_json_end(&j);
    pdl_json_end(&j);
    st = b.sink.failed ? pdl_fail(err, PDL_ENOMEM, "out of memory")
                       : pdl_file_write(path, b.text, b.len, err);
    pdl_buf_free(&b);
    return st;
}
