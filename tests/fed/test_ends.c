/* A rank that fails ends the others at once, with its own words: nobody waits
 * for the time-out. */
#include "small.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_RANKS = 4, CLIENTS = 8, PATIENCE_S = 60 };

struct ends {
    struct pdl_fed_job job;
    int64_t bad;       /* the client whose training fails; -1: none */
    const char *spoil; /* a folder that turns into a file; NULL: none */
    enum pdl_status st[MOST_RANKS];
    struct pdl_err err[MOST_RANKS];
    atomic_bool asked;
};

static enum pdl_status visited(void *ctx, int64_t client, struct pdl_err *err)
{
    struct ends *e = ctx;

    if (client != e->bad)
        return PDL_OK;
    pdl_fail(err, PDL_EIO, "client %d: the disk is gone", (int)client);
    pdl_hint(err, "try another");
    return PDL_EIO;
}

static enum pdl_status body(void *ctx, pdl_comm *comm, struct pdl_err *err)
{
    struct ends *e = ctx;
    struct pdl_fed_summary sum;
    int r = pdl_comm_rank(comm);

    e->st[r] = pdl_fed_run(&e->job, comm, &sum, &e->err[r]);
    *err = e->err[r];
    return e->st[r];
}

static double run_ends(struct ends *e, int ranks, enum pdl_status want,
                       const char *words)
{
    double start = pdl_clock_s();
    struct pdl_err err = {"", ""};

    for (int r = 0; r < ranks; r++)
        e->err[r] = (struct pdl_err){"", ""};
    e->job.ctx = e;
    assert_int_equal(pdl_train_virtual(ranks, PATIENCE_S, body, e, &err), want);
    assert_non_null(strstr(err.msg, words));
    for (int r = 0; r < ranks; r++) {
        assert_int_equal(e->st[r], want);
        assert_string_equal(e->err[r].msg, err.msg);
        assert_string_equal(e->err[r].hint, err.hint);
    }
    return pdl_clock_s() - start;
}

/* Whoever trains the client: the server itself, or a worker. */
static void a_rank_that_cannot_train_ends_all(void **state)
{
    struct small s;

    (void)state;
    small_open(&s, 96, false, "iid", CLIENTS);
    for (int ranks = 1; ranks <= MOST_RANKS; ranks *= 2)
        for (int64_t bad = 0; bad < CLIENTS; bad++) {
            struct ends e = {.job = s.job, .bad = bad};
            char words[64];

            snprintf(words, sizeof words, "client %d: the disk", (int)bad);
            e.job.visited = visited;
            e.job.algorithm = bad % 2 ? "scaffold" : "local";
            assert_true(run_ends(&e, ranks, PDL_EIO, words) < PATIENCE_S / 2.0);
            assert_non_null(strstr(e.err[0].hint, "another"));
        }
    small_close(&s);
}

/* One of the ranks that are a cluster's devices; the others would wait for it
 * at the next client. */
static enum pdl_status first_asked(void *ctx, int64_t client,
                                   struct pdl_err *err)
{
    struct ends *e = ctx;

    if (client != e->bad || atomic_exchange(&e->asked, true))
        return PDL_OK;
    return visited(ctx, client, err);
}

static void a_device_that_cannot_train_ends_all(void **state)
{
    struct small s;

    (void)state;
    small_open(&s, 96, false, "iid", CLIENTS);
    s.job.algorithm = "feddct";
    s.job.devices_are_ranks = true;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        for (int64_t bad = 0; bad < CLIENTS; bad++) {
            struct ends e = {.job = s.job, .bad = bad};
            char words[64];

            snprintf(words, sizeof words, "client %d: the disk", (int)bad);
            e.job.visited = first_asked;
            assert_true(run_ends(&e, ranks, PDL_EIO, words) < PATIENCE_S / 2.0);
        }
    small_close(&s);
}

/* Rank 0 alone writes: its folder becomes a file while it does. */
static void take_away(void *ctx, enum pdl_ckpt_phase phase)
{
    struct ends *e = ctx;
    char aside[128];

    (void)phase;
    if (!e->spoil)
        return;
    snprintf(aside, sizeof aside, "%s.aside", e->spoil);
    (void)!rename(e->spoil, aside);
    fclose(fopen(e->spoil, "w"));
    e->spoil = NULL;
}

static void a_server_that_cannot_save_ends_all(void **state)
{
    struct small s;

    (void)state;
    small_open(&s, 96, false, "iid", CLIENTS);
    for (int ranks = 1; ranks <= MOST_RANKS; ranks *= 2) {
        char folder[] = "/tmp/test_ends_XXXXXX", line[128];
        struct ends e = {.job = s.job, .bad = -1, .spoil = folder};

        assert_non_null(mkdtemp(folder));
        e.job.checkpoint = folder;
        e.job.every = 2;
        e.job.at = take_away;
        assert_true(run_ends(&e, ranks, PDL_EIO, folder) < PATIENCE_S / 2.0);
        snprintf(line, sizeof line, "rm -r %s %s.aside", folder, folder);
        assert_int_equal(system(line), 0);
    }
    small_close(&s);
}

/* What one rank alone cannot begin. */
static enum pdl_status body_of_two(void *ctx, pdl_comm *comm,
                                   struct pdl_err *err)
{
    struct ends e = *(struct ends *)ctx;
    struct pdl_fed_summary sum;

    if (pdl_comm_rank(comm) == pdl_comm_size(comm) - 1)
        e.job.algorithm = "nosuch";
    return pdl_fed_run(&e.job, comm, &sum, err);
}

static void a_rank_that_cannot_begin_ends_all(void **state)
{
    struct pdl_err err = {"", ""};
    struct small s;

    (void)state;
    small_open(&s, 96, false, "iid", CLIENTS);
    for (int ranks = 2; ranks <= MOST_RANKS; ranks *= 2) {
        struct ends e = {.job = s.job};

        assert_int_equal(
            pdl_train_virtual(ranks, PATIENCE_S, body_of_two, &e, &err),
            PDL_EPARSE);
        assert_non_null(strstr(err.msg, "nosuch"));
    }
    small_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_cannot_train_ends_all),
        cmocka_unit_test(a_device_that_cannot_train_ends_all),
        cmocka_unit_test(a_server_that_cannot_save_ends_all),
        cmocka_unit_test(a_rank_that_cannot_begin_ends_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
