/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual ranks: all ranks of a plan as threads of this process. The test
 * oracle, the debugger, and the way to run more ranks than there are cores. */
#include "train/train_priv.h"

#include <pthread.h>
#include <stdlib.h>

struct thread {
    pthread_t id;
    pdl_comm *comm;
    enum pdl_status (*body)(void *ctx, pdl_comm *comm, struct pdl_err *err);
    void *ctx;
    enum pdl_status st;
    struct pdl_err err;
    bool started;
};

static void *start(void *arg)
{
    struct thread *t = arg;

    t->st = t->body(t->ctx, t->comm, &t->err);
    return NULL;
}

/* The cause, not its echo: ranks that lost a peer come last. */
static enum pdl_status verdict(const struct thread *list, int n,
                               struct pdl_err *err)
{
    const struct thread *worst = NULL;

    for (int i = 0; i < n; i++)
        if (list[i].st != PDL_OK &&
            (!worst || (worst->st == PDL_ENOENV && list[i].st != PDL_ENOENV)))
            worst = &list[i];
    if (worst && err)
        *err = worst->err;
    return worst ? worst->st : PDL_OK;
}

enum pdl_status pdl_train_virtual(int n, double timeout_s,
                                  enum pdl_status (*body)(void *ctx,
                                                          pdl_comm *comm,
                                                          struct pdl_err *err),
                                  void *ctx, struct pdl_err *err)
{
    struct pdl_comm_options opt = {.fixed_order = true, .timeout_s = timeout_s};
    struct thread *list = calloc((size_t)n, sizeof list[0]);
    pdl_comm **comms = calloc((size_t)n, sizeof(pdl_comm *));
    enum pdl_status st = PDL_OK;

    if (!list || !comms)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory for %d ranks", n);
    if (st == PDL_OK)
        st = pdl_comm_create_memory(n, &opt, comms, err);
    for (int i = 0; i < n && st == PDL_OK; i++) {
        list[i] = (struct thread){.comm = comms[i], .body = body, .ctx = ctx};
        list[i].started =
            pthread_create(&list[i].id, NULL, start, &list[i]) == 0;
        if (!list[i].started)
            st = pdl_fail(err, PDL_ENOENV, "cannot start %d threads", n);
    }
    for (int i = 0; list && i < n; i++)
        if (list[i].started)
            pthread_join(list[i].id, NULL);
    if (st == PDL_OK)
        st = verdict(list, n, err);
    for (int i = 0; comms && i < n; i++)
        pdl_comm_destroy(comms[i]);
    free(comms);
    free(list);
    return st;
}
