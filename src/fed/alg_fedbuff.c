/* SPDX-License-Identifier: Apache-2.0
 *
 * FedBuff (Nguyen et al., AISTATS 2022), asynchronous: as many clients as a
 * synchronous round has are always under way, each from the model of when it
 * began; who is done is replaced at once. When `buffer` changes have come back
 * the server adds their mean, each divided by sqrt(1 + staleness), and that is
 * a round. Who comes back when follows from the devices' speeds alone, so the
 * plan knows it; a client is trained when it begins, and what it changed waits
 * on a shelf until it would have come back. Who drops out or is too late fills
 * no place in the buffer: another client begins in its stead. */
#include "fed/fed_priv.h"

#include <math.h>
#include <stdlib.h>

enum { BUFFER, ETA };
enum { MOST_LOST = 64 }; /* clients tried for one that comes back */

struct under_way {
    int64_t client, version, slot;
    double end_s;
    bool free, lost;
};
struct buff {
    struct under_way *at; /* `wide` of them */
    int64_t wide, buffer, slots, begun;
    int64_t most; /* tasks of a round: where nearly all are lost, it ends */
    double now_s;
    bool *used;      /* by slot */
    int64_t *arrive; /* slots that come back in this round, in order, */
    int64_t *stale;  /* and how many rounds after they began */
    int64_t narrive;
    int64_t *slot; /* of each task of the round */
};

static enum pdl_status begin(struct fed *f, struct pdl_err *err)
{
    struct buff *b = PDL_NEW(f->arena, struct buff, 1);
    int64_t wide = f->job->select > 0 ? f->job->select : f->able;
    int64_t buffer = (int64_t)fed_value(f, BUFFER);

    if (!b)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *b = (struct buff){.wide = wide < f->able ? wide : f->able};
    b->buffer = buffer < b->wide ? buffer : b->wide;
    b->slots = b->wide + b->buffer;
    b->most = MOST_LOST * b->slots;
    b->at = PDL_NEW(f->arena, struct under_way, b->wide);
    b->used = PDL_NEW(f->arena, bool, b->slots);
    b->arrive = PDL_NEW(f->arena, int64_t, b->buffer);
    b->stale = PDL_NEW(f->arena, int64_t, b->buffer);
    b->slot = PDL_NEW(f->arena, int64_t, b->most);
    if (!b->at || !b->used || !b->arrive || !b->stale || !b->slot)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < b->wide; i++)
        b->at[i].free = true;
    f->own = b;
    return fed_shelf_open(f, 0, "change", b->slots, err);
}

static bool is_busy(const struct buff *b, int64_t client)
{
    for (int64_t i = 0; i < b->wide; i++)
        if (!b->at[i].free && b->at[i].client == client)
            return true;
    return false;
}

/* One that has samples, is not away and not under way; -1: of so many that were
 * drawn nobody is. */
static int64_t next_client(const struct fed *f, struct buff *b)
{
    enum { DRAWS = 100000 };
    int64_t n = f->job->partition.clients;

    for (int i = 0; i < DRAWS; i++) {
        double u = fed_unit(f, FED_DRAW_START, 0, b->begun++);
        int64_t c = (int64_t)(u * (double)n);

        if (fed_is_there(f, b->begun, c) && !is_busy(b, c))
            return c;
    }
    return -1;
}

static bool start(struct fed *f, struct fed_plan *p, struct under_way *u)
{
    struct buff *b = f->own;
    int64_t c = next_client(f, b), slot = 0;
    struct pdl_fed_task *t;

    if (c < 0)
        return false;
    while (b->used[slot])
        slot++;
    b->used[slot] = true;
    b->slot[p->is.ntasks] = slot;
    fed_plan_task(p, PDL_FED_GLOBAL);
    fed_plan_visit(p, c, f->job->epochs);
    *u = (struct under_way){.client = c, .version = p->is.round, .slot = slot};
    if (p->failed)
        return false;
    t = &p->task[p->is.ntasks - 1];
    for (int64_t i = 0; i < p->is.nvisits - 1; i++)
        t->attempt += p->visit[i].client == c;
    fed_judge_task(f, p, t);
    u->lost = t->lost != NULL;
    u->end_s = b->now_s + (f->job->deadline_s > 0
                               ? fmin(t->seconds, f->job->deadline_s)
                               : t->seconds);
    return true;
}

static struct under_way *first_back(struct buff *b)
{
    struct under_way *best = NULL;

    for (int64_t i = 0; i < b->wide; i++)
        if (!b->at[i].free && (!best || b->at[i].end_s < best->end_s))
            best = &b->at[i];
    return best;
}

static void come_back(struct buff *b, struct under_way *u, int64_t round)
{
    u->free = true;
    if (u->lost) {
        b->used[u->slot] = false;
        return;
    }
    b->arrive[b->narrive] = u->slot;
    b->stale[b->narrive++] = round - u->version;
}

/* Slots of what the round before took are free again. */
static void plan(struct fed *f, struct fed_plan *p)
{
    struct buff *b = f->own;
    double from = b->now_s;

    for (int64_t i = 0; i < b->narrive; i++)
        b->used[b->arrive[i]] = false;
    b->narrive = 0;
    for (int64_t i = 0; i < b->wide; i++)
        if (b->at[i].free && !start(f, p, &b->at[i]))
            break;
    while (b->narrive < b->buffer && !p->failed) {
        struct under_way *u = first_back(b);

        if (!u)
            break;
        b->now_s = u->end_s;
        come_back(b, u, p->is.round);
        if (b->narrive < b->buffer && p->is.ntasks < b->most)
            (void)start(f, p, u);
    }
    p->is.seconds = b->now_s - from;
}

static void take(struct fed *f, const struct fed_back *b)
{
    const struct buff *own = f->own;
    float *to = fed_slot(f, 0, own->slot[b->task]);

    for (int64_t i = 0; i < f->n; i++)
        to[i] = b->up[i] - f->model[i];
}

/* Of a client whose model was no numbers there is nothing on the shelf. */
static void end(struct fed *f)
{
    const struct buff *b = f->own;
    double n = 0;

    for (int64_t k = 0; k < b->narrive; k++) {
        double weight = 1 / sqrt(1 + (double)b->stale[k]);
        float **d = &f->shelf[0].at[b->arrive[k]];

        for (int64_t i = 0; *d && i < f->n; i++)
            f->sum[i] += weight * (double)(*d)[i];
        n += *d != NULL;
        free(*d);
        *d = NULL;
    }
    for (int64_t i = 0; i < f->n && n > 0; i++)
        f->model[i] =
            (float)((double)f->model[i] + fed_value(f, ETA) * f->sum[i] / n);
}

const struct fed_alg fed_alg_fedbuff = {
    .is = {.name = "fedbuff",
           .summary = "asynchronous: a round is a buffer of changes",
           .keys = {{"buffer", "changes that make a round", 10, 1, 1e6,
                     pdl_sampling_whole},
                    {"eta", "rate of the server", 1, 1e-6, 1e3, NULL}}},
    .waits = true,
    .open = begin,
    .plan = plan,
    .take = take,
    .end = end,
};
