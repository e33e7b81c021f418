/* SPDX-License-Identifier: Apache-2.0
 *
 * What is done to a step on its way: the executor shows every result where it
 * lies, and what is added there goes on with it. A weight's gradient is pulled
 * (proximal terms, control variates, elastic weights) where the update is, when
 * it is whole, wherever and however it has been summed; the gradient of the
 * features gets the teacher's part, that of the logits the other networks'. */
#include "fed/learner.h"

#include <string.h>

/* The rank's samples, at their places in the batch. */
static void copy_rows(float *to, const struct pdl_train_seen *seen)
{
    const struct pdl_box *b = &seen->part.box;
    int64_t n = pdl_box_volume(b);

    if (n > 0)
        memcpy(to + n / (b->hi[0] - b->lo[0]) * b->lo[0], seen->part.data,
               (size_t)n * sizeof to[0]);
}

static void pull(const struct fed_net *n, const struct fed_span *s, float *g)
{
    const struct fed_pull *p = n->pull;

    for (int64_t i = 0; i < s->n; i++) {
        int64_t at = s->index ? s->index[i] : s->offset + i;
        double k = p->strength * (p->stiff ? (double)p->stiff[at] : 1);

        if (p->squares && s->owner)
            p->squares[at] += g[i] * g[i];
        if (p->add)
            g[i] += p->add[at];
        if (p->anchor)
            g[i] += (float)(k * ((double)s->at[i] - (double)p->anchor[at]));
    }
}

/* All parts have come to their loss: each adds what the others say of its own
 * samples. */
static void meet(struct fed_net *n, const struct pdl_train_part *dlogits)
{
    fed_learner *l = n->l;
    const struct pdl_box *b = &dlogits->box;
    int64_t end = n->rows < b->hi[0] ? n->rows : b->hi[0];

    if (n->exchanged) /* alone, or again: looking for a bad number */
        return;
    n->exchanged = true;
    fed_team_meet(l);
    fed_together(l->parts, n->part, end - b->lo[0], l->classes,
                 l->net[0].logits + b->lo[0] * l->classes,
                 l->net[l->ranks].logits - l->net[0].logits,
                 n->together / (double)n->rows, dlogits->data);
}

/* Several ranks: each finds what all samples add, and takes its own. */
static void distil_rows(struct fed_net *n, const struct pdl_train_seen *seen)
{
    fed_learner *l = n->l;
    const struct pdl_box *b = &seen->part.box;
    int64_t rows = n->rows < b->hi[0] ? n->rows : b->hi[0];
    float *dz = seen->part.data;

    pthread_barrier_wait(&l->looking); /* all have written their features */
    memset(n->spread, 0,
           (size_t)(l->opt.batch * l->width) * sizeof n->spread[0]);
    (void)fed_distil(n->rows, l->width, n->taught, n->features, n->pull->distil,
                     n->room, n->spread);
    for (int64_t i = b->lo[0]; i < rows; i++)
        for (int64_t k = 0; k < l->width; k++)
            dz[(i - b->lo[0]) * l->width + k] += n->spread[i * l->width + k];
    pthread_barrier_wait(&l->looking); /* before the next step writes others */
}

void fed_watch_step(void *ctx, const struct pdl_train_seen *seen)
{
    struct fed_net *n = ctx;
    const struct fed_places *in = &n->in;
    bool distils = n->pull && n->pull->distil > 0 && n->features;

    if (n->l->parts > 1)
        fed_stem_seen(n, seen);
    if (distils && seen->tensor == in->features && seen->output == 0)
        copy_rows(n->features, seen);
    if (n->l->parts > 1 && seen->tensor == in->logits && seen->output == 0)
        copy_rows(n->logits, seen);
    if (seen->op == in->loss_op && seen->output == 0)
        meet(n, &seen->part);
    if (distils && seen->op == in->back_op && seen->output == 0) {
        if (n->l->ranks > 1)
            distil_rows(n, seen);
        else
            (void)fed_distil(n->rows, n->l->width, n->taught, n->features,
                             n->pull->distil, n->room, seen->part.data);
    }
}

void fed_watch_gradient(void *ctx, int weight,
                        const struct pdl_train_part *grad)
{
    struct fed_net *n = ctx;
    int span = n->in.span[weight];

    if (n->pull && span >= 0 && !pdl_box_empty(&grad->box))
        pull(n, &n->span[span], grad->data);
}

void fed_watch_teacher(void *ctx, const struct pdl_train_seen *seen)
{
    struct fed_net *n = ctx;

    if (seen->tensor == n->in.features && seen->output == 0)
        copy_rows(n->taught, seen);
}

/* The plan of tests has other tensors, of larger batches. */
void fed_watch_tests(void *ctx, const struct pdl_train_seen *seen)
{
    struct fed_net *n = ctx;

    if (seen->tensor == n->l->wide_in.logits && seen->output == 0)
        copy_rows(n->logits, seen);
}
