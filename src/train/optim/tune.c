/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizer on this rank's parts of the weights. Weights in bfloat16 have
 * a float32 master here. Norms (clipping, LARS, LAMB) are sums of squares
 * over the whole model: each box is counted by the lowest rank that holds it,
 * so that replicas count once, and one table is added over all ranks. */
#include "train/optim/optim.h"
#include "train/train_priv.h"

#ifdef _OPENMP
#include <omp.h>
#endif
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct slot { /* of a plan tensor that is learned */
    bool here, owner, no_decay, frozen;
    void *master;
    void *state[TRAIN_MAX_STATES];
};

struct train_tuner {
    const struct train_optimizer *how;
    struct train_hyper hyper;
    struct slot *slots; /* by plan tensor */
    double *norms;      /* TRAIN_NORMS by model tensor */
    double *cells;      /* TRAIN_NORMS by plan tensor, on the device */
    double *sums;       /* what they hold, on the host */
    double factor;      /* of the gradient: clipping, loss scale */
    struct train_scaler scaler;
};

/* ---- what the user asked for ------------------------------------------ */

#define AT(field) offsetof(struct train_hyper, field)
// clang-format off
static const struct key {
    const char *name;
    size_t offset;
    bool flag;
    double below; /* from 0; a mean that forgets nothing never moves */
} keys[] = {
    {"momentum",     AT(momentum),     false, 1   },
    {"dampening",    AT(dampening),    false, 1e6 },
    {"nesterov",     AT(nesterov),     true,  1e6 },
    {"beta1",        AT(beta1),        false, 1   },
    {"beta2",        AT(beta2),        false, 1   },
    {"eps",          AT(eps),          false, 1e6 },
    {"weight_decay", AT(weight_decay), false, 1e6 },
    {"trust",        AT(trust),        false, 1e6 },
};
// clang-format on
#undef AT

static enum pdl_status set_key(struct train_hyper *h, const char *name,
                               const char *value, struct pdl_err *err)
{
    char *end;
    double v = pdl_strtod(value, &end);
    struct pdl_suggest s;

    pdl_suggest_init(&s, name);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char *field = (char *)h + keys[i].offset;

        pdl_suggest_try(&s, keys[i].name);
        if (strcmp(keys[i].name, name) != 0)
            continue;
        if (end == value || *end)
            return pdl_fail(err, PDL_EINVAL,
                            "optimizer: %.30s=%.30s is no number", name, value);
        if (!(v >= 0 && v < keys[i].below))
            return pdl_fail(err, PDL_EINVAL,
                            "optimizer: %.30s=%.30s: from 0 to below %g", name,
                            value, keys[i].below);
        if (keys[i].flag)
            *(bool *)(void *)field = v != 0;
        else
            *(double *)(void *)field = v;
        return PDL_OK;
    }
    pdl_fail(err, PDL_EINVAL, "optimizer: no setting '%.30s'", name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EINVAL;
}

enum pdl_status train_optimizer_parse(pdl_arena *a, const char *text,
                                      const struct train_optimizer **how,
                                      struct train_hyper *hyper,
                                      struct pdl_err *err)
{
    char *copy = pdl_arena_strdup(a, text), *item;
    enum pdl_status st = PDL_OK;

    if (!copy)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    item = strchr(copy, ':');
    if (item)
        *item++ = '\0';
    *how = train_optimizer_find(copy);
    if (!*how) {
        struct pdl_suggest s;

        pdl_fail(err, PDL_EINVAL, "no optimizer '%.30s'", copy);
        pdl_suggest_init(&s, copy);
        for (int i = 0; train_optimizer_at(i); i++)
            pdl_suggest_try(&s, train_optimizer_at(i)->name);
        pdl_hint(err, "%s%s", pdl_suggest_best(&s) ? "did you mean " : "try ",
                 pdl_suggest_best(&s) ? pdl_suggest_best(&s) : "sgd or adamw");
        return PDL_EINVAL;
    }
    *hyper = (*how)->defaults;
    while (item && st == PDL_OK) {
        char *next = strchr(item, ','), *value = strchr(item, '=');

        if (next)
            *next++ = '\0';
        if (!value || (next && value > next))
            return pdl_fail(err, PDL_EINVAL,
                            "optimizer: '%.30s' is not KEY=VALUE", item);
        *value++ = '\0';
        st = set_key(hyper, item, value, err);
        item = next;
    }
    return st;
}

enum pdl_status train_tuner_choose(pdl_trainer *t, struct pdl_err *err)
{
    const char *text = t->opt.optimizer ? t->opt.optimizer : "sgd:momentum=0.9";

    t->tuner = PDL_NEW(t->arena, struct train_tuner, 1);
    if (!t->tuner)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the optimizer");
    t->tuner->factor = 1;
    train_scaler_init(&t->tuner->scaler, t->opt.loss_scale,
                      t->opt.loss_scale_steps);
    t->loss.scale = t->tuner->scaler.scale;
    if (t->opt.loss_scale > 0 && pdl_strategy_compresses(t->plan->strategy))
        return pdl_fail(err, PDL_EINVAL,
                        "a loss scale does not go with compress=: what is kept "
                        "of gradients would have several scales");
    return train_optimizer_parse(t->arena, text, &t->tuner->how,
                                 &t->tuner->hyper, err);
}

bool train_tuner_measures(const pdl_trainer *t)
{
    return t->opt.clip > 0 || t->opt.loss_scale > 0 || t->opt.grad_norm ||
           t->tuner->how->norms;
}

/* ---- what does not change --------------------------------------------- */

/* Marks what one pattern matches; false: nothing. */
static bool freeze(pdl_trainer *t, const char *pattern)
{
    bool some = false;

    for (int i = 0; i < t->plan->ntensors; i++) {
        int m = t->plan->tensors[i].model_tensor;

        if (m < 0 || !train_is_state(t, i) ||
            fnmatch(pattern, t->plan->model->tensors[m].name, 0) != 0)
            continue;
        t->tuner->slots[i].frozen = some = true;
    }
    return some;
}

static enum pdl_status freeze_all(pdl_trainer *t, struct pdl_err *err)
{
    char *copy = pdl_arena_strdup(t->arena, t->opt.freeze ? t->opt.freeze : "");
    char *next;

    if (!copy)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the optimizer");
    for (char *item = copy; item && *item; item = next) {
        struct pdl_suggest s;

        next = strchr(item, ',');
        if (next)
            *next++ = '\0';
        if (freeze(t, item))
            continue;
        pdl_fail(err, PDL_EINVAL, "--freeze: no weight is called '%.60s'",
                 item);
        pdl_suggest_init(&s, item);
        for (int i = 0; i < t->plan->model->ntensors; i++)
            if (t->plan->model->tensors[i].kind == PDL_TENSOR_WEIGHT)
                pdl_suggest_try(&s, t->plan->model->tensors[i].name);
        pdl_hint(err, pdl_suggest_best(&s) ? "did you mean '%s'?" : "try '%s*'",
                 pdl_suggest_best(&s) ? pdl_suggest_best(&s) : "layers.0.");
        return PDL_EINVAL;
    }
    return PDL_OK;
}

/* ---- state ------------------------------------------------------------ */

static enum pdl_dtype state_type(const struct train_array *a)
{
    return a->dtype == PDL_F64 ? PDL_F64 : PDL_F32;
}

/* Vectors are the weights of a normalisation, or biases. */
static bool is_spared(const pdl_trainer *t, int tensor)
{
    const struct pdl_model *m = t->plan->model;
    bool norm = false;

    if (tensor < 0 || m->tensors[tensor].rank != 1)
        return false;
    for (int i = 0; i < m->nnodes && !norm; i++)
        for (int k = 0; k < m->nodes[i].nweights; k++)
            norm |= m->nodes[i].weights[k] == tensor &&
                    (m->nodes[i].op->flags & PDL_OP_NORM) != 0;
    return norm ? t->opt.spare_norms : t->opt.spare_biases;
}

/* Bytes of one state of a weight, and of its master. */
static int64_t state_bytes(const pdl_trainer *t, int tensor)
{
    const struct train_array *a = &t->arrays[tensor];

    return (train_array_elements(a) + 1) * pdl_dtype_bits(state_type(a)) / 8;
}

static int64_t master_bytes(const pdl_trainer *t, int tensor)
{
    const struct train_array *a = &t->arrays[tensor];

    return a->dtype == PDL_BF16
               ? (train_array_elements(a) + 1) * (int64_t)sizeof(float)
               : 0;
}

/* Sums that a device makes of each gradient. */
static int64_t cell_bytes(const pdl_trainer *t)
{
    return train_tuner_measures(t)
               ? ((int64_t)TRAIN_NORMS * t->plan->ntensors + 1) *
                     (int64_t)sizeof(double)
               : 0;
}

int64_t train_tuner_bytes(const pdl_trainer *t, bool far)
{
    int64_t n = far ? 0 : cell_bytes(t);

    for (int i = 0; i < t->plan->nops; i++) {
        const struct pdl_plan_op *o = &t->plan->ops[i];

        for (int k = 0; t->ops[i].mine && k < o->nout; k++)
            if (o->kind == PDL_PLAN_OP_UPDATE &&
                train_is_far(t, o->out[k]) == far)
                n += t->tuner->how->nstates * state_bytes(t, o->out[k]) +
                     master_bytes(t, o->out[k]);
    }
    return n;
}

/* Zeros where the weight is updated. */
static enum pdl_status take(pdl_trainer *t, int tensor, int64_t bytes,
                            void **out, struct pdl_err *err)
{
    if (!train_is_far(t, tensor)) {
        t->sizes.optimizer += bytes;
        return train_take_memory(t, bytes, out, err);
    }
    t->sizes.far += bytes;
    *out = calloc((size_t)bytes, 1);
    return *out ? PDL_OK
                : pdl_fail(err, PDL_ENOMEM, "out of memory for the optimizer");
}

static void give(pdl_trainer *t, int tensor, void *p)
{
    if (train_is_far(t, tensor))
        free(p);
    else
        train_give_memory(t, p);
}

static enum pdl_status open_slot(pdl_trainer *t, int tensor,
                                 struct pdl_err *err)
{
    struct train_tuner *u = t->tuner;
    struct slot *s = &u->slots[tensor];
    int64_t each = state_bytes(t, tensor), master = master_bytes(t, tensor);
    enum pdl_status st = PDL_OK;

    s->here = true;
    s->owner = train_is_owner(t, tensor);
    s->no_decay = is_spared(t, t->plan->tensors[tensor].model_tensor);
    for (int k = 0; k < u->how->nstates && st == PDL_OK; k++)
        st = take(t, tensor, each, &s->state[k], err);
    return master > 0 && st == PDL_OK ? take(t, tensor, master, &s->master, err)
                                      : st;
}

/* The master is not rounded, the weight is the master rounded. */
bool train_tuner_draws(const pdl_trainer *t, int tensor)
{
    bool updated = false;

    for (int i = 0; i < t->plan->nops && !updated; i++)
        for (int k = 0; t->ops[i].mine && k < t->ops[i].nout; k++)
            updated |= t->plan->ops[i].kind == PDL_PLAN_OP_UPDATE &&
                       t->plan->ops[i].out[k] == tensor;
    return updated && master_bytes(t, tensor) > 0 && !train_is_far(t, tensor);
}

static enum pdl_status draw(pdl_trainer *t, int tensor, struct pdl_err *err)
{
    void *master = t->tuner->slots[tensor].master;
    enum pdl_status st = train_init_weight(t, tensor, PDL_F32, master, err);

    if (st == PDL_OK && train_tuner_draws(t, tensor))
        train_narrow(t, master, train_data(t, tensor, 0),
                     train_array_elements(&t->arrays[tensor]));
    return st;
}

static enum pdl_status open_cells(pdl_trainer *t, struct pdl_err *err)
{
    int64_t n = cell_bytes(t) / (int64_t)sizeof(double);
    void *p = NULL;
    enum pdl_status st;

    if (n == 0)
        return PDL_OK;
    st = train_take_memory(t, cell_bytes(t), &p, err);
    t->tuner->cells = p;
    t->tuner->sums = t->device ? PDL_NEW(t->arena, double, n) : p;
    if (st == PDL_OK && !t->tuner->sums)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory for the optimizer");
    return st;
}

enum pdl_status train_tuner_open(pdl_trainer *t, struct pdl_err *err)
{
    struct train_tuner *u = t->tuner;
    const struct pdl_model *m = t->plan->model;
    enum pdl_status st = PDL_OK;

    u->slots = PDL_NEW(t->arena, struct slot, t->plan->ntensors + 1);
    u->norms = PDL_NEW(t->arena, double, TRAIN_NORMS * m->ntensors + 1);
    if (!u->slots || !u->norms)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the optimizer");
    for (int i = 0; i < t->plan->nops; i++) {
        const struct pdl_plan_op *o = &t->plan->ops[i];

        if (!t->ops[i].mine || o->kind != PDL_PLAN_OP_UPDATE)
            continue;
        for (int k = 0; k < o->nout && st == PDL_OK; k++) {
            st = open_slot(t, o->out[k], err);
            if (st == PDL_OK && u->slots[o->out[k]].master)
                st = draw(t, o->out[k], err);
        }
    }
    if (st == PDL_OK)
        st = freeze_all(t, err);
    return st == PDL_OK ? open_cells(t, err) : st;
}

void train_tuner_close(pdl_trainer *t)
{
    for (int i = 0; t->tuner && t->tuner->slots && i < t->plan->ntensors; i++) {
        give(t, i, t->tuner->slots[i].master);
        for (int k = 0; k < TRAIN_MAX_STATES; k++)
            give(t, i, t->tuner->slots[i].state[k]);
    }
    if (t->tuner)
        train_give_memory(t, t->tuner->cells);
}

/* What a checkpoint needs of a weight besides itself. */
int train_tuner_states(const pdl_trainer *t)
{
    return t->tuner->how->nstates + 1;
}

void *train_tuner_state(const pdl_trainer *t, int tensor, int k,
                        enum pdl_dtype *dtype)
{
    const struct slot *s = &t->tuner->slots[tensor];

    if (k == t->tuner->how->nstates) {
        *dtype = PDL_F32;
        return s->master;
    }
    *dtype = state_type(&t->arrays[tensor]);
    return s->state[k];
}

/* ---- steps ------------------------------------------------------------ */

static struct train_shard shard_of(const pdl_trainer *t, int weight, int grad)
{
    const struct slot *s = &t->tuner->slots[weight];
    void *w = train_data(t, weight, TRAIN_UPDATE);
    struct train_shard x = {.n = train_array_elements(&t->arrays[weight]),
                            .dtype = state_type(&t->arrays[weight]),
                            .grad_dtype = t->arrays[grad].dtype,
                            .w = s->master ? s->master : w,
                            .g = train_data(t, grad, TRAIN_UPDATE),
                            .copy = s->master ? w : NULL,
                            .no_decay = s->no_decay};

    memcpy(x.state, s->state, sizeof x.state);
    return x;
}

enum { SPAN_W, SPAN_G, SPAN_REST }; /* states, copy; of sums the cell first */

static struct train_shard shard_at(const struct train_tuning *x,
                                   void *const *at)
{
    struct train_shard s = x->shard;
    int k = SPAN_REST;

    s.w = at[SPAN_W];
    s.g = at[SPAN_G];
    for (int i = 0; i < TRAIN_MAX_STATES; i++)
        s.state[i] = x->has[i] ? at[k++] : NULL;
    s.copy = x->has[2] ? at[k] : NULL;
    return s;
}

/* Elements from..to of a shard. */
static struct train_shard piece_of(const struct train_shard *s, int64_t from,
                                   int64_t to)
{
    int64_t each = pdl_dtype_bits(s->dtype) / 8,
            grad = pdl_dtype_bits(s->grad_dtype) / 8;
    struct train_shard p = *s;

    p.n = to - from;
    p.w = (char *)s->w + from * each;
    p.g = (const char *)s->g + from * grad;
    for (int i = 0; i < TRAIN_MAX_STATES; i++)
        p.state[i] = s->state[i] ? (char *)s->state[i] + from * each : NULL;
    p.copy = s->copy ? s->copy + from : NULL;
    return p;
}

/* Element by element: threads have whole chunks each, and no bit depends on
 * how many there are. */
static void run_apply(const void *args, void *const *at)
{
    const struct train_tuning *x = args;
    struct train_shard s = shard_at(x, at);
    int64_t chunks = (s.n + TRAIN_CHUNK - 1) / TRAIN_CHUNK, threads = 1;

#ifdef _OPENMP
    threads = omp_get_max_threads();
#endif
    threads = chunks / 256 < threads ? chunks / 256 : threads;
    if (threads < 2) {
        x->how->apply(&x->hyper, &x->step, &s, x->sums);
        return;
    }
#pragma omp parallel for num_threads((int)threads) schedule(static, 1)
    for (int64_t t = 0; t < threads; t++) {
        int64_t from = chunks * t / threads * TRAIN_CHUNK,
                to = chunks * (t + 1) / threads * TRAIN_CHUNK;
        struct train_shard p = piece_of(&s, from, to < s.n ? to : s.n);

        x->how->apply(&x->hyper, &x->step, &p, x->sums);
    }
}

static void run_norms(const void *args, void *const *at)
{
    const struct train_tuning *x = args;
    struct train_shard s = shard_at(x, at + 1);
    double *cell = at[0];

    memset(cell, 0, TRAIN_NORMS * sizeof *cell);
    x->how->norms(&x->hyper, &x->step, &s, cell);
}

static void run_squares(const void *args, void *const *at)
{
    const struct train_tuning *x = args;
    struct train_shard s = shard_at(x, at + 1);

    *(double *)at[0] = train_grad_squares(&s);
}

static const struct train_work apply_work = {"update", run_apply},
                               norms_work = {"norms", run_norms},
                               squares_work = {"squares", run_squares};

/* What is far the host does at once, the device the rest in its turn. */
static void launch(pdl_trainer *t, bool far, const struct train_task *task)
{
    void *at[TRAIN_SPANS];

    if (!far) {
        train_launch(t, task);
        return;
    }
    for (int i = 0; i < task->n; i++)
        at[i] = task->span[i].at;
    task->work->run(task->args, at);
}

static void tune(pdl_trainer *t, bool far, const struct train_work *work,
                 double *cell, struct train_tuning *x)
{
    int64_t n = x->shard.n, wide = pdl_dtype_bits(x->shard.dtype) / 8;
    int64_t narrow = pdl_dtype_bits(x->shard.grad_dtype) / 8;
    struct train_task task = {
        .work = work, .args = x, .args_bytes = sizeof *x, .n = 0};
    struct train_span *s = task.span;

    if (cell)
        s[task.n++] = (struct train_span){
            cell, TRAIN_NORMS * (int64_t)sizeof *cell, true, true};
    s[task.n++] = (struct train_span){x->shard.w, n * wide, true, true};
    s[task.n++] = (struct train_span){(void *)(uintptr_t)x->shard.g, n * narrow,
                                      true, false};
    for (int k = 0; k < TRAIN_MAX_STATES; k++) {
        x->has[k] = x->shard.state[k] != NULL;
        if (x->has[k])
            s[task.n++] =
                (struct train_span){x->shard.state[k], n * wide, true, true};
    }
    x->has[2] = x->shard.copy != NULL;
    if (x->has[2])
        s[task.n++] = (struct train_span){x->shard.copy, n * 2, false, true};
    launch(t, far, &task);
}

static struct train_step step_of(const pdl_trainer *t, double lr)
{
    return (struct train_step){t->now + 1, lr, t->tuner->factor};
}

void train_tuner_try(pdl_trainer *t, const struct train_shard *s)
{
    struct train_tuning one = {.how = t->tuner->how,
                               .hyper = t->tuner->hyper,
                               .step = step_of(t, 1e-3),
                               .shard = *s};

    tune(t, true, &apply_work, NULL, &one);
}

static enum pdl_status add_over_ranks(pdl_trainer *t, double *v, int64_t n,
                                      struct pdl_err *err)
{
    enum pdl_status st;

    if (pdl_comm_size(t->world) == 1)
        return PDL_OK;
    st = train_transfer_flush(t, err);
    if (st != PDL_OK)
        return st;
    return pdl_comm_allreduce(t->world, v, v, n, PDL_COMM_F64, PDL_COMM_SUM,
                              err);
}

static double *cell_of(const pdl_trainer *t, int tensor)
{
    return t->tuner->cells + (ptrdiff_t)TRAIN_NORMS * tensor;
}

static const double *sums_of(const pdl_trainer *t, int tensor)
{
    return t->tuner->sums + (ptrdiff_t)TRAIN_NORMS * tensor;
}

static void fetch_cells(pdl_trainer *t)
{
    train_get(t, t->tuner->sums, t->tuner->cells,
              (int64_t)sizeof(double) * TRAIN_NORMS * t->plan->ntensors);
}

/* A look at every gradient and its weight: those of the device first, whose
 * sums then come to the host, which has the others. */
static enum pdl_status look_at_all(pdl_trainer *t,
                                   const struct train_work *work, bool owners,
                                   const struct train_tuning *how,
                                   struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int far = 0; far < 2; far++) {
        for (int i = 0; i < t->plan->nops; i++) {
            const struct train_op *x = &t->ops[i];

            if (!x->mine || t->plan->ops[i].kind != PDL_PLAN_OP_UPDATE)
                continue;
            for (int k = 0; k < x->nout && st == PDL_OK; k++) {
                int w = x->out[k], g = x->in[x->nout + k];
                struct train_tuning one = *how;

                if (train_is_far(t, w) != (far == 1) ||
                    (owners &&
                     (!t->tuner->slots[w].owner || t->tuner->slots[w].frozen)))
                    continue;
                if (far)
                    st = train_far_arrived(t, g, err);
                one.shard = shard_of(t, w, g);
                if (st == PDL_OK)
                    tune(t, far, work,
                         far ? (double *)(uintptr_t)sums_of(t, w)
                             : cell_of(t, w),
                         &one);
            }
        }
        if (!far)
            fetch_cells(t);
    }
    return st;
}

static enum pdl_status measure_clip(pdl_trainer *t, struct pdl_err *err)
{
    double squares = 0, scale = t->tuner->scaler.scale;
    enum pdl_status st;

    t->tuner->factor = 1;
    t->skips = false;
    if (!(t->opt.clip > 0) && !(t->opt.loss_scale > 0) && !t->opt.grad_norm)
        return PDL_OK;
    st = look_at_all(t, &squares_work, true,
                     &(struct train_tuning){.how = NULL}, err);
    if (st != PDL_OK)
        return st;
    for (int i = 0; i < t->plan->nops; i++)
        for (int k = 0; t->ops[i].mine && k < t->ops[i].nout; k++)
            if (t->plan->ops[i].kind == PDL_PLAN_OP_UPDATE &&
                t->tuner->slots[t->ops[i].out[k]].owner &&
                !t->tuner->slots[t->ops[i].out[k]].frozen)
                squares += sums_of(t, t->ops[i].out[k])[0];
    st = add_over_ranks(t, &squares, 1, err);
    squares /= scale * scale;
    t->grad_norm = sqrt(squares);
    t->tuner->factor = train_clip_factor(squares, t->opt.clip) / scale;
    if (t->opt.loss_scale > 0)
        t->skips = !train_scaler_next(&t->tuner->scaler, squares);
    else
        t->skips = !isfinite(squares); /* no weight is worth that */
    t->loss.scale = t->tuner->scaler.scale;
    return st;
}

static void take_norms(pdl_trainer *t)
{
    for (int i = 0; i < t->plan->nops; i++)
        for (int k = 0; t->ops[i].mine && k < t->ops[i].nout; k++) {
            int w = t->ops[i].out[k], m = t->plan->tensors[w].model_tensor;

            if (t->plan->ops[i].kind == PDL_PLAN_OP_UPDATE &&
                t->tuner->slots[w].owner)
                memcpy(&t->tuner->norms[(ptrdiff_t)TRAIN_NORMS * m],
                       sums_of(t, w), TRAIN_NORMS * sizeof(double));
        }
}

/* On every rank: it may change the optimizer's state. */
static enum pdl_status measure_norms(pdl_trainer *t, double lr,
                                     struct pdl_err *err)
{
    struct train_tuner *u = t->tuner;
    int64_t n = (int64_t)TRAIN_NORMS * t->plan->model->ntensors;
    enum pdl_status st;

    if (!u->how->norms || t->skips)
        return PDL_OK;
    memset(u->norms, 0, (size_t)n * sizeof u->norms[0]);
    st = look_at_all(
        t, &norms_work, false,
        &(struct train_tuning){
            .how = u->how, .hyper = u->hyper, .step = step_of(t, lr)},
        err);
    if (st != PDL_OK)
        return st;
    take_norms(t);
    return add_over_ranks(t, u->norms, n, err);
}

/* The caller's turn: gradients are whole, nothing has been made of them. */
static enum pdl_status adjust(pdl_trainer *t, int op, struct pdl_err *err)
{
    const struct train_op *x = &t->ops[op];
    enum pdl_status st = PDL_OK;

    for (int k = 0; t->opt.adjust && k < x->nout && st == PDL_OK; k++) {
        int g = x->in[x->nout + k];
        bool far = train_is_far(t, x->out[k]);
        int64_t bytes = train_array_bytes(&t->arrays[g]);
        struct pdl_train_part part = train_part_of(t, g, TRAIN_UPDATE);
        void *at = part.data;

        if (far)
            st = train_far_arrived(t, g, err);
        if (st == PDL_OK && !far)
            part.data = train_view(t, at, bytes);
        if (st != PDL_OK || !part.data)
            return st == PDL_OK ? train_settled(t, err) : st;
        t->opt.adjust(t->opt.adjust_ctx, x->in[k], &part);
        if (part.data != at)
            train_put(t, at, part.data, bytes);
    }
    return st;
}

static enum pdl_status adjust_all(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < t->plan->nops && st == PDL_OK; i++)
        if (t->ops[i].mine && t->plan->ops[i].kind == PDL_PLAN_OP_UPDATE)
            st = adjust(t, i, err);
    return st;
}

enum pdl_status train_tuner_measure(pdl_trainer *t, double lr,
                                    struct pdl_err *err)
{
    enum pdl_status st = adjust_all(t, err);

    if (st == PDL_OK)
        st = measure_clip(t, err);
    return st == PDL_OK ? measure_norms(t, lr, err) : st;
}

enum pdl_status train_tuner_update(pdl_trainer *t, int op, double lr,
                                   struct pdl_err *err)
{
    const struct train_op *x = &t->ops[op];
    struct train_tuner *u = t->tuner;
    struct train_step step = step_of(t, lr);
    enum pdl_status st = PDL_OK;

    if (!train_tuner_measures(t))
        st = adjust(t, op, err);
    for (int k = 0; st == PDL_OK && !t->skips && k < x->nout; k++) {
        int m = t->plan->tensors[x->out[k]].model_tensor;
        bool far = train_is_far(t, x->out[k]);
        struct train_tuning one = {
            .how = u->how,
            .hyper = u->hyper,
            .step = step,
            .shard = shard_of(t, x->out[k], x->in[x->nout + k])};

        if (u->slots[x->out[k]].frozen)
            continue;
        if (far)
            st = train_far_arrived(t, x->in[x->nout + k], err);
        if (st != PDL_OK)
            break;
        memcpy(one.sums, &u->norms[(ptrdiff_t)TRAIN_NORMS * m],
               sizeof one.sums);
        tune(t, far, &apply_work, NULL, &one);
    }
    return st;
}

/* ---- the loss scale, for checkpoints ---------------------------------- */

void train_tuner_scale(const pdl_trainer *t, double *scale, double *good)
{
    *scale = t->tuner->scaler.scale;
    *good = (double)t->tuner->scaler.good;
}

void train_tuner_set_scale(pdl_trainer *t, double scale, double good)
{
    t->tuner->scaler.scale = t->loss.scale = scale;
    t->tuner->scaler.good = (int64_t)good;
}
