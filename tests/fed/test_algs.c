/* Algorithms against their formulas, written down plainly here: a few clients,
 * each of whose steps takes all its samples, so that order does not matter. */
#include "small.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { CLIENTS = 3, N = 522, ROUNDS = 3, STEPS = 2 };
static const double RATE = 0.1;

struct world {
    struct small s;
    fed_learner *l;
    float start[N];
};

static void open_world(struct world *x, const char *partition, int64_t clients)
{
    struct fed_learner_options o = {.batch = 64};
    struct pdl_err err = {"", ""};

    small_open(&x->s, 60, false, partition, clients);
    x->s.job.raw = true;
    x->s.job.steps = STEPS;
    x->s.job.batch = 64;
    x->s.job.rounds = ROUNDS;
    x->s.job.lr = RATE;
    o.model = x->s.model;
    o.io = x->s.io;
    o.seed = x->s.job.seed;
    assert_int_equal(fed_learner_open(&o, &x->l, &err), PDL_OK);
    assert_int_equal(fed_learner_size(x->l), N);
    assert_int_equal(fed_learner_start(x->l, x->start, &err), PDL_OK);
}

static void close_world(struct world *x)
{
    fed_learner_close(x->l);
    small_close(&x->s);
}

/* Trains w by client c, in place. */
static void visit(struct world *x, int c, const struct fed_pull *pull, float *w)
{
    const struct pdl_partition *p = &x->s.job.partition;
    struct fed_lesson how = {.ids = p->sample + p->first[c],
                             .n = p->first[c + 1] - p->first[c],
                             .steps = STEPS,
                             .lr = RATE,
                             .pull = pull};
    struct pdl_err err = {"", ""};
    struct fed_grade g;

    assert_int_equal(fed_learner_train(x->l, &how, w, &g, &err), PDL_OK);
}

static double samples(const struct world *x, int c)
{
    const struct pdl_partition *p = &x->s.job.partition;

    return (double)(p->first[c + 1] - p->first[c]);
}

/* The weights that the algorithm ends with; the file has the header first. */
static void run(struct world *x, const char *algorithm, float *w)
{
    char path[] = "/tmp/paradl-algs-XXXXXX.safetensors";
    struct pdl_fed_summary sum;
    struct pdl_err err = {"", ""};
    FILE *f;
    int fd = mkstemps(path, 12);

    assert_true(fd >= 0);
    close(fd);
    x->s.job.algorithm = algorithm;
    x->s.job.weights_out = path;
    if (small_run(&x->s.job, 2, &sum, &err) != PDL_OK)
        fail_msg("%s: %s", algorithm, err.msg);
    f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, -(long)(N * sizeof w[0]), SEEK_END), 0);
    assert_int_equal(fread(w, sizeof w[0], N, f), N);
    fclose(f);
    unlink(path);
}

/* Tensors are written in the order of their names. */
static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The vector as the file has it. */
static void as_written(const struct world *x, const float *w, float *out)
{
    const char *names[16];
    const struct pdl_train_state *s;
    int64_t at, to = 0;
    int n = 0;

    while ((s = fed_learner_tensor(x->l, n, &at)))
        names[n++] = s->part.name;
    qsort(names, (size_t)n, sizeof names[0], by_name);
    for (int i = 0; i < n; i++)
        for (int k = 0; (s = fed_learner_tensor(x->l, k, &at)); k++)
            if (strcmp(s->part.name, names[i]) == 0) {
                int64_t m = pdl_box_volume(&s->part.box);

                memcpy(out + to, w + at, (size_t)m * sizeof w[0]);
                to += m;
            }
    assert_int_equal(to, N);
}

/* In whichever of the two orders the file is. */
static void compare(struct world *x, const char *algorithm, const double *want)
{
    float got[N], plain[N], sorted[N];
    double off[2] = {0, 0}, moved = 0;

    run(x, algorithm, got);
    for (int i = 0; i < N; i++) {
        plain[i] = (float)want[i];
        moved = fmax(moved, fabs(want[i] - (double)x->start[i]));
    }
    as_written(x, plain, sorted);
    for (int i = 0; i < N; i++) {
        off[0] = fmax(off[0], fabs((double)got[i] - (double)plain[i]));
        off[1] = fmax(off[1], fabs((double)got[i] - (double)sorted[i]));
    }
    assert_true(moved > 1e-3);
    if (fmin(off[0], off[1]) > 3e-6)
        fail_msg("%s: off by %g", algorithm, fmin(off[0], off[1]));
}

static void begin(const struct world *x, double *model)
{
    for (int i = 0; i < N; i++)
        model[i] = (double)x->start[i];
}

static void narrow(const double *model, float *w)
{
    for (int i = 0; i < N; i++)
        w[i] = (float)model[i];
}

/* ---- means -------------------------------------------------------------- */

static void mean_of_visits(struct world *x, double mu, double *model)
{
    float from[N], w[N];
    struct fed_pull pull = {.anchor = from, .strength = mu};
    double sum[N] = {0}, all = 0;

    narrow(model, from);
    for (int c = 0; c < CLIENTS; c++) {
        memcpy(w, from, sizeof w);
        visit(x, c, mu > 0 ? &pull : NULL, w);
        for (int i = 0; i < N; i++)
            sum[i] += samples(x, c) * (double)w[i];
        all += samples(x, c);
    }
    for (int i = 0; i < N; i++)
        model[i] = sum[i] / all;
}

static void means_are_weighed_by_samples(void **state)
{
    static const struct {
        const char *name;
        double mu;
    } cases[] = {{"fedavg", 0}, {"fedprox:mu=0.8", 0.8}};
    double model[N];
    struct world x;

    (void)state;
    open_world(&x, "quantity:alpha=0.6,least=4", CLIENTS);
    for (size_t k = 0; k < 2; k++) {
        begin(&x, model);
        for (int r = 0; r < ROUNDS; r++)
            mean_of_visits(&x, cases[k].mu, model);
        compare(&x, cases[k].name, model);
    }
    close_world(&x);
}

/* ---- the server's optimizers ---------------------------------------------- */

static void adaptive(struct world *x, bool yogi, double *model)
{
    const double eta = 0.05, b1 = 0.9, b2 = 0.99, tau = 1e-3;
    double m[N] = {0}, v[N], mean[N];

    for (int i = 0; i < N; i++)
        v[i] = tau * tau;
    for (int r = 0; r < ROUNDS; r++) {
        memcpy(mean, model, sizeof mean);
        mean_of_visits(x, 0, mean);
        for (int i = 0; i < N; i++) {
            double d = mean[i] - model[i], s = v[i] > d * d ? 1 : -1;

            m[i] = b1 * m[i] + (1 - b1) * d;
            v[i] = yogi ? v[i] - (1 - b2) * d * d * s
                        : b2 * v[i] + (1 - b2) * d * d;
            model[i] += eta * m[i] / (sqrt(v[i]) + tau);
        }
    }
}

static void the_server_follows_adam_and_yogi(void **state)
{
    double model[N];
    struct world x;

    (void)state;
    open_world(&x, "iid", CLIENTS);
    begin(&x, model);
    adaptive(&x, false, model);
    compare(&x, "fedadam:eta=0.05", model);
    begin(&x, model);
    adaptive(&x, true, model);
    compare(&x, "fedyogi:eta=0.05", model);
    close_world(&x);
}

/* ---- control variates ------------------------------------------------------ */

static void variates_correct_every_step(void **state)
{
    static float add[N], from[N], w[N];
    static double own[CLIENTS][N], all[N], change[N], sum[N], model[N];
    struct fed_pull pull = {.add = add};
    struct world x;

    (void)state;
    memset(own, 0, sizeof own);
    memset(all, 0, sizeof all);
    open_world(&x, "dirichlet:alpha=0.3", CLIENTS);
    begin(&x, model);
    for (int r = 0; r < ROUNDS; r++) {
        narrow(model, from);
        memset(sum, 0, sizeof sum);
        memset(change, 0, sizeof change);
        for (int c = 0; c < CLIENTS; c++) {
            for (int i = 0; i < N; i++)
                add[i] = (float)(all[i] - own[c][i]);
            memcpy(w, from, sizeof w);
            visit(&x, c, &pull, w);
            for (int i = 0; i < N; i++) {
                double next = own[c][i] - all[i] +
                              (model[i] - (double)w[i]) / (STEPS * RATE);

                change[i] += next - own[c][i];
                own[c][i] = next;
                sum[i] += (double)w[i];
            }
        }
        for (int i = 0; i < N; i++) {
            all[i] += change[i] / CLIENTS;
            model[i] = sum[i] / CLIENTS;
        }
    }
    compare(&x, "scaffold", model);
    close_world(&x);
}

/* ---- two visits -------------------------------------------------------------- */

static void a_pair_trains_two_models_on_both_data(void **state)
{
    double model[N];
    struct world x;

    (void)state;
    open_world(&x, "quantity:alpha=2,least=8", 2);
    begin(&x, model);
    for (int r = 0; r < ROUNDS; r++) {
        float a[N], b[N];

        narrow(model, a);
        narrow(model, b);
        visit(&x, 0, NULL, a);
        visit(&x, 1, NULL, a);
        visit(&x, 1, NULL, b);
        visit(&x, 0, NULL, b);
        for (int i = 0; i < N; i++)
            model[i] = ((double)a[i] + (double)b[i]) / 2;
    }
    compare(&x, "sem", model);
    close_world(&x);
}

/* ---- asynchronous -------------------------------------------------------- */

/* Two clients that need as long: both begin with the first model. One comes
 * back in the first round; the other in the second, when it is stale. */
static void stale_changes_count_less(void **state)
{
    struct pdl_err err = {"", ""};
    struct pdl_buf text;
    double model[N];
    float w[N];
    struct world x;
    int first;

    (void)state;
    open_world(&x, "iid", 2);
    x.s.job.spread = 0;
    x.s.job.rounds = 2;
    x.s.job.algorithm = "fedbuff:buffer=1,eta=0.7";
    pdl_buf_init(&text);
    assert_int_equal(pdl_fed_emit(&x.s.job, &text.sink, &err), PDL_OK);
    first = strstr(text.text, "\"clients\": [0]") <
                    strstr(text.text, "\"clients\": [1]")
                ? 0
                : 1;
    pdl_buf_free(&text);
    begin(&x, model);
    for (int k = 0; k < 2; k++) {
        memcpy(w, x.start, sizeof w);
        visit(&x, k == 0 ? first : 1 - first, NULL, w);
        for (int i = 0; i < N; i++)
            model[i] += 0.7 / sqrt(1 + k) * ((double)w[i] - (double)x.start[i]);
    }
    compare(&x, "fedbuff:buffer=1,eta=0.7", model);
    close_world(&x);
}

/* The mean is over what came back in numbers. */
static void who_sends_no_numbers_is_not_in_the_buffer(void **state)
{
    double model[N];
    float w[N];
    struct world x;

    (void)state;
    open_world(&x, "iid", 2);
    x.s.job.spread = 0;
    x.s.job.visited = small_spoil_0;
    x.s.job.rounds = 1;
    memcpy(w, x.start, sizeof w);
    visit(&x, 1, NULL, w);
    for (int i = 0; i < N; i++)
        model[i] = (double)w[i];
    compare(&x, "fedbuff:buffer=2", model);
    close_world(&x);
}

/* ---- clusters ------------------------------------------------------------ */

/* Two clients have five of the classes, the third the others: each cluster has
 * half the weight. */
static void clusters_weigh_the_same(void **state)
{
    static const double weight[] = {0.25, 0.25, 0.5};
    double model[N] = {0};
    float w[N];
    struct world x;

    (void)state;
    open_world(&x, "cluster:groups=2,main=0.67,equal=no", CLIENTS);
    x.s.job.rounds = 1;
    for (int c = 0; c < CLIENTS; c++) {
        assert_int_equal(x.s.job.partition.group[c], c / 2);
        memcpy(w, x.start, sizeof w);
        visit(&x, c, NULL, w);
        for (int i = 0; i < N; i++)
            model[i] += weight[c] * (double)w[i];
    }
    compare(&x, "cadis:kd=0", model);
    close_world(&x);
}

/* ---- travelling ---------------------------------------------------------- */

/* One model, two clients in turn: it is held where the first one's gradients
 * were large. */
static void a_travelling_model_is_held_back(void **state)
{
    static float squares[N], stiff[N];
    struct fed_pull pull = {.strength = 20, .squares = squares};
    double model[N];
    float w[N], from[N];
    struct pdl_err err = {"", ""};
    struct pdl_buf text;
    struct world x;

    (void)state;
    memset(stiff, 0, sizeof stiff);
    open_world(&x, "iid", 2);
    x.s.job.select = 1;
    x.s.job.rounds = ROUNDS;
    x.s.job.algorithm = "safa:every=100,ewc=20,keep=0.25";
    pdl_buf_init(&text);
    assert_int_equal(pdl_fed_emit(&x.s.job, &text.sink, &err), PDL_OK);
    memcpy(w, x.start, sizeof w);
    for (int r = 0; r < ROUNDS; r++) {
        char where[32];
        const char *line;

        snprintf(where, sizeof where, "\"round\": %d,", r);
        line = strstr(strstr(text.text, where), "\"clients\": [");
        memcpy(from, w, sizeof from);
        memset(squares, 0, sizeof squares);
        pull.anchor = from;
        pull.stiff = stiff;
        visit(&x, line[12] == '0' ? 0 : 1, &pull, w);
        for (int i = 0; i < N; i++)
            stiff[i] = 0.25F * stiff[i] + 0.75F * squares[i] / STEPS;
    }
    pdl_buf_free(&text);
    for (int i = 0; i < N; i++)
        model[i] = (double)w[i];
    compare(&x, "safa:every=100,ewc=20,keep=0.25", model);
    close_world(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_weighed_by_samples),
        cmocka_unit_test(the_server_follows_adam_and_yogi),
        cmocka_unit_test(variates_correct_every_step),
        cmocka_unit_test(a_pair_trains_two_models_on_both_data),
        cmocka_unit_test(stale_changes_count_less),
        cmocka_unit_test(who_sends_no_numbers_is_not_in_the_buffer),
        cmocka_unit_test(clusters_weigh_the_same),
        cmocka_unit_test(a_travelling_model_is_held_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
