/* SPDX-License-Identifier: Apache-2.0
 *
 * One message from rank 0 to another and back, by size and by transport: half
 * a round trip. The other is rank 1 and, where ranks are on several nodes,
 * the first rank of another node. */
#include "calibrate.h"

#include <stdlib.h>
#include <string.h>

static const char *const transports[] = {"auto", "p2p", "cma", "staged"};
static const int64_t sizes[] = {8,      1024,    8192,    65536,
                                262144, 1048576, 4194304, 16777216};
enum {
    NTRANSPORTS = sizeof transports / sizeof transports[0],
    NSIZES = sizeof sizes / sizeof sizes[0],
    TAG = 1,
    MAX_TURNS = 500,
};

struct pong {
    const struct calibration *c;
    pdl_comm *comm;
    int peer; /* of rank 0 */
    char *data;
};

static enum pdl_status one_way(const struct pong *p, bool send, int64_t bytes,
                               struct pdl_err *err)
{
    struct pdl_comm_message m = {p->c->rank == 0 ? p->peer : 0, TAG, p->data,
                                 bytes};
    pdl_comm_request *req;
    enum pdl_status st =
        pdl_comm_start_exchange(p->comm, send, &m, !send, &m, &req, err);

    return st == PDL_OK ? pdl_comm_wait(req, err) : st;
}

static enum pdl_status there_and_back(const struct pong *p, int64_t bytes,
                                      struct pdl_err *err)
{
    enum pdl_status st = one_way(p, p->c->rank == 0, bytes, err);

    return st == PDL_OK ? one_way(p, p->c->rank != 0, bytes, err) : st;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Both sides make as many turns: rank 0 says how many after the first two. */
static enum pdl_status one_size(const struct pong *p, int64_t bytes,
                                double *out, struct pdl_err *err)
{
    double took[MAX_TURNS];
    int64_t n = 0;
    bool takes_part = p->c->rank == 0 || p->c->rank == p->peer;
    enum pdl_status st = PDL_OK;

    for (int64_t i = -2; st == PDL_OK && i < n; i++) {
        double start = pdl_clock_s(), t;

        if (takes_part)
            st = there_and_back(p, bytes, err);
        t = pdl_clock_s() - start;
        if (i >= 0) {
            took[i] = t;
        } else if (i == -1 && st == PDL_OK) {
            n = (int64_t)(p->c->seconds / 2 / (t + 1e-9));
            n = n < 5 ? 5 : n > MAX_TURNS ? MAX_TURNS : n;
            st = pdl_comm_broadcast(p->comm, &n, 1, PDL_COMM_I64, 0, err);
        }
    }
    qsort(took, (size_t)n, sizeof *took, ascending);
    *out = st == PDL_OK ? took[n / 2] / 2 : 0;
    return st;
}

static void print_row(const struct calibration *c, const char *transport,
                      bool other_node, const double *seconds)
{
    if (!c->json)
        return;
    pdl_json_object(c->json);
    pdl_json_kstr(c->json, "transport", transport);
    pdl_json_kbool(c->json, "between_nodes", other_node);
    pdl_json_key(c->json, "times");
    pdl_json_array(c->json);
    for (int i = 0; i < NSIZES; i++) {
        pdl_json_flat(c->json);
        pdl_json_int(c->json, sizes[i]);
        pdl_json_num(c->json, seconds[i]);
        pdl_json_end(c->json);
    }
    pdl_json_end(c->json);
    pdl_json_end(c->json);
}

static enum pdl_status one_transport(struct pong *p, const char *name,
                                     bool other_node, struct pdl_err *err)
{
    struct pdl_comm_options opt = {.transport =
                                       strcmp(name, "auto") == 0 ? NULL : name};
    double seconds[NSIZES];
    struct pdl_err why = {"", ""};
    enum pdl_status st;

    if (pdl_comm_create(MPI_COMM_WORLD, &opt, &p->comm, &why) != PDL_OK)
        return PDL_OK; /* not on this machine: nothing to measure */
    st = pdl_comm_barrier(p->comm, err);
    for (int i = 0; st == PDL_OK && i < NSIZES; i++)
        st = one_size(p, sizes[i], &seconds[i], err);
    if (st == PDL_OK)
        print_row(p->c, name, other_node, seconds);
    if (st == PDL_OK)
        pdl_comm_destroy(p->comm);
    return st;
}

/* The first rank of another node than rank 0's; -1: there is one node. */
static int on_another_node(const struct calibration *c)
{
    MPI_Comm node;
    int first = c->rank, mine, least, none = c->ranks;

    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, c->rank,
                            MPI_INFO_NULL, &node) != MPI_SUCCESS)
        return -1;
    MPI_Bcast(&first, 1, MPI_INT, 0, node);
    MPI_Comm_free(&node);
    mine = first == 0 ? none : c->rank;
    MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return least == none ? -1 : least;
}

enum pdl_status run_calibrate_messages(const struct calibration *c,
                                       struct pdl_err *err)
{
    int far = on_another_node(c);
    struct pong p = {.c = c, .peer = 1};
    enum pdl_status st = PDL_OK;

    p.data = calloc(1, (size_t)sizes[NSIZES - 1]);
    if (!p.data)
        return pdl_fail(err, PDL_ENOMEM, "no memory for messages");
    for (int i = 0; far != 1 && st == PDL_OK && i < NTRANSPORTS; i++)
        st = one_transport(&p, transports[i], false, err);
    p.peer = far;
    if (st == PDL_OK && far > 0)
        st = one_transport(&p, transports[0], true, err);
    free(p.data);
    return st;
}
