/* SPDX-License-Identifier: Apache-2.0
 *
 * framework list, framework show. */
#include "cli/cli_priv.h"
#include "paradl/oracle.h"

#include <string.h>

/* ---- list ---------------------------------------------------------------- */

static const char *exporter_of(const struct pdl_framework *f)
{
    const char *x = pdl_framework_runs(f)->exporter;

    return x ? x : "-";
}

static void list_json(const struct pdl_framework *const *f, int n)
{
    struct pdl_json j;

    pdl_json_init(&j, cli_out());
    pdl_json_schema(&j, "framework-list");
    pdl_json_key(&j, "frameworks");
    pdl_json_array(&j);
    for (int i = 0; i < n; i++) {
        pdl_json_row(&j);
        pdl_json_kstr(&j, "name", pdl_framework_name(f[i]));
        pdl_json_kstr(&j, "title", pdl_framework_title(f[i]));
        pdl_json_kstr(&j, "export", pdl_framework_runs(f[i])->exporter);
        pdl_json_end(&j);
    }
    pdl_json_end(&j);
    pdl_json_end(&j);
}

static void list_text(pdl_arena *a, const struct pdl_framework *const *f, int n)
{
    static const struct pdl_column columns[] = {
        {"FRAMEWORK", false}, {"EXPORT", false}, {"WHAT IT IS", false}};
    struct pdl_table t;

    pdl_table_init(&t, a, columns, 3);
    for (int i = 0; i < n; i++) {
        pdl_table_cell(&t, "%s", pdl_framework_name(f[i]));
        pdl_table_cell(&t, "%s", exporter_of(f[i]));
        pdl_table_cell(&t, "%s", pdl_framework_title(f[i]));
    }
    pdl_table_print(&t, cli_width(), cli_out());
    pdl_puts(cli_out(),
             "EXPORT: what --export writes for it; -: for projection "
             "only\n");
}

static int framework_list(const struct pdl_args *args)
{
    enum { MOST = 64 };
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_framework *f[MOST];
    struct pdl_err err = {"", ""};
    enum pdl_status st = a ? PDL_OK : PDL_ENOMEM;
    int n = 0;

    for (; st == PDL_OK && n < MOST && pdl_framework_builtin(n); n++)
        st = pdl_framework_open(a, pdl_framework_builtin(n)->name, &f[n], &err);
    if (st == PDL_OK && args->json)
        list_json(f, n);
    else if (st == PDL_OK)
        list_text(a, f, n);
    pdl_arena_destroy(a);
    return st == PDL_OK ? EXIT_OK : cli_fail(PDL_EWRONG, &err);
}

const struct pdl_cmd cli_framework_list = {
    .name = "framework list",
    .args = "",
    .summary = "the built-in frameworks",
    .text = "Lists what --framework takes by name. A framework is a file: "
            "yours is as good (--framework ./mine.yaml).",
    .example = "paradl framework list",
    .run = framework_list,
};

/* ---- show ---------------------------------------------------------------- */

/* Habits of one source stand together. */
static bool same_origin(const struct pdl_habit *a, const struct pdl_habit *b)
{
    return a && b && strcmp(a->kind, b->kind) == 0 &&
           strcmp(a->source, b->source) == 0;
}

static void show_text(const struct pdl_framework *f)
{
    const struct pdl_habit *h;

    pdl_printf(cli_out(), "%s: %s\n", pdl_framework_name(f),
               pdl_framework_title(f));
    pdl_puts(cli_out(),
             pdl_framework_habit(f, 0) ? "Adds\n" : "Adds nothing to a plan\n");
    for (int i = 0; (h = pdl_framework_habit(f, i)) != NULL; i++) {
        cli_say(6, "  %s %s: %s", h->key, h->value, h->what);
        if (!same_origin(h, pdl_framework_habit(f, i + 1)))
            cli_say(8, "    %s: %s", h->kind, h->source);
    }
    pdl_puts(cli_out(), pdl_framework_runs(f)->known ? "Runs\n" : "");
    for (int i = 0; (h = pdl_framework_ability(f, i)) != NULL; i++)
        cli_say(4, "  %s: %s", h->key, h->value);
    if (pdl_framework_runs(f)->known && !pdl_framework_runs(f)->exporter)
        cli_say(4, "  export: none, it is for projection only");
}

static void show_json(const struct pdl_framework *f)
{
    const struct pdl_habit *h;
    struct pdl_json j;

    pdl_json_init(&j, cli_out());
    pdl_json_schema(&j, "framework");
    pdl_json_kstr(&j, "name", pdl_framework_name(f));
    pdl_json_kstr(&j, "title", pdl_framework_title(f));
    pdl_json_key(&j, "adds");
    pdl_json_array(&j);
    for (int i = 0; (h = pdl_framework_habit(f, i)) != NULL; i++) {
        pdl_json_row(&j);
        pdl_json_kstr(&j, "key", h->key);
        pdl_json_kstr(&j, "value", h->value);
        pdl_json_kstr(&j, "what", h->what);
        pdl_json_kstr(&j, "kind", h->kind);
        pdl_json_kstr(&j, "source", h->source);
        pdl_json_end(&j);
    }
    pdl_json_end(&j);
    pdl_json_key(&j, "runs");
    pdl_json_object(&j);
    for (int i = 0; (h = pdl_framework_ability(f, i)) != NULL; i++)
        pdl_json_kstr(&j, h->key, h->value);
    pdl_json_end(&j);
    pdl_json_end(&j);
}

static int framework_show(const struct pdl_args *args)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_framework *f = NULL;
    struct pdl_err err = {"", ""};
    enum pdl_status st =
        a ? pdl_framework_open(a, args->pos[0], &f, &err) : PDL_ENOMEM;

    if (st == PDL_OK && args->json)
        show_json(f);
    else if (st == PDL_OK)
        show_text(f);
    pdl_arena_destroy(a);
    return st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
}

const struct pdl_cmd cli_framework_show = {
    .name = "framework show",
    .args = "FRAMEWORK",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "what a framework adds to a plan and what it can run",
    .text = "Prints what the framework does besides the plan (kernels, host "
            "time, exchange, memory), each with its source and whether it was "
            "counted, profiled or fitted, and what it can run. FRAMEWORK is a "
            "built-in name or a .yaml file.",
    .example = "paradl framework show megatron",
    .run = framework_show,
};
