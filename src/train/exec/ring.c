/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotations: keys and values go from each rank of a ring to the next (Liu,
 * Zaharia, Abbeel 2023). At step s a rank has the block of the rank s places
 * before it. The first rotation of an attention puts the rank's own block into
 * the first of the slots that the plan gives a tensor that turns, attention
 * (ring_attention.c) sends each block on while it works on it, and the last
 * rotation brings the gradients of the rank's own block home, one place on.
 *
 * Everything that turns is cut over one index, the positions. A slot has room
 * for the largest block: where blocks are equal, that is what the plan
 * counts. */
#include "train/exec/ring.h"

enum { POSITIONS = 1 }; /* the dimension that is cut */

bool train_turns(const pdl_trainer *t, int tensor)
{
    return tensor < t->plan->ntensors && t->turning[tensor];
}

/* ---- opening ---------------------------------------------------------- */

static struct train_ring *ring_of(pdl_trainer *t, int attention, int64_t n)
{
    struct train_ring *r = t->ops[attention].ring;

    if (r)
        return r->n == n ? r : NULL;
    r = PDL_NEW(t->arena, struct train_ring, 1);
    if (r) {
        r->first = PDL_NEW(t->arena, int64_t, n);
        r->end = PDL_NEW(t->arena, int64_t, n);
        r->kernel = PDL_NEW(t->arena, struct train_kernel *, n);
        r->n = (int)n;
    }
    if (!r || !r->first || !r->end || !r->kernel)
        return NULL;
    t->ops[attention].ring = r;
    return r;
}

/* The blocks as their ranks own them; -1: not those known before. */
static int64_t find_blocks(const pdl_trainer *t, struct train_ring *r, int one,
                           const int64_t *ranks)
{
    int64_t most = 0;

    for (int g = 0; g < r->n; g++) {
        struct pdl_box b;

        pdl_plan_box(t->plan, one, ranks[g], &b);
        if (r->known &&
            (r->first[g] != b.lo[POSITIONS] || r->end[g] != b.hi[POSITIONS]))
            return -1;
        r->first[g] = b.lo[POSITIONS];
        r->end[g] = b.hi[POSITIONS];
        if (ranks[g] == t->rank)
            r->me = g;
        if (r->end[g] - r->first[g] > most)
            most = r->end[g] - r->first[g];
    }
    r->known = true;
    return most;
}

static enum pdl_status open_rotation(pdl_trainer *t, int op, int64_t *ranks,
                                     int64_t n, struct pdl_err *err)
{
    const struct pdl_plan *p = t->plan;
    const struct pdl_plan_op *o = &p->ops[op];
    bool home = p->tensors[o->in[0]].of > 0;
    int x = pdl_plan_rotates_for(p, op);
    struct train_ring *r = x >= 0 ? ring_of(t, x, n) : NULL;

    if (!r)
        return pdl_fail(err, x < 0 ? PDL_EWRONG : PDL_ENOMEM,
                        "%s: no ring for a rotation",
                        p->tensors[o->in[0]].name);
    r->group = o->group;
    t->ops[op].ring = r;
    t->has_rings = true;
    for (int k = 0; k < o->nout; k++) {
        int many = home ? o->in[k] : o->out[k];
        int64_t most = find_blocks(t, r, home ? o->out[k] : o->in[k], ranks);
        struct pdl_box *b = &t->arrays[many].box;

        if (most < 0 || b->ndims <= POSITIONS)
            return pdl_fail(err, PDL_EWRONG, "%s: blocks of a ring differ",
                            p->tensors[many].name);
        t->turning[many] = true;
        b->lo[POSITIONS] = 0;
        b->hi[POSITIONS] = p->tensors[many].some * most;
    }
    return PDL_OK;
}

enum pdl_status train_rings(pdl_trainer *t, struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;

    t->turning = PDL_NEW(t->arena, bool, t->plan->ntensors + 1);
    if (!t->turning)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int i = 0; i < t->plan->nops && st == PDL_OK; i++) {
        const struct pdl_plan_op *o = &t->plan->ops[i];
        int64_t ranks[4096], n;

        if (o->kind != PDL_PLAN_OP_ROTATE || !t->ops[i].mine)
            continue;
        n = pdl_mesh_group(t->plan->mesh, t->rank, o->group, ranks, 4096);
        if (n > 4096)
            return pdl_fail(err, PDL_EINVAL, "a ring of %lld ranks",
                            (long long)n);
        st = open_rotation(t, i, ranks, n, err);
    }
    return st;
}

/* ---- blocks ----------------------------------------------------------- */

int train_ring_block(const struct train_ring *r, int step)
{
    return (r->me - step + 2 * r->n) % r->n;
}

struct train_array train_ring_part(const pdl_trainer *t,
                                   const struct train_ring *r, int tensor,
                                   int block)
{
    struct train_array a = t->arrays[tensor];

    a.box.lo[POSITIONS] = r->first[block];
    a.box.hi[POSITIONS] = r->end[block];
    return a;
}

char *train_ring_slot(const pdl_trainer *t, int tensor, int step, int micro)
{
    int64_t slots = t->plan->tensors[tensor].some;

    return (char *)train_data(t, tensor, micro) +
           step % slots * (train_array_bytes(&t->arrays[tensor]) / slots);
}

/* ---- moving ----------------------------------------------------------- */

static void add_message(struct pdl_comm_message *m, int *n, int peer, int tag,
                        char *data, int64_t bytes)
{
    if (bytes > 0)
        m[(*n)++] = (struct pdl_comm_message){
            .peer = peer, .tag = tag, .data = data, .bytes = bytes};
}

enum pdl_status train_ring_pass(pdl_trainer *t, int op, int micro,
                                const int *tensor, int n, int step,
                                struct train_transfer **req,
                                struct pdl_err *err)
{
    const struct train_ring *r = t->ops[op].ring;
    struct pdl_comm_message out[RING_OPERANDS], in[RING_OPERANDS];
    int sends = 0, recvs = 0, b = train_ring_block(r, step);
    int to = (r->me + 1) % r->n, from = (r->me + r->n - 1) % r->n;

    *req = NULL;
    if (t->fault == TRAIN_FAULT_TURN_BACK && t->fault_op == op) {
        to = from;
        from = (r->me + 1) % r->n;
    }
    for (int k = 0; k < n; k++) {
        struct train_array mine = train_ring_part(t, r, tensor[k], b);
        struct train_array theirs =
            train_ring_part(t, r, tensor[k], train_ring_block(r, step + 1));

        add_message(out, &sends, to, tensor[k] % RING_TAGS,
                    train_ring_slot(t, tensor[k], step, micro),
                    train_array_bytes(&mine));
        add_message(in, &recvs, from, tensor[k] % RING_TAGS,
                    train_ring_slot(t, tensor[k], step + 1, micro),
                    train_array_bytes(&theirs));
    }
    if (sends + recvs == 0 ||
        (t->fault == TRAIN_FAULT_KEEP_BLOCK && t->fault_op == op))
        return PDL_OK;
    return train_start_exchange(
        t, r->comm, &(struct train_messages){sends, recvs, out, in}, req, err);
}

/* The block of the rank behind is done; its own comes from the one before. */
static enum pdl_status come_home(pdl_trainer *t, int op, int micro,
                                 struct pdl_err *err)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];
    const struct train_ring *r = t->ops[op].ring;
    struct pdl_comm_message out[RING_OPERANDS], in[RING_OPERANDS];
    int sends = 0, recvs = 0, last = r->n - 1;

    for (int k = 0; k < o->nout; k++) {
        struct train_array a =
            train_ring_part(t, r, o->in[k], train_ring_block(r, last));

        add_message(out, &sends, (r->me + 1) % r->n, o->in[k] % RING_TAGS,
                    train_ring_slot(t, o->in[k], last, micro),
                    train_array_bytes(&a));
        add_message(in, &recvs, (r->me + last) % r->n, o->in[k] % RING_TAGS,
                    train_data(t, o->out[k], micro),
                    train_array_bytes(&t->arrays[o->out[k]]));
    }
    if (sends + recvs == 0)
        return PDL_OK;
    return train_exchange_now(
        t, r->comm, &(struct train_messages){sends, recvs, out, in}, err);
}

enum pdl_status train_rotate(pdl_trainer *t, int op, int micro,
                             struct pdl_err *err)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];

    if (train_turns(t, o->in[0]))
        return come_home(t, op, micro, err);
    for (int k = 0; k < o->nout; k++)
        train_move(t, train_ring_slot(t, o->out[k], 0, micro),
                   train_data(t, o->in[k], micro),
                   train_array_bytes(&t->arrays[o->in[k]]));
    return PDL_OK;
}
