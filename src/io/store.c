/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples in a store: found by a hash table of their ids, put into free slots,
 * dropped. A checksum is looked at when the sample is read for the first time
 * since the store was opened. */
#include "store.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

uint64_t pdl_store_sum(const pdl_store *s, int64_t sample, const void *record)
{
    return XXH3_64bits_withSeed(record, (size_t)s->h.record_bytes,
                                (uint64_t)sample);
}

/* ---- the table ----------------------------------------------------------- */

static int64_t place_of(const pdl_store *s, int64_t sample)
{
    uint64_t x = (uint64_t)sample * 0x9e3779b97f4a7c15U;

    return (int64_t)(x >> 20) & (s->table_size - 1);
}

/* Where it is, or the empty place where it would be. */
static int64_t probe(const pdl_store *s, int64_t sample)
{
    int64_t at = place_of(s, sample);

    while (s->table[at] >= 0 && s->line[s->table[at]].sample != sample)
        at = (at + 1) & (s->table_size - 1);
    return at;
}

static int64_t slot_of(const pdl_store *s, int64_t sample)
{
    return s->table[probe(s, sample)];
}

/* Those behind it that would not be found any more move up. */
static void forget(pdl_store *s, int64_t at)
{
    int64_t mask = s->table_size - 1, next = at;

    s->table[at] = -1;
    for (;;) {
        int64_t home;

        next = (next + 1) & mask;
        if (s->table[next] < 0)
            return;
        home = place_of(s, s->line[s->table[next]].sample);
        if (((next - home) & mask) < ((next - at) & mask))
            continue;
        s->table[at] = s->table[next];
        s->table[next] = -1;
        at = next;
    }
}

/* Lines that say what cannot be are free slots: the samples come again. */
enum pdl_status io_store_index(pdl_store *s, struct pdl_err *err)
{
    int64_t n = s->h.capacity;

    for (s->table_size = 16; s->table_size < 2 * n;)
        s->table_size *= 2;
    free(s->table);
    free(s->free);
    free(s->verified);
    s->table = malloc((size_t)s->table_size * sizeof *s->table);
    s->free = malloc((size_t)(n + 1) * sizeof *s->free);
    s->verified = calloc((size_t)n + 1, 1);
    if (!s->table || !s->free || !s->verified)
        return pdl_fail(err, PDL_ENOMEM, "%s: out of memory", s->path);
    memset(s->table, 0xff, (size_t)s->table_size * sizeof *s->table);
    s->count = s->nfree = s->dropped = 0;
    for (int64_t i = n - 1; i >= 0; i--) {
        int64_t x = s->line[i].sample, at;

        if (x >= 0 && x < s->h.samples && s->table[at = probe(s, x)] < 0) {
            s->table[at] = (int32_t)i;
            s->count++;
            continue;
        }
        s->dropped += x != -1;
        if (s->writable)
            s->line[i].sample = -1;
        s->free[s->nfree++] = (int32_t)i;
    }
    return PDL_OK;
}

/* ---- samples ------------------------------------------------------------- */

int64_t pdl_store_count(const pdl_store *s)
{
    return s->count;
}

bool pdl_store_has(pdl_store *s, int64_t sample)
{
    bool has;

    pthread_rwlock_rdlock(&s->lock);
    has = slot_of(s, sample) >= 0;
    pthread_rwlock_unlock(&s->lock);
    return has;
}

int64_t pdl_store_at(const pdl_store *s, int64_t slot)
{
    return slot >= 0 && slot < s->h.capacity ? s->line[slot].sample : -1;
}

static enum pdl_status damaged(const pdl_store *s, int64_t sample,
                               struct pdl_err *err)
{
    return pdl_fail(err, PDL_EPARSE,
                    "%s: sample %lld is damaged: its checksum is another",
                    s->path, (long long)sample);
}

static enum pdl_status absent(const pdl_store *s, int64_t sample,
                              struct pdl_err *err)
{
    return pdl_fail(err, PDL_EINVAL, "%s: sample %lld is not in this store",
                    s->path, (long long)sample);
}

/* Under the lock. Threads may both look: they write the same. */
static bool is_good(const pdl_store *s, int64_t slot)
{
    const struct store_line *l = &s->line[slot];

    if (!__atomic_load_n(&s->verified[slot], __ATOMIC_RELAXED)) {
        if (pdl_store_sum(s, l->sample, io_store_slot(s, slot)) != l->sum)
            return false;
        __atomic_store_n(&s->verified[slot], 1, __ATOMIC_RELAXED);
    }
    return true;
}

enum pdl_status pdl_store_get(pdl_store *s, int64_t sample, void *record,
                              struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    int64_t slot;

    pthread_rwlock_rdlock(&s->lock);
    slot = slot_of(s, sample);
    if (slot < 0)
        st = absent(s, sample, err);
    else if (!is_good(s, slot))
        st = damaged(s, sample, err);
    else
        memcpy(record, io_store_slot(s, slot), (size_t)s->h.record_bytes);
    pthread_rwlock_unlock(&s->lock);
    return st;
}

enum pdl_status pdl_store_check(pdl_store *s, int64_t sample,
                                struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    int64_t slot;

    pthread_rwlock_rdlock(&s->lock);
    slot = slot_of(s, sample);
    if (slot < 0)
        st = absent(s, sample, err);
    else if (pdl_store_sum(s, sample, io_store_slot(s, slot)) !=
             s->line[slot].sum)
        st = damaged(s, sample, err);
    pthread_rwlock_unlock(&s->lock);
    return st;
}

enum pdl_status pdl_store_part(pdl_store *s, int64_t sample, bool target,
                               const struct pdl_box *box, void *dst,
                               struct pdl_err *err)
{
    struct io_array a = target ? s->target : s->input;
    bool integer = (target ? s->h.target : s->h.input).integer != 0;
    enum pdl_status st = PDL_OK;
    int64_t slot;

    pthread_rwlock_rdlock(&s->lock);
    slot = slot_of(s, sample);
    if (slot < 0)
        st = absent(s, sample, err);
    else if (!is_good(s, slot))
        st = damaged(s, sample, err);
    if (st == PDL_OK) {
        a.at = io_store_slot(s, slot) + (target ? s->target_at : 0);
        io_array_read(&a, 0, box, integer, dst);
    }
    pthread_rwlock_unlock(&s->lock);
    return st;
}

enum pdl_status pdl_store_put(pdl_store *s, int64_t sample, const void *record,
                              struct pdl_err *err)
{
    enum pdl_status st = PDL_OK;
    int64_t at, slot;

    pthread_rwlock_wrlock(&s->lock);
    at = probe(s, sample);
    slot = s->table[at];
    if (sample < 0 || sample >= s->h.samples) {
        st = pdl_fail(err, PDL_EINVAL, "%s: no sample %lld", s->path,
                      (long long)sample);
    } else if (slot < 0 && s->nfree == 0) {
        st = pdl_fail(err, PDL_EINVAL,
                      "%s: the store is full: %lld samples of %lld bytes",
                      s->path, (long long)s->h.capacity,
                      (long long)s->h.record_bytes);
    } else {
        bool fresh = slot < 0;

        slot = fresh ? s->free[s->nfree - 1] : slot;
        memcpy(io_store_slot(s, slot), record, (size_t)s->h.record_bytes);
        s->line[slot].sum = pdl_store_sum(s, sample, record);
        s->verified[slot] = 1;
        __atomic_store_n(&s->line[slot].sample, sample, __ATOMIC_RELEASE);
        s->table[at] = (int32_t)slot;
        s->nfree -= fresh;
        s->count += fresh;
        s->healed += !fresh;
    }
    pthread_rwlock_unlock(&s->lock);
    return st;
}

void pdl_store_drop(pdl_store *s, int64_t sample)
{
    int64_t at, slot;

    pthread_rwlock_wrlock(&s->lock);
    at = probe(s, sample);
    slot = s->table[at];
    if (slot >= 0) {
        forget(s, at);
        __atomic_store_n(&s->line[slot].sample, -1, __ATOMIC_RELEASE);
        s->verified[slot] = 0;
        s->free[s->nfree++] = (int32_t)slot;
        s->count--;
    }
    pthread_rwlock_unlock(&s->lock);
}
