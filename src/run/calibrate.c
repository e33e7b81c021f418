/* SPDX-License-Identifier: Apache-2.0
 *
 * paradl-run calibrate: what the machine can do, measured on all ranks at
 * once as training uses it. Prints one JSON object (paradl.measurement/1);
 * `paradl calibrate` makes a system of it. */
#include "calibrate.h"
#include "options/calibrate_options.h"
#include "operator.h"

#include <stdlib.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

enum { MIN_TURNS = 3, MAX_TURNS = 2000 };

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int run_repeats(const struct calibration *c, int full)
{
    double part = c->seconds / 0.02 * full;

    return part >= full ? full : part > 1 ? (int)part : 1;
}

/* Every n-th item, and never none. */
bool run_chosen(const struct calibration *c, int i, int all)
{
    int want = run_repeats(c, all);

    return (int64_t)i * want % all < want;
}

/* CPU time over threads: all of them compute, so this is the time it takes
 * where nobody else wants the processors, also where somebody does; ranks that
 * share a processor wait for each other. */
static double median_time(const struct calibration *c, run_work *work,
                          void *ctx)
{
    double took[MAX_TURNS] = {0}, begin;
    int n = 0, least = run_repeats(c, MIN_TURNS);

    work(ctx); /* warm */
    begin = pdl_clock_s();
    while (n < MAX_TURNS && (n < least || pdl_clock_s() - begin < c->seconds)) {
        double start = pdl_cpu_s();

        work(ctx);
        took[n++] = (pdl_cpu_s() - start) / (double)c->threads;
    }
    qsort(took, (size_t)n, sizeof *took, ascending);
    return took[n / 2];
}

enum pdl_status run_time_all(const struct calibration *c, run_work *work,
                             void *ctx, double *out, struct pdl_err *err)
{
    enum pdl_status st = pdl_comm_barrier(c->comm, err);
    double mine;

    if (st != PDL_OK)
        return st;
    mine = c->turns * median_time(c, work, ctx);
    return pdl_comm_allreduce(c->comm, &mine, out, 1, PDL_COMM_F64,
                              PDL_COMM_AVG, err);
}

void run_fact(const struct calibration *c, const char *name, double value,
              const char *unit)
{
    if (!c->json)
        return;
    pdl_json_row(c->json);
    pdl_json_kstr(c->json, "name", name);
    pdl_json_knum(c->json, "value", value);
    pdl_json_kstr(c->json, "unit", unit);
    pdl_json_end(c->json);
}

static void open_list(const struct calibration *c, const char *name)
{
    if (!c->json)
        return;
    pdl_json_key(c->json, name);
    pdl_json_array(c->json);
}

static void close_list(const struct calibration *c)
{
    if (c->json)
        pdl_json_end(c->json);
}

static enum pdl_status core_to_core(const struct calibration *c,
                                    struct pdl_err *err)
{
    struct pdl_comm_probe probe;
    enum pdl_status st = pdl_comm_measure(c->comm, &probe, err);

    if (st == PDL_OK && probe.round_trip_s > 0)
        run_fact(c, "core_round_trip", probe.round_trip_s, "s");
    return st;
}

/* A device has no messages, and its kernels are all measured in training. */
static enum pdl_status device_parts(const struct calibration *c,
                                    struct pdl_err *err)
{
    enum pdl_status st;

    st = run_calibrate_device(c, err);
    open_list(c, "operators");
    if (st == PDL_OK)
        st = run_calibrate_train(c, err);
    close_list(c);
    return st;
}

static enum pdl_status all_parts(const struct calibration *c,
                                 struct pdl_err *err)
{
    enum pdl_status st;

    open_list(c, "facts");
    st = core_to_core(c, err);
    if (st == PDL_OK)
        st = run_calibrate_memory(c, err);
    if (st == PDL_OK)
        st = run_calibrate_peak(c, err);
    close_list(c);
    open_list(c, "operators");
    if (st == PDL_OK)
        st = run_calibrate_compute(c, err);
    if (st == PDL_OK)
        st = run_calibrate_train(c, err);
    close_list(c);
    open_list(c, "messages");
    if (st == PDL_OK && c->ranks > 1)
        st = run_calibrate_messages(c, err);
    close_list(c);
    return st;
}

static double turns_of(const struct calibration *c, int nodes)
{
    double processors = (double)sysconf(_SC_NPROCESSORS_ONLN);
    double wanted =
        (double)c->ranks * (double)c->threads / (nodes > 0 ? nodes : 1);

    return processors > 0 && wanted > processors ? wanted / processors : 1;
}

static int measure(struct calibration *c, struct pdl_err *err)
{
    enum pdl_status st;
    struct pdl_comm_info info;
    struct run_quiet quiet = {0};
    bool large = false;
    struct pdl_json j;

    pdl_comm_describe(c->comm, &info);
    c->turns = turns_of(c, info.nodes);
    if (c->rank == 0) {
        pdl_json_init(&j, run_out());
        pdl_json_schema(&j, "measurement");
        pdl_json_kint(&j, "ranks", c->ranks);
        pdl_json_kint(&j, "threads", c->threads);
        pdl_json_kint(&j, "nodes", info.nodes);
        if (!c->device)
            pdl_json_kstr(&j, "library", run_operator_library());
        c->json = &j;
    }
    c->quiet = &quiet;
    c->large = &large;
    st = c->device ? device_parts(c, err) : all_parts(c, err);
    if (c->json && quiet.wall_s > 0 && quiet.quartile_s > 0) {
        pdl_json_knum(c->json, "others", 1 - quiet.cpu_s / quiet.wall_s);
        pdl_json_knum(c->json, "spread", quiet.median_s / quiet.quartile_s - 1);
    }
    if (c->json && quiet.probes > 0) {
        pdl_json_knum(c->json, "clock_hz", quiet.clock_hz / quiet.probes);
        pdl_json_kint(c->json, "power_capped", quiet.capped);
        pdl_json_kint(c->json, "hot", quiet.hot);
    }
    if (c->json)
        pdl_json_end(c->json);
    c->json = NULL;
    c->quiet = NULL;
    c->large = NULL;
    return st == PDL_OK ? EXIT_OK : run_fail(st, err);
}

static int calibrate(const struct pdl_args *args)
{
    const struct run_calibrate_options *o = args->opts;
    struct calibration c = {.seconds = o->seconds > 0 ? o->seconds : 0.1,
                            .threads = o->threads > 0 ? o->threads : 1,
                            .progress = o->progress,
                            .device = o->device};
    struct pdl_err err = {"", ""};
    enum pdl_status st;
    int rc, provided;

    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) !=
        MPI_SUCCESS)
        return EXIT_ENV;
    run_same_mpi();
    MPI_Comm_size(MPI_COMM_WORLD, &c.ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &c.rank);
#ifdef _OPENMP
    omp_set_num_threads((int)c.threads);
#endif
    st = pdl_comm_create(MPI_COMM_WORLD, NULL, &c.comm, &err);
    rc = st == PDL_OK ? measure(&c, &err) : run_fail(st, &err);
    if (rc != EXIT_OK && c.ranks > 1)
        MPI_Abort(MPI_COMM_WORLD, rc); /* others may wait for ever */
    pdl_comm_destroy(c.comm);
    MPI_Finalize();
    return rc;
}

const struct pdl_cmd run_calibrate = {
    .name = "calibrate",
    .args = "",
    .summary = "measures the machine for paradl calibrate",
    .opts = run_calibrate_opts,
    .nopts = RUN_CALIBRATE_NOPTS,
    .opts_size = sizeof(struct run_calibrate_options),
    .run = calibrate,
};
