/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing a checkpoint. In DIR/step-N.tmp every rank writes one file of data
 * and, when that is on the disk, part-RRRRR.json, which says what is in it.
 * Rank 0 waits until it sees the parts of all ranks (in the file system: a
 * background thread must not talk to other ranks), joins them to
 * manifest.json and renames the folder to step-N. Nobody looks into a .tmp
 * folder, so a checkpoint is there whole or not at all, wherever a process
 * dies.
 *
 * Parts carry the number of the run that wrote them: those a dead run left
 * for the same step are not taken for ours, and are removed with everything
 * else that the manifest does not name. An older step-N is exchanged with the
 * new one in one call. */
#include "ckpt_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

enum { MAX_PART = 1 << 30 };
static const int64_t USUAL_CHUNK = 1 << 20;
static const double USUAL_TIMEOUT_S = 600;

static const char *const phase_names[] = {
#define X(name, text) text,
    PDL_CKPT_PHASE_LIST(X)
#undef X
};

const char *pdl_ckpt_phase_name(enum pdl_ckpt_phase p)
{
    return p < PDL_NCKPT_PHASES ? phase_names[p] : "?";
}

static void at(const struct pdl_ckpt_writer *w, enum pdl_ckpt_phase p)
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

static enum pdl_status no_memory(const struct pdl_ckpt_writer *w,
                                 struct pdl_err *err)
{
    return pdl_fail(err, PDL_ENOMEM, "%s: out of memory for a checkpoint",
                    w->dir);
}

static enum pdl_status sys_fail(struct pdl_err *err, const char *path)
{
    return pdl_fail(err, PDL_EIO, "%s: %s", path, strerror(errno));
}

/* What one rank or rank 0 is doing. */
struct work {
    const struct pdl_ckpt_writer *w;
    struct pdl_ckpt c; /* of this rank, or the whole */
    const char *temporary;
    struct pdl_err *err;
};

static enum pdl_status begin(struct work *k, const struct pdl_ckpt_writer *w,
                             const struct pdl_ckpt_state *s,
                             struct pdl_err *err)
{
    *k = (struct work){.w = w, .err = err};
    k->c.arena = pdl_arena_create((size_t)8 << 30);
    if (!k->c.arena)
        return no_memory(w, err);
    k->c.state = *s;
    k->c.state.nranks = w->nranks;
    k->c.run = w->run;
    k->c.chunk_bytes = w->chunk_bytes > 0 ? w->chunk_bytes : USUAL_CHUNK;
    k->c.path =
        pdl_arena_printf(k->c.arena, "%s/step-%" PRId64, w->dir, s->step);
    k->temporary = pdl_arena_printf(k->c.arena, "%s/step-%" PRId64 ".tmp",
                                    w->dir, s->step);
    return k->c.path && k->temporary ? PDL_OK : no_memory(w, err);
}

/* ---- one rank's part ---- */

/* Folders on the way; another rank may be first. */
static enum pdl_status make_folder(const char *path, struct pdl_err *err)
{
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return sys_fail(err, path);
    return PDL_OK;
}

/* Checks a shard, and describes it as it will lie in the file. */
static enum pdl_status describe(struct work *k, const struct pdl_shard *s,
                                int64_t offset, struct io_tensor *t)
{
    struct io_shard *d = PDL_NEW(k->c.arena, struct io_shard, 1);
    struct pdl_box whole = {.ndims = s->rank};

    if (!d)
        return no_memory(k->w, k->err);
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
        return no_memory(k->w, k->err);
    *t = (struct io_tensor){
        .pub = {.name = s->name, .dtype = s->dtype, .rank = s->rank},
        .nshards = 1,
        .shard = d,
    };
    memcpy(t->pub.dim, s->dim, sizeof s->dim);
    return PDL_OK;
}

static bool write_shard(struct work *k, int fd, const struct pdl_shard *s,
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
        at(k->w, PDL_CKPT_DATA);
    }
    return true;
}

static enum pdl_status write_data(struct work *k,
                                  const struct pdl_shard *shards, int n)
{
    struct io_file *f = PDL_NEW(k->c.arena, struct io_file, 1);
    char name[64];
    const char *path;
    bool ok = true;
    int fd;

    snprintf(name, sizeof name, "data-%05d-%016" PRIx64 ".bin", k->w->rank,
             k->w->run);
    path = pdl_arena_printf(k->c.arena, "%s/%s", k->temporary, name);
    k->c.tensor = PDL_NEW(k->c.arena, struct io_tensor, n + 1);
    if (!f || !path || !k->c.tensor)
        return no_memory(k->w, k->err);
    *f = (struct io_file){strrchr(path, '/') + 1, 0};
    k->c.file = f;
    k->c.nfiles = 1;
    for (int i = 0; i < n; i++) {
        enum pdl_status st = describe(k, &shards[i], f->bytes, &k->c.tensor[i]);

        if (st != PDL_OK)
            return st;
        k->c.ntensors++;
        f->bytes += k->c.tensor[i].shard->bytes;
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    for (int i = 0; i < n && fd >= 0 && ok; i++)
        ok = write_shard(k, fd, &shards[i], k->c.tensor[i].shard);
    ok = fd >= 0 && ok && fsync(fd) == 0;
    if (!ok)
        sys_fail(k->err, path);
    if (fd >= 0)
        close(fd);
    return ok ? PDL_OK : PDL_EIO;
}

static enum pdl_status write_text(struct work *k, const char *name)
{
    const char *path =
        pdl_arena_printf(k->c.arena, "%s/%s", k->temporary, name);
    struct pdl_buf text;
    enum pdl_status st;

    if (!path)
        return no_memory(k->w, k->err);
    pdl_buf_init(&text);
    st = io_manifest_print(&k->c, &text, k->err);
    if (st == PDL_OK)
        st = pdl_file_write(path, text.text, text.len, k->err);
    pdl_buf_free(&text);
    return st;
}

enum pdl_status pdl_ckpt_part(const struct pdl_ckpt_writer *w,
                              const struct pdl_ckpt_state *s,
                              const struct pdl_shard *shards, int n,
                              struct pdl_err *err)
{
    struct work k;
    enum pdl_status st = begin(&k, w, s, err);
    char name[32];

    snprintf(name, sizeof name, "part-%05d.json", w->rank);
    if (st == PDL_OK)
        st = make_folder(w->dir, err);
    if (st == PDL_OK)
        st = make_folder(k.temporary, err);
    if (st == PDL_OK) {
        at(w, PDL_CKPT_FOLDER);
        st = write_data(&k, shards, n);
    }
    if (st == PDL_OK) {
        at(w, PDL_CKPT_SYNCED);
        st = write_text(&k, name);
    }
    if (st == PDL_OK)
        at(w, PDL_CKPT_PART);
    pdl_arena_destroy(k.c.arena);
    return st;
}

/* ---- joining the parts ---- */

/* The run's number stands at the beginning of a part: looked for while
 * waiting, so that a stale part is not parsed again and again. */
static bool is_ours(const struct work *k, const char *path)
{
    char head[256], want[40];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, head, sizeof head) : 0;

    if (fd >= 0)
        close(fd);
    snprintf(want, sizeof want, "\"run\": \"%016" PRIx64 "\"", k->w->run);
    return n > 0 && memmem(head, (size_t)n, want, strlen(want));
}

/* True when the part of a rank is there and of this run. */
static bool read_part(struct work *k, int rank, struct pdl_ckpt *part)
{
    struct pdl_ckpt c = {.arena = k->c.arena};
    char path[4096];
    struct pdl_bytes in;

    snprintf(path, sizeof path, "%s/part-%05d.json", k->temporary, rank);
    if (!is_ours(k, path) ||
        pdl_file_read(k->c.arena, path, MAX_PART, &in, NULL) != PDL_OK ||
        io_manifest_parse(&c, in, path, false, NULL) != PDL_OK)
        return false;
    *part = c;
    return c.run == k->w->run && c.state.step == k->c.state.step &&
           c.state.nranks == k->w->nranks && c.nfiles == 1 &&
           c.chunk_bytes == k->c.chunk_bytes;
}

static enum pdl_status wait_for_parts(struct work *k, struct pdl_ckpt *part)
{
    double limit = k->w->timeout_s > 0 ? k->w->timeout_s : USUAL_TIMEOUT_S;
    double start = pdl_clock_s();
    long pause_ns = 1000000;

    for (int r = 0; r < k->w->nranks;) {
        if (read_part(k, r, &part[r])) {
            r++;
            continue;
        }
        if (pdl_clock_s() - start > limit)
            return pdl_fail(k->err, PDL_EIO,
                            "%s: no part of rank %d after %g s", k->temporary,
                            r, limit);
        nanosleep(&(struct timespec){0, pause_ns}, NULL);
        if (pause_ns < 50000000)
            pause_ns *= 2;
    }
    return PDL_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct io_tensor *x = a, *y = b;
    int c = strcmp(x->pub.name, y->pub.name);

    return c ? c : x->shard[0].file - y->shard[0].file;
}

static bool same(const struct pdl_ckpt_tensor *a,
                 const struct pdl_ckpt_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0;
}

/* Tensors of the same name, already side by side, become one. */
static enum pdl_status join(struct work *k)
{
    struct io_tensor *t = k->c.tensor;
    int n = 0;

    for (int i = 0, j; i < k->c.ntensors; i = j) {
        struct io_shard *all;
        struct io_tensor one = t[i];

        for (j = i;
             j < k->c.ntensors && strcmp(t[j].pub.name, one.pub.name) == 0; j++)
            if (!same(&t[j].pub, &one.pub))
                return pdl_fail(k->err, PDL_EINVAL,
                                "'%s' has different shapes on two ranks",
                                one.pub.name);
        all = PDL_NEW(k->c.arena, struct io_shard, j - i);
        if (!all)
            return no_memory(k->w, k->err);
        for (int s = i; s < j; s++)
            all[s - i] = t[s].shard[0];
        one.nshards = j - i;
        one.shard = all;
        if (!io_tiles(all, one.nshards, one.pub.dim, one.pub.rank))
            return pdl_fail(k->err, PDL_EINVAL,
                            "the shards of '%s' are not the whole of it",
                            one.pub.name);
        t[n++] = one;
    }
    k->c.ntensors = n;
    return PDL_OK;
}

static enum pdl_status gather(struct work *k, struct pdl_ckpt *part)
{
    int64_t total = 0;

    for (int r = 0; r < k->w->nranks; r++)
        total += part[r].ntensors;
    k->c.file = PDL_NEW(k->c.arena, struct io_file, k->w->nranks);
    k->c.tensor = PDL_NEW(k->c.arena, struct io_tensor, total + 1);
    if (!k->c.file || !k->c.tensor)
        return no_memory(k->w, k->err);
    for (int r = 0; r < k->w->nranks; r++) {
        k->c.file[k->c.nfiles++] = part[r].file[0];
        for (int i = 0; i < part[r].ntensors; i++) {
            part[r].tensor[i].shard[0].file = r;
            k->c.tensor[k->c.ntensors++] = part[r].tensor[i];
        }
    }
    qsort(k->c.tensor, (size_t)k->c.ntensors, sizeof *k->c.tensor, by_name);
    return join(k);
}

/* Removes what the manifest does not name: parts, and files of dead runs. */
static void sweep(const struct work *k)
{
    DIR *d = opendir(k->temporary);
    struct dirent *e;

    while (d && (e = readdir(d)) != NULL) {
        bool ours = e->d_name[0] == '.' &&
                    (!e->d_name[1] || strcmp(e->d_name, "..") == 0);

        ours |= strcmp(e->d_name, "manifest.json") == 0;
        for (int i = 0; i < k->c.nfiles && !ours; i++)
            ours = strcmp(e->d_name, k->c.file[i].name) == 0;
        if (!ours)
            (void)unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d)
        closedir(d);
}

/* The one moment: before it the checkpoint is not there, after it it is. */
static enum pdl_status publish(struct work *k)
{
    enum pdl_status st = io_sync_folder(k->temporary, k->err);
    bool old = access(k->c.path, F_OK) == 0;

    if (st != PDL_OK)
        return st;
    if (old ? renameat2(AT_FDCWD, k->temporary, AT_FDCWD, k->c.path,
                        RENAME_EXCHANGE) != 0
            : rename(k->temporary, k->c.path) != 0)
        return sys_fail(k->err, k->c.path);
    at(k->w, PDL_CKPT_RENAMED);
    st = io_sync_folder(k->w->dir, k->err);
    if (st == PDL_OK && old)
        st = io_remove_folder(k->temporary, k->err);
    return st;
}

static enum pdl_status commit(struct work *k)
{
    struct pdl_ckpt *part = PDL_NEW(k->c.arena, struct pdl_ckpt, k->w->nranks);
    enum pdl_status st;

    if (!part)
        return no_memory(k->w, k->err);
    st = wait_for_parts(k, part);
    if (st == PDL_OK)
        st = gather(k, part);
    if (st != PDL_OK)
        return st;
    at(k->w, PDL_CKPT_GATHERED);
    st = write_text(k, "manifest.json");
    if (st != PDL_OK)
        return st;
    at(k->w, PDL_CKPT_MANIFEST);
    sweep(k);
    return publish(k);
}

enum pdl_status pdl_ckpt_commit(const struct pdl_ckpt_writer *w,
                                const struct pdl_ckpt_state *s,
                                struct pdl_err *err)
{
    struct work k;
    enum pdl_status st = begin(&k, w, s, err);

    if (st == PDL_OK)
        st = commit(&k);
    pdl_arena_destroy(k.c.arena);
    if (st != PDL_OK)
        return st;
    at(w, PDL_CKPT_DURABLE);
    st = pdl_ckpt_prune(w->dir, w->keep, s->step, err);
    if (st == PDL_OK)
        at(w, PDL_CKPT_PRUNED);
    return st;
}
