/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of plans. A search over configurations of a network of equal blocks
 * prices the same things again and again: a block under so much tensor
 * parallelism, with this micro-batch and this recomputation; the exchange of
 * a stage's gradients over these data ranks. Here they are priced once. No
 * piece has a formula of its own: each is read off a plan that is lowered and
 * priced like any other, of the same network with few blocks,
 *   work    one, or three stages of one or three blocks: forward and backward.
 *           Of three blocks the middle one stands for all between the first
 *           and the last. Micro-batches of another size need no lowering: the
 *           plans of one and of two samples show which dimensions grow;
 *   update  one, or three stages of as many blocks as asked for: gradient
 *           exchange and update, which do not depend on micro-batches and
 *           recomputation. Buckets do not end where blocks do, so nothing is
 *           inferred from fewer blocks.
 * The small plan gets the mesh of the large one (more ranks along the
 * pipeline), so that groups, wires and contention are those of the large one.
 * A stage's ranks are those of its lane; lanes whose groups cross the same
 * wires share pieces. */
#include "pieces_priv.h"

#include <string.h>

/* ---- forward and backward ------------------------------------------------------------ */

/* Operations of a stage's backward that make what its update reads. */
static int *find_makers(struct oracle_pieces *p, const struct small *s,
                        int stage)
{
    const struct pdl_plan_stage *x = &s->stages[stage];
    const struct pdl_plan_item *b = &s->plan.items[x->first_backward];
    const struct pdl_plan_item *e = &b[x->nbackward - 1];
    int *by = PDL_NEW(p->scratch, int, s->plan.ntensors + 1);

    for (int t = 0; by && t < s->plan.ntensors; t++)
        by[t] = -1;
    for (int i = b->first_op; by && i < e->first_op + e->nops; i++)
        for (int k = 0; k < s->plan.ops[i].nout; k++)
            by[s->plan.ops[i].out[k]] = i;
    return by;
}

/* The gradients that the update reads, by the operation that makes them. */
static struct piece_made *gradients_of(struct oracle_pieces *p,
                                       const struct small *s, int stage,
                                       const struct piece_work *w, int part,
                                       int op, const int *by, int *n)
{
    const struct pdl_plan_item *it =
        &s->plan.items[s->stages[stage].first_update];
    int base = stage * w->blocks + (w->parts > 1 ? PIECE_BLOCKS - 1 - part : 0);
    struct piece_made list[16];

    *n = 0;
    for (int i = it->first_op; i < it->first_op + it->nops; i++)
        for (int k = 0; k < s->plan.ops[i].nin; k++) {
            int t = s->plan.ops[i].in[k], id = s->plan.tensors[t].model_tensor;

            if (by[t] != op || id < 0 || *n == 16)
                continue;
            list[(*n)++] = (struct piece_made){
                s->tensor[id], s->round[id] - base, s->round[id] < 0};
        }
    return *n > 0 ? pdl_arena_grow(p->arena, list, (size_t)*n, (size_t)*n,
                                   sizeof list[0])
                  : NULL;
}

static bool makes_gradient(const struct small *s, int op)
{
    const struct pdl_plan_op *x = &s->plan.ops[op];

    return x->nout > 0 &&
           s->plan.tensors[x->out[0]].kind == PDL_PLAN_WEIGHT_GRADIENT;
}

/* One part of backward, operation by operation. */
static bool price_part(struct oracle_pieces *p, struct small *s, int stage,
                       int part, const struct oracle_ranks *r, const int *by,
                       struct streams *c, struct pdl_projection *out,
                       struct piece_work *w)
{
    const struct pdl_plan_item *items = s->plan.items;
    struct pdl_plan_item it = items[s->stages[stage].first_backward + part];
    struct pdl_plan_item one = it;
    struct piece_op *list = PDL_NEW(p->scratch, struct piece_op, it.nops + 1);
    int n = 0;

    one.nops = 1;
    s->plan.items = &one;
    for (int i = it.first_op; list && i < it.first_op + it.nops; i++) {
        struct stage_time *t = &w->backward.time[part], before = *t;
        struct piece_op *x = &list[n];

        one.first_op = i;
        oracle_add_items(&s->o, 0, 1, BACKWARD, r, t, c, out);
        x->comm = t->backward_comm > before.backward_comm;
        x->seconds = t->backward - before.backward + t->backward_comm -
                     before.backward_comm;
        x->level = c->level;
        s->plan.items = items;
        if (makes_gradient(s, i))
            x->made = gradients_of(p, s, stage, w, part, i, by, &x->nmade);
        s->plan.items = &one;
        n += x->seconds > 0 || x->nmade > 0;
    }
    s->plan.items = items;
    w->nops[part] = n;
    w->ops[part] = list ? pdl_arena_grow(p->arena, list, (size_t)n,
                                         (size_t)n + 1, sizeof *list)
                        : NULL;
    return w->ops[part] != NULL;
}

static bool price_work(struct oracle_pieces *p, struct small *s, int stage,
                       const struct oracle_ranks *r, struct piece_work *w)
{
    const struct pdl_plan_stage *x = &s->stages[stage];
    struct pdl_projection out = {.reason = ""};
    struct streams c = {.overlap = true};
    const int *by = find_makers(p, s, stage);
    bool ok;

    c.ready = PDL_NEW(p->scratch, double, s->plan.ntensors + 1);
    ok = by && c.ready;
    for (int i = 0; ok && i < w->parts; i++)
        oracle_add_items(&s->o, x->first_forward + i, 1, FORWARD, r,
                         &w->forward.time[i], &c, &out);
    for (int i = 0; ok && i < w->parts; i++)
        ok = price_part(p, s, stage, i, r, by, &c, &out, w);
    w->contention = out.contention;
    return ok;
}

static void live_work(struct small *s, int stage, const struct oracle_ranks *r,
                      struct piece_work *w)
{
    const struct pdl_plan_stage *x = &s->stages[stage];

    w->nranks = r->n;
    for (int i = 0; i < r->n; i++) {
        struct oracle_lived base;
        struct oracle_tally *t;

        w->alike[i] = r->like[i] != i;
        if (w->alike[i]) {
            int k = r->like[i];

            for (int j = 0; j < w->parts; j++) {
                w->forward.span[j][i] = w->forward.span[j][k];
                w->backward.span[j][i] = w->backward.span[j][k];
            }
            w->input[i] = w->input[k];
            w->label[i] = w->label[k];
            w->written[i] = w->written[k];
            continue;
        }
        oracle_sizes(&s->o, stage, r->rank[i], s->inside, s->size);
        oracle_lived_base(&s->o, stage, s->size, &base);
        t = oracle_tally_make(&s->o, r->rank[i], s->size, &base);
        for (int j = 0; t && j < w->parts; j++)
            w->forward.span[j][i] =
                oracle_walk(&s->o, stage, x->first_forward + j, 1, false, t);
        for (int j = 0; t && j < w->parts; j++)
            w->backward.span[j][i] =
                oracle_walk(&s->o, stage, x->first_backward + j, 1, true, t);
        w->input[i] = base.input;
        w->label[i] = base.label;
        w->written[i] = oracle_written(&s->o, stage, s->size);
    }
}

/* Ranks of a kind of lane, who does the same work as who. All stages of a
 * small plan are priced on them, so prices are remembered as of one. */
static void ranks_of(const struct kinds *x, const struct small *s, int kind,
                     struct oracle_ranks *r)
{
    *r = *s->o.alike;
    r->stage = 0;
    oracle_small_ranks(s, x->first[kind], r->rank);
}

static enum pdl_status make_work(struct oracle_pieces *p, const struct key *k,
                                 struct piece_works *out, struct pdl_err *err)
{
    struct small *s = oracle_small(p, k, true, err);
    int parts = k->blocks == PIECE_BLOCKS ? PIECE_BLOCKS : 1;
    enum pdl_status st = PDL_OK;
    struct oracle_ranks r;

    if (!s)
        return PDL_EINVAL;
    ranks_of(&p->kinds[0], s, k->lane, &r);
    if (r.n > PIECE_RANKS || (parts > 1 && !oracle_small_cut(p, s)))
        return pdl_fail(err, PDL_EINVAL, "%s: its blocks are not apart",
                        p->f->model->name);
    for (int i = 0; st == PDL_OK && i < s->plan.nstages; i++) {
        out->at[i].blocks = (int)k->blocks;
        out->at[i].parts = parts;
        if (!price_work(p, s, i, &r, &out->at[i]))
            st = pdl_fail(err, PDL_ENOMEM, "out of memory");
        live_work(s, i, &r, &out->at[i]);
    }
    out->load = oracle_loading(&s->o);
    out->load.load_s /= (double)s->plan.micro_batches;
    return st;
}

/* ---- gradient exchange and update ------------------------------------------------------ */

/* What an operation of the update waits for: the latest of its inputs. step:
 * of the update that made a tensor; by: operation of backward. */
static void find_waits(const struct small *s, int op, int stage, int64_t blocks,
                       const int *step, const int *by,
                       const struct piece_step *steps, struct piece_step *out)
{
    const struct pdl_plan_op *x = &s->plan.ops[op];
    int latest = -1;

    out->wait = out->after = -1;
    out->block = -2;
    for (int k = 0; k < x->nin; k++) {
        int t = x->in[k], id = s->plan.tensors[t].model_tensor;

        if (step[t] > 0) {
            int *at = steps[step[t] - 1].run.exchange != out->run.exchange
                          ? &out->wait
                          : &out->after;

            *at = step[t] - 1 > *at ? step[t] - 1 : *at;
        } else if (by[t] > latest && id >= 0) {
            latest = by[t];
            out->block =
                s->round[id] < 0 ? -1 : (int)(s->round[id] - stage * blocks);
            out->tensor = s->tensor[id];
        }
    }
}

static bool price_update(struct oracle_pieces *p, struct small *s, int stage,
                         const struct oracle_ranks *r, struct piece_update *u)
{
    const struct pdl_plan_item *items = s->plan.items;
    struct pdl_plan_stage *at = &s->stages[r->stage], whole = *at;
    struct pdl_plan_item it = items[s->stages[stage].first_update], one = it;
    const int *by = find_makers(p, s, stage);
    int *step = PDL_NEW(p->scratch, int, s->plan.ntensors + 1);
    struct streams c = {.overlap = false};
    struct pdl_projection out = {.reason = ""};
    struct stage_time sum = {0};

    c.ready = PDL_NEW(p->scratch, double, s->plan.ntensors + 1);
    u->steps = PDL_NEW(p->scratch, struct piece_step, it.nops + 1);
    if (!c.ready || !u->steps || !by || !step)
        return false;
    s->plan.items = &one;
    at->first_update = 0; /* a plan of one operation after another */
    one.nops = 1;
    for (int i = it.first_op; i < it.first_op + it.nops; i++) {
        struct piece_step *x = &u->steps[u->n];
        double before = sum.update + sum.gradient_comm;

        one.first_op = i;
        oracle_add_items(&s->o, 0, 1, UPDATE, r, &sum, &c, &out);
        x->run = (struct stream_op){
            .seconds = sum.update + sum.gradient_comm - before,
            .level = c.level,
            .exchange = oracle_is_exchange(&s->o, i, UPDATE),
            .update = true};
        find_waits(s, i, stage, u->blocks, step, by, u->steps, x);
        for (int k = 0; k < s->plan.ops[i].nout; k++)
            step[s->plan.ops[i].out[k]] = u->n + 1;
        /* frees wait, and nobody waits for them */
        u->n += x->run.seconds > 0 || x->run.exchange || x->wait >= 0 ||
                s->plan.ops[i].nout > 0;
    }
    s->plan.items = items;
    *at = whole;
    u->steps = pdl_arena_grow(p->arena, u->steps, (size_t)u->n,
                              (size_t)u->n + 1, sizeof *u->steps);
    u->update = sum.update;
    u->gradient_comm = sum.gradient_comm;
    u->contention = out.contention;
    u->apart = oracle_exposed(&c, 0, sum.update);
    return u->steps != NULL;
}

static void live_update(struct small *s, int stage,
                        const struct oracle_ranks *r, struct piece_update *u)
{
    const struct pdl_plan_stage *x = &s->stages[stage];

    u->nranks = r->n;
    for (int i = 0; i < r->n; i++) {
        struct oracle_lived *l = &u->lived[i];
        struct oracle_tally *t;

        u->alike[i] = r->like[i] != i;
        if (u->alike[i]) {
            *l = u->lived[r->like[i]];
            continue;
        }
        oracle_sizes(&s->o, stage, r->rank[i], s->inside, s->size);
        oracle_lived_base(&s->o, stage, s->size, l);
        t = oracle_tally_make(&s->o, r->rank[i], s->size, l);
        if (t)
            l->update =
                oracle_walk(&s->o, stage, x->first_update, x->nupdate, true, t);
    }
}

/* Of every kind of lane: lowered once, priced on the ranks of each. */
static enum pdl_status make_update(struct oracle_pieces *p, const struct key *k,
                                   struct piece_updates *out,
                                   struct pdl_err *err)
{
    struct small *s = oracle_small(p, k, false, err);
    struct oracle_ranks r;

    if (!s)
        return PDL_EINVAL;
    for (int kind = 0; kind < p->kinds[1].n; kind++) {
        ranks_of(&p->kinds[1], s, kind, &r);
        if (r.n > PIECE_RANKS)
            return pdl_fail(err, PDL_EINVAL, "too many kinds of ranks");
        /* what is remembered is of the ranks before */
        if (kind > 0 && !oracle_memo_make(&s->o))
            return pdl_fail(err, PDL_ENOMEM, "out of memory");
        for (int i = 0; i < s->plan.nstages; i++) {
            struct piece_update *u = &out[kind].at[i];

            u->blocks = k->blocks;
            live_update(s, i, &r, u);
            if (!price_update(p, s, i, &r, u))
                return pdl_fail(err, PDL_ENOMEM, "out of memory");
        }
    }
    return PDL_OK;
}

/* ---- lanes ----------------------------------------------------------------------------- */

/* Do the groups of two lanes cross the same wires, in the update or before? */
static bool same_wires(const struct small *s, int64_t a, int64_t b, bool update)
{
    int64_t ranks[2][ORACLE_MAX_RANKS];
    int n = oracle_small_ranks(s, a, ranks[0]);
    int first = s->plan.items[s->stages[0].first_update].first_op;
    uint32_t seen[8] = {0};
    int nseen = 0;

    oracle_small_ranks(s, b, ranks[1]);
    for (int i = update ? first : 0; i < (update ? s->plan.nops : first); i++) {
        bool again = s->plan.ops[i].group == 0;

        for (int k = 0; k < nseen; k++)
            again = again || seen[k] == s->plan.ops[i].group;
        if (again || nseen == 8)
            continue;
        seen[nseen++] = s->plan.ops[i].group;
        for (int k = 0; k < n; k++)
            if (!oracle_same_wire(&s->o, i, ranks[0][k], ranks[1][k], update))
                return false;
    }
    return true;
}

static enum pdl_status find_kinds(struct oracle_pieces *p, struct pdl_err *err)
{
    struct key k = {.micro = 1, .blocks = 1};
    struct small *s = oracle_small(p, &k, false, err);

    if (!s)
        return PDL_EINVAL;
    for (int u = 0; u < 2; u++)
        for (int64_t l = 0; l < p->mesh.pipe; l++) {
            struct kinds *x = &p->kinds[u];
            int kind = 0;

            while (kind < x->n && !same_wires(s, l, x->first[kind], u))
                kind++;
            if (kind == MAX_KINDS)
                return pdl_fail(err, PDL_EINVAL, "too many kinds of lanes");
            if (kind == x->n)
                x->first[x->n++] = l;
            x->of[l] = kind;
        }
    return PDL_OK;
}

int oracle_piece_lane(const struct oracle_pieces *p, int64_t lane, bool update)
{
    return p->kinds[update].of[lane];
}

/* ---- tables --------------------------------------------------------------------------- */

static uint64_t hash(const struct key *k)
{
    uint64_t h = (uint64_t)k->micro * 1000003 + (uint64_t)k->blocks;

    h = h * 31 + (uint64_t)k->recompute;
    h = h * 31 + (uint64_t)k->lane * 4 + (uint64_t)k->zero * 2 + k->many;
    return h * UINT64_C(0x9e3779b97f4a7c15);
}

/* The entry of a key; a full table forgets. */
static struct entry *find(struct entry *table, const struct key *k)
{
    size_t h = (size_t)(hash(k) >> 40) % TABLE;

    for (int i = 0; i < TABLE; i++, h = (h + 1) % TABLE)
        if (!table[h].used || oracle_same_key(&table[h].key, k))
            return &table[h];
    memset(table, 0, TABLE * sizeof *table);
    return &table[(size_t)(hash(k) >> 40) % TABLE];
}

struct oracle_pieces *oracle_pieces_make(pdl_arena *a, pdl_arena *scratch,
                                         const struct oracle_family *f,
                                         const struct oracle_point *x)
{
    struct oracle_pieces *p = PDL_NEW(a, struct oracle_pieces, 1);

    if (!p)
        return NULL;
    p->f = f;
    p->mesh = *x;
    p->arena = a;
    p->scratch = scratch;
    p->kinds[0].of = PDL_NEW(a, int, x->pipe);
    p->kinds[1].of = PDL_NEW(a, int, x->pipe);
    return p->kinds[0].of && p->kinds[1].of ? p : NULL;
}

enum what { LANES, WORK, PIECES_UPDATE };

/* What a small plan needs is forgotten after one question. */
static enum pdl_status with_scratch(struct oracle_pieces *p, enum what what,
                                    const struct key *k, void *piece,
                                    struct pdl_err *err)
{
    enum pdl_status st;

    double start = pdl_clock_s();

    st = what == LANES  ? find_kinds(p, err)
         : what == WORK ? make_work(p, k, piece, err)
                        : make_update(p, k, piece, err);
    pdl_arena_reset(p->scratch);
    p->count++;
    p->seconds += pdl_clock_s() - start;
    return st;
}

int64_t oracle_piece_count(const struct oracle_pieces *p, double *seconds)
{
    *seconds = p->seconds;
    return p->count;
}

enum pdl_status oracle_piece_lanes(struct oracle_pieces *p, struct pdl_err *err)
{
    enum pdl_status st;

    if (p->refused)
        return pdl_fail(err, PDL_EINVAL, "%s", p->refused);
    if (p->kinds[1].n > 0)
        return PDL_OK;
    st = with_scratch(p, LANES, NULL, NULL, err);
    if (st != PDL_OK && st != PDL_ENOMEM)
        p->refused = pdl_arena_strdup(p->arena, err ? err->msg : "");
    return st;
}

static enum pdl_status get(struct oracle_pieces *p, enum what what,
                           const struct key *k, size_t size, const void **out,
                           struct pdl_err *err)
{
    struct entry *e = find(what == WORK ? p->work : p->update, k);
    enum pdl_status st = PDL_OK;

    if (!e->used) {
        void *piece = pdl_arena_alloc(p->arena, 1, size);

        st = piece ? with_scratch(p, what, k, piece, err)
                   : pdl_fail(err, PDL_ENOMEM, "out of memory");
        if (st == PDL_ENOMEM)
            return st;
        *e = (struct entry){.key = *k, .used = true, .piece = piece};
        if (st != PDL_OK)
            e->refused = pdl_arena_strdup(p->arena, err ? err->msg : "");
    } else if (e->refused) {
        return pdl_fail(err, PDL_EINVAL, "%s", e->refused);
    }
    *out = e->piece;
    return st;
}

enum pdl_status oracle_piece_work(struct oracle_pieces *p,
                                  const struct oracle_point *x,
                                  int64_t micro_batches, int64_t blocks,
                                  int lane, const struct piece_works **out,
                                  struct pdl_err *err)
{
    struct key k = {.micro = x->micro,
                    .blocks = blocks > 1 ? PIECE_BLOCKS : 1,
                    .recompute = x->recompute,
                    .lane = lane,
                    .many = micro_batches > 1};
    const void *piece = NULL;
    enum pdl_status st =
        get(p, WORK, &k, sizeof(struct piece_works), &piece, err);

    *out = piece;
    return st;
}

enum pdl_status oracle_piece_update(struct oracle_pieces *p,
                                    const struct oracle_point *x,
                                    int64_t blocks, int lane,
                                    const struct piece_updates **out,
                                    struct pdl_err *err)
{
    struct key k = {.micro = 1, .blocks = blocks, .zero = x->zero};
    const void *piece = NULL;
    const struct piece_updates *kinds;
    enum pdl_status st =
        get(p, PIECES_UPDATE, &k,
            (size_t)p->kinds[1].n * sizeof(struct piece_updates), &piece, err);

    kinds = piece;
    *out = st == PDL_OK ? &kinds[lane] : NULL;
    return st;
}
