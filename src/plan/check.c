/* SPDX-License-Identifier: Apache-2.0
 *
 * The static checker: what a plan must satisfy before anybody prices or runs
 * it. Lifetimes (read after write, no use after free, freed exactly once),
 * matching of sends and receives, placements (every collective resolves what
 * it says, every operator is one contraction, every window has its halo), and
 * coverage (what moves is owned by somebody in the group). */
#include "check.h"

#include <string.h>

enum life { UNWRITTEN, LIVE, FREED };

enum pdl_status plan_check_bad(struct plan_check *c, const char *what)
{
    const struct pdl_plan_op *o = c->op >= 0 ? &c->p->ops[c->op] : NULL;

    return pdl_fail(
        c->err, PDL_EWRONG, "plan: operation %d (%s%s%s): %s", c->op,
        o ? pdl_plan_op_name(o->kind) : "-", o && o->node >= 0 ? " " : "",
        o && o->node >= 0 ? c->p->model->nodes[o->node].name : "", what);
}

static bool is_state(const struct pdl_plan_tensor *t)
{
    return t->kind == PDL_PLAN_WEIGHT || t->kind == PDL_PLAN_STATE;
}

static bool is_given(const struct pdl_plan_tensor *t)
{
    return is_state(t) || t->kind == PDL_PLAN_INPUT ||
           t->kind == PDL_PLAN_LABEL;
}
/* ---- layouts ---------------------------------------------------------- */

int64_t plan_check_items(const struct plan_check *c, int t, int d)
{
    const struct pdl_plan_tensor *x = plan_check_tensor(c, t);
    int64_t unit = x->unit[d] ? x->unit[d] : 1;

    return x->dim[d] / unit + (x->dim[d] % unit != 0);
}

bool plan_check_alike(const struct plan_check *c, int a, int b, int f)
{
    int d = plan_check_at(c, a, f);

    return d == plan_check_at(c, b, f) &&
           (d < 0 || plan_check_items(c, a, d) == plan_check_items(c, b, d));
}

/* ---- lifetimes -------------------------------------------------------- */

static enum pdl_status read_all(struct plan_check *c,
                                const struct pdl_plan_op *o)
{
    for (int k = 0; k < o->nin; k++) {
        if (c->life[o->in[k]] == FREED)
            return BAD(c, o->kind == PDL_PLAN_OP_FREE ? "frees twice"
                                                      : "reads after free");
        if (c->life[o->in[k]] != LIVE)
            return BAD(c, "reads what is not written yet");
    }
    return PDL_OK;
}

/* ZeRO: a weight is gathered from the parts that were updated; an offloaded
 * optimizer: it is copied from where it was updated. */
static bool restores(const struct plan_check *c, const struct pdl_plan_op *o,
                     int k)
{
    const struct pdl_plan_tensor *a, *b;

    if (o->kind != PDL_PLAN_OP_ALLGATHER && o->kind != PDL_PLAN_OP_COPY_IN)
        return false;
    a = plan_check_tensor(c, o->in[k]);
    b = plan_check_tensor(c, o->out[k]);
    return a->kind == PDL_PLAN_STATE && is_state(b) && !b->host &&
           (a->host || b->kind == PDL_PLAN_WEIGHT) &&
           a->model_tensor == b->model_tensor;
}

static enum pdl_status write_all(struct plan_check *c,
                                 const struct pdl_plan_op *o)
{
    bool update = o->kind == PDL_PLAN_OP_UPDATE;

    for (int k = 0; k < o->nout; k++) {
        int t = o->out[k];

        if (update != is_state(plan_check_tensor(c, t)) && !restores(c, o, k))
            return BAD(c, "writes a tensor of the wrong kind");
        if (o->kind == PDL_PLAN_OP_SEND)
            continue; /* the receiver writes it */
        if (!update && c->life[t] != UNWRITTEN && !restores(c, o, k))
            return BAD(c, "writes a tensor twice");
        c->life[t] = LIVE;
    }
    return PDL_OK;
}

static enum pdl_status lifetimes(struct plan_check *c,
                                 const struct pdl_plan_op *o)
{
    enum pdl_status st = read_all(c, o);

    if (st != PDL_OK)
        return st;
    if (o->kind != PDL_PLAN_OP_FREE)
        return write_all(c, o);
    for (int k = 0; k < o->nin; k++) {
        if (is_state(plan_check_tensor(c, o->in[k])))
            return BAD(c, "frees a weight");
        if (c->life[o->in[k]] != LIVE)
            return BAD(c, "frees twice");
        c->life[o->in[k]] = FREED;
    }
    return PDL_OK;
}

static enum pdl_status all_freed(struct plan_check *c)
{
    bool *used = PDL_NEW(c->arena, bool, c->p->ntensors + 1);

    if (!used)
        return pdl_fail(c->err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < c->p->nops; i++)
        for (int k = 0; k < c->p->ops[i].nin; k++)
            used[c->p->ops[i].in[k]] = true;
    for (int t = 0; t < c->p->ntensors; t++) {
        const struct pdl_plan_tensor *x = plan_check_tensor(c, t);
        bool touched = used[t] || (c->life[t] == LIVE && !is_given(x));

        if (!is_state(x) && touched && c->life[t] != FREED)
            return pdl_fail(c->err, PDL_EWRONG, "plan: t%d (%s) is never freed",
                            t, x->name);
    }
    return PDL_OK;
}

/* ---- stages ----------------------------------------------------------- */

static enum pdl_status stages(struct plan_check *c, const struct pdl_plan_op *o,
                              int stage)
{
    bool send = o->kind == PDL_PLAN_OP_SEND;

    for (int k = 0; k < o->nin + o->nout; k++) {
        int t = k < o->nin ? o->in[k] : o->out[k - o->nin];

        if (t < 0 || t >= c->p->ntensors)
            return BAD(c, "names a tensor that does not exist");
        if (plan_check_tensor(c, t)->kind == PDL_PLAN_INPUT)
            continue; /* loaded where it is read */
        if ((plan_check_tensor(c, t)->stage == stage) == (send && k >= o->nin))
            return BAD(c, "touches a tensor of another stage");
    }
    return PDL_OK;
}

/* Between two stages messages arrive in the order they were sent: the k-th
 * send of a to b must be the k-th receive of b from a. */
static enum pdl_status match(struct plan_check *c)
{
    int *source = PDL_NEW(c->arena, int, c->p->ntensors + 1);
    int *order = PDL_NEW(c->arena, int, c->p->ntensors + 1);
    int *last = PDL_NEW(c->arena, int, c->p->nstages * c->p->nstages + 1);
    int sends = 0;

    if (!source || !order || !last)
        return pdl_fail(c->err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < c->p->nops; i++) {
        const struct pdl_plan_op *o = &c->p->ops[i];

        c->op = i;
        if (o->kind == PDL_PLAN_OP_SEND) {
            if (order[o->out[0]])
                return BAD(c, "sends twice");
            source[o->out[0]] = plan_check_tensor(c, o->in[0])->stage;
            order[o->out[0]] = ++sends;
            if (!plan_same_shape(plan_check_tensor(c, o->in[0]),
                                 plan_check_tensor(c, o->out[0])))
                return BAD(c, "sends another shape than is received");
            for (int f = 0; f < c->p->mesh->nfactors; f++)
                if (!plan_check_alike(c, o->in[0], o->out[0], f))
                    return BAD(c, "sends another part than is received");
        }
    }
    for (int i = 0; i < c->p->nops; i++) {
        const struct pdl_plan_op *o = &c->p->ops[i];
        int *before;

        if (o->kind != PDL_PLAN_OP_RECV)
            continue;
        c->op = i;
        if (!order[o->out[0]])
            return BAD(c, "receives what nobody sends");
        before = &last[source[o->out[0]] * c->p->nstages +
                       plan_check_tensor(c, o->out[0])->stage];
        if (order[o->out[0]] <= *before)
            return BAD(c, "receives in another order than is sent");
        *before = order[o->out[0]];
        order[o->out[0]] = 0;
        sends--;
    }
    c->op = -1;
    return sends == 0 ? PDL_OK : BAD(c, "something sent is never received");
}

/* ---- placements ------------------------------------------------------- */

static enum pdl_status same_places(struct plan_check *c,
                                   const struct pdl_plan_op *o, int pairs,
                                   int step)
{
    for (int k = 0; k < pairs; k++) {
        int a = o->in[k], b = o->in[k + step];

        if (!plan_same_shape(plan_check_tensor(c, a), plan_check_tensor(c, b)))
            return BAD(c, "its operands have different shapes");
        for (int f = 0; f < c->p->mesh->nfactors; f++)
            if (!plan_check_alike(c, a, b, f) ||
                (o->kind == PDL_PLAN_OP_ADD &&
                 !plan_check_alike(c, a, o->out[0], f)))
                return BAD(c, "its operands lie differently");
    }
    return PDL_OK;
}

/* Tensors of which a rank has only some are for experts, or keys that turn. */
static enum pdl_status only_experts(struct plan_check *c,
                                    const struct pdl_plan_op *o)
{
    bool ours =
        o->kind == PDL_PLAN_OP_ALLTOALLV || o->kind == PDL_PLAN_OP_FREE ||
        o->kind == PDL_PLAN_OP_COPY_OUT || o->kind == PDL_PLAN_OP_COPY_IN ||
        o->kind == PDL_PLAN_OP_ROTATE ||
        (o->kind == PDL_PLAN_OP_COMPUTE && o->node >= 0 &&
         (plan_is(&c->p->model->nodes[o->node], PDL_ID_EXPERTS) ||
          plan_key_groups(&c->p->model->nodes[o->node]) > 0));

    for (int k = 0; k < o->nin + o->nout && !ours; k++)
        if (plan_check_tensor(c, k < o->nin ? o->in[k] : o->out[k - o->nin])
                ->of > 0)
            return BAD(c, "touches tokens that only experts have");
    return PDL_OK;
}

/* In the host's memory nothing is computed but updates, and only copies lead
 * there and back. */
static enum pdl_status memories(struct plan_check *c,
                                const struct pdl_plan_op *o)
{
    int n = 0;

    if (o->kind == PDL_PLAN_OP_FREE || o->kind == PDL_PLAN_OP_COPY_OUT ||
        o->kind == PDL_PLAN_OP_COPY_IN)
        return PDL_OK;
    for (int k = 0; k < o->nin + o->nout; k++)
        n += plan_check_tensor(c, k < o->nin ? o->in[k] : o->out[k - o->nin])
                 ->host;
    if (n > 0 && (o->kind != PDL_PLAN_OP_UPDATE || n < o->nin + o->nout))
        return BAD(c, "uses what is in the host's memory");
    return PDL_OK;
}

static enum pdl_status placements(struct plan_check *c,
                                  const struct pdl_plan_op *o)
{
    switch (o->kind) {
    case PDL_PLAN_OP_COMPUTE:
        return plan_check_operator(c, o);
    case PDL_PLAN_OP_ADD:
        return o->nin == 2 ? same_places(c, o, 1, 1)
                           : BAD(c, "adds not two operands");
    case PDL_PLAN_OP_UPDATE:
        return same_places(c, o, o->nout, o->nout);
    case PDL_PLAN_OP_SEND:
    case PDL_PLAN_OP_RECV:
    case PDL_PLAN_OP_FREE:
        return PDL_OK;
    case PDL_PLAN_OP_COPY_OUT:
    case PDL_PLAN_OP_COPY_IN:
        return plan_check_copy(c, o);
    default:
        return plan_check_collective(c, o);
    }
}

/* ---- all of it -------------------------------------------------------- */

static enum pdl_status run_items(struct plan_check *c, int first, int n,
                                 int stage)
{
    enum pdl_status st = PDL_OK;

    for (int i = first; i < first + n; i++) {
        const struct pdl_plan_item *it = &c->p->items[i];

        for (int k = 0; k < it->nops && st == PDL_OK; k++) {
            const struct pdl_plan_op *o = &c->p->ops[it->first_op + k];

            c->op = it->first_op + k;
            st = stages(c, o, stage);
            if (st == PDL_OK)
                st = lifetimes(c, o);
            if (st == PDL_OK)
                st = only_experts(c, o);
            if (st == PDL_OK)
                st = memories(c, o);
            if (st == PDL_OK)
                st = placements(c, o);
        }
    }
    return st;
}

static enum pdl_status walk(struct plan_check *c)
{
    const struct pdl_plan *p = c->p;
    enum pdl_status st = PDL_OK;

    for (int s = 0; s < p->nstages && st == PDL_OK; s++)
        st = run_items(c, p->stages[s].first_forward, p->stages[s].nforward, s);
    for (int s = p->nstages - 1; s >= 0 && st == PDL_OK; s--)
        st = run_items(c, p->stages[s].first_backward, p->stages[s].nbackward,
                       s);
    for (int s = 0; s < p->nstages && st == PDL_OK; s++)
        st = run_items(c, p->stages[s].first_update, p->stages[s].nupdate, s);
    return st;
}

/* ---- deadlock --------------------------------------------------------- */

/* The programs of a stage one after another; its k-th operation, -1: the
 * end. */
static int stage_op(const struct pdl_plan *p, int stage, int k)
{
    const struct pdl_plan_stage *s = &p->stages[stage];
    const int first[] = {s->first_forward, s->first_backward, s->first_update};
    const int count[] = {s->nforward, s->nbackward, s->nupdate};

    for (int phase = 0; phase < 3; phase++)
        for (int i = first[phase]; i < first[phase] + count[phase]; i++) {
            if (k < p->items[i].nops)
                return p->items[i].first_op + k;
            k -= p->items[i].nops;
        }
    return -1;
}

/* Sends do not wait, receives do: with all stages running their programs
 * side by side (one micro-batch), everybody must come to the end. */
static enum pdl_status no_deadlock(struct plan_check *c)
{
    bool *sent = PDL_NEW(c->arena, bool, c->p->ntensors + 1), moved = true;
    int *next = PDL_NEW(c->arena, int, c->p->nstages + 1), op;

    if (!sent || !next)
        return pdl_fail(c->err, PDL_ENOMEM, "out of memory");
    while (moved) {
        moved = false;
        for (int s = 0; s < c->p->nstages; s++)
            for (; (op = stage_op(c->p, s, next[s])) >= 0; next[s]++) {
                const struct pdl_plan_op *o = &c->p->ops[op];

                if (o->kind == PDL_PLAN_OP_RECV && !sent[o->out[0]])
                    break;
                if (o->kind == PDL_PLAN_OP_SEND)
                    sent[o->out[0]] = true;
                moved = true;
            }
    }
    for (int s = 0; s < c->p->nstages; s++) {
        c->op = stage_op(c->p, s, next[s]);
        if (c->op >= 0)
            return BAD(c, "waits for ever: what it receives is never sent");
    }
    return PDL_OK;
}

/* Blocks of keys that turn are there for one attention; then they have passed
 * by. */
static enum pdl_status read_once(struct plan_check *c)
{
    int *n = PDL_NEW(c->arena, int, c->p->ntensors + 1);

    if (!n)
        return pdl_fail(c->err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < c->p->nops; i++) {
        const struct pdl_plan_op *o = &c->p->ops[i];

        for (int k = 0; k < o->nout && o->kind == PDL_PLAN_OP_ROTATE; k++)
            n[o->out[k]] = plan_check_tensor(c, o->out[k])->of > 0;
        c->op = i;
        for (int k = 0; k < o->nin && o->kind != PDL_PLAN_OP_FREE; k++)
            if (n[o->in[k]] > 0 && n[o->in[k]]++ > 1)
                return BAD(c, "reads blocks of keys that have passed by");
    }
    return PDL_OK;
}

/* Every learned weight, and every part that stands for one, gets one update;
 * a weight may get it by being gathered from its updated parts. */
static enum pdl_status all_updated(struct plan_check *c)
{
    int *n = PDL_NEW(c->arena, int, c->p->ntensors + 1);

    if (!n)
        return pdl_fail(c->err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < c->p->nops; i++) {
        const struct pdl_plan_op *o = &c->p->ops[i];

        c->op = i;
        for (int k = 0; k < o->nout; k++) {
            if (restores(c, o, k) && n[o->in[k]] != 1)
                return BAD(c, "gathers a weight before its parts are updated");
            n[o->out[k]] += o->kind == PDL_PLAN_OP_UPDATE || restores(c, o, k);
        }
    }
    for (int t = 0; t < c->p->ntensors; t++) {
        const struct pdl_plan_tensor *x = plan_check_tensor(c, t);
        bool learned =
            x->model_tensor >= 0 &&
            c->p->model->tensors[x->model_tensor].kind == PDL_TENSOR_WEIGHT;

        if (is_state(x) && learned && n[t] != 1)
            return pdl_fail(c->err, PDL_EWRONG, "plan: %s is updated %d times",
                            x->name, n[t]);
    }
    return PDL_OK;
}

static enum pdl_status check(const struct pdl_plan *p, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    struct plan_check c = {.p = p, .arena = a, .err = err, .op = -1};
    struct plan_spot spot = {-1, -1};
    enum pdl_status st = plan_structure(p, &spot, err);

    if (a)
        c.life = PDL_NEW(a, unsigned char, p->ntensors + 1);
    if (a)
        c.forward = PDL_NEW(a, int, p->model->nnodes + 1);
    for (int i = 0; c.forward && i < p->model->nnodes; i++)
        c.forward[i] = -1;
    if (st == PDL_OK && (!c.life || !c.forward))
        st = pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int t = 0; st == PDL_OK && t < p->ntensors; t++)
        c.life[t] = is_given(&p->tensors[t]) ? LIVE : UNWRITTEN;
    if (st == PDL_OK)
        st = walk(&c);
    if (st == PDL_OK)
        st = read_once(&c);
    if (st == PDL_OK)
        st = match(&c);
    if (st == PDL_OK)
        st = no_deadlock(&c);
    if (st == PDL_OK)
        st = all_freed(&c);
    if (st == PDL_OK)
        st = all_updated(&c);
    pdl_arena_destroy(a);
    return st;
}

enum pdl_status pdl_plan_check(const struct pdl_plan *p, struct pdl_err *err)
{
    pdl_arena *a = pdl_arena_create(PDL_ARENA_DEFAULT);
    enum pdl_status st = a ? pdl_plan_unroll(a, p, &p, err)
                           : pdl_fail(err, PDL_ENOMEM, "out of memory");

    if (st == PDL_OK)
        st = check(p, err);
    pdl_arena_destroy(a);
    return st;
}
