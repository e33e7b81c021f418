/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations that are run as one kernel: the first of a group runs its kernel,
 * the others do nothing. Which groups there may be the plan says
 * (src/plan/groups.c); which of them it has a kernel for, a backend
 * (train_backend.join). */
#include "train/train_priv.h"

#include <string.h>

enum { SLOTS = 64 };

/* A group that is being made. */
struct making {
    pdl_trainer *t;
    int n;
    const int *op;
    int slot[SLOTS], nslots; /* tensor of each slot */
    struct train_group g;
};

static bool makes(const pdl_trainer *t, int op, int tensor)
{
    for (int k = 0; k < t->ops[op].nout; k++)
        if (t->ops[op].out[k] == tensor)
            return true;
    return false;
}

/* ---- slots ------------------------------------------------------------ */

static int maker(const struct making *m, int tensor)
{
    for (int i = 0; i < m->n; i++)
        if (makes(m->t, m->op[i], tensor))
            return i;
    return -1;
}

static bool inside(const struct making *m, int op)
{
    for (int i = 0; i < m->n; i++)
        if (m->op[i] == op)
            return true;
    return false;
}

/* Does anything but the group read what one of its operations made? */
static bool is_read(const struct making *m, int tensor)
{
    const pdl_trainer *t = m->t;

    for (int i = 0; i < t->plan->nops; i++) {
        if (inside(m, i) || !t->ops[i].mine ||
            t->plan->ops[i].kind == PDL_PLAN_OP_FREE)
            continue;
        for (int k = 0; k < t->ops[i].nin; k++)
            if (t->ops[i].in[k] == tensor)
                return true;
    }
    return false;
}

static bool passes_on(const struct making *m, int tensor)
{
    bool read = false;

    for (int i = 0; i < m->n; i++)
        for (int k = 0; k < m->t->ops[m->op[i]].nin; k++)
            read = read || m->t->ops[m->op[i]].in[k] == tensor;
    return read && tensor < m->t->plan->ntensors && !is_read(m, tensor);
}

static int slot_of(const struct making *m, int tensor)
{
    for (int i = 0; i < m->nslots; i++)
        if (m->slot[i] == tensor)
            return i;
    return -1;
}

static void take(struct making *m, int tensor)
{
    if (slot_of(m, tensor) < 0 && m->nslots < SLOTS)
        m->slot[m->nslots++] = tensor;
}

enum role { IN, OUT, INNER };

static void take_all(struct making *m, enum role role)
{
    for (int i = 0; i < m->n; i++) {
        const struct train_op *x = &m->t->ops[m->op[i]];

        for (int k = 0; role == IN && k < x->nin; k++)
            if (maker(m, x->in[k]) < 0)
                take(m, x->in[k]);
        for (int k = 0; role != IN && k < x->nout; k++)
            if (passes_on(m, x->out[k]) == (role == INNER))
                take(m, x->out[k]);
    }
}

static void find_slots(struct making *m)
{
    m->nslots = 0;
    take_all(m, IN);
    m->g.nin = m->nslots;
    take_all(m, OUT);
    m->g.nout = m->nslots - m->g.nin;
    take_all(m, INNER);
    m->g.ninner = m->nslots - m->g.nin - m->g.nout;
}

static int *slots_of(struct making *m, const int *tensors, int n)
{
    int *s = PDL_NEW(m->t->arena, int, n + 1);

    for (int k = 0; s && k < n; k++)
        s[k] = slot_of(m, tensors[k]);
    return s;
}

static enum pdl_status describe(struct making *m, struct pdl_err *err)
{
    pdl_arena *a = m->t->arena;
    struct train_call *calls = PDL_NEW(a, struct train_call, m->n);
    int **in = PDL_NEW(a, int *, m->n), **out = PDL_NEW(a, int *, m->n);
    struct train_array *slots = PDL_NEW(a, struct train_array, m->nslots + 1);
    enum pdl_status st = PDL_OK;

    if (!calls || !in || !out || !slots)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a group");
    for (int i = 0; i < m->n && st == PDL_OK; i++) {
        const struct train_op *x = &m->t->ops[m->op[i]];

        in[i] = slots_of(m, x->in, x->nin);
        out[i] = slots_of(m, x->out, x->nout);
        st = in[i] && out[i]
                 ? train_make_call(m->t, m->op[i], &calls[i], err)
                 : pdl_fail(err, PDL_ENOMEM, "out of memory for a group");
    }
    for (int i = 0; i < m->nslots; i++)
        slots[i] = m->t->arrays[m->slot[i]];
    m->g.n = m->n;
    m->g.calls = calls;
    m->g.in = in;
    m->g.out = out;
    m->g.slots = slots;
    return st;
}

/* ---- joining ---------------------------------------------------------- */

/* What is not stored is not freed. */
static void forget(struct making *m)
{
    pdl_trainer *t = m->t;
    int first = m->g.nin + m->g.nout;

    for (int i = m->op[0]; i < t->plan->nops; i++) {
        struct train_op *x = &t->ops[i];
        int n = 0;

        if (t->plan->ops[i].kind != PDL_PLAN_OP_FREE || !x->mine)
            continue;
        for (int k = 0; k < x->nin; k++)
            if (slot_of(m, x->in[k]) < first)
                x->in[n++] = x->in[k];
        x->nin = n;
    }
}

static enum pdl_status replace(struct making *m, struct train_kernel *k,
                               struct pdl_err *err)
{
    struct train_op *x = &m->t->ops[m->op[0]];
    int *in = PDL_NEW(m->t->arena, int, m->nslots + 1);

    if (!in)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a group");
    memcpy(in, m->slot, (size_t)m->nslots * sizeof *in);
    forget(m);
    for (int i = 0; i < m->n; i++) {
        m->t->ops[m->op[i]].nin = m->t->ops[m->op[i]].nout = 0;
        m->t->ops[m->op[i]].joined = i > 0;
    }
    x->in = in;
    x->nin = m->g.nin;
    x->out = in + m->g.nin;
    x->nout = m->g.nout;
    x->kernel = k;
    x->work_bytes = k->scratch_bytes;
    return PDL_OK;
}

static enum pdl_status try_at(pdl_trainer *t, const struct pdl_plan_group *of,
                              struct pdl_err *err)
{
    struct making m = {.t = t, .n = of->n, .op = of->op};
    struct train_kernel *k = NULL;
    enum pdl_status st;

    find_slots(&m);
    if (m.nslots >= SLOTS)
        return PDL_OK;
    st = describe(&m, err);
    if (st == PDL_OK)
        st = t->backend->join(t->backend_state, &m.g, &k, err);
    return st == PDL_OK && k ? replace(&m, k, err) : st;
}

/* Has another kernel the operation already, or must it be alone? */
static bool is_taken(const struct train_op *x)
{
    return !x->mine || x->joined || x->kernel || x->ring;
}

/* Who looks at every result (diff-run) wants every operation's. */
enum pdl_status train_join(pdl_trainer *t, struct pdl_err *err)
{
    bool *taken = PDL_NEW(t->arena, bool, t->plan->nops + 1);
    struct pdl_plan_group g;
    enum pdl_status st = PDL_OK;

    if (!taken)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for groups");
    if (!t->backend->join || t->opt.watch)
        return PDL_OK;
    for (int i = 0; i < t->plan->nops; i++)
        taken[i] = is_taken(&t->ops[i]);
    for (int i = 0; i < t->plan->nitems; i++) {
        const struct pdl_plan_item *item = &t->plan->items[i];

        for (int op = item->first_op; op < item->first_op + item->nops; op++)
            for (int k = 0; k < pdl_plan_group_kinds() && st == PDL_OK; k++) {
                if (!pdl_plan_group_at(t->plan, item, op, k, taken, &g))
                    continue;
                st = try_at(t, &g, err);
                for (int m = 0; m < g.n; m++)
                    taken[g.op[m]] = is_taken(&t->ops[g.op[m]]);
            }
    }
    return st;
}
