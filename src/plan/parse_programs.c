/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs of a plan file: one operation a line. */
#include "parse.h"

#include <string.h>

/* "forward", "backward-data.1", "allreduce" ... */
static void read_verb(struct plan_text_reader *r, struct pdl_plan_op *o)
{
    const char *start = r->x.at;
    char *word = NULL, *dot;
    int pass = -1, kind = -1;

    word = pdl_arena_strdup(r->x.arena, plan_lex_word(&r->x, false));
    if (!word || r->x.status != PDL_OK)
        return;
    dot = strchr(word, '.');
    if (dot && (strcmp(dot, ".1") == 0 || strcmp(dot, ".2") == 0)) {
        o->part = dot[1] - '0';
        *dot = '\0';
    }
    pass = plan_read_word(word, plan_text_passes, 3);
    for (int k = 1; k <= PDL_PLAN_OP_FREE; k++)
        if (strcmp(word, pdl_plan_op_name((enum pdl_plan_op_kind)k)) == 0)
            kind = k;
    if (pass < 0 && kind < 0) {
        r->x.at = start + 1;
        plan_lex_fail(&r->x, "no operation '%.40s'", word);
        return;
    }
    o->kind = pass >= 0 ? PDL_PLAN_OP_COMPUTE : (enum pdl_plan_op_kind)kind;
    o->pass = pass >= 0                    ? (enum pdl_pass)pass
              : o->kind == PDL_PLAN_OP_ADD ? PDL_BACKWARD_DATA
                                           : PDL_FORWARD;
}

static const int *read_ids(struct plan_text_reader *r, int *count)
{
    int *ids, n = 0;

    while (plan_lex_more(&r->x) && plan_lex_is(&r->x, "t") && n < r->most_ids) {
        plan_lex_take(&r->x, "t");
        r->ids[n++] = (int)plan_lex_int(&r->x, 0, r->p.ntensors - 1);
    }
    ids = PDL_NEW(r->x.arena, int, n + 1);
    if (!ids)
        plan_read_no_memory(r);
    else if (n > 0)
        memcpy(ids, r->ids, (size_t)n * sizeof *ids);
    *count = n;
    return ids;
}

/* The first version has none: there all do as the strategy says. */
static void read_algorithm(struct plan_text_reader *r, struct pdl_plan_op *o)
{
    const char *start = r->x.at;

    if (plan_lex_more(&r->x) && plan_lex_take(&r->x, "by="))
        o->algorithm = plan_lex_word(&r->x, false);
    if (o->algorithm && o->kind != PDL_PLAN_OP_ALLREDUCE) {
        r->x.at = start;
        plan_lex_fail(&r->x, "only an allreduce has an algorithm");
    }
    if (r->version < 2 && o->kind == PDL_PLAN_OP_ALLREDUCE)
        o->algorithm = plan_algorithm(r->strategy);
}

/* The first two have none: there all gradients travel as the strategy says. */
static void read_compress(struct plan_text_reader *r, struct pdl_plan_op *o)
{
    bool gradient = o->kind == PDL_PLAN_OP_ALLREDUCE && o->nin > 0 &&
                    r->tensors[o->in[0]].kind == PDL_PLAN_WEIGHT_GRADIENT;
    const char *start = r->x.at;
    struct pdl_compression c;

    if (r->version >= 3 && plan_lex_more(&r->x) && plan_lex_take(&r->x, "as="))
        o->compress = plan_lex_word(&r->x, false);
    if (o->compress && (!gradient || !pdl_compress_parse(o->compress, &c))) {
        r->x.at = start;
        plan_lex_fail(&r->x, gradient ? "no such compression"
                                      : "only gradients are compressed");
    }
    if (r->version < 3 && gradient && o->group)
        o->compress = r->strategy->compress;
}

static void read_op(struct plan_text_reader *r, int stage)
{
    struct pdl_plan_op o = {.node = -1};
    const char *before;

    plan_read_id(r, "", r->p.nops);
    read_verb(r, &o);
    if (o.kind == PDL_PLAN_OP_COMPUTE && plan_lex_more(&r->x)) {
        if (plan_read_begins(r, "loss"))
            plan_lex_take(&r->x, "loss");
        else
            o.node = plan_read_name(r, &r->nodes, "layer");
    }
    if (plan_lex_more(&r->x) && plan_lex_is(&r->x, "a"))
        o.group = plan_read_factors(r);
    o.in = read_ids(r, &o.nin);
    if (plan_lex_more(&r->x))
        plan_lex_take(&r->x, "->");
    o.out = read_ids(r, &o.nout); /* without an arrow there are none left */
    read_algorithm(r, &o);
    read_compress(r, &o);
    o.round = plan_read_round(r);
    if (r->x.status != PDL_OK)
        return;
    before = r->x.at;
    while (before > r->x.start && before[-1] == ' ')
        before--;
    r->rests[r->p.nops] =
        (struct plan_line){r->x.start, before, r->x.eol, r->x.line, stage};
    r->ops[r->p.nops++] = o;
}

/* ---- programs --------------------------------------------------------- */

static void read_item(struct plan_text_reader *r)
{
    struct pdl_plan_item it = {.first_op = r->p.nops};

    plan_lex_take(&r->x, "item");
    plan_lex_more(&r->x);
    plan_lex_need(&r->x, "repeat=");
    it.repeat = plan_lex_int(&r->x, 1, INT64_MAX);
    plan_lex_more(&r->x);
    plan_lex_need(&r->x, "segment=");
    it.segment = (int)plan_lex_int(&r->x, 0, r->whole->nsegments - 1);
    plan_lex_done(&r->x);
    if (r->x.status == PDL_OK)
        r->items[r->p.nitems++] = it;
}

static void set_range(struct pdl_plan_stage *s, int phase, int first, int n)
{
    *(phase == 0   ? &s->first_forward
      : phase == 1 ? &s->first_backward
                   : &s->first_update) = first;
    *(phase == 0 ? &s->nforward : phase == 1 ? &s->nbackward : &s->nupdate) = n;
}

/* The line "program ..." that must come now. */
static void read_program_line(struct plan_text_reader *r, int phase, int stage)
{
    struct plan_line line;
    struct pdl_buf want;

    pdl_buf_init(&want);
    pdl_printf(&want.sink, "program %s %d rank=%lld", plan_text_phases[phase],
               stage, (long long)plan_text_rank(&r->p, stage));
    line = plan_read_line(r);
    plan_read_compare(r, &want, &line);
    pdl_buf_free(&want);
}

/* Reads programs up to "end"; the reader stands on the first one's line. */
void plan_read_programs(struct plan_text_reader *r)
{
    int phase, stage;

    for (int k = 0; r->x.status == PDL_OK &&
                    plan_text_program(r->p.nstages, k, &phase, &stage);
         k++) {
        int first = r->p.nitems;
        bool more;

        read_program_line(r, phase, stage);
        while ((more = plan_lex_line(&r->x))) {
            if (plan_read_begins(r, "item"))
                read_item(r);
            else if (*r->x.at >= '0' && *r->x.at <= '9' && r->p.nitems > first)
                read_op(r, stage);
            else
                break;
            if (r->x.status == PDL_OK)
                r->items[r->p.nitems - 1].nops =
                    r->p.nops - r->items[r->p.nitems - 1].first_op;
        }
        if (!more)
            plan_lex_fail(&r->x, "the file ends too early");
        set_range(&r->stages[stage], phase, first, r->p.nitems - first);
    }
    if (r->x.status == PDL_OK && !plan_read_begins(r, "end"))
        plan_lex_fail(&r->x, "expected 'end'");
    plan_lex_take(&r->x, "end");
    plan_lex_done(&r->x);
    if (plan_lex_line(&r->x))
        plan_lex_fail(&r->x, "something follows 'end'");
}
