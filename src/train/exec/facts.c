/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device is, and how fast bytes move in it and to it: copies between
 * marks, the best of some. */
#include "train/train_priv.h"

enum { TURNS = 8, BYTES = 256 << 20 };

static double copies(pdl_trainer *t, enum train_way way, void *to,
                     const void *from)
{
    const struct train_device *d = t->device;
    double best = 0;

    for (int i = 0; i < TURNS; i++) {
        struct pdl_err err;
        double s;

        if (d->mark(t->backend_state, TRAIN_COMPUTE, 0, &err) != PDL_OK)
            return 0;
        (void)!d->copy(t->backend_state, TRAIN_COMPUTE, way, to, from, BYTES,
                       &err);
        (void)!d->mark(t->backend_state, TRAIN_COMPUTE, 1, &err);
        if (train_settled(t, NULL) != PDL_OK)
            return 0;
        s = d->between(t->backend_state, 0, 1);
        if (s > 0 && BYTES / s > best)
            best = BYTES / s;
    }
    return best;
}

bool pdl_trainer_device(pdl_trainer *t, bool rates,
                        struct pdl_train_device *out)
{
    const struct train_device *d = t->device;
    struct train_room host = {.bytes = 0};
    void *a = NULL, *b = NULL;
    struct pdl_err err;

    *out = (struct pdl_train_device){.units = 1};
    if (!d)
        return false;
    if (d->describe)
        d->describe(t->backend_state, out);
    out->on_host = train_on_host(t);
    if (!rates || !train_grow(t, &host, BYTES) ||
        d->alloc(t->backend_state, BYTES, &a, &err) != PDL_OK)
        return true;
    out->bytes_per_s[TRAIN_TO_DEVICE] = copies(t, TRAIN_TO_DEVICE, a, host.at);
    out->bytes_per_s[TRAIN_TO_HOST] = copies(t, TRAIN_TO_HOST, host.at, a);
    if (d->alloc(t->backend_state, BYTES, &b, &err) == PDL_OK) /* read, write */
        out->bytes_per_s[TRAIN_INSIDE] = 2 * copies(t, TRAIN_INSIDE, b, a);
    d->free(t->backend_state, a);
    if (b)
        d->free(t->backend_state, b);
    train_empty(t, &host);
    return true;
}
