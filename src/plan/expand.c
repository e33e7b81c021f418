/* SPDX-License-Identifier: Apache-2.0
 *
 * A model with its repeated blocks written out: round r of a block reads what
 * round r-1 carried. The plan names layers one by one ("layers.17.attn"), and
 * a strategy may treat them differently, so lowering works on this form. */
#include "plan_priv.h"

#include <stdio.h>
#include <string.h>

struct expansion {
    pdl_arena *arena;
    const struct pdl_model *from;
    const struct pdl_plan_roll *roll; /* NULL: every round is written */
    struct pdl_tensor *tensors;
    struct pdl_node *nodes;
    int ntensors, nnodes;
    int *map;       /* old tensor -> new tensor, of the round being written */
    char index[24]; /* of that round */
};

static const char *round_name(struct expansion *x, const char *name)
{
    const char *hole = strstr(name, "{i}");
    size_t before, number = strlen(x->index), after;
    char *p;

    if (!hole)
        return name;
    before = (size_t)(hole - name);
    after = strlen(hole + 3);
    p = PDL_NEW(x->arena, char, before + number + after + 1);
    if (!p)
        return name;
    memcpy(p, name, before);
    memcpy(p + before, x->index, number);
    memcpy(p + before + number, hole + 3, after);
    return p;
}

int64_t plan_roll_skip(const struct pdl_plan_roll *roll, int64_t i)
{
    for (int g = 0; roll && g < roll->ngroups; g++)
        if (i + 1 ==
            roll->groups[g].first + (int64_t)(roll->width + 1) * roll->period)
            return (roll->groups[g].repeat - 1) * roll->period;
    return 0;
}

/* Rounds of a segment that are written. */
static int64_t rounds_of(const struct expansion *x, int s)
{
    int64_t n = x->from->segments[s].repeat;

    for (int g = 0; x->roll && s == x->roll->segment && g < x->roll->ngroups;
         g++)
        n -= (x->roll->groups[g].repeat - 1) * x->roll->period;
    return n;
}

static bool count(const struct expansion *x, int64_t *nodes, int64_t *tensors)
{
    const struct pdl_model *m = x->from;

    *nodes = 0;
    *tensors = 0;
    for (int s = 0; s < m->nsegments; s++) {
        int64_t n;

        if (!pdl_mul64(m->segments[s].nnodes, rounds_of(x, s), &n) ||
            !pdl_add64(*nodes, n, nodes))
            return false;
    }
    for (int t = 0; t < m->ntensors; t++)
        if (!pdl_add64(*tensors, rounds_of(x, m->tensors[t].segment), tensors))
            return false;
    return *nodes < 1 << 22 && *tensors < 1 << 24;
}

/* A copy of every tensor of the segment for this round. */
static void copy_tensors(struct expansion *x, int segment)
{
    for (int t = 0; t < x->from->ntensors; t++) {
        if (x->from->tensors[t].segment != segment)
            continue;
        x->map[t] = x->ntensors;
        x->tensors[x->ntensors] = x->from->tensors[t];
        x->tensors[x->ntensors].segment = 0;
        x->tensors[x->ntensors++].name =
            round_name(x, x->from->tensors[t].name);
    }
}

static const int *map_ids(struct expansion *x, const int *ids, int n)
{
    int *p = PDL_NEW(x->arena, int, n + 1);

    for (int i = 0; p && i < n; i++)
        p[i] = x->map[ids[i]];
    return p;
}

static void copy_nodes(struct expansion *x, const struct pdl_segment *s)
{
    for (int i = 0; i < s->nnodes; i++) {
        struct pdl_node n = x->from->nodes[s->first_node + i];

        n.name = round_name(x, n.name);
        n.in = map_ids(x, n.in, n.nin);
        n.out = map_ids(x, n.out, n.nout);
        n.weights = map_ids(x, n.weights, n.nweights);
        x->nodes[x->nnodes++] = n;
    }
}

/* Others may still read what went into the first round. */
static void write_segment(struct expansion *x, int segment)
{
    const struct pdl_segment *s = &x->from->segments[segment];
    int first = s->repeat > 1 ? x->map[s->carry_in] : 0;
    int64_t n = rounds_of(x, segment), r = 0;

    for (int64_t i = 0; i < n; i++, r++) {
        if (i > 0)
            x->map[s->carry_in] = x->map[s->carry_out];
        snprintf(x->index, sizeof x->index, "%lld",
                 (long long)s->first_index + (long long)r);
        copy_tensors(x, segment);
        copy_nodes(x, s);
        if (x->roll && segment == x->roll->segment)
            r += plan_roll_skip(x->roll, i);
    }
    if (s->repeat > 1)
        x->map[s->carry_in] = first;
}

enum pdl_status plan_expand(pdl_arena *a, const struct pdl_model *m,
                            const struct pdl_model **out, struct pdl_err *err)
{
    return plan_expand_rounds(a, m, NULL, out, err);
}

enum pdl_status plan_expand_rounds(pdl_arena *a, const struct pdl_model *m,
                                   const struct pdl_plan_roll *roll,
                                   const struct pdl_model **out,
                                   struct pdl_err *err)
{
    struct expansion x = {.arena = a, .from = m, .roll = roll};
    struct pdl_model *big;
    struct pdl_segment *one;
    int64_t nodes, tensors;
    bool plain = true;

    for (int s = 0; s < m->nsegments; s++)
        plain = plain && m->segments[s].repeat == 1;
    for (int i = 0; i < m->nnodes && plain;
         i++) /* one round has a number too */
        plain = !strstr(m->nodes[i].name, "{i}");
    if (plain) {
        *out = m;
        return PDL_OK;
    }
    if (!count(&x, &nodes, &tensors))
        return pdl_fail(err, PDL_EINVAL, "%s: too many layers", m->name);
    x.tensors = PDL_NEW(a, struct pdl_tensor, tensors);
    x.nodes = PDL_NEW(a, struct pdl_node, nodes);
    x.map = PDL_NEW(a, int, m->ntensors);
    big = PDL_NEW(a, struct pdl_model, 1);
    one = PDL_NEW(a, struct pdl_segment, 1);
    if (!x.tensors || !x.nodes || !x.map || !big || !one)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", m->name);
    for (int s = 0; s < m->nsegments; s++)
        write_segment(&x, s);
    *one = (struct pdl_segment){.nnodes = x.nnodes, .repeat = 1};
    *big = *m;
    big->tensors = x.tensors;
    big->ntensors = x.ntensors;
    big->nodes = x.nodes;
    big->nnodes = x.nnodes;
    big->segments = one;
    big->nsegments = 1;
    *out = big;
    return PDL_OK;
}

enum pdl_status pdl_plan_expand(pdl_arena *a, const struct pdl_model *model,
                                const struct pdl_model **out,
                                struct pdl_err *err)
{
    return plan_expand(a, model, out, err);
}
