/* SPDX-License-Identifier: Apache-2.0
 *
 * The operators of transformers in exact arithmetic. As in
 * symbolic_kernels.c, each is a fixed polynomial of what the real operator
 * reads, with the same sums: over a row for a norm, over keys for attention,
 * over positions for the gradients of keys and of tables (symbolic_experts.c:
 * over experts for a mixture). */
#include "symbolic.h"

#include <string.h>

#define MUL plan_num_mul
#define ADD plan_num_add
#define GET plan_part_get

/* ---- layer norm, RMS norm --------------------------------------------- */

/* Two sums over the `n` features around index i; with dy and w those of the
 * backward pass. */
struct sums {
    plan_num a, b;
};

static struct sums row_sums(struct plan_machine *m, const struct plan_part *x,
                            const struct plan_part *dy,
                            const struct plan_part *w, int64_t n,
                            const int64_t *i)
{
    int64_t j[PDL_BOX_DIMS], l = x->box.ndims - 1, first = i[l] / n * n;
    struct sums s = {0, 0};

    memcpy(j, i, sizeof j);
    for (j[l] = first; j[l] < first + n; j[l]++) {
        int64_t e = j[l] - first;
        plan_num v = GET(m, x, j);

        if (dy) {
            plan_num d = GET(m, dy, j);

            d = w ? MUL(d, GET(m, w, &e)) : d;
            s.a = ADD(s.a, d);
            s.b = ADD(s.b, MUL(d, v));
        } else {
            s.a = ADD(s.a, v);
            s.b = ADD(s.b, plan_num_square(v));
        }
    }
    return s;
}

static void norm_forward(struct plan_machine *m, const struct plan_call *k,
                         int64_t n)
{
    const struct plan_part *w = k->node->nweights > 0 ? k->in[1] : NULL;
    const struct plan_part *b = k->node->nweights > 1 ? k->in[2] : NULL;
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&k->out[0]->box, i)
    {
        int64_t e = i[k->out[0]->box.ndims - 1] % n;
        struct sums s = row_sums(m, k->in[0], NULL, NULL, n, i);
        plan_num v = MUL(ADD(GET(m, k->in[0], i), s.a), ADD(1, s.b));

        v = w ? MUL(v, GET(m, w, &e)) : v;
        plan_part_put(k->out[0], i, b ? ADD(v, GET(m, b, &e)) : v);
    }
}

static void norm_data(struct plan_machine *m, const struct plan_call *k,
                      int64_t n)
{
    const struct plan_part *w = k->node->nweights > 0 ? k->in[1] : NULL;
    const struct plan_part *dy = k->in[0], *x = k->in[1 + k->node->nweights];
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&k->out[0]->box, i)
    {
        int64_t e = i[k->out[0]->box.ndims - 1] % n;
        struct sums s = row_sums(m, x, NULL, NULL, n, i);
        struct sums t = row_sums(m, x, dy, w, n, i);
        plan_num v = MUL(GET(m, dy, i), ADD(1, s.b));

        v = w ? MUL(v, GET(m, w, &e)) : v;
        v = ADD(v, ADD(MUL(GET(m, x, i), t.a), t.b));
        plan_part_put(k->out[0], i, v);
    }
}

static void norm_weights(struct plan_machine *m, const struct plan_call *k,
                         int64_t n)
{
    const struct plan_part *x = k->in[0], *dy = k->in[1];
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&dy->box, i)
    {
        int64_t e = i[dy->box.ndims - 1] % n;
        struct sums s = row_sums(m, x, NULL, NULL, n, i);
        plan_num d = GET(m, dy, i);

        plan_part_add(k->out[0], &e,
                      MUL(d, MUL(ADD(GET(m, x, i), s.a), ADD(1, s.b))));
        if (k->nout > 1)
            plan_part_add(k->out[1], &e, d);
    }
}

static void norm(struct plan_machine *m, const struct plan_call *k)
{
    const struct pdl_tensor *x = &m->model->tensors[k->node->in[0]];
    int64_t n =
        k->node->attr.features ? k->node->attr.features : x->dim[x->rank - 1];

    if (k->pass == PDL_FORWARD)
        norm_forward(m, k, n);
    else if (k->pass == PDL_BACKWARD_DATA)
        norm_data(m, k, n);
    else
        norm_weights(m, k, n);
}

/* ---- attention -------------------------------------------------------- */

/* q [N, T, heads*d], k [N, U, kv*d], v [N, U, kv*dv]; y and dy like q with dv.
 * Score s = sum over d of q k; y = sum over u of s^2 v. */
struct heads {
    int64_t heads, share, d, dv; /* share: heads of one key group */
    bool causal;
    const struct plan_part *q, *k, *v, *y, *dy;
    const struct plan_part *w; /* table of distances [rows, heads]; or NULL */
};

/* Does the query at place t see the key at place u? */
static bool sees(const struct plan_machine *m, const struct heads *a, int64_t t,
                 int64_t u)
{
    return !a->causal || plan_position(m, u) <= plan_position(m, t);
}

/* The row of the table that two positions read. */
static int64_t row_of(const struct heads *a, int64_t t, int64_t u)
{
    int64_t rows = a->w->box.hi[0], far = t > u ? t - u : 2 * (u - t);

    return far % rows;
}

plan_num plan_part_element(struct plan_machine *m, const struct plan_part *p,
                           int64_t n, int64_t t, int64_t e)
{
    int64_t i[3] = {n, t, e};

    return GET(m, p, i);
}

static plan_num score(struct plan_machine *m, const struct heads *a, int64_t n,
                      int64_t t, int64_t u, int64_t h)
{
    plan_num s = 0;

    if (a->w) {
        int64_t i[2] = {row_of(a, t, u), h};

        s = GET(m, a->w, i);
    }
    for (int64_t d = 0; d < a->d; d++)
        s = ADD(s,
                MUL(plan_part_element(m, a->q, n, t, h * a->d + d),
                    plan_part_element(m, a->k, n, u, h / a->share * a->d + d)));
    return s;
}

/* dy (y + 1) v over the head's features: what a score's gradient begins with */
static plan_num pull(struct plan_machine *m, const struct heads *a, int64_t n,
                     int64_t t, int64_t u, int64_t h)
{
    plan_num s = 0;

    for (int64_t d = 0; d < a->dv; d++) {
        plan_num g =
            MUL(plan_part_element(m, a->dy, n, t, h * a->dv + d),
                ADD(1, plan_part_element(m, a->y, n, t, h * a->dv + d)));

        s = ADD(s, MUL(g, plan_part_element(m, a->v, n, u,
                                            h / a->share * a->dv + d)));
    }
    return s;
}

static void attention_forward(struct plan_machine *m, const struct heads *a,
                              struct plan_part *y)
{
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&y->box, i)
    {
        int64_t h = i[2] / a->dv;
        plan_num sum = 0;

        for (int64_t u = a->k->box.lo[1]; u < a->k->box.hi[1]; u++)
            if (sees(m, a, i[1], u))
                sum =
                    ADD(sum, MUL(plan_num_square(score(m, a, i[0], i[1], u, h)),
                                 plan_part_element(
                                     m, a->v, i[0], u,
                                     h / a->share * a->dv + i[2] % a->dv)));
        plan_part_put(y, i, sum);
    }
}

static void attention_dq(struct plan_machine *m, const struct heads *a,
                         struct plan_part *dq)
{
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&dq->box, i)
    {
        int64_t h = i[2] / a->d, e = h / a->share * a->d + i[2] % a->d;
        plan_num sum = 0;

        for (int64_t u = a->k->box.lo[1]; u < a->k->box.hi[1]; u++)
            if (sees(m, a, i[1], u))
                sum = ADD(sum, MUL(MUL(pull(m, a, i[0], i[1], u, h),
                                       score(m, a, i[0], i[1], u, h)),
                                   plan_part_element(m, a->k, i[0], u, e)));
        plan_part_put(dq, i, sum);
    }
}

/* Over all queries at hand and all heads of the group at hand. */
static void attention_dkv(struct plan_machine *m, const struct heads *a,
                          bool values, struct plan_part *out)
{
    int64_t i[PDL_BOX_DIMS] = {0}, size = values ? a->dv : a->d;

    PLAN_EACH(&out->box, i)
    {
        int64_t g = i[2] / size, d = i[2] % size;
        plan_num sum = 0;

        for (int64_t t = a->q->box.lo[1]; t < a->q->box.hi[1]; t++)
            for (int64_t h = g * a->share; h < (g + 1) * a->share; h++) {
                plan_num s, v;

                if (!sees(m, a, t, i[1]) || h * a->d < a->q->box.lo[2] ||
                    h * a->d >= a->q->box.hi[2])
                    continue;
                s = score(m, a, i[0], t, i[1], h);
                v = values ? MUL(plan_num_square(s),
                                 MUL(plan_part_element(m, a->dy, i[0], t,
                                                       h * a->dv + d),
                                     ADD(1, plan_part_element(m, a->y, i[0], t,
                                                              h * a->dv + d))))
                           : MUL(MUL(pull(m, a, i[0], t, i[1], h), s),
                                 plan_part_element(m, a->q, i[0], t,
                                                   h * a->d + d));
                sum = ADD(sum, v);
            }
        plan_part_put(out, i, sum);
    }
}

/* Of the table: over all pairs of positions at hand that read the row. */
static void attention_dw(struct plan_machine *m, const struct heads *a,
                         struct plan_part *dw)
{
    int64_t i[PDL_BOX_DIMS] = {0};
    struct pdl_box b = a->dy->box;

    if (!a->w)
        return;
    b.lo[2] /= a->dv;
    b.hi[2] /= a->dv;
    PLAN_EACH(&b, i)
    for (int64_t u = a->k->box.lo[1]; u < a->k->box.hi[1]; u++) {
        int64_t at[2] = {row_of(a, i[1], u), i[2]};
        plan_num s = 0;

        if (!sees(m, a, i[1], u))
            continue;
        for (int64_t d = 0; d < a->dv; d++)
            s = ADD(s, MUL(plan_part_element(m, a->dy, i[0], i[1],
                                             i[2] * a->dv + d),
                           plan_part_element(m, a->v, i[0], u,
                                             i[2] / a->share * a->dv + d)));
        plan_part_add(dw, at, MUL(s, score(m, a, i[0], i[1], u, i[2])));
    }
}

/* Forward q k v [w]; backward-data dy [w] q k v y -> those of dq dk dv wanted;
 * backward-weights q k v dy w. */
static void attention(struct plan_machine *m, const struct plan_call *k)
{
    const struct pdl_attr *t = &k->node->attr;
    int64_t kv = t->kv_heads ? t->kv_heads : t->heads;
    int nw = k->node->nweights;
    int first = k->pass == PDL_BACKWARD_DATA ? 1 + nw : 0;
    struct heads a = {.heads = t->heads,
                      .share = t->heads / kv,
                      .d = t->head_dim,
                      .dv = t->v_head_dim ? t->v_head_dim : t->head_dim,
                      .causal = t->causal};

    if (k->node->nin != 3) {
        m->missing = "attention with a bias";
        return;
    }
    a.q = k->in[first];
    a.k = k->in[first + 1];
    a.v = k->in[first + 2];
    if (nw > 0)
        a.w = k->in[k->pass == PDL_FORWARD         ? 3
                    : k->pass == PDL_BACKWARD_DATA ? 1
                                                   : 4];
    if (k->pass == PDL_FORWARD) {
        attention_forward(m, &a, k->out[0]);
        return;
    }
    if (k->pass == PDL_BACKWARD_WEIGHTS) {
        a.dy = k->in[3];
        attention_dw(m, &a, k->out[0]);
        return;
    }
    a.dy = k->in[0];
    a.y = k->in[first + 3];
    if (k->nout != 3) {
        m->missing = "a gradient of q, k or v";
        return;
    }
    attention_dq(m, &a, k->out[0]);
    attention_dkv(m, &a, false, k->out[1]);
    attention_dkv(m, &a, true, k->out[2]);
}

/* Halves of a head are turned by an angle that depends on the position;
 * backward turns them back. */
static void rope(struct plan_machine *m, const struct plan_call *k)
{
    int64_t i[PDL_BOX_DIMS] = {0}, j[PDL_BOX_DIMS] = {0};
    int64_t d = plan_rule_head_width(m->model, k->node);

    PLAN_EACH(&k->out[0]->box, i)
    {
        int l = k->out[0]->box.ndims - 1;
        int64_t whole = k->node->attr.features, fixed = whole ? d - whole : 0;
        plan_num t = (plan_num)plan_position(m, i[1]);

        memcpy(j, i, sizeof j);
        if (d > 1 && i[l] % d >= fixed) /* the other half of what is turned */
            j[l] = i[l] / d * d + fixed +
                   (i[l] % d - fixed + (d - fixed) / 2) % (d - fixed);
        plan_part_put(k->out[0], i,
                      ADD(MUL(GET(m, k->in[0], i), t + 3),
                          MUL(GET(m, k->in[0], j), t + 5)));
    }
}

/* ---- features of heads ------------------------------------------------ */

/* Where feature f of the result comes from: which operand, which of its
 * features. */
static int source_of(const struct plan_machine *m, const struct pdl_node *n,
                     int64_t *f)
{
    const struct pdl_attr *a = &n->attr;
    const struct pdl_tensor *t = m->model->tensors;
    int64_t own = t[n->in[0]].dim[1], size, head, at;

    if (plan_is(n, PDL_ID_SLICE)) {
        *f = a->dims[0] + *f * (a->ndims > 2 ? a->dims[2] : 1);
        return 0;
    }
    size = t[n->out[0]].dim[1] / a->heads;
    own /= a->heads;
    head = *f / size;
    at = *f % size + (plan_is(n, PDL_ID_SLICE_HEADS) ? a->dims[0] : 0);
    *f = at < own ? head * own + at : at - own;
    return at < own ? 0 : 1;
}

/* slice, slice_heads, join_heads of [T,E], and their gradients. */
static void take(struct plan_machine *m, const struct plan_call *k)
{
    bool forward = k->pass == PDL_FORWARD;
    const struct plan_part *y = forward ? k->out[0] : k->in[0];
    int64_t i[PDL_BOX_DIMS] = {0}, j[PDL_BOX_DIMS] = {0};

    if (m->model->tensors[k->node->in[0]].rank != 2 ||
        (plan_is(k->node, PDL_ID_SLICE) &&
         (k->node->attr.axis != 1 || k->node->attr.ndims < 2)) ||
        (!forward && k->nout != k->node->nin)) {
        m->missing = "a slice of features";
        return;
    }
    PLAN_EACH(&y->box, i)
    {
        int from;

        memcpy(j, i, sizeof j);
        from = source_of(m, k->node, &j[2]);
        if (forward)
            plan_part_put(k->out[0], i, GET(m, k->in[from], j));
        else
            plan_part_add(k->out[from], j, GET(m, y, i));
    }
}

/* ---- a weight along the features -------------------------------------- */

/* x + w and x * w. Forward x w; backward-data dy w ..; backward-weights x
 * dy. */
static void weighted(struct plan_machine *m, const struct plan_call *k)
{
    bool mul = plan_is(k->node, PDL_ID_MUL);
    const struct pdl_tensor *w = &m->model->tensors[k->node->weights[0]];
    const struct plan_part *y =
        k->pass == PDL_BACKWARD_WEIGHTS ? k->in[1] : k->out[0];
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&y->box, i)
    {
        int64_t e = w->dim[0] > 1 ? i[y->box.ndims - 1] : 0;
        plan_num a = GET(m, k->in[0], i);

        if (k->pass == PDL_BACKWARD_WEIGHTS)
            plan_part_add(k->out[0], &e,
                          mul ? MUL(a, GET(m, y, i)) : GET(m, y, i));
        else if (mul)
            plan_part_put(k->out[0], i, MUL(a, GET(m, k->in[1], &e)));
        else
            plan_part_put(
                k->out[0], i,
                k->pass == PDL_FORWARD ? ADD(a, GET(m, k->in[1], &e)) : a);
    }
}

/* ---- tables ----------------------------------------------------------- */

/* The row that a token asks for; rows of other ranks give 0. */
static void embedding(struct plan_machine *m, const struct plan_call *k)
{
    bool forward = k->pass == PDL_FORWARD;
    const struct plan_part *y = forward ? k->out[0] : k->in[1];
    const struct plan_part *w = forward ? k->in[1] : k->out[0];
    const struct pdl_tensor *t = &m->model->tensors[k->node->weights[0]];
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&y->box, i)
    {
        int l = y->box.ndims - 1;
        int64_t r[2] = {0, i[l]};

        r[0] = (int64_t)(GET(m, k->in[0], i) % (plan_num)t->dim[0]);
        if (r[0] < w->box.lo[0] || r[0] >= w->box.hi[0])
            continue;
        if (forward)
            plan_part_put(k->out[0], i, GET(m, w, r));
        else
            plan_part_add(k->out[0], r, GET(m, y, i));
    }
}

static void positions(struct plan_machine *m, const struct plan_call *k)
{
    const struct plan_part *y =
        k->pass == PDL_BACKWARD_WEIGHTS ? k->in[1] : k->out[0];
    int64_t i[PDL_BOX_DIMS] = {0};

    PLAN_EACH(&y->box, i)
    {
        int64_t r[2] = {plan_position(m, i[1]), i[2]};

        if (k->pass == PDL_FORWARD)
            plan_part_put(k->out[0], i, GET(m, k->in[1], r));
        else if (k->pass == PDL_BACKWARD_WEIGHTS)
            plan_part_add(k->out[0], r, GET(m, y, i));
        else /* the row does not depend on what stands there */
            plan_part_put(k->out[0], i, 0);
    }
}

/* ---- table ------------------------------------------------------------ */

bool plan_kernel_transformer(struct plan_machine *m, const struct plan_call *c)
{
    static const struct {
        const char *op;
        void (*run)(struct plan_machine *, const struct plan_call *);
    } kernels[] = {
        {"layer_norm", norm},
        {"rms_norm", norm},
        {"attention", attention},
        {"rope", rope},
        {"embedding", embedding},
        {"position_embedding", positions},
        {"experts", plan_kernel_experts},
        {"slice", take},
        {"slice_heads", take},
        {"join_heads", take},
    };

    if (c->node->nin == 1 && c->node->nweights == 1 &&
        m->model->tensors[c->node->weights[0]].rank == 1 &&
        (plan_is(c->node, PDL_ID_ADD) || plan_is(c->node, PDL_ID_MUL))) {
        weighted(m, c);
        return true;
    }
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].op, c->node->op->name) == 0) {
            kernels[i].run(m, c);
            return true;
        }
    return false;
}
