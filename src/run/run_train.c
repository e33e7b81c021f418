/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl-run train: one rank of a training run (or all of them as threads),
 * and what rank 0 tells of it. */
#include "run_priv.h"
#include "train_end.h"
#include "train_model.h"
#include "options/evaluate_options.h"
#include "options/train_sites.h"
#include "train_session.h"
#include "paradl/train.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

/* ---- what to train ---------------------------------------------------- */

static enum pdl_status open_data(struct session *s, struct pdl_err *err)
{
    struct pdl_dataset like;
    struct pdl_io_options io = {.seed = (uint64_t)s->o.seed,
                                .sequence = s->o.sequence};

    train_like_model(s->plan, s->o.samples > 0 ? s->o.samples : 1024,
                     s->o.mean_squares, &like);
    if (strcmp(s->o.data, "synthetic") == 0)
        io.like = &like;
    if (like.input.rank == 3) /* images are made to fit */
        io.side = like.input.dim[1];
    if (io.sequence == 0)
        io.sequence =
            like.input.rank == 1 ? like.input.dim[0] : s->plan->model->tokens;
    return pdl_io_open(s->o.data, &io, &s->io, err);
}

/* A number, or "dynamic" (start and interval of Micikevicius et al., 2018). */
static enum pdl_status read_scale(struct session *s, struct pdl_err *err)
{
    const char *text = s->o.loss_scale;
    char *end;

    if (!text)
        return PDL_OK;
    if (strcmp(text, "dynamic") == 0) {
        s->loss_scale = 65536;
        s->loss_scale_steps = 2000;
        return PDL_OK;
    }
    s->loss_scale = pdl_strtod(text, &end);
    if (end == text || *end || !(s->loss_scale > 0 && s->loss_scale < 1e30))
        return pdl_fail(err, PDL_EINVAL,
                        "--loss-scale: '%.40s' is no positive number, nor "
                        "'dynamic'",
                        text);
    return PDL_OK;
}

static enum pdl_status prepare(struct session *s, struct pdl_err *err)
{
    enum pdl_status st;

    s->arena = pdl_arena_create((size_t)4 << 30);
    if (!s->arena)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    if (!s->o.data || !s->o.plan || s->args->npos) {
        pdl_fail(err, PDL_EINVAL, "paradl-run train needs --plan and --data");
        pdl_hint(err, "'paradl train MODEL ... --emit FILE' writes a plan");
        return PDL_EINVAL;
    }
    st = read_scale(s, err);
    if (st == PDL_OK)
        st = train_sites_read(s->o.sites, &s->sites, err);
    if (st == PDL_OK)
        st = train_plan_read(s->arena, s->o.plan, s->o.plan_hash,
                             !s->o.virtual_ranks, &s->from, err);
    s->plan = s->from.plan;
    return st == PDL_OK ? open_data(s, err) : st;
}

/* ---- traces ----------------------------------------------------------- */

static void measured(void *ctx, const double *seconds)
{
    struct session *s = ctx;

    s->trace.seconds = PDL_NEW(s->arena, double, s->plan->nops + 1);
    if (s->trace.seconds)
        memcpy(s->trace.seconds, seconds,
               (size_t)s->plan->nops * sizeof seconds[0]);
}

static void traced(void *ctx, int rank, const struct pdl_train_event *events,
                   int64_t n)
{
    struct session *s = ctx;

    train_trace_rank(&s->trace, rank, events, n);
}

static enum pdl_status write_traces(struct session *s, enum pdl_status st,
                                    struct pdl_err *err)
{
    enum pdl_status ended;

    if (!s->job.timings || s->rank != 0)
        return st;
    ended = train_trace_end(&s->trace, st == PDL_OK ? s->o.trace : NULL,
                            st == PDL_OK ? err : NULL);
    st = st == PDL_OK ? ended : st;
    if (st == PDL_OK && s->o.timings)
        st = train_timings_write(&s->trace, &s->summary, s->o.timings, err);
    return st;
}

/* ---- running ---------------------------------------------------------- */

static int default_threads(const struct session *s)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long n = cores / (long)(s->plan->mesh->pes * s->sites.sites);

    return s->o.threads > 0 ? (int)s->o.threads : n > 1 ? (int)n : 1;
}

/* Who starts the ranks, and again after a loss. */
static uint64_t number_of(const char *text)
{
    return text ? strtoull(text, NULL, 16) : 0;
}

/* Started again after a loss: how it was started at first. */
static bool is_again(const char *how)
{
    const char *text = getenv("PARADL_AGAIN");

    return text && strcmp(text, how) == 0;
}

static enum pdl_train_policy policy_of(const char *text)
{
    return !text || strcmp(text, "stop") == 0 ? PDL_TRAIN_STOP
           : strcmp(text, "skip") == 0        ? PDL_TRAIN_SKIP
                                              : PDL_TRAIN_ROLLBACK;
}

static void fill_job(struct session *s)
{
    const struct train_options *o = &s->o;

    s->job = (struct pdl_train_job){
        .plan = s->plan,
        .opt = {.backend = o->backend,
                .device = o->device,
                .optimizer = o->optimizer,
                .clip = o->clip,
                .grad_norm = o->log != NULL || o->grad_norm,
                .spare_biases = o->no_decay && strstr(o->no_decay, "bias"),
                .spare_norms = o->no_decay && strstr(o->no_decay, "norm"),
                .no_dropout = o->no_dropout,
                .label_smoothing = o->label_smoothing,
                .mean_squares = o->mean_squares,
                .comm_threads = o->comm_threads,
                .cpu_times = o->cpu_times,
                .memory = o->memory,
                .far = o->far,
                .loss_scale = s->loss_scale,
                .loss_scale_steps = s->loss_scale_steps,
                .freeze = o->freeze,
                .seed = (uint64_t)o->seed},
        .io = s->io,
        .rates = {.schedule = o->schedule,
                  .lr = o->lr > 0 ? o->lr : 0.01,
                  .last = o->lr_last,
                  .warmup = o->warmup,
                  .every = o->lr_every,
                  .gamma = o->lr_gamma},
        .epochs = o->epochs > 0  ? o->epochs
                  : o->steps > 0 ? 0
                                 : 1,
        .steps = o->steps,
        .test_samples = o->no_test ? -1 : o->test_samples,
        .shuffle = o->shuffle,
        .store = o->store,
        .hide = o->hide,
        .augment = o->augment,
        .raw = o->raw,
        .threads = default_threads(s),
        .virtual_ranks = o->virtual_ranks,
        .sites = s->sites.sites,
        .local_steps = s->sites.local_steps,
        .outer_lr = s->sites.lr,
        .outer_momentum = s->sites.momentum,
        .on_nan = policy_of(o->on_nan),
        .spike = o->spike,
        .ema = o->ema,
        .checkpoint = s->evaluate ? NULL : o->checkpoint,
        .every = o->every,
        .keep = (int)o->keep,
        .resume = o->resume && !is_again("fresh"),
        .resume_anyway = o->resume_anyway,
        .beside = o->beside,
        .again = is_again("fresh") || is_again("resume"),
        .job = number_of(getenv("PARADL_JOB")),
        .timeout_s = o->timeout,
        .run = (uint64_t)(pdl_clock_s() * 1e6),
        .model = s->from.head.model,
        .strategy = s->from.strategy,
        .data = o->data,
        .partial = o->partial,
        .names_out = o->names,
        .mask_token = o->mask_token,
        .weights_in = o->load,
        .weights_out = o->save,
        .evaluate = s->evaluate,
        .from = s->evaluate ? o->checkpoint : NULL,
        .raw_weights = o->no_ema,
        .split = o->split,
        .outputs = o->outputs,
        .timings = o->trace || o->timings,
        .traced = traced,
        .measured = measured,
        .stop = run_stop_asked(),
        .tell = train_tell_line,
        .ctx = s};
}

/* What --memory decides by, of this machine. */
static void measure(struct session *s, pdl_trainer *t)
{
    s->host_left = pdl_trainer_host_left();
    s->copy_rate = pdl_trainer_copy_rate(t);
    s->update_rate = s->copy_rate > 0 ? pdl_trainer_update_rate(t) : 0;
}

/* --size: on the rank that takes most. */
static enum pdl_status size_of(struct session *s, pdl_comm *comm,
                               struct pdl_err *err)
{
    struct pdl_train_options opt = s->job.opt;
    pdl_trainer *t = NULL;
    enum pdl_status st;

#ifdef _OPENMP
    omp_set_num_threads(s->job.threads); /* workspaces are by threads */
#endif
    opt.only_size = true;
    st = pdl_trainer_open(s->plan, comm, &opt, &t, err);
    if (st == PDL_OK) {
        struct pdl_train_device device;
        struct pdl_train_memory m;
        int64_t most;

        pdl_trainer_memory(t, &m);
        most = m.taken;
        if (pdl_comm_rank(comm) == 0)
            measure(s, t);
        if (pdl_comm_size(comm) > 1)
            st = pdl_comm_allreduce(comm, &most, &most, 1, PDL_COMM_I64,
                                    PDL_COMM_MAX, err);
        if (pdl_comm_rank(comm) == 0) {
            s->summary.memory = m;
            s->summary.most_bytes = most;
            if (pdl_trainer_device(t, false, &device) && device.on_host)
                snprintf(s->on_host, sizeof s->on_host, "%s", device.on_host);
        }
    }
    pdl_trainer_close(t);
    return st;
}

static enum pdl_status body(void *ctx, pdl_comm *comm, struct pdl_err *err)
{
    struct session *s = ctx;
    struct pdl_train_summary sum;
    enum pdl_status st;

    if (s->o.size)
        return size_of(s, comm, err);
    st = pdl_train_run(&s->job, comm, &sum, err);
    if (pdl_comm_rank(comm) == 0)
        s->summary = sum;
    return st;
}

static enum pdl_status run_mpi(struct session *s, struct pdl_err *err)
{
    struct pdl_comm_options opt = {.fixed_order = true,
                                   .timeout_s = s->o.timeout};
    pdl_comm *comm = NULL;
    enum pdl_status st;

    if (s->ranks != s->plan->mesh->pes * s->sites.sites)
        return pdl_fail(
            err, PDL_EINVAL, "the strategy is for %lld ranks, %d were started",
            (long long)(s->plan->mesh->pes * s->sites.sites), s->ranks);
    MPI_Bcast(&s->job.run, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    st = pdl_comm_create(MPI_COMM_WORLD, &opt, &comm, err);
    if (st == PDL_OK)
        st = body(s, comm, err);
    pdl_comm_destroy(comm);
    return st;
}

static enum pdl_status train(struct session *s, struct pdl_err *err)
{
    enum pdl_status st = prepare(s, err);

    if (st != PDL_OK)
        return st;
    fill_job(s);
    st = train_open_log(s, err);
    if (st != PDL_OK)
        return st;
    run_catch_signals();
    s->start_s = pdl_clock_s();
    if (s->job.timings && s->rank == 0)
        train_trace_begin(&s->trace, s->plan);
    st = s->o.virtual_ranks
             ? pdl_train_virtual((int)(s->plan->mesh->pes * s->sites.sites),
                                 s->o.timeout, body, s, err)
             : run_mpi(s, err);
    train_erase(s);
    st = write_traces(s, st, err);
    return train_close_log(s, st, err);
}

static int conclude(struct session *s, enum pdl_status st, struct pdl_err *err)
{
    int rc = s->o.virtual_ranks ? run_exit_code(st)
                                : run_end_together(s->end, st, err);

    if (s->o.virtual_ranks && st != PDL_OK)
        run_fail(st, err);
    if (rc != EXIT_OK || st != PDL_OK || s->rank != 0)
        return rc != EXIT_OK || !s->summary.stopped ? rc : EXIT_INTR;
    train_summary(s);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        pdl_fail(err, PDL_ENOENV, "standard output: %s", strerror(errno));
        return run_fail(PDL_ENOENV, err);
    }
    return s->summary.stopped ? EXIT_INTR : EXIT_OK;
}

static int run(const struct pdl_args *args, bool evaluate)
{
    struct session s = {.args = args, .ranks = 1, .evaluate = evaluate};
    struct pdl_err err = {"", ""};
    enum pdl_status st;
    int provided, rc;

    s.o = *(const struct train_options *)args->opts;
    if (!s.o.virtual_ranks) {
        MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
        run_same_mpi();
        MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
        MPI_Comm_size(MPI_COMM_WORLD, &s.ranks);
        MPI_Comm_dup(MPI_COMM_WORLD, &s.end);
    }
    st = train(&s, &err);
    rc = conclude(&s, st, &err);
    pdl_io_close(s.io);
    pdl_arena_destroy(s.arena);
    if (!s.o.virtual_ranks) {
        if (run_may_restart(st))
            MPI_Abort(MPI_COMM_WORLD, rc);
        MPI_Comm_free(&s.end);
        MPI_Finalize();
    }
    return (s.rank != 0 && getenv("PARADL_RC")) ||
                   (s.rank == 0 && run_leave_code(rc))
               ? 0
               : rc;
}

static int train_run(const struct pdl_args *args)
{
    return run(args, false);
}

static int evaluate_run(const struct pdl_args *args)
{
    return run(args, true);
}

const struct pdl_cmd run_train = {
    .name = "train",
    .args = "MODEL",
    .max_pos = 1,
    .summary = "one rank of a training run, or all of them as threads",
    .text = "See paradl train, which checks the command line and starts this, "
            "with --plan always.",
    .example = "mpirun -n 2 paradl-run train --plan FILE.plan --data DIR",
    .opts = train_opts,
    .nopts = NTRAIN_OPTS,
    .opts_size = sizeof(struct train_options),
    .run = train_run,
};

const struct pdl_cmd run_evaluate = {
    .name = "evaluate",
    .args = "MODEL",
    .max_pos = 1,
    .summary = "one rank of an evaluation, or all of them as threads",
    .text = "See paradl evaluate, which starts this, with --plan always.",
    .example = "paradl-run evaluate --help",
    .opts = evaluate_opts,
    .nopts = NEVALUATE_OPTS,
    .opts_size = sizeof(struct train_options),
    .run = evaluate_run,
};
