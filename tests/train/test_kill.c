/* Killed at any moment of writing a checkpoint, a run goes on from the last
 * good one and ends where the undisturbed run ends, bit for bit; the same
 * plan, and nothing lost beyond the interval. Every phase x several steps:
 * PDL_LONG=1 takes them all. */
#include "effort.h"
#include "paradl/train.h"
#include "train/train_priv.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <setjmp.h>
#include <cmocka.h>

enum { STEPS = 6, RANKS = 2 };

struct life {
    const char *dir;
    bool resume;
    int phase, count; /* kill at the count-th call of the phase; -1: never */
    double loss[STEPS + 1];
    int64_t resumed_at;
    int seen; /* calls of the phase so far */
    volatile int written;
    int missed;
    int *durable; /* checkpoints that were whole on disk; survives */
};

static const struct pdl_plan *make_plan(pdl_arena *a, const char *strategy)
{
    static const char yaml[] =
        "format: paradl-model/1\nname: tiny\nkind: cnn\n"
        "inputs:\n  - {name: input, shape: [1, 8, 8]}\n"
        "layers:\n"
        "  - {op: conv, name: conv1, features: 4, kernel: 3, stride: 2}\n"
        "  - {op: batch_norm, name: bn1}\n"
        "  - {op: relu, name: relu1}\n"
        "  - {op: flatten, name: flatten}\n"
        "  - {op: linear, name: fc, features: 10}\n";
    struct pdl_plan_options opt = {.batch = 8, .gather_classes = true};
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    const struct pdl_model *m;
    const struct pdl_plan *p = NULL;
    struct pdl_err err;

    if (pdl_model_yaml(a, (struct pdl_bytes){yaml, sizeof yaml - 1}, "tiny", &m,
                       &err) != PDL_OK ||
        pdl_strategy_parse(a, strategy, s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return p;
}

/* Training does not wait for a checkpoint that is still being written: here it
 * must, for every step to have one. */
static void tell(void *ctx, const struct pdl_train_line *l)
{
    struct life *x = ctx;
    int64_t first = x->resumed_at;

    if (l->note || l->epoch_ended || l->step > STEPS) {
        x->resumed_at = l->note ? l->step : first;
        return;
    }
    x->loss[l->step] = l->loss;
    for (int i = 0; i < 400 && x->written < l->step - 1 - first - x->missed;
         i++)
        usleep(500);
    x->missed = (int)(l->step - 1 - first) - x->written;
    usleep(2000); /* the writer says so a moment later */
}

/* Called by the writers of both ranks: whoever comes count-th is killed. */
static void at(void *ctx, enum pdl_ckpt_phase phase)
{
    struct life *x = ctx;

    if (phase == PDL_CKPT_DURABLE && x->durable)
        __atomic_add_fetch(x->durable, 1, __ATOMIC_SEQ_CST);
    if (phase == PDL_CKPT_PRUNED)
        x->written++;
    if ((int)phase == x->phase &&
        __atomic_add_fetch(&x->seen, 1, __ATOMIC_SEQ_CST) == x->count)
        raise(SIGKILL);
}

struct run {
    struct pdl_train_job job;
    struct pdl_train_summary sum;
};

static enum pdl_status body(void *ctx, pdl_comm *comm, struct pdl_err *err)
{
    struct run *r = ctx;
    struct pdl_train_summary sum;
    enum pdl_status st = pdl_train_run(&r->job, comm, &sum, err);

    if (pdl_comm_rank(comm) == 0)
        r->sum = sum;
    return st;
}

static int live(struct life *x, const char *strategy)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_io_options io = {.seed = 0};
    struct run r = {.job = {.plan = make_plan(a, strategy),
                            .opt = {.backend = "ref", .seed = 1},
                            .rates = {.lr = 0.1},
                            .steps = STEPS,
                            .checkpoint = x->dir,
                            .every = 1,
                            .resume = x->resume,
                            .run = (uint64_t)getpid(),
                            .model = "tiny",
                            .strategy = strategy,
                            .data = "digits",
                            .virtual_ranks = true,
                            .tell = tell,
                            .at = at,
                            .ctx = x}};
    struct pdl_err err = {"", ""};
    pdl_io *data = NULL;
    enum pdl_status st = pdl_io_open("digits", &io, &data, &err);

    r.job.io = data;
    if (st == PDL_OK)
        st = pdl_train_virtual((int)r.job.plan->mesh->pes, 60, body, &r, &err);
    if (st != PDL_OK)
        print_message("%s\n", err.msg);
    x->resumed_at = r.sum.resumed_at;
    pdl_io_close(data);
    pdl_arena_destroy(a);
    return st == PDL_OK ? 0 : 1;
}

/* In a process of its own, which may be killed; its losses come back. */
static int live_apart(struct life *x, const char *strategy)
{
    int fd[2], status = 0;
    pid_t pid;

    assert_int_equal(pipe(fd), 0);
    pid = fork();
    if (pid == 0) {
        int rc = live(x, strategy);

        if (write(fd[1], x, sizeof *x) != (ssize_t)sizeof *x)
            rc = 2;
        _exit(rc);
    }
    close(fd[1]);
    if (read(fd[0], x, sizeof *x) != (ssize_t)sizeof *x)
        status = 1; /* killed: there is nothing to read */
    close(fd[0]);
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void remove_dir(const char *dir)
{
    char command[256];

    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static void kill_once(const char *strategy, int phase, int count,
                      const struct life *whole, int *kills)
{
    char dir[] = "/tmp/paradl-kill-XXXXXX";
    struct life x = {.phase = phase, .count = count};
    int *durable = mmap(NULL, sizeof *durable, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int rc;

    assert_true(durable != MAP_FAILED);
    x.durable = durable;

    assert_non_null(mkdtemp(dir));
    x.dir = dir;
    rc = live_apart(&x, strategy);
    if (rc == 128 + SIGKILL) {
        struct life y = {.dir = dir, .resume = true, .phase = -1};

        (*kills)++;
        assert_int_equal(live_apart(&y, strategy), 0);
        for (int s = (int)y.resumed_at + 1; s <= STEPS; s++)
            if (memcmp(&y.loss[s], &whole->loss[s], sizeof y.loss[s]) != 0)
                fail_msg("%s, killed at %s %d: step %d has loss %.17g instead "
                         "of %.17g",
                         strategy,
                         pdl_ckpt_phase_name((enum pdl_ckpt_phase)phase), count,
                         s, y.loss[s], whole->loss[s]);
        /* one checkpoint a step: none that was whole is lost */
        if (y.resumed_at < *durable)
            fail_msg("killed at %s %d: resumed at step %lld, not %d",
                     pdl_ckpt_phase_name((enum pdl_ckpt_phase)phase), count,
                     (long long)y.resumed_at, *durable);
    } else {
        assert_int_equal(rc, 0); /* the phase did not come that often */
    }
    munmap(durable, sizeof *durable);
    remove_dir(dir);
}

static void a_killed_run_ends_like_an_undisturbed_one(void **state)
{
    static const char *const strategies[] = {"data=2,bn=sync", "filter=2"};
    int kills = 0, stride = effort(7, 3, 1);

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        char dir[] = "/tmp/paradl-kill-XXXXXX";
        struct life whole = {.phase = -1};

        assert_non_null(mkdtemp(dir));
        whole.dir = dir;
        assert_int_equal(live_apart(&whole, strategies[i]), 0);
        remove_dir(dir);
        for (int phase = 0; phase < PDL_NCKPT_PHASES; phase++)
            for (int count = 1; count <= RANKS * STEPS; count += stride)
                kill_once(strategies[i], phase, count, &whole, &kills);
    }
    print_message("%d kills\n", kills);
    assert_true(kills >= effort(20, 40, 50));
}

/* Another number of ranks, another strategy: the same samples, the same
 * numbers but for the order of sums. */
static void any_plan_goes_on_from_a_checkpoint(void **state)
{
    static const char *const others[] = {"serial", "data=4,bn=sync",
                                         "spatial=3", "filter=3",
                                         "pipe=2(1f1b,m=1)"};
    char dir[] = "/tmp/paradl-kill-XXXXXX", copy[64], command[256];
    struct life whole = {.phase = -1}, half = {.phase = PDL_CKPT_STAGED};

    (void)state;
    assert_non_null(mkdtemp(dir));
    whole.dir = dir;
    assert_int_equal(live_apart(&whole, "data=2,bn=sync"), 0);
    remove_dir(dir);
    half.dir = dir;
    half.count = 2 * RANKS + 2; /* while the third is being written */
    assert_int_equal(live_apart(&half, "data=2,bn=sync"), 128 + SIGKILL);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct life y = {.resume = true, .phase = -1};

        snprintf(copy, sizeof copy, "%s.copy", dir);
        snprintf(command, sizeof command, "cp -r '%s' '%s'", dir, copy);
        assert_int_equal(system(command), 0);
        y.dir = copy;
        assert_int_equal(live_apart(&y, others[i]), 0);
        assert_true(y.resumed_at >= 1);
        for (int s = (int)y.resumed_at + 1; s <= STEPS; s++)
            if (!(y.loss[s] - whole.loss[s] < 1e-4 &&
                  whole.loss[s] - y.loss[s] < 1e-4))
                fail_msg("%s: step %d has loss %.9g instead of %.9g", others[i],
                         s, y.loss[s], whole.loss[s]);
        remove_dir(copy);
    }
    remove_dir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_run_ends_like_an_undisturbed_one),
        cmocka_unit_test(any_plan_goes_on_from_a_checkpoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
