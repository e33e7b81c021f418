/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages through MPI. A message that is to be combined is received beside
 * its place first. Messages above 1 GiB go in pieces one after the other,
 * since MPI counts are int; shorter ones that come back are kept as persistent
 * requests (kept.c).
 *
 * Tags: a collective's messages between two ranks are numbered by the
 * executor; modulo 16384 they stay below every MPI's limit, and more than
 * that are never under way at a time. Users' tags are passed on. */
#include "comm_core.h"

#include <inttypes.h>

enum { MAX_PIECE = 1 << 30, TAGS = 16384 };

enum pdl_status comm_mpi_fail(pdl_comm *c, int rc, const char *what,
                              struct pdl_err *err)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int n = 0;

    if (MPI_Error_string(rc, text, &n) != MPI_SUCCESS)
        n = 0;
    text[n] = '\0';
    return comm_break(c, err, "%s: %.180s", what, text);
}

static int mpi_tag(const struct comm_msg *m)
{
    if (m->channel == COMM_COLLECTIVE)
        return m->tag % TAGS;
    return m->tag - COMM_TAG_SETUP; /* from 0 */
}

/* Starts the next piece. */
static enum pdl_status start(pdl_comm *c, struct comm_msg *m,
                             struct pdl_err *err)
{
    MPI_Comm lane = c->lane[m->channel];
    char *at = (m->aside ? m->aside : m->data) + m->moved;
    int64_t n = m->bytes - m->moved;
    int rc, count = (int)(n > MAX_PIECE ? MAX_PIECE : n);

    if (m->send)
        rc = MPI_Isend(at, count, MPI_BYTE, m->peer, mpi_tag(m), lane,
                       &m->request);
    else
        rc = MPI_Irecv(at, count, MPI_BYTE, m->peer, mpi_tag(m), lane,
                       &m->request);
    if (rc != MPI_SUCCESS)
        return comm_mpi_fail(c, rc, m->send ? "MPI_Isend" : "MPI_Irecv", err);
    m->started = true;
    return PDL_OK;
}

enum pdl_status comm_p2p_post(pdl_comm *c, struct comm_msg *m,
                              struct pdl_err *err)
{
    int rc =
        m->bytes <= MAX_PIECE ? comm_kept_start(c, m, mpi_tag(m)) : MPI_SUCCESS;

    if (rc != MPI_SUCCESS)
        return comm_mpi_fail(c, rc, "a persistent request", err);
    if (m->kept) {
        m->started = true;
        comm_list_add(&c->p2p, m);
        return PDL_OK;
    }
    if (m->combine && !m->send) {
        m->aside = malloc((size_t)m->bytes + 1);
        if (!m->aside)
            return comm_break(c, err,
                              "no memory for a message of %" PRId64 " bytes",
                              m->bytes);
    }
    comm_list_add(&c->p2p, m);
    return start(c, m, err);
}

static void finish(struct comm_msg *m)
{
    if (m->aside)
        comm_deliver(m, 0, m->aside, m->bytes);
    if (m->kept)
        comm_kept_done(m);
    free(m->aside);
    m->aside = NULL;
    m->done = true;
}

/* One message: is its piece done, and was it the last? */
static enum pdl_status step(pdl_comm *c, struct comm_msg *m,
                            struct pdl_err *err)
{
    int flag = 0, count = 0, rc;
    MPI_Status status;

    rc = MPI_Test(&m->request, &flag, &status);
    if (rc == MPI_SUCCESS && flag && !m->send)
        rc = MPI_Get_count(&status, MPI_BYTE, &count);
    if (rc != MPI_SUCCESS)
        return comm_mpi_fail(c, rc, m->send ? "a send" : "a receive", err);
    if (!flag)
        return PDL_OK;
    m->started = false;
    c->moves++;
    if (m->send)
        count = (int)(m->bytes - m->moved > MAX_PIECE ? MAX_PIECE
                                                      : m->bytes - m->moved);
    m->moved += count;
    if (!m->send && m->moved < m->bytes && count < MAX_PIECE)
        return comm_break(c, err,
                          "rank %d sends %" PRId64
                          " bytes where rank %d expects %" PRId64,
                          m->peer, m->moved, c->rank, m->bytes);
    if (m->moved < m->bytes)
        return start(c, m, err);
    finish(m);
    return PDL_OK;
}

/* The requests live in the messages: they end in a later call of this. */
// NOLINTBEGIN(clang-analyzer-optin.mpi.MPI-Checker)
enum pdl_status comm_p2p_progress(pdl_comm *c, struct pdl_err *err)
{
    struct comm_msg **at = &c->p2p.first, *m;
    enum pdl_status st = PDL_OK;

    while (st == PDL_OK && (m = *at)) {
        st = step(c, m, err);
        if (m->done)
            comm_list_remove(&c->p2p, at);
        else
            at = &m->next;
    }
    return st;
}
// NOLINTEND(clang-analyzer-optin.mpi.MPI-Checker)

/* What is still under way on a broken communicator is given up; freeing is
 * collective, so a broken one keeps its MPI communicators. */
void comm_p2p_close(pdl_comm *c)
{
    int finalized = 0;

    MPI_Finalized(&finalized);
    for (struct comm_msg *m = c->p2p.first; m; m = m->next) {
        if (m->started && !finalized) {
            MPI_Cancel(&m->request);
            MPI_Request_free(&m->request);
        }
        if (!m->kept)
            free(m->aside);
    }
    comm_kept_close(c, finalized);
    for (int ch = 0; c->mpi && !finalized && !*c->broken && ch < COMM_NCHANNELS;
         ch++)
        if (c->lane[ch] != MPI_COMM_NULL)
            MPI_Comm_free(&c->lane[ch]);
}
