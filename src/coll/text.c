/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs as text, one step a line, in the spirit of GOAL (Hoefler, Siebert
 * and Lumsdaine, 2009):
 *
 *   collective allreduce ring
 *   ranks 4
 *   element 4
 *   buffer 0: 1000 elements 4 chunks
 *   rank 0
 *   0: send 0[3] to 1 add 0[2] from 3
 *   1: send 0[2] to 1 add 0[1] from 3 after 0
 *
 * "send" gives, "recv" overwrites, "add" adds to what is there; a step that
 * does neither is "join". A span is buffer[first], buffer[first:run] or
 * buffer[first:run*n/stride], and several are joined by "+". Sparse programs
 * say "sparse", the density, and the terms of each message. The grammar is in
 * doc/collectives.md. */
#include "coll_priv.h"
#include "coll_text.h"

#include <inttypes.h>

const struct coll_param coll_params[COLL_NPARAMS] = {
#define P(name)                                       \
    {                                                 \
#name, offsetof(struct pdl_coll_params, name) \
    }
    P(k),     P(root), P(segments), P(p), P(q), P(g),
    P(shift), P(x),    P(y),        P(z), P(d), P(round),
#undef P
};

static void print_spans(const struct pdl_span *spans, int n,
                        struct pdl_sink *out)
{
    for (int i = 0; i < n; i++) {
        const struct pdl_span *s = &spans[i];

        pdl_printf(out, "%s%d[%" PRId64, i ? "+" : "", s->buf, s->first);
        if (s->run != 1 || s->n != 1)
            pdl_printf(out, ":%" PRId64, s->run);
        if (s->n != 1)
            pdl_printf(out, "*%" PRId64 "/%" PRId64, s->n, s->stride);
        pdl_puts(out, "]");
    }
}

static void print_step(const struct pdl_step *step, int64_t s,
                       struct pdl_sink *out)
{
    pdl_printf(out, "%" PRId64 ":", s);
    if (step->send_to < 0 && step->recv_from < 0)
        pdl_puts(out, " join");
    if (step->send_to >= 0) {
        pdl_puts(out, " send ");
        print_spans(step->send, step->nsend, out);
        pdl_printf(out, " to %d", step->send_to);
        if (step->send_terms)
            pdl_printf(out, " terms %d", step->send_terms);
    }
    if (step->recv_from >= 0) {
        pdl_puts(out, step->act == PDL_ACT_REDUCE ? " add " : " recv ");
        print_spans(step->recv, step->nrecv, out);
        pdl_printf(out, " from %d", step->recv_from);
        if (step->recv_terms)
            pdl_printf(out, " terms %d", step->recv_terms);
    }
    for (int i = 0; i < step->nafter; i++)
        pdl_printf(out, "%s%" PRId64, i ? "," : " after ", step->after[i]);
    pdl_puts(out, "\n");
}

static void print_head(const struct pdl_coll_job *job, struct pdl_sink *out)
{
    char density[64];

    pdl_printf(out, "collective %s %s\nranks %d\nelement %d\n",
               job->alg->collective->name, job->alg->name, job->nranks,
               job->elem_bytes);
    if (job->alg->sparse)
        pdl_printf(out, "sparse %s\n",
                   pdl_unit_print(job->density, PDL_UNIT_NONE, density,
                                  sizeof density));
    for (int i = 0; i < COLL_NPARAMS; i++) {
        int64_t v;

        memcpy(&v, (const char *)&job->params + coll_params[i].offset,
               sizeof v);
        if (v)
            pdl_printf(out, "param %s=%" PRId64 "\n", coll_params[i].name, v);
    }
    for (int b = 0; b < job->nbufs; b++)
        pdl_printf(out, "buffer %d: %" PRId64 " elements %" PRId64 " chunks\n",
                   b, job->buf[b].count, job->buf[b].chunks);
}

void pdl_coll_print(const struct pdl_coll_job *job, int rank,
                    struct pdl_sink *out)
{
    struct pdl_step step;

    print_head(job, out);
    for (int r = 0; r < job->nranks; r++) {
        if (rank >= 0 && r != rank)
            continue;
        pdl_printf(out, "rank %d\n", r);
        for (int64_t s = 0; s < pdl_coll_nsteps(job, r) && !out->failed; s++) {
            pdl_coll_step(job, r, s, &step);
            print_step(&step, s, out);
        }
    }
}
