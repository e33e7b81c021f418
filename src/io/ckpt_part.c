/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a checkpoint, one rank's part: in DIR/step-N.tmp a file of data and,
 * when that is on the disk, part-RRRRR.json, which says what is in it. Nobody
 * looks into a .tmp folder but rank 0, which joins the parts (ckpt_commit.c);
 * so a checkpoint is there whole or not at all, wherever a process dies. */
#include "ckpt_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static const int64_t USUAL_CHUNK = 1 << 20;

static const char *const phase_names[] = {
#define X(name, text) text,
    PDL_CKPT_PHASE_LIST(X)
#undef X
};

const char *pdl_ckpt_phase_name(enum pdl_ckpt_phase p)
{
    return p < PDL_NCKPT_PHASES ? phase_names[p] : "?";
}

void io_ckpt_at(const struct pdl_ckpt_writer *w, enum pdl_ckpt_phase p)
{
    if (w->at)
        w->at(w->ctx, p);
}

static bool holds(const struct pdl_box *a, const struct pdl_box *b)
{
    for (int d = 0; d < b->ndims; d++)
        if (b->lo[d] < a->lo[d] || b->hi[d] > a->hi[d])
            return false;
    return true;
}

bool pdl_ckpt_owns(const struct pdl_box *boxes, int nranks, int rank)
{
    if (rank < 0 || rank >= nranks || pdl_box_empty(&boxes[rank]))
        return false;
    for (int r = 0; r < rank; r++)
        if (!pdl_box_empty(&boxes[r]) && holds(&boxes[r], &boxes[rank]))
            return false;
    return true;
}

enum pdl_status io_ckpt_no_memory(const struct pdl_ckpt_writer *w,
                                  struct pdl_err *err)
{
    return pdl_fail(err, PDL_ENOMEM, "%s: out of memory for a checkpoint",
                    w->dir);
}

static enum pdl_status open_folders(struct io_work *k)
{
    if (mkdir(k->w->dir, 0777) != 0 && errno != EEXIST)
        return io_sys_fail(k->err, k->w->dir);
    k->dir = open(k->w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (k->dir < 0)
        return io_sys_fail(k->err, k->w->dir);
    k->tmp = io_make_folder(k->dir, k->temporary_name);
    return k->tmp < 0 ? io_sys_fail(k->err, k->temporary) : PDL_OK;
}

enum pdl_status io_ckpt_begin(struct io_work *k,
                              const struct pdl_ckpt_writer *w,
                              const struct pdl_ckpt_state *s,
                              struct pdl_err *err)
{
    *k = (struct io_work){.w = w, .err = err, .dir = -1, .tmp = -1};
    k->c.fd = -1;
    k->c.arena = pdl_arena_create((size_t)8 << 30);
    if (!k->c.arena)
        return io_ckpt_no_memory(w, err);
    k->c.state = *s;
    k->c.state.nranks = w->nranks;
    k->c.run = w->run;
    k->c.owner = w->owner;
    k->c.chunk_bytes = w->chunk_bytes > 0 ? w->chunk_bytes : USUAL_CHUNK;
    snprintf(k->name, sizeof k->name, "step-%" PRId64, s->step);
    snprintf(k->temporary_name, sizeof k->temporary_name, "%s.tmp", k->name);
    k->c.path = pdl_arena_printf(k->c.arena, "%s/%s", w->dir, k->name);
    k->temporary = pdl_arena_printf(k->c.arena, "%s.tmp", k->c.path);
    return k->c.path && k->temporary ? open_folders(k)
                                     : io_ckpt_no_memory(w, err);
}

void io_ckpt_end(struct io_work *k)
{
    if (k->tmp >= 0)
        close(k->tmp);
    if (k->dir >= 0)
        close(k->dir);
    pdl_arena_destroy(k->c.arena);
}

/* ---- one rank's part ---- */

/* Checks a shard, and describes it as it will lie in the file. */
static enum pdl_status describe(struct io_work *k, const struct pdl_shard *s,
                                int64_t offset, struct io_tensor *t)
{
    struct io_shard *d = PDL_NEW(k->c.arena, struct io_shard, 1);
    struct pdl_box whole = {.ndims = s->rank};

    if (!d)
        return io_ckpt_no_memory(k->w, k->err);
    memcpy(whole.hi, s->dim, sizeof s->dim);
    *d = (struct io_shard){.offset = offset, .box = s->box};
    if (s->rank < 0 || s->rank > PDL_MAX_RANK || s->box.ndims != s->rank ||
        pdl_dtype_bits(s->dtype) < 8 || !holds(&whole, &s->box) ||
        !io_box_bytes(&s->box, s->dtype, &d->bytes))
        return pdl_fail(k->err, PDL_EINVAL,
                        "'%s' cannot be saved: its type, or a box outside it",
                        s->name);
    d->nchunks =
        d->bytes / k->c.chunk_bytes + (d->bytes % k->c.chunk_bytes > 0 ? 1 : 0);
    d->sum = PDL_NEW(k->c.arena, uint64_t, d->nchunks + 1);
    if (!d->sum)
        return io_ckpt_no_memory(k->w, k->err);
    *t = (struct io_tensor){
        .pub = {.name = s->name, .dtype = s->dtype, .rank = s->rank},
        .nshards = 1,
        .shard = d,
    };
    memcpy(t->pub.dim, s->dim, sizeof s->dim);
    return PDL_OK;
}

static bool write_shard(struct io_work *k, int fd, const struct pdl_shard *s,
                        struct io_shard *d)
{
    const char *p = s->data;

    for (int64_t i = 0; i < d->nchunks; i++) {
        int64_t left = d->bytes - i * k->c.chunk_bytes;
        size_t n = (size_t)(left < k->c.chunk_bytes ? left : k->c.chunk_bytes);

        d->sum[i] = XXH3_64bits(p, n);
        if (!io_write_all(fd, p, n))
            return false;
        p += n;
        io_ckpt_at(k->w, PDL_CKPT_DATA);
    }
    return true;
}

/* What was begun and failed is removed: a full disk needs the room. */
static enum pdl_status write_file(struct io_work *k,
                                  const struct pdl_shard *shards, int n)
{
    const char *name = k->c.file->name;
    int fd = io_create(k->tmp, name);
    bool ok = fd >= 0;
    enum pdl_status st = PDL_OK;

    for (int i = 0; i < n && ok; i++)
        ok = write_shard(k, fd, &shards[i], k->c.tensor[i].shard);
    ok = ok && fsync(fd) == 0;
    if (!ok)
        st = io_sys_fail(k->err, k->temporary);
    if (fd >= 0)
        close(fd);
    if (fd >= 0 && !ok)
        (void)unlinkat(k->tmp, name, 0);
    return st;
}

static enum pdl_status write_data(struct io_work *k,
                                  const struct pdl_shard *shards, int n)
{
    struct io_file *f = PDL_NEW(k->c.arena, struct io_file, 1);
    const char *name = pdl_arena_printf(
        k->c.arena, "data-%05d-%016" PRIx64 ".bin", k->w->rank, k->w->run);

    k->c.tensor = PDL_NEW(k->c.arena, struct io_tensor, n + 1);
    if (!f || !name || !k->c.tensor)
        return io_ckpt_no_memory(k->w, k->err);
    *f = (struct io_file){name, 0};
    k->c.file = f;
    k->c.nfiles = 1;
    for (int i = 0; i < n; i++) {
        enum pdl_status st = describe(k, &shards[i], f->bytes, &k->c.tensor[i]);

        if (st != PDL_OK)
            return st;
        k->c.ntensors++;
        f->bytes += k->c.tensor[i].shard->bytes;
    }
    return write_file(k, shards, n);
}

enum pdl_status io_ckpt_text(struct io_work *k, const char *name)
{
    struct pdl_buf text;
    enum pdl_status st;

    pdl_buf_init(&text);
    st = io_manifest_print(&k->c, &text, k->err);
    if (st == PDL_OK && !io_write_file(k->tmp, name, text.text, text.len))
        st = io_sys_fail(k->err, k->temporary);
    pdl_buf_free(&text);
    return st;
}

enum pdl_status pdl_ckpt_part(const struct pdl_ckpt_writer *w,
                              const struct pdl_ckpt_state *s,
                              const struct pdl_shard *shards, int n,
                              struct pdl_err *err)
{
    struct io_work k;
    enum pdl_status st = io_ckpt_begin(&k, w, s, err);
    char name[32];

    snprintf(name, sizeof name, "part-%05d.json", w->rank);
    if (st == PDL_OK) {
        io_ckpt_at(w, PDL_CKPT_FOLDER);
        st = write_data(&k, shards, n);
    }
    if (st == PDL_OK) {
        io_ckpt_at(w, PDL_CKPT_SYNCED);
        st = io_ckpt_text(&k, name);
    }
    if (st == PDL_OK)
        io_ckpt_at(w, PDL_CKPT_PART);
    else if (w->rank == 0 && k.dir >= 0) /* nobody will join the others' */
        (void)io_remove_folder(k.dir, k.temporary_name, k.temporary, NULL);
    io_ckpt_end(&k);
    return st;
}
