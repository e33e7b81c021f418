/* SPDX-License-Identifier: Apache-2.0
 *
 * What a rank keeps from step to step: weights, running statistics, and what
 * the optimizer keeps for each weight, under names that depend on the model
 * alone. A checkpoint of them is a set of logical tensors, so that any plan
 * may take it up again. */
#include "train/train_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool train_owns(const struct pdl_plan *p, int tensor, int64_t rank)
{
    int lane = pdl_plan_lane(p, p->tensors[tensor].stage);
    struct pdl_box mine, other;

    pdl_plan_box(p, tensor, rank, &mine);
    if (pdl_box_empty(&mine) || pdl_plan_rank_lane(p, rank) != lane)
        return false;
    for (int64_t r = 0; r < rank; r++) {
        bool same = pdl_plan_rank_lane(p, r) == lane;

        pdl_plan_box(p, tensor, r, &other);
        for (int d = 0; d < mine.ndims; d++)
            same =
                same && mine.lo[d] == other.lo[d] && mine.hi[d] == other.hi[d];
        if (same)
            return false;
    }
    return true;
}

bool train_is_owner(const pdl_trainer *t, int tensor)
{
    return train_owns(t->plan, tensor, t->rank);
}

/* ---- the list --------------------------------------------------------- */

/* A weight whose parts are updated (ZeRO), or that is updated on the host, is
 * known by those. */
static bool has_parts(const pdl_trainer *t, int tensor)
{
    const struct pdl_plan_tensor *p = t->plan->tensors;

    for (int i = 0; i < t->plan->ntensors; i++)
        if (p[i].kind == PDL_PLAN_STATE && p[i].stage == p[tensor].stage &&
            p[i].model_tensor == p[tensor].model_tensor &&
            (p[tensor].kind == PDL_PLAN_WEIGHT ||
             (p[i].host && !p[tensor].host)))
            return true;
    return false;
}

/* Which of the ranks that hold this rank's very box it is, and of how many:
 * they share the writing of a checkpoint. */
static void find_replicas(const pdl_trainer *t, int tensor,
                          struct pdl_train_state *s)
{
    int lane = pdl_plan_lane(t->plan, t->plan->tensors[tensor].stage);
    struct pdl_box b;

    s->replicas = s->replica = 0;
    for (int64_t r = 0; r < t->plan->mesh->pes; r++) {
        pdl_plan_box(t->plan, tensor, r, &b);
        if (pdl_plan_rank_lane(t->plan, r) == lane &&
            train_same_box(&b, &s->part.box)) {
            s->replica += r < t->rank;
            s->replicas++;
        }
    }
}

static int64_t state_bytes(const struct pdl_train_part *p)
{
    return pdl_box_volume(&p->box) * pdl_dtype_bits(p->dtype) / 8;
}

/* Of what is on a device the host has a copy (pdl_trainer_fetch). */
static bool mirror(pdl_trainer *t, int state)
{
    struct pdl_train_part *p = &t->states[state].part;

    t->state_at[state] = p->data;
    p->data = calloc((size_t)state_bytes(p) + 1, 1);
    return p->data != NULL;
}

static void add_state(pdl_trainer *t, int tensor, const char *name,
                      enum pdl_dtype dtype, void *data)
{
    const struct pdl_plan_tensor *p = &t->plan->tensors[tensor];
    struct pdl_train_state *s = &t->states[t->nstates++];

    *s = (struct pdl_train_state){
        .part = {.name = name,
                 .dtype = dtype,
                 .ndims = p->ndims,
                 .box = t->arrays[tensor].box,
                 .data = data},
        .model_tensor = p->model_tensor,
        .owner = train_is_owner(t, tensor) && !has_parts(t, tensor)};
    memcpy(s->part.dim, p->dim, sizeof s->part.dim);
    s->replicas = 1;
    if (!has_parts(t, tensor) && !pdl_box_empty(&s->part.box))
        find_replicas(t, tensor, s);
}

/* A lower rank with the same part of the weight and the same place. */
static bool is_kept_elsewhere(const pdl_trainer *t, int tensor)
{
    struct pdl_box b;

    for (int64_t r = 0; r < t->rank; r++) {
        pdl_plan_box(t->plan, tensor, r, &b);
        if (pdl_plan_rank_lane(t->plan, r) == t->lane &&
            train_same_box(&b, &t->arrays[tensor].box) &&
            train_sparse_place(t, tensor, r) ==
                train_sparse_place(t, tensor, t->rank))
            return true;
    }
    return false;
}

/* What error feedback keeps: one tensor more dimension, a rank a row. */
static bool add_kept(pdl_trainer *t, int tensor)
{
    int64_t place, places;
    void *data = train_sparse_kept(t, tensor, &place, &places);
    struct pdl_train_part *p = &t->states[t->nstates].part;
    const char *name;

    if (!data || p->ndims + 1 > PDL_BOX_DIMS)
        return true;
    name = pdl_arena_printf(t->arena, "feedback.%s",
                            t->plan->tensors[tensor].name);
    if (!name)
        return false;
    add_state(t, tensor, name, PDL_F32, data);
    for (int d = p->ndims; d > 0; d--) {
        p->dim[d] = p->dim[d - 1];
        p->box.lo[d] = p->box.lo[d - 1];
        p->box.hi[d] = p->box.hi[d - 1];
    }
    p->ndims = ++p->box.ndims;
    p->dim[0] = places;
    p->box.lo[0] = place;
    p->box.hi[0] = place + 1;
    t->states[t->nstates - 1].owner = !is_kept_elsewhere(t, tensor);
    t->states[t->nstates - 1].replicas = 1;
    t->states[t->nstates - 1].optional = true;
    return true;
}

static bool is_learned(const pdl_trainer *t, int tensor)
{
    int m = t->plan->tensors[tensor].model_tensor;

    return m >= 0 && t->plan->model->tensors[m].kind != PDL_TENSOR_BUFFER;
}

static bool add_states(pdl_trainer *t, int tensor)
{
    int m = t->plan->tensors[tensor].model_tensor;
    const char *name = train_is_far(t, tensor) ? t->plan->model->tensors[m].name
                                               : t->plan->tensors[tensor].name;
    int n = train_tuner_states(t), first = t->nstates;
    bool away = t->device && !train_is_far(t, tensor);

    add_state(t, tensor, name, t->arrays[tensor].dtype,
              train_data(t, tensor, TRAIN_UPDATE));
    t->states[t->nstates - 1].weight = true;
    t->states[t->nstates - 1].learned = is_learned(t, tensor);
    t->states[t->nstates - 1].cut = has_parts(t, tensor);
    for (int k = 0; k < n; k++) {
        enum pdl_dtype dtype;
        void *data = train_tuner_state(t, tensor, k, &dtype);
        const char *full =
            k == n - 1 ? pdl_arena_printf(t->arena, "master.%s", name)
                       : pdl_arena_printf(t->arena, "optimizer%d.%s", k, name);

        if (!full)
            return false;
        if (data)
            add_state(t, tensor, full, dtype, data);
    }
    for (int i = first; away && i < t->nstates; i++)
        if (!mirror(t, i))
            return false;
    return add_kept(t, tensor);
}

enum pdl_status train_state_open(pdl_trainer *t, struct pdl_err *err)
{
    int64_t n = 0;

    for (int i = 0; i < t->plan->ntensors; i++)
        n += train_is_state(t, i);
    n = n * (2 + train_tuner_states(t)) + 1;
    t->states = PDL_NEW(t->arena, struct pdl_train_state, n);
    t->state_at = PDL_NEW(t->arena, void *, n);
    if (!t->states || !t->state_at)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the state");
    for (int i = 0; i < t->plan->ntensors; i++)
        if (train_is_state(t, i) &&
            train_has_stage(t, t->plan->tensors[i].stage) && !add_states(t, i))
            return pdl_fail(err, PDL_ENOMEM, "out of memory for the state");
    return PDL_OK;
}

void train_state_close(pdl_trainer *t)
{
    for (int i = 0; i < t->nstates; i++)
        if (t->state_at[i])
            free(t->states[i].part.data);
}

enum pdl_status pdl_trainer_fetch(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = t->far ? train_settled(t, err) : PDL_OK;

    if (st != PDL_OK) /* weights may still come in */
        return st;
    for (int i = 0; i < t->nstates; i++)
        if (t->state_at[i])
            train_get_later(t, t->states[i].part.data, t->state_at[i],
                            state_bytes(&t->states[i].part));
    return train_settled(t, err);
}

enum pdl_status train_state_send(pdl_trainer *t, struct pdl_err *err)
{
    for (int i = 0; i < t->nstates; i++)
        if (t->state_at[i])
            train_put(t, t->state_at[i], t->states[i].part.data,
                      state_bytes(&t->states[i].part));
    return train_settled(t, err);
}

const struct pdl_train_state *pdl_trainer_state(const pdl_trainer *t, int i)
{
    return i >= 0 && i < t->nstates ? &t->states[i] : NULL;
}

/* ---- running statistics ----------------------------------------------- */

/* Factors over which ranks keep statistics of their own: those that cut the
 * samples or rows of x and do not share sums. */
static uint32_t own_statistics(const struct pdl_plan *p, int node)
{
    const struct pdl_plan_op *o = &p->ops[p->forward_op[node]];
    const struct pdl_place *x = &p->tensors[o->in[0]].place;
    const struct pdl_plan_tensor *y = &p->tensors[o->out[0]];
    uint32_t set = 0;

    for (int f = 0; f < p->mesh->nfactors; f++) {
        bool shared =
            y->kind == PDL_PLAN_STATISTIC && y->place.at[f] == PDL_PARTIAL;

        if (x->at[f] >= 0 && x->at[f] != 1 && !shared)
            set |= UINT32_C(1) << f;
    }
    return set;
}

static bool is_batch_norm(const struct pdl_plan *p, int node)
{
    return pdl_op_id(p->model->nodes[node].op) == PDL_ID_BATCH_NORM &&
           p->forward_op[node] >= 0;
}

static int64_t ranks_apart(const struct pdl_plan *p, int node)
{
    uint32_t set = is_batch_norm(p, node) ? own_statistics(p, node) : 0;
    int64_t n = 1;

    for (int f = 0; f < p->mesh->nfactors; f++)
        n *= set >> f & 1 ? p->mesh->factor[f] : 1;
    return n;
}

int64_t train_norm_groups(const struct pdl_plan *p, int node)
{
    return ranks_apart(p, node) * train_norm_groups_here(p, node);
}

int64_t train_norm_groups_here(const struct pdl_plan *p, int node)
{
    int64_t n = p->strategy->bn_groups;

    return n > 0 && is_batch_norm(p, node) ? n / ranks_apart(p, node) : 1;
}

static enum pdl_status average(pdl_trainer *t, int node, int tensor,
                               struct pdl_err *err)
{
    uint32_t group = own_statistics(t->plan, node);
    const struct train_array *a = &t->arrays[tensor];
    struct train_run r;
    enum pdl_status st;
    pdl_comm *c = NULL;

    if (!group || train_array_elements(a) == 0)
        return PDL_OK;
    st = train_group(t, group, NULL, &c, err);
    if (st != PDL_OK || !c)
        return st;
    r = (struct train_run){.from = train_data(t, tensor, TRAIN_UPDATE),
                           .to = train_data(t, tensor, TRAIN_UPDATE),
                           .bytes = train_array_bytes(a),
                           .dtype = a->dtype};
    return train_sum_now(t, c, &r, PDL_COMM_AVG, err);
}

enum pdl_status pdl_trainer_settle(pdl_trainer *t, struct pdl_err *err)
{
    const struct pdl_plan *p = t->plan;
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < p->ntensors && st == PDL_OK; i++) {
        int m = p->tensors[i].model_tensor;

        if (p->tensors[i].kind != PDL_PLAN_WEIGHT || m < 0 ||
            !train_has_stage(t, p->tensors[i].stage) ||
            p->model->tensors[m].kind != PDL_TENSOR_BUFFER)
            continue;
        for (int n = 0; n < p->model->nnodes && st == PDL_OK; n++)
            for (int j = 0; j < p->model->nodes[n].nweights; j++)
                if (p->model->nodes[n].weights[j] == m && p->forward_op[n] >= 0)
                    st = average(t, n, i, err);
    }
    return st;
}

/* ---- back again ------------------------------------------------------- */

static enum pdl_status same_shape(const struct pdl_train_part *p,
                                  const struct pdl_ckpt_tensor *c,
                                  struct pdl_err *err)
{
    bool same = c->rank == p->ndims && c->dtype == p->dtype;

    for (int d = 0; same && d < p->ndims; d++)
        same = c->dim[d] == p->dim[d];
    if (same)
        return PDL_OK;
    if (c->dtype == p->dtype)
        return pdl_fail(err, PDL_EINVAL, "%s: the checkpoint has another shape",
                        p->name);
    pdl_fail(err, PDL_EINVAL, "%s: is %s in the checkpoint, %s here", p->name,
             pdl_dtype_name(c->dtype), pdl_dtype_name(p->dtype));
    pdl_hint(err, "--precision as it was; '--load' takes weights of any");
    return PDL_EINVAL;
}

/* Its optimizer has no such state. */
static enum pdl_status not_there(const struct pdl_train_part *p,
                                 const pdl_ckpt *ckpt, struct pdl_err *err)
{
    const struct pdl_ckpt_state *s = pdl_ckpt_state(ckpt);

    pdl_fail(err, PDL_EINVAL, "%s: has no %s", pdl_ckpt_path(ckpt), p->name);
    for (int i = 0; i < s->nsettings; i++)
        if (strncmp(p->name, "optimizer", 9) == 0 &&
            strcmp(s->settings[i].name, "optimizer") == 0)
            pdl_hint(err, "it was made with --optimizer %.60s",
                     s->settings[i].value);
    return PDL_EINVAL;
}

static enum pdl_status read_state(const struct pdl_train_part *p,
                                  const pdl_ckpt *ckpt, int k,
                                  struct pdl_err *err)
{
    enum pdl_status st;

    if (k < 0)
        return not_there(p, ckpt, err);
    st = same_shape(p, pdl_ckpt_tensor(ckpt, k), err);
    if (st == PDL_OK && !pdl_box_empty(&p->box))
        st = pdl_ckpt_read(ckpt, k, &p->box, p->data, err);
    return st;
}

enum pdl_status pdl_trainer_restore(pdl_trainer *t, const pdl_ckpt *ckpt,
                                    struct pdl_err *err)
{
    enum pdl_status st = pdl_trainer_fetch(t, err); /* not all is replaced */

    for (int i = 0; i < t->nstates && st == PDL_OK; i++) {
        const struct pdl_train_part *p = &t->states[i].part;
        int k = pdl_ckpt_find(ckpt, p->name);

        if (t->states[i].optional &&
            (k < 0 || same_shape(p, pdl_ckpt_tensor(ckpt, k), NULL) != PDL_OK))
            continue;
        st = read_state(p, ckpt, k, err);
    }
    return st == PDL_OK ? train_state_send(t, err) : st;
}

enum pdl_status pdl_trainer_restore_weights(pdl_trainer *t,
                                            const pdl_ckpt *ckpt, bool *mean,
                                            struct pdl_err *err)
{
    enum pdl_status st = pdl_trainer_fetch(t, err); /* not all is replaced */
    bool wanted = *mean;

    *mean = false;
    for (int i = 0; i < t->nstates && st == PDL_OK; i++) {
        const struct pdl_train_part *p = &t->states[i].part;
        int k = pdl_ckpt_find(ckpt, p->name), m;
        char name[300];

        if (!t->states[i].weight)
            continue;
        snprintf(name, sizeof name, "ema.%.290s", p->name);
        m = wanted ? pdl_ckpt_find(ckpt, name) : -1;
        if (m >= 0 && pdl_ckpt_tensor(ckpt, m)->dtype == p->dtype)
            k = m, *mean = true;
        st = read_state(p, ckpt, k, err);
    }
    return st == PDL_OK ? train_state_send(t, err) : st;
}
