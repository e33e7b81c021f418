/* A plain MPI program that knows nothing of paradl: collectives of many
 * types, sizes and communicators, whose results it prints as sums of exact numbers.
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

static double sum_of(const unsigned char *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i] * (double)(i % 251 + 1);
    return sum;
}

/* Collectives that move blocks of n elements of a type of so many bytes:
 * prints a number that depends on every byte. */
static void moved(MPI_Comm comm, const char *name, int n, MPI_Datatype t,
                  size_t bytes, int in_place)
{
    int rank, size, world;
    size_t block = (size_t)n * bytes, all;
    unsigned char *in, *out;
    double sums[4];

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    all = block * (size_t)size;
    in = calloc(all + 1, 1);
    out = calloc(all + 1, 1);
    for (size_t i = 0; i < all; i++)
        in[i] = (unsigned char)(i * 31 + (size_t)rank * 17);
    if (in_place)
        for (size_t i = 0; i < block; i++)
            out[(size_t)rank * block + i] = in[i];
    MPI_Allgather(in_place ? MPI_IN_PLACE : in, n, t, out, n, t, comm);
    sums[0] = sum_of(out, all);
    if (in_place)
        for (size_t i = 0; i < all; i++)
            out[i] = in[i];
    MPI_Alltoall(in_place ? MPI_IN_PLACE : in, n, t, out, n, t, comm);
    sums[1] = sum_of(out, all);
    MPI_Bcast(in, n, t, (n + 1) % size, comm);
    sums[2] = sum_of(in, all);
    /* the same, but the root's blocks lie apart: another type, as many bytes */
    if (n % 2 == 0 && n > 0 && size > 1) {
        MPI_Datatype apart;

        MPI_Type_vector(n / 2, 1, 2, t, &apart);
        MPI_Type_commit(&apart);
        if (rank == 0)
            MPI_Bcast(out, 1, apart, 0, comm);
        else
            MPI_Bcast(out, n / 2, t, 0, comm);
        MPI_Type_free(&apart);
    }
    sums[3] = sum_of(out, all);
    printf("%d %s %d %d %d:", world, name, n, (int)bytes, in_place);
    for (int i = 0; i < 4; i++)
        printf(" %.17g", sums[i]);
    printf("\n");
    free(in);
    free(out);
}

/* Pairs whose second comes first, on one side only; four of a type that is two
 * of another; pairs with a gap behind. */
static void turned(MPI_Comm comm, const char *name)
{
    const int ones[] = {1, 1}, swapped[] = {1, 0};
    int rank, size, world, in[64 * 8], out[64 * 8];
    MPI_Datatype types[3], inner;
    double sum = 0;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    MPI_Type_indexed(2, ones, swapped, MPI_INT, &types[0]);
    MPI_Type_contiguous(2, types[0], &types[1]);
    MPI_Type_dup(MPI_INT, &inner);
    MPI_Type_contiguous(2, inner, &types[2]);
    MPI_Type_free(&inner);
    for (int k = 0; k < 3; k++) {
        int n = k == 1 ? 2 : 4;

        MPI_Type_commit(&types[k]);
        for (int i = 0; i < 64 * 8; i++) {
            in[i] = i * 3 + rank * 1001;
            out[i] = -1;
        }
        MPI_Allgather(in, n, types[k], out, 8, MPI_INT, comm);
        for (int i = 0; i < size * 8; i++)
            sum += out[i] * (i + 1.0);
        MPI_Alltoall(in, 8, MPI_INT, out, n, types[k], comm);
        for (int i = 0; i < size * 8; i++)
            sum += out[i] * (i + 1.0);
        if (rank == 0)
            MPI_Bcast(in, n, types[k], 0, comm);
        else
            MPI_Bcast(in, 8, MPI_INT, 0, comm);
        for (int i = 0; i < 8; i++)
            sum += in[i] * (i + 1.0);
        MPI_Type_free(&types[k]);
    }
    printf("%d %s turned: %.17g\n", world, name, sum);
}

static void scattered(MPI_Comm comm, const char *name, int n, MPI_Datatype t,
                      int uneven)
{
    int rank, size, world, counts[64], all = 0;
    double *in, *out, sum = 0;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &world);
    for (int r = 0; r < size; r++)
        all += counts[r] = n + uneven * r;
    in = calloc((size_t)all + 1, 8);
    out = calloc((size_t)all + 1, 8);
    for (int i = 0; i < all; i++)
        put(in, t, i, (i * 7 + rank * 13) % 1001 - 500);
    MPI_Reduce_scatter(in, out, counts, t, MPI_SUM, comm);
    for (int i = 0; i < counts[rank]; i++)
        sum += get(out, t, i) * (i % 5 + 1);
    MPI_Reduce_scatter_block(in, out, n, t, uneven ? MPI_PROD : MPI_MAX, comm);
    for (int i = 0; i < n; i++)
        sum += get(out, t, i) * (i % 3 + 1);
    printf("%d %s scattered %d %d: %.17g\n", world, name, n, uneven, sum);
    free(in);
    free(out);
}

static void many_moves(MPI_Comm comm, const char *name)
{
    const int counts[] = {0, 1, 4, 1000, 20002, 150001};

    for (int c = 0; c < 6; c++) {
        moved(comm, name, counts[c], MPI_CHAR, 1, 0);
        moved(comm, name, counts[c], MPI_SHORT, 2, 0);
        moved(comm, name, counts[c], MPI_FLOAT, 4, c % 2);
        moved(comm, name, counts[c], MPI_DOUBLE, 8, 0);
        scattered(comm, name, counts[c], MPI_DOUBLE, 0);
        scattered(comm, name, counts[c], MPI_FLOAT, 1);
        scattered(comm, name, counts[c], MPI_INT, 0);
    }
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
    many_moves(MPI_COMM_WORLD, "world");
    turned(MPI_COMM_WORLD, "world");
    many(MPI_COMM_SELF, "self");
    many_moves(MPI_COMM_SELF, "self");
    for (int i = 0; i < 5; i++) { /* made and freed again and again */
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
        MPI_Comm_dup(half, &again);
        many(half, "half");
        if (i == 0)
            many_moves(half, "half");
        MPI_Comm_free(&half);
        many(again, "again");
        if (i % 2)
            MPI_Comm_free(&again); /* the others are left to MPI_Finalize */
    }
    many(MPI_COMM_WORLD, "world");
    MPI_Finalize();
    return 0;
}
