/* SPDX-License-Identifier: Apache-2.0
 *
 * What samples the model of a run takes. */
#include "train_model.h"

/* Made-up samples to test with: however many there are to train on, one more
 * says no more. */
enum { MOST_TESTS = 1000 };

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
