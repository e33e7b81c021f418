/* SPDX-License-Identifier: Apache-2.0
 *
 * A federated run: rounds of waves, sums, tests, checkpoints. Rank 0 is the
 * server and a worker, the others are workers; all write the same plans. */
#include "fed/fed_priv.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening -------------------------------------------------------- */

/* One client alone is what somebody else's server asks of it: the model there
 * and back, and nothing that a server of ours would keep. */
static enum pdl_status check_only(const struct fed *f, struct pdl_err *err)
{
    const struct pdl_fed_job *o = f->job;

    if (o->only >= o->partition.clients || fed_samples(f, o->only) == 0)
        return pdl_fail(err, PDL_EINVAL, "client %lld %s", (long long)o->only,
                        o->only >= o->partition.clients ? "is none of the run"
                                                        : "has no samples");
    if (f->alg->plan || f->alg->take || f->alg->end)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: more than a model goes to a client and back, so "
                        "that it takes part in no other run; fedavg and "
                        "fedprox do",
                        f->alg->is.name);
    return PDL_OK;
}

bool fed_has_classes(const struct fed *f)
{
    const struct pdl_dataset *d = pdl_io_describe(f->job->io);

    return d->classes > 0 && d->target.rank == 0 && d->target.integer;
}

static enum pdl_status check(struct fed *f, struct pdl_err *err)
{
    const struct pdl_fed_job *o = f->job;
    const struct pdl_dataset *d = pdl_io_describe(o->io);

    for (int64_t c = 0; c < o->partition.clients; c++)
        f->able += fed_samples(f, c) > 0;
    if (o->partition.clients < 1 || f->able == 0)
        return pdl_fail(err, PDL_EINVAL, "there are no clients with samples");
    if (o->select > o->partition.clients)
        return pdl_fail(err, PDL_EINVAL,
                        "%lld clients of a round, but there are %lld",
                        (long long)o->select, (long long)o->partition.clients);
    if (o->rounds < 0 || o->batch < 1 || (o->epochs < 1 && o->steps < 1) ||
        !(o->lr > 0) || !(o->drop >= 0 && o->drop < 1) ||
        !(o->away >= 0 && o->away < 1))
        return pdl_fail(err, PDL_EINVAL,
                        "rounds, batch, epochs, rate or "
                        "dropouts of a run are not possible");
    if (!fed_has_classes(f) && (f->alg->distils || f->alg->parts_key > 0)) {
        pdl_fail(err, PDL_EINVAL, "%s is for samples of one class each, not %s",
                 f->alg->is.name, d->name);
        pdl_hint(err, "the other algorithms take any");
        return PDL_EINVAL;
    }
    if (o->target > 0 && !d->target.integer)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: numbers to meet have no accuracy to stop at",
                        d->name);
    return o->only >= 0 ? check_only(f, err) : PDL_OK;
}

static int parts_of(const struct fed *f)
{
    return f->alg->parts_key > 0 ? (int)fed_value(f, f->alg->parts_key - 1) : 1;
}

/* Ranks that are a cluster's devices are teams of as many as it has parts, or
 * of less, if there are no more. */
static enum pdl_status open_team(struct fed *f, struct pdl_err *err)
{
    int64_t teams = (f->ranks + parts_of(f) - 1) / parts_of(f);
    int *members, n = 0;

    f->workers = f->ranks;
    f->worker = f->rank;
    if (!f->job->devices_are_ranks || parts_of(f) < 2 || f->job->strategy ||
        f->dry)
        return PDL_OK;
    f->workers = teams;
    f->worker = f->rank * teams / f->ranks;
    members = PDL_NEW(f->arena, int, f->ranks);
    if (!members)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int r = 0; r < f->ranks; r++)
        if (r * teams / f->ranks == f->worker)
            members[n++] = r;
    return n > 1 ? pdl_comm_subset(f->comm, n, members, &f->team, err) : PDL_OK;
}

static enum pdl_status open_learner(struct fed *f, struct pdl_err *err)
{
    const struct pdl_fed_job *o = f->job;
    const struct pdl_dataset *d = pdl_io_describe(o->io);
    struct fed_learner_options opt = {
        .model = o->model,
        .io = o->io,
        .batch = o->batch,
        .optimizer = o->optimizer,
        .backend = o->backend,
        .seed = o->seed,
        .strategy = o->strategy,
        .threads = o->threads,
        .team = f->team,
        .untested = f->dry || o->test_samples<0, .distils = f->alg->distils,
                                              .parts = parts_of(f),
                                              .stems = f->alg->stems_key> 0
                        ? (enum fed_stems)fed_value(f, f->alg->stems_key - 1)
                        : FED_STEMS_AGAIN};
    int train = pdl_dataset_split(d, "train");
    enum pdl_status st = PDL_OK;

    if (!o->raw && !d->input.integer && d->input.rank >= 2 &&
        d->input.dim[0] <= 16) {
        st = pdl_io_moments(o->io, train < 0 ? 0 : train, 10000, &f->normalise,
                            err);
        opt.normalise = &f->normalise;
    }
    if (st == PDL_OK)
        st = fed_learner_open(&opt, &f->learner, err);
    if (st == PDL_OK)
        f->n = fed_learner_size(f->learner);
    return st;
}

static enum pdl_status open_vectors(struct fed *f, struct pdl_err *err)
{
    const struct fed_alg *g = f->alg;
    int64_t n = f->n + 1, clients = f->job->partition.clients;
    bool ok;

    f->model = PDL_NEW(f->arena, float, n);
    f->squares = PDL_NEW(f->arena, float, n);
    f->down = PDL_NEW(f->arena, float, (1 + g->down) * n);
    f->up = PDL_NEW(f->arena, float, (1 + g->up) * n);
    f->sum = PDL_NEW(f->arena, double, f->rank == 0 ? n : 1);
    f->pool = PDL_NEW(f->arena, int64_t, f->job->partition.samples + 1);
    f->cluster = PDL_NEW(f->arena, int32_t, clients + 1);
    ok = f->model && f->squares && f->down && f->up && f->sum && f->pool &&
         f->cluster;
    for (int i = 0; i < g->shared; i++) {
        f->shared[i] = PDL_NEW(f->arena, float, n);
        ok = ok && f->shared[i];
    }
    if (!ok)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for models");
    for (int64_t c = 0; c < clients; c++)
        f->cluster[c] = -1;
    return PDL_OK;
}

static enum pdl_status begin(struct fed *f, struct pdl_err *err)
{
    const struct pdl_fed_job *o = f->job;
    enum pdl_status st = pdl_sampling_parse(
        pdl_fed_algorithm_at, "train together",
        o->algorithm ? o->algorithm : "fedavg", &f->with, err);

    if (st != PDL_OK)
        return st;
    f->alg = fed_alg_at(f->with.way);
    f->arena = pdl_arena_create((size_t)16 << 30);
    f->plans = pdl_arena_create((size_t)1 << 32);
    if (!f->plans || !f->arena)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    return check(f, err);
}

enum pdl_status fed_open(struct fed *f, struct pdl_err *err)
{
    enum pdl_status st = begin(f, err);

    if (st == PDL_OK)
        st = open_team(f, err);
    if (st == PDL_OK)
        st = open_learner(f, err);
    if (st == PDL_OK)
        st = open_vectors(f, err);
    if (st == PDL_OK)
        st = fed_learner_start(f->learner, f->model, err);
    if (st == PDL_OK)
        st = fed_weights_read(f, err);
    if (st == PDL_OK && f->alg->open)
        st = f->alg->open(f, err);
    return st;
}

void fed_close(struct fed *f)
{
    fed_shelves_close(f);
    free(f->history);
    fed_keep_close(f);
    fed_learner_close(f->learner);
    pdl_comm_destroy(f->team);
    pdl_arena_destroy(f->arena);
    pdl_arena_destroy(f->plans);
}

/* ---- rounds --------------------------------------------------------- */

static void tell(struct fed *f, const struct pdl_fed_line *line)
{
    if (f->rank == 0 && f->job->tell)
        f->job->tell(f->job->ctx, line);
}

void fed_note(struct fed *f, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    tell(f, &(struct pdl_fed_line){.round = f->sum_up.rounds, .note = text});
}

/* Rank 0 decides: is it time to save, shall the run stop? */
static enum pdl_status agree(struct fed *f, bool *save, bool *stop,
                             struct pdl_err *err)
{
    const struct pdl_fed_job *o = f->job;
    int64_t every = o->every > 0 ? o->every : f->nlive;
    double says[2] = {0, 0};
    enum pdl_status st = PDL_OK;

    if (f->rank == 0) {
        says[1] = o->stop && *o->stop;
        says[0] = o->checkpoint && (says[1] > 0 || f->done - f->saved >= every);
    }
    if (f->ranks > 1)
        st = pdl_comm_broadcast(f->comm, says, 2, PDL_COMM_F64, 0, err);
    *save = says[0] > 0;
    *stop = says[1] > 0;
    return st;
}

static enum pdl_status save_all(struct fed *f, struct pdl_err *err)
{
    return fed_all_well(f, f->rank == 0 ? fed_keep_save(f, err) : PDL_OK, err);
}

/* What is left of a round: tasks [f->next, f->nlive). */
static enum pdl_status run_tasks(struct fed *f, bool *stop, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    while (f->next < f->nlive && st == PDL_OK && !*stop) {
        bool save;

        st = fed_wave(f, err);
        if (st == PDL_OK && f->rank == 0 && f->job->trained)
            f->job->trained(f->job->ctx, f->next, f->nlive);
        /* the end of a round is saved when the round has ended */
        if (st == PDL_OK && f->next < f->nlive) {
            st = agree(f, &save, stop, err);
            if (st == PDL_OK && save)
                st = save_all(f, err);
        }
    }
    return st;
}

static void clear_round(struct fed *f)
{
    if (f->rank == 0)
        memset(f->sum, 0, (size_t)f->n * sizeof f->sum[0]);
    f->weight = f->train_loss = f->train_samples = 0;
    f->came = f->gone = f->next = 0;
    f->lost[0] = '\0';
    f->unnamed = 0;
}

static void note_gone(struct fed *f)
{
    char more[40] = "";

    if (f->unnamed > 0)
        snprintf(more, sizeof more, " and %lld more", (long long)f->unnamed);
    fed_note(f, "round %lld: no numbers came back from client%s%s",
             (long long)f->sum_up.rounds + 1, f->lost, more);
}

/* All that comes back has come. */
static enum pdl_status end_round(struct fed *f, struct pdl_fed_line *line,
                                 struct pdl_err *err)
{
    const struct pdl_fed_round *r = &f->plan.is;

    if (f->rank == 0) {
        (f->alg->end ? f->alg->end : fed_mean)(f);
        if (f->gone > 0)
            note_gone(f);
        if (f->came == 0 && !f->alg->waits)
            fed_note(f, "round %lld: nothing came back, the model stays",
                     (long long)f->sum_up.rounds + 1);
    }
    if (f->plan.failed)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for models");
    f->sum_up.models += f->came;
    f->sum_up.lost += r->ntasks - f->came;
    f->sum_up.down_bytes += r->down_bytes;
    f->sum_up.up_bytes += r->up_bytes;
    f->sum_up.across_bytes += r->across_bytes;
    f->sum_up.seconds += r->seconds;
    f->sum_up.rounds++;
    *line =
        (struct pdl_fed_line){.plan = r,
                              .round = f->sum_up.rounds,
                              .rounds = f->job->rounds,
                              .trained = f->came,
                              .lost = r->ntasks - f->came,
                              .train_loss = f->train_loss / f->train_samples,
                              .loss = NAN,
                              .accuracy = NAN,
                              .groups = f->job->partition.groups,
                              .clients = f->job->partition.clients,
                              .clusters = (int64_t)f->clusters,
                              .cluster = f->cluster,
                              .similarity = f->similarity};
    return PDL_OK;
}

static bool is_tested(const struct fed *f)
{
    int64_t every = f->job->test_every > 0 ? f->job->test_every : 1;

    return f->job->test_samples >= 0 && (f->sum_up.rounds % every == 0 ||
                                         f->sum_up.rounds == f->job->rounds);
}

static enum pdl_status one_round(struct fed *f, bool *stop, struct pdl_err *err)
{
    struct pdl_fed_line line = {.accuracy = NAN};
    bool save = false;
    enum pdl_status st = run_tasks(f, stop, err);

    if (st != PDL_OK || (*stop && f->next < f->nlive))
        return st;
    st = fed_all_well(f, end_round(f, &line, err), err);
    if (st == PDL_OK)
        st = fed_share(f, err);
    if (st == PDL_OK && is_tested(f))
        st = fed_test(f, &line, err);
    if (st != PDL_OK)
        return st;
    f->sum_up.reached = f->job->target > 0 && line.accuracy >= f->job->target;
    if (f->rank == 0)
        fed_history_add(f, &line);
    tell(f, &line);
    clear_round(f);
    if (f->sum_up.rounds < f->job->rounds)
        st = fed_all_well(f, fed_plan_round(f, err), err);
    if (st == PDL_OK)
        st = agree(f, &save, stop, err);
    save = save || (f->job->checkpoint &&
                    (f->sum_up.reached || f->sum_up.rounds == f->job->rounds));
    return st == PDL_OK && save ? save_all(f, err) : st;
}

/* A resumed run writes the plans before the one that it is in, too: what an
 * algorithm knows of them (who is still under way) follows from the seed. */
static enum pdl_status replay(struct fed *f, struct pdl_err *err)
{
    int64_t rounds = f->sum_up.rounds;
    enum pdl_status st = PDL_OK;

    for (f->sum_up.rounds = 0; f->sum_up.rounds < rounds && st == PDL_OK;
         f->sum_up.rounds++)
        st = fed_plan_round(f, err);
    f->sum_up.rounds = rounds;
    return st == PDL_OK ? fed_plan_round(f, err) : st;
}

static void tell_start(struct fed *f)
{
    int64_t clients = f->job->partition.clients;

    if (f->done > 0 && f->sum_up.reached)
        fed_note(f, "resumed after round %lld, which reached the target",
                 (long long)f->sum_up.rounds);
    else if (f->done > 0 && f->sum_up.rounds >= f->job->rounds)
        fed_note(f, "resumed after the last of %lld rounds",
                 (long long)f->sum_up.rounds);
    else if (f->done > 0)
        fed_note(f, "resumed in round %lld, with %lld of %lld models trained",
                 (long long)f->sum_up.rounds + 1, (long long)f->next,
                 (long long)f->nlive);
    if (f->done == 0 && f->job->resume)
        fed_note(f, "%s: no checkpoint yet: from the beginning",
                 f->job->checkpoint);
    if (f->able < clients)
        fed_note(f, "%lld of %lld clients have no samples: nobody asks them",
                 (long long)(clients - f->able), (long long)clients);
}

/* What was in the rounds so far. */
static void recall(struct fed *f, struct pdl_fed_line *last)
{
    if (f->done > 0 && f->alg->recall) {
        f->alg->recall(f);
        last->clusters = (int64_t)f->clusters;
        last->cluster = f->cluster;
        last->similarity = f->similarity;
    }
    fed_history_tell(f, last);
}

static bool is_over(const struct fed *f)
{
    return f->sum_up.reached || f->sum_up.rounds >= f->job->rounds;
}

/* What rank 0 read from a checkpoint, to all. Of a run that is over, what the
 * last test said of each client was not kept: it is tested again. */
static enum pdl_status go_on(struct fed *f, struct pdl_err *err)
{
    struct pdl_fed_line last = {.groups = f->job->partition.groups,
                                .clients = f->job->partition.clients};
    double right = fed_history_last(f);
    double where[] = {(double)f->sum_up.rounds, (double)f->next,
                      (double)f->done, f->sum_up.seconds,
                      f->job->target > 0 && right >= f->job->target};
    enum pdl_status st = PDL_OK;

    if (f->ranks > 1)
        st = pdl_comm_broadcast(f->comm, where, 5, PDL_COMM_F64, 0, err);
    f->sum_up.rounds = (int64_t)where[0];
    f->next = (int64_t)where[1];
    f->done = (int64_t)where[2];
    f->sum_up.reached = where[4] > 0;
    f->sum_up.resumed_at = f->done;
    if (st == PDL_OK)
        st = fed_all_well(f, replay(f, err), err);
    if (st == PDL_OK && f->next > f->nlive)
        st = pdl_fail(err, PDL_EINVAL,
                      "the checkpoint is of another run: task %lld of %lld",
                      (long long)f->next, (long long)f->nlive);
    if (st == PDL_OK)
        st = fed_share(f, err);
    if (st == PDL_OK && f->done > 0 && is_over(f) && f->job->test_samples >= 0)
        st = fed_test(f, &last, err);
    if (st == PDL_OK && f->rank == 0)
        recall(f, &last);
    if (st == PDL_OK)
        tell_start(f);
    return st;
}

enum pdl_status pdl_fed_run(const struct pdl_fed_job *job, pdl_comm *comm,
                            struct pdl_fed_summary *out, struct pdl_err *err)
{
    struct fed f = {.job = job,
                    .comm = comm,
                    .rank = pdl_comm_rank(comm),
                    .ranks = pdl_comm_size(comm),
                    .start_s = pdl_clock_s()};
    bool stop = false;
    enum pdl_status st;

    f.sum_up.loss = f.sum_up.accuracy = f.sum_up.best = NAN;
    st = fed_open(&f, err);
    if (st == PDL_OK && f.rank == 0)
        st = fed_keep_open(&f, err);
    st = fed_all_well(&f, st, err);
    if (st == PDL_OK)
        st = go_on(&f, err);
    while (st == PDL_OK && !stop && !is_over(&f))
        st = one_round(&f, &stop, err);
    if (st == PDL_OK && f.rank == 0 && job->weights_out)
        st = fed_weights_write(&f, job->weights_out, err);
    f.sum_up.parameters = f.n;
    f.sum_up.wall_s = pdl_clock_s() - f.start_s;
    f.sum_up.stopped = stop;
    if (f.learner)
        f.sum_up.memory_bytes = fed_learner_memory(f.learner);
    *out = f.sum_up;
    fed_close(&f);
    return st;
}
