/* SPDX-License-Identifier: Apache-2.0
 *
 * What waits far from the computing memory: activations that the plan copies
 * out in forward and in again in backward; gradients that leave as backward
 * makes them, and weights that the host updates and that come in before they
 * are read (offload=optimizer, tune.c). Far memory is the host's (of a
 * device), other memory of the host, or a file. Each direction has a stream of
 * its own, on a device the device's, of a file a thread; between memories of
 * the host copies are done at once.
 *
 * A copy out begins behind the work so far, and where the plan frees its
 * source, computing waits until it is done: a place in the arena is another's
 * only then. A copy in begins behind the work so far (what was in its place has
 * been used), and whoever reads its result first waits for it. */
#include "train/exec/far.h"
#include "train/train_priv.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening --- */

bool train_is_far(const pdl_trainer *t, int tensor)
{
    return tensor < t->plan->ntensors && t->plan->tensors[tensor].host;
}

/* Before memory is planned: which tensors go and come. */
enum pdl_status train_far_find(pdl_trainer *t, struct pdl_err *err)
{
    const struct pdl_plan *p = t->plan;
    int64_t n = (int64_t)(t->capacity + 1) * (t->micros + 1);
    bool any = false;

    for (int i = 0; i < p->nops; i++)
        any = any || (train_is_copy(&p->ops[i]) && t->ops[i].mine);
    if (!any)
        return PDL_OK;
    t->far = PDL_NEW(t->arena, struct train_far, 1);
    if (t->far) {
        t->far->leaves = PDL_NEW(t->arena, bool, t->capacity + 1);
        t->far->comes = PDL_NEW(t->arena, bool, t->capacity + 1);
        t->far->ticket = PDL_NEW(t->arena, uint64_t, n);
    }
    if (!t->far || !t->far->leaves || !t->far->comes || !t->far->ticket)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for copies");
    for (int i = 0; i < p->nops; i++)
        for (int k = 0; train_is_copy(&p->ops[i]) && k < p->ops[i].nin; k++) {
            if (p->ops[i].kind == PDL_PLAN_OP_COPY_OUT)
                t->far->leaves[p->ops[i].in[k]] = true;
            else
                t->far->comes[p->ops[i].out[k]] = true;
        }
    return PDL_OK;
}

static bool any_copies(const struct pdl_plan *p)
{
    for (int i = 0; i < p->nops; i++)
        if (train_is_copy(&p->ops[i]))
            return true;
    return false;
}

/* Where what is far from this rank's tensors lies; NULL: in a file. */
char *train_far_memory(const pdl_trainer *t)
{
    return t->far ? t->far->at : NULL;
}

static bool keeps_states(const pdl_trainer *t)
{
    for (int i = 0; i < t->plan->ntensors; i++)
        if (train_is_far(t, i) && train_is_state(t, i))
            return true;
    return false;
}

enum pdl_status train_far_open(pdl_trainer *t, struct pdl_err *err)
{
    struct train_far *f = t->far;
    int64_t n = t->sizes.far;
    enum pdl_status st = PDL_OK;
    bool by_group;

    if (t->opt.far && train_far_folder(t->opt.far, err) != PDL_OK)
        return PDL_EIO;
    if (!t->opt.far && any_copies(t->plan)) { /* with ranks that copy nothing */
        int64_t room = train_host_room(&by_group);

        st = train_host_ask(t->world, f ? n + train_tuner_bytes(t, true) : 0,
                            room, by_group, err);
    }
    if (!f || st != PDL_OK)
        return st;
    if (t->opt.far && keeps_states(t))
        return pdl_fail(err, PDL_EINVAL,
                        "--far: offload=optimizer keeps states in the host's "
                        "memory, not in a file");
    if (t->opt.far && t->device)
        return pdl_fail(err, PDL_EINVAL,
                        "--far: a device copies to the host's memory, not to "
                        "files");
    if (t->opt.far)
        return train_far_file_open(t->opt.far, t->rank, n, &f->file, err);
    f->at = train_take_host(t, n + 1);
    return f->at ? PDL_OK
                 : pdl_fail(err, PDL_ENOMEM,
                            "no %lld B of the host's memory for what waits "
                            "there",
                            (long long)n);
}

void train_far_close(pdl_trainer *t)
{
    struct train_far *f = t->far;

    if (!f)
        return;
    train_far_file_close(f->file);
    train_give_host(t, f->at);
}

/* ---- the link --- */

enum { TRIED = 64 << 20, ROUNDS = 4 };

/* Seconds of a round: as much there as back. */
static double copy_both(pdl_trainer *t, void *const *here, void *const *there)
{
    const struct train_device *d = t->device;
    void *s = t->backend_state;
    double start = pdl_clock_s();
    bool ok = d->copy(s, TRAIN_OUT, TRAIN_TO_HOST, there[0], here[0], TRIED,
                      NULL) == PDL_OK &&
              d->copy(s, TRAIN_IN, TRAIN_TO_DEVICE, here[1], there[1], TRIED,
                      NULL) == PDL_OK &&
              d->finish(s, d->record(s, TRAIN_OUT), NULL) == PDL_OK &&
              d->finish(s, d->record(s, TRAIN_IN), NULL) == PDL_OK;

    return ok ? pdl_clock_s() - start : 0;
}

double pdl_trainer_copy_rate(pdl_trainer *t)
{
    const struct train_device *d = t->device;
    void *here[2] = {NULL, NULL}, *there[2] = {NULL, NULL};
    double best = 0;
    bool ok = d && d->describe; /* one that is no test's */

    for (int i = 0; i < 2 && ok; i++) {
        there[i] = train_take_host(t, TRIED);
        ok = there[i] &&
             d->alloc(t->backend_state, TRIED, &here[i], NULL) == PDL_OK;
    }
    for (int i = 0; i < ROUNDS && ok; i++) {
        double s = copy_both(t, here, there);

        if (s > 0 && TRIED / s > best)
            best = TRIED / s;
    }
    for (int i = 0; d && i < 2; i++) {
        if (there[i])
            train_give_host(t, there[i]);
        if (here[i])
            d->free(t->backend_state, here[i]);
    }
    return best;
}

/* ---- running --- */

/* A weight is of no micro-batch. */
static uint64_t *ticket_of(const pdl_trainer *t, int tensor, int micro)
{
    bool once = micro == TRAIN_UPDATE || train_is_state(t, tensor);

    return &t->far
                ->ticket[tensor * (t->micros + 1) + (once ? t->micros : micro)];
}

/* The far side of a copy; a planted fault takes its neighbour's. */
static int far_side(const pdl_trainer *t, int op, int k)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];
    const int *side = o->kind == PDL_PLAN_OP_COPY_OUT ? o->out : o->in;

    if (t->fault == TRAIN_FAULT_SWAP_FAR && o->kind == PDL_PLAN_OP_COPY_IN &&
        o->nin > 1)
        return side[(k + 1) % o->nin];
    return side[k];
}

/* Behind the work so far, and behind the last copies in: they may still read
 * the place. */
static void follow(pdl_trainer *t, enum train_stream s)
{
    if (t->fault == TRAIN_FAULT_NO_EVENT)
        return;
    t->device->wait(t->backend_state, s,
                    t->device->record(t->backend_state, TRAIN_COMPUTE));
    if (s == TRAIN_OUT && t->far->last_in)
        t->device->wait(t->backend_state, s, t->far->last_in);
}

static enum pdl_status copy_one(pdl_trainer *t, bool out, int here, int there,
                                int micro, struct pdl_err *err)
{
    int64_t n = train_array_bytes(&t->arrays[here]);
    int64_t far_n = train_array_bytes(&t->arrays[there]);
    char *near = train_data(t, here, micro);
    int64_t at = train_offset(t, there, micro);
    char *far = t->far->at;

    n = n < far_n ? n : far_n; /* they differ where a fault is planted */
    if (n == 0)
        return PDL_OK;
    if (t->far->file)
        return train_far_file_copy(t->far->file, out, near, at, n, err);
    if (!far)
        return pdl_fail(err, PDL_EWRONG, "nowhere to copy to");
    far += at;
    if (!t->device) {
        memcpy(out ? far : near, out ? near : far, (size_t)n);
        return PDL_OK;
    }
    return t->device->copy(t->backend_state, out ? TRAIN_OUT : TRAIN_IN,
                           out ? TRAIN_TO_HOST : TRAIN_TO_DEVICE,
                           out ? far : near, out ? near : far, n, err);
}

enum pdl_status train_far_copy(pdl_trainer *t, int op, int micro,
                               struct pdl_err *err)
{
    const struct pdl_plan_op *o = &t->plan->ops[op];
    bool out = o->kind == PDL_PLAN_OP_COPY_OUT;
    const int *here = out ? o->in : o->out;
    enum pdl_status st = PDL_OK;
    uint64_t done = 0;

    if (t->ops[op].begun) { /* in backward */
        t->ops[op].begun = false;
        return PDL_OK;
    }
    if (t->device)
        follow(t, out ? TRAIN_OUT : TRAIN_IN);
    for (int k = 0; k < o->nin && st == PDL_OK; k++)
        st = copy_one(t, out, here[k], far_side(t, op, k), micro, err);
    if (st != PDL_OK)
        return st;
    if (t->device)
        done = t->device->record(t->backend_state, out ? TRAIN_OUT : TRAIN_IN);
    else if (t->far->file)
        done = train_far_file_record(t->far->file, out);
    if (!out)
        t->far->last_in = done;
    for (int k = 0; k < o->nin; k++)
        *ticket_of(t, here[k], micro) = done;
    for (int k = 0; out && k < o->nin; k++)
        *ticket_of(t, o->out[k], micro) = done;
    return PDL_OK;
}

enum pdl_status train_far_begin(pdl_trainer *t, int op, struct pdl_err *err)
{
    enum pdl_status st = train_far_copy(t, op, TRAIN_UPDATE, err);

    t->ops[op].begun = st == PDL_OK;
    return st;
}

enum pdl_status train_far_arrived(pdl_trainer *t, int tensor,
                                  struct pdl_err *err)
{
    uint64_t *ticket = ticket_of(t, tensor, TRAIN_UPDATE), done = *ticket;

    *ticket = 0;
    if (!t->device || done == 0 || t->fault == TRAIN_FAULT_NO_EVENT)
        return PDL_OK;
    return t->device->finish(t->backend_state, done, err);
}

enum pdl_status train_far_wait(pdl_trainer *t, int tensor, int micro,
                               bool freed, struct pdl_err *err)
{
    uint64_t *ticket;
    uint64_t done;

    if (!(freed ? t->far->leaves : t->far->comes)[tensor])
        return PDL_OK;
    ticket = ticket_of(t, tensor, micro);
    done = *ticket;
    if (done == 0)
        return PDL_OK;
    *ticket = 0;
    if (t->fault == (freed ? TRAIN_FAULT_EARLY_FREE : TRAIN_FAULT_NO_EVENT))
        return PDL_OK;
    if (t->far->file)
        return train_far_file_wait(t->far->file, freed, done, err);
    if (t->device)
        t->device->wait(t->backend_state, TRAIN_COMPUTE, done);
    return PDL_OK;
}
