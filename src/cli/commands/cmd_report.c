/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl report: a page from a saved result; and what --report of the other
 * commands does. */
#include "cli/cli_priv.h"

#include "paradl/report.h"

struct options {
    const char *out;
};

static const struct pdl_opt opts[] = {
    {"output", 'o', PDL_OPT_TEXT, offsetof(struct options, out), "FILE", NULL,
     "where the page goes (standard output)"},
};

int cli_report(const struct pdl_buf *json, const char *path)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_bytes in = {json->text, json->len};
    struct pdl_err err = {"", ""};
    struct pdl_buf page;
    enum pdl_status st;
    int rc;

    pdl_buf_init(&page);
    if (!a || json->sink.failed)
        st = pdl_fail(&err, PDL_ENOMEM, "no memory for the page");
    else
        st = pdl_report_html(a, in, "the result", &page.sink, &err);
    rc = st == PDL_OK ? cli_write(path, &page) : cli_fail(st, &err);
    pdl_buf_free(&page);
    pdl_arena_destroy(a);
    return rc;
}

static int run(const struct pdl_args *args)
{
    enum { MAX_INPUT = 64 << 20 };
    const struct options *o = args->opts;
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_err err = {"", ""};
    struct pdl_bytes in;
    struct pdl_buf page;
    enum pdl_status st;
    int rc;

    if (!a)
        return EXIT_BUG;
    pdl_buf_init(&page);
    st = pdl_file_read(a, args->pos[0], MAX_INPUT, &in, &err);
    if (st == PDL_OK)
        st = pdl_report_html(a, in, args->pos[0], &page.sink, &err);
    rc = st == PDL_OK ? cli_write(o->out, &page) : cli_fail(st, &err);
    pdl_buf_free(&page);
    pdl_arena_destroy(a);
    return rc;
}

const struct pdl_cmd cli_report_cmd = {
    .name = "report",
    .args = "FILE.json",
    .min_pos = 1,
    .max_pos = 1,
    .summary = "a page with charts from a saved result",
    .text = "Reads what 'plan', 'project', 'scale', 'design', 'compare', "
            "'validate', 'collective "
            "compare' or 'simulate' printed with --json and writes one HTML "
            "file with charts and tables that needs nothing else. The same "
            "page as with --report of these commands; 'plan' and 'project' "
            "print all that their pages show with --details. Of 'federate' it "
            "is what --result wrote.",
    .example = "paradl simulate allreduce -t torus:4x4 -s 1MiB --json | "
               "paradl report -",
    .opts = opts,
    .nopts = sizeof opts / sizeof opts[0],
    .opts_size = sizeof(struct options),
    .run = run,
    .no_json = true,
};
