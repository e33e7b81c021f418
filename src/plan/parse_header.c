/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a plan file: version, model, strategy, batch, mesh, and which
 * rounds of a rolled plan are written. */
#include "parse.h"

#include <string.h>

static enum pdl_status load_by_name(void *ctx, pdl_arena *a,
                                    const struct pdl_plan_head *head,
                                    const struct pdl_model **out,
                                    struct pdl_err *err)
{
    struct pdl_model_options opt = {.dims = head->dim,
                                    .logits = head->output != NULL};

    (void)ctx;
    return pdl_model_load(a, head->model, &opt, out, err);
}

static void load_model(struct plan_text_reader *r)
{
    static const struct pdl_plan_loader by_name = {load_by_name, NULL};
    const struct pdl_plan_loader *l = r->loader ? r->loader : &by_name;
    struct pdl_err inner = {"", ""};
    enum pdl_status st;

    if (r->x.status != PDL_OK)
        return;
    st = l->load(l->ctx, r->x.arena, &r->head, &r->whole, &inner);
    if (st != PDL_OK)
        plan_read_go_to(r, &r->model_line);
    plan_read_place(r, st, &inner);
}

/* All rounds, or those that a rolled plan has. */
static void write_out(struct plan_text_reader *r)
{
    struct pdl_err inner = {"", ""};
    enum pdl_status st;

    if (r->x.status != PDL_OK)
        return;
    st = plan_expand_rounds(r->x.arena, r->whole, r->p.roll, &r->model, &inner);
    if (st == PDL_OK && pdl_schedule_copies(r->strategy->schedule) > 1)
        st = plan_twin(r->x.arena, r->model, &r->model, &inner);
    if (st != PDL_OK)
        plan_read_go_to(r, &r->model_line);
    plan_read_place(r, st, &inner);
    if (st == PDL_OK &&
        (!plan_names_nodes(r->x.arena, r->model, &r->nodes) ||
         !plan_names_tensors(r->x.arena, r->model, &r->tensor_names)))
        plan_read_no_memory(r);
    r->p.model = r->model;
    r->p.given = r->whole;
}

static void read_strategy(struct plan_text_reader *r)
{
    struct pdl_err inner = {"", ""};
    const char *text;
    enum pdl_status st;

    plan_read_section(r, "strategy");
    text = plan_lex_word(&r->x, true);
    if (r->x.status != PDL_OK)
        return;
    st = pdl_strategy_parse(r->x.arena, text, r->strategy, &inner);
    if (st == PDL_OK)
        st = plan_refuse_unbuilt(r->strategy, &inner);
    if (st == PDL_OK)
        st = pdl_mesh_for(r->strategy, r->whole, r->mesh, &inner);
    if (st == PDL_OK)
        st = plan_find_pipe(r->strategy, r->mesh, &r->p.pipe_factors,
                            &r->p.lanes, &r->p.nstages, &inner);
    plan_read_place(r, st, &inner);
    if (st == PDL_OK && r->mesh->pes > PLAN_TEXT_MAX_PES)
        plan_lex_fail(&r->x, "more than %d PEs", PLAN_TEXT_MAX_PES);
    r->p.strategy = r->strategy;
    r->p.mesh = r->mesh;
    if (r->x.status == PDL_OK)
        r->p.deal = plan_deal(r->strategy, r->whole);
}

static void read_batch(struct plan_text_reader *r)
{
    plan_read_section(r, "batch");
    plan_lex_more(&r->x);
    r->p.batch = plan_lex_int(&r->x, 1, INT64_C(1) << 40);
    plan_lex_more(&r->x);
    plan_lex_need(&r->x, "micro=");
    r->p.micro_batches = plan_lex_int(&r->x, 1, INT64_C(1) << 40);
    plan_lex_done(&r->x);
    if (r->x.status == PDL_OK &&
        (r->p.micro_batches * pdl_schedule_copies(r->strategy->schedule) !=
             plan_micro_batches(r->strategy) ||
         r->p.batch % plan_micro_batches(r->strategy) != 0))
        plan_lex_fail(&r->x, "the strategy makes %lld micro-batches",
                      (long long)plan_micro_batches(r->strategy));
}

static void read_mesh(struct plan_text_reader *r)
{
    struct plan_line line;
    struct pdl_buf want;

    plan_read_section(r, "mesh");
    if (r->x.status != PDL_OK)
        return;
    pdl_buf_init(&want);
    plan_text_mesh(&r->p, &want.sink);
    if (want.len > 0)
        want.len--; /* the line feed */
    line = plan_read_line(r);
    plan_read_compare(r, &want, &line);
    pdl_buf_free(&want);
}

static void read_version(struct plan_text_reader *r)
{
    if (!plan_lex_line(&r->x) || !plan_lex_take(&r->x, PLAN_TEXT_MAGIC)) {
        r->x.at = r->x.start;
        plan_lex_fail(&r->x, "is no plan file");
        plan_lex_hint(&r->x, "its first line is '" PLAN_TEXT_MAGIC "%d'",
                      PLAN_TEXT_VERSION);
        return;
    }
    r->version = (int)plan_lex_int(&r->x, 1, INT32_MAX);
    plan_lex_done(&r->x);
    if (r->x.status == PDL_OK && r->version > PLAN_TEXT_VERSION) {
        r->x.at = r->x.start;
        plan_lex_fail(&r->x, "version %d of plan files is not known here",
                      r->version);
        plan_lex_hint(&r->x, "this program reads versions 1 to %d",
                      PLAN_TEXT_VERSION);
    }
}

/* The units of one stage: F*R. They must leave rounds to be written. */
static void read_units(struct plan_text_reader *r, struct pdl_plan_roll *roll,
                       struct pdl_plan_units *u, int64_t *left)
{
    int64_t n;

    u->first = (int)plan_lex_int(&r->x, 0, 1 << 22);
    plan_lex_need(&r->x, "*");
    u->repeat = plan_lex_int(&r->x, 2, 1 << 22);
    if (r->x.status != PDL_OK)
        return;
    n = (u->repeat - 1) * roll->period;
    if (n >= *left)
        plan_lex_fail(&r->x, "the segment has not so many rounds");
    *left -= n;
    roll->ngroups++;
}

/* Optional: which rounds are written. */
static void read_roll(struct plan_text_reader *r)
{
    struct plan_lex before = r->x;
    struct pdl_plan_roll *roll = PDL_NEW(r->x.arena, struct pdl_plan_roll, 1);
    struct pdl_plan_units *g;
    int64_t left;

    if (!plan_lex_line(&r->x) || !plan_read_begins(r, "roll") ||
        r->version < 2) {
        if (r->x.status == PDL_OK)
            r->x = before;
        return;
    }
    r->roll_line = plan_read_line(r);
    g = PDL_NEW(r->x.arena, struct pdl_plan_units, r->p.nstages + 1);
    if (!roll || !g) {
        plan_read_no_memory(r);
        return;
    }
    plan_lex_take(&r->x, "roll");
    plan_lex_more(&r->x);
    plan_lex_need(&r->x, "segment=");
    roll->segment = (int)plan_lex_int(&r->x, 0, r->whole->nsegments - 1);
    plan_lex_more(&r->x);
    plan_lex_need(&r->x, "width=");
    roll->width = (int)plan_lex_int(&r->x, 1, 8);
    plan_lex_more(&r->x);
    plan_lex_need(&r->x, "period=");
    roll->period = (int)plan_lex_int(&r->x, 1, 1024);
    if (r->x.status != PDL_OK)
        return;
    left = r->whole->segments[roll->segment].repeat;
    if (left > 1 << 22)
        plan_lex_fail(&r->x, "the segment has too many rounds");
    while (plan_lex_more(&r->x) && roll->ngroups < r->p.nstages &&
           r->x.status == PDL_OK)
        read_units(r, roll, &g[roll->ngroups], &left);
    plan_lex_done(&r->x);
    roll->model = r->whole;
    roll->groups = g;
    r->p.roll = r->roll = roll;
}

void plan_read_header(struct plan_text_reader *r)
{
    const struct {
        const char *key, **value;
        bool needed;
    } lines[] = {{"model", &r->head.model, true},
                 {"dim", &r->head.dim, false},
                 {"output", &r->head.output, false},
                 {"system", &r->head.system, false},
                 {"precision", &r->head.precision, false},
                 {"optimizer", &r->head.optimizer, false}};

    read_version(r);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct plan_lex before = r->x;

        if (lines[i].needed) {
            plan_read_section(r, lines[i].key);
        } else if (!plan_lex_line(&r->x) ||
                   !plan_read_begins(r, lines[i].key)) {
            if (r->x.status == PDL_OK)
                r->x = before;
            continue;
        } else {
            plan_lex_take(&r->x, lines[i].key);
        }
        if (i == 0)
            r->model_line = plan_read_line(r);
        *lines[i].value = plan_lex_word(&r->x, true);
        if (lines[i].value == &r->head.output &&
            strcmp(r->head.output, "logits") != 0)
            plan_lex_fail(&r->x, "an output is 'logits'");
        plan_lex_done(&r->x);
    }
    load_model(r);
    read_strategy(r);
    read_batch(r);
    read_mesh(r);
    read_roll(r);
    write_out(r);
}
