/* A plain MPI program that knows nothing of paradl: allreduces of many types,
 * sizes and communicators, whose results it prints as sums of exact numbers.
 * tests/comm/shim/run.sh runs it with and without libparadl-mpi.so. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void put(void *x, MPI_Datatype t, int i, int v)
{
    if (t == MPI_FLOAT)
        ((float *)x)[i] = (float)v / 4;
    else if (t == MPI_DOUBLE)
        ((double *)x)[i] = v / 8.0;
    else if (t == MPI_LONG)
        ((long *)x)[i] = v;
    else if (t == MPI_SHORT)
        ((short *)x)[i] = (short)(v % 100);
    else
        ((int *)x)[i] = v;
}

static double get(const void *x, MPI_Datatype t, int i)
{
    if (t == MPI_FLOAT)
        return ((const float *)x)[i];
    if (t == MPI_DOUBLE)
        return ((const double *)x)[i];
    if (t == MPI_LONG)
        return (double)((const long *)x)[i];
    if (t == MPI_SHORT)
        return ((const short *)x)[i];
    return ((const int *)x)[i];
}

/* Prints a number that depends on every element of the result. */
static void one(MPI_Comm comm, const char *name, int n, MPI_Datatype t,
                MPI_Op o, int in_place)
{
    void *in = calloc((size_t)n + 1, 8), *out = calloc((size_t)n + 1, 8);
    double sum = 0;
    int rank, world;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    for (int i = 0; i < n; i++)
        put(in_place ? out : in, t, i, (i * 7 + rank * 13) % 1001 - 500);
    if (MPI_Allreduce(in_place ? MPI_IN_PLACE : in, out, n, t, o, comm) !=
        MPI_SUCCESS)
        sum = -1;
    for (int i = 0; i < n; i++)
        sum += get(out, t, i) * (i % 3 + 1);
    printf("%d %s %d %d: %.17g\n", world, name, n, in_place, sum);
    free(in);
    free(out);
}

static void many(MPI_Comm comm, const char *name)
{
    const int counts[] = {0, 1, 3, 1000, 100003};
    const MPI_Datatype types[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT, MPI_LONG,
                                  MPI_SHORT};
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD};

    for (int c = 0; c < 5; c++)
        for (int t = 0; t < 5; t++)
            for (int o = 0; o < (counts[c] == 1 ? 4 : 3); o++)
                one(comm, name, counts[c], types[t], ops[o], (c + t + o) % 2);
}

int main(int argc, char **argv)
{
    MPI_Comm half, again;
    char path[512];
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1) { /* a file a rank: mpirun mixes lines */
        snprintf(path, sizeof path, "%s.%d", argv[1], rank);
        if (!freopen(path, "w", stdout))
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
    many(MPI_COMM_WORLD, "world");
    many(MPI_COMM_SELF, "self");
    for (int i = 0; i < 5; i++) { /* made and freed again and again */
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
        MPI_Comm_dup(half, &again);
        many(half, "half");
        MPI_Comm_free(&half);
        many(again, "again");
        if (i % 2)
            MPI_Comm_free(&again); /* the others are left to MPI_Finalize */
    }
    many(MPI_COMM_WORLD, "world");
    MPI_Finalize();
    return 0;
}
