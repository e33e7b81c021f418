/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the programs of all ranks in one process, without knowing what a
 * message does: the verifier moves sets, the executor numbers.
 *
 * A step begins when the steps it waits for are complete. A message moves
 * when both its steps have begun: sends are synchronous, the strictest
 * reading, so that a program that passes needs no buffering anywhere. The
 * k-th send from a to b in a's step numbers meets the k-th receive from a in
 * b's. What can happen next is kept in a bag; first come, or drawn.
 *
 * Cost: every step is made three times; 9 bytes a step, 8 more for every wait
 * in programs that are not simple chains. */
#include "coll_priv.h"

#include <inttypes.h>

enum {
    MAX_STEPS = 1 << 27, /* of all ranks together */
    WAITING = 7,         /* low bits: steps still waited for */
    BEGUN = 8,
    SENT = 16,
    RECEIVED = 32,
    SAVED = 64,
    DONE = BEGUN | SENT | RECEIVED,
};

/* What can happen next: step s of a rank begins, or its message moves. */
struct event {
    int rank;
    bool move;
    int64_t s;
};

struct engine {
    struct coll_run *run;
    const struct pdl_coll_job *job;
    pdl_arena *arena;
    struct pdl_err *err;
    int64_t *base;     /* first step of each rank; base[nranks] = all */
    uint8_t *state;    /* of every step */
    int32_t *takes;    /* of every step that sends: the receiving step */
    int32_t *gives;    /* of every step that receives: the sending step */
    bool *chain;       /* of every rank: each step waits for the one before */
    int64_t **waiters; /* of other ranks: where each step's waiters begin */
    int32_t **waiter;
    int *open;      /* sends begun and not moved */
    uint32_t *mark; /* of every chunk of a rank */
    uint32_t stamp;
    struct event *bag;
    int64_t head, count, cap;
    struct pdl_rng rng;
    int64_t done;
};

/* ---- making the engine -------------------------------------------------- */

static enum pdl_status no_memory(struct pdl_err *err)
{
    return pdl_fail(err, PDL_ENOMEM, "the job is too large to run here");
}

static enum pdl_status count_steps(struct engine *e)
{
    int p = e->job->nranks;

    e->base = PDL_NEW(e->arena, int64_t, p + 1);
    e->chain = PDL_NEW(e->arena, bool, p);
    e->open = PDL_NEW(e->arena, int, p);
    e->waiters = PDL_NEW(e->arena, int64_t *, p);
    e->waiter = PDL_NEW(e->arena, int32_t *, p);
    e->mark = PDL_NEW(e->arena, uint32_t, coll_cells(e->job, e->job->nbufs));
    if (!e->base || !e->chain || !e->open || !e->waiters || !e->waiter ||
        !e->mark)
        return no_memory(e->err);
    for (int r = 0; r < p; r++) {
        int64_t n = pdl_coll_nsteps(e->job, r);

        if (n < 0 || n > MAX_STEPS - e->base[r])
            return pdl_fail(e->err, PDL_EINVAL,
                            "more than %d steps: too many to run here",
                            MAX_STEPS);
        e->base[r + 1] = e->base[r] + n;
        if (n > e->run->steps)
            e->run->steps = n;
    }
    e->state = PDL_NEW(e->arena, uint8_t, e->base[p] + 1);
    e->takes = PDL_NEW(e->arena, int32_t, e->base[p] + 1);
    e->gives = PDL_NEW(e->arena, int32_t, e->base[p] + 1);
    if (!e->state || !e->takes || !e->gives)
        return no_memory(e->err);
    return PDL_OK;
}

/* Checks a rank's steps and counts its messages to each rank. */
static enum pdl_status scan_rank(struct engine *e, int r, int64_t *incoming)
{
    int64_t n = e->base[r + 1] - e->base[r], bytes = 0;
    bool chain = true;
    struct pdl_step step;

    for (int64_t s = 0; s < n; s++) {
        enum pdl_status st;
        uint8_t *state = &e->state[e->base[r] + s];

        pdl_coll_step(e->job, r, s, &step);
        st = coll_check_step(e->job, r, s, &step, e->err);
        if (st != PDL_OK)
            return st;
        if (step.nafter != (s > 0) || (s > 0 && step.after[0] != s - 1))
            chain = false;
        *state = (uint8_t)((step.send_to < 0 ? SENT : 0) |
                           (step.recv_from < 0 ? RECEIVED : 0) | step.nafter);
        if (step.send_to < 0 || step.send_to == r)
            continue;
        incoming[step.send_to]++;
        if (!pdl_add64(bytes, pdl_coll_send_bytes(e->job, &step), &bytes))
            bytes = INT64_MAX;
        e->run->messages++;
    }
    e->chain[r] = chain;
    if (bytes > e->run->rank_bytes)
        e->run->rank_bytes = bytes;
    return PDL_OK;
}

/* For a rank that is not a chain: which steps wait for each. */
static enum pdl_status list_waiters(struct engine *e, int r)
{
    int64_t n = e->base[r + 1] - e->base[r], total = 0;
    int64_t *begin = PDL_NEW(e->arena, int64_t, n + 2);
    struct pdl_step step;

    if (!begin)
        return no_memory(e->err);
    for (int64_t s = 0; s < n; s++) {
        pdl_coll_step(e->job, r, s, &step);
        for (int i = 0; i < step.nafter; i++, total++)
            begin[step.after[i] + 2]++;
    }
    for (int64_t s = 2; s < n + 2; s++)
        begin[s] += begin[s - 1];
    e->waiters[r] = begin;
    e->waiter[r] = PDL_NEW(e->arena, int32_t, total + 1);
    if (!e->waiter[r])
        return no_memory(e->err);
    for (int64_t s = 0; s < n; s++) {
        pdl_coll_step(e->job, r, s, &step);
        for (int i = 0; i < step.nafter; i++)
            e->waiter[r][begin[step.after[i] + 1]++] = (int32_t)s;
    }
    return PDL_OK;
}

/* ---- which send meets which receive -------------------------------------- */

struct arrival {
    int from;
    int32_t s;
};

/* All messages in the order (to, from, step); begin[to] is where a rank's
 * start. */
static enum pdl_status list_arrivals(struct engine *e, int64_t *begin,
                                     struct arrival **out)
{
    int p = e->job->nranks;
    int64_t total = 0;
    struct pdl_step step;

    for (int r = 0; r < p; r++) {
        int64_t n = begin[r];

        begin[r] = total;
        total += n;
    }
    begin[p] = total;
    *out = PDL_NEW(e->arena, struct arrival, total + 1);
    if (!*out)
        return no_memory(e->err);
    for (int r = 0; r < p; r++)
        for (int64_t s = 0; s < e->base[r + 1] - e->base[r]; s++) {
            pdl_coll_step(e->job, r, s, &step);
            if (step.send_to >= 0 && step.send_to != r)
                (*out)[begin[step.send_to]++] = (struct arrival){r, (int32_t)s};
        }
    for (int r = p; r > 0; r--)
        begin[r] = begin[r - 1];
    begin[0] = 0;
    return PDL_OK;
}

/* Gives each receive of rank r the next unmatched send of its peer. next[f]
 * counts on through the arrivals from f. */
static enum pdl_status match_rank(struct engine *e, int r,
                                  const struct arrival *in, int64_t n,
                                  int64_t *next)
{
    struct pdl_step step;
    int64_t matched = 0;

    for (int64_t i = n - 1; i >= 0; i--)
        next[in[i].from] = i;
    for (int64_t s = 0; s < e->base[r + 1] - e->base[r]; s++) {
        int64_t i;

        pdl_coll_step(e->job, r, s, &step);
        if (step.recv_from == r) {
            e->takes[e->base[r] + s] = e->gives[e->base[r] + s] = (int32_t)s;
            continue;
        }
        if (step.recv_from < 0)
            continue;
        i = next[step.recv_from]++;
        if (i < 0 || i >= n || in[i].from != step.recv_from)
            return pdl_fail(e->err, PDL_EWRONG,
                            "rank %d step %" PRId64
                            ": waits for a message that rank %d never sends",
                            r, s, step.recv_from);
        e->gives[e->base[r] + s] = in[i].s;
        e->takes[e->base[in[i].from] + in[i].s] = (int32_t)s;
        matched++;
    }
    for (int64_t i = 0; i < n; i++)
        if (matched < n && next[in[i].from] <= i)
            return pdl_fail(e->err, PDL_EWRONG,
                            "rank %d step %d: rank %d never receives this",
                            in[i].from, in[i].s, r);
    for (int64_t i = 0; i < n; i++)
        next[in[i].from] = -1;
    return PDL_OK;
}

static enum pdl_status match(struct engine *e, int64_t *incoming)
{
    int p = e->job->nranks;
    int64_t *next = PDL_NEW(e->arena, int64_t, p);
    struct arrival *in;
    enum pdl_status st = list_arrivals(e, incoming, &in);

    if (st == PDL_OK && !next)
        st = no_memory(e->err);
    for (int r = 0; st == PDL_OK && r < p; r++)
        next[r] = -1;
    for (int r = 0; st == PDL_OK && r < p; r++)
        st = match_rank(e, r, in + incoming[r], incoming[r + 1] - incoming[r],
                        next);
    return st;
}

/* ---- events -------------------------------------------------------------- */

static enum pdl_status put(struct engine *e, int rank, int64_t s, bool move)
{
    if (e->count == e->cap) {
        int64_t cap = e->cap ? 2 * e->cap : 1024;
        struct event *bag = PDL_NEW(e->arena, struct event, cap);

        if (!bag)
            return no_memory(e->err);
        for (int64_t i = 0; i < e->count; i++)
            bag[i] = e->bag[(e->head + i) % e->cap];
        e->bag = bag;
        e->head = 0;
        e->cap = cap;
    }
    e->bag[(e->head + e->count++) % e->cap] =
        (struct event){.rank = rank, .move = move, .s = s};
    return PDL_OK;
}

static struct event take(struct engine *e)
{
    struct event got;

    if (e->run->shuffle) {
        int64_t i = (int64_t)pdl_rng_below(&e->rng, (uint64_t)e->count);
        struct event *at = &e->bag[(e->head + i) % e->cap];

        got = *at;
        *at = e->bag[e->head];
    } else {
        got = e->bag[e->head];
    }
    e->head = (e->head + 1) % e->cap;
    e->count--;
    return got;
}

static enum pdl_status complete(struct engine *e, int r, int64_t s)
{
    enum pdl_status st = PDL_OK;

    e->done++;
    if (e->chain[r]) {
        if (s + 1 < e->base[r + 1] - e->base[r])
            st = put(e, r, s + 1, false);
        return st;
    }
    for (int64_t i = e->waiters[r][s]; i < e->waiters[r][s + 1]; i++) {
        uint8_t *state = &e->state[e->base[r] + e->waiter[r][i]];

        --*state;
        if ((*state & WAITING) == 0 && st == PDL_OK)
            st = put(e, r, e->waiter[r][i], false);
    }
    return st;
}

/* Does the step receive into a chunk that it sends? */
static bool overlaps(struct engine *e, const struct pdl_step *step)
{
    struct coll_cursor at = {0, 0, 0};
    int buf;
    int64_t c;

    if (step->send_to < 0 || step->recv_from < 0)
        return false;
    e->stamp++;
    while (coll_next(e->job, step->send, step->nsend, &at, &buf, &c))
        e->mark[coll_cells(e->job, buf) + c] = e->stamp;
    at = (struct coll_cursor){0, 0, 0};
    while (coll_next(e->job, step->recv, step->nrecv, &at, &buf, &c))
        if (e->mark[coll_cells(e->job, buf) + c] == e->stamp)
            return true;
    return false;
}

static enum pdl_status begin(struct engine *e, int r, int64_t s)
{
    uint8_t *state = &e->state[e->base[r] + s];
    enum pdl_status st = PDL_OK;
    struct pdl_step step;

    pdl_coll_step(e->job, r, s, &step);
    *state |= BEGUN;
    if (e->run->begin)
        e->run->begin(e->run->ctx, r, s, &step);
    if (step.send_to < 0 && step.recv_from < 0)
        return complete(e, r, s);
    if (e->run->save && overlaps(e, &step)) {
        *state |= SAVED;
        st = e->run->save(e->run->ctx, r, s, &step, e->err);
    }
    if (st == PDL_OK && step.send_to == r)
        return put(e, r, s, true);
    if (st == PDL_OK && step.send_to >= 0) {
        int64_t mate = e->base[step.send_to] + e->takes[e->base[r] + s];

        if (++e->open[r] > e->run->ports)
            e->run->ports = e->open[r];
        if (e->state[mate] & BEGUN)
            st = put(e, r, s, true);
    }
    if (st == PDL_OK && step.recv_from >= 0) {
        int64_t give = e->gives[e->base[r] + s];

        if (e->state[e->base[step.recv_from] + give] & BEGUN)
            st = put(e, step.recv_from, give, true);
    }
    return st;
}

static enum pdl_status move(struct engine *e, int r, int64_t s)
{
    struct pdl_step send, recv;
    struct coll_message m = {.from = r, .send_step = s};
    uint8_t *from = &e->state[e->base[r] + s], *to;
    enum pdl_status st;

    pdl_coll_step(e->job, r, s, &send);
    m.to = send.send_to;
    m.recv_step = e->takes[e->base[r] + s];
    to = &e->state[e->base[m.to] + m.recv_step];
    pdl_coll_step(e->job, m.to, m.recv_step, &recv);
    m.send = &send;
    m.recv = &recv;
    m.saved = (*from & SAVED) != 0;
    st = e->run->transfer(e->run->ctx, &m, e->err);
    if (m.to != r)
        e->open[r]--;
    *from |= SENT;
    *to |= RECEIVED;
    if (st == PDL_OK && (*from & DONE) == DONE)
        st = complete(e, r, s);
    if (st == PDL_OK && to != from && (*to & DONE) == DONE)
        st = complete(e, m.to, m.recv_step);
    return st;
}

/* Names the first step that did not finish. */
static enum pdl_status stuck(const struct engine *e)
{
    struct pdl_step step;

    for (int r = 0; r < e->job->nranks; r++)
        for (int64_t s = 0; s < e->base[r + 1] - e->base[r]; s++) {
            uint8_t state = e->state[e->base[r] + s];

            if ((state & DONE) == DONE || !(state & BEGUN))
                continue;
            pdl_coll_step(e->job, r, s, &step);
            return pdl_fail(e->err, PDL_EWRONG,
                            "deadlock: rank %d step %" PRId64
                            " waits for rank %d for ever",
                            r, s, state & SENT ? step.recv_from : step.send_to);
        }
    return pdl_fail(e->err, PDL_EWRONG, "deadlock");
}

static enum pdl_status go(struct engine *e)
{
    enum pdl_status st = PDL_OK;
    int p = e->job->nranks;

    for (int r = 0; st == PDL_OK && r < p; r++)
        for (int64_t s = 0; s < e->base[r + 1] - e->base[r]; s++) {
            if ((e->state[e->base[r] + s] & WAITING) == 0 && st == PDL_OK)
                st = put(e, r, s, false);
            if (e->chain[r])
                break;
        }
    while (st == PDL_OK && e->count > 0) {
        struct event next = take(e);

        st = next.move ? move(e, next.rank, next.s)
                       : begin(e, next.rank, next.s);
    }
    if (st == PDL_OK && e->done < e->base[p])
        st = stuck(e);
    return st;
}

enum pdl_status coll_walk(struct coll_run *run, pdl_arena *a,
                          struct pdl_err *err)
{
    struct engine e = {.run = run,
                       .job = run->job,
                       .arena = a,
                       .err = err,
                       .rng = {.key = run->seed}};
    int p = run->job->nranks;
    int64_t *incoming = PDL_NEW(a, int64_t, p + 1);
    enum pdl_status st = incoming ? count_steps(&e) : no_memory(err);

    for (int r = 0; st == PDL_OK && r < p; r++) {
        st = scan_rank(&e, r, incoming);
        if (st == PDL_OK && !e.chain[r])
            st = list_waiters(&e, r);
    }
    if (st == PDL_OK)
        st = match(&e, incoming);
    if (st == PDL_OK)
        st = go(&e);
    return st;
}
