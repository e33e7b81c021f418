/* SPDX-License-Identifier: Apache-2.0
 *
 * What is done to a step on its way: the executor shows every result where it
 * lies, and what is added there goes on with it. A weight's gradient is pulled
 * (proximal terms, control variates, elastic weights) when the last operation
 * before the update has written it; the gradient of the features gets the
 * teacher's part, that of the logits the other networks'. */
#include "fed/learner.h"

#include <string.h>

static void copy_rows(float *to, const struct pdl_train_seen *seen)
{
    memcpy(to, seen->part.data,
           (size_t)pdl_box_volume(&seen->part.box) * sizeof to[0]);
}

static void pull(const struct fed_net *n, const struct fed_span *s, float *g)
{
    const struct fed_pull *p = n->pull;
    int64_t at = s->offset;

    for (int64_t i = 0; p->squares && i < s->n; i++)
        p->squares[at + i] += g[i] * g[i];
    for (int64_t i = 0; p->add && i < s->n; i++)
        g[i] += p->add[at + i];
    for (int64_t i = 0; p->anchor && i < s->n; i++) {
        double k = p->strength * (p->stiff ? (double)p->stiff[at + i] : 1);

        g[i] += (float)(k * ((double)s->at[i] - (double)p->anchor[at + i]));
    }
}

/* All parts have come to their loss: each adds what the others say. */
static void meet(struct fed_net *n, float *dlogits)
{
    fed_learner *l = n->l;

    if (n->exchanged) /* alone, or again: looking for a bad number */
        return;
    n->exchanged = true;
    pthread_barrier_wait(&l->meeting);
    fed_together(l->nets, n->part, n->rows, l->classes, l->net[0].logits,
                 l->net[1].logits - l->net[0].logits,
                 n->together / (double)n->rows, dlogits);
}

void fed_watch_step(void *ctx, const struct pdl_train_seen *seen)
{
    struct fed_net *n = ctx;
    const struct fed_places *in = &n->in;
    int span = in->span[seen->tensor];
    bool distils = n->pull && n->pull->distil > 0 && n->features;

    if (distils && seen->tensor == in->features && seen->output == 0)
        copy_rows(n->features, seen);
    if (n->l->nets > 1 && seen->tensor == in->logits && seen->output == 0)
        copy_rows(n->logits, seen);
    if (seen->op == in->loss_op && seen->output == 0)
        meet(n, seen->part.data);
    if (distils && seen->op == in->back_op && seen->output == 0)
        (void)fed_distil(n->rows, n->l->width, n->taught, n->features,
                         n->pull->distil, n->room, seen->part.data);
    if (n->pull && span >= 0 && seen->op == in->last_op[seen->tensor])
        pull(n, &n->span[span], seen->part.data);
}

void fed_watch_teacher(void *ctx, const struct pdl_train_seen *seen)
{
    struct fed_net *n = ctx;

    if (seen->tensor == n->in.features && seen->output == 0)
        copy_rows(n->taught, seen);
}

/* The plan of tests has the same tensors, of larger batches. */
void fed_watch_tests(void *ctx, const struct pdl_train_seen *seen)
{
    struct fed_net *n = ctx;

    if (seen->tensor == n->in.logits && seen->output == 0)
        copy_rows(n->logits, seen);
}
