/* SPDX-License-Identifier: Apache-2.0
 *
 * The model that a run trains, and what samples it takes. */
#include "train_model.h"

#include <string.h>

/* Made-up samples to test with: however many there are to train on, one more
 * says no more. */
enum { MOST_TESTS = 1000 };

static bool is_read(const struct pdl_model *m, int tensor)
{
    for (int i = 0; i < m->nnodes; i++)
        for (int k = 0; k < m->nodes[i].nin; k++)
            if (m->nodes[i].in[k] == tensor)
                return true;
    return false;
}

/* Imported classifiers often end with a softmax. Cross-entropy has one of its
 * own: it wants what goes in there. */
const struct pdl_model *train_without_softmax(pdl_arena *a,
                                              const struct pdl_model *m)
{
    const struct pdl_node *last =
        m->nnodes > 1 ? &m->nodes[m->nnodes - 1] : NULL;
    struct pdl_segment *s;
    struct pdl_model *copy;

    if (!last || strcmp(last->op->name, "softmax") != 0 ||
        is_read(m, last->out[0]) || m->nsegments < 1 ||
        m->segments[m->nsegments - 1].repeat != 1 ||
        m->segments[m->nsegments - 1].nnodes < 2)
        return m;
    copy = PDL_NEW(a, struct pdl_model, 1);
    s = PDL_NEW(a, struct pdl_segment, m->nsegments);
    if (!copy || !s)
        return NULL;
    *copy = *m;
    memcpy(s, m->segments, (size_t)m->nsegments * sizeof *s);
    s[m->nsegments - 1].nnodes--;
    copy->segments = s;
    copy->nnodes--;
    return copy;
}

/* Several sequences follow each other in a sample. */
static void like_input(const struct pdl_model *m, struct pdl_field *f)
{
    int64_t before = 0;

    for (int i = 0; i < m->ntensors; i++)
        if (m->tensors[i].kind == PDL_TENSOR_INPUT) {
            f->integer =
                m->tensors[i].dtype >= PDL_I8 && m->tensors[i].dtype <= PDL_U64;
            f->rank = m->tensors[i].rank;
            for (int k = 0; k < f->rank && k < PDL_DATA_RANK; k++)
                f->dim[k] = m->tensors[i].dim[k];
            if (f->rank == 1)
                f->dim[0] += before;
            before = f->dim[0];
        }
}

bool train_like_model(const struct pdl_plan *p, int64_t samples, bool numbers,
                      struct pdl_dataset *d)
{
    *d = (struct pdl_dataset){.name = "synthetic", .format = "synthetic"};
    like_input(p->model, &d->input);
    for (int i = 0; i < p->nops; i++) {
        const struct pdl_plan_tensor *y;
        int c;

        if (p->ops[i].kind != PDL_PLAN_OP_COMPUTE || p->ops[i].node >= 0)
            continue;
        y = &p->tensors[p->ops[i].in[0]];
        c = y->ndims >= 4 ? 1 : y->ndims - 1;
        d->classes = y->dim[c];
        d->target.integer = !numbers;
        d->target.rank = 0;
        for (int k = 1; k < y->ndims; k++)
            if ((k != c || numbers) && d->target.rank < PDL_DATA_RANK)
                d->target.dim[d->target.rank++] = y->dim[k];
    }
    d->nsplits = 2;
    d->split[0] = (struct pdl_data_split){"train", samples};
    d->split[1] = (struct pdl_data_split){
        "test", samples / 4 < MOST_TESTS ? samples / 4 + 1 : MOST_TESTS};
    return d->input.rank <= PDL_DATA_RANK;
}
