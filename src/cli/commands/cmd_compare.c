/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl compare: two results, systems or plan files side by side, number by
 * number; with a model, the best plans of it on two systems. Everything is
 * compared as its JSON, so whatever a command prints can be compared; rows of a
 * list meet by what names them. */
#include "cli/output/projection.h"
#include "cli/questions/best.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_INPUT = 64 << 20, MAX_ROWS = 20000, MAX_PATH_TEXT = 512 };

struct options {
    bool all;
    const char *model, *precision, *framework, *report;
    int64_t pes, batch;
};

#define AT(field) offsetof(struct options, field)
// clang-format off
static const struct pdl_opt opts[] = {
    {"all", 0, PDL_OPT_FLAG, AT(all), NULL, NULL, "also what is equal"},
    {"model", 0, PDL_OPT_TEXT, AT(model), "MODEL", NULL,
     "of two systems: its best plan on each"},
    {"pes", 0, PDL_OPT_COUNT, AT(pes), "N", NULL, "on so many PEs"},
    {"batch", 0, PDL_OPT_COUNT, AT(batch), "B", NULL, "with so many samples a step"},
    {"precision", 0, PDL_OPT_TEXT, AT(precision), "NAME", NULL, "of the arithmetic"},
    {"framework", 0, PDL_OPT_TEXT, AT(framework), "NAME", NULL, "that runs it"},
    {"report", 0, PDL_OPT_TEXT, AT(report), "FILE.html", NULL, "also write a page with charts"},
};
// clang-format on
#undef AT

struct row {
    const char *key, *a, *b; /* NULL: not there */
    bool equal;
};

struct compared {
    pdl_arena *arena;
    const struct options *o;
    struct row *rows;
    int n, equal, different;
    const char *plan[3]; /* of two systems, with a model; NULL-ended */
};

/* ---- what is compared -------------------------------------------------- */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n > k && strcmp(s + n - k, end) == 0;
}

/* "projection", "system", "plan": what a document is. */
static const char *kind_of(const struct pdl_doc *d, const char *what)
{
    const struct pdl_doc *schema =
        d->kind == PDL_DOC_MAP ? pdl_doc_get(d, "schema") : NULL;

    if (schema && schema->kind == PDL_DOC_SCALAR)
        return schema->text;
    return ends_with(what, ".json")   ? NULL
           : ends_with(what, ".plan") ? "a plan file"
                                      : "a system";
}

/* A plan file as the strategy it holds and the work of its operations. */
static enum pdl_status plan_json(pdl_arena *a, struct pdl_bytes in,
                                 const char *name, struct pdl_json *j,
                                 struct pdl_err *err)
{
    struct pdl_plan_head head = {.model = NULL};
    const struct pdl_plan *p;
    enum pdl_status st = pdl_plan_read(a, in, name, NULL, &head, &p, err);
    int64_t ops[32] = {0};
    struct pdl_buf b;

    if (st != PDL_OK)
        return st;
    for (int i = 0; i < p->nops; i++)
        ops[p->ops[i].kind]++;
    pdl_buf_init(&b);
    pdl_strategy_print(p->strategy, &b.sink);
    pdl_json_kstr(j, "strategy", b.text);
    pdl_buf_free(&b);
    pdl_json_kint(j, "pes", p->mesh->pes);
    pdl_json_kint(j, "batch", p->batch);
    pdl_json_kint(j, "stages", p->nstages);
    pdl_json_kint(j, "micro_batches", p->micro_batches);
    pdl_json_key(j, "operations");
    pdl_json_object(j);
    for (int k = PDL_PLAN_OP_COMPUTE; k <= PDL_PLAN_OP_FREE; k++)
        pdl_json_kint(j, pdl_plan_op_name((enum pdl_plan_op_kind)k), ops[k]);
    pdl_json_end(j);
    return PDL_OK;
}

/* The JSON of a plan file or of a system, read again as a document. */
static enum pdl_status by_json(pdl_arena *a, const char *what,
                               const struct pdl_doc **out, struct pdl_err *err)
{
    struct pdl_system sys;
    struct pdl_bytes in;
    struct pdl_buf b;
    struct pdl_json j;
    enum pdl_status st = PDL_OK;
    const char *text = NULL;

    pdl_buf_init(&b);
    pdl_json_init(&j, &b.sink);
    pdl_json_object(&j);
    if (ends_with(what, ".plan")) {
        st = pdl_file_read(a, what, MAX_INPUT, &in, err);
        if (st == PDL_OK)
            st = plan_json(a, in, what, &j, err);
    } else {
        st = pdl_system_open(a, what, &sys, err);
        if (st == PDL_OK)
            pdl_system_json(&sys, &j);
    }
    pdl_json_end(&j);
    if (st == PDL_OK) {
        text = pdl_arena_strndup(a, b.text, b.len);
        in = (struct pdl_bytes){text, b.len};
        st = text ? pdl_doc_json(a, in, what, out, err)
                  : pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    pdl_buf_free(&b);
    return st;
}

/* The best plan of the model on the system, as project would print it. */
static enum pdl_status by_plan(pdl_arena *a, const char *system,
                               const struct options *o,
                               const struct pdl_doc **out, struct pdl_err *err)
{
    struct cli_question q = {.model = o->model,
                             .system = system,
                             .pes = o->pes,
                             .batch = o->batch,
                             .precision = o->precision,
                             .framework = o->framework};
    struct cli_job j = {.job = NULL};
    const char *strategy = NULL, *text = NULL;
    enum pdl_status st = cli_best(a, &q, &j, &strategy, err);
    struct pdl_buf b;
    struct pdl_json w;

    pdl_buf_init(&b);
    if (st == PDL_OK) {
        pdl_json_init(&w, &b.sink);
        pdl_json_object(&w);
        pdl_json_kstr(&w, "plan", strategy);
        cli_job_json(&w, &j);
        pdl_json_end(&w);
        text = pdl_arena_strndup(a, b.text, b.len);
        st = text ? pdl_doc_json(a, (struct pdl_bytes){text, b.len}, system,
                                 out, err)
                  : pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    pdl_buf_free(&b);
    cli_job_close(&j);
    return st;
}

static enum pdl_status open_one(pdl_arena *a, const char *what,
                                const struct options *o,
                                const struct pdl_doc **out, struct pdl_err *err)
{
    struct pdl_bytes in;
    enum pdl_status st;

    if (o->model)
        return by_plan(a, what, o, out, err);
    if (!ends_with(what, ".json"))
        return by_json(a, what, out, err);
    st = pdl_file_read(a, what, MAX_INPUT, &in, err);
    return st == PDL_OK ? pdl_doc_json(a, in, what, out, err) : st;
}

/* ---- side by side ------------------------------------------------------ */

/* What names a row of a list: the first of these it has. */
static const struct pdl_doc *namer(const struct pdl_doc *d)
{
    static const char *const keys[] = {"id",        "name",     "strategy",
                                       "algorithm", "resource", "layer"};

    for (size_t i = 0;
         d->kind == PDL_DOC_MAP && i < sizeof keys / sizeof keys[0]; i++) {
        const struct pdl_doc *k = pdl_doc_get(d, keys[i]);

        if (k && k->kind == PDL_DOC_SCALAR)
            return k;
    }
    return NULL;
}

static const char *name_of(const struct pdl_doc *d)
{
    const struct pdl_doc *k = namer(d);

    return k ? k->text : NULL;
}

static const struct pdl_doc *partner(const struct pdl_doc *of,
                                     const struct pdl_doc *list, int at)
{
    const char *name = name_of(of);
    int i = 0;

    for (const struct pdl_doc *d = list->child; d; d = d->next, i++) {
        const char *other = name_of(d);

        if (name ? other && strcmp(name, other) == 0 : i == at)
            return d;
    }
    return NULL;
}

static void add(struct compared *c, const char *key, const char *a,
                const char *b)
{
    bool equal = a && b && strcmp(a, b) == 0;

    c->equal += equal;
    c->different += !equal;
    if (equal && !c->o->all && !c->o->report)
        return;
    if (c->n == MAX_ROWS)
        return;
    c->rows[c->n++] =
        (struct row){pdl_arena_strdup(c->arena, key), a, b, equal};
}

static void walk(struct compared *c, const char *path, const struct pdl_doc *a,
                 const struct pdl_doc *b);

/* The value of a key, which may be null. */
static const struct pdl_doc *entry(const struct pdl_doc *map, const char *key)
{
    for (const struct pdl_doc *d = map->child; d; d = d->next)
        if (strcmp(d->key, key) == 0)
            return d;
    return NULL;
}

static void walk_children(struct compared *c, const char *path,
                          const struct pdl_doc *a, const struct pdl_doc *b)
{
    char key[MAX_PATH_TEXT];
    int i = 0;

    for (const struct pdl_doc *d = a->child; d; d = d->next, i++) {
        const char *dot = *path ? "." : "";

        if (ends_with(path, "]") && d == namer(a))
            continue; /* it stands in the path */
        if (a->kind == PDL_DOC_MAP)
            snprintf(key, sizeof key, "%s%s%s", path, dot, d->key);
        else if (name_of(d))
            snprintf(key, sizeof key, "%s[%s]", path, name_of(d));
        else
            snprintf(key, sizeof key, "%s[%d]", path, i);
        walk(c, key, d,
             !b || b->kind != a->kind ? NULL
             : a->kind == PDL_DOC_MAP ? entry(b, d->key)
                                      : partner(d, b, i));
    }
}

static void walk(struct compared *c, const char *path, const struct pdl_doc *a,
                 const struct pdl_doc *b)
{
    if (a->kind == PDL_DOC_SCALAR || a->kind == PDL_DOC_NULL)
        add(c, path, a->kind == PDL_DOC_NULL ? "null" : a->text,
            !b                          ? NULL
            : b->kind == PDL_DOC_SCALAR ? b->text
            : b->kind == PDL_DOC_NULL   ? "null"
                                        : "(more)");
    else
        walk_children(c, path, a, b);
}

/* What only b has, as rows without a. */
static void only_second(struct compared *c, const struct pdl_doc *a,
                        const struct pdl_doc *b)
{
    struct compared back = {.arena = c->arena, .o = c->o};

    back.rows = PDL_NEW(c->arena, struct row, MAX_ROWS);
    if (!back.rows)
        return;
    walk(&back, "", b, a);
    for (int i = 0; i < back.n; i++)
        if (!back.rows[i].b)
            add(c, back.rows[i].key, NULL, back.rows[i].a);
}

/* ---- printing ---------------------------------------------------------- */

static bool number(const char *text, double *out)
{
    char *end;

    if (!text || !*text)
        return false;
    *out = pdl_strtod(text, &end);
    return *end == '\0' && isfinite(*out);
}

static bool ratio(const struct row *r, double *out)
{
    double a, b;

    if (!number(r->a, &a) || !number(r->b, &b) || a == 0)
        return false;
    *out = b / a;
    return true;
}

/* all: what is equal too. */
static void print_json(const struct compared *c, const struct pdl_args *args,
                       bool all, struct pdl_sink *out)
{
    struct pdl_json w;
    double x;

    pdl_json_init(&w, out);
    pdl_json_schema(&w, "compare");
    pdl_json_kstr(&w, "a", args->pos[0]);
    pdl_json_kstr(&w, "b", args->pos[1]);
    pdl_json_kint(&w, "equal", c->equal);
    pdl_json_key(&w, "rows");
    pdl_json_array(&w);
    for (int i = 0; i < c->n; i++) {
        const struct row *r = &c->rows[i];

        if (r->equal && !all)
            continue;
        pdl_json_row(&w);
        pdl_json_kstr(&w, "key", r->key);
        if (number(r->a, &x))
            pdl_json_knum(&w, "a", x);
        else
            pdl_json_kstr(&w, "a", r->a);
        if (number(r->b, &x))
            pdl_json_knum(&w, "b", x);
        else
            pdl_json_kstr(&w, "b", r->b);
        if (ratio(r, &x))
            pdl_json_knum(&w, "ratio", x);
        pdl_json_end(&w);
    }
    pdl_json_end(&w);
    pdl_json_end(&w);
}

/* Bytes and seconds for people by the name of the field (of a list, by the
 * list's); counts as they are; else the text. */
static const char *shown(const char *path, const char *text, char *buf,
                         size_t size)
{
    char key[MAX_PATH_TEXT];
    double v;

    if (!text)
        return "-";
    if (!number(text, &v))
        return text;
    snprintf(key, sizeof key, "%s", path);
    if (ends_with(key, "]"))
        *strrchr(key, '[') = '\0';
    if (ends_with(key, "bytes_per_s"))
        return pdl_unit_format(v, PDL_UNIT_BYTES_S, buf, size);
    if (ends_with(key, "_bytes"))
        return pdl_unit_format(v, PDL_UNIT_BYTES, buf, size);
    if (ends_with(key, "_s") && !ends_with(key, "per_s"))
        return pdl_unit_format(v, PDL_UNIT_SECONDS, buf, size);
    if (fabs(v) < 1e7 && v == floor(v)) {
        snprintf(buf, size, "%.0f", v);
        return buf;
    }
    return pdl_unit_format(v, PDL_UNIT_NONE, buf, size);
}

enum { LONGEST = 14 }; /* sentences and sources are for --json */

static enum pdl_status print_text(const struct compared *c,
                                  const struct pdl_args *args)
{
    const struct pdl_column columns[] = {
        {.title = "field"},
        {.title = "A", .right = true},
        {.title = "B", .right = true},
        {.title = "B/A", .right = true},
    };
    struct pdl_table t;
    char a[64], b[64];
    int longer = 0;
    double x;

    pdl_printf(cli_out(), "A: %s\nB: %s\n", args->pos[0], args->pos[1]);
    for (int i = 0; c->plan[i]; i++)
        cli_say(4, "plan %c: %s", "AB"[i], c -> plan[i]);
    pdl_table_init(&t, c->arena, columns, 4);
    t.whole = 1;
    for (int i = 0; i < c->n; i++) {
        const struct row *r = &c->rows[i];

        if (r->equal && !c->o->all)
            continue;
        if (strlen(shown(r->key, r->a, a, sizeof a)) > LONGEST ||
            strlen(shown(r->key, r->b, b, sizeof b)) > LONGEST) {
            longer++;
            continue;
        }
        pdl_table_cell(&t, "%s", r->key);
        pdl_table_cell(&t, "%s", shown(r->key, r->a, a, sizeof a));
        pdl_table_cell(&t, "%s", shown(r->key, r->b, b, sizeof b));
        if (ratio(r, &x))
            pdl_table_cell(&t, "%.3f", x);
        else
            pdl_table_cell(&t, "%s", "");
    }
    if (c->different > 0 || c->o->all)
        pdl_table_print(&t, cli_text_width(), cli_out());
    pdl_printf(cli_out(), "%d differ%s, %d equal\n", c->different,
               c->n == MAX_ROWS ? " (not all shown)" : "", c->equal);
    if (longer > 0)
        pdl_printf(cli_out(), "%d of them are texts that --json shows\n",
                   longer);
    return t.status;
}

static int write_page(const struct compared *c, const struct pdl_args *args)
{
    struct pdl_buf b;
    int rc;

    pdl_buf_init(&b);
    print_json(c, args, true, &b.sink);
    rc = cli_report(&b, c->o->report);
    pdl_buf_free(&b);
    return rc;
}

/* A projection and a system have nothing to compare. */
static enum pdl_status alike(const struct pdl_doc *one,
                             const struct pdl_doc *two,
                             const struct pdl_args *args, struct pdl_err *err)
{
    const char *a = kind_of(one, args->pos[0]), *b = kind_of(two, args->pos[1]);

    if (!a || !b || strcmp(a, b) == 0)
        return PDL_OK;
    return pdl_fail(err, PDL_EINVAL,
                    "'%.80s' is %.40s and '%.80s' is %.40s: nothing to compare",
                    args->pos[0], a, args->pos[1], b);
}

static int compare(const struct pdl_args *args)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct compared c = {.arena = a, .o = args->opts};
    const struct pdl_doc *one = NULL, *two = NULL;
    struct pdl_err err = {"", ""};
    enum pdl_status st = cli_check_output(c.o->report, ".html", &err);
    int rc = EXIT_OK;

    if (c.o->model ? c.o->pes < 1 || c.o->batch < 1
                   : c.o->pes > 0 || c.o->batch > 0) {
        pdl_fail(&err, PDL_EINVAL,
                 "--model, --pes and --batch belong together");
        pdl_arena_destroy(a);
        return cli_usage(&err);
    }
    c.rows = a ? PDL_NEW(a, struct row, MAX_ROWS) : NULL;
    if (!c.rows && st == PDL_OK)
        st = pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        st = open_one(a, args->pos[0], c.o, &one, &err);
    if (st == PDL_OK)
        st = open_one(a, args->pos[1], c.o, &two, &err);
    if (st == PDL_OK)
        st = alike(one, two, args, &err);
    if (st == PDL_OK && c.o->model) {
        c.plan[0] = pdl_doc_get(one, "plan")->text;
        c.plan[1] = pdl_doc_get(two, "plan")->text;
    }
    if (st == PDL_OK) {
        walk(&c, "", one, two);
        only_second(&c, one, two);
        if (args->json)
            print_json(&c, args, c.o->all, cli_out());
        else
            st = print_text(&c, args);
    }
    if (st == PDL_OK && c.o->report)
        rc = write_page(&c, args);
    pdl_arena_destroy(a);
    return st == PDL_OK ? rc : cli_fail(st, &err);
}

const struct pdl_cmd cli_compare = {
    .name = "compare",
    .args = "A B",
    .min_pos = 2,
    .max_pos = 2,
    .summary = "two results, systems or plans, number by number",
    .text = "A and B are results saved with --json (FILE.json), systems "
            "(names or FILE.yaml) or plan files (FILE.plan). Prints what "
            "differs, with the ratio; rows of lists meet by their name. With "
            "--model, --pes and --batch A and B are systems, and the best plan "
            "of the model on each is compared.",
    .example = "paradl compare dgx-a100 dgx-h100",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = compare,
};
