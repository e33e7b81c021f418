/* SPDX-License-Identifier: Apache-2.0
 *
 * Stages of a pipeline where the strategy says where: "at=conv3+fc6" names the
 * first layer of every stage but the first, in the order of the network. A
 * search that chooses stages together with the strategies of layers writes its
 * answer so; torchtitan and Megatron-LM take such lists too (module names of
 * each part; a layout of the pipeline). */
#include "plan_priv.h"

#include <stdio.h>
#include <string.h>

/* The node of the name [name, name + n), after `from`; -1: none. */
static int find_after(const struct pdl_model *m, const char *name, size_t n,
                      int from)
{
    for (int i = from + 1; i < m->nnodes; i++)
        if (strlen(m->nodes[i].name) == n &&
            memcmp(m->nodes[i].name, name, n) == 0)
            return i;
    return -1;
}

bool pdl_same_block(const char *a, const char *b)
{
    return plan_same_block(a, b);
}

enum pdl_status plan_cut_stages(const struct pdl_strategy *s,
                                const struct pdl_model *m, int64_t stages,
                                int *stage, struct pdl_err *err)
{
    int64_t now = 0;
    int at = 0;

    for (const char *p = s->cuts; *p; now++) {
        size_t n = strcspn(p, "+");
        int next = find_after(m, p, n, at);

        if (next < 0) {
            pdl_fail(err, PDL_EINVAL,
                     "strategy: at=%.*s: no layer of %s after %s is called so",
                     (int)(n < 80 ? n : 80), p, m->name, m->nodes[at].name);
            pdl_hint(err, "'paradl model show %s --layers' lists them",
                     m->name);
            return PDL_EINVAL;
        }
        for (; at < next; at++)
            stage[at] = (int)now;
        p += n + (p[n] == '+');
    }
    for (; at < m->nnodes; at++)
        stage[at] = (int)now;
    return now + 1 == stages
               ? PDL_OK
               : pdl_fail(err, PDL_EINVAL,
                          "strategy: at=... makes %lld stages, the pipeline "
                          "has %lld",
                          (long long)now + 1, (long long)stages);
}
