/* SPDX-License-Identifier: Apache-2.0
 *
 * Split execution of a divided network (FedDCT, IEEE TNSM 2024): whoever owns
 * the samples computes the stems of all parts, the first layers up to a ReLU,
 * and each part's device the rest. A part is a plan of a pipeline with two
 * stages, whose ranks send each other the stem's result and its gradient by
 * messages, a device being a thread.
 *
 * Stems that are computed again for their gradients take turns in the memory of
 * a part's device (the first's: all are alike), which that leaves before its
 * stem's result comes and after it has sent the gradient. A stem has it until
 * its result has been received, and again when all have been and that device is
 * through, until its update is done. Between the two only a copy of its weights
 * is kept, and the samples are read again. */
#include "fed/learner.h"

#include <string.h>

/* ---- where a stem ends ---------------------------------------------- */

static bool ends_stem(const struct pdl_node *n)
{
    return pdl_op_id(n->op) == PDL_ID_RELU || pdl_op_id(n->op) == PDL_ID_TANH;
}

int fed_stem_end(const struct pdl_model *m)
{
    int at = 0;

    while (at + 1 < m->nnodes && !ends_stem(&m->nodes[at]))
        at++;
    return at;
}

int64_t fed_learner_stem(const fed_learner *l)
{
    const struct pdl_model *m = l->plan->model;
    int at = fed_stem_end(m);
    int64_t n = 1;

    for (int d = 0; d < m->tensors[m->nodes[at].out[0]].rank; d++)
        n *= m->tensors[m->nodes[at].out[0]].dim[d];
    return n;
}

const char *fed_stem_strategy(pdl_arena *a, const struct fed_learner_options *o,
                              struct pdl_err *err)
{
    const struct pdl_model *m = o->model;
    bool again = o->stems == FED_STEMS_AGAIN;
    int at = fed_stem_end(m);
    const char *text;

    if (at + 1 >= m->nnodes) {
        pdl_fail(err, PDL_EINVAL, "%s: has no ReLU that a stem could end with",
                 m->name);
        return NULL;
    }
    text = pdl_arena_printf(a, "%s%s%spipe=2(m=1,at=%s)", again ? "*: " : "",
                            o->strategy ? o->strategy : "",
                            o->strategy ? "," : "", m->nodes[at + 1].name);
    if (text && again)
        text = pdl_arena_printf(a, "%s; %s..%s: recompute=full", text,
                                m->nodes[0].name, m->nodes[at].name);
    if (!text)
        pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    return text;
}

/* ---- turns ---------------------------------------------------------- */

enum pdl_status fed_stem_keep(struct fed_net *n, struct pdl_err *err)
{
    for (int i = 0; i < n->nspans; i++) {
        struct fed_span *s = &n->span[i];
        float *kept = PDL_NEW(n->l->arena, float, s->n + 1);

        if (!kept)
            return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
        memcpy(kept, s->at, (size_t)s->n * sizeof kept[0]);
        s->room = s->at;
        s->at = kept;
    }
    return PDL_OK;
}

static void enter(struct fed_net *n)
{
    struct fed_turns *t = &n->l->turns;

    while (t->busy)
        pthread_cond_wait(&t->news, &t->lock);
    t->busy = true;
    for (int i = 0; i < n->nspans; i++)
        memcpy(n->span[i].room, n->span[i].at,
               (size_t)n->span[i].n * sizeof(float));
}

static void leave(struct fed_net *n)
{
    struct fed_turns *t = &n->l->turns;

    for (int i = 0; i < n->nspans; i++)
        memcpy(n->span[i].at, n->span[i].room,
               (size_t)n->span[i].n * sizeof(float));
    t->busy = false;
    pthread_cond_broadcast(&t->news);
}

/* Remembers where the samples go. */
static enum pdl_status fill(void *ctx, int64_t first, int model_tensor,
                            const struct pdl_train_part *part,
                            struct pdl_err *err)
{
    struct fed_net *n = ctx;

    n->input = *part;
    n->input_tensor = model_tensor;
    return n->feed.fill(n->feed.ctx, first, model_tensor, part, err);
}

void fed_stem_begin(fed_learner *l)
{
    l->turns.sent = l->turns.all = 0; /* all: the host's */
    l->turns.busy = false;
    for (int i = 0; i < l->nets; i++)
        l->net[i].sends = l->net[i].got = 0;
}

static bool is_host(const struct fed_net *n)
{
    return n->part == 0 && n->rank == 1;
}

/* A step begins. */
void fed_stem_enter(struct fed_net *n, struct pdl_train_feed *feed)
{
    struct fed_turns *t = &n->l->turns;

    if (!t->taken)
        return;
    pthread_mutex_lock(&t->lock);
    if (is_host(n)) {
        t->all += n->l->parts;
        t->left = false;
    } else if (n->rank == 0) {
        n->feed = *feed;
        n->turned = false;
        *feed = (struct pdl_train_feed){.fill = fill, .ctx = n};
        enter(n);
    }
    pthread_mutex_unlock(&t->lock);
}

void fed_stem_leave(struct fed_net *n)
{
    struct fed_turns *t = &n->l->turns;

    if (!t->taken || n->rank > 0)
        return;
    pthread_mutex_lock(&t->lock);
    leave(n);
    pthread_mutex_unlock(&t->lock);
}

void fed_stem_fail(fed_learner *l)
{
    pthread_mutex_lock(&l->turns.lock);
    atomic_store(&l->bad, true);
    pthread_cond_broadcast(&l->turns.news);
    pthread_mutex_unlock(&l->turns.lock);
}

/* So many results, of this step and those before. */
static void wait_for(fed_learner *l, int64_t all)
{
    while (l->turns.sent < all && !atomic_load(&l->bad))
        pthread_cond_wait(&l->turns.news, &l->turns.lock);
}

/* From a rest on another rank. */
static void hear(struct fed_net *n)
{
    if (!n->bell)
        return;
    pthread_mutex_unlock(&n->l->turns.lock);
    fed_team_ring(n);
    pthread_mutex_lock(&n->l->turns.lock);
    n->got++;
}

/* The result has been sent: when it is there, others have the memory until all
 * have been. Again in a step (looking for a bad number), nobody has. */
static void turn(struct fed_net *n)
{
    struct fed_turns *t = &n->l->turns;
    int64_t all = n->l->parts;

    n->sends++;
    hear(n);
    while (n->got < n->sends && !atomic_load(&n->l->bad))
        pthread_cond_wait(&t->news, &t->lock);
    if (n->turned)
        return;
    n->turned = true;
    t->sent++;
    all *= (t->sent + all - 1) / all;
    leave(n);
    wait_for(n->l, all); /* the host's step has begun, too */
    while (!t->left && !atomic_load(&n->l->bad))
        pthread_cond_wait(&t->news, &t->lock);
    enter(n);
}

/* The host has sent its gradient: what follows does not use the room. */
static void leave_room(struct fed_net *n)
{
    pthread_mutex_lock(&n->l->turns.lock);
    n->l->turns.left = true;
    pthread_cond_broadcast(&n->l->turns.news);
    pthread_mutex_unlock(&n->l->turns.lock);
}

void fed_stem_timed(void *ctx, int op, int64_t micro, double start_s,
                    double end_s)
{
    struct fed_net *n = ctx;
    bool again;

    (void)micro;
    (void)start_s;
    (void)end_s;
    if (n->rank > 0 && op == n->in.back_out_op)
        leave_room(n);
    if (n->rank > 0 || op != n->in.out_op)
        return;
    again = n->turned;
    pthread_mutex_lock(&n->l->turns.lock);
    turn(n);
    pthread_mutex_unlock(&n->l->turns.lock);
    /* it has been read before, so that this cannot fail otherwise than then */
    if (!again && n->feed.fill(n->feed.ctx, 0, n->input_tensor, &n->input,
                               NULL) != PDL_OK)
        fed_stem_fail(n->l);
}

/* A message has come: the stem's result, or on the other side its gradient. */
void fed_stem_seen(struct fed_net *n, const struct pdl_train_seen *seen)
{
    struct fed_turns *t = &n->l->turns;
    struct fed_net *stem = n - 1;

    if (seen->op != n->in.in_op && seen->op != n->in.back_in_op)
        return;
    atomic_fetch_add(&n->l->moved,
                     pdl_box_volume(&seen->part.box) * (int64_t)sizeof(float));
    if (!t->taken || seen->op != n->in.in_op)
        return;
    fed_team_ring(n);
    pthread_mutex_lock(&t->lock);
    stem->got++;
    pthread_cond_broadcast(&t->news);
    if (is_host(n)) /* stems are still in its memory */
        wait_for(n->l, t->all);
    pthread_mutex_unlock(&t->lock);
}
