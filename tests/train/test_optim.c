/* Optimizers against formulas written down again here, one element at a time
 * with other variables than the library's; shards against the whole. */
#include "calls.h"
#include "train/optim/optim.h"

enum { N = 700, STEPS = 5 };

static double grad(int64_t i, int64_t t)
{
    return unit(1, (uint64_t)t, i) - 0.4;
}

static double start(int64_t i)
{
    return unit(2, 0, i) - 0.5;
}

struct run {
    double w[N];
};

/* ---- the formulas ----------------------------------------------------------- */

static void plain_sgd(const struct train_hyper *h, double lr, struct run *r)
{
    for (int64_t i = 0; i < N; i++) {
        double w = start(i), buf = 0;

        for (int t = 1; t <= STEPS; t++) {
            double g = grad(i, t) + h->weight_decay * w;

            buf = t == 1 ? g : h->momentum * buf + (1 - h->dampening) * g;
            w -= lr * (h->nesterov ? g + h->momentum * buf : buf);
        }
        r->w[i] = w;
    }
}

static void plain_adam(const struct train_hyper *h, double lr, bool decoupled,
                       struct run *r)
{
    for (int64_t i = 0; i < N; i++) {
        double w = start(i), m = 0, v = 0;

        for (int t = 1; t <= STEPS; t++) {
            double g = grad(i, t);

            if (decoupled)
                w *= 1 - lr * h->weight_decay;
            else
                g += h->weight_decay * w;
            m += (1 - h->beta1) * (g - m);
            v += (1 - h->beta2) * (g * g - v);
            w -= lr * (m / (1 - pow(h->beta1, t))) /
                 (sqrt(v / (1 - pow(h->beta2, t))) + h->eps);
        }
        r->w[i] = w;
    }
}

static void plain_lars(const struct train_hyper *h, double lr, struct run *r)
{
    static double v[N];

    memset(v, 0, sizeof v);
    for (int64_t i = 0; i < N; i++)
        r->w[i] = start(i);
    for (int t = 1; t <= STEPS; t++) {
        double ww = 0, gg = 0, local;

        for (int64_t i = 0; i < N; i++) {
            ww += r->w[i] * r->w[i];
            gg += grad(i, t) * grad(i, t);
        }
        local = h->trust * sqrt(ww) / (sqrt(gg) + h->weight_decay * sqrt(ww));
        for (int64_t i = 0; i < N; i++) {
            v[i] = h->momentum * v[i] +
                   lr * local * (grad(i, t) + h->weight_decay * r->w[i]);
            r->w[i] -= v[i];
        }
    }
}

static void plain_lamb(const struct train_hyper *h, double lr, struct run *r)
{
    static double m[N], v[N], u[N];

    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    for (int64_t i = 0; i < N; i++)
        r->w[i] = start(i);
    for (int t = 1; t <= STEPS; t++) {
        double ww = 0, uu = 0;

        for (int64_t i = 0; i < N; i++) {
            m[i] = h->beta1 * m[i] + (1 - h->beta1) * grad(i, t);
            v[i] = h->beta2 * v[i] + (1 - h->beta2) * pow(grad(i, t), 2);
            u[i] = m[i] / (1 - pow(h->beta1, t)) /
                       (sqrt(v[i] / (1 - pow(h->beta2, t))) + h->eps) +
                   h->weight_decay * r->w[i];
            ww += r->w[i] * r->w[i];
            uu += u[i] * u[i];
        }
        for (int64_t i = 0; i < N; i++)
            r->w[i] -= lr * sqrt(ww / uu) * u[i];
    }
}

/* ---- the library, in `parts` shards ------------------------------------------ */

static void library(const struct train_optimizer *o,
                    const struct train_hyper *h, double lr, enum pdl_dtype type,
                    int parts, struct run *r)
{
    size_t size = type == PDL_F64 ? 8 : 4;
    struct train_array a = {.dtype = type, .box = {.ndims = 1}};
    struct value w, g, s[2];

    a.box.hi[0] = N;
    w = value_of(&a);
    g = value_of(&a);
    s[0] = value_of(&a);
    s[1] = value_of(&a);
    for (int64_t i = 0; i < N; i++)
        put(&w, i, start(i));
    for (int t = 1; t <= STEPS; t++) {
        struct train_step step = {t, lr, 0.25};
        double sums[TRAIN_NORMS] = {0};

        for (int64_t i = 0; i < N; i++)
            put(&g, i, 4 * grad(i, t)); /* as with a loss scale of 4 */
        for (int phase = 0; phase < 2; phase++)
            for (int p = 0; p < parts; p++) {
                int64_t lo, hi;
                struct train_shard x = {.dtype = type, .grad_dtype = type};

                pdl_split(N, 1, parts, p, &lo, &hi);
                x.n = hi - lo;
                x.w = (char *)w.at + (size_t)lo * size;
                x.g = (char *)g.at + (size_t)lo * size;
                for (int k = 0; k < 2; k++)
                    x.state[k] = (char *)s[k].at + (size_t)lo * size;
                if (phase == 0 && o->norms)
                    o->norms(h, &step, &x, sums);
                if (phase == 1)
                    o->apply(h, &step, &x, sums);
            }
    }
    for (int64_t i = 0; i < N; i++)
        r->w[i] = get(&w, i);
    free(w.at);
    free(g.at);
    free(s[0].at);
    free(s[1].at);
}

static void same(const char *name, const struct run *a, const struct run *b,
                 double most)
{
    for (int64_t i = 0; i < N; i++)
        if (!(fabs(a->w[i] - b->w[i]) <= most)) {
            print_error("%s: element %d is %.9g, not %.9g\n", name, (int)i,
                        b->w[i], a->w[i]);
            fail();
        }
}

static void formulas(const char *name, const struct train_hyper *h, double lr,
                     struct run *r)
{
    if (strcmp(name, "sgd") == 0)
        plain_sgd(h, lr, r);
    else if (strncmp(name, "adam", 4) == 0)
        plain_adam(h, lr, strcmp(name, "adamw") == 0, r);
    else if (strcmp(name, "lars") == 0)
        plain_lars(h, lr, r);
    else if (strcmp(name, "lamb") == 0)
        plain_lamb(h, lr, r);
    else
        fail_msg("%s has no formula here", name);
}

static void optimizers_follow_their_formulas(void **state)
{
    struct run want, have, parts;

    (void)state;
    for (int i = 0; train_optimizer_at(i); i++) {
        const struct train_optimizer *o = train_optimizer_at(i);

        for (int variant = 0; variant < 3; variant++) {
            struct train_hyper h = o->defaults;

            h.weight_decay = variant == 0 ? 0 : 0.02;
            h.nesterov = variant == 2;
            h.dampening = variant == 1 ? 0.3 : 0;
            formulas(o->name, &h, 0.05, &want);
            library(o, &h, 0.05, PDL_F64, 1, &have);
            same(o->name, &want, &have, 1e-12);
            library(o, &h, 0.05, PDL_F64, 3, &parts);
            same(o->name, &have, &parts, o->norms ? 1e-13 : 0);
            library(o, &h, 0.05, PDL_F32, 1, &have);
            same(o->name, &want, &have, 3e-6);
        }
    }
}

static void no_momentum_is_plain_descent(void **state)
{
    const struct train_optimizer *o = train_optimizer_find("sgd");
    struct train_hyper h = {0};
    struct run have;

    (void)state;
    library(o, &h, 0.5, PDL_F64, 1, &have);
    for (int64_t i = 0; i < N; i++) {
        double w = start(i);

        for (int t = 1; t <= STEPS; t++)
            w -= 0.5 * grad(i, t);
        assert_true(fabs(w - have.w[i]) < 1e-14);
    }
}

static void a_copy_in_bfloat16_is_rounded_to_even(void **state)
{
    static const float w[] = {1.0f, 1.00390625f, 1.01171875f, -3.14159f,
                              3.0e38f};
    static const uint16_t want[] = {0x3f80, 0x3f80, 0x3f82, 0xc049, 0x7f62};
    float mine[5], g[5] = {0};
    uint16_t copy[5];
    struct train_shard x = {.n = 5,
                            .dtype = PDL_F32,
                            .grad_dtype = PDL_F32,
                            .w = mine,
                            .g = g,
                            .copy = copy};
    struct train_step s = {1, 0.1, 1};
    struct train_hyper h = {0};

    (void)state;
    memcpy(mine, w, sizeof w);
    train_optimizer_find("sgd")->apply(&h, &s, &x, NULL);
    assert_memory_equal(mine, w, sizeof w);
    assert_memory_equal(copy, want, sizeof want);
}

static void clipping_bounds_the_norm(void **state)
{
    float g[] = {3, 4};
    struct train_shard x = {.n = 2, .grad_dtype = PDL_F32, .g = g};

    (void)state;
    assert_true(train_grad_squares(&x) == 25);
    assert_true(fabs(train_clip_factor(25, 1) - 0.2) < 1e-6);
    assert_true(train_clip_factor(25, 1) * 5 <= 1);
    assert_true(train_clip_factor(25, 6) == 1);
    assert_true(train_clip_factor(25, 0) == 1);
}

static void loss_scale_halves_and_doubles(void **state)
{
    struct train_scaler s;

    (void)state;
    train_scaler_init(&s, 1024, 2);
    assert_true(train_scaler_next(&s, 1) && s.scale == 1024);
    assert_true(train_scaler_next(&s, 1) && s.scale == 2048);
    assert_false(train_scaler_next(&s, INFINITY));
    assert_true(s.scale == 1024);
    assert_false(train_scaler_next(&s, NAN));
    assert_true(s.scale == 512);
    train_scaler_init(&s, 8, 0);
    assert_false(train_scaler_next(&s, NAN));
    assert_true(s.scale == 8);
}

static void schedules_pass_known_points(void **state)
{
    static const struct {
        struct train_schedule s;
        int64_t t;
        double rate;
    } cases[] = {
        {{TRAIN_CONSTANT, 0.4, 0, 4, 100, 0, 0, 0}, 1, 0.1},
        {{TRAIN_CONSTANT, 0.4, 0, 4, 100, 0, 0, 0}, 4, 0.4},
        {{TRAIN_CONSTANT, 0.4, 0, 4, 100, 0, 0, 0}, 99, 0.4},
        {{TRAIN_STEPS, 1, 0, 0, 0, 10, 0.5, 0}, 10, 1},
        {{TRAIN_STEPS, 1, 0, 0, 0, 10, 0.5, 0}, 11, 0.5},
        {{TRAIN_STEPS, 1, 0, 0, 0, 10, 0.5, 0}, 21, 0.25},
        {{TRAIN_COSINE, 1, 0.2, 0, 10, 0, 0, 0}, 1, 1},
        {{TRAIN_COSINE, 1, 0.2, 0, 10, 0, 0, 0}, 6, 0.6},
        {{TRAIN_COSINE, 1, 0.2, 0, 10, 0, 0, 0}, 11, 0.2},
        {{TRAIN_COSINE, 1, 0.2, 0, 10, 0, 0, 0}, 500, 0.2},
        {{TRAIN_POLYNOMIAL, 1, 0, 0, 10, 0, 0, 2}, 6, 0.25},
        {{TRAIN_POLYNOMIAL, 1, 0, 5, 15, 0, 0, 0}, 11, 0.5},
    };
    enum train_schedule_kind k;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(fabs(train_schedule_rate(&cases[i].s, cases[i].t) -
                         cases[i].rate) < 1e-12);
    assert_true(train_schedule_find("cosine", &k) && k == TRAIN_COSINE);
    assert_false(train_schedule_find("sine", &k));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_follow_their_formulas),
        cmocka_unit_test(no_momentum_is_plain_descent),
        cmocka_unit_test(a_copy_in_bfloat16_is_rounded_to_even),
        cmocka_unit_test(clipping_bounds_the_norm),
        cmocka_unit_test(loss_scale_halves_and_doubles),
        cmocka_unit_test(schedules_pass_known_points),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
