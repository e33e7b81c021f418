/* SPDX-License-Identifier: Apache-2.0
 *
 * The network up to its logits. Imported classifiers often end with a
 * softmax; cross-entropy has one of its own and wants what goes in there. */
#include "model_priv.h"

#include <string.h>

static bool is_read(const struct pdl_model *m, int tensor)
{
    for (int i = 0; i < m->nnodes; i++)
        for (int k = 0; k < m->nodes[i].nin; k++)
            if (m->nodes[i].in[k] == tensor)
                return true;
    return false;
}

static bool ends_with_softmax(const struct pdl_model *m)
{
    const struct pdl_node *last =
        m->nnodes > 1 ? &m->nodes[m->nnodes - 1] : NULL;
    const struct pdl_segment *s =
        m->nsegments > 0 ? &m->segments[m->nsegments - 1] : NULL;

    return last && s && pdl_op_id(last->op) == PDL_ID_SOFTMAX &&
           !is_read(m, last->out[0]) && s->repeat == 1 && s->nnodes > 1;
}

enum pdl_status model_logits(pdl_arena *a, const struct pdl_model **model,
                             struct pdl_err *err)
{
    const struct pdl_model *m = *model;
    struct pdl_segment *s;
    struct pdl_model *copy;

    if (!ends_with_softmax(m))
        return PDL_OK;
    copy = PDL_NEW(a, struct pdl_model, 1);
    s = PDL_NEW(a, struct pdl_segment, m->nsegments);
    if (!copy || !s)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *copy = *m;
    memcpy(s, m->segments, (size_t)m->nsegments * sizeof *s);
    s[m->nsegments - 1].nnodes--;
    copy->segments = s;
    copy->nnodes--;
    *model = copy;
    return PDL_OK;
}
