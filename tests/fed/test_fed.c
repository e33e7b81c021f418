/* Federated runs: equal to plain training where they should be, the same bits
 * whoever trains, and whatever goes wrong is said. */
#include "small.h"
#include "effort.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];
enum { NWEIGHTS = 522 }; /* of the small network, without batch norm */

/* ---- what a run leaves ---------------------------------------------- */

struct heard {
    char note[400];
    int64_t rounds, trained, stop_after, kill_after;
    double accuracy, all; /* of the last round; the sum over rounds */
    int64_t told;
    int64_t clusters;
    int stop;
};

static void tell(void *ctx, const struct pdl_fed_line *l)
{
    struct heard *h = ctx;

    if (l->note) {
        snprintf(h->note + strlen(h->note), sizeof h->note - strlen(h->note),
                 "%s; ", l->note);
        return;
    }
    h->rounds = l->round;
    h->accuracy = l->accuracy;
    h->all += l->accuracy + l->group_accuracy[0] + l->train_loss;
    h->told++;
    h->clusters = l->clusters;
}

static void trained(void *ctx, int64_t done, int64_t of)
{
    struct heard *h = ctx;

    (void)done;
    (void)of;
    h->trained++;
    if (h->kill_after > 0 && h->trained >= h->kill_after)
        kill(getpid(), SIGKILL);
    if (h->stop_after > 0 && h->trained >= h->stop_after)
        h->stop = 1;
}

static void listen_to(struct pdl_fed_job *job, struct heard *h)
{
    *h = (struct heard){.rounds = 0};
    job->tell = tell;
    job->trained = trained;
    job->ctx = h;
    job->stop = &h->stop;
}

/* The weights at the end, as bytes of a file. */
struct bytes {
    size_t n;
    char *at;
};

static struct bytes slurp(const char *path)
{
    struct bytes b = {0, malloc(1 << 20)};
    FILE *f = fopen(path, "rb");

    assert_non_null(f);
    b.n = fread(b.at, 1, 1 << 20, f);
    fclose(f);
    assert_true(b.n > 2088 && b.n < 1 << 20);
    return b;
}

static struct bytes run(struct pdl_fed_job job, int workers,
                        struct pdl_fed_summary *sum)
{
    char path[128];
    struct pdl_fed_summary x;
    struct pdl_err err = {"", ""};

    snprintf(path, sizeof path, "%s/w.safetensors", dir);
    job.weights_out = path;
    if (small_run(&job, workers, &x, &err) != PDL_OK)
        fail_msg("%s: %s", job.algorithm, err.msg);
    if (sum)
        *sum = x;
    return slurp(path);
}

static bool same(struct bytes a, struct bytes b)
{
    bool is = a.n == b.n && memcmp(a.at, b.at, a.n) == 0;

    free(a.at);
    free(b.at);
    return is;
}

/* ---- equal to plain training ---------------------------------------- */

struct plain {
    struct small *s;
    const struct pdl_plan *plan;
    float *w; /* rank 0's, at the end */
    double lr;
    uint64_t seed;
};

static enum pdl_status plain_body(void *ctx, pdl_comm *comm,
                                  struct pdl_err *err)
{
    struct plain *p = ctx;
    struct pdl_train_options opt = {.optimizer = "sgd:momentum=0",
                                    .seed = p->seed};
    pdl_trainer *t = NULL;
    pdl_train_list *list = NULL;
    struct pdl_train_result r;
    struct pdl_train_feed feed;
    int64_t ids[64], at = 0;
    enum pdl_status st = pdl_trainer_open(p->plan, comm, &opt, &t, err);

    for (int64_t i = 0; i < 64; i++)
        ids[i] = i;
    if (st == PDL_OK)
        st = pdl_train_list_open(p->plan, p->s->io, 0, NULL, &list, err);
    if (st == PDL_OK) {
        feed = pdl_train_list_feed(list, ids, 64);
        st = pdl_trainer_step(t, 0, p->lr, &feed, &r, err);
    }
    for (int i = 0; st == PDL_OK && pdl_trainer_state(t, i); i++) {
        const struct pdl_train_state *s = pdl_trainer_state(t, i);
        int64_t n = pdl_box_volume(&s->part.box);

        if (pdl_comm_rank(comm) == 0 && s->weight) {
            memcpy(p->w + at, s->part.data, (size_t)n * sizeof(float));
            at += n;
        }
    }
    pdl_train_list_close(list);
    pdl_trainer_close(t);
    return st;
}

/* One step of all 64 samples, on `ranks` that share them. */
static void plain_step(struct small *s, const char *strategy, int ranks,
                       float *w)
{
    struct pdl_strategy *st = PDL_NEW(s->arena, struct pdl_strategy, 1);
    struct pdl_plan_options opt = {.batch = 64, .dtype = PDL_F32};
    struct pdl_err err = {"", ""};
    struct plain p = {.s = s, .w = w, .lr = s->job.lr, .seed = s->job.seed};

    assert_int_equal(pdl_strategy_parse(s->arena, strategy, st, &err), PDL_OK);
    assert_int_equal(
        pdl_plan_lower(s->arena, s->model, st, &opt, &p.plan, &err), PDL_OK);
    assert_int_equal(pdl_train_virtual(ranks, 60, plain_body, &p, &err),
                     PDL_OK);
}

static void compare_with_plain(const char *partition, const char *strategy,
                               int ranks)
{
    static float w[4096];
    struct pdl_err err = {"", ""};
    struct small s;
    struct bytes b;
    pdl_weights *saved = NULL;
    char path[128];
    int64_t at = 0;

    small_open(&s, 64, false, partition, 4);
    s.job.raw = true;
    s.job.steps = 1;
    s.job.batch = 64; /* whatever a client has is one step */
    s.job.rounds = 1;
    b = run(s.job, 2, NULL);
    free(b.at);
    plain_step(&s, strategy, ranks, w);
    snprintf(path, sizeof path, "%s/w.safetensors", dir);
    assert_int_equal(pdl_weights_open(path, &saved, &err), PDL_OK);
    for (int i = 0; i < s.model->ntensors; i++) {
        int k = pdl_weights_find(saved, s.model->tensors[i].name);
        float got[1024];
        struct pdl_box box = {.ndims = 0};
        const struct pdl_ckpt_tensor *t;

        if (k < 0)
            continue;
        t = pdl_weights_tensor(saved, k);
        box.ndims = t->rank;
        for (int d = 0; d < t->rank; d++)
            box.hi[d] = t->dim[d];
        assert_int_equal(pdl_weights_read(saved, k, &box, got, &err), PDL_OK);
        for (int64_t j = 0; j < t->bytes / 4; j++)
            assert_true(fabs((double)got[j] - (double)w[at + j]) < 1e-6);
        at += t->bytes / 4;
    }
    assert_true(at > 500);
    pdl_weights_close(saved);
    small_close(&s);
}

static void one_step_of_all_is_a_step_of_data_parallel_sgd(void **state)
{
    (void)state;
    compare_with_plain("iid", "data=4", 4);
    compare_with_plain("quantity:alpha=0.5,least=2", "data=1", 1);
    compare_with_plain("dirichlet:alpha=0.2", "data=2", 2);
}

/* Algorithms that must be another in a corner. */
static void algorithms_meet_where_they_should(void **state)
{
    static const struct {
        const char *one, *other;
        int64_t rounds;
    } pairs[] = {
        {"fedprox:mu=0", "fedavg", 3},
        {"scaffold", "fedavg", 1}, /* no variate yet */
        {"safa:every=1,own=0,ewc=0", "fedavg", 3},
        {"cadis:kd=0,thr=1,gamma=no", "fedavg", 3}, /* nobody is alike */
    };
    struct small s;

    (void)state;
    small_open(&s, 96, false, "iid", 6); /* as many each: all weights alike */
    s.job.spread = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct bytes a, b;
        float x[NWEIGHTS], y[NWEIGHTS];

        s.job.rounds = pairs[i].rounds;
        s.job.algorithm = pairs[i].one;
        a = run(s.job, 1, NULL);
        s.job.algorithm = pairs[i].other;
        b = run(s.job, 1, NULL);
        assert_int_equal(a.n, b.n);
        memcpy(x, a.at + a.n - sizeof x, sizeof x);
        memcpy(y, b.at + b.n - sizeof y, sizeof y);
        for (int k = 0; k < NWEIGHTS; k++)
            assert_true(fabsf(x[k] - y[k]) < 2e-6F);
        free(a.at);
        free(b.at);
    }
    small_close(&s);
}

/* ---- the same bits -------------------------------------------------- */

static void any_number_of_workers_gives_the_same_bits(void **state)
{
    static const int workers[] = {2, 3, 4, 7};
    struct small s;

    (void)state;
    small_open(&s, 160, true, "dirichlet:alpha=0.5", 9);
    s.job.select = 7;
    s.job.drop = 0.15;
    for (int k = 0; pdl_fed_algorithm_at(k); k++) {
        struct bytes one;

        s.job.algorithm = pdl_fed_algorithm_at(k)->name;
        one = run(s.job, 1, NULL);
        for (size_t i = 0; i < sizeof workers / sizeof workers[0]; i++) {
            struct bytes kept = {one.n, malloc(one.n)};

            memcpy(kept.at, one.at, one.n);
            if (!same(kept, run(s.job, workers[i], NULL)))
                fail_msg("%s: other bits on %d workers", s.job.algorithm,
                         workers[i]);
        }
        free(one.at);
    }
    small_close(&s);
}

/* Devices of a cluster that are ranks, one team of them or two: messages go
 * between them, and no bit is another. */
static void devices_on_ranks_are_those_on_threads(void **state)
{
    static const char *const how[] = {"feddct", "feddct:parts=3,stems=keep"};
    static const int ranks[] = {1, 2, 3, 4, 7};
    struct pdl_fed_summary was, now;
    struct small s;

    (void)state;
    small_open(&s, 80, true, "dirichlet:alpha=0.5", 9);
    s.job.rounds = 2;
    s.job.optimizer = "sgd:momentum=0.9";
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 5; i++) {
            struct bytes one;

            s.job.algorithm = how[k];
            s.job.devices_are_ranks = false;
            one = run(s.job, 1, &was);
            s.job.devices_are_ranks = true;
            if (!same(one, run(s.job, ranks[i], &now)))
                fail_msg("%s: other bits on %d ranks", how[k], ranks[i]);
            assert_true(now.accuracy == was.accuracy && now.loss == was.loss);
            assert_int_equal(now.models, was.models);
            assert_int_equal(now.memory_bytes, was.memory_bytes);
        }
    small_close(&s);
}

/* A part that blows up, wherever it is: the cluster's model is lost. */
static void numbers_lost_on_one_device_are_lost_for_all(void **state)
{
    struct pdl_fed_summary sum;
    struct small s;

    (void)state;
    small_open(&s, 80, true, "iid", 8);
    s.job.algorithm = "feddct";
    s.job.devices_are_ranks = true;
    s.job.rounds = 1;
    for (int ranks = 2; ranks <= 6; ranks += 2) {
        s.job.lr = 1e20;
        s.job.visited = NULL;
        free(run(s.job, ranks, &sum).at);
        assert_int_equal(sum.lost, 2);
        s.job.lr = 0.1;
        s.job.visited = small_spoil_4;
        free(run(s.job, ranks, &sum).at);
        assert_int_equal(sum.lost, 1);
    }
    small_close(&s);
}

static void forget_folder(const char *path)
{
    char command[200];

    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

/* Stopped within a round, and taken up again by another number of workers. */
static void a_stopped_run_goes_on_with_the_same_bits(void **state)
{
    char folder[100];
    struct small s;

    (void)state;
    snprintf(folder, sizeof folder, "%s/ckpt", dir);
    small_open(&s, 160, true, "dirichlet:alpha=0.5", 9);
    s.job.select = 7;
    s.job.rounds = 4;
    for (int k = 0; pdl_fed_algorithm_at(k); k++) {
        struct pdl_fed_job job = s.job;
        struct pdl_fed_summary sum;
        struct bytes whole, rest;
        struct heard h;

        job.algorithm = pdl_fed_algorithm_at(k)->name;
        whole = run(job, 2, NULL);
        forget_folder(folder);
        job.checkpoint = folder;
        listen_to(&job, &h);
        h.stop_after = 3; /* waves of 2 */
        free(run(job, 2, &sum).at);
        assert_true(sum.stopped && sum.rounds < 4);
        job.resume = true;
        listen_to(&job, &h);
        rest = run(job, 3, &sum);
        assert_int_equal(sum.rounds, 4);
        if (!same(whole, rest))
            fail_msg("%s: other bits after a resume", job.algorithm);
    }
    forget_folder(folder);
    small_close(&s);
}

/* Taken up again a run whose target was reached trains no further. */
static void a_target_stays_reached(void **state)
{
    struct pdl_fed_summary sum;
    struct bytes first, again;
    char folder[100];
    struct small s;

    (void)state;
    snprintf(folder, sizeof folder, "%s/target", dir);
    small_open(&s, 160, true, "iid", 4);
    s.job.rounds = 5;
    s.job.target = 1e-6;
    s.job.checkpoint = folder;
    first = run(s.job, 2, &sum);
    assert_true(sum.reached && sum.rounds < 5);
    s.job.resume = true;
    again = run(s.job, 1, &sum);
    assert_true(sum.reached && same(first, again));
    s.job.target = 1; /* another target is another matter */
    free(run(s.job, 2, &sum).at);
    assert_true(sum.rounds > 1);
    forget_folder(folder);
    small_close(&s);
}

/* The page of a resumed run is of the whole run. */
static void a_resumed_run_tells_of_all_rounds(void **state)
{
    struct pdl_fed_summary sum;
    struct heard h, rest;
    char folder[100];
    struct small s;

    (void)state;
    snprintf(folder, sizeof folder, "%s/told", dir);
    small_open(&s, 160, true, "cluster:groups=2", 8);
    s.job.rounds = 4;
    listen_to(&s.job, &h);
    free(run(s.job, 2, NULL).at);
    assert_int_equal(h.told, 4);
    s.job.checkpoint = folder;
    listen_to(&s.job, &rest);
    rest.stop_after = 10; /* waves of 2, 4 a round */
    free(run(s.job, 2, &sum).at);
    assert_true(sum.stopped && rest.told == 2);
    s.job.resume = true;
    for (int again = 0; again < 2; again++) { /* what is over, too */
        listen_to(&s.job, &rest);
        free(run(s.job, 3, &sum).at);
        assert_int_equal(rest.told, 4);
        assert_true(fabs(rest.all - h.all) < 1e-12);
        assert_true(fabs(sum.accuracy - h.accuracy) < 1e-12);
    }
    forget_folder(folder);
    small_close(&s);
}

/* A child that is killed when so many waves have been trained. */
static void run_until_killed(struct pdl_fed_job job, int waves)
{
    struct pdl_fed_summary sum;
    struct pdl_err err;
    struct heard h;
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        listen_to(&job, &h);
        h.kill_after = waves;
        (void)!small_run(&job, 1, &sum, &err);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Killed anywhere: what was saved last is taken up. Tasks of a round: as many
 * as clients, or fewer. */
static void a_killed_run_goes_on_with_the_same_bits(void **state)
{
    char folder[100];
    struct small s;
    int many = effort(1, 1, 5);

    (void)state;
    snprintf(folder, sizeof folder, "%s/ckpt", dir);
    small_open(&s, 160, true, "dirichlet:alpha=0.5", 9);
    s.job.select = 5;
    s.job.every = 2;
    for (int k = 0; pdl_fed_algorithm_at(k); k++) {
        struct pdl_fed_job job = s.job;
        struct bytes whole;

        job.algorithm = pdl_fed_algorithm_at(k)->name;
        whole = run(job, 2, NULL);
        job.checkpoint = folder;
        for (int i = 0; i < many; i++) {
            struct bytes kept = {whole.n, malloc(whole.n)};

            memcpy(kept.at, whole.at, whole.n);
            forget_folder(folder);
            job.resume = false;
            run_until_killed(job, 1 + (many > 1 ? i : k) % 5 % 3);
            job.resume = true;
            if (!same(kept, run(job, 1 + i % 3, NULL)))
                fail_msg("%s: other bits after a kill", job.algorithm);
        }
        free(whole.at);
    }
    forget_folder(folder);
    small_close(&s);
}

/* A client of two devices: whoever trains it, and taken up by that alone. */
static void clients_may_have_several_devices(void **state)
{
    static const char *const algorithms[] = {"cadis", "scaffold"};
    struct pdl_fed_summary sum;
    struct pdl_err err = {"", ""};
    char folder[100];
    struct small s;

    (void)state;
    snprintf(folder, sizeof folder, "%s/ckpt", dir);
    small_open(&s, 96, true, "dirichlet:alpha=0.5", 4);
    s.job.rounds = 2;
    s.job.steps = 2;
    for (int k = 0; k < effort(1, 1, 2); k++) {
        s.job.strategy = "data=2";
        s.job.algorithm = algorithms[k];
        assert_true(same(run(s.job, 1, NULL), run(s.job, 2, NULL)));
    }
    forget_folder(folder);
    s.job.checkpoint = folder;
    s.job.rounds = 1;
    free(run(s.job, 1, NULL).at);
    s.job.resume = true;
    s.job.strategy = "data=4";
    assert_int_equal(small_run(&s.job, 1, &sum, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "data=2"));
    forget_folder(folder);
    small_close(&s);
}

/* Distances between samples need all of a batch's features at once. */
static void what_distils_takes_batches_at_once(void **state)
{
    struct pdl_fed_summary sum;
    struct pdl_err err = {"", ""};
    struct small s;

    (void)state;
    small_open(&s, 96, true, "iid", 4);
    s.job.rounds = s.job.steps = 1;
    s.job.algorithm = "cadis";
    s.job.strategy = "accumulate=2";
    assert_int_equal(small_run(&s.job, 1, &sum, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "takes a batch at once"));
    small_close(&s);
}

static void another_run_is_not_taken_up(void **state)
{
    char folder[100];
    struct pdl_fed_summary sum;
    struct pdl_err err = {"", ""};
    struct small s;

    (void)state;
    snprintf(folder, sizeof folder, "%s/ckpt", dir);
    forget_folder(folder);
    small_open(&s, 96, false, "iid", 6);
    s.job.checkpoint = folder;
    s.job.rounds = 1;
    free(run(s.job, 1, NULL).at);
    s.job.resume = true;
    s.job.lr = 0.2;
    assert_int_equal(small_run(&s.job, 1, &sum, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "of another run: rates 'sgd lr=0.1 "));
    s.job.lr = 0.1;
    s.job.algorithm = "fedprox";
    assert_int_equal(small_run(&s.job, 2, &sum, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "algorithm"));
    s.job.algorithm = "fedavg";
    s.job.partition.samples++;
    assert_int_equal(small_run(&s.job, 1, &sum, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "96 samples"));
    forget_folder(folder);
    small_close(&s);
}

/* ---- what goes wrong ------------------------------------------------ */

static void a_client_without_numbers_is_left_out_and_named(void **state)
{
    struct pdl_fed_summary sum;
    struct heard h;
    struct small s;
    struct bytes b;

    (void)state;
    small_open(&s, 96, false, "iid", 6);
    for (int k = 0; pdl_fed_algorithm_at(k); k++) {
        s.job.algorithm = pdl_fed_algorithm_at(k)->name;
        if (strcmp(s.job.algorithm, "central") == 0)
            continue; /* has no clients */
        s.job.visited = small_spoil_4;
        listen_to(&s.job, &h);
        b = run(s.job, 2, &sum);
        assert_true(sum.lost > 0);
        assert_non_null(strstr(h.note, "round 1: no numbers"));
        assert_non_null(strstr(h.note, " 4"));
        for (size_t i = b.n - sizeof(float) * NWEIGHTS; i < b.n; i += 4) {
            float w;

            memcpy(&w, b.at + i, 4);
            assert_true(isfinite(w));
        }
        free(b.at);
    }
    small_close(&s);
}

static void a_rate_that_blows_up_ends_in_no_model(void **state)
{
    struct pdl_fed_summary sum;
    struct heard h;
    struct small s;

    (void)state;
    small_open(&s, 96, false, "iid", 3);
    s.job.lr = 1e30;
    s.job.epochs = 3;
    listen_to(&s.job, &h);
    free(run(s.job, 1, &sum).at);
    assert_int_equal(sum.lost, 9);
    assert_non_null(strstr(h.note, "nothing came back"));
    assert_true(isfinite(h.accuracy));
    small_close(&s);
}

static void what_cannot_be_is_refused(void **state)
{
    struct pdl_fed_summary sum;
    struct pdl_err err = {"", ""};
    struct small s;

    (void)state;
    small_open(&s, 96, false, "iid", 6);
    s.job.select = 7;
    assert_int_equal(small_run(&s.job, 1, &sum, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "7 clients of a round"));
    s.job.select = 0;
    s.job.algorithm = "fedavgg";
    assert_int_equal(small_run(&s.job, 3, &sum, &err), PDL_EPARSE);
    assert_non_null(strstr(err.msg, "no way to train together"));
    s.job.algorithm = "feddct:parts=1";
    assert_int_equal(small_run(&s.job, 1, &sum, &err), PDL_EPARSE);
    s.job.algorithm = NULL;
    s.job.partition.clients = 0;
    assert_int_equal(small_run(&s.job, 1, &sum, &err), PDL_EINVAL);
    assert_non_null(strstr(err.msg, "no clients"));
    small_close(&s);
}

/* A client of no samples is never chosen; more asked for than can. */
static void clients_without_samples_stay_away(void **state)
{
    struct pdl_fed_summary sum;
    struct heard h;
    struct small s;

    (void)state;
    small_open(&s, 20, false, "dirichlet:alpha=0.01,least=0", 30);
    s.job.select = 30;
    listen_to(&s.job, &h);
    free(run(s.job, 2, &sum).at);
    assert_true(sum.models > 0 && sum.models < 60);
    assert_non_null(strstr(h.note, "of 30 clients have no samples"));
    small_close(&s);
}

static void who_drops_out_or_is_late_is_counted(void **state)
{
    struct pdl_fed_summary sum;
    struct small s;

    (void)state;
    small_open(&s, 300, false, "iid", 30);
    s.job.rounds = 10;
    s.job.drop = 0.3;
    s.job.test_samples = -1;
    free(run(s.job, 2, &sum).at);
    assert_true(sum.lost > 60 && sum.lost < 120);
    assert_int_equal(sum.models + sum.lost, 300);
    s.job.drop = 0;
    s.job.speed = 10; /* a second, at the median */
    s.job.deadline_s = 1;
    free(run(s.job, 2, &sum).at);
    assert_true(sum.lost > 60 && sum.lost < 240);
    assert_true(fabs(sum.seconds - 10) < 1e-9);
    small_close(&s);
}

/* As many travel as clients can have them, and all get their turn. */
static void every_model_travels(void **state)
{
    struct pdl_buf text;
    struct small s;
    float x[NWEIGHTS], y[NWEIGHTS];
    struct bytes a, b;

    (void)state;
    small_open(&s, 5, false, "iid", 8); /* five have a sample */
    s.job.algorithm = "safa:every=1,own=0,ewc=0";
    a = run(s.job, 1, NULL);
    s.job.algorithm = "fedavg";
    b = run(s.job, 1, NULL);
    memcpy(x, a.at + a.n - sizeof x, sizeof x);
    memcpy(y, b.at + b.n - sizeof y, sizeof y);
    for (int k = 0; k < NWEIGHTS; k++)
        assert_true(fabsf(x[k] - y[k]) < 2e-6F);
    free(a.at);
    free(b.at);
    s.job.algorithm = "safa";
    s.job.away = 0.5;
    s.job.rounds = 30;
    text = small_emit(&s.job);
    assert_non_null(strstr(text.text, "\"start\": 4,"));
    assert_null(strstr(text.text, "\"start\": 5,"));
    pdl_buf_free(&text);
    small_close(&s);
}

/* Who trains alone has a model of its own, and that is written. */
static void every_client_alone_is_saved(void **state)
{
    struct pdl_err err = {"", ""};
    pdl_weights *w = NULL;
    struct small s;
    char path[128];

    (void)state;
    small_open(&s, 96, false, "iid", 6);
    s.job.algorithm = "local";
    free(run(s.job, 2, NULL).at);
    snprintf(path, sizeof path, "%s/w.safetensors", dir);
    assert_int_equal(pdl_weights_open(path, &w, &err), PDL_OK);
    assert_true(pdl_weights_find(w, "client0.conv1.weight") >= 0);
    assert_true(pdl_weights_find(w, "client5.conv1.weight") >= 0);
    assert_true(pdl_weights_find(w, "conv1.weight") < 0);
    pdl_weights_close(w);
    small_close(&s);
}

static void a_run_stops_at_its_target(void **state)
{
    struct pdl_fed_summary sum;
    struct small s;

    (void)state;
    small_open(&s, 300, false, "iid", 5);
    s.job.rounds = 30;
    s.job.target = 1;
    s.job.test_every = 30;
    free(run(s.job, 2, &sum).at);
    assert_true(!sum.reached && sum.rounds == 30);
    s.job.target = sum.accuracy * 0.99;
    s.job.test_every = 1;
    free(run(s.job, 2, &sum).at);
    assert_true(sum.reached && sum.rounds < 30);
    assert_true(sum.accuracy >= s.job.target);
    small_close(&s);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/paradl-fed-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    forget_folder(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_step_of_all_is_a_step_of_data_parallel_sgd),
        cmocka_unit_test(algorithms_meet_where_they_should),
        cmocka_unit_test(any_number_of_workers_gives_the_same_bits),
        cmocka_unit_test(devices_on_ranks_are_those_on_threads),
        cmocka_unit_test(numbers_lost_on_one_device_are_lost_for_all),
        cmocka_unit_test(a_stopped_run_goes_on_with_the_same_bits),
        cmocka_unit_test(a_target_stays_reached),
        cmocka_unit_test(a_resumed_run_tells_of_all_rounds),
        cmocka_unit_test(a_killed_run_goes_on_with_the_same_bits),
        cmocka_unit_test(clients_may_have_several_devices),
        cmocka_unit_test(what_distils_takes_batches_at_once),
        cmocka_unit_test(another_run_is_not_taken_up),
        cmocka_unit_test(a_client_without_numbers_is_left_out_and_named),
        cmocka_unit_test(a_rate_that_blows_up_ends_in_no_model),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(clients_without_samples_stay_away),
        cmocka_unit_test(who_drops_out_or_is_late_is_counted),
        cmocka_unit_test(every_model_travels),
        cmocka_unit_test(every_client_alone_is_saved),
        cmocka_unit_test(a_run_stops_at_its_target),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
