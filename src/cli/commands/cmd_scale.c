/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl scale: one strategy on more and more PEs. The template has one axis
 * written "=p"; every power of two in the range that the other axes divide is
 * a point. Strong scaling keeps the batch, weak scaling keeps the samples of a
 * data rank (the papers' way). With --replan every size has its own best plan,
 * 3, 6, 12, ... PEs too: where few divisors leave only worse plans, a cliff. */
#include "cli/output/projection.h"
#include "cli/questions/best.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    struct cli_question q;
    const char *pes, *report;
    bool weak, strong, replan;
};

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    CLI_SYSTEM_OPT,
    {"strategy", 0, PDL_OPT_TEXT, AT(q.strategy), "TEMPLATE", NULL,
     "a strategy with one axis '=p', e.g. data=p,filter=4"},
    {"replan", 0, PDL_OPT_FLAG, AT(replan), NULL, NULL,
     "instead of one strategy: the best plan of each size"},
    {"pes", 0, PDL_OPT_TEXT, AT(pes), "A..B", NULL,
     "PEs of the first and the last point; powers of two between. With "
     "--replan also a list: 16,24,40"},
    {"batch", 0, PDL_OPT_COUNT, AT(q.batch), "B", NULL,
     "samples of a step (weak scaling: of one data rank, of one PE with "
     "--replan)"},
    {"weak", 0, PDL_OPT_FLAG, AT(weak), NULL, NULL,
     "the batch grows with the data axis"},
    {"strong", 0, PDL_OPT_FLAG, AT(strong), NULL, NULL,
     "the batch stays (default)"},
    CLI_QUESTION_OPTS,
    {"report", 0, PDL_OPT_TEXT, AT(report), "FILE.html", NULL,
     "also write a page with charts"},
};
// clang-format on
#undef AT

enum { MAX_POINTS = 48 };

struct point {
    int64_t pes, batch;
    int64_t p; /* of the axis that grows */
    const char *strategy;
    const char *excluded; /* the reason, NULL: priced */
    struct pdl_projection x;
};

struct scale {
    pdl_arena *arena;
    const struct options *o;
    const struct pdl_args *args;
    struct cli_job *j;
    struct pdl_json *json; /* NULL: text */
    struct point point[MAX_POINTS];
    int n, fit;
    struct cli_notes notes; /* of the last that was priced */
};

/* ---- the template ------------------------------------------------------ */

/* The p of the one "=p"; NULL and a message when there is not one. */
static const char *find_hole(const char *text, struct pdl_err *err)
{
    const char *hole = NULL;
    int n = 0;

    for (const char *s = strstr(text, "=p"); s; s = strstr(s + 2, "=p"))
        if (s[2] == '\0' || strchr(",;(+ ", s[2])) {
            hole = s + 1;
            n++;
        }
    if (n == 1)
        return hole;
    pdl_fail(err, PDL_EINVAL, "strategy: %d axes are written '=p'", n);
    pdl_hint(err, "write exactly one, e.g. data=p,filter=4");
    return NULL;
}

static const char *filled(pdl_arena *a, const char *text, const char *hole,
                          int64_t p)
{
    return pdl_arena_printf(a, "%.*s%lld%s", (int)(hole - text), text,
                            (long long)p, hole + 1);
}

/* PEs of a strategy, and the size of its largest data axis. */
static enum pdl_status measure(pdl_arena *a, const char *text, int64_t *pes,
                               int64_t *data, struct pdl_err *err)
{
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    struct pdl_mesh *m = PDL_NEW(a, struct pdl_mesh, 1);
    enum pdl_status st;

    if (!text || !s || !m)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = pdl_strategy_parse(a, text, s, err);
    if (st == PDL_OK)
        st = pdl_mesh_make(s, m, err);
    if (st != PDL_OK)
        return st;
    *pes = m->pes;
    *data = 1;
    for (int c = 0; c < s->nclauses; c++)
        for (int t = 0; t < m->nterms[c]; t++)
            if (m->term[c][t].axis == PDL_AXIS_DATA &&
                m->term[c][t].size > *data)
                *data = m->term[c][t].size;
    return PDL_OK;
}

static enum pdl_status read_range(const char *text, int64_t *from, int64_t *to,
                                  struct pdl_err *err)
{
    const char *dots = strstr(text, "..");
    char first[32];

    snprintf(first, sizeof first, "%.*s",
             dots ? (int)(dots - text) : (int)strlen(text), text);
    if (pdl_int_parse(first, 1, 1 << 20, from, NULL) == PDL_OK &&
        (!dots || pdl_int_parse(dots + 2, 1, 1 << 20, to, NULL) == PDL_OK)) {
        *to = dots ? *to : *from;
        if (*from <= *to)
            return PDL_OK;
    }
    pdl_fail(err, PDL_EINVAL, "--pes '%.40s' is no range", text);
    pdl_hint(err, "for example 1..1024");
    return PDL_EINVAL;
}

/* ---- points ------------------------------------------------------------ */

static void json_point(struct scale *s, const struct point *p)
{
    if (!s->json)
        return;
    pdl_json_object(s->json);
    if (p->excluded) {
        pdl_json_kint(s->json, "pes", p->pes);
        pdl_json_kstr(s->json, "strategy", p->strategy);
        pdl_json_kint(s->json, "batch", p->batch);
        pdl_json_kbool(s->json, "feasible", false);
        pdl_json_key(s->json, "reasons");
        pdl_json_flat(s->json);
        pdl_json_str(s->json, p->excluded);
        pdl_json_end(s->json);
    } else {
        pdl_json_kstr(s->json, "strategy", p->strategy);
        cli_job_json(s->json, s->j);
    }
    pdl_json_end(s->json);
}

static enum pdl_status price(struct scale *s, struct point *p,
                             struct pdl_err *err)
{
    struct cli_question q = s->o->q;
    struct pdl_err why = {"", ""};
    enum pdl_status st;

    q.batch = p->batch;
    st = cli_job_price(&q, p->strategy, s->j, &why);
    if (st == PDL_OK) {
        p->x = s->j->x;
        s->fit += p->x.feasible;
        cli_job_notes(s->j, &s->notes);
    } else {
        p->excluded = pdl_arena_strdup(s->arena, why.msg);
    }
    json_point(s, p);
    if (st == PDL_ENOMEM)
        *err = why;
    return st == PDL_ENOMEM ? st : PDL_OK;
}

static enum pdl_status run(struct scale *s, struct pdl_err *err)
{
    const char *text = s->o->q.strategy, *hole = find_hole(text, err);
    int64_t from, to, others, data;
    enum pdl_status st;

    if (!hole)
        return PDL_EINVAL;
    st = read_range(s->o->pes, &from, &to, err);
    if (st == PDL_OK)
        st = measure(s->arena, filled(s->arena, text, hole, 1), &others, &data,
                     err);
    for (int64_t pes = 1; st == PDL_OK && pes <= to; pes *= 2) {
        struct point *p = &s->point[s->n];
        int64_t same;

        if (pes < from || pes % others != 0)
            continue;
        *p = (struct point){
            .pes = pes, .p = pes / others, .batch = s->o->q.batch};
        p->strategy = filled(s->arena, text, hole, p->p);
        st = measure(s->arena, p->strategy, &same, &data, err);
        if (st == PDL_OK && s->o->weak &&
            !pdl_mul64(s->o->q.batch, data, &p->batch))
            st = pdl_fail(err, PDL_EINVAL, "the batch is too large");
        if (st == PDL_OK)
            st = price(s, p, err);
        s->n++;
    }
    if (st == PDL_OK && s->n == 0)
        st = pdl_fail(err, PDL_EINVAL,
                      "no power of two in %s is a multiple of %lld PEs",
                      s->o->pes, (long long)others);
    return st;
}

/* ---- the best plan of each size ----------------------------------------- */

/* 1, 2, 3, 4, 6, 8, 12, ... */
static int64_t next_size(int64_t n)
{
    bool power = (n & (n - 1)) == 0;

    return n < 2 ? n + 1 : power ? n / 2 * 3 : n / 3 * 4;
}

static enum pdl_status replan_one(struct scale *s, struct point *p,
                                  struct pdl_err *err)
{
    struct cli_question q = s->o->q;
    struct cli_job j = {.job = NULL};
    struct cli_job *main = s->j;
    struct pdl_err why = {"", ""};
    enum pdl_status st;

    q.pes = p->pes;
    q.batch = p->batch;
    q.strategy = NULL;
    st = cli_best(s->arena, &q, &j, &p->strategy, &why);
    if (st == PDL_OK) {
        p->x = j.x;
        s->fit++;
        cli_job_notes(&j, &s->notes);
    } else {
        p->excluded = pdl_arena_strdup(s->arena, why.msg);
        p->strategy = "";
    }
    s->j = &j; /* what is written is of this plan */
    json_point(s, p);
    s->j = main;
    cli_job_close(&j);
    if (st == PDL_ENOMEM || st == PDL_EINTR)
        *err = why;
    return st == PDL_ENOMEM || st == PDL_EINTR ? st : PDL_OK;
}

/* "16,24,40": these. */
static enum pdl_status read_list(const char *text, int64_t *size, int *n,
                                 struct pdl_err *err)
{
    char one[16];
    int64_t last = 0;

    while (*text && *n < MAX_POINTS) {
        size_t len = strcspn(text, ",");

        snprintf(one, sizeof one, "%.*s", len < 15 ? (int)len : 15, text);
        if (pdl_int_parse(one, last + 1, 1 << 20, &last, NULL) != PDL_OK)
            break;
        size[(*n)++] = last;
        text += len + (text[len] == ',' && text[len + 1]);
    }
    if (!*text)
        return PDL_OK;
    pdl_fail(err, PDL_EINVAL, "--pes '%.40s' is no growing size", one);
    pdl_hint(err, "16,24,40: at most %d of them", MAX_POINTS);
    return PDL_EINVAL;
}

/* The sizes of a range, or as listed. */
static enum pdl_status read_sizes(const char *text, int64_t *size, int *n,
                                  struct pdl_err *err)
{
    int64_t from, to;
    enum pdl_status st;

    if (strchr(text, ','))
        return read_list(text, size, n, err);
    st = read_range(text, &from, &to, err);
    for (int64_t k = 1; st == PDL_OK && k <= to && *n < MAX_POINTS;
         k = next_size(k))
        if (k >= from)
            size[(*n)++] = k;
    if (st == PDL_OK && *n == 0)
        st = pdl_fail(err, PDL_EINVAL, "no size in %s is 1, 2, 3, 4, 6, 8, ...",
                      text);
    return st;
}

static enum pdl_status replan(struct scale *s, struct pdl_err *err)
{
    int64_t size[MAX_POINTS];
    int n = 0;
    enum pdl_status st = read_sizes(s->o->pes, size, &n, err);

    while (st == PDL_OK && s->n < n) {
        struct point *p = &s->point[s->n];
        int64_t pes = size[s->n++];

        *p = (struct point){.pes = pes, .p = pes, .batch = s->o->q.batch};
        if (s->o->weak && !pdl_mul64(s->o->q.batch, pes, &p->batch))
            return pdl_fail(err, PDL_EINVAL, "the batch is too large");
        st = replan_one(s, p, err);
    }
    return st;
}

static enum pdl_status run_any(struct scale *s, struct pdl_err *err)
{
    return s->o->replan ? replan(s, err) : run(s, err);
}

/* ---- output ------------------------------------------------------------ */

static const char *unit(pdl_arena *a, double v, enum pdl_unit u)
{
    char buf[32];
    const char *text =
        pdl_arena_strdup(a, pdl_unit_format(v, u, buf, sizeof buf));

    return text ? text : "";
}

/* Samples per second and PE, compared with the first point that was priced. */
static double efficiency(const struct scale *s, const struct point *p)
{
    for (int i = 0; i < s->n; i++)
        if (!s->point[i].excluded)
            return p->x.samples_per_s / (double)p->pes /
                   (s->point[i].x.samples_per_s / (double)s->point[i].pes);
    return 0;
}

/* More PEs do more with each of them than these: these divide badly. */
static bool is_cliff(const struct scale *s, const struct point *p)
{
    for (const struct point *x = p + 1; x < s->point + s->n; x++)
        if (!p->excluded && !x->excluded &&
            efficiency(s, p) < 0.95 * efficiency(s, x))
            return true;
    return false;
}

static void print_row(const struct scale *s, const struct point *p,
                      struct pdl_table *t)
{
    const struct pdl_projection *x = &p->x;

    pdl_table_cell(t, "%lld", (long long)p->pes);
    pdl_table_cell(t, "%lld", (long long)p->p);
    pdl_table_cell(t, "%lld", (long long)p->batch);
    if (p->excluded) {
        pdl_table_cell(t, "refused");
        for (int i = 0; i < 5; i++)
            pdl_table_cell(t, "%s", "");
        return;
    }
    pdl_table_cell(t, "%s", unit(s->arena, x->step_s, PDL_UNIT_SECONDS));
    pdl_table_cell(t, "%s", unit(s->arena, x->compute_s, PDL_UNIT_SECONDS));
    pdl_table_cell(t, "%s",
                   x->exposed_comm_s > 0
                       ? unit(s->arena, x->exposed_comm_s, PDL_UNIT_SECONDS)
                       : "-");
    pdl_table_cell(t, "%s%s",
                   unit(s->arena, (double)x->peak_bytes, PDL_UNIT_BYTES),
                   x->feasible ? "" : " x");
    pdl_table_cell(t, "%.0f", x->samples_per_s);
    pdl_table_cell(t, "%.0f %%%s", 100 * efficiency(s, p),
                   s->o->replan && is_cliff(s, p) ? " !" : "");
}

/* The plans of the sizes, each once. */
static void print_plans(const struct scale *s)
{
    const char *last = "";
    bool cliff = false;

    for (int i = 0; i < s->n; i++) {
        const struct point *p = &s->point[i];

        cliff = cliff || is_cliff(s, p);
        if (p->excluded)
            continue;
        if (strcmp(last, p->strategy) != 0)
            cli_say(4, "%lld PEs: %s", (long long)p->pes, p->strategy);
        last = p->strategy;
    }
    if (cliff)
        pdl_puts(cli_out(), "!: a larger size does 5 % more with each PE\n");
}

static void print_text(const struct scale *s)
{
    static const struct pdl_column columns[] = {
        {"PES", true},    {"P", true},         {"BATCH", true},
        {"STEP", true},   {"COMPUTE", true},   {"EXPOSED", true},
        {"MEMORY", true}, {"SAMPLES/S", true}, {"EFFIC.", true},
    };
    struct pdl_table t;
    bool misfit = false;

    cli_say(2, "%s on %s, %s scaling of %s", s->j->model->name, s->j->sys.name,
            s->o->weak ? "weak" : "strong",
            s->o->replan ? "the best plan of each size" : s->o->q.strategy);
    pdl_table_init(&t, s->arena, columns, 9);
    for (int i = 0; i < s->n; i++) {
        print_row(s, &s->point[i], &t);
        misfit = misfit || (!s->point[i].excluded && !s->point[i].x.feasible);
    }
    pdl_table_print(&t, cli_width(), cli_out());
    if (misfit)
        pdl_puts(cli_out(), "x: more memory than a PE has\n");
    if (s->o->replan)
        print_plans(s);
    for (int i = 0; i < s->n; i++)
        if (s->point[i].excluded)
            cli_say(2, "note: %lld PEs: %s", (long long)s->point[i].pes,
                    s->point[i].excluded);
    cli_notes_text(&s->notes);
}

/* Everything as JSON into the buffer; nothing is printed when a point fails. */
static enum pdl_status run_json(struct scale *s, struct pdl_buf *b,
                                struct pdl_err *err)
{
    struct pdl_json w;
    enum pdl_status st;

    pdl_json_init(&w, &b->sink);
    pdl_json_schema(&w, "scale");
    cli_question_json(&w, &cli_scale, s->args, s->j);
    pdl_json_kstr(&w, "strategy",
                  s->o->replan ? "the best of each size" : s->o->q.strategy);
    pdl_json_kstr(&w, "scaling", s->o->weak ? "weak" : "strong");
    pdl_json_key(&w, "points");
    pdl_json_array(&w);
    s->json = &w;
    st = run_any(s, err);
    s->json = NULL;
    pdl_json_end(&w);
    pdl_json_end(&w);
    return st;
}

static int usage(struct pdl_err *err, const char *what)
{
    pdl_fail(err, PDL_EINVAL, "%s", what);
    pdl_hint(err, "see 'paradl scale --help'");
    return cli_usage(err);
}

static int scale(const struct pdl_args *args)
{
    struct options o = *(const struct options *)args->opts;
    struct scale *s;
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_OK;
    struct pdl_buf json;
    pdl_arena *a;
    int rc;

    if (!o.q.system || !(o.q.strategy || o.replan) || !o.pes || o.q.batch < 1)
        return usage(&err, "scale needs --system, --strategy (or --replan), "
                           "--pes and --batch");
    if (o.q.strategy && o.replan)
        return usage(&err, "--strategy and --replan exclude each other");
    if (o.weak && o.strong)
        return usage(&err, "--weak and --strong exclude each other");
    o.q.model = args->pos[0];
    pdl_buf_init(&json);
    a = pdl_arena_create(PDL_ARENA_DEFAULT);
    s = a ? PDL_NEW(a, struct scale, 1) : NULL;
    if (s)
        s->j = PDL_NEW(a, struct cli_job, 1);
    if (!s || !s->j)
        st = pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK) {
        s->arena = a;
        s->o = &o;
        st = cli_job_open(&o.q, s->j, &err);
    }
    if (st == PDL_OK) {
        s->args = args;
        st = args->json || o.report ? run_json(s, &json, &err)
                                    : run_any(s, &err);
    }
    rc = st != PDL_OK ? cli_fail(st, &err) : s->fit > 0 ? EXIT_OK : EXIT_NO;
    if (st == PDL_OK && args->json)
        pdl_put(cli_out(), json.text, json.len);
    else if (st == PDL_OK)
        print_text(s);
    if (rc == EXIT_OK && o.report)
        rc = cli_report(&json, o.report);
    pdl_buf_free(&json);
    cli_job_close(s ? s->j : NULL);
    pdl_arena_destroy(a);
    return rc;
}

const struct pdl_cmd cli_scale = {
    .name = "scale",
    .args = "MODEL",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "how far a strategy scales",
    .text = "Prices one strategy on more and more PEs: the axis written '=p' "
            "grows, powers of two in the range are the points. EFFIC. is "
            "samples per second and PE, compared with the first point. A "
            "point that a limit forbids is listed with the reason. With "
            "--replan 1, 2, 3, 4, 6, 8, ... PEs have the best plan each, and ! "
            "marks sizes where a larger one does more with each PE.",
    .example = "paradl scale vgg16 --system abci-v100 --strategy data=p "
               "--pes 1..8 --batch 64",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = scale,
};
