/* Shared by the tests of published collectives. */
#ifndef COLL_PAPER_H
#define COLL_PAPER_H

#include "figure.h"
#include "paradl/coll.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>

static const struct pdl_net *network(pdl_arena *a, const char *spec)
{
    const struct pdl_net *net = NULL;
    struct pdl_err err = {"", ""};

    if (pdl_net_make(a, spec, &net, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return net;
}

/* A job on all hosts of the network, or on the first p of them. */
static struct pdl_coll_job job_on(const struct pdl_net *net, const char *coll,
                                  const char *alg, int p, int64_t bytes,
                                  double density)
{
    struct pdl_coll_job job = {.nranks = p ? p : net->nhosts,
                               .count = bytes / 4,
                               .elem_bytes = 4,
                               .density = density};
    struct pdl_err err = {"", ""};

    if (pdl_alg_parse(coll, alg, &job, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    pdl_coll_suit(&job, net);
    if (pdl_coll_setup(&job, &err) != PDL_OK)
        fail_msg("%s", err.msg);
    return job;
}

#endif
