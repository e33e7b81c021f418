/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffer hazards of one rank: two steps that touch the same chunk, one of
 * them writing, must be ordered by what they wait for; else the message of
 * one may hold half of the other. Only two reads, or two additions, may
 * happen in any order. Inside one step the send comes first (coll.h).
 *
 * Steps are taken by number. Of each chunk the last accesses are kept that a
 * later one could still conflict with: an access falls away when a later one
 * of the same kind, or a write, is known to come after it. Whether i comes
 * before j is looked up in prefix[j] (all steps below it come before j) and,
 * when that is not enough, searched backwards. */
#include "coll_priv.h"

#include <inttypes.h>

enum kind { READ, ADD, WRITE };

struct access {
    int64_t s;
    enum kind kind;
    struct access *next;
};

struct hazards {
    const struct pdl_coll_job *job;
    int rank;
    pdl_arena *arena;
    struct access **last; /* of each chunk */
    struct access *spare;
    int64_t *prefix, *stack;
    int64_t (*after)[PDL_STEP_AFTER]; /* what each step waits for, */
    uint8_t *nafter;                  /* kept: searches ask again */
    int32_t *seen; /* stamp of the search that visited a step */
    int32_t search;
    int64_t *taken; /* of each chunk: the last step that received it */
};

static bool before(struct hazards *h, int64_t i, int64_t j)
{
    int64_t top = 0;

    if (i < h->prefix[j])
        return true;
    h->search++;
    h->stack[top++] = j;
    while (top > 0) {
        int64_t s = h->stack[--top];

        for (int k = 0; k < h->nafter[s]; k++) {
            int64_t a = h->after[s][k];

            if (a == i || i < h->prefix[a])
                return true;
            if (a > i && h->seen[a] != h->search) {
                h->seen[a] = h->search;
                h->stack[top++] = a;
            }
        }
    }
    return false;
}

/* Keeps what step s waits for, and how far back all steps come before it. */
static void keep_waits(struct hazards *h, int64_t s,
                       const struct pdl_step *step)
{
    int64_t all = 0;
    bool more = true;

    h->nafter[s] = (uint8_t)step->nafter;
    for (int i = 0; i < step->nafter; i++) {
        h->after[s][i] = step->after[i];
        if (h->prefix[step->after[i]] > all)
            all = h->prefix[step->after[i]];
    }
    while (more) {
        more = false;
        for (int i = 0; i < step->nafter; i++)
            if (step->after[i] == all) {
                all++;
                more = true;
            }
    }
    h->prefix[s] = all;
}

static bool conflict(enum kind a, enum kind b)
{
    return !(a == b && a != WRITE);
}

static enum pdl_status touch(struct hazards *h, int64_t s, enum kind kind,
                             int buf, int64_t c, struct pdl_err *err)
{
    struct access **at = &h->last[coll_cells(h->job, buf) + c], *a;

    while ((a = *at) != NULL) {
        bool clash = a->s != s && conflict(a->kind, kind);
        bool covers = a->s != s && (kind == WRITE || kind == a->kind);
        bool ordered = (clash || covers) && before(h, a->s, s);

        if (clash && !ordered)
            return pdl_fail(err, PDL_EWRONG,
                            "rank %d: steps %" PRId64 " and %" PRId64
                            " touch chunk %" PRId64 " of buffer %d in no order",
                            h->rank, a->s, s, c, buf);
        if (covers && ordered) {
            *at = a->next;
            a->next = h->spare;
            h->spare = a;
        } else {
            at = &a->next;
        }
    }
    a = h->spare ? h->spare : PDL_NEW(h->arena, struct access, 1);
    if (!a)
        return pdl_fail(err, PDL_ENOMEM, "no memory for the hazard check");
    if (a == h->spare)
        h->spare = a->next;
    *a = (struct access){s, kind, NULL};
    *at = a;
    return PDL_OK;
}

static enum pdl_status touch_step(struct hazards *h, int64_t s,
                                  const struct pdl_step *step,
                                  struct pdl_err *err)
{
    enum kind kind = step->act == PDL_ACT_REDUCE ? ADD : WRITE;
    struct coll_cursor at = {0, 0, 0};
    enum pdl_status st = PDL_OK;
    int64_t c;
    int buf;

    while (st == PDL_OK && step->send_to >= 0 &&
           coll_next(h->job, step->send, step->nsend, &at, &buf, &c))
        st = touch(h, s, READ, buf, c, err);
    at = (struct coll_cursor){0, 0, 0};
    while (st == PDL_OK && step->recv_from >= 0 &&
           coll_next(h->job, step->recv, step->nrecv, &at, &buf, &c)) {
        int64_t *taken = &h->taken[coll_cells(h->job, buf) + c];

        if (*taken == s + 1)
            return pdl_fail(err, PDL_EWRONG,
                            "rank %d step %" PRId64 ": receives chunk %" PRId64
                            " of buffer %d twice",
                            h->rank, s, c, buf);
        *taken = s + 1;
        st = touch(h, s, kind, buf, c, err);
    }
    return st;
}

enum pdl_status coll_check_hazards(const struct pdl_coll_job *job, int rank,
                                   pdl_arena *a, struct pdl_err *err)
{
    int64_t n = pdl_coll_nsteps(job, rank), cells = coll_cells(job, job->nbufs);
    struct hazards h = {.job = job, .rank = rank, .arena = a};
    enum pdl_status st = PDL_OK;
    struct pdl_step step;

    h.last = PDL_NEW(a, struct access *, cells);
    h.taken = PDL_NEW(a, int64_t, cells);
    h.prefix = PDL_NEW(a, int64_t, n + 1);
    h.stack = PDL_NEW(a, int64_t, n + 1);
    h.seen = PDL_NEW(a, int32_t, n + 1);
    h.nafter = PDL_NEW(a, uint8_t, n + 1);
    h.after = pdl_arena_alloc(a, (size_t)n + 1, sizeof *h.after);
    if (!h.last || !h.taken || !h.prefix || !h.stack || !h.seen || !h.nafter ||
        !h.after)
        return pdl_fail(err, PDL_ENOMEM, "no memory for the hazard check");
    for (int64_t s = 0; st == PDL_OK && s < n; s++) {
        pdl_coll_step(job, rank, s, &step);
        st = coll_check_step(job, rank, s, &step, err);
        if (st != PDL_OK)
            return st;
        keep_waits(&h, s, &step);
        st = touch_step(&h, s, &step, err);
    }
    return st;
}
