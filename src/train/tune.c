/* SPDX-License-Identifier: Apache-2.0
 *
 * The optimizer on this rank's parts of the weights. */
#include "train_priv.h"

#include <string.h>

struct train_tuner {
    double momentum;
    void **velocity; /* of each plan tensor that is a weight */
};

enum pdl_status train_tuner_open(pdl_trainer *t, struct pdl_err *err)
{
    t->tuner = PDL_NEW(t->arena, struct train_tuner, 1);
    if (!t->tuner)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for the optimizer");
    return PDL_OK;
}

enum pdl_status train_tuner_update(pdl_trainer *t, int op, double lr,
                                   struct pdl_err *err)
{
    const struct train_op *x = &t->ops[op];

    (void)err;
    for (int k = 0; k < x->nout; k++) {
        const struct train_array *a = &t->arrays[x->out[k]];
        int64_t n = train_array_elements(a);
        void *w = train_data(t, x->out[k], TRAIN_UPDATE);
        const void *dw = train_data(t, x->in[x->nout + k], TRAIN_UPDATE);

        for (int64_t i = 0; i < n; i++)
            if (a->dtype == PDL_F64)
                ((double *)w)[i] -= lr * ((const double *)dw)[i];
            else
                ((float *)w)[i] -= (float)lr * ((const float *)dw)[i];
    }
    return PDL_OK;
}
