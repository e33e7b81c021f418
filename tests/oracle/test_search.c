/* The search: the same answer on any number of threads, the best is the best
 * by brute force, and a search that is stopped answers with what it has. */
#include "effort.h"
#include "oracle/search/space.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static pdl_arena *arena;

struct question {
    const char *model, *system;
    int64_t pes, batch;
    enum pdl_goal goal;
};

static const struct question questions[] = {
    {"resnet18", "abci-v100", 16, 128, PDL_GOAL_TIME},
    {"vgg16", "abci-v100", 8, 64, PDL_GOAL_MEMORY},
    {"gpt2", "dgx-a100", 16, 64, PDL_GOAL_TIME},
    {"llama3-8b", "dgx-h100", 16, 32, PDL_GOAL_ENERGY},
};
enum { NQUESTIONS = sizeof questions / sizeof questions[0] };

struct asked {
    const struct pdl_model *model;
    struct pdl_system sys;
    struct pdl_oracle_options oracle;
    struct pdl_search_options opt;
    struct pdl_search_result r;
};

static void ask(const struct question *q, int threads, struct asked *x)
{
    x->oracle = (struct pdl_oracle_options){.precision = PDL_PREC_FP32,
                                            .optimizer_slots = 1};
    x->opt.pes = q->pes;
    x->opt.batch = q->batch;
    x->opt.goal = q->goal;
    x->opt.threads = threads;
    assert_int_equal(pdl_model_load(arena, q->model, NULL, &x->model, NULL),
                     PDL_OK);
    assert_int_equal(pdl_system_open(arena, q->system, &x->sys, NULL), PDL_OK);
    assert_int_equal(pdl_system_for_pes(arena, &x->sys, q->pes, NULL), PDL_OK);
    assert_int_equal(
        pdl_search(arena, x->model, &x->sys, &x->oracle, &x->opt, &x->r, NULL),
        PDL_OK);
}

/* What one thread says, searched once for all tests. */
static const struct asked *answer(int i)
{
    static struct asked answers[NQUESTIONS];

    if (!answers[i].model)
        ask(&questions[i], 1, &answers[i]);
    return &answers[i];
}

static void threads_do_not_change_the_answer(void **state)
{
    (void)state;
    for (int i = 0; i < effort(2, NQUESTIONS, NQUESTIONS); i++) {
        struct asked a = *answer(i), b = {.model = NULL};

        ask(&questions[i], 3, &b);
        assert_int_equal(a.r.n, b.r.n);
        assert_true(a.r.evaluated > 5 && a.r.feasible > 0);
        assert_int_equal(a.r.evaluated + a.r.pruned, a.r.points);
        assert_int_equal(a.r.evaluated, b.r.evaluated);
        assert_int_equal(a.r.too_slow, b.r.too_slow);
        assert_int_equal(a.r.feasible, b.r.feasible);
        for (int64_t k = 0; k < a.r.n; k++) {
            assert_string_equal(a.r.list[k].strategy, b.r.list[k].strategy);
            assert_true(a.r.list[k].goal == b.r.list[k].goal);
        }
    }
}

static double goal_of(const struct question *q, const struct pdl_projection *x,
                      const struct pdl_system *sys)
{
    struct pdl_bill bill;

    pdl_project_bill(x, sys, &bill);
    return q->goal == PDL_GOAL_MEMORY   ? (double)x->peak_bytes
           : q->goal == PDL_GOAL_ENERGY ? bill.energy_j
                                        : x->step_s;
}

/* Every strategy of the list again, one by one, outside the search. */
static void the_first_is_the_best(void **state)
{
    (void)state;
    for (int i = 0; i < effort(2, NQUESTIONS, NQUESTIONS); i++) {
        struct asked x = *answer(i);
        double best = -1;

        for (int64_t k = 0; k < x.r.n; k++) {
            struct pdl_plan_options po = {.batch = x.opt.batch,
                                          .dtype = PDL_F32};
            pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
            struct pdl_strategy s;
            const struct pdl_plan *p;
            struct pdl_projection y;
            double g;

            assert_int_equal(
                pdl_strategy_parse(a, x.r.list[k].strategy, &s, NULL), PDL_OK);
            if (pdl_plan_lower(a, x.model, &s, &po, &p, NULL) == PDL_OK &&
                pdl_project(p, &x.sys, &x.oracle, &y, NULL) == PDL_OK &&
                y.feasible) {
                g = goal_of(&questions[i], &y, &x.sys);
                best = best < 0 || g < best ? g : best;
            }
            pdl_arena_destroy(a);
        }
        assert_true(x.r.list[0].x.feasible);
        /* blocks that are alike are added up otherwise */
        assert_true(fabs(x.r.list[0].goal - best) <= 1e-12 * best);
    }
}

/* ---- large spaces ---------------------------------------------------------------- */

/* Small enough that every point can be priced. */
static const struct question reduced[] = {
    {"gpt3-175b:layers=12", "dgx-a100", 32, 24, PDL_GOAL_TIME},
    {"llama-3-70b:layers=10", "dgx-h100", 16, 16, PDL_GOAL_TIME},
    {"mixtral-8x7b:layers=8", "dgx-h100", 16, 16, PDL_GOAL_TIME},
    {"gpt:layers=12,hidden=2048,heads=16,ffn=8192,vocab=50257,seq=1024",
     "abci-v100", 32, 32, PDL_GOAL_TIME},
};
enum { NREDUCED = sizeof reduced / sizeof reduced[0] };
static const struct question tiny = {"gpt2", "dgx-a100", 4, 16, PDL_GOAL_TIME};
static const struct question wide = {"llama-3-70b:layers=10", "dgx-h100", 32,
                                     16, PDL_GOAL_TIME};

static void pruning_changes_no_answer(void **state)
{
    (void)state;
    for (int i = 0; i < effort(1, NREDUCED, NREDUCED); i += effort(1, 2, 1)) {
        const struct question *q = effort(0, 1, 1) ? &reduced[i] : &tiny;
        struct asked a = {.opt = {.exhaustive = true}}, b = {.model = NULL};
        struct asked c = {.opt = {.exhaustive = true,
                                  .basic = true,
                                  .most_zero = 1}},
                     d = {.opt = {.basic = true, .most_zero = 1}};

        ask(q, 0, &a);
        ask(q, 0, &b);
        ask(q, 0, &c); /* of these every one is asked whether it fits */
        ask(q, 0, &d);
        assert_int_equal(d.r.unasked, 0);
        assert_int_equal(c.r.feasible, d.r.feasible);
        assert_true(d.r.points > 100 && d.r.points < b.r.points);
        assert_true(a.r.naxes > 0 && a.r.n == 20);
        assert_int_equal(a.r.evaluated + a.r.refused, a.r.points);
        assert_int_equal(b.r.points, a.r.points);
        assert_true(b.r.too_slow > 0 && b.r.evaluated < a.r.evaluated);
        /* exact, but for what was too slow to be asked */
        assert_int_equal(a.r.unasked, 0);
        assert_true(b.r.feasible <= a.r.feasible &&
                    a.r.feasible <= b.r.feasible + b.r.unasked);
        assert_int_equal(b.r.n, a.r.n);
        for (int64_t k = 0; k < a.r.n; k++) {
            assert_string_equal(a.r.list[k].strategy, b.r.list[k].strategy);
            assert_true(a.r.list[k].goal == b.r.list[k].goal);
        }
    }
}

/* Nothing on the front beats another, pruned or not it is the same, and it
 * begins with the quickest. */
static void the_front_is_what_nothing_beats(void **state)
{
    struct question q = effort(0, 1, 1) ? reduced[1] : tiny;
    struct asked a = {.opt = {.exhaustive = true}}, b = {.model = NULL},
                 quick = {.opt = {.one_order = true}};

    (void)state;
    ask(&q, 0, &quick);
    q.goal = PDL_GOAL_PARETO;
    ask(&q, 0, &a);
    ask(&q, 0, &b);
    assert_true(a.r.n > 3 && a.r.n == b.r.n);
    /* of those that take as long, the one with less memory */
    assert_true(a.r.list[0].x.step_s <= quick.r.list[0].x.step_s * (1 + 1e-9));
    assert_true(a.r.list[0].x.peak_bytes <= quick.r.list[0].x.peak_bytes);
    for (int64_t i = 0; i < a.r.n; i++) {
        assert_string_equal(a.r.list[i].strategy, b.r.list[i].strategy);
        for (int64_t k = 0; k < a.r.n; k++)
            assert_true(i == k ||
                        !oracle_dominates(&a.r.list[i].x, &a.r.list[k].x));
    }
}

/* Placing the best as it is listed, in every order of its axes, finds none
 * that is better. */
static void no_order_of_the_best_is_better(void **state)
{
    struct asked x = {.model = NULL}, one = {.opt = {.one_order = true}};
    struct pdl_plan_options po = {.dtype = PDL_F32};
    int64_t nodes[] = {0, 1, 2, 3};
    struct pdl_strategy s;
    struct pdl_place_job job = {
        .strategy = &s, .plan = &po, .nnodes = 4, .nodes = nodes};
    struct pdl_placement got;

    (void)state;
    if (!effort(0, 1, 1))
        return;
    ask(&wide, 0, &x);
    ask(&wide, 0, &one);
    assert_true(x.r.orders > 0 && one.r.orders == 0);
    assert_true(x.r.list[0].goal <= one.r.list[0].goal);
    po.batch = x.opt.batch;
    job.model = x.model;
    job.system = &x.sys;
    job.oracle = &x.oracle;
    for (int64_t i = 0; i < x.r.n; i++) {
        assert_int_equal(
            pdl_strategy_parse(arena, x.r.list[i].strategy, &s, NULL), PDL_OK);
        assert_int_equal(pdl_place(arena, &job, &got, NULL), PDL_OK);
        if (s.clause[0].nterms <= 3)
            assert_true(x.r.list[0].x.step_s <= got.step_s * (1 + 1e-9));
    }
}

/* No strategy of a list that is lowered one by one is better. */
static void no_listed_strategy_is_better(void **state)
{
    struct asked x = *answer(2);
    struct oracle_space space = {.arena = arena};

    (void)state;
    space.model = x.model;
    space.sys = &x.sys;
    space.opt = &x.opt;
    space.most_zero = 1;
    oracle_space_transformer(&space);
    assert_true(space.n > 20 && !space.failed);
    for (int64_t i = 0; i < space.n; i++) {
        struct pdl_found f = {.strategy = space.list[i]};
        pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
        struct pdl_err err;

        if (oracle_price_found(a, x.model, &x.sys, &x.oracle, &x.opt, &f,
                               &err) == PDL_OK &&
            f.x.feasible)
            assert_true(f.x.step_s >= x.r.list[0].x.step_s);
        pdl_arena_destroy(a);
    }
}

static bool stop_soon(void *ctx, int64_t done, int64_t total)
{
    (void)ctx;
    return done < 5 && total > 5;
}

static void stopped_means_the_best_so_far(void **state)
{
    struct asked x = {.opt = {.progress = stop_soon}};

    (void)state;
    ask(&questions[0], 1, &x);
    assert_true(x.r.stopped);
    assert_true(x.r.evaluated + x.r.pruned == 5);
    assert_true(x.r.list[0].priced);
}

static void only_the_axes_asked_for(void **state)
{
    struct asked x = {.opt = {.axes = "data,pipe"}};

    (void)state;
    ask(&questions[2], 1, &x);
    for (int64_t k = 0; k < x.r.n; k++)
        assert_null(strstr(x.r.list[k].strategy, "tensor"));
    assert_true(x.r.n > 0);
}

/* Every axis of the space is in some answer where nothing else is asked for. */
static void every_axis_is_searched(void **state)
{
    static const struct {
        const char *model, *axes, *has;
    } cases[] = {
        {"mixtral-8x7b:layers=4", "expert", "expert=8"},
        {"llama-3-8b:layers=4", "context", "context=2"},
        {"llama-3-8b:layers=4", "context", "(a2a)"},
        {"llama-3-8b:layers=4", "data", "zero=1"},
        {"llama-3-8b:layers=4", "data", "zero=2"},
        {"llama-3-8b:layers=4", "data", "zero=3"},
    };

    struct asked x = {.model = NULL};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool experts = strcmp(cases[i].axes, "expert") == 0;
        struct question q = {cases[i].model, "dgx-h100", experts ? 8 : 2, 8,
                             PDL_GOAL_TIME};
        bool found = false;

        if (i == 0 || strcmp(cases[i].axes, cases[i - 1].axes) != 0) {
            x = (struct asked){.opt = {.axes = cases[i].axes, .top = 1000}};
            ask(&q, 1, &x);
        }
        for (int64_t k = 0; k < x.r.n; k++)
            found = found || strstr(x.r.list[k].strategy, cases[i].has);
        if (!found)
            print_message("%s: no %s\n", cases[i].model, cases[i].has);
        assert_true(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_change_the_answer),
        cmocka_unit_test(the_first_is_the_best),
        cmocka_unit_test(pruning_changes_no_answer),
        cmocka_unit_test(the_front_is_what_nothing_beats),
        cmocka_unit_test(no_order_of_the_best_is_better),
        cmocka_unit_test(no_listed_strategy_is_better),
        cmocka_unit_test(stopped_means_the_best_so_far),
        cmocka_unit_test(only_the_axes_asked_for),
        cmocka_unit_test(every_axis_is_searched),
    };
    int rc;

    arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    pdl_arena_destroy(arena);
    return rc;
}
