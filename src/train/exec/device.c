/* SPDX-License-Identifier: Apache-2.0
 *
 * What the executor does to bytes of tensors, on the device that holds them. On
 * the host each of these is the plain call. The first error stays with the
 * trainer (nothing here can be undone by its caller) and is told when the host
 * waits for the device: once a step at least. */
#include "train/exec/device.h"
#include "train/train_priv.h"

#include <stdlib.h>
#include <string.h>

static const struct train_device *const devices[] = {
#ifdef PDL_HAVE_CUDA
    &train_cuda,
#endif
    &train_twin,
};

const struct train_device *train_device_at(int i)
{
    int n = (int)(sizeof devices / sizeof devices[0]);

    return i >= 0 && i < n ? devices[i] : NULL;
}

enum pdl_status train_device_find(const char *text,
                                  const struct train_device **out,
                                  const char **which, struct pdl_err *err)
{
    size_t n = text ? strcspn(text, ":") : 0;
    struct pdl_suggest s;

    *out = NULL;
    *which = text && text[n] ? text + n + 1 : NULL;
    if (!text || strcmp(text, "cpu") == 0)
        return PDL_OK;
    for (int i = 0; strcmp(text, "auto") == 0; i++) {
        const struct train_device *d = train_device_at(i);

        if (d && (!d->present || !d->present()))
            continue;
        *out = d;
        return PDL_OK;
    }
    for (int i = 0; train_device_at(i); i++)
        if (strlen(train_device_at(i)->name) == n &&
            strncmp(train_device_at(i)->name, text, n) == 0) {
            *out = train_device_at(i);
            return PDL_OK;
        }
    pdl_fail(err, PDL_EINVAL, "no device '%.40s' in this build", text);
    pdl_suggest_init(&s, text);
    pdl_suggest_try(&s, "cpu");
    pdl_suggest_try(&s, "auto");
    for (int i = 0; train_device_at(i); i++)
        pdl_suggest_try(&s, train_device_at(i)->name);
    if (pdl_suggest_best(&s))
        pdl_hint(err, "did you mean '%s'?", pdl_suggest_best(&s));
    return PDL_EINVAL;
}

static void latch(pdl_trainer *t, enum pdl_status st, const struct pdl_err *err)
{
    if (st == PDL_OK || t->device_st != PDL_OK)
        return;
    t->device_st = st;
    t->device_err = *err;
}

static void copy(pdl_trainer *t, enum train_way way, void *to, const void *from,
                 int64_t bytes)
{
    struct pdl_err err = {.msg = ""};

    if (bytes > 0)
        latch(t,
              t->device->copy(t->backend_state, TRAIN_COMPUTE, way, to, from,
                              bytes, &err),
              &err);
}

enum pdl_status train_settled(pdl_trainer *t, struct pdl_err *err)
{
    struct pdl_err late = {.msg = ""};

    if (!t->device)
        return PDL_OK;
    for (int s = 0; s < TRAIN_STREAMS; s++)
        latch(t,
              t->device->finish(
                  t->backend_state,
                  t->device->record(t->backend_state, (enum train_stream)s),
                  &late),
              &late);
    if (t->device_st != PDL_OK && err)
        *err = t->device_err;
    return t->device_st;
}

const char *train_on_host(const pdl_trainer *t)
{
    const char *text = t->device && t->device->on_host
                           ? t->device->on_host(t->backend_state)
                           : NULL;

    return text && *text ? text : NULL;
}

/* ---- memory ----------------------------------------------------------- */

/* A limit on what a run takes holds for all of it, before it is taken. */
enum pdl_status train_take(pdl_trainer *t, int64_t bytes, struct pdl_err *err)
{
    char want[32], have[32];

    t->sizes.taken += bytes;
    if (t->opt.memory == 0 || t->sizes.taken <= t->opt.memory)
        return PDL_OK;
    pdl_unit_format((double)t->sizes.taken, PDL_UNIT_BYTES, want, sizeof want);
    pdl_unit_format((double)t->opt.memory, PDL_UNIT_BYTES, have, sizeof have);
    pdl_fail(err, PDL_EINVAL, "the plan needs %s and more, --memory is %s",
             want, have);
    pdl_hint(err, "--strategy with recompute=full or offload=activations saves "
                  "memory, as does a smaller batch");
    return PDL_EINVAL;
}

enum pdl_status train_take_memory(pdl_trainer *t, int64_t bytes, void **out,
                                  struct pdl_err *err)
{
    enum pdl_status st = train_take(t, bytes, err);

    if (st != PDL_OK)
        return st;
    if (!t->device) {
        *out = calloc((size_t)bytes, 1);
        return *out ? PDL_OK
                    : pdl_fail(err, PDL_ENOMEM,
                               "out of memory for the optimizer");
    }
    st = t->device->alloc(t->backend_state, bytes, out, err);
    if (st == PDL_OK)
        train_fill(t, *out, 0, bytes);
    return st;
}

void train_give_memory(pdl_trainer *t, void *p)
{
    if (!t->device)
        free(p);
    else
        t->device->free(t->backend_state, p);
}

/* ---- between the host and the device ---------------------------------- */

void train_put(pdl_trainer *t, void *to, const void *from, int64_t bytes)
{
    if (!t->device) {
        if (to != from)
            memcpy(to, from, (size_t)bytes);
        return;
    }
    copy(t, TRAIN_TO_DEVICE, to, from, bytes);
    (void)!train_settled(t, NULL);
}

void train_get(pdl_trainer *t, void *to, const void *from, int64_t bytes)
{
    if (!t->device) {
        if (to != from)
            memcpy(to, from, (size_t)bytes);
        return;
    }
    copy(t, TRAIN_TO_HOST, to, from, bytes);
    (void)!train_settled(t, NULL);
}

void train_get_later(pdl_trainer *t, void *to, const void *from, int64_t bytes)
{
    copy(t, TRAIN_TO_HOST, to, from, bytes);
}

/* What was in it is lost. */
bool train_grow(pdl_trainer *t, struct train_room *r, int64_t bytes)
{
    if (bytes <= r->bytes)
        return true;
    train_empty(t, r);
    r->at = train_take_host(t, bytes);
    r->bytes = r->at ? bytes : 0;
    return r->at != NULL;
}

void train_empty(pdl_trainer *t, struct train_room *r)
{
    train_give_host(t, r->at);
    r->at = NULL;
    r->bytes = 0;
}

/* Memory for readers that come and go, one each epoch: to lock it takes longer
 * than to read a batch of small samples. */
void *train_place(void *ctx, size_t bytes)
{
    pdl_trainer *t = ctx;
    struct train_place *p = t->places;

    while (p && (p->taken || p->room.bytes < (int64_t)bytes))
        p = p->next;
    if (!p) {
        p = PDL_NEW(t->arena, struct train_place, 1);
        if (!p || !train_grow(t, &p->room, (int64_t)bytes))
            return NULL;
        p->room.next = t->rooms;
        t->rooms = &p->room;
        p->next = t->places;
        t->places = p;
    }
    p->taken = true;
    return p->room.at;
}

void train_place_back(void *ctx, void *at)
{
    struct train_place *p = ((pdl_trainer *)ctx)->places;

    while (p && (p->room.at != at || !p->taken))
        p = p->next;
    if (p)
        p->taken = false;
}

void *train_view(pdl_trainer *t, void *at, int64_t bytes)
{
    struct pdl_err err;

    if (!t->device)
        return at;
    if (!train_grow(t, &t->view, bytes + 1)) {
        latch(t,
              pdl_fail(&err, PDL_ENOMEM, "out of memory to look at %lld B",
                       (long long)bytes),
              &err);
        return NULL;
    }
    train_get(t, t->view.at, at, bytes);
    return t->view.at;
}

enum pdl_status train_room_wait(pdl_trainer *t, struct train_room *r,
                                int64_t bytes, struct pdl_err *err)
{
    enum pdl_status st =
        r->busy ? t->device->finish(t->backend_state, r->busy, err) : PDL_OK;

    r->busy = 0;
    if (st == PDL_OK && !train_grow(t, r, bytes))
        st = pdl_fail(err, PDL_ENOMEM, "out of memory on the host");
    return st;
}

void train_room_send(pdl_trainer *t, struct train_room *r, void *to,
                     int64_t bytes)
{
    copy(t, TRAIN_TO_DEVICE, to, r->at, bytes);
    r->busy = t->device->record(t->backend_state, TRAIN_COMPUTE);
}

/* ---- work on bytes ---------------------------------------------------- */

void train_launch(pdl_trainer *t, const struct train_task *task)
{
    struct pdl_err err = {.msg = ""};
    void *at[TRAIN_SPANS];

    if (t->device) {
        latch(t, t->device->launch(t->backend_state, TRAIN_COMPUTE, task, &err),
              &err);
        return;
    }
    for (int i = 0; i < task->n; i++)
        at[i] = task->span[i].at;
    task->work->run(task->args, at);
}

void train_move(pdl_trainer *t, void *to, const void *from, int64_t bytes)
{
    if (bytes <= 0)
        return;
    if (t->device)
        copy(t, TRAIN_INSIDE, to, from, bytes);
    else
        memmove(to, from, (size_t)bytes);
}

void train_fill(pdl_trainer *t, void *to, int byte, int64_t bytes)
{
    struct pdl_err err = {.msg = ""};

    if (bytes <= 0)
        return;
    if (t->device)
        latch(t,
              t->device->fill(t->backend_state, TRAIN_COMPUTE, to, byte, bytes,
                              &err),
              &err);
    else
        memset(to, byte, (size_t)bytes);
}

static void run_copy(const void *args, void *const *at)
{
    const struct train_copy_args *a = args;

    train_copy(&a->to, at[0], &a->from, at[1], &a->region);
}

static const struct train_work copy_work = {"copy", run_copy};

void train_copy_part(pdl_trainer *t, const struct train_array *to, void *dst,
                     const struct train_array *from, const void *src,
                     const struct pdl_box *region)
{
    struct train_copy_args a;
    struct train_task task;

    if (!t->device) {
        train_copy(to, dst, from, src, region);
        return;
    }
    if (pdl_box_empty(region))
        return;
    a = (struct train_copy_args){*to, *from, *region};
    task = (struct train_task){
        .work = &copy_work,
        .args = &a,
        .args_bytes = sizeof a,
        .n = 2,
        .span = {
            {dst, train_array_bytes(to), true, true},
            {(void *)(uintptr_t)src, train_array_bytes(from), true, false}}};
    train_launch(t, &task);
}

static void run_add(const void *args, void *const *at)
{
    const struct train_add_args *a = args;

    train_plus(a->dtype, at[0], at[0], at[1], a->n);
}

static const struct train_work add_work = {"add", run_add};

static void run_plus(const void *args, void *const *at)
{
    const struct train_add_args *a = args;

    train_plus(a->dtype, at[0], at[1], at[2], a->n);
}

static const struct train_work plus_work = {"plus", run_plus};

void train_sum_of(pdl_trainer *t, enum pdl_dtype dtype, void *to, const void *a,
                  const void *b, int64_t n)
{
    struct train_add_args args = {dtype, n};
    int64_t bytes = n * pdl_dtype_bits(dtype) / 8;
    struct train_task task = {
        .work = &plus_work,
        .args = &args,
        .args_bytes = sizeof args,
        .n = 3,
        .span = {{to, bytes, false, true},
                 {(void *)(uintptr_t)a, bytes, true, false},
                 {(void *)(uintptr_t)b, bytes, true, false}}};

    if (n > 0)
        train_launch(t, &task);
}

void train_sum(pdl_trainer *t, enum pdl_dtype dtype, void *to, const void *from,
               int64_t n)
{
    struct train_add_args a = {dtype, n};
    int64_t bytes = n * pdl_dtype_bits(dtype) / 8;
    struct train_task task;

    if (!t->device) {
        train_plus(dtype, to, to, from, n);
        return;
    }
    if (n <= 0)
        return;
    task = (struct train_task){
        .work = &add_work,
        .args = &a,
        .args_bytes = sizeof a,
        .n = 2,
        .span = {{to, bytes, true, true},
                 {(void *)(uintptr_t)from, bytes, true, false}}};
    train_launch(t, &task);
}

/* ---- bfloat16 and float32 --------------------------------------------- */

static void run_widen(const void *args, void *const *at)
{
    const uint16_t *from = at[1];
    int64_t n = *(const int64_t *)args;

    for (int64_t i = 0; i < n; i++) {
        uint32_t u = (uint32_t)from[i] << 16;

        memcpy((float *)at[0] + i, &u, sizeof u);
    }
}

static void run_narrow(const void *args, void *const *at)
{
    const float *from = at[1];
    int64_t n = *(const int64_t *)args;

    pdl_narrow(from, n, at[0]);
}

static void convert(pdl_trainer *t, const struct train_work *work,
                    const void *from, int64_t from_size, void *to,
                    int64_t to_size, int64_t n)
{
    struct train_task task = {
        .work = work,
        .args = &n,
        .args_bytes = sizeof n,
        .n = 2,
        .span = {{to, n * to_size, false, true},
                 {(void *)(uintptr_t)from, n * from_size, true, false}}};

    if (n > 0)
        train_launch(t, &task);
}

void train_widen(pdl_trainer *t, const void *from, void *to, int64_t n)
{
    static const struct train_work work = {"widen", run_widen};

    convert(t, &work, from, 2, to, 4, n);
}

void train_narrow(pdl_trainer *t, const void *from, void *to, int64_t n)
{
    static const struct train_work work = {"narrow", run_narrow};

    convert(t, &work, from, 4, to, 2, n);
}
