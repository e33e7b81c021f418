/* The same checks between processes: mpirun -n P mpi_collectives
 * [TRANSPORT|nodes].
 * With PDL_LONG=1 every algorithm, type and count; else a sample. */
#define COMM_CHECKS_KEEP
#include "comm_checks.h"

static bool runs_on(const struct pdl_alg *alg, int n)
{
    struct pdl_coll_job job;

    return pdl_coll_job_make(alg->collective->name, alg->name, n, 1000, 4, &job,
                             NULL) == PDL_OK;
}

static int types_and_counts(pdl_comm *c, const char *what, bool all)
{
    static const int64_t counts[] = {0, 1, 3, 1000, 1000001};
    int ncounts = all ? 5 : 4, bad = 0;

    for (int t = 0; t < PDL_NCOMM_TYPES; t++)
        for (int i = 0; i < ncounts; i++)
            for (int op = PDL_COMM_SUM; op <= PDL_COMM_AVG; op++)
                if (op == (i < 4 ? (t + i) % 4 : PDL_COMM_SUM) ||
                    (all && i < 4))
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

/* ---- the collectives that a communicator offers beside allreduce --------- */

static int scatters(pdl_comm *c, int64_t n, enum pdl_comm_type t)
{
    return check_reduce_scatter(c, n, t, PDL_COMM_SUM);
}

static int exchanges(pdl_comm *c, int64_t n, enum pdl_comm_type t)
{
    return check_alltoall(c, n / pdl_comm_size(c) + 1, t);
}

static int broadcasts(pdl_comm *c, int64_t n, enum pdl_comm_type t)
{
    return check_broadcast(c, n, t, (int)(n % pdl_comm_size(c)));
}

typedef int check_other(pdl_comm *c, int64_t n, enum pdl_comm_type t);

static const struct other {
    const char *name;
    check_other *check;
} others[] = {
    {"reduce-scatter", scatters},
    {"allgather", check_allgather},
    {"alltoall", exchanges},
    {"broadcast", broadcasts},
};

static check_other *find_other(const char *collective)
{
    for (int i = 0; i < 4; i++)
        if (strcmp(others[i].name, collective) == 0)
            return others[i].check;
    return NULL;
}

static int every_other_algorithm(const char *transport, bool all)
{
    static const int64_t counts[] = {0, 1, 3, 1000, 1000001};
    struct pdl_err err = {"", ""};
    int size, bad = 0;
    char name[80];
    pdl_comm *c;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; pdl_alg_at(i); i++) {
        const struct pdl_alg *alg = pdl_alg_at(i);
        check_other *check = find_other(alg->collective->name);
        struct pdl_comm_options opt = {.transport = transport,
                                       .algorithm = name};

        if (!check || !runs_on(alg, size))
            continue;
        snprintf(name, sizeof name, "%s/%s", alg->collective->name, alg->name);
        if (said(pdl_comm_create(MPI_COMM_WORLD, &opt, &c, &err), "create",
                 &err))
            return 1;
        if (strcmp(pdl_comm_choice(c, alg->collective->name, 1000),
                   alg->name) != 0)
            bad = 1, fprintf(stderr, "%s is not taken\n", name);
        for (int t = 0; t < PDL_NCOMM_TYPES; t++)
            for (int k = 0; k < (all ? 5 : 4); k++)
                if (all || t == k)
                    bad |= check(c, counts[k], (enum pdl_comm_type)t);
        pdl_comm_destroy(c);
    }
    return bad;
}

/* The same buffers again and again: messages become persistent requests, and
 * each turn's values must arrive. */
static int persistent(const char *algorithm)
{
    enum { N = 5000, TURNS = 6 };
    struct pdl_comm_options opt = {.transport = "p2p", .algorithm = algorithm};
    struct buffers b = take_buffers(N * 4);
    struct pdl_err err = {"", ""};
    int bad = 0, size;
    pdl_comm *c;

    if (said(pdl_comm_create(MPI_COMM_WORLD, &opt, &c, &err), "create", &err))
        return 1;
    size = pdl_comm_size(c);
    for (int turn = 0; turn < TURNS; turn++) {
        int n = turn % 3 == 2 ? N / 2 : N;

        fill_values(b.in, n, pdl_comm_rank(c), turn, PDL_COMM_F32);
        bad |= said(pdl_comm_allreduce(c, b.in, b.out, n, PDL_COMM_F32,
                                       PDL_COMM_SUM, &err),
                    "persistent", &err);
        bad |= check_reduced("persistent", c, b.out, turn, n, PDL_COMM_F32,
                             PDL_COMM_SUM);
    }
    if (size > 1 && comm_kept_starts(c) == 0)
        bad = 1, fprintf(stderr, "%s: no request was kept\n", algorithm);
    pdl_comm_destroy(c);
    drop_buffers(b);
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
    bad |= check_others(c, 300001, PDL_COMM_F32);
    for (int64_t n = 1; n < 2000000; n = n * 3 + 1)
        bad |= check_allreduce(c, n, PDL_COMM_F32, PDL_COMM_SUM, n % 2, "auto");
    bad |= check_exchange(c, 0) | check_exchange(c, 100);
    bad |= check_exchange(c, 300000);
    bad |= check_started(c, 10) | check_started(c, 300000);
    bad |= check_subset(c) | check_subset(c);
    bad |= check_backwards(c, 0) | check_backwards(c, 50000);
    if (fixed)
        bad |= check_all_bits(c, transport);
    pdl_comm_destroy(c);
    return bad;
}

static int in_windows(int64_t n)
{
    struct pdl_comm_options opt = {.fixed_order = true};
    struct pdl_comm_info info;
    struct pdl_err err = {"", ""};
    void *in, *out;
    pdl_comm *c;
    int bad;

    if (said(pdl_comm_create(MPI_COMM_WORLD, &opt, &c, &err), "create", &err))
        return 1;
    bad = said(pdl_comm_alloc(c, n * 4, &in, &err), "alloc", &err);
    bad |= said(pdl_comm_alloc(c, n * 4, &out, &err), "alloc", &err);
    for (int k = 0; !bad && k < 3; k++) {
        fill_values(k == 2 ? out : in, n, pdl_comm_rank(c), 0, PDL_COMM_F32);
        bad |= said(pdl_comm_allreduce(c, k == 2 ? out : in, out, n,
                                       PDL_COMM_F32, PDL_COMM_SUM, &err),
                    "in a window", &err);
        bad |= check_reduced("in a window", c, out, 0, n, PDL_COMM_F32,
                             PDL_COMM_SUM);
    }
    pdl_comm_describe(c, &info);
    if (pdl_comm_size(c) > 1 && strcmp(info.used, "window") != 0)
        bad = 1, fprintf(stderr, "went through %s\n", info.used);
    bad |= said(pdl_comm_free(c, in, &err), "free", &err);
    bad |= said(pdl_comm_free(c, out, &err), "free", &err);
    pdl_comm_destroy(c);
    return bad;
}

/* What rank q gives rank r of n elements each. */
static int wrong_blocks(const pdl_comm *c, const float *out, int64_t n)
{
    int p = pdl_comm_size(c), r = pdl_comm_rank(c), bad = 0;

    for (int q = 0; q < p; q++)
        for (int64_t i = 0; i < n; i++)
            bad |= get_value(out, q * n + i, PDL_COMM_F32) !=
                   made_value(q, r * n + i, PDL_COMM_F32);
    return bad;
}

/* Collectives other than allreduce on windows: beside the input, and on it. */
static int moved_in_windows(int64_t n)
{
    struct pdl_comm_info info;
    struct pdl_err err = {"", ""};
    void *in, *out;
    pdl_comm *c;
    int bad, p;

    if (said(pdl_comm_create(MPI_COMM_WORLD, NULL, &c, &err), "create", &err))
        return 1;
    p = pdl_comm_size(c);
    bad = said(pdl_comm_alloc(c, p * n * 4, &in, &err), "alloc", &err);
    bad |= said(pdl_comm_alloc(c, p * n * 4, &out, &err), "alloc", &err);
    for (int k = 0; !bad && k < 4; k++) {
        void *from = k % 2 ? out : in;

        fill_values(from, p * n, pdl_comm_rank(c), 0, PDL_COMM_F32);
        if (k < 2)
            bad |= said(pdl_comm_alltoall(c, from, out, n, PDL_COMM_F32, &err),
                        "alltoall", &err) ||
                   wrong_blocks(c, out, n);
        else
            bad |=
                said(pdl_comm_reduce_scatter(c, from, out, p * n, PDL_COMM_F32,
                                             PDL_COMM_SUM, &err),
                     "reduce-scatter", &err) ||
                check_reduced("in a window", c, out, pdl_comm_rank(c) * n, n,
                              PDL_COMM_F32, PDL_COMM_SUM);
        pdl_comm_describe(c, &info);
        if (p > 1 && k % 2 == 0 && strcmp(info.used, "window") != 0)
            bad = 1, fprintf(stderr, "moved through %s\n", info.used);
    }
    if (bad)
        fprintf(stderr, "in windows, blocks of %" PRId64 ": wrong\n", n);
    bad |= said(pdl_comm_free(c, in, &err), "free", &err);
    bad |= said(pdl_comm_free(c, out, &err), "free", &err);
    pdl_comm_destroy(c);
    return bad;
}

/* Pretended nodes: messages between nodes go through MPI, the others not, and
 * where nodes are equal long vectors go in two levels. */
static int on_nodes(int per_node, bool fixed)
{
    struct pdl_comm_options opt = {.ranks_per_node = per_node,
                                   .fixed_order = fixed};
    struct pdl_comm_info info;
    struct pdl_err err = {"", ""};
    int size, bad;
    pdl_comm *c;

    if (said(pdl_comm_create(MPI_COMM_WORLD, &opt, &c, &err), "create", &err))
        return 1;
    size = pdl_comm_size(c);
    pdl_comm_describe(c, &info);
    bad = info.nodes != (size + per_node - 1) / per_node;
    if (bad)
        fprintf(stderr, "%d nodes of %d\n", info.nodes, per_node);
    if (!fixed && size % per_node == 0 && size > per_node &&
        strncmp(pdl_comm_choice(c, "allreduce", 1 << 20), "ring-ring:k=", 12) !=
            0)
        bad = 1, fprintf(stderr, "%d nodes of %d: not two levels\n", info.nodes,
                         per_node);
    if (fixed)
        bad |= check_all_bits(c, "on nodes");
    bad |= types_and_counts(c, "on nodes", false);
    for (int64_t n = 1; n < 300000; n = 3 * n + 1)
        bad |= check_allreduce(c, n, PDL_COMM_F32, PDL_COMM_SUM, n % 2,
                               "on nodes");
    bad |= check_others(c, 50000, PDL_COMM_F32);
    bad |= check_exchange(c, 30000) | check_subset(c);
    pdl_comm_destroy(c);
    return bad;
}

static int with_a_twin(const char *transport)
{
    struct pdl_comm_options opt = {.transport = transport};
    struct pdl_err err = {"", ""};
    pdl_comm *a, *b;
    int bad;

    if (said(pdl_comm_create(MPI_COMM_WORLD, &opt, &a, &err), "create", &err) ||
        said(pdl_comm_create(MPI_COMM_WORLD, &opt, &b, &err), "create", &err))
        return 1;
    bad = check_two_threads(a, b);
    pdl_comm_destroy(a);
    pdl_comm_destroy(b);
    return bad;
}

/* Between processes the algorithms differ only in their messages, and those of
 * window, cma and auto go the same ways. */
static bool worth_it(int i, int size, bool all)
{
    return all || i == 0 || (size < 4 && (i == 1 || i == 4));
}

int main(int argc, char **argv)
{
    static const char *const transports[] = {"auto", "p2p", "window", "cma",
                                             "staged"};
    bool all = getenv("PDL_LONG") != NULL;
    int provided, size, bad = 0, any = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < 5; i++) {
        if (argc > 1 && strcmp(argv[1], transports[i]) != 0)
            continue;
        if (worth_it(i, size, all)) {
            bad |= every_algorithm(transports[i], all);
            bad |= every_other_algorithm(transports[i], all);
        }
        bad |= by_choice(transports[i], false);
        bad |= by_choice(transports[i], true);
    }
    bad |= persistent("ring") | persistent("flat") | persistent("ordered");
    bad |= in_windows(5000) | in_windows(1000001);
    bad |= moved_in_windows(20000) | moved_in_windows(150001);
    bad |= on_nodes(2, false) | on_nodes(3, false) | on_nodes(2, true);
    if (provided == MPI_THREAD_MULTIPLE)
        bad |= with_a_twin("auto") | with_a_twin("p2p");
    MPI_Allreduce(&bad, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
    return any;
}
