/* SPDX-License-Identifier: Apache-2.0
 *
 * libparadl-mpi.so: the collectives of an unmodified program by our programs:
 * MPI_Allreduce, MPI_Reduce_scatter, MPI_Reduce_scatter_block, MPI_Allgather,
 * MPI_Alltoall, MPI_Bcast.
 *
 *   mpirun -x LD_PRELOAD=libparadl-mpi.so ./program
 *
 * MPI's profiling interface gives every function a second name, PMPI_...; a
 * library that is loaded first may take over the first one. A communicator
 * gets a pdl_comm the first time it is used, kept as one of its attributes;
 * it goes when the communicator is freed, or in MPI_Finalize. What we do not
 * do - other types and operations, MPI_IN_PLACE (except of an allreduce),
 * unequal parts, intercommunicators, one rank - goes to MPI, as does everything
 * when PARADL_MPI=0. PARADL_MPI_VERBOSE=1 counts and says so at the end.
 *
 * Whether we take a call must be the same on all ranks, so only what MPI wants
 * to be the same decides: the bytes that a rank sends to or gets from another,
 * never the layout of its types: what does not lie in order is packed. What is
 * only moved is moved as words, where the ranks are on one node.
 *
 * max and min differ from MPI's in what happens to a NaN (reduce.c). The state
 * below is the process's: MPI itself is one. */
#include "comm_priv.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A communicator's, in a list of all. */
struct entry {
    MPI_Comm mpi;
    pdl_comm *comm; /* NULL: MPI does it */
    struct entry *next;
};

enum call {
    ALLREDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    ALLGATHER,
    ALLTOALL,
    BCAST,
    NCALLS
};
static const char *const names[NCALLS] = {
    "MPI_Allreduce", "MPI_Reduce_scatter", "MPI_Reduce_scatter_block",
    "MPI_Allgather", "MPI_Alltoall",       "MPI_Bcast"};

static struct {
    pthread_mutex_t lock;
    int key;
    bool ready, off, verbose;
    struct entry *first;
    struct {
        atomic_llong ours, others, bytes;
    } calls[NCALLS];
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER, .key = MPI_KEYVAL_INVALID};

/* We call MPI ourselves: those calls are MPI's. */
static _Thread_local int inside;

/* ---- what we take ----------------------------------------------------- */

static bool type_of(MPI_Datatype d, enum pdl_comm_type *type)
{
    const struct {
        MPI_Datatype mpi;
        enum pdl_comm_type type;
    } known[] = {
        {MPI_FLOAT, PDL_COMM_F32},
        {MPI_DOUBLE, PDL_COMM_F64},
        {MPI_INT, PDL_COMM_I32},
        {MPI_INT32_T, PDL_COMM_I32},
        {MPI_INT64_T, PDL_COMM_I64},
        {MPI_LONG_LONG, PDL_COMM_I64},
        {MPI_LONG, sizeof(long) == 8 ? PDL_COMM_I64 : PDL_COMM_I32},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].mpi == d) {
            *type = known[i].type;
            return true;
        }
    return false;
}

static bool op_of(MPI_Op o, enum pdl_comm_op *op)
{
    const struct {
        MPI_Op mpi;
        enum pdl_comm_op op;
    } known[] = {
        {MPI_SUM, PDL_COMM_SUM},
        {MPI_MAX, PDL_COMM_MAX},
        {MPI_MIN, PDL_COMM_MIN},
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].mpi == o) {
            *op = known[i].op;
            return true;
        }
    return false;
}

/* ---- a communicator's pdl_comm ---------------------------------------- */

static void forget(struct entry *e)
{
    struct entry **at;

    pthread_mutex_lock(&shim.lock);
    for (at = &shim.first; *at && *at != e; at = &(*at)->next)
        ;
    if (*at)
        *at = e->next;
    pthread_mutex_unlock(&shim.lock);
    inside++;
    pdl_comm_destroy(e->comm);
    inside--;
    free(e);
}

static int on_delete(MPI_Comm comm, int key, void *attribute, void *extra)
{
    (void)comm;
    (void)key;
    (void)extra;
    if (attribute)
        forget(attribute);
    return MPI_SUCCESS;
}

static bool is_set(const char *name, const char *value)
{
    const char *v = getenv(name);

    return v && strcmp(v, value) == 0;
}

/* Once; false: do nothing. */
static bool prepared(void)
{
    pthread_mutex_lock(&shim.lock);
    if (!shim.ready) {
        shim.ready = true;
        shim.verbose = is_set("PARADL_MPI_VERBOSE", "1");
        shim.off = is_set("PARADL_MPI", "0") ||
                   PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete,
                                           &shim.key, NULL) != MPI_SUCCESS;
    }
    pthread_mutex_unlock(&shim.lock);
    return !shim.off;
}

/* All ranks of an intracommunicator have one or none has. */
static pdl_comm *make(MPI_Comm comm)
{
    /* who waits in MPI waits for ever */
    const struct pdl_comm_options opt = {.timeout_s = 1e9};
    struct pdl_err err = {"", ""};
    pdl_comm *c = NULL;
    int inter = 0, size = 0, mine, all;

    PMPI_Comm_test_inter(comm, &inter);
    PMPI_Comm_size(comm, &size);
    if (inter || size < 2)
        return NULL;
    mine = pdl_comm_create(comm, &opt, &c, &err) == PDL_OK;
    if (PMPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS &&
        all)
        return c;
    if (!mine && shim.verbose)
        fprintf(stderr, "libparadl-mpi: %s\n", err.msg);
    pdl_comm_destroy(c);
    return NULL;
}

/* Collective the first time: so are the calls that ask. */
static struct entry *entry_of(MPI_Comm comm)
{
    struct entry *e = NULL;
    void *attribute = NULL;
    int found = 0;

    if (PMPI_Comm_get_attr(comm, shim.key, &attribute, &found) != MPI_SUCCESS)
        return NULL;
    if (found)
        return attribute;
    e = calloc(1, sizeof *e);
    inside++;
    if (e)
        *e = (struct entry){.mpi = comm, .comm = make(comm)};
    inside--;
    if (!e || PMPI_Comm_set_attr(comm, shim.key, e) != MPI_SUCCESS) {
        free(e);
        return NULL;
    }
    pthread_mutex_lock(&shim.lock);
    e->next = shim.first;
    shim.first = e;
    pthread_mutex_unlock(&shim.lock);
    return e;
}

/* NULL: MPI does it. */
static pdl_comm *ours_for(MPI_Comm comm)
{
    struct entry *e = NULL;

    if (!inside && comm != MPI_COMM_NULL && prepared())
        e = entry_of(comm);
    return e ? e->comm : NULL;
}

/* Of a call that we do not take. */
static void leave_it(enum call call)
{
    shim.calls[call].others += !inside;
}

/* Ends a call of ours. */
static int told(enum call call, MPI_Comm comm, enum pdl_status st,
                int64_t bytes, const struct pdl_err *err)
{
    inside--;
    shim.calls[call].ours++;
    shim.calls[call].bytes += bytes;
    if (st == PDL_OK)
        return MPI_SUCCESS;
    fprintf(stderr, "libparadl-mpi: %s: %s\n", names[call], err->msg);
    PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

/* ---- moves ------------------------------------------------------------ */

/* One side of a collective that only moves: so many bytes, in the caller's
 * buffer or, where they do not lie there in order, packed beside it. */
struct side {
    void *user; /* the caller's */
    int count;
    MPI_Datatype type;
    int64_t bytes; /* < 0: nothing that we take */
    char *packed;  /* NULL: as it is */
};

static struct side side_of(const void *buffer, int count, MPI_Datatype type)
{
    struct side x = {.user = (void *)(uintptr_t)buffer,
                     .count = count,
                     .type = type,
                     .bytes = -1};
    int size = 0;

    if (buffer != MPI_IN_PLACE && count >= 0 && type != MPI_DATATYPE_NULL &&
        PMPI_Type_size(type, &size) == MPI_SUCCESS)
        x.bytes = (int64_t)count * size;
    return x;
}

/* Are a type's bytes sent in the order in which they lie? Those of named types
 * are, and of several of such a type; an index may turn them round. */
static bool in_order(MPI_Datatype type)
{
    int ints, addresses, types, kind, many;
    MPI_Datatype of;
    bool fine;

    if (PMPI_Type_get_envelope(type, &ints, &addresses, &types, &kind) !=
        MPI_SUCCESS)
        return false;
    if (kind == MPI_COMBINER_NAMED)
        return true;
    if ((kind != MPI_COMBINER_CONTIGUOUS && kind != MPI_COMBINER_DUP) ||
        PMPI_Type_get_contents(type, ints, addresses, types, &many, NULL,
                               &of) != MPI_SUCCESS)
        return false;
    fine = in_order(of);
    PMPI_Type_get_envelope(of, &ints, &addresses, &types, &kind);
    if (kind != MPI_COMBINER_NAMED)
        PMPI_Type_free(&of);
    return fine;
}

static bool lies_ready(const struct side *x)
{
    MPI_Aint low = 0, extent = 0, true_low = 0, true_extent = 0;

    return PMPI_Type_get_extent(x->type, &low, &extent) == MPI_SUCCESS &&
           PMPI_Type_get_true_extent(x->type, &true_low, &true_extent) ==
               MPI_SUCCESS &&
           low == 0 && true_low == 0 && true_extent == extent &&
           x->count * (int64_t)extent == x->bytes && in_order(x->type);
}

/* Where its bytes are, or go; parts: the buffer has so many of them. NULL: no
 * memory. */
static char *open_side(struct side *x, int parts, bool filled, MPI_Comm comm)
{
    int all = x->count * parts, at = 0, room = (int)(x->bytes * parts);

    if (lies_ready(x))
        return x->user;
    x->packed = malloc(room > 0 ? (size_t)room : 1);
    if (x->packed && filled)
        PMPI_Pack(x->user, all, x->type, x->packed, room, &at, comm);
    return x->packed;
}

static void close_side(struct side *x, int parts, bool filled, MPI_Comm comm)
{
    int at = 0;

    if (x->packed && filled)
        PMPI_Unpack(x->packed, (int)(x->bytes * parts), &at, x->user,
                    x->count * parts, x->type, comm);
    free(x->packed);
}

/* What moves goes as words of the longest type that divides it. */
struct words {
    int64_t n;
    enum pdl_comm_type type;
};

/* Ours, if we move so many bytes to or from each of the ranks: all on one
 * node. */
static pdl_comm *mover(MPI_Comm comm, int64_t bytes, struct words *w)
{
    pdl_comm *c = bytes >= 0 ? ours_for(comm) : NULL;
    struct pdl_comm_info info;

    if (!c || bytes % 2 || bytes > INT32_MAX / pdl_comm_size(c))
        return NULL;
    pdl_comm_describe(c, &info);
    w->type = bytes % 8 == 0   ? PDL_COMM_I64
              : bytes % 4 == 0 ? PDL_COMM_I32
                               : PDL_COMM_BF16;
    w->n = bytes / comm_type_bytes(w->type);
    return info.nodes == 1 ? c : NULL;
}

/* ---- MPI's names ------------------------------------------------------ */

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype datatype,
                  MPI_Op operation, MPI_Comm comm)
{
    struct pdl_err err = {"", ""};
    enum pdl_comm_type type;
    enum pdl_comm_op op;
    pdl_comm *c = NULL;
    enum pdl_status st;

    if (count >= 0 && type_of(datatype, &type) && op_of(operation, &op))
        c = ours_for(comm);
    if (!c) {
        leave_it(ALLREDUCE);
        return PMPI_Allreduce(in, out, count, datatype, operation, comm);
    }
    inside++;
    st = pdl_comm_allreduce(c, in == MPI_IN_PLACE ? out : in, out, count, type,
                            op, &err);
    return told(ALLREDUCE, comm, st, count * comm_type_bytes(type), &err);
}

/* Equal parts, not in place; which of them is the caller's business. */
static bool scatters(const void *in, int count, MPI_Datatype datatype,
                     MPI_Op operation, enum pdl_comm_type *type,
                     enum pdl_comm_op *op)
{
    return in != MPI_IN_PLACE && count >= 0 && type_of(datatype, type) &&
           op_of(operation, op);
}

int MPI_Reduce_scatter_block(const void *in, void *out, int count,
                             MPI_Datatype datatype, MPI_Op operation,
                             MPI_Comm comm)
{
    struct pdl_err err = {"", ""};
    enum pdl_comm_type type;
    enum pdl_comm_op op;
    pdl_comm *c = NULL;
    int64_t all;

    if (scatters(in, count, datatype, operation, &type, &op))
        c = ours_for(comm);
    if (!c) {
        leave_it(REDUCE_SCATTER_BLOCK);
        return PMPI_Reduce_scatter_block(in, out, count, datatype, operation,
                                         comm);
    }
    all = (int64_t)count * pdl_comm_size(c);
    inside++;
    return told(REDUCE_SCATTER_BLOCK, comm,
                pdl_comm_reduce_scatter(c, in, out, all, type, op, &err),
                all * comm_type_bytes(type), &err);
}

/* Are the parts those of our own cut? The same on all ranks. */
static bool cut_like_ours(const int *counts, MPI_Comm comm, int64_t *all)
{
    struct pdl_coll_buf b = {0, 0};
    int size = 0;

    if (!counts || PMPI_Comm_size(comm, &size) != MPI_SUCCESS)
        return false;
    for (int r = 0; r < size; r++)
        b.count += counts[r];
    b.chunks = size;
    for (int r = 0; r < size; r++)
        if (counts[r] !=
            pdl_coll_chunk_begin(&b, r + 1) - pdl_coll_chunk_begin(&b, r))
            return false;
    *all = b.count;
    return true;
}

int MPI_Reduce_scatter(const void *in, void *out, const int *counts,
                       MPI_Datatype datatype, MPI_Op operation, MPI_Comm comm)
{
    struct pdl_err err = {"", ""};
    enum pdl_comm_type type;
    enum pdl_comm_op op;
    pdl_comm *c = NULL;
    int64_t all = 0;

    if (!inside && comm != MPI_COMM_NULL &&
        scatters(in, 0, datatype, operation, &type, &op) &&
        cut_like_ours(counts, comm, &all))
        c = ours_for(comm);
    if (!c) {
        leave_it(REDUCE_SCATTER);
        return PMPI_Reduce_scatter(in, out, counts, datatype, operation, comm);
    }
    inside++;
    return told(REDUCE_SCATTER, comm,
                pdl_comm_reduce_scatter(c, in, out, all, type, op, &err),
                all * comm_type_bytes(type), &err);
}

/* Allgather and all-to-all, in parts of the same bytes; false: MPI does it. */
static bool swaps(enum call call, struct side in, struct side out,
                  MPI_Comm comm, int *result)
{
    struct pdl_err err = {"", ""};
    bool gathers = call == ALLGATHER;
    enum pdl_status st = PDL_ENOMEM;
    struct words w;
    pdl_comm *c = in.bytes == out.bytes ? mover(comm, in.bytes, &w) : NULL;
    char *from, *to;
    int p;

    if (!c) {
        leave_it(call);
        return false;
    }
    inside++;
    p = pdl_comm_size(c);
    from = open_side(&in, gathers ? 1 : p, true, comm);
    to = open_side(&out, p, false, comm);
    if (in.bytes == 0)
        st = PDL_OK;
    else if (from && to)
        st = gathers ? pdl_comm_allgather(c, from, to, w.n * p, w.type, &err)
                     : pdl_comm_alltoall(c, from, to, w.n, w.type, &err);
    close_side(&in, gathers ? 1 : p, false, comm);
    close_side(&out, p, st == PDL_OK, comm);
    *result = told(call, comm, st, in.bytes * p, &err);
    return true;
}

int MPI_Allgather(const void *in, int in_count, MPI_Datatype in_type, void *out,
                  int out_count, MPI_Datatype out_type, MPI_Comm comm)
{
    int result;

    if (swaps(ALLGATHER, side_of(in, in_count, in_type),
              side_of(out, out_count, out_type), comm, &result))
        return result;
    return PMPI_Allgather(in, in_count, in_type, out, out_count, out_type,
                          comm);
}

int MPI_Alltoall(const void *in, int in_count, MPI_Datatype in_type, void *out,
                 int out_count, MPI_Datatype out_type, MPI_Comm comm)
{
    int result;

    if (swaps(ALLTOALL, side_of(in, in_count, in_type),
              side_of(out, out_count, out_type), comm, &result))
        return result;
    return PMPI_Alltoall(in, in_count, in_type, out, out_count, out_type, comm);
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype datatype, int root,
              MPI_Comm comm)
{
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_ENOMEM;
    struct side x = side_of(buffer, count, datatype);
    struct words w;
    pdl_comm *c = mover(comm, x.bytes, &w);
    char *at;

    if (!c || root < 0 || root >= pdl_comm_size(c)) {
        leave_it(BCAST);
        return PMPI_Bcast(buffer, count, datatype, root, comm);
    }
    inside++;
    at = open_side(&x, 1, pdl_comm_rank(c) == root, comm);
    if (x.bytes == 0)
        st = PDL_OK;
    else if (at)
        st = pdl_comm_broadcast(c, at, w.n, w.type, root, &err);
    close_side(&x, 1, st == PDL_OK && pdl_comm_rank(c) != root, comm);
    return told(BCAST, comm, st, x.bytes, &err);
}

static void report(void)
{
    int rank = -1;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; shim.verbose && rank == 0 && i < NCALLS; i++)
        if (shim.calls[i].ours + shim.calls[i].others > 0)
            fprintf(stderr,
                    "libparadl-mpi: %lld %s calls of rank 0 by paradl "
                    "(%.3g MB), %lld by MPI\n",
                    (long long)shim.calls[i].ours, names[i],
                    (double)shim.calls[i].bytes / 1e6,
                    (long long)shim.calls[i].others);
}

/* The last made goes first: on every rank an order that all can follow. */
int MPI_Finalize(void)
{
    struct entry *e;

    while ((e = shim.first)) {
        PMPI_Comm_delete_attr(e->mpi, shim.key);
        if (shim.first == e)
            forget(e);
    }
    if (shim.key != MPI_KEYVAL_INVALID)
        PMPI_Comm_free_keyval(&shim.key);
    if (shim.ready)
        report();
    return PMPI_Finalize();
}
