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

static void open_world(struct world *x, int64_t batch, bool norm, bool distils,
                       int parts)
{
    struct fed_learner_options o = {.batch = batch,
                                    .seed = 5,
                                    .distils = distils,
                                    .parts = parts,
                                    .optimizer = "sgd:momentum=0.9"};
    struct pdl_err err = {"", ""};

    small_open(&x->s, 64, norm, "iid", 1);
    o.model = x->s.model;
    o.io = x->s.io;
    assert_int_equal(fed_learner_open(&o, &x->l, &err), PDL_OK);
    x->n = fed_learner_size(x->l);
    x->w = calloc((size_t)x->n, sizeof x->w[0]);
    x->start = calloc((size_t)x->n, sizeof x->w[0]);
    x->other = calloc((size_t)x->n, sizeof x->w[0]);
    fed_learner_start(x->l, x->start);
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

/* ---- clusters ------------------------------------------------------- */

static void alike_clients_are_one_cluster(void **state)
{
    enum { N = 6 };
    double sum[N * N], count[N * N], room[N * N];
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
        cmocka_unit_test(a_vote_is_by_the_mean_of_logits),
        cmocka_unit_test(a_bad_part_ends_them_all),
        cmocka_unit_test(alike_clients_are_one_cluster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
