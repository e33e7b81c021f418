/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages between ranks that share an area. A lane from one rank to another
 * has 8 entries, filled in turn by the sender. Short messages, and long ones
 * where there is no better way, go through the slots behind the entries;
 * otherwise the entry says where the bytes are and the receiver takes them
 * from there, reducing as it reads: no copy in between.
 *
 * The receiver may take entries in any order (tags differ). When the lane is
 * full of messages it has not asked for yet, it takes the oldest in, so that
 * those behind can come: what a rank must hold for its peers is bounded by
 * what they send it before it asks.
 *
 * All calls on one communicator come from one thread at a time. */
#include "comm_core.h"

#include <inttypes.h>

enum { FREE, FULL, TAKEN };

/* ---- lists ------------------------------------------------------------ */

void comm_list_init(struct comm_list *l)
{
    l->first = NULL;
    l->last = &l->first;
}

void comm_list_add(struct comm_list *l, struct comm_msg *m)
{
    m->next = NULL;
    *l->last = m;
    l->last = &m->next;
}

void comm_list_remove(struct comm_list *l, struct comm_msg **at)
{
    struct comm_msg *m = *at;

    *at = m->next;
    if (l->last == &m->next)
        l->last = at;
}

void comm_deliver(const struct comm_msg *m, int64_t offset, const void *from,
                  int64_t n)
{
    if (n == 0)
        return;
    if (m->combine)
        comm_reduce(m->data + offset, from,
                    n / comm_type_bytes(m->combine->type), m->combine->type,
                    m->combine->op);
    else
        memcpy(m->data + offset, from, (size_t)n);
}

/* ---- sending ---------------------------------------------------------- */

/* The next part of a message goes behind its entry. */
static void fill_slot(const pdl_comm *c, struct comm_entry *e,
                      struct comm_msg *m)
{
    int64_t n = m->bytes - m->moved;

    if (n > c->area->slot_bytes)
        n = c->area->slot_bytes;
    e->offset = m->moved;
    e->length = n;
    e->whole = 0;
    if (n > 0)
        memcpy(e + 1, m->data + m->moved, (size_t)n);
    m->moved += n;
}

/* Can the receiver take a long message from where it is? */
static bool by_address(const pdl_comm *c, const struct comm_msg *m,
                       struct comm_place *where)
{
    *where = (struct comm_place){0, (uintptr_t)m->data};
    if (m->bytes <= c->area->slot_bytes || c->reach == COMM_REACH_STAGED)
        return false;
    if (c->reach == COMM_REACH_WINDOW)
        *where = comm_place_of(c, m->data, m->bytes);
    return c->reach == COMM_REACH_POINTER || where->window || c->cma;
}

/* Fills entries of one lane while there are free ones. */
static void push(pdl_comm *c, enum comm_channel ch, int seat)
{
    struct comm_out *out = &c->out[ch][seat];
    struct comm_msg *m;

    while ((m = out->queue.first)) {
        struct comm_entry *e =
            comm_area_entry(c->area, ch, c->node_rank, seat, out->next);
        struct comm_place where;
        bool whole = by_address(c, m, &where);

        if (atomic_load_explicit(&e->state, memory_order_acquire) != FREE)
            return;
        e->tag = m->tag;
        e->total = m->bytes;
        if (whole) {
            e->whole = 1;
            e->address = where;
            e->offset = 0;
            e->length = m->bytes;
            m->entry = e;
        } else {
            fill_slot(c, e, m);
        }
        atomic_store_explicit(&e->state, FULL, memory_order_release);
        comm_ring(c, seat);
        c->moves++;
        out->next++;
        if (!whole && m->moved < m->bytes)
            continue;
        comm_list_remove(&out->queue, &out->queue.first);
        if (whole)
            comm_list_add(&c->posted, m);
        else
            m->done = true;
    }
}

/* Sends whose bytes have been read. */
static void collect(pdl_comm *c)
{
    struct comm_msg **at = &c->posted.first, *m;

    while ((m = *at)) {
        if (atomic_load_explicit(&m->entry->state, memory_order_acquire) !=
            TAKEN) {
            at = &m->next;
            continue;
        }
        atomic_store_explicit(&m->entry->state, FREE, memory_order_release);
        m->done = true;
        c->moves++;
        comm_list_remove(&c->posted, at);
    }
}

/* ---- receiving -------------------------------------------------------- */

static enum pdl_status sizes_differ(pdl_comm *c, int seat,
                                    const struct comm_entry *e, int64_t wanted,
                                    struct pdl_err *err)
{
    return comm_break(c, err,
                      "rank %d sends %" PRId64
                      " bytes where rank %d expects %" PRId64,
                      c->rank_of_seat[seat], e->total, c->rank, wanted);
}

/* Where this rank can read an entry's bytes; NULL: only through the kernel. */
static const char *bytes_of(const pdl_comm *c, const struct comm_entry *e)
{
    if (!e->whole)
        return (const char *)(e + 1);
    if (e->address.window)
        return comm_place_here(c, e->address);
    if (c->reach == COMM_REACH_POINTER)
        return (const char *)(uintptr_t)e->address.at;
    return NULL;
}

/* Hands an entry's bytes to a message, from wherever they are. */
static enum pdl_status fetch(pdl_comm *c, int seat, const struct comm_entry *e,
                             const struct comm_msg *m, struct pdl_err *err)
{
    const char *from = bytes_of(c, e);
    enum pdl_status st = PDL_OK;
    char *block;

    if (from) {
        comm_deliver(m, e->offset, from, e->length);
        return PDL_OK;
    }
    if (!m->combine)
        return comm_cma_read(c, seat, m->data, e->address.at, e->length, err);
    block = comm_scratch(c);
    if (!block)
        return comm_break(c, err, "no memory for a message");
    for (int64_t at = 0; st == PDL_OK && at < e->length; at += COMM_SCRATCH) {
        int64_t n = e->length - at;

        if (n > COMM_SCRATCH)
            n = COMM_SCRATCH;
        st =
            comm_cma_read(c, seat, block, e->address.at + (uint64_t)at, n, err);
        if (st == PDL_OK)
            comm_deliver(m, at, block, n);
    }
    return st;
}

static void release(struct comm_entry *e)
{
    atomic_store_explicit(&e->state, e->whole ? TAKEN : FREE,
                          memory_order_release);
}

static struct comm_msg **find_wanted(struct comm_in *in, int tag)
{
    struct comm_msg **at = &in->wanted.first;

    while (*at && (*at)->tag != tag)
        at = &(*at)->next;
    return at;
}

static struct comm_early **find_early(struct comm_in *in, int tag)
{
    struct comm_early **at = &in->early;

    while (*at && (*at)->tag != tag)
        at = &(*at)->next;
    return at;
}

/* The last one of a tag: the one that may still lack parts. */
static struct comm_early *unfinished_early(struct comm_in *in, int tag)
{
    struct comm_early *found = NULL;

    for (struct comm_early *e = in->early; e; e = e->next)
        if (e->tag == tag)
            found = e;
    return found && found->have < found->total ? found : NULL;
}

static enum pdl_status add_part(pdl_comm *c, int seat, struct comm_early *to,
                                const struct comm_entry *e, struct pdl_err *err)
{
    struct comm_msg as = {.data = to->data, .bytes = to->total};

    to->have += e->length;
    return fetch(c, seat, e, &as, err);
}

/* Takes in an entry nobody asked for. */
static enum pdl_status keep_early(pdl_comm *c, struct comm_in *in, int seat,
                                  const struct comm_entry *e,
                                  struct pdl_err *err)
{
    struct comm_early *x = unfinished_early(in, e->tag), **end = &in->early;

    if (!x) {
        x = calloc(1, sizeof *x);
        if (x)
            x->data = malloc((size_t)e->total + 1);
        if (!x || !x->data) {
            free(x);
            return comm_break(c, err,
                              "no memory for a message of %" PRId64 " bytes",
                              e->total);
        }
        x->tag = e->tag;
        x->total = e->total;
        while (*end)
            end = &(*end)->next;
        *end = x;
    }
    return add_part(c, seat, x, e, err);
}

static void drop_early(struct comm_early **at)
{
    struct comm_early *x = *at;

    *at = x->next;
    free(x->data);
    free(x);
}

/* One entry: to whoever wants it. *taken: it is out of the lane. */
static enum pdl_status take(pdl_comm *c, struct comm_in *in, int seat,
                            struct comm_entry *e, bool force, bool *taken,
                            struct pdl_err *err)
{
    struct comm_msg **at = find_wanted(in, e->tag), *m = *at;
    enum pdl_status st = PDL_OK;

    *taken = false;
    if (unfinished_early(in, e->tag) || (!m && force)) {
        st = keep_early(c, in, seat, e, err);
    } else if (!m) {
        return PDL_OK;
    } else if (e->total != m->bytes) {
        return sizes_differ(c, seat, e, m->bytes, err);
    } else {
        st = fetch(c, seat, e, m, err);
        if (st != PDL_OK)
            return st;
        m->moved += e->length;
        if (m->moved == m->bytes) {
            comm_list_remove(&in->wanted, at);
            m->done = true;
        }
    }
    if (st == PDL_OK) {
        release(e);
        comm_ring(c, seat);
        c->moves++;
        *taken = true;
    }
    return st;
}

/* Looks at a lane's entries in turn; false in *any: nothing was taken. */
static enum pdl_status look(pdl_comm *c, enum comm_channel ch, int seat,
                            bool force, bool *any, struct pdl_err *err)
{
    struct comm_in *in = &c->in[ch][seat];
    enum pdl_status st = PDL_OK;
    bool taken = false;

    *any = false;
    for (uint32_t i = 0; st == PDL_OK && i < COMM_ENTRIES; i++) {
        struct comm_entry *e =
            comm_area_entry(c->area, ch, seat, c->node_rank, in->tail + i);

        if (in->taken >> i & 1)
            continue;
        if (atomic_load_explicit(&e->state, memory_order_acquire) != FULL)
            break;
        st = take(c, in, seat, e, force && !*any, &taken, err);
        if (!taken)
            continue;
        *any = true;
        in->taken |= 1u << i;
    }
    while (in->taken & 1) {
        in->taken >>= 1;
        in->tail++;
    }
    return st;
}

static bool lane_full(const pdl_comm *c, enum comm_channel ch, int seat)
{
    const struct comm_in *in = &c->in[ch][seat];
    struct comm_entry *e = comm_area_entry(c->area, ch, seat, c->node_rank,
                                           in->tail + COMM_ENTRIES - 1);

    return in->taken >> (COMM_ENTRIES - 1) & 1 ||
           atomic_load_explicit(&e->state, memory_order_acquire) == FULL;
}

/* Messages taken in early go to those that want them now. */
static enum pdl_status hand_over(pdl_comm *c, struct comm_in *in, int seat,
                                 struct pdl_err *err)
{
    struct comm_msg **at = &in->wanted.first, *m;

    while (in->early && (m = *at)) {
        struct comm_early **x = find_early(in, m->tag);
        struct comm_entry as = {.total = *x ? (*x)->total : m->bytes};

        if (as.total != m->bytes)
            return sizes_differ(c, seat, &as, m->bytes, err);
        if (!*x || (*x)->have < (*x)->total) {
            at = &m->next;
            continue;
        }
        comm_deliver(m, 0, (*x)->data, m->bytes);
        m->done = true;
        comm_list_remove(&in->wanted, at);
        drop_early(x);
    }
    return PDL_OK;
}

static enum pdl_status pull(pdl_comm *c, enum comm_channel ch, int seat,
                            struct pdl_err *err)
{
    struct comm_in *in = &c->in[ch][seat];
    enum pdl_status st = hand_over(c, in, seat, err);
    bool any = true;

    while (st == PDL_OK && any && in->wanted.first) {
        st = look(c, ch, seat, false, &any, err);
        if (st == PDL_OK && !any && lane_full(c, ch, seat))
            st = look(c, ch, seat, true, &any, err);
        if (st == PDL_OK)
            st = hand_over(c, in, seat, err);
    }
    return st;
}

/* ---- public to the room ----------------------------------------------- */

enum pdl_status comm_mail_post(pdl_comm *c, struct comm_msg *m,
                               struct pdl_err *err)
{
    int seat = c->seat_of_rank[m->peer];

    if (m->send) {
        comm_list_add(&c->out[m->channel][seat].queue, m);
        push(c, m->channel, seat);
        return PDL_OK;
    }
    comm_list_add(&c->in[m->channel][seat].wanted, m);
    return pull(c, m->channel, seat, err);
}

enum pdl_status comm_mail_progress(pdl_comm *c, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    if (c->posted.first)
        collect(c);
    for (int ch = 0; ch < COMM_NCHANNELS; ch++)
        for (int i = 0; st == PDL_OK && i < c->node_size; i++) {
            if (c->out[ch][i].queue.first)
                push(c, (enum comm_channel)ch, i);
            if (c->in[ch][i].wanted.first)
                st = pull(c, (enum comm_channel)ch, i, err);
        }
    return st;
}

void comm_mail_close(pdl_comm *c)
{
    for (int ch = 0; ch < COMM_NCHANNELS; ch++) {
        for (int i = 0; c->in[ch] && i < c->node_size; i++)
            while (c->in[ch][i].early)
                drop_early(&c->in[ch][i].early);
        free(c->in[ch]);
        free(c->out[ch]);
    }
    free(c->seat_of_rank);
    free(c->rank_of_seat);
}
