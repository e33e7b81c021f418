/* SPDX-License-Identifier: Apache-2.0
 *
 * A step as a Chrome trace (the "Trace Event Format" that chrome://tracing and
 * Perfetto read): one process a stage, one thread a stream: computation,
 * messages between PEs, copies to and from the host and what it updates,
 * collectives of each group, exchange of gradients. */
#include "cli/output/projection.h"

#include <stdio.h>
#include <string.h>

enum { MAX_STREAMS = 64 };

struct trace {
    const struct cli_job *j;
    struct pdl_json w;
    char stream[MAX_STREAMS][64];
    int nstreams;
};

/* A stream of its own for each purpose and group. */
static int stream_at(struct trace *t, const char *what, uint32_t group)
{
    char name[sizeof *t->stream];
    size_t n = (size_t)snprintf(name, sizeof name, "%s", what);

    for (int f = 0; f < t->j->plan->mesh->nfactors; f++)
        if (group >> f & 1 && n + 5 < sizeof name)
            n += (size_t)snprintf(name + n, sizeof name - n, " a%d", f);
    for (int i = 2; i < t->nstreams; i++)
        if (strcmp(t->stream[i], name) == 0)
            return i;
    if (t->nstreams == MAX_STREAMS)
        return MAX_STREAMS - 1;
    memcpy(t->stream[t->nstreams], name, sizeof name);
    return t->nstreams++;
}

/* 0: computation, 1: messages between PEs, then what there is. */
static int stream_of(struct trace *t, const struct pdl_event *e)
{
    const struct pdl_plan_op *o = &t->j->plan->ops[e->op];

    if (o->kind == PDL_PLAN_OP_COPY_OUT)
        return stream_at(t, "copies out", 0);
    if (o->kind == PDL_PLAN_OP_COPY_IN)
        return stream_at(t, "copies in", 0);
    if (o->kind == PDL_PLAN_OP_UPDATE && o->nout > 0 &&
        t->j->plan->tensors[o->out[0]].host)
        return stream_at(t, "host", 0);
    if (o->kind == PDL_PLAN_OP_HALO || o->kind == PDL_PLAN_OP_ROTATE ||
        o->kind == PDL_PLAN_OP_SEND || o->kind == PDL_PLAN_OP_RECV)
        return 1;
    if (o->group == 0)
        return 0;
    return stream_at(t, e->micro < 0 ? "gradients" : "collectives", o->group);
}

static void label(struct trace *t, const char *what, int pid, int tid,
                  const char *name)
{
    pdl_json_row(&t->w);
    pdl_json_kstr(&t->w, "name", what);
    pdl_json_kstr(&t->w, "ph", "M");
    pdl_json_kint(&t->w, "pid", pid);
    pdl_json_kint(&t->w, "tid", tid);
    pdl_json_key(&t->w, "args");
    pdl_json_row(&t->w);
    pdl_json_kstr(&t->w, "name", name);
    pdl_json_end(&t->w);
    pdl_json_end(&t->w);
}

static void event(struct trace *t, const struct pdl_event *e)
{
    const struct pdl_plan_op *o = &t->j->plan->ops[e->op];
    char name[256];

    pdl_json_row(&t->w);
    pdl_json_kstr(&t->w, "name",
                  pdl_plan_op_text(t->j->plan, e->op, name, sizeof name));
    pdl_json_kstr(&t->w, "cat", pdl_plan_op_name(o->kind));
    pdl_json_kstr(&t->w, "ph", "X");
    pdl_json_knum(&t->w, "ts", 1e6 * e->start_s);
    pdl_json_knum(&t->w, "dur", 1e6 * e->seconds);
    pdl_json_kint(&t->w, "pid", e->stage);
    pdl_json_kint(&t->w, "tid", stream_of(t, e));
    pdl_json_key(&t->w, "args");
    pdl_json_row(&t->w);
    pdl_json_kint(&t->w, "op", e->op);
    if (e->micro >= 0)
        pdl_json_kint(&t->w, "micro", e->micro);
    pdl_json_end(&t->w);
    pdl_json_end(&t->w);
}

static void write_all(struct trace *t, const struct pdl_timeline *line)
{
    char name[32];

    pdl_json_object(&t->w);
    pdl_json_kstr(&t->w, "displayTimeUnit", "ms");
    pdl_json_key(&t->w, "traceEvents");
    pdl_json_array(&t->w);
    for (int64_t i = 0; i < line->n; i++)
        event(t, &line->events[i]);
    for (int s = 0; s < t->j->plan->nstages; s++) {
        snprintf(name, sizeof name, "stage %d", s);
        label(t, "process_name", s, 0, name);
        for (int i = 0; i < t->nstreams; i++)
            label(t, "thread_name", s, i, t->stream[i]);
    }
    pdl_json_end(&t->w);
    pdl_json_end(&t->w);
}

int cli_job_trace(const struct cli_job *j, const char *path)
{
    struct trace t = {.j = j, .stream = {"compute", "messages"}, .nstreams = 2};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_timeline line;
    struct pdl_err err = {"", ""};
    enum pdl_status st;
    struct pdl_buf b;
    int rc;

    st = a ? pdl_timeline(a, j->plan, &j->sys, &j->oracle, &line, &err)
           : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st != PDL_OK) {
        pdl_arena_destroy(a);
        return cli_fail(st, &err);
    }
    pdl_buf_init(&b);
    pdl_json_init(&t.w, &b.sink);
    write_all(&t, &line);
    rc = b.sink.failed
             ? cli_fail(pdl_fail(&err, PDL_ENOMEM, "out of memory"), &err)
             : cli_write(path, &b);
    pdl_buf_free(&b);
    pdl_arena_destroy(a);
    return rc;
}
