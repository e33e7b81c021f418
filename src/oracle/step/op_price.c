/* SPDX-License-Identifier: Apache-2.0
 *
 * The price of an operation: that of the slowest rank, for which all others
 * wait. Of the representatives (ranks.c) those are looked at that differ from
 * the ones before in what a price depends on: the extents of their parts, and
 * for a collective the wires; messages by boxes also depend on where the parts
 * lie.
 *
 * What was priced before is remembered. A network repeats itself: the layers of
 * a transformer, the blocks of a residual network. Two operations cost the same
 * when they do the same thing (kind, pass, operator, attributes) to tensors
 * of the same form (sizes, placement, halo, type), on the ranks of one stage;
 * compute.c and comm.c look at nothing else. Forms are numbered once; prices
 * are kept in a table that forgets: an entry that is overwritten is computed
 * again. Of a form it is also known which ranks have parts of equal extents:
 * most operations look the same on most ranks. */
#include "oracle/oracle_priv.h"

#include <string.h>

struct price {
    int op;  /* + 1; 0: empty */
    int age; /* of the memo when it was entered; older ones are forgotten */
    bool gradient;
    int stage;
    struct oracle_price price;
};

struct size {
    int form; /* + 1; 0: empty */
    int age;
    int64_t rank, bytes;
};

enum { PRICES = 1024, SIZES = 2048 };

struct oracle_seen {
    int age; /* what was entered before is forgotten */
    struct price price[PRICES];
    struct size size[SIZES];
};

struct oracle_memo {
    int *form;      /* of each tensor: the first tensor of the same form */
    uint8_t **part; /* of each form, once asked for: of each rank the first with
                       equal extents */
    struct oracle_seen *seen;
};

struct oracle_seen *oracle_seen_make(pdl_arena *a)
{
    return PDL_NEW(a, struct oracle_seen, 1);
}

/* ---- forms ------------------------------------------------------------ */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t hash_form(const struct oracle *o,
                          const struct pdl_plan_tensor *t)
{
    uint64_t h =
        mix((uint64_t)t->kind << 8 | (uint64_t)t->dtype, (uint64_t)t->ndims);

    uint64_t place = 0;

    for (int d = 0; d < t->ndims; d++)
        h = mix(h, (uint64_t)(t->dim[d] ^ t->unit[d] << 32));
    for (int f = 0; f < o->p->mesh->nfactors; f++)
        place = place * 16 + (uint64_t)(t->place.at[f] + 4);
    return mix(h, place);
}

static bool same_form(const struct oracle *o, const struct pdl_plan_tensor *a,
                      const struct pdl_plan_tensor *b)
{
    size_t n = (size_t)a->ndims * sizeof a->dim[0];

    return a->some == b->some && a->of == b->of && a->kind == b->kind &&
           a->host == b->host && a->dtype == b->dtype && a->ndims == b->ndims &&
           memcmp(a->dim, b->dim, n) == 0 && memcmp(a->unit, b->unit, n) == 0 &&
           memcmp(a->place.at, b->place.at, (size_t)o->p->mesh->nfactors) ==
               0 &&
           (a->frame == b->frame ||
            memcmp(a->frame, b->frame, (size_t)a->ndims * sizeof a->frame[0]) ==
                0);
}

bool oracle_memo_make(struct oracle *o, struct oracle_seen *seen)
{
    int n = o->p->ntensors, nslots = 64, *slot;

    while (nslots < 2 * n)
        nslots *= 2;
    o->memo = PDL_NEW(o->arena, struct oracle_memo, 1);
    slot = PDL_NEW(o->arena, int, nslots);
    if (o->memo) {
        o->memo->seen = seen;
        o->memo->form = PDL_NEW(o->arena, int, n + 1);
        o->memo->part = PDL_NEW(o->arena, uint8_t *, n + 1);
    }
    if (!seen || !o->memo || !slot || !o->memo->form || !o->memo->part)
        return false;
    for (int i = 0; i < n; i++) {
        const struct pdl_plan_tensor *t = &o->p->tensors[i];
        size_t s = (size_t)(hash_form(o, t) & (uint64_t)(nslots - 1));

        while (slot[s] && !same_form(o, t, &o->p->tensors[slot[s] - 1]))
            s = (s + 1) & (size_t)(nslots - 1);
        if (!slot[s])
            slot[s] = i + 1;
        o->memo->form[i] = slot[s] - 1;
    }
    return true;
}

bool oracle_prepare(struct oracle *o)
{
    /* what follows grows with the tensors; then keys and sizes of ranks */
    pdl_arena_expect(o->arena, sizeof(struct oracle_seen) +
                                   (size_t)o->p->ntensors * 96 + (160 << 10));
    o->wires = PDL_NEW(o->arena, struct oracle_wire, ORACLE_WIRES);
    o->quickest = PDL_NEW(o->arena, struct oracle_quickest, ORACLE_QUICKEST);
    return o->wires && o->quickest && oracle_find_alike(o) &&
           oracle_memo_make(o, oracle_seen_make(o->arena));
}

/* ---- parts ------------------------------------------------------------ */

static bool same_extents(const struct pdl_box *a, const struct pdl_box *b)
{
    for (int d = 0; d < a->ndims; d++)
        if (a->hi[d] - a->lo[d] != b->hi[d] - b->lo[d])
            return false;
    return true;
}

static void find_parts(const struct oracle *o, int t,
                       const struct oracle_ranks *r, uint8_t *part)
{
    struct pdl_box box[ORACLE_MAX_RANKS];

    for (int i = 0; i < r->n; i++) {
        int k = r->like[i];

        if (k != i) {
            part[i] = part[k];
            continue;
        }
        pdl_plan_box(o->p, t, r->rank[i], &box[i]);
        for (k = 0; k < i; k++)
            if (r->like[k] == k && part[k] == k &&
                same_extents(&box[k], &box[i]))
                break;
        part[i] = (uint8_t)k;
    }
}

/* NULL: out of memory. */
static const uint8_t *parts_of(const struct oracle *o, int t,
                               const struct oracle_ranks *r)
{
    uint8_t **part = &o->memo->part[o->memo->form[t]];

    if (!*part) {
        *part = PDL_NEW(o->arena, uint8_t, r->n);
        if (*part)
            find_parts(o, t, r, *part);
    }
    return *part;
}

/* Those that are like each other so far and have equal parts of these. */
static bool narrow(const struct oracle *o, const int *tensor, int n,
                   const struct oracle_ranks *r, uint8_t *as)
{
    for (int t = 0; t < n; t++) {
        const uint8_t *part = parts_of(o, tensor[t], r);
        uint8_t old[ORACLE_MAX_RANKS];

        if (!part)
            return false;
        if (memcmp(part, as, (size_t)r->n) == 0)
            continue;
        memcpy(old, as, (size_t)r->n);
        for (int i = 0; i < r->n; i++) {
            int k = r->like[i] == i ? 0 : i;

            while (k < i &&
                   (r->like[k] != k || old[k] != old[i] || part[k] != part[i]))
                k++;
            as[i] = r->like[i] == i ? (uint8_t)k : as[r->like[i]];
        }
    }
    return true;
}

int64_t oracle_bytes(const struct oracle *o, int t, int64_t rank)
{
    int bits = pdl_dtype_bits(o->p->tensors[t].dtype);
    struct size *s;
    int form;

    if (!o->memo)
        return pdl_plan_elements(o->p, t, rank) * bits / 8;
    form = o->memo->form[t];
    s = &o->memo->seen->size[mix((uint64_t)form, (uint64_t)rank) % SIZES];
    if (s->form != form + 1 || s->rank != rank || s->age != o->memo->seen->age)
        *s = (struct size){form + 1, o->memo->seen->age, rank,
                           pdl_plan_elements(o->p, t, rank) * bits / 8};
    return s->bytes;
}

/* ---- prices ----------------------------------------------------------- */

static bool same_forms(const struct oracle *o, const struct pdl_plan_op *a,
                       const struct pdl_plan_op *b)
{
    const int *form = o->memo->form;

    if (a->nin != b->nin || a->nout != b->nout)
        return false;
    for (int k = 0; k < a->nin; k++)
        if (form[a->in[k]] != form[b->in[k]])
            return false;
    for (int k = 0; k < a->nout; k++)
        if (form[a->out[k]] != form[b->out[k]])
            return false;
    return true;
}

/* All passes of a node contract what its forward operation contracts. */
static const struct pdl_plan_op *forward_of(const struct oracle *o,
                                            const struct pdl_plan_op *x)
{
    int op = x->node >= 0 ? o->p->forward_op[x->node] : -1;

    return op >= 0 ? &o->p->ops[op] : NULL;
}

static bool same_parts(const struct oracle *o, int op,
                       const struct oracle_ranks *r, uint8_t *as)
{
    const struct pdl_plan_op *x = &o->p->ops[op], *f;

    memset(as, 0, (size_t)r->n);
    if (!o->memo || !narrow(o, x->in, x->nin, r, as) ||
        !narrow(o, x->out, x->nout, r, as))
        return false;
    f = x->kind == PDL_PLAN_OP_COMPUTE ? forward_of(o, x) : NULL;
    return !f || f == x ||
           (narrow(o, f->in, f->nin, r, as) &&
            narrow(o, f->out, f->nout, r, as));
}

static bool same_numbers(const int64_t *a, const int64_t *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

bool oracle_same_attr(const struct pdl_attr *a, const struct pdl_attr *b)
{
    return same_numbers(a->kernel, b->kernel, PDL_MAX_SPATIAL) &&
           same_numbers(a->stride, b->stride, PDL_MAX_SPATIAL) &&
           same_numbers(a->dilation, b->dilation, PDL_MAX_SPATIAL) &&
           same_numbers(a->pad, b->pad, PDL_MAX_SPATIAL) &&
           same_numbers(a->pad_end, b->pad_end, PDL_MAX_SPATIAL) &&
           same_numbers(a->output_pad, b->output_pad, PDL_MAX_SPATIAL) &&
           same_numbers(a->dims, b->dims, PDL_MAX_RANK) &&
           a->ndims == b->ndims && a->groups == b->groups &&
           a->features == b->features && a->no_bias == b->no_bias &&
           a->ceil_mode == b->ceil_mode && a->count_pad == b->count_pad &&
           a->keep_dims == b->keep_dims && a->heads == b->heads &&
           a->kv_heads == b->kv_heads && a->head_dim == b->head_dim &&
           a->v_head_dim == b->v_head_dim && a->window == b->window &&
           a->causal == b->causal && a->experts == b->experts &&
           a->topk == b->topk && a->ffn == b->ffn && a->gated == b->gated &&
           a->vocab == b->vocab && a->axis == b->axis && a->scale == b->scale;
}

static bool same_node(const struct oracle *o, const struct pdl_plan_op *a,
                      const struct pdl_plan_op *b)
{
    const struct pdl_node *x, *y;
    const struct pdl_plan_op *f, *g;

    if (a->node < 0 || b->node < 0 || a->node == b->node)
        return a->node == b->node;
    x = &o->p->model->nodes[a->node];
    y = &o->p->model->nodes[b->node];
    f = forward_of(o, a);
    g = forward_of(o, b);
    return x->op == y->op && oracle_same_attr(&x->attr, &y->attr) && f && g &&
           same_forms(o, f, g) &&
           oracle_shared(o, a->node) == oracle_shared(o, b->node) &&
           (a->node == o->p->model->nnodes - 1) ==
               (b->node == o->p->model->nnodes - 1);
}

static bool same_op(const struct oracle *o, const struct pdl_plan_op *a,
                    const struct pdl_plan_op *b);

/* Rotations go on beside an attention. */
static bool same_beside(const struct oracle *o, const struct pdl_plan_op *a,
                        const struct pdl_plan_op *b)
{
    int x, y;

    if (a->kind != PDL_PLAN_OP_ROTATE)
        return true;
    x = pdl_plan_rotates_for(o->p, (int)(a - o->p->ops));
    y = pdl_plan_rotates_for(o->p, (int)(b - o->p->ops));
    return x >= 0 && y >= 0 && same_op(o, &o->p->ops[x], &o->p->ops[y]);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_op(const struct oracle *o, const struct pdl_plan_op *a,
                    const struct pdl_plan_op *b)
{
    return same_text(a->compress, b->compress) &&
           same_text(a->algorithm, b->algorithm) && a->kind == b->kind &&
           a->pass == b->pass && a->part == b->part && a->group == b->group &&
           same_forms(o, a, b) && same_node(o, a, b) &&
           oracle_stays_on_lane(o, a) == oracle_stays_on_lane(o, b) &&
           (a->kind != PDL_PLAN_OP_ADD ||
            oracle_joins_fused(o, a) == oracle_joins_fused(o, b)) &&
           same_beside(o, a, b);
}

static uint64_t hash_op(const struct oracle *o, const struct pdl_plan_op *x)
{
    uint64_t h = mix(
        (uint64_t)x->kind << 16 | (uint64_t)x->pass << 8 | (uint64_t)x->part,
        x->group);

    for (int k = 0; k < x->nin; k++)
        h = mix(h, (uint64_t)o->memo->form[x->in[k]]);
    for (int k = 0; k < x->nout; k++)
        h = mix(h, (uint64_t)o->memo->form[x->out[k]]);
    return h;
}

static bool recall(const struct oracle *o, int op, int stage, bool gradient,
                   struct oracle_price **out)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    uint64_t h = mix(hash_op(o, x), (uint64_t)stage * 2 + gradient);
    struct price *p = &o->memo->seen->price[h % PRICES];
    bool known = p->op > 0 && p->age == o->memo->seen->age &&
                 p->stage == stage && p->gradient == gradient &&
                 same_op(o, x, &o->p->ops[p->op - 1]);

    if (!known)
        *p = (struct price){.op = op + 1,
                            .age = o->memo->seen->age,
                            .gradient = gradient,
                            .stage = stage};
    *out = &p->price;
    return known;
}

void oracle_memo_forget(struct oracle *o, bool ranks)
{
    if (ranks)
        memset(o->memo->part, 0,
               (size_t)o->p->ntensors * sizeof o->memo->part[0]);
    o->memo->seen->age++;
}

/* Numbers operations: those that cost the same have the same number. table has
 * nslots entries, a power of two, more than there are numbers. */
int oracle_number_ops(const struct oracle *o, int first, int n, int *number,
                      int *op, int count, int *table, int nslots)
{
    for (int i = first; i < first + n; i++) {
        const struct pdl_plan_op *x = &o->p->ops[i];
        size_t s = (size_t)(hash_op(o, x) & (uint64_t)(nslots - 1));

        while (table[s] && !same_op(o, x, &o->p->ops[op[table[s] - 1]]))
            s = (s + 1) & (size_t)(nslots - 1);
        if (!table[s]) {
            op[count] = i;
            table[s] = ++count;
        }
        number[i] = table[s] - 1;
    }
    return count;
}

/* ---- the slowest rank ------------------------------------------------- */

bool oracle_is_comm(enum pdl_plan_op_kind kind)
{
    return kind >= PDL_PLAN_OP_ALLREDUCE && kind <= PDL_PLAN_OP_SEND &&
           kind != PDL_PLAN_OP_SLICE;
}

/* The same place in the group and in the node? What an alltoall leaves where
 * it is, and what of the rest stays in the node, depends on it even where all
 * parts are equal. */
static bool same_place(const struct oracle *o, uint32_t group, int64_t a,
                       int64_t b)
{
    if (a % o->sys->node.pes != b % o->sys->node.pes)
        return false;
    for (int f = 0; f < o->p->mesh->nfactors; f++)
        if ((group >> f & 1) && pdl_mesh_coord(o->p->mesh, a, f) !=
                                    pdl_mesh_coord(o->p->mesh, b, f))
            return false;
    return true;
}

/* Ranks that do what an earlier one does add nothing; a collective must also
 * cross the same wires. */
static bool is_new(const struct oracle *o, int op, const struct oracle_ranks *r,
                   int i, bool comm, bool gradient)
{
    const struct pdl_plan_op *x = &o->p->ops[op];
    int64_t rank = r->rank[i], twin = r->rank[r->twin[i]];

    if (!comm)
        return r->like[i] == i;
    return r->twin[i] == i ||
           (x->kind == PDL_PLAN_OP_ALLTOALL &&
            !same_place(o, x->group, rank, twin)) ||
           !oracle_same_wire(o, op, rank, twin, gradient);
}

static void price_on(const struct oracle *o, int op, int64_t rank, bool comm,
                     bool gradient, struct oracle_price *p)
{
    struct oracle_price how = {.level = -1};
    const struct oracle *at =
        o->between && o->p->ops[op].kind == PDL_PLAN_OP_SEND ? o->between : o;
    double t = comm ? oracle_comm(at, op, rank, gradient, &how)
                    : oracle_compute(o, op, rank);

    p->seconds = t > p->seconds ? t : p->seconds;
    p->coding = how.coding > p->coding ? how.coding : p->coding;
    if (how.flows > p->flows) {
        p->flows = how.flows;
        p->at = how.at;
    }
    p->level = how.level > p->level ? how.level : p->level;
}

/* Messages by boxes also depend on where the parts lie. */
static bool by_boxes(enum pdl_plan_op_kind kind)
{
    return kind == PDL_PLAN_OP_HALO || kind == PDL_PLAN_OP_ALLTOALL;
}

/* Does a rank before it, of those that are priced, cost the same: parts of the
 * same extents, and of a collective the same wires? */
static bool is_priced(const struct oracle *o, int op,
                      const struct oracle_ranks *r, int i, const uint8_t *as,
                      const bool *priced, bool comm, bool gradient)
{
    for (int k = 0; k < i; k++)
        if (priced[k] && as[k] == as[i] &&
            (!comm ||
             oracle_same_wire(o, op, r->rank[k], r->rank[i], gradient)))
            return true;
    return false;
}

/* Is a twin of representative i that crosses the same wires among the ranks of
 * a group that are all priced? */
static bool is_listed(const struct oracle *o, int op,
                      const struct oracle_ranks *r, int i, const int64_t *more,
                      int n, bool gradient)
{
    for (int k = 0; n > 0 && k < r->n; k++) {
        bool listed = false;

        if (r->twin[k] != r->twin[i])
            continue;
        for (int j = 0; j < n && !listed; j++)
            listed = more[j] == r->rank[k];
        if (listed &&
            (o->p->ops[op].kind != PDL_PLAN_OP_ALLTOALL ||
             same_place(o, o->p->ops[op].group, r->rank[i], r->rank[k])) &&
            oracle_same_wire(o, op, r->rank[i], r->rank[k], gradient))
            return true;
    }
    return false;
}

static void price_ranks(const struct oracle *o, int op,
                        const struct oracle_ranks *r, bool comm, bool gradient,
                        struct oracle_price *p)
{
    int64_t more[ORACLE_MORE];
    int n = oracle_more_ranks(o, op, r->rank, r->n, more);
    uint8_t as[ORACLE_MAX_RANKS];
    bool priced[ORACLE_MAX_RANKS] = {false};
    bool known = r->n > 1 && !by_boxes(o->p->ops[op].kind) &&
                 !oracle_is_copy(o->p->ops[op].kind) &&
                 same_parts(o, op, r, as);

    for (int i = 0; i < r->n; i++) {
        if ((o->only && oracle_kind(o, r->rank[i]) + 2 != o->only) ||
            !is_new(o, op, r, i, comm, gradient) ||
            (known && is_priced(o, op, r, i, as, priced, comm, gradient)) ||
            (comm && is_listed(o, op, r, i, more, n, gradient)))
            continue;
        price_on(o, op, r->rank[i], comm, gradient, p);
        priced[i] = true;
    }
    for (int i = 0; i < n; i++)
        price_on(o, op, more[i], comm, gradient, p);
}

const struct oracle_price *oracle_slowest(const struct oracle *o, int op,
                                          const struct oracle_ranks *r,
                                          bool gradient)
{
    static const struct oracle_price nothing = {.level = -1};
    bool comm = oracle_is_comm(o->p->ops[op].kind);
    struct oracle_price *p;

    if (o->p->ops[op].kind == PDL_PLAN_OP_FREE)
        return &nothing;
    if (!recall(o, op, r->stage, gradient, &p)) {
        p->level = -1;
        price_ranks(o, op, r, comm, gradient, p);
    }
    return p;
}
