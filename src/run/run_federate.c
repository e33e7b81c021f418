/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl-run federate: a federated run, its workers threads of this process or
 * MPI ranks, and what rank 0 tells of it (federate_tell.c). */
#include "federate.h"
#include "train_end.h"
#include "paradl/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 65 }; /* of a client, which the learner refuses */

/* ---- the job --------------------------------------------------------- */

/* What --devices says, where no option does. */
static enum pdl_status equip(struct federation *s, struct pdl_err *err)
{
    struct federate_options *o = &s->o;
    struct pdl_fed_devices d;
    enum pdl_status st = PDL_OK;

    if (!o->devices)
        return PDL_OK;
    st = pdl_fed_devices_parse(o->devices, &d, err);
    if (st != PDL_OK)
        return st;
    if (!(o->speed > 0) && !(o->flops > 0))
        o->flops = d.flops;
    o->down = o->down > 0 ? o->down : (int64_t)d.down;
    o->up = o->up > 0 ? o->up : (int64_t)d.up;
    if (!pdl_opt_given(&run_federate, s->args, "latency"))
        o->latency = d.latency_s;
    if (!pdl_opt_given(&run_federate, s->args, "spread"))
        o->spread = d.spread;
    if (!pdl_opt_given(&run_federate, s->args, "away"))
        o->away = d.away;
    return PDL_OK;
}

/* Backward takes twice as long as forward. */
static double speed_of(const struct federation *s)
{
    struct pdl_model_totals t;

    if (!(s->o.flops > 0) || pdl_model_totals(s->model, &t, NULL) != PDL_OK)
        return s->o.speed;
    return s->o.flops / (3 * (double)t.forward_flops);
}

/* How many, who takes part, and on what. */
static void fill_rounds(struct federation *s)
{
    const struct federate_options *o = &s->o;
    struct pdl_fed_job *j = &s->job;

    j->rounds =
        pdl_opt_given(&run_federate, s->args, "rounds") ? o->rounds : 10;
    j->first_round = o->first_round;
    j->only = pdl_opt_given(&run_federate, s->args, "only") ? o->only : -1;
    j->target = o->target;
    j->drop = o->drop;
    j->away = o->away;
    j->deadline_s = o->deadline;
    j->speed = speed_of(s);
    j->spread = o->spread;
    j->down = (double)o->down;
    j->up = (double)o->up;
    j->latency_s = o->latency;
}

static void fill_job(struct federation *s)
{
    const struct federate_options *o = &s->o;
    struct pdl_partition p = s->job.partition;

    s->job =
        (struct pdl_fed_job){.model = s->model,
                             .io = s->io,
                             .partition = p,
                             .algorithm = o->algorithm,
                             .select = o->select,
                             .epochs = o->epochs > 0 ? o->epochs : 1,
                             .steps = o->steps,
                             .batch = o->batch > 0 ? o->batch : 10,
                             .lr = o->lr > 0 ? o->lr : 0.05,
                             .lr_decay = o->lr_decay,
                             .optimizer = o->optimizer,
                             .strategy = o->strategy,
                             .seed = (uint64_t)o->seed,
                             .test_every = o->test_every,
                             .test_samples = o->no_test ? -1 : o->test_samples,
                             .backend = o->backend,
                             .raw = o->raw,
                             .threads = (int)o->threads,
                             .checkpoint = o->checkpoint,
                             .every = o->every,
                             .keep = (int)o->keep,
                             .resume = o->resume,
                             .weights_in = o->load,
                             .weights_out = o->save,
                             .model_name = s->args->pos[0],
                             .data_name = o->data,
                             .partition_name = o->partition,
                             .run = (uint64_t)(pdl_clock_s() * 1e6),
                             .stop = run_stop_asked(),
                             .tell = federate_tell,
                             .trained = federate_progress,
                             .ctx = s};
    fill_rounds(s);
}

/* ---- running -------------------------------------------------------- */

static enum pdl_status body(void *ctx, pdl_comm *comm, struct pdl_err *err)
{
    struct federation *s = ctx;
    struct pdl_fed_summary sum;
    enum pdl_status st = pdl_fed_run(&s->job, comm, &sum, err);

    if (pdl_comm_rank(comm) == 0)
        s->summary = sum;
    return st;
}

/* Threads of a worker that compute: of each device of a client. */
static int64_t threads_of(const struct federation *s)
{
    struct pdl_strategy *how = PDL_NEW(s->arena, struct pdl_strategy, 1);
    int64_t each = s->o.threads > 1 ? s->o.threads : 1;
    struct pdl_mesh mesh;

    if (s->o.strategy && how &&
        pdl_strategy_parse(s->arena, s->o.strategy, how, NULL) == PDL_OK &&
        pdl_mesh_make(how, &mesh, NULL) == PDL_OK && mesh.pes < MOST_DEVICES)
        each *= mesh.pes;
    return each;
}

/* A kernel of several threads spins until all of them have come: who has no
 * processor is waited for as long as somebody else has it. */
static void tell_crowded(const struct federation *s, int64_t workers)
{
    int64_t each = threads_of(s);

    if (s->rank > 0 || s->o.threads < 2 || workers * each <= pdl_cores())
        return;
    fprintf(stderr,
            "paradl: %lld worker%s of %lld threads on %d processor%s: threads "
            "wait for each other (hint: %s)\n",
            (long long)workers, workers > 1 ? "s" : "", (long long)each,
            pdl_cores(), pdl_cores() > 1 ? "s" : "",
            workers > 1 ? "without -n there are as many workers as fit"
                        : "fewer --threads");
}

/* As many as there are processors for, unless more are asked for. */
static enum pdl_status run_threads(struct federation *s, struct pdl_err *err)
{
    int64_t n = pdl_cores() / threads_of(s);

    n = s->o.ranks > 0 ? s->o.ranks : n > 1 ? n : 1;
    tell_crowded(s, n);
    return pdl_train_virtual((int)n, s->o.timeout, body, s, err);
}

static enum pdl_status run_mpi(struct federation *s, struct pdl_err *err)
{
    struct pdl_comm_options opt = {.fixed_order = true,
                                   .timeout_s = s->o.timeout};
    struct pdl_comm_info info;
    pdl_comm *comm = NULL;
    enum pdl_status st;

    s->job.devices_are_ranks = true;
    MPI_Bcast(&s->job.run, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    st = pdl_comm_create(MPI_COMM_WORLD, &opt, &comm, err);
    if (st == PDL_OK) {
        pdl_comm_describe(comm, &info);
        tell_crowded(s, info.node_ranks);
        st = body(s, comm, err);
    }
    pdl_comm_destroy(comm);
    return st;
}

static enum pdl_status write_result(const struct federation *s,
                                    struct pdl_err *err)
{
    struct pdl_buf text;
    enum pdl_status st;

    if (!s->o.result)
        return PDL_OK;
    pdl_buf_init(&text);
    federate_result(s, &text.sink);
    st = text.sink.failed
             ? pdl_fail(err, PDL_ENOMEM, "out of memory for the result")
             : pdl_file_write(s->o.result, text.text, text.len, err);
    pdl_buf_free(&text);
    return st;
}

/* Rounds without a model in them have taught nobody anything. */
static enum pdl_status check_learned(const struct federation *s,
                                     struct pdl_err *err)
{
    const struct pdl_fed_summary *x = &s->summary;

    if (x->rounds == 0 || x->models > 0 || x->stopped)
        return PDL_OK;
    pdl_fail(err, PDL_EWRONG,
             "nothing came back in %lld round%s: the model is the one it "
             "began with",
             (long long)x->rounds, x->rounds > 1 ? "s" : "");
    pdl_hint(err, "models lost: %lld; see --drop, --deadline and --lr",
             (long long)x->lost);
    return PDL_EWRONG;
}

static enum pdl_status federate(struct federation *s, struct pdl_err *err)
{
    enum pdl_status st = federate_prepare(s, err);

    if (st == PDL_OK)
        st = equip(s, err);
    if (st != PDL_OK)
        return st;
    fill_job(s);
    if (s->o.show_partition) {
        federate_show(s);
        return PDL_OK;
    }
    if (s->o.project) {
        struct pdl_fed_projection x = {.rounds = 0};

        st = pdl_fed_project(&s->job, &x, err);
        if (st == PDL_OK)
            federate_projection(s, &x);
        return st;
    }
    if (s->o.emit)
        return pdl_fed_emit(&s->job, run_out(), err);
    run_catch_signals();
    s->start_s = pdl_clock_s();
    st = s->threads ? run_threads(s, err) : run_mpi(s, err);
    federate_erase(s);
    if (st == PDL_OK && s->rank == 0)
        federate_summary(s);
    if (st == PDL_OK && s->rank == 0)
        st = write_result(s, err);
    return st == PDL_OK && s->rank == 0 ? check_learned(s, err) : st;
}

static int run(const struct pdl_args *args)
{
    struct federation s = {.args = args};
    struct pdl_err err = {"", ""};
    enum pdl_status st;
    int provided, rc;

    s.o = *(const struct federate_options *)args->opts;
    s.threads = s.o.virtual_ranks || s.o.ranks < 2 || s.o.emit || s.o.project ||
                s.o.show_partition;
    if (!s.threads) {
        MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
        run_same_mpi();
        MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
        MPI_Comm_dup(MPI_COMM_WORLD, &s.end);
    }
    st = federate(&s, &err);
    rc = s.threads ? run_exit_code(st) : run_end_together(s.end, st, &err);
    if (s.threads && st != PDL_OK)
        run_fail(st, &err);
    pdl_io_close(s.io);
    pdl_arena_destroy(s.arena);
    rc = rc == EXIT_OK && s.summary.stopped ? EXIT_INTR : rc;
    if (!s.threads) {
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

const struct pdl_cmd run_federate = {
    .name = "federate",
    .args = "MODEL",
    .max_pos = 1,
    .summary = "one rank of a federated run, or all of them as threads",
    .text = "See paradl federate, which checks the command line and starts "
            "this.",
    .example = "mpirun -n 2 paradl-run federate lenet5 --data DIR -n 2",
    .opts = federate_opts,
    .nopts = NFEDERATE_OPTS,
    .opts_size = sizeof(struct federate_options),
    .run = run,
};
