/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a plan file (doc/formats/plan.md). Ids are dense and in order, so that
 * a number is an index; the model is loaded again from its name; what follows
 * from the rest (mesh, classes of ranks, FLOPs, bytes) is derived and
 * compared, so that a file cannot say one thing and mean another. */
#include "lex.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

/* Where an operation's derived part stands, to compare it in the end. */
struct rest {
    const char *start, *at, *eol;
    int line, stage;
};

struct reader {
    struct plan_lex x;
    struct pdl_plan_head head;
    const struct pdl_plan_loader *loader;
    struct pdl_strategy *strategy;
    struct pdl_mesh *mesh;
    const struct pdl_model *model;
    struct plan_names nodes, tensor_names;
    struct pdl_plan p;
    struct pdl_plan_tensor *tensors;
    struct pdl_frame *frames; /* of the tensor being read; NULL: none yet */
    struct pdl_plan_op *ops;
    struct pdl_plan_item *items;
    struct pdl_plan_stage *stages;
    const char **fallbacks;
    struct rest *rests, *tensor_lines, model_line;
    struct rest classes; /* first class line; eol: the last one's end */
    int most_tensors, most_ops, most_items, most_fallbacks;
    int *ids; /* scratch: operands of one line */
    int most_ids;
};

static void no_memory(struct reader *r)
{
    if (r->x.status == PDL_OK)
        r->x.status = pdl_fail(r->x.err, PDL_ENOMEM,
                               "%s: the plan is too large", r->x.file);
}

/* ---- how much there is ---------------------------------------------------------- */

/* Counts lines by their beginning, so that arrays are allocated once. */
static void count_lines(struct reader *r)
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
    r->tensor_lines = PDL_NEW(x.arena, struct rest, r->most_tensors + 1);
    r->ops = PDL_NEW(x.arena, struct pdl_plan_op, r->most_ops + 1);
    r->rests = PDL_NEW(x.arena, struct rest, r->most_ops + 1);
    r->items = PDL_NEW(x.arena, struct pdl_plan_item, r->most_items + 1);
    r->fallbacks = PDL_NEW(x.arena, const char *, r->most_fallbacks + 1);
    r->ids = PDL_NEW(x.arena, int, r->most_ids + 1);
    r->strategy = PDL_NEW(x.arena, struct pdl_strategy, 1);
    r->mesh = PDL_NEW(x.arena, struct pdl_mesh, 1);
    if (!r->tensors || !r->tensor_lines || !r->ops || !r->rests || !r->items ||
        !r->fallbacks || !r->ids || !r->strategy || !r->mesh)
        no_memory(r);
}

static struct rest this_line(const struct reader *r)
{
    return (struct rest){r->x.start, r->x.start, r->x.eol, r->x.line, 0};
}

/* The place of the next message. */
static void go_to(struct reader *r, const struct rest *line)
{
    r->x.line = line->line;
    r->x.start = r->x.at = line->start;
    r->x.eol = line->eol;
}

/* ---- header --------------------------------------------------------------------- */

/* The next line must begin with this word. */
static bool section(struct reader *r, const char *word)
{
    if (!plan_lex_line(&r->x))
        plan_lex_fail(&r->x, "the file ends too early");
    if (plan_lex_take(&r->x, word) && (r->x.at == r->x.eol || *r->x.at == ' '))
        return true;
    r->x.at = r->x.start;
    plan_lex_fail(&r->x, "expected '%s'", word);
    return false;
}

static bool begins(struct reader *r, const char *word)
{
    size_t n = strlen(word);

    return plan_lex_is(&r->x, word) &&
           (r->x.at + n == r->x.eol || r->x.at[n] == ' ');
}

/* An error of another reader, with the place of this one. */
static void place(struct reader *r, enum pdl_status st,
                  const struct pdl_err *inner)
{
    if (st == PDL_OK || r->x.status != PDL_OK)
        return;
    plan_lex_fail(&r->x, "%s", inner->msg);
    if (*inner->hint)
        plan_lex_hint(&r->x, "%s", inner->hint);
    if (st == PDL_ENOMEM)
        r->x.status = st;
}

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

static void load_model(struct reader *r)
{
    static const struct pdl_plan_loader by_name = {load_by_name, NULL};
    const struct pdl_plan_loader *l = r->loader ? r->loader : &by_name;
    const struct pdl_model *m;
    struct pdl_err inner = {"", ""};
    enum pdl_status st;

    if (r->x.status != PDL_OK)
        return;
    st = l->load(l->ctx, r->x.arena, &r->head, &m, &inner);
    if (st == PDL_OK)
        st = plan_expand(r->x.arena, m, &r->model, &inner);
    if (st != PDL_OK)
        go_to(r, &r->model_line);
    place(r, st, &inner);
    if (st == PDL_OK &&
        (!plan_names_nodes(r->x.arena, r->model, &r->nodes) ||
         !plan_names_tensors(r->x.arena, r->model, &r->tensor_names)))
        no_memory(r);
    r->p.model = r->model;
}

static void read_strategy(struct reader *r)
{
    struct pdl_err inner = {"", ""};
    const char *text;
    enum pdl_status st;

    section(r, "strategy");
    text = plan_lex_word(&r->x, true);
    if (r->x.status != PDL_OK)
        return;
    st = pdl_strategy_parse(r->x.arena, text, r->strategy, &inner);
    if (st == PDL_OK)
        st = plan_refuse_unbuilt(r->strategy, &inner);
    if (st == PDL_OK)
        st = pdl_mesh_for(r->strategy, r->model, r->mesh, &inner);
    if (st == PDL_OK)
        st = plan_find_pipe(r->strategy, r->mesh, &r->p.pipe_factors,
                            &r->p.lanes, &r->p.nstages, &inner);
    place(r, st, &inner);
    if (st == PDL_OK && r->mesh->pes > PLAN_TEXT_MAX_PES)
        plan_lex_fail(&r->x, "more than %d PEs", PLAN_TEXT_MAX_PES);
    r->p.strategy = r->strategy;
    r->p.mesh = r->mesh;
    if (r->x.status == PDL_OK)
        r->p.deal = plan_deal(r->strategy, r->model);
}

static void read_batch(struct reader *r)
{
    section(r, "batch");
    plan_lex_more(&r->x);
    r->p.batch = plan_lex_int(&r->x, 1, INT64_C(1) << 40);
    plan_lex_more(&r->x);
    plan_lex_need(&r->x, "micro=");
    r->p.micro_batches = plan_lex_int(&r->x, 1, INT64_C(1) << 40);
    plan_lex_done(&r->x);
    if (r->x.status == PDL_OK &&
        (r->p.micro_batches != plan_micro_batches(r->strategy) ||
         r->p.batch % r->p.micro_batches != 0))
        plan_lex_fail(&r->x, "the strategy makes %lld micro-batches",
                      (long long)plan_micro_batches(r->strategy));
}

/* The line must be what the plan says. */
static void compare(struct reader *r, const struct pdl_buf *want,
                    const struct rest *have)
{
    size_t n = (size_t)(have->eol - have->at), k = 0;
    char text[80];

    if (r->x.status != PDL_OK)
        return;
    if (want->sink.failed) {
        no_memory(r);
        return;
    }
    while (k < n && k < want->len && have->at[k] == want->text[k])
        k++;
    if (k == n && k == want->len)
        return;
    r->x.line = have->line;
    r->x.start = have->start;
    r->x.at = have->at + k;
    /* the place in the line it really is on */
    for (const char *p = have->at; p < have->at + k; p++)
        if (*p == '\n') {
            r->x.line++;
            r->x.start = p + 1;
        }
    snprintf(text, sizeof text, "%.*s",
             (int)(want->text ? strcspn(want->text + k, "\n") : 0),
             want->text ? want->text + k : "");
    plan_lex_fail(&r->x, "does not agree with the plan: expected '%.60s'",
                  text);
}

static void read_mesh(struct reader *r)
{
    struct rest line;
    struct pdl_buf want;

    section(r, "mesh");
    if (r->x.status != PDL_OK)
        return;
    pdl_buf_init(&want);
    plan_text_mesh(&r->p, &want.sink);
    if (want.len > 0)
        want.len--; /* the line feed */
    line = this_line(r);
    compare(r, &want, &line);
    pdl_buf_free(&want);
}

/* "paradl-plan 1": another version is refused by its name. */
static void read_version(struct reader *r)
{
    const char *version;

    if (plan_lex_line(&r->x) && plan_lex_take(&r->x, PLAN_TEXT_MAGIC) &&
        r->x.at == r->x.eol)
        return;
    r->x.at = r->x.start;
    if (plan_lex_take(&r->x, PLAN_TEXT_NAME)) {
        version = plan_lex_word(&r->x, true);
        plan_lex_fail(&r->x, "is a plan file of version '%.20s'",
                      version ? version : "");
        plan_lex_hint(&r->x,
                      "this program reads version %s: make it again "
                      "with --emit",
                      PLAN_TEXT_VERSION);
        return;
    }
    plan_lex_fail(&r->x, "is no plan file");
    plan_lex_hint(&r->x, "its first line is '%s'", PLAN_TEXT_MAGIC);
}

static void read_header(struct reader *r)
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
            section(r, lines[i].key);
        } else if (!plan_lex_line(&r->x) || !begins(r, lines[i].key)) {
            if (r->x.status == PDL_OK)
                r->x = before;
            continue;
        } else {
            plan_lex_take(&r->x, lines[i].key);
        }
        if (i == 0)
            r->model_line = this_line(r);
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
}

/* ---- tensors ---------------------------------------------------------------------- */

static uint32_t read_factors(struct reader *r)
{
    uint32_t set = 0;

    do {
        int64_t f;

        plan_lex_need(&r->x, "a");
        f = plan_lex_int(&r->x, 0, r->mesh->nfactors - 1);
        if (r->x.status == PDL_OK && set >> f)
            plan_lex_fail(&r->x, "factors must be in order");
        if (r->x.status == PDL_OK)
            set |= UINT32_C(1) << f;
    } while (plan_lex_take(&r->x, "*"));
    return set;
}

/* A factor is at one place only. */
static void put_factors(struct reader *r, struct pdl_plan_tensor *t,
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

static void read_frame(struct reader *r, struct pdl_frame *f)
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
static void own_frame(struct reader *r, struct pdl_plan_tensor *t, int d)
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
static void read_dim(struct reader *r, struct pdl_plan_tensor *t)
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
        put_factors(r, t, read_factors(r), d);
    if (plan_lex_take(&r->x, "^"))
        own_frame(r, t, d);
}

static void check_dim_names(struct reader *r, const struct pdl_plan_tensor *t,
                            const char *at)
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

static void read_dims(struct reader *r, struct pdl_plan_tensor *t)
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

/* A name of the model, or #number. */
static int read_name(struct reader *r, const struct plan_names *n,
                     const char *what)
{
    const char *start, *name;
    int i;

    if (plan_lex_take(&r->x, "#"))
        return (int)plan_lex_int(&r->x, 0, n->count - 1);
    start = r->x.at;
    name = plan_lex_word(&r->x, false);
    i = r->x.status == PDL_OK ? plan_names_find(n, name) : -1;
    if (i < 0 && r->x.status == PDL_OK) {
        r->x.at = start;
        plan_lex_fail(&r->x, "%s has no %s '%.80s'", r->model->name, what,
                      name);
    }
    return i;
}

static int find_word(const char *word, const char *const *list, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(word, list[i]) == 0)
            return i;
    return -1;
}

static void read_kind(struct reader *r, struct pdl_plan_tensor *t)
{
    const char *start = r->x.at;
    int kind = find_word(plan_lex_word(&r->x, false), plan_text_kinds,
                         plan_text_nkinds);

    if (kind < 0) {
        r->x.at = start;
        plan_lex_fail(&r->x, "no kind of tensor");
        return;
    }
    t->kind = (enum pdl_plan_kind)kind;
}

static void read_dtype(struct reader *r, struct pdl_plan_tensor *t)
{
    const char *start = r->x.at, *word = plan_lex_word(&r->x, false);

    if (r->x.status == PDL_OK && !pdl_dtype_find(word, &t->dtype)) {
        r->x.at = start + 1;
        plan_lex_fail(&r->x, "no type of number '%.40s'", word);
    }
}

/* An id must be the next one: no gaps, no doubles, nothing huge. */
static void read_id(struct reader *r, const char *sign, int next)
{
    int64_t id;

    plan_lex_need(&r->x, sign);
    id = plan_lex_int(&r->x, 0, INT64_MAX);
    if (r->x.status == PDL_OK && id != next) {
        r->x.at = r->x.start;
        plan_lex_fail(&r->x, "%s%lld stands where %s%d must", sign,
                      (long long)id, sign, next);
        plan_lex_hint(&r->x, "ids are 0, 1, 2 ... without gaps");
    }
}

static void read_partial(struct reader *r, struct pdl_plan_tensor *t,
                         const char *word, int place)
{
    if (!plan_lex_take(&r->x, word))
        return;
    put_factors(r, t, read_factors(r), place);
    plan_lex_need(&r->x, ")");
    plan_lex_more(&r->x);
}

static void read_tensor(struct reader *r)
{
    struct pdl_plan_tensor t = {
        .place = plan_everywhere(), .frame = pdl_no_frames, .model_tensor = -1};
    const char *dims;

    r->frames = NULL;
    read_id(r, "t", r->p.ntensors);
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
        t.model_tensor = read_name(r, &r->tensor_names, "tensor");
    t.host = plan_lex_more(&r->x) && plan_lex_take(&r->x, "host");
    if (plan_lex_more(&r->x) && plan_lex_take(&r->x, "some=")) {
        t.some = plan_lex_int(&r->x, 1, INT64_C(1) << 40);
        plan_lex_need(&r->x, "/");
        t.of = plan_lex_int(&r->x, 1, INT64_C(1) << 40);
    }
    plan_lex_done(&r->x);
    if (r->x.status == PDL_OK)
        check_dim_names(r, &t, dims);
    if (r->x.status == PDL_OK) {
        r->tensor_lines[r->p.ntensors] = this_line(r);
        r->tensors[r->p.ntensors++] = t;
    }
}

/* ---- operations ---------------------------------------------------------------------- */

/* "forward", "backward-data.1", "allreduce" ... */
static void read_verb(struct reader *r, struct pdl_plan_op *o)
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
    pass = find_word(word, plan_text_passes, 3);
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

static const int *read_ids(struct reader *r, int *count)
{
    int *ids, n = 0;

    while (plan_lex_more(&r->x) && plan_lex_is(&r->x, "t") && n < r->most_ids) {
        plan_lex_take(&r->x, "t");
        r->ids[n++] = (int)plan_lex_int(&r->x, 0, r->p.ntensors - 1);
    }
    ids = PDL_NEW(r->x.arena, int, n + 1);
    if (!ids)
        no_memory(r);
    else if (n > 0)
        memcpy(ids, r->ids, (size_t)n * sizeof *ids);
    *count = n;
    return ids;
}

static void read_op(struct reader *r, int stage)
{
    struct pdl_plan_op o = {.node = -1};
    const char *before;

    read_id(r, "", r->p.nops);
    read_verb(r, &o);
    if (o.kind == PDL_PLAN_OP_COMPUTE && plan_lex_more(&r->x)) {
        if (begins(r, "loss"))
            plan_lex_take(&r->x, "loss");
        else
            o.node = read_name(r, &r->nodes, "layer");
    }
    if (plan_lex_more(&r->x) && plan_lex_is(&r->x, "a"))
        o.group = read_factors(r);
    o.in = read_ids(r, &o.nin);
    if (plan_lex_more(&r->x))
        plan_lex_take(&r->x, "->");
    o.out = read_ids(r, &o.nout); /* without an arrow there are none left */
    if (r->x.status != PDL_OK)
        return;
    before = r->x.at;
    while (before > r->x.start && before[-1] == ' ')
        before--;
    r->rests[r->p.nops] =
        (struct rest){r->x.start, before, r->x.eol, r->x.line, stage};
    r->ops[r->p.nops++] = o;
}

/* ---- programs -------------------------------------------------------------------------- */

static void read_item(struct reader *r)
{
    struct pdl_plan_item it = {.first_op = r->p.nops};

    plan_lex_take(&r->x, "item");
    plan_lex_more(&r->x);
    plan_lex_need(&r->x, "repeat=");
    it.repeat = plan_lex_int(&r->x, 1, INT64_MAX);
    plan_lex_more(&r->x);
    plan_lex_need(&r->x, "segment=");
    it.segment = (int)plan_lex_int(&r->x, 0, r->model->nsegments - 1);
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
static void read_program_line(struct reader *r, int phase, int stage)
{
    struct rest line;
    struct pdl_buf want;

    pdl_buf_init(&want);
    pdl_printf(&want.sink, "program %s %d rank=%lld", plan_text_phases[phase],
               stage, (long long)plan_text_rank(&r->p, stage));
    line = this_line(r);
    compare(r, &want, &line);
    pdl_buf_free(&want);
}

/* Reads programs up to "end"; the reader stands on the first one's line. */
static void read_programs(struct reader *r)
{
    int phase, stage;

    for (int k = 0; r->x.status == PDL_OK &&
                    plan_text_program(r->p.nstages, k, &phase, &stage);
         k++) {
        int first = r->p.nitems;
        bool more;

        read_program_line(r, phase, stage);
        while ((more = plan_lex_line(&r->x))) {
            if (begins(r, "item"))
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
    if (r->x.status == PDL_OK && !begins(r, "end"))
        plan_lex_fail(&r->x, "expected 'end'");
    plan_lex_take(&r->x, "end");
    plan_lex_done(&r->x);
    if (plan_lex_line(&r->x))
        plan_lex_fail(&r->x, "something follows 'end'");
}

/* Fallbacks, tensors, classes; then the reader stands on a program's line. */
static void read_lists(struct reader *r)
{
    bool more;

    while ((more = plan_lex_line(&r->x))) {
        if (begins(r, "fallback") && r->p.ntensors == 0) {
            plan_lex_take(&r->x, "fallback");
            r->fallbacks[r->p.nfallbacks++] = plan_lex_word(&r->x, true);
            plan_lex_done(&r->x);
        } else if (plan_lex_is(&r->x, "t") && !r->classes.at) {
            read_tensor(r);
        } else if (begins(r, "class")) {
            if (!r->classes.at)
                r->classes =
                    (struct rest){r->x.start, r->x.start, NULL, r->x.line, 0};
            r->classes.eol = r->x.next;
        } else {
            break;
        }
    }
    if (!more)
        plan_lex_fail(&r->x, "the file ends too early");
    if (r->x.status == PDL_OK && !begins(r, "program"))
        plan_lex_fail(&r->x, "expected a tensor, a class or a program");
}

/* ---- all of it -------------------------------------------------------------------------- */

static void compare_derived(struct reader *r)
{
    struct pdl_buf want;

    for (int i = 0; i < r->p.nops && r->x.status == PDL_OK; i++) {
        pdl_buf_init(&want);
        plan_text_work(&r->p, i, r->rests[i].stage, &want.sink);
        compare(r, &want, &r->rests[i]);
        pdl_buf_free(&want);
    }
    if (r->x.status != PDL_OK)
        return;
    pdl_buf_init(&want);
    if (!r->classes.at)
        plan_lex_fail(&r->x, "the classes of ranks are missing");
    else if (plan_text_classes(&r->p, &want.sink) != PDL_OK)
        no_memory(r);
    compare(r, &want, &r->classes);
    pdl_buf_free(&want);
}

static void finish(struct reader *r)
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
        no_memory(r);
        return;
    }
    for (int i = 0; i < r->p.nops; i++) { /* it goes with an attention */
        int x = pdl_plan_rotates_for(&r->p, i);

        if (x >= 0)
            r->ops[i].pass = r->ops[x].pass;
    }
    st = plan_structure(&r->p, &spot, &inner);
    if (st != PDL_OK && spot.tensor >= 0)
        go_to(r, &r->tensor_lines[spot.tensor]);
    if (st != PDL_OK && spot.op >= 0)
        go_to(r, &r->rests[spot.op]);
    place(r, st, &inner);
    compare_derived(r);
}

enum pdl_status pdl_plan_parse(pdl_arena *a, struct pdl_bytes in,
                               const char *name,
                               const struct pdl_plan_loader *loader,
                               struct pdl_plan_head *head,
                               const struct pdl_plan **out, struct pdl_err *err)
{
    struct reader r = {.loader = loader};
    struct pdl_plan *p;

    plan_lex_init(&r.x, a, in, name, err);
    count_lines(&r);
    read_header(&r);
    if (r.x.status == PDL_OK) {
        r.stages = PDL_NEW(a, struct pdl_plan_stage, r.p.nstages);
        if (!r.stages)
            no_memory(&r);
    }
    read_lists(&r);
    read_programs(&r);
    finish(&r);
    if (r.x.status != PDL_OK)
        return r.x.status;
    p = PDL_NEW(a, struct pdl_plan, 1);
    if (!p)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", name);
    *p = r.p;
    *head = r.head;
    *out = p;
    return PDL_OK;
}
