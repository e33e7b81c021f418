/* SPDX-License-Identifier: Apache-2.0
 *
 * A few steps of training on the machine at hand, the fastest of them (other
 * work on the machine only slows steps down) operation by operation, beside the
 * projection of the same plan on a description of the machine (paradl calibrate
 * makes one). Measured and projected join by the number of the operation: both
 * sides are the same plan. What a stage of a pipeline waits for its input is
 * beside what the schedule leaves idle. */
#include "cli/commands/validate_here.h"

#include "cli/questions/handover.h"
#include "cli/output/projection.h"
#include "options/train_options.h" /* of src/run */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TIMINGS = 1 << 26 };

enum phase { FORWARD, BACKWARD, UPDATE, EXCHANGE, WAITING, NPHASES };
static const char *const phase_names[] = {"forward", "backward", "update",
                                          "exchange", "waiting"};

struct here {
    const struct cli_here_options *o;
    pdl_arena *a;
    struct cli_job *j;
    const struct pdl_doc *timings;
    double *measured; /* of each operation */
    double step_s;
    int64_t bytes;
    double projected_phase[NPHASES], measured_phase[NPHASES];
};

/* ---- measuring --------------------------------------------------------- */

/* Runs the very plan that was priced. */
static enum pdl_status train(struct here *h, const char *plan, const char *hash,
                             const char *timings, struct pdl_err *err)
{
    struct train_options t = {
        .data = "synthetic",
        .plan = plan,
        .plan_hash = hash,
        .device = h->o->device,
        .steps = h->o->steps > 0 ? h->o->steps
                 : h->o->device  ? 48
                                 : 8,
        .samples = 4 * h->j->plan->batch,
        .optimizer = h->o->optimizer,
        .timings = timings,
        .cpu_times = h->o->cpu_times,
        .threads = h->j->sys.pe.arch && h->j->sys.pe.units > 0 &&
                           strcmp(h->j->sys.pe.arch, "cpu") == 0
                       ? h->j->sys.pe.units
                       : 0,
        .virtual_ranks = h->j->plan->mesh->pes == 1,
    };
    struct pdl_args args = {.opts = &t, .json = true};
    struct pdl_buf text;
    enum pdl_status st;

    pdl_buf_init(&text);
    st = cli_capture(&cli_train, &args,
                     t.virtual_ranks ? 0 : h->j->plan->mesh->pes, &text, err);
    pdl_buf_free(&text);
    return st;
}

static enum pdl_status read_timings(struct here *h, const char *path,
                                    struct pdl_err *err)
{
    const struct pdl_doc *d, *list, *v;
    struct pdl_bytes in;
    enum pdl_status st = pdl_file_read(h->a, path, MAX_TIMINGS, &in, err);

    if (st == PDL_OK)
        st = pdl_doc_json(h->a, in, path, &d, err);
    if (st != PDL_OK)
        return st;
    list = pdl_doc_get(d, "operations");
    v = pdl_doc_get(d, "fastest_s");
    if (!list || !v)
        return pdl_fail(err, PDL_EPARSE, "%s: no timings", path);
    st = pdl_doc_num(v, PDL_UNIT_NONE, 0, 1e9, &h->step_s, err);
    v = pdl_doc_get(d, "bytes");
    if (st == PDL_OK && v)
        st = pdl_doc_int(v, 0, INT64_MAX, &h->bytes, err);
    for (const struct pdl_doc *x = list->child; x && st == PDL_OK;
         x = x->next) {
        const struct pdl_doc *id = pdl_doc_get(x, "id");
        const struct pdl_doc *s = pdl_doc_get(x, "seconds");
        int64_t op = 0;

        if (!id || !s)
            return pdl_doc_fail(x, err, "an operation needs id and seconds");
        st = pdl_doc_int(id, 0, h->j->plan->nops - 1, &op, err);
        if (st == PDL_OK)
            st = pdl_doc_num(s, PDL_UNIT_NONE, 0, 1e9, &h->measured[op], err);
    }
    return st;
}

/* Of a device the steps in which every operation is timed take longer than the
 * others: what looking adds to each is not the operation's. */
static void take_off_watching(struct here *h)
{
    const struct pdl_plan *p = h->j->plan;
    double sum = 0, each;
    int n = 0;

    for (int i = 0; i < p->nops; i++) {
        sum += h->measured[i];
        n += h->measured[i] > 0;
    }
    each = n > 0 ? (sum - h->step_s) / n : 0;
    for (int i = 0; i < p->nops && each > 0; i++)
        h->measured[i] = pdl_unwatched(h->measured[i], each);
}

static enum pdl_status measure(struct here *h, struct pdl_err *err)
{
    struct cli_handover folder;
    enum pdl_status st = cli_handover_open(&folder, err);
    const char *plan, *timings;
    char hash[17];

    if (st != PDL_OK)
        return st;
    plan = cli_handover_file(&folder, h->a, "here.plan");
    timings = cli_handover_file(&folder, h->a, "timings.json");
    st = plan && timings ? cli_handover_plan(h->j->job, plan, hash, err)
                         : pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = train(h, plan, hash, timings, err);
    if (st == PDL_OK)
        st = read_timings(h, timings, err);
    if (st == PDL_OK && h->o->device && h->j->plan->mesh->pes == 1)
        take_off_watching(h);
    cli_handover_close(&folder);
    return st;
}

/* ---- comparing --------------------------------------------------------- */

static enum phase phase_of(const struct pdl_plan_op *o)
{
    switch (o->kind) {
    case PDL_PLAN_OP_COMPUTE:
        return o->pass == PDL_FORWARD ? FORWARD : BACKWARD;
    case PDL_PLAN_OP_ADD:
        return BACKWARD;
    case PDL_PLAN_OP_UPDATE:
        return UPDATE;
    case PDL_PLAN_OP_RECV:
        return WAITING;
    default:
        return EXCHANGE;
    }
}

static double projected(const struct here *h, int op)
{
    struct pdl_op_price p;
    double micro = (double)h->j->plan->micro_batches;

    pdl_price_op(h->j->plan, &h->j->sys, &h->j->oracle, op, &p);
    return phase_of(&h->j->plan->ops[op]) == UPDATE ? p.seconds
                                                    : micro * p.seconds;
}

static void add_up(struct here *h)
{
    for (int i = 0; i < h->j->plan->nops; i++) {
        enum phase p = phase_of(&h->j->plan->ops[i]);

        if (h->j->plan->ops[i].kind == PDL_PLAN_OP_FREE)
            continue;
        h->projected_phase[p] += projected(h, i);
        h->measured_phase[p] += h->measured[i];
    }
    h->projected_phase[WAITING] = h->j->x.bubble_s;
}

static double accuracy(double p, double m)
{
    return m > 0 ? 1 - fabs(p - m) / m : 0;
}

static bool has(const int *ids, int n, int id)
{
    for (int i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Whose operation it is: that of a move is the layer that made what moves, or
 * that has it as a weight. NULL: of no layer alone (a bucket of gradients). */
static const char *layer_of(const struct pdl_plan *p, int op)
{
    const struct pdl_plan_op *o = &p->ops[op];
    int moved = o->nin > 0 ? o->in[0] : o->nout > 0 ? o->out[0] : -1, t;

    if (o->node >= 0)
        return p->model->nodes[o->node].name;
    t = moved >= 0 && o->nin <= 1 ? p->tensors[moved].model_tensor : -1;
    for (int i = 0; t >= 0 && i < p->model->nnodes; i++) {
        const struct pdl_node *n = &p->model->nodes[i];

        if (has(n->out, n->nout, t) || has(n->weights, n->nweights, t))
            return n->name;
    }
    return NULL;
}

/* layer NULL: the step, a phase, or what belongs to no layer alone. */
static void json_row(struct pdl_json *w, const struct here *h, const char *id,
                     const char *layer, double p, double m)
{
    const struct pdl_projection *x = &h->j->x;
    bool step = strcmp(id, "step") == 0;

    pdl_json_row(w);
    pdl_json_kstr(w, "id", id);
    pdl_json_kstr(w, "set", "here");
    if (layer)
        pdl_json_kstr(w, "layer", layer);
    pdl_json_kstr(w, "model", h->o->model);
    pdl_json_kstr(w, "strategy", h->o->strategy);
    pdl_json_kint(w, "pes", x->pes);
    pdl_json_knum(w, "projected_s", p);
    if (step) {
        pdl_json_knum(w, "low_s", x->low_s);
        pdl_json_knum(w, "high_s", x->high_s);
    }
    pdl_json_knum(w, "measured_s", m);
    pdl_json_knum(w, "accuracy", accuracy(p, m));
    if (step) {
        pdl_json_kint(w, "projected_bytes", x->allocated_bytes);
        pdl_json_kint(w, "measured_bytes", h->bytes);
    }
    pdl_json_end(w);
}

static void print_json(const struct here *h, struct pdl_sink *out)
{
    struct pdl_json w;
    char name[256], id[300];

    pdl_json_init(&w, out);
    pdl_json_schema(&w, "validate");
    if (h->o->command && out != cli_out())
        pdl_json_kstr(&w, "command", h->o->command);
    pdl_json_key(&w, "rows");
    pdl_json_array(&w);
    json_row(&w, h, "step", NULL, h->j->x.step_s, h->step_s);
    for (int p = 0; p < NPHASES; p++)
        json_row(&w, h, phase_names[p], NULL, h->projected_phase[p],
                 h->measured_phase[p]);
    for (int i = 0; i < h->j->plan->nops; i++) {
        if (h->j->plan->ops[i].kind == PDL_PLAN_OP_FREE)
            continue;
        snprintf(id, sizeof id, "%d %s", i,
                 pdl_plan_op_text(h->j->plan, i, name, sizeof name));
        json_row(&w, h, id, layer_of(h->j->plan, i), projected(h, i),
                 h->measured[i]);
    }
    pdl_json_end(&w);
    pdl_json_knum(&w, "mean_accuracy", accuracy(h->j->x.step_s, h->step_s));
    pdl_json_end(&w);
}

static void text_row(struct pdl_table *t, const char *id, double p, double m)
{
    char a[32], b[32];

    pdl_table_cell(t, "%s", id);
    pdl_table_cell(t, "%s", pdl_unit_format(p, PDL_UNIT_SECONDS, a, sizeof a));
    pdl_table_cell(t, "%s", pdl_unit_format(m, PDL_UNIT_SECONDS, b, sizeof b));
    pdl_table_cell(t, "%.0f %%", 100 * accuracy(p, m));
}

static void print_text(const struct here *h)
{
    static const struct pdl_column columns[] = {{"", false},
                                                {"PROJECTED", true},
                                                {"MEASURED", true},
                                                {"ACCURACY", true}};
    const struct pdl_projection *x = &h->j->x;
    struct pdl_table t;
    char name[256], a[32], b[32];

    pdl_printf(cli_out(), "%s, %s, batch %lld, on %lld ranks here\n",
               h->o->model, h->o->strategy, (long long)h->j->plan->batch,
               (long long)h->j->plan->mesh->pes);
    pdl_table_init(&t, h->a, columns, 4);
    text_row(&t, "step", x->step_s, h->step_s);
    for (int p = 0; p < NPHASES; p++)
        text_row(&t, phase_names[p], h->projected_phase[p],
                 h->measured_phase[p]);
    for (int i = 0; i < h->j->plan->nops; i++)
        if (h->j->plan->ops[i].kind != PDL_PLAN_OP_FREE)
            text_row(&t, pdl_plan_op_text(h->j->plan, i, name, sizeof name),
                     projected(h, i), h->measured[i]);
    pdl_table_print(&t, cli_width(), cli_out());
    if (x->low_s > 0)
        pdl_printf(cli_out(), "80 %% of steps between %s and %s\n",
                   pdl_unit_format(x->low_s, PDL_UNIT_SECONDS, a, sizeof a),
                   pdl_unit_format(x->high_s, PDL_UNIT_SECONDS, b, sizeof b));
    pdl_printf(cli_out(), "memory: %s projected, %s allocated\n",
               pdl_unit_format((double)x->allocated_bytes, PDL_UNIT_BYTES, a,
                               sizeof a),
               pdl_unit_format((double)h->bytes, PDL_UNIT_BYTES, b, sizeof b));
}

static enum pdl_status compare(struct here *h, struct pdl_err *err)
{
    struct cli_question q = {
        .model = h->o->model,
        .system = h->o->system,
        .strategy = h->o->strategy,
        .precision = h->o->precision ? h->o->precision : "fp32",
        .optimizer = h->o->optimizer ? "adam" : "sgd",
        .dim = h->o->dim,
        .loss = "cross-entropy",
        .batch = h->o->batch > 0 ? h->o->batch : 32};
    enum pdl_status st;

    h->j = PDL_NEW(h->a, struct cli_job, 1);
    if (!h->j)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = cli_job_open(&q, h->j, err);
    if (st == PDL_OK)
        st = cli_job_price(&q, q.strategy, h->j, err);
    if (st != PDL_OK)
        return st;
    if (h->o->ranks > 0 && h->o->ranks != h->j->plan->mesh->pes)
        return pdl_fail(
            err, PDL_EINVAL, "-n %lld, but the strategy is for %lld ranks",
            (long long)h->o->ranks, (long long)h->j->plan->mesh->pes);
    pdl_interval(h->j->plan, &h->j->sys, &h->j->oracle, &h->j->x);
    h->measured = PDL_NEW(h->a, double, h->j->plan->nops + 1);
    if (!h->measured)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = measure(h, err);
    if (st == PDL_OK)
        add_up(h);
    return st;
}

int cli_validate_here(const struct cli_here_options *o, bool json,
                      struct pdl_buf *page)
{
    struct cli_here_options given = *o;
    struct here h = {.o = &given};
    struct pdl_err err = {"", ""};
    enum pdl_status st;
    char text[64];

    snprintf(text, sizeof text, "data=%lld",
             (long long)(o->ranks > 0 ? o->ranks : 1));
    if (!given.strategy)
        given.strategy = text;
    if (!o->system) {
        pdl_fail(&err, PDL_EINVAL, "validate MODEL needs --system");
        pdl_hint(&err,
                 "'paradl calibrate -o here.yaml' describes this machine");
        return cli_usage(&err);
    }
    h.a = pdl_arena_create(PDL_ARENA_DEFAULT);
    st = h.a ? compare(&h, &err) : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK && page)
        print_json(&h, &page->sink);
    if (st == PDL_OK && json)
        print_json(&h, cli_out());
    else if (st == PDL_OK)
        print_text(&h);
    cli_job_close(h.j);
    pdl_arena_destroy(h.a);
    return st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
}
