/* SPDX-License-Identifier: Apache-2.0
 *
 * A whole run of one rank: epochs of steps, evaluation, checkpoints. The
 * order of samples and every random number are functions of the seed and the
 * step, so a run goes on from a checkpoint with any number of ranks and any
 * strategy. What only one rank can know (a signal, the cost of a checkpoint)
 * is a vote that travels with the loss. */
#include "train/exec/loop.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

bool train_is_first(const struct train_loop *l)
{
    return pdl_comm_rank(l->comm) == 0;
}

void train_tell(struct train_loop *l, struct pdl_train_line line)
{
    line.total = l->steps;
    if (train_is_first(l) && l->job->tell)
        l->job->tell(l->job->ctx, &line);
}

void train_note(struct train_loop *l, const char *fmt, ...)
{
    char text[4200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    train_tell(l, (struct pdl_train_line){.step = l->done, .note = text});
}

enum { LOOKED = 4 }; /* steps of a device whose operations are timed */

/* Bytes that a run may keep beside its plan: samples of a step in float32, of
 * both splits. */
#define MOST_KEPT ((size_t)1 << 40)

/* ---- data ------------------------------------------------------------- */

static enum pdl_status open_samples(struct train_loop *l,
                                    struct train_samples *s, int split,
                                    struct pdl_err *err)
{
    const struct pdl_plan *p = l->job->plan;
    int64_t most = 0;

    for (int i = 0; i < p->ntensors; i++)
        if (train_is_loaded(&p->tensors[i])) {
            struct pdl_box b;

            pdl_plan_box(p, i, pdl_comm_rank(l->comm), &b);
            most = pdl_box_volume(&b) > most ? pdl_box_volume(&b) : most;
        }
    for (int i = 0; i < p->nops && l->job->opt.mean_squares; i++)
        if (train_ends_loss(&p->ops[i])) {
            struct pdl_box b;

            pdl_plan_box(p, p->ops[i].in[0], pdl_comm_rank(l->comm), &b);
            most = pdl_box_volume(&b) > most ? pdl_box_volume(&b) : most;
        }
    *s = (struct train_samples){.io = l->job->io,
                                .split = split,
                                .model = p->model,
                                .numbers = l->job->opt.mean_squares,
                                .mask = l->mask,
                                .threads = l->job->threads,
                                .wide_bytes = 4 * most};
    s->ids = PDL_NEW(l->arena, int64_t, p->batch + 1);
    s->batch = PDL_NEW(l->arena, int64_t, p->batch + 1);
    s->wide = PDL_NEW(l->arena, float, most + 1);
    s->mask.draws =
        pdl_arena_alloc(l->arena, 1, train_mask_bytes(&l->mask) + 1);
    return s->ids && s->batch && s->wide && s->mask.draws
               ? PDL_OK
               : pdl_fail(err, PDL_ENOMEM,
                          "out of memory: %.2f GiB for the samples of a step",
                          (double)s->wide_bytes / (1 << 30));
}

/* Samples whose mean and deviation normalise all: many small ones, of large
 * ones as many as take about a second to read. */
static int64_t normalise_by(const struct pdl_field *f)
{
    const int64_t most = 10000, least = 64, numbers = (int64_t)1 << 27;
    struct pdl_box b = pdl_field_box(f);
    int64_t n = numbers / (pdl_box_volume(&b) + 1);

    return n > most ? most : n < least ? least : n;
}

/* Samples to train come from this rank's store, where there is one. */
static enum pdl_status open_supply(struct train_loop *l, struct pdl_err *err)
{
    struct train_supply *s = &l->supply;
    enum pdl_status st;

    *s = (struct train_supply){.source = l->job->io,
                               .split = l->train.split,
                               .sampler = l->epochs.sampler,
                               .threads = l->job->threads,
                               .stop = l->job->stop};
    if (!l->job->store || l->job->evaluate)
        return PDL_OK;
    st = train_supply_deal(s, l->job->plan, l->comm, err);
    if (st == PDL_OK)
        st = train_supply_open(s, l->job->store, l->comm, err);
    if (s->io)
        l->train.io = l->hidden.io = s->io;
    return st;
}

static enum pdl_status open_data(struct train_loop *l, struct pdl_err *err)
{
    const struct pdl_dataset *d = pdl_io_describe(l->job->io);
    int train = pdl_dataset_split(d, "train"), test;
    enum pdl_status st =
        train_samples_check(d, l->job->plan, l->job->opt.mean_squares, err);

    if (st == PDL_OK)
        st = train_mask_open(d, l->job->plan->model, l->job->mask_token,
                             &l->mask, err);
    if (st != PDL_OK)
        return st;
    l->mask.seed = l->job->opt.seed;
    train = train < 0 ? 0 : train;
    test = pdl_dataset_split(d, l->job->split ? l->job->split : "test");
    if (l->job->evaluate && test < 0)
        return pdl_fail(err, PDL_EINVAL, "%s: has no split '%.40s'", d->name,
                        l->job->split ? l->job->split : "test");
    if (d->split[train].samples <
        l->job->plan->batch * (l->sites->across ? l->job->sites : 1))
        return pdl_fail(err, PDL_EINVAL,
                        "%s: %lld samples do not fill a batch of %lld", d->name,
                        (long long)d->split[train].samples,
                        (long long)l->job->plan->batch);
    st = open_samples(l, &l->train, train, err);
    if (st == PDL_OK)
        st = open_samples(l, &l->test, test, err);
    if (st == PDL_OK)
        st = open_samples(l, &l->hidden, train, err);
    if (st == PDL_OK)
        st = train_epochs_open(&l->epochs, l->job, &l->train, l->arena, err);
    if (st == PDL_OK && !d->input.integer && !l->job->raw &&
        d->input.rank >= 2 && d->input.dim[0] <= 16)
        st = pdl_io_moments(l->job->io, train, normalise_by(&d->input),
                            &l->normalise, err);
    l->augment = l->normalise;
    l->augment.pad = l->job->augment ? d->input.dim[1] / 8 : 0;
    l->augment.flip = l->job->augment;
    l->test.augment = l->normalise.channels > 0 ? &l->normalise : NULL;
    l->train.augment = l->job->augment ? &l->augment : l->test.augment;
    l->hidden.augment = l->train.augment;
    return st == PDL_OK ? open_supply(l, err) : st;
}

int64_t train_samples_of(const struct train_loop *l)
{
    return pdl_io_describe(l->job->io)->split[l->train.split].samples;
}

static int64_t epoch_of(const struct train_loop *l)
{
    return pdl_sampler_epoch(l->epochs.sampler);
}

/* How many steps the whole run has: exactly in its last epoch, before that if
 * later ones hide nothing. */
static void count_steps(struct train_loop *l)
{
    int64_t later = l->job->epochs - epoch_of(l) - 1, n;

    if (!pdl_mul64(later > 0 ? later : 0, l->epochs.full, &n) ||
        !pdl_add64(n, l->done + train_epochs_left(&l->epochs), &l->steps))
        l->steps = INT64_MAX; /* for ever, as good as */
    if (later < 0)
        l->steps = l->done;
    if (l->job->steps > 0 && (l->job->epochs == 0 || l->job->steps < l->steps))
        l->steps = l->job->steps;
}

/* Samples that rank 0's store did not hold. */
static void tell_supply(struct train_loop *l)
{
    struct train_supply *s = &l->supply;

    if (s->from_ranks + s->from_source > s->told)
        train_note(l,
                   "the store was short of %" PRId64 " samples: %" PRId64
                   " from other ranks, %" PRId64 " from the data set so far",
                   s->from_ranks + s->from_source - s->told, s->from_ranks,
                   s->from_source);
    s->told = s->from_ranks + s->from_source;
}

/* Batches are read ahead; where an epoch follows from the one before, only to
 * its end. */
enum pdl_status train_read_ahead(struct train_loop *l, struct pdl_err *err)
{
    const struct train_epochs *e = &l->epochs;
    enum pdl_status st;

    train_ahead_close(&l->train);
    if (l->sites->across) /* whose batches are not one after the other */
        return PDL_OK;
    if (pdl_sampler_is_plain(e->sampler))
        return train_ahead_open(&l->train, l->t, l->done + l->mishap.shift,
                                l->steps + l->mishap.shift, err);
    st = train_supply_settle(&l->supply, e->index, err);
    if (st == PDL_OK)
        tell_supply(l);
    return st == PDL_OK ? train_ahead_open(&l->train, l->t, e->index,
                                           pdl_sampler_batches(e->sampler), err)
                        : st;
}

/* The batch of the next step. */
static enum pdl_status locate(struct train_loop *l, struct pdl_err *err)
{
    struct train_epochs *e = &l->epochs;
    bool plain = pdl_sampler_is_plain(e->sampler);
    enum pdl_status st = PDL_OK;

    if (train_epochs_left(e) == 0) {
        if (!plain)
            train_ahead_close(&l->train);
        st = train_supply_end(&l->supply, err);
        train_epochs_next(e);
        count_steps(l);
        if (st == PDL_OK && !plain)
            st = train_read_ahead(l, err);
    }
    if (st == PDL_OK)
        st = train_supply_step(&l->supply, e->index, err);
    l->train.first = e->index * l->job->plan->batch;
    if (l->sites->across)
        l->train.first = l->train.first * l->job->sites +
                         l->sites->site * l->job->plan->batch;
    l->train.end = l->train.first + l->job->plan->batch;
    l->augment.seed = l->job->opt.seed;
    l->augment.epoch = epoch_of(l);
    if (st == PDL_OK)
        st = train_ahead_next(&l->train, err);
    if (st == PDL_OK)
        train_epochs_weigh(e, l->t, &l->train);
    return st;
}

/* ---- steps ------------------------------------------------------------ */

static enum pdl_status end_epoch(struct train_loop *l, double rate, bool *stop,
                                 struct pdl_err *err)
{
    const int64_t *ids;
    enum pdl_status st =
        train_epochs_refresh(&l->epochs, l->t, &l->hidden, err);

    if (st == PDL_OK)
        st = train_score(l, stop, err);
    train_tell(l, (struct pdl_train_line){
                      .step = l->done,
                      .epoch = epoch_of(l),
                      .hidden = pdl_sampler_hidden(l->epochs.sampler, &ids),
                      .loss = l->epoch_loss / (double)l->epoch_steps,
                      .lr = train_schedule_rate(&l->rates, l->done),
                      .samples_per_s = rate,
                      .grad_norm = NAN,
                      .test_loss = l->score.loss,
                      .perplexity = l->score.perplexity,
                      .accuracy = l->score.accuracy,
                      .epoch_ended = true});
    l->epoch_loss = 0;
    l->epoch_steps = 0;
    return st;
}

/* What follows a step. A checkpoint comes before the evaluation: it is written
 * while that goes on, and a long evaluation endangers nothing. */
static enum pdl_status after_step(struct train_loop *l,
                                  const struct pdl_train_result *r, bool ends,
                                  double rate, bool *stop, struct pdl_err *err)
{
    bool due = r->save > 0 || r->stop > 0 || l->done == l->steps;
    enum pdl_status st = PDL_OK;

    *stop = r->stop > 0;
    if (r->failed > 0)
        st = train_keep_shared(l, err);
    if (st == PDL_OK && l->keep.saver && due)
        st = train_keep_save(l, err);
    if (st == PDL_OK && (ends || l->done == l->steps))
        st = end_epoch(l, rate, stop, err);
    if (l->sites->across) /* all of them or none */
        *stop = r->stop > 0;
    if (st == PDL_OK && l->keep.saver && *stop && !due)
        st = train_keep_save(l, err);
    return st;
}

/* Of the next step: a run of epochs goes by what part of it is done. */
static double learning_rate(const struct train_loop *l)
{
    int64_t at =
        l->job->steps > 0 ? l->done + 1 : train_epochs_progress(&l->epochs);

    return train_schedule_rate(&l->rates, at) *
           pdl_sampler_rate(l->epochs.sampler);
}

/* What ran in slow kernels: by the second step, since the first one also
 * prepares; by the first where there is no other. */
static enum pdl_status tell_slow(struct train_loop *l, double seconds,
                                 struct pdl_err *err)
{
    int64_t since = l->done - l->resumed_at;

    if (since == 1 && l->done < l->steps)
        train_slow_reset(l->t);
    if (since != (l->resumed_at + 1 < l->steps ? 2 : 1))
        return PDL_OK;
    return train_slow_tell(l, seconds, err);
}

/* Once; what is copied through grows with the first steps. */
static void tell_unlocked(struct train_loop *l)
{
    char a[32];

    if (l->told_unlocked || train_unlocked(l->t) == 0)
        return;
    l->told_unlocked = true;
    train_note(l,
               "%s of the host's memory may not be locked (ulimit -l, a "
               "cgroup): copies to and from it are slower",
               pdl_unit_format((double)train_unlocked(l->t), PDL_UNIT_BYTES, a,
                               sizeof a));
}

static bool on_device(const struct train_loop *l)
{
    return l->t && l->t->device;
}

static enum pdl_status one_step(struct train_loop *l, bool *stop,
                                struct pdl_err *err)
{
    struct pdl_train_feed feed = {train_samples_fill, &l->train,
                                  train_ahead_advance, train_ahead_at};
    double from = pdl_clock_s(), cpu = pdl_cpu_s(), seconds, rate, lr;
    struct pdl_train_result r;
    enum pdl_status st;
    bool looked;

    st = locate(l, err);
    if (st == PDL_OK)
        st = train_mishap_before(l, err);
    if (st != PDL_OK)
        return st;
    lr = learning_rate(l);
    l->outputs.on = l->job->outputs != NULL;
    looked = l->job->timings && (!on_device(l) || l->steps - l->done <= LOOKED);
    pdl_trainer_time(l->t, looked);
    if (l->job->timings)
        train_clock_step(&l->clock);
    pdl_trainer_vote(l->t, train_asked_to_stop(l), train_keep_due(l),
                     train_keep_failed(l));
    st = pdl_trainer_step(l->t, l->done, lr, &feed, &r, err);
    l->outputs.on = false;
    if (st != PDL_OK)
        return st == PDL_EWRONG ? train_mishap(l, err) : st;
    train_mishap_none(l, r.loss);
    st = train_average_step(l, err);
    if (st != PDL_OK)
        return st;
    seconds = pdl_clock_s() - from;
    l->cpu_s += pdl_cpu_s() - cpu;
    l->busy_s += seconds;
    if (!(l->fastest_s > 0) || seconds < l->fastest_s)
        l->fastest_s = seconds;
    if (l->job->timings && !looked)
        train_clock_pace(&l->clock, seconds);
    rate =
        (double)(l->job->plan->batch * (l->sites->across ? l->job->sites : 1)) /
        seconds;
    train_epochs_step(&l->epochs, l->t, &l->train);
    l->done++;
    l->last_loss = r.loss;
    l->epoch_loss += r.loss;
    l->epoch_steps++;
    train_tell(l, (struct pdl_train_line){.step = l->done,
                                          .epoch = epoch_of(l),
                                          .loss = r.loss,
                                          .lr = lr,
                                          .samples_per_s = rate,
                                          .grad_norm = r.grad_norm,
                                          .test_loss = NAN,
                                          .perplexity = NAN,
                                          .accuracy = NAN});
    tell_unlocked(l);
    st = tell_slow(l, seconds, err);
    if (st == PDL_OK)
        st = train_sites_step(l, &r, err);
    if (st != PDL_OK)
        return st;
    return after_step(l, &r, train_epochs_left(&l->epochs) == 0, rate, stop,
                      err);
}

static enum pdl_status run_steps(struct train_loop *l,
                                 struct pdl_train_summary *out,
                                 struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    bool stop = false;

    l->start_s = l->keep.since_s = pdl_clock_s();
    if (l->done >= l->steps) /* resumed where there is nothing left to do */
        st = train_score(l, &stop, err);
    while (l->done < l->steps && !stop && st == PDL_OK)
        st = one_step(l, &stop, err);
    out->stopped = stop && (l->done < l->steps || (train_score_samples(l) > 0 &&
                                                   isnan(l->score.loss)));
    return st;
}

/* ---- the whole -------------------------------------------------------- */

static enum pdl_status set_rates(struct train_loop *l, struct pdl_err *err)
{
    const struct pdl_train_rates *r = &l->job->rates;

    l->rates = (struct train_schedule){.base = r->lr,
                                       .last = r->last,
                                       .warmup = r->warmup,
                                       .total = l->steps,
                                       .every = r->every,
                                       .gamma = r->gamma};
    if (r->schedule && !train_schedule_find(r->schedule, &l->rates.kind))
        return pdl_fail(err, PDL_EINVAL, "no schedule '%.40s'", r->schedule);
    return PDL_OK;
}

/* Which batch norm it is: the one thing in which data=N by default is not the
 * serial run. */
static void tell_norms(struct train_loop *l)
{
    const struct pdl_plan *p = l->job->plan;
    int64_t groups = 1, each = p->batch / p->micro_batches;

    for (int i = 0; i < p->model->nnodes; i++) {
        int64_t n = train_norm_groups(p, i);

        groups = n > groups ? n : groups;
    }
    if (groups > 1)
        train_note(l,
                   "batch norm takes its statistics from %lld of %lld samples "
                   "(bn=sync: from all, as a serial run does)",
                   (long long)((each + groups - 1) / groups), (long long)each);
}

static void tell_of_weights(void *ctx, const char *text)
{
    struct train_loop *l = ctx;
    char line[400];

    snprintf(line, sizeof line, "%.100s: %.280s", l->job->weights_in, text);
    train_tell(l, (struct pdl_train_line){.note = line});
}

static enum pdl_status load_weights(struct train_loop *l, struct pdl_err *err)
{
    struct pdl_train_load how = {l->job->partial, tell_of_weights, l};
    pdl_weights *w = NULL;
    enum pdl_status st;

    if (!l->job->weights_in)
        return PDL_OK;
    st = pdl_weights_open(l->job->weights_in, &w, err);
    if (st == PDL_OK) {
        st = pdl_trainer_load(l->t, w, &how, err);
        train_name_file(l->job->weights_in, st, err);
    }
    pdl_weights_close(w);
    return st;
}

/* A checkpoint at the end of an epoch is older than the last look at what the
 * epoch hid. */
static enum pdl_status go_on(struct train_loop *l, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    l->augment.seed = l->job->opt.seed;
    l->augment.epoch = epoch_of(l);
    if (train_epochs_left(&l->epochs) == 0)
        st = train_epochs_refresh(&l->epochs, l->t, &l->hidden, err);
    count_steps(l);
    return st;
}

static void tell_on_host(struct train_loop *l)
{
    char text[640];

    snprintf(text, sizeof text, "the host runs for the device: %s",
             train_on_host(l->t));
    train_tell(l, (struct pdl_train_line){.note = text});
}

static enum pdl_status open_all(struct train_loop *l, struct pdl_err *err)
{
    struct pdl_train_options opt = l->job->opt;
    enum pdl_status st = open_data(l, err);

    opt.grad_norm |= l->job->on_nan != PDL_TRAIN_STOP;
    if (st != PDL_OK)
        return st;
    count_steps(l);
    if (l->job->evaluate)
        l->steps = 0;
    opt.labels = l->mask.count;
    st = set_rates(l, err);
    if (st == PDL_OK)
        st = train_keep_open(l, err);
    if (st == PDL_OK)
        st = train_settings(l, err);
    if (st == PDL_OK && l->job->timings) {
        opt.timed = train_clock_timed;
        opt.timed_ctx = &l->clock;
        st = train_clock_open(&l->clock, l->arena, l->job->plan, err);
    }
    if (st == PDL_OK && l->job->outputs) {
        opt.watch = train_outputs_watch;
        opt.watch_ctx = &l->outputs;
        st = train_outputs_open(&l->outputs, l->job->plan, err);
    }
    if (st == PDL_OK)
        st = pdl_trainer_open(l->job->plan, l->comm, &opt, &l->t, err);
    l->clock.own_times = opt.cpu_times || (st == PDL_OK && on_device(l));
    if (st == PDL_OK && train_on_host(l->t))
        tell_on_host(l);
    if (st == PDL_OK)
        tell_unlocked(l);
    if (st == PDL_OK)
        st = load_weights(l, err);
    if (st == PDL_OK)
        st = train_keep_weights(l, err);
    if (st == PDL_OK)
        st = train_average_open(l, err);
    if (st == PDL_OK)
        st = train_keep_begin(l, err);
    if (st == PDL_OK)
        st = train_keep_resume(l, err);
    if (st == PDL_OK && l->resumed_at > 0)
        st = go_on(l, err);
    if (st == PDL_OK)
        st = train_mishap_open(l, err);
    if (st == PDL_OK)
        st = train_sites_begin(l, err);
    return st == PDL_OK ? train_read_ahead(l, err) : st;
}

/* CPU seconds of all ranks in their steps; threads of one process have one
 * clock. */
static enum pdl_status all_cpu(struct train_loop *l, double *cpu,
                               struct pdl_err *err)
{
    *cpu = l->cpu_s;
    if (pdl_comm_size(l->comm) == 1 || l->job->virtual_ranks)
        return PDL_OK;
    return pdl_comm_allreduce(l->comm, cpu, cpu, 1, PDL_COMM_F64, PDL_COMM_SUM,
                              err);
}

/* Ranks hold different parts, stages most of all. */
static enum pdl_status most_bytes(struct train_loop *l,
                                  struct pdl_train_summary *out,
                                  struct pdl_err *err)
{
    const struct pdl_train_memory *m = &out->memory;

    pdl_trainer_memory(l->t, &out->memory);
    out->most_bytes =
        l->t->device ? m->taken : m->arena + m->scratch + m->optimizer;
    if (pdl_comm_size(l->comm) == 1)
        return PDL_OK;
    return pdl_comm_allreduce(l->comm, &out->most_bytes, &out->most_bytes, 1,
                              PDL_COMM_I64, PDL_COMM_MAX, err);
}

static enum pdl_status
sum_up(struct train_loop *l, struct pdl_train_summary *out, struct pdl_err *err)
{
    double steps = (double)(l->done - l->resumed_at), cpu;
    enum pdl_status st = all_cpu(l, &cpu, err);

    steps = steps > 0 ? steps : 1;
    out->steps = l->done;
    out->epochs = epoch_of(l) + (train_epochs_left(&l->epochs) == 0);
    out->resumed_at = l->resumed_at;
    out->final_loss = l->last_loss;
    out->test_loss = l->score.loss;
    out->test_samples = train_score_samples(l);
    out->perplexity = l->score.perplexity;
    out->accuracy = l->score.accuracy;
    out->test_s = l->score.seconds;
    train_score_classes(l, out);
    out->step_s = l->busy_s / steps;
    out->fastest_s = l->fastest_s;
    out->samples_per_s =
        out->step_s > 0 ? (double)l->job->plan->batch / out->step_s : 0;
    out->samples_per_s *= l->sites->across ? (double)l->job->sites : 1;
    out->cpu_s_per_step = cpu / steps;
    out->io_s = l->train.seconds / steps;
    out->stall_s = train_keep_stall(l);
    out->exchange_s = l->supply.waited_s / steps;
    out->exchanged = l->supply.exchanged;
    out->store_bytes = l->supply.most_bytes;
    return st == PDL_OK ? most_bytes(l, out, err) : st;
}

static enum pdl_status run_site(const struct pdl_train_job *job,
                                struct train_sites *sites, pdl_comm *comm,
                                struct pdl_train_summary *out,
                                struct pdl_err *err)
{
    struct train_loop l = {
        .job = job,
        .sites = sites,
        .comm = comm,
        .score = {.loss = NAN, .perplexity = NAN, .accuracy = NAN}};
    enum pdl_status st;

    *out = (struct pdl_train_summary){.steps = 0};
#ifdef _OPENMP
    if (job->threads > 0)
        omp_set_num_threads(job->threads);
#endif
    l.arena = pdl_arena_create(MOST_KEPT);
    st = l.arena ? open_all(&l, err)
                 : pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (st == PDL_OK) {
        tell_norms(&l);
        train_tell_classes(&l);
        st = run_steps(&l, out, err);
    }
    if (st == PDL_OK)
        st = sum_up(&l, out, err);
    if (st == PDL_OK && job->timings)
        st = train_clock_report(&l.clock, job, comm, err);
    if (job->opt.cpu_times && l.clock.fastest_s > 0)
        out->fastest_s = l.clock.fastest_s;
    if (job->timings && on_device(&l) && l.clock.npaces > 0)
        out->fastest_s = train_clock_median(&l.clock);
    train_ahead_close(&l.train);
    if (st == PDL_OK) /* what is under way arrives */
        st = train_supply_settle(&l.supply, l.epochs.index, err);
    if (st == PDL_OK && job->weights_out) {
        st = train_average_in(&l, err);
        if (st == PDL_OK)
            st =
                train_write_weights(l.t, job->weights_out, job->names_out, err);
        if (st == PDL_OK)
            st = train_average_out(&l, err);
    }
    if (st == PDL_OK && job->outputs)
        st = train_outputs_write(&l.outputs, comm, job->outputs, err);
    train_outputs_close(&l.outputs);
    if (st == PDL_OK) /* last: what is lost with it is not more than that */
        st = train_keep_end(&l, err);
    train_keep_close(&l);
    train_supply_close(&l.supply);
    train_epochs_close(&l.epochs);
    pdl_trainer_close(l.t);
    pdl_arena_destroy(l.arena);
    return st;
}

enum pdl_status pdl_train_run(const struct pdl_train_job *job, pdl_comm *comm,
                              struct pdl_train_summary *out,
                              struct pdl_err *err)
{
    struct train_sites sites;
    enum pdl_status st = train_sites_open(&sites, job, comm, err);

    *out = (struct pdl_train_summary){.steps = 0};
    if (st == PDL_OK)
        st = run_site(&sites.job, &sites, sites.inside ? sites.inside : comm,
                      out, err);
    train_sites_close(&sites);
    return st;
}
