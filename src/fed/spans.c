/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as a vector of floats: tensor after tensor in the order in which the
 * ranks of one network have them, each whole. Ranks have parts of some of them:
 * all get theirs, and the vector takes each part from its owner. */
#include "fed/learner.h"

#include <string.h>

static struct fed_slot *find(const fed_learner *l, int model_tensor)
{
    for (int i = 0; i < l->nslots; i++)
        if (l->slot[i].is.model_tensor == model_tensor)
            return &l->slot[i];
    return NULL;
}

static void add_slot(fed_learner *l, const struct pdl_train_state *s)
{
    struct fed_slot *to = &l->slot[l->nslots++];

    *to = (struct fed_slot){.is = *s, .offset = l->each, .n = 1};
    to->is.part.data = NULL;
    for (int d = 0; d < s->part.ndims; d++) {
        to->is.part.box.lo[d] = 0;
        to->is.part.box.hi[d] = s->part.dim[d];
        to->n *= s->part.dim[d];
    }
    l->each += to->n;
}

enum pdl_status fed_slots_make(fed_learner *l, struct pdl_err *err)
{
    const struct pdl_train_state *s;

    l->slot = PDL_NEW(l->arena, struct fed_slot, l->plan->ntensors + 1);
    if (!l->slot)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    for (int r = 0; r < l->ranks && l->seat == 0; r++) {
        if (r == 1) /* of two: what the first has is the stem */
            l->stem = l->each;
        for (int i = 0; (s = pdl_trainer_state(l->net[r].t, i)); i++)
            if (s->weight && !find(l, s->model_tensor))
                add_slot(l, s);
    }
    return fed_team_slots(l, err);
}

/* Where the numbers of a part are that is not the whole tensor. */
static enum pdl_status map(const fed_learner *l, const struct fed_slot *slot,
                           const struct pdl_train_part *part,
                           struct fed_span *s, struct pdl_err *err)
{
    const struct pdl_box *box = &part->box;
    int64_t at[PDL_BOX_DIMS], *index;

    if (s->n == slot->n)
        return PDL_OK;
    index = PDL_NEW(l->arena, int64_t, s->n + 1);
    if (!index)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    memcpy(at, box->lo, sizeof at);
    for (int64_t i = 0; i < s->n; i++) {
        int64_t k = 0;

        for (int d = 0; d < box->ndims; d++)
            k = k * part->dim[d] + at[d];
        index[i] = s->offset + k;
        for (int d = box->ndims - 1; d >= 0 && ++at[d] == box->hi[d]; d--)
            at[d] = box->lo[d];
    }
    s->index = index;
    return PDL_OK;
}

static enum pdl_status map_one(const fed_learner *l,
                               const struct pdl_train_state *x, int state,
                               int part, struct fed_span *s,
                               struct pdl_err *err)
{
    const struct fed_slot *slot = find(l, x->model_tensor);

    if (x->part.dtype != PDL_F32)
        return pdl_fail(err, PDL_EINVAL, "%s: is not float32", x->part.name);
    *s = (struct fed_span){.state = state,
                           .at = x->part.data,
                           .n = pdl_box_volume(&x->part.box),
                           .offset = slot->offset + part * l->each,
                           .owner = x->owner};
    return map(l, slot, &x->part, s, err);
}

enum pdl_status fed_spans_make(const fed_learner *l, const pdl_trainer *t,
                               int part, struct fed_span **out, int *n,
                               struct pdl_err *err)
{
    const struct pdl_train_state *s;
    enum pdl_status st = PDL_OK;

    *n = 0;
    while (pdl_trainer_state(t, *n))
        (*n)++;
    *out = PDL_NEW(l->arena, struct fed_span, *n + 1);
    *n = 0;
    if (!*out)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a learner");
    for (int i = 0; st == PDL_OK && (s = pdl_trainer_state(t, i)); i++)
        if (s->weight && !pdl_box_empty(&s->part.box))
            st = map_one(l, s, i, part, &(*out)[(*n)++], err);
    return st;
}

enum pdl_status fed_spans_put(pdl_trainer *t, const struct fed_span *s, int n,
                              const float *w, struct pdl_err *err)
{
    for (int i = 0; i < n; i++)
        if (!s[i].index)
            memcpy(s[i].at, w + s[i].offset, (size_t)s[i].n * sizeof w[0]);
        else
            for (int64_t k = 0; k < s[i].n; k++)
                s[i].at[k] = w[s[i].index[k]];
    return pdl_trainer_send(t, err);
}

enum pdl_status fed_spans_take(pdl_trainer *t, const struct fed_span *s, int n,
                               float *w, struct pdl_err *err)
{
    enum pdl_status st = pdl_trainer_fetch(t, err);

    for (int i = 0; i < n && st == PDL_OK; i++)
        if (s[i].owner && !s[i].index)
            memcpy(w + s[i].offset, s[i].at, (size_t)s[i].n * sizeof w[0]);
        else
            for (int64_t k = 0; s[i].owner && k < s[i].n; k++)
                w[s[i].index[k]] = s[i].at[k];
    return st;
}
