/* Stages, strategies and savings chosen together: equal to brute force on
 * random chains and on chains of small networks with real prices; a changed
 * price changes the answer; what is written is priced as a whole plan, and is
 * the best of all whole plans of a small space, or as near as sums are. */
#include "oracle/bylayer/stage_choice.h"
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

/* ---- brute force ------------------------------------------------------------- */

struct tried {
    double cost;
    int64_t plans;
};

/* Every choice and every stage of segments i.., after those before. */
static void try_all(const struct oracle_chain *c, int i, int pick, int stage,
                    double sum, double now, double bytes, double slowest,
                    struct tried *t)
{
    if (i == c->n) {
        t->plans++;
        if (stage == c->stages - 1)
            t->cost = fmin(t->cost, c->fill * sum + c->each * slowest);
        return;
    }
    for (int next = 0; next < c->k; next++)
        for (int begins = c->fixed && i > 0 && c->send[i];
             begins < (i > 0 && c->send[i] ? 2 : 1); begins++) {
            int at = i * c->k + next, s = stage + begins;
            double t_s = c->run[at], b, n;

            if (s >= c->stages)
                continue;
            if (i > 0 && c->pair[i])
                t_s += c->pair[i][pick * c->k + next];
            if (begins)
                t_s += c->send[i][pick];
            n = (begins ? 0 : now) + t_s;
            b = (begins ? 0 : bytes) + c->state[at] +
                c->in_flight[s] * c->keep[at];
            if (b <= c->room && isfinite(t_s))
                try_all(c, i + 1, next, s, sum + t_s, n, b, fmax(slowest, n),
                        t);
            else
                t->plans++;
        }
}

static struct tried brute_force(const struct oracle_chain *c)
{
    struct tried t = {.cost = INFINITY};

    try_all(c, 0, 0, 0, 0, 0, 0, 0, &t);
    return t;
}

struct best {
    double cost;
    int n, answers, pick[16], stage[16];
};

static bool keep_best(void *ctx, const struct oracle_chain_answer *x)
{
    struct best *b = ctx;

    b->answers++;
    if (x->cost < b->cost) {
        b->cost = x->cost;
        for (int i = 0; i < b->n; i++) {
            b->pick[i] = x->pick[i];
            b->stage[i] = x->stage[i];
        }
    }
    return true;
}

static struct best solve(const struct oracle_chain *c, bool *exact)
{
    struct best b = {.cost = INFINITY, .n = c->n};

    int n = oracle_chain_solve(arena, c, keep_best, &b, exact);

    assert_int_equal(n, b.answers);
    return b;
}

static bool near(double a, double b)
{
    return (isinf(a) && isinf(b)) || fabs(a - b) <= 1e-12 * fabs(a + b);
}

/* ---- random chains ------------------------------------------------------------ */

static double *row(struct pdl_rng *r, int n, double scale)
{
    double *x = PDL_NEW(arena, double, n);

    for (int i = 0; i < n; i++)
        x[i] = below(r, 15) == 0 ? INFINITY : scale * pdl_rng_unit(r);
    return x;
}

static double *bytes(struct pdl_rng *r, int n)
{
    double *x = PDL_NEW(arena, double, n);

    for (int i = 0; i < n; i++)
        x[i] = pdl_rng_unit(r);
    return x;
}

static struct oracle_chain random_chain(struct pdl_rng *r)
{
    int n = 2 + below(r, 5), k = 1 + below(r, 3), stages = 1 + below(r, 3);
    const double **pair = PDL_NEW(arena, const double *, n);
    const double **send = PDL_NEW(arena, const double *, n);
    double *in_flight = PDL_NEW(arena, double, stages);
    struct oracle_chain c = {.n = n, .k = k, .stages = stages};

    for (int i = 1; i < n; i++) {
        pair[i] = below(r, 5) ? row(r, k * k, .3) : NULL;
        send[i] = below(r, 5) ? row(r, k, .1) : NULL;
    }
    for (int s = 0; s < stages; s++)
        in_flight[s] = stages - s;
    c.run = row(r, n * k, 1);
    c.keep = bytes(r, n * k);
    c.state = bytes(r, n * k);
    c.pair = pair;
    c.send = send;
    c.in_flight = in_flight;
    c.room = below(r, 3) ? 1.5 * n * pdl_rng_unit(r) : INFINITY;
    c.fill = 1;
    c.each = below(r, 8);
    c.fixed = below(r, 4) == 0;
    return c;
}

static void random_chains_equal_brute_force(void **state)
{
    struct pdl_rng r = {.key = 17};
    int64_t plans = 0;
    int finite = 0;

    (void)state;
    for (int i = 0; i < 2000; i++) {
        struct oracle_chain c = random_chain(&r);
        struct tried all = brute_force(&c);
        bool exact;
        struct best b = solve(&c, &exact);

        assert_true(exact && near(b.cost, all.cost));
        assert_true((b.answers > 0) == isfinite(all.cost));
        finite += isfinite(all.cost);
        plans += all.plans;
    }
    print_message("2000 chains, %lld plans, %d with an answer\n",
                  (long long)plans, finite);
    assert_true(finite > 600);
}

static void a_changed_price_changes_the_answer(void **state)
{
    struct pdl_rng r = {.key = 5};
    int changed = 0;

    (void)state;
    for (int i = 0; i < 200; i++) {
        struct oracle_chain c = random_chain(&r);
        bool exact;
        struct best b = solve(&c, &exact), again;
        double *run = (double *)c.run;

        if (!isfinite(b.cost) || c.k < 2)
            continue;
        run[b.pick[0]] += 100;
        again = solve(&c, &exact);
        assert_true(near(again.cost, brute_force(&c).cost));
        assert_true(again.cost > b.cost);
        changed += isfinite(again.cost) && again.pick[0] != b.pick[0];
    }
    assert_true(changed > 30);
}

/* ---- small networks -------------------------------------------------------------- */

static const struct pdl_attr none;

/* A chain of convolutions and a linear layer. */
static const struct pdl_model *small_model(int convs)
{
    static const int64_t image[3] = {8, 16, 16};
    pdl_build *b = pdl_build_begin(arena, "small");
    int x = pdl_build_tensor(b, "x", PDL_TENSOR_INPUT, PDL_F32, 3, image);
    struct pdl_attr fc = {.features = 16};
    const struct pdl_model *m;
    char name[32];

    for (int i = 0; i < convs; i++) {
        struct pdl_attr a = {.features = 32 << i % 2, .no_bias = true};

        for (int d = 0; d < 2; d++) {
            a.kernel[d] = 3;
            a.stride[d] = a.pad[d] = a.pad_end[d] = 1;
        }
        snprintf(name, sizeof name, "conv%d", i);
        x = pdl_build_op(b, "conv", name, &a, &x, 1);
        snprintf(name, sizeof name, "relu%d", i);
        x = pdl_build_op(b, "relu", name, &none, &x, 1);
    }
    x = pdl_build_op(b, "flatten", "flatten", &none, &x, 1);
    pdl_build_op(b, "linear", "fc", &fc, &x, 1);
    pdl_build_meta(b, "cnn", "a test", 0, -1);
    assert_int_equal(pdl_build_end(b, &m, NULL), PDL_OK);
    return m;
}

struct question {
    struct pdl_system sys;
    struct pdl_oracle_options oracle;
    struct pdl_search_options opt;
    struct oracle_stages s;
    struct pdl_strategy base;
    const char *told[512];
    int ntold;
};

static void note(void *ctx, const char *text)
{
    struct question *q = ctx;

    if (q->ntold < 512)
        q->told[q->ntold++] = text;
}

static struct question *ask(const struct pdl_model *m, const char *base,
                            int64_t pes, int64_t batch, double room)
{
    struct question *q = PDL_NEW(arena, struct question, 1);
    bool more;

    q->oracle = (struct pdl_oracle_options){.precision = PDL_PREC_FP32,
                                            .optimizer_slots = 1};
    q->opt = (struct pdl_search_options){.pes = pes, .batch = batch};
    assert_int_equal(pdl_system_open(arena, "dgx-a100", &q->sys, NULL), PDL_OK);
    assert_int_equal(pdl_strategy_parse(arena, base, &q->base, NULL), PDL_OK);
    q->s.x = (struct oracle_layers){
        .arena = arena, .sys = &q->sys, .oracle = &q->oracle, .opt = &q->opt};
    q->s.note = note;
    q->s.ctx = q;
    q->s.exact = true;
    q->s.room = room;
    assert_int_equal(oracle_units_make(arena, m, &q->s.x.units, NULL), PDL_OK);
    assert_true(oracle_stages_of(&q->s, &q->opt, &q->base));
    assert_int_equal(oracle_layers_space(&q->s.x, 0, &more, NULL), PDL_OK);
    assert_int_equal(oracle_layers_stages(&q->s, NULL), PDL_OK);
    return q;
}

/* With all the room, with less, and with so little that only what waits on the
 * host fits: the same as trying everything. */
static void networks_equal_brute_force(void **state)
{
    static const struct {
        const char *base;
        int convs;
        int64_t pes, batch;
    } cases[] = {
        {"pipe=2(m=4)", 3, 4, 1024}, {"pipe=2(m=8),data=2", 4, 4, 2048},
        {"pipe=4(m=8)", 3, 8, 64},   {"pipe=3(gpipe,m=4)", 3, 6, 48},
        {"data=4", 3, 4, 1024},
    };
    int64_t most = 0;
    int saved = 0;

    (void)state;
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        double room = 1e12;

        for (int k = 0; k < 10; k++, room = k == 1 ? 2e8 : room * .6) {
            const struct pdl_model *m = small_model(cases[i].convs);
            struct question *q =
                ask(m, cases[i].base, cases[i].pes, cases[i].batch, room);
            struct oracle_chain c = *q->s.chain;
            struct tried all = brute_force(&c);
            bool exact;
            struct best b = solve(&c, &exact);

            assert_true(exact && near(b.cost, all.cost));
            assert_true(all.plans < 1000000);
            most = all.plans > most ? all.plans : most;
            saved += q->s.saves && q->ntold > 0;
        }
    }
    print_message("at most %lld plans, %d with savings\n", (long long)most,
                  saved);
    assert_true(saved > 0);
}

/* ---- whole plans ------------------------------------------------------------------- */

static double step_of(struct question *q, const struct pdl_model *m,
                      const char *text)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_found f = {.strategy = text};
    bool ok = oracle_price_found(a, m, &q->sys, &q->oracle, &q->opt, &f,
                                 NULL) == PDL_OK;

    pdl_arena_destroy(a);
    return ok ? f.x.step_s : INFINITY;
}

/* Every candidate for every layer and every cut, as whole plans. */
static double best_whole(struct question *q, const struct pdl_model *m,
                         int64_t *plans)
{
    const struct oracle_layers *x = &q->s.x;
    static const struct oracle_saving keep = {.offload = false};
    struct oracle_written w = {
        .base = &q->base, .saving = &keep, .nsavings = 1};
    int n = x->units.n, pick[8] = {0}, cut;
    double best = INFINITY;

    w.cut = &cut;
    w.ncuts = 1;
    for (int i = 0; i < n;) {
        for (int u = 1; u < n; u++) {
            const char *text;

            cut = x->units.unit[u].node[0];
            text = oracle_layers_write_stages(x, &w, pick);
            assert_non_null(text);
            best = fmin(best, step_of(q, m, text));
            ++*plans;
        }
        for (i = 0; i < n && ++pick[i] == x->k; i++)
            pick[i] = 0;
    }
    return best;
}

static void the_answer_is_the_best_whole_plan(void **state)
{
    static const struct {
        int convs;
        int64_t batch;
    } cases[] = {{2, 64}, {3, 32}, {2, 256}};

    (void)state;
    for (int i = 0; i < 3; i++) {
        const struct pdl_model *m = small_model(cases[i].convs);
        struct question *q = ask(m, "pipe=2(m=4)", 4, cases[i].batch, 1e12);
        double found = INFINITY, best;
        int64_t plans = 0;

        q->s.x.cost = PDL_NEW(arena, struct oracle_unit_cost,
                              (int64_t)q->s.x.units.n * q->s.x.k);
        best = best_whole(q, m, &plans);
        for (int k = 0; k < q->ntold; k++)
            found = fmin(found, step_of(q, m, q->told[k]));
        print_message("%lld whole plans: the best takes %.4g s, that found "
                      "%.4g s (%.2f %% more)\n",
                      (long long)plans, best, found, 100 * (found / best - 1));
        assert_true(plans > 50 && isfinite(best));
        assert_true(found <= best * 1.02);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_chains_equal_brute_force),
        cmocka_unit_test(a_changed_price_changes_the_answer),
        cmocka_unit_test(networks_equal_brute_force),
        cmocka_unit_test(the_answer_is_the_best_whole_plan),
    };
    int failed;

    arena = pdl_arena_create(PDL_ARENA_DEFAULT);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    pdl_arena_destroy(arena);
    return failed;
}
