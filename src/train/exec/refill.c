/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples that a rank's store should hold and does not. All ranks tell what
 * they miss; who has one of these sends it, one that nobody has is read from
 * the source. Only then samples that nobody misses are dropped. Where a store
 * has no room for what comes, it gives up samples that it does not need: who
 * waits for one of these reads it from the source. So no more is ever stored
 * than was made room for, and nothing is lost that a store or the source has.
 *
 * Cost: where nothing is missing one number is summed; else lists of what is,
 * on all ranks. */
#include "train/exec/supply.h"

#include <stdlib.h>
#include <string.h>

/* ---- one sample on its way -------------------------------------------- */

struct item_head {
    int64_t sample; /* -1: it is not there */
    uint64_t sum;
};

int64_t train_supply_item_bytes(const struct train_supply *s)
{
    return (int64_t)sizeof(struct item_head) + s->record_bytes;
}

void train_supply_pack(struct train_supply *s, int64_t sample, char *item)
{
    struct item_head h = {-1, 0};
    char *record = item + sizeof h;

    if (s->store && pdl_store_get(s->store, sample, record, NULL) == PDL_OK)
        h = (struct item_head){sample, pdl_store_sum(s->store, sample, record)};
    else
        memset(record, 0, (size_t)s->record_bytes);
    memcpy(item, &h, sizeof h);
}

int64_t train_supply_unpack(struct train_supply *s, const char *item)
{
    struct item_head h;

    memcpy(&h, item, sizeof h);
    if (h.sample < 0 || !s->store ||
        pdl_store_sum(s->store, h.sample, item + sizeof h) != h.sum ||
        pdl_store_put(s->store, h.sample, item + sizeof h, NULL) != PDL_OK)
        return -1;
    return h.sample;
}

/* ---- what is missing -------------------------------------------------- */

struct missing {
    int64_t *sample, n; /* of all ranks, in their order */
    int64_t mine, count;
    int32_t *owner; /* its rank and 1; 0: nobody */
    int32_t *rank;  /* who misses it */
};

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static enum pdl_status sum(struct train_supply *s, void *x, int64_t n,
                           enum pdl_comm_type type, enum pdl_comm_op op,
                           struct pdl_err *err)
{
    if (s->ranks == 1 || n == 0)
        return PDL_OK;
    return pdl_comm_allreduce(s->comm, x, x, n, type, op, err);
}

/* How many each rank misses, and where its part of the list begins. */
static enum pdl_status count_missing(struct train_supply *s,
                                     const int64_t *want, int64_t n,
                                     int64_t *counts, struct pdl_err *err)
{
    memset(counts, 0, (size_t)s->ranks * sizeof *counts);
    for (int64_t i = 0; i < n; i++)
        counts[s->rank] += !pdl_store_has(s->store, want[i]);
    return sum(s, counts, s->ranks, PDL_COMM_I64, PDL_COMM_SUM, err);
}

static enum pdl_status list_missing(struct train_supply *s, const int64_t *want,
                                    int64_t n, const int64_t *counts,
                                    struct missing *m, struct pdl_err *err)
{
    int64_t at = 0, k = 0;
    enum pdl_status st;

    for (int r = 0; r < s->ranks; r++)
        m->n += counts[r];
    m->sample = calloc((size_t)m->n + 1, sizeof *m->sample);
    m->owner = calloc((size_t)m->n + 1, sizeof *m->owner);
    m->rank = calloc((size_t)m->n + 1, sizeof *m->rank);
    if (!m->sample || !m->owner || !m->rank)
        return pdl_fail(err, PDL_ENOMEM, "out of memory for samples");
    for (int r = 0; r < s->ranks; r++) {
        if (r == s->rank)
            m->mine = at;
        for (int64_t i = 0; i < counts[r]; i++)
            m->rank[at++] = r;
    }
    m->count = counts[s->rank];
    for (int64_t i = 0; i < n; i++)
        if (!pdl_store_has(s->store, want[i]))
            m->sample[m->mine + k++] = want[i];
    st = sum(s, m->sample, m->n, PDL_COMM_I64, PDL_COMM_SUM, err);
    for (int64_t i = 0; i < m->n && s->store; i++)
        if (m->rank[i] != s->rank && pdl_store_has(s->store, m->sample[i]))
            m->owner[i] = s->rank + 1;
    return st == PDL_OK
               ? sum(s, m->owner, m->n, PDL_COMM_I32, PDL_COMM_MAX, err)
               : st;
}

/* ---- from other ranks ------------------------------------------------- */

/* Room for one more: a sample that is not wanted here goes. */
static void make_room(struct train_supply *s, const int64_t *want, int64_t n,
                      int64_t *from)
{
    struct pdl_store_info info;

    pdl_store_describe(s->store, &info);
    if (info.count < info.capacity)
        return;
    for (; *from < info.capacity; ++*from) {
        int64_t x = pdl_store_at(s->store, *from);

        if (x >= 0 && !bsearch(&x, want, (size_t)n, sizeof *want, by_number)) {
            pdl_store_drop(s->store, x);
            return;
        }
    }
}

/* Lines [lo, hi) of the list: one message each. */
static enum pdl_status fetch_some(struct train_supply *s,
                                  const struct missing *m, int64_t lo,
                                  int64_t hi, const int64_t *want, int64_t n,
                                  struct pdl_err *err)
{
    int64_t each = train_supply_item_bytes(s), from = 0;
    char *items = malloc((size_t)((hi - lo) * each));
    struct pdl_comm_message *out = calloc(2 * (size_t)(hi - lo), sizeof *out);
    struct pdl_comm_message *in = out ? out + (hi - lo) : NULL;
    int nout = 0, nin = 0;
    pdl_comm_request *req = NULL;
    enum pdl_status st = PDL_OK;

    if (!items || !out)
        st = pdl_fail(err, PDL_ENOMEM, "out of memory for samples");
    for (int64_t i = lo; i < hi && st == PDL_OK; i++) {
        char *item = items + (i - lo) * each;

        if (m->owner[i] == s->rank + 1) {
            train_supply_pack(s, m->sample[i], item);
            out[nout++] = (struct pdl_comm_message){
                .peer = m->rank[i], .data = item, .bytes = each};
        } else if (m->rank[i] == s->rank && m->owner[i] > 0) {
            in[nin++] = (struct pdl_comm_message){
                .peer = m->owner[i] - 1, .data = item, .bytes = each};
        }
    }
    if (st == PDL_OK)
        st = pdl_comm_start_exchange(s->comm, nout, out, nin, in, &req, err);
    if (st == PDL_OK)
        st = pdl_comm_wait(req, err);
    for (int i = 0; i < nin && st == PDL_OK; i++) {
        make_room(s, want, n, &from);
        s->from_ranks += train_supply_unpack(s, in[i].data) >= 0;
    }
    free(items);
    free(out);
    return st;
}

static enum pdl_status fetch(struct train_supply *s, const struct missing *m,
                             const int64_t *want, int64_t n,
                             struct pdl_err *err)
{
    const int64_t most = (int64_t)16 << 20; /* bytes at a time */
    int64_t step = most / train_supply_item_bytes(s);
    bool any = false;
    enum pdl_status st = PDL_OK;

    step = step < 1 ? 1 : step > 4096 ? 4096 : step;
    for (int64_t i = 0; i < m->n; i++)
        any |= m->owner[i] > 0;
    for (int64_t lo = 0; any && lo < m->n && st == PDL_OK; lo += step)
        st = fetch_some(s, m, lo, lo + step < m->n ? lo + step : m->n, want, n,
                        err);
    return st;
}

/* ---- the rest --------------------------------------------------------- */

static void drop_others(struct train_supply *s, const int64_t *want, int64_t n)
{
    struct pdl_store_info info;

    if (!s->store)
        return;
    pdl_store_describe(s->store, &info);
    for (int64_t i = 0; i < info.capacity; i++) {
        int64_t x = pdl_store_at(s->store, i);

        if (x >= 0 && !bsearch(&x, want, (size_t)n, sizeof *want, by_number))
            pdl_store_drop(s->store, x);
    }
}

/* Also what came damaged or not at all. */
static enum pdl_status from_source(struct train_supply *s, const int64_t *want,
                                   int64_t n, struct pdl_err *err)
{
    struct pdl_store_fill f = {.source = s->source,
                               .split = s->split,
                               .threads = s->threads,
                               .samples = want,
                               .n = n,
                               .cancel = s->stop};
    enum pdl_status st = s->store ? pdl_store_fill(s->store, &f, err) : PDL_OK;

    s->from_source += f.put;
    return st;
}

static enum pdl_status refill(struct train_supply *s, const int64_t *want,
                              int64_t n, int64_t *counts, struct pdl_err *err)
{
    struct missing m = {.n = 0};
    int64_t all = 0;
    enum pdl_status st = count_missing(s, want, n, counts, err);

    for (int r = 0; r < s->ranks; r++)
        all += counts[r];
    if (st == PDL_OK && all > 0) {
        st = list_missing(s, want, n, counts, &m, err);
        if (st == PDL_OK)
            st = fetch(s, &m, want, n, err);
    }
    free(m.sample);
    free(m.owner);
    free(m.rank);
    if (st != PDL_OK)
        return st;
    drop_others(s, want, n);
    return all > 0 ? from_source(s, want, n, err) : PDL_OK;
}

enum pdl_status train_supply_refill(struct train_supply *s, const int64_t *want,
                                    int64_t n, struct pdl_err *err)
{
    int64_t *sorted = malloc((size_t)(n + 1) * sizeof *sorted);
    int64_t *counts = calloc((size_t)s->ranks, sizeof *counts);
    enum pdl_status st;

    if (sorted && counts) {
        memcpy(sorted, want, (size_t)n * sizeof *sorted);
        qsort(sorted, (size_t)n, sizeof *sorted, by_number);
        st = refill(s, sorted, n, counts, err);
    } else {
        st = pdl_fail(err, PDL_ENOMEM, "out of memory for samples");
    }
    free(sorted);
    free(counts);
    return st;
}
