/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a plan file (doc/formats/plan.md). Ids are dense and in order, so that
 * a number is an index; the model is loaded again from its name; what follows
 * from the rest (mesh, classes of ranks, FLOPs, bytes) is derived and
 * compared, so that a file cannot say one thing and mean another. */
#include "parse.h"
#include "units.h"

#include <string.h>

/* ---- how much there is ------------------------------------------------ */

/* Counts lines by their beginning, so that arrays are allocated once. */
static void count_lines(struct plan_text_reader *r)
{
    struct plan_lex x = r->x;

    while (plan_lex_line(&x)) {
        int words = 1;

        for (const char *p = x.at; p < x.eol; p++)
            words += *p == ' ';
        r->most_ids = words > r->most_ids ? words : r->most_ids;
        r->most_tensors += *x.at == 't';
        r->most_ops += *x.at >= '0' && *x.at <= '9';
        r->most_items += *x.at == 'i';
        r->most_fallbacks += *x.at == 'f';
    }
    r->x.status = x.status;
    if (x.status != PDL_OK)
        return;
    r->tensors = PDL_NEW(x.arena, struct pdl_plan_tensor, r->most_tensors + 1);
    r->tensor_lines = PDL_NEW(x.arena, struct plan_line, r->most_tensors + 1);
    r->ops = PDL_NEW(x.arena, struct pdl_plan_op, r->most_ops + 1);
    r->rests = PDL_NEW(x.arena, struct plan_line, r->most_ops + 1);
    r->items = PDL_NEW(x.arena, struct pdl_plan_item, r->most_items + 1);
    r->fallbacks = PDL_NEW(x.arena, const char *, r->most_fallbacks + 1);
    r->ids = PDL_NEW(x.arena, int, r->most_ids + 1);
    r->strategy = PDL_NEW(x.arena, struct pdl_strategy, 1);
    r->mesh = PDL_NEW(x.arena, struct pdl_mesh, 1);
    if (!r->tensors || !r->tensor_lines || !r->ops || !r->rests || !r->items ||
        !r->fallbacks || !r->ids || !r->strategy || !r->mesh)
        plan_read_no_memory(r);
}

/* Fallbacks, tensors, classes; then the reader stands on a program's line. */
static void read_lists(struct plan_text_reader *r)
{
    bool more;

    while ((more = plan_lex_line(&r->x))) {
        if (plan_read_begins(r, "fallback") && r->p.ntensors == 0) {
            plan_lex_take(&r->x, "fallback");
            r->fallbacks[r->p.nfallbacks++] = plan_lex_word(&r->x, true);
            plan_lex_done(&r->x);
        } else if (plan_lex_is(&r->x, "t") && !r->classes.at) {
            plan_read_tensor(r);
        } else if (plan_read_begins(r, "class")) {
            if (!r->classes.at)
                r->classes = (struct plan_line){r->x.start, r->x.start, NULL,
                                                r->x.line, 0};
            r->classes.eol = r->x.next;
        } else {
            break;
        }
    }
    if (!more)
        plan_lex_fail(&r->x, "the file ends too early");
    if (r->x.status == PDL_OK && !plan_read_begins(r, "program"))
        plan_lex_fail(&r->x, "expected a tensor, a class or a program");
}

/* ---- all of it -------------------------------------------------------- */

static void compare_derived(struct plan_text_reader *r)
{
    struct pdl_buf want;

    for (int i = 0; i < r->p.nops && r->x.status == PDL_OK; i++) {
        pdl_buf_init(&want);
        plan_text_work(&r->p, i, r->rests[i].stage, &want.sink);
        plan_read_compare(r, &want, &r->rests[i]);
        pdl_buf_free(&want);
    }
    if (r->x.status != PDL_OK)
        return;
    pdl_buf_init(&want);
    if (!r->classes.at)
        plan_lex_fail(&r->x, "the classes of ranks are missing");
    else if (plan_text_classes(&r->p, &want.sink) != PDL_OK)
        plan_read_no_memory(r);
    plan_read_compare(r, &want, &r->classes);
    pdl_buf_free(&want);
}

/* A fallback is of the round that its layer is of. */
static int *find_rounds(struct plan_text_reader *r, const struct plan_units *u)
{
    int *round = PDL_NEW(r->x.arena, int, r->p.nfallbacks + 1);

    for (int i = 0; round && i < r->p.nfallbacks; i++) {
        const char *end = strstr(r->fallbacks[i], ": ");
        const char *name = end ? pdl_arena_printf(r->x.arena, "%.*s",
                                                  (int)(end - r->fallbacks[i]),
                                                  r->fallbacks[i])
                               : NULL;
        int node = name ? plan_names_find(&r->nodes, name) : -1;

        round[i] = plan_unit_has_node(u, node)
                       ? (node - u->first_node) / u->nodes
                       : -1;
    }
    return round;
}

/* What is repeated must be alike, and its items must say so. */
static void check_roll(struct plan_text_reader *r)
{
    struct plan_units u;
    int none = r->p.nfallbacks;

    r->p.nfallbacks = 0; /* first without them: where are the layers? */
    plan_units_make(r->x.arena, &r->p, r->roll, &u);
    r->p.nfallbacks = none;
    r->roll->fallback_round = u.nodes > 0 ? find_rounds(r, &u) : NULL;
    if (!r->roll->fallback_round) {
        plan_read_no_memory(r);
        return;
    }
    if (plan_units_make(r->x.arena, &r->p, r->roll, &u) &&
        plan_units_alike(&u) && plan_units_items(&u))
        return;
    plan_read_go_to(r, &r->roll_line);
    plan_lex_fail(&r->x, "the repeated rounds are not alike");
}

static void finish(struct plan_text_reader *r)
{
    struct pdl_err inner = {"", ""};
    struct plan_spot spot = {-1, -1};
    enum pdl_status st;

    r->p.tensors = r->tensors;
    r->p.ops = r->ops;
    r->p.items = r->items;
    r->p.stages = r->stages;
    r->p.fallbacks = r->fallbacks;
    if (r->x.status != PDL_OK)
        return;
    r->p.forward_op =
        plan_index_forward(r->x.arena, r->ops, r->p.nops, r->model->nnodes);
    if (!r->p.forward_op) {
        plan_read_no_memory(r);
        return;
    }
    for (int i = 0; i < r->p.nops; i++) { /* it goes with an attention */
        int x = pdl_plan_rotates_for(&r->p, i);

        if (x >= 0)
            r->ops[i].pass = r->ops[x].pass;
    }
    st = plan_structure(&r->p, &spot, &inner);
    if (st != PDL_OK && spot.tensor >= 0)
        plan_read_go_to(r, &r->tensor_lines[spot.tensor]);
    if (st != PDL_OK && spot.op >= 0)
        plan_read_go_to(r, &r->rests[spot.op]);
    plan_read_place(r, st, &inner);
    if (r->x.status == PDL_OK && r->roll)
        check_roll(r);
    compare_derived(r);
}

enum pdl_status pdl_plan_parse(pdl_arena *a, struct pdl_bytes in,
                               const char *name,
                               const struct pdl_plan_loader *loader,
                               struct pdl_plan_head *head,
                               const struct pdl_plan **out, struct pdl_err *err)
{
    struct plan_text_reader r = {.loader = loader};
    struct pdl_plan *p;

    plan_lex_init(&r.x, a, in, name, err);
    count_lines(&r);
    plan_read_header(&r);
    if (r.x.status == PDL_OK) {
        r.stages = PDL_NEW(a, struct pdl_plan_stage, r.p.nstages);
        if (!r.stages)
            plan_read_no_memory(&r);
    }
    read_lists(&r);
    plan_read_programs(&r);
    finish(&r);
    if (r.x.status != PDL_OK)
        return r.x.status;
    p = PDL_NEW(a, struct pdl_plan, 1);
    if (!p)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    *p = r.p;
    if (!plan_index_groups(a, p))
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    *head = r.head;
    *out = p;
    return PDL_OK;
}

enum pdl_status pdl_plan_read(pdl_arena *a, struct pdl_bytes in,
                              const char *name,
                              const struct pdl_plan_loader *loader,
                              struct pdl_plan_head *head,
                              const struct pdl_plan **out, struct pdl_err *err)
{
    const struct pdl_plan *p;
    enum pdl_status st = pdl_plan_parse(a, in, name, loader, head, &p, err);

    return st == PDL_OK ? pdl_plan_unroll(a, p, out, err) : st;
}
