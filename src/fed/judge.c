/* SPDX-License-Identifier: Apache-2.0
 *
 * What the test split says of the model: workers share its batches, rank 0
 * adds them up in their order. How good the model is for a client, or a group
 * of clients, is what it gets right of each class, mixed as the client's own
 * samples are: test samples of its very distribution, without giving any of
 * them to anybody. */
#include "fed/fed_priv.h"

#include <math.h>
#include <stdlib.h>

enum { BATCH = 100 }; /* of the learner's tests */

struct tests {
    int64_t n, batches, classes;
    double answers; /* of a sample: its positions; 0: numbers, none is right */
    int32_t *label; /* NULL: samples are not of one class */
    double *loss;   /* of each batch */
    double *right;  /* of each sample */
    double *of_class, *rate;
};

static enum pdl_status open_labels(struct fed *f, struct tests *t, int split,
                                   struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(f->job->io);
    struct pdl_read r = {.split = split, .nsamples = t->n};
    int64_t *ids = calloc((size_t)t->n + 1, sizeof ids[0]);
    enum pdl_status st;

    t->classes = d->classes;
    t->label = calloc((size_t)t->n + 1, sizeof t->label[0]);
    t->of_class = calloc(2 * (size_t)t->classes + 1, sizeof t->of_class[0]);
    if (!t->label || !t->of_class || !ids) {
        free(ids);
        return pdl_fail(err, PDL_ENOMEM, "out of memory for tests");
    }
    t->rate = t->of_class + t->classes;
    for (int64_t i = 0; i < t->n; i++)
        ids[i] = i;
    r.samples = ids;
    r.box = pdl_field_box(&d->target);
    st = pdl_io_target(f->job->io, &r, t->label, err);
    free(ids);
    return st;
}

static enum pdl_status open_tests(struct fed *f, struct tests *t,
                                  struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(f->job->io);
    int split = pdl_dataset_split(d, "test");

    if (split < 0)
        return PDL_OK;
    t->n = d->split[split].samples;
    if (f->job->test_samples > 0 && f->job->test_samples < t->n)
        t->n = f->job->test_samples;
    t->batches = (t->n + BATCH - 1) / BATCH;
    t->answers = d->target.integer;
    for (int k = 0; k < d->target.rank; k++)
        t->answers *= (double)d->target.dim[k];
    if (fed_learner_masked(f->learner) > 0)
        t->answers = (double)fed_learner_masked(f->learner);
    t->loss = calloc((size_t)(t->batches + t->n) + 1, sizeof t->loss[0]);
    if (!t->loss)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for tests");
    t->right = t->loss + t->batches;
    return fed_has_classes(f) ? open_labels(f, t, split, err) : PDL_OK;
}
static void close_tests(struct tests *t)
{
    free(t->label);
    free(t->loss);
    free(t->of_class);
}

/* One model: loss of batches and what is right, known to all ranks. */
static enum pdl_status run(struct fed *f, const float *w, struct tests *t,
                           struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int64_t i = 0; i < t->batches + t->n; i++)
        t->loss[i] = 0;
    for (int64_t b = f->rank; b < t->batches && st == PDL_OK; b += f->ranks) {
        int64_t n = t->n - b * BATCH;

        st = fed_learner_test(f->learner, w, b * BATCH, n < BATCH ? n : BATCH,
                              &t->loss[b], &t->right[b * BATCH], err);
    }
    st = fed_all_well(f, st, err);
    if (st == PDL_OK && f->ranks > 1) /* each number is one rank's */
        st = pdl_comm_allreduce(f->comm, t->loss, t->loss, t->batches + t->n,
                                PDL_COMM_F64, PDL_COMM_SUM, err);
    return st;
}

/* Share of right answers of each class. */
static void by_class(struct tests *t)
{
    for (int64_t c = 0; c < t->classes; c++)
        t->of_class[c] = t->rate[c] = 0;
    if (!t->label)
        return;
    for (int64_t i = 0; i < t->n; i++) {
        t->of_class[t->label[i]]++;
        t->rate[t->label[i]] += t->right[i];
    }
    for (int64_t c = 0; c < t->classes; c++)
        t->rate[c] = t->of_class[c] > 0 ? t->rate[c] / t->of_class[c] : NAN;
}

/* Mixed as the client's samples are; classes that are not tested count
 * nothing. */
static double for_client(const struct fed *f, const struct tests *t, int64_t c)
{
    const int64_t *all = f->job->partition.count;
    const int64_t *count = all ? all + c * t->classes : NULL;
    double sum = 0, n = 0;

    for (int64_t k = 0; count && k < t->classes; k++)
        if (count[k] > 0 && !isnan(t->rate[k])) {
            sum += (double)count[k] * t->rate[k];
            n += (double)count[k];
        }
    return n > 0 ? sum / n : NAN;
}

static void add_model(const struct tests *t, struct pdl_fed_line *line)
{
    double loss = 0, right = 0;

    for (int64_t b = 0; b < t->batches; b++)
        loss += t->loss[b];
    for (int64_t i = 0; i < t->n; i++)
        right += t->right[i];
    line->loss = loss / (double)t->n;
    line->accuracy = t->answers > 0 ? right / ((double)t->n * t->answers) : NAN;
}

/* Of a group: the mean over its clients. */
static void by_group(const struct fed *f, const double *client, double *group)
{
    const struct pdl_partition *p = &f->job->partition;

    for (int64_t g = 0; g < p->groups; g++) {
        double n = 0, sum = 0;

        for (int64_t c = 0; c < p->clients; c++)
            if (p->group[c] == g && !isnan(client[c])) {
                sum += client[c];
                n++;
            }
        group[g] = n > 0 ? sum / n : NAN;
    }
}

/* Models of their own: each client's is tested, and the mean is told. */
static enum pdl_status test_apart(struct fed *f, struct tests *t,
                                  struct pdl_fed_line *line, double *client,
                                  struct pdl_err *err)
{
    struct pdl_fed_line sum = {.loss = 0};
    enum pdl_status st = PDL_OK;
    int64_t n = 0;

    for (int64_t c = 0; c < line->clients && st == PDL_OK; c++) {
        double has = f->rank == 0 && fed_has_slot(f, 0, c);

        client[c] = NAN;
        if (f->ranks > 1)
            st = pdl_comm_broadcast(f->comm, &has, 1, PDL_COMM_F64, 0, err);
        if (st != PDL_OK || has == 0)
            continue;
        if (f->rank == 0)
            for (int64_t i = 0; i < f->n; i++)
                f->squares[i] = fed_slot(f, 0, c)[i];
        if (f->ranks > 1)
            st = pdl_comm_broadcast(f->comm, f->squares, f->n, PDL_COMM_F32, 0,
                                    err);
        if (st == PDL_OK)
            st = run(f, f->squares, t, err);
        add_model(t, line);
        by_class(t);
        client[c] = for_client(f, t, c);
        sum.loss += line->loss;
        sum.accuracy += line->accuracy;
        n++;
    }
    line->loss = sum.loss / (double)n;
    line->accuracy = sum.accuracy / (double)n;
    return st;
}

enum pdl_status fed_test(struct fed *f, struct pdl_fed_line *line,
                         struct pdl_err *err)
{
    struct tests t = {.n = 0};
    double *client = PDL_NEW(f->plans, double, line->clients + 1);
    double *group = PDL_NEW(f->plans, double, line->groups + 1);
    enum pdl_status st = client && group
                             ? open_tests(f, &t, err)
                             : pdl_fail(err, PDL_ENOMEM, "out of memory");

    st = fed_all_well(f, st, err);
    if (st == PDL_OK && t.n > 0 && f->alg->apart) {
        st = test_apart(f, &t, line, client, err);
    } else if (st == PDL_OK && t.n > 0) {
        st = run(f, f->model, &t, err);
        add_model(&t, line);
        by_class(&t);
        for (int64_t c = 0; c < line->clients; c++)
            client[c] = for_client(f, &t, c);
    }
    if (st == PDL_OK && t.n > 0) {
        by_group(f, client, group);
        line->client_accuracy = t.label ? client : NULL;
        line->group_accuracy = t.label ? group : NULL;
        f->sum_up.loss = line->loss;
        f->sum_up.accuracy = line->accuracy;
        f->sum_up.best = fmax(f->sum_up.best, line->accuracy);
    }
    close_tests(&t);
    return st;
}
