/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of the caller's own: halos, resharding, pipelines; and the barrier,
 * which is made of empty ones (dissemination: Hensgen, Finkel and Manber,
 * 1988: in round k a rank tells the one 2^k above and hears from the one 2^k
 * below; after ceil(log2 P) rounds it has heard from all). */
#include "comm_core.h"

#include <inttypes.h>

struct exchange {
    pdl_comm_request head;
    bool posted;
    int n;
    struct comm_msg *msgs; /* receives first */
};

static enum pdl_status check_messages(const pdl_comm *c, int n,
                                      const struct pdl_comm_message *m,
                                      struct pdl_err *err)
{
    for (int i = 0; i < n; i++) {
        if (m[i].peer < 0 || m[i].peer >= c->size)
            return pdl_fail(err, PDL_EINVAL, "exchange: rank %d of %d",
                            m[i].peer, c->size);
        if (m[i].bytes < 0 || (m[i].bytes > 0 && !m[i].data))
            return pdl_fail(err, PDL_EINVAL,
                            "exchange: %" PRId64 " bytes at no address",
                            m[i].bytes);
        if (m[i].tag < 0 || m[i].tag > 32766)
            return pdl_fail(err, PDL_EINVAL, "exchange: tag %d, from 0 to %d",
                            m[i].tag, 32766);
    }
    return PDL_OK;
}

/* The i-th message of a tag to itself is the i-th one received. */
static enum pdl_status copy_own(const pdl_comm *c, int nsends,
                                const struct pdl_comm_message *s, int nrecvs,
                                const struct pdl_comm_message *r,
                                struct pdl_err *err)
{
    int i = 0, j = 0;

    for (;; i++, j++) {
        while (i < nsends && s[i].peer != c->rank)
            i++;
        while (j < nrecvs && r[j].peer != c->rank)
            j++;
        if (i == nsends && j == nrecvs)
            return PDL_OK;
        if (i == nsends || j == nrecvs || s[i].bytes != r[j].bytes ||
            s[i].tag != r[j].tag)
            return pdl_fail(err, PDL_EINVAL,
                            "exchange: what rank %d sends to itself is not "
                            "what it receives",
                            c->rank);
        if (s[i].bytes > 0)
            memmove(r[j].data, s[i].data, (size_t)s[i].bytes);
    }
}

static int add_messages(const pdl_comm *c, struct comm_msg *to, int n,
                        const struct pdl_comm_message *m, bool send)
{
    int k = 0;

    for (int i = 0; i < n; i++)
        if (m[i].peer != c->rank)
            to[k++] = (struct comm_msg){.peer = m[i].peer,
                                        .tag = m[i].tag,
                                        .channel = COMM_EXCHANGE,
                                        .send = send,
                                        .data = m[i].data,
                                        .bytes = m[i].bytes};
    return k;
}

static enum pdl_status advance(pdl_comm_request *r, bool *done,
                               struct pdl_err *err)
{
    struct exchange *x = (struct exchange *)r;
    enum pdl_status st = PDL_OK;

    if (!x->posted) {
        x->posted = true;
        for (int i = 0; i < x->n; i++) /* until posted: not under way */
            x->msgs[i].done = true;
        for (int i = 0; st == PDL_OK && i < x->n; i++)
            st = comm_post(r->comm, &x->msgs[i], err);
    }
    *done = st == PDL_OK;
    for (int i = 0; i < x->n; i++)
        *done = *done && x->msgs[i].done;
    return st;
}

static bool release(pdl_comm_request *r, bool force)
{
    struct exchange *x = (struct exchange *)r;

    if (!force && *r->comm->broken && x->posted)
        return false;
    free(x->msgs);
    return true;
}

enum pdl_status pdl_comm_start_exchange(pdl_comm *c, int nsends,
                                        const struct pdl_comm_message *sends,
                                        int nrecvs,
                                        const struct pdl_comm_message *recvs,
                                        pdl_comm_request **req,
                                        struct pdl_err *err)
{
    enum pdl_status st = comm_usable(c, err);
    struct exchange *x;

    if (st == PDL_OK)
        st = check_messages(c, nsends, sends, err);
    if (st == PDL_OK)
        st = check_messages(c, nrecvs, recvs, err);
    if (st == PDL_OK)
        st = copy_own(c, nsends, sends, nrecvs, recvs, err);
    if (st != PDL_OK)
        return st;
    x = calloc(1, sizeof *x);
    if (x)
        x->msgs = calloc((size_t)nsends + (size_t)nrecvs + 1, sizeof *x->msgs);
    if (!x || !x->msgs) {
        free(x);
        return pdl_fail(err, PDL_ENOMEM, "no memory for an exchange");
    }
    x->head = (pdl_comm_request){.comm = c,
                                 .what = "exchange",
                                 .unordered = true,
                                 .advance = advance,
                                 .release = release};
    x->n = add_messages(c, x->msgs, nrecvs, recvs, false);
    x->n += add_messages(c, x->msgs + x->n, nsends, sends, true);
    return comm_enqueue(&x->head, req, err);
}

/* ---- barrier ---------------------------------------------------------- */

struct barrier {
    pdl_comm_request head;
    int round; /* -1: not begun */
    int reach; /* 2^round */
    struct comm_msg send, recv;
};

static enum pdl_status open_round(struct barrier *b, struct pdl_err *err)
{
    pdl_comm *c = b->head.comm;
    enum pdl_status st;

    b->send = (struct comm_msg){.peer = (c->rank + b->reach) % c->size,
                                .tag = b->round,
                                .channel = COMM_COLLECTIVE,
                                .send = true};
    b->recv =
        (struct comm_msg){.peer = (c->rank + c->size - b->reach) % c->size,
                          .tag = b->round,
                          .channel = COMM_COLLECTIVE};
    st = comm_post(c, &b->send, err);
    return st == PDL_OK ? comm_post(c, &b->recv, err) : st;
}

static enum pdl_status barrier_advance(pdl_comm_request *r, bool *done,
                                       struct pdl_err *err)
{
    struct barrier *b = (struct barrier *)r;
    enum pdl_status st = PDL_OK;

    *done = false;
    while (st == PDL_OK) {
        if (b->round >= 0 && !(b->send.done && b->recv.done))
            return PDL_OK;
        b->round++;
        b->reach = b->round == 0 ? 1 : 2 * b->reach;
        if (b->reach >= r->comm->size) {
            *done = true;
            return PDL_OK;
        }
        st = open_round(b, err);
    }
    return st;
}

static bool barrier_release(pdl_comm_request *r, bool force)
{
    return force || !*r->comm->broken;
}

enum pdl_status pdl_comm_barrier(pdl_comm *c, struct pdl_err *err)
{
    enum pdl_status st = comm_usable(c, err);
    struct barrier *b;
    pdl_comm_request *req;

    if (st != PDL_OK)
        return st;
    b = calloc(1, sizeof *b);
    if (!b)
        return pdl_fail(err, PDL_ENOMEM, "no memory for a barrier");
    b->round = -1;
    b->head = (pdl_comm_request){.comm = c,
                                 .what = "barrier",
                                 .advance = barrier_advance,
                                 .release = barrier_release};
    st = comm_enqueue(&b->head, &req, err);
    return st == PDL_OK ? pdl_comm_wait(req, err) : st;
}
