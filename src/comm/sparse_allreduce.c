/* SPDX-License-Identifier: Apache-2.0
 *
 * The sparse programs of coll.h on real vectors. A chunk of the program's
 * buffer is a stream; the steps say which go where, and whether what arrives
 * is added or replaces.
 *
 * Steps that do not wait for each other are one round: all their messages are
 * begun at once, and what arrives is added in the order of the steps, so that
 * the result does not depend on time. A message is sent in two: the lengths
 * of its streams (SparCML's header word), then each stream from where it
 * lies, so that nothing is packed.
 *
 * After every round a chunk is held whole by some rank and only copied from
 * there, never summed twice: all ranks end with the same bits. */
#include "comm_sparse.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Tags that nobody else should use. */
enum { TAG_LENGTHS = 32001, TAG_STREAMS = 32002 };

static enum pdl_status no_memory(struct pdl_err *err)
{
    return pdl_fail(err, PDL_ENOMEM, "no memory for a sparse allreduce");
}

/* ---- a round ---------------------------------------------------------- */

static enum pdl_status add_move(struct comm_moves *list, struct comm_move m,
                                struct pdl_err *err)
{
    if (list->n == list->cap) {
        int64_t cap = list->cap ? 2 * list->cap : 16;
        struct comm_move *p = realloc(list->at, (size_t)cap * sizeof *p);

        if (!p)
            return no_memory(err);
        list->at = p;
        list->cap = cap;
    }
    list->at[list->n++] = m;
    return PDL_OK;
}

/* Every chunk of a message, in the order both sides list them. */
static enum pdl_status add_spans(const pdl_comm_sparse *s,
                                 struct comm_moves *list, struct comm_move m,
                                 const struct pdl_span *spans, int n,
                                 struct pdl_err *err)
{
    int64_t chunks = s->job.buf[0].chunks;
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < spans[i].n; k++)
            for (int64_t r = 0; st == PDL_OK && r < spans[i].run; r++) {
                int64_t c = spans[i].first + k * spans[i].stride + r;

                m.chunk = (c % chunks + chunks) % chunks;
                st = add_move(list, m, err);
            }
    return st;
}

/* The dense result, where the program ends with one. */
static float *whole(const pdl_comm_sparse *s)
{
    return (float *)(void *)s->result.words;
}

/* The moves of step `at`; dense messages are made so now, where they belong. */
static enum pdl_status add_step(pdl_comm_sparse *s, int64_t at,
                                const struct pdl_step *step,
                                struct pdl_err *err)
{
    struct comm_move m = {.peer = step->send_to, .step = at, .act = step->act};
    int64_t first = s->out.n;
    enum pdl_status st = PDL_OK;

    if (step->send_to >= 0)
        st = add_spans(s, &s->out, m, step->send, step->nsend, err);
    for (int64_t i = first; st == PDL_OK && i < s->out.n; i++)
        if (step->send_terms == 0)
            comm_stream_place(&s->chunk[s->out.at[i].chunk], whole(s));
    m.peer = step->recv_from;
    if (st == PDL_OK && step->recv_from >= 0)
        st = add_spans(s, &s->in, m, step->recv, step->nrecv, err);
    return st;
}

/* Gathers the steps from `at` on up to the first that waits for one of them;
 * *end is that one. */
static enum pdl_status plan_round(pdl_comm_sparse *s, int64_t at, int64_t *end,
                                  struct pdl_err *err)
{
    int rank = pdl_comm_rank(s->comm);
    int64_t nsteps = pdl_coll_nsteps(&s->job, rank), i;
    enum pdl_status st = PDL_OK;

    s->out.n = s->in.n = 0;
    for (i = at; st == PDL_OK && i < nsteps; i++) {
        struct pdl_step step;
        bool waits = false;

        pdl_coll_step(&s->job, rank, i, &step);
        for (int k = 0; k < step.nafter; k++)
            waits = waits || step.after[k] >= at;
        if (waits)
            break;
        st = add_step(s, i, &step, err);
    }
    *end = i;
    return st;
}

/* Memory for the messages and arrivals of the round. */
static enum pdl_status round_room(pdl_comm_sparse *s, struct pdl_err *err)
{
    int64_t n = s->out.n + s->in.n;
    struct comm_stream *inbox;
    struct pdl_comm_message *message;
    uint32_t *lengths;

    if (n > s->nmessages) {
        message = realloc(s->message, (size_t)(n + 1) * sizeof *message);
        s->message = message ? message : s->message;
        lengths = realloc(s->lengths, (size_t)(n + 1) * sizeof *lengths);
        s->lengths = lengths ? lengths : s->lengths;
        if (!message || !lengths)
            return no_memory(err);
        s->nmessages = n;
    }
    if (s->in.n > s->ninbox) {
        inbox = realloc(s->inbox, (size_t)(s->in.n + 1) * sizeof *inbox);
        if (!inbox)
            return no_memory(err);
        s->inbox = inbox;
        for (; s->ninbox < s->in.n; s->ninbox++)
            s->inbox[s->ninbox] = (struct comm_stream){0};
    }
    return PDL_OK;
}

static enum pdl_status exchange(pdl_comm_sparse *s, int64_t nsends,
                                int64_t nrecvs, struct pdl_err *err)
{
    for (int64_t i = 0; i < nsends; i++)
        s->sent += s->message[i].bytes;
    return pdl_comm_start_exchange(s->comm, (int)nsends, s->message,
                                   (int)nrecvs, s->message + nsends, &s->flying,
                                   err);
}

/* The lengths of one message's streams are together. */
static int64_t length_messages(struct pdl_comm_message *to,
                               const struct comm_moves *list, uint32_t *lengths)
{
    int64_t n = 0;

    for (int64_t i = 0; i < list->n; i++) {
        if (i > 0 && list->at[i].step == list->at[i - 1].step)
            to[n - 1].bytes += (int64_t)sizeof *lengths;
        else
            to[n++] = (struct pdl_comm_message){list->at[i].peer, TAG_LENGTHS,
                                                lengths + i, sizeof *lengths};
    }
    return n;
}

static enum pdl_status exchange_lengths(pdl_comm_sparse *s, struct pdl_err *err)
{
    uint32_t *in = s->lengths + s->out.n;
    int64_t nsends, nrecvs;

    for (int64_t i = 0; i < s->out.n; i++)
        s->lengths[i] = (uint32_t)s->chunk[s->out.at[i].chunk].n;
    nsends = length_messages(s->message, &s->out, s->lengths);
    nrecvs = length_messages(s->message + nsends, &s->in, in);
    return exchange(s, nsends, nrecvs, err);
}

static int64_t add_stream(struct pdl_comm_message *to,
                          const struct comm_move *m,
                          const struct comm_stream *x)
{
    int64_t bytes = comm_stream_words(x->n, x->dim) * (int64_t)sizeof(uint32_t);

    if (bytes == 0)
        return 0;
    *to = (struct pdl_comm_message){m->peer, TAG_STREAMS, x->words, bytes};
    return 1;
}

static enum pdl_status exchange_streams(pdl_comm_sparse *s, struct pdl_err *err)
{
    int64_t nsends = 0, nrecvs = 0;
    enum pdl_status st = PDL_OK;

    for (int64_t i = 0; i < s->out.n; i++)
        nsends += add_stream(s->message + nsends, &s->out.at[i],
                             &s->chunk[s->out.at[i].chunk]);
    for (int64_t i = 0; st == PDL_OK && i < s->in.n; i++) {
        const struct comm_move *m = &s->in.at[i];
        struct comm_stream *x = &s->inbox[i];

        x->begin = s->chunk[m->chunk].begin;
        x->dim = s->chunk[m->chunk].dim;
        x->n = s->lengths[s->out.n + i];
        if (x->n > x->dim)
            return pdl_fail(err, PDL_EWRONG,
                            "rank %d sends %" PRId64 " of %" PRId64 " elements",
                            m->peer, x->n, x->dim);
        if (s->ends_dense && m->act == PDL_ACT_COPY && x->n == x->dim &&
            !s->chunk[m->chunk].lent)
            comm_stream_lend(x, whole(s));
        else
            st = comm_stream_room(x, x->n, err);
        nrecvs += add_stream(s->message + nsends + nrecvs, m, x);
    }
    return st == PDL_OK ? exchange(s, nsends, nrecvs, err) : st;
}

static enum pdl_status arrive(pdl_comm_sparse *s, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int64_t i = 0; st == PDL_OK && i < s->in.n; i++) {
        struct comm_stream *to = &s->chunk[s->in.at[i].chunk];
        struct comm_stream *from = &s->inbox[i], t = *to;

        if (s->in.at[i].act == PDL_ACT_REDUCE) {
            st = comm_stream_sum(to, from, &s->spare, err);
        } else {
            *to = *from;
            *from = t;
        }
    }
    return st;
}

static enum pdl_status begin_round(pdl_comm_sparse *s, struct pdl_err *err)
{
    enum pdl_status st = plan_round(s, s->at, &s->end, err);

    s->streams = false;
    if (st == PDL_OK)
        st = round_room(s, err);
    return st == PDL_OK ? exchange_lengths(s, err) : st;
}

/* What was under way has come: lengths are followed by streams. */
static enum pdl_status go_on(pdl_comm_sparse *s, struct pdl_err *err)
{
    enum pdl_status st;

    if (!s->streams) {
        s->streams = true;
        return exchange_streams(s, err);
    }
    st = arrive(s, err);
    s->at = s->end;
    return st;
}

/* As far as it goes, or (wait) to the end. */
static enum pdl_status advance(pdl_comm_sparse *s, bool wait, bool *done,
                               struct pdl_err *err)
{
    int64_t nsteps = pdl_coll_nsteps(&s->job, pdl_comm_rank(s->comm));
    enum pdl_status st = PDL_OK;

    *done = false;
    while (st == PDL_OK && (s->flying || s->at < nsteps)) {
        bool here = true;

        if (!s->flying) {
            st = begin_round(s, err);
            continue;
        }
        if (!wait)
            st = pdl_comm_test(s->flying, &here, err);
        if (st == PDL_OK && !here)
            return PDL_OK;
        if (st == PDL_OK) {
            pdl_comm_request *req = s->flying;

            s->flying = NULL;
            st = pdl_comm_wait(req, err);
        }
        if (st == PDL_OK)
            st = go_on(s, err);
    }
    *done = st == PDL_OK;
    return st;
}

/* ---- from and to whole vectors ---------------------------------------- */

/* Everything after it relies on this. */
static enum pdl_status check_input(const pdl_comm_sparse *s,
                                   const struct pdl_sparse *x,
                                   struct pdl_err *err)
{
    uint32_t wrong = 0;

    if (x->dim != s->job.count || x->n < 0 || x->n > x->dim ||
        (!x->index && x->n != x->dim && x->n > 0))
        return pdl_fail(err, PDL_EINVAL,
                        "a sparse vector of %" PRId64 " of %" PRId64
                        " elements where there are %" PRId64,
                        x->n, x->dim, s->job.count);
    if (!x->index || x->n == 0)
        return PDL_OK;
    for (int64_t i = 1; i < x->n; i++)
        wrong |= x->index[i] <= x->index[i - 1];
    if (wrong || x->index[x->n - 1] >= x->dim)
        return pdl_fail(err, PDL_EINVAL,
                        "the indices of a sparse vector do not ascend from 0 "
                        "to %" PRId64,
                        x->dim - 1);
    return PDL_OK;
}

static enum pdl_status split(pdl_comm_sparse *s, const struct pdl_sparse *in,
                             struct pdl_err *err)
{
    static const uint32_t none = 0;
    const struct pdl_coll_buf *buf = &s->job.buf[0];
    struct pdl_sparse x = *in;
    enum pdl_status st = PDL_OK;

    if (x.n == 0)
        x.index = &none;
    for (int64_t c = 0; st == PDL_OK && c < buf->chunks; c++) {
        s->chunk[c].begin = pdl_coll_chunk_begin(buf, c);
        s->chunk[c].dim = pdl_coll_chunk_begin(buf, c + 1) - s->chunk[c].begin;
        s->chunk[c].pairs = s->job.alg->pairs;
        st = comm_stream_cut(&s->chunk[c], &x, err);
    }
    return st;
}

static void join_pairs(pdl_comm_sparse *s)
{
    uint32_t *index = s->result.words;
    float *value = comm_stream_values(&s->result);

    for (int64_t c = 0; c < s->job.buf[0].chunks; c++) {
        const struct comm_stream *x = &s->chunk[c];

        if (x->n == 0)
            continue;
        for (int64_t i = 0; comm_stream_dense(x) && i < x->n; i++)
            index[i] = (uint32_t)(x->begin + i);
        if (!comm_stream_dense(x))
            memcpy(index, x->words, (size_t)x->n * sizeof *index);
        memcpy(value, comm_stream_values(x), (size_t)x->n * sizeof *value);
        index += x->n;
        value += x->n;
    }
}

static void join_dense(pdl_comm_sparse *s)
{
    float *to = comm_stream_values(&s->result);

    for (int64_t c = 0; c < s->job.buf[0].chunks; c++) {
        const struct comm_stream *x = &s->chunk[c];
        const float *value = comm_stream_values(x);

        if (comm_stream_dense(x)) {
            if (x->dim > 0 && value != to + x->begin)
                memcpy(to + x->begin, value, (size_t)x->dim * sizeof *to);
            continue;
        }
        memset(to + x->begin, 0, (size_t)x->dim * sizeof *to);
        for (int64_t i = 0; i < x->n; i++)
            to[x->words[i]] = value[i];
    }
}

static enum pdl_status join(pdl_comm_sparse *s, struct pdl_sparse *out,
                            struct pdl_err *err)
{
    int64_t n = 0, dim = s->job.count;
    enum pdl_status st;
    bool pairs;

    for (int64_t c = 0; c < s->job.buf[0].chunks; c++)
        n += s->chunk[c].n;
    pairs = !comm_stream_fills(n, dim);
    s->result.dim = dim;
    s->result.n = pairs ? n : dim;
    st = comm_stream_room(&s->result, s->result.n, err);
    if (st != PDL_OK)
        return st;
    if (pairs)
        join_pairs(s);
    else
        join_dense(s);
    *out = (struct pdl_sparse){dim, s->result.n, pairs ? s->result.words : NULL,
                               comm_stream_values(&s->result)};
    return PDL_OK;
}

enum pdl_status pdl_comm_sparse_start(pdl_comm_sparse *s,
                                      const struct pdl_sparse *in,
                                      struct pdl_err *err)
{
    enum pdl_status st = check_input(s, in, err);
    bool done;

    s->sent = s->at = 0;
    if (st == PDL_OK)
        st = split(s, in, err);
    if (st == PDL_OK && s->ends_dense) {
        s->result.dim = s->job.count;
        st = comm_stream_room(&s->result, s->job.count, err);
    }
    return st == PDL_OK ? advance(s, false, &done, err) : st;
}

enum pdl_status pdl_comm_sparse_test(pdl_comm_sparse *s, bool *done,
                                     struct pdl_err *err)
{
    return advance(s, false, done, err);
}

enum pdl_status pdl_comm_sparse_wait(pdl_comm_sparse *s, struct pdl_sparse *out,
                                     struct pdl_err *err)
{
    bool done;
    enum pdl_status st = advance(s, true, &done, err);

    return st == PDL_OK ? join(s, out, err) : st;
}

enum pdl_status pdl_comm_sparse_allreduce(pdl_comm_sparse *s,
                                          const struct pdl_sparse *in,
                                          struct pdl_sparse *out,
                                          struct pdl_err *err)
{
    enum pdl_status st = pdl_comm_sparse_start(s, in, err);

    return st == PDL_OK ? pdl_comm_sparse_wait(s, out, err) : st;
}
