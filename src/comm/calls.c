/* SPDX-License-Identifier: Apache-2.0
 *
 * The collectives as callers see them: arguments checked, then a program. */
#include "comm_core.h"

#include <inttypes.h>

static enum pdl_status check_call(pdl_comm *c, const struct comm_call *call,
                                  struct pdl_err *err)
{
    enum pdl_status st = comm_usable(c, err);
    int64_t bytes;

    if (st != PDL_OK)
        return st;
    if ((unsigned)call->type >= PDL_NCOMM_TYPES ||
        (unsigned)call->op > PDL_COMM_AVG)
        return pdl_fail(err, PDL_EINVAL, "%s: no such type or operation",
                        call->collective);
    if (call->count < 0 ||
        !pdl_mul64(call->count, comm_type_bytes(call->type), &bytes) ||
        bytes > (int64_t)1 << 46)
        return pdl_fail(err, PDL_EINVAL, "%s of %" PRId64 " elements",
                        call->collective, call->count);
    if (call->count > 0 && (!call->in || !call->out))
        return pdl_fail(err, PDL_EINVAL, "%s: no buffer", call->collective);
    if (call->root < 0 || call->root >= c->size)
        return pdl_fail(err, PDL_EINVAL, "%s: root %d of %d ranks",
                        call->collective, call->root, c->size);
    return PDL_OK;
}

static enum pdl_status start(pdl_comm *c, const struct comm_call *call,
                             pdl_comm_request **req, struct pdl_err *err)
{
    enum pdl_status st = check_call(c, call, err);
    const char *spec;

    if (st != PDL_OK)
        return st;
    spec = comm_select(c, call);
    if (comm_direct_fits(c, call, spec))
        return comm_direct_start(c, call, spec, req, err);
    return comm_program(c, call, spec, req, err);
}

static enum pdl_status run(pdl_comm *c, const struct comm_call *call,
                           struct pdl_err *err)
{
    enum pdl_status st = check_call(c, call, err);
    pdl_comm_request *req;
    const char *spec;

    if (st != PDL_OK)
        return st;
    spec = comm_select(c, call);
    if (!c->engine && !c->first && comm_direct_fits(c, call, spec))
        return comm_direct_run(c, call, spec, err);
    st = start(c, call, &req, err);
    return st == PDL_OK ? pdl_comm_wait(req, err) : st;
}

enum pdl_status pdl_comm_allreduce(pdl_comm *c, const void *in, void *out,
                                   int64_t count, enum pdl_comm_type type,
                                   enum pdl_comm_op op, struct pdl_err *err)
{
    struct comm_call call = {"allreduce", in, out, count, type, op, 0};

    return run(c, &call, err);
}

enum pdl_status pdl_comm_start_allreduce(pdl_comm *c, const void *in, void *out,
                                         int64_t count, enum pdl_comm_type type,
                                         enum pdl_comm_op op,
                                         pdl_comm_request **req,
                                         struct pdl_err *err)
{
    struct comm_call call = {"allreduce", in, out, count, type, op, 0};

    return start(c, &call, req, err);
}

enum pdl_status pdl_comm_reduce_scatter(pdl_comm *c, const void *in, void *out,
                                        int64_t count, enum pdl_comm_type type,
                                        enum pdl_comm_op op,
                                        struct pdl_err *err)
{
    struct comm_call call = {"reduce-scatter", in, out, count, type, op, 0};

    return run(c, &call, err);
}

enum pdl_status pdl_comm_allgather(pdl_comm *c, const void *in, void *out,
                                   int64_t count, enum pdl_comm_type type,
                                   struct pdl_err *err)
{
    struct comm_call call = {"allgather", in,           out, count,
                             type,        PDL_COMM_SUM, 0};

    return run(c, &call, err);
}

enum pdl_status pdl_comm_alltoall(pdl_comm *c, const void *in, void *out,
                                  int64_t count, enum pdl_comm_type type,
                                  struct pdl_err *err)
{
    struct comm_call call = {"alltoall", in, out, count, type, PDL_COMM_SUM, 0};

    if (!pdl_mul64(count, c->size, &call.count))
        return pdl_fail(err, PDL_EINVAL, "alltoall of %" PRId64 " elements",
                        count);
    return run(c, &call, err);
}

enum pdl_status pdl_comm_broadcast(pdl_comm *c, void *buffer, int64_t count,
                                   enum pdl_comm_type type, int root,
                                   struct pdl_err *err)
{
    struct comm_call call = {"broadcast", buffer,       buffer, count,
                             type,        PDL_COMM_SUM, root};

    return run(c, &call, err);
}
