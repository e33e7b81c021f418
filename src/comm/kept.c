/* SPDX-License-Identifier: Apache-2.0
 *
 * Persistent requests for MPI messages. Training runs the same program on the
 * same buffers again and again, so the same message (lane, direction, peer,
 * tag, address, length) comes back every step: MPI is told about it once
 * (MPI_Send_init, MPI_Recv_init) and then only started.
 *
 * A table of one place for each hash: what comes for the first time is noted
 * and goes as a plain message, so that messages that never come back cost
 * nothing; the second time a request is made for it. Another message with the
 * same hash takes the place over, unless its request is under way. A message
 * that is combined when it arrives is received into memory that stays with
 * its request, up to a limit for all of them. */
#include "comm_core.h"

enum { PLACES = 1024, MAX_ASIDE = 64 << 20 };

struct comm_kept {
    const char *at; /* NULL: into aside */
    int64_t bytes;
    int peer, tag;
    enum comm_channel channel;
    bool send, used, busy;
    bool made; /* request is one */
    MPI_Request request;
    char *aside;
};

struct comm_kept_table {
    int64_t aside; /* bytes */
    int64_t starts;
    struct comm_kept place[PLACES];
};

static struct comm_kept key_of(const struct comm_msg *m)
{
    bool aside = m->combine && !m->send;

    return (struct comm_kept){.at = aside ? NULL : m->data,
                              .bytes = m->bytes,
                              .peer = m->peer,
                              .tag = m->tag,
                              .channel = m->channel,
                              .send = m->send,
                              .used = true};
}

static bool same(const struct comm_kept *a, const struct comm_kept *b)
{
    return a->used && a->at == b->at && a->bytes == b->bytes &&
           a->peer == b->peer && a->tag == b->tag && a->channel == b->channel &&
           a->send == b->send;
}

static size_t hash_of(const struct comm_kept *k)
{
    uint64_t h = (uint64_t)(uintptr_t)k->at;

    h = (h ^ (uint64_t)k->bytes) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 29 ^ (uint64_t)(uint32_t)k->peer << 32 ^ (uint32_t)k->tag) *
        UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 32 ^ (uint64_t)k->channel << 1 ^ (uint64_t)k->send) *
        UINT64_C(0x94d049bb133111eb);
    return (size_t)(h >> 40) % PLACES;
}

static void empty(struct comm_kept_table *t, struct comm_kept *k)
{
    if (k->made)
        MPI_Request_free(&k->request);
    if (k->aside)
        t->aside -= k->bytes;
    free(k->aside);
    *k = (struct comm_kept){.used = false};
}

/* Makes the request of a message that came back. */
static int make(pdl_comm *c, struct comm_kept *k, int tag, bool *full)
{
    struct comm_kept_table *t = c->kept;
    MPI_Comm lane = c->lane[k->channel];
    char *at = (char *)(uintptr_t)k->at;
    int rc;

    if (!k->at && k->bytes > 0) {
        *full = t->aside + k->bytes > MAX_ASIDE;
        at = k->aside = *full ? NULL : malloc((size_t)k->bytes);
        *full = !at;
        if (*full)
            return MPI_SUCCESS;
        t->aside += k->bytes;
    }
    rc = k->send ? MPI_Send_init(at, (int)k->bytes, MPI_BYTE, k->peer, tag,
                                 lane, &k->request)
                 : MPI_Recv_init(at, (int)k->bytes, MPI_BYTE, k->peer, tag,
                                 lane, &k->request);
    k->made = rc == MPI_SUCCESS;
    return rc;
}

int comm_kept_start(pdl_comm *c, struct comm_msg *m, int tag)
{
    struct comm_kept key = key_of(m), *k;
    int rc = MPI_SUCCESS;
    bool full = false;

    if (!c->kept)
        c->kept = calloc(1, sizeof *c->kept);
    if (!c->kept)
        return MPI_SUCCESS;
    k = &c->kept->place[hash_of(&key)];
    if (k->busy)
        return MPI_SUCCESS;
    if (!same(k, &key)) {
        empty(c->kept, k);
        *k = key;
        return MPI_SUCCESS;
    }
    if (!k->made)
        rc = make(c, k, tag, &full);
    if (rc != MPI_SUCCESS || full)
        return rc;
    rc = MPI_Start(&k->request);
    if (rc != MPI_SUCCESS)
        return rc;
    c->kept->starts++;
    k->busy = true;
    m->kept = k;
    m->aside = k->aside;
    m->request = k->request;
    return MPI_SUCCESS;
}

void comm_kept_done(struct comm_msg *m)
{
    m->kept->busy = false;
    m->kept = NULL;
    m->aside = NULL;
}

int64_t comm_kept_starts(const pdl_comm *c)
{
    return c->kept ? c->kept->starts : 0;
}

void comm_kept_close(pdl_comm *c, bool finalized)
{
    for (int i = 0; c->kept && i < PLACES; i++) {
        struct comm_kept *k = &c->kept->place[i];

        /* one under way was cancelled and freed with its message */
        k->made = k->made && !k->busy && !finalized;
        empty(c->kept, k);
    }
    free(c->kept);
    c->kept = NULL;
}
