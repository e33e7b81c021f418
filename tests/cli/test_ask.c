/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands as functions: the text of the program, its exit codes, errors
 * apart, nothing printed; a question can be taken back; threads do not hear
 * each other. */
#include "paradl/cli.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ASK(a, ...)                                                      \
    pdl_ask_command(                                                     \
        a, sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *), \
        (const char *const[]){__VA_ARGS__})

static int make(void **state)
{
    *state = pdl_answer_create();
    return *state ? 0 : -1;
}

static int unmake(void **state)
{
    pdl_answer_destroy(*state);
    return 0;
}

static void has_text_and_size(void **state)
{
    pdl_answer *a = *state;

    assert_int_equal(ASK(a, "system", "list", "--json"), 0);
    assert_non_null(strstr(pdl_answer_text(a), "\"paradl.system-list/1\""));
    assert_int_equal(strlen(pdl_answer_text(a)), pdl_answer_size(a));
    assert_string_equal(pdl_answer_message(a), "");
}

/* The answer to the next question is its own. */
static void says_what_is_wrong(void **state)
{
    pdl_answer *a = *state;

    assert_int_equal(ASK(a, "system", "show", "dgx-a10"), 3);
    assert_non_null(strstr(pdl_answer_message(a), "dgx-a10"));
    assert_non_null(strstr(pdl_answer_hint(a), "dgx-a100"));
    assert_string_equal(pdl_answer_text(a), "");
    assert_int_equal(ASK(a, "plan", "resnet50", "--pse", "4"), 2);
    assert_non_null(strstr(pdl_answer_hint(a), "--pes"));
    assert_int_equal(ASK(a, "nosuch"), 2);
    assert_int_equal(pdl_ask_command(a, 0, NULL), 2);
    assert_int_equal(ASK(a, "info"), 0);
    assert_string_equal(pdl_answer_message(a), "");
}

static void says_no_with_the_answer(void **state)
{
    pdl_answer *a = *state;

    assert_int_equal(ASK(a, "project", "gpt3-175b", "--system", "dgx-a100",
                         "--strategy", "serial", "--batch", "1", "--json"),
                     1);
    assert_non_null(strstr(pdl_answer_text(a), "\"feasible\": false"));
}

/* What would replace or fork this very process. */
static void starts_no_ranks(void **state)
{
    pdl_answer *a = *state;

    assert_int_equal(ASK(a, "train", "lenet5", "--data", "synthetic"), 4);
    assert_int_equal(ASK(a, "bench", "allreduce"), 4);
    assert_int_equal(
        ASK(a, "validate", "--collective", "allreduce", "--system", "dgx-a100"),
        4);
    assert_non_null(strstr(pdl_answer_message(a), "ranks"));
}

static void projects_a_held_job(void **state)
{
    static const char *const settings[][2] = {{"model", "resnet50"},
                                              {"system", "abci-v100"},
                                              {"batch", "256"},
                                              {"strategy", "data=8"}};
    pdl_answer *a = *state;
    pdl_job *j = pdl_job_create();

    assert_non_null(j);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pdl_ask_set(a, j, settings[i][0], settings[i][1]), 0);
    assert_int_equal(pdl_ask_project(a, j, false), 0);
    assert_non_null(strstr(pdl_answer_text(a), "\"strategy\": \"data=8\""));
    assert_null(strstr(pdl_answer_text(a), "interval_s"));
    assert_int_equal(pdl_ask_project(a, j, true), 0);
    assert_non_null(strstr(pdl_answer_text(a), "interval_s"));
    assert_int_equal(pdl_ask_set(a, j, "strategy", "data=300"), 0);
    assert_int_equal(pdl_ask_project(a, j, false), 3);
    assert_true(*pdl_answer_message(a) != '\0');
    assert_int_equal(pdl_ask_set(a, j, "stratgy", "data=8"), 3);
    assert_non_null(strstr(pdl_answer_hint(a), "strategy"));
    pdl_job_destroy(j);
}

static void makes_a_page(void **state)
{
    static const char bad[] = "{\"schema\": \"paradl.nosuch/1\"}";
    pdl_answer *a = *state, *page = pdl_answer_create();

    assert_int_equal(ASK(a, "simulate", "allreduce", "--topology", "torus:2x2",
                         "--size", "1MiB", "--json"),
                     0);
    assert_int_equal(pdl_ask_page(page, pdl_answer_text(a), pdl_answer_size(a)),
                     0);
    assert_non_null(strstr(pdl_answer_text(page), "<!DOCTYPE html>"));
    assert_int_equal(pdl_ask_page(page, bad, sizeof bad - 1), 3);
    pdl_answer_destroy(page);
}

/* ---- another thread ------------------------------------------------------ */

static void *ask_large(void *answer)
{
    return (void *)(intptr_t)ASK(answer, "plan", "gpt3-175b", "--system",
                                 "dgx-a100", "--pes", "512", "--batch", "512",
                                 "--json");
}

static void is_taken_back(void **state)
{
    pdl_answer *a = *state;
    int64_t done = 0, total = 0;
    void *rc = NULL;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, ask_large, a), 0);
    while (done == 0)
        pdl_answer_progress(a, &done, &total);
    pdl_answer_cancel(a);
    assert_int_equal(pthread_join(thread, &rc), 0);
    assert_int_equal((intptr_t)rc, 130);
    assert_int_equal(ASK(a, "info"), 0); /* the next one is asked afresh */
    pdl_answer_cancel(a);                /* before it is asked */
    assert_int_equal(ASK(a, "info"), 130);
    assert_int_equal(ASK(a, "info"), 0);
}

static void *ask_often(void *unused)
{
    pdl_answer *a = pdl_answer_create();
    intptr_t bad = a == NULL;

    (void)unused;
    for (int i = 0; i < 20 && !bad; i++) {
        bad |= ASK(a, "model", "show", "nosuch") != 3;
        bad |= ASK(a, "model", "show", "lenet5") != 0;
        bad |= !strstr(pdl_answer_text(a), "lenet5");
    }
    pdl_answer_destroy(a);
    return (void *)bad;
}

static void threads_ask_alone(void **state)
{
    pthread_t thread[4];
    void *bad = NULL;

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask_often, NULL), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], &bad);
        assert_null(bad);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make, unmake)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(has_text_and_size),   CASE(says_what_is_wrong),
        CASE(starts_no_ranks),     CASE(says_no_with_the_answer),
        CASE(projects_a_held_job), CASE(makes_a_page),
        CASE(is_taken_back),       CASE(threads_ask_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
