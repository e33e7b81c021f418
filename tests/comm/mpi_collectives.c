/* The same checks between processes: mpirun -n P mpi_collectives TRANSPORT.
 * With PDL_LONG=1 every algorithm, type and count; else a sample. */
#include "comm_checks.h"

static bool runs_on(const struct pdl_alg *alg, int n)
{
    struct pdl_coll_job job;

    return pdl_coll_job_make("allreduce", alg->name, n, 1000, 4, &job, NULL) ==
           PDL_OK;
}

static int types_and_counts(pdl_comm *c, const char *what, bool all)
{
    static const int64_t counts[] = {0, 1, 3, 1000, 1000001};
    int ncounts = all ? 5 : 4, bad = 0;

    for (int t = 0; t < PDL_NCOMM_TYPES; t++)
        for (int i = 0; i < ncounts; i++)
            for (int op = PDL_COMM_SUM; op <= PDL_COMM_AVG; op++)
                if (all || op == (t + i) % 4)
                    bad |= check_allreduce(c, counts[i], (enum pdl_comm_type)t,
                                           (enum pdl_comm_op)op, i % 2, what);
    return bad;
}

static int every_algorithm(const char *transport, bool all)
{
    struct pdl_err err = {"", ""};
    int size, bad = 0;
    pdl_comm *c;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; pdl_alg_at(i); i++) {
        const struct pdl_alg *alg = pdl_alg_at(i);
        struct pdl_comm_options opt = {.transport = transport,
                                       .algorithm = alg->name};

        if (strcmp(alg->collective->name, "allreduce") != 0 ||
            !runs_on(alg, size))
            continue;
        if (said(pdl_comm_create(MPI_COMM_WORLD, &opt, &c, &err), "create",
                 &err))
            return 1;
        bad |= types_and_counts(c, alg->name, all);
        pdl_comm_destroy(c);
    }
    return bad;
}

static int by_choice(const char *transport, bool fixed)
{
    struct pdl_comm_options opt = {.transport = transport,
                                   .fixed_order = fixed};
    struct pdl_err err = {"", ""};
    int bad = 0;
    pdl_comm *c;

    if (said(pdl_comm_create(MPI_COMM_WORLD, &opt, &c, &err), "create", &err))
        return 1;
    for (int t = 0; t < PDL_NCOMM_TYPES; t++) {
        bad |= check_others(c, 3, (enum pdl_comm_type)t);
        bad |= check_others(c, 1000, (enum pdl_comm_type)t);
    }
    bad |= check_others(c, 0, PDL_COMM_F32);
    bad |= check_others(c, 1000001, PDL_COMM_F32);
    for (int64_t n = 1; n < 2000000; n = n * 3 + 1)
        bad |= check_allreduce(c, n, PDL_COMM_F32, PDL_COMM_SUM, n % 2, "auto");
    bad |= check_exchange(c, 0) | check_exchange(c, 100);
    bad |= check_exchange(c, 300000);
    bad |= check_started(c, 10) | check_started(c, 300000);
    bad |= check_subset(c) | check_subset(c);
    pdl_comm_destroy(c);
    return bad;
}

int main(int argc, char **argv)
{
    bool all = getenv("PDL_LONG") != NULL;
    int provided, bad = 0, any = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    static const char *const transports[] = {"auto", "p2p", "window", "cma",
                                             "staged"};

    for (int i = 0; i < 5; i++) {
        bad |= every_algorithm(transports[i], all);
        bad |= by_choice(transports[i], false);
        bad |= by_choice(transports[i], true);
    }
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
