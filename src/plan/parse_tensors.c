/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of a plan file. */
#include "parse.h"

#include <string.h>

/* A factor is at one place only. */
static void put_factors(struct plan_text_reader *r, struct pdl_plan_tensor *t,
                        uint32_t set, int at)
{
    for (int f = 0; f < r->mesh->nfactors && r->x.status == PDL_OK; f++) {
        if (!(set >> f & 1))
            continue;
        if (t->place.at[f] != PDL_REPLICATED)
            plan_lex_fail(&r->x, "a%d is used twice", f);
        t->place.at[f] = (int8_t)at;
    }
}

static void read_frame(struct plan_text_reader *r, struct pdl_frame *f)
{
    struct pdl_window *w = &f->window;
    int64_t *const v[] = {&w->kernel, &w->stride, &w->dilation,
                          &w->pad,    &w->in,     &w->out};

    f->kind =
        plan_lex_take(&r->x, "readers(") ? PDL_FRAME_READERS : PDL_FRAME_READS;
    if (f->kind == PDL_FRAME_READS)
        plan_lex_need(&r->x, "reads(");
    for (int i = 0; i < 6; i++) {
        if (i > 0)
            plan_lex_need(&r->x, ",");
        *v[i] = plan_lex_int(&r->x, -(INT64_C(1) << 30), INT64_C(1) << 30);
    }
    plan_lex_need(&r->x, ")");
}

/* The frames of most tensors are shared: these get their own. */
static void own_frame(struct plan_text_reader *r, struct pdl_plan_tensor *t,
                      int d)
{
    if (!r->frames)
        r->frames = PDL_NEW(r->x.arena, struct pdl_frame, PDL_BOX_DIMS);
    if (!r->frames) {
        plan_lex_fail(&r->x, "out of memory");
        return;
    }
    t->frame = r->frames;
    read_frame(r, &r->frames[d]);
}

/* The name of a dimension depends on the tensor's kind and model tensor,
 * which stand behind it: letters now, the right ones in the end. */
static void read_dim(struct plan_text_reader *r, struct pdl_plan_tensor *t)
{
    int d = t->ndims++;

    while (r->x.at < r->x.eol && ((*r->x.at >= 'A' && *r->x.at <= 'Z') ||
                                  (*r->x.at >= '0' && *r->x.at <= '9')))
        r->x.at++;
    plan_lex_need(&r->x, ":");
    t->dim[d] = plan_lex_int(&r->x, 0, INT64_MAX);
    if (plan_lex_take(&r->x, "u"))
        t->unit[d] = plan_lex_int(&r->x, 2, INT64_C(1) << 40);
    if (plan_lex_take(&r->x, "/"))
        put_factors(r, t, plan_read_factors(r), d);
    if (plan_lex_take(&r->x, "^"))
        own_frame(r, t, d);
}

static void check_dim_names(struct plan_text_reader *r,
                            const struct pdl_plan_tensor *t, const char *at)
{
    const char *end = r->x.at;

    for (int d = 0; d < t->ndims && r->x.status == PDL_OK; d++) {
        char name[4];

        plan_text_dim(&r->p, t, d, name);
        while (*at == ' ' || *at == '[')
            at++;
        r->x.at = at;
        if (!plan_lex_take(&r->x, name) || !plan_lex_is(&r->x, ":"))
            plan_lex_fail(&r->x, "this dimension is called '%s'", name);
        while (at < end && *at != ' ')
            at++;
    }
    if (r->x.status == PDL_OK)
        r->x.at = end;
}

static void read_dims(struct plan_text_reader *r, struct pdl_plan_tensor *t)
{
    plan_lex_more(&r->x);
    plan_lex_need(&r->x, "[");
    while (r->x.status == PDL_OK && !plan_lex_take(&r->x, "]")) {
        if (t->ndims == PDL_BOX_DIMS) {
            plan_lex_fail(&r->x, "more than %d dimensions", PDL_BOX_DIMS);
            return;
        }
        read_dim(r, t);
        plan_lex_more(&r->x);
    }
}

static void read_kind(struct plan_text_reader *r, struct pdl_plan_tensor *t)
{
    const char *start = r->x.at;
    int kind = plan_read_word(plan_lex_word(&r->x, false), plan_text_kinds,
                              plan_text_nkinds);

    if (kind < 0) {
        r->x.at = start;
        plan_lex_fail(&r->x, "no kind of tensor");
        return;
    }
    t->kind = (enum pdl_plan_kind)kind;
}

static void read_dtype(struct plan_text_reader *r, struct pdl_plan_tensor *t)
{
    const char *start = r->x.at, *word = plan_lex_word(&r->x, false);

    if (r->x.status == PDL_OK && !pdl_dtype_find(word, &t->dtype)) {
        r->x.at = start + 1;
        plan_lex_fail(&r->x, "no type of number '%.40s'", word);
    }
}

static void read_partial(struct plan_text_reader *r, struct pdl_plan_tensor *t,
                         const char *word, int place)
{
    if (!plan_lex_take(&r->x, word))
        return;
    put_factors(r, t, plan_read_factors(r), place);
    plan_lex_need(&r->x, ")");
    plan_lex_more(&r->x);
}

void plan_read_tensor(struct plan_text_reader *r)
{
    struct pdl_plan_tensor t = {
        .place = plan_everywhere(), .frame = pdl_no_frames, .model_tensor = -1};
    const char *dims;

    r->frames = NULL;
    plan_read_id(r, "t", r->p.ntensors);
    t.name = plan_lex_word(&r->x, false);
    read_dtype(r, &t);
    dims = r->x.at;
    read_dims(r, &t);
    plan_lex_more(&r->x);
    read_partial(r, &t, "~sum(", PDL_PARTIAL);
    read_partial(r, &t, "~max(", PDL_PARTIAL_MAX);
    read_kind(r, &t);
    plan_lex_more(&r->x);
    plan_lex_need(&r->x, "stage=");
    t.stage = (int)plan_lex_int(&r->x, 0, r->p.nstages - 1);
    plan_lex_more(&r->x);
    if (plan_lex_take(&r->x, "of="))
        t.model_tensor = plan_read_name(r, &r->tensor_names, "tensor");
    t.host = plan_lex_more(&r->x) && plan_lex_take(&r->x, "host");
    if (plan_lex_more(&r->x) && plan_lex_take(&r->x, "some=")) {
        t.some = plan_lex_int(&r->x, 1, INT64_C(1) << 40);
        plan_lex_need(&r->x, "/");
        t.of = plan_lex_int(&r->x, 1, INT64_C(1) << 40);
    }
    t.round = plan_read_round(r);
    plan_lex_done(&r->x);
    if (r->x.status == PDL_OK)
        check_dim_names(r, &t, dims);
    if (r->x.status == PDL_OK) {
        r->tensor_lines[r->p.ntensors] = plan_read_line(r);
        r->tensors[r->p.ntensors++] = t;
    }
}
