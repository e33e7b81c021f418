/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights out as safetensors: rank 0 puts whole tensors together, and writes
 * them under the model's names or those of others. */
#include "train/exec/weights.h"
#include "train/train_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- whole tensors ---------------------------------------------------- */

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

/* ---- names of others -------------------------------------------------- */

struct out {
    pdl_trainer *t;
    const struct pdl_naming *naming;
    struct pdl_shard *theirs;
    int n, cap;
    struct pdl_err *err;
};

static enum pdl_status no_memory(const struct out *o)
{
    return pdl_fail(o->err, PDL_ENOMEM, "out of memory for the weights");
}

static struct pdl_shard *append(struct out *o)
{
    if (o->n == o->cap) {
        int cap = 2 * o->n + 64;
        void *grown = pdl_arena_grow(o->t->arena, o->theirs, (size_t)o->n,
                                     (size_t)cap, sizeof *o->theirs);

        if (!grown)
            return NULL;
        o->theirs = grown;
        o->cap = cap;
    }
    return &o->theirs[o->n++];
}

/* Their tensor, made with the first of ours that goes there. */
static struct pdl_shard *
tensor_of(struct out *o, const struct pdl_weight_place *p, enum pdl_dtype dtype)
{
    size_t bytes = (size_t)pdl_dtype_bits(dtype) / 8;
    struct pdl_shard *s;

    for (int i = o->n - 1; i >= 0; i--)
        if (strcmp(o->theirs[i].name, p->name) == 0)
            return &o->theirs[i];
    s = append(o);
    if (!s)
        return NULL;
    *s = (struct pdl_shard){.name = p->name, .dtype = dtype, .rank = p->rank};
    for (int d = 0; d < p->rank; d++) {
        s->dim[d] = p->dim[d];
        bytes *= (size_t)p->dim[d];
    }
    s->data = calloc(bytes + 1, 1);
    return s->data ? s : NULL;
}

static enum pdl_status put_there(struct out *o, int tensor,
                                 const struct pdl_shard *ours)
{
    struct pdl_train_part part = {.dtype = ours->dtype,
                                  .ndims = ours->rank,
                                  .box = {.ndims = ours->rank},
                                  .data = (void *)ours->data};
    const struct pdl_weight_place *p = NULL;
    int n = 0;
    enum pdl_status st = pdl_weight_places(
        o->t->arena, o->naming, o->t->plan->model, tensor, &p, &n, o->err);

    memcpy(part.box.hi, ours->dim, (size_t)ours->rank * sizeof ours->dim[0]);
    for (int i = 0; i < n && st == PDL_OK; i++) {
        struct pdl_shard *s = tensor_of(o, &p[i], ours->dtype);
        struct train_weights_run run;

        if (!s)
            return no_memory(o);
        if (!train_weights_run(&p[i], &part, &run))
            continue;
        /* rows go to their place in the whole tensor */
        run.theirs.dtype = s->dtype;
        run.theirs.data = (void *)s->data;
        memset(run.theirs.box.lo, 0, sizeof run.theirs.box.lo);
        memcpy(run.theirs.box.hi, s->dim, sizeof s->dim);
        train_weights_copy(&p[i], &run, &part, false);
    }
    return st;
}

/* torch counts the batches that running statistics have seen. */
static enum pdl_status put_counters(struct out *o)
{
    static const char mean[] = ".running_mean",
                      count[] = ".num_batches_tracked";

    for (int i = o->n - 1; i >= 0; i--) {
        const char *name = o->theirs[i].name;
        size_t n = strlen(name), k = sizeof mean - 1;
        int64_t *steps = calloc(1, sizeof *steps);
        struct pdl_shard *s;

        if (n <= k || strcmp(name + n - k, mean) != 0) {
            free(steps);
            continue;
        }
        s = steps ? append(o) : NULL;
        if (!s)
            return no_memory(o);
        *steps = o->t->now + 1;
        *s = (struct pdl_shard){.dtype = PDL_I64, .data = steps};
        s->name =
            pdl_arena_printf(o->t->arena, "%.*s%s", (int)(n - k), name, count);
        if (!s->name)
            return no_memory(o);
    }
    return PDL_OK;
}

static int model_tensor(const struct pdl_model *m, const char *name)
{
    for (int i = 0; i < m->ntensors; i++)
        if (strcmp(m->tensors[i].name, name) == 0)
            return i;
    return -1;
}

/* Frees ours as they go over. */
static enum pdl_status rename_all(struct out *o, struct pdl_shard *ours, int n)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < n && st == PDL_OK; i++) {
        int k = model_tensor(o->t->plan->model, ours[i].name);

        st = k < 0 ? PDL_OK : put_there(o, k, &ours[i]);
        free((void *)ours[i].data);
        ours[i].data = NULL;
    }
    return st == PDL_OK ? put_counters(o) : st;
}

static enum pdl_status choose(struct out *o, const char *style)
{
    const struct pdl_model *m = o->t->plan->model;

    if (!style) {
        o->naming = o->t->naming;
        if (!o->naming && m->type)
            o->naming = pdl_naming_for(o->t->arena, "hf", m);
        return PDL_OK;
    }
    if (strcmp(style, "paradl") == 0)
        return PDL_OK;
    o->naming = pdl_naming_for(o->t->arena, style, m);
    if (o->naming || (strcmp(style, "torchvision") == 0 && m->kind &&
                      strcmp(m->kind, "cnn") == 0))
        return PDL_OK; /* other networks of images have its names already */
    pdl_fail(o->err, PDL_EINVAL, "--names %s: no table has all weights of %s",
             style, m->name);
    pdl_hint(o->err, "--names paradl writes them under our own names");
    return PDL_EINVAL;
}

enum pdl_status train_write_weights(pdl_trainer *t, const char *path,
                                    const char *style, struct pdl_err *err)
{
    const char *const meta[] = {"format", "pt", NULL};
    struct pdl_weights_options opt = {.metadata = meta};
    struct pdl_shard *ours =
        PDL_NEW(t->arena, struct pdl_shard, t->plan->ntensors + 1);
    struct out o = {.t = t, .err = err};
    enum pdl_status st = choose(&o, style);
    int n = 0;

    if (st != PDL_OK || !ours)
        return ours ? st : no_memory(&o);
    st = collect(t, ours, &n, err);
    if (st == PDL_OK && t->rank == 0)
        st = rename_all(&o, ours, n);
    if (st == PDL_OK && t->rank == 0)
        st = pdl_weights_write(path, o.theirs, o.n, &opt, err);
    for (int i = 0; i < n; i++)
        free((void *)ours[i].data);
    for (int i = 0; i < o.n; i++)
        free((void *)o.theirs[i].data);
    return st;
}
