/* Nodes that are not as one would like them: mpirun -n P mpi_nodes.
 *
 * This program has an MPI_Comm_split_type of its own, in front of MPI's, that
 * finds what a machine of several nodes would find: ranks dealt to nodes in
 * turn, nodes of different sizes, every rank alone. So the discovery, the
 * shared memory inside each "node" and the messages between them are the ones
 * of several real nodes; only the wire is not. */
#define COMM_CHECKS_KEEP
#include "comm_checks.h"

/* Which node a rank is on. */
static int by_blocks(int rank, int size)
{
    return 2 * rank / size;
}

static int in_turn(int rank, int size)
{
    (void)size;
    return rank % 2;
}

static int uneven(int rank, int size)
{
    return rank == size - 1;
}

static int alone(int rank, int size)
{
    (void)size;
    return rank;
}

static int backwards(int rank, int size)
{
    return rank < size / 2 ? 1 : 0;
}

static const struct mapping {
    const char *name;
    int (*node)(int rank, int size);
    bool two_levels; /* equal nodes whose ranks are neighbours */
} mappings[] = {
    {"blocks", by_blocks, true},    {"in turn", in_turn, false},
    {"uneven", uneven, false},      {"alone", alone, false},
    {"backwards", backwards, true},
};
enum { NMAPPINGS = sizeof mappings / sizeof mappings[0] };

static const struct mapping *now = &mappings[0];
static int asked; /* how often */

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info,
                        MPI_Comm *out)
{
    int rank, size;

    if (type != MPI_COMM_TYPE_SHARED)
        return PMPI_Comm_split_type(comm, type, key, info, out);
    asked++;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return MPI_Comm_split(comm, now->node(rank, size), key, out);
}

static int nodes_of(const struct mapping *m, int size)
{
    int n = 0;

    for (int r = 0; r < size; r++)
        n = m->node(r, size) + 1 > n ? m->node(r, size) + 1 : n;
    return n;
}

static int check_levels(const pdl_comm *c, const struct mapping *m)
{
    struct pdl_comm_info info;
    const char *choice = pdl_comm_choice(c, "allreduce", 1 << 20);
    int size = pdl_comm_size(c);
    bool two = strncmp(choice, "ring-ring:k=", 12) == 0;
    bool may = m->two_levels && size % 2 == 0 && size > 2;

    pdl_comm_describe(c, &info);
    if (info.nodes == nodes_of(m, size) && two == may)
        return 0;
    fprintf(stderr, "%s: %d nodes, allreduce by %s\n", m->name, info.nodes,
            choice);
    return 1;
}

static int on_mapping(const struct mapping *m, bool fixed)
{
    struct pdl_comm_options opt = {.fixed_order = fixed};
    struct pdl_err err = {"", ""};
    pdl_comm *c;
    int bad;

    now = m;
    if (said(pdl_comm_create(MPI_COMM_WORLD, &opt, &c, &err), "create", &err))
        return 1;
    bad = fixed ? check_all_bits(c, m->name) : check_levels(c, m);
    for (int64_t n = 0; n < 200000; n = 5 * n + 1)
        bad |=
            check_allreduce(c, n, PDL_COMM_F32, PDL_COMM_SUM, n % 2, m->name);
    bad |= check_others(c, 30000, PDL_COMM_F64);
    bad |= check_exchange(c, 30000) | check_subset(c);
    pdl_comm_destroy(c);
    return bad;
}

int main(int argc, char **argv)
{
    int provided, bad = 0, any = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    for (int i = 0; i < NMAPPINGS; i++)
        bad |= on_mapping(&mappings[i], false) | on_mapping(&mappings[i], true);
    if (asked < 2 * NMAPPINGS) {
        fprintf(stderr, "the nodes were not asked for here\n");
        bad = 1;
    }
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
