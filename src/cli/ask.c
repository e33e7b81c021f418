/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands without the program: what they print stays in memory, who asks may
 * take the question back. While a command runs, its thread knows the answer
 * that it is for; nothing else does. */
#include "cli/output/projection.h"

#include "paradl/report.h"

#include <stdatomic.h>
#include <stdlib.h>

struct pdl_answer {
    struct pdl_buf text, notes;
    struct pdl_err err;
    atomic_bool cancelled;
    atomic_llong done, total;
};

static _Thread_local pdl_answer *asked;

pdl_answer *cli_asked(void)
{
    return asked;
}

struct pdl_sink *cli_answer_text(pdl_answer *a)
{
    return &a->text.sink;
}

struct pdl_sink *cli_answer_notes(pdl_answer *a)
{
    return &a->notes.sink;
}

void cli_answer_fail(pdl_answer *a, const struct pdl_err *err)
{
    a->err = *err;
}

bool cli_cancelled(const pdl_answer *a)
{
    return a && atomic_load(&a->cancelled);
}

bool cli_go_on(void *ctx, int64_t done, int64_t total)
{
    pdl_answer *a = ctx;

    if (!a)
        return true;
    atomic_store(&a->done, done);
    atomic_store(&a->total, total);
    return !atomic_load(&a->cancelled);
}

bool cli_needs_ranks(const struct pdl_cmd *cmd)
{
    static const struct pdl_cmd *const all[] = {
        &cli_train,      &cli_evaluate,  &cli_federate,
        &cli_diff_run,   &cli_data_show, &cli_data_stage,
        &cli_data_check, &cli_bench,     &cli_plan_run};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (cmd == all[i])
            return true;
    return false;
}

int cli_refuse_ranks(const char *command)
{
    struct pdl_err err;

    pdl_fail(&err, PDL_ENOENV, "%s starts ranks", command);
    pdl_hint(&err, "it is the program's: paradl %s", command);
    return cli_fail(PDL_ENOENV, &err);
}

/* ---- the answer --------------------------------------------------------- */

pdl_answer *pdl_answer_create(void)
{
    pdl_answer *a = calloc(1, sizeof *a);

    if (a) {
        pdl_buf_init(&a->text);
        pdl_buf_init(&a->notes);
    }
    return a;
}

void pdl_answer_destroy(pdl_answer *a)
{
    if (!a)
        return;
    pdl_buf_free(&a->text);
    pdl_buf_free(&a->notes);
    free(a);
}

static void empty(struct pdl_buf *b)
{
    pdl_buf_free(b);
    pdl_buf_init(b);
}

static void begin(pdl_answer *a)
{
    empty(&a->text);
    empty(&a->notes);
    a->err = (struct pdl_err){"", ""};
    cli_go_on(a, 0, 0);
    asked = a;
}

/* What was taken back has no answer, however far it came; that is said once.
 * Forgotten here, not in begin: who takes back may be quicker than who asks. */
static int end(pdl_answer *a, int rc)
{
    asked = NULL;
    if (atomic_exchange(&a->cancelled, false)) {
        pdl_fail(&a->err, PDL_EINTR, "the question was taken back");
        return EXIT_INTR;
    }
    if (a->text.sink.failed || a->notes.sink.failed) {
        pdl_fail(&a->err, PDL_ENOMEM, "no memory for the answer");
        return EXIT_INPUT;
    }
    return rc;
}

const char *pdl_answer_text(const pdl_answer *a)
{
    return a->text.text ? a->text.text : "";
}

size_t pdl_answer_size(const pdl_answer *a)
{
    return a->text.len;
}

const char *pdl_answer_notes(const pdl_answer *a)
{
    return a->notes.text ? a->notes.text : "";
}

const char *pdl_answer_message(const pdl_answer *a)
{
    return a->err.msg;
}

const char *pdl_answer_hint(const pdl_answer *a)
{
    return a->err.hint;
}

void pdl_answer_cancel(pdl_answer *a)
{
    atomic_store(&a->cancelled, true);
}

void pdl_answer_progress(const pdl_answer *a, int64_t *done, int64_t *total)
{
    *done = atomic_load(&a->done);
    *total = atomic_load(&a->total);
}

/* ---- questions ----------------------------------------------------------- */

int pdl_ask_command(pdl_answer *a, int argc, const char *const *argv)
{
    char **words = calloc((size_t)(argc > 0 ? argc : 0) + 1, sizeof *words);
    struct pdl_err err = {"no command was given", "see 'paradl help'"};
    int rc;

    begin(a);
    if (!words)
        return end(a, EXIT_BUG);
    for (int i = 0; i < argc; i++) /* they are not changed: pdl_opts_parse */
        words[i] = (char *)(uintptr_t)argv[i];
    rc = argc > 0 ? cli_run(argc, words) : cli_usage(&err);
    free(words);
    return end(a, rc);
}

int pdl_ask_set(pdl_answer *a, pdl_job *j, const char *name, const char *value)
{
    struct pdl_err err = {"", ""};
    enum pdl_status st;

    begin(a);
    st = pdl_job_set(j, name, value, &err);
    return end(a, st == PDL_OK ? EXIT_OK : cli_fail(st, &err));
}

static void begin_json(pdl_job *j, struct pdl_json *w, struct pdl_sink *out)
{
    pdl_json_init(w, out);
    w->compact = true;
    pdl_json_schema(w, "project");
    pdl_json_kstr(w, "model", pdl_job_model(j)->name);
    pdl_json_kstr(w, "system", pdl_job_system(j)->name);
    pdl_json_kstr(w, "strategy", pdl_job_get(j, "strategy"));
}

int pdl_ask_project(pdl_answer *a, pdl_job *j, bool whole)
{
    struct cli_job view = {.job = j};
    struct pdl_err err = {"", ""};
    struct pdl_projection x;
    struct pdl_json w;
    enum pdl_status st;

    begin(a);
    st = whole ? pdl_job_price(j, &err) : pdl_job_project(j, &x, &err);
    if (st != PDL_OK)
        return end(a, cli_fail(st, &err));
    begin_json(j, &w, &a->text.sink);
    if (whole) {
        cli_job_take(&view);
        cli_job_json(&w, &view);
        x = view.x;
    } else {
        cli_brief_json(&w, &x, pdl_job_system(j));
    }
    pdl_json_end(&w);
    return end(a, x.feasible ? EXIT_OK : EXIT_NO);
}

int pdl_ask_page(pdl_answer *a, const char *json, size_t len)
{
    pdl_arena *arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_bytes in = {json, len};
    struct pdl_err err = {"out of memory", ""};
    enum pdl_status st = PDL_ENOMEM;

    begin(a);
    if (arena)
        st = pdl_report_html(arena, in, "the result", &a->text.sink, &err);
    pdl_arena_destroy(arena);
    return end(a, st == PDL_OK ? EXIT_OK : cli_fail(st, &err));
}
