/* SPDX-License-Identifier: Apache-2.0
 *
 * Sites that train by themselves and meet now and then (DiLoCo, Douillard et
 * al., arXiv 2311.08105): every site runs the plan on its part of each batch,
 * with its own optimizer. Every so many steps the mean of what the weights have
 * moved since the last time is the gradient of an outer step, by Nesterov's
 * momentum, from where all were then. Rank r of a site meets rank r of the
 * others, so that each sends no more than what it holds. Running statistics
 * become their mean. With lr=1 and momentum=0 it is the mean of the weights
 * (local SGD). */
#include "train/exec/loop.h"

#include <string.h>

struct train_site_weight {
    const struct pdl_train_state *weight, *from; /* from: the master, or it */
    void *base, *move, *mean;                    /* NULL: a statistic */
    int64_t n;
};

static bool is_wide(const struct train_site_weight *w)
{
    return w->from->part.dtype == PDL_F64;
}

static size_t bytes_of(const struct train_site_weight *w)
{
    return (size_t)w->n * (is_wide(w) ? sizeof(double) : sizeof(float));
}

static bool is_real(const struct pdl_train_state *s)
{
    return s->part.dtype == PDL_F32 || s->part.dtype == PDL_F64;
}

/* ---- opening ----------------------------------------------------------- */

static enum pdl_status split(struct train_sites *s, int64_t sites,
                             pdl_comm *comm, struct pdl_err *err)
{
    int each = pdl_comm_size(comm) / (int)sites, me = pdl_comm_rank(comm);
    int most = each > (int)sites ? each : (int)sites;
    int *ranks = calloc((size_t)most, sizeof *ranks);
    enum pdl_status st;

    if (!ranks)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for sites");
    s->site = me / each;
    for (int i = 0; i < each; i++)
        ranks[i] = (int)s->site * each + i;
    st = pdl_comm_subset(comm, each, ranks, &s->inside, err);
    for (int i = 0; i < (int)sites; i++)
        ranks[i] = i * each + me % each;
    if (st == PDL_OK)
        st = pdl_comm_subset(comm, (int)sites, ranks, &s->across, err);
    free(ranks);
    return st;
}

/* What other sites do besides is not told, tested or written. */
enum pdl_status train_sites_open(struct train_sites *s,
                                 const struct pdl_train_job *job,
                                 pdl_comm *comm, struct pdl_err *err)
{
    enum pdl_status st;

    *s = (struct train_sites){.job = *job};
    if (job->sites < 2)
        return PDL_OK;
    if (job->plan->mesh->pes * job->sites != pdl_comm_size(comm))
        return pdl_fail(err, PDL_EINVAL,
                        "%lld sites of a plan for %lld ranks are not %d ranks",
                        (long long)job->sites, (long long)job->plan->mesh->pes,
                        pdl_comm_size(comm));
    if (s->job.checkpoint || s->job.ema > 0 || s->job.store || s->job.hide ||
        s->job.shuffle || s->job.timings || s->job.outputs ||
        s->job.on_nan != PDL_TRAIN_STOP)
        return pdl_fail(err, PDL_EINVAL,
                        "sites go with none of checkpoints, averages, stores, "
                        "samplers, timings, outputs and a policy for losses");
    st = split(s, job->sites, comm, err);
    if (s->site > 0) {
        s->job.tell = NULL;
        s->job.weights_out = NULL;
        s->job.test_samples = -1;
    }
    return st;
}

void train_sites_close(struct train_sites *s)
{
    pdl_comm_destroy(s->across);
    pdl_comm_destroy(s->inside);
}

static bool add_weight(struct train_loop *l, int i)
{
    struct train_sites *s = l->sites;
    struct train_site_weight *w = &s->weight[s->nweights];
    size_t bytes;

    w->weight = pdl_trainer_state(l->t, i);
    w->from = w->weight->learned ? train_master_of(l->t, i) : w->weight;
    w->n = pdl_box_volume(&w->weight->part.box);
    bytes = bytes_of(w);
    w->mean = pdl_arena_alloc(l->arena, bytes + 1, 1);
    if (w->weight->learned) {
        w->base = pdl_arena_alloc(l->arena, bytes + 1, 1);
        w->move = pdl_arena_alloc(l->arena, bytes + 1, 1);
    }
    if (!w->mean || (w->weight->learned && (!w->base || !w->move)))
        return false;
    if (w->base) {
        memcpy(w->base, w->from->part.data, bytes);
        memset(w->move, 0, bytes);
    }
    s->nweights++;
    return true;
}

/* Where all begin; after the weights are there. */
enum pdl_status train_sites_begin(struct train_loop *l, struct pdl_err *err)
{
    struct train_sites *s = l->sites;
    const struct pdl_train_state *x;
    enum pdl_status st;
    int n = 0;

    if (!s->across)
        return PDL_OK;
    st = pdl_trainer_fetch(l->t, err);
    while (pdl_trainer_state(l->t, n))
        n++;
    s->weight = PDL_NEW(l->arena, struct train_site_weight, n + 1);
    for (int i = 0; s->weight && (x = pdl_trainer_state(l->t, i)); i++) {
        if (x->cut)
            return pdl_fail(err, PDL_EINVAL,
                            "--sites does not go with zero= or "
                            "offload=optimizer: a rank has no whole weights");
        if (!x->weight)
            continue;
        if (!is_real(x->learned ? train_master_of(l->t, i) : x))
            return pdl_fail(err, PDL_EINVAL, "--sites: %.60s is not of %s",
                            x->part.name, "float32 or float64");
        if (!add_weight(l, i))
            return pdl_fail(err, PDL_ENOMEM, "out of memory for sites");
    }
    return s->weight ? st : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

/* ---- meeting ----------------------------------------------------------- */

static enum pdl_status mean_of(struct train_sites *s,
                               struct train_site_weight *w, struct pdl_err *err)
{
    enum pdl_status st = pdl_comm_allreduce(
        s->across, w->from->part.data, w->mean, w->n,
        is_wide(w) ? PDL_COMM_F64 : PDL_COMM_F32, PDL_COMM_SUM, err);

    for (int64_t k = 0; k < w->n; k++)
        if (is_wide(w))
            ((double *)w->mean)[k] /= (double)s->job.sites;
        else
            ((float *)w->mean)[k] /= (float)s->job.sites;
    return st;
}

/* The outer step: the mean becomes where all go on from. */
static void outer(const struct train_sites *s, struct train_site_weight *w)
{
    double lr = s->job.outer_lr, keep = s->job.outer_momentum;

    for (int64_t k = 0; k < w->n; k++)
        if (is_wide(w)) {
            double *b = w->base, *v = w->move, *m = w->mean, d = b[k] - m[k];

            v[k] = keep * v[k] + d;
            b[k] = m[k] = b[k] - lr * (d + keep * v[k]);
        } else {
            float *b = w->base, *v = w->move, *m = w->mean, d = b[k] - m[k];

            v[k] = (float)keep * v[k] + d;
            b[k] = m[k] = b[k] - (float)lr * (d + (float)keep * v[k]);
        }
}

static enum pdl_status meet(struct train_loop *l, struct pdl_err *err)
{
    struct train_sites *s = l->sites;
    enum pdl_status st = pdl_trainer_fetch(l->t, err);

    for (int i = 0; i < s->nweights && st == PDL_OK; i++) {
        struct train_site_weight *w = &s->weight[i];
        const struct pdl_train_part *p = &w->weight->part;

        st = mean_of(s, w, err);
        if (w->base)
            outer(s, w);
        memcpy(w->from->part.data, w->mean, bytes_of(w));
        for (int64_t k = 0; p->dtype == PDL_BF16 && k < w->n; k++)
            ((uint16_t *)p->data)[k] = pdl_to_bf16(((float *)w->mean)[k]);
    }
    return st == PDL_OK ? pdl_trainer_send(l->t, err) : st;
}

/* One site that is told to stop stops all, where they meet next. */
enum pdl_status train_sites_step(struct train_loop *l,
                                 struct pdl_train_result *r,
                                 struct pdl_err *err)
{
    struct train_sites *s = l->sites;
    int64_t stop;
    enum pdl_status st;

    if (!s->across)
        return PDL_OK;
    s->asked = s->asked || r->stop > 0;
    r->stop = 0;
    if (l->done % s->job.local_steps != 0 && l->done != l->steps)
        return PDL_OK;
    stop = s->asked;
    st = pdl_comm_allreduce(s->across, &stop, &stop, 1, PDL_COMM_I64,
                            PDL_COMM_MAX, err);
    if (st == PDL_OK)
        st = meet(l, err);
    r->stop = stop > 0;
    return st;
}
