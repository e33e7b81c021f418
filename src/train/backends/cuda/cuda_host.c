/* SPDX-License-Identifier: Apache-2.0
 *
 * A call that the list of the cuda backend does not have: its operands come to
 * the host, the reference backend runs it, and the results go back. Slow, and
 * the run says which operators it is for. */
#include "train/backends/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

struct host_kernel {
    struct train_kernel base;
    struct cuda_state *s;
    struct train_kernel *ref;
    int n, nin;
    int64_t bytes[160];
};

static enum pdl_status move(const struct host_kernel *k, void *const *device,
                            char **host, bool back, struct pdl_err *err)
{
    cudaStream_t s = train_cuda_queue(k->s, TRAIN_COMPUTE);
    cudaError_t e = cudaSuccess;

    for (int i = 0; i < k->n && e == cudaSuccess; i++)
        if (k->bytes[i] > 0)
            e = back ? cudaMemcpyAsync(device[i], host[i], (size_t)k->bytes[i],
                                       cudaMemcpyHostToDevice, s)
                     : cudaMemcpyAsync(host[i], device[i], (size_t)k->bytes[i],
                                       cudaMemcpyDeviceToHost, s);
    if (e == cudaSuccess)
        e = cudaStreamSynchronize(s);
    return e == cudaSuccess ? PDL_OK : train_cuda_fail(err, e, "host");
}

/* Inputs go back, too: running statistics are changed in place. */
static enum pdl_status run(const struct train_kernel *base, void *const *in,
                           void *const *out, void *scratch,
                           const struct train_moment *when, struct pdl_err *err)
{
    const struct host_kernel *k = (const struct host_kernel *)base;
    void *device[160];
    char *host[160], *room;
    int64_t at = 0, total = k->ref->scratch_bytes + 64;
    enum pdl_status st;

    (void)scratch;
    for (int i = 0; i < k->n; i++)
        total += (k->bytes[i] + 63) / 64 * 64;
    room = aligned_alloc(64, (size_t)(total + 63) / 64 * 64);
    if (!room)
        return pdl_fail(err, PDL_ENOMEM, "out of memory on the host");
    for (int i = 0; i < k->n; i++) {
        device[i] = i < k->nin ? in[i] : out[i - k->nin];
        host[i] = room + at;
        at += (k->bytes[i] + 63) / 64 * 64;
    }
    st = move(k, device, host, false, err);
    if (st == PDL_OK)
        st = k->ref->run(k->ref, (void *const *)host,
                         (void *const *)(host + k->nin), room + at, when, err);
    if (st == PDL_OK)
        st = move(k, device, host, true, err);
    free(room);
    return st;
}

static void tell(struct cuda_state *s, const char *op)
{
    size_t n = strlen(s->on_host), m = strlen(op);
    const char *at = strstr(s->on_host, op);

    if (at && (at[m] == ',' || !at[m]) && (at == s->on_host || at[-1] == ' '))
        return;
    if (n + m + 3 < sizeof s->on_host) {
        if (n > 0)
            memcpy(s->on_host + n, ", ", 3);
        memcpy(s->on_host + n + (n > 0 ? 2 : 0), op, m + 1);
    }
}

enum pdl_status train_cuda_on_host(struct cuda_state *s,
                                   const struct train_call *c,
                                   struct train_kernel **out,
                                   struct pdl_err *err)
{
    struct host_kernel *k = PDL_NEW(s->arena, struct host_kernel, 1);
    enum pdl_status st;

    if (!k || c->nin + c->nout > 160)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    *k =
        (struct host_kernel){.base = {.implementation = "host:ref", .run = run},
                             .s = s,
                             .n = c->nin + c->nout,
                             .nin = c->nin};
    st = train_ref.make(s->ref, c, &k->ref, err);
    for (int i = 0; i < k->n; i++)
        k->bytes[i] =
            train_array_bytes(i < c->nin ? &c->in[i] : &c->out[i - c->nin]);
    if (st == PDL_OK)
        *out = &k->base;
    tell(s, c->node ? c->node->op->name : "loss");
    return st;
}
