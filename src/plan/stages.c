/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting a network into pipeline stages: consecutive nodes, the largest
 * stage as small as possible. Work is FLOPs plus the elements made, so that
 * layers without FLOPs are not free. The classic problem of linear
 * partitioning, solved exactly by bisection on the bound. A transformer is cut
 * between its blocks, where every framework cuts it: what lies before the
 * first counts as part of it, and so does what lies after the last.
 *
 * Some frameworks count blocks instead of work: what lies before the first
 * goes to the first stage, what lies after the last to the last stage. Where
 * stages cannot have equally many, these are told each one's: whoever writes
 * that gives the stage that has the head fewer, which is a cut by work.
 * DeepSpeed deals greedily whatever is left for the last. */
#include "plan_priv.h"

#include <string.h>

static int64_t work_of(const struct pdl_model *m, int node)
{
    struct pdl_work w;
    int64_t elements = 0;

    if (pdl_node_work(m, node, PDL_FORWARD, 1, PDL_F32, &w, NULL) != PDL_OK)
        return 1;
    for (int k = 0; k < m->nodes[node].nout; k++)
        elements += pdl_tensor_elements(&m->tensors[m->nodes[node].out[k]]);
    return w.flops + elements + 1;
}

/* What a stage may take: the bound, or its part of it where PEs are slower. */
static double room_of(const double *speed, int64_t stages, int64_t at,
                      int64_t bound)
{
    return speed && at < stages ? (double)bound * speed[at] : (double)bound;
}

/* Stages needed when none may exceed the bound; writes them when asked. */
static int64_t pack(const int64_t *work, int n, int64_t bound, int64_t stages,
                    const double *speed, int *stage)
{
    int64_t used = 1, sum = 0;

    for (int i = 0; i < n; i++) {
        double room = room_of(speed, stages, used - 1, bound);
        /* leave at least one node for every stage still to come */
        bool must = stage && n - i < stages - used + 1;

        if ((sum > 0 && (double)(sum + work[i]) > room) || must) {
            used++;
            sum = 0;
            room = room_of(speed, stages, used - 1, bound);
        }
        if (!stage && speed && sum == 0 && (double)work[i] > room)
            return stages + 1; /* too much for a slow stage */
        sum += work[i];
        if (stage)
            stage[i] = (int)used - 1;
    }
    return used;
}

/* Sums of all nodes, and what slow PEs make of them, stay within 63 bits:
 * attention to millions of positions does not. */
static int64_t scale_of(const struct pdl_model *m)
{
    static const double MOST = (double)(INT64_C(1) << 52);
    double sum = 0;

    for (int i = 0; i < m->nnodes; i++)
        sum += (double)work_of(m, i);
    return sum > MOST ? (int64_t)(sum / MOST) + 1 : 1;
}

static bool in_block(const struct pdl_model *m, int node)
{
    const char *name = m->nodes[node].name;

    return (node > 0 && plan_same_block(m->nodes[node - 1].name, name)) ||
           (node + 1 < m->nnodes &&
            plan_same_block(m->nodes[node + 1].name, name));
}

/* Blocks before a node; after all of them: their number. */
static int64_t count_blocks(const struct pdl_model *m, int node)
{
    int64_t n = 0;

    for (int i = 0; i < node; i++)
        n += in_block(m, i) &&
             !plan_same_block(m->nodes[i].name, m->nodes[i + 1].name);
    return n + in_block(m, node);
}

/* False: it has fewer blocks than stages, or they cannot be dealt so. */
static bool split_blocks(const struct pdl_model *m, int64_t stages, bool greedy,
                         int *stage)
{
    int64_t all = count_blocks(m, m->nnodes - 1), done = 0, at = 0, share;

    if (m->nnodes < 2 || all < stages || (!greedy && all % stages != 0))
        return false;
    share = (all + stages - 1) / stages;
    for (int i = 0; i < m->nnodes; i++) {
        bool last = in_block(m, i) &&
                    (i + 1 == m->nnodes ||
                     !plan_same_block(m->nodes[i].name, m->nodes[i + 1].name));

        stage[i] = (int)at;
        done += last;
        if (last && at + 1 < stages && done < all &&
            (done >= (at + 1) * share || all - done < stages - at))
            at++;
    }
    return at + 1 == stages;
}

/* What is not cut: blocks of a transformer that has enough of them, else
 * single nodes. Returns how many there are. */
static int find_units(const struct pdl_model *m, int64_t stages, int *unit)
{
    bool blocks = strcmp(m->kind, "transformer") == 0 && m->nnodes > 1 &&
                  count_blocks(m, m->nnodes - 1) >= stages;
    int64_t at = -1;

    for (int i = 0; i < m->nnodes; i++) {
        at += in_block(m, i) &&
              (i == 0 ||
               !plan_same_block(m->nodes[i - 1].name, m->nodes[i].name));
        unit[i] = blocks ? (int)(at < 0 ? 0 : at) : i;
    }
    return unit[m->nnodes - 1] + 1;
}

/* A bound that holds even if the slowest stage got everything. */
static int64_t slower(const double *speed, int64_t stages, int64_t work)
{
    double least = 1;

    for (int64_t k = 0; k < stages; k++)
        least = speed[k] < least ? speed[k] : least;
    return (int64_t)((double)work / least) + 1;
}

static void split_work(const struct pdl_model *m, int64_t stages,
                       const double *speed, int64_t *work, int *unit,
                       int *stage)
{
    int n = find_units(m, stages, unit);
    int64_t lo = 0, hi = 0, scale = scale_of(m);

    for (int i = 0; i < m->nnodes; i++)
        work[unit[i]] += work_of(m, i) / scale;
    for (int i = 0; i < n; i++) {
        lo = work[i] > lo ? work[i] : lo;
        hi += work[i];
    }
    if (speed)
        hi = slower(speed, stages, hi);
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (pack(work, n, mid, stages, speed, NULL) <= stages)
            hi = mid;
        else
            lo = mid + 1;
    }
    pack(work, n, lo, stages, speed, stage);
    for (int i = m->nnodes - 1; i >= 0; i--)
        stage[i] = stage[unit[i]];
}

enum pdl_status plan_stages(pdl_arena *a, const struct pdl_model *m,
                            int64_t stages, enum pdl_split split,
                            const double *speed, int *stage,
                            struct pdl_err *err)
{
    int64_t *work = PDL_NEW(a, int64_t, m->nnodes + 1);
    int *unit = PDL_NEW(a, int, m->nnodes + 1);

    if (stages > m->nnodes)
        return pdl_fail(err, PDL_EINVAL, "pipe=%lld: %s has only %d layers",
                        (long long)stages, m->name, m->nnodes);
    if (stages == 1) {
        memset(stage, 0, (size_t)m->nnodes * sizeof *stage);
        return PDL_OK;
    }
    if (split != PDL_SPLIT_WORK && !speed &&
        split_blocks(m, stages, split == PDL_SPLIT_GREEDY, stage))
        return PDL_OK;
    if (!work || !unit)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    split_work(m, stages, speed, work, unit, stage);
    return PDL_OK;
}

enum pdl_status pdl_plan_blocks(pdl_arena *a, const struct pdl_model *model,
                                int64_t stages, enum pdl_split split,
                                int64_t *blocks, struct pdl_err *err)
{
    const struct pdl_model *m;
    enum pdl_status st = plan_expand(a, model, &m, err);
    int *stage = st == PDL_OK ? PDL_NEW(a, int, m->nnodes + 1) : NULL;

    if (st != PDL_OK)
        return st;
    if (!stage)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = plan_stages(a, m, stages, split, NULL, stage, err);
    for (int64_t s = 0; s < stages; s++)
        blocks[s] = 0;
    for (int i = 0; st == PDL_OK && i < m->nnodes; i++)
        blocks[stage[i]] +=
            in_block(m, i) && (i == 0 || !plan_same_block(m->nodes[i - 1].name,
                                                          m->nodes[i].name));
    return st;
}
