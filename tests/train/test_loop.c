/* What a run does besides steps: batches left out after a bad loss, averages
 * of weights, weight decay that spares, dropout switched off, the writing of
 * checkpoints shared out, and whether it may go on from one. */
#include "paradl/train.h"
#include "train/train_priv.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <setjmp.h>
#include <cmocka.h>

enum { STEPS = 12, BATCH = 8, SAMPLES = 256, EACH = 64 };

static char dir[64], data[80], folder[80];
static bool normless; /* without batch norm */

/* ---- a data set with one batch that is too much -------------------------------- */

static void put_npy(const char *name, const char *kind, const char *shape,
                    const void *values, size_t bytes)
{
    char path[128], head[117], text[128];
    FILE *f;
    int n;

    snprintf(path, sizeof path, "%s/%s", data, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    n = snprintf(head, sizeof head,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                 kind, shape);
    snprintf(text, sizeof text, "%-117s\n", head);
    assert_true(n < 117);
    fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, f);
    fwrite(text, 1, 118, f);
    fwrite(values, 1, bytes, f);
    assert_int_equal(fclose(f), 0);
}

/* The samples of batch `bad` (in the order of the run) hold one large number;
 * -1: none do. */
static void make_data(int64_t bad, float large, uint64_t seed)
{
    static float x[SAMPLES * EACH];
    static int64_t y[SAMPLES];
    struct pdl_order o;
    struct pdl_rng rng = {.key = 5 + seed};

    for (int i = 0; i < SAMPLES * EACH; i++)
        x[i] = (float)pdl_rng_below(&rng, 1000) / 1000 - 0.5F;
    for (int i = 0; i < SAMPLES; i++)
        y[i] = (int64_t)pdl_rng_below(&rng, 10);
    pdl_order_begin(&o, pdl_shuffle_find("global", NULL), 1, 0, SAMPLES);
    for (int64_t i = 0; bad >= 0 && i < BATCH; i++)
        for (int64_t k = 0; k < EACH; k++)
            x[pdl_order_at(&o, bad * BATCH + i) * EACH + k] = large;
    mkdir(data, 0777);
    put_npy("x_train.npy", "<f4", "256, 1, 8, 8", x, sizeof x);
    put_npy("y_train.npy", "<i8", "256,", y, sizeof y);
    put_npy("x_test.npy", "<f4", "256, 1, 8, 8", x, sizeof x);
    put_npy("y_test.npy", "<i8", "256,", y, sizeof y);
}

static int begin(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/paradl-loop-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(data, sizeof data, "%s/data", dir);
    snprintf(folder, sizeof folder, "%s/ck", dir);
    return 0;
}

static int end(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

/* ---- a run ------------------------------------------------------------------------ */

struct life {
    struct pdl_train_job job;
    struct pdl_train_summary sum;
    double loss[4 * STEPS], norm[4 * STEPS];
    int notes;
    char note[512]; /* all of them */
    struct pdl_err err;
    int64_t batch, stop_at;
};

static volatile int asked; /* to stop */

static const struct pdl_plan *make_plan(pdl_arena *a, const char *strategy,
                                        int64_t batch)
{
    static const char head[] = "format: paradl-model/1\nname: tiny\nkind: cnn\n"
                               "inputs:\n  - {name: input, shape: [1, 8, 8]}\n"
                               "layers:\n"
                               "  - {op: flatten, name: flatten}\n"
                               "  - {op: dropout, name: drop}\n"
                               "  - {op: linear, name: fc1, features: 300}\n";
    char yaml[1024];
    struct pdl_plan_options opt = {.batch = batch, .gather_classes = true};
    struct pdl_strategy *s = PDL_NEW(a, struct pdl_strategy, 1);
    const struct pdl_model *m;
    const struct pdl_plan *p = NULL;
    struct pdl_err err;

    snprintf(yaml, sizeof yaml,
             "%s%s  - {op: relu, name: relu1}\n"
             "  - {op: linear, name: fc, features: 10}\n",
             head, normless ? "" : "  - {op: batch_norm, name: bn1}\n");
    if (pdl_model_yaml(a, (struct pdl_bytes){yaml, strlen(yaml)}, "tiny", &m,
                       &err) != PDL_OK ||
        pdl_strategy_parse(a, strategy, s, &err) != PDL_OK ||
        pdl_plan_lower(a, m, s, &opt, &p, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return p;
}

static void tell(void *ctx, const struct pdl_train_line *l)
{
    struct life *x = ctx;
    size_t n = strlen(x->note);

    asked |= x->stop_at > 0 && l->step == x->stop_at;
    if (l->note) {
        x->notes++;
        snprintf(x->note + n, sizeof x->note - n, "%s\n", l->note);
    } else if (!l->epoch_ended && l->step < 4 * STEPS) {
        x->loss[l->step] = l->loss;
        x->norm[l->step] = l->grad_norm;
    }
}

static enum pdl_status body(void *ctx, pdl_comm *comm, struct pdl_err *err)
{
    struct life *x = ctx;
    struct pdl_train_summary sum;
    enum pdl_status st = pdl_train_run(&x->job, comm, &sum, err);

    if (pdl_comm_rank(comm) == 0)
        x->sum = sum;
    return st;
}

static enum pdl_status live(struct life *x, const char *strategy)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct pdl_io_options o = {.seed = 0};
    pdl_io *io = NULL;
    enum pdl_status st = pdl_io_open(data, &o, &io, &x->err);

    x->job.plan = make_plan(a, strategy, x->batch ? x->batch : BATCH);
    x->job.opt.backend = "ref";
    x->job.opt.seed = 1;
    x->job.rates.lr = x->job.rates.lr > 0 ? x->job.rates.lr : 0.02;
    x->job.steps = x->job.steps ? x->job.steps : STEPS;
    x->job.run = (uint64_t)(pdl_clock_s() * 1e6);
    x->job.model = "tiny";
    x->job.virtual_ranks = true;
    x->job.tell = tell;
    x->job.ctx = x;
    x->job.io = io;
    x->job.raw = true;
    if (st == PDL_OK)
        st = pdl_train_virtual((int)x->job.plan->mesh->pes, 60, body, x,
                               &x->err);
    pdl_io_close(io);
    pdl_arena_destroy(a);
    return st;
}

static void live_ok(struct life *x, const char *strategy)
{
    if (live(x, strategy) != PDL_OK)
        fail_msg("%s", x->err.msg);
}

/* One tensor of a checkpoint. */
static int64_t tensor(int64_t step, const char *name, float *out)
{
    struct pdl_err err = {"", ""};
    const struct pdl_ckpt_tensor *t;
    struct pdl_box b = {.ndims = 0};
    pdl_ckpt *c = NULL;
    char path[128];
    int k;

    snprintf(path, sizeof path, "%s/step-%lld", folder, (long long)step);
    if (pdl_ckpt_open(path, &c, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    k = pdl_ckpt_find(c, name);
    if (k < 0)
        fail_msg("%s: no %s", path, name);
    t = pdl_ckpt_tensor(c, k);
    b.ndims = t->rank;
    memcpy(b.hi, t->dim, sizeof t->dim);
    assert_int_equal(pdl_ckpt_read(c, k, &b, out, NULL), PDL_OK);
    pdl_ckpt_close(c);
    return pdl_box_volume(&b);
}

/* ---- bad losses ------------------------------------------------------------------- */

static void a_bad_batch_stops_a_run_or_is_left_out(void **state)
{
    /* a mean of losses to compare with needs 20 of them */
    static const struct {
        int64_t at;
        float large;
        double spike;
        bool normless;
    } how[] = {{9, 3.3e38F, 0, false}, {25, 100, 4, true}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        /* a rectifier may hide a NaN from the loss, not from its gradient */
        struct life good = {.job = {.spike = how[i].spike,
                                    .steps = 30,
                                    .opt = {.grad_norm = true}}},
                    stop = good, skip = good;

        normless = how[i].normless;
        make_data(-1, 1, 0);
        live_ok(&good, "serial");
        assert_int_equal(good.notes, 0);
        make_data(how[i].at, how[i].large, 0);
        if (live(&stop, "serial") != PDL_EWRONG)
            fail_msg("%d: loss %g after %g", i, stop.loss[how[i].at + 1],
                     stop.loss[how[i].at]);
        skip.job.on_nan = PDL_TRAIN_SKIP;
        live_ok(&skip, "serial");
        assert_int_equal(skip.notes, 1);
        assert_non_null(strstr(skip.note, "the batch is left out"));
        assert_int_equal(skip.sum.steps, 30);
        for (int s = 1; s <= how[i].at; s++)
            assert_true(skip.loss[s] == good.loss[s]);
        assert_true(fabs(skip.sum.final_loss) < 10);
        normless = false;
    }
}

static void going_back_leaves_out_all_batches_since(void **state)
{
    struct life back = {.job = {.on_nan = PDL_TRAIN_ROLLBACK,
                                .checkpoint = folder,
                                .every = 1,
                                .keep = 100}},
                without = {.job = {.on_nan = PDL_TRAIN_ROLLBACK}};

    (void)state;
    make_data(5, 3.3e38F, 0);
    assert_int_equal(live(&without, "serial"), PDL_EWRONG);
    assert_non_null(strstr(without.err.msg, "no checkpoint to go back to"));
    live_ok(&back, "data=2,bn=sync");
    assert_non_null(strstr(back.note, "; back to step "));
    assert_int_equal(back.sum.steps, STEPS);
    assert_true(isfinite(back.sum.final_loss));
}

static void a_run_with_a_mishap_goes_on_as_it_would_have(void **state)
{
    struct life whole = {.job = {.on_nan = PDL_TRAIN_SKIP}},
                half = {.job = {.on_nan = PDL_TRAIN_SKIP,
                                .checkpoint = folder,
                                .steps = 8}},
                rest = {.job = {.on_nan = PDL_TRAIN_SKIP,
                                .checkpoint = folder,
                                .resume = true}};

    (void)state;
    make_data(5, 3.3e38F, 0);
    live_ok(&whole, "serial");
    live_ok(&half, "serial");
    live_ok(&rest, "serial");
    assert_int_equal(rest.sum.resumed_at, 8);
    for (int s = 9; s <= STEPS; s++)
        assert_true(rest.loss[s] == whole.loss[s]);
}

static void too_many_bad_batches_are_no_accident(void **state)
{
    struct life x = {.job = {.on_nan = PDL_TRAIN_SKIP, .rates = {.lr = 1e30}}};

    (void)state;
    make_data(-1, 1, 0);
    assert_int_equal(live(&x, "serial"), PDL_EWRONG);
    assert_non_null(strstr(x.err.msg, "10 times, so it is no accident"));
}

/* ---- averages, decay, dropout, norms ------------------------------------------------ */

static void averages_are_what_a_checkpoint_a_step_gives(void **state)
{
    static const char *const runs[] = {"serial", "data=2,bn=sync", "filter=2"};
    static float w[300 * 64], mean[300 * 64], got[300 * 64];
    double score = 0;

    (void)state;
    make_data(-1, 1, 0);
    for (int r = 0; r < 3; r++) {
        struct life x = {.job = {.ema = 0.75,
                                 .checkpoint = folder,
                                 .every = 1,
                                 .keep = 100,
                                 .steps = 2}};
        struct life more = x;
        int64_t n;

        live_ok(&x, runs[r]);
        n = tensor(2, "fc1.weight", w);
        tensor(2, "ema.fc1.weight", mean);
        more.job.resume = true;
        more.job.steps = 3;
        live_ok(&more, runs[r]);
        tensor(3, "fc1.weight", w);
        tensor(3, "ema.fc1.weight", got);
        for (int64_t i = 0; i < n; i++)
            if (!(fabsf(got[i] - (0.75F * mean[i] + 0.25F * w[i])) < 1e-6F))
                fail_msg("%s: %g", runs[r], (double)got[i]);
        assert_true(memcmp(w, got, (size_t)n * sizeof w[0]) != 0);
        if (r == 0)
            score = more.sum.test_loss;
        assert_true(fabs(more.sum.test_loss - score) < 1e-5);
        assert_int_equal(end(NULL) + begin(NULL), 0);
        make_data(-1, 1, 0);
    }
}

static void averages_and_cut_weights_do_not_go_together(void **state)
{
    struct life x = {.job = {.ema = 0.9}};

    (void)state;
    make_data(-1, 1, 0);
    assert_int_equal(live(&x, "data=2,zero=1,bn=sync"), PDL_EINVAL);
    assert_non_null(strstr(x.err.msg, "zero="));
}

/* Decay as large as can be: what is spared stays near what it was. */
static void decay_spares_what_it_is_told_to(void **state)
{
    static const char *const names[] = {"fc1.weight", "fc1.bias", "bn1.weight"};
    static float undecayed[300 * 64], decayed[300 * 64];

    (void)state;
    make_data(-1, 1, 0);
    for (int how = 0; how < 4; how++)
        for (int k = 0; k < 3; k++) {
            struct life x = {.job = {.steps = 2,
                                     .checkpoint = folder,
                                     .opt = {.optimizer = "sgd"}}};
            struct life y = x;
            bool spared = (k == 1 && how & 1) || (k == 2 && how & 2);
            int64_t n;

            live_ok(&x, "serial");
            n = tensor(2, names[k], undecayed);
            assert_int_equal(end(NULL) + begin(NULL), 0);
            make_data(-1, 1, 0);
            y.job.opt.optimizer = "sgd:weight_decay=0.01";
            y.job.opt.spare_biases = how & 1;
            y.job.opt.spare_norms = how & 2;
            y.job.steps = 2;
            live_ok(&y, "serial");
            tensor(2, names[k], decayed);
            /* the gradients differ a little after the first step */
            for (int64_t i = 0; i < n && k == 2; i++)
                assert_true((fabsf(decayed[i] - undecayed[i]) > 1e-4F) !=
                            spared);
            if (k < 2 && !spared)
                assert_true(memcmp(undecayed, decayed, (size_t)n * 4) != 0);
            assert_int_equal(end(NULL) + begin(NULL), 0);
            make_data(-1, 1, 0);
        }
}

static void dropout_is_switched_off(void **state)
{
    struct life with = {.job = {.steps = 2}}, without = with;

    (void)state;
    make_data(-1, 1, 0);
    live_ok(&with, "serial");
    without.job.opt.no_dropout = true;
    live_ok(&without, "serial");
    assert_true(with.loss[1] != without.loss[1]);
}

static void the_norm_of_the_gradient_is_that_of_any_strategy(void **state)
{
    struct life a = {.job = {.opt = {.grad_norm = true}}}, b = a,
                none = {.job = {.steps = 0}};

    (void)state;
    make_data(-1, 1, 0);
    live_ok(&a, "serial");
    live_ok(&b, "data=2,bn=sync");
    live_ok(&none, "serial");
    for (int s = 1; s <= STEPS; s++) {
        assert_true(a.norm[s] > 0 && isnan(none.norm[s]));
        assert_true(fabs(a.norm[s] - b.norm[s]) < 1e-4 * a.norm[s]);
        assert_true(a.loss[s] == none.loss[s]); /* measuring changes nothing */
    }
}

/* ---- checkpoints ----------------------------------------------------------------------- */

static void replicas_share_the_writing(void **state)
{
    struct life x = {.job = {.checkpoint = folder}};
    int64_t bytes[4], total = 0;

    (void)state;
    make_data(-1, 1, 0);
    live_ok(&x, "data=4,bn=sync");
    for (int r = 0; r < 4; r++) {
        char path[160];
        struct stat sb;

        snprintf(path, sizeof path, "%s/step-%d/data-%05d-%016llx.bin", folder,
                 STEPS, r, (unsigned long long)x.job.run);
        assert_int_equal(stat(path, &sb), 0);
        total += bytes[r] = sb.st_size;
    }
    for (int r = 0; r < 4; r++)
        assert_true(bytes[r] > total / 8 && bytes[r] < total / 2);
}

/* The first checkpoint is not done before the sixth step is. */
static void hold_up(void *ctx, enum pdl_ckpt_phase phase)
{
    struct life *x = ctx;

    for (int i = 0; i < 20000 && phase == PDL_CKPT_SYNCED && x->loss[6] == 0;
         i++)
        usleep(1000);
}

static void training_does_not_wait_for_the_disk(void **state)
{
    struct life x = {.job = {.checkpoint = folder, .every = 1, .at = hold_up}};
    pdl_ckpt *c = NULL;

    (void)state;
    make_data(-1, 1, 0);
    live_ok(&x, "serial");
    assert_true(x.sum.stall_s < 10); /* it would have waited 20 s */
    assert_int_equal(pdl_ckpt_latest(folder, STEPS, true, &c, NULL, NULL),
                     PDL_OK);
    assert_true(c && pdl_ckpt_state(c)->step >= 1); /* late, but written */
    pdl_ckpt_close(c);
}

static void other_samples_are_refused_unless_asked_for(void **state)
{
    struct life x = {.job = {.checkpoint = folder}};

    (void)state;
    make_data(-1, 1, 0);
    live_ok(&x, "serial");
    for (int k = 0; k < 3; k++) {
        struct life y = {.job = {.checkpoint = folder,
                                 .resume = true,
                                 .steps = STEPS + 1 + k,
                                 .augment = k == 1},
                         .batch = k == 0 ? 16 : 0};

        make_data(-1, 1, k == 2);
        assert_int_equal(live(&y, "serial"), PDL_EINVAL);
        assert_non_null(strstr(y.err.msg, "the samples would be others"));
        y.err.msg[0] = '\0';
        y.job.resume_anyway = true;
        live_ok(&y, "serial");
        assert_int_equal(y.sum.resumed_at, k ? STEPS + k : STEPS);
        make_data(-1, 1, 0);
        if (k < 2) { /* as it was, for the next */
            assert_int_equal(end(NULL) + begin(NULL), 0);
            make_data(-1, 1, 0);
            x.job.steps = STEPS + k + 1;
            live_ok(&x, "serial");
        }
    }
}

/* A run that keeps a mean keeps it, unless asked; one without may begin. */
static void another_mean_is_refused_unless_asked_for(void **state)
{
    static const double then[] = {0, 0.9};

    (void)state;
    make_data(-1, 1, 0);
    for (int k = 0; k < 2; k++) {
        struct life x = {.job = {.checkpoint = folder, .ema = 0.5}},
                    y = {.job = {.checkpoint = folder,
                                 .resume = true,
                                 .steps = STEPS + 1,
                                 .ema = then[k]}};

        live_ok(&x, "serial");
        assert_int_equal(live(&y, "serial"), PDL_EINVAL);
        assert_non_null(strstr(y.err.msg, "the mean of the weights would be"));
        y.job.resume_anyway = true;
        live_ok(&y, "serial");
        assert_non_null(strstr(y.note, "going on with ema"));
        assert_int_equal(end(NULL) + begin(NULL), 0);
        make_data(-1, 1, 0);
    }
    for (int k = 0; k < 2; k++) {
        struct life x = {.job = {.checkpoint = folder,
                                 .resume = k == 1,
                                 .steps = STEPS + k,
                                 .ema = k ? 0.5 : 0,
                                 .opt = {.no_dropout = k == 1}}};

        live_ok(&x, "serial");
        if (k == 0)
            continue;
        assert_non_null(strstr(x.note, "going on with ema 0.5; the checkpoint "
                                       "has 0"));
        assert_non_null(strstr(x.note, "going on with dropout no"));
    }
}

/* A device is timed in its last steps: who stops before them is told so. */
static void a_run_that_stops_early_says_that_it_has_no_times(void **state)
{
    static const int64_t stops[] = {4, 8, 0};

    (void)state;
    make_data(-1, 1, 0);
    for (int k = 0; k < 6; k++) {
        struct life x = {.job = {.timings = true,
                                 .stop = &asked,
                                 .opt = {.device = k < 3 ? "twin" : NULL}},
                         .stop_at = stops[k % 3]};

        asked = 0;
        live_ok(&x, "data=2");
        assert_int_equal(x.sum.stopped, k % 3 < 2);
        assert_int_equal(
            strstr(x.note, "stopped before them: no times") != NULL, k == 0);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        T(a_bad_batch_stops_a_run_or_is_left_out),
        T(going_back_leaves_out_all_batches_since),
        T(a_run_with_a_mishap_goes_on_as_it_would_have),
        T(too_many_bad_batches_are_no_accident),
        T(averages_are_what_a_checkpoint_a_step_gives),
        T(averages_and_cut_weights_do_not_go_together),
        T(decay_spares_what_it_is_told_to),
        T(dropout_is_switched_off),
        T(the_norm_of_the_gradient_is_that_of_any_strategy),
        T(replicas_share_the_writing),
        T(training_does_not_wait_for_the_disk),
        T(other_samples_are_refused_unless_asked_for),
        T(another_mean_is_refused_unless_asked_for),
        T(a_run_that_stops_early_says_that_it_has_no_times),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
