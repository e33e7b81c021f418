/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights in and out as safetensors, under the model's names. Every rank
 * reads its own boxes; rank 0 puts whole tensors together and writes. */
#include "train/train_priv.h"

#include <stdlib.h>
#include <string.h>

static enum pdl_status fits(const struct pdl_train_part *p,
                            const struct pdl_ckpt_tensor *c,
                            struct pdl_err *err)
{
    bool same = c->rank == p->ndims && c->dtype == p->dtype;

    for (int d = 0; same && d < p->ndims; d++)
        same = c->dim[d] == p->dim[d];
    return same ? PDL_OK
                : pdl_fail(err, PDL_EINVAL,
                           "%s: the file has another shape or type", p->name);
}

enum pdl_status pdl_trainer_load(pdl_trainer *t, const pdl_weights *w,
                                 struct pdl_err *err)
{
    enum pdl_status st = pdl_trainer_fetch(t, err);

    for (int i = 0; i < t->nstates && st == PDL_OK; i++) {
        const struct pdl_train_part *p = &t->states[i].part;
        const struct pdl_tensor *m =
            &t->plan->model->tensors[t->states[i].model_tensor];
        int k = pdl_weights_find(w, p->name);

        if (strcmp(p->name, m->name) != 0)
            continue; /* the optimizer's */
        if (k < 0)
            return pdl_fail(err, PDL_EINVAL, "the file has no %s", p->name);
        st = fits(p, pdl_weights_tensor(w, k), err);
        if (st == PDL_OK && !pdl_box_empty(&p->box))
            st = pdl_weights_read(w, k, &p->box, p->data, err);
    }
    if (st == PDL_OK)
        st = train_state_send(t, err);
    if (st == PDL_OK)
        train_tuner_reload(t);
    return st;
}

/* ---- out ---------------------------------------------------------------------- */

static enum pdl_status send_box(pdl_trainer *t, int tensor, struct pdl_err *err)
{
    struct pdl_comm_message m = {
        .peer = 0,
        .tag = 1,
        .data = train_data(t, tensor, TRAIN_UPDATE),
        .bytes = train_array_bytes(&t->arrays[tensor])};

    return train_exchange_now(
        t, t->world, &(struct train_messages){.nsends = 1, .sends = &m}, err);
}

static enum pdl_status receive_box(pdl_trainer *t, int64_t from,
                                   const struct train_array *a, void *to,
                                   struct pdl_err *err)
{
    struct pdl_comm_message m = {
        .peer = (int)from, .tag = 1, .data = to, .bytes = train_array_bytes(a)};
    pdl_comm_request *req;
    enum pdl_status st =
        pdl_comm_start_exchange(t->world, 0, NULL, 1, &m, &req, err);

    return st == PDL_OK ? pdl_comm_wait(req, err) : st;
}

/* Rank 0: the whole tensor from the ranks that own parts of it. */
static enum pdl_status gather(pdl_trainer *t, int tensor, void *whole,
                              void *room, struct pdl_err *err)
{
    const struct pdl_plan_tensor *p = &t->plan->tensors[tensor];
    struct train_array all = t->arrays[tensor], part = all;
    enum pdl_status st = PDL_OK;

    for (int d = 0; d < p->ndims; d++) {
        all.box.lo[d] = 0;
        all.box.hi[d] = p->dim[d];
    }
    for (int64_t r = 0; r < t->plan->mesh->pes && st == PDL_OK; r++) {
        const void *from = room;

        if (!train_owns(t->plan, tensor, r))
            continue;
        pdl_plan_box(t->plan, tensor, r, &part.box);
        if (r == 0)
            from = train_view(t, train_data(t, tensor, TRAIN_UPDATE),
                              train_array_bytes(&part));
        else
            st = receive_box(t, r, &part, room, err);
        if (!from)
            st = train_settled(t, err);
        if (st == PDL_OK)
            train_copy(&all, whole, &part, from, &part.box);
    }
    return st;
}

static bool new_shard(const pdl_trainer *t, int tensor, struct pdl_shard *s)
{
    const struct pdl_plan_tensor *p = &t->plan->tensors[tensor];
    size_t n = (size_t)pdl_dtype_bits(t->arrays[tensor].dtype) / 8;

    *s = (struct pdl_shard){
        .name = p->name, .dtype = t->arrays[tensor].dtype, .rank = p->ndims};
    for (int d = 0; d < p->ndims; d++) {
        s->dim[d] = p->dim[d];
        n *= (size_t)p->dim[d];
    }
    s->data = calloc(n + 1, 1);
    return s->data != NULL;
}

/* Has an earlier tensor of the plan written this weight? */
static bool again(const pdl_trainer *t, int tensor)
{
    const struct pdl_plan_tensor *p = t->plan->tensors;

    for (int i = 0; i < tensor; i++)
        if (train_is_state(t, i) && p[i].model_tensor == p[tensor].model_tensor)
            return true;
    return false;
}

static enum pdl_status collect(pdl_trainer *t, struct pdl_shard *shards, int *n,
                               struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < t->plan->ntensors && st == PDL_OK; i++) {
        struct pdl_shard room = {.data = NULL};

        if (!train_is_state(t, i) || again(t, i))
            continue; /* replicas in another stage, or parts of the whole */
        if (t->rank != 0) {
            if (train_is_owner(t, i))
                st = send_box(t, i, err);
            continue;
        }
        if (!new_shard(t, i, &shards[*n]) || !new_shard(t, i, &room))
            st = pdl_fail(err, PDL_ENOMEM, "out of memory for the weights");
        else
            st = gather(t, i, (void *)shards[*n].data, (void *)room.data, err);
        (*n)++;
        free((void *)room.data);
    }
    return st;
}

enum pdl_status train_write_weights(pdl_trainer *t, const char *path,
                                    struct pdl_err *err)
{
    const char *const meta[] = {"format", "pt", NULL};
    struct pdl_weights_options opt = {.metadata = meta};
    struct pdl_shard *shards =
        PDL_NEW(t->arena, struct pdl_shard, t->plan->ntensors + 1);
    enum pdl_status st;
    int n = 0;

    if (!shards)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the weights");
    st = collect(t, shards, &n, err);
    if (st == PDL_OK && t->rank == 0)
        st = pdl_weights_write(path, shards, n, &opt, err);
    for (int i = 0; i < n; i++)
        free((void *)shards[i].data);
    return st;
}
