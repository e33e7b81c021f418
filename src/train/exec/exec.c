/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor: opens one rank of a plan (everything prepared once: boxes,
 * kernels, exchanges, memory) and runs steps. It decides nothing; order,
 * exchanges and lifetimes are the plan's. */
#include "train/train_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OPERANDS = 80 };

/* ---- opening ---------------------------------------------------------- */

static enum pdl_status check(const struct pdl_plan *p, pdl_comm *comm,
                             struct pdl_err *err)
{
    if (pdl_schedule_copies(p->strategy->schedule) > 1)
        return pdl_fail(err, PDL_EINVAL,
                        "a pipeline that is entered at both ends can be "
                        "projected, not run");
    if (p->mesh->pes != pdl_comm_size(comm))
        return pdl_fail(err, PDL_EINVAL, "the plan is for %lld ranks, not %d",
                        (long long)p->mesh->pes, pdl_comm_size(comm));
    if (p->model->nunknown > 0)
        return pdl_fail(err, PDL_EINVAL, "%s: no kernel for operator '%s'",
                        p->model->name, p->model->unknown_ops[0]);
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].nin > MAX_OPERANDS - 3 || p->ops[i].nout > MAX_OPERANDS)
            if (p->ops[i].kind == PDL_PLAN_OP_COMPUTE)
                return pdl_fail(err, PDL_EINVAL, "too many operands");
    return PDL_OK;
}

static enum pdl_status find_backend(pdl_trainer *t, struct pdl_err *err)
{
    const char *name = t->opt.backend;
    struct pdl_suggest s;

    t->backend = &train_ref;
    if (t->device) {
        t->backend = &t->device->kernels;
        return PDL_OK;
    }
    if (!name) { /* the last of the table is the fastest */
        for (int i = 0; train_backend_at(i); i++)
            t->backend = train_backend_at(i);
        return PDL_OK;
    }
    if (train_backend_find(name)) {
        t->backend = train_backend_find(name);
        return PDL_OK;
    }
    pdl_fail(err, PDL_EINVAL, "no backend '%.40s' in this build", name);
    pdl_suggest_init(&s, name);
    for (int i = 0; train_backend_at(i); i++)
        pdl_suggest_try(&s, train_backend_at(i)->name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EINVAL;
}

static enum pdl_status open_device(pdl_trainer *t, struct pdl_err *err)
{
    const char *which = NULL;
    enum pdl_status st =
        train_device_find(t->opt.device, &t->device, &which, err);

    if (st == PDL_OK)
        st = find_backend(t, err);
    if (st != PDL_OK)
        return st;
    if (!t->device)
        return t->backend->open(t->arena, &t->backend_state, err);
    return t->device->open(t->arena, which, t->rank, &t->backend_state, err);
}

/* Both sides of an addition, and a weight and its gradient, have one box. */
static enum pdl_status check_boxes(const pdl_trainer *t, int op,
                                   struct pdl_err *err)
{
    const struct train_op *x = &t->ops[op];

    for (int k = 0; k < x->nin; k++)
        if (train_array_bytes(&t->arrays[x->in[k]]) !=
            train_array_bytes(&t->arrays[x->out[k % x->nout]]))
            return pdl_fail(err, PDL_EWRONG, "%s: operands of unequal size",
                            t->plan->tensors[x->out[k % x->nout]].name);
    return PDL_OK;
}

static enum pdl_status prepare(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < t->plan->nops && st == PDL_OK; i++) {
        if (!t->ops[i].mine || t->ops[i].joined || t->ops[i].kernel)
            continue;
        switch (t->plan->ops[i].kind) {
        case PDL_PLAN_OP_COMPUTE:
            st = train_make_kernel(t, i, err);
            break;
        case PDL_PLAN_OP_ADD:
        case PDL_PLAN_OP_UPDATE:
            st = check_boxes(t, i, err);
            break;
        case PDL_PLAN_OP_FREE:
        case PDL_PLAN_OP_COPY_OUT:
        case PDL_PLAN_OP_COPY_IN:
            break;
        default:
            st = train_prepare_comm(t, i, err);
        }
    }
    return st;
}

static int64_t rounded(int64_t bytes)
{
    return (bytes + 64) / 64 * 64;
}

static enum pdl_status move_in(pdl_trainer *t, struct pdl_err *err)
{
    const pdl_trainer *r = t->opt.room;

    if (t->device || r->device ||
        rounded(t->sizes.arena) + rounded(t->sizes.scratch) > r->opt.guest)
        return pdl_fail(err, PDL_EINVAL,
                        "a trainer on the host that leaves %lld bytes has no "
                        "room for another",
                        (long long)r->opt.guest);
    t->memory = r->memory + r->guest;
    t->scratch = t->memory + rounded(t->sizes.arena);
    return train_far_open(t, err);
}

static enum pdl_status own_memory(int64_t bytes, void **out,
                                  struct pdl_err *err)
{
    *out = aligned_alloc(64, (size_t)rounded(bytes));
    return *out ? PDL_OK : pdl_fail(err, PDL_ENOMEM, "no memory for a buffer");
}

/* Where ranks share a node, in memory that they share: a message is then one
 * copy, from tensor to tensor. */
static enum pdl_status allocate(pdl_trainer *t, struct pdl_err *err)
{
    int64_t sizes[] = {t->sizes.arena, t->sizes.scratch};
    char **to[] = {&t->memory, &t->scratch};

    if (t->opt.room)
        return move_in(t, err);
    for (int i = 0; i < 2; i++) {
        int64_t n = rounded(sizes[i]);
        void *p = NULL;
        enum pdl_status st = train_take(t, n, err);

        if (st == PDL_OK)
            st = t->device      ? t->device->alloc(t->backend_state, n, &p, err)
                 : t->opt.apart ? own_memory(n, &p, err)
                                : pdl_comm_alloc(t->world, n, &p, err);
        *to[i] = p;
        if (st != PDL_OK)
            return st;
        train_fill(t, p, t->opt.poison ? 0xff : 0, n);
    }
    return train_far_open(t, err);
}

static void give_back(pdl_trainer *t)
{
    char *from[] = {t->memory, t->scratch};

    train_staged_close(t);
    for (int i = 0; i < 2 && !t->opt.room; i++)
        if (!t->device && t->opt.apart)
            free(from[i]);
        else if (!t->device)
            (void)!pdl_comm_free(t->world, from[i], NULL);
        else if (t->backend_state)
            t->device->free(t->backend_state, from[i]);
}

/* Loaded tensors have a room each, and a micro-batch's is filled while the one
 * before is on its way. */
static enum pdl_status open_rooms(pdl_trainer *t, struct pdl_err *err)
{
    int64_t n = t->plan->ntensors * t->micros;

    if (!t->device)
        return PDL_OK;
    t->fed = PDL_NEW(t->arena, struct train_room, n + 1);
    if (!t->fed)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for samples");
    for (int64_t i = 0; i < n; i++) {
        t->fed[i].next = t->rooms;
        t->rooms = &t->fed[i];
    }
    return PDL_OK;
}

static enum pdl_status init_weights(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < t->plan->ntensors && st == PDL_OK; i++)
        if (train_is_state(t, i) && !train_tuner_draws(t, i) &&
            train_has_stage(t, t->plan->tensors[i].stage))
            st = train_init_weight(t, i, t->arrays[i].dtype,
                                   train_data(t, i, 0), err);
    return st;
}

static void count_positions(pdl_trainer *t)
{
    for (int i = 0; i < t->plan->nops; i++) {
        const struct pdl_plan_op *o = &t->plan->ops[i];
        int64_t n = 1;

        if (!train_ends_loss(o))
            continue;
        for (int d = 1; d < t->plan->tensors[o->in[1]].ndims; d++)
            n *= t->plan->tensors[o->in[1]].dim[d];
        t->positions += t->opt.labels > 0 ? t->opt.labels : n;
    }
}

static enum pdl_status build(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = open_device(t, err);

    if (st == PDL_OK)
        st = train_tuner_choose(t, err);
    if (st == PDL_OK)
        st = train_program(t, err);
    if (st == PDL_OK)
        st = train_shadows(t, err);
    if (st == PDL_OK)
        st = train_join(t, err);
    if (st == PDL_OK)
        st = prepare(t, err);
    if (st == PDL_OK)
        st = train_far_find(t, err);
    if (st == PDL_OK)
        st = train_plan_memory(t, err);
    if (st == PDL_OK && t->opt.only_size) {
        t->sizes.optimizer = train_tuner_bytes(t, false);
        t->sizes.far += train_tuner_bytes(t, true);
        t->sizes.taken = rounded(t->sizes.arena) + rounded(t->sizes.scratch) +
                         t->sizes.optimizer;
        return PDL_OK;
    }
    if (st == PDL_OK)
        st = allocate(t, err);
    if (st == PDL_OK)
        st = train_find_stretches(t, err);
    if (st == PDL_OK)
        st = train_losses_open(t, err);
    count_positions(t);
    if (st == PDL_OK)
        st = open_rooms(t, err);
    if (st == PDL_OK)
        st = init_weights(t, err);
    if (st == PDL_OK)
        st = train_tuner_open(t, err);
    if (st == PDL_OK)
        st = train_sparse_open(t, err);
    return st == PDL_OK ? train_state_open(t, err) : st;
}

enum pdl_status train_open(const struct pdl_plan *plan, pdl_comm *comm,
                           const struct pdl_train_options *opt,
                           enum train_fault fault, int fault_op,
                           pdl_trainer **out, struct pdl_err *err)
{
    enum pdl_status st = check(plan, comm, err);
    pdl_arena *a;
    pdl_trainer *t;

    if (st != PDL_OK)
        return st;
    a = pdl_arena_create((size_t)8 << 30);
    t = a ? PDL_NEW(a, struct pdl_trainer, 1) : NULL;
    if (!t) {
        pdl_arena_destroy(a);
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a trainer");
    }
    *t = (struct pdl_trainer){.arena = a,
                              .limit = INFINITY,
                              .plan = plan,
                              .world = comm,
                              .opt = *opt,
                              .rank = pdl_comm_rank(comm),
                              .micros = plan->micro_batches,
                              .fault = fault,
                              .fault_op = fault_op};
    t->lane = pdl_plan_rank_lane(plan, t->rank);
    t->loss = (struct train_loss){
        .kind = opt->mean_squares ? TRAIN_MSE : TRAIN_SOFTMAX,
        .smoothing = opt->label_smoothing};
    t->capacity = plan->ntensors + 4 * plan->nops;
    t->arrays = PDL_NEW(a, struct train_array, t->capacity + 1);
    t->ops = PDL_NEW(a, struct train_op, plan->nops + 1);
    t->groups = PDL_NEW(a, struct train_groups, 3 * plan->nops + 1);
    t->most_pending = plan->nops * (int)(t->micros + 2);
    t->pending = PDL_NEW(a, struct train_transfer *, t->most_pending + 1);
    st = t->arrays && t->ops && t->groups && t->pending
             ? build(t, err)
             : pdl_fail(err, PDL_ENOMEM, "out of memory for a trainer");
    if (st != PDL_OK) {
        pdl_trainer_close(t);
        return st;
    }
    *out = t;
    return PDL_OK;
}

enum pdl_status pdl_trainer_open(const struct pdl_plan *plan, pdl_comm *comm,
                                 const struct pdl_train_options *opt,
                                 pdl_trainer **out, struct pdl_err *err)
{
    return train_open(plan, comm, opt, TRAIN_FAULT_NONE, -1, out, err);
}

void pdl_trainer_close(pdl_trainer *t)
{
    if (!t)
        return;
    if (t->backend_state)
        (void)!train_settled(t, NULL);
    train_times_close(t);
    train_sparse_close(t);
    train_close_groups(t);
    train_tuner_close(t);
    train_state_close(t);
    give_back(t);
    train_far_close(t);
    if (t->backend_state)
        train_close_rooms(t);
    if (t->backend_state)
        t->backend->close(t->backend_state);
    pdl_arena_destroy(t->arena);
}

void pdl_trainer_memory(const pdl_trainer *t, struct pdl_train_memory *out)
{
    *out = t->sizes;
}

int64_t pdl_trainer_workspace(const pdl_trainer *t, int op)
{
    const struct train_op *x =
        op >= 0 && op < t->plan->nops ? &t->ops[op] : NULL;

    if (x && x->kernel)
        return x->ring ? x->work_bytes : x->kernel->scratch_bytes;
    return 0;
}

/* ---- running ---------------------------------------------------------- */

/* One pass over the program: of a step, or forward only. */
struct pass {
    const struct pdl_train_feed *feed;
    double lr;
    bool evaluate;
    int64_t first; /* micro-batch whose samples are in slot 0 (evaluation) */
};

struct pdl_train_part train_part_of(const pdl_trainer *t, int tensor, int micro)
{
    const struct pdl_plan_tensor *p = &t->plan->tensors[tensor];
    const struct train_array *a = &t->arrays[tensor];
    struct pdl_train_part part = {.name = p->name,
                                  .dtype = a->dtype,
                                  .ndims = p->ndims,
                                  .box = a->box,
                                  .channels_last = a->channels_last,
                                  .data = train_data(t, tensor, micro)};

    memcpy(part.dim, p->dim, sizeof part.dim);
    return part;
}

static void show(pdl_trainer *t, int op, int micro)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];

    if (!t->opt.watch || o->kind == PDL_PLAN_OP_FREE ||
        o->kind == PDL_PLAN_OP_SEND || train_is_copy(o))
        return;
    for (int k = 0; k < o->nout; k++) {
        if (train_turns(t, o->out[k]))
            continue; /* blocks that have come and gone */

        struct pdl_train_seen seen = {
            .rank = t->rank,
            .step = t->now,
            .micro = micro,
            .op = op,
            .tensor = o->out[k],
            .output = k,
            .part = train_part_of(t, o->out[k], micro)};

        seen.part.data = train_view(t, seen.part.data,
                                    train_array_bytes(&t->arrays[o->out[k]]));
        if (seen.part.data)
            t->opt.watch(t->opt.watch_ctx, &seen);
    }
}

static bool is_dropout(const pdl_trainer *t, int op)
{
    int node = t->plan->ops[op].node;

    return node >= 0 &&
           pdl_op_id(t->plan->model->nodes[node].op) == PDL_ID_DROPOUT;
}

static enum pdl_status compute(pdl_trainer *t, int op, int micro,
                               const struct pass *p, struct pdl_err *err)
{
    struct train_op *x = &t->ops[op];
    void *in[MAX_OPERANDS], *out[MAX_OPERANDS];
    int64_t m = p->evaluate ? p->first : micro;
    double from = x->slow ? pdl_clock_s() : 0;
    struct train_moment when = {
        .seed = t->opt.seed,
        .step = t->now,
        .first_sample =
            t->now * t->plan->batch + m * (t->plan->batch / t->micros),
        .evaluate = p->evaluate || (t->opt.no_dropout && is_dropout(t, op)),
        .again = x->again};
    enum pdl_status st;

    if (x->ring)
        return train_ring_run(t, op, micro, &when, err);
    for (int k = 0; k < x->nin; k++)
        in[k] = train_data(t, x->in[k], micro);
    for (int k = 0; k < x->nout; k++)
        out[k] = train_data(t, x->out[k], micro);
    st = x->kernel->run(x->kernel, in, out, train_work(t, op, micro), &when,
                        err);
    x->slow_s += x->slow ? pdl_clock_s() - from : 0;
    if (t->fault == TRAIN_FAULT_HOST_READS && t->fault_op == op)
        (void)*(const volatile char *)out[0];
    if (st == PDL_OK && train_ends_loss(&t->plan->ops[op]))
        st = train_losses_take(t, op, (int)m, micro, err);
    if (st == PDL_OK && t->weights && !p->evaluate &&
        train_ends_loss(&t->plan->ops[op]))
        train_losses_weigh(t, op, (int)m, micro);
    return st;
}

static void add(pdl_trainer *t, int op, int micro)
{
    const struct train_op *x = &t->ops[op];
    const struct train_array *a = &t->arrays[x->out[0]];
    void *to = train_data(t, x->out[0], micro);

    train_sum_of(t, a->dtype, to, train_data(t, x->in[0], micro),
                 train_data(t, x->in[1], micro), train_array_elements(a));
}

/* What the operation reads has come; what it frees has left. */
static enum pdl_status wait_far(pdl_trainer *t, int op, int micro,
                                struct pdl_err *err)
{
    bool frees = t->plan->ops[op].kind == PDL_PLAN_OP_FREE;
    enum pdl_status st = PDL_OK;

    for (int k = 0; k < t->ops[op].nin && st == PDL_OK; k++)
        st = train_far_wait(t, t->ops[op].in[k], micro, frees, err);
    return st;
}

static enum pdl_status run_op(pdl_trainer *t, int op, int micro,
                              const struct pass *p, struct pdl_err *err)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];
    double start = p->evaluate ? 0 : train_time_begin(t, op);
    enum pdl_status st = t->far ? wait_far(t, op, micro, err) : PDL_OK;

    if (st != PDL_OK || (p->evaluate && train_is_copy(o)))
        return st;
    switch (t->ops[op].joined ? PDL_PLAN_OP_FREE : o->kind) {
    case PDL_PLAN_OP_COMPUTE:
        st = compute(t, op, micro, p, err);
        break;
    case PDL_PLAN_OP_ADD:
        if (t->ops[op].kernel) /* of a group that begins with it */
            st = compute(t, op, micro, p, err);
        else
            add(t, op, micro);
        break;
    case PDL_PLAN_OP_UPDATE:
        st = train_tuner_update(t, op, p->lr, err);
        break;
    case PDL_PLAN_OP_FREE:
        for (int k = 0; k < t->ops[op].nin; k++)
            train_release(t, t->ops[op].in[k], micro);
        return PDL_OK;
    case PDL_PLAN_OP_COPY_OUT:
    case PDL_PLAN_OP_COPY_IN:
        st = train_far_copy(t, op, micro, err);
        break;
    default:
        st = train_run_comm(t, op, micro, err);
    }
    if (!p->evaluate)
        train_time_end(t, op, micro, start);
    if (st == PDL_OK)
        show(t, op, micro);
    if (st == PDL_OK && t->hunting && !train_is_copy(o))
        train_hunt(t, op, micro);
    return st;
}

static enum pdl_status load(pdl_trainer *t, int micro, const struct pass *p,
                            struct pdl_err *err)
{
    int64_t staged = p->evaluate ? p->first : micro;
    struct train_loading l = {.feed = p->feed,
                              .micro = micro,
                              .first = staged * (t->plan->batch / t->micros),
                              .staged = staged};

    return train_load(t, &l, err);
}

static void accumulate(pdl_trainer *t, const struct train_action *s)
{
    const struct train_array *a = &t->arrays[s->op];
    void *sum = train_data(t, s->op, TRAIN_UPDATE);
    const void *one = train_data(t, s->op, s->micro);

    if (s->first)
        train_move(t, sum, one, train_array_bytes(a));
    else
        train_sum(t, a->dtype, sum, one, train_array_elements(a));
}

static enum pdl_status act(pdl_trainer *t, const struct train_action *s,
                           const struct pass *p, struct pdl_err *err)
{
    switch (s->kind) {
    case TRAIN_LOAD:
        return load(t, s->micro, p, err);
    case TRAIN_OP:
        return run_op(t, s->op, s->micro, p, err);
    case TRAIN_ACCUMULATE:
        accumulate(t, s);
        return PDL_OK;
    case TRAIN_WAIT:
        return train_wait_sends(t, s->micro, err);
    case TRAIN_START:
        return train_is_copy(&t->plan->ops[s->op])
                   ? train_far_begin(t, s->op, err)
                   : train_start_bucket(t, s->op, err);
    case TRAIN_MEASURE:
        return train_tuner_measure(t, p->lr, err);
    }
    return PDL_OK;
}

static enum pdl_status act_all(pdl_trainer *t, int from, int to,
                               const struct pass *p, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = from; i < to && st == PDL_OK; i++)
        st = act(t, &t->steps[i], p, err);
    return st;
}

/* What the device keeps of the program, by one word of the host. */
static enum pdl_status act_stretch(pdl_trainer *t, struct train_stretch *s,
                                   int from, const struct pass *p,
                                   struct pdl_err *err)
{
    int to = train_stretch_end(s);
    enum pdl_status st = PDL_OK;

    if (train_stretch_hold(t, s))
        train_stretch_held(t, s, act_all(t, from, to, p, err) == PDL_OK);
    if (train_stretch_again(t, s, &st, err))
        return st;
    return act_all(t, from, to, p, err);
}

/* Forward and backward of all micro-batches; the index of what follows. */
static enum pdl_status run_batch(pdl_trainer *t, const struct pass *p,
                                 int *next, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    struct train_stretch *s;
    int i = 0;

    train_losses_clear(t);
    for (int k = 0; k < t->plan->nops; k++)
        t->ops[k].begun = false;
    for (; i < t->nsteps && st == PDL_OK; i++) {
        if (t->steps[i].micro == TRAIN_UPDATE && t->steps[i].kind != TRAIN_WAIT)
            break;
        s = t->hunting || train_is_timed(t) ? NULL : train_stretch_at(t, i);
        st = s ? act_stretch(t, s, i, p, err) : act(t, &t->steps[i], p, err);
        i = s ? train_stretch_end(s) - 1 : i;
        if (st == PDL_OK && (t->npending > 0 || t->sparse))
            st = train_poll(t, err);
    }
    t->passes++;
    *next = i;
    return st;
}

void pdl_trainer_limit(pdl_trainer *t, double loss)
{
    t->limit = loss;
}

static enum pdl_status refuse_loss(const pdl_trainer *t, double loss,
                                   struct pdl_err *err)
{
    return pdl_fail(err, PDL_EWRONG,
                    "step %lld: the loss is %g, above the limit of %g",
                    (long long)t->now, loss, t->limit);
}

enum pdl_status pdl_trainer_step(pdl_trainer *t, int64_t step, double lr,
                                 const struct pdl_train_feed *feed,
                                 struct pdl_train_result *out,
                                 struct pdl_err *err)
{
    struct pass p = {.feed = feed, .lr = lr};
    enum pdl_status st;
    int i;

    t->now = step;
    train_staged_turn(t, feed);
    st = run_batch(t, &p, &i, err);
    if (st == PDL_OK)
        st = train_stage(t, feed, err);
    if (st == PDL_OK)
        st = train_losses_sum(t, t->plan->batch, out, err);
    if (st == PDL_OK && !isfinite(out->loss)) {
        st = train_wait_buckets(t, err);
        t->hunting = true;
        if (st == PDL_OK)
            st = run_batch(t, &p, &i, err);
        if (st == PDL_OK)
            st = train_wait_buckets(t, err);
        t->hunting = false;
        return st == PDL_OK ? train_hunt_end(t, out->loss, err) : st;
    }
    if (st == PDL_OK && out->loss > t->limit) {
        st = train_wait_buckets(t, err);
        return st == PDL_OK ? refuse_loss(t, out->loss, err) : st;
    }
    t->grad_norm = NAN;
    for (; i < t->nsteps && st == PDL_OK; i++)
        st = act(t, &t->steps[i], &p, err);
    out->grad_norm = t->grad_norm;
    if (st == PDL_OK)
        st = train_times_tell(t, err);
    if (st == PDL_OK && t->skips && !(t->opt.loss_scale > 0))
        st = pdl_fail(err, PDL_EWRONG,
                      "step %lld: the norm of the gradient is %g, the loss %g",
                      (long long)t->now, t->grad_norm, out->loss);
    return st;
}

static enum pdl_status run_forward(pdl_trainer *t,
                                   const struct pdl_plan_stage *s,
                                   const struct pass *p, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = s->first_forward; i < s->first_forward + s->nforward; i++)
        for (int k = 0; k < t->plan->items[i].nops && st == PDL_OK; k++)
            st = run_op(t, t->plan->items[i].first_op + k, 0, p, err);
    return st;
}

/* Micro-batches one after another, all in the memory of the first. */
enum pdl_status pdl_trainer_evaluate(pdl_trainer *t, int64_t samples,
                                     const struct pdl_train_feed *feed,
                                     struct pdl_train_result *out,
                                     struct pdl_err *err)
{
    struct pass p = {.feed = feed, .evaluate = true};
    double smoothing = t->loss.smoothing;
    enum pdl_status st = PDL_OK;

    t->loss.smoothing = 0; /* it is a way to train, not to judge */
    train_losses_clear(t);
    train_staged_turn(t, feed);
    for (p.first = 0; p.first < t->micros && st == PDL_OK; p.first++) {
        st = load(t, 0, &p, err);
        for (int s = train_next_stage(t, -1); s >= 0;
             s = train_next_stage(t, s))
            if (st == PDL_OK)
                st = run_forward(t, &t->plan->stages[s], &p, err);
        if (st == PDL_OK)
            st = train_wait_sends(t, -1, err);
    }
    t->loss.smoothing = smoothing;
    if (st == PDL_OK)
        st = train_stage(t, feed, err);
    return st == PDL_OK ? train_losses_sum(t, samples, out, err) : st;
}
