/* SPDX-License-Identifier: Apache-2.0
 *
 * libparadl-mpi.so: MPI_Allreduce of an unmodified program by our programs.
 *
 *   mpirun -x LD_PRELOAD=libparadl-mpi.so ./program
 *
 * MPI's profiling interface gives every function a second name, PMPI_...; a
 * library that is loaded first may take over the first one. A communicator
 * gets a pdl_comm the first time it is used, kept as one of its attributes;
 * it goes when the communicator is freed, or in MPI_Finalize. What we do not
 * do - other types and operations, intercommunicators, one rank - goes to
 * MPI, as does everything when PARADL_MPI=0. PARADL_MPI_VERBOSE=1 counts and
 * says so at the end.
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

static struct {
    pthread_mutex_t lock;
    int key;
    bool ready, off, verbose;
    struct entry *first;
    atomic_llong ours, others, bytes;
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
    /* who waits in MPI_Allreduce waits for ever */
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

/* Collective the first time: an allreduce is. */
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

/* ---- MPI's names ------------------------------------------------------ */

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype datatype,
                  MPI_Op operation, MPI_Comm comm)
{
    struct pdl_err err = {"", ""};
    enum pdl_comm_type type;
    enum pdl_comm_op op;
    struct entry *e = NULL;
    enum pdl_status st;

    if (!inside && count >= 0 && comm != MPI_COMM_NULL &&
        type_of(datatype, &type) && op_of(operation, &op) && prepared())
        e = entry_of(comm);
    if (!e || !e->comm) {
        shim.others += !inside;
        return PMPI_Allreduce(in, out, count, datatype, operation, comm);
    }
    inside++;
    st = pdl_comm_allreduce(e->comm, in == MPI_IN_PLACE ? out : in, out, count,
                            type, op, &err);
    inside--;
    shim.ours++;
    shim.bytes += count * comm_type_bytes(type);
    if (st == PDL_OK)
        return MPI_SUCCESS;
    fprintf(stderr, "libparadl-mpi: MPI_Allreduce: %s\n", err.msg);
    PMPI_Comm_call_errhandler(comm, MPI_ERR_OTHER);
    return MPI_ERR_OTHER;
}

static void report(void)
{
    int rank = -1;

    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (shim.verbose && rank == 0)
        fprintf(stderr,
                "libparadl-mpi: %lld MPI_Allreduce calls of rank 0 by paradl "
                "(%.3g MB), %lld by MPI\n",
                (long long)shim.ours, (double)shim.bytes / 1e6,
                (long long)shim.others);
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
