/* SPDX-License-Identifier: Apache-2.0
 *
 * A job: from texts to a priced plan, what is made again when a setting
 * changes, variants, threads, cancelling. */
#include "paradl/job.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void set(pdl_job *j, const char *name, const char *value)
{
    struct pdl_err err = {"", ""};

    if (pdl_job_set(j, name, value, &err) != PDL_OK)
        fail_msg("%s=%s: %s", name, value ? value : "(none)", err.msg);
}

static pdl_job *make(const char *model, const char *strategy)
{
    pdl_job *j = pdl_job_create();

    assert_non_null(j);
    set(j, "model", model);
    set(j, "system", "dgx-a100");
    set(j, "strategy", strategy);
    set(j, "batch", "64");
    return j;
}

static double price(pdl_job *j)
{
    struct pdl_err err = {"", ""};

    if (pdl_job_price(j, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return pdl_job_projection(j)->step_s;
}

static void wrong_settings_are_refused(void **state)
{
    static const struct {
        const char *name, *value, *want;
    } rows[] = {
        {"modle", "gpt2", "no setting 'modle'"},
        {"precision", "fp31", "no precision 'fp31'"},
        {"precision", "", "no precision ''"},
        {"precision", "fp", "no precision 'fp'"},
        {"batch", "0", "is no count"},
        {"batch", "many", "is no count"},
        {"compile", "maybe", "no compile 'maybe'"},
    };
    pdl_job *j = pdl_job_create();

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct pdl_err err = {"", ""};

        assert_int_equal(pdl_job_set(j, rows[i].name, rows[i].value, &err),
                         PDL_EINVAL);
        if (!strstr(err.msg, rows[i].want))
            fail_msg("%s=%s: %s", rows[i].name, rows[i].value, err.msg);
        assert_null(pdl_job_get(j, rows[i].name));
    }
    pdl_job_destroy(j);
}

static void what_is_missing_is_said(void **state)
{
    static const char *const needed[] = {"model", "strategy", "batch",
                                         "system"};
    static const char *const value[] = {"lenet5", "data=2", "8", "dgx-a100"};
    pdl_job *j = pdl_job_create();

    (void)state;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        struct pdl_err err = {"", ""};

        assert_int_equal(pdl_job_price(j, &err), PDL_EINVAL);
        if (!strstr(err.msg, needed[i]))
            fail_msg("without %s: %s", needed[i], err.msg);
        set(j, needed[i], value[i]);
    }
    assert_true(price(j) > 0);
    pdl_job_destroy(j);
}

/* A setting changes the answer, and setting it back gives the first again:
 * whatever was kept in between. */
static void every_change_counts_and_can_be_undone(void **state)
{
    static const struct {
        const char *name, *value;
    } rows[] = {
        {"strategy", "data=4,tensor=2"},
        {"batch", "128"},
        {"precision", "fp32"},
        {"optimizer", "sgd"},
        {"framework", "megatron"},
        {"attention", "unfused"},
        {"congestion", "2..3"},
        {"parameters", "ideal"},
        {"system", "dgx-h100"},
        {"model", "gpt2-medium"},
        {"dropout", "0.1"},
        {"without", "tiles"},
    };
    pdl_job *j = make("gpt2", "data=16");
    double first = price(j);
    struct pdl_projection was = *pdl_job_projection(j);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *before = pdl_job_get(j, rows[i].name);
        char *kept = before ? strdup(before) : NULL;

        set(j, rows[i].name, rows[i].value);
        assert_null(pdl_job_projection(j));
        price(j);
        if (memcmp(&was, pdl_job_projection(j), sizeof was) == 0)
            fail_msg("%s=%s changes nothing", rows[i].name, rows[i].value);
        set(j, rows[i].name, kept);
        if (price(j) != first)
            fail_msg("%s: %.17g is not %.17g again", rows[i].name, price(j),
                     first);
        free(kept);
    }
    pdl_job_destroy(j);
}

static void a_variant_leaves_its_origin_alone(void **state)
{
    pdl_job *j = make("resnet50", "data=8");
    double first = price(j);
    pdl_job *v = pdl_job_fork(j);

    (void)state;
    assert_non_null(v);
    assert_ptr_equal(pdl_job_model(v), pdl_job_model(j));
    assert_null(pdl_job_plan(v));
    assert_true(price(v) == first);
    set(v, "batch", "128");
    assert_true(price(v) > first);
    set(v, "model", "vgg16");
    assert_true(price(v) > first);
    assert_true(pdl_job_projection(j)->step_s == first);
    pdl_job_destroy(v);
    assert_true(price(j) == first);
    pdl_job_destroy(j);
}

/* Writes the text to a new file. */
static void put_file(char *path, const char *text)
{
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static char *plan_text(const pdl_job *j)
{
    struct pdl_buf b;

    pdl_buf_init(&b);
    assert_int_equal(pdl_job_write_plan(j, &b.sink, NULL), PDL_OK);
    return b.text;
}

static void a_plan_file_costs_what_its_job_does(void **state)
{
    char path[] = "/tmp/paradl-job-XXXXXX";
    pdl_job *j = make("gpt2", "data=2,tensor=4"), *file = pdl_job_create();
    double first = price(j);
    char *one = plan_text(j), *two;

    (void)state;
    put_file(path, one);
    set(file, "plan", path);
    assert_true(price(file) == first);
    two = plan_text(file);
    assert_string_equal(one, two);
    free(one);
    free(two);
    pdl_job_destroy(file);
    pdl_job_destroy(j);
    unlink(path);
}

/* With cross-entropy a softmax at the end is left out, and the plan file says
 * so: what reads it gets the same plan. */
static void a_plan_up_to_the_logits_is_read_again(void **state)
{
    static const char yaml[] = "format: paradl-model/1\n"
                               "name: ends\n"
                               "kind: cnn\n"
                               "inputs:\n"
                               "  - {name: input, shape: [16]}\n"
                               "layers:\n"
                               "  - {op: linear, name: fc, features: 10}\n"
                               "  - {op: softmax, name: classes}\n";
    char model[] = "/tmp/paradl-job-XXXXXX", path[] = "/tmp/paradl-job-XXXXXX";
    pdl_job *j, *file = pdl_job_create();
    struct pdl_err err = {"", ""};
    char *text;

    (void)state;
    put_file(model, yaml);
    j = make(model, "data=2");
    assert_int_equal(pdl_job_lower(j, &err), PDL_OK);
    assert_int_equal(pdl_job_plan(j)->model->nnodes, 2);
    set(j, "loss", "cross-entropy");
    assert_int_equal(pdl_job_lower(j, &err), PDL_OK);
    assert_int_equal(pdl_job_plan(j)->model->nnodes, 1);
    text = plan_text(j);
    assert_non_null(strstr(text, "\noutput logits\n"));
    put_file(path, text);
    set(file, "plan", path);
    if (pdl_job_lower(file, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    assert_true(pdl_plan_equal(pdl_job_plan(j), pdl_job_plan(file)));
    free(text);
    pdl_job_destroy(file);
    pdl_job_destroy(j);
    unlink(path);
    unlink(model);
}

/* ---- several threads ------------------------------------------------------- */

struct work {
    const char *model, *strategy;
    double step_s, best_s;
};

static void ask(struct work *w)
{
    pdl_job *j = make(w->model, w->strategy);
    struct pdl_search_result found;
    struct pdl_err err = {"", ""};

    w->step_s = price(j);
    set(j, "pes", "8");
    set(j, "threads", "2");
    set(j, "axes", "data,tensor,filter");
    if (pdl_job_search(j, &found, &err) != PDL_OK || found.n == 0)
        fail_msg("%s: %s", w->model, err.msg);
    w->best_s = found.list[0].x.step_s;
    pdl_job_destroy(j);
}

static void *ask_thread(void *ctx)
{
    ask(ctx);
    return NULL;
}

static void jobs_of_several_threads_do_not_disturb_each_other(void **state)
{
    struct work alone[] = {{"gpt2", "data=8", 0, 0},
                           {"resnet50", "data=4,filter=2", 0, 0},
                           {"lenet5", "data=8", 0, 0}};
    struct work beside[3];
    pthread_t thread[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        beside[i] = alone[i];
        ask(&alone[i]);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            pthread_create(&thread[i], NULL, ask_thread, &beside[i]), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
        assert_true(beside[i].step_s == alone[i].step_s);
        assert_true(beside[i].best_s == alone[i].best_s);
    }
}

static bool stop_at_three(void *ctx, int64_t done, int64_t total)
{
    int64_t *most = ctx;

    assert_true(total == 0 || done <= total);
    *most = done;
    return done < 3;
}

static void a_search_can_be_watched_stopped_and_cancelled(void **state)
{
    pdl_job *j = make("resnet50", "data=8");
    struct pdl_search_result found;
    struct pdl_err err = {"", ""};
    int64_t most = 0;

    (void)state;
    set(j, "pes", "8");
    set(j, "threads", "1");
    pdl_job_on_progress(j, stop_at_three, &most);
    assert_int_equal(pdl_job_search(j, &found, &err), PDL_OK);
    assert_true(found.stopped);
    assert_true(most >= 3);
    pdl_job_on_progress(j, NULL, NULL);
    pdl_job_cancel(j);
    assert_int_equal(pdl_job_search(j, &found, &err), PDL_EINTR);
    assert_int_equal(pdl_job_price(j, &err), PDL_EINTR);
    set(j, "threads", "2");
    assert_int_equal(pdl_job_search(j, &found, &err), PDL_OK);
    assert_false(found.stopped);
    pdl_job_destroy(j);
}

/* Without a plan it costs the same; what cannot be composed has one, and what
 * is refused is refused as before. */
static void a_projection_needs_no_plan(void **state)
{
    static const char *const strategies[] = {"data=8", "pipe=2(m=4),data=4",
                                             "data=4,tensor=2,zero=1",
                                             "data=8,bucket=1MiB"};
    pdl_job *j = make("gpt2", "data=8");
    struct pdl_projection x, y;
    struct pdl_err err = {"", ""};

    (void)state;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        set(j, "strategy", strategies[i]);
        assert_int_equal(pdl_job_project(j, &x, &err), PDL_OK);
        assert_true((pdl_job_plan(j) == NULL) == (i < 3));
        assert_true(fabs(x.step_s - price(j)) < 1e-9 * x.step_s);
        assert_int_equal(x.peak_bytes, pdl_job_projection(j)->peak_bytes);
    }
    set(j, "strategy", "data=8"); /* another precision is another price */
    assert_int_equal(pdl_job_project(j, &x, &err), PDL_OK);
    set(j, "precision", "fp32");
    assert_int_equal(pdl_job_project(j, &y, &err), PDL_OK);
    assert_true(y.step_s > 1.5 * x.step_s);
    set(j, "pes", "16");
    assert_int_equal(pdl_job_project(j, &x, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "multiplies to 8 PEs, not 16"));
    set(j, "pes", NULL);
    set(j, "strategy", "data=128");
    assert_int_equal(pdl_job_project(j, &x, &err), PDL_EINVAL);
    pdl_job_destroy(j);
}

static void a_system_can_be_given_as_a_value(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    pdl_job *j = make("resnet50", "data=8");
    struct pdl_system sys;
    double by_name, faster;

    (void)state;
    assert_int_equal(pdl_job_price(j, NULL), PDL_OK);
    by_name = pdl_job_projection(j)->step_s;
    assert_int_equal(pdl_system_open(a, pdl_job_get(j, "system"), &sys, NULL),
                     PDL_OK);
    pdl_job_use_system(j, &sys);
    assert_int_equal(pdl_job_price(j, NULL), PDL_OK);
    assert_true(pdl_job_projection(j)->step_s == by_name);
    sys.pe.memory_bytes_per_s *= 2;
    pdl_job_use_system(j, &sys);
    assert_int_equal(pdl_job_price(j, NULL), PDL_OK);
    faster = pdl_job_projection(j)->step_s;
    assert_true(faster < by_name);
    pdl_job_use_system(j, NULL);
    assert_int_equal(pdl_job_price(j, NULL), PDL_OK);
    assert_true(pdl_job_projection(j)->step_s == by_name);
    pdl_job_destroy(j);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(what_is_missing_is_said),
        cmocka_unit_test(every_change_counts_and_can_be_undone),
        cmocka_unit_test(a_variant_leaves_its_origin_alone),
        cmocka_unit_test(a_plan_file_costs_what_its_job_does),
        cmocka_unit_test(a_plan_up_to_the_logits_is_read_again),
        cmocka_unit_test(jobs_of_several_threads_do_not_disturb_each_other),
        cmocka_unit_test(a_system_can_be_given_as_a_value),
        cmocka_unit_test(a_search_can_be_watched_stopped_and_cancelled),
        cmocka_unit_test(a_projection_needs_no_plan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
