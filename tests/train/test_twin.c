/* The executor on a device that is not the host: the twin does its work in
 * another legal order for every seed, and its memory is closed to host code.
 * Losses, weights and the optimizer's state must be those of the host in bits.
 * And the twin must find what is broken on purpose: a missing event, memory
 * freed while it is being sent, host code that looks at a tensor. */
#include "effort.h"
#include "train_runs.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* ---- the same bits as on the host --------------------------------------------- */

struct example {
    const char *model, *strategy;
    int64_t batch;
    enum pdl_dtype dtype;
    const char *optimizer;
    double clip;
};

#define GPT    "gpt:layers=2,hidden=12,heads=3,ffn=20,vocab=17,seq=8"
#define RESNET "resnet-cifar:depth=8,input=8"
#define MOE \
    "moe:layers=2,hidden=8,heads=2,ffn=6,vocab=11,seq=5,experts=4,topk=2"

// clang-format off
static const struct example examples[] = {
    {"lenet5", "serial",                       4, PDL_F32, "sgd",   0  },
    {"lenet5", "accumulate=2",                 4, PDL_F32, "adamw", 0.1},
    {"lenet5", "data=2",                       4, PDL_F32, "sgd",   0  },
    {"lenet5", "data=2,zero=3",                4, PDL_F32, "adam",  0  },
    {"lenet5", "data=2,compress=topk:0.1",     4, PDL_F32, "sgd",   0  },
    {"lenet5", "data=2,compress=powersgd:2",   4, PDL_F32, "sgd",   0  },
    {"lenet5", "spatial=2",                    2, PDL_F32, "lars",  0  },
    {"lenet5", "filter=2",                     2, PDL_F32, "sgd",   0  },
    {"lenet5", "channel=2",                    2, PDL_F32, "lamb",  0  },
    {GPT,      "pipe=2(1f1b,m=4)",             8, PDL_F64, "sgd",   0  },
    {GPT,      "pipe=2(gpipe,m=2),data=2",     8, PDL_F64, "adamw", 0  },
    {GPT,      "pipe=2(interleaved,v=2,m=2)",  4, PDL_F64, "sgd",   0  },
    {GPT,      "pipe=2(zb-v,m=4)",             8, PDL_F64, "sgd",   0  },
    {GPT,      "tensor=2+seq",                 4, PDL_BF16, "adamw", 0 },
    {GPT,      "context=2",                    4, PDL_F32, "sgd",   0  },
    {GPT,      "context=2(plain)",   4, PDL_BF16, "sgd",  0  },
    {GPT,      "context=2(gather)",            4, PDL_F32, "sgd",   0  },
    {GPT,      "data=2,recompute=full",        4, PDL_F32, "sgd",   0.1},
    {RESNET,   "serial",                       2, PDL_F32, "sgd",   0  },
    {RESNET,   "data=2,recompute=full",        4, PDL_BF16, "sgd",  0  },
    {RESNET,   "accumulate=2",                 4, PDL_F32, "adamw", 0  },
    {RESNET,   "bn-groups=4",                  8, PDL_F32, "sgd",   0  },
    {MOE,      "expert=2",                     4, PDL_F64, "sgd",   0  },
    {MOE,      "data=2,expert=2",              4, PDL_F64, "sgd",   0  },
};
// clang-format on

static struct job job_of(pdl_arena *a, const struct example *e)
{
    return (struct job){
        .plan = lowered(a, e->model, e->strategy, e->batch, e->dtype),
        .opt = {.backend = "ref",
                .optimizer = e->optimizer,
                .clip = e->clip,
                .seed = 5,
                .poison = true},
        .fault_op = -1};
}

static void ignore(void *ctx, const struct pdl_train_seen *seen)
{
    (void)ctx, (void)seen;
}

/* ---- what is kept and done again -------------------------------------------------- */

static const struct pdl_plan *with_dropout(pdl_arena *a, int64_t batch,
                                           const char *strategy)
{
    static const char yaml[] =
        "format: paradl-model/1\nname: tiny\nkind: cnn\n"
        "inputs:\n  - {name: input, shape: [2, 6, 6]}\n"
        "layers:\n"
        "  - {op: conv, name: c, features: 3, kernel: 3, pad: 1}\n"
        "  - {op: relu, name: r}\n"
        "  - {op: dropout, name: d}\n"
        "  - {op: flatten, name: f}\n"
        "  - {op: linear, name: l, features: 20}\n"
        "  - {op: dropout, name: e}\n"
        "  - {op: linear, name: k, features: 5}\n";
    struct pdl_plan_options opt = {.batch = batch, .gather_classes = true};
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    const struct pdl_model *m;
    const struct pdl_plan *p = NULL;
    struct pdl_err err;

    if (pdl_model_yaml(a, (struct pdl_bytes){yaml, strlen(yaml)}, "tiny", &m,
                       &err) != PDL_OK ||
        pdl_strategy_parse(a, strategy, s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return p;
}

/* Stretches are held in the second step and done again in the third: with what
 * dropout drew for another step, or the samples of one, bits would differ. */
static void what_is_done_again_is_of_its_step(void **state)
{
    static const char *const strategies[] = {"serial", "accumulate=2",
                                             "data=2"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct job host = {.plan = with_dropout(a, 4, strategies[i]),
                           .opt = {.backend = "ref", .seed = 5},
                           .fault_op = -1};
        struct job twin = host;
        struct pdl_err err;

        twin.opt.device = "twin:3";
        assert_int_equal(run(&host, &err), PDL_OK);
        assert_int_equal(run(&twin, &err), PDL_OK);
        if (!same(&host, &twin))
            fail_msg("%s: not the bits of the host", strategies[i]);
        forget(&host);
        forget(&twin);
        pdl_arena_destroy(a);
    }
}

static void a_step_is_kept_but_for_what_the_host_reads(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct job j = {.plan = with_dropout(a, 4, "serial"),
                    .opt = {.backend = "ref", .device = "twin"},
                    .fault_op = -1};
    pdl_comm *comm = NULL;
    pdl_trainer *t = NULL;
    struct pdl_err err;

    (void)state;
    assert_int_equal(pdl_comm_create_memory(1, NULL, &comm, &err), PDL_OK);
    assert_int_equal(train_steps(&j, comm, &t, &err), PDL_OK);
    assert_int_equal(t->nstretches, 2); /* before and behind the loss */
    for (int i = 0; i < t->nsteps; i++)
        if (train_stretch_at(t, i))
            assert_true(train_stretch_is_held(train_stretch_at(t, i)));
    pdl_trainer_close(t);
    j.opt.watch = ignore; /* who looks at all of it */
    assert_int_equal(train_steps(&j, comm, &t, &err), PDL_OK);
    assert_int_equal(t->nstretches, 0);
    pdl_trainer_close(t);
    pdl_comm_destroy(comm);
    pdl_arena_destroy(a);
}

/* Operations that others do for them. */
static int joined(const struct pdl_plan *plan, const char *device,
                  void (*watch)(void *ctx, const struct pdl_train_seen *seen))
{
    struct pdl_train_options opt = {
        .backend = "ref", .device = device, .watch = watch};
    pdl_comm *comm = NULL;
    pdl_trainer *t = NULL;
    struct pdl_err err;
    int n = 0;

    assert_int_equal(pdl_comm_create_memory(1, NULL, &comm, &err), PDL_OK);
    assert_int_equal(
        train_open(plan, comm, &opt, TRAIN_FAULT_NONE, -1, &t, &err), PDL_OK);
    for (int i = 0; i < plan->nops; i++)
        n += t->ops[i].joined;
    pdl_trainer_close(t);
    pdl_comm_destroy(comm);
    return n;
}

static void what_follows_each_other_is_one_kernel(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *net = lowered(a, RESNET, "serial", 2, PDL_F32);
    const struct pdl_plan *gpt = lowered(a, GPT, "serial", 2, PDL_F32);

    (void)state;
    assert_true(joined(net, "twin", NULL) > 20);
    assert_true(joined(gpt, "twin", NULL) > 10);
    assert_int_equal(joined(net, "twin", ignore), 0); /* each is looked at */
    assert_int_equal(joined(net, NULL, NULL), 0);
    pdl_arena_destroy(a);
}

/* Of a language model these are the largest. */
static void the_gradient_of_the_logits_lies_where_they_did(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_train_options opt = {.backend = "ref", .device = "twin"};
    const struct pdl_plan *plan = lowered(a, GPT, "serial", 2, PDL_F32);
    pdl_comm *comm = NULL;
    pdl_trainer *t = NULL;
    struct pdl_err err;
    int losses = 0;

    (void)state;
    assert_int_equal(pdl_comm_create_memory(1, NULL, &comm, &err), PDL_OK);
    assert_int_equal(
        train_open(plan, comm, &opt, TRAIN_FAULT_NONE, -1, &t, &err), PDL_OK);
    for (int i = 0; i < plan->nops; i++) {
        if (!train_ends_loss(&plan->ops[i]))
            continue;
        losses++;
        assert_ptr_equal(train_data(t, plan->ops[i].in[0], 0),
                         train_data(t, plan->ops[i].out[0], 0));
    }
    assert_int_equal(losses, 1);
    pdl_trainer_close(t);
    pdl_comm_destroy(comm);
    pdl_arena_destroy(a);
}

static void has_the_bits(const struct example *e, const struct job *host,
                         int seed, bool ahead)
{
    struct job twin = *host;
    struct pdl_err err;
    char device[32];

    snprintf(device, sizeof device, "twin:%d", seed);
    twin.opt.device = device;
    twin.ahead = ahead;
    if (run(&twin, &err) != PDL_OK)
        fail_msg("%s, %s: %s", e->strategy, device, err.msg);
    if (!same(host, &twin))
        fail_msg("%s, %s, %s: not the bits of the host", e->model, e->strategy,
                 device);
    forget(&twin);
}

static void the_twin_has_the_bits_of_the_host(void **state)
{
    int seeds = effort(1, 2, 20);

    (void)state;
    for (int i = 0; i < (int)(sizeof examples / sizeof *examples); i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct job host = job_of(a, &examples[i]);
        struct pdl_err err;

        if (run(&host, &err) != PDL_OK)
            fail_msg("%s: %s", examples[i].strategy, err.msg);
        for (int s = 0; s < seeds; s++)
            has_the_bits(&examples[i], &host, 100 * s + i, (s + i) % 2 == 0);
        forget(&host);
        pdl_arena_destroy(a);
    }
}

/* A reader goes on to its next samples when these are on the device: many
 * orders of one short plan. */
static void samples_lie_still_until_they_are_copied(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct job host = job_of(a, &examples[0]);
    struct pdl_err err;

    (void)state;
    assert_int_equal(run(&host, &err), PDL_OK);
    for (int s = 0; s < 24; s++)
        has_the_bits(&examples[0], &host, s, true);
    forget(&host);
    pdl_arena_destroy(a);
}

/* ---- time ----------------------------------------------------------------------- */

struct seen {
    int n;
    double last_s;
};

static void note(void *ctx, int op, int64_t micro, double start_s, double end_s)
{
    struct seen *s = ctx;

    (void)op, (void)micro;
    assert_true(start_s >= s->last_s && end_s >= start_s);
    s->last_s = start_s;
    s->n++;
}

/* By its own clock, in the steps for which somebody asks. */
static void a_device_times_its_operations(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lowered(a, GPT, "serial", 2, PDL_F32);
    struct seen seen = {0, 0};
    struct pdl_train_options opt = {
        .device = "twin:3", .timed = note, .timed_ctx = &seen};
    struct pdl_train_noise noise = {.plan = p, .seed = 3};
    struct pdl_train_feed feed = {.fill = pdl_train_noise, .ctx = &noise};
    struct pdl_train_result r;
    pdl_comm *comm = NULL;
    pdl_trainer *t = NULL;
    struct pdl_err err;

    (void)state;
    assert_int_equal(pdl_comm_create_memory(1, NULL, &comm, &err), PDL_OK);
    assert_int_equal(pdl_trainer_open(p, comm, &opt, &t, &err), PDL_OK);
    for (int k = 0; k < 4; k++) {
        pdl_trainer_time(t, k % 2 == 1);
        seen.n = 0;
        assert_int_equal(pdl_trainer_step(t, k, 0.05, &feed, &r, &err), PDL_OK);
        if (k % 2 == 0)
            assert_int_equal(seen.n, 0);
        else
            assert_true(seen.n > 20);
    }
    pdl_trainer_close(t);
    pdl_comm_destroy(comm);
    pdl_arena_destroy(a);
}

/* ---- the tester is tested ------------------------------------------------------- */

/* Some of the orders show the fault: as a wrong number, or as a loss that is
 * none. */
static void finds(const struct example *e, enum train_fault fault, bool ahead)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct job host = job_of(a, e), twin = host;
    struct pdl_err err;
    int found = 0;

    if (run(&host, &err) != PDL_OK)
        fail_msg("%s: %s", e->strategy, err.msg);
    twin.fault = fault;
    twin.ahead = ahead;
    for (int s = 0; s < 5; s++) {
        char device[32];

        snprintf(device, sizeof device, "twin:%d", s);
        twin.opt.device = device;
        found += run(&twin, &err) != PDL_OK || !same(&host, &twin);
        forget(&twin);
    }
    forget(&host);
    pdl_arena_destroy(a);
    assert_true(found > 0);
}

static void a_missing_event_is_found(void **state)
{
    (void)state;
    finds(&examples[2], TRAIN_FAULT_NO_EVENT, false);
    finds(&examples[9], TRAIN_FAULT_NO_EVENT, false);
    finds(&examples[0], TRAIN_FAULT_NO_EVENT, true);
}

static void memory_freed_too_early_is_found(void **state)
{
    (void)state;
    finds(&examples[9], TRAIN_FAULT_EARLY_FREE, false);
}

static int first_compute(const struct pdl_plan *p)
{
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == PDL_PLAN_OP_COMPUTE)
            return i;
    return -1;
}

static void host_code_that_looks_at_a_tensor_dies(void **state)
{
    pid_t child;
    int status = 0;

    (void)state;
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct job j = job_of(a, &examples[0]);
        struct rlimit none = {0, 0};
        struct pdl_err err;

        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL);
        j.opt.device = "twin:1";
        j.fault = TRAIN_FAULT_HOST_READS;
        j.fault_op = first_compute(j.plan);
        (void)!run(&j, &err);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
#if defined(__SANITIZE_ADDRESS__)
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#else
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
#endif
}

static void an_unknown_device_is_told_in_one_line(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct job j = job_of(a, &examples[0]);
    struct pdl_err err;

    (void)state;
    j.opt.device = "tvin";
    assert_int_equal(run(&j, &err), PDL_EINVAL);
    assert_string_equal(err.msg, "no device 'tvin' in this build");
    assert_string_equal(err.hint, "did you mean 'twin'?");
    j.opt.device = "twin:x";
    assert_int_equal(run(&j, &err), PDL_EINVAL);
    assert_string_equal(err.msg, "twin:x: the seed is a number");
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_follows_each_other_is_one_kernel),
        cmocka_unit_test(the_gradient_of_the_logits_lies_where_they_did),
        cmocka_unit_test(what_is_done_again_is_of_its_step),
        cmocka_unit_test(a_step_is_kept_but_for_what_the_host_reads),
        cmocka_unit_test(the_twin_has_the_bits_of_the_host),
        cmocka_unit_test(samples_lie_still_until_they_are_copied),
        cmocka_unit_test(a_device_times_its_operations),
        cmocka_unit_test(a_missing_event_is_found),
        cmocka_unit_test(memory_freed_too_early_is_found),
        cmocka_unit_test(host_code_that_looks_at_a_tensor_dies),
        cmocka_unit_test(an_unknown_device_is_told_in_one_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
