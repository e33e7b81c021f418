/* Designs share what searches found: a faster machine is never slower, what is
 * shared is as good as it says, and neither threads nor a file of plans change
 * the answer. */
#include "paradl/design.h"

#include "effort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- a faster machine is never slower ----------------------------------- */

/* One of the rates that sharing compares, times f. */
static void faster(struct pdl_system *s, int which, double f)
{
    struct pdl_tier *t = (struct pdl_tier *)s->network.tiers;

    switch (which) {
    case 0:
        for (int p = 0; p < PDL_NPRECISIONS; p++) {
            s->pe.matmul_flop_per_s[p] *= f;
            s->pe.peak_flop_per_s[p] *= f;
        }
        break;
    case 1:
        s->pe.memory_bytes_per_s *= f;
        break;
    case 2:
        s->pe.memory_bytes = (int64_t)((double)s->pe.memory_bytes * f);
        break;
    case 3:
        s->node.links.bytes_per_s *= f;
        s->node.links.measured_bytes_per_s *= f;
        s->node.links.reduce_bytes_per_s *= f;
        break;
    case 4:
        s->node.nics.bytes_per_s *= f;
        s->node.nics.measured_bytes_per_s *= f;
        break;
    case 5:
        s->node.host.pcie_bytes_per_s *= f;
        break;
    case 6:
        for (int64_t i = 0; i < s->network.ntiers; i++)
            t[i].latency_s /= f;
        break;
    default:
        for (int64_t i = 0; i < s->network.ntiers; i++)
            t[i].oversubscription = fmax(1, t[i].oversubscription / f);
        break;
    }
}

static double step(pdl_job *j, const struct pdl_system *s, const char *strategy)
{
    struct pdl_projection x;

    pdl_job_use_system(j, s);
    assert_int_equal(pdl_job_set(j, "strategy", strategy, NULL), PDL_OK);
    assert_int_equal(pdl_job_project(j, &x, NULL), PDL_OK);
    return x.step_s;
}

static void no_plan_is_slower_on_a_machine_that_is_nowhere_slower(void **state)
{
    static const char *const plans[] = {
        "data=32",
        "data=16,tensor=2+seq",
        "data=4,tensor=8+seq,zero=1",
        "pipe=4(m=8),data=8",
        "pipe=2(interleaved,m=4,v=2),data=8,tensor=2",
        "data=32,zero=3",
        "data=16,context=2"};
    static const char *const systems[] = {"dgx-h100", "dgx-a100", "abci-v100",
                                          "frontier"};
    struct pdl_rng r = {.key = 3};
    int n = effort(2, 4, 100);

    (void)state;
    for (int i = 0; i < n; i++) {
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        pdl_job *j = pdl_job_create();
        struct pdl_system s;
        struct pdl_tier tier[4];

        assert_int_equal(
            pdl_system_open(a, systems[pdl_rng_below(&r, 4)], &s, NULL),
            PDL_OK);
        assert_true(s.network.ntiers <= 4);
        memcpy(tier, s.network.tiers,
               (size_t)s.network.ntiers * sizeof tier[0]);
        s.network.tiers = tier;
        s.ncollectives = 0;
        pdl_job_use_system(j, &s);
        pdl_job_set(j, "model", "gpt2", NULL);
        pdl_job_set(j, "batch", "64", NULL);
        pdl_job_set(j, "precision", "fp16", NULL);
        faster(&s, 7, 0.5); /* some taper to lose */
        for (size_t p = 0; p < sizeof plans / sizeof plans[0]; p++) {
            struct pdl_system now = s, more;
            double slow, fast;
            int which = (int)pdl_rng_below(&r, 8);

            assert_int_equal(pdl_system_update(a, &now, NULL), PDL_OK);
            slow = step(j, &now, plans[p]);
            more = s;
            faster(&more, which, 1 + pdl_rng_unit(&r));
            assert_int_equal(pdl_system_update(a, &more, NULL), PDL_OK);
            fast = step(j, &more, plans[p]);
            if (fast > slow * (1 + 1e-9))
                fail_msg("%s on %s: rate %d up, step %g to %g", plans[p],
                         s.name, which, slow, fast);
        }
        pdl_job_destroy(j);
        pdl_arena_destroy(a);
    }
}

/* ---- shared answers ----------------------------------------------------- */

#define SWEEP(model, systems)                                    \
    "workloads:\n"                                               \
    "  - {model: " model ", batch: 128, tokens: 10G}\n"          \
    "  - {model: lenet5, batch: 1024, samples: 1M}\n"            \
    "designs:\n"                                                 \
    "  - system: [" systems "]\n"                                \
    "    pes: 32\n"                                              \
    "    set: {nic: [8x50GB/s, 4x25GB/s, 1x25GB/s, 1x10GB/s]}\n" \
    "    network: [fat-tree, rail-only, 'torus:dims=2']\n"

static const char sweep[] = SWEEP("gpt3-125m", "dgx-h100");
static const char large[] =
    SWEEP("gpt3-2.7b", "dgx-h100, 'dgx-h100:mem=20GiB'");

static const char tiny[] =
    "workloads: [{model: lenet5, batch: 1024, samples: 1M}]\n"
    "designs:\n"
    "  - system: dgx-h100\n"
    "    pes: 32\n"
    "    set: {nic: [8x50GB/s, 4x25GB/s, 1x25GB/s, 1x10GB/s]}\n"
    "    network: [fat-tree, 'torus:dims=2']\n";

static struct pdl_designs answer(pdl_arena *a, const char *text,
                                 const struct pdl_design_options *opt)
{
    struct pdl_question *q = PDL_NEW(a, struct pdl_question, 1);
    struct pdl_designs d = {0};
    struct pdl_err err = {"", ""};

    if (pdl_question_read(a, (struct pdl_bytes){text, strlen(text)}, "q.yaml",
                          q, &err) != PDL_OK ||
        pdl_design(a, q, opt, &d, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return d;
}

static void what_is_shared_is_as_good_as_it_says(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_design_options shared = {.threads = 1, .draws = 1};
    struct pdl_design_options all = {
        .exhaustive = true, .threads = 1, .draws = 1};
    const char *text = effort(0, 0, 1) ? large : sweep;
    struct pdl_designs x = answer(a, text, &shared);
    struct pdl_designs y = answer(a, text, &all);

    (void)state;
    assert_int_equal(y.stats.bounded + y.stats.between, 0);
    assert_true(x.stats.searched < y.stats.searched);
    for (int i = 0; i < x.n; i++)
        for (int k = 0; k < 2; k++) {
            double got = x.point[i].run[k].x.step_s;
            double best = y.point[i].run[k].x.step_s;

            if (got > best * (1 + x.point[i].run[k].gap + 0.002))
                fail_msg("%s: %g is not within %g of %g",
                         x.point[i].text->label, got, x.point[i].run[k].gap,
                         best);
            if (got > best * 1.02)
                fail_msg("%s: %g, searched %g", x.point[i].text->label, got,
                         best);
        }
    pdl_arena_destroy(a);
}

static void threads_do_not_change_the_answer(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_design_options one = {.threads = 1, .draws = 50};
    struct pdl_design_options three = {.threads = 3, .draws = 50};
    struct pdl_designs x = answer(a, tiny, &one);
    struct pdl_designs y = answer(a, tiny, &three);

    (void)state;
    for (int i = 0; i < x.n; i++) {
        assert_int_equal(x.order[i], y.order[i]);
        assert_true(x.point[i].wins == y.point[i].wins);
        for (int k = 0; k < x.question->nworkloads; k++) {
            assert_string_equal(x.point[i].run[k].strategy,
                                y.point[i].run[k].strategy);
            assert_int_equal(x.point[i].run[k].how, y.point[i].run[k].how);
        }
    }
    pdl_arena_destroy(a);
}

/* What a tenth more memory is said to be worth is what a search with it finds,
 * in the order of axes that sites want, too. */
static void more_memory_is_worth_what_a_search_finds(void **state)
{
    static const char text[] =
        "site_link: 20GB/s\nsite_latency: 10ms\ngoal: time\n"
        "workloads: [{model: gpt3-2.7b, batch: 128, tokens: 10G}]\n"
        "designs: [{system: dgx-h100, pes: 32, network: fat-tree, sites: 2, "
        "set: {mem: [16000MiB, 17600MiB]}}]\n";
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_design_options opt = {
        .exhaustive = true, .threads = 1, .draws = 1};
    struct pdl_designs d = answer(a, text, &opt), less;
    char *one = pdl_arena_strdup(a, text);
    const char *worth = "memory +10 %, planned again";
    double found = -1;

    (void)state;
    assert_non_null(one);
    memcpy(strstr(one, ", 17600MiB]"), "]          ", 11);
    less = answer(a, one, &opt);
    for (int i = 0; i < less.nchanges; i++)
        if (strcmp(less.change[i].what, worth) == 0)
            found = less.change[i].value;
    assert_true(d.point[1].time_s < 0.99 * d.point[0].time_s);
    assert_true(fabs(found - d.point[1].time_s / d.point[0].time_s) < 1e-6);
    pdl_arena_destroy(a);
}

struct limit {
    int64_t most;
};

static bool stop_early(void *ctx, int64_t done, int64_t total)
{
    const struct limit *l = ctx;

    (void)total;
    return done < l->most;
}

/* Searches, bounds and what lies between: all as if it had not been stopped.
 * The sanitizers see these above, and here how a memo is read. */
static void what_goes_on_ends_as_if_it_had_not_stopped(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    char path[64];
    struct limit some = {1};
    struct pdl_design_options opt = {.threads = 1, .draws = 10};
    const char *text = effort(0, 1, 1) ? large : tiny;
    struct pdl_designs x = answer(a, text, &opt), y;

    (void)state;
    snprintf(path, sizeof path, "/tmp/paradl-design-memo-%ld", (long)getpid());
    unlink(path);
    opt.memo = path;
    opt.progress = stop_early;
    opt.ctx = &some;
    y = answer(a, text, &opt);
    assert_true(y.stopped);
    for (int again = 0; again < 2; again++) {
        opt.progress = NULL;
        y = answer(a, text, &opt);
        assert_int_equal(y.stats.searched + y.stats.remembered,
                         x.stats.searched);
        assert_int_equal(y.stats.bounded, x.stats.bounded);
        assert_int_equal(y.stats.between, x.stats.between);
        for (int i = 0; i < x.n; i++) {
            assert_int_equal(x.order[i], y.order[i]);
            for (int k = 0; k < x.question->nworkloads; k++) {
                assert_string_equal(x.point[i].run[k].strategy,
                                    y.point[i].run[k].strategy);
                assert_true(x.point[i].run[k].gap == y.point[i].run[k].gap);
            }
        }
    }
    assert_int_equal(y.stats.searched, 0);
    unlink(path);
    pdl_arena_destroy(a);
}

static void a_sweep_that_was_stopped_goes_on(void **state)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    char path[64];
    struct limit few = {3};
    struct pdl_design_options opt = {.threads = 1,
                                     .draws = 10,
                                     .memo = path,
                                     .progress = stop_early,
                                     .ctx = &few};
    struct pdl_designs x, y;

    (void)state;
    snprintf(path, sizeof path, "/tmp/paradl-design-memo-%ld", (long)getpid());
    unlink(path);
    x = answer(a, tiny, &opt);
    assert_true(x.stopped);
    assert_true(x.nfit < x.n);
    opt.progress = NULL;
    y = answer(a, tiny, &opt);
    assert_false(y.stopped);
    assert_int_equal(y.nfit, y.n);
    assert_true(y.stats.remembered > 0);
    y = answer(a, tiny, &opt);
    assert_int_equal(y.stats.searched, 0);
    unlink(path);
    pdl_arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_plan_is_slower_on_a_machine_that_is_nowhere_slower),
        cmocka_unit_test(what_is_shared_is_as_good_as_it_says),
        cmocka_unit_test(threads_do_not_change_the_answer),
        cmocka_unit_test(more_memory_is_worth_what_a_search_finds),
        cmocka_unit_test(a_sweep_that_was_stopped_goes_on),
        cmocka_unit_test(what_goes_on_ends_as_if_it_had_not_stopped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
