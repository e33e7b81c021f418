/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl collective list, show, verify. */
#include "cli/questions/cli_collective.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- list ---------------------------------------------------------------- */

struct list_options {
    const char *collective;
};

static const struct pdl_opt list_opts[] = {
    {"collective", 0, PDL_OPT_TEXT, offsetof(struct list_options, collective),
     "NAME", NULL, "only the algorithms of this one"},
};

static bool wanted(const struct pdl_alg *alg, const char *collective)
{
    return !collective || strcmp(alg->collective->name, collective) == 0;
}

static void list_json(const char *collective)
{
    struct pdl_json j;

    pdl_json_init(&j, cli_out());
    pdl_json_schema(&j, "collective-list");
    pdl_json_key(&j, "algorithms");
    pdl_json_array(&j);
    for (int i = 0; pdl_alg_at(i); i++) {
        const struct pdl_alg *alg = pdl_alg_at(i);

        if (!wanted(alg, collective))
            continue;
        pdl_json_object(&j);
        pdl_json_kstr(&j, "collective", alg->collective->name);
        pdl_json_kstr(&j, "name", alg->name);
        pdl_json_kstr(&j, "summary", alg->summary);
        pdl_json_kstr(&j, "source", alg->source);
        pdl_json_kstr(&j, "steps", alg->steps);
        pdl_json_kstr(&j, "bytes", alg->bytes);
        pdl_json_kstr(&j, "limits", alg->limits);
        pdl_json_kbool(&j, "sparse", alg->sparse);
        pdl_json_key(&j, "parameters");
        pdl_json_array(&j);
        for (int k = 0; k < alg->nkeys; k++) {
            pdl_json_row(&j);
            pdl_json_kstr(&j, "name", alg->keys[k].name);
            pdl_json_kstr(&j, "help", alg->keys[k].help);
            pdl_json_end(&j);
        }
        pdl_json_end(&j);
        pdl_json_end(&j);
    }
    pdl_json_end(&j);
    pdl_json_end(&j);
}

/* "  ring-ring   what it does [k divides P; k]", wrapped. */
static void list_one(const struct pdl_alg *alg)
{
    enum { COLUMN = 24 };
    struct pdl_sink *out = cli_out();
    struct pdl_buf text;
    int n = (int)strlen(alg->name) + 4;

    pdl_buf_init(&text);
    pdl_printf(&text.sink, "%s", alg->summary);
    if (*alg->limits || alg->nkeys > 0)
        pdl_printf(&text.sink, " [%s%s", alg->limits,
                   *alg->limits && alg->nkeys > 0 ? "; " : "");
    for (int k = 0; k < alg->nkeys; k++)
        pdl_printf(&text.sink, "%s%s=", k ? ", " : "", alg->keys[k].name);
    if (*alg->limits || alg->nkeys > 0)
        pdl_puts(&text.sink, "]");
    pdl_printf(out, "  %s%*s", alg->name, n < COLUMN ? COLUMN - n + 2 : 2, "");
    pdl_wrap(out, text.text ? text.text : "", COLUMN, n < COLUMN ? COLUMN : n);
    pdl_buf_free(&text);
}

static int list(const struct pdl_args *args)
{
    const struct list_options *o = args->opts;
    const struct pdl_collective *last = NULL;
    struct pdl_err err = {"", ""};

    if (o->collective && !pdl_collective_find(o->collective)) {
        struct pdl_coll_job none = {.alg = NULL};

        return cli_fail(pdl_alg_parse(o->collective, "", &none, &err), &err);
    }
    if (args->json)
        return list_json(o->collective), EXIT_OK;
    for (int i = 0; pdl_alg_at(i); i++) {
        const struct pdl_alg *alg = pdl_alg_at(i);

        if (!wanted(alg, o->collective))
            continue;
        if (alg->collective != last)
            pdl_printf(cli_out(), "%s: %s\n", alg->collective->name,
                       alg->collective->summary);
        last = alg->collective;
        list_one(alg);
    }
    return EXIT_OK;
}

const struct pdl_cmd cli_collective_list = {
    .name = "collective list",
    .args = "",
    .summary = "the collective algorithms and their parameters",
    .text = "Lists every algorithm, what it takes after the colon "
            "(ring-ring:k=4) and on how many ranks it runs. Where each comes "
            "from and what it costs is in --json and in the manual.",
    .example = "paradl collective list --collective alltoall",
    .opts = list_opts,
    .nopts = sizeof list_opts / sizeof list_opts[0],
    .opts_size = sizeof(struct list_options),
    .run = list,
};

/* ---- show ---------------------------------------------------------------- */

struct show_options {
    const char *collective, *format, *rank;
    int64_t ranks, size;
    double density;
};

static const struct pdl_opt show_opts[] = {
    {"ranks", 'n', PDL_OPT_COUNT, offsetof(struct show_options, ranks), "P",
     NULL, "number of ranks (8)"},
    {"rank", 0, PDL_OPT_TEXT, offsetof(struct show_options, rank), "R", NULL,
     "only this rank's steps"},
    {"collective", 0, PDL_OPT_TEXT, offsetof(struct show_options, collective),
     "NAME", NULL, "which collective, where several have the algorithm"},
    {"size", 0, PDL_OPT_SIZE, offsetof(struct show_options, size), "BYTES",
     NULL, "bytes of each rank's buffer"},
    {"density", 0, PDL_OPT_NUM, offsetof(struct show_options, density), "Q",
     NULL, "share of non-zeros, for the sparse algorithms"},
    {"format", 0, PDL_OPT_TEXT, offsetof(struct show_options, format), "NAME",
     "text|msccl", "text (reads back as FILE.coll) or MSCCL's XML"},
};

/* The steps as text, or as the member of an object. */
static enum pdl_status print_steps(const struct pdl_coll_job *job, int rank,
                                   const struct show_options *o, bool json,
                                   struct pdl_err *err)
{
    bool msccl = o->format && strcmp(o->format, "msccl") == 0;
    enum pdl_status st = PDL_OK;
    struct pdl_buf text;
    struct pdl_json w;

    pdl_buf_init(&text);
    if (msccl)
        st = pdl_coll_print_msccl(job, json ? &text.sink : cli_out(), err);
    else
        pdl_coll_print(job, rank, json ? &text.sink : cli_out());
    if (st == PDL_OK && json) {
        pdl_json_init(&w, cli_out());
        pdl_json_schema(&w, "collective-show");
        pdl_json_kstr(&w, "collective", job->alg->collective->name);
        pdl_json_kstr(&w, "algorithm", job->alg->name);
        pdl_json_kint(&w, "ranks", job->nranks);
        pdl_json_kstr(&w, "format", msccl ? "msccl" : "text");
        pdl_json_kstr(&w, "program", text.text);
        pdl_json_end(&w);
    }
    pdl_buf_free(&text);
    return st;
}

static int show(const struct pdl_args *args)
{
    const struct show_options *o = args->opts;
    struct cli_job_size size = {(int)(o->ranks ? o->ranks : 8), o->size,
                                o->density};
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_coll_job job;
    enum pdl_status st = PDL_OK;
    int64_t rank = -1;

    if (!a)
        return EXIT_BUG;
    if (cli_is_program(args->pos[0])) {
        st = cli_program_read(a, args->pos[0], &job, &err);
    } else {
        if (size.bytes == 0) /* every algorithm can cut this */
            size.bytes = (int64_t)size.ranks * 48;
        st = cli_job_make(a, cli_collective_of(args->pos[0], o->collective),
                          args->pos[0], NULL, &size, &job, &err);
    }
    if (st == PDL_OK && o->rank &&
        pdl_int_parse(o->rank, 0, job.nranks - 1, &rank, NULL) != PDL_OK)
        st = pdl_fail(&err, PDL_EINVAL, "--rank '%.20s' is not one of 0 to %d",
                      o->rank, job.nranks - 1);
    if (st == PDL_OK)
        st = print_steps(&job, (int)rank, o, args->json, &err);
    pdl_arena_destroy(a);
    return st == PDL_OK ? EXIT_OK : cli_fail(st, &err);
}

const struct pdl_cmd cli_collective_show = {
    .name = "collective show",
    .args = "ALGORITHM|FILE.coll",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "the steps of a collective algorithm",
    .text = "Prints what every rank does: one step a line, with the chunks "
            "it sends and receives and the steps it waits for. The text can "
            "be edited, proved and simulated as FILE.coll.",
    .example = "paradl collective show ring --ranks 4",
    .opts = show_opts,
    .nopts = sizeof show_opts / sizeof show_opts[0],
    .opts_size = sizeof(struct show_options),
    .run = show,
};
