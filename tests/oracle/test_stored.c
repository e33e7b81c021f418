/* Figures of plans, stored: a change of what a step takes or holds is seen, also
 * one that all feeders of the evaluator share. Without habits of a framework that
 * is shipped, so that those may change; one of its own has a few of each sort.
 *
 * tests/data/oracle/figures.txt lists the plans. After a change that is meant,
 *     PDL_RENEW=1 build/test_oracle_stored
 * writes its figures again; the difference belongs into the commit. A plan is
 * added as a line with its strategy alone. */
#include "effort.h"
#include "paradl/oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TABLE PDL_SOURCE_DIR "/tests/data/oracle/figures.txt"

/* Columns of the table after the strategy. */
enum { SECONDS = 7, BYTES = 6, FIGURES = SECONDS + BYTES };
static const char *const names[FIGURES] = {
    "step_s",     "compute_s",         "exposed_comm_s", "comm_s",
    "bubble_s",   "recompute_s",       "update_s",       "allocated_bytes",
    "peak_bytes", "activations_bytes", "weights_bytes",  "gradients_bytes",
    "host_bytes"};

static void figures_of(const struct pdl_projection *x, double *out)
{
    const double all[FIGURES] = {x->step_s,
                                 x->compute_s,
                                 x->exposed_comm_s,
                                 x->comm_s,
                                 x->bubble_s,
                                 x->recompute_s,
                                 x->update_s,
                                 (double)x->allocated_bytes,
                                 (double)x->peak_bytes,
                                 (double)x->activations_bytes,
                                 (double)x->weights_bytes,
                                 (double)x->gradients_bytes,
                                 (double)x->host_bytes};

    memcpy(out, all, sizeof all);
}

/* One of each sort: what kernels stream, what the host issues, what is
 * exchanged, what stays in memory. */
static const char habits[] = "schema: paradl.framework/1\n"
                             "name: stored\n"
                             "title: of a test\n"
                             "adds:\n"
                             "  - fused: true\n"
                             "    issue: 30us\n"
                             "    exchange_bytes: 4\n"
                             "    gradient_bytes: 6\n"
                             "    logit_bytes: 8\n"
                             "    fragments: 0.1\n"
                             "    context_bytes: 2GiB\n"
                             "    kind: counted\n"
                             "    source: \"made up\"\n";

/* ---- plans ------------------------------------------------------------------------ */

/* What the lines below a heading are asked with. */
struct asked {
    pdl_arena *arena;
    const struct pdl_model *model;
    struct pdl_system sys;
    struct pdl_oracle_options oracle;
    int64_t batch;
};

/* "= MODEL SYSTEM PRECISION BATCH none|habits" */
static void ask(const char *line, struct asked *x)
{
    char model[128], system[64], precision[16], with[16];
    long long batch;
    struct pdl_err err = {"", ""};

    pdl_arena_reset(x->arena);
    x->oracle =
        (struct pdl_oracle_options){.optimizer_slots = 2, .gradient_bytes = 0};
    if (sscanf(line, "= %127s %63s %15s %lld %15s", model, system, precision,
               &batch, with) != 5)
        fail_msg("%s: not understood", line);
    x->batch = batch;
    x->oracle.precision = pdl_precision_find(precision);
    if (pdl_model_load(x->arena, model, NULL, &x->model, &err) != PDL_OK ||
        pdl_system_open(x->arena, system, &x->sys, &err) != PDL_OK)
        fail_msg("%s: %s", line, err.msg);
    if (strcmp(with, "habits") == 0 &&
        pdl_framework_read(x->arena,
                           (struct pdl_bytes){habits, sizeof habits - 1},
                           "habits", &x->oracle.framework, &err) != PDL_OK)
        fail_msg("%s", err.msg);
}

static void project(const struct asked *x, const char *text, double *out)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_plan_options po = {
        .rolled = true, .batch = x->batch, .allow_empty = true};
    struct pdl_err err = {"", ""};
    struct pdl_projection y;
    const struct pdl_plan *plan;
    struct pdl_strategy s;

    if (pdl_strategy_parse(a, text, &s, &err) != PDL_OK ||
        pdl_oracle_lower(a, x->model, &x->sys, &x->oracle, &po, &s, &plan,
                         &err) != PDL_OK ||
        pdl_project(plan, &x->sys, &x->oracle, &y, &err) != PDL_OK)
        fail_msg("%s %s: %s", x->model->name, text, err.msg);
    figures_of(&y, out);
    pdl_arena_destroy(a);
}

/* ---- the table -------------------------------------------------------------------- */

static void write_figures(FILE *to, const char *strategy, const double *x)
{
    fprintf(to, "%s", strategy);
    for (int i = 0; i < FIGURES; i++)
        fprintf(to, i < SECONDS ? " %.12g" : " %.0f", x[i]);
    fprintf(to, "\n");
}

/* Figures that differ: seconds by more than 1e-9 of the step, bytes at all. */
static int compare(const struct asked *x, const char *strategy,
                   const char *stored, const double *now)
{
    int wrong = 0;
    double step = now[0];

    for (int i = 0; i < FIGURES; i++) {
        char *end;
        double was = strtod(stored, &end);

        if (end == stored)
            fail_msg("%s: figures are missing", strategy);
        stored = end;
        if (fabs(was - now[i]) <= (i < SECONDS ? 1e-9 * step : 0))
            continue;
        print_message("%s %s: %s was %.12g, is %.12g\n", x->model->name,
                      strategy, names[i], was, now[i]);
        wrong++;
    }
    return wrong;
}

/* Every `each`-th plan; all of them into `to`, if there is one. */
static int walk(FILE *table, FILE *to, int each, int *plans)
{
    struct asked x = {.arena = pdl_arena_create(PDL_ARENA_DEFAULT)};
    char line[1024];
    int wrong = 0, at = 0;

    while (fgets(line, sizeof line, table)) {
        size_t n = strcspn(line, " \n");
        double now[FIGURES];

        line[strcspn(line, "\n")] = '\0';
        if (*line == '=')
            ask(line, &x);
        if (to && (*line == '=' || *line == '#' || !*line))
            fprintf(to, "%s\n", line);
        if (*line == '=' || *line == '#' || !*line || at++ % each != 0)
            continue;
        if (line[n])
            line[n++] = '\0';
        project(&x, line, now);
        if (to)
            write_figures(to, line, now);
        else
            wrong += compare(&x, line, line + n, now);
        (*plans)++;
    }
    pdl_arena_destroy(x.arena);
    return wrong;
}

static void plans_have_their_stored_figures(void **state)
{
    bool renew = getenv("PDL_RENEW") != NULL;
    FILE *table = fopen(TABLE, "r");
    FILE *to = renew ? fopen(TABLE ".new", "w") : NULL;
    int plans = 0, wrong;

    (void)state;
    assert_non_null(table);
    assert_true(!renew || to);
    wrong = walk(table, to, renew ? 1 : effort(8, 1, 1), &plans);
    fclose(table);
    if (to) {
        assert_int_equal(fclose(to), 0);
        assert_int_equal(rename(TABLE ".new", TABLE), 0);
    }
    print_message("%d plans, %d figures differ%s\n", plans, wrong,
                  wrong ? "; if that is meant: PDL_RENEW=1" : "");
    assert_int_equal(wrong, 0);
    assert_true(plans > effort(30, 250, 250));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_have_their_stored_figures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
