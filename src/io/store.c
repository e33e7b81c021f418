/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples in a store: found by a hash table of their ids, put into free slots,
 * dropped. A checksum is looked at when the sample is read for the first time
 * since the store was opened. */
#include "guard.h"
#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
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

/* What is done with a sample: the fields that the act needs. */
struct touch {
    int64_t sample, slot;
    void *to;
    const void *from;
    uint64_t sum; /* of it */
    const struct pdl_box *box;
    bool target;
};
typedef enum pdl_status act(pdl_store *s, struct touch *t, struct pdl_err *err);

/* Whatever looks at the file does so under the lock, and comes back here where
 * the file has become shorter. The handler was set when the store was opened:
 * setting it takes as long as reading a small sample. */
static enum pdl_status under_lock(pdl_store *s, bool writes, act *does,
                                  struct touch *t, struct pdl_err *err)
{
    struct io_guard g;
    enum pdl_status st;

    if (writes)
        pthread_rwlock_wrlock(&s->lock);
    else
        pthread_rwlock_rdlock(&s->lock);
    io_guard_push(&g);
    if (sigsetjmp(g.jump, 0) == 0)
        st = does(s, t, err);
    else
        st = io_guard_shorter(s->path, err);
    io_guard_end(&g);
    pthread_rwlock_unlock(&s->lock);
    return st;
}

int64_t pdl_store_count(const pdl_store *s)
{
    return s->count;
}

static enum pdl_status find(pdl_store *s, struct touch *t, struct pdl_err *err)
{
    t->slot = slot_of(s, t->sample);
    return t->slot >= 0 ? PDL_OK
                        : pdl_fail(err, PDL_EINVAL,
                                   "%s: sample %lld is not in this store",
                                   s->path, (long long)t->sample);
}

bool pdl_store_has(pdl_store *s, int64_t sample)
{
    struct touch t = {.sample = sample};

    return under_lock(s, false, find, &t, NULL) == PDL_OK;
}

static enum pdl_status look(pdl_store *s, struct touch *t, struct pdl_err *err)
{
    (void)err;
    t->sample = s->line[t->slot].sample;
    return PDL_OK;
}

int64_t pdl_store_at(pdl_store *s, int64_t slot)
{
    struct touch t = {.slot = slot};

    if (slot < 0 || slot >= s->h.capacity ||
        under_lock(s, false, look, &t, NULL) != PDL_OK)
        return -1;
    return t.sample;
}

/* Whether it was looked at before or not. */
static enum pdl_status verify(pdl_store *s, struct touch *t,
                              struct pdl_err *err)
{
    enum pdl_status st = find(s, t, err);

    if (st == PDL_OK &&
        pdl_store_sum(s, t->sample, io_store_slot(s, t->slot)) !=
            s->line[t->slot].sum)
        st = pdl_fail(err, PDL_EPARSE,
                      "%s: sample %lld is damaged: its checksum is another",
                      s->path, (long long)t->sample);
    return st;
}

/* Threads may both look: they write the same. */
static enum pdl_status find_good(pdl_store *s, struct touch *t,
                                 struct pdl_err *err)
{
    enum pdl_status st = find(s, t, err);

    if (st != PDL_OK ||
        __atomic_load_n(&s->verified[t->slot], __ATOMIC_RELAXED))
        return st;
    st = verify(s, t, err);
    if (st == PDL_OK)
        __atomic_store_n(&s->verified[t->slot], 1, __ATOMIC_RELAXED);
    return st;
}

static enum pdl_status get(pdl_store *s, struct touch *t, struct pdl_err *err)
{
    enum pdl_status st = find_good(s, t, err);

    if (st == PDL_OK)
        memcpy(t->to, io_store_slot(s, t->slot), (size_t)s->h.record_bytes);
    return st;
}

enum pdl_status pdl_store_get(pdl_store *s, int64_t sample, void *record,
                              struct pdl_err *err)
{
    struct touch t = {.sample = sample, .to = record};

    return under_lock(s, false, get, &t, err);
}

enum pdl_status pdl_store_check(pdl_store *s, int64_t sample,
                                struct pdl_err *err)
{
    struct touch t = {.sample = sample};

    return under_lock(s, false, verify, &t, err);
}

static enum pdl_status get_part(pdl_store *s, struct touch *t,
                                struct pdl_err *err)
{
    struct io_array a = t->target ? s->target : s->input;
    bool integer = (t->target ? s->h.target : s->h.input).integer != 0;
    enum pdl_status st = find_good(s, t, err);

    if (st == PDL_OK) {
        a.at = io_store_slot(s, t->slot) + (t->target ? s->target_at : 0);
        io_array_read(&a, 0, t->box, integer, t->to);
    }
    return st;
}

enum pdl_status pdl_store_part(pdl_store *s, int64_t sample, bool target,
                               const struct pdl_box *box, void *dst,
                               struct pdl_err *err)
{
    struct touch t = {
        .sample = sample, .to = dst, .box = box, .target = target};

    return under_lock(s, false, get_part, &t, err);
}

static bool is_shorter(const pdl_store *s)
{
    struct stat sb;

    return fstat(s->fd, &sb) != 0 || sb.st_size < (off_t)s->map_bytes;
}

/* Long records are written: in a mapped page that nobody has read the kernel
 * would make zeros first. A file that somebody has cut must not grow by that:
 * the zeros between would be taken for samples. */
static enum pdl_status copy_record(pdl_store *s, int64_t slot, const char *from,
                                   struct pdl_err *err)
{
    enum { LONG = 16384 };
    unsigned char *to = io_store_slot(s, slot);
    int64_t left = s->h.record_bytes;

    if (left < LONG) {
        memcpy(to, from, (size_t)left);
        return PDL_OK;
    }
    if (is_shorter(s))
        return io_guard_shorter(s->path, err);
    while (left > 0) {
        ssize_t n = pwrite(s->fd, from, (size_t)left, to - s->map);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return pdl_fail(err, PDL_EIO, "%s: %s", s->path,
                            strerror(n < 0 ? errno : ENOSPC));
        from += n;
        to += n;
        left -= n;
    }
    return PDL_OK;
}

/* Into the slot that it has, or a free one. */
static enum pdl_status put(pdl_store *s, struct touch *t, struct pdl_err *err)
{
    int64_t at = probe(s, t->sample), slot = s->table[at];
    bool fresh = slot < 0;
    enum pdl_status st;

    if (fresh && s->nfree == 0)
        return pdl_fail(err, PDL_EINVAL,
                        "%s: the store is full: %lld samples of %lld bytes",
                        s->path, (long long)s->h.capacity,
                        (long long)s->h.record_bytes);
    slot = fresh ? s->free[s->nfree - 1] : slot;
    st = copy_record(s, slot, t->from, err);
    if (st != PDL_OK)
        return st;
    s->line[slot].sum = t->sum;
    s->verified[slot] = 1;
    __atomic_store_n(&s->line[slot].sample, t->sample, __ATOMIC_RELEASE);
    s->table[at] = (int32_t)slot;
    s->nfree -= fresh;
    s->count += fresh;
    s->healed += !fresh;
    return PDL_OK;
}

enum pdl_status pdl_store_put(pdl_store *s, int64_t sample, const void *record,
                              struct pdl_err *err)
{
    struct touch t = {.sample = sample, .from = record};

    if (sample < 0 || sample >= s->h.samples)
        return pdl_fail(err, PDL_EINVAL, "%s: no sample %lld", s->path,
                        (long long)sample);
    t.sum = pdl_store_sum(s, sample, record); /* others need not wait for it */
    return under_lock(s, true, put, &t, err);
}

static enum pdl_status drop(pdl_store *s, struct touch *t, struct pdl_err *err)
{
    int64_t at = probe(s, t->sample), slot = s->table[at];

    (void)err;
    if (slot < 0)
        return PDL_OK;
    forget(s, at);
    __atomic_store_n(&s->line[slot].sample, -1, __ATOMIC_RELEASE);
    s->verified[slot] = 0;
    s->free[s->nfree++] = (int32_t)slot;
    s->count--;
    return PDL_OK;
}

void pdl_store_drop(pdl_store *s, int64_t sample)
{
    struct touch t = {.sample = sample};

    (void)under_lock(s, true, drop, &t, NULL);
}
