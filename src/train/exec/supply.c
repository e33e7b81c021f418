/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's store in training. Which worker sends which sample to whom is the
 * sampler's (paradl/data.h): every rank knows it, nobody asks. Before a step
 * the samples that are due go out in one message to each rank that wants some,
 * on a communicator of their own, while the step is computed; before the next
 * step they are waited for and put into the store. Old copies are dropped when
 * the epoch has ended on all ranks, so at any time every sample is in a store.
 * A store that does not hold what it should (another number of ranks, a lost
 * file, an older checkpoint) is refilled first. */
#include "train/exec/supply.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- who has what ----------------------------------------------------- */

/* Workers whose part of a micro-batch meets the parts that a rank reads. */
static void find_workers(struct train_supply *s, const struct pdl_plan *p,
                         int rank)
{
    int64_t m = pdl_sampler_workers(s->sampler);
    int64_t per = p->batch / p->micro_batches / m;

    s->first[rank] = m;
    s->last[rank] = 0;
    for (int i = 0; i < p->ntensors; i++) {
        struct pdl_box b;
        int64_t lo, hi;

        if (!train_is_loaded(&p->tensors[i]) || train_is_constant(p, i))
            continue;
        pdl_plan_box(p, i, rank, &b);
        if (pdl_box_empty(&b))
            continue;
        lo = b.lo[0] / per;
        hi = (b.hi[0] + per - 1) / per;
        s->first[rank] = lo < s->first[rank] ? lo : s->first[rank];
        s->last[rank] = hi > s->last[rank] ? hi : s->last[rank];
    }
    if (s->first[rank] > s->last[rank])
        s->first[rank] = s->last[rank] = 0;
}

static bool serves(const struct train_supply *s, int rank, int64_t worker)
{
    return worker >= s->first[rank] && worker < s->last[rank];
}

/* The rank that sends what `from` gives `to` to rank `me`; -1: me has it. The
 * k-th rank of one worker is served by the k-th of the other. */
static int sender(const struct train_supply *s, int64_t from, int64_t to,
                  int me)
{
    int n = 0, k = 0;

    if (serves(s, me, from))
        return -1;
    for (int r = 0; r < s->ranks; r++) {
        n += serves(s, r, from);
        k += r < me && serves(s, r, to);
    }
    k %= n > 0 ? n : 1;
    for (int r = 0; r < s->ranks; r++)
        if (serves(s, r, from) && k-- == 0)
            return r;
    return -1;
}

/* Samples that one of my workers has at the beginning of the epoch, and those
 * that it has got by move `moved`. */
static int64_t list_wanted(const struct train_supply *s, int64_t moved,
                           int64_t *out)
{
    int64_t n = 0;

    for (int64_t w = s->first[s->rank]; w < s->last[s->rank]; w++) {
        int64_t slots = pdl_sampler_slots(s->sampler, w);

        for (int64_t i = 0; i < slots; i++)
            out[n++] = pdl_sampler_slot(s->sampler, w, i);
        for (int64_t j = 0; j < moved; j++) {
            int64_t from = pdl_sampler_move(s->sampler, w, j).from;

            if (!serves(s, s->rank, from))
                out[n++] = pdl_sampler_move(s->sampler, from, j).sample;
        }
    }
    return n;
}

static int64_t capacity(const struct train_supply *s)
{
    int64_t n = 0;

    for (int64_t w = s->first[s->rank]; w < s->last[s->rank]; w++)
        n += pdl_sampler_slots(s->sampler, w) + pdl_sampler_moves(s->sampler);
    return n;
}

/* ---- opening ---------------------------------------------------------- */

static enum pdl_status own_comm(struct train_supply *s, pdl_comm *comm,
                                struct pdl_err *err)
{
    int *all = malloc((size_t)s->ranks * sizeof *all);
    enum pdl_status st;

    if (!all)
        return pdl_fail(err, PDL_ENOMEM, "out of memory");
    for (int r = 0; r < s->ranks; r++)
        all[r] = r;
    st = pdl_comm_subset(comm, s->ranks, all, &s->comm, err);
    free(all);
    return st;
}

static enum pdl_status open_store(struct train_supply *s, const char *dir,
                                  struct pdl_err *err)
{
    struct pdl_store_info info;
    enum pdl_status st;

    if (capacity(s) == 0)
        return PDL_OK; /* this rank reads no samples */
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return pdl_fail(err, PDL_EIO, "--store: %.200s: %s", dir,
                        strerror(errno));
    if (snprintf(s->path, sizeof s->path, "%s/rank-%d.store", dir, s->rank) >=
        (int)sizeof s->path)
        return pdl_fail(err, PDL_EINVAL, "--store: the name is too long");
    st = pdl_store_open(s->path, s->source, s->split, capacity(s), &s->store,
                        err);
    if (st == PDL_OK)
        st = pdl_io_over_store(s->source, s->store, s->split, &s->io, err);
    if (st == PDL_OK) {
        pdl_store_describe(s->store, &info);
        s->record_bytes = info.record_bytes;
    }
    return st;
}

/* What one rank could not open, no rank can go on without: all say what the
 * lowest of them has to say. */
static enum pdl_status agree(struct train_supply *s, enum pdl_status st,
                             struct pdl_err *err)
{
    int64_t all[2] = {st == PDL_OK ? 0 : s->ranks - s->rank, s->record_bytes};
    struct {
        int64_t st;
        struct pdl_err err;
    } what = {.st = st};
    enum pdl_status shared;

    if (s->ranks == 1)
        return st;
    shared = pdl_comm_allreduce(s->comm, all, all, 2, PDL_COMM_I64,
                                PDL_COMM_MAX, err);
    if (shared != PDL_OK)
        return shared;
    s->record_bytes = all[1];
    if (all[0] == 0)
        return PDL_OK;
    if (err)
        what.err = *err;
    _Static_assert(sizeof what % sizeof(int64_t) == 0, "whole numbers");
    shared = pdl_comm_broadcast(s->comm, &what, sizeof what / sizeof(int64_t),
                                PDL_COMM_I64, s->ranks - (int)all[0], err);
    if (shared != PDL_OK)
        return shared;
    if (err)
        *err = what.err;
    return (enum pdl_status)what.st;
}

static enum pdl_status make_room(struct train_supply *s, struct pdl_err *err)
{
    s->first = calloc((size_t)s->ranks, sizeof *s->first);
    s->last = calloc((size_t)s->ranks, sizeof *s->last);
    s->now.out = calloc((size_t)s->ranks, sizeof *s->now.out);
    s->now.in = calloc((size_t)s->ranks, sizeof *s->now.in);
    return s->first && s->last && s->now.out && s->now.in
               ? PDL_OK
               : pdl_fail(err, PDL_ENOMEM, "out of memory");
}

enum pdl_status train_supply_deal(struct train_supply *s,
                                  const struct pdl_plan *plan,
                                  const pdl_comm *comm, struct pdl_err *err)
{
    enum pdl_status st;

    s->rank = pdl_comm_rank(comm);
    s->ranks = pdl_comm_size(comm);
    st = make_room(s, err);
    for (int r = 0; r < s->ranks && st == PDL_OK && plan; r++)
        find_workers(s, plan, r);
    return st;
}

enum pdl_status train_supply_open(struct train_supply *s, const char *dir,
                                  pdl_comm *comm, struct pdl_err *err)
{
    enum pdl_status st;

    if (!pdl_sampler_keeps(s->sampler)) {
        pdl_fail(err, PDL_EINVAL,
                 "--store: every rank reads every sample in this order");
        pdl_hint(err, "--shuffle partial:q=0.3, pair or local");
        return PDL_EINVAL;
    }
    st = own_comm(s, comm, err);
    return st == PDL_OK ? agree(s, open_store(s, dir, err), err) : st;
}

static void empty(struct supply_parcel *p, int n)
{
    for (int r = 0; p && r < n; r++) {
        free(p[r].data);
        p[r] = (struct supply_parcel){.n = 0};
    }
}

void train_supply_close(struct train_supply *s)
{
    empty(s->now.out, s->ranks);
    empty(s->now.in, s->ranks);
    free(s->now.out);
    free(s->now.in);
    free(s->first);
    free(s->last);
    pdl_io_close(s->io);
    pdl_store_close(s->store);
    pdl_comm_destroy(s->comm);
    *s = (struct train_supply){.comm = NULL};
}

/* ---- exchange --------------------------------------------------------- */

/* Moves of an epoch that have begun before step `index`. */
static int64_t due(const struct train_supply *s, int64_t index)
{
    int64_t n = pdl_sampler_moves(s->sampler);
    int64_t batches = pdl_sampler_batches(s->sampler);

    return index >= batches
               ? n
               : (int64_t)((double)n * (double)index / (double)batches);
}

static bool add_item(const struct train_supply *s, struct supply_parcel *p,
                     char **item)
{
    int64_t each = train_supply_item_bytes(s);

    if (p->n == p->room) {
        int64_t room = p->room > 0 ? 2 * p->room : 4;
        char *more = realloc(p->data, (size_t)(room * each));

        if (!more)
            return false;
        p->data = more;
        p->room = room;
    }
    *item = p->data + p->n++ * each;
    return true;
}

/* The j-th sample of a worker of mine, to every rank that shall have it. */
static bool pack_move(struct train_supply *s, int64_t w, int64_t j)
{
    struct pdl_sampler_move m = pdl_sampler_move(s->sampler, w, j);
    char *item;

    for (int r = 0; r < s->ranks; r++)
        if (serves(s, r, m.to) && sender(s, w, m.to, r) == s->rank) {
            if (!add_item(s, &s->now.out[r], &item))
                return false;
            train_supply_pack(s, m.sample, item);
        }
    return true;
}

static bool expect_move(struct train_supply *s, int64_t w, int64_t j)
{
    struct pdl_sampler_move m = pdl_sampler_move(s->sampler, w, j);
    int from = sender(s, m.from, w, s->rank);
    char *item;

    return from < 0 || add_item(s, &s->now.in[from], &item);
}

static int list_messages(const struct train_supply *s,
                         const struct supply_parcel *p,
                         struct pdl_comm_message *out)
{
    int n = 0;

    for (int r = 0; r < s->ranks; r++)
        if (p[r].n > 0)
            out[n++] = (struct pdl_comm_message){
                .peer = r,
                .data = p[r].data,
                .bytes = p[r].n * train_supply_item_bytes(s)};
    return n;
}

static enum pdl_status start(struct train_supply *s, int64_t to,
                             struct pdl_err *err)
{
    struct pdl_comm_message *m;
    bool ok = true;
    int nout, nin;
    enum pdl_status st;

    for (int r = 0; r < s->ranks; r++)
        s->now.out[r].n = s->now.in[r].n = 0;
    for (int64_t j = s->moved; j < to && ok; j++)
        for (int64_t w = s->first[s->rank]; w < s->last[s->rank] && ok; w++)
            ok = pack_move(s, w, j) && expect_move(s, w, j);
    m = calloc(2 * (size_t)s->ranks, sizeof *m);
    if (!ok || !m) {
        free(m);
        return pdl_fail(err, PDL_ENOMEM, "out of memory for samples");
    }
    nout = list_messages(s, s->now.out, m);
    nin = list_messages(s, s->now.in, m + nout);
    st = nout + nin > 0 ? pdl_comm_start_exchange(s->comm, nout, m, nin,
                                                  m + nout, &s->now.req, err)
                        : PDL_OK;
    free(m);
    s->moved = to;
    return st;
}

/* What did not arrive whole is missed, and comes, when the epoch has ended. */
static enum pdl_status finish(struct train_supply *s, struct pdl_err *err)
{
    int64_t each = train_supply_item_bytes(s);
    double from = pdl_clock_s();
    enum pdl_status st;

    if (!s->now.req)
        return PDL_OK;
    st = pdl_comm_wait(s->now.req, err);
    s->now.req = NULL;
    for (int r = 0; r < s->ranks && st == PDL_OK; r++)
        for (int64_t i = 0; i < s->now.in[r].n; i++)
            s->exchanged +=
                train_supply_unpack(s, s->now.in[r].data + i * each) >= 0;
    s->waited_s += pdl_clock_s() - from;
    return st;
}

enum pdl_status train_supply_step(struct train_supply *s, int64_t index,
                                  struct pdl_err *err)
{
    enum pdl_status st;

    if (!s->comm)
        return PDL_OK;
    st = finish(s, err);
    return st == PDL_OK && due(s, index + 1) > s->moved
               ? start(s, due(s, index + 1), err)
               : st;
}

/* ---- epochs ----------------------------------------------------------- */

static void note_size(struct train_supply *s)
{
    struct pdl_store_info info;

    if (!s->store)
        return;
    pdl_store_describe(s->store, &info);
    s->most_bytes =
        info.file_bytes > s->most_bytes ? info.file_bytes : s->most_bytes;
}

enum pdl_status train_supply_settle(struct train_supply *s, int64_t index,
                                    struct pdl_err *err)
{
    int64_t *want, n;
    enum pdl_status st;

    if (!s->comm)
        return PDL_OK;
    st = finish(s, err);
    want = malloc((size_t)(capacity(s) + 1) * sizeof *want);
    if (!want)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for samples");
    s->moved = due(s, index);
    n = list_wanted(s, s->moved, want);
    if (st == PDL_OK)
        st = train_supply_refill(s, want, n, err);
    if (st == PDL_OK && s->store)
        st = pdl_store_resize(s->store, capacity(s), err);
    note_size(s);
    free(want);
    return st;
}

/* All ranks have what they were sent, and only then old copies go: settle
 * drops them. */
enum pdl_status train_supply_end(struct train_supply *s, struct pdl_err *err)
{
    enum pdl_status st;

    if (!s->comm)
        return PDL_OK;
    st = train_supply_step(s, pdl_sampler_batches(s->sampler), err);
    if (st == PDL_OK)
        st = finish(s, err);
    return st;
}
