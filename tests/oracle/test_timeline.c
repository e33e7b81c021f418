/* The timeline is the simulation that prices the step: nothing overlaps on a
 * stream, everything that takes time is there, and the step is as long as the
 * lane that takes longest in it. */
#include "plans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_start(const void *pa, const void *pb)
{
    const struct pdl_event *a = *(const struct pdl_event *const *)pa;
    const struct pdl_event *b = *(const struct pdl_event *const *)pb;

    return a->start_s < b->start_s ? -1 : a->start_s > b->start_s;
}

/* Computation and what it waits for is one stream, exchange of gradients (and
 * of weights, with ZeRO 3) another. */
static bool exchanges(const struct pdl_plan *p, const struct pdl_event *e)
{
    const struct pdl_plan_op *x = &p->ops[e->op];
    enum pdl_plan_kind kind =
        x->nin > 0 ? p->tensors[x->in[0]].kind : PDL_PLAN_ACTIVATION;

    return x->group != 0 && (e->micro < 0 || kind == PDL_PLAN_WEIGHT ||
                             kind == PDL_PLAN_WEIGHT_GRADIENT);
}

static void no_overlap(const struct pdl_plan *p, const struct pdl_timeline *t,
                       int stage, bool exchange, const char *what)
{
    const struct pdl_event **list = malloc((size_t)(t->n + 1) * sizeof *list);
    int64_t n = 0;

    for (int64_t i = 0; i < t->n; i++)
        if (t->events[i].stage == stage &&
            exchanges(p, &t->events[i]) == exchange)
            list[n++] = &t->events[i];
    qsort(list, (size_t)n, sizeof *list, by_start);
    for (int64_t i = 1; i < n; i++)
        if (list[i]->start_s <
            list[i - 1]->start_s + list[i - 1]->seconds - 1e-12)
            fail_msg("%s: operations %d and %d overlap", what, list[i - 1]->op,
                     list[i]->op);
    free(list);
}

/* From the first event of a lane to its last, of the lane that takes longest:
 * the next step's lanes begin as these did. */
static double longest_lane(const struct pdl_plan *p,
                           const struct pdl_timeline *t)
{
    double longest = 0;

    for (int l = 0; l < p->lanes; l++) {
        double start = INFINITY, end = 0;

        for (int64_t i = 0; i < t->n; i++) {
            const struct pdl_event *e = &t->events[i];

            if (pdl_plan_lane(p, e->stage) != l)
                continue;
            start = fmin(start, e->start_s);
            end = fmax(end, e->start_s + e->seconds);
        }
        longest = fmax(longest, end - start);
    }
    return longest;
}

static void check(const char *model, const char *strategy, int64_t batch,
                  const char *without)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lower(a, model, strategy, batch);
    struct pdl_system sys = open_system(a, "abci-v100");
    struct pdl_oracle_options opt = {.precision = PDL_PREC_FP32,
                                     .optimizer_slots = 1};
    struct pdl_projection x;
    struct pdl_timeline t;
    struct pdl_err err = {"", ""};
    double busy = 0;

    if (without)
        assert_int_equal(pdl_effect_find(without, &opt.without, NULL), PDL_OK);
    if (pdl_project(p, &sys, &opt, &x, &err) != PDL_OK ||
        pdl_timeline(a, p, &sys, &opt, &t, &err) != PDL_OK)
        fail_msg("%s, %s: %s", model, strategy, err.msg);
    assert_true(t.n > 10);
    for (int64_t i = 0; i < t.n; i++) {
        const struct pdl_event *e = &t.events[i];

        assert_true(e->start_s >= -1e-12 && e->seconds > 0);
        busy += e->seconds;
    }
    for (int k = 0; k < p->nstages; k++) {
        no_overlap(p, &t, k, false, strategy);
        no_overlap(p, &t, k, true, strategy);
    }
    if (fabs(longest_lane(p, &t) - x.step_s) > 1e-9 * x.step_s)
        fail_msg("%s, %s: the longest lane takes %.9g, the step %.9g", model,
                 strategy, longest_lane(p, &t), x.step_s);
    if (p->nstages == 1 && without)
        assert_true(fabs(busy - x.compute_s - x.comm_s) < 1e-9 * busy);
    else /* what hides an exchange is slower for it; other lanes work too */
        assert_true(busy > (x.compute_s + x.comm_s) * (1 - 1e-9));
    pdl_arena_destroy(a);
}

static void the_timeline_is_the_price(void **state)
{
    static const struct {
        const char *model, *strategy;
        int64_t batch;
    } cases[] = {
        {"lenet5", "data=2", 8},
        {"resnet50", "data=8", 64},
        {"resnet50", "data=4,overlap=off", 64},
        {"resnet50", "data=2,spatial=2", 16},
        {"vgg16", "data=4,filter=4", 64},
        {"vgg16", "data=2,accumulate=4", 64},
        {"vgg16", "pipe=4(gpipe,m=4)", 64},
        {"resnet50", "pipe=4(1f1b,m=8),data=2", 64},
        /* the first stage has the vocabulary: more to exchange and update */
        {"gpt2", "pipe=4(1f1b,m=8),data=4", 64},
        {"gpt2", "pipe=4(gpipe,m=8),data=4,overlap=off", 64},
        {"gpt2", "pipe=2(interleaved,v=2,m=8),data=4", 64},
        {"gpt2", "pipe=4(1f1b,m=8),data=4,zero=1", 64},
        {"gpt2", "data=8,zero=1", 64}, /* gathers weights last */
        {"gpt2", "data=8,zero=2,overlap=off", 64},
        {"gpt2", "data=8,zero=3", 64},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check(cases[i].model, cases[i].strategy, cases[i].batch, NULL);
        check(cases[i].model, cases[i].strategy, cases[i].batch,
              "interference");
    }
    /* between the two tasks of a backward that an exchange slows lie others */
    check("gpt2", "pipe=4(zb-h1,m=8),data=4", 64, "interference");
    check("gpt2", "pipe=4(zb-h2,m=8),data=4", 64, "interference");
    check("gpt2", "pipe=4(zb-v,m=8),data=4", 64, "interference");
}

static struct pdl_projection price(const char *strategy, double held,
                                   bool without)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    const struct pdl_plan *p = lower(a, "resnet50", strategy, 128);
    struct pdl_system sys = open_system(a, "abci-v100");
    struct pdl_oracle_options opt = {.precision = PDL_PREC_FP32};
    struct pdl_projection x = {.pes = 0};

    if (without)
        assert_int_equal(pdl_effect_find("interference", &opt.without, NULL),
                         PDL_OK);
    sys.pe.interference = held;
    assert_int_equal(pdl_project(p, &sys, &opt, &x, NULL), PDL_OK);
    pdl_arena_destroy(a);
    return x;
}

/* Overlap on, off, and with interference: what hides an exchange loses a part
 * of the PE for as long as it hides it, no more. */
static void a_hidden_exchange_slows_what_hides_it(void **state)
{
    struct pdl_projection free_way = price("data=8", .16, true);
    struct pdl_projection some = price("data=8", .16, false);
    struct pdl_projection more = price("data=8", .32, false);
    struct pdl_projection off = price("data=8,overlap=off", .16, false);

    (void)state;
    assert_true(price("data=8", 0, false).step_s == free_way.step_s);
    assert_true(free_way.step_s < some.step_s && some.step_s < more.step_s &&
                more.step_s < off.step_s);
    assert_true(some.step_s <=
                free_way.step_s + .16 / (1 - .16) * free_way.gradient_comm_s);
    assert_true(some.compute_s == free_way.compute_s);
    assert_true(off.step_s == price("data=8,overlap=off", .16, true).step_s);
    /* only the last of several micro-batches hides it */
    assert_true(price("data=8,accumulate=4", .16, false).step_s -
                    price("data=8,accumulate=4", .16, true).step_s <=
                .16 / (1 - .16) * free_way.gradient_comm_s * (1 + 1e-9));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_timeline_is_the_price),
        cmocka_unit_test(a_hidden_exchange_slows_what_hides_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
