/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch norm over groups of a rank's samples, by a kernel of one group: what
 * one rank does with them is what as many ranks would do. Gradients of weights
 * are the sum over the groups, running statistics the mean. */
#include "train/backends/kernels.h"

#include <string.h>

enum { OPERANDS = 16, ALIGN = 64 };

struct in_groups {
    struct train_kernel base;
    struct train_kernel *inner;
    int64_t groups;
    int nin, nout;
    int64_t in[OPERANDS], out[OPERANDS]; /* bytes of a group; 0: of all */
    struct train_array shared[OPERANDS]; /* outputs of all */
    int nrunning, running[OPERANDS];     /* inputs that move */
    struct train_array kept[OPERANDS];   /* what they are */
    int64_t room;                        /* bytes of the largest of these */
};

static int64_t rounded(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static void set(enum pdl_dtype t, void *p, int64_t i, double v)
{
    if (t == PDL_F64)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

/* Work space: the kernel's, what running statistics were, the sum of what they
 * became (both of each), a group's gradients. */
static char *was(const struct in_groups *k, void *scratch, int i)
{
    return (char *)scratch + rounded(k->inner->scratch_bytes) +
           i * (rounded(k->room) + rounded(2 * k->room));
}

static double *sum_of(const struct in_groups *k, void *scratch, int i)
{
    return (double *)(void *)(was(k, scratch, i) + rounded(k->room));
}

static void before(const struct in_groups *k, void *const *in, void *scratch)
{
    for (int i = 0; i < k->nrunning; i++) {
        memcpy(was(k, scratch, i), in[k->running[i]],
               (size_t)train_array_bytes(&k->kept[i]));
        memset(sum_of(k, scratch, i), 0, (size_t)(2 * k->room));
    }
}

static void after(const struct in_groups *k, void *const *in, void *scratch,
                  bool last)
{
    for (int i = 0; i < k->nrunning; i++) {
        const struct train_array *a = &k->kept[i];
        double *sum = sum_of(k, scratch, i);
        void *at = in[k->running[i]];
        int64_t n = train_array_elements(a);

        for (int64_t e = 0; e < n; e++)
            sum[e] += train_number(a->dtype, at, e);
        if (!last)
            memcpy(at, was(k, scratch, i), (size_t)train_array_bytes(a));
        for (int64_t e = 0; last && e < n; e++)
            set(a->dtype, at, e, sum[e] / (double)k->groups);
    }
}

static void add(const struct train_array *a, void *to, const void *from)
{
    for (int64_t e = 0; e < train_array_elements(a); e++)
        set(a->dtype, to, e,
            train_number(a->dtype, to, e) + train_number(a->dtype, from, e));
}

static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct in_groups *k = (const struct in_groups *)base;
    bool moves = k->nrunning > 0 && !when->evaluate && !when->again;
    char *apart = was(k, scratch, k->nrunning);
    enum pdl_status st = PDL_OK;

    if (moves)
        before(k, in, scratch);
    for (int64_t g = 0; g < k->groups && st == PDL_OK; g++) {
        void *from[OPERANDS], *to[OPERANDS];

        for (int i = 0; i < k->nin; i++)
            from[i] = (char *)in[i] + g * k->in[i];
        for (int i = 0; i < k->nout; i++)
            to[i] = k->out[i] > 0 || g == 0 ? (char *)out[i] + g * k->out[i]
                                            : apart + i * rounded(k->room);
        st = k->inner->run(k->inner, from, to, scratch, when, err);
        for (int i = 0; i < k->nout && st == PDL_OK; i++)
            if (to[i] != out[i] && k->out[i] == 0)
                add(&k->shared[i], out[i], to[i]);
        if (moves && st == PDL_OK)
            after(k, in, scratch, g == k->groups - 1);
    }
    return st;
}

/* Weights and their gradients have one dimension. */
static bool is_cut(const struct train_array *a)
{
    return a->box.ndims > 1;
}

static struct train_array cut(const struct train_array *a, int64_t groups)
{
    struct train_array x = *a;

    x.box.hi[0] = x.box.lo[0] + (x.box.hi[0] - x.box.lo[0]) / groups;
    return x;
}

/* One group's call, and where the others lie. */
static void divide(struct in_groups *k, const struct train_call *c,
                   struct train_array *part)
{
    struct train_operands o;

    train_operands(c, &o);
    for (int i = 0; i < c->nin + c->nout; i++) {
        const struct train_array *a =
            i < c->nin ? &c->in[i] : &c->out[i - c->nin];
        int64_t *step = i < c->nin ? &k->in[i] : &k->out[i - c->nin];
        int64_t bytes = train_array_bytes(a);

        part[i] = is_cut(a) ? cut(a, k->groups) : *a;
        *step = is_cut(a) ? bytes / k->groups : 0;
        if (i >= c->nin)
            k->shared[i - c->nin] = *a;
        if (!is_cut(a) && bytes > k->room)
            k->room = bytes;
    }
    for (int j = 0; c->pass == PDL_FORWARD && j < o.nw; j++)
        if (c->model->tensors[c->node->weights[j]].kind != PDL_TENSOR_WEIGHT) {
            k->kept[k->nrunning] = c->in[o.w + j];
            k->running[k->nrunning++] = o.w + j;
        }
}

enum pdl_status train_in_groups(pdl_arena *a, const struct train_backend *b,
                                void *state, const struct train_call *c,
                                struct train_kernel **out, struct pdl_err *err)
{
    struct in_groups *k = PDL_NEW(a, struct in_groups, 1);
    struct train_array part[2 * OPERANDS];
    struct train_call one = *c;
    enum pdl_status st;

    if (!k)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for a group");
    if (c->nin > OPERANDS || c->nout > OPERANDS || c->population > 0)
        return pdl_fail(err, PDL_EWRONG, "a batch norm that has no groups");
    *k =
        (struct in_groups){.groups = c->groups, .nin = c->nin, .nout = c->nout};
    divide(k, c, part);
    one.in = part;
    one.out = part + c->nin;
    one.groups = 1;
    st = b->make(state, &one, &k->inner, err);
    if (st != PDL_OK)
        return st;
    k->base.implementation = k->inner->implementation;
    k->base.run = run;
    k->base.scratch_bytes =
        rounded(k->inner->scratch_bytes) +
        k->nrunning * (rounded(k->room) + rounded(2 * k->room)) +
        k->nout * rounded(k->room);
    *out = &k->base;
    return PDL_OK;
}
