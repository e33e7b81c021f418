/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices of a divided network that are ranks of a communicator, a team: its
 * first rank owns the samples and computes the stems, and the rests of the
 * parts are dealt to all of them. A stem and a rest on two ranks have a
 * communicator for their messages and another for bells: whoever has received a
 * stem's result rings, since others wait for its memory. What parts say of a
 * batch goes from each rank to each other, and after every step all know
 * whether one of them failed. */
#include "fed/learner.h"

#include <string.h>

enum { FIRST = 0 };

int fed_team_seat(const fed_learner *l, int part, int rank)
{
    bool stem = l->ranks > 1 && rank == 0;

    return stem ? FIRST : part % l->seats;
}

bool fed_is_here(const struct fed_net *n)
{
    return fed_team_seat(n->l, n->part, n->rank) == n->l->seat;
}

/* ---- who is who ----------------------------------------------------- */

static enum pdl_status share_words(fed_learner *l, void *data, size_t bytes,
                                   struct pdl_err *err)
{
    return pdl_comm_broadcast(l->opt.team, data, (int64_t)(bytes / 4),
                              PDL_COMM_I32, FIRST, err);
}

/* Of ranks of one program: structs are alike, names and data are not. */
enum pdl_status fed_team_slots(fed_learner *l, struct pdl_err *err)
{
    struct {
        int64_t each, stem, slots;
    } is = {l->each, l->stem, l->nslots};
    enum pdl_status st = PDL_OK;

    _Static_assert(sizeof l->slot[0] % 4 == 0, "sent as words");
    if (!l->opt.team)
        return PDL_OK;
    st = share_words(l, &is, sizeof is, err);
    if (st == PDL_OK)
        st = share_words(l, l->slot, (size_t)is.slots * sizeof l->slot[0], err);
    l->each = is.each;
    l->stem = is.stem;
    l->nslots = (int)is.slots;
    for (int i = 0; i < l->nslots && st == PDL_OK && l->seat != FIRST; i++) {
        struct fed_slot *s = &l->slot[i];

        s->is.part.name = l->plan->model->tensors[s->is.model_tensor].name;
        s->is.part.data = NULL;
    }
    return st;
}

static enum pdl_status pair(fed_learner *l, int seat, pdl_comm **out,
                            struct pdl_err *err)
{
    int ranks[2] = {FIRST, seat};

    return pdl_comm_subset(l->opt.team, 2, ranks, out, err);
}

/* Two ranks share the part; the others have nothing of it. */
enum pdl_status fed_team_link(fed_learner *l, int part, struct pdl_err *err)
{
    int home = fed_team_seat(l, part, l->ranks - 1);
    struct fed_net *first = &l->net[(ptrdiff_t)part * l->ranks];
    struct fed_net *n = &first[l->seat == FIRST ? 0 : 1];
    pdl_comm **at = l->comms + (n - l->net);
    enum pdl_status st;

    if (!fed_is_here(n))
        return PDL_OK;
    st = pair(l, home, at, err);
    if (st == PDL_OK)
        st = pair(l, home, &l->bells[part], err);
    n->comm = *at;
    n->bell = l->bells[part];
    return st;
}

bool fed_team_splits(const fed_learner *l, int part)
{
    return l->ranks > 1 && fed_team_seat(l, part, l->ranks - 1) != FIRST;
}

/* The first failure between ranks; nobody of this one waits any more. */
static void note(fed_learner *l, enum pdl_status st, const struct pdl_err *err)
{
    if (st == PDL_OK)
        return;
    pthread_mutex_lock(&l->turns.lock);
    if (l->team_st == PDL_OK) {
        l->team_st = st;
        l->team_err = *err;
    }
    pthread_mutex_unlock(&l->turns.lock);
    fed_stem_fail(l);
}

/* ---- bells ---------------------------------------------------------- */

static enum pdl_status ring(struct fed_net *n, struct pdl_err *err)
{
    int32_t word = 0;
    struct pdl_comm_message m = {1 - n->rank, 0, &word, sizeof word};
    pdl_comm_request *r = NULL;
    enum pdl_status st = pdl_comm_start_exchange(n->bell, n->rank > 0, &m,
                                                 n->rank == 0, &m, &r, err);

    return st == PDL_OK ? pdl_comm_wait(r, err) : st;
}

void fed_team_ring(struct fed_net *n)
{
    struct pdl_err err = {"", ""};

    if (n->bell)
        note(n->l, ring(n, &err), &err);
}

/* ---- what parts say of a batch -------------------------------------- */

static void add(struct pdl_comm_message *m, int *n, int peer, int tag,
                float *data, int64_t count)
{
    m[(*n)++] = (struct pdl_comm_message){peer, tag, data,
                                          count * (int64_t)sizeof data[0]};
}

static float *logits_of(const fed_learner *l, int part)
{
    return l->net[(ptrdiff_t)part * l->ranks].logits;
}

static enum pdl_status swap(fed_learner *l, struct pdl_err *err)
{
    struct pdl_comm_message *out = l->mail,
                            *in = l->mail + (ptrdiff_t)2 * l->parts;
    int64_t count = l->opt.batch * l->classes;
    int nout = 0, nin = 0;
    pdl_comm_request *r = NULL;
    enum pdl_status st;

    for (int p = 0; p < l->parts; p++) {
        int home = fed_team_seat(l, p, l->ranks - 1);

        if (home != l->seat)
            add(in, &nin, home, p, logits_of(l, p), count);
        for (int s = 0; s < l->seats && home == l->seat; s++)
            if (s != l->seat)
                add(out, &nout, s, p, logits_of(l, p), count);
    }
    st = pdl_comm_start_exchange(l->opt.team, nout, out, nin, in, &r, err);
    return st == PDL_OK ? pdl_comm_wait(r, err) : st;
}

static void exchange_logits(fed_learner *l)
{
    struct pdl_err err = {"", ""};

    note(l, swap(l, &err), &err);
}

static void agree_on_bad(fed_learner *l)
{
    struct pdl_err err = {"", ""};
    int32_t bad = atomic_load(&l->bad);

    note(l,
         pdl_comm_allreduce(l->opt.team, &bad, &bad, 1, PDL_COMM_I32,
                            PDL_COMM_MAX, &err),
         &err);
    if (bad)
        fed_stem_fail(l);
}

/* All threads of this rank, one of them for it with the other ranks, and all
 * go on. */
static void meet(fed_learner *l, pthread_barrier_t *at,
                 void (*then)(fed_learner *l))
{
    int one = pthread_barrier_wait(at);

    if (!l->opt.team)
        return;
    if (one == PTHREAD_BARRIER_SERIAL_THREAD)
        then(l);
    pthread_barrier_wait(at);
}

void fed_team_meet(fed_learner *l)
{
    meet(l, &l->meeting, exchange_logits);
}

void fed_team_end_step(fed_learner *l)
{
    meet(l, &l->ending, agree_on_bad);
}

/* ---- what comes of it ----------------------------------------------- */

/* The first that failed, and why, is what all of them return. */
enum pdl_status fed_agree(pdl_comm *c, enum pdl_status st, struct pdl_err *err)
{
    struct {
        int32_t st;
        struct pdl_err err;
    } said = {.st = (int32_t)st};
    int ranks = pdl_comm_size(c);
    double who = st == PDL_OK ? ranks : pdl_comm_rank(c);
    enum pdl_status told;

    _Static_assert(sizeof said % sizeof said.st == 0, "sent as words");
    if (ranks < 2)
        return st;
    if (st != PDL_OK && err)
        said.err = *err;
    told = pdl_comm_allreduce(c, &who, &who, 1, PDL_COMM_F64, PDL_COMM_MIN,
                              st == PDL_OK ? err : NULL);
    if (told == PDL_OK && who < ranks)
        told = pdl_comm_broadcast(c, &said, sizeof said / sizeof said.st,
                                  PDL_COMM_I32, (int)who,
                                  st == PDL_OK ? err : NULL);
    if (told != PDL_OK)
        return st == PDL_OK ? told : st;
    if (who < ranks && err)
        *err = said.err;
    return (enum pdl_status)said.st;
}

enum pdl_status fed_team_agree(const fed_learner *l, enum pdl_status st,
                               struct pdl_err *err)
{
    return l->opt.team ? fed_agree(l->opt.team, st, err) : st;
}

/* A part's numbers that are not its stem's, which come before. */
enum pdl_status fed_team_bring(const fed_learner *l, float *w,
                               struct pdl_err *err)
{
    struct pdl_comm_message *m = l->mail;
    bool first = l->seat == FIRST;
    int n = 0;
    pdl_comm_request *r = NULL;
    enum pdl_status st;

    if (!l->opt.team)
        return PDL_OK;
    for (int p = 0; p < l->parts; p++) {
        int home = fed_team_seat(l, p, l->ranks - 1);

        if (home != FIRST && (first || home == l->seat))
            add(m, &n, first ? home : FIRST, l->parts + p,
                w + p * l->each + l->stem, l->each - l->stem);
    }
    st = pdl_comm_start_exchange(l->opt.team, first ? 0 : n, m, first ? n : 0,
                                 m, &r, err);
    return st == PDL_OK ? pdl_comm_wait(r, err) : st;
}

enum pdl_status fed_team_bad(const fed_learner *l, bool *bad,
                             struct pdl_err *err)
{
    int32_t any = *bad;
    enum pdl_status st = PDL_OK;

    if (l->opt.team)
        st = pdl_comm_allreduce(l->opt.team, &any, &any, 1, PDL_COMM_I32,
                                PDL_COMM_MAX, err);
    *bad = any > 0;
    return st;
}
