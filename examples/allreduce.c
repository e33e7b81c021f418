/* Averages a gradient over all ranks: the smallest program that uses
 * libparadl-run.
 *
 *   cc allreduce.c -o allreduce $(pkg-config --cflags --libs paradl-run)
 *   mpirun -n 2 ./allreduce
 *
 * Compiled and run by the tests. */
#include <paradl/comm.h>

#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 20 };

/* The part of the work that libparadl does; returns what went wrong. */
static enum pdl_status average(pdl_comm *comm, float *gradient, float *next,
                               struct pdl_err *err)
{
    pdl_comm_request *req;
    enum pdl_status st;

    /* in place, and wait */
    st = pdl_comm_allreduce(comm, gradient, gradient, N, PDL_COMM_F32,
                            PDL_COMM_AVG, err);
    if (st != PDL_OK)
        return st;

    /* start, compute something else, wait */
    st = pdl_comm_start_allreduce(comm, gradient, next, N, PDL_COMM_F32,
                                  PDL_COMM_MAX, &req, err);
    if (st != PDL_OK)
        return st;
    /* ... compute; pdl_comm_test(req, &done, err) moves it along ... */
    return pdl_comm_wait(req, err);
}

int main(int argc, char **argv)
{
    struct pdl_comm_options opt = {.fixed_order = true, .timeout_s = 60};
    struct pdl_err err = {"", ""};
    enum pdl_status st;
    void *gradient = NULL, *next = NULL;
    pdl_comm *comm;
    int rank, wrong = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    st = pdl_comm_create(MPI_COMM_WORLD, &opt, &comm, &err);
    if (st != PDL_OK) {
        fprintf(stderr, "%s\n", err.msg);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }

    /* memory of a window: other ranks reach it without a copy */
    st = pdl_comm_alloc(comm, N * sizeof(float), &gradient, &err);
    if (st == PDL_OK)
        st = pdl_comm_alloc(comm, N * sizeof(float), &next, &err);
    for (int i = 0; st == PDL_OK && i < N; i++)
        ((float *)gradient)[i] = (float)(rank + i % 7);
    if (st == PDL_OK)
        st = average(comm, gradient, next, &err);
    if (st != PDL_OK) {
        fprintf(stderr, "%s\n", err.msg);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }

    for (int i = 0; i < N; i++) {
        float mean = (float)(pdl_comm_size(comm) - 1) / 2 + (float)(i % 7);

        wrong += ((float *)next)[i] != mean;
    }
    if (rank == 0)
        printf("%d elements averaged over %d ranks, %d wrong\n", N,
               pdl_comm_size(comm), wrong);
    pdl_comm_free(comm, gradient, &err);
    pdl_comm_free(comm, next, &err);
    pdl_comm_destroy(comm);
    MPI_Finalize();
    return wrong != 0;
}
