/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl model list and convert: the zoo, and any model in our own format. */
#include "cli/cli_priv.h"

#include "paradl/model.h"

#include <stdio.h>
#include <string.h>

struct options {
    const char *dim, *output;
};

static const struct pdl_opt convert_opts[] = {
    {"output", 'o', PDL_OPT_TEXT, offsetof(struct options, output), "FILE",
     NULL, "where to write; standard output when absent"},
    {"dim", 0, PDL_OPT_TEXT, offsetof(struct options, dim), "NAME=N,...", NULL,
     "bind symbolic dimensions of a file: batch=8,seq=2048"},
};

/* The value as it is written: the word of a choice (true), else the number. */
static bool value_text(const struct pdl_zoo_param *p, char *buf, size_t size)
{
    const char *word = p->choices;

    if (!word || word[strspn(word, "0123456789|")] == '\0') {
        snprintf(buf, size, "%lld", (long long)p->value);
        return false;
    }
    for (int64_t i = 0; i < p->value && strchr(word, '|'); i++)
        word = strchr(word, '|') + 1;
    snprintf(buf, size, "%.*s", (int)strcspn(word, "|"), word);
    return true;
}

static void json_params(struct pdl_json *j, const char *name)
{
    struct pdl_zoo_param p;
    char value[64];

    pdl_json_key(j, "parameters");
    pdl_json_array(j);
    for (int i = 0; pdl_zoo_param(name, i, &p); i++) {
        pdl_json_row(j);
        pdl_json_kstr(j, "key", p.key);
        if (value_text(&p, value, sizeof value))
            pdl_json_kstr(j, "value", value);
        else
            pdl_json_kint(j, "value", p.value);
        pdl_json_kstr(j, "choices", p.choices);
        pdl_json_kstr(j, "help", p.help);
        pdl_json_end(j);
    }
    pdl_json_end(j);
}

static void list_json(const char *only)
{
    const struct pdl_zoo_entry *e;
    struct pdl_json j;

    pdl_json_init(&j, cli_out());
    pdl_json_schema(&j, "models");
    pdl_json_key(&j, "models");
    pdl_json_array(&j);
    for (int i = 0; (e = pdl_zoo_at(i)) != NULL; i++) {
        if (only && strcmp(only, e->name) != 0)
            continue;
        if (only)
            pdl_json_object(&j);
        else
            pdl_json_row(&j);
        pdl_json_kstr(&j, "name", e->name);
        pdl_json_kstr(&j, "family", e->family ? e->family : e->name);
        pdl_json_kstr(&j, "summary", e->summary);
        if (only)
            json_params(&j, only);
        pdl_json_end(&j);
    }
    pdl_json_end(&j);
    pdl_json_end(&j);
}

static void list_params(const char *name, pdl_arena *a)
{
    static const struct pdl_column columns[] = {
        {"parameter", false}, {"value", true}, {"what it is", false}};
    struct pdl_zoo_param p;
    struct pdl_table t;
    char value[64];

    pdl_table_init(&t, a, columns, 3);
    for (int i = 0; pdl_zoo_param(name, i, &p); i++) {
        value_text(&p, value, sizeof value);
        pdl_table_cell(&t, "%s", p.key);
        pdl_table_cell(&t, "%s", value);
        if (p.choices)
            pdl_table_cell(&t, "%s: %s", p.help, p.choices);
        else
            pdl_table_cell(&t, "%s", p.help);
    }
    pdl_table_print(&t, cli_width(), cli_out());
}

static void list_all(pdl_arena *a)
{
    static const struct pdl_column columns[] = {{"model", false},
                                                {"what it is", false}};
    const struct pdl_zoo_entry *e;
    struct pdl_table t;

    pdl_table_init(&t, a, columns, 2);
    for (int i = 0; (e = pdl_zoo_at(i)) != NULL; i++) {
        pdl_table_cell(&t, "%s%s", e->family ? "  " : "", e->name);
        pdl_table_cell(&t, "%s", e->summary);
    }
    pdl_table_print(&t, cli_width(), cli_out());
    pdl_puts(cli_out(), "\nFamilies stand at the margin, their networks below. "
                        "What one takes: paradl model\nlist NAME; its size and "
                        "layers: paradl model show NAME.\n");
}

static int list(const struct pdl_args *args)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const char *name = args->npos ? args->pos[0] : NULL;
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_OK;
    struct pdl_zoo_param p;

    if (!a)
        st = pdl_fail(&err, PDL_ENOMEM, "out of memory");
    else if (name && !pdl_zoo_param(name, 0, &p)) /* says which is near */
        st = pdl_zoo_build(a, name, &(const struct pdl_model *){NULL}, &err);
    else if (args->json)
        list_json(name);
    else if (name)
        list_params(name, a);
    else
        list_all(a);
    pdl_arena_destroy(a);
    return st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
}

static int convert(const struct pdl_args *args)
{
    const struct options *o = args->opts;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    const struct pdl_model *m = NULL;
    struct pdl_buf text;
    struct pdl_model_options opt = {.dims = o->dim};
    enum pdl_status st;
    int rc;

    pdl_buf_init(&text);
    st = a ? pdl_model_load(a, args->pos[0], &opt, &m, &err)
           : pdl_fail(&err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK)
        pdl_model_yaml_write(m, &text.sink);
    if (st == PDL_OK && text.sink.failed)
        st = pdl_fail(&err, PDL_ENOMEM, "%s: out of memory", args->pos[0]);
    rc = st == PDL_OK ? cli_write(o->output, &text) : cli_fail(st, &err);
    pdl_buf_free(&text);
    pdl_arena_destroy(a);
    return rc;
}

const struct pdl_cmd cli_model_list = {
    .name = "model list",
    .args = "[NAME]",
    .max_pos = 1,
    .summary = "networks that are known by name, and their parameters",
    .text = "Lists the zoo: families, which take parameters, and the named "
            "networks of each. With NAME, the parameters it takes, as in "
            "resnet50:input=320.",
    .example = "paradl model list",
    .run = list,
};

const struct pdl_cmd cli_model_convert = {
    .name = "model convert",
    .args = "MODEL",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "write a network in our own format",
    .text = "Writes MODEL as YAML that people can read and change, and that "
            "every command accepts as a MODEL.",
    .example = "paradl model convert lenet -o lenet.yaml",
    .opts = convert_opts,
    .nopts = sizeof convert_opts / sizeof convert_opts[0],
    .opts_size = sizeof(struct options),
    .run = convert,
    .no_json = true,
};
