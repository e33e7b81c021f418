/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the host that a device copies to and from. The driver's is locked:
 * it does not move, and copies go by themselves. Where so much may not be
 * locked (a limit of the kernel, of a cgroup, of the driver) plain memory does:
 * copies then go by the driver's own buffer, and whoever asks for one waits. */
#include "train/exec/device.h"
#include "train/train_priv.h"

#include <stdlib.h>

struct train_plain {
    void *at;
    struct train_plain *next;
};

static void *take_plain(pdl_trainer *t, int64_t bytes)
{
    struct train_plain *p = malloc(sizeof *p);

    if (!p)
        return NULL;
    *p = (struct train_plain){malloc((size_t)bytes), t->plain};
    if (!p->at) {
        free(p);
        return NULL;
    }
    t->plain = p;
    t->unlocked += bytes;
    return p->at;
}

void *train_take_host(pdl_trainer *t, int64_t bytes)
{
    void *p;

    if (!t->device || !t->device->take_host)
        return malloc((size_t)bytes);
    p = t->device->take_host(t->backend_state, bytes);
    return p ? p : take_plain(t, bytes);
}

void train_give_host(pdl_trainer *t, void *at)
{
    struct train_plain **p = &t->plain, *gone;

    while (*p && (*p)->at != at)
        p = &(*p)->next;
    gone = *p;
    if (gone && at) {
        *p = gone->next;
        free(gone->at);
        free(gone);
    } else if (t->device && t->device->give_host) {
        t->device->give_host(t->backend_state, at);
    } else {
        free(at);
    }
}

int64_t train_unlocked(const pdl_trainer *t)
{
    return t->unlocked;
}
