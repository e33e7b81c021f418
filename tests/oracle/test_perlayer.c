/* Strategies by layer: the choice equals brute force on series-parallel
 * graphs, on random ones and on those of small networks with real prices; a
 * changed price changes the answer; the sums bracket the price of the whole
 * plan; what is written is what was chosen; threads change nothing. */
#include "effort.h"
#include "oracle/bylayer/bylayer.h"
#include "oracle/search/space.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static pdl_arena *arena;

static int below(struct pdl_rng *r, int n)
{
    return (int)pdl_rng_below(r, (uint64_t)n);
}

/* ---- the choice ------------------------------------------------------------ */

enum { MOST_UNITS = 9, MOST_PAIRS = 40 };

struct problem {
    struct oracle_choice c;
    struct oracle_pair pair[MOST_PAIRS];
};

static double any_cost(struct pdl_rng *r)
{
    return below(r, 12) == 0 ? INFINITY : pdl_rng_unit(r);
}

static void add_pair(struct problem *p, struct pdl_rng *r, int u, int v)
{
    int kk = p->c.k * p->c.k;
    double *cost = PDL_NEW(arena, double, kk);

    for (int i = 0; i < kk; i++)
        cost[i] = any_cost(r);
    p->pair[p->c.npairs++] = (struct oracle_pair){u, v, cost};
}

/* From one pair by steps in series, in parallel, and leaves. */
static void make_problem(struct problem *p, struct pdl_rng *r)
{
    double *own;

    *p = (struct problem){.c = {.n = 2, .k = 1 + below(r, 4)}};
    p->c.pair = p->pair;
    add_pair(p, r, 0, 1);
    for (int step = below(r, 12); step > 0 && p->c.n < 7; step--) {
        int e = below(r, p->c.npairs), u = p->pair[e].u, v = p->pair[e].v;

        switch (below(r, 3)) {
        case 0: /* a unit between */
            p->pair[e].v = p->c.n;
            add_pair(p, r, v, p->c.n++);
            break;
        case 1:
            add_pair(p, r, v, u);
            break;
        default:
            add_pair(p, r, p->c.n++, u);
        }
    }
    own = PDL_NEW(arena, double, p->c.n * p->c.k);
    for (int i = 0; i < p->c.n * p->c.k; i++)
        own[i] = any_cost(r);
    p->c.own = own;
}

static bool next_pick(const struct oracle_choice *c, int *pick)
{
    for (int i = 0; i < c->n; i++) {
        if (++pick[i] < c->k)
            return true;
        pick[i] = 0;
    }
    return false;
}

static double brute_force(const struct oracle_choice *c)
{
    int *pick = PDL_NEW(arena, int, c->n);
    double best = INFINITY;

    do {
        best = fmin(best, oracle_choice_cost(c, pick));
    } while (next_pick(c, pick));
    return best;
}

static bool near(double a, double b)
{
    return (isinf(a) && isinf(b)) || fabs(a - b) <= 1e-12 * fabs(a + b);
}

static void the_choice_is_that_of_brute_force(void **state)
{
    struct pdl_rng r;
    int finite = 0, problems = effort(100, 400, 400);

    (void)state;
    r = (struct pdl_rng){.key = 7};
    for (int i = 0; i < problems; i++) {
        struct problem p;
        int pick[MOST_UNITS] = {0};
        bool exact;
        double found, best;

        make_problem(&p, &r);
        found = oracle_choice_solve(arena, &p.c, pick, &exact);
        best = brute_force(&p.c);
        assert_true(exact);
        assert_true(near(found, best));
        finite += isfinite(best);
    }
    assert_true(finite > problems / 2);
}

/* Four units, each next to every other. */
static void what_is_not_series_parallel_is_marked(void **state)
{
    static double own[8], cost[4] = {0, 1, 1, 0};
    struct oracle_pair pair[6];
    struct oracle_choice c = {4, 2, own, 0, pair};
    int pick[4];
    bool exact;

    (void)state;
    own[0] = 5;
    for (int u = 0; u < 4; u++)
        for (int v = u + 1; v < 4; v++)
            pair[c.npairs++] = (struct oracle_pair){u, v, cost};
    assert_true(oracle_choice_solve(arena, &c, pick, &exact) ==
                brute_force(&c));
    assert_false(exact);
}

/* ---- small networks ----------------------------------------------------------- */

struct small {
    struct oracle_layers x;
    struct pdl_system sys;
    struct pdl_oracle_options oracle;
    struct pdl_search_options opt;
};

static const struct pdl_attr none;

static int conv(pdl_build *b, int i, int x, int64_t f, int64_t kernel)
{
    struct pdl_attr a = {.features = f, .no_bias = true};
    char name[32];

    for (int d = 0; d < 2; d++) {
        a.kernel[d] = kernel;
        a.stride[d] = 1;
        a.pad[d] = a.pad_end[d] = kernel / 2;
    }
    snprintf(name, sizeof name, "conv%d", i);
    x = pdl_build_op(b, "conv", name, &a, &x, 1);
    snprintf(name, sizeof name, "norm%d", i);
    x = pdl_build_op(b, "batch_norm", name, &none, &x, 1);
    snprintf(name, sizeof name, "relu%d", i);
    return pdl_build_op(b, "relu", name, &none, &x, 1);
}

/* Three or four layers; some are residual. */
static const struct pdl_model *small_model(struct pdl_rng *r, bool residual)
{
    static const int64_t image[3] = {8, 16, 16};
    pdl_build *b = pdl_build_begin(arena, "small");
    int64_t f = 16 << below(r, 3);
    int x = pdl_build_tensor(b, "x", PDL_TENSOR_INPUT, PDL_F32, 3, image);
    int n = 3 + below(r, 2), skip = -1, in[2];
    struct pdl_attr fc = {.features = 64};
    const struct pdl_model *m;
    char name[32];

    for (int i = 0; i < n - 1; i++) {
        x = conv(b, i, x, f, 1 + 2 * below(r, 2));
        if (skip >= 0 && residual && below(r, 2)) {
            in[0] = x;
            in[1] = skip;
            snprintf(name, sizeof name, "add%d", i);
            x = pdl_build_op(b, "add", name, &none, in, 2);
        }
        skip = x;
    }
    x = pdl_build_op(b, "flatten", "flatten", &none, &x, 1);
    pdl_build_op(b, "linear", "fc", &fc, &x, 1);
    pdl_build_meta(b, "cnn", "a test", 0, -1);
    assert_int_equal(pdl_build_end(b, &m, NULL), PDL_OK);
    return m;
}

static void start(struct small *s, const struct pdl_model *m, int64_t pes,
                  int64_t batch)
{
    struct pdl_err err = {"", ""};
    bool more;

    s->oracle = (struct pdl_oracle_options){.precision = PDL_PREC_FP32,
                                            .optimizer_slots = 1};
    s->opt = (struct pdl_search_options){.pes = pes, .batch = batch};
    s->x = (struct oracle_layers){
        .arena = arena, .sys = &s->sys, .oracle = &s->oracle, .opt = &s->opt};
    assert_int_equal(pdl_system_open(arena, "abci-v100", &s->sys, NULL),
                     PDL_OK);
    assert_int_equal(oracle_units_make(arena, m, &s->x.units, NULL), PDL_OK);
    assert_int_equal(oracle_layers_space(&s->x, 0, &more, &err), PDL_OK);
    assert_true(more && s->x.k > 3);
}

static void price(struct small *s, const struct pdl_model *m, int64_t pes,
                  int64_t batch)
{
    start(s, m, pes, batch);
    assert_int_equal(oracle_layers_price(&s->x, NULL), PDL_OK);
}

static const struct oracle_weights ALL = {.exposed = 1}, NONE = {.exposed = 0};

static void small_networks_equal_brute_force(void **state)
{
    struct pdl_rng r;

    (void)state;
    r = (struct pdl_rng){.key = 11};
    for (int i = 0; i < effort(3, 12, 12); i++) {
        const struct pdl_model *m = small_model(&r, true);
        struct small s;
        struct oracle_choice c;
        int pick[MOST_UNITS];
        bool exact;
        double found;

        price(&s, m, i % 2 ? 8 : 4, 32);
        assert_int_equal(
            oracle_layers_problem(&s.x, i % 3 ? &ALL : &NONE, &c, NULL),
            PDL_OK);
        found = oracle_choice_solve(arena, &c, pick, &exact);
        assert_true(exact && isfinite(found));
        assert_true(near(found, brute_force(&c)));
    }
}

static bool whole(const struct small *s, const int *pick,
                  struct pdl_projection *out)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_found f = {.strategy = oracle_layers_write(&s->x, pick)};
    bool ok;

    assert_non_null(f.strategy);
    ok = oracle_price_found(a, s->x.units.model, &s->sys, &s->oracle, &s->opt,
                            &f, NULL) == PDL_OK;
    *out = f.x;
    pdl_arena_destroy(a);
    return ok;
}

/* How far the whole plan's step is from what its parts add up to, over every
 * assignment of some networks. */
struct deviation {
    int n, refused;
    double worst, mean;
};

static struct deviation deviate(uint64_t seed, bool residual, bool plain)
{
    struct deviation d = {0};
    struct pdl_rng r = {.key = seed};

    for (int i = 0; i < 3; i++) {
        struct oracle_choice hidden, exposed;
        int pick[MOST_UNITS] = {0};
        struct small s;

        start(&s, small_model(&r, residual), 4, 32);
        for (int c = 0; plain && c < s.x.k; c++) {
            s.x.strategy[c].no_overlap = true;
            s.x.strategy[c].bucket_bytes = 1;
        }
        assert_int_equal(oracle_layers_price(&s.x, NULL), PDL_OK);
        oracle_layers_problem(&s.x, plain ? &ALL : &NONE, &hidden, NULL);
        oracle_layers_problem(&s.x, &ALL, &exposed, NULL);
        do {
            double low = oracle_choice_cost(&hidden, pick);
            double high = oracle_choice_cost(&exposed, pick), off;
            struct pdl_projection x;

            if (!isfinite(low))
                continue;
            if (!whole(&s, pick, &x)) {
                d.refused++;
                continue;
            }
            off = fmax(fmax(low - x.step_s, x.step_s - high), 0) / x.step_s;
            d.worst = fmax(d.worst, off);
            d.mean += off;
            d.n++;
        } while (next_pick(&hidden, pick));
    }
    d.mean /= d.n > 0 ? d.n : 1;
    return d;
}

/* One bucket a weight and no overlap: what is left of a chain is that a whole
 * plan tells ranks apart that a single exchange by boxes does not (ranks with
 * equal parts, which come from more peers). Readers of one tensor share moves
 * and sums of gradients, buckets share latency, and overlap hides: what that
 * does to the sums is printed, and bounded. */
static void sums_are_near_the_steps_of_whole_plans(void **state)
{
    static const struct {
        const char *what;
        bool residual, plain;
        double mean, worst;
    } cases[] = {
        {"chains, nothing shared", false, true, .015, .15},
        {"residual, nothing shared", true, true, .03, .2},
        {"chains, as usual", false, false, .05, .2},
        {"residual, as usual", true, false, .05, .2},
    };

    (void)state;
    for (int i = 0; i < effort(1, 4, 4); i++) {
        struct deviation d = deviate(23, cases[i].residual, cases[i].plain);

        print_message("%-26s %5d assignments, %d refused: off by %.2g on "
                      "average, %.2g at most\n",
                      cases[i].what, d.n, d.refused, d.mean, d.worst);
        assert_true(d.n > 300 && d.refused == 0);
        assert_true(d.mean <= cases[i].mean && d.worst <= cases[i].worst);
    }
}

/* A higher price of what was chosen, and only that, makes another choice. */
static void a_changed_price_changes_the_answer(void **state)
{
    struct small s;
    struct oracle_choice c;
    int pick[MOST_UNITS], again[MOST_UNITS];
    double best;
    struct pdl_rng r;
    bool exact;

    (void)state;
    r = (struct pdl_rng){.key = 5};
    price(&s, small_model(&r, true), 8, 32);
    oracle_layers_problem(&s.x, &ALL, &c, NULL);
    best = oracle_choice_solve(arena, &c, pick, &exact);
    for (int u = 0; u < c.n; u++) {
        double *own = (double *)c.own + (ptrdiff_t)u * c.k + pick[u];
        double was = *own;

        *own += best;
        assert_true(oracle_choice_solve(arena, &c, again, &exact) > best);
        assert_int_not_equal(again[u], pick[u]);
        *own = was;
    }
    for (int e = 0; e < c.npairs; e++) {
        double *cost = (double *)c.pair[e].cost, was;
        int at = pick[c.pair[e].u] * c.k + pick[c.pair[e].v];

        was = cost[at];
        cost[at] += best;
        oracle_choice_solve(arena, &c, again, &exact);
        assert_true(again[c.pair[e].u] != pick[c.pair[e].u] ||
                    again[c.pair[e].v] != pick[c.pair[e].v]);
        cost[at] = was;
    }
}

/* ---- the notation -------------------------------------------------------------- */

static bool same_terms(const struct pdl_clause *a, const struct pdl_clause *b)
{
    return a->nterms == b->nterms &&
           memcmp(a->term, b->term, (size_t)a->nterms * sizeof a->term[0]) == 0;
}

static void what_is_written_is_what_was_chosen(void **state)
{
    struct pdl_rng r;

    (void)state;
    r = (struct pdl_rng){.key = 3};
    for (int i = 0; i < effort(15, 60, 60); i++) {
        struct small s;
        int pick[MOST_UNITS], clause[64];
        struct pdl_strategy *parsed = PDL_NEW(arena, struct pdl_strategy, 1);
        const struct pdl_model *m = small_model(&r, true);
        const char *text;

        price(&s, m, 4, 32);
        for (int u = 0; u < s.x.units.n; u++)
            pick[u] = below(&r, s.x.k);
        text = oracle_layers_write(&s.x, pick);
        assert_non_null(text);
        assert_int_equal(pdl_strategy_parse(arena, text, parsed, NULL), PDL_OK);
        assert_int_equal(pdl_strategy_bind(parsed, m, clause, NULL), PDL_OK);
        for (int n = 0; n < m->nnodes; n++)
            assert_true(same_terms(
                &parsed->clause[clause[n]],
                &s.x.strategy[pick[s.x.units.unit_of[n]]].clause[0]));
    }
}

/* 54 units that alternate need 54 ranges, or 27 and one for all the rest;
 * those that take turns need more than there are. */
static void too_many_switches_are_not_written(void **state)
{
    const struct pdl_model *m;
    struct small s;
    int pick[64];

    (void)state;
    assert_int_equal(pdl_model_load(arena, "resnet50", NULL, &m, NULL), PDL_OK);
    price(&s, m, 4, 32);
    for (int u = 0; u < s.x.units.n; u++)
        pick[u] = u % 2;
    assert_non_null(oracle_layers_write(&s.x, pick));
    for (int u = 0; u < s.x.units.n; u++)
        pick[u] = u % 3;
    assert_null(oracle_layers_write(&s.x, pick));
}

/* ---- all of it ------------------------------------------------------------------ */

static const struct question {
    const char *model;
    int64_t pes, batch;
    bool better;
} questions[] = {
    {"alexnet", 8, 256, true},
    {"vgg16", 12, 192, true},
    {"resnet18", 16, 512, false},
    {"gpt2", 8, 32, false}, /* ZeRO 3 for all layers */
};
enum { NQUESTIONS = sizeof questions / sizeof questions[0] };

static void ask(const struct question *q, int threads, int64_t memory,
                struct small *s, struct pdl_layers_result *out)
{
    const struct pdl_model *m;

    s->oracle = (struct pdl_oracle_options){.precision = PDL_PREC_FP32,
                                            .optimizer_slots = 1};
    s->opt = (struct pdl_search_options){
        .pes = q->pes, .batch = q->batch, .threads = threads};
    assert_int_equal(pdl_model_load(arena, q->model, NULL, &m, NULL), PDL_OK);
    assert_int_equal(pdl_system_open(arena, "abci-v100", &s->sys, NULL),
                     PDL_OK);
    if (memory > 0)
        s->sys.pe.memory_bytes = memory;
    assert_int_equal(
        pdl_search_layers(arena, m, &s->sys, &s->oracle, &s->opt, out, NULL),
        PDL_OK);
}

static void threads_do_not_change_the_answer(void **state)
{
    (void)state;
    for (int i = 0; i < NQUESTIONS; i += effort(3, 1, 1)) {
        struct small s;
        struct pdl_layers_result a, b;

        ask(&questions[i], 1, 0, &s, &a);
        ask(&questions[i], 3, 0, &s, &b);
        assert_string_equal(a.layered.strategy, b.layered.strategy);
        assert_string_equal(a.best.strategy, b.best.strategy);
        assert_true(a.best.x.step_s == b.best.x.step_s);
        assert_true(a.hidden_s == b.hidden_s && a.exposed_s == b.exposed_s);
        assert_int_equal(a.moves, b.moves);
    }
}

/* What is reported is the price of the whole plan, and never worse than the
 * best for all layers. */
static void the_answer_is_a_whole_plan(void **state)
{
    (void)state;
    for (int i = 0; i < NQUESTIONS; i += effort(3, 1, 1)) {
        struct small s;
        struct pdl_layers_result l;
        struct pdl_found again = {.strategy = NULL};
        const struct pdl_model *m;

        ask(&questions[i], 0, 0, &s, &l);
        assert_int_equal(
            pdl_model_load(arena, questions[i].model, NULL, &m, NULL), PDL_OK);
        again.strategy = l.best.strategy;
        assert_int_equal(oracle_price_found(arena, m, &s.sys, &s.oracle, &s.opt,
                                            &again, NULL),
                         PDL_OK);
        assert_true(again.x.step_s == l.best.x.step_s);
        assert_true(l.best.x.feasible && l.best.priced && l.exact);
        assert_true(l.best.x.step_s <= l.uniform.x.step_s);
        assert_true(l.better == (l.layered.x.step_s < l.uniform.x.step_s));
        assert_true(l.better == questions[i].better);
    }
}

/* With little memory another choice is made, and it fits. */
static void memory_is_a_limit(void **state)
{
    static const struct question q = {"vgg16", 16, 256, true};
    struct small s;
    struct pdl_layers_result free, tight;

    (void)state;
    ask(&q, 0, 0, &s, &free);
    ask(&q, 0, free.layered.x.peak_bytes - 1, &s, &tight);
    assert_string_not_equal(free.layered.strategy, tight.layered.strategy);
    assert_true(tight.layered.x.feasible);
    assert_true(tight.layered.x.peak_bytes < free.layered.x.peak_bytes);
    assert_true(tight.layered.x.step_s >= free.layered.x.step_s);
}

static void other_goals_are_refused(void **state)
{
    struct small s = {.opt = {.pes = 4, .batch = 32, .goal = PDL_GOAL_MEMORY}};
    struct pdl_layers_result l;
    const struct pdl_model *m;
    struct pdl_err err;

    (void)state;
    assert_int_equal(pdl_model_load(arena, "lenet5", NULL, &m, NULL), PDL_OK);
    assert_int_equal(
        pdl_search_layers(arena, m, &s.sys, &s.oracle, &s.opt, &l, &err),
        PDL_EINVAL);
    assert_non_null(strstr(err.msg, "time only"));
}

static int setup(void **state)
{
    (void)state;
    arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    return arena ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pdl_arena_destroy(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_is_that_of_brute_force),
        cmocka_unit_test(what_is_not_series_parallel_is_marked),
        cmocka_unit_test(small_networks_equal_brute_force),
        cmocka_unit_test(sums_are_near_the_steps_of_whole_plans),
        cmocka_unit_test(a_changed_price_changes_the_answer),
        cmocka_unit_test(what_is_written_is_what_was_chosen),
        cmocka_unit_test(too_many_switches_are_not_written),
        cmocka_unit_test(threads_do_not_change_the_answer),
        cmocka_unit_test(the_answer_is_a_whole_plan),
        cmocka_unit_test(memory_is_a_limit),
        cmocka_unit_test(other_goals_are_refused),
    };

    return cmocka_run_group_tests_name("oracle/perlayer", tests, setup,
                                       teardown);
}
