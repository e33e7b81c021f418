/* A folder of checkpoints: it is one run's, one process writes there, and no
 * symbolic link in it is followed. */
#include "ckpt_priv.h"
#include "fixtures.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

static char run_dir[128];

static int begin(void **state)
{
    (void)state;
    fx_begin();
    snprintf(run_dir, sizeof run_dir, "%s/run", fx_dir);
    return 0;
}

static int end(void **state)
{
    (void)state;
    fx_end();
    return 0;
}

/* One tensor that holds the step. */
static enum pdl_status save_as(uint64_t owner, int64_t step, int keep,
                               struct pdl_err *err)
{
    double v = (double)step;
    struct pdl_shard shard = {.name = "w", .dtype = PDL_F64, .data = &v};
    struct pdl_ckpt_state s = {.step = step, .model = "lenet5"};
    struct pdl_ckpt_writer w = {.dir = run_dir,
                                .nranks = 1,
                                .run = owner + 1,
                                .owner = owner,
                                .keep = keep,
                                .timeout_s = 1};
    enum pdl_status st = pdl_ckpt_part(&w, &s, &shard, 1, err);

    return st == PDL_OK ? pdl_ckpt_commit(&w, &s, err) : st;
}

static void save(uint64_t owner, int64_t step)
{
    struct pdl_err err = {"", ""};

    if (save_as(owner, step, 0, &err) != PDL_OK)
        fail_msg("%s", err.msg);
}

static bool has(const char *name)
{
    char path[256];
    struct stat sb;

    snprintf(path, sizeof path, "%s/%s", run_dir, name);
    return lstat(path, &sb) == 0;
}

/* The step of the newest good one, -1: none. */
static int64_t newest(struct pdl_buf *notes)
{
    pdl_ckpt *c = NULL;
    int64_t step = -1;

    (void)pdl_ckpt_latest(run_dir, INT64_MAX, true, &c,
                          notes ? &notes->sink : NULL, NULL);
    if (c)
        step = pdl_ckpt_state(c)->step;
    pdl_ckpt_close(c);
    return step;
}

/* ---- links ---- */

static void a_link_in_place_of_a_folder_is_not_followed(void **state)
{
    char path[256];

    (void)state;
    fx_folder("mine");
    fx_text("mine/thesis.tex", "years of work");
    fx_folder("run");
    for (int64_t step = 3; step <= 4; step++) {
        snprintf(path, sizeof path, "%s/step-%" PRId64 ".tmp", run_dir, step);
        assert_int_equal(symlink(fx("mine"), path), 0);
    }
    save(1, 3);  /* written there */
    save(1, 10); /* 4 is a dead run's, swept */
    assert_int_equal(newest(NULL), 10);
    assert_false(has("step-4.tmp"));
    assert_int_equal(access(fx("mine/thesis.tex"), F_OK), 0);
    assert_int_equal(access(fx("mine/manifest.json"), F_OK), -1);
}

static void a_link_to_a_checkpoint_is_passed_over(void **state)
{
    struct pdl_buf notes;

    (void)state;
    save(1, 5);
    assert_int_equal(rename(fx("run/step-5"), fx("step-5")), 0);
    assert_int_equal(symlink(fx("step-5"), fx("run/step-5")), 0);
    save(1, 4);
    pdl_buf_init(&notes);
    assert_int_equal(newest(&notes), 4);
    assert_non_null(strstr(notes.text, "symbolic link"));
    pdl_buf_free(&notes);
    /* pruned without it, and it stays */
    assert_int_equal(save_as(1, 6, 1, NULL), PDL_OK);
    assert_false(has("step-4"));
    assert_int_equal(access(fx("step-5/manifest.json"), F_OK), 0);
}

static void a_link_to_a_file_of_a_checkpoint_is_damage(void **state)
{
    static const char *const names[] = {"manifest.json",
                                        "data-00000-0000000000000002.bin"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        char path[256], away[256];

        fx_remove(run_dir);
        save(1, 1);
        save(1, 2);
        snprintf(path, sizeof path, "%s/step-2/%s", run_dir, names[i]);
        snprintf(away, sizeof away, "%s/%s", fx_dir, names[i]);
        assert_int_equal(newest(NULL), 2);
        assert_int_equal(rename(path, away), 0);
        assert_int_equal(symlink(away, path), 0);
        assert_int_equal(newest(NULL), 1);
    }
}

static void a_link_in_place_of_the_lock_is_refused(void **state)
{
    struct pdl_ckpt_claim c = {.dir = run_dir};
    struct pdl_err err = {"", ""};
    pdl_ckpt_lock *l = NULL;
    struct stat sb;

    (void)state;
    fx_folder("run");
    fx_text("other", "text");
    assert_int_equal(symlink(fx("other"), fx("run/lock")), 0);
    assert_int_equal(pdl_ckpt_claim(&c, &l, NULL, &err), PDL_EIO);
    assert_non_null(strstr(err.msg, "symbolic link"));
    assert_int_equal(stat(fx("other"), &sb), 0);
    assert_int_equal(sb.st_size, 4);
}

/* ---- one run ---- */

static enum pdl_status claim(struct pdl_ckpt_claim c, uint64_t *owner,
                             struct pdl_buf *notes, struct pdl_err *err)
{
    pdl_ckpt_lock *l = NULL;
    enum pdl_status st;

    c.dir = run_dir;
    c.model = "lenet5";
    st = pdl_ckpt_claim(&c, &l, notes ? &notes->sink : NULL, err);
    if (st == PDL_OK && owner)
        *owner = pdl_ckpt_lock_owner(l);
    pdl_ckpt_release(l);
    return st;
}

static void only_ones_own_are_pruned(void **state)
{
    (void)state;
    for (int64_t s = 1; s <= 4; s++)
        save(s == 2 ? 9 : 1, s);
    assert_int_equal(save_as(1, 5, 2, NULL), PDL_OK);
    assert_true(has("step-2") && has("step-4") && has("step-5"));
    assert_false(has("step-1") || has("step-3"));
}

static void a_folder_with_checkpoints_is_refused(void **state)
{
    struct pdl_err err = {"", ""};

    (void)state;
    assert_int_equal(claim((struct pdl_ckpt_claim){0}, NULL, NULL, &err),
                     PDL_OK); /* empty */
    save(7, 60);
    assert_int_equal(claim((struct pdl_ckpt_claim){0}, NULL, NULL, &err),
                     PDL_EINVAL);
    assert_non_null(strstr(err.msg, "another run (lenet5, up to step 60)"));
    assert_non_null(strstr(err.hint, "--resume"));
}

static void resuming_is_going_on_as_the_run_that_is_there(void **state)
{
    struct pdl_ckpt_claim c = {.resume = true};
    struct pdl_err err = {"", ""};
    uint64_t owner = 0;

    (void)state;
    save(7, 1);
    assert_int_equal(claim(c, &owner, NULL, &err), PDL_OK);
    assert_true(owner == 7);
    save(0, 2); /* of a version that named no owner */
    assert_int_equal(claim(c, &owner, NULL, &err), PDL_OK);
    assert_true(owner == 7);
    save(8, 3);
    assert_int_equal(claim(c, &owner, NULL, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "of 2 runs"));
}

static void beside_is_the_next_free_name(void **state)
{
    struct pdl_ckpt_claim c = {.beside = true};
    struct pdl_buf notes;

    (void)state;
    save(7, 1);
    pdl_buf_init(&notes);
    assert_int_equal(claim(c, NULL, &notes, NULL), PDL_OK);
    assert_non_null(strstr(notes.text, "run-2"));
    assert_int_equal(access(fx("run-2/lock"), F_OK), 0);
    pdl_buf_free(&notes);
}

static void a_restart_goes_on_with_its_own_run_only(void **state)
{
    struct pdl_ckpt_claim c = {.job = 5};
    struct pdl_err err = {"", ""};
    uint64_t owner = 0, again = 0;

    (void)state;
    assert_int_equal(claim(c, &owner, NULL, &err), PDL_OK);
    save(owner, 3);
    c.again = c.resume = true;
    assert_int_equal(claim(c, &again, NULL, &err), PDL_OK);
    assert_true(again == owner);
    save(owner + 1, 9); /* somebody else's, and newer */
    assert_int_equal(claim(c, &again, NULL, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "meanwhile"));
    fx_remove(fx("run/step-9"));
    c.job = 6; /* a job that died before it had the folder: as at first */
    assert_int_equal(claim(c, &again, NULL, &err), PDL_OK);
    assert_true(again == owner);
    c.job = 7;
    c.resume = false;
    assert_int_equal(claim(c, &again, NULL, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "another run"));
}

/* A child takes the lock and waits to be killed. */
static pid_t holder(void)
{
    int fd[2];
    char c = 0;
    pid_t pid;

    assert_int_equal(pipe(fd), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct pdl_ckpt_claim mine = {.dir = run_dir};
        pdl_ckpt_lock *l = NULL;

        if (pdl_ckpt_claim(&mine, &l, NULL, NULL) != PDL_OK ||
            write(fd[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(fd[1]);
    assert_int_equal(read(fd[0], &c, 1), 1);
    close(fd[0]);
    return pid;
}

static void the_second_run_is_refused_and_told_who_is_there(void **state)
{
    struct pdl_err err = {"", ""};
    pid_t pid = holder();
    char want[64];

    (void)state;
    assert_int_equal(claim((struct pdl_ckpt_claim){0}, NULL, NULL, &err),
                     PDL_EINVAL);
    snprintf(want, sizeof want, "in use by process %d on ", (int)pid);
    if (!strstr(err.msg, want) || !strstr(err.msg, " since 20"))
        fail_msg("%s", err.msg);
    kill(pid, SIGKILL); /* death gives it back */
    assert_int_equal(
        claim((struct pdl_ckpt_claim){.patience_s = 5}, NULL, NULL, &err),
        PDL_OK);
    assert_true(waitpid(pid, NULL, 0) == pid);
}

static void a_lock_with_nonsense_in_it_is_still_a_lock(void **state)
{
    struct pdl_err err = {"", ""};
    pid_t pid;

    (void)state;
    fx_folder("run");
    pid = holder();
    fx_text("run/lock", "{\"owner\": \"\x1b[2Jzz");
    assert_int_equal(claim((struct pdl_ckpt_claim){0}, NULL, NULL, &err),
                     PDL_EINVAL);
    assert_non_null(strstr(err.msg, "in use by another run"));
    kill(pid, SIGKILL);
    assert_true(waitpid(pid, NULL, 0) == pid);
    assert_int_equal(claim((struct pdl_ckpt_claim){0}, NULL, NULL, &err),
                     PDL_OK);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        T(a_link_in_place_of_a_folder_is_not_followed),
        T(a_link_to_a_checkpoint_is_passed_over),
        T(a_link_to_a_file_of_a_checkpoint_is_damage),
        T(a_link_in_place_of_the_lock_is_refused),
        T(only_ones_own_are_pruned),
        T(a_folder_with_checkpoints_is_refused),
        T(resuming_is_going_on_as_the_run_that_is_there),
        T(beside_is_the_next_free_name),
        T(a_restart_goes_on_with_its_own_run_only),
        T(the_second_run_is_refused_and_told_who_is_there),
        T(a_lock_with_nonsense_in_it_is_still_a_lock),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
