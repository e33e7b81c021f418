/* SPDX-License-Identifier: Apache-2.0
 *
 * Communicators: from MPI, of virtual ranks in this process, of some ranks of
 * another one. */
#include "comm_core.h"

#include <sched.h>
#include <unistd.h>

enum { MAX_MEMORY_RANKS = 1024 };

static const char *const transports[] = {"auto", "p2p",    "window",
                                         "cma",  "staged", "memory"};
enum { NTRANSPORTS = sizeof transports / sizeof transports[0] };

/* The name as we keep it; NULL: there is no such transport. */
static const char *transport_name(const char *name)
{
    for (int i = 0; i < NTRANSPORTS; i++)
        if (strcmp(name, transports[i]) == 0)
            return transports[i];
    return NULL;
}

/* The rules of a table whose algorithms run on this many ranks. */
static bool copy_table(pdl_comm *c, const struct pdl_comm_table *t, int size)
{
    struct pdl_coll_job job;

    if (!t || t->n == 0)
        return true;
    c->table.rule = calloc((size_t)t->n, sizeof *c->table.rule);
    if (!c->table.rule)
        return false;
    for (int i = 0; i < t->n; i++)
        if (pdl_coll_job_make(t->rule[i].collective, t->rule[i].algorithm, size,
                              (int64_t)1024 * size, 4, &job, NULL) == PDL_OK)
            c->table.rule[c->table.n++] = t->rule[i];
    return true;
}

static pdl_comm *new_comm(int rank, int size,
                          const struct pdl_comm_options *opt,
                          struct pdl_err *err)
{
    static const struct pdl_comm_options none;
    pdl_comm *c = calloc(1, sizeof *c);

    if (!opt)
        opt = &none;
    if (c && opt->algorithm && strcmp(opt->algorithm, "auto") != 0) {
        c->asked = strdup(opt->algorithm);
        if (!c->asked) {
            free(c);
            c = NULL;
        }
    }
    if (c && !copy_table(c, opt->table, size)) {
        free(c->asked);
        free(c);
        c = NULL;
    }
    if (!c) {
        pdl_say(err, "no memory for a communicator");
        return NULL;
    }
    c->rank = rank;
    c->size = size;
    if (c->asked)
        c->algorithm_for = comm_algorithm_for(c->asked, &c->algorithm);
    c->fixed_order = opt->fixed_order;
    c->program = opt->program;
    c->progress = opt->progress;
    c->used = "none";
    c->ranks_per_node = opt->ranks_per_node;
    c->transport = opt->transport ? transport_name(opt->transport) : "auto";
    c->timeout_s = opt->timeout_s > 0 ? opt->timeout_s : 300;
    for (int ch = 0; ch < COMM_NCHANNELS; ch++)
        c->lane[ch] = MPI_COMM_NULL;
    comm_list_init(&c->p2p);
    comm_list_init(&c->posted);
    c->node = MPI_COMM_NULL;
    return c;
}

static enum pdl_status check_transport(const struct pdl_comm_options *opt,
                                       struct pdl_err *err)
{
    struct pdl_suggest s;

    if (!opt || !opt->transport || transport_name(opt->transport))
        return PDL_OK;
    pdl_say(err, "no transport '%s'", opt->transport);
    pdl_suggest_init(&s, opt->transport);
    for (int i = 0; i < NTRANSPORTS; i++)
        pdl_suggest_try(&s, transports[i]);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EINVAL;
}

/* Only what is proved is run. */
static enum pdl_status check_program(const struct pdl_comm_options *opt,
                                     int size, struct pdl_err *err)
{
    const struct pdl_coll_program *prog = opt->program;
    struct pdl_coll_job job;
    enum pdl_status st;

    if (opt->algorithm || opt->fixed_order)
        return pdl_fail(err, PDL_EINVAL,
                        "a program, or an algorithm or a fixed order");
    if (prog->nranks != size ||
        strcmp(prog->alg.collective->name, "allreduce") != 0)
        return pdl_fail(err, PDL_EINVAL,
                        "a program for %s on %d ranks, not allreduce on %d",
                        prog->alg.collective->name, prog->nranks, size);
    pdl_coll_program_job(prog, &job);
    st = pdl_coll_setup(&job, err);
    return st == PDL_OK ? pdl_coll_verify(&job, NULL, err) : st;
}

static enum pdl_status check_algorithm(const struct pdl_comm_options *opt,
                                       int size, struct pdl_err *err)
{
    struct pdl_coll_job job = {.nranks = size, .elem_bytes = 4};
    const char *spec, *collective = comm_algorithm_for(opt->algorithm, &spec);
    bool sums;
    enum pdl_status st;

    if (!collective)
        return pdl_fail(err, PDL_EINVAL, "algorithm '%s': no such collective",
                        opt->algorithm);
    st = pdl_alg_parse(collective, spec, &job, err);
    if (st == PDL_OK)
        st = pdl_coll_setup(&job, err);
    sums = strcmp(collective, "allreduce") == 0 ||
           strcmp(collective, "reduce-scatter") == 0;
    if (st == PDL_OK && opt->fixed_order && sums &&
        strcmp(job.alg->name, "ordered") != 0 &&
        strcmp(job.alg->name, "flat") != 0) {
        st = pdl_fail(err, PDL_EINVAL, "%s does not sum in the order of ranks",
                      job.alg->name);
        pdl_hint(err, "take 'ordered' or 'flat', or no fixed order");
    }
    return st;
}

enum pdl_status pdl_comm_set_algorithm(pdl_comm *c, const char *algorithm,
                                       struct pdl_err *err)
{
    struct pdl_comm_options opt = {.algorithm = algorithm};
    enum pdl_status st = check_algorithm(&opt, c->size, err);
    char *copy = st == PDL_OK ? strdup(algorithm) : NULL;

    if (st != PDL_OK)
        return st;
    if (!copy)
        return pdl_fail(err, PDL_ENOMEM, "no memory for a communicator");
    free(c->asked);
    c->asked = copy;
    c->algorithm_for = comm_algorithm_for(c->asked, &c->algorithm);
    return PDL_OK;
}

static enum pdl_status check_options(const struct pdl_comm_options *opt,
                                     int size, struct pdl_err *err)
{
    enum pdl_status st = check_transport(opt, err);

    if (st != PDL_OK)
        return st;
    if (opt && opt->program)
        return check_program(opt, size, err);
    if (!opt || !opt->algorithm || strcmp(opt->algorithm, "auto") == 0)
        return PDL_OK;
    return check_algorithm(opt, size, err);
}

pdl_comm *comm_begin(int rank, int size, const struct pdl_comm_options *opt,
                     enum pdl_status *st, struct pdl_err *err)
{
    pdl_comm *c;

    *st = check_options(opt, size, err);
    c = *st == PDL_OK ? new_comm(rank, size, opt, err) : NULL;
    if (*st == PDL_OK && !c)
        *st = PDL_ENOMEM;
    return c;
}

enum pdl_status comm_sit(pdl_comm *c, struct comm_area *a, int n,
                         const int *rank_of_seat, struct pdl_err *err)
{
    bool ok = true;

    c->area = a;
    c->node_size = n;
    c->seat_of_rank = calloc((size_t)c->size, sizeof *c->seat_of_rank);
    c->rank_of_seat = calloc((size_t)n, sizeof *c->rank_of_seat);
    for (int ch = 0; ch < COMM_NCHANNELS; ch++) {
        c->out[ch] = calloc((size_t)n, sizeof *c->out[ch]);
        c->in[ch] = calloc((size_t)n, sizeof *c->in[ch]);
        ok = ok && c->out[ch] && c->in[ch];
        for (int i = 0; ok && i < n; i++) {
            comm_list_init(&c->out[ch][i].queue);
            comm_list_init(&c->in[ch][i].wanted);
        }
    }
    if (!ok || !c->seat_of_rank || !c->rank_of_seat)
        return pdl_fail(err, PDL_ENOMEM, "no memory for a communicator");
    for (int r = 0; r < c->size; r++)
        c->seat_of_rank[r] = -1;
    for (int i = 0; i < n; i++) {
        c->rank_of_seat[i] = rank_of_seat ? rank_of_seat[i] : i;
        c->seat_of_rank[c->rank_of_seat[i]] = i;
    }
    c->node_rank = c->seat_of_rank[c->rank];
    return PDL_OK;
}

/* ---- virtual ranks ---------------------------------------------------- */

static int processors(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return CPU_COUNT(&set);
}

static struct comm_area *memory_area(int n)
{
    int64_t bytes = comm_area_bytes(n, false);
    struct comm_area *a =
        aligned_alloc(4096, (size_t)((bytes + 4095) / 4096 * 4096));

    if (a) {
        memset(a, 0, (size_t)bytes);
        comm_area_init(a, n, false);
    }
    return a;
}

/* One virtual rank in an area made for all of them. */
static enum pdl_status join_memory(struct comm_area *a, int rank, int n,
                                   const struct pdl_comm_options *opt,
                                   pdl_comm **out, struct pdl_err *err)
{
    pdl_comm *c = new_comm(rank, n, opt, err);
    enum pdl_status st;

    if (!c)
        return PDL_ENOMEM;
    c->reach = COMM_REACH_POINTER;
    c->crowded = n > processors();
    c->nodes = 1;
    st = comm_sit(c, a, n, NULL, err);
    if (st == PDL_OK && c->progress)
        st = comm_engine_start(c, err);
    if (st != PDL_OK) {
        c->area = NULL;
        pdl_comm_destroy(c);
        return st;
    }
    *out = c;
    return PDL_OK;
}

enum pdl_status pdl_comm_create_memory(int n,
                                       const struct pdl_comm_options *opt,
                                       pdl_comm **out, struct pdl_err *err)
{
    enum pdl_status st;
    struct comm_area *a;
    int made = 0;

    if (n < 1 || n > MAX_MEMORY_RANKS)
        return pdl_fail(err, PDL_EINVAL, "%d virtual ranks: from 1 to %d", n,
                        MAX_MEMORY_RANKS);
    st = check_options(opt, n, err);
    if (st != PDL_OK)
        return st;
    a = memory_area(n);
    if (!a)
        return pdl_fail(err, PDL_ENOMEM, "no memory for %d virtual ranks", n);
    for (; st == PDL_OK && made < n; made++)
        st = join_memory(a, made, n, opt, &out[made], err);
    if (st == PDL_OK)
        return PDL_OK;
    made--;
    atomic_store(&a->users, made);
    if (made == 0)
        free(a);
    while (made > 0)
        pdl_comm_destroy(out[--made]);
    return st;
}

/* ---- from MPI --------------------------------------------------------- */

static enum pdl_status mpi_ready(struct pdl_err *err)
{
    int init = 0, done = 0;

    MPI_Initialized(&init);
    MPI_Finalized(&done);
    if (init && !done)
        return PDL_OK;
    return pdl_fail(err, PDL_ENOENV, "MPI is not initialized");
}

/* Our own copies, which return errors; `mpi` itself when keep is set. */
static enum pdl_status take_lanes(pdl_comm *c, MPI_Comm mpi,
                                  struct pdl_err *err)
{
    int rc = MPI_SUCCESS;

    c->mpi = true;
    for (int ch = 0; rc == MPI_SUCCESS && ch < COMM_NCHANNELS; ch++) {
        rc = MPI_Comm_dup(mpi, &c->lane[ch]);
        if (rc == MPI_SUCCESS)
            rc = MPI_Comm_set_errhandler(c->lane[ch], MPI_ERRORS_RETURN);
    }
    return rc == MPI_SUCCESS ? PDL_OK
                             : comm_mpi_fail(c, rc, "MPI_Comm_dup", err);
}

/* One that could not must not be waited for by the others for ever; and ranks
 * that choose by different tables would choose differently. */
static enum pdl_status agree(pdl_comm *c, enum pdl_status st,
                             struct pdl_err *err)
{
    int64_t mark = (int64_t)(comm_table_mark(&c->table) >> 2);
    int64_t mine[5] = {st == PDL_OK ? -1 : c->rank, mark, -mark, c->node_size,
                       -c->node_size};
    int64_t all[5] = {0, 0, 0, 0, 0};
    int first = c->node_rank == 0, in_line = c->in_line, all_in_line = 0;
    MPI_Comm lane = c->lane[COMM_COLLECTIVE];

    if (MPI_Allreduce(mine, all, 5, MPI_INT64_T, MPI_MAX, lane) !=
            MPI_SUCCESS ||
        MPI_Allreduce(&first, &c->nodes, 1, MPI_INT, MPI_SUM, lane) !=
            MPI_SUCCESS ||
        MPI_Allreduce(&in_line, &all_in_line, 1, MPI_INT, MPI_MIN, lane) !=
            MPI_SUCCESS)
        return st == PDL_OK ? comm_break(c, err, "MPI_Allreduce failed") : st;
    if (st == PDL_OK && all[0] >= 0)
        st = pdl_fail(err, PDL_ENOENV, "rank %d could not make a communicator",
                      (int)all[0]);
    if (st == PDL_OK && all[1] != -all[2])
        st =
            pdl_fail(err, PDL_EINVAL, "ranks have different tables of choices");
    if (c->nodes > 1 && all[3] == -all[4] && all_in_line && c->node_size > 1)
        snprintf(c->by_node, sizeof c->by_node, "ring-ring:k=%d", c->node_size);
    return st;
}

/* parent: whose windows it knows; NULL: none. */
static enum pdl_status create(MPI_Comm mpi, const struct pdl_comm_options *opt,
                              const pdl_comm *parent, pdl_comm **out,
                              struct pdl_err *err)
{
    int rank, size;
    enum pdl_status st;
    pdl_comm *c;

    MPI_Comm_rank(mpi, &rank);
    MPI_Comm_size(mpi, &size);
    st = check_options(opt, size, err);
    if (st != PDL_OK)
        return st;
    c = new_comm(rank, size, opt, err);
    if (!c)
        return PDL_ENOMEM;
    c->windows =
        parent ? comm_windows_share(parent->windows) : comm_windows_create();
    st = c->windows ? take_lanes(c, mpi, err)
                    : pdl_fail(err, PDL_ENOMEM, "no memory for windows");
    if (st == PDL_OK)
        st = comm_find_node(c, opt, parent && parent->crowded, err);
    if (st == PDL_OK && c->progress)
        st = comm_engine_start(c, err);
    if (c->lane[COMM_EXCHANGE] != MPI_COMM_NULL)
        st = agree(c, st, err);
    if (st != PDL_OK) {
        pdl_comm_destroy(c);
        return st;
    }
    *out = c;
    return PDL_OK;
}

enum pdl_status pdl_comm_create(MPI_Comm mpi,
                                const struct pdl_comm_options *opt,
                                pdl_comm **out, struct pdl_err *err)
{
    enum pdl_status st = mpi_ready(err);

    return st == PDL_OK ? create(mpi, opt, NULL, out, err) : st;
}

/* ---- of some ranks of another ----------------------------------------- */

static enum pdl_status check_subset(const pdl_comm *c, int n, const int *ranks,
                                    int *me, struct pdl_err *err)
{
    *me = -1;
    if (n < 1 || n > c->size)
        return pdl_fail(err, PDL_EINVAL, "%d of %d ranks", n, c->size);
    for (int i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= c->size)
            return pdl_fail(err, PDL_EINVAL, "rank %d of %d", ranks[i],
                            c->size);
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return pdl_fail(err, PDL_EINVAL, "rank %d is listed twice",
                                ranks[i]);
        if (ranks[i] == c->rank)
            *me = i;
    }
    if (*me < 0)
        return pdl_fail(err, PDL_EINVAL, "rank %d is not one of them", c->rank);
    return PDL_OK;
}

static struct pdl_comm_options same_options(const pdl_comm *c)
{
    /* a program is for its number of ranks */
    return (struct pdl_comm_options){.transport = c->transport,
                                     .ranks_per_node = c->ranks_per_node,
                                     .progress = c->progress,
                                     .algorithm = c->asked,
                                     .fixed_order = c->fixed_order,
                                     .timeout_s = c->timeout_s,
                                     .table = &c->table};
}

static enum pdl_status wait_for(pdl_comm *c, struct comm_msg *m,
                                struct pdl_err *err)
{
    struct comm_patience patience = {.turns = 0};
    enum pdl_status st;

    comm_lock(c);
    st = comm_post(c, m, err);
    while (st == PDL_OK && !m->done) {
        st = comm_progress(c, err);
        if (st == PDL_OK && !m->done)
            st = comm_wait_turn(c, &patience, "a subset's first message", err);
    }
    comm_unlock(c);
    return st;
}

/* The first of them makes the area and tells the others where it is. */
static enum pdl_status share_area(pdl_comm *c, int n, const int *ranks, int me,
                                  struct comm_area **a, struct pdl_err *err)
{
    uintptr_t where = 0;
    struct comm_msg m = {.tag = COMM_TAG_SETUP,
                         .channel = COMM_EXCHANGE,
                         .data = (char *)&where,
                         .bytes = sizeof where,
                         .send = me == 0};
    enum pdl_status st = PDL_OK;

    if (me > 0) {
        m.peer = ranks[0];
        st = wait_for(c, &m, err);
    } else {
        where = (uintptr_t)memory_area(n);
    }
    for (int i = 1; st == PDL_OK && me == 0 && i < n; i++) {
        m.peer = ranks[i];
        st = wait_for(c, &m, err);
    }
    *a = (struct comm_area *)where;
    if (st == PDL_OK && !*a)
        st = pdl_fail(err, PDL_ENOMEM, "no memory for %d virtual ranks", n);
    return st;
}

static enum pdl_status subset_memory(pdl_comm *c, int n, const int *ranks,
                                     int me, pdl_comm **out,
                                     struct pdl_err *err)
{
    struct pdl_comm_options opt = same_options(c);
    struct comm_area *a = NULL;
    enum pdl_status st = share_area(c, n, ranks, me, &a, err);

    return st == PDL_OK ? join_memory(a, me, n, &opt, out, err) : st;
}

static enum pdl_status subset_mpi(pdl_comm *c, int n, const int *ranks,
                                  pdl_comm **out, struct pdl_err *err)
{
    struct pdl_comm_options opt = same_options(c);
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm mpi = MPI_COMM_NULL;
    enum pdl_status st = PDL_OK;
    int rc = MPI_Comm_group(c->lane[COMM_EXCHANGE], &all);

    if (rc == MPI_SUCCESS)
        rc = MPI_Group_incl(all, n, ranks, &some);
    if (rc == MPI_SUCCESS)
        rc = MPI_Comm_create_group(c->lane[COMM_EXCHANGE], some, 0, &mpi);
    if (rc != MPI_SUCCESS)
        st = comm_mpi_fail(c, rc, "MPI_Comm_create_group", err);
    if (st == PDL_OK)
        st = create(mpi, &opt, c, out, err);
    if (mpi != MPI_COMM_NULL)
        MPI_Comm_free(&mpi);
    if (some != MPI_GROUP_NULL)
        MPI_Group_free(&some);
    if (all != MPI_GROUP_NULL)
        MPI_Group_free(&all);
    return st;
}

enum pdl_status pdl_comm_subset(pdl_comm *c, int n, const int *ranks,
                                pdl_comm **out, struct pdl_err *err)
{
    enum pdl_status st = comm_usable(c, err);
    int me;

    if (st == PDL_OK)
        st = check_subset(c, n, ranks, &me, err);
    if (st != PDL_OK)
        return st;
    if (c->mapped)
        return pdl_fail(err, PDL_EINVAL,
                        "processes without MPI have no subsets");
    if (c->mpi)
        return subset_mpi(c, n, ranks, out, err);
    return subset_memory(c, n, ranks, me, out, err);
}

/* ---- the rest --------------------------------------------------------- */

void pdl_comm_destroy(pdl_comm *c)
{
    if (!c)
        return;
    comm_engine_stop(c);
    comm_p2p_close(c);
    comm_mail_close(c);
    if (c->mpi)
        comm_leave_node(c);
    comm_free_abandoned(c->abandoned);
    if (c->mapped && c->area)
        comm_shared_unmap(c->area, c->area->bytes);
    if (!c->mpi && !c->mapped && c->area &&
        atomic_fetch_sub(&c->area->users, 1) == 1) {
        comm_free_abandoned(atomic_load(&c->area->abandoned));
        free(c->area);
    }
    comm_windows_drop(c->windows);
    free(c->scratch);
    for (int b = 0; b < PDL_COLL_BUFS; b++)
        free(c->spare[b].data);
    free(c->asked);
    free(c->table.rule);
    free(c);
}

int pdl_comm_rank(const pdl_comm *c)
{
    return c->rank;
}

int pdl_comm_size(const pdl_comm *c)
{
    return c->size;
}
