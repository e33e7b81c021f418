/* Sparse allreduce between processes: mpirun -n P comm_mpi_sparse. */
#include "sparse_checks.h"

static int check_algorithm(const struct pdl_alg *alg, int size)
{
    struct pdl_comm_options opt = {.algorithm = alg->name};
    struct pdl_coll_job job;
    struct pdl_err err = {"", ""};
    pdl_comm *c;
    int bad;

    if (pdl_coll_job_make("allreduce", alg->name, size, 1000, 4, &job, NULL) !=
        PDL_OK)
        return 0;
    if (said(pdl_comm_create(MPI_COMM_WORLD, &opt, &c, &err), "create", &err))
        return 1;
    bad = check_layouts(c, alg->name, is_ring(alg->name), 1000);
    bad |= check_sparse(
        c, alg->name,
        (struct sample){
            .layout = RANDOM, .dim = 400000, .density = 0.01, .exact = true},
        false);
    pdl_comm_destroy(c);
    return bad;
}

int main(int argc, char **argv)
{
    int size, bad = 0, any = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; pdl_alg_at(i); i++)
        if (pdl_alg_at(i)->sparse)
            bad |= check_algorithm(pdl_alg_at(i), size);
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
