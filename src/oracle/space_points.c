/* SPDX-License-Identifier: Apache-2.0
 *
 * Every configuration of a transformer of equal blocks: all pipe x data x
 * tensor on the given PEs, micro-batches, interleaving, sequence parallelism,
 * recomputation, sharded states, overlap, offload, zero-bubble schedules.
 * Composed from pieces (compose.c), so that a point costs microseconds.
 *
 * Exact pruning. Memory is composed for every point, so what fits is counted
 * exactly. The time of a point that does not fit is not composed. One that
 * fits is skipped where the work of one lane, after the forwards and before
 * the backwards of the lanes before it, already takes longer than the last of
 * the best so far: neither the schedule nor exchange can make a step shorter
 * than that.
 *
 * The meshes of one tensor and seq are a task of a thread. All start from the
 * same best so far, that of a few points of every mesh, and know their own
 * besides: counts and answers do not depend on threads. */
#include "pieces.h"
#include "space.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_MESHES = 4096,
    MAX_VALUES = 512,
    FEW = 2,
    MAX_IDLE = 64,
    MAX_FRONT = 256
};

struct kept {
    struct oracle_point point;
    struct pdl_projection x;
    double goal;
    int64_t index; /* of the point: settles ties */
};

/* The best so far: worst first (a heap); or a front, in any order. */
struct best {
    struct kept *list;
    int64_t n, cap;
    bool front;
};

struct mesh {
    struct oracle_point point;
    struct oracle_compose *compose; /* while it is worked on */
    struct best best;
    int64_t first; /* index of its first point */
    int64_t points, evaluated, refused, too_large, too_slow, feasible;
    int64_t pieces;
    double pieces_s;
};

struct points {
    const struct oracle_family *f;
    const struct pdl_search_options *opt;
    pdl_arena *arena;
    struct mesh *mesh;
    int64_t *group, ngroups; /* the first mesh of each tensor and seq */
    int64_t n, top;
    double bar; /* of the goal: what is worse is not among the best */
    bool few;   /* a few points of every mesh */
    int64_t done;
    bool no_memory;
    pdl_arena *idle[MAX_IDLE]; /* emptied, for the next mesh */
    int nidle;
    pthread_mutex_t lock;
};

/* ---- the best -------------------------------------------------------------------- */

static int by_rank(const struct kept *a, const struct kept *b)
{
    if (a->x.feasible != b->x.feasible)
        return b->x.feasible - a->x.feasible;
    if (a->goal != b->goal)
        return a->goal < b->goal ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int compare(const void *a, const void *b)
{
    return by_rank(a, b);
}

static void sink(struct best *b, int64_t at)
{
    for (;;) {
        int64_t worst = at;
        struct kept t;

        for (int64_t k = 2 * at + 1; k <= 2 * at + 2 && k < b->n; k++)
            if (by_rank(&b->list[k], &b->list[worst]) > 0)
                worst = k;
        if (worst == at)
            return;
        t = b->list[at];
        b->list[at] = b->list[worst];
        b->list[worst] = t;
        at = worst;
    }
}

/* Of equal ones the first. What does not fit is on no front; a front with more
 * members than there is room for loses the last. */
static void keep_front(struct best *b, const struct kept *x)
{
    int64_t n = 0;

    for (int64_t i = 0; i < b->n; i++)
        if (oracle_dominates(&b->list[i].x, &x->x) &&
            (!oracle_dominates(&x->x, &b->list[i].x) ||
             b->list[i].index < x->index))
            return;
    for (int64_t i = 0; i < b->n; i++)
        if (!oracle_dominates(&x->x, &b->list[i].x))
            b->list[n++] = b->list[i];
    b->n = n;
    if (x->x.feasible && b->n < b->cap)
        b->list[b->n++] = *x;
}

static void keep(struct best *b, const struct kept *x)
{
    if (b->front) {
        keep_front(b, x);
        return;
    }
    if (b->n < b->cap) {
        b->list[b->n++] = *x;
        for (int64_t i = b->n / 2; b->n == b->cap && i >= 0; i--)
            sink(b, i);
        return;
    }
    if (by_rank(x, &b->list[0]) >= 0)
        return;
    b->list[0] = *x;
    sink(b, 0);
}

/* What a point must not exceed to be among them. */
static double bar_of(const struct best *b)
{
    return b->n == b->cap && b->list[0].x.feasible ? b->list[0].goal : INFINITY;
}

/* Can a step of at least so long with this memory be on the front? */
static bool beaten(const struct best *b, const struct pdl_projection *x,
                   double least)
{
    for (int64_t i = 0; b->front && i < b->n; i++)
        if (b->list[i].x.step_s < least * (1 - 1e-9) &&
            b->list[i].x.peak_bytes <= x->peak_bytes)
            return true;
    return false;
}

/* ---- axes ------------------------------------------------------------------------- */

struct values {
    int64_t v[MAX_VALUES];
    int n;
};

static void add_value(struct values *x, int64_t v)
{
    if (x->n < MAX_VALUES)
        x->v[x->n++] = v;
}

static struct values divisors(int64_t n)
{
    struct values x = {.n = 0};

    for (int64_t i = 1; i <= n; i++)
        if (n % i == 0)
            add_value(&x, i);
    return x;
}

/* Does the framework want as many blocks in every stage? */
static bool cuts_evenly(const struct points *s)
{
    return s->f->plan.split == PDL_SPLIT_BLOCKS;
}

/* As many stages a lane as there are blocks for, where the pipeline divides
 * the micro-batches. */
static struct values chunks_of(const struct points *s,
                               const struct oracle_point *p)
{
    int64_t m = s->opt->batch / (p->data * p->micro);
    struct values x = {.n = 1, .v = {1}};

    for (int64_t v = 2;
         p->pipe > 1 && m % p->pipe == 0 && v * p->pipe <= s->f->layers &&
         v * p->pipe <= ORACLE_MAX_STAGES;
         v++)
        if (!cuts_evenly(s) || s->f->layers % (v * p->pipe) == 0)
            add_value(&x, v);
    return x;
}

static const enum pdl_recompute recomputes[] = {
    PDL_RECOMPUTE_NONE, PDL_RECOMPUTE_SELECTIVE, PDL_RECOMPUTE_FULL};
enum { NRECOMPUTES = sizeof recomputes / sizeof recomputes[0] };

static bool may_overlap(const struct points *s, const struct oracle_point *p)
{
    return p->data > 1 &&
           !(s->f->opt->framework && s->f->opt->framework->no_overlap);
}

/* Are the rates of copies to the host known? */
static bool may_offload(const struct points *s)
{
    const struct pdl_host *h = &s->f->sys->node.host;

    return h->pcie_bytes_per_s > 0 && h->memory_bytes_per_s > 0;
}

/* Zero-bubble schedules of a point: none where stages are interleaved, nor of
 * frameworks that want equal stages (Megatron has none of them). */
static int bubbles(const struct points *s, const struct oracle_point *p)
{
    return p->pipe > 1 && p->chunks == 1 && !cuts_evenly(s) ? 2 : 0;
}

/* Points of one micro-batch, schedule and recomputation: sharded states or
 * not, overlap or not, activations (with a bubble only) and optimizer on the
 * host or not. */
static int64_t variants(const struct points *s, const struct oracle_point *p)
{
    return (int64_t)(p->data > 1 ? 2 : 1) * (may_overlap(s, p) ? 2 : 1) *
           (!may_offload(s) ? 1
            : p->bubble     ? 2
                            : 4);
}

static int64_t count(const struct points *s, struct oracle_point p)
{
    struct values micro = divisors(s->opt->batch / p.data);
    int64_t n = 0;

    for (int i = 0; i < micro.n; i++) {
        struct values chunks;

        p.micro = micro.v[i];
        chunks = chunks_of(s, &p);
        for (int k = 0; k < chunks.n; k++) {
            p.chunks = chunks.v[k];
            for (p.bubble = 0; p.bubble <= bubbles(s, &p); p.bubble++)
                n += NRECOMPUTES * variants(s, &p);
        }
    }
    return n;
}

/* ---- pricing ----------------------------------------------------------------------- */

static enum pdl_status price(struct points *s, struct mesh *m,
                             const struct oracle_point *p, int64_t index,
                             struct pdl_err *err)
{
    struct kept k = {.point = *p, .index = index};
    double least, bar = fmin(s->bar, bar_of(&m->best));
    enum pdl_status st = oracle_compose_least(m->compose, p, &least, err);

    if (st == PDL_OK && s->opt->uncounted && s->opt->goal == PDL_GOAL_TIME &&
        least * (1 - 1e-9) > bar) {
        m->too_slow++;
        return PDL_OK;
    }
    if (st == PDL_OK)
        st = oracle_compose_memory(m->compose, p, &k.x, &least, err);
    if (st != PDL_OK)
        return st;
    m->feasible += k.x.feasible;
    if (!s->opt->exhaustive && !k.x.feasible) {
        m->too_large++;
        return PDL_OK;
    }
    if (!s->opt->exhaustive &&
        ((s->opt->goal == PDL_GOAL_TIME && least * (1 - 1e-9) > bar) ||
         beaten(&m->best, &k.x, least))) {
        m->too_slow++;
        return PDL_OK;
    }
    st = oracle_compose_time(m->compose, p, &k.x, err);
    if (st != PDL_OK)
        return st;
    m->evaluated++;
    k.goal = oracle_goal(s->opt->goal, &k.x, s->f->sys);
    keep(&m->best, &k);
    return PDL_OK;
}

/* Work of one kind, with every choice that leaves it as it is. */
static bool price_variants(struct points *s, struct mesh *m,
                           struct oracle_point p, int64_t *index)
{
    struct pdl_err err = {"", ""};
    int overlap = may_overlap(s, &p), zero = p.data > 1;
    int offload = may_offload(s) && !s->few;
    bool go_on;

    for (int i = 0; i < 4 * (1 + overlap) * (1 + zero); i++) {
        enum pdl_status st;

        p.activations = i / (2 * (1 + zero) * (1 + overlap));
        p.no_overlap = i / (2 * (1 + zero)) % (1 + overlap);
        p.zero = i / 2 % (1 + zero);
        p.optimizer = i % 2;
        if (((p.activations || p.optimizer) && !offload) ||
            (p.activations && p.bubble))
            continue;
        m->points++;
        st = price(s, m, &p, (*index)++, &err);
        if (st == PDL_ENOMEM)
            s->no_memory = true;
        else if (st != PDL_OK)
            m->refused++;
    }
    if (s->few)
        return true;
    pthread_mutex_lock(&s->lock);
    s->done += variants(s, &p);
    go_on = !s->no_memory &&
            (!s->opt->progress || s->opt->progress(s->opt->ctx, s->done, 0));
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

/* All points of a mesh, or those of few micro-batches and the fewest and most
 * chunks, without recomputation. */
static bool price_points(struct points *s, struct mesh *m)
{
    struct oracle_point p = m->point;
    struct values micro = divisors(s->opt->batch / p.data);
    int64_t index = m->first;

    for (int b = 0; b < micro.n && (!s->few || b < FEW); b++) {
        struct values chunks;

        p.micro = micro.v[b];
        chunks = chunks_of(s, &p);
        for (int c = 0; c < chunks.n; c++) {
            p.chunks = chunks.v[c];
            if (s->few && c > 0 && c < chunks.n - 1)
                continue;
            for (int r = 0; r < (s->few ? 1 : NRECOMPUTES); r++) {
                p.recompute = recomputes[r];
                for (p.bubble = 0; p.bubble <= (s->few ? 0 : bubbles(s, &p));
                     p.bubble++)
                    if (!price_variants(s, m, p, &index))
                        return false;
            }
        }
    }
    return true;
}

static pdl_arena *borrow(struct points *s)
{
    pdl_arena *a = NULL;

    pthread_mutex_lock(&s->lock);
    if (s->nidle > 0)
        a = s->idle[--s->nidle];
    pthread_mutex_unlock(&s->lock);
    return a ? a : pdl_arena_create(PDL_ARENA_DEFAULT);
}

static void give_back(struct points *s, pdl_arena *a)
{
    if (a)
        pdl_arena_reset(a);
    pthread_mutex_lock(&s->lock);
    if (a && s->nidle < MAX_IDLE) {
        s->idle[s->nidle++] = a;
        a = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    pdl_arena_destroy(a);
}

/* Pieces are forgotten with the mesh that they belong to. */
static bool price_mesh(struct points *s, struct mesh *m, struct oracle_forms *g)
{
    pdl_arena *a = borrow(s);
    bool go_on;

    m->compose = a ? oracle_compose_make(a, g, s->f, &m->point) : NULL;
    s->no_memory = s->no_memory || !m->compose;
    go_on = m->compose && price_points(s, m);
    m->compose = NULL;
    give_back(s, a);
    return go_on;
}

static bool in_group(const struct mesh *m, const struct mesh *first)
{
    return m->point.tensor == first->point.tensor &&
           m->point.seq == first->point.seq;
}

/* Meshes of one tensor and seq share their small plans. */
static bool price_group(void *ctx, int64_t i)
{
    struct points *s = ctx;
    struct mesh *first = &s->mesh[s->group[i]];
    pdl_arena *a = borrow(s), *scratch = borrow(s);
    struct oracle_forms *g =
        a && scratch ? oracle_forms_make(a, scratch, s->f, &first->point)
                     : NULL;
    bool go_on = g != NULL;

    s->no_memory = s->no_memory || !g;
    for (int64_t k = s->group[i]; go_on && k < s->n; k++)
        if (in_group(&s->mesh[k], first))
            go_on = price_mesh(s, &s->mesh[k], g);
    if (g) {
        const struct oracle_effort *e = oracle_forms_effort(g);

        first->pieces += e->lowered + e->priced;
        first->pieces_s += e->seconds;
    }
    give_back(s, scratch);
    give_back(s, a);
    return go_on;
}

/* ---- meshes ------------------------------------------------------------------------- */

/* What tensor parallelism cuts: heads, or groups of them that share keys. */
static int64_t heads_of(const struct pdl_model *m)
{
    for (int i = 0; i < m->nnodes; i++) {
        const struct pdl_attr *x = &m->nodes[i].attr;

        if (x->heads > 0)
            return x->kv_heads > 0 && x->kv_heads < x->heads ? x->kv_heads
                                                             : x->heads;
    }
    return 1;
}

static bool wants(const struct points *s, enum pdl_axis axis, int64_t n)
{
    struct oracle_space space = {.opt = s->opt};

    return n == 1 || oracle_space_wants(&space, axis);
}

static bool add_mesh(struct points *s, const struct oracle_point *p)
{
    struct mesh *m = &s->mesh[s->n];

    if (s->n == MAX_MESHES)
        return true;
    m->point = *p;
    m->first = s->n > 0 ? m[-1].first + count(s, m[-1].point) : 0;
    s->n++;
    m->best.cap = s->top;
    m->best.front = s->opt->goal == PDL_GOAL_PARETO;
    m->best.list = PDL_NEW(s->arena, struct kept, s->top);
    return m->best.list != NULL;
}

static void find_groups(struct points *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        int64_t k = 0;

        while (k < s->ngroups && !in_group(&s->mesh[i], &s->mesh[s->group[k]]))
            k++;
        if (k == s->ngroups)
            s->group[s->ngroups++] = i;
    }
}

static bool make_meshes(struct points *s)
{
    int64_t pes = s->opt->pes, heads = heads_of(s->f->model);

    for (int64_t t = 1; t <= pes && t <= heads; t++)
        for (int64_t p = 1; pes % t == 0 && heads % t == 0 && p <= pes / t &&
                            p <= s->f->layers;
             p++) {
            int64_t d = pes / t / p;

            if (pes / t % p != 0 || s->opt->batch % d != 0 ||
                !wants(s, PDL_AXIS_TENSOR, t) || !wants(s, PDL_AXIS_PIPE, p) ||
                !wants(s, PDL_AXIS_DATA, d))
                continue;
            for (int seq = 0; seq <= (t > 1 ? 1 : 0); seq++)
                if (!add_mesh(s, &(struct oracle_point){.tensor = t,
                                                        .pipe = p,
                                                        .data = d,
                                                        .expert = 1,
                                                        .context = 1,
                                                        .seq = seq}))
                    return false;
        }
    return true;
}

/* The best of a few points of every mesh: what all of them start from. */
static void set_bar(struct points *s)
{
    struct best all = {.n = 0, .cap = s->top};

    all.list = malloc((size_t)s->top * sizeof *all.list);
    s->few = true;
    pdl_parallel(s->ngroups, s->opt->threads, price_group, s);
    s->few = false;
    for (int64_t i = 0; i < s->n; i++) {
        struct mesh *m = &s->mesh[i];

        for (int64_t k = 0; all.list && k < m->best.n; k++)
            keep(&all, &m->best.list[k]);
        m->best.n = m->points = m->evaluated = m->refused = 0;
        m->too_large = m->too_slow = m->feasible = 0;
    }
    if (all.list)
        s->bar = bar_of(&all);
    free(all.list);
}

/* ---- the answer ----------------------------------------------------------------------- */

static const char *strategy_text(pdl_arena *a, const struct oracle_family *f,
                                 const struct oracle_point *p)
{
    struct pdl_strategy s;
    struct pdl_buf b;
    const char *text;

    oracle_point_strategy(f, p, &s);
    pdl_buf_init(&b);
    pdl_strategy_print(&s, &b.sink);
    text = pdl_arena_strdup(a, b.text);
    pdl_buf_free(&b);
    return text;
}

static enum pdl_status collect(pdl_arena *a, struct points *s,
                               struct pdl_search_result *out,
                               struct pdl_err *err)
{
    struct best all = {.cap = s->top, .front = s->opt->goal == PDL_GOAL_PARETO};

    all.list = PDL_NEW(a, struct kept, s->top);
    out->list = PDL_NEW(a, struct pdl_found, s->top);
    if (!all.list || !out->list)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int64_t i = 0; i < s->n; i++) {
        const struct mesh *m = &s->mesh[i];

        for (int64_t k = 0; k < m->best.n; k++)
            keep(&all, &m->best.list[k]);
        out->points += count(s, m->point);
        out->evaluated += m->evaluated;
        out->refused += m->refused;
        out->too_large += m->too_large;
        out->too_slow += m->too_slow;
        out->feasible += m->feasible;
        out->pieces += m->pieces;
        out->pieces_s += m->pieces_s;
    }
    out->pruned = out->refused + out->too_large + out->too_slow;
    qsort(all.list, (size_t)all.n, sizeof all.list[0], compare);
    for (int64_t i = 0; i < all.n; i++) {
        out->list[i] = (struct pdl_found){
            .strategy = strategy_text(a, s->f, &all.list[i].point),
            .priced = true,
            .x = all.list[i].x,
            .goal = all.list[i].goal};
        if (!out->list[i].strategy)
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    out->n = all.n;
    return PDL_OK;
}

static const struct pdl_space_axis axes[] = {
    {"mesh", "pipe x data x tensor = PEs; tensor divides the heads (of keys), "
             "pipe is at most the number of blocks, data divides the batch"},
    {"seq", "off|on (with tensor)"},
    {"micro-batch", "every divisor of batch / data"},
    {"interleaving", "every number of stages a lane, v = 1 .. blocks / pipe "
                     "(of frameworks that want equal stages: divisors); v > 1 "
                     "where pipe divides the micro-batches"},
    {"recompute", "none|selective|full"},
    {"zero", "0|1 (with data)"},
    {"overlap", "on|off (with data, unless the framework never does)"},
    {"schedule", "1f1b|zb-h1|zb-h2 (with pipe, not interleaved, unless the "
                 "framework wants equal stages)"},
    {"offload", "none|activations|optimizer|both (where the system says what "
                "copies to the host cost; activations: not zb)"},
};

static enum pdl_status search(pdl_arena *a, struct points *s,
                              struct pdl_search_result *out,
                              struct pdl_err *err)
{
    s->group = PDL_NEW(a, int64_t, MAX_MESHES);
    if (!s->group || !make_meshes(s))
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    find_groups(s);
    if (!s->opt->exhaustive && s->opt->goal == PDL_GOAL_TIME)
        set_bar(s);
    out->stopped = !pdl_parallel(s->ngroups, s->opt->threads, price_group, s);
    if (s->no_memory)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    return collect(a, s, out, err);
}

enum pdl_status oracle_search_points(pdl_arena *a,
                                     const struct oracle_family *f,
                                     const struct pdl_search_options *opt,
                                     struct pdl_search_result *out,
                                     struct pdl_err *err)
{
    struct points s = {.f = f,
                       .opt = opt,
                       .arena = a,
                       .top = opt->goal == PDL_GOAL_PARETO ? MAX_FRONT
                              : opt->top > 0               ? opt->top
                                                           : 20,
                       .bar = INFINITY,
                       .lock = PTHREAD_MUTEX_INITIALIZER};
    struct pdl_search_options all = *opt;
    enum pdl_status st;

    s.mesh = PDL_NEW(a, struct mesh, MAX_MESHES);
    if (!s.mesh)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = search(a, &s, out, err);
    while (s.nidle > 0)
        pdl_arena_destroy(s.idle[--s.nidle]);
    out->axes = axes;
    out->naxes = sizeof axes / sizeof axes[0];
    /* where nothing fits, the best of what does not */
    if (st == PDL_OK && out->n == 0 && out->too_large > 0 && !out->stopped &&
        !opt->uncounted) {
        struct pdl_search_result second = {.list = NULL};

        all.exhaustive = true;
        st = oracle_search_points(a, f, &all, &second, err);
        out->list = second.list;
        out->n = second.n;
    }
    return st;
}
