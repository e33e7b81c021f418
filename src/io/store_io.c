/* SPDX-License-Identifier: Apache-2.0
 *
 * A data set whose samples are in a store, and filling a store from a data
 * set. Readers do not see the difference. */
#include "store.h"

#include <stdlib.h>
#include <string.h>

struct over {
    const pdl_io *source;
    pdl_store *store;
    int split;
};

/* ---- reading ---------------------------------------------------------- */

/* From the source instead; the store gets it again. */
static enum pdl_status heal(const struct over *o, int64_t sample,
                            struct pdl_err *err)
{
    struct pdl_store_info info;
    void *record;
    enum pdl_status st;

    pdl_store_describe(o->store, &info);
    record = malloc((size_t)info.record_bytes);
    if (!record)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    st = io_store_encode(o->store, o->source, o->split, sample, record, err);
    if (st == PDL_OK)
        st = pdl_store_put(o->store, sample, record, err);
    free(record);
    return st;
}

static enum pdl_status read_part(const pdl_io *io, int split, int64_t sample,
                                 bool target, const struct pdl_box *box,
                                 void *dst, struct pdl_err *err)
{
    const struct over *o = io->state;
    const struct io_ops *ops = o->source->ops;
    struct pdl_err bad = {"", ""};
    enum pdl_status st;

    if (split != o->split)
        return (target ? ops->target : ops->input)(o->source, split, sample,
                                                   box, dst, err);
    st = pdl_store_part(o->store, sample, target, box, dst, &bad);
    if (st == PDL_EPARSE)
        st = heal(o, sample, &bad);
    else if (st != PDL_OK)
        return pdl_fail(err, st, "%s", bad.msg);
    else
        return PDL_OK;
    return st == PDL_OK
               ? pdl_store_part(o->store, sample, target, box, dst, err)
               : pdl_fail(err, st, "%s", bad.msg);
}

static enum pdl_status over_input(const pdl_io *io, int split, int64_t sample,
                                  const struct pdl_box *box, void *dst,
                                  struct pdl_err *err)
{
    return read_part(io, split, sample, false, box, dst, err);
}

static enum pdl_status over_target(const pdl_io *io, int split, int64_t sample,
                                   const struct pdl_box *box, void *dst,
                                   struct pdl_err *err)
{
    return read_part(io, split, sample, true, box, dst, err);
}

static const char *over_where(const pdl_io *io, int split, int64_t sample,
                              bool target, int64_t *number)
{
    const struct over *o = io->state;

    if (split == o->split || !o->source->ops->where)
        return o->source->path;
    return o->source->ops->where(o->source, split, sample, target, number);
}

static const struct io_ops over_ops = {
    .input = over_input,
    .target = over_target,
    .where = over_where,
};

enum pdl_status pdl_io_over_store(const pdl_io *source, pdl_store *store,
                                  int split, pdl_io **out, struct pdl_err *err)
{
    pdl_io *io = calloc(1, sizeof *io);
    struct over *o = NULL;

    if (io)
        io->arena = pdl_arena_create(1 << 16);
    if (io && io->arena)
        o = PDL_NEW(io->arena, struct over, 1);
    if (!o) {
        pdl_io_close(io);
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    }
    *o = (struct over){source, store, split};
    io->d = source->d;
    io->opt = source->opt;
    io->path = source->path;
    io->finite = source->finite;
    io->pixels = source->pixels;
    io->ops = &over_ops;
    io->state = o;
    *out = io;
    return PDL_OK;
}

/* ---- filling ---------------------------------------------------------- */

struct filling {
    pdl_store *store;
    struct pdl_store_fill *f;
    pthread_mutex_t lock; /* of all below */
    int64_t next, put;
    enum pdl_status status;
    struct pdl_err err;
};

static enum pdl_status fill_one(struct filling *w, int64_t sample, void *record,
                                bool *put, struct pdl_err *err)
{
    enum pdl_status st;

    if (pdl_store_check(w->store, sample, NULL) == PDL_OK)
        return PDL_OK;
    st = pdl_store_encode(w->store, w->f->source, w->f->split, sample, record,
                          err);
    if (st == PDL_OK)
        st = pdl_store_put(w->store, sample, record, err);
    *put = true;
    return st;
}

/* Sixteen at a time: neighbours are read by one thread. */
static void *fill_some(void *arg)
{
    enum { AT_ONCE = 16 };
    struct filling *w = arg;
    struct pdl_store_info info;
    struct pdl_err err = {"", ""};
    enum pdl_status st = PDL_OK;
    void *record;

    pdl_store_describe(w->store, &info);
    record = malloc((size_t)info.record_bytes);
    if (!record)
        st = pdl_fail(&err, PDL_ENOMEM, "out of memory");
    for (;;) {
        int64_t from, put = 0;
        bool more;

        pthread_mutex_lock(&w->lock);
        if (st != PDL_OK && w->status == PDL_OK) {
            w->status = st;
            w->err = err;
        }
        from = w->next;
        w->next += AT_ONCE;
        more = w->status == PDL_OK && from < w->f->n;
        pthread_mutex_unlock(&w->lock);
        if (!more)
            break;
        for (int64_t i = from;
             i < from + AT_ONCE && i < w->f->n && st == PDL_OK; i++) {
            bool wrote = false;

            st = fill_one(w, w->f->samples[i], record, &wrote, &err);
            put += wrote;
            if (st == PDL_OK && w->f->cancel && *w->f->cancel)
                st = pdl_fail(&err, PDL_EINTR, "stopped");
        }
        pthread_mutex_lock(&w->lock);
        w->put += put;
        pthread_mutex_unlock(&w->lock);
    }
    free(record);
    return NULL;
}

enum pdl_status pdl_store_fill(pdl_store *s, struct pdl_store_fill *f,
                               struct pdl_err *err)
{
    enum { MOST = 64 };
    int n = f->threads < 1 ? 1 : f->threads > MOST ? MOST : f->threads;
    struct filling w = {.store = s, .f = f};
    pthread_t thread[MOST];
    int started = 0;

    pthread_mutex_init(&w.lock, NULL);
    while (started < n - 1 &&
           pthread_create(&thread[started], NULL, fill_some, &w) == 0)
        started++;
    fill_some(&w);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&w.lock);
    f->put = w.put;
    if (w.status != PDL_OK && err)
        *err = w.err;
    return w.status;
}
