/* The trainer that clients are lent: short batches, what pulls at gradients,
 * distillation, and networks that are trained together. */
#include "fed/cluster.h"
#include "fed/learner.h"
#include "small.h"

#include <math.h>

struct world {
    struct small s;
    fed_learner *l;
    int64_t n;
    float *w, *start, *other;
};

static void open_with(struct world *x, struct fed_learner_options o, bool norm)
{
    struct pdl_err err = {"", ""};

    small_open(&x->s, 64, norm, "iid", 1);
    o.seed = 5;
    o.optimizer = o.optimizer ? o.optimizer : "sgd:momentum=0.9";
    o.model = x->s.model;
    o.io = x->s.io;
    if (fed_learner_open(&o, &x->l, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    x->n = fed_learner_size(x->l);
    x->w = calloc((size_t)x->n, sizeof x->w[0]);
    x->start = calloc((size_t)x->n, sizeof x->w[0]);
    x->other = calloc((size_t)x->n, sizeof x->w[0]);
    assert_int_equal(fed_learner_start(x->l, x->start, &err), PDL_OK);
}

static void open_world(struct world *x, int64_t batch, bool norm, bool distils,
                       int parts)
{
    struct fed_learner_options o = {
        .batch = batch, .distils = distils, .parts = parts};

    open_with(x, o, norm);
}

static void close_world(struct world *x)
{
    fed_learner_close(x->l);
    small_close(&x->s);
    free(x->w);
    free(x->start);
    free(x->other);
}

static struct fed_grade learn(struct world *x, const struct fed_lesson *how,
                              float *w)
{
    struct fed_grade g;
    struct pdl_err err = {"", ""};

    memcpy(w, x->start, (size_t)x->n * sizeof w[0]);
    assert_int_equal(fed_learner_train(x->l, how, w, &g, &err), PDL_OK);
    assert_false(g.bad);
    return g;
}

static double furthest(const float *a, const float *b, int64_t n)
{
    double most = 0;

    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

static const int64_t ids[] = {4, 9, 2, 33, 17, 60, 8};

/* Five of eight are there: the mean is over five. */
static void a_short_batch_is_the_mean_of_what_is_there(void **state)
{
    struct fed_lesson how = {.ids = ids, .n = 5, .epochs = 1, .lr = 0.5};
    struct world wide, exact;

    (void)state;
    open_world(&wide, 8, false, false, 1);
    open_world(&exact, 5, false, false, 1);
    assert_int_equal(learn(&wide, &how, wide.w).samples, 5);
    learn(&exact, &how, exact.w);
    assert_true(furthest(wide.w, wide.start, wide.n) > 1e-3);
    assert_true(furthest(wide.w, exact.w, wide.n) < 1e-6);
    close_world(&wide);
    close_world(&exact);
}

static void epochs_visit_every_sample_as_often(void **state)
{
    struct fed_lesson how = {.ids = ids, .n = 7, .epochs = 3, .lr = 0.1};
    struct fed_grade g;
    struct world x;

    (void)state;
    open_world(&x, 4, false, false, 1);
    g = learn(&x, &how, x.w);
    assert_int_equal(g.samples, 21);
    assert_int_equal(g.steps, 6);
    how.steps = 5;
    g = learn(&x, &how, x.w);
    assert_int_equal(g.steps, 5);
    close_world(&x);
}

/* Nothing of one client is left for the next. */
static void a_lesson_depends_on_nothing_before_it(void **state)
{
    struct fed_lesson how = {.ids = ids, .n = 7, .epochs = 2, .lr = 0.1};
    struct fed_lesson between = {.ids = ids + 2, .n = 3, .epochs = 4, .lr = 1};
    struct world x;

    (void)state;
    open_world(&x, 4, true, false, 1);
    learn(&x, &how, x.w);
    learn(&x, &between, x.other);
    learn(&x, &how, x.other);
    assert_memory_equal(x.w, x.other, (size_t)x.n * sizeof x.w[0]);
    close_world(&x);
}

/* One step at rate lr: the pull is lr times what it adds. */
static void pulls_are_added_to_the_gradient(void **state)
{
    enum { MOST = 4096 };
    static float add[MOST], stiff[MOST], anchor[MOST];
    struct fed_pull pull = {
        .add = add, .anchor = anchor, .stiff = stiff, .strength = 0.3};
    struct fed_lesson how = {.ids = ids, .n = 6, .steps = 1, .lr = 0.25};
    struct world x;

    (void)state;
    open_world(&x, 6, false, false, 1);
    assert_true(x.n <= MOST);
    learn(&x, &how, x.w);
    for (int64_t i = 0; i < x.n; i++) {
        add[i] = (float)(i % 7) * 0.01F;
        stiff[i] = (float)(i % 3);
        anchor[i] = (float)(i % 5) * 0.1F;
        x.w[i] -= 0.25F * (add[i] + 0.3F * stiff[i] * (x.start[i] - anchor[i]));
    }
    how.pull = &pull;
    learn(&x, &how, x.other);
    assert_true(furthest(x.other, x.w, x.n) < 1e-6);
    close_world(&x);
}

/* ---- distillation --------------------------------------------------- */

enum { ROWS = 5, WIDTH = 4 };

static double distance(const float *t, const float *s)
{
    double room[4 * ROWS * ROWS];
    float none[ROWS * WIDTH] = {0};

    return fed_distil(ROWS, WIDTH, t, s, 0, room, none);
}

static void the_gradient_of_distillation_is_its_slope(void **state)
{
    float t[ROWS * WIDTH], s[ROWS * WIDTH], dz[ROWS * WIDTH] = {0};
    double room[4 * ROWS * ROWS], loss;
    struct pdl_rng rng = {.key = 3};

    (void)state;
    for (int i = 0; i < ROWS * WIDTH; i++) {
        t[i] = (float)pdl_rng_unit(&rng);
        s[i] = (float)pdl_rng_unit(&rng);
    }
    loss = fed_distil(ROWS, WIDTH, t, s, 2, room, dz);
    assert_true(loss > 0);
    for (int i = 0; i < ROWS * WIDTH; i++) {
        float was = s[i];
        double up, down, h = 1e-3;

        s[i] = (float)((double)was + h);
        up = distance(t, s);
        s[i] = (float)((double)was - h);
        down = distance(t, s);
        s[i] = was;
        assert_true(fabs(2 * (up - down) / (2 * h) - (double)dz[i]) <
                    2e-2 * (1 + fabs((double)dz[i])));
    }
    /* who agrees has nothing to learn */
    memset(dz, 0, sizeof dz);
    assert_true(fabs(fed_distil(ROWS, WIDTH, t, t, 1, room, dz)) < 1e-9);
    for (int i = 0; i < ROWS * WIDTH; i++)
        assert_true(fabsf(dz[i]) < 1e-6F);
}

/* In the first step student and teacher are one; then they part, and who is
 * distilled keeps the distances better. */
static void a_distilled_model_stays_closer(void **state)
{
    struct fed_pull pull = {.distil = 0};
    struct fed_lesson how = {
        .ids = ids, .n = 7, .steps = 1, .lr = 0.05, .pull = &pull};
    double room[4 * 7 * 7], away[2];
    float none[7 * 12];
    struct world x;

    (void)state;
    open_world(&x, 7, false, true, 1);
    learn(&x, &how, x.w);
    pull.distil = 1;
    learn(&x, &how, x.other);
    assert_true(furthest(x.w, x.other, x.n) < 1e-6);
    how.steps = 40;
    for (int k = 0; k < 2; k++) {
        pull.distil = k ? 1 : 1e-9;
        learn(&x, &how, x.w);
        away[k] = fed_distil(7, 12, x.l->net[0].taught, x.l->net[0].features, 0,
                             room, none);
    }
    assert_true(away[0] > 1e-3);
    assert_true(away[1] < 0.5 * away[0]);
    close_world(&x);
}

/* ---- networks that are trained together ----------------------------- */

static double divergence(const float *logits)
{
    float none[6] = {0};

    return fed_together(3, 0, 2, 3, logits, 6, 0, none);
}

static void the_gradient_of_agreement_is_its_slope(void **state)
{
    float y[3 * 6]; /* three parts, two samples, three classes */
    struct pdl_rng rng = {.key = 9};

    (void)state;
    for (int i = 0; i < 18; i++)
        y[i] = (float)(4 * pdl_rng_unit(&rng) - 2);
    for (int part = 0; part < 3; part++) {
        float d[6] = {0};

        fed_together(3, part, 2, 3, y, 6, 1.5, d);
        for (int i = 0; i < 6; i++) {
            float *at = &y[part * 6 + i], was = *at;
            double up, down, h = 1e-3;

            *at = (float)((double)was + h);
            up = divergence(y);
            *at = (float)((double)was - h);
            down = divergence(y);
            *at = was;
            assert_true(fabs(1.5 * (up - down) / (2 * h) - (double)d[i]) <
                        1e-3);
        }
    }
    memcpy(y + 6, y, 6 * sizeof y[0]);
    memcpy(y + 12, y, 6 * sizeof y[0]);
    assert_true(fabs(divergence(y)) < 1e-9);
}

/* The very first weights of every part learn: nothing is detached. */
static void every_part_learns_down_to_its_stem(void **state)
{
    struct fed_lesson how = {
        .ids = ids, .n = 7, .epochs = 2, .lr = 0.1, .together = 0.5};
    struct world x;
    int64_t each;

    (void)state;
    open_world(&x, 4, true, false, 3);
    each = x.n / 3;
    learn(&x, &how, x.w);
    for (int part = 0; part < 3; part++) /* conv1.weight comes first */
        assert_true(furthest(x.w + part * each, x.start + part * each, 36) >
                    1e-5);
    assert_true(furthest(x.start, x.start + each, each) > 1e-3);
    learn(&x, &how, x.other); /* threads change nothing */
    assert_memory_equal(x.w, x.other, (size_t)x.n * sizeof x.w[0]);
    how.together = 0;
    learn(&x, &how, x.other);
    assert_true(furthest(x.w, x.other, x.n) > 1e-6);
    close_world(&x);
}

/* Stems elsewhere, their results and gradients sent: the same bits, also where
 * stems share a memory and are computed again. */
static void split_parts_are_the_whole_ones(void **state)
{
    static const enum fed_stems ways[] = {FED_STEMS_WHOLE, FED_STEMS_KEPT,
                                          FED_STEMS_AGAIN};
    struct fed_lesson how = {
        .ids = ids, .n = 7, .epochs = 3, .lr = 0.1, .together = 0.5};
    struct fed_learner_options o = {.batch = 4, .parts = 3};
    int64_t memory[3], stem = (int64_t)4 * (SIDE / 2) * (SIDE / 2);
    struct world x[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        o.stems = ways[i];
        open_with(&x[i], o, true);
        memory[i] = fed_learner_memory(x[i].l);
        learn(&x[i], &how, x[i].other);
        learn(&x[i], &how, x[i].w);
        assert_int_equal(fed_learner_stem(x[i].l), stem);
        /* twice six steps of four samples, there and back, of three parts */
        assert_int_equal(fed_learner_moved(x[i].l),
                         i == 0 ? 0 : 2 * 6 * 4 * 3 * 2 * 4 * stem);
        assert_int_equal(x[i].n, x[0].n);
        assert_memory_equal(x[i].start, x[0].start,
                            (size_t)x[0].n * sizeof(float));
        assert_memory_equal(x[i].w, x[0].w, (size_t)x[0].n * sizeof(float));
        assert_memory_equal(x[i].w, x[i].other, (size_t)x[0].n * sizeof(float));
    }
    assert_true(memory[2] < memory[1]);
    for (int i = 0; i < 3; i++)
        close_world(&x[i]);
}

/* Devices that are several and share the samples: parts as of one device each,
 * up to the order of sums. */
static void parts_may_have_several_devices(void **state)
{
    static const char *const strategy[] = {
        NULL, "data=2,bn=sync", "data=4,bn=sync", "data=2,zero=1,bn=sync"};
    enum { N = sizeof strategy / sizeof strategy[0] };
    static const enum fed_stems ways[] = {FED_STEMS_KEPT, FED_STEMS_WHOLE};
    struct fed_lesson how = {
        .ids = ids, .n = 7, .epochs = 3, .lr = 0.1, .together = 0.5};
    struct fed_learner_options o = {.batch = 4, .parts = 3};
    struct world x[N];

    (void)state;
    for (int w = 0; w < 2; w++) {
        for (int i = 0; i < N; i++) {
            o.stems = ways[w];
            o.strategy = strategy[i];
            open_with(&x[i], o, true);
            learn(&x[i], &how, x[i].w);
            learn(&x[i], &how, x[i].other);
            assert_memory_equal(x[i].w, x[i].other,
                                (size_t)x[i].n * sizeof(float));
            assert_int_equal(x[i].n, x[0].n);
            if (furthest(x[i].w, x[0].w, x[0].n) > 1e-5)
                fail_msg("%s: %g", strategy[i],
                         furthest(x[i].w, x[0].w, x[0].n));
        }
        how.together = 0;
        learn(&x[1], &how, x[1].other);
        assert_true(furthest(x[1].w, x[1].other, x[1].n) > 1e-5);
        how.together = 0.5;
        for (int i = 0; i < N; i++)
            close_world(&x[i]);
    }
}

/* ---- a client of several devices ------------------------------------ */

static void a_strategy_trains_the_same_model(void **state)
{
    enum { MOST = 4096 };
    static float add[MOST], squares[2][MOST];
    static const char *const how[] = {
        "data=2",
        "data=4",
        "filter=2",
        "pipe=2",
        "channel=2",
        "data=2,bn=sync",
        "spatial=2",
        "data=2,zero=1",
        "data=4,zero=2",
        "data=2,filter=2,zero=1",
        "data=2,zero=3",
        "data=2,offload=optimizer",
        "data=2,zero=1,offload=optimizer",
        "pipe=2(m=2)",
        "data=2,compress=lossless",
    };
    struct fed_pull pull = {.add = add, .strength = 0.3};
    struct fed_lesson lesson = {
        .ids = ids, .n = 7, .epochs = 2, .lr = 0.1, .pull = &pull};
    struct world one, many;

    (void)state;
    for (int i = 0; i < MOST; i++)
        add[i] = (float)(i % 7) * 0.01F;
    for (int k = 0; k < (int)(sizeof how / sizeof how[0]); k++) {
        struct fed_learner_options o = {.batch = 4};
        bool sync = strstr(how[k], "sync") != NULL;

        open_with(&one, o, sync);
        o.strategy = how[k];
        open_with(&many, o, sync);
        assert_int_equal(one.n, many.n);
        assert_true(furthest(one.start, many.start, one.n) == 0);
        pull.anchor = one.start;
        memset(squares, 0, sizeof squares);
        pull.squares = squares[0];
        learn(&one, &lesson, one.w);
        pull.squares = squares[1];
        learn(&many, &lesson, many.w);
        assert_true(furthest(one.start, one.w, one.n) > 1e-2);
        if (furthest(one.w, many.w, one.n) > 1e-5)
            fail_msg("%s: %g", how[k], furthest(one.w, many.w, one.n));
        assert_true(furthest(squares[0], squares[1], one.n) < 1e-5);
        learn(&many, &lesson, many.other);
        assert_memory_equal(many.w, many.other, (size_t)many.n * sizeof(float));
        close_world(&one);
        close_world(&many);
    }
}

/* An optimizer that looks at norms first sees them with what was added. */
static void norms_are_of_what_was_pulled(void **state)
{
    static const char *const how[] = {"data=1", "data=2", "data=2,zero=1",
                                      "data=2,offload=optimizer"};
    enum { MOST = 4096, N = sizeof how / sizeof how[0] };
    static float add[MOST];
    struct fed_pull pull = {.add = add};
    struct fed_lesson lesson = {
        .ids = ids, .n = 7, .epochs = 2, .lr = 0.1, .pull = &pull};
    struct world x[N];

    (void)state;
    for (int i = 0; i < MOST; i++)
        add[i] = (float)(i % 7) * 0.3F;
    for (int k = 0; k < N; k++) {
        struct fed_learner_options o = {
            .batch = 4, .optimizer = "lamb", .strategy = how[k]};

        open_with(&x[k], o, false);
        learn(&x[k], &lesson, x[k].w);
        if (furthest(x[0].w, x[k].w, x[0].n) > 1e-5)
            fail_msg("%s: %g", how[k], furthest(x[0].w, x[k].w, x[0].n));
    }
    for (int k = 0; k < N; k++)
        close_world(&x[k]);
}

/* What is not sent of one client's gradients is not the next one's, and what
 * an algorithm adds is not compressed. */
static void compressed_sums_begin_with_every_client(void **state)
{
    static const char *const how[] = {
        "data=2,compress=int8", "data=2,compress=topk:0.1",
        "data=2,compress=powersgd:2", "data=2,compress=sign"};
    enum { MOST = 4096 };
    static float add[MOST];
    struct fed_pull pull = {.add = add};
    struct fed_lesson lesson = {
        .ids = ids, .n = 7, .epochs = 3, .lr = 0.1, .pull = &pull};
    struct fed_lesson between = {.ids = ids + 2, .n = 3, .steps = 5, .lr = 1};
    struct fed_lesson step = {.ids = ids, .n = 4, .steps = 1, .lr = 0.1};
    struct world x, whole;

    (void)state;
    for (int i = 0; i < MOST; i++)
        add[i] = (float)(i % 7) * 0.01F;
    for (int k = 0; k < (int)(sizeof how / sizeof how[0]); k++) {
        struct fed_learner_options o = {.batch = 4, .strategy = "data=2"};

        open_with(&whole, o, false);
        o.strategy = how[k];
        open_with(&x, o, false);
        learn(&x, &lesson, x.w);
        learn(&x, &between, x.other);
        learn(&x, &lesson, x.other);
        assert_memory_equal(x.w, x.other, (size_t)x.n * sizeof(float));
        learn(&whole, &lesson, whole.w);
        assert_true(furthest(x.w, whole.w, x.n) > 1e-5);
        step.pull = NULL;
        learn(&x, &step, x.w);
        step.pull = &pull;
        learn(&x, &step, x.other);
        for (int64_t i = 0; i < x.n; i++)
            x.w[i] -= 0.1F * add[i];
        assert_true(furthest(x.w, x.other, x.n) < 1e-6);
        close_world(&x);
        close_world(&whole);
    }
}

static void several_devices_distil_alike(void **state)
{
    struct fed_pull pull = {.distil = 1};
    struct fed_lesson how = {
        .ids = ids, .n = 7, .steps = 12, .lr = 0.1, .pull = &pull};
    struct fed_learner_options o = {.batch = 4, .distils = true};
    struct pdl_err err = {"", ""};
    struct world one, two;
    fed_learner *none;

    (void)state;
    open_with(&one, o, false);
    o.strategy = "data=2";
    open_with(&two, o, false);
    learn(&one, &how, one.w);
    learn(&two, &how, two.w);
    assert_true(furthest(one.w, two.w, one.n) < 1e-5);
    pull.distil = 0;
    learn(&one, &how, one.other);
    assert_true(furthest(one.w, one.other, one.n) > 1e-4);
    o.model = one.s.model;
    o.io = one.s.io;
    o.strategy = "pipe=2";
    assert_int_equal(fed_learner_open(&o, &none, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "data=2"));
    close_world(&one);
    close_world(&two);
}

static void what_a_client_cannot_have_is_refused(void **state)
{
    static const struct {
        const char *strategy;
        int parts;
        const char *text;
    } cases[] = {
        {"data=2", 2, "turns in the memory"},
        {"filter=2", 2, "cuts samples alone"},
        {"data=5", 1, "5"},
        {"dataa=2", 1, "dataa"},
    };
    struct small s;

    (void)state;
    small_open(&s, 64, false, "iid", 1);
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        struct fed_learner_options o = {.model = s.model,
                                        .io = s.io,
                                        .batch = 4,
                                        .strategy = cases[i].strategy,
                                        .parts = cases[i].parts};
        struct pdl_err err = {"", ""};
        fed_learner *l;

        if (fed_learner_open(&o, &l, &err) == PDL_OK)
            fail_msg("%s is taken", cases[i].strategy);
        if (!strstr(err.msg, cases[i].text))
            fail_msg("%s: %s", cases[i].strategy, err.msg);
    }
    small_close(&s);
}

/* ---- votes ---------------------------------------------------------- */

static void a_vote_is_by_the_mean_of_logits(void **state)
{
    double loss, right[100], sum = 0, alone[100];
    struct pdl_err err = {"", ""};
    struct world three, one;

    (void)state;
    open_world(&three, 4, false, false, 3);
    open_world(&one, 4, false, false, 1);
    for (int part = 1; part < 3; part++) /* three times the same */
        memcpy(three.start + part * one.n, three.start,
               (size_t)one.n * sizeof(float));
    assert_int_equal(
        fed_learner_test(three.l, three.start, 30, 100, &loss, right, &err),
        PDL_OK);
    assert_int_equal(
        fed_learner_test(one.l, three.start, 30, 100, &sum, alone, &err),
        PDL_OK);
    assert_true(fabs(loss - sum) < 1e-3);
    for (int i = 0; i < 100; i++)
        assert_true(right[i] == alone[i]);
    close_world(&three);
    close_world(&one);
}

/* A weight that is no number spoils one part; all end. */
static void a_bad_part_ends_them_all(void **state)
{
    struct fed_lesson how = {.ids = ids, .n = 7, .epochs = 2, .lr = 0.1};
    struct pdl_err err = {"", ""};
    struct fed_grade g;
    struct world x;

    (void)state;
    open_world(&x, 4, false, false, 3);
    memcpy(x.w, x.start, (size_t)x.n * sizeof x.w[0]);
    x.w[x.n / 3 + 1] = NAN;
    assert_int_equal(fed_learner_train(x.l, &how, x.w, &g, &err), PDL_OK);
    assert_true(g.bad);
    close_world(&x);
}

/* Two ranks have a part each. The second's weights become infinite in the last
 * step, which the first could not know by itself. */
static enum pdl_status learn_in_a_team(void *ctx, pdl_comm *comm,
                                       struct pdl_err *err)
{
    enum { MOST = 8192 };
    static float add[MOST];
    struct fed_pull pull = {.add = add};
    struct fed_lesson how = {
        .ids = ids, .n = 4, .steps = 1, .lr = 0.1, .pull = &pull};
    struct fed_learner_options o = {.batch = 4, .parts = 2, .team = comm};
    bool *bad = ctx;
    struct fed_grade g;
    struct world x;

    open_with(&x, o, false);
    assert_true(x.n <= MOST);
    add[x.n - 1] = bad[2] ? INFINITY : 0;
    memcpy(x.w, x.start, (size_t)x.n * sizeof x.w[0]);
    assert_int_equal(fed_learner_train(x.l, &how, x.w, &g, err), PDL_OK);
    bad[pdl_comm_rank(comm)] = g.bad;
    close_world(&x);
    return PDL_OK;
}

static void a_bad_device_is_known_to_all(void **state)
{
    struct pdl_err err = {"", ""};

    (void)state;
    for (int i = 0; i < 2; i++) {
        bool bad[3] = {!i, !i, i}; /* of each rank; what shall be */

        assert_int_equal(pdl_train_virtual(2, 60, learn_in_a_team, bad, &err),
                         PDL_OK);
        assert_true(bad[0] == bad[2] && bad[1] == bad[2]);
    }
}

/* ---- clusters ------------------------------------------------------- */

static void alike_clients_are_one_cluster(void **state)
{
    enum { N = 6 };
    double sum[N * N], count[N * N];
    void *room = malloc(sizeof sum);
    struct fed_likeness x = {N, sum, count};
    static const int32_t of[N] = {0, 1, 0, 2, 1, 0};
    uint8_t a[N * N];
    int32_t label[N];

    (void)state;
    for (int i = 0; i < N * N; i++) {
        count[i] = 2;
        sum[i] = i / N == i % N ? 2 : of[i / N] == of[i % N] ? 1.98 : 0.4;
    }
    for (int way = 0; way < 2; way++) {
        fed_likeness_join(&x, way ? 0 : 0.5, room, a);
        assert_int_equal(fed_likeness_label(&x, a, label), 3);
        for (int i = 0; i < N; i++)
            assert_int_equal(label[i], of[i]);
    }
    /* less alike in one cluster than in the other: a gap, but no wide one */
    sum[1 * N + 4] = sum[4 * N + 1] = 1.6;
    fed_likeness_join(&x, 0, room, a);
    assert_int_equal(fed_likeness_label(&x, a, label), 3);
    assert_int_equal(label[4], label[1]);
    /* clients 0 and 5 never met, but both met 2 */
    count[5] = count[(int64_t)5 * N] = 0;
    fed_likeness_join(&x, 0, room, a);
    assert_true(a[5] && a[(int64_t)5 * N]);
    /* nobody knows client 3 */
    for (int i = 0; i < N; i++)
        count[3 * N + i] = count[i * N + 3] = 0;
    fed_likeness_join(&x, 0, room, a);
    assert_int_equal(fed_likeness_label(&x, a, label), 2);
    assert_int_equal(label[3], -1);
    free(room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_batch_is_the_mean_of_what_is_there),
        cmocka_unit_test(epochs_visit_every_sample_as_often),
        cmocka_unit_test(a_lesson_depends_on_nothing_before_it),
        cmocka_unit_test(pulls_are_added_to_the_gradient),
        cmocka_unit_test(the_gradient_of_distillation_is_its_slope),
        cmocka_unit_test(a_distilled_model_stays_closer),
        cmocka_unit_test(the_gradient_of_agreement_is_its_slope),
        cmocka_unit_test(every_part_learns_down_to_its_stem),
        cmocka_unit_test(split_parts_are_the_whole_ones),
        cmocka_unit_test(parts_may_have_several_devices),
        cmocka_unit_test(a_strategy_trains_the_same_model),
        cmocka_unit_test(norms_are_of_what_was_pulled),
        cmocka_unit_test(compressed_sums_begin_with_every_client),
        cmocka_unit_test(several_devices_distil_alike),
        cmocka_unit_test(what_a_client_cannot_have_is_refused),
        cmocka_unit_test(a_vote_is_by_the_mean_of_logits),
        cmocka_unit_test(a_bad_part_ends_them_all),
        cmocka_unit_test(a_bad_device_is_known_to_all),
        cmocka_unit_test(alike_clients_are_one_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
