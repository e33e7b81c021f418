/* Compressed sums between processes are, to the last bit, those of virtual
 * ranks: mpirun -n P comm_mpi_compress. */
#include "compress_checks.h"

struct wanted {
    uint64_t hash[16];
};

static int body(pdl_comm *c, void *ctx)
{
    struct wanted *w = ctx;
    int bad = 0;

    for (int i = 0; pdl_compressor_at(i); i++) {
        uint64_t hash;

        bad |= check_way(c, pdl_compressor_at(i), &hash);
        if (pdl_comm_rank(c) == 0)
            w->hash[i] = hash;
    }
    return bad;
}

int main(int argc, char **argv)
{
    struct pdl_comm_options opt = {.fixed_order = true};
    struct pdl_err err = {"", ""};
    struct wanted virtual = {{0}};
    int size, given, bad, any = 0;
    pdl_comm *c;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bad = on_ranks(size, &opt, body, &virtual);
    bad |=
        said(pdl_comm_create(MPI_COMM_WORLD, &opt, &c, &err), "create", &err);
    for (int i = 0; !bad && pdl_compressor_at(i); i++) {
        uint64_t hash;

        bad |= check_way(c, pdl_compressor_at(i), &hash);
        if (hash != virtual.hash[i]) {
            fprintf(stderr, "%s: processes and threads differ\n",
                    pdl_compressor_at(i)->name);
            bad = 1;
        }
    }
    if (!bad)
        pdl_comm_destroy(c);
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
